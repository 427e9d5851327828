//! Edges of observations: the starts and ends of spans.

use crate::timeline::Edge;
use kflow_model::{Body, Evidence, Nanos};

/// The edge of a kubelet's Event. A repeated Event has only a whole second, which its arrival narrows.
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

/// Narrows a whole second of the API by bounds: not before `after`, not after `before`. A bound outside
/// the second is ignored.
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
