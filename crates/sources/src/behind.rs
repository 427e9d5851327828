//! Reports whether everything has arrived that a proxy or an agent saw before kflow connected to it.

use crate::live::{Out, Stopped};
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::{Body, Observation, Source, Stamp, Text, clock};
use kflow_serve::wire::InfoResponse;

/// Whether something was missing at the last report; false before the first one.
#[derive(Debug, Default)]
pub(crate) struct Behind(bool);

impl Behind {
    /// Returns true while something is missing of what a proxy or an agent had seen when it sent `info`, for a reader
    /// that has got up to `next` of `epoch`. A sender that does not report the end of its ring (`next` is
    /// 0) is never behind.
    pub(crate) fn of(info: &InfoResponse, epoch: u64, next: u64) -> bool {
        info.next != 0 && (epoch != info.epoch || next < info.next)
    }

    /// Reports `behind` if it differs from the last report: as the beginning or the end of a list of calls.
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
