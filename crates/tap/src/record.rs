//! The records that `bpf/tap.bpf.c` writes into the ring.

/// Size of a record's header, bytes; the copied bytes follow.
pub const HEAD: usize = 64;

/// The kind of a record: `enum kind` of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes from the client to the runtime. The record's time is the begin of the call.
    Sent,
    /// Bytes from the runtime to the client. The record's time is the end of the call.
    Received,
    /// A read returned the end of the stream (0), or this error.
    Ended(u32),
    /// A descriptor was connected to the runtime's socket; the record's bytes are the program's name.
    Opened,
    /// A descriptor was closed.
    Closed,
    /// A descriptor was duplicated to this second one.
    Duplicated(u32),
    /// A process with watched descriptors created a thread or a process.
    Forked,
    /// A process with watched descriptors executed another program, or closed a range of descriptors: none of its
    /// descriptors is watched now.
    Changed,
    /// A process with watched descriptors exited.
    Exited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: Kind,
    /// Time by the kernel's monotonic clock, ns.
    pub time: u64,
    /// Number of the connection, 0 when the record is about a process.
    pub stream: u64,
    /// Offset of the first byte in its direction.
    pub offset: u64,
    pub process: u32,
    pub thread: u32,
    /// Number of the descriptor in that process.
    pub descriptor: u32,
    /// Number of the stream's writes that had begun.
    pub begun: u32,
    /// Number of the stream's writes that are completely in the ring, this record included.
    pub done: u32,
    /// Number of the stream's calls of which nothing was copied.
    pub missed: u32,
    /// The copied bytes.
    pub bytes: &'a [u8],
}

/// Reads the number at this offset of a record.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*field))
}

/// Parses a record; `None` for bytes that the program does not write.
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

/// Returns the record without the bytes behind it: a ring entry has the size of its class, and old bytes at its end.
pub fn trimmed(bytes: &[u8]) -> Option<&[u8]> {
    let length = parse(bytes)?.bytes.len();
    bytes.get(..HEAD + length)
}
