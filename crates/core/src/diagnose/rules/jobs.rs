//! Jobs that have failed. Their controller deletes the pods that still run (Kubernetes 1.36 `pkg/controller/job/job_controller.go`,
//! `deleteActivePods`), so no pod may be left that tells it.

use super::Context;
use crate::correlate::{ObjectState, Pod, World};
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, owner_arg};
use crate::diagnose::history::PodHistory;
use crate::diagnose::standing::{failed, failure};
use crate::diagnose::text::span;
use kflow_model::pod::{ContainerState, WatchEvent};
use kflow_model::{Body, Nanos};

/// Returns a finding for a Job that has failed and has no pods any more; `None` for every other object.
pub(super) fn without_pods<'a>(
    cx: Context<'_>,
    f: &PodHistory<'a>,
    o: &ObjectState,
) -> Option<Finding<'a>> {
    let is_there = |uid| cx.world.pod(uid).is_some_and(|pod| pod.gone.is_none());
    // While the pods are still to be listed nobody knows whether one is left.
    let coverage = cx.world.coverage();
    let unlisted = coverage.asked("pods") && coverage.newest_list("pods").is_none();
    if unlisted || o.pods.iter().any(is_there) {
        return None;
    }
    let (api, failed) = failed(o)?;
    let mut evidence = o.evidence.iter().rev();
    let shown = evidence.find(|e| matches!(e.body, Body::Object(_)));
    let mut x = Finding::new(cause::KF115, f)
        .name("what", &failure(api, failed))
        .name("job", &o.object.name)
        .proof_if(shown);
    x = match failed.transition {
        Some(at) => x.since(at),
        None => x.seen_only(cx.now),
    };
    let gone = o.pods.iter().filter_map(|uid| cx.world.pod(uid));
    if let Some((pod, how)) = gone.max_by_key(|p| p.gone).and_then(last_seen) {
        x.names.set("pod", &pod.name);
        x.names.set("last", &how);
    }
    if let Some(cron) = cron_job(cx.world, o) {
        let fact = |key| cron.api.as_ref().and_then(|api| api.fact(key));
        let worked = fact("lastSuccessfulTime").and_then(|at| Some(Nanos::parse_rfc3339(at)?.0));
        x.names.set("cron", &owner_arg(&cron.object));
        x.names.set("again", &format!("{}-again", o.object.name));
        if let Some(at) = worked.filter(|at| *at > x.since) {
            x = x.varying("ago", &span(cx.now.since(at)));
        }
    }
    Some(x)
}

/// Says how a container of a pod that is gone was before its deletion was asked for, if it was not well.
fn last_seen(pod: &Pod) -> Option<(&Pod, String)> {
    let mut states = pod.evidence.telling().rev().filter_map(|e| match &e.body {
        Body::Pod(p) if p.deletion.is_none() && p.event != WatchEvent::Deleted => Some(p),
        _ => None,
    });
    let how = states.next()?.statuses().find_map(|c| {
        let ended = match &c.state {
            ContainerState::Terminated(end) => Some(end),
            ContainerState::Waiting { .. } | ContainerState::Running { .. } => c.last.as_ref(),
        };
        let code = ended
            .and_then(|end| end.exit_code)
            .filter(|code| *code != 0);
        match (code, c.state.held_up_by()) {
            (Some(code), _) => Some(format!("container {} ended with exit code {code}", c.name)),
            (None, Some((reason, _))) => Some(format!("container {} was in {reason}", c.name)),
            (None, None) => None,
        }
    })?;
    Some((pod, how))
}

/// Returns the CronJob that has made a Job, if it is known.
fn cron_job<'w>(world: &'w World, job: &ObjectState) -> Option<&'w ObjectState> {
    let made = job.api.as_ref()?.owner.as_ref()?;
    let is_cron_job = made.kind == "CronJob";
    is_cron_job.then(|| world.object(&made.kind, &job.object.namespace, &made.name))?
}
