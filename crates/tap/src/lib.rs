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
//! | [`needs`] | what the tap needs and lacks here, and the command or setting that helps |
//! | `linux` | the tap |
//! | `elsewhere` | in its place on what is not Linux: says that Linux is missing |

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
pub mod needs;
pub mod record;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kflow_model::Observation;

#[cfg(not(target_os = "linux"))]
use elsewhere as here;
#[cfg(target_os = "linux")]
use linux as here;

pub use here::{Tap, loaded, network, probe};

/// What a tap observes.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The runtime's socket.
    pub socket: PathBuf,
    /// A file for a copy of all records, each behind its length (4 bytes, little-endian). Tests are made of such tapes.
    pub tape: Option<PathBuf>,
    /// Set this to make those clients reconnect whose connections are not fully understood, each at a moment without
    /// open calls. The tap clears it when it begins. See `linux::reconnect`.
    pub reconnect: Arc<AtomicBool>,
}

/// What the tap hands over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// New observations, in order; may be empty.
    pub observations: Vec<Observation>,
    /// The followed connections, and problems, in words.
    pub status: String,
}

/// The programs and maps of all taps in this kernel, whichever process loaded them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InKernel {
    /// Ids of the programs that have names of the tap's programs; each tap loads all of them.
    pub programs: Vec<u32>,
    /// Number of maps that have names of the tap's maps.
    pub maps: usize,
    /// Number of links that attach these programs; Linux before 5.15 lists none.
    pub links: usize,
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
