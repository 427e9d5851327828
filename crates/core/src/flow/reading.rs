//! From a log line, an Event or a span to the [`Fact`] that it says, with the names that are in its words.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use super::fact::Fact;
use super::index::Texts;
use super::map::Map;
use super::matcher;
use super::signature::{Pattern, PodFact, Signature, What};
use super::template::Template;
use kflow_model::{log::LogLine, span::SpanRecord};
use rustc_hash::FxHashMap;

/// A failure that a fact is: under which reason it is looked for among the causes, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The reason, from names of the line or constant.
    pub(super) reason: Template,
    /// Its text: the first whose names are all known.
    pub(super) text: Vec<Template>,
}

/// A text that was read: what it says, and the names in it.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// What it says.
    pub fact: Fact,
    text: &'a str,
    signature: &'a Signature,
    report: Option<&'a Report>,
}

impl<'a> Said<'a> {
    /// The reason that it is looked for under among the causes, when it is a failure.
    pub fn reason(&self) -> Option<Cow<'a, str>> {
        self.report?.reason.fill(|key| self.name(key))
    }
    /// A name that its words have, or that the map knows of all texts with these words.
    pub fn name(&self, key: &str) -> Option<&'a str> {
        let known = self.signature.names.iter().find(|(k, _)| k == key);
        known.map(|(_, v)| v.as_str()).or_else(|| {
            self.signature
                .read
                .iter()
                .find_map(|t| t.find(key, self.text))
        })
    }
}

/// A log line that was read.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    said: Said<'a>,
    line: &'a LogLine,
}

impl Deref for Line<'_> {
    type Target = LogLine;
    fn deref(&self) -> &LogLine {
        self.line
    }
}

impl<'a> Line<'a> {
    /// What it says.
    pub const fn fact(&self) -> Fact {
        self.said.fact
    }
    /// The line itself.
    pub const fn line(&self) -> &'a LogLine {
        self.line
    }
    /// A name: out of its words, else a field. The error and the container have keys of their own (`error`, `container`).
    pub fn name(&self, key: &str) -> Option<&'a str> {
        let field = || match key {
            "error" => Some(self.line.error.as_str()).filter(|e| !e.is_empty()),
            "container" => Some(self.line.container.as_str()).filter(|c| !c.is_empty()),
            _ => self.line.field(key),
        };
        let in_error = || {
            self.said
                .signature
                .read
                .iter()
                .find_map(|t| t.find(key, &self.line.error))
        };
        self.said.name(key).or_else(in_error).or_else(field)
    }
    /// The failure that it reports: reason and text. `None` when what it says is no failure.
    pub fn failure(&self) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
        let known = |key: &str| match key {
            "line" => Some(self.line.message.as_str()),
            _ => self.name(key),
        };
        let report = self.said.report?;
        let text = report.text.iter().find_map(|t| t.fill(known));
        Some((report.reason.fill(known)?, text.unwrap_or_default()))
    }
    /// The Event that its component wrote to its log as it sent it.
    pub fn event(&self) -> Option<LoggedEvent<'a>> {
        if self.fact() != Fact::EventLogged {
            return None;
        }
        let path = self.name("fieldPath").unwrap_or_default();
        let container = path.split_once('{').and_then(|(_, c)| c.split_once('}'));
        Some(LoggedEvent {
            reason: self.name("reason")?,
            message: self.name("message")?,
            container: container.map_or("", |(c, _)| c),
            warning: self.name("type") == Some("Warning"),
        })
    }
    /// Its error, empty when it has none.
    pub fn error(&self) -> &'a str {
        self.name("error").unwrap_or_default()
    }
}

/// An Event as a log has it (client-go, tools/record/event.go, `StartStructuredLogging`).
#[derive(Clone, Copy, Debug)]
pub struct LoggedEvent<'a> {
    pub reason: &'a str,
    pub message: &'a str,
    /// Of its `fieldPath`: `spec.containers{web}`. Empty for what is of the whole object.
    pub container: &'a str,
    /// Its type is `Warning`.
    pub warning: bool,
}

/// What is noted of a line that says nothing.
pub(super) const NOTHING: u16 = u16::MAX - 1;

/// The signatures that say a fact, where a text finds them.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    signatures: Vec<(Signature, Option<Arc<Report>>)>,
    logs: Texts<u16>,
    events: Texts<u16>,
    spans: Texts<u16>,
    statuses: Texts<u16>,
}

impl Readings {
    pub(super) fn compile(signatures: Vec<Signature>, reports: FxHashMap<Fact, Report>) -> Self {
        let mut all = Self::default();
        let reports: FxHashMap<Fact, Arc<Report>> =
            reports.into_iter().map(|(f, r)| (f, Arc::new(r))).collect();
        for (i, signature) in (0..).zip(&signatures) {
            match &signature.what {
                What::Log { message, .. } => all.logs.add(message, i),
                What::Event { reason, .. } => all.events.add(reason, i),
                What::Span { name, .. } => all.spans.add(name, i),
                What::Pod(PodFact::Message(message)) => all.statuses.add(message, i),
                _ => {}
            }
        }
        let known = |s: &Signature| reports.get(&s.fact?).cloned();
        let with = |s: Signature| {
            let report = known(&s);
            (s, report)
        };
        all.signatures = signatures.into_iter().map(with).collect();
        all
    }

    /// The facts that some evidence says.
    #[cfg(test)]
    pub(super) fn facts(&self) -> impl Iterator<Item = Fact> {
        self.signatures.iter().filter_map(|(c, _)| c.fact)
    }

    /// The best of the signatures that fit: the whole text before its beginning, a longer beginning before a shorter one, one
    /// that contains something before one that need not, else the first.
    fn best<'a>(
        &'a self,
        found: impl Iterator<Item = &'a u16>,
        text: &'a str,
        fits: impl Fn(&What) -> bool,
    ) -> Option<Said<'a>> {
        self.said(self.number(found, fits)?, text)
    }

    /// Number of the best signature.
    fn number<'a>(
        &'a self,
        found: impl Iterator<Item = &'a u16>,
        fits: impl Fn(&What) -> bool,
    ) -> Option<u16> {
        let mut best: Option<((usize, bool), u16)> = None;
        for i in found {
            let Some((signature, _)) = self.signatures.get(usize::from(*i)) else {
                continue;
            };
            let sure = exactness(&signature.what);
            if best.is_none_or(|(known, _)| sure > known) && fits(&signature.what) {
                best = Some((sure, *i));
            }
        }
        Some(best?.1)
    }

    /// A text that was read by the signature of a number.
    fn said<'a>(&'a self, number: u16, text: &'a str) -> Option<Said<'a>> {
        let (signature, report) = self.signatures.get(usize::from(number))?;
        Some(Said {
            fact: signature.fact?,
            text,
            signature,
            report: report.as_deref(),
        })
    }
}

/// How much of a text a signature compares: bytes of its beginning, and whether it looks for more.
fn exactness(what: &What) -> (usize, bool) {
    let of = |p: &Pattern| match p {
        Pattern::Any => 0,
        Pattern::Starts(t) | Pattern::Ends(t) => t.len(),
        Pattern::Is(_) => usize::MAX,
    };
    match what {
        What::Log {
            message, contains, ..
        }
        | What::Event {
            message, contains, ..
        } => (of(message), !contains.is_empty()),
        What::Span { name, .. } => (of(name), false),
        _ => (0, false),
    }
}

impl Map {
    /// What a log line says, if rules and timelines know it.
    pub fn line<'a>(&'a self, line: &'a LogLine) -> Option<Line<'a>> {
        self.said(self.number(line)?, line)
    }
    /// The same of a line that is read by this map only: it is looked up once, and what was found is noted.
    pub(super) fn line_once<'a>(&'a self, line: &'a LogLine) -> Option<Line<'a>> {
        let number = line.noted.get().unwrap_or_else(|| {
            let number = self.number(line).unwrap_or(NOTHING);
            line.noted.set(number);
            number
        });
        // Most lines of a verbose log: nothing of their text is looked at again.
        if number == NOTHING {
            return None;
        }
        self.said(number, line)
    }
    fn number(&self, line: &LogLine) -> Option<u16> {
        let m = &self.readings;
        m.number(m.logs.find(&line.message), |w| matcher::log(w, line))
    }
    fn said<'a>(&'a self, number: u16, line: &'a LogLine) -> Option<Line<'a>> {
        let said = self.readings.said(number, &line.message)?;
        Some(Line { said, line })
    }
    /// What the reason and the message of an Event say.
    pub fn event<'a>(&'a self, reason: &str, message: &'a str) -> Option<Said<'a>> {
        let m = &self.readings;
        m.best(m.events.find(reason), message, |w| {
            matches!(w, What::Event { reason: r, message: m, contains, .. }
                if r.fits(reason)
                    && m.fits(message)
                    && (contains.is_empty() || contains.is_in(message)))
        })
    }
    /// What the message of a pod's status says.
    pub fn status<'a>(&'a self, message: &'a str) -> Option<Said<'a>> {
        let m = &self.readings;
        m.best(
            m.statuses.find(message),
            message,
            |w| matches!(w, What::Pod(PodFact::Message(p)) if p.fits(message)),
        )
    }
    /// What a span says.
    pub fn span(&self, span: &SpanRecord) -> Option<Fact> {
        let m = &self.readings;
        let said = m.best(m.spans.find(&span.name), &span.name, |w| {
            matches!(w, What::Span { name, service }
                if name.fits(&span.name) && service.fits(&span.service))
        })?;
        Some(said.fact)
    }
}

#[cfg(test)]
mod tests;
