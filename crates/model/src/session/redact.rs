//! What looks like a credential never leaves the process.
//!
//! The model has no field for a secret, and decoders do not decode any. This is the second line of defence: texts of
//! people and programs (error messages, log lines, notes) can quote one. [`Redactor`] is a JSON formatter, so that
//! every text of every observation passes it, whatever fields a later version adds, and the structure never changes.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use regex::{Captures, Regex};
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};
use std::borrow::Cow;
use std::io;
use std::sync::LazyLock;

/// What stands in the place of a credential.
pub const REDACTED: &str = "<redacted>";

/// Every credential holds one of these; a text without any of them is not looked at twice.
static HINTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .build([
            "passw",
            "passphrase",
            "pwd",
            "token",
            "secret",
            "api_key",
            "api-key",
            "apikey",
            "private_key",
            "private-key",
            "privatekey",
            "access_key",
            "access-key",
            "accesskey",
            "authorization",
            "\"auth\"",
            "bearer",
            "cookie",
            "://",
            "eyj",
            "akia",
            "asia",
            "gh",
            "glpat-",
            "xox",
            "ya29.",
            "private key-----",
            "signature",
            "credential",
            "sig=",
        ])
        .ok()
});

struct Rule {
    find: Regex,
    /// Keeps what the first group holds (and the last, where there is a third), replaces the rest.
    put: fn(&Captures<'_>) -> String,
}

fn group<'a>(c: &Captures<'a>, n: usize) -> &'a str {
    c.get(n).map_or("", |m| m.as_str())
}

fn keep_first(c: &Captures<'_>) -> String {
    format!("{}{REDACTED}", group(c, 1))
}

fn whole(_: &Captures<'_>) -> String {
    REDACTED.to_owned()
}

/// `scheme://user:password@host`, but not `docker-pullable://image@sha256:…`.
fn userinfo(c: &Captures<'_>) -> String {
    if matches!(group(c, 3), "sha256:" | "sha512:") {
        group(c, 0).to_owned()
    } else {
        format!("{}{REDACTED}@{}", group(c, 1), group(c, 3))
    }
}

/// What stands in the place of a match.
type Replacement = fn(&Captures<'_>) -> String;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let table: [(&str, Replacement); 11] = [
        // PEM keys, cut ones too.
        (
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
            whole,
        ),
        // Authorization and cookie headers, in any of the ways that logs print them.
        (
            r#"(?i)(\b(?:proxy-)?authorization["'\]]?\s*[:=]\s*["'\[]*(?:(?:bearer|basic|digest|negotiate)\s+)?)[^\s"',\]<][^\s"',\]]*"#,
            keep_first,
        ),
        (
            r#"(?i)(\b(?:set-)?cookie["']?\s*[:=]\s*["'\[]*)[^\s"'\]<][^"'\]\n]*"#,
            keep_first,
        ),
        (r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{16,}", keep_first),
        // Query parameters of signed URLs (S3, GCS, Azure): blobs of registries are fetched by them.
        (
            r#"(?i)([?&;](?:x-(?:amz|goog)-(?:signature|credential|security-token)|signature|sig|awsaccesskeyid|access_token|token|password|secret|key)=)[^&\s"'<>;]+"#,
            keep_first,
        ),
        // key=value, key: value, "key":"value". A bare `secret=` or `token:` names a Kubernetes object or says nothing.
        (
            r#"(?i)((?:\b|_)(?:password|passphrase|pwd|client[_-]?secret|secret[_-]?key|(?:secret[_-]?)?access[_-]?key(?:[_-]?id)?|private[_-]?key|api[_-]?key|(?:access|auth|id|refresh|session|bearer|bootstrap)[_-]?token)\\?["']?\s*[:=]\s*\\?["']?)[^\s"'\\,;&}\])<][^\s"'\\,;&}\])]*"#,
            keep_first,
        ),
        // The same of `passwd`, but not of a path that ends so: `stat /etc/passwd: no such file or directory`.
        (
            r#"(?i)((?:(?:^|[^/A-Za-z0-9])passwd\\?["']?\s*[:=]|/passwd=)\s*\\?["']?)[^\s"'\\,;&}\])<][^\s"'\\,;&}\])]*"#,
            keep_first,
        ),
        (
            r#"(?i)(\btoken=\\?["']?|\\?"(?:token|auth|identitytoken|registrytoken)\\?"\s*:\s*\\?")[^\s"'\\,;&}\])<][^\s"'\\,;&}\])]*"#,
            keep_first,
        ),
        // user:password@ and token@ in URLs.
        (
            r#"(?i)(\b[a-z][a-z0-9+.-]*://)([^/\s@"'<>?#]+)@(sha256:|sha512:)?"#,
            userinfo,
        ),
        // JSON in base64 begins so: JWTs, docker's config.json, continue tokens.
        (r"\beyJ[A-Za-z0-9_+/=-]{16,}(?:\.[A-Za-z0-9_-]+)*", whole),
        // Keys that their issuers made recognisable.
        (
            r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abpr]-[A-Za-z0-9-]{10,}|ya29\.[A-Za-z0-9_-]{16,})",
            whole,
        ),
    ];
    table
        .into_iter()
        .filter_map(|(find, put)| {
            Some(Rule {
                find: Regex::new(find).ok()?,
                put,
            })
        })
        .collect()
});

/// Names whose value is a secret when the two stand beside each other: `["password","x"]`, `{"password":"x"}`.
fn names_a_secret(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "clientsecret",
        "secretkey",
        "secretaccesskey",
        "accesskey",
        "privatekey",
        "apikey",
        "accesstoken",
        "authtoken",
        "idtoken",
        "refreshtoken",
        "bearertoken",
        "authorization",
        "identitytoken",
    ];
    if !(3..=20).contains(&name.len()) {
        return false;
    }
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | '.'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    NAMES.contains(&plain.as_str())
}

/// The text without what looks like a credential. Text that holds none is returned as it is.
pub fn text(s: &str) -> Cow<'_, str> {
    if s.len() < 8 || !HINTS.as_ref().is_none_or(|h| h.is_match(s)) {
        return Cow::Borrowed(s);
    }
    let mut out = Cow::Borrowed(s);
    for rule in RULES.iter() {
        if let Cow::Owned(new) = rule.find.replace_all(&out, rule.put)
            && new != out
        {
            out = Cow::Owned(new);
        }
    }
    out
}

/// A compact JSON formatter that passes every text, keys included, through [`text`].
#[derive(Debug, Default)]
pub struct Redactor {
    text: String,
    after_secret_name: bool,
    changed: u64,
}

impl Redactor {
    /// How many texts were changed so far.
    pub const fn changed(&self) -> u64 {
        self.changed
    }
}

impl Formatter for &mut Redactor {
    fn begin_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.text.clear();
        Ok(())
    }
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        self.text.push_str(fragment);
        Ok(())
    }
    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        self.text.push(match escape {
            CharEscape::Quote => '"',
            CharEscape::ReverseSolidus => '\\',
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{c}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(b) => char::from(b),
        });
        Ok(())
    }
    fn end_string<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let clean = if self.after_secret_name && !self.text.is_empty() {
            Cow::Borrowed(REDACTED)
        } else {
            text(&self.text)
        };
        let changed = clean != self.text;
        write_json_string(writer, &clean)?;
        self.after_secret_name = names_a_secret(&self.text);
        self.changed += u64::from(changed);
        Ok(())
    }
    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        // The name before it had a value that is not a text; a key is never taken for a value.
        self.after_secret_name = false;
        if first {
            Ok(())
        } else {
            writer.write_all(b",")
        }
    }
    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.after_secret_name = false;
        writer.write_all(b"]")
    }
    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.after_secret_name = false;
        writer.write_all(b"}")
    }
}

fn write_json_string<W: ?Sized + io::Write>(mut writer: &mut W, s: &str) -> io::Result<()> {
    let mut ser = serde_json::Serializer::with_formatter(&mut writer, CompactFormatter);
    serde::Serializer::serialize_str(&mut ser, s).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gone(input: &str, secret: &str) {
        let out = text(input);
        assert!(!out.contains(secret), "{input} -> {out}");
        assert!(out.contains(REDACTED), "{input} -> {out}");
    }

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(RULES.len(), 11);
        assert!(HINTS.is_some());
    }

    #[test]
    fn credentials_are_taken_out() {
        gone(
            "Authorization: Bearer abcdef0123456789xyz",
            "abcdef0123456789xyz",
        );
        gone(
            "headers map[Authorization:[Basic dXNlcjpwYXNz]]",
            "dXNlcjpwYXNz",
        );
        gone(
            "got 401 for bearer 0123456789abcdef0123",
            "0123456789abcdef0123",
        );
        gone("mysql -u root --password=hunter2 -h db", "hunter2");
        gone("env DB_PASSWORD=hunter2", "hunter2");
        gone("env DB_PASSWORD: \"hunter2\"", "hunter2");
        gone(
            r#"{"auths":{"r.io":{"auth":"dXNlcjpwYXNz"}}}"#,
            "dXNlcjpwYXNz",
        );
        gone(r#"body: {\"token\":\"s3cr3tt0k3n\"}"#, "s3cr3tt0k3n");
        gone("pull https://bob:hunter2@registry.example/v2/", "hunter2");
        gone(
            "git clone https://ghp_0123456789abcdefghij@github.com/x",
            "ghp_0123456789abcdefghij",
        );
        gone(
            "token eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2ln done",
            "eyJ",
        );
        gone("aws AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE");
        gone(
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "MIIE",
        );
        gone("-----BEGIN PRIVATE KEY-----\nMIIEcut", "MIIEcut");
        gone(
            "GET https://b.s3.amazonaws.com/x?X-Amz-Credential=abc%2F2026&X-Amz-Signature=0a1b2c: 403",
            "0a1b2c",
        );
        gone(
            "https://acc.blob.core.windows.net/c/b?sv=2024&sig=AbC%3D",
            "AbC%3D",
        );
        gone("Set-Cookie: session=abcdef; Path=/", "abcdef");
    }

    #[test]
    fn what_kubernetes_says_of_secrets_and_tokens_stays() {
        for s in [
            "MountVolume.SetUp failed for volume \"kube-api-access-5xk2p\" : object \"s01\"/\"kube-root-ca.crt\" not registered",
            "Error: secret \"not-there\" not found",
            "couldn't find key password in Secret s04/db",
            "docker-pullable://nginx@sha256:0123456789abcdef",
            "docker-pullable://localhost:5000@sha256:0123456789abcdef",
            "secret=\"s04/not-there\"",
            "TokenExpirationSeconds:*3607",
            "dial unix:///run/containerd/containerd.sock: connect: connection refused",
            "Failed to pull image \"127.0.0.1:5000/nope:1\": rpc error: code = NotFound",
            "webhook https://hook.s30.svc:443/deny?timeout=10s refused",
            "Bearer authentication failed",
            "error during container init: mkdir /etc/passwd: not a directory",
            "exec: \"/etc/passwd\": permission denied",
            "serviceaccounts/default/token",
            "failed to fetch oauth token: unexpected status",
            "failed to fetch token: serviceaccounts \"robot\" not found",
        ] {
            assert_eq!(text(s), s);
        }
    }

    fn json(v: &serde_json::Value) -> (String, u64) {
        use serde::Serialize;
        let (mut out, mut r) = (Vec::new(), Redactor::default());
        v.serialize(&mut serde_json::Serializer::with_formatter(
            &mut out, &mut r,
        ))
        .unwrap();
        (String::from_utf8(out).unwrap(), r.changed())
    }

    #[test]
    fn a_value_beside_a_name_of_a_secret_is_taken_out() {
        let (s, n) =
            json(&serde_json::json!({"kv":[["user","bob"],["db-password","x"],["apiKey","k1"]]}));
        // `db-password` is not a name that the list has: only whole names count here.
        assert_eq!(
            s,
            r#"{"kv":[["user","bob"],["db-password","x"],["apiKey","<redacted>"]]}"#
        );
        assert_eq!(n, 1);
        let (s, _) = json(&serde_json::json!({"password":"x","list":["password"],"next":"y"}));
        assert_eq!(
            s,
            r#"{"list":["password"],"next":"y","password":"<redacted>"}"#
        );
        let (s, _) = json(&serde_json::json!({"a":{"pwd":5,"x":"y"}}));
        assert_eq!(s, r#"{"a":{"pwd":5,"x":"y"}}"#);
    }

    proptest! {
        #[test]
        fn redaction_is_idempotent_and_never_panics(s in ".{0,200}") {
            let once = text(&s).into_owned();
            prop_assert_eq!(text(&once).into_owned(), once.clone());
        }

        #[test]
        fn a_password_in_any_surrounding_is_taken_out(a in "[a-z /.]{0,20}", b in "[ ,;&}]", pw in "[A-Za-z0-9!$%^*]{6,20}") {
            let s = format!("{a} password={pw}{b}tail");
            let out = text(&s).into_owned();
            prop_assert!(!out.contains(&format!("={pw}")), "{}", out);
            prop_assert!(out.ends_with("tail"));
        }

        #[test]
        fn json_stays_json_and_other_texts_stay(s in "\\PC{0,80}", t in ".{0,80}") {
            let v = serde_json::json!({"a": s, "b": [t, 1, null], "c": {"d": true}});
            let (out, changed) = json(&v);
            let back: serde_json::Value = serde_json::from_str(&out).unwrap();
            if changed == 0 {
                prop_assert_eq!(back, v);
            }
        }
    }
}
