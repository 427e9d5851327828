//! Moments of a session, as users type them on the command line and in the terminal.

use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use kflow_model::units::{DAY, parse_duration};

/// A moment of a session, before the session's range is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Moment {
    /// The session's first observation.
    #[default]
    Begin,
    /// The session's last observation.
    End,
    /// An absolute time.
    At(Nanos),
    /// A date and time in the zone that times are shown in; ns since the epoch if that is UTC.
    Local(Nanos),
    /// A time of day, ns since midnight.
    Clock(i64),
    /// A fraction of the way from the begin to the end, 0 to 1.
    Share(f64),
    /// This many ns after the current position; without a position, after the begin.
    Later(i64),
    /// This many ns before the current position; without a position, before the end.
    Earlier(i64),
}

/// The forms that [`Moment::parse`] reads, for the message about any other text.
pub const FORMS: &str = "write RFC 3339 (2026-11-21T00:27:47.2Z), a date and time (2026-11-21 00:27), a date (2026-11-21), a time of day (00:27:47.2), \
                         the time since the epoch (10 digits for seconds, 19 for nanoseconds), 40%, start, end, -5m (before the end) or +90s (after the begin)";

/// True for what began in a range (its second moment excluded), or began before and had not ended by then. What has no end
/// lasts still.
pub fn lasted_in((from, to): (Nanos, Nanos), begin: Nanos, end: Option<Nanos>) -> bool {
    begin < to && (begin >= from || end.is_none_or(|end| end > from))
}

impl Moment {
    /// Parses `12:00:05.5`, RFC 3339, a date and time with or without seconds and zone, a date (its begin), the time since the epoch, `+3s`,
    /// `-1m30s`, `40%`, `start`, `end`. `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text {
            "start" | "begin" => return Some(Self::Begin),
            "end" => return Some(Self::End),
            _ => {}
        }
        if let Some(share) = text.strip_suffix('%') {
            let share: f64 = share.trim().parse().ok()?;
            return (0.0..=100.0)
                .contains(&share)
                .then_some(Self::Share(share / 100.0));
        }
        if let Some(rest) = text.strip_prefix('+') {
            return parse_duration(rest).ok().map(Self::Later);
        }
        if let Some(rest) = text.strip_prefix('-') {
            return parse_duration(rest).ok().map(Self::Earlier);
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return since_epoch(text).map(Self::At);
        }
        dated(text).or_else(|| clock(text).map(Self::Clock))
    }

    /// Resolves the moment in a session of this range. `from` is the current position, if there is one. A time of day
    /// is local time: `east(at)` returns the zone's offset at a moment, in seconds east of UTC. A whole second in which the session
    /// begins is its begin, as that is how the begin is shown.
    pub fn within(
        self,
        range: (Nanos, Nanos),
        from: Option<Nanos>,
        east: impl Fn(Nanos) -> i32,
    ) -> Nanos {
        let (begin, end) = range;
        let shown = |at: Nanos| match begin.since(at) {
            1..SECOND if at.0 % SECOND == 0 => begin,
            _ => at,
        };
        match self {
            Self::Begin => begin,
            Self::End => end,
            Self::At(at) => shown(at),
            Self::Share(share) => begin.plus((end.since(begin) as f64 * share) as i64),
            Self::Later(ns) => from.unwrap_or(begin).plus(ns),
            Self::Earlier(ns) => from.unwrap_or(end).plus(-ns),
            Self::Local(local) => {
                let offset = |at| i64::from(east(at)) * SECOND;
                shown(local.plus(-offset(local.plus(-offset(local)))))
            }
            Self::Clock(ns) => {
                let offset = |at| i64::from(east(at)) * SECOND;
                let here = from.unwrap_or(begin);
                let midnight = here.plus(offset(here)).0.div_euclid(DAY) * DAY;
                // The offset may differ between here and there: the one at the resulting moment counts.
                let on = |day: i64| {
                    let local = Nanos(midnight).plus(day.saturating_add(ns));
                    let near = local.plus(-offset(here));
                    local.plus(-offset(local.plus(-offset(near))))
                };
                // A session may cross midnight: take the day on which the moment lies inside the range.
                [0, -DAY, DAY]
                    .into_iter()
                    .map(on)
                    .map(shown)
                    .find(|a| (begin..=end).contains(a))
                    .unwrap_or_else(|| on(0))
            }
        }
    }
}

/// Parses a time since the epoch. The number of digits tells the unit, from 2001 to 2286: 10 are s, 13 ms, 16 us, 19 ns.
fn since_epoch(digits: &str) -> Option<Nanos> {
    let unit = match digits.len() {
        10 => SECOND,
        13 => SECOND / 1_000,
        16 => SECOND / 1_000_000,
        19 => 1,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(unit).map(Nanos)
}

/// Length of hours and minutes.
const MINUTE: usize = "00:00".len();

/// Parses RFC 3339; with a space for the `T`, ` UTC` for the `Z`, or without a zone, seconds or time of day.
fn dated(text: &str) -> Option<Moment> {
    let (text, utc) = match text.strip_suffix("UTC") {
        Some(rest) => (rest.trim_end(), "Z"),
        None => (text, ""),
    };
    let (day, time) = text.split_once([' ', 'T', 't']).unwrap_or((text, "00:00"));
    let mut time = time.replace(' ', "");
    if time.is_char_boundary(MINUTE) && time.get(MINUTE..=MINUTE) != Some(":") {
        time.insert_str(MINUTE, ":00");
    }
    let text = format!("{day}T{time}{utc}");
    if let Some((at, _)) = Nanos::parse_rfc3339(&text) {
        return Some(Moment::At(at));
    }
    let (at, _) = Nanos::parse_rfc3339(&format!("{text}Z"))?;
    Some(Moment::Local(at))
}

/// Parses `12:00`, `12:00:05`, `12:00:05.5` to ns since midnight.
fn clock(text: &str) -> Option<i64> {
    let (hms, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = hms.split(':').map(|p| {
        let digits = !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| p.parse::<i64>().ok()).flatten()
    });
    let (h, m, s) = (
        parts.next()??,
        parts.next()??,
        parts.next().unwrap_or(Some(0))?,
    );
    let digits = u32::try_from(fraction.len()).ok()?;
    if parts.next().is_some() || h > 23 || m > 59 || s > 60 || !(1..=9).contains(&digits) {
        return None;
    }
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ns = fraction.parse::<i64>().ok()? * 10_i64.pow(9 - digits);
    Some((h * 3600 + m * 60 + s) * SECOND + ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Nanos = Nanos(1_790_000_000 * SECOND);
    const RANGE: (Nanos, Nanos) = (BEGIN, Nanos(1_790_000_100 * SECOND));

    fn after(ns: i64) -> Option<Nanos> {
        Some(BEGIN.plus(ns))
    }

    #[test]
    fn a_moment_is_read_in_every_form() {
        let day = BEGIN.0.rem_euclid(DAY) / SECOND + 7;
        let clock = format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60);
        for (text, nowhere, from_10_s) in [
            ("start", after(0), after(0)),
            ("begin", after(0), after(0)),
            ("end", Some(RANGE.1), Some(RANGE.1)),
            ("50%", after(50 * SECOND), after(50 * SECOND)),
            ("+3s", after(3 * SECOND), after(13 * SECOND)),
            ("-1m", after(40 * SECOND), after(-50 * SECOND)),
            (clock.as_str(), after(7 * SECOND), after(7 * SECOND)),
            (
                &format!("{clock}.25"),
                after(7_250_000_000),
                after(7_250_000_000),
            ),
            (&BEGIN.to_rfc3339(), after(0), after(0)),
            (&BEGIN.0.to_string(), after(0), after(0)),
            ("1790000007", after(7 * SECOND), after(7 * SECOND)),
            ("1790000007250", after(7_250_000_000), after(7_250_000_000)),
            (
                "1790000007250000",
                after(7_250_000_000),
                after(7_250_000_000),
            ),
            ("2026-09-21 14:13:27", after(7 * SECOND), after(7 * SECOND)),
            ("2026-09-21T14:13:27", after(7 * SECOND), after(7 * SECOND)),
            (
                "2026-09-21 14:13:27.25 UTC",
                after(7_250_000_000),
                after(7_250_000_000),
            ),
            ("2026-09-21 14:13:27Z", after(7 * SECOND), after(7 * SECOND)),
            (
                "2026-09-21 16:13:27 +02:00",
                after(7 * SECOND),
                after(7 * SECOND),
            ),
            ("2026-09-21 14:13", after(-20 * SECOND), after(-20 * SECOND)),
            (
                "2026-09-21T14:13Z",
                after(-20 * SECOND),
                after(-20 * SECOND),
            ),
            (
                "2026-09-21 16:13 +02:00",
                after(-20 * SECOND),
                after(-20 * SECOND),
            ),
            (
                "2026-09-21",
                after(-(14 * 3600 + 13 * 60 + 20) * SECOND),
                after(-(14 * 3600 + 13 * 60 + 20) * SECOND),
            ),
            (
                "2026-09-21 UTC",
                after(-51_200 * SECOND),
                after(-51_200 * SECOND),
            ),
            ("2026-09-31", None, None),
            ("2026-09-21 14", None, None),
            ("2026-09-21 14:1", None, None),
            ("2026-09-21 14:13:", None, None),
            ("2026-09-21 14:13:7", None, None),
            ("2026-09-21 14:é3", None, None),
            ("2026-09", None, None),
            ("50", None, None),
            ("99999999999999999999", None, None),
            ("", None, None),
            ("soon", None, None),
            ("-", None, None),
            ("+x", None, None),
            ("101%", None, None),
            ("25:00:00", None, None),
            ("1:2:3:4", None, None),
            ("1:99", None, None),
            ("1:-2", None, None),
            ("12:00:00.", None, None),
            ("12:00:00.1234567890", None, None),
        ] {
            let moment = Moment::parse(text);
            assert_eq!(
                moment.map(|m| m.within(RANGE, None, |_| 0)),
                nowhere,
                "{text}"
            );
            let from = after(10 * SECOND);
            assert_eq!(
                moment.map(|m| m.within(RANGE, from, |_| 0)),
                from_10_s,
                "{text}"
            );
        }
    }

    #[test]
    fn a_time_of_day_lies_in_the_session_and_in_the_zone() {
        let midnight = Nanos(1_790_035_200 * SECOND);
        let over = (midnight.plus(-60 * SECOND), midnight.plus(60 * SECOND));
        let clock = |text: &str, east| Moment::parse(text).map(|m| m.within(over, None, |_| east));
        assert_eq!(clock("23:59:30", 0), Some(midnight.plus(-30 * SECOND)));
        assert_eq!(clock("00:00:30", 0), Some(midnight.plus(30 * SECOND)));
        assert_eq!(clock("01:00:30", 3600), Some(midnight.plus(30 * SECOND)));
        assert_eq!(clock("22:59:30", -3600), Some(midnight.plus(-30 * SECOND)));
        let begin = Some(midnight.plus(-60 * SECOND));
        assert_eq!(clock("2026-09-22 00:59:00", 3600), begin);
        assert_eq!(clock("2026-09-21 23:59:00 UTC", 3600), begin);
    }

    #[test]
    fn the_second_in_which_a_session_begins_is_its_begin() {
        let begin = BEGIN.plus(338_709_000);
        let at = |text: &str| Moment::parse(text).map(|m| m.within((begin, RANGE.1), None, |_| 0));
        for shown in [
            "14:13:20",
            "2026-09-21 14:13:20",
            "2026-09-21T14:13:20Z",
            "2026-09-21 16:13:20 +02:00",
            "1790000000",
        ] {
            assert_eq!(at(shown), Some(begin), "{shown}");
        }
        for (before, ns) in [("14:13:19", -SECOND), ("14:13:20.3", 300_000_000)] {
            assert_eq!(at(before), after(ns), "{before}");
        }
    }
}
