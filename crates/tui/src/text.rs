//! Text for cells: cleaned, measured and cut by display width, and numbers in few characters.
//!
//! Everything that is drawn passes through [`clean`] (see `Canvas::text`): names and messages come from outside and may
//! hold escape codes, bidi marks or ten thousand characters.

use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use kflow_export::text::clean;
use kflow_model::stamp::{MICRO, MILLI, SECOND};

/// Columns that a text takes.
pub fn width(s: &str) -> usize {
    if s.is_ascii() { s.len() } else { s.width() }
}

/// The longest beginning of `s` that fits into `columns`, with `…` in its place when something is missing.
pub fn cut(s: &str, columns: usize) -> Cow<'_, str> {
    if width(s) <= columns {
        return Cow::Borrowed(s);
    }
    if columns == 0 {
        return Cow::Borrowed("");
    }
    let mut out = String::with_capacity(columns + 4);
    let mut used = 0;
    for g in s.graphemes(true) {
        let w = g.width();
        if used + w + 1 > columns {
            break;
        }
        used += w;
        out.push_str(g);
    }
    out.push('…');
    Cow::Owned(out)
}

/// Like [`cut`], but keeps both ends: `coredns-668…-x2klq`. Pod names tell most at their ends.
pub fn cut_middle(s: &str, columns: usize) -> Cow<'_, str> {
    if width(s) <= columns {
        return Cow::Borrowed(s);
    }
    if columns < 8 {
        return cut(s, columns);
    }
    let tail_columns = (columns - 1) / 3;
    let mut tail = Vec::new();
    let mut used = 0;
    for g in s.graphemes(true).rev() {
        let w = g.width();
        if used + w > tail_columns {
            break;
        }
        used += w;
        tail.push(g);
    }
    let mut out = String::with_capacity(columns + 4);
    let mut head = 0;
    for g in s.graphemes(true) {
        let w = g.width();
        if head + w + 1 + used > columns {
            break;
        }
        head += w;
        out.push_str(g);
    }
    out.push('…');
    out.extend(tail.into_iter().rev());
    Cow::Owned(out)
}

/// Breaks a text into lines of at most `columns`, at spaces where there are any.
pub fn wrap(s: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(4);
    let mut lines = Vec::new();
    for paragraph in s.split('\n') {
        let mut line = String::new();
        let mut used = 0;
        // A word takes the space after it along: that one may stand over the edge, where it is cut off.
        for word in clean(paragraph).split_inclusive(' ') {
            let w = width(word.trim_end());
            if used + w > columns && used > 0 {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
                used = 0;
            }
            if w <= columns {
                line.push_str(word);
                used += width(word);
                continue;
            }
            for g in word.graphemes(true) {
                let gw = width(g);
                if used + gw > columns {
                    lines.push(std::mem::take(&mut line).trim_end().to_owned());
                    used = 0;
                }
                line.push_str(g);
                used += gw;
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// A length of time in at most six columns: `780ns`, `12µs`, `3.4ms`, `1.25s`, `94s`, `3m12s`, `2h05m`, `3d4h`.
pub fn duration(ns: i64) -> String {
    let (sign, n) = if ns < 0 {
        ("-", ns.saturating_neg())
    } else {
        ("", ns)
    };
    let f = n as f64;
    let body = if n < MICRO {
        format!("{n}ns")
    } else if n < MILLI {
        scaled(f / MICRO as f64, "µs")
    } else if n < SECOND {
        scaled(f / MILLI as f64, "ms")
    } else if n < 10 * SECOND {
        format!("{:.2}s", trunc(f / SECOND as f64, 100.0))
    } else if n < 100 * SECOND {
        format!("{:.1}s", trunc(f / SECOND as f64, 10.0))
    } else {
        return format!("{sign}{}", age(n));
    };
    format!("{sign}{body}")
}

fn trunc(v: f64, by: f64) -> f64 {
    (v * by).floor() / by
}

fn scaled(v: f64, unit: &str) -> String {
    if v < 10.0 {
        format!("{:.1}{unit}", trunc(v, 10.0))
    } else {
        format!("{:.0}{unit}", v.floor())
    }
}

/// An age as kubectl writes it: `14s`, `3m12s`, `5h10m`, `3d4h`, `41d`.
pub fn age(ns: i64) -> String {
    let s = (ns / SECOND).max(0);
    let (d, h, m, sec) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    if s < 120 {
        format!("{s}s")
    } else if s < 600 {
        with_rest(s / 60, "m", sec, "s")
    } else if s < 3 * 3600 {
        format!("{}m", s / 60)
    } else if s < 8 * 3600 {
        with_rest(s / 3600, "h", m, "m")
    } else if s < 48 * 3600 {
        format!("{}h", s / 3600)
    } else if d < 8 {
        with_rest(d, "d", h, "h")
    } else {
        format!("{d}d")
    }
}

fn with_rest(a: i64, a_unit: &str, b: i64, b_unit: &str) -> String {
    if b == 0 {
        format!("{a}{a_unit}")
    } else {
        format!("{a}{a_unit}{b}{b_unit}")
    }
}

/// Bytes in at most five columns: `812B`, `4.1K`, `16M`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let mut v = n as f64;
    let mut unit = 0;
    while v >= 1000.0 && unit + 1 < UNITS.len() {
        v /= 1024.0;
        unit += 1;
    }
    let u = UNITS.get(unit).copied().unwrap_or("B");
    if unit == 0 || v >= 10.0 {
        format!("{v:.0}{u}")
    } else {
        format!("{v:.1}{u}")
    }
}

/// A count with thousands set apart: `1 048 576`.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_counts_columns_and_not_characters() {
        assert_eq!(cut("世界你好", 5), "世界…");
        assert_eq!(cut("世界你好", 8), "世界你好");
        assert_eq!(cut("abc", 2), "a…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(cut_middle("coredns-66bc5c9577-x2klq", 14), "coredns-6…2klq");
        assert!(width(&cut_middle("coredns-66bc5c9577-x2klq", 14)) <= 14);
        assert!(cut_middle("coredns-66bc5c9577-x2klq", 14).ends_with("klq"));
    }
    #[test]
    fn durations_take_few_columns_and_round_down() {
        for (ns, s) in [
            (780, "780ns"),
            (3_400, "3.4µs"),
            (12_900, "12µs"),
            (3_499_999, "3.4ms"),
            (999_999_999, "999ms"),
            (1_259_000_000, "1.25s"),
            (94 * SECOND, "94.0s"),
            (192 * SECOND, "3m12s"),
            (-2 * MILLI, "-2.0ms"),
        ] {
            assert_eq!(duration(ns), s);
        }
    }
    #[test]
    fn ages_are_those_of_kubectl() {
        for (s, t) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (700, "11m"),
            (3 * 3600 + 60, "3h1m"),
            (50 * 3600, "2d2h"),
            (30 * 86_400, "30d"),
        ] {
            assert_eq!(age(s * SECOND), t);
        }
    }
    #[test]
    fn bytes_and_counts_are_short() {
        assert_eq!(bytes(812), "812B");
        assert_eq!(bytes(4200), "4.1K");
        assert_eq!(bytes(16 << 20), "16M");
        assert_eq!(count(1_048_576), "1 048 576");
        assert_eq!(count(12), "12");
    }
    #[test]
    fn wrapping_never_exceeds_the_width_and_loses_no_word() {
        let text = "the call RunPodSandbox has been running for 94 s of its 240 s deadline";
        assert_eq!(wrap("in namespace s03.", 16), ["in namespace", "s03."]);
        for w in 4..40 {
            let lines = wrap(text, w);
            assert!(lines.iter().all(|l| width(l) <= w), "{w}: {lines:?}");
            assert_eq!(
                lines.concat().replace(' ', ""),
                text.replace(' ', ""),
                "{w}"
            );
        }
    }
}
