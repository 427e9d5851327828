//! Finds clients in other network namespaces than this process's. The kernel lists unix sockets by network namespace
//! (`unix_diag_dump`, `unix_seq_ops`), so sock_diag in a pod does not list the kubelet's.
//!
//! `/proc/PID/net/unix` lists the sockets of a process's namespace and needs no capability. It shows by their names
//! which sockets the runtime accepted, but not their peers. Where it shows new ones, the descriptors of all processes
//! of that namespace are borrowed one by one for a look at their peer's name (`pidfd_getfd`, which needs
//! CAP_SYS_PTRACE; entering a namespace would need CAP_SYS_ADMIN).

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, getpeername};

use super::node::{Holder, Target, borrowed, inode, numbers};
use super::run::TRIES;

/// The type of a stream socket in `/proc/net/unix`.
const STREAM: &str = "0001";
/// `__SO_ACCEPTCON` of a socket's flags (include/uapi/linux/net.h): the socket listens.
const LISTENS: u32 = 1 << 16;

/// The state of the search.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// Sockets that the runtime accepted, with the number of searches for their clients.
    tries: FxHashMap<u64, u32>,
    /// The error of the last search when a descriptor could not be borrowed.
    refused: Option<Errno>,
}

impl Apart {
    /// True while a search may have missed a client, so that the next one is due soon.
    pub(crate) fn seeks(&self) -> bool {
        self.tries.values().any(|n| *n < TRIES)
    }

    /// Returns descriptors in other namespaces that lead to the runtime and are not yet known.
    pub(crate) fn look(&mut self, target: &Target, known: &FxHashSet<u64>) -> Vec<Holder> {
        let Some(own) = network("self") else {
            return Vec::new();
        };
        let mut namespaces: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
        for process in numbers("/proc") {
            if let Some(its) = network(&process.to_string()).filter(|n| *n != own) {
                namespaces.entry(its).or_default().push(process);
            }
        }
        let mut there = FxHashSet::default();
        let mut found = Vec::new();
        for processes in namespaces.into_values() {
            // A process that has ended meanwhile has no list.
            let list = |p: &u32| fs::read(format!("/proc/{p}/net/unix")).ok();
            let Some(list) = processes.iter().find_map(list) else {
                continue;
            };
            let sockets = Sockets::of(&list, target);
            let untried = |i: &&u64| self.tries.get(i).is_none_or(|n| *n < TRIES);
            let wanted = sockets.accepted.iter().filter(untried).count();
            there.extend(sockets.accepted.iter().copied());
            if wanted == 0 {
                continue;
            }
            for i in sockets.accepted {
                *self.tries.entry(i).or_default() += 1;
            }
            self.refused = None;
            for process in processes {
                self.search(process, &sockets.unnamed, known, target, &mut found);
            }
        }
        self.tries.retain(|inode, _| there.contains(inode));
        found
    }

    /// Appends the descriptors of a process that lead to the runtime. A peer that has gone has no name.
    fn search(
        &mut self,
        process: u32,
        unnamed: &FxHashSet<u64>,
        known: &FxHashSet<u64>,
        target: &Target,
        found: &mut Vec<Holder>,
    ) {
        for descriptor in numbers(&format!("/proc/{process}/fd")) {
            let its = inode(process, descriptor);
            let Some(its) = its.filter(|i| unnamed.contains(i) && !known.contains(i)) else {
                continue;
            };
            let holder = (process, descriptor, its);
            match borrowed(holder) {
                Ok(socket) => {
                    let peer = getpeername(&socket).ok().flatten();
                    let peer = peer.and_then(|p| SocketAddrUnix::try_from(p).ok());
                    if peer.is_some_and(|p| p.path_bytes().is_some_and(|p| target.is_named(p))) {
                        found.push(holder);
                    }
                }
                // The descriptor was closed meanwhile.
                Err(Errno::SRCH | Errno::BADF | Errno::STALE) => {}
                Err(e) => self.refused = Some(e),
            }
        }
    }

    /// Returns why existing connections may not have been found, in words; empty without a reason.
    pub(crate) fn status(&self) -> String {
        self.refused.map_or_else(String::new, |e| {
            format!(
                "connections from before in other network namespaces cannot be found: pidfd_getfd: {e} (CAP_SYS_PTRACE, and kernel.yama.ptrace_scope below 3)"
            )
        })
    }
}

/// Returns a number that identifies the network namespace of a process (`self`, or its id): the inode of a file that
/// each namespace has. `/proc/PID/ns/net` would need the right to trace the process.
pub fn network(process: &str) -> Option<u64> {
    let list = format!("/proc/{process}/net/unix");
    fs::metadata(list).ok().map(|m| m.ino())
}

/// The stream sockets of a network namespace, by inode.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sockets {
    /// Sockets that were accepted on the runtime's socket.
    accepted: Vec<u64>,
    /// Sockets without a name, as those of clients.
    unnamed: FxHashSet<u64>,
}

impl Sockets {
    /// Parses `/proc/PID/net/unix` (`unix_seq_show`): `Num RefCount Protocol Flags Type St Inode Path`. Malformed rows
    /// are left out: a name with a line break is split into two rows.
    fn of(list: &[u8], target: &Target) -> Self {
        let mut all = Self::default();
        for row in list.split(|b| *b == b'\n') {
            let mut columns = row.splitn(2, |b| *b == b':');
            let Some(rest) = columns.nth(1) else { continue };
            let Some((head, name)) = parted(rest) else {
                continue;
            };
            let [_, _, flags, kind, _, inode] = head;
            let (Ok(flags), Ok(inode)) = (u32::from_str_radix(flags, 16), inode.parse()) else {
                continue;
            };
            if kind != STREAM || flags & LISTENS != 0 {
                continue;
            }
            if name.is_empty() {
                all.unnamed.insert(inode);
            } else if target.is_named(name) {
                all.accepted.push(inode);
            }
        }
        all
    }
}

/// Returns the six columns after the first, and the name.
fn parted(row: &[u8]) -> Option<([&str; 6], &[u8])> {
    let mut columns = [""; 6];
    let mut rest = row;
    for column in &mut columns {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace);
        let (this, more) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        *column = std::str::from_utf8(this).ok().filter(|c| !c.is_empty())?;
        rest = more;
    }
    Some((columns, rest.strip_prefix(b" ").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;

    #[test]
    fn a_list_of_sockets_is_read() {
        // A list of Linux 6.18, of a kubelet with two connections; the last rows are made up.
        let list = b"Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 2194461 /no/run/cri-tee.sock
0000000000000000: 00000003 00000000 00000000 0001 03 2194789 /no/run/cri-tee.sock
0000000000000000: 00000003 00000000 00000000 0001 03 2194788
0000000000000000: 00000002 00000000 00000000 0002 01 9001
0000000000000000: 00000003 00000000 00000000 0001 03  9002 @/no/run/cri-tee.sock
0000000000000000: 00000003 00000000 00000000 0001 03 x /no/run/cri-tee.sock
/no/run/cri-tee.sock
";
        let target = Target::of(Path::new("/no/run/cri-tee.sock"));
        assert_eq!(
            Sockets::of(list, &target),
            Sockets {
                accepted: vec![2_194_789],
                unnamed: FxHashSet::from_iter([2_194_788]),
            }
        );
    }

    #[test]
    fn clients_are_found_by_the_name_of_their_peer() {
        let dir = tempfile::tempdir().unwrap();
        let socket = |name: &str| {
            let listener = UnixListener::bind(dir.path().join(name)).unwrap();
            let client = UnixStream::connect(dir.path().join(name)).unwrap();
            let accepted = listener.accept().unwrap();
            (client, accepted, listener)
        };
        let (runtime, other) = (socket("r.sock"), socket("s.sock"));
        let target = Target::of(&dir.path().join("r.sock"));
        let list = fs::read("/proc/self/net/unix").unwrap();
        let sockets = Sockets::of(&list, &target);
        assert_eq!(sockets.accepted.len(), 1);

        let own = std::process::id();
        let number = u32::try_from(runtime.0.as_raw_fd()).unwrap();
        let its = inode(own, number).unwrap();
        let (mut apart, mut found) = (Apart::default(), Vec::new());
        let none = FxHashSet::default();
        apart.search(own, &sockets.unnamed, &none, &target, &mut found);
        assert_eq!(found, [(own, number, its)]);
        assert_eq!(apart.status(), "");
        found.clear();
        let known = FxHashSet::from_iter([its]);
        apart.search(own, &sockets.unnamed, &known, &target, &mut found);
        assert_eq!(found, []);
        drop((runtime, other));
    }

    #[test]
    fn a_namespace_is_told_from_another() {
        assert!(network("self").is_some());
        assert_eq!(network("self"), network(&std::process::id().to_string()));
    }
}
