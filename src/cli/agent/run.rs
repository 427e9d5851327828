//! `kflow agent run`: finds the sources of this node, and starts the agent on them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::args::agent::RunArgs;
use super::super::args::live::{ControlArgs, LiveArgs, ScopeArgs};
use super::super::live::{config, hostname, search, stderr_log, wait};
use super::super::{OK, store};
use super::place::{Root, own_folder, own_loopback};
use crate::doctor::{self, kubelet};
use kflow_agent::find::{Finding, Found};
use kflow_agent::look;
use kflow_agent::run::{Agent, Options};
use kflow_engine::live::Config;
use kflow_model::clock;
use kflow_model::log::Component;
use kflow_model::patient;
use kflow_model::units::counted;
use kflow_sources::klog::live::Journal;
use kflow_store::{Bounds, Cluster, Tidy};

/// Limits of the ring in memory, from which viewers are served: bytes and age. The rest is in the spool.
const RING: (usize, Duration) = (1 << 20, Duration::from_secs(600));
/// Name of the socket that receives OTLP spans, in the folder of `--serve`'s.
const OTLP: &str = "otlp.sock";
/// Agents that start together spread their first requests to the apiserver over this time.
const SPREAD: Duration = Duration::from_secs(10);

/// `kflow agent run`
pub(super) fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let log = stderr_log();
    let root = args.root.clone().map_or_else(Root::of_node, Root::named);
    let configuration = kubelet::configuration(root.path());
    let mut found = look::found_at(root.path(), configuration.as_deref());
    let named = || kubelet::node_name(root.path());
    let node = args.node.clone().or_else(named);
    let node = node.unwrap_or_else(hostname);
    let live = asked(args, root.path(), &node, &mut found);
    let mut config = Config {
        of_node_only: true,
        api_spread: SPREAD,
        ..config(&live, None)?
    };
    search(&mut config, &live);
    config.control.otlp_socket = Some(args.serve.with_file_name(OTLP));
    own_folder(&args.serve);
    let store = match &args.store {
        Some(url) => {
            let store = store::for_writing(url)?;
            let cluster = Cluster::new(store.root(), &args.cluster)?;
            Some((store, cluster))
        }
        None => None,
    };
    let bounds = Bounds {
        bytes: args.spool_size,
        age: args.spool_age,
        segment_age: args.segment,
        ..Bounds::default()
    };
    let options = Options {
        node: node.clone(),
        serve: args.serve.clone(),
        listen: args.listen.or_else(own_loopback),
        spool: (!args.no_spool).then(|| (args.spool.clone(), bounds)),
        store,
        tidy: Tidy {
            keep: args.store_keep,
        },
        metrics: args.metrics,
        ring_bytes: RING.0,
        ring_age: RING.1,
        findings: found.findings,
        root: match (&args.root, root.path()) {
            (None, path) if path != Path::new("/") => path.display().to_string(),
            _ => String::new(),
        },
    };
    let at = options.listen.map(|a| format!(" and {a}"));
    let agent = Agent::start(&config, options, &log)?;
    log(&format!(
        "the agent of {node} serves on {}{}",
        args.serve.display(),
        at.unwrap_or_default()
    ));
    if let Some(at) = args.metrics {
        log(&format!("metrics: http://{at}/metrics"));
    }
    let mut waits = false;
    let mut watched = clock::monotonic();
    let mut unwatched = false;
    let why = wait(None, || {
        let now = clock::monotonic();
        if agent.subscribers() > 0 {
            watched = now;
        }
        let since = now.saturating_duration_since(watched);
        unwatched = args.until_unwatched.is_some_and(|most| since >= most);
        let failing = agent.upload().and_then(|u| u.failing);
        if failing.is_some() != waits {
            waits = failing.is_some();
            match failing {
                Some(why) => log(&format!("segments wait to be sent: {why}")),
                None => log("segments are sent again"),
            }
        }
        agent.works() && !unwatched
    })?;
    let why = if unwatched { "nobody listens" } else { why };
    let works = agent.works();
    log(&format!("{why}: closing the spool"));
    let ended = agent.stop();
    anyhow::ensure!(
        works,
        "the agent's thread failed (a bug): see what it wrote above"
    );
    if ended.waiting > 0 {
        let why = ended.failing.as_deref().unwrap_or("there was no time");
        log(&format!(
            "not in the store yet: {}: {why}. What waits in {} is sent by the next agent with that spool",
            counted(ended.waiting as u64, "segment"),
            args.spool.display()
        ));
    }
    anyhow::ensure!(
        ended.closed,
        "the spool in {} was not closed: its disk does not answer",
        args.spool.display()
    );
    Ok(OK)
}

/// Returns the sources of this node as the arguments of a live command. Adds to `found` whether runtime and kubelet
/// log were found.
fn asked(args: &RunArgs, root: &Path, node: &str, found: &mut Found) -> LiveArgs {
    let runtime = args
        .runtime
        .clone()
        .or_else(|| doctor::reachable_socket(root));
    found.findings.push(match &runtime {
        Some(path) => Finding::there("runtime", on_node(root, path)),
        None => Finding::missing(
            "runtime",
            "the socket that the kubelet uses is not known",
            "name it: kflow agent run --runtime /path/to/runtime.sock",
        ),
    });
    let (kubelet_log, finding) = match &args.kubelet_log {
        Some(named) => (named.clone(), Finding::there("kubelet log", named.clone())),
        None => kubelet_log(root, found),
    };
    found.findings.push(finding);
    let crio = crio_log(root, runtime.as_deref());
    let (crio_log, finding) = crio.unzip();
    found.findings.extend(finding);
    let kubelet = args.kubelet.clone().or_else(|| {
        let ip = std::env::var("HOST_IP").ok().filter(|_| !args.no_api)?;
        let ip: std::net::IpAddr = ip.parse().ok()?;
        Some(format!(
            "https://{}",
            std::net::SocketAddr::from((ip, 10250))
        ))
    });
    let of = |c: Component| {
        let all = found.logs.iter().filter(move |(x, _)| *x == c);
        all.map(|(_, p)| p.clone()).collect()
    };
    LiveArgs {
        local: true,
        no_agent: true,
        no_api: args.no_api,
        kubeconfig: args.kubeconfig.clone(),
        tap: Some(args.tap).filter(|_| args.proxy.is_none()),
        proxy: args.proxy.clone(),
        runtime,
        kubelet_log: Some(kubelet_log),
        kubelet,
        kubelet_root: root.join("var/lib/kubelet"),
        root: Some(root.to_owned()),
        scope: ScopeArgs {
            node: Some(node.to_owned()),
            ..ScopeArgs::default()
        },
        control: ControlArgs {
            audit_log: found.audit_logs.clone(),
            apiserver_log: of(Component::Apiserver),
            scheduler_log: of(Component::Scheduler),
            controller_manager_log: of(Component::ControllerManager),
            containerd_log: of(Component::Containerd),
            crio_log: crio_log.flatten().map(PathBuf::from).into_iter().collect(),
            pod_logs: (!found.control.is_empty())
                .then(|| (root.join(look::POD_LOGS), found.control.clone())),
            ..ControlArgs::default()
        },
        ..LiveArgs::default()
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// A path as seen on the node, for display.
fn on_node(root: &Path, path: &Path) -> String {
    let its = path.strip_prefix(root).unwrap_or(path);
    Path::new("/").join(its).display().to_string()
}

/// Location of the kubelet's log, in the form of `--kubelet-log`; `off` when it is not found.
fn kubelet_log(root: &Path, found: &Found) -> (String, Finding) {
    const WHAT: &str = "kubelet log";
    let plain = root.join("var/log/kubelet.log");
    let is_there = plain.clone();
    let plain = patient::ask(&plain, move || is_there.is_file())
        .is_ok_and(|f| f)
        .then_some(plain);
    let file = kubelet::log_file(root).map(|p| below(root, &p));
    if let Some(path) = file.or_else(|| found.kubelet_log.clone()).or(plain) {
        let found = Finding::there(WHAT, on_node(root, &path));
        return (path.display().to_string(), found);
    }
    match journal_of(root, kubelet::unit(root)) {
        Ok((named, text)) => (named, Finding::there(WHAT, text)),
        Err(why) => {
            let todo = "name it with --kubelet-log; a viewer asks the kubelet for it meanwhile (--kubelet-log remote)";
            ("off".to_owned(), Finding::missing(WHAT, why, todo))
        }
    }
}

/// The log of CRI-O, which writes to the journal; nothing where the kubelet has another runtime.
fn crio_log(root: &Path, runtime: Option<&Path>) -> Option<(Option<String>, Finding)> {
    const WHAT: &str = "CRI-O's log";
    let of_crio = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("crio");
    runtime?.file_name().filter(|name| of_crio(name))?;
    Some(match journal_of(root, "crio") {
        Ok((named, text)) => (Some(named), Finding::there(WHAT, text)),
        Err(why) => {
            let todo = "let CRI-O log to systemd's journal, as it does by default";
            (None, Finding::missing(WHAT, why, todo))
        }
    })
}

/// A unit's journal, in the form of `--kubelet-log`, and in words; the error says why it cannot be read.
fn journal_of(root: &Path, unit: &str) -> Result<(String, String), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|d| d.join("journalctl").is_file()) {
        let text = format!("the journal of unit {unit}");
        return Ok((format!("journal:{unit}"), text));
    }
    // journald keeps its files in the first folder where that exists (`Storage=auto`), else in the second, in memory.
    let folders = ["var/log/journal", "run/log/journal"].map(|f| root.join(f));
    let said = folders.map(|folder| {
        let named = format!("{unit}@{}", folder.display());
        let journal = Journal::named(&named).ok_or_else(String::new)?;
        let looked = patient::ask(&folder, move || journal.look());
        looked.map_err(|e| e.to_string())??;
        Ok::<_, String>((format!("journal:{named}"), folder))
    });
    let [persistent, volatile] = said;
    match persistent.or_else(|why| volatile.map_err(|_| why)) {
        Ok((named, folder)) => {
            let text = format!("the journal of unit {unit}, in {}", on_node(root, &folder));
            Ok((named, text))
        }
        Err(why) => Err(format!(
            "in the journal of unit {unit}, which cannot be read here: there is no journalctl, and {why}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_crio_is_looked_for_where_the_kubelet_uses_crio() {
        let root = tempfile::tempdir().expect("a folder");
        let finding = |socket: &str| crio_log(root.path(), Some(Path::new(socket)));
        let (_, found) = finding("/run/crio/crio.sock").expect("a finding");
        assert_eq!(found.what, "CRI-O's log");
        assert!(finding("/run/containerd/containerd.sock").is_none());
        assert!(crio_log(root.path(), None).is_none());
    }
}
