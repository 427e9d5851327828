//! The evidence filed under one pod, and under one name.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::correlate::context::Folded;
use crate::correlate::shards::Chunked;
use crate::flow::{self, Fact};
use kflow_model::Evidence;
use kflow_model::{
    Body, Nanos, PodUid, Source, Text,
    cri::{CallKey, RuntimeState},
    pod::{PodSeen, WatchEvent},
};

/// Index of a pod's file.
pub(crate) type Slot = u32;
/// Sort key of the list of pods: begin of the view, and UID.
pub(crate) type PodKey = (Nanos, PodUid);
/// Stands for "known, and not about a pod".
pub(crate) const NOBODY: Slot = u32::MAX;

/// Evidence of a pod or name is cut to this number, in observations, once it is twice as long: the oldest half and
/// the newest half stay.
pub(crate) const KEEP: usize = 20_000;

/// Number of states from lists of the runtime that are kept of one pod; beyond it, the middle half is dropped.
const KEEP_LISTED: usize = 4096;

/// Drops and returns the middle of a pile that is longer than `2 * KEEP`: the oldest and the newest `KEEP / 2` stay.
pub(crate) fn fold(pile: &mut Pile) -> Vec<Evidence> {
    if pile.len() <= 2 * KEEP {
        return Vec::new();
    }
    let mut all = sorted([pile]);
    let gone = all
        .drain(KEEP / 2..(all.len().max(KEEP) - KEEP / 2))
        .collect();
    *pile = all.into_iter().collect();
    gone
}

/// Evidence in order of arrival, unsorted and with duplicates: sorted when a view is derived.
pub(crate) type Pile = Chunked<Evidence, 64>;

/// The evidence of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodFile {
    /// UID; `ns/name` for evidence of a pod whose UID is unknown.
    pub(crate) uid: Text,
    /// UIDs of mirror pods.
    pub(crate) mirrors: Vec<PodUid>,
    /// Index of the pod's name file.
    pub(crate) name: Option<u32>,
    /// Evidence filed under the UID, or an id that leads to it.
    pub(crate) evidence: Pile,
    /// Evidence filed under the name, and assigned to this pod.
    pub(crate) named: Pile,
    /// States from lists of the runtime: the earliest list for each id and state.
    pub(crate) listed_items: Arc<Vec<(Text, RuntimeState, Evidence)>>,
    /// Calls whose names are not all known yet.
    pub(crate) unnamed: Vec<CallKey>,
    /// Sort key under which the view is in the list of pods; `None` while it is not.
    pub(crate) shown: Option<PodKey>,
    pub(crate) created: Option<Nanos>,
    /// The earliest `creationTimestamp` of the pod and its mirrors.
    pub(crate) created_any: Option<Nanos>,
    /// Time of the earliest evidence in `evidence`.
    pub(crate) first: Option<Nanos>,
    /// Time of the earliest evidence in `named`.
    pub(crate) first_named: Option<Nanos>,
    /// Newest state in the API, by resource version.
    pub(crate) newest: Option<Evidence>,
    /// Time of the newest state in the API other than a deletion.
    pub(crate) api_last: Option<Nanos>,
    /// Time of the DELETED event; `None` for a mirror's.
    pub(crate) deleted: Option<Nanos>,
    /// The static pod's file, when this file turned out to be a mirror pod's.
    pub(crate) into: Option<Slot>,
    /// Summary of the evidence that was dropped.
    pub(crate) folded: Folded,
    /// True when the view has to be derived again.
    pub(crate) dirty: bool,
    /// True when the pod was removed from the world: nothing is filed here any more.
    pub(crate) retired: bool,
    /// True when a source on the node saw the pod.
    pub(crate) on_node: bool,
    /// True when the pod was counted for its node's name.
    pub(crate) voted: bool,
}

impl PodFile {
    /// Begin of the pod's life, to tell pods of one name apart: `creationTimestamp`, else the first evidence.
    pub(crate) fn birth(&self) -> Nanos {
        self.created.or(self.first).unwrap_or_default()
    }
    /// Begin of the pod's view on the node's clock, which the list of pods is sorted by.
    pub(crate) fn shown_from(&self, shift_ns: i64) -> Nanos {
        self.created_any
            .map_or_else(|| self.heard_of(), |c| c.plus(-shift_ns))
    }
    /// Time of the earliest evidence.
    pub(crate) fn heard_of(&self) -> Nanos {
        [self.first, self.first_named]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_default()
    }
    /// The newest state in the API.
    pub(crate) fn newest(&self) -> Option<&PodSeen> {
        match &self.newest.as_ref()?.body {
            Body::Pod(p) => Some(p),
            _ => None,
        }
    }
    /// Files one observation. Returns true when it changed the pod's birth or deletion.
    pub(crate) fn push(&mut self, o: &Evidence) -> bool {
        let before = (self.birth(), self.deleted);
        if let Body::Pod(p) = &o.body {
            self.see(o, p);
        }
        // A span that began before the pod did (a retry loop of an informer) does not make the pod older.
        self.first = earlier(self.first, o.stamp.at);
        self.on_node |= on_node(o);
        self.evidence.push(Arc::clone(o));
        before != (self.birth(), self.deleted)
    }
    fn see(&mut self, o: &Evidence, p: &PodSeen) {
        if p.created.0 != 0 {
            self.created_any = earlier(self.created_any, p.created);
        }
        if p.mirror_of.is_none() {
            if p.created.0 != 0 {
                self.created = earlier(self.created, p.created);
            }
            if p.event == WatchEvent::Deleted {
                self.deleted = earlier(self.deleted, o.stamp.at);
            } else {
                self.api_last = self.api_last.max(Some(o.stamp.at));
            }
        }
        // A resource version orders states better than arrival does.
        let newer = self
            .newest()
            .zip(self.newest.as_ref())
            .is_none_or(|(q, old)| {
                (q.resource_version, old.stamp.at, old) < (p.resource_version, o.stamp.at, o)
            });
        if newer {
            self.newest = Some(Arc::clone(o));
        }
    }
    /// Files one observation that names the pod without a UID and was assigned to it.
    pub(crate) fn push_named(&mut self, o: &Evidence) {
        self.first_named = earlier(self.first_named, o.stamp.at);
        self.on_node |= on_node(o);
        self.named.push(Arc::clone(o));
    }
    /// Files the state of one id from a list of the runtime. Returns false when an earlier list has it.
    pub(crate) fn push_listed(&mut self, id: &Text, state: RuntimeState, o: &Evidence) -> bool {
        let items = Arc::make_mut(&mut self.listed_items);
        match items.iter_mut().find(|(i, s, _)| i == id && *s == state) {
            Some((_, _, old)) if *old <= *o => false,
            Some((_, _, old)) => {
                *old = Arc::clone(o);
                true
            }
            None => {
                items.push((id.clone(), state, Arc::clone(o)));
                if items.len() > KEEP_LISTED {
                    items.sort_by(|a, b| a.2.cmp(&b.2));
                    for (_, _, o) in items.drain(KEEP_LISTED / 4..KEEP_LISTED * 3 / 4) {
                        self.folded.note(&o);
                    }
                }
                items.sort();
                true
            }
        }
    }
    /// Drops the middle of the evidence of a pod that lives for weeks.
    pub(crate) fn fold(&mut self) {
        for o in fold(&mut self.evidence) {
            self.folded.note(&o);
        }
    }
    /// All evidence, sorted and without duplicates.
    pub(crate) fn sorted(&self) -> Vec<Evidence> {
        sorted([&self.evidence, &self.named])
    }
}

fn earlier(a: Option<Nanos>, b: Nanos) -> Option<Nanos> {
    Some(a.map_or(b, |a| a.min(b)))
}

fn on_node(o: &Evidence) -> bool {
    matches!(o.source, Source::Cri | Source::Fs | Source::Kubelet)
}

/// Evidence of several piles, sorted and without duplicates.
fn sorted<const N: usize>(piles: [&Pile; N]) -> Vec<Evidence> {
    // The keys hold the times, so that an observation is read only where times are equal.
    let mut all: Vec<(Nanos, &Evidence)> = piles
        .iter()
        .flat_map(|p| p.iter())
        .map(|o| (o.stamp.at, o))
        .collect();
    all.sort();
    all.dedup();
    let mut all: Vec<Evidence> = all.into_iter().map(|(_, o)| Arc::clone(o)).collect();
    drop_repeats(&mut all);
    all
}

/// Sorts evidence and removes duplicates.
pub(crate) fn sort_evidence(v: &mut Vec<Evidence>) {
    // The sort is adaptive: the sorted run in front costs one pass.
    v.sort();
    v.dedup();
    drop_repeats(v);
}

/// Removes from sorted evidence what was read again later; what was read first stays.
fn drop_repeats(v: &mut Vec<Evidence>) {
    let at_once = |a: &Evidence, b: &Evidence| a.stamp.at == b.stamp.at;
    if v.is_sorted_by(|a, b| !at_once(a, b) || a.stamp.seen == b.stamp.seen) {
        return;
    }
    for group in v.chunk_by_mut(at_once) {
        group.sort_by(|a, b| (a.source, &a.body, a.stamp).cmp(&(b.source, &b.body, b.stamp)));
    }
    v.dedup_by(|later, first| later.repeats(first));
    for group in v.chunk_by_mut(at_once) {
        group.sort();
    }
}

/// Inserts an observation into sorted evidence; false when it is already there. Of an observation that was read
/// twice, the one that was read first stays.
pub(crate) fn insert_once(v: &mut Vec<Evidence>, o: &Evidence) -> bool {
    let from = v.partition_point(|e| e.stamp.at < o.stamp.at);
    let mut at_once =
        (v.iter().enumerate().skip(from)).take_while(|(_, e)| e.stamp.at == o.stamp.at);
    if let Some((known, e)) = at_once.find(|(_, e)| e.repeats(o)) {
        if e <= o {
            return false;
        }
        v.remove(known);
    }
    let at = v.partition_point(|e| e < o);
    v.insert(at, Arc::clone(o));
    true
}

/// Evidence that names a pod without a UID, and the pods of that name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameFile {
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) pods: SmallVec<[Slot; 1]>,
    pub(crate) evidence: Pile,
    /// Number of observations that were assigned to pods, and the lives that they were assigned among.
    pub(crate) shared: usize,
    pub(crate) lives: Vec<Life>,
    /// File of the evidence that matches no known pod of this name.
    pub(crate) leftover: Option<Slot>,
    /// True when evidence has to be assigned.
    pub(crate) dirty: bool,
    /// True when all pods of the name were removed from the world.
    pub(crate) retired: bool,
}

/// Lifetime of one pod of a name, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) slot: Slot,
    pub(crate) birth: Nanos,
    /// True when `birth` is `creationTimestamp`, so truncated to a second.
    pub(crate) by_api: bool,
    pub(crate) end: Option<Nanos>,
}

/// Returns since when evidence without a UID may be about the first pod of a name that has a UID, which was first seen
/// with it at `birth`: since the newest observation before that with which a pod of this name began or ended. A kubelet's
/// log names a pod by its UID only in some of its lines.
pub(crate) fn named_from(evidence: &Pile, birth: Nanos) -> Nanos {
    let before = || evidence.iter().filter(|o| o.stamp.at <= birth);
    let bound = before().filter(|o| is_bound(o)).map(|o| o.stamp.at).max();
    before()
        .map(|o| o.stamp.at)
        .filter(|at| bound.is_none_or(|bound| *at >= bound))
        .min()
        .unwrap_or(birth)
}

/// True for an observation with which a pod begins or ends.
fn is_bound(o: &Evidence) -> bool {
    match &o.body {
        Body::Log(l) => matches!(
            flow::line(l).map(|l| l.fact()),
            Some(Fact::PodAdded | Fact::PodRemoved)
        ),
        Body::Event(e) => e.reason == "Scheduled",
        Body::Audit(a) => {
            let ok = (200..300).contains(&a.code);
            ok && a.resource == "pods" && (a.verb == "create" || a.verb == "delete")
        }
        _ => false,
    }
}

/// Picks the pod of a name that an observation without a UID is about; `lives` are sorted by birth.
///
/// That is the youngest pod that was born by then. A report of an end that arrives after the successor was created
/// still belongs to the predecessor. Births are on the node's clock; `shift_ns` converts API times to it.
pub(crate) fn bearer(lives: &[Life], o: &Evidence, shift_ns: i64) -> Option<Slot> {
    const SLACK: i64 = kflow_model::stamp::SECOND;
    let by_api = match &o.body {
        Body::Audit(_) => true,
        Body::Event(e) => e.component != "kubelet",
        _ => false,
    };
    let at = if by_api {
        o.stamp.at.plus(-shift_ns)
    } else {
        o.stamp.at
    };
    let about_an_end = match &o.body {
        Body::Log(l) => matches!(
            flow::line(l).map(|l| l.fact()),
            Some(Fact::PodRemoved | Fact::PodDeleted)
        ),
        Body::Audit(a) => a.verb == "delete",
        _ => false,
    };
    if matches!(&o.body, Body::Audit(a) if a.verb == "create" && a.resource == "pods") {
        return lives
            .iter()
            .min_by_key(|l| l.birth.since(at).saturating_abs())
            .map(|l| l.slot);
    }
    let mut found: Option<usize> = None;
    for (i, life) in lives.iter().enumerate() {
        // Before the first pod of the name no other can be meant, so more slack is allowed.
        let early = if i == 0 {
            10 * SLACK
        } else if let Some(end) = lives.get(i.wrapping_sub(1)).and_then(|l| l.end) {
            // A truncated `creationTimestamp` can lie up to a second in the predecessor's life: the predecessor's end
            // bounds it.
            if life.by_api && at < end && end.since(life.birth) < SLACK {
                continue;
            }
            0
        } else {
            0
        };
        if life.birth.since(at) <= early {
            found = Some(i);
        }
    }
    let i = found?;
    if about_an_end
        && let Some(previous) = i.checked_sub(1).and_then(|p| lives.get(p))
        && lives
            .get(i)
            .is_some_and(|l| at.since(l.birth) <= 3 * SLACK && l.end.is_none_or(|e| at < e))
        && previous.end.is_none_or(|e| at.since(e) <= 3 * SLACK)
    {
        return Some(previous.slot);
    }
    lives.get(i).map(|l| l.slot)
}
