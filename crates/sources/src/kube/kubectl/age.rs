//! Ages as kubectl prints them: `28s`, `6m40s`, `3h12m`, `2d`, `28s (x9 over 6m40s)`.

/// An age, in whole seconds. kubectl leaves out small units of great ages (k8s.io/apimachinery/pkg/util/duration,
/// `HumanDuration`): the thing is as old as this, or older by less than one of the smallest unit that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Age {
    pub(super) seconds: i64,
    /// The smallest unit that is there, in seconds.
    pub(super) unit: i64,
}

impl Age {
    pub(super) const fn of_seconds(seconds: i64) -> Self {
        Self { seconds, unit: 1 }
    }
}

const UNITS: [(u8, i64); 5] = [
    (b'y', 365 * 86_400),
    (b'd', 86_400),
    (b'h', 3600),
    (b'm', 60),
    (b's', 1),
];

/// Reads one age. `None` for everything else, `<unknown>` and `<invalid>` among it.
pub(super) fn age(text: &str) -> Option<Age> {
    let mut left = &UNITS[..];
    let mut out = Age {
        seconds: 0,
        unit: 0,
    };
    let mut number: Option<i64> = None;
    for b in text.bytes() {
        if b.is_ascii_digit() {
            let so_far = number.unwrap_or(0).checked_mul(10)?;
            number = Some(so_far.checked_add(i64::from(b - b'0'))?);
            continue;
        }
        // Each unit is there once, and the greater ones come first.
        let at = left.iter().position(|(unit, _)| *unit == b)?;
        let (_, unit) = *left.get(at)?;
        left = left.get(at + 1..)?;
        out.seconds = out.seconds.checked_add(number.take()?.checked_mul(unit)?)?;
        out.unit = unit;
    }
    (out.unit > 0 && number.is_none()).then_some(out)
}

/// When a repeated Event was last and first seen, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ages {
    pub(super) last: Option<Age>,
    pub(super) first: Option<Age>,
    pub(super) count: Option<i32>,
}

/// Reads the front of `text` as the column `AGE` of Events (`28s`, `28s (x9 over 6m40s)`, `<unknown>`). Returns what
/// follows it too.
pub(super) fn ages(text: &str) -> Option<(Ages, &str)> {
    let (word, rest) = word(text);
    let mut out = Ages {
        last: age(word),
        ..Ages::default()
    };
    if out.last.is_none() && !matches!(word, "<unknown>" | "<invalid>") {
        return None;
    }
    if let Some((repeats, after)) = rest
        .trim_start()
        .strip_prefix("(x")
        .and_then(|r| r.split_once(')'))
        && let Some((count, over)) = repeats.split_once(" over ")
    {
        out.count = count.parse().ok();
        out.first = age(over.trim());
        return Some((out, after));
    }
    Some((out, rest))
}

/// Splits a text after its first word.
pub(super) fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read() {
        for (text, want) in [
            ("0s", Some((0, 1))),
            ("28s", Some((28, 1))),
            ("6m40s", Some((400, 1))),
            ("23m", Some((1380, 60))),
            ("3h12m", Some((11_520, 60))),
            ("2d", Some((172_800, 86_400))),
            ("2y45d", Some((2 * 31_536_000 + 45 * 86_400, 86_400))),
            ("", None),
            ("5", None),
            ("m5", None),
            ("5s3m", None),
            ("5m3m", None),
            ("<unknown>", None),
            ("<invalid>", None),
            ("99999999999999999999s", None),
            ("9223372036854775807y", None),
            ("default-scheduler", None),
        ] {
            let got = age(text).map(|a| (a.seconds, a.unit));
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn repeats_are_read() {
        let (a, rest) = ages("28s (x9 over 6m40s)  kubelet").unwrap();
        assert_eq!((a.last.unwrap().seconds, a.count), (28, Some(9)));
        assert_eq!((a.first.unwrap().seconds, rest), (400, "  kubelet"));
        let (a, rest) = ages("<unknown>   (x)").unwrap();
        assert_eq!((a, rest.trim()), (Ages::default(), "(x)"));
        assert_eq!(ages("kubelet  x"), None);
    }
}
