//! What an expression can ask for.

macro_rules! names {
    ($(#[$doc:meta])* $type:ident $table:ident: $($id:ident $name:literal $help:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $(#[doc = $help] $id,)* }
        /// Every one with its name and what it means.
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
    Reason "reason" "reason of an Event, or cause of a verdict";
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

impl Number {
    /// True for lengths of time.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Duration | Self::Age)
    }
}

names! {
    /// Yes or no.
    Flag FLAGS:
    Ok "ok" "ended well";
    Error "error" "failed";
    InFlight "inflight" "has not ended";
    Noise "noise" "a List or Status call of the loops";
    Warning "warning" "a warning";
    Gone "gone" "the pod is deleted";
    Ready "ready" "the pod is Ready";
}
