//! What kubectl does not print of pods, taken from the other captures: their UIDs, when they were created, and of a
//! table's rows the container. Rows of tables give way to what says more of their objects.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use kflow_model::log::Component;
use kflow_model::pod::{Condition, PodSeen};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, PodUid, Text};
use kflow_sources::kube::decode::{EARLIER, MADE_UID, ROW_UID};

/// Captures that are no further apart than this, ns, are of one moment.
const TOGETHER: i64 = 60 * SECOND;
/// Ages up to this, ns, are printed in minutes at least, later ones in hours (k8s.io/apimachinery/pkg/util/duration/duration.go,
/// `HumanDuration`).
const IN_MINUTES: i64 = 8 * 3600 * SECOND;

/// Replaces each made UID by the last one that another capture tells for a pod of that name. Where that has the pod's
/// JSON, the time of creation is taken from there; the description itself is left out if both are of one moment.
pub(super) fn resolve(observations: &mut Vec<Observation>) {
    rows(observations);
    rows_of_others(observations);
    let made = |o: &Observation| match &o.body {
        Body::Pod(p) => is_made(p.uid.as_str()),
        Body::Event(e) => is_made(&e.object.uid),
        _ => false,
    };
    if !observations.iter().any(made) {
        return;
    }
    let mut known: FxHashMap<(Text, Text), Text> = FxHashMap::default();
    let mut complete: FxHashMap<PodUid, Vec<(Nanos, Nanos)>> = FxHashMap::default();
    for o in observations.iter() {
        if let Body::Pod(p) = &o.body
            && p.resource_version > 0
        {
            let states = complete.entry(p.uid.clone()).or_default();
            states.push((o.stamp.seen, p.created));
        }
    }
    let mut know = |namespace: &Text, name: &Text, uid: &str| {
        if !uid.is_empty() && !name.is_empty() && !uid.starts_with(MADE_UID) {
            known.insert((namespace.clone(), name.clone()), uid.into());
        }
    };
    for o in observations.iter() {
        match &o.body {
            Body::Pod(p) => know(&p.namespace, &p.name, p.uid.as_str()),
            Body::Event(e) if e.object.kind == "Pod" => {
                know(&e.object.namespace, &e.object.name, &e.object.uid);
            }
            Body::Log(l) => {
                for pod in std::iter::once(&l.pod).chain(l.more_pods.iter()) {
                    know(&pod.namespace, &pod.name, pod.uid.as_str());
                }
            }
            _ => {}
        }
    }
    observations.retain_mut(|o| {
        match &mut o.body {
            Body::Pod(p) if is_made(p.uid.as_str()) => {
                if let Some(uid) = known.get(&(p.namespace.clone(), p.name.clone())) {
                    p.uid = PodUid(uid.clone());
                }
                let states = complete.get(&p.uid).map_or(&[][..], Vec::as_slice);
                if let Some((_, created)) = states.first() {
                    p.created = *created;
                }
                return states
                    .iter()
                    .all(|(seen, _)| o.stamp.seen.since(*seen).abs() > TOGETHER);
            }
            Body::Event(e) if is_made(&e.object.uid) => {
                let key = (e.object.namespace.clone(), e.object.name.clone());
                if let Some(uid) = known.get(&key) {
                    e.object.uid.clone_from(uid);
                }
            }
            _ => {}
        }
        true
    });
}

/// True for the UID of a pod that other captures may tell: not that of an earlier one of its name.
fn is_made(uid: &str) -> bool {
    uid.starts_with(MADE_UID) && !uid.contains(EARLIER)
}

/// Drops rows of `kubectl get nodes` and `get pvc` whose object JSON or `kubectl describe` shows. A description of a node that was
/// cut before its conditions takes them from the row. Claims that stay lose the UID made here.
fn rows_of_others(observations: &mut Vec<Observation>) {
    let is_row = |o: &Observation| match &o.body {
        Body::Node(n) => n.is_row,
        Body::Object(x) => x.object.uid.starts_with(ROW_UID),
        _ => false,
    };
    let key = |o: &Observation| match &o.body {
        Body::Node(n) => Some((Text::default(), Text::default(), n.name.clone())),
        Body::Object(x) => {
            let (of, object) = (x.object.kind.clone(), &x.object);
            Some((of, object.namespace.clone(), object.name.clone()))
        }
        _ => None,
    };
    if !observations.iter().any(is_row) {
        return;
    }
    let nodes = observations.iter().filter_map(|o| match &o.body {
        Body::Node(n) if n.is_row => Some((n.name.clone(), n.conditions.clone())),
        _ => None,
    });
    let conditions: FxHashMap<Text, Vec<Condition>> = nodes.collect();
    for o in observations.iter_mut() {
        if let Body::Node(n) = &mut o.body
            && let Some(of_row) = conditions.get(&n.name)
            && n.conditions.is_empty()
            && !n.has_allocatable()
        {
            n.conditions.clone_from(of_row);
        }
    }
    let told = observations.iter().filter(|o| !is_row(o));
    let told: FxHashSet<_> = told.filter_map(key).collect();
    observations.retain(|o| !is_row(o) || key(o).is_none_or(|key| !told.contains(&key)));
    for o in observations.iter_mut().filter(|o| is_row(o)) {
        if let Body::Object(x) = &mut o.body {
            x.object.uid = Text::default();
        }
    }
}

/// What a row of `kubectl get pods` shows and `kubectl describe pod` does not.
struct Shown {
    at: Nanos,
    created: Nanos,
    /// Reason of the condition PodScheduled.
    scheduled_reason: Text,
}

impl Shown {
    fn of(o: &Observation, p: &PodSeen) -> Self {
        let scheduled = p.condition("PodScheduled");
        Self {
            at: o.stamp.seen,
            created: p.created,
            scheduled_reason: scheduled.map(|c| c.reason.clone()).unwrap_or_default(),
        }
    }

    /// Adds it to a description that was printed at `seen`, unless the row is of an earlier or a later pod: a StatefulSet makes
    /// pods of one name.
    fn add_to(&self, p: &mut PodSeen, seen: Nanos) {
        // A description without a start and Events does not tell when its pod was created: it has the moment itself.
        let is_told = p.created.0 / SECOND < seen.0 / SECOND;
        if (is_told && self.at < p.created) || self.created > seen {
            return;
        }
        p.created = p.created.min(self.created);
        let scheduled = p.status.conditions.iter_mut();
        for c in scheduled.filter(|c| c.kind == "PodScheduled" && c.reason.is_empty()) {
            c.reason.clone_from(&self.scheduled_reason);
        }
    }
}

/// What JSON or a description shows of a pod.
struct Told {
    at: Nanos,
    created: Nanos,
    is_ready: bool,
}

impl Told {
    /// True if a row, printed at `at`, shows that the same pod has become ready since. A file's time may be that of a copy; the
    /// pod's age tells that it is not, while it is one in minutes.
    fn has_become_ready(&self, row: &PodSeen, at: Nanos) -> bool {
        let is_later = at.since(self.at) > 2 * TOGETHER;
        let is_in_minutes = at.since(row.created) < IN_MINUTES;
        let is_of_file_time = row.created.since(self.created).abs() <= TOGETHER;
        is_ready(row) && !self.is_ready && is_later && is_in_minutes && is_of_file_time
    }
}

fn is_ready(p: &PodSeen) -> bool {
    p.condition("Ready").is_some_and(Condition::is_true)
}

/// Makes a table's rows descriptions of their pods. A row is dropped if there is JSON, a description or a line of the
/// kubelet's log about its pod: these have the states of all containers, and the row would override them. It stays if it shows
/// that a pod that was not ready has become so.
fn rows(observations: &mut Vec<Observation>) {
    let of_row = |p: &PodSeen| p.uid.as_str().starts_with(ROW_UID);
    let is_row = |o: &Observation| matches!(&o.body, Body::Pod(p) if of_row(p));
    if !observations.iter().any(is_row) {
        return;
    }
    let mut logged: FxHashSet<(Text, Text)> = FxHashSet::default();
    // The newest of each pod.
    let mut told: FxHashMap<(Text, Text), Told> = FxHashMap::default();
    let mut containers: FxHashMap<(Text, Text), BTreeSet<Text>> = FxHashMap::default();
    let mut shown: FxHashMap<(Text, Text), Shown> = FxHashMap::default();
    for o in observations.iter() {
        let (namespace, name, container) = match &o.body {
            Body::Pod(p) if of_row(p) => {
                let key = (p.namespace.clone(), p.name.clone());
                shown.insert(key, Shown::of(o, p));
                continue;
            }
            Body::Pod(p) if p.uid.as_str().contains(EARLIER) => continue,
            Body::Pod(p) => {
                let state = Told {
                    at: o.stamp.seen,
                    created: p.created,
                    is_ready: is_ready(p),
                };
                let key = (p.namespace.clone(), p.name.clone());
                if told.get(&key).is_none_or(|t| t.at <= state.at) {
                    told.insert(key, state);
                }
                continue;
            }
            Body::Event(e) => (&e.object.namespace, &e.object.name, &e.container),
            Body::Log(l) if l.component != Component::Kubelet => {
                (&l.pod.namespace, &l.pod.name, &*l.container)
            }
            Body::Log(l) => {
                for pod in std::iter::once(&l.pod).chain(l.more_pods.iter()) {
                    logged.insert((pod.namespace.clone(), pod.name.clone()));
                }
                continue;
            }
            _ => continue,
        };
        if !container.is_empty() {
            let of_pod = containers.entry((namespace.clone(), name.clone()));
            of_pod.or_default().insert(container.clone());
        }
    }
    observations.retain_mut(|o| {
        let seen = o.stamp.seen;
        let Body::Pod(p) = &mut o.body else {
            return true;
        };
        let key = (p.namespace.clone(), p.name.clone());
        if !of_row(p) {
            let is_earlier = p.uid.as_str().contains(EARLIER);
            if let Some(row) = shown
                .get(&key)
                .filter(|_| p.resource_version == 0 && !is_earlier)
            {
                row.add_to(p, seen);
            }
            return true;
        }
        p.uid = PodUid(format!("{MADE_UID}{}/{}", key.0, key.1).into());
        // The only container that anything tells of is the one that the status is about.
        let mut names = containers.get(&key).into_iter().flatten();
        if let (Some(name), None) = (names.next(), names.next()) {
            let of_status = p.status.containers.iter_mut().map(|c| &mut c.name);
            let of_spec = p.spec.containers.iter_mut().map(|c| &mut c.name);
            for unnamed in of_status.chain(of_spec) {
                unnamed.clone_from(name);
            }
        }
        let is_news = told.get(&key).is_none_or(|t| t.has_become_ready(p, seen));
        is_news && !logged.contains(&key)
    });
}
