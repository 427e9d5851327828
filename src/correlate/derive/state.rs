//! Containers, the strip of stages, and where the pod stands.

use super::Facts;
use super::start::Run;
use super::work::Work;
use crate::correlate::{ContainerView, PodView, StageState};
use crate::flow::Stage;
use crate::model::{
    Text,
    pod::{ContainerSpec, ContainerState, ContainerStatus},
};
use crate::timeline::{Outcome, Timeline};

fn state_text(s: &ContainerState) -> Text {
    match s {
        ContainerState::Waiting { reason, .. } if reason.is_empty() => "waiting".into(),
        ContainerState::Waiting { reason, .. } => format!("waiting/{reason}").into(),
        ContainerState::Running { .. } => "running".into(),
        ContainerState::Terminated(t) if t.reason.is_empty() => "terminated".into(),
        ContainerState::Terminated(t) => format!("terminated/{}", t.reason).into(),
    }
}

fn by_status(c: &mut ContainerView, s: &ContainerStatus) {
    c.id = s.id.clone();
    c.attempt = s.restarts;
    c.state = state_text(&s.state);
    c.ready = s.ready;
    c.last_exit = match &s.state {
        ContainerState::Terminated(t) => Some(t.exit_code),
        _ => s.last.as_ref().map(|t| t.exit_code),
    };
}

/// Joins spec, status and what the runtime was told.
pub(crate) fn containers(v: &mut PodView, f: &Facts<'_>, work: &[Work]) {
    if let Some(p) = f.newest() {
        let spec = |c: &ContainerSpec, init: bool| ContainerView {
            name: c.name.clone(),
            init,
            sidecar: c.sidecar,
            image: c.image.clone(),
            ..ContainerView::default()
        };
        v.containers
            .extend(p.spec.init_containers.iter().map(|c| spec(c, true)));
        v.containers
            .extend(p.spec.containers.iter().map(|c| spec(c, false)));
        v.containers.extend(
            p.spec
                .ephemeral_containers
                .iter()
                .map(|name| ContainerView {
                    name: name.clone(),
                    ephemeral: true,
                    ..ContainerView::default()
                }),
        );
        for s in p.statuses() {
            if let Some(c) = v.containers.iter_mut().find(|c| c.name == s.name) {
                by_status(c, s);
                if c.image.is_empty() {
                    c.image = s.image.clone();
                }
            }
        }
    }
    // The runtime is ahead of the API: what was created or started counts from the call on.
    for w in work {
        if w.container.is_empty() || !w.ok() {
            continue;
        }
        let state = match w.method.as_str() {
            "CreateContainer" => "created",
            "StartContainer" => "running",
            _ => continue,
        };
        if !v.containers.iter().any(|c| c.name == w.container) {
            v.containers.push(ContainerView {
                name: w.container.clone(),
                image: w.image.clone(),
                ..ContainerView::default()
            });
        }
        if let Some(c) = v.containers.iter_mut().find(|c| c.name == w.container) {
            let newer = c.id.is_empty() || w.attempt.is_some_and(|n| n > c.attempt);
            let same = c.id.as_str() == w.container_id.as_str();
            if newer && w.method == "CreateContainer" {
                c.id = w.container_id.as_str().into();
                c.attempt = w.attempt.unwrap_or(c.attempt);
                c.state = state.into();
                c.ready = false;
            } else if same && (c.state.is_empty() || c.state == "created") {
                c.state = state.into();
            }
        }
    }
}

/// What ended, by the runtime, where the API does not say so yet.
pub(crate) fn exits(v: &mut PodView, runs: &[Run]) {
    for r in runs {
        let Some(c) = v.containers.iter_mut().find(|c| c.name == r.container) else {
            continue;
        };
        if r.end.is_none() || c.id.as_str() != r.id.as_str() {
            continue;
        }
        c.last_exit = r.exit_code.or(c.last_exit);
        if c.state == "running" || c.state == "created" {
            c.ready = false;
            c.state = if r.reason.is_empty() {
                "terminated".into()
            } else {
                format!("terminated/{}", r.reason).into()
            };
        }
    }
}

/// Reads the strip of stages and the current one off the timeline.
pub(crate) fn stages(v: &mut PodView, f: &Facts<'_>, t: &Timeline) {
    let deleting = v.deletion_requested.is_some() || v.gone.is_some();
    let reached = t
        .spans
        .iter()
        .filter(|s| s.stage != Stage::Terminate)
        .map(|s| s.stage.index())
        .max();
    for stage in Stage::ALL {
        let i = stage.index();
        let state = match t.stage(stage) {
            Some(s) => match s.outcome {
                Outcome::Ok => StageState::Done,
                Outcome::InFlight => StageState::Running,
                Outcome::Error | Outcome::Cancelled => StageState::Failing,
            },
            None if stage != Stage::Terminate && reached.is_some_and(|r| i < r) => {
                StageState::Unseen
            }
            None => StageState::NotReached,
        };
        if let Some(s) = v.stages.get_mut(i) {
            *s = state;
        }
    }
    let settled = v.gone.is_some()
        || matches!(v.phase.as_str(), "Succeeded" | "Failed") && !deleting
        || f.newest()
            .and_then(|p| p.condition("Ready"))
            .is_some_and(|c| c.status == "True")
            && !deleting;
    v.current = None;
    if settled {
        return;
    }
    let open = Stage::ALL.into_iter().rev().find_map(|stage| {
        let s = t.stage(stage)?;
        Some(match v.stage(stage) {
            StageState::Done => {
                let next = Stage::ALL.get(stage.index() + 1).copied().unwrap_or(stage);
                (next, s.end.map_or(s.start.at, |e| e.at))
            }
            _ => (stage, s.start.at),
        })
    });
    v.current = open.or(Some((Stage::Api, v.created)));
}
