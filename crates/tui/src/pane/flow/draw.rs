//! Draws a step: symbol, duration, number of runs, evidence, file, and details of the selected one.

use super::tree;
use crate::canvas::Canvas;
use crate::describe;
use crate::shared::Ctx;
use crate::text::count;
use kflow_core::flow::map::{Map, StepId};
use kflow_core::flow::runs::{RunEnd, StepRuns};
use kflow_model::units::duration;

/// Widths of the columns. From the right: file, kinds of evidence, number of runs, duration of the longest run, tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    tree: u16,
    kinds: u16,
    file: u16,
}

/// Width of the duration and the number of runs.
const NUMBERS: u16 = 18;

impl Columns {
    pub(super) const fn of(w: u16) -> Self {
        let file = if w >= 180 {
            58
        } else if w >= 130 {
            44
        } else {
            0
        };
        let kinds = if w >= 100 { 16 } else { 0 };
        Self {
            tree: w.saturating_sub(file + kinds + NUMBERS + 2),
            kinds,
            file,
        }
    }
    /// Whether rows begin with the step's id. Texts name steps by it.
    const fn shows_ids(self) -> bool {
        self.tree >= 36
    }
    pub(super) fn head(self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let t = ctx.theme;
        canvas.text_in(3, 0, self.tree, "STEP", t.head);
        canvas.text_right(self.tree + 9, 0, 8, "LONGEST", t.head);
        canvas.text_right(self.tree + 17, 0, 7, "TIMES", t.head);
        let x = self.tree + NUMBERS + 1;
        canvas.text_in(x, 0, self.kinds, "EVIDENCE", t.head);
        canvas.text_in(x + self.kinds, 0, self.file, "SOURCE FILE", t.head);
    }
    pub(super) fn step(
        self,
        ctx: &Ctx<'_>,
        canvas: &mut Canvas<'_>,
        y: u16,
        id: StepId,
        (depth, mark): (u16, &str),
        l: Option<&StepRuns>,
    ) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let Some(s) = Map::active().get(id) else {
            return;
        };
        let why_not = s.invisible_because().filter(|_| l.is_none());
        let run = l.and_then(|l| l.runs.last());
        let how = run.map(|r| r.how);
        // For a step without evidence from this pod, the row counts how often the whole node ran the step.
        let node = match l {
            None => tree::node_count(ctx.snap.world.kubelet(), &s.function),
            Some(_) => None,
        };
        let (symbol, style) = match (l, how) {
            (Some(_), Some(RunEnd::Failed)) => (g.failing, t.fail),
            (Some(_), Some(RunEnd::InFlight)) => (g.running, t.run),
            (Some(_), _) => (g.on, t.ok),
            (None, _) if node.is_some() => (g.on, t.dim),
            (None, _) if why_not.is_some() => (g.absent, t.faint),
            (None, _) => (g.off, t.dim),
        };
        let mut x = 1 + depth * 2;
        canvas.symbol(x, y, mark, t.dim);
        canvas.symbol(x + 2, y, symbol, style);
        x += 4;
        let name_style = match (l, how) {
            (Some(_), Some(RunEnd::Failed)) => t.fail,
            (Some(_), Some(RunEnd::InFlight)) => t.run,
            (Some(_), _) => t.text,
            (None, _) if node.is_some() => t.text,
            (None, _) => t.faint,
        };
        let end = self.tree;
        // The root is named after the function that runs once per iteration of the loop.
        let function = match s.also.first() {
            Some(also) if s.function == tree::ROOT => also,
            _ => &s.function,
        };
        if self.shows_ids() {
            x += canvas.text(x, y, &s.id, t.dim) + 1;
        }
        x += canvas.text_in(x, y, end.saturating_sub(x), function, name_style);
        // The attempt number matters only while a step fails or is in flight; else the number of runs is enough.
        let trying = matches!(how, Some(RunEnd::Failed | RunEnd::InFlight));
        if let Some(r) = run.filter(|r| trying && r.attempt > 0) {
            let attempt = format!(" #{}", r.attempt);
            x += canvas.text_in(x, y, end.saturating_sub(x), &attempt, t.warn);
        }
        let note = match why_not {
            Some(why) => format!("cannot be seen: {why}"),
            None if s.label == s.function => String::new(),
            None => s.label.to_string(),
        };
        canvas.text_in(x + 2, y, end.saturating_sub(x + 3), &note, t.faint);
        let times = match (l, node) {
            (Some(l), _) if l.count > 1 => format!("{}{}", g.times, count(l.count as usize)),
            (None, Some(n)) => format!("{}{}", g.times, count(n as usize)),
            _ => String::new(),
        };
        canvas.text_right(self.tree + 17, y, 7, &times, t.dim);
        // The longest run, not the last, shows where a step with many runs once took long.
        let longest = l.and_then(|l| {
            let runs = l.runs.iter();
            runs.filter_map(|r| r.duration(ctx.snap.now)).max()
        });
        if let Some(d) = longest {
            canvas.text_right(self.tree + 9, y, 8, &duration(d), style);
        }
        let x = self.tree + NUMBERS + 1;
        let mut at = x;
        if let Some(l) = l {
            let mut names: Vec<_> = l.evidence.iter().map(|(_, e)| e.source).collect();
            names.dedup();
            for n in names {
                let room = (x + self.kinds).saturating_sub(at + 1);
                at += canvas.text_in(at, y, room, n.name(), t.source(n)) + 1;
            }
        } else if node.is_some() {
            canvas.text_in(at, y, self.kinds.saturating_sub(1), "the node's", t.faint);
        }
        canvas.text_in(
            x + self.kinds,
            y,
            self.file.saturating_sub(2),
            &s.file,
            t.faint,
        );
    }
}

/// Draws the heading of a flow.
pub(super) fn flow(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16, flow: usize, open: bool) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let Some(flow) = Map::active().flows().get(flow) else {
        return;
    };
    let mark = if open { g.open } else { g.closed };
    canvas.spans(
        1,
        y,
        &[
            (mark, t.accent),
            (&format!(" ({}) ", flow.id), t.dim),
            (&flow.title, t.strong),
        ],
    );
}

/// Draws the details of the selected step.
pub(super) fn detail(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, id: StepId, l: Option<&StepRuns>) {
    let t = ctx.theme;
    canvas.line(0, 0, canvas.width(), ctx.glyphs.rule, t.rule);
    let Some(s) = Map::active().get(id) else {
        return;
    };
    let label = if s.label == s.function {
        ""
    } else {
        s.label.as_str()
    };
    let x = canvas.spans(
        1,
        1,
        &[
            (&s.id, t.accent),
            ("  ", t.text),
            (&s.function, t.strong),
            ("  ", t.text),
            (label, t.text),
            (if label.is_empty() { "" } else { "  " }, t.text),
            (&s.file, t.dim),
        ],
    );
    if !s.was.is_empty() {
        canvas.text(x + 2, 1, &format!("before: {}", s.was.join(", ")), t.faint);
    }
    let time = ctx.time();
    match (l, s.invisible_because()) {
        (Some(l), _) => {
            // For a failing or open step, the evidence of its newest run; else the evidence that showed the step first.
            let newest = l
                .runs
                .last()
                .filter(|r| matches!(r.how, RunEnd::Failed | RunEnd::InFlight));
            let shown: Vec<_> = match newest {
                Some(r) => [Some(&r.begin), r.finish.as_ref()]
                    .into_iter()
                    .flatten()
                    .collect(),
                None => l.evidence.iter().map(|(_, e)| e).collect(),
            };
            for (i, e) in shown.into_iter().take(2).enumerate() {
                let at = time.at(e.stamp.at, e.stamp.precision, 6);
                let (what, _) = describe::line(e);
                let y = 2 + i as u16;
                let x = canvas.spans(
                    1,
                    y,
                    &[
                        (&at, t.dim),
                        ("  ", t.text),
                        (e.source.name(), t.source(e.source)),
                        ("  ", t.text),
                    ],
                );
                canvas.text(x, y, &what, t.text);
            }
        }
        (None, Some(why)) => {
            canvas.text(
                1,
                2,
                &format!("No source can show this step: {why}."),
                t.dim,
            );
        }
        (None, None) => {
            let kinds: Vec<&str> = s.kinds().iter().map(|k| k.name()).collect();
            let said = format!(
                "Not seen of this pod; it would show as {}.",
                kinds.join(", ")
            );
            canvas.text(1, 2, &said, t.dim);
        }
    }
}
