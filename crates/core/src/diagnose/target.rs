//! What a user can ask about: a pod, an owner that creates pods, a claim that pods mount, or a node.

use super::{Verdict, rules, why, why_node, why_owner};
use crate::correlate::owners::{kind_of, kinds, makes_pods};
use crate::correlate::{NodeState, ObjectState, Pod, PodView, Presence, World};
use crate::suggest::suggest;
use kflow_model::kind::{self, AUTOSCALER, BUDGET, CLAIM, NAMESPACE, NODE};
use kflow_model::scope::pod_asked;
use kflow_model::{Nanos, ObjectRef};

/// The object that a user asked about.
#[derive(Clone, Debug)]
pub enum Target<'w> {
    Pod(&'w Pod),
    /// An owner and the pods that it has or had, or a claim and the pods that mount it.
    Owner(&'w ObjectState, Vec<&'w Pod>),
    /// A node by name, and its pods.
    Node(&'w str, Vec<&'w Pod>),
}

impl<'w> Target<'w> {
    /// Returns the verdict on the pod, owner or node itself.
    pub fn verdict(&self, world: &World, now: Nanos) -> Option<Verdict> {
        match self {
            Self::Pod(p) => why(world, p, now),
            Self::Owner(o, _) => why_owner(world, &o.object, now),
            Self::Node(name, _) => why_node(world, name, now),
        }
    }
    /// Returns the pod, or the pods of an owner, claim or node, also those that are gone; oldest first.
    pub fn pods(&self) -> &[&'w Pod] {
        match self {
            Self::Pod(p) => std::slice::from_ref(p),
            Self::Owner(_, pods) | Self::Node(_, pods) => pods,
        }
    }
}

/// Words for kinds that have no pods of their own.
const WITHOUT_PODS: [&str; 15] = [
    "cm",
    "configmap",
    "endpoints",
    "ing",
    "ingress",
    "netpol",
    "networkpolicy",
    "pv",
    "quota",
    "resourcequota",
    "sa",
    "sc",
    "secret",
    "service",
    "svc",
];

/// True if a word stands for a kind that has no pods of its own.
pub(super) fn has_no_pods(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    WITHOUT_PODS.iter().any(|w| *w == lower || *w == singular)
}

/// Returns the word for a kind with pods that a word is closest to.
pub(super) fn near_kind(word: &str) -> Option<&'static str> {
    let words = kinds().flat_map(|(_, words)| words.iter().copied());
    suggest(word, words.chain(["pod", "node"]), |w| w)
        .into_iter()
        .next()
}

/// Finds what a query names among the selected objects, newest first. A query is `ns/name`, `name`, `pod/name`,
/// `pod/ns/name`, `node/name`, `kind/name`, `ns/kind/name`, `kind/ns/name` or a UID. An owner is found also when it has no pod.
/// A name that no pod has may be that of what makes pods, of a node or of a namespace.
pub fn find<'w>(world: &'w World, query: &str) -> Vec<Target<'w>> {
    if let Some(name) = node_asked(query) {
        // A namespace can have the name of a kind: `no/NAME`.
        let node = node(world, name);
        return node.map_or_else(|| pods_named(world, query), |node| vec![node]);
    }
    let Some((of, kind, name)) = owner_asked(query) else {
        let mut found = pods_named(world, query);
        if found.is_empty() {
            found = of_another_kind(world, query);
        }
        if found.is_empty() {
            found = without_kind(world, query);
        }
        return found;
    };
    let within = |ns: &str| of.is_none_or(|of| of == ns) && world.selection().admits_namespace(ns);
    let mut out: Vec<Target<'w>> = world
        .objects()
        .into_iter()
        .filter(|o| o.object.kind == kind && o.object.name == name && within(place(&o.object)))
        .map(|o| Target::Owner(o, pods_of(world, &o.object)))
        .collect();
    // An owner that is not known as an object may be known from its pods.
    if out.is_empty() {
        let pods = world.pods().iter().rev();
        let of_it = pods.filter(|p| within(&p.namespace) && belongs(p, kind, name));
        out.extend(of_it.map(Target::Pod));
    }
    // A namespace can have the name of a kind: `jobs/NAME`.
    if out.is_empty() {
        out = pods_named(world, query);
    }
    out
}

/// Returns the pods that a query names. Of a pod that was made anew under its name, the one that is there is meant.
fn pods_named<'w>(world: &'w World, query: &str) -> Vec<Target<'w>> {
    let pods = world.find(query);
    let there = |p: &Pod| {
        let alike = |o: &&&Pod| o.name == p.name && o.namespace == p.namespace;
        pods.iter().filter(alike).any(|o| o.gone.is_none())
    };
    let meant = pods.iter().filter(|p| p.gone.is_none() || !there(p));
    meant.copied().map(Target::Pod).collect()
}

/// Returns the owners that a query `kind/name` or `ns/kind/name` names, of a kind that is not Kubernetes' own: those that
/// have pods, cannot create them, or are suspended.
fn of_another_kind<'w>(world: &'w World, query: &str) -> Vec<Target<'w>> {
    let Some((front, name)) = query.rsplit_once('/') else {
        return Vec::new();
    };
    let (of, word) = match front.split_once('/') {
        Some((ns, word)) => (Some(ns), word),
        None => (None, front),
    };
    let within = |ns: &str| of.is_none_or(|of| of == ns) && world.selection().admits_namespace(ns);
    let is_kind = |kind: &str| {
        let singular = word.strip_suffix('s').unwrap_or(word);
        kind.eq_ignore_ascii_case(word) || kind.eq_ignore_ascii_case(singular)
    };
    let mut objects = world.objects();
    objects.retain(|o| {
        is_kind(&o.object.kind)
            && o.object.name == name
            && within(&o.object.namespace)
            && (!o.pods.is_empty() || rules::cannot_create(o) || rules::is_suspended_set(o))
    });
    let owner = |o| Target::Owner(o, pods_of(world, &o.object));
    objects.into_iter().map(owner).collect()
}

/// Returns what a query `name` or `ns/name` that names no pod may mean: what makes pods, else a node, else a namespace.
fn without_kind<'w>(world: &'w World, query: &str) -> Vec<Target<'w>> {
    // Of several pods whose UIDs begin so, one may be meant.
    if pod_asked(query) != query || world.of_uid_begin(query).next().is_some() {
        return Vec::new();
    }
    let (of, name) = match query.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, query),
    };
    let within = |ns: &str| of.is_none_or(|of| of == ns) && world.selection().admits_namespace(ns);
    let mut owners = world.objects();
    owners.retain(|o| {
        makes_pods(&o.object.kind) && o.object.name == name && within(&o.object.namespace)
    });
    if of.is_some() || !owners.is_empty() {
        let owner = |o| Target::Owner(o, pods_of(world, &o.object));
        return owners.into_iter().map(owner).collect();
    }
    match node(world, name) {
        Some(node) => vec![node],
        None => find(world, &format!("{NAMESPACE}/{name}")),
    }
}

/// Returns namespace, kind and name of a query `kind/name`, `ns/kind/name` or `kind/ns/name` for an owner of pods or a claim.
pub fn owner_asked(query: &str) -> Option<(Option<&str>, &'static str, &str)> {
    // `pod/ns/name` is a pod, also when the namespace has the name of a kind.
    let (first, rest) = query
        .split_once('/')
        .filter(|_| pod_asked(query) == query)?;
    match rest.split_once('/') {
        Some((second, name)) => {
            let after = kind_of(second).map(|k| (Some(first), k, name));
            after.or_else(|| kind_of(first).map(|k| (Some(second), k, name)))
        }
        None => kind_of(first).map(|k| (None, k, rest)),
    }
}

/// Returns the name in a query `node/name`.
pub fn node_asked(query: &str) -> Option<&str> {
    let (kind, name) = query.split_once('/')?;
    (kind::of_word(kind) == Some(NODE)).then_some(name)
}

/// Returns a node that exists, or that pods are bound to.
fn node<'w>(world: &'w World, name: &str) -> Option<Target<'w>> {
    let pods = world.pods().iter().filter(|p| p.node == name);
    let pods: Vec<&Pod> = pods.collect();
    let missing = matches!(world.presence(name), Presence::Missing { .. });
    let known = world.node(name).filter(|_| !missing);
    let bound = || pods.iter().find(|p| p.gone.is_none());
    let name = known
        .map(|n: &NodeState| n.name.as_str())
        .or_else(|| bound().map(|p| p.node.as_str()))?;
    Some(Target::Node(name, pods))
}

/// Returns the namespace that a query names: for `ns/name`, `pod/ns/name`, `ns/kind/name` and `kind/ns/name`; `None` for
/// `kind/name`, `name` and a UID.
pub fn namespace_of(query: &str) -> Option<&str> {
    let (namespace, _) = pod_asked(query).split_once('/')?;
    match owner_asked(query) {
        Some((of, ..)) => of,
        None => node_asked(query).is_none().then_some(namespace),
    }
}

/// The namespace that an object is in: a Namespace is in itself.
pub(super) fn place(o: &ObjectRef) -> &str {
    match o.kind.as_str() {
        NAMESPACE => &o.name,
        _ => &o.namespace,
    }
}

/// Returns the pods of an owner, those that mount a claim, that are in a namespace, that an autoscaler scales or that a budget
/// selects, also those that are gone; oldest first.
pub fn pods_of<'w>(world: &'w World, owner: &ObjectRef) -> Vec<&'w Pod> {
    let object = || world.object(&owner.kind, &owner.namespace, &owner.name);
    let pods = world.pods().iter();
    let within = pods.filter(|p| p.namespace == place(owner));
    match owner.kind.as_str() {
        AUTOSCALER => {
            let target = object().and_then(rules::scale::target_of);
            target.map_or_else(Vec::new, |target| pods_of(world, &target))
        }
        BUDGET => {
            let Some(selects) = object().and_then(rules::budget::Budget::of) else {
                return Vec::new();
            };
            within.filter(|p| selects.has(p)).collect()
        }
        kind => within.filter(|p| belongs(p, kind, &owner.name)).collect(),
    }
}

fn belongs(pod: &PodView, kind: &str, name: &str) -> bool {
    match kind {
        CLAIM => mounts(pod, name),
        NAMESPACE => pod.namespace == name,
        _ => {
            let mut owners = pod.owners.iter();
            owners.any(|o| o.kind == kind && o.name == name)
        }
    }
}

/// Returns the namespace in a query `ns/NAME`.
pub fn namespace_asked(query: &str) -> Option<&str> {
    match owner_asked(query)? {
        (None, NAMESPACE, name) => Some(name),
        _ => None,
    }
}

/// True for a pod with a volume from this claim.
pub(super) fn mounts(pod: &PodView, claim: &str) -> bool {
    pod.api.as_ref().is_some_and(|api| {
        let mut volumes = api.spec.volumes.iter();
        volumes.any(|v| v.claim(&pod.name).is_some_and(|c| c == claim))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::pod::PodSeen;
    use kflow_model::{Body, Observation, PodUid, Source, Stamp};
    use std::sync::Arc;

    /// Invented: no recording has namespaces of these names.
    #[test]
    fn a_namespace_can_have_the_name_of_any_kind() {
        let words = kinds().flat_map(|(_, words)| words.iter().copied());
        for word in words.chain(["no", "node", "nodes", "po", "pod", "pods"]) {
            let mut world = World::new();
            world.observe(&Arc::new(Observation {
                stamp: Stamp::exact(Nanos(1)),
                source: Source::Kube,
                body: Body::Pod(Box::new(PodSeen {
                    namespace: word.into(),
                    name: "web-0".into(),
                    uid: PodUid::from("u"),
                    ..PodSeen::default()
                })),
            }));
            world.refresh();
            let found = find(&world, &format!("{word}/web-0"));
            let names = found.iter().flat_map(Target::pods).map(|p| p.key());
            assert_eq!(names.collect::<Vec<_>>(), [format!("{word}/web-0")]);
        }
    }
}
