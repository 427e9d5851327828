//! Installs the agents into a cluster, and uninstalls them.
//!
//! Uninstalling leaves nothing behind: before the DaemonSet is deleted, its pods are replaced by pods that remove the
//! agent's files from their node (`kflow agent clean`); such a pod is ready once it has done so. For this no agent
//! needs a right to write in the cluster, and none has to know which of its terminations is the last.

use std::time::Duration;

use kube::api::DynamicObject;
use kube::client::Client;
use serde_json::Value;

use kflow_model::clock;
use kflow_sources::agent::LABEL;

use crate::manifest::{self, Wanted};
use crate::objects::{Error, Object, is_ours, list};

/// Longest wait for a DaemonSet that is replaced to go.
const GOING: Duration = Duration::from_secs(60);
/// Pause between two requests for the state of the cluster.
const LOOK: Duration = Duration::from_secs(1);

/// What was done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    Created,
    Changed,
    Unchanged,
    Removed,
    /// The object did not exist.
    Absent,
    /// The object stays, for this reason.
    Left(String),
}

impl Did {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Removed => "removed",
            Self::Absent => "not there",
            Self::Left(_) => "left",
        }
    }
}

/// Called for each object with its name and what was done.
pub type Tell<'a> = &'a mut (dyn FnMut(&str, &Did) + Send);

/// State of a DaemonSet's rollout, node by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// True once the DaemonSet's controller has looked at the newest template; nothing else is known before.
    pub seen: bool,
    pub wanted: u64,
    pub ready: u64,
    /// Nodes whose pod is not ready, each with the reason.
    pub waiting: Vec<(String, String)>,
}

impl Rollout {
    pub const fn is_over(&self) -> bool {
        self.seen && self.ready >= self.wanted && self.waiting.is_empty()
    }
}

/// Applies the manifest. With `only_there`, agents have to be installed already, and what `wanted` leaves open stays as
/// they have it.
pub async fn install(
    client: &Client,
    wanted: &Wanted,
    only_there: bool,
    tell: Tell<'_>,
) -> Result<(), InstallError> {
    let objects = manifest::objects(wanted)?;
    let before = looked_at(client, &objects).await?;
    let is_there = |kind: &str| {
        objects
            .iter()
            .zip(&before)
            .any(|(o, b)| o.kind == kind && b.is_some())
    };
    if only_there && !is_there("DaemonSet") {
        let namespace = wanted.namespace.clone();
        return Err(Error::NotInstalled { namespace }.into());
    }
    may_change(&objects, &before, &wanted.namespace)?;
    let there = before.iter().flatten().find(|o| {
        o.metadata.name.as_deref() == Some(manifest::DAEMON_SET)
            && o.data.pointer("/spec/template").is_some()
    });
    let is_cleaning = there.is_some_and(|t| manifest::arguments(&t.data).is_none());
    if only_there && is_cleaning {
        let namespace = wanted.namespace.clone();
        return Err(Error::Cleaned { namespace }.into());
    }
    let objects = match there.filter(|_| only_there) {
        Some(there) => manifest::objects(&wanted.or_as_there(&there.data))?,
        None => objects,
    };
    for (object, there) in objects.iter().zip(before) {
        let what = object.what();
        if is_cleaning && object.kind == "DaemonSet" {
            // What is applied leaves the init container that cleans, which would remove the spool at each start.
            object.delete(client).await?;
            if !gone(client, object, GOING).await? {
                return Err(Error::Stays { what }.into());
            }
        }
        if let Some(there) = there.as_ref().filter(|t| !is_ours(t)) {
            tell(&what, &Did::Left(foreign_namespace(there)));
            continue;
        }
        let now = object.apply(client).await?;
        let version = |o: &DynamicObject| o.metadata.resource_version.clone();
        tell(
            &what,
            &match there {
                None => Did::Created,
                Some(there) if version(&there) == version(&now) => Did::Unchanged,
                Some(_) => Did::Changed,
            },
        );
    }
    Ok(())
}

/// Refuses objects that are not kflow's, that belong to agents in another namespace, or that a Helm release manages.
fn may_change(
    objects: &[Object],
    before: &[Option<DynamicObject>],
    namespace: &str,
) -> Result<(), Error> {
    for (object, there) in objects.iter().zip(before) {
        let Some(there) = there else { continue };
        if object.kind != "Namespace" && !is_ours(there) {
            let what = object.what();
            return Err(Error::NotOurs { what });
        }
        // A namespace may be of the chart of something else.
        if let Some(release) = release(there).filter(|_| is_ours(there)) {
            return Err(release);
        }
        if let Some(namespace) = subject(there).filter(|n| *n != namespace) {
            let namespace = namespace.to_owned();
            return Err(Error::Elsewhere { namespace });
        }
    }
    Ok(())
}

/// Returns an error when the object belongs to a Helm release (`pkg/action/validate.go` of Helm): Helm would revert a
/// change that is made without it, and would still list a release whose objects are gone.
fn release(there: &DynamicObject) -> Option<Error> {
    let text = |key: &str| Some(there.metadata.annotations.as_ref()?.get(key)?.clone());
    Some(Error::Helm {
        release: text("meta.helm.sh/release-name")?,
        namespace: text("meta.helm.sh/release-namespace")?,
    })
}

/// Why an installation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    #[error(transparent)]
    Cluster(#[from] Error),
}

async fn looked_at(
    client: &Client,
    objects: &[Object],
) -> Result<Vec<Option<DynamicObject>>, Error> {
    let mut all = Vec::new();
    for object in objects {
        all.push(object.get(client).await?);
    }
    Ok(all)
}

/// Returns the namespace of the subject to which a binding grants its role.
fn subject(object: &DynamicObject) -> Option<&str> {
    object.data.pointer("/subjects/0/namespace")?.as_str()
}

/// Returns a remark about a namespace that existed before kflow.
fn foreign_namespace(there: &DynamicObject) -> String {
    const LEVEL: &str = "pod-security.kubernetes.io/enforce";
    let labels = there.metadata.labels.as_ref();
    match labels.and_then(|l| l.get(LEVEL)).map(String::as_str) {
        Some("privileged") => "it is not kflow's".to_owned(),
        level => format!(
            "it is not kflow's; its pods need {LEVEL}: privileged, and it has {}",
            level.unwrap_or("none (the cluster's default)")
        ),
    }
}

/// Waits until every wanted node has a ready pod of the DaemonSet's newest template, for at most `patience`, and
/// returns the last state.
pub async fn rolled_out(
    client: &Client,
    namespace: &str,
    patience: Duration,
    mut progress: impl FnMut(&Rollout),
) -> Result<Rollout, InstallError> {
    let begun = clock::monotonic();
    let mut told = None;
    loop {
        let state = rollout(client, namespace).await?;
        let over = state.as_ref().is_some_and(Rollout::is_over);
        let late = clock::monotonic().saturating_duration_since(begun) >= patience;
        let shown = state.clone().unwrap_or_default();
        if state.is_some() && told.as_ref() != Some(&shown) {
            progress(&shown);
            told = Some(shown.clone());
        }
        if over || late {
            return Ok(shown);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the state of the rollout; `None` while the DaemonSet controller has not observed the newest template.
async fn rollout(client: &Client, namespace: &str) -> Result<Option<Rollout>, InstallError> {
    let Some(set) = manifest::daemon_set(namespace)?.get(client).await? else {
        let namespace = namespace.to_owned();
        return Err(Error::NotInstalled { namespace }.into());
    };
    let number = |path: &str| set.data.pointer(path).and_then(Value::as_u64);
    let generation = set.metadata.generation.unwrap_or(0);
    let seen = number("/status/observedGeneration").unwrap_or(0);
    if i64::try_from(seen).unwrap_or(0) < generation {
        return Ok(None);
    }
    // `GetTemplateGeneration` (pkg/controller/daemon/util/daemonset_util.go). `metadata.generation` grows with each change
    // of the spec, also of the update strategy alone.
    let annotations = set.metadata.annotations.as_ref();
    let newest = annotations.and_then(|a| a.get("deprecated.daemonset.template.generation"));
    let pods = list(client, ("", "v1", "Pod"), Some(namespace), LABEL).await?;
    let mut ready = 0;
    let mut waiting = Vec::new();
    for pod in &pods {
        let labels = pod.metadata.labels.as_ref();
        // `pod-template-generation` (pkg/controller/daemon/util, `CreatePodTemplate`).
        let of = labels.and_then(|l| l.get("pod-template-generation"));
        let why = if pod.metadata.deletion_timestamp.is_some() {
            "its pod before is ending".to_owned()
        } else if of != newest {
            "its pod is the one from before".to_owned()
        } else if is_ready(&pod.data) {
            ready += 1;
            continue;
        } else {
            unready(&pod.data)
        };
        let node = meant_for(&pod.data).unwrap_or("no node");
        waiting.push((node.to_owned(), why));
    }
    waiting.sort();
    Ok(Some(Rollout {
        seen: true,
        wanted: number("/status/desiredNumberScheduled").unwrap_or(0),
        ready,
        waiting,
    }))
}

/// True for a pod whose condition `Ready` is true.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| {
        all.iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    })
}

/// Returns the node of a DaemonSet's pod: the one that it is on, or else the one that it was made for and has not got to, which its
/// affinity names (Kubernetes 1.36 `pkg/controller/daemon/util/daemonset_util.go`, `ReplaceDaemonSetPodNodeNameNodeAffinity`).
pub(crate) fn meant_for(pod: &Value) -> Option<&str> {
    const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let bound = pod.pointer("/spec/nodeName").and_then(Value::as_str);
    let terms = || pod.pointer(TERMS).and_then(Value::as_array);
    let fields = || {
        let fields = terms()?.iter().filter_map(|t| t["matchFields"].as_array());
        let mut named = fields.flatten().filter(|f| f["key"] == "metadata.name");
        named.next()?.pointer("/values/0")?.as_str()
    };
    bound.or_else(fields)
}

/// Returns why a pod is not ready: what one of its containers waits for, or why no node is found for it, else its phase.
pub(crate) fn unready(pod: &Value) -> String {
    let of = |list: &str| {
        let all = pod.pointer(list).and_then(Value::as_array);
        all.into_iter().flatten().find_map(|c| {
            let waiting = c.pointer("/state/waiting");
            let last = c.pointer("/lastState/terminated");
            let reason = waiting?.get("reason")?.as_str()?;
            let message = waiting?.get("message").and_then(Value::as_str);
            let code = last.and_then(|l| l.get("exitCode")).and_then(Value::as_i64);
            Some(match (message, code) {
                (Some(m), _) => format!("{reason}: {m}"),
                (None, Some(code)) => format!("{reason}, the last one ended with {code}"),
                (None, None) => reason.to_owned(),
            })
        })
    };
    let phase = || {
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        format!("{}, not ready", phase.unwrap_or("not started"))
    };
    let unscheduled = || {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let refused = |c: &&Value| c["type"] == "PodScheduled" && c["status"] == "False";
        let refused = conditions?.iter().find(refused)?;
        let said = refused["message"].as_str().filter(|m| !m.is_empty())?;
        Some(format!("Pending: {said}"))
    };
    of("/status/initContainerStatuses")
        .or_else(|| of("/status/containerStatuses"))
        .or_else(unscheduled)
        .unwrap_or_else(phase)
}

/// What an uninstallation left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Nodes on which files may remain, each with the reason.
    pub nodes: Vec<(String, String)>,
    /// Objects that were deleted but still exist.
    pub objects: Vec<String>,
}

/// Removes the agents' files and objects. What is not removed in time is reported and does not hold up the rest.
pub async fn uninstall(
    client: &Client,
    namespace: &str,
    patience: Duration,
    tell: Tell<'_>,
) -> Result<Remains, InstallError> {
    let objects = manifest::objects(&Wanted {
        namespace: namespace.to_owned(),
        image: "kflow".to_owned(),
        ..Wanted::default()
    })?;
    let before = looked_at(client, &objects).await?;
    may_change(&objects, &before, namespace)?;
    let mut remains = Remains::default();
    let all: Vec<_> = objects.into_iter().zip(before).collect();
    if let Some((object, Some(there))) = all.iter().find(|(o, _)| o.kind == "DaemonSet") {
        remains.nodes = clean(client, object, there, namespace, patience, tell).await?;
    }
    for (object, there) in all.iter().rev() {
        let what = object.what();
        let Some(there) = there else {
            tell(&what, &Did::Absent);
            continue;
        };
        if object.kind == "Namespace"
            && let Some(why) = kept(client, there, namespace).await?
        {
            tell(&what, &Did::Left(why));
            continue;
        }
        object.delete(client).await?;
        if gone(client, object, patience).await? {
            tell(&what, &Did::Removed);
        } else {
            let why = "it was asked to go, and is still there".to_owned();
            tell(&what, &Did::Left(why));
            remains.objects.push(what);
        }
    }
    Ok(remains)
}

/// Removes only the agents' files. The objects stay, the DaemonSet with the pods that removed the files included, for
/// their owner (such as Helm) to delete.
pub async fn only_files(
    client: &Client,
    namespace: &str,
    patience: Duration,
    tell: Tell<'_>,
) -> Result<Remains, InstallError> {
    let object = manifest::daemon_set(namespace)?;
    let mut remains = Remains::default();
    match object.get(client).await? {
        Some(there) if !is_ours(&there) => {
            let what = object.what();
            return Err(Error::NotOurs { what }.into());
        }
        Some(there) => {
            remains.nodes = clean(client, &object, &there, namespace, patience, tell).await?;
        }
        None => tell(&object.what(), &Did::Absent),
    }
    Ok(remains)
}

/// Makes every node with an agent remove its files. Returns the nodes that did not confirm it, each with the reason.
async fn clean(
    client: &Client,
    object: &Object,
    there: &DynamicObject,
    namespace: &str,
    patience: Duration,
    tell: Tell<'_>,
) -> Result<Vec<(String, String)>, InstallError> {
    let image = there
        .data
        .pointer("/spec/template/spec/containers/0/image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut cleaning = there.clone();
    cleaning.metadata.managed_fields = None;
    let (mut template, strategy) = manifest::cleaning(image)?;
    // The pods run on the nodes that have an agent, and pull their image in the same way.
    let pod = there.data.pointer("/spec/template/spec");
    for field in ["nodeSelector", "tolerations", "imagePullSecrets"] {
        if let (Some(value), Some(spec)) = (
            pod.and_then(|p| p.get(field)),
            template.get_mut("spec").and_then(Value::as_object_mut),
        ) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(spec) = cleaning.data.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("template".to_owned(), template);
        spec.insert("updateStrategy".to_owned(), strategy);
    }
    object.replace(client, &cleaning).await?;
    let done = rolled_out(client, namespace, patience, |_| {}).await?;
    let what = format!("files of {} of {} nodes", done.ready, done.wanted);
    let over = done.is_over();
    let mut missing = done.waiting;
    let named = u64::try_from(missing.len()).unwrap_or(u64::MAX);
    let unnamed = done.wanted.saturating_sub(done.ready).saturating_sub(named);
    if !done.seen {
        let why = "the DaemonSet's controller has not replaced the agents".to_owned();
        missing.push(("every node".to_owned(), why));
    } else if unnamed > 0 {
        let nodes = kflow_model::units::counted(unnamed, "more node");
        missing.push((nodes, "no pod came there".to_owned()));
    }
    tell(
        &what,
        &if over {
            Did::Removed
        } else {
            Did::Left("/run/kflow and /var/lib/kflow".to_owned())
        },
    );
    Ok(missing)
}

/// Returns why a namespace stays: it is not kflow's, or other pods are in it. `None` when it can be deleted.
async fn kept(
    client: &Client,
    there: &DynamicObject,
    namespace: &str,
) -> Result<Option<String>, Error> {
    if !is_ours(there) {
        return Ok(Some("it is not kflow's".to_owned()));
    }
    let pods = list(client, ("", "v1", "Pod"), Some(namespace), "").await?;
    let other = pods.iter().find(|p| !is_ours(p));
    Ok(other.map(|p| {
        let name = p.metadata.name.as_deref().unwrap_or_default();
        format!("other pods are in it: {name}")
    }))
}

async fn gone(client: &Client, object: &Object, patience: Duration) -> Result<bool, Error> {
    let begun = clock::monotonic();
    loop {
        if object.get(client).await?.is_none() {
            return Ok(true);
        }
        if clock::monotonic().saturating_duration_since(begun) >= patience {
            return Ok(false);
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As the DaemonSet controller makes it, on a node that is full (Kubernetes 1.36).
    #[test]
    fn a_pod_without_a_node_tells_for_which_it_is_and_why_it_is_not_there() {
        let full = "0/1 nodes are available: 1 Insufficient cpu.";
        let mut pod = json!({
            "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1"]}]}
            ]}}}},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": full}
            ]},
        });
        assert_eq!(meant_for(&pod), Some("node1"));
        assert_eq!(unready(&pod), format!("Pending: {full}"));
        pod["spec"]["nodeName"] = json!("node2");
        assert_eq!(meant_for(&pod), Some("node2"));
        assert_eq!(meant_for(&json!({"spec": {}})), None);
        assert_eq!(
            unready(&json!({"status": {"phase": "Pending"}})),
            "Pending, not ready"
        );
    }
}
