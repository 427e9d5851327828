//! Lists of names with values, as log lines, calls and spans carry them. Equal lists share memory.
//!
//! Of a million observations of a busy node 790,000 carry such a list, and most lists occur again: the 488,000 spans of
//! that recording have 145,000 different lists of attributes. Equal lists share memory as equal [`Text`]s do: each
//! thread remembers the lists that it made last. Whether two lists share memory is never visible.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Text;
use crate::remembered::Remembered;

/// How many lists a thread remembers, a power of two.
const SLOTS: usize = 1 << 13;

thread_local! {
    static MADE: RefCell<Remembered<Pairs>> = const { RefCell::new(Remembered::new()) };
}

/// Names with their values, in the order in which they were given. Immutable and cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pairs(Option<Arc<[(Text, Text)]>>);

impl Pairs {
    /// True when there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    /// Returns the value of the first pair with this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.text(name).map(Text::as_str)
    }
    /// Returns the same value as a [`Text`], of which a clone shares the memory.
    pub fn text(&self, name: &str) -> Option<&Text> {
        self.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
}

impl Deref for Pairs {
    type Target = [(Text, Text)];
    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or_default()
    }
}

impl From<Vec<(Text, Text)>> for Pairs {
    fn from(pairs: Vec<(Text, Text)>) -> Self {
        if pairs.is_empty() {
            return Self::default();
        }
        let is = |have: &Self, pairs: &Vec<_>| **have == **pairs;
        let made = |pairs: Vec<_>| Self(Some(pairs.into()));
        MADE.with_borrow_mut(|all| all.get(SLOTS, pairs, is, made))
    }
}

impl FromIterator<(Text, Text)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(pairs: I) -> Self {
        Self::from(Vec::from_iter(pairs))
    }
}

impl<const N: usize> PartialEq<[(Text, Text); N]> for Pairs {
    fn eq(&self, other: &[(Text, Text); N]) -> bool {
        **self == *other
    }
}

impl<'a> IntoIterator for &'a Pairs {
    type Item = &'a (Text, Text);
    type IntoIter = std::slice::Iter<'a, (Text, Text)>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Vec::deserialize(d).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[&str]) -> Pairs {
        let pair = |v: &&str| (Text::new("name"), Text::new(v));
        values.iter().map(pair).collect()
    }

    #[test]
    fn equal_lists_share_memory_and_others_do_not() {
        let (one, same, other) = (pairs(&["a", "b"]), pairs(&["a", "b"]), pairs(&["b", "a"]));
        assert_eq!(one.as_ptr(), same.as_ptr());
        assert_eq!(one, same);
        assert_ne!(one, other);
        assert_eq!(other.value("name"), Some("b"));
    }

    #[test]
    fn more_lists_than_are_remembered_stay_what_they_are() {
        let texts: Vec<String> = (0..3 * SLOTS).map(|n| n.to_string()).collect();
        let made: Vec<Pairs> = texts.iter().map(|t| pairs(&[t])).collect();
        for (text, made) in texts.iter().zip(&made) {
            assert_eq!(made.value("name"), Some(text.as_str()));
        }
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        for list in [pairs(&[]), pairs(&["a", "b"])] {
            let text = serde_json::to_string(&list).unwrap();
            assert_eq!(serde_json::from_str::<Pairs>(&text).unwrap(), list);
        }
        assert!(serde_json::from_str::<Pairs>("[[\"a\"]]").is_err());
    }
}
