//! gRPC messages out of DATA frames: each is a flag, a length and a body, and arrives in pieces of any size.

use super::limits;

/// Buffers for messages that arrive in pieces. They are reused, and their total size is bounded.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Vec<Vec<u8>>,
    /// Bytes held for incomplete messages.
    held: usize,
}

impl Buffers {
    /// Number of empty buffers that are kept for the next messages.
    const KEPT: usize = 4;
    /// Largest buffer that is kept, bytes: the buffer of a rare huge message would hold its memory forever.
    const KEPT_BYTES: usize = 1 << 20;

    fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_default()
    }

    /// Copies a piece. Returns false when all incomplete messages together would become too large.
    fn push(&mut self, to: &mut Vec<u8>, piece: &[u8], expected: usize) -> bool {
        if self.held + piece.len() > limits::MESSAGES_TOGETHER {
            return false;
        }
        if to.capacity() - to.len() < piece.len() {
            // The buffer doubles, but never beyond the size of the message.
            let more = piece.len().max(to.len()).min(expected - to.len());
            to.reserve_exact(more.max(piece.len()));
        }
        to.extend_from_slice(piece);
        self.held += piece.len();
        true
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        self.held -= buffer.len();
        let kept = 1..=Self::KEPT_BYTES;
        if kept.contains(&buffer.capacity()) && self.free.len() < Self::KEPT {
            buffer.clear();
            self.free.push(buffer);
        }
    }

    /// Bytes held, and number of empty buffers kept.
    #[cfg(test)]
    pub(super) fn measure(&self) -> (usize, usize) {
        (self.held, self.free.len())
    }
}

/// Why a message was not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The compressed flag is set (or a flag that gRPC does not have).
    Compressed,
    /// The message is larger than [`limits::MESSAGE`], or all incomplete ones together are larger than
    /// [`limits::MESSAGES_TOGETHER`].
    Large,
    /// The bytes are not the message that the method's definition says.
    Malformed,
    /// Bytes of the message were missed.
    Missed,
}

impl Unread {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Compressed => "compressed",
            Self::Large => "too large",
            Self::Malformed => "malformed",
            Self::Missed => "bytes were missed",
        }
    }
}

/// Which messages of a stream are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// None: they are counted and skipped.
    Nothing,
    /// The first: a unary request or answer.
    First,
    /// Each: the messages of a stream.
    Each,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Prefix(usize),
    Body,
    /// Bytes were missed, so that it is not known where the next message begins.
    Adrift,
}

/// The messages of one direction of one call.
#[derive(Debug)]
pub(super) struct Messages {
    want: Want,
    part: Part,
    prefix: [u8; 5],
    /// Bytes of the current body that are still to come; `len` is its whole length.
    left: usize,
    len: usize,
    /// The current body is wanted.
    collect: bool,
    buffer: Vec<u8>,
    /// Bytes of message bodies so far.
    pub(super) bytes: u64,
    /// Number of complete messages so far.
    pub(super) count: u32,
    /// Why the newest wanted message that was not read could not be read.
    pub(super) unread: Option<Unread>,
}

impl Messages {
    pub(super) fn new(want: Want) -> Self {
        Self {
            want,
            part: Part::Prefix(0),
            prefix: [0; 5],
            left: 0,
            len: 0,
            collect: false,
            buffer: Vec::new(),
            bytes: 0,
            count: 0,
            unread: None,
        }
    }

    /// Takes that bytes were missed: `lost` of them, or `None` when that is not known.
    pub(super) fn miss(&mut self, lost: Option<usize>, buffers: &mut Buffers) {
        let read = self.want == Want::First && self.count > 0 && !self.collect;
        if !read {
            self.unread = Some(Unread::Missed);
        }
        self.collect = false;
        self.release(buffers);
        let prefix = match self.part {
            Part::Prefix(have) => self.prefix.len() - have,
            Part::Body | Part::Adrift => 0,
        };
        self.bytes += lost.unwrap_or(0).saturating_sub(prefix) as u64;
        match (self.part, lost) {
            (Part::Body, Some(lost)) if lost < self.left => self.left -= lost,
            _ => self.part = Part::Adrift,
        }
    }

    /// True when exactly one message came, and it is complete.
    pub(super) const fn is_one(&self) -> bool {
        self.count == 1 && matches!(self.part, Part::Prefix(0))
    }

    /// Takes a piece of the stream, and calls `each` with each wanted message that the piece completes. A message that
    /// lies in one piece is not copied. `frame` is the length of the DATA frame that begins with this piece.
    pub(super) fn feed(
        &mut self,
        mut piece: &[u8],
        frame: Option<u32>,
        buffers: &mut Buffers,
        mut each: impl FnMut(&[u8]) -> Result<(), Unread>,
    ) {
        if matches!(self.part, Part::Adrift) {
            // A length that fills the frame exactly marks the begin of a message: grpc-go writes
            // small messages like that.
            let fills = piece.first_chunk::<5>().is_some_and(|[flag, len @ ..]| {
                *flag == 0
                    && frame.is_some_and(|f| u32::from_be_bytes(*len).checked_add(5) == Some(f))
            });
            if !fills {
                self.bytes += piece.len() as u64;
                return;
            }
            self.part = Part::Prefix(0);
        }
        while !piece.is_empty() {
            match self.part {
                Part::Adrift => return,
                Part::Prefix(have) => {
                    let space = self.prefix.get_mut(have..).unwrap_or_default();
                    let n = space.len().min(piece.len());
                    for (to, from) in space.iter_mut().zip(piece) {
                        *to = *from;
                    }
                    piece = piece.get(n..).unwrap_or_default();
                    if have + n < self.prefix.len() {
                        self.part = Part::Prefix(have + n);
                        return;
                    }
                    self.begin();
                    if self.left == 0 {
                        self.complete(&[], &mut each);
                    }
                }
                Part::Body => {
                    let (got, rest) = piece.split_at_checked(self.left).unwrap_or((piece, &[]));
                    piece = rest;
                    self.left -= got.len();
                    self.bytes += got.len() as u64;
                    if self.left == 0 && self.buffer.is_empty() {
                        self.complete(got, &mut each);
                        continue;
                    }
                    if self.collect {
                        if self.buffer.capacity() == 0 {
                            self.buffer = buffers.take();
                        }
                        if !buffers.push(&mut self.buffer, got, self.len) {
                            self.collect = false;
                            self.unread = Some(Unread::Large);
                            self.release(buffers);
                        }
                    }
                    if self.left == 0 {
                        let whole = std::mem::take(&mut self.buffer);
                        self.complete(&whole, &mut each);
                        buffers.give_back(whole);
                    }
                }
            }
        }
    }

    fn begin(&mut self) {
        let [flag, l0, l1, l2, l3] = self.prefix;
        self.len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        self.left = self.len;
        self.part = Part::Body;
        let wanted = match self.want {
            Want::Nothing => false,
            Want::First => self.count == 0,
            Want::Each => true,
        };
        let unread = match flag {
            0 if self.len > limits::MESSAGE => Some(Unread::Large),
            0 => None,
            _ => Some(Unread::Compressed),
        };
        self.collect = wanted && unread.is_none();
        if wanted && unread.is_some() {
            self.unread = unread;
        }
    }

    fn complete(&mut self, body: &[u8], each: &mut impl FnMut(&[u8]) -> Result<(), Unread>) {
        self.count = self.count.saturating_add(1);
        self.part = Part::Prefix(0);
        if std::mem::take(&mut self.collect)
            && let Err(why) = each(body)
        {
            self.unread = Some(why);
        }
    }

    /// Gives back the buffer, at the end of the call.
    pub(super) fn release(&mut self, buffers: &mut Buffers) {
        buffers.give_back(std::mem::take(&mut self.buffer));
    }
}
