//! Follows logs that are being written: files that rotate, journald, standard input. [`remote`] reads a node's log
//! through the apiserver; [`pod`] reads a static pod's log, which is the newest of several files.

mod journal;
mod pod;
pub mod remote;

pub use journal::{Journal, journal_files};
pub use pod::pod;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::LineDecoder;
use crate::live::{Backoff, Lines, Out, SLOW, Stopped, decode_now, gap};
use kflow_model::clock;
use kflow_model::stamp::{MICRO, SECOND};
use kflow_model::units::wait;
use kflow_model::{Nanos, Observation, Source};

/// How often a file is checked for new lines.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes that are read from a file at once.
const CHUNK: usize = 64 << 10;
/// How much of the end of an existing file is read at first, bytes.
const BEFORE: u64 = 4 << 20;
/// How many of the journal's last lines are read at first.
const LINES_BEFORE: &str = "20000";

/// Makes a new decoder, for every time that the input starts again.
pub type NewDecoder = Box<dyn Fn() -> Box<dyn LineDecoder> + Send + Sync>;

/// Reads from a line when it was received.
type Received = fn(&[u8]) -> Option<Nanos>;

/// A log that is decoded line by line.
pub(super) struct Feed {
    source: Source,
    decoder: Box<dyn LineDecoder>,
    lines: Lines,
    buffer: Vec<Observation>,
    /// Set where the source can go on from the time at which a line was received.
    received: Option<Received>,
    /// When the last line was received that was read.
    read_to: Option<Nanos>,
    pub(super) out: Out,
}

impl Feed {
    pub(super) fn new(source: Source, decoder: Box<dyn LineDecoder>, out: Out) -> Self {
        Self {
            source,
            decoder,
            lines: Lines::default(),
            buffer: Vec::new(),
            received: None,
            read_to: None,
            out,
        }
    }
    pub(super) async fn push(&mut self, chunk: &[u8]) -> Result<(), Stopped> {
        let Self {
            decoder,
            lines,
            buffer,
            received,
            read_to,
            ..
        } = self;
        lines.push(chunk, |line| {
            *read_to = received.and_then(|of| of(line)).or(*read_to);
            decode_now(decoder.as_mut(), line, buffer);
        });
        buffer.extend(lines.dropped(self.source));
        self.out.send_all(&mut self.buffer).await
    }
    /// Ends the input, or the part of it that continues in another file.
    pub(super) async fn end(&mut self) -> Result<(), Stopped> {
        self.decoder.finish(&mut self.buffer);
        for o in &mut self.buffer {
            o.stamp.seen = clock::now();
        }
        self.lines.cut();
        self.out.send_all(&mut self.buffer).await
    }
    pub(super) async fn lost(&mut self, why: &str) -> Result<(), Stopped> {
        let now = clock::now();
        self.out.send(gap(self.source, now, now, 0, why)).await
    }
}

/// Follows a file through rotation and truncation, beginning a little before its end.
pub async fn file(path: PathBuf, source: Source, decoder: NewDecoder, out: Out) {
    let mut feed = Feed::new(source, decoder(), out);
    // Returns only when the receiver of observations is gone (`Stopped`).
    follow_file(&path, &mut feed, BEFORE).await.ok();
}

/// Follows a file, of which at most the last `before` bytes are read at first.
async fn follow_file(path: &Path, feed: &mut Feed, before: u64) -> Result<(), Stopped> {
    let mut chunk = vec![0; CHUNK];
    let mut following = Following::new(path, before);
    loop {
        following.open(feed).await?;
        let Some(o) = &following.open else {
            sleep(LOOK).await;
            continue;
        };
        let looked;
        (chunk, looked) = told_when_slow(&feed.out, path, o.look(path, chunk)).await;
        if following.took(looked, &chunk, feed).await? {
            sleep(LOOK).await;
        }
    }
}

/// A file that is followed, and how far it was read.
struct Following<'a> {
    path: &'a Path,
    open: Option<Open>,
    /// How much of the end of a file is read that is opened, bytes.
    before: u64,
    /// How far the file was read that could not be read any further.
    left: Option<Place>,
}

impl<'a> Following<'a> {
    const fn new(path: &'a Path, before: u64) -> Self {
        Self {
            path,
            open: None,
            before,
            left: None,
        }
    }

    /// Opens the file if it is not open. A file that could not be read goes on where it was left, if it is the same
    /// file; a file that appears later is read from its beginning.
    async fn open(&mut self, feed: &mut Feed) -> Result<(), Stopped> {
        if self.open.is_some() {
            return Ok(());
        }
        let path = self.path;
        match told_when_slow(&feed.out, path, Open::at(path, self.before, self.left)).await {
            Ok(o) => {
                if self.left.take().is_some_and(|left| left != o.place) {
                    feed.lost("the log was rotated or truncated while it could not be read")
                        .await?;
                    feed.end().await?;
                }
                feed.out.on(format!("following {}", path.display()));
                self.open = Some(o);
            }
            Err(e) => feed.out.off(format!("cannot read {}: {e}", path.display())),
        }
        self.before = u64::MAX;
        Ok(())
    }

    /// Takes what a look at the file found; returns true when the next look can wait.
    async fn took(
        &mut self,
        looked: io::Result<Looked>,
        chunk: &[u8],
        feed: &mut Feed,
    ) -> Result<bool, Stopped> {
        let Some(o) = &mut self.open else {
            return Ok(true);
        };
        match looked {
            Ok(Looked::Read(n)) => {
                o.place.position += n as u64;
                let mut new = chunk.get(..n).unwrap_or_default();
                if std::mem::take(&mut o.place.within_line) {
                    // The first line is incomplete: its beginning was not read.
                    let Some(i) = memchr::memchr(b'\n', new) else {
                        o.place.within_line = true;
                        return Ok(false);
                    };
                    new = new.get(i + 1..).unwrap_or_default();
                }
                feed.push(new).await?;
            }
            Err(e) => {
                let path = self.path.display();
                feed.out.off(format!("cannot read {path}: {e}"));
                self.left = Some(o.place);
                self.open = None;
                return Ok(true);
            }
            Ok(Looked::Same) => return Ok(true),
            Ok(Looked::Shrunk) => {
                feed.lost("the log was truncated").await?;
                feed.end().await?;
                self.open = None;
            }
            // The file was read to its end, and after a rename writers use it for a moment only.
            Ok(Looked::Moved) if o.moved => {
                feed.end().await?;
                self.open = None;
            }
            Ok(Looked::Moved) => {
                o.moved = true;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Waits for the file system, and reports in the source's status when it does not answer. The request is made once: a
/// second thread would hang like the first.
async fn told_when_slow<T>(out: &Out, path: &Path, answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    match timeout(SLOW, answer.as_mut()).await {
        Ok(answer) => answer,
        Err(_) => {
            out.off(format!(
                "{} has not answered for {}: its file system hangs",
                path.display(),
                wait(SLOW)
            ));
            let answer = answer.await;
            out.on(format!("following {}", path.display()));
            answer
        }
    }
}

struct Open {
    file: Arc<File>,
    place: Place,
    moved: bool,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    inode: (u64, u64),
    position: u64,
    /// The position is in a line whose beginning was not read.
    within_line: bool,
}

/// What a look at a file finds.
enum Looked {
    /// This many bytes.
    Read(usize),
    /// The end of the file, which still has its name.
    Same,
    /// The end of the file, which is shorter than before.
    Shrunk,
    /// The end of the file, whose name another file has now.
    Moved,
}

impl Open {
    /// Opens a file, where it was `left` or at most `before` bytes from its end.
    #[expect(
        clippy::disallowed_methods,
        reason = "in a thread that may wait: `spawn_blocking`"
    )]
    async fn at(path: &Path, before: u64, left: Option<Place>) -> io::Result<Self> {
        let path = path.to_owned();
        let open = move || {
            let mut file = File::open(path)?;
            let meta = file.metadata()?;
            let inode = (meta.dev(), meta.ino());
            let position = meta.len().saturating_sub(before);
            let from_its_end = Place {
                inode,
                position,
                within_line: position > 0,
            };
            let place = left
                .filter(|left| left.inode == inode && left.position <= meta.len())
                .unwrap_or(from_its_end);
            if place.position > 0 {
                file.seek(SeekFrom::Start(place.position))?;
            }
            Ok(Self {
                file: Arc::new(file),
                place,
                moved: false,
            })
        };
        spawn_blocking(open).await.map_err(io::Error::other)?
    }

    /// Reads into a chunk, or at the end of the file checks whether it is still the same file. Both are one request
    /// to another thread, because five of them are made each second.
    async fn look(&self, path: &Path, mut chunk: Vec<u8>) -> (Vec<u8>, io::Result<Looked>) {
        let (file, path) = (Arc::clone(&self.file), path.to_owned());
        let Place {
            inode, position, ..
        } = self.place;
        let look = move || {
            let looked = match file.as_ref().read(&mut chunk) {
                Ok(0) => Ok(stands(&file, &path, inode, position)),
                read => read.map(Looked::Read),
            };
            (chunk, looked)
        };
        let failed = |e| (vec![0; CHUNK], Err(io::Error::other(e)));
        spawn_blocking(look).await.unwrap_or_else(failed)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "in a thread that may wait: `Open::look`"
)]
fn stands(file: &File, path: &Path, inode: (u64, u64), position: u64) -> Looked {
    let shrunk = file.metadata().is_ok_and(|m| m.len() < position);
    match std::fs::metadata(path) {
        _ if shrunk => Looked::Shrunk,
        Ok(m) if (m.dev(), m.ino()) == inode => Looked::Same,
        // Renamed, and the new file does not exist yet: wait for it.
        Err(_) => Looked::Same,
        Ok(_) => Looked::Moved,
    }
}

/// Reads to the end of a stream: standard input, a pipe.
pub async fn stream(
    name: &str,
    mut from: impl AsyncRead + Unpin,
    source: Source,
    decoder: Box<dyn LineDecoder>,
    out: Out,
) {
    let mut feed = Feed::new(source, decoder, out);
    let what = format!("reading {name}");
    feed.out.on(what.as_str());
    if read_all(&mut from, &mut feed, &what).await.is_ok() {
        feed.out.off(format!("{name} has ended"));
    }
}

/// Feeds the whole stream; returns the number of bytes. While bytes arrive, the source's status is on, whatever it
/// was before.
async fn read_all(
    from: &mut (impl AsyncRead + Unpin),
    feed: &mut Feed,
    what: &str,
) -> Result<u64, Stopped> {
    let mut chunk = vec![0; 64 << 10];
    let mut read = 0;
    // An error ends a stream like its end does.
    while let Ok(n) = from.read(&mut chunk).await
        && n > 0
    {
        read += n as u64;
        feed.out.on(what);
        feed.push(chunk.get(..n).unwrap_or_default()).await?;
    }
    // The last line may lack its line feed.
    feed.push(b"\n").await?;
    feed.end().await?;
    Ok(read)
}

/// When journald received an entry in the form of `journalctl --output=json`.
fn received(entry: &[u8]) -> Option<Nanos> {
    #[derive(serde::Deserialize)]
    struct Entry<'a> {
        #[serde(borrow, rename = "__REALTIME_TIMESTAMP")]
        micros: &'a str,
    }
    let entry: Entry<'_> = serde_json::from_slice(entry).ok()?;
    entry
        .micros
        .parse::<i64>()
        .ok()?
        .checked_mul(MICRO)
        .map(Nanos)
}

/// Most of journalctl's standard error that is kept, bytes.
const COMPLAINT: usize = 4096;

/// Reads journalctl's standard error to its end, reports it in the source's status, and returns it in one line. When
/// a user may not read the journal, journalctl says so at once and goes on: without the right to any entry it follows
/// nothing for ever.
async fn listen(mut stderr: impl AsyncRead + Unpin, unit: &str, out: &Out) -> String {
    let mut said = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(n) = stderr.read(&mut chunk).await
        && n > 0
    {
        if said.len() < COMPLAINT {
            said.extend_from_slice(chunk.get(..n).unwrap_or_default());
            out.off(format!("the journal of {unit}: {}", complaint(&said)));
        }
    }
    complaint(&said)
}

/// Joins the first four lines of journalctl's complaint into one.
fn complaint(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("-- "))
        .take(4)
        .collect();
    lines.join(" ")
}

/// Follows a unit's journal through `journalctl`, which knows the journal's format and who may read it.
pub async fn journal(unit: &str, source: Source, decoder: NewDecoder, mut out: Out) {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    // When the last entry was received that was read.
    let mut read_to: Option<Nanos> = None;
    loop {
        let mut command = Command::new("journalctl");
        command.args(["--follow", "--output=json", "--no-pager", "--unit", unit]);
        match read_to {
            None => command.args(["--lines", LINES_BEFORE]),
            // journalctl takes whole seconds: better to read a moment twice than not at all.
            Some(at) => command.args(["--since", &format!("@{}", at.0.div_euclid(SECOND))]),
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        match child {
            Err(e) => out.off(format!(
                "cannot run journalctl ({e}): name the log's file, or the journal's with journal:UNIT@FOLDER"
            )),
            Ok(mut child) => {
                let mut feed = Feed {
                    received: Some(received),
                    ..Feed::new(source, decoder(), out.share())
                };
                let what = format!("following the journal of {unit}");
                feed.out.on(what.as_str());
                let complaints = child.stderr.take().map(|stderr| {
                    let out = out.share();
                    let unit = unit.to_owned();
                    async move { listen(stderr, &unit, &out).await }
                });
                let complaints = async {
                    match complaints {
                        Some(c) => c.await,
                        None => String::new(),
                    }
                };
                let lines = async {
                    match child.stdout.take() {
                        Some(mut stdout) => read_all(&mut stdout, &mut feed, &what).await,
                        None => Ok(0),
                    }
                };
                let (read, said) = tokio::join!(lines, complaints);
                let Ok(read) = read else { return };
                read_to = feed.read_to.or(read_to);
                if read > 0 {
                    backoff.reset();
                }
                let mut why = match child.wait().await {
                    Ok(status) => format!("journalctl ended with {status}"),
                    Err(e) => format!("journalctl is lost: {e}"),
                };
                if !said.is_empty() {
                    why = format!("{why}: {said}");
                }
                out.off(why.as_str());
                let now = clock::now();
                if out.send(gap(source, now, now, 0, &why)).await.is_err() {
                    return;
                }
            }
        }
        out.pause(backoff.pause()).await;
    }
}

#[cfg(test)]
mod tests;
