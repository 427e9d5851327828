//! Converts the clock of the kernel's programs to the wall clock.
//!
//! `bpf_ktime_get_ns` is CLOCK_MONOTONIC, which stands still while the machine sleeps and is never set. Its difference
//! to the wall clock is measured before every batch of records, so setting the clock or sleeping shifts only the
//! records that are in the ring at that moment.

use kflow_model::{Nanos, clock};
use rustix::time::{ClockId, clock_gettime};

/// Number of readings per measurement; the one with the least doubt is used.
const TRIES: usize = 3;

/// The wall clock minus the kernel's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset(i64);

impl Offset {
    /// Makes the offset from a reading of the wall clock between two readings of the monotonic clock, ns.
    pub(crate) const fn between(before: i64, wall: Nanos, after: i64) -> Self {
        let middle = before + (after - before) / 2;
        Self(wall.0.saturating_sub(middle))
    }

    pub(crate) fn measure() -> Self {
        let mut best = (i64::MAX, Self(0));
        for _ in 0..TRIES {
            let before = monotonic();
            let wall = clock::now();
            let after = monotonic();
            let doubt = after - before;
            if doubt < best.0 {
                best = (doubt, Self::between(before, wall, after));
            }
        }
        best.1
    }

    /// Converts a moment of the monotonic clock, ns, to the wall clock.
    pub(crate) fn wall(self, monotonic: u64) -> Nanos {
        let at = i64::try_from(monotonic).unwrap_or(i64::MAX);
        Nanos(at.saturating_add(self.0))
    }
}

/// Returns CLOCK_MONOTONIC, ns. `Instant` is the same clock but does not give the number.
fn monotonic() -> i64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(t.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_two_readings_is_when_the_wall_clock_was_read() {
        let offset = Offset::between(1_000, Nanos(50_000), 1_400);
        assert_eq!(offset.wall(1_200), Nanos(50_000));
        assert_eq!(offset.wall(2_200), Nanos(51_000));
        assert_eq!(offset.wall(0), Nanos(48_800));
        // A wall clock before 1970, and a time stamp that no clock gives.
        assert_eq!(Offset(-5).wall(3), Nanos(-2));
        assert_eq!(Offset(7).wall(u64::MAX), Nanos(i64::MAX));
    }

    #[test]
    fn now_is_now() {
        let (before, offset) = (clock::now(), Offset::measure());
        let mapped = offset.wall(u64::try_from(monotonic()).unwrap());
        let after = clock::now();
        // A step of the wall clock between the lines would be more than this.
        let slack = 1_000_000;
        assert!(
            mapped.since(before) >= -slack && after.since(mapped) >= -slack,
            "{before:?} {mapped:?} {after:?}"
        );
    }
}
