//! The map of the call flow: stages, steps, the Kubernetes functions behind them, and which evidence lights which step.
//!
//! Owns the closed set of [`Stage`]s and, as data (`map.toml`), the steps inside each. Pure.
//!
//! | module | holds |
//! |---|---|
//! | [`stage`] | the eleven stages |
//! | [`map`] | [`Map`]: flows and steps, parsed, checked, laid over each other |
//! | [`clue`] | one kind of evidence of a step |
//! | [`matcher`] | from an observation to the steps that it lights |
//! | [`lit`] | from evidence to what each step did: when, how often, how long |
//! | [`docs`] | the map as text and Markdown |

mod checks;
pub mod clue;
pub mod docs;
mod index;
pub mod lit;
pub mod map;
pub mod matcher;
mod names;
pub mod stage;
mod step;
mod wording;

pub use lit::{Lit, Run};
pub use map::{Map, MapError};
pub use stage::Stage;
pub use step::{Flow, Step, StepId};

/// The message of a log line in the words of the map's own version of Kubernetes.
pub fn said(line: &kflow_model::log::LogLine) -> &str {
    Map::active().wording(&line.message)
}

#[cfg(test)]
mod tests;
