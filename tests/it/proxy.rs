//! The relay forwards every byte unchanged, whatever happens to the tap, the decoder or a subscriber.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets what it does not expect has failed"
)]

mod faults;
mod grpc;
pub(crate) mod h2;
mod relay;
pub(crate) mod rig;
mod service;
