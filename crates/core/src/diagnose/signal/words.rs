//! The texts of errors (`signals.toml`), and what an error says by them.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use serde::Deserialize;

use crate::flow::{Needle, Template};
use kflow_model::units::parse_go_duration;

const SIGNALS: &str = include_str!("../signals.toml");

/// The texts of errors, as data.
pub(super) static ERRORS: LazyLock<Errors> =
    LazyLock::new(|| crate::embedded("signals.toml", toml::from_str(SIGNALS)));

/// The contents of `signals.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Errors {
    pub(super) sync: SyncErrors,
    pub(super) kubelet: Texts,
    pub(super) runtime: RuntimeErrors,
    probe: ProbeErrors,
    node: NodeErrors,
    networks: Networks,
    claim: ClaimEvents,
    scheduler: SchedulerSentence,
    owner: OwnerErrors,
    taints: Taints,
    speakers: Speakers,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Speakers {
    named: Vec<SpeakerWords>,
    objects: Vec<SpeakerObjects>,
}

/// How an error names the component that says it, or does not answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpeakerWords {
    /// A regular expression with a group `name`.
    #[serde(rename = "match")]
    pattern: String,
    /// What it is: `CSI driver {name}`.
    says: Template,
    #[serde(skip)]
    compiled: OnceLock<Option<Regex>>,
}

/// The objects by which a component works.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpeakerObjects {
    by: String,
    objects: String,
}

/// Returns the component that an error names as the one that says it, or does not answer, in words.
pub(in crate::diagnose) fn speaker(text: &str) -> Option<String> {
    ERRORS.speakers.named.iter().find_map(|w| {
        let re = w.compiled.get_or_init(|| Regex::new(&w.pattern).ok());
        let found = re.as_ref()?.captures(text)?;
        let name = found.name("name")?.as_str();
        Some(w.says.fill(|_| Some(name))?.into_owned())
    })
}

/// Returns the objects by which a component works, as kubectl names them; `None` when none are known.
pub(in crate::diagnose) fn objects_of(speaker: &str) -> Option<&'static str> {
    let mut known = ERRORS.speakers.objects.iter();
    let of_it = known.find(|o| speaker.split(' ').any(|word| word == o.by))?;
    Some(&of_it.objects)
}

/// What controllers say when they cannot create a pod.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnerErrors {
    refused: Vec<Template>,
    other: Vec<Needle>,
    creating: Vec<Needle>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Networks {
    agents: Vec<NetworkAgent>,
}

/// The agent of a pod network, which the network's CNI plugin calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::diagnose) struct NetworkAgent {
    contains: Needle,
    pub(in crate::diagnose) network: String,
    pub(in crate::diagnose) pods: String,
}

/// Returns the agent whose network a CNI plugin's error is of.
pub(in crate::diagnose) fn network_agent(error: &str) -> Option<&'static NetworkAgent> {
    let mut all = ERRORS.networks.agents.iter();
    all.find(|a| a.contains.is_in(error))
}

/// What the Events of claims say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimEvents {
    awaits: Template,
}

/// Returns the pod that a claim waits for, by an Event on the claim.
pub(in crate::diagnose) fn awaited_by_claim(text: &str) -> Option<&str> {
    ERRORS.claim.awaits.find("pod", text)
}

/// True for an error that says that the apiserver does not let a pod be created.
pub(in crate::diagnose) fn refuses_pod(text: &str) -> bool {
    let words = &ERRORS.owner;
    let mut refused = words.refused.iter();
    !holds(text, &words.other) && refused.any(|t| t.find("pod", text).is_some())
}
/// True for an error of a controller's attempt to create a pod.
pub(in crate::diagnose) fn is_creating_pod(text: &str) -> bool {
    holds(text, &ERRORS.owner.creating)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Taints {
    removed: Vec<Removed>,
}

/// A taint that a component takes away when the node is ready for pods.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::diagnose) struct Removed {
    pub(in crate::diagnose) key: String,
    /// The component.
    pub(in crate::diagnose) by: String,
    /// A part of its pods' names.
    pub(in crate::diagnose) pods: String,
}

/// Returns who takes a taint away, where that is known.
pub(in crate::diagnose) fn remover(taint: &str) -> Option<&'static Removed> {
    let taints = &ERRORS.taints.removed;
    taints.iter().find(|t| taint.starts_with(&t.key))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SyncErrors {
    /// The begin of a list of actions: a bracket, and that of the first.
    pub(super) list: Needle,
    /// The end of an action, and the begin of the next.
    pub(super) next: String,
    pub(super) action: Template,
    pub(super) containers: Vec<String>,
    pub(super) renamed: BTreeMap<String, String>,
    pub(super) told: BTreeMap<String, Template>,
    of_pod: Vec<Needle>,
    pub(super) errors: Vec<ErrorText>,
}

/// True for an error of a kill of the whole pod.
pub(in crate::diagnose) fn ends_pod(error: &str) -> bool {
    holds(error, &ERRORS.sync.of_pod)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    pub(super) errors: Vec<ErrorText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuntimeErrors {
    pub(super) errors: Vec<ErrorText>,
    pub(super) call: Template,
    pub(super) deadline: String,
    pub(super) joined: Joined,
    pub(super) image: Template,
    pub(super) cause_after: String,
    pub(super) unanswered: Vec<Needle>,
    pub(super) timed_out: Vec<Needle>,
    pub(super) wait: Template,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeErrors {
    unnamed_port: Template,
}

/// The words before each of two errors of one pull.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Joined {
    pub(super) image: Needle,
    pub(super) artifact: Needle,
    pub(super) is_artifact: Needle,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeErrors {
    starting: Vec<Needle>,
    refused: Vec<Needle>,
    network_missing: Vec<Needle>,
    unheard: Template,
    runtime_down: Vec<Needle>,
}

/// The words around the clauses of the scheduler's message.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::diagnose) struct SchedulerSentence {
    /// Texts between the number of nodes and the clauses, one for each wording of schedulers.
    pub(in crate::diagnose) available: Vec<String>,
    /// The text before the clauses on preemption.
    pub(in crate::diagnose) preemption: String,
    /// A clause that carries no reason.
    pub(in crate::diagnose) nothing: String,
    /// Begins of the second part of a clause that has a comma in it.
    pub(in crate::diagnose) continued: Vec<String>,
    /// Text of a clause that says that pods which make room are still there.
    pub(in crate::diagnose) ending: String,
    /// Names that stood for reasons in old releases.
    before: Vec<Renamed>,
    /// Reasons of schedulers and extenders that are names only.
    words: Vec<SchedulerWords>,
}

/// A reason by its name, and in words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Renamed {
    name: String,
    says: String,
}

impl SchedulerSentence {
    /// Returns the words for a reason that old releases give by its name.
    pub(in crate::diagnose) fn in_words(&self, name: &str) -> Option<&str> {
        let mut all = self.before.iter();
        all.find(|r| r.name == name).map(|r| r.says.as_str())
    }
}

/// What reasons of a scheduler's extender or plugin mean.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::diagnose) struct SchedulerWords {
    contains: Vec<Needle>,
    /// Who says so.
    pub(in crate::diagnose) by: String,
    pub(in crate::diagnose) means: String,
}

/// Returns what the reasons in a scheduler's message mean, where that is known.
pub(in crate::diagnose) fn scheduler_words(
    message: &str,
) -> impl Iterator<Item = &'static SchedulerWords> {
    let words = ERRORS.scheduler.words.iter();
    words.filter(move |w| holds(message, &w.contains))
}

/// Returns the words around the clauses of the scheduler's message.
pub(in crate::diagnose) fn scheduler() -> &'static SchedulerSentence {
    &ERRORS.scheduler
}

fn holds(text: &str, any: &[Needle]) -> bool {
    any.iter().any(|t| t.is_in(text))
}

/// Returns the image that an error is about.
pub fn image_in(text: &str) -> Option<&str> {
    ERRORS.runtime.image.find("image", text)
}
/// Returns the cause at the end of a runtime's error, else the whole error.
pub fn cause_in(text: &str) -> &str {
    let after = ERRORS.runtime.cause_after.as_str();
    text.rsplit_once(after).map_or(text, |(_, cause)| cause)
}
/// Returns the name in the error of a probe whose port no port of the container has.
pub(in crate::diagnose) fn unnamed_port(text: &str) -> Option<&str> {
    ERRORS.probe.unnamed_port.find("port", text)
}
/// Returns the wait before the next attempt, ns, that a message of the kubelet names (`back-off 2m40s restarting
/// failed container=…`).
pub fn wait_in(text: &str) -> Option<i64> {
    parse_go_duration(ERRORS.runtime.wait.find("wait", text)?)
}
/// True for an error that says that the runtime did not answer.
pub fn unanswered(text: &str) -> bool {
    holds(text, &ERRORS.runtime.unanswered)
}
/// True for an error that says that a call timed out.
pub fn timed_out(text: &str) -> bool {
    holds(text, &ERRORS.runtime.timed_out)
}
/// True for a reason to skip pods that only means that the kubelet has just started.
pub fn is_starting(text: &str) -> bool {
    holds(text, &ERRORS.node.starting)
}
/// Returns for how long the runtime has not told the kubelet what runs, ns; 0 where a reason to skip pods does not say that.
pub fn unheard_ns(text: &str) -> i64 {
    let duration = ERRORS.node.unheard.find("for", text);
    duration.and_then(parse_go_duration).unwrap_or(0)
}
/// True for the apiserver's answer to a list that the kubelet may not make, or that the apiserver does not know.
pub fn refuses_list(text: &str) -> bool {
    holds(text, &ERRORS.node.refused)
}
/// Returns the words by which a node's condition Ready says that its runtime has no network configuration.
pub fn network_missing(text: &str) -> Option<&'static str> {
    let all = ERRORS.node.network_missing.iter();
    all.map(Needle::as_str).find(|words| text.contains(words))
}
/// True for a message of a node's condition Ready that says that the runtime is down.
pub fn runtime_is_down(text: &str) -> bool {
    holds(text, &ERRORS.node.runtime_down)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorText {
    pub(super) contains: Vec<Needle>,
    pub(super) reason: String,
}

/// Returns the reason of the first entry that has a text which the error contains.
pub(super) fn reason_of(errors: &'static [ErrorText], error: &str) -> Option<&'static str> {
    let held = |e: &&ErrorText| holds(error, &e.contains);
    Some(errors.iter().find(held)?.reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::stamp::SECOND;

    #[test]
    fn the_wait_that_the_kubelet_names_is_read() {
        let m = "back-off 2m40s restarting failed container=c pod=crash_s11(93c29e83)";
        assert_eq!(wait_in(m), Some(160 * SECOND));
        assert_eq!(wait_in("Back-off pulling image \"x\""), None);
    }

    #[test]
    fn the_texts_of_errors_can_be_read() {
        let read: Result<Errors, _> = toml::from_str(SIGNALS);
        let read = read.unwrap_or_else(|e| panic!("{e}"));
        assert!(!read.sync.errors.is_empty() && !read.kubelet.errors.is_empty());
        for words in &read.speakers.named {
            let re = Regex::new(&words.pattern).unwrap_or_else(|e| panic!("{e}"));
            assert!(
                re.capture_names().flatten().eq(["name"]),
                "{}",
                words.pattern
            );
        }
    }

    #[test]
    fn who_does_not_answer_is_named_by_its_socket_or_its_driver() {
        for (text, who) in [
            (
                "dial unix /var/lib/kubelet/plugins/x.csi.example/csi.sock: connect: connection refused",
                "CSI driver x.csi.example",
            ),
            (
                "dial unix /run/vendor/agent.sock: connect: no such file or directory",
                "socket /run/vendor/agent.sock",
            ),
            (
                "volume \"v\" (UniqueName: \"kubernetes.io/csi/x.csi.example^7\") : boom",
                "CSI driver x.csi.example",
            ),
            (
                "plugin type=\"vendor-net\" failed (add): boom",
                "CNI plugin vendor-net",
            ),
        ] {
            assert_eq!(speaker(text).as_deref(), Some(who), "{text}");
        }
        assert_eq!(speaker("exit status 1"), None);
        // Neither an address nor another kind of plugin has its pods on the pod's node.
        assert_eq!(speaker("Post \"https://10.96.0.1:443/v1\": EOF"), None);
        let dra = speaker("dial unix /var/lib/kubelet/plugins/gpu.example/dra.sock: x");
        assert!(dra.is_some_and(|who| who.starts_with("socket ")));
    }

    #[test]
    fn only_what_keeps_a_pod_from_being_created_does() {
        for (text, refuses) in [
            ("pods \"web-\" is forbidden: exceeded quota: q", true),
            (
                "Pod \"web-0\" is invalid: spec.containers[0].image: Required value",
                true,
            ),
            (
                "Pod \"web-0\" is invalid: spec: Forbidden: pod updates may not change fields other than x",
                false,
            ),
            (
                "pods \"web-0\" is forbidden: User \"system:serviceaccount:a:b\" cannot delete resource \"pods\" in API group",
                false,
            ),
            (
                "pods \"web-0\" is forbidden: User \"u\" cannot create resource \"pods\" in API group",
                true,
            ),
        ] {
            assert_eq!(refuses_pod(text), refuses, "{text}");
        }
    }
}
