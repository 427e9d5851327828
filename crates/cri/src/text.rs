//! Text out of bytes that should be text.

use kflow_model::Text;

/// Returns at most `max` bytes as text, cut at a character's border.
pub(super) fn text(value: &[u8], max: usize) -> Text {
    let value = value.get(..max).unwrap_or(value);
    match std::str::from_utf8(value) {
        Ok(text) => Text::new(text),
        // A cut inside a character leaves the valid part. Bytes that are no text at all get replacement characters.
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
