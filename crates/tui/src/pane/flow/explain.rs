//! The explanation of a step: what it does, which component runs it and why, the symptoms if it hangs, its source
//! file, and the evidence of it for this pod.

use crate::describe;
use crate::shared::Ctx;
use crate::widget::details::Details;
use kflow_core::flow::glossary;
use kflow_core::flow::map::{Map, StepId};
use kflow_core::flow::runs::{RunEnd, StepRuns};
use kflow_model::Evidence;
use kflow_model::units::duration;

/// Columns of the labels; narrow, to leave the width to the sentences.
const LABEL: u16 = 11;

/// Limit on the observations that are listed for a step.
const OBSERVATIONS: usize = 6;

/// Limit on the columns of an observation; the log has the whole text.
const ROOM: usize = 150;

pub(super) fn flow(ctx: &Ctx<'_>, flow: usize) -> Details {
    let mut d = Details::labelled(LABEL);
    if let Some(f) = Map::active().flows().get(flow) {
        d.head(format!("({}) {}", f.id, f.title), ctx.theme.strong);
        d.fact("tells", &f.about, ctx.theme.text);
    }
    d
}

pub(super) fn step(ctx: &Ctx<'_>, id: StepId, l: Option<&StepRuns>) -> Details {
    let t = ctx.theme;
    let map = Map::active();
    let mut d = Details::labelled(LABEL);
    let Some(s) = map.get(id) else {
        return d;
    };
    d.head(format!("{}  {}", s.id, s.label), t.strong);
    d.fact("does", &s.does, t.text);
    // If the pod is stuck in this step now, the symptoms are highlighted.
    let open = l.and_then(|l| l.runs.last()).map(|r| r.how);
    let hangs = match open {
        Some(RunEnd::InFlight | RunEnd::Failed) => t.wait,
        _ => t.text,
    };
    d.fact("hangs", &s.hangs, hangs);
    let mut function = s.function.to_string();
    for also in &s.also {
        function.push_str(&format!(", {also}"));
    }
    d.fact("function", function, t.text);
    d.fact("file", &s.file, t.dim);
    match (l, s.invisible_because()) {
        (Some(l), _) => seen(ctx, &mut d, l),
        (None, Some(why)) => d.fact(
            "this pod",
            format!("No source can show this step: {why}."),
            t.dim,
        ),
        (None, None) => {
            let signs: Vec<String> = s.signatures.iter().map(ToString::to_string).collect();
            let said = format!("No source showed it. These would: {}.", signs.join("; "));
            d.fact("this pod", said, t.dim);
        }
    }
    d.fact("before", s.was.join(", "), t.dim);
    if let Some(p) = s.parent.and_then(|p| map.get(p)) {
        d.fact("called by", format!("{}  {}", p.id, p.function), t.dim);
    }
    let text = format!("{}\n{}\n{}", s.label, s.does, s.hangs);
    for (n, w) in glossary::used(&text).into_iter().enumerate() {
        let label = if n == 0 { "words" } else { "" };
        d.fact(label, format!("{}: {}", w.name, w.means), t.dim);
    }
    for e in l.map(shown).into_iter().flatten() {
        let at = ctx.time().at(e.stamp.at, e.stamp.precision, 6);
        let (what, _) = describe::line(e);
        let said = format!("{at}  {}", crate::text::cut(&what, ROOM));
        d.fact(e.source.name(), said, t.text);
    }
    d
}

/// Adds what the evidence says about the step for this pod.
fn seen(ctx: &Ctx<'_>, d: &mut Details, l: &StepRuns) {
    let (t, now) = (ctx.theme, ctx.snap.now);
    let mut said = match l.count {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let ended = l.runs.iter().filter(|r| r.how != RunEnd::InFlight);
    if let Some(longest) = ended.filter_map(|r| r.duration(now)).max() {
        let which = if l.runs.len() > 1 {
            ", the longest "
        } else {
            ", "
        };
        said.push_str(which);
        said.push_str(&duration(longest));
    }
    let failed = l.runs.iter().filter(|r| r.how == RunEnd::Failed).count();
    if failed > 0 {
        said.push_str(&format!(", {failed} failed"));
    }
    let last = l.runs.last();
    let (goes_on, style) = match last.map(|r| r.how) {
        Some(RunEnd::InFlight) => (true, t.run),
        Some(RunEnd::Failed) => (false, t.fail),
        _ => (false, t.ok),
    };
    if goes_on && let Some(age) = last.and_then(|r| r.duration(now)) {
        said.push_str(&format!(", in flight for {}", duration(age)));
    }
    d.fact("this pod", said, style);
}

/// Returns the evidence to list: the first observation of each kind, and the newest run if it failed or is in flight.
fn shown(l: &StepRuns) -> Vec<&Evidence> {
    let newest = l.runs.last();
    let newest = newest.filter(|r| matches!(r.how, RunEnd::Failed | RunEnd::InFlight));
    let of_newest = newest
        .into_iter()
        .flat_map(|r| [Some(&r.begin), r.finish.as_ref()]);
    let first = l.evidence.iter().map(|(_, e)| e);
    let mut shown: Vec<_> = first.chain(of_newest.flatten()).collect();
    shown.sort();
    shown.dedup();
    shown.truncate(OBSERVATIONS);
    shown
}
