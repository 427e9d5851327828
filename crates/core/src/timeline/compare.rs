//! Compares two starts: which parts took longer in one than in the other, and by how much.
//!
//! Both are cut into the pieces of their critical paths, so the differences of the parts add up
//! to the whole difference.

use std::collections::BTreeMap;

use super::Timeline;
use super::critical::{Blocker, Critical, Reached, kind};
use crate::correlate::{Pod, PodView, World};
use crate::flow::Stage;
use kflow_model::Nanos;
use kflow_model::units::duration;

/// The times of the same part in two starts, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    pub a: i64,
    pub b: i64,
}

impl Pair {
    /// Returns how much longer B took, ns.
    pub const fn difference(self) -> i64 {
        self.b - self.a
    }
    fn add(&mut self, side: Side, ns: i64) {
        match side {
            Side::A => self.a += ns,
            Side::B => self.b += ns,
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    A,
    B,
}

/// A stage in two starts, and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePair {
    /// `None` for time without a span.
    pub stage: Option<Stage>,
    pub whole: Pair,
    /// Steps and waits by their description, the largest difference first.
    pub parts: Vec<(String, Blocker, Pair)>,
}

impl StagePair {
    /// Returns the stage's name, or `no span`.
    pub fn name(&self) -> &'static str {
        self.stage.map_or("no span", Stage::name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub whole: Pair,
    /// Whether A and B became Ready.
    pub ready: (bool, bool),
    /// In the order of the stages; time without a span comes last.
    pub stages: Vec<StagePair>,
}

impl Comparison {
    pub fn of(a: (&Timeline, &Critical), b: (&Timeline, &Critical)) -> Self {
        type Parts = BTreeMap<String, (Blocker, Pair)>;
        let mut stages: BTreeMap<(bool, Option<Stage>), Parts> = BTreeMap::new();
        let mut whole = Pair::default();
        for (side, (t, path)) in [(Side::A, a), (Side::B, b)] {
            whole.add(side, path.ns());
            for share in path.shares(t) {
                let stage = share.span.map(|s| s.stage);
                // Container names match in both starts. The attempt is left out, as it may differ.
                let what = share
                    .span
                    .map_or_else(|| "no span".to_owned(), |s| kind(share.blocker, s, None));
                let parts = stages.entry((stage.is_none(), stage)).or_default();
                let part = parts.entry(what);
                let (_, pair) = part.or_insert((share.blocker, Pair::default()));
                pair.add(side, share.ns);
            }
        }
        let stages = stages.into_iter().map(|((_, stage), parts)| {
            let mut sum = Pair::default();
            for (_, pair) in parts.values() {
                sum.a += pair.a;
                sum.b += pair.b;
            }
            let mut parts: Vec<_> = parts
                .into_iter()
                .map(|(what, (blocker, pair))| (what, blocker, pair))
                .collect();
            parts.sort_by_key(|(_, _, pair)| std::cmp::Reverse(pair.difference().abs()));
            StagePair {
                stage,
                whole: sum,
                parts,
            }
        });
        Self {
            whole,
            ready: (a.1.reached == Reached::Ready, b.1.reached == Reached::Ready),
            stages: stages.collect(),
        }
    }
    /// `B is 4.31s slower (7.80s, A 3.49s): sandbox +3.49s, image +0.60s`. A start that did not end is not called
    /// faster than another.
    pub fn headline(&self) -> String {
        let Pair { a, b } = self.whole;
        let all = self.whole.difference();
        let mut text = match all {
            _ if self.ready == (true, false) => "A became ready, B did not".to_owned(),
            _ if self.ready == (false, true) => "B became ready, A did not".to_owned(),
            _ if self.ready == (false, false) => "neither became ready".to_owned(),
            0 => "A and B took the same".to_owned(),
            ns if ns > 0 => format!("B is {} slower", duration(ns)),
            ns => format!("B is {} faster", duration(-ns)),
        };
        text.push_str(&format!(" ({}, A {})", duration(b), duration(a)));
        let mut by: Vec<&StagePair> = self.stages.iter().collect();
        by.sort_by_key(|s| std::cmp::Reverse(s.whole.difference().abs()));
        // A stage explains the difference if it makes up a tenth of it or more.
        let large = |s: &&&StagePair| {
            let d = s.whole.difference();
            d != 0 && d.abs().saturating_mul(10) >= all.abs()
        };
        let parts: Vec<String> = by
            .iter()
            .filter(large)
            .take(3)
            .map(|s| format!("{} {}", s.name(), signed(s.whole.difference())))
            .collect();
        if !parts.is_empty() {
            text.push_str(": ");
            text.push_str(&parts.join(", "));
        }
        text
    }
}

/// Returns the pod with the median length of start, among those pods of the same owner that became Ready, without the
/// pod itself; `None` without such pods.
pub fn median<'w>(world: &'w World, pod: &PodView, now: Nanos) -> Option<&'w Pod> {
    let owner = pod.owners.first()?;
    let mut starts: Vec<(i64, &Pod)> = world
        .every_pod()
        .iter()
        .filter(|p| p.namespace == pod.namespace && p.owners.first() == Some(owner))
        .filter(|p| p.uid != pod.uid && p.became_ready.is_some_and(|e| e.at <= now))
        .filter_map(|p| Some((p.start()?.0, p)))
        .collect();
    starts.sort_by_key(|(ns, p)| (*ns, p.uid.clone()));
    starts
        .get(starts.len().checked_sub(1)? / 2)
        .map(|(_, p)| *p)
}

/// Formats a difference in ns: `+3.49s`, `-12ms`, `0s`.
pub fn signed(ns: i64) -> String {
    match ns {
        0 => duration(0),
        ns if ns > 0 => format!("+{}", duration(ns)),
        ns => format!("-{}", duration(-ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::critical::Piece;
    use super::super::tests::span;
    use super::*;
    use kflow_model::Nanos;

    /// A start with a sandbox and a container of these lengths.
    fn start(sandbox: i64, create: i64) -> (Timeline, Critical) {
        let spans = vec![
            span(Stage::Sandbox, "RunPodSandbox", "", 0, Some(sandbox), None),
            span(
                Stage::Create,
                "CreateContainer",
                "web",
                sandbox,
                Some(sandbox + create),
                None,
            ),
        ];
        let piece = |i: u32, start, end| Piece {
            blocker: Blocker::Step,
            span: Some(i),
            start: Nanos(start),
            end: Nanos(end),
        };
        let pieces = vec![piece(0, 0, sandbox), piece(1, sandbox, sandbox + create)];
        let t = Timeline {
            spans,
            ..Timeline::default()
        };
        (
            t,
            Critical {
                pieces,
                reached: Reached::Ready,
            },
        )
    }

    #[test]
    fn differences_add_up_to_that_of_the_whole() {
        const MS: i64 = 1_000_000;
        let (a, b) = (start(100 * MS, 50 * MS), start(3590 * MS, 40 * MS));
        let c = Comparison::of((&a.0, &a.1), (&b.0, &b.1));
        assert_eq!(c.whole.difference(), 3480 * MS);
        let sum: i64 = c.stages.iter().map(|s| s.whole.difference()).sum();
        assert_eq!(sum, c.whole.difference());
        assert_eq!(
            c.headline(),
            "B is 3.48s slower (3.63s, A 150ms): sandbox +3.49s"
        );
        let named: Vec<&str> = c.stages.iter().map(StagePair::name).collect();
        assert_eq!(named, ["sandbox", "create"]);
        // Two starts that hang are not compared by how long they have hung.
        let hangs = |of: &Critical, reached| Critical {
            reached,
            ..of.clone()
        };
        let (x, y) = (hangs(&a.1, Reached::NotYet), hangs(&b.1, Reached::Never));
        let c = Comparison::of((&a.0, &x), (&b.0, &y));
        assert_eq!(
            c.headline(),
            "neither became ready (3.63s, A 150ms): sandbox +3.49s"
        );
        let c = Comparison::of((&a.0, &a.1), (&b.0, &y));
        assert!(c.headline().starts_with("A became ready, B did not ("));
    }
}
