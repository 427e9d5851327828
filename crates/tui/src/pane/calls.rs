//! CRI calls: in flight first, then newest first. Runs of List and Status calls are folded. A detail shows the
//! decoded fields of request and response; statistics show percentiles and a histogram per method.

mod detail;
mod index;
mod list;
mod stats;

use super::{Menu, Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::filter::Filter;
use crate::shared::{Ctx, Shared};
use crate::text::count;
use crate::widget::scroll::Scroll;
use index::{Index, Keep, Order, Sort};
use kflow_core::correlate::Call;
use kflow_core::diagnose::awaited::Beside;
use kflow_core::query::Field;
use kflow_engine::Snapshot;
use kflow_model::{Nanos, Text};
pub(crate) use list::{outcome_style, select};

/// Limit on the calls that one frame looks at to count those that overlap the selected one.
const BESIDE: usize = 20_000;

/// Limit on the chunks of calls that one frame looks through to bring the list up to date.
const CHUNKS: usize = 8;

#[derive(Debug)]
pub struct Calls {
    filter: Filter,
    keep: Keep,
    order: Order,
    /// Calls that were in flight during the selected one, counted by method.
    beside: Option<Beside>,
    /// Width of the list in columns, as of the last `sync`.
    width: u16,
    detail: Option<bool>,
    stats: bool,
    index: Index,
    scroll: Scroll,
    by_method: stats::Table,
    stats_scroll: Scroll,
    detail_top: usize,
    seen: Option<u64>,
    /// The snapshot's [`own_calls_revised`](kflow_core::correlate::World::own_calls_revised), as of the last `sync`.
    revised: u32,
    dirty: bool,
    /// The time cursor for which this pane last chose its selection.
    cursor: Option<Nanos>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            keep: Keep {
                fold: true,
                ..Keep::default()
            },
            order: Order::default(),
            beside: None,
            width: 0,
            detail: None,
            stats: false,
            index: Index::default(),
            scroll: Scroll::default(),
            by_method: stats::Table::default(),
            stats_scroll: Scroll::default(),
            detail_top: 0,
            seen: None,
            revised: 0,
            dirty: true,
            cursor: None,
        }
    }
}

impl Calls {
    /// Returns width and height of the list, and whether the detail is drawn beside or below it. A size of 0 leaves
    /// the whole pane to the detail.
    fn split(&self, w: u16, h: u16) -> (u16, u16, bool) {
        let wanted = self.detail.unwrap_or(w >= 140) && !self.stats;
        if !wanted {
            (w, h, false)
        } else if w >= 110 {
            (w - w * 2 / 5, h, true)
        } else if h >= 14 {
            (w, h / 2, true)
        } else {
            (0, 0, true)
        }
    }
    /// Sets the time cursor to the start of the selected call; at the top row there is none, so that the list follows
    /// new calls.
    fn put_cursor(&mut self, snap: &Snapshot, shared: &mut Shared) {
        shared.cursor = match self.scroll.at {
            0 => None,
            row => self.index.start(snap, row),
        };
        self.cursor = shared.cursor;
    }
    fn sort_menu(&self) -> Menu {
        let names = Sort::ALL.into_iter().map(Sort::name);
        Menu::of_orders(Action::CallsSort, names, self.order.sort.name(), "")
    }
    /// Sets the order and goes to the top of the list.
    fn set_order(&mut self, order: Order) {
        self.order = order;
        self.scroll.select(0);
        self.dirty = true;
    }
    /// Counts the calls that were in flight during the selected one, as far as one frame has time for.
    fn look_beside(&mut self, snap: &Snapshot) {
        let Some(call) = self.selected(snap).cloned() else {
            self.beside = None;
            return;
        };
        let mut beside = match self.beside.take() {
            Some(known) if known.is_of(&call, snap.now) => known,
            _ => Beside::of(&call),
        };
        beside.go_on(&snap.world, &call, snap.now, BESIDE);
        self.beside = Some(beside);
    }
    /// Returns the methods that were in flight during the selected call, with counts.
    fn meanwhile(&self) -> Vec<(&Text, usize)> {
        self.beside.as_ref().map(Beside::counts).unwrap_or_default()
    }
    fn selected<'a>(&self, snap: &'a Snapshot) -> Option<&'a std::sync::Arc<Call>> {
        self.index.call(snap, self.scroll.at)
    }
}

impl Pane for Calls {
    fn id(&self) -> PaneId {
        PaneId::Calls
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let g = ctx.glyphs;
        let mut s = format!(
            "{} of {}",
            count(self.index.calls()),
            count(ctx.snap.world.calls().len())
        );
        let flying = self.index.in_flight();
        if flying > 0 {
            s.push_str(&format!(" {} {flying} in flight", g.dot));
        }
        for (on, what) in [
            (self.keep.pod.is_some(), "selected pod"),
            (self.keep.errors, "errors"),
            (self.keep.flight, "in flight only"),
            (!self.keep.fold, "with List and Status"),
            (
                self.keep.fold && self.order != Order::default(),
                "without List and Status",
            ),
        ] {
            if on {
                s.push_str(&format!(" {} {what}", g.dot));
            }
        }
        if self.order.sort != Sort::Start {
            s.push_str(&format!(" {} by {}", g.dot, self.order.sort.name()));
        }
        if let Some(percent) = self.index.looked_through() {
            s.push_str(&format!(" {} looked through {percent}%", g.dot));
        }
        match self.index.own() {
            0 => {}
            n => s.push_str(&format!(" {} {} of kflow hidden", g.dot, count(n))),
        }
        match self.index.left_out() {
            0 => {}
            n => s.push_str(&format!(" {} {} not listed", g.dot, count(n))),
        }
        s
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::CallsSort,
            Action::CallsDetail,
            Action::CallsScope,
            Action::CallsErrors,
            Action::CallsFlight,
            Action::CallsNoise,
            Action::CallsStats,
            Action::Filter,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if shared.wants_everything(PaneId::Calls) {
            // The requested call may be a List or Status, which is otherwise folded.
            self.keep = Keep {
                fold: false,
                ..Keep::default()
            };
            self.dirty = true;
        }
        if self.keep.scoped && self.keep.pod != shared.pod {
            self.keep.pod.clone_from(&shared.pod);
            self.dirty = true;
        }
        let revised = snap.world.own_calls_revised();
        if std::mem::replace(&mut self.revised, revised) != revised {
            self.dirty = true;
        }
        let behind = self.index.looked_through().is_some();
        if self.dirty || behind || self.seen != Some(snap.version) {
            let selected = self.selected(snap).map(|c| (c.key, c.start));
            let follow = self.scroll.at == 0;
            let wanted = (&self.keep, &self.filter);
            self.index
                .update(snap, wanted, self.order, self.dirty, CHUNKS);
            let found = selected.and_then(|(k, start)| self.index.find_at(snap, k, start));
            if !follow && let Some(row) = found {
                self.scroll.at = row;
            }
            if self.stats {
                self.by_method.update(
                    snap,
                    &self.keep,
                    &self.filter,
                    self.index.epoch(),
                    self.dirty,
                );
            }
            self.seen = Some(snap.version);
            self.dirty = false;
        }
        if let Some(k) = shared.call.take() {
            if self.index.find(snap, k).is_none() {
                self.keep = Keep::default();
                self.filter = Filter::default();
                self.order = Order::default();
                let wanted = (&self.keep, &self.filter);
                self.index
                    .update(snap, wanted, self.order, true, usize::MAX);
            }
            if let Some(row) = self.index.find(snap, k) {
                self.scroll.at = row;
                self.detail = Some(true);
                shared.cursor = self.index.start(snap, row);
                self.cursor = shared.cursor;
            }
        }
        // The call at the cursor may have been indexed just now.
        if shared.cursor != self.cursor || behind && shared.cursor.is_some() {
            self.cursor = shared.cursor;
            self.scroll.at = shared.cursor.map_or(0, |at| self.index.nearest(snap, at));
        }
        let (w, h, detail) = self.split(size.0, size.1);
        self.width = w;
        if detail {
            self.look_beside(snap);
        }
        self.scroll.fit(self.index.len(), usize::from(h.max(2)) - 1);
        self.stats_scroll
            .fit(self.by_method.len(), usize::from(size.1.max(2)) - 1);
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        let scroll = if self.stats {
            &mut self.stats_scroll
        } else {
            &mut self.scroll
        };
        if scroll.handle(command.action) {
            self.detail_top = 0;
            if !self.stats {
                self.put_cursor(snap, shared);
            }
            return Reply::Done;
        }
        match command.action {
            Action::CallsNoise => self.keep.fold = !self.keep.fold,
            Action::CallsScope => {
                self.keep.scoped = !self.keep.scoped;
                self.keep.pod = if self.keep.scoped {
                    shared.pod.clone()
                } else {
                    None
                };
            }
            Action::CallsSort => match Sort::parse(&command.arg) {
                Some(sort) => self.set_order(Order {
                    sort,
                    reverse: false,
                }),
                None if command.arg.is_empty() => return Reply::Menu(self.sort_menu()),
                None => return Reply::Say(format!("there is no column \"{}\"", command.arg)),
            },
            Action::CallsReverse => self.set_order(Order {
                reverse: !self.order.reverse,
                ..self.order
            }),
            Action::CallsErrors => self.keep.errors = !self.keep.errors,
            Action::CallsFlight => self.keep.flight = !self.keep.flight,
            Action::CallsStats => self.stats = !self.stats,
            Action::CallsDetail => {
                self.detail = Some(!self.detail.unwrap_or(false));
                return Reply::Done;
            }
            Action::Back if self.stats => self.stats = false,
            Action::Back if self.detail == Some(true) => {
                self.detail = Some(false);
                return Reply::Done;
            }
            Action::Right => {
                self.detail_top += 1;
                return Reply::Done;
            }
            Action::Left => {
                self.detail_top = self.detail_top.saturating_sub(1);
                return Reply::Done;
            }
            Action::Open if self.stats => {
                if let Some(m) = self.by_method.method(self.stats_scroll.at) {
                    let text = format!("method:{m}");
                    self.stats = false;
                    return match self.set_filter(&text) {
                        Ok(()) => Reply::Done,
                        Err(e) => Reply::Say(e),
                    };
                }
            }
            Action::Open => {
                if self.detail != Some(true) {
                    self.detail = Some(true);
                    return Reply::Done;
                }
                if let Some(c) = self.selected(snap)
                    && snap.world.pod(&c.pod_uid).is_some()
                {
                    shared.pod = Some(c.pod_uid.clone());
                    shared.cursor = Some(c.start);
                    return Reply::Go(PaneId::Timeline);
                }
                return Reply::Say("this call is about no pod".to_owned());
            }
            _ => return Reply::Ignored,
        }
        self.dirty = true;
        Reply::Done
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(if self.stats {
            self.stats_scroll.hidden()
        } else {
            self.scroll.hidden()
        })
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (w, h) = (canvas.width(), canvas.height());
        if self.stats {
            return self.by_method.draw(ctx, canvas, &self.stats_scroll);
        }
        if self.index.is_empty() {
            let (text, hint) = if self.index.looked_through().is_some() {
                ("Looking through the calls.", "The title says how far.")
            } else if ctx.snap.world.calls().is_empty() {
                (
                    "No CRI call has been seen.",
                    "Calls come from a tap on the runtime's socket (--tap ebpf, or kflow proxy).",
                )
            } else if self.index.own() > 0 && self.filter.is_all() {
                (
                    "No call is shown but kflow's own.",
                    "The filter own lists these.",
                )
            } else {
                (
                    "No call is shown.",
                    "esc clears the filter, f unfolds List and Status, a shows all pods.",
                )
            };
            return super::empty(ctx, canvas, text, hint);
        }
        let (lw, lh, detail) = self.split(w, h);
        if lw > 0 {
            list::draw(
                (&self.index, self.order),
                &self.scroll,
                ctx,
                &mut canvas.part(0, 0, lw, lh),
            );
        }
        if detail {
            let (x, y) = if lw < w && lw > 0 { (lw, 0) } else { (0, lh) };
            if x > 0 {
                canvas.column(x, 0, h, ctx.glyphs.wall, ctx.theme.rule);
            } else if y > 0 {
                canvas.line(0, y, w, ctx.glyphs.rule, ctx.theme.rule);
            }
            let (dx, dy) = (x + u16::from(x > 0) + 1, y + u16::from(y > 0));
            let mut part = canvas.part(dx, dy, w.saturating_sub(dx + 1), h.saturating_sub(dy));
            match self.selected(ctx.snap) {
                Some(c) => detail::draw(ctx, &mut part, (c, &self.meanwhile()), self.detail_top),
                None => super::empty(
                    ctx,
                    &mut part,
                    "Folded calls of the kubelet's loops.",
                    "f unfolds them.",
                ),
            }
        }
    }
    fn filter(&self) -> Option<&str> {
        Some(self.filter.text())
    }
    fn matches(&self) -> Option<usize> {
        // The number of calls, as in the title: one row may fold several.
        Some(self.index.calls())
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.filter = Filter::parse(text)?;
        self.dirty = true;
        Ok(())
    }
    fn click(&mut self, x: u16, y: u16, snap: &Snapshot, shared: &mut Shared) -> bool {
        if y == 0 && !self.stats {
            if let Some(sort) = list::sorting(self.width, x) {
                let reverse = sort == self.order.sort && !self.order.reverse;
                self.set_order(Order { sort, reverse });
            }
            return true;
        }
        let row = self.scroll.top + usize::from(y.saturating_sub(1));
        let hit = x > 0 && y > 0 && row < self.index.len() && !self.stats;
        if hit {
            self.scroll.select(row);
            self.put_cursor(snap, shared);
        }
        hit
    }
    fn known(&self, field: Field, snap: &Snapshot) -> Vec<String> {
        let calls = snap.world.calls().iter().rev().take(4000);
        match field {
            Field::Method => calls.map(|c| c.method.to_string()).collect(),
            Field::Code => calls
                .filter(|c| c.end.is_some())
                .map(|c| c.ending())
                .collect(),
            Field::Namespace => calls.map(|c| c.namespace.to_string()).collect(),
            Field::Pod => calls.map(|c| c.pod.to_string()).collect(),
            Field::Container => calls.map(|c| c.container.to_string()).collect(),
            Field::Image => calls.map(|c| c.image.to_string()).collect(),
            _ => Vec::new(),
        }
    }
    fn copy(&self, snap: &Snapshot, shared: &Shared) -> Option<String> {
        self.selected(snap)
            .map(|c| detail::text((c, &self.meanwhile()), snap, &shared.time(snap)))
    }
}
