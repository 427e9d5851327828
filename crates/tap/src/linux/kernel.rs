//! The kernel's side: the programs of `bpf/tap.bpf.c`, attached to their tracepoints, and their maps.

use std::path::PathBuf;

use aya::maps::{Array, HashMap, Map, MapData, MapError, RingBuf};
use aya::programs::TracePoint;
use aya::{Ebpf, EbpfLoader};

use super::follow::Passed;
use super::node::padded;
use crate::{Error, InKernel};

/// Compiled by `bpf/build.sh`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/tap.bpf.o");

/// Functions of the program and their tracepoints, in the order of attaching: the end of a call before its begin, so
/// that no begin is stored without an end that takes it out.
const POINTS: [(&str, &str, &str, Kernel); 31] = [
    ("exit_write", "syscalls", "sys_exit_write", Every),
    ("exit_writev", "syscalls", "sys_exit_writev", Every),
    ("exit_sendto", "syscalls", "sys_exit_sendto", Every),
    ("exit_sendmsg", "syscalls", "sys_exit_sendmsg", Every),
    ("exit_read", "syscalls", "sys_exit_read", Every),
    ("exit_readv", "syscalls", "sys_exit_readv", Every),
    ("exit_recvfrom", "syscalls", "sys_exit_recvfrom", Every),
    ("exit_recvmsg", "syscalls", "sys_exit_recvmsg", Every),
    ("exit_connect", "syscalls", "sys_exit_connect", Every),
    ("exit_dup", "syscalls", "sys_exit_dup", Every),
    ("exit_dup2", "syscalls", "sys_exit_dup2", Newer),
    ("exit_dup3", "syscalls", "sys_exit_dup3", Every),
    ("exit_fcntl", "syscalls", "sys_exit_fcntl", Every),
    ("process_exit", "sched", "sched_process_exit", Every),
    ("process_exec", "sched", "sched_process_exec", Every),
    ("process_fork", "sched", "sched_process_fork", Every),
    ("enter_close", "syscalls", "sys_enter_close", Every),
    (
        "enter_close_range",
        "syscalls",
        "sys_enter_close_range",
        Newer,
    ),
    ("enter_dup", "syscalls", "sys_enter_dup", Every),
    ("enter_dup2", "syscalls", "sys_enter_dup2", Newer),
    ("enter_dup3", "syscalls", "sys_enter_dup3", Every),
    ("enter_fcntl", "syscalls", "sys_enter_fcntl", Every),
    ("enter_connect", "syscalls", "sys_enter_connect", Every),
    ("enter_write", "syscalls", "sys_enter_write", Every),
    ("enter_writev", "syscalls", "sys_enter_writev", Every),
    ("enter_sendto", "syscalls", "sys_enter_sendto", Every),
    ("enter_sendmsg", "syscalls", "sys_enter_sendmsg", Every),
    ("enter_read", "syscalls", "sys_enter_read", Every),
    ("enter_readv", "syscalls", "sys_enter_readv", Every),
    ("enter_recvfrom", "syscalls", "sys_enter_recvfrom", Every),
    ("enter_recvmsg", "syscalls", "sys_enter_recvmsg", Every),
];

/// The kernels that have a system call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Every,
    /// Not every kernel: arm64 has no dup2, and close_range came with Linux 5.9.
    Newer,
}
use Kernel::{Every, Newer};

/// The ring with the program's records.
pub(crate) type Ring = RingBuf<MapData>;

/// The loaded programs and maps. The kernel removes them when this is dropped or the process ends.
pub(crate) struct Loaded {
    programs: Ebpf,
    ring: Ring,
    maps: Maps,
}

/// The maps that user space reads and writes.
pub(crate) struct Maps {
    processes: HashMap<MapData, u32, u64>,
    descriptors: HashMap<MapData, u64, [u64; 2]>,
    streams: HashMap<MapData, u64, [u64; 4]>,
    paths: HashMap<MapData, [u8; 108], u8>,
    numbers: Array<MapData, u64>,
    generations: u64,
}

fn refused(what: impl Into<String>, e: &dyn std::error::Error) -> Error {
    let mut why = e.to_string();
    let mut cause = e.source();
    while let Some(c) = cause {
        let text = c.to_string();
        if !why.contains(&text) {
            why.push_str(": ");
            why.push_str(&text);
        }
        cause = c.source();
    }
    // A verifier's log has many pages; the cause is at its end, before the statistics.
    let says_why =
        |l: &&str| !l.is_empty() && !l.starts_with("processed ") && !l.starts_with("stack depth");
    let lines: Vec<&str> = why.lines().filter(says_why).collect();
    let short = match lines.as_slice() {
        [first, .., one, two, three] => format!("{first} … {one} {two} {three}"),
        short => short.join(" "),
    };
    Error::Refused {
        what: what.into(),
        why: short.chars().take(500).collect(),
    }
}

impl Loaded {
    /// Loads the programs and maps into the kernel, which verifies them. Nothing runs yet.
    pub(crate) fn load() -> Result<Self, Error> {
        let mut programs = EbpfLoader::new()
            .btf(None)
            .load(OBJECT)
            .map_err(|e| refused("the tap's maps", &e))?;
        for (name, ..) in POINTS {
            point(&mut programs, name)?
                .load()
                .map_err(|e| refused(format!("the program {name}"), &e))?;
        }
        let ring = taken(&mut programs, "ring")?;
        let maps = Maps {
            processes: taken(&mut programs, "processes")?,
            descriptors: taken(&mut programs, "descriptors")?,
            streams: taken(&mut programs, "streams")?,
            paths: taken(&mut programs, "paths")?,
            numbers: taken(&mut programs, "numbers")?,
            generations: 0,
        };
        Ok(Self {
            programs,
            ring,
            maps,
        })
    }

    /// Attaches the programs. Connections to these paths are watched from their first byte.
    pub(crate) fn attach(&mut self, paths: &[PathBuf]) -> Result<(), Error> {
        self.maps
            .numbers
            .set(0, u64::from(std::process::id()), 0)
            .map_err(|e| refused("an entry of a map", &e))?;
        for (name, category, event, kernel) in POINTS {
            if let Err(e) = point(&mut self.programs, name)?.attach(category, event) {
                if kernel == Newer && !super::needs::has_tracepoint(category, event) {
                    continue;
                }
                return Err(refused(format!("the tracepoint {category}:{event}"), &e));
            }
        }
        self.maps.look_for(paths)
    }

    /// Returns the ring and the maps, to be used side by side. The programs run as long as `self` lives.
    pub(crate) fn parts(&mut self) -> (&mut Ring, &mut Maps) {
        (&mut self.ring, &mut self.maps)
    }
}

/// The names of the maps in `bpf/tap.bpf.c`.
const MAPS: [&str; 8] = [
    "ring",
    "processes",
    "descriptors",
    "streams",
    "entered",
    "paths",
    "cursors",
    "numbers",
];

/// Returns the programs and maps of all taps in this kernel, whichever process loaded them. Empty without
/// the right to ask.
pub fn loaded() -> InKernel {
    // The kernel keeps 15 bytes of a program's name.
    let is_program =
        |name: &str| (POINTS.iter()).any(|(own, ..)| own.get(..15).unwrap_or(own) == name);
    // An entry that cannot be read was removed meanwhile.
    let mut programs: Vec<u32> = aya::programs::loaded_programs()
        .flatten()
        .filter(|p| p.name_as_str().is_some_and(is_program))
        .map(|p| p.id())
        .collect();
    programs.sort_unstable();
    let maps = aya::maps::loaded_maps().flatten();
    let maps = maps.filter(|m| m.name_as_str().is_some_and(|name| MAPS.contains(&name)));
    let links = aya::programs::loaded_links().flatten();
    let links = links.filter(|l| programs.binary_search(&l.program_id()).is_ok());
    let (maps, links) = (maps.count(), links.count());
    InKernel {
        programs,
        maps,
        links,
    }
}

fn point<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut TracePoint, Error> {
    let absent = || Error::Refused {
        what: format!("the program {name}"),
        why: "it is not in the object".into(),
    };
    let program = programs.program_mut(name).ok_or_else(absent)?;
    program.try_into().map_err(|e| refused(name, &e))
}

fn taken<T: TryFrom<Map, Error = MapError>>(programs: &mut Ebpf, name: &str) -> Result<T, Error> {
    let map = programs.take_map(name).ok_or_else(|| Error::Refused {
        what: format!("the map {name}"),
        why: "it is not in the object".into(),
    })?;
    T::try_from(map).map_err(|e| refused(format!("the map {name}"), &e))
}

/// BPF_NOEXIST: only insert a new entry (include/uapi/linux/bpf.h).
const NOEXIST: u64 = 1;

/// Joins process and descriptor to a key, as the program does.
fn key(process: u32, descriptor: u32) -> u64 {
    (u64::from(process) << 32) | u64::from(descriptor)
}

impl Maps {
    /// Watches connections to these paths too.
    pub(crate) fn look_for(&mut self, paths: &[PathBuf]) -> Result<(), Error> {
        for path in paths.iter().filter_map(|p| padded(p)) {
            self.paths
                .insert(path, 1, 0)
                .map_err(|e| refused("an entry of a map", &e))?;
        }
        Ok(())
    }

    /// Returns the stream that a descriptor is watched as; `None` when it is not watched.
    fn watched(&self, process: u32, descriptor: u32) -> Option<u64> {
        let generation = self.processes.get(&process, 0).ok()?;
        let [stream, of] = self.descriptors.get(&key(process, descriptor), 0).ok()?;
        (of == generation).then_some(stream)
    }

    pub(crate) fn watch(&mut self, process: u32, descriptor: u32, stream: u64) -> bool {
        if let Some(as_stream) = self.watched(process, descriptor) {
            return as_stream == stream;
        }
        // The program's own generations are nanoseconds since boot, and never as small as these.
        self.generations += 1;
        // The insertion fails if the process has a generation, which is read below.
        drop(self.processes.insert(process, self.generations, NOEXIST));
        let Ok(generation) = self.processes.get(&process, 0) else {
            return false;
        };
        drop(self.streams.insert(stream, [0; 4], NOEXIST));
        let key = key(process, descriptor);
        // An entry of an earlier generation.
        drop(self.descriptors.remove(&key));
        self.descriptors
            .insert(key, [stream, generation], NOEXIST)
            .is_ok()
    }

    pub(crate) fn unwatch(&mut self, process: u32, descriptor: u32, stream: u64) {
        let key = key(process, descriptor);
        if self
            .descriptors
            .get(&key, 0)
            .is_ok_and(|[s, _]| s == stream)
        {
            // The program may have removed the entry when the descriptor was closed.
            drop(self.descriptors.remove(&key));
        }
    }

    pub(crate) fn passed(&self, stream: u64) -> Option<Passed> {
        // `struct stream`: two numbers of 64 bits, then four of 32.
        let [sent, received, writes, _] = self.streams.get(&stream, 0).ok()?;
        let writes = writes.to_ne_bytes();
        Some(Passed {
            bytes: [sent, received],
            begun: u32::from_ne_bytes(*writes.first_chunk()?),
            done: u32::from_ne_bytes(*writes.last_chunk()?),
        })
    }

    pub(crate) fn forget(&mut self, stream: u64) {
        drop(self.streams.remove(&stream));
    }

    /// Returns the number of records without bytes that had no room in the ring so far.
    pub(crate) fn untold(&self) -> u64 {
        self.numbers.get(&1, 0).unwrap_or_default()
    }
}
