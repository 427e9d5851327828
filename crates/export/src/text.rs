//! Texts from outside, made harmless for a terminal; durations and times for people.

use std::borrow::Cow;

use kflow_model::Nanos;
use kflow_model::stamp::{MICRO, MILLI, SECOND};

/// True for characters that steer a terminal or reorder what is read: controls, escapes, bidi marks and overrides,
/// zero-width and other invisible ones.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// One harmless line: line breaks and tabs become a space, everything else that steers becomes `·`.
pub fn clean(s: &str) -> Cow<'_, str> {
    // Nearly everything is plain ASCII: a look at its bytes is enough.
    if s.bytes().all(|b| (0x20..0x7f).contains(&b)) || !s.chars().any(is_hostile) {
        return Cow::Borrowed(s);
    }
    Cow::Owned(
        s.chars()
            .map(|c| match c {
                '\n' | '\r' | '\t' => ' ',
                c if is_hostile(c) => '·',
                c => c,
            })
            .collect(),
    )
}

/// At most `width` characters, the last one `…` when something was cut.
pub fn cut(s: &str, width: usize) -> Cow<'_, str> {
    match s.char_indices().nth(width) {
        None => Cow::Borrowed(s),
        Some(_) if width == 0 => Cow::Borrowed(""),
        Some(_) => Cow::Owned(s.chars().take(width - 1).chain(['…']).collect()),
    }
}

/// A duration for people, three digits: `870ns`, `31.2ms`, `2.41s`, `2m41s`, `3h02m`, `5d02h`.
pub fn duration(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.saturating_abs();
    let scaled = |unit: i64, name: &str| {
        let v = ns as f64 / unit as f64;
        // Rounding to three digits may not show 1000 of a unit.
        if v >= 99.95 {
            format!("{sign}{v:.0}{name}")
        } else if v >= 9.995 {
            format!("{sign}{v:.1}{name}")
        } else {
            format!("{sign}{v:.2}{name}")
        }
    };
    let s = ns / SECOND;
    match ns {
        0 => "0s".to_owned(),
        _ if ns < MICRO => format!("{sign}{ns}ns"),
        _ if ns < MILLI - MICRO / 2 => scaled(MICRO, "µs"),
        _ if ns < SECOND - MILLI / 2 => scaled(MILLI, "ms"),
        _ if s < 60 => scaled(SECOND, "s"),
        _ if s < 3600 => format!("{sign}{}m{:02}s", s / 60, s % 60),
        _ if s < 86400 => format!("{sign}{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{sign}{}d{:02}h", s / 86400, s % 86400 / 3600),
    }
}

/// The time of day in UTC with the digits that its precision (ns) allows: `00:24:27`, `00:24:27.512`.
pub fn time_of_day(at: Nanos, precision: u32) -> String {
    let t = chrono::DateTime::from_timestamp_nanos(at.0);
    let format = match precision {
        0..=999 => "%H:%M:%S%.9f",
        1_000..=999_999 => "%H:%M:%S%.6f",
        1_000_000..=999_999_999 => "%H:%M:%S%.3f",
        _ => "%H:%M:%S",
    };
    t.format(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_steers_a_terminal_is_taken_out() {
        assert_eq!(clean("\u{1b}[2Jweb\u{7}"), "·[2Jweb·");
        assert_eq!(clean("a\nb\tc"), "a b c");
        assert_eq!(clean("\u{202e}gnp.exe\u{200b}"), "·gnp.exe·");
        assert_eq!(clean("\u{9b}31m"), "·31m");
        assert!(matches!(clean("größe 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn durations_have_three_digits() {
        for (ns, want) in [
            (0, "0s"),
            (870, "870ns"),
            (1_500, "1.50µs"),
            (31_240_000, "31.2ms"),
            (999_600_000, "1.00s"),
            (999_999_999, "1.00s"),
            (2_410_000_000, "2.41s"),
            (59_000_000_000, "59.0s"),
            (161_000_000_000, "2m41s"),
            (10_920_000_000_000, "3h02m"),
            (439_200_000_000_000, "5d02h"),
            (-31_240_000, "-31.2ms"),
        ] {
            assert_eq!(duration(ns), want);
        }
        assert!(duration(i64::MIN).starts_with('-'));
    }

    #[test]
    fn a_time_shows_no_digit_that_is_not_known() {
        let t = Nanos(SECOND + 512_345_678);
        assert_eq!(time_of_day(t, 1), "00:00:01.512345678");
        assert_eq!(time_of_day(t, 1_000), "00:00:01.512345");
        assert_eq!(time_of_day(t, 1_000_000), "00:00:01.512");
        assert_eq!(time_of_day(t, 1_000_000_000), "00:00:01");
    }

    proptest! {
        #[test]
        fn a_clean_text_has_nothing_hostile_and_as_many_characters(s in "\\PC*|.*") {
            let c = clean(&s);
            prop_assert!(!c.chars().any(is_hostile));
            prop_assert_eq!(c.chars().count(), s.chars().count());
        }

        #[test]
        fn a_cut_text_is_never_longer(s in ".{0,40}", w in 0_usize..50) {
            prop_assert!(cut(&s, w).chars().count() <= w);
        }
    }
}
