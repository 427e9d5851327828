//! Timelines, calls and verdicts in other people's formats: pure mappings onto an `impl Write`.
//!
//! | module | writes |
//! |---|---|
//! | [`text`] | texts from outside, harmless and cut; durations and times for people |
//! | [`rows`] | rows for programs: JSON, JSON lines, YAML, CSV |
//! | [`names`] | names alone, for kubectl and xargs |
//! | [`timeline`] | timelines as text and rows |
//! | [`calls`] | CRI calls as text and rows |
//! | [`abreast`] | pods of several nodes on one axis of time |
//! | [`owner`] | what makes pods, and what became of it, as text and rows |
//! | [`flow`] | the flow map, and what its steps did, as text and JSON |
//! | [`requests`] | requests to the apiserver as text and rows |
//! | [`stats`] | how long things took, and what got slower, as text, JSON, CSV and OpenMetrics |
//! | [`open_metrics`] | metrics for Prometheus, family by family |
//! | [`perfetto`], [`otlp`] | timelines for trace viewers |
//! | [`sequence`] | the sequence diagram of a pod for Mermaid and PlantUML |
//! | [`html`] | timelines and verdicts as one page for a ticket |
//! | [`mod@file`] | timelines in the format that is chosen |
//! | [`causes`] | the catalogue of causes as text and Markdown |
//! | [`unknown`] | what is not known, as JSON |
//! | [`incidents`] | incidents as text and JSON |
//! | [`why`] | verdicts as text, JSON and Markdown |

pub mod abreast;
pub mod calls;
pub mod causes;
pub mod critical;
pub mod file;
pub mod flow;
pub mod html;
pub mod incidents;
pub mod names;
pub mod open_metrics;
pub mod otlp;
pub mod owner;
pub mod perfetto;
pub mod requests;
pub mod rows;
pub mod sequence;
pub mod stats;
pub mod text;
pub mod timeline;
pub mod unknown;
pub mod why;
pub mod world_metrics;
