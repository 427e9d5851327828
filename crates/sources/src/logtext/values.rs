//! The value grammar of klog (`serialize.FormatKVs`) and logrus, and Go string literals.

use std::borrow::Cow;

/// Decodes a Go string literal. `s` begins after the opening quote. Returns the text and what follows the closing
/// quote; `None` when the literal does not end in `s`.
pub(crate) fn unquote(s: &str) -> Option<(Cow<'_, str>, &str)> {
    let b = s.as_bytes();
    let first = memchr::memchr2(b'"', b'\\', b)?;
    if b.get(first) == Some(&b'"') {
        return Some((Cow::Borrowed(s.get(..first)?), s.get(first + 1..)?));
    }
    let mut out: Vec<u8> = b.get(..first)?.to_vec();
    let mut i = first;
    loop {
        match *b.get(i)? {
            b'"' => break,
            b'\\' => {
                i += 1 + escape(b.get(i + 1..)?, &mut out)?;
            }
            _ => {
                let rest = b.get(i..)?;
                let n = memchr::memchr2(b'"', b'\\', rest)?;
                out.extend_from_slice(rest.get(..n)?);
                i += n;
            }
        }
    }
    let text = String::from_utf8(out)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    Some((Cow::Owned(text), s.get(i + 1..)?))
}

/// Decodes one escape after its backslash: appends what it stands for, and returns how many bytes it took.
fn escape(b: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let c = *b.first()?;
    let simple = match c {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'v' => 11,
        b'x' => {
            out.push(u8::try_from(number(b.get(1..3)?, 16)?).ok()?);
            return Some(3);
        }
        b'u' | b'U' => {
            let n = if c == b'u' { 4 } else { 8 };
            let ch =
                char::from_u32(number(b.get(1..=n)?, 16)?).unwrap_or(char::REPLACEMENT_CHARACTER);
            out.extend_from_slice(ch.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(1 + n);
        }
        b'0'..=b'7' => {
            out.push(u8::try_from(number(b.get(..3)?, 8)?).ok()?);
            return Some(3);
        }
        // `\\`, `\"`, `\'`, and any escape that Go does not write: the character itself.
        other => other,
    };
    out.push(simple);
    Some(1)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// A value as it stands in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A string, unquoted; or a bare word.
    Text(Cow<'a, str>),
    /// JSON, or what an older kubelet printed with `%+v` (`&{ID:… Type:…}`, `[ns/a ns/b]`): brackets balance.
    Nested(&'a str),
    /// `=<` at the end of the line: the text follows in lines of its own.
    Block,
    /// The line ended inside the value.
    Cut,
}

/// Iterates over ` key=value` pairs. Stops at text that is not a pair.
pub(crate) struct Pairs<'a>(pub(crate) &'a str);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let s = self.0.trim_start_matches([' ', '\t']);
        let eq = memchr::memchr2(b'=', b' ', s.as_bytes())?;
        let (key, after) = (s.get(..eq)?, s.get(eq..)?);
        let Some(rest) = after.strip_prefix('=') else {
            // A word without `=` is not a pair, and nothing after it can be trusted to be one.
            self.0 = "";
            return None;
        };
        if key.is_empty() {
            self.0 = "";
            return None;
        }
        let (value, rest) = value(rest);
        self.0 = rest;
        Some((key, value))
    }
}

/// Splits a text off whose own quotation marks have no marks before them: it ends where a pair follows, or nothing.
fn unmarked(s: &str) -> Option<(&str, &str)> {
    let is_end = |rest: &str| {
        let of_key = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let pair = rest.strip_prefix(' ').map(|r| r.trim_start_matches(of_key));
        rest.is_empty() || pair.is_some_and(|r| r.starts_with('=') && !rest.starts_with(" ="))
    };
    let mut ends = s.match_indices('"').filter_map(|(at, _)| {
        let (text, rest) = s.split_at_checked(at)?;
        Some((text, rest.strip_prefix('"')?))
    });
    ends.find(|(_, rest)| is_end(rest))
}

fn value(s: &str) -> (Value<'_>, &str) {
    if let Some(body) = s.strip_prefix('"') {
        return match unquote(body) {
            Some((text, rest)) => {
                // Who pasted the line has lost the marks before the quotation marks of the text, as in Markdown.
                let is_within = !rest.is_empty() && !rest.starts_with([' ', '\t']);
                match is_within.then(|| unmarked(body)).flatten() {
                    Some((text, rest)) => (Value::Text(Cow::Borrowed(text)), rest),
                    None => (Value::Text(text), rest),
                }
            }
            None => (Value::Cut, ""),
        };
    }
    if s == "<" {
        return (Value::Block, "");
    }
    let opener = s
        .strip_prefix('&')
        .or_else(|| s.strip_prefix("map"))
        .unwrap_or(s);
    if opener.starts_with(['{', '[']) {
        return match balanced(s) {
            Some(end) => (
                Value::Nested(s.get(..end).unwrap_or_default()),
                s.get(end..).unwrap_or_default(),
            ),
            None => (Value::Cut, ""),
        };
    }
    match memchr::memchr(b' ', s.as_bytes()) {
        Some(n) => (
            Value::Text(Cow::Borrowed(s.get(..n).unwrap_or_default())),
            s.get(n..).unwrap_or_default(),
        ),
        None => (Value::Text(Cow::Borrowed(s)), ""),
    }
}

/// Returns the length of the value at the front of `s` whose brackets balance; quoted strings do not count.
fn balanced(s: &str) -> Option<usize> {
    let b = s.as_bytes();
    let (mut depth, mut i) = (0_u32, 0);
    while let Some(c) = b.get(i) {
        match c {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            b'"' => {
                i += 1;
                loop {
                    i += memchr::memchr2(b'"', b'\\', b.get(i..)?)?;
                    if b.get(i) == Some(&b'"') {
                        break;
                    }
                    i += 2;
                }
            }
            _ => {}
        }
        i += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(s: &str) -> Vec<(String, String)> {
        Pairs(s)
            .map(|(k, v)| {
                let v = match v {
                    Value::Text(t) => t.into_owned(),
                    Value::Nested(t) => format!("N:{t}"),
                    Value::Block => "<block>".into(),
                    Value::Cut => "<cut>".into(),
                };
                (k.into(), v)
            })
            .collect()
    }

    #[test]
    fn go_literals_decode_every_escape() {
        for (quoted, text, rest) in [
            (r#"plain" x"#, "plain", " x"),
            (r#"a \"b\" \\ \t\n" "#, "a \"b\" \\ \t\n", " "),
            (r#"\x41é\u00e9\U0001F600\101""#, "Aéé😀A", ""),
            (r#"bad \xff byte""#, "bad \u{fffd} byte", ""),
        ] {
            let (t, r) = unquote(quoted).unwrap();
            assert_eq!((t.as_ref(), r), (text, rest));
        }
        assert_eq!(unquote(r"no end"), None);
        assert_eq!(unquote(r"ends in a backslash \"), None);
        assert_eq!(unquote(r"short \x4"), None);
    }

    #[test]
    fn values_of_every_form_are_told_apart() {
        assert_eq!(
            pairs(
                r#" pod="s01/web" n=30 ok=true ev={"ID":"a b","D":"}\""} pods=["a/b","c/d"] nil=null"#
            ),
            [
                ("pod", "s01/web"),
                ("n", "30"),
                ("ok", "true"),
                ("ev", r#"N:{"ID":"a b","D":"}\""}"#),
                ("pods", r#"N:["a/b","c/d"]"#),
                ("nil", "null"),
            ]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
    }

    #[test]
    fn older_kubelets_print_structs_with_spaces() {
        assert_eq!(
            pairs("pods=[default/web kube-system/dns] event=&{ID:1 Type:ContainerDied Data:2} x=1"),
            [
                ("pods", "N:[default/web kube-system/dns]"),
                ("event", "N:&{ID:1 Type:ContainerDied Data:2}"),
                ("x", "1"),
            ]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
    }

    #[test]
    fn a_text_whose_quotation_marks_have_lost_their_marks_is_whole() {
        // Ansible-role-kubernetes 125.
        assert_eq!(
            pairs(r#"err="node "instance" not found""#),
            [("err".into(), r#"node "instance" not found"#.into())]
        );
        let both = pairs(r#"err="failed "a" b: "c"" pod="s01/web" n=3"#);
        let want = [
            ("err", r#"failed "a" b: "c""#),
            ("pod", "s01/web"),
            ("n", "3"),
        ];
        assert_eq!(both, want.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(pairs(r#"err="a"b c"#), [("err".into(), "a".into())]);
    }

    #[test]
    fn a_cut_value_and_an_open_block_are_said_to_be_so() {
        assert_eq!(pairs(r#"a="x"#), [("a".into(), "<cut>".into())]);
        assert_eq!(pairs(r#"a={"x":"#), [("a".into(), "<cut>".into())]);
        assert_eq!(pairs("a=<"), [("a".into(), "<block>".into())]);
        assert_eq!(pairs("trailing words"), []);
    }
}
