//! A file without a name that holds what was unpacked. It is gone when kflow ends, however it ends.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use kflow_model::Nanos;

/// Most bytes that are unpacked: an archive of some megabytes can hold any number of zeros.
const MOST: u64 = 32 << 30;

/// Where captures of archives, and standard input, are kept while they are read.
#[derive(Debug)]
pub(super) struct Spool {
    file: Arc<File>,
    len: u64,
}

/// A piece of a spool: the content of one file.
#[derive(Clone, Debug)]
pub struct Part {
    file: Arc<File>,
    begin: u64,
    len: u64,
    /// When the file was last written, as its archive tells.
    pub(in crate::import) modified: Option<Nanos>,
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && (self.begin, self.len) == (other.begin, other.len)
    }
}

impl Eq for Part {}

impl Spool {
    /// A spool in the file system of a folder.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Arc::new(tempfile::tempfile_in(folder)?),
            len: 0,
        })
    }

    /// Copies a content to the end of the spool.
    ///
    /// When reading fails, what was read until then is kept, and the error is returned beside it.
    pub(super) fn add(
        &mut self,
        mut from: impl Read,
        modified: Option<Nanos>,
    ) -> io::Result<(Part, Option<io::Error>)> {
        let begin = self.len;
        let mut buffer = vec![0; 1 << 17];
        let mut failed = None;
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            };
            if self.len + n as u64 > MOST {
                return Err(io::Error::other(format!(
                    "it holds more than {} GiB that kflow would read: unpack it, and import the part that matters",
                    MOST >> 30
                )));
            }
            let got = buffer.get(..n).unwrap_or_default();
            (&*self.file).write_all(got)?;
            self.len += n as u64;
        }
        let part = Part {
            file: Arc::clone(&self.file),
            begin,
            len: self.len - begin,
            modified,
        };
        Ok((part, failed))
    }
}

impl Part {
    pub(in crate::import) const fn len(&self) -> u64 {
        self.len
    }

    /// Returns a reader of the whole content.
    pub(in crate::import) const fn reader(&self) -> Reader<'_> {
        Reader { part: self, at: 0 }
    }

    /// Like [`reader`](Self::reader), for a thread of its own.
    pub(in crate::import) fn into_reader(self) -> impl Read + Send {
        let mut at = 0;
        Owned(move |buffer: &mut [u8]| {
            let n = self.read(at, buffer)?;
            at += n as u64;
            Ok(n)
        })
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(at);
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let free = buffer.get_mut(..most).unwrap_or_default();
        self.file.read_at(free, self.begin + at)
    }
}

pub(in crate::import) struct Reader<'a> {
    part: &'a Part,
    at: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.part.read(self.at, buffer)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Reader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.part.len.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::other("a place before the begin of the file"))?;
        Ok(self.at)
    }
}

struct Owned<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for Owned<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.0)(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_beside_each_other_and_have_their_own_bounds() {
        let mut spool = Spool::new(&std::env::temp_dir()).unwrap();
        let (a, none) = spool.add(&b"first"[..], None).unwrap();
        let (b, _) = spool.add(&b"second"[..], Some(Nanos(7))).unwrap();
        assert!(none.is_none());
        let mut text = String::new();
        b.clone().into_reader().read_to_string(&mut text).unwrap();
        a.reader().read_to_string(&mut text).unwrap();
        assert_eq!(text, "secondfirst");
        let mut end = b.reader();
        end.seek(SeekFrom::End(-3)).unwrap();
        let mut text = String::new();
        end.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ond");
        assert!(b.reader().seek(SeekFrom::Current(-1)).is_err());
        assert!(a != b && b.len() == 6 && b.modified == Some(Nanos(7)));
    }

    #[test]
    fn what_was_read_before_an_error_is_kept() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        let mut spool = Spool::new(&std::env::temp_dir()).unwrap();
        let (part, failed) = spool.add(b"some".chain(Fails), None).unwrap();
        assert_eq!(part.len(), 4);
        assert!(failed.is_some());
    }
}
