//! The watch is complete: whatever the apiserver and the network do, the world ends up the same as without faults.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    reason = "a test that meets what it does not expect has failed"
)]

mod scenes;
mod server;
