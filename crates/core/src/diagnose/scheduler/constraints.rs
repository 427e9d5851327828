//! A pod's inter-pod affinity and topology spread constraints, in words.

use crate::diagnose::text::list;
use kflow_model::{
    Text,
    node::NodeSeen,
    pod::{PodSeen, PodSpec},
};
use serde_json::Value;

/// True when a node has the labels that the pod requires (k8s.io/component-helpers/scheduling/corev1/nodeaffinity,
/// `RequiredNodeAffinity.Match`).
pub fn selects(spec: &PodSpec, node: &NodeSeen) -> bool {
    let has = |pair: &(Text, Text)| node.labels.contains(pair);
    let all = |e: &Value, key: &str, of: &[(Text, Text)]| {
        let all = e.get(key).and_then(Value::as_array);
        all.into_iter().flatten().all(|e| meets(e, of))
    };
    let name = [("metadata.name".into(), node.name.clone())];
    let terms = node_terms(spec);
    let term = |t: &Value| all(t, "matchExpressions", &node.labels) && all(t, "matchFields", &name);
    spec.node_selector.iter().all(has) && (terms.is_empty() || terms.iter().any(term))
}

/// True when `other` is a pod that `pod` has to run beside by one of its terms. A term that selects namespaces by their
/// labels is taken to select all.
pub fn is_beside(pod: &PodSeen, other: &PodSeen) -> bool {
    const TERMS: &str = "/podAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let affinity: Value = serde_json::from_str(&pod.spec.affinity).unwrap_or_default();
    let term = |t: &Value| {
        let named = t.get("namespaces").and_then(Value::as_array);
        let by_label = t.get("namespaceSelector").is_some_and(|s| !s.is_null());
        let of_namespace = match named {
            Some(names) if !names.is_empty() => {
                let is = |n: &Value| n.as_str() == Some(other.namespace.as_str());
                by_label || names.iter().any(is)
            }
            _ => by_label || other.namespace == pod.namespace,
        };
        let selector = t.get("labelSelector").filter(|s| !s.is_null());
        of_namespace && selector.is_some_and(|s| is_selected(s, &other.labels))
    };
    let terms = affinity.pointer(TERMS).and_then(Value::as_array);
    terms.into_iter().flatten().any(term)
}

/// True when a label selector selects an object with these labels.
fn is_selected(selector: &Value, labels: &[(Text, Text)]) -> bool {
    let pairs = selector.get("matchLabels").and_then(Value::as_object);
    let has = |(k, v): (&String, &Value)| {
        let of_key = labels.iter().find(|(key, _)| key == k.as_str());
        of_key.is_some_and(|(_, value)| v.as_str() == Some(value.as_str()))
    };
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    pairs.into_iter().flatten().all(has)
        && expressions.into_iter().flatten().all(|e| meets(e, labels))
}

/// True when labels meet a requirement of a selector (k8s.io/apimachinery `pkg/labels/selector.go`, `Requirement.Matches`).
fn meets(e: &Value, labels: &[(Text, Text)]) -> bool {
    let key = e.get("key").and_then(Value::as_str).unwrap_or_default();
    let value = labels.iter().find(|(k, _)| k == key);
    let value = value.map(|(_, v)| v.as_str());
    let values = e.get("values").and_then(Value::as_array);
    let values = || values.into_iter().flatten().filter_map(Value::as_str);
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
    let compared = || Some((number(value)?, number(values().next())?));
    match e.get("operator").and_then(Value::as_str) {
        Some("In") => value.is_some_and(|v| values().any(|w| w == v)),
        Some("NotIn") => value.is_none_or(|v| values().all(|w| w != v)),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => compared().is_some_and(|(have, want)| have > want),
        Some("Lt") => compared().is_some_and(|(have, want)| have < want),
        _ => false,
    }
}

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
