//! Values beside names, however deep they are quoted: `password=x`, `\"token\":\"x\"`, `--token x`,
//! `{Name:TOKEN Value:x}`, `key:"TOKEN" value:"x"`, `map[Authorization:[Bearer x]]`, `headers=[{"name":…}]`.

use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

use super::REDACTED;
use super::key::{Kind, kind};

mod loose;

/// Parts of the names that [`kind`] knows, and `value`.
static NAMES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build([
            "pass",
            "pin",
            "kennwort",
            "wachtwoord",
            "sess",
            "creds",
            "literal",
            "--set",
            "pwd",
            "pw",
            "token",
            "secret",
            "key",
            "auth",
            "cookie",
            "credential",
            "signature",
            "sig",
            "jwt",
            "dockerc",
            "env",
            "arg",
            "command",
            "cmd",
            "entrypoint",
            "header",
            "annotations",
            "attributes",
            "context",
            "parameters",
            "data",
            "body",
            "requestobject",
            "responseobject",
            "last-applied",
            "value",
            "stdin",
        ])
        .ok()
});

/// Names that are common words too. They name a credential only as a flag, before `=`, or when the
/// value looks like one.
const SHORT: [&str; 5] = ["pass", "pin", "pw", "sig", "auth"];

/// What a registry's client says behind `may require authorization: `, in the order in which it does (containerd
/// core/remotes/docker/authorizer.go, `invalidAuthorization`; the errors are those of RFC 6750, section 3.1; docker
/// distribution registry/client/auth/session.go, `ErrNoBasicAuthCredentials`).
const REFUSAL: [&str; 6] = [
    "server message: ",
    "invalid_request: ",
    "invalid_token: ",
    "insufficient_scope: ",
    "authorization failed",
    ": no basic auth credentials",
];

/// Longest name, bytes; also how far before a `value` the name of its pair may stand.
const NEAR: usize = 256;
/// Longest credential of several words in Go's `%+v` output, bytes.
const FIELD: usize = 1024;

/// Returns the text with values of credentials replaced, `None` when there are none to replace.
pub(super) fn values(s: &str) -> Option<String> {
    let Some(names) = NAMES.as_ref() else {
        return Some(REDACTED.to_owned());
    };
    let mut out = String::new();
    let mut done = 0;
    let mut from = 0;
    while let Some(m) = names.find(aho_corasick::Input::new(s).range(from..)) {
        let name = Name::around(s, from, m.start(), m.end());
        from = name.end;
        let Some((start, end)) = name.value() else {
            continue;
        };
        if start < done || end <= start || s.get(start..end) == Some(REDACTED) {
            from = from.max(end);
            continue;
        }
        out.push_str(s.get(done..start).unwrap_or_default());
        out.push_str(REDACTED);
        done = end;
        from = end;
    }
    if done == 0 {
        return None;
    }
    out.push_str(s.get(done..).unwrap_or_default());
    Some(out)
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

/// A name that was found in a text.
struct Name<'a> {
    s: &'a str,
    b: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Name<'a> {
    /// Extends a part of a name to the whole name; nothing before `from` belongs to it.
    fn around(s: &'a str, from: usize, start: usize, end: usize) -> Self {
        let b = s.as_bytes();
        let least = from.max(start.saturating_sub(NEAR));
        let before = b.get(least..start).unwrap_or_default();
        let after = b.get(end..b.len().min(end + NEAR)).unwrap_or_default();
        let back = before.iter().rev().take_while(|b| is_name(**b)).count();
        let (rest, name) = before.split_at(before.len() - back);
        // The letter of `\n` and the digits of `%26` are not part of the name after them.
        let escape = match (rest.last(), name) {
            (Some(b'\\'), [b'n' | b't' | b'r', ..]) => 1,
            (Some(b'%'), [a, b, ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => 2,
            _ => 0,
        };
        let back = back - escape;
        let on = after.iter().take_while(|b| is_name(**b)).count();
        Self {
            s,
            b,
            start: start - back,
            end: end + on,
        }
    }

    fn at(&self, i: usize) -> u8 {
        self.b.get(i).copied().unwrap_or(0)
    }

    /// Index of the first byte from `i` on that does not satisfy `f`.
    fn skip(&self, mut i: usize, f: impl Fn(u8) -> bool) -> usize {
        while i < self.b.len() && f(self.at(i)) {
            i += 1;
        }
        i
    }

    /// Returns the range of the value to be replaced; `None` when there is none.
    fn value(&self) -> Option<(usize, usize)> {
        let name = self.s.get(self.start..self.end)?;
        // Without a flag's dashes, the dot of `.dockerconfigjson`, and the underscore of npm's `_auth`.
        let plain = name.trim_matches(['-', '.', '_']);
        let flag = name.starts_with('-');
        let before = self.start.checked_sub(1).map_or(0, |i| self.at(i));
        let what = kind(plain);
        let pair = plain.eq_ignore_ascii_case("value") && self.of_pair();
        let short = what == Kind::Plain && SHORT.contains(&&*lower(plain));
        let value = plain.eq_ignore_ascii_case("value");
        if let Some(found) = self.loose(plain, what, flag) {
            return Some(found);
        }
        if what == Kind::Plain && !value && !short {
            return None;
        }

        // The quote that closes the name may have backslashes before it.
        let quote = self.skip(self.end, |b| b == b'\\');
        let quoted = matches!(self.at(quote), b'"' | b'\'' | b'`');
        let level = quote - self.end;
        let after_name = if quoted { quote + 1 } else { self.end };
        let gap = self.skip(after_name, |b| matches!(b, b' ' | b'\t'));
        let separator = self.at(gap);
        if !matches!(separator, b'=' | b':') {
            // `--token x`, `["--token","x"]`
            let between = |b| matches!(b, b' ' | b'\t' | b',' | b'"' | b'\'' | b'\\');
            let next = self.skip(after_name, between);
            let flagged = flag && (what != Kind::Plain || short) && next > after_name;
            let quote = next.checked_sub(1).map_or(0, |i| self.at(i));
            let slashes = self.s.get(..next.saturating_sub(1)).unwrap_or_default();
            let slashes = slashes.len() - slashes.trim_end_matches('\\').len();
            return (flagged && !matches!(self.at(next), b'-' | 0))
                .then(|| match quote {
                    b'"' | b'\'' => (next, self.closing(next, slashes)),
                    _ => (next, self.word(next)),
                })
                .filter(|(from, to)| to > from);
        }
        let value = self.skip(gap, |b| matches!(b, b'=' | b':' | b'>'));
        let spaced = self.at(value) == b' ';
        let start = self.skip(value, |b| matches!(b, b' ' | b'\t'));
        let scalar = self.quoted(start);
        let pair = pair
            || (plain.eq_ignore_ascii_case("value")
                && scalar.is_some_and(|(from, n)| self.before_name(self.closing(from, n))));
        if what == Kind::Plain && !pair && !short {
            return None;
        }
        let in_brackets = scalar.is_none() && self.opens(start).is_some();
        if separator == b':' && scalar.is_none() && !in_brackets {
            // `open "/run/secrets/token": no such file`, `pod ns/token: …`; `volume "db-secret" : object not registered`,
            // `secret "db-token": not found`
            let named = quoted && (gap > quote + 1 || self.is_named());
            if named || (before == b'/' && !self.has_domain()) {
                return None;
            }
        }
        if in_brackets && (pair || what == Kind::Opaque || self.at(start) == b'[') {
            return Some((start, self.structure(start, level)));
        }
        if what == Kind::Opaque
            && separator == b':'
            && let Some(end) = self.block(start)
        {
            return Some((start, end));
        }
        if in_brackets {
            // The values of a map are found by their own names.
            return None;
        }
        let inner = scalar.map(|(from, slashes)| (from, self.closing(from, slashes)));
        let found = match (what, inner) {
            _ if pair => inner.unwrap_or_else(|| (start, self.field_end(start))),
            (Kind::Opaque, _) if only_in_brackets(plain) => return None,
            (Kind::Opaque, Some(inner)) => inner,
            // `Shapes::query` has redacted the query of a URL before.
            (Kind::Opaque, None) if separator == b':' || matches!(before, b'?' | b'&') => {
                return None;
            }
            (Kind::Opaque, None) => (start, self.word(start)),
            _ if short
                && !(flag
                    || separator == b'='
                    || (quoted && scalar.is_some())
                    || (!spaced && (self.is_field(start) || self.is_odd(start, 6)))) =>
            {
                return None;
            }
            (_, Some((from, to))) => (self.after_scheme(from).min(to), to),
            (_, None) => return self.plain(plain, start, spaced),
        };
        Some(found).filter(|(from, to)| to > from)
    }

    /// Returns the range of a credential that is not quoted.
    fn plain(&self, name: &str, start: usize, spaced: bool) -> Option<(usize, usize)> {
        let from = self.after_scheme(start);
        let name = lower(name);
        if name.ends_with("cookie") || (from == start && name.ends_with("authorization")) {
            let from = if spaced {
                self.behind_refusal(from)
            } else {
                from
            };
            let end = self.skip(from, |b| !matches!(b, b'"' | b'\'' | b'\n' | b']' | b'}'));
            let rest = self.s.get(from..end)?;
            let is_empty = rest.bytes().all(|b| matches!(b, b'\\' | b' ' | b'\r'));
            return (!is_empty).then_some((from, end));
        }
        let mut end = self.word(from);
        if end == from && name.contains("pass") && matches!(self.at(from), b'\n' | b'\r') {
            // The value is on the next line, unless another name begins there.
            let next = self.skip(from, |b| b.is_ascii_whitespace());
            let word = self.word(next);
            return (word > next && !self.begins_name(next)).then_some((next, word));
        }
        let word = self.s.get(from..end)?;
        let phrase = ["pass", "pwd", "secret", "authorization"];
        let of_words = phrase.iter().any(|p| name.contains(p));
        if matches!(word, "|" | "|-" | "|+" | ">" | ">-" | ">+") {
            // A block scalar of YAML: the lines that are indented.
            let rest = self.s.get(end..)?;
            let lines = rest.match_indices('\n').map(|(i, _)| end + i);
            let block = lines
                .filter(|i| !matches!(self.at(i + 1), b' ' | b'\t' | b'\n'))
                .find(|i| *i > end);
            return Some((from, block.unwrap_or(self.b.len())));
        }
        if matches!(
            word,
            "" | "true" | "false" | "null" | "nil" | "none" | "<nil>"
        ) {
            return None;
        }
        // "failed to fetch token: serviceaccounts "x" not found" is a chain of errors and holds no token.
        let prose = spaced
            && matches!(
                name.as_str(),
                "token" | "credential" | "credentials" | "signature" | "jwt"
            )
            && word.len() < 20
            && word.bytes().all(|b| b.is_ascii_lowercase() || b == b':');
        let refused = spaced && name == "invalid_token" && self.behind_refusal(from) > from;
        if prose || refused {
            return None;
        }
        // Go's `{Username:u Password:two words Server:s}`
        let in_struct = !spaced && self.in_struct();
        if in_struct {
            end = end.max(self.until_next_field(from));
        } else if of_words {
            end = self.phrase(end);
        }
        (end > from).then_some((from, end))
    }

    /// Returns where the words end that a registry's client says: no credential begins before it.
    fn behind_refusal(&self, start: usize) -> usize {
        REFUSAL.iter().fold(start, |at, words| {
            let rest = self.s.get(at..).unwrap_or_default();
            at + rest.strip_prefix(words).map_or(0, |_| words.len())
        })
    }

    /// True when the name stands like a field in Go's `%+v` output.
    fn in_struct(&self) -> bool {
        let before = self.start.checked_sub(1).map(|i| self.at(i));
        matches!(before, Some(b'{' | b' ' | b'[' | b',')) && self.at(self.end) == b':'
    }

    /// True when the name stands like such a field, and a brace closes the struct.
    fn is_field(&self, value: usize) -> bool {
        self.in_struct() && self.until_next_field(value) > value
    }

    /// Returns where the value begins after `Bearer ` or another scheme.
    fn after_scheme(&self, start: usize) -> usize {
        let word = self.skip(start, |b| b.is_ascii_alphanumeric() || b == b'-');
        let scheme = self.s.get(start..word).unwrap_or_default();
        let known = ["bearer", "basic", "negotiate", "token", "apikey"];
        if self.at(word) == b' ' && known.iter().any(|k| scheme.eq_ignore_ascii_case(k)) {
            word + 1
        } else {
            start
        }
    }

    /// Returns the end of a word that is not quoted. Punctuation ends the word, unless it is directly followed by text
    /// that is not another name: `a,b` is one word, and so are `a)b` and `a;--b`.
    fn word(&self, start: usize) -> usize {
        let is_quote = |b| matches!(b, b'"' | b'\'' | b'`');
        let ends = |b| matches!(b, b',' | b';' | b'&' | b'}' | b']' | b')' | b'<') || is_quote(b);
        let mut i = start;
        while i < self.b.len() {
            if self.s.get(i..).is_some_and(|r| r.starts_with(REDACTED)) {
                return if i == start { i + REDACTED.len() } else { i };
            }
            match self.at(i) {
                b' ' | b'\t' | b'\n' | b'\r' => return i,
                b'\\' => {
                    let next = self.skip(i, |b| b == b'\\');
                    if is_quote(self.at(next)) || matches!(self.at(next), b'n' | b'r' | b't' | 0) {
                        return i;
                    }
                    i = next;
                }
                b if ends(b) => {
                    let next = self.skip(i, ends);
                    let quotes = (i..next).any(|n| is_quote(self.at(n)));
                    let after = self.at(next);
                    let another = match after {
                        b' ' | b'\t' | b'\n' | b'\r' | b'\\' | b'{' | b'[' | 0 => true,
                        b'-' => self.at(next + 1) == b'-' && self.begins_name(next + 2),
                        _ => self.begins_name(next),
                    };
                    let in_quotes = quotes && !(next == i + 1 && after.is_ascii_alphanumeric());
                    let goes_on = !another && !in_quotes;
                    if !goes_on {
                        return i;
                    }
                    i = next;
                }
                _ => i += 1,
            }
        }
        i
    }

    /// Returns the end of a credential that a person chose and that is not quoted: it may have several words. What
    /// follows belongs to it up to a line feed, punctuation that ends a word (`word`), a flag, or another
    /// name with its value.
    fn phrase(&self, mut end: usize) -> usize {
        loop {
            let next = self.skip(end, |b| matches!(b, b' ' | b'\t'));
            let flag = self.at(next) == b'-' && is_name(self.at(next + 1));
            if next == end || flag || self.begins_name(next) {
                return end;
            }
            let word = self.word(next);
            if word == next {
                return end;
            }
            end = word;
        }
    }

    /// True when a name with its separator begins at `at`.
    fn begins_name(&self, at: usize) -> bool {
        let name = self.skip(at, is_name);
        let quote = self.skip(name, |b| matches!(b, b'\\' | b'"' | b'\''));
        name > at && matches!(self.at(quote), b'=' | b':')
    }

    /// Returns the end of a field's value in Go's `%+v` output, when a brace closes the struct: the next ` Name:`, or
    /// that brace. Otherwise returns `from`.
    fn until_next_field(&self, from: usize) -> usize {
        let most = self.b.len().min(from + FIELD);
        let line = (from..most)
            .find(|i| matches!(self.at(*i), b'\n' | b'}' | b']'))
            .unwrap_or(most);
        if !matches!(self.at(line), b'}' | b']') {
            return from;
        }
        let mut i = from;
        while i < line {
            if matches!(self.at(i), b' ' | b',') {
                let name = self.skip(i + 1, is_name);
                if name > i + 1 && self.at(name) == b':' {
                    return i;
                }
                i = name.max(i + 1);
            } else {
                i += 1;
            }
        }
        line
    }

    /// Returns the end of a pair's value that is not quoted: the brace that closes the pair, or the end of the line.
    fn field_end(&self, from: usize) -> usize {
        if self.s.get(from..).is_some_and(|r| r.starts_with(REDACTED)) {
            return from + REDACTED.len();
        }
        let mut end = from;
        loop {
            end = self.skip(end, |b| !matches!(b, b'}' | b'\n'));
            if self.at(end) != b'}' || !self.at(end + 1).is_ascii_alphanumeric() {
                return end;
            }
            end += 1;
        }
    }

    /// For an opening quote at `i`, returns the index after it and the number of backslashes before it.
    fn quoted(&self, i: usize) -> Option<(usize, usize)> {
        let quote = self.skip(i, |b| b == b'\\');
        matches!(self.at(quote), b'"' | b'\'' | b'`').then(|| (quote + 1, quote - i))
    }

    /// Returns the index of the quote (of its backslashes) that closes a string; the end of the text when none does.
    fn closing(&self, from: usize, level: usize) -> usize {
        let mark = self.at(from - 1);
        let mut i = from;
        while i < self.b.len() {
            let quote = self.skip(i, |b| b == b'\\');
            let slashes = quote - i;
            if self.at(quote) == mark && closes(slashes, level) {
                return quote - level.min(slashes);
            }
            i = quote + 1;
        }
        self.b.len()
    }

    /// Returns the index of the bracket that opens a value, after the name of a Go type: `[…]`, `map[…]`, `&v1.Env{…}`.
    fn opens(&self, start: usize) -> Option<usize> {
        let near = self.b.get(start..self.b.len().min(start + 64));
        let letters = near
            .unwrap_or_default()
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'&' | b'*' | b'.' | b'_'))
            .count();
        let open = start + letters;
        matches!(self.at(open), b'[' | b'{').then_some(open)
    }

    /// Returns the end of a value in brackets, of `[]string{…}` and the like too; `level` is the number of backslashes
    /// before its quotes. A bracket that is not closed ends with the text.
    fn structure(&self, start: usize, level: usize) -> usize {
        let mut end = start;
        while let Some(open) = self.opens(end) {
            end = self.balanced(open, level);
        }
        end
    }

    fn balanced(&self, open: usize, level: usize) -> usize {
        let (mut depth, mut i) = (0_u32, open);
        while i < self.b.len() {
            match self.at(i) {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return i + 1;
                    }
                }
                b'\\' | b'"' => {
                    let quote = self.skip(i, |b| b == b'\\');
                    if self.at(quote) != b'"' {
                        i = quote + 1;
                        continue;
                    }
                    let slashes = quote - i;
                    if slashes < level {
                        // The string ends in which all of this is quoted.
                        return i;
                    }
                    let end = self.closing(quote + 1, slashes);
                    i = self.skip(end, |b| b == b'\\');
                }
                _ => {}
            }
            i += 1;
        }
        self.b.len()
    }

    /// True when a domain stands before the name, as in keys of annotations: `db.example/token`.
    fn has_domain(&self) -> bool {
        let before = self
            .b
            .get(..self.start.saturating_sub(1))
            .unwrap_or_default();
        let domain = before.iter().rev().take_while(|b| is_name(**b)).count();
        let (rest, domain) = before.split_at(before.len() - domain);
        domain.contains(&b'.') && domain.first() != Some(&b'.') && rest.last() != Some(&b'/')
    }

    /// True when `, name: X` or `, path: X` follows a quoted value: the value is then that of a pair.
    fn before_name(&self, end: usize) -> bool {
        let noise = |b| matches!(b, b' ' | b'\t' | b'\n' | b',' | b';' | b'\\' | b'"' | b'\'');
        let from = self.skip(end, noise);
        let to = self.skip(from, is_name);
        let name = self.b.get(from..to).unwrap_or_default();
        is_of_pair(name) && self.begins_name(from)
    }

    /// True when a word and a space stand before the name's quote: `secret "db-token"`.
    fn is_named(&self) -> bool {
        let before = self.b.get(..self.start).unwrap_or_default();
        let quote = before
            .iter()
            .rev()
            .take_while(|b| matches!(b, b'\\' | b'"' | b'\'' | b'`'))
            .count();
        let before = before.get(..before.len() - quote).unwrap_or_default();
        matches!(before, [.., a, b' '] if a.is_ascii_alphabetic())
    }

    /// True when `name: X,` or `key: X,` stands before the name, as in a pair in JSON, YAML, Go's
    /// or protobuf's text format.
    fn of_pair(&self) -> bool {
        let least = self.start.saturating_sub(NEAR);
        let before = self.b.get(least..self.start).unwrap_or_default();
        let cut = |b: &[u8], f: fn(u8) -> bool| b.iter().rev().take_while(|b| f(**b)).count();
        let back = |b: &'a [u8], n: usize| b.get(..b.len() - n).unwrap_or_default();
        let noise = |b: u8| {
            matches!(
                b,
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b';' | b'\\' | b'"' | b'\''
            )
        };
        let rest = back(before, cut(before, noise));
        let rest = back(
            rest,
            cut(rest, |b| {
                !matches!(
                    b,
                    b':' | b'=' | b'{' | b'[' | b'}' | b']' | b'"' | b'\'' | b'\n'
                )
            }),
        );
        let rest = back(
            rest,
            cut(rest, |b| matches!(b, b'\\' | b'"' | b'\'' | b' ' | b'\t')),
        );
        let [rest @ .., b':' | b'='] = rest else {
            return false;
        };
        let rest = back(
            rest,
            cut(rest, |b| matches!(b, b'\\' | b'"' | b'\'' | b' ')),
        );
        let name = cut(rest, is_name);
        let name = rest.get(rest.len() - name..).unwrap_or_default();
        is_of_pair(name)
    }
}

/// True for names beside which a `value` is that of a pair, or of a JSON patch (RFC 6902).
fn is_of_pair(name: &[u8]) -> bool {
    [&b"name"[..], b"key", b"op", b"path"]
        .iter()
        .any(|n| name.eq_ignore_ascii_case(n))
}

/// True when a quote with `slashes` backslashes before it closes a string whose opening quote has `level` of them. The
/// others are backslashes in the string, which come in pairs.
fn closes(slashes: usize, level: usize) -> bool {
    slashes >= level && (slashes - level).is_multiple_of(2 * (level + 1))
}

/// True for names that are common words: after them only a value in brackets may contain credentials.
fn only_in_brackets(name: &str) -> bool {
    ["data", "parameters", "attributes", "header"].contains(&&*lower(name))
}

fn lower(s: &str) -> String {
    s.to_ascii_lowercase()
}
