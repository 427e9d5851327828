//! The fields, numbers and flags that an expression can ask for.

use crate::diagnose::CauseId;
use crate::flow::Stage;
use kflow_model::Source;

macro_rules! names {
    ($(#[$doc:meta])* $type:ident $table:ident: $($id:ident $name:literal $help:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $(#[doc = $help] $id,)* }
        /// All variants, each with its name and its meaning.
        pub const $table: &[($type, &str, &str)] = &[$(($type::$id, $name, $help)),*];
        impl $type {
            /// Name in expressions.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }
            pub fn parse(name: &str) -> Option<Self> {
                $table.iter().find(|(_, n, _)| n.eq_ignore_ascii_case(name)).map(|(v, _, _)| *v)
            }
        }
    };
}

names! {
    /// Fields that hold text.
    Field FIELDS:
    Method "method" "CRI method: RunPodSandbox";
    Pod "pod" "pod as name or namespace/name";
    Namespace "ns" "namespace";
    Container "container" "container name";
    Image "image" "image";
    Code "code" "gRPC status or HTTP code: NotFound, 403";
    Message "msg" "message, error, sentence";
    Source "source" "source: cri, kubelet, kube, audit, …";
    Kind "kind" "kind of observation: call, log, event, pod, audit, span, fs, gap, note";
    Reason "reason" "cause of a verdict, or reason of an Event";
    Component "component" "who wrote it: kubelet, default-scheduler, containerd";
    Node "node" "node";
    Status "status" "pod status as kubectl shows it";
    Stage "stage" "stage of the pod: sandbox, image, …";
    Owner "owner" "owner of the pod: name or Kind/name";
    Id "id" "pod UID, sandbox id or container id";
}

names! {
    /// Fields that hold numbers.
    Number NUMBERS:
    Duration "dur" "length of a call or span; age while it lasts";
    Size "size" "bytes of request and answer";
    Conn "conn" "connection number";
    Restarts "restarts" "restarts of the pod";
    Age "age" "age of the pod";
}

pub(super) const KINDS: [&str; 19] = [
    "audit",
    "call",
    "clock",
    "conn",
    "container-event",
    "event",
    "fs",
    "gap",
    "inventory",
    "log",
    "node",
    "note",
    "object",
    "pod",
    "pull",
    "runtime-event",
    "sample",
    "span",
    "watch",
];

impl Field {
    /// Returns all values that the field can have; `None` when they are not known beforehand.
    pub(super) fn values(self) -> Option<Vec<&'static str>> {
        Some(match self {
            Self::Source => Source::ALL.iter().map(|s| s.name()).collect(),
            Self::Stage => Stage::ALL.iter().map(|s| s.name()).collect(),
            Self::Kind => KINDS.to_vec(),
            Self::Reason => CauseId::ALL.iter().map(|id| id.as_str()).collect(),
            _ => return None,
        })
    }
    /// True when the field may have a value that is not among [`Self::values`].
    pub(super) fn is_open_to(self, value: &str) -> bool {
        match self {
            // `kind:` also takes an owner's kind: `kind:Job`.
            Self::Kind => value.starts_with(char::is_uppercase),
            // `reason:` takes a cause or the reason of an Event, and any component may invent reasons: only texts like
            // `KF601` are checked.
            Self::Reason => {
                !value
                    .get(..2)
                    .is_some_and(|kf| kf.eq_ignore_ascii_case("kf"))
                    || !value.bytes().skip(2).take(3).all(|b| b.is_ascii_digit())
            }
            _ => false,
        }
    }
}

impl Number {
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Duration | Self::Age)
    }
}

names! {
    /// What is true or false of a record.
    Flag FLAGS:
    Ok "ok" "ended well";
    Error "error" "failed";
    InFlight "inflight" "has not ended";
    Noise "noise" "a List or Status call of the loops";
    Own "own" "a call that kflow itself made; only this word shows these calls";
    Warning "warning" "a warning";
    Gone "gone" "the pod is deleted";
    Ready "ready" "the pod is Ready";
}
