//! Reads a log line, an Event or a span: the [`Fact`] that it says, and the named values in its words.

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

/// The failure that a fact reports: the reason that the catalogue of causes is searched by, and the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The reason: constant, or made of names of the line.
    pub(super) reason: Template,
    /// Templates of the text; the first whose names are all known is used.
    pub(super) text: Vec<Template>,
}

/// A text that a signature fits: its fact, and the named values in it.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    pub fact: Fact,
    text: &'a str,
    signature: &'a Signature,
    report: Option<&'a Report>,
}

impl<'a> Said<'a> {
    /// Returns the reason that the catalogue of causes is searched by; `None` when the text reports no failure.
    pub fn reason(&self) -> Option<Cow<'a, str>> {
        self.report?.reason.fill(|key| self.name(key))
    }
    /// Returns a named value: one that the map gives to all texts with these words, else one that stands in the text.
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

/// A log line that a signature fits.
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
    pub const fn fact(&self) -> Fact {
        self.said.fact
    }
    pub const fn line(&self) -> &'a LogLine {
        self.line
    }
    /// Returns a named value: from the message, else from the error's text, else from a field of the line. The fields
    /// `error` and `container` are the line's own.
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
    /// Returns the failure that the line reports, as reason and text; `None` when it reports none.
    pub fn failure(&self) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
        let known = |key: &str| match key {
            "line" => Some(self.line.message.as_str()),
            _ => self.name(key),
        };
        let report = self.said.report?;
        let text = report.text.iter().find_map(|t| t.fill(known));
        Some((report.reason.fill(known)?, text.unwrap_or_default()))
    }
    /// Returns the Event that the component logged when it sent the Event; `None` for other lines.
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
    /// Returns the line's error, empty when it has none.
    pub fn error(&self) -> &'a str {
        self.name("error").unwrap_or_default()
    }
}

/// An Event as its reporter logs it (client-go, tools/record/event.go, `StartStructuredLogging`).
#[derive(Clone, Copy, Debug)]
pub struct LoggedEvent<'a> {
    pub reason: &'a str,
    pub message: &'a str,
    /// The container in the Event's `fieldPath`, `spec.containers{web}`. Empty when the Event is
    /// about the whole object.
    pub container: &'a str,
    /// The Event's type is `Warning`.
    pub warning: bool,
}

/// The number that a line remembers when no signature fits it.
pub(super) const NOTHING: u16 = u16::MAX - 1;

/// The signatures that say a fact, indexed by the text that they look for.
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

    /// Returns the facts that some evidence says.
    #[cfg(test)]
    pub(super) fn facts(&self) -> impl Iterator<Item = Fact> {
        self.signatures.iter().filter_map(|(c, _)| c.fact)
    }

    /// Returns the text as read by the most specific signature that fits: one of the whole text before one of a prefix,
    /// a longer prefix before a shorter one, one with a `contains` before one without, else the first.
    fn best<'a>(
        &'a self,
        found: impl Iterator<Item = &'a u16>,
        text: &'a str,
        fits: impl Fn(&What) -> bool,
    ) -> Option<Said<'a>> {
        self.said(self.number(found, fits)?, text)
    }

    /// Returns the number of the most specific signature.
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

    /// Returns the text as read by the signature with this number.
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

/// Returns how specific a signature is: the bytes of the text that it compares, and whether it has a `contains`.
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
    /// Returns what a log line says; `None` when no signature fits.
    pub fn line<'a>(&'a self, line: &'a LogLine) -> Option<Line<'a>> {
        self.said(self.number(line)?, line)
    }
    /// Like [`Self::line`] for lines that only this map reads: the line remembers the signature's number and is looked
    /// up once.
    pub(super) fn line_once<'a>(&'a self, line: &'a LogLine) -> Option<Line<'a>> {
        let number = line.noted.get().unwrap_or_else(|| {
            let number = self.number(line).unwrap_or(NOTHING);
            line.noted.set(number);
            number
        });
        // Most lines of a verbose log end here, without another look at their text.
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
    /// Returns what the reason and the message of an Event say.
    pub fn event<'a>(&'a self, reason: &str, message: &'a str) -> Option<Said<'a>> {
        let m = &self.readings;
        m.best(m.events.find(reason), message, |w| {
            matches!(w, What::Event { reason: r, message: m, contains, .. }
                if r.fits(reason)
                    && m.fits(message)
                    && (contains.is_empty() || contains.is_in(message)))
        })
    }
    /// Returns what the message of a pod's status says.
    pub fn status<'a>(&'a self, message: &'a str) -> Option<Said<'a>> {
        let m = &self.readings;
        m.best(
            m.statuses.find(message),
            message,
            |w| matches!(w, What::Pod(PodFact::Message(p)) if p.fits(message)),
        )
    }
    /// Returns what a span says.
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
