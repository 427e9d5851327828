//! Kubernetes Events (`v1` and `events.k8s.io/v1` are one object; see the field map in the docs of the API).

use serde::{Deserialize, Serialize};

use super::{Nanos, ObjectRef, PodUid, Text};

/// What client-go's recorder puts before the newest of several messages that it folds (`events_cache.go`).
pub const COMBINED: &str = "(combined from similar events): ";

/// One occurrence of an Event: a new object, or a repeat that came as MODIFIED with a higher count.
///
/// The stamp's `at` is the best time of *this* occurrence: for the first one the ns in the name's hex suffix (kubelet,
/// scheduler), else `eventTime` (µs), else `lastTimestamp` (1 s).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventSeen {
    /// What it is about.
    #[serde(rename = "o")]
    pub object: ObjectRef,
    /// Container from `involvedObject.fieldPath`, empty when none.
    #[serde(rename = "c", default, skip_serializing_if = "Text::is_empty")]
    pub container: Text,
    /// `Pulling`, `FailedMount`, …
    #[serde(rename = "r")]
    pub reason: Text,
    #[serde(rename = "m")]
    pub message: Text,
    /// True for `Warning`.
    #[serde(rename = "w", default, skip_serializing_if = "std::ops::Not::not")]
    pub warning: bool,
    /// How often it happened so far, at least 1.
    #[serde(rename = "x")]
    pub count: u32,
    /// First occurrence, when the object tells.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Nanos>,
    /// `kubelet`, `default-scheduler`, …
    #[serde(rename = "by")]
    pub component: Text,
    /// Host of the reporter, empty when not told.
    #[serde(rename = "h", default, skip_serializing_if = "Text::is_empty")]
    pub host: Text,
    /// Name of the Event object: `<involved>.<hex ns>`.
    #[serde(rename = "n")]
    pub name: Text,
    /// Second object (the preemptor of `Preempted`), empty when none.
    #[serde(rename = "rel", default, skip_serializing_if = "Option::is_none")]
    pub related: Option<ObjectRef>,
    /// True when the sender folded several messages: the newest stands after [`COMBINED`].
    #[serde(rename = "agg", default, skip_serializing_if = "std::ops::Not::not")]
    pub aggregated: bool,
    /// True when it came with a list: it is history, not news.
    #[serde(rename = "l", default, skip_serializing_if = "std::ops::Not::not")]
    pub listed: bool,
    /// Annotations worth keeping (`starved_resource`, `offending_containers`, …), sorted by key.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<(Text, Text)>,
}

impl EventSeen {
    /// When the first of several occurrences was; `None` of one that happened once, and where the object does not tell.
    pub fn began(&self) -> Option<Nanos> {
        self.first.filter(|_| self.count > 1)
    }
}

/// Who adds nodes, by the names that they report Events under: Karpenter (kubernetes-sigs/karpenter
/// `pkg/controllers/controllers.go`, `GetEventRecorderFor`) and the cluster autoscaler (kubernetes/autoscaler
/// `cluster-autoscaler/utils/kubernetes/factory.go`, `CreateEventRecorder`).
const AUTOSCALERS: [&str; 2] = ["karpenter", "cluster-autoscaler"];

impl EventSeen {
    /// True when one who adds nodes says it. Karpenter uses the scheduler's reason `FailedScheduling`, and is no scheduler.
    pub fn is_of_autoscaler(&self) -> bool {
        AUTOSCALERS.contains(&self.component.as_str())
    }
    /// True when it is about another pod than this one, by UID.
    pub fn is_of_another_pod(&self, uid: &PodUid, mirrors: &[PodUid]) -> bool {
        self.object.kind == "Pod"
            && !self.object.uid.is_empty()
            && self.object.uid != uid.0
            && mirrors.iter().all(|m| m.0 != self.object.uid)
    }
}
