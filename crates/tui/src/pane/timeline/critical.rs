//! The critical path as rows: what the start waited for at each instant, as stairs on the time axis.

use ratatui::style::Style;

use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::{cut_middle, width};
use crate::widget::ruler::Window;
use crate::widget::scroll::Scroll;
use kflow_core::correlate::PodView;
use kflow_core::diagnose::awaited::{self, Awaited, Waits};
use kflow_core::timeline::SpanIndex;
use kflow_core::timeline::critical::{self, Blocker, Critical, Line, Piece};
use kflow_engine::Snapshot;
use kflow_model::Nanos;
use kflow_model::units::duration;

/// Width of a share such as ` 100%`, in columns.
pub(super) const SHARE: u16 = 5;

#[derive(Debug)]
pub(super) struct Path {
    path: Critical,
    lines: Vec<Line>,
    /// Whether every piece has a row of its own; else adjacent short pieces share one.
    all: bool,
    pub(super) scroll: Scroll,
    /// What the selected row waited for outside the pod, and the snapshot version and row for which it was looked up.
    awaited: Vec<Awaited>,
    asked: Option<(u64, usize)>,
}

impl Path {
    /// Returns the path of a pod, with the longest row selected; `None` if nothing of it is known.
    pub(super) fn of(p: &PodView, now: Nanos) -> Option<Self> {
        let path = critical::path(p, now).filter(|c| !c.pieces.is_empty())?;
        let mut it = Self {
            lines: path.lines(),
            path,
            all: false,
            scroll: Scroll::default(),
            awaited: Vec::new(),
            asked: None,
        };
        it.scroll.fit(it.lines.len(), 1);
        if let Some(longest) = it.by_length().first() {
            it.scroll.select(*longest);
        }
        Some(it)
    }
    /// Takes the current path of the pod. The selected row index stays the same.
    pub(super) fn refresh(&mut self, p: &PodView, now: Nanos) {
        if let Some(path) = critical::path(p, now) {
            self.path = path;
            self.cut();
        }
    }
    /// Looks up what the selected row waited for, if the snapshot or the row has changed.
    pub(super) fn ask(&mut self, snap: &Snapshot, p: &PodView) {
        let asked = Some((snap.version, self.scroll.at));
        if self.asked != asked {
            self.asked = asked;
            let piece = self.piece();
            self.awaited = piece
                .map(|piece| Waits::of(&snap.world, p, snap.now).in_piece(&piece))
                .unwrap_or_default();
        }
    }
    /// Returns what the selected row waited for longest.
    pub(super) fn awaited(&self) -> Option<&Awaited> {
        self.awaited.first()
    }
    /// Describes what the selected row waited for: `waits for s24a/slow PullImage 34.9s and 2 more`.
    pub(super) fn waits_for(&self, now: Nanos) -> Option<String> {
        awaited::sentence(&self.awaited, now)
    }
    fn cut(&mut self) {
        self.lines = if self.all {
            (0..self.path.pieces.len()).map(Line::Piece).collect()
        } else {
            self.path.lines()
        };
    }
    pub(super) fn fit(&mut self, height: usize) {
        self.scroll.fit(self.lines.len(), height);
    }
    /// Shows short pieces one by one, or combined. The selection stays at the same moment.
    pub(super) fn fold(&mut self) {
        let at = self.line().map(|l| l.start(&self.path));
        self.all = !self.all;
        self.cut();
        self.scroll
            .fit(self.lines.len(), self.scroll.visible().len());
        let same = |l: &Line| at.is_some_and(|at| l.end(&self.path) > at);
        if let Some(n) = self.lines.iter().position(same) {
            self.scroll.select(n);
        }
    }
    fn line(&self) -> Option<Line> {
        self.lines.get(self.scroll.at).copied()
    }
    /// Returns the selected piece; of combined short ones, the longest.
    pub(super) fn piece(&self) -> Option<Piece> {
        let (from, to) = match self.line()? {
            Line::Piece(i) => (i, i + 1),
            Line::Short(from, to) => (from, to),
        };
        let pieces = self.path.pieces.get(from..to)?;
        pieces.iter().max_by_key(|p| p.ns()).copied()
    }
    /// Returns begin and end of the whole path.
    pub(super) fn whole(&self) -> Option<(Nanos, Nanos)> {
        let pieces = &self.path.pieces;
        Some((pieces.first()?.start, pieces.last()?.end))
    }
    /// Returns begin and end of the selected row.
    pub(super) fn interval(&self) -> Option<(Nanos, Nanos)> {
        let line = self.line()?;
        Some((line.start(&self.path), line.end(&self.path)))
    }
    /// Returns the row indices by duration, longest first.
    fn by_length(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        let ns = |i: &usize| self.lines.get(*i).map_or(0, |l| l.ns(&self.path));
        order.sort_by_key(|i| std::cmp::Reverse(ns(i)));
        order
    }
    /// Selects the next shorter row, or the longest after the shortest. Returns the rank of the row, from 1, and the
    /// number of rows.
    pub(super) fn next_longest(&mut self) -> (usize, usize) {
        let order = self.by_length();
        let here = order.iter().position(|i| *i == self.scroll.at);
        let next = here.map_or(0, |n| n + 1) % order.len().max(1);
        if let Some(row) = order.get(next) {
            self.scroll.select(*row);
        }
        (next + 1, order.len())
    }
    /// Describes the selected row and its share of the whole path.
    pub(super) fn told(&self, p: &PodView) -> String {
        let Some(line) = self.line() else {
            return String::new();
        };
        let ns = line.ns(&self.path);
        format!(
            "{} of {} ({:.0}%): {}",
            duration(ns),
            duration(self.path.ns()),
            self.path.share(ns) * 100.0,
            line.words(&self.path, &p.timeline),
        )
    }
    pub(super) fn headline(&self, p: &PodView) -> String {
        self.path.headline(&p.timeline)
    }
    /// Draws the rows: descriptions at the left, the stairs, durations and shares at the right.
    pub(super) fn draw(
        &self,
        ctx: &Ctx<'_>,
        canvas: &mut Canvas<'_>,
        p: &PodView,
        (left, columns): (u16, u16),
        window: Window,
    ) {
        let t = ctx.theme;
        let w = canvas.width();
        for (y, row) in (0..).zip(self.scroll.visible()) {
            let Some(line) = self.lines.get(row) else {
                continue;
            };
            let piece = match line {
                Line::Piece(i) => self.path.pieces.get(*i),
                Line::Short(..) => None,
            };
            let (style, fill) = look(ctx, p, piece);
            let depth = piece
                .and_then(|piece| piece.span)
                .map_or(0, |i| depth(p, i));
            let words = format!(
                "{:indent$}{}",
                "",
                line.label(&self.path, &p.timeline),
                indent = depth.min(4)
            );
            let words = cut_middle(&words, usize::from(left.saturating_sub(2)));
            let text = if piece.is_some() { style } else { t.dim };
            canvas.text_in(1, y, left, &words, text);
            let lane = &mut canvas.part(left + 1, y, columns, 1);
            bar(
                ctx,
                lane,
                (line.start(&self.path), line.end(&self.path)),
                window,
                (fill, style),
            );
            let ns = line.ns(&self.path);
            let share = self.path.share(ns) * 100.0;
            let strong = if share >= 10.0 { t.critical } else { t.dim };
            let end = w.saturating_sub(1);
            canvas.text_right(end, y, SHARE, &format!("{share:.0}%"), strong);
            let time = duration(ns);
            canvas.text_right(
                end.saturating_sub(SHARE),
                y,
                width(&time) as u16,
                &time,
                t.dim,
            );
            if row == self.scroll.at {
                crate::pane::calls::select(ctx, canvas, y);
            }
        }
    }
}

/// Returns the number of steps that contain a span.
fn depth(p: &PodView, span: SpanIndex) -> usize {
    let spans = &p.timeline.spans;
    let parent = |i: SpanIndex| spans.get(i as usize).and_then(|s| s.parent);
    let above = std::iter::successors(parent(span), |i| parent(*i).filter(|p| p < i));
    // The stage does not count: it is not a row.
    above
        .filter(|i| spans.get(*i as usize).is_some_and(|s| !s.is_stage()))
        .count()
}

/// Returns the look of a piece: work is solid in the stage's colour; waiting and unexplained time are hatched.
fn look(ctx: &Ctx<'_>, p: &PodView, piece: Option<&Piece>) -> (Style, &'static str) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let Some(piece) = piece else {
        return (t.dim, g.full);
    };
    let span = piece.span.and_then(|i| p.timeline.spans.get(i as usize));
    match piece.blocker {
        Blocker::Unknown => (t.unknown, g.unknown),
        Blocker::Step | Blocker::InitContainer => {
            (span.map_or(t.text, |s| t.stage(s.stage)), g.full)
        }
        _ => (t.wait, g.bounded),
    }
}

fn bar(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    (from, to): (Nanos, Nanos),
    window: Window,
    (fill, style): (&str, Style),
) {
    let w = canvas.width();
    if to < window.from || from >= window.to {
        let (x, symbol) = if to < window.from {
            (0, ctx.glyphs.left)
        } else {
            (w.saturating_sub(1), ctx.glyphs.right)
        };
        canvas.symbol(x, 0, symbol, ctx.theme.faint);
        return;
    }
    let a = window.place(from, w).max(0.0);
    let z = window.place(to, w).min(f64::from(w));
    if z - a < 0.5 {
        canvas.symbol(
            (a as u16).min(w.saturating_sub(1)),
            0,
            ctx.glyphs.tick,
            style,
        );
        return;
    }
    let first = a as u16;
    let last = (z.round() as u16).max(first + 1);
    canvas.line(first, 0, last - first, fill, style);
}
