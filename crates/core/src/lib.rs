//! Timelines of pods, and why pods are stuck: a pure function of what was observed.
//!
//! | room | owns |
//! |---|---|
//! | [`backoff`] | how long the kubelet waits after a failure |
//! | [`flow`] | the map of the call flow: stages, steps, functions, evidence |
//! | [`timeline`] | spans, marks, gaps and evidence of one pod |
//! | [`correlate`] | the world: which observation belongs to which pod, and what it means |
//! | [`diagnose`] | causes, rules, verdicts |
//! | [`sequence`] | who called whom about a pod |
//! | [`selection`] | which pods are looked at: namespace, node, label and field selectors |
//! | [`query`] | the expression language over pods, calls and observations |
//! | [`stats`] | how long starts, stages and calls took over many pods, and what got slower |
//! | [`suggest`] | the known names closest to an unknown one |
//!
//! No clock, no file system, no network: time is an argument, and the data files are embedded.

pub mod backoff;
pub mod correlate;
pub mod diagnose;
pub mod flow;
mod parallel;
pub mod query;
pub mod selection;
pub mod sequence;
pub mod stats;
pub mod suggest;
pub mod timeline;

/// Unwraps a data file that is embedded in this crate. Each file has a test that reads it, so this panics in no
/// tested build.
#[expect(
    clippy::panic,
    reason = "the data is part of the program: no input gets here"
)]
fn embedded<T, E: std::fmt::Display>(file: &str, read: Result<T, E>) -> T {
    read.unwrap_or_else(|e| panic!("read {file} of this build: {e}"))
}
