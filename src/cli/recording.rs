//! Opens a recording: a session, or raw captures, which are imported for one answer.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Seek as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use super::args::CaptureArgs;
use super::import::{captures, summary};
use super::out;
use kflow_core::query::Moment;
use kflow_core::selection::Selection;
use kflow_engine::replay::Player;
use kflow_model::session::{Reader, SessionError, Writer, begins};
use kflow_sources::kube::decode::EMPTY_LIST;

/// Error: what was given, or what was made of it, could not be read.
const UNREAD: &str = "cannot read it";

/// Opens a recording. `node`: the one whose captures are taken, where there are those of several.
pub(super) fn open(path: &Path, node: Option<&str>) -> anyhow::Result<Reader> {
    opened(path, node, || Reader::open(path), |reader| reader)
}

/// Plays a recording, from the moment `begin` or from where it knows what there is. Notes can be added to a session alone.
pub(super) fn play(
    path: &Path,
    node: Option<&str>,
    begin: Option<Moment>,
    selection: Arc<Selection>,
) -> anyhow::Result<Player> {
    let session = || {
        let player = Player::open(path, begin.unwrap_or_default(), Arc::clone(&selection))?;
        Ok(opened_at(player, begin))
    };
    let captures = |reader| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let player = Player::new(
            reader,
            &name.to_string_lossy(),
            begin.unwrap_or_default(),
            Arc::clone(&selection),
        );
        opened_at(player, begin)
    };
    opened(path, node, session, captures)
}

/// Where no moment was named, nothing is to be seen before the first lists.
fn opened_at(player: Player, begin: Option<Moment>) -> Player {
    match begin {
        Some(_) => player,
        None => player.once_listed(),
    }
}

/// Opens a session, or what `captures` makes of the session that captures are imported into.
fn opened<T>(
    path: &Path,
    node: Option<&str>,
    session: impl FnOnce() -> Result<T, SessionError>,
    captures: impl FnOnce(Reader) -> T,
) -> anyhow::Result<T> {
    let not = if path.as_os_str() != "-" {
        match session() {
            Err(SessionError::NotASession { path, why }) => {
                format!("{path} is not a kflow session ({why})")
            }
            opened => return Ok(opened?),
        }
    } else if begins(io::stdin().lock().fill_buf().context(UNREAD)?) {
        return Ok(session()?);
    } else {
        "standard input is not a kflow session".to_owned()
    };
    let imported = imported(path, node);
    imported
        .map(captures)
        .with_context(|| format!("{not}, and cannot be imported"))
}

/// Imports captures, as `kflow import` does it, into a nameless file.
fn imported(path: &Path, node: Option<&str>) -> anyhow::Result<Reader> {
    let args = CaptureArgs {
        captures: vec![path.to_owned()],
        node: node.unwrap_or_default().to_owned(),
        ..CaptureArgs::default()
    };
    let folder = std::env::temp_dir();
    let found = captures::find(&args, &folder)?;
    let imported = captures::read(&args, &found, io::stderr().is_terminal())?;
    let observations = &imported.observations;
    ensure!(
        !observations.is_empty() || found.nodes.is_empty(),
        "beside the captures of several nodes it has nothing that kflow knows: choose one of these with --node: {}",
        summary::some(found.nodes.iter(), summary::MANY)
    );
    let mut left_out = imported.summaries.iter().flat_map(|s| s.ignored.keys());
    ensure!(
        !observations.is_empty() || !left_out.any(|why| *why == EMPTY_LIST),
        "a list in it is empty: kubectl found nothing of what it was asked for"
    );
    ensure!(
        !observations.is_empty(),
        "it has nothing that kflow knows: `kflow import` tells what was left out"
    );
    // Through a file, as what is written is without secrets.
    let file = || -> io::Result<(File, File)> {
        let file = tempfile::tempfile_in(&folder)?;
        Ok((file.try_clone()?, file))
    };
    let (written, mut file) =
        file().with_context(|| format!("cannot create a file in {}", folder.display()))?;
    let name = path.display().to_string();
    let mut writer = Writer::stream(written, &name, &imported.header)?;
    writer.write_all(observations)?;
    let bytes = writer.finish()?;
    file.rewind().context(UNREAD)?;
    for note in summary::notes(&imported, &found, Some(path)) {
        out::tell_later(&note);
    }
    Ok(Reader::new(&name, Box::new(file), bytes)?)
}
