//! Finds where this node's kubelet takes its runtime endpoint from, and how to change the endpoint without editing
//! vendor files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Check, Health, files, unit};

mod embedded;

use embedded::embedded;
use unit::words as unit_words;

/// An endpoint and the place that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file, or the process or unit with the flag.
    pub place: String,
    /// The endpoint, without `unix://`.
    pub endpoint: PathBuf,
    /// How to change it.
    pub change: String,
}

/// Why the runtime of a kubelet is unknown. The socket of another runtime is never used instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// There is no kubelet process, no unit and no configuration.
    #[error("no kubelet on this machine")]
    NoKubelet,
    /// Several kubelets run in this mount namespace.
    #[error("{0} kubelets run on this machine, and it is not known which of them is meant")]
    Several(usize),
    /// A file or process that sets the endpoint cannot be read.
    #[error("cannot read {path}, which sets the kubelet's runtime endpoint: {why}")]
    Unreadable { path: String, why: String },
    /// The endpoint is not a Unix socket.
    #[error("the kubelet's runtime endpoint is {endpoint} ({place}), and that is no Unix socket")]
    NoSocket {
        endpoint: String,
        /// The file or flag that sets it.
        place: String,
    },
    /// The socket does not exist.
    #[error("the kubelet's runtime endpoint is {endpoint} ({place}), and there is no such socket")]
    Gone {
        endpoint: String,
        /// The file or flag that sets it.
        place: String,
    },
    /// A kubelet before 1.24 that uses Docker without a CRI socket.
    #[error(
        "the kubelet uses Docker without a runtime's socket (dockershim, before Kubernetes 1.24: {flag} of {place}), so that no proxy can be put between"
    )]
    Dockershim {
        /// The flag that shows it.
        flag: String,
        /// The process, unit or file with the flag.
        place: String,
    },
    /// Every place sets kflow's own socket.
    #[error(
        "the kubelet uses kflow's proxy already ({place}), and nothing says which runtime is behind it"
    )]
    OnlyKflow {
        /// The file or flag that sets it.
        place: String,
    },
}

/// The kubelet's default since 1.24 (`pkg/kubelet/apis/config/v1beta1/defaults.go`).
const DEFAULT: &str = "/run/containerd/containerd.sock";
const FLAG: &str = "--container-runtime-endpoint";
/// Flags that kubelets since 1.24, which lack dockershim, refuse (CHANGELOG-1.24.md: "the following dockershim
/// related flags are also removed along with dockershim", #106907). A kubelet that was given one
/// has another default endpoint.
const OF_DOCKERSHIM: [&str; 8] = [
    "--network-plugin",
    "--network-plugin-mtu",
    "--cni-conf-dir",
    "--cni-bin-dir",
    "--cni-cache-dir",
    "--docker-endpoint",
    "--experimental-dockershim-root-directory",
    "--image-pull-progress-deadline",
];
const DROP_IN: &str = "deploy/install.sh (a systemd drop-in with --container-runtime-endpoint=unix:///run/kflow/cri.sock)";
/// What install.sh puts on the machine to take the proxy out again.
const UNINSTALL: &str = "usr/local/lib/kflow/uninstall.sh";
/// File in which install.sh stores the kubelet's previous runtime endpoint.
const INSTALLED: &str = "etc/kflow/proxy.env";

/// The kubelet's current endpoint.
pub fn find(root: &Path) -> Result<Found, Unknown> {
    search(root, &|_| true)
}

/// The socket of this machine's kubelet's runtime; if kflow's proxy is in between, the one before it was installed.
/// The socket exists.
pub fn upstream(root: &Path) -> Result<Found, Unknown> {
    let is_runtime = |endpoint: &str| !is_own(&socket(endpoint));
    let found = match search(root, &is_runtime) {
        Ok(found) if is_own(&found.endpoint) => Err(Unknown::OnlyKflow { place: found.place }),
        found => found,
    };
    let found = match found {
        Err(e @ Unknown::OnlyKflow { .. }) => {
            let text = files::text_if_any(&root.join(INSTALLED))
                .map_err(|e| unreadable(&format!("/{INSTALLED}"), &e))?
                .unwrap_or_default();
            let noted = text.lines().find_map(|l| l.strip_prefix("KFLOW_UPSTREAM="));
            Found {
                place: format!("/{INSTALLED}"),
                endpoint: noted.map(socket).ok_or(e)?,
                change: String::new(),
            }
        }
        found => found?,
    };
    let (endpoint, place) = (found.endpoint.display().to_string(), found.place.clone());
    if !found.endpoint.is_absolute() {
        return Err(Unknown::NoSocket { endpoint, place });
    }
    match files::exists(&below(root, &endpoint)) {
        Ok(true) => Ok(found),
        Ok(false) => Err(Unknown::Gone { endpoint, place }),
        Err(e) => Err(unreadable(&endpoint, &e)),
    }
}

/// True for sockets of an installed kflow proxy.
fn is_own(socket: &Path) -> bool {
    ["/run/kflow", "/var/run/kflow"]
        .iter()
        .any(|d| socket.starts_with(d))
}

/// Searches by the kubelet's precedence: flags, drop-in configuration, configuration file. A value that `wanted`
/// refuses is skipped in favour of those that it overrides; when there is none, returns the refused value.
fn search(root: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Found, Unknown> {
    if let Some(found) = embedded(root, wanted)? {
        return Ok(found);
    }
    let found = |place: String, endpoint: &str| Found {
        place,
        endpoint: socket(endpoint),
        change: DROP_IN.into(),
    };
    let mut refused = None;
    let mut take = |place: &dyn Fn() -> String, endpoint: &str| {
        let it = found(place(), endpoint);
        if wanted(endpoint) {
            return Some(it);
        }
        refused.get_or_insert(it);
        None
    };
    let read = |path: &str| {
        files::text_if_any(&root.join(path)).map_err(|e| unreadable(&format!("/{path}"), &e))
    };
    let kubeadm = "var/lib/kubelet/kubeadm-flags.env";
    let running = process_flags(root)?;
    let (args, what) = match running {
        Some(args) => (Some(args), "the running kubelet"),
        None => (unit::command_line(root)?, "kubelet.service"),
    };
    if let Some(args) = &args {
        without_socket(args, what, false)?;
        // When a flag is repeated, the last one counts.
        for endpoint in flags(args, FLAG).into_iter().rev() {
            let from_kubeadm = read(kubeadm)?.is_some_and(|t| t.contains(&endpoint));
            let place = || {
                if from_kubeadm {
                    format!("/{kubeadm}, a flag")
                } else {
                    format!("a flag of {what}")
                }
            };
            if let Some(found) = take(&place, &endpoint) {
                return Ok(found);
            }
        }
        let mut given = Vec::new();
        if let Some(dir) = flags(args, "--config-dir").pop() {
            drop_ins(&below(root, &dir), &mut given)?;
        }
        given.sort();
        given.reverse();
        given.extend(flags(args, "--config").pop().map(|f| below(root, &f)));
        for path in &given {
            let shown = format!("/{}", path.strip_prefix(root).unwrap_or(path).display());
            let text = files::text(path).map_err(|e| unreadable(&shown, &e))?;
            if let Some(endpoint) = configured(&text).map_err(|e| unreadable(&shown, &e))?
                && let Some(found) = take(&|| format!("{shown}, which {what} was given"), &endpoint)
            {
                return Ok(found);
            }
        }
        without_socket(args, what, refused.is_none())?;
        if !given.is_empty() && refused.is_none() {
            let place = "the kubelet's default: its configuration sets none";
            return Ok(found(place.into(), DEFAULT));
        }
    } else {
        // Without a process and a unit: the files of the distributions.
        let words = unit::words(
            &read(kubeadm)?
                .unwrap_or_default()
                .replace("ARGS=", "ARGS= "),
        );
        let words: Vec<String> = words.iter().flat_map(|w| unit::words(w)).collect();
        without_socket(
            &words,
            &format!("/{kubeadm}"),
            flags(&words, FLAG).is_empty(),
        )?;
        for endpoint in flags(&words, FLAG).into_iter().rev() {
            if let Some(found) = take(&|| format!("/{kubeadm}, a flag"), &endpoint) {
                return Ok(found);
            }
        }
        for path in [
            "var/lib/kubelet/instance-config.yaml",
            "var/lib/kubelet/config.yaml",
            "etc/kubernetes/kubelet/config.json",
            "etc/kubernetes/kubelet/kubelet-config.json",
        ] {
            let shown = format!("/{path}");
            let Some(text) = read(path)? else {
                continue;
            };
            if let Some(endpoint) = configured(&text).map_err(|e| unreadable(&shown, &e))?
                && let Some(found) = take(&|| shown.clone(), &endpoint)
            {
                return Ok(found);
            }
        }
    }
    if let Some(refused) = refused {
        return Ok(refused);
    }
    if args.is_none() && read("var/lib/kubelet/config.yaml")?.is_none() {
        return Err(Unknown::NoKubelet);
    }
    Ok(found("the kubelet's default".into(), DEFAULT))
}

/// An error for a kubelet whose flags select its built-in Docker support. `by_default`: no endpoint is set, so the
/// flags of dockershim are sufficient evidence.
fn without_socket(args: &[String], place: &str, by_default: bool) -> Result<(), Unknown> {
    let docker = flags(args, "--container-runtime").pop().as_deref() == Some("docker");
    let old = || OF_DOCKERSHIM.iter().find(|f| !flags(args, f).is_empty());
    let flag = match old().filter(|_| by_default) {
        _ if docker => "--container-runtime=docker",
        Some(flag) => flag,
        None => return Ok(()),
    };
    Err(Unknown::Dockershim {
        flag: flag.to_owned(),
        place: place.to_owned(),
    })
}

pub(super) fn unreadable(path: &str, why: &dyn std::fmt::Display) -> Unknown {
    Unknown::Unreadable {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// Collects the `.conf` files below a folder, in the order of the kubelet (`cmd/kubelet/app/server.go`,
/// `mergeKubeletConfigurations`).
fn drop_ins(dir: &Path, all: &mut Vec<PathBuf>) -> Result<(), Unknown> {
    let unread = |path: &Path, e: &io::Error| unreadable(&path.display().to_string(), e);
    for path in files::entries(dir).map_err(|e| unread(dir, &e))? {
        if files::ask(&path, |p| Ok(p.is_dir())).map_err(|e| unread(&path, &e))? {
            drop_ins(&path, all)?;
        } else if path.extension().is_some_and(|e| e == "conf") {
            all.push(path);
        }
    }
    Ok(())
}

/// `containerRuntimeEndpoint` of a KubeletConfiguration, YAML or JSON.
fn configured(text: &str) -> Result<Option<String>, String> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Configuration {
        container_runtime_endpoint: Option<String>,
    }
    if text.trim().is_empty() {
        return Ok(None);
    }
    let read: Configuration = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
    Ok(read.container_runtime_endpoint.filter(|e| !e.is_empty()))
}

/// The systemd unit whose journal has the kubelet's log.
pub fn unit(root: &Path) -> &'static str {
    let there = |path: &str| files::exists(&root.join(path)).unwrap_or(false);
    let units = [
        ("var/lib/rancher/k3s/server", "k3s"),
        ("var/lib/rancher/k3s", "k3s-agent"),
        ("var/lib/rancher/rke2/server", "rke2-server"),
        ("var/lib/rancher/rke2", "rke2-agent"),
        (
            "var/snap/microk8s/current/args/kubelet",
            "snap.microk8s.daemon-kubelite",
        ),
        ("var/lib/k0s/kubelet", "k0sworker"),
        ("var/lib/microshift", "microshift"),
    ];
    let found = units.iter().find(|(path, _)| there(path));
    found.map_or("kubelet", |(_, unit)| unit)
}

/// The node name that this machine's kubelet was given (`--hostname-override`); `None` without the flag. The node's
/// name is then the host name in lower case: `pkg/util/node/node.go`, `GetHostname`.
pub fn node_name(root: &Path) -> Option<String> {
    let args = process_flags(root).ok()??;
    flags(&args, "--hostname-override").pop()
}

/// True on a machine where a kubelet has kept its state, and none runs. Then nothing tells the name that it was given.
pub fn is_stopped(root: &Path) -> bool {
    // pkg/kubelet/checkpointmanager and kubelet_getters.go: what a kubelet makes in its root directory.
    let kept = files::exists(&root.join("var/lib/kubelet/pods")).unwrap_or(false);
    kept && processes(root).is_empty() && unit(root) == "kubelet"
}

/// True while it is not known where a kubelet of this machine would write its log: none runs, and no unit starts one.
pub fn is_unknown(root: &Path) -> bool {
    let has_unit = || unit::command_line(root).is_ok_and(|args| args.is_some());
    unit(root) == "kubelet" && processes(root).is_empty() && !has_unit()
}

/// The configuration file of the running kubelet, as given in its flags.
#[cfg(target_os = "linux")]
pub fn configuration(root: &Path) -> Option<PathBuf> {
    let args = process_flags(root).ok()??;
    flags(&args, "--config").pop().map(PathBuf::from)
}

/// The file that the running kubelet writes its log to, as a path of its mount namespace; `None` when it writes to
/// the journal.
pub fn log_file(root: &Path) -> Option<PathBuf> {
    let fd = process(root)?.join("fd/2");
    let to = files::ask(&fd, |p| fs::read_link(p)).ok()?;
    // A pipe or a socket has no path, and /dev/null has no log. A file that does not answer counts as a log.
    match files::ask(&below(root, &to.display().to_string()), |p| Ok(p.is_file())) {
        Ok(true) | Err(_) => Some(to),
        Ok(false) => None,
    }
}

/// Facts about the kubelet's endpoint from other sources than this machine's files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    /// The runtime's socket in the arguments.
    pub(super) runtime: Option<&'a Path>,
    /// Where kflow's proxy listens.
    pub(super) proxy: Option<&'a Path>,
    /// The socket whose clients the eBPF tap would follow, if the tap works.
    pub(super) followed: Option<&'a Path>,
    /// True when this user may not find out whether a proxy runs.
    pub(super) hidden: bool,
    /// What came of asking the endpoint for its version; `None` where it was not asked.
    pub(super) asked: Option<&'a Asked>,
}

/// What came of a connection to the kubelet's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A runtime answers there.
    Answers,
    /// Nobody accepts connections there.
    Refused(String),
    /// Somebody accepts connections there, and no runtime answers.
    Silent(String),
    /// This user may not connect.
    Denied,
}

pub(super) const WHAT: &str = "kubelet endpoint";

/// The kubelet's endpoint, and in words where it is set. The running kubelet's `/configz` (`live`) takes precedence over files. The
/// error is the finished check.
pub(super) fn current(root: &Path, live: Option<&str>) -> Result<(Found, String), Check> {
    let live = live.filter(|l| !l.is_empty());
    let set = match find(root) {
        Ok(set) => Some(set),
        Err(Unknown::NoKubelet) => None,
        // `/configz` takes precedence over a file that cannot be read.
        Err(_) if live.is_some() => None,
        Err(e) => {
            let todo = match e {
                Unknown::Unreadable { .. } => super::AS_ROOT,
                _ => "name the runtime: kflow proxy --upstream /path/to/runtime.sock",
            };
            return Err(Check::new(WHAT, Health::Off, e.to_string()).todo(todo));
        }
    };
    Ok(match (live.map(socket), set) {
        (None, None) => {
            let check = Check::new(WHAT, Health::Off, "no kubelet on this machine");
            return Err(check);
        }
        (None, Some(set)) => {
            let text = format!("{} from {}", set.endpoint.display(), set.place);
            (set, text)
        }
        (Some(live), Some(set)) => {
            let text = if live == set.endpoint {
                format!(
                    "{} from {} (its /configz says the same)",
                    live.display(),
                    set.place
                )
            } else {
                format!(
                    "{} by its /configz, which counts; {} says {}: changed since it started?",
                    live.display(),
                    set.place,
                    set.endpoint.display()
                )
            };
            let found = Found {
                endpoint: live,
                ..set
            };
            (found, text)
        }
        (Some(live), None) => {
            let text = format!("{} by its /configz", live.display());
            let found = Found {
                place: "its /configz".into(),
                endpoint: live,
                change: "change containerRuntimeEndpoint on that node".into(),
            };
            (found, text)
        }
    })
}

/// True when the endpoint is a socket of kflow's proxy: of the one that answers (`proxy`), or of an installed one.
pub(super) fn is_proxys(endpoint: &Path, proxy: Option<&Path>) -> bool {
    is_own(endpoint) || proxy == Some(endpoint)
}

/// Checks the kubelet's endpoint.
pub(super) fn endpoint(root: &Path, (found, text): (Found, String), known: Known<'_>) -> Check {
    let check = |health, said: &str| Check::new(WHAT, health, format!("{text}: {said}"));
    let is_proxys = is_proxys(&found.endpoint, known.proxy);
    let status = || {
        let unit = super::unit_of_runtime(root, &found.endpoint.display().to_string());
        format!("systemctl status {unit}")
    };
    match known.asked {
        Some(Asked::Denied) => {
            let said = "whether anybody answers there, only root can ask";
            return check(Health::Warning, said).todo(super::AS_ROOT);
        }
        Some(Asked::Refused(why)) if is_proxys && known.proxy.is_none() => {
            let said = format!(
                "the socket of kflow's proxy, and nobody accepts connections there ({why}), so that the kubelet reaches no runtime"
            );
            return check(Health::Off, &said).todo(restored(root, &found));
        }
        Some(Asked::Refused(why) | Asked::Silent(why)) if is_proxys => {
            let said = format!("kflow's proxy, and the runtime behind it does not answer ({why})");
            return check(Health::Off, &said).todo(behind(root));
        }
        Some(Asked::Refused(why)) => {
            let said = format!("nobody accepts connections there ({why})");
            return check(Health::Off, &said).todo(status());
        }
        Some(Asked::Silent(why)) => {
            let said = format!("no runtime answers there ({why})");
            return check(Health::Off, &said).todo(status());
        }
        Some(Asked::Answers) | None => {}
    }
    if is_proxys {
        return check(Health::Works, "kflow's proxy");
    }
    if known.hidden {
        let said = "whether that is a proxy of kflow's, only root can ask";
        return check(Health::Warning, said).todo(super::AS_ROOT);
    }
    if known.followed == Some(found.endpoint.as_path()) {
        return check(Health::Works, "the eBPF tap follows it");
    }
    // The runtime in the arguments counts; else the kubelet's own, never another one that exists.
    let upstream = known.runtime.unwrap_or(&found.endpoint);
    check(Health::Warning, "not tapped").todo(format!(
        "kflow proxy --listen /run/kflow/cri.sock --upstream {}\n{}",
        upstream.display(),
        found.change
    ))
}

/// How to bring a proxy back on whose socket nobody listens, or to take it out.
fn restored(root: &Path, found: &Found) -> String {
    let start = if unit::exists(root, "kflow-proxy.service") {
        "systemctl restart kflow-proxy; journalctl -u kflow-proxy -n 20".to_owned()
    } else {
        let upstream = upstream(root).map_or("RUNTIME.sock".into(), |f| f.endpoint);
        format!(
            "kflow proxy --listen {} --upstream {}",
            found.endpoint.display(),
            upstream.display()
        )
    };
    let out = if files::exists(&root.join(UNINSTALL)).unwrap_or(false) {
        format!("or take it out: /{UNINSTALL}")
    } else {
        format!(
            "or take it out: remove {} from {}, and systemctl restart {}",
            found.endpoint.display(),
            found.place,
            unit(root)
        )
    };
    format!("{start}\n{out}")
}

/// How to see what the runtime behind the proxy does.
fn behind(root: &Path) -> String {
    let runtime =
        upstream(root).map_or_else(|e| e.to_string(), |f| f.endpoint.display().to_string());
    format!(
        "systemctl status {}",
        super::unit_of_runtime(root, &runtime)
    )
}

/// An absolute path on the node, below `root`.
pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn socket(endpoint: &str) -> PathBuf {
    PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint))
}

/// The arguments of the running kubelet; `None` when none runs, an error when several do.
fn process_flags(root: &Path) -> Result<Option<Vec<String>>, Unknown> {
    let all = processes(root);
    let [one] = all.as_slice() else {
        return match all.len() {
            0 => Ok(None),
            n => Err(Unknown::Several(n)),
        };
    };
    let path = one.join("cmdline");
    let line = files::ask(&path, |p| fs::read(p))
        .map_err(|e| unreadable(&path.display().to_string(), &e))?;
    let words = line.split(|b| *b == 0).filter(|w| !w.is_empty());
    Ok(Some(
        words
            .map(|w| String::from_utf8_lossy(w).into_owned())
            .collect(),
    ))
}

/// The `/proc` folder of a running kubelet.
pub fn process(root: &Path) -> Option<PathBuf> {
    processes(root).into_iter().next()
}

/// The `/proc` folders of running kubelets, without those in containers (kind, nested nodes), which have other files
/// than this machine.
fn processes(root: &Path) -> Vec<PathBuf> {
    let its = root.to_owned();
    files::ask(&root.join("proc"), move |proc| Ok(kubelets(&its, proc))).unwrap_or_default()
}

fn kubelets(root: &Path, proc: &Path) -> Vec<PathBuf> {
    let namespace = |p: &Path| fs::read_link(p.join("ns/mnt")).ok();
    let own = namespace(&root.join("proc/1"));
    let Ok(entries) = fs::read_dir(proc) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| fs::read_to_string(p.join("comm")).is_ok_and(|c| c.trim_end() == "kubelet"))
        .filter(|p| {
            let status = fs::read_to_string(p.join("status")).unwrap_or_default();
            let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name));
            // A zombie process is still listed.
            let runs = field("State:").is_none_or(|s| !s.trim_start().starts_with('Z'));
            runs && match &own {
                Some(own) => namespace(p).is_none_or(|n| n == *own),
                // When process 1's namespace is not readable: a process in a child pid namespace has more than one
                // NSpid (proc_pid_status(5)).
                None => field("NSpid:").is_none_or(|ids| ids.split_whitespace().count() < 2),
            }
        })
        .collect()
}

/// Values of `--name=value` or `--name value`, in order, without empty ones.
fn flags(args: &[String], name: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix(name) {
            Some("") => all.extend(args.next().cloned()),
            Some(rest) => all.extend(rest.strip_prefix('=').map(str::to_owned)),
            None => {}
        }
    }
    all.retain(|v| !v.is_empty());
    all
}

#[cfg(test)]
mod tests;
