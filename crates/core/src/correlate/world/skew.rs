//! Estimates the offset between the apiserver's clock and the node's.
//!
//! A pair of times, one by each clock, of which one must be before the other, bounds the offset on one side. The
//! offset is in the intersection of all bounds, which does not depend on the order in which the pairs arrive.

use super::Skew;
use crate::correlate::generations::Generations;
use kflow_model::{
    Nanos, SpanId,
    span::{SpanKind, SpanRecord},
};

/// Number of spans that may wait for their counterpart, of clients and of servers each.
const HALVES: usize = 1 << 14;

/// Pairs the kubelet's span of a request with the apiserver's span of the same request, which links to it or has it
/// as parent. The server's start is within the client's span, which bounds the offset on both sides within the
/// request's duration. The server's end does not bound it: the server's span ends after the response was sent. A
/// client that failed may have given up before a hanging server began, so the end of its span does not bound it either.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    clients: Generations<SpanId, (Nanos, Option<Nanos>)>,
    servers: Generations<SpanId, Nanos>,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            clients: Generations::new(HALVES),
            servers: Generations::new(HALVES),
        }
    }
}

impl Links {
    /// Takes a span that started at `start`, and adds the bounds of a completed pair to `offset`.
    pub(crate) fn observe(&mut self, s: &SpanRecord, start: Nanos, offset: &mut Offset) {
        let mut pair = |(begin, end): (Nanos, Option<Nanos>), server: Nanos| {
            offset.node_before_api(begin, server);
            if let Some(end) = end {
                offset.api_before_node(server, end);
            }
        };
        match (s.kind, s.service.as_str()) {
            (SpanKind::Client, "kubelet") if !s.name.starts_with("runtime.v1") => {
                let client = (start, (!s.error).then_some(s.end));
                if let Some(server) = self.servers.remove(&s.span) {
                    pair(client, server);
                } else {
                    self.clients.insert(s.span, client);
                }
            }
            (SpanKind::Server, "apiserver" | "kube-apiserver") => {
                for client in s.links.iter().map(|(_, span)| *span).chain(s.parent) {
                    if let Some(span) = self.clients.remove(&client) {
                        pair(span, start);
                    } else {
                        self.servers.insert(client, start);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Bounds of the apiserver's clock minus the node's, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offset {
    at_least: Option<i64>,
    at_most: Option<i64>,
    pairs: u32,
}

impl Offset {
    /// Adds a pair: a time by the apiserver's clock that is before one by the node's.
    pub(crate) fn api_before_node(&mut self, api: Nanos, node: Nanos) {
        let bound = api.since(node);
        self.at_least = Some(self.at_least.map_or(bound, |b| b.max(bound)));
        self.pairs += 1;
    }
    /// Adds a pair: a time by the node's clock that is before one by the apiserver's.
    pub(crate) fn node_before_api(&mut self, node: Nanos, api: Nanos) {
        let bound = api.since(node);
        self.at_most = Some(self.at_most.map_or(bound, |b| b.min(bound)));
        self.pairs += 1;
    }
    /// Returns the estimate. The offset is `None` without bounds on both sides, and when they contradict each other
    /// (a clock was set in between).
    pub(crate) fn estimate(&self) -> Skew {
        let bounds = self.at_least.zip(self.at_most).filter(|(lo, hi)| lo <= hi);
        let Some((lo, hi)) = bounds else {
            return Skew {
                pairs: self.pairs,
                ..Skew::default()
            };
        };
        let middle = i128::midpoint(i128::from(lo), i128::from(hi));
        Skew {
            api_ns: i64::try_from(middle).ok(),
            api_within_ns: (hi.saturating_sub(lo) / 2).saturating_abs(),
            pairs: self.pairs,
        }
    }
    /// Returns the offset to subtract from API times to get the node's, ns. It is 0 as long as an offset of 0 is
    /// possible, so that a cluster with synchronized clocks is shown as it was recorded. Whole milliseconds, so that
    /// it seldom changes.
    pub(crate) fn shift(&self) -> i64 {
        let s = self.estimate();
        match s.api_ns {
            Some(ns) if ns.saturating_abs() > s.api_within_ns => {
                ns / kflow_model::stamp::MILLI * kflow_model::stamp::MILLI
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_pair_bounds_the_offset_whichever_half_comes_first() {
        let client = SpanRecord {
            service: "kubelet".into(),
            name: "HTTP GET".into(),
            kind: SpanKind::Client,
            span: SpanId(7),
            end: Nanos(3_000),
            ..SpanRecord::default()
        };
        let server = SpanRecord {
            service: "apiserver".into(),
            kind: SpanKind::Server,
            links: vec![(kflow_model::TraceId(1), SpanId(7))].into(),
            ..SpanRecord::default()
        };
        let (mut a, mut b) = (Offset::default(), Offset::default());
        let mut links = Links::default();
        links.observe(&client, Nanos(1_000), &mut a);
        links.observe(&server, Nanos(12_000), &mut a);
        let mut links = Links::default();
        links.observe(&server, Nanos(12_000), &mut b);
        links.observe(&client, Nanos(1_000), &mut b);
        assert_eq!(a.estimate(), b.estimate());
        assert_eq!(
            (a.estimate().api_ns, a.estimate().api_within_ns),
            (Some(10_000), 1_000)
        );
    }

    #[test]
    fn bounds_from_both_sides_make_an_interval_and_order_does_not_matter() {
        let mut a = Offset::default();
        a.api_before_node(Nanos(1_000), Nanos(900));
        assert_eq!(a.estimate().api_ns, None);
        a.node_before_api(Nanos(1_000), Nanos(1_300));
        a.node_before_api(Nanos(1_000), Nanos(1_500));
        assert_eq!(
            a.estimate(),
            Skew {
                api_ns: Some(200),
                api_within_ns: 100,
                pairs: 3
            }
        );
        let mut b = Offset::default();
        b.node_before_api(Nanos(1_000), Nanos(1_500));
        b.node_before_api(Nanos(1_000), Nanos(1_300));
        b.api_before_node(Nanos(1_000), Nanos(900));
        assert_eq!(a.estimate(), b.estimate());
    }

    #[test]
    fn an_offset_that_may_be_zero_moves_nothing() {
        let mut o = Offset::default();
        o.api_before_node(Nanos(0), Nanos(50_000_000));
        o.node_before_api(Nanos(0), Nanos(70_000_000));
        assert_eq!(o.shift(), 0);
        let mut o = Offset::default();
        o.api_before_node(Nanos(5_000_000_000), Nanos(0));
        o.node_before_api(Nanos(0), Nanos(5_010_000_000));
        assert_eq!(o.shift(), 5_005_000_000);
    }
}
