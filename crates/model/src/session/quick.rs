//! Reads JSON in the one form in which lines are written: no space between signs, numbers whole, nothing that a type does not
//! know. Everything else it does not read, and says so, for the general reader to do. What it reads is what that one reads:
//! a test compares the two.
//!
//! What lines say again and again ([`Recurring`]) is not read but remembered, by how it is spelled.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::thread::LocalKey;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::remembered::Spelled;

/// Reads a value; `None` when it is not in this form, or not JSON.
pub(super) fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Option<T> {
    // Strings may not hold them. Looked for all at once, which is cheaper than in each string.
    if text.bytes().fold(0, |any, b| any | u8::from(b < b' ')) != 0 {
        return None;
    }
    whole(text).ok()
}

fn whole<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Otherwise> {
    let mut quick = Quick { text, at: 0 };
    let value = T::deserialize(&mut quick)?;
    if quick.at == text.len() {
        Ok(value)
    } else {
        Err(Otherwise)
    }
}

/// A value of which many lines say the same.
pub(crate) trait Recurring: Clone + Default + 'static {
    /// What is read.
    type Wire: for<'de> Deserialize<'de>;
    /// Values that a thread remembers, a power of two.
    const REMEMBERED: usize;
    /// What the thread remembers.
    fn memory() -> &'static LocalKey<RefCell<Spelled<Self>>>;
    /// The value, when it is not remembered.
    fn made(wire: Self::Wire) -> Self;
    /// The value, by a reader that does not know how it is spelled.
    fn found(wire: Self::Wire) -> Self;
}

/// Longer spellings hardly come again.
const LONGEST: usize = 512;

/// How a [`Recurring`] value asks for its spelling.
const SPELLING: &str = "kflow spelling";

/// Reads a value that may be remembered.
pub(crate) fn recurring<'de, T: Recurring, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    struct OfSpelling<T>(PhantomData<T>);
    impl<'de, T: Recurring> Visitor<'de> for OfSpelling<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }
        fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<T, D::Error> {
            T::Wire::deserialize(d).map(T::found)
        }
        fn visit_borrowed_str<E: Error>(self, spelling: &'de str) -> Result<T, E> {
            if spelling.len() > LONGEST {
                return whole(spelling).map(T::found).map_err(E::custom);
            }
            let read = |s: &str| whole(s).map(T::made);
            T::memory()
                .with_borrow_mut(|all| all.get(T::REMEMBERED, spelling, read))
                .map_err(E::custom)
        }
    }
    d.deserialize_newtype_struct(SPELLING, OfSpelling(PhantomData))
}

/// It is not in this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Otherwise;

impl fmt::Display for Otherwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not in the form in which it is written")
    }
}
impl std::error::Error for Otherwise {}
impl Error for Otherwise {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

struct Quick<'de> {
    text: &'de str,
    at: usize,
}

impl<'de> Quick<'de> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
    fn take(&mut self, sign: u8) -> Result<(), Otherwise> {
        if self.peek() != Some(sign) {
            return Err(Otherwise);
        }
        self.at += 1;
        Ok(())
    }
    fn take_word(&mut self, word: &str) -> Result<(), Otherwise> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(Otherwise);
        }
        self.at += word.len();
        Ok(())
    }
    /// Behind the quote that begins a string: goes behind the one that ends it. Returns whether it holds an escape.
    fn pass_string(&mut self) -> Result<bool, Otherwise> {
        let mut escaped = false;
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let n = memchr::memchr2(b'"', b'\\', rest).ok_or(Otherwise)?;
            if rest.get(n) == Some(&b'"') {
                self.at += n + 1;
                return Ok(escaped);
            }
            escaped = true;
            self.at += n + 2;
        }
    }
    fn string(&mut self) -> Result<Cow<'de, str>, Otherwise> {
        let begin = self.at;
        self.take(b'"')?;
        if self.pass_string()? {
            let quoted = self.text.get(begin..self.at).ok_or(Otherwise)?;
            let read = serde_json::from_str(quoted).map_err(|_| Otherwise)?;
            return Ok(Cow::Owned(read));
        }
        let read = self.text.get(begin + 1..self.at - 1).ok_or(Otherwise)?;
        Ok(Cow::Borrowed(read))
    }
    /// The name in front of a value: short, and never escaped.
    fn name(&mut self) -> Result<&'de str, Otherwise> {
        self.take(b'"')?;
        let begin = self.at;
        let rest = self.text.as_bytes().get(begin..).unwrap_or_default();
        let n = rest.iter().position(|b| matches!(b, b'"' | b'\\'));
        self.at += n.ok_or(Otherwise)?;
        let name = self.text.get(begin..self.at).ok_or(Otherwise)?;
        self.take(b'"')?;
        self.take(b':')?;
        Ok(name)
    }
    /// A whole number that is not negative.
    fn number(&mut self) -> Result<u64, Otherwise> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let mut value = 0_u64;
        let mut digits = 0;
        for b in rest {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            digits += 1;
        }
        // 19 digits always have room. A zero stands alone.
        if digits == 0 || digits > 19 || digits > 1 && rest.first() == Some(&b'0') {
            return Err(Otherwise);
        }
        self.at += digits;
        Ok(value)
    }
    /// The text of a list or an object. Not looked at further: it is read, or is what was read before.
    fn spelling(&mut self) -> Result<&'de str, Otherwise> {
        let begin = self.at;
        let mut depth = 0_u32;
        loop {
            let sign = self.peek().ok_or(Otherwise)?;
            self.at += 1;
            match sign {
                b'"' => {
                    self.pass_string()?;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => {
                    depth = depth.checked_sub(1).ok_or(Otherwise)?;
                    if depth == 0 {
                        return self.text.get(begin..self.at).ok_or(Otherwise);
                    }
                }
                _ if depth == 0 => return Err(Otherwise),
                _ => {}
            }
        }
    }
    /// In front of an item, true; at the end, false.
    fn next(&mut self, first: &mut bool, end: u8) -> Result<bool, Otherwise> {
        let first = std::mem::take(first);
        match self.peek() {
            Some(sign) if sign == end => Ok(false),
            Some(b',') if !first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => Err(Otherwise),
        }
    }
}

impl<'de> Deserializer<'de> for &mut Quick<'de> {
    type Error = Otherwise;

    /// Only what holds nothing else: nothing that is read may be as deep as it likes.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Otherwise> {
        match self.peek() {
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'0'..=b'9') => visitor.visit_u64(self.number()?),
            Some(b't') => {
                self.take_word("true")?;
                visitor.visit_bool(true)
            }
            Some(b'f') => {
                self.take_word("false")?;
                visitor.visit_bool(false)
            }
            _ => Err(Otherwise),
        }
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Otherwise> {
        match self.string()? {
            Cow::Borrowed(s) => visitor.visit_borrowed_str(s),
            Cow::Owned(s) => visitor.visit_string(s),
        }
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Otherwise> {
        self.deserialize_str(visitor)
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Otherwise> {
        if self.peek() == Some(b'n') {
            self.take_word("null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Otherwise> {
        if name == SPELLING {
            return visitor.visit_borrowed_str(self.spelling()?);
        }
        visitor.visit_newtype_struct(self)
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Otherwise> {
        self.take(b'[')?;
        let items = Items {
            of: self,
            first: true,
        };
        let value = visitor.visit_seq(items)?;
        self.take(b']')?;
        Ok(value)
    }
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Otherwise> {
        self.deserialize_seq(visitor)
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Otherwise> {
        self.take(b'{')?;
        let items = Items {
            of: self,
            first: true,
        };
        let value = visitor.visit_map(items)?;
        self.take(b'}')?;
        Ok(value)
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Otherwise> {
        self.deserialize_map(visitor)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Otherwise> {
        if self.peek() == Some(b'"') {
            return visitor.visit_enum(StrDeserializer::<Otherwise>::new(&self.string()?));
        }
        self.take(b'{')?;
        let value = visitor.visit_enum(Variant(self))?;
        self.take(b'}')?;
        Ok(value)
    }
    /// A later kflow's.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Otherwise> {
        Err(Otherwise)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        tuple_struct identifier
    }
}

/// The items of a list or an object.
struct Items<'q, 'de> {
    of: &'q mut Quick<'de>,
    first: bool,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Otherwise;
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Otherwise> {
        if !self.of.next(&mut self.first, b']')? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.of).map(Some)
    }
}

impl<'de> MapAccess<'de> for Items<'_, 'de> {
    type Error = Otherwise;
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Otherwise> {
        if !self.of.next(&mut self.first, b'}')? {
            return Ok(None);
        }
        let name = BorrowedStrDeserializer::new(self.of.name()?);
        seed.deserialize(name).map(Some)
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Otherwise> {
        seed.deserialize(&mut *self.of)
    }
}

/// An object of one entry, whose name says what its value is.
struct Variant<'q, 'de>(&'q mut Quick<'de>);

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Otherwise;
    type Variant = Self;
    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Otherwise> {
        let name = BorrowedStrDeserializer::new(self.0.name()?);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Otherwise;
    fn unit_variant(self) -> Result<(), Otherwise> {
        Err(Otherwise)
    }
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Otherwise> {
        seed.deserialize(self.0)
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Otherwise> {
        self.0.deserialize_seq(visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Otherwise> {
        self.0.deserialize_map(visitor)
    }
}

#[cfg(all(test, feature = "files"))]
mod tests;
