//! Work in short turns, for who shares its cores with what it watches.

use std::thread::yield_now;

/// Pieces of work without a pause from which on a thread is behind.
const BEHIND: usize = 256;

/// A thread's work in short turns, after each of which it offers its core.
///
/// Linux lets a thread that it has started run for a slice (0.7 ms and more, `sysctl_sched_base_slice`), whatever its nice
/// value: what wakes up meanwhile on this core waits, and that may be a relay of CRI calls, or who called. Whoever yields gives up the rest of its share
/// (`yield_task_fair`, like the slice in the kernel's kernel/sched/fair.c): on busy cores a thread that is behind would stay so, and does not.
#[derive(Debug)]
pub struct Turns {
    length: usize,
    done: usize,
}

impl Turns {
    /// Turns of so many pieces.
    pub const fn of(length: usize) -> Self {
        Self { length, done: 0 }
    }

    /// It waited for work: it is not behind.
    pub const fn waited(&mut self) {
        self.done = 0;
    }

    /// A piece is done.
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
