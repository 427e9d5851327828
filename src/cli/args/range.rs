//! A part of the time that is looked at.

use anyhow::ensure;

use kflow_core::diagnose::unknown;
use kflow_core::query::{self, Moment};
use kflow_model::Nanos;

/// A time range as written on the command line: begin included, end excluded.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    from: Moment,
    to: Moment,
}

impl Range {
    /// Parses `00:40..00:50`, `-1h..-30m` or `..50%`; a missing side stands for the begin or the end.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text
            .split_once("..")
            .ok_or_else(|| "a range is FROM..TO".to_owned())?;
        let side = |text: &str, default: Moment| match text.trim() {
            "" => Ok(default),
            text => Moment::parse(text)
                .ok_or_else(|| format!("{text:?} is not a time: {}", query::FORMS)),
        };
        Ok(Self {
            from: side(from, Moment::Begin)?,
            to: side(to, Moment::End)?,
        })
    }

    /// Resolves the range within the known time; an error when it is empty, or nothing of it is known.
    pub fn within(self, known: (Nanos, Nanos)) -> anyhow::Result<(Nanos, Nanos)> {
        let to = match self.to {
            // The last moment is included.
            Moment::End => known.1.plus(1),
            to => to.within(known, None, |_| 0),
        };
        let from = self.from.within(known, None, |_| 0);
        ensure!(
            from < to,
            "the range from {} to {} is empty: name its begin first",
            from.to_rfc3339(),
            to.to_rfc3339()
        );
        for (moment, is_outside) in [(from, from > known.1), (to, to <= known.0)] {
            if is_outside && let Some(unknown) = unknown::outside(Some(known), moment) {
                return Err(unknown.into());
            }
        }
        Ok((from, to))
    }
}
