//! What the map consists of: flows and steps.

use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::Stage;
use super::signature::{Signature, SignatureKind, What};
use kflow_model::{Text, log::Component};

/// Number of a step in its map, in the order of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u16);

/// Whose story a flow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    #[default]
    Pod,
    /// A node's or component's.
    Node,
    /// Either: it has steps for all pods and steps for one.
    Both,
}

/// A flow: steps that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its letter.
    pub id: Text,
    /// Its name in commands: `kubelet-startup`.
    pub name: Text,
    /// Its title for people.
    pub title: Text,
    /// What it tells, in sentences; empty in a map of the user's that does not say.
    pub about: Text,
    /// Its place where flows are told one after another, from 1; 0 comes last.
    pub order: u8,
    /// Whose log its steps are in, unless they say otherwise.
    pub component: Component,
    /// Whose story it is.
    pub scope: Scope,
    /// The step that begins a new pass (a new start of the component).
    pub anchor: Option<StepId>,
}

/// A step of a flow: one function of Kubernetes or the runtime, and how it shows itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its id: `c09`.
    pub id: Text,
    /// Index of its flow in [`Map::flows`](super::Map::flows).
    pub flow: usize,
    /// What it does, in a few words.
    pub label: Text,
    /// What it does, who does it and why, in sentences; empty in a map of the user's that does not say.
    pub does: Text,
    /// What one sees, and what is missing, when a pod stands still in it, in sentences; empty as above.
    pub hangs: Text,
    pub function: Text,
    /// Other functions of the step.
    pub also: Vec<Text>,
    /// Names that timelines give to it, where people know it by another than the function's: `CrashLoopBackOff`.
    pub timeline: Vec<Text>,
    /// Names in other versions, with the version: `syncPod ≤1.26`.
    pub was: Vec<Text>,
    /// Source file, empty when there is none.
    pub file: Text,
    /// The stage of a pod's life that it belongs to, if any.
    pub stage: Option<Stage>,
    /// The step that calls it.
    pub parent: Option<StepId>,
    /// Evidence, best first.
    pub signatures: Vec<Signature>,
    /// True when each signature is an occurrence of its own, false when they are facets of one.
    pub alternatives: bool,
    /// Why no recording of the test data shows it, empty when one does.
    pub unseen: Text,
}

impl Flow {
    /// The container runtime whose side of the calls it tells; `None` for what all nodes have in common.
    pub const fn runtime(&self) -> Option<Component> {
        match self.component {
            Component::Containerd | Component::Crio => Some(self.component),
            _ => None,
        }
    }
}

impl Step {
    /// True when no source can show it.
    pub fn is_invisible(&self) -> bool {
        self.signatures
            .iter()
            .all(|c| c.kind() == SignatureKind::None)
    }
    /// Why no source can show it; `None` when one can.
    pub fn invisible_because(&self) -> Option<&str> {
        self.is_invisible().then(|| {
            self.signatures
                .iter()
                .find_map(|c| match &c.what {
                    What::None(why) => Some(why.as_str()),
                    _ => None,
                })
                .unwrap_or("it leaves no trace")
        })
    }
    /// The kinds of its evidence, each once, best first.
    pub fn kinds(&self) -> Vec<SignatureKind> {
        let mut kinds: Vec<SignatureKind> = self.signatures.iter().map(Signature::kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// Steps by function. Names of today win over `also` and `timeline`, and those over names of other versions.
pub(super) fn functions(steps: &[Step]) -> FxHashMap<Text, StepId> {
    let mut out = FxHashMap::default();
    let numbered = || steps.iter().enumerate().map(|(i, s)| (StepId(i as u16), s));
    for (id, s) in numbered() {
        out.entry(s.function.clone()).or_insert(id);
    }
    for (id, s) in numbered() {
        for name in s.also.iter().chain(&s.timeline) {
            out.entry(name.clone()).or_insert(id);
        }
    }
    for (id, s) in numbered() {
        for name in &s.was {
            out.entry(bare(name).into()).or_insert(id);
        }
    }
    out
}

/// A name of another version without the version: `kl.canAdmitPod ≤1.33`.
pub(super) fn bare(was: &str) -> &str {
    was.split(' ').next().unwrap_or_default()
}
