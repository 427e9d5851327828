//! The CRI as a source: the byte log of a tap, and what a runtime says when it is asked once. The decoder of both is
//! `kflow_cri`.

pub mod bytes;
#[cfg(feature = "live")]
pub mod live;

pub use bytes::ByteLog;
