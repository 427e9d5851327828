//! What an agent does for a store besides sending: it merges the index of past hours into few objects, and removes
//! what is too old.
//!
//! Every agent of a cluster does this, at its own moment in each hour, with the functions of the commands
//! (`compact.rs`): the first one does most of the work, and the later ones find little left. No leader is elected, so
//! no particular agent is needed.

use std::time::Duration;

use kflow_model::units::HOUR;
use kflow_model::{Nanos, clock};
use tracing::warn;

use crate::compact::{Merged, Pruned, merge_some, prune};
use crate::layout::{Cluster, Hour};
use crate::object::{Store, StoreError};

/// Bytes of index objects that are merged into one. Their rows take more memory than that, of which an agent has
/// little; a machine with more can use the command.
const MOST: u64 = 1 << 20;
/// How long an hour is left alone after its end: a segment that began in it is sent after it is closed, and may wait
/// for a store.
const REST: i64 = HOUR / 4;
/// Number of past hours that are looked at each time: two looks are never further apart than that.
const BACK: i64 = 2;
/// The mean pause. Each pause is up to a quarter longer or shorter, so that agents that start together do
/// not stay in step.
const PAUSE: Duration = Duration::from_secs(3600);
/// One look in this many also removes what is too old.
const PRUNES: u32 = 6;

/// What to do for a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tidy {
    /// Segments that ended longer ago than this are removed; `None` removes none.
    pub keep: Option<Duration>,
}

/// What was done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Segments that were too old, and their bytes.
    pub segments: u64,
    pub bytes: u64,
    /// Index objects that were merged into fewer.
    pub objects: u64,
    /// Why the last look failed, if it did.
    pub failing: Option<String>,
}

/// Merges the index of the hours that ended some time before `now`.
pub(crate) async fn merge_hours(
    store: &Store,
    cluster: &Cluster,
    now: Nanos,
    most: u64,
) -> Result<Merged, StoreError> {
    let mut done = Merged::default();
    for back in 1..=BACK {
        let hour = Hour::of(now.plus(-REST - back * HOUR));
        done += merge_some(store, &cluster.pods_in(hour), most).await?;
    }
    Ok(done)
}

impl Tidy {
    /// Looks again and again until it is dropped; calls `tell` with the result of each look.
    pub(crate) async fn run(self, store: Store, cluster: Cluster, tell: impl Fn(Tidied)) {
        let mut all = Tidied::default();
        tokio::time::sleep(PAUSE.mul_f64(fastrand::f64())).await;
        for turn in 0_u32.. {
            let done = self
                .look(&store, &cluster, clock::now(), turn % PRUNES == 0)
                .await;
            all.failing = match done {
                Ok((merged, pruned)) => {
                    all.objects += merged.objects;
                    all.segments += pruned.segments;
                    all.bytes += pruned.bytes;
                    None
                }
                Err(e) => {
                    let why = e.to_string();
                    warn!(%why, "the store was not tidied");
                    Some(why)
                }
            };
            tell(all.clone());
            tokio::time::sleep(PAUSE.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
        }
    }

    /// Looks once.
    pub(crate) async fn look(
        self,
        store: &Store,
        cluster: &Cluster,
        now: Nanos,
        prunes: bool,
    ) -> Result<(Merged, Pruned), StoreError> {
        let merged = merge_hours(store, cluster, now, MOST).await?;
        let mut pruned = Pruned::default();
        if let Some(keep) = self.keep.filter(|_| prunes) {
            let keep = i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX);
            pruned = prune(store, cluster, Nanos(now.0.saturating_sub(keep))).await?;
        }
        Ok((merged, pruned))
    }
}
