//! Follows the journal's files while journald writes and rotates them.
//!
//! A thread of its own reads the files and may wait for a disk: a disk that hangs is reported, and
//! holds up nothing else.

#![expect(
    clippy::disallowed_methods,
    reason = "what waits for a disk here is a thread of its own, or asked by `patient`"
)]

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Feed, NewDecoder};
use crate::journal::export;
use crate::journal::file::{Error, JournalFile, Place, Text};
use crate::live::{Out, SLOW, Stopped, gap};
use kflow_model::Source;
use kflow_model::clock;
use kflow_model::units::wait;

/// How often new entries are looked for.
const LOOK: Duration = Duration::from_millis(200);
/// How many of the unit's last entries are read at first.
const BEFORE: u64 = 20_000;
/// About how many bytes of entries are handed over at once.
const CHUNK: usize = 64 << 10;
/// The file that journald writes to. Older files are called `system@….journal`.
const ACTIVE: &str = "system.journal";

/// A unit in the journal's files of one machine, or of several machines below one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// A folder of journal files, or of one such folder for each machine: `/var/log/journal`.
    pub folder: PathBuf,
    /// `kubelet.service`
    pub unit: String,
}

impl Journal {
    /// Parses the form of `--kubelet-log`: `UNIT@/FOLDER`. A unit without a type is a service.
    pub fn named(text: &str) -> Option<Self> {
        let (unit, folder) = text.split_once("@/")?;
        // `snap.microk8s.daemon-kubelite` has dots, but no type.
        let typed = [".service", ".scope", ".slice"]
            .iter()
            .any(|t| unit.ends_with(t));
        let service = if typed { "" } else { ".service" };
        (!unit.is_empty()).then(|| Self {
            folder: Path::new("/").join(folder),
            unit: format!("{unit}{service}"),
        })
    }

    /// Returns how many entries the unit has; if none, the error says what the journal has instead.
    pub fn look(&self) -> Result<u64, String> {
        let mut entries = 0;
        let mut units = Vec::new();
        for path in self.files()? {
            let file = open(&path)?;
            let failed = |e: Error| format!("{}: {e}", path.display());
            match file.of_unit(&self.unit).map_err(failed)? {
                Some(place) => entries += file.left(&place).map_err(failed)?,
                None => units.extend(file.units().map_err(failed)?),
            }
        }
        if entries == 0 {
            units.sort();
            units.dedup();
            let of = if units.is_empty() {
                "it has no unit's entries".to_owned()
            } else {
                format!("it has {}", units.join(", "))
            };
            let folder = self.folder.display();
            return Err(format!(
                "the journal in {folder} has nothing of {}: {of}",
                self.unit
            ));
        }
        Ok(entries)
    }

    /// Returns the system journal's files, oldest first: the last one is being written.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let failed = |e: std::io::Error| format!("cannot read {}: {e}", self.folder.display());
        let mut folders = vec![self.folder.clone()];
        let inside = fs::read_dir(&self.folder).map_err(failed)?.flatten();
        folders.extend(inside.map(|e| e.path()).filter(|p| p.is_dir()));
        // Of several machines' folders (an image that was copied) the one that was written last.
        let written = |f: &PathBuf| fs::metadata(f.join(ACTIVE)).and_then(|m| m.modified()).ok();
        let newest = folders.into_iter().filter(|f| written(f).is_some());
        let Some(folder) = newest.max_by_key(written) else {
            return Err(format!("there is no {ACTIVE} in {}", self.folder.display()));
        };
        let inside = fs::read_dir(&folder).map_err(failed)?.flatten();
        let is_before = |p: &PathBuf| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("system@") && name.ends_with(".journal")
        };
        let mut files: Vec<PathBuf> = inside.map(|e| e.path()).filter(is_before).collect();
        files.sort_by_cached_key(|p| open(p).map_or(0, |f| f.begun));
        files.push(folder.join(ACTIVE));
        Ok(files)
    }
}

fn open(path: &Path) -> Result<JournalFile<File>, String> {
    let file = File::open(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    JournalFile::open(file).map_err(|e| format!("{}: {e}", path.display()))
}

/// A journal file that is being read.
struct Open {
    path: PathBuf,
    inode: (u64, u64),
    file: JournalFile<File>,
    /// `None` while the unit has no entry in it.
    place: Option<Place>,
}

impl Open {
    fn at(path: PathBuf, unit: &str) -> Result<Self, String> {
        let file = open(&path)?;
        let meta = fs::metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let place = file
            .of_unit(unit)
            .map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self {
            inode: (meta.dev(), meta.ino()),
            path,
            file,
            place,
        })
    }

    fn left(&self) -> u64 {
        let left = self.place.as_ref().map(|p| self.file.left(p));
        left.and_then(Result::ok).unwrap_or(0)
    }

    /// Returns true when another file has this file's name.
    fn moved(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) != self.inode)
    }
}

/// What the reading thread reports.
enum Told {
    /// Entries in the form of `journalctl -o export`, and how many could not be read, and why.
    Entries(Vec<u8>, Option<(u64, String)>),
    /// Nothing new.
    Idle,
    Off(String),
}

/// How far a journal file was read: the file's id, and the number of entries.
#[derive(Clone, Copy)]
struct Read {
    file: [u8; 16],
    entries: u64,
}

/// Reads the entries that exist, and those that are added.
struct Reader {
    journal: Journal,
    /// The files still to be read, oldest first; the last one is being written.
    files: Vec<Open>,
}

impl Reader {
    /// Opens the newest files that together have [`BEFORE`] entries, and skips older entries; with `after`, opens the
    /// file that was being read, behind the entries that were read, and the newer files.
    fn begin(journal: Journal, after: Option<Read>) -> Result<Self, String> {
        let mut files = Vec::new();
        let mut entries = 0;
        for path in journal.files()?.into_iter().rev() {
            let open = match Open::at(path, &journal.unit) {
                Ok(open) => open,
                // An older file may be removed meanwhile; without the file that is being written there
                // is nothing to follow.
                Err(_) if !files.is_empty() => continue,
                Err(why) => return Err(why),
            };
            if let Some(read) = after.filter(|r| r.file == open.file.id) {
                let mut open = open;
                if let Some(place) = &mut open.place {
                    (open.file.skip(place, read.entries)).map_err(|e| e.to_string())?;
                }
                files.push(open);
                files.reverse();
                return Ok(Self { journal, files });
            }
            entries += open.left();
            files.push(open);
            if entries >= BEFORE {
                break;
            }
        }
        files.reverse();
        if let Some(Open { file, place, .. }) = files.first_mut()
            && let Some(place) = place
        {
            file.skip(place, entries.saturating_sub(BEFORE))
                .map_err(|e| e.to_string())?;
        }
        Ok(Self { journal, files })
    }

    /// Returns how far the current file was read.
    fn so_far(&self) -> Option<Read> {
        let open = self.files.first()?;
        Some(Read {
            file: open.file.id,
            entries: open.place.map_or(0, |p| p.taken()),
        })
    }

    fn step(&mut self) -> Result<Told, String> {
        let unit = &self.journal.unit;
        let older = self.files.len() > 1;
        let Some(open) = self.files.first_mut() else {
            return Err("there is no file".to_owned());
        };
        // Checked before the last read of the file, so that whatever was written until the rename is read.
        let over = older || open.moved();
        if open.place.is_none() {
            let place = open.file.of_unit(unit);
            open.place = place.map_err(|e| format!("{}: {e}", open.path.display()))?;
        }
        let mut text = Vec::new();
        let mut unread: Option<(u64, String)> = None;
        while text.len() < CHUNK
            && let Some(place) = &mut open.place
        {
            let why = match open.file.next(place) {
                Ok(None) => break,
                Ok(Some(record)) => match &record.text {
                    Text::Is(message) => {
                        export::put(&record, message, &mut text);
                        continue;
                    }
                    Text::None => continue,
                    Text::Not(why) => (*why).to_owned(),
                },
                Err(Error::Damaged { at, what }) => Error::Damaged { at, what }.to_string(),
                Err(e) => return Err(format!("{}: {e}", open.path.display())),
            };
            let (n, _) = unread.take().unwrap_or_default();
            unread = Some((n + 1, why));
        }
        if !text.is_empty() || unread.is_some() {
            return Ok(Told::Entries(text, unread));
        }
        if over {
            let done = self.files.remove(0);
            if self.files.is_empty() {
                self.files.push(Open::at(done.path, unit)?);
            }
        }
        Ok(Told::Idle)
    }
}

/// Body of the reading thread. Returns once the receiver is dropped.
fn read(journal: &Journal, to: &mpsc::Sender<Told>) {
    let mut reader: Option<Reader> = None;
    let mut so_far = None;
    loop {
        let told = match &mut reader {
            Some(r) => r.step(),
            None => Reader::begin(journal.clone(), so_far).map(|r| {
                reader = Some(r);
                Told::Idle
            }),
        };
        so_far = reader.as_ref().and_then(Reader::so_far).or(so_far);
        let told = told.unwrap_or_else(|why| {
            reader = None;
            Told::Off(why)
        });
        let waits = !matches!(told, Told::Entries(..));
        if to.blocking_send(told).is_err() {
            return;
        }
        if waits {
            std::thread::sleep(LOOK);
        }
    }
}

/// Follows a unit's entries in the journal's files, beginning a little before their end.
pub async fn journal_files(journal: Journal, source: Source, decoder: NewDecoder, out: Out) {
    let mut feed = Feed::new(source, decoder(), out);
    let what = format!(
        "following the journal in {}, of {}",
        journal.folder.display(),
        journal.unit
    );
    let folder = journal.folder.clone();
    let (to, from) = mpsc::channel(1);
    let thread = std::thread::Builder::new()
        .name("kflow-journal".into())
        .spawn(move || read(&journal, &to));
    if let Err(e) = thread {
        feed.out.off(format!(
            "cannot start a thread to read {}: {e}",
            folder.display()
        ));
        return;
    }
    // Returns only when the receiver of observations is gone (`Stopped`).
    take(from, &mut feed, &what, &folder).await.ok();
}

async fn take(
    mut from: mpsc::Receiver<Told>,
    feed: &mut Feed,
    what: &str,
    folder: &Path,
) -> Result<(), Stopped> {
    let mut last = None;
    let mut on = false;
    loop {
        match timeout(SLOW, from.recv()).await {
            Err(_) => feed.out.off(format!(
                "{} has not answered for {}: its file system hangs",
                folder.display(),
                wait(SLOW)
            )),
            Ok(None) => return Ok(()),
            Ok(Some(Told::Off(why))) => {
                if std::mem::take(&mut on) {
                    feed.lost(&why).await?;
                }
                feed.out.off(why);
            }
            Ok(Some(told)) => {
                feed.out.on(what);
                on = true;
                let Told::Entries(text, unread) = told else {
                    continue;
                };
                feed.push(&text).await?;
                let now = clock::now();
                if let Some((n, why)) = unread {
                    let since = last.unwrap_or(now);
                    feed.out.send(gap(feed.source, since, now, n, &why)).await?;
                }
                last = Some(now);
            }
        }
    }
}
