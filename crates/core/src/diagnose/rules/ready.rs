//! Pods that run and are not ready: probes, readiness gates, the node, a status that lags.

use super::Context;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, node_of};
use crate::diagnose::history::{ContainerHistory, KillWhy, PodHistory, ProbeResult};
use crate::diagnose::limits;
use crate::diagnose::signal::{cause_in, unnamed_port};
use crate::diagnose::text::{list, shorten, span};
use crate::diagnose::unknown::may_be_listed;
use crate::diagnose::{Catalogue, Cause, Confidence, Recurrence, State};
use crate::flow::{Fact, Stage, line};
use kflow_model::{
    Body, Nanos,
    pod::{ContainerState, ProbeSpec, WatchEvent},
    stamp::SECOND,
    units::seconds,
};

/// A container may take this long to become ready, besides its probe's initial delay, before it is reported.
const SLOW_NS: i64 = limits::READY.ns;
/// The API shows the status of a container within a second.
const LAG_NS: i64 = limits::STATUS.ns;

pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let node = node_of(f.view, f.api);
    let dead = cx.shared.node(node).filter(|n| n.not_ready());
    found.retain(|k| k.cause.id != cause::KF805 || dead.is_some());
    if let Some(n) = dead
        && let Some(k) = found.iter_mut().find(|k| k.cause.id == cause::KF805)
    {
        if let Some((s, r, _)) = &n.ready {
            k.names.set("cond", &format!("Ready={s} {r}"));
        }
        k.proofs
            .extend(n.evidence.as_ref().map(crate::diagnose::finding::proof));
    }
    // The kubelet warns about DNS settings at the very start, and they keep no pod from being ready: they are no
    // trouble of a pod that starts.
    let runs = f.api.is_none_or(|p| {
        p.status
            .containers
            .iter()
            .all(|c| matches!(c.state, ContainerState::Running { .. }))
    });
    found.retain(|k| {
        k.cause.id != cause::KF808 || (runs && cx.now.since(f.view.created) >= SLOW_NS)
    });
    let flapping = f.flapping();
    for c in &f.containers {
        // Its probes fail because it ends. The object would tell that the pod is being deleted.
        let ends = f.api.is_none() && c.killed_since_start() == Some(KillWhy::Stop);
        if f.is_ephemeral(&c.name) || f.is_init(&c.name) || ends {
            continue;
        }
        let of_events = || {
            f.view
                .evidence
                .iter()
                .all(|o| matches!(o.body, Body::Event(_)))
        };
        if f.api.is_none() && c.started.is_none() && c.exits.is_empty() && of_events() {
            found.extend(of_probes_alone(f, c));
        }
        if !c.runs() {
            continue;
        }
        probes(cx, f, c, flapping, found);
        found.extend(not_killed_yet(f, c).filter(|x| {
            !found
                .iter()
                .any(|k| k.cause.id == x.cause.id && k.container == c.name)
        }));
    }
    gates(cx, f, found);
    lag(cx, f, found);
}

/// Returns the newest failure of a liveness probe that fails each time, and since when, while the container runs: the kubelet kills it
/// when that was often enough, which takes long where `failureThreshold` is high.
pub(super) fn fails_liveness<'h, 'a>(
    f: &PodHistory<'a>,
    c: &'h ContainerHistory<'a>,
) -> Option<(&'h ProbeResult<'a>, Nanos)> {
    let started = c.started.filter(|_| c.runs())?;
    let p = c.liveness.as_ref();
    let p = p.filter(|p| !p.errored && p.at >= started)?;
    let period = match probe(f, &c.name, "liveness") {
        Some(spec) => i64::from(spec.period_s.max(spec.timeout_s).max(1)) * SECOND,
        // Events alone do not tell it.
        None if f.api.is_none() => PERIOD_NS,
        None => return None,
    };
    let hushed = super::containers::is_hushed(f);
    // Each failure is told, until the kubelet drops some.
    let told = if hushed {
        limits::EVENTS_REPEAT.ns
    } else {
        2 * period + LAG_NS
    };
    // An Event that is listed counts all failures, those of earlier runs too.
    let (count, first) = match &p.evidence.body {
        Body::Event(e) => (e.count, e.began().unwrap_or(p.at).max(started)),
        _ => (
            p.count,
            p.at.plus(-period * i64::from(p.count.saturating_sub(1))),
        ),
    };
    let count = count.max(p.count);
    let in_a_row = p.at.since(first) <= period * i64::from(count) + LAG_NS;
    // A node that is busy for a moment fails a probe once or twice.
    let often = count >= FAILURES && in_a_row || hushed || c.kills > 0;
    // While the kubelet kills it, it is not probed. A kill in the second of the start is of the run before.
    let is_killed = c
        .killed
        .is_some_and(|(at, why, _)| why == KillWhy::Liveness && at > started.plus(SECOND));
    (often && (is_killed || f.now.since(p.at) <= told)).then_some((p, first))
}

/// Returns a finding for a container that fails its liveness probe and runs.
fn not_killed_yet<'a>(f: &PodHistory<'a>, c: &ContainerHistory<'a>) -> Option<Finding<'a>> {
    let (p, first) = fails_liveness(f, c)?;
    let x = Finding::new(cause::KF803, f).container(&c.name);
    let x = x
        .name("probe", &probe_of(f, &c.name, "liveness"))
        .name("what", &said(p.text))
        .state(State::Slow)
        .since(first)
        .proof(p.evidence);
    Some(match c.kills {
        0 => x,
        n => x.varying("times", &crate::diagnose::text::times(n)),
    })
}

/// Returns what failed probes say of a container of which nothing else is known, as a row or a message of an Event in a ticket:
/// it was running then, and is not known to have been started again since.
fn of_probes_alone<'a>(f: &PodHistory<'a>, c: &ContainerHistory<'a>) -> Option<Finding<'a>> {
    let of_kinds = [
        (
            cause::KF803,
            &c.liveness,
            "liveness",
            Some(KillWhy::Liveness),
        ),
        (cause::KF802, &c.startup, "startup", Some(KillWhy::Startup)),
        (cause::KF801, &c.readiness, "readiness", None),
    ];
    // The kubelet would have told again of a probe that goes on to fail.
    let recent = |p: &&ProbeResult<'a>| f.now.since(p.at) <= limits::EVENTS_REPEAT.ns;
    of_kinds.into_iter().find_map(|(id, failed, kind, why)| {
        let p = failed.as_ref().filter(recent)?;
        if id == cause::KF802 && has_passed(c, p) {
            return None;
        }
        let x = unrun(f, p, kind).unwrap_or_else(|| Finding::new(id, f).name("fails", "fails"));
        let killed = c.killed.filter(|(_, w, _)| Some(*w) == why);
        let x = x
            .container(&c.name)
            .name("what", &said(p.text))
            .since(p.at)
            .at_most(Confidence::Likely)
            .proof(p.evidence)
            .proof_if(killed.map(|(_, _, o)| o));
        Some(match killed {
            Some(_) => x.varying("times", &crate::diagnose::text::times(c.kills)),
            None => x,
        })
    })
}

/// True for a failure of a container that had just started, where Events alone are known of the pod: the kubelet would have told again of
/// a probe that goes on to fail.
fn failed_at_start(f: &PodHistory<'_>, p: &ProbeResult<'_>, started: Nanos) -> bool {
    let repeats = limits::EVENTS_REPEAT.ns;
    let is_old = f.now.since(p.at) > repeats && p.at.since(started) <= repeats;
    is_old && f.api.is_none() && matches!(p.evidence.body, Body::Event(_))
}

/// True for a startup probe that has passed since it failed: the other probes are run only after that
/// (pkg/kubelet/prober/worker.go, `doProbe`).
fn has_passed(c: &ContainerHistory<'_>, startup: &ProbeResult<'_>) -> bool {
    let mut others = c.liveness.iter().chain(&c.readiness);
    others.any(|other| other.at > startup.at)
}

/// True when the API shows the container as ready.
pub(super) fn is_ready(c: &ContainerHistory<'_>) -> bool {
    c.status.is_some_and(|s| s.ready)
}

/// Period of a probe whose specification is not known (pkg/apis/core/v1/defaults.go, `SetDefaults_Probe`).
const PERIOD_NS: i64 = 10 * SECOND;

/// Six periods of a probe (pkg/apis/core/v1/defaults.go, `SetDefaults_Probe`: 10 s).
const SEEN_NS: i64 = 60 * SECOND;

/// Number of failures in a row that make a probe fail when its specification is not known
/// (pkg/apis/core/v1/defaults.go, `SetDefaults_Probe`).
const FAILURES: u32 = 3;

/// True when the container is not ready, by the kubelet's log and the tap alone.
pub(super) fn unready_by_node(f: &PodHistory<'_>, c: &ContainerHistory<'_>) -> bool {
    let Some(started) = c.started else {
        return true;
    };
    // The kubelet would have logged a change of the probe's result.
    let still_ready = matches!(f.readiness_turned, Some((t, true)) if t >= started);
    let few = c.readiness.as_ref().is_some_and(|p| p.count < FAILURES);
    let failing = |p: &Option<ProbeResult<'_>>| {
        p.as_ref().is_some_and(|p| {
            // A probe that cannot be run leaves the container as it was: not ready, unless the log has said that it is
            // since it started.
            let as_it_was = c.ready_said.is_none_or(|(t, ready)| !ready || t < started);
            let counts = !p.errored || as_it_was;
            // An old kubelet does not say which container's probe has turned; one that goes on to fail is logged each time.
            let passes = matches!(f.readiness_turned, Some((t, true)) if t > p.at);
            p.at >= started
                && counts
                && !passes
                && !failed_at_start(f, p, started)
                && c.ready_said.is_none_or(|(t, ready)| !ready || t < p.at)
        })
    };
    (failing(&c.readiness) && !(still_ready && few)) || failing(&c.startup)
}

/// Returns a container's probe in words: `httpGet :8080/healthz every 10s, 3 failures in a row count`; empty when it
/// is not known.
pub(super) fn probe_of(f: &PodHistory<'_>, container: &str, kind: &str) -> String {
    probe(f, container, kind).map_or_else(String::new, |p| {
        // The API has both; a description whose command has several lines has neither.
        let every = match p.period_s {
            0 => String::new(),
            n => format!(" every {}", seconds(n.into())),
        };
        let counts = match p.failure_threshold {
            0 => String::new(),
            1 => ", each failure counts".to_owned(),
            n => format!(", {n} failures in a row count"),
        };
        format!("{}{every}{counts}", p.handler)
    })
}

/// Returns a probe of a container, by the pod's specification.
pub(super) fn probe<'p>(f: &PodHistory<'p>, container: &str, kind: &str) -> Option<&'p ProbeSpec> {
    f.api?
        .container(container)?
        .probes
        .iter()
        .find(|p| p.kind == kind)
}

/// Returns the cause in a probe's output, shortened.
pub(super) fn said(text: &str) -> String {
    if let Some(port) = unnamed_port(text) {
        return format!("no port of the container is named {port}");
    }
    shorten(cause_in(text).trim(), 200).to_string()
}

/// Returns the cause that keeps a probe's command from being run at all: the node refuses it, and the application was
/// not asked. An errno alone is no such cause: a command runs in the container's cgroup, where the pod's own limits of
/// processes and memory hold.
fn unrun<'a>(f: &PodHistory<'a>, p: &ProbeResult<'a>, kind: &str) -> Option<Finding<'a>> {
    let of_node = |c: &Cause| c.id == cause::KF715;
    let (cause, names) = (p.errored)
        .then(|| Catalogue::get().best("RunContainerError", p.text, of_node))
        .flatten()?;
    let mut x = Finding::of(cause, f).at(Stage::Ready);
    x.names = names;
    Some(x.name("probe", &format!("{kind} probe")))
}

fn probes<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    c: &ContainerHistory<'a>,
    flapping: Option<Recurrence>,
    found: &mut Vec<Finding<'a>>,
) {
    let Some(started) = c.started else { return };
    let running = cx.now.since(started);
    let delay = |kind| probe(f, &c.name, kind).map_or(0, |p| i64::from(p.initial_delay_s)) * SECOND;
    // `containers::init` reports a sidecar that does not start and so holds up the others.
    let told = f.api.is_none() && f.is_sidecar(&c.name) && c.kills == 0;
    if let Some(p) = c.startup.as_ref().filter(|p| p.at.plus(SECOND) >= started)
        && !told
        && !has_passed(c, p)
        && !failed_at_start(f, p, started)
        && c.status.and_then(|s| s.started) != Some(true)
        && !is_ready(c)
        && c.ready_said.is_none_or(|(t, r)| !r || t < p.at)
        && (running >= SLOW_NS + delay("startup") || c.kills > 0)
        && !found
            .iter()
            .any(|k| k.cause.id == cause::KF802 && k.container == c.name)
    {
        let x = unrun(f, p, "startup").unwrap_or_else(|| Finding::new(cause::KF802, f));
        let x = if c.kills > 0 {
            x.varying("times", &crate::diagnose::text::times(c.kills))
        } else {
            x.state(State::Slow)
        };
        found.push(
            x.container(&c.name)
                .name("probe", &probe_of(f, &c.name, "startup"))
                .name("what", &said(p.text))
                .since(started)
                .proof(p.evidence),
        );
        return;
    }
    let by_api = match f.is_ready() {
        Some(ready) => !ready && !is_ready(c),
        None => unready_by_node(f, c),
    };
    let failing = c
        .readiness
        .as_ref()
        .filter(|p| p.at.plus(SECOND) >= started);
    // One that was first seen when a probe failed may have been ready until then, and be ready soon.
    let was_ready = f.turns.iter().any(|t| t.ready) && !c.seen_running;
    let patience = if c.seen_running { SEEN_NS } else { SLOW_NS };
    let slow = running >= patience + delay("readiness");
    let x = Finding::new(cause::KF801, f);
    let x = x
        .container(&c.name)
        .name("probe", &probe_of(f, &c.name, "readiness"))
        .since(started);
    let mut x = match flapping {
        Some(_) => x
            .state(State::Flapping)
            .name("fails", "fails again and again"),
        None => x.name("fails", "fails"),
    };
    x.recurrence = flapping;
    match failing {
        Some(p) if (by_api && (slow || was_ready)) || flapping.is_some() => {
            let x = match unrun(f, p, "readiness") {
                Some(unrun) => unrun.container(&c.name).since(started),
                None => x,
            };
            let x = x.name("what", &said(p.text)).proof(p.evidence);
            found.push(x.proof_if(f.api_evidence));
        }
        // The sender may have dropped the probe's Event (25 in a burst, then one in five minutes).
        None if f.api.is_some()
            && (flapping.is_some()
                || (by_api && running >= limits::READY_BLIND.ns + delay("readiness")))
            && probe(f, &c.name, "readiness").is_some() =>
        {
            found.push(x.at_most(Confidence::Likely).proof_if(f.api_evidence));
        }
        _ => {}
    }
}

fn gates<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let (Some(pod), Some(o)) = (f.api, f.api_evidence) else {
        return;
    };
    let all_ready =
        !pod.status.containers.is_empty() && pod.status.containers.iter().all(|c| c.ready);
    let Some(ready) = pod.condition("Ready").filter(|c| !c.is_true()) else {
        return;
    };
    if !all_ready || pod.spec.readiness_gates.is_empty() {
        return;
    }
    let missing: Vec<_> = pod
        .spec
        .readiness_gates
        .iter()
        .filter(|g| pod.condition(g).is_none_or(|c| !c.is_true()))
        .collect();
    let since = pod
        .condition("ContainersReady")
        .and_then(|c| c.transition)
        .unwrap_or(o.stamp.at);
    if missing.is_empty() || cx.now.since(since) < limits::GATES.ns {
        return;
    }
    let x = Finding::new(cause::KF804, f);
    let what = format!("status Ready={} {}", ready.status, ready.reason);
    let x = x
        .name("gates", &list(&missing))
        .since(since)
        .proof_as(o, what);
    let mut x = match missing.first().and_then(|g| pod.condition(g)) {
        Some(c) => x.name("what", &format!("{} {}", c.reason, c.message)),
        None => x,
    };
    if let Some(binding) = missing
        .iter()
        .find_map(|g| g.strip_prefix("target-health.elbv2.k8s.aws/"))
    {
        x.names.set("binding", binding);
    }
    if let Some(p) = x.proofs.last_mut() {
        p.words = Some(ready.message.clone());
    }
    found.push(x);
}

/// True if the API's state of the pod is of a list that was read before it had to show a start at this moment, and not of a watch,
/// which shows what comes later.
fn was_read_before(cx: Context<'_>, f: &PodHistory<'_>, at: Nanos) -> bool {
    let is_plain = matches!(f.api, Some(p) if p.event == WatchEvent::Listed)
        && !may_be_listed(cx.world, f.view);
    is_plain
        && f.api_evidence
            .is_some_and(|o| o.stamp.seen.since(at) < LAG_NS)
}

fn lag<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(api) = f.api else { return };
    if found.iter().any(|k| k.cause.id != cause::KF808) {
        return;
    }
    // While kflow cannot read the API, it does not know what the API shows.
    if cx.world.coverage().unread("pods", cx.now).is_some() {
        return;
    }
    // A row of a table names no containers.
    let named = |c: &&ContainerHistory<'_>| api.container(&c.name).is_some();
    for c in f.containers.iter().filter(named) {
        let waiting = c
            .status
            .is_none_or(|s| matches!(s.state, ContainerState::Waiting { .. }));
        let Some(started) = c.started.filter(|_| waiting && c.exits.is_empty()) else {
            continue;
        };
        if cx.now.since(started) < LAG_NS || f.awaits_hook(c) || was_read_before(cx, f, started) {
            continue;
        }
        // `failed to patch status "{…}" for pod "ns"/"name": …`
        let refused = f.view.evidence.iter().rev().find_map(|o| match &o.body {
            Body::Log(l) => {
                let is_refused = line(l)?.fact() == Fact::StatusRefused;
                let why = l
                    .error
                    .rsplit_once("\": ")
                    .map_or(l.error.as_str(), |(_, why)| why);
                (is_refused && o.stamp.at >= started).then_some((o, why))
            }
            _ => None,
        });
        let what = refused.map_or("", |(_, why)| why);
        let x = Finding::new(cause::KF806, f).name("what", what);
        found.push(
            x.container(&c.name)
                .proof_if(refused.map(|(o, _)| o))
                .varying("running", &span(cx.now.since(started)))
                .since(started)
                // Without the tap the start is known from an Event alone, whose time has whole seconds
                // and is the kubelet's.
                .at_most(if f.has_cri {
                    Confidence::Likely
                } else {
                    Confidence::Possible
                })
                .proof_if(f.view.evidence.telling().rev().find(|o| {
                    let says = match &o.body {
                        Body::CallEnd(_) => f.has_cri,
                        Body::Event(e) => !f.has_cri && e.reason == "Started",
                        _ => false,
                    };
                    says && o.stamp.at <= started
                }))
                .proof_if(f.api_evidence),
        );
    }
}
