//! Steps by one observation, or by one change of a pod's state.

use std::sync::Arc;

use super::Player;
use kflow_core::correlate::{Pod, PodView, World};
use kflow_model::PodUid;

impl Player {
    /// Moves by `by` observations, back if negative. Pauses.
    pub fn step(&mut self, by: isize) {
        self.set_playing(false);
        self.start = None;
        let target = self
            .position
            .saturating_add_signed(by)
            .clamp(1, self.len().max(1));
        self.place(target);
        self.land();
    }

    /// Puts the cursor at the last observation that was taken.
    fn land(&mut self) {
        if let Some(o) = self
            .position
            .checked_sub(1)
            .and_then(|n| self.loaded.log.get(n))
        {
            self.cursor = o.stamp.seen;
        }
        self.version += 1;
    }

    /// Moves to the next (or previous) observation that changes a pod's state: its status, stages or containers.
    /// Without `pod`, any pod counts. Pauses. Returns false when there is no such observation.
    pub fn step_pod(&mut self, pod: Option<&PodUid>, forward: bool) -> bool {
        self.set_playing(false);
        self.start = None;
        let found = if forward {
            self.next_change(pod)
        } else {
            self.previous_change(pod)
        };
        if let Some(target) = found {
            self.place(target);
            self.land();
        }
        found.is_some()
    }

    fn next_change(&mut self, pod: Option<&PodUid>) -> Option<usize> {
        let mut world = self.pipeline.refresh().clone();
        let mut watch = Watch::of(&world, pod);
        for n in self.position..self.len() {
            world.observe(self.loaded.log.get(n)?);
            world.refresh();
            if watch.changed(&world, pod) {
                return Some(n + 1);
            }
        }
        None
    }

    fn previous_change(&mut self, pod: Option<&PodUid>) -> Option<usize> {
        let mut upto = self.position.checked_sub(1)?;
        loop {
            let (from, mut world) = match upto.checked_sub(1) {
                Some(before) => self.before(before),
                None => (0, self.empty()),
            };
            world.refresh();
            let mut watch = Watch::of(&world, pod);
            let mut last = None;
            for n in from..upto {
                world.observe(self.loaded.log.get(n)?);
                world.refresh();
                if watch.changed(&world, pod) {
                    last = Some(n + 1);
                }
            }
            if last.is_some() || from == 0 {
                return last;
            }
            upto = from;
        }
    }
}

/// The pods whose states [`Player::step_pod`] compares.
struct Watch {
    pods: Vec<Pod>,
}

impl Watch {
    fn of(world: &World, pod: Option<&PodUid>) -> Self {
        Self {
            pods: match pod {
                Some(uid) => world.pod(uid).cloned().into_iter().collect(),
                None => world.pods().to_vec(),
            },
        }
    }

    /// True when a pod's state differs from the last call; remembers the new states.
    fn changed(&mut self, world: &World, pod: Option<&PodUid>) -> bool {
        let one: Vec<Pod>;
        let now: &[Pod] = match pod {
            Some(uid) => {
                one = world.pod(uid).cloned().into_iter().collect();
                &one
            }
            None => world.pods(),
        };
        let mut changed = now.len() != self.pods.len();
        for (new, old) in now.iter().zip(self.pods.iter_mut()) {
            if !Arc::ptr_eq(new, old) {
                changed |= stands_otherwise(old, new);
                *old = Arc::clone(new);
            }
        }
        if now.len() != self.pods.len() {
            self.pods = now.to_vec();
        }
        changed
    }
}

fn stands_otherwise(a: &PodView, b: &PodView) -> bool {
    a.uid != b.uid
        || a.status != b.status
        || a.stages != b.stages
        || a.ready != b.ready
        || a.restarts != b.restarts
        || a.node != b.node
        || a.gone.is_some() != b.gone.is_some()
        || a.deletion_requested.is_some() != b.deletion_requested.is_some()
        || a.current.map(|c| c.0) != b.current.map(|c| c.0)
        || a.containers != b.containers
}
