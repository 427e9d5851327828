//! The call tree of the flow map for the selected pod: each step lit as it is reached, with its length, how often, its
//! evidence, source file and function. Steps that nothing can show are dim and say so.

use rustc_hash::FxHashSet;

use super::{Pane, PaneId, Reply};
use crate::engine::Snapshot;
use crate::flow::lit::{Lit, RunEnd, lit};
use crate::flow::map::{Map, Scope, StepId};
use crate::model::{Nanos, PodUid};
use crate::tui::action::{Action, Command};
use crate::tui::canvas::Canvas;
use crate::tui::shared::{Ctx, Shared};
use crate::tui::text::{duration, width};
use crate::tui::widget::scroll::Scroll;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Flow(usize),
    Step {
        id: StepId,
        depth: u16,
        children: bool,
        open: bool,
    },
}

/// The flow pane.
#[derive(Debug, Default)]
pub struct FlowPane {
    pod: Option<PodUid>,
    lit: Vec<Lit>,
    rows: Vec<Row>,
    scroll: Scroll,
    reached: bool,
    turned: FxHashSet<Row2>,
    all: bool,
    /// Observations that `lit` was derived from, and as of when.
    seen: Option<(usize, Nanos)>,
    dirty: bool,
}

/// A node that was turned: a flow or a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row2 {
    Flow(usize),
    Step(u16),
}

impl FlowPane {
    fn found(&self, id: StepId) -> Option<&Lit> {
        self.lit.iter().find(|l| l.step == id)
    }
    fn build(&mut self) {
        let map = Map::active();
        self.rows.clear();
        let reached: FxHashSet<StepId> = {
            // A step is on the way when something below it was lit.
            let mut set: FxHashSet<StepId> = self.lit.iter().map(|l| l.step).collect();
            for l in &self.lit {
                let mut up = map.get(l.step).and_then(|s| s.parent);
                while let Some(p) = up {
                    if !set.insert(p) {
                        break;
                    }
                    up = map.get(p).and_then(|s| s.parent);
                }
            }
            set
        };
        for (f, flow) in map.flows().iter().enumerate() {
            let steps: Vec<StepId> = map.steps_in(f).map(|(id, _)| id).collect();
            let lit_here = steps.iter().any(|s| reached.contains(s));
            // The node's own flows show where they were lit; a pod's flows always.
            if !lit_here && (self.reached || flow.scope == Scope::Node) {
                continue;
            }
            self.rows.push(Row::Flow(f));
            let open = (lit_here || self.all) != self.turned.contains(&Row2::Flow(f));
            if !open {
                continue;
            }
            let children = |p: Option<StepId>| -> Vec<StepId> {
                steps
                    .iter()
                    .copied()
                    .filter(|s| {
                        let parent = map
                            .get(*s)
                            .and_then(|s| s.parent)
                            .filter(|p| steps.contains(p));
                        parent == p && (!self.reached || reached.contains(s))
                    })
                    .collect()
            };
            let mut stack: Vec<(StepId, u16)> =
                children(None).into_iter().rev().map(|s| (s, 1)).collect();
            while let Some((id, depth)) = stack.pop() {
                let below = children(Some(id));
                let open = !self.turned.contains(&Row2::Step(id.0));
                self.rows.push(Row::Step {
                    id,
                    depth,
                    children: !below.is_empty(),
                    open,
                });
                if open && depth < 30 {
                    stack.extend(below.into_iter().rev().map(|s| (s, depth + 1)));
                }
            }
        }
    }
    fn turn(&mut self) {
        let key = match self.rows.get(self.scroll.at) {
            Some(Row::Flow(f)) => Row2::Flow(*f),
            Some(Row::Step { id, .. }) => Row2::Step(id.0),
            None => return,
        };
        if !self.turned.remove(&key) {
            self.turned.insert(key);
        }
        self.dirty = true;
    }
}

impl Pane for FlowPane {
    fn id(&self) -> PaneId {
        PaneId::Flow
    }
    fn title(&self, _ctx: &Ctx<'_>) -> String {
        let map = Map::active();
        let all = map.steps().len();
        let dark = map.steps().iter().filter(|s| s.is_invisible()).count();
        format!(
            "{} of {all} steps seen, {dark} cannot be; Kubernetes {}",
            self.lit.len(),
            map.version
        )
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::FlowOnlyReached,
            Action::Open,
            Action::FlowFoldAll,
            Action::NextPod,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if self.pod != shared.pod {
            self.pod.clone_from(&shared.pod);
            self.seen = None;
            self.scroll = Scroll::default();
        }
        let Some(p) = shared.view(snap) else {
            self.rows.clear();
            return;
        };
        let key = (p.evidence.len(), p.changed);
        if self.seen != Some(key) {
            self.lit = lit(Map::active(), &p.evidence, snap.now);
            self.seen = Some(key);
            self.dirty = true;
        }
        if self.dirty {
            self.build();
            self.dirty = false;
        }
        let below = if size.1 >= 14 { 4 } else { 0 };
        self.scroll.fit(
            self.rows.len(),
            usize::from(size.1.saturating_sub(below + 1)).max(1),
        );
    }
    fn handle(&mut self, command: &Command, _snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
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
            Action::Left | Action::Right => self.turn(),
            Action::Open => match self.rows.get(self.scroll.at) {
                Some(Row::Step {
                    id,
                    children: false,
                    ..
                }) => {
                    let evidence = self
                        .found(*id)
                        .and_then(|l| l.evidence.first())
                        .map(|(_, e)| e.clone());
                    match evidence {
                        Some(e) => {
                            shared.evidence = Some(e);
                            return Reply::Go(PaneId::Log);
                        }
                        None => return Reply::Say("nothing was seen of this step".to_owned()),
                    }
                }
                _ => self.turn(),
            },
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        if self.rows.is_empty() {
            return super::empty(
                ctx,
                canvas,
                "No step has been seen.",
                "Choose a pod in the list (1).",
            );
        }
        let (t, g) = (ctx.theme, ctx.glyphs);
        let map = Map::active();
        let (w, h) = (canvas.width(), canvas.height());
        let now = ctx.snap.now;
        // From the right: file, evidence, times, length.
        let file = if w >= 130 { 44 } else { 0 };
        let kinds = if w >= 100 { 16 } else { 0 };
        let numbers = 17;
        let tree = w.saturating_sub(file + kinds + numbers + 2);
        canvas.text_in(3, 0, tree, "STEP", t.head);
        canvas.text_right(tree + 9, 0, 8, "TIME", t.head);
        canvas.text_right(tree + 16, 0, 6, "TIMES", t.head);
        canvas.text_in(tree + numbers + 1, 0, kinds, "EVIDENCE", t.head);
        canvas.text_in(tree + numbers + kinds + 1, 0, file, "SOURCE FILE", t.head);
        for (i, n) in self.scroll.visible().enumerate() {
            let y = 1 + i as u16;
            match self.rows.get(n) {
                Some(Row::Flow(f)) => {
                    let Some(flow) = map.flows().get(*f) else {
                        continue;
                    };
                    let open = !matches!(self.rows.get(n + 1), Some(Row::Flow(_)) | None);
                    canvas.spans(
                        1,
                        y,
                        &[
                            (if open { g.open } else { g.closed }, t.accent),
                            (" ", t.text),
                            (&flow.title, t.strong),
                        ],
                    );
                }
                Some(Row::Step {
                    id,
                    depth,
                    children,
                    open,
                }) => {
                    let Some(s) = map.get(*id) else { continue };
                    let l = self.found(*id);
                    let run = l.and_then(|l| l.runs.last());
                    let (symbol, style) = match (l, run.map(|r| r.how)) {
                        (Some(_), Some(RunEnd::Failed)) => (g.failing, t.fail),
                        (Some(_), Some(RunEnd::InFlight)) => (g.running, t.run),
                        (Some(_), _) => (g.on, t.ok),
                        (None, _) if s.is_invisible() => (g.absent, t.faint),
                        (None, _) => (g.off, t.dim),
                    };
                    let mut x = 1 + depth * 2;
                    let mark = match (children, open) {
                        (true, false) => g.closed,
                        (true, true) => g.open,
                        _ => " ",
                    };
                    canvas.symbol(x, y, mark, t.dim);
                    canvas.symbol(x + 2, y, symbol, style);
                    x += 4;
                    let name_style = match l {
                        Some(_) if matches!(run.map(|r| r.how), Some(RunEnd::Failed)) => t.fail,
                        Some(_) => t.text,
                        None => t.faint,
                    };
                    let room = tree.saturating_sub(x);
                    let used = canvas.text_in(x, y, room, &s.function, name_style);
                    let note = if l.is_none() && s.is_invisible() {
                        "cannot be seen"
                    } else {
                        s.label.as_str()
                    };
                    canvas.text_in(
                        x + used + 2,
                        y,
                        room.saturating_sub(used + 3),
                        note,
                        t.faint,
                    );
                    if let Some(l) = l {
                        if let Some(d) = run.and_then(|r| r.duration(now)) {
                            canvas.text_right(tree + 9, y, 8, &duration(d), style);
                        }
                        if l.count > 1 {
                            canvas.text_right(
                                tree + 16,
                                y,
                                6,
                                &format!("{}{}", g.times, l.count),
                                t.dim,
                            );
                        }
                        let mut names: Vec<&str> =
                            l.evidence.iter().map(|(_, e)| e.source.name()).collect();
                        names.dedup();
                        canvas.text_in(
                            tree + numbers + 1,
                            y,
                            kinds.saturating_sub(1),
                            &names.join(" "),
                            t.dim,
                        );
                    }
                    canvas.text_in(
                        tree + numbers + kinds + 1,
                        y,
                        file.saturating_sub(2),
                        &s.file,
                        t.faint,
                    );
                }
                None => {}
            }
            if n == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
        }
        let below = if h >= 14 { 4 } else { 0 };
        self.scroll
            .draw(ctx, &mut canvas.part(0, 0, w, h - below), 1);
        if below > 0 {
            canvas.line(0, h - below, w, g.rule, t.faint);
            if let Some(Row::Step { id, .. }) = self.rows.get(self.scroll.at)
                && let Some(s) = map.get(*id)
            {
                let y = h - below + 1;
                let x = canvas.spans(
                    1,
                    y,
                    &[(&s.function, t.strong), ("  ", t.text), (&s.file, t.dim)],
                );
                if !s.was.is_empty() {
                    canvas.text(x + 2, y, &format!("before: {}", s.was.join(", ")), t.faint);
                }
                canvas.text(1, y + 1, &s.label, t.text);
                let said = match self.found(*id) {
                    Some(l) => {
                        let time = ctx.time();
                        let ev: Vec<String> = l
                            .evidence
                            .iter()
                            .map(|(_, e)| {
                                format!(
                                    "{} {}",
                                    e.source.name(),
                                    time.at(e.stamp.at, e.stamp.precision, 6)
                                )
                            })
                            .collect();
                        format!("first seen by {}", ev.join(", "))
                    }
                    None if s.is_invisible() => "no source can show this step".to_owned(),
                    None => {
                        let kinds: Vec<String> =
                            s.kinds().iter().map(|k| k.name().to_owned()).collect();
                        format!("not reached; it would show as {}", kinds.join(", "))
                    }
                };
                if width(&said) > 0 {
                    canvas.text(1, y + 2, &said, t.dim);
                }
            }
        }
    }
}
