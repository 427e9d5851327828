//! One test binary: one link on small machines.
#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::let_underscore_must_use,
    reason = "a test that meets what it does not expect has failed, helpers of tests included"
)]

mod cli;
mod control;
mod correlate;
#[cfg(feature = "files")]
#[cfg(test)]
mod cri;
mod deny;
mod deploy;
#[cfg(feature = "files")]
mod diagnose;
mod files;
mod flow_map;
mod golden;
mod import;
mod judged;
mod layers;
mod requests;
mod session;
mod sli;

#[cfg(feature = "live")]
mod attach;
#[cfg(feature = "live")]
mod proxy;
#[cfg(feature = "live")]
mod real;
#[cfg(feature = "live")]
mod receive;
#[cfg(feature = "live")]
mod record;
#[cfg(feature = "live")]
mod watch;

#[cfg(feature = "tui")]
mod churn;
#[cfg(feature = "tui")]
mod tui;
