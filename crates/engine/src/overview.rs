//! What was ever not well in a session, and where in it there is evidence: for the list of incidents and the bar of time.
//!
//! A [`Walk`] over a session of a million observations takes seconds: a thread makes it, and what it has found so far is
//! published on the way, with the moment up to which it has looked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::snapshot::ObservationLog;
use kflow_core::diagnose::{Incident, Incidents, Knowledge, Part, Subject, Walk};
use kflow_core::selection::Selection;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, Scope};

/// Parts of the range in which observations are counted.
pub const BUCKETS: usize = 512;
/// An error this long before or after an incident belongs to it, ns.
const NEAR_NS: i64 = 2 * SECOND;
/// Looks between two publications.
const EVERY: u64 = 40;

/// What was ever not well, as far as it was looked.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Incidents, by begin.
    pub incidents: Arc<Vec<Incident>>,
    /// From when until when the session goes.
    pub range: (Nanos, Nanos),
    /// It was looked up to this moment; `None` before it was begun.
    pub upto: Option<Nanos>,
    /// It was looked up to the end.
    pub whole: bool,
    /// How exactly ends are known, ns.
    pub within: i64,
    /// Incidents of long ago that are not kept any more: how many times at which something was told.
    pub forgotten: usize,
    /// How many observations there are in each of [`BUCKETS`] equal parts of the range: those of what is polled (lists of the
    /// runtime, metrics, leases) do not count.
    pub density: Arc<Vec<u32>>,
    /// Moments of notes.
    pub notes: Arc<Vec<Nanos>>,
    /// Of which time it can be said that nothing was wrong when no incident lies in it.
    pub knowledge: Arc<Knowledge>,
}

impl Overview {
    /// What was ever not well in observations in order of arrival.
    pub fn of<'o>(
        observations: impl IntoIterator<Item = &'o kflow_model::Evidence>,
        selection: Arc<Selection>,
        scope: Option<Scope>,
        range: (Nanos, Nanos),
    ) -> Self {
        let never = AtomicBool::new(false);
        let walk = Walk::new(selection, scope, range);
        go(walk, observations, range, &never, |_| {}).unwrap_or_default()
    }

    /// What is not well now and was since a run began, by the looks of its pictures: ten a second at most.
    pub(crate) fn remembered(
        incidents: &Incidents,
        knowledge: &Knowledge,
        range: (Nanos, Nanos),
    ) -> Self {
        Self {
            knowledge: Arc::new(knowledge.clone()),
            incidents: Arc::new(incidents.list()),
            range,
            upto: incidents.upto(),
            whole: true,
            within: SECOND,
            forgotten: incidents.forgotten(),
            ..Self::default()
        }
    }

    /// True for an error that nothing suffered from: no incident of its pod lies over its time; when it names none, no
    /// incident at all, and for a line of a log none of a node. What was not looked at yet is no such error, and neither is a
    /// loss.
    pub fn is_harmless(&self, o: &Observation, pod: Option<&str>) -> bool {
        if !matches!(o.body, Body::Log(_) | Body::CallEnd(_) | Body::Event(_)) {
            return false;
        }
        let at = o.stamp.seen;
        if self.upto.is_none_or(|u| at > u) {
            return false;
        }
        let covers = |begin: Nanos, end: Option<Nanos>| {
            begin.plus(-NEAR_NS) <= at && end.is_none_or(|e| at <= e.plus(NEAR_NS))
        };
        // A component logs errors that befall no pod all the time: the node's own count while the node stands still.
        let log = matches!(o.body, Body::Log(_));
        let suffers = |i: &Incident| match (&i.subject, pod) {
            (Subject::Node(_), _) => (!log || o.source.is_node()) && covers(i.begin, i.end),
            (_, Some(uid)) => {
                let of_it = |p: &&Part| p.verdict.uid.as_str() == uid || p.verdict.uid.is_empty();
                i.parts.iter().filter(of_it).any(|p| covers(p.begin, p.end))
            }
            (_, None) => !log && covers(i.begin, i.end),
        };
        !self.incidents.iter().any(suffers)
    }

    /// The one incident that lies over a moment, when there is no other.
    pub fn only(&self, at: Nanos) -> Option<&Incident> {
        let covers = |i: &&Incident| {
            i.begin.plus(-NEAR_NS) <= at && i.end.is_none_or(|e| at <= e.plus(NEAR_NS))
        };
        let mut over = self.incidents.iter().filter(covers);
        over.next().filter(|_| over.next().is_none())
    }

    /// The part of [`density`](Self::density) that a moment lies in.
    fn bucket(range: (Nanos, Nanos), at: Nanos) -> usize {
        let length = range.1.since(range.0).max(1) as f64;
        let share = at.since(range.0) as f64 / length;
        ((share * BUCKETS as f64) as usize).min(BUCKETS - 1)
    }

    /// With a note that was just made.
    #[must_use]
    pub fn noted(&self, at: Nanos) -> Self {
        let mut overview = self.clone();
        Arc::make_mut(&mut overview.notes).push(at);
        overview
    }
}

/// Goes through a session; `None` when it was told to stop.
fn go<'o>(
    mut walk: Walk,
    observations: impl IntoIterator<Item = &'o kflow_model::Evidence>,
    range: (Nanos, Nanos),
    stop: &AtomicBool,
    mut publish: impl FnMut(Overview),
) -> Option<Overview> {
    let mut density = vec![0_u32; BUCKETS];
    let mut notes = Vec::new();
    let mut due = EVERY;
    let within = walk.step();
    let found =
        |incidents: &Incidents, knowledge: &Knowledge, density: &[u32], notes: &[Nanos]| Overview {
            incidents: Arc::new(incidents.list()),
            range,
            upto: incidents.upto(),
            whole: false,
            within,
            forgotten: incidents.forgotten(),
            density: Arc::new(density.to_vec()),
            notes: Arc::new(notes.to_vec()),
            knowledge: Arc::new(knowledge.clone()),
        };
    for o in observations {
        walk.observe(o);
        if counts(o)
            && let Some(n) = density.get_mut(Overview::bucket(range, o.stamp.seen))
        {
            *n = n.saturating_add(1);
        }
        if matches!(o.body, Body::Note(_)) {
            notes.push(o.stamp.at);
        }
        if walk.looks() >= due {
            due = walk.looks() + EVERY;
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            publish(found(walk.incidents(), walk.knowledge(), &density, &notes));
        }
    }
    let (incidents, knowledge) = walk.finish();
    Some(Overview {
        whole: true,
        ..found(&incidents, &knowledge, &density, &notes)
    })
}

/// Counts as evidence: something happened, and was not only asked again.
fn counts(o: &Observation) -> bool {
    match &o.body {
        Body::CallStart(c) => !kflow_model::cri::is_noise(&c.method),
        Body::CallEnd(c) => c.code.is_some_and(|c| c != 0),
        Body::Object(o) => o.object.kind != "Lease",
        Body::Sample(_) | Body::Inventory(_) => false,
        _ => true,
    }
}

/// A thread that looks through a session, and what it has published last.
#[derive(Debug)]
pub(crate) struct Looking {
    inbox: Arc<Mutex<Option<Overview>>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Looking {
    /// Begins to look through a log that is whole. `None` when the system gives no thread.
    pub(crate) fn begin(
        log: ObservationLog,
        selection: Arc<Selection>,
        range: (Nanos, Nanos),
    ) -> Option<Self> {
        let looking = Self {
            inbox: Arc::default(),
            stop: Arc::default(),
        };
        let (inbox, stop) = (Arc::clone(&looking.inbox), Arc::clone(&looking.stop));
        let put =
            move |overview| *inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(overview);
        std::thread::Builder::new()
            .name("kflow-incidents".into())
            .spawn(move || {
                let walk = Walk::new(selection, None, range);
                if let Some(whole) = go(walk, log.iter(), range, &stop, &put) {
                    put(whole);
                }
            })
            .ok()?;
        Some(looking)
    }
    /// What was published since this was asked last.
    pub(crate) fn news(&self) -> Option<Overview> {
        self.inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
