//! Kubernetes Events (`v1` and `events.k8s.io/v1` are one object; see the field map in the docs of the API).

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Nanos, ObjectRef, PodUid, Text};

/// Prefix that client-go's recorder puts before the newest of several similar messages
/// that it combines (`events_cache.go`).
pub const COMBINED: &str = "(combined from similar events): ";

/// One occurrence of an Event: a new object, or a repeat that arrived as MODIFIED with a higher count.
///
/// The stamp's `at` is the most exact known time of *this* occurrence: for the first one the ns in the name's hex
/// suffix (kubelet, scheduler), else `eventTime` (µs), else `lastTimestamp` (1 s).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventSeen {
    /// The object that the Event is about.
    #[serde(rename = "o")]
    pub object: ObjectRef,
    /// Name of the container from `involvedObject.fieldPath`, empty when it names none.
    #[serde(rename = "c", default, skip_serializing_if = "Text::is_empty")]
    pub container: Text,
    /// `Pulling`, `FailedMount`, …
    #[serde(rename = "r")]
    pub reason: Text,
    #[serde(rename = "m")]
    pub message: Text,
    /// True when the Event's type is `Warning`.
    #[serde(rename = "w", default, skip_serializing_if = "std::ops::Not::not")]
    pub warning: bool,
    /// How often the Event has occurred so far, at least 1.
    #[serde(rename = "x")]
    pub count: u32,
    /// Time of the first occurrence; `None` when the object has none.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Nanos>,
    /// The component that reports it: `kubelet`, `default-scheduler`, …
    #[serde(rename = "by")]
    pub component: Text,
    /// Host of the reporting component, empty when the object has none.
    #[serde(rename = "h", default, skip_serializing_if = "Text::is_empty")]
    pub host: Text,
    /// Name of the Event object: `<involved>.<hex ns>`.
    #[serde(rename = "n")]
    pub name: Text,
    /// The Event's second object (the preemptor of `Preempted`), `None` when it has none.
    #[serde(rename = "rel", default, skip_serializing_if = "Option::is_none")]
    pub related: Option<ObjectRef>,
    /// True when the sender combined several messages: the newest stands after [`COMBINED`].
    #[serde(rename = "agg", default, skip_serializing_if = "std::ops::Not::not")]
    pub aggregated: bool,
    /// True when the Event came with a list: it happened before the watch began.
    #[serde(rename = "l", default, skip_serializing_if = "std::ops::Not::not")]
    pub listed: bool,
    /// Annotations that kflow uses (`starved_resource`, `offending_containers`, …), sorted by key.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<(Text, Text)>,
}

impl EventSeen {
    /// Returns the time of the first of several occurrences. `None` when the Event occurred once or the object has no
    /// such time.
    pub fn began(&self) -> Option<Nanos> {
        self.first.filter(|_| self.count > 1)
    }
}

/// Components that add nodes, by the names under which they report Events: Karpenter (kubernetes-sigs/karpenter
/// `pkg/controllers/controllers.go`, `GetEventRecorderFor`) and the cluster autoscaler (kubernetes/autoscaler
/// `cluster-autoscaler/utils/kubernetes/factory.go`, `CreateEventRecorder`). Karpenter as a part of EKS Auto Mode has a name of its
/// own: the user guide of EKS, ml-inference-load-serve-model-vllm. With each, what it is called.
const AUTOSCALERS: [(&str, &str); 3] = [
    ("karpenter", "Karpenter"),
    ("eks-auto-mode/compute", "EKS Auto Mode"),
    ("cluster-autoscaler", "the cluster autoscaler"),
];

/// Reasons of the Events of schedulers about pods (kubernetes, `pkg/scheduler/schedule_one.go`,
/// `pkg/scheduler/framework/preemption`). Autoscalers use one of them too.
pub const SCHEDULER_REASONS: [&str; 3] = ["Scheduled", "FailedScheduling", "Preempted"];
/// Reasons that only autoscalers give their Events about pods (autoscaler,
/// `cluster-autoscaler/processors/status/eventing_scale_up_processor.go`; karpenter, `pkg/controllers/provisioning/scheduling/events.go`).
pub const AUTOSCALER_REASONS: [&str; 3] = ["NotTriggerScaleUp", "TriggeredScaleUp", "Nominated"];

impl EventSeen {
    /// True when a component that adds nodes reports the Event. Karpenter uses the scheduler's reason
    /// `FailedScheduling`, but is not a scheduler.
    pub fn is_of_autoscaler(&self) -> bool {
        self.autoscaler().is_some()
    }
    /// Returns what the component that adds nodes and reports the Event is called.
    pub fn autoscaler(&self) -> Option<&'static str> {
        let mut all = AUTOSCALERS.iter();
        all.find(|(component, _)| *component == self.component)
            .map(|(_, name)| *name)
    }
    /// True when a scheduler reports the Event.
    pub fn is_of_scheduler(&self) -> bool {
        let is_named = !self.component.is_empty() && !self.is_of_autoscaler();
        is_named && SCHEDULER_REASONS.contains(&self.reason.as_str())
    }
    /// Returns the node whose agent reports the Event, empty when the Event names no node: the kubelet, or a virtual
    /// kubelet, as `NODE/pod-controller` (virtual-kubelet, package `cmd/virtual-kubelet/internal/commands/root`,
    /// runRootCommand). `None` for an Event of another component.
    pub fn node_agent(&self) -> Option<&str> {
        if self.component == "kubelet" {
            return Some(&self.host);
        }
        self.component.strip_suffix("/pod-controller")
    }
    /// True when the Event is about a pod whose UID is neither `uid` nor one of `mirrors`.
    pub fn is_of_another_pod(&self, uid: &PodUid, mirrors: &[PodUid]) -> bool {
        self.object.kind == "Pod"
            && !self.object.uid.is_empty()
            && self.object.uid != uid.0
            && mirrors.iter().all(|m| m.0 != self.object.uid)
    }
}

/// Number of Events of one object that its sender sends at once; then it sends one in five minutes, and drops the others (client-go
/// 1.36: tools/record/events_cache.go, `defaultSpamBurst`, `defaultSpamQPS`).
const BURST: u32 = 25;

/// True when the kubelet has sent so many of these Events of a pod that it drops some: that a container was killed, or that its image
/// could not be pulled, say.
pub fn is_hushed<'a>(events: impl Iterator<Item = &'a EventSeen>) -> bool {
    let mut counts: FxHashMap<&str, u32> = FxHashMap::default();
    for e in events.filter(|e| e.node_agent().is_some()) {
        let count = counts.entry(e.name.as_str()).or_default();
        *count = e.count.max(*count);
    }
    counts.values().copied().fold(0, u32::saturating_add) >= BURST
}
