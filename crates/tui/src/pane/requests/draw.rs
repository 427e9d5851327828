//! Draws groups, requests, and the spans of one request.

use super::{Requests, SLOW};
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::{count, cut_middle};
use crate::widget::scroll;
use crate::widget::table::{self, Column};
use kflow_core::correlate::Request;
use kflow_export::requests::{bar, facts, object};
use kflow_model::units::duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Col {
    Count,
    Errors,
    P50,
    P95,
    P99,
    Max,
    Verb,
    Resource,
    Client,
    Open,
    Start,
    Length,
    Code,
    Object,
    Message,
    AuditId,
}

const GROUPS: [Column<'static, Col>; 10] = [
    Column::new(Col::Count, "COUNT", 6, 8, 0).right(),
    Column::new(Col::Errors, "ERRORS", 6, 7, 0).right(),
    Column::new(Col::Open, "OPEN", 5, 6, 3).right(),
    Column::new(Col::P50, "P50", 7, 8, 1).right(),
    Column::new(Col::P95, "P95", 7, 8, 2).right(),
    Column::new(Col::P99, "P99", 7, 8, 0).right(),
    Column::new(Col::Max, "MAX", 7, 8, 2).right(),
    Column::new(Col::Verb, "VERB", 7, 9, 0),
    Column::new(Col::Resource, "RESOURCE", 14, 34, 0),
    Column::new(Col::Client, "CLIENT", 12, 90, 1),
];

const LIST: [Column<'static, Col>; 9] = [
    Column::new(Col::Start, "START", 12, 15, 1),
    Column::new(Col::Length, "LENGTH", 7, 8, 0).right(),
    Column::new(Col::Code, "CODE", 4, 4, 0).right(),
    Column::new(Col::Verb, "VERB", 7, 9, 0),
    Column::new(Col::Resource, "RESOURCE", 14, 26, 0),
    Column::new(Col::Object, "OBJECT", 24, 60, 2),
    Column::new(Col::Message, "MESSAGE", 20, 400, 3),
    Column::new(Col::Client, "CLIENT", 12, 60, 4),
    Column::new(Col::AuditId, "AUDIT ID", 8, 36, 5),
];

/// Lengths of the longest texts of a list, in bytes, so that an empty column takes no room from the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Longest {
    object: usize,
    message: usize,
    client: usize,
}

impl Longest {
    pub(super) fn of<'a>(list: impl Iterator<Item = &'a Request>) -> Self {
        let mut most = Self::default();
        for r in list {
            let object = r.object.namespace.len() + 1 + r.object.name.len();
            most.object = most.object.max(object);
            most.message = most.message.max(message(r).len());
            most.client = most.client.max(r.agent.len());
        }
        most
    }
    fn of_column(self, c: Col) -> u16 {
        let bytes = match c {
            Col::Object => self.object,
            Col::Message => self.message,
            Col::Client => self.client,
            _ => return u16::MAX,
        };
        u16::try_from(bytes).unwrap_or(u16::MAX)
    }
}

/// Returns the error message of a failed request; empty for others.
fn message(r: &Request) -> &str {
    if r.is_error() { &r.message } else { "" }
}

impl Requests {
    pub(super) fn draw_groups(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let t = ctx.theme;
        let columns = table::place(&GROUPS, canvas.width().saturating_sub(3));
        table::head(ctx, canvas, 2, 0, &columns, None);
        for (n, row) in self.group_scroll.visible().enumerate() {
            let (y, Some(g)) = (1 + n as u16, self.groups.get(row)) else {
                continue;
            };
            for p in &columns {
                let (x, w, end) = (p.x + 2, p.w, p.x + 2 + p.w);
                let time = |canvas: &mut Canvas<'_>, ns: i64| {
                    let style = if ns > SLOW { t.warn } else { t.text };
                    canvas.text_right(end, y, w, &duration(ns), style);
                };
                match p.column.id {
                    Col::Count => {
                        canvas.text_right(end, y, w, &count(g.count as usize), t.strong);
                    }
                    Col::Errors if g.errors > 0 => {
                        canvas.text_right(end, y, w, &count(g.errors as usize), t.fail);
                    }
                    Col::Open if g.open > 0 => {
                        canvas.text_right(end, y, w, &count(g.open as usize), t.run);
                    }
                    Col::P50 => time(canvas, g.p50_ns),
                    Col::P95 => time(canvas, g.p95_ns),
                    Col::P99 => time(canvas, g.p99_ns),
                    Col::Max => time(canvas, g.max_ns),
                    Col::Verb => {
                        canvas.text_in(x, y, w, &g.verb, t.text);
                    }
                    Col::Resource => {
                        canvas.text_in(x, y, w, &g.resource, t.strong);
                    }
                    Col::Client => {
                        canvas.text_in(x, y, w, &g.agent, t.accent);
                    }
                    _ => {}
                }
            }
            if row == self.group_scroll.at {
                crate::pane::calls::select(ctx, canvas, y);
            }
        }
        self.group_scroll.draw(ctx, canvas, 1);
    }
    pub(super) fn draw_list(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let width = canvas.width().saturating_sub(3);
        // Without a failed request, the column of messages is left out.
        let failed = self.longest.message > 0;
        let shown: Vec<Column<'_, Col>> = (LIST.into_iter())
            .filter(|c| failed || c.id != Col::Message)
            .collect();
        let columns = table::place_content(&shown, width, |c| self.longest.of_column(c));
        table::head(ctx, canvas, 2, 0, &columns, None);
        let clock = ctx.time();
        for (n, row) in self.scroll.visible().enumerate() {
            let (y, Some(r)) = (1 + n as u16, self.list.get(row)) else {
                continue;
            };
            let open = r.ended.is_none();
            if open {
                canvas.symbol(1, y, g.running, t.run);
            } else if r.is_error() {
                canvas.symbol(1, y, g.failing, t.fail);
            }
            for p in &columns {
                let (x, w, end) = (p.x + 2, p.w, p.x + 2 + p.w);
                match p.column.id {
                    Col::Start => {
                        let digits = if w >= 15 { 6 } else { 3 };
                        let at = clock.within(r.received, r.precision, digits, w);
                        canvas.text_in(x, y, w, &at, t.dim);
                    }
                    Col::Length => {
                        let ns = r.duration(ctx.snap.now);
                        let style = match (open, ns > SLOW && !r.is_long_running()) {
                            (true, _) => t.run,
                            (_, true) => t.warn,
                            _ => t.text,
                        };
                        canvas.text_right(end, y, w, &duration(ns), style);
                    }
                    Col::Code if r.code > 0 => {
                        let style = if r.is_error() { t.fail } else { t.ok };
                        canvas.text_right(end, y, w, &r.code.to_string(), style);
                    }
                    Col::Verb => {
                        canvas.text_in(x, y, w, &r.verb, t.text);
                    }
                    Col::Resource => {
                        canvas.text_in(x, y, w, &r.resource, t.strong);
                    }
                    Col::Object => {
                        canvas.text_in(x, y, w, &cut_middle(&object(r), usize::from(w)), t.text);
                    }
                    Col::Message => {
                        canvas.text_in(x, y, w, message(r), t.fail);
                    }
                    Col::AuditId => {
                        canvas.text_in(x, y, w, &r.audit_id, t.faint);
                    }
                    Col::Client => {
                        canvas.text_in(x, y, w, &r.agent, t.accent);
                    }
                    _ => {}
                }
            }
            if row == self.scroll.at {
                crate::pane::calls::select(ctx, canvas, y);
            }
        }
        self.scroll.draw(ctx, canvas, 1);
    }
    pub(super) fn draw_detail(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let Some(r) = self.selected() else { return };
        let (w, h) = (canvas.width(), canvas.height());
        canvas.line(0, 0, w, g.rule, t.rule);
        let mut y = 1;
        let rows = facts(r);
        // The waterfall is what users look for, so the facts of the request take at most half of the height.
        for (key, value) in rows.iter().take(usize::from(h / 2)) {
            canvas.text_in(1, y, 10, key, t.dim);
            let style = if *key == "message" { t.fail } else { t.text };
            canvas.text_in(11, y, w.saturating_sub(12), value, style);
            y += 1;
        }
        let more = rows.len().saturating_sub(usize::from(h / 2));
        scroll::draw_more(ctx, canvas, y - 1, 0, more);
        let steps = r.steps();
        if steps.is_empty() {
            canvas.text_in(
                1,
                y,
                w.saturating_sub(2),
                "no spans of it: the apiserver's tracing shows filters, admission and etcd",
                t.faint,
            );
            return;
        }
        let end = steps
            .iter()
            .map(|s| s.end)
            .chain(r.ended)
            .max()
            .unwrap_or(ctx.snap.now);
        let names = (w / 3).clamp(20, 44);
        let numbers = 18;
        let bars = usize::from(w.saturating_sub(names + numbers + 3));
        canvas.text_in(1, y, names, "STEP", t.head);
        canvas.text_right(names + 9, y, 8, "LENGTH", t.head);
        canvas.text_right(names + 18, y, 8, "OWN", t.head);
        y += 1;
        let dearest = steps.iter().map(|s| s.own_ns).max().unwrap_or(0);
        for s in &steps {
            if y >= h {
                break;
            }
            let style = if s.error {
                t.fail
            } else if s.own_ns == dearest {
                t.strong
            } else {
                t.text
            };
            let indent = 1 + s.depth.min(12);
            let used = canvas.text_in(indent, y, names.saturating_sub(indent), &s.name, style);
            canvas.text_right(names + 9, y, 8, &duration(s.end.since(s.start)), t.dim);
            canvas.text_right(names + 18, y, 8, &duration(s.own_ns), style);
            if bars > 4 {
                let (from, n) = bar(r.received, end, s, bars);
                let x = names + numbers + 2;
                let bar_style = if s.error {
                    t.fail
                } else {
                    t.stage(kflow_core::flow::Stage::Api)
                };
                for i in 0..n {
                    canvas.symbol(x + (from + i) as u16, y, g.full, bar_style);
                }
                // The detail is drawn where the bar leaves room.
                if !s.detail.is_empty() && from > 16 {
                    canvas.text_in(x, y, (from as u16).saturating_sub(1), &s.detail, t.faint);
                } else if !s.detail.is_empty() && from + n + 16 < bars {
                    let at = x + (from + n) as u16 + 1;
                    canvas.text_in(at, y, w.saturating_sub(at + 1), &s.detail, t.faint);
                } else if used + 4 < names.saturating_sub(indent) {
                    let at = indent + used + 1;
                    canvas.text_in(at, y, names.saturating_sub(at), &s.detail, t.faint);
                }
            }
            y += 1;
        }
    }
}
