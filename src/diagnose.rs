//! Why a pod is not well: causes, rules, verdicts. Reads the world, never changes it. Pure; time is an argument.

pub mod verdict;

pub use verdict::{Confidence, InFlightCall, NextStep, Proof, State, Verdict};

use crate::correlate::{PodView, World};
use crate::model::{Nanos, PodUid};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Verdicts by pod, and those of owners that cannot create pods.
pub type Verdicts = (Arc<FxHashMap<PodUid, Arc<Verdict>>>, Arc<Vec<Arc<Verdict>>>);

/// Keeps verdicts up to date at a cost proportional to what changed.
#[derive(Debug, Default)]
pub struct Diagnoser {}

impl Diagnoser {
    /// A diagnoser that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }
    /// Verdicts of all pods that are not well, and of owners, as of `now`.
    pub fn update(&mut self, world: &World, now: Nanos) -> Verdicts {
        let _ = (world, now);
        Verdicts::default()
    }
}

/// The verdict on one pod as of `now`: also for a pod that is well ([`State::Healthy`], [`State::Recovered`]).
pub fn why(world: &World, pod: &PodView, now: Nanos) -> Option<Verdict> {
    let _ = (world, pod, now);
    None
}
