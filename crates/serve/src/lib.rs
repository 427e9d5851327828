//! The observation service: what a process sees, for any number of subscribers, none of which can hold it up.
//!
//! ```text
//! observations ──▶ [ring] ──▶ [service] ──▶ socket ──▶ subscribers
//! ```
//!
//! | module | owns |
//! |---|---|
//! | [`ring`] | the last minutes of observations |
//! | [`service`] | the service and its thread |
//! | [`socket`] | paths, permissions, the lock, stale sockets |
//! | [`wire`] | the messages and methods of `proto/kflow.proto` |

use std::sync::Arc;

pub mod ring;
pub mod service;
pub mod socket;
pub mod wire;

/// Where log lines go: the library prints nothing itself.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Why the service could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A socket could not be had.
    #[error(transparent)]
    Socket(#[from] socket::Error),
    /// Its thread or its runtime could not be started.
    #[error("cannot start the serve thread: {0}")]
    Thread(#[source] std::io::Error),
}
