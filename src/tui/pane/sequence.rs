//! A sequence diagram of the selected pod: who called whom, when, how long it took and how it ended.
//!
//! Columns are the parties; an arrow is a request with its answer's length beside it. Repeats are folded, an arrow in
//! flight is open and grows.

mod messages;

use super::{Pane, PaneId, Reply};
use crate::engine::Snapshot;
use crate::model::PodUid;
use crate::tui::action::{Action, Command};
use crate::tui::canvas::Canvas;
use crate::tui::shared::{Ctx, Shared};
use crate::tui::text::{count, duration, width};
use crate::tui::widget::scroll::Scroll;
use messages::{Message, Party};

/// The sequence pane.
#[derive(Debug)]
pub struct Sequence {
    pod: Option<PodUid>,
    fold: bool,
    messages: Vec<Message>,
    scroll: Scroll,
    /// The pod that the messages were made of.
    seen: Option<crate::correlate::world::Pod>,
    follow: bool,
}

impl Default for Sequence {
    fn default() -> Self {
        Self {
            pod: None,
            fold: true,
            messages: Vec::new(),
            scroll: Scroll::default(),
            seen: None,
            follow: false,
        }
    }
}

/// Rows above the arrows: the parties.
const HEAD: u16 = 2;

/// Columns of the lifelines, and of the time at the left.
fn lifelines(w: u16) -> (u16, [u16; Party::ALL.len()]) {
    let time = if w >= 100 { 16 } else { 10 };
    let labels = (w / 4).clamp(14, 40);
    let room = w.saturating_sub(time + labels + 6);
    let gap = (room / (Party::ALL.len() as u16 - 1)).clamp(7, 30);
    let mut x = [0; Party::ALL.len()];
    for (i, slot) in x.iter_mut().enumerate() {
        *slot = time + 4 + gap * i as u16;
    }
    (time, x)
}

impl Sequence {
    fn arrow(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16, m: &Message, xs: &[u16]) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let x = |p: Party| xs.get(p as usize).copied().unwrap_or(0);
        let (from, to) = (x(m.from), x(m.to));
        let (lo, hi) = (from.min(to), from.max(to));
        let style = if m.open {
            t.run
        } else if m.bad {
            t.fail
        } else {
            t.source(m.source)
        };
        let mut label = m.text.clone();
        if m.times > 1 {
            label.push_str(&format!(" {}{}", g.times, m.times));
        }
        let took = m.took(ctx.snap.now).map(duration).unwrap_or_default();
        let full = match (took.is_empty(), m.code.is_empty()) {
            (true, true) => label.clone(),
            (false, true) => format!("{label}  {took}"),
            (true, false) => format!("{label}  {}", m.code),
            (false, false) => format!("{label}  {took}  {}", m.code),
        };
        if from == to {
            canvas.symbol(from, y, g.mark, style);
            canvas.text(from + 2, y, &full, if m.bad { t.fail } else { t.dim });
            return;
        }
        let shaft = if m.open { g.dashed } else { g.shaft };
        canvas.line(lo + 1, y, hi - lo - 1, shaft, style);
        if to > from {
            canvas.symbol(to - 1, y, g.right, style);
        } else {
            canvas.symbol(to + 1, y, g.left, style);
        }
        let inside = hi - lo;
        let text_style = if m.bad { t.fail } else { t.text };
        let w = width(&full) as u16;
        if w + 6 <= inside {
            canvas.text(lo + (inside - w) / 2, y, &format!(" {full} "), text_style);
        } else {
            // Beside the arrow, over the lifelines that it does not reach.
            let at = hi + 2;
            canvas.text(at, y, &full, text_style);
        }
    }
}

impl Pane for Sequence {
    fn id(&self) -> PaneId {
        PaneId::Sequence
    }
    fn title(&self, _ctx: &Ctx<'_>) -> String {
        let n: u32 = self.messages.iter().map(|m| m.times).sum();
        format!(
            "{} messages{}",
            count(n as usize),
            if self.fold { "" } else { ", unfolded" }
        )
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::Open,
            Action::SequenceNoise,
            Action::PaneTimeline,
            Action::NextPod,
            Action::Bottom,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if self.pod != shared.pod {
            self.pod.clone_from(&shared.pod);
            self.scroll = Scroll::default();
            self.seen = None;
            self.follow = false;
        }
        // Everything about a pod changes the pod: the same one has the same messages.
        match shared.view(snap) {
            Some(p)
                if self
                    .seen
                    .as_ref()
                    .is_some_and(|s| std::sync::Arc::ptr_eq(s, p)) => {}
            Some(p) => {
                self.messages = messages::derive(p, &snap.world, self.fold);
                self.seen = Some(std::sync::Arc::clone(p));
            }
            None => self.messages.clear(),
        }
        if self.follow {
            self.scroll.at = self.messages.len();
        }
        self.scroll.fit(
            self.messages.len(),
            usize::from(size.1.saturating_sub(HEAD)).max(1),
        );
    }
    fn handle(&mut self, command: &Command, _snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
            self.follow = command.action == Action::Bottom;
            if let Some(m) = self.messages.get(self.scroll.at) {
                shared.cursor = Some(m.at);
            }
            return Reply::Done;
        }
        match command.action {
            Action::SequenceNoise => {
                self.fold = !self.fold;
                self.seen = None;
            }
            Action::Open => {
                let Some(m) = self.messages.get(self.scroll.at) else {
                    return Reply::Done;
                };
                shared.cursor = Some(m.at);
                if let Some(k) = m.call {
                    shared.call = Some(k);
                    return Reply::Go(PaneId::Calls);
                }
                shared.evidence.clone_from(&m.evidence);
                return Reply::Go(PaneId::Log);
            }
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        if self.messages.is_empty() {
            return super::empty(
                ctx,
                canvas,
                "No call about this pod has been seen.",
                "Arrows come from the CRI tap, the audit log and the kubelet's log.",
            );
        }
        let t = ctx.theme;
        let (w, h) = (canvas.width(), canvas.height());
        let (time_width, xs) = lifelines(w);
        for (p, x) in Party::ALL.into_iter().zip(xs) {
            let name = if w >= 130 { p.name() } else { p.short() };
            let half = width(name) as u16 / 2;
            canvas.text(x.saturating_sub(half), 0, name, t.strong);
            canvas.column(x, 1, h.saturating_sub(1), ctx.glyphs.wall, t.faint);
        }
        let time = ctx.time();
        for (i, n) in self.scroll.visible().enumerate() {
            let y = HEAD + i as u16;
            let Some(m) = self.messages.get(n) else {
                continue;
            };
            if n == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
            canvas.text_in(
                1,
                y,
                time_width,
                &time.at(m.at, m.precision, if w >= 100 { 6 } else { 1 }),
                t.dim,
            );
            Self::arrow(ctx, canvas, y, m, &xs);
            if n == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
        }
        self.scroll.draw(ctx, canvas, HEAD);
    }
    fn click(&mut self, _x: u16, y: u16, _snap: &Snapshot, shared: &mut Shared) -> bool {
        let Some(row) = y
            .checked_sub(HEAD)
            .map(|r| self.scroll.top + usize::from(r))
        else {
            return false;
        };
        if let Some(m) = self.messages.get(row) {
            shared.cursor = Some(m.at);
            self.scroll.select(row);
        }
        true
    }
    fn copy(&self, snap: &Snapshot, shared: &Shared) -> Option<String> {
        // As text that a Mermaid renderer draws.
        let mut out = String::from("sequenceDiagram\n");
        for p in Party::ALL {
            out.push_str(&format!("    participant {}\n", p.id()));
        }
        let time = shared.time(snap);
        for m in &self.messages {
            let arrow = if m.open {
                "--)"
            } else if m.bad {
                "-x"
            } else {
                "->>"
            };
            let took = m.took(snap.now).map(duration).unwrap_or_default();
            let text = m.text.replace([';', '\n', '#'], " ");
            out.push_str(&format!(
                "    {}{arrow}{}: {} {text} {took} {}\n",
                m.from.id(),
                m.to.id(),
                time.at(m.at, m.precision, 3),
                m.code
            ));
        }
        Some(out)
    }
}
