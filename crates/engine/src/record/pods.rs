//! A recording of some pods: the observations about them, and those about no pod.
//!
//! Observations that name other pods only are left out and counted. Other pods' items are left out of the runtime's
//! lists. Observations that name no pod (a kubelet's log line, a metric, a node, a gap) are kept and counted: a pod
//! that hangs often hangs on something of the node's, and the node cannot be asked any more when the recording is
//! read. An observation is kept too if it names a pod of which no state was seen that would tell
//! whether it is selected.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::family::Family;
use kflow_core::diagnose::owner_asked;
use kflow_core::selection::Selection;
use kflow_model::Evidence;
use kflow_model::cri::{CallKey, Subject};
use kflow_model::gap::WatchNote;
use kflow_model::scope::{
    bounds, is_of_cluster, is_uid, is_uid_begin, namespace_of, only, pod_asked, within,
};
use kflow_model::span::SpanRecord;
use kflow_model::{Body, ObjectRef, Observation, SpanId, Text};

/// Most sandbox and container ids, and calls about other pods, that are remembered. Beyond that, an observation that
/// has only an id is kept.
const REMEMBERED: usize = 1 << 16;

/// Kind and resource of leases, by which nodes and the control plane say that they live: that concerns every pod.
const LEASES: [&str; 2] = ["Lease", "leases"];

/// True for a resource of which a recording of some pods keeps the lists whole, as they are of no namespace, or of all.
fn is_kept_whole(resource: &str) -> bool {
    let of_all = ["", WatchNote::CALLS, WatchNote::NAMES];
    is_of_cluster(resource) || LEASES.contains(&resource) || of_all.contains(&resource)
}

/// Which pods an observation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A recorded pod.
    It,
    /// Another pod.
    Other,
    /// No pod that is named, or one of which not enough is known.
    Nobody,
}

#[derive(Debug)]
struct One {
    /// `None` is any namespace: the selection may name one.
    namespace: Option<Text>,
    /// A name, a UID or the start of a UID.
    word: Text,
    /// UIDs that the pod had: a StatefulSet's pod comes back under the same name.
    uids: Vec<Text>,
}

impl One {
    /// Parses `namespace/name`, `name`, `pod/name`, a UID or the start of one.
    fn new(pod: &str) -> Self {
        let (namespace, word) = match pod_asked(pod).split_once('/') {
            Some((namespace, name)) => (Some(namespace.into()), name),
            None => (None, pod_asked(pod)),
        };
        Self {
            namespace,
            word: word.into(),
            uids: Vec::new(),
        }
    }
    fn is(&mut self, namespace: &str, name: &str, uid: &str) -> bool {
        let (of, word) = (self.namespace.as_deref(), self.word.as_str());
        let named = !name.is_empty() && name == word && of.is_none_or(|of| of == namespace);
        let begins = is_uid_begin(word) && uid.starts_with(word);
        let meant = named || (of.is_none() && (begins || uid == word) && !uid.is_empty());
        let known = self.uids.iter().any(|u| u == uid);
        if meant && !uid.is_empty() && !known {
            self.uids.push(Text::from(uid));
        }
        meant || known
    }
    /// Returns the scope of a list of pods of which only this pod is kept.
    fn bounds(&self, list: &str) -> Text {
        if is_uid(&self.word) {
            let uid = format!("metadata.uid={}", self.word);
            return bounds(namespace_of(list), &uid, "");
        }
        only(list, self.namespace.as_deref(), &self.word)
    }
}

/// Which of the selected pods are asked for.
#[derive(Debug)]
enum Asked {
    All,
    One(One),
    Family(Family),
}

/// Passes observations about the selected pods, and those about no pod.
#[derive(Debug)]
pub(super) struct PodFilter {
    asked: Asked,
    selection: Arc<Selection>,
    /// Whether a pod is selected and belongs to the object asked for, by its newest state. Keys: UID, and
    /// `namespace/name`.
    pods: HashMap<Text, bool>,
    /// Whether a sandbox or container, by its id, belongs to a recorded pod.
    ids: HashMap<Text, bool>,
    /// Calls whose start was left out: their end is left out too.
    others: FxHashSet<CallKey>,
    /// Whether a span is about a recorded pod: spans below it are too.
    spans: FxHashMap<SpanId, bool>,
    /// Observations about other pods: not in the recording.
    pub(super) left_out: u64,
    /// Observations that name no pod: in the recording.
    pub(super) unnamed: u64,
}

impl PodFilter {
    /// A filter for a pod or for an object's pods, as users name them, and for a selection; `None` when
    /// all pods are recorded: also for an autoscaler or budget of which no namespace is named.
    pub(super) fn new(pod: Option<&str>, selection: Arc<Selection>) -> Option<Self> {
        let asked = match pod.map(|pod| (pod, Family::new(pod))) {
            Some((_, Some(family))) => Asked::Family(family),
            Some((pod, None)) if owner_asked(pod).is_none() => Asked::One(One::new(pod)),
            _ if selection.is_all() => return None,
            _ => Asked::All,
        };
        Some(Self {
            asked,
            selection,
            pods: HashMap::new(),
            ids: HashMap::new(),
            others: FxHashSet::default(),
            spans: FxHashMap::default(),
            left_out: 0,
            unnamed: 0,
        })
    }

    /// Returns the part of an observation that belongs into the recording.
    pub(super) fn keep(&mut self, o: &Evidence) -> Option<Evidence> {
        let (of, part) = match &o.body {
            Body::Watch(n) => {
                // Only a part of a list is in the recording, so the list must not claim that others do not exist.
                // A selection needs no such care: the apiserver was asked for nothing else.
                let mut n = n.clone();
                n.scope = self.bounds(&n.resource, &n.scope);
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
            Body::Pod(p) => {
                if !self.is_known_by_name() {
                    let selected = self.selection.is_all()
                        || self.selection.admits_state(&Arc::new((**p).clone()));
                    let admitted = match &self.asked {
                        Asked::Family(family) if selected => family.has(p),
                        _ => Some(selected),
                    };
                    if let Some(admitted) = admitted {
                        self.learn(p.uid.as_str(), admitted);
                        self.learn(&format!("{}/{}", p.namespace, p.name), admitted);
                    }
                }
                self.named(&p.namespace, &p.name, p.uid.as_str())
            }
            Body::Event(e) if e.object.kind == "Pod" => {
                self.named(&e.object.namespace, &e.object.name, &e.object.uid)
            }
            Body::Event(e) => self.of_object(&e.object),
            Body::Object(o) => {
                if let Asked::Family(family) = &mut self.asked {
                    family.learn(o);
                }
                self.of_object(&o.object)
            }
            Body::Audit(a)
                if a.resource.split('/').next() == Some("pods") && !a.object.name.is_empty() =>
            {
                self.named(&a.object.namespace, &a.object.name, &a.object.uid)
            }
            Body::Audit(a) => self.of_namespace(&a.resource, &a.object.namespace),
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
            Body::RuntimeEvent(e) => self.of_subject(&e.subject()),
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
            Body::Span(s) => {
                let of = self.of_span(s);
                if of != Of::Nobody && self.spans.len() < REMEMBERED {
                    self.spans.insert(s.span, of == Of::It);
                }
                of
            }
            _ => Of::Nobody,
        }
    }

    /// Which pods a span is about: by the pod, the container or the sandbox that it names, by the path of the request
    /// that it handles, or by its parent.
    fn of_span(&mut self, s: &SpanRecord) -> Of {
        let (namespace, name) = s
            .attribute("k8s.pod")
            .and_then(|p| p.split_once('/'))
            .unwrap_or_default();
        let uid = s.attribute("k8s.pod.uid").unwrap_or_default();
        if !name.is_empty() || !uid.is_empty() {
            return self.named(namespace, name, uid);
        }
        let ids = ["container.id", "sandbox.id"];
        let mut known = ids.iter().filter_map(|id| self.ids.get(s.attribute(id)?));
        if let Some(known) = known.next() {
            return if *known { Of::It } else { Of::Other };
        }
        let paths = ["url.path", "url.full", "http.target", "http.url"];
        if let Some(path) = paths.iter().find_map(|key| s.attribute(key))
            && let Some((_, below)) = path.split_once("/namespaces/")
        {
            let mut parts = below.split(['/', '?']);
            let namespace = parts.next().unwrap_or_default();
            return match (parts.next(), parts.next()) {
                (Some("pods"), Some(name)) => self.named(namespace, name, ""),
                (resource, _) => self.of_namespace(resource.unwrap_or_default(), namespace),
            };
        }
        match s.parent.and_then(|parent| self.spans.get(&parent)) {
            Some(true) => Of::It,
            Some(false) => Of::Other,
            None => Of::Nobody,
        }
    }

    /// True if a pod's name alone tells whether it is recorded.
    fn is_known_by_name(&self) -> bool {
        self.selection.is_all() && !matches!(self.asked, Asked::Family(_))
    }

    fn learn(&mut self, pod: &str, admitted: bool) {
        if let Some(known) = self.pods.get_mut(pod) {
            *known = admitted;
        } else if !pod.is_empty() && self.pods.len() < REMEMBERED {
            self.pods.insert(pod.into(), admitted);
        }
    }

    fn named(&mut self, namespace: &str, name: &str, uid: &str) -> Of {
        if let Asked::One(one) = &mut self.asked
            && !one.is(namespace, name, uid)
        {
            return Of::Other;
        }
        if self.is_known_by_name() {
            return Of::It;
        }
        let known = self
            .pods
            .get(uid)
            .or_else(|| self.pods.get(format!("{namespace}/{name}").as_str()))
            .copied();
        let admitted = known.or_else(|| {
            let told = !namespace.is_empty();
            if told && !self.selection.admits_namespace(namespace) {
                return Some(false);
            }
            let by_namespace = !matches!(self.asked, Asked::Family(_));
            (told && by_namespace && self.selection.is_of_namespaces()).then_some(true)
        });
        if known.is_none()
            && let Some(admitted) = admitted
        {
            self.learn(uid, admitted);
        }
        match admitted {
            Some(true) => Of::It,
            Some(false) => Of::Other,
            None => Of::Nobody,
        }
    }

    /// The namespace asked for; `None` for any.
    fn namespace(&self) -> Option<&str> {
        match &self.asked {
            Asked::All => None,
            Asked::One(one) => one.namespace.as_deref(),
            Asked::Family(family) => family.namespace(),
        }
    }

    /// Returns the bounds of what is kept of a list.
    fn bounds(&self, resource: &str, list: &str) -> Text {
        match (&self.asked, self.namespace()) {
            (Asked::One(one), _) if resource == "pods" => one.bounds(list),
            (Asked::Family(family), _) if resource == "pods" || family.narrows(resource) => {
                family.bounds(list)
            }
            (_, Some(namespace)) if !is_kept_whole(resource) => within(list, namespace),
            _ => list.into(),
        }
    }

    /// Which pods an observation about an object that is no pod concerns.
    fn of_object(&self, object: &ObjectRef) -> Of {
        match &self.asked {
            Asked::Family(family) if family.concerns(object) == Some(false) => Of::Other,
            _ => self.of_namespace(&object.kind, &object.namespace),
        }
    }

    /// Which pods an observation about an object concerns that is no pod, by its kind or resource and its namespace.
    fn of_namespace(&self, kind: &str, namespace: &str) -> Of {
        let is_asked = self.namespace().is_none_or(|asked| asked == namespace);
        let of_all = namespace.is_empty() || LEASES.contains(&kind);
        if of_all || is_asked && self.selection.admits_namespace(namespace) {
            Of::Nobody
        } else {
            Of::Other
        }
    }

    /// Learns which pod an id belongs to from subjects that name both, and resolves subjects with an id alone by it.
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
        for id in ids.into_iter().filter(|_| of != Of::Nobody) {
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
    use kflow_model::audit::{AuditRecord, AuditStage};
    use kflow_model::cri::{Inventory, InventoryItem, RuntimeState};
    use kflow_model::event::EventSeen;
    use kflow_model::gap::WatchKind;
    use kflow_model::object::ObjectSeen;
    use kflow_model::pod::PodSeen;
    use kflow_model::{
        ContainerId, Nanos, ObjectRef, Pairs, PodNames, PodRef, PodUid, SandboxId, Scope, Source,
        Stamp,
    };

    fn subject(pod: &str, container: &str) -> Subject {
        Subject {
            pod: PodRef::from(PodNames {
                namespace: if pod.is_empty() { "" } else { "shop" }.into(),
                name: pod.into(),
                uid: PodUid::from(pod),
            }),
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
        let mut only = PodFilter::new(Some("shop/web"), Arc::default()).unwrap();
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
    fn of_an_owner_the_pods_are_known_by_their_states() {
        let state = |name: &str, owner: &str| {
            let owner = ObjectRef {
                kind: "StatefulSet".into(),
                namespace: Text::default(),
                name: owner.into(),
                uid: Text::default(),
            };
            let pod = PodSeen {
                namespace: "shop".into(),
                name: name.into(),
                uid: PodUid::from(name),
                owner: Some(owner),
                ..PodSeen::default()
            };
            Arc::new(Observation {
                stamp: Stamp::exact(Nanos(1)),
                source: Source::Kube,
                body: Body::Pod(Box::new(pod)),
            })
        };
        let mut only = PodFilter::new(Some("sts/web"), Arc::default()).unwrap();
        let all = list(vec![subject("web-0", "c1"), subject("db-0", "c2")]);
        let kept = only.keep(&all).unwrap();
        assert_eq!(
            names(&kept),
            ["web-0", "db-0"],
            "whose they are is not known"
        );
        assert!(only.keep(&state("web-0", "web")).is_some());
        assert!(only.keep(&state("db-0", "db")).is_none());
        let kept = only.keep(&all).unwrap();
        assert_eq!(names(&kept), ["web-0"]);
        assert_eq!(only.of_subject(&subject("", "c2")), Of::Other);
        assert_eq!((only.left_out, only.unnamed), (1, 0));
    }

    #[test]
    fn spans_about_other_pods_are_left_out() {
        let selection = Selection::new(&Scope {
            namespace: Some("shop".to_owned()),
            ..Scope::default()
        })
        .unwrap();
        let mut only = PodFilter::new(None, Arc::new(selection)).unwrap();
        let mut of = |id: u64, parent: u64, attributes: &[(&str, &str)]| {
            let pairs = attributes.iter().map(|(k, v)| ((*k).into(), (*v).into()));
            only.of(&Body::Span(Box::new(SpanRecord {
                span: SpanId(id),
                parent: (parent > 0).then_some(SpanId(parent)),
                attributes: pairs.collect::<Vec<_>>().into(),
                ..SpanRecord::default()
            })))
        };
        let pod = |name| [("k8s.pod", name), ("k8s.pod.uid", name)];
        assert_eq!(of(1, 0, &pod("shop/web")), Of::It);
        assert_eq!(of(2, 0, &pod("bank/db")), Of::Other);
        assert_eq!(of(3, 1, &[]), Of::It);
        assert_eq!(of(4, 2, &[]), Of::Other);
        assert_eq!(of(5, 4, &[]), Of::Other);
        assert_eq!(of(6, 99, &[]), Of::Nobody);
        assert_eq!(of(7, 0, &[("k8s.pod.uid", "bank/db")]), Of::Other);
        let path = |path| [("url.path", path)];
        let status = "/api/v1/namespaces/bank/pods/db/status";
        assert_eq!(of(8, 0, &path(status)), Of::Other);
        assert_eq!(of(9, 0, &path("/api/v1/namespaces/shop/pods/web")), Of::It);
        assert_eq!(
            of(10, 0, &path("/api/v1/namespaces/bank/events")),
            Of::Other
        );
        assert_eq!(of(11, 0, &path("/api/v1/nodes/node1")), Of::Nobody);
        // A runtime's span has ids, which the runtime's calls tell apart.
        let mut db = subject("db", "c2");
        db.pod = PodRef::from(PodNames {
            namespace: "bank".into(),
            name: "db".into(),
            uid: PodUid::from("bank/db"),
        });
        only.of_subject(&db);
        let span = SpanRecord {
            attributes: vec![("container.id".into(), "c2".into())].into(),
            ..SpanRecord::default()
        };
        assert_eq!(only.of(&Body::Span(Box::new(span))), Of::Other);
    }

    #[test]
    fn an_id_that_was_another_pods_is_not_this_ones() {
        let mut only = PodFilter::new(Some("shop/web"), Arc::default()).unwrap();
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
        let uid = "00c0ffee-0000-4000-8000-0123456789ab";
        for (pod, scope) in [
            ("shop/web", "shop,metadata.name=web".to_owned()),
            ("web", "metadata.name=web".to_owned()),
            ("pod/web", "metadata.name=web".to_owned()),
            (uid, format!("metadata.uid={uid}")),
            ("shop/deploy/web", "shop,of=Deployment/web".to_owned()),
            ("pvc/data", "of=PersistentVolumeClaim/data".to_owned()),
            ("node/n1", "of=Node/n1".to_owned()),
        ] {
            let kept = PodFilter::new(Some(pod), Arc::default())
                .unwrap()
                .keep(&note)
                .unwrap();
            let Body::Watch(n) = &kept.body else {
                panic!("{kept:?}")
            };
            assert_eq!(n.scope, scope.as_str());
        }
    }

    #[test]
    fn of_an_owner_the_objects_of_others_are_left_out_and_their_lists_say_so() {
        let mut only = PodFilter::new(Some("shop/deploy/web"), Arc::default()).unwrap();
        let object = |kind: &str, namespace: &str, name: &str| ObjectRef {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: Text::default(),
        };
        let seen = |body: Body| {
            Arc::new(Observation {
                stamp: Stamp::exact(Nanos(1)),
                source: Source::Kube,
                body,
            })
        };
        for (object, is_kept) in [
            (object("Deployment", "shop", "web"), true),
            (object("Deployment", "shop", "db"), false),
            (object("ConfigMap", "shop", "settings"), true),
            (object("ConfigMap", "else", "settings"), false),
            (object("Node", "", "n1"), true),
            (object("Lease", "kube-node-lease", "n1"), true),
        ] {
            let state = seen(Body::Object(Box::new(ObjectSeen {
                object: object.clone(),
                ..ObjectSeen::default()
            })));
            assert_eq!(only.keep(&state).is_some(), is_kept, "{object:?}");
            let event = seen(Body::Event(Box::new(EventSeen {
                object: object.clone(),
                ..EventSeen::default()
            })));
            assert_eq!(only.keep(&event).is_some(), is_kept, "{object:?}");
        }
        assert_eq!(only.left_out, 4);
        let note = |resource: &str| {
            seen(Body::Watch(Box::new(WatchNote {
                resource: resource.into(),
                kind: WatchKind::ListEnd,
                scope: Text::default(),
                detail: "7".into(),
                failure: None,
            })))
        };
        for (asked, resource, scope) in [
            ("shop/deploy/web", "deployments", "shop,of=Deployment/web"),
            ("deploy/web", "deployments", "of=Deployment/web"),
            ("deploy/web", "replicationcontrollers", "of=Deployment/web"),
            ("shop/deploy/web", "persistentvolumeclaims", "shop"),
            ("shop/deploy/web", "nodes", ""),
            ("pvc/data", "deployments", ""),
            ("shop/pvc/data", "deployments", "shop"),
            ("node/n1", "replicasets", ""),
            ("shop/web", "events", "shop"),
            ("shop/web", "leases", ""),
        ] {
            let mut only = PodFilter::new(Some(asked), Arc::default()).unwrap();
            let kept = only.keep(&note(resource)).unwrap();
            let Body::Watch(n) = &kept.body else {
                panic!("{kept:?}")
            };
            assert_eq!(n.scope, scope, "{asked}: {resource}");
        }
    }

    #[test]
    fn leases_concern_every_pod() {
        let selection = Selection::new(&Scope {
            namespace: Some("shop".to_owned()),
            ..Scope::default()
        });
        let selection = Arc::new(selection.unwrap());
        let audit = |resource: &str| {
            let object = ObjectRef {
                kind: Text::default(),
                namespace: "kube-node-lease".into(),
                name: "n1".into(),
                uid: Text::default(),
            };
            Body::Audit(Box::new(AuditRecord {
                audit_id: Text::default(),
                stage: AuditStage::ResponseComplete,
                verb: "update".into(),
                resource: resource.into(),
                object,
                user: "system:node:n1".into(),
                agent: Text::default(),
                received: Nanos(1),
                code: 200,
                message: Text::default(),
                query: Text::default(),
                annotations: Pairs::default(),
                facts: Pairs::default(),
            }))
        };
        for (pod, selection) in [
            (Some("shop/web-0"), Arc::default()),
            (Some("shop/deploy/web"), Arc::default()),
            (None, selection),
        ] {
            let mut only = PodFilter::new(pod, selection).unwrap();
            assert_eq!(only.of(&audit("leases")), Of::Nobody, "{pod:?}");
            assert_eq!(only.of(&audit("configmaps")), Of::Other, "{pod:?}");
        }
    }

    /// Any pod may be of an autoscaler or budget of which no namespace is named.
    #[test]
    fn of_an_autoscaler_of_any_namespace_all_selected_pods_are_recorded() {
        let in_shop = Selection::new(&Scope {
            namespace: Some("shop".to_owned()),
            ..Scope::default()
        });
        let in_shop = Arc::new(in_shop.unwrap());
        for asked in ["hpa/web", "pdb/web"] {
            assert!(PodFilter::new(Some(asked), Arc::default()).is_none());
            let kept = PodFilter::new(Some(asked), Arc::clone(&in_shop)).unwrap();
            assert!(matches!(kept.asked, super::Asked::All), "{asked}");
        }
    }

    #[test]
    fn a_pod_is_named_as_in_every_command() {
        let uid = "00c0ffee-0000-4000-8000-0123456789ab";
        for (asked, web, other) in [
            ("shop/web", true, false),
            ("web", true, true),
            ("pod/web", true, true),
            ("pod/shop/web", true, false),
            (uid, true, false),
            ("00c0ffee", true, false),
            ("00c0", false, false),
            ("db", false, false),
        ] {
            let mut one = One::new(asked);
            assert!(!one.is("", "", "another"), "{asked}");
            assert_eq!(one.is("shop", "web", uid), web, "{asked}");
            assert_eq!(one.is("", "", uid), web, "{asked}: its UID is learnt");
            assert_eq!(one.is("else", "web", "u-2"), other, "{asked}");
            assert!(!one.is("", "", ""), "{asked}");
        }
    }
}
