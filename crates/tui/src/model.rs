//! State of the terminal UI: which panes are shown, what is selected, which overlays are open. No I/O, no clock.

use std::collections::BTreeMap;

use super::action::{Action, Command};
use super::backend::{Answer, Drive};
use super::banner;
use super::glyph::Glyphs;
use super::help::Help;
use super::keys::Keymap;
use super::layout::{self, Layout, Slot};
use super::pane::{self, Menu, Pane, PaneId, Written};
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

/// Work that the model cannot do itself and hands to the loop that runs it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Restore the terminal and end the program.
    Quit,
    /// Send a request to the engine.
    Drive(Drive),
    /// Copy a text to the clipboard with OSC 52.
    Copy(String),
    /// Write these panes as SVG and text.
    Save(Vec<PaneId>),
    /// Write timelines into a file.
    Export {
        /// Format of the export.
        kind: Kind,
        /// Whether every pod is exported instead of the selected one.
        all: bool,
    },
    /// Write a text into a file.
    Write(Written),
    /// Clear the screen and draw it anew.
    Redraw,
    /// Save the layout for the next run.
    Remember(Layout),
}

/// What a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    Palette,
    Filter,
    Seek,
    Note,
}

/// A prompt in the footer: a line that the user is typing.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub kind: PromptKind,
    pub text: String,
    /// Position of the cursor, in characters.
    pub at: usize,
    /// Possible completions of the input, best first.
    pub candidates: Vec<Candidate>,
    /// Index of the chosen completion.
    pub chosen: Option<usize>,
    /// Help on the input (`Ok`), or what is wrong with it (`Err`).
    pub hint: Result<String, String>,
    /// Text of the pane's filter before the prompt was opened, restored on cancel.
    pub before: String,
    /// Text of the filter that is applied while the user types: the last one that matched something.
    pub shown: String,
}

/// A box or line that is drawn over the panes.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// The list of keys and symbols.
    Help(Help),
    Prompt(Prompt),
    Menu(Menu),
}

/// How a message is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Success, or a hint.
    Info,
    /// A failure, or a command that is not possible now.
    Error,
}

#[derive(Clone, Debug)]
pub struct Look {
    /// Theme, already reduced to the terminal's colour depth.
    pub theme: Theme,
    /// Colour depth of the terminal.
    pub depth: Depth,
    pub glyphs: &'static Glyphs,
}

impl Look {
    /// Returns the look for a built-in theme; `None` if no theme has this name. With 16 colours, `dark` and `light`
    /// become the `ansi` theme; without colours, every theme becomes `mono`.
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

/// A place in the history of what the user looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub pane: PaneId,
    /// The pod that was selected, if going back should select it again.
    pub pod: Option<PodUid>,
}

/// Least rows of the panes; the tour's text gets fewer rows rather than take these.
const LEAST_BODY: u16 = 5;

#[derive(Debug)]
pub struct Model {
    /// State that panes share.
    pub shared: Shared,
    /// The panes, in the order of [`PaneId::ALL`].
    pub panes: Vec<Box<dyn Pane>>,
    pub layout: Layout,
    /// The layout for a recording of one moment; `None` where the user has chosen one.
    pub of_one_moment: Option<Layout>,
    pub focus: PaneId,
    /// The pane shown beside the pods.
    pub other: PaneId,
    /// Places to go back to, newest last.
    pub trail: Vec<Place>,
    /// Overlays, the topmost last.
    pub overlays: Vec<Overlay>,
    /// Size of the screen: columns, rows.
    pub size: (u16, u16),
    pub look: Look,
    /// Key map: the defaults with the configuration's overrides.
    pub keys: Keymap,
    /// Message in the footer.
    pub message: Option<(String, Tone)>,
    /// Column and row where a mouse button was pressed.
    pub pressed: Option<(u16, u16)>,
    /// Commands typed before, newest last.
    pub history: Vec<String>,
    /// Views of the configuration by name: the commands that lead to each.
    pub views: BTreeMap<String, Vec<Command>>,
    /// Whether a line below the panes says what to press next.
    pub strip: bool,
    /// State of the tour while it runs.
    pub tour: Option<Tour>,
    /// Where the tour was left.
    pub left: Option<Tour>,
}

impl Model {
    /// Returns the state for a screen of this size (columns, rows).
    pub fn new(size: (u16, u16), look: Look, keys: Keymap) -> Self {
        Self {
            shared: Shared::default(),
            panes: pane::all(),
            layout: Layout::Single,
            of_one_moment: None,
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
            left: None,
        }
    }
    pub fn pane(&self, id: PaneId) -> Option<&dyn Pane> {
        self.panes.iter().find(|p| p.id() == id).map(|p| &**p)
    }
    /// Returns the panes on the screen with their places.
    pub fn slots(&self, snap: &Snapshot) -> Vec<Slot> {
        let body = self.body(snap);
        match self.tour {
            Some(_) => tour::slots(self.focus, body),
            None => layout::slots(self.layout, self.focus, self.other, body),
        }
    }
    /// Returns the area of the panes on the screen.
    pub fn body(&self, snap: &Snapshot) -> Rect {
        self.places(snap).0
    }
    /// Returns the area of the panes, and below it the area of the tour's text or the strip.
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
    /// Begins the tour, or goes on where it was left. Returns the request that moves the replay to the stop.
    pub fn begin_tour(&mut self) -> Option<Drive> {
        let tour = self.left.take().unwrap_or_default();
        self.tour = Some(tour);
        self.show(PaneId::Flow);
        tour.drive()
    }
    /// Brings every visible pane up to date. Must be called after each change and before drawing.
    pub fn sync(&mut self, snap: &Snapshot) {
        if self.focus == PaneId::Incidents && self.trail.is_empty() {
            self.open_with_pods(snap);
        }
        if let Some(tour) = &mut self.tour {
            tour.arrive(snap, &mut self.shared);
        }
        let slots = self.slots(snap);
        // If a smaller screen hides the focused pane, the first visible one gets the focus.
        if !slots.iter().any(|s| s.pane == self.focus)
            && let Some(s) = slots.first()
        {
            self.focus = s.pane;
        }
        for s in &slots {
            self.sync_pane(s, snap);
        }
        // The pods pane sets the selection. While it is not on the screen, the first unhealthy pod is selected, or
        // else the first. What is first changes while a recording is read.
        let proposed = !self.shared.touched && self.shared.is_proposed();
        let none = self.shared.pod.is_none() && self.shared.owner.is_none() && !self.shared.sought;
        if none || proposed {
            let pods = snap.world.pods();
            let unwell = |p: &&Pod| (snap.verdicts.get(&p.uid)).is_some_and(|v| !v.state.is_well());
            let chosen = pods.iter().find(unwell).or(pods.first());
            self.shared.pod = chosen.map(|p| p.uid.clone());
            self.shared.proposed.clone_from(&self.shared.pod);
        }
    }
    /// Shows pods in the place of incidents where a recording was opened that has none, or that is of one moment: how
    /// everything was then is its pods and their verdicts.
    fn open_with_pods(&mut self, snap: &Snapshot) {
        if snap.is_of_one_moment() && !self.shared.touched {
            self.focus = PaneId::Pods;
            self.other = PaneId::Why;
            self.layout = self.of_one_moment.unwrap_or(self.layout);
        } else if pane::incidents::none_ever(snap) {
            self.focus = PaneId::Pods;
        }
    }
    /// Brings one pane up to date for a place, whether the pane is on the screen or not.
    pub fn sync_pane(&mut self, slot: &Slot, snap: &Snapshot) {
        let inner = slot.inner();
        if let Some(p) = self.panes.iter_mut().find(|p| p.id() == slot.pane) {
            p.sync(snap, &mut self.shared, (inner.width, inner.height));
        }
    }
    /// Returns the context that panes draw from.
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
    /// Shows a pane as the first one, with nothing to go back to.
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
        // What the user has looked at stays selected.
        if !matches!(id, PaneId::Pods | PaneId::Incidents) {
            self.shared.proposed = None;
        }
        if id != PaneId::Pods {
            self.other = id;
        }
    }
    /// Shows a message in the footer.
    pub fn say(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.message = (!text.is_empty()).then_some((text, Tone::Info));
    }
    /// Shows an error in the footer.
    pub fn complain(&mut self, text: impl Into<String>) {
        self.message = Some((text.into(), Tone::Error));
    }
    /// Takes the engine's answer to a request. Returns the file that still has to be written, if any.
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
    /// Shows a result in the footer: a message or an error.
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
            item("Verdict: file", "Markdown", Action::WhySave, ""),
            item("Incidents: file", "text", Action::IncidentsSave, ""),
            item("Selection", "to the clipboard", Action::Copy, ""),
        ]);
        Menu {
            title: "Export".to_owned(),
            items,
            ..Menu::default()
        }
    }
}
