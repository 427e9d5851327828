//! From a spool into a store.
//!
//! A thread of its own sends each closed segment, the oldest first, and then the rows of its pods; after both are there, the
//! spool may drop it. Names tell what is in an object, so that what is sent twice (kflow was killed between the two) is there
//! once. While the store is away, or refuses, it is tried again ever more slowly; what waits lies in the spool, within its
//! bounds, and the spool counts and tells what had to go.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kflow_model::session::{Part, Reader};
use kflow_model::{Nanos, Text, clock};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::compact::merge_rows;
use crate::index::Index;
use crate::layout::{BadName, Cluster, Hour, folder_of, rows_of};
use crate::object::{Store, StoreError};
use crate::spool::{Ring, Segment, SpoolError};
use crate::tidy::{Tidied, Tidy};

/// How often it is looked for a segment that was closed.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after a failure; each further one is twice as long, up to the longest, less up to half of it by chance, so that
/// a thousand nodes do not come back to a store at once.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Threads that may wait for a file system. One that hangs costs no more than these.
const WAITING: usize = 4;
/// How long after its end the thread may take to notice it.
const NOTICE: Duration = Duration::from_secs(5);

/// How sending stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Segments that were sent, and their bytes, since it began.
    pub sent: u64,
    pub bytes: u64,
    /// Segments that cannot be sent as they are; they stay in the spool.
    pub unsendable: u64,
    /// When the store got the last of them.
    pub last: Option<Nanos>,
    /// Why nothing is sent, while it is so.
    pub failing: Option<String>,
    /// What was done for the store beside, where it was to be.
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
    Name(#[from] BadName),
}

/// Sends the segments of a spool. Dropped, it stops where it is.
#[derive(Debug)]
pub struct Uploader {
    status: Arc<Mutex<Status>>,
    /// Until when what waits is to be sent, once it is to end.
    stop: watch::Sender<Option<Instant>>,
    /// Ends with the thread.
    ended: Receiver<()>,
}

impl Uploader {
    /// Begins to send. The spool is to owe its segments ([`Options::owed`](crate::Options)). With `tidy` the store is kept in order too.
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
            // It goes with the runtime; what is cut short is done again.
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

    /// How it stands.
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// The same, for somebody else to ask.
    pub fn watch(&self) -> impl Fn() -> Status + Send + Sync + use<> {
        let status = Arc::clone(&self.status);
        move || lock(&status).clone()
    }

    /// Has what is closed sent, and ends; waits for it so long. What is not sent then stays in the spool, for the next.
    pub fn stop(self, patience: Duration) -> Status {
        self.stop.send(Some(clock::monotonic() + patience)).ok();
        let end = self.ended.recv_timeout(patience + NOTICE);
        if end == Err(RecvTimeoutError::Timeout) {
            warn!("the thread that sends segments has not ended");
        }
        self.status()
    }
}

/// Sends what is owed once, without a thread.
pub(crate) async fn send_all(ring: Ring, store: Store, cluster: Cluster) -> Result<Status, Unsent> {
    let mut sender = Sender::new(ring, store, cluster);
    sender.send_owed().await?;
    let status = lock(&sender.status).clone();
    Ok(status)
}

fn lock(status: &Mutex<Status>) -> std::sync::MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How it ends: told so, or with who would tell.
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
            // Once it is to end, what was closed before that is still looked for.
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
                // Told while it waited, it tries at once.
                _ = told(&mut its), if !ends => {}
                () = over(&mut stop), if ends => return,
            }
        }
    }

    /// Sends what is owed, the oldest first.
    async fn send_owed(&mut self) -> Result<(), Unsent> {
        loop {
            let all = self.ring.segments();
            self.unsendable
                .retain(|part| all.iter().any(|s| s.part == *part));
            let owed = |s: &&Segment| !s.sent && !self.unsendable.contains(&s.part);
            let Some(segment) = all.iter().find(owed) else {
                return Ok(());
            };
            match self.send(segment).await {
                Ok(()) => {}
                // Neither gets better by being tried again, and those behind it are owed too.
                Err(e @ (Unsent::Read { .. } | Unsent::Name(_))) => {
                    self.unsendable.insert(segment.part.clone());
                    if self.ring.segments().iter().any(|s| s.part == segment.part) {
                        warn!(why = %e, "a segment cannot be sent");
                        lock(&self.status).unsendable += 1;
                    }
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
        } = read.map_err(failed)?;
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
            // Of this node's hour that is over one object is enough. It is owed to nobody.
            let folder = self.cluster.pods_of(before, folder);
            if let Err(e) = merge_rows(&self.store, &folder).await {
                warn!(why = %e, "the index of an hour was not merged");
            }
        }
        Ok(())
    }
}

/// A segment as it is sent.
struct Parcel {
    name: String,
    node: Text,
    bytes: Vec<u8>,
    rows: Index,
}

fn read(segment: &Segment) -> io::Result<Parcel> {
    let bytes = std::fs::read(&segment.path)?;
    let name = segment.path.file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let reader = Reader::open(&segment.path).map_err(io::Error::other)?;
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
