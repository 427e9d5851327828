//! `sandbox`, `image` and `create`: what the pod worker asks of the runtime before a container starts.

use super::api::narrow;
use super::build::step;
use super::facts::event_edge;
use super::work::Work;
use super::{Build, edge};
use crate::flow::Stage;
use crate::model::Text;
use crate::timeline::{Certainty, Edge, Evidence, Outcome, Span, SpanIndex};

/// A call as a span.
pub(crate) fn of_work(stage: Stage, w: &Work) -> Span {
    Span {
        container: w.container.clone(),
        attempt: w.attempt.unwrap_or(0),
        outcome: w.outcome,
        code: w.code.clone(),
        message: w.message.clone(),
        call: w.key,
        deadline_ns: w.deadline_ns,
        ..step(
            stage,
            &w.method,
            w.start,
            w.end,
            w.certainty,
            w.evidence.clone(),
        )
    }
}

/// Adds `sandbox`.
pub(crate) fn sandbox(b: &mut Build<'_>) {
    let work = std::mem::take(&mut b.work);
    let mut fresh = false;
    let mut tries = 0;
    for w in &work {
        if w.method == "RunPodSandbox" {
            // The attempt in the request counts sandboxes that were made, not those that failed.
            let mut s = of_work(Stage::Sandbox, w);
            s.attempt = s.attempt.max(tries);
            tries = s.attempt + 1;
            let i = b.add(s);
            nested(b, i, w);
            fresh = w.ok();
        } else if w.method == "PodSandboxStatus" && fresh {
            // The worker's own, right after; those of PLEG come later.
            b.add(of_work(Stage::Sandbox, w));
            fresh = false;
        }
    }
    b.work = work;
    if b.of(Stage::Sandbox).next().is_none() {
        sandbox_by_log(b);
    }
    if b.of(Stage::Sandbox).next().is_none() {
        sandbox_by_api(b);
    }
    // The network is asked for before the runtime is.
    if let Some((o, e)) = b.facts.events_of(&["NetworkNotReady"]).next() {
        let freed = b
            .work
            .iter()
            .find(|w| w.method == "RunPodSandbox" && w.start.at > o.stamp.at);
        let mut evidence = vec![o.clone()];
        evidence.extend(freed.and_then(|w| w.evidence.first().cloned()));
        let mut s = step(
            Stage::Sandbox,
            "networkErrors",
            edge(o),
            freed
                .map(|w| w.start)
                .or_else(|| b.view.gone.map(|at| Edge { at, precision: 1 })),
            Certainty::Inferred,
            evidence,
        );
        s.message.clone_from(&e.message);
        b.add(s);
    }
}

/// Without the tap and spans: the kubelet's lines around the call.
fn sandbox_by_log(b: &mut Build<'_>) {
    let f = b.facts;
    let lines: Vec<_> = f
        .lines(&[
            "Creating PodSandbox for pod",
            "Created PodSandbox for pod",
            "CreatePodSandbox for pod failed",
        ])
        .collect();
    let mut attempt = 0;
    for (i, (o, l)) in lines.iter().enumerate() {
        if !l.message.starts_with("Creating ") {
            continue;
        }
        let next = lines
            .get(i + 1)
            .filter(|(_, n)| !n.message.starts_with("Creating "));
        let mut evidence = vec![(*o).clone()];
        evidence.extend(next.map(|(o, _)| (*o).clone()));
        let mut s = step(
            Stage::Sandbox,
            "RunPodSandbox",
            edge(o),
            next.map(|(o, _)| edge(o)),
            Certainty::Measured,
            evidence,
        );
        s.attempt = attempt;
        if let Some((_, n)) = next
            && n.message.ends_with("failed")
        {
            s.outcome = Outcome::Error;
            s.message.clone_from(&n.error);
        }
        attempt += 1;
        b.add(s);
    }
}

/// With the API alone: failures by their events, success by its condition.
fn sandbox_by_api(b: &mut Build<'_>) {
    let f = b.facts;
    let mut since = [Stage::Volumes, Stage::Admit, Stage::Schedule]
        .into_iter()
        .find_map(|s| b.ends(s));
    for (n, (o, e)) in (0..).zip(f.events_of(&["FailedCreatePodSandBox"])) {
        let end = f.api_edge_of(o);
        let mut s = step(
            Stage::Sandbox,
            "RunPodSandbox",
            since.unwrap_or(end).min(end),
            Some(end),
            Certainty::Bounded,
            vec![o.clone()],
        );
        s.attempt = n;
        s.outcome = Outcome::Error;
        s.message.clone_from(&e.message);
        b.add(s);
        since = Some(end);
    }
    let ready = f.states.iter().find_map(|(o, p)| {
        let c = p
            .condition("PodReadyToStartContainers")
            .filter(|c| c.status == "True")?;
        Some((*o, c.transition?))
    });
    if let Some((o, at)) = ready {
        let end = super::api::narrow(
            f.api_edge(at, crate::model::stamp::SECOND as u32),
            since.map(|s| s.at),
            Some(o.stamp.at),
        );
        let start = since.unwrap_or(end).min(end);
        b.add(step(
            Stage::Sandbox,
            "RunPodSandbox",
            start,
            Some(end),
            Certainty::Bounded,
            vec![o.clone()],
        ));
    }
}

/// Spans of the runtime inside a call, as its children: the network's setup and what is worth showing.
pub(crate) fn nested(b: &mut Build<'_>, parent: SpanIndex, w: &Work) {
    const SHOWN: [&str; 16] = [
        "cri.sandbox.run",
        "cni.setup_pod_network",
        "cni.teardown_pod_network",
        "client.NewContainer",
        "container.NewTask",
        "task.Start",
        "client.task.Start",
        "task.Kill",
        "task.Delete",
        "pull.Pull",
        "pull.fetch",
        "pull.UnpackWait",
        "containerd.task.v3.Task/Create",
        "containerd.task.v3.Task/Start",
        "metadata.sandbox.Create",
        "container.Delete",
    ];
    let f = b.facts;
    let Some(client) = w.span else { return };
    let mut inside: Vec<(crate::model::SpanId, SpanIndex)> = vec![(client, parent)];
    // Parents start before their children, so one pass in order of time finds the whole tree.
    let mut found = Vec::new();
    for (o, s) in &f.spans {
        if o.stamp.at < w.start.at.plus(-crate::model::stamp::MILLI) {
            continue;
        }
        let Some(up) = s.parent else { continue };
        let Some((_, at)) = inside.iter().find(|(id, _)| *id == up).copied() else {
            continue;
        };
        let mut index = at;
        if SHOWN.contains(&s.name.as_str()) {
            let mut span = step(
                b.spans()
                    .get(parent as usize)
                    .map_or(Stage::Sandbox, |p| p.stage),
                &s.name,
                edge(o),
                Some(Edge {
                    at: s.end,
                    precision: 1,
                }),
                Certainty::Measured,
                vec![(*o).clone()],
            );
            span.parent = Some(at);
            span.container.clone_from(&w.container);
            span.attempt = w.attempt.unwrap_or(0);
            span.message.clone_from(&s.message);
            if s.error {
                span.outcome = Outcome::Error;
            }
            index = b.add(span);
            found.push(index);
        }
        inside.push((s.span, index));
    }
}

/// Names the containers that images are looked up and pulled for: a request names an image alone.
///
/// A worker deals with one container at a time, so the next creation of a container with that image is the one; when
/// none follows, it is the first container of the spec with that image that was not created before.
fn container_of_image(b: &Build<'_>, at: usize, w: &Work) -> (Text, u32) {
    let specs: Vec<(&Text, &Text)> = b
        .facts
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
        .find(|x| x.method == "CreateContainer" && has_image(&x.container))
        // An image that was pulled for another container is not what a much later restart waited for.
        .filter(|x| {
            w.ended()
                .is_none_or(|e| x.start.at.since(e) < 10 * crate::model::stamp::SECOND)
                && x.start.at >= w.start.at
        });
    if let Some(c) = until {
        return (c.container.clone(), c.attempt.unwrap_or(0));
    }
    let created = |name: &Text| {
        b.work
            .iter()
            .take(at)
            .filter(|x| x.method == "CreateContainer" && x.container == *name && x.ok())
            .count() as u32
    };
    specs
        .iter()
        .filter(|(_, i)| **i == w.image)
        .map(|(n, _)| ((*n).clone(), created(n)))
        .min_by_key(|(_, n)| *n)
        .unwrap_or_default()
}

/// Adds `image`.
pub(crate) fn image(b: &mut Build<'_>) {
    let mut named: Vec<(usize, Text, u32)> = Vec::new();
    for (i, w) in b.work.iter().enumerate() {
        if matches!(w.method.as_str(), "ImageStatus" | "PullImage") {
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
        if w.method == "PullImage" {
            nested(b, index, w);
            pulls.push((container, start, index));
        }
    }
    b.work = work;
    ensure(b, &pulls);
    refused(b);
    back_off(b);
}

/// Images that are never pulled: a name that is none, or a policy that forbids it.
fn refused(b: &mut Build<'_>) {
    let f = b.facts;
    let mut attempts: Vec<(&Text, u32)> = Vec::new();
    for (o, e) in f.events_of(&["InspectFailed", "ErrImageNeverPull"]) {
        let mut end = event_edge(o);
        let until = end.at.plus(i64::from(end.precision));
        let asked = b
            .work
            .iter()
            .rfind(|w| {
                w.method == "ImageStatus"
                    && w.start.at < until
                    && end.at.since(w.start.at) < crate::model::stamp::SECOND
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
        let n = if let Some((_, n)) = attempts.iter_mut().find(|(c, _)| *c == e.container) {
            *n += 1;
            *n
        } else {
            attempts.push((&e.container, 0));
            0
        };
        let mut s = step(
            Stage::Image,
            "EnsureImageExists",
            start,
            Some(end),
            Certainty::Inferred,
            evidence,
        );
        s.container.clone_from(&e.container);
        s.attempt = n;
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

/// `EnsureImageExists` around a pull: from `Pulling` to `Pulled` or `Failed`, so that a wait in the queue is seen.
fn ensure(b: &mut Build<'_>, pulls: &[(Text, Edge, SpanIndex)]) {
    let f = b.facts;
    let events: Vec<_> = f
        .events_of(&["Pulling", "Pulled", "Failed"])
        .filter(|(_, e)| {
            e.reason == "Pulling"
                || e.message.starts_with("Successfully pulled")
                || e.message.starts_with("Failed to pull image")
        })
        .collect();
    for (i, (o, e)) in events.iter().enumerate() {
        if e.reason != "Pulling" {
            continue;
        }
        let end = events
            .iter()
            .skip(i + 1)
            .take_while(|(_, x)| !(x.reason == "Pulling" && x.container == e.container))
            .find(|(_, x)| x.container == e.container);
        let mut evidence = vec![(*o).clone()];
        evidence.extend(end.map(|(o, _)| (*o).clone()));
        // A repeat of the event has a second only: the call inside it bounds that.
        let call = pulls
            .iter()
            .filter(|(c, _, _)| *c == e.container || c.is_empty())
            .filter_map(|(_, _, i)| b.spans().get(*i as usize))
            .find(|s| {
                let e = event_edge(o);
                s.start.at >= e.at && s.start.at.since(e.at) <= i64::from(e.precision)
            })
            .map(|s| (s.start.at, s.end.map(|e| e.at)));
        let begin = narrow(event_edge(o), None, call.map(|c| c.0));
        let stop = end.map(|(o, _)| narrow(event_edge(o), call.and_then(|c| c.1), None));
        let mut s = step(
            Stage::Image,
            "EnsureImageExists",
            begin,
            stop,
            Certainty::Inferred,
            evidence,
        );
        if call.is_some() && begin.precision > 1 {
            // Of its first moment it is only known that it came before the call.
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
        } else if let Some(at) = b.view.gone {
            s.end = Some(Edge { at, precision: 1 });
            s.outcome = Outcome::Cancelled;
        }
        let (start, stop) = (s.start, s.end);
        let inner: Vec<SpanIndex> = pulls
            .iter()
            .filter(|(c, at, _)| {
                (*c == e.container || c.is_empty())
                    // The event is recorded next to the call, not before it.
                    && at.at.plus(50 * crate::model::stamp::MILLI) >= start.at
                    && stop.is_none_or(|x| at.at <= x.at)
            })
            .map(|(_, _, i)| *i)
            .collect();
        // What it holds bounds it too.
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

/// The wait between a failed pull and the next try.
fn back_off(b: &mut Build<'_>) {
    let f = b.facts;
    let events: Vec<_> = f
        .events_of(&["BackOff"])
        .filter(|(_, e)| e.message.starts_with("Back-off pulling"))
        .collect();
    let mut containers: Vec<&Text> = events.iter().map(|(_, e)| &e.container).collect();
    containers.sort();
    containers.dedup();
    for container in containers {
        // A pull that ended badly, and the next one that began, by calls or by events.
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
                e.container == *container && x.stamp.at.plus(crate::model::stamp::SECOND) >= at.at
            });
            let next = begun.iter().find(|(x, _)| x.at > at.at);
            let Some((t, e)) = told else { continue };
            let mut evidence = vec![o.clone(), (*t).clone()];
            evidence.extend(next.map(|(_, o)| o.clone()));
            let end = next.map(|(x, _)| *x).or_else(|| {
                b.view
                    .deletion_requested
                    .or(b.view.gone)
                    .map(|at| Edge { at, precision: 1 })
            });
            let mut s = step(
                Stage::Image,
                "ImagePullBackOff",
                *at,
                end,
                Certainty::Inferred,
                evidence,
            );
            s.container.clone_from(container);
            s.attempt = n;
            s.message.clone_from(&e.message);
            if next.is_none() && end.is_some() {
                s.outcome = Outcome::Cancelled;
            }
            b.add(s);
        }
    }
}

/// Adds `create`.
pub(crate) fn create(b: &mut Build<'_>) {
    let work = std::mem::take(&mut b.work);
    for w in work.iter().filter(|w| w.method == "CreateContainer") {
        let i = b.add(of_work(Stage::Create, w));
        nested(b, i, w);
    }
    b.work = work;
    config_errors(b);
    if b.of(Stage::Create).next().is_none() {
        let created: Vec<_> = b.facts.events_of(&["Created"]).collect();
        for (o, e) in created {
            let at = b.facts.api_edge_of(o);
            let mut s = step(
                Stage::Create,
                "CreateContainer",
                at,
                Some(at),
                Certainty::Inferred,
                vec![o.clone()],
            );
            s.container.clone_from(&e.container);
            b.add(s);
        }
    }
}

/// A container's configuration that cannot be made fails before the runtime is asked.
fn config_errors(b: &mut Build<'_>) {
    let f = b.facts;
    let mut attempts: Vec<(&Text, u32)> = Vec::new();
    for (o, e) in f.events_of(&["Failed"]) {
        let Some(message) = e.message.strip_prefix("Error: ") else {
            continue;
        };
        // `Error: ErrImagePull` and the like tell of images; what the runtime refused has a call of its own.
        let one_word = !message.contains(' ');
        let by_runtime = b.work.iter().any(|w| {
            matches!(w.method.as_str(), "CreateContainer" | "StartContainer")
                && !w.ok()
                && w.container == e.container
                && w.end
                    .is_some_and(|x| o.stamp.at.since(x.at).abs() < crate::model::stamp::SECOND)
        });
        let told = f.states.iter().any(|(_, p)| {
            p.statuses().any(|c| {
                c.name == e.container
                    && matches!(&c.state, crate::model::pod::ContainerState::Waiting { reason, .. }
                        if reason == "CreateContainerConfigError")
            })
        });
        if one_word || by_runtime || !(told || f.states.is_empty()) {
            continue;
        }
        let told_at = event_edge(o);
        let until = told_at.at.plus(i64::from(told_at.precision));
        let before = b
            .work
            .iter()
            .filter(|w| w.method == "ImageStatus" && w.start.at < until)
            .filter_map(|w| Some((w.end?, w.evidence.first()?)))
            .next_back();
        let mut evidence = vec![o.clone()];
        let mut end = told_at;
        let mut start = end;
        if let Some((at, x)) = before
            && end.at.since(at.at) < crate::model::stamp::SECOND
        {
            end = narrow(end, Some(at.at), None);
            start = at;
            evidence.push(x.clone());
        }
        let n = if let Some((_, n)) = attempts.iter_mut().find(|(c, _)| *c == e.container) {
            *n += 1;
            *n
        } else {
            attempts.push((&e.container, 0));
            0
        };
        let mut s = step(
            Stage::Create,
            "generateContainerConfig",
            start,
            Some(end),
            Certainty::Inferred,
            evidence,
        );
        s.container.clone_from(&e.container);
        s.attempt = n;
        s.outcome = Outcome::Error;
        s.code = "CreateContainerConfigError".into();
        s.message = message.into();
        b.add(s);
    }
}
