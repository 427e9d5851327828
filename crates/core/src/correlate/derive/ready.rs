//! The stage `ready`: from the last container's start to `Ready=True`.

use super::Build;
use super::span::{edge, narrow};
use crate::flow::{Fact, Stage};
use crate::timeline::{Certainty, Edge, Outcome, Span};
use kflow_model::pod::{PodPhase, PodSeen};
use kflow_model::stamp::SECOND;
use kflow_model::{Evidence, Nanos};

/// Adds the spans of `ready`.
pub(crate) fn derive(b: &mut Build<'_>) {
    let f = b.seen;
    let Some(p) = f.newest() else { return };
    let main: Vec<_> = p.spec.containers.iter().map(|c| c.name.clone()).collect();
    // The first start of the main container that started last: readiness is the whole pod's.
    let mut last: Option<(Edge, Evidence)> = None;
    for name in &main {
        let first = b
            .runs
            .iter()
            .filter(|r| r.container == *name)
            .filter_map(|r| Some((r.start?, r.evidence.first()?.clone())))
            .min_by_key(|(e, _)| *e);
        let Some(first) = first else { return };
        if last.as_ref().is_none_or(|l| l.0 < first.0) {
            last = Some(first);
        }
    }
    let Some((start, proof)) = last else { return };
    let ready = f.states.iter().find_map(|(o, p)| {
        let c = p.condition("Ready").filter(|c| c.is_true())?;
        Some((*o, *p, c.transition?))
    });
    for c in &p.spec.containers {
        probes(b, c, ready.map(|(o, p, _)| (o, p)));
    }
    // The pod cannot be Ready before its probes passed.
    let probed = b
        .of(Stage::Ready)
        .filter_map(|s| s.end)
        .max()
        .map_or(start.at, |e| e.at.max(start.at));
    let end = ready.map(|(o, _, at)| {
        // The kubelet sets the condition by its own clock; the watch shows it a moment later.
        let second = Edge {
            at,
            precision: SECOND as u32,
        };
        (narrow(second, Some(probed), Some(o.stamp.at)), o)
    });
    let terminal = f
        .states
        .iter()
        .find(|(_, p)| p.status.phase.is_over())
        .map(|(o, _)| *o);
    let mut evidence = Vec::new();
    evidence.extend(end.map(|(_, o)| o.clone()));
    evidence.push(proof);
    let gates = !p.spec.readiness_gates.is_empty();
    if gates
        && let Some(o) = f.states.iter().find_map(|(o, p)| {
            p.condition("ContainersReady")
                .filter(|c| c.is_true())
                .map(|_| *o)
        })
        && end.is_none_or(|(_, r)| r.stamp.at > o.stamp.at)
    {
        let mut s = Span::new(
            Stage::Ready,
            "readinessGates",
            edge(o),
            end.map(|(_, r)| edge(r)),
            Certainty::Inferred,
            vec![o.clone()],
        );
        s.message = p.spec.readiness_gates.join(", ").into();
        b.add(s);
    }
    let closing = end
        .map(|(e, _)| (e, Outcome::Ok))
        .or_else(|| {
            // A pod that completes need not become Ready.
            let o = terminal?;
            let outcome = if p.status.phase == PodPhase::Succeeded {
                Outcome::Ok
            } else {
                Outcome::Error
            };
            Some((edge(o), outcome))
        })
        .or_else(|| {
            let at = b.view.deletion_requested.or(b.view.gone)?;
            Some((Edge { at, precision: 1 }, Outcome::Cancelled))
        });
    let mut s = Span::new(
        Stage::Ready,
        "SetPodStatus",
        start,
        closing.map(|(e, _)| e),
        if end.is_some() {
            Certainty::Inferred
        } else {
            Certainty::Bounded
        },
        evidence,
    );
    if let Some((_, outcome)) = closing {
        s.outcome = outcome;
    }
    // While the pod has never been Ready, the condition tells why; afterwards it is about a later time.
    if end.is_none()
        && let Some(c) = p.condition("Ready").filter(|c| !c.is_true())
    {
        s.code.clone_from(&c.reason);
        s.message.clone_from(&c.message);
    }
    b.add(s);
}

/// Returns by when the probes of a container that started at `start` had passed, by a state of its pod: when the pod's containers
/// became ready, or, without that, when the state was read, which may be much later.
fn by_then(o: &Evidence, p: &PodSeen, start: Nanos) -> Edge {
    let ready = ["ContainersReady", "Ready"]
        .into_iter()
        .filter_map(|kind| p.condition(kind).filter(|c| c.is_true())?.transition)
        // Within the second of that time, the observation's own is as good, and finer.
        .find(|at| *at >= start && o.stamp.at.since(*at) >= SECOND);
    ready.map_or_else(
        || edge(o),
        |at| Edge {
            at,
            precision: SECOND as u32,
        },
    )
}

/// Adds a container's startup and readiness probes, from its start until they first pass.
fn probes(
    b: &mut Build<'_>,
    c: &kflow_model::pod::ContainerSpec,
    ready: Option<(&Evidence, &PodSeen)>,
) {
    let f = b.seen;
    let Some(run) = b
        .runs
        .iter()
        .filter(|r| r.container == c.name && r.start.is_some())
        .min_by_key(|r| r.start)
        .cloned()
    else {
        return;
    };
    let (Some(start), Some(proof)) = (run.start, run.evidence.first().cloned()) else {
        return;
    };
    for (kind, name, good) in [
        ("startup", "startupProbe", "started"),
        ("readiness", "readinessProbe", "ready"),
    ] {
        if !c.probes.iter().any(|p| p.kind == kind) {
            continue;
        }
        // The sync loop's line names only the pod; a prober's success line names the container.
        let passed = f
            .lines(&[Fact::ProbePassed])
            .find(|(o, l)| {
                o.stamp.at >= start.at
                    && *l.container == c.name
                    && l.field("probeType")
                        .is_some_and(|t| t.eq_ignore_ascii_case(kind))
            })
            .map(|(o, _)| (edge(o), o.clone(), Certainty::Measured))
            .or_else(|| {
                f.lines(&[Fact::ProbeTurned])
                    .find(|(o, l)| {
                        o.stamp.at >= start.at
                            && l.field("probe") == Some(kind)
                            && l.field("status") == Some(good)
                    })
                    .map(|(o, _)| (edge(o), o.clone(), Certainty::Inferred))
            })
            .or_else(|| {
                // The API's status shows the container as ready, or started.
                f.states
                    .iter()
                    .find(|(o, p)| {
                        o.stamp.at >= start.at
                            && p.statuses().any(|s| {
                                s.name == c.name
                                    && if kind == "startup" {
                                        s.started == Some(true)
                                    } else {
                                        s.ready
                                    }
                            })
                    })
                    .map(|(o, p)| (by_then(o, p, start.at), (*o).clone(), Certainty::Bounded))
            })
            .or_else(|| {
                ready.map(|(o, p)| (by_then(o, p, start.at), o.clone(), Certainty::Bounded))
            });
        let failed = f.events_of(&["Unhealthy"]).rfind(|(o, e)| {
            e.container == c.name
                && o.stamp.at >= start.at
                && passed.as_ref().is_none_or(|(at, _, _)| o.stamp.at <= at.at)
                && e.message
                    .get(..kind.len())
                    .is_some_and(|m| m.eq_ignore_ascii_case(kind))
        });
        let ended = run
            .end
            .or_else(|| b.view.gone.map(|at| Edge { at, precision: 1 }));
        let (end, outcome, certainty) = match (&passed, ended) {
            (Some((at, _, certainty)), _) => (Some(*at), Outcome::Ok, *certainty),
            (None, Some(at)) => (Some(at), Outcome::Error, Certainty::Inferred),
            (None, None) => (None, Outcome::InFlight, Certainty::Inferred),
        };
        let mut evidence = Vec::new();
        evidence.extend(passed.map(|(_, o, _)| o));
        evidence.extend(failed.map(|(o, _)| o.clone()));
        evidence.push(proof.clone());
        let certainty = certainty.max(run.certainty);
        let mut s = Span::new(Stage::Ready, name, start, end, certainty, evidence);
        s.outcome = outcome;
        s.container.clone_from(&c.name);
        if let Some((_, e)) = failed {
            s.message.clone_from(&e.message);
        }
        b.add(s);
    }
}
