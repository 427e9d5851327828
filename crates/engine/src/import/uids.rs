//! UIDs of pods that come from `kubectl describe`, which does not print them, taken from the other captures.

use rustc_hash::FxHashMap;

use kflow_model::{Body, Observation, PodUid, Text};
use kflow_sources::kube::decode::MADE_UID;

/// Replaces each made UID by the last one that another capture tells for a pod of that name.
pub(super) fn resolve(observations: &mut [Observation]) {
    let made =
        |o: &&Observation| matches!(&o.body, Body::Pod(p) if p.uid.as_str().starts_with(MADE_UID));
    if !observations.iter().any(|o| made(&o)) {
        return;
    }
    let mut known: FxHashMap<(Text, Text), Text> = FxHashMap::default();
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
    for o in observations {
        match &mut o.body {
            Body::Pod(p) if p.uid.as_str().starts_with(MADE_UID) => {
                if let Some(uid) = known.get(&(p.namespace.clone(), p.name.clone())) {
                    p.uid = PodUid(uid.clone());
                }
            }
            Body::Event(e) if e.object.uid.starts_with(MADE_UID) => {
                let key = (e.object.namespace.clone(), e.object.name.clone());
                if let Some(uid) = known.get(&key) {
                    e.object.uid.clone_from(uid);
                }
            }
            _ => {}
        }
    }
}
