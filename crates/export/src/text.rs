//! Makes untrusted text harmless for a terminal.

use std::borrow::Cow;

/// True for characters that control a terminal or change how a text reads: control characters, bidirectional marks and
/// overrides, zero-width and other invisible characters.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text as one harmless line: line breaks and tabs become spaces, other hostile characters become `·`.
pub fn clean(s: &str) -> Cow<'_, str> {
    // Nearly every text is plain ASCII, which a look at its bytes shows.
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

/// Cuts a text to at most `width` characters, the last one `…` if something was cut.
pub fn cut(s: &str, width: usize) -> Cow<'_, str> {
    match s.char_indices().nth(width) {
        None => Cow::Borrowed(s),
        Some(_) if width == 0 => Cow::Borrowed(""),
        Some(_) => Cow::Owned(s.chars().take(width - 1).chain(['…']).collect()),
    }
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
