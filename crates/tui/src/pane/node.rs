//! The node: its verdicts, conditions, the work of the kubelet's loops, calls in flight, image pulls, the kubelet's
//! start, and the state of the sources. For a cluster, first a list of nodes, from which one can be opened.

mod health;
mod list;
mod loops;
mod runtime;
mod sources;
mod start;
mod unknown;

use super::{Item, Menu, Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::backend::Drive;
use crate::canvas::Canvas;
use crate::shared::{Ctx, Shared};
use crate::text::wrap;
use crate::widget::page::{self, Columns, Lead, Page};
use kflow_engine::Snapshot;
use kflow_model::{Nanos, Text};

#[derive(Debug, Default)]
pub struct Node {
    page: Page,
    list: list::List,
    /// Whether the user asked for the list of nodes (true) or for the page about the known nodes (false); `None`
    /// until a choice.
    wants_list: Option<bool>,
    /// Whether the list is shown.
    listing: bool,
    /// The open node, as of the last sync.
    open: Option<Text>,
    /// Whether the steps of the kubelet's start are shown.
    startup_open: bool,
    operations: runtime::Operations,
    conditions: health::Conditions,
    startup: start::Startup,
    trouble: health::Trouble,
    /// Version and time of the snapshot at which each of the two long searches last ran: of the calls, and of the pods.
    seen: [Option<(u64, Nanos)>; 2],
}

/// Least time between two searches of the calls or of the pods, ns.
const LOOK: i64 = 250_000_000;
/// Argument that confirms [`Action::NodeReconnect`]; without it, the menu asks for confirmation.
const YES: &str = "yes";

/// Returns the menu that asks for confirmation, because reconnecting can fail a call that kflow does not see.
fn reconnect_menu() -> Menu {
    let item = |label: &str, help: &str, arg: &str| Item {
        label: label.to_owned(),
        help: help.to_owned(),
        command: Command {
            action: Action::NodeReconnect,
            arg: arg.to_owned(),
        },
        checked: None,
    };
    Menu {
        title: "Make clients of the runtime connect anew?".to_owned(),
        items: vec![
            item("leave them", "names of calls come by and by", "no"),
            item(
                "connect anew",
                "a call from before kflow came can fail; the kubelet tries it again",
                YES,
            ),
        ],
        ..Menu::default()
    }
}

impl Node {
    fn columns(&self, ctx: &Ctx<'_>, w: u16) -> Columns {
        let wide = w >= 150;
        let left = if wide {
            120.min(w * 3 / 5 - 2)
        } else {
            w.saturating_sub(1)
        };
        let other = if wide {
            w.saturating_sub(left + 4)
        } else {
            left
        };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let open = ctx.snap.cluster.as_ref().and_then(|c| c.open.as_ref());
        if let Some(open) = open {
            let (text, style) = list::opened(ctx, open);
            let lines = wrap(&text, usize::from(left));
            a.extend(lines.iter().map(|l| page::line(&[(l, style)])));
            page::gap(&mut a);
        }
        unknown::draw(ctx, left, &mut a);
        page::gap(&mut a);
        health::verdicts(ctx, left, &mut a);
        page::gap(&mut a);
        let pods = |n: &str| self.operations.pods_on(n);
        health::nodes(ctx, left, pods, &self.conditions, &mut a);
        let (flight, room) = if wide {
            (&mut b, other)
        } else {
            (&mut a, left)
        };
        page::gap(flight);
        self.operations.in_flight(ctx, room, flight);
        page::gap(flight);
        self.operations.pulls(ctx, room, flight);
        page::gap(&mut a);
        loops::draw(ctx, left, &mut a);
        page::gap(&mut a);
        self.operations.methods(ctx, &mut a);
        page::gap(&mut b);
        sources::draw(ctx, &mut b);
        page::gap(&mut b);
        self.trouble.draw(ctx, if wide { 10 } else { 20 }, &mut b);
        page::gap(&mut b);
        self.startup.draw(ctx, other, self.startup_open, &mut b);
        page::gap(&mut b);
        start::pods(ctx, &mut b);
        page::gap(&mut b);
        health::endpoints(ctx, &mut b);
        if !wide {
            page::gap(&mut a);
            a.append(&mut b);
        }
        Columns {
            lines: [a, b],
            left: left + 1,
        }
    }
}

impl Pane for Node {
    fn id(&self) -> PaneId {
        PaneId::Node
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        if self.listing {
            return self.list.title(ctx);
        }
        let names: Vec<&str> = ctx
            .snap
            .world
            .nodes()
            .iter()
            .map(|n| n.name.as_str())
            .filter(|n| !n.is_empty())
            .collect();
        let shown: Vec<&str> = names.iter().copied().take(4).collect();
        match names.len() - shown.len() {
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }
    fn commands(&self) -> &'static [Action] {
        const ALL: &[Action] = &[
            Action::Open,
            Action::NodeList,
            Action::PaneCalls,
            Action::NodeLeave,
        ];
        match (self.open.is_some(), ALL.split_last()) {
            (false, Some((_leave, rest))) => rest,
            _ => ALL,
        }
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        let open = snap.cluster.as_ref().and_then(|c| c.open.as_ref());
        let open = open.map(|o| o.node.clone());
        if self.open != open {
            self.open = open;
            self.wants_list = None;
        }
        let closed = snap.cluster.is_some() && self.open.is_none();
        self.listing = self.wants_list.unwrap_or(closed);
        let moves = snap.mode.moves();
        for (what, seen) in self.seen.iter_mut().enumerate() {
            let recent = seen.is_some_and(|(version, at)| {
                version == snap.version || moves && (0..LOOK).contains(&snap.now.since(at))
            });
            if recent {
                continue;
            }
            let first = seen.replace((snap.version, snap.now)).is_none();
            if what == 0 {
                self.operations.look_at_calls(snap);
                self.startup.look(snap);
                self.trouble.look(snap);
            } else {
                self.operations.look_at_pods(snap);
                self.conditions.look(snap);
                self.list.look(snap);
            }
            // While snapshots change continuously, one frame runs only one of the two searches.
            if moves && !first {
                break;
            }
        }
        if self.listing {
            return self.list.fit(snap, size.1);
        }
        let columns = self.columns(&page::unstyled(snap, shared), size.0);
        self.page.fit(&columns, size.1);
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        let moved = if self.listing {
            self.list.handle(command.action)
        } else {
            self.page.handle(command.action)
        };
        if moved {
            return Reply::Done;
        }
        match command.action {
            Action::Open | Action::Right if self.listing => {
                let Some(row) = self.list.selected() else {
                    return Reply::Done;
                };
                // A recording has all nodes at once, and an open node is connected already.
                if snap.cluster.is_none() || self.open.as_ref() == Some(&row.name) {
                    self.wants_list = Some(false);
                    return Reply::Done;
                }
                return Reply::Drive(Drive::Open(row.name.to_string()));
            }
            Action::NodeList => self.wants_list = Some(!self.listing),
            Action::NodeLeave if self.open.is_none() => {
                return Reply::Say("no node is open: enter opens one of the list".to_owned());
            }
            Action::NodeLeave => return Reply::Drive(Drive::Leave),
            Action::Back if self.listing && !self.list.filter.is_empty() => return Reply::Ignored,
            Action::Back if self.open.is_some() => return Reply::Drive(Drive::Leave),
            Action::Back if snap.cluster.is_some() && !self.listing => self.wants_list = None,
            Action::Open => match self.page.lead() {
                Some(Lead::Fold) => self.startup_open = !self.startup_open,
                lead => return super::follow(lead.cloned(), snap, shared),
            },
            Action::NodeReconnect if command.arg == YES => return Reply::Drive(Drive::Reconnect),
            Action::NodeReconnect if command.arg.is_empty() => {
                return Reply::Menu(reconnect_menu());
            }
            Action::NodeReconnect => {}
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(if self.listing {
            self.list.hidden().hidden()
        } else {
            self.page.hidden()
        })
    }
    fn filter(&self) -> Option<&str> {
        self.listing.then_some(self.list.filter.as_str())
    }
    fn matches(&self) -> Option<usize> {
        self.listing.then(|| self.list.matches())
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.list.set_filter(text);
        Ok(())
    }
    fn copy(&self, _snap: &Snapshot, _shared: &Shared) -> Option<String> {
        let row = self.list.selected().filter(|_| self.listing);
        row.map(|r| r.name.to_string())
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        if self.listing {
            return self.list.draw(ctx, canvas);
        }
        let columns = self.columns(ctx, canvas.width());
        self.page.draw(ctx, canvas, &columns);
    }
    fn click(&mut self, x: u16, y: u16, _snap: &Snapshot, _shared: &mut Shared) -> bool {
        if self.listing {
            return self.list.click(y);
        }
        self.page.click(x, y)
    }
}
