//! A recording of one pod: what is about it, and what is about no pod.
//!
//! What names other pods only is left out, and counted. Of a list of the runtime's the items of other pods are left
//! out. What names no pod (a kubelet's log line, a metric, a node, a gap) is kept, and counted too: a pod that hangs
//! often hangs on something of the node's, and who reads the recording later cannot ask the node any more.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use kflow_model::Evidence;
use kflow_model::cri::{CallKey, Subject};
use kflow_model::scope::{bounds, namespace_of, only};
use kflow_model::{Body, Observation, Text};

/// Ids of sandboxes and containers, and calls of others, that are remembered. Beyond it what an id alone names is kept.
const REMEMBERED: usize = 1 << 16;

/// Whom something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// The pod.
    It,
    /// Another one.
    Other,
    /// Nobody that is named.
    Nobody,
}

/// Lets through what is about one pod, and what is about no pod at all.
#[derive(Debug)]
pub(super) struct Only {
    namespace: Text,
    name: Text,
    /// The uids that it had: a pod of a StatefulSet comes again under its name.
    uids: Vec<Text>,
    /// Whether a sandbox or a container is the pod's.
    ids: HashMap<Text, bool>,
    /// Calls whose start was left out: their ends are too.
    others: FxHashSet<CallKey>,
    /// Observations about other pods: not in the recording.
    pub(super) left_out: u64,
    /// Observations that name no pod: in the recording.
    pub(super) unnamed: u64,
}

impl Only {
    /// For `namespace/name` or a uid.
    pub(super) fn new(pod: &str) -> Self {
        let (namespace, name) = match pod.split_once('/') {
            Some((ns, name)) => (Text::from(ns), Text::from(name)),
            None => (Text::default(), Text::default()),
        };
        let uids = if namespace.is_empty() {
            vec![Text::from(pod)]
        } else {
            Vec::new()
        };
        Self {
            namespace,
            name,
            uids,
            ids: HashMap::new(),
            others: FxHashSet::default(),
            left_out: 0,
            unnamed: 0,
        }
    }

    /// What of an observation belongs into the recording.
    pub(super) fn keep(&mut self, o: &Evidence) -> Option<Evidence> {
        let (of, part) = match &o.body {
            Body::Watch(n) if n.resource == "pods" => {
                // Of the pods of a list only this one is here: so the list says nothing about the others.
                let mut n = n.clone();
                n.scope = match self.uids.first().filter(|_| self.name.is_empty()) {
                    Some(uid) => bounds(namespace_of(&n.scope), &format!("metadata.uid={uid}"), ""),
                    None => only(&n.scope, &self.namespace, &self.name),
                };
                let part = Observation {
                    stamp: o.stamp,
                    source: o.source,
                    body: Body::Watch(n),
                };
                (Of::Nobody, Some(Arc::new(part)))
            }
            Body::Inventory(i) => {
                let whose: Vec<Of> = i
                    .items
                    .iter()
                    .map(|i| self.of_subject(&i.subject))
                    .collect();
                if !whose.contains(&Of::Other) {
                    (Of::It, None)
                } else if whose.iter().all(|of| *of == Of::Other) && !i.complete {
                    (Of::Other, None)
                } else {
                    let mut part = i.clone();
                    let mut each = whose.iter();
                    part.items.retain(|_| each.next() != Some(&Of::Other));
                    let part = Observation {
                        stamp: o.stamp,
                        source: o.source,
                        body: Body::Inventory(part),
                    };
                    (Of::It, Some(Arc::new(part)))
                }
            }
            body => (self.of(body), None),
        };
        match of {
            Of::It => {}
            Of::Other => {
                self.left_out += 1;
                return None;
            }
            Of::Nobody => self.unnamed += 1,
        }
        Some(part.unwrap_or_else(|| Arc::clone(o)))
    }

    fn of(&mut self, body: &Body) -> Of {
        match body {
            Body::Pod(p) => self.named(&p.namespace, &p.name, p.uid.as_str()),
            Body::Event(e) if e.object.kind == "Pod" => {
                self.named(&e.object.namespace, &e.object.name, &e.object.uid)
            }
            Body::CallStart(c) => {
                let of = self.of_subject(&c.subject);
                if of == Of::Other && self.others.len() < REMEMBERED {
                    self.others.insert(c.key);
                }
                of
            }
            Body::CallEnd(c) => match self.of_subject(&c.subject) {
                Of::Nobody if self.others.remove(&c.key) => Of::Other,
                of => {
                    self.others.remove(&c.key);
                    of
                }
            },
            Body::ContainerEvent(c) => self.of_subject(&c.subject),
            Body::Log(l) if !l.pod.is_empty() => {
                let of = self.named(&l.pod.namespace, &l.pod.name, l.pod.uid.as_str());
                let more = l
                    .more_pods
                    .iter()
                    .any(|p| self.named(&p.namespace, &p.name, p.uid.as_str()) == Of::It);
                if more { Of::It } else { of }
            }
            Body::Fs(f) => match f.object.pod() {
                Some(uid) => self.named("", "", uid.as_str()),
                None => Of::Nobody,
            },
            _ => Of::Nobody,
        }
    }

    fn named(&mut self, namespace: &str, name: &str, uid: &str) -> Of {
        let named = !self.name.is_empty() && self.namespace == namespace && self.name == name;
        if named && !uid.is_empty() && !self.uids.iter().any(|u| u == uid) {
            self.uids.push(Text::from(uid));
        }
        if named || (!uid.is_empty() && self.uids.iter().any(|u| u == uid)) {
            Of::It
        } else {
            Of::Other
        }
    }

    /// Who names a pod and an id says whose the id is; who names an id only is asked about it later.
    fn of_subject(&mut self, subject: &Subject) -> Of {
        let ids = [subject.container_id.as_str(), subject.sandbox_id.as_str()];
        let pod = &subject.pod;
        if pod.is_empty() {
            let known = ids.iter().find_map(|id| self.ids.get(*id));
            return match known {
                Some(true) => Of::It,
                Some(false) => Of::Other,
                None => Of::Nobody,
            };
        }
        let of = self.named(&pod.namespace, &pod.name, pod.uid.as_str());
        for id in ids {
            if !id.is_empty() && self.ids.len() < REMEMBERED && !self.ids.contains_key(id) {
                self.ids.insert(Text::from(id), of == Of::It);
            }
        }
        of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::cri::{Inventory, InventoryItem, RuntimeState};
    use kflow_model::gap::{WatchKind, WatchNote};
    use kflow_model::{ContainerId, Nanos, PodRef, PodUid, SandboxId, Source, Stamp};

    fn subject(pod: &str, container: &str) -> Subject {
        Subject {
            pod: PodRef {
                namespace: if pod.is_empty() { "" } else { "ns" }.into(),
                name: pod.into(),
                uid: PodUid::from(pod),
            },
            container_id: ContainerId::from(container),
            sandbox_id: SandboxId::default(),
            ..Subject::default()
        }
    }

    fn list(subjects: Vec<Subject>) -> Evidence {
        let items = subjects.into_iter().map(|subject| InventoryItem {
            subject,
            state: RuntimeState::Running,
            created: Nanos(0),
            started: Nanos(0),
            finished: Nanos(0),
            exit_code: None,
            reason: Text::default(),
            ips: Vec::new(),
        });
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos(1)),
            source: Source::Cri,
            body: Body::Inventory(Box::new(Inventory {
                key: CallKey { conn: 1, stream: 1 },
                complete: true,
                sandboxes: false,
                items: items.collect(),
            })),
        })
    }

    fn names(o: &Evidence) -> Vec<&str> {
        match &o.body {
            Body::Inventory(i) => i
                .items
                .iter()
                .map(|i| i.subject.pod.name.as_str())
                .collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn of_a_list_the_items_of_other_pods_are_left_out() {
        let mut only = Only::new("ns/web");
        let all = list(vec![
            subject("web", "c1"),
            subject("db", "c2"),
            subject("", "c9"),
        ]);
        let kept = only.keep(&all).unwrap();
        assert_eq!(names(&kept), ["web", ""]);
        let others = list(vec![subject("db", "c2")]);
        let kept = only.keep(&others).unwrap();
        assert!(
            names(&kept).is_empty(),
            "a complete list says that it has gone"
        );
    }

    #[test]
    fn an_id_that_was_another_pods_is_not_this_ones() {
        let mut only = Only::new("ns/web");
        only.keep(&list(vec![subject("web", "c1"), subject("db", "c2")]));
        assert_eq!(only.of_subject(&subject("", "c1")), Of::It);
        assert_eq!(only.of_subject(&subject("", "c2")), Of::Other);
        assert_eq!(only.of_subject(&subject("", "c3")), Of::Nobody);
    }

    #[test]
    fn a_list_of_which_one_pod_is_kept_is_no_list_of_all() {
        let note = Arc::new(Observation {
            stamp: Stamp::exact(Nanos(1)),
            source: Source::Kube,
            body: Body::Watch(Box::new(WatchNote {
                resource: "pods".into(),
                kind: WatchKind::ListEnd,
                scope: Text::default(),
                detail: "7".into(),
                failure: None,
            })),
        });
        for (pod, scope) in [
            ("ns/web", "ns,metadata.name=web"),
            ("u-1", "metadata.uid=u-1"),
        ] {
            let kept = Only::new(pod).keep(&note).unwrap();
            let Body::Watch(n) = &kept.body else {
                panic!("{kept:?}")
            };
            assert_eq!(n.scope, scope);
        }
    }
}
