//! Decides which pods belong to an object (a Deployment, a Job, a claim, a node), from what a recording sees of them.

use std::collections::HashMap;

use kflow_core::correlate::owners::{chain, deployment_of, makes_pods};
use kflow_core::diagnose::{node_asked, owner_asked};
use kflow_model::kind::{AUTOSCALER, BUDGET, CLAIM, NAMESPACE, NODE};
use kflow_model::object::ObjectSeen;
use kflow_model::pod::PodSeen;
use kflow_model::scope::{OfOwner, only_of};
use kflow_model::{ObjectRef, Text};

/// Most objects whose owners are remembered. Beyond that, owners are told by their names alone.
const REMEMBERED: usize = 1 << 16;

/// The object whose pods are meant.
#[derive(Debug)]
enum Whose {
    Node(Text),
    Claim(Text),
    Namespace(Text),
    Owner(&'static str, Text),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Family {
    whose: Whose,
    /// `None` is any namespace: the selection may name one.
    namespace: Option<Text>,
    /// Owners of the objects that were seen, by kind, namespace and name.
    above: HashMap<(Text, Text, Text), Option<ObjectRef>>,
}

impl Family {
    /// Parses `kind/name`, `ns/kind/name` or `node/name`; `None` for a pod, and where any pod may belong to the object.
    pub(super) fn new(query: &str) -> Option<Self> {
        let of = |namespace: Option<&str>, whose| Self {
            whose,
            namespace: namespace.map(Text::from),
            above: HashMap::new(),
        };
        if let Some(node) = node_asked(query) {
            return Some(of(None, Whose::Node(node.into())));
        }
        let (namespace, kind, name) = owner_asked(query)?;
        let whose = match kind {
            CLAIM => Whose::Claim(name.into()),
            NAMESPACE => Whose::Namespace(name.into()),
            // Which pods those are may change during the recording: all of the namespace may be.
            AUTOSCALER | BUDGET => return Some(of(None, Whose::Namespace(namespace?.into()))),
            kind => Whose::Owner(kind, name.into()),
        };
        Some(of(namespace, whose))
    }

    /// Remembers the owner of an object.
    pub(super) fn learn(&mut self, o: &ObjectSeen) {
        let ObjectRef {
            kind,
            namespace,
            name,
            ..
        } = &o.object;
        let key = (kind.clone(), namespace.clone(), name.clone());
        if self.above.len() < REMEMBERED || self.above.contains_key(&key) {
            self.above.insert(key, o.owner.clone());
        }
    }

    /// Whether a pod belongs to the object; `None` while the owner of the pod's owner, or the pod's node, is unknown.
    pub(super) fn has(&self, pod: &PodSeen) -> Option<bool> {
        if (self.namespace.as_deref()).is_some_and(|ns| ns != pod.namespace.as_str()) {
            return Some(false);
        }
        match &self.whose {
            Whose::Node(node) => {
                let bound = !pod.spec.node.is_empty();
                bound.then_some(pod.spec.node == *node)
            }
            Whose::Claim(name) => {
                let mut claims = pod.spec.volumes.iter().filter_map(|v| v.claim(&pod.name));
                Some(claims.any(|c| c == name.as_str()))
            }
            Whose::Namespace(name) => Some(pod.namespace == *name),
            Whose::Owner(kind, name) => {
                let Some(controller) = &pod.owner else {
                    return Some(false);
                };
                let owners = chain(controller, &pod.namespace, |o| self.above(o));
                let mut all = owners.iter();
                if all.any(|o| o.kind == *kind && o.name == *name) {
                    return Some(true);
                }
                // Only the owners of ReplicaSets and Jobs are looked for.
                let top = owners.last()?;
                let known = !Self::is_made(top) || self.seen(top).is_some();
                known.then_some(false)
            }
        }
    }

    /// Whether an object that makes pods is the one meant, made it, or was made by it; `None` for objects of other kinds, and
    /// while the owner of one of the two is unknown.
    pub(super) fn concerns(&self, o: &ObjectRef) -> Option<bool> {
        let Whose::Owner(kind, name) = &self.whose else {
            return None;
        };
        if !makes_pods(&o.kind) {
            return None;
        }
        let it = ObjectRef {
            kind: (*kind).into(),
            namespace: o.namespace.clone(),
            name: name.clone(),
            uid: Text::default(),
        };
        let same = |a: &ObjectRef, b: &ObjectRef| a.kind == b.kind && a.name == b.name;
        let above = |o: &ObjectRef| chain(o, &o.namespace, |o| self.above(o));
        let (its, own) = (above(&it), above(o));
        if its.iter().any(|x| same(x, o)) || own.iter().any(|x| same(x, &it)) {
            return Some(true);
        }
        let known = |top: Option<&ObjectRef>| {
            top.is_none_or(|top| !Self::is_made(top) || self.seen(top).is_some())
        };
        (known(its.last()) && known(own.last())).then_some(false)
    }

    /// True for a plural resource of whose objects only those are meant that [concern](Self::concerns) the object.
    pub(super) fn narrows(&self, resource: &str) -> bool {
        matches!(self.whose, Whose::Owner(..)) && makes_pods(resource)
    }

    /// The namespace, if it is named.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// True for an object of a kind whose owners are looked for.
    fn is_made(o: &ObjectRef) -> bool {
        ["ReplicaSet", "Job"].contains(&o.kind.as_str())
    }

    fn seen(&self, o: &ObjectRef) -> Option<&Option<ObjectRef>> {
        let key = (o.kind.clone(), o.namespace.clone(), o.name.clone());
        self.above.get(&key)
    }

    fn above(&self, o: &ObjectRef) -> Option<ObjectRef> {
        self.seen(o).map_or_else(|| deployment_of(o), Clone::clone)
    }

    /// Returns the scope of a list of pods of which only these pods are kept.
    pub(super) fn bounds(&self, list: &str) -> Text {
        let (kind, name) = match &self.whose {
            Whose::Node(name) => (NODE, name),
            Whose::Claim(name) => (CLAIM, name),
            Whose::Namespace(name) => (NAMESPACE, name),
            Whose::Owner(kind, name) => (*kind, name),
        };
        only_of(list, self.namespace.as_deref(), OfOwner { kind, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, name: &str) -> ObjectRef {
        ObjectRef {
            kind: kind.into(),
            namespace: Text::default(),
            name: name.into(),
            uid: Text::default(),
        }
    }

    fn pod(owner: Option<ObjectRef>, node: &str) -> PodSeen {
        let mut p = PodSeen {
            namespace: "shop".into(),
            name: "web-x".into(),
            owner,
            ..PodSeen::default()
        };
        p.spec.node = node.into();
        p
    }

    fn made(o: ObjectRef, owner: Option<ObjectRef>) -> ObjectSeen {
        ObjectSeen {
            object: ObjectRef {
                namespace: "shop".into(),
                ..o
            },
            owner,
            ..ObjectSeen::default()
        }
    }

    #[test]
    fn pods_are_of_what_made_them_or_made_that() {
        let set = "web-6d4b75cb6d";
        for (query, owner, want) in [
            ("deploy/web", Some(of("ReplicaSet", set)), Some(true)),
            ("shop/deploy/web", Some(of("ReplicaSet", set)), Some(true)),
            ("else/deploy/web", Some(of("ReplicaSet", set)), Some(false)),
            ("deploy/db", Some(of("ReplicaSet", set)), Some(false)),
            // The name does not look like a Deployment's ReplicaSet, and the ReplicaSet itself was not seen.
            ("deploy/web", Some(of("ReplicaSet", "web-own")), None),
            ("rs/web-own", Some(of("ReplicaSet", "web-own")), Some(true)),
            ("sts/db", Some(of("StatefulSet", "db")), Some(true)),
            ("sts/db", Some(of("StatefulSet", "web")), Some(false)),
            ("cj/nightly", Some(of("Job", "nightly-29")), None),
            ("job/nightly-29", Some(of("Job", "nightly-29")), Some(true)),
            ("deploy/web", None, Some(false)),
            ("pvc/data", None, Some(false)),
        ] {
            let family = Family::new(query).unwrap();
            assert_eq!(family.has(&pod(owner, "n1")), want, "{query}");
        }
        for (query, node, want) in [
            ("node/n1", "n1", Some(true)),
            ("node/n2", "n1", Some(false)),
            ("node/n1", "", None),
        ] {
            let family = Family::new(query).unwrap();
            assert_eq!(family.has(&pod(None, node)), want, "{query} {node}");
        }
        // Which pods an autoscaler scales, or a budget selects, is not in the pods: all of its namespace are kept.
        for (query, want) in [
            ("ns/shop", Some(true)),
            ("ns/else", Some(false)),
            ("shop/hpa/web", Some(true)),
            ("else/hpa/web", Some(false)),
            ("shop/pdb/web", Some(true)),
        ] {
            let family = Family::new(query).unwrap();
            assert_eq!(family.has(&pod(None, "n1")), want, "{query}");
        }
        for pod in [
            "web-0",
            "shop/web-0",
            "pod/web-0",
            "pod/job/web-0",
            "hpa/web",
        ] {
            assert!(Family::new(pod).is_none(), "{pod}");
        }
    }

    #[test]
    fn objects_that_make_pods_concern_it_or_another() {
        let in_shop = |kind: &str, name: &str| ObjectRef {
            namespace: "shop".into(),
            ..of(kind, name)
        };
        for (query, kind, name, want) in [
            ("deploy/web", "Deployment", "web", Some(true)),
            ("deploy/web", "Deployment", "db", Some(false)),
            ("deploy/web", "ReplicaSet", "web-6d4b75cb6d", Some(true)),
            ("deploy/web", "ReplicaSet", "db-6d4b75cb6d", Some(false)),
            ("deploy/web", "ReplicaSet", "own", None),
            ("rs/web-6d4b75cb6d", "Deployment", "web", Some(true)),
            ("rs/web-6d4b75cb6d", "Deployment", "db", Some(false)),
            ("job/nightly-29", "CronJob", "nightly", None),
            ("sts/db", "StatefulSet", "web", Some(false)),
            ("sts/db", CLAIM, "data", None),
            ("pvc/data", "Deployment", "web", None),
        ] {
            let family = Family::new(query).unwrap();
            assert_eq!(
                family.concerns(&in_shop(kind, name)),
                want,
                "{query} {name}"
            );
        }
        let mut nightly = Family::new("job/nightly-29").unwrap();
        nightly.learn(&made(
            of("Job", "nightly-29"),
            Some(of("CronJob", "nightly")),
        ));
        for (name, want) in [("nightly", true), ("hourly", false)] {
            assert_eq!(nightly.concerns(&in_shop("CronJob", name)), Some(want));
        }
    }

    #[test]
    fn an_object_that_was_seen_says_who_made_it() {
        let mut nightly = Family::new("cj/nightly").unwrap();
        let job = of("Job", "nightly-29");
        let its = pod(Some(job.clone()), "n1");
        assert_eq!(nightly.has(&its), None);
        nightly.learn(&made(job.clone(), Some(of("CronJob", "nightly"))));
        assert_eq!(nightly.has(&its), Some(true));
        nightly.learn(&made(job, None));
        assert_eq!(nightly.has(&its), Some(false));
        // A ReplicaSet without an owner whose name looks as if a Deployment had made it.
        let mut web = Family::new("deploy/web").unwrap();
        let set = of("ReplicaSet", "web-6d4b75cb6d");
        web.learn(&made(set.clone(), None));
        assert_eq!(web.has(&pod(Some(set), "n1")), Some(false));
    }
}
