//! Finds the sockets and descriptors of this machine that lead to the runtime, with sock_diag and /proc.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla as _,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::unix::nlas::{Nla, UnixDiagName};
use netlink_packet_sock_diag::unix::{ShowFlags, StateFlags, UnixRequest, UnixResponse};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use rustc_hash::FxHashSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// How long the kernel may take to answer a request for its sockets.
const PATIENCE: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// The runtime's socket, under all its paths.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The known paths.
    pub(crate) paths: Vec<PathBuf>,
    /// The socket's file as sock_diag reports it, inode and device, which finds a socket that was renamed
    /// after it was bound.
    file: Option<[u32; 2]>,
}

impl Target {
    /// Resolves the socket at this path as of now.
    pub(crate) fn of(path: &Path) -> Self {
        let mut paths = vec![path.to_path_buf()];
        paths.extend(real_folder(path));
        paths.extend(fs::canonicalize(path));
        paths.extend(as_its_root_has_it(path));
        // Distributions with systemd have /var/run as a link to /run, and both spellings are in use.
        for (from, to) in [("/run", "/var/run"), ("/var/run", "/run")] {
            let others: Vec<PathBuf> = paths
                .iter()
                .filter_map(|p| Some(Path::new(to).join(p.strip_prefix(from).ok()?)))
                .collect();
            paths.extend(others);
        }
        paths.sort();
        paths.dedup();
        let file = fs::metadata(path).ok().map(|m| {
            let (major, minor) = (rustix::fs::major(m.dev()), rustix::fs::minor(m.dev()));
            // The kernel's encoding of a device: MKDEV, include/linux/kdev_t.h.
            [m.ino() as u32, (major << 20) | minor]
        });
        Self { paths, file }
    }

    /// True for a socket that the runtime bound, or that it accepted on such a socket.
    fn is(&self, socket: &UnixResponse) -> bool {
        let named = socket.name().is_some_and(|name| match name {
            UnixDiagName::Pathname(name) => self.is_named(name.as_bytes()),
            UnixDiagName::Abstract(_) => false,
        });
        named || (self.file.is_some() && file_of(socket) == self.file)
    }

    /// True for one of the known paths.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.paths.iter().any(|p| p.as_os_str().as_bytes() == name)
    }
}

/// Returns the inode and device of the file that a socket was bound to. The netlink crate parses them but only offers
/// their bytes.
fn file_of(socket: &UnixResponse) -> Option<[u32; 2]> {
    let file = socket.nlas.iter().find(|n| matches!(n, Nla::Vfs(_)))?;
    let mut bytes = [0; 8];
    if file.value_len() != bytes.len() {
        return None;
    }
    file.emit_value(&mut bytes);
    let (inode, device) = bytes.split_first_chunk()?;
    Some([
        u32::from_ne_bytes(*inode),
        u32::from_ne_bytes(*device.first_chunk()?),
    ])
}

/// Returns the path as seen from the root that it goes through: what follows `/proc/PID/root` or `/proc/self/fd/N`.
fn as_its_root_has_it(path: &Path) -> Option<PathBuf> {
    let mut parts = path.strip_prefix("/proc").ok()?.components();
    parts.next()?;
    match parts.next()?.as_os_str().to_str()? {
        "root" => {}
        "fd" => {
            parts.next()?;
        }
        _ => return None,
    }
    Some(Path::new("/").join(parts.as_path()))
}

/// Returns the path with the links of its folder resolved. The socket itself need not exist.
fn real_folder(path: &Path) -> Option<PathBuf> {
    let folder = fs::canonicalize(path.parent()?).ok()?;
    Some(folder.join(path.file_name()?))
}

/// Returns a path as the kernel's program compares it: padded with zeros to the size of `sun_path`. `None` for a path
/// that is too long, to which nothing can connect.
pub(crate) fn padded(path: &Path) -> Option<[u8; 108]> {
    let mut all = [0; 108];
    let bytes = path.as_os_str().as_bytes();
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(all)
}

/// Returns the inodes of the clients' ends of all connections to the runtime's socket.
pub(crate) fn clients(target: &Target) -> io::Result<FxHashSet<u64>> {
    let mut inodes = FxHashSet::default();
    list(|socket| {
        if target.is(socket)
            && let Some(peer) = socket.peer()
        {
            inodes.insert(u64::from(peer));
        }
    })?;
    Ok(inodes)
}

/// Calls `each` for every established unix socket of this network namespace.
fn list(mut each: impl FnMut(&UnixResponse)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = UnixRequest {
        state_flags: StateFlags::ESTABLISHED,
        inode: 0,
        show_flags: ShowFlags::NAME | ShowFlags::PEER | ShowFlags::VFS,
        cookie: [0xff; 8],
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::UnixRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    loop {
        let mut ready = [PollFd::new(&socket, PollFlags::IN)];
        if poll(&mut ready, Some(&PATIENCE))? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "no answer within 2 s",
            ));
        }
        let (answer, _) = socket.recv_from_full()?;
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            let Ok(message) = NetlinkMessage::<SockDiagMessage>::deserialize(rest) else {
                // The crate cannot read this socket's name, or the rest is incomplete.
                rest = skipped(rest).unwrap_or_default();
                continue;
            };
            match &message.payload {
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(e) => return Err(e.to_io()),
                NetlinkPayload::InnerMessage(SockDiagMessage::UnixResponse(socket)) => each(socket),
                _ => {}
            }
            let length = (message.header.length as usize).next_multiple_of(4).max(16);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

/// Returns what follows the first message.
fn skipped(bytes: &[u8]) -> Option<&[u8]> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    bytes.get(length.max(16).next_multiple_of(4)..)
}

/// Returns the inode of the socket that a descriptor leads to; `None` when it leads to something else.
pub(crate) fn inode(process: u32, descriptor: u32) -> Option<u64> {
    of_link(&fs::read_link(format!("/proc/{process}/fd/{descriptor}")).ok()?)
}

/// Parses `socket:[4711]`.
fn of_link(link: &Path) -> Option<u64> {
    let text = link.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

/// Returns the name of a process's program, empty when it is gone or hidden.
pub(crate) fn name(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns the names of a folder's entries that are numbers.
pub(crate) fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

/// A descriptor: process, number, inode of its socket.
pub(crate) type Holder = (u32, u32, u64);

/// Duplicates another process's socket into this one. Fails with ESTALE when the descriptor leads
/// to another socket now.
pub(crate) fn borrowed((process, descriptor, inode): Holder) -> rustix::io::Result<OwnedFd> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let number = i32::try_from(descriptor).map_err(|_| Errno::BADF)?;
    let process = pidfd_open(process.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?;
    if rustix::fs::fstat(&socket)?.st_ino != inode {
        return Err(Errno::STALE);
    }
    Ok(socket)
}

/// Returns the descriptors of all other processes that lead to one of these sockets.
pub(crate) fn holders(inodes: &FxHashSet<u64>) -> Vec<Holder> {
    if inodes.is_empty() {
        return Vec::new();
    }
    let own = std::process::id();
    numbers("/proc")
        .filter(|p| *p != own)
        .flat_map(|p| holds(p, inodes))
        .collect()
}

/// Returns the descriptors of a process that lead to one of these sockets.
pub(crate) fn holds(process: u32, inodes: &FxHashSet<u64>) -> Vec<Holder> {
    numbers(&format!("/proc/{process}/fd"))
        .filter_map(|d| {
            Some((
                process,
                d,
                inode(process, d).filter(|i| inodes.contains(i))?,
            ))
        })
        .collect()
}

/// Returns the processes that this one created. A kernel without CONFIG_PROC_CHILDREN does not list them; then every
/// process is asked for its parent.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let tasks = format!("/proc/{process}/task");
    let lists: io::Result<Vec<String>> = numbers(&tasks)
        .map(|task| fs::read_to_string(format!("{tasks}/{task}/children")))
        .filter(|list| {
            // A thread that has ended has no list.
            let gone = list
                .as_ref()
                .is_err_and(|e| e.raw_os_error() == Some(ESRCH));
            !gone
        })
        .collect();
    if let Ok(lists) = lists {
        let all = lists.iter().flat_map(|l| l.split_whitespace());
        return all.filter_map(|p| p.parse().ok()).collect();
    }
    numbers("/proc")
        .filter(|p| {
            let stat = fs::read_to_string(format!("/proc/{p}/stat")).unwrap_or_default();
            parent(&stat) == Some(process)
        })
        .collect()
}

/// "No such process" (include/uapi/asm-generic/errno-base.h).
const ESRCH: i32 = 3;

/// Parses the parent in `/proc/PID/stat`, which follows a name that may contain anything.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn what_proc_says_is_read() {
        assert_eq!(of_link(Path::new("socket:[4711]")), Some(4711));
        for other in ["pipe:[4711]", "socket:[4711", "/dev/null", "socket:[]"] {
            assert_eq!(of_link(Path::new(other)), None, "{other}");
        }
        assert_eq!(parent("12 (a) b) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent("12 (a"), None);
    }

    #[test]
    fn children_of_a_process_are_found() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children(std::process::id()).contains(&child.id()));
    }

    #[test]
    fn a_path_is_known_by_all_its_spellings() {
        let run = Target::of(Path::new("/run/no-such-runtime/r.sock"));
        assert!(
            run.paths
                .contains(&"/var/run/no-such-runtime/r.sock".into())
        );
        let var = Target::of(Path::new("/var/run/no-such-runtime/r.sock"));
        assert_eq!(run.paths, var.paths);
        for root in ["/proc/1/root", "/proc/self/fd/7"] {
            let of_root = Target::of(Path::new(&format!("{root}/run/no-such-runtime/r.sock")));
            assert!(
                run.paths.iter().all(|p| of_root.paths.contains(p)),
                "{root}"
            );
        }
        assert_eq!(as_its_root_has_it(Path::new("/run/r.sock")), None);
        assert_eq!(
            padded(Path::new("/a")).map(|p| (p[0], p[1], p[2])),
            Some((b'/', b'a', 0))
        );
        assert_eq!(padded(Path::new(&format!("/{}", "x".repeat(108)))), None);
    }

    #[test]
    fn clients_of_a_socket_are_found_by_any_spelling() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.sock");
        // kflow's proxy binds its socket under one name and renames it.
        let listener = UnixListener::bind(dir.path().join("new.sock")).unwrap();
        fs::rename(dir.path().join("new.sock"), &path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let accepted = listener.accept().unwrap();
        let other = UnixListener::bind(dir.path().join("s.sock")).unwrap();
        let stranger = UnixStream::connect(dir.path().join("s.sock")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();

        let own = std::process::id();
        let fd = |s: &UnixStream| u32::try_from(std::os::fd::AsRawFd::as_raw_fd(s)).unwrap();
        let wanted = inode(own, fd(&client)).unwrap();
        for spelling in ["r.sock", "link/r.sock"] {
            let target = Target::of(&dir.path().join(spelling));
            let found = match clients(&target) {
                Ok(found) => found,
                Err(e) => {
                    eprintln!("LEFT OUT: no sock_diag here: {e}");
                    return;
                }
            };
            assert_eq!(found, FxHashSet::from_iter([wanted]), "{spelling}");
            assert_eq!(holds(own, &found), [(own, fd(&client), wanted)]);
        }
        drop((accepted, other, stranger));
    }
}
