//! Images whose lookup or pull takes long, and pulls that wait for others.

use super::Context;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, proof};
use crate::diagnose::history::{ContainerHistory, PodHistory};
use crate::diagnose::limits;
use crate::diagnose::pulls::{Ahead, Progress, Standing, image_of};
use crate::diagnose::text::span;
use crate::diagnose::{Confidence, InFlightCall};
use crate::flow::Stage;
use kflow_model::cri::method;
use kflow_model::pod::ContainerStatus;
use kflow_model::units::size;
use kflow_model::{Nanos, Source};

/// An ImageStatus call that takes longer is reported.
const LOOK_UP_NS: i64 = limits::LOOK_UP.ns;
/// A pull that takes longer is reported.
const SLOW_NS: i64 = limits::PULL.ns;
/// `Pulling` and PullImage are milliseconds apart unless another pull has the only slot.
const QUEUED_NS: i64 = limits::PULL_QUEUED.ns;

pub(super) fn rules<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    if let Some(call) = f.in_flight(method::PULL_IMAGE) {
        if cx.now.since(call.at) >= SLOW_NS {
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
    {
        found.push(
            Finding::new(cause::KF615, f)
                .name("image", &call.start.subject.image)
                .container(&call.container)
                .call(call, cx.now)
                .since(call.at),
        );
    }
    if f.pulling().next().is_none() {
        return;
    }
    for w in cx.shared.queue(cx.world).wanted(f) {
        let Some(o) = w.evidence else { continue };
        // A container that has ended since was pulled for: the Event of that was combined with others, or dropped.
        let has_run = |c: &ContainerHistory<'_>| {
            // The row of a table, which has no id of the container, does not tell when it ended last.
            let loops = |s: &ContainerStatus| s.id.is_empty() && s.state.backs_off();
            let listed = f.api_evidence.filter(|_| c.status.is_some_and(loops));
            let signs = [c.backed_off.last().copied(), listed];
            let signs = signs.into_iter().flatten().map(|o| o.stamp.at);
            let ended = signs.chain(c.exits.last().map(|e| e.at)).max();
            (c.name == w.container || c.name.is_empty()) && ended.is_some_and(|at| at > w.since)
        };
        if f.containers.iter().any(has_run) {
            continue;
        }
        let waited = cx.now.since(w.since);
        let x = match &w.standing {
            // `matched` reports the failed pull, with its reason.
            Standing::BackOff => None,
            // The tap would show the call of a pull that runs: it was lost, and may have ended.
            Standing::Pulling if f.has_cri || waited < SLOW_NS => None,
            Standing::Pulling => Some(
                running(cx, f, &image_of(o).unwrap_or_default(), w.since)
                    .varying("running", &span(waited))
                    .at_most(Confidence::Likely)
                    .absence(w.since, Source::Kube, "no Pulled event since"),
            ),
            Standing::Queued(ahead) => {
                let patience = match ahead {
                    Ahead::Call(_) => QUEUED_NS,
                    Ahead::Announced(_) => SLOW_NS,
                };
                (waited >= patience)
                    .then(|| behind(Finding::new(cause::KF610, f), cx, ahead, w.since))
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

/// Returns a finding for a pull that takes long, with its progress and the layer that stands still, where the runtime
/// shows them.
fn running<'a>(cx: Context<'_>, f: &'a PodHistory<'a>, image: &str, since: Nanos) -> Finding<'a> {
    let here = cx.shared.is_local(&f.view.node);
    let progress = here.then(|| Progress::of(cx.world, image, since, cx.now));
    let Some(p) = progress.flatten() else {
        return Finding::new(cause::KF609, f);
    };
    let Some(still) = p.still else {
        let x = Finding::new(cause::KF609, f).varying("progress", &p.text());
        return x.proof(&p.evidence);
    };
    // Whether the network is slow for all layers, or only this one stands still.
    let others = match p.rate {
        _ if p.complete() + 1 == p.layers.len() => "all other layers are there".to_owned(),
        Some(rate) if rate > 0 => format!("the others come at {}/s", size(rate)),
        _ => String::new(),
    };
    Finding::new(cause::KF614, f)
        .name("layer", &still.layer.to_string())
        .name("layers", &p.layers.len().to_string())
        .varying("others", &others)
        .varying("fetched", &size(still.fetched))
        .name("size", &size(still.size))
        .varying("quiet", &span(cx.now.since(still.since)))
        .varying("all", &format!("{} of {}", size(p.fetched), size(p.size)))
        .proof(&p.evidence)
}

/// Adds to a finding what is known about the pull that goes first.
fn behind<'a>(mut x: Finding<'a>, cx: Context<'_>, ahead: &Ahead, since: Nanos) -> Finding<'a> {
    x.behind = ahead.object();
    let x = x
        .name("other", ahead.image())
        .name("by", &ahead.pod())
        .varying("running", &span(cx.now.since(ahead.since())));
    match ahead {
        Ahead::Call(c) => {
            let mut x = x
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
            x.at_most(Confidence::Possible)
                .absence(since, Source::Kube, "no Pulled event since")
        }
    }
}
