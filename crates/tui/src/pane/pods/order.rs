//! The order of pods in the list, and how urgent each is.

use kflow_model::pod::PodPhase;
use std::cmp::Ordering;

use crate::text::width;
use kflow_core::correlate::{PodView, StageState};
use kflow_core::diagnose::finding::owner_arg;
use kflow_core::diagnose::{State, Verdict};
use kflow_core::flow::Stage;
use kflow_model::Text;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Pods that need attention first.
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
    /// Longest in the current stage first.
    Since,
    /// Fewest ready first.
    Ready,
    Node,
    /// By the cause of the verdict.
    Verdict,
    /// Longest start first.
    Start,
    /// Longest in this stage first.
    Took(Stage),
}

impl Sort {
    /// All orders but [`Took`](Self::Took).
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
    /// Returns the name that the palette uses.
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
    /// Returns the order of a name: that of a column, or else that of a stage.
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// One flat list.
    #[default]
    None,
    Namespace,
    Node,
    /// The topmost owner.
    Owner,
    /// The cause of the verdict, or, if the trouble follows from that of another pod or of the node, the cause of
    /// that one.
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
    /// Returns the name of a pod's group. `root` is the verdict that the pod's verdict follows from, or else the
    /// pod's own.
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
            Self::Owner => p
                .owners
                .last()
                .map_or_else(|| "without owner".to_owned(), owner_arg),
            // Lower case sorts after the ids of causes, so that pods without a cause come last.
            Self::Cause => root.filter(|v| v.cause.is_some()).map_or_else(
                || "no cause".to_owned(),
                |v| format!("{} {}", v.cause_id(), v.title),
            ),
        }
    }
}

/// Rank from which a pod is well.
pub(super) const FINE: u8 = 10;

/// Returns true for states that need attention.
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

/// Returns true for a pod that completed successfully.
pub(super) fn is_finished(p: &PodView) -> bool {
    p.phase == PodPhase::Succeeded || p.status == "Completed"
}

/// Returns the urgency of a pod; lower is more urgent.
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
        _ if p.current.is_some() && p.stages.contains(&StageState::Failing) => 5,
        _ if p.current.is_some() => FINE,
        _ if is_finished(p) => 30,
        _ => 20,
    }
}

/// How the status is coloured.
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

/// Why a pod is hidden, apart from the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hidden {
    /// The pod is not hidden.
    #[default]
    No,
    /// A pod of the past, or one that was gone before its name was known. It is shown only if a filter matches it.
    Past,
    /// The pod was deleted from the API.
    Gone,
    /// The pod completed successfully.
    Finished,
}

/// Widths, in columns, that the cells of a row need; or the greatest of all rows.
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
    /// Returns the widths of an owner's row.
    pub(super) fn of_owner(v: &Verdict) -> Self {
        Self {
            namespace: columns(&v.namespace),
            name: columns(&owner_name(v)),
            status: 8,
            node: 0,
            why: why(v),
        }
    }
    /// Returns the greater of both in each column.
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

/// Returns the name of the owner that a verdict is about, such as `Deployment/web`.
pub(super) fn owner_name(v: &Verdict) -> String {
    v.owner.as_ref().map_or_else(String::new, owner_arg)
}

/// Everything that decides a pod's place in the list, and the widths of its cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// Score of the match with the filter; `None` if the pod is not shown.
    pub(super) score: Option<u32>,
    /// Why the pod is hidden, apart from the filter.
    pub(super) hidden: Hidden,
    pub(super) widths: Widths,
    /// Urgency, as returned by [`rank`]; lower is more urgent.
    pub(super) rank: u8,
    pub(super) group: Text,
    number: i64,
    text: Text,
    namespace: Text,
    name: Text,
}

impl Key {
    /// Returns the key of a pod, shown with this score or hidden; `group` is empty if pods are not grouped.
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
    /// Returns true if both keys have the same place in the list. The widths, which follow the
    /// verdict's text, may differ.
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
    /// Compares the places of two pods. Ties are broken by namespace and name, so that rows do not swap without reason.
    pub(super) fn order(&self, other: &Self, by: Sort, reverse: bool) -> Ordering {
        let named = |a: &Self, b: &Self| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name));
        let main = match by {
            Sort::Name | Sort::Namespace => named(self, other),
            _ => (self.number, &self.text).cmp(&(other.number, &other.text)),
        };
        let main = if reverse { main.reverse() } else { main };
        // Within a group, a better match of a fuzzy filter comes first.
        (self.group.cmp(&other.group))
            .then(other.score.cmp(&self.score))
            .then(main)
            .then_with(|| named(self, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The title of the pane counts pods by their rank: one that is not in a stage any more has no trouble, whatever failed before.
    #[test]
    fn a_pod_that_has_completed_is_no_trouble_for_what_failed_before() {
        let mut p = PodView {
            phase: PodPhase::Succeeded,
            ..PodView::default()
        };
        p.stages[Stage::Volumes.index()] = StageState::Failing;
        assert!(rank(None, &p) > FINE);
        p.phase = PodPhase::Running;
        p.current = Some((Stage::Volumes, kflow_model::Nanos(0)));
        assert!(rank(None, &p) < FINE);
    }
}
