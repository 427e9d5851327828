//! The CRI tap: the bytes between the kubelet and the container runtime, decoded into calls.
//!
//! The proxy copies bytes and never parses them; a stamped copy of each chunk comes here. [`Decoder`] is sans-I/O:
//! bytes in, observations out. It never fails and never holds anything up. When a connection turns out to be
//! nonsense (or its beginning is missing, without which HPACK cannot be decoded) that connection goes blind with one
//! [`Gap`](kflow_model::gap::Gap), its open calls end as [`Lost`](kflow_model::cri::CallOutcome::Lost), and
//! everything else goes on.
//!
//! | module | owns |
//! |---|---|
//! | `hpack` | header blocks: static and dynamic table, Huffman |
//! | `h2` | frames of one direction, whole or in pieces |
//! | `grpc` | messages out of DATA frames |
//! | `headers` | the few headers of a call that kflow reads |
//! | `proto` | a borrowing protobuf reader and the macro that declares messages |
//! | `messages` | the CRI messages, holding only what kflow shows |
//! | `facts` | messages to subjects, fields and inventories |
//! | `method` | the CRI's methods as a table |
//! | `call`, `conn` | one call, one connection |
//! | `decoder` | all connections |
//! | `text` | bytes that should be text |
//! | `bytes` | the tap's byte log: its line form, both ways |
//!
//! What is in no definition can reach no observation: environment values, registry credentials, annotations outside
//! an allow-list and the arguments of executed commands are not read out of the bytes at all.

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
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
mod text;

pub use decoder::{Counters, Decoder, Lost};

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

/// What bounds the decoder's memory. What is beyond a limit is skipped and said, or the connection goes blind.
pub mod limits {
    /// Largest gRPC message that is decoded, bytes: the kubelet's and containerd's own limit. Larger ones are skipped.
    pub const MESSAGE: usize = 16 << 20;
    /// All messages of which a part has arrived, together, bytes. Beyond it further ones are skipped.
    pub const MESSAGES_TOGETHER: usize = 128 << 20;
    /// Largest header block, bytes. Beyond it the connection goes blind: a block cannot be skipped.
    pub const HEADER_BLOCK: usize = 256 << 10;
    /// Largest dynamic table, bytes, whatever the peers agree on. Beyond it the connection goes blind.
    pub const DYNAMIC_TABLE: u32 = 1 << 20;
    /// Calls open at a time on one connection. Further ones are not followed.
    pub const OPEN_CALLS: usize = 4096;
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
