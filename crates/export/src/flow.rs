//! The flow map and the runs of its steps, as text and as JSON (documented in `docs/json.md`).

use serde::Serialize;
use std::io::{self, Write};

use super::rows::{self, Rows};
use super::text::{Times, clean, cut};
use super::timeline::Paint;
use kflow_core::flow::map::{Flow, Map, Step, StepId};
use kflow_core::flow::runs::{RunEnd, StepRuns};
use kflow_core::flow::signature::SignatureKind;
use kflow_core::flow::{Stage, docs};
use kflow_model::units::duration;
use kflow_model::{Body, Nanos, Observation, Source};

/// One pass of a flow: a start of the flow's component, or the whole flow if nothing begins it anew.
#[derive(Clone, Debug)]
pub struct Pass {
    pub flow: usize,
    /// Number of the pass, from 1.
    pub number: usize,
    /// Number of all passes.
    pub of: usize,
    /// `ns/name` of the pod that the steps are about; empty for the whole session.
    pub pod: String,
    /// The steps that were seen. Steps of other flows are ignored.
    pub lit: Vec<StepRuns>,
}

/// How passes are written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The moment that ages are as of.
    pub now: Nanos,
    /// Show only this step, with all its runs.
    pub step: Option<StepId>,
    /// Show unseen steps too.
    pub all: bool,
}

/// Returns the steps of a flow with their depths: a step stands below the one that calls it, if both are in this flow.
fn tree(map: &Map, flow: usize) -> Vec<(StepId, &Step, usize)> {
    let steps: Vec<(StepId, &Step)> = map.steps_in(flow).collect();
    let inside = |p: Option<StepId>| p.filter(|p| steps.iter().any(|(id, _)| id == p));
    let mut out = Vec::with_capacity(steps.len());
    let below = |p: Option<StepId>| {
        steps
            .iter()
            .rev()
            .filter(move |(_, s)| inside(s.parent) == p)
            .copied()
    };
    let mut stack: Vec<_> = below(None).map(|(id, s)| (id, s, 0)).collect();
    while let Some((id, s, depth)) = stack.pop() {
        // A user's map may have a cycle of parents.
        if depth > 16 || out.len() > steps.len() {
            continue;
        }
        out.push((id, s, depth));
        stack.extend(below(Some(id)).map(|(id, s)| (id, s, depth + 1)));
    }
    out
}

fn title(out: &mut impl Write, flow: &Flow, more: &str, paint: &Paint) -> io::Result<()> {
    writeln!(
        out,
        "{}  {}{more}",
        paint.bold(&format!("({}) {}", flow.id, clean(&flow.title))),
        paint.dim(&flow.name),
    )
}

/// Describes one step in full.
pub fn step_text(out: &mut impl Write, map: &Map, id: StepId) -> io::Result<()> {
    match map.get(id) {
        Some(step) => out.write_all(docs::describe(map, step).as_bytes()),
        None => Ok(()),
    }
}

/// Writes the map for people: each flow as a tree of functions, with file, kinds of evidence and former names.
pub fn map_text(
    out: &mut impl Write,
    map: &Map,
    only: Option<usize>,
    colour: bool,
) -> io::Result<()> {
    let paint = Paint { colour };
    let mut first = true;
    for (i, flow) in map.flows().iter().enumerate() {
        if only.is_some_and(|f| f != i) {
            continue;
        }
        if !std::mem::take(&mut first) {
            writeln!(out)?;
        }
        title(out, flow, "", &paint)?;
        for (_, s, depth) in tree(map, i) {
            let kinds: Vec<&str> = s
                .kinds()
                .into_iter()
                .map(kflow_core::flow::signature::SignatureKind::name)
                .collect();
            let name = format!("{:indent$}{}", "", clean(&s.function), indent = depth * 2);
            let mut line = format!(
                "  {} {} {}",
                s.id,
                column(&name, 44),
                paint.dim(&column(&kinds.join(","), 22)),
            );
            line.push_str(&clean(&s.label));
            if !s.file.is_empty() {
                line.push_str(&paint.dim(&format!("  {}", clean(&s.file))));
            }
            if !s.was.is_empty() {
                line.push_str(&paint.dim(&format!("  was {}", clean(&s.was.join(", ")))));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

/// Cuts or pads a text to a column's width.
fn column(s: &str, width: usize) -> String {
    format!("{:<width$}", cut(s, width))
}

#[derive(Serialize)]
struct FlowJson<'a> {
    flow: &'a str,
    name: &'a str,
    title: &'a str,
    about: &'a str,
    component: kflow_model::log::Component,
    steps: Vec<StepJson<'a>>,
}

#[derive(Serialize)]
struct StepJson<'a> {
    step: &'a str,
    label: &'a str,
    does: &'a str,
    hangs: &'a str,
    function: &'a str,
    also: &'a [kflow_model::Text],
    was: &'a [kflow_model::Text],
    file: &'a str,
    stage: Option<Stage>,
    parent: Option<&'a str>,
    evidence: Vec<String>,
    kinds: Vec<&'static str>,
    unseen: &'a str,
}

/// Writes the map, a row per flow, without the flows and steps that `takes` refuses.
pub fn map_json(
    out: &mut impl Write,
    map: &Map,
    form: Rows,
    takes: impl Fn(usize, StepId) -> bool,
) -> io::Result<()> {
    let flows = map.flows().iter().enumerate().map(|(i, f)| FlowJson {
        flow: &f.id,
        name: &f.name,
        title: &f.title,
        about: &f.about,
        component: f.component,
        steps: map
            .steps_in(i)
            .filter(|(id, _)| takes(i, *id))
            .map(|(_, s)| StepJson {
                step: &s.id,
                label: &s.label,
                does: &s.does,
                hangs: &s.hangs,
                function: &s.function,
                also: &s.also,
                was: &s.was,
                file: &s.file,
                stage: s.stage,
                parent: s.parent.and_then(|p| map.get(p)).map(|p| p.id.as_str()),
                evidence: s.signatures.iter().map(ToString::to_string).collect(),
                kinds: s
                    .kinds()
                    .into_iter()
                    .map(kflow_core::flow::signature::SignatureKind::name)
                    .collect(),
                unseen: &s.unseen,
            })
            .collect(),
    });
    rows::values(out, form, flows.filter(|f| !f.steps.is_empty()))
}

const fn ended(how: RunEnd) -> &'static str {
    match how {
        RunEnd::Ok => "ok",
        RunEnd::Failed => "error",
        RunEnd::InFlight => "in-flight",
        RunEnd::Unseen => "unseen",
        RunEnd::Before => "before",
    }
}

/// Returns the begin of a pass: its earliest evidence.
fn begin(map: &Map, pass: &Pass) -> Option<Nanos> {
    pass.lit
        .iter()
        .filter(|l| map.get(l.step).is_some_and(|s| s.flow == pass.flow))
        .map(|l| l.first.at)
        .min()
}

/// Writes what the steps did, for people: the passes in order, each as a tree of steps.
pub fn lit_text(
    out: &mut impl Write,
    map: &Map,
    passes: &[Pass],
    options: &Options,
    colour: bool,
) -> io::Result<()> {
    let paint = Paint { colour };
    let mut first = true;
    for pass in passes {
        let (Some(flow), Some(begin)) = (map.flows().get(pass.flow), begin(map, pass)) else {
            continue;
        };
        if !std::mem::take(&mut first) {
            writeln!(out)?;
        }
        let mut more = String::new();
        if !pass.pod.is_empty() {
            more.push_str(&format!("  {}", clean(&pass.pod)));
        }
        if pass.of > 1 {
            more.push_str(&format!("  {} of {}", pass.number, pass.of));
        }
        title(out, flow, &more, &paint)?;
        let firsts = pass.lit.iter().map(|l| l.first.at);
        let runs = pass.lit.iter().flat_map(|l| l.runs.iter().map(|r| r.start));
        let times = Times::of(firsts.chain(runs));
        let wide = times.width(18);
        let head = format!(
            "  STEP {:<wide$}     AFTER  LONGEST  TIMES   FUNCTION",
            "FIRST"
        );
        writeln!(out, "{}", paint.dim(&head))?;
        for (id, step, depth) in tree(map, pass.flow) {
            if options.step.is_some_and(|s| s != id) {
                continue;
            }
            match pass.lit.iter().find(|l| l.step == id) {
                Some(lit) => {
                    let seen = Seen {
                        step,
                        lit,
                        depth,
                        begin,
                        times,
                        starts: flow.anchor.is_some(),
                    };
                    line(out, &seen, options, &paint)?;
                }
                None if options.all => {
                    let name = format!(
                        "{:indent$}{}",
                        "",
                        clean(&step.function),
                        indent = depth * 2
                    );
                    let why = if step.is_invisible() {
                        "cannot be seen"
                    } else {
                        "not seen"
                    };
                    let row = format!(
                        "  {} {:width$} {}  {why}",
                        step.id,
                        "",
                        column(&name, 40),
                        width = wide + 24
                    );
                    writeln!(out, "{}", paint.dim(&row))?;
                }
                None => {}
            }
        }
    }
    if first {
        writeln!(out, "nothing was seen of it")?;
    }
    Ok(())
}

/// A step that was seen, at its place in a pass.
struct Seen<'a> {
    step: &'a Step,
    lit: &'a StepRuns,
    depth: usize,
    /// The begin of the pass.
    begin: Nanos,
    times: Times,
    /// The pass is a start, of which only the first run of each step is shown.
    starts: bool,
}

fn line(out: &mut impl Write, seen: &Seen<'_>, options: &Options, paint: &Paint) -> io::Result<()> {
    let &Seen {
        step,
        lit: l,
        depth,
        begin,
        times,
        starts,
    } = seen;
    let wide = times.width(18);
    let failed = l.runs.iter().filter(|r| r.how == RunEnd::Failed).count();
    // In a start only each step's first run matters: loops that begin in it never end.
    let runs = if starts {
        l.runs.get(..1).unwrap_or_default()
    } else {
        &l.runs
    };
    let last = runs.last();
    let took = runs
        .iter()
        .filter_map(|r| r.duration(options.now))
        .max()
        .map(duration)
        .unwrap_or_default();
    let open = last.is_some_and(|r| r.how == RunEnd::InFlight);
    let often = if l.count > 1 && !starts {
        format!("×{}", l.count)
    } else {
        String::new()
    };
    let sign = if open {
        paint.yellow("…")
    } else if last.is_some_and(|r| r.how == RunEnd::Failed) {
        paint.red("✗")
    } else {
        " ".to_owned()
    };
    let name = format!(
        "{:indent$}{}",
        "",
        clean(&step.function),
        indent = depth * 2
    );
    let only_by = l.runs.is_empty() && l.evidence.iter().all(|(k, o)| is_of_the_end(*k, o));
    let kinds: Vec<&str> = l.evidence.iter().map(|(k, _)| k.name()).collect();
    let mut row = format!(
        "  {} {:<wide$} {:>9} {took:>8} {often:>6} {sign} {} {}",
        step.id,
        times.at(l.first.at, l.first.precision),
        // The step began before.
        format!(
            "{}{}",
            if only_by { "≤" } else { "+" },
            duration(l.first.at - begin)
        ),
        column(&name, 40),
        clean(&step.label),
    );
    if failed > 0 {
        row.push_str(&format!("  {}", paint.red(&format!("{failed} failed"))));
    }
    row.push_str(&paint.dim(&format!("  ({})", kinds.join(","))));
    writeln!(out, "{row}")?;
    let named = l.runs.iter().any(|r| !r.what.is_empty());
    if options.step.is_some() || named {
        for r in l.runs.iter().filter(|r| r.how != RunEnd::Before) {
            let took = r
                .duration(options.now)
                .map_or_else(|| "?".to_owned(), duration);
            writeln!(
                out,
                "      {:<5} {:<wide$} {took:>8}  {:<9} {}",
                if named {
                    String::new()
                } else {
                    format!("#{}", r.attempt)
                },
                times.at(r.start, r.begin.stamp.precision),
                ended(r.how),
                clean(&r.what),
            )?;
        }
        let before = l.runs.iter().filter(|r| r.how == RunEnd::Before);
        let names: Vec<String> = before
            .map(|r| clean(r.what.strip_prefix("poststarthook/").unwrap_or(&r.what)).into_owned())
            .collect();
        if !names.is_empty() {
            let n = names.len();
            writeln!(out, "      {n} were through when first asked about:")?;
            for three in names.chunks(2) {
                writeln!(out, "        {}", three.join(", "))?;
            }
        }
    }
    Ok(())
}

/// True for evidence that comes after a step: a scrape, which shows that it was done before, and the Event of a failure.
fn is_of_the_end(kind: SignatureKind, o: &Observation) -> bool {
    match &o.body {
        Body::Event(e) => e.reason.starts_with("Failed"),
        _ => kind == SignatureKind::Metric,
    }
}

#[derive(Serialize)]
struct PassJson<'a> {
    flow: &'a str,
    name: &'a str,
    pod: &'a str,
    pass: usize,
    passes: usize,
    begin_ns: Option<Nanos>,
    steps: Vec<LitJson<'a>>,
}

#[derive(Serialize)]
struct LitJson<'a> {
    step: &'a str,
    function: &'a str,
    label: &'a str,
    stage: Option<Stage>,
    seen: bool,
    first_ns: Option<Nanos>,
    precision_ns: Option<u32>,
    last_ns: Option<Nanos>,
    count: u32,
    evidence: Vec<EvidenceJson>,
    runs: Vec<RunJson<'a>>,
}

#[derive(Serialize)]
struct EvidenceJson {
    kind: &'static str,
    source: Source,
    at_ns: Nanos,
}

#[derive(Serialize)]
struct RunJson<'a> {
    attempt: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    what: &'a str,
    start_ns: Nanos,
    end_ns: Option<Nanos>,
    outcome: &'static str,
}

/// Writes what the steps did, a row per pass.
pub fn lit_json(
    out: &mut impl Write,
    map: &Map,
    passes: &[Pass],
    options: &Options,
    form: Rows,
) -> io::Result<()> {
    let rows = passes.iter().filter_map(|pass| {
        let flow = map.flows().get(pass.flow)?;
        let steps: Vec<LitJson<'_>> = map
            .steps_in(pass.flow)
            .filter(|(id, _)| options.step.is_none_or(|s| s == *id))
            .filter_map(|(id, step)| {
                let l = pass.lit.iter().find(|l| l.step == id);
                (l.is_some() || options.all).then(|| lit_of(step, l))
            })
            .collect();
        (!steps.is_empty()).then(|| PassJson {
            flow: &flow.id,
            name: &flow.name,
            pod: &pass.pod,
            pass: pass.number,
            passes: pass.of,
            begin_ns: begin(map, pass),
            steps,
        })
    });
    rows::values(out, form, rows)
}

fn lit_of<'a>(step: &'a Step, l: Option<&'a StepRuns>) -> LitJson<'a> {
    LitJson {
        step: &step.id,
        function: &step.function,
        label: &step.label,
        stage: step.stage,
        seen: l.is_some(),
        first_ns: l.map(|l| l.first.at),
        precision_ns: l.map(|l| l.first.precision),
        last_ns: l.map(|l| l.last.at),
        count: l.map_or(0, |l| l.count),
        evidence: l.map_or_else(Vec::new, |l| {
            l.evidence
                .iter()
                .map(|(kind, o)| EvidenceJson {
                    kind: kind.name(),
                    source: o.source,
                    at_ns: o.stamp.at,
                })
                .collect()
        }),
        runs: l.map_or_else(Vec::new, |l| {
            l.runs
                .iter()
                .map(|r| RunJson {
                    attempt: r.attempt,
                    what: &r.what,
                    start_ns: r.start,
                    end_ns: r.end,
                    outcome: ended(r.how),
                })
                .collect()
        }),
    }
}
