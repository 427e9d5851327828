//! A spool with a thread of its own, which alone touches the disk: who gives it observations never waits for one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
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

use crate::spool::{FLUSH, Options, Ring, Spool, SpoolError, Status};

/// Observations that may wait for the disk.
const ROOM: usize = 1 << 16;
/// Observations that are taken at once.
const BATCH: usize = 256;
/// How long the end of a spool is waited for.
pub const CLOSE: Duration = Duration::from_secs(30);

/// The giving end of a spool. When it is dropped, what is left is written and the segment is closed; nothing waits for it.
#[derive(Debug)]
pub struct Keeper {
    to: Sender<Evidence>,
    ring: Ring,
    lost: Arc<AtomicU64>,
    /// Ends with the thread. Several may give, one waits for the end.
    ended: Mutex<Receiver<()>>,
}

impl Keeper {
    /// Opens the spool. A file system that does not answer within 5 s is an error.
    pub fn start(dir: PathBuf, options: Options) -> Result<Self, SpoolError> {
        // Its room is taken as it is needed, which a channel of the standard library does at once.
        let (to, from) = mpsc::channel::<Evidence>(ROOM);
        let (opened, open_told) = sync_channel(1);
        let (end, ended) = sync_channel::<()>(1);
        let lost = Arc::new(AtomicU64::new(0));
        let losses = Arc::clone(&lost);
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
                        // Whoever asked may have waited long enough.
                        opened.send(Err(e)).ok();
                        return;
                    }
                };
                if opened.send(Ok(spool.ring())).is_ok() {
                    keep(spool, from, &losses, &clocked);
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
            lost,
            ended: Mutex::new(ended),
        })
    }

    /// Takes an observation, or counts it as lost. Never waits.
    pub fn take(&self, o: &Evidence) {
        if self.to.try_send(Arc::clone(o)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The segments, for who reads or sends them.
    pub fn ring(&self) -> Ring {
        self.ring.clone()
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        let mut status = self.ring.status();
        status.lost += self.lost.load(Ordering::Relaxed);
        status
    }

    /// Has what is left written and the segment closed; waits for it, 30 s at most. False when it has not ended.
    pub fn stop(self) -> bool {
        let Self { to, ended, .. } = self;
        drop(to);
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        !matches!(ended.recv_timeout(CLOSE), Err(RecvTimeoutError::Timeout))
    }
}

fn keep(mut spool: Spool, mut from: mpsc::Receiver<Evidence>, lost: &AtomicU64, clocked: &Runtime) {
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

/// Observations that found no room, since the arrival of what is written next: it found no room behind it.
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
