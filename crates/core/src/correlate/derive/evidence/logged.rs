//! The kubelet's Events, which its log repeats.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::flow::{Fact, Line};
use kflow_model::{Body, Evidence, Nanos, event::EventSeen, stamp::MILLI};
use rustc_hash::{FxHashMap, FxHashSet};

/// The kubelet's Events as its log has them.
#[derive(Debug, Default)]
pub(crate) struct Logged<'a> {
    /// By time, without those that the API tells: every one of a reason and container that a watch showed, and those of
    /// a list that occurred once.
    events: Vec<(&'a Evidence, EventSeen)>,
    /// Events of a list that occurred several times, the last time in `events`. Such an Event has no other time than
    /// that, so the log says more.
    summed: Vec<&'a Evidence>,
}

/// Longest time between an Event and the line of the kubelet's log that repeats it, ns.
const LOGGED: i64 = 100 * MILLI;

impl<'a> Logged<'a> {
    pub(crate) fn of(lines: &[(&'a Evidence, Line<'a>)], evidence: &'a [Evidence]) -> Self {
        if !lines.iter().any(|(_, l)| l.fact() == Fact::EventLogged) {
            return Self::default();
        }
        let key = |e: &'a EventSeen| (e.reason.as_str(), e.container.as_str());
        let told = || {
            evidence.iter().filter_map(|o| match &o.body {
                Body::Event(e) => Some((o, &**e)),
                _ => None,
            })
        };
        let watched = told().filter(|(_, e)| !e.listed).map(|(_, e)| key(e));
        let watched: FxHashSet<(&str, &str)> = watched.collect();
        let mut events: Vec<Option<(&Evidence, EventSeen)>> = Vec::new();
        let mut places: FxHashMap<(&str, &str), Vec<usize>> = FxHashMap::default();
        for (o, line) in lines {
            let Some(e) = line.event() else { continue };
            if watched.contains(&(e.reason, e.container)) {
                continue;
            }
            let of_key = places.entry((e.reason, e.container)).or_default();
            of_key.push(events.len());
            let seen = EventSeen {
                reason: e.reason.into(),
                message: e.message.into(),
                container: e.container.into(),
                warning: e.warning,
                count: 1,
                component: "kubelet".into(),
                ..EventSeen::default()
            };
            events.push(Some((*o, seen)));
        }
        let mut summed = Vec::new();
        for (o, e) in told() {
            let places = places.get(&key(e)).map_or(&[][..], Vec::as_slice);
            let at = |i: &&usize| events.get(**i).and_then(Option::as_ref);
            let same = |i: &&usize| at(i).is_some_and(|(line, _)| is_same(line, o));
            let worded = |i: &&usize| at(i).is_some_and(|(_, l)| l.message == e.message);
            let near = || places.iter().filter(same);
            let Some(logged) = (near().find(worded).or_else(|| near().next_back()))
                .and_then(|i| events.get_mut(*i))
            else {
                continue;
            };
            if e.count > 1 {
                summed.push(o);
                if let Some((_, logged)) = logged {
                    logged.count = e.count;
                    logged.first = e.first;
                }
            } else {
                *logged = None;
            }
        }
        let events = events.into_iter().flatten().collect();
        Self { events, summed }
    }
    /// Adds the Events of the API, each once: a recorder that restarts its watch lists Events again.
    pub(super) fn with(
        &'a self,
        told: Vec<(&'a Evidence, &'a EventSeen)>,
    ) -> Vec<(&'a Evidence, &'a EventSeen)> {
        let mut events: Vec<_> = self.events.iter().map(|(o, e)| (*o, e)).collect();
        let mut places: FxHashMap<(&str, u32, Nanos), usize> = FxHashMap::default();
        for (o, e) in told {
            if self.summed.iter().any(|x| Arc::ptr_eq(x, o)) {
                continue;
            }
            if e.name.is_empty() {
                events.push((o, e));
                continue;
            }
            match places.entry((&e.name, e.count, o.stamp.at)) {
                Entry::Vacant(new) => {
                    new.insert(events.len());
                    events.push((o, e));
                }
                Entry::Occupied(known) => {
                    if let Some(known) = events.get_mut(*known.get())
                        && known.1.listed
                        && !e.listed
                    {
                        *known = (o, e);
                    }
                }
            }
        }
        if !self.events.is_empty() {
            events.sort_by_key(|(o, _)| o.stamp.at);
        }
        events
    }
}

/// True for a line of the kubelet's log that tells the last occurrence of an Event.
fn is_same(line: &Evidence, event: &Evidence) -> bool {
    let (line, event) = (line.stamp.at, event.stamp);
    event.at.plus(-LOGGED) <= line && line <= event.until().plus(LOGGED)
}
