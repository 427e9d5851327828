//! The pods of an owner side by side: a row per pod with its node, on one time axis that is corrected for the clocks
//! of the nodes.

use crate::canvas::Canvas;
use crate::glyph::Glyphs;
use crate::pane::named;
use crate::pane::pods::lanes;
use crate::shared::{Ctx, Shared};
use crate::text::{count, cut_middle, width, wrap};
use crate::widget::ruler::{self, Window};
use crate::widget::scroll::Scroll;
use kflow_engine::Snapshot;
use kflow_export::abreast::{self, Lane};
use kflow_model::units::{age, duration};
use kflow_model::{ObjectRef, PodUid};

/// Width of the column with the duration of the start.
const START: u16 = 7;

#[derive(Debug)]
pub(super) struct Abreast {
    owner: ObjectRef,
    /// Version of the snapshot, and width of the pane, for which the rows were made.
    seen: (u64, u16),
    lanes: Vec<Lane>,
    /// Sentences about the nodes' clocks and about nodes that kflow does not follow.
    said: Vec<String>,
    window: Window,
    pub(super) scroll: Scroll,
}

/// Widths and positions of the columns.
struct Columns {
    name: u16,
    node: u16,
    start: u16,
    chart: (u16, u16),
}

impl Columns {
    fn of(w: u16, lanes: &[Lane]) -> Self {
        let widest = |f: fn(&Lane) -> usize| lanes.iter().map(f).max().unwrap_or(0) as u16;
        let name = widest(|l| width(&l.pod.name)).clamp(8, (w / 4).max(8));
        let node = widest(|l| width(&l.pod.node)).clamp(4, (w / 6).max(4));
        let start = 2 + name + 1 + node + 1;
        let chart = start + START + 1;
        Self {
            name,
            node,
            start,
            // One column is left for the scroll bar.
            chart: (chart, w.saturating_sub(chart + 1).max(1)),
        }
    }
}

impl Abreast {
    /// Returns the pods of an owner: as the agents of their nodes report them if kflow follows these for this owner,
    /// else as the shown world has them. `before` is the previous value; it is returned if nothing has changed.
    pub(super) fn of(owner: &ObjectRef, snap: &Snapshot, w: u16, before: Option<Self>) -> Self {
        let seen = (snap.version, w);
        let scroll = match before {
            Some(same) if same.seen == seen && same.owner == *owner => return same,
            other => other.map(|rows| rows.scroll).unwrap_or_default(),
        };
        let told = snap.cluster.as_ref().and_then(|c| c.abreast.as_deref());
        let told = told.filter(|a| a.owner == *owner);
        let mut lanes = match told {
            Some(told) => told.lanes.clone(),
            None => abreast::of(&snap.world, owner, snap.now),
        };
        lanes.sort_by_cached_key(|l| (l.shown(l.began()), l.pod.key()));
        let from = lanes.iter().map(|l| l.shown(l.began())).min();
        let to = lanes.iter().map(|l| l.shown(l.until())).max();
        let (from, to) = from.zip(to).unwrap_or((snap.now, snap.now));
        let pad = (to.since(from) / 50).max(1_000_000);
        let window = Window::new(from.plus(-pad), to.plus(pad));
        let column = window.length() / i64::from(Columns::of(w, &lanes).chart.1);
        let mut said = abreast::clocks(&lanes, column);
        let unheard = told.into_iter().flat_map(|t| &t.unheard);
        said.extend(unheard.map(|(node, why)| format!("{node} is not listened to: {why}")));
        Self {
            owner: owner.clone(),
            seen,
            lanes,
            said,
            window,
            scroll,
        }
    }
    /// Selects the pod of the selected row.
    pub(super) fn select(&self, shared: &mut Shared) {
        if let Some(lane) = self.lanes.get(self.scroll.at) {
            shared.pod = Some(lane.pod.uid.clone());
            shared.owner = None;
        }
    }
    /// Returns the lines below the list; with their rule they take at most a third of the pane.
    fn below(&self, w: u16, h: u16) -> Vec<String> {
        let most = usize::from(h / 3);
        let room = usize::from(w.saturating_sub(2)).max(8);
        let mut lines: Vec<String> = self.said.iter().flat_map(|s| wrap(s, room)).collect();
        if lines.len() > most {
            let left = lines.split_off(most.saturating_sub(1)).len();
            lines.push(format!("{left} more lines: kflow timeline has them all"));
        }
        lines
    }
    pub(super) fn fit(&mut self, selected: Option<&PodUid>, (w, h): (u16, u16)) {
        let place = |uid: &PodUid| self.lanes.iter().position(|l| l.pod.uid == *uid);
        self.scroll.at = selected.and_then(place).unwrap_or(self.scroll.at);
        let below = self.below(w, h).len() as u16;
        let rows = h.saturating_sub(HEAD + below + u16::from(below > 0));
        self.scroll.fit(self.lanes.len(), usize::from(rows));
    }
    pub(super) fn headline(&self, ctx: &Ctx<'_>) -> String {
        let mut nodes: Vec<&str> = self.lanes.iter().map(|l| l.pod.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|n| !n.is_empty());
        let several = |n: usize, what: &str| match n {
            1 => format!("1 {what}"),
            n => format!("{} {what}s", count(n)),
        };
        let dot = ctx.glyphs.dot;
        format!(
            "{} on {} {dot} {} {dot} {} wide",
            several(self.lanes.len(), "pod"),
            several(nodes.len(), "node"),
            named(&self.owner),
            duration(self.window.length())
        )
    }
    pub(super) fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (t, w, h) = (ctx.theme, canvas.width(), canvas.height());
        if self.lanes.is_empty() {
            let text = format!("{} has no pod that is known.", named(&self.owner));
            return super::super::empty(ctx, canvas, &text, "esc leaves.");
        }
        let c = Columns::of(w, &self.lanes);
        let rows = self.scroll.visible().len() as u16;
        canvas.text_in(2, 0, c.name, "NAME", t.head);
        canvas.text_in(3 + c.name, 0, c.node, "NODE", t.head);
        canvas.text_right(c.start + START, 0, START, "START", t.head);
        let (x, columns) = c.chart;
        let zero = self.lanes.iter().map(|l| l.shown(l.began())).min();
        let mut chart = canvas.part(x, 0, columns, rows + 1);
        ruler::draw(
            ctx,
            &mut chart,
            self.window,
            zero.unwrap_or(self.window.from),
            rows,
        );
        for (n, at) in self.scroll.visible().enumerate() {
            let y = HEAD + n as u16;
            let Some(lane) = self.lanes.get(at) else {
                continue;
            };
            let p = &lane.pod;
            let style = if p.gone.is_some() { t.gone } else { t.text };
            let name = cut_middle(&p.name, usize::from(c.name));
            canvas.text_in(2, y, c.name, &name, style);
            let node = cut_middle(&p.node, usize::from(c.node));
            canvas.text_in(3 + c.name, y, c.node, &node, t.accent);
            let (text, style) = match (lanes::start(p), p.current) {
                (Some(text), _) => (text, t.strong),
                (None, Some((_, since))) if p.gone.is_none() => {
                    (age(lane.now.since(since).max(0)), t.run)
                }
                _ => (String::new(), t.dim),
            };
            canvas.text_right(c.start + START, y, START, &text, style);
            // The pod's times are by its node's clock, so its lane uses the window shifted to that clock.
            let ahead = lane.ahead();
            let window = Window {
                from: self.window.from.plus(ahead),
                to: self.window.to.plus(ahead),
            };
            let lane_canvas = &mut canvas.part(x, y, columns, 1);
            lanes::segments(ctx, lane_canvas, p, window, lane.now);
            if at == self.scroll.at {
                super::super::calls::select(ctx, canvas, y);
            }
        }
        self.scroll
            .draw(ctx, &mut canvas.part(0, 0, w, HEAD + rows), HEAD);
        let below = self.below(w, h);
        let y = h.saturating_sub(below.len() as u16);
        if !below.is_empty() && y > HEAD + rows {
            canvas.line(0, y - 1, w, ctx.glyphs.rule, t.rule);
        }
        for (n, line) in below.iter().enumerate() {
            canvas.text_in(1, y + n as u16, w.saturating_sub(2), line, t.dim);
        }
    }
}

/// Rows above the list: the headings, which share a row with the axis.
pub(super) const HEAD: u16 = 1;

pub(super) fn signs(g: &Glyphs) -> Vec<(String, &'static str)> {
    vec![
        (g.full.to_owned(), "a stage, in its colour"),
        (g.rule.to_owned(), "the pod lives, and is in no stage"),
        (g.growing.to_owned(), "a stage goes on"),
    ]
}
