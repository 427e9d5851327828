//! Which year, and which zone: klog writes neither.

use super::header::LocalTime;
use crate::TimeHint;
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;

const DAY: i64 = 86_400;
/// The steps in which zones differ: 15 minutes, s.
const ZONE_STEP: i64 = 900;
/// Zones lie between UTC-12 and UTC+14, s.
const ZONE_MAX: i64 = 14 * 3600;

/// Turns local times into moments, line after line.
///
/// The first line takes its year from what wrapped it, the user, or a moment near the input. Every later line
/// continues from the one before it: over New Year forwards, and backwards when an older file follows.
#[derive(Debug)]
pub(super) struct Years {
    hint: TimeHint,
    /// Year and month of the last line.
    last: Option<(i64, u32)>,
}

impl Years {
    pub(super) const fn new(hint: TimeHint) -> Self {
        Self { hint, last: None }
    }

    /// The moment of a local time. `received` is when a wrapper got the line; it also gives away the zone.
    /// `None` for a date that its year does not have.
    pub(super) fn settle(&mut self, t: LocalTime, received: Option<Nanos>) -> Option<Nanos> {
        let mut offset = i64::from(self.hint.utc_offset_s);
        let year = match (received, self.last, self.hint.year) {
            (Some(r), ..) => nearest_year(r, offset, t.month),
            (None, Some((y, m)), _) => continued(y, m, t.month),
            (None, None, Some(y)) => i64::from(y),
            (None, None, None) => match self.hint.near {
                Some(near) => nearest_year(near, offset, t.month),
                // Nothing tells: a year in which every date exists.
                None => 1972,
            },
        };
        self.last = Some((year, t.month));
        if t.day > days_in(year, t.month) {
            return None;
        }
        let local = days(year, t.month, t.day) * DAY * SECOND + t.nanos;
        if let Some(r) = received {
            // The wrapper's clock is the writer's: they differ by the zone and by the time that writing took.
            let apart =
                (local - r.0 + ZONE_STEP / 2 * SECOND).div_euclid(ZONE_STEP * SECOND) * ZONE_STEP;
            if apart.abs() <= ZONE_MAX {
                offset = apart;
            }
        }
        Some(Nanos(local - offset * SECOND))
    }
}

/// The year of a month that follows (`year`, `month`) in a log: less than half a year away in either direction.
const fn continued(year: i64, month: u32, next: u32) -> i64 {
    let apart = next as i64 - month as i64;
    if apart < -6 {
        year + 1
    } else if apart > 6 {
        year - 1
    } else {
        year
    }
}

fn nearest_year(near: Nanos, offset: i64, month: u32) -> i64 {
    let (y, m, _) = civil((near.0.div_euclid(SECOND) + offset).div_euclid(DAY));
    continued(y, m, month)
}

/// Days from the epoch to a date (Howard Hinnant's `days_from_civil`).
pub(super) const fn days(year: i64, month: u32, day: u32) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let mp = (month as i64 + 9) % 12;
    let doy = (153 * mp + 2) / 5 + day as i64 - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// Date of a day since the epoch (Howard Hinnant's `civil_from_days`).
const fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    (yoe + era * 400 + (month <= 2) as i64, month, day)
}

const fn days_in(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(s: &str) -> Nanos {
        Nanos::parse_rfc3339(s).unwrap().0
    }
    const fn local(month: u32, day: u32, seconds: i64) -> LocalTime {
        LocalTime {
            month,
            day,
            nanos: seconds * SECOND,
        }
    }
    fn near(s: &str) -> Years {
        Years::new(TimeHint {
            near: Some(at(s)),
            ..TimeHint::default()
        })
    }

    #[test]
    fn new_year_is_crossed_in_both_directions() {
        let mut y = near("2026-12-31T23:59:00Z");
        assert_eq!(
            y.settle(local(12, 31, 86_399), None),
            Some(at("2026-12-31T23:59:59Z"))
        );
        assert_eq!(
            y.settle(local(1, 1, 0), None),
            Some(at("2027-01-01T00:00:00Z"))
        );
        assert_eq!(
            y.settle(local(12, 31, 0), None),
            Some(at("2026-12-31T00:00:00Z"))
        );
        // the hint lies after New Year, the log begins before it
        let mut y = near("2027-01-01T00:10:00Z");
        assert_eq!(
            y.settle(local(12, 31, 0), None),
            Some(at("2026-12-31T00:00:00Z"))
        );
    }

    #[test]
    fn the_users_year_wins_over_a_moment_nearby() {
        let mut y = Years::new(TimeHint {
            near: Some(at("2026-06-01T00:00:00Z")),
            year: Some(2020),
            utc_offset_s: 3600,
        });
        assert_eq!(
            y.settle(local(2, 29, 0), None),
            Some(at("2020-02-28T23:00:00Z"))
        );
    }

    #[test]
    fn a_wrapper_tells_year_and_zone() {
        let mut y = Years::new(TimeHint::default());
        assert_eq!(
            y.settle(
                local(1, 1, 5 * 3600 + 1800),
                Some(at("2027-01-01T00:00:00.2Z"))
            ),
            Some(at("2027-01-01T00:00:00Z")),
            "UTC+05:30"
        );
        assert_eq!(
            y.settle(local(12, 31, 20 * 3600), Some(at("2027-01-01T01:00:00.2Z"))),
            Some(at("2027-01-01T01:00:00Z")),
            "UTC-05:00"
        );
    }

    #[test]
    fn a_date_that_the_year_does_not_have_is_none() {
        assert_eq!(
            near("2026-03-01T00:00:00Z").settle(local(2, 29, 0), None),
            None
        );
        assert_eq!(
            near("2026-03-01T00:00:00Z").settle(local(4, 31, 0), None),
            None
        );
    }

    proptest! {
        #[test]
        fn dates_round_trip(d in -200_000_i64..200_000) {
            let (y, m, day) = civil(d);
            prop_assert_eq!(days(y, m, day), d);
        }
    }
}
