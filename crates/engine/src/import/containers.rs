//! What crictl cuts off or leaves out in its tables, taken from the other captures: the rest of ids, and of which pod a container is.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use kflow_model::{Body, ContainerId, Observation, PodNames, PodRef, SandboxId, Text};

/// Length of an id that is whole.
const WHOLE: usize = 64;

/// Completes the tables. What no other capture names stays as it is.
pub(super) fn resolve(observations: &mut [Observation]) {
    let is_table = |o: &Observation| match &o.body {
        Body::Inventory(i) => i.items.iter().any(|i| i.subject.pod.uid.is_empty()),
        _ => false,
    };
    if !observations.iter().any(is_table) {
        return;
    }
    let known = Known::of(observations);
    for o in observations {
        let Body::Inventory(inventory) = &mut o.body else {
            continue;
        };
        for subject in inventory.items.iter_mut().map(|i| &mut i.subject) {
            if subject.pod.uid.is_empty()
                && let Some(pod) = known.pod(&subject.pod)
            {
                subject.pod = pod;
            }
            let whole = known.id(subject.container_id.as_str());
            subject.container_id = whole.map_or(subject.container_id.clone(), ContainerId);
            let whole = known.id(subject.sandbox_id.as_str());
            subject.sandbox_id = whole.map_or(subject.sandbox_id.clone(), SandboxId);
        }
    }
}

#[derive(Default)]
struct Known {
    /// The last pod of each name and namespace that has a UID, by its name.
    pods: FxHashMap<Text, Vec<PodRef>>,
    ids: BTreeSet<Text>,
}

impl Known {
    fn of(observations: &[Observation]) -> Self {
        let mut known = Self::default();
        for o in observations {
            match &o.body {
                Body::Pod(p) => {
                    known.learn(&p.namespace, &p.name, p.uid.as_str());
                    for status in p.statuses() {
                        known.learn_id(&status.id.0);
                        let last = status.last.iter();
                        last.for_each(|last| known.learn_id(&last.id.0));
                    }
                }
                Body::Event(e) if e.object.kind == "Pod" => {
                    known.learn(&e.object.namespace, &e.object.name, &e.object.uid);
                }
                Body::Log(l) => {
                    for pod in std::iter::once(&l.pod).chain(l.more_pods.iter()) {
                        known.learn(&pod.namespace, &pod.name, pod.uid.as_str());
                    }
                    known.learn_id(&l.container_id.0);
                    for (_, value) in &l.fields {
                        known.learn_id(value);
                    }
                }
                Body::RuntimeEvent(e) => known.learn_id(&e.container_id.0),
                _ => {}
            }
        }
        known
    }

    fn learn(&mut self, namespace: &Text, name: &Text, uid: &str) {
        if uid.is_empty() || name.is_empty() || namespace.is_empty() {
            return;
        }
        let pod = PodRef::from(PodNames {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.into(),
        });
        let of_name = self.pods.entry(name.clone()).or_default();
        match of_name.iter_mut().find(|p| p.namespace == *namespace) {
            Some(before) => *before = pod,
            None => of_name.push(pod),
        }
    }

    fn learn_id(&mut self, id: &Text) {
        if id.len() == WHOLE {
            self.ids.insert(id.clone());
        }
    }

    /// Returns the pod of these names. Without a namespace it is the only one of that name.
    fn pod(&self, named: &PodRef) -> Option<PodRef> {
        let all = self.pods.get(&named.name)?;
        let is_it = |p: &&PodRef| named.namespace.is_empty() || p.namespace == named.namespace;
        let mut its = all.iter().filter(is_it);
        let first = its.next()?;
        its.next().is_none().then(|| first.clone())
    }

    /// Returns the only id that begins so.
    fn id(&self, cut: &str) -> Option<Text> {
        if cut.is_empty() || cut.len() >= WHOLE {
            return None;
        }
        let from = self.ids.range(Text::new(cut)..);
        let mut begin = from.take_while(|id| id.starts_with(cut));
        let first = begin.next()?;
        begin.next().is_none().then(|| first.clone())
    }
}
