//! Removal of pods that are gone from a world that runs for long, with their names, ids, evidence and owners. A row
//! of each stays.
//!
//! A slot is never reused, so an index that still contains the slot of a removed pod finds nothing. Only a live
//! engine removes pods; a session that is read is kept whole.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::pods::{NOBODY, Pile, PodFile, Slot, bearer};
use super::{NameFile, Pod, World};
use crate::flow::{self, Fact};
use kflow_model::cri::method;
use kflow_model::pod::WatchEvent;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, PodUid, Text, fs::FsAction};

/// How much is kept of pods that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// A pod is removed when it has been gone for longer than this, ns.
    pub age_ns: i64,
    /// When more pods than this are gone, those that went first are removed.
    pub pods: usize,
    /// Number of CRI calls kept; the oldest are dropped.
    pub calls: usize,
    /// Number of rows kept of removed pods.
    pub rows: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            age_ns: 3600 * SECOND,
            pods: 5000,
            calls: 1 << 16,
            rows: 20_000,
        }
    }
}

/// The row that stays of a removed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    /// UID; `ns/name` of a pod that was known by its name only.
    pub uid: PodUid,
    pub namespace: Text,
    pub name: Text,
    /// `spec.nodeName`, empty for a pod that was never bound.
    pub node: Text,
    /// Column STATUS of `kubectl get pods`, last state.
    pub status: Text,
    /// Column RESTARTS.
    pub restarts: u32,
    /// Begin of its view.
    pub created: Nanos,
    /// When the object was gone from the API; without that, the time of the last evidence.
    pub gone: Nanos,
    /// UIDs that led to the pod, mirrors included.
    uids: SmallVec<[Text; 1]>,
}

/// The removed pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leavers {
    /// The newest rows, in order of removal. Shared: a clone of the world copies a pointer.
    pub(crate) rows: Arc<VecDeque<Arc<Retired>>>,
    /// Number of pods removed so far.
    pub(crate) pods: u64,
    /// Number of observations removed with them.
    pub(crate) evidence: u64,
}

/// Number of entries of the indexes that grow with pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pods in the list.
    pub pods: usize,
    /// Pod files, without those of removed pods.
    pub files: usize,
    /// Observations in the pod files.
    pub evidence: usize,
    /// Name files, without those of removed pods.
    pub names: usize,
    /// UIDs, those of rows included.
    pub uids: usize,
    /// Entries of the index from `namespace/name` to files.
    pub by_name: usize,
    /// Ids of sandboxes and containers.
    pub runtime_ids: usize,
    /// Spans, traces, audit ids and first-seen times that lead to pods.
    pub joins: usize,
    /// Calls, and entries of their index.
    pub calls: (usize, usize),
    /// Objects that are not pods.
    pub objects: usize,
    /// Nodes, from Node objects or named by other evidence.
    pub nodes: usize,
    /// Rows of removed pods.
    pub rows: usize,
}

impl World {
    /// Removes pods that have been gone for too long, or that are too many, and returns how many. Refreshes the world
    /// before and after.
    pub fn retire(&mut self, now: Nanos, keep: &Retention) -> usize {
        self.refresh();
        let mut over: Vec<(Nanos, PodUid)> = self
            .pods
            .iter()
            .filter_map(|p| Some((gone_since(p, now, keep.age_ns)?, p.uid.clone())))
            .collect();
        over.sort();
        let old = over.partition_point(|(gone, _)| now.since(*gone) > keep.age_ns);
        let leaving = old.max(over.len().saturating_sub(keep.pods));
        for (gone, uid) in over.drain(..leaving) {
            self.leave(&uid, gone);
        }
        while let Some(gone) = self.calls.shrink(keep.calls) {
            self.unfiled.calls_forgotten += gone.len() as u64;
            for call in gone {
                self.by_call.remove(call.key);
            }
        }
        if leaving > 0 {
            self.shrink_rows(keep.rows);
            self.sweep(now.plus(-keep.age_ns));
            self.refresh();
        }
        leaving
    }

    /// Rows of removed pods, the newest last.
    pub fn retired(&self) -> impl DoubleEndedIterator<Item = &Retired> {
        self.left.rows.iter().map(AsRef::as_ref)
    }

    /// True when the pod was removed and its row is still kept.
    pub(super) fn has_left(&self, uid: &str) -> bool {
        self.by_uid.get(uid) == Some(&NOBODY)
    }

    fn leave(&mut self, uid: &PodUid, gone: Nanos) {
        let Some(slot) = self.slot_of(&uid.0) else {
            return;
        };
        let Some(file) = self.files.get(slot).cloned() else {
            return;
        };
        let mut uids: SmallVec<[Text; 1]> = file.mirrors.iter().map(|m| m.0.clone()).collect();
        uids.push(file.uid.clone());
        if let Some(pod) = file
            .shown
            .as_ref()
            .and_then(|s| self.place(s))
            .and_then(|i| self.pods.get(i))
        {
            let row = Retired {
                uid: pod.uid.clone(),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                node: pod.node.clone(),
                status: pod.status.clone(),
                restarts: pod.restarts,
                created: pod.listed_by().0,
                gone,
                uids: uids.clone(),
            };
            Arc::make_mut(&mut self.left.rows).push_back(Arc::new(row));
        }
        self.hide(file.shown.as_ref());
        self.left.pods += 1;
        self.left.evidence += (file.evidence.len() + file.named.len()) as u64;
        let named = file
            .name
            .or_else(|| self.by_name.get(uid.as_str()).copied());
        if let Some(n) = named {
            self.leave_name(n, slot);
        }
        if let Some(owner) = file.newest().and_then(|p| p.owner.as_ref()) {
            let namespace = file.newest().map(|p| p.namespace.clone());
            let key = (
                owner.kind.clone(),
                if owner.namespace.is_empty() {
                    namespace.unwrap_or_default()
                } else {
                    owner.namespace.clone()
                },
                owner.name.clone(),
            );
            if let Some(object) = self.objects.get_mut(&key) {
                Arc::make_mut(object).pods.retain(|p| p != uid);
            }
        }
        for uid in uids {
            // A mirror's UID may still have a file of its own, which leads here.
            if let Some(old) = self.by_uid.insert(Arc::from(uid.as_str()), NOBODY)
                && old != slot
            {
                self.forget_file(old);
            }
        }
        self.forget_file(slot);
    }

    fn shrink_rows(&mut self, keep: usize) {
        while self.left.rows.len() > keep {
            let row = Arc::make_mut(&mut self.left.rows).pop_front();
            for uid in row.iter().flat_map(|r| &r.uids) {
                // The pod may have come back.
                if self.has_left(uid) {
                    self.by_uid.remove(uid.as_str());
                }
            }
        }
    }

    fn forget_file(&mut self, slot: Slot) {
        let nothing = PodFile {
            retired: true,
            ..PodFile::default()
        };
        self.files.forget(slot, Arc::new(nothing), |f| f.retired);
    }

    /// Removes a pod from a name, with the evidence that was assigned to it.
    fn leave_name(&mut self, n: u32, slot: Slot) {
        let Some(file) = self.names.get(n) else {
            return;
        };
        let lives = self.lives(file);
        let was_leftover = file.leftover == Some(slot);
        let kept: Pile = file
            .evidence
            .iter()
            .filter(|e| match bearer(&lives, e, self.context.shift) {
                Some(bearer) => bearer != slot,
                None => !was_leftover,
            })
            .cloned()
            .collect();
        let Some(file) = self.names.get_mut(n).map(Arc::make_mut) else {
            return;
        };
        file.pods.retain(|s| *s != slot);
        if was_leftover {
            file.leftover = None;
        }
        file.shared = kept.len();
        file.evidence = kept;
        if file.pods.is_empty() && file.leftover.is_none() {
            let mut key = Text::default();
            for part in [file.namespace.as_str(), "/", file.name.as_str()] {
                key.push_str(part);
            }
            self.by_name.remove(key.as_str());
            let nothing = NameFile {
                retired: true,
                ..NameFile::default()
            };
            self.names.forget(n, Arc::new(nothing), |f| f.retired);
            return;
        }
        let Some(lives) = self.names.get(n).map(|file| self.lives(file)) else {
            return;
        };
        if let Some(file) = self.names.get_mut(n).map(Arc::make_mut) {
            file.lives = lives;
        }
    }

    /// Removes index entries that lead to removed pods, and objects and nodes that were deleted before `limit`.
    fn sweep(&mut self, limit: Nanos) {
        let files = &self.files;
        let left = |slot: &Slot| *slot != NOBODY && files.get(*slot).is_none_or(|f| f.retired);
        self.by_runtime.remove_all(|o| left(&o.slot));
        self.by_span.remove_all(left);
        self.by_trace.remove_all(left);
        self.by_audit.remove_all(left);
        self.by_first_seen.remove_all(left);
        let over = |deleted: bool, evidence: &[Evidence]| {
            deleted && evidence.iter().all(|o| o.stamp.at < limit)
        };
        self.objects.retain(|_, o| {
            let deleted = o
                .api
                .as_ref()
                .is_none_or(|x| x.event == WatchEvent::Deleted);
            !(o.pods.is_empty() && over(deleted, &o.evidence))
        });
        let local = self.local.filed.clone();
        self.nodes.retain(|name, n| {
            let deleted = n
                .api
                .as_ref()
                .is_some_and(|x| x.event == WatchEvent::Deleted);
            Some(name) == local.as_ref() || !over(deleted, &n.evidence)
        });
        self.lists.forget_before(limit);
    }

    /// Returns the sizes of the indexes that grow with pods.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            pods: self.pods.len(),
            files: self.files.iter().filter(|f| !f.retired).count(),
            evidence: self
                .files
                .iter()
                .map(|f| f.evidence.len() + f.named.len())
                .sum(),
            names: self.names.iter().filter(|n| !n.retired).count(),
            uids: self.by_uid.len(),
            by_name: self.by_name.len(),
            runtime_ids: self.by_runtime.len(),
            joins: self.by_span.iter().count()
                + self.by_trace.iter().count()
                + self.by_audit.iter().count()
                + self.by_first_seen.iter().count(),
            calls: (self.calls.len(), self.by_call.len()),
            objects: self.objects.len(),
            nodes: self.nodes.len(),
            rows: self.left.rows.len(),
        }
    }
}

/// Time without evidence after which a pod that is known from log lines alone counts as gone, ns. A log does not show the
/// end of a pod of another node, or of one that ended where the log has a gap.
const SILENT_NS: i64 = 24 * 3600 * SECOND;

/// Since when a pod is gone: by the API. A pod that the API never showed is gone since its last evidence, if that is
/// more than `age_ns` ago and the pod ended on its node, or is known from Events and requests alone; or if it is known from
/// log lines alone and its last evidence is more than [`SILENT_NS`] ago.
fn gone_since(pod: &Pod, now: Nanos, age_ns: i64) -> Option<Nanos> {
    if pod.gone.is_some() {
        return pod.gone;
    }
    if pod.api.is_some() {
        return None;
    }
    let last = pod.evidence.iter().map(|o| o.stamp.at).max()?;
    let trails = |o: &Evidence| matches!(o.body, Body::Event(_) | Body::Audit(_));
    let ends = |o: &Evidence| match &o.body {
        Body::CallStart(c) => matches!(
            c.method.as_str(),
            method::STOP_POD_SANDBOX | method::REMOVE_POD_SANDBOX
        ),
        Body::Fs(f) => f.action == FsAction::Removed,
        Body::Log(l) => {
            flow::line(l).is_some_and(|l| matches!(l.fact(), Fact::PodRemoved | Fact::PodDeleted))
        }
        _ => false,
    };
    let evidence = &pod.evidence;
    let silent = now.since(last);
    let is_over = silent > age_ns && (evidence.iter().any(ends) || evidence.iter().all(trails))
        || silent > age_ns.max(SILENT_NS)
            && evidence
                .iter()
                .all(|o| trails(o) || matches!(o.body, Body::Log(_)));
    is_over.then_some(last)
}

#[cfg(test)]
mod tests;
