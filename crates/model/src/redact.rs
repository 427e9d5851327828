//! Removes what looks like a credential, so that it never leaves the process.
//!
//! The model has no field for a secret, and decoders do not decode any. This is the second line of defence, because
//! free text (error messages, log lines, notes, URLs) can quote a secret. A text is searched for
//!
//! | what | where |
//! |---|---|
//! | a value beside a name: `password=x`, `"token":"x"`, `{Name:TOKEN Value:x}`, `headers=[…]` | `key`, `scan` |
//! | what is recognisable by itself: URLs with users, JWTs, keys of clouds, PEM | `shape` |
//!
//! in time linear in its length. What cannot be parsed (a bracket or a quote that is not closed) is dropped to the end
//! of the text. Decoders redact a text before they cut it to its maximum length. Every observation is redacted again
//! when it enters the world and when it is written.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use std::borrow::Cow;
use std::sync::LazyLock;

pub mod key;
mod scan;
mod shape;

pub use key::{Kind, is_secret, kind};
pub use shape::is_plain_parameter;

/// Replaces a credential.
pub const REDACTED: &str = "<redacted>";

/// Which kinds of credential a text may hold, a bit for each: the hints of [`HINTS`] that were found in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hints(u16);

impl Hints {
    const KEY: u16 = 1;
    const PEM: u16 = 1 << 1;
    const SCHEME: u16 = 1 << 2;
    const URL: u16 = 1 << 3;
    const QUERY: u16 = 1 << 4;
    const AT: u16 = 1 << 5;
    const BASE64: u16 = 1 << 6;
    const ISSUED: u16 = 1 << 7;
    const BODY: u16 = 1 << 8;
    const FLAG: u16 = 1 << 9;

    const fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
}

/// Every credential that is recognised comes with one of these words, in upper or lower case; a text without any is
/// returned after this one search.
const HINTS: [(&str, u16); 90] = [
    ("pass", Hints::KEY),
    ("kennwort", Hints::KEY),
    ("pin is ", Hints::KEY),
    ("pin=", Hints::KEY),
    ("--pin", Hints::KEY),
    ("wachtwoord", Hints::KEY),
    ("sess", Hints::KEY),
    ("creds", Hints::KEY),
    ("literal", Hints::KEY),
    ("--set", Hints::KEY),
    ("pw=", Hints::KEY),
    ("pw:", Hints::KEY),
    ("pwd", Hints::KEY),
    ("_pw", Hints::KEY),
    ("token", Hints::KEY),
    ("secret", Hints::KEY),
    ("key", Hints::KEY),
    ("auth", Hints::KEY),
    ("cookie", Hints::KEY),
    ("credential", Hints::KEY),
    ("signature", Hints::KEY),
    ("sig=", Hints::KEY),
    ("jwt", Hints::KEY),
    ("dockerc", Hints::KEY),
    ("env", Hints::KEY),
    ("arg", Hints::KEY),
    ("command", Hints::KEY),
    ("cmd", Hints::KEY),
    ("entrypoint", Hints::KEY),
    ("header", Hints::KEY),
    ("annotations", Hints::KEY),
    ("attributes", Hints::KEY),
    ("context", Hints::KEY),
    ("parameters", Hints::KEY),
    ("data", Hints::KEY),
    ("body", Hints::KEY),
    ("requestobject", Hints::KEY),
    ("responseobject", Hints::KEY),
    ("last-applied", Hints::KEY),
    ("value", Hints::KEY),
    ("stdin", Hints::KEY),
    ("private key-----", Hints::PEM),
    ("private key block-----", Hints::PEM),
    ("private-lines", Hints::PEM),
    ("ls0tls1crudjti", Hints::PEM),
    ("bearer", Hints::SCHEME),
    ("basic", Hints::SCHEME),
    ("://", Hints::URL),
    ("?", Hints::QUERY),
    ("@", Hints::AT),
    ("eyj", Hints::BASE64),
    ("akia", Hints::ISSUED),
    ("asia", Hints::ISSUED),
    ("ghp_", Hints::ISSUED),
    ("gho_", Hints::ISSUED),
    ("ghu_", Hints::ISSUED),
    ("ghs_", Hints::ISSUED),
    ("ghr_", Hints::ISSUED),
    ("github_pat_", Hints::ISSUED),
    ("glpat-", Hints::ISSUED),
    ("xox", Hints::ISSUED),
    ("ya29.", Hints::ISSUED),
    ("aiza", Hints::ISSUED),
    ("dckr_pat_", Hints::ISSUED),
    ("dckr_oat_", Hints::ISSUED),
    ("hvs.", Hints::ISSUED),
    ("hvb.", Hints::ISSUED),
    ("hvr.", Hints::ISSUED),
    ("_live_", Hints::ISSUED),
    ("_test_", Hints::ISSUED),
    ("npm_", Hints::ISSUED),
    ("pypi-", Hints::ISSUED),
    ("sk-", Hints::ISSUED),
    ("sg.", Hints::ISSUED),
    ("hf_", Hints::ISSUED),
    ("dop_v1_", Hints::ISSUED),
    ("shpat_", Hints::ISSUED),
    ("age-secret-key-", Hints::ISSUED),
    ("hooks.slack.com/", Hints::ISSUED),
    ("/api/webhooks/", Hints::ISSUED),
    (" -u", Hints::FLAG),
    ("\"-u", Hints::FLAG),
    ("--user", Hints::FLAG),
    ("--proxy-user", Hints::FLAG),
    ("--creds", Hints::FLAG),
    (" -p", Hints::FLAG),
    ("redis-cli", Hints::FLAG),
    ("htpasswd", Hints::FLAG),
    ("request body", Hints::BODY),
    ("response body", Hints::BODY),
];

static FIND: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .build(HINTS.map(|(hint, _)| hint))
        .ok()
});

/// Length of the shortest text that is searched: `pwd=x`.
const SHORTEST: usize = 5;

/// Returns the text with credentials replaced by [`REDACTED`]. A text without any is returned as it is.
pub fn text(s: &str) -> Cow<'_, str> {
    if s.len() < SHORTEST {
        return Cow::Borrowed(s);
    }
    let (Some(find), Some(shapes)) = (FIND.as_ref(), shape::shapes()) else {
        // Without its patterns the search can clear no text.
        return Cow::Borrowed(REDACTED);
    };
    let mut hints = Hints::default();
    for m in find.find_overlapping_iter(s) {
        hints.0 |= HINTS.get(m.pattern().as_usize()).map_or(0, |(_, bit)| *bit);
    }
    if hints.0 == 0 {
        return Cow::Borrowed(s);
    }
    let mut out = Cow::Borrowed(s);
    let mut pass = |bit: u16, f: &dyn Fn(&str) -> Option<String>| {
        if hints.has(bit)
            && let Some(new) = f(&out)
        {
            out = Cow::Owned(new);
        }
    };
    pass(Hints::PEM, &|s| shapes.pem(s));
    pass(Hints::BODY, &shape::body);
    pass(Hints::URL, &|s| shapes.userinfo(s));
    pass(Hints::QUERY, &|s| shapes.query(s));
    pass(Hints::FLAG, &|s| shapes.flags(s));
    pass(Hints::KEY, &scan::values);
    pass(Hints::SCHEME, &|s| shapes.scheme(s));
    pass(Hints::AT, &|s| shapes.at(s));
    pass(Hints::BASE64, &|s| shapes.base64(s));
    pass(Hints::ISSUED, &|s| shapes.issued(s));
    out
}

/// Returns the value of a field named `key`, redacted by the kind of the name.
pub fn field<'a>(key: &str, value: &'a str) -> Cow<'a, str> {
    match kind(key) {
        Kind::Plain => text(value),
        Kind::Secret | Kind::Opaque if value.is_empty() => Cow::Borrowed(value),
        Kind::Secret | Kind::Opaque => Cow::Borrowed(REDACTED),
    }
}

#[cfg(test)]
mod tests;
