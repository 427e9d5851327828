//! Of which objects rows of Events are that do not say it: by their message, their reporter, and the text around them.

use rustc_hash::FxHashMap;

use super::age::word;
use super::command::Described;
use super::fragment::{CONTAINER_LOG, NAMESPACE};
use super::pods::is_name;
use super::table::Row;
use crate::runtime::Reserved;
use kflow_model::kind::CLAIM;

mod containers;

/// An object that a text names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Empty where nothing tells it.
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What the text before rows names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told<'a> {
    /// The object that the command before them describes.
    pub(super) described: Option<&'a Described>,
    /// The only pod that is not well.
    pub(super) pod: Option<&'a Named>,
    /// The pods that rows before them name.
    pub(super) named: Option<&'a Pods>,
    /// The pod whose logs the command before them prints.
    pub(super) logged: Option<&'a Named>,
}

/// Says of which object, and of which namespace, rows are that do not.
pub(super) fn attribute(rows: &mut [Row], namespace: &str, before: &Told<'_>) {
    let described = before.described;
    let of_command = |kind: &str| described.filter(|d| d.kind == kind).map(|d| &d.object);
    let claim = rows.iter().find_map(claim).or(of_command(CLAIM).cloned());
    let node = of_command("Node");
    let here = Pods::of(rows);
    // Which of several a row is about that names none, only its place below the binding of one tells.
    let mut pod = if here.by_name.is_empty() {
        of_command("Pod").or(before.pod).cloned()
    } else {
        here.one().cloned()
    };
    let of_volumes = volumes(rows);
    for row in rows.iter_mut() {
        let named = named(row).map(|named| whole(named, &here, before));
        if row.object.is_empty() {
            let kind = kind(row).to_owned();
            let kind = kind.as_str();
            if row.reason == "Scheduled" && named.is_some() {
                pod.clone_from(&named);
            }
            let of_log = before.logged.filter(|_| row.reason == CONTAINER_LOG);
            let by_namespace = namespace_of(&row.message).map(|namespace| {
                let one = here.one_of(namespace, before.named).cloned();
                one.unwrap_or_else(|| Named {
                    namespace: namespace.to_owned(),
                    name: "POD".to_owned(),
                })
            });
            let object = match kind {
                "Pod" => of_log
                    .or(named.as_ref())
                    .or_else(|| of_volumes.get(volume(&row.message)?))
                    .or(pod.as_ref())
                    .or(by_namespace.as_ref()),
                "Node" => node,
                CLAIM => claim.as_ref(),
                owner => of_command(owner),
            };
            row.object = match (object, kind) {
                (None, "Node") if !row.host.is_empty() => row.host.clone(),
                (Some(object), _) => object.name.clone(),
                (None, kind) => maker(&row.message, kind),
            };
            if let Some(object) = object {
                object.namespace.clone_into(&mut row.namespace);
            }
            row.is_described = row.kind.is_empty();
            kind.clone_into(&mut row.kind);
        } else if let Some(named) = named.filter(|named| {
            // A virtual cluster's kubelet says the namespace that the pod has in the host cluster.
            let is_unknown = row.namespace.is_empty() && namespace.is_empty();
            is_unknown && named.name == row.object
        }) {
            row.namespace = named.namespace;
        }
        if row.namespace.is_empty() && !row.kind.eq_ignore_ascii_case("Node") {
            let told = namespace_of(&row.message).unwrap_or_default();
            let all = [namespace, told, NAMESPACE];
            let first = all.into_iter().find(|n| !n.is_empty());
            first.unwrap_or_default().clone_into(&mut row.namespace);
        }
    }
    containers::of_containers(rows);
}

/// Returns the pods that rows name, by the volume of which these are: a controller logs an error of a volume beside the Event of it, and
/// names no pod there.
fn volumes(rows: &[Row]) -> FxHashMap<String, Named> {
    let of_pods = rows
        .iter()
        .filter(|r| r.kind == "Pod" && !r.object.is_empty());
    let all = of_pods.filter_map(|row| {
        let pod = Named {
            namespace: row.namespace.clone(),
            name: row.object.clone(),
        };
        Some((volume(&row.message)?.to_owned(), pod))
    });
    all.collect()
}

fn volume(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(" volume \"")?;
    rest.split_once('"').map(|(name, _)| name)
}

/// Pods that messages name.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// `None` where pods of several namespaces have the name.
    by_name: FxHashMap<String, Option<Named>>,
    /// `None` where several pods are of the namespace.
    by_namespace: FxHashMap<String, Option<Named>>,
}

impl Pods {
    /// Those that rows without an object name.
    fn of(rows: &[Row]) -> Self {
        let mut out = Self::default();
        let rows = rows.iter();
        let rows = rows.filter(|row| row.object.is_empty() && kind(row) == "Pod");
        rows.filter_map(named).for_each(|pod| out.add(pod));
        out
    }

    fn add(&mut self, pod: Named) {
        let known = self.by_name.entry(pod.name.clone());
        let known = known.or_insert_with(|| Some(pod.clone()));
        let is_other = |k: &Named| k.namespace != pod.namespace;
        match known {
            Some(k) if k.namespace.is_empty() => k.namespace.clone_from(&pod.namespace),
            Some(k) if is_other(k) && !pod.namespace.is_empty() => *known = None,
            _ => {}
        }
        if !pod.namespace.is_empty() {
            let of_it = self.by_namespace.entry(pod.namespace.clone());
            let of_it = of_it.or_insert_with(|| Some(pod.clone()));
            if of_it.as_ref().is_some_and(|p| p.name != pod.name) {
                *of_it = None;
            }
        }
    }

    pub(super) fn extend(&mut self, rows: &[Row]) {
        let rows = rows
            .iter()
            .filter(|row| row.is_described && row.kind == "Pod");
        rows.filter_map(named).for_each(|pod| self.add(pod));
    }

    fn get(&self, name: &str) -> Option<&Named> {
        self.by_name.get(name)?.as_ref()
    }

    /// The only one.
    fn one(&self) -> Option<&Named> {
        let mut all = self.by_name.values();
        all.next().filter(|_| self.by_name.len() == 1)?.as_ref()
    }

    /// The only one of a namespace, here and in what stands before.
    fn one_of<'a>(&'a self, namespace: &str, before: Option<&'a Self>) -> Option<&'a Named> {
        match (
            self.by_namespace.get(namespace),
            before.and_then(|b| b.by_namespace.get(namespace)),
        ) {
            (Some(here), Some(there)) if here != there => None,
            (here, there) => here.or(there)?.as_ref(),
        }
    }
}

/// Returns the pod with the namespace that other rows or commands have for its name, if it has none.
pub(super) fn whole(pod: Named, here: &Pods, before: &Told<'_>) -> Named {
    let described = before.described.filter(|d| d.kind == "Pod");
    let told = [described.map(|d| &d.object), before.pod, before.logged];
    let named = [
        here.get(&pod.name),
        before.named.and_then(|n| n.get(&pod.name)),
    ];
    let mut all = named.into_iter().chain(told).flatten();
    let other = all.find(|p| p.name == pod.name && !p.namespace.is_empty());
    match other {
        Some(other) if pod.namespace.is_empty() => other.clone(),
        _ => pod,
    }
}

/// Returns the kind of object that a row without one is about: by who reports it, or by its reason.
fn kind(row: &Row) -> &str {
    /// Reasons by which the kubelet reports about its node (1.36: `pkg/kubelet/events/event.go`).
    const OF_NODES: [&str; 8] = [
        "NodeNotReady",
        "NodeHasDiskPressure",
        "NodeHasInsufficientMemory",
        "FreeDiskSpaceFailed",
        "ImageGCFailed",
        "EvictionThresholdMet",
        "SystemOOM",
        "Rebooted",
    ];
    /// Reasons by which the controller of volumes and provisioners report about a claim (1.36:
    /// `pkg/controller/volume/events/event.go`, `pkg/controller/volume/persistentvolume/pv_controller.go`;
    /// kubernetes-sigs/sig-storage-lib-external-provisioner `controller/controller.go`).
    const OF_CLAIMS: [&str; 12] = [
        "ProvisioningFailed",
        "ProvisioningCleanupFailed",
        "ProvisioningSucceeded",
        "FailedBinding",
        "WaitForFirstConsumer",
        "WaitForPodScheduled",
        "ExternalProvisioning",
        "Provisioning",
        "VolumeMismatch",
        "ClaimLost",
        "ClaimMisbound",
        "ExternalExpanding",
    ];
    // `kubectl get events` of 1.12 and 1.13 has a column with the kind, and none with the name.
    if !row.kind.is_empty() {
        return &row.kind;
    }
    match (row.component.as_str(), row.reason.as_str()) {
        ("replicaset-controller", _) => "ReplicaSet",
        ("job-controller", _) => "Job",
        ("cronjob-controller", _) => "CronJob",
        ("daemonset-controller" | "daemon-set", _) => "DaemonSet",
        // Without `-controller` before 1.8.
        ("statefulset-controller" | "statefulset", _) => "StatefulSet",
        ("replication-controller", _) => "ReplicationController",
        ("deployment-controller", _) => "Deployment",
        (_, "FailedCreate") if row.message.contains(OF_STATEFUL_SET) => "StatefulSet",
        (_, "FailedCreate") => "ReplicaSet",
        (_, reason) if OF_CLAIMS.contains(&reason) => CLAIM,
        (_, reason) if OF_NODES.contains(&reason) => "Node",
        _ => "Pod",
    }
}

/// What stands before the name of the owner in the messages of its controller (1.36: pkg/controller/statefulset/stateful_pod_control.go,
/// `recordPodEvent`).
const OF_STATEFUL_SET: &str = " in StatefulSet ";

/// Returns the name of the owner that makes pods: it puts it and a dash before the rest of theirs (`pods "web-5d8f-" is forbidden`;
/// `k8s.io/apiserver/pkg/storage/names/generate.go`). A placeholder where the message names no pod.
fn maker(message: &str, kind: &str) -> String {
    let told = message.split_once(OF_STATEFUL_SET);
    let told = told
        .map(|(_, rest)| word(rest).0)
        .filter(|name| is_name(name));
    let pod = message
        .split_once("pods \"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let name = pod.and_then(|(pod, _)| pod.rsplit_once('-'));
    match told.or(name.map(|(name, _)| name)) {
        Some(name) if is_name(name) => name.to_owned(),
        _ => kind.to_ascii_uppercase(),
    }
}

/// Returns the claim that a provisioner says it makes a volume for (kubernetes-sigs/sig-storage-lib-external-provisioner
/// `controller/controller.go`, `provisionClaimOperation`).
fn claim(row: &Row) -> Option<Named> {
    let (_, rest) = row.message.split_once(" volume for claim \"")?;
    let (namespace, name) = rest.split_once('"')?.0.split_once('/')?;
    (kind(row) == CLAIM && is_name(namespace) && is_name(name)).then(|| Named {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// Returns the pod that a message names: the one that was bound (`… shop/web-0 to node1`), `pod "web-0_shop(UID)"`, `pod "web-0_shop"`,
/// `(pod: "web-0_shop(UID)", …`, a name of CRI-O's (`k8s_web-0_shop_UID_0`); without its namespace `for pod "web-0"`, `pod "web-0" (UID: …)`
/// and `pod (web-0) failed to fit`.
fn named(row: &Row) -> Option<Named> {
    let message = row.message.as_str();
    if row.reason == "Scheduled" {
        let (front, _) = message.split_once(" to ")?;
        let pod = front.rsplit(' ').next()?;
        let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
        return is_name(name).then(|| Named {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }
    // `Pod` in the messages of hooks up to 1.20.
    let lower = message.to_ascii_lowercase();
    let named = lower
        .match_indices("pod ")
        .chain(lower.match_indices("pod: "));
    let all = named.filter_map(|(at, front)| {
        let before = message.get(..at)?;
        let rest = message.get(at + front.len()..)?;
        let of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_quoted = rest.starts_with(['"', '\\']);
        let rest = rest.trim_start_matches(['"', '\\']);
        let end = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end)?;
        let after_quotes = after.trim_start_matches(['"', '\\']);
        let (name, namespace) = match word.split_once('_') {
            // Whoever asks in public may have replaced the UID.
            Some(both) if after.starts_with('(') || after_quotes.len() < after.len() => both,
            None if is_quoted
                && after_quotes.len() < after.len()
                && !after_quotes.starts_with('/')
                && (before.ends_with("for ") || after_quotes.starts_with(" (UID: ")) =>
            {
                (word, "")
            }
            _ => return None,
        };
        let is_one = is_name(name) && (namespace.is_empty() || is_name(namespace));
        is_one.then(|| Named {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    });
    // A message may name it twice.
    let one = all.reduce(|first, other| {
        if first.namespace.is_empty() {
            other
        } else {
            first
        }
    });
    one.or_else(|| reserved(message))
        .or_else(|| unfitting(message))
}

/// Returns the pod of a sandbox or a container by the name that CRI-O reserves for it.
fn reserved(message: &str) -> Option<Named> {
    let of = Reserved::of(message)?;
    (is_name(of.pod) && is_name(of.namespace)).then(|| Named {
        namespace: of.namespace.to_owned(),
        name: of.pod.to_owned(),
    })
}

/// Returns the pod that the scheduler says fits on no node (before 1.5: plugin/pkg/scheduler/generic_scheduler.go, `FitError`).
fn unfitting(message: &str) -> Option<Named> {
    let (name, rest) = message.strip_prefix("pod (")?.split_once(')')?;
    (is_name(name) && rest.starts_with(" failed to fit ")).then(|| Named {
        namespace: String::new(),
        name: name.to_owned(),
    })
}

/// Returns the namespace of what a pod needs, which is its own: `object "shop"/"db" not registered` (1.36:
/// pkg/kubelet/util/manager/cache_based_manager.go, `GetObject`).
fn namespace_of(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("object \"")?;
    let (namespace, rest) = rest.split_once('"')?;
    (rest.starts_with("/\"") && is_name(namespace)).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::super::fragment::row;
    use super::*;

    #[test]
    fn the_object_is_what_the_text_says() {
        let of = |lines: &[&str], namespace: &str, pod: Option<&Named>| {
            let rows = lines.iter().filter_map(|l| row(l));
            let mut rows: Vec<Row> = rows.collect();
            let before = Told {
                pod,
                ..Told::default()
            };
            attribute(&mut rows, namespace, &before);
            let all = rows
                .iter()
                .map(|r| format!("{} {}/{}", r.kind, r.namespace, r.object));
            all.collect::<Vec<_>>().join(", ")
        };
        let pull =
            "Warning  Failed  8s (x4 over 93s)  kubelet, minikube  Failed to pull image \"x\": y";
        let bound = "Normal   Scheduled  36m  default-scheduler  Successfully assigned monitoring/autotune-zz78v to minikube";
        let web = Named {
            namespace: "shop".into(),
            name: "web-0".into(),
        };
        assert_eq!(of(&[pull], "", None), "Pod NAMESPACE/POD");
        assert_eq!(of(&[pull], "shop", None), "Pod shop/POD");
        assert_eq!(of(&[pull], "", Some(&web)), "Pod shop/web-0");
        let named = "Pod monitoring/autotune-zz78v, Pod monitoring/autotune-zz78v";
        assert_eq!(of(&[bound, pull], "", Some(&web)), named);
        // A virtual cluster: the namespace of the host cluster is in the message.
        let synced = "57s         Warning   BackOff             pod/coredns-56bfc489cf-ggh5b    Back-off restarting failed container coredns in pod coredns-56bfc489cf-ggh5b_vcluster-a(3dbd12b8-cb1c-4525-b4b1-db01095699d0)";
        let of_host = "pod vcluster-a/coredns-56bfc489cf-ggh5b";
        assert_eq!(of(&[synced], "", None), of_host);
        let own = "pod kube-system/coredns-56bfc489cf-ggh5b";
        assert_eq!(of(&[synced], "kube-system", None), own);
        for (line, want) in [
            (
                "Unable to mount volumes for pod \"gogs-2-91275_infra(3c2d0709-2204-11e6-843d-525400daa840)\": conf",
                "Pod infra/gogs-2-91275",
            ),
            (
                "Back-off restarting failed container web in pod web-0_shop(c3cc4508-dddb-4946-bb9c-13a558746751)",
                "Pod shop/web-0",
            ),
            (
                "Warning  FailedCreate  3m37s  job-controller  Error creating: pods \"trace-d9c-pktmb\" is forbidden: failed quota: q",
                "Job NAMESPACE/trace-d9c",
            ),
            (
                "Warning  FailedCreate  3m37s  replicaset-controller  Error creating: pods \"coredns-66bff467f8-\" is forbidden",
                "ReplicaSet NAMESPACE/coredns-66bff467f8",
            ),
            (
                "Warning  FailedCreate  12m  daemonset-controller  Error creating: Timeout: request did not complete",
                "DaemonSet NAMESPACE/DAEMONSET",
            ),
            (
                "Warning  ImageGCFailed  14m  kubelet, k3d-server  failed to garbage collect required amount of images.",
                "Node /k3d-server",
            ),
            (
                "Normal  FailedBinding  4m54s  persistentvolume-controller  no persistent volumes available for this claim",
                "PersistentVolumeClaim NAMESPACE/PERSISTENTVOLUMECLAIM",
            ),
        ] {
            assert_eq!(of(&[line], "", None), want, "{line}");
        }
    }
}
