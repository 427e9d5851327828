//! Consecutive lines of the ring, compressed.

use std::sync::Arc;
use std::time::Instant;

use prost::bytes::Bytes;

/// Compression level of zstd: the fastest, since every line is compressed and few blocks are ever read.
const LEVEL: i32 = 1;

/// A block of compressed lines, cheap to clone. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Block {
    first: u64,
    lines: u64,
    /// Arrivals of the oldest and of the newest line.
    came: (Instant, Instant),
    /// The lines with a line feed after each, compressed, and their uncompressed size in bytes.
    packed: Arc<(Box<[u8]>, usize)>,
}

impl Block {
    /// Compresses lines, the first of which has the position `first`; `None` when there are none, or
    /// they cannot be compressed.
    pub(super) fn of<'a>(
        first: u64,
        lines: impl DoubleEndedIterator<Item = &'a (Instant, Bytes)> + ExactSizeIterator + Clone,
    ) -> Option<Self> {
        let ((oldest, _), (newest, _)) = (lines.clone().next()?, lines.clone().next_back()?);
        let n = lines.len() as u64;
        let mut text = Vec::with_capacity(lines.clone().map(|(_, l)| l.len() + 1).sum());
        for (_, line) in lines {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        let packed = zstd::bulk::compress(&text, LEVEL).ok()?;
        Some(Self {
            first,
            lines: n,
            came: (*oldest, *newest),
            packed: Arc::new((packed.into(), text.len())),
        })
    }

    /// Returns the position of the first line.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the position after the last line.
    pub(super) fn end(&self) -> u64 {
        self.first + self.lines
    }

    /// Returns the arrival of the oldest line.
    pub(super) fn began(&self) -> Instant {
        self.came.0
    }

    /// Returns the arrival of the newest line.
    pub(super) fn ended(&self) -> Instant {
        self.came.1
    }

    /// Returns the memory that the block takes, bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.packed.0.len()
    }

    /// Returns the lines from position `from` on; none when the block cannot be decompressed.
    pub(super) fn lines(&self, from: u64) -> Vec<Bytes> {
        let (packed, length) = &*self.packed;
        let Ok(text) = zstd::bulk::decompress(packed, *length).map(Bytes::from) else {
            return Vec::new();
        };
        let skip = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let ends = memchr::memchr_iter(b'\n', &text);
        let begins = std::iter::once(0).chain(ends.clone().map(|end| end + 1));
        let lines = begins.zip(ends).skip(skip);
        lines.map(|(from, to)| text.slice(from..to)).collect()
    }
}
