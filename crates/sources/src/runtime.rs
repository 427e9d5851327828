//! Source `runtime`: the logs of containerd and CRI-O, what a runtime tells everybody as it happens, and what containerd
//! tells of its pulls.
//!
//! [`decode`] reads what logrus writes, as text (`time="…" level=info msg="…" key=value`) or as JSON, bare or inside
//! journald output.

pub mod containerd;
pub mod decode;
#[cfg(feature = "live")]
pub mod events;

pub use decode::RuntimeDecoder;
