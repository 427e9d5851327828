//! Jobs that have failed. Their controller deletes the pods that still run (Kubernetes 1.36 `pkg/controller/job/job_controller.go`,
//! `deleteActivePods`), so no pod may be left that tells it.

use crate::correlate::{ObjectState, World};
use kflow_model::pod::WatchEvent;

/// Returns why a Job has failed, by its condition; `None` for one that has not, and for every other object.
pub fn failure(o: &ObjectState) -> Option<String> {
    let job = o.api.as_ref().filter(|_| o.object.kind == "Job")?;
    let is_there = job.event != WatchEvent::Deleted;
    let mut conditions = job.conditions.iter().filter(|_| is_there);
    let failed = conditions.find(|c| c.kind == "Failed" && c.is_true())?;
    Some(format!("{}: {}", failed.reason, failed.message))
}

/// Returns the Jobs that have failed and have no pods any more, each with the reason.
pub fn without_pods(world: &World) -> Vec<(&ObjectState, String)> {
    let has_none = |o: &&ObjectState| {
        let mut pods = o.pods.iter().filter_map(|uid| world.pod(uid));
        pods.all(|pod| pod.gone.is_some())
    };
    let jobs = world.objects().into_iter().filter(has_none);
    jobs.filter_map(|o| Some((o, failure(o)?))).collect()
}
