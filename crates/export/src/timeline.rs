//! Timelines as text and as rows (documented in `docs/json.md`).

use serde::Serialize;
use std::io::{self, Write};

use super::rows::{self, Rows};
use super::text::{Times, clean, cut};
use kflow_core::correlate::{Pod, PodStart, PodView, StageState, World, startup_latency};
use kflow_core::diagnose::pulls::{Progress, Pulls};
use kflow_core::flow::Stage;
use kflow_core::timeline::{Certainty, MarkKind, Outcome, Span, summary};
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid, Source};

/// Writes a row per pod: in JSON with its timeline, in CSV with the time that each stage took.
pub fn rows(out: &mut impl Write, pods: &[Pod], form: Rows) -> io::Result<()> {
    match form {
        Rows::Csv => rows::write(out, form, pods.iter().map(|p| PodRow::of(p))),
        Rows::Json | Rows::Jsonl | Rows::Yaml => {
            rows::write(out, form, pods.iter().map(|p| PodJson::of(p)))
        }
    }
}

/// The time of a stage is empty if the stage was not seen.
#[derive(Default, Serialize)]
struct PodRow<'a> {
    uid: &'a str,
    namespace: &'a str,
    name: &'a str,
    node: &'a str,
    owner: String,
    phase: &'a str,
    status: &'a str,
    ready: u32,
    containers: u32,
    restarts: u32,
    created_ns: Nanos,
    create_requested_ns: Option<Nanos>,
    became_ready_ns: Option<Nanos>,
    deletion_requested_ns: Option<Nanos>,
    gone_ns: Option<Nanos>,
    stage: &'a str,
    stage_since_ns: Option<Nanos>,
    start_total_ns: Option<i64>,
    start_sli_ns: Option<i64>,
    api_ns: Option<i64>,
    schedule_ns: Option<i64>,
    admit_ns: Option<i64>,
    cgroup_ns: Option<i64>,
    volumes_ns: Option<i64>,
    sandbox_ns: Option<i64>,
    image_ns: Option<i64>,
    create_ns: Option<i64>,
    start_ns: Option<i64>,
    ready_ns: Option<i64>,
    terminate_ns: Option<i64>,
}

impl<'a> PodRow<'a> {
    fn of(p: &'a PodView) -> Self {
        let took = |stage| {
            let seen = !matches!(p.stage(stage), StageState::NotReached | StageState::Unseen);
            seen.then(|| p.took(stage))
        };
        let start = startup_latency::start(p);
        let owner = p.owners.last();
        Self {
            uid: p.uid.as_str(),
            namespace: &p.namespace,
            name: &p.name,
            node: &p.node,
            owner: owner
                .map(|o| format!("{}/{}", o.kind, o.name))
                .unwrap_or_default(),
            phase: p.phase.as_str(),
            status: &p.status,
            ready: p.ready.0,
            containers: p.ready.1,
            restarts: p.restarts,
            created_ns: p.created,
            create_requested_ns: p.create_requested,
            became_ready_ns: p.became_ready.map(|e| e.at),
            deletion_requested_ns: p.deletion_requested,
            gone_ns: p.gone,
            stage: p.current.map_or("", |(stage, _)| stage.name()),
            stage_since_ns: p.current.map(|(_, since)| since),
            start_total_ns: start.as_ref().map(|s| s.total_ns),
            start_sli_ns: start.as_ref().map(|s| s.sli_ns),
            api_ns: took(Stage::Api),
            schedule_ns: took(Stage::Schedule),
            admit_ns: took(Stage::Admit),
            cgroup_ns: took(Stage::Cgroup),
            volumes_ns: took(Stage::Volumes),
            sandbox_ns: took(Stage::Sandbox),
            image_ns: took(Stage::Image),
            create_ns: took(Stage::Create),
            start_ns: took(Stage::Start),
            ready_ns: took(Stage::Ready),
            terminate_ns: took(Stage::Terminate),
        }
    }
}

#[derive(Default, Serialize)]
struct PodJson<'a> {
    uid: &'a str,
    namespace: &'a str,
    name: &'a str,
    node: &'a str,
    phase: &'a str,
    status: &'a str,
    ready: [u32; 2],
    restarts: u32,
    created_ns: Nanos,
    create_requested_ns: Option<Nanos>,
    deletion_requested_ns: Option<Nanos>,
    gone_ns: Option<Nanos>,
    mirrors: &'a [PodUid],
    owners: Vec<OwnerJson<'a>>,
    start: Option<StartJson>,
    spans: Vec<SpanJson<'a>>,
    marks: Vec<MarkJson<'a>>,
    gaps: Vec<GapJson<'a>>,
}

#[derive(Serialize)]
struct OwnerJson<'a> {
    kind: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct StartJson {
    observed_ns: Nanos,
    total_ns: i64,
    sli_ns: i64,
    pulling_ns: i64,
    init_ns: i64,
    kubelet_total_ns: Option<i64>,
    kubelet_sli_ns: Option<i64>,
}

#[derive(Serialize)]
struct SpanJson<'a> {
    stage: Stage,
    step: &'a str,
    container: &'a str,
    attempt: u32,
    start_ns: Nanos,
    end_ns: Option<Nanos>,
    precision_ns: u32,
    end_precision_ns: Option<u32>,
    outcome: Outcome,
    code: &'a str,
    message: &'a str,
    sources: Vec<Source>,
    certainty: Certainty,
    parent: Option<u32>,
    deadline_ns: Option<i64>,
}

#[derive(Serialize)]
struct MarkJson<'a> {
    at_ns: Nanos,
    precision_ns: u32,
    kind: MarkKind,
    stage: Stage,
    container: &'a str,
    text: &'a str,
    bad: bool,
    count: u32,
    source: Source,
}

#[derive(Serialize)]
struct GapJson<'a> {
    stage: Stage,
    start_ns: Nanos,
    end_ns: Option<Nanos>,
    why: &'a str,
}

impl<'a> PodJson<'a> {
    fn of(p: &'a PodView) -> Self {
        let t = &p.timeline;
        Self {
            uid: p.uid.as_str(),
            namespace: &p.namespace,
            name: &p.name,
            node: &p.node,
            phase: p.phase.as_str(),
            status: &p.status,
            ready: [p.ready.0, p.ready.1],
            restarts: p.restarts,
            created_ns: p.created,
            create_requested_ns: p.create_requested,
            deletion_requested_ns: p.deletion_requested,
            gone_ns: p.gone,
            mirrors: &p.mirrors,
            owners: p
                .owners
                .iter()
                .map(|o| OwnerJson {
                    kind: &o.kind,
                    name: &o.name,
                })
                .collect(),
            start: startup_latency::start(p).map(|s| StartJson {
                observed_ns: s.observed,
                total_ns: s.total_ns,
                sli_ns: s.sli_ns,
                pulling_ns: s.pulling_ns,
                init_ns: s.init_ns,
                kubelet_total_ns: s.logged.as_ref().map(|l| l.total_ns),
                kubelet_sli_ns: s.logged.as_ref().map(|l| l.sli_ns),
            }),
            spans: t
                .spans
                .iter()
                .map(|s| SpanJson {
                    stage: s.stage,
                    step: &s.step,
                    container: &s.container,
                    attempt: s.attempt,
                    start_ns: s.start.at,
                    end_ns: s.end.map(|e| e.at),
                    precision_ns: s.start.precision,
                    end_precision_ns: s.end.map(|e| e.precision),
                    outcome: s.outcome,
                    code: &s.code,
                    message: &s.message,
                    sources: s.sources(),
                    certainty: s.certainty,
                    parent: s.parent,
                    deadline_ns: s.deadline_ns,
                })
                .collect(),
            marks: t
                .marks
                .iter()
                .map(|m| MarkJson {
                    at_ns: m.at.at,
                    precision_ns: m.at.precision,
                    kind: m.kind,
                    stage: m.stage,
                    container: &m.container,
                    text: &m.text,
                    bad: m.bad,
                    count: m.count,
                    source: m.evidence.source,
                })
                .collect(),
            gaps: t
                .gaps
                .iter()
                .map(|g| GapJson {
                    stage: g.stage,
                    start_ns: g.start,
                    end_ns: g.end,
                    why: &g.why,
                })
                .collect(),
        }
    }
}

/// Writes pods with their timelines for people: a line per span, indented below the span that contains it.
pub fn text(
    out: &mut impl Write,
    world: &World,
    pods: &[Pod],
    now: Nanos,
    colour: bool,
) -> io::Result<()> {
    let pulls = Pulls::of(world, now);
    let times = Times::of(pods.iter().flat_map(|p| moments(p)));
    for (n, p) in pods.iter().enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        pod(out, p, (world, &pulls), times, now, colour)?;
    }
    Ok(())
}

/// The moments that lines begin with.
fn moments(p: &PodView) -> impl Iterator<Item = Nanos> {
    let t = &p.timeline;
    let spans = t.spans.iter().map(|s| s.start.at);
    let marks = t.marks.iter().map(|m| m.at.at);
    spans.chain(marks).chain(t.gaps.iter().map(|g| g.start))
}

fn pod(
    out: &mut impl Write,
    p: &PodView,
    (world, pulls): (&World, &Pulls),
    times: Times,
    now: Nanos,
    colour: bool,
) -> io::Result<()> {
    let paint = Paint { colour };
    let start = times.width(18);
    writeln!(
        out,
        "{}  {}  {}/{} ready{}{}",
        paint.bold(&clean(&p.key())),
        clean(&p.status),
        p.ready.0,
        p.ready.1,
        match p.restarts {
            0 => String::new(),
            n => format!(", {n} restarts"),
        },
        if p.node.is_empty() {
            ", no node".to_owned()
        } else {
            format!(", on {}", clean(&p.node))
        },
    )?;
    writeln!(
        out,
        "{}",
        paint.dim(&format!("  uid {}", clean(p.uid.as_str())))
    )?;
    if !p.owners.is_empty() {
        let chain: Vec<String> = p
            .owners
            .iter()
            .map(|o| format!("{}/{}", o.kind, o.name))
            .collect();
        let line = format!("  owned by {}", clean(&chain.join(" of ")));
        writeln!(out, "{}", paint.dim(&line))?;
    }
    if let Some(s) = startup_latency::start(p) {
        writeln!(out, "{}", paint.dim(&format!("  {}", started(&s))))?;
    }
    let mut rows: Vec<(Nanos, String)> = Vec::new();
    let t = &p.timeline;
    for s in &t.spans {
        let work = summary::work_ns(t, s, now);
        let mut row = span(s, work, depth(s, &t.spans), (times, now), &paint);
        if let Some(ahead) = pulls.ahead(p, s, now) {
            let text = format!(", queued {}", clean(&ahead.text(now)));
            row.push_str(&paint.yellow(&text));
        }
        if let Some(progress) = Progress::of_step(world, s, now) {
            let text = format!(", {}", progress.whole(now));
            row.push_str(&paint.yellow(&text));
            for (_, number, text) in progress.fetching(now) {
                row.push_str(&paint.dim(&format!(
                    "\n{:>indent$}layer {number}  {text}",
                    "",
                    indent = start + 16
                )));
            }
        }
        rows.push((s.start.at, row));
    }
    for m in &t.marks {
        let often = if m.count > 1 {
            format!(" ×{}", m.count)
        } else {
            String::new()
        };
        let line = format!(
            "  {:<start$}             {} {}{}{often}",
            times.at(m.at.at, m.at.precision),
            if m.bad {
                paint.red("!")
            } else {
                "·".to_owned()
            },
            container(&m.container),
            cut(&clean(&m.text), 200),
        );
        rows.push((m.at.at, line));
    }
    for g in &t.gaps {
        let line = format!(
            "  {:<start$} {:>8}    ? {}: unknown, {}",
            times.at(g.start, 1_000_000),
            duration(g.end.unwrap_or(now) - g.start),
            g.stage,
            clean(&g.why)
        );
        rows.push((g.start, paint.dim(&line)));
    }
    rows.sort_by_key(|r| r.0);
    for (_, line) in rows {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// `started in 4.01s: 1.95s SLI + 62.7ms pulling images + 2.00s init containers`
pub fn started(s: &PodStart) -> String {
    let mut text = format!("started in {}", duration(s.total_ns));
    if s.pulling_ns > 0 || s.init_ns > 0 {
        text.push_str(&format!(": {} SLI", duration(s.sli_ns)));
    }
    for (ns, what) in [
        (s.pulling_ns, "pulling images"),
        (s.init_ns, "init containers"),
    ] {
        if ns > 0 {
            text.push_str(&format!(" + {} {what}", duration(ns)));
        }
    }
    // Two watches may see a change up to a tenth of a second apart.
    if let Some(l) = &s.logged
        && l.total_ns - s.total_ns > 100_000_000
    {
        let looked = match l.noted.zip(l.watched) {
            Some((noted, watched)) => {
                format!(
                    ": the watch outran its own note of it, and it looked again {} later",
                    duration(watched.since(noted))
                )
            }
            None => String::new(),
        };
        text.push_str(&format!(
            " (the kubelet noticed only after {}{looked}, when a pod changed)",
            duration(l.total_ns)
        ));
    }
    text
}

/// Returns the depth of a span; 0 without a parent.
pub(super) fn depth(s: &Span, spans: &[Span]) -> usize {
    let mut depth = 0;
    let mut parent = s.parent;
    while let Some(p) = parent
        && depth < 8
    {
        depth += 1;
        parent = spans.get(p as usize).and_then(|s| s.parent);
    }
    depth
}

fn container(name: &str) -> String {
    if name.is_empty() {
        String::new()
    } else {
        format!("[{}] ", clean(name))
    }
}

fn span(
    s: &Span,
    work_ns: i64,
    depth: usize,
    (times, now): (Times, Nanos),
    paint: &Paint,
) -> String {
    let took = format!(
        "{}{}",
        // A length is marked as inexact if an edge of its span is.
        if s.start.precision > 999_999_999 || s.end.is_some_and(|e| e.precision > 999_999_999) {
            "~"
        } else {
            ""
        },
        duration(work_ns)
    );
    let sign = match s.outcome {
        Outcome::Ok => " ".to_owned(),
        Outcome::Error => paint.red("✗"),
        Outcome::InFlight => paint.yellow("…"),
        Outcome::Cancelled => paint.yellow("∅"),
    };
    let mut line = format!(
        "  {:<start$} {took:>8} {sign}  {:indent$}{}{}",
        times.at(s.start.at, s.start.precision),
        "",
        container(&s.container),
        if s.is_stage() {
            paint.bold(&clean(&s.step))
        } else {
            clean(&s.step).into_owned()
        },
        indent = depth * 2,
        start = times.width(18),
    );
    if s.attempt > 0 {
        line.push_str(&format!(" #{}", s.attempt));
    }
    if !s.code.is_empty() && s.code != "OK" {
        line.push_str(&format!(" {}", paint.red(&clean(&s.code))));
    }
    if !s.message.is_empty() {
        line.push_str(&format!(": {}", cut(&clean(&s.message), 160)));
    }
    // A stage lasts from its first to its last step, which is longer than it worked if the steps leave gaps.
    let whole = duration(s.duration(now));
    if whole != duration(work_ns) {
        line.push_str(&paint.dim(&format!(" over {whole}")));
    }
    let sources: Vec<&str> = s.sources().into_iter().map(Source::name).collect();
    let certainty = match s.certainty {
        Certainty::Measured => "",
        Certainty::Inferred => ", inferred",
        Certainty::Bounded => ", bounded",
    };
    line.push_str(&paint.dim(&format!("  ({}{certainty})", sources.join(","))));
    line
}

/// Writes ANSI colours, if wanted.
pub(super) struct Paint {
    pub(super) colour: bool,
}

impl Paint {
    fn with(&self, code: &str, s: &str) -> String {
        if self.colour {
            format!("\u{1b}[{code}m{s}\u{1b}[0m")
        } else {
            s.to_owned()
        }
    }
    pub(super) fn bold(&self, s: &str) -> String {
        self.with("1", s)
    }
    pub(super) fn dim(&self, s: &str) -> String {
        self.with("2", s)
    }
    pub(super) fn red(&self, s: &str) -> String {
        self.with("31", s)
    }
    pub(super) fn yellow(&self, s: &str) -> String {
        self.with("33", s)
    }
}
