//! The scheduler's message on a pod that it cannot place, clause by clause, and what the nodes show about each clause.
//!
//! `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. preemption: 0/3 nodes are
//! available: …` (Kubernetes 1.36 `pkg/scheduler/framework/types.go`, `FitError.Error`).

mod constraints;
mod devices;

pub use constraints::{Beside, Required, constraint_in_words, neighbours, only_node, spread_over};
use constraints::{node_terms, requirement};

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::quantity::Quantity;
use super::signal::scheduler;
use super::text::list;
use crate::correlate::World;
use kflow_model::scope::Scope;
use kflow_model::{
    Nanos, Text,
    node::NodeSeen,
    pod::{ContainerSpec, PodSeen, PodSpec, Toleration},
};

/// One reason, and the number of nodes that it holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause<'a> {
    /// Number of nodes; 0 when the scheduler gives none.
    pub nodes: u32,
    pub text: &'a str,
}

/// The parts of the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence<'a> {
    /// Number of nodes that the scheduler looked at.
    pub total: Option<u32>,
    /// The reasons why no node fits, in the scheduler's order.
    pub clauses: Vec<Clause<'a>>,
    /// The reasons why preemption would not help.
    pub preemption: Vec<Clause<'a>>,
}

impl Sentence<'_> {
    /// Returns the number of nodes for which a reason is given.
    pub fn counted(&self) -> u32 {
        let counts = self.clauses.iter().map(|c| c.nodes);
        counts.fold(0, u32::saturating_add)
    }
    /// Returns how many of the nodes a number is, in words (`2 of the 5 nodes`), unless it is all of them or none.
    pub fn share(&self, nodes: u32) -> Option<String> {
        let total = self.total.filter(|t| (1..*t).contains(&nodes))?;
        Some(format!("{nodes} of the {total} nodes"))
    }
}

/// Parses a message. A message of another form becomes one clause.
pub fn parse(message: &str) -> Sentence<'_> {
    let words = scheduler();
    let cut = |text| {
        let mut verbs = words.available.iter();
        verbs.find_map(|verb| str::split_once(text, verb.as_str()))
    };
    let Some((head, body)) = cut(message) else {
        return Sentence {
            clauses: clauses(message),
            ..Sentence::default()
        };
    };
    let total = head.rsplit('/').next().and_then(|n| n.trim().parse().ok());
    let (filter, preemption) = body
        .split_once(words.preemption.as_str())
        .unwrap_or((body, ""));
    let preemption = cut(preemption).map_or(preemption, |(_, b)| b);
    Sentence {
        total,
        clauses: clauses(filter),
        preemption: clauses(preemption),
    }
}

/// Splits at `, ` and `. ` outside of braces and quotes.
fn clauses(s: &str) -> Vec<Clause<'_>> {
    let mut out = Vec::new();
    let (mut depth, mut quoted, mut start) = (0_i32, false, 0);
    let bytes = s.as_bytes();
    let mut add = |from: usize, to: usize| {
        let text = s
            .get(from..to)
            .unwrap_or_default()
            .trim_matches([' ', ',', '.']);
        if text.is_empty() || text == scheduler().nothing {
            return;
        }
        let (nodes, text) = match text.split_once(' ') {
            Some((n, rest)) => n.parse().map_or((0, text), |n| (n, rest)),
            None => (0, text),
        };
        // Before 1.9 the number stood behind the reason.
        let counted = || {
            let (reason, n) = text.strip_suffix(')')?.rsplit_once(" (")?;
            Some((n.parse().ok()?, reason))
        };
        let (nodes, text) = counted().filter(|_| nodes == 0).unwrap_or((nodes, text));
        let text = scheduler().in_words(text).unwrap_or(text);
        out.push(Clause { nodes, text });
    };
    for (i, b) in bytes.iter().enumerate() {
        match b {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => quoted = !quoted,
            b',' | b'.'
                if depth <= 0
                    && !quoted
                    && bytes.get(i + 1).is_none_or(|n| *n == b' ')
                    && !is_continued(s.get(i + 1..).unwrap_or_default()) =>
            {
                add(start, i);
                start = i + 1;
            }
            _ => {}
        }
    }
    add(start, s.len());
    out
}

/// True for the rest of a reason with a comma in it, and not the begin of another reason.
fn is_continued(rest: &str) -> bool {
    let rest = rest.trim_start();
    let mut all = scheduler().continued.iter();
    all.any(|words| rest.starts_with(words.as_str()))
}

fn of(list: &[(Text, Text)], resource: &str) -> Quantity {
    list.iter()
        .find(|(k, _)| k == resource)
        .and_then(|(_, v)| Quantity::parse(v))
        .unwrap_or_default()
}

/// Returns how much of a resource a pod requests (k8s.io/component-helpers/resource, `PodRequests`): its pod-level
/// request, where it has one; else the larger of the sum of its containers and sidecars, and its largest init
/// container with the sidecars before it.
pub fn requested(spec: &PodSpec, resource: &str) -> Quantity {
    if resource == "pods" {
        return Quantity(1000);
    }
    if spec.requests.iter().any(|(k, _)| k == resource) {
        return of(&spec.requests, resource);
    }
    let ask = |c: &ContainerSpec| of(&c.requests, resource);
    let main = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().filter(|c| c.sidecar))
        .fold(Quantity::default(), |sum, c| sum + ask(c));
    let (mut sidecars, mut init) = (Quantity::default(), Quantity::default());
    for c in &spec.init_containers {
        if c.sidecar {
            sidecars = sidecars + ask(c);
        } else {
            init = init.max(sidecars + ask(c));
        }
    }
    main.max(init)
}

/// The requests of all pods of a node, summed by node and resource. Computed once, because it is needed often.
#[derive(Clone, Debug, Default)]
pub struct Usage(FxHashMap<Text, FxHashMap<Text, Quantity>>);

impl Usage {
    /// Sums the requests of all pods that are bound to a node and have not ended.
    pub fn of(world: &World) -> Self {
        let mut all = Self::default();
        for p in world.every_pod() {
            let Some(api) = p.api.as_deref() else {
                continue;
            };
            if p.gone.is_some() || p.node.is_empty() || api.status.phase.is_over() {
                continue;
            }
            let node = all.0.entry(p.node.clone()).or_default();
            let mut names: Vec<&str> = vec!["pods"];
            let spec = &api.spec;
            let containers = spec.containers.iter().chain(&spec.init_containers);
            for (r, _) in containers.flat_map(|c| &c.requests).chain(&spec.requests) {
                if !names.contains(&r.as_str()) {
                    names.push(r);
                }
            }
            for r in names {
                let used = node.entry(r.into()).or_default();
                *used = *used + requested(&api.spec, r);
            }
        }
        all
    }
    fn used(&self, node: &str, resource: &str) -> Quantity {
        self.0
            .get(node)
            .and_then(|n| n.get(resource))
            .copied()
            .unwrap_or_default()
    }
}

/// Returns the node that has most of a resource left, among those that the pod may run on and whose amounts are known: its
/// name, the rest, and the allocatable amount.
fn most_left(
    world: &World,
    usage: &Usage,
    pod: &PodSeen,
    resource: &str,
) -> Option<(Text, Quantity, Quantity)> {
    let only = only_node(&pod.spec);
    world
        .nodes()
        .iter()
        .filter(|n| only.as_ref().is_none_or(|only| n.name == *only))
        .filter_map(|n| {
            let node = n.api.as_deref().filter(|n| n.has_allocatable())?;
            let all = of(&node.allocatable, resource);
            Some((
                node.name.clone(),
                all - usage.used(&node.name, resource),
                all,
            ))
        })
        .max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)))
}

/// Returns how much of a resource the best node lacks: `node1 has 1900m of 2 left, 62100m too little`. Where not all pods
/// of the node are known at `now`, as in lists that kubectl wrote, less may be left.
pub fn shortfall(
    world: &World,
    now: Nanos,
    usage: &Usage,
    pod: &PodSeen,
    resource: &str,
) -> Option<String> {
    let want = requested(&pod.spec, resource);
    if want == Quantity::default() {
        return None;
    }
    let (node, left, all) = most_left(world, usage, pod, resource)?;
    let show = |q: Quantity| q.show(resource);
    if all == Quantity::default() {
        let lacks = |n: &NodeSeen| !n.has_allocatable();
        let unknown = (world.nodes().iter()).any(|n| n.api.as_deref().is_none_or(lacks));
        if unknown && only_node(&pod.spec).is_none() {
            return None;
        }
        let none = if world.nodes().len() == 1 || only_node(&pod.spec).is_some() {
            format!("{node} offers none")
        } else {
            "no node offers any".to_owned()
        };
        return Some(none + &devices::unoffered(world, resource).unwrap_or_default());
    }
    // Pods that were bound without the scheduler may request more than is allocatable.
    let left = left.max(Quantity::default());
    let of_node = Scope {
        node: Some(node.to_string()),
        ..Scope::default()
    };
    let known = world.coverage().incomplete("pods", Some(&of_node), now);
    let (most, least) = match known {
        None => ("", ""),
        Some(_) if left < want => ("at most ", "at least "),
        Some(_) => return None,
    };
    let left_of = format!("{node} has {most}{} of {} left", show(left), show(all));
    Some(if left < want {
        format!("{left_of}, {least}{} too little", show(want - left))
    } else {
        left_of
    })
}

/// Returns what the pod requires of a node's labels and name, in words: `disk=ssd and zone in (a, b)`. The terms of an affinity are
/// alternatives. `None` when it requires nothing.
pub fn wanted(spec: &PodSpec) -> Option<String> {
    let selector = spec.node_selector.iter();
    let mut all: Vec<String> = selector.map(|(k, v)| format!("{k}={v}")).collect();
    let words = |term: &Value| {
        let fields = ["matchExpressions", "matchFields"].into_iter();
        let fields = fields.filter_map(|field| term.get(field)?.as_array());
        let words: Vec<String> = fields.flatten().map(|e| requirement(e).1).collect();
        words
    };
    let mut terms: Vec<Vec<String>> = node_terms(spec).iter().map(words).collect();
    terms.retain(|words| !words.is_empty());
    match terms.as_slice() {
        [one] => all.extend_from_slice(one),
        [] => {}
        many => {
            let many: Vec<String> = many.iter().map(|words| list(words)).collect();
            all.push(many.join(" or "));
        }
    }
    (!all.is_empty()).then(|| list(&all))
}

/// Returns the keys of the labels that a node has to have.
fn keys_wanted(spec: &PodSpec) -> Vec<Text> {
    let mut keys: Vec<Text> = spec.node_selector.iter().map(|(k, _)| k.clone()).collect();
    for term in node_terms(spec) {
        let expressions = term.get("matchExpressions").and_then(Value::as_array);
        for e in expressions.into_iter().flatten() {
            // A node without the label satisfies these.
            let operator = e.get("operator").and_then(Value::as_str);
            if !matches!(operator, Some("NotIn" | "DoesNotExist")) {
                keys.push(requirement(e).0);
            }
        }
    }
    keys
}

/// Returns the labels that the pod requires, and what the nodes have instead: `it wants disk=ssd; node1
/// has no label disk`. `all`: there are no other nodes.
pub fn labels(pod: &PodSeen, nodes: &[&NodeSeen], all: bool) -> Option<String> {
    let wanted = wanted(&pod.spec)?;
    let mut missing = Vec::new();
    let required = Required::of(&pod.spec);
    let fit = nodes.iter().filter(|n| required.fits(n));
    let fit: Vec<&Text> = fit.map(|n| &n.name).collect();
    if !fit.is_empty() {
        missing.push(match fit.as_slice() {
            [one] => format!("{one} has that"),
            many => format!("{} have that", list(many)),
        });
    }
    let keys = keys_wanted(&pod.spec);
    for key in keys.iter().filter(|_| fit.is_empty()) {
        let have: Vec<String> = nodes
            .iter()
            .filter_map(|n| {
                let (_, v) = n.labels.iter().find(|(k, _)| k == key)?;
                Some(format!("{} has {key}={v}", n.name))
            })
            .collect();
        match (have.is_empty(), nodes) {
            (true, []) => {}
            (true, [one]) => missing.push(format!("{} has no label {key}", one.name)),
            (true, _) if all => missing.push(format!("no node has a label {key}")),
            (true, some) => {
                let names: Vec<&Text> = some.iter().map(|n| &n.name).collect();
                missing.push(format!("{} have no label {key}", list(&names)));
            }
            (false, _) => {
                let all = pod
                    .spec
                    .node_selector
                    .iter()
                    .find(|(k, _)| k == key)
                    .is_some_and(|(_, v)| have.iter().any(|h| h.ends_with(&format!("={v}"))));
                if !all {
                    missing.push(list(&have));
                }
            }
        }
    }
    let mut s = format!("it wants {wanted}");
    if !missing.is_empty() {
        s.push_str("; ");
        s.push_str(&list(&missing));
    }
    Some(s)
}

/// Key, value and effect of a taint.
pub type Taint = (Text, Text, Text);

fn tolerates(tolerations: &[Toleration], (key, value, effect): &Taint) -> bool {
    tolerations.iter().any(|t| {
        (t.effect.is_empty() || t.effect == *effect)
            && (t.key.is_empty() || t.key == *key)
            && (t.operator == "Exists" || t.value == *value)
    })
}

/// Returns the taints of a node that keep the pod away.
pub fn untolerated<'n>(pod: &PodSeen, node: &'n NodeSeen) -> Vec<&'n Taint> {
    node.taints
        .iter()
        .filter(|t| t.2 != "PreferNoSchedule" && !tolerates(&pod.spec.tolerations, t))
        .collect()
}

/// Returns the effect that the pod tolerates of a taint, where that is not the taint's own, in words: `NoSchedule`.
pub fn other_effect(pod: &PodSeen, (key, value, effect): &Taint) -> Option<Text> {
    let same = |t: &&Toleration| {
        t.key == *key
            && (t.operator == "Exists" || t.value == *value)
            && !t.effect.is_empty()
            && t.effect != *effect
    };
    let found = pod.spec.tolerations.iter().find(same)?;
    Some(found.effect.clone())
}

/// Returns the key of a taint as the scheduler writes it: `{key: value}`, without its braces.
pub fn key_of(taint: &str) -> Option<&str> {
    let (key, _) = taint.split_once(':')?;
    Some(key.trim())
}

/// Returns the taints that the pod does not tolerate, in words (`lab=yes:NoSchedule on node1`): those with a key that is
/// asked for, and the others.
pub fn taints(
    pod: &PodSeen,
    nodes: &[&NodeSeen],
    its: impl Fn(&str) -> bool,
) -> (Vec<String>, Vec<String>) {
    let mut found: Vec<(&Taint, Vec<&Text>)> = Vec::new();
    let all = nodes
        .iter()
        .flat_map(|n| untolerated(pod, n).into_iter().map(move |t| (n, t)));
    for (n, taint) in all {
        match found.iter_mut().find(|(t, _)| *t == taint) {
            Some((_, nodes)) => nodes.push(&n.name),
            None => found.push((taint, vec![&n.name])),
        }
    }
    let words = |((k, v, e), nodes): &(&Taint, Vec<&Text>)| {
        let value = if v.is_empty() {
            String::new()
        } else {
            format!("={v}")
        };
        format!("{k}{value}:{e} on {}", list(nodes))
    };
    let (named, others): (Vec<_>, Vec<_>) = found.iter().partition(|((k, ..), _)| its(k));
    (
        named.into_iter().map(words).collect(),
        others.into_iter().map(words).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(c: &[Clause<'a>]) -> Vec<(u32, &'a str)> {
        c.iter().map(|c| (c.nodes, c.text)).collect()
    }

    #[test]
    fn the_sentence_is_split_at_its_clauses_and_nowhere_else() {
        let s = parse(
            "0/6 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: , x}, 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/6 nodes are available: 1 No preemption victims found for incoming pod, 5 Preemption is not helpful for scheduling.",
        );
        assert_eq!(s.total, Some(6));
        assert_eq!(
            texts(&s.clauses),
            [
                (1, "Insufficient nvidia.com/gpu"),
                (
                    2,
                    "node(s) had untolerated taint {node.kubernetes.io/disk-pressure: , x}"
                ),
                (3, "node(s) didn't match Pod's node affinity/selector"),
            ]
        );
        assert_eq!(
            texts(&s.preemption),
            [
                (1, "No preemption victims found for incoming pod"),
                (5, "Preemption is not helpful for scheduling"),
            ]
        );
    }

    #[test]
    fn counts_that_no_cluster_has_are_summed_too() {
        let s = parse("0/2 nodes are available: 4294967295 node(s) are a, 1 node(s) are b.");
        assert_eq!(s.counted(), u32::MAX);
    }

    #[test]
    fn an_empty_term_of_a_node_affinity_selects_no_node() {
        let node = NodeSeen {
            name: "n".into(),
            labels: vec![("disk".into(), "ssd".into())],
            ..NodeSeen::default()
        };
        let fits = |terms: &str| {
            let affinity = format!(
                r#"{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":{terms}}}}}}}"#
            );
            let spec = PodSpec {
                affinity: affinity.as_str().into(),
                ..PodSpec::default()
            };
            Required::of(&spec).fits(&node)
        };
        let ssd = r#"{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}"#;
        let other = r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["m"]}]}"#;
        let own = other.replace("\"m\"", "\"n\"");
        assert!(!fits("[{}]") && !fits(&format!("[{{}},{other}]")));
        assert!(fits(&format!("[{{}},{ssd}]")) && fits(&format!("[{own}]")));
        assert!(Required::of(&PodSpec::default()).fits(&node));
    }

    #[test]
    fn a_reason_that_holds_before_any_node_has_no_count() {
        let s = parse(
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        );
        assert_eq!(
            texts(&s.clauses),
            [
                (0, "pod has unbound immediate PersistentVolumeClaims"),
                (0, "not found")
            ]
        );
        let s = parse("persistentvolumeclaim \"a, b. c\" not found");
        assert_eq!(
            texts(&s.clauses),
            [(0, "persistentvolumeclaim \"a, b. c\" not found")]
        );
    }

    #[test]
    fn a_pod_asks_for_the_larger_of_its_containers_and_its_init_containers() {
        let c = |n: &str, cpu: &str, sidecar| ContainerSpec {
            name: n.into(),
            sidecar,
            requests: vec![("cpu".into(), cpu.into())],
            ..ContainerSpec::default()
        };
        let spec = PodSpec {
            init_containers: vec![c("s", "100m", true), c("i", "1", false)],
            containers: vec![c("a", "300m", false), c("b", "200m", false)],
            ..PodSpec::default()
        };
        assert_eq!(requested(&spec, "cpu"), Quantity(1100));
        assert_eq!(requested(&spec, "pods"), Quantity(1000));
        let whole = PodSpec {
            requests: vec![("cpu".into(), "2".into())],
            ..spec
        };
        assert_eq!(requested(&whole, "cpu"), Quantity(2000));
        assert_eq!(requested(&whole, "memory"), Quantity(0));
    }

    #[test]
    fn what_the_pod_wants_is_named_with_what_the_node_has() {
        let pod = PodSeen {
            spec: PodSpec {
                node_selector: vec![("disk".into(), "ssd".into())],
                ..PodSpec::default()
            },
            ..PodSeen::default()
        };
        let mut node = NodeSeen {
            name: "node1".into(),
            ..NodeSeen::default()
        };
        assert_eq!(
            labels(&pod, &[&node], true).as_deref(),
            Some("it wants disk=ssd; node1 has no label disk")
        );
        node.labels = vec![("disk".into(), "hdd".into())];
        assert_eq!(
            labels(&pod, &[&node], true).as_deref(),
            Some("it wants disk=ssd; node1 has disk=hdd")
        );
        assert_eq!(
            labels(&pod, &[], true).as_deref(),
            Some("it wants disk=ssd")
        );
    }

    #[test]
    fn a_taint_is_named_unless_it_is_tolerated() {
        let node = NodeSeen {
            name: "n".into(),
            taints: vec![("lab".into(), "yes".into(), "NoSchedule".into())],
            ..NodeSeen::default()
        };
        let mut pod = PodSeen::default();
        let all = |pod: &PodSeen| taints(pod, &[&node], |_| true);
        assert_eq!(all(&pod).0, ["lab=yes:NoSchedule on n"]);
        let (named, others) = taints(&pod, &[&node], |key| key == "other");
        assert_eq!(
            (named.len(), others),
            (0, vec!["lab=yes:NoSchedule on n".to_owned()])
        );
        pod.spec.tolerations = vec![Toleration {
            key: "lab".into(),
            operator: "Exists".into(),
            ..Toleration::default()
        }];
        assert!(all(&pod).0.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_sentence_makes_it_panic(s in "[0-9/ a-z.,{}\\[\\]\":]{0,80}") {
            let p = parse(&s);
            proptest::prop_assert!(p.clauses.len() <= s.len());
            proptest::prop_assert!(p.clauses.iter().all(|c| c.nodes <= p.counted()));
        }
    }
}
