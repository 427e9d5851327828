//! The list of the cluster's nodes: for each its state, its pods, and its agent; below the list, lines about the
//! agents, the open node and the selected one.

use std::sync::Arc;

use ratatui::style::Style;

use crate::action::Action;
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::{count, wrap};
use crate::widget::scroll::Scroll;
use crate::widget::stage;
use crate::widget::table::{self, Column};
use kflow_engine::cluster::{ClusterView, Open};
use kflow_engine::live::{AGENT, Agents};
use kflow_engine::nodes::{self, NodeRow, Standing};
use kflow_engine::{Snapshot, snapshot::SourceStatus};
use kflow_model::units::{age, duration};
use kflow_model::{Body, Source};

/// Rows above the list: the headings.
const HEAD: u16 = 1;
/// Limit on the rows below the list: a rule, and lines about agents, the open node and the selected one.
const BELOW: u16 = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Col {
    Name,
    Status,
    Pods,
    Unwell,
    Calls,
    Agent,
    Kubelet,
    Runtime,
    Why,
}

const COLUMNS: [Column<'static, Col>; 9] = [
    Column::new(Col::Name, "NODE", 12, 40, 0),
    Column::new(Col::Status, "STATUS", 9, 19, 0),
    Column::new(Col::Pods, "PODS", 4, 6, 1).right(),
    Column::new(Col::Unwell, "NOT WELL", 4, 8, 0)
        .short("BAD")
        .right(),
    Column::new(Col::Calls, "CALLS", 5, 6, 3).right(),
    Column::new(Col::Agent, "AGENT", 7, 20, 1),
    Column::new(Col::Kubelet, "KUBELET", 8, 20, 2),
    Column::new(Col::Runtime, "RUNTIME", 12, 26, 4),
    Column::new(Col::Why, "WHY", 6, 400, 0),
];

/// The list, with filter and selection.
#[derive(Debug, Default)]
pub(super) struct List {
    all: Arc<Vec<NodeRow>>,
    /// Indices of the rows of `all` that pass the filter.
    shown: Vec<usize>,
    scroll: Scroll,
    pub(super) filter: String,
    dirty: bool,
}

/// Returns text and style of the agent column for a node.
fn agent(ctx: &Ctx<'_>, agents: Option<&Agents>, node: &str) -> (String, Style) {
    let t = ctx.theme;
    match agents.and_then(|a| a.of(node)) {
        None if agents.is_none_or(|a| !a.known) => ("?".to_owned(), t.faint),
        None => ("none".to_owned(), t.faint),
        Some(a) if !a.ready => ("not ready".to_owned(), t.wait),
        Some(a) if a.version.is_empty() => ("yes".to_owned(), t.ok),
        Some(a) if is_other(&a.version) => (format!("{}, other", a.version), t.warn),
        Some(a) => (a.version.clone(), t.ok),
    }
}

fn is_other(version: &str) -> bool {
    !version.is_empty() && version != env!("CARGO_PKG_VERSION")
}

fn standing(ctx: &Ctx<'_>, r: &NodeRow) -> (String, Style) {
    let t = ctx.theme;
    let style = match r.standing {
        Standing::Ready if r.cordoned => t.warn,
        Standing::Ready => t.ok,
        Standing::Unseen => t.faint,
        Standing::Silent | Standing::NotReady | Standing::Missing => t.fail,
    };
    let cordoned = if r.cordoned { ", cordoned" } else { "" };
    (format!("{}{cordoned}", r.standing.name()), style)
}

impl List {
    pub(super) fn look(&mut self, snap: &Snapshot) {
        self.all = match &snap.cluster {
            Some(c) => Arc::clone(&c.nodes),
            None => Arc::new(nodes::rows(snap)),
        };
        self.dirty = true;
    }
    pub(super) fn fit(&mut self, snap: &Snapshot, height: u16) {
        if std::mem::take(&mut self.dirty) {
            // The selected node stays selected when its row moves.
            let selected = self.selected().map(|r| r.name.clone());
            let agents = snap.cluster.as_ref().and_then(|c| c.agents.clone());
            let rows = self.all.iter().enumerate();
            self.shown = rows
                .filter(|(_, r)| self.takes(r, agents.as_deref()))
                .map(|(n, _)| n)
                .collect();
            let place = self.shown.iter().position(|n| {
                let row = self.all.get(*n);
                row.is_some_and(|r| selected.as_ref() == Some(&r.name))
            });
            self.scroll.at = place.filter(|_| self.scroll.at > 0).unwrap_or(0);
        }
        self.scroll
            .fit(self.shown.len(), usize::from(Self::rows(height)));
    }
    fn takes(&self, r: &NodeRow, agents: Option<&Agents>) -> bool {
        let version = agents
            .and_then(|a| a.of(&r.name))
            .map_or("", |a| a.version.as_str());
        let texts = [
            r.name.as_str(),
            r.standing.name(),
            r.kubelet.as_str(),
            r.runtime.as_str(),
            version,
            r.verdict.as_ref().map_or("", |v| v.cause_id()),
        ];
        self.filter
            .split_whitespace()
            .all(|w| texts.iter().any(|t| t.to_lowercase().contains(w)))
    }
    /// Returns the number of rows for the list itself.
    const fn rows(height: u16) -> u16 {
        let below = if height >= 12 { BELOW } else { 0 };
        let rows = height.saturating_sub(HEAD + below);
        if rows == 0 { 1 } else { rows }
    }
    pub(super) fn selected(&self) -> Option<&NodeRow> {
        self.all.get(*self.shown.get(self.scroll.at)?)
    }
    pub(super) const fn hidden(&self) -> &Scroll {
        &self.scroll
    }
    pub(super) fn matches(&self) -> usize {
        self.shown.len()
    }
    pub(super) fn set_filter(&mut self, text: &str) {
        self.filter = text.to_lowercase();
        self.dirty = true;
    }
    pub(super) fn handle(&mut self, action: Action) -> bool {
        self.scroll.handle(action)
    }
    pub(super) fn click(&mut self, y: u16) -> bool {
        let Some(row) = y.checked_sub(HEAD) else {
            return false;
        };
        let row = self.scroll.top + usize::from(row);
        let hit = self.scroll.visible().contains(&row);
        if hit {
            self.scroll.at = row;
        }
        hit
    }
    pub(super) fn title(&self, ctx: &Ctx<'_>) -> String {
        let bad = |r: &&NodeRow| r.verdict.is_some() || r.standing < Standing::Unseen;
        let not_well = self.all.iter().filter(bad).count();
        let mut s = count(self.all.len());
        if not_well > 0 {
            s.push_str(&format!(" {} {} not well", ctx.glyphs.dot, count(not_well)));
        }
        s
    }

    pub(super) fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (t, w) = (ctx.theme, canvas.width());
        if self.shown.is_empty() {
            if self.all.is_empty() {
                let (text, hint) = crate::banner::no_nodes(ctx.snap);
                return super::super::empty(ctx, canvas, &text, &hint);
            }
            let hint = "esc clears it.";
            return super::super::empty(ctx, canvas, "No node matches the filter.", hint);
        }
        let cluster = ctx.snap.cluster.as_deref();
        let agents = cluster.and_then(|c| c.agents.as_deref());
        let open = cluster.and_then(|c| c.open.as_ref());
        let widest = |f: fn(&NodeRow) -> usize| self.all.iter().map(f).max().unwrap_or(0) as u16;
        let columns = table::place_content(&COLUMNS, w.saturating_sub(3), |c| match c {
            Col::Name => widest(|r| crate::text::width(&r.name)),
            Col::Kubelet => widest(|r| crate::text::width(&r.kubelet)),
            Col::Runtime => widest(|r| crate::text::width(&r.runtime)),
            Col::Status => widest(|r| r.standing.name().len() + if r.cordoned { 10 } else { 0 }),
            _ => u16::MAX,
        });
        table::head(ctx, canvas, 2, 0, &columns, None);
        for (n, at) in self.scroll.visible().enumerate() {
            let y = HEAD + n as u16;
            let Some(r) = self.shown.get(at).and_then(|n| self.all.get(*n)) else {
                continue;
            };
            let is_open = open.is_some_and(|o| o.node == r.name);
            if is_open {
                canvas.symbol(1, y, ctx.glyphs.on, t.run);
            }
            for p in &columns {
                let (text, style) = match p.column.id {
                    Col::Name => (
                        r.name.to_string(),
                        if is_open { t.accent } else { t.strong },
                    ),
                    Col::Status => standing(ctx, r),
                    Col::Pods => (count(r.pods), t.text),
                    Col::Unwell if r.unwell == 0 => ("0".to_owned(), t.faint),
                    Col::Unwell => (count(r.unwell), t.fail),
                    // The number of calls is known only for the node whose agent kflow follows.
                    Col::Calls => open
                        .filter(|_| is_open)
                        .map_or((String::new(), t.text), |o| (count(o.calls), t.run)),
                    Col::Agent => agent(ctx, agents, &r.name),
                    Col::Kubelet => (r.kubelet.to_string(), t.text),
                    Col::Runtime => (r.runtime.to_string(), t.dim),
                    Col::Why => match &r.verdict {
                        Some(v) => {
                            let (_, style) = stage::verdict(ctx, v.state);
                            (format!("{} {}", v.cause_id(), v.title), *style)
                        }
                        None => (String::new(), t.text),
                    },
                };
                if p.column.right {
                    canvas.text_right(2 + p.x + p.w, y, p.w, &text, style);
                } else {
                    canvas.text_in(2 + p.x, y, p.w, &text, style);
                }
            }
            if at == self.scroll.at {
                super::super::calls::select(ctx, canvas, y);
            }
        }
        let rows = Self::rows(canvas.height());
        self.scroll
            .draw(ctx, &mut canvas.part(0, 0, w, HEAD + rows), HEAD);
        let y = HEAD + rows;
        if y < canvas.height() {
            canvas.line(0, y, w, ctx.glyphs.rule, t.rule);
            let below = canvas.height() - y - 1;
            self.said(ctx, &mut canvas.part(0, y + 1, w, below));
        }
    }

    /// Draws the text below the list: the open node, the agents, and the verdict of the selected node.
    fn said(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let t = ctx.theme;
        let mut lines: Vec<(String, Style)> = Vec::new();
        if let Some(c) = ctx.snap.cluster.as_deref() {
            lines.extend(c.open.as_ref().map(|o| opened(ctx, o)));
            lines.extend(agents_in_a_line(ctx, c, self.all.len()));
        }
        if let Some(v) = self.selected().and_then(|r| r.verdict.as_ref()) {
            lines.push((format!("{}: {}", v.cause_id(), v.sentence), t.text));
        }
        let room = canvas.width().saturating_sub(2);
        let mut y = 0;
        for (text, style) in lines {
            for line in wrap(&text, usize::from(room)) {
                if y < canvas.height() {
                    canvas.text_in(1, y, room, &line, style);
                }
                y += 1;
            }
        }
    }
}

/// Returns a line about the open node: how long it has been open, the state of its agent's stream, and what was lost.
pub(super) fn opened(ctx: &Ctx<'_>, open: &Open) -> (String, Style) {
    let (t, snap) = (ctx.theme, ctx.snap);
    let is_agent = |s: &&SourceStatus| s.source == Source::Cri && s.name == AGENT;
    let agent = snap.sources.iter().find(is_agent);
    let said = agent.map_or("no agent is looked for", |s| s.detail());
    let mut text = format!(
        "{} is open for {}: {said}",
        open.node,
        age(snap.now.since(open.since).max(0))
    );
    let gaps = snap.world.source(Source::Cri).gaps;
    let (mut ns, mut lost) = (0_i64, 0_u64);
    for g in &gaps {
        if let Body::Gap(gap) = &g.body {
            ns = ns.saturating_add(g.stamp.at.since(gap.since).max(0));
            lost = lost.saturating_add(gap.lost);
        }
    }
    if !gaps.is_empty() {
        text.push_str(&format!("; its calls were not seen for {}", duration(ns)));
        if lost > 0 {
            text.push_str(&format!(", {} lost", count(lost as usize)));
        }
    }
    let style = match agent {
        Some(s) if s.is_on() && gaps.is_empty() => t.ok,
        Some(s) if !s.is_on() => t.wait,
        _ => t.warn,
    };
    (text, style)
}

/// Returns a line about the nodes that have agents. Without any agent, the line says what one would add and how to
/// get one.
fn agents_in_a_line(ctx: &Ctx<'_>, c: &ClusterView, nodes: usize) -> Option<(String, Style)> {
    let t = ctx.theme;
    let Some(agents) = &c.agents else {
        return Some((
            "No agents are looked for (--no-agent): a node that is open shows no calls.".to_owned(),
            t.dim,
        ));
    };
    if let Some(why) = &agents.failing {
        return Some((why.clone(), t.wait));
    }
    if !agents.known {
        return None;
    }
    let namespace = &c.namespace;
    // The agent on this machine may belong to another cluster.
    let here = agents.here.iter().filter(|(node, _)| {
        !agents.by_node.contains_key(node) && c.nodes.iter().any(|r| r.name == *node)
    });
    let all: Vec<_> = (agents.by_node.values().chain(here.map(|(_, a)| a))).collect();
    let note = c.nodes.iter().find_map(|r| agents.note(&r.name));
    let note = note.map_or_else(String::new, |said| format!(" ({said})"));
    if all.is_empty() {
        return Some((
            format!(
                "No node has an agent of kflow (namespace {namespace}): with one, CRI calls, kubelet log, cgroups and volumes of the node are seen too; `kflow agent install`, `--debug-pod IMAGE` for one look, or run kflow on the node itself.{note}"
            ),
            t.dim,
        ));
    }
    let ready = all.iter().filter(|a| a.ready).count();
    let other = all.iter().filter(|a| is_other(&a.version)).count();
    let mut text = format!(
        "{} of {} nodes have an agent (namespace {namespace}), {} ready",
        count(all.len()),
        count(nodes),
        count(ready)
    );
    if other > 0 {
        let own = env!("CARGO_PKG_VERSION");
        text.push_str(&format!(
            "; {} of another version ({own} here): what one of them does not know is left out",
            count(other)
        ));
    }
    text.push_str(&note);
    Some((text, if other > 0 { t.warn } else { t.dim }))
}
