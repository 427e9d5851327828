//! A ticket: prose, what kubectl printed, and lines of logs in one text. Each kind of log has a decoder of its own, so the
//! lines are told apart by who wrote them.

use std::collections::BTreeMap;

use super::super::{Kind, yaml};
use kflow_model::Nanos;
use kflow_sources::klog;
use kflow_sources::kube::decode::{embedded, has_event};

/// Largest text that is taken apart, bytes. Larger ones are logs.
pub(super) const LARGEST: u64 = 16 << 20;

/// A text of more lines, most of which are of a log, is a log.
const MANY: usize = 40;
/// What logrus begins a line with.
const TIME: &str = "time=\"";

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

/// With what messages of a kubelet begin that people paste without the header of the line.
const OF_KUBELET: &str = include_str!("kubelet.tsv");

/// What container runtimes write with logrus, and other programs do not.
const RUNTIMES: &str = include_str!("runtimes.tsv");

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
    /// Takes a text apart. Lines of logs that are not `apart` stay in it. `moment`: that of lines that have none.
    pub(super) fn of(content: &[u8], moment: Nanos, apart: impl Fn(Kind) -> bool) -> Self {
        let mut out = Self::default();
        let mut run = Run::default();
        for line in content.split_inclusive(|b| *b == b'\n') {
            out.lines += usize::from(!line.trim_ascii().is_empty());
            out.unnamed += usize::from(
                line.starts_with(TIME.as_bytes()) || klog::has_header(line.trim_ascii()),
            );
            let log = log(line);
            if !matches!(log, Some(Log::Logrus(..))) {
                out.end(std::mem::take(&mut run), &apart);
            }
            match log {
                Some(Log::Of(kind, message)) if apart(kind) => {
                    out.logs.entry(kind).or_default().extend(message);
                }
                // It is as old as what kubectl printed.
                Some(Log::Cut(place, message)) => {
                    let log = out.logs.entry(Kind::Kubelet).or_default();
                    log.extend(with_header(place, message, moment).into_bytes());
                }
                Some(Log::Logrus(of, message)) => {
                    run.of = run.of.or(of);
                    run.lines.extend(line);
                    run.messages.extend(message);
                }
                Some(Log::Of(..)) | None => out.text.extend(line),
            }
        }
        out.end(run, &apart);
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

    /// Takes lines of logrus that stand together: a runtime's, if one of them is. Many programs write so.
    fn end(&mut self, run: Run, apart: impl Fn(Kind) -> bool) {
        match run.of.filter(|kind| apart(*kind)) {
            Some(kind) => self.logs.entry(kind).or_default().extend(run.messages),
            None => self.text.extend(run.lines),
        }
    }

    /// Returns the newest time that a log says with its year.
    pub(super) fn newest(&self) -> Option<Nanos> {
        let lines = self
            .logs
            .values()
            .flat_map(|log| log.split(|b| *b == b'\n'));
        let time = |line: &[u8]| time_of_logrus(std::str::from_utf8(line).ok()?);
        lines.filter_map(time).max()
    }

    /// True for what is a log and no ticket: who wrote it has to be said.
    pub(super) const fn is_log(&self) -> bool {
        self.lines > MANY && self.unnamed * 2 > self.lines
    }
}

/// The time of a line of logrus.
pub(super) fn time_of_logrus(line: &str) -> Option<Nanos> {
    let (time, _) = line.split_once(TIME)?.1.split_once('"')?;
    Nanos::parse_rfc3339(&time.replacen(' ', "T", 1)).map(|(at, _)| at)
}

/// Lines of logrus that stand together.
#[derive(Debug, Default)]
struct Run {
    lines: Vec<u8>,
    messages: Vec<u8>,
    /// The runtime that wrote one of them.
    of: Option<Kind>,
}

/// A line of a log, without what the journal put before a line that has its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log<'a> {
    Of(Kind, &'a [u8]),
    /// A line of logrus, and the runtime that writes such lines.
    Logrus(Option<Kind>, &'a [u8]),
    /// A line of the kubelet's klog of which the begin is missing: where in its source, and the message.
    Cut(&'a str, &'a str),
}

/// True for a few lines of a journal none of which has a header that its writer put before it.
pub(super) fn has_no_header(content: &[u8]) -> bool {
    let mut lines = content.split(|b| *b == b'\n');
    let is_bare = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        let message = journal(&text).map_or("", |(_, message)| message);
        !klog::has_header(message.trim().as_bytes()) && !message.trim_start().starts_with(TIME)
    };
    lines.clone().count() <= MANY && lines.all(is_bare)
}

fn log(line: &[u8]) -> Option<Log<'_>> {
    // In a quotation, a list or a code block.
    let text = std::str::from_utf8(line)
        .ok()?
        .trim_start_matches(['>', ' ', '\t']);
    // minikube lists the lines in which it finds a problem (`Problems detected in kubelet:`).
    let item = text.strip_prefix("- ").or_else(|| text.strip_prefix("* "));
    let item = item
        .map(str::trim_start)
        .filter(|item| journal(item).is_some() || klog::has_header(item.as_bytes()));
    let text = item.unwrap_or(text);
    // Controllers log the Events that they make; those are read as Events.
    if has_event(text) {
        return None;
    }
    // Lines with the year and the zone: the log's own decoder reads these.
    if text.starts_with(|c: char| c.is_ascii_digit())
        && let Some((writer, message)) = kflow_sources::journal::parts(text.as_bytes())
    {
        let message = std::str::from_utf8(message).unwrap_or_default();
        let kind = written_by(writer.ident, message)?;
        return Some(Log::Of(kind, text.as_bytes()));
    }
    let of_journal = journal(text);
    let message = of_journal.map_or(text, |(_, message)| message);
    let writer = of_journal.and_then(|(ident, message)| written_by(ident, message));
    if klog::has_header(message.trim().as_bytes()) {
        let (_, said) = message.split_once("] ").unwrap_or_default();
        let of_words = || is_of_kubelet(said).then_some(Kind::Kubelet);
        let kind = writer.or_else(|| of_file(message)).or_else(of_words)?;
        return Some(Log::Of(kind, message.as_bytes()));
    }
    let is_logrus = message.trim_start().starts_with(TIME) && message.contains("\" level=");
    match writer {
        Some(kind) if is_logrus => Some(Log::Of(kind, message.as_bytes())),
        // The error of the kubelet's command, which has no header (cmd/kubelet/kubelet.go, `cli.RunNoErrOutput`).
        Some(Kind::Kubelet) if cut(message).is_some() => cut(message),
        Some(kind) => Some(Log::Of(kind, text.as_bytes())),
        None if is_logrus => Some(Log::Logrus(of_runtime(message), message.as_bytes())),
        None => cut(message),
    }
}

/// Returns in whose log a line of a journal belongs: its writer's, or, where systemd says how a process of the kubelet's unit ended, the
/// kubelet's.
fn written_by(ident: &str, message: &str) -> Option<Kind> {
    let unit = klog::ended_unit(ident, message);
    let of_unit = unit.and_then(Kind::of_writer);
    Kind::of_writer(ident).or_else(|| of_unit.filter(|kind| *kind == Kind::Kubelet))
}

/// Reads `4191 kubelet.go:2130] …`, `server.go:233] …` and a message alone, if it is of those that the kubelet alone writes.
fn cut(line: &str) -> Option<Log<'_>> {
    let line = line.trim();
    let (place, message) = of_command(line)
        .map(|error| ("kubelet", error))
        .or_else(|| line.split_once("] "))
        .unwrap_or(("kubelet", line));
    let place = place.rsplit(' ').next().unwrap_or(place);
    let is_place = place == "kubelet" || {
        let (file, number) = place.split_once(".go:")?;
        !file.is_empty() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    (is_place && is_of_kubelet(message)).then_some(Log::Cut(place, message))
}

/// Returns the error with which a command ends: `error: failed to run Kubelet: …`.
fn of_command(line: &str) -> Option<&str> {
    let mut fronts = ["error: ", "Error: "].into_iter();
    fronts.find_map(|front| line.strip_prefix(front))
}

fn is_of_kubelet(message: &str) -> bool {
    let message = message.trim_start_matches('"');
    let mut all = OF_KUBELET.lines().filter(|l| !l.starts_with('#'));
    all.any(|begin| message.starts_with(begin))
}

/// Returns a line of klog with the header that it has lost. Its level is unknown; nothing of these messages is less than an error.
fn with_header(place: &str, message: &str, moment: Nanos) -> String {
    // `1970-01-02T03:04:05.678901234Z`
    let time = moment.to_rfc3339();
    let part = |at: std::ops::Range<usize>| time.get(at).unwrap_or_default();
    let is_open = message.contains("\" err=\"") && !message.starts_with('"');
    let quote = if is_open { "\"" } else { "" };
    format!(
        "E{}{} {}.{:0<6.6}       1 {place}] {quote}{message}\n",
        part(5..7),
        part(8..10),
        part(11..19),
        part(20..26),
    )
}

/// True for a line that a container runtime writes.
pub(in crate::import) fn is_of_runtime(line: &str) -> bool {
    of_runtime(line).is_some()
}

/// Returns the runtime that writes such a line of logrus.
fn of_runtime(line: &str) -> Option<Kind> {
    let message = line.split_once(" msg=").map_or("", |(_, message)| message);
    let message = message.trim_start_matches('"');
    let mut all = RUNTIMES.lines().filter(|l| !l.starts_with('#'));
    all.find_map(|known| {
        let (runtime, rest) = known.split_once('\t')?;
        let is_there = match rest.split_once('\t')? {
            ("msg", begin) => message.starts_with(begin),
            (_, field) => line.split(' ').any(|word| word.starts_with(field)),
        };
        is_there.then(|| Kind::of_writer(runtime))?
    })
}

/// Splits `Nov 20 18:16:41 node1 kubelet[3119]: …` into the writer and its message.
fn journal(text: &str) -> Option<(&str, &str)> {
    let (writer, message) = kflow_sources::journal::parts(text.as_bytes())?;
    Some((writer.ident, std::str::from_utf8(message).ok()?))
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
            // A log of syslog without the number of the process.
            (
                "Nov 22 16:53:37 k8s-master-01 kubelet: E1122 16:53:37.438501   22530 reflector.go:153] k8s.io/kubernetes/pkg/kubelet/kubelet.go:458: Failed to list *v1.Node",
                Some(Kubelet),
                "E1122",
            ),
            (
                "Nov 22 16:42:12 k8s-master-01 containerd: time=\"2024-11-22T16:42:12.359539679+08:00\" level=error msg=\"RunPodSandbox for &PodSandboxMetadata{Name:kube-apiserver-k8s-master-01,} failed, error\"",
                Some(Containerd),
                "time=",
            ),
            (
                "Thg 11 06 17:10:47 vupc kubelet[793002]: E1106 17:10:47.609207  793002 kubelet.go:2009] failed to \"KillPodSandbox\"",
                Some(Kubelet),
                "E1106",
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
                "time=\"2019-06-03T14:45:03.325926143Z\" level=error msg=\"RunPodSandbox for &PodSandboxMetadata{Name:a,} failed, error\" error=\"x\"",
                Some(Containerd),
                "time=",
            ),
            (
                "time=\"2020-11-26T09:05:48.143853427Z\" level=info msg=x runtime=io.containerd.runc.v2",
                Some(Containerd),
                "time=",
            ),
            (
                "time=\"2021-09-14 17:38:21.005462Z\" level=info msg=\"Checking image status: k8s.gcr.io/pause:3.2\" id=b1 name=/runtime.v1alpha2.ImageService/ImageStatus",
                Some(Crio),
                "time=",
            ),
            // logging-operator 60: of a container.
            (
                "time=\"2019-03-05T18:33:53Z\" level=info msg=\"Applying filter\"",
                None,
                "",
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
            let got = match log(line.as_bytes()) {
                Some(Log::Of(kind, text) | Log::Logrus(Some(kind), text)) => Some((kind, text)),
                Some(Log::Cut(_, text)) => Some((Kubelet, text.as_bytes())),
                Some(Log::Logrus(None, _)) | None => None,
            };
            assert_eq!(got.map(|(kind, _)| kind), want, "{line}");
            let text = got.map_or(&b""[..], |(_, text)| text);
            assert!(text.starts_with(begins.as_bytes()), "{line}");
        }
    }

    #[test]
    fn lines_beside_a_runtimes_are_its_own() {
        const OTHER: &str = "time=\"2019-03-05T18:33:53Z\" level=info msg=\"Applying filter\"\n";
        const OF_IT: &str =
            "time=\"2019-06-03T14:45:03.3Z\" level=info msg=\"StopPodSandbox for \\\"a\\\"\"\n";
        let ticket = Ticket::of(
            format!("a\n{OTHER}b\n{OTHER}{OF_IT}c\n").as_bytes(),
            Nanos(0),
            |_| true,
        );
        assert_eq!(ticket.text, format!("a\n{OTHER}b\nc\n").as_bytes());
        let log = ticket.logs.get(&Kind::Containerd).unwrap();
        assert_eq!(*log, format!("{OTHER}{OF_IT}").as_bytes());
        let newest = ticket.newest().map(Nanos::to_rfc3339_seconds);
        assert_eq!(newest.as_deref(), Some("2019-06-03T14:45:03Z"));
    }
}
