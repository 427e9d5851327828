//! Durations, sizes and times of day as kflow prints and reads them: one form for the terminal, the exports, the
//! verdicts and the command line.
//!
//! | what | form | rounding |
//! |---|---|---|
//! | [`duration`] | three digits and a unit below a minute (`780ns`, `3.40ms`, `12.5s`), then two units (`3m12s`, `5h02m`, `3d04h`), from 100 days on whole days | towards zero |
//! | [`age`] | the same in whole seconds (`12s`, `3m12s`); below a second as [`duration`] | towards zero |
//! | [`offset`] | seconds with a given number of digits, minutes and hours before them (`4.032s`, `1m12.5s`) | towards zero |
//! | [`size`] | bytes with a binary prefix (`812B`, `4.1Ki`, `16Mi`) | towards zero |
//!
//! Rounding is towards zero everywhere, so that no view shows time that has not passed, and an [`age`] is always the
//! beginning of the [`duration`] of the same length. [`parse_duration`] and [`parse_size`] read what these print.

use std::borrow::Cow;

use chrono::{DateTime, FixedOffset};

use super::Nanos;
use super::stamp::{MICRO, MILLI, SECOND};

/// Nanoseconds in a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Nanoseconds in an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Nanoseconds in 24 hours.
pub const DAY: i64 = 24 * HOUR;

/// A text that is not a duration or not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a duration.
    #[error("{0:?} is not a duration: write 250ms, 2s, 1m30s, 1.5h or 14d")]
    Duration(String),
    /// The text is not a size.
    #[error(
        "{0:?} is not a size: write 512 (bytes), 64KiB or 64K (64·1024), 16MiB or 16M (16·1024²), 2GB (2·1000³)"
    )]
    Size(String),
}

/// Returns a number with what it counts, in the plural unless it is 1: `1 segment`, `2 segments`.
pub fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Formats a duration with three digits or two units, in at most six columns below 1000 days (one more for the sign of
/// a negative one): `0s`, `780ns`, `3.40ms`, `125ms`, `12.5s`, `3m12s`, `5h02m`, `3d04h`, `120d`.
pub fn duration(ns: i64) -> String {
    let (sign, n) = split_sign(ns);
    let text = match n {
        0 => "0s".to_owned(),
        _ if n < MICRO => format!("{n}ns"),
        _ if n < MILLI => three_digits(n, MICRO, "µs"),
        _ if n < SECOND => three_digits(n, MILLI, "ms"),
        _ if n < MINUTE => three_digits(n, SECOND, "s"),
        _ => two_units(n),
    };
    format!("{sign}{text}")
}

/// Formats an estimate like [`duration`], but rounded to the nearest: 89.998 s are `1m30s`. The length of something
/// that is going on is rounded down because it has not lasted longer yet; an estimate is as often too
/// short as too long.
pub fn estimate(ns: i64) -> String {
    let (sign, n) = split_sign(ns);
    let last = match n {
        ..MICRO => 0,
        MICRO..MINUTE => 10_i64.pow(n.ilog10() - 2),
        MINUTE..HOUR => SECOND,
        HOUR..DAY => MINUTE,
        _ if n < 100 * DAY => HOUR,
        _ => DAY,
    };
    format!("{sign}{}", duration(n.saturating_add(last / 2)))
}

/// Formats a duration in whole seconds, for values that change while they are shown: `12s`, `3m12s`, `5h02m`. Less than
/// a second is formatted as by [`duration`]. A negative age, which two machines' clocks can produce, is `0s`.
pub fn age(ns: i64) -> String {
    match ns.max(0) {
        n @ SECOND..MINUTE => format!("{}s", n / SECOND),
        n => duration(n),
    }
}

/// Formats a field of the API that is in seconds with the number that it has there: `60 s` for
/// `terminationGracePeriodSeconds: 60`.
pub fn seconds(s: i64) -> String {
    format!("{s} s")
}

/// Formats a [`std::time::Duration`] as [`age`] does.
pub fn wait(d: std::time::Duration) -> String {
    age(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// Formats a duration with `digits` (0 to 9) after the decimal point of the seconds: `4.032s`, `1m12.5s`, `2h05m00s`. A
/// negative one begins with `-`.
pub fn offset(ns: i64, digits: usize) -> String {
    let (sign, n) = split_sign(ns);
    let (h, m, s) = (n / HOUR, n / MINUTE % 60, n / SECOND % 60);
    let fraction = fraction(n % SECOND, digits);
    match (h, m) {
        (0, 0) => format!("{sign}{s}{fraction}s"),
        (0, _) => format!("{sign}{m}m{s:02}{fraction}s"),
        _ => format!("{sign}{h}h{m:02}m{s:02}{fraction}s"),
    }
}

/// Formats a number of bytes in at most six columns: `812B`, `4.1Ki`, `976Ki`, `16Mi`. `Ki` is 1024 bytes, as in
/// Kubernetes' quantities.
pub fn size(bytes: u64) -> String {
    let mut unit: u64 = 1;
    for (i, name) in ["B", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().enumerate() {
        let whole = bytes / unit;
        if whole >= 1024 && i < 6 {
            unit <<= 10;
            continue;
        }
        if i == 0 || whole >= 10 {
            return format!("{whole}{name}");
        }
        return format!("{whole}.{}{name}", bytes % unit * 10 / unit);
    }
    format!("{bytes}B")
}

/// Returns how many digits after the second a precision in ns allows: none for a whole second, six for a microsecond.
pub const fn digits(precision: u32) -> usize {
    let mut digits: usize = 9;
    let mut place: u64 = 1;
    while digits > 0 && place < precision as u64 {
        place *= 10;
        digits -= 1;
    }
    digits
}

/// Formats a time of day with `digits` after the second, in a zone that is `east` seconds east of UTC: `00:24:27.512`.
pub fn clock(at: Nanos, digits: usize, east: i32) -> String {
    written(at, "%H:%M:%S", digits, east)
}

/// Formats a date and time of day like [`clock`]: `2026-11-21 00:24:27.512`.
pub fn date_and_clock(at: Nanos, digits: usize, east: i32) -> String {
    written(at, "%Y-%m-%d %H:%M:%S", digits, east)
}

/// Formats a time of day in UTC with the digits that its precision (ns) allows.
pub fn time_of_day(at: Nanos, precision: u32) -> String {
    clock(at, digits(precision), 0)
}

fn written(at: Nanos, format: &str, digits: usize, east: i32) -> String {
    let utc = DateTime::from_timestamp_nanos(at.0);
    let local = FixedOffset::east_opt(east)
        .map_or_else(|| utc.fixed_offset(), |zone| utc.with_timezone(&zone));
    let mut text = local.format(format).to_string();
    text.push_str(&fraction(at.0.rem_euclid(SECOND), digits));
    text
}

fn split_sign(ns: i64) -> (&'static str, i64) {
    if ns < 0 {
        ("-", ns.saturating_neg())
    } else {
        ("", ns)
    }
}

/// Formats `n` ns in a unit (ns) with three significant digits: `3.40`, `34.0`, `340`.
fn three_digits(n: i64, unit: i64, name: &str) -> String {
    let whole = n / unit;
    let rest = n % unit;
    match whole {
        0..10 => format!("{whole}.{:02}{name}", rest / (unit / 100)),
        10..100 => format!("{whole}.{}{name}", rest / (unit / 10)),
        _ => format!("{whole}{name}"),
    }
}

fn two_units(n: i64) -> String {
    match n {
        ..HOUR => format!("{}m{:02}s", n / MINUTE, n % MINUTE / SECOND),
        HOUR..DAY => format!("{}h{:02}m", n / HOUR, n % HOUR / MINUTE),
        _ if n < 100 * DAY => format!("{}d{:02}h", n / DAY, n % DAY / HOUR),
        _ => format!("{}d", n / DAY),
    }
}

fn fraction(ns: i64, digits: usize) -> String {
    if digits == 0 {
        return String::new();
    }
    let all = format!(".{ns:09}");
    all.chars().take(digits.saturating_add(1)).collect()
}

/// Parses a duration as people, kflow and Go write it: `90s`, `1m30s`, `250ms`, `1.5h`, `2d`, `0`. Every number but 0
/// needs a unit (`ns`, `us`, `µs`, `ms`, `s`, `m`, `h`, `d` of 24 hours). Returns ns, rounded towards zero.
pub fn parse_duration(text: &str) -> Result<i64, UnitError> {
    nanoseconds(text).ok_or_else(|| UnitError::Duration(text.to_owned()))
}

/// Parses a duration as Go prints it, which may be negative: `1h2m3.5s`, `-4.2µs`. Returns ns; `None` when
/// it is not one.
pub fn parse_go_duration(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(rest) => nanoseconds(rest).map(|n| -n),
        None => nanoseconds(text),
    }
}

fn nanoseconds(text: &str) -> Option<i64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut total: i128 = 0;
    loop {
        let (number, tail) = split_number(rest)?;
        let letters = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(letters)?;
        let unit = match unit {
            "ns" => 1,
            // Go prints U+00B5; some keyboards produce U+03BC.
            "us" | "µs" | "μs" => MICRO,
            "ms" => MILLI,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            "d" => DAY,
            _ => return None,
        };
        total = total.checked_add(scaled(number, unit.into())?)?;
        rest = tail;
        if rest.is_empty() {
            return i64::try_from(total).ok();
        }
    }
}

/// Parses a size in bytes: `512`, `512B`, `64K`, `64Ki` and `64KiB` (powers of 1024), `64kB` and `64KB` (powers of
/// 1000); prefixes up to `T`. A fraction (`1.5GiB`) is rounded towards zero.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    bytes(text).ok_or_else(|| UnitError::Size(text.to_owned()))
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text)?;
    let factor: i128 = match unit {
        "" | "B" => 1,
        "k" | "K" | "Ki" | "KiB" => 1 << 10,
        "M" | "Mi" | "MiB" => 1 << 20,
        "G" | "Gi" | "GiB" => 1 << 30,
        "T" | "Ti" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    u64::try_from(scaled(number, factor)?).ok()
}

/// Splits a text into its leading number, as the digits before and after the point, and the rest.
fn split_number(text: &str) -> Option<((&str, Cow<'_, str>), &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    if whole.is_empty() || fraction.contains('.') {
        return None;
    }
    // Further digits would change a day by less than a nanosecond.
    Some(((whole, fraction.chars().take(15).collect()), rest))
}

fn scaled((whole, fraction): (&str, Cow<'_, str>), unit: i128) -> Option<i128> {
    let mut total = whole.parse::<i128>().ok()?.checked_mul(unit)?;
    if !fraction.is_empty() {
        let places = u32::try_from(fraction.len()).ok()?;
        total += fraction.parse::<i128>().ok()? * unit / 10_i128.pow(places);
    }
    Some(total)
}

#[cfg(test)]
mod tests;
