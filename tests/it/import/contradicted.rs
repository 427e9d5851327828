//! What an early line, an old Event or a lasting warning tells, and later data contradict: lines of logs, texts and objects of public
//! bundles (fixtures/README.md).

use super::{Desk, fixture, run, text};
use serde_json::{Value, json};

fn why(args: &[&str]) -> String {
    let o = run(&[&["why"], args].concat());
    let said = text(&o.stdout) + &text(&o.stderr);
    crate::one_line(&said)
}

/// What is said of a file with this content.
fn said_of(name: &str, content: &str) -> String {
    let desk = Desk::new();
    why(&["--all", "-s", &desk.file(name, content)])
}

fn list(items: Vec<Value>) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

const COREDNS: &str = "coredns-6f85d5fb88-flfvm_kube-system(c2bcdbe3-f9c6-4f7e-9c20-864f249429a7)";

/// The log of a kubelet 1.19 without a network for ten seconds; with what follows.
fn no_network(then: &[String]) -> String {
    let mut lines = vec![
        format!(
            r#"I0120 11:42:33.871482    4787 kubelet.go:1827] SyncLoop (ADD, "api"): "{COREDNS}""#
        ),
        format!(
            r#"E0120 11:42:33.916532    4787 pod_workers.go:191] Error syncing pod c2bcdbe3-f9c6-4f7e-9c20-864f249429a7 ("{COREDNS}"), skipping: network is not ready: runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:docker: network plugin is not ready: cni config uninitialized"#
        ),
    ];
    lines.extend_from_slice(then);
    lines.push("I0120 11:47:49.400926    4787 kubelet_getters.go:178] status for pod x updated to {Running}".to_owned());
    lines.join("\n")
}

fn pleg_started() -> String {
    format!(
        r#"I0120 11:43:26.656512    4787 kubelet.go:1865] SyncLoop (PLEG): "{COREDNS}", event: &pleg.PodLifecycleEvent{{ID:"c2bcdbe3-f9c6-4f7e-9c20-864f249429a7", Type:"ContainerStarted", Data:"bf0caade29bd4215464f6ee715ecb8eddda223b52ee04ebc47d4b20e1c2a5b63"}}"#
    )
}

#[test]
fn what_the_kubelet_saw_start_waits_for_no_network() {
    let waits = said_of("kubelet.log", &no_network(&[]));
    assert!(waits.contains("KF310"), "{waits}");
    let runs = said_of("kubelet.log", &no_network(&[pleg_started()]));
    assert!(!runs.contains("KF"), "{runs}");
}

#[test]
fn what_is_probed_has_started() {
    let probe = |at: &str| {
        format!(
            r#"I0120 11:{at}    4787 prober.go:117] Readiness probe for "{COREDNS}:coredns" failed (failure): HTTP probe failed with statuscode: 503"#
        )
    };
    let probes = [
        "51:15.004467",
        "51:25.004102",
        "51:35.004482",
        "52:45.001339",
    ]
    .map(probe);
    let fails = said_of(
        "kubelet.log",
        &no_network(&[&[pleg_started()], &probes[..]].concat()),
    );
    assert!(
        fails.contains("KF801") && !fails.contains("KF310"),
        "{fails}"
    );
}

#[test]
fn a_back_off_is_over_when_the_kubelet_has_observed_the_start() {
    let pod = "openshift-machine-config-operator/kube-rbac-proxy-crio-ite-ocp-2rk9g-master-0";
    let backs_off = format!(
        r#"E0523 08:07:49.032431    2689 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-rbac-proxy-crio\" with CrashLoopBackOff: \"back-off 20s restarting failed container=kube-rbac-proxy-crio pod=kube-rbac-proxy-crio-ite-ocp-2rk9g-master-0_openshift-machine-config-operator(3358bb4775586f16aa5b3234bff5f1b6)\"" pod="{pod}" podUID="3358bb4775586f16aa5b3234bff5f1b6""#
    );
    let observed = format!(
        r#"I0523 08:08:22.049788    2689 pod_startup_latency_tracker.go:104] "Observed pod startup duration" pod="{pod}" podStartSLOduration=34.049762878 podStartE2EDuration="34.049762878s" podCreationTimestamp="2025-05-23 08:07:48 +0000 UTC" firstStartedPulling="0001-01-01 00:00:00 +0000 UTC" lastFinishedPulling="0001-01-01 00:00:00 +0000 UTC" observedRunningTime="2025-05-23 08:08:22.049386186 +0000 UTC m=+134.466019041" watchObservedRunningTime="2025-05-23 08:08:22.049762878 +0000 UTC m=+134.466395733""#
    );
    let later = r#"I0523 08:09:21.345678    2689 kubelet_getters.go:187] "Pod status updated" pod="a/b" status="Running""#;
    let said = said_of("kubelet.log", &format!("{backs_off}\n{later}\n"));
    assert!(said.contains("KF708"), "{said}");
    let said = said_of(
        "kubelet.log",
        &format!("{backs_off}\n{observed}\n{later}\n"),
    );
    assert!(!said.contains("KF"), "{said}");
}

/// A worker that fails is called again in seconds, and a mount that fails is tried again within minutes.
#[test]
fn what_a_log_no_longer_tells_is_over() {
    let later = |at: &str| {
        let line = format!(
            "I0120 {at}.400926    4787 kubelet_getters.go:178] status for pod x updated to {{Running}}"
        );
        said_of("kubelet.log", &no_network(&[line]))
    };
    assert!(later("11:48:30").contains("KF310"), "{}", later("11:48:30"));
    assert!(!later("11:49:00").contains("KF"), "{}", later("11:49:00"));
}

/// A rotated log that ended long before the pods were listed.
#[test]
fn what_an_old_log_tells_of_a_pod_that_is_not_listed_may_be_over() {
    let desk = Desk::new();
    let log = desk.file_of("kubelet.log", no_network(&[]), "2026-01-20T11:52:50Z");
    let table = desk.file_of(
            "pods.txt",
            "NAMESPACE     NAME                       READY   STATUS    RESTARTS   AGE\nkube-system   coredns-6f85d5fb88-abcde   1/1     Running   0          14d\n",
            "2026-02-03T11:52:50Z",
        );
    let (alone, _) = desk.import("alone.kflow", &[&log, "--year", "2026"]);
    assert!(why(&["--all", "-s", &alone]).contains("KF310"));
    let (both, _) = desk.import("both.kflow", &[&log, &table, "--year", "2026"]);
    let said = why(&["--all", "-s", &both]);
    assert!(!said.contains("KF310"), "{said}");
}

/// A pod of which only Events tell; with a last one of its owner.
fn replaced(last: Option<Value>) -> String {
    let event = |reason: &str, about: Value, message: &str, kind: &str, at: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("x.{reason}"), "namespace": "openshift-console"},
            "involvedObject": about, "reason": reason, "message": message, "type": kind, "count": 1,
            "firstTimestamp": at, "lastTimestamp": at, "source": {"component": if kind == "Normal" { "replicaset-controller" } else { "kubelet" }}})
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "openshift-console", "name": "console-7994575dc5-8x8qm", "uid": "u1"});
    let fails = event(
        "Unhealthy",
        pod,
        "Readiness probe failed: Get \"https://10.129.0.38:8443/health\": dial tcp 10.129.0.38:8443: connect: connection refused",
        "Warning",
        "2021-08-03T09:31:30Z",
    );
    let deleted = last.map(|owner| {
        let message = "Deleted pod: console-7994575dc5-8x8qm";
        event(
            "SuccessfulDelete",
            owner,
            message,
            "Normal",
            "2021-08-03T09:31:34Z",
        )
    });
    list([fails].into_iter().chain(deleted).collect())
}

#[test]
fn a_pod_that_its_owner_deleted_is_gone() {
    let there = said_of("events.json", &replaced(None));
    assert!(there.contains("KF801"), "{there}");
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "openshift-console", "name": "console-7994575dc5"});
    let gone = said_of("events.json", &replaced(Some(owner)));
    assert!(!gone.contains("KF"), "{gone}");
}

/// Lists are read one after another: the kubelet's Event is of a later moment than the list of leases.
#[test]
fn a_kubelet_that_has_just_sent_an_event_stands_still_for_no_old_lease() {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "b9aead2c1", "namespace": "kube-node-lease", "uid": "l1", "resourceVersion": "5", "creationTimestamp": "2025-04-11T18:00:00Z"},
        "spec": {"holderIdentity": "b9aead2c1", "leaseDurationSeconds": 40, "renewTime": "2025-04-11T19:06:18.123456Z"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b9aead2c1", "creationTimestamp": "2025-04-11T18:00:00Z"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2025-04-11T18:00:30Z", "lastHeartbeatTime": "2025-04-11T19:03:00Z"}]}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "rqlite-status", "uid": "u1"});
    let event = |by: Value| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "rqlite-status.1", "namespace": "default"},
            "involvedObject": pod, "reason": "Started", "message": "Started container rqlite", "type": "Normal", "count": 1,
            "firstTimestamp": "2025-04-11T19:07:12Z", "lastTimestamp": "2025-04-11T19:07:12Z", "source": by})
    };
    let of_another = event(json!({"component": "some-controller"}));
    let of_kubelet = event(json!({"component": "kubelet", "host": "b9aead2c1"}));
    let said = |items: Vec<Value>| {
        let desk = Desk::new();
        let lists = desk.file("all.json", list(items));
        let args = [lists.as_str(), "--taken", "2025-04-11T19:07:20Z"];
        let (session, _) = desk.import("a.kflow", &args);
        why(&["--all", "-s", &session])
    };
    let runs = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "rqlite-nodes", "namespace": "default", "uid": "u2", "creationTimestamp": "2025-04-11T19:00:00Z"},
        "spec": {"nodeName": "b9aead2c1", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-04-11T19:00:03Z"}],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "", "state": {"running": {"startedAt": "2025-04-11T19:00:02Z"}}}]}});
    let still = said(vec![lease.clone(), node.clone(), runs.clone(), of_another]);
    assert!(still.contains("KF301"), "{still}");
    let lives = said(vec![lease, node, runs, of_kubelet]);
    assert!(!lives.contains("KF301"), "{lives}");
}

fn contradicted(name: &str, which: &str) -> String {
    let file = fixture(&format!("kube/contradicted/{name}.json"));
    why(&[which, "-s", &file.display().to_string()])
}

/// All containers ended at once with 255, and all sandboxes were changed: the node was started anew, four times in two days.
#[test]
fn pods_of_a_restarted_node_are_no_crash_loops_and_keep_their_sandboxes() {
    let said = contradicted("restarted-node", "--all");
    assert!(!said.contains("KF"), "{said}");
    for pod in ["etcd-minikube", "kube-proxy-bz454"] {
        let said = contradicted("restarted-node", pod);
        let before = "times (the last time";
        assert!(
            said.contains("recovered, well for") && said.contains(before),
            "{said}"
        );
    }
}

/// All containers ended in the same second, which their runtime had not seen, and had run for seconds again when they were listed. A
/// program that ends with the same code by itself is another thing.
#[test]
fn containers_that_their_runtime_has_lost_are_no_crash_loops() {
    let said = contradicted("lost-by-runtime", "--all");
    assert!(!said.contains("KF"), "{said}");
    let file = fixture("kube/contradicted/lost-by-runtime.json");
    let listed = std::fs::read_to_string(file).expect("the pods");
    let by_itself = listed.replace(r#""reason":"Unknown""#, r#""reason":"Error""#);
    assert_ne!(listed, by_itself);
    let said = said_of("pods.json", &by_itself);
    assert!(said.contains("KF708"), "{said}");
}

/// A liveness probe failed 4,688 times in 1,569 restarts; no Event of a kill is left.
#[test]
fn as_many_failed_probes_as_it_takes_for_the_restarts_are_their_cause() {
    let said = contradicted("killed-for-long", "--all");
    assert!(!said.contains("KF708"), "{said}");
    assert_eq!(said.matches("KF803").count(), 2, "{said}");
}

/// Cause, pod and length, s, of each incident of a recording.
fn ever(file: &str) -> Vec<(String, i64)> {
    let o = run(&["why", "--ever", "-o", "jsonl", "-s", file]);
    let said = text(&o.stdout);
    let incidents = said.lines().map(|line| {
        let i: Value = serde_json::from_str(line).expect("an incident");
        let word = |at: &str| i.pointer(at).and_then(Value::as_str).expect("a word");
        let pod = word("/subject/name").split('-').next();
        let what = format!("{} {}", word("/cause"), pod.unwrap_or_default());
        let ns = i["length_ns"].as_i64().expect("a length");
        (what, ns / 1_000_000_000)
    });
    incidents.collect()
}

/// The runtime's log says when it had made each sandbox; the list that shows the pods as running was read half an hour later. Without
/// those lines the list tells when the containers had started.
#[test]
fn what_kept_a_sandbox_from_being_made_was_over_when_the_pod_had_one() {
    let file = fixture("correlate/late-list.kflow.zst");
    let all = ever(&file.display().to_string());
    let what: Vec<&str> = all.iter().map(|(what, _)| what.as_str()).collect();
    let wanted = [
        "KF501 coredns",
        "KF906 coredns",
        "KF906 coredns",
        "KF906 istiod",
        "KF504 hostpath",
    ];
    assert_eq!(what, wanted, "{all:?}");
    assert!(all.iter().all(|(_, s)| *s <= 20), "{all:?}");

    let packed = std::fs::read(&file).expect("the recording");
    let lines = zstd::decode_all(packed.as_slice()).expect("its lines");
    let lines = String::from_utf8(lines).expect("text");
    let is_made = |l: &&str| l.contains("returns sandbox id");
    assert!(lines.lines().any(|l| is_made(&l)));
    let rest: Vec<&str> = lines.lines().filter(|l| !is_made(l)).collect();
    let desk = Desk::new();
    let all = ever(&desk.file("rest.kflow", rest.join("\n")));
    let hostpath = all.iter().find(|(what, _)| what == "KF504 hostpath");
    // When its first sandbox was made is not known then.
    assert!(hostpath.is_some_and(|(_, s)| *s < 600), "{all:?}");
}

#[test]
fn a_container_whose_pod_is_initialized_anew_is_no_crash_loop() {
    let desk = Desk::new();
    let file = fixture("kube/contradicted/initialized-anew.json");
    let args = [
        &*file.display().to_string(),
        "--taken",
        "2023-04-11T09:47:17Z",
    ];
    let (session, _) = desk.import("a.kflow", &args);
    let said = why(&["--all", "-s", &session]);
    assert!(said.contains("KF707") && !said.contains("KF708"), "{said}");
}

#[test]
fn a_pod_waits_for_the_kubelet_that_has_stopped_reporting() {
    let said = said_of(
        "ticket.txt",
        "$ kubectl describe pods adservice-69ccdc578f-7qkqh -n boutique
Name:             adservice-69ccdc578f-7qkqh
Namespace:        boutique
Node:             worker-01/192.168.0.222
Start Time:       Fri, 05 Dec 2025 15:03:23 +0800
Status:           Pending
IP:               
Containers:
  server:
    Image:          us-central1-docker.pkg.dev/google-samples/microservices-demo/adservice:v0.10.3
    State:          Waiting
      Reason:       ContainerCreating
    Ready:          False
    Restart Count:  0
Conditions:
  Type                        Status
  PodReadyToStartContainers   False 
  Initialized                 True 
  Ready                       False 
  ContainersReady             False 
  PodScheduled                True 
Events:
  Type    Reason     Age    From               Message
  ----    ------     ----   ----               -------
  Normal  Scheduled  2m12s  default-scheduler  Successfully assigned boutique/adservice-69ccdc578f-7qkqh to worker-01

$ kubectl describe nodes worker-01
Name:               worker-01
Conditions:
  Type                 Status    LastHeartbeatTime                 LastTransitionTime                Reason              Message
  ----                 ------    -----------------                 ------------------                ------              -------
  Ready                Unknown   Fri, 05 Dec 2025 15:02:50 +0800   Fri, 05 Dec 2025 15:04:05 +0800   NodeStatusUnknown   Kubelet stopped posting node status.
",
    );
    assert!(said.contains("KF301") && !said.contains("KF506"), "{said}");
}

/// `kubectl describe` prints no access modes of a claim that is not bound.
#[test]
fn a_claim_whose_modes_are_not_known_is_compared_without_them() {
    let said = said_of(
        "ticket.txt",
        "Name:          redis-cart-pvc
Namespace:     boutique
StorageClass:  
Status:        Pending
Volume:        
Capacity:      
Access Modes:  
VolumeMode:    Filesystem
Used By:       redis-cart-68db7b6f97-qt7nr
Events:
  Type    Reason         Age                From                         Message
  ----    ------         ----               ----                         -------
  Normal  FailedBinding  1s (x9 over 118s)  persistentvolume-controller  no persistent volumes available for this claim and no storage class is set

Name:            redis-cart-pv
StorageClass:    
Status:          Available
Claim:           
Reclaim Policy:  Retain
Access Modes:    ROX
VolumeMode:      Filesystem
Capacity:        1Gi
",
    );
    assert!(said.contains("KF213") && !said.contains("wants"), "{said}");
}

/// In a table a pull has no end, when its Event has expired.
#[test]
fn a_pod_that_a_table_shows_in_a_crash_loop_does_not_pull() {
    let events = "NAMESPACE   LAST SEEN   TYPE      REASON      OBJECT         SUBOBJECT                     SOURCE                   MESSAGE                                                              FIRST SEEN   COUNT   NAME
default     3m21s       Normal    Pulling     pod/test-oom   spec.containers{memory-hog}   kubelet, worker-1        Pulling image \"polinux/stress\"                                       19m          9       test-oom.187df76d898cc50d
";
    let said = |status: &str| {
        let pods = format!(
            "NAMESPACE   NAME       READY   STATUS             RESTARTS        AGE\ndefault     test-oom   0/1     {status}   8 (3m57s ago)   19m\n"
        );
        said_of(
            "ticket.txt",
            &format!("$ kubectl get pods -A\n{pods}\n$ kubectl get events -A -o wide\n{events}"),
        )
    };
    assert!(
        said("ContainerCreating").contains("KF609"),
        "{}",
        said("ContainerCreating")
    );
    let loops = said("CrashLoopBackOff");
    assert!(
        loops.contains("KF708") && !loops.contains("KF609"),
        "{loops}"
    );
}
