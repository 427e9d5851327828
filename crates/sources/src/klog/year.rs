//! Finds the year and the time zone of klog's times, which have neither.

use super::header::LocalTime;
use crate::TimeHint;
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;

const DAY: i64 = 86_400;
/// Time zones differ by multiples of 15 minutes; in seconds.
const ZONE_STEP: i64 = 900;
/// Time zones lie between UTC-12 and UTC+14; in seconds.
const ZONE_MAX: i64 = 14 * 3600;

/// Turns local times into moments, line by line.
///
/// The first line takes its year from what wrapped it, from the user, or from a moment near the input; else it gets
/// the latest year in which it lies before the reading of the input. Every later line continues from the line before
/// it: forwards over New Year, and backwards when an older file follows. No line lies after the reading. In a log
/// that is followed, every line is read when it is written, so each gets the latest such year by itself, however long
/// nothing was written.
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

    /// Sets the moment at which the lines that follow are read, if the log is followed.
    pub(super) const fn reads_at(&mut self, now: Nanos) {
        if self.hint.grows {
            self.hint.not_after = Some(now);
        }
    }

    /// Returns the moment of a local time; `None` for a date that its year does not have. `received` is when a
    /// wrapper received the line, which also reveals the zone.
    pub(super) fn resolve(&mut self, t: LocalTime, received: Option<Nanos>) -> Option<Nanos> {
        let mut offset = i64::from(self.hint.utc_offset_s);
        let followed = self.hint.not_after.filter(|_| self.hint.grows);
        let year = match (received.or(followed), self.last, self.hint.year) {
            (Some(r), ..) if received.is_some() => nearest_year(r, offset, t.month),
            (Some(read), ..) => self.latest(read, t, offset),
            (None, Some((y, m)), _) => self.written(continued(y, m, t.month), t, offset),
            (None, None, Some(y)) => i64::from(y),
            (None, None, None) => match (self.hint.near, self.hint.not_after) {
                (Some(near), _) => self.written(nearest_year(near, offset, t.month), t, offset),
                (None, Some(read)) => self.latest(read, t, offset),
                // Nothing is known: a leap year, in which every date exists.
                (None, None) => 1972,
            },
        };
        self.last = Some((year, t.month));
        if t.day > days_in(year, t.month) {
            return None;
        }
        let local = days(year, t.month, t.day) * DAY * SECOND + t.nanos;
        if let Some(r) = received {
            // The wrapper's clock is the writer's: the two times differ by the zone and by how long the writing took.
            let apart =
                (local - r.0 + ZONE_STEP / 2 * SECOND).div_euclid(ZONE_STEP * SECOND) * ZONE_STEP;
            if apart.abs() <= ZONE_MAX {
                offset = apart;
            }
        }
        Some(Nanos(local - offset * SECOND))
    }

    /// Returns `year`, or the year before if the moment would lie after the reading of the input. One day of
    /// tolerance, because the zone is not certain.
    fn written(&self, year: i64, t: LocalTime, offset: i64) -> i64 {
        let at = (days(year, t.month, t.day) * DAY - offset) * SECOND + t.nanos;
        let future = self
            .hint
            .not_after
            .is_some_and(|read| at > read.plus(DAY * SECOND).0);
        if future { year - 1 } else { year }
    }

    /// Returns the latest year with this date that does not lie after the reading of the input.
    fn latest(&self, read: Nanos, t: LocalTime, offset: i64) -> i64 {
        let (now, ..) = civil((read.0.div_euclid(SECOND) + offset).div_euclid(DAY) + 1);
        let year = self.written(now, t, offset);
        // The last 29th of February is at most eight years back.
        (0..8)
            .map(|back| year - back)
            .find(|y| t.day <= days_in(*y, t.month))
            .unwrap_or(year)
    }
}

/// Returns the first full date that another program's line in a log has: logrus' `time="2026-01-20T…`, as containerd
/// and podman write it, or a date at the start of a line or of what journald wrapped. Dates inside klog's own
/// messages are not read, because they may be of any time (when a certificate ends).
pub fn full_date(text: &[u8]) -> Option<Nanos> {
    text.split(|b| *b == b'\n').find_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let logrus = line.split_once("time=\"").map(|(_, t)| t);
        let wrapped = line.split_once("]: ").map(|(_, t)| t);
        [logrus, wrapped, Some(line)]
            .into_iter()
            .flatten()
            .find_map(date)
    })
}

/// Reads `2026-01-20T10:11:12` or `2026-01-20 10:11:12`, with anything behind it.
fn date(text: &str) -> Option<Nanos> {
    let (day, time) = (text.get(..10)?, text.get(11..19)?);
    matches!(text.as_bytes().get(10), Some(b'T' | b' '))
        .then(|| Nanos::parse_rfc3339(&format!("{day}T{time}Z")))
        .flatten()
        .map(|(at, _)| at)
}

/// Returns the year of a line in month `next` after a line in (`year`, `month`): the two are at most six months
/// apart, in either direction.
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
            y.resolve(local(12, 31, 86_399), None),
            Some(at("2026-12-31T23:59:59Z"))
        );
        assert_eq!(
            y.resolve(local(1, 1, 0), None),
            Some(at("2027-01-01T00:00:00Z"))
        );
        assert_eq!(
            y.resolve(local(12, 31, 0), None),
            Some(at("2026-12-31T00:00:00Z"))
        );
        // the hint lies after New Year, the log begins before it
        let mut y = near("2027-01-01T00:10:00Z");
        assert_eq!(
            y.resolve(local(12, 31, 0), None),
            Some(at("2026-12-31T00:00:00Z"))
        );
    }

    #[test]
    fn the_users_year_wins_over_a_moment_nearby() {
        let mut y = Years::new(TimeHint {
            near: Some(at("2026-06-01T00:00:00Z")),
            not_after: Some(at("2026-06-01T00:00:00Z")),
            year: Some(2020),
            utc_offset_s: 3600,
            ..TimeHint::default()
        });
        assert_eq!(
            y.resolve(local(2, 29, 0), None),
            Some(at("2020-02-28T23:00:00Z"))
        );
    }

    #[test]
    fn a_log_is_never_from_the_future() {
        let read = |s: &str| {
            Years::new(TimeHint {
                not_after: Some(at(s)),
                ..TimeHint::default()
            })
        };
        let table = [
            // (read, month, day, year)
            ("2026-11-21T12:00:00Z", 1, 20, "2026"),
            ("2026-11-21T12:00:00Z", 11, 21, "2026"),
            // A zone ahead of UTC is a day ahead at most.
            ("2026-11-21T12:00:00Z", 11, 22, "2026"),
            ("2026-11-21T12:00:00Z", 11, 23, "2025"),
            ("2026-11-21T12:00:00Z", 12, 31, "2025"),
            ("2026-12-31T23:00:00Z", 1, 1, "2027"),
            ("2027-01-01T00:10:00Z", 12, 31, "2026"),
            ("2026-03-01T00:00:00Z", 2, 29, "2024"),
            ("2103-03-01T00:00:00Z", 2, 29, "2096"),
        ];
        for (when, month, day, year) in table {
            let got = read(when).resolve(local(month, day, 3600), None);
            let got = got.map(Nanos::to_rfc3339).unwrap_or_default();
            assert!(got.starts_with(year), "{when} {month}-{day}: {got}");
        }
        // A moment near the input may lie before the log's lines, but no line lies after the reading.
        let mut y = Years::new(TimeHint {
            near: Some(at("2026-08-01T00:00:00Z")),
            not_after: Some(at("2026-11-21T12:00:00Z")),
            ..TimeHint::default()
        });
        let got = y.resolve(local(1, 20, 0), None).map(Nanos::to_rfc3339);
        assert!(got.is_some_and(|t| t.starts_with("2026-01-20")));
        // Nor does a line that continues from another.
        let mut y = read("2026-11-21T12:00:00Z");
        y.resolve(local(11, 20, 0), None);
        let got = y.resolve(local(2, 20, 0), None).map(Nanos::to_rfc3339);
        assert!(got.is_some_and(|t| t.starts_with("2026-02-20")));
    }

    #[test]
    fn a_line_of_a_log_that_is_followed_is_of_the_year_in_which_it_is_read() {
        // Started long before the first line; over New Year, with a line of another writer that comes late; after
        // months without a line; from a zone ahead of UTC.
        let lines = [
            ("2026-12-31T23:59:30Z", 12, 31, 86_340, "2026-12-31T23:59"),
            ("2027-01-01T00:00:30Z", 1, 1, 20, "2027-01-01T00:00"),
            ("2027-01-01T00:00:31Z", 12, 31, 86_399, "2026-12-31T23:59"),
            ("2027-01-01T00:01:00Z", 1, 1, 60, "2027-01-01T00:01"),
            ("2027-11-05T10:00:00Z", 11, 5, 36_000, "2027-11-05T10:00"),
            ("2028-03-01T10:00:00Z", 3, 1, 36_000, "2028-03-01T10:00"),
            ("2028-12-31T20:00:00Z", 1, 1, 7200, "2029-01-01T02:00"),
            ("2029-01-01T00:30:00Z", 1, 1, 23_400, "2029-01-01T06:30"),
        ];
        for first in 0..lines.len() {
            let mut y = Years::new(TimeHint {
                not_after: Some(at("2026-03-01T00:00:00Z")),
                grows: true,
                ..TimeHint::default()
            });
            for (read, month, day, seconds, want) in lines.iter().skip(first) {
                y.reads_at(at(read));
                let got = y.resolve(local(*month, *day, *seconds), None);
                let got = got.map(Nanos::to_rfc3339).unwrap_or_default();
                assert!(got.starts_with(want), "{first}, {read}: {got}");
            }
        }
    }

    #[test]
    fn a_full_date_of_another_program_decides_the_year() {
        let table = [
            (
                "I0120 10:11:12.000000 1 server.go:1] \"x\"\ntime=\"2024-01-20T10:11:13.5Z\" level=info msg=y",
                Some("2024-01-20T10:11:13Z"),
            ),
            (
                "Jan 20 10:11:12 n podman[7]: 2024-01-20 10:11:12.123 +0000 UTC m=+0.1 container create",
                Some("2024-01-20T10:11:12Z"),
            ),
            (
                "2024-01-20T10:11:12+01:00 n kubelet: x",
                Some("2024-01-20T10:11:12Z"),
            ),
            (
                "I0120 10:11:12.000000 1 certificate_manager.go:356] Certificate expiration is 2025-01-20 10:11:12 +0000 UTC",
                None,
            ),
            ("2024-13-41 99:99:99", None),
            ("", None),
        ];
        for (text, date) in table {
            assert_eq!(full_date(text.as_bytes()), date.map(at), "{text}");
        }
    }

    #[test]
    fn a_wrapper_tells_year_and_zone() {
        let mut y = Years::new(TimeHint::default());
        assert_eq!(
            y.resolve(
                local(1, 1, 5 * 3600 + 1800),
                Some(at("2027-01-01T00:00:00.2Z"))
            ),
            Some(at("2027-01-01T00:00:00Z")),
            "UTC+05:30"
        );
        assert_eq!(
            y.resolve(local(12, 31, 20 * 3600), Some(at("2027-01-01T01:00:00.2Z"))),
            Some(at("2027-01-01T01:00:00Z")),
            "UTC-05:00"
        );
    }

    #[test]
    fn a_date_that_the_year_does_not_have_is_none() {
        assert_eq!(
            near("2026-03-01T00:00:00Z").resolve(local(2, 29, 0), None),
            None
        );
        assert_eq!(
            near("2026-03-01T00:00:00Z").resolve(local(4, 31, 0), None),
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
