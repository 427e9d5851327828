//! Pods: what kubectl shows, the strip of stages, the time in the stage and the verdict.
//!
//! Sorting, grouping and filtering happen in `sync` when something changed; drawing formats only visible rows.

mod order;
mod row;

use rustc_hash::FxHashMap;

pub use order::{GroupBy, Sort};

use super::{Item, Menu, Pane, PaneId, Reply};
use crate::correlate::world::Pod;
use crate::engine::Snapshot;
use crate::model::stamp::SECOND;
use crate::query::{Field, PodRecord};
use crate::tui::action::{Action, Command};
use crate::tui::canvas::Canvas;
use crate::tui::filter::Filter;
use crate::tui::shared::{Ctx, Shared};
use crate::tui::text::count;
use crate::tui::widget::scroll::Scroll;
use crate::tui::widget::table;

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
    /// The pod that was selected because it stood first.
    first: Option<crate::model::PodUid>,
    /// The filter is new; and the pod that fits it best.
    typed: bool,
    best: Option<u32>,
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
            first: None,
            typed: false,
            best: None,
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
        let mut past = 0;
        for i in order {
            let Some(p) = pods.get(i as usize) else {
                continue;
            };
            // A pod of the past is found by its name.
            if p.past && self.filter.is_all() {
                past += 1;
                continue;
            }
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
        self.total = pods.len() - past;
        self.trouble = keep.iter().filter(|k| k.rank < order::FINE).count();
        let sorted = order::sort(snap, &keep, self.sort, self.reverse, self.group);
        // What was just typed means the pod that fits it best; in doubt the one that stands first.
        if std::mem::take(&mut self.typed) {
            let score = |i: &u32| keep.iter().find(|k| k.pod == *i).map_or(0, |k| k.score);
            let best = keep.iter().map(|k| k.score).max().filter(|s| *s > 0);
            self.best = best.and_then(|b| sorted.iter().copied().find(|i| score(i) == b));
        }
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
        // Until the user does something, the first row is the one to look at, whatever comes to stand there.
        if !shared.touched && (shared.pod.is_none() || shared.pod == self.first) {
            self.scroll.at = 0;
            self.select_row(snap, shared, true);
            self.first.clone_from(&shared.pod);
            return;
        }
        if let Some(row) = self.best.take().and_then(|i| self.place.get(&i).copied()) {
            self.scroll.at = row;
            self.select_row(snap, shared, true);
            return;
        }
        let place = shared.pod.as_ref().and_then(|u| {
            // The world's pods stand by creation and UID.
            let p = snap.world.pod(u)?;
            let order = |x: &Pod| (x.created, &x.uid).cmp(&(p.created, &p.uid));
            let i = snap.world.pods().binary_search_by(order).ok()?;
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
        let columns = row::columns(canvas.width());
        let sorted = row::sorted_by(self.sort).map(|id| (id, !self.reverse));
        table::head(ctx, canvas, 2, 0, &columns, sorted);
        let h = list_height((canvas.width(), canvas.height())) as u16;
        for (n, row) in self.scroll.visible().enumerate() {
            let y = HEAD + n as u16;
            match self.rows.get(row) {
                Some(Row::Pod(i)) => {
                    if let Some(p) = ctx.snap.world.pods().get(*i as usize) {
                        row::pod(ctx, canvas, &columns, y, p);
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
            row::below(ctx, canvas, HEAD + h);
        }
    }
    fn filter(&self) -> Option<&str> {
        Some(self.filter.text())
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.filter = Filter::parse(text)?;
        self.dirty = true;
        self.typed = true;
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
    let below = match size.1 {
        0..8 => 0,
        8..14 => 2,
        _ => 3,
    };
    usize::from(size.1.saturating_sub(HEAD + below)).max(1)
}
