//! The pods: the columns of kubectl, the strip of stages, the time in the current stage, and the verdict.
//!
//! `sync` sorts, groups and filters only what changed; drawing formats only visible rows.

pub(super) mod lanes;
mod list;
mod order;
mod row;
mod wanted;

use list::{List, Row};
pub use order::{GroupBy, Sort};
pub use row::Chosen;
use wanted::{NotShown, Wanted};

use super::{Menu, Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::banner;
use crate::canvas::Canvas;
use crate::filter::Filter;
use crate::shared::{Ctx, Shared};
use crate::text::count;
use crate::widget::scroll::Scroll;
use crate::widget::table;
use kflow_core::correlate::world::Pod;
use kflow_core::diagnose::Verdict;
use kflow_core::flow::Stage;
use kflow_core::query::Field;
use kflow_engine::Snapshot;
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;

#[derive(Debug)]
pub struct Pods {
    wanted: Wanted,
    /// Whether all owners are shown, and not only as many as leave room for pods.
    all_owners: bool,
    /// Whether `wanted` has changed since the list was built.
    dirty: bool,
    list: List,
    scroll: Scroll,
    /// The previous order, while the pods are shown as lanes on one time axis.
    lanes: Option<(Sort, bool)>,
    /// The pod that was selected because it was in the first row.
    first: Option<kflow_model::PodUid>,
    /// Whether the filter has changed since the last sync.
    typed: bool,
    /// The pod that was selected at the end of the last `sync`.
    shown: Option<kflow_model::PodUid>,
    /// When the user last moved the selection, by the snapshot's time.
    moved: Option<Nanos>,
    /// Width of the pane as of the last `sync`, in columns.
    width: u16,
}

impl Default for Pods {
    fn default() -> Self {
        Self {
            wanted: Wanted {
                sort: Sort::Trouble,
                reverse: false,
                group: GroupBy::None,
                gone: true,
                finished: true,
                owners: usize::MAX,
                filter: Filter::default(),
            },
            all_owners: false,
            dirty: true,
            list: List::default(),
            scroll: Scroll::default(),
            lanes: None,
            first: None,
            typed: false,
            shown: None,
            moved: None,
            width: 0,
        }
    }
}

/// How long the pods keep their rows after the selection was moved, ns: the next key should meet the row that the user
/// aims at.
const HOLD: i64 = 3 * SECOND;

/// Rows above the list: the headings.
const HEAD: u16 = 1;

/// The part of the list that owners may take above the pods, as its divisor, and the least number of them.
const OWNERS: usize = 5;
const LEAST_OWNERS: usize = 2;

impl Pods {
    fn pod_at<'a>(&self, snap: &'a Snapshot, row: usize) -> Option<&'a Pod> {
        match self.list.rows.get(row)? {
            Row::Pod(i) => snap.world.pods().get(*i as usize),
            Row::Group(..) | Row::Owner(_) | Row::MoreOwners(_) => None,
        }
    }
    fn owner_at(&self, row: usize) -> Option<&Verdict> {
        match self.list.rows.get(row)? {
            Row::Owner(i) => self.list.owner(*i).map(|v| &**v),
            Row::Group(..) | Row::Pod(_) | Row::MoreOwners(_) => None,
        }
    }
    /// Moves the selection to the row of the selected pod, or selects the pod of the current row.
    fn follow(&mut self, snap: &Snapshot, shared: &mut Shared) {
        // Until the user acts, the first row stays selected, whichever pod it shows; or that of the first pod that is
        // not well, if an owner without pods is above it, because most panes show a pod.
        let first = !shared.touched && (shared.pod.is_none() || shared.pod == self.first);
        if first || shared.is_proposed() {
            shared.proposed = None;
            let unwell = |p: &Pod| (snap.verdicts.get(&p.uid)).is_some_and(|v| !v.state.is_well());
            let rows = 0..self.list.rows.len();
            let pod = rows
                .clone()
                .find(|r| self.pod_at(snap, *r).is_some_and(unwell));
            let owner = rows.clone().next().and_then(|r| self.owner_at(r));
            self.scroll.at = pod.filter(|_| owner.is_some()).unwrap_or(0);
            self.select_row(snap, shared, true);
            self.first.clone_from(&shared.pod);
            return;
        }
        // A new filter selects the pod that matches best; of equal matches, the first.
        if std::mem::take(&mut self.typed)
            && let Some(row) = self.list.best()
        {
            self.scroll.at = row;
            self.select_row(snap, shared, true);
            return;
        }
        let place = match (&shared.pod, &shared.owner) {
            (Some(uid), _) => self.list.row_of(snap, uid),
            (None, Some(owner)) => self.list.row_of_owner(owner),
            (None, None) => None,
        };
        match place {
            Some(row) => {
                self.scroll.at = row;
                shared.sought = false;
            }
            None if shared.sought => {}
            None => self.select_row(snap, shared, true),
        }
    }
    /// Selects the pod or owner of the current row; on a group's row, that of the next row (`down`)
    /// or the previous one.
    fn select_row(&mut self, snap: &Snapshot, shared: &mut Shared, down: bool) {
        let rows = self.list.rows.len();
        let at = self.scroll.at.min(rows.saturating_sub(1));
        let selectable = |r: &usize| {
            let row = self.list.rows.get(*r);
            matches!(row, Some(Row::Pod(_) | Row::Owner(_)))
        };
        let found = if down {
            (at..rows).chain((0..at).rev()).find(selectable)
        } else {
            (0..=at).rev().chain(at..rows).find(selectable)
        };
        let Some(row) = found else {
            return;
        };
        self.scroll.at = row;
        shared.sought = false;
        if let Some(p) = self.pod_at(snap, row) {
            if shared.pod.as_ref() != Some(&p.uid) {
                shared.pod = Some(p.uid.clone());
            }
            shared.owner = None;
        } else if let Some(v) = self.owner_at(row) {
            shared.owner.clone_from(&v.owner);
            shared.pod = None;
        }
    }
    fn set_sort(&mut self, sort: Sort) {
        if self.wanted.sort == sort {
            self.wanted.reverse = !self.wanted.reverse;
        } else {
            self.wanted.sort = sort;
            self.wanted.reverse = false;
        }
        self.dirty = true;
    }
    /// Shows pods as lanes or as a table. Lanes are first sorted by creation, oldest first, so that a burst looks
    /// like a staircase.
    fn toggle_lanes(&mut self) {
        match self.lanes.take() {
            Some((sort, reverse)) => {
                self.wanted.sort = sort;
                self.wanted.reverse = reverse;
            }
            None => {
                self.lanes = Some((self.wanted.sort, self.wanted.reverse));
                self.wanted.sort = Sort::Age;
                self.wanted.reverse = true;
            }
        }
        self.dirty = true;
    }
    fn sort_menu(&self) -> Menu {
        let named = |s: &Sort| Sort::parse(s.name()) == Some(*s);
        let stages = Stage::ALL.into_iter().map(Sort::Took).filter(named);
        let stages = stages.filter(|_| self.lanes.is_some());
        let names = Sort::ALL.into_iter().chain(stages).map(Sort::name);
        let now = self.wanted.sort.name();
        Menu::of_orders(Action::SortNext, names, now, "turns it round")
    }
}

impl Pane for Pods {
    fn id(&self) -> PaneId {
        PaneId::Pods
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let shown = self.list.shown();
        let mut s = if shown == self.list.total {
            count(shown)
        } else {
            format!("{} of {}", count(shown), count(self.list.total))
        };
        if self.list.trouble > 0 {
            s.push_str(&format!(
                " {} {} not well",
                ctx.glyphs.dot,
                count(self.list.trouble)
            ));
        }
        let NotShown {
            past,
            gone,
            finished,
        } = self.list.not_shown;
        // Those of the past are not among the pods of the title.
        let dot = ctx.glyphs.dot;
        for (n, what) in [(gone + finished, "hidden"), (past, "past hidden")] {
            if n > 0 {
                s.push_str(&format!(" {dot} {} {what}", count(n)));
            }
        }
        if self.lanes.is_some() {
            let by = match (self.wanted.sort, self.wanted.reverse) {
                (Sort::Age, true) => "begin",
                (Sort::Age, false) => "begin, last first",
                (sort, _) => sort.name(),
            };
            s.push_str(&format!(" {dot} lanes by {by}"));
        }
        // No heading has the sign of this order.
        if self.lanes.is_none() && self.wanted.sort == Sort::Trouble && self.wanted.reverse {
            s.push_str(&format!(" {dot} trouble last"));
        }
        if self.wanted.group != GroupBy::None {
            s.push_str(&format!(
                " {} by {}",
                ctx.glyphs.dot,
                self.wanted.group.name()
            ));
        }
        s
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::Open,
            Action::PaneWhy,
            Action::SortNext,
            Action::PodLanes,
            Action::Group,
            Action::ToggleGone,
            Action::SortStuck,
            Action::ToggleDone,
            Action::SortReverse,
            Action::ToggleOwners,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        self.width = size.0;
        let height = list_height(size, self.lanes.is_some());
        // An owner that another pane has selected is looked for here.
        self.all_owners |= (shared.owner.as_ref()).is_some_and(|o| self.list.leaves_out(o));
        let owners = if self.all_owners || !self.wanted.filter.is_all() {
            usize::MAX
        } else {
            (height / OWNERS).max(LEAST_OWNERS)
        };
        if self.wanted.owners != owners {
            self.wanted.owners = owners;
            self.dirty = true;
        }
        let afresh = std::mem::take(&mut self.dirty);
        // A jump to another moment is news that was asked for.
        let holds = |at: Nanos| snap.mode.moves() && (0..HOLD).contains(&snap.now.since(at));
        self.list
            .sync(snap, &self.wanted, afresh, self.moved.is_some_and(holds));
        let row = self.scroll.at;
        self.follow(snap, shared);
        // News above the selected pod move the list, and not the pod, as far as the list reaches.
        if !afresh && shared.touched && shared.pod == self.shown {
            self.scroll.top = (self.scroll.top + self.scroll.at).saturating_sub(row);
        }
        self.shown.clone_from(&shared.pod);
        self.scroll.fit(self.list.rows.len(), height);
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        let action = command.action;
        if self.scroll.handle(action) {
            self.moved = Some(snap.now);
            self.select_row(snap, shared, !matches!(action, Action::Up | Action::PageUp));
            shared.abreast = None;
            return Reply::Done;
        }
        match action {
            // An owner without pods has no timeline; its verdict is all that is known.
            Action::Open | Action::Right if shared.pod.is_none() && shared.owner.is_some() => {
                return Reply::Go(PaneId::Why);
            }
            Action::Open | Action::Right if shared.pod.is_some() => {
                shared.abreast = None;
                return Reply::Go(PaneId::Timeline);
            }
            Action::Right => return Reply::Go(PaneId::Timeline),
            Action::NextPod | Action::PreviousPod => {
                let down = action == Action::NextPod;
                self.moved = Some(snap.now);
                self.scroll
                    .handle(if down { Action::Down } else { Action::Up });
                self.select_row(snap, shared, down);
            }
            Action::SortNext => match Sort::parse(&command.arg) {
                Some(s) => self.set_sort(s),
                None if command.arg.is_empty() => return Reply::Menu(self.sort_menu()),
                None => return Reply::Say(format!("there is no column \"{}\"", command.arg)),
            },
            Action::SortReverse => {
                self.wanted.reverse = !self.wanted.reverse;
                self.dirty = true;
            }
            Action::SortName => self.set_sort(Sort::Name),
            Action::SortAge => self.set_sort(Sort::Age),
            Action::SortStatus => self.set_sort(Sort::Status),
            Action::SortRestarts => self.set_sort(Sort::Restarts),
            Action::SortStuck if self.wanted.sort == Sort::Trouble && !self.wanted.reverse => {
                return Reply::Say("what is in trouble is first already".to_owned());
            }
            Action::SortStuck => self.set_sort(Sort::Trouble),
            Action::PodLanes => self.toggle_lanes(),
            Action::Group => {
                self.wanted.group = match command.arg.as_str() {
                    "" => self.wanted.group.next(),
                    name => match GroupBy::parse(name) {
                        Some(g) => g,
                        None => {
                            return Reply::Say(
                                "group by: none, namespace, node, owner, cause".to_owned(),
                            );
                        }
                    },
                };
                self.dirty = true;
            }
            Action::ToggleGone => {
                self.wanted.gone = !self.wanted.gone;
                self.dirty = true;
                return Reply::Say(format!(
                    "pods that are gone are {}",
                    if self.wanted.gone { "shown" } else { "hidden" }
                ));
            }
            Action::ToggleDone => {
                self.wanted.finished = !self.wanted.finished;
                self.dirty = true;
                return Reply::Say(format!(
                    "completed pods are {}",
                    if self.wanted.finished {
                        "shown"
                    } else {
                        "hidden"
                    }
                ));
            }
            Action::ToggleOwners => {
                self.all_owners = !self.all_owners;
                return Reply::Say(if self.all_owners {
                    "all owners with a trouble of their own are shown".to_owned()
                } else {
                    "as many owners are shown as leave room for pods".to_owned()
                });
            }
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(self.scroll.hidden())
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        if self.list.rows.is_empty() {
            let past = format!(
                "{} of the past are hidden: only Events from before tell of them.",
                count(self.list.not_shown.past)
            );
            let none = banner::no_pods(ctx.snap);
            let selection = ctx.snap.world.selection();
            let of_scope = format!("No pod of {} is known.", selection.scope().name());
            let others = !selection.is_all() && !ctx.snap.world.every_pod().is_empty();
            let (text, hint) = if self.list.total == 0 && others {
                (
                    of_scope.as_str(),
                    "Start without -n, -l, --field-selector and --node to see the others.",
                )
            } else if self.list.not_shown.past > 0 && self.list.total == 0 {
                (past.as_str(), "/ finds them by name.")
            } else if self.list.total == 0 {
                (none.0.as_str(), none.1.as_str())
            } else if self.wanted.filter.is_all() {
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
        let h = list_height((canvas.width(), canvas.height()), self.lanes.is_some()) as u16;
        let chosen = &ctx.shared.columns;
        let columns = row::columns(canvas.width(), self.list.widths, chosen);
        let widths = self.list.widths;
        let names = widths
            .name
            .saturating_add(widths.namespace)
            .saturating_add(1);
        let lanes = self.lanes.map(|_| {
            let window = lanes::window(ctx, lanes::pods(ctx, &self.list, self.scroll.visible()));
            (lanes::Columns::of(canvas.width(), names), window)
        });
        let sort = self.wanted.sort;
        if let Some((c, window)) = &lanes {
            let rows = self.scroll.visible().len() as u16;
            lanes::head(ctx, canvas, c, *window, sort, rows);
        } else {
            let sorted = row::sorted_by(sort).map(|id| (id, !self.wanted.reverse));
            table::head(ctx, canvas, 2, 0, &columns, sorted);
        }
        for (n, row) in self.scroll.visible().enumerate() {
            let y = HEAD + n as u16;
            match self.list.rows.get(row) {
                Some(Row::Pod(i)) => match (ctx.snap.world.pods().get(*i as usize), &lanes) {
                    (Some(p), Some((c, window))) => {
                        lanes::pod(ctx, canvas, c, y, p, *window, sort);
                    }
                    (Some(p), None) => row::pod(ctx, canvas, &columns, y, p),
                    (None, _) => {}
                },
                Some(Row::Owner(i)) => match (self.list.owner(*i), &lanes) {
                    (Some(v), Some((c, _))) => lanes::owner(ctx, canvas, c, y, v),
                    (Some(v), None) => row::owner(ctx, canvas, &columns, y, v),
                    (None, _) => {}
                },
                Some(Row::MoreOwners(n)) => {
                    let key = ctx.keys.first(Action::ToggleOwners);
                    let text = format!("{} more owners with a trouble of their own", count(*n));
                    let used = canvas.text(2, y, &text, ctx.theme.dim);
                    if !key.is_empty() {
                        let text = format!("  {key} shows them");
                        canvas.text(2 + used, y, &text, ctx.theme.dim);
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
                        canvas.text(
                            used,
                            y,
                            &format!("  {} not well", count(*bad)),
                            ctx.theme.fail,
                        );
                    }
                }
                None => {}
            }
            if row == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
        }
        self.scroll.draw(ctx, canvas, HEAD);
        if canvas.height() > HEAD + h {
            let owner = self.owner_at(self.scroll.at);
            if lanes.is_some() {
                lanes::below(ctx, canvas, HEAD + h, owner);
            } else {
                row::below(ctx, canvas, HEAD + h, owner);
            }
        }
    }
    fn filter(&self) -> Option<&str> {
        Some(self.wanted.filter.text())
    }
    fn matches(&self) -> Option<usize> {
        Some(self.list.shown() + self.list.owners)
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.wanted.filter = Filter::parse(text)?;
        self.dirty = true;
        self.typed = true;
        Ok(())
    }
    fn click(&mut self, x: u16, y: u16, snap: &Snapshot, shared: &mut Shared) -> bool {
        let Some(row) = y.checked_sub(HEAD) else {
            // A click on a heading sorts by its column; a second click reverses the order.
            let columns = row::columns(self.width, self.list.widths, &shared.columns);
            // Lanes have other headings.
            let mut columns = columns.into_iter().filter(|_| self.lanes.is_none());
            if let Some(c) = columns.find(|c| (c.x + 2..c.x + 3 + c.w).contains(&x)) {
                match row::sorting(c.column.id) {
                    Some(sort) if sort == self.wanted.sort => {
                        self.wanted.reverse = !self.wanted.reverse;
                        self.dirty = true;
                    }
                    Some(sort) => self.set_sort(sort),
                    None => {}
                }
            }
            return true;
        };
        let row = self.scroll.top + usize::from(row);
        if !matches!(self.list.rows.get(row), Some(Row::Pod(_) | Row::Owner(_))) {
            return false;
        }
        self.scroll.at = row;
        self.moved = Some(snap.now);
        self.select_row(snap, shared, true);
        shared.abreast = None;
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
                .map(|v| v.cause_id().to_owned())
                .collect(),
            _ => Vec::new(),
        }
    }
    fn copy(&self, snap: &Snapshot, shared: &Shared) -> Option<String> {
        shared.view(snap).map(|p| p.key())
    }
}

/// Returns the rows of the list: without the headings and the lines about the selected pod, which need some height.
fn list_height(size: (u16, u16), lanes: bool) -> usize {
    let below = match size.1 {
        0..8 => 0,
        _ if lanes => lanes::BELOW,
        8..14 => 2,
        _ => 3,
    };
    usize::from(size.1.saturating_sub(HEAD + below)).max(1)
}
