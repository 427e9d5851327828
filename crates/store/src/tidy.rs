//! What an agent does for a store beside sending: of an hour that is over the index becomes few objects, and what is too old goes.
//!
//! Every agent of a cluster does it, at a moment of its own in each hour, by what the commands do (`compact.rs`): who comes first does
//! most of it, and those after it find little. Nobody is chosen, so that it needs no agent in particular.

use std::time::Duration;

use kflow_model::units::HOUR;
use kflow_model::{Nanos, clock};
use tracing::warn;

use crate::compact::{Merged, Pruned, merge_some, prune};
use crate::layout::{Cluster, Hour};
use crate::object::{Store, StoreError};

/// Bytes of index objects that become one. Their rows take more room in memory, of which an agent has little; who has more compacts
/// by the command.
const MOST: u64 = 1 << 20;
/// How long an hour is left alone after its end: segments that began in it are sent when they are closed, and may wait for a store.
const REST: i64 = HOUR / 4;
/// Hours that are looked at each time, the newest that is over and those before it: no two looks are further apart.
const BACK: i64 = 2;
/// The mean pause; each is longer or shorter by up to a quarter, so that agents that start together do not stay together.
const PAUSE: Duration = Duration::from_secs(3600);
/// In one of so many looks what is too old is looked for.
const PRUNES: u32 = 6;

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tidy {
    /// Segments that ended longer ago than this go; without it none does.
    pub keep: Option<Duration>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Segments that were too old, and their bytes.
    pub segments: u64,
    pub bytes: u64,
    /// Objects of the index that became fewer.
    pub objects: u64,
    /// Why the last look came to no end, if it did not.
    pub failing: Option<String>,
}

/// Looks at the hours that ended some time before `now`.
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
    /// Goes on until it is dropped; `tell` is given what each look came to.
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

    /// One look.
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
