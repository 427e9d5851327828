//! Timelines, calls and verdicts in text, JSON and the formats of other tools: pure mappings onto an `impl Write`.
//!
//! | module | writes |
//! |---|---|
//! | [`text`] | untrusted text: made harmless for a terminal, and cut to a width |
//! | [`rows`] | rows for programs: JSON, JSON lines, YAML, CSV |
//! | [`names`] | names only, for kubectl and xargs |
//! | [`timeline`] | timelines as text and rows |
//! | [`calls`] | CRI calls as text and rows |
//! | [`abreast`] | pods of several nodes on one time axis |
//! | [`owner`] | owners of pods (Deployment, Job, …) and what happened to them, as text and rows |
//! | [`flow`] | the flow map and the runs of its steps, as text and JSON |
//! | [`requests`] | requests to the apiserver as text and rows |
//! | [`stats`] | how long things took, and what got slower, as text, JSON, CSV and OpenMetrics |
//! | [`open_metrics`] | metrics for Prometheus, family by family |
//! | [`perfetto`], [`otlp`] | timelines for trace viewers |
//! | [`sequence`] | the sequence diagram of a pod for Mermaid and PlantUML |
//! | [`life`] | a pod's whole life for pictures: its time axis, its rows |
//! | [`html`] | timelines and verdicts as one page for a ticket |
//! | [`mod@file`] | timelines in a chosen format |
//! | [`causes`] | the catalogue of causes as text and Markdown |
//! | [`unknown`] | a missing answer and its reason, as JSON |
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
pub mod life;
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
