//! What a stretch of a session needs of the time before it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::gap::WatchKind;
use crate::pod::WatchEvent::Deleted;
use crate::scope::covers;
use crate::stamp::SECOND;
use crate::{Body, Evidence, Source, Text};

/// How many calls in flight are carried. A runtime has some dozens in flight at a time; besides these, calls whose end
/// the tap lost accumulate. When there are more, the older half is dropped.
const CALLS: usize = 4096;
/// How long a deletion is carried, ns. The kubelet logs a pod for seconds after its deletion; without the deletion the
/// world would create the pod anew from these lines.
const TRAIL: i64 = 600 * SECOND;
/// How many deletions are carried at most.
const GONE: usize = 512;

/// The newest state of everything that exists, the newest complete lists, and the beginnings of what has not ended. The
/// later files of a rotated recording, a recording that is begun late, and a picture of the past begin with these.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// Each with the number of its arrival.
    newest: BTreeMap<Carry, (u64, Evidence)>,
    taken: u64,
    calls: usize,
    /// The newest Event about each object (its UID) with each reason. Together they stand for a list of Events.
    events: BTreeMap<(Text, Text), (u64, Evidence)>,
    /// Number of Events at which expired ones are next removed.
    many: usize,
    /// The newest deletions of pods, oldest first.
    gone: VecDeque<(u64, Evidence)>,
}

/// How long the apiserver keeps an Event that does not recur, ns (kube-apiserver's `--event-ttl`, 1 h by default).
const EVENT: i64 = 3600 * SECOND;
/// Expired Events are removed only when there are more than this many.
const MANY: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carry {
    Node(Text),
    Object(Text, Text, Text),
    Pod(Text),
    /// Resource, scope; true for the end of a list, false for its beginning.
    List(Text, Text, bool),
    /// Resource, scope of a list or watch that fails, until it works again; true for its newest failure,
    /// false for its first.
    Failing(Text, Text, bool),
    /// The newest loss of data from the apiserver, by kind of object: older lists are not complete.
    Lost(Text),
    Conn(u32),
    Call(u32, u32),
    Inventory(bool),
}

impl Carried {
    /// Takes an observation that the stretch itself does not contain. They have to come in order of arrival.
    pub fn take(&mut self, o: Evidence) {
        self.taken += 1;
        let (key, ended) = match &o.body {
            Body::Pod(p) => (Carry::Pod(p.uid.0.clone()), p.event == Deleted),
            Body::Node(n) => (Carry::Node(n.name.clone()), n.event == Deleted),
            Body::Object(b) => (
                Carry::Object(
                    b.object.kind.clone(),
                    b.object.namespace.clone(),
                    b.object.name.clone(),
                ),
                b.event == Deleted,
            ),
            Body::Watch(n) => {
                let failing = |newest| Carry::Failing(n.resource.clone(), n.scope.clone(), newest);
                match n.kind {
                    WatchKind::Broken => {
                        let first = self.newest.entry(failing(false));
                        first.or_insert_with(|| (self.taken, Arc::clone(&o)));
                        (failing(true), false)
                    }
                    WatchKind::Bookmark => {
                        self.newest.remove(&failing(false));
                        (failing(true), true)
                    }
                    WatchKind::ListBegin | WatchKind::ListEnd => {
                        let end = n.kind == WatchKind::ListEnd;
                        if end {
                            self.newest.remove(&failing(false));
                            self.newest.remove(&failing(true));
                            self.listed(&n.resource, &n.scope);
                        }
                        (Carry::List(n.resource.clone(), n.scope.clone(), end), false)
                    }
                }
            }
            Body::Conn(c) if !c.open => {
                self.newest
                    .retain(|k, _| !matches!(k, Carry::Call(conn, _) if *conn == c.conn));
                let is_call = |k: &&Carry| matches!(k, Carry::Call(..));
                self.calls = self.newest.keys().filter(is_call).count();
                (Carry::Conn(c.conn), true)
            }
            Body::Conn(c) => (Carry::Conn(c.conn), false),
            Body::CallStart(c) => (Carry::Call(c.key.conn, c.key.stream), false),
            Body::CallEnd(c) => (Carry::Call(c.key.conn, c.key.stream), true),
            Body::Gap(g) if matches!(g.of, Source::Kube | Source::Kflow) => {
                (Carry::Lost(g.resource.clone()), false)
            }
            Body::Event(e) => {
                let key = (e.object.uid.clone(), e.reason.clone());
                self.event(key, o);
                return;
            }
            Body::Inventory(i) if i.complete => (Carry::Inventory(i.sandboxes), false),
            _ => return,
        };
        let is_call = matches!(key, Carry::Call(..));
        let before = if ended {
            match &o.body {
                Body::Pod(p) => {
                    self.forget_events(&p.uid.0);
                    self.trail(&o);
                }
                Body::Object(b) => self.forget_events(&b.object.uid),
                _ => {}
            }
            self.newest.remove(&key)
        } else {
            self.newest.insert(key, (self.taken, o))
        };
        if is_call {
            self.calls += usize::from(!ended);
            self.calls -= usize::from(before.is_some());
            self.bound_calls();
        }
    }

    /// Removes the pods that a complete list would contain and that have not been seen since the list
    /// began: they are gone.
    fn listed(&mut self, resource: &Text, scope: &Text) {
        let begin = Carry::List(resource.clone(), scope.clone(), false);
        let Some((begun, _)) = self.newest.get(&begin).filter(|_| resource == "pods") else {
            return;
        };
        let begun = *begun;
        self.newest.retain(|_, (n, o)| match &o.body {
            Body::Pod(p) if *n < begun => !covers(scope, &p.namespace, &p.spec.node, &p.name),
            _ => true,
        });
    }

    /// Keeps the deletion of a pod.
    fn trail(&mut self, o: &Evidence) {
        self.gone.push_back((self.taken, Arc::clone(o)));
        let old = |(_, first): &(u64, Evidence)| o.stamp.seen.since(first.stamp.seen) > TRAIL;
        while self.gone.len() > GONE || self.gone.front().is_some_and(old) {
            self.gone.pop_front();
        }
    }

    fn bound_calls(&mut self) {
        if self.calls <= CALLS {
            return;
        }
        let is_call = |k: &Carry| matches!(k, Carry::Call(..));
        let all = self.newest.iter().filter(|(k, _)| is_call(k));
        let mut arrivals: Vec<u64> = all.map(|(_, (n, _))| *n).collect();
        let (_, middle, _) = arrivals.select_nth_unstable(CALLS / 2);
        let middle = *middle;
        self.newest.retain(|k, (n, _)| !is_call(k) || *n > middle);
        self.calls = self.newest.keys().filter(|k| is_call(k)).count();
    }

    fn event(&mut self, key: (Text, Text), o: Evidence) {
        let now = o.stamp.seen;
        self.events.insert(key, (self.taken, o));
        if self.events.len() > self.many.max(MANY) {
            self.events
                .retain(|_, (_, o)| now.since(o.stamp.seen) < EVENT);
            self.many = self.events.len() * 2;
        }
    }

    fn forget_events(&mut self, uid: &Text) {
        let from = (uid.clone(), Text::default());
        let of_it = self.events.range(from..).take_while(|((u, _), _)| u == uid);
        let keys: Vec<(Text, Text)> = of_it.map(|(k, _)| k.clone()).collect();
        for k in keys {
            self.events.remove(&k);
        }
    }

    /// Returns the carried observations in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &Evidence> {
        let stands = self.newest.values().chain(self.events.values());
        let mut all: Vec<&(u64, Evidence)> = stands.chain(&self.gone).collect();
        all.sort_unstable_by_key(|(n, _)| *n);
        all.into_iter().map(|(_, o)| o)
    }

    /// True when nothing is carried.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of carried observations.
    pub fn len(&self) -> usize {
        self.newest.len() + self.events.len() + self.gone.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gap::WatchNote;
    use crate::pod::PodSeen;
    use crate::{Nanos, Observation, Source, Stamp};
    use serde_json::json;
    use std::sync::Arc;

    fn take(all: &mut Carried, body: Body) {
        all.take(Arc::new(Observation {
            // Arrival orders them, not the clock.
            stamp: Stamp::exact(Nanos(1)),
            source: Source::Kube,
            body,
        }));
    }

    fn pod(all: &mut Carried, name: &str, node: &str) {
        let mut p = PodSeen {
            name: name.into(),
            uid: name.into(),
            ..PodSeen::default()
        };
        p.spec.node = node.into();
        take(all, Body::Pod(Box::new(p)));
    }

    fn list(all: &mut Carried, scope: &str, kind: WatchKind) {
        let n = WatchNote {
            resource: "pods".into(),
            kind,
            scope: scope.into(),
            detail: Text::default(),
            failure: None,
        };
        take(all, Body::Watch(Box::new(n)));
    }

    fn pods(all: &Carried) -> Vec<String> {
        all.iter()
            .filter_map(|o| match &o.body {
                Body::Pod(p) => Some(p.name.to_string()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_pod_that_a_complete_list_lacks_is_carried_no_more() {
        let mut all = Carried::default();
        for name in ["stays", "goes"] {
            pod(&mut all, name, "node1");
        }
        pod(&mut all, "elsewhere", "node2");
        list(&mut all, "spec.nodeName=node1", WatchKind::ListBegin);
        pod(&mut all, "stays", "node1");
        assert_eq!(pods(&all), ["goes", "elsewhere", "stays"]);
        list(&mut all, "spec.nodeName=node1", WatchKind::ListEnd);
        assert_eq!(pods(&all), ["elsewhere", "stays"]);
        // A list that has only begun removes nothing.
        list(&mut all, "", WatchKind::ListBegin);
        assert_eq!(pods(&all).len(), 2);
        list(&mut all, "", WatchKind::ListEnd);
        assert!(pods(&all).is_empty());
    }

    #[test]
    fn calls_whose_end_was_lost_are_bounded() {
        let mut all = Carried::default();
        let most = u32::try_from(CALLS).unwrap();
        for stream in 0..5 * most {
            let call = json!({"c": 1, "s": stream, "svc": "runtime", "m": "StopContainer"});
            take(
                &mut all,
                Body::CallStart(serde_json::from_value(call).unwrap()),
            );
            // Every second call ends.
            if stream % 2 == 1 {
                let end = json!({"c": 1, "s": stream, "how": "status"});
                take(
                    &mut all,
                    Body::CallEnd(serde_json::from_value(end).unwrap()),
                );
            }
            assert!(all.len() <= CALLS);
        }
        assert_eq!(all.calls, all.len());
        let newest = all.iter().last().map(|o| o.body.clone());
        assert!(matches!(newest, Some(Body::CallStart(c)) if c.key.stream == 5 * most - 2));
    }
}
