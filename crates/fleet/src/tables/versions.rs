//! The versions of a node over time: after an upgrade of the kubelet, earlier rows keep the earlier version.

use std::collections::BTreeMap;

use kflow_model::{Body, Evidence, Nanos, Text};

/// A node's versions from a moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Since {
    at: Nanos,
    kubelet: Text,
    runtime: Text,
}

/// The versions of every node in a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(BTreeMap<Text, Vec<Since>>);

impl Versions {
    pub(crate) fn of(observations: &[Evidence]) -> Self {
        let mut all = Self::default();
        for o in observations {
            let Body::Node(n) = &o.body else { continue };
            let its = all.0.entry(n.name.clone()).or_default();
            its.push(Since {
                at: o.stamp.seen,
                kubelet: n.kubelet_version.clone(),
                runtime: n.runtime_version.clone(),
            });
        }
        for its in all.0.values_mut() {
            its.sort_by_key(|v| v.at);
            its.dedup_by(|b, a| (&a.kubelet, &a.runtime) == (&b.kubelet, &b.runtime));
        }
        all
    }

    /// Returns the versions of kubelet and runtime at a time; before the first known ones, the first. Empty if none
    /// are known.
    pub(crate) fn at(&self, node: &str, at: Nanos) -> (&str, &str) {
        let its = self.0.get(node).map_or(&[][..], Vec::as_slice);
        let known = its.partition_point(|v| v.at <= at).max(1);
        its.get(known - 1)
            .map_or(("", ""), |v| (&*v.kubelet, &*v.runtime))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::node::NodeSeen;
    use kflow_model::{Observation, Source, Stamp};

    #[test]
    fn what_began_before_an_upgrade_was_of_the_version_before() {
        let seen = |at, node: &str, kubelet: &str| {
            Evidence::new(Observation {
                stamp: Stamp::exact(Nanos(at)),
                source: Source::Kube,
                body: Body::Node(Box::new(NodeSeen {
                    name: node.into(),
                    kubelet_version: kubelet.into(),
                    runtime_version: "containerd://2.1.9".into(),
                    ..NodeSeen::default()
                })),
            })
        };
        let all = [
            seen(10, "n1", "v1.35.0"),
            seen(20, "n1", "v1.35.0"),
            seen(30, "n1", "v1.36.2"),
            seen(15, "n2", "v1.34.1"),
        ];
        let versions = Versions::of(&all);
        let kubelet = |node, at| versions.at(node, Nanos(at)).0;
        let of = [0, 10, 29, 30, 99].map(|at| kubelet("n1", at));
        assert_eq!(of, ["v1.35.0", "v1.35.0", "v1.35.0", "v1.36.2", "v1.36.2"]);
        assert_eq!((kubelet("n2", 99), kubelet("n3", 99)), ("v1.34.1", ""));
        assert_eq!(versions.at("n1", Nanos(0)).1, "containerd://2.1.9");
        assert_eq!(versions.0.values().map(Vec::len).sum::<usize>(), 3);
    }
}
