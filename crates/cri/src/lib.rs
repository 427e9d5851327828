//! The CRI tap: the bytes between the kubelet and the container runtime, decoded into calls.
//!
//! The proxy copies bytes and never parses them; a stamped copy of each chunk comes here. [`Decoder`] is sans-I/O:
//! bytes in, observations out. It never fails and never holds anything up. When bytes of a connection are
//! missing or turn out to be nonsense, a [`Gap`](kflow_model::gap::Gap) says so, its open calls end as
//! [`Lost`](kflow_model::cri::CallOutcome::Lost), the begin of the next frame is searched, and it goes on from there. Headers
//! that were sent before are then unknown until the header table has turned over, or the messages of a call tell its method: a
//! call can have an [unknown](kflow_model::cri::Service::Unknown) method, and never a wrong one. How much is understood is told by
//! [`Sight`](kflow_model::cri::Sight).
//!
//! Assumed of a connection that is joined in the middle, until it shows otherwise: frames are of 16,384 bytes at most and the
//! header tables of 4,096 bytes, which is what peers have that never changed their SETTINGS.
//!
//! | module | owns |
//! |---|---|
//! | `hpack` | header blocks: static and dynamic table, Huffman |
//! | `h2` | frames of one direction, whole or in pieces |
//! | `search` | where frames begin, after bytes that were missed |
//! | `grpc` | messages out of DATA frames |
//! | `headers` | the few headers of a call that kflow reads |
//! | `proto` | a borrowing protobuf reader and the macro that declares messages |
//! | `messages` | the CRI messages, holding only what kflow shows |
//! | `facts` | messages to subjects, fields and inventories |
//! | `method` | the CRI's methods as a table |
//! | `recognise` | methods by their messages, where the path is not known |
//! | `call`, `conn` | one call, one connection |
//! | `decoder` | all connections |
//! | `text` | bytes that should be text |
//! | `bytes` | the tap's byte log: its line form, both ways |
//!
//! What is in no definition can reach no observation: environment values, registry credentials, annotations outside
//! an allow-list and the arguments of executed commands are not read out of the bytes at all.

#![warn(missing_docs)]

mod call;
mod conn;
pub mod decoder;
mod facts;
mod grpc;
mod h2;
mod headers;
mod hpack;
mod messages;
mod method;
mod proto;
mod recognise;
mod search;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
mod text;

pub use decoder::{Counters, Decoder, Lost, Standing};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Direction {
    /// From the client (kubelet, crictl) to the runtime.
    #[serde(rename = "c2s")]
    ClientToServer,
    /// From the runtime to the client.
    #[serde(rename = "s2c")]
    ServerToClient,
}

/// What bounds the decoder's memory. What is beyond a limit is skipped and said, or taken for nonsense.
pub mod limits {
    /// Largest gRPC message that is decoded, bytes: the kubelet's and containerd's own limit. Larger ones are skipped.
    pub const MESSAGE: usize = 16 << 20;
    /// All messages of which a part has arrived, together, bytes. Beyond it further ones are skipped.
    pub const MESSAGES_TOGETHER: usize = 128 << 20;
    /// Largest header block, bytes. Beyond it the header table is lost: a block cannot be skipped.
    pub const HEADER_BLOCK: usize = 256 << 10;
    /// Largest dynamic table, bytes, whatever the peers agree on. Beyond it the table is lost.
    pub const DYNAMIC_TABLE: u32 = 1 << 20;
    /// Calls open at a time on one connection. Further ones are not followed.
    pub const OPEN_CALLS: usize = 4096;
    /// Bytes of one direction that are held while the begin of a frame is looked for.
    pub const SEARCHED: usize = 128 << 10;
    /// Connections open at a time. Further ones are not followed.
    pub const CONNECTIONS: usize = 4096;
    /// Lists of one connection whose last content is remembered.
    pub const REMEMBERED_LISTS: usize = 1024;
    /// Items of one list that are decoded.
    pub const LIST_ITEMS: usize = 50_000;
    /// Items of lists that a connection remembers, so as not to read them again.
    pub const KNOWN_ITEMS: usize = 8_192;
    /// Longest text taken from a message or header, bytes; longer ones are cut.
    pub const TEXT: usize = 1024;
    /// Longest `grpc-message`, bytes; longer ones are cut.
    pub const GRPC_MESSAGE: usize = 4096;
    /// Fields shown of one message.
    pub const FIELDS: usize = 96;
}

/// Runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
