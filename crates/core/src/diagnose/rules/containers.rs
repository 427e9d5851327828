//! Containers that exit, init containers and sidecars that hold up the others, and hanging calls that
//! create or start containers.

use super::admit::joins_runtime;
use super::{Context, held_up};
use crate::backoff;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, quote};
use crate::diagnose::history::{
    ContainerHistory, Exit, KillWhy, PodCall, PodHistory, ProbeResult, never_ran,
};
use crate::diagnose::limits;
use crate::diagnose::signal;
use crate::diagnose::text::{alike, list, span, times};
use crate::diagnose::{Catalogue, Confidence, Proof, State};
use crate::flow::Stage;
use kflow_model::cri::{OOM_KILLED, method};
use kflow_model::event;
use kflow_model::pod::{ContainerState, PodPhase, WatchEvent};
use kflow_model::{Body, Evidence, Nanos, Source, Text, stamp::SECOND};

/// An init container that runs for longer is reported as slow: most are done in seconds.
const INIT_NS: i64 = limits::INIT.ns;
/// A sidecar without a slow startup probe counts as started at once.
const SIDECAR_NS: i64 = limits::SIDECAR.ns;
/// CreateContainer and StartContainer take tens of milliseconds.
const CALL_NS: i64 = limits::CREATE.ns;
/// The length of the longest termination message that a sentence has, characters.
const SAID: usize = 240;

pub(super) fn rules<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    crashes(f, found);
    init(cx, f, found);
    for (method, id) in [
        (method::CREATE_CONTAINER, cause::KF702),
        (method::START_CONTAINER, cause::KF704),
    ] {
        if let Some(call) = f.in_flight(method)
            && cx.now.since(call.at) >= CALL_NS
            && !joins_runtime(found, call, cx.now)
        {
            // The timeline counts a call that restarts a container to a later stage.
            let x = Finding::new(id, f);
            let x = match f.stage_of(call) {
                Some(stage) => x.at(stage).since(f.since(stage)),
                None => x,
            };
            let what = format!(
                "{method} has been in flight for {}",
                span(cx.now.since(call.at))
            );
            found.push(
                x.container(&call.container)
                    .state(State::Slow)
                    .at_most(Confidence::Likely)
                    .varying("what", &what)
                    .name("yet", "yet")
                    .call(call, cx.now),
            );
        }
    }
    post_start(cx, f, found);
    found.extend(f.containers.iter().filter_map(|c| survives(f, c)));
}

/// True for a container whose processes the kernel kills for lack of memory again and again, while the container itself runs. Once may
/// be anything: the kernel kills what uses most.
pub(super) fn loses_processes(f: &PodHistory<'_>, c: &ContainerHistory<'_>) -> bool {
    let recent = |(count, _, last): (u32, Nanos, &Evidence)| {
        count > 1 && f.now.since(last.stamp.at) < limits::EVENTS_REPEAT.ns
    };
    c.oom_kills.is_some_and(recent)
}

/// Returns a finding for such a container.
fn survives<'a>(f: &PodHistory<'a>, c: &ContainerHistory<'a>) -> Option<Finding<'a>> {
    let (count, first, last) = c.oom_kills.filter(|_| loses_processes(f, c))?;
    let ago = span(f.now.since(last.stamp.at));
    let x = limited(f, c, Finding::new(cause::KF709, f))
        .container(&c.name)
        .name("survived", &c.name)
        .name("itself", "the container itself runs on")
        .varying(
            "times",
            &format!("{}, the last time {ago} ago", times(count)),
        )
        .state(State::Slow)
        .since(first)
        .proof_as(
            last,
            "OOM kill of a process of the container, by the runtime's event",
        );
    Some(x)
}

/// Returns the call of a postStart hook that runs for long: an ExecSync without a deadline, for a container that has
/// just started and is not ready.
pub(super) fn hook_in_flight<'f, 'a>(f: &'f PodHistory<'a>) -> Option<&'f PodCall<'a>> {
    f.in_flight(method::EXEC_SYNC).filter(|call| {
        call.start.timeout_ns.is_none()
            && f.now.since(call.at) >= CALL_NS
            && f.deleted.is_none()
            && f.known(&call.container)
                .is_some_and(|c| is_new(c, call.at) && !super::ready::is_ready(c))
    })
}

/// True when the container had just started at this moment.
fn is_new(c: &ContainerHistory<'_>, at: Nanos) -> bool {
    c.started
        .is_some_and(|s| at.since(s) < limits::POST_START.ns)
}

fn post_start<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    if found.iter().any(|k| k.cause.id == cause::KF705) {
        return;
    }
    if let Some(call) = hook_in_flight(f) {
        let x = Finding::new(cause::KF705, f);
        found.push(
            x.container(&call.container)
                .state(State::Slow)
                .at_most(Confidence::Likely)
                .since(call.at)
                .call(call, cx.now),
        );
        return;
    }
    for c in &f.containers {
        let Some(started) = c.started.filter(|_| c.runs() && f.awaits_hook(c)) else {
            continue;
        };
        let running = cx.now.since(started);
        if running >= CALL_NS {
            let x = Finding::new(cause::KF705, f);
            found.push(
                x.container(&c.name)
                    .state(State::Slow)
                    .at_most(Confidence::Likely)
                    .since(started)
                    .varying("running", &span(running))
                    .proof_if(f.api_evidence)
                    .absence(
                        started,
                        Source::Kube,
                        "Started, has a postStart hook, and is not shown as running since",
                    ),
            );
        }
    }
}

/// Adds a finding for each container that ended and should not have, with the best reason that is known.
pub(super) fn crashes<'a>(f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let restarts = f.restarts_after_success();
    // What is known of a container without its name may be of one with a name.
    let (named, nameless): (Vec<_>, Vec<_>) = f.containers.iter().partition(|c| !c.name.is_empty());
    for c in named.into_iter().chain(nameless) {
        let init = f.is_init(&c.name);
        if f.is_ephemeral(&c.name) {
            continue;
        }
        let Some(last) = c.exits.last() else { continue };
        if !f.is_initial(&c.name) && f.initializes() {
            continue;
        }
        let recent = c
            .exits
            .iter()
            .filter(|e| f.now.since(e.at) < backoff::FORGOTTEN_NS)
            .count();
        let again = recent.max(c.restarts as usize);
        // A server that handles SIGTERM ends with 0 where the kubelet kills it for a probe.
        let by_kubelet = restarts != Some(false)
            && c.killed.is_some_and(|(t, why, _)| {
                why != KillWhy::Stop && last.at.since(t) < backoff::KILLED_NS
            });
        let fine = last.code == Some(0)
            && !by_kubelet
            && (init
                || restarts == Some(false)
                || (restarts.is_none() && again < 2 && !c.backs_off()));
        let loops = f.crash_loop(c).is_some();
        // The kubelet stopped the container, so the exit is no failure of its own.
        let stopped = c.killed.is_some_and(|(t, why, _)| {
            why == KillWhy::Stop && last.at.plus(2 * SECOND) >= t && last.at.since(t) < 600 * SECOND
        }) || c.stopping.zip(c.stopped).is_some_and(|(begin, end)| {
            // StopContainer lasts as long as the container takes to end, up to the grace period, and longer
            // on a busy node.
            let within = begin.plus(-2 * SECOND) <= last.at && last.at <= end.plus(2 * SECOND);
            within && c.killed.is_none()
        });
        // A container that never ran cannot have been stopped.
        let stopped = stopped && !never_ran(&last.reason);
        let dead = f.api.is_some_and(|p| p.status.phase == PodPhase::Failed);
        // The kubelet says so of a container that it has never started too, as behind an init container that failed.
        let unfound = last.reason == "ContainerStatusUnknown" && c.started.is_none();
        let is_behind =
            unfound && !init && f.containers.iter().any(|o| f.is_init(&o.name) && failed(o));
        if fine || (stopped && !c.runs() && !dead) || (c.runs() && !loops) || is_behind {
            continue;
        }
        crash(f, c, last, init, found);
    }
}

/// True for a container that has ended last with a code that is not 0.
fn failed(c: &ContainerHistory<'_>) -> bool {
    let last = c.exits.last().filter(|_| !c.runs());
    last.is_some_and(|e| e.code.is_some_and(|code| code != 0))
}

/// True when the newest failure of a probe is of the container's run that the back-off follows, or may be.
fn of_late(f: &PodHistory<'_>, probe: Option<&ProbeResult<'_>>) -> bool {
    let at = probe.map(|p| p.at);
    at.is_some_and(|at| f.now.since(at) < backoff::FORGOTTEN_NS)
}

/// True when the container is not started again, though the pod goes on: others run, and the pod's restartPolicy is
/// Never (pkg/kubelet/container/helpers.go, `ShouldContainerBeRestarted`).
fn is_left(f: &PodHistory<'_>, c: &ContainerHistory<'_>) -> bool {
    let never = f.api.is_some_and(|p| p.spec.restart_policy == "Never");
    never && !c.runs() && !f.is_sidecar(&c.name)
}

/// True when a list shows that the container has ended for the first time, long after that: the kubelet starts such a container again at
/// once, if at all.
fn stays_ended(f: &PodHistory<'_>, c: &ContainerHistory<'_>, last: &Exit<'_>) -> bool {
    let is_listed = f.api.is_some_and(|p| p.event == WatchEvent::Listed);
    let read = f.api_evidence.map(|o| o.stamp.seen);
    let first = c
        .status
        .is_some_and(|s| s.restarts == 0 && matches!(s.state, ContainerState::Terminated(_)));
    let is_long = read.is_some_and(|read| read.since(last.at) >= limits::RESTART.ns);
    is_listed && first && is_long && !last.was_before && !c.runs()
}

/// True when nothing starts the pod's containers again.
fn is_final(f: &PodHistory<'_>) -> bool {
    f.api.is_some_and(|p| p.status.phase == PodPhase::Failed) || f.is_over_on_node()
}

/// Returns when the kubelet first waited before it started the container again, by the Event that counts these waits: a status has only
/// the last end.
fn backed_off_since(c: &ContainerHistory<'_>) -> Option<Nanos> {
    let firsts = c.backed_off.iter().filter_map(|o| match &o.body {
        Body::Event(e) => e.first,
        _ => None,
    });
    firsts.min()
}

/// True when the kubelet has sent so many Events of the pod that it drops some.
pub(super) fn is_hushed(f: &PodHistory<'_>) -> bool {
    let telling = f.view.evidence.telling();
    event::is_hushed(telling.filter_map(|o| match &o.body {
        Body::Event(e) => Some(&**e),
        _ => None,
    }))
}

/// True when a container ended as it does when it is killed for a probe or a hook, as it was at that time: by SIGTERM or SIGKILL, or
/// as it ended then.
fn ends_alike(c: &ContainerHistory<'_>, killed: Nanos, last: &Exit<'_>) -> bool {
    let then = |e: &Exit<'_>| e.at >= killed && e.at.since(killed) < backoff::KILLED_NS;
    let by_signal = matches!(last.code, Some(0 | 137 | 143));
    let as_then = || c.exits.iter().any(|e| then(e) && e.code == last.code);
    last.reason != OOM_KILLED && (by_signal || as_then())
}

/// True when the liveness probe failed about as often as it takes for each of the restarts: of a container that is killed for
/// long, the Events of the kills may be gone.
fn failed_for_each_restart(f: &PodHistory<'_>, c: &ContainerHistory<'_>) -> bool {
    let Some(Body::Event(e)) = c.liveness.as_ref().map(|p| &p.evidence.body) else {
        return false;
    };
    // Some Events of failures may be lost too.
    super::ready::probe(f, &c.name, "liveness").is_some_and(|p| {
        let threshold = i64::from(p.failure_threshold.max(1));
        let needed = threshold.saturating_mul(i64::from(c.restarts));
        c.restarts >= 2 && i64::from(e.count) * 10 >= needed * 9
    })
}

fn crash<'a>(
    f: &PodHistory<'a>,
    c: &ContainerHistory<'a>,
    last: &Exit<'a>,
    init: bool,
    found: &mut Vec<Finding<'a>>,
) {
    let n = f.ends(c);
    // A kill and the exit that it causes are at most a grace period apart. A kill after the exit is of the run
    // that goes on, and has the same reason.
    let killed = c.killed.filter(|(_, why, _)| *why != KillWhy::Stop);
    // What the kernel has killed was not killed for a probe, though another run may have been.
    let by_kernel = last.reason == OOM_KILLED && c.kills < c.restarts;
    let of_exit = killed.filter(|(t, _, _)| !by_kernel && last.at.since(*t) < backoff::KILLED_NS);
    let untold = killed.is_some() && of_exit.is_none() && is_hushed(f);
    let killed = of_exit.or(killed.filter(|(t, _, _)| untold && ends_alike(c, *t, last)));
    let probe = |kind: &str| super::ready::probe_of(f, &c.name, kind);
    let failing =
        |p: &Option<ProbeResult<'a>>| p.as_ref().map(|p| (super::ready::said(p.text), p.evidence));
    let times_killed = times(c.kills.max(c.restarts));
    let mut x = match killed {
        Some((_, KillWhy::Liveness, o)) => {
            let x = Finding::new(cause::KF803, f)
                .name("probe", &probe("liveness"))
                .varying("times", &times_killed);
            Some(match failing(&c.liveness) {
                Some((what, e)) => x.name("what", &what).proof(o).proof(e),
                None => x.proof(o),
            })
        }
        Some((_, KillWhy::Startup, o)) => {
            let x = Finding::new(cause::KF802, f)
                .name("probe", &probe("startup"))
                .varying("times", &times_killed);
            Some(match failing(&c.startup) {
                Some((what, e)) => x.name("what", &what).proof(o).proof(e),
                None => x.proof(o),
            })
        }
        Some((_, KillWhy::PostStart, o)) => {
            if found
                .iter()
                .any(|k| k.cause.id == cause::KF705 && k.container == c.name)
            {
                None
            } else {
                Some(Finding::new(cause::KF705, f).proof(o))
            }
        }
        _ if last.reason == OOM_KILLED => Some(out_of_memory(f, c, last)),
        // Of a kill by a probe not the Event of the kill may be known, but the failures before it.
        None if (last.code.is_none() && of_late(f, c.liveness.as_ref()))
            || failed_for_each_restart(f, c) =>
        {
            let x = Finding::new(cause::KF803, f)
                .name("probe", &probe("liveness"))
                .varying("times", &times_killed)
                .at_most(Confidence::Likely);
            failing(&c.liveness).map(|(what, e)| x.name("what", &what).proof(e))
        }
        _ if never_ran(&last.reason) => {
            let named = found.iter().any(|k| {
                matches!(
                    k.cause.id,
                    cause::KF704 | cause::KF606 | cause::KF711 | cause::KF414 | cause::KF714
                ) && k.container == c.name
            });
            if named {
                None
            } else {
                Catalogue::get()
                    .best("StartError", &last.message, |_| true)
                    .map(|(cause, names)| {
                        let mut x = Finding::of(cause, f);
                        x.names = names;
                        x
                    })
            }
        }
        // The kubelet may have put the end of the container's log there.
        _ => Catalogue::get()
            .best(super::CONTAINER_LOG, &last.message, |_| true)
            .map(|(cause, names)| {
                let mut x = Finding::of(cause, f).at(Stage::Start);
                x.names = names;
                x
            }),
    };
    if untold && killed.is_some() {
        x = x.map(|x| x.at_most(Confidence::Likely));
    }
    // A cause of the catalogue may already say why the container ended.
    let may_be_of_it = |k: &Finding<'_>| k.container == c.name || c.name.is_empty();
    let told = found
        .iter()
        .any(|k| may_be_of_it(k) && k.stage >= Stage::Image && k.cause.id != cause::KF613);
    if x.is_none() && !told {
        let id = if init { cause::KF707 } else { cause::KF708 };
        // Where nothing tells that it is started again, as in a row of a table, it has ended.
        let again = c.runs() || c.backs_off() || (n > 1 && !is_final(f) && !is_left(f, c));
        let mut of_exit = Finding::new(id, f)
            .ends(&in_words(f, c, last, n), last.code, again)
            .name("held", &list(&held_up(f, &c.name)));
        if let Some(said) = said(&last.message) {
            of_exit.names.vary("said", &said, &alike(&said));
        }
        if last.code.is_none() {
            of_exit = of_exit
                .at_most(Confidence::Likely)
                .name("unseen", "its exit code, or a probe that failed");
        }
        x = Some(of_exit);
    }
    let waits_again = !c.runs();
    let wait = c.status.and_then(|s| match &s.state {
        ContainerState::Waiting { message, .. } => signal::wait_in(message),
        _ => None,
    });
    let next = wait.map_or_else(|| backoff::next_start(n, last.at), |d| last.at.plus(d));
    let next = Some(next).filter(|_| !last.was_before);
    let dead = is_final(f);
    let left = is_left(f, c) || stays_ended(f, c, last);
    let over = |x: &mut Finding<'a>| {
        x.attempt = n;
        x.next_retry = next.filter(|_| waits_again && !dead && !left);
        x.state = if dead {
            State::Failed
        } else if left {
            State::Stuck
        } else if waits_again && last.was_before && !c.backs_off() {
            // Nothing tells that it is started again.
            State::Stuck
        } else if waits_again {
            State::BackingOff
        } else {
            x.recurrence = f.crash_loop(c);
            State::CrashLooping
        };
        if let Some(first) = c.exits.first() {
            let counted = backed_off_since(c);
            x.since = first.at.min(counted.unwrap_or(first.at));
            // A list has the last end only, and how often it was. The first restart follows at once, and is not counted as a wait.
            let listed =
                matches!(&first.evidence.body, Body::Pod(p) if p.event == WatchEvent::Listed);
            let more = usize::try_from(n).is_ok_and(|n| n > c.exits.len());
            // What came before the first wait is little beside a long row of them.
            let long = counted.is_some_and(|at| f.now.since(at) >= backoff::FORGOTTEN_NS);
            let unseen = listed && more && !long;
            x.at_least = first.was_before || unseen;
            if unseen && counted.is_none() {
                x.since = first.at.plus(-wait.map_or(0, backoff::before));
            }
        }
    };
    let shown = crate::diagnose::finding::proof(last.evidence);
    let ended = match in_short(c, last) {
        Some(what) => Proof {
            at: last.at,
            precision: last.at.likely_precision(),
            what,
            words: Some(quote(&last.message)).filter(|words| !words.is_empty()),
            ..shown
        },
        None => shown,
    };
    for k in found
        .iter_mut()
        .filter(|k| k.container == c.name && (Stage::Start..=Stage::Ready).contains(&k.stage))
    {
        over(k);
        // All evidence so far is older than the exit.
        if k.proofs.iter().all(|p| p.at.plus(SECOND) < last.at) {
            k.proofs.push(ended.clone());
        }
    }
    let Some(x) = x else { return };
    let mut x = x.container(&c.name);
    let mut backs_off = f.signals.iter();
    let backs_off = backs_off.find(|s| s.reason == "CrashLoopBackOff" && s.container == c.name);
    // The status that shows that it ended says it by this word.
    if !(last.was_before && backs_off.is_some()) {
        x.proofs.push(ended);
    }
    if let Some(s) = backs_off {
        x.proofs.push(crate::diagnose::finding::signal_proof(s));
    }
    over(&mut x);
    if x.stage == Stage::Ready {
        // The probe's kill explains the crash loop, so the finding about the exit goes.
        found.retain(|k| !(k.container == c.name && k.stage == Stage::Start));
    }
    // Between a container's start and its readiness, the pod is in the stage Ready.
    if x.state == State::CrashLooping {
        x.stage = f
            .stage_among(Stage::Ready..=Stage::Ready)
            .unwrap_or(x.stage);
    }
    found.push(x);
}

/// Returns what is said of a container that the kernel killed for its memory.
fn out_of_memory<'a>(f: &PodHistory<'a>, c: &ContainerHistory<'a>, last: &Exit<'a>) -> Finding<'a> {
    let x = Finding::new(cause::KF709, f);
    let x = match last.code {
        // The runtime says OOMKilled when the kernel killed any process of the container, at any time.
        Some(code) if code != 137 => {
            let itself = match code {
                0 | 143 => "and may have another reason to end",
                _ => "most likely because of it",
            };
            x.name("survived", &c.name)
                        .name("exit", &code.to_string())
                        .name("itself", &format!("the container's own process was not killed: it ended later by itself, {itself}"))
        }
        Some(code) => x.name("killed", &c.name).name("exit", &code.to_string()),
        None => x.name("killed", &c.name),
    };
    limited(
        f,
        c,
        x.varying("times", &format!("{} so far", times(f.ends(c)))),
    )
}

/// Adds how much memory a container may use.
fn limited<'a>(f: &PodHistory<'a>, c: &ContainerHistory<'a>, x: Finding<'a>) -> Finding<'a> {
    let memory = |limits: &[(Text, Text)]| {
        let of_memory = limits.iter().find(|(k, _)| k == "memory");
        of_memory.map(|(_, v)| v.clone())
    };
    let of_container = f.api.and_then(|p| memory(&p.container(&c.name)?.limits));
    match of_container.or_else(|| memory(&f.api?.spec.limits)) {
        Some(l) => x.name("limit", &l),
        None => x.name("nolimit", "it may"),
    }
}

/// Returns what is said of a pod that is described alone and well now, where its container was killed for its memory before: somebody
/// asks why it was started again. Of all pods of a cluster this would be no news.
pub(in crate::diagnose) fn killed_before<'a>(f: &'a PodHistory<'a>) -> Option<Finding<'a>> {
    let is_asked = f.view.uid.is_described() && f.view.gone.is_none();
    let (c, _) = f.past().filter(|_| is_asked)?;
    let c = c?;
    let last = c.exits.last().filter(|e| e.reason == OOM_KILLED)?;
    let x = out_of_memory(f, c, last)
        .container(&c.name)
        .name("again", "it runs again");
    Some(x.state(State::Recovered).since(f.now).proof(last.evidence))
}

/// Returns a container's termination message where a sentence can have it: it may also be the end of the container's log
/// (terminationMessagePolicy FallbackToLogsOnError), or data for a controller.
fn said(message: &str) -> Option<String> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    let is_data = line.starts_with(['{', '[']);
    let fits = !is_data && line.chars().count() <= SAID;
    fits.then(|| line.trim_end_matches('.').to_owned())
        .filter(|line| !line.is_empty())
}

/// Returns how a container ended: `container web ended: exit code 1 (Error)`; `None` where nothing of that is known.
fn in_short(c: &ContainerHistory<'_>, last: &Exit<'_>) -> Option<String> {
    if last.code.is_none() && last.reason.is_empty() && last.message.is_empty() {
        return None;
    }
    let mut what = match c.name.as_str() {
        "" => "a container ended".to_owned(),
        name => format!("container {name} ended"),
    };
    if let Some(code) = last.code {
        what.push_str(&format!(": exit code {code}"));
    }
    if !last.reason.is_empty() {
        what.push_str(&format!(" ({})", last.reason));
    }
    Some(what)
}

/// Returns how a container ends, in words: `ends with exit code 137, killed by SIGKILL (OOMKilled) after 3s, 5 times
/// so far`, or `ended with exit code 1 (Error), and has ended 26 times so far` where only the newest end is known.
fn in_words(f: &PodHistory<'_>, c: &ContainerHistory<'_>, last: &Exit<'_>, n: u32) -> String {
    let Some(exit) = last.code else {
        let (how, codes) = match (last.reason.as_str(), n) {
            ("", _) => ("", "exit codes were"),
            (_, 0 | 1) => (" with an error", "exit code was"),
            _ => (" with an error", "exit codes were"),
        };
        let n = times(n);
        return format!("has ended{how} at least {n}; its {codes} not recorded");
    };
    let signal = match exit {
        137 => ", killed by SIGKILL",
        139 => ", a segmentation fault",
        143 => ", stopped by SIGTERM",
        134 => ", aborted",
        126 => ", its command cannot be executed",
        127 => ", its command was not found",
        _ => "",
    };
    // Windows' codes are known by their hexadecimal form.
    let exit = match exit {
        0..=255 => exit.to_string(),
        _ => format!("{exit} (0x{exit:08X})"),
    };
    let reason = if last.reason.is_empty() || last.reason == "Error" {
        String::new()
    } else {
        format!(" ({})", last.reason)
    };
    // When it ended may not be told.
    let ran = c
        .started
        .filter(|s| *s < last.at && !last.was_before)
        .map(|s| format!(" after {}", span(last.at.since(s))))
        .unwrap_or_default();
    let policy = f.api.map_or("Never", |p| p.spec.restart_policy.as_str());
    if is_final(f) && policy == "Never" && n <= 1 {
        return format!("ended with exit code {exit}{signal}{reason}{ran}, and is not restarted");
    }
    if is_left(f, c) && n <= 1 && !f.is_init(&c.name) {
        return format!(
            "ended with exit code {exit}{signal}{reason}{ran} and is not started again (restartPolicy Never), so that the pod does not become ready"
        );
    }
    let code = format!("exit code {exit}{signal}{reason}");
    // Of the earlier ends a list has no more than their number.
    let known = c.exits.iter().filter(|e| e.code == last.code).count();
    if n > 1 && usize::try_from(n).is_ok_and(|n| n > known) {
        return format!("ended with {code}{ran}, and has ended {} so far", times(n));
    }
    format!("ends with {code}{ran}, {} so far", times(n))
}

fn init<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    for c in f.containers.iter().filter(|c| f.is_initial(&c.name)) {
        let held = held_up(f, &c.name);
        // Without the API, the other containers are not known before they are begun.
        let holds = !held.is_empty() || f.api.is_none();
        let Some(started) = c.started.filter(|_| c.runs() && holds) else {
            continue;
        };
        let running = cx.now.since(started);
        if f.is_sidecar(&c.name) {
            let begun = c.status.and_then(|s| s.started);
            let failing = c.startup.as_ref().filter(|p| p.at >= started);
            if running < SIDECAR_NS || begun == Some(true) || (begun.is_none() && failing.is_none())
            {
                continue;
            }
            let x = Finding::new(cause::KF710, f);
            let said = failing.map(|p| super::ready::said(p.text));
            let what = match said.as_deref() {
                None => format!("it has been running for {}", span(running)),
                // A command that writes nothing.
                Some("") => "its startup probe fails".to_owned(),
                Some(said) => format!("its startup probe fails: {said}"),
            };
            found.push(
                x.container(&c.name)
                    .name("what", &what)
                    .name("held", &list(&held))
                    .since(started)
                    .proof_if(failing.map(|p| p.evidence).or(f.api_evidence)),
            );
        } else if running >= INIT_NS
            && !found.iter().any(|k| k.container == c.name)
            // Without the API: the next container's image is pulled only once this init container is done, or when it
            // is a sidecar.
            && (f.api.is_some() || f.containers.iter().all(|o| o.first.max(o.created) <= c.started))
        {
            let x = Finding::new(cause::KF707, f);
            found.push(
                x.container(&c.name)
                    .state(State::Slow)
                    .at_most(if f.api.is_some() {
                        Confidence::Likely
                    } else {
                        Confidence::Possible
                    })
                    .varying(
                        "what",
                        &format!("has been running for {} and is not done", span(running)),
                    )
                    .name("held", &list(&held))
                    .since(started)
                    .proof_if(f.api_evidence),
            );
        }
    }
}
