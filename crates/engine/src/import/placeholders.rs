//! Namespaces that a text does not tell, taken from the other captures.
//!
//! A table of pods without `-n` and `-A`, or an Event without its pod's description, is of a namespace that nothing around it
//! names: its objects are read with a placeholder ([`NAMESPACE`]).

use rustc_hash::FxHashMap;

use kflow_core::diagnose::signal;
use kflow_model::event::EventSeen;
use kflow_model::kind::CLAIM;
use kflow_model::{Body, ObjectRef, Observation, PodUid, Text};
use kflow_sources::kube::decode::{EARLIER, MADE_UID, NAMESPACE, ROW_UID};

/// What a placeholder stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    One(Text),
    Several,
}

/// Replaces the placeholder by the namespace of the object of that kind and name that another capture has, if all such objects
/// are of one namespace.
pub(super) fn resolve(observations: &mut [Observation]) {
    if !observations.iter().any(has_placeholder) {
        return;
    }
    let mut known: FxHashMap<(Text, Text), Told> = FxHashMap::default();
    for o in observations.iter() {
        let Some((kind, namespace, name)) = named(o) else {
            continue;
        };
        if namespace.is_empty() || is_placeholder(namespace) || name.is_empty() {
            continue;
        }
        let told = known
            .entry((kind.into(), name.clone()))
            .or_insert_with(|| Told::One(namespace.clone()));
        if *told != Told::One(namespace.clone()) {
            *told = Told::Several;
        }
    }
    name_tables(observations, &mut known);
    let claim = one_claim(observations);
    let pod = one_pod(observations);
    let find = |kind: &str, name: &Text| match known.get(&(kind.into(), name.clone())) {
        Some(Told::One(namespace)) => Some(namespace.clone()),
        _ => None,
    };
    for o in observations.iter_mut() {
        match &mut o.body {
            Body::Pod(p) if p.namespace == NAMESPACE => {
                if let Some(namespace) = find("Pod", &p.name) {
                    let uid = p.uid.as_str();
                    let made = [MADE_UID, ROW_UID].into_iter().find(|m| uid.starts_with(m));
                    if let Some(made) = made {
                        p.uid = PodUid(made_uid(made, &namespace, &p.name, uid));
                    }
                    p.namespace = namespace;
                }
            }
            Body::Event(e) if e.object.kind == CLAIM && is_placeholder(&e.object.name) => {
                if let Some(claim) = &claim {
                    e.object.namespace.clone_from(&claim.namespace);
                    e.object.name.clone_from(&claim.name);
                }
            }
            Body::Event(e) if is_of_restart(e) && is_placeholder(&e.object.name) => {
                if let Some((namespace, name, uid)) = &pod {
                    e.object.namespace.clone_from(namespace);
                    e.object.name.clone_from(name);
                    e.object.uid.clone_from(uid);
                }
            }
            Body::Event(e) if e.object.namespace == NAMESPACE => {
                if let Some(namespace) = find(&e.object.kind, &e.object.name) {
                    if e.object.uid.starts_with(MADE_UID) {
                        let uid = e.object.uid.as_str();
                        e.object.uid = made_uid(MADE_UID, &namespace, &e.object.name, uid);
                    }
                    e.object.namespace = namespace;
                }
            }
            Body::Object(x) if x.object.namespace == NAMESPACE => {
                if let Some(namespace) = find(&x.object.kind, &x.object.name) {
                    x.object.namespace = namespace;
                }
            }
            _ => {}
        }
    }
}

/// A table without a column of namespaces has rows of one namespace: that of its rows which is known is that of the others.
fn name_tables(observations: &[Observation], known: &mut FxHashMap<(Text, Text), Told>) {
    let name = |o: &Observation| match &o.body {
        Body::Pod(p) if p.namespace == NAMESPACE && p.uid.as_str().starts_with(ROW_UID) => {
            Some((Text::from("Pod"), p.name.clone()))
        }
        _ => None,
    };
    let in_table = |a: &Observation, b: &Observation| {
        a.stamp.seen == b.stamp.seen && name(a).is_some() && name(b).is_some()
    };
    for table in observations.chunk_by(in_table) {
        let names: Vec<(Text, Text)> = table.iter().filter_map(name).collect();
        let mut told: Vec<Told> = names.iter().filter_map(|n| known.get(n)).cloned().collect();
        told.dedup();
        if let [Told::One(namespace)] = told.as_slice() {
            for name in names {
                let one = Told::One(namespace.clone());
                known.entry(name).or_insert(one);
            }
        }
    }
}

/// Returns the UID that is made of these names; that of an earlier pod keeps its number.
fn made_uid(made: &str, namespace: &str, name: &str, uid: &str) -> Text {
    let number = uid.find(EARLIER).and_then(|at| uid.get(at..));
    format!("{made}{namespace}/{name}{}", number.unwrap_or_default()).into()
}

/// Returns the claim that is not bound, if the captures show one alone.
fn one_claim(observations: &[Observation]) -> Option<ObjectRef> {
    let objects = observations.iter().filter_map(|o| match &o.body {
        Body::Object(x) if x.object.kind == CLAIM => Some(x),
        _ => None,
    });
    let mut waiting = objects.filter(|x| x.fact("phase") != Some("Bound"));
    let one = &waiting.next()?.object;
    waiting
        .all(|x| x.object.name == one.name && x.object.namespace == one.namespace)
        .then(|| one.clone())
}

/// Returns the pod of which the captures tell, if it is one alone and a container of it was started again: namespace, name, UID.
fn one_pod(observations: &[Observation]) -> Option<(Text, Text, Text)> {
    let is_named = |o: &&Observation| {
        named(o).is_some_and(|(kind, _, name)| {
            kind == "Pod" && !name.is_empty() && !is_placeholder(name)
        })
    };
    let mut all = observations.iter().filter(is_named);
    let pod = all.clone().find_map(|o| match &o.body {
        Body::Pod(p) => Some(p),
        _ => None,
    })?;
    let has_restarted = pod.status.containers.iter().any(|c| c.restarts > 0);
    let is_of_it = |o: &Observation| {
        named(o)
            .is_some_and(|(_, namespace, name)| (namespace, name) == (&pod.namespace, &pod.name))
    };
    (has_restarted && all.all(is_of_it)).then(|| {
        let uid = pod.uid.as_str().into();
        (pod.namespace.clone(), pod.name.clone(), uid)
    })
}

/// True for the Event of a container that ended and is started again, or will be.
fn is_of_restart(e: &EventSeen) -> bool {
    let reason = signal::of_event(&e.reason, &e.message).map(|(reason, _)| reason);
    e.object.kind == "Pod" && e.reason == "BackOff" && reason.as_deref() == Some("CrashLoopBackOff")
}

/// True for an observation of an object whose name or namespace stays unknown, or the name of its container.
pub(super) fn has_placeholder(o: &Observation) -> bool {
    let of_node = match &o.body {
        Body::Node(n) => is_placeholder(&n.name),
        Body::Pod(p) => p.status.containers.iter().any(|c| is_placeholder(&c.name)),
        _ => false,
    };
    of_node
        || named(o)
            .is_some_and(|(_, namespace, name)| is_placeholder(namespace) || is_placeholder(name))
}

/// True for `NAMESPACE`, `POD` and the like: names of objects have no capital letters.
pub(super) fn is_placeholder(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase())
}

/// Returns the object that an observation is about: kind, namespace, name.
fn named(o: &Observation) -> Option<(&str, &Text, &Text)> {
    match &o.body {
        Body::Pod(p) => Some(("Pod", &p.namespace, &p.name)),
        Body::Event(e) => Some((e.object.kind.as_str(), &e.object.namespace, &e.object.name)),
        Body::Object(x) => Some((x.object.kind.as_str(), &x.object.namespace, &x.object.name)),
        Body::Log(l) => Some(("Pod", &l.pod.namespace, &l.pod.name)),
        _ => None,
    }
}
