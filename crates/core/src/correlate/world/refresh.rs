//! Brings the list of pods up to date: the state of changed pods is captured, and their views are derived when they
//! are read.

use std::sync::Arc;

use super::image_calls::names_no_pod;
use super::pod::{LazyPod, Origin};
use super::pods::{KEEP, Life, NameFile, Pile, PodFile, PodKey, Slot, bearer, fold, named_from};
use super::{Pod, World};
use crate::correlate::context::{ListWindow, PodContext};
use crate::parallel;
use kflow_model::{Body, Nanos, PodUid, Text, cri::CallKey, pod::WatchEvent};

impl World {
    /// Brings the list of pods up to date with what was observed.
    pub fn refresh(&mut self) {
        self.refresh_pods();
        self.select();
    }

    /// Rebuilds the list of selected pods, if pods changed.
    fn select(&mut self) {
        if self.selection.is_all() || !std::mem::take(&mut self.pods_changed) {
            return;
        }
        let selected = self.pods.iter().filter(|p| self.selection.admits(p));
        self.selected = Some(Arc::new(selected.cloned().collect()));
    }

    fn refresh_pods(&mut self) {
        self.settle_image_calls();
        self.refresh_context();
        self.refresh_names();
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for slot in dirty {
            self.refresh_pod(slot);
        }
        self.refresh_local();
        if self.local_name() != self.context.local {
            // The pods gave the local node's name, and what silent sources mean depends on that name.
            self.refresh_pods();
        }
    }

    /// Derives the summaries of pods that changed. The rest of their views is derived again when it is read, so that
    /// a world that is kept for later stays small.
    pub fn summarise(&self) {
        let new: Vec<&Pod> = self
            .every_pod()
            .iter()
            .filter(|p| !p.is_derived())
            .collect();
        parallel::map(&new, |pod| pod.summarise());
    }

    /// Derives the views of the selected pods that have none yet.
    pub(crate) fn derive(&self) {
        let new: Vec<&Pod> = self.pods().iter().filter(|p| !p.is_derived()).collect();
        parallel::map(&new, |pod| pod.derive());
    }

    /// Returns a clone with handles of its own: what is derived through them is freed with the clone, and not kept in
    /// this world.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let mut world = self.clone();
        world.pods = Arc::new(self.pods.iter().map(|p| Arc::new(p.afresh())).collect());
        world.pods_changed = true;
        world.select();
        world
    }

    fn refresh_context(&mut self) {
        let lists_changed = std::mem::take(&mut self.lists_changed);
        let context = PodContext {
            shift: self.offset.shift(),
            present: self.sources.present(),
            began: self.sources.began(),
            blind: self.sources.blind(),
            local: self.local_name(),
            windows: Arc::clone(self.lists.windows()),
        };
        let old = Arc::clone(&self.context);
        let all = context.shift != old.shift
            || context.present != old.present
            || context.began != old.began
            || context.local != old.local
            || context.blind != old.blind;
        if !all && !lists_changed {
            return;
        }
        let slots: Vec<Slot> = self
            .files
            .entries()
            .filter(|(_, f)| {
                !f.dirty
                    && !f.retired
                    && (all || decided(f, &old.windows) != decided(f, &context.windows))
            })
            .map(|(slot, _)| slot)
            .collect();
        for slot in slots {
            self.mark(slot);
        }
        if context.shift != old.shift {
            let names: Vec<u32> = self
                .names
                .entries()
                .filter(|(_, n)| !n.evidence.is_empty())
                .map(|(n, _)| n)
                .collect();
            for n in names {
                self.mark_name(n);
            }
        }
        self.context = Arc::new(context);
    }

    /// Assigns the evidence of names to the pods that had the name at that time.
    fn refresh_names(&mut self) {
        for n in std::mem::take(&mut self.dirty_names) {
            let gone = match self.names.get_mut(n) {
                Some(file) if file.evidence.len() > 2 * KEEP => {
                    fold(&mut Arc::make_mut(file).evidence)
                }
                _ => Vec::new(),
            };
            let Some(file) = self.names.get(n) else {
                continue;
            };
            let lives = self.lives(file);
            let same = gone.is_empty() && lives == file.lives;
            let from = if same { file.shared } else { 0 };
            let (evidence, leftover) = (file.evidence.clone(), file.leftover);
            if let Some(file) = self.names.get_mut(n) {
                let file = Arc::make_mut(file);
                file.dirty = false;
                file.shared = evidence.len();
                file.lives.clone_from(&lives);
            }
            if !same {
                // A pod was born or died, or evidence was dropped: all of it is assigned again.
                for slot in lives.iter().map(|l| l.slot).chain(leftover) {
                    if let Some(f) = self.files.get_mut(slot) {
                        let f = Arc::make_mut(f);
                        f.named = Pile::default();
                        f.first_named = None;
                    }
                    self.mark(slot);
                }
            }
            for e in &gone {
                let slot =
                    bearer(&lives, e, self.context.shift).unwrap_or_else(|| self.leftover(n));
                if let Some(f) = self.files.get_mut(slot) {
                    Arc::make_mut(f).folded.note(e);
                }
            }
            for e in evidence.since(from) {
                let slot =
                    bearer(&lives, e, self.context.shift).unwrap_or_else(|| self.leftover(n));
                if let Some(f) = self.files.get_mut(slot) {
                    Arc::make_mut(f).push_named(e);
                }
                self.mark(slot);
            }
        }
    }

    /// The lives of the pods of one name, sorted by birth.
    pub(super) fn lives(&self, name: &NameFile) -> Vec<Life> {
        let mut lives: Vec<Life> = name
            .pods
            .iter()
            .filter_map(|s| {
                let f = self.files.get(*s)?;
                Some(Life {
                    slot: *s,
                    birth: f.created.map_or(f.birth(), |c| c.plus(-self.context.shift)),
                    by_api: f.created.is_some(),
                    end: f.deleted,
                })
            })
            .collect();
        lives.sort_by_key(|l| (l.birth, self.files.get(l.slot).map(|f| f.uid.clone())));
        if let Some(first) = lives.first_mut().filter(|l| !l.by_api) {
            first.birth = named_from(&name.evidence, first.birth);
        }
        lives
    }

    /// Since when, at the latest, a younger pod has the name of this one: the API has one pod of a name at a time. Both have UIDs
    /// of the API; those of static pods are made by the kubelet, and have a mirror of the same name.
    fn succeeded(&self, slot: Slot, file: &PodFile) -> Option<Nanos> {
        let of_api = |f: &PodFile| PodUid(f.uid.clone()).is_of_api();
        let name = self.names.get(file.name?)?;
        if name.lives.len() < 2 || !of_api(file) {
            return None;
        }
        let mut lives = name.lives.iter();
        let own = lives.find(|l| l.slot == slot)?;
        let younger =
            |l: &&Life| l.birth > own.birth && self.files.get(l.slot).is_some_and(|f| of_api(f));
        lives.find(younger).map(|l| l.birth)
    }

    /// The file for evidence of a name that matches no known pod: shown as a pod that is known by its name only.
    fn leftover(&mut self, n: u32) -> Slot {
        let Some(file) = self.names.get_mut(n).map(Arc::make_mut) else {
            return super::pods::NOBODY;
        };
        if let Some(slot) = file.leftover {
            return slot;
        }
        let key: Text = format!("{}/{}", file.namespace, file.name).into();
        let slot = self.files.push(Arc::new(PodFile {
            uid: key.clone(),
            ..PodFile::default()
        }));
        file.leftover = Some(slot);
        self.by_uid.insert(Arc::from(key.as_str()), slot);
        slot
    }

    fn refresh_pod(&mut self, slot: Slot) {
        let Some(file) = self.files.get_mut(slot) else {
            return;
        };
        if file.retired {
            return;
        }
        let f = Arc::make_mut(file);
        f.dirty = false;
        f.fold();
        let unnamed = std::mem::take(&mut f.unnamed);
        let shown = f.shown.clone();
        let empty = f.evidence.is_empty() && f.named.is_empty() && f.listed_items.is_empty();
        if f.into.is_some() || empty {
            f.shown = None;
            return self.hide(shown.as_ref());
        }
        let key = (f.shown_from(self.context.shift), PodUid(f.uid.clone()));
        if shown.as_ref() != Some(&key) {
            f.shown = Some(key.clone());
        }
        let file = Arc::clone(file);
        let (namespace, name) = file
            .name
            .and_then(|n| self.names.get(n))
            .map(|n| (n.namespace.clone(), n.name.clone()))
            .or_else(|| {
                let (ns, name) = file.uid.split_once('/')?;
                Some((ns.into(), name.into()))
            })
            .unwrap_or_default();
        let followed = self.succeeded(slot, &file);
        self.name_calls(slot, unnamed, &file.uid, &namespace, &name);
        if !file.voted && file.on_node {
            let node = node_of(&file);
            if !node.is_empty() {
                self.local.vote(&node);
                if let Some(f) = self.files.get_mut(slot) {
                    Arc::make_mut(f).voted = true;
                }
            }
        }
        let owners = self.owners(file.newest().and_then(|p| p.owner.as_ref()), &namespace);
        let pod = LazyPod::new(
            key,
            Origin {
                file,
                namespace,
                name,
                owners,
                followed,
                context: Arc::clone(&self.context),
            },
        );
        self.show(shown.as_ref(), Arc::new(pod));
    }

    /// Fills in the names of a pod's calls that have become known; calls that still lack one are kept for later.
    fn name_calls(
        &mut self,
        slot: Slot,
        keys: Vec<CallKey>,
        uid: &Text,
        namespace: &Text,
        name: &Text,
    ) {
        let mut later = Vec::new();
        for key in keys {
            let Some(at) = self.by_call.get(key).copied() else {
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
                    call.pod_uid = PodUid(uid.clone());
                    call.pod_inferred =
                        matches!(&call.started.body, Body::CallStart(c) if names_no_pod(c));
                }
                if call.pod.is_empty() {
                    call.namespace.clone_from(namespace);
                    call.pod.clone_from(name);
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

    /// Inserts a pod in the list, in place of its previous state.
    fn show(&mut self, shown: Option<&PodKey>, pod: Pod) {
        let old = shown.and_then(|s| self.place(s));
        self.pods_changed = true;
        let pods = Arc::make_mut(&mut self.pods);
        if let Some(i) = old {
            if let Some(p) = pods.get_mut(i)
                && p.listed_by() == pod.listed_by()
            {
                *p = pod;
                return;
            }
            pods.remove(i);
        }
        let at = pods.partition_point(|p| p.listed_by() < pod.listed_by());
        pods.insert(at, pod);
    }
    pub(super) fn hide(&mut self, shown: Option<&PodKey>) {
        if let Some(i) = shown.and_then(|s| self.place(s)) {
            Arc::make_mut(&mut self.pods).remove(i);
            self.pods_changed = true;
        }
    }
}

/// What complete lists tell about a pod, to find out whether a new list changes its view. Of a pod that the API
/// showed: the end of the first later list that should contain it and does not (`None` for a deleted pod). Of any
/// other: the number of lists since its first evidence.
fn decided(file: &PodFile, windows: &[ListWindow]) -> (Option<Nanos>, usize) {
    let Some((o, p)) = file.newest.as_ref().zip(file.newest()) else {
        let first = file.heard_of();
        return (None, windows.iter().filter(|w| first < w.begin).count());
    };
    if p.event == WatchEvent::Deleted {
        return (None, 0);
    }
    let missing = windows.iter().find(|w| w.begin > o.stamp.at && w.shows(p));
    (missing.map(|w| w.end), 0)
}

/// The node of a pod, as its view will show it: from the API, else from the request that bound the pod, else from the
/// host in the kubelet's Events.
fn node_of(file: &PodFile) -> Text {
    if let Some(p) = file.newest()
        && !p.spec.node.is_empty()
    {
        return p.spec.node.clone();
    }
    let all = || file.evidence.iter().chain(file.named.iter());
    let bound = all()
        .filter_map(|o| match &o.body {
            Body::Audit(a) => Some((a.received, a.fact("node")?)),
            _ => None,
        })
        .min();
    if let Some((_, node)) = bound {
        return node.into();
    }
    all()
        .filter_map(|o| match &o.body {
            Body::Event(e) if e.component == "kubelet" && !e.host.is_empty() => Some((o, &e.host)),
            _ => None,
        })
        .min()
        .map(|(_, host)| host.clone())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
