//! What the map consists of: flows and steps.

use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::Stage;
use super::signature::{Signature, SignatureKind, What};
use kflow_model::{Text, log::Component};

/// A step's index in its map, whose steps are in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u16);

/// Whose life a flow describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    #[default]
    Pod,
    /// The flow of a node or of a component.
    Node,
    /// The flow has steps for all pods and steps for one.
    Both,
}

/// A flow: steps that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// A letter.
    pub id: Text,
    /// The name in commands: `kubelet-startup`.
    pub name: Text,
    /// The title for people.
    pub title: Text,
    /// A description in sentences; empty in a user's map that gives none.
    pub about: Text,
    /// The flow's position in listings of all flows, from 1; flows with 0 come last.
    pub order: u8,
    /// The component in whose log the flow's steps are, unless a step names another.
    pub component: Component,
    pub scope: Scope,
    /// The step that begins a new pass: a new start of the component.
    pub anchor: Option<StepId>,
}

/// A step of a flow: one function of Kubernetes or the runtime, and how it shows itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `c09`, for example.
    pub id: Text,
    /// Index of its flow in [`Map::flows`](super::Map::flows).
    pub flow: usize,
    /// What the step does, in a few words.
    pub label: Text,
    /// What the step does, which component does it and why, in sentences; empty in a user's map that gives none.
    pub does: Text,
    /// What to see, and what is missing, when a pod hangs in this step, in sentences; empty in a user's map that
    /// gives none.
    pub hangs: Text,
    pub function: Text,
    /// Other functions that belong to the step.
    pub also: Vec<Text>,
    /// Other names that timelines use for the step, where people know it by one: `CrashLoopBackOff`.
    pub timeline: Vec<Text>,
    /// Names of the function in other versions, with the version: `syncPod ≤1.26`.
    pub was: Vec<Text>,
    /// The function's source file, empty when there is none.
    pub file: Text,
    /// The stage of a pod's life that the step belongs to, if any.
    pub stage: Option<Stage>,
    /// The step that calls this one.
    pub parent: Option<StepId>,
    /// Evidence, best first.
    pub signatures: Vec<Signature>,
    /// True when each signature is a separate occurrence of the step; false when all can show the same one.
    pub alternatives: bool,
    /// Why no recording of the test data shows the step, empty when one does.
    pub unseen: Text,
}

impl Flow {
    /// Returns the container runtime that the flow is about; `None` for flows that all nodes have in common.
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
    /// Returns why no source can show the step; `None` when one can.
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
    /// Returns the kinds of the step's evidence, each once, best first.
    pub fn kinds(&self) -> Vec<SignatureKind> {
        let mut kinds: Vec<SignatureKind> = self.signatures.iter().map(Signature::kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// Maps function names to steps. Today's names take precedence over `also` and `timeline`, and those over the names
/// of other versions.
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

/// Strips the version from a name of another version: `kl.canAdmitPod ≤1.33`.
pub(super) fn bare(was: &str) -> &str {
    was.split(' ').next().unwrap_or_default()
}
