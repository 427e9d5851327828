//! What carries canaries: for each source the content of a capture.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

use super::Canaries;
use super::logs::{journal, journal_short, kubelet_json, kubelet_text, runtime, runtime_journal};

/// One form of one source.
pub(super) struct Source {
    /// Flag of `kflow import`.
    pub(super) flag: &'static str,
    /// Name of the file; of a support bundle the folder's, in which the content is `pods.json`.
    pub(super) name: &'static str,
    /// Its content.
    pub(super) make: fn(&mut Canaries) -> Vec<u8>,
}

/// All of them.
pub(super) const SOURCES: [Source; 16] = [
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
    source("--containerd-log", "containerd.journal", |c| {
        runtime_journal(c).into()
    }),
    source("--audit", "audit.log", |c| audit(c).into()),
    source("--otlp", "otlp-json.jsonl", |c| otlp_json(c).into()),
    source("--otlp", "otlp-protobuf.jsonl", otlp_protobuf),
    source("--watch", "pods.json", |c| pods(c, "carrier").into()),
    source("--watch", "pods.yaml", |c| yaml(c).into()),
    source("--dir", "bundle", |c| pods(c, "carrier-bundle").into()),
    source("--cri-bytes", "cri-bytes.jsonl", cri_bytes),
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

/// A pod of `kubectl get -o json` with canaries in every field that people put secrets in.
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
    // One of its own for each name.
    pod["metadata"]["uid"] = json!(format!("c0ffee00-0000-4000-8000-{:012}", name.len()));
    pod["metadata"]["annotations"] = json!({"note": put("annotation"), "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"x\":\"{}\"}}", put("last-applied"))});
    pod["metadata"]["labels"]["api-token"] = json!(put("label"));
    pod["spec"]["volumes"] = json!([
        {"name": "csi", "csi": {"driver": "d.example", "volumeAttributes": {"a": put("CSI attribute")}, "nodePublishSecretRef": {"name": "s"}}},
        {"name": "flex", "flexVolume": {"driver": "d/e", "options": {"a": put("flexVolume option")}}},
    ]);
    pod["spec"]["imagePullSecrets"] = json!([{"name": "regcred"}]);
    let image = format!("user:{}@reg.example/app:1", put("image of a container"));
    let header = |v: String| json!([{"name": "Authorization", "value": format!("Bearer {v}")}]);
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
    let pod = pod(c, name);
    let mut items = vec![pod.clone()];
    for (n, message) in [
        r#"{M} Liveness probe failed: HTTP probe failed with statuscode: 401, body: "token={C}""#,
        r#"{M} Failed to pull image "user:{C}@reg.example/app:1": Get "https://u:{C}@reg.example/v2/?sig={C}": 401"#,
        r#"{M} Error: failed to start container: exec: env A_TOKEN={C}, args: ["{C}"]"#,
        r#"{M} MountVolume.SetUp failed for volume "pv" : rpc error: code = Internal desc = mount failed: Mounting arguments: -o username=u,password={C}"#,
        r#"{M} PostStartHook failed: Authorization: Bearer {C}0123456789 headers=[{"name":"X","value":"{C}"}]"#,
    ]
    .into_iter()
    .enumerate()
    {
        items.push(event(c, &pod, n, message));
    }
    json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items})
}

fn pods(c: &mut Canaries, name: &str) -> String {
    format!("{}\n", items(c, name))
}

/// JSON is YAML, but for what kflow recognises a file by: the list is written out one level deep.
fn yaml(c: &mut Canaries) -> String {
    let list = items(c, "carrier-yaml");
    let mut out = String::from("apiVersion: v1\nkind: List\nitems:\n");
    for item in list["items"].as_array().unwrap() {
        writeln!(out, "- {item}").unwrap();
    }
    out
}

fn audit(c: &mut Canaries) -> String {
    let bytes = fixture("audit/audit.jsonl");
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
        } else {
            r["requestObject"] = pod(c, "carrier-audit");
            r["responseObject"] = pod(c, "carrier-audit");
        }
        r["responseStatus"]["message"] =
            json!(c.fill("{M} admission webhook denied: password={C} https://u:{C}@hook/"));
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

fn otlp_json(c: &mut Canaries) -> String {
    let text = |key: &str, value: String| json!({"key": key, "value": {"stringValue": value}});
    let attributes = [
        ("http.url", "https://u:{C}@host/v2/?token={C}&x={C}"),
        ("url.full", "https://host/exec?command=sh&command={C}"),
        ("http.target", "/blob?sig={C}"),
        ("http.request.header.authorization", "Bearer {C}"),
        ("image.ref", "user:{C}@reg.example/app:1"),
        ("container.command", "{C}"),
        ("db.statement", "{C}"),
        ("k8s.pod.annotations", "{\"password\":\"{C}\"}"),
        ("rpc.grpc.request.metadata.token", "{C}"),
        ("configuration", "env=[{\"name\":\"A\",\"value\":\"{C}\"}]"),
    ];
    let mut all: Vec<Value> = attributes.map(|(k, v)| text(k, c.fill(v))).into();
    all.push(text("rpc.method", "RunPodSandbox".into()));
    let span = json!({
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
        "name": c.fill("{M} GET https://u:{C}@host"), "kind": 3,
        "startTimeUnixNano": "1795220679345483845", "endTimeUnixNano": "1795220679345983845",
        "attributes": all,
        "status": {"code": 2, "message": c.fill("{M} password={C} Authorization: Bearer {C}0123456789")},
        "events": [{"timeUnixNano": "1795220679345483846", "name": c.fill("retry with token={C}"), "attributes": [text("exception.message", c.fill("password={C}"))]}],
    });
    let resource = json!({"attributes": [text("service.name", "kubelet".into()), text("process.command_args", c.put("arguments of a process"))]});
    format!(
        "{}\n",
        json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]})
    )
}

/// Real bytes; the canary takes the place of a text of the same length, so that all else stays as it was.
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
    // An address of a server, 26 bytes.
    let canary = c.put("attribute of a span");
    let place = format!("x://u:{canary}@ab/");
    assert_eq!(place.len(), "/opt/klab/run/cri-tee.sock".len() - 4);
    rewritten(
        &fixture("otlp/exports.jsonl"),
        &[("/opt/klab/run/cri-tee.sock", format!("{place}path"))],
    )
}

fn cri_bytes(c: &mut Canaries) -> Vec<u8> {
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
    rewritten(&fixture("captures/cri-bytes.jsonl.zst"), &all)
}
