//! Lines that came one after another, packed.

use std::sync::Arc;
use std::time::Instant;

use prost::bytes::Bytes;

/// Level of zstd: the fastest, since every line is packed and few blocks are ever read.
const LEVEL: i32 = 1;

/// See the [module](self). Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Block {
    first: u64,
    lines: u64,
    /// Arrival of the oldest line and of the newest.
    came: (Instant, Instant),
    /// The lines with a line feed after each, as zstd packs them, and their bytes.
    packed: Arc<(Box<[u8]>, usize)>,
}

impl Block {
    /// Packs lines, of which the first has this position; `None` when there are none, or they cannot be packed.
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

    /// Position of its first line.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Position after its last line.
    pub(super) fn end(&self) -> u64 {
        self.first + self.lines
    }

    /// Arrival of its oldest line.
    pub(super) fn began(&self) -> Instant {
        self.came.0
    }

    /// Arrival of its newest line.
    pub(super) fn ended(&self) -> Instant {
        self.came.1
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.packed.0.len()
    }

    /// Its lines from a position on; none when they cannot be unpacked.
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
