//! `kubectl describe pod`: the pod as the API would have written it.
//!
//! The fields are those that k8s.io/kubectl/pkg/describe/describe.go, `describePod`, prints. It does not print the UID, the
//! creation time, messages of conditions, pull policies, affinity and spread constraints. What is missing stays out.

use serde_json::{Map, Value, json};

use super::outline::{Line, get, value};
use super::table::Row;
use super::{Moment, absolute};
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;

/// Fields of a pod that `describe` does not print, as far as its other lines show them.
pub(super) struct Known<'a> {
    uid: &'a str,
    /// The start of the pod, or its first Event if that is older: it was created then, or earlier.
    created: Nanos,
    /// When the kubelet last began to stop a container.
    killed: Option<Nanos>,
    moment: Moment,
}

impl<'a> Known<'a> {
    pub(super) fn new(uid: &'a str, lines: &[Line<'_>], rows: &[Row], moment: Moment) -> Self {
        let first = rows.iter().filter_map(|r| r.ages.first.or(r.ages.last));
        let first = first.map(|a| moment.before(a));
        let start = value(lines, "Start Time").and_then(Nanos::parse_rfc2822);
        let killed = rows.iter().filter(|r| r.reason == "Killing");
        let killed = killed.filter_map(|r| r.ages.last).map(|a| moment.before(a));
        Self {
            uid,
            created: first.chain(start).min().unwrap_or(moment.0),
            killed: killed.max(),
            moment,
        }
    }
}

/// Returns the object.
pub(super) fn object(lines: &[Line<'_>], known: &Known<'_>) -> Value {
    let mut metadata = Map::new();
    let mut spec = Map::new();
    let mut status = Map::new();

    put(&mut metadata, "name", value(lines, "Name"));
    put(&mut metadata, "namespace", value(lines, "Namespace"));
    put(&mut metadata, "uid", Some(known.uid));
    let created = known.created.to_rfc3339_seconds();
    put(&mut metadata, "creationTimestamp", Some(&created));
    if let Some(labels) = get(lines, "Labels") {
        metadata.insert("labels".into(), pairs(labels, &['=']));
    }
    // `Controllers` before Kubernetes 1.7.
    let owner = value(lines, "Controlled By").or_else(|| value(lines, "Controllers"));
    if let Some((kind, name)) = owner.and_then(|o| o.split_once('/')) {
        let owner = json!({"kind": kind, "name": name, "controller": true});
        metadata.insert("ownerReferences".into(), json!([owner]));
    }

    let node = value(lines, "Node").map(|n| n.split('/').next().unwrap_or(n));
    put(&mut spec, "nodeName", node.filter(|n| !n.starts_with('<')));
    put(
        &mut spec,
        "priorityClassName",
        value(lines, "Priority Class Name"),
    );
    put(
        &mut spec,
        "runtimeClassName",
        value(lines, "Runtime Class Name"),
    );
    put(
        &mut spec,
        "serviceAccountName",
        value(lines, "Service Account"),
    );
    number(&mut spec, "priority", value(lines, "Priority"));
    if let Some(selector) = get(lines, "Node-Selectors") {
        spec.insert("nodeSelector".into(), pairs(selector, &['=']));
    }
    if let Some(t) = get(lines, "Tolerations") {
        spec.insert("tolerations".into(), t.entries().map(toleration).collect());
    }
    if let Some(gates) = get(lines, "Readiness Gates") {
        let gates = gates.below.iter().filter(|l| !l.text.starts_with("Type"));
        let first = |l: &Line<'_>| json!({"conditionType": l.text.split_whitespace().next()});
        spec.insert("readinessGates".into(), gates.map(first).collect());
    }
    if let Some(whole) = get(lines, "Resources") {
        spec.insert("resources".into(), resources(whole));
    }
    if let Some(volumes) = get(lines, "Volumes") {
        let volumes = volumes.below.iter().filter(|v| !v.key.is_empty());
        spec.insert("volumes".into(), volumes.map(volume).collect());
    }

    let phase = get(lines, "Status").map(|l| l.value).unwrap_or_default();
    if let Some(rest) = phase.strip_prefix("Terminating") {
        let grace = value(lines, "Termination Grace Period").and_then(super::age::age);
        let grace = grace.map(|g| g.seconds);
        // `(lasts 3m)`: so long ago the grace period ended; `(expires <date>)` before Kubernetes 1.8.
        let (_, when) = super::age::word(rest.trim().trim_matches(['(', ')']));
        let deadline = known.moment.ago(when).or_else(|| absolute(when.trim()));
        // `(lasts <invalid>)`: it has not ended yet. It began when the kubelet stopped the containers.
        let deadline = deadline.unwrap_or_else(|| {
            let grace = grace.unwrap_or_default().saturating_mul(SECOND);
            let now = known.moment.0;
            let began = known.killed.filter(|k| now.since(*k) <= grace);
            began.unwrap_or(now).plus(grace).to_rfc3339_seconds()
        });
        put(&mut metadata, "deletionTimestamp", Some(&deadline));
        // A part of a description may not say when the pod was made: it was before.
        put(
            &mut metadata,
            "creationTimestamp",
            Some(created.min(deadline.clone()).as_str()),
        );
        metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
        // The phase is not printed then. A pod has an address since its sandbox runs, and may have lost it.
        let containers = get(lines, "Containers").map(|l| l.below.as_slice());
        let is_running = |c: &Line<'_>| c.value("State") == Some("Running");
        let runs = value(lines, "IP").is_some()
            || containers.is_some_and(|all| all.iter().any(is_running));
        put(
            &mut status,
            "phase",
            Some(if runs { "Running" } else { "Pending" }),
        );
    } else {
        put(&mut status, "phase", phase.split_whitespace().next());
    }
    put(&mut status, "reason", value(lines, "Reason"));
    put(&mut status, "message", value(lines, "Message"));
    put(&mut status, "podIP", value(lines, "IP"));
    put(&mut status, "qosClass", value(lines, "QoS Class"));
    put(
        &mut status,
        "nominatedNodeName",
        value(lines, "NominatedNodeName"),
    );
    let start = value(lines, "Start Time").and_then(absolute);
    put(&mut status, "startTime", start.as_deref());
    if let Some(conditions) = get(lines, "Conditions") {
        status.insert("conditions".into(), self::conditions(conditions));
    }

    for (title, of_spec, of_status) in [
        ("Init Containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
        (
            "Ephemeral Containers",
            "ephemeralContainers",
            "ephemeralContainerStatuses",
        ),
    ] {
        let Some(all) = get(lines, title) else {
            continue;
        };
        let all = || all.below.iter().filter(|c| !c.key.is_empty());
        spec.insert(of_spec.into(), all().map(container).collect());
        // A container whose status is not written yet has no state.
        let told = all().filter(|c| c.get("State").is_some() || c.get("Last State").is_some());
        status.insert(of_status.into(), told.map(container_status).collect());
    }
    json!({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
}

pub(super) fn put(into: &mut Map<String, Value>, key: &str, value: Option<&str>) {
    if let Some(v) = value {
        into.insert(key.into(), json!(v));
    }
}

fn number(into: &mut Map<String, Value>, key: &str, value: Option<&str>) {
    if let Some(n) = value.and_then(|v| v.parse::<i32>().ok()) {
        into.insert(key.into(), json!(n));
    }
}

/// A map as `key=value` or `key:  value` lines.
pub(super) fn pairs(line: &Line<'_>, between: &[char]) -> Value {
    let pair = |e: &str| {
        let (key, value) = e.split_once(between)?;
        Some((key.trim().to_owned(), json!(value.trim())))
    };
    Value::Object(line.entries().filter_map(pair).collect())
}

/// `node.kubernetes.io/not-ready:NoExecute op=Exists for 300s`, `key=value:Effect`, `op=Exists`.
fn toleration(text: &str) -> Value {
    let mut out = Map::new();
    let mut words = text.split_whitespace().peekable();
    if let Some(taint) = words.next_if(|w| !w.starts_with("op=")) {
        let (taint, effect) = taint.rsplit_once(':').unwrap_or((taint, ""));
        let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
        put(&mut out, "key", Some(key));
        put(&mut out, "value", Some(value));
        put(&mut out, "effect", Some(effect));
    }
    while let Some(word) = words.next() {
        if let Some(operator) = word.strip_prefix("op=") {
            put(&mut out, "operator", Some(operator));
        } else if word == "for" {
            let age = words.next().and_then(super::age::age);
            out.insert("tolerationSeconds".into(), json!(age.map(|a| a.seconds)));
        }
    }
    Value::Object(out)
}

/// `Requests` and `Limits` below a container, or below the pod's `Resources`.
fn resources(line: &Line<'_>) -> Value {
    let mut out = Map::new();
    for (title, key) in [("Requests", "requests"), ("Limits", "limits")] {
        if let Some(all) = line.get(title) {
            out.insert(key.into(), quantities(all));
        }
    }
    Value::Object(out)
}

/// `cpu:  100m`, one below the other.
pub(super) fn quantities(line: &Line<'_>) -> Value {
    let each = line.below.iter().filter(|l| !l.key.is_empty());
    Value::Object(each.map(|l| (l.key.to_owned(), json!(l.value))).collect())
}

/// The table `Type  Status`.
fn conditions(lines: &Line<'_>) -> Value {
    let condition = |l: &Line<'_>| {
        let (kind, rest) = super::age::word(l.text);
        let status = rest.trim();
        matches!(status, "True" | "False" | "Unknown")
            .then(|| json!({"type": kind, "status": status}))
    };
    lines.below.iter().filter_map(condition).collect()
}

/// Words with which kubectl begins the type of a volume, and the API's key for it.
const VOLUMES: [(&str, &str); 17] = [
    ("PersistentVolumeClaim", "persistentVolumeClaim"),
    ("EphemeralVolume", "ephemeral"),
    ("Secret", "secret"),
    ("ConfigMap", "configMap"),
    ("Projected", "projected"),
    ("DownwardAPI", "downwardAPI"),
    ("EmptyDir", "emptyDir"),
    ("HostPath", "hostPath"),
    ("NFS", "nfs"),
    ("CSI", "csi"),
    ("FlexVolume", "flexVolume"),
    ("Image", "image"),
    ("AWSElasticBlockStore", "awsElasticBlockStore"),
    ("GCEPersistentDisk", "gcePersistentDisk"),
    ("AzureDisk", "azureDisk"),
    ("AzureFile", "azureFile"),
    ("ISCSI", "iscsi"),
];

fn volume(line: &Line<'_>) -> Value {
    let kind = line.value("Type").unwrap_or_default();
    let kind = kind.split_whitespace().next().unwrap_or_default();
    let key = VOLUMES.iter().find(|(word, _)| *word == kind);
    let key = key.map_or_else(|| lower_first(kind), |(_, key)| (*key).to_owned());
    let mut source = Map::new();
    for (field, name) in [
        ("SecretName", "secretName"),
        ("ClaimName", "claimName"),
        ("Name", "name"),
        ("Path", "path"),
        ("Server", "server"),
        ("Driver", "driver"),
        ("Reference", "reference"),
    ] {
        put(&mut source, name, line.value(field));
    }
    if line.value("Optional") == Some("true") {
        source.insert("optional".into(), json!(true));
    }
    if key == "projected" {
        source.insert("sources".into(), projected(line));
    }
    json!({"name": line.key, key: source})
}

/// The sources of a projected volume: `ConfigMapName`, `SecretName`, `DownwardAPI`, `TokenExpirationSeconds`.
fn projected(line: &Line<'_>) -> Value {
    let source = |l: &Line<'_>| match l.key {
        "TokenExpirationSeconds" => Some(json!({"serviceAccountToken": {}})),
        "ConfigMapName" | "Name" => Some(json!({"configMap": {"name": l.value}})),
        "SecretName" => Some(json!({"secret": {"name": l.value}})),
        "DownwardAPI" => Some(json!({"downwardAPI": {}})),
        _ => None,
    };
    line.below.iter().filter_map(source).collect()
}

fn lower_first(word: &str) -> String {
    let mut chars = word.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

fn container(line: &Line<'_>) -> Value {
    let mut out = Map::new();
    put(&mut out, "name", Some(line.key));
    put(&mut out, "image", line.value("Image"));
    out.insert("resources".into(), resources(line));
    for (title, key) in [
        ("Startup", "startupProbe"),
        ("Liveness", "livenessProbe"),
        ("Readiness", "readinessProbe"),
    ] {
        if let Some(text) = line.value(title) {
            out.insert(key.into(), probe(text));
        }
    }
    let ports = line.value("Host Port").or_else(|| line.value("Host Ports"));
    let ports = ports.into_iter().flat_map(|p| p.split(','));
    let ports = ports.filter_map(|p| p.trim().split('/').next()?.parse::<i32>().ok());
    out.insert(
        "ports".into(),
        ports.map(|p| json!({"hostPort": p})).collect(),
    );
    // What the variables are taken from. A variable's own value is not read.
    let from = line.get("Environment Variables from").map(|e| &e.below);
    let from = from.into_iter().flatten().filter_map(|l| {
        let mut words = l.text.split_whitespace();
        let (name, kind) = (words.next()?, words.next()?);
        let optional = l.text.contains("Optional: true");
        let key = match kind {
            "Secret" => "secretRef",
            _ => "configMapRef",
        };
        Some(json!({key: {"name": name, "optional": optional}}))
    });
    out.insert("envFrom".into(), from.collect());
    let env = line.get("Environment").map(|e| &e.below);
    let env = env.into_iter().flatten().filter_map(|l| {
        let (key, name) = reference(l.value)?;
        Some(json!({"name": l.key, "valueFrom": {key: {"name": name}}}))
    });
    out.insert("env".into(), env.collect());
    Value::Object(out)
}

/// `<set to the key 'a' in secret 'b'>  Optional: false`
fn reference(text: &str) -> Option<(&'static str, &str)> {
    let rest = text.strip_prefix("<set to the key '")?;
    let (_, rest) = rest.split_once("' ")?;
    let (key, rest) = if let Some(rest) = rest.strip_prefix("in secret '") {
        ("secretKeyRef", rest)
    } else {
        let rest = rest.strip_prefix("of config map '")?;
        ("configMapKeyRef", rest)
    };
    Some((key, rest.split('\'').next()?))
}

/// Returns host and port of an address at the begin of a text; the host is mostly empty.
fn address(text: &str) -> (&str, &str) {
    let first = text.split_whitespace().next().unwrap_or_default();
    first.rsplit_once(':').unwrap_or((first, ""))
}

/// `http-get http://:8080/healthz delay=0s timeout=1s period=10s #success=1 #failure=3`. Of an executed command only
/// that there is one.
fn probe(text: &str) -> Value {
    let mut out = Map::new();
    let (kind, rest) = super::age::word(text);
    let target = rest.trim_start();
    match kind {
        "http-get" => {
            let url = target.split_whitespace().next().unwrap_or_default();
            let after = url.split_once("://").map_or(url, |(_, after)| after);
            let (at, path) = after.split_once('/').unwrap_or((after, ""));
            let (host, port) = address(at);
            out.insert(
                "httpGet".into(),
                json!({"host": host, "port": port, "path": format!("/{path}")}),
            );
        }
        "tcp-socket" => {
            let (host, port) = address(target);
            out.insert("tcpSocket".into(), json!({"host": host, "port": port}));
        }
        "grpc" => {
            // Its host is `<pod>`, always.
            let (_, port) = address(target);
            out.insert("grpc".into(), json!({"port": port}));
        }
        "exec" => {
            out.insert("exec".into(), json!({}));
        }
        _ => {}
    }
    // A command may hold anything, its numbers stand behind it.
    let numbers = rest
        .rsplit_once(" delay=")
        .map(|(_, n)| n)
        .unwrap_or_default();
    for word in format!("delay={numbers}").split_whitespace() {
        let (name, n) = word.split_once('=').unwrap_or((word, ""));
        let key = match name {
            "delay" => "initialDelaySeconds",
            "timeout" => "timeoutSeconds",
            "period" => "periodSeconds",
            "#failure" => "failureThreshold",
            _ => continue,
        };
        number(&mut out, key, Some(n.trim_end_matches('s')));
    }
    Value::Object(out)
}

fn container_status(line: &Line<'_>) -> Value {
    let mut out = Map::new();
    put(&mut out, "name", Some(line.key));
    put(&mut out, "image", line.value("Image"));
    put(&mut out, "containerID", line.value("Container ID"));
    number(&mut out, "restartCount", line.value("Restart Count"));
    out.insert("ready".into(), json!(line.value("Ready") == Some("True")));
    for (title, key) in [("State", "state"), ("Last State", "lastState")] {
        if let Some(l) = line.get(title) {
            out.insert(key.into(), state(l));
        }
    }
    Value::Object(out)
}

fn state(line: &Line<'_>) -> Value {
    let mut out = Map::new();
    put(&mut out, "reason", line.value("Reason"));
    put(&mut out, "message", line.value("Message"));
    let reason = line.value("Reason").unwrap_or_default();
    let code = line.value("Exit Code").and_then(|code| code.parse().ok());
    let code: Option<i32> = code.or_else(|| super::pods::exit_code(reason));
    // kubectl prints both always. Where they were cut away, the container may have ended well.
    if line.value == "Terminated" && code.is_none() && reason.is_empty() {
        return json!({});
    }
    if let Some(code) = code {
        out.insert("exitCode".into(), json!(code));
    }
    number(&mut out, "signal", line.value("Signal"));
    let at = |key| line.value(key).and_then(absolute);
    put(&mut out, "startedAt", at("Started").as_deref());
    put(&mut out, "finishedAt", at("Finished").as_deref());
    let key = match line.value {
        "Running" => "running",
        "Terminated" => "terminated",
        "Waiting" => "waiting",
        _ => return json!({}),
    };
    json!({key: out})
}
