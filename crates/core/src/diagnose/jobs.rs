//! Jobs that have failed. Their controller deletes the pods that still run (Kubernetes 1.36 `pkg/controller/job/job_controller.go`,
//! `deleteActivePods`), so no pod may be left that tells it.

use crate::correlate::{ObjectState, PodView, World};
use kflow_model::pod::WatchEvent;

/// Returns why a Job has failed that has no pods any more, by its condition; `None` for every other object.
pub fn failure(world: &World, o: &ObjectState) -> Option<String> {
    let is_there = |uid| world.pod(uid).is_some_and(|pod| pod.gone.is_none());
    if o.pods.iter().any(is_there) {
        return None;
    }
    why_failed(o)
}

/// Returns the name of the Job that a pod is of, and why it has failed: no other pod follows.
pub fn of_pod<'p>(world: &World, pod: &'p PodView) -> Option<(&'p str, String)> {
    let job = pod.owners.first().filter(|o| o.kind == "Job")?;
    let o = world.object("Job", &pod.namespace, &job.name)?;
    Some((job.name.as_str(), why_failed(o)?))
}

/// Returns reason and message of the condition Failed of a Job that exists.
fn why_failed(o: &ObjectState) -> Option<String> {
    let job = o.api.as_ref().filter(|_| o.object.kind == "Job")?;
    if job.event == WatchEvent::Deleted {
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
