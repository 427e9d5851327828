//! The call tree of the flow map for the selected pod. A reached step shows its duration, number of runs, evidence,
//! source file and function. A step that no source can show is dim and says why. The root is the kubelet's sync loop.

mod draw;
mod explain;
mod tree;

use rustc_hash::FxHashSet;

use super::{Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::shared::{Ctx, Shared};
use crate::widget::scroll::Scroll;
use kflow_core::correlate::steps::{runtime_of, steps};
use kflow_core::flow::map::{Map, StepId};
use kflow_core::flow::runs::StepRuns;
use kflow_engine::Snapshot;
use kflow_model::{Nanos, PodUid, log::Component};
use tree::{Row, Show, Turned};

#[derive(Debug, Default)]
pub struct FlowPane {
    pod: Option<PodUid>,
    lit: Vec<StepRuns>,
    /// The container runtime whose side of the calls is shown; `None` while it is not known.
    runtime: Option<Component>,
    rows: Vec<Row>,
    scroll: Scroll,
    reached: bool,
    turned: FxHashSet<Turned>,
    /// The rows that were turned before a filter was set, while there is one.
    turned_before: FxHashSet<Turned>,
    all: bool,
    /// Whether the explanation of the selected row is shown.
    explained: bool,
    /// Lines that the explanation is scrolled down.
    explained_top: usize,
    /// Number of observations from which `lit` was derived, and the moment as of which.
    seen: Option<(usize, Nanos)>,
    dirty: bool,
    /// The filter: words that a step has to have.
    filter: String,
    /// Whether the filter was just set, so that the next sync selects the first step that it finds.
    sought: bool,
    /// Whether the pod was just selected, so that the next sync selects the step that it is at.
    fresh: bool,
}

impl FlowPane {
    fn found(&self, id: StepId) -> Option<&StepRuns> {
        // `lit` is sorted by step.
        let at = self.lit.binary_search_by_key(&id, |l| l.step).ok()?;
        self.lit.get(at)
    }
    fn explain(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, row: Option<&Row>) {
        let said = match row {
            Some(Row::Step { id, .. }) => explain::step(ctx, *id, self.found(*id)),
            Some(Row::Flow(f)) => explain::flow(ctx, *f),
            None => return,
        };
        said.draw(ctx, canvas, self.explained_top);
    }
    fn words(&self) -> Vec<String> {
        let words = self.filter.split_whitespace();
        words.map(str::to_lowercase).collect()
    }
    /// Returns true if a row is a step that has the filter's words itself.
    fn is_found(&self, row: &Row) -> bool {
        let map = Map::active();
        let Row::Step { id, .. } = row else {
            return false;
        };
        (map.get(*id)).is_some_and(|s| tree::has(map, s, &self.words()))
    }
    /// Returns the row that fits the filter best: a step of this id or function, or whose function has the words, or the
    /// first that has them anywhere.
    fn best(&self) -> Option<usize> {
        let (map, wanted) = (Map::active(), self.filter.to_lowercase());
        let rank = |row: &Row| {
            let Row::Step { id, .. } = row else { return 2 };
            let function = map
                .get(*id)
                .map(|s| (s.id.as_str(), s.function.to_lowercase()));
            match function {
                Some((id, f)) if id == wanted || f == wanted => 0,
                Some((_, f)) if f.contains(&wanted) => 1,
                _ => 2,
            }
        };
        let rows = self.rows.iter().enumerate();
        let found = rows.filter(|(_, r)| self.is_found(r));
        found.min_by_key(|(_, r)| rank(r)).map(|(n, _)| n)
    }
    fn list(&self) -> Vec<Row> {
        let words = self.words();
        let show = Show {
            reached: self.reached,
            all: self.all,
            runtime: self.runtime,
            words: &words,
            turned: &self.turned,
        };
        tree::rows(Map::active(), &self.lit, show)
    }
    /// Returns the row of a step, or that of the nearest step above it that is listed.
    fn row_of(&self, step: StepId) -> Option<usize> {
        let map = Map::active();
        let mut step = Some(step);
        while let Some(wanted) = step {
            let is = |r: &Row| matches!(r, Row::Step { id, .. } if *id == wanted);
            if let Some(n) = self.rows.iter().position(is) {
                return Some(n);
            }
            step = map.get(wanted).and_then(|s| s.parent);
        }
        None
    }
    /// Selects a step, and opens what it is below.
    fn reveal(&mut self, step: StepId) {
        let map = Map::active();
        if map.get(step).is_none() {
            return;
        }
        if self.row_of(step).is_none() && !self.filter.is_empty() {
            self.filter.clear();
            std::mem::swap(&mut self.turned, &mut self.turned_before);
            self.rows = self.list();
        }
        // Each turn opens one row more: the flow, or a step above.
        for _ in 0..=tree::DEEPEST {
            let at = self.row_of(step);
            let row = at.and_then(|n| self.rows.get(n));
            let closed = match row {
                Some(Row::Step { id, .. }) if *id == step => break,
                Some(Row::Step { open: false, .. }) => row.map(|r| r.key()),
                Some(_) => None,
                None => map.get(step).map(|s| tree::Turned::Flow(s.flow)),
            };
            let Some(key) = closed else { break };
            if !self.turned.remove(&key) {
                self.turned.insert(key);
            }
            self.rows = self.list();
        }
        if let Some(n) = self.row_of(step) {
            self.scroll.select(n);
        }
    }
    fn turn(&mut self) {
        let Some(key) = self.rows.get(self.scroll.at).map(|r| r.key()) else {
            return;
        };
        if !self.turned.remove(&key) {
            self.turned.insert(key);
        }
        self.dirty = true;
    }
}

/// Width from which the explanation is beside the tree instead of below it.
const WIDE: u16 = 140;

impl FlowPane {
    /// Returns the columns of the tree and the rows of the part below it; 0 rows if the explanation is beside the tree.
    const fn split(&self, w: u16, h: u16) -> (u16, u16) {
        match (self.explained, w >= WIDE) {
            (true, true) => (w - w * 2 / 5, 0),
            (true, false) => (w, h * 3 / 5),
            (false, _) if h >= 14 => (w, 4),
            (false, _) => (w, 0),
        }
    }
    /// Opens the log at the first evidence of the selected step.
    fn lead(&self, shared: &mut Shared) -> Reply {
        let evidence = match self.rows.get(self.scroll.at) {
            Some(Row::Step { id, .. }) => {
                let mut found = self.found(*id).into_iter().flat_map(|l| &l.evidence);
                found.next().map(|(_, e)| e.clone())
            }
            _ => return Reply::Done,
        };
        if evidence.is_none() {
            return Reply::Say("nothing was seen of this step".to_owned());
        }
        shared.evidence = evidence;
        Reply::Go(PaneId::Log)
    }
}

impl Pane for FlowPane {
    fn id(&self) -> PaneId {
        PaneId::Flow
    }
    fn title(&self, _ctx: &Ctx<'_>) -> String {
        let map = Map::active();
        let shown = || tree::steps(map, self.runtime).map(|(_, s)| s);
        let all = shown().count();
        let dark = shown().filter(|s| s.is_invisible()).count();
        format!(
            "{} of {all} steps seen, {dark} cannot be; Kubernetes {}",
            self.lit.len(),
            map.version
        )
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::FlowExplain,
            Action::FlowOnlyReached,
            Action::FlowFoldAll,
            Action::Filter,
            Action::NextPod,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if self.pod != shared.pod {
            self.pod.clone_from(&shared.pod);
            self.seen = None;
            self.scroll = Scroll::default();
            self.fresh = true;
        }
        let Some(p) = shared.view(snap) else {
            self.rows.clear();
            return;
        };
        let key = (p.evidence.len(), p.changed);
        if self.seen != Some(key) {
            let map = Map::active();
            self.lit = steps(map, &snap.world, p);
            self.lit.sort_by_key(|l| l.step);
            let at_work = || self.lit.iter().find_map(|l| map.runtime_of(l.step));
            self.runtime = runtime_of(&snap.world, p).or_else(at_work);
            self.seen = Some(key);
            self.dirty = true;
        }
        if std::mem::take(&mut self.dirty) {
            // The selection stays on its step, even if rows above it appear or vanish.
            let here = self.rows.get(self.scroll.at).map(|r| r.key());
            self.rows = self.list();
            if std::mem::take(&mut self.fresh) {
                // A pod that is done with its current work has no such step: the first row is selected.
                self.scroll.at = match p.current {
                    Some(_) => tree::focus(&self.rows, &self.lit),
                    None => 0,
                };
            } else if let Some(n) = here.and_then(|k| self.rows.iter().position(|r| r.key() == k)) {
                self.scroll.at = n;
            }
        }
        if std::mem::take(&mut self.sought)
            && let Some(n) = self.best()
        {
            self.scroll.select(n);
        }
        if let Some(step) = shared.step.take() {
            self.reveal(step);
        }
        self.scroll.fit(
            self.rows.len(),
            usize::from(size.1.saturating_sub(self.split(size.0, size.1).1 + 1)).max(1),
        );
    }
    fn handle(&mut self, command: &Command, _snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
            self.explained_top = 0;
            return Reply::Done;
        }
        match command.action {
            Action::FlowOnlyReached => {
                self.reached = !self.reached;
                self.dirty = true;
            }
            Action::FlowFoldAll => {
                self.all = !self.all;
                self.turned.clear();
                self.dirty = true;
            }
            Action::Right if self.explained => self.explained_top += 1,
            Action::Left if self.explained => {
                self.explained_top = self.explained_top.saturating_sub(1);
            }
            Action::Left | Action::Right => self.turn(),
            Action::FlowExplain => self.explained = !self.explained,
            Action::Open if self.explained => return self.lead(shared),
            Action::Open => self.explained = true,
            Action::Back if self.explained => self.explained = false,
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn filter(&self) -> Option<&str> {
        Some(&self.filter)
    }
    fn filter_hint(&self) -> Option<&'static str> {
        Some("a step's id, name or words: c22   sandbox   mount volume")
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        let was = self.filter.is_empty();
        text.trim().clone_into(&mut self.filter);
        // What was opened and closed before holds again once all steps are shown.
        if was != self.filter.is_empty() {
            std::mem::swap(&mut self.turned, &mut self.turned_before);
        }
        if !self.filter.is_empty() {
            self.turned.clear();
        }
        self.dirty = true;
        // The first step that has the words is selected, and not one above it.
        self.sought = !self.filter.is_empty();
        Ok(())
    }
    fn matches(&self) -> Option<usize> {
        let steps = self.rows.iter();
        Some(steps.filter(|r| self.is_found(r)).count())
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(self.scroll.hidden())
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        if self.rows.is_empty() && ctx.shared.owner.is_some() {
            return super::no_pod(ctx, canvas);
        }
        if self.rows.is_empty() && !self.filter.is_empty() {
            let hint = "esc shows all steps.";
            return super::empty(ctx, canvas, "No step has this.", hint);
        }
        if self.rows.is_empty() {
            return super::empty(
                ctx,
                canvas,
                "No step has been seen.",
                "Choose a pod in the list (1); each step of its call flow lights up here as it is reached.",
            );
        }
        let (whole, h) = (canvas.width(), canvas.height());
        let (w, below) = self.split(whole, h);
        let selected = self.rows.get(self.scroll.at);
        if w < whole {
            canvas.column(w, 0, h, ctx.glyphs.wall, ctx.theme.rule);
            let mut part = canvas.part(w + 2, 0, whole - w - 3, h);
            self.explain(ctx, &mut part, selected);
        }
        let canvas = &mut canvas.part(0, 0, w, h);
        let columns = draw::Columns::of(w);
        columns.head(ctx, canvas);
        for (i, n) in self.scroll.visible().enumerate() {
            let y = 1 + i as u16;
            match self.rows.get(n) {
                Some(Row::Flow(f)) => {
                    let open = matches!(self.rows.get(n + 1), Some(Row::Step { .. }));
                    draw::flow(ctx, canvas, y, *f, open);
                }
                Some(Row::Step {
                    id,
                    depth,
                    children,
                    open,
                }) => {
                    let mark = match (children, open) {
                        (true, false) => ctx.glyphs.closed,
                        (true, true) => ctx.glyphs.open,
                        _ => " ",
                    };
                    columns.step(ctx, canvas, y, *id, (*depth, mark), self.found(*id));
                }
                None => {}
            }
            if n == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
        }
        self.scroll
            .draw(ctx, &mut canvas.part(0, 0, w, h - below), 1);
        if below > 0 {
            let mut part = canvas.part(0, h - below, w, below);
            match selected {
                _ if self.explained => {
                    part.line(0, 0, w, ctx.glyphs.rule, ctx.theme.rule);
                    let mut part = part.part(1, 1, w.saturating_sub(2), below - 1);
                    self.explain(ctx, &mut part, selected);
                }
                Some(Row::Step { id, .. }) => {
                    draw::detail(ctx, &mut part, *id, self.found(*id));
                }
                _ => part.line(0, 0, w, ctx.glyphs.rule, ctx.theme.rule),
            }
        }
    }
    fn click(&mut self, _x: u16, y: u16, _snap: &Snapshot, _shared: &mut Shared) -> bool {
        let Some(row) = y
            .checked_sub(1)
            .map(|r| self.scroll.top + usize::from(r))
            .filter(|r| *r < self.rows.len())
        else {
            return false;
        };
        // A click on the selected row opens or closes it.
        if self.scroll.at == row {
            self.turn();
        }
        self.scroll.select(row);
        true
    }
    fn copy(&self, snap: &Snapshot, shared: &Shared) -> Option<String> {
        let Some(Row::Step { id, .. }) = self.rows.get(self.scroll.at) else {
            return None;
        };
        let s = Map::active().get(*id)?;
        let mut text = format!("{} {}\n{}\n", s.function, s.file, s.label);
        for sentences in [&s.does, &s.hangs] {
            if !sentences.is_empty() {
                text.push_str(&format!("{sentences}\n"));
            }
        }
        let time = shared.time(snap);
        for (_, e) in self.found(*id).iter().flat_map(|l| &l.evidence) {
            text.push_str(&format!(
                "{} {} {}\n",
                time.at(e.stamp.at, e.stamp.precision, 6),
                e.source.name(),
                crate::describe::line(e).0
            ));
        }
        Some(text)
    }
}
