//! Where a command that reads takes its observations from, and as of when.

use anyhow::bail;
use std::path::Path;

use super::args::Input;
use super::moment;
use kflow_core::correlate::World;
use kflow_engine::world_at;
use kflow_model::Nanos;
use kflow_model::session::{self, Session};

/// A session that was read, and the moment that was asked for.
#[derive(Debug)]
pub struct Source {
    /// The session.
    pub session: Session,
    /// The moment: of what was seen up to it.
    pub at: Nanos,
}

impl Source {
    /// Reads what the arguments name: a recording, or what runs.
    pub fn open(input: &Input) -> anyhow::Result<Self> {
        let Some(path) = &input.session else {
            return Self::from_what_runs(input);
        };
        if input.live.names_a_source() {
            bail!(
                "name either a recording (--session, KFLOW_SESSION) or what to look at (--node, --context, --proxy, …)"
            );
        }
        Self::from_session(load(path)?, input.at.as_deref())
    }

    fn from_what_runs(input: &Input) -> anyhow::Result<Self> {
        let (live, snapshot) = super::gather::start(input)?;
        let source = Self {
            session: super::gather::session(&snapshot, &input.live),
            at: snapshot.now,
        };
        live.stop();
        match input.at.as_deref() {
            None => Ok(source),
            at => Self::from_session(source.session, at),
        }
    }

    /// A session that is there already.
    pub fn from_session(session: Session, at: Option<&str>) -> anyhow::Result<Self> {
        let (begin, end) = session
            .range()
            .unwrap_or((session.header.created, session.header.created));
        let at = match at {
            None => end,
            Some(text) => moment(text)?.within((begin, end), None, |_| 0),
        };
        Ok(Self { session, at })
    }

    /// The world as of the moment.
    pub fn world(&self) -> World {
        world_at(&self.session, self.at)
    }
}

/// Reads a session and says on standard error what was left out of it.
#[expect(clippy::print_stderr, reason = "a notice beside the result")]
pub fn load(path: &Path) -> anyhow::Result<Session> {
    let session = session::load(path)?;
    let notice = session.report.sentence();
    if !notice.is_empty() {
        eprintln!("kflow: {}: {notice}", path.display());
    }
    Ok(session)
}
