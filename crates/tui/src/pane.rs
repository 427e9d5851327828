//! Panes: each is a file of its own, with its state, its keys and its drawing.
//!
//! A pane derives what it lists in [`Pane::sync`], once after something changed; [`Pane::draw`] only reads. Adding a
//! pane is a file in `pane/`, a line in [`PaneId`] and one in [`all`].

use std::fmt;

use super::action::{Action, Command};
use super::backend::Drive;
use super::canvas::Canvas;
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
    /// What was ever not well.
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
    /// Name on its tab.
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
    /// The command that shows it.
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
    /// The pane that a command shows.
    pub fn of(action: Action) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.action() == action)
    }
}

/// What a pane made of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It is not for this pane.
    Ignored,
    /// The pane took the command.
    Done,
    /// Done, and this should be said.
    Say(String),
    /// Show another pane.
    Go(PaneId),
    /// Show another pane as of another moment.
    Visit(PaneId, Nanos),
    /// Show another pane with only what a filter leaves; an empty one leaves all.
    Filtered(PaneId, String),
    /// Show whom the selected pod waits for, until the user goes back.
    Follow(Awaited),
    /// Let the user choose.
    Menu(Menu),
    /// Ask the engine.
    Drive(Drive),
    /// Put this on the clipboard.
    Copy(String),
}

/// A list to choose from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Menu {
    pub title: String,
    pub items: Vec<Item>,
    /// Selected item.
    pub at: usize,
    /// Stays open after a choice (for toggles).
    pub keep: bool,
}

/// An item of a menu.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What it says.
    pub label: String,
    /// What it does, dim.
    pub help: String,
    pub command: Command,
    /// Box that is checked or not, or no box.
    pub checked: Option<bool>,
}

pub trait Pane: fmt::Debug {
    /// Identity of the pane.
    fn id(&self) -> PaneId;
    /// What stands on its rule beside the name: counts, what is filtered and how it is sorted.
    fn title(&self, ctx: &Ctx<'_>) -> String;
    /// Commands for the footer, most useful first.
    fn commands(&self) -> &'static [Action];
    /// Brings what it lists up to date with the snapshot, for a pane of this size. Cheap when nothing changed.
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16));
    /// Takes a command.
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply;
    /// Draws the pane into its canvas.
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>);
    /// The filter's text, `None` for a pane that cannot be filtered.
    fn filter(&self) -> Option<&str> {
        None
    }
    /// Sets the filter; why not, on failure.
    fn set_filter(&mut self, _text: &str) -> Result<(), String> {
        Ok(())
    }
    /// How many rows the filter leaves; `None` while that is not known.
    fn matches(&self) -> Option<usize> {
        None
    }
    /// Rows of its list above and below those on the screen; `None` for a pane without a list. They stand on its rule.
    fn hidden(&self) -> Option<(usize, usize)> {
        None
    }
    /// A click at a place inside the pane; true when it did something.
    fn click(&mut self, _x: u16, _y: u16, _snap: &Snapshot, _shared: &mut Shared) -> bool {
        false
    }
    /// A drag from one place to another inside the pane.
    fn drag(&mut self, _from: (u16, u16), _to: (u16, u16), _snap: &Snapshot, _shared: &mut Shared) {
    }
    /// Values of a field that exist, for completion.
    fn known(&self, _field: Field, _snap: &Snapshot) -> Vec<String> {
        Vec::new()
    }
    /// What a copy takes.
    fn copy(&self, _snap: &Snapshot, _shared: &Shared) -> Option<String> {
        None
    }
}

/// One pane of each kind, in the order of [`PaneId::ALL`].
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

/// Goes where a row of a page leads.
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

/// What a pane about one pod says when none is selected.
fn no_pod(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let Some(o) = &ctx.shared.owner else {
        let hint = "Choose one in the list of pods (1).";
        return empty(ctx, canvas, "No pod is selected.", hint);
    };
    let (text, hint) = if o.kind == "Node" {
        (
            format!("{} is selected.", named(o)),
            "Why it stands still: 5. What it does: 6. Choose a pod in the list: 1.",
        )
    } else {
        (
            format!("{} is selected, and it has no pod.", named(o)),
            "Why it cannot make any: 5. Choose a pod in the list: 1.",
        )
    };
    empty(ctx, canvas, &text, hint);
}

/// `Deployment shop/web`, `Node node1`.
pub fn named(o: &ObjectRef) -> String {
    if o.namespace.is_empty() {
        format!("{} {}", o.kind, o.name)
    } else {
        format!("{} {}/{}", o.kind, o.namespace, o.name)
    }
}

/// A sentence in the middle of an empty pane.
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
