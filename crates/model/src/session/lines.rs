//! Cuts a session into blocks of whole lines.

use std::io::{self, Read};

use super::format;

/// Bytes that one read asks for.
const READ: usize = 1 << 16;
/// Longest line of a session, bytes; a longer one counts as damaged.
const MAX_LINE: usize = 64 << 20;

/// Cuts the input into blocks of whole lines.
pub(super) struct Lines {
    input: Box<dyn Read + Send>,
    /// Size of a block in bytes; a block may be longer by the rest of its last line.
    pub(super) size: usize,
    rest: Vec<u8>,
    ended: bool,
    /// Why the end of the session is missing; `None` when it is not.
    pub(super) cut: Option<String>,
}

impl Lines {
    pub(super) const fn new(input: Box<dyn Read + Send>, size: usize) -> Self {
        Self {
            input,
            size,
            rest: Vec::new(),
            ended: false,
            cut: None,
        }
    }

    /// Reads until `rest` has grown by `want` bytes, or the input ends.
    fn fill(&mut self, want: usize) {
        if self.ended {
            return;
        }
        let before = self.rest.len();
        while self.rest.len() - before < want {
            let have = self.rest.len();
            self.rest.resize(have + READ, 0);
            let got = match self.rest.get_mut(have..) {
                Some(free) => self.input.read(free),
                None => Ok(0),
            };
            self.rest
                .truncate(have + got.as_ref().copied().unwrap_or(0));
            match got {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.ended = true;
                    self.cut = Some(match e.kind() {
                        io::ErrorKind::UnexpectedEof => "its last frame is incomplete".to_owned(),
                        _ => e.to_string(),
                    });
                    break;
                }
            }
        }
        if self.ended && self.rest.last().is_some_and(|b| *b != b'\n') {
            let line = memchr::memrchr(b'\n', &self.rest).map_or(0, |n| n + 1);
            let whole = self.rest.get(line..).map(format::decode).is_some_and(|l| {
                matches!(l, format::Line::Observation(_) | format::Line::Bound(..))
            });
            if whole {
                self.rest.push(b'\n');
            } else if self.cut.is_none() {
                self.cut = Some("its last line is incomplete".to_owned());
            }
        }
    }

    /// Returns the next line without its line feed.
    pub(super) fn first_line(&mut self) -> Vec<u8> {
        let mut from = 0;
        loop {
            if let Some(tail) = self.rest.get(from..)
                && let Some(n) = memchr::memchr(b'\n', tail)
            {
                let mut line: Vec<u8> = self.rest.drain(..=from + n).collect();
                line.pop();
                return line;
            }
            from = self.rest.len();
            if self.ended || from > MAX_LINE {
                return std::mem::take(&mut self.rest);
            }
            self.fill(1);
        }
    }

    /// Returns the next whole lines; empty at the end of the input. An incomplete last line is left out, and `cut` says
    /// so. `spare` is a block whose memory is used again.
    pub(super) fn block(&mut self, mut spare: Vec<u8>) -> Vec<u8> {
        spare.clear();
        loop {
            if self.rest.len() < self.size {
                self.fill(self.size);
            }
            let end = memchr::memrchr(b'\n', &self.rest);
            match end {
                Some(n) => {
                    spare.reserve(self.size + 2 * READ);
                    spare.extend_from_slice(self.rest.get(n + 1..).unwrap_or_default());
                    self.rest.truncate(n + 1);
                    return std::mem::replace(&mut self.rest, spare);
                }
                None if self.ended => {
                    self.rest.clear();
                    return Vec::new();
                }
                None if self.rest.len() > MAX_LINE => {
                    // What follows, up to the next line feed, is parsed as a line of its own and counted as damaged.
                    self.rest.clear();
                    self.rest.push(b'\n');
                }
                None => self.fill(self.size),
            }
        }
    }
}
