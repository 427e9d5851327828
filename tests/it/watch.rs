//! The watch is complete: whatever the apiserver and the network do, the world ends up as it would have undisturbed.

mod scenes;
mod server;
