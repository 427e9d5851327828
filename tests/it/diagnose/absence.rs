//! Sentences that claim an absence, such as "is not running": evidence of the contrary removes them.

use super::scenario::Scenario;
use super::{Sources, causes};
use kflow_core::diagnose::Verdict;
use serde_json::{Value, json};

/// What contradicts a sentence, as a step of a story one second before its end.
type Against = fn(&Story<'_>) -> Value;

/// A scenario and the verdict that it leads to.
struct Story<'a> {
    scenario: &'a Scenario,
    /// The sentence that says that something is absent.
    sentence: &'a str,
}

impl Story<'_> {
    /// The word behind these words in the sentence.
    fn after(&self, words: &str) -> &str {
        let rest = self.sentence.split_once(words).map_or("", |(_, rest)| rest);
        let word = rest.split_whitespace().next().unwrap_or_default();
        let word = word.trim_end_matches([',', '.', ';', ':']);
        assert!(!word.is_empty(), "{words}: {}", self.sentence);
        word
    }
    /// The newest value of a field of the pod.
    fn pod(&self, pointer: &str) -> Value {
        let steps = self.scenario.see.iter().rev();
        let mut found = steps.filter_map(|s| s.get("pod")?.pointer(pointer));
        found.next().cloned().unwrap_or_default()
    }
}

fn event(reason: &str, by: &str) -> Value {
    json!({"event": {"reason": reason, "message": "it goes on", "by": by}})
}

fn node(name: &str, more: &Value) -> Value {
    let mut node = json!({"n": name, "ev": "added", "ct": 0, "lb": [["kubernetes.io/hostname", name]], "al": [["cpu", "64"]], "cond": [{"k": "Ready", "s": "True", "t": 0}]});
    for (k, v) in more.as_object().into_iter().flatten() {
        node[k] = v.clone();
    }
    json!({"node": node})
}

fn lease(namespace: &str, name: &str, scenario: &Scenario) -> Value {
    let renewed = scenario.now().plus(-1_000_000_000).to_rfc3339();
    json!({"object": {"o": {"k": "Lease", "ns": namespace, "n": name, "u": "l1"}, "ev": "modified", "ct": 0,
        "f": [["durationSeconds", "40"], ["holder", name], ["renewTime", renewed]]}})
}

fn claim(name: &str, phase: &str) -> Value {
    json!({"object": {"o": {"k": "PersistentVolumeClaim", "ns": "ns", "n": name, "u": format!("uid-PersistentVolumeClaim-{name}")}, "ev": "modified", "ct": 0, "f": [["phase", phase]]}})
}

fn workload(name: &str) -> Value {
    json!({"object": {"o": {"k": "Workload", "ns": "ns", "n": name, "u": "w1"}, "ev": "added", "ct": 0, "f": [["queue", "q"]]}})
}

/// A pod that the same scheduler bound after this one was there.
fn bound(s: &Story<'_>) -> Value {
    let end = s.scenario.now_s - 1.0;
    json!({"other": {"u": "22222222-0000-4000-8000-000000000002", "ns": "ns", "n": "other", "rv": 1, "ev": "added", "ct": end,
        "sp": {"rp": "Always", "node": "n1", "sched": s.pod("/sp/sched").as_str().unwrap_or_default(), "cs": [{"n": "c", "img": "i"}]},
        "st": {"ph": "Running", "cond": [{"k": "PodScheduled", "s": "True", "t": end}, {"k": "Ready", "s": "True", "t": end}]}}})
}

/// Sentences and quoted evidence that say that something is absent, and what contradicts each.
const ABSENCES: [(&str, &[Against]); 25] = [
    (
        "no event and no pod of it exist",
        &[
            |_| json!({"event": {"reason": "ScalingReplicaSet", "message": "m", "by": "deployment-controller", "on": "Deployment", "name": "web", "w": false}}),
        ],
    ),
    (
        "no event, no request of a controller and no pod of",
        &[
            |_| json!({"event": {"reason": "ScalingReplicaSet", "message": "m", "by": "deployment-controller", "on": "Deployment", "name": "web", "w": false}}),
        ],
    ),
    (
        "and no pod of it is left",
        &[|s| {
            json!({"other": {"u": "22222222-0000-4000-8000-000000000002", "ns": "ns", "n": "report-x2k4d", "rv": 1, "ev": "added", "ct": 1, "ow": {"k": "Job", "ns": "ns", "n": s.after("job/"), "u": "j1"},
                "sp": {"rp": "Never", "node": "n1", "cs": [{"n": "c", "img": "i"}]}, "st": {"ph": "Failed"}}})
        }],
    ),
    (
        "no sign of the kubelet since",
        &[
            |_| event("FailedMount", "kubelet"),
            |_| event("ProviderCreateFailed", "n1/pod-controller"),
        ],
    ),
    (
        "nothing was heard of it",
        &[|_| {
            let mut e = event("Pulled", "kubelet");
            e["event"]["w"] = json!(false);
            e
        }],
    ),
    (
        "so nobody confirms that the deleted pod has stopped: Ready=Unknown",
        &[|s| node(s.after("kubelet of node "), &json!({"rv": 99}))],
    ),
    (
        " is down: ",
        &[|s| {
            let node = s.after("runtime of node ");
            json!({"event": {"reason": "NodeReady", "message": format!("Node {node} status is now: NodeReady"), "by": "kubelet", "on": "Node", "name": node, "w": false}})
        }],
    ),
    ("was not seen", &[|s| node(s.after("; node "), &json!({}))]),
    (
        "is not running",
        &[
            |s| json!({"event": {"reason": "Preempted", "message": "m", "by": s.after(": scheduler "), "on": "Job", "name": "other"}}),
            bound,
            |s| match s.after(": scheduler ") {
                "default-scheduler" => lease("kube-system", "kube-scheduler", s.scenario),
                _ => bound(s),
            },
        ],
    ),
    (
        "no PodScheduled condition and no event of a scheduler",
        &[|s| {
            let scheduler = s.pod("/sp/sched");
            let scheduler = scheduler.as_str().unwrap_or("default-scheduler");
            event("FailedScheduling", scheduler)
        }],
    ),
    (
        "no lease, no request and no Event of it was seen",
        &[
            |_| event("FailedMount", "kubelet"),
            |_| event("SomethingOfTheNode", ""),
            |_| event("ProviderCreateFailed", "n1/pod-controller"),
            |s| lease("kube-node-lease", "n1", s.scenario),
        ],
    ),
    (
        "no Workload of it was heard of",
        &[|_| workload("pod-p-0a1b2")],
    ),
    (
        "no Event of the Workload was seen that says why",
        &[
            |s| json!({"event": {"reason": "Pending", "message": "it has no room", "by": "kueue-admission", "on": "Workload", "name": s.after("it is Workload ")}}),
        ],
    ),
    (
        "has not admitted the pod",
        &[|s| {
            let is_known = s.sentence.contains("it is Workload ");
            let name = is_known.then(|| s.after("it is Workload "));
            let mut w = workload(name.unwrap_or("pod-p-0a1b2"));
            w["object"]["ev"] = json!("modified");
            w["object"]["cond"] = json!([{"k": "Admitted", "s": "True", "r": "Admitted", "t": 1}]);
            w
        }],
    ),
    (
        "no node has a label",
        &[|s| {
            node(
                "n77",
                &json!({"lb": [[s.after("no node has a label "), "x"]]}),
            )
        }],
    ),
    (
        "no node offers any",
        &[|s| node("n77", &json!({"al": [[s.after(" enough "), "1"]]}))],
    ),
    (
        "no device plugin has registered it",
        &[|s| node("n1", &json!({"al": [[s.after(" enough "), "1"]], "rv": 99}))],
    ),
    (
        "which does not exist, so no kubelet acts on it",
        &[|s| node(s.after("bound to node "), &json!({}))],
    ),
    (
        "is not among the nodes that were read",
        &[|s| node(s.after("Node "), &json!({}))],
    ),
    (
        "no word of the scheduler since",
        &[|s| {
            let mut e = event("FailedScheduling", "default-scheduler");
            e["event"]["message"] = s.pod("/st/cond/0/m");
            e
        }],
    ),
    (
        "the scheduler has said nothing of the pod",
        &[|s| {
            let mut e = event("FailedScheduling", "default-scheduler");
            e["event"]["message"] = s.pod("/st/cond/0/m");
            e
        }],
    ),
    (
        "is not found in namespace",
        &[|s| claim(s.after("claim "), "Pending")],
    ),
    (
        "cannot be satisfied: waiting for ephemeral volume controller",
        &[|_| claim("p-work", "Pending")],
    ),
    (
        "has not been made yet by provisioner",
        &[|s| claim(s.after("claim "), "Bound")],
    ),
    (
        "Nothing was seen of a scheduler about the pod",
        &[
            |_| event("FailedScheduling", "default-scheduler"),
            |s| claim(s.after("claim "), "Bound"),
        ],
    ),
];

/// What a verdict says without those beside it: its sentence, and the evidence that it quotes.
fn one_says(v: &Verdict) -> Vec<String> {
    let evidence = v.evidence.iter().map(ToString::to_string);
    std::iter::once(v.sentence.clone())
        .chain(evidence)
        .collect()
}

/// All that a verdict says.
fn says(v: &Verdict) -> Vec<String> {
    let all = std::iter::once(v).chain(&v.also);
    all.flat_map(one_says).collect()
}

#[test]
fn what_contradicts_an_absence_takes_its_sentence_away() {
    let (mut wrong, mut never) = (Vec::new(), Vec::new());
    let scenarios = causes::scenarios();
    for (words, against) in ABSENCES {
        let mut found = false;
        for s in &scenarios {
            let Some(v) = causes::told(s, Sources::All) else {
                continue;
            };
            let mut all = std::iter::once(&v).chain(&v.also);
            let Some(v) = all.find(|v| one_says(v).iter().any(|t| t.contains(words))) else {
                continue;
            };
            found = true;
            let story = Story {
                scenario: s,
                sentence: &v.sentence,
            };
            for (n, step) in against.iter().enumerate() {
                let mut step = step(&story);
                step["t"] = json!(s.now_s - 1.0);
                let mut other = s.clone();
                other.see.push(step.clone());
                let after = causes::told(&other, Sources::All);
                let still = after.iter().flat_map(says).find(|t| t.contains(words));
                if let Some(still) = still {
                    wrong.push(format!("{} ({n}): {step}: {still}", s.name));
                }
            }
        }
        if !found {
            never.push(words);
        }
    }
    assert!(never.is_empty(), "no scenario says: {never:?}");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Words of a sentence that says that something is absent.
const WORDS: [&str; 15] = [
    " no event",
    "no Event",
    " no pod ",
    "No node has",
    "no node ",
    " no lease",
    "No controller",
    "No scheduler",
    "nobody",
    "Nothing was",
    "nothing was",
    "nothing says",
    "was not seen",
    "were not read",
    "not running",
];

/// What the scheduler, an autoscaler, the apiserver, a kubelet or a refused connection says itself.
const OWN: [&str; 10] = [
    "nobody accepts connections on ",
    "No node has enough ",
    "No node has the host port",
    "No node has the name",
    "No node has storage",
    "adds no node for the pod",
    "finds no node for the pod",
    "places no pod of ",
    "lets no pod go now",
    "makes no pod of manifest",
];

#[test]
fn every_sentence_that_says_that_something_is_absent_has_what_contradicts_it() {
    let mut untold = Vec::new();
    for s in causes::scenarios() {
        let Some(v) = causes::told(&s, Sources::All) else {
            continue;
        };
        for line in says(&v) {
            let absent = WORDS.iter().any(|w| line.contains(w));
            let own = OWN.iter().any(|words| line.contains(words));
            let known = own || ABSENCES.iter().any(|(words, _)| line.contains(words));
            if absent && !known {
                untold.push(format!("{}: {line}", s.name));
            }
        }
    }
    assert!(untold.is_empty(), "{}", untold.join("\n"));
}
