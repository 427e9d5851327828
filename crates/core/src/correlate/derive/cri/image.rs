//! The stage `image`: lookup, pull, refusal and back-off.

use rustc_hash::FxHashMap;

use crate::correlate::derive::Build;
use crate::correlate::derive::cri::{nested, of_work};
use crate::correlate::derive::runtime_calls::RuntimeCall;
use crate::correlate::derive::span::{edge, event_edge, narrow};
use crate::flow::{Fact, Stage, event};
use crate::timeline::{Certainty, Edge, Outcome, Span, SpanIndex};
use kflow_model::cri::method;
use kflow_model::event::is_hushed;
use kflow_model::pod::{ContainerState, PodSeen};
use kflow_model::stamp::{MILLI, SECOND};
use kflow_model::{Body, Evidence, Nanos, Text};

/// Longest time between an Event and the call that it announces, ns; measured: at most 0.03 s (S1-basics).
const BESIDE_NS: i64 = 50 * MILLI;
/// A status keeps the failure of the last pull while the next one runs. A pull that was announced so long before has most likely
/// failed too, ns: those before it, whose Events the kubelet did send, took seconds.
const KEPT_NS: i64 = 60 * SECOND;

/// Name and attempt of the container that an image is looked up or pulled for; the request contains only the image.
///
/// A worker handles one container at a time, so it is the next container with that image to be created. When none
/// follows, it is the container of the spec with that image that was created least often so far, the first of several.
fn container_of_image(b: &Build<'_>, at: usize, w: &RuntimeCall) -> (Text, u32) {
    let specs: Vec<(&Text, &Text)> = b
        .seen
        .newest()
        .map(|p| {
            p.spec
                .init_containers
                .iter()
                .chain(&p.spec.containers)
                .map(|c| (&c.name, &c.image))
                .collect()
        })
        .unwrap_or_default();
    let has_image =
        |name: &Text| specs.is_empty() || specs.iter().any(|(n, i)| *n == name && **i == w.image);
    let until = b
        .work
        .iter()
        .skip(at + 1)
        .find(|x| x.method == method::CREATE_CONTAINER && has_image(&x.container))
        // A restart much later did not wait for an image that was pulled for another container.
        .filter(|x| {
            w.ended()
                .is_none_or(|e| x.start.at.since(e) < 10 * kflow_model::stamp::SECOND)
                && x.start.at >= w.start.at
        });
    if let Some(c) = until {
        return (c.container.clone(), c.attempt.unwrap_or(0));
    }
    let created = |name: &Text| {
        b.work
            .iter()
            .take(at)
            .filter(|x| x.method == method::CREATE_CONTAINER && x.container == *name && x.ok())
            .count() as u32
    };
    specs
        .iter()
        .filter(|(_, i)| **i == w.image)
        .map(|(n, _)| ((*n).clone(), created(n)))
        .min_by_key(|(_, n)| *n)
        .unwrap_or_default()
}

/// Adds the spans of `image`.
pub(crate) fn image(b: &mut Build<'_>) {
    let mut named: Vec<(usize, Text, u32)> = Vec::new();
    for (i, w) in b.work.iter().enumerate() {
        if matches!(w.method.as_str(), method::IMAGE_STATUS | method::PULL_IMAGE) {
            let (container, attempt) = container_of_image(b, i, w);
            named.push((i, container, attempt));
        }
    }
    let work = std::mem::take(&mut b.work);
    let mut pulls: Vec<(Text, Edge, SpanIndex)> = Vec::new();
    for (i, container, attempt) in named {
        let Some(w) = work.get(i) else { continue };
        let mut s = of_work(Stage::Image, w);
        s.container.clone_from(&container);
        s.attempt = attempt;
        if s.message.is_empty() {
            s.message.clone_from(&w.image);
        }
        let start = s.start;
        let index = b.add(s);
        if w.method == method::PULL_IMAGE {
            nested(b, index, w);
            pulls.push((container, start, index));
        }
    }
    b.work = work;
    ensure(b, &pulls);
    refused(b);
    if b.of(Stage::Image).next().is_none() {
        b.successes(Stage::Image, "EnsureImageExists", "Pulled");
    }
    back_off(b);
}

/// Adds images that the kubelet refuses to pull: an invalid name, or a policy that forbids it.
fn refused(b: &mut Build<'_>) {
    let f = b.seen;
    let mut attempts: FxHashMap<&Text, u32> = FxHashMap::default();
    for (o, e) in f.events_of(&["InspectFailed", "ErrImageNeverPull"]) {
        let mut end = event_edge(o);
        let until = end.at.plus(i64::from(end.precision));
        let asked = b
            .work
            .iter()
            .rfind(|w| {
                w.method == method::IMAGE_STATUS
                    && w.start.at < until
                    && end.at.since(w.start.at) < kflow_model::stamp::SECOND
            })
            .and_then(|w| {
                end = narrow(end, w.ended(), None);
                Some((w.start, w.evidence.first()?.clone()))
            });
        let mut evidence = vec![o.clone()];
        let start = asked.map_or(end, |(at, x)| {
            evidence.push(x);
            at
        });
        let attempt = attempts.entry(&e.container).or_default();
        let start = match *attempt {
            0 => start.min(f.first_edge_of(o)),
            _ => start,
        };
        let mut s = Span::new(
            Stage::Image,
            "EnsureImageExists",
            start,
            Some(end),
            Certainty::Inferred,
            evidence,
        );
        s.container.clone_from(&e.container);
        s.attempt = *attempt;
        *attempt += 1;
        s.outcome = Outcome::Error;
        s.code = if e.reason == "InspectFailed" {
            "InvalidImageName".into()
        } else {
            e.reason.clone()
        };
        if e.reason == "InspectFailed" && !e.message.contains("invalid") {
            s.code = "ImageInspectError".into();
        }
        s.message.clone_from(&e.message);
        b.add(s);
    }
}

/// Adds `EnsureImageExists` around a pull, from `Pulling` to `Pulled` or `Failed`, so that a wait in
/// the queue is visible.
fn ensure(b: &mut Build<'_>, pulls: &[(Text, Edge, SpanIndex)]) {
    let f = b.seen;
    let mut events: Vec<_> = f
        .events_of(&["Pulling", "Pulled", "Failed"])
        .filter(|(_, e)| {
            e.reason == "Pulling"
                || matches!(
                    event(&e.reason, &e.message),
                    Some(Fact::ImagePulled | Fact::PullFailed)
                )
        })
        .collect();
    // An Event that occurred again has a whole second: of those of one second, the pull begins first.
    events.sort_by_key(|(o, e)| (o.stamp.at, e.reason != "Pulling"));
    for (i, (o, e)) in events.iter().enumerate() {
        if e.reason != "Pulling" {
            continue;
        }
        let end = events
            .iter()
            .skip(i + 1)
            .take_while(|(_, x)| !(x.reason == "Pulling" && x.container == e.container))
            .find(|(_, x)| x.container == e.container);
        let mut later = events.iter().skip(i + 1);
        let is_last = later.all(|(_, x)| x.container != e.container);
        let called = |(c, at, _): &(Text, Edge, SpanIndex)| {
            (*c == e.container || c.is_empty()) && at.at.plus(BESIDE_NS) >= o.stamp.at
        };
        let untold = (is_last && !pulls.iter().any(called))
            .then(|| failed_untold(b, &e.container, o.stamp.at))
            .flatten();
        let mut evidence = vec![(*o).clone()];
        evidence.extend(end.map(|(o, _)| (*o).clone()));
        // A repeated Event has only a whole second; the call within the step narrows it.
        let call = pulls
            .iter()
            .filter(|(c, _, _)| *c == e.container || c.is_empty())
            .filter_map(|(_, _, i)| b.spans().get(*i as usize))
            .find(|s| {
                let e = event_edge(o);
                // The Event is sent just before the call.
                s.start.at >= e.at && s.start.at.since(e.at) <= i64::from(e.precision) + BESIDE_NS
            })
            .map(|s| (s.start.at, s.end.map(|e| e.at)));
        let begin = narrow(event_edge(o), None, call.map(|c| c.0));
        let stop = end.map(|(o, _)| narrow(event_edge(o), call.and_then(|c| c.1), None));
        let mut s = Span::new(
            Stage::Image,
            "EnsureImageExists",
            begin,
            stop,
            Certainty::Inferred,
            evidence,
        );
        if call.is_some() && begin.precision > 1 {
            // The step is only known to have begun before the call.
            if let Some((at, _)) = call {
                s.start = Edge { at, precision: 1 };
            }
        }
        s.container.clone_from(&e.container);
        s.message.clone_from(&e.message);
        if let Some((_, x)) = end {
            if x.warning {
                s.outcome = Outcome::Error;
            }
            s.message.clone_from(&x.message);
        } else if let Some((state, message)) = untold {
            s.end = Some(edge(state));
            s.evidence.push(state.clone());
            s.outcome = Outcome::Error;
            s.message.clone_from(message);
        } else if let Some(at) = b.view.gone {
            s.end = Some(Edge { at, precision: 1 });
            s.outcome = Outcome::Cancelled;
        }
        let (start, stop) = (s.start, s.end);
        let inner: Vec<SpanIndex> = pulls
            .iter()
            .filter(|(c, at, _)| {
                (*c == e.container || c.is_empty())
                    // The Event is recorded next to the call, not before it.
                    && at.at.plus(BESIDE_NS) >= start.at
                    && stop.is_none_or(|x| at.at <= x.at)
            })
            .map(|(_, _, i)| *i)
            .collect();
        // The step includes its calls.
        for i in &inner {
            if let Some(p) = b.spans().get(*i as usize) {
                s.start = s.start.min(p.start);
                s.end = match (s.end, p.end) {
                    (Some(a), Some(z)) => Some(a.max(z)),
                    (None, Some(z))
                        if p.outcome != Outcome::InFlight && end.is_none() && pulls.len() == 1 =>
                    {
                        s.outcome = p.outcome;
                        Some(z)
                    }
                    (a, _) => a,
                };
                if s.attempt == 0 {
                    s.attempt = p.attempt;
                }
            }
        }
        let index = b.add(s);
        for i in inner {
            if let Some(p) = b.span_mut(i)
                && p.parent.is_none()
            {
                p.parent = Some(index);
            }
        }
    }
}

/// Returns the message of a status in which a container waits because its image could not be pulled.
fn pull_failed<'a>(pod: &'a PodSeen, container: &Text) -> Option<&'a Text> {
    let status = pod.statuses().find(|s| s.name == *container)?;
    match &status.state {
        ContainerState::Waiting { reason, message }
            if matches!(reason.as_str(), "ErrImagePull" | "ImagePullBackOff") =>
        {
            Some(message)
        }
        _ => None,
    }
}

/// Returns the status that shows that a pull which was announced at `since` has failed, where the kubelet sends no Event of that any
/// more, with its message: the first one whose reason differs from that before the pull, or the newest one long after it.
fn failed_untold<'a>(
    b: &Build<'a>,
    container: &Text,
    since: Nanos,
) -> Option<(&'a Evidence, &'a Text)> {
    let f = b.seen;
    if !is_hushed(f.events.iter().map(|(_, e)| *e)) {
        return None;
    }
    let reason = |p: &PodSeen| {
        let status = p.statuses().find(|s| s.name == *container)?;
        Some(match &status.state {
            ContainerState::Waiting { reason, .. } => reason.clone(),
            _ => Text::default(),
        })
    };
    let (before, after): (Vec<_>, Vec<_>) = f
        .states
        .iter()
        .copied()
        .partition(|(o, _)| o.stamp.at < since);
    let shown = before.last().and_then(|(_, p)| reason(p));
    let changed = after.iter().find(|(_, p)| {
        pull_failed(p, container).is_some() && shown.is_some() && reason(p) != shown
    });
    let kept = after
        .last()
        .filter(|(o, _)| o.stamp.at.since(since) > KEPT_NS);
    let (o, p) = changed.or(kept)?;
    Some((o, pull_failed(p, container)?))
}

/// Adds the waits between a failed pull and the next attempt.
fn back_off(b: &mut Build<'_>) {
    let f = b.seen;
    let events: Vec<_> = f
        .events_of(&["BackOff"])
        .filter(|(_, e)| event(&e.reason, &e.message) == Some(Fact::PullBackedOff))
        .collect();
    let mut containers: Vec<&Text> = events.iter().map(|(_, e)| &e.container).collect();
    containers.sort();
    containers.dedup();
    for container in containers {
        // Pulls that failed, and the next ones that began, by calls or Events.
        let mut failed: Vec<(Edge, Evidence)> = Vec::new();
        let mut begun: Vec<(Edge, Evidence)> = Vec::new();
        let mut ended: Vec<(Edge, Evidence)> = Vec::new();
        for s in b
            .of(Stage::Image)
            .filter(|s| s.container == *container && s.step == "EnsureImageExists")
        {
            let Some(o) = s.evidence.first().cloned() else {
                continue;
            };
            begun.push((s.start, o.clone()));
            if let Some(e) = s.end
                && s.outcome != Outcome::Ok
            {
                failed.push((e, s.evidence.last().cloned().unwrap_or(o)));
            } else if let Some(e) = s.end {
                ended.push((e, o));
            }
        }
        if failed.is_empty()
            && let Some((o, _)) = events.iter().find(|(_, e)| e.container == *container)
        {
            failed.push((edge(o), (*o).clone()));
        }
        for (n, (at, o)) in (0..).zip(&failed) {
            let told = events.iter().find(|(x, e)| {
                e.container == *container && x.stamp.at.plus(kflow_model::stamp::SECOND) >= at.at
            });
            let next = begun.iter().find(|(x, _)| x.at > at.at);
            let (mut evidence, message) = match (told, &o.body) {
                (Some((t, e)), _) => (vec![o.clone(), (*t).clone()], &e.message),
                (None, Body::Pod(p)) => match pull_failed(p, container) {
                    Some(message) => (vec![o.clone()], message),
                    None => continue,
                },
                (None, _) => continue,
            };
            evidence.extend(next.map(|(_, o)| o.clone()));
            let end = next.map(|(x, _)| *x).or_else(|| {
                b.view
                    .deletion_requested
                    .or(b.view.gone)
                    .map(|at| Edge { at, precision: 1 })
            });
            let mut s = Span::new(
                Stage::Image,
                "ImagePullBackOff",
                *at,
                end,
                Certainty::Inferred,
                evidence,
            );
            s.container.clone_from(container);
            s.attempt = n;
            s.message.clone_from(message);
            if next.is_none() && end.is_some() {
                s.outcome = Outcome::Cancelled;
            }
            b.add(s);
        }
    }
}
