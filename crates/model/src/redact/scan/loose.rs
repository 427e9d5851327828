//! Finds values that stand beside a name without a separator, or with one of another language: `the password is x1`,
//! `client secret: x1`, `env A=x B=y`, `--set a=x,b=y`, `-o name=admin,secret=x`, `<password>x</password>`,
//! `password%3Dx`, and maps of YAML.

use super::super::key::{Kind, is_before_key};
use super::{Name, is_name, lower};

/// How far after a name the value may stand in prose, bytes: `password for user bob: x1`.
const PROSE: usize = 48;
/// How much of a word `is_odd` reads, bytes.
const ODD: usize = 64;
/// Names of passwords that are recognised in prose; `TOKENS` are the names of tokens.
const PASSWORDS: [&str; 5] = ["password", "passwd", "passphrase", "passcode", "pwd"];
const TOKENS: [&str; 14] = [
    "token",
    "access-token",
    "access_token",
    "accesstoken",
    "auth-token",
    "auth_token",
    "authtoken",
    "api_key",
    "apikey",
    "api-key",
    "api_token",
    "api-token",
    "access_key",
    "accesskey",
];

/// Words that follow `password is` in prose: `password is required`. Any other word there is taken for the password.
const SAID: [&str; 40] = [
    "a",
    "already",
    "an",
    "at",
    "being",
    "blank",
    "changed",
    "correct",
    "empty",
    "expected",
    "expired",
    "for",
    "from",
    "going",
    "ignored",
    "in",
    "incorrect",
    "invalid",
    "longer",
    "mandatory",
    "missing",
    "needed",
    "no",
    "not",
    "now",
    "only",
    "optional",
    "read",
    "required",
    "set",
    "shorter",
    "still",
    "stored",
    "the",
    "too",
    "unknown",
    "unset",
    "used",
    "valid",
    "wrong",
];

impl Name<'_> {
    /// Returns the range of such a value.
    pub(super) fn loose(&self, name: &str, what: Kind, flag: bool) -> Option<(usize, usize)> {
        let name = lower(name);
        let found = self
            .percent(what)
            .or_else(|| self.element(what))
            .or_else(|| self.settings(&name, flag))
            .or_else(|| self.option(&name, flag))
            .or_else(|| self.no_object(&name))
            .or_else(|| self.assignments(&name))
            .or_else(|| self.two_words(&name))
            .or_else(|| self.prose(&name));
        found.filter(|(from, to)| to > from)
    }

    /// `password%3Dx`, as queries hold it.
    fn percent(&self, what: Kind) -> Option<(usize, usize)> {
        let rest = self.s.get(self.end..)?;
        let sign = rest.get(..3)?;
        let is = ["%3d", "%3a"].iter().any(|s| sign.eq_ignore_ascii_case(s));
        let from = self.end + 3;
        (is && what != Kind::Plain).then(|| (from, self.skip(from, |b| !is_end(b) && b != b'&')))
    }

    /// `<password>x</password>`
    fn element(&self, what: Kind) -> Option<(usize, usize)> {
        let opens = self.start > 0 && self.at(self.start - 1) == b'<';
        let from = self.end + 1;
        (opens && what == Kind::Secret && self.at(self.end) == b'>')
            .then(|| (from, self.skip(from, |b| b != b'<')))
    }

    /// `--set a=x,b=y`, `--from-literal=a=x`: up to the next space.
    fn settings(&self, name: &str, flag: bool) -> Option<(usize, usize)> {
        let of_helm = matches!(name, "set" | "set-string" | "set-literal" | "set-json");
        if !flag || !(of_helm || name == "from-literal") {
            return None;
        }
        let from = self.skip(self.end, |b| {
            matches!(b, b' ' | b'=' | b'"' | b'\'' | b',' | b'\\')
        });
        let quote = self.at(from - 1);
        let end = if matches!(quote, b'"' | b'\'') {
            self.skip(from, |b| b != quote && b != b'\\')
        } else {
            self.skip(from, |b| !is_end(b))
        };
        (from > self.end).then_some((from, end))
    }

    /// `-o name=admin,secret=x` of a mount, `--key x` of rbd; `secret="ns/name"` names an object, `--key /a` a file.
    fn option(&self, name: &str, flag: bool) -> Option<(usize, usize)> {
        let separator = self.at(self.end);
        let is = match name {
            "secret" => separator == b'=',
            "key" => flag && matches!(separator, b'=' | b' '),
            _ => false,
        };
        let from = self.end + 1;
        let quoted = matches!(self.at(from), b'"' | b'\'' | b'\\');
        let path = name == "key" && matches!(self.at(from), b'/' | b'.' | b'-');
        (is && !quoted && !path).then(|| (from, self.word(from)))
    }

    /// `"secret":"x"`, `secret: X1`; but not the name of an object, as in `secret="ns/name"` and `secret: name`.
    fn no_object(&self, name: &str) -> Option<(usize, usize)> {
        if name != "secret" {
            return None;
        }
        let is_quote = |b| matches!(b, b'"' | b'\'' | b'\\');
        let gap = self.skip(self.end, |b| is_quote(b) || b == b' ');
        if !matches!(self.at(gap), b':' | b'=') {
            return None;
        }
        let start = self.skip(gap + 1, |b| b == b' ');
        let (from, to) = match self.quoted(start) {
            Some((from, slashes)) => (from, self.closing(from, slashes)),
            None => (start, self.word(start)),
        };
        let value = self.s.get(from..to)?;
        let of_names = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-./".contains(&b);
        let named = value.bytes().all(of_names) && (from == start || value.contains('/'));
        let opens = value.starts_with(['{', '[', '<', '&']);
        (!named && !opens).then_some((from, to))
    }

    /// `env A=x B=y`, `environment variables: A=x`
    fn assignments(&self, name: &str) -> Option<(usize, usize)> {
        if !matches!(name, "env" | "envs" | "environment") {
            return None;
        }
        let rest = self.s.get(self.end..)?;
        let more = [" variables", " variable", " vars"];
        let more = more.iter().find(|m| rest.starts_with(**m));
        let from = self.end + more.map_or(0, |m| m.len());
        let from = self.skip(from, |b| matches!(b, b' ' | b':'));
        let mut end = from;
        let mut next = from;
        loop {
            let to = self.skip(next, is_name);
            if to == next || next == self.end || self.at(to) != b'=' {
                break;
            }
            end = self.word(to + 1);
            next = self.skip(end, |b| matches!(b, b' ' | b','));
            if next == end {
                break;
            }
        }
        (end > from).then_some((from, end))
    }

    /// `client secret: x1`, `access key = x1`
    fn two_words(&self, name: &str) -> Option<(usize, usize)> {
        if !matches!(name, "secret" | "key") {
            return None;
        }
        let before = self.s.get(..self.start)?.strip_suffix(' ')?;
        let before = before.get(
            before
                .rfind(|c: char| !c.is_ascii_alphanumeric())
                .map_or(0, |i| i + 1)..,
        )?;
        let known =
            is_before_key(before) || (name == "secret" && before.eq_ignore_ascii_case("client"));
        let from = self.behind_words(self.end)?;
        let from = self.quoted(from).map_or(from, |(from, _)| from);
        (known && self.is_odd(from, 6)).then(|| (from, self.word(from)))
    }

    /// `the password is x1`, `password for bob: x1`, `password 'x'`, `token x1 expired`
    fn prose(&self, name: &str) -> Option<(usize, usize)> {
        let is = self.s.get(self.end..)?.starts_with(" is ");
        let password = PASSWORDS.contains(&name) || (is && name == "pin");
        if !password && !TOKENS.contains(&name) {
            return None;
        }
        let tab = self.s.get(self.end..)?.starts_with(r"\t");
        let end = self.end + if tab { 2 } else { 0 };
        let next = self.skip(end, |b| matches!(b, b' ' | b'\t'));
        if next == self.end || matches!(self.at(next), b':' | b'=') {
            return None;
        }
        let from = self.behind_words(end).unwrap_or(next);
        if let Some((from, slashes)) = self.quoted(from) {
            return password
                .then(|| (from, self.closing(from, slashes)))
                .or_else(|| self.is_odd(from, 10).then(|| (from, self.word(from))));
        }
        let to = self.word(from);
        let word = self.s.get(from..to)?.trim_end_matches(['.', '!']);
        let said = word.is_empty() || SAID.iter().any(|w| word.eq_ignore_ascii_case(w));
        if password && is && !said {
            return Some((from, from + word.len()));
        }
        self.is_odd(from, if password { 6 } else { 10 })
            .then_some((from, to))
    }

    /// Returns where the value begins after `is`, `for bob:` or a parenthesis.
    fn behind_words(&self, end: usize) -> Option<usize> {
        let near = self.s.get(end..)?;
        let near = near
            .get(..near.len().min(PROSE))
            .or_else(|| near.get(..1))?;
        let line = near.split('\n').next().unwrap_or(near);
        let colon = line.find([':', '=']).filter(|i| {
            let before = line.get(..*i).unwrap_or_default();
            before
                .bytes()
                .all(|b| b.is_ascii_alphabetic() || matches!(b, b' ' | b'@' | b'.'))
        });
        let mut from = end + colon.map_or(0, |i| i + 1);
        from = self.skip(from, |b| matches!(b, b' ' | b'\t' | b'='));
        for verb in ["is ", "was ", "set to ", "of ", "value ", "-> "] {
            if self.s.get(from..).is_some_and(|r| r.starts_with(verb)) {
                from += verb.len();
            }
        }
        let from = self.skip(from, |b| b == b'(');
        (from > end && from < self.b.len()).then_some(from)
    }

    /// True when a word has letters and digits and at least `least` bytes, so that it is not a word of a language.
    pub(super) fn is_odd(&self, from: usize, least: usize) -> bool {
        let near = self.b.get(from..).unwrap_or_default();
        let near = near.get(..ODD).unwrap_or(near);
        let end = near.iter().position(|b| is_end(*b)).unwrap_or(near.len());
        let word = near.get(..end).unwrap_or_default();
        word.len() >= least
            && !word.contains(&b'/')
            && word.iter().any(u8::is_ascii_digit)
            && word.iter().any(u8::is_ascii_alphabetic)
    }

    /// Returns the end of the block of YAML that begins with the line feed at `start`: the lines that are indented
    /// further than the line of the name, or are items of its list. In quotes, where `\n` stands for the line feed, the
    /// block ends with the text.
    pub(super) fn block(&self, start: usize) -> Option<usize> {
        let escape = self.skip(start, |b| b == b'\\');
        if escape > start && self.at(escape) == b'n' {
            let inside = matches!(self.at(escape + 1), b' ' | b'-');
            return inside.then(|| self.skip(start, |b| !matches!(b, b'"' | b'\n')));
        }
        if self.at(start) != b'\n' {
            return None;
        }
        let line = self.s.get(..self.start)?.rfind('\n').map_or(0, |i| i + 1);
        let indent = self.skip(line, |b| b == b' ').min(self.start) - line;
        let mut end = start;
        while end < self.b.len() {
            let text = self.skip(end + 1, |b| b == b' ' || b == b'\t');
            let further = text - (end + 1) > indent;
            let item = text - (end + 1) == indent && self.at(text) == b'-';
            if !(further || item) {
                break;
            }
            end = self.skip(text, |b| b != b'\n');
        }
        (end > start).then_some(end)
    }
}

/// True for a byte that ends a word that is not quoted.
fn is_end(b: u8) -> bool {
    matches!(
        b,
        b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>' | b']' | b')'
    )
}
