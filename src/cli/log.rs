//! kflow's own log, for diagnosing kflow: `--log FILE` and `KFLOW_LOG`.
//!
//! Off unless requested. Each line is redacted like recordings before it is written. A separate thread writes: a log
//! on a file system that hangs blocks nothing, and lines that find no room are counted.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, bail};
use kflow_model::patient;
use kflow_model::redact;
use tracing_subscriber::EnvFilter;

/// Environment variable that selects what is logged, in the syntax of `tracing_subscriber::EnvFilter`.
const VARIABLE: &str = "KFLOW_LOG";
/// The filter for `--log` without the variable: debug of kflow's own crates, warnings of the libraries.
const DEFAULT: &str = "warn,kflow=debug";

/// Number of lines that may wait for the log's file system.
const ROOM: usize = 16_384;
/// Longest wait for the last lines when kflow ends.
const END: Duration = Duration::from_secs(1);

/// Starts logging if a file is named or the variable is set. Dropping the returned value writes the last lines.
pub(super) fn start(file: Option<&Path>, owns_terminal: bool) -> anyhow::Result<Option<Log>> {
    let chosen = std::env::var(VARIABLE).ok().filter(|v| !v.is_empty());
    if file.is_none() && chosen.is_none() {
        return Ok(None);
    }
    let directives = chosen.as_deref().unwrap_or(DEFAULT);
    let filter = EnvFilter::try_new(directives).with_context(|| {
        format!("{VARIABLE}={directives:?} is no filter; say for example `debug`")
    })?;
    let to = match file {
        Some(path) => queue(open(path)?)?,
        None if owns_terminal && io::stderr().is_terminal() => {
            bail!("the terminal is the panes': name a file for the log with --log FILE")
        }
        None => queue(io::stderr())?,
    };
    let log = Log(to.to.clone());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Mutex::new(to))
        .with_ansi(false)
        // Errors about an unwritable log would go to standard error by a macro that panics.
        .log_internal_errors(false)
        .init();
    Ok(Some(log))
}

/// A message to the log's thread.
enum Given {
    /// A line, and the number of lines before it that found no room.
    Line(Vec<u8>, u64),
    /// The end: everything before it is to be written.
    End(SyncSender<()>),
}

/// The running log.
pub(super) struct Log(SyncSender<Given>);

impl Drop for Log {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        // Without room, the file system hangs and the rest is lost.
        if self.0.try_send(Given::End(done)).is_ok() {
            written.recv_timeout(END).ok();
        }
    }
}

/// The writer of all threads, which never blocks. `tracing_subscriber::fmt` writes an event in one call.
struct Queue {
    to: SyncSender<Given>,
    lost: u64,
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.to.try_send(Given::Line(line.to_owned(), self.lost)) {
            Ok(()) => self.lost = 0,
            Err(_) => self.lost += 1,
        }
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the thread that waits for the log's file system, or for the reader of standard error.
fn queue(to: impl Write + Send + 'static) -> anyhow::Result<Queue> {
    let (lines, from) = sync_channel(ROOM);
    std::thread::Builder::new()
        .name("kflow-log".into())
        .spawn(move || write(to, &from))
        .context("cannot start the log")?;
    Ok(Queue { to: lines, lost: 0 })
}

fn write(to: impl Write, from: &Receiver<Given>) {
    let mut to = Redacted(to);
    while let Ok(given) = from.recv() {
        match given {
            // An error is ignored: there is no other place to report it.
            Given::Line(line, lost) => {
                if lost > 0 {
                    writeln!(to, "{lost} lines of the log were lost: it was too slow").ok();
                }
                to.write_all(&line).ok();
            }
            Given::End(done) => {
                to.flush().ok();
                done.send(()).ok();
            }
        }
    }
}

/// Opens the log for appending. The file is readable by its owner only, and a symbolic link is refused: the program
/// may run as root in a folder that others write to.
///
/// A file system that does not answer is an error.
fn open(path: &Path) -> anyhow::Result<File> {
    let its = path.to_owned();
    let open = move || {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(its)
    };
    patient::ask(path, open)
        .flatten()
        .with_context(|| format!("cannot open the log {}", path.display()))
}

/// Redacts each line.
struct Redacted<W>(W);

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(redact::text(&text).as_bytes())?;
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that blocks until it is released.
    struct Stands(Receiver<()>, SyncSender<Vec<u8>>);

    impl Write for Stands {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.recv().ok();
            self.1.send(line.to_owned()).ok();
            Ok(line.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_hangs_holds_up_nothing_and_counts_what_it_loses() {
        let (go, hangs) = sync_channel(0);
        let (to, wrote) = sync_channel(2 * ROOM);
        let mut queue = queue(Stands(hangs, to)).unwrap();
        // The thread holds one line, and `ROOM` lines wait.
        let lines = ROOM + 10;
        for _ in 0..lines {
            queue.write_all(b"a line\n").unwrap();
        }
        let lost = queue.lost;
        assert!((9..=10).contains(&lost), "{lost}");
        drop(Log(queue.to.clone()));
        drop(go);
        for _ in 0..lines as u64 - lost {
            assert_eq!(wrote.recv().unwrap(), b"a line\n");
        }
        queue.write_all(b"the next\n").unwrap();
        drop(Log(queue.to.clone()));
        let rest: Vec<u8> = wrote.try_iter().flatten().collect();
        let rest = String::from_utf8(rest).unwrap();
        let told = format!("{lost} lines of the log were lost: it was too slow\nthe next\n");
        assert_eq!(rest, told);
    }

    #[test]
    fn a_logged_token_is_redacted() {
        let mut out = Redacted(Vec::new());
        out.write_all(
            b"DEBUG source{kind=\"kube\"}: Authorization: Bearer c2VjcmV0LXRva2VuLW9mLXRlc3Q=\n",
        )
        .unwrap();
        let text = String::from_utf8(out.0).unwrap();
        assert!(!text.contains("c2VjcmV0"), "{text}");
        assert!(text.contains("source{"), "{text}");
    }
}
