//! Finds out what a node has from the names and contents of its files. Pure: [`look`](crate::look) reads the files.

mod spans;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use kflow_model::log::Component;
use kflow_sources::klog::pods::component_of;

pub use spans::{CRIO_VARIABLES, Crio, KUBELET_SPANS};

/// How Kubernetes was installed on a node, as far as this decides where files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// A separate kubelet, with static pods beside it or without: kubeadm, and installations with the same layout.
    #[default]
    Kubeadm,
    /// A kubeadm cluster whose nodes are containers (<https://kind.sigs.k8s.io>).
    Kind,
    /// One process that is kubelet and control plane.
    K3s,
    /// k3s with the control plane in static pods.
    Rke2,
    /// One process that is kubelet and control plane.
    MicroShift,
    K0s,
    MicroK8s,
    /// It has no shell and no journal: logs are read through its own API.
    Talos,
}

impl Distribution {
    /// A file or folder that only this distribution has, from `/`. A distribution that may also have another one's
    /// comes before that one.
    ///
    /// k3s and RKE2: <https://docs.k3s.io/cli/server> (`--data-dir`), <https://docs.rke2.io/reference/server_config>.
    /// MicroShift: `pkg/config/files.go` (`DefaultConfigFile`). kind: `images/base/files/kind/bin` and
    /// `pkg/cluster/internal/providers/common` (`/kind/version`). Talos and its kubelet: `/etc/os-release` (`ID=talos`).
    pub const MARKS: [(Self, &'static str); 6] = [
        (Self::Rke2, "var/lib/rancher/rke2"),
        (Self::K3s, "var/lib/rancher/k3s"),
        (Self::MicroShift, "var/lib/microshift"),
        (Self::K0s, "var/lib/k0s/kubelet"),
        (Self::MicroK8s, "var/snap/microk8s/current/args/kubelet"),
        (Self::Kind, "kind/version"),
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubeadm => "kubeadm, or laid out like it",
            Self::Kind => "kind",
            Self::K3s => "k3s",
            Self::Rke2 => "RKE2",
            Self::MicroShift => "MicroShift",
            Self::K0s => "k0s",
            Self::MicroK8s => "MicroK8s",
            Self::Talos => "Talos",
        }
    }

    /// Returns the folder of static pods' manifests, from `/`.
    ///
    /// kubeadm: `cmd/kubeadm/app/constants/constants.go` (`ManifestsSubDirName`). RKE2: `pkg/podexecutor/staticpod.go`
    /// (`agent/pod-manifests` below its data folder).
    pub const fn manifests(self) -> &'static str {
        match self {
            Self::Rke2 => "var/lib/rancher/rke2/agent/pod-manifests",
            _ => "etc/kubernetes/manifests",
        }
    }

    /// Returns the kubelet's log, from `/`, where it is a file and not the journal of its unit.
    ///
    /// RKE2: <https://docs.rke2.io/reference/logging>.
    pub const fn kubelet_log(self) -> Option<&'static str> {
        match self {
            Self::Rke2 => Some("var/lib/rancher/rke2/agent/logs/kubelet.log"),
            _ => None,
        }
    }

    /// Returns the log of the container runtime that the distribution comes with, from `/`.
    ///
    /// k3s: `pkg/agent/containerd/containerd.go` (`cfg.Containerd.Log`). RKE2: <https://docs.rke2.io/reference/logging>.
    pub const fn containerd_log(self) -> Option<&'static str> {
        match self {
            Self::Rke2 => Some("var/lib/rancher/rke2/agent/containerd/containerd.log"),
            Self::K3s => Some("var/lib/rancher/k3s/agent/containerd/containerd.log"),
            _ => None,
        }
    }

    /// Returns the audit log that the distribution has without a flag in a static pod's manifest, from `/`.
    ///
    /// MicroShift: `pkg/controllers/kube-apiserver.go` (`audit-log-path`). k3s writes none unless it is told to;
    /// its hardening guide names this file (<https://docs.k3s.io/security/hardening-guide>). Talos, whose static pods
    /// are not files: `internal/app/machined/pkg/controllers/k8s/control_plane_static_pod.go` (`audit-log-path`).
    pub const fn audit_log(self) -> Option<&'static str> {
        match self {
            Self::MicroShift => Some("var/log/kube-apiserver/audit.log"),
            Self::K3s => Some("var/lib/rancher/k3s/server/logs/audit.log"),
            Self::Talos => Some("var/log/audit/kube/kube-apiserver.log"),
            _ => None,
        }
    }

    /// True where apiserver, scheduler and controller-manager are threads of the kubelet's process and write into its log.
    pub const fn is_one_process(self) -> bool {
        matches!(self, Self::K3s | Self::MicroShift | Self::MicroK8s)
    }
}

/// A component of the control plane that runs as a process of the node itself, and not in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub component: Component,
    pub arguments: Vec<String>,
    /// The file that its log is written to, from `/`; `None` where that is no file.
    pub log: Option<PathBuf>,
}

impl Process {
    /// Returns the last value of a flag (`--name=value` or `--name value`).
    pub fn flag(&self, name: &str) -> Option<&str> {
        let mut all = self.arguments.iter().enumerate().rev();
        all.find_map(|(at, a)| match a.strip_prefix(name)? {
            "" => self.arguments.get(at + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        })
    }
}

/// What was read on a node.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub distribution: Distribution,
    /// Names in `/var/log/pods`; `None` when the folder cannot be read.
    pub pod_logs: Option<Vec<String>>,
    /// Components of the control plane that run as processes, in the order of [`Component::CONTROL`].
    pub processes: Vec<Process>,
    /// Manifests of static pods: file name and text.
    pub manifests: Vec<(String, String)>,
    /// Those of the files named by [`Distribution`] that exist, absolute.
    pub files: Vec<PathBuf>,
    /// The kubelet's configuration file, and its text.
    pub kubelet: Option<(PathBuf, String)>,
    /// The file that [`apiserver_tracing`] returns, and its text.
    pub apiserver: Option<(PathBuf, String)>,
    /// Variables of a running containerd's environment that configure its spans: `NAME=VALUE`. `None` when no such
    /// process can be read.
    pub containerd: Option<Vec<String>>,
    /// Configuration of a running CRI-O. `None` when no such process can be read.
    pub crio: Option<Crio>,
}

/// Something that was looked for on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub what: String,
    pub there: bool,
    pub found: String,
    /// Configuration that would add what is missing; empty when nothing is missing, or when no
    /// configuration would add it.
    pub todo: String,
}

impl Finding {
    pub fn there(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            there: true,
            found: found.into(),
            todo: String::new(),
        }
    }
    pub fn missing(
        what: impl Into<String>,
        found: impl Into<String>,
        todo: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            there: false,
            found: found.into(),
            todo: todo.into(),
        }
    }
}

/// What an agent follows on a node, and what to report about the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Components of the control plane whose logs are below `/var/log/pods`.
    pub control: Vec<Component>,
    pub audit_logs: Vec<PathBuf>,
    /// Other logs, each with the component that writes it.
    pub logs: Vec<(Component, PathBuf)>,
    pub kubelet_log: Option<PathBuf>,
    pub findings: Vec<Finding>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    spec: Spec,
}
#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    containers: Vec<Container>,
    volumes: Vec<Volume>,
}
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    command: Vec<String>,
    args: Vec<String>,
    volume_mounts: Vec<Mount>,
}
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Mount {
    name: String,
    mount_path: PathBuf,
}
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    name: String,
    host_path: Option<HostPath>,
}
#[derive(Default, Deserialize)]
#[serde(default)]
struct HostPath {
    path: PathBuf,
}

/// What the flags of the apiserver in a static pod say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Apiserver {
    audit_log: Option<String>,
    /// Path of the audit log on the node; `None` when it lies in no folder of the node.
    on_node: Option<PathBuf>,
    /// Path of the tracing configuration in the container.
    tracing: Option<String>,
    /// Path of the tracing configuration on the node; `None` when it lies in no folder of the node.
    tracing_on_node: Option<PathBuf>,
}

fn apiserver(text: &str) -> Option<Apiserver> {
    let pod: Pod = serde_saphyr::from_str(text).ok()?;
    let c = pod
        .spec
        .containers
        .iter()
        .find(|c| c.name == "kube-apiserver")?;
    let flag = |name: &str| {
        let all = c.command.iter().chain(&c.args);
        all.filter_map(|a| a.strip_prefix(name)?.strip_prefix('='))
            .next_back()
    };
    let audit_log = flag("--audit-log-path").map(str::to_owned);
    let tracing = flag("--tracing-config-file").map(str::to_owned);
    // A path belongs to the innermost mount that contains it.
    let on_node = |path: &String| {
        let mounts = c.volume_mounts.iter();
        let (mount, rest) = mounts
            .filter_map(|m| Some((m, Path::new(path).strip_prefix(&m.mount_path).ok()?)))
            .max_by_key(|(m, _)| m.mount_path.components().count())?;
        let volume = pod.spec.volumes.iter().find(|v| v.name == mount.name)?;
        let host = &volume.host_path.as_ref()?.path;
        // When the file itself is mounted, nothing of the path remains.
        Some(if rest.as_os_str().is_empty() {
            host.clone()
        } else {
            host.join(rest)
        })
    };
    Some(Apiserver {
        on_node: audit_log.as_ref().and_then(on_node),
        audit_log,
        tracing_on_node: tracing.as_ref().and_then(on_node),
        tracing,
    })
}

/// Returns the path on the node of the file that configures the tracing of an apiserver in a static pod.
pub fn apiserver_tracing(manifests: &[(String, String)]) -> Option<PathBuf> {
    let server = manifests.iter().find_map(|(_, text)| apiserver(text))?;
    server.tracing_on_node
}

/// Returns what an agent follows on a node, what is missing there, and what would add it.
pub fn found(seen: &Seen) -> Found {
    let mut found = Found::default();
    let it = seen.distribution;
    let given = |path: Option<&'static str>| {
        let path = Path::new("/").join(path?);
        seen.files.contains(&path).then_some(path)
    };
    found
        .findings
        .push(Finding::there("distribution", it.name()));
    found.kubelet_log = given(it.kubelet_log());
    if let Some(path) = given(it.containerd_log()) {
        let log = path.display().to_string();
        found.findings.push(Finding::there("runtime log", log));
        found.logs.push((Component::Containerd, path));
    }
    control(seen, &mut found);
    audit(seen, given(it.audit_log()), &mut found);
    found.findings.extend(spans::found(seen));
    found
}

/// Adds the logs of the control plane. A node without any is a worker, and lacks nothing.
fn control(seen: &Seen, found: &mut Found) {
    let folders = seen.pod_logs.as_deref().unwrap_or_default();
    let there: Vec<Component> = folders.iter().filter_map(|f| component_of(f)).collect();
    if there.is_empty() && seen.processes.is_empty() {
        let is_one = seen.distribution.is_one_process();
        found.findings.push(match seen.pod_logs {
            None => Finding::missing(
                "control plane",
                "/var/log/pods cannot be read",
                "mount the node's /var/log, read-only",
            ),
            Some(_) if is_one => {
                Finding::there("control plane", "in the kubelet's process, and in its log")
            }
            Some(_) => Finding::there("control plane", "not on this node"),
        });
        return;
    }
    for component in Component::CONTROL {
        let what = format!("{} log", component.name());
        let container = component.program();
        let mut processes = seen.processes.iter();
        let finding = if there.contains(&component) {
            found.control.push(component);
            Finding::there(what, format!("/var/log/pods, container {container}"))
        } else if let Some(process) = processes.find(|p| p.component == component) {
            by_process(process, what, found)
        } else if there.is_empty() {
            Finding::missing(what, format!("no process {container} on this node"), "")
        } else {
            Finding::missing(what, format!("no {container} in /var/log/pods"), "")
        };
        found.findings.push(finding);
    }
}

/// Adds the log of a component that runs as a process.
fn by_process(process: &Process, what: String, found: &mut Found) -> Finding {
    let component = process.component;
    if let Some(path) = &process.log {
        found.logs.push((component, path.clone()));
        let said = format!("{}, of the process {}", path.display(), component.program());
        return Finding::there(what, said);
    }
    Finding::missing(
        what,
        format!(
            "{} runs as a process, and does not write its log to a file",
            component.program()
        ),
        format!(
            "where its log is a file: kflow tui --{}-log FILE, on the node",
            component.name()
        ),
    )
}

/// How to add an audit log to an apiserver in a static pod.
const AUDIT: &str = "in the apiserver's static pod, with a policy and mounts of both: --audit-policy-file=/etc/kubernetes/audit.yaml --audit-log-path=/var/log/kubernetes/audit.log";

fn audit(seen: &Seen, own: Option<PathBuf>, found: &mut Found) {
    const WHAT: &str = "audit log";
    let server = seen.manifests.iter().find_map(|(_, text)| apiserver(text));
    let mut processes = seen.processes.iter();
    let process = processes.find(|p| p.component == Component::Apiserver);
    // A process has its files where the node has them.
    let by_process = || {
        let log = process?.flag("--audit-log-path")?;
        Some((log.to_owned(), Some(PathBuf::from(log))))
    };
    let finding = match (
        server
            .and_then(|s| s.audit_log.map(|l| (l, s.on_node)))
            .or_else(by_process),
        own,
    ) {
        (Some((log, _)), _) if log == "-" => Finding::missing(
            WHAT,
            "the apiserver writes it to its standard output, among its log",
            AUDIT,
        ),
        (Some((_, Some(path))), _) | (None, Some(path)) => {
            let text = path.display().to_string();
            found.audit_logs.push(path);
            Finding::there(WHAT, text)
        }
        (Some((log, None)), _) => Finding::missing(
            WHAT,
            format!("{log} lies in the apiserver's container, in no folder of the node"),
            "mount a folder of the node there, by a hostPath",
        ),
        (None, None) if process.is_some() => Finding::missing(
            WHAT,
            "none is written",
            "for the process kube-apiserver, with a policy: --audit-policy-file=/etc/kubernetes/audit.yaml --audit-log-path=/var/log/kubernetes/audit.log",
        ),
        (None, None) if found.control.is_empty() && !seen.distribution.is_one_process() => return,
        (None, None) => {
            let todo = match seen.distribution {
                Distribution::K3s => {
                    "k3s server --kube-apiserver-arg=audit-policy-file=/var/lib/rancher/k3s/server/audit.yaml --kube-apiserver-arg=audit-log-path=/var/lib/rancher/k3s/server/logs/audit.log"
                }
                Distribution::Rke2 => "in /etc/rancher/rke2/config.yaml: audit-policy-file: FILE",
                _ => AUDIT,
            };
            Finding::missing(WHAT, "none is written", todo)
        }
    };
    found.findings.push(finding);
}

#[cfg(test)]
mod tests;
