//! How far the apiserver's clock is from the node's.
//!
//! Every pair of moments, one by each clock, of which one must have come before the other, bounds the offset from one
//! side. The intersection of all bounds is the interval that the offset lies in: it does not depend on the order in
//! which the pairs came.

use super::Skew;
use crate::model::Nanos;

/// Bounds of apiserver's clock minus node's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offset {
    at_least: Option<i64>,
    at_most: Option<i64>,
    pairs: u32,
}

impl Offset {
    /// A moment by the apiserver's clock came before one by the node's.
    pub(crate) fn api_before_node(&mut self, api: Nanos, node: Nanos) {
        let bound = api.since(node);
        self.at_least = Some(self.at_least.map_or(bound, |b| b.max(bound)));
        self.pairs += 1;
    }
    /// A moment by the node's clock came before one by the apiserver's.
    pub(crate) fn node_before_api(&mut self, node: Nanos, api: Nanos) {
        let bound = api.since(node);
        self.at_most = Some(self.at_most.map_or(bound, |b| b.min(bound)));
        self.pairs += 1;
    }
    /// The estimate: known when it is bounded from both sides.
    pub(crate) fn estimate(&self) -> Skew {
        let (Some(lo), Some(hi)) = (self.at_least, self.at_most) else {
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
    /// What to take off API times to bring them to the node's clock: nothing while no offset is a possible answer,
    /// so that a clean cluster is drawn as it was recorded. Whole milliseconds, so that it seldom changes.
    pub(crate) fn shift(&self) -> i64 {
        let s = self.estimate();
        match s.api_ns {
            Some(ns) if ns.saturating_abs() > s.api_within_ns => {
                ns / crate::model::stamp::MILLI * crate::model::stamp::MILLI
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
