//! Where a command that reads takes its observations from, and as of when.

use anyhow::{bail, ensure};
use std::path::Path;
use std::sync::Arc;

use super::args::Input;
use super::args::live::LiveArgs;
use super::{moment, scope};
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked, Unknown};
use kflow_core::selection::Selection;
use kflow_engine::world_at;
use kflow_model::session::{self, Session};
use kflow_model::{Nanos, Scope};

/// A session that was read, or what runs gave, and the moment that was asked for.
#[derive(Debug)]
pub struct Observations {
    pub session: Session,
    /// The moment: of what was seen up to it.
    pub at: Nanos,
    /// What was asked for; `None` for all that a recording holds.
    pub scope: Option<Scope>,
    selection: Arc<Selection>,
    /// The last moment of the recording that it is; `None` of what runs.
    pub recorded: Option<Nanos>,
}

impl Observations {
    /// Reads what the arguments name: a recording, or what runs. `pod` is the pod that is asked about, if it is one.
    pub fn open(input: &Input, pod: Option<&str>) -> anyhow::Result<Self> {
        let Some(path) = &input.session else {
            return Self::from_what_runs(input, pod);
        };
        only_recorded(&input.live)?;
        if input.for_time.is_some() {
            bail!(
                "--for is of what runs, and --session (or KFLOW_SESSION) names a recording: leave one of them out"
            );
        }
        let flags = scope::named(&input.live.scope, None)?;
        let mut selection = scope::selection(&flags)?;
        let scope = (!selection.is_all()).then_some(flags);
        if pod.is_some() {
            selection = scope::selection(&scope::named(&input.live.scope, pod)?)?;
        }
        Ok(Self {
            scope,
            selection,
            ..Self::from_session(load(path)?, input.at.as_deref())?
        })
    }

    fn from_what_runs(input: &Input, pod: Option<&str>) -> anyhow::Result<Self> {
        let mut collected = super::collect::start(input, pod)?;
        let snapshot = collected.live.snapshot();
        let session = super::collect::session(&snapshot, &input.live);
        let mut source = Self {
            session,
            at: snapshot.now,
            scope: collected.scope,
            selection: Arc::clone(snapshot.world.selection()),
            recorded: None,
        };
        collected.live.stop();
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
            selection: Arc::default(),
            recorded: Some(end),
        })
    }

    /// From when on something is asked, up to the moment; from the begin on without `since`.
    pub fn from(&self, since: Option<&str>) -> anyhow::Result<Nanos> {
        let range = self.session.range().unwrap_or((self.at, self.at));
        let Some(text) = since else {
            return Ok(range.0);
        };
        let since = moment(text)?.within((range.0, self.at), None, |_| 0);
        outside(Some(range), since)?;
        ensure!(
            since <= self.at,
            "--since {text} is after the moment that is looked at: name an earlier one, or leave --at out"
        );
        Ok(since)
    }

    /// The world as of the moment. An error when nothing in it is of the scope.
    pub fn world(&self) -> Result<World, Unknown> {
        let world = world_at(&self.session, self.at, Arc::clone(&self.selection));
        self.check(&world)?;
        Ok(world)
    }

    /// An error when a world holds nothing of the scope.
    pub fn check(&self, world: &World) -> Result<(), Unknown> {
        unknown::elsewhere(self.asked(world)).map_or(Ok(()), Err)
    }

    /// Which pods are looked at.
    pub const fn selection(&self) -> &Arc<Selection> {
        &self.selection
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

/// What means something only for what runs is refused with a recording.
pub(super) fn only_recorded(live: &LiveArgs) -> anyhow::Result<()> {
    if let Some(flag) = live.live_flag() {
        bail!(
            "{flag} is of what runs, and --session (or KFLOW_SESSION) names a recording: leave one of them out"
        );
    }
    Ok(())
}

/// A moment that nothing is known of is an error.
fn outside(range: Option<(Nanos, Nanos)>, at: Nanos) -> Result<(), Unknown> {
    unknown::outside(range, at).map_or(Ok(()), Err)
}

/// Reads a session and says on standard error what was left out of it.
pub fn load(path: &Path) -> anyhow::Result<Session> {
    let session = session::load(path)?;
    let notice = session.report.sentence();
    if !notice.is_empty() {
        super::out::tell(&format!("{}: {notice}", path.display()));
    }
    Ok(session)
}
