//! The live sources that the arguments name, and waiting for signals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::args::live::{ControlArgs, LiveArgs, Tap};
use super::{scope, tap};
use crate::doctor;
use kflow_core::correlate::Retention;
use kflow_core::query::{self, Moment};
use kflow_engine::live::{
    Agent, Config, Control, Earlier, Found, KubeletLog, LogPlace, Place, Search, connect,
};
use kflow_model::Source;
use kflow_model::clock;
use kflow_model::log::Component;
use kflow_model::patient;
use kflow_model::redact;
use kflow_model::units::wait as wait_for;
use kflow_serve::Log;
use kflow_sources::agent::{Machine, Mark, machine};
use kflow_sources::tap::needs;

pub(super) fn stderr_log() -> Log {
    Arc::new(|line: &str| super::out::tell(&redact::text(line)))
}

/// Waits for SIGINT or SIGTERM, at most for the given time. Calls `each` twice a second, and ends when it returns
/// false. Returns the reason as text, empty in the last case.
pub(super) fn wait(
    most: Option<Duration>,
    each: impl FnMut() -> bool,
) -> anyhow::Result<&'static str> {
    wait_after(None, most, each)
}

/// Like [`wait`]; the time counts once what an agent kept has been read or is known to be missing.
pub(super) fn wait_after(
    earlier: Option<&Earlier>,
    most: Option<Duration>,
    mut each: impl FnMut() -> bool,
) -> anyhow::Result<&'static str> {
    let runtime = super::runtime()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let end = async {
            if let Some(earlier) = earlier {
                earlier.over().await;
            }
            match most {
                Some(d) => tokio::time::sleep(d).await,
                None => std::future::pending().await,
            }
        };
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok("terminated"),
                _ = interrupt.recv() => return Ok("interrupted"),
                () = end.as_mut() => return Ok("the time is over"),
                () = tokio::time::sleep(Duration::from_millis(500)) => if !each() {
                    return Ok("");
                },
            }
        }
    })
}

/// The error of a command or an option that works only on a node itself.
#[cfg(not(target_os = "linux"))]
pub(super) fn only_on_a_node(what: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{what} is for a node itself, and nodes run Linux: from here, name the node with --node, and kflow asks the apiserver and the node's agent"
    )
}

/// This machine's host name.
pub(super) fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// True when this machine has the node's name: as its host name, or as the name that its kubelet was given.
pub(super) fn is_this_machine(node: &str) -> bool {
    this_machine_among([node]).is_some()
}

/// Returns the one of these nodes whose name [this machine has](is_this_machine).
pub(super) fn this_machine_among<'n>(nodes: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let mut nodes = nodes.into_iter().peekable();
    if cfg!(not(target_os = "linux")) || nodes.peek().is_none() {
        return None;
    }
    let host = hostname();
    let given = doctor::kubelet::node_name(Path::new("/"));
    nodes.find(|node| {
        node.eq_ignore_ascii_case(&host)
            || host.split('.').next() == Some(*node)
            || given.as_deref() == Some(*node)
    })
}

/// Longest wait for the Node object; after it, the name alone decides.
const NODE: Duration = Duration::from_secs(3);

/// True when this machine is the node of that name in the requested cluster, and not one of the same
/// name in another cluster.
fn is_the_node(args: &LiveArgs, node: &str) -> anyhow::Result<bool> {
    if args.no_api || !is_this_machine(node) {
        return Ok(is_this_machine(node));
    }
    let config = Config {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        ..Config::nothing()
    };
    let runtime = super::runtime()?;
    let asked = async {
        // Without a cluster the name decides.
        let (client, _) = connect(&config).await.ok()?;
        Some(machine(&client, node).await)
    };
    let answer = runtime.block_on(async { timeout(NODE, asked).await });
    // Does not wait for a name lookup that still blocks.
    runtime.shutdown_background();
    let late = || Some(Machine::Named(format!("no answer for {}", wait_for(NODE))));
    Ok(match answer.unwrap_or_else(|_| late()) {
        None | Some(Machine::Node) => true,
        Some(Machine::Named(why)) => {
            super::out::tell_later(&format!(
                "that this machine is {node} is known by the name alone: {why}"
            ));
            true
        }
        Some(Machine::Another) => {
            super::out::tell(&format!(
                "this machine is called {node} as the node is, and is another one (their boot IDs differ): what it has itself is left out; --local takes it"
            ));
            false
        }
    })
}

/// The unit of this machine's kubelet.
fn own_unit() -> &'static str {
    doctor::kubelet::unit(Path::new("/"))
}

/// The log of this machine's kubelet: a file when it was started with one, else the journal.
fn own_log() -> KubeletLog {
    let file = doctor::kubelet::log_file(Path::new("/")).map(LogPlace::File);
    KubeletLog::At(file.unwrap_or_else(|| LogPlace::Journal(own_unit().to_owned())))
}

/// The configuration of the sources that the arguments name; `pod` is the pod that the command is about, if any.
pub(super) fn config(args: &LiveArgs, pod: Option<&str>) -> anyhow::Result<Config> {
    #[cfg(not(target_os = "linux"))]
    for (asked, what) in [
        (args.local, "--local"),
        (args.tap == Some(Tap::Ebpf), "--tap ebpf"),
        (args.reconnect, "--reconnect"),
    ] {
        anyhow::ensure!(!asked, only_on_a_node(what));
    }
    let looked_at = scope::of_cluster(args, pod)?;
    let selection = scope::selection(&looked_at)?;
    let told = patient::late();
    let node = args.scope.node.as_deref();
    let started = args.debugged.is_some();
    let here = match node {
        _ if started => false,
        _ if args.local => true,
        Some(node) => is_the_node(args, node)?,
        None => false,
    };
    if let Some(node) = node
        && !(here || started)
        && doctor::kubelet::is_stopped(Path::new("/"))
    {
        super::out::tell_later(&format!(
            "no kubelet runs on this machine, which has run one: if it is {node}, --local takes what it has itself"
        ));
    }
    let scope = (!args.no_api).then_some(looked_at);
    let agent = agent(args, here, scope.is_some());
    // An agent on this machine sees everything that could be read here.
    let here = here && agent.is_none();
    // The eBPF tap follows clients on this machine only, whichever node it is.
    let taps_here = args.tap == Some(Tap::Ebpf) && node.is_none() && !started;
    let found = if here || taps_here {
        doctor::runtime_socket(Path::new("/"))
    } else {
        Err(String::new())
    };
    let kubelet_log = match args.kubelet_log.as_deref() {
        None if here => own_log(),
        None if node.is_some() && scope.is_some() && !by_socket(agent.as_ref()) => {
            KubeletLog::Remote
        }
        None | Some("off") => KubeletLog::Off,
        Some("-") => KubeletLog::Stdin,
        Some("remote") if node.is_none() || scope.is_none() => {
            bail!("--kubelet-log remote needs --node, and an apiserver to ask")
        }
        Some("remote") => KubeletLog::Remote,
        Some(place) => KubeletLog::At(LogPlace::named(Path::new(place), own_unit())),
    };
    let runtime = args.runtime.clone().map_or(found, Ok);
    let tap = tap::choose(&tap::Asked {
        how: args.tap,
        proxy: args.proxy.as_deref(),
        runtime: runtime.as_deref().map_err(String::as_str),
        here,
    })?;
    if args.reconnect {
        tap.can_reconnect()?;
    }
    if tap.ebpf.is_some() {
        // Drops privileges before the sources' threads start. A failure to drop them does not matter.
        needs::narrow().ok();
    }
    for path in patient::late().iter().filter(|p| !told.contains(p)) {
        super::out::tell(&format!(
            "{}: its file system has not answered: what it says of this node is left out",
            path.display()
        ));
    }
    let named = [
        (Source::Cri, args.proxy.is_some() || args.tap.is_some()),
        (Source::Runtime, args.runtime.is_some()),
        (Source::Kubelet, args.kubelet_log.is_some()),
        (Source::Metrics, args.kubelet.is_some()),
        (Source::Fs, false),
    ];
    Ok(Config {
        scope,
        selection,
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        proxy: tap.proxy,
        ebpf: tap.ebpf,
        reconnect: Arc::new(AtomicBool::new(args.reconnect)),
        untapped: tap.untapped,
        runtime: runtime.ok(),
        kubelet_log,
        kubelet: args.kubelet.clone(),
        kubelet_root: here.then(|| args.kubelet_root.clone()),
        control: control(&args.control),
        keep: retention(args),
        guessed: named
            .into_iter()
            .filter_map(|(source, named)| (!named).then_some(source))
            .collect(),
        agent,
        ..Config::nothing()
    })
}

/// Adds a search to a run that lasts: for what of this machine's kubelet and runtime was not there when it started.
pub(super) fn search(config: &mut Config, args: &LiveArgs) {
    let root = args.root.as_deref().unwrap_or(Path::new("/"));
    let here = config.kubelet_root.is_some();
    let runtime = here && config.runtime.is_none();
    let log = here
        && args.kubelet_log.is_none()
        && matches!(config.kubelet_log, KubeletLog::At(LogPlace::Journal(_)))
        && doctor::kubelet::is_unknown(root);
    // What a kubelet that does not run was called is not known.
    let node = args.scope.node.clone().filter(|_| {
        let elsewhere = args.debugged.is_some() || by_socket(config.agent.as_ref());
        !here && !elsewhere && doctor::kubelet::is_stopped(root)
    });
    if !runtime && !log && node.is_none() {
        return;
    }
    let wanted = Wanted { runtime, log, node };
    let (root, args) = (root.to_owned(), args.clone());
    config.search = Some(Search::new(move || wanted.look(&root, &args)));
    // As for a tap that starts at once: before there are other threads.
    needs::narrow().ok();
}

/// What a search is for.
struct Wanted {
    runtime: bool,
    /// The file of the kubelet's log.
    log: bool,
    /// All that this machine has itself, if it turns out to be this node.
    node: Option<String>,
}

impl Wanted {
    fn look(&self, root: &Path, args: &LiveArgs) -> Found {
        let mut found = Found::default();
        if let Some(node) = &self.node {
            if doctor::kubelet::is_stopped(root) {
                found.missing = Some(format!(
                    "no kubelet runs on this machine, and it is not known whether it is {node}"
                ));
                return found;
            }
            if !is_the_node(args, node).unwrap_or(false) {
                return found;
            }
            found.kubelet_root = Some(args.kubelet_root.clone());
        }
        let mut missing = Vec::new();
        if self.runtime || self.node.is_some() {
            match args
                .runtime
                .clone()
                .or_else(|| doctor::reachable_socket(root))
            {
                Some(socket) => {
                    let asked = tap::Asked {
                        how: args.tap,
                        proxy: args.proxy.as_deref(),
                        runtime: Ok(&socket),
                        here: true,
                    };
                    found.ebpf = tap::choose(&asked).ok().and_then(|c| c.ebpf);
                    found.runtime = Some(socket);
                }
                None => missing.extend(doctor::runtime_socket(root).err()),
            }
        }
        if self.log {
            found.kubelet_log = doctor::kubelet::log_file(root);
            if found.kubelet_log.is_none() && doctor::kubelet::is_unknown(root) {
                missing.push("no kubelet runs on this machine".to_owned());
            }
        }
        found.missing = (!missing.is_empty()).then(|| missing.join("; "));
        found
    }
}

/// The agent to follow: on this machine its socket, unless flags name sources that the agent would replace; else the
/// node's agent, by way of the apiserver.
fn agent(args: &LiveArgs, here: bool, api: bool) -> Option<Agent> {
    if args.no_agent {
        return None;
    }
    let socket = Path::new(kflow_sources::agent::SOCKET);
    let own = args.tap.is_some()
        || args.proxy.is_some()
        || args.runtime.is_some()
        || args.kubelet_log.is_some()
        || args.reconnect;
    let place = if here {
        let its = socket.to_owned();
        let answers = patient::ask(socket, move || std::os::unix::net::UnixStream::connect(its));
        let answers = !own && matches!(answers, Ok(Ok(_)));
        answers.then(|| Place::Socket(socket.to_owned()))
    } else {
        let of_node = args.scope.node.is_some() && api;
        of_node.then(|| match &args.debugged {
            Some(of) => Place::Pods {
                namespace: of.namespace.clone(),
                labels: of.labels.clone(),
                here: None,
            },
            None => Place::installed(args.agents()),
        })
    };
    place.map(|place| Agent {
        place,
        earlier: None,
        mark: Mark::default(),
    })
}

/// Requests what the agent has kept since a time, if one is named. An error when no agent is followed.
pub(super) fn since(config: &mut Config, text: Option<&str>) -> anyhow::Result<Option<Earlier>> {
    let Some(text) = text else {
        return Ok(None);
    };
    let Some(agent) = &mut config.agent else {
        match config.scope.as_ref().and_then(|s| s.node.as_deref()) {
            Some(node) => bail!(
                "--since asks the agent of node {node} for what it kept, and none is asked: if this is that machine, none answers at {}, so nothing was kept (`kflow agent install`, `kflow agent run`); else leave --no-agent and the node's own sources out",
                kflow_sources::agent::SOCKET
            ),
            None => bail!(
                "--since asks the agent of a node for what it kept: name the node with --node"
            ),
        }
    };
    let moment = Moment::parse(text)
        .with_context(|| format!("--since {text:?} is not a time: {}", query::FORMS))?;
    let now = clock::now();
    // No spool is older than a year (366 days).
    let year = now.plus(-366 * 24 * 3600 * 1_000_000_000);
    let earlier = Earlier::since(moment.within((year, now), None, |_| 0));
    agent.earlier = Some(earlier.clone());
    Ok(Some(earlier))
}

fn by_socket(agent: Option<&Agent>) -> bool {
    agent.is_some_and(|a| matches!(a.place, Place::Socket(_)))
}

fn retention(args: &LiveArgs) -> Retention {
    let usual = Retention::default();
    let age = args.keep_gone.map(|d| i64::try_from(d.as_nanos()));
    Retention {
        age_ns: age.map_or(usual.age_ns, |ns| ns.unwrap_or(i64::MAX)),
        pods: args.keep_gone_pods.unwrap_or(usual.pods),
        ..usual
    }
}

fn control(args: &ControlArgs) -> Control {
    let file = |path: &PathBuf| LogPlace::File(path.clone());
    let of_control = [
        (Component::Apiserver, &args.apiserver_log),
        (Component::Scheduler, &args.scheduler_log),
        (Component::ControllerManager, &args.controller_manager_log),
    ];
    let of_control = of_control.into_iter();
    let of_control = of_control.flat_map(|(c, paths)| paths.iter().map(move |p| (c, file(p))));
    let of_runtime = [
        (Component::Containerd, &args.containerd_log, "containerd"),
        (Component::Crio, &args.crio_log, "crio"),
    ];
    let of_runtime = of_runtime.into_iter().flat_map(|(c, all, unit)| {
        all.iter()
            .map(move |named| (c, LogPlace::named(named, unit)))
    });
    Control {
        otlp: args.otlp.clone(),
        otlp_socket: None,
        audit_webhook: args.audit_webhook,
        listen_anywhere: args.listen_anywhere,
        audit_logs: args.audit_log.clone(),
        logs: of_control.chain(of_runtime).collect(),
        pod_logs: args.pod_logs.clone(),
        scrape: !args.no_scrape,
    }
}
