//! Header compression for HTTP/2 (RFC 7541), decoding side, for someone who listens.
//!
//! A listener wants few of the headers but must keep the dynamic table exactly as the receiver does, or every later
//! block turns into other headers. So an entry keeps its size always, and its content only when somebody wants it:
//! [`HeaderSet`] names the wanted headers and says what is kept of a value (a parsed trace id instead of its text).
//! Headers that are not asked for cost no allocation.

mod fixed;
mod huffman;
#[cfg(test)]
pub(super) use huffman::tests::encode as huffman_encode;

use std::collections::VecDeque;

use super::limits;

/// Which headers are wanted, and what is kept of them.
pub(super) trait HeaderSet {
    /// Name of a wanted header.
    type Name: Copy;
    /// What is kept of a wanted header.
    type Field;
    /// The name, when the header is wanted.
    fn name(name: &[u8]) -> Option<Self::Name>;
    /// What to keep of a value.
    fn field(name: Self::Name, value: &[u8]) -> Self::Field;
}

/// Why a header block cannot be decoded. After that the table is worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("a header block ends inside a field")]
    Truncated,
    #[error("bad HPACK index {0}")]
    Index(u32),
    #[error("an HPACK integer is too large")]
    Integer,
    #[error("bad Huffman code in a header")]
    Huffman,
    #[error("HPACK table size {0} is above what was agreed on")]
    TableSize(u32),
    #[error("an HPACK table size change in the middle of a header block")]
    LateSizeUpdate,
}

/// RFC 7541 4.1: what an entry counts beyond its name and value.
const ENTRY_OVERHEAD: u32 = 32;
/// Size that holds until a SETTINGS frame says otherwise.
const DEFAULT_SIZE: u32 = 4096;

struct Entry<H: HeaderSet> {
    name: Option<H::Name>,
    name_len: u32,
    size: u32,
    field: Option<H::Field>,
}

/// The state of one direction's header compression.
pub(super) struct Table<H: HeaderSet> {
    fixed: Vec<Entry<H>>,
    /// Newest first.
    dynamic: VecDeque<Entry<H>>,
    size: u32,
    /// What the encoder last chose.
    max: u32,
    /// What the receiver allows the encoder to choose.
    allowed: u32,
    /// Reused for Huffman-coded names and values.
    scratch: Vec<u8>,
}

impl<H: HeaderSet> Table<H> {
    pub(super) fn new() -> Self {
        let fixed = fixed::STATIC
            .iter()
            .map(|(name, value)| {
                let known = H::name(name.as_bytes());
                Entry {
                    name: known,
                    name_len: name.len() as u32,
                    size: 0,
                    field: known.map(|n| H::field(n, value.as_bytes())),
                }
            })
            .collect();
        Self {
            fixed,
            dynamic: VecDeque::new(),
            size: 0,
            max: DEFAULT_SIZE,
            allowed: DEFAULT_SIZE,
            scratch: Vec::new(),
        }
    }

    /// The receiver announced SETTINGS_HEADER_TABLE_SIZE. The encoder follows with a size update in a block of its
    /// own choice; blocks that were on their way may still rely on the larger of the two, so the allowance only grows.
    pub(super) fn allow(&mut self, size: u32) {
        self.allowed = self.allowed.max(size);
    }

    /// Decodes one complete header block and gives each wanted field to `each`, in order.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(&H::Field),
    ) -> Result<(), Error> {
        let mut src = Src(block);
        let mut first = true;
        while let Some(b) = src.byte() {
            match b {
                // Indexed field.
                0x80.. => {
                    let index = src.integer(b, 7)?;
                    if let Some(field) = &self.entry(index)?.field {
                        each(field);
                    }
                }
                // Literal, goes into the table.
                0x40..=0x7f => {
                    let index = src.integer(b, 6)?;
                    let entry = self.literal(index, &mut src)?;
                    if let Some(field) = &entry.field {
                        each(field);
                    }
                    self.insert(entry);
                }
                // The encoder changes the table's size.
                0x20..=0x3f => {
                    let size = src.integer(b, 5)?;
                    if !first {
                        return Err(Error::LateSizeUpdate);
                    }
                    if size > self.allowed || size > limits::DYNAMIC_TABLE {
                        return Err(Error::TableSize(size));
                    }
                    self.max = size;
                    self.evict(0);
                    continue;
                }
                // Literal, not indexed or never to be indexed.
                0..=0x1f => {
                    let index = src.integer(b, 4)?;
                    if let Some(field) = &self.literal(index, &mut src)?.field {
                        each(field);
                    }
                }
            }
            first = false;
        }
        Ok(())
    }

    fn entry(&self, index: u32) -> Result<&Entry<H>, Error> {
        let at = (index as usize).wrapping_sub(1);
        self.fixed
            .get(at)
            .or_else(|| self.dynamic.get(at.wrapping_sub(self.fixed.len())))
            .ok_or(Error::Index(index))
    }

    fn literal(&mut self, name_index: u32, src: &mut Src<'_>) -> Result<Entry<H>, Error> {
        let (name, name_len) = if name_index == 0 {
            let text = src.string()?;
            let plain = text.plain(&mut self.scratch)?;
            (H::name(plain), plain.len() as u32)
        } else {
            let entry = self.entry(name_index)?;
            (entry.name, entry.name_len)
        };
        let text = src.string()?;
        let (value_len, field) = match name {
            Some(name) => {
                let plain = text.plain(&mut self.scratch)?;
                (plain.len() as u32, Some(H::field(name, plain)))
            }
            None => (text.plain_len()?, None),
        };
        Ok(Entry {
            name,
            name_len,
            size: name_len
                .saturating_add(value_len)
                .saturating_add(ENTRY_OVERHEAD),
            field,
        })
    }

    fn insert(&mut self, entry: Entry<H>) {
        // RFC 7541 4.4: an entry larger than the table empties it, and is not an error.
        self.evict(entry.size);
        if entry.size <= self.max {
            self.size += entry.size;
            self.dynamic.push_front(entry);
        }
    }

    /// Makes room for `more` bytes.
    fn evict(&mut self, more: u32) {
        while self.size.saturating_add(more) > self.max {
            let Some(gone) = self.dynamic.pop_back() else {
                break;
            };
            self.size -= gone.size;
        }
    }

    /// Size of the dynamic table as the RFC counts it, and its number of entries.
    #[cfg(test)]
    pub(super) fn measure(&self) -> (u32, usize) {
        (self.size, self.dynamic.len())
    }
}

/// A string literal as it stands in the block.
struct Literal<'a> {
    coded: bool,
    bytes: &'a [u8],
}

impl<'a> Literal<'a> {
    /// The text, through `scratch` when it is coded.
    fn plain<'s>(&self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Error>
    where
        'a: 's,
    {
        if !self.coded {
            return Ok(self.bytes);
        }
        scratch.clear();
        huffman::decode(self.bytes, |b| scratch.push(b)).ok_or(Error::Huffman)?;
        Ok(scratch)
    }

    /// The length that the text has, without keeping it.
    fn plain_len(&self) -> Result<u32, Error> {
        if !self.coded {
            return Ok(self.bytes.len() as u32);
        }
        let mut n = 0;
        huffman::decode(self.bytes, |_| n += 1).ok_or(Error::Huffman)?;
        Ok(n)
    }
}

/// What is left of a block.
struct Src<'a>(&'a [u8]);

impl<'a> Src<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&b, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(b)
    }

    /// RFC 7541 5.1: an integer whose first bits are the low `prefix` bits of `first`.
    fn integer(&mut self, first: u8, prefix: u32) -> Result<u32, Error> {
        let mask = (1u32 << prefix) - 1;
        let mut value = u32::from(first) & mask;
        if value < mask {
            return Ok(value);
        }
        for shift in (0..).step_by(7) {
            let b = self.byte().ok_or(Error::Truncated)?;
            let part = u32::from(b & 0x7f);
            let shifted = part.checked_shl(shift).unwrap_or(0);
            if shift > 28 || shifted >> shift != part {
                return Err(Error::Integer);
            }
            value = value.checked_add(shifted).ok_or(Error::Integer)?;
            if b & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    fn string(&mut self) -> Result<Literal<'a>, Error> {
        let first = self.byte().ok_or(Error::Truncated)?;
        let len = self.integer(first, 7)? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(Literal {
            coded: first & 0x80 != 0,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests;
