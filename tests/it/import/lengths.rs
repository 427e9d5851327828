//! Since when something is so, where lists and Events tell it in part: objects of public bundles (fixtures/README.md), shortened.

use super::{Desk, run, text};
use serde_json::{Value, json};

fn said(args: &[&str], name: &str, content: &str) -> String {
    let desk = Desk::new();
    let file = desk.file(name, content);
    let o = run(&[args, &["-s", &file]].concat());
    let all = text(&o.stdout) + &text(&o.stderr);
    crate::one_line(&all)
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// A pod that ends again and again, of which the list has the last run.
fn dashboard() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "kubernetes-dashboard-7f7676f7b5-65j6w", "namespace": "kube-system",
            "uid": "0caa2137-5684-4802-98e4-4730f2d3e3bb", "creationTimestamp": "2020-05-27T10:45:53Z", "resourceVersion": "9"},
        "spec": {"nodeName": "node0", "restartPolicy": "Always", "containers": [{"name": "kubernetes-dashboard", "image": "dashboard"}]},
        "status": {"phase": "Running", "startTime": "2020-05-27T10:45:53Z",
            "conditions": [
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2020-05-27T10:45:53Z"},
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2020-06-07T08:00:38Z"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2020-05-27T10:45:53Z"}],
            "containerStatuses": [{"name": "kubernetes-dashboard", "ready": false, "restartCount": 2943, "image": "dashboard", "imageID": "x", "containerID": "docker://c",
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=kubernetes-dashboard pod=kubernetes-dashboard-7f7676f7b5-65j6w_kube-system(0caa2137-5684-4802-98e4-4730f2d3e3bb)"}},
                "lastState": {"terminated": {"exitCode": 2, "reason": "Error", "startedAt": "2020-06-07T08:00:27Z", "finishedAt": "2020-06-07T08:00:37Z", "containerID": "docker://c"}}}]}
    })
}

fn back_off() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "BackOff", "count": 70944,
        "message": "Back-off restarting failed container",
        "firstTimestamp": "2020-05-27T10:46:26Z", "lastTimestamp": "2020-06-07T08:01:03Z",
        "metadata": {"name": "dashboard.1", "namespace": "kube-system", "uid": "e1", "resourceVersion": "8"},
        "source": {"component": "kubelet", "host": "node0"},
        "involvedObject": {"kind": "Pod", "namespace": "kube-system", "name": "kubernetes-dashboard-7f7676f7b5-65j6w",
            "uid": "0caa2137-5684-4802-98e4-4730f2d3e3bb", "fieldPath": "spec.containers{kubernetes-dashboard}"}
    })
}

#[test]
fn a_crash_loop_is_as_old_as_the_event_that_counts_its_waits() {
    let all = list(&[dashboard(), back_off()]);
    let why = said(&["why", "--all"], "all.json", &all);
    assert!(
        why.contains("stuck in start for 10d21h, backing off (attempt 2944"),
        "{why}"
    );
    let ever = said(&["why", "--ever"], "all.json", &all);
    assert!(ever.contains("2020-05-27 10:46:26 10d21h+ KF708"), "{ever}");
}

/// A wait of 5 minutes follows shorter ones, that took as long together.
#[test]
fn without_that_event_its_length_is_a_least_one() {
    let why = said(&["why", "--all"], "pods.json", &list(&[dashboard()]));
    assert!(why.contains("stuck in start for at least 4m5"), "{why}");
}

#[test]
fn who_is_refused_by_the_scheduler_stays_in_that_stage() {
    let row = "Warning  FailedScheduling  3m12s (x5 over 20m)  default-scheduler  0/3 nodes are available: 3 Insufficient memory.";
    let timeline = said(&["timeline", "-A"], "event.txt", row);
    assert!(timeline.contains("~20m00s … schedule"), "{timeline}");
    assert!(!timeline.contains("admit"), "{timeline}");
    let stats = said(&["stats"], "event.txt", row);
    assert!(stats.contains("stage/schedule 0 1 0"), "{stats}");
}

/// The list was read hours after the pod had become ready.
#[test]
fn a_probe_passed_when_the_pod_became_ready() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "metrics-server-684cfd7c6d-2dwbs", "namespace": "kube-system", "uid": "m1",
            "creationTimestamp": "2025-12-17T01:19:00Z", "resourceVersion": "9"},
        "spec": {"nodeName": "node0", "restartPolicy": "Always", "containers": [{"name": "metrics-server", "image": "m",
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 1}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}}]},
        "status": {"phase": "Running", "startTime": "2025-12-17T01:19:01Z",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-17T01:19:21Z"},
                {"type": "ContainersReady", "status": "True", "lastTransitionTime": "2025-12-17T01:19:21Z"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-12-17T01:19:00Z"}],
            "containerStatuses": [{"name": "metrics-server", "ready": true, "started": true, "restartCount": 0, "image": "m", "imageID": "x",
                "containerID": "containerd://c", "state": {"running": {"startedAt": "2025-12-17T01:19:11Z"}}}]}
    });
    let now = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "node0", "uid": "n", "resourceVersion": "9",
        "creationTimestamp": "2025-12-17T01:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True",
        "lastHeartbeatTime": "2025-12-17T05:19:00Z", "lastTransitionTime": "2025-12-17T01:00:00Z"}]}});
    let all = list(&[pod, now]);
    let timeline = said(&["timeline", "-A"], "all.json", &all);
    assert!(
        timeline.contains("~10.0s [metrics-server] readinessProbe"),
        "{timeline}"
    );
    // Nobody saw when it became ready, and the other stages have no length.
    let stats = said(&["stats"], "all.json", &all);
    assert!(
        !stats.contains(" ready 1") && !stats.contains("stage/api"),
        "{stats}"
    );
}

/// The row of a table does not tell when a pod failed.
#[test]
fn how_long_ago_is_not_told_where_nothing_tells_it() {
    let rows = "NAMESPACE NAME READY STATUS RESTARTS AGE\nshop web-0 0/1 NodeAffinity 0 5d\n";
    let why = said(&["why", "--all"], "pods.txt", rows);
    assert!(
        why.contains("failed in admit") && !why.contains(" ago"),
        "{why}"
    );
}

#[test]
fn a_length_that_nothing_tells_is_a_question_mark() {
    let rows = "NAMESPACE NAME READY STATUS RESTARTS AGE\nshop db-0 0/1 CrashLoopBackOff 12 (2m ago) 41m\n";
    let ever = said(&["why", "--ever"], "pods.txt", rows);
    assert!(ever.contains("? KF708 shop/db-0"), "{ever}");
}
