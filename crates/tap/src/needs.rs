//! What the tap needs of this machine and of this process, and lacks.

pub use crate::here::{missing_here, narrow};

/// A missing requirement, and how to meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The requirement; completes "needs …".
    pub what: String,
    /// A command or a setting that helps; empty when nothing does.
    pub help: String,
}

pub(crate) fn missing(what: impl Into<String>, help: impl Into<String>) -> Missing {
    Missing {
        what: what.into(),
        help: help.into(),
    }
}

/// Returns one sentence with all that is missing, and the first help that there is.
pub fn sentence(all: &[Missing]) -> String {
    let what: Vec<&str> = all.iter().map(|m| m.what.as_str()).collect();
    let mut text = what.join("; and ");
    if let Some(m) = all.iter().find(|m| !m.help.is_empty()) {
        text.push_str(&format!(" ({})", m.help));
    }
    text
}
