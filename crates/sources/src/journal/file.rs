//! Reads the journal's own files without journald's library or program: an agent in a pod has neither, and where the
//! kubelet logs to the journal (kubeadm, kind, k3s) its log is nowhere else.
//!
//! The format is systemd's (`docs/JOURNAL_FILE_FORMAT.md`, `src/libsystemd/sd-journal/journal-def.h`, with the flags
//! of v254): objects that are only appended, and found by offsets. Only these links are followed: from a field
//! (`_SYSTEMD_UNIT`) to its values, and from a value to the entries that have it, in order. A writer may append at
//! the same time: it links an object only once the object is complete.
//!
//! Pure: reads go through [`ReadAt`]. A damaged file yields an error or a record without a text, never an endless
//! loop: every chain of links is followed in one direction of the file only.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;

use kflow_model::Nanos;
use kflow_model::stamp::MICRO;

/// The first bytes of a journal file.
pub const MAGIC: &[u8; 8] = b"LPKSHHRH";

/// Longest text of a record, bytes; a longer one is left out and reported.
const TEXT_MAX: u64 = 1 << 20;
/// Longest value of any other field that is read, bytes.
const SHORT: u64 = 256;
/// Most values of other fields that are cached: the same few occur in all entries of a unit.
const KEPT: usize = 1024;
/// Most items of an entry (`ENTRY_FIELD_COUNT_MAX`, src/shared/journal-importer.h).
const ITEMS_MAX: u64 = 1024;

const DATA: u8 = 1;
const FIELD: u8 = 2;
const ENTRY: u8 = 3;
const ENTRY_ARRAY: u8 = 6;

const XZ: u8 = 1;
const LZ4: u8 = 2;
const ZSTD: u8 = 4;

/// `HEADER_INCOMPATIBLE_COMPACT`: offsets in entries and arrays have four bytes.
const COMPACT: u32 = 16;
/// The incompatible flags that can be read: compression of each kind, keyed hashes, compact.
const KNOWN: u32 = 1 | 2 | 4 | 8 | COMPACT;

/// A file that is read at given offsets.
pub trait ReadAt {
    /// Fills the buffer with the bytes at offset `at`, or fails.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for std::fs::File {
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, at)
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).ok();
        let bytes = from.and_then(|a| self.get(a..)?.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is no journal file")]
    Foreign,
    #[error("it is of a newer journald (flags {0:#x}): give the log by journalctl")]
    Newer(u32),
    #[error("cannot read it at byte {at}: {source}")]
    Read { at: u64, source: io::Error },
    #[error("it is damaged at byte {at}: no {what} there")]
    Damaged { at: u64, what: &'static str },
}

/// An entry of the journal, reduced to what kflow uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When journald received the record.
    pub received: Nanos,
    pub text: Text,
    /// `SYSLOG_IDENTIFIER` and `_PID`.
    pub ident: String,
    pub pid: String,
}

/// The text of a record (`MESSAGE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    Is(Vec<u8>),
    /// The record has no text.
    None,
    /// The text cannot be read, for this reason.
    Not(&'static str),
}

/// A position in the list of entries that have a certain value of a field.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Offset of the value's data object.
    data: u64,
    taken: u64,
    /// Offset of the entry array that has the next entry, and the index in it; 0 stands for the value's first array.
    array: u64,
    index: u64,
}

impl Place {
    /// Returns how many entries come before this place.
    pub const fn taken(&self) -> u64 {
        self.taken
    }
}

#[derive(Debug)]
pub struct JournalFile<F> {
    from: F,
    compact: bool,
    /// `file_id`: identifies the file, whatever its name.
    pub id: [u8; 16],
    /// `head_entry_realtime`: when journald received the first entry, µs since the epoch; 0 without one.
    pub begun: u64,
    /// Offset and size of the hash table of fields.
    fields: (u64, u64),
    kept: HashMap<u64, Known>,
}

/// The content of a data object that entries refer to.
#[derive(Clone, Debug)]
enum Known {
    Ident(String),
    Pid(String),
    Other,
}

/// The header of an object.
struct Object {
    at: u64,
    flags: u8,
    size: u64,
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    let four = bytes.get(at..).and_then(|b| b.first_chunk::<4>());
    four.map_or(0, |b| u64::from(u32::from_le_bytes(*b)))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|b| b.first_chunk::<8>());
    eight.map_or(0, |b| u64::from_le_bytes(*b))
}

impl<F: ReadAt> JournalFile<F> {
    pub fn open(from: F) -> Result<Self, Error> {
        let mut head = [0; 208];
        let read = from.read_at(0, &mut head);
        read.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::Foreign,
            _ => Error::Read { at: 0, source },
        })?;
        if !head.starts_with(MAGIC) {
            return Err(Error::Foreign);
        }
        let flags = u32::try_from(u32_at(&head, 12)).unwrap_or(u32::MAX);
        if flags & !KNOWN != 0 {
            return Err(Error::Newer(flags));
        }
        let id = head.get(24..).and_then(|b| b.first_chunk::<16>());
        Ok(Self {
            from,
            compact: flags & COMPACT != 0,
            id: *id.unwrap_or(&[0; 16]),
            begun: u64_at(&head, 184),
            fields: (u64_at(&head, 120), u64_at(&head, 128)),
            kept: HashMap::new(),
        })
    }

    fn bytes<const N: usize>(&self, at: u64) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        let read = self.from.read_at(at, &mut bytes);
        read.map_err(|source| Error::Read { at, source })?;
        Ok(bytes)
    }

    fn object(&self, at: u64, kind: u8, what: &'static str) -> Result<Object, Error> {
        let head = self.bytes::<16>(at)?;
        let [is, flags, ..] = head;
        if is != kind {
            return Err(Error::Damaged { at, what });
        }
        let size = u64_at(&head, 8);
        Ok(Object { at, flags, size })
    }

    /// Size of an offset in entries and in arrays of entries, bytes.
    const fn item(&self) -> u64 {
        if self.compact { 4 } else { 8 }
    }

    /// Offset of the payload in a data object, bytes.
    const fn payload(&self) -> u64 {
        if self.compact { 72 } else { 64 }
    }

    /// Returns the offsets of the data objects of all values of a field.
    fn values(&self, name: &[u8]) -> Result<Vec<u64>, Error> {
        let mut values = Vec::new();
        let (begin, size) = self.fields;
        for bucket in 0..(size / 16).min(1 << 16) {
            let mut at = u64_at(&self.bytes::<8>(begin.saturating_add(bucket * 16))?, 0);
            while at != 0 {
                let object = self.object(at, FIELD, "name of a field")?;
                let head = self.bytes::<40>(at)?;
                let its = self.payload_of(&object, 40, name.len() as u64 + 1)?;
                if its == name {
                    let mut data = u64_at(&head, 32);
                    while data != 0 {
                        values.push(data);
                        let next = u64_at(&self.bytes::<40>(data)?, 32);
                        // Newer values come first: the chain leads towards the start of the file.
                        data = downwards(data, next)?;
                    }
                }
                let next = u64_at(&head, 24);
                at = onwards(at, next)?;
            }
        }
        Ok(values)
    }

    /// Returns an object's bytes from `begin` on, at most `most` of them.
    fn payload_of(&self, object: &Object, begin: u64, most: u64) -> Result<Vec<u8>, Error> {
        let size = object.size.saturating_sub(begin).min(most);
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let at = object.at.saturating_add(begin);
        let read = self.from.read_at(at, &mut bytes);
        read.map_err(|source| Error::Read { at, source })?;
        Ok(bytes)
    }

    /// Returns the `NAME=value` of a data object, at most `most` bytes if it is not compressed. The inner error says
    /// why the value cannot be read.
    fn data(&self, at: u64, most: u64) -> Result<Result<Vec<u8>, &'static str>, Error> {
        let object = self.object(at, DATA, "value of a field")?;
        let packed = object.flags & (XZ | LZ4 | ZSTD);
        if packed == 0 {
            return self.payload_of(&object, self.payload(), most).map(Ok);
        }
        let bytes = self.payload_of(&object, self.payload(), TEXT_MAX)?;
        Ok(unpacked(packed, &bytes))
    }

    /// Returns the place before the first entry of a unit; `None` while the unit has none.
    pub fn of_unit(&self, unit: &str) -> Result<Option<Place>, Error> {
        let wanted = format!("_SYSTEMD_UNIT={unit}");
        for data in self.values(b"_SYSTEMD_UNIT")? {
            let value = self.data(data, wanted.len() as u64 + 1)?;
            if value.is_ok_and(|v| v == wanted.as_bytes()) {
                return Ok(Some(Place {
                    data,
                    taken: 0,
                    array: 0,
                    index: 0,
                }));
            }
        }
        Ok(None)
    }

    /// Returns the units that have entries in this file, sorted.
    pub fn units(&self) -> Result<Vec<String>, Error> {
        self.texts("_SYSTEMD_UNIT")
    }

    /// Returns the hosts that have entries in this file, sorted.
    pub fn hosts(&self) -> Result<Vec<String>, Error> {
        self.texts("_HOSTNAME")
    }

    /// Returns the values of a field, sorted.
    fn texts(&self, field: &str) -> Result<Vec<String>, Error> {
        let mut texts = Vec::new();
        for data in self.values(field.as_bytes())? {
            if let Ok(value) = self.data(data, SHORT)? {
                let text = String::from_utf8_lossy(&value);
                let text = text.strip_prefix(field).and_then(|t| t.strip_prefix('='));
                texts.extend(text.map(str::to_owned));
            }
        }
        texts.sort();
        Ok(texts)
    }

    /// Returns how many entries follow a place.
    pub fn left(&self, place: &Place) -> Result<u64, Error> {
        let all = u64_at(&self.bytes::<64>(place.data)?, 56);
        Ok(all.saturating_sub(place.taken))
    }

    /// Moves the place past the next `n` entries, or past all if there are fewer.
    pub fn skip(&self, place: &mut Place, mut n: u64) -> Result<(), Error> {
        while n > 0 {
            let size = match place.taken {
                0 => 1,
                _ => self.room(place)?.min(n),
            };
            if size == 0 {
                return Ok(());
            }
            if place.taken > 0 {
                place.index += size;
            }
            place.taken += size;
            n -= size;
        }
        Ok(())
    }

    /// Moves the place to the array that has the next entry. Returns how many items of the array are left; 0 where
    /// there is no such array.
    fn room(&self, place: &mut Place) -> Result<u64, Error> {
        if place.array == 0 {
            place.array = u64_at(&self.bytes::<64>(place.data)?, 48);
            place.index = 0;
        }
        loop {
            if place.array == 0 {
                return Ok(0);
            }
            let array = self.object(place.array, ENTRY_ARRAY, "array of entries")?;
            let room = array.size.saturating_sub(24) / self.item();
            if place.index < room {
                return Ok(room - place.index);
            }
            let next = u64_at(&self.bytes::<24>(place.array)?, 16);
            if next == 0 {
                return Ok(0);
            }
            place.array = onwards(place.array, next)?;
            place.index = 0;
        }
    }

    /// Reads the next entry; `None` when there is none yet.
    pub fn next(&mut self, place: &mut Place) -> Result<Option<Record>, Error> {
        if self.left(place)? == 0 {
            return Ok(None);
        }
        let mut then = *place;
        let entry = if then.taken == 0 {
            u64_at(&self.bytes::<64>(then.data)?, 40)
        } else {
            match self.room(&mut then) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(e) => {
                    // The entries that follow cannot be found: the error is returned once, and then the list ends here.
                    place.taken = u64::MAX;
                    return Err(e);
                }
            }
            let at = (then.array.saturating_add(24))
                .saturating_add(then.index.saturating_mul(self.item()));
            then.index += 1;
            self.offset(at)?
        };
        if entry == 0 {
            return Ok(None);
        }
        then.taken += 1;
        let record = self.entry(entry);
        // Moves past a damaged entry, too.
        *place = then;
        record.map(Some)
    }

    fn offset(&self, at: u64) -> Result<u64, Error> {
        if self.compact {
            return Ok(u32_at(&self.bytes::<4>(at)?, 0));
        }
        Ok(u64_at(&self.bytes::<8>(at)?, 0))
    }

    fn entry(&mut self, at: u64) -> Result<Record, Error> {
        let object = self.object(at, ENTRY, "entry")?;
        let received = u64_at(&self.bytes::<32>(at)?, 24);
        let mut record = Record {
            received: i64::try_from(received)
                .ok()
                .and_then(|us| us.checked_mul(MICRO))
                .map_or(Nanos(0), Nanos),
            text: Text::None,
            ident: String::new(),
            pid: String::new(),
        };
        // In the form that is not compact, a hash of eight bytes follows each offset.
        let step = if self.compact { 4 } else { 16 };
        let items = (object.size.saturating_sub(64) / step).min(ITEMS_MAX);
        for n in 0..items {
            let data = self.offset(at.saturating_add(64 + n * step))?;
            let known = match self.kept.get(&data) {
                Some(known) => known.clone(),
                None => match self.look(data)? {
                    Ok(known) => known,
                    Err(text) => {
                        // Another value that cannot be read does not take the place of a text that can.
                        if !matches!(record.text, Text::Is(_)) {
                            record.text = text;
                        }
                        continue;
                    }
                },
            };
            match known {
                Known::Ident(ident) => record.ident = ident,
                Known::Pid(pid) => record.pid = pid,
                Known::Other => {}
            }
        }
        Ok(record)
    }

    /// Reads a data object: the outer `Ok` holds a value that is cached, or (as `Err`) the text of the record.
    fn look(&mut self, at: u64) -> Result<Result<Known, Text>, Error> {
        const MESSAGE: &[u8] = b"MESSAGE=";
        let begin = match self.data(at, SHORT)? {
            Ok(begin) => begin,
            // An unreadable value may be the record's text, so it counts as a text that cannot be read.
            Err(why) => return Ok(Err(Text::Not(why))),
        };
        if begin.starts_with(MESSAGE) {
            let whole = match begin.len() as u64 {
                SHORT => self.data(at, TEXT_MAX)?,
                _ => Ok(begin),
            };
            return Ok(Err(match whole {
                Ok(mut text) => {
                    text.drain(..MESSAGE.len());
                    Text::Is(text)
                }
                Err(why) => Text::Not(why),
            }));
        }
        let value = |name: &[u8]| {
            let value = begin.strip_prefix(name)?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let known = value(b"SYSLOG_IDENTIFIER=")
            .map(Known::Ident)
            .or_else(|| value(b"_PID=").map(Known::Pid))
            .unwrap_or(Known::Other);
        if self.kept.len() >= KEPT {
            self.kept.clear();
        }
        self.kept.insert(at, known.clone());
        Ok(Ok(known))
    }
}

/// Chains of entry arrays, and of fields with the same hash, are appended to: a link leads to a later offset.
fn onwards(at: u64, next: u64) -> Result<u64, Error> {
    if next != 0 && next <= at {
        let what = "link to what was written later";
        return Err(Error::Damaged { at, what });
    }
    Ok(next)
}

fn downwards(at: u64, next: u64) -> Result<u64, Error> {
    if next >= at {
        let what = "link to what was written before";
        return Err(Error::Damaged { at, what });
    }
    Ok(next)
}

/// Decompresses a payload; the error says why it cannot be read.
fn unpacked(packed: u8, bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    let most = usize::try_from(TEXT_MAX).unwrap_or(usize::MAX);
    match packed {
        ZSTD => zstd::bulk::decompress(bytes, most)
            .map_err(|_| "it is compressed, and damaged or too long"),
        LZ4 => {
            // The uncompressed size precedes the block, in eight bytes (`compress_blob_lz4`).
            let size = usize::try_from(u64_at(bytes, 0)).unwrap_or(usize::MAX);
            if size > most {
                return Err("it is too long");
            }
            let block = bytes.get(8..).unwrap_or_default();
            lz4_flex::block::decompress(block, size).map_err(|_| "it is compressed, and damaged")
        }
        _ => Err("it is compressed with xz"),
    }
}
