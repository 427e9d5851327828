//! What a rule found about a pod, and the verdict that is made from it.

mod quotes;

pub use quotes::{proof, quote, signal_proof};

use quotes::{condition, tell_once};

use super::catalogue::{Catalogue, Cause};
use super::cause::{self, CauseId};
use super::history::{PodCall, PodHistory};
use super::signal::{Signal, image_in};
use super::text::{Names, list, span, times};
use super::{Confidence, InFlightCall, NextStep, Proof, Recurrence, State, Verdict};
use crate::correlate::{PodView, owners};
use crate::flow::Stage;
use kflow_model::cri::method;
use kflow_model::{
    Evidence, Nanos, ObjectRef, Source, Text,
    pod::{Condition, ContainerState, ContainerStatus, PodSeen},
    stamp::SECOND,
    units::seconds,
};

/// Causes of a pod that are a trouble of its node.
const OF_NODE: [CauseId; 4] = [cause::KF301, cause::KF302, cause::KF515, cause::KF523];

/// A second sentence of any cause: what the scheduler says beside it.
const BESIDE: &str = "[ {beside}]";

/// One cause that is true of a pod.
#[derive(Clone, Debug)]
pub struct Finding<'a> {
    pub cause: &'static Cause,
    /// The stage in which the cause stops the pod.
    pub stage: Stage,
    /// The container that the finding is about; empty for the whole pod.
    pub container: Text,
    /// The pod's state under this cause.
    pub state: State,
    pub since: Nanos,
    /// It may have been so before, and nothing tells since when.
    pub at_least: bool,
    /// Values for the names in the cause's sentence and commands.
    pub names: Names,
    /// The evidence for the finding, best first.
    pub proofs: Vec<Proof>,
    /// The pod's own call that the pod waits for.
    pub in_flight: Option<&'a PodCall<'a>>,
    /// The call of another pod, or of the kubelet's loops, that the pod waits for.
    pub waits_on: Option<InFlightCall>,
    /// The pod that this pod waits for. A cause that is a trouble of the node leaves it empty: the verdict then names
    /// the node.
    pub behind: Option<ObjectRef>,
    /// Number of the attempt that the finding is about, from 0.
    pub attempt: u32,
    /// When the kubelet tries again, if that is known.
    pub next_retry: Option<Nanos>,
    /// How often and when it happened, where it happened more than once.
    pub recurrence: Option<Recurrence>,
    /// How sure the finding is.
    pub confidence: Confidence,
    /// Among the findings of one stage the highest rank wins.
    pub rank: u8,
    /// A reason alone showed the cause, whatever its text: the finding says less than any other.
    pub alone: bool,
}

impl<'a> Finding<'a> {
    /// A finding of a cause by id, with what the catalogue says about the cause.
    pub fn new(id: CauseId, f: &PodHistory<'a>) -> Self {
        Self::of(Catalogue::get().cause(id), f)
    }
    pub fn of(cause: &'static Cause, f: &PodHistory<'a>) -> Self {
        Self {
            cause,
            stage: cause.stage,
            container: Text::default(),
            state: cause.state,
            since: f.since(cause.stage),
            at_least: false,
            names: Names::default(),
            proofs: Vec::new(),
            in_flight: None,
            waits_on: None,
            behind: None,
            attempt: 0,
            next_retry: None,
            recurrence: None,
            confidence: cause.sure,
            rank: cause.rank,
            alone: false,
        }
    }
    /// Sets a name for the sentence, unless it has a value.
    #[must_use]
    pub fn name(mut self, key: &str, value: &str) -> Self {
        self.names.set(key, value);
        self
    }
    /// Sets a name whose value says how long or how often, and so differs among pods with the same trouble.
    #[must_use]
    pub fn varying(mut self, key: &str, value: &str) -> Self {
        self.names.vary(key, value, "");
        self
    }
    /// Sets the name `what` to how a container ends, in words that also say how often. One that is started again and again does not
    /// say the same as one that has ended for good.
    #[must_use]
    pub fn ends(mut self, how: &str, code: Option<i32>, again: bool) -> Self {
        let mut end = code.map_or_else(|| "ended".to_owned(), |code| format!("exit code {code}"));
        if !again {
            end.push_str(" for good");
        }
        self.names.vary("what", how, &end);
        self
    }
    /// Sets a stage other than the catalogue's.
    #[must_use]
    pub fn at(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }
    #[must_use]
    pub fn container(mut self, name: &str) -> Self {
        self.container = name.into();
        self
    }
    /// Sets a state other than the catalogue's.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.state = state;
        self
    }
    /// Sets the moment since which the finding is true.
    #[must_use]
    pub fn since(mut self, at: Nanos) -> Self {
        self.since = at;
        self
    }
    /// Says that it is so now, and may have been before.
    #[must_use]
    pub fn seen_only(mut self, now: Nanos) -> Self {
        self.at_least = true;
        self.since(now)
    }
    /// Lowers the confidence to `c`, if it is higher.
    #[must_use]
    pub fn at_most(mut self, c: Confidence) -> Self {
        self.confidence = self.confidence.max(c);
        self
    }
    /// Adds an observation as evidence.
    #[must_use]
    pub fn proof(mut self, o: &Evidence) -> Self {
        self.proofs.push(proof(o));
        self
    }
    /// Adds an observation as evidence, with the rule's own words for what it shows.
    #[must_use]
    pub fn proof_as(mut self, o: &Evidence, what: impl Into<String>) -> Self {
        self.proofs.push(Proof {
            what: what.into(),
            words: None,
            ..proof(o)
        });
        self
    }
    /// Adds a condition that an observation of an object shows as evidence.
    #[must_use]
    pub fn condition(mut self, o: &Evidence, c: &Condition) -> Self {
        self.proofs.push(condition(o, c));
        self
    }
    /// Adds an observation as evidence, when there is one.
    #[must_use]
    pub fn proof_if(self, o: Option<&Evidence>) -> Self {
        match o {
            Some(o) => self.proof(o),
            None => self,
        }
    }
    /// Adds as evidence that something was not seen since `at`.
    #[must_use]
    pub fn absence(mut self, at: Nanos, source: Source, what: impl Into<String>) -> Self {
        self.proofs.push(Proof {
            at,
            precision: at.likely_precision(),
            source,
            what: what.into(),
            words: None,
            times: 1,
            evidence: None,
        });
        self
    }
    /// Says that the pod waits for one of its own calls: sets the names `running`, `method` and `deadline`, and adds
    /// the call as evidence.
    #[must_use]
    pub fn call(mut self, call: &'a PodCall<'a>, now: Nanos) -> Self {
        self.names.vary("running", &span(now.since(call.at)), "");
        self.names.set("method", &call.start.method);
        if let Some(d) = call.start.timeout_ns {
            self.names.set("deadline", &span(d));
        }
        self.proofs.push(Proof {
            at: call.at,
            precision: call.evidence.stamp.precision,
            source: Source::Cri,
            what: format!(
                "CRI {}  in flight for {}{}",
                call.start.method,
                span(now.since(call.at)),
                call.start
                    .timeout_ns
                    .map_or(String::new(), |d| format!(" of {}", span(d)))
            ),
            words: None,
            times: 1,
            evidence: Some(call.evidence.clone()),
        });
        self.in_flight = Some(call);
        self
    }
    /// Makes a finding from a signal that matches the cause.
    pub fn of_signal(
        cause: &'static Cause,
        names: Names,
        s: &Signal<'a>,
        f: &PodHistory<'a>,
    ) -> Self {
        let mut found = Self::of(cause, f).container(&s.container);
        found.names = names;
        // CRI-O says this about sandboxes and containers; where it names no container, it is about the sandbox.
        if cause.id == cause::KF702b && s.container.is_empty() {
            found.stage = Stage::Sandbox;
        }
        found.names.set("reason", reason_in_words(&s.reason));
        if cause.stage == Stage::Image
            && let Some(image) = image_in(&s.text)
        {
            found.names.set("image", image);
        }
        found.proofs.push(signal_proof(s));
        found
    }

    /// Sets the name `of` to the container that the image is for, where the pod has several.
    fn of_container(&mut self, f: &PodHistory<'_>) {
        if self.stage != Stage::Image || self.container.is_empty() {
            return;
        }
        let regular = f.view.containers.iter().filter(|c| !c.ephemeral).count();
        if f.is_initial(&self.container) {
            self.names
                .set("of", &format!("init container {}", self.container));
        } else if regular > 1 {
            self.names
                .set("of", &format!("container {}", self.container));
        }
    }

    fn set_who(&mut self, one: &str, many: &str) {
        let who = self.nodes_not(one, many);
        self.names.set("who", &who);
    }
    /// Begins a sentence with the nodes that something does not hold for, and its verb: `No node has`, `12 of the 15
    /// nodes do not have`.
    fn nodes_not(&self, one: &str, many: &str) -> String {
        let share = self.names.get("share");
        match (share, self.names.get("share_nodes")) {
            (Some(share), Some("1")) => format!("{share} does not {many}"),
            (Some(share), _) => format!("{share} do not {many}"),
            (None, _) => format!("No node {one}"),
        }
    }

    /// Begins a sentence with the nodes that something holds for: `1 of the 15 nodes is`, `All nodes are`.
    fn nodes_are(&self) -> String {
        match (self.names.get("share"), self.names.get("share_nodes")) {
            (Some(share), Some("1")) => format!("{share} is"),
            (Some(share), _) => format!("{share} are"),
            (None, _) => "All nodes are".to_owned(),
        }
    }

    /// Sets the names that follow from other names, once all of those are known.
    fn derive_names(&mut self) {
        match self.cause.id {
            // The name `still` belongs to a verdict on the node; without it the verdict is on a pod, which waits.
            cause::KF301 if self.names.get("still").is_none() => {
                let age = self.names.get("age").unwrap_or_default().to_owned();
                self.names.vary("waiting", &age, "");
            }
            // A DaemonSet makes a pod for one node. That the others are not meant is no trouble.
            id @ (cause::KF201 | cause::KF202 | cause::KF209) => {
                let who = match (self.names.get("only"), id) {
                    (Some(n), cause::KF202) => {
                        format!("Node {n}, the only one that the pod is for,")
                    }
                    (Some(n), _) => {
                        format!("Node {n}, the only one that the pod is for, does not have")
                    }
                    (None, cause::KF202) => "Every fitting node".to_owned(),
                    (None, _) => self.nodes_not("has", "have"),
                };
                self.names.set("who", &who);
            }
            // containerd, platforms: operating system, its version on Windows, and architecture.
            cause::KF606 => {
                let built = match self.names.get("platform") {
                    Some(_) => {
                        "platform (operating system, on Windows with version, and processor)"
                    }
                    None => "processor",
                };
                self.names.set("built", built);
            }
            cause::KF615 if self.names.get("answer").is_none() => {
                let image = self.names.get("image").unwrap_or_default().to_owned();
                self.names.set("asked", &image);
            }
            cause::KF204 => {
                let who = match self.names.get("only") {
                    Some(n) => format!("Node {n}, the only one that the pod is for, is"),
                    None => self.nodes_are(),
                };
                self.names.set("who", &who);
            }
            cause::KF205 | cause::KF206 => self.set_who("matches", "match"),
            cause::KF207 | cause::KF208 => self.set_who("satisfies", "satisfy"),
            cause::KF211 => self.set_who("declares", "declare"),
            cause::KF217 => self.set_who("has", "have"),
            cause::KF213 if self.names.get("own").is_none() => {
                let unbound = match self.names.get("claims") {
                    Some(_) => "which are not bound to volumes",
                    None => "which is not bound to a volume",
                };
                self.names.set("unbound", unbound);
            }
            cause::KF203 if self.names.get("root").is_none() => {
                let of = |key| self.names.get(key).unwrap_or_default();
                let why = match of("why") {
                    "" => String::new(),
                    why => format!("; {why}"),
                };
                let nodes = self.names.get("share").unwrap_or("the nodes");
                let taint = taint_in_words(of("taint"));
                let effect = match of("effect") {
                    "" => String::new(),
                    effect => format!(": {effect}"),
                };
                let plain = format!("{taint} of {nodes}{effect} {}{why}", of("detail"));
                self.names.set("plain", &plain.replace(" ;", ";"));
            }
            cause::KF705 if self.names.get("exit").is_some() => self.names.remove("running"),
            cause::KF705 if self.names.get("running").is_none() => {
                let how = match self.names.get("what") {
                    Some(w) if w != "PostStartHook failed" => {
                        format!("fails: {}", crate::diagnose::text::hook_error(w))
                    }
                    _ => "fails".to_owned(),
                };
                self.names.set("how", &how);
            }
            // The name `what` says that the hook has failed, so it does not run any more.
            cause::KF904 if self.names.get("what").is_some() => self.names.remove("running"),
            cause::KF905 => {
                let who = match self.names.get("container") {
                    Some(c) => format!("container {c}"),
                    None => "the pod".to_owned(),
                };
                self.names.set("who", &who);
                if self.names.get("over").is_some() {
                    self.names.remove("what");
                }
            }
            _ => {}
        }
    }

    pub fn verdict(mut self, f: &PodHistory<'_>) -> Verdict {
        base_names(&mut self.names, f, &self.container);
        let view = f.view;
        // How long the pod has been in a stage is the same here as in every list. In the stage Ready a pod that is
        // ready is an exception, and one whose work is done: the list shows how long it has been ready, or worked, and
        // its trouble is younger.
        let younger = self.stage == Stage::Ready && f.is_ready() == Some(true)
            || self.cause.id == cause::KF810;
        let stuck = view.current.filter(|(stage, _)| *stage == self.stage);
        if let Some((_, since)) = stuck.filter(|_| !younger) {
            self.since = if self.at_least {
                self.since.min(since)
            } else {
                since
            };
        }
        if let Some(read) = f.printed() {
            // A pod's age does not tell since when it has failed.
            if self.state == State::Failed && self.since <= view.zero() {
                self.since = read;
            }
            self.at_least |= self.since.plus(SECOND) > read;
        }
        // That is when somebody looked, and not when it happened.
        self.at_least |= f.view.evidence.is_look(self.since);
        // Of what was so at the first look nobody knows since when.
        if !self.at_least || self.since < f.now {
            self.names.vary("age", &span(f.now.since(self.since)), "");
        }
        if self.cause.id == cause::KF213 && self.names.get("volume").is_none() {
            self.names.set("classes", "storage classes");
        }
        let next = steps(self.cause, &self.names);
        self.derive_names();
        self.of_container(f);
        let owner = view
            .owners
            .first()
            .cloned()
            .or_else(|| f.api.and_then(|p| p.owner.clone()));
        tell_once(&mut self.proofs);
        let of_node = OF_NODE.contains(&self.cause.id) && !view.uid.is_empty();
        let node = (of_node && !view.node.is_empty()).then(|| ObjectRef {
            kind: "Node".into(),
            name: view.node.clone(),
            ..ObjectRef::default()
        });
        let say = format!("{}{BESIDE}", self.cause.say);
        let sentence = self.names.sentence(&say);
        Verdict {
            uid: view.uid.clone(),
            namespace: view.namespace.clone(),
            pod: view.name.clone(),
            owner,
            root: super::incidents::root(&view.owners),
            cause: Some(self.cause.id),
            title: self.cause.title.as_str().into(),
            stage: self.stage,
            container: self.container,
            state: self.state,
            since: self.since,
            at_least: self.at_least || f.began_before(),
            in_flight: self.waits_on.or_else(|| {
                self.in_flight.map(|c| InFlightCall {
                    method: c.start.method.clone(),
                    since: c.at,
                    deadline_ns: c.start.timeout_ns,
                })
            }),
            attempt: self.attempt,
            next_retry: self.next_retry.filter(|t| *t > f.now),
            behind: self.behind.or(node),
            recurrence: self.recurrence,
            same: self.names.constant(&say, &sentence),
            sentence: unnamed(sentence) + &again(self.state, self.recurrence, f.now),
            evidence: self.proofs,
            not_reached: not_reached(self.stage, f),
            owner_state: None,
            node_state: None,
            next,
            confidence: self.confidence,
            also: Vec::new(),
        }
    }
}

/// Returns a sentence that says how often it happened, and how the pod is now; empty when there is nothing to say.
pub(super) fn again(state: State, recurrence: Option<Recurrence>, now: Nanos) -> String {
    let Some(r) = recurrence else {
        return String::new();
    };
    match (state, r.up) {
        (State::CrashLooping, Some(up)) => {
            format!(" It has been running again for {}.", span(now.since(up)))
        }
        (State::Flapping, up) => {
            let ready = match up {
                Some(up) => format!("has been ready again for {}", span(now.since(up))),
                None => format!("has not been ready for {}", span(now.since(r.last))),
            };
            format!(
                " The pod became not ready {} in the last {}, and {ready}.",
                times(r.times),
                span(now.since(r.first))
            )
        }
        _ => String::new(),
    }
}

/// What a sentence says of something whose name no source gives.
const UNNAMED: [(&str, &str); 13] = [
    ("Node ?", "The node"),
    ("node ?", "the node"),
    ("The pull of ?", "The pull of its image"),
    ("The image ?", "The image"),
    ("The image name ?", "The image's name"),
    ("image ?", "the image"),
    ("Init container ?", "An init container"),
    ("container ?", "a container"),
    ("Container ?", "A container"),
    ("Sidecar ?", "A sidecar"),
    ("volume mount ?", "a volume mount"),
    ("volume ?", "a volume"),
    ("Volume ?", "A volume"),
];

/// Replaces `?`, which stands for a name that no source gives: the node and the image exist without a name too.
fn unnamed(sentence: String) -> String {
    if !sentence.contains('?') {
        return sentence;
    }
    let replace = |said: String, (unnamed, so): &(&str, &str)| said.replace(unnamed, so);
    UNNAMED.iter().fold(sentence, replace)
}

/// Returns the cause's next steps with names filled in, without steps whose text is empty then. Those for any error
/// follow where the error's words have chosen none.
pub fn steps(cause: &Cause, names: &Names) -> Vec<NextStep> {
    let filled = |(text, command): &(String, String)| NextStep {
        text: names.sentence(text),
        command: names.command(command),
    };
    let said = |steps: &[(String, String)]| -> Vec<NextStep> {
        let filled = steps.iter().map(filled);
        filled.filter(|step| !step.text.is_empty()).collect()
    };
    let mut steps = said(&cause.steps);
    let always = |(text, _): &&(String, String)| !text.starts_with('[');
    if steps.len() == cause.steps.iter().filter(always).count() {
        steps.extend(said(&cause.otherwise));
    }
    steps
}

fn pulled<'f>(f: &'f PodHistory<'_>, container: &Text) -> Option<&'f str> {
    let pull = |s: &&Signal<'_>| {
        matches!(s.reason.as_ref(), "ErrImagePull" | "ImagePullBackOff")
            && (s.container == *container || container.is_empty() || s.container.is_empty())
    };
    f.signals
        .iter()
        .filter(pull)
        .find_map(|s| image_in(&s.text))
}

fn base_names(n: &mut Names, f: &PodHistory<'_>, container: &Text) {
    let v = f.view;
    n.set("ns", &v.namespace);
    n.set("pod", &v.name);
    n.set("uid", v.uid.as_str());
    n.set("node", node_of(v, f.api));
    n.set("container", container);
    let is_alone = f.api.is_some() && v.owners.is_empty();
    n.set(
        "another",
        if is_alone {
            "nobody makes another, so create it again then"
        } else {
            "its owner makes another"
        },
    );
    // `--previous` is of `lastState`, whose container the kubelet may have removed by the next end: only of a container that runs again it is
    // the run that ended (Kubernetes 1.36 `pkg/kubelet/kubelet_pods.go`, `validateContainerLogStatus`).
    let before = f.known(container).is_some_and(|c| {
        let has_last = c.status.is_some_and(|s| s.last.is_some());
        let is_over = |s: &ContainerStatus| matches!(s.state, ContainerState::Terminated(_));
        (c.restarts > 0 || c.exits.len() > 1 || has_last) && !c.status.is_some_and(is_over)
    });
    n.set("logs", if before { "--previous" } else { "--tail=100" });
    let image = v
        .containers
        .iter()
        .find(|c| c.name == *container)
        .or_else(|| v.containers.iter().find(|c| !c.init))
        .map(|c| c.image.clone())
        .or_else(|| {
            let api = f.api?;
            Some(
                api.container(container)
                    .or_else(|| api.spec.containers.first())?
                    .image
                    .clone(),
            )
        })
        .unwrap_or_default();
    // Without the API, the failed pull itself names the image.
    let image = if image.is_empty() {
        pulled(f, container).unwrap_or_default().into()
    } else {
        image
    };
    n.set("image", &image);
    let registry = registry(&image);
    n.set("registry", registry);
    let plain = format!("http://{registry}/");
    let is_plain = f.signals.iter().any(|s| s.text.contains(&plain));
    n.set("scheme", if is_plain { "http" } else { "https" });
    if let Some(g) = f.grace_s {
        n.set("grace", &seconds(g));
    }
    let Some(api) = f.api else { return };
    n.set("runtime_class", &api.spec.runtime_class);
    n.set("secrets", &list(&api.spec.image_pull_secrets));
    n.set(
        "scheduler",
        if api.spec.scheduler.is_empty() {
            "default-scheduler"
        } else {
            &api.spec.scheduler
        },
    );
    if let Some(d) = api.spec.active_deadline_s {
        n.set("active_deadline", &seconds(d));
    }
}

/// Returns the pod's node: from the view, else from the API state; empty when it is not known.
pub fn node_of<'v>(v: &'v PodView, api: Option<&'v PodSeen>) -> &'v str {
    if v.node.is_empty() {
        api.map_or("", |p| p.spec.node.as_str())
    } else {
        &v.node
    }
}

/// Returns the host of an image's registry: Docker Hub's when the image names none, empty when there is no image.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ if image.is_empty() => "",
        _ => "registry-1.docker.io",
    }
}

/// A taint as people write it: the scheduler's message has `key: value`.
fn taint_in_words(taint: &str) -> String {
    match taint.trim_end().split_once(':') {
        Some((key, "")) => key.to_owned(),
        Some((key, value)) if value.starts_with(' ') => format!("{key}={}", value.trim()),
        _ => taint.to_owned(),
    }
}

fn reason_in_words(reason: &str) -> &str {
    reason.trim_start_matches('@')
}

/// Returns the steps of a pod's start that come after `stage`, by CRI method; empty from the stage Ready on.
fn not_reached(stage: Stage, f: &PodHistory<'_>) -> Vec<Text> {
    const CALLS: [(Stage, &str); 4] = [
        (Stage::Sandbox, method::RUN_POD_SANDBOX),
        (Stage::Image, method::PULL_IMAGE),
        (Stage::Create, method::CREATE_CONTAINER),
        (Stage::Start, method::START_CONTAINER),
    ];
    if stage >= Stage::Ready {
        return Vec::new();
    }
    let mut out: Vec<Text> = CALLS
        .iter()
        .filter(|(s, _)| *s > stage)
        .map(|(_, m)| Text::from(*m))
        .collect();
    if stage <= Stage::Schedule {
        out.insert(0, "bind to a node".into());
    }
    if f.containers.iter().any(|c| f.is_init(&c.name) && c.runs()) {
        out.push("the pod's main containers".into());
    }
    out
}

/// Returns an owner in the form that kubectl takes: `deployment/web`.
pub fn owner_arg(o: &ObjectRef) -> String {
    // A node's own log need not name it.
    if o.name.is_empty() {
        return owners::word(&o.kind);
    }
    format!("{}/{}", owners::word(&o.kind), o.name)
}
