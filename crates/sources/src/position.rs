//! How far a reader of an agent's or a proxy's stream has got, and whether it has everything that they saw before it connected.

use crate::cri::Numbers;
use crate::live::{Out, Stopped};
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text, clock};
use kflow_serve::wire::{Batch, InfoResponse};

/// See the [module](self). It outlives connections.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// Start of the process that sends; 0 before the first batch.
    pub(crate) epoch: u64,
    /// Position after the last line that was read.
    pub(crate) next: u64,
    /// When the last batch was read.
    pub(crate) reached: Nanos,
    pub(crate) numbers: Numbers,
    /// Epoch and position after the newest line when the connection began.
    end: (u64, u64),
    /// What was reported last: something is missing.
    behind: bool,
}

impl Position {
    /// A connection began, and this is the sender's state.
    pub(crate) async fn joined(
        &mut self,
        info: &InfoResponse,
        out: &mut Out,
    ) -> Result<(), Stopped> {
        self.end = (info.epoch, info.next);
        let behind = !self.has_all();
        self.report(behind, out).await
    }

    /// A batch was received.
    pub(crate) fn take(&mut self, batch: &Batch) {
        if self.epoch != 0 && self.epoch != batch.epoch {
            self.numbers.again();
        }
        self.epoch = batch.epoch;
        if !batch.past {
            self.next = batch.next;
        }
        self.reached = clock::now();
    }

    /// All lines of a batch were passed on. Returns true when everything was read that the sender had when the
    /// connection began.
    pub(crate) async fn passed(&mut self, out: &mut Out) -> Result<bool, Stopped> {
        let has_all = self.has_all();
        if has_all {
            self.report(false, out).await?;
        }
        Ok(has_all)
    }

    /// The connection ended. What the sender sees until the next one is missing.
    pub(crate) async fn broke_off(&mut self, out: &mut Out) -> Result<(), Stopped> {
        if self.epoch != 0 {
            self.report(true, out).await?;
        }
        Ok(())
    }

    /// True when everything was read that the sender had when the connection began. A sender that does not report the end of its
    /// ring (0) has nothing.
    fn has_all(&self) -> bool {
        let (epoch, next) = self.end;
        next == 0 || (self.epoch == epoch && self.next >= next)
    }

    /// Reports a change, as the beginning or the end of a list of calls.
    async fn report(&mut self, behind: bool, out: &mut Out) -> Result<(), Stopped> {
        if std::mem::replace(&mut self.behind, behind) == behind {
            return Ok(());
        }
        let note = WatchNote {
            resource: WatchNote::CALLS.into(),
            kind: if behind {
                WatchKind::ListBegin
            } else {
                WatchKind::ListEnd
            },
            scope: Text::default(),
            detail: Text::default(),
            failure: None,
        };
        out.send(Observation {
            stamp: Stamp::exact(clock::now()),
            source: Source::Kflow,
            body: Body::Watch(Box::new(note)),
        })
        .await
    }
}
