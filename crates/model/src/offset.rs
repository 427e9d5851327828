//! How far the clocks of two machines are apart.

use crate::Nanos;
use crate::stamp::SECOND;

/// How far another machine's clock is ahead of this machine's clock, ns: between `ahead - within` and `ahead + within`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    pub ahead_ns: i64,
    pub within_ns: i64,
}

impl Offset {
    /// Returns the offset of a clock that was read (`there`) at some moment between `sent` and `received` of this
    /// machine's clock.
    pub fn between(sent: Nanos, there: Nanos, received: Nanos) -> Self {
        let half = received.since(sent).max(0) / 2;
        Self {
            ahead_ns: there.since(sent.plus(half)),
            within_ns: half.saturating_add(1),
        }
    }
    /// Returns the offset when the other clock was read in whole seconds, as it truncates to the second.
    #[must_use]
    pub const fn to_the_second(self) -> Self {
        Self {
            ahead_ns: self.ahead_ns.saturating_add(SECOND / 2),
            within_ns: self.within_ns.saturating_add(SECOND / 2),
        }
    }
    /// Returns the uncertainty that remains after [`certain_ns`](Self::certain_ns) is subtracted, ns.
    pub fn doubt_ns(self) -> i64 {
        if self.certain_ns() == 0 {
            self.within_ns
                .saturating_add(self.ahead_ns.saturating_abs())
        } else {
            self.within_ns
        }
    }
    /// Returns by how many ns the clocks certainly differ; 0 when they may agree.
    pub fn certain_ns(self) -> i64 {
        if self.ahead_ns.saturating_abs() > self.within_ns {
            self.ahead_ns
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::MILLI;

    #[test]
    fn a_clock_that_was_read_between_two_moments_is_off_by_what_these_allow() {
        for (sent, there, received, ahead, certain) in [
            (0, 5_000, 10, 4_995, 4_995),
            (1_000, 1_004, 1_010, -1, 0),
            (1_000, 0, 1_010, -1_005, -1_005),
            // This machine's clock was set back between `sent` and `received`.
            (1_010, 1_000, 1_000, -10, -10),
        ] {
            let o = Offset::between(Nanos(sent), Nanos(there), Nanos(received));
            assert_eq!((o.ahead_ns, o.certain_ns()), (ahead, certain));
            assert!(o.within_ns * 2 >= received - sent);
        }
        // Reported in whole seconds: half a second more of uncertainty.
        let said = Nanos::parse_rfc2822("Wed, 25 Nov 2026 14:45:14 GMT").unwrap();
        let sent = said.plus(400 * MILLI);
        let o = Offset::between(sent, said, sent.plus(20 * MILLI)).to_the_second();
        assert_eq!((o.ahead_ns, o.certain_ns()), (90 * MILLI, 0));
        assert_eq!(
            (o.within_ns, o.doubt_ns()),
            (510 * MILLI + 1, 600 * MILLI + 1)
        );
    }
}
