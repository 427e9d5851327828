//! Chooses the moments of a session at which all pods are diagnosed ("looks"), and goes through them.

use std::sync::Arc;

use super::{Incidents, Knowledge};
use crate::correlate::{Hindsight, Retention, World};
use crate::diagnose::Diagnoser;
use crate::diagnose::unknown::Asked;
use crate::selection::Selection;
use kflow_model::log::Severity;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, Observation, Scope, Source};

/// The shortest time between two looks, ns: a [`Diagnoser`] makes the verdict on an unchanged pod again as often.
const LEAST_NS: i64 = SECOND;
/// The longest time between two looks, ns: as long as the longest silence that a rule waits for
/// before it says something.
const MOST_NS: i64 = 30 * SECOND;
/// Number of looks at a long session, besides those that follow a failure. Chosen: a session of half an hour gets a
/// look every second.
const LOOKS: i64 = 2000;
/// Each time this many pods are not well, the time between two looks grows by its length again, because each of them
/// is diagnosed at each look.
const CROWD: i64 = 500;
/// A pod leaves the walk's world when it has been gone for this long, ns: a verdict is about a pod that exists, and
/// seldom names one that went long ago. Chosen: the hour of a live run (`Retention`) would be the whole of most
/// sessions, and those would then be in memory twice.
const GONE_NS: i64 = 15 * 60 * SECOND;
/// When more pods than this are gone, those that went first leave the walk's world. Chosen for the same reason.
const GONE: usize = 500;
/// Number of looks between two removals of pods that are gone.
const LEAVE: u64 = 64;
/// After this many looks without an observation between them, the time between looks doubles with each further one.
const QUIET: u32 = 60;

/// Goes through a session once, and looks at its pods on the way.
#[derive(Debug)]
pub struct Walk {
    world: World,
    diagnoser: Diagnoser,
    incidents: Incidents,
    knowledge: Knowledge,
    hindsight: Hindsight,
    scope: Option<Scope>,
    keep: Retention,
    last: Option<Nanos>,
    from: Nanos,
    next: Nanos,
    step: i64,
    until: Nanos,
    looks: u64,
}

/// Kinds whose first lists are waited for: without pods and nodes, Events alone are believed.
const FIRST_LISTS: [&str; 3] = ["pods", "events", "nodes"];
/// How long they are waited for, ns: of a cluster that answers they come within seconds.
const FIRST_LISTS_NS: i64 = 10 * SECOND;

impl Walk {
    /// A walk through what was recorded between two moments. `scope` says which pods have to be known for "nothing was
    /// wrong"; `None` for those of all lists in the recording.
    pub fn new(
        selection: Arc<Selection>,
        scope: Option<Scope>,
        (from, until): (Nanos, Nanos),
    ) -> Self {
        Self {
            world: World::selecting(selection).without_requests(),
            diagnoser: Diagnoser::new(),
            incidents: Incidents::default(),
            knowledge: Knowledge::default(),
            hindsight: Hindsight::default(),
            scope,
            keep: Retention {
                age_ns: GONE_NS,
                pods: GONE,
                ..Retention::default()
            },
            last: None,
            from,
            next: from,
            step: (until.since(from) / LOOKS).clamp(LEAST_NS, MOST_NS),
            until,
            looks: 0,
        }
    }

    /// Takes the next observation, in order of arrival.
    pub fn observe(&mut self, o: &Evidence) {
        let (mut step, mut quiet) = (self.step.saturating_mul(self.crowd()), 0);
        if let Body::Gap(g) = &o.body
            && g.of == Source::Kflow
            && g.is_loss()
            && self.next > g.since
        {
            // Nothing was recorded since then: nothing follows from what is not there.
            self.next = self.next.max(o.stamp.seen);
        }
        while self.next < o.stamp.seen && self.next < self.until {
            if !self.lists_first(self.next) {
                self.look(self.next);
            }
            quiet += 1;
            if quiet >= QUIET {
                step = step.saturating_mul(2);
            }
            self.next = self.next.plus(step);
        }
        if matches!(&o.body, Body::ClockStep(c) if c.by < 0) {
            // The clock was set back, and shows times again that it has shown before.
            self.next = o.stamp.seen.plus(self.step);
        }
        self.world.observe(o);
        self.hindsight.observe(o);
        if matches!(o.body, Body::Watch(_) | Body::Gap(_)) {
            self.see(o.stamp.seen);
        }
        if is_telling(o) {
            let soon = self.last.map_or(o.stamp.seen, |l| {
                l.plus(LEAST_NS * self.crowd()).max(o.stamp.seen)
            });
            self.next = self.next.min(soon);
        }
    }

    /// True while the recorder reads its first lists: what is told then, such as an Event of an hour ago, may have been over for long.
    fn lists_first(&self, at: Nanos) -> bool {
        let coverage = self.world.coverage();
        let reads =
            |kind: &str| coverage.is_being_listed(kind) && coverage.newest_list(kind).is_none();
        at.since(self.from) < FIRST_LISTS_NS && FIRST_LISTS.iter().any(|kind| reads(kind))
    }

    /// The factor by which the time between two looks grows because many pods are not well.
    fn crowd(&self) -> i64 {
        i64::try_from(self.incidents.open()).unwrap_or(i64::MAX) / CROWD + 1
    }

    fn see(&mut self, at: Nanos) {
        self.knowledge.look(Asked {
            world: &self.world,
            at,
            scope: self.scope.as_ref(),
            recorded: Some(self.until),
        });
    }

    fn look(&mut self, at: Nanos) {
        self.see(at);
        self.world.refresh();
        let verdicts = self.diagnoser.update(&self.world, at);
        self.incidents.look(&self.world, &verdicts, at);
        self.last = Some(at);
        self.looks += 1;
        if self.looks.is_multiple_of(LEAVE) {
            self.world.retire(at, &self.keep);
        }
    }

    /// The incidents found so far.
    pub const fn incidents(&self) -> &Incidents {
        &self.incidents
    }
    /// Whether the incidents changed since the last call of this function.
    pub const fn take_changed(&mut self) -> bool {
        self.incidents.take_changed()
    }
    /// Number of looks so far.
    pub const fn looks(&self) -> u64 {
        self.looks
    }
    /// Time between two looks, ns: [`Part::told`](super::Part::told) and [`Part::end`](super::Part::end) are known
    /// this exactly.
    pub const fn step(&self) -> i64 {
        self.step
    }
    /// The knowledge so far. A loss may be reported later than it happened.
    pub const fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }
    /// Takes the last look, at the end of the session, and returns the results.
    pub fn finish(mut self) -> (Incidents, Knowledge) {
        self.look(self.until);
        self.knowledge.look_back(&self.hindsight);
        (self.incidents, self.knowledge)
    }
}

/// True for a failure, and for an API state of a pod or node: a look follows soon after such an observation, however
/// long the session is.
pub fn is_telling(o: &Observation) -> bool {
    match &o.body {
        Body::Pod(_) | Body::Node(_) => true,
        Body::Event(e) => e.warning && !e.listed,
        Body::CallEnd(c) => c.code.is_some_and(|c| c != 0),
        Body::Log(l) => l.severity > Severity::Warning,
        Body::Audit(a) => a.code >= 400,
        _ => false,
    }
}
