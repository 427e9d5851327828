//! Secrets do not leave a decoder: values after words that announce one are replaced.

use aho_corasick::AhoCorasick;
use std::borrow::Cow;
use std::sync::LazyLock;

const GONE: &str = "<redacted>";

/// True for keys whose value is a secret: tokens, passwords, credentials, authorisation headers. `secret` alone is
/// not among them: the kubelet logs the names of Secret objects under it, never their contents.
pub(crate) fn is_secret_key(key: &str) -> bool {
    const WORDS: [&str; 9] = [
        "token",
        "password",
        "passwd",
        "authorization",
        "credential",
        "apikey",
        "api-key",
        "bearer",
        "secretkey",
    ];
    // Nearly every key is a short word without any of these letters' company: test the length first.
    key.len() >= 5 && {
        let lower = key.to_ascii_lowercase();
        WORDS.iter().any(|w| lower.contains(w))
    }
}

/// What announces a secret in running text.
static ANNOUNCE: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build([
            "bearer ",
            "basic ",
            "authorization",
            "password",
            "passwd",
            "token",
            "signature=",
            "secretkey",
            "secret_access_key",
            "://",
        ])
        .ok()
});

/// The text with secrets replaced by `<redacted>`: what follows `Bearer `, `password=`, `token:` and their like, and
/// the user part of URLs.
pub(crate) fn redact(s: &str) -> Cow<'_, str> {
    let Some(find) = ANNOUNCE.as_ref() else {
        return Cow::Borrowed(s);
    };
    let mut out: Option<String> = None;
    let mut done = 0;
    let mut from = 0;
    while let Some(m) = find.find(aho_corasick::Input::new(s).range(from..)) {
        from = m.end();
        let Some((start, end)) = secret_after(s, m.pattern().as_usize(), m.end()) else {
            continue;
        };
        if start < done || end <= start {
            continue;
        }
        let o = out.get_or_insert_default();
        o.push_str(s.get(done..start).unwrap_or_default());
        o.push_str(GONE);
        done = end;
        from = end;
    }
    match out {
        None => Cow::Borrowed(s),
        Some(mut o) => {
            o.push_str(s.get(done..).unwrap_or_default());
            Cow::Owned(o)
        }
    }
}

/// Where the secret stands that the match ending at `at` announces.
fn secret_after(s: &str, pattern: usize, at: usize) -> Option<(usize, usize)> {
    let rest = s.get(at..)?;
    match pattern {
        // `Bearer x`, `Basic x`: credentials are long and have no spaces; prose ("basic checks") is not touched.
        0 | 1 => {
            let n = run(rest);
            let word = rest.get(..n)?;
            (n >= 16
                && word
                    .bytes()
                    .any(|b| b.is_ascii_digit() || b == b'=' || b == b'.'))
            .then_some((at, at + n))
        }
        // `://user:pass@host`
        9 => {
            let n = rest
                .find(['/', '?', '"', '\'', ' ', '\\', '#'])
                .unwrap_or(rest.len());
            let a = rest.get(..n)?.rfind('@')?;
            (a > 0).then_some((at, at + a))
        }
        6 => Some((at, at + run(rest))),
        // `password=x`, `token: "x"`, `Authorization:[Bearer x]`
        _ => {
            let tail = rest.trim_start_matches(['"', '\\', '\'']);
            let sep = tail.strip_prefix(['=', ':'])?;
            let value = sep.trim_start_matches([' ', '"', '\'', '\\', '[', '=']);
            let value = ["Bearer ", "bearer ", "Basic ", "basic "]
                .iter()
                .find_map(|p| value.strip_prefix(p))
                .unwrap_or(value);
            let start = s.len() - value.len();
            let n = run(value);
            // "failed to fetch token: serviceaccounts "x" not found": a chain of errors, no token.
            let prose = pattern == 5
                && sep.starts_with(' ')
                && value.get(..n).is_some_and(|v| {
                    n < 20 && v.bytes().all(|b| b.is_ascii_lowercase() || b == b':')
                });
            (n > 0 && !prose).then_some((start, start + n))
        }
    }
}

fn run(s: &str) -> usize {
    s.find([' ', '"', '\'', '\\', ']', '}', ',', '&', ';'])
        .unwrap_or(s.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_announces_a_secret_loses_it() {
        for (text, want) in [
            (
                "Authorization: Bearer eyJhbGciOi.J9.x and more",
                "Authorization: Bearer <redacted> and more",
            ),
            (
                "map[Authorization:[Basic dXNlcjpwYXNz]]",
                "map[Authorization:[Basic <redacted>]]",
            ),
            ("token=abc123, next", "token=<redacted>, next"),
            ("token=abcdef, next", "token=<redacted>, next"),
            ("token: abc123, next", "token: <redacted>, next"),
            (r#"{"password":"hunter2"}"#, r#"{"password":"<redacted>"}"#),
            (
                r#"Get "https://user:pw@registry:5000/v2/": EOF"#,
                r#"Get "https://<redacted>@registry:5000/v2/": EOF"#,
            ),
            (
                "https://s3/x?X-Amz-Signature=deadbeef&y=1",
                "https://s3/x?X-Amz-Signature=<redacted>&y=1",
            ),
        ] {
            assert_eq!(redact(text), want);
        }
    }

    #[test]
    fn plain_text_is_not_touched() {
        for text in [
            "fetching token from webhook",
            "MountVolume.SetUp succeeded for volume \"tok\"",
            "basic checks passed",
            "http://10.244.0.6:8080/healthz",
            "could not get token: ",
            "failed to fetch token: serviceaccounts \"robot\" not found",
            "failed to get token: context: deadline exceeded",
        ] {
            assert!(matches!(redact(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn keys_that_hold_secrets_are_known() {
        assert!(is_secret_key("bootstrap-token"));
        assert!(is_secret_key("registryPassword"));
        assert!(!is_secret_key("secret"));
        assert!(!is_secret_key("pod"));
    }
}
