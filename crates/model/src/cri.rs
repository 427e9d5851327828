//! CRI calls as the tap sees them: a start, an end, stream messages, and what answers say exists.

pub mod method;

use serde::{Deserialize, Serialize};

use super::{ContainerId, Nanos, Pairs, PodRef, SandboxId, SpanId, Text, TraceId};

/// Annotation that the kubelet sets on a pod when it first sees it: the time, RFC 3339 with nanoseconds
/// (`pkg/kubelet/config/config.go`). It tells the pods of a node apart, and is sent with `RunPodSandbox`, `CreateContainer`, `PullImage`
/// and `ImageStatus`; the last names no pod otherwise.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";

/// Names a call for as long as a session lasts: connection ids rise and never repeat inside one session.
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
    /// Not known: the decoder joined the connection after the header was sent that names the method.
    Unknown,
}

/// What a call is about, as far as the request or the answer tells. Empty parts are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// Pod (from sandbox metadata or labels).
    #[serde(rename = "pod", default, skip_serializing_if = "PodRef::says_nothing")]
    pub pod: PodRef,
    /// Sandbox attempt or container attempt (= restart count), when told.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Container name.
    #[serde(rename = "c", default, skip_serializing_if = "Text::is_empty")]
    pub container: Text,
    #[serde(rename = "sb", default, skip_serializing_if = "SandboxId::is_empty")]
    pub sandbox_id: SandboxId,
    #[serde(rename = "cid", default, skip_serializing_if = "ContainerId::is_empty")]
    pub container_id: ContainerId,
    /// Image as the pod spec names it, or the reference asked for.
    #[serde(rename = "img", default, skip_serializing_if = "Text::is_empty")]
    pub image: Text,
}

impl Subject {
    /// True when nothing is told.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// A call began: the request's headers are complete, and for unary calls its message too.
/// The stamp is the time of the first byte of the request's headers.
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
    /// What it is about.
    #[serde(rename = "sub", default, skip_serializing_if = "Subject::is_empty")]
    pub subject: Subject,
    /// Some of its headers are unknown: no deadline and no trace do not mean that it has none.
    #[serde(rename = "part", default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// `grpc-timeout` in ns, `None` when the call has no deadline.
    #[serde(rename = "dl", default, skip_serializing_if = "Option::is_none")]
    pub timeout_ns: Option<i64>,
    /// Trace and client span from `traceparent`.
    #[serde(rename = "tp", default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<(TraceId, SpanId)>,
    /// Size of the request's gRPC messages so far, bytes without the 5-byte prefixes.
    #[serde(rename = "in", default)]
    pub request_bytes: u64,
    /// True when a list or status call has a filter or an id, so that it is about somebody (on-demand relist).
    #[serde(rename = "flt", default, skip_serializing_if = "std::ops::Not::not")]
    pub filtered: bool,
    /// Further decoded fields of the request worth showing, in the order of the message (`timeout=30`,
    /// `runtime_handler=kata`, `cgroup_parent=…`, first word of an exec command). Never environment values,
    /// credentials, or exec arguments.
    #[serde(rename = "f", default, skip_serializing_if = "Pairs::is_empty")]
    pub fields: Pairs,
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
    /// Bytes of the connection were lost: it is not known whether and how the call ended. When it shows later, another
    /// end follows, which counts instead.
    Lost,
}

/// Whether a call failed; `None` when that is not known. `message` is the status message.
pub const fn failed(outcome: CallOutcome, code: Option<u32>, message: &str) -> Option<bool> {
    match (outcome, code) {
        (CallOutcome::Lost, _) => None,
        (CallOutcome::Status, Some(code)) => Some(code != 0),
        // A status that is not known. Only errors have a message.
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
    /// gRPC status code; `None` without trailers, or when they do not tell it.
    #[serde(rename = "code", default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
    /// The code is concluded, not read: the trailers refer to headers that were sent before the decoder joined.
    #[serde(rename = "inf", default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// The call began before the decoder joined, or while bytes were lost: there is no [`CallStart`] of it.
    #[serde(rename = "unseen", default, skip_serializing_if = "std::ops::Not::not")]
    pub began_unseen: bool,
    /// `grpc-message`, percent-decoded; cut at 4 KiB.
    #[serde(rename = "msg", default, skip_serializing_if = "Text::is_empty")]
    pub message: Text,
    /// What the answer tells (the new sandbox or container id).
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

/// Name of a gRPC status code (`NOT_FOUND` is written `NotFound`, as Go and the kubelet print it).
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

/// True for the calls that the kubelet's loops make all the time, whoever they are about: `List*`, `Stream*`, `Status`, `Version`, `ImageFsInfo`, stats and metrics.
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

/// Reason of an exit after an OOM kill, in the runtime's status and in the pod's.
pub const OOM_KILLED: &str = "OOMKilled";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerEventKind {
    /// CONTAINER_CREATED_EVENT.
    Created,
    /// CONTAINER_STARTED_EVENT.
    Started,
    /// Stopped (exited).
    Stopped,
    /// CONTAINER_DELETED_EVENT.
    Deleted,
    /// A process in it was killed for lack of memory. CRI has no such event; containerd's own `/tasks/oom` is one.
    Oom,
}

/// A change in a container's life: a message of `GetContainerEvents`, or one of containerd's own events. The stamp's `at` is
/// when it happened by the runtime's clock, of [`Stopped`](ContainerEventKind::Stopped) the exit; a new stream of CRI begins
/// with old events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerEvent {
    /// The stream's call; 0 where kflow itself asked.
    #[serde(flatten)]
    pub key: CallKey,
    /// What happened to the container.
    #[serde(rename = "k")]
    pub kind: ContainerEventKind,
    /// Who. For a sandbox's own event of CRI `container_id` equals `sandbox_id`.
    #[serde(rename = "sub")]
    pub subject: Subject,
    /// With what the container exited, when told.
    #[serde(rename = "xc", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// `OOMKilled`, `Error`, … of a container that exited, when told.
    #[serde(rename = "why", default, skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
}

impl ContainerEvent {
    /// True for a sandbox's own event.
    pub fn is_of_sandbox(&self) -> bool {
        let s = &self.subject;
        !s.sandbox_id.is_empty() && s.container_id.as_str() == s.sandbox_id.as_str()
    }
}

/// How much of a connection the decoder understands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// Every request: it was followed from its first byte, or nothing of what was missed is referred to any more.
    #[default]
    Whole,
    /// It is followed from the middle: the method of a call can be unknown, and a status inferred.
    Partial,
    /// Nothing: what passed was not HTTP/2, again and again.
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

/// A connection to the CRI socket opened or closed, or is understood more or less than before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnChange {
    /// Connection number.
    #[serde(rename = "c")]
    pub conn: u32,
    /// True when it opened, or was and stays open.
    pub open: bool,
    /// Peer's process id, 0 when unknown.
    #[serde(default)]
    pub pid: u32,
    /// Peer's program (`kubelet`, `crictl`), from the user agent or `/proc/<pid>/comm`, empty when unknown.
    #[serde(rename = "by", default, skip_serializing_if = "Text::is_empty")]
    pub peer: Text,
    /// What of it is understood from now on.
    #[serde(default, skip_serializing_if = "Sight::is_whole")]
    pub sight: Sight,
    /// Why it closed, or why it is understood more or less.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub why: Text,
}

/// State of a sandbox or container, as the runtime says.
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
    /// Who; for a sandbox `container_id` is empty.
    #[serde(rename = "sub")]
    pub subject: Subject,
    /// State of the sandbox or container.
    #[serde(rename = "st")]
    pub state: RuntimeState,
    /// Created, by the runtime's clock; 0 when not told.
    #[serde(rename = "ct", default)]
    pub created: Nanos,
    /// Started; 0 when not told or not yet.
    #[serde(rename = "sta", default)]
    pub started: Nanos,
    /// Finished; 0 when not told or not yet.
    #[serde(rename = "fin", default)]
    pub finished: Nanos,
    /// Exit code of an exited container, when told.
    #[serde(rename = "xc", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// `OOMKilled`, `Error`, … of an exited container.
    #[serde(rename = "why", default, skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
    /// Addresses of a sandbox.
    #[serde(rename = "ip", default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<Text>,
}

/// What exists in the runtime, from one answer. `complete` tells an unfiltered List (what it does not name is gone).
///
/// The decoder emits it for `PodSandboxStatus` and `ContainerStatus` answers, and for List answers only when they
/// are the connection's first or their content changed, so that an idle node costs nothing.
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
