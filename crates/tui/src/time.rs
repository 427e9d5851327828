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

/// From how far away a moment is told with its year, ns.
const YEAR: i64 = 360 * units::DAY;

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
    /// Formats a moment with as many fractional digits as `precision` (ns) allows, at most `digits`. On the wall clock, one
    /// that is [far](Self::is_far) has its date.
    pub fn at(&self, at: Nanos, precision: u32, digits: usize) -> String {
        let digits = digits.min(units::digits(precision));
        match self.from() {
            Some(from) => signed(at.since(from), digits),
            None => self.dated(at, digits),
        }
    }
    /// Formats a moment like [`at`](Self::at), with as much of it as fits into these columns: digits are left out first,
    /// and of a date and time what is finest.
    pub fn within(&self, at: Nanos, precision: u32, digits: usize, columns: u16) -> String {
        let fits = |text: &String| width(text) <= usize::from(columns);
        let mut texts = (0..=digits).rev().map(|n| self.at(at, precision, n));
        if let Some(text) = texts.find(fits) {
            return text;
        }
        let whole = self.at(at, precision, 0);
        if self.from().is_some() || !self.is_far(at) {
            return whole;
        }
        // Of `2026-11-21 00:24:27`: what tells it from other moments, in fewer and fewer columns.
        let parts = if at.since(self.now).saturating_abs() < YEAR {
            [5..19, 5..16, 5..10]
        } else {
            [0..16, 0..10, 2..10]
        };
        let mut parts = parts.into_iter().filter_map(|part| whole.get(part));
        let found = parts.find(|text| width(text) <= usize::from(columns));
        found.map_or_else(|| whole.clone(), str::to_owned)
    }
    /// Returns the origin that moments are counted from; `None` for the wall clock.
    fn from(&self) -> Option<Nanos> {
        match self.clock {
            Clock::Absolute => None,
            Clock::Relative => Some(self.now),
            Clock::SinceCreation => self.origin,
        }
    }
    /// Returns true for a moment a day or longer away from the shown time: its time of day alone would be taken for that of
    /// the shown day.
    pub const fn is_far(&self, at: Nanos) -> bool {
        at.since(self.now).saturating_abs() >= units::DAY
    }
    /// As [`wall`](Self::wall), with the date where the moment is [far](Self::is_far).
    pub fn dated(&self, at: Nanos, digits: usize) -> String {
        if self.is_far(at) {
            units::date_and_clock(at, digits.min(3), self.zone.east(at))
        } else {
            self.wall(at, digits)
        }
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

    fn shown_at(now: Nanos) -> TimeFormat {
        TimeFormat {
            now,
            ..TimeFormat::default()
        }
    }

    #[test]
    fn what_is_a_day_away_has_a_date_in_as_many_columns_as_there_are() {
        let f = shown_at(NOON);
        let at = NOON.plus(-units::DAY - 3 * SECOND);
        assert_eq!(f.at(at.plus(4 * SECOND), 1, 0), "14:13:21");
        assert_eq!(f.at(at, 1, 3), "2026-09-20 14:13:17.000");
        for (columns, text) in [
            (23, "2026-09-20 14:13:17.000"),
            (19, "2026-09-20 14:13:17"),
            (15, "09-20 14:13:17"),
            (12, "09-20 14:13"),
            (8, "09-20"),
        ] {
            assert_eq!(f.within(at, 1, 3, columns), text, "{columns}");
        }
        let last_year = NOON.plus(-400 * units::DAY);
        assert_eq!(f.within(last_year, 1, 3, 12), "2025-08-17");
        assert_eq!(f.within(last_year, 1, 3, 8), "25-08-17");
        // What is counted from a moment needs none.
        let f = TimeFormat {
            clock: Clock::Relative,
            ..f
        };
        assert_eq!(f.within(at, 1, 0, 12), "-24h00m03s");
        assert_eq!(f.dated(at, 0), "2026-09-20 14:13:17");
    }
    #[test]
    fn digits_are_never_invented() {
        let f = shown_at(NOON);
        let at = NOON.plus(123_456_789);
        assert_eq!(f.at(at, 1, 9).len(), "00:00:00.123456789".len());
        assert!(f.at(at, 1_000, 9).ends_with(".123456"));
        assert!(!f.at(at, 1_000_000_000, 9).contains('.'));
        assert!(f.at(at, 1, 3).ends_with(".123"));
    }
    #[test]
    fn a_time_has_as_many_digits_as_fit_and_is_never_cut() {
        let f = shown_at(NOON);
        let at = NOON.plus(123_456_789);
        for (columns, end) in [
            (15, ".123456"),
            (14, ".12345"),
            (12, ".123"),
            (9, ":20"),
            (8, ":20"),
        ] {
            let text = f.within(at, 1, 6, columns);
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
