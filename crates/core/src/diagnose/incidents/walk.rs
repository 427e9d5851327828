//! The moments of a session at which it is looked what is not well.

use std::sync::Arc;

use super::{Incidents, Knowledge};
use crate::correlate::{Hindsight, Retention, World};
use crate::diagnose::Diagnoser;
use crate::diagnose::unknown::Asked;
use crate::selection::Selection;
use kflow_model::log::Severity;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, Observation, Scope};

/// Least time between two looks, ns: a verdict on what does not change is made again as often.
const LEAST_NS: i64 = SECOND;
/// Most time between two looks, ns: as long as the longest silence that a rule waits for before it says something.
const MOST_NS: i64 = 30 * SECOND;
/// Looks at a long session, besides those that follow a failure. Chosen: a session of half an hour is looked at every second.
const LOOKS: i64 = 2000;
/// As many pods that are not well make the time between two looks longer by as much again: each is diagnosed at each look.
const CROWD: i64 = 500;
/// A pod leaves the walk's world when it has been gone for so long, ns: a verdict is about a pod that exists, and seldom
/// names one that went long ago. Chosen: an hour of a live run (`Retention`) would be the whole of most sessions, which are
/// in memory a second time.
const GONE_NS: i64 = 15 * 60 * SECOND;
/// The pods that went first leave when more than this many are gone. Chosen: for the same reason.
const GONE: usize = 500;
/// Looks between two times at which pods that are gone leave.
const LEAVE: u64 = 64;
/// After as many looks without any observation the time between them grows.
const QUIET: u32 = 60;

/// Goes through a session once and looks as it goes.
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
    next: Nanos,
    step: i64,
    until: Nanos,
    looks: u64,
}

impl Walk {
    /// A walk through what was recorded from a moment to another. `scope`: whose pods have to be known; `None` for those of
    /// all lists that are in the recording.
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
            next: from,
            step: (until.since(from) / LOOKS).clamp(LEAST_NS, MOST_NS),
            until,
            looks: 0,
        }
    }

    /// Takes the next observation, in order of arrival.
    pub fn observe(&mut self, o: &Evidence) {
        let (mut step, mut quiet) = (self.step.saturating_mul(self.crowd()), 0);
        while self.next < o.stamp.seen && self.next < self.until {
            self.look(self.next);
            quiet += 1;
            if quiet >= QUIET {
                step = step.saturating_mul(2);
            }
            self.next = self.next.plus(step);
        }
        if matches!(&o.body, Body::ClockStep(c) if c.by < 0) {
            // The clock shows times again that it showed before.
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

    /// How much longer it is between two looks because of how many pods are not well.
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

    /// What was found so far.
    pub const fn incidents(&self) -> &Incidents {
        &self.incidents
    }
    /// Whether what was found changed since this was asked last.
    pub const fn take_changed(&mut self) -> bool {
        self.incidents.take_changed()
    }
    /// How often it was looked.
    pub const fn looks(&self) -> u64 {
        self.looks
    }
    /// Time between two looks, ns: ends, and the moments from which on something was told, are known to it.
    pub const fn step(&self) -> i64 {
        self.step
    }
    /// What was known so far. A loss may be told later than it was.
    pub const fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }
    /// Looks at the end.
    pub fn finish(mut self) -> (Incidents, Knowledge) {
        self.look(self.until);
        self.knowledge.look_back(&self.hindsight);
        (self.incidents, self.knowledge)
    }
}

/// True for a failure, and for a change of a pod or node: a look follows soon after it, however long the session is.
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
