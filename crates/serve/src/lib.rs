//! The observation service: it streams what a process sees to any number of subscribers, none of which
//! can delay the process.
//!
//! ```text
//! observations ──▶ [ring] ──▶ [service] ──▶ socket ──▶ subscribers
//! ```
//!
//! | module | owns |
//! |---|---|
//! | [`ring`] | the observations of the last minutes |
//! | [`service`] | the service and its thread |
//! | [`socket`] | paths, permissions and locks of sockets, and the removal of stale ones |
//! | [`wire`] | the messages and methods of `proto/kflow.proto` |

use std::sync::Arc;

pub mod ring;
pub mod service;
pub mod socket;
pub mod wire;

/// Receives the lines that are to be logged: the library prints nothing itself.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A socket cannot be claimed or listened on.
    #[error(transparent)]
    Socket(#[from] socket::Error),
    /// Its thread or its tokio runtime cannot be started.
    #[error("cannot start the serve thread: {0}")]
    Thread(#[source] std::io::Error),
}
