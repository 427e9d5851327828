//! Where a command that reads takes its observations from, and as of when.

use anyhow::{bail, ensure};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;

use super::agents::{self, Said};
use super::args::Input;
use super::args::live::LiveArgs;
use super::{moment, pods, scope};
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked, Unknown};
use kflow_core::selection::Selection;
use kflow_engine::ask::{ApiTold, NodeTold, Past};
use kflow_engine::{Pipeline, world_at};
use kflow_model::clock;
use kflow_model::offset::Offset;
use kflow_model::session::{self, Header, Report, Session};
use kflow_model::units::{DAY, MINUTE};
use kflow_model::{Nanos, Scope, Text};

/// A session that was read, or what runs gave, and the moment that was asked for. Nothing of it is taken apart: the process
/// ends with the answer, and its memory with it.
#[derive(Debug)]
pub struct Observations {
    pub session: ManuallyDrop<Session>,
    /// The moment: of what was seen up to it.
    pub at: Nanos,
    /// What was asked for; `None` for all that a recording holds.
    pub scope: Option<Scope>,
    selection: Arc<Selection>,
    /// The last moment of the recording that it is; `None` of what runs.
    pub recorded: Option<Nanos>,
    /// Clocks of the apiserver and of the node whose agent was asked, where these were compared.
    clocks: Option<(Offset, Offset)>,
}

/// How far back --at looks: no spool is older.
const YEAR: i64 = 366 * DAY;
/// How long before a moment what led to it is asked for, ns. What stood then comes with it.
const BEFORE: i64 = 15 * MINUTE;

/// What is said of who was asked for all that a node knows.
pub(super) const SAID: Said = Said {
    heard: "is in what is shown",
    silent: "are shown by the API alone",
};

impl Observations {
    /// Reads what the arguments name: a recording, or what runs, with what the agent of the node knows that has all pods that are
    /// looked at. `pod` is the pod that is asked about, if it is one.
    pub fn open(input: &Input, pod: Option<&str>) -> anyhow::Result<Self> {
        match input.at.as_deref() {
            // With --for it is a moment of that time.
            Some(at) if agents::may_ask(input) && input.for_time.is_none() => {
                Self::of_the_past(input, pod, at)
            }
            _ => Self::by_api(input, pod)?.heard(input, pod),
        }
    }

    /// The same for who asks agents himself.
    pub fn by_api(input: &Input, pod: Option<&str>) -> anyhow::Result<Self> {
        let Some(path) = &input.session else {
            return Self::from_what_runs(input, pod, input.at.as_deref());
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

    fn from_what_runs(input: &Input, pod: Option<&str>, at: Option<&str>) -> anyhow::Result<Self> {
        let mut collected = super::collect::start(input, pod)?;
        let snapshot = collected.live.snapshot();
        let session = super::collect::session(&snapshot, &input.live);
        let mut source = Self {
            session: ManuallyDrop::new(session),
            at: snapshot.now,
            scope: collected.scope,
            selection: Arc::clone(snapshot.world.selection()),
            recorded: None,
            clocks: None,
        };
        collected.live.stop();
        if let Some(at) = at {
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
            session: ManuallyDrop::new(session),
            at,
            scope: None,
            selection: Arc::default(),
            recorded: Some(end),
            clocks: None,
        })
    }

    /// Of one node a world can take all sources: where the pods that are looked at lie on one, its agent is asked, and what is
    /// known is by that node's clock then.
    fn heard(mut self, input: &Input, pod: Option<&str>) -> anyhow::Result<Self> {
        if !agents::asks(input) {
            return Ok(self);
        }
        let world = world_at(&self.session, self.at, Arc::clone(&self.selection));
        let nodes: Vec<Text> = pods::nodes(&world, pod).into_iter().collect();
        if nodes.len() > 1 {
            super::out::tell_later(&agents::several(nodes.len()));
        }
        if nodes.len() != 1 {
            return Ok(self);
        }
        let told = ApiTold::of(&world, &self.session.observations, &nodes);
        if let Some(told) = asked(input, &nodes, None, told)? {
            self.clocks = told.apiserver.map(|apiserver| (apiserver, told.offset));
            self.at = told.now;
            self.session.observations = told.observations;
        }
        Ok(self)
    }

    /// As of a moment in the past, by what the agent of one node kept of it: the apiserver tells nothing of the past.
    fn of_the_past(input: &Input, pod: Option<&str>, at: &str) -> anyhow::Result<Self> {
        let now = clock::now();
        let at = moment(at)?.within((now.plus(-YEAR), now), None, |_| 0);
        let node = match &input.live.scope.node {
            Some(node) => Text::from(node.as_str()),
            None => {
                let now = Self::from_what_runs(input, pod, None)?;
                let world = world_at(&now.session, now.at, Arc::clone(&now.selection));
                let nodes = pods::nodes(&world, pod);
                match (nodes.len(), nodes.into_iter().next()) {
                    (1, Some(node)) => node,
                    (0, _) => bail!(
                        "--at of what runs asks the agent of a node for what it kept, and no pod that is asked about is on one now: name the node with --node"
                    ),
                    (n, _) => bail!(
                        "--at of what runs asks the agent of one node for what it kept, and these pods are on {n}: name one of them, or a node with --node"
                    ),
                }
            }
        };
        let scope = Scope {
            node: Some(node.to_string()),
            ..scope::of_cluster(&input.live, pod)?
        };
        let selection = scope::selection(&scope)?;
        let past = Past {
            since: at.plus(-BEFORE),
            until: at,
        };
        let api = ApiTold::nothing(Arc::clone(&selection));
        let Some(told) = asked(input, &[node], Some(past), api)? else {
            bail!("--at of what runs needs what the agent of the node kept");
        };
        let at = at.plus(told.offset.certain_ns());
        let session = Session {
            header: Header::new(at),
            observations: told.observations,
            report: Report::default(),
        };
        let range = session.range();
        outside(range, at)?;
        Ok(Self {
            session: ManuallyDrop::new(session),
            at,
            scope: Some(scope),
            selection,
            recorded: range.map(|(_, end)| end),
            clocks: told.apiserver.map(|apiserver| (apiserver, told.offset)),
        })
    }

    /// From when on something is asked, up to the moment; from the begin on without `since`, and where that is earlier.
    pub fn from(&self, since: Option<&str>) -> anyhow::Result<Nanos> {
        let range = self.session.range().unwrap_or((self.at, self.at));
        let Some(text) = since else {
            return Ok(range.0);
        };
        let since = moment(text)?.within((range.0, self.at), None, |_| 0);
        ensure!(
            since <= self.at,
            "--since {text} is after the moment that is looked at: name an earlier one, or leave --at out"
        );
        if since < range.0 {
            let begin = range.0.to_rfc3339();
            super::out::tell_later(&format!(
                "the recording begins at {begin}: nothing is known of the time before"
            ));
        }
        Ok(since.max(range.0))
    }

    /// The world as of the moment. An error when nothing in it is of the scope.
    pub fn world(&self) -> Result<ManuallyDrop<World>, Unknown> {
        let world = world_at(&self.session, self.at, Arc::clone(&self.selection));
        let mut world = ManuallyDrop::new(world);
        if let Some((apiserver, node)) = self.clocks {
            world.compare_clocks(apiserver, node);
            world.refresh();
        }
        self.check(&world)?;
        Ok(world)
    }

    /// An error when a world holds nothing of the scope.
    pub fn check(&self, world: &World) -> Result<(), Unknown> {
        unknown::elsewhere(self.asked(world)).map_or(Ok(()), Err)
    }

    /// Nothing of it observed yet.
    pub fn pipeline(&self) -> Pipeline {
        let mut pipeline = Pipeline::selecting(Arc::clone(&self.selection));
        if let Some((apiserver, node)) = self.clocks {
            pipeline.compare_clocks(apiserver, node);
        }
        pipeline
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

/// What the agent of a node told. Whether it did, and what its clock is off, is said after the answer.
fn asked(
    input: &Input,
    node: &[Text],
    past: Option<Past>,
    api: ApiTold,
) -> anyhow::Result<Option<NodeTold>> {
    let heard = agents::heard(input, node, past, api, |_, told| told)?;
    agents::tell(&heard, input.live.agents(), SAID);
    let Some((node, Ok(told))) = heard.nodes.into_iter().next() else {
        return Ok(None);
    };
    let off = agents::off(&node, told.offset.certain_ns());
    agents::tell_of_clocks(off.into_iter().collect());
    Ok(Some(told))
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
