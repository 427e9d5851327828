//! Rows of Events as objects of the API.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::pods::is_name;
use super::table::Row;
use super::{Described, MADE_UID, Moment};
use kflow_model::event::EventSeen;
use kflow_model::scope::is_uid;

/// Part of the names that are made here of Events: the object's name, this, and the number of the row.
const ROW: &str = ".row-";
/// The same of what has no time, not even an age: a message in prose.
const UNDATED: &str = ".undated-";

/// Numbers the rows of each object, which have no names. An Event that stands in two tables has the same number in both.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// By object, what a row says, and how many rows above it in its table say the same.
    all: FxHashMap<(u64, u64, usize), usize>,
    /// How many of these there are of each object.
    of_object: FxHashMap<u64, usize>,
    /// The rows of this table so far.
    here: FxHashMap<(u64, u64), usize>,
}

impl Numbers {
    pub(super) fn begin(&mut self) {
        self.here.clear();
    }

    pub(super) fn of(&mut self, row: &Row, described: &Described<'_>) -> usize {
        let object = (
            &row.namespace,
            &row.object,
            described.namespace,
            described.name,
        );
        let hash = FxBuildHasher;
        let (object, said) = (
            hash.hash_one(object),
            hash.hash_one((&row.reason, &row.message)),
        );
        let above = self.here.entry((object, said)).or_default();
        let key = (object, said, *above);
        *above += 1;
        *self.all.entry(key).or_insert_with(|| {
            let count = self.of_object.entry(object).or_default();
            *count += 1;
            *count - 1
        })
    }
}

/// Makes a row one second older than another of the same object and age below it, where that tells what came next: a SuccessfulCreate
/// before a FailedCreate, and a failure of a pod's volumes or sandbox before a step of its containers. kubectl sorts Events by time
/// (k8s.io/kubectl/pkg/describe/describe.go, `DescribeEvents`), and rounds ages of minutes and more.
pub(super) fn put_in_order(rows: &mut [Row]) {
    let mut failed: FxHashSet<(String, String, i64)> = FxHashSet::default();
    let mut went_on: FxHashSet<(String, String, i64)> = FxHashSet::default();
    for row in rows.iter_mut().rev() {
        let Some(mut age) = row.ages.last.filter(|age| age.unit > 1) else {
            continue;
        };
        let key = (row.namespace.clone(), row.object.clone(), age.seconds);
        match row.reason.as_str() {
            "FailedCreate" => {
                failed.insert(key);
            }
            "Pulling" | "Pulled" | "Created" | "Started" => {
                went_on.insert(key);
            }
            "SuccessfulCreate" if failed.contains(&key) => age.seconds += 1,
            "FailedAttachVolume"
            | "FailedMapVolume"
            | "FailedMount"
            | "FailedSync"
            | "FailedCreatePodSandBox"
            | "NetworkNotReady"
                if went_on.contains(&key) =>
            {
                age.seconds += 1;
            }
            _ => {}
        }
        row.ages.last = Some(age);
        // What is counted did not begin after it was counted last.
        if let Some(first) = row.ages.first.as_mut() {
            first.seconds = first.seconds.max(age.seconds);
        }
    }
}

/// Gives the kubelet's Events about a pod the node to which it was bound as their host, which kubectl since 1.20 does not print
/// (k8s.io/kubectl/pkg/describe/describe.go, `DescribeEvents`). A name may have been of pods on several nodes.
pub(super) fn put_hosts(rows: &mut [Row], described: &Described<'_>) {
    let key = |row: &Row| (row.namespace.clone(), row.object.clone());
    let mut nodes: FxHashMap<(String, String), Option<String>> = FxHashMap::default();
    for row in rows.iter() {
        if let Some(node) = bound_to(row) {
            let known = nodes.entry(key(row));
            let known = known.or_insert_with(|| Some(node.to_owned()));
            known.take_if(|known| known != node);
        }
    }
    for row in rows.iter_mut().filter(|row| row.host.is_empty()) {
        let kind = if row.object.is_empty() {
            described.kind
        } else {
            &row.kind
        };
        let is_of_pod = kind.eq_ignore_ascii_case("Pod");
        if is_of_pod
            && component(row, "Pod") == "kubelet"
            && let Some(Some(node)) = nodes.get(&key(row))
        {
            row.host.clone_from(node);
        }
    }
}

/// Returns the node that a scheduler chose: `Successfully assigned shop/web-0 to node1`.
fn bound_to(row: &Row) -> Option<&str> {
    let (_, node) = row.message.rsplit_once(" to ")?;
    let node = node.trim();
    (row.reason == "Scheduled" && is_name(node)).then_some(node)
}

/// Returns a row as an Event. `n` tells the rows of a table apart, which have no names.
pub(super) fn event(row: Row, described: &Described<'_>, moment: Moment, n: usize) -> Value {
    let of_row = !row.object.is_empty();
    let kind = if of_row {
        long_kind(&row.kind)
    } else {
        described.kind.to_owned()
    };
    let name = if of_row {
        row.object.as_str()
    } else {
        described.name
    };
    let namespace = if row.namespace.is_empty() {
        described.namespace
    } else {
        &row.namespace
    };
    // `spec.containers{web}: message` since kubectl 1.35.
    let (part, message) = match row.message.split_once("}: ") {
        Some((part, message)) if part.starts_with("spec.") => (format!("{part}}}"), message),
        _ => (row.subobject.clone(), row.message.as_str()),
    };
    let part = if part.is_empty() {
        container(&row.reason, message, described)
    } else {
        part
    };
    let last = row.ages.last.map(|a| moment.before(a).to_rfc3339_seconds());
    let first = row
        .ages
        .first
        .map(|a| moment.before(a).to_rfc3339_seconds());
    let is_undated = row.ages.last.is_none() && row.at.is_none();
    let own = match (row.name.as_str(), is_undated) {
        ("", false) => format!("{name}{ROW}{n}"),
        ("", true) => format!("{name}{UNDATED}{n}"),
        (own, _) => own.to_owned(),
    };
    let uid = match (of_row, row.is_described && kind == "Pod") {
        (_, true) => format!("{MADE_UID}{namespace}/{name}"),
        (true, _) => String::new(),
        _ => described.uid.clone(),
    };
    json!({
        "kind": "Event",
        "metadata": {"name": own, "namespace": namespace},
        "involvedObject": {"kind": kind, "namespace": namespace, "name": name, "uid": uid, "fieldPath": part},
        "reason": row.reason,
        "message": message,
        "type": if row.warning { "Warning" } else { "Normal" },
        "count": row.ages.count.unwrap_or(1),
        // `kubectl get events` prints neither a count nor the first time.
        "firstTimestamp": first.or_else(|| last.clone().filter(|_| !of_row || row.ages.count.is_some())),
        "lastTimestamp": last,
        "source": {"component": component(&row, &kind), "host": row.host},
    })
}

/// Reasons by which the kubelet alone reports about a container (1.36: `pkg/kubelet/events/event.go`).
const OF_CONTAINERS: [&str; 11] = [
    "Pulling",
    "Pulled",
    "Created",
    "Started",
    "Failed",
    "BackOff",
    "Killing",
    "Unhealthy",
    "ProbeWarning",
    "InspectFailed",
    "ErrImageNeverPull",
];
/// The same, about a pod.
const OF_PODS: [&str; 9] = [
    "FailedMount",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "FailedPrepareDynamicResources",
    "FailedPostStartHook",
    "FailedPreStopHook",
    "FailedKillPod",
    "NetworkNotReady",
    "SandboxChanged",
];

/// True for an Event of a row without a name: its times are ages.
pub fn is_printed(e: &EventSeen) -> bool {
    is_numbered(e, ROW) || is_undated(e)
}

/// True for one of which the text does not say when it was: it counts as of the moment of the text.
pub fn is_undated(e: &EventSeen) -> bool {
    is_numbered(e, UNDATED)
}

fn is_numbered(e: &EventSeen, by: &str) -> bool {
    let row = e.name.rsplit_once(by).map(|(_, n)| n);
    row.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns who reports an Event. Without `-o wide`, `kubectl get events` has no column for it; then the reason tells.
fn component<'a>(row: &'a Row, kind: &str) -> &'a str {
    let reason = row.reason.as_str();
    let of_kubelet = OF_CONTAINERS.contains(&reason) || OF_PODS.contains(&reason);
    if row.component.is_empty() && kind == "Pod" && of_kubelet {
        "kubelet"
    } else {
        &row.component
    }
}

/// Returns the container that an Event of the kubelet is about, as a path into the pod: releases before 1.35 do not print
/// it. It is the one that the message names, by its name or image; else the pod's only one.
fn container(reason: &str, message: &str, described: &Described<'_>) -> String {
    // Up to 1.20 (pkg/kubelet/lifecycle/handlers.go, `Run`).
    if let Some((_, of)) = message.split_once(" for Container \"")
        && matches!(reason, "FailedPostStartHook" | "FailedPreStopHook")
        && let Some((name, _)) = of.split_once('"')
    {
        return format!("spec.containers{{{name}}}");
    }
    if !OF_CONTAINERS.contains(&reason) {
        return String::new();
    }
    // `… container web in pod web-0_shop(UID)`, since 1.25.
    let mut front = message
        .split_once(" in pod ")
        .into_iter()
        .flat_map(|(front, _)| front.rsplit(' '));
    if let (Some(name), Some("container")) = (front.next(), front.next()) {
        return format!("spec.containers{{{name}}}");
    }
    let words = || message.split(|c: char| c.is_whitespace() || "\"=,()".contains(c));
    let named =
        |name: &str| !name.is_empty() && words().any(|w| w.trim_end_matches([':', '.']) == name);
    let all = &described.containers;
    let mut by_name = all.iter().filter(|(name, _)| named(name));
    let mut by_image = all.iter().filter(|(_, image)| named(image));
    let found = match (all.as_slice(), by_name.next(), by_name.next()) {
        ([only], _, _) => Some(only),
        (_, Some(one), None) => Some(one),
        _ => match (by_image.next(), by_image.next()) {
            (Some(one), None) => Some(one),
            _ => None,
        },
    };
    found.map_or_else(String::new, |(name, _)| {
        format!("spec.containers{{{name}}}")
    })
}

/// Returns the container that was made or started: `Created container web` (1.14), `Created container: web` (1.33), `Started
/// container web` (pkg/kubelet/kuberuntime/kuberuntime_container.go, `startContainer`). Older messages have no name, or an id.
/// Other text may stand behind the last message.
pub(super) fn begun<'a>(reason: &str, message: &'a str) -> Option<&'a str> {
    if !matches!(reason, "Created" | "Started") {
        return None;
    }
    let (_, name) = message.lines().next()?.split_once(" container")?;
    let name = name.trim_start_matches(':').trim();
    is_name(name).then_some(name)
}

/// Returns the pod's UID, which is in the texts of some Events (`web-0_shop(UID)`, `/pods/UID/volumes`); else one
/// that is made of its names. Other text may stand behind the last message.
pub(super) fn uid(pod: &Described<'_>, rows: &[Row]) -> String {
    let fronts = [
        format!("{}_{}(", pod.name, pod.namespace),
        format!("_{}_{}_", pod.name, pod.namespace),
        // Of any pod.
        "/var/lib/kubelet/pods/".to_owned(),
    ];
    let texts = || {
        let (last, before) = rows.split_last()?;
        let first_line = last.message.lines().next().unwrap_or_default();
        Some(
            before
                .iter()
                .map(|row| row.message.as_str())
                .chain([first_line]),
        )
    };
    for front in &fronts {
        let after = texts().into_iter().flatten();
        let after = after.filter_map(|text| Some(text.split_once(front.as_str())?.1));
        let mut uids = after
            .filter_map(|after| after.get(..36))
            .filter(|u| is_uid(u));
        if let Some(uid) = uids.next() {
            return uid.to_owned();
        }
    }
    format!("{MADE_UID}{}/{}", pod.namespace, pod.name)
}

/// Returns the API's spelling of a kind that kubectl prints in small letters.
fn long_kind(kind: &str) -> String {
    const KINDS: [&str; 16] = [
        "Pod",
        "Node",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
        "DaemonSet",
        "Deployment",
        "Job",
        "CronJob",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "NodeClaim",
        "NodePool",
        "PodGroup",
    ];
    let known = KINDS.iter().find(|k| k.eq_ignore_ascii_case(kind));
    known.map_or_else(|| kind.to_owned(), |k| (*k).to_owned())
}
