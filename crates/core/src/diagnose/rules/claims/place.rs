//! What the scheduler means when it says of volumes why no node will do: from which nodes they can be used, what the volumes of a
//! class lack, and which pod has a claim.

use super::{claim, claims_of, name, users_in_words, volume_of, waiting};
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::rules::Context;
use crate::diagnose::text::list;
use crate::selection::LabelSelector;
use kflow_model::Text;
use kflow_model::node::NodeSeen;
use kflow_model::object::ObjectSeen;
use kflow_model::pod::PodSeen;
use kflow_model::units::counted;

/// The nodes that are known.
pub(in crate::diagnose::rules) struct Nodes<'n> {
    pub(in crate::diagnose::rules) known: Vec<&'n NodeSeen>,
    /// There are no others.
    pub(in crate::diagnose::rules) all: bool,
}

/// The nodes from which a volume can be used, by the node affinity of the PersistentVolume.
struct Place<'v>(&'v str);

impl<'v> Place<'v> {
    /// Returns `None` for a volume that can be used from anywhere, or of which that is not known.
    fn of(volume: &'v ObjectSeen) -> Option<Self> {
        volume.fact("nodeAffinity").map(Self)
    }
    fn has(&self, node: &NodeSeen) -> bool {
        // Of several terms one has to hold.
        let mut terms = self.0.split(" or ").filter_map(LabelSelector::parse);
        terms.any(|t| t.fits(&node.labels))
    }
    fn is_nowhere(&self, nodes: &Nodes<'_>) -> bool {
        nodes.all && !nodes.known.iter().any(|n| self.has(n))
    }
    /// `it can only be used from nodes with zone=a, which node2 has`
    fn in_words(&self, nodes: &Nodes<'_>) -> String {
        let has = nodes.known.iter().filter(|n| self.has(n));
        let has: Vec<&Text> = has.map(|n| &n.name).collect();
        let which = match has.as_slice() {
            _ if self.is_nowhere(nodes) => ", and no node has that".to_owned(),
            [] => String::new(),
            [one] => format!(", which {one} has"),
            many => format!(", which {} have", list(many)),
        };
        format!("can only be used from nodes with {}{which}", self.0)
    }
}

/// Adds to a clause of the scheduler about volumes what the pod's claims, their volumes and the nodes show.
pub(in crate::diagnose::rules) fn explain(
    cx: Context<'_>,
    pod: &PodSeen,
    nodes: &Nodes<'_>,
    x: &mut Finding<'_>,
) {
    let claims = claims_of(pod);
    let of_it = match x.cause.id {
        cause::KF216 => elsewhere(cx, pod, &claims, nodes, x),
        cause::KF217 => lacking(cx, pod, &claims, nodes, x),
        cause::KF219 => held(cx, pod, &claims, x),
        _ => {
            name(&claims, x);
            let deleted = x.names.get("is").and(x.names.get("claim"));
            let object = deleted.and_then(|name| claim(cx, &pod.namespace, name));
            if let Some(users) = object.and_then(|o| users_in_words(cx.world, o)) {
                x.names.set("users", &users);
            }
            return;
        }
    };
    name(if of_it.is_empty() { &claims } else { &of_it }, x);
}

/// Says from where the volumes of the pod's claims can be used, and returns the claims of those that some node cannot use.
fn elsewhere(
    cx: Context<'_>,
    pod: &PodSeen,
    claims: &[Text],
    nodes: &Nodes<'_>,
    x: &mut Finding<'_>,
) -> Vec<Text> {
    let (mut told, mut of_it) = (Vec::new(), Vec::new());
    for claim in claims {
        let volume = volume_of(cx, &pod.namespace, claim).and_then(|v| v.api.as_deref());
        let Some((volume, place)) = volume.and_then(|v| Some((v, Place::of(v)?))) else {
            continue;
        };
        let everywhere = nodes.known.iter().all(|n| place.has(n));
        if everywhere && !nodes.known.is_empty() {
            continue;
        }
        if place.is_nowhere(nodes) {
            x.names.set("nowhere", place.0);
        }
        let name = &volume.object.name;
        told.push(format!("volume {name} {}", place.in_words(nodes)));
        of_it.push(claim.clone());
    }
    x.names.set("where", &told.join("; "));
    of_it
}

/// Says why the claims that are not bound get none of the volumes of their class, and whether anything would make one; returns
/// these claims.
fn lacking(
    cx: Context<'_>,
    pod: &PodSeen,
    claims: &[Text],
    nodes: &Nodes<'_>,
    x: &mut Finding<'_>,
) -> Vec<Text> {
    let storage = cx.shared.storage(cx.world);
    let place = |v: &ObjectSeen| Some(Place::of(v)?.in_words(nodes));
    let coverage = cx.world.coverage();
    let listed = coverage.newest_list("persistentvolumes").is_some();
    let unbound = waiting(cx, &pod.namespace, claims);
    for name in &unbound {
        let api = claim(cx, &pod.namespace, name).and_then(|c| c.api.as_deref());
        let Some(api) = api else { continue };
        if let Some(near) = storage.of_its_class(api, place) {
            x.names.set("near", &near);
        }
        if let Some(class) = storage.by_hand(api) {
            x.names.set("by_hand", class);
            match storage.known() {
                _ if storage.has_volumes(class) => {}
                _ if listed => x.names.set("near", "there is none"),
                0 => {}
                n => {
                    let known = counted(n, "known volume");
                    x.names
                        .set("near", &format!("of {known} none has this class"));
                }
            }
        }
    }
    unbound
}

/// Names the pod that has a claim which only one pod may use, and returns the claim.
fn held(cx: Context<'_>, pod: &PodSeen, claims: &[Text], x: &mut Finding<'_>) -> Vec<Text> {
    let of_one = |name: &&Text| {
        let api = claim(cx, &pod.namespace, name).and_then(|c| c.api.as_deref());
        let modes = api.and_then(|c| c.fact("accessModes"));
        modes.is_none_or(|m| m.contains("ReadWriteOncePod"))
    };
    for name in claims.iter().filter(of_one) {
        let mut users = cx.shared.holding(cx.world, &pod.namespace, name).iter();
        if let Some(user) = users.find(|p| p.uid != pod.uid) {
            x.names.set("user", &user.name);
            x.names.set("there", &user.node);
            return vec![name.clone()];
        }
    }
    Vec::new()
}
