//! Causes that are recognised by the text of a failure alone: entries of the catalogue that match a signal.

use super::Context;
use crate::backoff;
use crate::correlate::{ContainerView, RunState};
use crate::diagnose::cause;
use crate::diagnose::cluster::NodeHealth;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::limits;
use crate::diagnose::signal::{self, Signal};
use crate::diagnose::text::Names;
use crate::diagnose::{Catalogue, Cause, Confidence, State};
use crate::flow::{Stage, container_error_stage};
use kflow_model::{Body, Evidence, Nanos, ObjectRef, Source, stamp::SECOND};

/// Adds a finding for each signal that matches the catalogue and that no later progress has overtaken.
pub(super) fn matched<'a>(
    cx: Context<'_>,
    f: &PodHistory<'a>,
    deleting: bool,
    failed: bool,
    found: &mut Vec<Finding<'a>>,
) {
    let catalogue = Catalogue::get();
    for s in &f.signals {
        let allow = |cause: &Cause| {
            let by_code = cause.rule
                && (cause.stage == Stage::Ready
                    || cause.id == cause::KF902
                    || cause.id == cause::KF513);
            let stage = stands_in(cause, s);
            let ending = stage == Stage::Terminate;
            let in_time = match (failed, deleting) {
                (true, _) => ending || cause.stage == Stage::Admit,
                (false, true) => ending,
                (false, false) => {
                    !ending
                        || (cause.id == cause::KF910 && f.deletion_refused())
                        || (cause.id == cause::KF917 && f.eviction_refused())
                        || holds_up_the_next(cause, s, f)
                        || is_being_stopped(cause, s, f)
                        || is_left(cause, s, f)
                }
            };
            !by_code && in_time && !f.is_of_ephemeral(s) && !f.is_over(stage, s)
        };
        if !catalogue.under(&s.reason).any(allow) {
            continue;
        }
        let told = cx.texts.told(&s.reason, &s.text).best(&s.text, allow);
        let over = |(cause, names): &(&Cause, Names)| match cause.id {
            cause::KF212 | cause::KF221 => super::claims::exists_by_now(cx, f, s, names),
            // The pod runs with what the kubelet left of them.
            cause::KF808 => f.is_ready() != Some(false),
            cause::KF231 => super::kueue::is_composed(f, s.at),
            // A node is ready only while its runtime answers (pkg/kubelet/nodestatus/setters.go, `ReadyCondition`).
            cause::KF515 | cause::KF523 => {
                let node = cx.shared.node(&f.view.node);
                let still = |n: &NodeHealth| n.ready.as_ref().is_some_and(|(s, ..)| s == "True");
                let told = f.now.since(s.at) >= limits::RUNTIME_DOWN.ns;
                node.is_some_and(|n| n.came_back.is_some_and(|at| at > s.at) || told && still(n))
                    || answered_since(f, s)
            }
            // Of a pod that is evicted the kubelet says it after 10 s (pkg/kubelet/pod_workers.go, `killPodNow`), although a
            // grace period that the pod was given before goes on.
            cause::KF905 => {
                s.reason == "ExceededGracePeriod" && super::terminate::is_within_grace(f)
            }
            _ => false,
        };
        if let Some((cause, names)) = told.filter(|told| !over(told)) {
            let next = !deleting && !failed && holds_up_the_next(cause, s, f);
            let stage = if next {
                Stage::Sandbox
            } else {
                stands_in(cause, s)
            };
            let alone = names.iter().next().is_none() && cause.matches(&s.reason, "").is_some();
            let since = match stage {
                _ if cause.id == cause::KF917 => s.first,
                Stage::Ready if f.is_ready() == Some(true) => s.first,
                // `first` is of the stop of an earlier sandbox, which has been replaced since.
                _ if next && f.sandbox.is_some_and(|made| made > s.first) => s.at,
                _ if next => f.since(stage).max(s.first),
                // Nobody deleted it: it ended when it failed. A pod that is turned away has no other time of it than its start.
                Stage::Admit if failed && f.deleted.is_none() => {
                    failed_at(f, s).unwrap_or_else(|| f.since(stage))
                }
                Stage::Terminate if failed && f.deleted.is_none() => {
                    failed_at(f, s).or(s.stated).unwrap_or(s.first)
                }
                // After a start it is a new story: of a kubelet that was started anew, or of a container's next start. Where one look
                // shows it, it began with the end of the last run at the earliest.
                _ if (Stage::Volumes..=Stage::Create).contains(&stage) && ran_before(f, s) => {
                    let ended = || {
                        f.known(&s.container)?
                            .exits
                            .last()
                            .filter(|e| !e.was_before)
                    };
                    let first = ended().filter(|_| f.view.evidence.is_look(s.first));
                    f.since(stage).max(first.map_or(s.first, |e| e.at))
                }
                _ => f.since(stage),
            };
            let mut x = Finding::of_signal(cause, names, s, f)
                .at(stage)
                .since(since);
            if next {
                x.names.set("next", "the pod's new sandbox");
            }
            // What was missing may be there by now: the kubelet does not look before.
            if x.stage == Stage::Volumes
                && let Some(again) = backoff::next_mount(s.times(), s.first, s.at)
            {
                x.attempt = s.times();
                x.next_retry = Some(again).filter(|t| *t > cx.now);
            }
            if alone {
                x.alone = true;
                let text = crate::flow::Map::active()
                    .event("Failed", &s.text)
                    .and_then(|e| e.name("error"))
                    .unwrap_or(&s.text);
                x.names.set("what", text.trim_end_matches('.'));
            }
            found.push(polish(cx, x, s, f));
        }
    }
    // A pod that was evicted before its sandbox or a container existed was refused, not ended.
    let evicted = catalogue.cause(cause::KF308);
    if failed
        && f.sandbox.is_none()
        && (f.containers.iter()).all(|c| c.started.is_none() && c.first.is_none())
        && let Some(s) = f.signals.iter().find(|s| s.reason == "Evicted")
        && let Some(names) = evicted.matches("@rejected/Evicted", &s.text)
    {
        found.retain(|k| k.cause.id != cause::KF911);
        found.push(Finding::of_signal(evicted, names, s, f));
    }
    // The plugin has no address for the pod because it was given no network interface.
    if found.iter().any(|x| x.names.get("branch").is_some()) {
        found.retain(|x| x.names.get("vpc").is_none());
    }
    for x in found.iter_mut().filter(|x| is_of_pressure(x)) {
        x.behind = low_node(cx, f);
        if let Some(at) = evicted_at(f).filter(|_| failed) {
            (x.since, x.at_least) = (at, false);
        }
    }
}

/// Returns when the kubelet first told by an Event that the pod has failed for the reason of a signal.
pub(super) fn failed_at(f: &PodHistory<'_>, s: &Signal<'_>) -> Option<Nanos> {
    let events = f.view.evidence.telling().filter_map(|o| match &o.body {
        Body::Event(e) if *e.reason == *s.reason => Some(e.began().unwrap_or(o.stamp.at)),
        _ => None,
    });
    events.min()
}

/// True when the runtime has failed later at something else for the pod, so that it does answer. Whether the node is ready is not known to who
/// may not read nodes.
fn answered_since(f: &PodHistory<'_>, down: &Signal<'_>) -> bool {
    let away = [cause::KF515, cause::KF523].map(|id| Catalogue::get().cause(id));
    let is_of_runtime = |s: &Signal<'_>| away.iter().any(|c| c.on.iter().any(|on| *on == s.reason));
    let says_so = |s: &Signal<'_>| {
        let mut all = away.iter();
        signal::unanswered(&s.text) || all.any(|c| c.matches(&s.reason, &s.text).is_some())
    };
    let mut later = f.signals.iter().filter(|s| s.at > down.at);
    later.any(|s| is_of_runtime(s) && !s.text.is_empty() && !says_so(s))
}

/// True when the container that a signal is about, or any where it is about the whole pod, had run before the signal first came.
fn ran_before(f: &PodHistory<'_>, s: &Signal<'_>) -> bool {
    let of_it = f
        .containers
        .iter()
        .filter(|c| s.container.is_empty() || c.name == s.container);
    let mut ran = of_it.flat_map(|c| c.exits.iter().map(|e| e.at).chain(c.started));
    ran.any(|at| at < s.first)
}

/// True when the sandbox of a pod that is to run cannot be stopped, and none was made since. The kubelet makes a new
/// sandbox only after that (kuberuntime_manager.go, `SyncPod`, step 2).
fn holds_up_the_next(cause: &Cause, s: &Signal<'_>, f: &PodHistory<'_>) -> bool {
    // Whoever kills a sandbox in vain says so again and again; without its object the pod may be gone.
    let by_event = matches!(s.evidence.body, Body::Event(_)) && f.api.is_none();
    let is_over = by_event && f.now.since(s.at) >= limits::EVENTS_REPEAT.ns;
    matches!(cause.id, cause::KF906 | cause::KF907)
        && !is_over
        && f.is_ready() != Some(true)
        && f.sandbox.is_none_or(|made| made < s.at)
}

/// True for a hook or a kill that fails when a pod is stopped, where its Event or line alone is known: without the pod's object nothing
/// else says that it is being ended. The kubelet tries a kill again within seconds.
fn is_being_stopped(cause: &Cause, s: &Signal<'_>, f: &PodHistory<'_>) -> bool {
    let fails = match cause.id {
        cause::KF904 => true,
        cause::KF905 | cause::KF906 | cause::KF907 => {
            ends_pod(s) && f.now.since(s.at) < limits::VOLUME_RETRY.ns
        }
        _ => false,
    };
    fails && f.api.is_none() && f.deleted.is_none()
}

/// True for an error of a kill of the whole pod, and not of one of its containers alone.
fn ends_pod(s: &Signal<'_>) -> bool {
    match &s.evidence.body {
        Body::Log(l) => signal::ends_pod(&l.error) || signal::ends_pod(&l.message),
        Body::Event(e) => signal::ends_pod(&e.message),
        _ => false,
    }
}

/// True for volumes that are left on the node of a pod that is known by its UID only, as lines about them name it: the kubelet
/// unmounts them when the pod's containers have ended (pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go,
/// `findAndRemoveDeletedPods`).
fn is_left(cause: &Cause, s: &Signal<'_>, f: &PodHistory<'_>) -> bool {
    cause.id == cause::KF908
        && f.api.is_none()
        && f.view.name.is_empty()
        && f.containers.is_empty()
        && f.now.since(s.at) < limits::VOLUME_RETRY.ns
}

/// Returns what keeps ephemeral containers from starting: the pod stays well, but whoever wants to debug it waits.
pub(in crate::diagnose) fn of_ephemeral<'a>(f: &'a PodHistory<'a>) -> Vec<Finding<'a>> {
    let waits = |c: &&ContainerView| c.ephemeral && matches!(c.state, RunState::Waiting(_));
    let cause = |c: &'a ContainerView| {
        let of_it = f.signals.iter().filter(|s| s.container == c.name);
        let told = of_it.filter_map(|s| {
            let allow = |cause: &Cause| !cause.rule;
            let (cause, names) = Catalogue::get().best(&s.reason, &s.text, allow)?;
            Some(Finding::of_signal(cause, names, s, f).since(s.first))
        });
        told.max_by_key(|x| x.cause.rank)
    };
    let containers = f.view.containers.iter();
    containers.filter(waits).filter_map(cause).collect()
}

/// True when the pod was ended or refused because its node was low on a resource. The texts are the kubelet's:
/// pkg/kubelet/eviction/helpers.go, `nodeLowMessageFmt` and `nodeConditionMessageFmt`.
fn is_of_pressure(x: &Finding<'_>) -> bool {
    matches!(x.cause.id, cause::KF308 | cause::KF911)
        && x.names.get("what").is_some_and(|what| {
            what.starts_with("The node was low on resource")
                || what.starts_with("The node had condition")
        })
}

/// Returns when the kubelet evicted the pod, by its Event: the times in the status are of the containers' ends, which may be
/// long before, or of the pod's start.
fn evicted_at(f: &PodHistory<'_>) -> Option<Nanos> {
    let events = f
        .signals
        .iter()
        .filter(|s| s.reason == "Evicted" && !matches!(&s.evidence.body, Body::Pod(_)));
    events.map(|s| s.first).min()
}

/// Returns the pod's node, if it is low on a resource now.
fn low_node(cx: Context<'_>, f: &PodHistory<'_>) -> Option<ObjectRef> {
    let health = cx.shared.node(&f.view.node)?;
    health.is_low(cx.now).then(|| ObjectRef {
        kind: "Node".into(),
        name: f.view.node.clone(),
        ..ObjectRef::default()
    })
}

/// Returns the stage in which a signal holds the pod up. A runtime that fails as a whole fails every call, so the
/// signal's reason decides, and not the cause. A container's error is in the stage that the timeline gives it, also
/// where its image or a volume is the cause.
fn stands_in(cause: &Cause, s: &Signal<'_>) -> Stage {
    let whole = cause.stage == Stage::Sandbox;
    let made = matches!(cause.stage, Stage::Create | Stage::Start);
    match s.reason.as_ref() {
        "ErrImagePull" | "ImagePullBackOff" | "InspectFailed" | "ImageInspectError" if whole => {
            Stage::Image
        }
        reason @ ("CreateContainerConfigError"
        | "CreateContainerError"
        | "ContainerError"
        | "RunContainerError") => container_error_stage(reason, &s.text),
        "StartError" | "ContainerCannotRun" | super::CONTAINER_LOG => Stage::Start,
        "FailedCreatePodSandBox" if made || cause.stage == Stage::Image => Stage::Sandbox,
        "@stop" | "FailedKillPod" if whole => Stage::Terminate,
        _ => cause.stage,
    }
}

/// Adds to a finding what the text of its signal does not say.
fn polish<'a>(
    cx: Context<'_>,
    mut x: Finding<'a>,
    s: &Signal<'a>,
    f: &PodHistory<'a>,
) -> Finding<'a> {
    match x.cause.id {
        cause::KF507 | cause::KF702 => super::sandbox::earlier(&mut x, f),
        cause::KF303 => {
            x.names
                .set("resource", s.reason.trim_start_matches("OutOf"));
            amounts(&mut x);
        }
        cause::KF403 => super::spec::source(&mut x, s, f),
        cause::KF404 => {
            super::spec::source(&mut x, s, f);
            unlisted(cx, s, &mut x, f);
        }
        // What the apiserver's node authorizer says also while it has not heard of the binding.
        cause::KF413
            if x.names.get("unrelated").is_some()
                && cx.now.since(s.first) < limits::AUTHORIZER.ns =>
        {
            x.state = State::Slow;
            x = x.at_most(Confidence::Possible);
        }
        cause::KF602 => {
            no_credentials(cx, s, &mut x, f);
            let unread = f
                .signals
                .iter()
                .find(|s| s.reason == "FailedToRetrieveImagePullSecret");
            if let Some(u) = unread {
                let names = u.text.split(['(', ')']).nth(1).unwrap_or_default();
                x.names.set("missing", names);
                x.proofs.push(crate::diagnose::finding::signal_proof(u));
            }
        }
        cause::KF314 if s.reason.ends_with("Ports") => {
            if let Some(api) = f.api {
                super::schedule::ports(cx, api, &[&f.view.node], &mut x);
            }
        }
        cause::KF314 => {
            let wants = f
                .api
                .and_then(|api| crate::diagnose::scheduler::wanted(&api.spec));
            if let Some(wants) = wants {
                x.names.set("detail", &format!("the pod wants {wants}"));
            }
        }
        cause::KF911 => super::terminate::who(cx, &mut x, s, f),
        cause::KF917 if x.names.get("refused").or(x.names.get("budget")).is_some() => {
            super::budget::refused(cx, f.view, &mut x);
        }
        cause::KF220 => {
            if let Some(api) = f.api {
                let gates = &api.spec.scheduling_gates;
                x.names
                    .replace("gates", &crate::diagnose::text::list(gates));
                if gates.len() > 1 {
                    x.names.set("many", &crate::diagnose::text::list(gates));
                    x.names.remove("gates");
                }
            }
            if x.names.get("gates").is_none() && x.names.get("many").is_none() {
                x.names.set("many", "of the pod");
            }
        }
        cause::KF319 if f.api.is_some_and(|p| p.status.phase.is_over()) => x.state = State::Failed,
        cause::KF401 => super::claims::same_handle(cx, f, &mut x),
        cause::KF405 => super::attached::named(cx, &mut x, f),
        cause::KF406 => attacher(cx, &mut x),
        cause::KF412 => super::spec::other_runtime(cx, &mut x, f),
        cause::KF616 if s.reason == "FailedCreatePodSandBox" => x.names.set("sandbox", "sandbox"),
        cause::KF616 => x.names.set("whole", "all of it"),
        cause::KF615 if x.names.get("answer").is_some() => x.state = State::Stuck,
        cause::KF214 => super::claims::gave_up(cx, f, s, &mut x),
        cause::KF232 => shares(&mut x),
        _ => {}
    }
    super::spec::claim(cx, &mut x, f);
    speaker(&mut x, s, f);
    super::webhook::follow(cx, &s.text, &mut x);
    super::cni::agent(cx, &mut x, &s.text, f);
    match x.cause.id {
        // A message that only lists all missing volumes says less than a message about one volume.
        cause::KF406 if x.names.get("what").is_none() => x = x.at_most(Confidence::Likely),
        _ => {}
    }
    if s.source == Source::Kube
        && f.node_seen.is_none()
        && x.confidence == Confidence::Certain
        && s.text.is_empty()
    {
        x = x.at_most(Confidence::Likely);
    }
    x
}

/// True for a line of the kubelet that may be about the same trouble as a signal: it tries both again within minutes.
fn is_near(o: &Evidence, s: &Signal<'_>) -> bool {
    o.stamp.at >= s.first.plus(-300 * SECOND)
}

/// Adds which credential provider of the kubelet fails for the image that is pulled, where its log says so.
fn no_credentials(cx: Context<'_>, s: &Signal<'_>, x: &mut Finding<'_>, f: &PodHistory<'_>) {
    // The kubelet asks for an image without its tag.
    let is_named = |image: &str| {
        let mut found = s.text.match_indices(image);
        let of_name = |c: char| c.is_alphanumeric() || "-_./".contains(c);
        found.any(|(at, _)| {
            let after = s.text.get(at + image.len()..).unwrap_or_default();
            !image.is_empty() && !after.starts_with(of_name)
        })
    };
    let node = cx.shared.node(&f.view.node);
    let failed = node.and_then(|n| {
        let mut all = n.credentials.iter();
        all.find(|c| is_near(&c.evidence, s) && is_named(&c.image))
    });
    if let Some(c) = failed {
        x.names.set("provider", &c.provider);
        x.names.set("failing", &c.why);
        x.proofs.push(crate::diagnose::finding::proof(&c.evidence));
    }
}

/// Adds why the kubelet cannot read what it has not read, where its log says so.
fn unlisted(cx: Context<'_>, s: &Signal<'_>, x: &mut Finding<'_>, f: &PodHistory<'_>) {
    let kinds: &[&str] = match (x.names.get("services"), x.names.get("kind")) {
        (Some(_), _) => &["Service"],
        (None, Some("secret")) => &["Secret"],
        (None, Some("configmap")) => &["ConfigMap"],
        _ => &["Secret", "ConfigMap"],
    };
    let node = cx.shared.node(&f.view.node);
    let told = node.and_then(|n| {
        let mut all = n.unlisted.iter();
        all.find(|u| kinds.contains(&u.kind.as_str()) && is_near(&u.evidence, s))
    });
    if let Some(u) = told {
        x.names.set("unlisted", &u.why);
        if signal::refuses_list(&u.why) {
            x.names.set("refused", &u.why);
        }
        x.proofs.push(crate::diagnose::finding::proof(&u.evidence));
    }
}

/// Adds the component that says the error, or does not answer, and the objects by which it works: the one that the
/// error names, else the CSI driver of the pod's own volume.
fn speaker(x: &mut Finding<'_>, s: &Signal<'_>, f: &PodHistory<'_>) {
    if !x.cause.names_speaker {
        return;
    }
    let of_volume = || {
        let name = x.names.get("volume")?;
        let mut volumes = f.api?.spec.volumes.iter();
        let volume = volumes.find(|v| v.kind == "csi" && v.name == name)?;
        Some(format!("CSI driver {}", volume.refers))
    };
    let Some(who) = signal::speaker(&s.text).or_else(of_volume) else {
        return;
    };
    if let Some(objects) = signal::objects_of(&who) {
        x.names.set("objects", objects);
    }
    x.names.set("speaker", &who);
}

/// Adds when the CSI driver's attacher last renewed its lease.
fn attacher(cx: Context<'_>, x: &mut Finding<'_>) {
    let Some(driver) = x.names.get("driver") else {
        return;
    };
    if let Some(l) = super::heard::driver(cx, "external-attacher-leader-", driver) {
        x.names
            .vary("heard", &super::heard::driver_in_words(cx, l), "");
        x.proofs.push(crate::diagnose::finding::proof(&l.evidence));
    }
}

/// Rewrites YuniKorn's amounts (`memory:23622320128 pods:1 vcore:5000`) as people write them: it counts bytes, and CPUs
/// in thousandths (apache/yunikorn-k8shim `pkg/common/resource.go`).
fn shares(x: &mut Finding<'_>) {
    use crate::diagnose::quantity::Quantity;
    for key in ["requested", "left"] {
        let Some(text) = x.names.get(key) else {
            continue;
        };
        let amount = |pair: &str| {
            let (resource, n) = pair.split_once(':')?;
            let (resource, n) = match resource {
                "vcore" => ("cpu", format!("{n}m")),
                other => (other, n.to_owned()),
            };
            Some(format!(
                "{} {resource}",
                Quantity::parse(&n)?.show(resource)
            ))
        };
        let amounts: Option<Vec<String>> = text.split_whitespace().map(amount).collect();
        if let Some(amounts) = amounts {
            x.names.replace(key, &amounts.join(", "));
        }
    }
}

/// Rewrites the amounts of a refusal as people write them: the kubelet gives bytes, and CPUs in thousandths.
fn amounts(x: &mut Finding<'_>) {
    use crate::diagnose::quantity::Quantity;
    let resource = x.names.get("resource").unwrap_or_default().to_owned();
    let suffix = if resource == "cpu" { "m" } else { "" };
    for key in ["requested", "used", "capacity"] {
        let amount = x
            .names
            .get(key)
            .and_then(|v| Quantity::parse(&format!("{v}{suffix}")));
        if let Some(q) = amount {
            x.names.replace(key, &q.show(&resource));
        }
    }
}
