//! State that all panes share: the selected pod, the time cursor, the marks, the clock.

use std::sync::Arc;

use kflow_core::diagnose::{CauseId, Incident, Subject, Verdict};
use kflow_core::flow::map::StepId;
use kflow_engine::Snapshot;
use kflow_model::cri::CallKey;
use kflow_model::{Evidence, Nanos, ObjectRef, PodUid};

use super::glyph::Glyphs;
use super::keys::Keymap;
use super::pane::PaneId;
use super::pane::pods::Chosen;
use super::theme::Theme;
use super::time::{Clock, TimeFormat};
use super::timezone::Zone;

/// Identifies an incident, so that it is found again in another list of incidents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentId {
    subject: Subject,
    cause: Option<CauseId>,
    told: Option<Nanos>,
}

impl IncidentId {
    pub fn of(i: &Incident) -> Self {
        Self {
            subject: i.subject.clone(),
            cause: i.cause(),
            told: i.parts.first().map(|p| p.told),
        }
    }
    /// Returns true for the incident from which this was made.
    pub fn is_of(&self, i: &Incident) -> bool {
        self.cause == i.cause()
            && self.told == i.parts.first().map(|p| p.told)
            && self.subject == i.subject
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    /// The selected pod.
    pub pod: Option<PodUid>,
    /// The pod that was selected for the user because a pane needs one, until the user looks at it.
    pub proposed: Option<PodUid>,
    /// The selected owner, if no pod is selected: one that has a verdict of its own, or a node.
    pub owner: Option<ObjectRef>,
    /// Whether the selection was made at another moment than the shown one. It then stays, even if the shown world
    /// does not have the pod yet.
    pub sought: bool,
    /// The incident that the user opened last, and the moment that was shown.
    pub incident: Option<(IncidentId, Nanos)>,
    /// Whether the user has pressed a key or a button, so that the selection is the user's choice.
    pub touched: bool,
    /// The time cursor; `None` while the time of the snapshot is used.
    pub cursor: Option<Nanos>,
    /// The pod A, with which others are compared.
    pub compared: Option<PodUid>,
    /// Whether the selected pod is shown beside A.
    pub comparing: bool,
    /// The owner whose pods the Timeline shows side by side.
    pub abreast: Option<ObjectRef>,
    /// Up to two marks, whose distance is shown as a delta.
    pub marks: Vec<Nanos>,
    pub clock: Clock,
    /// Whether times are in UTC instead of local time.
    pub utc: bool,
    /// Time zone for local times.
    pub local: Zone,
    /// Flags by which a command names the recording that is shown, each with a space before it; empty for what runs.
    pub recording: String,
    /// A call that another pane asks the calls pane to show.
    pub call: Option<CallKey>,
    /// An observation that another pane asks the log to show.
    pub evidence: Option<Evidence>,
    /// Columns of the list of pods from the configuration; empty for as many as fit.
    pub columns: Arc<Vec<Chosen>>,
    /// The pane that was asked to show everything instead of only the selected pod.
    pub everything: Option<PaneId>,
    /// A step of the map that the flow pane is asked to show.
    pub step: Option<StepId>,
}

impl Shared {
    /// Returns the time of the cursor, or else that of the snapshot.
    pub fn at(&self, snap: &Snapshot) -> Nanos {
        self.cursor.unwrap_or(snap.now)
    }
    /// Returns true while the selected pod is not the user's choice.
    pub fn is_proposed(&self) -> bool {
        self.pod.is_some() && self.pod == self.proposed
    }
    /// Returns the view of the selected pod.
    pub fn view<'a>(&self, snap: &'a Snapshot) -> Option<&'a kflow_core::correlate::world::Pod> {
        snap.world.pod(self.pod.as_ref()?)
    }
    /// Returns true once if the pane was asked to show everything instead of only the selected pod.
    pub fn wants_everything(&mut self, pane: PaneId) -> bool {
        self.everything.take_if(|p| *p == pane).is_some()
    }
    /// Selects a pod that the shown moment may not have yet.
    pub fn seek_pod(&mut self, uid: PodUid) {
        self.pod = Some(uid);
        self.owner = None;
        self.abreast = None;
        self.sought = true;
    }
    /// Selects the pod, owner or node of an incident. Returns the moment in the middle of the incident. `now` is the
    /// end of the time that was searched for incidents.
    pub fn visit(&mut self, i: &Incident, now: Nanos) -> Nanos {
        let (at, v) = i.middle(now);
        if v.uid.is_empty() {
            self.pod = None;
            self.owner.clone_from(&v.owner);
            self.sought = true;
        } else {
            self.seek_pod(v.uid.clone());
        }
        self.incident = Some((IncidentId::of(i), at));
        self.cursor = None;
        at
    }
    /// Returns the verdict on the selected owner.
    pub fn owner_verdict<'a>(&self, snap: &'a Snapshot) -> Option<&'a Arc<Verdict>> {
        let owner = self.owner.as_ref().filter(|_| self.pod.is_none())?;
        let mut all = snap.owner_verdicts.iter();
        all.find(|v| v.owner.as_ref() == Some(owner))
    }
    /// Returns the zone in which times are shown and typed.
    pub fn zone(&self) -> Zone {
        if self.utc {
            Zone::default()
        } else {
            self.local.clone()
        }
    }
    /// Returns the format of times.
    pub fn time(&self, snap: &Snapshot) -> TimeFormat {
        TimeFormat {
            clock: self.clock,
            zone: self.zone(),
            now: snap.now,
            origin: self.view(snap).map(|p| p.zero()),
        }
    }
}

/// The context that panes draw from.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    pub snap: &'a Snapshot,
    pub shared: &'a Shared,
    pub theme: &'a Theme,
    /// The set of symbols: Unicode or ASCII.
    pub glyphs: &'static Glyphs,
    /// The key map, for hints.
    pub keys: &'a Keymap,
    /// Whether the pane that is drawn has the focus.
    pub focused: bool,
}

impl Ctx<'_> {
    /// Returns the format of times.
    pub fn time(&self) -> TimeFormat {
        self.shared.time(self.snap)
    }
}
