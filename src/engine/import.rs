//! Raw captures in, observations in order of arrival out.
//!
//! Every input is decoded by its own decoder on its own thread, sorted by arrival, and merged. Where two observations
//! arrived in the same nanosecond, the kind of source decides, then the order of the inputs of that kind, then the
//! order of lines: the result does not depend on the order of flags or on threads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::model::gap::Gap;
use crate::model::log::Component;
use crate::model::{Body, Nanos, Observation, Source, Stamp, Text};
use crate::session::{Header, SourceInfo, format};
use crate::source::{
    Fed, LineDecoder, TimeHint, audit, cri, fs, klog, kube, metrics, otlp, runtime,
};

/// A line longer than this is not taken (a list of 10,000 pods in one line has some 100 MB).
const MAX_LINE: u64 = 512 << 20;

/// What kind of capture an input is. In order of merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The tap's byte log.
    CriBytes,
    /// Lists and watches of API objects.
    Watch,
    /// The apiserver's audit log.
    Audit,
    /// OpenTelemetry spans.
    Otlp,
    /// cgroups, volume directories, mounts.
    Fs,
    /// Scrapes of endpoints.
    Snapshots,
    /// containerd's log.
    Containerd,
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
    pub const ALL: [Self; 11] = [
        Self::CriBytes,
        Self::Watch,
        Self::Audit,
        Self::Otlp,
        Self::Fs,
        Self::Snapshots,
        Self::Containerd,
        Self::Kubelet,
        Self::Apiserver,
        Self::Scheduler,
        Self::ControllerManager,
    ];

    /// Name of the flag, without dashes.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::CriBytes => "cri-bytes",
            Self::Watch => "watch",
            Self::Audit => "audit",
            Self::Otlp => "otlp",
            Self::Fs => "fs",
            Self::Snapshots => "snapshots",
            Self::Containerd => "containerd-log",
            Self::Kubelet => "kubelet-log",
            Self::Apiserver => "apiserver-log",
            Self::Scheduler => "scheduler-log",
            Self::ControllerManager => "controller-manager-log",
        }
    }

    /// The source that its observations name.
    pub const fn source(self) -> Source {
        match self {
            Self::CriBytes => Source::Cri,
            Self::Watch => Source::Kube,
            Self::Audit => Source::Audit,
            Self::Otlp => Source::Otlp,
            Self::Fs => Source::Fs,
            Self::Snapshots => Source::Metrics,
            Self::Containerd => Source::Runtime,
            Self::Kubelet => Source::Kubelet,
            Self::Apiserver | Self::Scheduler | Self::ControllerManager => Source::Control,
        }
    }

    /// Inputs of a later round may lack the year, which the earlier rounds then tell.
    const fn round(self) -> u8 {
        match self {
            Self::Kubelet => 1,
            Self::Apiserver | Self::Scheduler | Self::ControllerManager => 2,
            _ => 0,
        }
    }

    /// The kind of a file in a folder of captures, by its name without `.zst`.
    pub fn of_file(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
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
        let log = is(&["log", "txt", "json", "jsonl", "journal"]);
        let json = is(&["json", "jsonl"]);
        Some(if starts("cri-bytes") && is(&["jsonl"]) {
            Self::CriBytes
        } else if (starts("kubelet") || starts("journal-kubelet")) && log {
            Self::Kubelet
        } else if (starts("apiserver") || starts("kube-apiserver")) && log {
            Self::Apiserver
        } else if (starts("scheduler") || starts("kube-scheduler")) && log {
            Self::Scheduler
        } else if (starts("controller-manager") || starts("kube-controller-manager")) && log {
            Self::ControllerManager
        } else if starts("containerd") && log {
            Self::Containerd
        } else if starts("audit") && log {
            Self::Audit
        } else if (starts("otlp") || starts("traces")) && json {
            Self::Otlp
        } else if starts("fs") && is(&["jsonl"]) {
            Self::Fs
        } else if starts("snapshots") && is(&["jsonl"]) {
            Self::Snapshots
        } else if WATCHED.iter().any(|w| starts(w)) && json {
            Self::Watch
        } else {
            return None;
        })
    }
}

/// Names of files that hold lists or watches of API objects.
const WATCHED: [&str; 14] = [
    "watch",
    "pods",
    "events",
    "nodes",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pvcs",
    "pvs",
    "resourcequotas",
];

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// What it is.
    pub kind: Kind,
    /// Where it is; `-` is standard input.
    pub path: PathBuf,
}

impl Input {
    /// The file's name for people and for the session's header.
    pub fn name(&self) -> String {
        match self.path.file_name() {
            Some(n) => n.to_string_lossy().into_owned(),
            None => self.path.display().to_string(),
        }
    }
}

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Files that kflow reads.
    pub inputs: Vec<Input>,
    /// Files that it does not know.
    pub unknown: Vec<String>,
}

/// Finds the captures in a folder (not in the folders below it). When the raw OTLP is there, its decoded form is left.
pub fn scan(dir: &Path) -> io::Result<Folder> {
    let mut folder = Folder::default();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    let raw_otlp = names
        .iter()
        .any(|n| n.trim_end_matches(".zst") == "otlp.jsonl");
    for name in names {
        match Kind::of_file(name.trim_end_matches(".zst")) {
            Some(Kind::Otlp) if raw_otlp && name.starts_with("otlp-decoded") => {}
            Some(kind) => folder.inputs.push(Input {
                kind,
                path: dir.join(name),
            }),
            None => folder.unknown.push(name),
        }
    }
    Ok(folder)
}

/// What the inputs do not say themselves.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Year of log lines without one.
    pub year: Option<i32>,
    /// Offset of the logs' local time from UTC, seconds east.
    pub utc_offset_s: i32,
    /// The node, for the header; empty: the one that the inputs tell of.
    pub node: Text,
    /// A moment near log lines without a year, for when no input tells one: now.
    pub fallback: Option<Nanos>,
}

/// What became of one input.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The input.
    pub input: Input,
    /// Lines read.
    pub lines: u64,
    /// Bytes read, uncompressed.
    pub bytes: u64,
    /// Observations.
    pub observations: u64,
    /// Lines that say nothing that kflow uses, by reason.
    pub ignored: BTreeMap<&'static str, u64>,
    /// Lines that are not what the source writes, by reason.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Why the end is missing, if it is.
    pub cut: Option<String>,
}

/// An import: everything in memory, ready to be looked at or written.
#[derive(Debug)]
pub struct Imported {
    /// The header of the session.
    pub header: Header,
    /// Observations in order of arrival, redacted.
    pub observations: Vec<Observation>,
    /// Per input, in order of merging.
    pub summaries: Vec<Summary>,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// An input could not be read at all.
    #[error("cannot read {path}: {source}")]
    Open {
        /// Which.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// More than one input is standard input.
    #[error("standard input (-) can be only one of the inputs")]
    TwoStdins,
    /// Nothing to read.
    #[error("nothing to import: name at least one capture, or a folder with --dir")]
    Nothing,
}

/// Bytes of the files taken so far, and their total. Shared with whoever shows it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes taken.
    pub taken: AtomicU64,
    /// Size of all files.
    pub total: AtomicU64,
}

/// Reads all inputs.
pub fn run(
    inputs: &[Input],
    options: &Options,
    progress: &Arc<Progress>,
) -> Result<Imported, ImportError> {
    if inputs.is_empty() {
        return Err(ImportError::Nothing);
    }
    if inputs.iter().filter(|i| is_stdin(&i.path)).count() > 1 {
        return Err(ImportError::TwoStdins);
    }
    let mut jobs: Vec<Job> = Vec::with_capacity(inputs.len());
    for input in inputs {
        jobs.push(Job::open(input, progress)?);
    }
    jobs.sort_by_key(|j| j.input.kind);

    let mut near = None;
    let mut done: Vec<Decoded> = Vec::with_capacity(jobs.len());
    for round in 0..=2 {
        let (now, later): (Vec<Job>, Vec<Job>) = jobs
            .into_iter()
            .partition(|j| j.input.kind.round() == round);
        jobs = later;
        let finished = decode_all(now, options, near);
        near = near.or_else(|| finished.iter().filter_map(Decoded::near).min());
        done.extend(finished);
    }

    let mut observations = Vec::with_capacity(done.iter().map(|d| d.observations.len()).sum());
    let mut summaries = Vec::with_capacity(done.len());
    for d in done {
        observations.extend(d.observations);
        summaries.push(d.summary);
    }
    // Stable: ties keep the order of kinds, inputs and lines.
    observations.sort_by_key(|o: &Observation| o.stamp.seen);

    let mut header = Header::new(
        observations
            .first()
            .map_or_else(Nanos::default, |o| o.stamp.seen),
    );
    header.node = if options.node.is_empty() {
        only_node(&observations)
    } else {
        options.node.clone()
    };
    header.sources = summaries
        .iter()
        .map(|s| SourceInfo {
            source: s.input.kind.source().name().into(),
            name: s.input.name().into(),
            observations: Some(s.observations),
        })
        .collect();
    Ok(Imported {
        header,
        observations,
        summaries,
    })
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The node, when the API showed exactly one.
fn only_node(observations: &[Observation]) -> Text {
    let mut names = observations.iter().filter_map(|o| match &o.body {
        Body::Node(n) => Some(&n.name),
        _ => None,
    });
    match names.next() {
        Some(first) if names.all(|n| n == first) => first.clone(),
        _ => Text::default(),
    }
}

struct Job {
    input: Input,
    reader: Box<dyn BufRead + Send>,
    modified: Option<Nanos>,
}

struct Decoded {
    observations: Vec<Observation>,
    summary: Summary,
}

impl Decoded {
    /// A moment that this input tells for sure.
    fn near(&self) -> Option<Nanos> {
        self.observations
            .iter()
            .map(|o| o.stamp.at)
            .find(|t| t.0 > 0)
    }
}

impl Job {
    fn open(input: &Input, progress: &Arc<Progress>) -> Result<Self, ImportError> {
        let error = |source| ImportError::Open {
            path: input.path.display().to_string(),
            source,
        };
        let (raw, modified): (Box<dyn Read + Send>, _) = if is_stdin(&input.path) {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(&input.path).map_err(error)?;
            let meta = file.metadata().map_err(error)?;
            if meta.is_dir() {
                return Err(error(io::Error::other("it is a folder: use --dir")));
            }
            progress.total.fetch_add(meta.len(), Ordering::Relaxed);
            let modified = meta
                .modified()
                .ok()
                .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok())
                .and_then(|d| i64::try_from(d.as_nanos()).ok())
                .map(Nanos);
            (Box::new(file), modified)
        };
        let mut counted = Counted {
            inner: raw,
            progress: Arc::clone(progress),
        };
        let mut magic = Vec::with_capacity(4);
        (&mut counted)
            .take(4)
            .read_to_end(&mut magic)
            .map_err(error)?;
        let zst = magic == [0x28, 0xb5, 0x2f, 0xfd];
        let whole = io::Cursor::new(magic).chain(counted);
        let reader: Box<dyn BufRead + Send> = if zst {
            let d = zstd::stream::read::Decoder::new(whole).map_err(error)?;
            Box::new(BufReader::with_capacity(1 << 18, d))
        } else {
            Box::new(BufReader::with_capacity(1 << 18, whole))
        };
        Ok(Self {
            input: input.clone(),
            reader,
            modified,
        })
    }

    fn decode(mut self, options: &Options, near: Option<Nanos>) -> Decoded {
        let hint = TimeHint {
            near: near.or(self.modified).or(options.fallback),
            year: options.year,
            utc_offset_s: options.utc_offset_s,
        };
        let mut decoder = decoder(self.input.kind, hint);
        let mut summary = Summary {
            input: self.input,
            lines: 0,
            bytes: 0,
            observations: 0,
            ignored: BTreeMap::new(),
            malformed: BTreeMap::new(),
            cut: None,
        };
        let mut observations = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            let got = (&mut self.reader)
                .take(MAX_LINE)
                .read_until(b'\n', &mut line);
            match got {
                Ok(0) => break,
                Ok(n) => {
                    summary.lines += 1;
                    summary.bytes += n as u64;
                    if n as u64 == MAX_LINE {
                        *summary.malformed.entry("line too long").or_default() += 1;
                        continue;
                    }
                    let text = line.strip_suffix(b"\n").unwrap_or(&line);
                    let text = text.strip_suffix(b"\r").unwrap_or(text);
                    summary.count(decoder.line(text, &mut observations));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    summary.cut = Some(match e.kind() {
                        io::ErrorKind::UnexpectedEof => "the compressed file is cut".to_owned(),
                        _ => e.to_string(),
                    });
                    break;
                }
            }
        }
        summary.count(decoder.finish(&mut observations));
        let mut observations: Vec<Observation> =
            observations.into_iter().map(format::redacted).collect();
        observations.sort_by_key(|o| o.stamp.seen);
        if let (Some(why), Some(last)) = (&summary.cut, observations.last()) {
            let at = last.stamp.seen;
            observations.push(Observation {
                stamp: Stamp::exact(at),
                source: summary.input.kind.source(),
                body: Body::Gap(Gap {
                    of: summary.input.kind.source(),
                    since: at,
                    lost: 0,
                    conn: 0,
                    why: why.as_str().into(),
                }),
            });
        }
        summary.observations = observations.len() as u64;
        Decoded {
            observations,
            summary,
        }
    }
}

impl Summary {
    fn count(&mut self, fed: Fed) {
        match fed {
            Fed::Observed(_) | Fed::Partial => {}
            Fed::Ignored(why) => *self.ignored.entry(why).or_default() += 1,
            Fed::Malformed(why) => *self.malformed.entry(why).or_default() += 1,
        }
    }
}

/// Decodes the jobs of a round on as many threads as the machine has cores; results in the order of the jobs.
fn decode_all(jobs: Vec<Job>, options: &Options, near: Option<Nanos>) -> Vec<Decoded> {
    let count = jobs.len();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let jobs: Vec<std::sync::Mutex<Option<Job>>> = jobs
        .into_iter()
        .map(|j| std::sync::Mutex::new(Some(j)))
        .collect();
    let mut done: Vec<(usize, Decoded)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(count))
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        let Some(slot) = jobs.get(n) else { break };
                        let job = slot.lock().ok().and_then(|mut j| j.take());
                        if let Some(job) = job {
                            mine.push((n, job.decode(options, near)));
                        }
                    }
                    mine
                })
            })
            .collect();
        workers
            .into_iter()
            // A panic of a decoder is a bug: it is not swallowed with the observations of that thread.
            .flat_map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect()
    });
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, d)| d).collect()
}

struct Counted<R> {
    inner: R,
    progress: Arc<Progress>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.progress.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// The decoder of a kind of capture.
fn decoder(kind: Kind, hint: TimeHint) -> Box<dyn LineDecoder> {
    match kind {
        Kind::Watch => Box::new(kube::decode::KubeLines::new(hint)),
        Kind::Audit => Box::new(audit::decode::AuditLines::new()),
        Kind::Fs => Box::new(fs::FsDecoder::new()),
        Kind::Kubelet => Box::new(klog::KlogDecoder::new(Component::Kubelet, hint)),
        Kind::Apiserver => Box::new(klog::KlogDecoder::new(Component::Apiserver, hint)),
        Kind::Scheduler => Box::new(klog::KlogDecoder::new(Component::Scheduler, hint)),
        Kind::ControllerManager => {
            Box::new(klog::KlogDecoder::new(Component::ControllerManager, hint))
        }
        Kind::CriBytes => Box::new(cri::ByteLog::new()),
        Kind::Containerd => Box::new(runtime::RuntimeDecoder::new(Component::Containerd)),
        Kind::Otlp => Box::new(otlp::OtlpDecoder::new()),
        Kind::Snapshots => Box::new(metrics::MetricsDecoder::new()),
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
            ("kubelet-20261121.log", Some(Kind::Kubelet)),
            ("kubelet.txt", Some(Kind::Kubelet)),
            ("journal-kubelet.log", Some(Kind::Kubelet)),
            ("watch.jsonl", Some(Kind::Watch)),
            ("pods.json", Some(Kind::Watch)),
            ("events.json", Some(Kind::Watch)),
            ("nodes.json", Some(Kind::Watch)),
            ("audit.jsonl", Some(Kind::Audit)),
            ("audit.log", Some(Kind::Audit)),
            ("audit-2026-11-21T00.log", Some(Kind::Audit)),
            ("otlp.jsonl", Some(Kind::Otlp)),
            ("otlp-decoded.jsonl", Some(Kind::Otlp)),
            ("fs.jsonl", Some(Kind::Fs)),
            ("cri-bytes.jsonl", Some(Kind::CriBytes)),
            ("snapshots.jsonl", Some(Kind::Snapshots)),
            ("apiserver.log", Some(Kind::Apiserver)),
            ("kube-apiserver.log", Some(Kind::Apiserver)),
            ("scheduler.log", Some(Kind::Scheduler)),
            ("controller-manager.log", Some(Kind::ControllerManager)),
            ("containerd.log", Some(Kind::Containerd)),
            ("session.json", None),
            ("README.md", None),
            ("podsandbox.json", None),
            ("fs.txt", None),
            ("", None),
        ] {
            assert_eq!(Kind::of_file(name), kind, "{name}");
        }
    }
}
