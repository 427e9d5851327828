//! A pod's inter-pod affinity and topology spread constraints, in words.

use crate::diagnose::text::list;
use kflow_model::{Text, pod::PodSpec};

/// Returns the pod's affinity or anti-affinity to other pods: `it must run beside pods with app=cache (same
/// kubernetes.io/hostname)`.
pub fn neighbours(spec: &PodSpec, anti: bool) -> Option<String> {
    let affinity: serde_json::Value = serde_json::from_str(&spec.affinity).ok()?;
    let (kind, verb) = if anti {
        ("podAntiAffinity", "must not run beside")
    } else {
        ("podAffinity", "must run beside")
    };
    let terms = affinity
        .get(kind)?
        .get("requiredDuringSchedulingIgnoredDuringExecution")?
        .as_array()?;
    let all: Vec<String> = terms
        .iter()
        .map(|t| {
            let pods = selector(t.get("labelSelector"));
            let key = t.get("topologyKey").and_then(serde_json::Value::as_str);
            format!("pods with {pods} (same {})", key.unwrap_or("node"))
        })
        .collect();
    (!all.is_empty()).then(|| format!("it {verb} {}", list(&all)))
}

/// Returns the terms of the pod's required node affinity; a node that meets one of them will do.
pub(super) fn node_terms(spec: &PodSpec) -> Vec<serde_json::Value> {
    const TERMS: &str =
        "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let mut affinity: serde_json::Value = serde_json::from_str(&spec.affinity).unwrap_or_default();
    let terms = affinity.pointer_mut(TERMS).map(serde_json::Value::take);
    match terms {
        Some(serde_json::Value::Array(terms)) => terms,
        _ => Vec::new(),
    }
}

/// Returns the one node that the pod asks for by name in its affinity. The DaemonSet controller writes that into each
/// term (`pkg/controller/daemon/util/daemonset_util.go`, `ReplaceDaemonSetPodNodeNameNodeAffinity`).
pub fn only_node(spec: &PodSpec) -> Option<Text> {
    let name = |term: &serde_json::Value| {
        let fields = term.get("matchFields")?.as_array()?;
        let is_name = |f: &&serde_json::Value| {
            let has = |key: &str, value: &str| f.get(key).is_some_and(|v| v == value);
            has("key", "metadata.name") && has("operator", "In")
        };
        match fields
            .iter()
            .find(is_name)?
            .get("values")?
            .as_array()?
            .as_slice()
        {
            [one] => Some(Text::from(one.as_str()?)),
            _ => None,
        }
    };
    let mut names = node_terms(spec)
        .iter()
        .map(name)
        .collect::<Option<Vec<_>>>()?;
    names.dedup();
    names.pop().filter(|_| names.is_empty())
}

/// Returns the topology keys that a pod has to be spread over: `topology.kubernetes.io/zone`.
pub fn spread_over(spec: &PodSpec) -> Vec<Text> {
    let all: serde_json::Value = serde_json::from_str(&spec.topology_spread).unwrap_or_default();
    let hard = |c: &&serde_json::Value| {
        c.get("whenUnsatisfiable")
            .and_then(serde_json::Value::as_str)
            != Some("ScheduleAnyway")
    };
    let key = |c: &serde_json::Value| Some(Text::from(c.get("topologyKey")?.as_str()?));
    all.as_array()
        .into_iter()
        .flatten()
        .filter(hard)
        .filter_map(key)
        .collect()
}

/// A label selector in words: `app=cache, tier in (a, b)`.
fn selector(s: Option<&serde_json::Value>) -> String {
    let Some(s) = s else {
        return "any labels".to_owned();
    };
    let mut out: Vec<String> = Vec::new();
    for (k, v) in s
        .get("matchLabels")
        .and_then(serde_json::Value::as_object)
        .into_iter()
        .flatten()
    {
        out.push(format!("{k}={}", v.as_str().unwrap_or("")));
    }
    for e in s
        .get("matchExpressions")
        .and_then(serde_json::Value::as_array)
        .into_iter()
        .flatten()
    {
        out.push(requirement(e).1);
    }
    if out.is_empty() {
        "any labels".to_owned()
    } else {
        out.join(", ")
    }
}

/// One requirement of a selector: its key, and the whole requirement in words.
pub(super) fn requirement(e: &serde_json::Value) -> (Text, String) {
    let text = |k: &str| e.get(k).and_then(serde_json::Value::as_str).unwrap_or("");
    let values: Vec<&str> = e
        .get("values")
        .and_then(serde_json::Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_str)
        .collect();
    let key = text("key");
    (
        key.into(),
        constraint_in_words(key, text("operator"), &values),
    )
}

/// A requirement of a selector in words.
pub fn constraint_in_words(key: &str, operator: &str, values: &[&str]) -> String {
    match (operator, values) {
        ("In", [one]) => format!("{key}={one}"),
        ("In", many) => format!("{key} in ({})", many.join(", ")),
        ("NotIn", many) => format!("{key} not in ({})", many.join(", ")),
        ("Exists", _) => key.to_owned(),
        ("DoesNotExist", _) => format!("no {key}"),
        (op, many) => format!("{key} {op} {}", many.join(", ")),
    }
}
