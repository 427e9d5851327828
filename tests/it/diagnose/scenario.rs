//! Synthetic scenarios, `fixtures/causes/<id>.json`: a pod's story in a compact form, and the verdict that
//! it must lead to.
//!
//! Times are seconds from the story's beginning. `pod` merges into the pod's last state, with the field names of a
//! session; `call` and `end` are a CRI call with its own `id`; `event`, `log`, `node`, `object`, `watch`, `audit`,
//! `exit`, `pull` and `other` (another pod) are observations of these kinds.

use std::path::Path;
use std::sync::Arc;

use kflow_model::cri::{
    CallEnd, CallKey, CallOutcome, CallStart, Inventory, InventoryItem, RuntimeState, Service,
    Subject,
};
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::pod::PodSeen;
use kflow_model::pull::PullSeen;
use kflow_model::{
    Body, Evidence, Nanos, ObjectRef, Observation, PodNames, PodRef, Source, Stamp,
    event::EventSeen, stamp::SECOND,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// 2027-01-15T08:00:00Z, chosen freely: any whole second works.
const BEGIN: i64 = 1_800_000_000 * SECOND;
const UID: &str = "11111111-0000-4000-8000-000000000001";

/// A story, and the verdict that it must lead to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// The name of the file, without its extension.
    #[serde(skip)]
    pub(super) name: String,
    pub(super) cause: String,
    /// The source of its texts, or that the scenario is invented.
    pub(super) synthetic: String,
    pub(super) target: String,
    pub(super) now_s: f64,
    /// What the sentence or its evidence must mention.
    pub(super) names: Vec<String>,
    /// What the next steps must mention, in a text or a command.
    #[serde(default)]
    pub(super) steps: Vec<String>,
    /// The stage of the verdict, when it is not the catalogue's.
    pub(super) stage: Option<String>,
    /// The state of the verdict, when it matters.
    pub(super) state: Option<String>,
    /// Other causes that are true as well; a part of the sources may tell one of these instead.
    #[serde(default)]
    pub(super) also_fine: Vec<String>,
    pub(super) see: Vec<Value>,
}

fn at(s: f64) -> Nanos {
    Nanos(BEGIN + (s * 1e9) as i64)
}

impl Scenario {
    pub(super) fn load(path: &Path) -> Self {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut s: Self =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        s.name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        s
    }
    pub(super) fn now(&self) -> Nanos {
        at(self.now_s)
    }
    /// The story as observations, in its order.
    pub(super) fn observations(&self) -> Vec<Evidence> {
        let mut pod = json!({"u": UID, "ns": "ns", "n": "p", "rv": 0});
        let mut methods = std::collections::BTreeMap::new();
        let mut out: Vec<Observation> = Vec::new();
        for (n, step) in self.see.iter().enumerate() {
            let t = at(step["t"]
                .as_f64()
                .unwrap_or_else(|| panic!("{}: a step without t", self.cause)));
            let stamp = Stamp::exact(t);
            let mut add = |source, body| {
                out.push(Observation {
                    stamp,
                    source,
                    body,
                });
            };
            let text = |v: &Value, k: &str| v[k].as_str().unwrap_or("").to_owned();
            if let Some(p) = step.get("pod") {
                merge(&mut pod, p);
                pod["rv"] = json!(n + 1);
                pod["ev"] = json!(if n == 0 { "added" } else { "modified" });
                add(Source::Kube, Body::Pod(Box::new(seen(&pod))));
            } else if let Some(p) = step.get("other") {
                add(Source::Kube, Body::Pod(Box::new(seen(p))));
            } else if let Some(e) = step.get("event") {
                add(Source::Kube, Body::Event(Box::new(event(e, n, t))));
            } else if let Some(l) = step.get("log") {
                let by = text(l, "by");
                let (source, component) = match by.as_str() {
                    "crio" => (Source::Runtime, Component::Crio),
                    "containerd" => (Source::Runtime, Component::Containerd),
                    _ => (Source::Kubelet, Component::Kubelet),
                };
                add(source, Body::Log(Box::new(log(l, component))));
            } else if let Some(c) = step.get("call") {
                methods.insert(c["id"].as_u64(), c.clone());
                add(Source::Cri, Body::CallStart(Box::new(call(c))));
            } else if let Some(e) = step.get("end") {
                add(
                    Source::Cri,
                    Body::CallEnd(Box::new(end(e, methods.get(&e["id"].as_u64())))),
                );
            } else if let Some(e) = step.get("exit") {
                add(Source::Cri, Body::Inventory(Box::new(exit(e, t))));
            } else if let Some(v) = step.get("pull") {
                add(Source::Runtime, Body::Pull(Box::new(pull(v))));
            } else if let Some(v) = step.get("node") {
                add(Source::Kube, Body::Node(Box::new(form(&times(v)))));
            } else if let Some(v) = step.get("watch") {
                add(Source::Kube, Body::Watch(Box::new(form(v))));
            } else if let Some(v) = step.get("object") {
                add(Source::Kube, Body::Object(Box::new(form(&times(v)))));
            } else if let Some(v) = step.get("audit") {
                let mut v = times(v);
                v["o"] = json!({"k": "pods", "ns": "ns", "n": "p", "u": UID});
                add(Source::Audit, Body::Audit(Box::new(form(&v))));
            } else {
                panic!("{}: a step that is nothing: {step}", self.cause);
            }
        }
        out.into_iter().map(Arc::new).collect()
    }
}

fn form<T: serde::de::DeserializeOwned>(v: &Value) -> T {
    serde_json::from_value(v.clone()).unwrap_or_else(|e| panic!("{e}: {v}"))
}

fn seen(v: &Value) -> PodSeen {
    form(&times(v))
}

/// Converts seconds of the story to nanoseconds since the epoch, in each field that is a time in a session.
fn times(v: &Value) -> Value {
    match v {
        Value::Object(m) => m
            .iter()
            .map(|(k, v)| {
                let is_time = matches!(k.as_str(), "ct" | "dt" | "t0" | "t1" | "t" | "rx");
                let v = match v.as_f64() {
                    Some(s) if is_time => json!(at(s).0),
                    _ => times(v),
                };
                (k.clone(), v)
            })
            .collect(),
        Value::Array(a) => a.iter().map(times).collect(),
        other => other.clone(),
    }
}

/// Fields of `new` replace those of `old`; lists are replaced whole.
fn merge(old: &mut Value, new: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (k, v) in new {
                let whole = k == "st" || k == "sp";
                match old.get_mut(k) {
                    Some(o) if !whole || v.as_object().is_some_and(|m| !m.contains_key("cond")) => {
                        merge(o, v);
                    }
                    _ => {
                        old.insert(k.clone(), v.clone());
                    }
                }
            }
        }
        (old, new) => *old = new.clone(),
    }
}

fn event(e: &Value, n: usize, t: Nanos) -> EventSeen {
    let text = |k: &str| e[k].as_str().unwrap_or("");
    let (kind, name) = match text("on") {
        "" => ("Pod", "p"),
        kind => (kind, text("name")),
    };
    EventSeen {
        object: ObjectRef {
            kind: kind.into(),
            namespace: e["ns"].as_str().unwrap_or("ns").into(),
            name: name.into(),
            uid: if kind == "Pod" {
                UID.into()
            } else {
                format!("uid-{kind}-{name}").into()
            },
        },
        container: text("c").into(),
        reason: text("reason").into(),
        message: text("message").into(),
        warning: e["w"].as_bool().unwrap_or(true),
        count: e["x"].as_u64().unwrap_or(1) as u32,
        first: Some(t),
        component: text("by").into(),
        name: format!("{name}.{n:x}").into(),
        ..EventSeen::default()
    }
}

fn log(l: &Value, component: Component) -> LogLine {
    let text = |k: &str| l[k].as_str().unwrap_or("");
    let pod = if l["pod"].as_bool().unwrap_or(true) {
        PodRef::from(PodNames {
            uid: UID.into(),
            namespace: "ns".into(),
            name: "p".into(),
        })
    } else {
        PodRef::default()
    };
    let severity = match text("l") {
        "info" => Severity::Info,
        "warning" => Severity::Warning,
        _ => Severity::Error,
    };
    LogLine {
        location: "x.go:1".into(),
        pod,
        container: text("c").into(),
        error: text("e").into(),
        fields: fields(&l["kv"]),
        ..LogLine::new(component, severity, text("m"))
    }
}

fn fields(v: &Value) -> kflow_model::Pairs {
    assert!(v.is_null() || v.is_object(), "not fields: {v}");
    v.as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or("").into()))
        .collect()
}

fn key(v: &Value) -> CallKey {
    CallKey {
        conn: 1,
        stream: v["id"].as_u64().unwrap_or(0) as u32 * 2 + 1,
    }
}

fn subject(c: &Value) -> Subject {
    let text = |k: &str| c[k].as_str().unwrap_or("");
    let (uid, name) = match text("of") {
        "" => (UID, "p"),
        // A call of the kubelet's loops is of no pod.
        "-" => return Subject::default(),
        other => (other, other),
    };
    Subject {
        pod: PodRef::from(PodNames {
            uid: uid.into(),
            namespace: "ns".into(),
            name: name.into(),
        }),
        container: text("c").into(),
        container_id: text("cid").into(),
        image: text("img").into(),
        ..Subject::default()
    }
}

fn call(c: &Value) -> CallStart {
    let method = c["method"].as_str().unwrap_or("");
    let service = if method == "PullImage" {
        Service::Image
    } else {
        Service::Runtime
    };
    CallStart {
        subject: subject(c),
        timeout_ns: c["timeout_s"].as_i64().map(|s| s * SECOND),
        fields: fields(&c["f"]),
        ..CallStart::new(key(c), service, method)
    }
}

fn end(e: &Value, call: Option<&Value>) -> CallEnd {
    let reset = e["reset"].as_bool().unwrap_or(false);
    let mut subject = Subject::default();
    if let Some(id) = e["cid"].as_str() {
        subject = subject_of(call, id);
    }
    let outcome = if reset {
        CallOutcome::ClientReset
    } else {
        CallOutcome::Status
    };
    CallEnd {
        code: (!reset).then(|| e["code"].as_u64().unwrap_or(0) as u32),
        message: e["message"].as_str().unwrap_or("").into(),
        subject,
        ..CallEnd::new(key(e), outcome)
    }
}

fn subject_of(call: Option<&Value>, id: &str) -> Subject {
    let mut s = call.map(subject).unwrap_or_default();
    s.container_id = id.into();
    s
}

/// The layers have the form of a session; `st` and `up` are seconds of the story.
fn pull(v: &Value) -> PullSeen {
    let mut v = v.clone();
    for layer in v["layers"].as_array_mut().into_iter().flatten() {
        for time in ["st", "up"] {
            if let Some(s) = layer[time].as_f64() {
                layer[time] = json!(at(s).0);
            }
        }
    }
    form(&v)
}

fn exit(e: &Value, t: Nanos) -> Inventory {
    Inventory {
        key: CallKey {
            conn: 1,
            stream: 9001,
        },
        complete: false,
        sandboxes: false,
        items: vec![InventoryItem {
            subject: Subject {
                container_id: e["id"].as_str().unwrap_or("").into(),
                ..subject(e)
            },
            state: RuntimeState::Exited,
            created: t,
            started: Nanos(0),
            finished: t,
            exit_code: e["code"].as_i64().map(|c| c as i32),
            reason: e["reason"].as_str().unwrap_or("Error").into(),
            ips: Vec::new(),
        }],
    }
}
