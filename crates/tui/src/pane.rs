//! Panes: each is a file of its own, with its state, its keys and its drawing.
//!
//! A pane derives what it lists in [`Pane::sync`], once after something changed; [`Pane::draw`] only reads. Adding a
//! pane is a file in `pane/`, a line in [`PaneId`] and one in [`all`].

use std::fmt;

use super::action::{Action, Command};
use super::backend::Drive;
use super::canvas::Canvas;
use super::glyph::Glyphs;
use super::shared::{Ctx, Shared};
use super::widget::page::Lead;
use kflow_core::diagnose::awaited::Awaited;
use kflow_core::query::Field;
use kflow_engine::Snapshot;
use kflow_model::{Body, Nanos, ObjectRef};

pub mod calls;
pub mod flow;
pub mod incidents;
pub mod log;
pub mod node;
pub mod pods;
pub mod requests;
pub mod sequence;
pub mod timeline;
pub mod why;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaneId {
    #[default]
    Pods,
    Timeline,
    Calls,
    Log,
    Why,
    Node,
    /// Sequence diagram.
    Sequence,
    Flow,
    /// Requests to the apiserver.
    Requests,
    /// All intervals in which a pod, a node or an owner was not well.
    Incidents,
}

impl PaneId {
    /// All panes, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Pods,
        Self::Timeline,
        Self::Calls,
        Self::Log,
        Self::Why,
        Self::Node,
        Self::Sequence,
        Self::Flow,
        Self::Requests,
        Self::Incidents,
    ];
    /// Returns the name on the pane's tab.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pods => "Pods",
            Self::Timeline => "Timeline",
            Self::Calls => "Calls",
            Self::Log => "Log",
            Self::Why => "Why",
            Self::Node => "Node",
            Self::Sequence => "Sequence",
            Self::Flow => "Flow",
            Self::Requests => "Requests",
            Self::Incidents => "Incidents",
        }
    }
    /// Returns the command that shows the pane.
    pub const fn action(self) -> Action {
        match self {
            Self::Pods => Action::PanePods,
            Self::Timeline => Action::PaneTimeline,
            Self::Calls => Action::PaneCalls,
            Self::Log => Action::PaneLog,
            Self::Why => Action::PaneWhy,
            Self::Node => Action::PaneNode,
            Self::Sequence => Action::PaneSequence,
            Self::Flow => Action::PaneFlow,
            Self::Requests => Action::PaneRequests,
            Self::Incidents => Action::PaneIncidents,
        }
    }
    /// Returns the pane that a command shows; `None` for other commands.
    pub fn of(action: Action) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.action() == action)
    }
}

/// How a pane answers a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The command is not for this pane.
    Ignored,
    /// The command is done.
    Done,
    /// The command is done, and the footer shows this.
    Say(String),
    /// Show another pane.
    Go(PaneId),
    /// Show another pane as of another moment.
    Visit(PaneId, Nanos),
    /// Show another pane with a filter; an empty filter shows everything.
    Filtered(PaneId, String),
    /// Show what the selected pod waits for, until the user goes back.
    Follow(Awaited),
    /// Open a menu.
    Menu(Menu),
    /// Send a request to the engine.
    Drive(Drive),
    /// Copy a text to the clipboard.
    Copy(String),
    /// Write a text into a file.
    Write(Written),
}

/// A text for a file in the folder that kflow was started in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What the text is about, for the name of the file.
    pub about: String,
    /// Ending of the file's name.
    pub ending: &'static str,
    pub text: String,
}

/// A list to choose from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Menu {
    pub title: String,
    pub items: Vec<Item>,
    /// Index of the selected item.
    pub at: usize,
    /// Whether the menu stays open after a choice (for toggles).
    pub keep: bool,
}

/// An item of a menu.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub label: String,
    /// Explanation of the item, drawn dim.
    pub help: String,
    pub command: Command,
    /// Whether the item's box is checked; `None` for an item without a box.
    pub checked: Option<bool>,
}

impl Menu {
    /// Returns the menu of a list's orders, the one that it has checked. `again` says what choosing that one does.
    pub fn of_orders<'s>(
        action: Action,
        names: impl IntoIterator<Item = &'s str>,
        now: &str,
        again: &str,
    ) -> Self {
        let item = |name: &str| Item {
            label: name.to_owned(),
            help: if name == now { again } else { "" }.to_owned(),
            command: Command {
                action,
                arg: name.to_owned(),
            },
            checked: Some(name == now),
        };
        let items: Vec<Item> = names.into_iter().map(item).collect();
        Self {
            title: "Sort by".to_owned(),
            items,
            ..Self::default()
        }
    }
}

pub trait Pane: fmt::Debug {
    fn id(&self) -> PaneId;
    /// Returns the text on the pane's rule beside its name: counts, the filter and the order.
    fn title(&self, ctx: &Ctx<'_>) -> String;
    /// Returns the commands for the footer, most useful first.
    fn commands(&self) -> &'static [Action];
    /// Returns false for a command of the pane that does nothing in the view that it shows now.
    fn takes(&self, _action: Action) -> bool {
        true
    }
    /// Returns the signs of the view that the pane shows now with their meanings, if they are not those of the pane.
    fn signs(&self, _g: &Glyphs) -> Option<Vec<(String, &'static str)>> {
        None
    }
    /// Brings the pane's rows up to date with the snapshot, for a pane of this size (columns, rows). Cheap when
    /// nothing changed.
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16));
    /// Carries out a command.
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply;
    /// Draws the pane into its canvas.
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>);
    /// Returns the text of the filter; `None` for a pane that cannot be filtered.
    fn filter(&self) -> Option<&str> {
        None
    }
    /// Returns what can be typed, for a pane whose filter is only words; `None` for one that takes expressions.
    fn filter_hint(&self) -> Option<&'static str> {
        None
    }
    /// Sets the filter, or returns what is wrong with the text.
    fn set_filter(&mut self, _text: &str) -> Result<(), String> {
        Ok(())
    }
    /// Returns how many rows the filter leaves; `None` while the number is not known.
    fn matches(&self) -> Option<usize> {
        None
    }
    /// Returns how many rows of the pane's list are above and below the visible ones, for its rule; `None` for a pane
    /// without a list.
    fn hidden(&self) -> Option<(usize, usize)> {
        None
    }
    /// Handles a click at a column and row inside the pane; returns true if the click did something.
    fn click(&mut self, _x: u16, _y: u16, _snap: &Snapshot, _shared: &mut Shared) -> bool {
        false
    }
    /// Handles a drag between two places (column, row) inside the pane.
    fn drag(&mut self, _from: (u16, u16), _to: (u16, u16), _snap: &Snapshot, _shared: &mut Shared) {
    }
    /// Returns the values of a field that occur in the snapshot, for completion.
    fn known(&self, _field: Field, _snap: &Snapshot) -> Vec<String> {
        Vec::new()
    }
    /// Returns the text that a copy puts on the clipboard.
    fn copy(&self, _snap: &Snapshot, _shared: &Shared) -> Option<String> {
        None
    }
}

/// Returns one pane of each kind, in the order of [`PaneId::ALL`].
pub fn all() -> Vec<Box<dyn Pane>> {
    vec![
        Box::new(pods::Pods::default()),
        Box::new(timeline::TimelinePane::default()),
        Box::new(calls::Calls::default()),
        Box::new(log::Log::default()),
        Box::new(why::Why::default()),
        Box::new(node::Node::default()),
        Box::new(sequence::Sequence::default()),
        Box::new(flow::FlowPane::default()),
        Box::new(requests::Requests::default()),
        Box::new(incidents::Incidents::default()),
    ]
}

/// Goes to the target of a page's row.
fn follow(lead: Option<Lead>, snap: &Snapshot, shared: &mut Shared) -> Reply {
    match lead.unwrap_or_default() {
        Lead::None | Lead::Above | Lead::Fold => {
            Reply::Say("nothing here leads further".to_owned())
        }
        Lead::Say(why) => Reply::Say(why.to_owned()),
        Lead::Copy(text) => Reply::Copy(text),
        Lead::Awaited(a) => Reply::Follow(a),
        Lead::Verdict(owner) => {
            shared.pod = None;
            shared.owner = Some(owner);
            shared.sought = true;
            Reply::Go(PaneId::Why)
        }
        Lead::Call(key) => {
            shared.call = Some(key);
            Reply::Go(PaneId::Calls)
        }
        Lead::Pod(query, pane) => match snap.world.find(&query).first() {
            Some(p) => {
                shared.seek_pod(p.uid.clone());
                Reply::Go(pane)
            }
            None => Reply::Say(format!("{query} is not among the pods")),
        },
        Lead::Evidence(e) => {
            shared.cursor = Some(e.stamp.at);
            match &e.body {
                Body::CallStart(c) => shared.call = Some(c.key),
                Body::CallEnd(c) => shared.call = Some(c.key),
                _ => {
                    shared.evidence = Some(e);
                    return Reply::Go(PaneId::Log);
                }
            }
            Reply::Go(PaneId::Calls)
        }
        Lead::Moment(at) => {
            shared.cursor = Some(at);
            shared.everything = Some(PaneId::Log);
            Reply::Filtered(PaneId::Log, String::new())
        }
        Lead::List(pane, filter) => {
            shared.everything = Some(pane);
            Reply::Filtered(pane, filter)
        }
    }
}

/// Draws the hint of a pane about one pod while no pod is selected.
fn no_pod(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let Some(o) = &ctx.shared.owner else {
        if ctx.snap.world.pods().is_empty() {
            let (text, hint) = super::banner::no_pods(ctx.snap);
            return empty(ctx, canvas, &text, &hint);
        }
        let hint = "Choose one in the list of pods (1).";
        return empty(ctx, canvas, "No pod is selected.", hint);
    };
    let (text, hint) = if o.kind == "Node" {
        (
            format!("{} is selected.", named(o)),
            "Why it stands still: 5. What it does: 6. Its log: 4. The list of pods: 1.",
        )
    } else {
        (
            format!("{} is selected, and it has no pod.", named(o)),
            "Why it cannot make any: 5. Its log: 4. The list of pods: 1.",
        )
    };
    empty(ctx, canvas, &text, hint);
}

/// Formats an object as `Deployment shop/web` or `Node node1`.
pub fn named(o: &ObjectRef) -> String {
    if o.namespace.is_empty() {
        format!("{} {}", o.kind, o.name)
    } else {
        format!("{} {}/{}", o.kind, o.namespace, o.name)
    }
}

/// Draws a sentence and a hint, centred in an empty pane.
pub fn empty(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, text: &str, hint: &str) {
    let y = canvas.height() / 3;
    let w = usize::from(canvas.width()).saturating_sub(4).max(8);
    let mut row = y;
    for (t, style) in [(text, ctx.theme.dim), (hint, ctx.theme.faint)] {
        for line in super::text::wrap(t, w) {
            let x = (canvas
                .width()
                .saturating_sub(super::text::width(&line) as u16))
                / 2;
            canvas.text(x, row, &line, style);
            row += 1;
        }
    }
}
