//! Reads the files that [`find`](crate::find) judges. A file system that does not answer within 5 s is left out, and
//! [`patient::late`] names it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kflow_model::log::Component;
use kflow_model::patient;

use crate::find::{
    CRIO_VARIABLES, Crio, Distribution, Found, Process, Seen, apiserver_tracing, found,
};

/// Folder in which the kubelet keeps the logs of pods, from `/` (the default of `podLogsDir` in its configuration since
/// 1.32; before, it could not be set).
pub const POD_LOGS: &str = "var/log/pods";

/// The kubelet's configuration file, unless the kubelet was given another one (`kubeadm`, `kind`).
const CONFIGURATION: &str = "/var/lib/kubelet/config.yaml";

/// Size of the largest manifest or configuration that is read, bytes.
const MOST: u64 = 1 << 20;

fn text(path: &Path) -> Option<String> {
    ask(path, |p| {
        if fs::metadata(p)?.len() > MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        fs::read_to_string(p)
    })
}

fn ask<T: Send + 'static>(
    path: &Path,
    question: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Option<T> {
    let its = path.to_owned();
    patient::ask(path, move || question(&its)).ok()?.ok()
}

fn names(path: &Path) -> Option<Vec<String>> {
    ask(path, |p| {
        let all = fs::read_dir(p)?.flatten();
        let mut all: Vec<String> = all
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        all.sort_unstable();
        Ok(all)
    })
}

/// Returns arguments and environment of a running program: of the first process of that name that can be read. Only
/// variables for which `is_asked` is true are kept, because others may hold secrets.
fn process(
    root: &Path,
    program: &str,
    is_asked: impl Fn(&str) -> bool + Send + 'static,
) -> Option<(Vec<String>, Vec<String>)> {
    let name = format!("{program}\n");
    ask(&root.join("proc"), move |proc| {
        let strings = |bytes: &[u8]| -> Vec<String> {
            let text = String::from_utf8_lossy(bytes);
            text.split_terminator('\0').map(str::to_owned).collect()
        };
        for process in fs::read_dir(proc)?.flatten() {
            let of = |file: &str| fs::read(process.path().join(file));
            if of("comm").is_ok_and(|comm| comm == name.as_bytes())
                && let (Ok(arguments), Ok(environment)) = (of("cmdline"), of("environ"))
            {
                let mut environment = strings(&environment);
                environment.retain(|v| v.split_once('=').is_some_and(|(name, _)| is_asked(name)));
                return Ok((strings(&arguments), environment));
            }
        }
        Err(io::ErrorKind::NotFound.into())
    })
}

/// Returns the components of the control plane that run as processes of the node itself. Those in containers have another mount
/// namespace, and other files.
pub fn control_processes(root: &Path) -> Vec<Process> {
    let its = root.to_owned();
    let found = ask(&root.join("proc"), move |proc| {
        let namespace = |p: &Path| fs::read_link(p.join("ns/mnt")).ok();
        let own = namespace(&proc.join("1"));
        let mut all = Vec::new();
        for entry in fs::read_dir(proc)?.flatten() {
            let path = entry.path();
            let Ok(line) = fs::read(path.join("cmdline")) else {
                continue;
            };
            let line = String::from_utf8_lossy(&line);
            let arguments: Vec<String> = line.split_terminator('\0').map(str::to_owned).collect();
            let program = arguments.first().map(Path::new).and_then(Path::file_name);
            let component = program.and_then(|p| Component::of_program(&p.to_string_lossy()));
            let is_here = own.is_none() || namespace(&path).is_none_or(|n| Some(n) == own);
            if let Some(component) = component.filter(|c| Component::CONTROL.contains(c) && is_here)
            {
                let log = fs::read_link(path.join("fd/2")).ok();
                all.push(Process {
                    component,
                    arguments,
                    log: log.filter(|p| below(&its, p).is_file()),
                });
            }
        }
        Ok(all)
    });
    let mut found = found.unwrap_or_default();
    found.sort_by_key(|p| Component::CONTROL.iter().position(|c| *c == p.component));
    found
}

/// Returns the arguments, environment and configuration files of a running CRI-O; `None` when no such
/// process can be read.
fn crio(root: &Path) -> Option<Crio> {
    let (arguments, environment) = process(root, "crio", |name| CRIO_VARIABLES.contains(&name))?;
    let mut crio = Crio {
        environment,
        arguments,
        ..Crio::default()
    };
    let folder = crio.folder();
    let dropped = names(&below(root, folder)).unwrap_or_default().into_iter();
    let paths = std::iter::once(crio.file().to_owned()).chain(dropped.map(|n| folder.join(n)));
    crio.files = paths
        .filter_map(|path| Some((path.clone(), text(&below(root, &path))?)))
        .collect();
    Some(crio)
}

fn exists(path: &Path) -> bool {
    ask(path, Path::try_exists).unwrap_or(false)
}

/// Reads what a node has below `root`: `/`, or a copy in a test. `configuration` is the file that a
/// running kubelet was given.
pub fn seen(root: &Path, configuration: Option<&Path>) -> Seen {
    let is_talos = text(&root.join("etc/os-release"))
        .is_some_and(|t| t.lines().any(|l| l.trim() == "ID=talos"));
    let marked = Distribution::MARKS
        .into_iter()
        .find(|(_, mark)| exists(&root.join(mark)));
    let distribution = match marked {
        _ if is_talos => Distribution::Talos,
        Some((it, _)) => it,
        None => Distribution::default(),
    };
    let folder = root.join(distribution.manifests());
    let manifests = names(&folder).unwrap_or_default().into_iter();
    let manifests: Vec<_> = manifests
        .filter(|n| {
            Path::new(n)
                .extension()
                .is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
        })
        .filter_map(|n| {
            let text = text(&folder.join(&n))?;
            Some((n, text))
        })
        .collect();
    let files = [
        distribution.kubelet_log(),
        distribution.containerd_log(),
        distribution.audit_log(),
    ];
    let configuration = configuration.unwrap_or(Path::new(CONFIGURATION));
    Seen {
        distribution,
        pod_logs: names(&root.join(POD_LOGS)),
        apiserver: apiserver_tracing(&manifests)
            .and_then(|file| Some((file.clone(), text(&below(root, &file))?))),
        containerd: process(root, "containerd", |name| {
            name.starts_with("OTEL_EXPORTER_OTLP_")
        })
        .map(|(_, environment)| environment),
        crio: crio(root),
        processes: control_processes(root),
        manifests,
        files: files
            .into_iter()
            .flatten()
            .filter(|p| exists(&root.join(p)))
            .map(|p| Path::new("/").join(p))
            .collect(),
        kubelet: text(&below(root, configuration)).map(|text| (configuration.to_owned(), text)),
    }
}

/// Returns what an agent follows, with paths below `root`; `configuration` is as in [`seen`].
pub fn found_at(root: &Path, configuration: Option<&Path>) -> Found {
    let mut all = found(&seen(root, configuration));
    for (_, path) in &mut all.logs {
        *path = below(root, path);
    }
    for path in all.audit_logs.iter_mut().chain(&mut all.kubelet_log) {
        *path = below(root, path);
    }
    all
}

/// Returns an absolute path of the node as a path below `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Finding;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn each_distribution_is_known_by_what_only_it_has() {
        for (mark, want) in [
            ("var/lib/kubelet/config.yaml", Distribution::Kubeadm),
            ("kind/version", Distribution::Kind),
            ("var/lib/rancher/k3s/x", Distribution::K3s),
            ("var/lib/rancher/rke2/x", Distribution::Rke2),
            ("var/lib/microshift/x", Distribution::MicroShift),
        ] {
            let root = tempfile::tempdir().unwrap();
            put(root.path(), mark, "");
            assert_eq!(seen(root.path(), None).distribution, want, "{mark}");
        }
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "etc/os-release", "NAME=Talos\nID=talos\n");
        assert_eq!(seen(root.path(), None).distribution, Distribution::Talos);
    }

    #[test]
    fn paths_are_those_of_the_root_that_is_looked_at() {
        let root = tempfile::tempdir().unwrap();
        let folder = "kube-system_kube-apiserver-cp1_aa/kube-apiserver";
        put(root.path(), &format!("var/log/pods/{folder}/0.log"), "");
        put(
            root.path(),
            "etc/kubernetes/manifests/kube-apiserver.yaml",
            "spec:\n  containers:\n  - name: kube-apiserver\n    command: [kube-apiserver, --audit-log-path=/a/audit.log]\n    volumeMounts: [{name: a, mountPath: /a}]\n  volumes: [{name: a, hostPath: {path: /srv}}]\n",
        );
        let found = found_at(root.path(), None);
        assert_eq!(found.control, [Component::Apiserver]);
        assert_eq!(found.audit_logs, [root.path().join("srv/audit.log")]);
    }
    /// Components that are started by units of their own, as by Kubernetes The Hard Way.
    #[test]
    fn a_control_plane_of_processes_is_found_with_its_logs() {
        let root = tempfile::tempdir().unwrap();
        let said = || {
            let all = found_at(root.path(), None);
            let of = |f: &Finding| format!("{} {}: {}", f.there, f.what, f.found);
            let control = [
                "control plane",
                "apiserver log",
                "scheduler log",
                "audit log",
            ];
            let told = all
                .findings
                .iter()
                .filter(|f| control.contains(&f.what.as_str()));
            let told: Vec<String> = told.map(of).collect();
            (told, all.logs, all.audit_logs)
        };
        put(root.path(), "var/log/pods/x", "");
        assert_eq!(said().0, ["true control plane: not on this node"]);
        let line = "/usr/local/bin/kube-apiserver\0--audit-log-path=/var/log/audit.log\0--v=2\0";
        put(root.path(), "proc/7/cmdline", line);
        put(root.path(), "proc/8/cmdline", "kube-scheduler\0");
        put(root.path(), "var/log/apiserver.log", "");
        fs::create_dir_all(root.path().join("proc/7/fd")).unwrap();
        let link =
            |at: &str, to: &str| std::os::unix::fs::symlink(to, root.path().join(at)).unwrap();
        link("proc/7/fd/2", "/var/log/apiserver.log");
        let (told, logs, audit) = said();
        assert_eq!(
            told,
            [
                "true apiserver log: /var/log/apiserver.log, of the process kube-apiserver",
                "false scheduler log: kube-scheduler runs as a process, and does not write its log to a file",
                "true audit log: /var/log/audit.log"
            ]
        );
        let log = root.path().join("var/log/apiserver.log");
        assert_eq!(logs, [(Component::Apiserver, log)]);
        assert_eq!(audit, [root.path().join("var/log/audit.log")]);
        // One in a container is a static pod's, or of another node.
        for (process, namespace) in [("1", "mnt:[1]"), ("7", "mnt:[2]"), ("8", "mnt:[2]")] {
            fs::create_dir_all(root.path().join(format!("proc/{process}/ns"))).unwrap();
            link(&format!("proc/{process}/ns/mnt"), namespace);
        }
        assert_eq!(said().0, ["true control plane: not on this node"]);
    }
    #[test]
    fn a_crio_that_runs_has_its_configuration_read_in_the_order_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let spans = || {
            let all = found_at(root.path(), None).findings;
            all.into_iter().find(|f| f.what == "runtime spans")
        };
        let to = |it: &str| {
            format!("[crio.tracing]\nenable_tracing = true\ntracing_endpoint = \"{it}\"\n")
        };
        put(
            root.path(),
            "etc/crio/crio.conf.d/20-b.conf",
            &to("unix:///run/kflow/otlp.sock"),
        );
        // A CRI-O that is not running sends no spans.
        assert_eq!(spans(), None);
        put(root.path(), "proc/7/comm", "crio\n");
        put(
            root.path(),
            "proc/7/environ",
            "TOKEN=x\0CONTAINER_CONFIG=/srv/crio.conf\0",
        );
        put(
            root.path(),
            "proc/7/cmdline",
            "/usr/bin/crio\0--log-level\0debug\0",
        );
        put(root.path(), "etc/crio/crio.conf", "[");
        put(root.path(), "srv/crio.conf", &to("10.0.0.1:4317"));
        put(
            root.path(),
            "etc/crio/crio.conf.d/10-a.conf",
            &to("10.0.0.2:4317"),
        );
        assert!(spans().unwrap().there);
        put(root.path(), "proc/7/cmdline", "crio\0-d\0/srv/d\0");
        let elsewhere = spans().unwrap();
        assert!(
            !elsewhere.there && elsewhere.found.contains("10.0.0.1"),
            "{elsewhere:?}"
        );
        assert!(
            elsewhere.todo.contains("/srv/d/99-kflow.conf"),
            "{elsewhere:?}"
        );
    }
    #[test]
    fn the_configuration_that_the_kubelet_was_given_counts() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "var/lib/kubelet/config.yaml", "{}\n");
        put(
            root.path(),
            "opt/kubelet.yaml",
            "tracing: {endpoint: \"unix:///run/kflow/otlp.sock\"}\n",
        );
        for (given, sent) in [(None, false), (Some("/opt/kubelet.yaml"), true)] {
            let found = found_at(root.path(), given.map(Path::new));
            let spans = found.findings.iter().find(|f| f.what == "kubelet spans");
            assert_eq!(spans.map(|f| f.there), Some(sent), "{given:?}");
        }
    }
}
