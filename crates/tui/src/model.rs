//! The state of the terminal: which panes, what is selected, what lies over them. No I/O, no clock.

use std::collections::BTreeMap;

use super::action::{Action, Command};
use super::backend::{Answer, Drive};
use super::banner;
use super::glyph::Glyphs;
use super::help::Help;
use super::keys::Keymap;
use super::layout::{self, Layout, Slot};
use super::pane::{self, Menu, Pane, PaneId};
use super::shared::{Ctx, Shared};
use super::theme::{Depth, Theme};
use super::tour::{self, Tour};
use super::writer::Job;
use kflow_core::correlate::Pod;
use kflow_core::query::Candidate;
use kflow_engine::Snapshot;
use kflow_engine::snapshot::Mode;
use kflow_export::file::Kind;
use kflow_model::PodUid;
use ratatui::layout::Rect;

/// What the shell around the model has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Leave the terminal and end the program.
    Quit,
    /// Ask the engine.
    Drive(Drive),
    /// Put on the clipboard by OSC 52.
    Copy(String),
    /// Write this pane as SVG and text.
    Save(Vec<PaneId>),
    /// Write timelines into a file.
    Export {
        /// Format of the export.
        kind: Kind,
        /// Of every pod, not of the selected one.
        all: bool,
    },
    /// Forget what is on the screen and draw it again.
    Redraw,
    /// Keep the layout for next time.
    Remember(Layout),
}

/// What is typed at the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// A command.
    Palette,
    /// A filter of the focused pane.
    Filter,
    /// A time.
    Seek,
    Note,
}

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub kind: PromptKind,
    pub text: String,
    /// Cursor, in characters.
    pub at: usize,
    /// What the input may be completed to, best first.
    pub candidates: Vec<Candidate>,
    /// The chosen proposal.
    pub chosen: Option<usize>,
    /// Help or what is wrong.
    pub hint: Result<String, String>,
    /// What the filter was before.
    pub before: String,
    /// What the filter is while more is typed: the last one that left something.
    pub shown: String,
}

/// What lies over the panes.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// Keys and signs.
    Help(Help),
    Prompt(Prompt),
    Menu(Menu),
}

/// How loud a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Success, or a hint.
    Info,
    /// A failure, or a command that is not possible now.
    Error,
}

/// How the terminal looks.
#[derive(Clone, Debug)]
pub struct Look {
    /// Theme, already reduced to the terminal's colours.
    pub theme: Theme,
    /// Colours of the terminal.
    pub depth: Depth,
    /// The set of symbols: Unicode or ASCII.
    pub glyphs: &'static Glyphs,
}

impl Look {
    /// A theme of this name for a terminal; sixteen colours use the terminal's own, none uses attributes.
    pub fn new(theme: &str, depth: Depth, unicode: bool) -> Option<Self> {
        let name = match depth {
            Depth::Mono => "mono",
            Depth::Ansi16 if matches!(theme, "dark" | "light") => "ansi",
            _ => theme,
        };
        Some(Self {
            theme: Theme::built_in(name)?.at(depth),
            depth,
            glyphs: Glyphs::new(unicode),
        })
    }
}

/// Where the user was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub pane: PaneId,
    /// The pod that was selected, where going back selects it again.
    pub pod: Option<PodUid>,
}

/// Rows that the panes keep beside the tour.
const LEAST_BODY: u16 = 5;

/// The state.
#[derive(Debug)]
pub struct Model {
    /// What panes share.
    pub shared: Shared,
    /// Panes, in the order of [`PaneId::ALL`].
    pub panes: Vec<Box<dyn Pane>>,
    /// How many panes are shown, and where.
    pub layout: Layout,
    /// Focused pane.
    pub focus: PaneId,
    /// The pane shown beside the pods.
    pub other: PaneId,
    /// Where to go back to.
    pub trail: Vec<Place>,
    /// Overlays, the topmost last.
    pub overlays: Vec<Overlay>,
    /// Columns and rows.
    pub size: (u16, u16),
    /// Theme, symbols and depth of colour.
    pub look: Look,
    /// The key map: defaults with the configuration laid over.
    pub keys: Keymap,
    /// A message in the footer.
    pub message: Option<(String, Tone)>,
    /// Where a mouse button went down.
    pub pressed: Option<(u16, u16)>,
    /// Commands typed before, newest last.
    pub history: Vec<String>,
    /// Views of the configuration: the commands that lead to each.
    pub views: BTreeMap<String, Vec<Command>>,
    /// A line says what to press next.
    pub strip: bool,
    /// The tour, while it goes on.
    pub tour: Option<Tour>,
}

impl Model {
    /// A new terminal of this size.
    pub fn new(size: (u16, u16), look: Look, keys: Keymap) -> Self {
        Self {
            shared: Shared::default(),
            panes: pane::all(),
            layout: Layout::Single,
            focus: PaneId::Pods,
            other: PaneId::Timeline,
            trail: Vec::new(),
            overlays: Vec::new(),
            size,
            look,
            keys,
            message: None,
            pressed: None,
            history: Vec::new(),
            views: BTreeMap::new(),
            strip: false,
            tour: None,
        }
    }
    pub fn pane(&self, id: PaneId) -> Option<&dyn Pane> {
        self.panes.iter().find(|p| p.id() == id).map(|p| &**p)
    }
    /// Panes on the screen with their places.
    pub fn slots(&self, snap: &Snapshot) -> Vec<Slot> {
        let body = self.body(snap);
        match self.tour {
            Some(_) => tour::slots(self.focus, body),
            None => layout::slots(self.layout, self.focus, self.other, body),
        }
    }
    /// The place of the panes on the screen.
    pub fn body(&self, snap: &Snapshot) -> Rect {
        self.places(snap).0
    }
    /// The place of the panes, and below it that of what the tour or the strip says.
    pub fn places(&self, snap: &Snapshot) -> (Rect, Rect) {
        let replay = matches!(snap.mode, Mode::Replay { .. });
        let banner = !banner::reasons(snap).is_empty();
        let mut body = layout::body(self.size, banner, layout::has_scrubber(self.size, replay));
        let strip = u16::from(self.strip);
        let wanted = self.tour.map_or(strip, |_| Tour::height(body.width));
        let height = wanted.min(body.height.saturating_sub(LEAST_BODY));
        body.height -= height;
        let told = Rect {
            y: body.bottom(),
            height,
            ..body
        };
        (body, told)
    }
    /// Begins the tour: what brings the picture to its first stop.
    pub fn begin_tour(&mut self) -> Option<Drive> {
        let tour = Tour::default();
        self.tour = Some(tour);
        self.show(PaneId::Flow);
        tour.drive()
    }
    /// Brings every visible pane up to date. Call after anything changed and before drawing.
    pub fn sync(&mut self, snap: &Snapshot) {
        // A recording in which nothing was ever wrong begins with its pods.
        if self.focus == PaneId::Incidents
            && self.trail.is_empty()
            && pane::incidents::none_ever(snap)
        {
            self.focus = PaneId::Pods;
        }
        if let Some(tour) = &mut self.tour {
            tour.arrive(snap, &mut self.shared);
        }
        let slots = self.slots(snap);
        // A pane that vanished with a smaller screen gives the focus away.
        if !slots.iter().any(|s| s.pane == self.focus)
            && let Some(s) = slots.first()
        {
            self.focus = s.pane;
        }
        for s in &slots {
            self.sync_pane(s, snap);
        }
        // The pods decide what is selected: without them on the screen it is the first that needs somebody.
        if self.shared.pod.is_none() && self.shared.owner.is_none() && !self.shared.sought {
            let pods = snap.world.pods();
            let unwell = |p: &&Pod| (snap.verdicts.get(&p.uid)).is_some_and(|v| !v.state.is_well());
            let chosen = pods.iter().find(unwell).or(pods.first());
            self.shared.pod = chosen.map(|p| p.uid.clone());
        }
    }
    /// Brings one pane up to date for a place, whether it is on the screen or not.
    pub fn sync_pane(&mut self, slot: &Slot, snap: &Snapshot) {
        let inner = slot.inner();
        if let Some(p) = self.panes.iter_mut().find(|p| p.id() == slot.pane) {
            p.sync(snap, &mut self.shared, (inner.width, inner.height));
        }
    }
    /// What drawing may read.
    pub fn ctx<'a>(&'a self, snap: &'a Snapshot, focused: bool) -> Ctx<'a> {
        Ctx {
            snap,
            shared: &self.shared,
            theme: &self.look.theme,
            glyphs: self.look.glyphs,
            keys: &self.keys,
            focused,
        }
    }
    /// Shows a pane first: there is nothing to go back to.
    pub fn begin(&mut self, id: PaneId) {
        self.show(id);
        self.trail.clear();
    }
    /// Shows a pane and gives it the focus.
    pub fn show(&mut self, id: PaneId) {
        if self.focus != id {
            self.trail.retain(|p| p.pane != id || p.pod.is_some());
            let pane = self.focus;
            self.trail.push(Place { pane, pod: None });
        }
        self.focus = id;
        if id != PaneId::Pods {
            self.other = id;
        }
    }
    /// Says something in the footer.
    pub fn say(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.message = (!text.is_empty()).then_some((text, Tone::Info));
    }
    /// Says in the footer what went wrong.
    pub fn complain(&mut self, text: impl Into<String>) {
        self.message = Some((text.into(), Tone::Error));
    }
    /// Takes the engine's answer; a file that has yet to be written.
    pub fn answered(&mut self, answer: Result<Answer, String>) -> Option<Job> {
        let said = match answer {
            Ok(Answer::Done(done)) => {
                if let Some(pod) = done.pod {
                    self.shared.seek_pod(pod);
                }
                Ok(done.said)
            }
            Ok(Answer::Write(job)) => return Some(job),
            Err(e) => Err(e),
        };
        self.tell(said);
        None
    }
    /// Says in the footer what became of something.
    pub fn tell(&mut self, outcome: Result<String, String>) {
        match outcome {
            Ok(said) if said.is_empty() => {}
            Ok(said) => self.say(said),
            Err(why) => self.complain(why),
        }
    }
    pub fn export_menu() -> Menu {
        let item = |label: &str, help: &str, action: Action, arg: &str| pane::Item {
            label: label.to_owned(),
            help: help.to_owned(),
            command: Command {
                action,
                arg: arg.to_owned(),
            },
            checked: None,
        };
        let mut items = vec![
            item("This pane", "SVG and text", Action::Save, ""),
            item("Every pane", "SVG and text", Action::Save, "all"),
        ];
        for (whose, more) in [("Pod", ""), ("All pods", " all")] {
            for k in Kind::ALL.iter().filter(|k| more.is_empty() || !k.of_one()) {
                let label = format!("{whose}: {k}");
                let arg = format!("{k}{more}");
                items.push(item(&label, k.help(), Action::Export, &arg));
            }
        }
        items.extend([
            item("Verdict", "Markdown to the clipboard", Action::WhyCopy, ""),
            item("Selection", "to the clipboard", Action::Copy, ""),
        ]);
        Menu {
            title: "Export".to_owned(),
            items,
            ..Menu::default()
        }
    }
}
