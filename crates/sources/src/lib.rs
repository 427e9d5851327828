//! Sources of observations: one folder for each source, with `decode` (pure: bytes or objects in, observations out)
//! beside `live` (I/O, behind the feature `live`).
//!
//! A decoder takes what a source wrote, line by line, in the order it was written, and appends observations. It never
//! fails: a line that it cannot use is counted with a reason. The same decoders serve `kflow import` and live tails.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may wait for the disk")
)]

use kflow_model::{Nanos, Observation};

#[cfg(feature = "live")]
pub mod agent;
pub mod audit;
#[cfg(feature = "live")]
pub mod cri;
pub mod fs;
pub mod journal;
pub mod klog;
pub mod kube;
#[cfg(feature = "live")]
pub mod live;
pub(crate) mod logtext;
pub mod metrics;
pub mod otlp;
#[cfg(feature = "live")]
mod position;
#[cfg(feature = "live")]
pub mod proxy;
#[cfg(feature = "live")]
pub mod receive;
pub mod runtime;
#[cfg(feature = "live")]
pub mod tap;

/// The result of one line of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// The line became this many observations, or changed the decoder's state in a way that later ones show (may be 0).
    Observed(usize),
    /// The line belongs to a record that is not complete yet (a multi-line value, a pretty-printed document).
    Partial,
    /// The line says nothing that kflow uses, for this reason: a constant, so that reasons can be counted.
    Ignored(&'static str),
    /// The line is not what this source writes, for this reason.
    Malformed(&'static str),
}

impl Fed {
    /// The same, if it says that something was left out.
    pub(crate) const fn left(self) -> Option<Self> {
        match self {
            Self::Observed(_) | Self::Partial => None,
            Self::Ignored(_) | Self::Malformed(_) => Some(self),
        }
    }
}

/// The pure half of a source that is a sequence of lines.
pub trait LineDecoder: Send {
    /// Takes one line without its line feed.
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed;
    /// Sets the moment at which the lines that follow are read, as they are written. Called only for a
    /// log that is followed.
    fn reads_at(&mut self, now: Nanos) {
        let _ = now;
    }
    /// Returns what was left out since the last call beside what the results of lines say: items of a list, rows of a table.
    fn left(&mut self) -> Vec<Fed> {
        Vec::new()
    }
    /// True when the input does not tell when its documents arrived, and the newest time in each stands for it.
    fn guesses_arrival(&self) -> bool {
        false
    }
    /// True when something was read whose ages count back from [`TimeHint::not_after`].
    fn counts_from_hint(&self) -> bool {
        false
    }
    /// Ends the input: emits what was held back.
    fn finish(&mut self, out: &mut Vec<Observation>) -> Fed {
        let _ = out;
        Fed::Observed(0)
    }
}

/// What a decoder needs to know about time where its input does not say it: klog lines have neither year nor zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeHint {
    /// A moment near the input (from another source, or a full date inside it): decides the year.
    pub near: Option<Nanos>,
    /// The input was written before this moment (the clock when it is read, a file's modification time): no log is
    /// from the future.
    pub not_after: Option<Nanos>,
    /// The input is followed: each line gets the latest year in which it does not lie after the moment at
    /// which it is read.
    pub grows: bool,
    /// The year, when the user gave it; wins over `near`.
    pub year: Option<i32>,
    /// Offset of the writer's local time from UTC, seconds east.
    pub utc_offset_s: i32,
}
