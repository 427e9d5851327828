//! The relay: bytes in = bytes out, whatever happens to the tap, the decoder or a subscriber.

mod faults;
mod grpc;
pub(crate) mod h2;
mod relay;
pub(crate) mod rig;
mod service;
