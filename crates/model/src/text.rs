//! Text as observations hold it: short texts inline, longer ones that occur repeatedly stored once.
//!
//! A session repeats the same identifiers, names and messages hundreds of thousands of times. Up to 15 bytes are held
//! in the value itself, which is 16 bytes large: two thirds of a `String`, and an observation has ten of them. Longer
//! texts are counted references; each thread remembers the texts that it made last, and returns the same memory for an
//! equal one. This is never visible: two equal texts are equal wherever they are stored.

use std::borrow::{Borrow, Cow};
use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use ecow::EcoString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::remembered::Remembered;

/// Texts that are longer (bytes) are not remembered, because they hardly occur twice.
const LONGEST: usize = 512;
/// How many texts a thread remembers, a power of two. More would save little in a thread whose texts are kept (with
/// [`FEW`] instead of [`MANY`] a recording of a million observations takes 3 % more memory), and would waste memory in
/// a thread whose texts are not kept.
const FEW: usize = 1 << 11;
/// How many texts a thread remembers that reads a recording, a power of two.
const MANY: usize = 1 << 14;

thread_local! {
    static MADE: RefCell<Remembered<EcoString>> = const { RefCell::new(Remembered::new()) };
}

// Functions that other crates call in inner loops are marked `#[inline]`, because there is no link-time optimisation.

/// A text of 16 bytes, cheap to clone.
#[derive(Clone, Default)]
pub struct Text(EcoString);

impl Text {
    /// The empty text.
    pub const EMPTY: Self = Self(EcoString::new());
    /// Returns a text equal to `s`, which shares memory with an equal one that the thread made lately.
    pub fn new(s: &str) -> Self {
        if s.len() <= EcoString::INLINE_LIMIT || s.len() > LONGEST {
            return Self(EcoString::from(s));
        }
        let is = |have: &EcoString, s: &&str| have.as_str() == *s;
        Self(MADE.with_borrow_mut(|all| all.get(FEW, s, is, EcoString::from)))
    }
    /// Appends a string.
    pub fn push_str(&mut self, s: &str) {
        self.0.push_str(s);
    }
    /// Appends a character.
    pub fn push(&mut self, c: char) {
        self.0.push(c);
    }
    /// True when the text has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns the text as a string slice.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Makes the calling thread remember eight times as many texts: for a thread that reads a session.
pub fn remember_many() {
    MADE.with_borrow_mut(|all| all.resize(MANY));
}

impl Deref for Text {
    type Target = str;
    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}
impl AsRef<str> for Text {
    #[inline]
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
impl Borrow<str> for Text {
    #[inline]
    fn borrow(&self) -> &str {
        self.as_str()
    }
}
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.as_str(), other.as_str());
        std::ptr::eq(a, b) || a == b
    }
}
impl Eq for Text {}
impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Text {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let (a, b) = (self.as_str(), other.as_str());
        if std::ptr::eq(a, b) {
            std::cmp::Ordering::Equal
        } else {
            a.cmp(b)
        }
    }
}
impl Hash for Text {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push_str(s);
        Ok(())
    }
}

impl PartialEq<Text> for &Text {
    fn eq(&self, other: &Text) -> bool {
        **self == *other
    }
}
macro_rules! compares_with {
    ($($other:ty),*) => {$(
        impl PartialEq<$other> for Text {
            #[inline]
            fn eq(&self, other: &$other) -> bool {
                let other: &str = other.as_ref();
                self.as_str() == other
            }
        }
        impl PartialEq<Text> for $other {
            #[inline]
            fn eq(&self, other: &Text) -> bool {
                let this: &str = self.as_ref();
                this == other.as_str()
            }
        }
    )*};
}
compares_with!(str, &str, String, &String);

macro_rules! made_from {
    ($($from:ty),*) => {$(
        impl From<$from> for Text {
            fn from(s: $from) -> Self {
                Self::new(s.as_ref())
            }
        }
    )*};
}
made_from!(&str, String, &String, Box<str>, Cow<'_, str>);

impl From<&Text> for Text {
    fn from(s: &Text) -> Self {
        s.clone()
    }
}
impl From<char> for Text {
    fn from(c: char) -> Self {
        Self::new(c.encode_utf8(&mut [0; 4]))
    }
}
impl From<Text> for String {
    fn from(s: Text) -> Self {
        s.as_str().to_owned()
    }
}
impl FromIterator<char> for Text {
    fn from_iter<I: IntoIterator<Item = char>>(chars: I) -> Self {
        Self(EcoString::from_iter(chars))
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self)
    }
}
impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, s: &str) -> Result<Text, E> {
                Ok(Text::new(s))
            }
        }
        d.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_smaller_than_a_string() {
        assert_eq!(size_of::<Text>(), 16);
    }

    #[test]
    fn a_long_text_that_comes_again_is_stored_once() {
        let uid = "0c8cb4cf-5b0a-4b4f-9f9a-3b0a5f0c8cb4";
        let (a, b) = (Text::new(uid), Text::from(uid.to_owned()));
        assert_eq!(a, b);
        assert_eq!(a.as_ptr(), b.as_ptr());
        let read: Text = serde_json::from_str(&format!("\"{uid}\"")).unwrap();
        assert_eq!(read.as_ptr(), a.as_ptr());
    }

    #[test]
    fn texts_compare_and_hash_as_strings_wherever_they_are_stored() {
        let all = [
            "",
            "a",
            "ab",
            &"x".repeat(15),
            &"x".repeat(16),
            &"x".repeat(600),
        ];
        for a in all {
            for b in all {
                let (s, t) = (Text::new(a), Text(EcoString::from(b)));
                assert_eq!(s == t, a == b);
                assert_eq!(s.cmp(&t), a.cmp(b));
            }
            let set: rustc_hash::FxHashSet<Text> = [Text::new(a)].into_iter().collect();
            assert!(set.contains(a));
        }
    }

    #[test]
    fn more_long_texts_than_a_thread_remembers_stay_themselves() {
        let all: Vec<(String, Text)> = (0..MANY * 3)
            .map(|n| format!("a text that is longer than others: {n}"))
            .map(|s| (s.clone(), Text::from(s)))
            .collect();
        assert!(all.iter().all(|(s, t)| t == s));
    }
}
