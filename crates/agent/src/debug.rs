//! `--debug-pod`: an agent on one node without an installation, as a Job. No other object is created.
//!
//! The command deletes the Job when it ends. If it cannot (it was killed, or the apiserver is unreachable), the Job
//! ends without it: the agent exits once it has had no subscriber for [`UNWATCHED`], `activeDeadlineSeconds` ([`MOST`])
//! bounds the Job, and the cluster deletes a finished Job (`ttlSecondsAfterFinished`, stable since Kubernetes 1.23).
//! The pod has no service account token and makes no request to the apiserver; the command makes all requests, with the
//! user's own rights.

use std::time::Duration;

use kube::api::DynamicObject;
use kube::client::Client;
use serde_json::{Value, json};

use kflow_model::clock;

use crate::install::{is_ready, unready};
use crate::manifest::{self, PART_OF};
use crate::objects::{self, Object, list};

/// The agent exits after so long without a subscriber.
pub const UNWATCHED: Duration = Duration::from_secs(120);
/// `activeDeadlineSeconds` of the Job.
pub const MOST: Duration = Duration::from_secs(4 * 3600);
/// `app.kubernetes.io/name` of the pod. It differs from that of the DaemonSet's pods, so that other viewers do not take
/// this pod for an installed agent.
const NAME: &str = "kflow-debug";
/// Pause between two requests for the state of the pod.
const LOOK: Duration = Duration::from_millis(500);
/// Waiting reasons of a container that waiting does not resolve (`pkg/kubelet/images/types.go` of Kubernetes 1.36).
const HOPELESS: [&str; 3] = ["ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"];

/// The agent to start: its node, image and namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub node: String,
    pub image: String,
    pub namespace: String,
}

/// Why the agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    #[error(transparent)]
    Cluster(#[from] objects::Error),
    /// The node does not exist, so the Job's pod would be created and removed again.
    #[error("there is no node {0}: kubectl get nodes")]
    NoNode(String),
    /// The Job creates no pod, or its pod cannot run.
    #[error("the agent for {node} does not start: {why}")]
    Fails { node: String, why: String },
    /// The pod is not ready in time, and nothing says that it never will be.
    #[error("the agent for {node} did not start within {}: {why}", kflow_model::units::wait(*.patience))]
    Late {
        node: String,
        patience: Duration,
        why: String,
    },
}

/// Returns the Job. Its pod is that of an installation's DaemonSet, without service account, spool and
/// folder on the node.
fn job(wanted: &Wanted, name: &str) -> Result<Object, manifest::Error> {
    let mut template = manifest::pod_template(&wanted.image)?;
    let labels = json!({
        "app.kubernetes.io/name": NAME,
        "app.kubernetes.io/instance": name,
        PART_OF: "kflow",
        "app.kubernetes.io/version": env!("CARGO_PKG_VERSION"),
    });
    let bug = || manifest::Error::Embedded("the agent's pod has another shape".to_owned());
    let spec = template.pointer_mut("/spec").and_then(Value::as_object_mut);
    let spec = spec.ok_or_else(bug)?;
    spec.remove("serviceAccountName");
    spec.remove("nodeSelector");
    spec.insert("automountServiceAccountToken".to_owned(), json!(false));
    // The scheduler is bypassed, because a node that accepts no pods may be the one to look at.
    spec.insert("nodeName".to_owned(), json!(wanted.node));
    spec.insert("restartPolicy".to_owned(), json!("Never"));
    spec.insert("terminationGracePeriodSeconds".to_owned(), json!(5));
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    for v in volumes.ok_or_else(bug)?.iter_mut() {
        if v["name"] == "sockets" {
            *v = json!({"name": "sockets", "emptyDir": {}});
        }
    }
    let retain = |list: Option<&mut Value>| {
        let all = list.and_then(Value::as_array_mut).ok_or_else(bug)?;
        all.retain(|v| v["name"] != "spool" && v["name"] != "HOST_IP");
        Ok::<_, manifest::Error>(())
    };
    retain(spec.get_mut("volumes"))?;
    let container = spec.get_mut("containers").and_then(|c| c.get_mut(0));
    let container = container.ok_or_else(bug)?;
    retain(container.get_mut("volumeMounts"))?;
    retain(container.get_mut("env"))?;
    let container = container.as_object_mut().ok_or_else(bug)?;
    let command = json!([
        "/kflow",
        "agent",
        "run",
        "--no-api",
        "--no-spool",
        "--until-unwatched",
        format!("{}s", UNWATCHED.as_secs()),
    ]);
    container.insert("command".to_owned(), command);
    let resources = container
        .get_mut("resources")
        .and_then(Value::as_object_mut);
    // A full node has no resources left, and its kubelet would refuse a pod that requests any.
    let none = json!({"cpu": "0", "memory": "0"});
    resources
        .ok_or_else(bug)?
        .insert("requests".to_owned(), none);
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": wanted.namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": MOST.as_secs(),
            "ttlSecondsAfterFinished": 0,
            "template": template,
        },
    });
    Object::of(job).ok_or_else(bug)
}

/// The Job of an agent. When this value is dropped, the Job ends by itself.
pub struct DebugPod {
    client: Client,
    wanted: Wanted,
    job: Object,
}

impl std::fmt::Debug for DebugPod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} for {:?}", self.what(), self.wanted)
    }
}

impl DebugPod {
    /// Creates the Job. `name` has to be unique, of at most 63 letters, digits and `-`.
    pub async fn create(client: Client, wanted: Wanted, name: &str) -> Result<Self, Error> {
        let job = job(&wanted, name)?;
        // A user who may not read nodes learns from the pod that the node does not exist.
        if let Ok(None) = manifest::node(&wanted.node)?.get(&client).await {
            return Err(Error::NoNode(wanted.node));
        }
        job.create(&client).await?;
        Ok(Self {
            client,
            wanted,
            job,
        })
    }

    /// Returns the Job's kind, namespace and name for people: `Job default/kflow-debug-1f`.
    pub fn what(&self) -> String {
        self.job.what()
    }

    /// Returns the label selector of the Job's pod.
    pub fn labels(&self) -> String {
        format!("app.kubernetes.io/instance={}", self.job.name)
    }

    pub fn namespace(&self) -> &str {
        &self.wanted.namespace
    }

    /// Waits until the pod is ready, for at most `patience`. `progress` gets what the pod waits
    /// for, whenever that changes.
    pub async fn ready(
        &self,
        patience: Duration,
        mut progress: impl FnMut(&str),
    ) -> Result<(), Error> {
        let begun = clock::monotonic();
        let mut told = String::new();
        loop {
            let state = self.state().await?;
            let node = self.wanted.node.clone();
            let why = match state {
                State::Ready => return Ok(()),
                State::Never(why) => return Err(Error::Fails { node, why }),
                State::Waits(why) => why,
            };
            if clock::monotonic().saturating_duration_since(begun) >= patience {
                return Err(Error::Late {
                    node,
                    patience,
                    why,
                });
            }
            if why != told {
                progress(&why);
                told = why;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn state(&self) -> Result<State, Error> {
        let namespace = Some(self.namespace());
        let pods = list(&self.client, ("", "v1", "Pod"), namespace, &self.labels()).await?;
        if let Some(pod) = pods.first() {
            return Ok(of_pod(&pod.data));
        }
        // The Job controller reports by an Event why it creates no pod: a quota, a policy, a webhook.
        let events = self.job.events(&self.client).await.unwrap_or_default();
        let text = |e: &DynamicObject, path: &str| {
            let value = e.data.pointer(path).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let refused = (events.iter()).find(|e| text(e, "/reason") == "FailedCreate");
        Ok(match refused.map(|e| text(e, "/message")) {
            Some(why) => State::Never(why),
            None => State::Waits("the Job has no pod yet".to_owned()),
        })
    }

    /// Deletes the Job and with it its pod. Does not wait until the pod is gone.
    pub async fn end(&self) -> Result<(), Error> {
        self.job.delete(&self.client).await?;
        Ok(())
    }
}

/// How far the start of the pod has come.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Ready,
    Waits(String),
    Never(String),
}

fn of_pod(pod: &Value) -> State {
    let text = |path: &str| {
        pod.pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let over = matches!(text("/status/phase"), "Failed" | "Succeeded");
    if over {
        let of = "/status/containerStatuses/0/state/terminated";
        let said = [text("/status/message"), text(&format!("{of}/message"))];
        let said = said.into_iter().find(|t| !t.is_empty());
        let code = pod.pointer(&format!("{of}/exitCode"));
        return State::Never(match (said, code) {
            (Some(said), _) => said.to_owned(),
            (None, Some(code)) => format!("it ended with exit code {code}"),
            (None, None) => format!("its pod is {}", text("/status/phase")),
        });
    }
    if is_ready(pod) {
        return State::Ready;
    }
    let why = unready(pod);
    if HOPELESS.iter().any(|h| why.starts_with(h)) {
        State::Never(why)
    } else {
        State::Waits(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            node: "node1".to_owned(),
            image: "registry.example/kflow:1".to_owned(),
            namespace: "default".to_owned(),
        }
    }

    #[test]
    fn it_has_the_rights_of_an_installed_agent_on_the_node_and_none_in_the_cluster() {
        let job = job(&wanted(), "kflow-debug-1").unwrap();
        let spec = &job.value["spec"]["template"]["spec"];
        let installed = manifest::pod_template("registry.example/kflow:1").unwrap();
        let its = &installed["spec"]["containers"][0];
        let container = &spec["containers"][0];
        assert_eq!(container["securityContext"], its["securityContext"]);
        assert_eq!(container["image"], its["image"]);
        assert_eq!(spec["hostPID"], true);
        assert_eq!(spec["nodeName"], "node1");
        assert!(spec.get("serviceAccountName").is_none());
        assert_eq!(spec["automountServiceAccountToken"], false);
        // The pod can write nothing on the node.
        for v in spec["volumes"].as_array().unwrap() {
            let mount = container["volumeMounts"].as_array().unwrap();
            let mount = mount.iter().find(|m| m["name"] == v["name"]).unwrap();
            assert!(
                v.get("emptyDir").is_some() || mount["readOnly"] == true,
                "{v} {mount}"
            );
        }
        let mounts = container["volumeMounts"].as_array().unwrap();
        assert_eq!(mounts.len(), spec["volumes"].as_array().unwrap().len());
        assert!(!job.value.to_string().contains("HOST_IP"));
    }

    #[test]
    fn a_pod_that_will_not_run_is_told_from_one_that_waits() {
        let waiting = |reason: &str| {
            json!({"status": {"phase": "Pending", "containerStatuses": [
                {"state": {"waiting": {"reason": reason, "message": "m"}}},
            ]}})
        };
        let is_never = |pod: &Value| matches!(of_pod(pod), State::Never(_));
        assert!(is_never(&waiting("ImagePullBackOff")));
        assert!(!is_never(&waiting("ContainerCreating")));
        assert!(!is_never(&json!({"status": {"phase": "Pending"}})));
        // `InsufficientResourceError.Error`, pkg/kubelet/lifecycle/predicate.go of Kubernetes 1.36.
        let full = json!({"status": {"phase": "Failed", "reason": "OutOfpods", "message": "Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110"}});
        let State::Never(why) = of_pod(&full) else {
            panic!()
        };
        assert!(why.contains("capacity: 110"), "{why}");
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(of_pod(&ready), State::Ready);
    }
}
