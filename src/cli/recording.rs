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

/// Error: what was given, or what was made of it, could not be read.
const UNREAD: &str = "cannot read it";

/// Opens a recording. `node`: the one whose captures are taken, where there are those of several.
pub(super) fn open(path: &Path, node: Option<&str>) -> anyhow::Result<Reader> {
    match imported(path, node)? {
        Some(reader) => Ok(reader),
        None => Ok(Reader::open(path)?),
    }
}

/// Plays a recording. Notes can be added to a session alone.
pub(super) fn play(
    path: &Path,
    node: Option<&str>,
    begin: Moment,
    selection: Arc<Selection>,
) -> anyhow::Result<Player> {
    let Some(reader) = imported(path, node)? else {
        return Ok(Player::open(path, begin, selection)?);
    };
    let name = path.file_name().unwrap_or(path.as_os_str());
    let name = name.to_string_lossy();
    Ok(Player::new(reader, &name, begin, selection))
}

/// Imports what is no session, as `kflow import` does it, into a nameless file; `None` for a session.
fn imported(path: &Path, node: Option<&str>) -> anyhow::Result<Option<Reader>> {
    let (name, why) = if path.as_os_str() == "-" {
        if begins(io::stdin().lock().fill_buf().context(UNREAD)?) {
            return Ok(None);
        }
        ("standard input".to_owned(), None)
    } else {
        match Reader::open(path) {
            Err(SessionError::NotASession { path, why }) => (path, Some(why)),
            // Anything else is told by who opens it.
            Ok(_) | Err(_) => return Ok(None),
        }
    };
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let reader = import(path, &name, node)
        .with_context(|| format!("{name} is not a kflow session{why}, and cannot be imported"))?;
    Ok(Some(reader))
}

fn import(path: &Path, name: &str, node: Option<&str>) -> anyhow::Result<Reader> {
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
    let mut writer = Writer::stream(written, name, &imported.header)?;
    writer.write_all(observations)?;
    let bytes = writer.finish()?;
    file.rewind().context(UNREAD)?;
    for note in summary::notes(&imported, &found) {
        out::tell_later(&note);
    }
    Ok(Reader::new(name, Box::new(file), bytes)?)
}
