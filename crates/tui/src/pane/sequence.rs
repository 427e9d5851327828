//! A sequence diagram of the selected pod: who called whom, when, how long it took and how it ended.
//!
//! Columns are the parties; an arrow is a request with its answer's length beside it. Repeats are folded, an arrow in
//! flight is open and grows.

use super::{Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::shared::{Ctx, Shared};
use crate::text::{count, width};
use crate::widget::scroll::Scroll;
use kflow_core::sequence::{self, Message, Party};
use kflow_engine::Snapshot;
use kflow_model::PodUid;
use kflow_model::units::duration;

/// The sequence pane.
#[derive(Debug)]
pub struct Sequence {
    pod: Option<PodUid>,
    fold: bool,
    messages: Vec<Message>,
    scroll: Scroll,
    /// The pod that the messages were made of.
    seen: Option<kflow_core::correlate::world::Pod>,
    follow: bool,
    /// The pod is new here: the selection goes to what it hangs on.
    fresh: bool,
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
            fresh: false,
        }
    }
}

/// Rows above the arrows: the parties, and who they are.
const HEAD: u16 = 2;

/// A message that comes so long after the one before is told apart, ns.
const LATE: i64 = 1_000_000_000;

/// Columns of the time since the message before.
const fn since_width(w: u16) -> u16 {
    if w >= 100 { 9 } else { 0 }
}

/// Rows of detail below the arrows.
const fn below(h: u16) -> u16 {
    if h >= 16 { 4 } else { 0 }
}

/// Columns of the lifelines, and of the times at the left.
fn lifelines(w: u16) -> (u16, [u16; Party::ALL.len()]) {
    let time = if w >= 100 { 16 } else { 10 } + since_width(w);
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
            canvas.symbol(from, y, if m.open { g.running } else { g.mark }, style);
            let tone = match (m.open, m.bad) {
                (true, _) => t.run,
                (_, true) => t.fail,
                _ => t.dim,
            };
            canvas.text(from + 2, y, &full, tone);
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
        // A cell of the shaft on either side, and the head, stay free.
        if w + 5 <= inside {
            let at = lo + 1 + (inside - 3 - w) / 2;
            canvas.text(at, y, &format!(" {full} "), text_style);
        } else {
            // Beside the arrow, over the lifelines that it does not reach.
            let at = hi + 2;
            canvas.text(at, y, &full, text_style);
        }
    }
}

impl Sequence {
    /// The parties, who they are where that is known, and their lifelines.
    fn heads(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, xs: &[u16], h: u16) {
        let t = ctx.theme;
        let pod = ctx.shared.view(ctx.snap);
        let wide = canvas.width() >= 130;
        let mut edge = 0;
        for (p, x) in Party::ALL.into_iter().zip(xs.iter().copied()) {
            let name = if wide { p.name() } else { p.short() };
            let half = width(name) as u16 / 2;
            canvas.text(x.saturating_sub(half), 0, name, t.strong);
            let who = match (p, pod) {
                (Party::User, Some(p)) => p
                    .owners
                    .first()
                    .map(|o| format!("{} {}", o.kind, o.name))
                    .unwrap_or_default(),
                (Party::Kubelet, Some(p)) => p.node.to_string(),
                _ => String::new(),
            };
            // Beside the lifeline when it is too long to stand on it, and never over its neighbour.
            let next = xs.iter().copied().find(|n| *n > x).unwrap_or(u16::MAX);
            let half = (next - x).saturating_sub(2);
            let w = (width(&who) as u16).min(half.saturating_mul(2));
            let from = x.saturating_sub(w / 2).max(edge);
            let used = canvas.text_in(from, 1, next.saturating_sub(from + 2), &who, t.dim);
            if used == 0 {
                canvas.symbol(x, 1, ctx.glyphs.wall, t.faint);
            } else {
                edge = from + used + 1;
            }
            canvas.column(x, HEAD, h.saturating_sub(HEAD), ctx.glyphs.wall, t.faint);
        }
    }
    /// The selected message: its evidence, and how it ended.
    fn detail(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let t = ctx.theme;
        canvas.line(0, 0, canvas.width(), ctx.glyphs.rule, t.faint);
        let Some(m) = self.messages.get(self.scroll.at) else {
            return;
        };
        let style = if m.open {
            t.run
        } else if m.bad {
            t.fail
        } else {
            t.strong
        };
        let mut x = canvas.spans(
            1,
            1,
            &[
                (m.from.short(), t.dim),
                (" ", t.text),
                (ctx.glyphs.right, t.dim),
                (" ", t.text),
                (m.to.short(), t.dim),
                ("  ", t.text),
                (&m.text, style),
            ],
        );
        if let Some(took) = m.took(ctx.snap.now) {
            let how = if m.open { "  in flight for " } else { "  " };
            x = canvas.spans(x, 1, &[(how, t.dim), (&duration(took), style)]);
        }
        if m.times > 1 {
            let last = ctx.time().at(m.last, m.precision, 3);
            let times = format!("  {}{} in all, the last {last}", ctx.glyphs.times, m.times);
            x = canvas.spans(x, 1, &[(&times, t.dim)]);
        }
        canvas.spans(x, 1, &[("  ", t.text), (&m.code, t.fail)]);
        let call = m.call.and_then(|k| ctx.snap.world.calls().get(m.at, k));
        let answer = match call {
            Some(c) if !c.message.is_empty() => c.message.to_string(),
            Some(c) => c
                .ended
                .as_ref()
                .map(|e| crate::describe::line(e).0)
                .unwrap_or_default(),
            None => String::new(),
        };
        if let Some(e) = &m.evidence {
            let (what, _) = crate::describe::line(e);
            let x = canvas.spans(
                1,
                2,
                &[(e.source.name(), t.source(e.source)), ("  ", t.text)],
            );
            canvas.text(x, 2, &what, t.text);
        }
        canvas.text(1, 3, &answer, if m.bad { t.fail } else { t.dim });
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
            self.fresh = true;
        }
        // Everything about a pod changes the pod: the same one has the same messages.
        match shared.view(snap) {
            Some(p)
                if self
                    .seen
                    .as_ref()
                    .is_some_and(|s| std::sync::Arc::ptr_eq(s, p)) => {}
            Some(p) => {
                self.messages = sequence::derive(p, &snap.world, self.fold);
                self.seen = Some(std::sync::Arc::clone(p));
            }
            None => self.messages.clear(),
        }
        if self.follow {
            self.scroll.at = self.messages.len();
        }
        if std::mem::take(&mut self.fresh) && shared.view(snap).is_some_and(|p| p.current.is_some())
        {
            // What is in flight, else what failed last, is what a pod that is not done hangs on.
            let newest = |f: fn(&Message) -> bool| {
                let found = self.messages.iter().enumerate().filter(|(_, m)| f(m));
                found.max_by_key(|(_, m)| m.last).map(|(n, _)| n)
            };
            let on = newest(|m| m.open).or_else(|| newest(|m| m.bad && m.call.is_some()));
            self.scroll.at = on.or_else(|| newest(|m| m.bad)).unwrap_or(0);
        }
        self.scroll.fit(
            self.messages.len(),
            usize::from(size.1.saturating_sub(HEAD + below(size.1))).max(1),
        );
    }
    fn handle(&mut self, command: &Command, _snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
            self.follow = command.action == Action::Bottom;
            let at = self.messages.get(self.scroll.at).map(|m| m.at);
            shared.cursor = at.filter(|_| !self.follow);
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
                if m.call.is_none() && m.evidence.is_none() {
                    return Reply::Say("nothing was seen of this wait".to_owned());
                }
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
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(self.scroll.hidden())
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        if ctx.shared.view(ctx.snap).is_none() {
            return super::no_pod(ctx, canvas);
        }
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
        let below = below(h);
        let (time_width, xs) = lifelines(w);
        self.heads(ctx, canvas, &xs, h - below);
        let time = ctx.time();
        let since = since_width(w);
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
                time_width - since,
                &time.at(m.at, m.precision, if w >= 100 { 6 } else { 1 }),
                t.dim,
            );
            let before = n.checked_sub(1).and_then(|b| self.messages.get(b));
            if let Some(gap) = before.map(|b| m.at.since(b.at))
                && since > 0
                && gap > 0
            {
                let style = if gap >= LATE { t.wait } else { t.faint };
                canvas.text_right(
                    time_width + 1,
                    y,
                    since,
                    &format!("+{}", duration(gap)),
                    style,
                );
            }
            Self::arrow(ctx, canvas, y, m, &xs);
            if n == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
        }
        self.scroll
            .draw(ctx, &mut canvas.part(0, 0, w, h - below), HEAD);
        if below > 0 {
            self.detail(ctx, &mut canvas.part(0, h - below, w, below));
        }
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
