//! The incidents of a session, past ones too, and where in it there is evidence: for the list of incidents and the
//! time bar.
//!
//! A [`Walk`] over a session of a million observations takes seconds: a thread makes it, and publishes what it has
//! found so far together with the moment up to which it has looked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::snapshot::ObservationLog;
use kflow_core::diagnose::{Incident, Incidents, Knowledge, Part, Subject, Walk};
use kflow_core::selection::Selection;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, Scope};

/// Number of equal parts of the range in which observations are counted.
pub const BUCKETS: usize = 512;
/// An error this long before or after an incident belongs to it, ns.
const NEAR_NS: i64 = 2 * SECOND;
/// Looks of the [`Walk`] between two publications.
const EVERY: u64 = 40;

/// The incidents of a session, as far as it was looked through.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Incidents, by begin.
    pub incidents: Arc<Vec<Incident>>,
    /// Begin and end of the session.
    pub range: (Nanos, Nanos),
    /// The moment up to which the session was looked through; `None` before the first look.
    pub upto: Option<Nanos>,
    /// The session was looked through to its end.
    pub whole: bool,
    /// How precisely the ends of incidents are known, ns.
    pub within: i64,
    /// Number of parts of old incidents that were dropped because there were too many.
    pub forgotten: usize,
    /// Number of observations in each of [`BUCKETS`] equal parts of the range. What is polled (lists of the runtime,
    /// metrics, leases) does not count.
    pub density: Arc<Vec<u32>>,
    /// Times of the users' notes.
    pub notes: Arc<Vec<Nanos>>,
    /// For which times the absence of incidents means that nothing was wrong.
    pub knowledge: Arc<Knowledge>,
}

impl Overview {
    /// Returns the incidents in observations, which are in order of arrival.
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

    /// The incidents of a live run since it began, as its pictures (ten a second at most) showed them.
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

    /// True for an error that did no harm: no incident of its pod covers its time. If it names no pod, no incident at
    /// all may cover it, or for a log line none of a node. False for what was not looked through yet, and for losses.
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
        // Components log errors that concern no pod all the time: only those of the node's own components count, and
        // only during the node's incidents.
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

    /// Returns the incident that covers a moment, if there is only one.
    pub fn only(&self, at: Nanos) -> Option<&Incident> {
        let covers = |i: &&Incident| {
            i.begin.plus(-NEAR_NS) <= at && i.end.is_none_or(|e| at <= e.plus(NEAR_NS))
        };
        let mut over = self.incidents.iter().filter(covers);
        over.next().filter(|_| over.next().is_none())
    }

    /// Returns the index in [`density`](Self::density) of a moment.
    fn bucket(range: (Nanos, Nanos), at: Nanos) -> usize {
        let length = range.1.since(range.0).max(1) as f64;
        let share = at.since(range.0) as f64 / length;
        ((share * BUCKETS as f64) as usize).min(BUCKETS - 1)
    }

    /// Returns a copy with a note that was just made.
    #[must_use]
    pub fn noted(&self, at: Nanos) -> Self {
        let mut overview = self.clone();
        Arc::make_mut(&mut overview.notes).push(at);
        overview
    }
}

/// Looks through a session; `None` when told to stop.
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

/// True for what counts as evidence: something happened, and was not merely polled again.
fn counts(o: &Observation) -> bool {
    match &o.body {
        Body::CallStart(c) => !kflow_model::cri::is_noise(&c.method),
        Body::CallEnd(c) => c.code.is_some_and(|c| c != 0),
        Body::Object(o) => o.object.kind != "Lease",
        Body::Sample(_) | Body::Inventory(_) => false,
        _ => true,
    }
}

/// A thread that looks through a session, and its last publication.
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
    /// Starts to look through a complete log. `None` when no thread can be started.
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
    /// Takes what was published since the last call.
    pub(crate) fn news(&self) -> Option<Overview> {
        self.inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
