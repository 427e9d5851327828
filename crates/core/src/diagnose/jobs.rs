//! Jobs that have failed. Their controller deletes the pods that still run (Kubernetes 1.36 `pkg/controller/job/job_controller.go`,
//! `deleteActivePods`), so no pod may be left that tells it.

use crate::correlate::{ObjectState, World};
use kflow_model::pod::WatchEvent;

/// Returns why a Job has failed that has no pods any more, by its condition; `None` for every other object.
pub fn failure(world: &World, o: &ObjectState) -> Option<String> {
    let job = o.api.as_ref().filter(|_| o.object.kind == "Job")?;
    let is_there = |uid| world.pod(uid).is_some_and(|pod| pod.gone.is_none());
    if job.event == WatchEvent::Deleted || o.pods.iter().any(is_there) {
        return None;
    }
    let mut conditions = job.conditions.iter();
    let failed = conditions.find(|c| c.kind == "Failed" && c.is_true())?;
    Some(format!("{}: {}", failed.reason, failed.message))
}

/// Returns all such Jobs, each with the reason.
pub fn failed(world: &World) -> Vec<(&ObjectState, String)> {
    let all = world.objects().into_iter();
    all.filter_map(|o| Some((o, failure(world, o)?))).collect()
}
