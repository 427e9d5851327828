//! One look at what runs: the live sources until they have told what there is, for commands that answer once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::args::Input;
use super::args::live::LiveArgs;
use kflow_engine::Snapshot;
use kflow_engine::live::{Config, FAILED, Live};
use kflow_engine::snapshot::SourceStatus;
use kflow_export::text::clean;
use kflow_model::clock;
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::session::{Header, Report, Session};
use kflow_model::{Body, Source};
use kflow_sources::live::STARTING;

/// Longest wait for lists unless told otherwise.
const MOST: Duration = Duration::from_secs(15);
/// What sources that have no end (a proxy's ring, a log) get once the lists are complete.
const GRACE: Duration = Duration::from_millis(700);
/// How often it is looked whether that is so.
const POLL: Duration = Duration::from_millis(50);

/// The sources that the arguments name, running, and what they have told so far.
pub(super) fn start(input: &Input) -> anyhow::Result<(Live, Arc<Snapshot>)> {
    let config = super::live::config(&input.live)?;
    let asks_api = config.scope.is_some();
    if !asks_anything(&config) {
        bail!("nothing to ask: --no-api leaves no source; name one, such as --proxy or --runtime");
    }
    let live = Live::start(config)?;
    let begun = clock::monotonic();
    let waited = |since: Instant| clock::monotonic().saturating_duration_since(since);
    let mut complete = None;
    loop {
        std::thread::sleep(POLL);
        if live.failed() {
            bail!(FAILED);
        }
        let snapshot = live.snapshot();
        if complete.is_none() && (!asks_api || listed(&snapshot) || refused(&snapshot)) {
            complete = Some(clock::monotonic());
        }
        let enough = match input.gather {
            Some(time) => waited(begun) >= time,
            None => complete.is_some_and(|t| waited(t) >= GRACE) || waited(begun) >= MOST,
        };
        if enough {
            tell(&snapshot)?;
            return Ok((live, snapshot));
        }
    }
}

/// What the sources have told, as a session.
pub(super) fn session(snapshot: &Snapshot, args: &LiveArgs) -> Session {
    Session {
        header: Header {
            node: args.node.as_deref().unwrap_or_default().into(),
            ..Header::new(snapshot.range.0)
        },
        observations: snapshot.log.iter().cloned().collect(),
        report: Report::default(),
    }
}

fn asks_anything(c: &Config) -> bool {
    c.scope.is_some()
        || c.proxy.is_some()
        || c.runtime.is_some()
        || c.kubelet.is_some()
        || c.kubelet_root.is_some()
        || c.kubelet_log != kflow_engine::live::KubeletLog::Off
        || !c.control.logs.is_empty()
        || !c.control.audit_logs.is_empty()
        || !c.control.otlp.is_empty()
        || c.control.audit_webhook.is_some()
}

/// True when pods were listed and no list is open.
fn listed(snapshot: &Snapshot) -> bool {
    let (mut open, mut pods) = (0_i64, false);
    for o in snapshot.log.iter() {
        let Body::Watch(note) = &o.body else {
            continue;
        };
        let WatchNote { kind, resource, .. } = &**note;
        match kind {
            WatchKind::ListBegin => open += 1,
            WatchKind::ListEnd => {
                open -= 1;
                pods |= resource == "pods";
            }
            WatchKind::Broken | WatchKind::Bookmark => {}
        }
    }
    pods && open <= 0
}

/// True when the apiserver, or one of its lists of pods, cannot be had. One that has not answered yet is waited for.
fn refused(snapshot: &Snapshot) -> bool {
    let mut of_api = snapshot
        .sources
        .iter()
        .filter(|s| s.source == Source::Kube && (s.name == "kubeconfig" || s.name.contains("pods")))
        .peekable();
    of_api.peek().is_some() && of_api.any(is_off)
}

/// True for a source that tried and could not.
fn is_off(s: &SourceStatus) -> bool {
    !s.on && !s.detail.is_empty() && s.detail != STARTING
}

/// Says which sources gave nothing and why; an error when none gave anything.
#[expect(clippy::print_stderr, reason = "a notice beside the result")]
fn tell(snapshot: &Snapshot) -> anyhow::Result<()> {
    let off: Vec<String> = snapshot
        .sources
        .iter()
        .filter(|s| is_off(s))
        .map(|s| format!("{} {}: {}", s.source.name(), s.name, s.detail))
        .collect();
    let seen = snapshot.log.iter().any(|o| !matches!(o.body, Body::Gap(_)));
    if !seen {
        bail!(
            "no source told anything ({}); `kflow doctor` says what would work, --session FILE reads a recording",
            if off.is_empty() {
                "in the time that was given".to_owned()
            } else {
                off.join("; ")
            }
        );
    }
    for line in off {
        eprintln!("kflow: {}", clean(&line));
    }
    Ok(())
}
