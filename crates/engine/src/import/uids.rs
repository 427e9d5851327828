//! What kubectl does not print of pods, taken from the other captures: UIDs, in descriptions and in tables of Events, and
//! when they were created.

use rustc_hash::{FxHashMap, FxHashSet};

use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, PodUid, Text};
use kflow_sources::kube::decode::MADE_UID;

/// A description that is no further than this from the pod's JSON, ns, says nothing new of the pod.
const TOGETHER: i64 = 60 * SECOND;

/// Replaces each made UID by the last one that another capture tells for a pod of that name. Where that has the pod's
/// JSON, the time of creation is taken from there; the description itself is left out if both are of one moment. An Event
/// in a table is of the only pod that has the name, unless that was created later.
pub(super) fn resolve(observations: &mut Vec<Observation>) {
    let lacks = |o: &Observation| match &o.body {
        Body::Pod(p) => p.uid.as_str().starts_with(MADE_UID),
        Body::Event(e) => e.object.kind == "Pod" && e.object.uid.is_empty(),
        _ => false,
    };
    if !observations.iter().any(lacks) {
        return;
    }
    let mut known: FxHashMap<(Text, Text), Text> = FxHashMap::default();
    let mut reused: FxHashSet<(Text, Text)> = FxHashSet::default();
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
            let key = (namespace.clone(), name.clone());
            let before = known.insert(key.clone(), uid.into());
            if before.is_some_and(|before| before != uid) {
                reused.insert(key);
            }
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
            Body::Event(e) if e.object.kind == "Pod" && e.object.uid.is_empty() => {
                let key = (e.object.namespace.clone(), e.object.name.clone());
                if let Some(uid) = known.get(&key).filter(|_| !reused.contains(&key)) {
                    let states = complete.get(&PodUid(uid.clone()));
                    let created = states
                        .and_then(|all| all.first())
                        .map(|(_, created)| *created);
                    let end = o.stamp.at.plus(i64::from(o.stamp.precision));
                    if created.is_none_or(|created| created <= end) {
                        e.object.uid.clone_from(uid);
                    }
                }
            }
            _ => {}
        }
        true
    });
}
