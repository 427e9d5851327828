//! Incidents as text of at most 80 columns, as JSON and as a Markdown table.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;

use crate::rows::{self, Rows};
use crate::text::{clean, cut};
use crate::why::{WIDTH, escaped, wrap};
use kflow_core::diagnose::finding::owner_arg;
use kflow_core::diagnose::{CauseId, Incident, Part, Subject, Verdict};
use kflow_model::units::{DAY, age, clock, counted, date_and_clock};
use kflow_model::{Nanos, PodUid};

/// Width of a length, columns: `2m41s`, with a `+` while the incident lasts.
const LENGTH: usize = 7;
/// Most pods that are named below an owner.
const NAMED: usize = 12;
/// Most verdicts in other words that are written below that of most pods.
const OTHERS: usize = 3;

/// Returns a paragraph per incident, by begin. `now` is the last moment that was searched.
///
/// `nodes` returns the node of a pod; nodes are written where the incidents are of several.
pub fn text<'w>(
    incidents: &[&Incident],
    range: (Nanos, Nanos),
    now: Nanos,
    nodes: impl Fn(&PodUid) -> Option<&'w str>,
) -> String {
    let several: BTreeSet<&str> = incidents.iter().flat_map(|i| nodes_of(i, &nodes)).collect();
    let Some(first) = incidents.first() else {
        return String::new();
    };
    // With dates if the time of day alone would be ambiguous.
    let day = |at: Nanos| at.0.div_euclid(DAY);
    let dated = day(now) != day(first.begin.min(range.0));
    let at = |at: Nanos| {
        if dated {
            date_and_clock(at, 0, 0)
        } else {
            clock(at, 3, 0)
        }
    };
    let wide = at(now).chars().count();
    let mut out = format!(
        "{:wide$}  {:>LENGTH$}  CAUSE  SUBJECT\n",
        "BEGIN (UTC)",
        "LENGTH",
        wide = wide.max(11)
    );
    for i in incidents {
        let length = length(i, now);
        let head = format!(
            "{:wide$}  {length:>LENGTH$}  {:5}  ",
            at(i.begin),
            i.verdict.cause_id(),
            wide = wide.max(11)
        );
        let room = WIDTH.saturating_sub(head.chars().count());
        let mut who = subject(i);
        if several.len() > 1 && !matches!(i.subject, Subject::Node(_)) {
            let of: Vec<&str> = nodes_of(i, &nodes).into_iter().collect();
            if !of.is_empty() {
                who.push_str(&format!(" on {}", of.join(", ")));
            }
        }
        out.push_str(&head);
        out.push_str(cut(&clean(&who), room.max(20)).trim_end());
        out.push('\n');
        for line in wrap(&clean(&i.verdict.sentence), WIDTH - 4) {
            out.push_str("    ");
            out.push_str(&line);
            out.push('\n');
        }
        for (deep, words) in below(i) {
            let indent = if deep { 6 } else { 4 };
            for line in wrap(&clean(&words), WIDTH - indent) {
                out.push_str(&" ".repeat(indent));
                out.push_str(&line);
                out.push('\n');
            }
        }
    }
    out
}

/// Returns what is written below the sentence of an incident: what else was said of its pods, as deeper lines, and their names.
fn below(i: &Incident) -> Vec<(bool, String)> {
    let others = i.others();
    let mut all: Vec<(bool, String)> = Vec::new();
    all.extend(others.iter().take(OTHERS).map(|o| (true, other(i, o))));
    if others.len() > OTHERS {
        let more = others.len() - OTHERS;
        all.push((true, format!("and {more} more in other words")));
    }
    if matches!(i.subject, Subject::Owner(_)) && (i.pods() > 0 || i.parts.len() > 1) {
        all.push((false, names(i)));
    }
    all
}

/// `3 pods: The image …`.
fn other(i: &Incident, (n, v): &(usize, &Verdict)) -> String {
    let who = match &i.subject {
        Subject::Owner(_) if !v.uid.is_empty() => counted(*n as u64, "pod"),
        _ => "also".to_owned(),
    };
    format!("{who}: {}", v.sentence)
}

/// Returns the incidents as a Markdown table, by begin.
pub fn markdown(incidents: &[&Incident], now: Nanos) -> String {
    let mut out =
        "| begin (UTC) | length | cause | subject | what |\n|---|---|---|---|---|\n".to_owned();
    for i in incidents {
        let mut what = i.verdict.sentence.clone();
        for (_, words) in below(i) {
            what.push(' ');
            what.push_str(&words);
            if !what.ends_with('.') {
                what.push('.');
            }
        }
        let row = [
            date_and_clock(i.begin, 0, 0),
            length(i, now),
            i.verdict.cause_id().to_owned(),
            escaped(&subject(i)),
            escaped(&what),
        ];
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    out
}

/// Returns how long an incident lasted: `2m41s`, with a `+` while it lasts; `?` where nothing tells.
pub fn length(i: &Incident, now: Nanos) -> String {
    if i.is_undated(now) {
        return "?".to_owned();
    }
    let lasts = if i.end.is_none() { "+" } else { "" };
    format!("{}{lasts}", age(i.length(now)))
}

/// Returns the nodes of an incident's pods, or the node that it befell.
fn nodes_of<'a, 'w: 'a>(
    i: &'a Incident,
    nodes: impl Fn(&PodUid) -> Option<&'w str>,
) -> BTreeSet<&'a str> {
    if let Subject::Node(name) = &i.subject {
        return BTreeSet::from([name.as_str()]);
    }
    let pods = i.parts.iter().map(|p| &p.verdict.uid);
    let all = pods.filter(|uid| !uid.is_empty()).filter_map(nodes);
    all.filter(|n| !n.is_empty()).collect()
}

/// Returns the subject, with its number of pods: `shop/deployment/web (12 pods)`.
pub fn subject(i: &Incident) -> String {
    match (&i.subject, i.pods()) {
        (Subject::Owner(_), n @ 1..) => format!("{} ({})", i.subject, counted(n as u64, "pod")),
        _ => i.subject.to_string(),
    }
}

/// The name of what a part of an incident is of: a pod, or the Job of a CronJob, the node.
fn name(v: &Verdict) -> String {
    match &v.owner {
        Some(o) if v.pod.is_empty() => owner_arg(o),
        _ => v.pod.to_string(),
    }
}

/// What an incident is of, part by part, each once.
fn named(i: &Incident) -> Vec<String> {
    let mut all: Vec<String> = i.parts.iter().map(|p| name(&p.verdict)).collect();
    all.retain(|n| !n.is_empty());
    all.sort_unstable();
    all.dedup();
    all
}

/// What was said of an incident's pods in other words than most of them had.
fn said(i: &Incident) -> Vec<String> {
    i.others().iter().map(|o| other(i, o)).collect()
}

/// Names the pods of an owner's incident, or the Jobs of a CronJob: `pods: web-1, web-2, … and 3 more`.
fn names(i: &Incident) -> String {
    let pods = named(i);
    let shown: Vec<&str> = pods.iter().take(NAMED).map(String::as_str).collect();
    let more = pods.len().saturating_sub(NAMED);
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let what = if i.pods() > 0 { "pods" } else { "of it" };
    format!("{what}: {}{rest}", shown.join(", "))
}

#[derive(Serialize)]
struct JsonSubject<'a> {
    kind: &'static str,
    object: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> JsonSubject<'a> {
    fn of(s: &'a Subject) -> Self {
        let (object, namespace, name, uid) = match s {
            Subject::Pod {
                uid,
                namespace,
                name,
            } => ("Pod", namespace.as_str(), name.as_str(), uid.as_str()),
            Subject::Owner(o) => (
                o.kind.as_str(),
                o.namespace.as_str(),
                o.name.as_str(),
                o.uid.as_str(),
            ),
            Subject::Node(name) => ("Node", "", name.as_str(), ""),
        };
        Self {
            kind: s.kind(),
            object,
            namespace,
            name,
            uid,
        }
    }
}

#[derive(Serialize)]
struct JsonPart<'a> {
    uid: &'a str,
    namespace: &'a str,
    pod: &'a str,
    /// What the part is of when it is of no pod.
    owner: Option<String>,
    begin_ns: i64,
    told_ns: i64,
    end_ns: Option<i64>,
    state: &'static str,
    container: Option<&'a str>,
    sentence: &'a str,
}

impl<'a> JsonPart<'a> {
    fn of(p: &'a Part) -> Self {
        let v = &p.verdict;
        Self {
            uid: v.uid.as_str(),
            namespace: &v.namespace,
            pod: &v.pod,
            owner: v.pod.is_empty().then(|| name(v)).filter(|n| !n.is_empty()),
            begin_ns: p.begin.0,
            told_ns: p.told.0,
            end_ns: p.end.map(|e| e.0),
            state: v.state.name(),
            container: (!v.container.is_empty()).then_some(v.container.as_str()),
            sentence: &v.sentence,
        }
    }
}

#[derive(Serialize)]
struct JsonIncident<'a> {
    begin_ns: i64,
    end_ns: Option<i64>,
    length_ns: i64,
    within_ns: i64,
    subject: JsonSubject<'a>,
    cause: Option<CauseId>,
    title: &'a str,
    stage: &'static str,
    container: Option<&'a str>,
    state: &'static str,
    sentence: &'a str,
    parts: Vec<JsonPart<'a>>,
    nodes: Vec<&'a str>,
}

fn json_of<'a>(i: &'a Incident, now: Nanos, within: i64, nodes: Vec<&'a str>) -> JsonIncident<'a> {
    let v = &i.verdict;
    JsonIncident {
        begin_ns: i.begin.0,
        end_ns: i.end.map(|e| e.0),
        length_ns: i.length(now),
        within_ns: within,
        subject: JsonSubject::of(&i.subject),
        cause: v.cause,
        title: &v.title,
        stage: v.stage.name(),
        container: (!v.container.is_empty()).then_some(v.container.as_str()),
        state: v.state.name(),
        sentence: &v.sentence,
        parts: i.parts.iter().map(JsonPart::of).collect(),
        nodes,
    }
}

/// An incident without its list of pods.
#[derive(Default, Serialize)]
struct CsvIncident<'a> {
    begin_ns: i64,
    end_ns: Option<i64>,
    length_ns: i64,
    within_ns: i64,
    subject_kind: &'static str,
    object: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    cause: Option<CauseId>,
    title: &'a str,
    stage: &'static str,
    container: Option<&'a str>,
    state: &'static str,
    sentence: &'a str,
    pods: usize,
}

impl<'a> CsvIncident<'a> {
    fn of(i: JsonIncident<'a>, pods: usize) -> Self {
        Self {
            begin_ns: i.begin_ns,
            end_ns: i.end_ns,
            length_ns: i.length_ns,
            within_ns: i.within_ns,
            subject_kind: i.subject.kind,
            object: i.subject.object,
            namespace: i.subject.namespace,
            name: i.subject.name,
            uid: i.subject.uid,
            cause: i.cause,
            title: i.title,
            stage: i.stage,
            container: i.container,
            state: i.state,
            sentence: i.sentence,
            pods,
        }
    }
}

/// The CSV row, with the nodes separated by spaces, what else was said of its pods, and their names.
#[derive(Default, Serialize)]
struct Placed<'a> {
    #[serde(flatten)]
    incident: CsvIncident<'a>,
    nodes: String,
    others: String,
    names: String,
}

/// Returns the CSV row of an incident, without its nodes. `within` is how exactly ends are known, ns.
pub fn row(i: &Incident, now: Nanos, within: i64) -> impl Serialize + '_ {
    CsvIncident::of(json_of(i, now, within, Vec::new()), i.pods())
}

/// Writes a row per incident. `within` is how exactly ends are known, ns; `nodes` returns the node of a pod.
pub fn rows<'w>(
    incidents: &[&Incident],
    now: Nanos,
    within: i64,
    nodes: impl Fn(&PodUid) -> Option<&'w str>,
    out: &mut impl Write,
    form: Rows,
) -> io::Result<()> {
    let of = |i| nodes_of(i, &nodes).into_iter().collect::<Vec<&str>>();
    match form {
        Rows::Csv => {
            let rows = incidents.iter();
            let rows = rows.map(|i| Placed {
                incident: CsvIncident::of(json_of(i, now, within, Vec::new()), i.pods()),
                nodes: of(i).join(" "),
                others: said(i).join(" "),
                names: named(i).join(" "),
            });
            rows::write(out, form, rows)
        }
        Rows::Json | Rows::Jsonl | Rows::Yaml => {
            let rows = incidents.iter().map(|i| json_of(i, now, within, of(i)));
            rows::values(out, form, rows)
        }
    }
}
