use super::*;
use proptest::prelude::*;

/// Returns the width in columns: every character of these forms takes one.
fn columns(s: &str) -> usize {
    s.chars().count()
}

#[test]
fn durations_have_three_digits_or_two_units() {
    for (ns, want, whole) in [
        (0, "0s", "0s"),
        (870, "870ns", "870ns"),
        (1_500, "1.50µs", "1.50µs"),
        (31_290_000, "31.2ms", "31.2ms"),
        (999_999_999, "999ms", "999ms"),
        (2_419_999_999, "2.41s", "2s"),
        (59_999_999_999, "59.9s", "59s"),
        (94 * SECOND, "1m34s", "1m34s"),
        (161 * SECOND, "2m41s", "2m41s"),
        (10_920 * SECOND, "3h02m", "3h02m"),
        (439_200 * SECOND, "5d02h", "5d02h"),
        (100 * DAY - 1, "99d23h", "99d23h"),
        (100 * DAY, "100d", "100d"),
        (-31_240_000, "-31.2ms", "0s"),
        (-12_500 * MILLI, "-12.5s", "0s"),
    ] {
        assert_eq!(duration(ns), want);
        assert_eq!(age(ns), whole);
    }
    assert_eq!(duration(i64::MIN), "-106751d");
}

#[test]
fn estimates_are_those_of_lengths_near_them() {
    for (ns, want) in [
        (0, "0s"),
        (870, "870ns"),
        (31_290_000, "31.3ms"),
        (999_999_999, "1.00s"),
        (59_960 * MILLI, "1m00s"),
        (89_998 * MILLI, "1m30s"),
        (90_002 * MILLI, "1m30s"),
        (-2_998 * MILLI, "-3.00s"),
        (DAY - 1, "1d00h"),
    ] {
        assert_eq!(estimate(ns), want, "{ns}");
    }
    assert_eq!(estimate(i64::MIN), duration(i64::MIN));
}

#[test]
fn offsets_have_the_digits_that_are_asked_for() {
    for (ns, digits, want) in [
        (4_032_999_999, 3, "4.032s"),
        (72_500 * MILLI, 1, "1m12.5s"),
        (3665 * SECOND, 0, "1h01m05s"),
        (-1_500 * MILLI, 1, "-1.5s"),
        (0, 0, "0s"),
        (7, 9, "0.000000007s"),
    ] {
        assert_eq!(offset(ns, digits), want);
    }
}

#[test]
fn sizes_are_powers_of_1024() {
    for (bytes, want) in [
        (0, "0B"),
        (999, "999B"),
        (1023, "1023B"),
        (1024, "1.0Ki"),
        (4200, "4.1Ki"),
        (16 << 20, "16Mi"),
        ((1 << 20) - 1, "1023Ki"),
        (u64::MAX, "15Ei"),
    ] {
        assert_eq!(size(bytes), want);
    }
}

#[test]
fn sizes_are_read_with_either_kind_of_prefix() {
    for (text, want) in [
        ("512", Some(512)),
        ("512B", Some(512)),
        ("10MiB", Some(10 << 20)),
        ("10M", Some(10 << 20)),
        ("10MB", Some(10_000_000)),
        ("4k", Some(4096)),
        ("4kB", Some(4000)),
        ("1.5Gi", Some(3 << 29)),
        ("0.1", Some(0)),
        ("", None),
        ("MiB", None),
        ("10 MiB", None),
        ("-1", None),
        ("10Mb", None),
        ("1.M", None),
        (".5M", None),
        ("99999999999GiB", None),
    ] {
        assert_eq!(parse_size(text).ok(), want, "{text}");
    }
}

#[test]
fn durations_are_read_as_people_and_go_write_them() {
    for (text, want) in [
        ("0", Some(0)),
        ("0s", Some(0)),
        ("250ms", Some(250 * MILLI)),
        ("1m30s", Some(90 * SECOND)),
        ("1.5h", Some(5400 * SECOND)),
        ("2d", Some(2 * DAY)),
        ("12µs", Some(12_000)),
        ("4.012289846s", Some(4_012_289_846)),
        ("1m4.942s", Some(64_942 * MILLI)),
        ("2h0m0.5s", Some(7_200_500 * MILLI)),
        ("9007199254740993ns", Some(9_007_199_254_740_993)),
        ("", None),
        ("90", None),
        ("s", None),
        ("2x", None),
        ("1y", None),
        ("1..2s", None),
        ("1.s", None),
        ("-3s", None),
        ("1h30", None),
        ("1m 30s", None),
        ("99999999999999999999h", None),
    ] {
        assert_eq!(parse_duration(text).ok(), want, "{text}");
        assert_eq!(
            parse_go_duration(text),
            if text == "-3s" {
                Some(-3 * SECOND)
            } else {
                want
            }
        );
    }
}

#[test]
fn a_time_shows_no_digit_that_is_not_known() {
    let t = Nanos(SECOND + 512_345_678);
    for (precision, want) in [
        (0, "00:00:01.512345678"),
        (1, "00:00:01.512345678"),
        (2, "00:00:01.51234567"),
        (100, "00:00:01.5123456"),
        (1_000, "00:00:01.512345"),
        (1_001, "00:00:01.51234"),
        (1_000_000, "00:00:01.512"),
        (500_000_000, "00:00:01"),
        (1_000_000_000, "00:00:01"),
        (u32::MAX, "00:00:01"),
    ] {
        assert_eq!(time_of_day(t, precision), want, "{precision}");
    }
    assert_eq!(clock(t, 0, 3600), "01:00:01");
    assert_eq!(date_and_clock(t, 1, -5 * 3600), "1969-12-31 19:00:01.5");
}

/// Returns durations from 0 to `i64::MAX` ns, of which every magnitude is equally likely.
fn length() -> impl Strategy<Value = i64> {
    (0_u32..63, any::<i64>()).prop_map(|(shift, n)| (n & i64::MAX) >> shift)
}

/// The value of the last digit that a duration shows.
fn last_place(text: &str) -> i64 {
    let (number, unit) = match text.rfind(|c: char| c.is_ascii_digit()) {
        Some(i) => text.split_at(i + 1),
        None => (text, ""),
    };
    let unit = match unit {
        "ns" => 1,
        "µs" => MICRO,
        "ms" => MILLI,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => DAY,
    };
    match number.split_once('.') {
        Some((_, f)) => unit / 10_i64.pow(f.len() as u32),
        None => unit,
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again_and_never_more(n in length()) {
        for text in [duration(n), age(n)] {
            let back = parse_duration(&text).unwrap();
            prop_assert!(back <= n, "{text} of {n}");
            prop_assert!(n - back < last_place(&text), "{text} of {n}");
            // What was read prints the same: nothing drifts when it is copied.
            prop_assert!(duration(back) == text || age(back) == text, "{text} of {n}");
        }
        let text = offset(n, 9);
        prop_assert_eq!(parse_duration(&text), Ok(n), "{}", text);
    }

    #[test]
    fn widths_have_an_end(n in length()) {
        let most = if n < 1000 * DAY { 6 } else { 7 };
        prop_assert!(columns(&duration(n)) <= most, "{}", duration(n));
        prop_assert!(columns(&duration(-n)) <= most + 1);
        prop_assert!(columns(&age(n)) <= columns(&duration(n)));
        prop_assert!(columns(&size(n as u64)) <= 6, "{}", size(n as u64));
    }

    #[test]
    fn an_age_is_the_beginning_of_the_duration(n in length()) {
        let (long, short) = (duration(n), age(n));
        prop_assert!(long.starts_with(short.trim_end_matches('s')), "{short} {long}");
    }

    #[test]
    fn longer_is_never_printed_as_shorter(a in length(), b in length()) {
        let (a, b) = (a.min(b), a.max(b));
        prop_assert!(parse_duration(&duration(a)).unwrap() <= parse_duration(&duration(b)).unwrap());
    }

    #[test]
    fn a_size_is_read_again_and_never_more(n in any::<u64>(), shift in 0_u32..64) {
        let n = n >> shift;
        let text = size(n);
        if !text.ends_with(['P', 'E']) && n < 1 << 49 {
            let back = parse_size(&text).unwrap();
            prop_assert!(back <= n && (n - back) as f64 <= (n as f64 * 0.12).max(1.0), "{text} of {n}");
        }
    }

    #[test]
    fn no_text_panics(text in "[-0-9.nuµmshdKkMGTiB ]{0,40}|.{0,20}") {
        let go = parse_go_duration(&text);
        prop_assert!(parse_duration(&text).is_err() || parse_duration(&text).ok() == go);
        prop_assert!(parse_size(&text).is_err() || text.starts_with(|c: char| c.is_ascii_digit()));
    }

    #[test]
    fn no_moment_panics(at in any::<i64>(), precision in any::<u32>(), east in any::<i32>()) {
        let _ = date_and_clock(Nanos(at), digits(precision), east);
    }
}
