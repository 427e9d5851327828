//! Dropping segments when a spool is full.

use std::io;

use kflow_model::file::FileError;
use kflow_model::session::{Part, SessionError};
use tracing::warn;

use super::Spool;

impl Spool {
    /// Bytes free on the spool's file system, if known.
    pub(super) fn space(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(self.ring.dir.as_path()).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Drops segments beyond the bounds.
    pub(super) fn make_room(&mut self) {
        let bounds = self.options.bounds;
        let open = self.current.as_ref().map_or(0, |c| c.writer.bytes());
        loop {
            let total = {
                let mut state = self.ring.lock();
                let closed: u64 = state.segments.iter().map(|s| s.bytes).sum();
                state.status.bytes = closed + open;
                state.status.bytes
            };
            let short = self.space().is_some_and(|free| free < bounds.free);
            // Segments owed to the store are dropped for the spool's size only. If others fill the disk, new
            // observations are lost instead.
            let dropped = (total > bounds.bytes && self.drop_one(true))
                || (short && self.drop_one(!self.options.owed))
                || self.drop_old();
            if !dropped {
                return;
            }
        }
    }

    fn drop_old(&mut self) -> bool {
        let most = i64::try_from(self.options.bounds.age.as_nanos()).unwrap_or(i64::MAX);
        let too_old = {
            let state = self.ring.lock();
            let mut after = 0_i64;
            let mut found = None;
            for s in state.segments.iter().rev() {
                if after > most && (s.sent || !self.options.owed) {
                    found = Some(s.part.clone());
                }
                after = after.saturating_add(s.length());
            }
            found
        };
        too_old.is_some_and(|part| self.remove(&part))
    }

    /// Drops the oldest segment that the store has; with `any`, the oldest of all if there is none. Returns false if
    /// none was dropped.
    pub(super) fn drop_one(&mut self, any: bool) -> bool {
        let part = {
            let state = self.ring.lock();
            let sent = state.segments.iter().find(|s| s.sent);
            let oldest = state.segments.first().filter(|_| any);
            sent.or(oldest).map(|s| s.part.clone())
        };
        part.is_some_and(|part| self.remove(&part))
    }

    fn remove(&mut self, part: &Part) -> bool {
        let mut state = self.ring.lock();
        let Some(i) = state.segments.iter().position(|s| s.part == *part) else {
            return false;
        };
        let s = state.segments.remove(i);
        if let Err(e) = std::fs::remove_file(&s.path)
            && e.kind() != io::ErrorKind::NotFound
        {
            warn!(path = %s.path.display(), why = %e, "a segment cannot be removed");
            state.segments.insert(i, s);
            return false;
        }
        if self.options.owed && !s.sent {
            let (segments, observations) = &mut state.status.dropped;
            (*segments, *observations) = (*segments + 1, *observations + s.observations);
            let gone = self.gone.get_or_insert((0, 0, s.begin));
            *gone = (gone.0 + 1, gone.1 + s.observations, gone.2.min(s.begin));
            warn!(
                observations = s.observations,
                "a segment went before the store had it"
            );
        }
        true
    }
}

/// True when the error means that the disk or a quota is full.
pub(super) fn is_full(e: &SessionError) -> bool {
    let source = match e {
        SessionError::Io { source, .. } => source,
        SessionError::File(FileError::Io { source, .. }) => source,
        _ => return false,
    };
    matches!(
        source.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
