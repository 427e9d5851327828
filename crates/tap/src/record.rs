//! What `bpf/tap.bpf.c` writes into the ring.

/// Bytes of a record before those that were copied.
pub const HEAD: usize = 64;

/// What a record tells: `enum kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes from the client to the runtime. Its time is when the call began.
    Sent,
    /// Bytes from the runtime to the client. Its time is when the call ended.
    Received,
    /// A read found the end of the stream (0), or this error.
    Ended(u32),
    /// A descriptor was connected to the runtime's socket; the bytes are the program's name.
    Opened,
    /// A descriptor was closed.
    Closed,
    /// A descriptor got this second one.
    Duplicated(u32),
    /// A process with watched descriptors made a thread or a process.
    Forked,
    /// A process with watched descriptors runs another program, or closed a range of descriptors: none is watched now.
    Changed,
    /// A process with watched descriptors ended.
    Exited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it tells.
    pub kind: Kind,
    /// By the kernel's monotonic clock, ns.
    pub time: u64,
    /// Which connection, 0 where it is about a process.
    pub stream: u64,
    /// Of the first byte, in its direction.
    pub offset: u64,
    /// Process id.
    pub process: u32,
    /// Thread id.
    pub thread: u32,
    /// Descriptor of that process.
    pub descriptor: u32,
    /// Writes of the stream that had begun.
    pub begun: u32,
    /// Writes of the stream of which everything is in the ring, with this record.
    pub done: u32,
    /// Calls of the stream of which nothing was kept.
    pub missed: u32,
    /// What was copied.
    pub bytes: &'a [u8],
}

/// The number at this place of a record.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*field))
}

/// Reads a record. `None` for what the program does not write.
pub fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let number = |at| u32_at(bytes, at);
    let more = number(56)?;
    let last = more & 1 == 1;
    let kind = match number(24)? {
        1 => Kind::Sent,
        2 => Kind::Received,
        3 => Kind::Ended(more),
        4 => Kind::Opened,
        5 => Kind::Closed,
        6 => Kind::Duplicated(more),
        7 => Kind::Forked,
        8 => Kind::Changed,
        9 => Kind::Exited,
        _ => return None,
    };
    let length = usize::try_from(number(40)?).ok()?;
    // The last piece of a write completes it.
    let completes = u32::from(kind == Kind::Sent && last);
    Some(Record {
        kind,
        time: u64_at(bytes, 0)?,
        stream: u64_at(bytes, 8)?,
        offset: u64_at(bytes, 16)?,
        process: number(28)?,
        thread: number(32)?,
        descriptor: number(36)?,
        begun: number(44)?,
        done: number(48)?.wrapping_add(completes),
        missed: number(52)?,
        bytes: bytes.get(HEAD..)?.get(..length)?,
    })
}

/// The record without what lies behind its bytes: a piece of the ring is as long as its class, and holds old bytes there.
pub fn trimmed(bytes: &[u8]) -> Option<&[u8]> {
    let length = parse(bytes)?.bytes.len();
    bytes.get(..HEAD + length)
}
