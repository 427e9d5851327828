//! All integration tests are one binary, so that a small machine links only once. They run on Linux: agents and proxies are
//! started in many of them.
#![cfg(target_os = "linux")]
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
mod complete;
mod control;
mod correlate;
#[cfg(test)]
mod cri;
mod deny;
mod deploy;
mod diagnose;
mod docs;
mod files;
mod flow_map;
mod forms;
mod fuzz;
mod golden;
mod grammar;
mod html;
mod hung;
mod image_calls;
mod import;
mod incidents;
mod judged;
mod kubelet;
mod markdown;
mod named;
mod otlp;
mod pages;
mod perfetto;
mod requests;
mod runtime_events;
mod schema;
mod scope;
mod secrets;
mod sentences;
mod session;
mod startup_latency;
mod stats;
mod store;
mod svg;
mod words;

mod agent;
mod attach;
mod cluster;
mod program;
mod proxy;
mod pulls;
mod real;
mod receive;
mod record;
mod unknown;
mod watch;

mod churn;
mod tui;

/// Joins the words of a text, which may be broken over several lines, by single spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the path of a file of the repository.
pub(crate) fn in_repository(path: impl AsRef<std::path::Path>) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub(crate) fn fixture(name: &str) -> std::path::PathBuf {
    in_repository("fixtures").join(name)
}

/// Returns the path of a recording of `fixtures/sessions`.
pub(crate) fn recording(name: &str) -> std::path::PathBuf {
    fixture(&format!("sessions/{name}.kflow.zst"))
}
