//! OpenTelemetry spans, reduced to what joins them to calls, requests and pods.

use serde::{Deserialize, Serialize};

use super::{Nanos, Pairs, Seldom, SpanId, Text, TraceId};

/// Instrumentation scope of the spans that kflow itself exports. They prove nothing, and are never taken as evidence.
pub const OWN_SCOPE: &str = "kflow";

/// OTLP `SpanKind`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// Unspecified or internal.
    #[default]
    Internal,
    /// Server side of a call.
    Server,
    /// Client side of a call.
    Client,
    /// Sends a message and does not wait until it is processed.
    Producer,
    /// Processes a message.
    Consumer,
}

/// A finished span. The stamp's `at` is the span's start, and `seen` is the arrival of its batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpanRecord {
    /// `service.name` of the resource: `kubelet`, `apiserver`, `containerd`, `crio`, `etcd`.
    #[serde(rename = "svc")]
    pub service: Text,
    /// Span name.
    #[serde(rename = "n")]
    pub name: Text,
    /// Role of the span in a call.
    #[serde(rename = "k", default)]
    pub kind: SpanKind,
    /// Trace that the span belongs to.
    #[serde(rename = "tr")]
    pub trace: TraceId,
    #[serde(rename = "id")]
    pub span: SpanId,
    /// Parent span, `None` for a root.
    #[serde(rename = "up", default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SpanId>,
    /// End of the span, by the same clock as its start: that of the process that measured it.
    #[serde(rename = "end")]
    pub end: Nanos,
    /// True when the status is Error.
    #[serde(rename = "err", default, skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
    /// Status message, or the message of an `exception` event.
    #[serde(rename = "msg", default, skip_serializing_if = "Seldom::is_empty")]
    pub message: Seldom<Text>,
    /// Attributes from the allow-list of the decoder, sorted by key, values as text.
    #[serde(rename = "a", default, skip_serializing_if = "Pairs::is_empty")]
    pub attributes: Pairs,
    /// Span events: time and name.
    #[serde(rename = "ev", default, skip_serializing_if = "Seldom::is_empty")]
    pub events: Seldom<Vec<(Nanos, Text)>>,
    /// Linked spans (the apiserver links the client's span instead of taking it as parent).
    #[serde(rename = "ln", default, skip_serializing_if = "Seldom::is_empty")]
    pub links: Seldom<Vec<(TraceId, SpanId)>>,
}

impl SpanRecord {
    /// Returns the value of the attribute `key`.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.value(key)
    }
}
