//! Text for cells: cleaned, measured and cut by display width. Durations and sizes are formatted by
//! [`kflow_model::units`].
//!
//! Everything that is drawn passes through [`clean`] (see `Canvas::text`): names and messages come from outside and may
//! hold escape codes, bidi marks or ten thousand characters.

use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use kflow_export::text::clean;

/// Returns the width of a text in columns.
pub fn width(s: &str) -> usize {
    if s.is_ascii() { s.len() } else { s.width() }
}

/// Returns the longest beginning of `s` that fits into `columns`; if something is cut off, it ends with `…`.
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

/// Like [`cut`], but keeps both ends: `coredns-668…-x2klq`. The end of a pod's name is what tells it from others.
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

/// Returns the longest end of `s` that fits into `columns`; if something is cut off, it begins with `…`.
pub fn cut_start(s: &str, columns: usize) -> Cow<'_, str> {
    if width(s) <= columns {
        return Cow::Borrowed(s);
    }
    let mut used = 1;
    let mut tail = Vec::new();
    for g in s.graphemes(true).rev() {
        used += g.width();
        if used > columns {
            break;
        }
        tail.push(g);
    }
    let mut out = "…".to_owned();
    out.extend(tail.into_iter().rev());
    Cow::Owned(out)
}

/// Breaks a text into lines of at most `columns`, at spaces if possible.
pub fn wrap(s: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(4);
    let mut lines = Vec::new();
    for paragraph in s.split('\n') {
        let mut line = String::new();
        let mut used = 0;
        // Each word includes the space after it. That space may exceed the width, because it is trimmed.
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

/// Returns a number with what it counts, in the plural unless it is 1: `1 row`, `12 000 rows`.
pub fn counted(n: usize, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Formats a count with thousands separated by spaces: `1 048 576`.
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
    fn counts_have_thousands_set_apart() {
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
