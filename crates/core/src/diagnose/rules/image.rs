//! Pulls that run long, and pulls that wait for others.

use super::Context;
use crate::diagnose::cause;
use crate::diagnose::facts::Facts;
use crate::diagnose::found::{Found, node_of};
use crate::diagnose::limits;
use crate::diagnose::text::span;
use crate::diagnose::{Confidence, InFlightCall};
use crate::flow::Stage;
use kflow_model::Source;
use kflow_model::cri::method;

/// A pull that takes longer is worth telling.
const SLOW_NS: i64 = limits::PULL.ns;
/// `Pulling` and PullImage are milliseconds apart unless another pull has the only slot.
const QUEUED_NS: i64 = limits::PULL_QUEUED.ns;

pub(super) fn rules<'a>(cx: Context<'a>, f: &'a Facts<'a>, found: &mut Vec<Found<'a>>) {
    if let Some(call) = f.in_flight(method::PULL_IMAGE) {
        if cx.now.since(call.at) >= SLOW_NS {
            let x = Found::new(cause::KF609, f);
            found.retain(|k| k.stage != Stage::Image);
            let image = call.start.subject.image.as_str();
            found.push(
                x.name("image", image)
                    .container(&call.container)
                    .call(call, cx.now)
                    .since(call.at),
            );
        }
        return;
    }
    for c in &f.containers {
        let Some((at, o)) = c.pulling else { continue };
        let over = |t: Option<kflow_model::Nanos>| t.is_some_and(|t| t >= at);
        let failed = f
            .signals
            .iter()
            .any(|s| s.reason == "ErrImagePull" && s.container == c.name && s.at >= at);
        if over(c.pulled) || over(c.created) || over(c.started) || failed {
            continue;
        }
        let node = node_of(f.view, f.api);
        let image = crate::diagnose::shared::image_of(o).unwrap_or_default();
        let waited = cx.now.since(at);
        if f.has_cri || (cx.shared.is_local(node) && !cx.shared.pulls.is_empty()) {
            if cx.lost_calls_since(at) {
                continue;
            }
            let other = cx.shared.pulls.iter().find(|p| p.pod_uid != f.view.uid);
            if other.is_none() {
                // No pull was seen at all, so a call was not seen rather than not made: which one, only Events can tell.
                let before = found.len();
                if waited >= SLOW_NS {
                    blind(cx, f, c, node, &image, (at, o), found);
                }
                let at = found.len().min(before);
                let guessed = found.split_off(at);
                found.extend(guessed.into_iter().filter(|x| x.cause.id == cause::KF610));
                continue;
            }
            if waited >= QUEUED_NS {
                let x = Found::new(cause::KF610, f);
                let mut x = x
                    .container(&c.name)
                    .name("image", &image)
                    .since(at)
                    .proof(o)
                    .absence(at, Source::Cri, "no PullImage call for it yet");
                if let Some(p) = other {
                    let by = if p.pod.is_empty() {
                        String::new()
                    } else {
                        format!("{}/{}", p.namespace, p.pod)
                    };
                    x = x
                        .name("other", &p.image)
                        .name("by", &by)
                        .name("running", &span(cx.now.since(p.start)))
                        .proof(&p.started);
                    x.waits_on = Some(InFlightCall {
                        method: p.method.clone(),
                        since: p.start,
                        deadline_ns: p.timeout_ns,
                    });
                }
                found.push(x);
            }
        } else if waited >= SLOW_NS {
            blind(cx, f, c, node, &image, (at, o), found);
        }
    }
}

/// Without the tap: the pull that began first on the node runs, the others may wait for it.
fn blind<'a>(
    cx: Context<'a>,
    f: &Facts<'a>,
    c: &crate::diagnose::facts::ContainerFacts<'a>,
    node: &str,
    image: &str,
    (at, o): (kflow_model::Nanos, &'a kflow_model::Evidence),
    found: &mut Vec<Found<'a>>,
) {
    let earlier = cx
        .shared
        .announced(cx.world)
        .iter()
        .find(|p| p.node == node && p.at < at && p.uid != f.view.uid);
    let x = match earlier {
        Some(p) => Found::new(cause::KF610, f)
            .name("other", &p.image)
            .name("by", &p.pod)
            .name("running", &span(cx.now.since(p.at)))
            .at_most(Confidence::Possible),
        None => Found::new(cause::KF609, f)
            .name("running", &span(cx.now.since(at)))
            .at_most(Confidence::Likely),
    };
    found.push(
        x.container(&c.name)
            .name("image", image)
            .since(at)
            .proof(o)
            .absence(at, Source::Kube, "no Pulled event since"),
    );
}
