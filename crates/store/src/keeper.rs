//! A spool with a thread of its own, the only one that touches the disk: callers that give it observations never wait
//! for it.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::timeout;

use kflow_model::gap::Gap;
use kflow_model::patient::SLOW;
use kflow_model::units::wait;
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp, Text, clock};

use crate::spool::{FLUSH, Options, Ring, Spool, SpoolError};

/// Most observations that wait for the disk.
const ROOM: usize = 1 << 16;
/// Most observations that are taken at once.
const BATCH: usize = 256;
/// Longest wait for a spool to end.
pub const CLOSE: Duration = Duration::from_secs(30);

/// The sending end of a spool. When it is dropped, the rest is written and the segment closed; nothing waits for that.
#[derive(Debug)]
pub struct Keeper {
    to: Sender<Evidence>,
    ring: Ring,
    /// Disconnects when the thread ends. Several threads may send, and one waits for the end.
    ended: Mutex<Receiver<()>>,
}

impl Keeper {
    /// Opens the spool. A file system that does not answer within 5 s is an error.
    pub fn start(dir: PathBuf, options: Options) -> Result<Self, SpoolError> {
        // tokio's channel allocates its capacity as needed; the standard library's allocates it at once.
        let (to, from) = mpsc::channel::<Evidence>(ROOM);
        let (opened, open_told) = sync_channel(1);
        let (end, ended) = sync_channel::<()>(1);
        let shown = dir.display().to_string();
        let failed = |source| SpoolError::Io {
            op: "open",
            path: shown.clone(),
            source,
        };
        let clocked = Builder::new_current_thread().enable_time().build();
        let clocked = clocked.map_err(failed)?;
        std::thread::Builder::new()
            .name("kflow-spool".into())
            .spawn(move || {
                let _ends = end;
                let spool = match Spool::open(&dir, options) {
                    Ok(spool) => spool,
                    Err(e) => {
                        // The caller may have stopped waiting.
                        opened.send(Err(e)).ok();
                        return;
                    }
                };
                if opened.send(Ok(spool.ring())).is_ok() {
                    keep(spool, from, &clocked);
                }
            })
            .map_err(failed)?;
        let ring = match open_told.recv_timeout(SLOW) {
            Ok(opened) => opened?,
            Err(RecvTimeoutError::Timeout) => {
                let why = format!("its file system has not answered for {}", wait(SLOW));
                return Err(failed(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    why,
                )));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed(std::io::Error::other("its thread failed")));
            }
        };
        Ok(Self {
            to,
            ring,
            ended: Mutex::new(ended),
        })
    }

    /// Takes an observation, or counts it as lost. Never blocks.
    pub fn take(&self, o: &Evidence) {
        if self.to.try_send(Arc::clone(o)).is_err() {
            self.ring.queue.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The segments and the status, for readers and uploaders.
    pub fn ring(&self) -> Ring {
        self.ring.clone()
    }

    /// Has the rest written and the segment closed; waits for that for at most 30 s. Returns false when it has not
    /// ended by then.
    pub fn stop(self) -> bool {
        let Self { to, ended, .. } = self;
        drop(to);
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        !matches!(ended.recv_timeout(CLOSE), Err(RecvTimeoutError::Timeout))
    }
}

fn keep(mut spool: Spool, mut from: mpsc::Receiver<Evidence>, clocked: &Runtime) {
    let lost = Arc::clone(&spool.ring().queue);
    let mut told = 0;
    let mut got = Vec::with_capacity(BATCH);
    loop {
        let some = async { timeout(FLUSH, from.recv_many(&mut got, BATCH)).await };
        match clocked.block_on(some) {
            Ok(0) => {
                spool.close(clock::both());
                return;
            }
            Ok(_) => {}
            Err(_) => spool.tick(clock::both()),
        }
        for o in got.drain(..) {
            let now = clock::both();
            let all = lost.load(Ordering::Relaxed);
            if all > told {
                spool.take(&slow(all - told, o.stamp.seen, now.wall), now);
                told = all;
            }
            spool.take(&o, now);
        }
    }
}

/// The gap for observations lost because the channel was full. They came after `since`, the arrival of the next
/// observation written: no more fitted behind that one.
fn slow(lost: u64, since: Nanos, now: Nanos) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(now.max(since)),
        source: Source::Kflow,
        body: Body::Gap(Box::new(Gap {
            of: Source::Kflow,
            since,
            lost,
            conn: 0,
            resource: Text::default(),
            why: Text::new("the disk was too slow for the spool"),
        })),
    })
}

#[cfg(test)]
mod tests {
    use kflow_model::gap::Note;

    use super::*;

    #[test]
    fn what_finds_no_room_on_the_way_to_the_disk_is_in_the_status_that_everyone_reads() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::start(dir.path().join("spool"), Options::default()).unwrap();
        let ring = keeper.ring();
        let o: Evidence = Arc::new(Observation {
            stamp: Stamp::exact(clock::now()),
            source: Source::Kflow,
            body: Body::Note(Box::new(Note { text: "x".into() })),
        });
        // An observation is taken faster than written.
        let begun = clock::monotonic();
        while ring.status().lost == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60));
            for _ in 0..ROOM {
                keeper.take(&o);
            }
        }
        keeper.stop();
    }
}
