//! Unix sockets that only their owner can reach: mode 0600 in a folder of mode 0700, one process at a time. Stale
//! sockets are taken over.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use kflow_model::patient;
use rustix::fs::{FlockOperation, flock};

/// Why a socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path has no folder or no file name.
    #[error("{0} is not a path to a socket: give one like /run/kflow/cri.sock")]
    Path(PathBuf),
    /// Other users can enter the folder.
    #[error(
        "folder {dir} has mode {mode:03o} and owner {uid}: others could reach the socket; use a folder of its own, or chmod 700 and chown it to {me}"
    )]
    Folder {
        dir: PathBuf,
        mode: u32,
        /// Owner of the folder.
        uid: u32,
        /// User id that kflow runs as.
        me: u32,
    },
    /// Another kflow process holds the lock.
    #[error("another kflow serves {0}: stop it first (its lock file is held)")]
    Held(PathBuf),
    /// A process that is not kflow listens on the path.
    #[error(
        "somebody listens on {0} already: a live socket is never taken over; choose another path"
    )]
    Live(PathBuf),
    /// Something that is not a socket has the path.
    #[error("{0} exists and is not a socket: move it away or choose another path")]
    NotASocket(PathBuf),
    /// A system call failed.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// A path on which only this process may listen. While this value lives, the lock is held; when it is dropped, the path
/// is removed.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    staging: PathBuf,
    // Held, never read: closing the file releases the lock.
    _lock: File,
}

impl Socket {
    /// Creates the folder if it is missing, takes the lock, and removes a stale socket. Does not listen yet.
    pub fn claim(path: &Path) -> Result<Self, Error> {
        let its = path.to_path_buf();
        patient::ask(path, move || Self::claim_now(&its)).map_err(io_error("look at", path))?
    }

    fn claim_now(path: &Path) -> Result<Self, Error> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Err(Error::Path(path.to_path_buf()));
        };
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        private_folder(dir)?;

        let lock_path = dir.join(format!("{name}.lock"));
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(io_error("open the lock file", &lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::Held(path.to_path_buf())),
            Err(e) => return Err(io_error("lock", &lock_path)(e.into())),
        }

        match fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(Error::NotASocket(path.to_path_buf()));
            }
            // The lock was free, so no kflow serves the path; but another program, such as a runtime, might.
            Ok(_) => match UnixStream::connect(path) {
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(io_error("remove the stale socket", path))?;
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Ok(_) | Err(_) => return Err(Error::Live(path.to_path_buf())),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io_error("look at", path)(e)),
        }
        Ok(Self {
            path: path.to_path_buf(),
            staging: dir.join(format!(".{name}.new")),
            _lock: lock,
        })
    }

    /// Listens on the path. The socket is bound under another name first, so that it appears with its final mode. May
    /// be called again after the listener was dropped.
    pub fn listen(&self) -> Result<UnixListener, Error> {
        let (path, staging) = (self.path.clone(), self.staging.clone());
        patient::ask(&self.path, move || listen(&path, &staging))
            .map_err(io_error("listen on", &self.path))?
    }

    /// Removes the path, so that a new client gets "no such file".
    pub fn unlink(&self) {
        // Errors do not matter: the path may be gone already, and a stale socket is taken over.
        let path = self.path.clone();
        drop(patient::ask(&self.path, move || fs::remove_file(path)));
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.unlink();
    }
}

fn listen(path: &Path, staging: &Path) -> Result<UnixListener, Error> {
    match fs::remove_file(staging) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(io_error("remove", staging)(e));
        }
        _ => {}
    }
    let listener = UnixListener::bind(staging).map_err(io_error("listen on", path))?;
    listener
        .set_nonblocking(true)
        .map_err(io_error("listen on", path))?;
    fs::set_permissions(staging, fs::Permissions::from_mode(0o600))
        .map_err(io_error("chmod", path))?;
    fs::rename(staging, path).map_err(io_error("listen on", path))?;
    Ok(listener)
}

fn private_folder(dir: &Path) -> Result<(), Error> {
    if !dir.exists() {
        fs::DirBuilder::new()
            .mode(0o700)
            .create(dir)
            .map_err(io_error("make the folder", dir))?;
    }
    let meta = fs::metadata(dir).map_err(io_error("look at the folder", dir))?;
    let me = rustix::process::geteuid().as_raw();
    let mode = meta.mode() & 0o777;
    if mode.trailing_zeros() < 6 || meta.uid() != me {
        return Err(Error::Folder {
            dir: dir.to_path_buf(),
            mode,
            uid: meta.uid(),
            me,
        });
    }
    Ok(())
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { what, path, source }
}

/// True when a process with this user id may use the socket: root, or the user that kflow runs as.
pub fn may_use(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let d = tempfile::tempdir().unwrap();
        fs::set_permissions(d.path(), fs::Permissions::from_mode(0o700)).unwrap();
        d
    }

    #[test]
    fn a_socket_is_0600_in_a_0700_folder_and_goes_when_dropped() {
        let d = folder();
        let path = d.path().join("run/cri.sock");
        let socket = Socket::claim(&path).unwrap();
        let _listener = socket.listen().unwrap();
        let mode = |p: &Path| fs::metadata(p).unwrap().mode() & 0o777;
        for file in fs::read_dir(path.parent().unwrap()).unwrap() {
            let file = file.unwrap().path();
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let d = folder();
        let open = d.path().join("open");
        fs::create_dir(&open).unwrap();
        for mode in [0o755, 0o710, 0o701] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let e = Socket::claim(&open.join("cri.sock")).unwrap_err();
            assert!(matches!(e, Error::Folder { .. }), "{mode:o}: {e}");
        }
    }

    #[test]
    fn a_stale_socket_is_taken_over() {
        let d = folder();
        let path = d.path().join("cri.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = Socket::claim(&path).unwrap();
        let _listener = socket.listen().unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_live_socket_is_never_taken_over() {
        let d = folder();
        let path = d.path().join("cri.sock");
        let other = UnixListener::bind(&path).unwrap();
        assert!(matches!(Socket::claim(&path), Err(Error::Live(_))));
        drop(other);
    }

    #[test]
    fn a_second_kflow_is_refused_even_while_the_first_does_not_listen() {
        let d = folder();
        let path = d.path().join("cri.sock");
        let first = Socket::claim(&path).unwrap();
        assert!(matches!(Socket::claim(&path), Err(Error::Held(_))));
        drop(first);
        Socket::claim(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let d = folder();
        let path = d.path().join("cri.sock");
        fs::write(&path, "data").unwrap();
        assert!(matches!(Socket::claim(&path), Err(Error::NotASocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn listening_again_replaces_a_dropped_listener() {
        let d = folder();
        let path = d.path().join("cri.sock");
        let socket = Socket::claim(&path).unwrap();
        drop(socket.listen().unwrap());
        assert_eq!(
            UnixStream::connect(&path).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        let _again = socket.listen().unwrap();
        UnixStream::connect(&path).unwrap();
    }
}
