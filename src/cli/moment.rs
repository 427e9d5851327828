//! Moments and durations as they are typed.

use crate::engine::replay::Start;
use crate::model::{Nanos, stamp::SECOND};

/// What to say of a `--at` that is no time.
pub fn not_a_time(text: &str) -> String {
    format!(
        "--at {text:?} is not a time: write RFC 3339 (2026-11-21T00:27:47.2Z), nanoseconds since the epoch, -5m (before the end) or +90s (after the begin)"
    )
}

/// A moment of a session whose end may not be known yet.
pub fn parse_start(text: &str) -> Option<Start> {
    let text = text.trim();
    if let Some(d) = text.strip_prefix('-') {
        return Some(Start::BeforeEnd(parse_duration(d).ok()?));
    }
    if let Some(d) = text.strip_prefix('+') {
        return Some(Start::AfterBegin(parse_duration(d).ok()?));
    }
    match text {
        "begin" | "start" => return Some(Start::Begin),
        "end" => return Some(Start::End),
        _ => {}
    }
    if let Ok(ns) = text.parse::<i64>() {
        return Some(Start::At(Nanos(ns)));
    }
    Nanos::parse_rfc3339(text).map(|(t, _)| Start::At(t))
}

/// A moment: RFC 3339, ns since the epoch, or relative to the end (`-5m`) or begin (`+90s`) of the session.
pub fn parse_time(text: &str, begin: Nanos, end: Nanos) -> Option<Nanos> {
    Some(match parse_start(text)? {
        Start::Begin => begin,
        Start::End => end,
        Start::At(t) => t,
        Start::BeforeEnd(ns) => end.plus(-ns),
        Start::AfterBegin(ns) => begin.plus(ns),
    })
}

/// A duration as Go writes it: `100ms`, `2s`, `1m30s`, `1.5h`. ns.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let bad = || format!("{text:?} is not a duration such as 100ms, 2s or 1m30s");
    let mut rest = text;
    let mut total = 0_f64;
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(bad)?;
        let (number, tail) = rest.split_at_checked(digits).ok_or_else(bad)?;
        let letters = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at_checked(letters).ok_or_else(bad)?;
        let number: f64 = number.parse().map_err(|_| bad())?;
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => SECOND as f64,
            "m" => 60e9,
            "h" => 3600e9,
            "d" => 86400e9,
            _ => return Err(bad()),
        };
        total += number * scale;
        rest = next;
    }
    if total > 9e18 {
        return Err(bad());
    }
    Ok(total as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_does() {
        for (s, want) in [
            ("100ms", Some(100_000_000)),
            ("2s", Some(2_000_000_000)),
            ("1m30s", Some(90_000_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            ("0s", Some(0)),
            ("5", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("1y", None),
            ("1.2.3s", None),
            ("99999999999h", None),
        ] {
            assert_eq!(parse_duration(s).ok(), want, "{s}");
        }
    }

    #[test]
    fn a_moment_is_absolute_or_relative_to_the_session() {
        let (b, e) = (Nanos(100 * SECOND), Nanos(200 * SECOND));
        for (s, want) in [
            ("150000000000", Some(150)),
            ("1970-01-01T00:02:30Z", Some(150)),
            ("-50s", Some(150)),
            ("+50s", Some(150)),
            ("begin", Some(100)),
            ("end", Some(200)),
            ("yesterday", None),
            ("-", None),
        ] {
            assert_eq!(
                parse_time(s, b, e),
                want.map(|w: i64| Nanos(w * SECOND)),
                "{s}"
            );
        }
    }
}
