//! What all panes share: the selected pod, the time cursor, the marks, the clock.

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

/// An incident, to find it again in another list of incidents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentId {
    subject: Subject,
    cause: Option<CauseId>,
    told: Option<Nanos>,
}

impl IncidentId {
    /// That of an incident.
    pub fn of(i: &Incident) -> Self {
        Self {
            subject: i.subject.clone(),
            cause: i.cause(),
            told: i.parts.first().map(|p| p.told),
        }
    }
    /// True for the incident that it was made of.
    pub fn is_of(&self, i: &Incident) -> bool {
        self.cause == i.cause()
            && self.told == i.parts.first().map(|p| p.told)
            && self.subject == i.subject
    }
}

/// State that every pane reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    /// The selected pod.
    pub pod: Option<PodUid>,
    /// The selected owner, where no pod is selected: one that cannot create pods.
    pub owner: Option<ObjectRef>,
    /// What is selected was found at another moment than the one that is shown: it stays selected until it is there.
    pub sought: bool,
    /// The incident that was gone to last, and the moment that was shown of it.
    pub incident: Option<(IncidentId, Nanos)>,
    /// The user has pressed a key or a button: what is selected now was chosen.
    pub touched: bool,
    /// The time cursor; `None` while it follows the time of the snapshot.
    pub cursor: Option<Nanos>,
    /// The pod that others are compared with: A.
    pub compared: Option<PodUid>,
    /// The selected pod is shown beside A.
    pub comparing: bool,
    /// The owner whose pods the Timeline shows side by side.
    pub abreast: Option<ObjectRef>,
    /// Up to two marks for a delta.
    pub marks: Vec<Nanos>,
    pub clock: Clock,
    /// UTC instead of local time.
    pub utc: bool,
    /// The zone of local time.
    pub local: Zone,
    /// A call that another pane wants shown.
    pub call: Option<CallKey>,
    /// An observation that another pane wants shown.
    pub evidence: Option<Evidence>,
    /// Columns of the list of pods that the configuration asks for; none for those that fit.
    pub columns: Arc<Vec<Chosen>>,
    /// The pane that another one wants to show more than the selected pod's.
    pub everything: Option<PaneId>,
    /// A step of the map that the tour wants shown.
    pub step: Option<StepId>,
}

impl Shared {
    /// The moment under the cursor.
    pub fn at(&self, snap: &Snapshot) -> Nanos {
        self.cursor.unwrap_or(snap.now)
    }
    /// The selected pod's view.
    pub fn view<'a>(&self, snap: &'a Snapshot) -> Option<&'a kflow_core::correlate::world::Pod> {
        snap.world.pod(self.pod.as_ref()?)
    }
    /// True when a pane is to show more than the selected pod's; once.
    pub fn wants_everything(&mut self, pane: PaneId) -> bool {
        self.everything.take_if(|p| *p == pane).is_some()
    }
    /// Selects a pod that may not be there yet at the moment that is shown.
    pub fn seek_pod(&mut self, uid: PodUid) {
        self.pod = Some(uid);
        self.owner = None;
        self.abreast = None;
        self.sought = true;
    }
    /// Selects whom an incident befell; the moment in its middle, to go to. `now` is the last moment that was looked at.
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
    /// The verdict on the selected owner.
    pub fn owner_verdict<'a>(&self, snap: &'a Snapshot) -> Option<&'a Arc<Verdict>> {
        let owner = self.owner.as_ref().filter(|_| self.pod.is_none())?;
        let mut all = snap.owner_verdicts.iter();
        all.find(|v| v.owner.as_ref() == Some(owner))
    }
    /// The zone that times are shown and typed in.
    pub fn zone(&self) -> Zone {
        if self.utc {
            Zone::default()
        } else {
            self.local.clone()
        }
    }
    /// How times are written.
    pub fn time(&self, snap: &Snapshot) -> TimeFormat {
        TimeFormat {
            clock: self.clock,
            zone: self.zone(),
            now: snap.now,
            origin: self.view(snap).map(|p| p.zero()),
        }
    }
}

/// What drawing may read.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    pub snap: &'a Snapshot,
    /// What panes share.
    pub shared: &'a Shared,
    /// The theme that all styles come from.
    pub theme: &'a Theme,
    /// The set of symbols: Unicode or ASCII.
    pub glyphs: &'static Glyphs,
    /// The key map, for hints.
    pub keys: &'a Keymap,
    /// This pane has the focus.
    pub focused: bool,
}

impl Ctx<'_> {
    /// How times are written.
    pub fn time(&self) -> TimeFormat {
        self.shared.time(self.snap)
    }
}
