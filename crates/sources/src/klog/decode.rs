//! Decodes lines of a log into [`LogLine`](kflow_model::log::LogLine) observations.

use std::borrow::Cow;

use super::header::{self, Front, Header};
use super::json::{self, Refused};
use super::record::Record;
use super::unit;
use super::year::Years;
use crate::journal::{Step, Unwrap};
use crate::{Fed, LineDecoder, TimeHint};
use kflow_model::log::{Component, Severity};
use kflow_model::{Body, Nanos, Observation, Stamp};

/// Most lines of one record: a goroutine dump has some hundreds.
const LINES_MAX: u32 = 10_000;

/// Decodes the log of one component, in any of the forms that [`klog`](super) names, mixed as they may be.
///
/// A record is emitted with its last line. That is its first line, except for block values (`key=<`), traces of the
/// apiserver and fatal errors, which are held until they end or the next record begins.
#[derive(Debug)]
pub struct KlogDecoder {
    component: Component,
    years: Years,
    unwrap: Unwrap,
    held: Option<Held>,
    left: Vec<Fed>,
}

/// True for a line of klog text, in whatever wraps it.
pub fn has_header(line: &[u8]) -> bool {
    match Unwrap::default().line(line) {
        Step::Entry(e) => matches!(header::parse(&e.text), Front::Header(_)),
        _ => false,
    }
}

/// A record whose lines are still coming.
#[derive(Debug)]
struct Held {
    stamp: Stamp,
    component: Component,
    record: Record,
    /// The writer of the record: in a mixed journal only lines of the same writer continue it.
    origin: String,
    until: Until,
    lines: u32,
}

/// What ends a held record, besides the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// The end of its block value.
    Block,
    /// `Trace[…]: […] […] END`.
    TraceEnd,
    /// Only the next record.
    Next,
}

impl KlogDecoder {
    /// A decoder for the log of `component`. `hint` decides year and zone where the input does not.
    pub fn new(component: Component, hint: TimeHint) -> Self {
        Self {
            component,
            years: Years::new(hint),
            unwrap: Unwrap::default(),
            held: None,
            left: Vec::new(),
        }
    }

    /// Decodes one line as the program wrote it.
    fn text(
        &mut self,
        line: &[u8],
        received: Option<Nanos>,
        origin: &str,
        out: &mut Vec<Observation>,
    ) -> Fed {
        match header::parse(line) {
            Front::Header(h) => return self.header(&h, self.component, received, origin, out),
            Front::Broken => return Fed::Malformed("klog header that is cut or makes no time"),
            Front::Other => {}
        }
        if line.first() == Some(&b'{') {
            return self.json(line, received, out);
        }
        if self.component == Component::Kubelet && is_of_agent(line, origin) {
            let released = self.release(out);
            let fed = crate::runtime::logrus(self.component, line, received, out);
            return self.behind(released, fed);
        }
        if let Some(held) = &mut self.held
            && held.origin == origin
            && held.lines < LINES_MAX
        {
            held.lines += 1;
            let text = String::from_utf8_lossy(line);
            held.record.more(&text);
            let ended = match held.until {
                Until::Block => !held.record.open(),
                Until::TraceEnd => text.ends_with(" END"),
                Until::Next => false,
            };
            return if ended {
                Fed::Observed(self.release(out))
            } else {
                Fed::Partial
            };
        }
        if let Some((component, line)) = prefixed(line, self.component)
            && let Front::Header(h) = header::parse(line)
        {
            return match component {
                Some(c) => self.header(&h, c, received, origin, out),
                None => Fed::Ignored("log line of another component"),
            };
        }
        Fed::Ignored(if line.trim_ascii().is_empty() {
            "empty line"
        } else if matches!(line.first(), Some(b'\t' | b' ')) || line.starts_with(b"Trace[") {
            "continuation of a line that was given out already"
        } else {
            "no klog header"
        })
    }

    fn header(
        &mut self,
        h: &Header<'_>,
        component: Component,
        received: Option<Nanos>,
        origin: &str,
        out: &mut Vec<Observation>,
    ) -> Fed {
        let released = self.release(out);
        // The year advances with every line, also with those that are not used.
        let Some(at) = self.years.resolve(h.time, received) else {
            let fed = Fed::Malformed("date that its year does not have");
            return self.behind(released, fed);
        };
        if let Some(reason) = noise(h.location, || String::from_utf8_lossy(h.rest)) {
            return self.behind(released, Fed::Ignored(reason));
        }
        let mut record = Record::new(component, h.severity, h.location);
        if !record.text(&String::from_utf8_lossy(h.rest)) {
            return self.behind(released, Fed::Malformed("line cut inside its message"));
        }
        let stamp = Stamp::new(at, 1_000, received.map_or(at, |r| r.max(at)));
        let until = if record.open() {
            Some(Until::Block)
        } else if h.location.starts_with("trace.go:") && !h.rest.ends_with(b" END") {
            Some(Until::TraceEnd)
        } else if h.severity == Severity::Fatal {
            Some(Until::Next)
        } else {
            None
        };
        if let Some(until) = until {
            self.held = Some(Held {
                stamp,
                component,
                record,
                origin: origin.to_owned(),
                until,
                lines: 1,
            });
            return self.behind(released, Fed::Partial);
        }
        out.push(observation(stamp, component, record));
        Fed::Observed(released + 1)
    }

    /// Takes what the service manager says of the component's end.
    fn unit(
        &mut self,
        said: &str,
        line: &[u8],
        received: Option<Nanos>,
        out: &mut Vec<Observation>,
    ) -> Fed {
        let released = self.release(out);
        let local = unit::time(line).and_then(|t| self.years.resolve(t, received));
        let Some(at) = received.or(local) else {
            let fed = Fed::Ignored("line of the service manager without a time");
            return self.behind(released, fed);
        };
        let mut record = Record::new(self.component, Severity::Error, "");
        record.message(said);
        let precision = if received.is_some() {
            1_000
        } else {
            unit::SHORT
        };
        out.push(observation(
            Stamp::new(at, precision, at),
            self.component,
            record,
        ));
        Fed::Observed(released + 1)
    }

    fn json(&mut self, line: &[u8], received: Option<Nanos>, out: &mut Vec<Observation>) -> Fed {
        let released = self.release(out);
        let parsed = json::parse(&String::from_utf8_lossy(line), self.component, |l, m| {
            noise(l, || Cow::Borrowed(m))
        });
        let fed = match parsed {
            Ok((at, precision, log)) => {
                out.push(Observation {
                    stamp: Stamp::new(at, precision, received.map_or(at, |r| r.max(at))),
                    source: self.component.source(),
                    body: Body::Log(Box::new(log)),
                });
                Fed::Observed(1)
            }
            Err(Refused::Noise(reason)) => Fed::Ignored(reason),
            Err(Refused::NotALog) => Fed::Ignored("JSON that is no log line"),
            Err(Refused::Broken) => Fed::Malformed("JSON that does not parse"),
        };
        self.behind(released, fed)
    }

    /// Returns the result of a line that ended a held record.
    fn behind(&mut self, released: usize, fed: Fed) -> Fed {
        match fed {
            Fed::Observed(n) => Fed::Observed(released + n),
            fed if released == 0 => fed,
            fed => {
                self.left.extend(fed.left());
                Fed::Observed(released)
            }
        }
    }

    /// Emits the held record; returns how many observations that makes.
    fn release(&mut self, out: &mut Vec<Observation>) -> usize {
        match self.held.take() {
            None => 0,
            Some(h) => {
                out.push(observation(h.stamp, h.component, h.record));
                1
            }
        }
    }
}

impl LineDecoder for KlogDecoder {
    fn reads_at(&mut self, now: Nanos) {
        self.years.reads_at(now);
    }
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut unwrap = std::mem::take(&mut self.unwrap);
        let fed = match unwrap.line(line) {
            Step::Entry(e) => {
                if self.foreign(&e.origin) {
                    Fed::Ignored("log line of another component")
                } else if self.component == Component::Kubelet
                    && let Some(said) = unit::ended_kubelet(&e)
                {
                    self.unit(said, line, e.received, out)
                } else if memchr::memchr(b'\n', &e.text).is_none() {
                    self.text(&e.text, e.received, &e.origin, out)
                } else {
                    self.lines(&e.text, e.received, &e.origin, out)
                }
            }
            Step::Partial => Fed::Partial,
            Step::Marker(what) => Fed::Ignored(what),
        };
        self.unwrap = unwrap;
        fed
    }

    fn left(&mut self) -> Vec<Fed> {
        std::mem::take(&mut self.left)
    }

    fn finish(&mut self, out: &mut Vec<Observation>) -> Fed {
        let before = out.len();
        if let Step::Entry(e) = self.unwrap.finish()
            && !self.foreign(&e.origin)
        {
            let fed = self.lines(&e.text, e.received, &e.origin, out);
            self.left.extend(fed.left());
        }
        self.release(out);
        Fed::Observed(out.len() - before)
    }
}

impl KlogDecoder {
    /// Returns true for a line of a whole journal that another component wrote, with the same kind of header.
    fn foreign(&self, origin: &str) -> bool {
        let ident = origin.split('[').next().unwrap_or_default();
        match Component::of_program(ident) {
            Some(component) => component != self.component,
            // Else it is a wrapper's own name (k3s, hyperkube, a script), a container log's stream, or nothing.
            None => matches!(
                ident,
                "kube-proxy" | "cloud-controller-manager" | "node-problem-detector" | "flanneld"
            ),
        }
    }

    /// Decodes an entry of several lines. The result is `Observed` when any line is, else that of the first line.
    fn lines(
        &mut self,
        text: &[u8],
        received: Option<Nanos>,
        origin: &str,
        out: &mut Vec<Observation>,
    ) -> Fed {
        let before = out.len();
        let mut first = None;
        for line in text.split(|b| *b == b'\n') {
            let fed = self.text(line, received, origin, out);
            let more = first.replace(first.unwrap_or(fed)).map(|_| fed);
            self.left.extend(more.and_then(Fed::left));
        }
        let first = first.unwrap_or(Fed::Ignored("empty line"));
        match out.len() - before {
            0 => first,
            n => {
                self.left.extend(first.left());
                Fed::Observed(n)
            }
        }
    }
}

fn observation(stamp: Stamp, component: Component, record: Record) -> Observation {
    Observation {
        stamp,
        source: component.source(),
        body: Body::Log(Box::new(record.into_line())),
    }
}

/// True for what k3s or RKE2 themselves complain of or wait for, by logrus, between the lines of the kubelet, which is a part of them.
fn is_of_agent(line: &[u8], origin: &str) -> bool {
    let has = |words: &[u8]| memchr::memmem::find(line, words).is_some();
    line.starts_with(b"time=")
        && (origin.starts_with("k3s") || origin.starts_with("rke2"))
        && (has(b" level=warn")
            || has(b" level=error")
            || has(b" level=fatal")
            || has(b" msg=\"Waiting to "))
}

/// Returns why a line is ignored that is frequent and says nothing about any pod; `None` for any other line.
fn noise<'a>(location: &str, text: impl Fn() -> Cow<'a, str>) -> Option<&'static str> {
    if location.starts_with("handler.go:") && text().starts_with("error while reading \"/proc/") {
        return Some("cAdvisor reading file descriptors");
    }
    if location.starts_with("factory.go:") {
        return Some("cAdvisor choosing a handler");
    }
    // A line about a pod's cgroup is kept.
    if location.starts_with("container.go:") {
        let t = text();
        if t.starts_with("Start housekeeping") && !t.contains("/pod") && !t.contains("-pod") {
            return Some("cAdvisor beginning with a cgroup that is no pod's");
        }
    }
    if location.starts_with("labels.go:") && text().contains("Label not found") {
        return Some("absent optional container label");
    }
    if location.starts_with("flags.go:") {
        let t = text();
        let told = [
            "FLAG: --feature-gates=",
            "FLAG: --container-runtime-endpoint=",
            "FLAG: --v=",
        ];
        if t.starts_with("FLAG: ") && !told.iter().any(|f| t.starts_with(f)) {
            return Some("command line flag");
        }
    }
    None
}

/// Splits off the name of the component that MicroShift puts before every line: `kubelet I1121 …`. It writes `???`
/// when it does not know the component, which is then the one whose log this is. The inner `None` is a component that
/// kflow does not follow.
fn prefixed(line: &[u8], own: Component) -> Option<(Option<Component>, &[u8])> {
    let n = memchr::memchr(b' ', line.get(..line.len().min(64))?)?;
    let (word, rest) = line.split_at(n);
    let component = match word {
        b"???" => Some(own),
        _ => str::from_utf8(word).ok().and_then(Component::of_program),
    };
    Some((component, rest.get(1..)?))
}
