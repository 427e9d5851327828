//! Apiserver audit records (`audit.k8s.io/v1`), without bodies: only the few facts of a body that join it to a pod.

use serde::{Deserialize, Serialize};

use super::{Nanos, ObjectRef, Pairs, Text};

/// Stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AuditStage {
    /// After authentication, before the rest.
    RequestReceived,
    /// Headers of a long-running answer were sent.
    ResponseStarted,
    /// The response was sent completely.
    ResponseComplete,
    /// The handler panicked.
    Panic,
}

/// One stage of one request. The observation's stamp is the `stageTimestamp` (µs).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Id of the request; equal in all its stages, in the `audit-id` attribute of spans and in httplog.
    #[serde(rename = "id")]
    pub audit_id: Text,
    /// Stage of the request at which the record was written.
    #[serde(rename = "st")]
    pub stage: AuditStage,
    /// `create`, `patch`, …
    #[serde(rename = "v")]
    pub verb: Text,
    /// `pods`, `pods/status` and so on: resource with subresource; the path for a non-resource request.
    #[serde(rename = "res")]
    pub resource: Text,
    /// Object; `name` and `uid` are filled from the response body where the reference lacks them.
    #[serde(rename = "o")]
    pub object: ObjectRef,
    /// User name.
    #[serde(rename = "by")]
    pub user: Text,
    /// User agent up to the first space (`kubelet/v1.36.2`), and the part in the last slash for controllers.
    #[serde(rename = "ua", default, skip_serializing_if = "Text::is_empty")]
    pub agent: Text,
    /// When the request came, before authentication.
    #[serde(rename = "rx")]
    pub received: Nanos,
    /// HTTP code of the answer, 0 when none yet.
    #[serde(rename = "code", default)]
    pub code: u16,
    /// Reason and message of a failure.
    #[serde(rename = "msg", default, skip_serializing_if = "Text::is_empty")]
    pub message: Text,
    /// Query of the request URI, without secrets (`fieldSelector`, `limit`, `dryRun`, …), empty when none.
    #[serde(rename = "q", default, skip_serializing_if = "Text::is_empty")]
    pub query: Text,
    /// Annotations: authorisation, latency parts, webhooks, PodSecurity. Sorted by key.
    #[serde(rename = "a", default, skip_serializing_if = "Pairs::is_empty")]
    pub annotations: Pairs,
    /// Facts from the bodies, sorted by key: `node` (binding), `gracePeriodSeconds` (delete), `generateName`,
    /// `ownerKind`/`ownerName`/`ownerUid` (create), `phase`, `boundPodUid` (token), `replicas`, `generation`.
    #[serde(rename = "f", default, skip_serializing_if = "Pairs::is_empty")]
    pub facts: Pairs,
}

impl AuditRecord {
    /// Value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.value(key)
    }
    /// A fact from the bodies.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.value(key)
    }
}
