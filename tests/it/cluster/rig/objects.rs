//! Objects of the simulated apiserver: those of recordings in the API's form, and invented ones.

use kflow_model::cri::{CallEnd, CallKey, CallOutcome, CallStart, Subject, method};
use kflow_model::pod::{ContainerState, PodSeen};
use kflow_model::{Body, ObjectRef, Observation, PodNames, PodRef, PodUid, Source, Stamp, clock};
use serde_json::{Value, json};

/// A pod in the API's form. The node's clock, by which its kubelet stamps conditions, is `ahead` ns ahead.
pub(in crate::cluster) fn pod_json(p: &PodSeen, node: &str, ahead: i64) -> Value {
    let waiting = |s: &kflow_model::pod::ContainerStatus| match &s.state {
        ContainerState::Waiting { reason, message } => {
            json!({"waiting": {"reason": reason.as_str(), "message": message.as_str()}})
        }
        _ => json!({"running": {"startedAt": p.created.to_rfc3339()}}),
    };
    let statuses: Vec<Value> = (p.status.containers.iter())
        .map(|s| {
            json!({
                "name": s.name.as_str(), "ready": s.ready, "restartCount": s.restarts,
                "state": waiting(s), "image": s.image.as_str(), "imageID": "",
            })
        })
        .collect();
    let containers: Vec<Value> = (p.spec.containers.iter())
        .map(|c| json!({"name": c.name.as_str(), "image": c.image.as_str()}))
        .collect();
    let conditions: Vec<Value> = (p.status.conditions.iter())
        .map(|c| {
            let ahead = if c.kind == "PodScheduled" { 0 } else { ahead };
            let turned = c.transition.map(|t| t.plus(ahead).to_rfc3339());
            json!({
                "type": c.kind.as_str(), "status": c.status.as_str(), "reason": c.reason.as_str(), "message": c.message.as_str(),
                "lastTransitionTime": turned,
            })
        })
        .collect();
    json!({
        "metadata": {
            "name": p.name.as_str(), "namespace": p.namespace.as_str(), "uid": p.uid.0.as_str(),
            "creationTimestamp": p.created.to_rfc3339(), "resourceVersion": "900",
            "ownerReferences": owner_json(p.owner.as_ref()),
        },
        "spec": {"nodeName": if p.spec.node.is_empty() { "" } else { node }, "containers": containers},
        "status": {"phase": p.status.phase, "conditions": conditions, "containerStatuses": statuses},
    })
}

pub(in crate::cluster) fn owner_json(owner: Option<&ObjectRef>) -> Value {
    let one = |o: &ObjectRef| {
        json!({
            "apiVersion": "apps/v1", "kind": o.kind.as_str(), "name": o.name.as_str(), "uid": o.uid.as_str(), "controller": true,
        })
    };
    owner.into_iter().map(one).collect()
}

/// The ReplicaSet that these pods name, a Deployment that owns it (the recording has neither object), and a StatefulSet
/// without pods.
pub(in crate::cluster) fn owners_json(pods: &[PodSeen]) -> Vec<(&'static str, Value)> {
    let mut of = pods.iter().filter_map(|p| Some((p, p.owner.as_ref()?)));
    let (pod, set) = of.find(|(_, o)| o.kind == "ReplicaSet").unwrap();
    let (name, _) = set.name.rsplit_once('-').unwrap();
    let deployment = ObjectRef {
        kind: "Deployment".into(),
        namespace: pod.namespace.clone(),
        name: name.into(),
        uid: "00000000-0000-4000-8000-000000000000".into(),
    };
    let json = |o: &ObjectRef, owner: Option<&ObjectRef>| {
        json!({
            "metadata": {
                "name": o.name.as_str(), "namespace": pod.namespace.as_str(), "uid": o.uid.as_str(), "resourceVersion": "900",
                "creationTimestamp": pod.created.to_rfc3339(), "ownerReferences": owner_json(owner),
            },
            "spec": {}, "status": {},
        })
    };
    let idle = ObjectRef {
        kind: "StatefulSet".into(),
        name: "idle".into(),
        ..deployment.clone()
    };
    vec![
        ("Deployment", json(&deployment, None)),
        ("ReplicaSet", json(set, Some(&deployment))),
        ("StatefulSet", json(&idle, None)),
    ]
}

pub(in crate::cluster) fn invented_uid(node: usize, n: usize) -> String {
    format!("00000000-0000-4000-{node:04x}-{n:012x}")
}

/// An invented pod in the API's form: it is ready, or when `sick` its container is being created.
pub(in crate::cluster) fn invented(node: usize, n: usize, sick: bool) -> Value {
    let status = if sick {
        json!({
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T00:00:00Z"},
                {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T00:00:00Z"},
            ],
            "containerStatuses": [{"name": "c", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
                "state": {"waiting": {"reason": "ContainerCreating"}}}],
        })
    } else {
        json!({
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T00:00:00Z"}],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "",
                "state": {"running": {"startedAt": "2026-11-21T00:00:00Z"}}}],
        })
    };
    json!({
        "metadata": {
            "name": format!("invented-{n}"), "namespace": format!("ns-{node}"), "uid": invented_uid(node, n),
            "creationTimestamp": "2026-11-21T00:00:00Z", "resourceVersion": "900",
        },
        "spec": {"nodeName": name(node), "containers": [{"name": "c", "image": "i"}]},
        "status": status,
    })
}

/// A pod of a ReplicaSet that does not start.
pub(in crate::cluster) fn stuck_of(node: usize, namespace: &str, set: &ObjectRef) -> Value {
    let mut pod = invented(node, 0, true);
    pod["metadata"]["name"] = format!("{}-{node}", set.name).into();
    pod["metadata"]["namespace"] = namespace.into();
    pod["metadata"]["ownerReferences"] = owner_json(Some(set));
    pod
}

const INVENTED: CallKey = CallKey {
    conn: u32::MAX / 2,
    stream: 1,
};

/// The call that the first invented pod of a node waits for: its sandbox is being made for three minutes.
pub(in crate::cluster) fn invented_call(node: usize) -> Observation {
    call_of(&invented(node, 0, true))
}

/// The same call, of another pod.
pub(in crate::cluster) fn call_of(pod: &Value) -> Observation {
    let begun = clock::now().plus(-180_000_000_000);
    let text = |key: &str| pod["metadata"][key].as_str().unwrap();
    let pod = PodRef::from(PodNames {
        uid: PodUid::from(text("uid")),
        namespace: text("namespace").into(),
        name: text("name").into(),
    });
    Observation {
        stamp: Stamp::exact(begun),
        source: Source::Cri,
        body: Body::CallStart(Box::new(CallStart {
            subject: Subject {
                pod,
                ..Subject::default()
            },
            timeout_ns: Some(240_000_000_000),
            ..CallStart::new(
                INVENTED,
                kflow_model::cri::Service::Runtime,
                method::RUN_POD_SANDBOX,
            )
        })),
    }
}

/// The end of that call, with an error.
pub(in crate::cluster) fn ended_call() -> Observation {
    Observation {
        stamp: Stamp::exact(clock::now()),
        source: Source::Cri,
        body: Body::CallEnd(Box::new(CallEnd {
            code: Some(2),
            message: "failed to create shim task".into(),
            ..CallEnd::new(INVENTED, CallOutcome::Status)
        })),
    }
}

pub(in crate::cluster) fn name(node: usize) -> String {
    format!("simulated-{node}")
}

/// The boot ID of this machine, on which all simulated nodes run.
fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    id.trim().to_owned()
}

pub(in crate::cluster) fn node_json(n: usize) -> Value {
    json!({
        "metadata": {"name": name(n), "uid": name(n), "resourceVersion": "900", "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastTransitionTime": "2026-11-01T00:00:00Z", "lastHeartbeatTime": clock::now().to_rfc3339()}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.1.9", "bootID": boot_id()},
        },
    })
}
