//! A sequence diagram of the selected pod: who called whom, when, how long the call took and how it ended.
//!
//! Columns are the parties. A request is an arrow, its response a dashed arrow with code and duration; in between,
//! the lifeline of the called party is active. Adjacent repeats are folded. A period without messages is a row that
//! says what went on meanwhile. A call in flight, or one that is waited for, is an open arrow.

use super::{Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::shared::{Ctx, Shared};
use crate::text::{counted, width};
use crate::widget::scroll::Scroll;
use kflow_core::sequence::{Diagram, Message, Party, Row, What};
use kflow_engine::Snapshot;
use kflow_export::sequence::{answered, mermaid};
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid};
use ratatui::style::Style;

#[derive(Debug)]
pub struct Sequence {
    pod: Option<PodUid>,
    fold: bool,
    diagram: Diagram,
    scroll: Scroll,
    /// The state of the pod from which `diagram` was made.
    seen: Option<kflow_core::correlate::world::Pod>,
    follow: bool,
    /// Whether the pod was just selected, so that the next sync selects the message that the pod hangs on.
    fresh: bool,
    /// The time cursor for which this pane last chose its selection.
    cursor: Option<Nanos>,
}

impl Default for Sequence {
    fn default() -> Self {
        Self {
            pod: None,
            fold: true,
            diagram: Diagram::default(),
            scroll: Scroll::default(),
            seen: None,
            follow: false,
            fresh: false,
            cursor: None,
        }
    }
}

/// Rows above the arrows: the names of the parties, and which instances they are.
const HEAD: u16 = 2;

/// Returns the width of the column with the time since the previous message.
const fn since_width(w: u16) -> u16 {
    if w >= 100 { 9 } else { 0 }
}

/// Returns the rows of the detail below the arrows.
const fn below(h: u16) -> u16 {
    if h >= 16 { 4 } else { 0 }
}

/// Returns the width of the times at the left, and the columns of the lifelines.
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
    /// Returns the selected row, and its message if it has one.
    fn selected(&self) -> Option<(&Row, Option<&Message>)> {
        let row = self.diagram.rows.get(self.scroll.at)?;
        Some((row, self.diagram.message(row)))
    }
    fn row(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16, row: &Row, xs: &[u16]) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        for (x, active) in xs.iter().zip(row.active) {
            if active {
                canvas.symbol(*x, y, g.active, t.run);
            } else if matches!(row.what, What::Delay { .. }) {
                canvas.symbol(*x, y, g.silent, t.faint);
            }
        }
        match (&row.what, self.diagram.message(row)) {
            (What::Delay { until, text }, _) => {
                let x = xs.first().copied().unwrap_or(0) + 2;
                let length = duration(until.since(row.at));
                let said = format!(" {length}  {text} ");
                canvas.text(x, y, &said, t.wait);
            }
            (What::Out(_), Some(m)) => Self::call(ctx, canvas, y, m, xs),
            (What::Back(_), Some(m)) => Self::answer(ctx, canvas, y, (m, row.apart), xs),
            _ => {}
        }
    }
    fn call(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16, m: &Message, xs: &[u16]) {
        let (t, g) = (ctx.theme, ctx.glyphs);
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
        if let Some(took) = m.took(ctx.snap.now).filter(|_| m.open) {
            label.push_str(&format!("  {}", duration(took)));
        }
        let text = if m.bad {
            t.fail
        } else if m.open {
            t.run
        } else {
            t.text
        };
        let x = |p: Party| xs.get(p as usize).copied().unwrap_or(0);
        let (from, to) = (x(m.from), x(m.to));
        let head = match (m.open, to >= from) {
            (true, true) => g.open_right,
            (false, true) => g.right,
            (_, false) => g.left,
        };
        if from == to {
            // The message calls no other party: a short dashed arrow that reaches no lifeline.
            canvas.line(from + 1, y, 2, g.dashed, style);
            canvas.symbol(from + 3, y, head, style);
            canvas.text(from + 5, y, &label, text);
            return;
        }
        arrow(
            canvas,
            y,
            (from, to),
            (g.shaft, head),
            &label,
            (style, text),
        );
    }
    fn answer(
        ctx: &Ctx<'_>,
        canvas: &mut Canvas<'_>,
        y: u16,
        (m, apart): (&Message, bool),
        xs: &[u16],
    ) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let x = |p: Party| xs.get(p as usize).copied().unwrap_or(0);
        let (from, to) = (x(m.to), x(m.from));
        let head = if to > from { g.right } else { g.left };
        let style = if m.bad { t.fail } else { t.source(m.source) };
        let text = if m.bad { t.fail } else { t.dim };
        let label = answered(m, apart, ctx.snap.now);
        arrow(
            canvas,
            y,
            (from, to),
            (g.dashed, head),
            &label,
            (style, text),
        );
    }
}

/// Draws an arrow with its label on it, or beside it if the arrow is too short.
fn arrow(
    canvas: &mut Canvas<'_>,
    y: u16,
    (from, to): (u16, u16),
    (shaft, head): (&str, &str),
    label: &str,
    (style, text): (Style, Style),
) {
    let (lo, hi) = (from.min(to), from.max(to));
    canvas.line(lo + 1, y, hi.saturating_sub(lo + 1), shaft, style);
    canvas.symbol(if to > from { to - 1 } else { to + 1 }, y, head, style);
    let inside = hi - lo;
    let w = width(label) as u16;
    // The label leaves a cell of the shaft free on each side, and the head.
    if w.saturating_add(5) <= inside {
        let at = lo + 1 + (inside - 3 - w) / 2;
        canvas.text(at, y, &format!(" {label} "), text);
    } else {
        // Beside the arrow, over lifelines that the arrow does not reach.
        canvas.text(hi + 2, y, label, text);
    }
}

impl Sequence {
    /// Draws the names of the parties, their instances if known, and the lifelines.
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
            // A name that is too long to be centred on its lifeline starts further left or right, but never overlaps
            // the next one.
            let next = xs.iter().copied().find(|n| *n > x).unwrap_or(u16::MAX);
            let half = (next - x).saturating_sub(2);
            let w = (width(&who) as u16).min(half.saturating_mul(2));
            let from = x.saturating_sub(w / 2).max(edge);
            let used = canvas.text_in(from, 1, next.saturating_sub(from + 2), &who, t.dim);
            if used == 0 {
                canvas.symbol(x, 1, ctx.glyphs.wall, t.rule);
            } else {
                edge = from + used + 1;
            }
            canvas.column(x, HEAD, h.saturating_sub(HEAD), ctx.glyphs.wall, t.rule);
        }
    }
    /// Draws the selected message: its evidence, and how it ended.
    fn detail(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let t = ctx.theme;
        canvas.line(0, 0, canvas.width(), ctx.glyphs.rule, t.rule);
        let m = match self.selected() {
            Some((_, Some(m))) => m,
            Some((row, None)) => {
                if let What::Delay { until, text } = &row.what {
                    let length = duration(until.since(row.at));
                    canvas.spans(
                        1,
                        1,
                        &[
                            ("nothing was said for ", t.dim),
                            (&length, t.wait),
                            ("  ", t.text),
                            (text, t.text),
                        ],
                    );
                }
                return;
            }
            None => return,
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
        let code = if m.bad { t.fail } else { t.dim };
        canvas.spans(x, 1, &[("  ", t.text), (&m.code, code)]);
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
        let n: u32 = self.diagram.messages.iter().map(|m| m.times).sum();
        format!(
            "{}{}",
            counted(n as usize, "message"),
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
        // Every observation about a pod makes a new view of the pod, so the same view has the same messages.
        match shared.view(snap) {
            Some(p)
                if self
                    .seen
                    .as_ref()
                    .is_some_and(|s| std::sync::Arc::ptr_eq(s, p)) => {}
            Some(p) => {
                self.diagram = Diagram::of(p, &snap.world, self.fold);
                self.seen = Some(std::sync::Arc::clone(p));
            }
            None => self.diagram = Diagram::default(),
        }
        if self.follow {
            self.scroll.at = self.diagram.rows.len();
        }
        if std::mem::take(&mut self.fresh) && shared.view(snap).is_some_and(|p| p.current.is_some())
        {
            // A pod that is not done hangs on its newest message in flight, or else on the newest failure.
            let newest = |f: fn(&Message) -> bool| {
                let rows = self.diagram.rows.iter().enumerate();
                let found = rows.filter_map(|(n, r)| Some((n, self.diagram.message(r)?)));
                let found = found.filter(|(_, m)| f(m));
                found.max_by_key(|(_, m)| m.last).map(|(n, _)| n)
            };
            let on = newest(|m| m.open).or_else(|| newest(|m| m.bad && m.call.is_some()));
            self.scroll.at = on.or_else(|| newest(|m| m.bad)).unwrap_or(0);
            self.cursor = shared.cursor;
        }
        // If another pane moved the time cursor, the row at that time is selected.
        if self.cursor != shared.cursor {
            self.cursor = shared.cursor;
            if let Some(at) = shared.cursor {
                let before = self.diagram.rows.partition_point(|r| r.at <= at);
                self.scroll.at = before.saturating_sub(1);
                self.follow = false;
            }
        }
        self.scroll.fit(
            self.diagram.rows.len(),
            usize::from(size.1.saturating_sub(HEAD + below(size.1))).max(1),
        );
    }
    fn handle(&mut self, command: &Command, _snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
            self.follow = command.action == Action::Bottom;
            let at = self.selected().map(|(row, _)| row.at);
            shared.cursor = at.filter(|_| !self.follow);
            self.cursor = shared.cursor;
            return Reply::Done;
        }
        match command.action {
            Action::SequenceNoise => {
                self.fold = !self.fold;
                self.seen = None;
            }
            Action::Open => {
                let m = match self.selected() {
                    Some((_, Some(m))) => m,
                    Some((_, None)) => {
                        return Reply::Say("nothing was said in this time".to_owned());
                    }
                    None => return Reply::Done,
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
        if self.diagram.rows.is_empty() {
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
            let Some(row) = self.diagram.rows.get(n) else {
                continue;
            };
            if n == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
            let (digits, room) = (if w >= 100 { 6 } else { 1 }, time_width - since);
            let at = time.within(row.at, row.precision, digits, room);
            canvas.text_in(1, y, room, &at, t.dim);
            let before = n.checked_sub(1).and_then(|b| self.diagram.rows.get(b));
            if let Some(gap) = before.map(|b| row.at.since(b.at))
                && since > 0
                && gap > 0
                && !matches!(row.what, What::Delay { .. })
            {
                canvas.text_right(
                    time_width + 1,
                    y,
                    since,
                    &format!("+{}", duration(gap)),
                    t.faint,
                );
            }
            self.row(ctx, canvas, y, row, &xs);
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
        if let Some(at) = self.diagram.rows.get(row).map(|r| r.at) {
            shared.cursor = Some(at);
            self.cursor = shared.cursor;
            self.scroll.select(row);
        }
        true
    }
    fn copy(&self, snap: &Snapshot, shared: &Shared) -> Option<String> {
        // As Mermaid source.
        let key = shared.view(snap)?.key();
        let mut out = Vec::new();
        mermaid(&key, &self.diagram, snap.now, &mut out).ok()?;
        String::from_utf8(out).ok()
    }
}
