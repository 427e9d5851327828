//! Turns an event of containerd into an observation. Pure.
//!
//! Names, numbers and types are those of `api/services/events/v1/events.proto` (`api/types/event.proto` since 2.0) and
//! `api/events/*.proto` (1.6 to 2.x), without labels, mounts and specs.

use kflow_model::cri::{CallKey, ContainerEvent, ContainerEventKind, Subject};
use kflow_model::runtime::RuntimeEvent;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};
use prost::{DecodeError, Message};

use crate::logtext::{cut, is_hex_id};

/// Topics that are subscribed to. Those of execs (each exec probe is one) and of content are not.
pub const TOPICS: [&str; 14] = [
    "/containers/create",
    "/containers/update",
    "/containers/delete",
    "/tasks/create",
    "/tasks/start",
    "/tasks/exit",
    "/tasks/oom",
    "/tasks/delete",
    "/images/create",
    "/images/update",
    "/images/delete",
    "/snapshot/prepare",
    "/snapshot/commit",
    "/snapshot/remove",
];
/// Longest text that is taken from an event, bytes.
const TEXT: usize = 1024;

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

impl Timestamp {
    /// Returns the time in ns; `None` when it is out of range.
    pub(super) fn nanos(self) -> Option<Nanos> {
        let whole = self.seconds.checked_mul(1_000_000_000)?;
        whole.checked_add(i64::from(self.nanos)).map(Nanos)
    }
}

/// `google.protobuf.Any`; the topic says which message it holds.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Any {
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// An event in the form in which containerd sends it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Envelope {
    #[prost(message, optional, tag = "1")]
    timestamp: Option<Timestamp>,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(string, tag = "3")]
    topic: String,
    #[prost(message, optional, tag = "4")]
    event: Option<Any>,
}

/// `TaskCreate`, `TaskStart`, `TaskOOM`, `TaskDelete`, `TaskExit`: the field numbers that they share mean the same,
/// except for those in the messages below.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct TaskOf {
    #[prost(string, tag = "1")]
    container_id: String,
}
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct TaskCreate {
    #[prost(uint32, tag = "6")]
    pid: u32,
}
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct TaskDelete {
    #[prost(uint32, tag = "3")]
    exit_status: u32,
    #[prost(message, optional, tag = "4")]
    exited_at: Option<Timestamp>,
    #[prost(string, tag = "5")]
    id: String,
}
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct TaskExit {
    #[prost(string, tag = "2")]
    id: String,
    #[prost(uint32, tag = "4")]
    exit_status: u32,
    #[prost(message, optional, tag = "5")]
    exited_at: Option<Timestamp>,
}
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct ContainerOf {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    image: String,
}
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct ImageOf {
    #[prost(string, tag = "1")]
    name: String,
}
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct SnapshotOf {
    #[prost(string, tag = "1")]
    key: String,
    /// The parent of a prepared snapshot; the name of a committed one.
    #[prost(string, tag = "2")]
    other: String,
    #[prost(string, tag = "5")]
    snapshotter: String,
}

/// Why an event cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The event is not the message that its topic stands for.
    #[error("cannot read containerd's event {topic}: {source}")]
    Message {
        /// The event's topic, cut to at most 1024 bytes.
        topic: String,
        source: DecodeError,
    },
    /// The event has no time, or one that is out of range.
    #[error("containerd's event {topic} has no time")]
    Time {
        /// The event's topic, cut to at most 1024 bytes.
        topic: String,
    },
    /// The event has a topic that was not subscribed to.
    #[error("containerd sent an event that was not asked for: {topic}")]
    Topic {
        /// The event's topic, cut to at most 1024 bytes.
        topic: String,
    },
}

impl Envelope {
    /// Returns the event as an observation; `None` for the end of an exec. `seen` is when the event arrived.
    pub fn observe(&self, seen: Nanos) -> Result<Option<Observation>, EventError> {
        let topic = || cut(&self.topic, TEXT).to_string();
        let told = self.timestamp.and_then(Timestamp::nanos);
        let mut at = told.ok_or_else(|| EventError::Time { topic: topic() })?;
        let exited = |t: Option<Timestamp>| t.and_then(Timestamp::nanos).filter(|t| t.0 > 0);
        let body = match self.topic.as_str() {
            "/containers/create" => {
                let of: ContainerOf = self.read()?;
                let subject = Subject {
                    image: cut(&of.image, TEXT),
                    ..container(&of.id)
                };
                life(ContainerEventKind::Created, subject, None)
            }
            "/containers/delete" => {
                let of: ContainerOf = self.read()?;
                life(ContainerEventKind::Deleted, container(&of.id), None)
            }
            "/containers/update" => {
                let of: ContainerOf = self.read()?;
                self.other("", &of.id, vec![])
            }
            "/tasks/start" => life(ContainerEventKind::Started, self.task()?, None),
            "/tasks/oom" => life(ContainerEventKind::Oom, self.task()?, None),
            "/tasks/exit" => {
                let exit: TaskExit = self.read()?;
                let subject = self.task()?;
                // An exec has an id of its own.
                if exit.id != subject.container_id.as_str() {
                    return Ok(None);
                }
                at = exited(exit.exited_at).unwrap_or(at);
                let code = i32::try_from(exit.exit_status).unwrap_or(i32::MAX);
                life(ContainerEventKind::Stopped, subject, Some(code))
            }
            "/tasks/create" => {
                let task: TaskCreate = self.read()?;
                let id = self.task()?.container_id;
                self.other("", id.as_str(), vec![("pid", task.pid.to_string())])
            }
            "/tasks/delete" => {
                let task: TaskDelete = self.read()?;
                let id = self.task()?.container_id;
                // For the task itself the id is empty or its container's.
                if !task.id.is_empty() && task.id != id.as_str() {
                    return Ok(None);
                }
                let mut fields = vec![("exit_code", task.exit_status.to_string())];
                if let Some(at) = exited(task.exited_at) {
                    fields.push(("exited_at", at.to_rfc3339()));
                }
                self.other("", id.as_str(), fields)
            }
            "/images/create" | "/images/update" | "/images/delete" => {
                let image: ImageOf = self.read()?;
                self.other(&image.name, "", vec![])
            }
            "/snapshot/prepare" | "/snapshot/commit" | "/snapshot/remove" => {
                let s: SnapshotOf = self.read()?;
                let mut fields = Vec::new();
                if !s.other.is_empty() {
                    let name = if self.topic.ends_with("commit") {
                        "name"
                    } else {
                        "parent"
                    };
                    fields.push((name, s.other));
                }
                if !s.snapshotter.is_empty() {
                    fields.push(("snapshotter", s.snapshotter));
                }
                // The root file system of a container has the container's id as its key
                // (`internal/cri/server/container_create.go`).
                if is_hex_id(&s.key) && s.key.len() == 64 {
                    self.other("", &s.key, fields)
                } else {
                    self.other(&s.key, "", fields)
                }
            }
            _ => return Err(EventError::Topic { topic: topic() }),
        };
        Ok(Some(Observation {
            stamp: Stamp::new(at, 1, seen),
            source: Source::Runtime,
            body,
        }))
    }

    fn read<M: Message + Default>(&self) -> Result<M, EventError> {
        let bytes = self.event.as_ref().map_or(&[][..], |e| &e.value);
        M::decode(bytes).map_err(|source| EventError::Message {
            topic: self.topic.clone(),
            source,
        })
    }

    fn task(&self) -> Result<Subject, EventError> {
        let of: TaskOf = self.read()?;
        Ok(container(&of.container_id))
    }

    fn other(&self, name: &str, container_id: &str, fields: Vec<(&str, String)>) -> Body {
        let fields = fields.into_iter();
        Body::RuntimeEvent(Box::new(RuntimeEvent {
            topic: Text::new(&self.topic),
            name: cut(name, TEXT),
            container_id: cut(container_id, TEXT).into(),
            fields: fields.map(|(k, v)| (Text::new(k), cut(&v, TEXT))).collect(),
        }))
    }
}

fn container(id: &str) -> Subject {
    Subject {
        container_id: cut(id, TEXT).into(),
        ..Subject::default()
    }
}

fn life(kind: ContainerEventKind, subject: Subject, exit_code: Option<i32>) -> Body {
    Body::ContainerEvent(Box::new(ContainerEvent {
        key: CallKey::default(),
        kind,
        subject,
        exit_code,
        reason: Text::default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CANARY: &str = "hunter2-never-to-be-seen";

    /// Encodes a length-delimited field of protobuf.
    fn len(tag: u8, bytes: &[u8]) -> Vec<u8> {
        let n = u8::try_from(bytes.len()).unwrap();
        assert!(n < 128);
        [&[tag << 3 | 2, n], bytes].concat()
    }
    fn int(tag: u8, n: u8) -> Vec<u8> {
        vec![tag << 3, n]
    }

    /// An event at 100 s and 5 ns.
    fn envelope(topic: &str, event: &[Vec<u8>]) -> Envelope {
        let time = [int(1, 100), int(2, 5)].concat();
        let any = [len(1, b"containerd.events.X"), len(2, &event.concat())].concat();
        let bytes = [
            len(1, &time),
            len(2, b"k8s.io"),
            len(3, topic.as_bytes()),
            len(4, &any),
        ];
        Envelope::decode(bytes.concat().as_slice()).unwrap()
    }

    fn told(topic: &str, event: &[Vec<u8>]) -> Option<(i64, Body)> {
        let o = envelope(topic, event).observe(Nanos(9)).unwrap()?;
        assert_eq!((o.source, o.stamp.seen), (Source::Runtime, Nanos(9)));
        Some((o.stamp.at.0, o.body))
    }

    #[test]
    fn an_exit_has_its_own_time_and_code() {
        let exited = [int(1, 99), int(2, 7)].concat();
        let exit = |id: &[u8]| {
            [
                len(1, b"c1"),
                len(2, id),
                int(3, 42),
                int(4, 3),
                len(5, &exited),
            ]
        };
        let (at, body) = told("/tasks/exit", &exit(b"c1")).unwrap();
        assert_eq!(at, 99_000_000_007);
        let Body::ContainerEvent(e) = body else {
            panic!("{body:?}")
        };
        assert_eq!(
            (e.kind, e.exit_code),
            (ContainerEventKind::Stopped, Some(3))
        );
        assert_eq!(e.subject.container_id.as_str(), "c1");
        assert_eq!(told("/tasks/exit", &exit(b"exec-1")), None, "an exec's");
        // Without a time of its own, the exit has the event's time.
        let (at, _) = told("/tasks/exit", &[len(1, b"c1"), len(2, b"c1")]).unwrap();
        assert_eq!(at, 100_000_000_005);
    }

    #[test]
    fn what_happens_to_containers_images_and_snapshots_is_told() {
        let id = "5".repeat(64);
        let labels = len(2, CANARY.as_bytes());
        for (topic, event, want) in [
            ("/tasks/oom", vec![len(1, b"c1")], "Oom c1"),
            ("/tasks/start", vec![len(1, b"c1"), int(2, 9)], "Started c1"),
            (
                "/containers/create",
                vec![len(1, b"c1"), len(2, b"nginx:1")],
                "Created c1 nginx:1",
            ),
            ("/containers/delete", vec![len(1, b"c1")], "Deleted c1"),
            (
                "/tasks/create",
                vec![len(1, b"c1"), len(2, CANARY.as_bytes()), int(6, 9)],
                "/tasks/create  c1 pid=9",
            ),
            (
                "/tasks/delete",
                vec![len(1, b"c1"), int(3, 7)],
                "/tasks/delete  c1 exit_code=7",
            ),
            (
                "/images/create",
                vec![len(1, b"nginx:1"), labels],
                "/images/create nginx:1 ",
            ),
            (
                "/snapshot/prepare",
                vec![len(1, id.as_bytes()), len(2, b"p"), len(5, b"native")],
                "/snapshot/prepare  555555555555 parent=p snapshotter=native",
            ),
            (
                "/snapshot/commit",
                vec![len(1, b"extract-1 sha256:a"), len(2, b"sha256:a")],
                "/snapshot/commit extract-1 sha256:a  name=sha256:a",
            ),
        ] {
            let (_, body) = told(topic, &event).unwrap();
            assert!(!format!("{body:?}").contains(CANARY), "{body:?}");
            let said = match body {
                Body::ContainerEvent(e) => {
                    format!(
                        "{:?} {} {}",
                        e.kind,
                        e.subject.container_id.as_str(),
                        e.subject.image
                    )
                }
                Body::RuntimeEvent(e) => {
                    let fields = e
                        .fields
                        .iter()
                        .fold(String::new(), |all, (k, v)| all + &format!(" {k}={v}"));
                    let id: String = e.container_id.as_str().chars().take(12).collect();
                    format!("{} {} {id}{fields}", e.topic, e.name)
                }
                other => format!("{other:?}"),
            };
            assert_eq!(said.trim_end(), want.trim_end());
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let bad = envelope("/tasks/exit", &[vec![0xff]]).observe(Nanos(9));
        assert!(matches!(bad, Err(EventError::Message { .. })), "{bad:?}");
        let other = envelope("/content/create", &[]).observe(Nanos(9));
        assert!(matches!(other, Err(EventError::Topic { .. })), "{other:?}");
        let timeless = Envelope::default().observe(Nanos(9));
        assert!(matches!(timeless, Err(EventError::Time { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_event_or_an_error(
            topic in 0..TOPICS.len(),
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let e = envelope(TOPICS[topic], &[bytes]);
            // Any result is right: the test is that the call returns.
            let _seen = e.observe(Nanos(1));
        }
    }
}
