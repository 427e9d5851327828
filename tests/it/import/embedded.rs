//! Objects of the API in YAML or JSON within a text, whole, cut, or a part of one. They are of public reports, whose addresses are in
//! `fixtures/reports.tsv`, or as the components cited write them.

use super::fragments::told;
use super::{Desk, run, text};

/// What a pod waits for, in its status or a part of that.
const CONFIG: &str = "containerStatuses:\n  - image: goharbor/chartmuseum-photon:v0.9.0-v1.10.0\n    imageID: \"\"\n    lastState: {}\n    name: chartmuseum\n    ready: false\n    restartCount: 0\n    started: false\n    state:\n      waiting:\n        message: couldn't find key kind in Secret sample/sz-harbor-cluster-minio\n        reason: CreateContainerConfigError\n";
const UNSCHEDULABLE: &str = "status:\n  conditions:\n  - lastProbeTime: null\n    lastTransitionTime: 2019-07-18T07:04:38Z\n    message: '0/3 nodes are available: 3 Insufficient cpu.'\n    reason: Unschedulable\n    status: \"False\"\n    type: PodScheduled\n";
const BACKING_OFF: &str = "{\n  \"metadata\": {\n    \"name\": \"my-app-5fc464b465-t4z6r.1667424602513628\",\n    \"namespace\": \"my-app\"\n  },\n  \"reason\": \"BackOff\",\n  \"message\": \"Back-off restarting failed container\",\n  \"source\": {\"component\": \"kubelet\", \"host\": \"n1\"},\n  \"firstTimestamp\": \"2021-02-26T09:30:59Z\",\n  \"lastTimestamp\": \"2021-02-26T09:30:59Z\",\n  \"count\": 1,\n  \"type\": \"Warning\",\n  \"involvedObject\": {\n    \"kind\": \"Pod\",\n    \"namespace\": \"my-app\",\n    \"name\": \"my-app-5fc464b465-t4z6r\",\n    \"uid\": \"11f86797-ded9-4e1f-be1e-582b4e8ebde8\",\n    \"fieldPath\": \"spec.containers{my-app}\"\n  }\n}\n";

fn indented(text: &str) -> String {
    before_each(text, "  ")
}

fn quoted(text: &str) -> String {
    before_each(text, "> ")
}

fn before_each(text: &str, front: &str) -> String {
    let lines = text.lines().flat_map(|line| [front, line, "\n"]);
    lines.collect()
}

#[test]
fn a_part_of_an_object_is_enough() {
    let desk = Desk::new();
    for (part, code, object) in [
        (
            CONFIG,
            "KF701",
            "Container chartmuseum cannot be configured",
        ),
        (UNSCHEDULABLE, "KF201", "NAMESPACE/POD"),
        (BACKING_OFF, "KF708", "my-app/my-app-5fc464b465-t4z6r"),
        // Folded texts.
        (
            "containerStatuses:\n  - name: app\n    state:\n      waiting:\n        reason: CrashLoopBackOff\n        message: >-\n          back-off 5m0s restarting failed container=app\n          pod=nsapp-0_ns-apps(927c8906-679e-4ccb-9e2d-e219eada6de0)\n    lastState:\n      terminated:\n        exitCode: 1\n        reason: Error\n        startedAt: '2023-09-24T11:55:44Z'\n        finishedAt: '2023-09-24T11:55:46Z'\n    ready: false\n    restartCount: 617\n",
            "KF708",
            "Container app ended with exit code 1 after 2s, and has ended 618 times",
        ),
        // Only the state of a container.
        (
            "state:\n  waiting:\n    message: 'container has runAsNonRoot and image will run as root (pod: \"external-dns-5bf5f97c4-bw7mg_kube-system(d7ec6cb8-d04d-4c40-b333-1b51c5b69219)\",\n      container: external-dns'\n    reason: CreateContainerConfigError\n",
            "KF701",
            "Container CONTAINER",
        ),
        (
            "      \"state\": {\n        \"waiting\": {\n          \"reason\": \"ErrImagePull\",\n          \"message\": \"rpc error: code = Unknown desc = Error response from daemon: pull access denied for nginx211, repository does not exist or may require 'docker login'\"\n        }\n      },\n",
            "KF602",
            "pull access denied for nginx211",
        ),
        // A list without its braces.
        (
            "    \"containerStatuses\": [\n      {\n        \"image\": \"docker.io/cdrage/helloworldasdf\",\n        \"imageID\": \"\",\n        \"lastState\": {},\n        \"name\": \"helloworld\",\n        \"ready\": false,\n        \"restartCount\": 0,\n        \"state\": {\n          \"waiting\": {\n            \"message\": \"Back-off pulling image \\\"docker.io/cdrage/helloworldasdf\\\"\",\n            \"reason\": \"ImagePullBackOff\"\n          }\n        }\n      }\n    ],\n",
            "KF613",
            "docker.io/cdrage/helloworldasdf could not be pulled",
        ),
        (
            "status:\n  phase: Failed\n  message: >-\n    The node was low on resource: ephemeral-storage. Container sparkoperator was\n    using 31748Ki, which exceeds its request of 0. \n  reason: Evicted\n  startTime: '2021-09-24T18:59:13Z'\n",
            "KF911",
            "ephemeral-storage",
        ),
        // A condition of an owner whose pods are refused.
        (
            "{\n     \"lastTransitionTime\": \"2018-08-16T09:41:52Z\",\n     \"message\": \"pods \\\"redis-client-6d75bbc666-lrvg6\\\" is forbidden: exceeded quota: kyma-default, requested: limits.memory=512Mi, used: limits.memory=3Gi, limited: limits.memory=3Gi\",\n     \"reason\": \"FailedCreate\",\n     \"status\": \"True\",\n     \"type\": \"ReplicaFailure\"\n}\n",
            "KF101",
            "replicaset/redis-client-6d75bbc666",
        ),
        // Conditions of a node.
        (
            "[\n  {\n    \"type\": \"MemoryPressure\",\n    \"status\": \"Unknown\",\n    \"lastTransitionTime\": \"2020-08-15T03:49:20Z\",\n    \"reason\": \"NodeStatusUnknown\",\n    \"message\": \"Kubelet stopped posting node status.\"\n  },\n  {\n    \"type\": \"Ready\",\n    \"status\": \"Unknown\",\n    \"lastTransitionTime\": \"2020-08-15T03:49:20Z\"\n  }\n]\n",
            "KF301",
            "node/NODE",
        ),
        // An Event, as the API returns it in a list, and fields of one.
        (
            "- apiVersion: v1\n  count: 61\n  firstTimestamp: 2016-01-29T11:44:55Z\n  involvedObject:\n    apiVersion: v1\n    fieldPath: spec.containers{registry}\n    kind: Pod\n    name: registry-v1-j6noi\n    namespace: srrs-ci\n  kind: Event\n  lastTimestamp: 2016-01-29T11:54:45Z\n  message: 'Failed to pull image \"quay.io/s3registry:v2.0.0-bob\":\n    image pull failed for quay.io/s3registry:v2.0.0-bob, this\n    may be because there are no credentials on this request.  details: (Tag v2.0.0-bob\n    not found in repository quay.io/s3registry)'\n  metadata:\n    creationTimestamp: null\n    name: registry-v1-j6noi.142de30bef3dc23b\n    namespace: srrs-ci\n  reason: Failed\n",
            "KF601",
            "srrs-ci/registry-v1-j6noi",
        ),
        (
            "reason: FailedMount\nmessage: 'MountVolume.SetUp failed for volume \"cf-secrets\" : secret \"secrets-2.16.4-1\" not found'\ntype: Warning\n",
            "KF402",
            "NAMESPACE/POD",
        ),
    ] {
        let fenced =
            format!("It hangs, and we do not know why:\n\n```yaml\n{part}```\n\nWhat is it?\n");
        for paste in [
            part.to_owned(),
            format!("It hangs:\n{part}\nWhat is it?\n"),
            format!("- like so:\n\n{}\nWhat is it?\n", indented(part)),
            format!("Yesterday somebody wrote\n{}\nWhat is it?\n", quoted(part)),
            fenced.replace('\n', "\r\n"),
            fenced,
        ] {
            let said = told(&desk, &paste);
            let words = crate::one_line(&said);
            assert!(words.contains(code), "{code}: {paste}\n{said}");
            assert!(words.contains(object), "{object}: {paste}\n{said}");
        }
    }
}

/// A line of a log has an Event behind words of its own; each is one (resmoio/kubernetes-event-exporter, `pkg/sinks/file.go`).
#[test]
fn events_are_read_as_exporters_log_them() {
    let desk = Desk::new();
    let event: serde_json::Value = serde_json::from_str(BACKING_OFF).unwrap();
    let alone = format!("{event}\n");
    let app = "{\"level\":\"warn\",\"type\":\"audit\",\"reason\":\"Timeout\",\"message\":\"no answer\"}\n";
    for paste in [
        alone.clone(),
        format!("{app}{alone}{app}"),
        format!("2021-02-26T09:31:00.1Z stdout F {alone}"),
        format!("our exporter says\n{app}{alone}{alone}\nwhat now?\n"),
    ] {
        let said = told(&desk, &paste);
        assert!(said.contains("KF708"), "{paste}\n{said}");
        assert!(
            said.contains("my-app/my-app-5fc464b465-t4z6r"),
            "{paste}\n{said}"
        );
    }
    let file = desk.file("events.log", alone.repeat(2));
    let (session, _) = desk.import("watch.kflow", &["--watch", &file]);
    let why = run(&["why", "--all", "-s", &session]);
    assert!(text(&why.stdout).contains("KF708"), "{}", text(&why.stdout));
}

#[test]
fn the_command_before_names_the_object() {
    let desk = Desk::new();
    let status = UNSCHEDULABLE.strip_prefix("status:\n").unwrap();
    for paste in [
        format!("$ kubectl get pod -n shop web-0 -o yaml\n...\n{UNSCHEDULABLE}"),
        format!(
            "```\n$ kubectl -n shop get pod/web-0 -oyaml\n```\n\n```yaml\n{UNSCHEDULABLE}```\n"
        ),
        "% k get po web-0 -n shop -ojson | jq .status\n{\"phase\": \"Pending\",\n\"conditions\": [{\"type\": \"PodScheduled\", \"status\": \"False\", \"reason\": \"Unschedulable\", \"message\": \"0/3 nodes are available: 3 Insufficient cpu.\"}]}\n".to_owned(),
        format!("$ kubectl get pod web-0 -n shop -o jsonpath='{{.status}}'\n{status}"),
    ] {
        let said = told(&desk, &paste);
        assert!(said.contains("KF201"), "{paste}\n{said}");
        assert!(said.contains("shop/web-0"), "{paste}\n{said}");
    }
    // Words between them are of something else.
    let said = told(
        &desk,
        &format!(
            "$ kubectl get pod -n shop web-0 -o yaml\nis too long. Another one:\n{UNSCHEDULABLE}"
        ),
    );
    assert!(said.contains("NAMESPACE/POD"), "{said}");
}

/// Two parts may show a pod before and after a change, or two pods.
#[test]
fn two_parts_are_not_mixed() {
    let desk = Desk::new();
    let said = told(
        &desk,
        &format!("Before:\n{UNSCHEDULABLE}\nAfter:\n{CONFIG}"),
    );
    for words in ["POD ", "POD-2", "KF201", "KF701"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// A pod as the API returns it.
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  creationTimestamp: \"2021-05-12T09:23:03Z\"\n  name: web-0\n  namespace: shop\n  uid: 46bc54aa-4352-40d0-ba5d-1d5e6f9bf1fa\nspec:\n  nodeName: n1\n  containers:\n  - env:\n    - name: PASSWORD\n      value: hunter2\n    image: nginx:nope\n    name: web\nstatus:\n  conditions:\n  - lastProbeTime: null\n    lastTransitionTime: \"2021-05-12T09:23:04Z\"\n    status: \"True\"\n    type: PodScheduled\n  containerStatuses:\n  - image: nginx:nope\n    name: web\n    restartCount: 0\n    state:\n      waiting:\n        message: 'failed to resolve reference \"docker.io/library/nginx:nope\": docker.io/library/nginx:nope: not found'\n        reason: ErrImagePull\n";

/// Wherever a paste ends, it says what it says up to there, and no value of its environment.
#[test]
fn an_object_is_read_up_to_where_it_is_cut() {
    let desk = Desk::new();
    let json = {
        let name = desk.file("pod.yaml", POD);
        let (session, _) = desk.import("whole.kflow", &[&name]);
        let why = run(&["why", "--all", "-s", &session]);
        assert!(text(&why.stdout).contains("KF601"), "{}", text(&why.stdout));
        // The same as JSON.
        "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n  \"metadata\": {\n    \"creationTimestamp\": \"2021-05-12T09:23:03Z\",\n    \"name\": \"web-0\",\n    \"namespace\": \"shop\",\n    \"uid\": \"46bc54aa-4352-40d0-ba5d-1d5e6f9bf1fa\"\n  },\n  \"spec\": {\n    \"containers\": [{\"name\": \"web\", \"image\": \"nginx:nope\", \"env\": [{\"name\": \"PASSWORD\", \"value\": \"hunter2\"}]}]\n  },\n  \"status\": {\n    \"containerStatuses\": [\n      {\n        \"name\": \"web\",\n        \"state\": {\n          \"waiting\": {\n            \"reason\": \"ErrImagePull\",\n            \"message\": \"failed to resolve reference \\\"docker.io/library/nginx:nope\\\": docker.io/library/nginx:nope: not found\"\n          }\n        }\n      }\n    ],\n    \"phase\": \"Pending\"\n  }\n}\n"
    };
    for (whole, from) in [(POD, "        reason: ErrImagePull"), (json, "not found\"")] {
        let enough = whole.find(from).unwrap() + from.len();
        for behind in ["", "\n\nand so on, why?\n"] {
            let said = told(&desk, &format!("{whole}{behind}"));
            assert!(
                said.contains("KF601") && said.contains("shop/web-0"),
                "{said}"
            );
        }
        for end in (0..whole.len()).step_by(7) {
            let cut = whole.get(..end).unwrap();
            let name = desk.file("ticket.txt", format!("We see\n{cut}"));
            let out = desk.path("cut.kflow");
            std::fs::remove_file(&out).ok();
            let o = run(&["import", &name, "-O", &out]);
            if end < enough {
                if o.status.success() {
                    let why = run(&["why", "--all", "-s", &out]);
                    let said = text(&why.stdout);
                    assert!(!said.contains(" well"), "{cut}\n{said}");
                }
            } else {
                let why = run(&["why", "--all", "-s", &out]);
                let said = text(&why.stdout);
                assert!(said.contains("KF601"), "{cut}\n{said}");
            }
            let session = std::fs::read(&out).unwrap_or_default();
            let session = zstd::decode_all(&session[..]).unwrap_or(session);
            assert!(find(&session, b"hunter2").is_none(), "{cut}");
        }
    }
}

fn find(all: &[u8], part: &[u8]) -> Option<usize> {
    all.windows(part.len()).position(|w| w == part)
}

/// What has the keys of objects, and is none that the API returned, or of another API.
#[test]
fn what_only_resembles_an_object_is_none() {
    let desk = Desk::new();
    for other in [
        // Manifests.
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  creationTimestamp: null\n  name: web\nspec:\n  replicas: 1\n  template:\n    metadata:\n      creationTimestamp: null\n    spec:\n      containers:\n      - image: nginx\n        name: web\nstatus: {}\n",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  containers:\n  - name: web\n    image: nginx\n",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\nspec:\n  resources:\n    requests:\n      storage: 1Gi\n",
        // The values of a chart.
        "image:\n  repository: nginx\n  tag: latest\nname: web\nstatus: enabled\nstate:\n  waiting: 5\ntype: ClusterIP\nconditions:\n- type: Ready\n  status: \"True\"\n",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmetadata:\n  creationTimestamp: \"2021-01-20T02:04:24Z\"\nevictionHard:\n  memory.available: 5%\n",
        // Custom resources: kinds of the same names, and statuses.
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata:\n  name: j\n  uid: \"1\"\nstatus:\n  state:\n    phase: Pending\n",
        "apiVersion: longhorn.io/v1beta1\nkind: Node\nmetadata:\n  name: n1\n  uid: \"1\"\nstatus:\n  conditions:\n  - type: Ready\n    status: \"False\"\n    reason: KubernetesNodeNotReady\n",
        "apiVersion: serving.knative.dev/v1\nkind: Revision\nmetadata:\n  name: hello-00001\n  uid: \"1\"\nstatus:\n  containerStatuses:\n  - name: user-container\n    imageDigest: x\n  conditions:\n  - message: 'Container failed with: x'\n    reason: ExitCode1\n    status: \"False\"\n    type: ContainerHealthy\n",
        "status:\n  observedGeneration: 2\n  phase: Failed\n  message: it broke\n  conditions:\n  - reason: Error\n    message: failed to create\n    status: \"False\"\n    type: Ready\n",
        // Volcano's PodGroup (apis/pkg/apis/scheduling/types.go).
        "status:\n  conditions:\n  - lastTransitionTime: \"2021-01-20T02:04:24Z\"\n    message: '1/1 tasks in gang unschedulable: pod group is not ready'\n    reason: NotEnoughResources\n    status: \"True\"\n    transitionID: x\n    type: Unschedulable\n  phase: Pending\n",
        "status:\n  phase: Pending\n",
        // A Job that has failed has no pod to ask about.
        "status:\n    conditions:\n    - lastProbeTime: \"2020-06-18T06:06:48Z\"\n      message: Job has reached the specified backoff limit\n      reason: BackoffLimitExceeded\n      status: \"True\"\n      type: Failed\n    failed: 5\n",
        // Logs of programs, and prose.
        "{\"level\":\"error\",\"type\":\"error\",\"reason\":\"NotFound\",\"message\":\"no such user\"}\n{\"phase\":\"Running\",\"message\":\"x\"}\n",
        "status: it hangs\nstate: NY\nreason: I do not know\ntype: bug\nmessage: hello\nkind: regression\n\nconditions: bad\n- one\n- two\n",
    ] {
        for paste in [
            format!("We have\n\n```yaml\n{other}```\n\nand it hangs\n"),
            format!("We have\n{other}"),
            format!("{other}\nand it hangs\n"),
        ] {
            desk.refused(&[&desk.file("other.txt", paste)]);
        }
    }
}

/// Text around an object is read as before.
#[test]
fn what_kubectl_printed_is_read_beside_it() {
    let desk = Desk::new();
    let rows = "NAME                               READY   STATUS    RESTARTS   AGE\nticktock1-log-v1-67468fc4cf-7sjhq  0/1     Pending   0          62m\n";
    let said = told(
        &desk,
        &format!(
            "```\n$ kubectl get pods -n shop\n{rows}```\n```\n$ kubectl get pod -n shop ticktock1-log-v1-67468fc4cf-7sjhq -o yaml\n...\n{UNSCHEDULABLE}```\nAs there is no status this does not work\n"
        ),
    );
    assert!(said.contains("KF201"), "{said}");
    // Both were read at one moment: the pod was as old as the row says.
    assert!(said.contains("stuck in schedule for 1h02m"), "{said}");
    let said = told(
        &desk,
        &format!(
            "{CONFIG}\nEvents:\n  Type     Reason        Age    From            Message\n  ----     ------        ----   ----            -------\n  Warning  FailedCreate  3m37s  job-controller  Error creating: pods \"trace-d9c10bfa-pktmb\" is forbidden: failed quota: q: must specify limits.cpu,limits.memory\n"
        ),
    );
    assert!(said.contains("KF701") && said.contains("KF102"), "{said}");
}
