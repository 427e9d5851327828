//! A ticket: prose, what kubectl printed, and lines of logs in one text. Each kind of log has a decoder of its own, so the
//! lines are told apart by who wrote them.

use std::collections::BTreeMap;

use super::super::{Kind, yaml};
use kflow_sources::klog;
use kflow_sources::kube::decode::{embedded, has_event};

/// Largest text that is taken apart, bytes. Larger ones are logs.
pub(super) const LARGEST: u64 = 16 << 20;

/// A text of more lines, most of which are of a log, is a log.
const MANY: usize = 40;
/// What logrus begins a line with.
const TIME: &[u8] = b"time=\"";

/// Source files of components that write klog, as a line's header names them (kubernetes/kubernetes 1.36 and releases before
/// it: `pkg/kubelet`, `pkg/volume/util`, `pkg/controller`, `pkg/scheduler`). Files that several share are left out.
const FILES: [(Kind, &[&str]); 3] = [
    (
        Kind::Kubelet,
        &[
            "kubelet.go",
            "kubelet_node_status.go",
            "kubelet_pods.go",
            "kubelet_volumes.go",
            "pod_workers.go",
            "pod_container_manager_linux.go",
            "cgroup_manager_linux.go",
            "container_manager_linux.go",
            "kuberuntime_manager.go",
            "kuberuntime_container.go",
            "kuberuntime_sandbox.go",
            "kuberuntime_image.go",
            "kuberuntime_gc.go",
            "remote_runtime.go",
            "remote_image.go",
            "generic.go",
            "eviction_manager.go",
            "image_gc_manager.go",
            "nestedpendingoperations.go",
            "reconciler_common.go",
            "desired_state_of_world_populator.go",
            "prober.go",
            "prober_manager.go",
            "status_manager.go",
            "pod_startup_latency_tracker.go",
            "cni.go",
        ],
    ),
    (
        Kind::ControllerManager,
        &[
            "replica_set.go",
            "daemon_controller.go",
            "deployment_controller.go",
            "job_controller.go",
            "cronjob_controllerv2.go",
            "stateful_set.go",
            "pv_controller.go",
            "node_lifecycle_controller.go",
            "attach_detach_controller.go",
            "garbagecollector.go",
        ],
    ),
    (
        Kind::Scheduler,
        &["schedule_one.go", "scheduling_queue.go", "scheduler.go"],
    ),
];

/// A text that was taken apart.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    /// What is of no log.
    pub(super) text: Vec<u8>,
    pub(super) logs: BTreeMap<Kind, Vec<u8>>,
    /// Objects of the API that were in the text, one a line.
    pub(super) objects: Vec<u8>,
    /// Lines that are not blank, and those of them that are of some log and do not name its writer.
    lines: usize,
    unnamed: usize,
}

impl Ticket {
    /// Takes a text apart. Lines of logs that are not `apart` stay in it.
    pub(super) fn of(content: &[u8], apart: impl Fn(Kind) -> bool) -> Self {
        let mut out = Self::default();
        for line in content.split_inclusive(|b| *b == b'\n') {
            out.lines += usize::from(!line.trim_ascii().is_empty());
            out.unnamed +=
                usize::from(line.starts_with(TIME) || klog::has_header(line.trim_ascii()));
            match log(line).filter(|(kind, _)| apart(*kind)) {
                Some((kind, message)) => {
                    out.logs.entry(kind).or_default().extend(message);
                }
                None => out.text.extend(line),
            }
        }
        out
    }

    /// Takes the objects of the API out of the text.
    pub(super) fn take_objects(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        if let Some(embedded) = embedded(&text, &yaml::part) {
            self.objects = embedded.objects;
            self.text = embedded.text.into_bytes();
        }
    }

    /// True for what is a log and no ticket: who wrote it has to be said.
    pub(super) const fn is_log(&self) -> bool {
        self.lines > MANY && self.unnamed * 2 > self.lines
    }
}

/// Returns which component wrote a line, and the line without what the journal put before a line that has its own time.
fn log(line: &[u8]) -> Option<(Kind, &[u8])> {
    // In a quotation, a list or a code block.
    let text = std::str::from_utf8(line)
        .ok()?
        .trim_start_matches(['>', ' ', '\t']);
    // Controllers log the Events that they make; those are read as Events.
    if has_event(text) {
        return None;
    }
    // Lines with the year and the zone: the log's own decoder reads these.
    if text.starts_with(|c: char| c.is_ascii_digit())
        && let Some(writer) = kflow_sources::journal::writer(text.as_bytes())
    {
        return Kind::of_writer(writer.ident).map(|kind| (kind, text.as_bytes()));
    }
    let (writer, message) = journal(text).map_or((None, text), |(ident, message)| {
        (Kind::of_writer(ident), message)
    });
    let own = if klog::has_header(message.trim().as_bytes()) {
        of_file(message)
    } else if message.trim_start().as_bytes().starts_with(TIME) && message.contains("\" level=") {
        Some(Kind::Containerd)
    } else {
        return writer.map(|kind| (kind, text.as_bytes()));
    };
    writer.or(own).map(|kind| (kind, message.as_bytes()))
}

/// Splits `Nov 20 18:16:41 node1 kubelet[3119]: …` into the writer and its message. The name of the month is of any language.
fn journal(text: &str) -> Option<(&str, &str)> {
    let (front, message) = text.split_once("]: ")?;
    let words: Vec<&str> = front.split_whitespace().collect();
    let [_, day, time, _, writer] = words[..] else {
        return None;
    };
    let (ident, pid) = writer.split_once('[')?;
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    let is_time = time.split(':').count() == 3 && time.split(':').all(is_number);
    (is_number(day) && is_time && is_number(pid)).then_some((ident, message))
}

/// `E0524 16:07:17.915440    2474 kubelet.go:1796] …`
fn of_file(message: &str) -> Option<Kind> {
    let (header, _) = message.split_once(']')?;
    let (file, _) = header.split_whitespace().last()?.split_once(':')?;
    let has = |(_, files): &&(Kind, &[&str])| files.contains(&file);
    FILES.iter().find(has).map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of public reports (the addresses are in `fixtures/reports.tsv`).
    #[test]
    fn lines_are_told_apart_by_who_wrote_them() {
        use Kind::{Containerd, ControllerManager, Crio, Kubelet};
        for (line, want, begins) in [
            (
                "янв 20 00:20:07 o1.home kubelet[32406]: W0120 00:20:07.544864   32406 eviction_manager.go:142] Failed to admit pod",
                Some(Kubelet),
                "W0120",
            ),
            (
                "May 24 16:07:17 node2 atomic-openshift-node[2474]: E0524 16:07:17.915440    2474 kubelet.go:1796] Unable to mount",
                Some(Kubelet),
                "E0524",
            ),
            (
                "Nov 20 18:16:41 dn4sk kubelet[1083348]: time=\"2024-11-20T18:16:41+08:00\" level=warning msg=\"Failed to remove cgroup\"",
                Some(Kubelet),
                "time=",
            ),
            (
                "Aug 25 15:57:08 node1 crio[38052]: time=\"2023-08-25 15:57:08.444000125+08:00\" level=warning msg=\"error\"",
                Some(Crio),
                "time=",
            ),
            (
                "time=\"2024-11-20T18:16:41+08:00\" level=warning msg=\"x\"",
                Some(Containerd),
                "time=",
            ),
            (
                "E0330 04:09:59.980851       1 replica_set.go:535] sync \"kube-system/coredns-66bff467f8\" failed",
                Some(ControllerManager),
                "E0330",
            ),
            (
                "I0330 04:09:57.883677       1 event.go:278] Event(v1.ObjectReference{Kind:\"DaemonSet\"}): type: 'Warning'",
                None,
                "",
            ),
            (
                "I0528 03:23:59.037639       1 main.go:135] \"Calling\"",
                None,
                "",
            ),
            (
                "Warning  Failed  8s (x5 over 44s)  kubelet  Error: x",
                None,
                "",
            ),
            ("[root@k3s-s-1 k3s]# docker images", None, ""),
        ] {
            let got = log(line.as_bytes());
            assert_eq!(got.map(|(kind, _)| kind), want, "{line}");
            let text = got.map_or(&b""[..], |(_, text)| text);
            assert!(text.starts_with(begins.as_bytes()), "{line}");
        }
    }
}
