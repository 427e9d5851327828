//! Runs work that may wait for a disk, a mount or a program off the thread that runs the sources.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No answer came in time; the next call waits for the same one.
    #[error("no answer within {}", kflow_model::units::wait(*.0))]
    Late(Duration),
    /// No thread could be started, or the thread panicked.
    #[error("no thread to do it")]
    Thread,
}

/// Asks one question at a time, each in a thread of its own. A thread that hangs is left alone, and no second one is
/// started: the next call waits for the first.
#[derive(Debug)]
pub struct Offload<T> {
    pending: Option<oneshot::Receiver<T>>,
}

impl<T> Default for Offload<T> {
    fn default() -> Self {
        Self { pending: None }
    }
}

impl<T: Send + 'static> Offload<T> {
    /// Runs `question`, which may block, and waits at most `most` for its answer; or for the answer to the question
    /// before, when that has not come yet.
    pub async fn ask(
        &mut self,
        most: Duration,
        question: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        if self.pending.is_none() {
            let (to, from) = oneshot::channel();
            let runtime = Handle::current();
            std::thread::Builder::new()
                .name("kflow-aside".into())
                // The caller may be gone.
                .spawn(move || drop(to.send(runtime.block_on(question))))
                .map_err(|_| Error::Thread)?;
            self.pending = Some(from);
        }
        let Some(pending) = &mut self.pending else {
            return Err(Error::Thread);
        };
        let answer = timeout(most, pending)
            .await
            .map_err(|_| Error::Late(most))?;
        self.pending = None;
        answer.map_err(|_| Error::Thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    const SOON: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_question_that_hangs_holds_up_nothing_and_is_asked_once() {
        let (go, hangs) = mpsc::channel::<()>();
        let asked = Arc::new(AtomicUsize::new(0));
        let mut hangs = Some(hangs);
        let mut aside = Offload::default();
        let mut question = || {
            let (asked, hangs) = (Arc::clone(&asked), hangs.take());
            async move {
                if let Some(hangs) = hangs {
                    hangs.recv().unwrap();
                }
                asked.fetch_add(1, Ordering::Relaxed) + 1
            }
        };
        // This runtime has one thread: its timer runs although the question hangs.
        for _ in 0..3 {
            assert_eq!(aside.ask(SOON, question()).await, Err(Error::Late(SOON)));
        }
        go.send(()).unwrap();
        assert_eq!(aside.ask(LONG, question()).await, Ok(1));
        assert_eq!(aside.ask(LONG, question()).await, Ok(2));
    }

    #[tokio::test]
    async fn a_question_that_fails_is_told_and_can_be_asked_again() {
        let mut aside = Offload::default();
        assert_eq!(
            aside.ask(LONG, async { panic!("a bug") }).await,
            Err(Error::Thread)
        );
        assert_eq!(aside.ask(LONG, async {}).await, Ok(()));
    }
}
