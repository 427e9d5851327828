//! Source `runtime`: the logs of containerd and CRI-O, the events that a runtime publishes, and the progress of
//! containerd's pulls.
//!
//! [`decode`] reads what logrus writes, as text (`time="…" level=info msg="…" key=value`) or as JSON, bare or inside
//! journald output.

pub mod containerd;
pub mod decode;
#[cfg(feature = "live")]
pub mod events;

pub(crate) use decode::{Reserved, logrus};
pub use decode::{RuntimeDecoder, UNHEARD};
