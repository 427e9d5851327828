//! Source `otlp`: OpenTelemetry spans of kubelet, apiserver, containerd, CRI-O and etcd.
//!
//! [`decode`] reads recorded exports and OTLP JSON; [`decode_request`] reads what a live receiver gets. Which
//! attributes are kept is in [`attributes`].

pub mod attributes;
pub mod decode;
#[cfg(feature = "live")]
pub mod live;

mod json;
mod wire;

pub use decode::{BadRequest, OtlpDecoder, decode_request};
