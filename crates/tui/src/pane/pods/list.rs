//! The rows of the list of pods, kept from one snapshot to the next.
//!
//! For each pod the list keeps the key that decides its row. A new snapshot shares the unchanged pods and verdicts
//! with the last one (`Arc` identity), so only changed ones are looked at, and only pods whose key changed are sorted
//! in again. With ten thousand pods of which some hundreds change per frame, a frame costs what those hundreds cost.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::order::{self, GroupBy, Hidden, Key, Widths};
use super::wanted::{NotShown, Wanted};
use kflow_core::correlate::world::{LazyPod, Pod};
use kflow_core::diagnose::{State, Verdict};
use kflow_engine::Snapshot;
use kflow_model::stamp::SECOND;
use kflow_model::{Nanos, ObjectRef, PodUid};

/// A row of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Row {
    /// An owner that has a verdict of its own, by its index in the verdicts on owners.
    Owner(u32),
    /// Owners that are not shown: how many.
    MoreOwners(usize),
    /// A group: its name, the number of its pods, and how many of them are in trouble.
    Group(String, usize, usize),
    /// A pod, by its index in the world's list of pods.
    Pod(u32),
}

/// Length, in pods, from which a list is reordered at most once per [`REORDER`].
const LONG: usize = 1000;
/// Least time between two orderings of a long list, ns.
const REORDER: i64 = SECOND / 2;
/// Limit on the pods of a long list whose changed verdicts are taken from one snapshot. At 30 snapshots per second,
/// ten thousand pods take 0.7 s.
const JUDGED: usize = 500;
/// The row of a pod that is not shown.
const NOWHERE: u32 = u32::MAX;

/// A pod of the last snapshot. The handle is weak, so that the list neither keeps a view alive that nothing else
/// needs, nor has to free it.
#[derive(Debug)]
struct Seen {
    handle: Weak<LazyPod>,
    created: Nanos,
    uid: PodUid,
    /// The verdict from which the pod's key was made; dangling if there was none.
    verdict: Weak<Verdict>,
}

impl Seen {
    fn new(p: &Pod, verdict: Weak<Verdict>) -> Self {
        let (created, uid) = p.listed_by();
        Self {
            handle: Arc::downgrade(p),
            created,
            uid: uid.clone(),
            verdict,
        }
    }
    /// Returns true if the pod's key was made from this verdict.
    fn is_said(&self, verdict: Option<&Arc<Verdict>>) -> bool {
        match verdict {
            Some(v) => std::ptr::eq(self.verdict.as_ptr(), Arc::as_ptr(v)),
            None => self.verdict.ptr_eq(&Weak::new()),
        }
    }
    /// Returns true for the same state of the same pod. While a weak handle exists, nothing else can be allocated at
    /// its address.
    fn is(&self, p: &Pod) -> bool {
        std::ptr::eq(self.handle.as_ptr(), Arc::as_ptr(p))
    }
    const fn listed_by(&self) -> (Nanos, &PodUid) {
        (self.created, &self.uid)
    }
}

#[derive(Debug, Default)]
pub(super) struct List {
    /// Rows, in the order in which they are drawn.
    pub(super) rows: Vec<Row>,
    /// Number of pods, without those of the past.
    pub(super) total: usize,
    /// Number of shown pods that need attention.
    pub(super) trouble: usize,
    /// Number of shown owners.
    pub(super) owners: usize,
    /// Numbers of pods that match the filter but are hidden for another reason.
    pub(super) not_shown: NotShown,
    /// Widths of the widest cells since the list was made afresh: a column that shrinks whenever its widest cell goes
    /// moves the others while one reads them.
    pub(super) widths: Widths,
    /// Pods of the last snapshot in the order of the world, and their keys.
    pods: Vec<Seen>,
    keys: Vec<Key>,
    /// The verdicts that were taken last. The handle is weak, because freeing ten thousand verdicts takes longer than
    /// a frame may.
    verdicts: Weak<FxHashMap<PodUid, Arc<Verdict>>>,
    owner_verdicts: Arc<Vec<Arc<Verdict>>>,
    version: Option<u64>,
    /// Indices of the shown pods in the order of the list, and for each pod its row.
    order: Vec<u32>,
    place: Vec<u32>,
    /// Pods whose row may have to change.
    moved: Vec<u32>,
    /// Whether pods have come or gone since the list was last put in order.
    resized: bool,
    /// When the list was last put in order, by the snapshot's time.
    ordered: Option<Nanos>,
    /// Whether all verdicts have been taken since the list was last put in order.
    judged: bool,
    /// Index of the pod at which the next snapshot goes on taking verdicts; 0 if none are left to take.
    judged_to: usize,
}

impl List {
    /// Returns the number of shown pods.
    pub(super) const fn shown(&self) -> usize {
        self.order.len()
    }
    pub(super) fn row_of(&self, snap: &Snapshot, uid: &PodUid) -> Option<usize> {
        let p = snap.world.pod(uid)?;
        self.row(place_of(snap.world.pods(), p)? as u32)
    }
    pub(super) fn row_of_owner(&self, owner: &ObjectRef) -> Option<usize> {
        self.rows.iter().position(|r| match r {
            Row::Owner(i) => self
                .owner(*i)
                .is_some_and(|v| v.owner.as_ref() == Some(owner)),
            _ => false,
        })
    }
    /// Returns true for an owner with a verdict that is left out for want of room.
    pub(super) fn leaves_out(&self, owner: &ObjectRef) -> bool {
        let folded = self.rows.iter().any(|r| matches!(r, Row::MoreOwners(_)));
        let mut all = self.owner_verdicts.iter();
        folded && self.row_of_owner(owner).is_none() && all.any(|v| v.owner.as_ref() == Some(owner))
    }
    /// Returns the verdict on an owner by its index.
    pub(super) fn owner(&self, place: u32) -> Option<&Arc<Verdict>> {
        self.owner_verdicts.get(place as usize)
    }
    /// Returns true if the verdicts of a snapshot are those that were taken last.
    fn judged_by(&self, snap: &Snapshot) -> bool {
        std::ptr::eq(self.verdicts.as_ptr(), Arc::as_ptr(&snap.verdicts))
    }
    fn row(&self, pod: u32) -> Option<usize> {
        let row = self.place.get(pod as usize).filter(|r| **r != NOWHERE)?;
        Some(*row as usize)
    }
    /// Brings the list up to date with a snapshot. `afresh` rebuilds all keys, which is needed if `wanted` has changed.
    /// While the list is `held`, each pod keeps its row; new pods get none.
    pub(super) fn sync(&mut self, snap: &Snapshot, wanted: &Wanted, afresh: bool, held: bool) {
        let in_order = self.moved.is_empty() && !self.judged && self.judged_to == 0;
        if !afresh
            && in_order
            && self.version == Some(snap.version)
            && self.judged_by(snap)
            && Arc::ptr_eq(&self.owner_verdicts, &snap.owner_verdicts)
        {
            return;
        }
        self.version = Some(snap.version);
        if afresh {
            self.widths = Widths::default();
        }
        // A long list is reordered only a few times per second: rows that jump with every observation cannot be read,
        // and a row shows the newest state of its pod in any order. Taking all verdicts and ordering the list may
        // cost more than one frame. So a part of the verdicts is taken with each snapshot, and the list is ordered
        // with the snapshot after the last part.
        let long = !afresh && snap.mode.moves() && snap.world.pods().len() > LONG;
        let just = |at: Nanos| (0..REORDER).contains(&snap.now.since(at));
        let rests = !afresh && (held || long && self.ordered.is_some_and(just));
        let orders = !rests && (!long || self.judged);
        let judges = !rests && (!long || !self.judged);
        if !long {
            self.judged_to = 0;
        }
        if judges && (afresh || wanted.filter.depends_on_time()) {
            self.take_all(snap, wanted);
        } else {
            let most = if long { JUDGED } else { usize::MAX };
            self.take(snap, wanted, judges.then_some(most));
        }
        self.judged = judges && !orders && self.judged_to == 0;
        if orders {
            self.ordered = Some(snap.now);
            if !Arc::ptr_eq(&self.owner_verdicts, &snap.owner_verdicts) {
                self.owner_verdicts = Arc::clone(&snap.owner_verdicts);
                self.resized = true;
            }
            if afresh || self.resized || !self.moved.is_empty() {
                self.resized = false;
                self.put_in_order(wanted, snap.now);
            }
        }
    }
    /// Returns the row of the pod that matches the filter best; `None` if no match scores above 0.
    pub(super) fn best(&self) -> Option<usize> {
        let score = |i: &u32| self.keys.get(*i as usize).and_then(|k| k.score);
        let best = self
            .order
            .iter()
            .filter_map(score)
            .max()
            .filter(|s| *s > 0)?;
        self.row(*self.order.iter().find(|i| score(i) == Some(best))?)
    }
    fn take_all(&mut self, snap: &Snapshot, wanted: &Wanted) {
        let pods = snap.world.pods();
        self.realign(pods);
        self.keys = pods.iter().map(|p| wanted.key(snap, p)).collect();
        for seen in &mut self.pods {
            seen.verdict = said(snap, &seen.uid);
        }
        self.verdicts = Arc::downgrade(&snap.verdicts);
        self.judged_to = 0;
        self.moved = (0..pods.len() as u32).collect();
    }
    /// Remakes the keys of changed pods, and those of up to `judged` pods whose verdict has changed.
    fn take(&mut self, snap: &Snapshot, wanted: &Wanted, judged: Option<usize>) {
        let pods = snap.world.pods();
        let aligned = pods.len() == self.pods.len()
            && (pods.iter().zip(&self.pods))
                .all(|(a, b)| b.is(a) || a.listed_by() == b.listed_by());
        let mut stale = if aligned {
            let mut stale = Vec::new();
            for (i, (old, new)) in (0..).zip(self.pods.iter_mut().zip(pods)) {
                if !old.is(new) {
                    old.handle = Arc::downgrade(new);
                    stale.push(i);
                }
            }
            stale
        } else {
            self.realign(pods)
        };
        if let Some(most) = judged
            && (self.judged_to > 0 || !self.judged_by(snap))
        {
            let others = self.said_anew(snap, wanted, &stale, most);
            stale.extend(others);
        }
        for i in stale {
            let n = i as usize;
            if let (Some(p), Some(key), Some(seen)) =
                (pods.get(n), self.keys.get_mut(n), self.pods.get_mut(n))
            {
                let new = wanted.key(snap, p);
                seen.verdict = said(snap, &seen.uid);
                if !key.stands_as(&new) {
                    self.moved.push(i);
                }
                if new.score.is_some() {
                    self.widths = self.widths.max(new.widths);
                }
                *key = new;
            }
        }
    }
    /// Returns the indices of up to `most` pods whose verdict has changed, from where the last call stopped, without
    /// those in `but`.
    fn said_anew(
        &mut self,
        snap: &Snapshot,
        wanted: &Wanted,
        but: &[u32],
        most: usize,
    ) -> Vec<u32> {
        let from = self.judged_to;
        let mut but = but.iter().skip_while(|i| (**i as usize) < from).peekable();
        let mut found = Vec::new();
        self.judged_to = 0;
        for (i, seen) in (0..).zip(&self.pods).skip(from) {
            if found.len() >= most {
                self.judged_to = i as usize;
                break;
            }
            let verdict = snap.verdicts.get(&seen.uid);
            let is_anew = !seen.is_said(verdict) || wanted.looks_behind(verdict);
            if but.next_if_eq(&&i).is_none() && is_anew {
                found.push(i);
            }
        }
        if self.judged_to == 0 {
            self.verdicts = Arc::downgrade(&snap.verdicts);
        }
        found
    }
    /// Adapts all indices of pods after pods have come or gone. Returns the indices of changed and of new pods.
    fn realign(&mut self, pods: &[Pod]) -> Vec<u32> {
        let mut before = self
            .pods
            .iter()
            .zip(std::mem::take(&mut self.keys))
            .peekable();
        let mut places = vec![NOWHERE; self.pods.len()];
        let mut places_left = places.iter_mut();
        let (mut keys, mut stale, mut new) =
            (Vec::with_capacity(pods.len()), Vec::new(), Vec::new());
        let mut seen = Vec::with_capacity(pods.len());
        for (i, p) in (0..).zip(pods) {
            while before
                .next_if(|(b, _)| b.listed_by() < p.listed_by())
                .is_some()
            {
                places_left.next();
            }
            match before.next_if(|(b, _)| b.listed_by() == p.listed_by()) {
                Some((b, key)) => {
                    keys.push(key);
                    seen.push(Seen::new(p, b.verdict.clone()));
                    if let Some(place) = places_left.next() {
                        *place = i;
                    }
                    if !b.is(p) {
                        stale.push(i);
                    }
                }
                None => {
                    keys.push(Key::default());
                    seen.push(Seen::new(p, Weak::new()));
                    stale.push(i);
                    new.push(i);
                }
            }
        }
        let place = |i: u32| places.get(i as usize).copied().filter(|i| *i != NOWHERE);
        self.order = self.order.iter().filter_map(|i| place(*i)).collect();
        self.moved = self
            .moved
            .iter()
            .filter_map(|i| place(*i))
            .chain(new)
            .collect();
        self.rows.retain_mut(|r| match r {
            Row::Group(..) | Row::Owner(_) | Row::MoreOwners(_) => true,
            Row::Pod(i) => place(*i).map(|new| *i = new).is_some(),
        });
        self.resized = true;
        self.keys = keys;
        self.pods = seen;
        self.find_places();
        stale
    }
    fn put_in_order(&mut self, wanted: &Wanted, now: Nanos) {
        let keys = &self.keys;
        let key = |i: u32| keys.get(i as usize);
        let by_key = |a: &u32, b: &u32| match (key(*a), key(*b)) {
            (Some(x), Some(y)) => x.order(y, wanted.sort, wanted.reverse).then(a.cmp(b)),
            _ => a.cmp(b),
        };
        let shown = |i: &u32| key(*i).is_some_and(|k| k.score.is_some());
        // Pods that are still in order form one run, which the sort handles cheaply. Most pods whose key changed keep
        // their place.
        let mut out = vec![true; keys.len()];
        let mut run: Vec<u32> = Vec::with_capacity(self.order.len());
        for i in self.order.iter().filter(|i| shown(i)) {
            let is_after = |last: Option<&u32>| last.is_none_or(|l| by_key(l, i).is_lt());
            if !is_after(run.last()) {
                // One of the two pods has moved: the last of the run if `i` fits after the one before it, else `i`.
                if !is_after(run.len().checked_sub(2).and_then(|n| run.get(n))) {
                    continue;
                }
                run.pop();
            }
            run.push(*i);
        }
        for i in &run {
            if let Some(o) = out.get_mut(*i as usize) {
                *o = false;
            }
        }
        self.moved.extend(&self.order);
        self.moved.sort_unstable();
        self.moved.dedup();
        self.moved
            .retain(|i| out.get(*i as usize) == Some(&true) && shown(i));
        run.append(&mut self.moved);
        run.sort_by(by_key);
        self.order = run;
        (self.not_shown, self.trouble) = (NotShown::default(), 0);
        for k in keys {
            match k.hidden {
                Hidden::Past => self.not_shown.past += 1,
                Hidden::Gone => self.not_shown.gone += 1,
                Hidden::Finished => self.not_shown.finished += 1,
                Hidden::No => {}
            }
            if k.score.is_some() {
                self.trouble += usize::from(k.rank < order::FINE);
                self.widths = self.widths.max(k.widths);
            }
        }
        self.total = keys.len() - self.not_shown.past;
        self.rows.clear();
        // Owners that cannot create pods come first: their pods do not exist, and so have no rows. After them Jobs that
        // have failed and have no pods any more.
        for over in [false, true] {
            for (n, v) in (0..).zip(self.owner_verdicts.iter()) {
                if (v.state == State::Failed) == over && wanted.keeps_owner(v, now) {
                    self.rows.push(Row::Owner(n));
                }
            }
        }
        self.owners = self.rows.len();
        // The pods are below them, and should be on the screen too. A row that says that one more is left out takes as much room as it.
        if self.owners > wanted.owners.saturating_add(1) {
            self.rows.truncate(wanted.owners);
            self.rows.push(Row::MoreOwners(self.owners - wanted.owners));
        }
        let shown = self.rows.iter().filter_map(|r| match r {
            Row::Owner(n) => self.owner_verdicts.get(*n as usize),
            _ => None,
        });
        let shown = shown.map(|v| Widths::of_owner(v));
        self.widths = shown.fold(self.widths, Widths::max);
        let mut header: Option<(usize, &Key)> = None;
        for i in &self.order {
            if wanted.group != GroupBy::None
                && let Some(k) = key(*i)
            {
                let at = match header {
                    Some((at, of)) if of.group == k.group => at,
                    _ => {
                        self.rows.push(Row::Group(k.group.to_string(), 0, 0));
                        header = Some((self.rows.len() - 1, k));
                        self.rows.len() - 1
                    }
                };
                if let Some(Row::Group(_, n, bad)) = self.rows.get_mut(at) {
                    *n += 1;
                    *bad += usize::from(k.rank < order::FINE);
                }
            }
            self.rows.push(Row::Pod(*i));
        }
        self.find_places();
    }
    fn find_places(&mut self) {
        self.place.clear();
        self.place.resize(self.pods.len(), NOWHERE);
        for (n, row) in (0..).zip(&self.rows) {
            if let Row::Pod(i) = row
                && let Some(place) = self.place.get_mut(*i as usize)
            {
                *place = n;
            }
        }
    }
}

/// Returns the verdict on a pod; a dangling handle if there is none.
fn said(snap: &Snapshot, uid: &PodUid) -> Weak<Verdict> {
    snap.verdicts
        .get(uid)
        .map(Arc::downgrade)
        .unwrap_or_default()
}

/// Returns the index of a pod in the world's list.
fn place_of(pods: &[Pod], p: &Pod) -> Option<usize> {
    pods.binary_search_by(|x| x.listed_by().cmp(&p.listed_by()))
        .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::Filter;
    use crate::pane::pods::Sort;
    use kflow_engine::Pipeline;
    use kflow_engine::snapshot::Mode;
    use kflow_model::pod::{PodSeen, WatchEvent};
    use kflow_model::{Body, Observation, Source, Stamp};

    const BEGIN: i64 = 1_790_000_000;

    /// A pod as the API reports it at a second: running, pending, completed or deleted.
    fn seen(second: i64, n: u8, what: u8) -> Arc<Observation> {
        let mut p = PodSeen {
            event: WatchEvent::Modified,
            uid: format!("{n:08x}-0000-4000-8000-000000000000").into(),
            namespace: format!("team-{}", n % 3).into(),
            name: format!("app-{}", n.wrapping_mul(37)).into(),
            resource_version: second as u64,
            // Some pods are older than those that were seen first.
            created: Nanos((BEGIN - i64::from(n % 7) * 60) * SECOND),
            ..PodSeen::default()
        };
        let (event, node, phase) = match what % 4 {
            0 => (WatchEvent::Modified, "node1", "Running"),
            1 => (WatchEvent::Modified, "", "Pending"),
            2 => (WatchEvent::Modified, "node1", "Succeeded"),
            _ => (WatchEvent::Deleted, "node1", "Running"),
        };
        p.event = event;
        p.spec.node = node.into();
        p.status.phase = phase.into();
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos((BEGIN + second) * SECOND)),
            source: Source::Kube,
            body: Body::Pod(Box::new(p)),
        })
    }

    fn wanted(sort: usize, group: usize, filter: &str, all: bool) -> Wanted {
        Wanted {
            sort: Sort::ALL[sort % Sort::ALL.len()],
            reverse: sort > 9,
            group: [
                GroupBy::None,
                GroupBy::Namespace,
                GroupBy::Node,
                GroupBy::Cause,
            ][group % 4],
            gone: all,
            finished: all,
            owners: 3,
            filter: Filter::parse(filter).expect("filter"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_list_that_was_kept_is_as_one_that_is_made_anew(
            rounds in prop::collection::vec(prop::collection::vec((0_u8..40, 0_u8..8), 0..12), 1..12),
            sort in 0_usize..20,
            group in 0_usize..4,
            filter in prop::sample::select(vec!["", "app1", "status:Run* | pod:app-1*", "!7", "age>3s"]),
            all in any::<bool>(),
        ) {
            let wanted = wanted(sort, group, filter, all);
            let (mut core, mut kept, mut second) = (Pipeline::new(), List::default(), 0);
            for round in rounds {
                for (n, what) in round {
                    second += 1;
                    core.observe(seen(second, n, what));
                }
                let now = Nanos((BEGIN + second) * SECOND);
                let mode = Mode::Live { scope: "".into(), following: true, recording: "".into() };
                let snap = core.snapshot(now, mode, (now, now), Vec::new());
                kept.sync(&snap, &wanted, false, false);
                let mut anew = List::default();
                anew.sync(&snap, &wanted, true, false);
                prop_assert_eq!(&kept.rows, &anew.rows);
                prop_assert_eq!(&kept.place, &anew.place);
                prop_assert_eq!((kept.total, kept.trouble), (anew.total, anew.trouble));
                prop_assert_eq!(kept.not_shown, anew.not_shown);
                prop_assert_eq!(kept.widths, kept.widths.max(anew.widths));
                prop_assert_eq!(kept.best(), anew.best());
            }
        }
    }
}
