//! When a bundle was made, where a file in it says so, or its name has a date.

use std::collections::BTreeMap;

use super::{SOON, end_of_second};
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;

/// When bundles were made, where they say it. By bundle.
pub type Made = BTreeMap<usize, MadeAt>;

/// When a bundle was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeAt {
    /// It says when it was begun and when it was ended.
    Within(Nanos, Nanos),
    /// It says one moment at which it was being made.
    About(Nanos),
    /// The name of the bundle, or of a file, has a date, of an unknown zone. The first and the last moment that it is in UTC.
    Named(Nanos, Nanos),
}

/// Zones are at most this far from UTC, ns.
const ZONES: i64 = 14 * 3600 * SECOND;

impl MadeAt {
    /// Reads what a file of a bundle says; `None` for a file that says nothing. `oc adm must-gather` and `oc adm inspect` write when
    /// they began and ended into a file `timestamp`, as Go prints a time; Rancher's collector and sos write what `date` prints into a
    /// file `date`.
    pub(in super::super) fn of_file(name: &str, content: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content);
        match name.rsplit('/').next() {
            Some("timestamp") => {
                let times = || text.lines().filter_map(of_go);
                Some(Self::Within(times().min()?, times().max()?))
            }
            Some("date") => of_date(&text).map(Self::About),
            _ => None,
        }
    }

    /// Reads the date in a name: `must-gather-2024-05-06.tar.gz`, `support-bundle-2025-04-11T14_05_31`, `pods-20221110-185842.yaml`.
    pub(in super::super) fn of_name(name: &str) -> Option<Self> {
        let bytes = name.as_bytes();
        (0..bytes.len()).find_map(|at| of_digits(bytes, at))
    }

    /// True for what only a name tells.
    pub(in super::super) const fn is_named(self) -> bool {
        matches!(self, Self::Named(..))
    }

    /// Returns what two files of one bundle say together.
    pub(in super::super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Within(from, until), Self::Within(a, b)) => {
                Self::Within(from.min(a), until.max(b))
            }
            (Self::About(_), Self::Within(..)) => other,
            _ => self,
        }
    }

    /// Returns the last moment at which it may have been made.
    pub(super) const fn until(self) -> Nanos {
        match self {
            Self::Within(_, until) => until,
            Self::Named(_, until) => until.plus(ZONES),
            Self::About(at) => at.plus(SOON),
        }
    }

    /// Returns when a file in it was written: at its own time, unless that is of a copy.
    pub(in super::super) fn written(self, own: Option<Nanos>) -> Nanos {
        let (from, otherwise) = match self {
            Self::Within(from, until) => (from, until),
            Self::Named(from, until) => (from.plus(-ZONES), Nanos(from.0.midpoint(until.0))),
            Self::About(at) => (at, at),
        };
        let until = end_of_second(self.until());
        let is_within = |own: &Nanos| end_of_second(*own) >= from && *own <= until;
        own.filter(is_within).unwrap_or(otherwise)
    }
}

/// Reads `20250411`, `2025-04-11`, `2025-04-11T14_05_31` and the like that begin at a byte.
fn of_digits(text: &[u8], at: usize) -> Option<MadeAt> {
    let mut left = text.get(at..)?;
    let is_within = at
        .checked_sub(1)
        .and_then(|n| text.get(n))
        .is_some_and(u8::is_ascii_digit);
    let mut number = |digits: usize, separators: &[u8]| {
        let from = usize::from(left.first().is_some_and(|b| separators.contains(b)));
        let told = left.get(from..from + digits)?;
        let told = std::str::from_utf8(told)
            .ok()
            .filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?;
        left = left.get(from + digits..)?;
        Some(told)
    };
    let year = number(4, b"").filter(|year| year.starts_with("20") && !is_within)?;
    let (month, day) = (number(2, b"-_.")?, number(2, b"-_.")?);
    let time = (|| {
        Some((
            number(2, b"T-_.")?,
            number(2, b":-_.")?,
            number(2, b":-_.")?,
        ))
    })();
    if left.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let moment = |h: &str, m: &str, s: &str| {
        let told = Nanos::parse_rfc3339(&format!("{year}-{month}-{day}T{h}:{m}:{s}Z"));
        told.map(|(at, _)| at)
    };
    let exact = time.and_then(|(h, m, s)| moment(h, m, s));
    let day = || Some((moment("00", "00", "00")?, moment("23", "59", "59")?));
    let (from, until) = exact.map(|at| (at, at)).or_else(day)?;
    Some(MadeAt::Named(from, until))
}

/// `2025-04-11 14:05:31.123456789 +0000 UTC m=+0.000000001`
fn of_go(line: &str) -> Option<Nanos> {
    let mut words = line.split_ascii_whitespace();
    let (day, time, zone) = (words.next()?, words.next()?, words.next()?);
    let at = || Nanos::parse_rfc3339(&format!("{day}T{time}Z"));
    (zone == "+0000").then(at)?.map(|(at, _)| at)
}

/// Returns the time that `date` prints in UTC: `Thu Dec  4 09:15:58 UTC 2025`.
fn of_date(text: &str) -> Option<Nanos> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, month, day, time, "UTC" | "GMT", year] = words[..] else {
        return None;
    };
    Nanos::parse_rfc2822(&format!("Thu, {day} {month} {year} {time} +0000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of bundles, and of files in them, as their tools make them.
    #[test]
    fn a_name_may_have_a_date() {
        for (name, want) in [
            (
                "support-bundle-2025-04-11T14_05_31.tar.gz",
                Some("2025-04-11T14:05:31Z to 2025-04-11T14:05:31Z"),
            ),
            (
                "k8s-pods-20221110-185842.yaml",
                Some("2022-11-10T18:58:42Z to 2022-11-10T18:58:42Z"),
            ),
            (
                "node-1-2026-11-21_00_30_07.tar.gz",
                Some("2026-11-21T00:30:07Z to 2026-11-21T00:30:07Z"),
            ),
            (
                "sosreport-node1-2024-05-06-kqwertz.tar.xz",
                Some("2024-05-06T00:00:00Z to 2024-05-06T23:59:59Z"),
            ),
            ("must-gather.local.2444158010044952264", None),
            ("must-gather.local.6326336422765774047", None),
            ("ldap-group-syncer-28678735", None),
            ("kubelet_230525.log", None),
            ("pods-2024-13-45.json", None),
        ] {
            let told = MadeAt::of_name(name).map(|made| match made {
                MadeAt::Named(from, until) => {
                    format!(
                        "{} to {}",
                        from.to_rfc3339_seconds(),
                        until.to_rfc3339_seconds()
                    )
                }
                other => format!("{other:?}"),
            });
            assert_eq!(told.as_deref(), want, "{name}");
        }
    }

    /// A checkout's time says nothing; that of a file that was written on that day in some zone says more than the name.
    #[test]
    fn a_name_tells_where_the_times_of_files_do_not() {
        let time = |t: &str| Nanos::parse_rfc3339(t).unwrap().0;
        let made = MadeAt::of_name("support-bundle-2025-04-11T14_05_31").unwrap();
        let written = |own: Option<&str>| made.written(own.map(time)).to_rfc3339_seconds();
        assert_eq!(written(None), "2025-04-11T14:05:31Z");
        assert_eq!(
            written(Some("2026-11-29T05:00:00Z")),
            "2025-04-11T14:05:31Z"
        );
        assert_eq!(
            written(Some("2025-04-11T18:05:30Z")),
            "2025-04-11T18:05:30Z"
        );
    }

    #[test]
    fn a_date_counts_where_its_zone_is_known() {
        for (text, want) in [
            (
                "Thu Dec  4 09:15:58 UTC 2025\n",
                Some("2025-12-04T09:15:58.000000000Z"),
            ),
            ("Thu Dec  4 10:15:58 CET 2025", None),
            ("Thu 04 Dec 2025 09:15:58 AM UTC", None),
            ("", None),
        ] {
            assert_eq!(
                of_date(text).map(Nanos::to_rfc3339).as_deref(),
                want,
                "{text}"
            );
        }
    }
}
