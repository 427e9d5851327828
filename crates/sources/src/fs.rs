//! Source `fs`: cgroups, the kubelet's pod directories, and mounts.
//!
//! [`path`] says what a path or a mount stands for, without touching it; [`Changes`] reports each change once. The
//! live half watches the file system of a Linux machine and uses both.

mod changes;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod live;
pub mod path;
mod roots;

pub use changes::Changes;
pub use path::{Mount, classify_mount, classify_path, parse_mountinfo_line};
pub use roots::Roots;
