//! Maps a function over many items with a few threads.
//!
//! Views and verdicts of pods do not depend on one another. Where thousands are needed at once (the first picture of
//! a large cluster, a jump in a recording), up to four threads derive them; the results are those of
//! one thread, in order.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Below this number of items the caller does all by itself: a thread costs some 50 µs, a view a
/// quarter of a millisecond.
const FEW: usize = 32;
/// Items that a thread takes at a time: few, so that all threads end at about the same time.
const BLOCK: usize = 8;
/// Most threads, the caller's among them: other processes of a large node need cores too.
const THREADS: usize = 4;

/// Returns the number of threads to use: the cores that the process may use, at most [`THREADS`].
fn threads() -> usize {
    static ROOM: OnceLock<usize> = OnceLock::new();
    *ROOM.get_or_init(|| {
        thread::available_parallelism()
            .map_or(1, NonZero::get)
            .min(THREADS)
    })
}

/// Returns `f` of each item, in order. If the system refuses a thread, the others do its share.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_with(items, || (), |(), item| f(item))
}

/// Like [`map`], with a value that each thread makes for itself.
pub(crate) fn map_with<T: Sync, O, R: Send>(
    items: &[T],
    own: impl Fn() -> O + Sync,
    f: impl Fn(&O, &T) -> R + Sync,
) -> Vec<R> {
    if items.len() < FEW || threads() < 2 {
        let own = own();
        return items.iter().map(|item| f(&own, item)).collect();
    }
    let blocks: Vec<&[T]> = items.chunks(BLOCK).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let own = own();
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = blocks.get(n) else {
                return done;
            };
            done.push((n, block.iter().map(|item| f(&own, item)).collect()));
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads())
            .filter_map(|_| {
                thread::Builder::new()
                    .name("kflow-each".into())
                    .spawn_scoped(scope, work)
                    .ok()
            })
            .collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(theirs) => done.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().flat_map(|(_, block)| block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_however_many_there_are() {
        for n in [0, 1, FEW - 1, FEW, FEW + 1, 10 * BLOCK + 3, 1000] {
            let items: Vec<usize> = (0..n).collect();
            let expected: Vec<usize> = items.iter().map(|i| i * 3).collect();
            assert_eq!(map(&items, |i| i * 3), expected, "{n} items");
        }
    }

    #[test]
    fn every_item_is_done_once() {
        let items: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        map(&items, |i| i.fetch_add(1, Ordering::Relaxed));
        assert!(items.iter().all(|i| i.load(Ordering::Relaxed) == 1));
    }
}
