//! Edges of observations, which the spans of every stage begin and end with.

use crate::timeline::Edge;
use kflow_model::{Body, Evidence, Nanos};

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
