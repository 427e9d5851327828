//! The waterfall of one pod: stages, steps, attempts and containers as a tree, on a horizontal time axis.
//!
//! Bars in flight grow until now. The fill shows the certainty of an interval; time that no evidence explains is
//! hatched; Events, probes and restarts are marks in a lane of their own.

mod abreast;
mod bars;
mod compare;
mod critical;
mod detail;
mod draw;
mod rows;
mod walk;

use rustc_hash::FxHashSet;

use super::{Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::glyph::Glyphs;
use crate::shared::{Ctx, Shared};
use crate::widget::ruler::Window;
use crate::widget::scroll::Scroll;
use kflow_core::correlate::PodView;
use kflow_core::correlate::startup_latency;
use kflow_core::diagnose::State;
use kflow_core::diagnose::pulls::{self, Pulls};
use kflow_core::flow::Stage;
use kflow_core::timeline::{Span, Timeline};
use kflow_engine::Snapshot;
use kflow_model::stamp::SECOND;
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid};
use rows::{Id, Row};

/// What determines the time window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fit {
    /// From when the trouble of the pod's verdict began until now; the start of a pod without trouble.
    #[default]
    Trouble,
    /// The start: from the first evidence until Ready, or until now.
    Start,
    /// The whole life of the pod.
    Whole,
    /// The user's zooming and moving.
    Free,
}

#[derive(Debug, Default)]
pub struct TimelinePane {
    pod: Option<PodUid>,
    rows: Vec<Row>,
    /// Rows of the tree whose open state differs from the default.
    turned: FxHashSet<Id>,
    all: Option<bool>,
    scroll: Scroll,
    fit: Fit,
    window: Option<Window>,
    /// Widths of the names and of the chart, as of the last `sync`.
    left: u16,
    columns: u16,
    /// The critical path of the start, shown instead of the tree.
    path: Option<critical::Path>,
    /// The comparison with another pod, shown instead of the tree.
    compared: Option<compare::Compared>,
    /// The pods of an owner, shown instead of the one pod.
    abreast: Option<abreast::Abreast>,
    /// The image pulls that a step of this pod may be queued behind; empty if the pod has no such step.
    pulls: Pulls,
    seen: Option<(u64, Option<PodUid>)>,
    dirty: bool,
    big: bool,
    /// Whether the pod was just selected, so that the next sync selects the span that the pod hangs on.
    fresh: bool,
}

/// Rows above the tree: the ruler and the marks.
const HEAD: u16 = 2;

impl TimelinePane {
    fn detail_height(&self, h: u16) -> u16 {
        match (h, self.big) {
            (0..=9, _) => 0,
            (10..=15, false) => 3,
            (_, false) => 5,
            (_, true) => (h / 2).max(5),
        }
    }
    /// Returns the widths of the names and of the durations.
    fn sides(&self, w: u16) -> (u16, u16) {
        let left = (w / 3).clamp(16, 44);
        let right = if w >= 70 { 8 } else { 7 };
        match self.path {
            Some(_) => (left, right + critical::SHARE),
            None => (left, right),
        }
    }
    /// Returns the time window for `fit`.
    fn fitted(&self, fit: Fit, p: &PodView, snap: &Snapshot) -> Window {
        let t = &p.timeline;
        if fit == Fit::Start
            && let Some((from, to)) = self.path.as_ref().and_then(critical::Path::whole)
        {
            let pad = (to.since(from) / 40).max(1000);
            return Window::new(from.plus(-pad), to.plus(pad));
        }
        let Some((first, last)) = t.range() else {
            return Window::new(snap.now.plus(-1_000_000_000), snap.now);
        };
        // A pod that waits for its init container has no call in flight.
        let waits = p.current.is_some() && p.gone.is_none();
        let open = waits || t.in_flight().next().is_some();
        let last = if open { snap.now.max(last) } else { last };
        // The window includes the end of the grace period of a pod that is being deleted.
        let due = bars::due(p).filter(|_| p.gone.is_none());
        let last = due.map_or(last, |d| d.max(last));
        let (mut begin, mut end) = (first, last);
        let trouble = trouble(p, snap).filter(|_| fit == Fit::Trouble);
        if let Some(since) = trouble {
            // After a long life that was well, the trouble would be too small to see.
            let length = last.since(since);
            // A trouble that has no length yet was seen at one moment, and does not say when it began.
            if length >= SECOND && since.since(first) > length {
                begin = since.plus(-length / 10);
            }
        } else if fit != Fit::Whole && due.is_none() {
            // For a pod that is being deleted, the deletion is of interest, not the start.
            let ready = t.stage(Stage::Ready).and_then(|s| s.end).map(|e| e.at);
            // In a long life, a short start would be too small to see.
            if let Some(r) = ready.filter(|r| last.since(first) > 3 * r.since(first)) {
                end = r;
            }
        }
        let pad = (end.since(begin) / 40).max(1000);
        Window::new(begin.plus(-pad), end.plus(pad))
    }
    /// Returns what part of the pod's life the window shows, in words; empty for all of it.
    fn shows(&self, p: &PodView, snap: &Snapshot) -> &'static str {
        let whole = self.window == Some(self.fitted(Fit::Whole, p, snap));
        match self.fit {
            _ if whole => "",
            Fit::Trouble if trouble(p, snap).is_some() => ", the trouble",
            Fit::Trouble | Fit::Start => ", the start",
            Fit::Whole | Fit::Free => "",
        }
    }
    fn selected<'a>(&self, t: &'a Timeline) -> Option<&'a Span> {
        let span = match &self.path {
            Some(path) => path.piece()?.span?,
            None => self.rows.get(self.scroll.at)?.span,
        };
        t.spans.get(span as usize)
    }
    /// Returns begin and end of the selected row.
    fn interval(&self, t: &Timeline, now: Nanos) -> Option<(Nanos, Nanos)> {
        if let Some(path) = &self.path {
            return path.interval();
        }
        let s = self.selected(t)?;
        Some((s.start.at, s.start.at.plus(s.duration(now))))
    }
    /// Returns the scroll position of the list that is shown.
    fn shown(&mut self) -> &mut Scroll {
        match (&mut self.abreast, &mut self.compared, &mut self.path) {
            (Some(abreast), ..) => &mut abreast.scroll,
            (None, Some(compared), _) => &mut compared.scroll,
            (None, None, Some(path)) => &mut path.scroll,
            (None, None, None) => &mut self.scroll,
        }
    }
    /// Compares the pod with the marked one while a comparison is requested.
    fn compare(&mut self, p: &PodView, snap: &Snapshot, shared: &Shared, changed: bool) {
        let marked = shared.compared.as_ref().filter(|_| shared.comparing);
        let other = marked
            .filter(|a| **a != p.uid)
            .and_then(|a| snap.world.pod(a));
        match other {
            None => self.compared = None,
            Some(a) if changed || self.compared.is_none() => {
                let before = self.compared.take();
                let made = compare::Compared::of(a, p, snap.now);
                self.compared = made.map(|c| c.after(before.as_ref()));
            }
            Some(_) => {}
        }
    }
    fn view<'a>(snap: &'a Snapshot, shared: &Shared) -> Option<&'a PodView> {
        shared.view(snap).map(|p| &***p)
    }
    fn show(&mut self, w: Window) {
        self.window = Some(w);
        self.fit = Fit::Free;
    }
}

/// Returns when the trouble of the pod's verdict began; `None` for a pod that was always well.
fn trouble(p: &PodView, snap: &Snapshot) -> Option<Nanos> {
    let v = snap.verdicts.get(&p.uid)?;
    if matches!(v.state, State::Healthy | State::Gone) {
        return None;
    }
    Some(v.recurrence.map_or(v.since, |r| r.first.min(v.since)))
}

impl Pane for TimelinePane {
    fn id(&self) -> PaneId {
        PaneId::Timeline
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        if let Some(abreast) = &self.abreast {
            return abreast.headline(ctx);
        }
        if let Some(compared) = &self.compared {
            return compared.headline();
        }
        let mut s = match self.window {
            Some(w) => format!("{} wide", duration(w.length())),
            None => String::new(),
        };
        let view = ctx.shared.view(ctx.snap).filter(|_| self.path.is_none());
        if let Some(p) = view {
            s.push_str(self.shows(p, ctx.snap));
        }
        if let [a, b] = ctx.shared.marks.as_slice() {
            s.push_str(&format!(
                " {} delta {}",
                ctx.glyphs.dot,
                duration(b.since(*a).abs())
            ));
        }
        if let (Some(path), Some(p)) = (&self.path, ctx.shared.view(ctx.snap)) {
            s.push_str(&format!(
                " {} critical path: {}",
                ctx.glyphs.dot,
                path.headline(p)
            ));
            return s;
        }
        if let Some(start) = ctx
            .shared
            .view(ctx.snap)
            .and_then(|p| startup_latency::start(p))
        {
            s.push_str(&format!(
                " {} {}",
                ctx.glyphs.dot,
                kflow_export::timeline::started(&start)
            ));
        }
        s
    }
    fn commands(&self) -> &'static [Action] {
        // The views that replace the tree have a time axis of their own, which cannot be zoomed.
        match (&self.abreast, &self.compared) {
            (Some(_), _) => return &[Action::Open, Action::Back],
            (None, Some(_)) => return &[Action::Fold, Action::Back, Action::NextPod],
            (None, None) if self.rows.is_empty() => return &[Action::PaneWhy, Action::PanePods],
            (None, None) => {}
        }
        &[
            Action::ZoomIn,
            Action::ZoomOut,
            Action::Fit,
            Action::FitSelection,
            Action::MarkA,
            Action::Slowest,
            Action::SpanNextError,
            Action::Critical,
            Action::Fold,
            Action::Detail,
        ]
    }
    fn takes(&self, action: Action) -> bool {
        match (&self.abreast, &self.compared) {
            (Some(_), _) => false,
            (None, Some(_)) => matches!(action, Action::Fold | Action::FoldAll),
            (None, None) => true,
        }
    }
    fn signs(&self, g: &Glyphs) -> Option<Vec<(String, &'static str)>> {
        match (&self.abreast, &self.compared) {
            (Some(_), _) => Some(abreast::signs(g)),
            (None, Some(_)) => Some(compare::signs(g)),
            (None, None) => None,
        }
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        let before = self.abreast.take();
        if let Some(owner) = &shared.abreast {
            let mut rows = abreast::Abreast::of(owner, snap, size.0, before);
            rows.fit(shared.pod.as_ref(), size);
            self.abreast = Some(rows);
            self.seen = None;
            return;
        }
        if self.pod != shared.pod {
            self.pod.clone_from(&shared.pod);
            self.fit = Fit::default();
            self.window = None;
            self.scroll = Scroll::default();
            self.fresh = true;
            if self.path.take().is_some() {
                self.path = Self::view(snap, shared).and_then(|p| critical::Path::of(p, snap.now));
            }
        }
        let Some(p) = Self::view(snap, shared) else {
            self.rows.clear();
            self.compared = None;
            return;
        };
        let key = (snap.version, shared.pod.clone());
        self.compare(p, snap, shared, self.seen.as_ref() != Some(&key));
        if let Some(compared) = &mut self.compared {
            compared.fit(usize::from(size.1.saturating_sub(compare::HEAD + 1)));
        }
        if self.dirty || self.seen.as_ref() != Some(&key) {
            self.rows = rows::tree(&p.timeline, &self.turned, self.all);
            if let Some(path) = &mut self.path {
                path.refresh(p, snap.now);
            }
            self.pulls = if p.timeline.spans.iter().any(pulls::may_be_queued) {
                Pulls::of(&snap.world, snap.now)
            } else {
                Pulls::default()
            };
            self.seen = Some(key);
            self.dirty = false;
        }
        if self.fit != Fit::Free || self.window.is_none() {
            self.window = Some(self.fitted(self.fit, p, snap));
        }
        let (left, right) = self.sides(size.0);
        self.left = left;
        self.columns = size.0.saturating_sub(left + right + 2).max(1);
        let below = self.detail_height(size.1);
        let h = size.1.saturating_sub(HEAD + below).max(1);
        if let Some(e) = shared.evidence.take() {
            let found = p
                .timeline
                .spans
                .iter()
                .rposition(|s| s.evidence.contains(&e));
            if let Some(i) = found {
                self.reveal(&p.timeline, i as u32);
            }
            shared.cursor = Some(e.stamp.at);
            self.follow_cursor(e.stamp.at);
        }
        self.scroll.fit(self.rows.len(), usize::from(h));
        if let Some(path) = &mut self.path {
            path.fit(usize::from(h));
            path.ask(snap, p);
        }
        if std::mem::take(&mut self.fresh)
            && p.current.is_some()
            && let Some(span) = walk::hanging(&p.timeline)
        {
            self.reveal(&p.timeline, span);
            self.scroll.fit(self.rows.len(), usize::from(h));
        }
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.shown().handle(command.action) {
            if let Some(abreast) = &self.abreast {
                abreast.select(shared);
            }
            return Reply::Done;
        }
        if let Some(abreast) = &self.abreast {
            match command.action {
                Action::Open | Action::Right => abreast.select(shared),
                Action::Back => {}
                _ => return Reply::Ignored,
            }
            shared.abreast = None;
            return Reply::Done;
        }
        let Some(p) = Self::view(snap, shared) else {
            return Reply::Ignored;
        };
        let t = &p.timeline;
        if let Some(compared) = &mut self.compared {
            match command.action {
                Action::Fold | Action::FoldAll | Action::Open => compared.fold(),
                _ => return Reply::Ignored,
            }
            return Reply::Done;
        }
        let Some(w) = self.window else {
            return Reply::Ignored;
        };
        let at = shared.at(snap).max(w.from).min(w.to);
        let cell = (w.length() / i64::from(self.columns)).max(1);
        match command.action {
            Action::ZoomIn => self.show(w.zoom(at, 0.5)),
            Action::ZoomOut => self.show(w.zoom(at, 2.0)),
            Action::Fit => {
                let others = match self.fit {
                    Fit::Trouble => [Fit::Start, Fit::Whole],
                    Fit::Start => [Fit::Whole, Fit::Trouble],
                    Fit::Whole | Fit::Free => [Fit::Trouble, Fit::Start],
                };
                let differs = |f: &Fit| self.window != Some(self.fitted(*f, p, snap));
                self.fit = others.into_iter().find(differs).unwrap_or_default();
                self.window = Some(self.fitted(self.fit, p, snap));
            }
            Action::FitSelection => {
                if let Some((from, to)) = self.interval(t, snap.now) {
                    let length = to.since(from).max(1000);
                    self.show(Window::new(
                        from.plus(-length / 8),
                        from.plus(length + length / 8),
                    ));
                }
            }
            Action::PanLeft => self.show(w.pan(-0.25)),
            Action::PanRight => self.show(w.pan(0.25)),
            Action::Left | Action::Right => {
                let step = if command.action == Action::Left {
                    -cell
                } else {
                    cell
                };
                let to = at.plus(step);
                shared.cursor = Some(to);
                if to < w.from || to >= w.to {
                    self.show(w.pan(if step < 0 { -0.25 } else { 0.25 }));
                }
            }
            Action::MarkA => {
                if shared.marks.len() >= 2 {
                    shared.marks.clear();
                    return Reply::Say("marks cleared".to_owned());
                }
                shared.marks.push(at);
                return match shared.marks.as_slice() {
                    [a, b] => Reply::Say(format!("delta {}", duration(b.since(*a).abs()))),
                    _ => Reply::Say("first mark set; a second one makes a delta".to_owned()),
                };
            }
            Action::Critical => {
                if let Some(path) = self.path.take() {
                    self.fit = Fit::default();
                    self.window = None;
                    if let Some(span) = path.piece().and_then(|piece| piece.span) {
                        self.reveal(t, span);
                    }
                    return Reply::Done;
                }
                self.path = critical::Path::of(p, snap.now);
                self.fit = Fit::Start;
                self.window = None;
                return match &self.path {
                    Some(path) => Reply::Say(path.told(p)),
                    None => Reply::Say("nothing of its start was seen".to_owned()),
                };
            }
            Action::WaitsFor => {
                let waits = self.path.as_ref().and_then(|path| path.awaited());
                return waits.map_or(Reply::Ignored, |a| Reply::Follow(a.clone()));
            }
            Action::Slowest => {
                let Some(path) = &mut self.path else {
                    return self.slowest(t, snap.now, shared);
                };
                let (rank, of) = path.next_longest();
                return Reply::Say(format!("longest {rank} of {of}: {}", path.told(p)));
            }
            Action::Fold | Action::FoldAll if self.path.is_some() => {
                if let Some(path) = &mut self.path {
                    path.fold();
                }
            }
            Action::Open if self.path.is_some() => {
                let span = self.path.take().and_then(|path| path.piece()?.span);
                match span {
                    Some(span) => self.reveal(t, span),
                    None => return Reply::Say("no span shows what went on then".to_owned()),
                }
            }
            Action::SpanNextError => return self.next_error(t, shared),
            Action::Fold | Action::Open => {
                let Some(s) = self.selected(t) else {
                    return Reply::Done;
                };
                let children = self.rows.get(self.scroll.at).is_some_and(|r| r.children);
                if command.action == Action::Fold && !children {
                    return Reply::Say("there is nothing below this step".to_owned());
                }
                if command.action == Action::Open && !children {
                    return match s.call {
                        Some(k) => {
                            shared.call = Some(k);
                            Reply::Go(PaneId::Calls)
                        }
                        None => {
                            shared.evidence = s.evidence.first().cloned();
                            Reply::Go(PaneId::Log)
                        }
                    };
                }
                let id = rows::id(s);
                if !self.turned.remove(&id) {
                    self.turned.insert(id);
                }
                self.dirty = true;
            }
            Action::FoldAll => {
                // Opens all rows if any is closed, else closes all.
                self.all = Some(self.rows.iter().any(|r| r.children && !r.open));
                self.turned.clear();
                self.dirty = true;
            }
            Action::Detail => self.big = !self.big,
            Action::Back if shared.cursor.is_some() => shared.cursor = None,
            Action::Back if self.path.is_some() => {
                self.path = None;
                self.fit = Fit::default();
                self.window = None;
            }
            Action::Back if self.fit == Fit::Free => {
                self.fit = Fit::default();
                self.window = None;
            }
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(match (&self.abreast, &self.compared, &self.path) {
            (Some(abreast), ..) => abreast.scroll.hidden(),
            (None, Some(compared), _) => compared.scroll.hidden(),
            (None, None, Some(path)) => path.scroll.hidden(),
            (None, None, None) => self.scroll.hidden(),
        })
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        if let Some(abreast) = &self.abreast {
            return abreast.draw(ctx, canvas);
        }
        let Some(p) = ctx.shared.view(ctx.snap) else {
            return super::no_pod(ctx, canvas);
        };
        if let Some(compared) = &self.compared {
            return compared.draw(ctx, canvas);
        }
        let Some(window) = self.window.filter(|_| !self.rows.is_empty()) else {
            return super::empty(ctx, canvas, "Nothing has been seen of this pod yet.", "");
        };
        self.draw_life(ctx, canvas, p, window);
    }
    fn click(&mut self, x: u16, y: u16, _snap: &Snapshot, shared: &mut Shared) -> bool {
        if let Some(abreast) = &mut self.abreast {
            let row = y.checked_sub(abreast::HEAD).map(usize::from);
            let row = row.map(|r| abreast.scroll.top + r);
            if let Some(row) = row.filter(|r| abreast.scroll.visible().contains(r)) {
                abreast.scroll.at = row;
                abreast.select(shared);
            }
            return true;
        }
        let left = self.left;
        if x > left
            && self.compared.is_none()
            && let Some(w) = self.window
            && x - left - 1 < self.columns
        {
            shared.cursor = Some(w.at(x - left - 1, self.columns));
        }
        if let Some(row) = y
            .checked_sub(HEAD)
            .map(|r| self.shown().top + usize::from(r))
            && row < self.shown().len()
        {
            self.shown().select(row);
        }
        true
    }
    fn drag(&mut self, from: (u16, u16), to: (u16, u16), _snap: &Snapshot, _shared: &mut Shared) {
        if self.abreast.is_some() {
            return;
        }
        let left = self.left;
        if let Some(w) = self.window {
            let at = |x: u16| w.at(x.saturating_sub(left + 1).min(self.columns), self.columns);
            let (a, b) = (at(from.0.min(to.0)), at(from.0.max(to.0)));
            self.show(Window::new(a, b));
        }
    }
    fn copy(&self, snap: &Snapshot, shared: &Shared) -> Option<String> {
        let p = Self::view(snap, shared)?;
        Some(detail::text(
            self.selected(&p.timeline)?,
            snap.now,
            &shared.time(snap),
        ))
    }
}
