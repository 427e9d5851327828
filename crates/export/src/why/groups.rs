//! Groups verdicts that say the same, and attaches those that follow from another one.

use std::collections::HashMap;

use kflow_core::diagnose::{About, CauseId, State, Verdict};

/// Verdicts that say the same, and the verdicts that follow from them.
#[derive(Debug, Default)]
pub struct Group<'v> {
    /// The verdicts that say the same, at least one.
    pub told: Vec<&'v Verdict>,
    /// The verdicts that follow from those, in lists that say the same.
    pub behind: Vec<Vec<&'v Verdict>>,
}

/// Groups verdicts that say the same, in the order of each group's first; groups of the same cause are adjacent. Within
/// a group, verdicts of one owner are adjacent too.
///
/// The verdict on a node or an owner and the verdicts on the pods that it holds up say the same, so they share a group.
///
/// A verdict with other words that follows from another one ([`Verdict::behind`]) is attached to the group at the root
/// of that chain. Without a verdict on what it waits for, it is a group of its own.
pub fn groups<'v>(verdicts: impl IntoIterator<Item = &'v Verdict>) -> Vec<Group<'v>> {
    rooted(alike_by_words(verdicts))
}

/// Groups verdicts that were asked for, with those of `followers` that follow from them.
pub fn groups_of<'v>(
    asked: impl IntoIterator<Item = &'v Verdict>,
    followers: impl IntoIterator<Item = &'v Verdict>,
) -> Vec<Group<'v>> {
    let asked: Vec<&Verdict> = asked.into_iter().collect();
    let all = asked.iter().copied().chain(followers);
    let mut groups = groups(all);
    let is_asked = |v: &&Verdict| asked.iter().any(|a| std::ptr::eq(*a, *v));
    groups.retain(|g| g.told.iter().chain(g.behind.iter().flatten()).any(is_asked));
    groups
}

fn rooted(groups: Vec<Vec<&Verdict>>) -> Vec<Group<'_>> {
    let mut places: HashMap<About<'_>, usize> = HashMap::new();
    for (n, group) in groups.iter().enumerate() {
        for about in group.iter().filter_map(|v| v.about()) {
            places.entry(about).or_insert(n);
        }
    }
    let ahead: Vec<Option<usize>> = groups
        .iter()
        .enumerate()
        .map(|(n, group)| {
            let follows = group.first()?.follows()?;
            places.get(&follows).copied().filter(|at| *at != n)
        })
        .collect();
    // Follow the chain of waits to its root. A cycle has no root: each of its groups stands for itself.
    let root = |n: usize| {
        let mut at = n;
        for _ in 0..ahead.len() {
            match ahead.get(at).copied().flatten() {
                Some(next) => at = next,
                None => return at,
            }
        }
        n
    };
    let roots: Vec<usize> = (0..groups.len()).map(root).collect();
    let mut all: Vec<Group<'_>> = groups.iter().map(|_| Group::default()).collect();
    for (n, (group, root)) in groups.into_iter().zip(roots).enumerate() {
        if let Some(of) = all.get_mut(root) {
            if root == n {
                of.told = group;
            } else {
                of.behind.push(group);
            }
        }
    }
    all.retain(|g| !g.told.is_empty());
    all
}

fn alike_by_words<'v>(verdicts: impl IntoIterator<Item = &'v Verdict>) -> Vec<Vec<&'v Verdict>> {
    let mut groups: Vec<Vec<&Verdict>> = Vec::new();
    let mut by_words: HashMap<_, usize> = HashMap::new();
    for v in verdicts {
        let n = *by_words.entry(words(v)).or_insert(groups.len());
        match groups.get_mut(n) {
            Some(g) => g.push(v),
            None => groups.push(vec![v]),
        }
    }
    let mut places: HashMap<CauseId, usize> = HashMap::new();
    let mut ranked: Vec<(usize, Vec<&Verdict>)> = Vec::new();
    for (n, group) in groups.into_iter().enumerate() {
        let cause = group.first().and_then(|v| v.cause);
        let rank = cause.map_or(n, |c| *places.entry(c).or_insert(n));
        ranked.push((rank, group));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, g)| by_owner(g)).collect()
}

/// Sorts a group so that verdicts of one owner are adjacent, in the order of each owner's first; of these, those that are most
/// certain come first.
fn by_owner(group: Vec<&Verdict>) -> Vec<&Verdict> {
    let mut places = HashMap::new();
    let mut ranked: Vec<(usize, &Verdict)> = Vec::with_capacity(group.len());
    for (n, v) in group.into_iter().enumerate() {
        let owner = (&v.namespace, v.root.as_ref());
        ranked.push((*places.entry(owner).or_insert(n), v));
    }
    ranked.sort_by_key(|(rank, v)| (*rank, v.confidence));
    ranked.into_iter().map(|(_, v)| v).collect()
}

/// Returns what a verdict says, without its duration and its number of repeats. Verdicts with the same cause and words
/// are equal in every stage, and whether or not the pods retry.
fn words(v: &Verdict) -> (&str, Option<(&'static str, State)>, bool, &str) {
    let stand = v.cause.is_none().then(|| (v.stage.name(), v.state));
    (v.cause_id(), stand, v.state.is_well(), &v.same)
}
