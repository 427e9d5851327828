//! What kubectl does not print of pods, taken from the other captures: their UIDs, when they were created, and of a
//! table's rows the container. Rows of tables give way to what says more of their objects.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use kflow_model::log::Component;
use kflow_model::pod::PodSeen;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, PodUid, Text};
use kflow_sources::kube::decode::{MADE_UID, ROW_UID};

/// A description that is no further than this from the pod's JSON, ns, says nothing new of the pod.
const TOGETHER: i64 = 60 * SECOND;

/// Replaces each made UID by the last one that another capture tells for a pod of that name. Where that has the pod's
/// JSON, the time of creation is taken from there; the description itself is left out if both are of one moment.
pub(super) fn resolve(observations: &mut Vec<Observation>) {
    rows(observations);
    rows_of_others(observations);
    let made =
        |o: &Observation| matches!(&o.body, Body::Pod(p) if p.uid.as_str().starts_with(MADE_UID));
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
            Body::Pod(p) if p.uid.as_str().starts_with(MADE_UID) => {
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
            Body::Event(e) if e.object.uid.starts_with(MADE_UID) => {
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

/// Drops rows of `kubectl get nodes` and `get pvc` whose object JSON or `kubectl describe` shows. Claims that stay lose the UID
/// made here.
fn rows_of_others(observations: &mut Vec<Observation>) {
    let is_row = |o: &Observation| match &o.body {
        Body::Node(n) => n.is_row(),
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
    unscheduled: Text,
}

impl Shown {
    fn of(o: &Observation, p: &PodSeen) -> Self {
        let scheduled = p.condition("PodScheduled");
        Self {
            at: o.stamp.seen,
            created: p.created,
            unscheduled: scheduled.map(|c| c.reason.clone()).unwrap_or_default(),
        }
    }

    /// Adds it to a description, unless the row is older than the described pod: a StatefulSet makes pods of one name.
    fn add_to(&self, p: &mut PodSeen) {
        if self.at < p.created {
            return;
        }
        p.created = p.created.min(self.created);
        let scheduled = p.status.conditions.iter_mut();
        for c in scheduled.filter(|c| c.kind == "PodScheduled" && c.reason.is_empty()) {
            c.reason.clone_from(&self.unscheduled);
        }
    }
}

/// Makes a table's rows descriptions of their pods. A row is dropped if there is JSON, a description or a line of the
/// kubelet's log about its pod: these have the states of all containers, and the row would override them.
fn rows(observations: &mut Vec<Observation>) {
    let of_row = |p: &PodSeen| p.uid.as_str().starts_with(ROW_UID);
    let is_row = |o: &Observation| matches!(&o.body, Body::Pod(p) if of_row(p));
    if !observations.iter().any(is_row) {
        return;
    }
    let mut told: FxHashSet<(Text, Text)> = FxHashSet::default();
    let mut containers: FxHashMap<(Text, Text), BTreeSet<Text>> = FxHashMap::default();
    let mut shown: FxHashMap<(Text, Text), Shown> = FxHashMap::default();
    for o in observations.iter() {
        let (namespace, name, container) = match &o.body {
            Body::Pod(p) if of_row(p) => {
                let key = (p.namespace.clone(), p.name.clone());
                shown.insert(key, Shown::of(o, p));
                continue;
            }
            Body::Pod(p) => {
                told.insert((p.namespace.clone(), p.name.clone()));
                continue;
            }
            Body::Event(e) => (&e.object.namespace, &e.object.name, &e.container),
            Body::Log(l) if l.component != Component::Kubelet => {
                (&l.pod.namespace, &l.pod.name, &*l.container)
            }
            Body::Log(l) => {
                for pod in std::iter::once(&l.pod).chain(l.more_pods.iter()) {
                    told.insert((pod.namespace.clone(), pod.name.clone()));
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
        let Body::Pod(p) = &mut o.body else {
            return true;
        };
        let key = (p.namespace.clone(), p.name.clone());
        if !of_row(p) {
            if let Some(row) = shown.get(&key).filter(|_| p.resource_version == 0) {
                row.add_to(p);
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
        !told.contains(&key)
    });
}
