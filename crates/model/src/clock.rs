//! The only place that asks the system what time it is.
//!
//! There are two clocks, and their types do not mix. The wall clock ([`now`], [`Nanos`]) stamps what was seen; it can be
//! set back or forth at any time. The monotonic clock ([`monotonic`], [`Instant`]) paces: pictures, flushes, time-outs and
//! ages of buffers. [`Steps`] compares the two.

use std::time::{Duration, Instant};

use crate::Nanos;
use crate::stamp::SECOND;

/// Smallest change of the wall clock against the monotonic one that counts as a step, ns. A clock that is slewed
/// gains or loses 0.5 ms in a second (`MAX_TICKADJ` and 500 ppm in Linux' kernel/time/ntp.c), far less between two looks.
pub const STEP: i64 = 100_000_000;

/// Now, by the wall clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Nanos {
    let d = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Nanos(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// Now, by the monotonic clock. It stands still while the machine sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Both clocks, read one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The wall clock.
    pub wall: Nanos,
    /// The monotonic clock, just before.
    pub monotonic: Instant,
    /// Time between the two readings at most.
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

/// How far another machine's clock is ahead of this one's, ns: between `ahead - within` and `ahead + within`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    pub ahead_ns: i64,
    pub within_ns: i64,
}

impl Offset {
    /// Of a clock that was read at some moment between two others.
    pub fn between(sent: Nanos, there: Nanos, received: Nanos) -> Self {
        let half = received.since(sent).max(0) / 2;
        Self {
            ahead_ns: there.since(sent.plus(half)),
            within_ns: half.saturating_add(1),
        }
    }
    /// The same of a clock that told the whole second that it was in.
    #[must_use]
    pub const fn to_the_second(self) -> Self {
        Self {
            ahead_ns: self.ahead_ns.saturating_add(SECOND / 2),
            within_ns: self.within_ns.saturating_add(SECOND / 2),
        }
    }
    /// What is in doubt once [`certain_ns`](Self::certain_ns) is taken off, ns.
    pub fn doubt_ns(self) -> i64 {
        if self.certain_ns() == 0 {
            self.within_ns
                .saturating_add(self.ahead_ns.saturating_abs())
        } else {
            self.within_ns
        }
    }
    /// What the two clocks differ for certain, ns: 0 where they may agree.
    pub fn certain_ns(self) -> i64 {
        if self.ahead_ns.saturating_abs() > self.within_ns {
            self.ahead_ns
        } else {
            0
        }
    }
}

/// Finds steps of the wall clock: it was set, or the machine slept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    last: Option<Reading>,
}

impl Steps {
    /// By how much the wall clock has moved against the monotonic one since the last look, ns, when that is a step.
    pub fn look(&mut self, now: Reading) -> Option<i64> {
        let last = self.last.replace(now)?;
        let passed = nanos(now.monotonic.saturating_duration_since(last.monotonic));
        let by = now.wall.since(last.wall).saturating_sub(passed);
        // A thread that lost the processor between two readings has not seen a step.
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
    use crate::stamp::MILLI;

    fn reading(base: Instant, monotonic_ms: u64, wall_ms: i64, apart_ms: u64) -> Reading {
        Reading {
            wall: Nanos(1_000 * SECOND + wall_ms * MILLI),
            monotonic: base + Duration::from_millis(monotonic_ms),
            apart: Duration::from_millis(apart_ms),
        }
    }

    #[test]
    fn a_clock_that_was_read_between_two_moments_is_off_by_what_these_allow() {
        for (sent, there, received, ahead, certain) in [
            (0, 5_000, 10, 4_995, 4_995),
            (1_000, 1_004, 1_010, -1, 0),
            (1_000, 0, 1_010, -1_005, -1_005),
            // The own clock was set back meanwhile.
            (1_010, 1_000, 1_000, -10, -10),
        ] {
            let o = Offset::between(Nanos(sent), Nanos(there), Nanos(received));
            assert_eq!((o.ahead_ns, o.certain_ns()), (ahead, certain));
            assert!(o.within_ns * 2 >= received - sent);
        }
        // Said to the second: half of one more in doubt.
        let said = Nanos::parse_http_date("Wed, 25 Nov 2026 14:45:14 GMT").unwrap();
        let sent = said.plus(400 * MILLI);
        let o = Offset::between(sent, said, sent.plus(20 * MILLI)).to_the_second();
        assert_eq!((o.ahead_ns, o.certain_ns()), (90 * MILLI, 0));
        assert_eq!(
            (o.within_ns, o.doubt_ns()),
            (510 * MILLI + 1, 600 * MILLI + 1)
        );
    }

    #[test]
    fn a_step_is_a_change_of_one_clock_against_the_other() {
        let base = monotonic();
        let mut steps = Steps::default();
        let hour = 3_600_000;
        let table = [
            (reading(base, 0, 0, 0), None),
            // Time passes for both.
            (reading(base, 100, 100, 0), None),
            (reading(base, 60_000, 60_000, 0), None),
            // Slewed.
            (reading(base, 61_000, 61_001, 0), None),
            // Set back by an hour, and forth.
            (reading(base, 61_100, 61_101 - hour, 0), Some(-hour * MILLI)),
            (reading(base, 61_200, 61_201 - hour, 0), None),
            (reading(base, 61_300, 61_301, 0), Some(hour * MILLI)),
            // Read 300 ms apart: 250 ms are no step.
            (reading(base, 61_400, 61_651, 300), None),
            // Slept for a second.
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
