//! Parsing that all log decoders share: Go-quoted strings, `key=value` lists, pods and containers named in free text,
//! and cutting of long texts.
//!
//! Owns no state and knows no log format: `klog` and `runtime` build on it. Pure.

mod refs;
mod values;

pub(crate) use refs::{bare_id, fill, is_hex_id, is_uid, pod_list, pod_value, scan_prose};
pub(crate) use values::{Pairs, Value, unquote};

use kflow_model::{Text, redact};

/// Longest message that is kept, bytes.
pub(crate) const MESSAGE_MAX: usize = 2048;
/// Longest field value that is kept, bytes.
pub(crate) const FIELD_MAX: usize = 1024;
/// Most fields of one line that are kept: no real line has more, and a hostile one must not cost memory.
pub(crate) const FIELDS_MAX: usize = 64;

/// Returns the first `max` bytes of `s`, up to a character boundary; a cut is marked with `…`. What looks like a
/// credential is redacted first, while it can still be recognised.
pub(crate) fn cut(s: &str, max: usize) -> Text {
    clip(&redact::text(s), max)
}

/// Like [`cut`], for an error, of which the begin and the end are kept: one that was passed on ends with its cause (`a: b: c`).
pub(crate) fn cut_error(s: &str) -> Text {
    const HEAD: usize = FIELD_MAX / 4;
    let clean = redact::text(s);
    if clean.len() <= FIELD_MAX {
        return clean.as_ref().into();
    }
    let mut from = clean.len() - (FIELD_MAX - HEAD);
    while !clean.is_char_boundary(from) {
        from += 1;
    }
    let mut t = clip(&clean, HEAD);
    t.push_str(clean.get(from..).unwrap_or_default());
    t
}

/// Like [`cut`], for a text that is redacted later anyway: only a text that has to be cut is redacted here.
pub(crate) fn shorten(s: &str, max: usize) -> Text {
    if s.len() <= max {
        s.into()
    } else {
        cut(s, max)
    }
}

/// Returns the value of the field `key`, redacted with regard to that name, and cut like a text in [`cut`].
pub(crate) fn field(key: &str, value: &str, max: usize) -> Text {
    clip(&redact::field(key, value), max)
}

fn clip(s: &str, max: usize) -> Text {
    if s.len() <= max {
        return s.into();
    }
    let mut end = max;
    while end > 0 && !s.is_char_boundary(end) {
        end -= 1;
    }
    let mut t = Text::from(s.get(..end).unwrap_or_default());
    t.push('…');
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("aéb", 2), "a…");
        assert_eq!(cut("é", 0), "…");
    }

    #[test]
    fn a_long_error_keeps_its_end_where_its_cause_is() {
        let long = format!(
            "failed to patch status \"{}\": denied the request",
            "é".repeat(2000)
        );
        let cut = cut_error(&long);
        assert!(cut.starts_with("failed to patch status"), "{cut}");
        assert!(
            cut.contains('…') && cut.ends_with("é\": denied the request"),
            "{cut}"
        );
        assert!(cut.len() <= FIELD_MAX + 8, "{}", cut.len());
        assert_eq!(cut_error("a: b"), "a: b");
    }

    #[test]
    fn a_credential_is_taken_out_before_it_is_cut_in_two() {
        assert_eq!(
            cut("pull https://bob:hunter2@registry/v2/", 18),
            "pull https://<reda…"
        );
        assert_eq!(field("bootstrap-token", "abc", 9), "<redacted…");
    }
}
