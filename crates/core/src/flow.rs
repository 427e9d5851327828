//! The map of the call flow: stages, steps, the Kubernetes functions behind them, and which evidence lights which step.
//!
//! Owns the closed set of [`Stage`]s and, as data (`map.toml`), the steps inside each. Evidence lights a step when it
//! shows that the step ran. Pure.
//!
//! | module | holds |
//! |---|---|
//! | [`stage`] | the eleven stages |
//! | [`map`] | [`Map`]: flows and steps, parsed and checked; one file can override parts of another |
//! | [`signature`] | one kind of evidence of a step |
//! | [`Fact`] | what a log line, an Event or a span says, whatever its wording; [`line()`], [`event`], [`span`] read them |
//! | [`matcher`] | from an observation to the steps that it lights |
//! | [`runs`] | from evidence to what each step did: when, how often, how long |
//! | [`glossary`] | the words of the map and of the terminal |
//! | [`docs`] | the map as text and Markdown |

pub mod docs;
mod fact;
pub mod glossary;
mod index;
pub mod map;
pub mod matcher;
mod names;
mod needle;
mod reading;
mod readyz;
pub mod runs;
pub mod signature;
pub mod stage;
mod step;
mod template;

pub use fact::Fact;
pub use map::{Map, MapError};
pub use needle::Needle;
pub use reading::{Line, Said};
pub use runs::{Run, StepRuns};
pub use stage::Stage;
pub use step::{Flow, Step, StepId};
pub use template::Template;

/// Returns what a log line says, by the active map. The result is kept in the line, so each line is looked up once.
pub fn line(line: &kflow_model::log::LogLine) -> Option<Line<'_>> {
    Map::active().line_once(line)
}

/// Returns what the reason and the message of an Event say, by the active map.
pub fn event(reason: &str, message: &str) -> Option<Fact> {
    Some(Map::active().event(reason, message)?.fact)
}

/// Returns what a span says, by the active map.
pub fn span(span: &kflow_model::span::SpanRecord) -> Option<Fact> {
    Map::active().span(span)
}

/// Returns the stage that a pod is in when the kubelet could not create or start one of its containers. `reason` is
/// the kubelet's, empty when unknown. containerd makes the process within StartContainer and CRI-O within
/// CreateContainer, so the error decides and not the call: a container whose process cannot be made fails in the
/// stage `start`.
pub fn container_error_stage(reason: &str, error: &str) -> Stage {
    if reason == "RunContainerError" {
        return Stage::Start;
    }
    // The message of the kubelet's Event: for a failed hook the error itself, otherwise `Error: ` and the error.
    let said = |message: &str| event("Failed", message);
    let own = said(error).filter(|f| *f == Fact::PreStartFailed);
    match (own.or_else(|| said(&format!("Error: {error}"))), reason) {
        (Some(Fact::PreStartFailed), _) => Stage::Start,
        (_, "CreateContainerConfigError") => Stage::Create,
        (Some(Fact::ProcessNotMade), _) => Stage::Start,
        _ => Stage::Create,
    }
}

#[cfg(test)]
mod tests;
