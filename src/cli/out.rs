//! Standard output, and notices on standard error.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::args::Colour;
use kflow_export::text::clean;

/// Why standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
struct Unwritten(io::Error);

/// Standard output, buffered, until [`Write::flush`].
///
/// When its reader goes (`kflow calls | head`), the rest is dropped: what was asked is still answered by the exit status.
pub(super) struct Stdout {
    inner: BufWriter<StdoutLock<'static>>,
    reader_gone: bool,
}

impl Stdout {
    /// True when the reader of standard output is gone.
    pub(super) fn reader_gone(&self) -> bool {
        self.reader_gone
    }

    /// `dropped`: what an unread write gives.
    fn seen<T>(&mut self, result: io::Result<T>, dropped: T) -> io::Result<T> {
        match result {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.reader_gone = true;
                Ok(dropped)
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Err(e),
            Err(e) => Err(io::Error::new(e.kind(), Unwritten(e))),
            done => done,
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.reader_gone {
            return Ok(buf.len());
        }
        let written = self.inner.write(buf);
        self.seen(written, buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.reader_gone {
            return Ok(());
        }
        let flushed = self.inner.flush();
        self.seen(flushed, ())
    }
}

/// Standard output, buffered.
pub(super) fn stdout() -> Stdout {
    Stdout {
        inner: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
        reader_gone: false,
    }
}

/// Says a line on standard error. A reader that is gone (`kflow calls 2>&1 | head`) and a full disk end nothing: what was
/// asked is still answered, and what is recorded goes on.
pub(super) fn tell(line: &str) {
    tell_bytes(format!("kflow: {}\n", clean(line)).as_bytes());
}

/// Lines that wait for the conclusion.
static LATER: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says a line after the answer, unless the [conclusion](conclude) says the same.
pub(super) fn tell_later(line: &str) {
    let mut later = LATER.lock().unwrap_or_else(PoisonError::into_inner);
    later.push(line.to_owned());
}

/// Says the lines that wait and are not in a text.
pub(super) fn tell_rest(said: &str) {
    let mut later = LATER.lock().unwrap_or_else(PoisonError::into_inner);
    for line in later.drain(..).filter(|line| !said.contains(line.as_str())) {
        tell(&line);
    }
}

/// Says what is not known, and before it what else could not be read.
pub(super) fn conclude(said: &str) {
    tell_rest(said);
    tell(said);
}

/// The same of text that is escaped already.
pub(super) fn tell_bytes(text: &[u8]) {
    io::stderr().lock().write_all(text).ok();
}

/// What `--color` says.
static COLOUR: OnceLock<Colour> = OnceLock::new();

/// Takes what `--color` says, before anything is written.
pub(super) fn choose_colour(when: Colour) {
    COLOUR.get_or_init(|| when);
    if when == Colour::Always {
        // The library that draws panes reads NO_COLOR by itself.
        crossterm::style::force_color_output(true);
    }
}

/// What `--color` says.
pub(super) fn chosen_colour() -> Colour {
    COLOUR.get().copied().unwrap_or_default()
}

/// True when colours are wanted. `--color` says it; else standard output is a terminal, and neither `NO_COLOR` nor
/// `TERM=dumb` is set.
pub(super) fn colour() -> bool {
    match chosen_colour() {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    }
}
