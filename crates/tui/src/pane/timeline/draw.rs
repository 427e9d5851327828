//! Draws the waterfall: the ruler and the marks, the tree or the critical path, and the detail of the selected row.

use super::{HEAD, TimelinePane, bars, detail};
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::counted;
use crate::widget::ruler::{self, Window};
use kflow_core::correlate::PodView;
use kflow_core::flow::Stage;
use kflow_core::timeline::{Outcome, summary};
use kflow_model::units::duration;

impl TimelinePane {
    /// Draws a row for each span of the tree.
    fn draw_tree(
        &self,
        ctx: &Ctx<'_>,
        canvas: &mut Canvas<'_>,
        p: &PodView,
        (left, columns): (u16, u16),
        window: Window,
    ) {
        let w = canvas.width();
        let right = self.sides(w).1;
        for (i, row) in self.scroll.visible().enumerate() {
            let y = i as u16;
            let Some(r) = self.rows.get(row) else {
                continue;
            };
            let Some(s) = p.timeline.spans.get(r.span as usize) else {
                continue;
            };
            let on = row == self.scroll.at;
            bars::name(ctx, &mut canvas.part(0, y, left, 1), r, s);
            let lane = &mut canvas.part(left + 1, y, columns, 1);
            bars::bar(ctx, lane, s, window, r.open || s.is_stage());
            // A folded stage is the envelope of its steps; the time of the steps themselves is drawn solid.
            if s.is_stage() && !r.open {
                let below = p.timeline.spans.iter().filter(|c| c.parent == Some(r.span));
                for step in below {
                    bars::bar(ctx, lane, step, window, false);
                }
            }
            if s.is_stage() {
                bars::gaps(
                    ctx,
                    &mut canvas.part(left + 1, y, columns, 1),
                    p,
                    s.stage,
                    window,
                );
            }
            if s.is_stage() && s.stage == Stage::Terminate {
                let mut lane = canvas.part(left + 1, y, columns, 1);
                bars::grace(ctx, &mut lane, p, window);
            }
            let style = if s.outcome == Outcome::InFlight && !s.is_run() {
                ctx.theme.run
            } else {
                ctx.theme.dim
            };
            canvas.text_right(
                w - 1,
                y,
                right,
                &duration(summary::work_ns(&p.timeline, s, ctx.snap.now)),
                style,
            );
            if on {
                crate::pane::calls::select(ctx, canvas, y);
            }
        }
    }
    pub(super) fn draw_life(
        &self,
        ctx: &Ctx<'_>,
        canvas: &mut Canvas<'_>,
        p: &PodView,
        window: Window,
    ) {
        let (w, h) = (canvas.width(), canvas.height());
        let (left, right) = self.sides(w);
        let columns = w.saturating_sub(left + right + 2).max(1);
        let below = self.detail_height(h);
        let tree = h.saturating_sub(HEAD + below);
        ruler::draw(
            ctx,
            &mut canvas.part(left + 1, 0, columns, h - below),
            window,
            p.zero(),
            tree + 1,
        );
        let head = match &self.path {
            Some(_) => ("WAITED FOR", "TIME SHARE"),
            None => ("STAGE  STEP", "TIME"),
        };
        canvas.text_in(1, 0, left, head.0, ctx.theme.head);
        canvas.text_right(w - 1, 0, right, head.1, ctx.theme.head);
        bars::marks(ctx, &mut canvas.part(left + 1, 1, columns, 1), p, window);
        let n = p.timeline.marks.len();
        canvas.text_in(1, 1, left, &counted(n, "mark"), ctx.theme.faint);
        let rows = &mut canvas.part(0, HEAD, w, tree);
        match &self.path {
            Some(path) => path.draw(ctx, rows, p, (left, columns), window),
            None => self.draw_tree(ctx, rows, p, (left, columns), window),
        }
        bars::cursors(
            ctx,
            &mut canvas.part(left + 1, 1, columns, tree + 1),
            window,
        );
        if below > 0 {
            let y = h - below;
            canvas.line(0, y, w, ctx.glyphs.rule, ctx.theme.rule);
            let s = self.selected(&p.timeline);
            let told = self.path.as_ref().map(|path| {
                let waits = path.waits_for(ctx.snap.now);
                (path.told(p), waits.unwrap_or_default())
            });
            detail::draw(
                ctx,
                &mut canvas.part(1, y + 1, w.saturating_sub(2), below - 1),
                p,
                (told, s, &self.pulls),
                window,
            );
        }
        if tree > 0 {
            let scroll = self.path.as_ref().map_or(&self.scroll, |path| &path.scroll);
            scroll.draw(ctx, &mut canvas.part(0, 0, w, HEAD + tree), HEAD);
        }
    }
}
