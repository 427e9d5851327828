//! Protobuf for a passive listener: a borrowing reader, and [`message!`], which declares a message
//! by its wanted fields.
//!
//! Generated messages would copy every declared field, and protobuf cannot declare "only the first of these strings"
//! or "only these keys of the map". Here a message borrows from the bytes, fields that are not declared are skipped,
//! and [`First`], [`Chosen`], [`Size`] and [`Present`] take no more than they say. So the definitions bound the
//! memory, and not the bytes.

use smallvec::SmallVec;

/// The error for bytes that are not the message that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// An iterator over the fields of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the next field's number and value; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                let (b, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
                self.0 = rest;
                Value::Fixed64(u64::from_le_bytes(*b))
            }
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                let (b, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
                self.0 = rest;
                Value::Bytes(b)
            }
            5 => {
                let (b, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
                self.0 = rest;
                Value::Fixed32(u32::from_le_bytes(*b))
            }
            // Groups are deprecated, and the CRI has none.
            _ => return Err(Malformed),
        };
        match key >> 3 {
            0 => Err(Malformed),
            number => Ok(Some((number, value))),
        }
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (i, &b) in self.0.iter().take(10).enumerate() {
            value |= u64::from(b & 0x7f) << (7 * i);
            if b & 0x80 == 0 {
                self.0 = self.0.get(i + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(Malformed)
    }
}

/// A type that a declared field can have. A field that occurs again is merged, as protobuf requires.
pub(super) trait Field<'a>: Default {
    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed>;
}

/// Decodes a whole message.
pub(super) fn decode<'a, M: Field<'a>>(bytes: &'a [u8]) -> Result<M, Malformed> {
    let mut message = M::default();
    message.merge(Value::Bytes(bytes))?;
    Ok(message)
}

fn string(value: Value<'_>) -> Result<&str, Malformed> {
    match value {
        Value::Bytes(b) => std::str::from_utf8(b).map_err(|_| Malformed),
        _ => Err(Malformed),
    }
}

impl<'a> Field<'a> for &'a str {
    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        *self = string(value)?;
        Ok(())
    }
}

macro_rules! varint_fields {
    ($($int:ty),*) => {$(
        impl<'a> Field<'a> for $int {
            fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
                match value {
                    Value::Varint(n) => {
                        *self = n as $int;
                        Ok(())
                    }
                    _ => Err(Malformed),
                }
            }
        }
    )*};
}
varint_fields!(u64, i64, u32, i32);

impl<'a> Field<'a> for bool {
    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        match value {
            Value::Varint(n) => {
                *self = n != 0;
                Ok(())
            }
            _ => Err(Malformed),
        }
    }
}

/// A field whose presence matters.
impl<'a, F: Field<'a>> Field<'a> for Option<F> {
    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        self.get_or_insert_default().merge(value)
    }
}

/// The first of repeated strings, and their number: a command without its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct First<'a> {
    pub(super) word: &'a str,
    pub(super) count: u32,
}

impl<'a> Field<'a> for First<'a> {
    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        if self.count == 0 {
            self.word = string(value)?;
        }
        self.count = self.count.saturating_add(1);
        Ok(())
    }
}

/// Whether a field is present; its content is not kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Present(pub(super) bool);

impl<'a> Field<'a> for Present {
    fn merge(&mut self, _: Value<'a>) -> Result<(), Malformed> {
        self.0 = true;
        Ok(())
    }
}

/// The number of bytes in a field; its content is not kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size(pub(super) usize);

impl<'a> Field<'a> for Size {
    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        if let Value::Bytes(b) = value {
            self.0 = b.len();
        }
        Ok(())
    }
}

/// Up to `N` of repeated fields, and the number of further ones.
#[derive(Clone, Debug)]
pub(super) struct Many<F, const N: usize> {
    pub(super) items: SmallVec<[F; 2]>,
    pub(super) more: usize,
}

impl<F, const N: usize> Default for Many<F, N> {
    fn default() -> Self {
        Self {
            items: SmallVec::new(),
            more: 0,
        }
    }
}

impl<'a, F: Field<'a>, const N: usize> Field<'a> for Many<F, N> {
    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        if self.items.len() >= N {
            self.more += 1;
            return Ok(());
        }
        let mut item = F::default();
        item.merge(value)?;
        self.items.push(item);
        Ok(())
    }
}

/// The wanted keys of a `map<string, string>`.
pub(super) trait Keys: Default {
    const KEYS: &'static [&'static str];
}

/// The wanted entries of a `map<string, string>`. Values of other keys are not kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Chosen<'a, K> {
    /// Key and value, in the order of the bytes.
    pub(super) entries: SmallVec<[(&'static str, &'a str); 4]>,
    keys: std::marker::PhantomData<K>,
}

impl<'a, K: Keys> Chosen<'a, K> {
    /// Returns the value of a key; empty when the key is missing.
    pub(super) fn get(&self, key: &str) -> &'a str {
        self.entries
            .iter()
            .find(|(k, _)| *k == key)
            .map_or("", |(_, v)| v)
    }
}

impl<'a, K: Keys> Field<'a> for Chosen<'a, K> {
    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        let Value::Bytes(entry) = value else {
            return Err(Malformed);
        };
        let (mut key, mut text) = (&b""[..], Value::Bytes(b""));
        let mut fields = Reader::new(entry);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(b)) => key = b,
                (2, value) => text = value,
                _ => {}
            }
        }
        let Some(&known) = K::KEYS.iter().find(|k| k.as_bytes() == key) else {
            return Ok(());
        };
        let text = string(text)?;
        match self.entries.iter_mut().find(|(k, _)| *k == known) {
            Some((_, old)) => *old = text,
            None => self.entries.push((known, text)),
        }
        Ok(())
    }
}

/// Declares messages: `Name { number => field: Type, … }`. The reader skips all other fields.
macro_rules! message {
    ($($(#[$doc:meta])* $name:ident { $($number:literal => $field:ident : $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(super) struct $name<'a> {
            $(pub(super) $field: $type,)*
            nothing: std::marker::PhantomData<&'a ()>,
        }
        impl<'a> crate::proto::Field<'a> for $name<'a> {
            fn merge(
                &mut self,
                value: crate::proto::Value<'a>,
            ) -> Result<(), crate::proto::Malformed> {
                let crate::proto::Value::Bytes(bytes) = value else {
                    return Err(crate::proto::Malformed);
                };
                let mut fields = crate::proto::Reader::new(bytes);
                while let Some((number, _value)) = fields.next()? {
                    match number {
                        $($number => crate::proto::Field::merge(&mut self.$field, _value)?,)*
                        _ => {}
                    }
                }
                Ok(())
            }
        }
    )*};
}
pub(super) use message;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{int, len, map};

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Wanted;
    impl Keys for Wanted {
        const KEYS: &'static [&'static str] = &["a", "b"];
    }
    message! {
        Inner { 1 => name: &'a str }
        Outer {
            1 => text: &'a str,
            2 => number: i64,
            3 => inner: Option<Inner<'a>>,
            4 => command: First<'a>,
            5 => secret: Present,
            6 => output: Size,
            7 => many: Many<Inner<'a>, 2>,
            8 => labels: Chosen<'a, Wanted>,
        }
    }

    #[test]
    fn a_message_gives_what_is_declared_and_steps_over_the_rest() {
        let bytes = [
            len(1, b"old"),
            len(1, b"text"),
            int(2, u64::MAX),
            len(3, &len(1, b"in")),
            len(4, b"sh"),
            len(4, b"-c"),
            len(4, b"secret"),
            len(5, b"password"),
            len(6, &[0xff; 10]),
            len(7, &len(1, b"x")),
            len(7, &len(1, b"y")),
            len(7, &len(1, b"z")),
            map(8, "a", "1"),
            map(8, "no", "hidden"),
            map(8, "b", "2"),
            map(8, "a", "3"),
            len(99, b"unknown"),
            vec![0xfd, 0x06, 1, 2, 3, 4],
            vec![0xf9, 0x06, 1, 2, 3, 4, 5, 6, 7, 8],
        ]
        .concat();
        let m: Outer<'_> = decode(&bytes).expect("valid");
        assert_eq!((m.text, m.number), ("text", -1));
        assert_eq!(m.inner.map(|i| i.name), Some("in"));
        assert_eq!((m.command.word, m.command.count), ("sh", 3));
        assert!(m.secret.0);
        assert_eq!(m.output.0, 10);
        assert_eq!((m.many.items.len(), m.many.more), (2, 1));
        assert_eq!(m.labels.entries.as_slice(), [("a", "3"), ("b", "2")]);
        assert_eq!(m.labels.get("no"), "");
    }

    #[test]
    fn what_is_no_such_message_is_malformed() {
        for bytes in [
            &[0x0a][..],
            &[0x0a, 5, b'x'],
            &[0x0a, 1, 0xff],
            &[0x08, 1],
            &[0x12, 1, 1],
            &[0x0b],
            &[0x00, 0],
            &[
                0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            ],
            &[0xfd, 0x06, 1],
        ] {
            assert!(decode::<Outer<'_>>(bytes).is_err(), "{bytes:x?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_or_are_malformed(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ignored = decode::<Outer<'_>>(&bytes).is_ok();
        }
    }
}
