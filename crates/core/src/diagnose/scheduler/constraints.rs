//! A pod's inter-pod affinity and topology spread constraints, in words.

use crate::diagnose::text::list;
use crate::selection::LabelSelector;
use kflow_model::{
    Text,
    node::NodeSeen,
    pod::{PodSeen, PodSpec},
};
use serde_json::Value;

/// What a pod requires of a node's labels and name (k8s.io/component-helpers/scheduling/corev1/nodeaffinity,
/// `RequiredNodeAffinity`).
#[derive(Debug)]
pub struct Required<'p> {
    selector: &'p [(Text, Text)],
    terms: Vec<Term>,
}

/// A term of a pod's node affinity.
#[derive(Debug)]
struct Term {
    labels: LabelSelector,
    fields: LabelSelector,
}

impl Term {
    fn of(term: &Value) -> Self {
        Self {
            labels: LabelSelector::of_expressions(term.get("matchExpressions")),
            fields: LabelSelector::of_expressions(term.get("matchFields")),
        }
    }
    /// True when the term selects the node. An empty one selects none (`isEmptyNodeSelectorTerm`).
    fn selects(&self, node: &NodeSeen) -> bool {
        let name = || [("metadata.name".into(), node.name.clone())];
        let is_empty = self.labels.is_empty() && self.fields.is_empty();
        !is_empty
            && self.labels.fits(&node.labels)
            && (self.fields.is_empty() || self.fields.fits(&name()))
    }
}

impl<'p> Required<'p> {
    pub fn of(spec: &'p PodSpec) -> Self {
        Self {
            selector: &spec.node_selector,
            terms: node_terms(spec).iter().map(Term::of).collect(),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.selector.is_empty() && self.terms.is_empty()
    }
    pub fn fits(&self, node: &NodeSeen) -> bool {
        self.selector.iter().all(|pair| node.labels.contains(pair))
            && (self.terms.is_empty() || self.terms.iter().any(|t| t.selects(node)))
    }
}

/// The pods that a pod has to run beside, by the terms of its affinity.
#[derive(Debug)]
pub struct Beside<'p> {
    namespace: &'p Text,
    terms: Vec<BesideTerm>,
}

#[derive(Debug)]
struct BesideTerm {
    /// The namespaces that the term names; none for the pod's own.
    namespaces: Vec<String>,
    /// The term selects namespaces by their labels, which is taken to select all.
    by_label: bool,
    pods: LabelSelector,
}

impl BesideTerm {
    /// Reads a term; `None` for one without a selector, which selects no pod.
    fn of(term: &Value) -> Option<Self> {
        let set = |key| term.get(key).filter(|s| !s.is_null());
        let names = term.get("namespaces").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            pods: LabelSelector::of_json(set("labelSelector")?),
            namespaces: names.map(str::to_owned).collect(),
            by_label: set("namespaceSelector").is_some(),
        })
    }
}

impl<'p> Beside<'p> {
    pub fn of(pod: &'p PodSeen) -> Self {
        const TERMS: &str = "/podAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let affinity: Value = serde_json::from_str(&pod.spec.affinity).unwrap_or_default();
        let terms = affinity.pointer(TERMS).and_then(Value::as_array);
        Self {
            namespace: &pod.namespace,
            terms: terms
                .into_iter()
                .flatten()
                .filter_map(BesideTerm::of)
                .collect(),
        }
    }
    /// True when `other` is such a pod by one of the terms.
    pub fn is(&self, other: &PodSeen) -> bool {
        let of_namespace = |t: &BesideTerm| {
            let named = t.namespaces.iter().any(|n| other.namespace == n.as_str());
            let own = t.namespaces.is_empty() && other.namespace == *self.namespace;
            t.by_label || named || own
        };
        let mut terms = self.terms.iter();
        terms.any(|t| of_namespace(t) && t.pods.fits(&other.labels))
    }
}

/// Returns the pod's affinity or anti-affinity to other pods: `it must run beside pods with app=cache (same
/// kubernetes.io/hostname)`.
pub fn neighbours(spec: &PodSpec, anti: bool) -> Option<String> {
    let affinity: Value = serde_json::from_str(&spec.affinity).ok()?;
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
            let key = t.get("topologyKey").and_then(Value::as_str);
            format!("pods with {pods} (same {})", key.unwrap_or("node"))
        })
        .collect();
    (!all.is_empty()).then(|| format!("it {verb} {}", list(&all)))
}

/// Returns the terms of the pod's required node affinity; a node that meets one of them will do.
pub(super) fn node_terms(spec: &PodSpec) -> Vec<Value> {
    const TERMS: &str =
        "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    if spec.affinity.is_empty() {
        return Vec::new();
    }
    let mut affinity: Value = serde_json::from_str(&spec.affinity).unwrap_or_default();
    let terms = affinity.pointer_mut(TERMS).map(Value::take);
    match terms {
        Some(Value::Array(terms)) => terms,
        _ => Vec::new(),
    }
}

/// Returns the one node that the pod asks for by name in its affinity. The DaemonSet controller writes that into each
/// term (`pkg/controller/daemon/util/daemonset_util.go`, `ReplaceDaemonSetPodNodeNameNodeAffinity`).
pub fn only_node(spec: &PodSpec) -> Option<Text> {
    let name = |term: &Value| {
        let fields = term.get("matchFields")?.as_array()?;
        let is_name = |f: &&Value| {
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
    let all: Value = serde_json::from_str(&spec.topology_spread).unwrap_or_default();
    let hard =
        |c: &&Value| c.get("whenUnsatisfiable").and_then(Value::as_str) != Some("ScheduleAnyway");
    let key = |c: &Value| Some(Text::from(c.get("topologyKey")?.as_str()?));
    all.as_array()
        .into_iter()
        .flatten()
        .filter(hard)
        .filter_map(key)
        .collect()
}

/// A label selector in words: `app=cache, tier in (a, b)`.
fn selector(s: Option<&Value>) -> String {
    let Some(s) = s else {
        return "any labels".to_owned();
    };
    let mut out: Vec<String> = Vec::new();
    for (k, v) in s
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        out.push(format!("{k}={}", v.as_str().unwrap_or("")));
    }
    for e in s
        .get("matchExpressions")
        .and_then(Value::as_array)
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
pub(super) fn requirement(e: &Value) -> (Text, String) {
    let text = |k: &str| e.get(k).and_then(Value::as_str).unwrap_or("");
    let values: Vec<&str> = e
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
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
