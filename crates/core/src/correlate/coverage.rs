//! What was read of the apiserver: which kinds, within which bounds, until when, and what kept the rest from being read.
//!
//! Made of the notes of lists and watches alone, so that a recording answers as the run that it was made in. "As of"
//! is the newest observation of the world; [`Hindsight`] adds what a recording tells only after the moment.

mod hindsight;

use std::collections::BTreeMap;

use kflow_model::Evidence;
use kflow_model::gap::{Failure, Gap, WatchKind, WatchNote};
use kflow_model::{Body, Nanos, Scope, Source, Text, scope::includes, stamp::SECOND};

pub use hindsight::Hindsight;

/// A watch that failed so lately is resumed as a rule, and nothing was missed.
const BLINK: i64 = 3 * SECOND;
/// What may have befallen every kind: a loss of something, and a time in which nobody recorded.
const ANY: [&str; 2] = ["", Gap::UNRECORDED];

/// A failure of a list or watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The first failure since the watch was last followed.
    pub since: Nanos,
    /// The newest failure.
    pub last: Nanos,
    /// What kind of failure the newest is.
    pub failure: Failure,
    /// The newest failure in words.
    pub detail: Text,
}

/// A complete list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// Begin, by arrival.
    pub begin: Nanos,
    /// End, by arrival.
    pub end: Nanos,
    /// Losses that befell its kind before its begin.
    losses: u64,
}

/// What the lists and watches of one kind within one scope gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Begin of a list whose end has not come, and the losses before it.
    open: Option<(Nanos, u64)>,
    list: Option<List>,
    failing: Option<Failing>,
}

impl Watched {
    /// The newest complete list.
    pub const fn list(&self) -> Option<List> {
        self.list
    }
    /// The failure that lasts.
    pub const fn failing(&self) -> Option<&Failing> {
        self.failing.as_ref()
    }
    /// Takes a note. Notes of one watch count in the order of their arrival, whatever the clock did meanwhile.
    fn note(&mut self, at: Nanos, n: &WatchNote, losses: u64) {
        match n.kind {
            WatchKind::ListBegin => self.open = Some((at, losses)),
            WatchKind::ListEnd => {
                if let Some((begin, losses)) = self.open.take() {
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

/// A loss of observations of the apiserver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// End of the loss.
    pub at: Nanos,
    /// Begin of the loss.
    pub since: Nanos,
    /// How many observations, 0 when unknown.
    pub count: u64,
    /// Kind of object that was lost, as a plural; empty when it may be any.
    pub resource: Text,
    /// What the source said of the loss.
    pub why: Text,
}

impl Lost {
    /// Of a gap that arrived at `at`; `None` of one of another source than the apiserver and kflow.
    fn of(g: &Gap, at: Nanos) -> Option<Self> {
        matches!(g.of, Source::Kube | Source::Kflow).then(|| Self {
            at,
            since: g.since,
            count: g.lost,
            resource: g.resource.clone(),
            why: g.why.clone(),
        })
    }
}

/// Why the objects of a kind are not known completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// No list of it was tried.
    NotAsked,
    /// A list began, or was asked for, and has not ended.
    NotYet,
    /// A watch was followed, without a list before it: what did not change is not known.
    NoList,
    /// A list or the watch after it fails.
    Failing(Failing),
    /// Observations were lost since the list.
    Lost(Lost),
    /// Lists have narrower bounds than what is asked about: these.
    Narrower(Vec<Text>),
}

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    watches: BTreeMap<(Text, Text), Watched>,
    /// By the kind that was lost: how many losses, and the newest.
    lost: BTreeMap<Text, (u64, Lost)>,
}

impl Coverage {
    /// Takes a note of a watch, or a loss.
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

    /// Every kind and scope that was asked for, sorted: resource, scope, what came.
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

    /// What befell a kind: losses of it, losses that may be of any, and times in which nobody recorded.
    fn of(&self, resource: &str) -> impl Iterator<Item = &(u64, Lost)> {
        let own = (!ANY.contains(&resource)).then_some(resource);
        let kinds = ANY.into_iter().chain(own);
        kinds.filter_map(|r| self.lost.get(r))
    }

    fn losses(&self, resource: &str) -> u64 {
        self.of(resource).map(|(n, _)| n).sum()
    }

    /// The newest loss of observations of the apiserver that befell one of these kinds.
    pub fn lost(&self, resources: &[&str]) -> Option<&Lost> {
        let kinds = resources.iter().chain(&[""]);
        kinds.filter_map(|r| Some(&self.lost.get(*r)?.1)).max()
    }

    /// The newest loss that befell a kind since its lists.
    pub fn lost_since_list(&self, resource: &str) -> Option<&Lost> {
        let listed = |(r, _, w): (&str, &str, &Watched)| (r == resource).then_some(w.list?.losses);
        // A kind may be listed in parts, and a loss does not say of which it is.
        let listed = self.watches().filter_map(listed).min().unwrap_or_default();
        let newest = self.of(resource).map(|(_, lost)| lost).max();
        newest.filter(|_| self.losses(resource) > listed)
    }

    /// Kinds that were lost by name, and not listed anew since.
    pub fn losses_by_kind(&self) -> impl Iterator<Item = (&str, &Lost)> {
        let kinds = self.lost.keys().map(Text::as_str);
        let kinds = kinds.filter(|r| !ANY.contains(r));
        kinds.filter_map(|r| Some((r, self.lost_since_list(r).filter(|l| l.resource == r)?)))
    }

    /// The failure of the apiserver as a whole: no kubeconfig, for one.
    pub fn whole(&self) -> Option<&Failing> {
        self.watches()
            .find(|(resource, ..)| resource.is_empty())?
            .2
            .failing()
    }

    /// True when somebody asked an apiserver for objects of this kind.
    pub fn asked(&self, resource: &str) -> bool {
        self.whole().is_some() || self.watches().any(|(r, ..)| r == resource)
    }

    /// True while a list of this kind has begun and not ended.
    pub fn is_being_listed(&self, resource: &str) -> bool {
        self.watches()
            .any(|(r, _, w)| r == resource && w.open.is_some())
    }

    /// Why the pods (or other objects) of a scope are not known completely at a moment; `None` when they are. Without a
    /// scope: of all that was ever asked for.
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
            // One good list of several is enough.
            let mut why = None;
            for (_, w) in whole {
                match self.trouble(resource, w, at) {
                    None => return None,
                    some => why = why.or(some),
                }
            }
            return why;
        }
        // A node is asked about by two lists: its own pods, and those that have no node.
        let lists = scope.lists();
        if all.iter().any(|(s, _)| lists.iter().any(|l| l == s)) {
            return lists
                .iter()
                .find_map(|l| match all.iter().find(|(s, _)| l == s) {
                    Some((_, w)) => self.trouble(resource, w, at),
                    None => Some(Incomplete::NotYet),
                });
        }
        // What was refused says more than bounds that are others.
        let refused = all.iter().find_map(|(_, w)| self.trouble(resource, w, at));
        Some(refused.unwrap_or_else(|| {
            Incomplete::Narrower(all.iter().map(|(s, _)| Text::from(*s)).collect())
        }))
    }

    /// The same of the lists whose bounds pass, where one does.
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

    /// Why the list of a kind is incomplete, when it was asked for. A kind that the apiserver does not serve (404) needs
    /// no list.
    pub fn unread(&self, resource: &str, at: Nanos) -> Option<Incomplete> {
        self.watches()
            .filter(|(r, ..)| *r == resource)
            .filter_map(|(_, _, w)| self.trouble(resource, w, at))
            .find(|why| !matches!(why, Incomplete::Failing(f) if f.failure == Failure::NotFound))
    }

    /// End of the newest complete list of a kind.
    pub fn newest_list(&self, resource: &str) -> Option<Nanos> {
        self.watches()
            .filter(|(r, ..)| *r == resource)
            .filter_map(|(_, _, w)| Some(w.list?.end))
            .max()
    }

    /// Why what a watch gave is not complete at a moment.
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

    /// What fails at a moment and is no passing blink: resource, scope, how. What was never listed fails at once.
    pub fn failures(&self, at: Nanos) -> impl Iterator<Item = (&str, &str, &Failing)> {
        self.watches().filter_map(move |(resource, scope, w)| {
            let f = w.failing()?;
            (w.list.is_none() || at.since(f.since) > BLINK).then_some((resource, scope, f))
        })
    }
}

#[cfg(test)]
mod tests;
