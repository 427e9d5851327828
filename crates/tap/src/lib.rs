//! The eBPF tap: copies what clients and the container runtime say to each other out of the clients' system calls.
//!
//! A crate of its own, because it is the only room that loads something into the kernel: what needs capabilities, aya and
//! netlink ends here, and neither the proxy nor a decoder can reach it. There is no unsafe code in it.
//!
//! ```text
//! write, read, … of a client ──▶ bpf/tap.bpf.c ──▶ ring (8 MiB) ──▶ thread kflow-tap: records ──▶ decoder ──▶ out
//! ```
//!
//! Nothing stands in the path, and nothing is done to a client but what [`Config::reconnect`] asks for: a client's call ends whether or not somebody takes the copy. Copies that find no room in the
//! ring are told as a loss of so many bytes. Programs and maps are pinned nowhere: the kernel drops them when this process
//! ends, however it ends.
//!
//! | module | owns |
//! |---|---|
//! | `bpf/tap.bpf.c` | which calls are copied; made into `tap.bpf.o` by `bpf/build.sh` |
//! | [`record`] | what the program writes into the ring (pure) |
//! | `follow` | records into connections: order, losses, descriptors that come and go (pure) |
//! | `time` | the kernel's clock to the wall clock |
//! | `kernel` | loads, attaches, the maps |
//! | `node` | sock_diag and /proc: which descriptors lead to the runtime |
//! | `apart` | the same where sock_diag does not see: in other network namespaces |
//! | `reconnect` | makes clients connect anew, when a person asks for it |
//! | [`needs`] | what is missing here, and the line that gives it |
//! | `run` | the thread |

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

/// What to look for.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The runtime's socket.
    pub socket: PathBuf,
    /// Records are written here as well, each behind its length in four bytes: what tests are made of.
    pub tape: Option<PathBuf>,
    /// Set by who wants clients to connect anew whose connections are not fully understood, each at a moment without open
    /// calls; the tap clears it when it begins. See `reconnect`.
    pub reconnect: Arc<AtomicBool>,
}

/// Why the tap cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that it needs is not here.
    #[error("the eBPF tap needs {}", needs::sentence(.0))]
    Missing(Vec<needs::Missing>),
    /// The kernel refused what it was given.
    #[error("the kernel refused {what}: {why}")]
    Refused {
        /// A program, a map, a tracepoint.
        what: String,
        why: String,
    },
    /// The sockets of this machine could not be listed.
    #[error("cannot list the unix sockets of this machine (sock_diag): {0}")]
    Sockets(#[source] io::Error),
    /// The tape could not be made.
    #[error("cannot create {path}: {source}")]
    Tape { path: PathBuf, source: io::Error },
    /// The thread could not be started, or ended at once.
    #[error("cannot start the tap's thread: {0}")]
    Thread(#[source] io::Error),
}
