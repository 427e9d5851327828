//! A text of several logs, each below a heading with its name: `==> kubelet <==`. `minikube logs` prints such a text
//! (kubernetes/minikube: pkg/minikube/logs/logs.go, `Output`, with `* ` before the heading in releases of 2020 to 2022), and so do `tail`
//! and `head` of several files (coreutils: src/tail.c, `write_header`).
//!
//! A section is read for what its name promises, and for nothing else: most of them are logs of other programs in the same form.

use std::collections::BTreeSet;
use std::io::{self, BufReader};

use super::super::{Kind, moment};
use super::alone::lines_in;
use super::content::{Content, Survey};
use super::ticket::{self, Ticket};
use super::{About, Candidate, Finder, What};
use kflow_model::{Nanos, units::counted};

/// The section with the journal of dockerd and cri-dockerd.
const DOCKER: &str = "Docker";
/// The section with what `crictl ps -a` prints, or where there is no crictl, `docker ps -a`.
const CONTAINERS: &str = "container status";
/// Most names of sections that are told.
const NAMES: usize = 12;

/// True for a text that begins with a heading.
pub(super) fn begins(begin: &[u8]) -> bool {
    let mut lines = begin.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && *line != b"*");
    first.is_some_and(|line| heading(line).is_some())
}

/// `==> kube-apiserver [7c504d5a5c66] <==`
fn heading(line: &[u8]) -> Option<&str> {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"* ").unwrap_or(line);
    let name = line.strip_prefix(b"==> ")?.strip_suffix(b" <==")?;
    std::str::from_utf8(name).ok()
}

struct Section<'a> {
    name: &'a str,
    text: Vec<u8>,
}

impl Section<'_> {
    /// Its name without the number of the container: `kube-apiserver [7c504d5a5c66]`.
    fn of_what(&self) -> &str {
        self.name.split(" [").next().unwrap_or(self.name)
    }
}

fn sections(text: &[u8]) -> Vec<Section<'_>> {
    let mut all: Vec<Section<'_>> = Vec::new();
    for line in text.split_inclusive(|b| *b == b'\n') {
        if let Some(name) = heading(line) {
            let text = Vec::new();
            all.push(Section { name, text });
        } else if let Some(section) = all.last_mut() {
            section.text.extend(line);
        }
    }
    all
}

/// Returns the newest time in what tells its year: lines of logrus, and when a node was last heard of.
fn newest(text: &[u8]) -> Option<Nanos> {
    let time = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let renewed = line.trim_start().strip_prefix("RenewTime:");
        match renewed {
            Some(at) => Nanos::parse_rfc2822(at.trim()),
            None => ticket::time_of_logrus(line),
        }
    };
    text.split(|b| *b == b'\n').filter_map(time).max()
}

impl Finder {
    /// Examines each section by itself.
    pub(super) fn sections(&mut self, candidate: Candidate, depth: usize) -> io::Result<()> {
        let (text, failed) = candidate.content(ticket::LARGEST + 1);
        if text.len() as u64 > ticket::LARGEST {
            let why = format!(
                "logs in one file of more than {} MiB: give each by itself",
                ticket::LARGEST >> 20
            );
            self.leave(candidate.name, why);
            return Ok(());
        }
        if let Some(e) = failed {
            self.leave(candidate.name.clone(), e.to_string());
        }
        // A file that was copied is younger than what it tells.
        let written = candidate.modified()?;
        let modified = match newest(&text) {
            Some(newest) => Some(moment::unless_late(newest, written)),
            None => written,
        };
        let mut others = BTreeSet::new();
        let mut lines = 0;
        for section in sections(&text) {
            if !self.section(&candidate.name, &section, modified, depth)? {
                lines += lines_in(&section.text);
                others.insert(section.of_what().to_owned());
            }
        }
        if lines > 0 {
            let more = others.len().saturating_sub(NAMES);
            let mut names: Vec<String> = others.into_iter().take(NAMES).collect();
            if more > 0 {
                names.push(format!("{more} more"));
            }
            let lines = counted(lines as u64, "line");
            let why = format!("{lines} of its sections {}", names.join(", "));
            self.leave(candidate.name, why);
        }
        Ok(())
    }

    /// Takes a section. Returns false where it is none that is read.
    fn section(
        &mut self,
        file: &str,
        section: &Section<'_>,
        modified: Option<Nanos>,
        depth: usize,
    ) -> io::Result<bool> {
        let promised = section.of_what();
        let is_printed = promised.starts_with("describe ") || promised == CONTAINERS;
        if promised == DOCKER {
            return self.docker(file, section, modified);
        }
        if !is_printed && Kind::of_path(promised).is_none() {
            return Ok(false);
        }
        let what = What::of(promised, &section.text);
        match &what {
            What::Text(Content::Capture(Kind::Watch)) if is_printed => {}
            What::Text(Content::Capture(_) | Content::Journal) if !is_printed => {}
            _ => return Ok(false),
        }
        let part = self.part_of(file, section.name, &section.text, modified)?;
        self.take_what(part, what, depth)?;
        Ok(true)
    }

    /// Takes what containerd wrote by way of dockerd.
    fn docker(
        &mut self,
        file: &str,
        section: &Section<'_>,
        modified: Option<Nanos>,
    ) -> io::Result<bool> {
        let mut ticket = Ticket::of(&section.text, Nanos(0), |kind| kind == Kind::Containerd);
        let Some(log) = ticket.logs.remove(&Kind::Containerd) else {
            return Ok(false);
        };
        let hosts = Survey::new(BufReader::new(section.text.as_slice()))?.hosts;
        let part = self.part_of(file, section.name, &log, modified)?;
        let about = About {
            hosts,
            ..About::default()
        };
        self.take(part, Kind::Containerd, about);
        Ok(true)
    }

    fn part_of(
        &mut self,
        file: &str,
        section: &str,
        text: &[u8],
        modified: Option<Nanos>,
    ) -> io::Result<Candidate> {
        self.keep(format!("{file}: {section}"), text, modified)
    }
}
