//! Names and sentences: templates with names in them, and times, lists and messages in words.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::signal::cause_in;
use kflow_model::units::{self, age};
use kflow_model::{Nanos, Text};

/// The values of the names that the templates of sentences and commands use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    known: SmallVec<[(Text, Text); 8]>,
    /// Names whose values say how long or how often, each with the part of its value that does not.
    varying: SmallVec<[(Text, Text); 2]>,
}

/// The length of the longest message that goes into a sentence, characters.
const LONGEST: usize = 300;

impl Names {
    /// Sets a name, unless it has a value or the value is empty.
    pub fn set(&mut self, key: &str, value: &str) {
        let value = unframed(value);
        let value = value.trim();
        if !value.is_empty() && self.get(key).is_none() {
            self.known.push((key.into(), shorten(value, LONGEST)));
        }
    }
    /// Sets a name whose value says how long or how often, and so differs among pods with the same trouble; `constant`
    /// is the part of the value that does not differ.
    pub fn vary(&mut self, key: &str, value: &str, constant: &str) {
        if self.get(key).is_none() {
            self.varying.push((key.into(), constant.into()));
        }
        self.set(key, value);
    }
    /// Sets a name, also when it has a value.
    pub fn replace(&mut self, key: &str, value: &str) {
        self.remove(key);
        self.set(key, value);
    }
    pub fn remove(&mut self, key: &str) {
        self.known.retain(|(k, _)| k != key);
        self.varying.retain(|(k, _)| k != key);
    }
    /// [`Self::set`], in a chain.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.set(key, value);
        self
    }
    /// Returns the value of a name; `None` when it is not set.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.known
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }
    /// All names with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.known.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
    /// Fills a sentence's template: `{name}` becomes the name's value, or `?` without one; `[…]` is left out when a
    /// name in it has no value, and of `[…|…]` the first part stays of which all names have one.
    pub fn sentence(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() + 64);
        let mut rest = template;
        while let Some((before, tail)) = rest.split_once('[') {
            self.fill(before, &mut out, "?");
            let Some((inside, after)) = tail.split_once(']') else {
                rest = tail;
                break;
            };
            let before = out.len();
            for part in inside.split('|') {
                if self.fill(part, &mut out, "?") {
                    break;
                }
                out.truncate(before);
            }
            rest = after;
        }
        self.fill(rest, &mut out, "?");
        tidy(out)
    }
    /// Returns a filled sentence without the values that say how long or how often.
    pub fn constant(&self, template: &str, sentence: &str) -> String {
        let varies = |key: &str| self.varying.iter().any(|(name, _)| name == key);
        let mut keys = template.split('{').skip(1);
        if !keys.any(|tail| tail.split_once('}').is_some_and(|(key, _)| varies(key))) {
            return sentence.to_owned();
        }
        let mut names = self.clone();
        for (k, v) in &mut names.known {
            if let Some((_, constant)) = self.varying.iter().find(|(name, _)| name == k) {
                v.clone_from(constant);
            }
        }
        names.sentence(template)
    }
    /// Fills a command's template: a name without a value becomes `<NAME>`.
    pub fn command(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() + 32);
        let mut rest = template;
        while let Some((before, tail)) = rest.split_once('{') {
            out.push_str(before);
            match tail.split_once('}') {
                Some((key, after)) if is_name(key) => {
                    match self.get(key) {
                        // A value from the cluster must not end the shell argument that it is put into.
                        Some(v) => out.extend(v.chars().filter(|c| is_plain(*c))),
                        None => {
                            out.push('<');
                            out.push_str(&key.to_uppercase());
                            out.push('>');
                        }
                    }
                    rest = after;
                }
                _ => {
                    out.push('{');
                    rest = tail;
                }
            }
        }
        out.push_str(rest);
        out
    }
    /// Appends the filled template; returns false when a name has no value.
    fn fill(&self, template: &str, out: &mut String, unknown: &str) -> bool {
        let mut complete = true;
        let mut rest = template;
        while let Some((before, tail)) = rest.split_once('{') {
            out.push_str(before);
            let Some((key, after)) = tail.split_once('}') else {
                out.push('{');
                rest = tail;
                break;
            };
            match self.get(key) {
                Some(v) => out.push_str(v),
                None => {
                    complete = false;
                    out.push_str(unknown);
                }
            }
            rest = after;
        }
        out.push_str(rest);
        complete
    }
}

/// Returns a message without gRPC's frame around each error in it (`rpc error: code = Unknown desc = …`). An error
/// with nothing behind the frame keeps its code. The suffix `: unknown` (`errdefs.ErrUnknown`), which containerd
/// before 2.1 and dockerd put behind an error that has no code of theirs, is left out too.
pub fn unframed(message: &str) -> Cow<'_, str> {
    const DESC: &str = "desc = ";
    // A text without these characters is a name, and has no frame.
    if memchr::memchr2(b':', b'=', message.as_bytes()).is_none() {
        return Cow::Borrowed(message);
    }
    let message = uncoded(message);
    if !message.contains(RPC) && !message.contains(DESC) {
        return message;
    }
    let message = &*message;
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(RPC) {
        out.push_str(before);
        let end = after
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(after.len());
        let (code, tail) = after.split_at_checked(end).unwrap_or((after, ""));
        let described = tail.trim_start().strip_prefix(DESC);
        let text = described.unwrap_or(tail);
        if described.is_none_or(|d| d.trim_matches(['"', ' ', '.', ']']).is_empty()) {
            out.push_str(code);
        }
        rest = text;
    }
    out.push_str(rest);
    Cow::Owned(out.replace(DESC, ""))
}

/// Returns the message without `: unknown` at its end, and at the end of each message that it quotes.
pub(super) fn uncoded(message: &str) -> Cow<'_, str> {
    const UNKNOWN: &str = ": unknown";
    if !message.contains(UNKNOWN) {
        return Cow::Borrowed(message);
    }
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(UNKNOWN) {
        out.push_str(before);
        let ends = after.trim_start().is_empty() || after.starts_with(['"', '\\']);
        if !ends {
            out.push_str(UNKNOWN);
        }
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The begin of gRPC's frame.
const RPC: &str = "rpc error: code = ";

pub(super) fn is_name(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "-_./:@=,+~".contains(c)
}

/// Tidies a filled template: single spaces between words, none before a full stop, no two full stops.
fn tidy(s: String) -> String {
    let bytes = s.as_bytes();
    let plain = bytes.iter().all(|b| *b == b' ' || b.is_ascii_graphic())
        && bytes.windows(2).all(|two| two != b"  ");
    if plain && !s.starts_with(' ') && !s.ends_with(' ') && !s.ends_with("..") {
        return s;
    }
    let mut out = String::with_capacity(s.len());
    for word in s.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    while out.ends_with("..") {
        out.pop();
    }
    out
}

/// Shortens a message to at most `most` characters on one line, without control characters.
pub fn shorten(s: &str, most: usize) -> Text {
    // Most messages are short and plain, and need no change.
    if s.len() <= most && s.bytes().all(|b| (b' '..0x7f).contains(&b)) {
        return Text::from(s);
    }
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let n = s.chars().count();
    let mut out = String::with_capacity(s.len().min(4 * most));
    if n <= most {
        out.extend(s.chars().map(clean));
        return out.into();
    }
    // An error begins with who failed and ends with the cause: both stay, and the middle goes.
    let head = most * 2 / 3;
    let tail = most.saturating_sub(head + 3);
    out.extend(
        s.chars()
            .take(head)
            .chain(" … ".chars())
            .chain(s.chars().skip(n - tail))
            .map(clean),
    );
    out.into()
}

/// A moment in a sentence as of `now`: `23:07:10 UTC`, with the date where it was on another day (UTC).
pub fn at(at: Nanos, now: Nanos) -> String {
    let day = |t: Nanos| t.0.div_euclid(units::DAY);
    let text = if day(at) == day(now) {
        units::clock(at, 0, 0)
    } else {
        units::date_and_clock(at, 0, 0)
    };
    format!("{text} UTC")
}

/// A span of time in a sentence: `850ms`, `12s`, `2m41s`, `3h05m`, `2d04h`.
pub fn span(ns: i64) -> String {
    age(ns)
}

/// `once`, `twice`, `5 times`.
pub fn times(n: u32) -> String {
    match n {
        0 | 1 => "once".into(),
        2 => "twice".into(),
        n => format!("{n} times"),
    }
}

/// The text with its first letter in upper case.
pub fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), rest.as_str())
}

/// Names in a list: `a`, `a and b`, `a, b and 3 more`.
pub fn list<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [a] => a.as_ref().into(),
        [a, b] => format!("{} and {}", a.as_ref(), b.as_ref()),
        [a, b, c] => format!("{}, {} and {}", a.as_ref(), b.as_ref(), c.as_ref()),
        [a, b, rest @ ..] => format!("{}, {} and {} more", a.as_ref(), b.as_ref(), rest.len()),
    }
}

pub fn number(n: impl std::fmt::Display) -> Text {
    n.to_string().into()
}

/// Returns the cause in a hook's error, shortened: the runtime says in many words who failed, and only at the end why.
pub fn hook_error(text: &str) -> String {
    shorten(cause_in(text).trim().trim_end_matches(['"', '.']), 160).to_string()
}

/// Returns a text without what differs from one occurrence of the same words to the next: identifiers, numbers of five and more digits, and
/// times of day. Shorter numbers stay: an exit code, a port.
pub fn alike(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let run = if c.is_alphanumeric() {
            let is_part = |c: char| !c.is_alphanumeric();
            let end = rest.find(is_part).unwrap_or(rest.len());
            end + time_of_day(rest.get(end..).unwrap_or_default(), rest.get(..end))
        } else {
            c.len_utf8()
        };
        let (word, after) = rest.split_at_checked(run).unwrap_or((rest, ""));
        let has_digit = word.bytes().any(|b| b.is_ascii_digit());
        out.push_str(if has_digit && word.len() >= 5 {
            "#"
        } else {
            word
        });
        rest = after;
    }
    out
}

/// Returns the length of `:05:07.123` behind the hour of a time of day; 0 behind anything else.
fn time_of_day(rest: &str, hour: Option<&str>) -> usize {
    let is_two =
        |t: Option<&str>| t.is_some_and(|t| t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit()));
    let at = |at: usize| rest.get(at..=at);
    // A date with its T, as RFC 3339 has it, ends with the hour too.
    let hour = hour.map(|h| h.rsplit_once('T').map_or(h, |(_, h)| h));
    let is_time = is_two(hour)
        && at(0) == Some(":")
        && is_two(rest.get(1..3))
        && at(3) == Some(":")
        && is_two(rest.get(4..6));
    if !is_time {
        return 0;
    }
    let fraction = rest.get(6..).unwrap_or_default();
    let digits = fraction
        .strip_prefix(['.', ','])
        .map_or(0, |f| 1 + f.bytes().take_while(u8::is_ascii_digit).count());
    6 + digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_trouble_are_alike_and_others_are_not() {
        for (a, b) in [
            (
                "2026-11-21T12:00:05.123Z pid 31337: cannot bind port 8080",
                "2026-11-21T13:10:59Z pid 40001: cannot bind port 8080",
            ),
            (
                "failed to stop sandbox \"1f2e3d4c5b6a\"",
                "failed to stop sandbox \"aa00bb11cc22\"",
            ),
            ("12:00:01 no route", "23:59:59,001 no route"),
        ] {
            assert_eq!(alike(a), alike(b));
        }
        for (a, b) in [
            ("exit code 1", "exit code 2"),
            ("cannot bind port 8080", "cannot bind port 8081"),
            ("no such table", "no such column"),
        ] {
            assert_ne!(alike(a), alike(b));
        }
    }

    #[test]
    fn a_sentence_has_no_frame_of_grpc() {
        for (message, said) in [
            ("plain", "plain"),
            (
                "rpc error: code = Unknown desc = no such file",
                "no such file",
            ),
            (
                "Failed to stop: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
                "Failed to stop: context deadline exceeded",
            ),
            (
                r#"rpc error: code = Unavailable desc = connection error: desc = "transport: dial unix x""#,
                r#"connection error: "transport: dial unix x""#,
            ),
            (
                "a: rpc error: code = Unknown desc = b: rpc error: code = NotFound desc = c",
                "a: b: c",
            ),
            (
                "OCI runtime create failed: no such file: unknown",
                "OCI runtime create failed: no such file",
            ),
            (
                r#""a" with RunError: "b: unknown": c: unknown host"#,
                r#""a" with RunError: "b": c: unknown host"#,
            ),
            ("rpc error: code = Unavailable desc = ", "Unavailable"),
            ("rpc error: code = Canceled", "Canceled"),
            (
                "rpc error: code = Canceled, then rpc error: code = Unknown desc = x",
                "Canceled, then x",
            ),
        ] {
            assert_eq!(unframed(message), said);
            let n = Names::default().with("what", message);
            assert_eq!(n.sentence("{what}"), said);
        }
    }
    #[test]
    fn a_part_in_brackets_goes_when_a_name_in_it_is_not_known() {
        let n = Names::default().with("image", "a:1");
        assert_eq!(
            n.sentence("The image {image}[ of {pod}] is gone[: {what}]."),
            "The image a:1 is gone."
        );
        assert_eq!(
            n.with("what", "denied.")
                .sentence("The image {image}[: {what}]."),
            "The image a:1: denied."
        );
    }

    #[test]
    fn of_parts_that_exclude_each_other_the_first_stays() {
        let say = "It [fails: {what}|waits for {whom}][, since {t}].";
        let whom = Names::default().with("whom", "b");
        assert_eq!(whom.sentence(say), "It waits for b.");
        assert_eq!(whom.with("what", "a").sentence(say), "It fails: a.");
    }

    #[test]
    fn a_command_never_takes_more_than_a_word_from_outside() {
        let n = Names::default().with("pod", "a; rm -rf /");
        assert_eq!(n.command("get {pod} -n {ns}"), "get arm-rf/ -n <NS>");
        assert_eq!(n.command("-o jsonpath='{.spec}'"), "-o jsonpath='{.spec}'");
    }

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_end() {
        let long = format!("who {} why", "x".repeat(400));
        let s = shorten(&long, 60);
        assert!(s.chars().count() <= 60 && s.starts_with("who") && s.ends_with("why"));
    }
}
