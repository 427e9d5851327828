//! Source `fs`: cgroups, the kubelet's pod directories, and mounts.
//!
//! [`path`] says what a path or a mount stands for, without touching it; [`decode`] reads recorded changes. The live
//! half watches and asks the same functions.

pub mod decode;
#[cfg(feature = "live")]
pub mod live;
pub mod path;

pub use decode::{Changes, FsDecoder};
pub use path::{Mount, classify_mount, classify_path, parse_mountinfo_line};
