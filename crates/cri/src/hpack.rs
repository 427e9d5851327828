//! Header compression for HTTP/2 (RFC 7541), the decoding side, for a passive listener.
//!
//! A listener wants few of the headers, but has to keep the dynamic table exactly as the receiver does, or every later
//! block would decode to other headers. So an entry always keeps its size, and its content only when the header is
//! wanted: [`HeaderSet`] names the wanted headers, and says what is kept of a value (a parsed trace id instead of its
//! text). Headers that are not wanted cost no allocation.
//!
//! A table can also be followed from the middle of a connection ([`Table::forget`]). Indexes count from the newest
//! entry, so entries that are inserted afterwards are known at once, and only references to older entries are unknown.
//! It is still known which older entry is meant ([`Old`]), and what it holds can be [learned](Table::learn). Entries
//! are evicted in the order in which they were inserted: once the newer entries fill the table, no older one is left.
//! An entry whose name is that of an unknown entry counts without its name, so that the table never counts as known
//! too early. Three things are assumed until the connection shows otherwise: the table has the size that it had last
//! (4,096 bytes when that is not known); a reference beyond that shows that it is larger; and no entry is inserted
//! that is larger than the whole table, which RFC 7541 allows and no encoder has a reason for.

mod fixed;
mod huffman;
#[cfg(test)]
pub(super) use huffman::tests::encode as huffman_encode;

use std::collections::VecDeque;

use super::limits;

/// The headers that are wanted, and what is kept of them.
pub(super) trait HeaderSet {
    /// Name of a wanted header.
    type Name: Copy;
    /// What is kept of a wanted header.
    type Field;
    /// Returns the name of a header; `None` when the header is not wanted.
    fn name(name: &[u8]) -> Option<Self::Name>;
    /// Returns what to keep of a value.
    fn field(name: Self::Name, value: &[u8]) -> Self::Field;
    /// Returns what to keep of a value whose name was sent before the table was followed, and whether the value alone
    /// shows which header it is.
    fn unnamed(value: &[u8]) -> (Self::Field, bool);
    /// Returns what stands for a header whose name and value were sent before the table was followed; `old` is `None`
    /// when it is not known which entry it is.
    fn unknown(old: Option<Old>) -> Self::Field;
}

/// An entry of the table that was inserted before the table was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Old {
    /// Number of times that the table had been forgotten when the entry was referred to.
    life: u32,
    /// Position of the entry, counted from the newest of the old entries.
    position: u32,
    /// Number of fields before this one in the block.
    pub(super) nth: u32,
}

/// Why a header block cannot be decoded. After such an error the table is no longer valid.
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

/// Bytes that an entry counts beyond its name and value (RFC 7541 4.1).
const ENTRY_OVERHEAD: u32 = 32;
/// Size of a table until a SETTINGS frame changes it, bytes.
const DEFAULT_SIZE: u32 = 4096;

/// What is known about an entry's name.
#[derive(Clone, Copy)]
enum Name<N> {
    Wanted(N),
    Unwanted,
    Unknown,
}

impl<N> Name<N> {
    fn of(wanted: Option<N>) -> Self {
        wanted.map_or(Self::Unwanted, Self::Wanted)
    }
}

struct Entry<H: HeaderSet> {
    name: Name<H::Name>,
    /// 0 when the name is not known.
    name_len: u32,
    /// Lower bound of the entry's size, bytes: an unknown name is not counted.
    size: u32,
    field: Option<H::Field>,
    /// Neither name nor value show which header it is.
    dark: bool,
}

/// The state of one direction's header compression.
pub(super) struct Table<H: HeaderSet> {
    fixed: Vec<Entry<H>>,
    /// Newest first.
    dynamic: VecDeque<Entry<H>>,
    size: u32,
    /// Size of the table that the encoder chose last, bytes.
    max: u32,
    /// Largest size that the receiver allows the encoder to choose, bytes.
    allowed: u32,
    /// `max` is assumed: the encoder may have sent a table size update before the join.
    assumed: bool,
    /// There may be entries behind those of `dynamic`.
    older: bool,
    /// Number of entries of `dynamic` that are dark.
    dark: usize,
    /// No block was decoded since the table was made or forgotten.
    fresh: bool,
    /// Number of entries that were inserted since the table was made or forgotten.
    inserted: usize,
    /// Number of times that the table was forgotten.
    life: u32,
    /// The contents of old entries that were learned, by position. They are few: the paths of a client's methods.
    learned: Vec<(u32, H::Field)>,
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
                    name: Name::of(known),
                    name_len: name.len() as u32,
                    size: 0,
                    field: known.map(|n| H::field(n, value.as_bytes())),
                    dark: false,
                }
            })
            .collect();
        Self {
            fixed,
            dynamic: VecDeque::new(),
            size: 0,
            max: DEFAULT_SIZE,
            allowed: DEFAULT_SIZE,
            assumed: false,
            older: false,
            dark: 0,
            fresh: true,
            inserted: 0,
            life: 0,
            learned: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The receiver announced SETTINGS_HEADER_TABLE_SIZE. The encoder follows with a size update in a block of its
    /// own choice; blocks that were on their way may still rely on the larger of the two, so the allowance only grows.
    pub(super) fn allow(&mut self, size: u32) {
        self.allowed = self.allowed.max(size);
    }

    /// Takes that blocks were missed: what the table holds, and what the peers agreed on meanwhile, is not known.
    pub(super) fn forget(&mut self) {
        self.dynamic.clear();
        self.size = 0;
        self.dark = 0;
        self.allowed = limits::DYNAMIC_TABLE;
        self.assumed = true;
        self.older = true;
        self.fresh = true;
        self.inserted = 0;
        self.life = self.life.wrapping_add(1);
        self.learned.clear();
    }

    /// Takes what an old entry holds, known from another place than the table. Later references to the
    /// entry are then known.
    pub(super) fn learn(&mut self, old: Old, field: H::Field) {
        let known = self.learned.iter().any(|(at, _)| *at == old.position);
        if old.life == self.life && !known {
            self.learned.push((old.position, field));
        }
    }

    /// Returns the old entry of an index; `None` when newer entries have been evicted, because
    /// positions are then unknown.
    fn old(&self, index: u32, nth: u32) -> Option<Old> {
        let newer = self.fixed.len() + self.dynamic.len();
        let position = index.checked_sub(u32::try_from(newer).ok()?)?;
        (self.dynamic.len() == self.inserted).then_some(Old {
            life: self.life,
            position,
            nth,
        })
    }

    fn learned(&self, old: Old) -> Option<&H::Field> {
        let mut learned = self.learned.iter();
        learned.find_map(|(at, field)| (*at == old.position).then_some(field))
    }

    /// Takes that the connection turned out to begin here, so that nothing was missed.
    pub(super) fn begin(&mut self) {
        if self.fresh {
            *self = Self::new();
        }
    }

    /// True when every entry that a block may refer to is known.
    pub(super) fn is_whole(&self) -> bool {
        !self.older && self.dark == 0
    }

    /// Decodes one complete header block, and calls `each` with each wanted field, in order. An unknown field is given
    /// as [`HeaderSet::unknown`].
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(&H::Field),
    ) -> Result<(), Error> {
        let mut src = Src(block);
        let mut first = true;
        let mut nth = 0;
        self.fresh = false;
        while let Some(b) = src.byte() {
            match b {
                // Indexed field.
                0x80.. => {
                    let index = src.integer(b, 7)?;
                    self.reach(index)?;
                    if let Some(entry) = self.entry(index) {
                        if let Some(field) = &entry.field {
                            each(field);
                        }
                    } else {
                        let old = self.old(index, nth);
                        match old.and_then(|old| self.learned(old)) {
                            Some(field) => each(field),
                            None => each(&H::unknown(old)),
                        }
                    }
                }
                // A literal that is inserted into the table.
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
                    self.assumed = false;
                    self.evict(0);
                    continue;
                }
                // A literal that is not inserted into the table.
                0..=0x1f => {
                    let index = src.integer(b, 4)?;
                    if let Some(field) = &self.literal(index, &mut src)?.field {
                        each(field);
                    }
                }
            }
            first = false;
            nth += 1;
        }
        Ok(())
    }

    /// Checks that an index can refer to an entry of the table, and enlarges the assumed table when it must be larger.
    fn reach(&mut self, index: u32) -> Result<(), Error> {
        let known = self.fixed.len() + self.dynamic.len();
        let Some(at) = (index as usize).checked_sub(1) else {
            return Err(Error::Index(index));
        };
        let Some(beyond) = at.checked_sub(known) else {
            return Ok(());
        };
        // The smallest table that can hold that many entries.
        let least = u32::try_from(beyond + 1)
            .ok()
            .and_then(|n| n.checked_mul(ENTRY_OVERHEAD)?.checked_add(self.size))
            .filter(|least| *least <= limits::DYNAMIC_TABLE)
            .ok_or(Error::Index(index))?;
        if self.assumed && (least > self.max || !self.older) {
            self.max = self.max.max(least.next_power_of_two());
            self.older = true;
        }
        if self.older && least <= self.max {
            Ok(())
        } else {
            Err(Error::Index(index))
        }
    }

    /// Returns the entry of an index that [`reach`](Self::reach) has checked; `None` for an old entry.
    fn entry(&self, index: u32) -> Option<&Entry<H>> {
        let at = (index as usize).wrapping_sub(1);
        self.fixed
            .get(at)
            .or_else(|| self.dynamic.get(at.wrapping_sub(self.fixed.len())))
    }

    fn literal(&mut self, name_index: u32, src: &mut Src<'_>) -> Result<Entry<H>, Error> {
        let (name, name_len) = if name_index == 0 {
            let text = src.string()?;
            let plain = text.plain(&mut self.scratch)?;
            (Name::of(H::name(plain)), plain.len() as u32)
        } else {
            self.reach(name_index)?;
            self.entry(name_index)
                .map_or((Name::Unknown, 0), |e| (e.name, e.name_len))
        };
        let text = src.string()?;
        let (value_len, field, dark) = match name {
            Name::Wanted(name) => {
                let plain = text.plain(&mut self.scratch)?;
                (plain.len() as u32, Some(H::field(name, plain)), false)
            }
            Name::Unwanted => (text.plain_len()?, None, false),
            Name::Unknown => {
                let plain = text.plain(&mut self.scratch)?;
                let (field, told) = H::unnamed(plain);
                (plain.len() as u32, Some(field), !told)
            }
        };
        Ok(Entry {
            name,
            name_len,
            size: name_len
                .saturating_add(value_len)
                .saturating_add(ENTRY_OVERHEAD),
            field,
            dark,
        })
    }

    fn insert(&mut self, entry: Entry<H>) {
        // RFC 7541 4.4: an entry larger than the table empties it, and is not an error.
        self.evict(entry.size);
        self.inserted += 1;
        if entry.size <= self.max {
            self.size += entry.size;
            self.dark += usize::from(entry.dark);
            self.dynamic.push_front(entry);
        }
    }

    /// Evicts entries until there is room for `more` bytes.
    fn evict(&mut self, more: u32) {
        while self.size.saturating_add(more) > self.max {
            let Some(gone) = self.dynamic.pop_back() else {
                break;
            };
            self.size -= gone.size;
            self.dark -= usize::from(gone.dark);
        }
        // An older entry can be left only while there is room for the smallest one, which has no name and no value.
        let taken = self.size.saturating_add(more);
        self.older &= taken.saturating_add(ENTRY_OVERHEAD) <= self.max;
    }

    /// Size of the dynamic table as the RFC counts it, and its number of entries.
    #[cfg(test)]
    pub(super) fn measure(&self) -> (u32, usize) {
        (self.size, self.dynamic.len())
    }
}

/// A string literal as encoded in the block.
struct Literal<'a> {
    coded: bool,
    bytes: &'a [u8],
}

impl<'a> Literal<'a> {
    /// Returns the text, decoded into `scratch` when it is Huffman-coded.
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

    /// Returns the length of the decoded text, bytes, without keeping the text.
    fn plain_len(&self) -> Result<u32, Error> {
        if !self.coded {
            return Ok(self.bytes.len() as u32);
        }
        let mut n = 0;
        huffman::decode(self.bytes, |_| n += 1).ok_or(Error::Huffman)?;
        Ok(n)
    }
}

/// The rest of a block.
struct Src<'a>(&'a [u8]);

impl<'a> Src<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&b, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(b)
    }

    /// Reads an integer (RFC 7541 5.1) that begins with the low `prefix` bits of `first`.
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

/// True when bytes have the form of a header block, whatever entries its indexes refer to.
pub(super) fn is_block(block: &[u8]) -> bool {
    let mut src = Src(block);
    let mut scratch = Vec::new();
    let mut field = |src: &mut Src<'_>| -> Result<(), Error> {
        let Some(b) = src.byte() else { return Ok(()) };
        let (prefix, literal) = match b {
            0x80 => return Err(Error::Index(0)),
            0x81.. => (7, false),
            0x40..=0x7f => (6, true),
            0x20..=0x3f => (5, false),
            0..=0x1f => (4, true),
        };
        let named = src.integer(b, prefix)? != 0;
        if literal {
            if !named {
                src.string()?.plain(&mut scratch)?;
            }
            src.string()?.plain(&mut scratch)?;
        }
        Ok(())
    };
    while !src.0.is_empty() {
        if field(&mut src).is_err() {
            return false;
        }
    }
    !block.is_empty()
}

#[cfg(test)]
mod tests;
