//! Finds the begin of a frame in the middle of a connection.
//!
//! Bytes are held until one of them counts as the first of a frame: the frame there and the next ones must all be
//! frames that this direction can carry (type, flags, length, stream and its order, header blocks that can be parsed).
//! Programs nearly always write whole frames, so the begin of a chunk needs less proof than a place inside of one.

use super::h2::{self, Head, PREFACE};
use super::limits;
use kflow_model::Nanos;

/// Largest number of places that are tried at a time. The begins of chunks are tried beyond it.
const CANDIDATES: usize = 64;

/// What is known about the connection when a frame is searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// The frames are the client's.
    pub(super) client: bool,
    /// Size of the largest frame that the receiver accepts, bytes.
    pub(super) max_frame: u32,
    /// Highest stream that a request opened.
    pub(super) last_stream: u32,
    /// Requests on streams above `last_stream` may have passed unseen.
    pub(super) open_end: bool,
}

/// A place that may be the begin of a frame.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    start: usize,
    /// Where the next frame would begin.
    next: usize,
    /// Number of complete frames from `start` to `next`.
    frames: u32,
    /// Highest stream that a request among them opens.
    opened: u32,
    /// Stream whose header block continues in the next frame.
    block: Option<u32>,
    /// A chunk begins at `start`.
    at_chunk: bool,
}

/// The bytes since the last frame that was decoded.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The bytes may begin with the connection's preface.
    from_preface: bool,
    held: Vec<u8>,
    /// Offset of each chunk in `held`, and when it came.
    chunks: Vec<(usize, Nanos)>,
    candidates: Vec<Candidate>,
    /// Places before this offset have been tried.
    looked: usize,
}

/// The begin of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The first held byte is the connection's first.
    Beginning,
    /// The frame begins at this offset of the held bytes.
    Frame(usize),
}

impl Search {
    /// An empty search. `from_preface` says that the connection may begin with the first byte.
    pub(super) fn new(from_preface: bool) -> Self {
        Self {
            from_preface,
            ..Self::default()
        }
    }

    /// Adds a chunk.
    pub(super) fn push(&mut self, at: Nanos, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.chunks.push((self.held.len(), at));
            self.held.extend_from_slice(bytes);
        }
    }

    /// Searches the held bytes for the begin of a frame.
    pub(super) fn find(&mut self, view: View) -> Option<Found> {
        if self.from_preface {
            let (got, want) = (self.held.as_slice(), PREFACE.as_slice());
            if got.len() < want.len() && want.starts_with(got) {
                return None;
            }
            self.from_preface = false;
            if got.starts_with(want) {
                return Some(Found::Beginning);
            }
        }
        while let Some(head) = Head::parse(self.held.get(self.looked..).unwrap_or_default()) {
            let start = self.looked;
            self.looked += 1;
            let at_chunk = self.chunks.binary_search_by_key(&start, |c| c.0).is_ok();
            let candidate = Candidate {
                start,
                next: start,
                frames: 0,
                opened: view.last_stream,
                block: None,
                at_chunk,
            };
            if (at_chunk || self.candidates.len() < CANDIDATES) && candidate.fits(head, view) {
                self.candidates.push(candidate);
            }
        }
        let held = self.held.as_slice();
        self.candidates.retain_mut(|c| c.advance(held, view));
        let found = self
            .candidates
            .iter()
            .filter(|c| c.is_believed(held.len()))
            .map(|c| c.start)
            .min();
        if found.is_none() {
            self.trim();
        }
        found.map(Found::Frame)
    }

    /// Drops the bytes that no candidate needs, and the oldest of the rest when they are too many.
    fn trim(&mut self) {
        let needed = self.candidates.iter().map(|c| c.start).min();
        let mut cut = needed.unwrap_or(self.looked).min(self.looked);
        let most = limits::SEARCHED;
        if self.held.len() - cut > most {
            cut = self.held.len() - most / 2;
        } else if cut < most / 4 {
            return;
        }
        self.held.drain(..cut);
        self.looked = self.looked.saturating_sub(cut);
        self.candidates.retain_mut(|c| {
            let kept = c.start >= cut;
            c.start = c.start.saturating_sub(cut);
            c.next = c.next.saturating_sub(cut);
            kept
        });
        // The chunk of the first kept byte stays, for its time, although the byte may not be its first.
        let first = self.chunks.partition_point(|(begin, _)| *begin <= cut);
        self.chunks.drain(..first.saturating_sub(1));
        for (begin, _) in &mut self.chunks {
            *begin = begin.saturating_sub(cut);
        }
    }

    /// Returns the bytes from an offset on, in the pieces in which they came.
    pub(super) fn pieces(self, place: usize) -> impl Iterator<Item = (Nanos, Vec<u8>)> {
        let Self { held, chunks, .. } = self;
        let mut ends: Vec<usize> = chunks.iter().skip(1).map(|(begin, _)| *begin).collect();
        ends.push(held.len());
        chunks
            .into_iter()
            .zip(ends)
            .filter_map(move |((begin, at), end)| {
                let piece = held.get(begin.max(place)..end)?;
                (!piece.is_empty()).then(|| (at, piece.to_vec()))
            })
    }
}

impl Candidate {
    /// Advances over the complete frames; returns false when one of them is not valid.
    fn advance(&mut self, held: &[u8], view: View) -> bool {
        while let Some(head) = Head::parse(held.get(self.next..).unwrap_or_default()) {
            if !self.fits(head, view) {
                return false;
            }
            let begin = self.next + h2::HEAD;
            let Some(payload) = held.get(begin..begin + head.len as usize) else {
                return true;
            };
            if !head.carries(payload) {
                return false;
            }
            self.next = begin + payload.len();
            self.frames += 1;
            if head.kind == h2::HEADERS {
                self.opened = self.opened.max(head.stream);
            }
            self.block = head.opens_block().then_some(head.stream);
        }
        true
    }

    /// True when this direction can carry a frame with this head here.
    fn fits(&self, head: Head, view: View) -> bool {
        if self.block.is_some() || head.kind == h2::CONTINUATION {
            return head.kind == h2::CONTINUATION
                && self.block == Some(head.stream)
                && head.is_sound(view.max_frame);
        }
        if !head.is_sound(view.max_frame) || (head.stream != 0 && head.stream.is_multiple_of(2)) {
            return false;
        }
        if !view.client {
            return view.open_end || head.stream <= view.last_stream;
        }
        match head.kind {
            // gRPC requests have no trailers: each HEADERS opens a stream above all others.
            h2::HEADERS => head.stream > self.opened,
            h2::DATA if self.frames > 0 && self.opened > view.last_stream => {
                head.stream <= self.opened
            }
            _ => true,
        }
    }

    fn is_believed(&self, held: usize) -> bool {
        // The frames end exactly with the last held byte.
        let exact = self.next == held;
        let more = u32::from(!self.at_chunk) + u32::from(!exact);
        self.block.is_none() && self.frames >= 2 + more
    }
}
