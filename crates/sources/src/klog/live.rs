//! Logs that are being written: files that rotate, journald, standard input. The apiserver's way to a node's log is
//! [`remote`].

pub mod remote;

use std::io::SeekFrom;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};
use tokio::process::Command;
use tokio::time::sleep;

use crate::LineDecoder;
use crate::live::{Backoff, Lines, Out, Stopped, decode_now, gap};
use kflow_model::clock;
use kflow_model::{Observation, Source};

/// How often a file is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How much of a file that exists already is read at first, bytes.
const BEFORE: u64 = 4 << 20;
/// Lines of the journal that are read at first.
const LINES_BEFORE: &str = "20000";

/// A decoder, made anew when its input begins anew.
pub type NewDecoder = Box<dyn Fn() -> Box<dyn LineDecoder> + Send + Sync>;

/// A log that is decoded line by line.
pub(super) struct Feed {
    source: Source,
    decoder: Box<dyn LineDecoder>,
    lines: Lines,
    buffer: Vec<Observation>,
    pub(super) out: Out,
}

impl Feed {
    pub(super) fn new(source: Source, decoder: Box<dyn LineDecoder>, out: Out) -> Self {
        Self {
            source,
            decoder,
            lines: Lines::default(),
            buffer: Vec::new(),
            out,
        }
    }
    pub(super) async fn push(&mut self, chunk: &[u8]) -> Result<(), Stopped> {
        let Self {
            decoder,
            lines,
            buffer,
            ..
        } = self;
        lines.push(chunk, |line| decode_now(decoder.as_mut(), line, buffer));
        let dropped = lines.dropped();
        if dropped > 0 {
            let now = clock::now();
            let why = "a line of more than 16 MiB was not read";
            buffer.push(gap(self.source, now, now, dropped, why));
        }
        self.out.send_all(&mut self.buffer).await
    }
    /// The input ended, or goes on elsewhere.
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
    // Stopped is the only way to end.
    follow_file(&path, &mut feed).await.ok();
}

async fn follow_file(path: &Path, feed: &mut Feed) -> Result<(), Stopped> {
    let mut chunk = vec![0; 256 << 10];
    let mut open: Option<Open> = None;
    let mut first = true;
    loop {
        if open.is_none() {
            match Open::at(path, if first { BEFORE } else { u64::MAX }).await {
                Ok(o) => {
                    feed.out.on(format!("following {}", path.display()));
                    open = Some(o);
                    first = false;
                }
                Err(e) => feed.out.off(format!("cannot read {}: {e}", path.display())),
            }
        }
        let Some(o) = &mut open else {
            // What appears later is read from its beginning.
            first = false;
            sleep(LOOK).await;
            continue;
        };
        match o.file.read(&mut chunk).await {
            Ok(0) => {}
            Ok(n) => {
                o.position += n as u64;
                let mut new = chunk.get(..n).unwrap_or_default();
                if std::mem::take(&mut o.within_line) {
                    // The beginning of the first line was not read.
                    let Some(i) = memchr::memchr(b'\n', new) else {
                        o.within_line = true;
                        continue;
                    };
                    new = new.get(i + 1..).unwrap_or_default();
                }
                feed.push(new).await?;
                continue;
            }
            Err(e) => {
                feed.out.off(format!("cannot read {}: {e}", path.display()));
                open = None;
                sleep(LOOK).await;
                continue;
            }
        }
        // At the end: is it still the file of that name, and as long as before?
        match o.stands(path).await {
            Stands::Same => sleep(LOOK).await,
            Stands::Shrunk => {
                feed.lost("the log was truncated").await?;
                feed.end().await?;
                open = None;
            }
            // Everything up to its end was read, and nobody writes to it any more but for a moment after the rename.
            Stands::Moved if o.moved => {
                feed.end().await?;
                open = None;
            }
            Stands::Moved => {
                o.moved = true;
                sleep(LOOK).await;
            }
        }
    }
}

struct Open {
    file: File,
    inode: (u64, u64),
    position: u64,
    within_line: bool,
    moved: bool,
}

enum Stands {
    Same,
    Shrunk,
    Moved,
}

impl Open {
    /// Opens a file, at most `before` bytes from its end.
    async fn at(path: &Path, before: u64) -> std::io::Result<Self> {
        let mut file = File::open(path).await?;
        let meta = file.metadata().await?;
        let position = meta.len().saturating_sub(before);
        if position > 0 {
            file.seek(SeekFrom::Start(position)).await?;
        }
        Ok(Self {
            file,
            inode: (meta.dev(), meta.ino()),
            position,
            within_line: position > 0,
            moved: false,
        })
    }
    async fn stands(&self, path: &Path) -> Stands {
        let shrunk = self
            .file
            .metadata()
            .await
            .is_ok_and(|m| m.len() < self.position);
        match tokio::fs::metadata(path).await {
            _ if shrunk => Stands::Shrunk,
            Ok(m) if (m.dev(), m.ino()) == self.inode => Stands::Same,
            // Renamed, and not there again yet: wait for the new one.
            Err(_) => Stands::Same,
            Ok(_) => Stands::Moved,
        }
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
    feed.out.on(format!("reading {name}"));
    if read_all(&mut from, &mut feed).await.is_ok() {
        feed.out.off(format!("{name} has ended"));
    }
}

async fn read_all(from: &mut (impl AsyncRead + Unpin), feed: &mut Feed) -> Result<(), Stopped> {
    let mut chunk = vec![0; 64 << 10];
    // An error ends a stream like its end does.
    while let Ok(n) = from.read(&mut chunk).await
        && n > 0
    {
        feed.push(chunk.get(..n).unwrap_or_default()).await?;
    }
    // The last line may lack its line feed.
    feed.push(b"\n").await?;
    feed.end().await
}

/// Follows a unit's journal by way of `journalctl`, which knows the journal's format and who may read it.
pub async fn journal(unit: &str, source: Source, decoder: NewDecoder, mut out: Out) {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let mut since: Option<String> = None;
    loop {
        let mut command = Command::new("journalctl");
        command.args(["--follow", "--output=json", "--no-pager", "--unit", unit]);
        match &since {
            None => command.args(["--lines", LINES_BEFORE]),
            Some(time) => command.args(["--since", time]),
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let began = clock::now();
        match child {
            Err(e) => out.off(format!(
                "cannot run journalctl ({e}): give the log's file with --kubelet-log"
            )),
            Ok(mut child) => {
                let mut feed = Feed::new(source, decoder(), out.share());
                feed.out.on(format!("following the journal of {unit}"));
                if let Some(mut stdout) = child.stdout.take()
                    && read_all(&mut stdout, &mut feed).await.is_err()
                {
                    return;
                }
                let why = match child.wait().await {
                    Ok(status) => format!("journalctl ended with {status}"),
                    Err(e) => format!("journalctl is lost: {e}"),
                };
                out.off(why.as_str());
                let now = clock::now();
                if out.send(gap(source, now, now, 0, &why)).await.is_err() {
                    return;
                }
            }
        }
        // Whole seconds of journalctl: a moment twice rather than not at all.
        since = Some(format!("@{}", began.0.max(clock::now().0) / 1_000_000_000));
        sleep(backoff.pause()).await;
    }
}
