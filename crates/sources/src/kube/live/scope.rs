//! What is watched: resources, selectors, and filters for what a selector cannot express.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use kflow_model::scope::{bounds, is_of_cluster};
use kflow_model::{Body, Observation, PodUid, Scope, Text};

/// Most pods whose UID is remembered to tell Events of this node from others. Beyond it, Events are no longer filtered.
const UIDS_MAX: usize = 65_536;

#[derive(Clone, Debug)]
pub struct Watch {
    /// Group and version as in the path: `api/v1`, `apis/apps/v1`. Of an add-on's resource those in which it was last
    /// looked for; empty before.
    pub api: Cow<'static, str>,
    /// Groups of add-ons that have a resource of this name: the first in which the cluster serves it is watched. Empty
    /// for a resource that every cluster has.
    pub groups: &'static [&'static str],
    /// Plural: `pods`.
    pub resource: &'static str,
    /// Kind of the objects: `Pod`.
    pub kind: &'static str,
    /// Namespace, `None` for all.
    pub namespace: Option<String>,
    /// Field selector, empty for all.
    pub fields: String,
    /// Label selector, empty for all.
    pub labels: String,
    /// Which of the watch's objects are let through.
    pub filter: Filter,
}

/// Lets through what belongs to the scope of a run, where a selector cannot express it.
#[derive(Clone, Debug, Default)]
pub enum Filter {
    /// Lets every object through.
    #[default]
    All,
    /// Lets every pod through, and remembers its UID.
    Learn(Pods),
    /// Lets through the Events about a node's pods, about the node, from the node, and about owners.
    EventsOf {
        node: Text,
        /// The node's pods, and the unscheduled ones.
        pods: Pods,
    },
    /// Lets through the Leases of leaders, without those by which apiservers publish their identity.
    Leaders,
}

/// Uids of pods, shared by the watches of a run.
pub type Pods = Arc<Mutex<HashSet<PodUid>>>;

impl Filter {
    pub(super) fn passes(&self, o: &Observation) -> bool {
        match (self, &o.body) {
            (Self::Learn(pods), Body::Pod(p)) => {
                let mut pods = pods.lock().unwrap_or_else(PoisonError::into_inner);
                if pods.len() < UIDS_MAX {
                    pods.insert(p.uid.clone());
                }
                true
            }
            (Self::EventsOf { node, pods }, Body::Event(e)) => match e.object.kind.as_str() {
                "Pod" => {
                    let pods = pods.lock().unwrap_or_else(PoisonError::into_inner);
                    e.host == *node
                        || pods.len() >= UIDS_MAX
                        || pods.contains(&PodUid::from(e.object.uid.as_str()))
                }
                "Node" => e.object.name == *node,
                _ => true,
            },
            // `apiserver-…` since Kubernetes 1.26, `kube-apiserver-…` before.
            (Self::Leaders, Body::Object(x)) => {
                !x.object.name.starts_with("apiserver-")
                    && !x.object.name.starts_with("kube-apiserver-")
            }
            _ => true,
        }
    }
}

impl Watch {
    /// Returns a watch of all objects of a kind.
    pub const fn all(api: &'static str, resource: &'static str, kind: &'static str) -> Self {
        Self {
            api: Cow::Borrowed(api),
            groups: &[],
            resource,
            kind,
            namespace: None,
            fields: String::new(),
            labels: String::new(),
            filter: Filter::All,
        }
    }

    /// Returns the bounds of the list, in the form of [`WatchNote`](kflow_model::gap::WatchNote).
    pub fn scope(&self) -> Text {
        bounds(self.namespace.as_deref(), &self.fields, &self.labels)
    }

    /// Returns true when an object can leave the selection without being deleted. The apiserver
    /// sends `DELETED` for both.
    pub(super) fn can_leave(&self) -> bool {
        // A name never changes, nor does the node of a pod that has one.
        let stays = |term: &str| {
            term.starts_with("metadata.")
                || (term.strip_prefix("spec.nodeName="))
                    .is_some_and(|node| !node.trim_matches('=').is_empty())
        };
        !self.labels.is_empty() || self.fields.split(',').any(|t| !t.is_empty() && !stays(t))
    }

    pub(super) fn path(&self) -> String {
        match &self.namespace {
            Some(ns) => format!("/{}/namespaces/{}/{}", self.api, escape(ns), self.resource),
            None => format!("/{}/{}", self.api, self.resource),
        }
    }

    pub(super) fn uri(&self, query: &str) -> String {
        let mut uri = format!("{}?{query}", self.path());
        for (name, value) in [
            ("fieldSelector", &self.fields),
            ("labelSelector", &self.labels),
        ] {
            if !value.is_empty() {
                uri.extend(["&", name, "=", &escape(value)]);
            }
        }
        uri
    }

    pub(super) fn needs(&self, verb: &str) -> String {
        let place = match &self.namespace {
            Some(ns) => format!("in namespace {ns}"),
            None => "in the whole cluster".to_owned(),
        };
        format!("forbidden: needs {verb} on {} {place}", self.resource)
    }
}

/// All but what stands for itself in a path segment and in a query value (RFC 3986, "Unreserved Characters").
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes for a path segment or a query value.
pub fn escape(s: &str) -> String {
    utf8_percent_encode(s, ENCODED).to_string()
}

/// Objects around pods that are watched.
#[derive(Clone, Copy, Debug)]
pub struct Objects {
    pub resource: &'static str,
    pub kind: &'static str,
    pub of: Of,
}

/// Who defines a resource.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    /// Kubernetes: group and version as in the path.
    Kubernetes(&'static str),
    /// An add-on, in the first of these groups that the cluster serves the resource in.
    AddOn(&'static [&'static str]),
}

const fn objects(of: Of, resource: &'static str, kind: &'static str) -> Objects {
    Objects { resource, kind, of }
}

/// The objects that the diagnosis reads besides pods, Events, nodes and Leases: owners of pods, storage, and what
/// queues and autoscalers decide by; namespaces that are deleted, budgets that hold evictions, and autoscalers.
pub const OBJECTS: [Objects; 17] = {
    use Of::{AddOn, Kubernetes};
    const APPS: Of = Kubernetes("apis/apps/v1");
    const BATCH: Of = Kubernetes("apis/batch/v1");
    const CORE: Of = Kubernetes("api/v1");
    const POLICY: Of = Kubernetes("apis/policy/v1");
    const SCALING: Of = Kubernetes("apis/autoscaling/v2");
    const STORAGE: Of = Kubernetes("apis/storage.k8s.io/v1");
    [
        objects(APPS, "deployments", "Deployment"),
        objects(APPS, "replicasets", "ReplicaSet"),
        objects(APPS, "daemonsets", "DaemonSet"),
        objects(APPS, "statefulsets", "StatefulSet"),
        objects(BATCH, "jobs", "Job"),
        objects(BATCH, "cronjobs", "CronJob"),
        objects(CORE, "persistentvolumeclaims", "PersistentVolumeClaim"),
        objects(CORE, "persistentvolumes", "PersistentVolume"),
        objects(STORAGE, "storageclasses", "StorageClass"),
        objects(STORAGE, "volumeattachments", "VolumeAttachment"),
        objects(CORE, "namespaces", "Namespace"),
        objects(POLICY, "poddisruptionbudgets", "PodDisruptionBudget"),
        objects(
            SCALING,
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
        ),
        // JobSet, Kueue, Karpenter, and the gangs of Volcano and of the scheduler plugins.
        objects(AddOn(&["jobset.x-k8s.io"]), "jobsets", "JobSet"),
        objects(AddOn(&["kueue.x-k8s.io"]), "workloads", "Workload"),
        objects(AddOn(&["karpenter.sh"]), "nodeclaims", "NodeClaim"),
        objects(
            AddOn(&["scheduling.volcano.sh", "scheduling.x-k8s.io"]),
            "podgroups",
            "PodGroup",
        ),
    ]
};

/// Returns the watches of a scope, each with its name in the status bar.
pub fn watches(scope: &Scope) -> Vec<(&'static str, Watch)> {
    let pods = Pods::default();
    let with = |api, resource, kind| Watch {
        namespace: scope.namespace.clone(),
        ..Watch::all(api, resource, kind)
    };
    let select = |extra: &str| {
        let parts = [extra, scope.fields.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        parts.join(",")
    };
    let pod = |node: &str| Watch {
        fields: select(node),
        labels: scope.labels.clone(),
        filter: Filter::Learn(Arc::clone(&pods)),
        ..with("api/v1", "pods", "Pod")
    };
    let mut all = Vec::new();
    let mut events = with("api/v1", "events", "Event");
    let mut nodes = Watch::all("api/v1", "nodes", "Node");
    if let Some(node) = &scope.node {
        all.push(("pods", pod(&format!("spec.nodeName={node}"))));
        all.push(("unscheduled", pod("spec.nodeName=")));
        nodes.fields = format!("metadata.name={node}");
        events.filter = Filter::EventsOf {
            node: Text::from(node),
            pods: Arc::clone(&pods),
        };
    } else {
        all.push(("pods", pod("")));
    }
    all.push(("events", events));
    all.push(("nodes", nodes));
    for o in &OBJECTS {
        let namespace = scope.namespace.clone();
        let (api, groups) = match o.of {
            Of::Kubernetes(api) => (api, &[][..]),
            Of::AddOn(groups) => ("", groups),
        };
        let watch = Watch {
            groups,
            namespace: namespace.filter(|_| !is_of_cluster(o.resource)),
            ..Watch::all(api, o.resource, o.kind)
        };
        all.push((o.resource, watch));
    }
    let leases = |namespace: &str| Watch {
        namespace: Some(namespace.to_owned()),
        ..Watch::all("apis/coordination.k8s.io/v1", "leases", "Lease")
    };
    let mut of_nodes = leases("kube-node-lease");
    if let Some(node) = &scope.node {
        of_nodes.fields = format!("metadata.name={node}");
    }
    all.push(("node leases", of_nodes));
    let mut of_leaders = leases("kube-system");
    of_leaders.filter = Filter::Leaders;
    all.push(("leader leases", of_leaders));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_leaves_a_selection_by_what_can_change() {
        for (fields, labels, leaves) in [
            ("", "", false),
            ("metadata.name=web", "", false),
            ("spec.nodeName=node1,metadata.namespace==shop", "", false),
            ("spec.nodeName==node1", "", false),
            ("spec.nodeName=", "", true),
            ("spec.nodeName!=node1", "", true),
            ("spec.nodeName=node1,status.phase=Running", "", true),
            ("", "app=web", true),
        ] {
            let watch = Watch {
                fields: fields.to_owned(),
                labels: labels.to_owned(),
                ..Watch::all("api/v1", "pods", "Pod")
            };
            assert_eq!(watch.can_leave(), leaves, "{fields} {labels}");
        }
    }
}
