//! The steps of the flow map as one tree: what happens before the kubelet, the kubelet's sync loop with everything
//! that it calls, and what runs beside it.

use rustc_hash::{FxHashMap, FxHashSet};

use kflow_core::correlate::KubeletActivity;
use kflow_core::correlate::kubelet::Work;
use kflow_core::flow::map::{Map, Scope, Step, StepId};
use kflow_core::flow::runs::{Run, RunEnd, StepRuns};
use kflow_model::Text;
use kflow_model::log::Component;
use kflow_model::stamp::SECOND;

/// The function at the root of the kubelet's sync loop.
pub(super) const ROOT: &str = "syncLoop";

/// Limit on the depth of the tree, because the parents in a user's own map may form a cycle.
pub(super) const DEEPEST: u16 = 16;

/// A visible row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// The heading of a flow, with the index of the flow.
    Flow(usize),
    Step {
        id: StepId,
        depth: u16,
        children: bool,
        open: bool,
    },
}

/// A row that the user opened or closed: a flow or a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Turned {
    Flow(usize),
    Step(u16),
}

impl Row {
    pub(super) const fn key(self) -> Turned {
        match self {
            Self::Flow(f) => Turned::Flow(f),
            Self::Step { id, .. } => Turned::Step(id.0),
        }
    }
}

/// How the tree is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Show<'a> {
    /// Whether only reached steps are listed.
    pub(super) reached: bool,
    /// Whether every row is open by default.
    pub(super) all: bool,
    /// The runtime whose steps are listed; `None` for the steps of every runtime.
    pub(super) runtime: Option<Component>,
    /// Words that a step's id, names or sentences contain, each of them, in lower case. Steps without them are not
    /// listed, unless one below them is.
    pub(super) words: &'a [String],
    /// Rows that are open although they are closed by default, or the other way round.
    pub(super) turned: &'a FxHashSet<Turned>,
}

/// Returns true if a step has all words, which are in lower case.
pub(super) fn has(map: &Map, step: &Step, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let flow = map.flows().get(step.flow).map_or("", |f| f.title.as_str());
    let also = step.also.iter().map(Text::as_str);
    let names = [&step.id, &step.function, &step.label, &step.file];
    let sentences = [step.does.as_str(), step.hangs.as_str(), flow];
    let texts = names.iter().map(|n| n.as_str());
    let texts: Vec<String> = (texts.chain(also).chain(sentences))
        .map(str::to_lowercase)
        .collect();
    (words.iter()).all(|w| texts.iter().any(|t| t.contains(w.as_str())))
}

/// Returns steps and all their ancestors.
fn ways(map: &Map, of: impl Iterator<Item = StepId> + Clone) -> FxHashSet<StepId> {
    let mut set: FxHashSet<StepId> = of.clone().collect();
    for step in of {
        let mut up = map.get(step).and_then(|s| s.parent);
        while let Some(p) = up {
            if !set.insert(p) {
                break;
            }
            up = map.get(p).and_then(|s| s.parent);
        }
    }
    set
}

/// Returns the steps that a node with this runtime can reach, in the order of the map; `None` gives the steps of
/// every runtime.
pub(super) fn steps(
    map: &Map,
    runtime: Option<Component>,
) -> impl Iterator<Item = (StepId, &Step)> {
    let all = map.steps().iter().enumerate();
    all.map(|(i, s)| (StepId(i as u16), s))
        .filter(move |(id, _)| {
            map.runtime_of(*id)
                .is_none_or(|r| runtime.is_none_or(|known| known == r))
        })
}

/// Returns the visible rows, depth first.
pub(super) fn rows(map: &Map, lit: &[StepRuns], show: Show<'_>) -> Vec<Row> {
    let reached = ways(map, lit.iter().map(|l| l.step));
    let found: Vec<StepId> = steps(map, show.runtime)
        .filter(|(id, s)| (!show.reached || reached.contains(id)) && has(map, s, show.words))
        .map(|(id, _)| id)
        .collect();
    let listed = ways(map, found.into_iter());
    let filters = !show.words.is_empty();
    let mut below: FxHashMap<Option<StepId>, Vec<StepId>> = FxHashMap::default();
    for (id, s) in steps(map, show.runtime) {
        if listed.contains(&id) && (filters || !show.reached || reached.contains(&id)) {
            below.entry(s.parent).or_default().push(id);
        }
    }
    let children = |p: StepId| below.get(&Some(p)).map_or(&[][..], Vec::as_slice);
    let root = map.step_by_function(ROOT).map(|(id, _)| id);
    let tops = below.get(&None).map_or(&[][..], Vec::as_slice);
    // Each flow's heading is followed by the flow's steps without a parent. The root of the loop is under the flow of
    // its first child.
    let channels = root
        .and_then(|r| map.steps().iter().find(|s| s.parent == Some(r)))
        .map(|s| s.flow);
    let mut out = Vec::new();
    let mut flows: Vec<usize> = (0..map.flows().len()).collect();
    // The order in which a pod meets them: the scheduler's flows come first.
    flows.sort_by_key(|f| {
        let scheduler = map
            .flows()
            .get(*f)
            .is_some_and(|f| f.component == Component::Scheduler);
        (!scheduler, *f)
    });
    for f in flows {
        let Some(flow) = map.flows().get(f) else {
            continue;
        };
        let mut own: Vec<StepId> = tops
            .iter()
            .copied()
            .filter(|id| Some(*id) != root && map.get(*id).is_some_and(|s| s.flow == f))
            .collect();
        if channels == Some(f) {
            own.extend(root.filter(|r| listed.contains(r)));
        }
        let lit_here = own.iter().any(|s| reached.contains(s));
        // A flow of the node is listed only if one of its steps was reached; a flow of a pod always is.
        // What was searched for is listed wherever it is.
        let unmet = !filters && !lit_here && (show.reached || flow.scope == Scope::Node);
        if own.is_empty() || unmet {
            continue;
        }
        out.push(Row::Flow(f));
        if (lit_here || show.all || filters) == show.turned.contains(&Turned::Flow(f)) {
            continue;
        }
        let mut stack: Vec<(StepId, u16)> = own.into_iter().rev().map(|s| (s, 1)).collect();
        while let Some((id, depth)) = stack.pop() {
            let calls = children(id);
            // Branches without a reached step are closed by default, so that steps that did not happen do not fill
            // the screen.
            let by_default = show.all || filters || reached.contains(&id);
            let open = by_default != show.turned.contains(&Turned::Step(id.0));
            out.push(Row::Step {
                id,
                depth,
                children: !calls.is_empty(),
                open,
            });
            if open && depth < DEEPEST {
                stack.extend(calls.iter().rev().map(|s| (*s, depth + 1)));
            }
        }
    }
    out
}

/// Returns the row to select first: the deepest step in flight, else the newest that failed, else the first row. If a
/// step in flight began right after another failed, it is only the wait for the next attempt, and the
/// failed step is returned.
pub(super) fn focus(rows: &[Row], lit: &[StepRuns]) -> usize {
    let found = |id: StepId| {
        lit.iter()
            .find(|l| l.step == id)
            .and_then(|l| l.runs.last())
    };
    let steps = || {
        rows.iter().enumerate().filter_map(|(n, r)| match r {
            Row::Step { id, depth, .. } => Some((n, *depth, found(*id)?)),
            Row::Flow(_) => None,
        })
    };
    let failed = steps()
        .filter(|(_, _, run)| run.how == RunEnd::Failed)
        .max_by_key(|(_, depth, run)| (run.start, *depth));
    let ended_at = failed.and_then(|(_, _, run)| run.end);
    let waits = |run: &Run| ended_at.is_some_and(|e| (0..SECOND).contains(&run.start.since(e)));
    steps()
        .filter(|(_, _, run)| run.how == RunEnd::InFlight && !waits(run))
        .max_by_key(|(_, depth, run)| (*depth, run.start))
        .or(failed)
        .map_or(0, |(n, _, _)| n)
}

/// Returns how often the whole node ran a step of the sync loop; `None` for other steps and for a count of 0.
pub(super) fn node_count(m: &KubeletActivity, function: &str) -> Option<u64> {
    const LOOP: [Work; 9] = [
        Work::ConfigAdd,
        Work::ConfigUpdate,
        Work::ConfigRemove,
        Work::ConfigDelete,
        Work::ConfigReconcile,
        Work::PlegEvent,
        Work::Sync,
        Work::ProbeUpdate,
        Work::Housekeeping,
    ];
    let kinds: &[Work] = match function {
        ROOT => &LOOP,
        "HandlePodAdditions" => &[
            Work::ConfigAdd,
            Work::ConfigUpdate,
            Work::ConfigRemove,
            Work::ConfigDelete,
        ],
        "HandlePodReconcile" => &[Work::ConfigReconcile],
        "HandlePodSyncs" => &[Work::PlegEvent],
        "getPodsToSync" => &[Work::Sync],
        "HandlePodCleanups" => &[Work::Housekeeping],
        _ => return None,
    };
    let n = kinds
        .iter()
        .filter_map(|w| m.work(*w))
        .map(|a| a.count)
        .sum();
    (n > 0).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_the_root_of_what_the_kubelet_does_for_a_pod() {
        let map = Map::embedded();
        let turned = FxHashSet::default();
        let show = Show {
            reached: false,
            all: true,
            runtime: None,
            words: &[],
            turned: &turned,
        };
        let rows = rows(map, &[], show);
        let depth = |function: &str| {
            rows.iter().find_map(|r| match r {
                Row::Step { id, depth, .. } if map.get(*id)?.function == function => Some(*depth),
                _ => None,
            })
        };
        let path = [
            ROOT,
            "HandlePodAdditions",
            "UpdatePod",
            "podWorkerLoop",
            "SyncPod",
            "containerRuntime.SyncPod",
            "createPodSandbox",
            "RunPodSandbox",
        ];
        for (n, function) in path.into_iter().enumerate() {
            assert_eq!(depth(function), Some(n as u16 + 1), "{function}");
        }
        assert_eq!(depth("HandlePodCleanups"), Some(2));
    }

    #[test]
    fn every_step_stands_once_in_the_tree() {
        let map = Map::embedded();
        let turned = FxHashSet::default();
        let show = Show {
            reached: false,
            all: true,
            runtime: None,
            words: &[],
            turned: &turned,
        };
        let mut ids: Vec<StepId> = rows(map, &[], show)
            .into_iter()
            .filter_map(|r| match r {
                Row::Step { id, .. } => Some(id),
                Row::Flow(_) => None,
            })
            .collect();
        let n = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(n, ids.len());
        let pods = map
            .steps()
            .iter()
            .filter(|s| {
                map.flows()
                    .get(s.flow)
                    .is_some_and(|f| f.scope != Scope::Node)
            })
            .count();
        assert!(n >= pods, "{n} of {pods}");
    }
}
