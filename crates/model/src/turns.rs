//! Work in short turns, for a thread that shares cores with the processes that it watches.

use std::thread::yield_now;

/// After so many pieces of work without waiting, the thread is behind and no longer yields.
const BEHIND: usize = 256;

/// Work of a thread in short turns, after each of which it yields its core.
///
/// Linux lets a running thread continue for a slice (0.7 ms and more, `sysctl_sched_base_slice`), whatever its nice
/// value. A thread that wakes up on this core meanwhile has to wait, and it may be the relay of CRI calls, or a client
/// of it. A thread that yields gives up the rest of its share (`yield_task_fair`, like the slice in the kernel's
/// kernel/sched/fair.c): on busy cores a thread that is behind would never catch up, so it does not yield.
#[derive(Debug)]
pub struct Turns {
    length: usize,
    done: usize,
}

impl Turns {
    /// Returns turns of `length` pieces of work each.
    pub const fn of(length: usize) -> Self {
        Self { length, done: 0 }
    }

    /// The thread had to wait for work, so it is not behind.
    pub const fn waited(&mut self) {
        self.done = 0;
    }

    /// Counts a piece of work as done, and yields the core at the end of a turn.
    pub fn done(&mut self) {
        self.done = self.done.saturating_add(1);
        if self.is_over() {
            yield_now();
        }
    }

    const fn is_over(&self) -> bool {
        self.done <= BEHIND && self.done.is_multiple_of(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_after_its_pieces_until_the_thread_is_behind() {
        let mut turns = Turns::of(8);
        let mut over = |pieces: usize| {
            let each = (0..pieces).filter(|_| {
                turns.done();
                turns.is_over()
            });
            each.count()
        };
        assert_eq!((over(7), over(1), over(8)), (0, 1, 1));
        over(BEHIND);
        assert_eq!(over(1_000), 0, "it is behind");
        turns.waited();
        turns.done = 7;
        turns.done();
        assert!(turns.is_over(), "and is not any more");
    }
}
