//! Two starts side by side: stages and their parts as rows, with the bars of A and B back to back.

use crate::canvas::Canvas;
use crate::glyph::Glyphs;
use crate::shared::Ctx;
use crate::text::cut_middle;
use crate::widget::scroll::Scroll;
use kflow_core::correlate::PodView;
use kflow_core::timeline::compare::{Comparison, Pair, StagePair, signed};
use kflow_core::timeline::critical;
use kflow_model::Nanos;
use kflow_model::units::duration;

/// Widths of a duration and of a difference, in columns.
const LENGTH: u16 = 8;
const DIFFERENCE: u16 = 9;

/// A row: a stage, or a part of a stage, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Stage(usize),
    Part(usize, usize),
}

#[derive(Debug)]
pub(super) struct Compared {
    names: (String, String),
    of: Comparison,
    rows: Vec<Row>,
    /// Whether every part has a row; else only parts that are at least a tenth of the whole difference.
    all: bool,
    pub(super) scroll: Scroll,
}

impl Compared {
    /// Returns the comparison of A and B; `None` while the start of either is not known.
    pub(super) fn of(a: &PodView, b: &PodView, now: Nanos) -> Option<Self> {
        let (of_a, of_b) = (critical::path(a, now)?, critical::path(b, now)?);
        let mut it = Self {
            names: (a.key(), b.key()),
            of: Comparison::of((&a.timeline, &of_a), (&b.timeline, &of_b)),
            rows: Vec::new(),
            all: false,
            scroll: Scroll::default(),
        };
        it.cut();
        Some(it)
    }
    /// Keeps the selection and the folding of the previous comparison.
    pub(super) fn after(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before {
            self.all = before.all;
            self.scroll = before.scroll;
            self.cut();
        }
        self
    }
    pub(super) fn fold(&mut self) {
        self.all = !self.all;
        self.cut();
    }
    pub(super) fn fit(&mut self, height: usize) {
        self.scroll.fit(self.rows.len(), height);
    }
    pub(super) fn headline(&self) -> String {
        self.of.headline()
    }
    fn cut(&mut self) {
        let whole = self.of.whole.difference().abs();
        self.rows.clear();
        for (i, stage) in self.of.stages.iter().enumerate() {
            self.rows.push(Row::Stage(i));
            let parts = stage.parts.iter().enumerate();
            let shown = parts.filter(|(_, (_, _, pair))| {
                self.all || pair.difference().abs().saturating_mul(10) >= whole.max(1)
            });
            self.rows.extend(shown.map(|(j, _)| Row::Part(i, j)));
        }
    }
    /// Draws the names of A and B, the headings, the rows, and the sum.
    pub(super) fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let t = ctx.theme;
        let (w, h) = (canvas.width(), canvas.height());
        let name = (w / 3).clamp(16, 44);
        let bars = w.saturating_sub(name + 2 * LENGTH + DIFFERENCE + 3);
        let half = bars / 2;
        let (a, b) = (name + LENGTH, name + 2 * LENGTH);
        let centre = b + DIFFERENCE + 2 + half;
        canvas.spans(
            1,
            0,
            &[
                ("A ", t.head),
                (&self.names.0, t.accent),
                ("   B ", t.head),
                (&self.names.1, t.accent),
            ],
        );
        canvas.text_in(1, 1, name, "WAITED FOR", t.head);
        canvas.text_right(a, 1, LENGTH, "A", t.head);
        canvas.text_right(b, 1, LENGTH, "B", t.head);
        canvas.text_right(b + DIFFERENCE, 1, DIFFERENCE, "B - A", t.head);
        let longest = self
            .of
            .stages
            .iter()
            .map(|s| s.whole.a.max(s.whole.b))
            .max();
        let scale = |ns: i64| match longest {
            Some(longest) if longest > 0 => {
                (ns as f64 / longest as f64 * f64::from(half)).round() as u16
            }
            _ => 0,
        };
        let whole = self.of.whole.difference().abs();
        for (y, row) in (HEAD..h.saturating_sub(1)).zip(self.scroll.visible()) {
            let Some((text, style, pair, is_stage)) = self.told(ctx, row) else {
                continue;
            };
            let text = cut_middle(&text, usize::from(name.saturating_sub(2)));
            canvas.text_in(1, y, name, &text, style);
            let plain = if is_stage { t.text } else { t.dim };
            canvas.text_right(a, y, LENGTH, &duration(pair.a), plain);
            canvas.text_right(b, y, LENGTH, &duration(pair.b), plain);
            let d = pair.difference();
            let decides = d.abs().saturating_mul(10) >= whole.max(1);
            let loud = match d {
                _ if !decides => t.dim,
                d if d > 0 => t.fail,
                _ => t.ok,
            };
            canvas.text_right(b + DIFFERENCE, y, DIFFERENCE, &signed(d), loud);
            let fill = if is_stage {
                ctx.glyphs.full
            } else {
                ctx.glyphs.thin
            };
            let (left, right) = (scale(pair.a), scale(pair.b));
            canvas.line(centre.saturating_sub(left), y, left, fill, style);
            canvas.symbol(centre, y, ctx.glyphs.wall, t.rule);
            canvas.line(centre + 1, y, right, fill, style);
            if row == self.scroll.at {
                crate::pane::calls::select(ctx, canvas, y);
            }
        }
        let y = h.saturating_sub(1);
        let Pair { a: of_a, b: of_b } = self.of.whole;
        canvas.text_in(1, y, name, "whole", t.strong);
        canvas.text_right(a, y, LENGTH, &duration(of_a), t.strong);
        canvas.text_right(b, y, LENGTH, &duration(of_b), t.strong);
        let d = signed(self.of.whole.difference());
        canvas.text_right(b + DIFFERENCE, y, DIFFERENCE, &d, t.strong);
        self.scroll.draw(ctx, &mut canvas.part(0, 0, w, y), HEAD);
    }
    fn told(
        &self,
        ctx: &Ctx<'_>,
        row: usize,
    ) -> Option<(String, ratatui::style::Style, Pair, bool)> {
        let t = ctx.theme;
        let colour = |s: &StagePair| s.stage.map_or(t.unknown, |stage| t.stage(stage));
        match *self.rows.get(row)? {
            Row::Stage(i) => {
                let s = self.of.stages.get(i)?;
                Some((s.name().to_owned(), colour(s), s.whole, true))
            }
            Row::Part(i, j) => {
                let s = self.of.stages.get(i)?;
                let (what, blocker, pair) = s.parts.get(j)?;
                let style = if blocker.is_wait() { t.wait } else { colour(s) };
                Some((format!("  {what}"), style, *pair, false))
            }
        }
    }
}

/// Rows above the list: the names and the headings.
pub(super) const HEAD: u16 = 2;

pub(super) fn signs(g: &Glyphs) -> Vec<(String, &'static str)> {
    vec![
        (g.full.to_owned(), "a stage: A to the left, B to the right"),
        (g.thin.to_owned(), "a part of the stage above it"),
    ]
}
