//! Standard output, and notices on standard error.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::args::Colour;
use kflow_export::text::clean;

/// Error: standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
struct Unwritten(io::Error);

/// Standard output, buffered until [`Write::flush`].
///
/// When its reader closes the pipe (`kflow calls | head`), the rest is dropped, and the exit status
/// still gives the answer.
pub(super) struct Stdout {
    inner: BufWriter<StdoutLock<'static>>,
    reader_gone: bool,
}

impl Stdout {
    /// True when the reader has closed the pipe.
    pub(super) fn reader_gone(&self) -> bool {
        self.reader_gone
    }

    /// Handles the result of a write; `dropped` is the result when the reader has closed the pipe.
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

/// Prints a line on standard error. A closed pipe (`kflow calls 2>&1 | head`) or a full disk is ignored: the command
/// still gives its answer, and recording continues.
pub(super) fn tell(line: &str) {
    tell_bytes(format!("kflow: {}\n", clean(line)).as_bytes());
}

/// Lines to print after the answer.
static LATER: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints a line after the answer, unless the [conclusion](conclude) contains it.
pub(super) fn tell_later(line: &str) {
    let mut later = LATER.lock().unwrap_or_else(PoisonError::into_inner);
    later.push(line.to_owned());
}

/// Prints the waiting lines that `said` does not contain.
pub(super) fn tell_rest(said: &str) {
    let mut later = LATER.lock().unwrap_or_else(PoisonError::into_inner);
    for line in later.drain(..).filter(|line| !said.contains(line.as_str())) {
        tell(&line);
    }
}

/// Prints the conclusion about missing data, after the waiting lines.
pub(super) fn conclude(said: &str) {
    tell_rest(said);
    tell(said);
}

/// Writes text that is already escaped to standard error.
pub(super) fn tell_bytes(text: &[u8]) {
    io::stderr().lock().write_all(text).ok();
}

/// The value of `--color`.
static COLOUR: OnceLock<Colour> = OnceLock::new();

/// Sets the value of `--color`, before anything is written.
pub(super) fn choose_colour(when: Colour) {
    COLOUR.get_or_init(|| when);
    if when == Colour::Always {
        // The terminal library reads NO_COLOR itself.
        crossterm::style::force_color_output(true);
    }
}

/// The value of `--color`.
pub(super) fn chosen_colour() -> Colour {
    COLOUR.get().copied().unwrap_or_default()
}

/// True when output is to be coloured: by `--color`; with `auto`, when standard output is a terminal and neither
/// `NO_COLOR` nor `TERM=dumb` is set.
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
