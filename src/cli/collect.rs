//! Collects from live sources until their initial lists are complete, for commands that answer once.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::args::Input;
use super::args::live::LiveArgs;
use kflow_core::correlate::{Coverage, Failing};
use kflow_core::diagnose::unknown;
use kflow_engine::Snapshot;
use kflow_engine::live::{AGENT, Config, Live};
use kflow_engine::snapshot::own;
use kflow_model::clock;
use kflow_model::gap::{Failure, WatchNote};
use kflow_model::scope::namespace_of;
use kflow_model::session::{Header, Report, Session};
use kflow_model::units::wait;
use kflow_model::{Scope, Source, Text};
use kflow_sources::kube::live::watches;
use kflow_sources::live::SourceStatus;

/// Longest wait for the lists when `--for` is not given.
const MOST: Duration = Duration::from_secs(15);
/// Time for sources without an end (a proxy's ring, a log) after the lists are complete.
const GRACE: Duration = Duration::from_millis(700);
/// How long a look waits without a word for an apiserver that does not answer it.
const SILENCE: Duration = Duration::from_secs(3);
/// Interval of the checks.
const POLL: Duration = Duration::from_millis(50);

/// Running live sources.
pub(super) struct Collected {
    pub(super) live: Live,
    /// The scope of the requested lists; `None` without an apiserver.
    pub(super) scope: Option<Scope>,
}

/// Starts the sources that the arguments name, and waits until they have delivered their initial data.
pub(super) fn start(input: &Input, pod: Option<&str>) -> anyhow::Result<Collected> {
    let mut all = run(input, pod)?;
    if let Some(namespace) = narrower(&all, &input.live, pod) {
        super::out::tell(&format!(
            "{namespace} is the namespace that is looked at, as with -n {namespace}: the pods of all namespaces may not be listed, so what others do on the node is not known"
        ));
        all.live.stop();
        let mut input = input.clone();
        input.live.scope.namespace = Some(namespace);
        all = run(&input, pod)?;
    }
    tell(&all.live.snapshot());
    Ok(all)
}

/// Starts the sources, and waits for their initial data.
fn run(input: &Input, pod: Option<&str>) -> anyhow::Result<Collected> {
    let config = config(input, pod)?;
    let scope = config.scope.clone();
    let live = Live::start(config)?;
    wait_for(&live, scope.as_ref(), input)?;
    Ok(Collected { live, scope })
}

/// Returns the namespace of the pod that is asked about, or of the context, when the pods of all namespaces were asked for because a node
/// is named, and the user may not list them.
fn narrower(all: &Collected, args: &LiveArgs, pod: Option<&str>) -> Option<String> {
    let scope = all.scope.as_ref()?;
    let asked = scope.node.is_some() && scope.namespace.is_none() && !args.scope.all_namespaces;
    let snapshot = all.live.snapshot();
    let refused = |(resource, of, f): (&str, &str, &Failing)| {
        resource == "pods" && namespace_of(of).is_none() && f.failure == Failure::Forbidden
    };
    let mut failures = snapshot.world.coverage().failures(snapshot.now);
    if !asked || !failures.any(refused) {
        return None;
    }
    super::scope::likely(args, pod)
}

/// The configuration of the sources that the arguments name; an error when there are none.
pub(super) fn config(input: &Input, pod: Option<&str>) -> anyhow::Result<Config> {
    let config = super::live::config(&input.live, pod)?;
    if !asks_anything(&config) {
        bail!(
            "nothing to ask: --no-api leaves no source; name one, such as --tap ebpf, --proxy or --runtime"
        );
    }
    Ok(config)
}

/// Waits until the sources have delivered their initial data, at most [`MOST`] or `--for`, and tells what could not be read.
pub(super) fn told(live: &Live, scope: Option<&Scope>, input: &Input) -> anyhow::Result<()> {
    wait_for(live, scope, input)?;
    tell(&live.snapshot());
    Ok(())
}

fn wait_for(live: &Live, scope: Option<&Scope>, input: &Input) -> anyhow::Result<()> {
    let begun = clock::monotonic();
    let waited = |since: Instant| clock::monotonic().saturating_duration_since(since);
    let (mut complete, mut said) = (None, false);
    loop {
        std::thread::sleep(POLL);
        live.check()?;
        super::debug::check()?;
        let snapshot = live.snapshot();
        let has_all = has_told(&snapshot, scope) && !is_behind(&snapshot);
        complete = has_all.then(|| complete.unwrap_or_else(clock::monotonic));
        let enough = match input.for_time {
            Some(time) => {
                let late = if is_silent(&snapshot) {
                    GRACE
                } else {
                    Duration::ZERO
                };
                waited(begun) >= time.saturating_add(late)
            }
            None => complete.is_some_and(|t| waited(t) >= GRACE) || waited(begun) >= MOST,
        };
        if !said
            && !enough
            && let Some(line) = waits(waited(begun), input.for_time.unwrap_or(MOST), &snapshot)
        {
            said = true;
            super::out::tell(&line);
        }
        if enough {
            return Ok(());
        }
    }
}

/// What the look waits for, once it has waited for long because the apiserver does not answer.
fn waits(waited: Duration, most: Duration, snapshot: &Snapshot) -> Option<String> {
    if waited < SILENCE {
        return None;
    }
    let troubles = unknown::troubles(snapshot.world.coverage(), snapshot.now);
    let later = troubles.iter().find(|t| !t.failure.is_final())?;
    let left = wait(most.saturating_sub(waited));
    Some(format!("{}; waiting {left} at most", later.sentence()))
}

/// True once every list has ended or failed for good, and it is known whether the node has an agent.
pub(super) fn has_told(snapshot: &Snapshot, scope: Option<&Scope>) -> bool {
    let lists: Vec<(Text, Text)> = scope.into_iter().flat_map(asked_for).collect();
    answered(snapshot.world.coverage(), &lists) && !is_looked_for(snapshot)
}

/// True while a proxy or an agent still sends what it saw before the connection.
fn is_behind(snapshot: &Snapshot) -> bool {
    snapshot.world.coverage().is_being_listed(WatchNote::CALLS)
}

/// True while the kubeconfig is neither read nor reported as unreadable; either follows soon.
fn is_silent(snapshot: &Snapshot) -> bool {
    let starts = |s: &SourceStatus| s.name == own::KUBECONFIG && !s.is_on() && !s.is_off();
    snapshot.world.coverage().whole().is_none() && snapshot.sources.iter().any(starts)
}

/// True while it is not known whether the node has an agent.
fn is_looked_for(snapshot: &Snapshot) -> bool {
    let starts = |s: &SourceStatus| s.name == AGENT && !s.is_on() && !s.is_off();
    snapshot.sources.iter().any(starts)
}

/// The lists of a scope: resource and bounds.
fn asked_for(scope: &Scope) -> impl Iterator<Item = (Text, Text)> + use<> {
    watches(scope)
        .into_iter()
        .map(|(_, w)| (Text::from(w.resource), w.scope()))
}

/// True when every list has ended, or has failed for good.
fn answered(coverage: &Coverage, lists: &[(Text, Text)]) -> bool {
    let is_final = |f: &Failing| f.failure.is_final();
    // A kubeconfig that could not be read in time may still be read.
    let refused = |f: &Failing| f.failure != Failure::TimedOut;
    coverage.whole().is_some_and(refused)
        || lists.iter().all(|(resource, scope)| {
            coverage.watches().any(|(r, s, w)| {
                r == resource
                    && s == scope
                    && (w.list().is_some() || w.failing().is_some_and(is_final))
            })
        })
}

/// The observations so far, as a session.
pub(super) fn session(snapshot: &Snapshot, args: &LiveArgs) -> Session {
    Session {
        header: Header {
            node: args.scope.node.as_deref().unwrap_or_default().into(),
            ..Header::new(snapshot.range.0)
        },
        observations: snapshot.log.iter().cloned().collect(),
        report: Report::default(),
    }
}

fn asks_anything(c: &Config) -> bool {
    c.scope.is_some()
        || c.agent.is_some()
        || c.proxy.is_some()
        || c.ebpf.is_some()
        || c.runtime.is_some()
        || c.kubelet.is_some()
        || c.kubelet_root.is_some()
        || c.kubelet_log != kflow_engine::live::KubeletLog::Off
        || !c.control.logs.is_empty()
        || !c.control.audit_logs.is_empty()
        || !c.control.otlp.is_empty()
        || c.control.audit_webhook.is_some()
}

/// Reports what could not be read, after the answer.
fn tell(snapshot: &Snapshot) {
    if is_behind(snapshot) {
        super::out::tell_later(
            "what was seen on the node before now is not all here: `--for 30s` waits longer for it",
        );
    }
    for n in notices(snapshot) {
        super::out::tell_later(&n.text);
    }
}

/// A message about something that could not be read.
pub(super) struct Notice {
    /// Identifies the cause: the same while the cause lasts, whatever the wording.
    pub(super) key: String,
    /// What could not be read, why, and what would help.
    pub(super) text: String,
}

/// Messages about what could not be read: each cause at the apiserver once, then the other sources.
pub(super) fn notices(snapshot: &Snapshot) -> Vec<Notice> {
    let troubles = unknown::troubles(snapshot.world.coverage(), snapshot.now);
    let mut all: Vec<Notice> = troubles
        .iter()
        .map(|t| Notice {
            key: format!(
                "{} {}",
                t.failure.name(),
                t.resources().collect::<Vec<_>>().join(" ")
            ),
            text: format!("{}; {}", t.sentence(), t.help()),
        })
        .collect();
    // Metrics are read through the apiserver: when that fails, their failure is not reported too.
    let away = troubles.iter().any(|t| t.concerns("pods"));
    let others = snapshot
        .sources
        .iter()
        .filter(|s| s.is_off() && s.source != Source::Kube)
        .filter(|s| !(away && s.source == Source::Metrics));
    all.extend(others.map(|s| {
        let key = format!("{} {}", s.source.name(), s.name);
        let text = format!("{key}: {}", s.detail());
        Notice { key, text }
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_engine::Pipeline;
    use kflow_engine::snapshot::Mode;
    use kflow_model::gap::WatchKind;
    use kflow_model::{Body, Observation, Stamp};
    use std::sync::Arc;

    #[test]
    fn a_look_that_waits_says_what_for() {
        let mut pipeline = Pipeline::new();
        let now = clock::now();
        let mut note = |failure, detail: &str| {
            let note = WatchNote {
                resource: "pods".into(),
                kind: WatchKind::Broken,
                scope: Text::default(),
                detail: detail.into(),
                failure: Some(failure),
            };
            pipeline.observe(Arc::new(Observation {
                stamp: Stamp::exact(now),
                source: Source::Kube,
                body: Body::Watch(Box::new(note)),
            }));
            pipeline.snapshot(now, Mode::paused(""), (now, now), Vec::new())
        };
        let throttled = note(Failure::Throttled, "the apiserver answers 429");
        let told = |waited, s: &Snapshot| waits(Duration::from_secs(waited), MOST, s);
        assert_eq!(told(1, &throttled), None);
        assert_eq!(
            told(5, &throttled).as_deref(),
            Some("the apiserver answers 429; waiting 10s at most")
        );
        let refused = note(Failure::Forbidden, "forbidden");
        assert_eq!(told(5, &refused), None);
    }

    #[test]
    fn before_its_first_picture_a_run_has_told_nothing_that_was_asked_for() {
        let now = clock::now();
        let empty = Pipeline::new().snapshot(now, Mode::paused(""), (now, now), Vec::new());
        assert!(!has_told(&empty, Some(&Scope::default())));
        assert!(has_told(&empty, None), "nothing was asked for");
    }
}
