//! Verdicts on pods that are well, or whose readiness comes and goes for no known reason.

use super::finding::{self, Finding};
use super::history::{self, KillWhy, PodHistory};
use super::{Catalogue, Confidence, Recurrence, State, Verdict, incidents, rules, signal, text};
use crate::backoff;
use crate::correlate::RunState;
use crate::flow::Stage;
use kflow_model::pod::{PodPhase, WatchEvent};
use kflow_model::{Body, Evidence};

/// Length of the longest message of a container that is repeated, characters.
const LONGEST: usize = 160;

/// The verdict on a pod whose readiness comes and goes for a reason that no rule knows.
pub(super) fn unexplained(f: &PodHistory<'_>) -> Verdict {
    let mut v = well(f, false);
    let Some(r) = f.flapping() else { return v };
    v.state = State::Flapping;
    v.title = "Readiness comes and goes".into();
    v.recurrence = Some(r);
    v.sentence = finding::again(State::Flapping, Some(r), f.now)
        .trim()
        .into();
    v
}

/// Who ended a pod that is gone, where its owner did not: by its condition, or by the newest Event of those that say so.
fn ended_by(f: &PodHistory<'_>) -> Option<String> {
    let node = finding::node_of(f.view, f.api);
    let condition = f.api.and_then(|p| p.condition("DisruptionTarget"));
    let condition = condition.filter(|c| c.is_true());
    if let Some(who) = condition.and_then(|c| rules::disruptor(&c.reason, &c.message, node)) {
        return Some(who);
    }
    // The Event of a preemption is evidence of the other pod too.
    let mut events = f.view.evidence.iter().rev().filter_map(|o| match &o.body {
        Body::Event(e) if e.object.kind == "Pod" && e.object.name == f.view.name => Some(e),
        _ => None,
    });
    // What the newest of them takes back is not told by an older one.
    let e = events.find(|e| rules::disruptor(&e.reason, "", node).is_some())?;
    rules::disruptor(&e.reason, &e.message, node)
}

/// The verdict on a pod that is well, which says whether it always was; or, with `gone`, on one that no longer exists.
pub(super) fn well(f: &PodHistory<'_>, gone: bool) -> Verdict {
    let v = f.view;
    let past: Vec<&signal::Signal<'_>> = f
        .signals
        .iter()
        .filter(|s| s.source != kflow_model::Source::Runtime)
        .filter(|s| !matches!(s.reason.as_ref(), "@log" | "Killing" | "@stop"))
        .filter(|s| !rules::takes_eviction_back(&s.reason, &s.text))
        .filter(|s| Catalogue::get().knows(&s.reason) && !f.is_of_ephemeral(s))
        .collect();
    let waiting: Vec<Finding<'_>> = if gone {
        Vec::new()
    } else {
        rules::of_ephemeral(f)
    };
    let before = f.past().filter(|_| !gone);
    // The pod counts as recovered as soon as it runs and is ready again: after a single exit nothing shows that
    // another follows (`crash_loop` needs two), how long the container ran before depends on what failed, and the
    // sentence says how long the pod has been well and how long ago the container ended.
    let completed = v.phase == PodPhase::Succeeded;
    let recovered = !gone && !completed && (!past.is_empty() || before.is_some());
    let since = f.well_since().unwrap_or_else(|| f.since(Stage::Ready));
    let state = match (gone, recovered) {
        (true, _) => State::Gone,
        (false, true) => State::Recovered,
        (false, false) => State::Healthy,
    };
    let sentence = if gone {
        match ended_by(f) {
            Some(who) => format!("The pod is gone: it was ended by {who}."),
            None => "The pod is gone.".to_owned(),
        }
    } else if completed {
        "The pod has completed.".to_owned()
    } else if recovered {
        let mut what: Vec<String> = Vec::new();
        match before {
            Some((Some(c), r)) => what.push(format!(
                "container {} ended {}{}",
                c.name,
                text::times(r.times),
                last_time(f, c, r)
            )),
            Some((None, r)) => what.push(format!(
                "it became not ready {}, the last time {} ago",
                text::times(r.times),
                text::span(f.now.since(r.last))
            )),
            None => {}
        }
        let mut reasons: Vec<&str> = past
            .iter()
            .map(|s| s.reason.trim_start_matches('@'))
            .collect();
        reasons.dedup();
        if !reasons.is_empty() {
            what.push(format!("it went through {}", text::list(&reasons)));
        }
        format!(
            "The pod has been well for {}; before, {}.",
            text::span(f.now.since(since)),
            what.join(", and ")
        )
    } else {
        "The pod is well.".to_owned()
    };
    let beside = match waiting.first() {
        Some(x) => Some(format!(
            "its ephemeral container {} does not start",
            x.container
        )),
        None => ephemeral(f).filter(|_| !gone && !completed),
    };
    let sentence = match beside {
        Some(said) => format!("{}; {said}.", sentence.trim_end_matches('.')),
        None => sentence,
    };
    Verdict {
        uid: v.uid.clone(),
        namespace: v.namespace.clone(),
        pod: v.name.clone(),
        owner: v.owners.first().cloned(),
        root: incidents::root(&v.owners),
        cause: None,
        title: match state {
            State::Gone => "Gone".into(),
            State::Recovered => "Recovered".into(),
            _ => "Healthy".into(),
        },
        stage: if v.deletion_requested.is_some() || gone {
            Stage::Terminate
        } else {
            Stage::Ready
        },
        container: kflow_model::Text::default(),
        state,
        since: match (gone, v.gone) {
            (true, Some(at)) => at,
            _ if recovered => since,
            _ => f.since(Stage::Ready),
        },
        at_least: false,
        in_flight: None,
        attempt: 0,
        next_retry: None,
        behind: None,
        recurrence: before.map(|(_, r)| Recurrence {
            up: Some(since),
            ..r
        }),
        same: sentence.clone(),
        sentence,
        evidence: if gone {
            deletion(f).map(finding::proof).into_iter().collect()
        } else {
            past.iter().map(|s| finding::signal_proof(s)).collect()
        },
        not_reached: Vec::new(),
        owner_state: None,
        node_state: None,
        next: Vec::new(),
        confidence: Confidence::Certain,
        also: waiting.into_iter().map(|x| x.verdict(f)).collect(),
    }
}

/// Says of the newest ephemeral container that it has not started, or could not be started; `None` where it runs or has run.
fn ephemeral(f: &PodHistory<'_>) -> Option<String> {
    let c = f.view.containers.iter().rfind(|c| c.ephemeral)?;
    let name = &c.name;
    match &c.state {
        RunState::Waiting(reason) if !reason.is_empty() => Some(format!(
            "its ephemeral container {name} has not started yet ({reason})"
        )),
        RunState::Waiting(_) | RunState::Created => Some(format!(
            "its ephemeral container {name} has not started yet"
        )),
        RunState::Unseen => Some(format!(
            "the kubelet has not told anything of its ephemeral container {name} yet"
        )),
        RunState::Terminated(reason) if history::never_ran(reason) => {
            let end = f.known(name).and_then(|c| c.exits.last());
            let why = match end.map_or("", |e| e.message.as_str()) {
                "" => String::new(),
                message => format!(": {}", unstarted(message)),
            };
            Some(format!(
                "its ephemeral container {name} could not be started ({reason}){why}"
            ))
        }
        RunState::Terminated(_) | RunState::Running => None,
    }
}

/// Says why a container could not be started. The runtime says in many words who failed, and only at the end why: the catalogue
/// knows that end.
fn unstarted(message: &str) -> String {
    let told = Catalogue::get().best("StartError", message, |cause| !cause.rule);
    let names = told.map(|(_, names)| names).unwrap_or_default();
    let what = names.get("what").unwrap_or(message);
    let what = text::shorten(what.trim_end_matches(['.', '\n', ' ']), LONGEST);
    match names.get("command").filter(|c| !what.contains(*c)) {
        Some(command) => format!("command {command}: {what}"),
        None => what.to_string(),
    }
}

/// Returns what shows that the pod was deleted; what it went through before does not say why it is gone.
fn deletion<'f>(f: &'f PodHistory<'_>) -> Option<&'f Evidence> {
    let is_deletion = |o: &&Evidence| match &o.body {
        Body::Pod(p) => p.event == WatchEvent::Deleted,
        Body::Event(e) => e.reason == "SuccessfulDelete",
        _ => false,
    };
    f.view.evidence.telling().rev().find(is_deletion)
}

/// Returns how and when a container ended last, in words.
fn last_time(f: &PodHistory<'_>, c: &history::ContainerHistory<'_>, r: Recurrence) -> String {
    let ago = text::span(f.now.since(r.last));
    let Some(e) = c.exits.last() else {
        return String::new();
    };
    let last = if r.times > 1 { "the last time " } else { "" };
    let code = e
        .code
        .map_or(String::new(), |code| format!(", with exit code {code}"));
    let why = c
        .killed
        .filter(|(t, _, _)| t.0.abs_diff(e.at.0) < backoff::KILLED_NS.unsigned_abs());
    let why = match why.map(|(_, why, _)| why) {
        Some(KillWhy::Liveness) => ", killed as its liveness probe failed",
        Some(KillWhy::Startup) => ", killed as its startup probe failed",
        Some(KillWhy::PostStart) => ", killed as its postStart hook failed",
        Some(KillWhy::Stop) | None => "",
    };
    format!(" ({last}{ago} ago{code}{why})")
}
