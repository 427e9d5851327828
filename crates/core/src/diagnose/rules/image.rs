//! Images whose lookup or pull takes long, and pulls that wait for others.

use super::Context;
use super::admit::joins_runtime;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, node_of, proof};
use crate::diagnose::history::{ContainerHistory, PodHistory};
use crate::diagnose::limits;
use crate::diagnose::pulls::{Ahead, Fate, Others, PIECE, Progress, Standing, Wanted, image_of};
use crate::diagnose::text::span;
use crate::diagnose::{Confidence, InFlightCall};
use crate::flow::Stage;
use kflow_model::cri::method;
use kflow_model::pod::ContainerStatus;
use kflow_model::units::size;
use kflow_model::{Evidence, Nanos, Source};

/// An ImageStatus call that takes longer is reported.
const LOOK_UP_NS: i64 = limits::LOOK_UP.ns;
/// A pull that takes longer is reported.
const SLOW_NS: i64 = limits::PULL.ns;
/// `Pulling` and PullImage are milliseconds apart unless another pull has the only slot.
const QUEUED_NS: i64 = limits::PULL_QUEUED.ns;

pub(super) fn rules<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    if let Some(call) = f.in_flight(method::PULL_IMAGE) {
        if cx.now.since(call.at) >= SLOW_NS && !joins_runtime(found, call, cx.now) {
            found.retain(|k| k.stage != Stage::Image);
            let image = call.start.subject.image.as_str();
            let x = running(cx, f, image, call.at);
            found.push(
                x.name("image", image)
                    .container(&call.container)
                    .call(call, cx.now)
                    .since(call.at),
            );
        }
        return;
    }
    if let Some(call) = f.in_flight(method::IMAGE_STATUS)
        && cx.now.since(call.at) >= LOOK_UP_NS
        && !joins_runtime(found, call, cx.now)
    {
        found.push(
            Finding::new(cause::KF615, f)
                .name("image", &call.start.subject.image)
                .container(&call.container)
                .call(call, cx.now)
                .since(call.at),
        );
    }
    // `terminate` tells what a deleted pod waits for.
    if f.deleted.is_some() {
        return;
    }
    // Who pulls on all nodes is gathered only for a pod that pulls: it takes the history of each pod that may.
    let lost = |since| cx.shared.queue(cx.world).lost_since(since);
    for (w, o) in waiting(cx, f) {
        let waited = cx.now.since(w.since);
        let x = match &w.standing {
            // `matched` reports the failed pull, with its reason.
            Standing::BackOff => None,
            // The call was lost, and may have ended.
            Standing::Pulling if f.has_cri && lost(w.since) => None,
            Standing::Pulling => (waited >= SLOW_NS).then(|| {
                let image = image_of(o).unwrap_or_default();
                let x = match progress(cx, f, &image, w.since) {
                    Some(p) => coming(cx, f, &p),
                    None => announced(Finding::new(cause::KF609, f), cx, f, &image, w.since),
                };
                x.varying("running", &span(waited)).absence(
                    w.since,
                    Source::Kube,
                    "no Pulled event since",
                )
            }),
            Standing::Queued(ahead) => {
                let patience = match ahead {
                    Ahead::Call(_) => QUEUED_NS,
                    Ahead::Announced(_) => SLOW_NS,
                };
                (waited >= patience)
                    .then(|| behind(Finding::new(cause::KF610, f), cx, f, ahead, w.since))
            }
        };
        found.extend(x.map(|x| {
            let mut x = x
                .container(&w.container)
                .name("image", &image_of(o).unwrap_or_default())
                .since(w.since);
            x.proofs.insert(0, proof(o));
            x
        }));
    }
}

/// Returns the containers whose image the kubelet has said that it pulls (Event Pulling), where the pull has not ended and no call
/// of it is seen, each with that Event.
pub(super) fn waiting<'a>(
    cx: Context<'_>,
    f: &'a PodHistory<'a>,
) -> Vec<(Wanted<'a>, &'a Evidence)> {
    if f.pulling().next().is_none() {
        return Vec::new();
    }
    let all = cx.shared.queue(cx.world).wanted(f).into_iter();
    let all = all.filter_map(|w| w.evidence.map(|o| (w, o)));
    // A container that has ended since was pulled for: the Event of that was combined with others, or dropped.
    let has_run = |w: &Wanted<'_>, c: &ContainerHistory<'_>| {
        // The row of a table, which has no id of the container, does not tell when it ended last.
        let loops = |s: &ContainerStatus| s.id.is_empty() && s.state.backs_off();
        let listed = f.api_evidence.filter(|_| c.status.is_some_and(loops));
        let signs = [c.backed_off.last().copied(), listed];
        let signs = signs.into_iter().flatten().map(|o| o.stamp.at);
        let ended = signs.chain(c.exits.last().map(|e| e.at)).max();
        (c.name == w.container || c.name.is_empty()) && ended.is_some_and(|at| at > w.since)
    };
    all.filter(|(w, _)| !f.containers.iter().any(|c| has_run(w, c)))
        .collect()
}

/// The progress of the pull of an image for a pod, where its runtime shows it.
pub(super) fn progress(
    cx: Context<'_>,
    f: &PodHistory<'_>,
    image: &str,
    since: Nanos,
) -> Option<Progress> {
    let here = cx.shared.is_local(&f.view.node);
    here.then(|| Progress::of(cx.world, image, since, cx.now))?
}

/// Returns a finding for a pull that takes long.
fn running<'a>(cx: Context<'_>, f: &'a PodHistory<'a>, image: &str, since: Nanos) -> Finding<'a> {
    match progress(cx, f, image, since) {
        Some(p) => coming(cx, f, &p),
        None => Finding::new(cause::KF609, f),
    }
}

/// Returns a finding for a pull of which the runtime shows the progress: its rate, or the layer that stands still.
fn coming<'a>(cx: Context<'_>, f: &'a PodHistory<'a>, p: &Progress) -> Finding<'a> {
    let came = format!("{} of {}", size(p.fetched), size(p.size));
    let Some(still) = p.still else {
        let x = Finding::new(cause::KF609, f).proof(&p.evidence);
        return match (p.rate, p.left_ns()) {
            (Some(rate), Some(left)) if !p.is_complete() => x
                .varying("rate", &format!("{}/s", size(rate)))
                .varying("came", &came)
                .varying("left", &span(left))
                .varying("complete", &p.complete().to_string())
                .name("layers", &p.layers.len().to_string()),
            _ => x.varying("progress", &p.text()),
        };
    };
    let others = if p.complete() + 1 == p.layers.len() {
        "all other layers are there"
    } else {
        "nothing came of the others for as long as that"
    };
    let x = Finding::new(cause::KF614, f)
        .name("layer", &still.layer.to_string())
        .name("layers", &p.layers.len().to_string())
        .varying("others", others)
        .varying("fetched", &size(still.fetched))
        .name("size", &size(still.size))
        .varying("quiet", &span(cx.now.since(still.since)))
        .varying("all", &came)
        .proof(&p.evidence);
    // The runtime counts whole pieces.
    let mut layers = p.layers.iter();
    if layers.all(|l| l.fetched == 0 || l.fate == Fate::Complete) {
        x.name("piece", &size(PIECE))
    } else {
        x
    }
}

/// Adds to a finding what follows from the kubelet's announcement of a pull, where nothing else is known of it: it runs,
/// or waits.
pub(super) fn announced<'a>(
    x: Finding<'a>,
    cx: Context<'_>,
    f: &PodHistory<'_>,
    image: &str,
    since: Nanos,
) -> Finding<'a> {
    let others = Others::of(cx.world, node_of(f.view, f.api), cx.now);
    let on = on_node(f);
    let either = match others {
        Others::Listed => {
            format!("most likely it runs, as no other pull on {on} was announced before it")
        }
        _ => format!("it runs, or waits for another pull on {on}"),
    };
    x.name("announced", image)
        .varying("ago", &span(cx.now.since(since)))
        .name("either", &either)
        .name("unasked", unasked(others))
        .at_most(Confidence::Likely)
}

/// The node of a pod, for a sentence.
fn on_node<'a>(f: &PodHistory<'a>) -> &'a str {
    match node_of(f.view, f.api) {
        "" => "its node",
        node => node,
    }
}

/// Says which pods of the node were not asked for, whose pulls may go first.
const fn unasked(others: Others) -> &'static str {
    match others {
        Others::OfNamespaces => {
            "the pods of other namespaces there were not asked for (-A asks for them)"
        }
        Others::Some => "only some of the pods there were asked for",
        Others::Listed | Others::Unknown => "",
    }
}

/// Adds to a finding what is known about the pull that goes first.
pub(super) fn behind<'a>(
    mut x: Finding<'a>,
    cx: Context<'_>,
    f: &PodHistory<'_>,
    ahead: &Ahead,
    since: Nanos,
) -> Finding<'a> {
    x.behind = ahead.object();
    let took = span(cx.now.since(ahead.since()));
    let here = cx.shared.is_local(&f.view.node);
    let progress = here.then(|| ahead.progress(cx.world, cx.now)).flatten();
    let runs = format!("has been running for {took}");
    let shown = progress.is_some();
    let x = x
        .name("other", ahead.image())
        .name("by", &ahead.pod())
        .varying("ahead", &progress.map(|p| p.brief()).unwrap_or_default());
    match ahead {
        Ahead::Call(c) => {
            let x = if cx.shared.queue(cx.world).lost_since(since) {
                likely(x)
            } else {
                x.name("waits", "still waits")
            };
            let mut x = x
                .varying("runs", &runs)
                .absence(since, Source::Cri, "no PullImage call for it yet")
                .proof(&c.started);
            x.waits_on = Some(InFlightCall {
                method: c.method.clone(),
                since: c.start,
                deadline_ns: c.timeout_ns,
            });
            x
        }
        Ahead::Announced(_) => {
            let others = Others::of(cx.world, node_of(f.view, f.api), cx.now);
            let announced = format!("was announced {took} ago and has not ended");
            likely(x)
                .varying("runs", if shown { &runs } else { &announced })
                .name("unasked", unasked(others))
                .absence(since, Source::Kube, "no Pulled event since")
        }
    }
}

/// Says that a pull waits only as far as is known.
fn likely(x: Finding<'_>) -> Finding<'_> {
    x.name("likely", "most likely")
        .name("waits", "most likely still waits")
        .at_most(Confidence::Possible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correlate::World;
    use crate::diagnose::cluster::Cluster;
    use crate::diagnose::told::Texts;
    use kflow_model::event::EventSeen;
    use kflow_model::pod::PodSeen;
    use kflow_model::{Body, Observation, Stamp};
    use std::sync::Arc;

    const NOW: Nanos = Nanos::from_secs(100);

    /// A pod with an Event.
    fn world(reason: &str, message: &str) -> World {
        let mut event = EventSeen {
            reason: reason.into(),
            message: message.into(),
            container: "c".into(),
            ..EventSeen::default()
        };
        event.object.kind = "Pod".into();
        event.object.namespace = "shop".into();
        event.object.name = "web-0".into();
        event.object.uid = "u".into();
        let mut pod = PodSeen {
            uid: "u".into(),
            namespace: "shop".into(),
            name: "web-0".into(),
            ..PodSeen::default()
        };
        pod.spec.node = "n1".into();
        let mut world = World::new();
        for body in [Body::Pod(Box::new(pod)), Body::Event(Box::new(event))] {
            world.observe(&Arc::new(Observation {
                stamp: Stamp::exact(Nanos::from_secs(1)),
                source: Source::Kube,
                body,
            }));
        }
        world.refresh();
        world
    }

    #[test]
    fn who_pulls_on_all_nodes_is_gathered_only_for_a_pod_that_pulls() {
        for (reason, message, pulls) in [
            ("Pulling", "Pulling image \"example.com/web:1\"", true),
            ("Failed", "Error: secret \"db\" not found", false),
        ] {
            let world = world(reason, message);
            let (shared, texts) = (Cluster::gather(&world, NOW), Texts::default());
            let cx = Context {
                world: &world,
                shared: &shared,
                texts: &texts,
                now: NOW,
            };
            let pods = world.pods();
            let f = PodHistory::gather(pods.first().expect("a pod"), NOW);
            rules(cx, &f, &mut Vec::new());
            assert_eq!(shared.has_queue(), pulls, "{reason}");
        }
    }
}
