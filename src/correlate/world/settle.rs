//! Settling: views of what changed.

use std::sync::Arc;

use super::pods::{Life, PodFile, Slot, bearer, merged, sort_evidence};
use super::{ListWindow, World};
use crate::correlate::PodView;
use crate::correlate::derive::{self, Input};
use crate::model::{Nanos, PodUid, Source, Text};
use crate::timeline::Evidence;

/// What all views depend on besides their own evidence: when it changes, all are derived again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Basis {
    shift: i64,
    present: u16,
    began: Option<Nanos>,
    blind: Arc<Vec<(Nanos, Nanos)>>,
    local: Text,
    pub(crate) lists_changed: bool,
}

impl World {
    /// Brings the views of all pods that changed up to date.
    pub fn settle(&mut self) {
        self.settle_basis();
        let assigned = self.settle_names();
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        let windows = Arc::clone(self.lists.windows());
        for slot in dirty {
            self.settle_pod(slot, &windows, assigned.get(&slot));
        }
        self.settle_local();
        if self.local_name() != self.derived_with.local {
            // The pods told where the node's sources run, and that tells what their silence means.
            self.settle();
        }
    }

    fn settle_basis(&mut self) {
        let shift = self.offset.shift();
        let present = self.sources.present();
        let began = self.sources.began();
        let blind = self.sources.blind();
        let local = self.local_name();
        let all = shift != self.derived_with.shift
            || present != self.derived_with.present
            || began != self.derived_with.began
            || local != self.derived_with.local
            || blind != *self.derived_with.blind;
        if all || self.derived_with.lists_changed {
            let listed = self.lists.windows().iter().map(|w| w.begin).max();
            let slots: Vec<Slot> = (0..)
                .zip(self.files.iter())
                .filter(|(_, f)| {
                    !f.dirty && (all || (f.api_last.is_some() && f.api_last <= listed))
                })
                .map(|(slot, _)| slot)
                .collect();
            for slot in slots {
                self.mark(slot);
            }
        }
        self.derived_with = Basis {
            shift,
            present,
            began,
            blind: Arc::new(blind),
            local,
            lists_changed: false,
        };
    }

    /// Shares out the evidence of names among the pods that bore them. Returns what belongs to each dirty pod.
    fn settle_names(&mut self) -> rustc_hash::FxHashMap<Slot, Vec<Evidence>> {
        let shift = self.derived_with.shift;
        let mut names = std::mem::take(&mut self.dirty_names);
        for slot in &self.dirty {
            if let Some(n) = self.files.get(*slot).and_then(|f| f.name)
                && self.names.get(n).is_some_and(|f| !f.evidence.is_empty())
            {
                names.push(n);
            }
        }
        names.sort_unstable();
        names.dedup();
        let mut assigned = rustc_hash::FxHashMap::default();
        for n in names {
            let Some(file) = self.names.get_mut(n) else {
                continue;
            };
            let file = Arc::make_mut(file);
            file.dirty = false;
            if file.sorted < file.evidence.len() {
                sort_evidence(&mut file.evidence);
                file.sorted = file.evidence.len();
            }
            let (slots, evidence, old_leftover) =
                (file.pods.clone(), file.evidence.clone(), file.leftover);
            let key: Text = format!("{}/{}", file.namespace, file.name).into();
            let mut lives: Vec<Life> = slots
                .iter()
                .filter_map(|s| {
                    let f = self.files.get(*s)?;
                    Some(Life {
                        slot: *s,
                        birth: f.created.map_or(f.birth(), |c| c.plus(-shift)),
                        by_api: f.created.is_some(),
                        end: f.deleted,
                    })
                })
                .collect();
            lives.sort_by_key(|l| (l.birth, self.files.get(l.slot).map(|f| f.uid.clone())));
            for life in &lives {
                assigned.insert(life.slot, Vec::new());
                self.mark(life.slot);
            }
            let mut leftover = Vec::new();
            for e in evidence {
                match bearer(&lives, &e, shift).and_then(|s| assigned.get_mut(&s)) {
                    Some(v) => v.push(e),
                    None => leftover.push(e),
                }
            }
            if leftover.is_empty() && old_leftover.is_none() {
                continue;
            }
            // Nobody of this name with a known UID was there: a pod that is known by name only.
            let slot = old_leftover.unwrap_or_else(|| {
                let slot = self.files.push(Arc::new(PodFile {
                    uid: key.clone(),
                    ..PodFile::default()
                }));
                self.by_uid.insert(Arc::from(key.as_str()), slot);
                slot
            });
            if let Some(f) = self.names.get_mut(n) {
                Arc::make_mut(f).leftover = Some(slot);
            }
            if let Some(f) = self.files.get_mut(slot) {
                Arc::make_mut(f).first = leftover.first().map(|e| e.stamp.at);
            }
            assigned.insert(slot, leftover);
            self.mark(slot);
        }
        assigned
    }

    fn settle_pod(&mut self, slot: Slot, windows: &[ListWindow], named: Option<&Vec<Evidence>>) {
        let Some(file) = self.files.get_mut(slot) else {
            return;
        };
        let file = Arc::make_mut(file);
        file.dirty = false;
        file.sort();
        let unnamed = std::mem::take(&mut file.unnamed);
        let evidence = match named {
            Some(named) if !named.is_empty() => merged(&file.evidence, named),
            _ => file.evidence.clone(),
        };
        // All but the evidence, which the view holds.
        let own = std::mem::take(&mut file.evidence);
        let rest = file.clone();
        file.evidence = own;
        let file = rest;
        if file.into.is_some() || (evidence.is_empty() && file.listed_items.is_empty()) {
            self.hide(slot, file.shown.as_ref());
            return;
        }
        let (namespace, name) = file
            .name
            .and_then(|n| self.names.get(n))
            .map(|f| (f.namespace.clone(), f.name.clone()))
            .or_else(|| {
                let (ns, name) = file.uid.split_once('/')?;
                Some((ns.into(), name.into()))
            })
            .unwrap_or_default();
        let mut view = derive::view(&Input {
            uid: PodUid(file.uid.clone()),
            mirrors: file.mirrors.clone(),
            namespace,
            name,
            evidence: Arc::new(evidence),
            listed: &file.listed_items,
            windows,
            shift_ns: self.derived_with.shift,
            present: self.derived_with.present,
            began: self.derived_with.began,
            blind: &self.derived_with.blind,
            local: self.derived_with.local.clone(),
        });
        view.owners = self.owners(
            view.api.as_ref().and_then(|p| p.owner.as_ref()),
            &view.namespace,
        );
        if !file.voted
            && !view.node.is_empty()
            && view
                .evidence
                .iter()
                .any(|e| matches!(e.source, Source::Cri | Source::Fs | Source::Kubelet))
        {
            self.local.vote(&view.node);
            if let Some(f) = self.files.get_mut(slot) {
                Arc::make_mut(f).voted = true;
            }
        }
        self.name_calls(slot, unnamed, &view);
        self.show(slot, file.shown.as_ref(), view);
    }

    /// Gives the calls of a pod the names that are known by now.
    fn name_calls(&mut self, slot: Slot, keys: Vec<crate::model::cri::CallKey>, view: &PodView) {
        let mut later = Vec::new();
        for key in keys {
            let Some(at) = self.by_call.get(&key).copied() else {
                continue;
            };
            let owner = self.calls.get(at.start, key).and_then(|c| {
                self.by_runtime
                    .get(c.container_id.as_str())
                    .or_else(|| self.by_runtime.get(c.sandbox_id.as_str()))
                    .cloned()
            });
            let mut known = true;
            self.calls.change(at.start, key, |call| {
                if call.pod_uid.is_empty() {
                    call.pod_uid = view.uid.clone();
                }
                if call.pod.is_empty() {
                    call.namespace.clone_from(&view.namespace);
                    call.pod.clone_from(&view.name);
                }
                if let Some(owner) = &owner
                    && !owner.sandbox
                {
                    if call.container.is_empty() {
                        call.container.clone_from(&owner.container);
                    }
                    call.attempt = call.attempt.or(owner.attempt);
                    if call.sandbox_id.is_empty()
                        && let Some(within) = &owner.within
                    {
                        call.sandbox_id.0 = within.as_ref().into();
                    }
                }
                known = !call.pod.is_empty()
                    && (call.container_id.is_empty()
                        || !call.container.is_empty() && !call.sandbox_id.is_empty());
            });
            if !known {
                later.push(key);
            }
        }
        if !later.is_empty()
            && let Some(f) = self.files.get_mut(slot)
        {
            Arc::make_mut(f).unnamed = later;
        }
    }

    /// Puts a view in its place in the list.
    fn show(&mut self, slot: Slot, shown: Option<&(Nanos, PodUid)>, view: PodView) {
        let key = (view.created, view.uid.clone());
        let view = Arc::new(view);
        if shown == Some(&key) {
            if let Some(i) = self.place(&key)
                && let Some(p) = Arc::make_mut(&mut self.pods).get_mut(i)
            {
                *p = view;
            }
            return;
        }
        if let Some(i) = shown.and_then(|s| self.place(s)) {
            Arc::make_mut(&mut self.pods).remove(i);
        }
        let pods = Arc::make_mut(&mut self.pods);
        let at = pods.partition_point(|p| (p.created, &p.uid) < (key.0, &key.1));
        pods.insert(at, view);
        if let Some(f) = self.files.get_mut(slot) {
            Arc::make_mut(f).shown = Some(key);
        }
    }
    fn hide(&mut self, slot: Slot, shown: Option<&(Nanos, PodUid)>) {
        if let Some(i) = shown.and_then(|s| self.place(s)) {
            Arc::make_mut(&mut self.pods).remove(i);
            if let Some(f) = self.files.get_mut(slot) {
                Arc::make_mut(f).shown = None;
            }
        }
    }
}
