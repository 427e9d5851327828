//! Makes untrusted text harmless for a terminal.

use std::borrow::Cow;

use kflow_model::Nanos;
use kflow_model::units::{DAY, date_and_clock, digits, time_of_day};

/// How the moments of a table are written: as times of day, or, where they are of several days (UTC), with the date.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    dated: bool,
}

impl Times {
    pub(crate) fn of(moments: impl IntoIterator<Item = Nanos>) -> Self {
        let mut days = moments.into_iter().map(|at| at.0.div_euclid(DAY));
        let first = days.next();
        Self {
            dated: days.any(|day| Some(day) != first),
        }
    }
    /// A moment with the digits that its precision (ns) allows.
    pub(crate) fn at(self, at: Nanos, precision: u32) -> String {
        if self.dated {
            date_and_clock(at, digits(precision), 0)
        } else {
            time_of_day(at, precision)
        }
    }
    /// The width of a column that is so wide for times of day.
    pub(crate) const fn width(self, of_day: usize) -> usize {
        const DATE: usize = "2026-11-21 ".len();
        if self.dated { of_day + DATE } else { of_day }
    }
}

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

    #[test]
    fn moments_of_several_days_have_the_date() {
        let at = |hours: i64| Nanos(1_790_035_200_000_000_000 + hours * 3_600_000_000_000);
        let one = Times::of([at(0), at(23)]);
        assert_eq!(one.at(at(1), 1_000_000_000), "01:00:00");
        assert_eq!(one.width(18), 18);
        let two = Times::of([at(-1), at(1)]);
        assert_eq!(two.at(at(1), 1_000_000_000), "2026-09-22 01:00:00");
        assert_eq!(two.width(18), 18 + "2026-09-22 ".len());
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
