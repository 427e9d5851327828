//! One test binary: one link on small machines.

#[cfg(feature = "live")]
mod proxy;
