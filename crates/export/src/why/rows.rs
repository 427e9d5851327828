//! Verdicts as JSON, JSON lines, YAML and CSV (documented in `docs/json.md`).

use std::io;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{confidence_name, owner_arg};
use crate::rows::{self, Rows};
use kflow_core::diagnose::{About, CauseId, Verdict};
use kflow_model::{Nanos, ObjectRef};

#[derive(Serialize)]
struct JsonCall<'a> {
    method: &'a str,
    age_ms: i64,
    deadline_ms: Option<i64>,
}

#[derive(Serialize)]
struct JsonRecurrence {
    times: u32,
    first_ns: i64,
    last_ns: i64,
    up_since_ns: Option<i64>,
}

#[derive(Serialize)]
struct JsonObject<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> JsonObject<'a> {
    fn of(o: &'a ObjectRef) -> Self {
        Self {
            kind: &o.kind,
            namespace: &o.namespace,
            name: &o.name,
            uid: &o.uid,
        }
    }

    /// The pod or owner that a verdict is about.
    fn about(v: &'a Verdict) -> Self {
        match &v.owner {
            Some(o) if v.uid.is_empty() => Self::of(o),
            _ => Self {
                kind: "Pod",
                namespace: &v.namespace,
                name: &v.pod,
                uid: v.uid.as_str(),
            },
        }
    }
}

#[derive(Serialize)]
struct JsonProof {
    at_ns: i64,
    precision_ns: u32,
    source: &'static str,
    text: String,
}

#[derive(Serialize)]
struct JsonStep<'a> {
    text: &'a str,
    command: &'a str,
}

/// The format that `docs/json.md` documents for `kflow why -o json`.
#[derive(Serialize)]
struct JsonVerdict<'a> {
    uid: &'a str,
    namespace: &'a str,
    pod: &'a str,
    owner: Option<String>,
    cause: Option<CauseId>,
    title: &'a str,
    stage: &'static str,
    container: Option<&'a str>,
    state: &'static str,
    since_ns: i64,
    at_least: bool,
    in_flight: Option<JsonCall<'a>>,
    attempt: u32,
    next_retry_ns: Option<i64>,
    behind: Option<JsonObject<'a>>,
    holds_up: Vec<JsonObject<'a>>,
    recurrence: Option<JsonRecurrence>,
    sentence: &'a str,
    evidence: Vec<JsonProof>,
    not_reached: Vec<&'a str>,
    owner_state: Option<&'a str>,
    node_state: Option<&'a str>,
    next: Vec<JsonStep<'a>>,
    confidence: &'static str,
    also: Vec<JsonVerdict<'a>>,
}

fn json_of(v: &Verdict, now: Nanos) -> JsonVerdict<'_> {
    let some = |s: &'_ kflow_model::Text| (!s.is_empty()).then_some(()).is_some();
    JsonVerdict {
        uid: v.uid.as_str(),
        namespace: &v.namespace,
        pod: &v.pod,
        owner: v.owner.as_ref().map(owner_arg),
        cause: v.cause,
        title: &v.title,
        stage: v.stage.name(),
        container: some(&v.container).then_some(v.container.as_str()),
        state: v.state.name(),
        since_ns: v.since.0,
        at_least: v.at_least,
        in_flight: v.in_flight.as_ref().map(|c| JsonCall {
            method: &c.method,
            age_ms: now.since(c.since) / 1_000_000,
            deadline_ms: c.deadline_ns.map(|d| d / 1_000_000),
        }),
        attempt: v.attempt,
        next_retry_ns: v.next_retry.map(|t| t.0),
        behind: v.behind.as_ref().map(JsonObject::of),
        holds_up: Vec::new(),
        recurrence: v.recurrence.map(|r| JsonRecurrence {
            times: r.times,
            first_ns: r.first.0,
            last_ns: r.last.0,
            up_since_ns: r.up.map(|t| t.0),
        }),
        sentence: &v.sentence,
        evidence: v
            .evidence
            .iter()
            .map(|p| JsonProof {
                at_ns: p.at.0,
                precision_ns: p.precision,
                source: p.source.name(),
                text: p.to_string(),
            })
            .collect(),
        not_reached: v
            .not_reached
            .iter()
            .map(kflow_model::Text::as_str)
            .collect(),
        owner_state: v.owner_state.as_deref(),
        node_state: v.node_state.as_deref(),
        next: v
            .next
            .iter()
            .map(|n| JsonStep {
                text: &n.text,
                command: &n.command,
            })
            .collect(),
        confidence: confidence_name(v.confidence),
        also: v.also.iter().map(|a| json_of(a, now)).collect(),
    }
}

/// The CSV row of a verdict, without its lists.
#[derive(Default, Serialize)]
struct CsvVerdict<'a> {
    uid: &'a str,
    namespace: &'a str,
    pod: &'a str,
    owner: Option<String>,
    cause: Option<CauseId>,
    title: &'a str,
    stage: &'static str,
    container: Option<&'a str>,
    state: &'static str,
    since_ns: i64,
    at_least: bool,
    in_flight_method: &'a str,
    attempt: u32,
    next_retry_ns: Option<i64>,
    sentence: &'a str,
    owner_state: Option<&'a str>,
    node_state: Option<&'a str>,
    confidence: &'static str,
}

impl<'a> CsvVerdict<'a> {
    fn of(v: JsonVerdict<'a>) -> Self {
        Self {
            uid: v.uid,
            namespace: v.namespace,
            pod: v.pod,
            owner: v.owner,
            cause: v.cause,
            title: v.title,
            stage: v.stage,
            container: v.container,
            state: v.state,
            since_ns: v.since_ns,
            at_least: v.at_least,
            in_flight_method: v.in_flight.map_or("", |c| c.method),
            attempt: v.attempt,
            next_retry_ns: v.next_retry_ns,
            sentence: v.sentence,
            owner_state: v.owner_state,
            node_state: v.node_state,
            confidence: v.confidence,
        }
    }
}

/// Writes a row per verdict that was asked for, with ages as of `now`. `followers` are verdicts that follow from those
/// and were not asked for.
pub fn rows<'v>(
    out: &mut impl io::Write,
    form: Rows,
    asked: impl IntoIterator<Item = &'v Verdict>,
    followers: impl IntoIterator<Item = &'v Verdict>,
    now: Nanos,
) -> io::Result<()> {
    let asked: Vec<&Verdict> = asked.into_iter().collect();
    let mut held: FxHashMap<About<'_>, Vec<&Verdict>> = FxHashMap::default();
    for v in asked.iter().copied().chain(followers) {
        if let Some(by) = v.follows() {
            held.entry(by).or_default().push(v);
        }
    }
    let all = asked.into_iter().map(|v| {
        let its = v.about().and_then(|about| held.get(&about));
        JsonVerdict {
            holds_up: (its.into_iter().flatten().copied())
                .map(JsonObject::about)
                .collect(),
            ..json_of(v, now)
        }
    });
    match form {
        Rows::Csv => rows::write(out, form, all.map(CsvVerdict::of)),
        Rows::Json | Rows::Jsonl | Rows::Yaml => rows::values(out, form, all),
    }
}
