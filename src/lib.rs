//! kflow: what the apiserver, the scheduler, the kubelet and the container runtime do to a pod, call by call.
//!
//! The house, from the ground up (a room looks only at rooms above it in this table; `tests/it/layers.rs` enforces it):
//!
//! | room | owns | pure |
//! |---|---|---|
//! | [`model`] | the observation: what one source saw at one time | yes |
//! | [`flow`] | the map of the call flow: stages, steps, functions, evidence | yes |
//! | [`timeline`] | spans, marks, gaps and evidence of one pod | yes |
//! | [`correlate`] | the world: which observation belongs to which pod, and what it means | yes |
//! | [`diagnose`] | causes, rules, verdicts | yes |
//! | [`query`] | the expression language over pods, calls and observations | yes |
//! | `file` | files that are written: whole or not at all | no |
//! | [`session`] | the recording format: header, lines, redaction (pure); reader and writer (edge) | half |
//! | [`export`] | timelines and verdicts as text, JSON, Perfetto, OTLP, HTML, SVG | yes |
//! | [`source`] | one folder a source: `decode` (pure) beside `live` (I/O) | half |
//! | `proxy` | the CRI proxy: copies bytes, taps them, serves observations | no |
//! | `engine` | runs sources, owns the one world, tees to the recorder, publishes snapshots | no |
//! | `doctor` | what would work on this machine, and the exact line for what would not | no |
//! | `tui` | panes, widgets, themes, keys: draws a snapshot, never changes one | no |
//! | `cli` | arguments, configuration, wiring, exit codes; the only place that prints | no |

pub mod correlate;
pub mod diagnose;
pub mod export;
pub mod flow;
pub mod model;
pub mod query;
pub mod session;
pub mod source;
pub mod timeline;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "files")]
pub mod clock;
#[cfg(feature = "live")]
pub mod doctor;
#[cfg(feature = "files")]
pub mod engine;
#[cfg(feature = "files")]
pub mod file;
#[cfg(feature = "live")]
pub mod proxy;
#[cfg(feature = "tui")]
pub mod tui;
