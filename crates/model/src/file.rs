//! Files that kflow writes: each appears whole or not at all, and none replaces what it must not.
//!
//! | what is written | how |
//! |---|---|
//! | a document (export, import, picture) | [`AtomicFile`]: a file of its own beside the target, renamed when it is whole |
//! | a recording, which grows while others read it | [`create_new`]: a name that was free |
//! | a file that is moved aside | [`rename_new`]: to a name that was free |
//!
//! Temporary files have a random name and are opened with `O_EXCL`, which also refuses symbolic links. An input is never
//! an output: [`distinct`].
//!
//! A file system that does not answer is an error ([`patient`](crate::patient)). [`create_new`] and [`rename_new`] wait
//! for it: the recorder calls them, on a thread of its own.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tempfile::{Builder, NamedTempFile, TempPath};

use crate::patient::{self, SLOW, WRITE, ask, not_answered};

/// Bytes that are collected before they are written.
const PIECE: usize = 1 << 16;
/// Pieces that may wait for the file system.
const ROOM: usize = 4;
/// Bytes after which a file is put on the disk: what is left for its end does not grow with the file.
const SYNC: usize = 8 << 20;
/// Names that are tried before one that is free is given up for.
const NAMES: u32 = 1000;

/// What can go wrong with a file that is to be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("cannot {op} {path}: {source}")]
    Io {
        /// What was tried: `create`, `write`, `rename`.
        op: &'static str,
        path: String,
        source: io::Error,
    },
    /// The name is taken.
    #[error("{path} exists: give another name, or move it away")]
    Exists { path: String },
    /// A folder has the name.
    #[error("cannot write {path}: it is a folder: name a file in it")]
    Folder { path: String },
    /// A symbolic link leads nowhere.
    #[error(
        "cannot write {path}: it is a symbolic link to a file that does not exist: name that file"
    )]
    Dangling { path: String },
    /// The output is one of the inputs.
    #[error(
        "the output {output} is the same file as the input {input}: give the output another name"
    )]
    Input { output: String, input: String },
}

fn error(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.display().to_string();
    move |source| FileError::Io { op, path, source }
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its owner only: recordings and exports, which may hold names of a cluster.
    Private,
    /// Whoever the umask lets: manual pages, pictures of the documentation.
    Public,
}

impl Access {
    const fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Public => 0o666,
        }
    }
}

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// There is no file of the name.
    Free,
    File,
    /// A pipe, a socket, a device: written to as it is.
    Special,
}

/// What is at `path`, when something can be written there.
pub fn place(path: &Path) -> Result<Place, FileError> {
    let its = path.to_owned();
    ask(path, move || look(&its)).map_err(error("create", path))?
}

fn look(path: &Path) -> Result<Place, FileError> {
    let shown = || path.display().to_string();
    match std::fs::metadata(path) {
        Ok(m) if m.is_dir() => Err(FileError::Folder { path: shown() }),
        Ok(m) if m.is_file() => Ok(Place::File),
        Ok(_) => Ok(Place::Special),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if std::fs::symlink_metadata(path).is_ok() {
                return Err(FileError::Dangling { path: shown() });
            }
            std::fs::metadata(folder(path)).map_err(error("create", path))?;
            Ok(Place::Free)
        }
        Err(e) => Err(error("create", path)(e)),
    }
}

/// The folder that a name is in.
fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// A file that takes its name when it is whole. Dropped before that, it leaves everything as it was.
///
/// A thread of its own alone touches the file; whoever writes waits for it with a limit. What is no file (a pipe, a device)
/// has to be opened in time, and may then be as slow as its reader.
#[derive(Debug)]
pub struct AtomicFile {
    /// `None` when nothing more is given.
    to: Option<SyncSender<Given>>,
    /// Pieces that were written, to be filled again, or why one was not. Ends with the thread.
    from: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    target: PathBuf,
    limit: Option<Duration>,
}

/// What the thread is given.
#[derive(Debug)]
enum Given {
    Piece(Vec<u8>),
    /// Everything was given: this name, and where its result goes.
    Whole(Name, SyncSender<Result<PathBuf, FileError>>),
}

/// The name that a file gets.
#[derive(Debug)]
enum Name {
    /// That of its target, in place of what had it.
    Target,
    /// The first of these that is free.
    Free(Vec<PathBuf>),
}

impl AtomicFile {
    /// Begins a file for `path`. What has that name stays until [`commit`](Self::commit). The file behind a symbolic
    /// link is the one that is replaced; a pipe or a device is written to as it is.
    pub fn create(path: &Path, access: Access) -> Result<Self, FileError> {
        let its = path.to_owned();
        Self::start(path, move || Out::create(&its, access))
    }

    fn beside(target: PathBuf, access: Access) -> Result<Self, FileError> {
        let path = target.clone();
        Self::start(&path, move || Out::beside(target, access))
    }

    fn start(
        path: &Path,
        open: impl FnOnce() -> Result<Out, FileError> + Send + 'static,
    ) -> Result<Self, FileError> {
        let (to, given) = sync_channel(ROOM);
        let (written, from) = sync_channel(ROOM);
        for _ in 1..ROOM {
            written.send(Ok(Vec::with_capacity(PIECE))).ok();
        }
        let thread = std::thread::Builder::new().name("kflow-write".into());
        let begin = move || -> Result<_, FileError> {
            let out = open()?;
            let (target, is_special) = (out.target.clone(), out.is_special());
            thread
                .spawn(move || serve(out, &given, &written))
                .map_err(error("create", &target))?;
            Ok((target, is_special))
        };
        let (target, is_special) =
            patient::ask_within(path, SLOW, begin).map_err(error("create", path))??;
        Ok(Self {
            to: Some(to),
            from,
            piece: Vec::with_capacity(PIECE),
            target,
            limit: (!is_special).then_some(WRITE),
        })
    }

    /// Hands the piece over; one that was written is filled next.
    fn give(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let next = match self.limit {
            Some(limit) => self.from.recv_timeout(limit).map_err(|e| match e {
                RecvTimeoutError::Timeout => not_answered(limit),
                RecvTimeoutError::Disconnected => ended(),
            }),
            None => self.from.recv().map_err(|_| ended()),
        };
        let full = std::mem::replace(&mut self.piece, next??);
        // There is room: so many pieces exist.
        let to = self.to.as_ref().ok_or_else(ended)?;
        to.send(Given::Piece(full)).map_err(|_| self.why())
    }

    /// Why the thread has ended.
    fn why(&self) -> io::Error {
        let failed = self.from.try_iter().find_map(Result::err);
        failed.unwrap_or_else(ended)
    }

    /// Writes the rest to the disk and gives the file its name, in place of what had it.
    pub fn commit(self) -> Result<(), FileError> {
        self.whole(Name::Target).map(drop)
    }

    fn whole(mut self, name: Name) -> Result<PathBuf, FileError> {
        let target = self.target.clone();
        self.give().map_err(error("write", &target))?;
        let (tell, told) = sync_channel(1);
        let given = self.to.take().map(|to| to.send(Given::Whole(name, tell)));
        if !matches!(given, Some(Ok(()))) {
            return Err(error("write", &target)(self.why()));
        }
        let answer = match self.limit {
            Some(limit) => told.recv_timeout(limit),
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        answer.unwrap_or_else(|e| {
            let source = match e {
                RecvTimeoutError::Timeout => not_answered(WRITE),
                RecvTimeoutError::Disconnected => self.why(),
            };
            Err(error("write", &target)(source))
        })
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread that writes it failed")
}

impl Drop for AtomicFile {
    /// A file that did not get its name is gone before the program can end.
    fn drop(&mut self) {
        drop(self.to.take());
        let until = crate::clock::monotonic() + SLOW;
        let left = || until.saturating_duration_since(crate::clock::monotonic());
        while self.limit.is_some() && self.from.recv_timeout(left()).is_ok() {}
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() >= PIECE {
            self.give()?;
        }
        let n = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend(bytes.iter().take(n));
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.give()
    }
}

/// Writes what is given; `written` gets each piece back.
fn serve(mut out: Out, given: &Receiver<Given>, written: &SyncSender<io::Result<Vec<u8>>>) {
    let mut unsynced = 0;
    while let Ok(given) = given.recv() {
        match given {
            Given::Piece(mut piece) => {
                unsynced += piece.len();
                let mut wrote = out.file().write_all(&piece);
                if unsynced >= SYNC && !out.is_special() {
                    wrote = wrote.and_then(|()| out.file().sync_data());
                    unsynced = 0;
                }
                let failed = wrote.is_err();
                piece.clear();
                // Whoever writes may be gone; it sees an error before it gives anything more.
                if written.send(wrote.map(|()| piece)).is_err() || failed {
                    return;
                }
            }
            Given::Whole(name, tell) => {
                tell.send(out.end(name)).ok();
                return;
            }
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
struct Out {
    file: Kept,
    target: PathBuf,
}

#[derive(Debug)]
enum Kept {
    /// Beside the target.
    Beside(NamedTempFile),
    /// The target itself, which is no file.
    Special(File),
}

impl Out {
    fn create(path: &Path, access: Access) -> Result<Self, FileError> {
        let open = |path: &Path| OpenOptions::new().write(true).open(path);
        let target = match look(path)? {
            Place::Special => {
                let file = open(path).map_err(error("open", path))?;
                return Ok(Self {
                    file: Kept::Special(file),
                    target: path.to_owned(),
                });
            }
            Place::File => {
                // Who may not write to a file may not replace it, and links that the kernel does not follow
                // (fs.protected_symlinks) are not followed here.
                open(path).map_err(error("write", path))?;
                path.canonicalize().map_err(error("write", path))?
            }
            Place::Free => path.to_owned(),
        };
        Self::beside(target, access)
    }

    fn beside(target: PathBuf, access: Access) -> Result<Self, FileError> {
        let mut prefix = OsString::from(".");
        prefix.push(target.file_name().unwrap_or_default());
        prefix.push(".");
        let file = Builder::new()
            .prefix(&prefix)
            .suffix(".part")
            .permissions(Permissions::from_mode(access.mode()))
            .tempfile_in(folder(&target))
            .map_err(error("create", &target))?;
        Ok(Self {
            file: Kept::Beside(file),
            target,
        })
    }

    const fn is_special(&self) -> bool {
        matches!(self.file, Kept::Special(_))
    }

    fn file(&mut self) -> &mut File {
        match &mut self.file {
            Kept::Beside(file) => file.as_file_mut(),
            Kept::Special(file) => file,
        }
    }

    /// Puts everything on the disk and gives the file its name, which it returns.
    fn end(self, name: Name) -> Result<PathBuf, FileError> {
        let target = self.target;
        let Kept::Beside(mut file) = self.file else {
            return Ok(target);
        };
        file.as_file().sync_all().map_err(error("write", &target))?;
        let free = match name {
            Name::Target => {
                file.persist(&target)
                    .map_err(|e| error("create", &target)(e.error))?;
                sync_folder(&target);
                return Ok(target);
            }
            Name::Free(names) => names,
        };
        for path in free {
            match file.persist_noclobber(&path) {
                Ok(_) => {
                    sync_folder(&path);
                    return Ok(path);
                }
                Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => file = e.file,
                Err(e) => return Err(error("create", &path)(e.error)),
            }
        }
        Err(FileError::Exists {
            path: target.display().to_string(),
        })
    }
}

/// Puts a new name on the disk. The content is there already; file systems that cannot do this keep names another way.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder(path)) {
        folder.sync_all().ok();
    }
}

/// Writes a document whole.
pub fn write(path: &Path, access: Access, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = AtomicFile::create(path, access)?;
    file.write_all(bytes).map_err(error("write", path))?;
    file.commit()
}

/// Writes a document whole under the first free name of `stem.ending`, `stem-2.ending`, … in a folder; the name.
pub fn write_free(
    folder: &Path,
    stem: &str,
    ending: &str,
    write: impl FnOnce(&mut AtomicFile) -> io::Result<()>,
) -> Result<String, FileError> {
    let name = |n: u32| match n {
        1 => format!("{stem}.{ending}"),
        n => format!("{stem}-{n}.{ending}"),
    };
    let first = folder.join(name(1));
    let mut file = AtomicFile::beside(first.clone(), Access::Private)?;
    write(&mut file).map_err(error("write", &first))?;
    let names = (1..=NAMES).map(|n| folder.join(name(n))).collect();
    let path = file.whole(Name::Free(names))?;
    Ok(path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned())
}

/// Creates a file that only its owner may read, to be appended to. A name that is taken, be it by a symbolic link, is
/// refused.
pub fn create_new(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists {
                path: path.display().to_string(),
            },
            _ => error("create", path)(e),
        })
}

/// Renames a file to a name that is free, in one step: a name that is taken is an error of kind `AlreadyExists`.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let mut file = TempPath::try_from_path(from)?;
    // It is no temporary file: only its way of being renamed is wanted.
    file.disable_cleanup(true);
    file.persist_noclobber(to).map_err(|e| e.error)
}

/// Which file something is, whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(u64, u64);

impl Identity {
    /// That of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|m| Self::from(&m))
    }
    /// True when `path` itself, not what it links to, is this file.
    pub fn is_at(self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|m| Self::from(&m) == self)
    }
}

impl From<&Metadata> for Identity {
    fn from(m: &Metadata) -> Self {
        Self(m.dev(), m.ino())
    }
}

/// The file at a path, or of standard input or output for `-`; `None` for what is no file.
fn identity(path: &Path, standard: impl AsFd) -> Result<Option<Identity>, FileError> {
    let meta = if path.as_os_str() == "-" {
        standard
            .as_fd()
            .try_clone_to_owned()
            .and_then(|f| File::from(f).metadata())
    } else {
        let its = path.to_owned();
        ask(path, move || std::fs::metadata(its)).map_err(error("look at", path))?
    };
    // Two terminals, or /dev/null twice, are no clash.
    let file = meta.ok().filter(Metadata::is_file);
    Ok(file.map(|m| (&m).into()))
}

/// Refuses an output that is one of the inputs, by whatever name, symbolic link or hard link. `-` is standard output or
/// input.
pub fn distinct<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), FileError> {
    let Some(out) = identity(output, io::stdout())? else {
        return Ok(());
    };
    for input in inputs {
        if identity(input, io::stdin())? == Some(out) {
            return Err(FileError::Input {
                output: output.display().to_string(),
                input: input.display().to_string(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn names(dir: &Path) -> Vec<String> {
        let mut all: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        all.sort();
        all
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.html");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut f = AtomicFile::create(&path, Access::Private).unwrap();
        f.write_all(b"new").unwrap();
        f.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(dir.path()).len(), 2);
        drop(f);
        assert_eq!(names(dir.path()), ["a.html"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let mut f = AtomicFile::create(&path, Access::Private).unwrap();
        f.write_all(b"new").unwrap();
        f.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!((names(dir.path()).len(), mode(&path)), (1, 0o600));
    }

    #[test]
    fn a_symbolic_link_stays_one_and_one_that_leads_nowhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        symlink(&real, &link).unwrap();
        let e = write(&link, Access::Private, b"x").unwrap_err();
        assert!(matches!(e, FileError::Dangling { .. }), "{e}");
        assert!(!real.exists());
        fs::write(&real, "old").unwrap();
        write(&link, Access::Private, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
    }

    #[test]
    fn what_is_no_file_is_written_to_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(Path::new("/dev/null"), Access::Private, b"x").unwrap();
        let e = write(dir.path(), Access::Private, b"x").unwrap_err();
        assert!(matches!(e, FileError::Folder { .. }), "{e}");
        let e = write(&dir.path().join("no/file"), Access::Private, b"x").unwrap_err();
        assert!(e.to_string().contains("no/file"), "{e}");
    }

    #[test]
    fn a_name_that_is_taken_is_never_replaced_by_what_named_itself() {
        let dir = tempfile::tempdir().unwrap();
        let save = |text: &str| {
            write_free(dir.path(), "pod", "txt", |f| f.write_all(text.as_bytes())).unwrap()
        };
        symlink("/nowhere", dir.path().join("pod-2.txt")).unwrap();
        assert_eq!([save("a"), save("b")], ["pod.txt", "pod-3.txt"]);
        assert_eq!(fs::read_to_string(dir.path().join("pod.txt")).unwrap(), "a");
        assert_eq!(names(dir.path()).len(), 3);
    }

    #[test]
    fn new_files_and_new_names_take_nothing_away() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        create_new(&at("a")).unwrap().write_all(b"1").unwrap();
        assert_eq!(mode(&at("a")), 0o600);
        assert!(matches!(
            create_new(&at("a")),
            Err(FileError::Exists { .. })
        ));
        symlink(at("elsewhere"), at("link")).unwrap();
        assert!(matches!(
            create_new(&at("link")),
            Err(FileError::Exists { .. })
        ));
        assert!(!at("elsewhere").exists());
        fs::write(at("b"), "2").unwrap();
        let e = rename_new(&at("a"), &at("b")).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(at("b")).unwrap(), "2");
        let e = rename_new(&at("a"), &at("link")).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::AlreadyExists);
        rename_new(&at("a"), &at("c")).unwrap();
        assert_eq!(names(dir.path()), ["b", "c", "link"]);
    }

    #[test]
    fn an_input_is_never_an_output_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("in"), "x").unwrap();
        fs::write(at("other"), "x").unwrap();
        fs::hard_link(at("in"), at("hard")).unwrap();
        symlink(at("in"), at("soft")).unwrap();
        let inputs = [at("other"), at("in")];
        let inputs = || inputs.iter().map(PathBuf::as_path);
        for output in ["in", "hard", "soft", "../in", "./in"] {
            let output = match output.strip_prefix("../") {
                Some(rest) => dir
                    .path()
                    .join("..")
                    .join(dir.path().file_name().unwrap())
                    .join(rest),
                None => at(output),
            };
            let e = distinct(&output, inputs()).unwrap_err();
            assert!(matches!(e, FileError::Input { .. }), "{e}");
        }
        distinct(&at("new"), inputs()).unwrap();
        distinct(Path::new("/dev/null"), [Path::new("/dev/null")]).unwrap();
    }
}
