//! Bytes that should be text.

use kflow_model::Text;

/// Text cut to so many bytes, at a character.
pub(super) fn text(value: &[u8], max: usize) -> Text {
    let value = value.get(..max).unwrap_or(value);
    match std::str::from_utf8(value) {
        Ok(text) => Text::new(text),
        // Cut inside a character: the valid part. Not text at all: with replacement characters.
        Err(e) if e.error_len().is_none() => {
            let valid = value.get(..e.valid_up_to()).unwrap_or_default();
            String::from_utf8_lossy(valid).into()
        }
        Err(_) => String::from_utf8_lossy(value).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_cut_at_a_character_and_what_is_no_text_is_replaced() {
        assert_eq!(text("aé".as_bytes(), 2), "a");
        assert_eq!(text(b"a\xff", 10), "a\u{fffd}");
    }
}
