//! The world and its indexes.

mod calls;
mod clients;
mod file;
mod heard;
mod image_calls;
mod known;
mod nodes;
mod pod;
mod pods;
mod refresh;
mod retire;
mod selected;
mod skew;
mod sources;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use heard::{Actor, DEFAULT_SCHEDULER, LEADER_LEASES, Lease, NODE_LEASES, Sign};
pub use known::Presence;
pub use pod::{LazyPod, Pod};
pub(crate) use pods::{Slot, insert_once};
pub use retire::{Retention, Retired, Sizes};

use smallvec::SmallVec;

use super::context::PodContext;
use super::generations::Generations;
use super::shards::{Chunked, ShardMap};
use super::{CallLog, Coverage, Hindsight, ImagePulls, KubeletActivity, RequestLog};
use crate::selection::Selection;
use calls::{CallAt, CallIndex};
use kflow_model::Evidence;
use kflow_model::offset::Offset as ClockOffset;
use kflow_model::scope::{is_uid_begin, pod_asked};
use kflow_model::{
    Nanos, ObjectRef, PodUid, Source, SpanId, Text, TraceId, cri::CallKey, node::NodeSeen,
    object::ObjectSeen,
};
use pods::{NameFile, PodFile};

/// A node: its newest state, and the evidence about the node as a whole.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    /// Name; empty for the local node of a session that never contains its name.
    pub name: Text,
    /// Newest state from the API.
    pub api: Option<Arc<NodeSeen>>,
    /// Node objects, Events, health and node-level log lines, by time; a long run forgets the oldest.
    pub evidence: Vec<Evidence>,
}

/// An object that is not a pod, such as an owner, a claim or a quota.
#[derive(Clone, Debug, Default)]
pub struct ObjectState {
    pub object: ObjectRef,
    /// Newest state from the API, if the object was watched.
    pub api: Option<Arc<ObjectSeen>>,
    /// Its states, Events and audit records, by time.
    pub evidence: Vec<Evidence>,
    /// Pods whose controller it is.
    pub pods: Vec<PodUid>,
}

/// State of a source, derived from its observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    pub count: u64,
    /// Arrival of the first.
    pub first: Option<Nanos>,
    /// Arrival of the newest.
    pub last: Option<Nanos>,
    /// Total of the losses in its gaps.
    pub lost: u64,
    /// Gaps, newest last; a bounded number.
    pub gaps: Vec<Evidence>,
    /// Arrival of the newest call of CRI: a kubelet lists its pods every second. The runtime's own services are for others, kflow
    /// among them.
    pub called: Option<Nanos>,
    /// The newest time that the kubelet's lines and calls have themselves: what it did in the past arrives when a source begins.
    pub spoke: Option<Nanos>,
    /// True once a tap reported a connection or a call; lists that kflow itself requests from the runtime are neither.
    pub tapped: bool,
}

impl SourceState {
    /// Arrival of the newest gap.
    pub fn lost_last(&self) -> Option<Nanos> {
        self.gaps.iter().map(|g| g.stamp.seen).max()
    }
}

/// Estimated offset between the apiserver's clock and the node's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// apiserver's clock minus the node's, ns; `None` without paired observations.
    pub api_ns: Option<i64>,
    /// Half width of the interval that all pairs allow, ns.
    pub api_within_ns: i64,
    /// Number of pairs used.
    pub pairs: u32,
}

/// Counts of what no pod or timeline shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfiled {
    /// Observations with an id (container, trace, request) that no other observation has linked to a pod yet.
    pub waiting: u64,
    /// Such observations that were dropped: after many newer ones, or because too many wait for the same id.
    pub given_up: u64,
    /// Requests that only read pods (get, list, watch): not filed.
    pub reads: u64,
    /// CRI calls that were forgotten, the oldest first, because there were too many.
    pub calls_forgotten: u64,
    /// Evidence dropped from pods that live long, and from names that were used often, between the beginning and the
    /// newest part. The timelines of these pods have a gap there.
    pub folded: u64,
    /// Pods that were removed from the world because they had been gone for too long, or too many were. A row is kept
    /// of the newest 20,000.
    pub left: u64,
    /// Observations that were removed with these pods.
    pub left_evidence: u64,
}

/// The pod and container that a runtime id belongs to.
#[derive(Clone, Debug, Default)]
struct Owner {
    slot: Slot,
    container: Text,
    attempt: Option<u32>,
    sandbox: bool,
    /// The sandbox id of a container. Shared, so that a checkpoint copies the index and not the ids.
    within: Option<Arc<str>>,
}

/// A key that evidence waits for until another observation links the key to a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum WaitKey {
    Runtime(Text),
    Span(SpanId),
    Trace(TraceId),
    Audit(Text),
    /// The time at which the kubelet first saw a pod: see [`CONFIG_SEEN`](kflow_model::cri::CONFIG_SEEN).
    FirstSeen(Text),
}

/// The evidence that waits for one key: usually one observation.
type Waiting = SmallVec<[Evidence; 2]>;

/// All pods, nodes, objects, calls and requests of a session. See the [module](super).
#[derive(Clone, Debug)]
pub struct World {
    now: Nanos,
    pods: Arc<Vec<Pod>>,
    /// The pods of `pods` that the selection admits; `None` when it admits all.
    selected: Option<Arc<Vec<Pod>>>,
    selection: Arc<Selection>,
    calls: CallLog,
    nodes: BTreeMap<Text, Arc<NodeState>>,
    objects: BTreeMap<(Text, Text, Text), Arc<ObjectState>>,
    sources: sources::Sources,
    lists: sources::Lists,
    coverage: Arc<Coverage>,
    heard: heard::Heard,
    node_lists: known::NodeLists,
    offset: skew::Offset,
    links: skew::Links,
    unfiled: Unfiled,
    left: retire::Leavers,
    requests: RequestLog,
    /// When true, `requests` stays empty.
    without_requests: bool,
    kubelet: Arc<KubeletActivity>,
    pulls: Arc<ImagePulls>,
    clients: clients::Clients,
    image_calls: image_calls::ImageCalls,

    files: Chunked<Arc<PodFile>>,
    names: Chunked<Arc<NameFile>>,
    by_uid: ShardMap<Arc<str>, Slot>,
    by_name: ShardMap<Arc<str>, u32>,
    by_runtime: ShardMap<Arc<str>, Owner>,
    by_call: CallIndex,
    by_span: Generations<SpanId, Slot>,
    by_trace: Generations<TraceId, Slot>,
    by_audit: Generations<Text, Slot>,
    by_first_seen: Generations<Text, Slot>,
    /// Names of pods that were created by a request without a name (`generateName`), read from the etcd key:
    /// namespace and name by audit id.
    stored: Generations<Text, (Text, Text)>,
    ends: Generations<CallKey, Evidence>,
    waiting: Generations<WaitKey, Waiting>,
    dirty: Vec<Slot>,
    dirty_names: Vec<u32>,
    local: nodes::Local,
    context: Arc<PodContext>,
    lists_changed: bool,
    /// True when `pods` changed after `selected` was made.
    pods_changed: bool,
}

impl Default for World {
    fn default() -> Self {
        const JOINS: usize = 3 << 16;
        Self {
            now: Nanos::default(),
            pods: Arc::default(),
            selected: None,
            selection: Arc::default(),
            calls: CallLog::default(),
            nodes: BTreeMap::new(),
            objects: BTreeMap::new(),
            sources: sources::Sources::default(),
            lists: sources::Lists::default(),
            coverage: Arc::default(),
            heard: heard::Heard::default(),
            node_lists: known::NodeLists::default(),
            offset: skew::Offset::default(),
            links: skew::Links::default(),
            unfiled: Unfiled::default(),
            left: retire::Leavers::default(),
            requests: RequestLog::default(),
            without_requests: false,
            kubelet: Arc::default(),
            pulls: Arc::default(),
            clients: clients::Clients::default(),
            image_calls: image_calls::ImageCalls::default(),
            files: Chunked::default(),
            names: Chunked::default(),
            by_uid: ShardMap::default(),
            by_name: ShardMap::default(),
            by_runtime: ShardMap::default(),
            by_call: CallIndex::default(),
            by_span: Generations::new(JOINS),
            by_trace: Generations::new(JOINS),
            by_audit: Generations::new(JOINS),
            by_first_seen: Generations::new(JOINS / 8),
            stored: Generations::new(JOINS / 8),
            ends: Generations::new(JOINS / 8),
            waiting: Generations::new(JOINS / 4),
            dirty: Vec::new(),
            dirty_names: Vec::new(),
            local: nodes::Local::default(),
            context: Arc::default(),
            lists_changed: false,
            pods_changed: false,
        }
    }
}

impl World {
    /// An empty world that selects every pod.
    pub fn new() -> Self {
        Self::default()
    }
    /// An empty world whose [`pods`](Self::pods) are those that the selection admits.
    pub fn selecting(selection: Arc<Selection>) -> Self {
        Self {
            selected: (!selection.is_all()).then(Arc::default),
            selection,
            ..Self::default()
        }
    }
    /// Keeps no log of requests to the apiserver, to save memory: [`requests`](Self::requests) stays empty. A pod's
    /// evidence still contains its requests.
    #[must_use]
    pub fn without_requests(mut self) -> Self {
        self.without_requests = true;
        self
    }
    /// The newest arrival (`seen`) so far.
    pub const fn now(&self) -> Nanos {
        self.now
    }
    pub const fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }
    /// The selected pods, deleted ones included, by [`PodView::created`](super::PodView::created).
    pub fn pods(&self) -> &[Pod] {
        self.selected.as_ref().unwrap_or(&self.pods)
    }
    /// All pods, in the same order: for conclusions that need other pods than the selected ones.
    pub fn every_pod(&self) -> &[Pod] {
        &self.pods
    }
    /// A pod by UID; a mirror's UID finds its static pod. A pod of unknown UID is found by `ns/name`.
    pub fn pod(&self, uid: &PodUid) -> Option<&Pod> {
        let file = self.files.get(self.slot_of(&uid.0)?)?;
        self.pods.get(self.place(file.shown.as_ref()?)?)
    }
    /// Selected pods by `ns/name`, `name`, `pod/name` or UID, newest first. A UID may be abbreviated when only one
    /// pod's UID begins with it.
    pub fn find(&self, query: &str) -> Vec<&Pod> {
        let query = pod_asked(query);
        if let Some(pod) = self.pod(&PodUid::from(query))
            && !pod.is_called(query)
        {
            let selected = self.selection.is_all() || self.selection.admits(pod);
            return selected.then_some(pod).into_iter().collect();
        }
        let called = |p: &&Pod| p.is_called(query);
        let found: Vec<&Pod> = self.pods().iter().rev().filter(called).collect();
        if !found.is_empty() {
            return found;
        }
        let mut begin = self.of_uid_begin(query);
        match (begin.next(), begin.next()) {
            (Some(one), None) => vec![one],
            _ => found,
        }
    }
    /// Selected pods whose UID begins with `begin`.
    pub fn of_uid_begin<'w>(&'w self, begin: &str) -> impl Iterator<Item = &'w Pod> {
        let begin = is_uid_begin(begin).then_some(begin);
        self.pods().iter().filter(move |p| {
            let (_, uid) = p.listed_by();
            // A pod of unknown UID has `ns/name` in place of the UID.
            begin.is_some_and(|b| uid.as_str().starts_with(b) && !uid.as_str().contains('/'))
        })
    }
    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<&NodeState> {
        self.nodes.values().map(AsRef::as_ref).collect()
    }
    pub fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name).map(AsRef::as_ref)
    }
    /// Whether a node exists, by the lists and watches of nodes.
    pub fn presence(&self, node: &str) -> Presence<'_> {
        let presence = self.node_lists.presence(node, self.node(node));
        // A node that no list contains may be among lost objects. A deletion was seen.
        let by_list = matches!(presence, Presence::Missing { evidence, .. } if matches!(evidence.body, kflow_model::Body::Watch(_)));
        if by_list && self.coverage.lost_since_list("nodes").is_some() {
            return Presence::Unknown;
        }
        presence
    }
    /// The newest renewal of a lease that lists and watches showed.
    pub fn lease(&self, namespace: &str, name: &str) -> Option<&Lease> {
        self.heard.lease_of(namespace, name)
    }
    /// All leases: namespace, name, newest renewal.
    pub fn leases(&self) -> impl Iterator<Item = (&str, &str, &Lease)> {
        self.heard.leases()
    }
    /// When a node's lease was last renewed, by the audit log.
    pub fn renewal(&self, node: &str) -> Option<Nanos> {
        self.heard.renewal(node)
    }
    /// The newest sign of life of a component.
    pub fn heard(&self, actor: &Actor) -> Option<&Sign> {
        self.heard.sign(actor)
    }
    /// Objects that are not pods (owners, claims), by kind, namespace and name.
    pub fn objects(&self) -> Vec<&ObjectState> {
        self.objects.values().map(AsRef::as_ref).collect()
    }
    /// An object by kind (`Deployment`), namespace and name.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<&ObjectState> {
        self.objects
            .get(&(kind.into(), namespace.into(), name.into()))
            .map(AsRef::as_ref)
    }
    /// Requests to the apiserver, from audit records and spans.
    pub const fn requests(&self) -> &RequestLog {
        &self.requests
    }
    /// The kubelet's activity on the whole, as opposed to that on one pod.
    pub fn kubelet(&self) -> &KubeletActivity {
        &self.kubelet
    }
    /// Progress of the runtime's image pulls.
    pub fn image_pulls(&self) -> &ImagePulls {
        &self.pulls
    }
    pub const fn calls(&self) -> &CallLog {
        &self.calls
    }
    /// Arrival of the first observation of the sources on nodes; `None` when they have none.
    pub fn nodes_from(&self) -> Option<Nanos> {
        self.sources.nodes_from()
    }
    /// State of a source.
    pub fn source(&self, source: Source) -> SourceState {
        self.sources.get(source).clone()
    }
    /// The newest clock steps of the recording machine, by time.
    pub fn clock_steps(&self) -> &[Evidence] {
        self.sources.steps()
    }
    /// What was read of the apiserver, and what was not.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }
    /// Returns until when the sources on nodes and of the control plane were followed, at most `now`: what they do not say
    /// later means nothing.
    pub fn followed(&self, now: Nanos) -> Nanos {
        let dark = self.coverage.lost(&[]).filter(|lost| lost.at > now);
        let dark = dark.map(|lost| lost.since);
        let all = [Some(now), self.sources.end(), dark];
        all.into_iter().flatten().min().unwrap_or(now)
    }
    /// Adds the data that is missing at a moment and that the recording reports as missing only later. For a world as
    /// of that moment, which gets no further observations.
    pub fn look_back(&mut self, hindsight: &Hindsight, at: Nanos) {
        if !hindsight.is_clear(at) {
            Arc::make_mut(&mut self.coverage).look_back(hindsight, at);
        }
    }
    /// Estimated skew between the apiserver's clock and the node's.
    pub fn skew(&self) -> Skew {
        self.offset.estimate()
    }
    /// Takes the offsets of the apiserver's and the node's clock from a third clock. They bound the estimate like a
    /// pair of observations does.
    pub fn compare_clocks(&mut self, apiserver: ClockOffset, node: ClockOffset) {
        let ahead = apiserver.ahead_ns.saturating_sub(node.ahead_ns);
        let within = apiserver.within_ns.saturating_add(node.within_ns);
        let begin = Nanos::default();
        let least = begin.plus(ahead.saturating_sub(within));
        let most = begin.plus(ahead.saturating_add(within));
        self.offset.api_before_node(least, begin);
        self.offset.node_before_api(begin, most);
    }
    pub fn unfiled(&self) -> Unfiled {
        Unfiled {
            waiting: self.count_waiting(self.waiting.iter()),
            folded: self.files.iter().map(|f| f.folded.count).sum(),
            left: self.left.pods,
            left_evidence: self.left.evidence,
            ..self.unfiled
        }
    }

    /// The file of a UID; of a mirror's UID, the static pod's.
    fn slot_of(&self, uid: &str) -> Option<Slot> {
        let slot = *self.by_uid.get(uid)?;
        let file = self.files.get(slot)?;
        Some(file.into.unwrap_or(slot))
    }
    /// The file that this one was merged into, or else itself.
    fn merged(&self, slot: Slot) -> Slot {
        self.files.get(slot).and_then(|f| f.into).unwrap_or(slot)
    }
    /// Index of a pod in the list of pods.
    fn place(&self, shown: &pods::PodKey) -> Option<usize> {
        self.pods
            .binary_search_by(|p| p.listed_by().cmp(&(shown.0, &shown.1)))
            .ok()
    }
}
