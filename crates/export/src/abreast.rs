//! Pods of several nodes side by side on one time axis: a row for each pod with its node, and how much the clocks of
//! the nodes differ.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::text::{Times, clean, cut};
use super::timeline::Paint;
use kflow_core::correlate::{Pod, PodView, World};
use kflow_core::diagnose::pods_of;
use kflow_core::flow::Stage;
use kflow_core::timeline::{Outcome, Span};
use kflow_model::offset::Offset;
use kflow_model::units::{duration, estimate};
use kflow_model::{Nanos, ObjectRef, Text};

/// Width of the axis, columns.
const COLUMNS: u16 = 56;
/// Widest column of pod names.
const NAME: usize = 40;

/// The clock that a pod's times are by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The clock that all pods have in common: that of a recording, or of the only node.
    Common,
    /// The clock of the pod's node, as the node's agent reports it.
    Node(Offset),
    /// The apiserver's clock, as nothing of the pod's node was received. `None` where the apiserver did
    /// not report its clock.
    Apiserver(Option<Offset>),
}

impl Clock {
    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Common => None,
            Self::Node(_) => Some("node"),
            Self::Apiserver(_) => Some("apiserver"),
        }
    }
    /// Returns how far the clock is ahead of this machine's; `None` when that is unknown or needless.
    const fn offset(self) -> Option<Offset> {
        match self {
            Self::Common => None,
            Self::Node(offset) => Some(offset),
            Self::Apiserver(offset) => offset,
        }
    }
}

/// A pod with what its row needs.
#[derive(Clone, Debug)]
pub struct Lane {
    pub pod: Pod,
    pub clock: Clock,
    /// The moment that the pod's state is as of, by `clock`.
    pub now: Nanos,
}

/// Returns the pods of an owner in one world, whose clock they have in common.
pub fn of(world: &World, owner: &ObjectRef, now: Nanos) -> Vec<Lane> {
    let lane = |pod: &Pod| Lane {
        pod: Pod::clone(pod),
        clock: Clock::Common,
        now,
    };
    pods_of(world, owner).into_iter().map(lane).collect()
}

impl Lane {
    /// Returns by how much the pod's clock is certainly ahead of this machine's, ns.
    pub fn ahead(&self) -> i64 {
        self.clock.offset().map_or(0, Offset::certain_ns)
    }
    /// Converts a moment of the pod's clock to this machine's clock.
    pub fn shown(&self, at: Nanos) -> Nanos {
        at.plus(self.ahead().saturating_neg())
    }
    fn stages(&self) -> impl Iterator<Item = &Span> {
        let spans = self.pod.timeline.spans.iter();
        spans.filter(|s| s.step == s.stage.name())
    }
    pub fn began(&self) -> Nanos {
        let first = self.stages().map(|s| s.start.at).min();
        first.unwrap_or(self.pod.created)
    }
    /// Returns the end of what the row shows: when the pod was gone, now while a stage goes on, else
    /// when it became ready.
    pub fn until(&self) -> Nanos {
        let p: &PodView = &self.pod;
        let last = || self.stages().filter_map(|s| s.end).map(|e| e.at).max();
        p.gone
            .or_else(|| p.current.map(|_| self.now))
            .or_else(|| p.became_ready.map(|e| e.at))
            .or_else(last)
            .unwrap_or_else(|| self.began())
    }
}

/// The time axis, by this machine's clock.
#[derive(Clone, Copy)]
struct Axis {
    begin: Nanos,
    column: i64,
}

impl Axis {
    fn of(lanes: &[Lane]) -> Option<Self> {
        let begin = lanes.iter().map(|l| l.shown(l.began())).min()?;
        let end = lanes.iter().map(|l| l.shown(l.until())).max()?;
        // Rounded up, so that the end lies in the last column.
        let column = end.since(begin).max(0) / i64::from(COLUMNS) + 1;
        Some(Self { begin, column })
    }
    fn end(self) -> Nanos {
        self.begin
            .plus(self.column.saturating_mul(i64::from(COLUMNS)))
    }
    /// Draws the row of a pod.
    fn row(self, lane: &Lane) -> String {
        let (begun, until) = (lane.shown(lane.began()), lane.shown(lane.until()));
        let ready = lane.pod.became_ready.map(|e| lane.shown(e.at));
        let stays = lane.pod.gone.is_none() && lane.pod.current.is_none();
        (0..COLUMNS)
            .map(|n| {
                let begin = self.begin.plus(self.column.saturating_mul(i64::from(n)));
                let end = begin.plus(self.column);
                let within = lane.stages().filter_map(|s| {
                    let from = lane.shown(s.start.at).max(begin);
                    let to = s.end.map_or(until, |e| lane.shown(e.at)).min(end);
                    (from < to).then(|| (to.since(from), s))
                });
                // A column shows the stage that takes most of its time.
                let most = within.max_by_key(|(ns, s)| (*ns, s.stage));
                match most {
                    Some((_, s)) if s.outcome == Outcome::Error => '!',
                    Some((_, s)) => letter(s.stage),
                    None if begin >= until && stays => '─',
                    None if begin < until && ready.is_some_and(|r| begin >= r) => '─',
                    None if begin < until && end > begun => '·',
                    None => ' ',
                }
            })
            .collect()
    }
}

const fn letter(stage: Stage) -> char {
    match stage {
        Stage::Api => 'a',
        Stage::Schedule => 's',
        Stage::Admit => 'm',
        Stage::Cgroup => 'g',
        Stage::Volumes => 'v',
        Stage::Sandbox => 'b',
        Stage::Image => 'i',
        Stage::Create => 'c',
        Stage::Start => 't',
        Stage::Ready => 'r',
        Stage::Terminate => 'x',
    }
}

/// `ready after 6.87s`, `in image for 12.1s`, `gone`
pub fn standing(lane: &Lane) -> String {
    let p: &PodView = &lane.pod;
    match (p.gone, p.current, p.became_ready) {
        (Some(_), ..) => "gone".to_owned(),
        (_, Some((stage, since)), _) => {
            let since = duration(lane.now.since(since).max(0));
            format!("in {} for {since}", stage.name())
        }
        (.., Some(e)) => format!("ready after {}", duration(e.at.since(lane.began()))),
        _ => clean(&p.status).into_owned(),
    }
}

/// `is 3.20s ahead, ±1.2ms`, `agrees within 2.1ms`
fn apart(offset: Offset) -> String {
    let doubt = duration(offset.doubt_ns());
    let by = estimate(offset.ahead_ns.saturating_abs());
    match offset.certain_ns() {
        0 => format!("agrees within {doubt}"),
        ns if ns < 0 => format!("is {by} behind, ±{doubt}"),
        _ => format!("is {by} ahead, ±{doubt}"),
    }
}

/// Describes for each node how far its clock is off, and whether that is known to less than a column.
pub fn clocks(lanes: &[Lane], column_ns: i64) -> Vec<String> {
    let mut clocks: BTreeMap<(bool, &Text), Clock> = BTreeMap::new();
    for l in lanes.iter().filter(|l| l.clock != Clock::Common) {
        let by_node = matches!(l.clock, Clock::Node(_));
        clocks.insert((!by_node, &l.pod.node), l.clock);
    }
    let line = |((_, node), clock): ((bool, &Text), Clock)| {
        let node = if node.is_empty() { "no node" } else { node };
        let line = match clock {
            Clock::Node(o) => format!("{node}: its clock {}", apart(o)),
            Clock::Apiserver(Some(o)) => {
                format!(
                    "{node}: times are the apiserver's, whose clock {}",
                    apart(o)
                )
            }
            _ => format!("{node}: times are the apiserver's, whose clock is not known"),
        };
        let blurred = clock.offset().is_some_and(|o| o.doubt_ns() > column_ns);
        if blurred {
            format!("{line}, which is more than a column")
        } else {
            line
        }
    };
    clocks.into_iter().map(line).collect()
}

/// Writes the rows for people.
pub fn text(out: &mut impl Write, lanes: &[Lane], colour: bool) -> io::Result<()> {
    let Some(axis) = Axis::of(lanes) else {
        return Ok(());
    };
    let paint = Paint { colour };
    let column = duration(axis.column);
    let whose = if lanes.iter().any(|l| l.clock != Clock::Common) {
        ", by this machine's clock"
    } else {
        ""
    };
    let head = format!("side by side{whose}; a column is {column}");
    writeln!(out, "{}", paint.bold(&head))?;
    for line in clocks(lanes, axis.column) {
        let line = format!("  {line}");
        writeln!(out, "{}", paint.dim(&clean(&line)))?;
    }
    let names: Vec<String> = lanes
        .iter()
        .map(|l| cut(&clean(&l.pod.name), NAME).into_owned())
        .collect();
    let nodes: Vec<String> = lanes
        .iter()
        .map(|l| cut(&clean(&l.pod.node), NAME).into_owned())
        .collect();
    let width = |all: &[String]| all.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    let (name, node) = (width(&names), width(&nodes));
    let begin = Times::of([axis.begin, axis.end()])
        .at(axis.begin, kflow_model::stamp::MILLI.unsigned_abs() as u32);
    let end = format!("+{}", duration(axis.end().since(axis.begin)));
    let room = usize::from(COLUMNS).saturating_sub(begin.chars().count());
    writeln!(out, "  {:name$}  {:node$}  {begin}{end:>room$}", "", "")?;
    for ((l, pod), of) in lanes.iter().zip(names).zip(nodes) {
        let line = format!(
            "  {pod:name$}  {of:node$}  {}  {}",
            axis.row(l),
            standing(l)
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    let legend: Vec<String> = Stage::ALL
        .iter()
        .map(|s| format!("{} {}", letter(*s), s.name()))
        .collect();
    let legend = format!(
        "  {}, ─ ready, ! failed, · no stage was seen",
        legend.join(", ")
    );
    writeln!(out, "{}", paint.dim(&legend))
}

/// A pod and its stages, by this machine's clock.
#[derive(Debug, Serialize)]
pub struct LaneJson<'a> {
    uid: &'a str,
    namespace: &'a str,
    name: &'a str,
    node: &'a str,
    /// `node` or `apiserver`; `null` where all pods have one clock in common.
    clock: Option<&'static str>,
    clock_ahead_ns: Option<i64>,
    clock_within_ns: Option<i64>,
    became_ready_ns: Option<Nanos>,
    gone_ns: Option<Nanos>,
    stages: Vec<StageJson>,
}

#[derive(Debug, Serialize)]
struct StageJson {
    stage: Stage,
    attempt: u32,
    start_ns: Nanos,
    end_ns: Option<Nanos>,
    outcome: Outcome,
}

impl<'a> From<&'a Lane> for LaneJson<'a> {
    fn from(l: &'a Lane) -> Self {
        let offset = l.clock.offset();
        Self {
            uid: l.pod.uid.as_str(),
            namespace: &l.pod.namespace,
            name: &l.pod.name,
            node: &l.pod.node,
            clock: l.clock.name(),
            clock_ahead_ns: offset.map(|o| o.ahead_ns),
            clock_within_ns: offset.map(|o| o.within_ns),
            became_ready_ns: l.pod.became_ready.map(|e| l.shown(e.at)),
            gone_ns: l.pod.gone.map(|t| l.shown(t)),
            stages: l
                .stages()
                .map(|s| StageJson {
                    stage: s.stage,
                    attempt: s.attempt,
                    start_ns: l.shown(s.start.at),
                    end_ns: s.end.map(|e| l.shown(e.at)),
                    outcome: s.outcome,
                })
                .collect(),
        }
    }
}
