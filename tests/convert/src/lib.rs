//! Makes sessions from the recordings of the lab, whose recorder writes file formats of its own.
//!
//! | file | content | read by |
//! |---|---|---|
//! | `cri-bytes.jsonl` | bytes between kubelet and runtime | `bytes` |
//! | `watch.jsonl` | lists and watches of the API | `watch` |
//! | `otlp.jsonl` | OTLP trace exports | `exports` |
//! | `fs.jsonl` | inotify events and mounts | `fs` |
//! | `snapshots.jsonl` | scrapes of metrics and health | `scrapes` |
//!
//! `kflow import` does not read these files, because only the lab has them. The other files of a recording (logs, audit
//! log) are read with `kflow import`'s code. kflow's own decoders decode all content; these readers only take it out of
//! the lines.

mod bytes;
mod exports;
mod fs;
mod scrapes;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kflow_engine::import::{self, Input, Options};
use kflow_model::session::{Header, SourceInfo};
use kflow_model::{Body, Nanos, Observation, Source, Text};
use kflow_sources::{Fed, LineDecoder};

/// A kind of file that the lab's recorder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// `cri-bytes.jsonl`
    CriBytes,
    /// `watch.jsonl`
    Watch,
    /// `otlp.jsonl`
    Otlp,
    /// `fs.jsonl`
    Fs,
    /// `snapshots.jsonl`
    Snapshots,
}

impl Capture {
    /// Returns the kind of a file, by its name with or without `.zst`.
    pub fn of_file(name: &str) -> Option<Self> {
        Some(match name.trim_end_matches(".zst") {
            "cri-bytes.jsonl" => Self::CriBytes,
            "watch.jsonl" => Self::Watch,
            "otlp.jsonl" => Self::Otlp,
            "fs.jsonl" => Self::Fs,
            "snapshots.jsonl" => Self::Snapshots,
            _ => return None,
        })
    }

    /// Returns the source that the file's observations name.
    const fn source(self) -> Source {
        match self {
            Self::CriBytes => Source::Cri,
            Self::Watch => Source::Kube,
            Self::Otlp => Source::Otlp,
            Self::Fs => Source::Fs,
            Self::Snapshots => Source::Metrics,
        }
    }

    fn decoder(self) -> Box<dyn LineDecoder> {
        match self {
            Self::CriBytes => Box::<bytes::ByteLog>::default(),
            Self::Watch => Box::<watch::RecordedWatch>::default(),
            Self::Otlp => Box::new(exports::RecordedExports),
            Self::Fs => Box::<fs::FsLines>::default(),
            Self::Snapshots => Box::<scrapes::ScrapeLines>::default(),
        }
    }

    /// Returns the observations of a file, in the order of its lines. A line that the recorder does not
    /// write is an error.
    pub fn read(self, path: &Path) -> anyhow::Result<Vec<Observation>> {
        let mut text =
            std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        if path.extension().is_some_and(|e| e == "zst") {
            text = zstd::decode_all(&text[..])
                .with_context(|| format!("unpacking {}", path.display()))?;
        }
        let mut decoder = self.decoder();
        let mut out = Vec::new();
        let lines = text.split(|b| *b == b'\n').enumerate();
        for (n, line) in lines.filter(|(_, l)| !l.trim_ascii().is_empty()) {
            if let Fed::Malformed(why) = decoder.line(line, &mut out) {
                bail!("{}, line {}: {why}", path.display(), n + 1);
            }
        }
        decoder.finish(&mut out);
        Ok(out)
    }
}

/// Order of the sources in a session's header, and of observations that arrived in the same nanosecond.
const ORDER: [Source; 9] = [
    Source::Cri,
    Source::Kube,
    Source::Audit,
    Source::Otlp,
    Source::Fs,
    Source::Metrics,
    Source::Runtime,
    Source::Kubelet,
    Source::Control,
];

fn rank(source: &str) -> usize {
    ORDER
        .iter()
        .position(|s| s.name() == source)
        .unwrap_or(ORDER.len())
}

/// Makes a session from the lab's captures and from files that `kflow import` reads.
pub fn session(
    captures: &[(Capture, PathBuf)],
    inputs: &[Input],
    options: &Options,
) -> anyhow::Result<(Header, Vec<Observation>)> {
    let mut sources = Vec::new();
    let mut observations = Vec::new();
    for (capture, path) in captures {
        let read = capture.read(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        sources.push(SourceInfo {
            source: capture.source().name().into(),
            name: name.as_ref().into(),
            observations: Some(read.len() as u64),
        });
        observations.extend(read);
    }
    if !inputs.is_empty() {
        let imported = import::run(inputs, options, &Arc::default())?;
        sources.extend(imported.header.sources);
        observations.extend(imported.observations);
    }
    sources.sort_by_key(|s| rank(&s.source));
    observations.sort_by_key(|o| (o.stamp.seen, rank(o.source.name())));
    let begin = observations.first().map_or(Nanos(0), |o| o.stamp.seen);
    let mut header = Header::new(begin);
    header.sources = sources;
    header.node = node(&observations);
    Ok((header, observations))
}

/// Returns the name of a recording's node; the lab has only one.
fn node(observations: &[Observation]) -> Text {
    observations
        .iter()
        .find_map(|o| match &o.body {
            Body::Node(n) => Some(n.name.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

/// Makes a session from every known file in a recording's folder. Left out are `otlp-decoded.jsonl`, because it repeats
/// `otlp.jsonl`, and the folders of scenarios, whose lists the recorder's watches have.
pub fn folder(dir: &Path) -> anyhow::Result<(Header, Vec<Observation>)> {
    let found = import::find(&[dir.to_owned()], "", &std::env::temp_dir())
        .with_context(|| format!("looking into {}", dir.display()))?;
    let left = found.left.iter().map(|l| &l.name);
    let names = found.inputs.iter().map(|i| &i.name).chain(left);
    let captures: Vec<(Capture, PathBuf)> = names
        .filter_map(|name| Some((Capture::of_file(name)?, dir.join(name))))
        .collect();
    let inputs: Vec<Input> = found
        .inputs
        .iter()
        .filter(|i| Capture::of_file(&i.name).is_none())
        .filter(|i| !i.name.starts_with("otlp") && !i.name.contains('/'))
        .cloned()
        .collect();
    session(&captures, &inputs, &Options::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::cri::{CONFIG_SEEN, method};
    use kflow_model::{Body, Text};

    /// `fixtures/sessions/S13-crictl` was made from these captures, among others.
    #[test]
    fn captures_become_what_the_session_of_their_recording_holds() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let session = fixtures.join("sessions/S13-crictl.kflow.zst");
        let session = kflow_model::session::load(&session).unwrap().observations;
        for (capture, file) in [
            (Capture::CriBytes, "cri/S13-crictl.jsonl.zst"),
            (Capture::Watch, "lab/watch.jsonl.zst"),
            (Capture::Fs, "lab/fs.jsonl.zst"),
        ] {
            let mut read = capture.read(&fixtures.join(file)).unwrap();
            read.sort_by_key(|o| o.stamp.seen);
            let of_it = |o: &&Observation| o.source == capture.source();
            let held: Vec<&Observation> = session.iter().map(|o| &**o).filter(of_it).collect();
            assert!(held.len() > 10, "{file}");
            assert_eq!(held.len(), read.len(), "{file}");
            for (held, read) in held.into_iter().zip(read) {
                assert_eq!(*held, as_it_was_read(read, held), "{file}");
            }
        }
    }

    /// Returns the observation as the session has it, which was made before container events had exit codes and the
    /// container's exit time (they had the message's time), and before calls about an image said when their pod was
    /// first seen.
    fn as_it_was_read(mut o: Observation, held: &Observation) -> Observation {
        if let Body::CallStart(c) = &mut o.body
            && c.method != method::RUN_POD_SANDBOX
        {
            let fields = c.fields.iter().filter(|(name, _)| name != CONFIG_SEEN);
            c.fields = fields.cloned().collect();
        }
        if let Body::ContainerEvent(e) = &mut o.body {
            e.exit_code = None;
            e.reason = Text::default();
            assert!(
                o.stamp.at <= held.stamp.at,
                "an exit is not later than its message"
            );
            o.stamp.at = held.stamp.at;
        }
        o
    }

    #[test]
    fn a_line_that_the_recorder_does_not_write_is_an_error_with_its_number() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let wrong = Capture::Fs.read(&fixtures.join("lab/watch.jsonl.zst"));
        let said = wrong.unwrap_err().to_string();
        assert!(said.contains("line 1: not a line of fs.jsonl"), "{said}");
    }
}
