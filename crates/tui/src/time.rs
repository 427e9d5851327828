//! Moments as people read them: absolute, relative to the view's own time, or since the pod's creation.

use chrono::{DateTime, FixedOffset};
use kflow_model::Nanos;
use kflow_model::stamp::{MICRO, MILLI, SECOND};

/// Which clock is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Wall clock.
    #[default]
    Absolute,
    /// Before the time that the view shows: `-12.3s`.
    Relative,
    /// Since the creation of the selected pod: `+4.032s`.
    SinceCreation,
}

impl Clock {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Absolute => Self::Relative,
            Self::Relative => Self::SinceCreation,
            Self::SinceCreation => Self::Absolute,
        }
    }
    /// Name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absolute => "absolute",
            Self::Relative => "relative to now",
            Self::SinceCreation => "since creation",
        }
    }
}

/// How moments are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeFormat {
    /// Which clock.
    pub clock: Clock,
    /// UTC instead of local time.
    pub utc: bool,
    /// Local time's offset from UTC, seconds east.
    pub offset_s: i32,
    /// What relative times count from.
    pub now: Nanos,
    /// What "since creation" counts from.
    pub origin: Option<Nanos>,
}

impl TimeFormat {
    fn local(&self, at: Nanos) -> DateTime<FixedOffset> {
        let offset = if self.utc { 0 } else { self.offset_s };
        let utc = DateTime::from_timestamp_nanos(at.0);
        FixedOffset::east_opt(offset).map_or_else(|| utc.fixed_offset(), |o| utc.with_timezone(&o))
    }
    /// A moment with as many digits as `precision` (ns) allows, at most `digits` after the second.
    pub fn at(&self, at: Nanos, precision: u32, digits: usize) -> String {
        let digits = digits.min(digits_of(precision));
        let from = match self.clock {
            Clock::Absolute => return self.wall(at, digits),
            Clock::Relative => self.now,
            Clock::SinceCreation => match self.origin {
                Some(o) => o,
                None => return self.wall(at, digits),
            },
        };
        signed(at.since(from), digits)
    }
    /// Wall clock whatever the clock is, with this many digits.
    pub fn wall(&self, at: Nanos, digits: usize) -> String {
        let d = self.local(at);
        let mut s = d.format("%H:%M:%S").to_string();
        push_fraction(&mut s, at.0.rem_euclid(SECOND), digits);
        s
    }
    /// Date and wall clock with the zone, for details.
    pub fn full(&self, at: Nanos, precision: u32) -> String {
        let d = self.local(at);
        let mut s = d.format("%Y-%m-%d %H:%M:%S").to_string();
        push_fraction(&mut s, at.0.rem_euclid(SECOND), digits_of(precision));
        s.push(' ');
        s.push_str(&self.zone(at));
        s
    }
    /// `UTC` or `+02:00`.
    pub fn zone(&self, at: Nanos) -> String {
        if self.utc || self.offset_s == 0 {
            "UTC".to_owned()
        } else {
            self.local(at).format("%:z").to_string()
        }
    }
}

/// Digits after the second that a precision in ns allows.
pub const fn digits_of(precision: u32) -> usize {
    match precision {
        0..=9 => 9,
        10..=999 => 8,
        1_000..=9_999 => 6,
        10_000..=999_999 => 5,
        1_000_000..=9_999_999 => 3,
        10_000_000..=99_999_999 => 2,
        100_000_000..=999_999_999 => 1,
        _ => 0,
    }
}

fn push_fraction(s: &mut String, ns: i64, digits: usize) {
    if digits > 0 {
        let all = format!("{ns:09}");
        s.push('.');
        s.extend(all.chars().take(digits));
    }
}

/// `+4.032s`, `-1m12.5s`.
pub fn signed(ns: i64, digits: usize) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    let n = ns.saturating_abs();
    let (m, s) = (n / SECOND / 60, n / SECOND % 60);
    let mut out = String::new();
    out.push(sign);
    if m >= 60 {
        out.push_str(&format!("{}h{:02}m{s:02}", m / 60, m % 60));
    } else if m > 0 {
        out.push_str(&format!("{m}m{s:02}"));
    } else {
        out.push_str(&s.to_string());
    }
    push_fraction(&mut out, n % SECOND, digits);
    out.push('s');
    out
}

/// How exact a precision is, in words: `exact`, `±1µs`, `whole seconds`.
pub fn precision(ns: u32) -> String {
    match i64::from(ns) {
        0 | 1 => "exact to 1ns".to_owned(),
        n if n < MICRO => format!("within {n}ns"),
        n if n < MILLI => format!("within {}µs", n / MICRO),
        n if n < SECOND => format!("within {}ms", n / MILLI),
        n => format!("within {}s", n / SECOND),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Nanos = Nanos(1_790_000_000 * SECOND);

    #[test]
    fn digits_are_never_invented() {
        let f = TimeFormat {
            utc: true,
            ..TimeFormat::default()
        };
        let at = NOON.plus(123_456_789);
        assert_eq!(f.at(at, 1, 9).len(), "00:00:00.123456789".len());
        assert!(f.at(at, 1_000, 9).ends_with(".123456"));
        assert!(!f.at(at, 1_000_000_000, 9).contains('.'));
        assert!(f.at(at, 1, 3).ends_with(".123"));
    }
    #[test]
    fn clocks_count_from_now_and_from_creation() {
        let mut f = TimeFormat {
            clock: Clock::Relative,
            utc: true,
            offset_s: 0,
            now: NOON,
            origin: Some(NOON.plus(-10 * SECOND)),
        };
        assert_eq!(f.at(NOON.plus(-1_500_000_000), 1, 1), "-1.5s");
        f.clock = Clock::SinceCreation;
        assert_eq!(f.at(NOON.plus(90 * SECOND), 1_000_000_000, 3), "+1m40s");
        f.origin = None;
        assert!(f.at(NOON, 1, 0).contains(':'));
    }
}
