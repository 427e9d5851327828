//! Credentials that are recognisable without a name beside them.

use regex::{Captures, Regex};
use std::borrow::Cow;
use std::sync::LazyLock;

use super::REDACTED;

/// The compiled patterns, one or two for each kind of credential.
#[derive(Debug)]
pub(super) struct Shapes {
    pem: Regex,
    scheme: Regex,
    userinfo: Regex,
    authority: Regex,
    query: Regex,
    at: Regex,
    base64: Regex,
    issued: Regex,
    user: Regex,
    login: Regex,
}

static SHAPES: LazyLock<Option<Shapes>> = LazyLock::new(|| {
    let new = |pattern| Regex::new(pattern).ok();
    Some(Shapes {
        // Private keys, also when the text is cut within them; and the same in base64.
        pem: new(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)|Private-Lines:[\s\S]*|LS0tLS1CRUdJTi[A-Za-z0-9+/=]*",
        )?,
        scheme: new(r"(?i)\b((?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})")?,
        userinfo: new(r#"(?i)(\b[a-z][a-z0-9+.-]*://)([^/\s"'<>?#]+)@(sha256:|sha512:)?"#)?,
        authority: new(
            r#"(?i)(\b(?:https?|ftp|ssh|git|ldaps?|smb|nats|postgres|postgresql|mysql|mongodb|mongodb\+srv|rediss?|amqps?)://)([^/\s"'<>?#@\[]+):([^/\s"'<>?#@]+)"#,
        )?,
        query: new(r#"([^\s"'?])\?([A-Za-z0-9_.~%-]+=[^\s"'<>\\]*)"#)?,
        at: new(
            r#"(^|[\s"'=(,\[{])([A-Za-z0-9][A-Za-z0-9_.+%-]*:[^\s"'@,;/][^\s"'@,;]*)@([A-Za-z0-9][A-Za-z0-9.-]*:?)"#,
        )?,
        // JSON in base64 begins with `eyJ`: JWTs, docker's config.json, continue tokens.
        base64: new(r"\beyJ[A-Za-z0-9_+/=-]{16,}(?:\.[A-Za-z0-9_-]+)*")?,
        // Keys that have a recognisable prefix by their issuer.
        issued: new(
            r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abpr]-[A-Za-z0-9-]{10,}|ya29\.[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|dckr_[po]at_[A-Za-z0-9_-]{16,}|hv[sbr]\.[A-Za-z0-9_-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{16,}|sk-(?:proj|ant|svcacct)-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{30,}|dop_v1_[0-9a-f]{40,}|shpat_[0-9a-fA-F]{32,}|AGE-SECRET-KEY-1[0-9A-Z]{40,}|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9_/-]+|discord(?:app)?\.com/api/webhooks/[A-Za-z0-9_/-]+)",
        )?,
        // `curl -u user:password`, `["--creds","user:password"]`
        user: new(
            r#"(^|[\s"'\[(])((?:-u|--user|--proxy-user|--creds)[= "',\\]*)([^\s:"',\\\]-][^\s:"',\\\]]*):([^\s"',\\\]]+)"#,
        )?,
        // `mysql -ppassword`, `docker login -p password`, `sshpass -p password`, `redis-cli -a password`
        login: new(
            r#"\b((?:(?:mysql\w*|mariadb[\w-]*|mongo\w*|sshpass|login)\b[^\n|;&]*?\s-p|redis-cli\b[^\n|;&]*?\s-a|ipmitool\b[^\n|;&]*?\s-P|htpasswd\s+-\w*b\w*\s+\S+\s+\S+) ?)(["']?[^\s"'\\]+)"#,
        )?,
    })
});

/// Returns the patterns; `None` when one of them does not compile, which a test excludes.
pub(super) fn shapes() -> Option<&'static Shapes> {
    SHAPES.as_ref()
}

fn changed(s: &str, new: Cow<'_, str>) -> Option<String> {
    match new {
        Cow::Owned(new) if new != s => Some(new),
        _ => None,
    }
}

fn group<'a>(c: &Captures<'a>, n: usize) -> &'a str {
    c.get(n).map_or("", |m| m.as_str())
}

impl Shapes {
    pub(super) fn pem(&self, s: &str) -> Option<String> {
        changed(s, self.pem.replace_all(s, REDACTED))
    }

    /// `Bearer x`, `Basic x`; prose ("basic checks passed") is left alone.
    pub(super) fn scheme(&self, s: &str) -> Option<String> {
        let put = |c: &Captures<'_>| {
            let value = group(c, 2);
            let odd = |b: u8| b"=._~+/".contains(&b);
            let long = value.len() >= 16 && value.bytes().any(odd);
            if long
                || value.bytes().any(|b| b.is_ascii_digit())
                || value.len() >= 24
                || value.ends_with('=')
            {
                format!("{}{REDACTED}", group(c, 1))
            } else {
                group(c, 0).to_owned()
            }
        };
        changed(s, self.scheme.replace_all(s, put))
    }

    /// `scheme://user:password@host`, but not `docker-pullable://image@sha256:…`.
    pub(super) fn userinfo(&self, s: &str) -> Option<String> {
        let put = |c: &Captures<'_>| {
            if group(c, 3).is_empty() {
                format!("{}{REDACTED}@", group(c, 1))
            } else {
                group(c, 0).to_owned()
            }
        };
        let whole = self.userinfo.replace_all(s, put);
        // A text that is cut before the host: what stands in the port's place is not a number.
        let cut = |c: &Captures<'_>| {
            let port = group(c, 3).trim_end_matches(|c: char| !c.is_alphanumeric());
            if port.bytes().all(|b| b.is_ascii_digit()) {
                group(c, 0).to_owned()
            } else {
                format!("{}{REDACTED}", group(c, 1))
            }
        };
        let all = self.authority.replace_all(&whole, cut);
        (all != s).then(|| all.into_owned())
    }

    /// Replaces the values of URL parameters, except those that Kubernetes and registries are known to use.
    pub(super) fn query(&self, s: &str) -> Option<String> {
        let put = |c: &Captures<'_>| format!("{}{}", group(c, 1), kept(group(c, 2)));
        changed(s, self.query.replace_all(s, put))
    }

    /// `user:password@registry/image`, but not `image:tag@sha256:…`.
    pub(super) fn at(&self, s: &str) -> Option<String> {
        let put = |c: &Captures<'_>| {
            let host = group(c, 3);
            if matches!(host, "sha256:" | "sha512:") {
                group(c, 0).to_owned()
            } else {
                format!("{}{REDACTED}@{host}", group(c, 1))
            }
        };
        changed(s, self.at.replace_all(s, put))
    }

    pub(super) fn base64(&self, s: &str) -> Option<String> {
        changed(s, self.base64.replace_all(s, REDACTED))
    }

    /// Replaces the passwords after flags of common programs; `--user 1000:1000` holds ids, not a password.
    pub(super) fn flags(&self, s: &str) -> Option<String> {
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        let put = |c: &Captures<'_>| {
            if digits(group(c, 3)) && digits(group(c, 4)) {
                group(c, 0).to_owned()
            } else {
                format!("{}{}{REDACTED}", group(c, 1), group(c, 2))
            }
        };
        let users = self.user.replace_all(s, put);
        let put = |c: &Captures<'_>| {
            if digits(group(c, 2)) || group(c, 2) == REDACTED {
                group(c, 0).to_owned()
            } else {
                format!("{}{REDACTED}", group(c, 1))
            }
        };
        let all = self.login.replace_all(&users, put);
        (all != s).then(|| all.into_owned())
    }

    pub(super) fn issued(&self, s: &str) -> Option<String> {
        changed(s, self.issued.replace_all(s, REDACTED))
    }
}

/// URL parameters that hold no data of users, sorted.
pub(super) const PARAMETERS: [&str; 33] = [
    "allowWatchBookmarks",
    "container",
    "dryRun",
    "exclude",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "follow",
    "force",
    "gracePeriodSeconds",
    "labelSelector",
    "limit",
    "limitBytes",
    "ns",
    "orphanDependents",
    "ports",
    "pretty",
    "previous",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "scope",
    "sendInitialEvents",
    "sinceSeconds",
    "stderr",
    "stdin",
    "stdout",
    "tailLines",
    "timeout",
    "timeoutSeconds",
    "timestamps",
    "tty",
    "watch",
];

/// True for a URL parameter that holds no data of users.
pub fn is_plain_parameter(name: &str) -> bool {
    PARAMETERS.binary_search(&name).is_ok()
}

/// Returns the query of a URL, `?` included, with the values of unknown parameters replaced, also in a query inside the
/// value of a known parameter. Of an exec's command the program stays and its arguments are replaced.
fn kept(query: &str) -> String {
    const MARKS: [char; 3] = ['&', ';', '?'];
    let mut out = String::new();
    let (mut command, mut hidden) = (false, false);
    // The separator before the next part.
    let mut next = '?';
    for part in query.split_inclusive(MARKS) {
        let mark = std::mem::replace(&mut next, if part.ends_with('?') { '?' } else { '&' });
        let part = part.trim_end_matches(MARKS);
        let pair = part.split_once('=');
        if pair.is_none() && hidden {
            // It belongs to the replaced value before it, which contained a separator.
            continue;
        }
        out.push(mark);
        let Some((name, value)) = pair else {
            out.push_str(part);
            continue;
        };
        hidden = false;
        let program = name == "command" && !std::mem::replace(&mut command, true);
        out.push_str(name);
        out.push('=');
        let words = value.find(['+', ' ']).or_else(|| value.find("%20"));
        let (first, rest) = value.split_at(words.filter(|_| program).unwrap_or(value.len()));
        if program && !rest.is_empty() {
            hidden = true;
            out.push_str(first);
            out.push_str("%20");
            out.push_str(REDACTED);
        } else if program || value.is_empty() || is_plain_parameter(name) {
            out.push_str(value);
        } else {
            hidden = true;
            out.push_str(REDACTED);
            // Punctuation of the sentence around the URL is not part of the value.
            let end = value.trim_end_matches([':', ',', '.', ')', ']', '}']);
            out.push_str(value.get(end.len()..).unwrap_or_default());
        }
    }
    if query.ends_with(MARKS) && !hidden {
        out.push(next);
    }
    out
}

/// Replaces everything after `Request Body` or `Response Body` in the log of a client that logs its requests (`-v=8`
/// and more): objects as JSON, or a hex dump, in which no credential could be recognised.
pub(super) fn body(s: &str) -> Option<String> {
    let find = |what: &str| s.find(what).map(|i| i + what.len());
    let at = [find("Request Body"), find("Response Body")];
    let end = at.into_iter().flatten().min()?;
    let rest = s.get(end..)?;
    let text = rest.trim_start_matches([' ', ':', '"', '\n', '\t']);
    if text.is_empty() || text == REDACTED {
        return None;
    }
    let keep = s.len() - text.len();
    Some(format!("{}{REDACTED}", s.get(..keep)?))
}
