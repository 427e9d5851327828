//! The frame layer of HTTP/2 (RFC 9113) for a passive listener: one direction of a connection.
//!
//! [`Frames`] takes chunks that end anywhere, and gives out [`Event`]s that borrow from the chunk. DATA goes out in
//! the pieces in which it arrived. Frames that kflow does not need are skipped by counting their bytes. Only control
//! frames that lie in several chunks, and header blocks in several frames, are copied together, into buffers that are
//! reused. After missed bytes, [`Search`](super::search::Search) finds the begin of the next frame.

use super::limits;
use kflow_model::Nanos;

/// The connection preface: the first bytes of a client.
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Names of the error codes of RFC 9113 section 7, by number.
pub(super) const ERRORS: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];
/// SETTINGS_MAX_FRAME_SIZE until a SETTINGS frame says otherwise.
const DEFAULT_MAX_FRAME: u32 = 16_384;
/// Largest control frame, bytes. Such frames are read as a whole, and no peer would send or accept a larger one.
const MAX_CONTROL: u32 = 64 << 10;
/// Longest SETTINGS frame that the search for frames accepts, bytes: sixteen settings.
const MAX_SETTINGS: u32 = 6 * 16;

/// Length of a frame's header ("head" in this module), bytes.
pub(super) const HEAD: usize = 9;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const PRIORITY_FRAME: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Why bytes cannot be decoded as HTTP/2 frames: they are none, or the begin of the connection was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Nonsense {
    #[error("no HTTP/2 preface: the beginning of the connection was not seen")]
    Preface,
    #[error(
        "the first frame is of type {0}, not SETTINGS: the beginning of the connection was not seen"
    )]
    FirstFrame(u8),
    #[error("a frame of {0} bytes is longer than what was agreed on")]
    FrameSize(u32),
    #[error("a frame of type {kind} and {len} bytes is malformed")]
    Frame { kind: u8, len: u32 },
    #[error("a frame of type {0} in the middle of a header block")]
    Interrupted(u8),
    #[error("CONTINUATION without a header block")]
    Continuation,
    #[error("a header block of more than {} bytes", limits::HEADER_BLOCK)]
    HeaderBlock,
    #[error("a request on stream {0}, which a client cannot open")]
    Stream(u32),
    #[error("an answer on stream {0}, which was never opened")]
    Unopened(u32),
    #[error(transparent)]
    Hpack(#[from] super::hpack::Error),
}

/// What a frame, or a piece of DATA, means to a listener.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A complete header block.
    Headers {
        stream: u32,
        end: bool,
        /// When the first byte of the HEADERS frame arrived.
        at: Nanos,
        block: &'a [u8],
    },
    /// PUSH_PROMISE: its block changes the dynamic table like any other.
    Promise { block: &'a [u8] },
    /// A piece of DATA. `end` comes with the last piece of a frame that ends the stream.
    Data {
        stream: u32,
        end: bool,
        /// Length of the whole frame's data, bytes, when this is its first piece.
        frame: Option<u32>,
        bytes: &'a [u8],
    },
    /// The stream was reset.
    Reset { stream: u32, code: u32 },
    /// SETTINGS of the sender, which bind the other direction.
    Settings {
        table_size: Option<u32>,
        max_frame: Option<u32>,
    },
    /// GOAWAY: the sender accepts no streams above `last`.
    GoAway {
        last: u32,
        code: u32,
        debug: &'a [u8],
    },
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    pub(super) len: u32,
    pub(super) kind: u8,
    flags: u8,
    pub(super) stream: u32,
    /// The reserved bit before the stream identifier. It is always 0 (RFC 9113 section 4.1), which helps to check
    /// frame borders.
    reserved: bool,
}

impl Head {
    const fn new([l0, l1, l2, kind, flags, s0, s1, s2, s3]: [u8; HEAD]) -> Self {
        Self {
            len: u32::from_be_bytes([0, l0, l1, l2]),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
            reserved: s0 & 0x80 != 0,
        }
    }

    /// Parses the head at the begin of bytes; `None` when it is not complete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(|raw| Self::new(*raw))
    }

    /// True for a head that gRPC peers can write: a frame type of RFC 9113 other than PUSH_PROMISE, with only the
    /// flags that the RFC defines for it, and with a length and stream that it allows.
    pub(super) fn is_sound(self, max_frame: u32) -> bool {
        let Self {
            len, flags, stream, ..
        } = self;
        let on_stream = stream != 0;
        let (allowed, fits) = match self.kind {
            DATA => (END_STREAM | PADDED, on_stream),
            HEADERS => (
                END_STREAM | END_HEADERS | PADDED | PRIORITY,
                on_stream && len > 0,
            ),
            PRIORITY_FRAME => (0, on_stream && len == 5),
            RST_STREAM => (0, on_stream && len == 4),
            SETTINGS if flags & ACK != 0 => (ACK, !on_stream && len == 0),
            SETTINGS => (
                0,
                !on_stream && len.is_multiple_of(6) && len <= MAX_SETTINGS,
            ),
            PING => (ACK, !on_stream && len == 8),
            GOAWAY => (0, !on_stream && len >= 8),
            WINDOW_UPDATE => (0, len == 4),
            CONTINUATION => (END_HEADERS, on_stream),
            _ => return false,
        };
        fits && flags & !allowed == 0 && len <= max_frame && !self.reserved
    }

    /// True when a header block begins or continues with this frame, and does not end with it.
    pub(super) fn opens_block(self) -> bool {
        matches!(self.kind, HEADERS | CONTINUATION) && self.flags & END_HEADERS == 0
    }

    /// True when a payload can belong to this frame, as far as that shows without the preceding frames.
    pub(super) fn carries(self, payload: &[u8]) -> bool {
        match self.kind {
            HEADERS if self.flags & END_HEADERS != 0 => {
                fragment(self, payload).is_some_and(super::hpack::is_block)
            }
            HEADERS => fragment(self, payload).is_some(),
            // An increment of 0 is an error, and the highest bit is reserved.
            WINDOW_UPDATE => word(payload, 0).is_some_and(|n| n > 0 && n < 1 << 31),
            RST_STREAM => word(payload, 0).is_some_and(|code| code < ERRORS.len() as u32),
            DATA if self.flags & PADDED != 0 => payload
                .first()
                .is_some_and(|padding| usize::from(*padding) < payload.len()),
            SETTINGS => payload
                .as_chunks::<6>()
                .0
                .iter()
                .all(|[i0, i1, ..]| *i0 == 0 && (1..=16).contains(i1)),
            _ => true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Number of bytes of the preface that were seen.
    Preface(usize),
    /// Number of bytes of the next frame's head that are in `raw_head`.
    Head(usize),
    /// The padding length of a padded DATA frame comes next.
    DataPadding,
    /// `left` bytes of data come next, then `padding` bytes of padding.
    Data {
        left: u32,
        padding: u32,
        begins: bool,
    },
    /// Number of bytes that are still to be skipped.
    Skip(u32),
    /// A frame that is read as a whole.
    Control,
}

/// The frame decoder of one direction of a connection.
pub(super) struct Frames {
    state: State,
    raw_head: [u8; HEAD],
    head: Head,
    head_at: Nanos,
    /// The payload of a control frame that lies in several chunks.
    payload: Vec<u8>,
    /// A header block of several frames.
    block: Vec<u8>,
    /// HEADERS or PUSH_PROMISE whose block is not complete, and when it began.
    open_block: Option<(Head, Nanos)>,
    max_frame: u32,
    seen_frame: bool,
    /// Number of frames so far; `skipped` counts those that were skipped.
    pub(super) seen: u64,
    pub(super) skipped: u64,
}

impl Frames {
    pub(super) fn new(client: bool) -> Self {
        Self {
            state: if client {
                State::Preface(0)
            } else {
                State::Head(0)
            },
            raw_head: [0; HEAD],
            head: Head::default(),
            head_at: Nanos(0),
            payload: Vec::new(),
            block: Vec::new(),
            open_block: None,
            max_frame: DEFAULT_MAX_FRAME,
            seen_frame: false,
            seen: 0,
            skipped: 0,
        }
    }

    /// Starts anew after missed bytes, or on a connection that began earlier: the next byte is the first of a frame.
    pub(super) fn resume(&mut self) {
        self.state = State::Head(0);
        self.payload.clear();
        self.block.clear();
        self.open_block = None;
        self.seen_frame = true;
    }

    /// Steps over `lost` bytes if all of them belong to the payload of the current frame and it has no headers: then
    /// nothing else was missed. Returns the stream whose data they were, 0 for a frame that is skipped; `None` when
    /// more was missed.
    pub(super) fn step_over(&mut self, lost: u64) -> Option<u32> {
        let lost = u32::try_from(lost).ok()?;
        match self.state {
            State::Data { left, padding, .. } => {
                self.state = State::Data {
                    left: left.checked_sub(lost)?,
                    padding,
                    begins: false,
                };
                Some(self.head.stream)
            }
            State::Skip(left) => {
                self.state = State::Skip(left.checked_sub(lost)?);
                Some(0)
            }
            _ => None,
        }
    }

    /// Size of the largest frame that the receiver accepts, bytes.
    pub(super) const fn max_frame(&self) -> u32 {
        self.max_frame
    }

    /// Takes the size of the largest frame that the receiver accepts, bytes. It only grows, because larger frames may
    /// still be on their way when the receiver lowers it.
    pub(super) fn allow_frames_of(&mut self, bytes: u32) {
        self.max_frame = self.max_frame.max(bytes.min((1 << 24) - 1));
    }

    /// Returns the next event in `input`, and takes its bytes off; `None` when all bytes are taken.
    pub(super) fn next<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
        at: Nanos,
    ) -> Result<Option<Event<'s>>, Nonsense> {
        loop {
            match self.state {
                State::Preface(seen) => {
                    let want = PREFACE.get(seen..).unwrap_or_default();
                    let got = take(input, want.len());
                    if !want.starts_with(got) {
                        return Err(Nonsense::Preface);
                    }
                    if got.len() < want.len() {
                        self.state = State::Preface(seen + got.len());
                        return Ok(None);
                    }
                    self.state = State::Head(0);
                }
                State::Head(have) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    if have == 0 {
                        self.head_at = at;
                    }
                    let space = self.raw_head.get_mut(have..).unwrap_or_default();
                    let got = take(input, space.len());
                    for (to, from) in space.iter_mut().zip(got) {
                        *to = *from;
                    }
                    if have + got.len() < self.raw_head.len() {
                        self.state = State::Head(have + got.len());
                        return Ok(None);
                    }
                    self.begin()?;
                }
                State::DataPadding => {
                    let &[padding] = take(input, 1) else {
                        return Ok(None);
                    };
                    let padding = u32::from(padding);
                    let left = (self.head.len - 1)
                        .checked_sub(padding)
                        .ok_or_else(|| self.malformed())?;
                    self.state = State::Data {
                        left,
                        padding,
                        begins: true,
                    };
                }
                State::Data {
                    left,
                    padding,
                    begins,
                } => {
                    if left > 0 && input.is_empty() {
                        return Ok(None);
                    }
                    let frame = begins.then_some(left);
                    let bytes = take(input, left as usize);
                    let left = left - bytes.len() as u32;
                    self.state = if left > 0 {
                        State::Data {
                            left,
                            padding,
                            begins: false,
                        }
                    } else {
                        State::Skip(padding)
                    };
                    return Ok(Some(Event::Data {
                        stream: self.head.stream,
                        end: left == 0 && self.head.flags & END_STREAM != 0,
                        frame,
                        bytes,
                    }));
                }
                State::Skip(left) => {
                    let left = left - take(input, left as usize).len() as u32;
                    if left > 0 {
                        self.state = State::Skip(left);
                        return Ok(None);
                    }
                    self.state = State::Head(0);
                }
                State::Control => {
                    let len = self.head.len as usize;
                    let got = take(input, len.saturating_sub(self.payload.len()));
                    let whole = self.payload.is_empty() && got.len() == len;
                    if !whole {
                        self.payload.extend_from_slice(got);
                        if self.payload.len() < len {
                            return Ok(None);
                        }
                    }
                    self.state = State::Head(0);
                    let got = whole.then_some(got);
                    if self.absorb(got)? {
                        return self.event(got).map(Some);
                    }
                }
            }
        }
    }

    /// Takes a complete control frame, and joins the parts of a header block. Returns false while the block's end is
    /// still to come.
    fn absorb(&mut self, whole: Option<&[u8]>) -> Result<bool, Nonsense> {
        let ends = self.head.flags & END_HEADERS != 0;
        let payload = whole.unwrap_or(&self.payload);
        let part = match self.head.kind {
            HEADERS | PUSH_PROMISE if ends => return Ok(true),
            HEADERS | PUSH_PROMISE => {
                self.block.clear();
                self.open_block = Some((self.head, self.head_at));
                fragment(self.head, payload).ok_or_else(|| self.malformed())?
            }
            CONTINUATION => {
                if self
                    .open_block
                    .is_some_and(|(open, _)| open.stream != self.head.stream)
                {
                    return Err(Nonsense::Interrupted(CONTINUATION));
                }
                payload
            }
            _ => return Ok(true),
        };
        if self.block.len() + part.len() > limits::HEADER_BLOCK {
            return Err(Nonsense::HeaderBlock);
        }
        self.block.extend_from_slice(part);
        Ok(ends)
    }

    /// Returns the event of a complete control frame, or of the header block that it completes.
    fn event<'a>(&'a mut self, whole: Option<&'a [u8]>) -> Result<Event<'a>, Nonsense> {
        let malformed = self.malformed();
        let payload = whole.unwrap_or(&self.payload);
        let (head, at, block) = match (self.head.kind, self.open_block.take()) {
            (HEADERS | PUSH_PROMISE, _) => (
                self.head,
                self.head_at,
                fragment(self.head, payload).ok_or(malformed)?,
            ),
            (CONTINUATION, Some((head, at))) => (head, at, self.block.as_slice()),
            (RST_STREAM, _) => {
                return Ok(Event::Reset {
                    stream: self.head.stream,
                    code: word(payload, 0).ok_or(malformed)?,
                });
            }
            (SETTINGS, _) => {
                let (mut table_size, mut max_frame) = (None, None);
                let (settings, _) = payload.as_chunks::<6>();
                for &[i0, i1, v0, v1, v2, v3] in settings {
                    let value = u32::from_be_bytes([v0, v1, v2, v3]);
                    match u16::from_be_bytes([i0, i1]) {
                        1 => table_size = Some(value),
                        5 => max_frame = Some(value),
                        _ => {}
                    }
                }
                return Ok(Event::Settings {
                    table_size,
                    max_frame,
                });
            }
            (GOAWAY, _) => {
                return Ok(Event::GoAway {
                    last: word(payload, 0).ok_or(malformed)? & 0x7fff_ffff,
                    code: word(payload, 4).ok_or(malformed)?,
                    debug: payload.get(8..).unwrap_or_default(),
                });
            }
            _ => return Err(malformed),
        };
        Ok(if head.kind == PUSH_PROMISE {
            Event::Promise { block }
        } else {
            Event::Headers {
                stream: head.stream,
                end: head.flags & END_STREAM != 0,
                at,
                block,
            }
        })
    }

    /// Takes a complete head, and decides how the frame is read.
    fn begin(&mut self) -> Result<(), Nonsense> {
        let head = Head::new(self.raw_head);
        let Head { kind, flags, .. } = head;
        self.head = head;
        self.seen += 1;
        if !self.seen_frame && (kind != SETTINGS || flags & ACK != 0) {
            return Err(Nonsense::FirstFrame(kind));
        }
        self.seen_frame = true;
        if head.len > self.max_frame {
            return Err(Nonsense::FrameSize(head.len));
        }
        if self.open_block.is_some() != (kind == CONTINUATION) {
            return Err(if kind == CONTINUATION {
                Nonsense::Continuation
            } else {
                Nonsense::Interrupted(kind)
            });
        }
        let on_stream = head.stream != 0;
        self.state = match kind {
            DATA if !on_stream => return Err(self.malformed()),
            DATA if flags & PADDED != 0 && head.len == 0 => return Err(self.malformed()),
            DATA if flags & PADDED != 0 => State::DataPadding,
            DATA => State::Data {
                left: head.len,
                padding: 0,
                begins: true,
            },
            HEADERS | PUSH_PROMISE | CONTINUATION if !on_stream => return Err(self.malformed()),
            RST_STREAM if !on_stream || head.len != 4 => return Err(self.malformed()),
            SETTINGS if on_stream || !head.len.is_multiple_of(6) => return Err(self.malformed()),
            GOAWAY if on_stream || head.len < 8 => return Err(self.malformed()),
            SETTINGS | GOAWAY if head.len > MAX_CONTROL => return Err(self.malformed()),
            SETTINGS if flags & ACK != 0 => State::Skip(head.len),
            HEADERS | PUSH_PROMISE | CONTINUATION if head.len as usize > limits::HEADER_BLOCK => {
                return Err(Nonsense::HeaderBlock);
            }
            HEADERS | PUSH_PROMISE | CONTINUATION | RST_STREAM | SETTINGS | GOAWAY => {
                self.payload.clear();
                State::Control
            }
            // PRIORITY, PING, WINDOW_UPDATE, and what later standards add.
            _ => State::Skip(head.len),
        };
        if matches!(self.state, State::Skip(_)) {
            self.skipped += 1;
        }
        Ok(())
    }

    fn malformed(&self) -> Nonsense {
        Nonsense::Frame {
            kind: self.head.kind,
            len: self.head.len,
        }
    }
}

/// Takes up to `n` bytes off the front.
fn take<'a>(input: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (got, rest) = input.split_at_checked(n).unwrap_or((input, &[]));
    *input = rest;
    got
}

/// Returns the part of a header block in a HEADERS or PUSH_PROMISE payload, without padding,
/// priority and promised stream.
fn fragment(head: Head, payload: &[u8]) -> Option<&[u8]> {
    let (padding, rest) = if head.flags & PADDED == 0 {
        (0, payload)
    } else {
        let (&padding, rest) = payload.split_first()?;
        (usize::from(padding), rest)
    };
    let fixed = match head.kind {
        PUSH_PROMISE => 4,
        _ if head.flags & PRIORITY != 0 => 5,
        _ => 0,
    };
    rest.get(fixed..rest.len().checked_sub(padding)?)
}

/// The big-endian word at an offset.
fn word(payload: &[u8], at: usize) -> Option<u32> {
    payload
        .get(at..)?
        .first_chunk()
        .map(|b| u32::from_be_bytes(*b))
}
