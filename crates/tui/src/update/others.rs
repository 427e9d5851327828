//! Leads from the selected pod to others: those of its owner, one to compare with, one that it waits for.

use std::sync::Arc;

use crate::action::Action;
use crate::model::{Model, Place};
use crate::pane::PaneId;
use kflow_core::diagnose::awaited::Awaited;
use kflow_core::timeline::compare;
use kflow_engine::Snapshot;
use kflow_model::{ObjectRef, Text};

impl Model {
    /// Shows the pods of the selected pod's owner side by side; if they are shown already, shows the pod again.
    pub(super) fn side_by_side(&mut self, snap: &Snapshot) {
        let of_pod = self.shared.view(snap).and_then(|p| p.owners.last());
        let owner = of_pod.or(self.shared.owner.as_ref());
        let Some(owner) = owner.filter(|o| o.kind != "Node") else {
            return self.complain("what is selected is of no owner that makes pods");
        };
        // The owner is identified by name, because its UID may become known only later.
        let owner = ObjectRef {
            uid: Text::default(),
            ..owner.clone()
        };
        if self.shared.abreast.take().as_ref() != Some(&owner) {
            self.shared.abreast = Some(owner);
            self.show(PaneId::Timeline);
        }
    }
    /// Marks the selected pod, or compares it with the marked or named one.
    pub(super) fn compare(&mut self, with: &str, snap: &Snapshot) {
        let Some(selected) = self.shared.view(snap) else {
            return self.complain("no pod is selected");
        };
        let marked = match with {
            "" => self.shared.compared.clone(),
            "median" => {
                let Some(median) = compare::median(&snap.world, selected, snap.now) else {
                    return self.complain("no other start of its owner is known");
                };
                Some(median.uid.clone())
            }
            query => {
                let Some(found) = snap.world.find(query).into_iter().next() else {
                    return self.complain(format!("there is no pod {query}"));
                };
                Some(found.uid.clone())
            }
        };
        match marked {
            Some(a) if a != selected.uid => {
                let name = snap.world.pod(&a).map(|p| p.key()).unwrap_or_default();
                self.shared.compared = Some(a);
                self.shared.comparing = true;
                self.show(PaneId::Timeline);
                self.say(format!(
                    "A is {name}; {} leaves, {} compares the next pod with it",
                    self.keys.first(Action::Back),
                    self.keys.first(Action::NextPod),
                ));
            }
            Some(_) if with.is_empty() => {
                self.shared.compared = None;
                self.shared.comparing = false;
                self.say("no pod is marked any more");
            }
            Some(_) => self.complain("a pod is not compared with itself"),
            None => {
                let said = format!(
                    "A is {}; select another pod and press {} to compare",
                    selected.key(),
                    self.keys.first(Action::Compare),
                );
                self.shared.compared = Some(selected.uid.clone());
                self.say(said);
            }
        }
    }
    /// Shows the pod that the selected one waits for, with the call. Going back returns to the selected pod.
    pub(super) fn follow(&mut self, awaited: &Awaited, snap: &Snapshot) {
        let words = awaited.words(snap.now);
        let from = Place {
            pane: self.focus,
            pod: self.shared.pod.clone(),
        };
        self.trail.push(from);
        let Some(uid) = awaited.pod().cloned() else {
            // A call of the kubelet's loops, or of an unknown pod.
            self.shared.call = awaited.call();
            self.focus = PaneId::Calls;
            self.other = PaneId::Calls;
            return self.say(format!(
                "{words}; {} returns",
                self.keys.first(Action::Back)
            ));
        };
        self.shared.seek_pod(uid);
        self.shared.call = awaited.call();
        if let Awaited::Call(call) = awaited {
            self.shared.evidence = Some(Arc::clone(&call.started));
        }
        if matches!(self.focus, PaneId::Pods | PaneId::Incidents | PaneId::Why) {
            self.focus = PaneId::Timeline;
            self.other = PaneId::Timeline;
        }
        self.say(format!(
            "{words}; {} returns",
            self.keys.first(Action::Back)
        ));
    }
}
