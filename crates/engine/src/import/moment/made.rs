//! When a bundle was made, where a file in it says so.

use std::collections::BTreeMap;

use super::{SOON, end_of_second};
use kflow_model::Nanos;

/// When bundles were made, where they say it. By bundle.
pub type Made = BTreeMap<usize, MadeAt>;

/// When a bundle was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeAt {
    /// It says when it was begun and when it was ended.
    Within(Nanos, Nanos),
    /// It says one moment at which it was being made.
    About(Nanos),
}

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
            Self::About(at) => at.plus(SOON),
        }
    }

    /// Returns when a file in it was written: at its own time, unless that is of a copy.
    pub(in super::super) fn written(self, own: Option<Nanos>) -> Nanos {
        let (from, otherwise) = match self {
            Self::Within(from, until) => (from, until),
            Self::About(at) => (at, at),
        };
        let until = end_of_second(self.until());
        let is_within = |own: &Nanos| end_of_second(*own) >= from && *own <= until;
        own.filter(is_within).unwrap_or(otherwise)
    }
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
