//! Why nodes have the taints that keep a pod away: taints that Kubernetes sets for a node's condition are traced to
//! that condition, or to the component that is silent. Names of the taints: Kubernetes `core/v1/well_known_taints.go`.

use super::{Context, heard};
use crate::diagnose::cluster::low_on;
use crate::diagnose::finding::Finding;
use crate::diagnose::scheduler::untolerated;
use crate::diagnose::signal;
use crate::diagnose::text::{at, list, shorten};
use kflow_model::{
    Evidence, ObjectRef,
    node::NodeSeen,
    pod::{Condition, PodSeen},
};

/// Number of nodes that are named one by one; the others are counted.
const NAMED: usize = 3;

/// Returns why a node has a taint, in words, and the evidence; `None` for a taint that Kubernetes does not set.
fn cause(cx: Context<'_>, n: &NodeSeen, key: &str) -> Option<(String, Option<Evidence>)> {
    let name = &n.name;
    let since = |c: Option<&Condition>| {
        c.and_then(|c| c.transition)
            .map(|t| format!(" since {}", at(t, cx.now)))
            .unwrap_or_default()
    };
    let says = |c: Option<&Condition>| {
        c.map(|c| format!("{}: {}", c.reason, shorten(&c.message, 160)))
            .map(|s| s.trim_matches([':', ' ', '.']).to_owned())
            .filter(|s| !s.is_empty())
            .map(|s| format!(" ({s})"))
            .unwrap_or_default()
    };
    let short = |kind: &str| {
        let c = n.condition(kind).filter(|c| c.is_true());
        let of = low_on(kind).unwrap_or(kind);
        format!("{name} is short of {of}{}{}", since(c), says(c))
    };
    let node = || cx.shared.node(name).and_then(|f| f.evidence.clone());
    if let Some(why) = left_over(cx, n, key) {
        return Some((why, node()));
    }
    Some(match key {
        "node.kubernetes.io/unreachable" => {
            let ready = n.condition("Ready").filter(|c| !c.is_true());
            let marked = ready.and_then(|c| c.transition);
            match heard::kubelet(cx, name) {
                Some(h) if marked.is_none_or(|m| h.at <= m) => (
                    format!(
                        "{name}'s kubelet has not reported since {}",
                        at(h.at, cx.now)
                    ),
                    h.evidence.or_else(node),
                ),
                Some(h) => (
                    format!(
                        "{name}'s kubelet was silent and is heard again (last at {}), and kube-controller-manager has not taken its taint away yet",
                        at(h.at, cx.now)
                    ),
                    h.evidence.or_else(node),
                ),
                None => (
                    format!(
                        "{name}'s kubelet has not reported{}",
                        marked.map_or_else(String::new, |m| format!(
                            " since before {}",
                            at(m, cx.now)
                        ))
                    ),
                    node(),
                ),
            }
        }
        "node.kubernetes.io/not-ready" => {
            let ready = n.condition("Ready").filter(|c| !c.is_true());
            (
                format!("{name} is not ready{}{}", since(ready), says(ready)),
                node(),
            )
        }
        "node.kubernetes.io/memory-pressure" => (short("MemoryPressure"), node()),
        "node.kubernetes.io/disk-pressure" => (short("DiskPressure"), node()),
        "node.kubernetes.io/pid-pressure" => (short("PIDPressure"), node()),
        "node.kubernetes.io/network-unavailable" => {
            let c = n.condition("NetworkUnavailable");
            (
                format!("the network of {name} is not set up{}{}", since(c), says(c)),
                node(),
            )
        }
        "node.cloudprovider.kubernetes.io/uninitialized" => (
            format!("no cloud controller has initialised {name}"),
            node(),
        ),
        "node.kubernetes.io/unschedulable" => (format!("{name} is cordoned"), node()),
        "node.kubernetes.io/out-of-service" => {
            (format!("{name} is marked as out of service"), node())
        }
        _ => return None,
    })
}

/// Says that the condition for which a taint was set is over. The controller-manager takes the taint away within a second (Kubernetes
/// 1.36 `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, `doNoScheduleTaintingPass`); a new node has its first taint from
/// the apiserver (`plugin/pkg/admission/nodetaint/admission.go`).
fn left_over(cx: Context<'_>, n: &NodeSeen, key: &str) -> Option<String> {
    let kind = match key {
        "node.kubernetes.io/not-ready" => "Ready",
        "node.kubernetes.io/memory-pressure" => "MemoryPressure",
        "node.kubernetes.io/disk-pressure" => "DiskPressure",
        "node.kubernetes.io/pid-pressure" => "PIDPressure",
        "node.kubernetes.io/network-unavailable" => "NetworkUnavailable",
        _ => return None,
    };
    let well = if kind == "Ready" { "True" } else { "False" };
    let c = n.condition(kind).filter(|c| c.status == well)?;
    let since = c.transition.filter(|t| t.0 > 0);
    let since = since.map_or_else(String::new, |t| format!(" since {}", at(t, cx.now)));
    Some(format!(
        "{} is well ({kind}={well}{since}), and kube-controller-manager has not taken its taint away",
        n.name
    ))
}

/// Taints that Kubernetes sets because a node is not well (k8s.io/api/core/v1/well_known_taints.go). Others with the same
/// prefix are those of whoever runs the nodes.
const OF_HEALTH: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
];

/// True for a taint that Kubernetes sets because a node is not well.
pub(super) fn is_of_health(key: &str) -> bool {
    OF_HEALTH.contains(&key)
}

/// Returns the nodes that a table shows as not ready, which has no taints.
pub(super) fn rows_not_ready<'n>(nodes: &[&'n NodeSeen]) -> Vec<&'n str> {
    let not_ready = |n: &&&NodeSeen| n.is_row && n.condition("Ready").is_some_and(|c| !c.is_true());
    let all = nodes.iter().filter(not_ready);
    all.map(|n| n.name.as_str()).collect()
}

/// Adds to a finding why nodes have the taints that keep the pod away. When that is known for all those nodes, the
/// finding names it as the root.
pub(super) fn root(cx: Context<'_>, pod: &PodSeen, nodes: &[&NodeSeen], x: &mut Finding<'_>) {
    let mut words = Vec::new();
    let mut keys: Vec<&str> = Vec::new();
    let mut proofs = Vec::new();
    let (mut kept_away, mut rooted) = (0, 0);
    let mut behind = None;
    for n in nodes {
        let taints = untolerated(pod, n);
        if taints.is_empty() {
            continue;
        }
        kept_away += 1;
        let told = taints
            .iter()
            .find_map(|(key, ..)| Some((key, cause(cx, n, key)?)));
        let Some((key, (why, proof))) = told else {
            continue;
        };
        rooted += 1;
        behind.get_or_insert(&n.name);
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
        if words.len() < NAMED {
            words.push(why);
            proofs.extend(proof);
        }
    }
    if let Some(key) = keys.iter().find(|key| is_of_health(key)) {
        let has = |n: &NodeSeen| n.taints.iter().any(|t| t.0 == **key);
        let is_sick = |n: &&NodeSeen| has(n) && left_over(cx, n, key).is_none();
        let name = match nodes.iter().find(|n| is_sick(n)) {
            Some(_) => "sick",
            None => "left",
        };
        x.names.set(name, key);
    }
    if let Some(network) = words.iter().find_map(|why| signal::network_missing(why)) {
        x.names.set("network", network);
    }
    if rooted == 0 {
        return;
    }
    let more = match rooted - words.len() {
        0 => String::new(),
        n => format!(" (and {n} more nodes)"),
    };
    let why = format!("{}{more}", list(&words));
    if rooted == kept_away {
        x.behind = behind.map(|name| ObjectRef {
            kind: "Node".into(),
            name: name.clone(),
            ..ObjectRef::default()
        });
        let (its, s, keep) = match (rooted, keys.len()) {
            (1, 1) => ("its", "", "keeps"),
            (_, 1) => ("their", "", "keeps"),
            _ => ("their", "s", "keep"),
        };
        let taints = list(&keys);
        x.names.replace(
            "root",
            &format!("{why}, so {its} taint{s} {taints} {keep} the pod away."),
        );
    } else {
        x.names.replace("why", &why);
    }
    x.proofs
        .extend(proofs.iter().map(crate::diagnose::finding::proof));
}

#[cfg(test)]
mod tests {
    use super::is_of_health;

    #[test]
    fn a_taint_is_of_a_node_that_is_not_well_only_where_kubernetes_sets_it() {
        assert!(is_of_health("node.kubernetes.io/disk-pressure"));
        for other in ["unschedulable", "out-of-service", "windows", "dedicated"] {
            assert!(!is_of_health(&format!("node.kubernetes.io/{other}")));
        }
    }
}
