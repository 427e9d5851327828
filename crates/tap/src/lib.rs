//! The eBPF tap: copies what clients and the container runtime say to each other from the clients' system calls.
//!
//! This is a crate of its own because it alone loads something into the kernel: the capabilities, aya and netlink stay
//! in it, out of reach of the proxy and of the decoders. It contains no unsafe code.
//!
//! ```text
//! write, read, … of a client ──▶ bpf/tap.bpf.c ──▶ ring (8 MiB) ──▶ thread kflow-tap: records ──▶ decoder ──▶ out
//! ```
//!
//! The tap is not in the path of the bytes: a client's call ends whether or not the copy is taken. The tap changes
//! nothing about a client but what [`Config::reconnect`] asks for. Copies without room in the ring are reported as a
//! loss of so many bytes. Programs and maps are not pinned: the kernel drops them when this process
//! ends, in whatever way.
//!
//! | module | owns |
//! |---|---|
//! | `bpf/tap.bpf.c` | which calls are copied; compiled to `tap.bpf.o` by `bpf/build.sh` |
//! | [`record`] | what the program writes into the ring (pure) |
//! | `follow` | from records to connections: order, losses, descriptors that come and go (pure) |
//! | `time` | from the kernel's clock to the wall clock |
//! | `kernel` | loading and attaching the programs, and their maps |
//! | `node` | sock_diag and /proc: which descriptors lead to the runtime |
//! | `apart` | the same in other network namespaces, which sock_diag does not list |
//! | `reconnect` | makes clients reconnect, when a person asks for it |
//! | [`needs`] | what the tap needs and lacks here, and the command or setting that helps |
//! | `run` | the tap's thread |

mod apart;
mod follow;
mod kernel;
pub mod needs;
mod node;
mod reconnect;
pub mod record;
mod run;
mod time;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use apart::network;
pub use kernel::InKernel;
pub use run::{Handed, Tap, loaded, probe};

/// What a tap observes.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The runtime's socket.
    pub socket: PathBuf,
    /// A file for a copy of all records, each behind its length (4 bytes, little-endian). Tests are made of such tapes.
    pub tape: Option<PathBuf>,
    /// Set this to make those clients reconnect whose connections are not fully understood, each at a moment without
    /// open calls. The tap clears it when it begins. See `reconnect`.
    pub reconnect: Arc<AtomicBool>,
}

/// Why the tap cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine or this process lacks something that the tap needs.
    #[error("the eBPF tap needs {}", needs::sentence(.0))]
    Missing(Vec<needs::Missing>),
    /// The kernel refused a program, a map or a tracepoint.
    #[error("the kernel refused {what}: {why}")]
    Refused {
        /// The refused thing: a program, a map, a tracepoint.
        what: String,
        why: String,
    },
    /// The tape's file could not be created.
    #[error("cannot create {path}: {source}")]
    Tape { path: PathBuf, source: io::Error },
    /// The thread could not be started, or ended at once.
    #[error("cannot start the tap's thread: {0}")]
    Thread(#[source] io::Error),
}
