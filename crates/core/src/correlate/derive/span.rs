//! Edges of observations, and spans of edges: what every stage's part is made of.

use crate::flow::Stage;
use crate::timeline::{Certainty, Edge, Outcome, Span};
use kflow_model::{Body, Evidence, Nanos, Text};

/// The edge of a kubelet's Event: a repeat has a whole second only, which its arrival bounds.
pub(crate) fn event_edge(o: &Evidence) -> Edge {
    let e = edge(o);
    let listed = matches!(&o.body, Body::Event(e) if e.listed);
    if listed {
        e
    } else {
        narrow(e, None, Some(o.stamp.seen))
    }
}

/// The edge of an observation.
pub(crate) fn edge(o: &Evidence) -> Edge {
    Edge {
        at: o.stamp.at,
        precision: o.stamp.precision.max(1),
    }
}

/// A whole second of the API, narrowed by what must have come before and after.
pub(crate) fn narrow(second: Edge, after: Option<Nanos>, before: Option<Nanos>) -> Edge {
    let mut at = second.at;
    let mut until = second.at.plus(i64::from(second.precision));
    if let Some(a) = after
        && a > at
        && a < until
    {
        at = a;
    }
    if let Some(b) = before
        && b >= at
        && b.plus(1) < until
    {
        until = b.plus(1);
    }
    Edge {
        at,
        precision: u32::try_from(until.since(at)).unwrap_or(1).max(1),
    }
}

/// A span of a step; everything that is not given is empty.
pub(crate) fn step(
    stage: Stage,
    name: &str,
    start: Edge,
    end: Option<Edge>,
    certainty: Certainty,
    evidence: Vec<Evidence>,
) -> Span {
    Span {
        stage,
        step: name.into(),
        container: Text::default(),
        attempt: 0,
        start,
        end,
        outcome: if end.is_some() {
            Outcome::Ok
        } else {
            Outcome::InFlight
        },
        code: Text::default(),
        message: Text::default(),
        certainty,
        parent: None,
        call: None,
        deadline_ns: None,
        evidence,
    }
}
