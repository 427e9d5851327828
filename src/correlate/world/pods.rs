//! What is filed under one pod, and under one name.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::model::{
    Body, Nanos, PodUid, Text,
    cri::{CallKey, RuntimeState},
    pod::WatchEvent,
};
use crate::timeline::Evidence;

/// Index of a pod's file.
pub(crate) type Slot = u32;
/// Stands for "known, and not about a pod".
pub(crate) const NOBODY: Slot = u32::MAX;

/// Evidence of one kind and pod beyond this is folded away: the first half and the last half stay.
pub(crate) const KEEP: usize = 20_000;

/// The evidence of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodFile {
    /// UID; `ns/name` for evidence that names a pod whose UID nobody told.
    pub(crate) uid: Text,
    /// UIDs of mirror pods.
    pub(crate) mirrors: Vec<PodUid>,
    /// Slot of its name.
    pub(crate) name: Option<u32>,
    /// Filed under the UID or an id that leads to it; sorted and without duplicates up to `sorted`.
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) sorted: usize,
    /// What lists of the runtime say, folded: the earliest list for each id and state.
    pub(crate) listed_items: Vec<(Text, RuntimeState, Evidence)>,
    /// Calls that wait for names.
    pub(crate) unnamed: Vec<CallKey>,
    /// Key under which the view stands in the list of pods.
    pub(crate) shown: Option<(Nanos, PodUid)>,
    /// `creationTimestamp`.
    pub(crate) created: Option<Nanos>,
    /// Earliest evidence.
    pub(crate) first: Option<Nanos>,
    /// Newest sight in the API, by arrival.
    pub(crate) api_last: Option<Nanos>,
    /// When the API object went, of a pod that is not static.
    pub(crate) deleted: Option<Nanos>,
    /// Where the file went when it turned out to be a mirror pod's.
    pub(crate) into: Option<Slot>,
    /// Folded away.
    pub(crate) folded: u64,
    /// To be derived.
    pub(crate) dirty: bool,
    /// Voted for its node already.
    pub(crate) voted: bool,
}

impl PodFile {
    /// When the pod's life begins: creation by the API, else the first evidence.
    pub(crate) fn birth(&self) -> Nanos {
        self.created.or(self.first).unwrap_or_default()
    }
    /// Files one observation. Returns true when the pod's lifetime changed by it.
    pub(crate) fn push(&mut self, o: &Evidence) -> bool {
        let before = (self.birth(), self.deleted);
        match &o.body {
            Body::Pod(p) if p.mirror_of.is_none() => {
                if p.created.0 != 0 {
                    self.created = Some(self.created.map_or(p.created, |c| c.min(p.created)));
                }
                if p.event == WatchEvent::Deleted {
                    self.deleted = Some(self.deleted.map_or(o.stamp.at, |d| d.min(o.stamp.at)));
                } else {
                    self.api_last = self.api_last.max(Some(o.stamp.at));
                }
            }
            _ => {}
        }
        // A span that began before the pod did (a retry loop of an informer) does not make the pod older.
        self.first = Some(self.first.map_or(o.stamp.at, |f| f.min(o.stamp.at)));
        self.evidence.push(Arc::clone(o));
        before != (self.birth(), self.deleted)
    }
    /// Files what a list says of one id.
    pub(crate) fn push_listed(&mut self, id: &Text, state: RuntimeState, o: &Evidence) -> bool {
        match self
            .listed_items
            .iter_mut()
            .find(|(i, s, _)| i == id && *s == state)
        {
            Some((_, _, old)) if *old <= *o => false,
            Some((_, _, old)) => {
                *old = Arc::clone(o);
                true
            }
            None => {
                self.listed_items.push((id.clone(), state, Arc::clone(o)));
                self.listed_items.sort();
                true
            }
        }
    }
    /// Sorts and removes duplicates; cheap when little was added since the last time.
    pub(crate) fn sort(&mut self) {
        if self.sorted < self.evidence.len() {
            sort_tail(&mut self.evidence, self.sorted);
            if self.evidence.len() > 2 * KEEP {
                // A pod that lives for weeks: its beginning and its newest part stay, the middle is counted.
                let away = self.evidence.len() - KEEP;
                self.folded += away as u64;
                self.evidence.drain(KEEP / 2..KEEP / 2 + away);
            }
            self.sorted = self.evidence.len();
        }
    }
}

/// Sorts evidence and removes duplicates.
pub(crate) fn sort_evidence(v: &mut Vec<Evidence>) {
    // Stable: the sorted run in front costs one pass.
    v.sort();
    v.dedup();
}

/// Sorts evidence whose first `sorted` are in order, and removes duplicates. New evidence is mostly the newest, so only
/// what lies behind its earliest is looked at.
fn sort_tail(v: &mut Vec<Evidence>, sorted: usize) {
    let at = sorted.min(v.len());
    let (head, tail) = v.split_at_mut(at);
    tail.sort();
    let Some(first) = tail.first() else { return };
    let from = head.partition_point(|e| e < first);
    let mut rest = v.split_off(from);
    sort_evidence(&mut rest);
    v.append(&mut rest);
}

/// Two runs of evidence, each sorted and without duplicates, as one. `few` is much the shorter one.
pub(crate) fn merged(many: &[Evidence], few: &[Evidence]) -> Vec<Evidence> {
    let mut out = Vec::with_capacity(many.len() + few.len());
    let mut rest = many;
    for e in few {
        let (before, after) = rest.split_at(rest.partition_point(|x| x < e));
        out.extend_from_slice(before);
        if after.first() != Some(e) {
            out.push(Arc::clone(e));
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

/// Evidence that names a pod and tells no UID, and the pods that bear the name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameFile {
    /// Namespace.
    pub(crate) namespace: Text,
    /// Name.
    pub(crate) name: Text,
    /// Pods of this name.
    pub(crate) pods: SmallVec<[Slot; 1]>,
    /// The evidence.
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) sorted: usize,
    /// File of what no pod of this name can have done.
    pub(crate) leftover: Option<Slot>,
    /// To be shared out.
    pub(crate) dirty: bool,
}

/// A life: when it began and when it ended, as far as known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) slot: Slot,
    pub(crate) birth: Nanos,
    /// The birth is the API's, so it is truncated to a second.
    pub(crate) by_api: bool,
    pub(crate) end: Option<Nanos>,
}

/// Which of the pods of one name an observation that tells no UID is about; lives are sorted by birth.
///
/// It is the youngest one that was born by then. The kubelet's word of an end that reaches it after the successor
/// was created still belongs to the one that ended. Births are by the node's clock; `shift_ns` brings API times to it.
pub(crate) fn bearer(lives: &[Life], o: &Evidence, shift_ns: i64) -> Option<Slot> {
    const SLACK: i64 = crate::model::stamp::SECOND;
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
        Body::Log(l) => matches!(l.message.as_str(), "SyncLoop REMOVE" | "SyncLoop DELETE"),
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
        // Before the first of its name nobody else can be meant within the slack.
        let early = if i == 0 {
            10 * SLACK
        } else if let Some(end) = lives.get(i.wrapping_sub(1)).and_then(|l| l.end) {
            // The truncated second of a creation reaches back into the predecessor's life: its end bounds it.
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
