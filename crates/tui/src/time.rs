//! Formats of moments: as wall clock, relative to the shown time, or since the pod's creation.

use super::text::width;
use super::timezone::Zone;
use kflow_model::{Nanos, units};

/// Which clock is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Wall clock.
    #[default]
    Absolute,
    /// Relative to the shown time: `-12.3s`.
    Relative,
    /// Since the creation of the selected pod: `+4.032s`.
    SinceCreation,
}

impl Clock {
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Absolute => Self::Relative,
            Self::Relative => Self::SinceCreation,
            Self::SinceCreation => Self::Absolute,
        }
    }
    /// Returns the name that the status bar shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absolute => "absolute",
            Self::Relative => "relative to now",
            Self::SinceCreation => "since creation",
        }
    }
}

/// Format of moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeFormat {
    pub clock: Clock,
    /// Time zone of the wall clock.
    pub zone: Zone,
    /// Origin of relative times.
    pub now: Nanos,
    /// Origin of times since creation; `None` if no pod is selected.
    pub origin: Option<Nanos>,
}

impl TimeFormat {
    /// Formats a moment with as many fractional digits as `precision` (ns) allows, at most `digits`.
    pub fn at(&self, at: Nanos, precision: u32, digits: usize) -> String {
        let digits = digits.min(units::digits(precision));
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
    /// Formats a moment like [`at`](Self::at), with as many digits as fit into these columns.
    pub fn within(&self, at: Nanos, precision: u32, columns: u16) -> String {
        let fits = |text: &String| width(text) <= usize::from(columns);
        let mut texts = (0..=6).rev().map(|digits| self.at(at, precision, digits));
        let found = texts.find(fits);
        found.unwrap_or_else(|| self.at(at, precision, 0))
    }
    /// Formats a moment as wall clock, regardless of `clock`, with this many fractional digits.
    pub fn wall(&self, at: Nanos, digits: usize) -> String {
        units::clock(at, digits, self.zone.east(at))
    }
    /// Formats a moment as date, wall clock and zone, for details.
    pub fn full(&self, at: Nanos, precision: u32) -> String {
        let text = units::date_and_clock(at, units::digits(precision), self.zone.east(at));
        format!("{text} {}", self.zone_at(at))
    }
    /// Returns the zone's offset at a moment: `UTC` or `+02:00`.
    pub fn zone_at(&self, at: Nanos) -> String {
        match self.zone.east(at) {
            0 => "UTC".to_owned(),
            east => {
                let sign = if east < 0 { '-' } else { '+' };
                let minutes = east.abs() / 60;
                format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

/// Formats an offset with its sign: `+4.032s`, `-1m12.5s`.
pub fn signed(ns: i64, digits: usize) -> String {
    let sign = if ns < 0 { "" } else { "+" };
    format!("{sign}{}", units::offset(ns, digits))
}

/// Describes a precision (ns): `exact to 1ns`, `within 1.00µs`.
pub fn precision(ns: u32) -> String {
    match ns {
        0 | 1 => "exact to 1ns".to_owned(),
        n => format!("within {}", units::duration(n.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::stamp::SECOND;

    const NOON: Nanos = Nanos(1_790_000_000 * SECOND);

    #[test]
    fn digits_are_never_invented() {
        let f = TimeFormat::default();
        let at = NOON.plus(123_456_789);
        assert_eq!(f.at(at, 1, 9).len(), "00:00:00.123456789".len());
        assert!(f.at(at, 1_000, 9).ends_with(".123456"));
        assert!(!f.at(at, 1_000_000_000, 9).contains('.'));
        assert!(f.at(at, 1, 3).ends_with(".123"));
    }
    #[test]
    fn a_time_has_as_many_digits_as_fit_and_is_never_cut() {
        let f = TimeFormat::default();
        let at = NOON.plus(123_456_789);
        for (columns, end) in [
            (15, ".123456"),
            (14, ".12345"),
            (12, ".123"),
            (9, ":20"),
            (8, ":20"),
        ] {
            let text = f.within(at, 1, columns);
            assert!(
                text.len() <= usize::from(columns) && text.ends_with(end),
                "{columns} {text}"
            );
        }
    }
    #[test]
    fn clocks_count_from_now_and_from_creation() {
        let mut f = TimeFormat {
            clock: Clock::Relative,
            zone: Zone::default(),
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
