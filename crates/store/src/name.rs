//! Times and segments as file names.
//!
//! A time is `20261124T081126.123456789Z`: UTC to the nanosecond, without characters that are special in paths,
//! shells or object stores, and sorted by name as by time. The name of a segment's file in a spool has what a listing
//! needs to know:
//!
//! | file | is |
//! |---|---|
//! | `BEGIN.RUN-N.open.kflow.zst` | the segment that is being written |
//! | `BEGIN-END.RUN-N.OBSERVATIONS.kflow.zst` | a closed segment |
//! | `BEGIN-END.RUN-N.OBSERVATIONS.sent.kflow.zst` | a closed segment that the store has too |

use kflow_model::session::Part;
use kflow_model::{Nanos, Text};

/// The ending of a segment's file.
pub const ENDING: &str = ".kflow.zst";

/// Returns the name of a time.
pub fn time(at: Nanos) -> String {
    at.to_rfc3339().replace(['-', ':'], "")
}

/// Parses the name of a time; `None` for anything that [`time`] does not make.
pub fn parse_time(name: &str) -> Option<Nanos> {
    let (date, clock) = name.split_once('T')?;
    let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
    let (seconds, fraction) = clock.strip_suffix('Z')?.split_once('.')?;
    if !(digits(date, 8) && digits(seconds, 6) && digits(fraction, 9)) {
        return None;
    }
    let part = |s: &str, from: usize, to: usize| s.get(from..to).map(str::to_owned);
    let text = format!(
        "{}-{}-{}T{}:{}:{}.{fraction}Z",
        part(date, 0, 4)?,
        part(date, 4, 6)?,
        part(date, 6, 8)?,
        part(seconds, 0, 2)?,
        part(seconds, 2, 4)?,
        part(seconds, 4, 6)?,
    );
    let (at, _) = Nanos::parse_rfc3339(&text)?;
    // A leap second would have another name.
    (time(at) == name).then_some(at)
}

/// Returns `BEGIN-END`.
pub fn span(begin: Nanos, end: Nanos) -> String {
    format!("{}-{}", time(begin), time(end))
}

/// Parses `BEGIN-END`; `None` if the end is before the begin.
pub fn parse_span(name: &str) -> Option<(Nanos, Nanos)> {
    let (begin, end) = name.split_once('-')?;
    let (begin, end) = (parse_time(begin)?, parse_time(end)?);
    (begin <= end).then_some((begin, end))
}

/// The parts of the name of a segment's file in a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    Open {
        begin: Nanos,
        part: Part,
    },
    Closed {
        begin: Nanos,
        end: Nanos,
        part: Part,
        /// Number of observations, without those carried over from before it.
        observations: u64,
        sent: bool,
    },
}

impl File {
    /// Parses a file's name; `None` for any name that no segment's file is given.
    pub fn parse(name: &str) -> Option<Self> {
        // A number also parses with a sign or with zeros before it.
        Self::read(name).filter(|file| file.to_string() == name)
    }

    fn read(name: &str) -> Option<Self> {
        let rest = name.strip_suffix(ENDING)?;
        // The fraction of a time has a dot too.
        let (head, rest) = rest.split_once("Z.")?;
        let head = format!("{head}Z");
        let (run, rest) = rest.split_once('-')?;
        if run.is_empty() || run.len() > 32 || !run.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let (n, rest) = rest.split_once('.')?;
        let part = Part {
            run: Text::new(run),
            n: n.parse().ok()?,
        };
        if rest == "open" {
            let begin = parse_time(&head)?;
            return Some(Self::Open { begin, part });
        }
        let (observations, sent) = match rest.strip_suffix(".sent") {
            Some(n) => (n, true),
            None => (rest, false),
        };
        let (begin, end) = parse_span(&head)?;
        Some(Self::Closed {
            begin,
            end,
            part,
            observations: observations.parse().ok()?,
            sent,
        })
    }
}

impl std::fmt::Display for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open { begin, part } => {
                write!(f, "{}.{}-{}.open{ENDING}", time(*begin), part.run, part.n)
            }
            Self::Closed {
                begin,
                end,
                part,
                observations,
                sent,
            } => {
                let (span, sent) = (span(*begin, *end), if *sent { ".sent" } else { "" });
                let Part { run, n } = part;
                write!(f, "{span}.{run}-{n}.{observations}{sent}{ENDING}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_time_is_what_it_was_as_a_name() {
        let at = Nanos(1_795_508_400_000_000_007);
        assert_eq!(time(at), "20261124T082000.000000007Z");
        for not in [
            "20261124T082000Z",
            "20261124T082000.7Z",
            "20261324T082000.000000007Z",
            "20261124T082000.000000007",
            "20261124T0820é0.00000000Z",
            "",
        ] {
            assert_eq!(parse_time(not), None, "{not}");
        }
    }

    #[test]
    fn a_number_is_written_in_one_way() {
        let name = |n: &str, observations: &str| {
            format!(
                "20261124T082000.000000007Z-20261124T082500.000000007Z.ab-{n}.{observations}{ENDING}"
            )
        };
        assert!(File::parse(&name("7", "5")).is_some());
        for (n, observations) in [("+7", "5"), ("007", "5"), ("7", "+5"), ("7", "05")] {
            assert_eq!(
                File::parse(&name(n, observations)),
                None,
                "{n} {observations}"
            );
        }
    }

    proptest! {
        #[test]
        fn names_of_times_sort_as_times_do(a: i64, b: i64) {
            let (a, b) = (Nanos(a), Nanos(b));
            prop_assert_eq!(parse_time(&time(a)), Some(a));
            prop_assert_eq!(a.cmp(&b), time(a).cmp(&time(b)));
        }

        #[test]
        fn a_file_is_what_its_name_says(begin: i64, long: u32, n: u32, observations: u64, sent: bool, run in "[0-9a-f]{16}") {
            let begin = Nanos(begin);
            let part = Part { run: Text::from(run), n };
            let closed = File::Closed { begin, end: begin.plus(i64::from(long)), part: part.clone(), observations, sent };
            prop_assert_eq!(File::parse(&closed.to_string()), Some(closed));
            let open = File::Open { begin, part };
            prop_assert_eq!(File::parse(&open.to_string()), Some(open));
        }

        /// Two names of one segment would be two objects of a store.
        #[test]
        fn a_segment_has_one_name(
            begin: i64, long: u32, n: u32, observations: u64, sent: bool, run in "[0-9a-f]{1,32}",
            at: prop::sample::Index, put in "[-+.0-9a-fTZ]?", over in 0_usize..2,
        ) {
            let begin = Nanos(begin);
            let part = Part { run: Text::from(run), n };
            let file = File::Closed { begin, end: begin.plus(i64::from(long)), part, observations, sent };
            let mut name = file.to_string();
            // A character more, less, or another one.
            let at = at.index(name.len());
            name.replace_range(at..at + over, &put);
            if let Some(file) = File::parse(&name) {
                prop_assert_eq!(file.to_string(), name);
            }
        }
    }
}
