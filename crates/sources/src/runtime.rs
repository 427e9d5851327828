//! Source `runtime`: the logs of containerd and CRI-O, and what containerd tells of its pulls.
//!
//! [`decode`] reads what logrus writes, as text (`time="…" level=info msg="…" key=value`) or as JSON, bare or inside
//! journald output.

pub mod containerd;
pub mod decode;

pub use decode::RuntimeDecoder;
