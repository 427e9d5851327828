//! Fields that most observations of a kind do not have: an absent one takes only the room of a pointer.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{ContainerId, Nanos, PodRef, SpanId, Text, TraceId};

/// A type with an empty value, to which an absent field dereferences.
pub trait Empty: Default + 'static {
    /// Returns the shared empty value.
    fn empty() -> &'static Self;
    /// True when the value equals the empty one.
    fn is_empty(&self) -> bool;
}

macro_rules! empty {
    ($($of:ty = $value:expr),* $(,)?) => {$(
        impl Empty for $of {
            fn empty() -> &'static Self {
                static EMPTY: $of = $value;
                &EMPTY
            }
            fn is_empty(&self) -> bool {
                <$of>::is_empty(self)
            }
        }
    )*};
}
empty! {
    Text = Text::EMPTY,
    ContainerId = ContainerId(Text::EMPTY),
    Vec<PodRef> = Vec::new(),
    Vec<(Nanos, Text)> = Vec::new(),
    Vec<(TraceId, SpanId)> = Vec::new(),
}

/// A value that is usually empty, and is boxed when it is not. It reads, compares and serialises like the value itself.
#[derive(Clone)]
pub struct Seldom<T>(Option<Box<T>>);

impl<T: Empty> Seldom<T> {
    /// True when the value is empty.
    pub fn is_empty(&self) -> bool {
        T::is_empty(self)
    }
}

impl<A> Seldom<Vec<A>> {
    /// Frees the capacity that the vector does not use.
    pub fn shrink_to_fit(&mut self) {
        if let Some(items) = &mut self.0 {
            items.shrink_to_fit();
        }
    }
}
impl<A> Extend<A> for Seldom<Vec<A>> {
    fn extend<I: IntoIterator<Item = A>>(&mut self, items: I) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_some() {
            self.0.get_or_insert_default().extend(items);
        }
    }
}

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self(None)
    }
}
impl<T: Empty> From<T> for Seldom<T> {
    fn from(value: T) -> Self {
        Self((!value.is_empty()).then(|| Box::new(value)))
    }
}
impl<T: Empty + for<'s> From<&'s str>> From<&str> for Seldom<T> {
    fn from(s: &str) -> Self {
        T::from(s).into()
    }
}
impl<A> FromIterator<A> for Seldom<Vec<A>>
where
    Vec<A>: Empty,
{
    fn from_iter<I: IntoIterator<Item = A>>(items: I) -> Self {
        Vec::from_iter(items).into()
    }
}
impl<'s, A> IntoIterator for &'s Seldom<Vec<A>>
where
    Vec<A>: Empty,
{
    type Item = &'s A;
    type IntoIter = std::slice::Iter<'s, A>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
impl<T: Empty> Deref for Seldom<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::empty())
    }
}
impl<T: Empty> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Empty + fmt::Debug> fmt::Debug for Seldom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}
impl<T: Empty + fmt::Display> fmt::Display for Seldom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}
impl<T: Empty + PartialEq> PartialEq for Seldom<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl<T: Empty + Eq> Eq for Seldom<T> {}
impl<T: Empty + Ord> PartialOrd for Seldom<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T: Empty + Ord> Ord for Seldom<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        T::cmp(self, other)
    }
}
impl<T: Empty + Hash> Hash for Seldom<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        T::hash(self, state);
    }
}
impl PartialEq<&str> for Seldom<Text> {
    fn eq(&self, other: &&str) -> bool {
        **self == *other
    }
}
impl PartialEq<str> for Seldom<Text> {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl<T: Empty + Serialize> Serialize for Seldom<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        T::serialize(self, s)
    }
}
impl<'de, T: Empty + Deserialize<'de>> Deserialize<'de> for Seldom<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        T::deserialize(d).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_a_pointer_and_reads_as_the_value() {
        assert_eq!(size_of::<Seldom<Text>>(), 8);
        let (none, empty) = (Seldom::<Text>::default(), Seldom::<Text>::from(""));
        assert!(none.is_empty() && empty.0.is_none());
        let mut some = Seldom::<Text>::from("why");
        assert_eq!(some.len(), 3);
        assert!(some > none);
        *some = Text::default();
        assert_eq!(some, none, "one that was emptied is equal to none");
    }

    #[test]
    fn a_list_takes_no_room_until_something_is_in_it() {
        let mut list = Seldom::<Vec<PodRef>>::default();
        list.extend([]);
        list.shrink_to_fit();
        assert!(list.0.is_none());
        list.extend([PodRef::by_uid("a")]);
        list.shrink_to_fit();
        assert_eq!((list.len(), list.capacity()), (1, 1));
    }

    #[test]
    fn it_is_written_and_read_as_the_value() {
        for text in ["", "why"] {
            let json = serde_json::to_string(&Seldom::<Text>::from(text)).unwrap();
            assert_eq!(json, serde_json::to_string(text).unwrap());
            assert_eq!(serde_json::from_str::<Seldom<Text>>(&json).unwrap(), text);
        }
    }
}
