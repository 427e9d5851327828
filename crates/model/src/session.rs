//! Sessions (recordings): a header and observations in order of arrival, one JSON document on each line.
//!
//! | module | owns | pure |
//! |---|---|---|
//! | [`mod@format`] | the lines: header, version, observation, what to do with lines of a later kflow | yes |
//! | [`carried`] | what a stretch of a session needs of the time before it | yes |
//! | [`redact`] | every text that is written is redacted | yes |
//! | `lines` | blocks of whole lines | no |
//! | `names` | the names in a recording, read without the rest of it | no |
//! | `reader` | reads files and streams, plain or zstd, whole or cut | no |
//! | `writer` | writes recordings and imported sessions, in frames that bound what a crash can lose | no |
//!
//! `docs/session-format.md` is the contract for other programs.

pub mod carried;
pub mod format;
pub mod redact;

#[cfg(feature = "files")]
mod lines;
#[cfg(feature = "files")]
pub mod names;
#[cfg(feature = "files")]
pub mod reader;
#[cfg(feature = "files")]
pub mod writer;

pub use carried::Carried;
pub use format::{Header, Part, SourceInfo, VERSION};
#[cfg(feature = "files")]
pub use names::{Names, names};
#[cfg(feature = "files")]
pub use reader::{Batch, Reader, Report, Session, begins, load};
#[cfg(feature = "files")]
pub use writer::{Writer, append, replaceable};

/// Why a session cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file could not be opened, read, written or renamed.
    #[error("cannot {op} session {path}: {source}")]
    Io {
        /// The operation: `open`, `read`, `write`, `create`.
        op: &'static str,
        path: String,
        source: std::io::Error,
    },
    /// The file could not be created or given its name.
    #[cfg(feature = "files")]
    #[error(transparent)]
    File(#[from] crate::file::FileError),
    /// A file of the recording's name exists.
    #[error(
        "{path} exists, and a recording never overwrites one: give another name, or move it away"
    )]
    Exists { path: String },
    /// An import would replace a recording, which cannot be made again.
    #[error(
        "{path} is a recording, and an import does not replace one: give another name, or move it away"
    )]
    Recording { path: String },
    /// Another process is recording to the file.
    #[error("{path} is being recorded: nothing can be added to it before that has ended")]
    Busy { path: String },
    /// The existing file is not a kflow session, so it is not replaced.
    #[error(
        "{path} exists and is no kflow session, so it is not replaced: give another name, or move it away"
    )]
    Foreign { path: String },
    /// The first line is not a header.
    #[error(
        "{path} is not a kflow session: {why}. A session begins with a line like {{\"kflow\":1,…}}; raw captures become one with `kflow import`"
    )]
    NotASession {
        path: String,
        /// What is wrong with the first line.
        why: String,
    },
    /// A later kflow wrote the session, in a format that this one cannot read.
    #[error(
        "{path} has session format {found}, and this kflow reads formats up to {VERSION}: use the kflow that recorded it (written by kflow {tool}), or a newer one"
    )]
    Newer {
        path: String,
        /// Version of the session's format.
        found: u32,
        /// Version of the kflow that wrote the session, or `?`.
        tool: String,
    },
}
