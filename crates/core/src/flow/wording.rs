//! The words of other versions of Kubernetes, and those of the map's own that they stand for.

use rustc_hash::FxHashMap;

use super::clue::{Pattern, What};
use super::step::Step;
use kflow_model::Text;

/// Messages of log lines, by what other versions write.
///
/// Every line of a log is asked for, several times, and nearly none is another version's. So a message is compared only
/// when one of them begins with the same byte and is as long.
#[derive(Clone, Debug, Default)]
pub(super) struct Wordings {
    own: FxHashMap<Text, Text>,
    /// Lengths of the messages that begin with a byte; those of 127 bytes and more are one.
    lengths: Vec<u128>,
}

impl Wordings {
    /// Reads them off the steps. What one stands for is a message of the same step: an error names the step and the
    /// message that is none.
    pub(super) fn compile(steps: &[Step]) -> Result<Self, (Text, Text)> {
        let mut own = FxHashMap::default();
        for step in steps {
            for clue in &step.clues {
                let What::Log {
                    message: Pattern::Is(message),
                    ..
                } = &clue.what
                else {
                    continue;
                };
                if clue.stands_for.is_empty() {
                    continue;
                }
                let known = step.clues.iter().any(|c| {
                    matches!(&c.what, What::Log { message: Pattern::Is(m), .. } if *m == clue.stands_for)
                        && c.stands_for.is_empty()
                });
                if !known {
                    return Err((step.id.clone(), clue.stands_for.clone()));
                }
                own.insert(message.clone(), clue.stands_for.clone());
            }
        }
        let mut lengths = vec![0; 128];
        for message in own.keys() {
            if let Some((row, bit)) = shape(message)
                && let Some(row) = lengths.get_mut(row)
            {
                *row |= bit;
            }
        }
        Ok(Self { own, lengths })
    }

    /// What a message stands for, or itself.
    pub(super) fn of<'a>(&'a self, message: &'a str) -> &'a str {
        let known = shape(message)
            .is_some_and(|(row, bit)| self.lengths.get(row).is_some_and(|r| r & bit != 0));
        if !known {
            return message;
        }
        self.own.get(message).map_or(message, Text::as_str)
    }
}

/// First byte and length of a message; `None` for what no kubelet writes.
fn shape(message: &str) -> Option<(usize, u128)> {
    let first = usize::from(*message.as_bytes().first()?);
    (first < 128).then(|| (first, 1 << message.len().min(127)))
}
