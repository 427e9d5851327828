//! What is well, is over or was never there makes no verdict. The texts are of the documentation of AKS, Sematext, Kueue, Koordinator,
//! Kubernetes' enhancements and of clouds' tutorials, cut to the lines that matter.

use super::fragments::told;
use super::{Desk, run, text};

fn quiet(desk: &Desk, paste: &str) {
    let o = run(&["why", "--all", "-s", &desk.file("paste.txt", paste)]);
    let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
    assert!(!said.contains("KF"), "{paste}\n{said}");
}

#[test]
fn what_stands_below_events_is_no_part_of_them() {
    let desk = Desk::new();
    let events = "Events:
  Type    Reason   Age    From     Message
  ----    ------   ----   ----     -------
  Normal  Pulling  7m39s  kubelet  Pulling image \"mcr.microsoft.com/oss/nginx/nginx:1.15.5-alpine\"
  Normal  Created  7m38s  kubelet  Created container nginx-premium2
  Normal  Started  7m38s  kubelet  Started container nginx-premium2
";
    for below in [
        "",
        "[...]",
        "  [...]",
        "...",
        "…",
        "<snip>",
        "Thanks!",
        "But the pod never becomes ready",
        "=====",
        "^C",
        "kubectl logs nginx-premium2",
        "Error from server (NotFound): pods \"x\" not found",
        "$",
        "#",
        "(venv) $",
        "controlplane $",
        "[node1 kubelabs]$",
    ] {
        quiet(&desk, &format!("{events}{below}\n"));
        let command = "kubectl describe pod nginx-premium2\n\n[...]\n";
        quiet(&desk, &format!("{command}{events}{below}\n"));
    }
    // More rows may stand below what was left out.
    let said = told(
        &desk,
        &format!(
            "{events}  ...\n  Warning  BackOff  2s (x9 over 1m)  kubelet  Back-off restarting failed container nginx-premium2 in pod nginx-premium2_default(0a1b)\n"
        ),
    );
    assert!(said.contains("KF708"), "{said}");
}

#[test]
fn a_status_of_another_kubelet_is_no_refusal() {
    let desk = Desk::new();
    let row = |ready: &str, status: &str| {
        format!(
            "$ kubectl get pods\nNAME                   READY     STATUS              RESTARTS   AGE\nsematext-agent-s47vz   {ready}       {status}       0          6s\n"
        )
    };
    for status in ["ImageNotReady", "Initializing", "Starting", "Migrating"] {
        quiet(&desk, &row("0/1", status));
        quiet(&desk, &row("1/1", status));
    }
    let said = told(&desk, &row("0/1", "OutOfcpu"));
    assert!(said.contains("KF303"), "{said}");
    let said = told(&desk, &row("0/1", "NodeLost"));
    assert!(said.contains("KF902"), "{said}");
}

#[test]
fn a_manifest_is_no_object() {
    let desk = Desk::new();
    for manifest in [
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: sample-job\n  labels:\n    kueue.x-k8s.io/queue-name: user-queue\nspec:\n  parallelism: 3\n  suspend: true\n  template:\n    spec:\n      containers:\n      - name: dummy-job\n        image: registry.k8s.io/e2e-test-images/agnhost:latest\n",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod1\nspec:\n  containers:\n  - name: worker\n  resourceClaims:\n  - name: my-cpu-claim\n    resourceClaimName: cpu-claim\nstatus:\n  nodeAllocatableResourceClaimStatuses:\n  - resourceClaimName: cpu-claim\n",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\nspec:\n  storageClassName: gp2\n",
    ] {
        for paste in [
            manifest.to_owned(),
            format!("---\n{manifest}"),
            format!("I apply this:\n\n```yaml\n{manifest}```\n\nand nothing happens\n"),
        ] {
            quiet(&desk, &paste);
        }
    }
}

#[test]
fn of_an_object_that_was_cut_nothing_is_missed() {
    let desk = Desk::new();
    let head = "apiVersion: v1\nkind: Pod\nmetadata:\n  creationTimestamp: \"2026-11-28T16:00:00Z\"\n  name: web\n  namespace: shop\n";
    let spec = "spec:\n  containers:\n  - image: nginx\n    name: web\n";
    for rest in [
        "...\nstatus:\n  phase: Running\n  podIP: 10.0.0.3\n",
        "...\nstatus:\n  phase: Running\n",
        "status:\n  phase: Running\n",
        "status: {}\n",
    ] {
        quiet(
            &desk,
            &format!("$ kubectl get pod web -o yaml\n{head}{spec}{rest}"),
        );
    }
}

/// Of `kubectl neat`, and of what people do by hand.
#[test]
fn a_pod_whose_uid_was_taken_out_is_read() {
    let desk = Desk::new();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  containers:\n  - image: nginx:nope\n    name: web\nstatus:\n  phase: Pending\n  containerStatuses:\n  - name: web\n    image: nginx:nope\n    ready: false\n    restartCount: 0\n    state:\n      waiting:\n        reason: ImagePullBackOff\n        message: 'Back-off pulling image \"nginx:nope\"'\n";
    for paste in [pod.to_owned(), format!("---\n{pod}")] {
        let said = told(&desk, &paste);
        assert!(
            said.contains("shop/web") && said.contains("KF613"),
            "{said}"
        );
    }
}

#[test]
fn rows_of_one_length_are_not_put_together() {
    let desk = Desk::new();
    for (rows, pods) in [
        (
            "$ kubectl get pods | grep metrics\nmetrics-server-1a2b333c44-wxyz5       1/2     CrashLoopBackOff   6 (36s ago)   6m33s\nmetrics-server-1a2b333c44-abcd6       1/2     CrashLoopBackOff   6 (54s ago)   6m33s\nmetrics-server-5d69966543-hcrff       2/2     Running            0             37m\n",
            3,
        ),
        (
            "$ kubectl get pods | grep nginx\nnginx-with-loadaware-5646666d56-224jp   1/1     Running   0          18s   10.0.3.118   cn-beijing.10.0.3.110   <none>           <none>\nnginx-with-loadaware-5646666d56-7glt9   1/1     Running   0          18s   10.0.3.115   cn-beijing.10.0.3.110   <none>           <none>\nnginx-with-loadaware-5646666d56-kcdvr   1/1     Running   0          18s   10.0.3.119   cn-beijing.10.0.3.110   <none>           <none>\nnginx-with-loadaware-5646666d56-qzw4j   1/1     Running   0          18s   10.0.3.113   cn-beijing.10.0.3.111   <none>           <none>\n",
            4,
        ),
    ] {
        let (session, said) = desk.import("rows.kflow", &[&desk.file("rows.txt", rows)]);
        assert!(!said.contains("put together"), "{said}");
        let o = run(&["timeline", "-o", "json", "-s", &session]);
        let all: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
        assert_eq!(all.as_array().map(Vec::len), Some(pods), "{rows}");
    }
}

#[test]
fn a_note_that_begins_with_a_ruler_is_a_text() {
    let desk = Desk::new();
    let rows = "NAME    READY   STATUS             RESTARTS   AGE\nweb-0   0/1     ImagePullBackOff   0          12m\n";
    for front in [
        "---\ntitle: An incident\ndate: 2026-11-28\n---\n\n# What we saw\n\n",
        "--- kubectl get pods ---\n",
        "---\n",
    ] {
        let said = told(&desk, &format!("{front}{rows}"));
        assert!(said.contains("KF613"), "{front}\n{said}");
    }
}

#[test]
fn a_pull_that_fails_is_not_laid_to_the_sandbox() {
    let desk = Desk::new();
    let said = told(
        &desk,
        "$ kubectl describe pod mypod
...
Events:
  Type     Reason          Age                From                                Message
  ----     ------          ----               ----                                -------
  Normal   Scheduled       36s                default-scheduler                   Successfully assigned sh to k8s-agentpool1-38622806-0
  Normal   Pulling         17s (x2 over 33s)  kubelet, k8s-agentpool1-38622806-0  pulling image \"a1pine\"
  Warning  Failed          14s (x2 over 29s)  kubelet, k8s-agentpool1-38622806-0  Failed to pull image \"a1pine\": rpc error: code = Unknown desc = Error response from daemon: repository a1pine not found: does not exist or no pull access
  Warning  Failed          14s (x2 over 29s)  kubelet, k8s-agentpool1-38622806-0  Error: ErrImagePull
  Normal   SandboxChanged  4s (x7 over 28s)   kubelet, k8s-agentpool1-38622806-0  Pod sandbox changed, it will be killed and re-created.
  Normal   BackOff         4s (x5 over 25s)   kubelet, k8s-agentpool1-38622806-0  Back-off pulling image \"a1pine\"
",
    );
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains("KF601"), "{said}");
    assert!(!said.contains("KF513"), "{said}");
}

/// A text may show a pod before and after: what stands below was printed later, by the ages as much later as they grew.
#[test]
fn what_was_printed_last_holds() {
    let desk = Desk::new();
    let get = "$ kubectl -n content-dev get pod
NAME                       READY   STATUS              RESTARTS   AGE
content-754c9964bc-8dbxw   ";
    let waits = "0/1     ContainerCreating   0          63s\n";
    let runs = "1/1     Running             0          93s\n";
    let describe = "$ kubectl -n content-dev describe pod content-754c9964bc-8dbxw
Events:
  Type     Reason       Age   From     Message
  ----     ------       ----  ----     -------
";
    let failed = "  Warning  FailedMount  8s    kubelet  Unable to attach or mount volumes: unmounted volumes=[nfs], unattached volumes=[nfs default-token-vdjpz]: timed out waiting for the condition\n";
    let started = "  Normal  Pulled   10s  kubelet  Container image \"content:dev-247\" already present on machine
  Normal  Created  10s  kubelet  Created container spring-boot
  Normal  Started  10s  kubelet  Started container spring-boot
";
    for after in [
        format!("{get}{runs}"),
        format!("{describe}{started}"),
        format!("{get}{}", runs.replace("93s", "63s")),
    ] {
        quiet(&desk, &format!("{get}{waits}{describe}{failed}{after}"));
    }
    let said = told(&desk, &format!("{get}{waits}{describe}{failed}"));
    assert!(said.contains("KF401"), "{said}");
    // A watch prints a row for each change.
    let rows = get.trim_start_matches("$ kubectl -n content-dev get pod");
    let watched = format!(
        "$ kubectl -n content-dev get pod -w{rows}{waits}content-754c9964bc-8dbxw   {runs}"
    );
    quiet(&desk, &watched);
    let o = run(&["timeline", "-s", &desk.file("watched.txt", &watched)]);
    let said = text(&o.stdout);
    assert!(said.contains("Running  1/1 ready"), "{said}");
    // Nodes are too old for their ages to tell it.
    let nodes =
        "NAME    STATUS     ROLES    AGE   VERSION\nnode1   NotReady   <none>   24d   v1.18.3\n";
    let ready = nodes.replace("NotReady", "Ready   ");
    quiet(
        &desk,
        &format!("$ kubectl get nodes\n{nodes}$ kubectl get nodes\n{ready}"),
    );
    let said = told(
        &desk,
        &format!("$ kubectl get nodes\n{ready}$ kubectl get nodes\n{nodes}"),
    );
    assert!(said.contains("node1"), "{said}");
}

/// A node that was low on memory is not, by a later Event of its kubelet.
#[test]
fn a_node_that_was_low_on_a_resource_is_not_low() {
    let desk = Desk::new();
    let head = "$ kubectl get events -A
NAMESPACE   LAST SEEN   TYPE      REASON                    OBJECT       MESSAGE\n";
    let low = "default     4m          Warning   EvictionThresholdMet      node/node1   Attempting to reclaim memory\n";
    let over = "default     2m          Normal    NodeHasSufficientMemory   node/node1   Node node1 status is now: NodeHasSufficientMemory\n";
    quiet(&desk, &format!("{head}{low}{over}"));
    quiet(&desk, &format!("{head}{over}{low}"));
    let said = told(&desk, &format!("{head}{low}"));
    assert!(said.contains("KF318"), "{said}");
}

/// The kubelet's and containerd's lines of a pod of two containers, from the notes of somebody who read the log of a node of AKS.
#[test]
fn a_pod_whose_containers_a_log_shows_has_some() {
    const SANDBOX: &str = "9782e0cf6742898144c14978eabdbed4af963d2f8eb9d857d4832d98986cf361";
    const CONTAINER: &str = "ee80536be282db884ee5f5a7db9fbc9d2c4fad4ae80569175641377743b3716b";
    let desk = Desk::new();
    let kubelet = |at: &str, message: &str| {
        format!(
            "Nov 29 {at} node-0 kubelet[2983]: I1129 {at}.449865    2983 kubelet.go:2433] {message}\n"
        )
    };
    let containerd = |at: &str, message: &str| {
        format!(
            "Nov 29 {at} node-0 containerd[2699]: time=\"2024-11-29T{at}.775569203Z\" level=info msg=\"{message}\"\n"
        )
    };
    let started = |at: &str, id: &str| {
        let event = format!(
            "event={{\"ID\":\"ecf6beca-4e57-4562-8f89-b6e72312b3fd\",\"Type\":\"ContainerStarted\",\"Data\":\"{id}\"}}"
        );
        kubelet(
            at,
            &format!("\"SyncLoop (PLEG): event for pod\" pod=\"default/multiple\" {event}"),
        )
    };
    let metadata = "&PodSandboxMetadata{Name:multiple,Uid:ecf6beca-4e57-4562-8f89-b6e72312b3fd,Namespace:default,Attempt:0,}";
    let begin = [
        kubelet(
            "18:33:25",
            "\"SyncLoop ADD\" source=\"api\" pods=[\"default/multiple\"]",
        ),
        containerd("18:33:25", &format!("RunPodSandbox for {metadata}")),
        containerd(
            "18:33:26",
            &format!("RunPodSandbox for {metadata} returns sandbox id \\\"{SANDBOX}\\\""),
        ),
        started("18:33:26", SANDBOX),
    ]
    .concat();
    let later = kubelet(
        "18:34:33",
        "\"SyncLoop ADD\" source=\"api\" pods=[\"default/other\"]",
    );
    let said = told(&desk, &format!("```\n{begin}{later}```\n"));
    assert!(said.contains("KF713"), "{said}");
    for line in [
        started("18:33:27", CONTAINER),
        containerd(
            "18:33:26",
            &format!(
                "CreateContainer within sandbox \\\"{SANDBOX}\\\" for &ContainerMetadata{{Name:nginx,Attempt:0,}} returns container id \\\"{CONTAINER}\\\""
            ),
        ),
        kubelet(
            "18:34:33",
            "\"Observed pod startup duration\" pod=\"default/multiple\" podStartE2EDuration=\"1m8.8s\"",
        ),
    ] {
        quiet(&desk, &format!("```\n{begin}{line}{later}```\n"));
    }
}

/// `az aks command invoke` says above each output when it ran: what one file shows is not as of another.
#[test]
fn an_output_is_as_of_when_its_command_ran() {
    let desk = Desk::new();
    let ran = |at: &str| {
        format!(
            "command started at 2026-03-09 {at}+00:00, finished at 2026-03-09 {at}+00:00 with exitcode=0\n"
        )
    };
    let described = "Name:             listener
Namespace:        arc-system
Node:             aks-general-vmss000001/10.10.1.141
Start Time:       Mon, 09 Mar 2026 02:45:37 +0000
Status:           Pending
Containers:
  listener:
    Image:          ghcr.io/actions/gha-runner-scale-set-controller:0.13.1
    State:          Waiting
      Reason:       ContainerCreating
    Ready:          False
    Restart Count:  0
Conditions:
  Type              Status
  Ready             False
  PodScheduled      True
Events:
  Type    Reason     Age   From               Message
  ----    ------     ----  ----               -------
  Normal  Scheduled  1s    default-scheduler  Successfully assigned arc-system/listener to aks-general-vmss000001
  Normal  Created    0s    kubelet            Created container listener
  Normal  Started    0s    kubelet            Started container listener
";
    let rows = "NAME      READY   STATUS              RESTARTS   AGE
runner-a  0/1     Pending             0          1s
runner-b  0/1     ContainerCreating   0          1s
runner-c  0/1     Terminating         0          1s
";
    let folder = desk.path("evidence");
    std::fs::create_dir(&folder).unwrap();
    let file = |name: &str, content: &str| {
        desk.file_of(&format!("evidence/{name}"), content, "2026-03-21T03:17:10Z");
    };
    for (first, second) in [
        (String::new(), String::new()),
        (ran("02:22:43"), ran("02:45:38")),
    ] {
        file("pods.txt", &format!("{first}{rows}"));
        file("listener.txt", &format!("{second}{described}"));
        let o = run(&["why", "--all", "-s", &folder]);
        let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
        assert!(!said.contains("KF"), "{said}");
        assert!(said.contains("runner-a (Pending)"), "{said}");
        let is_told = !first.is_empty();
        assert_eq!(said.contains("2026-03-09T02:45:38Z"), is_told, "{said}");
    }
}
