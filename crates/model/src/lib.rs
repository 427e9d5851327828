//! The data model: what one source saw at one time.
//!
//! This crate owns the vocabulary that every other crate uses: [`Observation`] (immutable, serialisable, the only thing
//! that a session contains), its [`Stamp`], the identifiers that join observations to pods, and one body type for each
//! kind of thing that can be seen. Without its features it is pure: no clock, no I/O, no Kubernetes client.
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | newtypes for pod UIDs, sandbox and container ids, trace and span ids |
//! | [`text`] | [`Text`]: how strings are held
//! | [`stamp`] | [`Nanos`], [`Stamp`]: when, how exactly, and when kflow got it |
//! | [`offset`] | how far clocks of two machines are apart |
//! | [`observation`] | [`Observation`], [`Source`], [`Body`] |
//! | [`pod`], [`node`], [`object`] | Kubernetes API objects as a watch shows them, reduced to what kflow uses |
//! | [`event`] | Kubernetes Events |
//! | [`kind`] | the kinds that a user names, and the words for them |
//! | [`cri`] | CRI calls, connections and container events |
//! | [`runtime`] | events of the runtime about images, snapshots and tasks |
//! | [`log`] | lines of the kubelet, the control plane and containerd |
//! | [`audit`] | apiserver audit records |
//! | [`span`] | OpenTelemetry spans |
//! | [`fs`] | cgroups, volume directories, mounts |
//! | [`sample`] | metrics and health endpoints |
//! | [`units`] | durations, sizes and times of day as kflow prints and reads them |
//! | [`patient`] | time limits for file systems that do not answer |
//! | [`turns`] | work in short turns, after each of which a thread yields its core |
//! | [`redact`] | finds and removes what looks like a credential |
//! | [`gap`] | losses, the state of lists and watches, and notes of the user |
//! | [`pairs`], [`seldom`] | how lists of names with values, and fields that are mostly absent, are stored |
//! | [`scope`] | which pods the user asks for |

pub mod audit;
#[cfg(feature = "clock")]
pub mod clock;
pub mod cri;
pub mod event;
#[cfg(feature = "files")]
pub mod file;
pub mod fs;
pub mod gap;
pub mod id;
pub mod kind;
pub mod log;
pub mod node;
pub mod object;
pub mod observation;
pub mod offset;
pub mod pairs;
#[cfg(feature = "clock")]
pub mod patient;
pub mod pod;
pub mod pull;
pub mod redact;
mod remembered;
pub mod runtime;
pub mod sample;
pub mod scope;
pub mod seldom;
pub mod session;
pub mod span;
pub mod stamp;
pub mod text;
#[cfg(feature = "clock")]
pub mod turns;
pub mod units;

pub use id::{ContainerId, ObjectRef, PodNames, PodRef, PodUid, SandboxId, SpanId, TraceId};
pub use observation::{Body, Evidence, Observation, Source};
pub use pairs::Pairs;
pub use scope::Scope;
pub use seldom::Seldom;
pub use stamp::{Nanos, Stamp};
pub use text::Text;
