//! Checks what would work on this machine with the current rights, and gives the exact command for what would not.
//! Changes nothing.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;

use kflow_engine::live::Config;
use kflow_model::{patient, redact};
use kflow_sources::runtime::events;
use kflow_sources::{cri, tap};

mod agent;
pub use agent::own as own_agent;
mod cluster;
mod files;
pub mod kubelet;
mod logs;
mod unit;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Works.
    Works,
    /// Works, with a reservation.
    Warning,
    /// Does not work.
    Off,
}

/// Whether this machine can be a node: kflow knows nodes that run Linux.
const MAY_BE_NODE: bool = cfg!(target_os = "linux");

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The part that was checked.
    pub what: &'static str,
    pub health: Health,
    pub found: String,
    /// The remedy, one command or line of configuration per line; empty when none is needed.
    pub todo: String,
    /// True when the pods cannot be read without this part.
    #[serde(skip)]
    pub needed: bool,
}

impl Check {
    fn new(what: &'static str, health: Health, found: impl Into<String>) -> Self {
        Self {
            what,
            health,
            found: found.into(),
            todo: String::new(),
            needed: false,
        }
    }
    fn needed(self) -> Self {
        Self {
            needed: true,
            ..self
        }
    }
    fn todo(mut self, line: impl Into<String>) -> Self {
        self.todo = line.into();
        self
    }
}

/// Sockets of runtimes, at the paths of the distributions.
const SOCKETS: [(&str, &str); 6] = [
    ("containerd", "run/containerd/containerd.sock"),
    ("CRI-O", "run/crio/crio.sock"),
    (
        "containerd of k3s or RKE2",
        "run/k3s/containerd/containerd.sock",
    ),
    ("containerd of k0s", "run/k0s/containerd.sock"),
    (
        "containerd of microk8s",
        "var/snap/microk8s/common/run/containerd.sock",
    ),
    ("cri-dockerd", "run/cri-dockerd.sock"),
];

/// The socket of the runtime that this machine's kubelet uses. Without a kubelet: the only known socket that exists.
/// The error says why it is not certain.
pub fn runtime_socket(root: &Path) -> Result<PathBuf, String> {
    match kubelet::upstream(root) {
        Ok(found) => Ok(found.endpoint),
        Err(kubelet::Unknown::NoKubelet) => {
            let mut there = Vec::new();
            for (_, path) in SOCKETS {
                let path = root.join(path);
                match files::exists(&path) {
                    Ok(true) => there.push(path),
                    Ok(false) => {}
                    // Leaves open whether there is only one.
                    Err(e) => return Err(format!("cannot look at {}: {e}", path.display())),
                }
            }
            let shown = || there.iter().map(|p| p.display().to_string());
            match there.as_slice() {
                [one] => Ok(one.clone()),
                [] => Err("no runtime's socket is in the usual places".to_owned()),
                _ => Err(format!(
                    "it is not known which of these runtimes is meant: {}",
                    shown().collect::<Vec<_>>().join(", ")
                )),
            }
        }
        Err(e) => Err(e.to_string()),
    }
}

/// The socket of the kubelet's runtime, by a path that this process can open; `None` when the kubelet's is not known.
pub fn reachable_socket(root: &Path) -> Option<PathBuf> {
    let path = runtime_socket(root).ok()?;
    // `/var/run` is a link to `/run` on the node; in a container it is a directory.
    let plain = path
        .strip_prefix("/var/run")
        .map(|p| Path::new("/run").join(p));
    let there = |p: &PathBuf| {
        let its = p.clone();
        patient::ask(p, move || its.try_exists()).is_ok_and(|e| e.unwrap_or(false))
    };
    let ways = [
        Some(path.clone()),
        plain.ok(),
        Some(root.join(path.strip_prefix("/").unwrap_or(&path))),
    ];
    ways.into_iter().flatten().find(there).or(Some(path))
}

/// Runs all checks. `root` is `/`, or in a test a folder with the relevant files. The texts are redacted, because
/// they quote answers and command lines.
///
/// `elsewhere`: the name of the node that is asked about, when it is another machine: nothing that this machine's files and sockets say is
/// of it.
pub async fn examine(root: &Path, config: &Config, elsewhere: Option<&str>) -> Vec<Check> {
    let mut all = looked_at(root, config, elsewhere).await;
    for check in &mut all {
        check.found = redact::text(&check.found).into_owned();
    }
    all
}

async fn looked_at(root: &Path, config: &Config, elsewhere: Option<&str>) -> Vec<Check> {
    if let Some(node) = elsewhere {
        return of_another(root, config, node).await;
    }
    let mut all = vec![system(root)];
    if MAY_BE_NODE {
        all.extend(ways_to_calls(root, config).await);
    }
    let (agent, sent) = agent::agent(config).await;
    all.extend(agent);
    all.push(logs::kubelet(root, config).await);
    if MAY_BE_NODE {
        let kubelet_root = config.kubelet_root.as_deref();
        let pods = kubelet_root
            .unwrap_or(Path::new("/var/lib/kubelet"))
            .join("pods");
        all.push(folder(
            root,
            "pod volumes",
            &pods,
            "directories and mounts of pods",
        ));
        all.push(cgroups(root));
        all.push(inotify(root));
    }
    all.push(cluster::kubelet(config).await);
    all.push(logs::audit(root, &config.control));
    all.push(logs::spans(&config.control, sent).await);
    all.extend(cluster::rights(config).await);
    all.extend(files::late());
    all
}

/// Checks what this machine can learn of a node that is another machine: by its agent, its kubelet and the apiserver. What only the node
/// itself has is not known, whatever there is of the kind here.
async fn of_another(root: &Path, config: &Config, node: &str) -> Vec<Check> {
    let here = system(root);
    let mut all = vec![Check {
        found: format!("{}, which is not node {node}", here.found),
        // Nobody has to be root here for another node's sources.
        ..Check::new(here.what, Health::Works, "")
    }];
    let live = cluster::live_endpoint(config).await;
    if let Some(endpoint) = live.as_deref().filter(|e| !e.is_empty()) {
        let found = format!(
            "{} by its /configz: whether calls are seen there, only the node can tell",
            endpoint.strip_prefix("unix://").unwrap_or(endpoint)
        );
        all.push(Check::new(kubelet::WHAT, Health::Works, found));
    }
    let (agent, sent) = agent::agent(config).await;
    let is_asked = agent.iter().any(|c| c.health == Health::Works);
    let unseen = "its runtime, tap or proxy, pod volumes, cgroups and files of logs are not to be seen from this machine";
    let own = Check::new("node", Health::Warning, format!("{node}: {unseen}"));
    all.push(if is_asked {
        Check {
            found: format!("{node}: {unseen}; its agent sees them"),
            ..Check::new("node", Health::Works, "")
        }
    } else if config.scope.is_some() {
        own.todo("kflow agent install\nor on that node: sudo kflow doctor")
    } else {
        own.todo("on that node: sudo kflow doctor")
    });
    all.extend(agent);
    if logs::is_named(&config.kubelet_log) {
        all.push(logs::kubelet(root, config).await);
    }
    if config.scope.is_some() || config.kubelet.is_some() {
        all.push(cluster::kubelet(config).await);
    }
    if !config.control.audit_logs.is_empty() || config.control.audit_webhook.is_some() {
        all.push(logs::audit(root, &config.control));
    }
    if sent.is_some() || !config.control.otlp.is_empty() {
        all.push(logs::spans(&config.control, sent).await);
    }
    all.extend(cluster::rights(config).await);
    all.extend(files::late());
    all
}

/// Checks the runtimes of this machine, and what can see the calls to them.
async fn ways_to_calls(root: &Path, config: &Config) -> Vec<Check> {
    let live = cluster::live_endpoint(config).await;
    let current = kubelet::current(root, live.as_deref());
    let mut sockets = Sockets::default();
    let mut asked = None;
    if let Ok((found, _)) = &current {
        let path = kubelet::below(root, &found.endpoint.display().to_string());
        asked = Some(sockets.asked(&path).await);
    }
    let mut all = runtimes(root, config, &mut sockets).await;
    let tap = tapped(config);
    let followed = config
        .ebpf
        .as_deref()
        .filter(|_| tap.health == Health::Works);
    // Before a socket that nobody answers on no proxy helps; where the kubelet is set to one, none is to be set up.
    let is_set = (current.as_ref()).is_ok_and(|(f, _)| kubelet::is_proxys(&f.endpoint, None));
    let is_dead = (asked.as_ref()).is_some_and(|a| !matches!(a, kubelet::Asked::Answers));
    let (carried, listens) = proxy(root, config, followed.is_some(), is_set || is_dead).await;
    all.push(match current {
        Err(check) => check,
        Ok(current) => kubelet::endpoint(
            root,
            current,
            kubelet::Known {
                runtime: config.runtime.as_deref(),
                proxy: listens.as_deref(),
                followed,
                hidden: carried.health == Health::Off && carried.todo == AS_ROOT,
                asked: asked.as_ref(),
            },
        ),
    });
    let follows_proxy = config.ebpf.is_none() && config.untapped.is_none();
    let is_unserved = listens.is_none() && carried.todo != AS_ROOT;
    let tap = match &config.proxy {
        Some(_) if follows_proxy && is_unserved => {
            Check::new(tap.what, Health::Off, format!("none: {}", carried.found))
        }
        _ => tap,
    };
    all.push(carried);
    all.push(tap);
    all
}

/// The sockets that were asked for a runtime's version, each once.
#[derive(Default)]
struct Sockets(BTreeMap<PathBuf, Result<String, cri::live::Error>>);

impl Sockets {
    async fn version(&mut self, path: &Path) -> &Result<String, cri::live::Error> {
        if !self.0.contains_key(path) {
            let answer = cri::live::version(path).await;
            self.0.insert(path.to_owned(), answer);
        }
        let unasked = || Err(cri::live::Error::Connect(ErrorKind::NotFound.into()));
        self.0.entry(path.to_owned()).or_insert_with(unasked)
    }
    /// What came of asking the kubelet's endpoint.
    async fn asked(&mut self, path: &Path) -> kubelet::Asked {
        use kubelet::Asked;
        match self.version(path).await {
            Ok(_) => Asked::Answers,
            Err(cri::live::Error::Connect(e)) if e.kind() == ErrorKind::PermissionDenied => {
                Asked::Denied
            }
            Err(cri::live::Error::Connect(e)) => Asked::Refused(e.to_string()),
            Err(e) => Asked::Silent(e.to_string()),
        }
    }
}

fn system(root: &Path) -> Check {
    if !MAY_BE_NODE {
        let found = format!(
            "{}: no node; kflow asks the apiserver and the nodes' agents",
            std::env::consts::OS
        );
        return Check::new("machine", Health::Works, found);
    }
    let text = files::text(&root.join("etc/os-release")).unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key));
        line.map_or("", |v| v.trim_matches('"')).to_owned()
    };
    let (id, name) = (value("ID="), value("PRETTY_NAME="));
    let user = rustix::process::geteuid().as_raw();
    let who = if user == 0 {
        "root".to_owned()
    } else {
        format!("user {user}")
    };
    if id == "talos" || id == "bottlerocket" {
        return Check::new(
            "machine",
            Health::Warning,
            format!("{name}, as {who}: its configuration is read-only from here"),
        )
        .todo("change containerRuntimeEndpoint by the system's own API, or use kflow without the proxy");
    }
    let check = Check::new(
        "machine",
        Health::Works,
        format!(
            "{}, as {who}",
            if name.is_empty() {
                "unknown system"
            } else {
                &name
            }
        ),
    );
    if user == 0 {
        check
    } else {
        Check {
            health: Health::Warning,
            ..check
        }
        .todo("run as root for the node's own sources: sudo kflow doctor")
    }
}

/// The sockets to ask for a runtime, with what each is called: the usual ones that exist, the kubelet's, and the one in the arguments.
/// The errors are finished checks.
fn places(root: &Path, config: &Config) -> Vec<Result<(String, PathBuf), Check>> {
    let mut all: Vec<Result<(String, PathBuf), Check>> = Vec::new();
    for (name, path) in SOCKETS {
        let path = root.join(path);
        match files::exists(&path) {
            Ok(true) => all.push(Ok((name.to_owned(), path))),
            Ok(false) => {}
            Err(e) => {
                let text = format!("{name} at {}: {e}", path.display());
                all.push(Err(Check::new("runtime", Health::Off, text)));
            }
        }
    }
    let of_kubelet = kubelet::upstream(root).ok();
    let of_kubelet = of_kubelet.map(|f| kubelet::below(root, &f.endpoint.display().to_string()));
    let named = [
        (of_kubelet, "the kubelet's runtime"),
        (config.runtime.clone(), "the runtime of --runtime"),
    ];
    for (path, name) in named {
        let is_known = |path: &PathBuf| all.iter().flatten().any(|(_, p)| is_same(p, path));
        if let Some(path) = path.filter(|p| !is_known(p)) {
            all.push(Ok((name.to_owned(), path)));
        }
    }
    all
}

/// True for two paths of one socket: `/var/run` is a link to `/run`.
fn is_same(a: &Path, b: &Path) -> bool {
    let target = |p: &Path| files::ask(p, Path::canonicalize).unwrap_or_else(|_| p.to_owned());
    a == b || target(a) == target(b)
}

async fn runtimes(root: &Path, config: &Config, sockets: &mut Sockets) -> Vec<Check> {
    let mut all = Vec::new();
    for place in places(root, config) {
        let (name, path) = match place {
            Ok(place) => place,
            Err(check) => {
                all.push(check);
                continue;
            }
        };
        let shown = path.display();
        match sockets.version(&path).await {
            Ok(version) => {
                let text = format!("{version} at {shown}");
                all.push(Check::new("runtime", Health::Works, text));
                all.push(match events::probe(&path).await {
                    Ok(which) => Check::new("runtime events", Health::Works, which),
                    Err(why) => Check::new("runtime events", Health::Warning, why),
                });
            }
            Err(e) => {
                let check = Check::new("runtime", Health::Off, format!("{name} at {shown}: {e}"));
                all.push(check.todo(if denied(&path) {
                    AS_ROOT.to_owned()
                } else {
                    format!(
                        "systemctl status {}",
                        unit_of_runtime(root, &shown.to_string())
                    )
                }));
            }
        }
    }
    if all.is_empty() {
        // A runtime that is stopped removes its socket.
        let (found, todo) = match kubelet::upstream(root) {
            Err(gone @ kubelet::Unknown::Gone { .. }) => {
                let unit = unit_of_runtime(root, &gone.to_string());
                (gone.to_string(), format!("systemctl status {unit}"))
            }
            _ => (
                "no runtime's socket in the usual places".to_owned(),
                "name it: kflow doctor --runtime /path/to/runtime.sock".to_owned(),
            ),
        };
        all.push(Check::new("runtime", Health::Off, found).todo(todo));
    }
    all
}

/// The unit of the runtime whose socket a text names. Distributions that bring a runtime start it in the kubelet's unit.
fn unit_of_runtime(root: &Path, text: &str) -> &'static str {
    match kubelet::unit(root) {
        "kubelet" if text.contains("/crio/") => "crio",
        "kubelet" if text.contains("cri-dockerd") => "cri-docker",
        "kubelet" => "containerd",
        own => own,
    }
}

/// The remedy for what only root may do.
const AS_ROOT: &str = "run as root: sudo kflow doctor";

/// True when this user may not connect to the socket, or may not even see whether it exists.
fn denied(socket: &Path) -> bool {
    files::ask(socket, |p| std::os::unix::net::UnixStream::connect(p))
        .is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Checks the proxy; also returns where it listens. `ebpf`: the eBPF tap works, and the arguments request no proxy. `unfit`: the check of
/// the kubelet's endpoint says what to do first.
async fn proxy(root: &Path, config: &Config, ebpf: bool, unfit: bool) -> (Check, Option<PathBuf>) {
    let path = config
        .proxy
        .clone()
        .unwrap_or_else(|| PathBuf::from(crate::cli::tap::OBSERVATIONS));
    let asked = match kflow_sources::proxy::Client::connect(&path).await {
        Ok(mut client) => client.info().await,
        Err(e) => Err(e),
    };
    let listens = asked.as_ref().ok().map(|i| PathBuf::from(&i.listen));
    let check = match asked {
        Ok(i) if i.upstream_up && i.connections > 0 && i.partial > 0 => Check::new(
            "CRI proxy",
            Health::Warning,
            format!(
                "kflow {} carries {} connections; {}",
                i.version,
                i.connections,
                kflow_sources::proxy::in_part(i.partial)
            ),
        ),
        Ok(i) if i.upstream_up && i.connections > 0 => Check::new(
            "CRI proxy",
            Health::Works,
            format!(
                "kflow {} carries {} connections between {} and {}",
                i.version, i.connections, i.listen, i.upstream
            ),
        ),
        Ok(i) if i.upstream_up => Check::new(
            "CRI proxy",
            Health::Warning,
            format!("kflow {} listens on {}, but nobody uses it", i.version, i.listen),
        )
        .todo(format!("containerRuntimeEndpoint: unix://{}", i.listen)),
        Ok(i) => Check::new(
            "CRI proxy",
            Health::Off,
            format!("the runtime at {} does not answer", i.upstream),
        )
        .todo(format!("systemctl status {}", unit_of_runtime(root, &i.upstream))),
        // A proxy may be running, so the remedy is not to start one.
        Err(e) if denied(&path) => {
            Check::new("CRI proxy", Health::Off, e.to_string()).todo(AS_ROOT)
        }
        Err(_) if ebpf => Check::new(
            "CRI proxy",
            Health::Off,
            "none runs, and the eBPF tap needs none",
        ),
        Err(e) if unfit => Check::new("CRI proxy", Health::Off, e.to_string())
            .todo("see kubelet endpoint, which comes first"),
        Err(e) => Check::new("CRI proxy", Health::Off, e.to_string()).todo(
            "kflow proxy --listen /run/kflow/cri.sock --upstream RUNTIME.sock, or deploy/install.sh",
        ),
    };
    (check, listens)
}

/// Checks the tap that a run on this node would use.
fn tapped(config: &Config) -> Check {
    let what = "CRI tap";
    let missing = |e: &tap::Error| match e {
        tap::Error::Missing(all) => helps(all),
        _ => String::new(),
    };
    match (&config.ebpf, &config.proxy, &config.untapped) {
        (Some(socket), ..) => match tap::probe() {
            Ok(()) => Check::new(
                what,
                Health::Works,
                format!(
                    "eBPF: programs in the kernel would follow the clients of {}, with nothing restarted and nothing in the way",
                    socket.display()
                ),
            ),
            Err(e) => {
                let todo = missing(&e);
                Check::new(what, Health::Off, e.to_string()).todo(todo)
            }
        },
        (None, Some(_), Some(why)) => {
            Check::new(what, Health::Off, format!("none: no proxy runs, and {why}"))
                .todo(helps(&tap::needs::missing_here()))
        }
        (None, Some(path), None) => Check::new(
            what,
            Health::Works,
            format!("the stream of the proxy at {}", path.display()),
        ),
        (None, None, _) => Check::new(what, Health::Warning, "none: --tap off"),
    }
}

/// The remedies for what is missing.
fn helps(all: &[tap::needs::Missing]) -> String {
    let mut lines: Vec<&str> = all.iter().map(|m| m.help.as_str()).collect();
    lines.retain(|l| !l.is_empty());
    lines.dedup();
    lines.join("\n")
}

fn folder(root: &Path, what: &'static str, path: &Path, gives: &str) -> Check {
    let path = root.join(path.strip_prefix("/").unwrap_or(path));
    match files::entries(&path) {
        Ok(entries) => Check::new(
            what,
            Health::Works,
            format!("{} in {}: {gives}", entries.len(), path.display()),
        ),
        Err(e) => Check::new(what, Health::Off, format!("{}: {e}", path.display())).todo(
            if e.kind() == std::io::ErrorKind::PermissionDenied {
                "run as root"
            } else {
                "name the kubelet's root folder: --kubelet-root DIR"
            },
        ),
    }
}

fn cgroups(root: &Path) -> Check {
    let base = root.join("sys/fs/cgroup");
    let roots = kflow_sources::fs::Roots::of_this_node(Path::new("/var/lib/kubelet"));
    if files::exists(&base.join("cgroup.controllers")).unwrap_or(false) {
        Check::new("cgroups", Health::Works, "version 2")
    } else if files::entries(&base).is_ok_and(|all| !all.is_empty()) {
        Check::new(
            "cgroups",
            Health::Works,
            format!("version 1, watched at {}", roots.cgroups.display()),
        )
    } else {
        Check::new("cgroups", Health::Off, "no cgroup file system is mounted")
            .todo("run on the node itself, or with the host's /sys/fs/cgroup mounted")
    }
}

fn inotify(root: &Path) -> Check {
    let path = root.join("proc/sys/fs/inotify/max_user_watches");
    let watches = files::text(&path).ok();
    match watches.and_then(|t| t.trim().parse::<u64>().ok()) {
        // A pod takes about 20 directories and 5 cgroups; a node has up to 110 pods, and other
        // programs use inotify too.
        Some(n) if n < 8192 => Check::new(
            "inotify",
            Health::Warning,
            format!("{n} watches allowed; 110 pods take about 3,000"),
        )
        .todo("sysctl -w fs.inotify.max_user_watches=65536"),
        Some(n) => Check::new("inotify", Health::Works, format!("{n} watches allowed")),
        None => Check::new(
            "inotify",
            Health::Warning,
            format!("cannot read {}", path.display()),
        ),
    }
}
