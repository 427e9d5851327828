//! Where a component's log is followed.

use std::path::{Path, PathBuf};

use tokio::task::JoinSet;

use kflow_model::Source;
use kflow_sources::klog::live::{self, Journal, NewDecoder};
use kflow_sources::live::Board;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    File(PathBuf),
    /// A unit's journal, read with `journalctl`.
    Journal(String),
    /// A unit's journal, read from its files.
    JournalFiles(Journal),
}

impl LogPlace {
    /// Reads `journal`, `journal:UNIT`, `journal:UNIT@FOLDER`, or the path of a file. `unit` has the log if none is named.
    pub fn named(text: &Path, unit: &str) -> Self {
        let named = match text.to_str() {
            Some("journal") => Some(""),
            text => text.and_then(|t| t.strip_prefix("journal:")),
        };
        match named {
            None => Self::File(text.to_owned()),
            Some("") => Self::Journal(unit.to_owned()),
            Some(named) => Journal::named(named)
                .map_or_else(|| Self::Journal(named.to_owned()), Self::JournalFiles),
        }
    }
    pub(super) fn spawn(
        self,
        source: Source,
        decoder: NewDecoder,
        board: &Board,
        tasks: &mut JoinSet<()>,
    ) {
        match self {
            Self::File(path) => {
                let out = board.out(source, &path.to_string_lossy());
                tasks.spawn(live::file(path, source, decoder, out));
            }
            Self::Journal(unit) => {
                let out = board.out(source, &format!("journal of {unit}"));
                tasks.spawn(async move { live::journal(&unit, source, decoder, out).await });
            }
            Self::JournalFiles(journal) => {
                let out = board.out(source, &format!("journal of {}", journal.unit));
                tasks.spawn(live::journal_files(journal, source, decoder, out));
            }
        }
    }
}
