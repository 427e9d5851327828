//! What is filed under one pod, and under one name.

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
/// What pods are listed by: when the view begins, and the UID.
pub(crate) type PodKey = (Nanos, PodUid);
/// Stands for "known, and not about a pod".
pub(crate) const NOBODY: Slot = u32::MAX;

/// Evidence of one kind and pod beyond this is folded away: the first half and the last half stay.
pub(crate) const KEEP: usize = 20_000;

/// What lists of the runtime say of one pod beyond this is folded away likewise.
const KEEP_LISTED: usize = 4096;

/// Folds away the middle of what has grown too long: its beginning and its newest part stay. Returns what went.
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

/// Evidence in order of arrival. Unsorted and with duplicates: who derives a view sorts it.
pub(crate) type Pile = Chunked<Evidence, 64>;

/// The evidence of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodFile {
    /// UID; `ns/name` for evidence of a pod whose UID is unknown.
    pub(crate) uid: Text,
    /// UIDs of mirror pods.
    pub(crate) mirrors: Vec<PodUid>,
    /// Slot of its name.
    pub(crate) name: Option<u32>,
    /// Filed under the UID or an id that leads to it.
    pub(crate) evidence: Pile,
    /// Filed under the name, and shared out to this pod.
    pub(crate) named: Pile,
    /// What lists of the runtime say, folded: the earliest list for each id and state.
    pub(crate) listed_items: Arc<Vec<(Text, RuntimeState, Evidence)>>,
    /// Calls that wait for names.
    pub(crate) unnamed: Vec<CallKey>,
    /// Key under which the view stands in the list of pods.
    pub(crate) shown: Option<PodKey>,
    /// `creationTimestamp`.
    pub(crate) created: Option<Nanos>,
    /// Likewise, with that of mirrors.
    pub(crate) created_any: Option<Nanos>,
    /// Earliest evidence of its own.
    pub(crate) first: Option<Nanos>,
    /// Earliest evidence that came by the name.
    pub(crate) first_named: Option<Nanos>,
    /// Newest state in the API, by resource version.
    pub(crate) newest: Option<Evidence>,
    /// Newest sight in the API, by arrival.
    pub(crate) api_last: Option<Nanos>,
    /// When the API object went, of a pod that is not static.
    pub(crate) deleted: Option<Nanos>,
    /// Where the file went when it turned out to be a mirror pod's.
    pub(crate) into: Option<Slot>,
    /// What is kept no more.
    pub(crate) folded: Folded,
    /// To be shown anew.
    pub(crate) dirty: bool,
    /// The pod has left: nothing is filed here any more.
    pub(crate) retired: bool,
    /// A source on the node saw it.
    pub(crate) on_node: bool,
    /// Voted for its node already.
    pub(crate) voted: bool,
}

impl PodFile {
    /// When the pod's life begins: creation by the API, else the first evidence.
    pub(crate) fn birth(&self) -> Nanos {
        self.created.or(self.first).unwrap_or_default()
    }
    /// When the pod's view begins, on the node's clock: what it is listed by.
    pub(crate) fn shown_from(&self, shift_ns: i64) -> Nanos {
        self.created_any
            .map_or_else(|| self.heard_of(), |c| c.plus(-shift_ns))
    }
    /// The earliest evidence.
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
    /// Files one observation. Returns true when the pod's lifetime changed by it.
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
    /// Takes one observation that names the pod and was shared out to it.
    pub(crate) fn push_named(&mut self, o: &Evidence) {
        self.first_named = earlier(self.first_named, o.stamp.at);
        self.on_node |= on_node(o);
        self.named.push(Arc::clone(o));
    }
    /// Files what a list says of one id.
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
    /// Folds away the middle of the evidence of a pod that lives for weeks.
    pub(crate) fn fold(&mut self) {
        for o in fold(&mut self.evidence) {
            self.folded.note(&o);
        }
    }
    /// All evidence in order, each once.
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

/// Evidence of several piles in order, each once.
fn sorted<const N: usize>(piles: [&Pile; N]) -> Vec<Evidence> {
    // Times lie beside the pointers: what they point at is read where times are equal only.
    let mut all: Vec<(Nanos, &Evidence)> = piles
        .iter()
        .flat_map(|p| p.iter())
        .map(|o| (o.stamp.at, o))
        .collect();
    all.sort();
    all.dedup();
    all.into_iter().map(|(_, o)| Arc::clone(o)).collect()
}

/// Sorts evidence and removes duplicates.
pub(crate) fn sort_evidence(v: &mut Vec<Evidence>) {
    // Stable: the sorted run in front costs one pass.
    v.sort();
    v.dedup();
}

/// Evidence that names a pod and tells no UID, and the pods that bear the name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameFile {
    /// `metadata.namespace`.
    pub(crate) namespace: Text,
    /// `metadata.name`.
    pub(crate) name: Text,
    /// Pods of this name.
    pub(crate) pods: SmallVec<[Slot; 1]>,
    pub(crate) evidence: Pile,
    /// How much of it was shared out, and among which lives.
    pub(crate) shared: usize,
    pub(crate) lives: Vec<Life>,
    /// Evidence that matches no known incarnation of this name.
    pub(crate) leftover: Option<Slot>,
    /// To be shared out.
    pub(crate) dirty: bool,
    /// All pods of the name have left.
    pub(crate) retired: bool,
}

/// A life: when it began and when it ended, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) slot: Slot,
    pub(crate) birth: Nanos,
    /// The birth is the API's, so it is truncated to a second.
    pub(crate) by_api: bool,
    pub(crate) end: Option<Nanos>,
}

/// Picks the incarnation of a pod for an observation without a UID; lives are sorted by birth.
///
/// It is the youngest one that was born by then. The kubelet's word of an end that reaches it after the successor
/// was created still belongs to the one that ended. Births are by the node's clock; `shift_ns` brings API times to it.
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
