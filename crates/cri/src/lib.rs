//! The CRI tap's decoder: it turns the bytes between the kubelet and the container runtime into calls.
//!
//! The proxy copies bytes and never parses them; a stamped copy of each chunk comes here. [`Decoder`] does no I/O:
//! bytes go in, observations come out. It never fails and never delays a connection. When bytes of a connection are
//! missing or turn out to be nonsense, a [`Gap`](kflow_model::gap::Gap) says so, the open calls end as
//! [`Lost`](kflow_model::cri::CallOutcome::Lost), and decoding goes on at the begin of the next frame that is found.
//! Headers that were sent before are then unknown until the header table has turned over, or until the messages of a
//! call show its method: a call can have an [unknown](kflow_model::cri::Service::Unknown) method, and never a wrong
//! one. [`Sight`](kflow_model::cri::Sight) says how much of a connection is understood.
//!
//! Of a connection that is joined in the middle, the decoder assumes until the bytes show otherwise that frames have
//! at most 16,384 bytes and header tables 4,096 bytes: the values of peers that never changed their SETTINGS.
//!
//! | module | owns |
//! |---|---|
//! | `hpack` | header blocks: static and dynamic table, Huffman |
//! | `h2` | frames of one direction, whole or in pieces |
//! | `search` | the begin of a frame, after missed bytes |
//! | `grpc` | messages out of DATA frames |
//! | `headers` | the few headers of a call that kflow reads |
//! | `proto` | a borrowing protobuf reader and the macro that declares messages |
//! | `messages` | the CRI messages, with only the fields that kflow shows |
//! | `facts` | subjects, fields and inventories out of messages |
//! | `method` | the table of the CRI's methods |
//! | `recognise` | the method of a call by its messages, where the path is not known |
//! | `call`, `conn` | one call; one connection |
//! | `decoder` | all connections |
//! | `text` | text out of bytes that should be text |
//!
//! Data without a definition here cannot reach an observation: environment values, registry credentials, annotations
//! outside an allow-list and the arguments of executed commands are not read out of the bytes at all.

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

/// The direction in which bytes of a connection go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Direction {
    /// From the client (kubelet, crictl) to the runtime.
    #[serde(rename = "c2s")]
    ClientToServer,
    /// From the runtime to the client.
    #[serde(rename = "s2c")]
    ServerToClient,
}

/// Bounds of the decoder's memory. Data beyond a limit is skipped, which an observation says, or counts as nonsense.
pub mod limits {
    /// Largest gRPC message that is decoded, bytes: the kubelet's and containerd's own limit. Larger ones are skipped.
    pub const MESSAGE: usize = 16 << 20;
    /// Size of all incomplete messages together, bytes. Beyond it further messages are skipped.
    pub const MESSAGES_TOGETHER: usize = 128 << 20;
    /// Largest header block, bytes. A larger one makes the header table unknown, because a block cannot be skipped.
    pub const HEADER_BLOCK: usize = 256 << 10;
    /// Largest dynamic header table, bytes, whatever the peers agree on. A larger one is not followed.
    pub const DYNAMIC_TABLE: u32 = 1 << 20;
    /// Number of calls open at a time on one connection. Further ones are not followed.
    pub const OPEN_CALLS: usize = 4096;
    /// Number of bytes of one direction that are held while the begin of a frame is searched.
    pub const SEARCHED: usize = 128 << 10;
    /// Number of connections open at a time. Further ones are not followed.
    pub const CONNECTIONS: usize = 4096;
    /// Number of lists of one connection whose last content is remembered.
    pub const REMEMBERED_LISTS: usize = 1024;
    /// Number of items of one list that are decoded.
    pub const LIST_ITEMS: usize = 50_000;
    /// Number of list items that a connection remembers, so that unchanged ones are not decoded again.
    pub const KNOWN_ITEMS: usize = 8_192;
    /// Longest text taken from a message or header, bytes; longer ones are cut.
    pub const TEXT: usize = 1024;
    /// Longest `grpc-message`, bytes; longer ones are cut.
    pub const GRPC_MESSAGE: usize = 4096;
    /// Number of fields shown of one message.
    pub const FIELDS: usize = 96;
}

/// Runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
