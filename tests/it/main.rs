//! One test binary: one link on small machines.

mod cli;
mod layers;
mod session;

#[cfg(feature = "live")]
mod proxy;
