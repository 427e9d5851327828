//! Apiserver audit records (`audit.k8s.io/v1`). Of the request and response bodies, only the few facts are kept that
//! join a record to a pod.

use serde::{Deserialize, Serialize};

use super::{Nanos, ObjectRef, Pairs, Text};

/// Stage of a request at which the apiserver writes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AuditStage {
    /// The request was authenticated, and nothing else was done with it yet.
    RequestReceived,
    /// The headers of a long-running response were sent; the body is not complete.
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
    /// Object of the request; `name` and `uid` come from the response body where the request's reference lacks them.
    #[serde(rename = "o")]
    pub object: ObjectRef,
    /// User name of the client.
    #[serde(rename = "by")]
    pub user: Text,
    /// User agent of the client up to the first space (`kubelet/v1.36.2`); for a controller also the part after the
    /// last slash, which names the controller.
    #[serde(rename = "ua", default, skip_serializing_if = "Text::is_empty")]
    pub agent: Text,
    /// When the apiserver received the request, before authentication.
    #[serde(rename = "rx")]
    pub received: Nanos,
    /// HTTP status code of the response, 0 when there is none yet.
    #[serde(rename = "code", default)]
    pub code: u16,
    /// Reason and message of a failed request, empty otherwise.
    #[serde(rename = "msg", default, skip_serializing_if = "Text::is_empty")]
    pub message: Text,
    /// Parameters of the request URI's query that hold no secrets (`fieldSelector`, `limit`, `dryRun`, …), empty when
    /// there are none.
    #[serde(rename = "q", default, skip_serializing_if = "Text::is_empty")]
    pub query: Text,
    /// Annotations of the record: authorisation, parts of the latency, webhooks, PodSecurity. Sorted by key.
    #[serde(rename = "a", default, skip_serializing_if = "Pairs::is_empty")]
    pub annotations: Pairs,
    /// Facts from the request and response bodies, sorted by key: `node` (binding), `gracePeriodSeconds` (delete),
    /// `generateName`, `ownerKind`/`ownerName`/`ownerUid` (create), `phase`, `boundPodUid` (token), `replicas`,
    /// `generation`.
    #[serde(rename = "f", default, skip_serializing_if = "Pairs::is_empty")]
    pub facts: Pairs,
}

impl AuditRecord {
    /// Returns the value of the annotation `key`.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.value(key)
    }
    /// Returns the node whose kubelet made the request; `None` for another client. It is the name by which the node
    /// authorizer knows a kubelet (`pkg/auth/nodeidentifier/default.go`).
    pub fn kubelet_of(&self) -> Option<&str> {
        self.user.strip_prefix("system:node:")
    }
    /// Returns the fact `key` from the request and response bodies.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.value(key)
    }
}
