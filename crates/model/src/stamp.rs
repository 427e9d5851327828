//! When something happened, how exactly that is known, and when kflow learned of it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// Nanoseconds since the Unix epoch, by the clock of whoever wrote the time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub i64);

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLI: i64 = 1_000_000;
/// Nanoseconds in a microsecond.
pub const MICRO: i64 = 1_000;

impl Nanos {
    /// Returns the moment `s` whole seconds after the epoch, saturating.
    pub const fn from_secs(s: i64) -> Self {
        Self(s.saturating_mul(SECOND))
    }
    /// This moment plus a number of nanoseconds, saturating.
    #[must_use]
    pub const fn plus(self, ns: i64) -> Self {
        Self(self.0.saturating_add(ns))
    }
    /// Nanoseconds from `earlier` to this moment, negative when it is later, saturating.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
    /// Returns the precision, ns, of a time whose source is not known: the API's times have whole seconds, others have nanoseconds.
    pub const fn likely_precision(self) -> u32 {
        if self.0 % SECOND == 0 {
            SECOND as u32
        } else {
            1
        }
    }
    /// Parses RFC 3339 with any number of fractional digits. Returns the moment and its precision in ns by the digits
    /// written: one second for `…:05Z`, a microsecond for six digits, and so on.
    pub fn parse_rfc3339(s: &str) -> Option<(Self, u32)> {
        let t = chrono::DateTime::parse_from_rfc3339(s).ok()?;
        let ns = t.timestamp_nanos_opt()?;
        let digits = s.split_once('.').map_or(0, |(_, frac)| {
            frac.bytes().take_while(u8::is_ascii_digit).count()
        });
        let precision = 10_u32
            .checked_pow(9_u32.saturating_sub(u32::try_from(digits).unwrap_or(9)))
            .unwrap_or(1);
        Some((Self(ns), precision))
    }
    /// Parses a date as HTTP headers and kubectl have it: `Wed, 25 Nov 2026 14:45:14 GMT` (RFC 9110, 5.6.7), `… +0000`.
    pub fn parse_rfc2822(s: &str) -> Option<Self> {
        let t = chrono::DateTime::parse_from_rfc2822(s).ok()?;
        t.timestamp_nanos_opt().map(Self)
    }
    /// Returns the moment as RFC 3339 in UTC with nine fractional digits.
    pub fn to_rfc3339(self) -> String {
        chrono::DateTime::from_timestamp_nanos(self.0)
            .to_rfc3339_opts(chrono::SecondsFormat::Nanos, true)
    }

    /// The same without the fraction of its second.
    pub fn to_rfc3339_seconds(self) -> String {
        chrono::DateTime::from_timestamp_nanos(self.0)
            .to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
    }
}

impl Add<i64> for Nanos {
    type Output = Self;
    fn add(self, ns: i64) -> Self {
        self.plus(ns)
    }
}
impl Sub for Nanos {
    type Output = i64;
    fn sub(self, earlier: Self) -> i64 {
        self.since(earlier)
    }
}
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// When an observation happened: somewhere in `[at, at + precision)` by the source's clock.
///
/// An API timestamp `12:00:05Z` is truncated, so it means `[12:00:05, 12:00:06)`: precision one second. A byte that the
/// tap sees has a precision of 1 ns. No source's precision is overstated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Earliest moment, by the source's clock.
    #[serde(rename = "t")]
    pub at: Nanos,
    /// Width of the interval in ns, at least 1.
    #[serde(rename = "p", default = "one", skip_serializing_if = "is_one")]
    pub precision: u32,
    /// When kflow (or the recorder) received it, by kflow's clock. Sessions are in this order.
    #[serde(rename = "s")]
    pub seen: Nanos,
}

const fn one() -> u32 {
    1
}
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_one(p: &u32) -> bool {
    *p == 1
}

impl Stamp {
    /// Returns a stamp that is exact to the nanosecond, with `seen` equal to `at`.
    pub const fn exact(at: Nanos) -> Self {
        Self {
            at,
            precision: 1,
            seen: at,
        }
    }
    /// A stamp with its own precision and time of arrival.
    pub const fn new(at: Nanos, precision: u32, seen: Nanos) -> Self {
        Self {
            at,
            precision,
            seen,
        }
    }
    /// Returns the end of the interval, exclusive.
    pub const fn until(&self) -> Nanos {
        self.at.plus(self.precision as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_keeps_the_precision_that_was_written() {
        assert_eq!(
            Nanos::parse_rfc3339("1970-01-01T00:00:01Z"),
            Some((Nanos(SECOND), 1_000_000_000))
        );
        assert_eq!(
            Nanos::parse_rfc3339("1970-01-01T00:00:01.000002Z"),
            Some((Nanos(SECOND + 2000), 1000))
        );
        assert_eq!(
            Nanos::parse_rfc3339("1970-01-01T01:00:01.5+01:00"),
            Some((Nanos(SECOND * 3 / 2), 100_000_000))
        );
        assert_eq!(
            Nanos::parse_rfc3339("1970-01-01T00:00:00.000000007Z"),
            Some((Nanos(7), 1))
        );
        assert_eq!(Nanos::parse_rfc3339("yesterday"), None);
    }
}
