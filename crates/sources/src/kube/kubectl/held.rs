//! Lines that later ones tell what they are.

use super::outline::indent;

/// Longest last message of a container, bytes. The kubelet cuts it at 4096 (1.36: pkg/kubelet/container/runtime.go,
/// `MaxContainerTerminationMessageLength`); the indent of a code block and marks of a quotation come on top.
const LONGEST: usize = 4 * 4096;

/// What the second line of a description begins with, behind `Name:` (k8s.io/kubectl/pkg/describe/describe.go).
const SECOND: [&str; 6] = [
    "Namespace:",
    "Labels:",
    "Roles:",
    "Annotations:",
    "IsDefaultClass:",
    "Value:",
];

/// Lines that are held back.
#[derive(Debug)]
pub(super) struct Held {
    lines: Vec<String>,
    bytes: usize,
    /// Number of columns by which the first line is indented.
    indent: usize,
    of: Of,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// `Message:` of a container that has ended. kubectl writes the text as it is: each line but the first begins at the left
    /// margin, and may look like anything. `Exit Code:` always follows, unless the paste was cut.
    Message {
        /// Number of columns by which `State: Terminated` above it is indented.
        state: usize,
        /// True behind another such line, to which the next `Exit Code:` belongs.
        is_cut: bool,
    },
    /// `Name:`, which begins a description or goes on with a message.
    Name,
}

/// What the next line tells.
#[derive(Debug)]
pub(super) enum Told {
    /// Nothing yet.
    Nothing,
    /// The lines are one message.
    Message(String),
    /// They begin a description.
    Description(String),
    /// They are neither.
    Neither(Vec<String>),
}

impl Held {
    pub(super) fn message(line: &str, state: usize) -> Self {
        let is_cut = false;
        Self::new(line, Of::Message { state, is_cut })
    }
    pub(super) fn name(line: &str) -> Self {
        Self::new(line, Of::Name)
    }
    fn new(line: &str, of: Of) -> Self {
        Self {
            lines: vec![line.to_owned()],
            bytes: line.len(),
            indent: indent(line),
            of,
        }
    }

    /// Looks at the next line, and holds it back if it tells nothing.
    pub(super) fn next(&mut self, line: &str) -> Told {
        let text = line.trim_start();
        let is_beside = indent(line) == self.indent;
        match &mut self.of {
            Of::Message { is_cut: false, .. } if is_beside && text.starts_with("Exit Code:") => {
                Told::Message(std::mem::take(&mut self.lines).join("\n"))
            }
            Of::Message { .. } if is_beside && text.starts_with("Exit Code:") => {
                Told::Neither(std::mem::take(&mut self.lines))
            }
            Of::Message { state, is_cut } if self.bytes <= LONGEST => {
                *is_cut |= indent(line) == *state && is_terminated(line);
                self.bytes = self.bytes.saturating_add(line.len() + 1);
                self.lines.push(line.to_owned());
                Told::Nothing
            }
            Of::Name if is_beside && is_second(text) => {
                Told::Description(std::mem::take(&mut self.lines).concat())
            }
            Of::Message { .. } | Of::Name => Told::Neither(std::mem::take(&mut self.lines)),
        }
    }

    /// Returns the lines of which nothing more is told.
    pub(super) fn end(self) -> Vec<String> {
        self.lines
    }
}

/// True for the second line of a description.
pub(super) fn is_second(line: &str) -> bool {
    let key = line.trim_start();
    SECOND.iter().any(|second| key.starts_with(second))
}

/// True for the line of a container's state, or its last one, above what tells how it ended.
pub(super) fn is_terminated(line: &str) -> bool {
    let key = line.trim_start();
    (key.starts_with("State:") || key.starts_with("Last State:")) && key.ends_with("Terminated")
}
