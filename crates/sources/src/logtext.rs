//! Text that every log decoder takes apart: Go-quoted strings, `key=value` lists, pods and containers named in
//! prose, cutting and redaction.
//!
//! Owns no state and knows no log format: `klog` and `runtime` build on it. Pure.

mod redact;
mod refs;
mod values;

pub(crate) use redact::{is_secret_key, redact};
pub(crate) use refs::{bare_id, fill, is_hex_id, is_uid, pod_list, pod_value, scan_prose};
pub(crate) use values::{Pairs, Value, unquote};

use kflow_model::Text;

/// Longest message that is kept, bytes.
pub(crate) const MESSAGE_MAX: usize = 2048;
/// Longest field value that is kept, bytes.
pub(crate) const FIELD_MAX: usize = 1024;
/// Most fields of one line that are kept: no real line has more, and a hostile one shall not cost memory.
pub(crate) const FIELDS_MAX: usize = 64;

/// The first `max` bytes of `s`, at a character boundary; what was cut is marked with `…`.
pub(crate) fn cut(s: &str, max: usize) -> Text {
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
}
