//! Text as observations hold it: short ones inline, longer ones that come again and again stored once.
//!
//! A session says the same identifiers, names and messages hundreds of thousands of times. Up to 24 bytes stand in
//! the value itself; of longer ones each thread remembers the last that it made, and gives the same memory again.
//! What was remembered is never visible: two equal texts are equal wherever they are stored.

use std::borrow::{Borrow, Cow};
use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that stand in the value itself.
const INLINE: usize = 24;
/// Longer texts hardly come again.
const LONGEST: usize = 512;
/// Texts that a thread remembers, a power of two.
const SLOTS: usize = 1 << 13;

thread_local! {
    /// The last long texts that this thread made, each in the slot of its hash: bounded, and nothing to clean up.
    static MADE: RefCell<Vec<Option<Arc<str>>>> = const { RefCell::new(Vec::new()) };
}

/// A text, as large as a `String` and cheap to clone.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    /// Inline, or a long text of its own.
    Own(CompactString),
    /// Stored once for many.
    Shared(Arc<str>),
}

impl Text {
    /// A text from a string.
    pub fn new(s: &str) -> Self {
        if s.len() <= INLINE || s.len() > LONGEST {
            return Self(Repr::Own(CompactString::new(s)));
        }
        Self(Repr::Shared(remembered(s)))
    }
    /// A text that is known when compiling.
    pub const fn const_new(s: &'static str) -> Self {
        Self(Repr::Own(CompactString::const_new(s)))
    }
    /// Appends a string; the text is then one of its own.
    pub fn push_str(&mut self, s: &str) {
        if let Repr::Shared(shared) = &self.0 {
            self.0 = Repr::Own(CompactString::new(shared));
        }
        if let Repr::Own(own) = &mut self.0 {
            own.push_str(s);
        }
    }
    /// Appends a character.
    pub fn push(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }
    /// True when it is empty.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
    /// The string.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Own(s) => s.as_str(),
            Repr::Shared(s) => s,
        }
    }
}

fn remembered(s: &str) -> Arc<str> {
    let mut hasher = rustc_hash::FxHasher::default();
    s.hash(&mut hasher);
    // The upper bits are the better mixed ones.
    let slot = (hasher.finish() >> 32) as usize & (SLOTS - 1);
    MADE.with_borrow_mut(|made| {
        if made.is_empty() {
            made.resize(SLOTS, None);
        }
        match made.get_mut(slot) {
            Some(Some(have)) if **have == *s => Arc::clone(have),
            Some(place) => Arc::clone(place.insert(Arc::from(s))),
            None => Arc::from(s),
        }
    })
}

impl Default for Text {
    fn default() -> Self {
        Self::const_new("")
    }
}
impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}
impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
impl Borrow<str> for Text {
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
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Shared(a), Repr::Shared(b)) if Arc::ptr_eq(a, b) => true,
            _ => self.as_str() == other.as_str(),
        }
    }
}
impl Eq for Text {}
impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Text {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (&self.0, &other.0) {
            (Repr::Shared(a), Repr::Shared(b)) if Arc::ptr_eq(a, b) => std::cmp::Ordering::Equal,
            _ => self.as_str().cmp(other.as_str()),
        }
    }
}
impl Hash for Text {
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
            fn eq(&self, other: &$other) -> bool {
                let other: &str = other.as_ref();
                self.as_str() == other
            }
        }
        impl PartialEq<Text> for $other {
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
impl From<CompactString> for Text {
    fn from(s: CompactString) -> Self {
        if s.is_heap_allocated() {
            Self::new(&s)
        } else {
            Self(Repr::Own(s))
        }
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
        CompactString::from_iter(chars).into()
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
    fn a_text_is_as_large_as_a_string() {
        assert_eq!(size_of::<Text>(), size_of::<String>());
        assert_eq!(size_of::<Option<Text>>(), size_of::<String>());
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
            &"x".repeat(24),
            &"x".repeat(25),
            &"x".repeat(600),
        ];
        for a in all {
            for b in all {
                let (s, t) = (Text::new(a), Text(Repr::Own(CompactString::new(b))));
                assert_eq!(s == t, a == b);
                assert_eq!(s.cmp(&t), a.cmp(b));
            }
            let set: rustc_hash::FxHashSet<Text> = [Text::new(a)].into_iter().collect();
            assert!(set.contains(a));
        }
    }

    #[test]
    fn more_long_texts_than_a_thread_remembers_stay_themselves() {
        let all: Vec<(String, Text)> = (0..SLOTS * 3)
            .map(|n| format!("a text that is longer than others: {n}"))
            .map(|s| (s.clone(), Text::from(s)))
            .collect();
        assert!(all.iter().all(|(s, t)| t == s));
    }
}
