//! CRI calls as the tap sees them: a call's start, its end, the messages of streams, and the
//! inventory that answers list.

pub mod method;

use serde::{Deserialize, Serialize};

use super::{ContainerId, Nanos, Pairs, PodRef, SandboxId, SpanId, Text, TraceId};

/// Annotation that the kubelet sets on a pod when it first sees the pod: the time, RFC 3339 with nanoseconds
/// (`pkg/kubelet/config/config.go`). It distinguishes the pods of a node. The kubelet sends it with `RunPodSandbox`,
/// `CreateContainer`, `PullImage` and `ImageStatus`; in `ImageStatus` nothing else names the pod.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";

/// Identifies a call within a session: connection numbers rise and never repeat inside one session.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct CallKey {
    /// Connection number, from 1.
    #[serde(rename = "c")]
    pub conn: u32,
    /// HTTP/2 stream id.
    #[serde(rename = "s")]
    pub stream: u32,
}

/// Which gRPC service a method belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// `runtime.v1.RuntimeService`
    Runtime,
    /// `runtime.v1.ImageService`
    Image,
    /// `runtime.v1alpha2.RuntimeService`
    RuntimeV1Alpha2,
    /// `runtime.v1alpha2.ImageService`
    ImageV1Alpha2,
    /// Any other gRPC service on the socket.
    Other,
    /// Not known: the tap joined the connection after the header that names the method was sent.
    Unknown,
}

/// What a call is about, as far as the request or the answer says. Empty parts are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// Pod (from sandbox metadata or labels).
    #[serde(rename = "pod", default, skip_serializing_if = "PodRef::says_nothing")]
    pub pod: PodRef,
    /// Attempt number of the sandbox or container (of a container = its restart count); `None` when
    /// the message has none.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Container name.
    #[serde(rename = "c", default, skip_serializing_if = "Text::is_empty")]
    pub container: Text,
    #[serde(rename = "sb", default, skip_serializing_if = "SandboxId::is_empty")]
    pub sandbox_id: SandboxId,
    #[serde(rename = "cid", default, skip_serializing_if = "ContainerId::is_empty")]
    pub container_id: ContainerId,
    /// Image as the pod spec names it, or the reference in the request.
    #[serde(rename = "img", default, skip_serializing_if = "Text::is_empty")]
    pub image: Text,
}

impl Subject {
    /// True when no part is known.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// A call began: the request's headers are complete, and for unary calls its message too. The stamp is the time of the
/// first byte of the request's headers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallStart {
    #[serde(flatten)]
    pub key: CallKey,
    /// gRPC service that the method belongs to.
    #[serde(rename = "svc")]
    pub service: Service,
    /// Method: `RunPodSandbox`; for [`Service::Other`] the full path; [`method::UNKNOWN`] for [`Service::Unknown`].
    #[serde(rename = "m")]
    pub method: Text,
    /// What the request is about.
    #[serde(rename = "sub", default, skip_serializing_if = "Subject::is_empty")]
    pub subject: Subject,
    /// Some of the request's headers are unknown, so an absent deadline or trace does not mean that the call has none.
    #[serde(rename = "part", default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Deadline from the header `grpc-timeout`, ns; `None` when the call has no deadline.
    #[serde(rename = "dl", default, skip_serializing_if = "Option::is_none")]
    pub timeout_ns: Option<i64>,
    /// Trace id and the client's span id from the header `traceparent`.
    #[serde(rename = "tp", default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<(TraceId, SpanId)>,
    /// Size of the request's gRPC messages so far, in bytes without the 5-byte prefixes.
    #[serde(rename = "in", default)]
    pub request_bytes: u64,
    /// True when a list or status call has a filter or an id: it asks about one pod or container (an on-demand relist).
    #[serde(rename = "flt", default, skip_serializing_if = "std::ops::Not::not")]
    pub filtered: bool,
    /// Further decoded fields of the request worth showing, in the order of the message (`timeout=30`,
    /// `runtime_handler=kata`, `cgroup_parent=…`, first word of an exec command). Never environment values,
    /// credentials, or exec arguments.
    #[serde(rename = "f", default, skip_serializing_if = "Pairs::is_empty")]
    pub fields: Pairs,
}

impl CallStart {
    /// A call of which nothing but its method is known.
    pub fn new(key: CallKey, service: Service, method: &str) -> Self {
        Self {
            key,
            service,
            method: method.into(),
            subject: Subject::default(),
            partial: false,
            timeout_ns: None,
            traceparent: None,
            request_bytes: 0,
            filtered: false,
            fields: Pairs::default(),
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// Trailers with a gRPC status (0 is OK).
    Status,
    /// The client reset the stream (deadline or cancellation).
    ClientReset,
    /// The server reset the stream.
    ServerReset,
    /// The connection closed, or went away, with the call open.
    ConnectionClosed,
    /// Bytes of the connection were lost, so it is not known whether and how the call ended. If the end shows later, a
    /// second [`CallEnd`] follows and replaces this one.
    Lost,
}

/// Returns whether a call failed; `None` when that is not known. `message` is the `grpc-message` of the status.
pub const fn failed(outcome: CallOutcome, code: Option<u32>, message: &str) -> Option<bool> {
    match (outcome, code) {
        (CallOutcome::Lost, _) => None,
        (CallOutcome::Status, Some(code)) => Some(code != 0),
        // The status code is not known. Only errors carry a message.
        (CallOutcome::Status, None) if message.is_empty() => None,
        _ => Some(true),
    }
}

/// A call ended. The stamp is the time of the last byte of the trailers, the reset or the close.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallEnd {
    #[serde(flatten)]
    pub key: CallKey,
    /// What ended the stream.
    #[serde(rename = "how")]
    pub outcome: CallOutcome,
    /// gRPC status code; `None` when there are no trailers, or when the code in them cannot be read.
    #[serde(rename = "code", default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
    /// The code is inferred, not read: the trailers refer to HPACK entries that were sent before the tap joined.
    #[serde(rename = "inf", default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// The call began before the tap joined the connection, or while bytes were lost: there is no [`CallStart`] of it.
    #[serde(rename = "unseen", default, skip_serializing_if = "std::ops::Not::not")]
    pub began_unseen: bool,
    /// `grpc-message`, percent-decoded; cut at 4 KiB.
    #[serde(rename = "msg", default, skip_serializing_if = "Text::is_empty")]
    pub message: Text,
    /// What the answer is about (the id of the new sandbox or container).
    #[serde(rename = "sub", default, skip_serializing_if = "Subject::is_empty")]
    pub subject: Subject,
    /// Size of the request's gRPC messages, bytes; where some were lost, of those that were seen.
    #[serde(rename = "in", default)]
    pub request_bytes: u64,
    /// Size of the answer's gRPC messages, bytes.
    #[serde(rename = "out", default)]
    pub response_bytes: u64,
    /// Number of messages in the answer, when not 1.
    #[serde(rename = "msgs", default = "one", skip_serializing_if = "is_one")]
    pub messages: u32,
    /// Decoded fields of the answer worth showing (`exit_code=0`, `state=READY`, `NetworkReady=false reason=…`).
    #[serde(rename = "f", default, skip_serializing_if = "Pairs::is_empty")]
    pub fields: Pairs,
}

impl CallEnd {
    /// An end of which nothing but its outcome is known.
    pub fn new(key: CallKey, outcome: CallOutcome) -> Self {
        Self {
            key,
            outcome,
            code: None,
            inferred: false,
            began_unseen: false,
            message: Text::default(),
            subject: Subject::default(),
            request_bytes: 0,
            response_bytes: 0,
            messages: 1,
            fields: Pairs::default(),
        }
    }
}

const fn one() -> u32 {
    1
}
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_one(n: &u32) -> bool {
    *n == 1
}

/// Returns the name of a gRPC status code as Go and the kubelet print it: `NotFound`, not `NOT_FOUND`. `?` for an
/// unknown code.
pub const fn code_name(code: u32) -> &'static str {
    match code {
        0 => "OK",
        1 => "Canceled",
        2 => "Unknown",
        3 => "InvalidArgument",
        4 => "DeadlineExceeded",
        5 => "NotFound",
        6 => "AlreadyExists",
        7 => "PermissionDenied",
        8 => "ResourceExhausted",
        9 => "FailedPrecondition",
        10 => "Aborted",
        11 => "OutOfRange",
        12 => "Unimplemented",
        13 => "Internal",
        14 => "Unavailable",
        15 => "DataLoss",
        16 => "Unauthenticated",
        _ => "?",
    }
}

/// True for the calls that the kubelet's loops make all the time, whatever they are about: `List*`, `Stream*`,
/// `Status`, `Version`, `ImageFsInfo`, stats and metrics.
pub fn is_noise(method: &str) -> bool {
    method.starts_with("List")
        || method.starts_with("Stream")
        || matches!(
            method,
            method::STATUS
                | method::VERSION
                | method::IMAGE_FS_INFO
                | method::CONTAINER_STATS
                | method::POD_SANDBOX_STATS
                | method::RUNTIME_CONFIG
        )
}

/// Reason of a container's exit after an OOM kill, in the runtime's status and in the pod's status.
pub const OOM_KILLED: &str = "OOMKilled";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerEventKind {
    /// CONTAINER_CREATED_EVENT.
    Created,
    /// CONTAINER_STARTED_EVENT.
    Started,
    /// CONTAINER_STOPPED_EVENT: the container exited.
    Stopped,
    /// CONTAINER_DELETED_EVENT.
    Deleted,
    /// A process in the container was killed for lack of memory. CRI has no such event; containerd's own event
    /// `/tasks/oom` reports it.
    Oom,
}

/// A change in a container's life: a message of `GetContainerEvents`, or one of containerd's own events. The stamp's
/// `at` is when it happened by the runtime's clock, which is the exit for [`Stopped`](ContainerEventKind::Stopped). A
/// new `GetContainerEvents` stream begins with old events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerEvent {
    /// The `GetContainerEvents` call that streamed the event; 0 where kflow itself subscribed to the runtime.
    #[serde(flatten)]
    pub key: CallKey,
    /// What happened to the container.
    #[serde(rename = "k")]
    pub kind: ContainerEventKind,
    /// The container. For a sandbox's own CRI event, `container_id` equals `sandbox_id`.
    #[serde(rename = "sub")]
    pub subject: Subject,
    /// Exit code of the container; `None` when the event has none.
    #[serde(rename = "xc", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// `OOMKilled`, `Error`, … of a container that exited; empty when the event has none.
    #[serde(rename = "why", default, skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
}

impl ContainerEvent {
    /// True when the event is about the sandbox itself, not about a container in it.
    pub fn is_of_sandbox(&self) -> bool {
        let s = &self.subject;
        !s.sandbox_id.is_empty() && s.container_id.as_str() == s.sandbox_id.as_str()
    }
}

/// How much of a connection the tap can decode.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// Every request: the connection was followed from its first byte, or nothing refers any more to what was missed.
    #[default]
    Whole,
    /// The connection is followed from the middle: the method of a call can be unknown, and a status code inferred.
    Partial,
    /// Nothing: the bytes were repeatedly not HTTP/2.
    Blind,
}

impl Sight {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    const fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }
}

/// A connection to the CRI socket opened or closed, or the tap can decode more or less of it than before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnChange {
    /// Connection number.
    #[serde(rename = "c")]
    pub conn: u32,
    /// True when the connection opened, or was open and stays open.
    pub open: bool,
    /// Process id of the peer, 0 when unknown.
    #[serde(default)]
    pub pid: u32,
    /// Program of the peer (`kubelet`, `crictl`), from the user agent or `/proc/<pid>/comm`; empty when unknown.
    #[serde(rename = "by", default, skip_serializing_if = "Text::is_empty")]
    pub peer: Text,
    /// How much of the connection can be decoded from now on.
    #[serde(default, skip_serializing_if = "Sight::is_whole")]
    pub sight: Sight,
    /// Why the connection closed, or why `sight` changed.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub why: Text,
}

/// State of a sandbox or container, as the runtime reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeState {
    /// Sandbox ready.
    Ready,
    /// Sandbox not ready.
    NotReady,
    /// Container created.
    Created,
    /// Container running.
    Running,
    /// Container exited.
    Exited,
    /// A state that this version of CRI does not define.
    Unknown,
}

/// One sandbox or container that exists, from an answer of a List or Status call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InventoryItem {
    /// The sandbox or container; for a sandbox `container_id` is empty.
    #[serde(rename = "sub")]
    pub subject: Subject,
    /// State of the sandbox or container.
    #[serde(rename = "st")]
    pub state: RuntimeState,
    /// When it was created, by the runtime's clock; 0 when not reported.
    #[serde(rename = "ct", default)]
    pub created: Nanos,
    /// When it was started; 0 when not reported or not started yet.
    #[serde(rename = "sta", default)]
    pub started: Nanos,
    /// When it finished; 0 when not reported or not finished yet.
    #[serde(rename = "fin", default)]
    pub finished: Nanos,
    /// Exit code of an exited container, when reported.
    #[serde(rename = "xc", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// `OOMKilled`, `Error`, … of an exited container.
    #[serde(rename = "why", default, skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
    /// IP addresses of a sandbox.
    #[serde(rename = "ip", default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<Text>,
}

/// What exists in the runtime, from one answer. `complete` marks an unfiltered List: what such a list does not name no
/// longer exists.
///
/// The decoder emits it for `PodSandboxStatus` and `ContainerStatus` answers. For List answers it does so only when the
/// answer is the connection's first or its content changed, so that an idle node costs nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Inventory {
    /// The call that was answered.
    #[serde(flatten)]
    pub key: CallKey,
    /// True when the list was not filtered.
    #[serde(rename = "all", default, skip_serializing_if = "std::ops::Not::not")]
    pub complete: bool,
    /// True when the items are sandboxes.
    #[serde(rename = "sbs", default, skip_serializing_if = "std::ops::Not::not")]
    pub sandboxes: bool,
    /// Sandboxes or containers, in the order of the answer.
    #[serde(rename = "it")]
    pub items: Vec<InventoryItem>,
}
