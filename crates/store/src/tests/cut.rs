//! An agent's look, `compact` and `prune`, interrupted at each request: as if their process were killed there.

use std::fs;
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::Poll;

use kflow_model::units::HOUR;
use kflow_model::{Evidence, Nanos};

use super::Rig;
use crate::compact::{compact, merge_rows, prune};
use crate::fetch::{Want, index};
use crate::index::Index;
use crate::layout::{Cluster, Hour};
use crate::object::{Store, StoreError};
use crate::tidy::{Tidy, merge_hours};

type Act<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + 'a>>;

/// Polls a future `polls` times and drops it, as a killed process does: its last request may have been carried out
/// without its answer being read. `None` if it has not ended by then.
async fn cut(polls: usize, act: Act<'_>) -> Option<Result<(), StoreError>> {
    let mut act = pin!(act);
    let mut left = polls;
    std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        act.as_mut().poll(cx).map(Some)
    })
    .await
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// A store of two nodes, each with two recordings that are a day apart.
struct Kept {
    rig: Rig,
    /// End of the first day's recording.
    end: Nanos,
}

impl Kept {
    fn new() -> Self {
        let mut rig = Rig::new();
        rig.session.observations.truncate(300);
        for node in ["node1", "node2"] {
            for hours in [0, 24] {
                rig.send(&rig.spool(node, 2, hours));
                fs::remove_dir_all(rig.path(&format!("spool-{node}"))).unwrap();
            }
        }
        let (_, end) = rig.session.range().unwrap();
        fs::rename(rig.path("store"), rig.path("kept")).unwrap();
        Self { rig, end }
    }

    fn fresh(&self) {
        fs::remove_dir_all(self.rig.path("store")).ok();
        copy(&self.rig.path("kept"), &self.rig.path("store"));
    }

    fn answer(&self, from: Nanos) -> (Index, [Vec<Evidence>; 2]) {
        let (store, cluster) = (self.rig.store(), self.rig.cluster());
        let rows = self.rig.run(index(&store, &cluster, from, Nanos(i64::MAX)));
        let (rows, _, unreadable) = rows.unwrap();
        assert_eq!(unreadable, vec![]);
        let of = |node: &str| {
            let want = Want {
                node: Some(node.to_owned()),
                from,
                ..self.rig.want()
            };
            let (session, done) = self.rig.fetched(&want, None);
            assert_eq!(done.unreadable, vec![], "{node}");
            session.observations
        };
        (rows, ["node1", "node2"].map(of))
    }

    /// Interrupts `act` at every point. The answers for times after `from` must stay the same, and the next run must
    /// finish the work; with `same`, with the same objects. Returns the number of interruptions.
    fn hold(
        &self,
        from: Nanos,
        same: bool,
        act: for<'a> fn(&'a Store, &'a Cluster, Nanos) -> Act<'a>,
    ) -> usize {
        let rig = &self.rig;
        self.fresh();
        let (store, cluster) = (rig.store(), rig.cluster());
        let whole = self.answer(from);
        let before = rig.objects();
        rig.run(act(&store, &cluster, self.end)).unwrap();
        let done = rig.objects();
        assert_ne!(done, before, "there was nothing to do");
        for polls in 1.. {
            self.fresh();
            if let Some(ended) = rig.run(cut(polls, act(&store, &cluster, self.end))) {
                ended.unwrap();
                return polls - 1;
            }
            assert!(self.answer(from) == whole, "cut after {polls}");
            rig.run(act(&store, &cluster, self.end)).unwrap();
            assert!(self.answer(from) == whole, "cut after {polls}, and done");
            let now = rig.objects();
            assert!(
                !same || now == done,
                "cut after {polls}: {now:#?} not {done:#?}"
            );
        }
        unreachable!()
    }
}

/// A time at which the first day's hours are over and the next day's are not.
fn over(end: Nanos) -> Nanos {
    Hour::of(end).end().plus(HOUR / 2)
}

#[test]
fn what_is_cut_short_takes_nothing_away_and_the_next_has_it_done() {
    let kept = Kept::new();
    let all = Nanos(i64::MIN);
    let merged = kept.hold(all, true, |store, cluster, end| {
        Box::pin(async move { compact(store, cluster, over(end)).await.map(drop) })
    });
    let of_a_node = kept.hold(all, true, |store, cluster, end| {
        Box::pin(async move {
            let folder = cluster.pods_of(Hour::of(end), "node1");
            merge_rows(store, &folder).await.map(drop)
        })
    });
    // Objects that were merged stay as they are, so there may be more of them.
    let looked = kept.hold(all, false, |store, cluster, end| {
        Box::pin(async move {
            merge_hours(store, cluster, over(end), u64::MAX)
                .await
                .map(drop)
        })
    });
    let half = kept.end.plus(12 * HOUR);
    let pruned = kept.hold(half, true, |store, cluster, end| {
        Box::pin(async move { prune(store, cluster, end.plus(12 * HOUR)).await.map(drop) })
    });
    let agents = kept.hold(half, false, |store, cluster, end| {
        let tidy = Tidy {
            keep: Some(std::time::Duration::from_secs(12 * 3600)),
        };
        let now = over(end).plus(24 * HOUR);
        Box::pin(async move { tidy.look(store, cluster, now, true).await.map(drop) })
    });
    // A future that is ready at once is no point to interrupt at: the number of points differs from run to run.
    let cuts = [merged, of_a_node, looked, pruned, agents];
    assert!(cuts.iter().sum::<usize>() > 10, "{cuts:?}");
}
