//! The apiserver's requests: groups by client, verb and resource with percentiles; the requests of a group, the slow
//! ones or those that failed; and of one request what the time was spent on.

use super::{Pane, PaneId, Reply};
use crate::correlate::Request;
use crate::correlate::requests::RequestGroup;
use crate::engine::Snapshot;
use crate::export::requests::{bar, facts, object};
use crate::model::stamp::{MILLI, SECOND};
use crate::model::{Body, Nanos, PodUid, Text};
use crate::tui::action::{Action, Command};
use crate::tui::canvas::Canvas;
use crate::tui::shared::{Ctx, Shared};
use crate::tui::text::{count, duration};
use crate::tui::widget::scroll::Scroll;
use crate::tui::widget::table::{self, Column};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// What the apiserver itself calls slow: it annotates the latency of requests over 500 ms.
const SLOW: i64 = 500 * MILLI;
/// Requests that are put in order with every change; longer lists once a second.
const MANY: usize = 20_000;

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
    Time,
    Took,
    Code,
    Object,
}

const fn col(
    id: Col,
    title: &'static str,
    min: u16,
    max: u16,
    rank: u8,
    right: bool,
) -> Column<Col> {
    Column {
        id,
        title,
        min,
        max,
        rank,
        right,
    }
}

const GROUPS: [Column<Col>; 9] = [
    col(Col::Count, "COUNT", 6, 8, 0, true),
    col(Col::Errors, "ERRORS", 6, 7, 0, true),
    col(Col::P50, "P50", 7, 8, 1, true),
    col(Col::P95, "P95", 7, 8, 2, true),
    col(Col::P99, "P99", 7, 8, 0, true),
    col(Col::Max, "MAX", 7, 8, 2, true),
    col(Col::Verb, "VERB", 7, 9, 0, false),
    col(Col::Resource, "RESOURCE", 14, 34, 0, false),
    col(Col::Client, "CLIENT", 12, 90, 1, false),
];

const LIST: [Column<Col>; 7] = [
    col(Col::Time, "RECEIVED", 12, 15, 1, false),
    col(Col::Took, "TIME", 7, 8, 0, true),
    col(Col::Code, "CODE", 4, 4, 0, true),
    col(Col::Verb, "VERB", 7, 9, 0, false),
    col(Col::Resource, "RESOURCE", 14, 26, 0, false),
    col(Col::Object, "OBJECT", 12, 60, 2, false),
    col(Col::Client, "CLIENT", 12, 60, 3, false),
];

/// Client, verb and resource of a group.
type Key = (Text, Text, Text);

/// The requests pane.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of the user"
)]
#[derive(Debug, Default)]
pub struct Requests {
    groups: Vec<RequestGroup>,
    group_scroll: Scroll,
    list: Vec<Arc<Request>>,
    scroll: Scroll,
    /// The list is shown, not the groups.
    listing: bool,
    /// Only this group.
    group: Option<Key>,
    /// Only the selected pod's.
    scoped: bool,
    pod: Option<PodUid>,
    errors: bool,
    slow: bool,
    hide_detail: bool,
    filter: String,
    seen: Option<(u64, Nanos)>,
    dirty: bool,
}

impl Requests {
    fn takes(&self, r: &Request, ids: Option<&FxHashSet<Text>>, now: Nanos) -> bool {
        self.group
            .as_ref()
            .is_none_or(|(a, v, s)| r.agent == *a && r.verb == *v && r.resource == *s)
            && ids.is_none_or(|ids| ids.contains(&r.audit_id))
            && (!self.errors || r.is_error())
            && (!self.slow || (!r.is_long_running() && r.duration(now) > SLOW))
            && self.fits(&[
                &r.agent,
                &r.verb,
                &r.resource,
                &r.object.namespace,
                &r.object.name,
            ])
    }
    fn fits(&self, texts: &[&str]) -> bool {
        self.filter
            .split_whitespace()
            .all(|w| texts.iter().any(|t| t.to_lowercase().contains(w)))
    }
    fn selected(&self) -> Option<&Arc<Request>> {
        self.list.get(self.scroll.at)
    }
    /// Rows of the list, and whether the detail is below.
    fn split(&self, h: u16) -> (u16, bool) {
        if self.listing && !self.hide_detail && h >= 14 {
            (h * 2 / 5, true)
        } else {
            (h, false)
        }
    }
    fn refresh(&mut self, snap: &Snapshot) {
        let log = snap.world.requests();
        if self.listing {
            let ids = self.pod.as_ref().filter(|_| self.scoped).map(|uid| {
                snap.world
                    .pod(uid)
                    .map(|p| audit_ids(p))
                    .unwrap_or_default()
            });
            let chosen = self.selected().map(|r| r.audit_id.clone());
            let mut list: Vec<Arc<Request>> = log
                .list()
                .into_iter()
                .rev()
                .filter(|r| self.takes(r, ids.as_ref(), snap.now))
                .cloned()
                .collect();
            if self.slow {
                list.sort_by_key(|r| std::cmp::Reverse(r.duration(snap.now)));
            }
            // The newest come in at the top: what was selected stays selected, unless that was the newest.
            if self.scroll.at > 0
                && let Some(at) = chosen.and_then(|id| list.iter().position(|r| r.audit_id == id))
            {
                self.scroll.at = at;
            }
            self.list = list;
        } else {
            let mut groups = log.groups();
            groups.retain(|g| {
                (!self.errors || g.errors > 0)
                    && (!self.slow || g.max_ns > SLOW)
                    && self.fits(&[&g.agent, &g.verb, &g.resource])
            });
            self.groups = groups;
        }
    }
    fn draw_groups(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
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
                super::calls::select(ctx, canvas, y);
            }
        }
        self.group_scroll.draw(ctx, canvas, 1);
    }
    fn draw_list(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let columns = table::place(&LIST, canvas.width().saturating_sub(3));
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
                    Col::Time => {
                        canvas.text_in(x, y, w, &clock.at(r.received, r.precision, 6), t.dim);
                    }
                    Col::Took => {
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
                        canvas.text_in(x, y, w, &object(r), t.text);
                    }
                    Col::Client => {
                        canvas.text_in(x, y, w, &r.agent, t.accent);
                    }
                    _ => {}
                }
            }
            if row == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
        }
        self.scroll.draw(ctx, canvas, 1);
    }
    fn draw_detail(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let Some(r) = self.selected() else { return };
        let (w, h) = (canvas.width(), canvas.height());
        canvas.line(0, 0, w, g.rule, t.faint);
        let mut y = 1;
        let rows = facts(r);
        // The waterfall is why one looks: what the request says of itself takes at most half.
        for (key, value) in rows.iter().take(usize::from(h / 2)) {
            canvas.text_in(1, y, 10, key, t.dim);
            let style = if *key == "message" { t.fail } else { t.text };
            canvas.text_in(11, y, w.saturating_sub(12), value, style);
            y += 1;
        }
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
                    t.stage(crate::flow::Stage::Api)
                };
                for i in 0..n {
                    canvas.symbol(x + (from + i) as u16, y, g.full, bar_style);
                }
                // The detail stands where the bar leaves room for it.
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

/// Audit ids of the requests about a pod.
fn audit_ids(pod: &crate::correlate::PodView) -> FxHashSet<Text> {
    pod.evidence
        .iter()
        .filter_map(|e| match &e.body {
            Body::Audit(a) => Some(a.audit_id.clone()),
            Body::Span(s) => s.attribute("audit-id").map(Text::from),
            _ => None,
        })
        .collect()
}

impl Pane for Requests {
    fn id(&self) -> PaneId {
        PaneId::Requests
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let g = ctx.glyphs;
        let mut s = if self.listing {
            format!("{} requests", count(self.list.len()))
        } else {
            format!("{} groups", count(self.groups.len()))
        };
        if let Some((agent, verb, resource)) = self.group.as_ref().filter(|_| self.listing) {
            s.push_str(&format!(" {} {verb} {resource} {agent}", g.dot));
        }
        for (on, what) in [
            (self.scoped && self.listing, "selected pod"),
            (self.errors, "errors"),
            (self.slow, "over 500 ms"),
        ] {
            if on {
                s.push_str(&format!(" {} {what}", g.dot));
            }
        }
        let (forgotten, _) = ctx.snap.world.requests().forgotten();
        if forgotten > 0 {
            s.push_str(&format!(
                " {} {} forgotten",
                g.dot,
                count(forgotten as usize)
            ));
        }
        s
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::RequestsGroups,
            Action::RequestsScope,
            Action::RequestsErrors,
            Action::RequestsSlow,
            Action::RequestsDetail,
            Action::Filter,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if self.pod != shared.pod {
            self.pod.clone_from(&shared.pod);
            self.dirty |= self.scoped;
        }
        let due = self.seen.is_none_or(|(version, at)| {
            version != snap.version
                && (self.list.len().max(self.groups.len()) < MANY
                    || snap.now.since(at).abs() >= SECOND)
        });
        if self.dirty || due {
            self.refresh(snap);
            self.seen = Some((snap.version, snap.now));
            self.dirty = false;
        }
        let (h, _) = self.split(size.1);
        self.scroll.fit(self.list.len(), usize::from(h.max(2)) - 1);
        self.group_scroll
            .fit(self.groups.len(), usize::from(size.1.max(2)) - 1);
    }
    fn handle(&mut self, command: &Command, _snap: &Snapshot, _shared: &mut Shared) -> Reply {
        let scroll = if self.listing {
            &mut self.scroll
        } else {
            &mut self.group_scroll
        };
        if scroll.handle(command.action) {
            return Reply::Done;
        }
        match command.action {
            Action::RequestsGroups => {
                self.listing = !self.listing;
                self.group = None;
            }
            Action::RequestsScope => {
                self.scoped = !self.scoped;
                self.listing |= self.scoped;
            }
            Action::RequestsErrors => self.errors = !self.errors,
            Action::RequestsSlow => {
                self.slow = !self.slow;
                self.scroll.at = 0;
            }
            Action::RequestsDetail => self.hide_detail = !self.hide_detail,
            Action::Open | Action::Right if !self.listing => {
                let Some(g) = self.groups.get(self.group_scroll.at) else {
                    return Reply::Done;
                };
                self.group = Some((g.agent.clone(), g.verb.clone(), g.resource.clone()));
                self.listing = true;
                self.scroll.at = 0;
            }
            Action::Open => self.hide_detail = false,
            Action::Back | Action::Left if self.listing => {
                self.listing = false;
                self.group = None;
            }
            _ => return Reply::Ignored,
        }
        self.dirty = true;
        Reply::Done
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (w, h) = (canvas.width(), canvas.height());
        let none = if self.listing {
            self.list.is_empty()
        } else {
            self.groups.is_empty()
        };
        if none {
            let hint = if ctx.snap.world.requests().is_empty() {
                "The apiserver's audit log (--audit-log, --audit-webhook) and its spans (--otlp) show them."
            } else {
                "None is left by filter, errors, slowness or the selected pod."
            };
            return super::empty(ctx, canvas, "No request has been seen.", hint);
        }
        if !self.listing {
            return self.draw_groups(ctx, canvas);
        }
        let (rows, detail) = self.split(h);
        self.draw_list(ctx, &mut canvas.part(0, 0, w, rows));
        if detail {
            self.draw_detail(ctx, &mut canvas.part(0, rows, w, h - rows));
        }
    }
    fn filter(&self) -> Option<&str> {
        Some(&self.filter)
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.filter = text.to_lowercase();
        self.dirty = true;
        Ok(())
    }
    fn copy(&self, _snap: &Snapshot, _shared: &Shared) -> Option<String> {
        if !self.listing {
            return None;
        }
        self.selected().map(|r| r.audit_id.to_string())
    }
}
