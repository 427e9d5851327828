//! Checks what the node writes or sends by itself: logs, audit records, spans.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use super::kubelet::{log_file, unit};
use super::{Check, Health, files};
use kflow_agent::look::control_processes;
use kflow_engine::live::{Config, Control, KubeletLog, LogPlace, connect};
use kflow_model::log::Component;
use kflow_model::patient;
use kflow_model::units::wait;
use kflow_sources::klog::live::remote::{Kubelet, Offer};

const WHAT: &str = "kubelet log";
/// Longest wait for `journalctl` or a kubelet.
const PATIENCE: Duration = Duration::from_secs(5);

/// True when the arguments say where the kubelet's log is to be read, or the apiserver is asked for it.
pub(super) const fn is_named(asked: &KubeletLog) -> bool {
    !matches!(asked, KubeletLog::Off)
}

/// Checks the kubelet's log: where the arguments name it, else in the system's usual places.
pub(super) async fn kubelet(root: &Path, config: &Config) -> Check {
    let asked = &config.kubelet_log;
    match asked {
        KubeletLog::At(LogPlace::File(path)) => return file(WHAT, path, "--kubelet-log"),
        KubeletLog::Stdin => return Check::new(WHAT, Health::Works, "standard input"),
        KubeletLog::At(LogPlace::JournalFiles(journal)) => {
            let asked = journal.clone();
            let found = format!(
                "the journal of {}, in {}",
                journal.unit,
                journal.folder.display()
            );
            let looked = patient::ask(&journal.folder, move || asked.look());
            return match looked.unwrap_or_else(|e| Err(e.to_string())) {
                Ok(_) => Check::new(WHAT, Health::Works, found),
                Err(why) => Check::new(WHAT, Health::Off, why).todo("kflow tui --kubelet-log FILE"),
            };
        }
        KubeletLog::Remote => return remote(config).await,
        KubeletLog::Off | KubeletLog::At(LogPlace::Journal(_)) => {}
    }
    let unit = match asked {
        KubeletLog::At(LogPlace::Journal(unit)) => unit.as_str(),
        _ => unit(root),
    };
    // A path that does not answer counts as existing: opening it reports the error.
    let there = |p: &Path| files::exists(p).unwrap_or(true);
    let plain = root.join("var/log/kubelet.log");
    if let Some(path) = log_file(root).or_else(|| there(&plain).then_some(plain)) {
        let check = file(WHAT, &path, "--kubelet-log");
        return match check.health {
            Health::Works => check.todo(format!("kflow tui --kubelet-log {}", path.display())),
            _ => check,
        };
    }
    let journal = ["var/log/journal", "run/log/journal"]
        .iter()
        .map(|p| root.join(p))
        .find(|p| there(p));
    let Some(dir) = journal else {
        return Check::new(
            WHAT,
            Health::Off,
            "neither a journal nor /var/log/kubelet.log",
        )
        .todo("kflow tui --kubelet-log FILE, or --kubelet-log remote with --node NODE");
    };
    if let Err(e) = files::entries(&dir) {
        return Check::new(WHAT, Health::Off, format!("{}: {e}", dir.display()))
            .todo("sudo usermod --append --groups systemd-journal $USER");
    }
    let found = format!("the journal of unit {unit}");
    // A copy of a root has no journal that journalctl could read.
    if root != Path::new("/") {
        return Check::new(WHAT, Health::Works, found);
    }
    match entries(unit).await {
        Ok(true) => Check::new(WHAT, Health::Works, found),
        Ok(false) => Check::new(
            WHAT,
            Health::Off,
            format!("the journal has nothing of unit {unit}"),
        )
        .todo("kflow tui --kubelet-log journal:UNIT, or --kubelet-log FILE"),
        Err(e) => Check::new(WHAT, Health::Off, format!("journalctl: {e}"))
            .todo("kflow tui --kubelet-log FILE"),
    }
}

/// Checks which log the node's kubelet offers by way of the apiserver, by querying it.
async fn remote(config: &Config) -> Check {
    let node = config.scope.as_ref().and_then(|s| s.node.as_deref());
    let Some(node) = node else {
        return Check::new(
            WHAT,
            Health::Off,
            "by way of the apiserver: no node is named",
        )
        .todo("kflow doctor --kubelet-log remote --node NODE");
    };
    let asked = async {
        let (client, _) = connect(config).await?;
        tokio::time::timeout(PATIENCE, Kubelet::new(client, node).offer())
            .await
            .map_err(|_| format!("no answer in {}", wait(PATIENCE)))?
    };
    match asked.await {
        Ok(Offer::Query) => Check::new(
            WHAT,
            Health::Works,
            format!("the journal of {node}, by way of the apiserver"),
        ),
        Ok(Offer::File(name)) => Check::new(
            WHAT,
            Health::Works,
            format!("/var/log/{name} of {node}, by way of the apiserver"),
        ),
        Err(e) => Check::new(WHAT, Health::Off, format!("by way of the apiserver: {e}")),
    }
}

/// True when a unit's journal has an entry.
async fn entries(unit: &str) -> Result<bool, String> {
    let mut command = Command::new("journalctl");
    command
        .args([
            "--quiet",
            "--no-pager",
            "--lines=1",
            "--output=cat",
            "--unit",
            unit,
        ])
        .kill_on_drop(true);
    match tokio::time::timeout(PATIENCE, command.output()).await {
        Err(_) => Err(format!("no answer in {}", wait(PATIENCE))),
        Ok(Err(e)) => Err(e.to_string()),
        Ok(Ok(o)) => Ok(!o.stdout.trim_ascii().is_empty()),
    }
}

fn file(what: &'static str, path: &Path, flag: &str) -> Check {
    match files::ask(path, |p| File::open(p)) {
        Ok(_) => Check::new(what, Health::Works, path.display().to_string()),
        Err(e) => Check::new(what, Health::Off, format!("{}: {e}", path.display())).todo(
            if e.kind() == std::io::ErrorKind::PermissionDenied {
                "run as root".to_owned()
            } else {
                format!("name the file that is written: {flag} FILE")
            },
        ),
    }
}

/// Checks the audit log: from the arguments, or of an apiserver that runs here as a static pod or as a process.
pub(super) fn audit(root: &Path, asked: &Control) -> Check {
    const WHAT: &str = "audit";
    const MANIFEST: &str = "etc/kubernetes/manifests/kube-apiserver.yaml";
    if let Some(path) = asked.audit_logs.first() {
        return file(WHAT, path, "--audit-log");
    }
    if let Some(addr) = asked.audit_webhook {
        return Check::new(WHAT, Health::Works, format!("received on {addr}"));
    }
    let todo = "where it runs: kflow tui --audit-log FILE, or --audit-webhook";
    let manifest = match files::text_if_any(&root.join(MANIFEST)) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => {
            let processes = control_processes(root);
            let server = processes
                .iter()
                .find(|p| p.component == Component::Apiserver);
            return match server.map(|p| p.flag("--audit-log-path")) {
                None => Check::new(WHAT, Health::Off, "no apiserver of this machine's own").todo(todo),
                Some(Some(path)) => Check::new(WHAT, Health::Works, format!("{path}, by the process kube-apiserver"))
                    .todo(format!("kflow tui --audit-log {path}")),
                Some(None) => Check::new(WHAT, Health::Off, "the process kube-apiserver has no --audit-log-path")
                    .todo("for it, with a policy: --audit-policy-file=/etc/kubernetes/audit.yaml --audit-log-path=/var/log/kubernetes/audit.log"),
            };
        }
        Err(e) => return Check::new(WHAT, Health::Off, format!("/{MANIFEST}: {e}")).todo(todo),
    };
    let log = manifest
        .lines()
        .find_map(|l| l.trim().strip_prefix("- --audit-log-path="));
    match log {
        Some(path) => Check::new(WHAT, Health::Works, format!("{path}, by /{MANIFEST}"))
            .todo(format!("kflow tui --audit-log {path}")),
        None => Check::new(WHAT, Health::Off, format!("/{MANIFEST} sets no --audit-log-path"))
            .todo("in it, with a policy and a mount: --audit-policy-file=/etc/kubernetes/audit.yaml --audit-log-path=/var/log/kubernetes/audit.log"),
    }
}

/// Checks whether spans can be received. `agent`: whether the kubelet sends its spans to the queried agent; `None`
/// without one.
pub(super) async fn spans(asked: &Control, agent: Option<bool>) -> Check {
    const WHAT: &str = "spans";
    let sends = "in the kubelet's configuration: tracing: {endpoint: \"127.0.0.1:4317\", samplingRatePerMillion: 1000000}";
    let Some(addr) = asked.otlp.first().copied() else {
        if let Some(sent) = agent {
            return if sent {
                Check::new(WHAT, Health::Works, "the agent receives the kubelet's")
            } else {
                let none =
                    "the agent listens for them, and the kubelet sends it none, as is told of it";
                Check::new(WHAT, Health::Off, none)
            };
        }
        // Without an argument kflow listens there.
        let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, 4317));
        return match kflow_sources::otlp::live::bind(usual, false).await {
            Ok(_) => Check::new(WHAT, Health::Off, "nobody listens for them")
                .todo(format!("kflow tui --otlp\n{sends}")),
            Err(e) => Check::new(
                WHAT,
                Health::Off,
                format!("another program has the port: {e}"),
            )
            .todo("let it pass them on to a port of kflow's: kflow tui --otlp 127.0.0.1:14317"),
        };
    };
    match kflow_sources::otlp::live::bind(addr, asked.listen_anywhere).await {
        Ok(_) => Check::new(
            WHAT,
            Health::Works,
            format!("{addr} is free to receive them"),
        )
        .todo(sends),
        Err(e) => Check::new(WHAT, Health::Off, e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn with(path: &str, text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        root
    }

    fn asked(kubelet_log: KubeletLog) -> Config {
        Config {
            kubelet_log,
            ..Config::nothing()
        }
    }

    #[tokio::test]
    async fn where_an_agent_is_asked_nobody_else_has_to_listen_for_spans() {
        let control = Config::nothing().control;
        let alone = spans(&control, None).await;
        assert_eq!(alone.health, Health::Off);
        for (sent, health) in [(true, Health::Works), (false, Health::Off)] {
            let with = spans(&control, Some(sent)).await;
            assert_eq!((with.health, with.todo.as_str()), (health, ""));
        }
    }

    #[tokio::test]
    async fn the_log_that_was_named_is_the_one_that_is_looked_at() {
        let root = with("k.log", "x\n");
        let there = asked(KubeletLog::At(LogPlace::File(root.path().join("k.log"))));
        assert_eq!(kubelet(root.path(), &there).await.health, Health::Works);
        let missing = asked(KubeletLog::At(LogPlace::File(root.path().join("no.log"))));
        let check = kubelet(root.path(), &missing).await;
        assert_eq!(check.health, Health::Off);
        assert_eq!(
            check.todo,
            "name the file that is written: --kubelet-log FILE"
        );
    }

    #[tokio::test]
    async fn without_a_word_the_systems_own_places_are_looked_at() {
        let off = &asked(KubeletLog::Off);
        let file = with("var/log/kubelet.log", "x\n");
        let check = kubelet(file.path(), off).await;
        assert!(
            check.todo.starts_with("kflow tui --kubelet-log "),
            "{check:?}"
        );
        let k3s = with("var/log/journal/x/system.journal", "");
        fs::create_dir_all(k3s.path().join("var/lib/rancher/k3s/server")).unwrap();
        let check = kubelet(k3s.path(), off).await;
        assert_eq!(check.found, "the journal of unit k3s");
        let bare = tempfile::tempdir().unwrap();
        assert_eq!(kubelet(bare.path(), off).await.health, Health::Off);
    }

    #[test]
    fn the_audit_log_of_a_static_apiserver_is_found_in_its_manifest() {
        const MANIFEST: &str = "etc/kubernetes/manifests/kube-apiserver.yaml";
        let asked = Control::default();
        let on = with(
            MANIFEST,
            "  - command:\n    - kube-apiserver\n    - --audit-log-path=/var/log/a.log\n",
        );
        assert_eq!(
            audit(on.path(), &asked).todo,
            "kflow tui --audit-log /var/log/a.log"
        );
        let off = with(MANIFEST, "  - command:\n    - kube-apiserver\n");
        assert!(
            audit(off.path(), &asked)
                .todo
                .contains("--audit-policy-file=")
        );
        let worker = tempfile::tempdir().unwrap();
        let none = audit(worker.path(), &asked);
        assert_eq!(none.found, "no apiserver of this machine's own");
        // Not every apiserver is a static pod.
        let process = with(
            "proc/7/cmdline",
            "/usr/bin/kube-apiserver\0--audit-log-path\0/var/log/a.log\0",
        );
        let check = audit(process.path(), &asked);
        assert_eq!(check.health, Health::Works);
        assert_eq!(check.todo, "kflow tui --audit-log /var/log/a.log");
        let without = with("proc/7/cmdline", "kube-apiserver\0");
        let check = audit(without.path(), &asked);
        assert_eq!(
            check.found,
            "the process kube-apiserver has no --audit-log-path"
        );
    }
}
