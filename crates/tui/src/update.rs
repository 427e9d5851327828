//! Turns input into actions and actions into changes of the model. Pure: work for the main loop is returned as effects.

use std::sync::Arc;

use super::action::{Action, Command, KeyScope};
use super::backend::Drive;
use super::config::Config;
use super::help::Help;
use super::keys::Key;
use super::layout::Layout;
use super::model::{Effect, Look, Model, Overlay, Place, PromptKind};
use super::pane::{Item, Menu, PaneId, Reply};
use super::text::count;
use super::tour::{self, Tour};
use kflow_core::diagnose::awaited::{Awaited, Waits};
use kflow_core::flow::map::Map;
use kflow_engine::Snapshot;
use kflow_engine::snapshot::Mode;
use kflow_export::file::Kind;
use kflow_model::Nanos;

mod boxes;
mod moments;
mod mouse;
mod others;
mod prompt;

/// Limit on a copied text, in bytes: terminals take about 75 kB of base64 and drop what is longer without a word.
const CLIPBOARD: usize = 48 * 1024;

use moments::SPEEDS;
pub use moments::parse_speed;
pub use mouse::Mouse;

impl Model {
    /// Handles a key.
    pub fn key(&mut self, key: Key, snap: &Snapshot) -> Vec<Effect> {
        self.message = None;
        self.shared.touched = true;
        match self.overlays.last_mut() {
            Some(Overlay::Prompt(_)) => return self.prompt_key(key, snap),
            Some(Overlay::Menu(_)) => return self.menu_key(key, snap),
            Some(Overlay::Help(_)) => return self.help_key(key, snap),
            None => {}
        }
        match self.keys.action(self.focus, key) {
            Some(a) => self.run(&a.into(), snap),
            None => {
                self.say(format!(
                    "{key} does nothing here; {} shows the keys",
                    self.keys.first(Action::Help)
                ));
                Vec::new()
            }
        }
    }
    /// Runs a command: from a key, the palette, a menu or a script.
    pub fn run(&mut self, command: &Command, snap: &Snapshot) -> Vec<Effect> {
        let mut effects = self.ran(command, snap);
        self.depart(&effects);
        effects.extend(self.listened(snap));
        effects
    }
    /// For a cluster, returns the request to follow the agents for the owner whose pods are shown side by side;
    /// `None` if it has not changed.
    pub(super) fn listened(&self, snap: &Snapshot) -> Option<Effect> {
        let cluster = snap.cluster.as_ref()?;
        let now = cluster.abreast.as_ref().map(|a| &a.owner);
        let wanted = self.shared.abreast.as_ref();
        (now != wanted).then(|| Effect::Drive(Drive::Abreast(wanted.cloned())))
    }
    fn ran(&mut self, command: &Command, snap: &Snapshot) -> Vec<Effect> {
        let before = self.shared.cursor;
        let action = command.action;
        // A user who was led to another pod returns to the previous one with one key.
        if action == Action::Back && self.trail.last().is_some_and(|p| p.pod.is_some()) {
            self.back();
            self.sync(snap);
            return Vec::new();
        }
        if let Some(effects) = self.guided(action) {
            self.sync(snap);
            return effects;
        }
        // The next and previous pod can be chosen in every pane; the list of pods does it.
        let target = if matches!(action, Action::NextPod | Action::PreviousPod) {
            PaneId::Pods
        } else {
            self.target(action)
        };
        // The list may be older than the snapshot if it is not on the screen.
        if target == PaneId::Pods
            && self.focus != PaneId::Pods
            && let Some(p) = self.panes.iter_mut().find(|p| p.id() == PaneId::Pods)
        {
            p.sync(snap, &mut self.shared, self.size);
        }
        if target != self.focus && !matches!(action, Action::NextPod | Action::PreviousPod) {
            self.show(target);
            // A pane that was not on the screen knows nothing of the snapshot yet.
            self.sync(snap);
        }
        let reply = self
            .panes
            .iter_mut()
            .find(|p| p.id() == target)
            .map_or(Reply::Ignored, |p| {
                p.handle(command, snap, &mut self.shared)
            });
        let effects = match reply {
            Reply::Ignored => self.global(command, snap),
            Reply::Done => Vec::new(),
            Reply::Say(t) => {
                self.say(t);
                Vec::new()
            }
            Reply::Go(p) => {
                self.show(p);
                Vec::new()
            }
            Reply::Visit(p, at) => {
                self.show(p);
                vec![Effect::Drive(Drive::Seek(at))]
            }
            Reply::Filtered(p, filter) => {
                self.show(p);
                self.set_filter_of(p, &filter);
                Vec::new()
            }
            Reply::Follow(awaited) => {
                self.follow(&awaited, snap);
                Vec::new()
            }
            Reply::Menu(m) => {
                self.overlays.push(Overlay::Menu(m));
                Vec::new()
            }
            Reply::Drive(d) => vec![Effect::Drive(d)],
            Reply::Copy(t) => self.copied(t),
            Reply::Write(w) => vec![Effect::Write(w)],
        };
        self.sync(snap);
        self.frozen(before, snap, effects)
    }
    /// Handles a command while the tour runs; returns `None` for commands that the tour does not change.
    fn guided(&mut self, action: Action) -> Option<Vec<Effect>> {
        let tour = self.tour.as_mut()?;
        let forward = match action {
            Action::PlayPause | Action::StepForward => true,
            Action::StepBack => false,
            Action::Back => {
                self.end_tour("here you are on your own");
                return Some(vec![Effect::Drive(Drive::Speed(1000))]);
            }
            Action::Layout => {
                self.complain("the tour has a layout of its own");
                return Some(Vec::new());
            }
            Action::NextPane | Action::PreviousPane => {
                let n = tour::PANES.len();
                let at = tour::PANES.iter().position(|p| *p == self.focus);
                let by = if action == Action::NextPane { 1 } else { n - 1 };
                let to = at.map_or(0, |at| (at + by) % n);
                let pane = tour::PANES.into_iter().nth(to)?;
                self.show(pane);
                return Some(Vec::new());
            }
            _ => return None,
        };
        // A step that is still played is shown whole before the next one.
        if (forward && tour.is_on_the_way()) || tour.go(forward) {
            return Some(tour.drive().map(Effect::Drive).into_iter().collect());
        }
        if forward {
            self.end_tour("that was the tour");
            return Some(vec![Effect::Drive(Drive::Speed(1000))]);
        }
        self.say("this is where the tour begins");
        Some(Vec::new())
    }
    fn end_tour(&mut self, said: &str) {
        self.left = self.tour.take().map(Tour::again);
        let (help, pods) = (Action::Help, Action::PanePods);
        let (help, pods) = (self.keys.first(help), self.keys.first(pods));
        self.say(format!(
            "{said}: {pods} has all pods, {help} the keys; :{} goes back to it",
            Action::Tour
        ));
    }
    /// Freezes a live picture if the command put a time cursor where there was none, so that new observations do not
    /// move what the user looks at.
    fn frozen(
        &self,
        before: Option<Nanos>,
        snap: &Snapshot,
        mut effects: Vec<Effect>,
    ) -> Vec<Effect> {
        let follows = matches!(
            snap.mode,
            Mode::Live {
                following: true,
                ..
            }
        );
        if follows && before.is_none() && self.shared.cursor.is_some() && effects.is_empty() {
            effects.push(Effect::Drive(Drive::Freeze));
        }
        effects
    }
    /// Returns the pane that handles a command. A pane's own commands reach it from the palette too.
    fn target(&self, action: Action) -> PaneId {
        match action.scope() {
            KeyScope::Pane(pane) => pane,
            KeyScope::Global | KeyScope::List => self.focus,
        }
    }
    /// Selects a step of the call flow by its id or function.
    fn show_step(&mut self, name: &str) {
        let map = Map::active();
        let step = map.step(&name.to_lowercase());
        match step.or_else(|| map.step_by_function(name)) {
            Some((id, _)) => self.shared.step = Some(id),
            None => self.complain(format!("no step has the id or the function \"{name}\"")),
        }
    }
    /// Returns the effect that copies a text, cut to what terminals take. Whether it arrives is not known: a terminal
    /// does not answer, and some refuse (tmux without `set-clipboard on`).
    fn copied(&mut self, text: String) -> Vec<Effect> {
        let all = text.chars().count();
        let end = (0..=CLIPBOARD.min(text.len()))
            .rev()
            .find(|n| text.is_char_boundary(*n))
            .unwrap_or(0);
        let cut = text.get(..end).unwrap_or_default();
        let to = "to the terminal's clipboard (OSC 52)";
        if cut.len() < text.len() {
            let n = cut.chars().count();
            self.complain(format!(
                "sent only the first {} of {} characters {to}",
                count(n),
                count(all)
            ));
        } else {
            self.say(format!("sent {} characters {to}", count(all)));
        }
        vec![Effect::Copy(cut.to_owned())]
    }
    fn global(&mut self, command: &Command, snap: &Snapshot) -> Vec<Effect> {
        if let Some(p) = PaneId::of(command.action) {
            self.show(p);
            if p == PaneId::Flow && !command.arg.is_empty() {
                self.show_step(&command.arg);
            }
            return Vec::new();
        }
        let drive = |d| vec![Effect::Drive(d)];
        match command.action {
            Action::Quit => return vec![Effect::Quit],
            Action::Redraw => return vec![Effect::Redraw],
            Action::Help => self.overlays.push(Overlay::Help(Help::default())),
            Action::Palette => self.open(PromptKind::Palette, snap),
            Action::Filter if !command.arg.is_empty() => self.set_filter(&command.arg),
            Action::Filter => self.open(PromptKind::Filter, snap),
            Action::ClearFilter => self.set_filter(""),
            Action::Back => self.back(),
            Action::Compare => self.compare(&command.arg, snap),
            Action::SideBySide => self.side_by_side(snap),
            Action::WaitsFor => {
                let pod = self.shared.view(snap);
                let waits = pod.map(|p| Waits::of(&snap.world, p, snap.now).longest());
                // A pod that is being stopped, or whose sandbox is not ready, waits for a call of its own.
                let own = || {
                    let mut flying = snap.world.calls().in_flight();
                    let own = flying.find(|c| pod.is_some_and(|p| c.pod_uid == p.uid))?;
                    Some(Awaited::Call(Arc::clone(own)))
                };
                match waits.unwrap_or_default().into_iter().next().or_else(own) {
                    Some(first) => self.follow(&first, snap),
                    None => self.say(format!(
                        "it waits for no other pod or call that is known; {} says why it stands still",
                        self.keys.first(Action::PaneWhy)
                    )),
                }
            }
            Action::NextPane | Action::PreviousPane => {
                let slots = self.slots(snap);
                let forward = command.action == Action::NextPane;
                if slots.len() > 1 {
                    let at = slots.iter().position(|s| s.pane == self.focus).unwrap_or(0);
                    let to = if forward {
                        at + 1
                    } else {
                        at + slots.len() - 1
                    } % slots.len();
                    if let Some(s) = slots.get(to) {
                        self.focus = s.pane;
                    }
                } else {
                    let n = self.panes.len();
                    let at = self
                        .panes
                        .iter()
                        .position(|p| p.id() == self.focus)
                        .unwrap_or(0);
                    let to = if forward { at + 1 } else { at + n - 1 } % n.max(1);
                    if let Some(id) = self.panes.get(to).map(|p| p.id()) {
                        self.show(id);
                    }
                }
            }
            Action::Layout => {
                let body = self.body(snap);
                let before = self.layout.fitting(body);
                self.layout = if command.arg.is_empty() {
                    self.layout.next_fitting(body)
                } else if let Some(l) = Layout::parse(&command.arg) {
                    l
                } else {
                    self.complain("layouts are single, split and dashboard");
                    return Vec::new();
                };
                let shown = self.layout.fitting(body);
                self.say(if command.arg.is_empty() && shown == before {
                    format!(
                        "no other layout fits: split needs {}",
                        Layout::Split.needs()
                    )
                } else if shown == self.layout {
                    format!("layout: {}", shown.name())
                } else {
                    let (wanted, needs) = (self.layout.name(), self.layout.needs());
                    format!("layout: {} ({wanted} needs {needs})", shown.name())
                });
                return vec![Effect::Remember(self.layout)];
            }
            Action::PlayPause => return drive(Drive::PlayPause),
            Action::Faster | Action::Slower => {
                if let Mode::Replay { speed_permille, .. } = snap.mode {
                    let up = command.action == Action::Faster;
                    let at = SPEEDS
                        .iter()
                        .position(|s| *s == speed_permille)
                        .unwrap_or(3);
                    let to = if up {
                        (at + 1).min(SPEEDS.len() - 1)
                    } else {
                        at.saturating_sub(1)
                    };
                    return drive(Drive::Speed(SPEEDS.get(to).copied().unwrap_or(1000)));
                }
                self.complain("only a replay has a speed");
            }
            Action::Speed => match parse_speed(&command.arg) {
                Some(s) => return drive(Drive::Speed(s)),
                None => self.complain("speed takes a factor such as 0.5, 10 or 10x, or max"),
            },
            Action::StepForward => return drive(Drive::Step { forward: true }),
            Action::StepBack => return drive(Drive::Step { forward: false }),
            Action::StepPodForward | Action::StepPodBack => match self.shared.pod.clone() {
                Some(pod) => {
                    return drive(Drive::StepPod {
                        pod,
                        forward: command.action == Action::StepPodForward,
                    });
                }
                None => self.complain("no pod is selected"),
            },
            Action::NextError | Action::PreviousError => {
                // The pods and incidents panes go to errors of any pod, the other panes to those of the selected one.
                let pod = if matches!(self.focus, PaneId::Pods | PaneId::Incidents) {
                    None
                } else {
                    self.shared.pod.clone()
                };
                return drive(Drive::Error {
                    pod,
                    forward: command.action == Action::NextError,
                });
            }
            Action::NextIncident | Action::PreviousIncident => {
                return self.incident(command.action == Action::NextIncident, snap);
            }
            Action::NextMark => return drive(Drive::Mark),
            Action::Follow => {
                self.shared.cursor = None;
                return drive(Drive::Follow);
            }
            Action::Seek if !command.arg.is_empty() => return self.seek(&command.arg, snap),
            Action::Seek => self.open(PromptKind::Seek, snap),
            Action::Note if !command.arg.is_empty() => {
                let at = self.shared.at(snap);
                return drive(Drive::Note {
                    at,
                    text: command.arg.clone(),
                });
            }
            Action::Note => self.open(PromptKind::Note, snap),
            Action::Clock => {
                self.shared.clock = self.shared.clock.next();
                self.say(format!("clock: {}", self.shared.clock.name()));
            }
            Action::Utc => {
                self.shared.utc = !self.shared.utc;
                let zone = self.shared.time(snap).zone_at(snap.now);
                self.say(format!("times are {zone}"));
            }
            Action::Copy => {
                let text = self
                    .pane(self.focus)
                    .and_then(|p| p.copy(snap, &self.shared));
                match text {
                    Some(t) => return self.copied(t),
                    None => self.complain("there is nothing to copy here"),
                }
            }
            Action::Save if command.arg == "all" => {
                return vec![Effect::Save(self.panes.iter().map(|p| p.id()).collect())];
            }
            Action::Save => return vec![Effect::Save(vec![self.focus])],
            Action::Export if !command.arg.is_empty() => {
                let (kind, all) = match command.arg.split_once(' ') {
                    Some((k, "all")) => (k, true),
                    _ => (command.arg.as_str(), false),
                };
                match Kind::parse(kind) {
                    Some(kind) if all && kind.of_one() => {
                        self.complain(format!("{kind} is a diagram of one pod: export {kind}"));
                    }
                    Some(kind) => return vec![Effect::Export { kind, all }],
                    None => {
                        let names: Vec<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
                        self.complain(format!("formats are {}", names.join(", ")));
                    }
                }
            }
            Action::Export => self.overlays.push(Overlay::Menu(Self::export_menu())),
            Action::Record => return drive(Drive::Record),
            Action::View => return self.view(&command.arg, snap),
            Action::Theme => self.set_theme(&command.arg),
            Action::Tour if self.left.is_some() => {
                return self.begin_tour().map(Effect::Drive).into_iter().collect();
            }
            Action::Tour => self.complain("the tour is in kflow demo --tour"),
            _ => {}
        }
        Vec::new()
    }
    /// Applies the configuration's columns and views.
    pub fn configure(&mut self, config: &Config) {
        self.shared.columns = Arc::new(config.columns.clone());
        self.views.clone_from(&config.views);
    }
    /// Runs the commands of a view; opens a menu of all views if `name` is empty.
    fn view(&mut self, name: &str, snap: &Snapshot) -> Vec<Effect> {
        if let Some(commands) = self.views.get(name).cloned() {
            let effects = commands.iter().flat_map(|c| self.run(c, snap));
            return effects.collect();
        }
        if self.views.is_empty() {
            self.say("the configuration has no view: [views] pulls = [\"calls\", \"filter method:PullImage\"]");
        } else if name.is_empty() {
            let item = |name: &String| Item {
                label: name.clone(),
                help: String::new(),
                command: Command {
                    action: Action::View,
                    arg: name.clone(),
                },
                checked: None,
            };
            let items = self.views.keys().map(item).collect();
            self.overlays.push(Overlay::Menu(Menu {
                title: "View".to_owned(),
                items,
                ..Menu::default()
            }));
        } else {
            self.complain(format!("the configuration has no view \"{name}\""));
        }
        Vec::new()
    }
    fn set_theme(&mut self, name: &str) {
        let names: Vec<&str> = super::theme::BUILT_IN.iter().map(|(n, _)| *n).collect();
        match Look::new(name, self.look.depth, self.look.glyphs.is_unicode()) {
            Some(look) => self.look = look,
            None => self.complain(format!("themes are {}", names.join(", "))),
        }
    }
    pub(super) fn set_filter(&mut self, text: &str) {
        self.set_filter_of(self.focus, text);
    }
    pub fn set_filter_of(&mut self, pane: PaneId, text: &str) {
        let result = self
            .panes
            .iter_mut()
            .find(|p| p.id() == pane)
            .map_or(Ok(()), |p| p.set_filter(text));
        if let Err(e) = result {
            self.complain(e);
        }
    }
    /// Handles Escape: clears the filter, or else leaves a comparison, or else goes back, or else removes the strip.
    fn back(&mut self) {
        let filtered = self
            .pane(self.focus)
            .and_then(|p| p.filter())
            .is_some_and(|f| !f.is_empty());
        if filtered {
            self.set_filter("");
        } else if std::mem::take(&mut self.shared.comparing) {
            // Leaves the comparison; the pod's timeline is shown again.
        } else if let Some(Place { pane, pod }) = self.trail.pop() {
            self.focus = pane;
            if pane != PaneId::Pods {
                self.other = pane;
            }
            if let Some(pod) = pod {
                self.shared.seek_pod(pod);
                self.shared.cursor = None;
            }
        } else {
            self.strip = false;
        }
    }
    /// Handles a change of the terminal's size (columns, rows).
    pub fn resize(&mut self, size: (u16, u16), snap: &Snapshot) {
        self.size = size;
        self.sync(snap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offscreen::model;

    #[test]
    fn a_text_that_is_too_long_for_the_clipboard_is_said_to_be_cut() {
        let mut m = model((80, 24), "dark").expect("theme");
        let said = |m: &Model| {
            m.message
                .as_ref()
                .map(|(t, _)| t.clone())
                .unwrap_or_default()
        };
        assert_eq!(m.copied("ä".to_owned()), [Effect::Copy("ä".to_owned())]);
        assert_eq!(
            said(&m),
            "sent 1 characters to the terminal's clipboard (OSC 52)"
        );
        // Two bytes each, so that the limit lies between two characters.
        let effects = m.copied(format!("x{}", "ä".repeat(30_000)));
        let [Effect::Copy(sent)] = effects.as_slice() else {
            panic!("{effects:?}");
        };
        assert_eq!(sent.len(), CLIPBOARD - 1);
        assert!(
            said(&m).starts_with("sent only the first 24"),
            "{}",
            said(&m)
        );
    }
}
