//! What was read of the apiserver: which kinds of objects, in which scopes, until when, and why the rest was not read.
//!
//! Derived only from the notes of lists and watches, so that a recording gives the same answers as the run that it
//! was made in. "As of" is the newest observation of the world; [`Hindsight`] adds what a recording states only after
//! the moment.

mod hindsight;

use std::collections::BTreeMap;

use kflow_model::Evidence;
use kflow_model::gap::{Failure, Gap, WatchKind, WatchNote};
use kflow_model::{Body, Nanos, Scope, Source, Text, scope::includes, stamp::SECOND};

pub use hindsight::Hindsight;

/// A watch that has been failing for no longer than this (ns) is normally resumed without a missed change.
pub(crate) const BLINK: i64 = 3 * SECOND;
/// Resources of losses that may concern every kind: a loss of unknown kind, a time in which nothing was recorded, and
/// the end of a capture.
const ANY: [&str; 3] = ["", Gap::UNRECORDED, Gap::CAPTURE];

/// A failure of a list or watch that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The first failure since the watch last worked.
    pub since: Nanos,
    /// The newest failure.
    pub last: Nanos,
    /// Kind of the newest failure.
    pub failure: Failure,
    /// The newest failure's message.
    pub detail: Text,
}

/// A complete list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// Arrival of the list's begin.
    pub begin: Nanos,
    /// Arrival of the list's end.
    pub end: Nanos,
    /// Number of losses that concerned its kind before its begin.
    losses: u64,
}

/// State of the lists and watches of one kind in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Begin of the list that has not ended yet, and the number of losses before it.
    open: Option<(Nanos, u64)>,
    list: Option<List>,
    failing: Option<Failing>,
    /// The newest moment at which the apiserver was known to have been away for longer than [`BLINK`].
    away: Option<Nanos>,
}

impl Watched {
    /// The newest complete list.
    pub const fn list(&self) -> Option<List> {
        self.list
    }
    /// The failure that has not been resolved.
    pub const fn failing(&self) -> Option<&Failing> {
        self.failing.as_ref()
    }
    /// Applies a note. Notes of one watch count in the order of their arrival, whatever the clock did in between.
    fn note(&mut self, at: Nanos, n: &WatchNote, losses: u64) {
        let failed_for = self.failing.as_ref().map(|f| at.since(f.since));
        if failed_for.is_some_and(|ns| ns > BLINK) && n.kind != WatchKind::ListBegin {
            self.away = Some(at);
        }
        match n.kind {
            WatchKind::ListBegin => self.open = Some((at, losses)),
            WatchKind::ListEnd => {
                // Such a list is one note.
                let names = (n.resource == WatchNote::NAMES).then_some((at, losses));
                if let Some((begin, losses)) = self.open.take().or(names) {
                    self.list = Some(List {
                        begin,
                        end: at,
                        losses,
                    });
                }
                self.failing = None;
            }
            WatchKind::Bookmark => self.failing = None,
            WatchKind::Broken => {
                self.failing = Some(Failing {
                    since: self.failing.as_ref().map_or(at, |f| f.since),
                    last: at,
                    failure: n.failure.unwrap_or(Failure::Other),
                    detail: n.detail.clone(),
                });
            }
        }
    }
}

/// A loss of observations from the apiserver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// End of the loss.
    pub at: Nanos,
    /// Begin of the loss.
    pub since: Nanos,
    /// Number of observations lost, 0 when unknown.
    pub count: u64,
    /// Resource of the lost objects, a plural as in `pods`; empty when it may be any.
    pub resource: Text,
    /// The source's description of the loss.
    pub why: Text,
}

impl Lost {
    /// Converts a gap that arrived at `at`; `None` for a gap of a source other than the apiserver and kflow, and for one
    /// that is no loss.
    fn of(g: &Gap, at: Nanos) -> Option<Self> {
        (g.is_loss() && matches!(g.of, Source::Kube | Source::Kflow)).then(|| Self {
            at,
            since: g.since,
            count: g.lost,
            resource: g.resource.clone(),
            why: g.why.clone(),
        })
    }
}

/// Why the objects of a kind are not completely known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// No list of the kind was attempted.
    NotAsked,
    /// A list has begun, or was requested, and has not ended.
    NotYet,
    /// A watch ran without a list before it: objects that did not change are unknown.
    NoList,
    /// A list, or the watch after it, fails.
    Failing(Failing),
    /// Observations were lost since the list.
    Lost(Lost),
    /// The lists have narrower scopes than the one asked about; holds these scopes.
    Narrower(Vec<Text>),
}

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    watches: BTreeMap<(Text, Text), Watched>,
    /// By the resource that was lost: the number of losses, and the newest one.
    lost: BTreeMap<Text, (u64, Lost)>,
}

impl Coverage {
    /// Applies a watch note or a gap; ignores all else.
    pub(crate) fn observe(&mut self, o: &Evidence) {
        match &o.body {
            Body::Watch(n) => {
                let key = (n.resource.clone(), n.scope.clone());
                let losses = self.losses(&n.resource);
                let watched = self.watches.entry(key).or_default();
                watched.note(o.stamp.seen, n, losses);
            }
            Body::Gap(g) => {
                if let Some(lost) = Lost::of(g, o.stamp.seen) {
                    self.lose(lost);
                }
            }
            _ => {}
        }
    }

    /// All kinds and scopes that were requested, sorted: resource, scope, state.
    pub fn watches(&self) -> impl Iterator<Item = (&str, &str, &Watched)> {
        self.watches
            .iter()
            .map(|((resource, scope), w)| (resource.as_str(), scope.as_str(), w))
    }

    fn lose(&mut self, lost: Lost) {
        match self.lost.get_mut(&lost.resource) {
            Some((n, newest)) => (*n, *newest) = (*n + 1, lost),
            None => drop(self.lost.insert(lost.resource.clone(), (1, lost))),
        }
    }

    /// Losses that concern a kind: losses of that kind, of unknown kind, and times in which nothing was recorded.
    fn of(&self, resource: &str) -> impl Iterator<Item = &(u64, Lost)> {
        let own = (!ANY.contains(&resource)).then_some(resource);
        let kinds = ANY.into_iter().chain(own);
        kinds.filter_map(|r| self.lost.get(r))
    }

    fn losses(&self, resource: &str) -> u64 {
        self.of(resource).map(|(n, _)| n).sum()
    }

    /// The newest loss of observations from the apiserver that concerns one of these kinds.
    pub fn lost(&self, resources: &[&str]) -> Option<&Lost> {
        let kinds = resources.iter().chain(&["", Gap::CAPTURE]);
        kinds.filter_map(|r| Some(&self.lost.get(*r)?.1)).max()
    }

    /// The newest loss that concerns a kind and is later than its lists; `None` when every list was repeated since.
    pub fn lost_since_list(&self, resource: &str) -> Option<&Lost> {
        let listed = |(r, _, w): (&str, &str, &Watched)| (r == resource).then_some(w.list?.losses);
        // A kind may be listed in several scopes, and a loss does not tell which scope it concerns.
        let listed = self.watches().filter_map(listed).min().unwrap_or_default();
        let newest = self.of(resource).map(|(_, lost)| lost).max();
        newest.filter(|_| self.losses(resource) > listed)
    }

    /// Kinds with a loss that named them, and that were not listed again since.
    pub fn losses_by_kind(&self) -> impl Iterator<Item = (&str, &Lost)> {
        let kinds = self.lost.keys().map(Text::as_str);
        let kinds = kinds.filter(|r| !ANY.contains(r));
        kinds.filter_map(|r| Some((r, self.lost_since_list(r).filter(|l| l.resource == r)?)))
    }

    /// The failure to reach the apiserver at all, for example without a kubeconfig.
    pub fn whole(&self) -> Option<&Failing> {
        self.watches()
            .find(|(resource, ..)| resource.is_empty())?
            .2
            .failing()
    }

    /// True when objects of this kind were requested from an apiserver.
    pub fn asked(&self, resource: &str) -> bool {
        self.asked_where(resource, |_| true)
    }

    /// The same, by a list whose bounds pass.
    pub fn asked_where(&self, resource: &str, passes: impl Fn(&str) -> bool) -> bool {
        let is_it = |(r, scope, _): (&str, &str, &Watched)| r == resource && passes(scope);
        self.whole().is_some() || self.watches().any(is_it)
    }

    /// Returns until when the apiserver was last away while objects of this kind were watched: what they did not show until then may
    /// have been kept from it.
    pub fn away(&self, resource: &str) -> Option<Nanos> {
        let of_kind = self.watches().filter(|(r, ..)| *r == resource);
        of_kind.filter_map(|(_, _, w)| w.away).max()
    }

    /// True while a list of this kind has begun and not ended.
    pub fn is_being_listed(&self, resource: &str) -> bool {
        self.watches()
            .any(|(r, _, w)| r == resource && w.open.is_some())
    }

    /// Why the objects of a kind in a scope are not completely known at a moment; `None` when they are. Without a
    /// scope: the objects of all scopes that were requested.
    pub fn incomplete(
        &self,
        resource: &str,
        scope: Option<&Scope>,
        at: Nanos,
    ) -> Option<Incomplete> {
        let all: Vec<(&str, &Watched)> = self
            .watches()
            .filter(|(r, ..)| *r == resource)
            .map(|(_, scope, w)| (scope, w))
            .collect();
        if all.is_empty() {
            return Some(match self.whole() {
                Some(f) => Incomplete::Failing(f.clone()),
                None => Incomplete::NotAsked,
            });
        }
        let Some(scope) = scope else {
            return all.iter().find_map(|(_, w)| self.trouble(resource, w, at));
        };
        let mut whole = all.iter().filter(|(s, _)| includes(s, scope)).peekable();
        if whole.peek().is_some() {
            // One complete list of several is enough.
            let mut why = None;
            for (_, w) in whole {
                match self.trouble(resource, w, at) {
                    None => return None,
                    some => why = why.or(some),
                }
            }
            return why;
        }
        // A node's pods are requested by two lists: the pods bound to the node, and the pods without a node.
        let lists = scope.lists();
        if all.iter().any(|(s, _)| lists.iter().any(|l| l == s)) {
            return lists
                .iter()
                .find_map(|l| match all.iter().find(|(s, _)| l == s) {
                    Some((_, w)) => self.trouble(resource, w, at),
                    None => Some(Incomplete::NotYet),
                });
        }
        // A failure explains more than scopes that differ.
        let refused = all.iter().find_map(|(_, w)| self.trouble(resource, w, at));
        Some(refused.unwrap_or_else(|| {
            Incomplete::Narrower(all.iter().map(|(s, _)| Text::from(*s)).collect())
        }))
    }

    /// Like [`incomplete`](Self::incomplete), of the lists whose scope `passes`; `None` when no scope does.
    pub fn incomplete_where(
        &self,
        resource: &str,
        passes: impl Fn(&str) -> bool,
        at: Nanos,
    ) -> Option<Option<Incomplete>> {
        let mut found = None;
        for (_, _, w) in self
            .watches()
            .filter(|(r, scope, _)| *r == resource && passes(scope))
        {
            let trouble = self.trouble(resource, w, at);
            if trouble.is_none() {
                return Some(None);
            }
            found = found.or(trouble);
        }
        found.map(Some)
    }

    /// Why the lists of a kind are incomplete; `None` when they are complete or were not requested. A kind that the
    /// apiserver does not serve (404) needs no list.
    pub fn unread(&self, resource: &str, at: Nanos) -> Option<Incomplete> {
        self.watches()
            .filter(|(r, ..)| *r == resource)
            .filter_map(|(_, _, w)| self.trouble(resource, w, at))
            .find(|why| !matches!(why, Incomplete::Failing(f) if f.failure == Failure::NotFound))
    }

    /// Arrival of the end of the newest complete list of a kind.
    pub fn newest_list(&self, resource: &str) -> Option<Nanos> {
        self.watches()
            .filter(|(r, ..)| *r == resource)
            .filter_map(|(_, _, w)| Some(w.list?.end))
            .max()
    }

    /// Why the data of one watch is incomplete at a moment; `None` when it is complete.
    fn trouble(&self, resource: &str, w: &Watched, at: Nanos) -> Option<Incomplete> {
        let failing = w.failing.as_ref();
        let Some(list) = w.list else {
            return Some(match (failing, self.whole()) {
                (Some(f), _) | (None, Some(f)) => Incomplete::Failing(f.clone()),
                (None, None) if w.open.is_some() => Incomplete::NotYet,
                (None, None) => Incomplete::NoList,
            });
        };
        if self.losses(resource) > list.losses
            && let Some(lost) = self.of(resource).map(|(_, lost)| lost).max()
        {
            return Some(Incomplete::Lost(lost.clone()));
        }
        failing
            .filter(|f| at.since(f.since) > BLINK)
            .map(|f| Incomplete::Failing(f.clone()))
    }

    /// Failures at a moment that last longer than 3 s: resource, scope, failure. For a kind that was never listed,
    /// any failure counts.
    pub fn failures(&self, at: Nanos) -> impl Iterator<Item = (&str, &str, &Failing)> {
        self.watches().filter_map(move |(resource, scope, w)| {
            let f = w.failing()?;
            (w.list.is_none() || at.since(f.since) > BLINK).then_some((resource, scope, f))
        })
    }
}

#[cfg(test)]
mod tests;
