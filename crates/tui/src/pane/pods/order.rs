//! In which order pods stand, and how well they are.

use kflow_model::pod::PodPhase;
use std::cmp::Ordering;

use crate::text::width;
use kflow_core::correlate::{PodView, StageState};
use kflow_core::diagnose::{State, Verdict};
use kflow_core::flow::Stage;
use kflow_model::Text;

/// What pods are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// What needs somebody first.
    #[default]
    Trouble,
    /// Namespace and name.
    Name,
    Namespace,
    /// Youngest first.
    Age,
    Status,
    /// Most restarts first.
    Restarts,
    /// Longest in its stage first.
    Since,
    /// Fewest ready first.
    Ready,
    Node,
    /// Cause of the verdict.
    Verdict,
    /// Longest start first.
    Start,
    /// Longest in a stage first.
    Took(Stage),
}

impl Sort {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Trouble,
        Self::Name,
        Self::Namespace,
        Self::Age,
        Self::Status,
        Self::Restarts,
        Self::Since,
        Self::Ready,
        Self::Node,
        Self::Verdict,
        Self::Start,
    ];
    /// Name, as the palette takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Name => "name",
            Self::Namespace => "namespace",
            Self::Age => "age",
            Self::Status => "status",
            Self::Restarts => "restarts",
            Self::Since => "in",
            Self::Ready => "ready",
            Self::Node => "node",
            Self::Verdict => "why",
            Self::Start => "start",
            Self::Took(stage) => stage.name(),
        }
    }
    /// The one of a name: a column, else a stage.
    pub fn parse(name: &str) -> Option<Self> {
        let column = Self::ALL.into_iter().find(|s| s.name() == name);
        column.or_else(|| {
            Stage::ALL
                .into_iter()
                .find(|s| s.name() == name)
                .map(Self::Took)
        })
    }
}

/// What pods are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// One flat list.
    #[default]
    None,
    Namespace,
    Node,
    /// The topmost owner.
    Owner,
    /// What the pod suffers from: where its trouble follows from another pod's or its node's, the cause of that.
    Cause,
}

impl GroupBy {
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::None => Self::Namespace,
            Self::Namespace => Self::Node,
            Self::Node => Self::Owner,
            Self::Owner => Self::Cause,
            Self::Cause => Self::None,
        }
    }
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Namespace => "namespace",
            Self::Node => "node",
            Self::Owner => "owner",
            Self::Cause => "cause",
        }
    }
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::None,
            Self::Namespace,
            Self::Node,
            Self::Owner,
            Self::Cause,
        ]
        .into_iter()
        .find(|g| g.name() == name)
    }
    /// The group of a pod. `root` is the verdict that its own follows from, else its own.
    pub fn of(self, p: &PodView, root: Option<&Verdict>) -> String {
        let or = |s: &str, none: &str| {
            if s.is_empty() {
                none.to_owned()
            } else {
                s.to_owned()
            }
        };
        match self {
            Self::None => String::new(),
            Self::Namespace => or(&p.namespace, "namespace unknown"),
            Self::Node => or(&p.node, "not scheduled"),
            Self::Owner => p.owners.last().map_or_else(
                || "without owner".to_owned(),
                |o| format!("{}/{}", o.kind, o.name),
            ),
            // Small letters stand after the ids: what is wrong comes first.
            Self::Cause => root.filter(|v| v.cause.is_some()).map_or_else(
                || "no cause".to_owned(),
                |v| format!("{} {}", v.cause_id(), v.title),
            ),
        }
    }
}

/// From this rank on a pod is well.
pub(super) const FINE: u8 = 10;

/// True for states that need somebody.
pub(super) const fn is_trouble(s: State) -> bool {
    matches!(
        s,
        State::Stuck
            | State::Failed
            | State::BackingOff
            | State::CrashLooping
            | State::Flapping
            | State::Slow
    )
}

/// True for a pod that ended as it should.
pub(super) fn is_finished(p: &PodView) -> bool {
    p.phase == PodPhase::Succeeded || p.status == "Completed"
}

/// How much a pod needs somebody: lower is more.
pub(super) fn rank(verdict: Option<&Verdict>, p: &PodView) -> u8 {
    if p.gone.is_some() {
        return 40;
    }
    match verdict.map(|v| v.state) {
        Some(State::Stuck) => 0,
        Some(State::Failed) => 1,
        Some(State::BackingOff | State::CrashLooping) => 2,
        Some(State::Slow | State::Flapping) => 3,
        Some(State::Blocked) => 4,
        _ if p.stages.contains(&StageState::Failing) => 5,
        _ if p.current.is_some() => FINE,
        _ if is_finished(p) => 30,
        _ => 20,
    }
}

/// Colour of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Gone,
    Bad,
    Waiting,
    Moving,
    Well,
    Over,
}

pub(super) fn tone(verdict: Option<&Verdict>, p: &PodView) -> Tone {
    if p.gone.is_some() {
        return Tone::Gone;
    }
    let bad = p.status.contains("Err")
        || p.status.contains("BackOff")
        || p.status.contains("Fail")
        || p.status.contains("OOM")
        || p.status.contains("Evicted")
        || p.status.starts_with("OutOf");
    if bad || rank(verdict, p) < 3 {
        Tone::Bad
    } else if p.deletion_requested.is_some() || p.stage(Stage::Terminate) == StageState::Running {
        Tone::Waiting
    } else if is_finished(p) {
        Tone::Over
    } else if p.current.is_some() {
        Tone::Moving
    } else {
        Tone::Well
    }
}

/// Why a row is not shown, besides the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hidden {
    /// It is shown.
    #[default]
    No,
    /// A pod of the past, or one that was gone before it had a name: found by the filter only.
    Past,
    /// Deleted from the API.
    Gone,
    /// Ended as it should.
    Finished,
}

/// Columns that the cells of a row need, or of all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) namespace: u16,
    pub(super) name: u16,
    pub(super) status: u16,
    pub(super) node: u16,
    pub(super) why: u16,
}

impl Widths {
    fn of(p: &PodView, verdict: Option<&Verdict>) -> Self {
        Self {
            namespace: columns(&p.namespace),
            name: columns(if p.name.is_empty() {
                p.uid.as_str()
            } else {
                p.name.as_str()
            }),
            status: columns(&p.status),
            node: columns(&p.node),
            why: verdict.map_or(9, why),
        }
    }
    /// What the row of an owner needs.
    pub(super) fn of_owner(v: &Verdict) -> Self {
        Self {
            namespace: columns(&v.namespace),
            name: columns(&owner_name(v)),
            status: 8,
            node: 0,
            why: why(v),
        }
    }
    /// What both need.
    #[must_use]
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            namespace: self.namespace.max(other.namespace),
            name: self.name.max(other.name),
            status: self.status.max(other.status),
            node: self.node.max(other.node),
            why: self.why.max(other.why),
        }
    }
}

fn columns(text: &str) -> u16 {
    u16::try_from(width(text)).unwrap_or(u16::MAX)
}
fn why(v: &Verdict) -> u16 {
    (columns(v.cause_id()) + 1).saturating_add(columns(&v.sentence).max(columns(&v.title)))
}

/// The name of the owner that a verdict is about: `Deployment/web`.
pub(super) fn owner_name(v: &Verdict) -> String {
    v.owner
        .as_ref()
        .map_or_else(String::new, |o| format!("{}/{}", o.kind, o.name))
}

/// What a pod's place in the list depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// How well the filter likes it; `None` when it is not shown.
    pub(super) score: Option<u32>,
    /// Why it is not shown, besides the filter.
    pub(super) hidden: Hidden,
    /// What its cells need.
    pub(super) widths: Widths,
    /// How much it needs somebody.
    pub(super) rank: u8,
    pub(super) group: Text,
    number: i64,
    text: Text,
    namespace: Text,
    name: Text,
}

impl Key {
    /// The key of a pod that is shown, or not, with this score; `group` is empty where pods are not grouped.
    pub(super) fn new(
        p: &PodView,
        verdict: Option<&Verdict>,
        score: Option<u32>,
        by: Sort,
        group: Text,
    ) -> Self {
        let rank = rank(verdict, p);
        Self {
            score,
            hidden: Hidden::No,
            widths: Widths::of(p, verdict),
            rank,
            group,
            number: match by {
                Sort::Trouble => i64::from(rank),
                Sort::Age => p.zero().0.saturating_neg(),
                Sort::Restarts => -i64::from(p.restarts),
                Sort::Since => p.current.map_or(i64::MAX, |(_, s)| s.0),
                Sort::Start => -p.start().map_or(-1, |(ns, _)| ns),
                Sort::Took(stage) => -p.took(stage),
                Sort::Ready => i64::from(p.ready.0) - i64::from(p.ready.1),
                _ => 0,
            },
            text: match by {
                Sort::Status => p.status.clone(),
                Sort::Node => p.node.clone(),
                Sort::Verdict => verdict.map_or_else(|| "~".into(), |v| v.cause_id().into()),
                _ => Text::default(),
            },
            namespace: p.namespace.clone(),
            name: p.name.clone(),
        }
    }
    /// True for one that stands where this one does: other words may be said of its pod.
    pub(super) fn stands_as(&self, other: &Self) -> bool {
        let Self {
            score,
            hidden,
            widths: _,
            rank,
            group,
            number,
            text,
            namespace,
            name,
        } = self;
        (score, hidden, rank, number) == (&other.score, &other.hidden, &other.rank, &other.number)
            && (group, text, namespace, name)
                == (&other.group, &other.text, &other.namespace, &other.name)
    }
    /// Which of two stands first. Ties stand by namespace and name, so that a list never dances.
    pub(super) fn order(&self, other: &Self, by: Sort, reverse: bool) -> Ordering {
        let named = |a: &Self, b: &Self| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name));
        let main = match by {
            Sort::Name | Sort::Namespace => named(self, other),
            _ => (self.number, &self.text).cmp(&(other.number, &other.text)),
        };
        let main = if reverse { main.reverse() } else { main };
        // A better match of a fuzzy filter stands first.
        (self.group.cmp(&other.group))
            .then(other.score.cmp(&self.score))
            .then(main)
            .then_with(|| named(self, other))
    }
}
