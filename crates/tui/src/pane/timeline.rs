//! The waterfall of one pod: stages, steps, attempts and containers as a tree, with time to the right.
//!
//! Bars in flight grow to now; the fill tells how sure an interval is; time that nothing explains is hatched; events,
//! probes and restarts stand in a lane of marks.

mod bars;
mod detail;
mod rows;
mod walk;

use rustc_hash::FxHashSet;

use super::{Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::shared::{Ctx, Shared};
use crate::widget::ruler::{self, Window};
use crate::widget::scroll::Scroll;
use kflow_core::correlate::PodView;
use kflow_core::correlate::startup_latency;
use kflow_core::diagnose::pulls::{self, Pulls};
use kflow_core::flow::Stage;
use kflow_core::timeline::{Outcome, Span, Timeline, summary};
use kflow_engine::Snapshot;
use kflow_model::PodUid;
use kflow_model::units::duration;
use rows::{Id, Row};

/// What the window shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fit {
    /// The start: from the first evidence until Ready, or until now.
    #[default]
    Start,
    /// Everything.
    Whole,
    /// What the user chose.
    Free,
}

#[derive(Debug, Default)]
pub struct TimelinePane {
    pod: Option<PodUid>,
    rows: Vec<Row>,
    /// Nodes whose state differs from what they have by default.
    turned: FxHashSet<Id>,
    all: Option<bool>,
    scroll: Scroll,
    fit: Fit,
    window: Option<Window>,
    /// Columns of names and of the chart, as the last `sync` laid them out.
    left: u16,
    columns: u16,
    critical: bool,
    path: Vec<u32>,
    /// The pulls that a step of this pod may be queued behind; none are looked for when it has no such step.
    pulls: Pulls,
    seen: Option<(u64, Option<PodUid>)>,
    dirty: bool,
    big: bool,
    /// The pod is new here: the selection goes to what it hangs on.
    fresh: bool,
}

/// Rows above the tree: ruler and marks.
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
    /// Columns of names and of durations.
    fn sides(w: u16) -> (u16, u16) {
        let left = (w / 3).clamp(16, 44);
        (left, if w >= 70 { 8 } else { 7 })
    }
    /// The window that a pod's life asks for.
    fn fitted(&self, p: &PodView, snap: &Snapshot) -> Window {
        let t = &p.timeline;
        let Some((first, last)) = t.range() else {
            return Window::new(snap.now.plus(-1_000_000_000), snap.now);
        };
        let open = t.in_flight().next().is_some();
        let last = if open { snap.now.max(last) } else { last };
        // What is to come belongs to it too: the end of the grace period of a pod that is being deleted.
        let due = bars::due(p).filter(|_| p.gone.is_none());
        let last = due.map_or(last, |d| d.max(last));
        let mut end = last;
        // Of a pod that is being deleted, that is the part to look at.
        if self.fit == Fit::Start && due.is_none() {
            let ready = t.stage(Stage::Ready).and_then(|s| s.end).map(|e| e.at);
            // A start that is a small part of a long life would be a dot.
            if let Some(r) = ready.filter(|r| last.since(first) > 3 * r.since(first)) {
                end = r;
            }
        }
        let pad = (end.since(first) / 40).max(1000);
        Window::new(first.plus(-pad), end.plus(pad))
    }
    fn selected<'a>(&self, t: &'a Timeline) -> Option<&'a Span> {
        let r = self.rows.get(self.scroll.at)?;
        t.spans.get(r.span as usize)
    }
    fn view<'a>(snap: &'a Snapshot, shared: &Shared) -> Option<&'a PodView> {
        shared.view(snap).map(|p| &***p)
    }
    fn show(&mut self, w: Window) {
        self.window = Some(w);
        self.fit = Fit::Free;
    }
}

impl Pane for TimelinePane {
    fn id(&self) -> PaneId {
        PaneId::Timeline
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let mut s = match self.window {
            Some(w) => format!("{} wide", duration(w.length())),
            None => String::new(),
        };
        if let [a, b] = ctx.shared.marks.as_slice() {
            s.push_str(&format!(
                " {} delta {}",
                ctx.glyphs.dot,
                duration(b.since(*a).abs())
            ));
        }
        if self.critical {
            s.push_str(&format!(" {} critical path", ctx.glyphs.dot));
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
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if self.pod != shared.pod {
            self.pod.clone_from(&shared.pod);
            self.fit = Fit::Start;
            self.window = None;
            self.scroll = Scroll::default();
            self.fresh = true;
        }
        let Some(p) = Self::view(snap, shared) else {
            self.rows.clear();
            return;
        };
        let key = (snap.version, shared.pod.clone());
        if self.dirty || self.seen.as_ref() != Some(&key) {
            self.rows = rows::tree(&p.timeline, &self.turned, self.all);
            self.path = if self.critical {
                rows::critical_path(&p.timeline, snap.now)
            } else {
                Vec::new()
            };
            self.pulls = if p.timeline.spans.iter().any(pulls::may_be_queued) {
                Pulls::of(&snap.world, snap.now)
            } else {
                Pulls::default()
            };
            self.seen = Some(key);
            self.dirty = false;
        }
        if self.fit != Fit::Free || self.window.is_none() {
            self.window = Some(self.fitted(p, snap));
        }
        let (left, right) = Self::sides(size.0);
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
        if std::mem::take(&mut self.fresh)
            && p.current.is_some()
            && let Some(span) = walk::hanging(&p.timeline)
        {
            self.reveal(&p.timeline, span);
            self.scroll.fit(self.rows.len(), usize::from(h));
        }
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
            return Reply::Done;
        }
        let Some(p) = Self::view(snap, shared) else {
            return Reply::Ignored;
        };
        let t = &p.timeline;
        let Some(w) = self.window else {
            return Reply::Ignored;
        };
        let at = shared.at(snap).max(w.from).min(w.to);
        let cell = (w.length() / i64::from(self.columns)).max(1);
        match command.action {
            Action::ZoomIn => self.show(w.zoom(at, 0.5)),
            Action::ZoomOut => self.show(w.zoom(at, 2.0)),
            Action::Fit => {
                self.fit = if self.fit == Fit::Start {
                    Fit::Whole
                } else {
                    Fit::Start
                };
                self.window = Some(self.fitted(p, snap));
            }
            Action::FitSelection => {
                if let Some(s) = self.selected(t) {
                    let length = s.duration(snap.now).max(1000);
                    let from = s.start.at;
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
                self.critical = !self.critical;
                self.dirty = true;
            }
            Action::Slowest => return self.slowest(t, snap.now, shared),
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
                // What is closed opens; when nothing is, everything closes.
                self.all = Some(self.rows.iter().any(|r| r.children && !r.open));
                self.turned.clear();
                self.dirty = true;
            }
            Action::Detail => self.big = !self.big,
            Action::Back if shared.cursor.is_some() => shared.cursor = None,
            Action::Back if self.fit == Fit::Free => {
                self.fit = Fit::Start;
                self.window = None;
            }
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(self.scroll.hidden())
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let Some(p) = ctx.shared.view(ctx.snap) else {
            return super::no_pod(ctx, canvas);
        };
        let Some(window) = self.window.filter(|_| !self.rows.is_empty()) else {
            return super::empty(ctx, canvas, "Nothing has been seen of this pod yet.", "");
        };
        let (w, h) = (canvas.width(), canvas.height());
        let (left, right) = Self::sides(w);
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
        canvas.text_in(1, 0, left, "STAGE  STEP", ctx.theme.head);
        canvas.text_right(w - 1, 0, right, "TIME", ctx.theme.head);
        bars::marks(ctx, &mut canvas.part(left + 1, 1, columns, 1), p, window);
        let n = p.timeline.marks.len();
        canvas.text_in(1, 1, left, &format!("{n} marks"), ctx.theme.faint);
        for (i, row) in self.scroll.visible().enumerate() {
            let y = HEAD + i as u16;
            let Some(r) = self.rows.get(row) else {
                continue;
            };
            let Some(s) = p.timeline.spans.get(r.span as usize) else {
                continue;
            };
            let critical = self.path.contains(&r.span);
            let on = row == self.scroll.at;
            bars::name(ctx, &mut canvas.part(0, y, left, 1), r, s, critical);
            let lane = &mut canvas.part(left + 1, y, columns, 1);
            bars::bar(ctx, lane, s, window, critical, r.open || s.is_stage());
            // A folded stage is the envelope of its steps: what they did is solid.
            if s.is_stage() && !r.open {
                let below = p.timeline.spans.iter().filter(|c| c.parent == Some(r.span));
                for step in below {
                    bars::bar(ctx, lane, step, window, critical, false);
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
                super::calls::select(ctx, canvas, y);
            }
        }
        bars::cursors(
            ctx,
            &mut canvas.part(left + 1, 1, columns, tree + 1),
            window,
        );
        if below > 0 {
            let y = h - below;
            canvas.line(0, y, w, ctx.glyphs.rule, ctx.theme.faint);
            let s = self.selected(&p.timeline);
            detail::draw(
                ctx,
                &mut canvas.part(1, y + 1, w.saturating_sub(2), below - 1),
                p,
                (s, &self.pulls),
                window,
            );
        }
        if tree > 0 {
            self.scroll
                .draw(ctx, &mut canvas.part(0, 0, w, HEAD + tree), HEAD);
        }
    }
    fn click(&mut self, x: u16, y: u16, _snap: &Snapshot, shared: &mut Shared) -> bool {
        let left = self.left;
        if x > left
            && let Some(w) = self.window
            && x - left - 1 < self.columns
        {
            shared.cursor = Some(w.at(x - left - 1, self.columns));
        }
        if let Some(row) = y
            .checked_sub(HEAD)
            .map(|r| self.scroll.top + usize::from(r))
            && row < self.rows.len()
        {
            self.scroll.select(row);
        }
        true
    }
    fn drag(&mut self, from: (u16, u16), to: (u16, u16), _snap: &Snapshot, _shared: &mut Shared) {
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
