//! Where a command that reads takes its observations from, and as of when.

use anyhow::bail;
use std::path::Path;

use super::args::Input;
use super::moment;
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked, Unknown};
use kflow_engine::world_at;
use kflow_model::session::{self, Session};
use kflow_model::{Nanos, Scope};

/// A session that was read, or what runs gave, and the moment that was asked for.
#[derive(Debug)]
pub struct Source {
    /// The session.
    pub session: Session,
    /// The moment: of what was seen up to it.
    pub at: Nanos,
    /// What was looked at; `None` for all that a recording holds.
    pub scope: Option<Scope>,
    /// It is a recording.
    pub recorded: bool,
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
        let mut gathered = super::gather::start(input)?;
        let snapshot = gathered.live.snapshot();
        let session = super::gather::session(&snapshot, &input.live);
        let mut source = Self {
            session,
            at: snapshot.now,
            scope: gathered.scope,
            recorded: false,
        };
        gathered.live.stop();
        if let Some(at) = input.at.as_deref() {
            source.at = moment(at)?.within(snapshot.range, None, |_| 0);
            outside(Some(snapshot.range), source.at)?;
        }
        Ok(source)
    }

    /// A session that is there already.
    pub fn from_session(session: Session, at: Option<&str>) -> anyhow::Result<Self> {
        let range = session.range();
        let (begin, end) = range.unwrap_or((session.header.created, session.header.created));
        let at = match at {
            None => end,
            Some(text) => moment(text)?.within((begin, end), None, |_| 0),
        };
        outside(range, at)?;
        Ok(Self {
            session,
            at,
            scope: None,
            recorded: true,
        })
    }

    /// The world as of the moment.
    pub fn world(&self) -> World {
        world_at(&self.session, self.at)
    }

    /// What is asked, for who says what is not known.
    pub const fn asked<'a>(&'a self, world: &'a World) -> Asked<'a> {
        Asked {
            world,
            at: self.at,
            scope: self.scope.as_ref(),
            recorded: self.recorded,
        }
    }
}

/// A moment that nothing is known of is an error.
fn outside(range: Option<(Nanos, Nanos)>, at: Nanos) -> Result<(), Unknown> {
    unknown::outside(range, at).map_or(Ok(()), Err)
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
