//! `sandbox`, `image`, `create`, `start` and the runtime's part of `terminate`: the CRI calls of the pod worker.

use super::Build;
use crate::flow::Stage;
use crate::timeline::Span;

/// Stage of a call that a pod worker makes.
fn stage_of(method: &str) -> Option<Stage> {
    Some(match method {
        "RunPodSandbox" => Stage::Sandbox,
        "ImageStatus" | "PullImage" => Stage::Image,
        "CreateContainer" => Stage::Create,
        "StartContainer" => Stage::Start,
        "StopContainer" | "StopPodSandbox" => Stage::Terminate,
        _ => return None,
    })
}

/// Adds the spans.
pub(crate) fn derive(b: &mut Build<'_>) {
    let spans: Vec<Span> = b
        .facts
        .calls
        .iter()
        .filter_map(|c| Some(b.call(stage_of(&c.c.method)?, c)))
        .collect();
    for s in spans {
        b.add(s);
    }
}
