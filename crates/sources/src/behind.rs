//! Whether all is here that a proxy or an agent saw before it was connected to.

use crate::live::{Out, Stopped};
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::{Body, Observation, Source, Stamp, Text, clock};
use kflow_serve::wire::InfoResponse;

/// What was said of it last: until something is, that all is here.
#[derive(Debug, Default)]
pub(crate) struct Behind(bool);

impl Behind {
    /// True while something is missing of what had been seen when it was asked (`info`), of who got up to `next` of `epoch`. Who tells
    /// no end of its ring has none.
    pub(crate) fn of(info: &InfoResponse, epoch: u64, next: u64) -> bool {
        info.next != 0 && (epoch != info.epoch || next < info.next)
    }

    /// Says so where it is other than what was said last: as a list of calls that begins, and that ends.
    pub(crate) async fn set(&mut self, behind: bool, out: &mut Out) -> Result<(), Stopped> {
        if std::mem::replace(&mut self.0, behind) == behind {
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
