//! Source `fs`: cgroups, the kubelet's pod directories, and mounts.
//!
//! [`path`] says what a path or a mount stands for, without touching it; [`Changes`] reports each change once. The
//! live half watches the file system and uses both.

mod changes;
#[cfg(feature = "live")]
pub mod live;
pub mod path;

pub use changes::Changes;
pub use path::{Mount, classify_mount, classify_path, parse_mountinfo_line};
