//! The only module that reads the system's clocks.
//!
//! There are two clocks, and their types do not mix. The wall clock ([`now`], [`Nanos`]) stamps what was seen; it can
//! be set back or forth at any time. The monotonic clock ([`monotonic`], [`Instant`]) measures intervals: between
//! pictures and flushes, time-outs, and ages of buffers. [`Steps`] compares the two.

use std::time::{Duration, Instant};

use crate::Nanos;

/// Smallest change of the wall clock against the monotonic one that counts as a step, ns. A clock that is slewed gains
/// or loses at most 0.5 ms in a second (`MAX_TICKADJ` and 500 ppm in Linux' kernel/time/ntp.c), far
/// less between two readings.
pub const STEP: i64 = 100_000_000;

/// Returns the current time of the wall clock; 1970 when the clock is set before it.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Nanos {
    let d = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Nanos(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// Returns the current time of the monotonic clock, which stands still while the machine sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Both clocks, read one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Time of the wall clock.
    pub wall: Nanos,
    /// Time of the monotonic clock, read just before the wall clock.
    pub monotonic: Instant,
    /// Upper bound of the time between the two readings.
    pub apart: Duration,
}

/// Reads both clocks.
pub fn both() -> Reading {
    let monotonic = monotonic();
    let wall = now();
    Reading {
        wall,
        monotonic,
        apart: self::monotonic().saturating_duration_since(monotonic),
    }
}

/// Finds steps of the wall clock: it was set, or the machine was suspended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    last: Option<Reading>,
}

impl Steps {
    /// Returns by how many ns the wall clock has moved against the monotonic one since the previous reading, when that
    /// is a step. `None` for the first reading.
    pub fn look(&mut self, now: Reading) -> Option<i64> {
        let last = self.last.replace(now)?;
        let passed = nanos(now.monotonic.saturating_duration_since(last.monotonic));
        let by = now.wall.since(last.wall).saturating_sub(passed);
        // When the thread loses the processor between the two readings, the clocks seem to differ by as much.
        let doubt = nanos(last.apart.saturating_add(now.apart));
        (by.saturating_abs() > STEP.saturating_add(doubt)).then_some(by)
    }
}

fn nanos(d: Duration) -> i64 {
    i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::{MILLI, SECOND};

    fn reading(base: Instant, monotonic_ms: u64, wall_ms: i64, apart_ms: u64) -> Reading {
        Reading {
            wall: Nanos(1_000 * SECOND + wall_ms * MILLI),
            monotonic: base + Duration::from_millis(monotonic_ms),
            apart: Duration::from_millis(apart_ms),
        }
    }

    #[test]
    fn a_step_is_a_change_of_one_clock_against_the_other() {
        let base = monotonic();
        let mut steps = Steps::default();
        let hour = 3_600_000;
        let table = [
            (reading(base, 0, 0, 0), None),
            // Both clocks advance equally.
            (reading(base, 100, 100, 0), None),
            (reading(base, 60_000, 60_000, 0), None),
            // The wall clock is slewed.
            (reading(base, 61_000, 61_001, 0), None),
            // The wall clock is set back by an hour, and forth again.
            (reading(base, 61_100, 61_101 - hour, 0), Some(-hour * MILLI)),
            (reading(base, 61_200, 61_201 - hour, 0), None),
            (reading(base, 61_300, 61_301, 0), Some(hour * MILLI)),
            // The clocks are read up to 300 ms apart: a difference of 250 ms is no step.
            (reading(base, 61_400, 61_651, 300), None),
            // The machine sleeps for a second.
            (reading(base, 61_500, 62_750, 0), Some(999 * MILLI)),
        ];
        for (n, (now, by)) in table.into_iter().enumerate() {
            assert_eq!(steps.look(now), by, "{n}");
        }
    }

    #[test]
    fn reading_both_clocks_finds_no_step_of_its_own() {
        let mut steps = Steps::default();
        for _ in 0..10_000 {
            assert_eq!(steps.look(both()), None);
        }
    }
}
