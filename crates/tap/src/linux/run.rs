//! The thread that reads the ring and decodes the records.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kflow_model::{Nanos, Observation, clock};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::apart::Apart;
use super::follow::{Follower, HOLD, Node, Passed, QUIET};
use super::kernel::{Loaded, Maps, Ring};
use super::needs;
use super::node::{self, Target};
use super::reconnect::Reconnect;
use super::time::Offset;
use crate::{Config, Error, Handed, record};

/// How long records gather after the first. The kernel wakes this thread only when it has read everything, so clients
/// pay for one wake-up instead of one per call.
const GATHER: Duration = Duration::from_millis(10);
/// How long the thread waits for records before it checks what the follower holds back.
const SETTLE: Duration = Duration::from_millis(250);
/// Interval of the search for descriptors that lead to the runtime, and of the check of the known ones.
const LOOK: Duration = Duration::from_secs(5);
/// Interval of the search in other network namespaces. It asks every process of the machine, and connections that begin
/// while the tap runs are seen without it.
const LOOK_APART: Duration = Duration::from_secs(30);
/// Interval of the count of lost bytes.
const COUNT: Duration = Duration::from_secs(1);
/// Most records that are decoded before their observations are handed over.
const BATCH: usize = 1024;
/// Most searches in /proc for a socket's descriptor: its process may be hidden, or only just being created.
pub(crate) const TRIES: u32 = 3;

/// A running tap. Dropping it asks it to end; [`stop`](Self::stop) also waits.
#[derive(Debug)]
pub struct Tap {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Checks whether a tap would work here: loads the programs, attaches nothing, and drops them.
pub fn probe() -> Result<(), Error> {
    let missing = needs::missing_here();
    if !missing.is_empty() {
        return Err(Error::Missing(missing));
    }
    Loaded::load().map(drop)
}

impl Tap {
    /// Loads and attaches the tap. `give` receives the observations in the tap's thread; while `give` blocks, the ring
    /// fills. When `give` returns false, the tap ends.
    pub fn start(
        config: Config,
        give: impl FnMut(Handed) -> bool + Send + 'static,
    ) -> Result<Self, Error> {
        let missing = needs::missing_here();
        if !missing.is_empty() {
            return Err(Error::Missing(missing));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (started, is_started) = sync_channel(1);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("kflow-tap".into())
            .spawn(move || {
                let begun = begin(&config);
                // `start` waits for this message.
                match begun {
                    Ok(mut run) => {
                        started.send(Ok(())).ok();
                        run.run(&stopped, give);
                    }
                    Err(e) => {
                        started.send(Err(e)).ok();
                    }
                }
            })
            .map_err(Error::Thread)?;
        match is_started.recv() {
            Ok(Ok(())) => Ok(Self {
                stop,
                thread: Some(thread),
            }),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(Error::Thread(std::io::Error::other("it ended at once"))),
        }
    }

    /// Ends the tap and waits until the kernel has removed its programs, which takes a grace period for each.
    pub fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn begin(config: &Config) -> Result<Run, Error> {
    let target = Target::of(&config.socket);
    let tape = config.tape.as_ref().map(|path| {
        File::create(path).map_err(|source| Error::Tape {
            path: path.clone(),
            source,
        })
    });
    let tape = tape.transpose()?;
    let mut loaded = Loaded::load()?;
    loaded.attach(&target.paths)?;
    // A capability that cannot be dropped is kept: the tap works all the same.
    needs::drop_the_rest().ok();
    Ok(Run {
        config: config.clone(),
        loaded,
        follower: Follower::default(),
        reconnect: Reconnect::new(Arc::clone(&config.reconnect)),
        apart: Apart::default(),
        looked_apart: None,
        given_up: FxHashMap::default(),
        untold: 0,
        seen: clock::now(),
        found: true,
        tape,
    })
}

struct Run {
    config: Config,
    loaded: Loaded,
    follower: Follower,
    reconnect: Reconnect,
    apart: Apart,
    /// Time of the last search in other network namespaces; `None` when a search is due.
    looked_apart: Option<Instant>,
    /// Sockets whose descriptors were not found, with the number of searches.
    given_up: FxHashMap<u64, u32>,
    /// Number of records without bytes that had no room in the ring, at the last look.
    untold: u64,
    /// When records were last read.
    seen: Nanos,
    /// Whether the last request for the list of sockets succeeded.
    found: bool,
    tape: Option<File>,
}

impl Node for Maps {
    fn inode(&self, process: u32, descriptor: u32) -> Option<u64> {
        node::inode(process, descriptor)
    }
    fn name(&self, process: u32) -> String {
        node::name(process)
    }
    fn children(&self, process: u32) -> Vec<u32> {
        node::children(process)
    }
    fn watch(&mut self, process: u32, descriptor: u32, stream: u64) -> bool {
        Self::watch(self, process, descriptor, stream)
    }
    fn unwatch(&mut self, process: u32, descriptor: u32, stream: u64) {
        Self::unwatch(self, process, descriptor, stream);
    }
    fn passed(&self, stream: u64) -> Option<Passed> {
        Self::passed(self, stream)
    }
    fn forget(&mut self, stream: u64) {
        Self::forget(self, stream);
    }
}

/// True once per interval; sets `last` when it is.
fn is_due(last: &mut Option<Instant>, interval: Duration) -> bool {
    let now = clock::monotonic();
    let due = last.is_none_or(|l| now.saturating_duration_since(l) >= interval);
    if due {
        *last = Some(now);
    }
    due
}

impl Run {
    fn run(&mut self, stop: &AtomicBool, mut give: impl FnMut(Handed) -> bool) {
        let (mut looked, mut counted) = (None, None);
        let mut told = String::new();
        while !stop.load(Ordering::Relaxed) {
            let mut out = Vec::new();
            let (ring, _) = self.loaded.parts();
            if is_due(&mut looked, LOOK) {
                self.look(&mut out);
            } else {
                let patience = if self.reconnect.waits() {
                    Duration::from_nanos(QUIET.unsigned_abs())
                } else if self.follower.holds() {
                    Duration::from_nanos(HOLD.unsigned_abs())
                } else {
                    SETTLE
                };
                if has_records(ring, patience) {
                    std::thread::sleep(GATHER);
                }
            }
            let all = self.drain(&mut out);
            let now = clock::now();
            if all {
                let (_, maps) = self.loaded.parts();
                self.follower.settle(now, maps, &mut out);
                self.reconnect.turn(&self.follower, now, clock::monotonic());
            }
            let untold = self.loaded.parts().1.untold();
            let unseen = untold.saturating_sub(std::mem::replace(&mut self.untold, untold));
            if unseen > 0 {
                self.follower.unseen(unseen, self.seen, now, &mut out);
                // Search at once for connections that were opened meanwhile.
                (looked, self.looked_apart) = (None, None);
            }
            self.seen = now;
            if all && is_due(&mut counted, COUNT) {
                let (_, maps) = self.loaded.parts();
                self.follower.tally(now, maps, &mut out);
            }
            self.follower.advance(now, &mut out);
            let mut status = self.follower.status();
            if !self.found {
                status.push_str("; connections from before cannot be found: no sock_diag here");
            }
            for more in [self.apart.status(), self.reconnect.status()] {
                if !more.is_empty() {
                    status.push_str(&format!("; {more}"));
                }
            }
            if !out.is_empty() || status != told {
                told.clone_from(&status);
                let observations = std::mem::take(&mut out);
                if !give(Handed {
                    observations,
                    status,
                }) {
                    return;
                }
            }
        }
    }

    /// Handles up to [`BATCH`] records; true when the ring is empty.
    fn drain(&mut self, out: &mut Vec<Observation>) -> bool {
        let clock = Offset::measure();
        let (ring, maps) = self.loaded.parts();
        for _ in 0..BATCH {
            let Some(item) = ring.next() else {
                return true;
            };
            if let Some(r) = record::parse(&item) {
                self.follower.record(&r, clock, maps, out);
            }
            if let Some(tape) = &mut self.tape {
                tape_record(tape, &item);
            }
        }
        false
    }

    /// Finds connections that existed before the tap, or whose opening was not recorded.
    fn look(&mut self, out: &mut Vec<Observation>) {
        let target = Target::of(&self.config.socket);
        let now = clock::now();
        let (_, maps) = self.loaded.parts();
        // The path may lead to another socket now: connections to it are watched too. If the map is full, this search
        // finds them.
        maps.look_for(&target.paths).ok();
        self.follower.look(maps);
        let clients = node::clients(&target);
        self.found = clients.is_ok();
        let clients = clients.unwrap_or_default();
        self.given_up.retain(|inode, _| clients.contains(inode));
        let known = self.follower.inodes();
        let wanted: FxHashSet<u64> = clients
            .difference(&known)
            .copied()
            .filter(|i| self.given_up.get(i).is_none_or(|n| *n < TRIES))
            .collect();
        for i in &wanted {
            *self.given_up.entry(*i).or_default() += 1;
        }
        let mut found = node::holders(&wanted);
        if self.apart.seeks() || is_due(&mut self.looked_apart, LOOK_APART) {
            found.extend(self.apart.look(&target, &known));
        }
        for holder in found {
            self.follower.join(holder, now, maps, out);
        }
    }
}

/// Appends a record to the tape. Errors are ignored: a test notices a tape that is incomplete.
fn tape_record(tape: &mut File, record: &[u8]) {
    if let Some(record) = record::trimmed(record) {
        let length = u32::try_from(record.len()).unwrap_or_default();
        tape.write_all(&length.to_le_bytes()).ok();
        tape.write_all(record).ok();
    }
}

/// Waits for records for at most `patience`; true when there are some.
fn has_records(ring: &Ring, patience: Duration) -> bool {
    let mut ready = [PollFd::new(ring, PollFlags::IN)];
    let patience = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    // After EINTR the loop comes back here.
    poll(&mut ready, Some(&patience)).is_ok_and(|n| n > 0)
}
