//! Kinds of captures, the decoder of each, and the file names that identify it.

use std::path::{Path, PathBuf};

use super::Part;

use kflow_model::Source;
use kflow_model::log::Component;
use kflow_sources::{LineDecoder, TimeHint, audit, klog, kube, otlp, runtime};

/// The kind of a capture. Ordered as inputs are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Lists and watches of API objects.
    Watch,
    /// The apiserver's audit log.
    Audit,
    /// OpenTelemetry spans.
    Otlp,
    /// containerd's log.
    Containerd,
    /// CRI-O's log.
    Crio,
    /// The kubelet's log.
    Kubelet,
    /// kube-apiserver's log.
    Apiserver,
    /// kube-scheduler's log.
    Scheduler,
    /// kube-controller-manager's log.
    ControllerManager,
}

impl Kind {
    /// All kinds, in order of merging.
    pub const ALL: [Self; 9] = [
        Self::Watch,
        Self::Audit,
        Self::Otlp,
        Self::Containerd,
        Self::Crio,
        Self::Kubelet,
        Self::Apiserver,
        Self::Scheduler,
        Self::ControllerManager,
    ];

    /// Returns the decoder of this kind's lines.
    pub fn decoder(self, hint: TimeHint) -> Box<dyn LineDecoder> {
        match self {
            Self::Watch => Box::new(kube::decode::KubeLines::new(hint)),
            Self::Audit => Box::new(audit::decode::AuditLines::new()),
            Self::Kubelet => Box::new(klog::KlogDecoder::new(Component::Kubelet, hint)),
            Self::Apiserver => Box::new(klog::KlogDecoder::new(Component::Apiserver, hint)),
            Self::Scheduler => Box::new(klog::KlogDecoder::new(Component::Scheduler, hint)),
            Self::ControllerManager => {
                Box::new(klog::KlogDecoder::new(Component::ControllerManager, hint))
            }
            Self::Containerd => Box::new(runtime::RuntimeDecoder::new(Component::Containerd)),
            Self::Crio => Box::new(runtime::RuntimeDecoder::new(Component::Crio)),
            Self::Otlp => Box::new(otlp::OtlpDecoder::default()),
        }
    }

    /// Name of the command-line flag, without dashes.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Audit => "audit",
            Self::Otlp => "otlp",
            Self::Containerd => "containerd-log",
            Self::Crio => "crio-log",
            Self::Kubelet => "kubelet-log",
            Self::Apiserver => "apiserver-log",
            Self::Scheduler => "scheduler-log",
            Self::ControllerManager => "controller-manager-log",
        }
    }

    /// The component that writes this log; `None` for what is no log.
    pub(super) const fn component(self) -> Option<Component> {
        match self {
            Self::Watch | Self::Audit | Self::Otlp => None,
            Self::Containerd => Some(Component::Containerd),
            Self::Crio => Some(Component::Crio),
            Self::Kubelet => Some(Component::Kubelet),
            Self::Apiserver => Some(Component::Apiserver),
            Self::Scheduler => Some(Component::Scheduler),
            Self::ControllerManager => Some(Component::ControllerManager),
        }
    }

    /// The source that the observations name.
    pub const fn source(self) -> Source {
        match self {
            Self::Watch => Source::Kube,
            Self::Audit => Source::Audit,
            Self::Otlp => Source::Otlp,
            Self::Containerd | Self::Crio => Source::Runtime,
            Self::Kubelet => Source::Kubelet,
            Self::Apiserver | Self::Scheduler | Self::ControllerManager => Source::Control,
        }
    }

    /// What an input of this kind is, as users are told.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Watch => "a list or watch of API objects",
            Self::Audit => "an audit log",
            Self::Otlp => "OpenTelemetry spans",
            Self::Containerd => "a log of containerd",
            Self::Crio => "a log of CRI-O",
            Self::Kubelet => "a log of the kubelet",
            Self::Apiserver => "a log of kube-apiserver",
            Self::Scheduler => "a log of kube-scheduler",
            Self::ControllerManager => "a log of kube-controller-manager",
        }
    }

    /// True for klog. Its lines have no year, and several files are one stream in pieces: what the decoder knows at
    /// the end of one (the year, an incomplete record) it needs in the next.
    pub(super) const fn klog(self) -> bool {
        matches!(
            self,
            Self::Kubelet | Self::Apiserver | Self::Scheduler | Self::ControllerManager
        )
    }

    /// The round in which this kind is decoded. Lines of a later round may lack the year, which
    /// the earlier rounds give.
    pub(super) const fn round(self) -> u8 {
        match self {
            Self::Kubelet => 1,
            Self::Apiserver | Self::Scheduler | Self::ControllerManager => 2,
            _ => 0,
        }
    }

    /// The kind that the name of a file promises. Only its content tells whether it keeps that.
    pub fn of_file(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = Self::plain_name(&name);
        // Rotated logs: kubelet.log.1, kubelet-20261121.log
        let stem = name
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
            .to_owned();
        let (stem, ext) = match stem.rsplit_once('.') {
            Some((s, e)) => (s.to_owned(), e.to_owned()),
            None => (stem, String::new()),
        };
        let is = |exts: &[&str]| exts.contains(&ext.as_str());
        let starts = |p: &str| {
            stem.strip_prefix(p)
                .is_some_and(|r| r.is_empty() || r.starts_with(['-', '.', '_']))
        };
        let words = || stem.split(['-', '_', '.']);
        let log = is(&["log", "txt", "json", "jsonl", "journal", ""]);
        let json = is(&["json", "jsonl"]);
        Some(if words().any(|w| w == "audit") && log {
            Self::Audit
        } else if (starts("kubelet") || starts("journal-kubelet")) && log {
            Self::Kubelet
        } else if (starts("apiserver") || starts("kube-apiserver")) && log {
            Self::Apiserver
        } else if (starts("scheduler") || starts("kube-scheduler")) && log {
            Self::Scheduler
        } else if (starts("controller-manager") || starts("kube-controller-manager")) && log {
            Self::ControllerManager
        } else if (starts("containerd") || stem == "cri") && log {
            Self::Containerd
        } else if (starts("crio") || starts("cri-o")) && log {
            Self::Crio
        } else if (starts("otlp") || starts("traces")) && json {
            Self::Otlp
        } else if (WATCHED.iter().any(|w| starts(w)) || words().next_back().is_some_and(watched))
            && (json || is(&["yaml", "yml"]))
        {
            Self::Watch
        } else if (starts("events") || starts("pods") || words().any(|w| w == "describe"))
            && is(&["txt", "log", ""])
        {
            // What kubectl prints.
            Self::Watch
        } else if starts("cluster-info") && is(&[""]) {
            // `kubectl cluster-info dump`, in a file of the command's name.
            Self::Watch
        } else {
            return None;
        })
    }

    /// The kind that the path of a file in a bundle promises: by its name, or by the folders that it is in.
    ///
    /// Such as `events/default.json` of Troubleshoot's `cluster-resources`, `nodes/a.yaml` of OpenShift's must-gather,
    /// `kube-system/kube-scheduler-a/logs.txt` of `kubectl cluster-info dump`, `…/kube-scheduler/0.log` of `/var/log/pods`.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.contains("-errors.") {
            return None;
        }
        let folder = folders.rsplit('/').next().unwrap_or_default();
        let name = Self::plain_name(name);
        if name.contains("_get_-o_json_") {
            // sos names the output of a command by the command.
            let last = name.rsplit('_').next();
            return last.is_some_and(watched).then_some(Self::Watch);
        }
        Self::of_file(name).or_else(|| match name.rsplit_once('.').unwrap_or((name, "")) {
            (_, "json" | "yaml") => watched(folder).then_some(Self::Watch),
            ("logs", "txt") => Self::of_file(&format!("{folder}.log")).filter(|k| k.klog()),
            // A folder of the container's name.
            _ => folders.rsplit('/').find_map(|folder| match folder {
                "kube-apiserver" => Some(Self::Apiserver),
                "kube-scheduler" => Some(Self::Scheduler),
                "kube-controller-manager" => Some(Self::ControllerManager),
                _ => None,
            }),
        })
    }

    /// The kind of log that a program writes into the journal, by its `SYSLOG_IDENTIFIER`.
    ///
    /// On some distributions one process runs the kubelet and other components: k3s, RKE2, MicroShift, MicroK8s
    /// (`kubelite`), k0s. On OpenShift the kubelet is started by `kubenswrapper`, earlier by `hyperkube`.
    pub(super) fn of_writer(ident: &str) -> Option<Self> {
        // A snap's service: `microk8s.daemon-kubelite`, `kubelet-eks.daemon`.
        let last = (ident.rsplit(['-', '.'])).find(|w| !matches!(*w, "daemon" | "eks"));
        // In a name of docker's (`k8s_kube-apiserver_…`) too; not another program of it (`kube-apiserver-render`).
        let has = |name: &str| {
            let mut ends = ident.match_indices(name).map(|(at, _)| at + name.len());
            ends.any(|end| {
                let behind = ident.get(end..).unwrap_or_default();
                !behind.starts_with('-') || matches!(behind, "-daemon" | "-eks")
            })
        };
        match last? {
            _ if has("kube-apiserver") => Some(Self::Apiserver),
            _ if has("kube-scheduler") => Some(Self::Scheduler),
            _ if has("kube-controller-manager") => Some(Self::ControllerManager),
            "kubelet" | "kubelite" | "kubenswrapper" | "hyperkube" | "microshift" | "k3s"
            | "rke2" | "k0s" => Some(Self::Kubelet),
            "containerd" => Some(Self::Containerd),
            "crio" => Some(Self::Crio),
            _ => None,
        }
    }

    /// True for the captures of a node itself: a session has those of one node only.
    pub(super) const fn of_node(self) -> bool {
        matches!(self, Self::Containerd | Self::Crio | Self::Kubelet)
    }

    /// Strips the suffix of a compression from a file name.
    pub(super) fn plain_name(name: &str) -> &str {
        [".zst", ".gz", ".xz"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name)
    }
}

/// True for the name of a resource whose objects are read.
pub(super) fn watched(word: &str) -> bool {
    WATCHED.contains(&word)
}

/// Names of files that hold lists or watches of API objects.
const WATCHED: [&str; 20] = [
    "watch",
    "pods",
    "systempods",
    "events",
    "nodes",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "leases",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pvc",
    "pvcs",
    "pv",
    "pvs",
    "resourcequotas",
    "resource-quota",
    "objects",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub kind: Kind,
    /// Where it is; `-` is standard input.
    pub path: PathBuf,
    /// Name for messages and for the session's header: the file's name, or its path below the folder or archive that
    /// was given.
    pub name: String,
    /// Its content, where that was unpacked.
    pub part: Option<Part>,
    /// The lines that count, where there are others.
    pub only: Option<Only>,
    /// The bundle that it is of, counted from 1; 0 for all files that were given by themselves.
    pub bundle: usize,
    /// The namespace of which it lists every pod, as the tool that wrote it asks for all of them.
    pub lists_all_of: Option<String>,
}

/// Lines of one writer, in a journal that is printed as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    /// The host, where the journals of several were merged.
    pub host: Option<String>,
    /// True if other programs than the one of the input's kind wrote into it.
    pub of_all: bool,
}

impl Input {
    /// An input that was given by itself, not found in a folder.
    pub fn new(kind: Kind, path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        Self {
            kind,
            path: path.to_path_buf(),
            name: name.to_string_lossy().into_owned(),
            part: None,
            only: None,
            bundle: 0,
            lists_all_of: None,
        }
    }

    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        for (name, kind) in [
            ("kubelet.log", Some(Kind::Kubelet)),
            ("kubelet.json.log", Some(Kind::Kubelet)),
            ("kubelet.log.1", Some(Kind::Kubelet)),
            ("kubelet.log.2.gz", Some(Kind::Kubelet)),
            ("kubelet.log.zst", Some(Kind::Kubelet)),
            ("objects.json", Some(Kind::Watch)),
            ("kubelet-20261121.log", Some(Kind::Kubelet)),
            ("kubelet.txt", Some(Kind::Kubelet)),
            ("journal-kubelet.log", Some(Kind::Kubelet)),
            ("watch.jsonl", Some(Kind::Watch)),
            ("pods.json", Some(Kind::Watch)),
            ("events.json", Some(Kind::Watch)),
            ("nodes.json", Some(Kind::Watch)),
            ("events.txt", Some(Kind::Watch)),
            ("describe.txt", Some(Kind::Watch)),
            ("pod-web-0-describe.txt", Some(Kind::Watch)),
            ("describe_pods.log", Some(Kind::Watch)),
            ("pods.txt", Some(Kind::Watch)),
            ("kubelet", Some(Kind::Kubelet)),
            ("audit", Some(Kind::Audit)),
            ("described.txt", None),
            ("audit.jsonl", Some(Kind::Audit)),
            ("audit.log", Some(Kind::Audit)),
            ("audit-2026-11-21T00.log", Some(Kind::Audit)),
            ("otlp.jsonl", Some(Kind::Otlp)),
            ("apiserver.log", Some(Kind::Apiserver)),
            ("kube-apiserver.log", Some(Kind::Apiserver)),
            ("scheduler.log", Some(Kind::Scheduler)),
            ("controller-manager.log", Some(Kind::ControllerManager)),
            ("containerd.log", Some(Kind::Containerd)),
            ("crio.log", Some(Kind::Crio)),
            ("crio.log.zst", Some(Kind::Crio)),
            ("cri-o-20261121.log", Some(Kind::Crio)),
            ("session.json", None),
            ("README.md", None),
            ("podsandbox.json", None),
            ("fs.jsonl", None),
            ("", None),
        ] {
            assert_eq!(Kind::of_file(name), kind, "{name}");
        }
    }

    #[test]
    fn files_of_a_bundle_are_known_by_their_folders_too() {
        for (path, kind) in [
            ("cluster-resources/pods/kube-system.json", Some(Kind::Watch)),
            ("events/default.json", Some(Kind::Watch)),
            ("shop/pods.json", Some(Kind::Watch)),
            ("cluster-resources/pods-errors.json", None),
            ("configmaps/default.json", None),
            ("nodes/node1.yaml", Some(Kind::Watch)),
            // Their content tells.
            ("cluster-resources/pods/default/db-pod.json", None),
            ("shop/pods/web-0/web-0.yaml", None),
            ("core/events.yaml", Some(Kind::Watch)),
            ("web-0/web-0.yaml", None),
            ("pods/readme.txt", None),
            ("kube-apiserver-a/logs.txt", Some(Kind::Apiserver)),
            ("kube-scheduler-a/logs.txt", Some(Kind::Scheduler)),
            ("events-exporter/logs.txt", None),
            ("web-0/logs.txt", None),
            (
                "pods/kube-system_kube-scheduler-a_1/kube-scheduler/0.log",
                Some(Kind::Scheduler),
            ),
            (
                "pods/a/kube-scheduler-cert-syncer/kube-scheduler-cert-syncer/logs/current.log",
                None,
            ),
            (
                "a/kubectl_--kubeconfig_.etc.kubernetes.admin.conf_get_-o_json_pods",
                Some(Kind::Watch),
            ),
            (
                "a/kubectl_get_-o_json_--namespace_shop_pods",
                Some(Kind::Watch),
            ),
            (
                "audit_logs/kube-apiserver/master-0-audit.log.gz",
                Some(Kind::Audit),
            ),
            ("node/kube-apiserver-audit.log", Some(Kind::Audit)),
            ("containerd/containerd-log.txt", Some(Kind::Containerd)),
            ("10.0.0.4/service-logs/cri.log", Some(Kind::Containerd)),
            ("k8s/cluster-info-dump", Some(Kind::Watch)),
        ] {
            assert_eq!(Kind::of_path(path), kind, "{path}");
        }
    }

    #[test]
    fn logs_are_known_by_the_name_of_their_writer() {
        for (ident, kind) in [
            ("kubelet", Some(Kind::Kubelet)),
            ("kubenswrapper", Some(Kind::Kubelet)),
            ("microk8s.daemon-kubelite", Some(Kind::Kubelet)),
            ("kubelet-eks.daemon", Some(Kind::Kubelet)),
            ("k8s.kubelet", Some(Kind::Kubelet)),
            ("k3s", Some(Kind::Kubelet)),
            ("containerd", Some(Kind::Containerd)),
            ("microk8s.daemon-containerd", Some(Kind::Containerd)),
            ("containerd-shim-runc-v2", None),
            ("crio", Some(Kind::Crio)),
            ("cri-o", None),
            ("kube-scheduler.daemon", Some(Kind::Scheduler)),
            (
                "k8s_kube-apiserver_kube-apiserver-node1_kube-system_7_0",
                Some(Kind::Apiserver),
            ),
            ("kube-apiserver-render", None),
            ("kernel", None),
            ("", None),
        ] {
            assert_eq!(Kind::of_writer(ident), kind, "{ident}");
        }
    }
}
