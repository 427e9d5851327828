//! Chains of owners: from a pod's controller upwards.

use kflow_model::pod::PodSeen;
use kflow_model::scope::OfOwner;
use kflow_model::{ObjectRef, Text};

/// Longest chain that is followed; a longer one must be a cycle.
const MOST: usize = 8;

pub(crate) const CLAIM: &str = "PersistentVolumeClaim";

/// Kinds with pods, and the words for each: short, as a query has it before a slash, and the plural.
pub(crate) const KINDS: [(&str, &[&str]); 8] = [
    ("Deployment", &["deploy", "deployment", "deployments"]),
    ("ReplicaSet", &["rs", "replicaset", "replicasets"]),
    ("StatefulSet", &["sts", "statefulset", "statefulsets"]),
    ("DaemonSet", &["ds", "daemonset", "daemonsets"]),
    ("Job", &["job", "jobs"]),
    ("CronJob", &["cj", "cronjob", "cronjobs"]),
    (
        "ReplicationController",
        &["rc", "replicationcontroller", "replicationcontrollers"],
    ),
    (
        CLAIM,
        &["pvc", "persistentvolumeclaim", "persistentvolumeclaims"],
    ),
];

/// Returns the kind with pods that a word stands for.
pub(crate) fn kind_of(word: &str) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    let of_it = |(_, words): &&(&str, &[&str])| words.contains(&lower.as_str());
    KINDS.iter().find(of_it).map(|(kind, _)| *kind)
}

/// True for a kind, or its plural, that makes pods, or makes what makes them.
pub fn makes_pods(word: &str) -> bool {
    kind_of(word).is_some_and(|kind| kind != CLAIM)
}

/// The chain of owners from a controller of an object in `namespace` upwards, as far as `above` knows them.
pub fn chain(
    controller: &ObjectRef,
    namespace: &str,
    above: impl Fn(&ObjectRef) -> Option<ObjectRef>,
) -> Vec<ObjectRef> {
    let within = |o: &ObjectRef| {
        let mut o = o.clone();
        if o.namespace.is_empty() && o.kind != "Node" {
            o.namespace = namespace.into();
        }
        o
    };
    let mut chain = vec![within(controller)];
    while let Some(last) = chain.last()
        && chain.len() < MOST
        && let Some(next) = above(last)
    {
        let again = |o: &ObjectRef| o.kind == next.kind && o.name == next.name;
        if chain.iter().any(again) {
            break;
        }
        chain.push(within(&next));
    }
    chain
}

/// True if a pod belongs to an owner, uses a claim or runs on a node, according to the pod's own object. A Deployment
/// is known by the ReplicaSet's name.
pub(crate) fn has(owner: OfOwner<'_>, pod: &PodSeen) -> bool {
    let named = |o: &ObjectRef| o.kind == owner.kind && o.name == owner.name;
    match owner.kind {
        "Node" => pod.spec.node == owner.name,
        CLAIM => {
            let mut claims = pod.spec.volumes.iter().filter_map(|v| v.claim(&pod.name));
            claims.any(|c| c == owner.name)
        }
        _ => (pod.owner.as_ref()).is_some_and(|made| {
            let all = chain(made, &pod.namespace, deployment_of);
            all.iter().any(named)
        }),
    }
}

/// The Deployment of a ReplicaSet, from its name `DEPLOYMENT-HASH` (`pkg/controller/deployment/sync.go`; the alphabet
/// of the template hash: `k8s.io/apimachinery/pkg/util/rand`). `None` for a name of another form.
pub fn deployment_of(set: &ObjectRef) -> Option<ObjectRef> {
    let (base, hash) = set.name.rsplit_once('-')?;
    let is_hash = (8..=10).contains(&hash.len())
        && hash
            .bytes()
            .all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b));
    (set.kind == "ReplicaSet" && is_hash).then(|| ObjectRef {
        kind: "Deployment".into(),
        namespace: set.namespace.clone(),
        name: base.into(),
        uid: Text::default(),
    })
}
