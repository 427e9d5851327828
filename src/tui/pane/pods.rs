//! Pods: what kubectl shows, the strip of stages, the time in the stage and the verdict.
//!
//! Sorting, grouping and filtering happen in `sync` when something changed; drawing formats only visible rows.

mod order;

use rustc_hash::FxHashMap;

pub use order::{GroupBy, Sort};

use super::{Item, Menu, Pane, PaneId, Reply};
use crate::correlate::PodView;
use crate::correlate::world::Pod;
use crate::engine::Snapshot;
use crate::model::stamp::SECOND;
use crate::query::{Field, PodRecord};
use crate::tui::action::{Action, Command};
use crate::tui::canvas::Canvas;
use crate::tui::filter::Filter;
use crate::tui::shared::{Ctx, Shared};
use crate::tui::text::{age, count, cut_middle};
use crate::tui::widget::scroll::Scroll;
use crate::tui::widget::stage;
use crate::tui::widget::table::{self, Column, Placed};

/// Columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Col {
    Namespace,
    Name,
    Ready,
    Status,
    Stages,
    Since,
    Restarts,
    Age,
    Node,
    Verdict,
}

const fn col(
    id: Col,
    title: &'static str,
    min: u16,
    max: u16,
    rank: u8,
    right: bool,
) -> Column<Col> {
    Column {
        id,
        title,
        min,
        max,
        rank,
        right,
    }
}

const COLUMNS: [Column<Col>; 10] = [
    col(Col::Namespace, "NAMESPACE", 11, 20, 3, false),
    col(Col::Name, "NAME", 20, 44, 0, false),
    col(Col::Ready, "READY", 5, 5, 1, true),
    col(Col::Status, "STATUS", 14, 22, 0, false),
    col(Col::Stages, "STAGES", 11, 11, 0, false),
    col(Col::Since, "IN", 6, 6, 1, true),
    col(Col::Restarts, "RST", 4, 4, 1, true),
    col(Col::Age, "AGE", 5, 5, 1, true),
    col(Col::Node, "NODE", 8, 22, 4, false),
    col(Col::Verdict, "WHY", 24, 200, 2, false),
];

/// A row of the list.
#[derive(Clone, Debug, PartialEq)]
enum Row {
    /// A group: its name, pods in it, and how many of them are in trouble.
    Group(String, usize, usize),
    /// A pod, by its place in the world.
    Pod(u32),
}

/// The pods pane.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of the user"
)]
#[derive(Debug)]
pub struct Pods {
    sort: Sort,
    reverse: bool,
    group: GroupBy,
    gone: bool,
    finished: bool,
    filter: Filter,
    rows: Vec<Row>,
    scroll: Scroll,
    /// What the rows were derived from: version of the snapshot; and whether settings changed since.
    seen: Option<u64>,
    /// When the list was last put in order, by the snapshot's time, and how many pods there were.
    ordered: Option<(crate::model::Nanos, usize)>,
    dirty: bool,
    total: usize,
    trouble: usize,
    place: FxHashMap<u32, usize>,
}

impl Default for Pods {
    fn default() -> Self {
        Self {
            sort: Sort::Trouble,
            reverse: false,
            group: GroupBy::None,
            gone: true,
            finished: true,
            filter: Filter::default(),
            rows: Vec::new(),
            scroll: Scroll::default(),
            seen: None,
            ordered: None,
            dirty: true,
            total: 0,
            trouble: 0,
            place: FxHashMap::default(),
        }
    }
}

/// Lists longer than this are put in order at most once per [`REORDER`].
const LONG: usize = 1000;
/// ns.
const REORDER: i64 = SECOND / 2;

/// Rows above the list: headings.
const HEAD: u16 = 1;

impl Pods {
    fn rebuild(&mut self, snap: &Snapshot) {
        let pods = snap.world.pods();
        // In the order of last time: what is nearly in order is put in order quickly.
        let mut order: Vec<u32> = Vec::with_capacity(pods.len());
        let mut known = vec![false; pods.len()];
        for r in &self.rows {
            if let Row::Pod(i) = r
                && let Some(k) = known.get_mut(*i as usize)
            {
                *k = true;
                order.push(*i);
            }
        }
        order.extend((0..).zip(&known).filter(|(_, k)| !**k).map(|(i, _)| i));
        let mut keep: Vec<order::Kept> = Vec::with_capacity(pods.len());
        for i in order {
            let Some(p) = pods.get(i as usize) else {
                continue;
            };
            if (p.gone.is_some() && !self.gone) || (order::is_finished(p) && !self.finished) {
                continue;
            }
            let score = if self.filter.is_all() {
                Some(0)
            } else {
                let v = snap.verdicts.get(&p.uid);
                let verdict = v.map_or(("", ""), |v| (v.cause.as_str(), v.sentence.as_str()));
                let r = PodRecord {
                    pod: p,
                    verdict,
                    now: snap.now,
                };
                let labels = p.api.as_ref().map(|a| a.labels.as_slice());
                self.filter.score(&p.key(), labels, &r)
            };
            if let Some(score) = score {
                keep.push(order::Kept {
                    pod: i,
                    score,
                    rank: order::rank(snap, p),
                });
            }
        }
        self.total = pods.len();
        self.trouble = keep.iter().filter(|k| k.rank < order::FINE).count();
        let sorted = order::sort(snap, &keep, self.sort, self.reverse, self.group);
        self.rows.clear();
        let mut last: Option<String> = None;
        let mut header = 0;
        for i in sorted {
            if self.group != GroupBy::None
                && let Some(p) = pods.get(i as usize)
            {
                let g = self.group.of(p);
                if last.as_ref() != Some(&g) {
                    header = self.rows.len();
                    self.rows.push(Row::Group(g.clone(), 0, 0));
                    last = Some(g);
                }
                let bad = usize::from(order::rank(snap, p) < order::FINE);
                if let Some(Row::Group(_, n, t)) = self.rows.get_mut(header) {
                    *n += 1;
                    *t += bad;
                }
            }
            self.rows.push(Row::Pod(i));
        }
        self.place = self
            .rows
            .iter()
            .enumerate()
            .filter_map(|(n, r)| match r {
                Row::Pod(i) => Some((*i, n)),
                Row::Group(..) => None,
            })
            .collect();
    }
    fn pod_at<'a>(&self, snap: &'a Snapshot, row: usize) -> Option<&'a Pod> {
        match self.rows.get(row)? {
            Row::Pod(i) => snap.world.pods().get(*i as usize),
            Row::Group(..) => None,
        }
    }
    /// Puts the selection on the selected pod, or the selected pod under the selection.
    fn follow(&mut self, snap: &Snapshot, shared: &mut Shared) {
        let place = shared.pod.as_ref().and_then(|u| {
            let i = snap.world.pods().iter().position(|p| &p.uid == u)?;
            self.place.get(&(i as u32)).copied()
        });
        match place {
            Some(row) => self.scroll.at = row,
            None => self.select_row(snap, shared, true),
        }
    }
    /// Selects the pod of the current row; on a group's row the next (or last) pod.
    fn select_row(&mut self, snap: &Snapshot, shared: &mut Shared, down: bool) {
        let at = self.scroll.at.min(self.rows.len().saturating_sub(1));
        let found = if down {
            (at..self.rows.len())
                .chain((0..at).rev())
                .find(|r| self.pod_at(snap, *r).is_some())
        } else {
            (0..=at)
                .rev()
                .chain(at..self.rows.len())
                .find(|r| self.pod_at(snap, *r).is_some())
        };
        if let Some(r) = found
            && let Some(p) = self.pod_at(snap, r)
        {
            self.scroll.at = r;
            if shared.pod.as_ref() != Some(&p.uid) {
                shared.pod = Some(p.uid.clone());
            }
        }
    }
    fn set_sort(&mut self, sort: Sort) {
        if self.sort == sort {
            self.reverse = !self.reverse;
        } else {
            self.sort = sort;
            self.reverse = false;
        }
        self.dirty = true;
    }
    fn sort_menu() -> Menu {
        Menu {
            title: "Sort by".to_owned(),
            items: Sort::ALL
                .iter()
                .map(|s| Item {
                    label: s.name().to_owned(),
                    help: String::new(),
                    command: Command {
                        action: Action::SortNext,
                        arg: s.name().to_owned(),
                    },
                    checked: None,
                })
                .collect(),
            ..Menu::default()
        }
    }
    fn columns(width: u16) -> Vec<Placed<Col>> {
        // One column for the mark at the left, one for the scroll bar at the right.
        table::place(&COLUMNS, width.saturating_sub(3))
    }
    fn draw_row(
        ctx: &Ctx<'_>,
        canvas: &mut Canvas<'_>,
        columns: &[Placed<Col>],
        y: u16,
        p: &PodView,
    ) {
        let (snap, t, g) = (ctx.snap, ctx.theme, ctx.glyphs);
        let gone = p.gone.is_some();
        let verdict = snap.verdicts.get(&p.uid);
        let base = if gone { t.gone } else { t.text };
        let dim = if gone { t.gone } else { t.dim };
        let quiet = snap.now.since(p.changed);
        if !gone && (0..10 * SECOND).contains(&snap.now.since(p.created)) {
            canvas.symbol(1, y, g.fresh, t.fresh);
        } else if (0..3 * SECOND).contains(&quiet) {
            canvas.symbol(1, y, g.dot, t.fresh);
        }
        let shows_namespace = columns.iter().any(|c| c.column.id == Col::Namespace);
        for c in columns {
            let (x, w, end) = (c.x + 2, c.w, c.x + 2 + c.w);
            match c.column.id {
                Col::Namespace => {
                    canvas.text_in(x, y, w, &p.namespace, dim);
                }
                Col::Name => {
                    let cleaned = crate::tui::text::clean(if p.name.is_empty() {
                        p.uid.as_str()
                    } else {
                        &p.name
                    });
                    let style = if p.node.is_empty() && p.phase == "Pending" {
                        t.dim
                    } else {
                        base
                    };
                    if shows_namespace || p.namespace.is_empty() || w < 32 {
                        canvas.text_in(x, y, w, &cut_middle(&cleaned, usize::from(w)), style);
                    } else {
                        let used = canvas.text_in(x, y, w / 2, &format!("{}/", p.namespace), dim);
                        let room = w - used;
                        canvas.text_in(
                            x + used,
                            y,
                            room,
                            &cut_middle(&cleaned, usize::from(room)),
                            style,
                        );
                    }
                }
                Col::Ready if p.ready.1 > 0 => {
                    let style = if gone {
                        t.gone
                    } else if p.ready.0 == p.ready.1 || order::is_finished(p) {
                        t.dim
                    } else {
                        t.wait
                    };
                    canvas.text_right(end, y, w, &format!("{}/{}", p.ready.0, p.ready.1), style);
                }
                Col::Ready => {}
                Col::Status => {
                    let style = match order::tone(snap, p) {
                        order::Tone::Gone => t.gone,
                        order::Tone::Bad => t.fail,
                        order::Tone::Waiting => t.wait,
                        order::Tone::Moving => t.run,
                        order::Tone::Well => t.ok,
                        order::Tone::Over => t.dim,
                    };
                    let text = if gone { "Gone" } else { p.status.as_str() };
                    canvas.text_in(x, y, w, text, style);
                }
                Col::Stages => stage::strip(ctx, canvas, x, y, p),
                Col::Since => {
                    if let Some((_, since)) = p.current.filter(|_| !gone) {
                        let slow = verdict.is_some_and(|v| order::is_trouble(v.state));
                        let style = if slow { t.fail } else { t.run };
                        canvas.text_right(end, y, w, &age(snap.now.since(since)), style);
                    }
                }
                Col::Restarts => {
                    if p.restarts > 0 {
                        let style = if gone { t.gone } else { t.warn };
                        canvas.text_right(end, y, w, &p.restarts.to_string(), style);
                    } else {
                        canvas.text_right(end, y, w, g.absent, t.faint);
                    }
                }
                Col::Age => {
                    canvas.text_right(end, y, w, &age(snap.now.since(p.created)), dim);
                }
                Col::Node => {
                    if p.node.is_empty() {
                        canvas.text_in(x, y, w, g.absent, t.faint);
                    } else {
                        canvas.text_in(x, y, w, &p.node, dim);
                    }
                }
                Col::Verdict => {
                    if let Some(v) = verdict {
                        let used = canvas.text_in(
                            x,
                            y,
                            w,
                            &v.cause,
                            stage::verdict(ctx, v.state).1.to_owned(),
                        );
                        canvas.text_in(x + used + 1, y, w.saturating_sub(used + 1), &v.title, dim);
                    } else if let Some((s, _)) = p.current.filter(|_| !gone) {
                        canvas.text_in(x, y, w, s.name(), t.faint);
                    }
                }
            }
        }
    }
}

impl Pane for Pods {
    fn id(&self) -> PaneId {
        PaneId::Pods
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let shown = self.place.len();
        let mut s = if shown == self.total {
            count(shown)
        } else {
            format!("{} of {}", count(shown), count(self.total))
        };
        if self.trouble > 0 {
            s.push_str(&format!(
                " {} {} not well",
                ctx.glyphs.dot,
                count(self.trouble)
            ));
        }
        if self.group != GroupBy::None {
            s.push_str(&format!(" {} by {}", ctx.glyphs.dot, self.group.name()));
        }
        s
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::Open,
            Action::PaneWhy,
            Action::SortNext,
            Action::Group,
            Action::ToggleGone,
            Action::SortStuck,
            Action::ToggleDone,
            Action::SortReverse,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        // A long list is put in order a few times a second: rows that jump with every observation cannot be read, and
        // rows show the newest state of their pods whatever their order.
        let early = self.ordered.is_some_and(|(at, pods)| {
            pods > LONG
                && snap.world.pods().len() >= pods
                && (0..REORDER).contains(&snap.now.since(at))
        });
        if self.dirty || (self.seen != Some(snap.version) && !early) {
            self.rebuild(snap);
            self.seen = Some(snap.version);
            self.ordered = Some((snap.now, snap.world.pods().len()));
            self.dirty = false;
        }
        self.follow(snap, shared);
        self.scroll.fit(self.rows.len(), list_height(size));
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        let action = command.action;
        if self.scroll.handle(action) {
            self.select_row(snap, shared, !matches!(action, Action::Up | Action::PageUp));
            return Reply::Done;
        }
        match action {
            Action::Open if shared.pod.is_some() => return Reply::Go(PaneId::Timeline),
            Action::Right => return Reply::Go(PaneId::Timeline),
            Action::NextPod | Action::PreviousPod => {
                let down = action == Action::NextPod;
                self.scroll
                    .handle(if down { Action::Down } else { Action::Up });
                self.select_row(snap, shared, down);
            }
            Action::SortNext => match Sort::parse(&command.arg) {
                Some(s) => self.set_sort(s),
                None if command.arg.is_empty() => return Reply::Menu(Self::sort_menu()),
                None => return Reply::Say(format!("there is no column \"{}\"", command.arg)),
            },
            Action::SortReverse => {
                self.reverse = !self.reverse;
                self.dirty = true;
            }
            Action::SortName => self.set_sort(Sort::Name),
            Action::SortAge => self.set_sort(Sort::Age),
            Action::SortStatus => self.set_sort(Sort::Status),
            Action::SortRestarts => self.set_sort(Sort::Restarts),
            Action::SortStuck => self.set_sort(Sort::Trouble),
            Action::Group => {
                self.group = match command.arg.as_str() {
                    "" => self.group.next(),
                    name => match GroupBy::parse(name) {
                        Some(g) => g,
                        None => {
                            return Reply::Say("group by: none, namespace, node, owner".to_owned());
                        }
                    },
                };
                self.dirty = true;
            }
            Action::ToggleGone => {
                self.gone = !self.gone;
                self.dirty = true;
                return Reply::Say(format!(
                    "pods that are gone are {}",
                    if self.gone { "shown" } else { "hidden" }
                ));
            }
            Action::ToggleDone => {
                self.finished = !self.finished;
                self.dirty = true;
                return Reply::Say(format!(
                    "completed pods are {}",
                    if self.finished { "shown" } else { "hidden" }
                ));
            }
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        if self.rows.is_empty() {
            let (text, hint) = if self.total == 0 {
                (
                    "No pod has been seen yet.",
                    "They appear with the first watch event, call or log line about them.",
                )
            } else if self.filter.is_all() {
                (
                    "Every pod is hidden.",
                    "d shows those that are gone, D those that are completed.",
                )
            } else {
                ("No pod matches the filter.", "esc clears it.")
            };
            super::empty(ctx, canvas, text, hint);
            return;
        }
        let columns = Self::columns(canvas.width());
        let sorted = self.sort.column().and_then(|id| {
            let id = match id {
                "NAME" => Col::Name,
                "STATUS" => Col::Status,
                "AGE" => Col::Age,
                "RST" => Col::Restarts,
                "NODE" => Col::Node,
                "NAMESPACE" => Col::Namespace,
                "IN" => Col::Since,
                "READY" => Col::Ready,
                "WHY" => Col::Verdict,
                _ => return None,
            };
            Some((id, !self.reverse))
        });
        table::head(ctx, canvas, 2, 0, &columns, sorted);
        let h = list_height((canvas.width(), canvas.height())) as u16;
        for (n, row) in self.scroll.visible().enumerate() {
            let y = HEAD + n as u16;
            match self.rows.get(row) {
                Some(Row::Pod(i)) => {
                    if let Some(p) = ctx.snap.world.pods().get(*i as usize) {
                        Self::draw_row(ctx, canvas, &columns, y, p);
                    }
                }
                Some(Row::Group(name, n, bad)) => {
                    let used = canvas.spans(
                        1,
                        y,
                        &[
                            (ctx.glyphs.open, ctx.theme.accent),
                            (" ", ctx.theme.text),
                            (name, ctx.theme.strong),
                            (&format!("  {n}"), ctx.theme.dim),
                        ],
                    );
                    if *bad > 0 {
                        canvas.text(used, y, &format!("  {bad} not well"), ctx.theme.fail);
                    }
                }
                None => {}
            }
            if row == self.scroll.at {
                let style = if ctx.focused {
                    ctx.theme.selection
                } else {
                    ctx.theme.selection_off
                };
                let w = canvas.width();
                // Only the background: colours of the row keep their meaning.
                let mut s = ratatui::style::Style::new().add_modifier(style.add_modifier);
                s.bg = style.bg;
                canvas.style(0, y, w, 1, s);
                canvas.symbol(0, y, ctx.glyphs.here, ctx.theme.accent.patch(s));
            }
        }
        self.scroll.draw(ctx, canvas, HEAD);
        if canvas.height() > HEAD + h {
            self.draw_why(ctx, canvas, HEAD + h);
        }
    }
    fn filter(&self) -> Option<&str> {
        Some(self.filter.text())
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.filter = Filter::parse(text)?;
        self.dirty = true;
        Ok(())
    }
    fn click(&mut self, _x: u16, y: u16, snap: &Snapshot, shared: &mut Shared) -> bool {
        let Some(row) = y.checked_sub(HEAD) else {
            return false;
        };
        let row = self.scroll.top + usize::from(row);
        if self.pod_at(snap, row).is_none() {
            return false;
        }
        self.scroll.at = row;
        self.select_row(snap, shared, true);
        true
    }
    fn known(&self, field: Field, snap: &Snapshot) -> Vec<String> {
        let pods = snap.world.pods().iter().take(5000);
        match field {
            Field::Namespace => pods.map(|p| p.namespace.to_string()).collect(),
            Field::Status => pods.map(|p| p.status.to_string()).collect(),
            Field::Node => pods.map(|p| p.node.to_string()).collect(),
            Field::Pod => pods.map(|p| p.name.to_string()).collect(),
            Field::Owner => pods
                .flat_map(|p| p.owners.iter().map(|o| o.name.to_string()))
                .collect(),
            Field::Reason => snap
                .verdicts
                .values()
                .map(|v| v.cause.to_string())
                .collect(),
            _ => Vec::new(),
        }
    }
    fn copy(&self, snap: &Snapshot, shared: &Shared) -> Option<String> {
        shared.view(snap).map(|p| p.key())
    }
}

/// Rows of the list: without the headings and, where there is room, the line about the selected pod.
fn list_height(size: (u16, u16)) -> usize {
    let below = if size.1 >= 8 { 2 } else { 0 };
    usize::from(size.1.saturating_sub(HEAD + below)).max(1)
}

impl Pods {
    /// Under the list: what is said of the selected pod.
    fn draw_why(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16) {
        let (w, t) = (canvas.width(), ctx.theme);
        canvas.line(0, y, w, ctx.glyphs.rule, t.faint);
        let Some(p) = ctx.shared.view(ctx.snap) else {
            return;
        };
        let y = y + 1;
        if let Some(v) = ctx.snap.verdicts.get(&p.uid) {
            let (word, style) = stage::verdict(ctx, v.state);
            let x = canvas.spans(
                1,
                y,
                &[
                    (&v.cause, *style),
                    (" ", t.text),
                    (word, *style),
                    ("  ", t.text),
                ],
            );
            canvas.text(x, y, &v.sentence, t.text);
        } else {
            let text = match p.current {
                Some((s, since)) if p.gone.is_none() => {
                    format!("in {} for {}", s.name(), age(ctx.snap.now.since(since)))
                }
                _ if p.gone.is_some() => "gone".to_owned(),
                _ => format!("{}, nothing to say", p.status),
            };
            let x = canvas.spans(1, y, &[(&p.key(), t.dim), ("  ", t.text)]);
            canvas.text(x, y, &text, t.faint);
        }
    }
}
