//! In which order pods stand, and how well they are.

use crate::correlate::{PodView, StageState};
use crate::diagnose::State;
use crate::engine::Snapshot;
use crate::flow::Stage;

/// What pods are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// What needs somebody first.
    #[default]
    Trouble,
    /// Namespace and name.
    Name,
    /// Namespace.
    Namespace,
    /// Youngest first.
    Age,
    /// Status.
    Status,
    /// Most restarts first.
    Restarts,
    /// Longest in its stage first.
    Since,
    /// Fewest ready first.
    Ready,
    /// Node.
    Node,
    /// Cause of the verdict.
    Verdict,
}

impl Sort {
    /// All of them.
    pub const ALL: [Self; 10] = [
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
        }
    }
    /// The one of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// What pods are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// Not.
    #[default]
    None,
    /// Namespace.
    Namespace,
    /// Node.
    Node,
    /// The topmost owner.
    Owner,
}

impl GroupBy {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::None => Self::Namespace,
            Self::Namespace => Self::Node,
            Self::Node => Self::Owner,
            Self::Owner => Self::None,
        }
    }
    /// Name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Namespace => "namespace",
            Self::Node => "node",
            Self::Owner => "owner",
        }
    }
    /// The one of a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Namespace, Self::Node, Self::Owner]
            .into_iter()
            .find(|g| g.name() == name)
    }
    /// The group of a pod.
    pub fn of(self, p: &PodView) -> String {
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
        }
    }
}

/// From this rank on a pod is well.
pub(super) const FINE: u8 = 10;

/// True for states that need somebody.
pub(super) const fn is_trouble(s: State) -> bool {
    matches!(
        s,
        State::Stuck | State::Failed | State::BackingOff | State::Slow
    )
}

/// True for a pod that ended as it should.
pub(super) fn is_finished(p: &PodView) -> bool {
    p.phase == "Succeeded" || p.status == "Completed"
}

/// How much a pod needs somebody: lower is more.
pub(super) fn rank(snap: &Snapshot, p: &PodView) -> u8 {
    if p.gone.is_some() {
        return 40;
    }
    match snap.verdicts.get(&p.uid).map(|v| v.state) {
        Some(State::Stuck) => 0,
        Some(State::Failed) => 1,
        Some(State::BackingOff) => 2,
        Some(State::Slow) => 3,
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

pub(super) fn tone(snap: &Snapshot, p: &PodView) -> Tone {
    if p.gone.is_some() {
        return Tone::Gone;
    }
    let bad = p.status.contains("Err")
        || p.status.contains("BackOff")
        || p.status.contains("Fail")
        || p.status.contains("OOM")
        || p.status.contains("Evicted")
        || p.status.starts_with("OutOf");
    if bad || rank(snap, p) < 3 {
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

/// A pod that the filter keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Place in the world.
    pub(super) pod: u32,
    /// How well it matches.
    pub(super) score: u32,
    /// How much it needs somebody.
    pub(super) rank: u8,
}

/// Kept pods in order. Ties stand by namespace and name, so that a
/// list never dances.
pub(super) fn sort(
    snap: &Snapshot,
    keep: &[Kept],
    by: Sort,
    reverse: bool,
    group: GroupBy,
) -> Vec<u32> {
    let pods = snap.world.pods();
    // One number per pod for what changes; texts are compared where they lie.
    let mut keys: Vec<(u32, u32, i64)> = keep
        .iter()
        .filter_map(|k| {
            let p = pods.get(k.pod as usize)?;
            let n = match by {
                Sort::Trouble => i64::from(k.rank),
                Sort::Age => p.created.0.saturating_neg(),
                Sort::Restarts => -i64::from(p.restarts),
                Sort::Since => p.current.map_or(i64::MAX, |(_, s)| s.0),
                Sort::Ready => i64::from(p.ready.0) - i64::from(p.ready.1),
                _ => 0,
            };
            Some((k.pod, k.score, n))
        })
        .collect();
    let pod = |i: u32| pods.get(i as usize);
    let text = |i: u32| -> &str {
        let Some(p) = pod(i) else { return "" };
        match by {
            Sort::Status => &p.status,
            Sort::Node => &p.node,
            Sort::Verdict => snap.verdicts.get(&p.uid).map_or("~", |v| v.cause.as_str()),
            _ => "",
        }
    };
    let name = |i: u32| pod(i).map(|p| (&p.namespace, &p.name, &p.uid));
    let grouped = |i: u32| pod(i).map(|p| group.of(p));
    keys.sort_by(|a, b| {
        let g = if group == GroupBy::None {
            std::cmp::Ordering::Equal
        } else {
            grouped(a.0).cmp(&grouped(b.0))
        };
        let main = a.2.cmp(&b.2).then_with(|| text(a.0).cmp(text(b.0)));
        let main = match by {
            Sort::Name | Sort::Namespace => name(a.0).cmp(&name(b.0)),
            _ => main,
        };
        let main = if reverse { main.reverse() } else { main };
        // A better match of a fuzzy filter stands first.
        g.then(b.1.cmp(&a.1))
            .then(main)
            .then_with(|| name(a.0).cmp(&name(b.0)))
    });
    keys.into_iter().map(|(i, _, _)| i).collect()
}
