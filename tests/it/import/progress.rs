//! What a pod did since: what is over is not told as what holds it up.

use super::{Desk, run, text};
use serde_json::{Value, json};

const BEGAN: &str = "2026-11-21T08:00:00Z";
const READ: &str = "2026-11-21T08:15:10Z";

fn pod(status: Value) -> Value {
    let conditions = ["PodScheduled", "Initialized", "Ready", "ContainersReady"].map(|kind| {
        let is = if kind.ends_with("eady") {
            "False"
        } else {
            "True"
        };
        json!({"type": kind, "status": is, "lastTransitionTime": BEGAN})
    });
    let mut pod = json!({"kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "6b1f", "creationTimestamp": BEGAN},
        "spec": {"nodeName": "n1", "restartPolicy": "OnFailure", "schedulerName": "default-scheduler",
            "containers": [{"name": "work", "image": "i"}, {"name": "proxy", "image": "i"}]},
        "status": {"phase": "Running", "startTime": BEGAN, "conditions": conditions}});
    pod["status"]["containerStatuses"] = status;
    pod
}

fn status(name: &str, state: Value) -> Value {
    let id = if state.get("waiting").is_some() {
        String::new()
    } else {
        format!("containerd://{name}")
    };
    json!({"name": name, "image": "i", "imageID": "", "containerID": id, "ready": false, "restartCount": 0, "state": state})
}

fn warning(reason: &str, message: &str, by: &str, at: &str) -> Value {
    json!({"kind": "Event", "type": "Warning", "reason": reason, "message": message, "count": 1,
        "metadata": {"name": "web-0.1", "namespace": "shop", "uid": "7c", "creationTimestamp": at},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "6b1f"},
        "firstTimestamp": at, "lastTimestamp": at, "source": {"component": by, "host": "n1"}})
}

fn why(items: Value) -> String {
    let desk = Desk::new();
    let input = desk.file(
        "list.json",
        json!({"kind": "List", "items": items}).to_string(),
    );
    let (session, _) = desk.import("a.kflow", &["--watch", &input, "--taken", READ]);
    let o = run(&["why", "shop/web-0", "-s", &session]);
    let said = text(&o.stdout) + &text(&o.stderr);
    crate::one_line(&said)
}

/// The pod worked until its container ended: it has been slow only since.
#[test]
fn a_pod_whose_work_is_done_is_slow_since_then() {
    let done = status(
        "work",
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-21T08:00:03Z", "finishedAt": "2026-11-21T08:05:00Z"}}),
    );
    let runs = status(
        "proxy",
        json!({"running": {"startedAt": "2026-11-21T08:00:03Z"}}),
    );
    let said = why(json!([pod(json!([done, runs]))]));
    assert!(said.contains("slow in ready for 10m11s"), "{said}");
    assert!(said.contains("ended well 10m11s ago"), "{said}");
}

#[test]
fn only_who_brings_a_pod_up_warns_of_what_may_hold_it_up() {
    let both = |state: Value| json!([status("work", state.clone()), status("proxy", state)]);
    let waits = || both(json!({"waiting": {"reason": "ContainerCreating"}}));
    let runs = || both(json!({"running": {"startedAt": "2026-11-21T08:15:05Z"}}));
    for (statuses, by, at, told) in [
        (waits(), "kubelet", "2026-11-21T08:15:00Z", true),
        // kyverno/kyverno, pkg/event/source.go.
        (waits(), "kyverno-admission", "2026-11-21T08:15:00Z", false),
        // pkg/controller/endpoint/endpoints_controller.go, NewEndpointController.
        (runs(), "endpoint-controller", "2026-11-21T08:15:07Z", false),
        // The pod has got on since.
        (runs(), "kubelet", "2026-11-21T08:15:00Z", false),
    ] {
        let said = why(json!([
            pod(statuses),
            warning("Unheard", "words that nobody knows", by, at)
        ]));
        assert_eq!(
            said.contains("of no cause that kflow knows"),
            told,
            "{by} {at}: {said}"
        );
    }
}

/// Old kubelets say so of any failure (kubernetes 1.8, pkg/kubelet/pod_workers.go, managePodLoop).
#[test]
fn a_failed_sync_that_names_no_status_is_not_the_runtimes() {
    let waits = |name| status(name, json!({"waiting": {"reason": "ContainerCreating"}}));
    let said = why(json!([
        pod(json!([waits("work"), waits("proxy")])),
        warning(
            "FailedSync",
            "Error syncing pod",
            "kubelet",
            "2026-11-21T08:15:00Z"
        ),
    ]));
    assert!(!said.contains("The runtime cannot tell"), "{said}");
}
