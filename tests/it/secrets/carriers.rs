//! The carriers of canaries: the content of one capture for each source.

pub(super) mod otlp;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

use super::Canaries;
use super::logs::{
    PROSE, journal, journal_short, kubelet_json, kubelet_text, runtime, runtime_journal,
};

/// One form of one source, as a capture.
pub(super) struct Source {
    /// Flag of `kflow import`, [`FOLDER`] or [`LAB`].
    pub(super) flag: &'static str,
    /// Name of the file; for a support bundle, name of the folder in which the content is `pods.json`.
    pub(super) name: &'static str,
    pub(super) make: fn(&mut Canaries) -> Vec<u8>,
}

/// Takes the place of a flag for files that only the lab's recorder writes.
pub(super) const LAB: &str = "";
/// Stands for a folder, which is given without a flag.
pub(super) const FOLDER: &str = "folder";

pub(super) const SOURCES: [Source; 19] = [
    source("--kubelet-log", "kubelet.log", |c| kubelet_text(c).into()),
    source("--kubelet-log", "kubelet-json.log", |c| {
        kubelet_json(c).into()
    }),
    source("--kubelet-log", "journal.json", |c| {
        journal(c, "kubelet.service").into()
    }),
    source("--kubelet-log", "journal.short", |c| {
        journal_short(c).into()
    }),
    source("--scheduler-log", "scheduler.log", |c| {
        kubelet_text(c).into()
    }),
    source("--controller-manager-log", "kcm.log", |c| {
        kubelet_text(c).into()
    }),
    source("--apiserver-log", "apiserver.log", |c| {
        kubelet_text(c).into()
    }),
    source("--containerd-log", "containerd.log", |c| runtime(c).into()),
    source("--crio-log", "crio.log", |c| runtime(c).into()),
    source("--containerd-log", "containerd.journal", |c| {
        runtime_journal(c).into()
    }),
    source("--audit", "audit.log", |c| audit(c).into()),
    source("--otlp", "otlp-json.jsonl", |c| otlp::json(c).into()),
    source(LAB, "otlp.jsonl", otlp_protobuf),
    source("--watch", "pods.json", |c| pods(c, "carrier").into()),
    source("--watch", "pods.yaml", |c| yaml(c).into()),
    source(FOLDER, "bundle", |c| pods(c, "carrier-bundle").into()),
    source(LAB, "cri-bytes.jsonl", cri_bytes),
    source(LAB, "fs.jsonl", |c| fs(c).into()),
    source(LAB, "snapshots.jsonl", |c| snapshots(c).into()),
];

const fn source(
    flag: &'static str,
    name: &'static str,
    make: fn(&mut Canaries) -> Vec<u8>,
) -> Source {
    Source { flag, name, make }
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name);
    let bytes = std::fs::read(path).unwrap();
    if std::path::Path::new(name)
        .extension()
        .is_some_and(|e| e == "zst")
    {
        zstd::decode_all(&bytes[..]).unwrap()
    } else {
        bytes
    }
}

/// Returns a pod in the form of `kubectl get -o json`, with canaries in every field that people put secrets in.
fn pod(c: &mut Canaries, name: &str) -> Value {
    let list: Value = serde_json::from_slice(&fixture("kube/kubectl-get.json")).unwrap();
    let items = list["items"].as_array().unwrap();
    let mut pod = items
        .iter()
        .find(|i| i["kind"] == "Pod" && i["status"]["containerStatuses"].is_array())
        .unwrap()
        .clone();
    let mut put = |place: &str| c.put(place);
    pod["metadata"]["namespace"] = json!("canaries");
    pod["metadata"]["name"] = json!(name);
    // Each name has its own UID.
    pod["metadata"]["uid"] = json!(format!("c0ffee00-0000-4000-8000-{:012}", name.len()));
    pod["metadata"]["annotations"] = json!({"note": put("annotation"), "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"x\":\"{}\"}}", put("last-applied"))});
    pod["metadata"]["labels"]["api-token"] = json!(put("label"));
    pod["spec"]["volumes"] = json!([
        {"name": "csi", "csi": {"driver": "d.example", "volumeAttributes": {"a": put("CSI attribute")}, "nodePublishSecretRef": {"name": "s"}}},
        {"name": "flex", "flexVolume": {"driver": "d/e", "options": {"a": put("flexVolume option")}}},
        {"name": "git", "gitRepo": {"repository": format!("https://u:{}@git.example/r", put("gitRepo"))}},
        {"name": "nfs", "nfs": {"server": format!("u:{}@nfs.example", put("nfs")), "path": "/"}},
        {"name": "rbd", "rbd": {"monitors": ["m"], "image": "i", "keyring": put("rbd keyring")}},
        {"name": "eph", "ephemeral": {"volumeClaimTemplate": {"metadata": {"annotations": {"a": put("annotation of a claim template")}}, "spec": {}}}},
    ]);
    pod["metadata"]["managedFields"] =
        json!([{"manager": "m", "fieldsV1": {put("managedFields"): {}}}]);
    pod["spec"]["hostAliases"] = json!([{"ip": "10.0.0.1", "hostnames": [put("hostAliases")]}]);
    pod["spec"]["securityContext"] =
        json!({"windowsOptions": {"gmsaCredentialSpec": put("gmsaCredentialSpec")}});
    pod["spec"]["imagePullSecrets"] = json!([{"name": "regcred"}]);
    let image = format!("user:{}@reg.example/app:1", put("image of a container"));
    let header = |v: String| json!([{"name": "Authorization", "value": format!("Bearer {v}")}]);
    for kind in ["initContainers", "ephemeralContainers"] {
        pod["spec"][kind] = json!([{
            "name": format!("{kind}-0").to_lowercase(), "image": format!("user:{}@reg.example/init:1", put(kind)),
            "env": [{"name": "A", "value": put(kind)}], "args": [put(kind)], "command": ["sh", put(kind)],
            "startupProbe": {"exec": {"command": ["sh", put(kind)]}},
        }]);
    }
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(image);
    container["env"] = json!([{"name": "GREETING", "value": put("env")}, {"name": "DB_PASSWORD", "value": put("env")}]);
    container["envFrom"] =
        json!([{"prefix": put("prefix of envFrom"), "secretRef": {"name": "s"}}]);
    container["command"] = json!(["sh", "-c", put("command")]);
    container["args"] = json!(["--password", put("args")]);
    container["livenessProbe"] = json!({"exec": {"command": ["sh", "-c", put("probe command")]}});
    container["readinessProbe"] = json!({"httpGet": {"port": 80, "path": format!("/h?token={}&x={}", put("probe URL"), put("probe URL")), "httpHeaders": header(put("probe header"))}});
    container["lifecycle"] = json!({
        "postStart": {"exec": {"command": ["sh", "-c", put("postStart")]}},
        "preStop": {"httpGet": {"port": 80, "path": format!("/stop?token={}", put("preStop")), "httpHeaders": header(put("preStop header"))}},
    });
    let status = &mut pod["status"];
    status["message"] = json!(format!("evicted, password={}", put("status message")));
    status["conditions"][0]["message"] = json!(format!(
        "Authorization: Bearer {}0123456789",
        put("condition")
    ));
    let of = &mut status["containerStatuses"][0];
    of["image"] = json!(format!(
        "user:{}@reg.example/app:1",
        put("image of a status")
    ));
    of["imageID"] = json!(format!(
        "docker-pullable://user:{}@reg.example/app@sha256:0123",
        put("imageID")
    ));
    of["state"] = json!({"waiting": {"reason": "ImagePullBackOff", "message": format!("Back-off pulling image \"user:{}@reg.example/app:1\"", put("waiting message"))}});
    of["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": "2026-11-21T00:24:28Z", "finishedAt": "2026-11-21T00:24:29Z", "message": format!("panic: login with DB_PASSWORD={} failed", put("termination message"))}});
    pod
}

fn event(c: &mut Canaries, pod: &Value, n: usize, message: &str) -> Value {
    json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {"name": format!("carrier.18e9e7afa44ef1{n:02x}"), "namespace": "canaries", "uid": format!("e{n}"), "resourceVersion": "9", "annotations": {"a": c.put("annotation of an Event")}},
        "involvedObject": {"kind": "Pod", "namespace": "canaries", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        "reason": "Failed", "type": "Warning", "count": 1, "message": c.fill(message),
        "firstTimestamp": "2026-11-21T00:24:30Z", "lastTimestamp": "2026-11-21T00:24:30Z",
        "source": {"component": "kubelet", "host": "node1"},
    })
}

fn items(c: &mut Canaries, name: &str) -> Value {
    let mut pod = pod(c, name);
    // The same texts in every message of the status, without marks: kflow does not keep every
    // condition, and cuts messages.
    let unmarked: Vec<String> = PROSE
        .iter()
        .map(|p| c.fill(&p.replace("{M} ", "")))
        .collect();
    let status = &mut pod["status"];
    let conditions = status["conditions"].as_array_mut().unwrap();
    let wanted = conditions.len();
    for (n, text) in unmarked.iter().enumerate() {
        conditions[n % wanted]["message"] = json!(text);
        let condition = conditions[n % wanted].clone();
        conditions.push(condition);
    }
    status["message"] = json!(unmarked.join("; "));
    let terminated = &mut status["containerStatuses"][0]["lastState"]["terminated"];
    terminated["message"] = json!(unmarked.join("\n"));
    let told = [
        r#"{M} Liveness probe failed: HTTP probe failed with statuscode: 401, body: "token={C}""#,
        r#"{M} Failed to pull image "user:{C}@reg.example/app:1": Get "https://u:{C}@reg.example/v2/?sig={C}": 401"#,
        r#"{M} Error: failed to start container: exec: env A_TOKEN={C}, args: ["{C}"]"#,
        r#"{M} MountVolume.SetUp failed for volume "pv" : rpc error: code = Internal desc = mount failed: Mounting arguments: -o username=u,password={C}"#,
        r#"{M} PostStartHook failed: Authorization: Bearer {C}0123456789 headers=[{"name":"X","value":"{C}"}]"#,
    ];
    let mut items = vec![pod.clone()];
    for (n, message) in told.iter().chain(&PROSE).enumerate() {
        items.push(event(c, &pod, n, message));
    }
    json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items})
}

fn pods(c: &mut Canaries, name: &str) -> String {
    format!("{}\n", items(c, name))
}

/// Returns the list as YAML. Its items stay JSON, which is valid YAML; only the outermost level is written as YAML, by
/// which kflow recognises the file.
fn yaml(c: &mut Canaries) -> String {
    let list = items(c, "carrier-yaml");
    let mut out = String::from("apiVersion: v1\nkind: List\nitems:\n");
    for item in list["items"].as_array().unwrap() {
        writeln!(out, "- {item}").unwrap();
    }
    out
}

pub(super) fn audit(c: &mut Canaries) -> String {
    let bytes = fixture("audit/audit.jsonl");
    let denied = ["{M} admission webhook denied: password={C} https://u:{C}@hook/"];
    let mut denials = denied.iter().chain(&PROSE).cycle();
    let mut out = String::new();
    for line in bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let mut r: Value = serde_json::from_slice(line).unwrap();
        if r["requestURI"].as_str().unwrap().starts_with("/readyz") {
            continue;
        }
        r["level"] = json!("RequestResponse");
        if r["objectRef"]["resource"] == "secrets" {
            let secret = json!({"kind": "Secret", "metadata": {"name": "app-secret", "annotations": {"a": c.put("annotation of a Secret")}}, "data": {"x": c.put("data of a Secret")}, "stringData": {"y": c.put("stringData")}});
            r["requestObject"] = secret.clone();
            r["responseObject"] = secret;
        } else if r["objectRef"]["subresource"] == "exec" {
            let uri = r["requestURI"]
                .as_str()
                .unwrap()
                .replace("%2Fwww", &c.put("argument of an exec"));
            r["requestURI"] = json!(uri);
            for (subresource, uri) in [
                ("attach", "attach?container=c&token={C}"),
                ("portforward", "portforward?ports=8080&token={C}"),
                ("proxy", "proxy/login/{C}?user=u&password={C}"),
                ("log", "log?follow=true&sinceTime={C}"),
            ] {
                let mut other = r.clone();
                other["objectRef"]["subresource"] = json!(subresource);
                other["auditID"] = json!(subresource);
                other["requestURI"] =
                    json!(c.fill(&format!("/api/v1/namespaces/canaries/pods/p/{uri}")));
                writeln!(out, "{other}").unwrap();
            }
            let mut other = r.clone();
            other["objectRef"] = Value::Null;
            other["auditID"] = json!("no-resource");
            other["requestURI"] = json!(c.fill("/debug/flags/{C}?x={C}"));
            writeln!(out, "{other}").unwrap();
        } else {
            r["requestObject"] = pod(c, "carrier-audit");
            r["responseObject"] = pod(c, "carrier-audit");
        }
        r["responseStatus"]["message"] = json!(c.fill(denials.next().unwrap()));
        r["responseStatus"]["reason"] = json!("Forbidden");
        r["annotations"]["patch.webhook.admission.k8s.io/round_0_index_0"] =
            json!(c.put("patch of a webhook"));
        r["annotations"]["note"] = json!(c.put("annotation of a record"));
        r["annotations"]["authorization.k8s.io/reason"] = json!(c.fill("RBAC: token={C}"));
        r["user"]["extra"] = json!({"scopes": [c.put("extra of a user")]});
        writeln!(out, "{r}").unwrap();
    }
    out
}

/// Replaces each `text` in real bytes by a canary of the same length, so that all other bytes stay the same.
fn put_in_place(bytes: &mut [u8], text: &[u8], canary: &[u8]) -> usize {
    assert_eq!(text.len(), canary.len());
    let at: Vec<usize> = memchr::memmem::find_iter(bytes, text).collect();
    for i in &at {
        bytes[*i..*i + text.len()].copy_from_slice(canary);
    }
    at.len()
}

fn rewritten(lines: &[u8], places: &[(&str, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = vec![0; places.len()];
    for line in lines.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let mut line: Value = serde_json::from_slice(line).unwrap();
        if let Some(b64) = line["b64"].as_str() {
            let mut bytes = STANDARD.decode(b64).unwrap();
            for ((text, canary), n) in places.iter().zip(&mut put) {
                *n += put_in_place(&mut bytes, text.as_bytes(), canary.as_bytes());
            }
            line["b64"] = json!(STANDARD.encode(bytes));
        }
        out.extend(line.to_string().into_bytes());
        out.push(b'\n');
    }
    for ((text, _), n) in places.iter().zip(put) {
        assert!(n > 0, "{text} is not in the bytes");
    }
    out
}

fn otlp_protobuf(c: &mut Canaries) -> Vec<u8> {
    // The address of a server, 26 bytes long.
    let canary = c.put("attribute of a span");
    let place = format!("x://u:{canary}@ab/");
    assert_eq!(place.len(), "/opt/klab/run/cri-tee.sock".len() - 4);
    let mut out = rewritten(
        &fixture("otlp/exports.jsonl"),
        &[("/opt/klab/run/cri-tee.sock", format!("{place}path"))],
    );
    let bytes = STANDARD.encode(otlp::bytes(c));
    let line = json!({"t": 1_795_220_704_544_763_084_i64, "b64": bytes});
    out.extend(format!("{line}\n").into_bytes());
    out
}

pub(super) fn cri_bytes(c: &mut Canaries) -> Vec<u8> {
    let places = [
        ("env of CreateContainer", "\x12\t", "10.96.0.1"),
        ("env in a verbose status", "PATH=", "/bin:/usr/bin:/sbin"),
        ("command", "", "while true; do date; sleep 1; done"),
        ("hook in an annotation", "", "sleep 5"),
    ];
    let mut all = Vec::new();
    for (place, before, text) in places {
        let canary = format!("Qz{}Kanarie that was invented by nobody", c.places.len());
        let canary = canary[..text.len()].to_owned();
        c.places.push((canary.clone(), place.to_owned()));
        all.push((format!("{before}{text}"), format!("{before}{canary}")));
    }
    let all: Vec<(&str, String)> = all.iter().map(|(t, p)| (t.as_str(), p.clone())).collect();
    rewritten(&fixture("cri/S13-crictl.jsonl.zst"), &all)
}

fn fs(c: &mut Canaries) -> String {
    let bytes = fixture("lab/fs.jsonl.zst");
    let mut out = String::from_utf8(bytes).unwrap();
    let mount = |c: &mut Canaries, text: &str| {
        let line = c.fill(text);
        json!({"t": 1_795_222_979_053_927_716_i64, "src": "mount", "ev": "add", "line": line})
            .to_string()
            + "\n"
    };
    let pods = "/var/lib/kubelet/pods/4e4df844-2868-44f4-b348-afe965e789f5";
    for text in [
        format!(
            "43 42 0:39 / {pods}/volumes/kubernetes.io~nfs/share rw - nfs4 u:{{C}}@nfs.example:/ rw,password={{C}}"
        ),
        format!(
            "44 42 0:39 /{{C}} {pods}/volumes/kubernetes.io~csi/pv/mount rw - cifs //u:{{C}}@host/share rw,username=u,password={{C}}"
        ),
    ] {
        out.push_str(&mount(c, &text));
    }
    let inner = c.fill(&format!("{pods}/volumes/kubernetes.io~secret/keys/{{C}}"));
    writeln!(out, "{}", json!({"t": 1_795_222_979_053_927_717_i64, "src": "pods", "ev": ["CREATE"], "path": inner, "dir": false})).unwrap();
    out
}

/// An endpoint: its name in a scrape, its path, its answer.
pub(super) type Endpoint = (&'static str, &'static str, String);

/// Returns the apiserver's endpoints that kflow asks from time to time.
pub(super) fn of_apiserver(c: &mut Canaries) -> [Endpoint; 2] {
    [
        ("apiserver-readyz", "readyz", c.fill("[-]etcd failed: {M} https://u:{C}@etcd:2379 Authorization: Bearer {C}0123456789\nreadyz check failed\n")),
        ("apiserver-version", "version", json!({"gitVersion": "v1.36.2", "platform": c.fill("linux/amd64 token={C}")}).to_string()),
    ]
}

pub(super) fn of_kubelet(c: &mut Canaries) -> [Endpoint; 5] {
    let config = json!({"kubeletconfig": {
        "maxPods": 110,
        "staticPodURL": c.fill("https://u:{C}@host/pods?token={C}"),
        "staticPodURLHeader": {"Authorization": [c.fill("Bearer {C}")]},
        "imageServiceEndpoint": c.fill("unix:///run/x.sock?token={C}"),
        "evictionHard": {"password": c.put("value in a map of configz")},
        "featureGates": {"apiToken": c.put("value in a map of configz")},
    }});
    [
        ("kubelet-metrics", "metrics", c.fill(
            "kubelet_runtime_operations_total{operation_type=\"x\",url=\"https://u:{C}@h/?token={C}\",password=\"{C}\"} 3\nkubelet_started_pods_total 7\n",
        )),
        ("kubelet-metrics-probes", "metrics/probes", c.fill(
            "prober_probe_total{container=\"c\",api_token=\"{C}\",probe_type=\"Readiness\",result=\"failed\"} 3\n",
        )),
        ("kubelet-healthz", "healthz", c.fill("[-]syncloop failed: {M} password={C} https://u:{C}@h/\nhealthz check failed: token={C}\n")),
        ("kubelet-configz", "configz", config.to_string()),
        ("kubelet-pods", "pods", json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod(c, "carrier-kubelet")]}).to_string()),
    ]
}

fn snapshots(c: &mut Canaries) -> String {
    let mut out = String::new();
    let all = of_kubelet(c).into_iter().chain(of_apiserver(c));
    for (what, _, body) in all {
        let line = json!({"t": 1_795_222_979_053_927_716_i64, "took_ns": 1000, "what": what, "status": 200, "body": body});
        writeln!(out, "{line}").unwrap();
    }
    let error = c.fill("{M} Get https://u:{C}@host:10250/healthz: token={C}");
    let line = json!({"t": 1_795_222_980_053_927_716_i64, "took_ns": 1000, "what": "kubelet-healthz", "error": error});
    writeln!(out, "{line}").unwrap();
    out
}

/// Returns an object of a watched kind, with canaries in every field that people put secrets in.
pub(super) fn object(c: &mut Canaries, kind: &str, namespace: Option<&str>) -> Value {
    let of = pod(c, "template");
    let mut put = |place: &str| c.put(&format!("{place} of {kind}"));
    json!({
        "kind": kind,
        "metadata": {
            "name": "node1", "namespace": namespace.unwrap_or("canaries"), "uid": format!("c0ffee00-{kind}"),
            "resourceVersion": "900", "creationTimestamp": "2026-11-21T00:24:00Z",
            "annotations": {"a": put("annotation"), "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"x\":\"{}\"}}", put("last-applied"))},
            "labels": {"api-token": put("label")},
            "managedFields": [{"manager": "m", "fieldsV1": {put("managedFields"): {}}}],
        },
        "spec": {
            "template": {"metadata": {"annotations": {"a": put("annotation of the template")}}, "spec": of["spec"]},
            "holderIdentity": format!("node1 password={}", put("holder")), "renewTime": "2026-11-21T00:24:00.000000Z",
            "providerID": format!("aws://u:{}@zone/i-1", put("provider id")),
            "storageClassName": "s", "volumeName": "v",
            "taints": [{"key": "token", "value": put("taint"), "effect": "NoSchedule"}],
        },
        "status": {
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "X", "lastTransitionTime": "2026-11-21T00:24:00Z",
                "message": format!("admission webhook denied: password={} https://u:{}@hook/", put("condition"), put("condition")),
            }],
            "images": [{"names": [format!("user:{}@reg.example/app:1", put("image"))]}],
            "addresses": [{"type": "Hostname", "address": "node1"}],
        },
        "data": {"x": put("data")},
    })
}

/// Returns a list with a pod and Events about it; the apiserver stand-in makes its lists and its watches of such lists.
pub(super) fn watched(c: &mut Canaries, name: &str) -> Value {
    items(c, name)
}

/// Returns the body of a request from an audit webhook.
pub(super) fn batch(c: &mut Canaries) -> String {
    let items: Vec<Value> = audit(c)
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items})
        .to_string()
}
