//! Where a command takes its observations from, and as of which moment.

use anyhow::{bail, ensure};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;

use super::agents::{self, Said};
use super::args::live::LiveArgs;
use super::args::{Input, Range};
use super::{moment, pods, scope};
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked, Unknown};
use kflow_core::selection::Selection;
use kflow_engine::ask::{ApiTold, NodeTold, Past};
use kflow_engine::{Pipeline, world_at};
use kflow_model::clock;
use kflow_model::gap::Gap;
use kflow_model::offset::Offset;
use kflow_model::session::{Header, Report, Session};
use kflow_model::units::{DAY, MINUTE, date_and_clock};
use kflow_model::{Body, Nanos, Scope, Text};

/// The observations of a recording or of live sources, and the requested moment. The large parts are never freed: the
/// process ends with the answer.
#[derive(Debug)]
pub struct Observations {
    pub session: ManuallyDrop<Session>,
    /// The requested moment: observations that arrived later do not count.
    pub at: Nanos,
    /// The requested scope; `None` for everything in a recording.
    pub scope: Option<Scope>,
    selection: Arc<Selection>,
    /// Arrival of the recording's last observation; `None` for live sources.
    pub recorded: Option<Nanos>,
    /// Offsets of the clocks of the apiserver and of the queried agent's node from this machine's,
    /// where they were measured.
    clocks: Option<(Offset, Offset)>,
}

/// How far back `--at` can reach, ns: no spool is older.
const YEAR: i64 = 366 * DAY;
/// How long before the moment the agent's observations begin, ns. The state at that time comes with them.
const BEFORE: i64 = 15 * MINUTE;

/// The messages about nodes whose agents were queried for all that they know.
pub(super) const SAID: Said = Said {
    heard: "is in what is shown",
    silent: "are shown by the API alone",
};

impl Observations {
    /// Reads the source that the arguments name: a recording, or live sources. If all selected pods are on one node,
    /// its agent is queried too. `pod` is the pod that the command is about, if any.
    pub fn open(input: &Input, pod: Option<&str>) -> anyhow::Result<Self> {
        match input.at.as_deref() {
            // With `--for`, the moment is within the time of that look.
            Some(at) if agents::may_ask(input) && input.for_time.is_none() => {
                Self::of_the_past(input, pod, at)
            }
            _ => Self::by_api(input, pod)?.heard(input, pod),
        }
    }

    /// Like [`open`](Self::open), without a node's agent: for commands that query agents themselves.
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
            ..Self::from_session(
                load(path, input.live.scope.node.as_deref())?,
                input.at.as_deref(),
            )?
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

    /// Takes a session that is already in memory.
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

    /// A world can hold all sources of a single node. If the selected pods are on one node, this queries the node's
    /// agent; the moment is then by that node's clock.
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

    /// Reads a moment in the past from what one node's agent has kept: the apiserver has no past states.
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

    /// Says of which moment a text is that ends there, where that is not the end of a recording.
    pub fn tell_moment(&self, input: &Input) {
        if self.recorded.is_none() || input.at.is_some() {
            let at = date_and_clock(self.at, 0, 0);
            super::out::tell_later(&format!("as of {at} UTC"));
        }
    }

    /// The begin of the requested time: `since`, but not before the first observation; without
    /// `since`, the first observation.
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

    /// The requested part of the time up to the moment; an error when nothing of it is known.
    pub fn range(&self, range: Option<Range>) -> anyhow::Result<Option<(Nanos, Nanos)>> {
        let begin = self.session.range().map_or(self.at, |(begin, _)| begin);
        range.map(|r| r.within((begin, self.at))).transpose()
    }

    /// The world as of the moment. An error when it has nothing in the scope.
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

    /// An error when a world has nothing in the scope.
    pub fn check(&self, world: &World) -> Result<(), Unknown> {
        unknown::elsewhere(self.asked(world)).map_or(Ok(()), Err)
    }

    /// A pipeline with this selection and these clocks, which has observed nothing yet.
    pub fn pipeline(&self) -> Pipeline {
        let mut pipeline = Pipeline::selecting(Arc::clone(&self.selection));
        if let Some((apiserver, node)) = self.clocks {
            pipeline.compare_clocks(apiserver, node);
        }
        pipeline
    }

    pub const fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }

    /// The question, for statements about missing data.
    pub const fn asked<'a>(&'a self, world: &'a World) -> Asked<'a> {
        Asked {
            world,
            at: self.at,
            scope: self.scope.as_ref(),
            recorded: self.recorded,
        }
    }
}

/// Queries the agent of a node; `None` when it did not answer. Whether it did, and how far its clock is off, is
/// printed after the answer.
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

/// Refuses flags that apply only to live sources.
pub(super) fn only_recorded(live: &LiveArgs) -> anyhow::Result<()> {
    if let Some(flag) = live.live_flag() {
        bail!(
            "{flag} is of what runs, and --session (or KFLOW_SESSION) names a recording: leave one of them out"
        );
    }
    Ok(())
}

/// An error for a moment outside the time of the observations.
fn outside(range: Option<(Nanos, Nanos)>, at: Nanos) -> Result<(), Unknown> {
    unknown::outside(range, at).map_or(Ok(()), Err)
}

/// Reads a recording, and reports on standard error what was left out of it. `node`: the one whose captures are taken,
/// where it is raw captures of several.
pub fn load(path: &Path, node: Option<&str>) -> anyhow::Result<Session> {
    let session = super::recording::open(path, node)?.read();
    let notice = session.report.sentence();
    if !notice.is_empty() {
        super::out::tell(&format!("{}: {notice}", path.display()));
    }
    let cut = session.observations.iter().filter_map(|o| match &o.body {
        Body::Gap(gap) if gap.resource == Gap::CAPTURE => Some(&gap.why),
        _ => None,
    });
    for why in cut {
        super::out::tell_later(&format!("an answer may be incomplete: {why}"));
    }
    Ok(session)
}
