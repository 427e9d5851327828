//! Files that kflow writes: each appears complete or not at all, and none replaces a file that it must not.
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
//! A file system that does not answer is an error ([`patient`](crate::patient)), except that [`create_new`] and
//! [`rename_new`] wait for it without a limit: the recorder calls them on a thread of its own.

mod atomic;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use tempfile::TempPath;

use crate::patient::ask;
pub use atomic::AtomicFile;
use atomic::Name;

/// How many names are tried before the search for a free one ends with an error.
const NAMES: u32 = 1000;

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system call failed.
    #[error("cannot {op} {path}: {source}")]
    Io {
        /// The operation: `create`, `write`, `rename`.
        op: &'static str,
        path: String,
        source: io::Error,
    },
    /// A file of that name exists.
    #[error("{path} exists: give another name, or move it away")]
    Exists { path: String },
    /// The path is a folder.
    #[error("cannot write {path}: it is a folder: name a file in it")]
    Folder { path: String },
    /// The path is a symbolic link whose target does not exist.
    #[error(
        "cannot write {path}: it is a symbolic link to a file that does not exist: name that file"
    )]
    Dangling { path: String },
    /// The output is the same file as one of the inputs.
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
    /// Everyone whom the umask allows: manual pages, pictures of the documentation.
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

/// What exists at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// There is no file of that name.
    Free,
    File,
    /// A pipe, a socket or a device: kflow writes into it and does not replace it.
    Special,
}

/// Returns what exists at `path`; an error when nothing can be written there.
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

/// Returns the folder that contains `path`, `.` for a bare name.
fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Writes `bytes` to `path` as a complete document, see [`AtomicFile`].
pub fn write(path: &Path, access: Access, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = AtomicFile::create(path, access)?;
    file.write_all(bytes).map_err(error("write", path))?;
    file.commit()
}

/// Writes a complete document under the first free name of `stem.ending`, `stem-2.ending`, … in `folder`, and returns
/// that name.
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

/// Creates a file for appending that only its owner may read. A name that is taken, even by a
/// symbolic link, is refused.
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

/// Renames a file to a free name in one step. When the name is taken, the error is of kind `AlreadyExists`.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let mut file = TempPath::try_from_path(from)?;
    // `from` is not a temporary file; `TempPath` is used only for its rename that never replaces a file.
    file.disable_cleanup(true);
    file.persist_noclobber(to).map_err(|e| e.error)
}

/// Identity of a file whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(u64, u64);

impl Identity {
    /// Returns the identity of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|m| Self::from(&m))
    }
    /// True when `path` itself, not the target of a symbolic link there, is this file.
    pub fn is_at(self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|m| Self::from(&m) == self)
    }
}

impl From<&Metadata> for Identity {
    fn from(m: &Metadata) -> Self {
        Self(m.dev(), m.ino())
    }
}

/// Returns the identity of the file at `path`, or of `standard` when `path` is `-`; `None` for anything
/// but a regular file.
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
    // An output that is the same terminal as an input, or /dev/null as well, is no conflict.
    let file = meta.ok().filter(Metadata::is_file);
    Ok(file.map(|m| (&m).into()))
}

/// Refuses an output that is the same file as one of the inputs, whatever the name, symbolic link or hard link. `-` is
/// standard output or standard input.
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
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

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
