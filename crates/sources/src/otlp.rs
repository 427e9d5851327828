//! Source `otlp`: OpenTelemetry spans of kubelet, apiserver, containerd, CRI-O and etcd.
//!
//! [`OtlpDecoder`] reads OTLP JSON, [`decode_request`] OTLP's protobuf. Which
//! attributes are kept is in [`attributes`].

pub mod attributes;
pub mod decode;
#[cfg(feature = "live")]
pub mod live;

mod json;
mod wire;

pub use decode::{BadRequest, OtlpDecoder, decode_request};
