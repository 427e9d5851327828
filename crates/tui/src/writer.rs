//! Writes files that the user asks for (pictures, exports, notes) in a thread of its own, so that the terminal keeps
//! drawing while a disk is slow. The result of each is reported.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use kflow_model::units::duration;

/// Limit on the files that are open at the same time: being written or waiting.
const QUEUE: usize = 8;
/// Time after which the user is told that a file is still being written.
const SLOW: Duration = Duration::from_secs(2);
/// How long the program waits at its end for files that are being written.
const PATIENCE: Duration = Duration::from_secs(2);

/// A file to be written.
pub struct Job {
    /// What is written, as part of a sentence: `the timeline of shop/web`.
    what: String,
    /// Writes the file; returns a message about it, or why it was not written.
    run: Box<dyn FnOnce() -> Result<String, String> + Send>,
}

impl Job {
    /// Returns a job with its description and its function.
    pub fn new(
        what: impl Into<String>,
        run: impl FnOnce() -> Result<String, String> + Send + 'static,
    ) -> Self {
        Self {
            what: what.into(),
            run: Box::new(run),
        }
    }
    /// Writes the file in the current thread.
    pub fn run(self) -> Result<String, String> {
        (self.run)()
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

/// A job that has not ended.
#[derive(Debug)]
struct Open {
    what: String,
    /// When the user asked for the file.
    since: Instant,
    /// Whether the user was told that writing takes long.
    told: bool,
}

/// Handle of the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: SyncSender<Job>,
    ended: Receiver<Result<String, String>>,
    /// Jobs that have not ended, oldest first, which is the order in which they end.
    open: VecDeque<Open>,
}

impl Writer {
    pub(crate) fn start() -> Self {
        let (jobs, todo) = mpsc::sync_channel::<Job>(QUEUE);
        // There is room for the results of all open jobs, so that the thread never waits for the terminal.
        let (tell, ended) = mpsc::sync_channel(QUEUE + 1);
        let serve = move || {
            for job in todo {
                if tell.send(job.run()).is_err() {
                    return;
                }
            }
        };
        // If the thread cannot be started, every job is refused.
        std::thread::Builder::new()
            .name("kflow-files".into())
            .spawn(serve)
            .ok();
        Self {
            jobs,
            ended,
            open: VecDeque::new(),
        }
    }

    /// Queues a file to be written; returns a message about it, or why it is refused. Does not block.
    pub(crate) fn write(&mut self, job: Job, now: Instant) -> Result<String, String> {
        let what = job.what.clone();
        if self.open.len() >= QUEUE {
            let oldest = self.open.front().map_or("a file", |o| &o.what);
            return Err(format!(
                "{what} is not written: {oldest} and {} more are still being written",
                self.open.len() - 1
            ));
        }
        if self.jobs.try_send(job).is_err() {
            return Err(format!(
                "{what} is not written: the thread that writes files has ended"
            ));
        }
        let said = format!("writing {what} …");
        self.open.push_back(Open {
            what,
            since: now,
            told: false,
        });
        Ok(said)
    }

    /// Returns the result of a file that has ended, or a message that one takes long. Does not block.
    pub(crate) fn news(&mut self, now: Instant) -> Option<Result<String, String>> {
        match self.ended.try_recv() {
            Ok(end) => {
                self.open.pop_front();
                return Some(end);
            }
            Err(TryRecvError::Disconnected) => {
                let lost = self.open.pop_front()?;
                return Some(Err(format!(
                    "{} is not written: the thread that writes files has failed",
                    lost.what
                )));
            }
            Err(TryRecvError::Empty) => {}
        }
        let late = self
            .open
            .iter_mut()
            .find(|o| !o.told && now.saturating_duration_since(o.since) >= SLOW)?;
        late.told = true;
        Some(Err(format!(
            "{} is still not written after {}: its file system is slow, or does not answer",
            late.what,
            duration(now.saturating_duration_since(late.since).as_nanos() as i64)
        )))
    }

    /// Waits for the open files, at most for 2 s. Returns a message for each that failed or is not written by then.
    pub(crate) fn end(self) -> Vec<String> {
        let Self {
            jobs,
            ended,
            mut open,
        } = self;
        drop(jobs);
        let until = kflow_model::clock::monotonic() + PATIENCE;
        let mut left = Vec::new();
        while !open.is_empty() {
            let wait = until.saturating_duration_since(kflow_model::clock::monotonic());
            match ended.recv_timeout(wait) {
                Ok(end) => {
                    open.pop_front();
                    left.extend(end.err());
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        left.extend(open.into_iter().map(|o| {
            format!(
                "{} was not written: its file system does not answer",
                o.what
            )
        }));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::clock::monotonic;

    /// Returns the next message, without a terminal.
    fn heard(writer: &mut Writer) -> Result<String, String> {
        loop {
            match writer.news(monotonic()) {
                Some(news) => return news,
                None => std::thread::yield_now(),
            }
        }
    }

    /// A pipe without a reader stands for a file system that does not answer.
    fn stuck(dir: &std::path::Path) -> (std::path::PathBuf, Job) {
        let path = dir.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        let to = path.clone();
        let job = Job::new("the picture", move || {
            std::fs::write(&to, "x").map_or_else(|e| Err(e.to_string()), |()| Ok("saved".into()))
        });
        (path, job)
    }

    #[test]
    fn a_disk_that_does_not_answer_is_told_and_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().expect("folder");
        let (path, job) = stuck(dir.path());
        let mut writer = Writer::start();
        let begin = monotonic();
        let said = writer.write(job, begin).expect("taken");
        assert_eq!(said, "writing the picture \u{2026}");
        assert!(writer.news(begin).is_none());
        let late = writer.news(begin + SLOW).expect("told").expect_err("late");
        assert_eq!(
            late,
            "the picture is still not written after 2.00s: its file system is slow, or does not answer"
        );
        assert!(writer.news(begin + SLOW * 9).is_none(), "once");
        // As many jobs as there is room for are accepted; the next one is refused at once.
        for n in 1..QUEUE {
            let job = Job::new(format!("file {n}"), move || Ok(format!("{n}")));
            writer.write(job, begin).expect("room");
        }
        let refused = writer.write(Job::new("one more", || Ok(String::new())), begin);
        assert_eq!(
            refused.expect_err("full"),
            "one more is not written: the picture and 7 more are still being written"
        );
        // Now the file system answers.
        assert_eq!(std::fs::read(&path).expect("read"), b"x");
        assert_eq!(heard(&mut writer).as_deref(), Ok("saved"));
        for n in 1..QUEUE {
            assert_eq!(heard(&mut writer), Ok(n.to_string()));
        }
        assert!(writer.end().is_empty());
    }

    #[test]
    fn what_is_not_written_when_the_program_ends_is_told() {
        let dir = tempfile::tempdir().expect("folder");
        let (path, job) = stuck(dir.path());
        let mut writer = Writer::start();
        let begin = monotonic();
        writer
            .write(Job::new("a note", || Err("no room".into())), begin)
            .expect("taken");
        writer.write(job, begin).expect("taken");
        let left = writer.end();
        assert!(begin.elapsed() < PATIENCE * 10);
        assert_eq!(
            left,
            [
                "no room",
                "the picture was not written: its file system does not answer"
            ]
        );
        std::fs::read(&path).expect("read");
    }

    #[test]
    fn a_job_that_panics_is_told_and_so_are_those_behind_it() {
        let mut writer = Writer::start();
        let begin = monotonic();
        let ends = Job::new("a page", || std::panic::resume_unwind(Box::new("gone")));
        writer.write(ends, begin).expect("taken");
        let why = heard(&mut writer).expect_err("failed");
        assert!(why.contains("a page is not written"), "{why}");
        let after = writer.write(Job::new("another", || Ok(String::new())), begin);
        assert!(
            after
                .expect_err("refused")
                .contains("another is not written")
        );
    }
}
