//! Chains of owners: from a pod's controller upwards.

use kflow_model::kind::{AUTOSCALER, BUDGET, CLAIM, NAMESPACE, NODE, POD, WORDS, of_word};
use kflow_model::pod::PodSeen;
use kflow_model::scope::OfOwner;
use kflow_model::{ObjectRef, Text};

/// Longest chain that is followed; a longer one must be a cycle.
const MOST: usize = 8;

/// Kinds that make no pods and are asked about like owners: by the pods that mount them, are in them, are scaled by them or
/// selected by them.
const OTHERS: [&str; 4] = [CLAIM, NAMESPACE, AUTOSCALER, BUDGET];

/// Kinds that a query may name, by which pods are found, with the words for each. Queries for pods and nodes have forms of
/// their own.
pub(crate) fn kinds() -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
    WORDS.iter().filter(|(kind, _)| ![POD, NODE].contains(kind))
}

/// Returns the kind of [`kinds`] that a word stands for.
pub(crate) fn kind_of(word: &str) -> Option<&'static str> {
    of_word(word).filter(|kind| ![POD, NODE].contains(kind))
}

/// Returns the word for a kind before a slash: the one that is asked with where the kind's own is long; else the kind in
/// lower case. kubectl takes both.
pub fn word(kind: &str) -> String {
    match kind {
        CLAIM => "pvc".to_owned(),
        AUTOSCALER => "hpa".to_owned(),
        BUDGET => "pdb".to_owned(),
        kind => kind.to_lowercase(),
    }
}

/// True for a kind, or its plural, that makes pods, or makes what makes them.
pub fn makes_pods(word: &str) -> bool {
    kind_of(word).is_some_and(|kind| !OTHERS.contains(&kind))
}

/// The chain of owners from a controller of an object in `namespace` upwards, as far as `above` knows them.
pub fn chain(
    controller: &ObjectRef,
    namespace: &str,
    above: impl Fn(&ObjectRef) -> Option<ObjectRef>,
) -> Vec<ObjectRef> {
    let within = |o: &ObjectRef| {
        let mut o = o.clone();
        if o.namespace.is_empty() && o.kind != NODE {
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
        NODE => pod.spec.node == owner.name,
        NAMESPACE => pod.namespace == owner.name,
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

/// True for a text of the alphabet of generated names and hashes (`k8s.io/apimachinery/pkg/util/rand`).
fn is_random(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b))
}

/// Returns what a pod's name has before the part that was generated; `None` for a name of another form.
pub(crate) fn generated(pod: &str) -> Option<&str> {
    let (base, end) = pod.rsplit_once('-')?;
    // k8s.io/apiserver/pkg/storage/names/generate.go: `randomLength`.
    (end.len() == 5 && is_random(end)).then_some(base)
}

/// Returns the owners, as kind and name, that a pod with this name may be of by its form: `NAME-RANDOM` (Deployments by
/// their ReplicaSets, Jobs with an index before that), `NAME-NUMBER` of a StatefulSet.
pub(crate) fn may_be_of(pod: &str) -> Vec<(&'static str, &str)> {
    let Some((base, end)) = pod.rsplit_once('-') else {
        return Vec::new();
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut all = Vec::new();
    if is_number(end) {
        all.push(("StatefulSet", base));
    }
    if let Some(base) = generated(pod) {
        let kinds = ["ReplicaSet", "DaemonSet", "Job", "ReplicationController"];
        all.extend(kinds.map(|kind| (kind, base)));
        if let Some((name, before)) = base.rsplit_once('-') {
            if (8..=10).contains(&before.len()) && is_random(before) {
                all.push(("Deployment", name));
            }
            // pkg/controller/job/indexed_job_utils.go: `podGenerateNameWithIndex`.
            if is_number(before) {
                all.push(("Job", name));
            }
        }
    }
    all
}

/// The Deployment of a ReplicaSet, from its name `DEPLOYMENT-HASH` (`pkg/controller/deployment/sync.go`). `None` for a name
/// of another form.
pub fn deployment_of(set: &ObjectRef) -> Option<ObjectRef> {
    let (base, hash) = set.name.rsplit_once('-')?;
    let is_hash = (8..=10).contains(&hash.len());
    (set.kind == "ReplicaSet" && is_hash && is_random(hash)).then(|| ObjectRef {
        kind: "Deployment".into(),
        namespace: set.namespace.clone(),
        name: base.into(),
        uid: Text::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::may_be_of;

    #[test]
    fn a_pod_may_be_of_the_owners_whose_pods_have_such_names() {
        let is_of = |pod, kind, name| may_be_of(pod).contains(&(kind, name));
        assert!(is_of("web-7849b8659f-x2k4d", "Deployment", "web"));
        assert!(is_of(
            "web-7849b8659f-x2k4d",
            "ReplicaSet",
            "web-7849b8659f"
        ));
        assert!(!is_of("web-api-7849b8659f-x2k4d", "Deployment", "web"));
        assert!(is_of("web-x2k4d", "DaemonSet", "web"));
        assert!(!is_of("web-api-x2k4d", "DaemonSet", "web"));
        assert!(is_of("sum-3-x2k4d", "Job", "sum") && is_of("sum-x2k4d", "Job", "sum"));
        assert!(is_of("db-0", "StatefulSet", "db") && !is_of("db-a-0", "StatefulSet", "db"));
        assert!(may_be_of("web").is_empty() && may_be_of("web-").is_empty());
    }
}
