//! Sends segments from a spool to a store.
//!
//! A thread sends each closed segment, the oldest first, and then the index of its pods; after both are in the store,
//! the spool may drop the segment. Object names say what is in an object, so a segment that is sent twice (kflow was
//! killed in between) is there once. While the store is away or refuses, sending is retried ever more slowly.
//! Segments wait in the spool, within its bounds, and the spool counts and reports those that it had to drop.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kflow_model::session::{Part, Reader, SessionError};
use kflow_model::{Nanos, Text, clock};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::compact::merge_rows;
use crate::index::Index;
use crate::layout::{BadName, Cluster, Hour, folder_of, rows_of};
use crate::object::{Store, StoreError};
use crate::spool::{Ring, Segment, SpoolError};
use crate::tidy::{Tidied, Tidy};

/// Time between two looks for a closed segment.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after a failure. Each further one is twice as long, up to [`LONGEST`], minus up to half of it at random,
/// so that a thousand nodes do not come back to a store at once.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Most threads that wait for a file system, so that one that hangs blocks no more than these.
const WAITING: usize = 4;
/// How long after its time limit the thread may take to notice it.
const NOTICE: Duration = Duration::from_secs(5);

/// State of sending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Segments sent since the start, and their bytes.
    pub sent: u64,
    pub bytes: u64,
    /// Segments that are no sessions, or of no name that an object may have; they stay in the spool.
    pub unsendable: u64,
    /// When the last segment was sent.
    pub last: Option<Nanos>,
    /// Why nothing is sent at the moment, if so.
    pub failing: Option<String>,
    /// What was done to tidy the store, if that is asked for.
    pub tidied: Option<Tidied>,
}

/// Why a segment was not sent.
#[derive(Debug, thiserror::Error)]
pub enum Unsent {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("cannot read the segment {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Name(#[from] BadName),
}

/// Sends the segments of a spool. When it is dropped, sending stops where it is.
#[derive(Debug)]
pub struct Uploader {
    status: Arc<Mutex<Status>>,
    /// Set to end the thread: the time until which waiting segments are still sent.
    stop: watch::Sender<Option<Instant>>,
    /// Disconnects when the thread ends.
    ended: Receiver<()>,
}

impl Uploader {
    /// Starts to send. The spool has to be set to owe its segments ([`Options::owed`](crate::Options)). With `tidy`
    /// the store is tidied too.
    pub fn start(
        ring: Ring,
        store: Store,
        cluster: Cluster,
        tidy: Option<Tidy>,
    ) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(None);
        let (end, ended) = sync_channel::<()>(1);
        let sender = Sender::new(ring, store, cluster);
        let status = Arc::clone(&sender.status);
        lock(&status).tidied = tidy.map(|_| Tidied::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING)
            .build()?;
        if let Some(tidy) = tidy {
            let status = Arc::clone(&status);
            let tell = move |done| lock(&status).tidied = Some(done);
            // The task ends with the runtime; what is interrupted is done again later.
            runtime.spawn(tidy.run(sender.store.clone(), sender.cluster.clone(), tell));
        }
        std::thread::Builder::new()
            .name("kflow-upload".into())
            .spawn(move || {
                let _ends = end;
                runtime.block_on(sender.run(stopped));
                // A file system that hangs is not waited for.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            status,
            stop,
            ended,
        })
    }

    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// Returns a function that gives the status.
    pub fn watch(&self) -> impl Fn() -> Status + Send + Sync + use<> {
        let status = Arc::clone(&self.status);
        move || lock(&status).clone()
    }

    /// Sends the closed segments and ends; waits for that for up to `patience`. Segments that are not sent by then
    /// stay in the spool, for the next run.
    pub fn stop(self, patience: Duration) -> Status {
        self.stop.send(Some(clock::monotonic() + patience)).ok();
        let end = self.ended.recv_timeout(patience + NOTICE);
        if end == Err(RecvTimeoutError::Timeout) {
            warn!("the thread that sends segments has not ended");
        }
        self.status()
    }
}

/// Sends the owed segments once, without a thread.
pub(crate) async fn send_all(ring: Ring, store: Store, cluster: Cluster) -> Result<Status, Unsent> {
    let mut sender = Sender::new(ring, store, cluster);
    sender.send_owed().await?;
    let status = lock(&sender.status).clone();
    Ok(status)
}

fn lock(status: &Mutex<Status>) -> std::sync::MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time limit once the thread is told to end; now, if the uploader was dropped.
async fn told(stop: &mut watch::Receiver<Option<Instant>>) -> Option<Instant> {
    match stop.wait_for(Option::is_some).await {
        Ok(until) => *until,
        Err(_) => Some(clock::monotonic()),
    }
}

async fn over(stop: &mut watch::Receiver<Option<Instant>>) {
    if let Some(until) = told(stop).await {
        tokio::time::sleep_until(until.into()).await;
    }
}

struct Sender {
    ring: Ring,
    store: Store,
    cluster: Cluster,
    status: Arc<Mutex<Status>>,
    unsendable: BTreeSet<Part>,
    /// The hour of the last segment that was sent, by node.
    hours: BTreeMap<Text, Hour>,
}

impl Sender {
    fn new(ring: Ring, store: Store, cluster: Cluster) -> Self {
        Self {
            ring,
            store,
            cluster,
            status: Arc::default(),
            unsendable: BTreeSet::new(),
            hours: BTreeMap::new(),
        }
    }

    async fn run(mut self, mut stop: watch::Receiver<Option<Instant>>) {
        let mut pause = FIRST;
        loop {
            // A segment that was closed before the thread was told to end is still found.
            let ends = stop.borrow().is_some();
            let mut its = stop.clone();
            let sent = tokio::select! {
                sent = self.send_owed() => sent,
                () = over(&mut its) => return,
            };
            let wait = match sent {
                Ok(()) if ends => return,
                Ok(()) => {
                    pause = FIRST;
                    lock(&self.status).failing = None;
                    LOOK
                }
                Err(e) => {
                    let why = e.to_string();
                    let mut status = lock(&self.status);
                    if status.failing.as_ref() != Some(&why) {
                        warn!(%why, "segments are not sent");
                    }
                    status.failing = Some(why);
                    drop(status);
                    let wait = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                    pause = (pause * 2).min(LONGEST);
                    wait
                }
            };
            let mut its = stop.clone();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // When told to end during the pause, tries again at once.
                _ = told(&mut its), if !ends => {}
                () = over(&mut stop), if ends => return,
            }
        }
    }

    /// Sends the owed segments, the oldest first. One that cannot be read now holds up no other; the error is that of
    /// the first such.
    async fn send_owed(&mut self) -> Result<(), Unsent> {
        let mut unread = BTreeMap::new();
        loop {
            let all = self.ring.segments();
            self.unsendable
                .retain(|part| all.iter().any(|s| s.part == *part));
            let owed = |s: &&Segment| {
                !s.sent && !self.unsendable.contains(&s.part) && !unread.contains_key(&s.part)
            };
            let Some(segment) = all.iter().find(owed) else {
                return unread.into_values().next().map_or(Ok(()), Err);
            };
            let sent = self.send(segment).await;
            let all = self.ring.segments();
            match sent {
                Ok(()) => {}
                // It had to make room meanwhile.
                Err(Unsent::Read { .. }) if all.iter().all(|s| s.part != segment.part) => {}
                Err(e @ Unsent::Read { .. }) => drop(unread.insert(segment.part.clone(), e)),
                // A retry would not help with either.
                Err(e @ (Unsent::Session(_) | Unsent::Name(_))) => {
                    self.unsendable.insert(segment.part.clone());
                    warn!(why = %e, "a segment cannot be sent");
                    lock(&self.status).unsendable += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    async fn send(&mut self, segment: &Segment) -> Result<(), Unsent> {
        let read = {
            let segment = segment.clone();
            tokio::task::spawn_blocking(move || read(&segment))
        };
        let failed = |source| Unsent::Read {
            path: segment.path.display().to_string(),
            source,
        };
        let read = read.await.map_err(|e| failed(io::Error::other(e)))?;
        let Parcel {
            name,
            node,
            bytes,
            rows,
        } = read.map_err(|e| match e {
            SessionError::Io { source, .. } => failed(source),
            e => Unsent::Session(e),
        })?;
        let folder = folder_of(&node)?;
        let hour = Hour::of(segment.begin);
        let size = bytes.len() as u64;
        let path = self.cluster.segments_of(hour, folder).join(name.as_str());
        self.store.put(&path, bytes).await?;
        if !rows.is_empty() {
            let (_, bytes) = rows.encode().map_err(failed)?;
            let path = self.cluster.pods_of(hour, folder).join(rows_of(&name));
            self.store.put(&path, bytes).await?;
        }
        self.ring.sent(segment)?;
        {
            let mut status = lock(&self.status);
            status.sent += 1;
            status.bytes += size;
            status.last = Some(clock::now());
            if status.failing.take().is_some() {
                info!("segments are sent again");
            }
        }
        let before = self.hours.insert(folder.into(), hour);
        if let Some(before) = before.filter(|b| *b != hour) {
            // Merges this node's index of the hour that is over into one object. A failure does not matter: nobody
            // relies on it.
            let folder = self.cluster.pods_of(before, folder);
            if let Err(e) = merge_rows(&self.store, &folder).await {
                warn!(why = %e, "the index of an hour was not merged");
            }
        }
        Ok(())
    }
}

/// A segment, ready to be sent.
struct Parcel {
    name: String,
    node: Text,
    bytes: Vec<u8>,
    rows: Index,
}

fn read(segment: &Segment) -> Result<Parcel, SessionError> {
    let bytes = std::fs::read(&segment.path).map_err(|source| SessionError::Io {
        op: "read",
        path: segment.path.display().to_string(),
        source,
    })?;
    let name = segment.path.file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let reader = Reader::open(&segment.path)?;
    let node = reader.header.node.clone();
    let recorder = folder_of(&node).unwrap_or_default();
    let mut rows = Index::default();
    reader.in_turn(|batch| {
        rows.tell(&batch.observations, recorder, (segment.begin, segment.end));
        true
    });
    Ok(Parcel {
        name,
        node,
        bytes,
        rows: rows.told(),
    })
}
