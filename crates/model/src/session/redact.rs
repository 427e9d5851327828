//! A JSON formatter, [`Redactor`], that passes every string of every written observation through [`crate::redact`]. So
//! the fields of later versions are redacted too, and the structure of the JSON never changes.

use serde_json::ser::{CharEscape, CompactFormatter, Formatter};
use std::borrow::Cow;
use std::io;

use crate::redact::{self, REDACTED};

/// A compact JSON formatter that passes every string, keys included, through [`redact::text`].
#[derive(Debug, Default)]
pub struct Redactor {
    text: String,
    /// The previous string names a credential, and the next string is its value.
    after_name: bool,
    /// For each open array and object, outermost first: how many strings the array has had so far;
    /// `None` for an object.
    open: Vec<Option<u32>>,
    in_key: bool,
    changed: u64,
}

impl Redactor {
    /// Returns how many strings were changed so far.
    pub const fn changed(&self) -> u64 {
        self.changed
    }

    /// True when the string that ended is a name: a key, or the first element of a list in a list, which is how pairs
    /// are written.
    fn was_name(&mut self, key: bool) -> bool {
        let in_list = self
            .open
            .len()
            .checked_sub(2)
            .is_some_and(|outer| matches!(self.open.get(outer), Some(Some(_))));
        match self.open.last_mut() {
            Some(Some(n)) => {
                *n += 1;
                in_list && *n == 1
            }
            _ => key,
        }
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
        let clean = if self.after_name && !self.text.is_empty() {
            Cow::Borrowed(REDACTED)
        } else {
            redact::text(&self.text)
        };
        let changed = clean != self.text;
        write_json_string(writer, &clean)?;
        let key = std::mem::take(&mut self.in_key);
        self.after_name = self.was_name(key) && redact::is_secret(&self.text);
        self.changed += u64::from(changed);
        Ok(())
    }
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.after_name = false;
        self.open.push(Some(0));
        writer.write_all(b"[")
    }
    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.after_name = false;
        self.open.push(None);
        writer.write_all(b"{")
    }
    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        // The key before had a value that is not a string; a key is never taken for a value.
        self.after_name = false;
        self.in_key = true;
        if first {
            Ok(())
        } else {
            writer.write_all(b",")
        }
    }
    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.after_name = false;
        self.open.pop();
        writer.write_all(b"]")
    }
    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.after_name = false;
        self.open.pop();
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
        assert_eq!(
            s,
            r#"{"kv":[["user","bob"],["db-password","<redacted>"],["apiKey","<redacted>"]]}"#
        );
        assert_eq!(n, 2);
        // A list of names is not a pair, and neither is the value of one name a name for what follows.
        let (s, _) = json(&serde_json::json!({"password":"x","list":["password","b"],"next":"y"}));
        assert_eq!(
            s,
            r#"{"list":["password","b"],"next":"y","password":"<redacted>"}"#
        );
        let (s, _) = json(&serde_json::json!([
            ["a", "token", "c"],
            ["token", "b", "c"]
        ]));
        assert_eq!(s, r#"[["a","token","c"],["token","<redacted>","c"]]"#);
        let (s, _) = json(&serde_json::json!({"a":{"pwd":5,"x":"y"}}));
        assert_eq!(s, r#"{"a":{"pwd":5,"x":"y"}}"#);
    }

    proptest! {
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
