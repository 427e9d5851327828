//! Pods as lanes: one row per pod, with its stages as segments on a common time axis, so that a burst is
//! visible at a glance.

use super::list::{List, Row};
use super::order::{self, Sort};
use super::row;
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::{cut_middle, width};
use crate::widget::ruler::{self, Window};
use crate::widget::stage;
use kflow_core::correlate::PodView;
use kflow_core::diagnose::Verdict;
use kflow_core::flow::Stage;
use kflow_core::timeline::{Outcome, summary};
use kflow_model::Nanos;
use kflow_model::units::{age, duration};

/// Rows below the list: a rule, and the duration of each stage of the selected pod, which is also the
/// legend of the colours.
pub(super) const BELOW: u16 = 2;

/// Width of the column with the duration of the start.
const START: u16 = 7;
/// Width of the column with the cause.
const CAUSE: u16 = 5;

/// Widths and positions of the columns: width of names, position of starts, of causes, position and width of the chart.
pub(super) struct Columns {
    name: u16,
    start: u16,
    cause: u16,
    chart: (u16, u16),
}

impl Columns {
    pub(super) fn of(w: u16, names: u16) -> Self {
        let name = names.clamp(12, (w / 3).max(12));
        let start = 2 + name + 1;
        let cause = start + START + 1;
        let chart = cause + CAUSE + 1;
        Self {
            name,
            start,
            cause,
            // One column is left for the scroll bar.
            chart: (chart, w.saturating_sub(chart + 1).max(1)),
        }
    }
}

/// Returns the end of a pod's lane: now while a stage of an existing pod is in progress, else the end
/// of its last stage.
fn last(p: &PodView, now: Nanos) -> Nanos {
    let open = p.current.is_some() && p.gone.is_none();
    let stages = || p.timeline.spans.iter().filter(|s| s.is_stage());
    let ended = stages().filter_map(|s| Some(s.end?.at)).max();
    if open {
        now
    } else {
        ended.unwrap_or_else(|| p.zero()).min(now)
    }
}

/// Returns the time window for the visible pods: from the first creation to the last end, within the observed range.
pub(super) fn window<'p>(ctx: &Ctx<'_>, pods: impl Iterator<Item = &'p PodView>) -> Window {
    let (begin, now) = (ctx.snap.range.0, ctx.snap.now);
    let (mut from, mut to) = (now, begin);
    for p in pods {
        from = from.min(p.zero());
        to = to.max(last(p, now));
    }
    let from = from.max(begin).min(now);
    let to = to.max(from);
    let pad = (to.since(from) / 50).max(1_000_000);
    Window::new(from.plus(-pad), to.plus(pad))
}

/// Formats the duration of a start: `4.62s`, or `~4s` if it is known to the second only; `None` if there is none.
pub(in crate::pane) fn start(p: &PodView) -> Option<String> {
    let (ns, precision) = p.start()?;
    Some(if i64::from(precision) >= kflow_model::stamp::SECOND {
        format!("~{}", age(ns))
    } else {
        duration(ns)
    })
}

/// Draws the headings and the axis; its grid lines continue through the next `rows` rows.
pub(super) fn head(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    c: &Columns,
    window: Window,
    sort: Sort,
    rows: u16,
) {
    let t = ctx.theme;
    let style = |on: bool| if on { t.head_on } else { t.head };
    canvas.text_in(2, 0, c.name, "NAME", style(sort == Sort::Name));
    let by_start = matches!(sort, Sort::Start | Sort::Took(_));
    let title = match sort {
        Sort::Took(stage) => stage.name().to_uppercase(),
        _ => "START".to_owned(),
    };
    canvas.text_right(c.start + START, 0, START, &title, style(by_start));
    canvas.text_in(c.cause, 0, CAUSE, "WHY", style(sort == Sort::Verdict));
    let (x, w) = c.chart;
    let mut chart = canvas.part(x, 0, w, rows + 1);
    ruler::draw(ctx, &mut chart, window, ctx.snap.range.0, rows);
}

/// Draws one pod.
pub(super) fn pod(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    c: &Columns,
    y: u16,
    p: &PodView,
    window: Window,
    sort: Sort,
) {
    let t = ctx.theme;
    let verdict = ctx.snap.verdicts.get(&p.uid).map(|v| &**v);
    let name = cut_middle(&p.key(), usize::from(c.name)).into_owned();
    let style = if p.gone.is_some() { t.gone } else { t.text };
    canvas.text_in(2, y, c.name, &name, style);
    let (text, style) = match sort {
        Sort::Took(stage) => match p.took.get(stage.index()) {
            Some(ns) if *ns > 0 => (duration(*ns), t.stage(stage)),
            _ => (String::new(), t.dim),
        },
        _ => match (start(p), p.current) {
            (Some(text), _) => (text, t.strong),
            (None, Some((_, since))) if p.gone.is_none() => (age(ctx.snap.now.since(since)), t.run),
            _ => (String::new(), t.dim),
        },
    };
    canvas.text_right(c.start + START, y, START, &text, style);
    if let Some(v) = verdict.filter(|v| !v.state.is_well()) {
        let (_, style) = stage::verdict(ctx, v.state);
        canvas.text_in(c.cause, y, CAUSE, v.cause_id(), *style);
    }
    let (x, w) = c.chart;
    segments(ctx, &mut canvas.part(x, y, w, 1), p, window, ctx.snap.now);
}

/// Draws an owner or a node, with its verdict where a pod has its lane.
pub(super) fn owner(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, c: &Columns, y: u16, v: &Verdict) {
    let t = ctx.theme;
    let name = order::owner_name(v);
    canvas.text_in(
        2,
        y,
        c.name,
        &cut_middle(&name, usize::from(c.name)),
        t.strong,
    );
    let (_, style) = stage::verdict(ctx, v.state);
    canvas.text_right(
        c.start + START,
        y,
        START,
        &age(ctx.snap.now.since(v.since)),
        *style,
    );
    canvas.text_in(c.cause, y, CAUSE, v.cause_id(), *style);
    let (x, w) = c.chart;
    let text = if width(&v.sentence) <= usize::from(w) {
        &v.sentence
    } else {
        v.title.as_str()
    };
    canvas.line(x, y, w, " ", t.text);
    canvas.text_in(x, y, w, text, t.dim);
}

/// Draws the stages of a pod, later ones over earlier ones, on a line from its creation to its end.
pub(in crate::pane) fn segments(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    p: &PodView,
    window: Window,
    now: Nanos,
) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let w = canvas.width();
    let cells = |from: Nanos, to: Nanos| {
        let a = window.place(from, w).max(0.0);
        let z = window.place(to, w).min(f64::from(w));
        (z >= 0.0 && a < f64::from(w)).then(|| {
            let first = a as u16;
            (
                first,
                (z.max(0.0).ceil() as u16).saturating_sub(first).max(1),
            )
        })
    };
    let end = last(p, now);
    if end < window.from || p.zero() >= window.to {
        let (x, symbol) = if end < window.from {
            (0, g.left)
        } else {
            (w.saturating_sub(1), g.right)
        };
        canvas.symbol(x, 0, symbol, t.faint);
        return;
    }
    if let Some((x, n)) = cells(p.zero(), end) {
        canvas.line(x, 0, n, g.rule, t.faint);
    }
    for stage in Stage::ALL {
        let Some(span) = p.timeline.stage(stage) else {
            continue;
        };
        let style = match span.outcome {
            Outcome::Error => t.fail,
            _ => t.stage(stage),
        };
        for (from, to) in summary::work(&p.timeline, span, now) {
            if let Some((x, n)) = cells(from, to.min(now)) {
                canvas.line(x, 0, n, g.full, style);
            }
        }
    }
    if p.current.is_some()
        && p.gone.is_none()
        && let Some(x) = window.column(now, w)
    {
        canvas.symbol(x, 0, g.growing, t.run);
    }
}

/// Draws the duration of each stage of the selected pod below the list, in the colours of the stages.
pub(super) fn below(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16, owner: Option<&Verdict>) {
    let (w, t) = (canvas.width(), ctx.theme);
    if owner.is_some() {
        return row::below(ctx, canvas, y, owner);
    }
    canvas.line(0, y, w, ctx.glyphs.rule, t.rule);
    let Some(p) = ctx.shared.view(ctx.snap) else {
        return;
    };
    let took = |stage: &Stage| p.took.get(stage.index()).copied().unwrap_or(0);
    let text = |stage: &Stage| format!("{} {}", stage.name(), duration(took(stage)));
    // If there is no room for all stages, those that took longest are shown.
    let mut longest: Vec<Stage> = Stage::ALL.to_vec();
    longest.retain(|s| p.timeline.stage(*s).is_some());
    longest.sort_by_key(|s| -took(s));
    let mut room = usize::from(w.saturating_sub(1));
    longest.retain(|s| {
        let need = width(&text(s)) + 3;
        let fits = need <= room;
        room -= if fits { need } else { 0 };
        fits
    });
    let mut x = 1;
    for stage in Stage::ALL.into_iter().filter(|s| longest.contains(s)) {
        x += canvas.text(x, y + 1, ctx.glyphs.full, t.stage(stage));
        x += canvas.text(x, y + 1, stage.name(), t.stage(stage)) + 1;
        x += canvas.text(x, y + 1, &duration(took(&stage)), t.dim) + 2;
    }
}

/// Returns the pods of these rows.
pub(super) fn pods<'s>(
    ctx: &Ctx<'s>,
    list: &'s List,
    rows: std::ops::Range<usize>,
) -> impl Iterator<Item = &'s PodView> {
    let snap = ctx.snap;
    let rows = list.rows.get(rows).unwrap_or(&[]);
    rows.iter().filter_map(|r| match r {
        Row::Pod(i) => snap.world.pods().get(*i as usize).map(|p| &***p),
        Row::Group(..) | Row::Owner(_) | Row::MoreOwners(_) => None,
    })
}
