//! What kubectl prints for people: `kubectl describe`, `kubectl events`, and `kubectl get` of pods, Events, nodes and claims.
//!
//! Such text is often all that is left of a pod: in a ticket, in a chat, in a support bundle. Objects are put together
//! as the API would have written them, and decoded like those of the API ([`super::decode`]), so that one place decides
//! what is read at all. The text says less: [`pod`] says what is missing.
//!
//! **Time.** Ages (`3m`) count back from the moment at which kubectl ran, which the text does not say. It is told by
//! the Event `Scheduled`, as old as the pod's `Start Time`; otherwise by the caller ([`TimeHint::not_after`]).
//!
//! | module | holds |
//! |---|---|
//! | `outline` | keys, values, and what is indented below them |
//! | `table` | rows of Events, of every release |
//! | `events` | these rows as objects of the API |
//! | `age` | `28s (x9 over 6m40s)` |
//! | `command` | `$ kubectl get pods -n shop` |
//! | `pods` | rows of pods, of every release |
//! | `listed` | rows of nodes and of claims |
//! | `pod`, `object` | a description as an object of the API |

use serde_json::Value;

use super::super::{Fed, LineDecoder, TimeHint};
use super::decode::{Occurrences, decode_object, note};
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::{Body, Nanos, Observation, Stamp, Text, pod::WatchEvent, stamp::SECOND};

mod age;
mod command;
mod events;
mod listed;
mod object;
mod outline;
mod pod;
mod pods;
mod table;

use command::Command;
pub use events::is_printed;
use events::{event, uid};
pub use pods::ROW_UID;
use pods::Taken;
use table::{Columns, Row};

/// Begin of the UIDs that are made here, of namespace and name.
pub const MADE_UID: &str = "described:";
/// Begin and end of a code block in Markdown.
const FENCE: &str = "```";
/// Longest description that is taken, bytes.
const LONGEST: usize = 16 << 20;

/// Decodes lines that kubectl printed. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct KubectlText {
    hint: TimeHint,
    /// The description that is being read: its lines, without those of its Events.
    lines: Vec<String>,
    bytes: usize,
    /// The table that is being read.
    columns: Option<Columns>,
    /// The rows of that table.
    rows: Vec<Row>,
    /// True if the message of the last row has lines that may be no part of it.
    is_doubtful: bool,
    /// The table of pods that is being read.
    pods: pods::Table,
    /// The table of nodes or claims that is being read.
    listed: Option<listed::Table>,
    /// True in a table of other objects.
    of_others: bool,
    /// True after a blank line and at the begin.
    after_blank: bool,
    /// The namespace of the command that printed this.
    namespace: String,
    /// The bounds of the list of pods, if the line before is a command that prints every pod of them.
    whole: Option<Text>,
    occurrences: Occurrences,
}

/// When kubectl ran.
#[derive(Clone, Copy, Debug)]
struct Moment(Nanos);

impl Moment {
    /// Returns the time that an age counts back to, as the API writes it.
    fn ago(self, text: &str) -> Option<String> {
        age::age(text.trim()).map(|a| self.before(a).to_rfc3339_seconds())
    }
    fn before(self, age: age::Age) -> Nanos {
        Nanos(self.0.0.saturating_sub(age.seconds.saturating_mul(SECOND)))
    }
}

/// Returns a time of kubectl (`Mon, 12 Feb 2024 20:12:59 +0000`) as the API writes it.
fn absolute(text: &str) -> Option<String> {
    Nanos::parse_rfc2822(text).map(Nanos::to_rfc3339_seconds)
}

impl KubectlText {
    pub(super) fn new(hint: TimeHint) -> Self {
        Self {
            hint,
            after_blank: true,
            ..Self::default()
        }
    }

    /// Decodes what was collected, if anything.
    fn flush(&mut self, out: &mut Vec<Observation>) -> Fed {
        let text = std::mem::take(&mut self.lines);
        let rows = std::mem::take(&mut self.rows);
        let (pods, scope) = self.pods.end();
        let is_doubtful = std::mem::take(&mut self.is_doubtful);
        self.columns = None;
        self.of_others = false;
        self.bytes = 0;
        if let Some(table) = self.listed.take() {
            let moment = self.moment(&[], &[]);
            return decode_all(table.end().into_iter(), moment, out);
        }
        if !pods.is_empty() || scope.is_some() {
            return self.listed(&pods, scope, out);
        }
        if text.is_empty() && rows.is_empty() {
            return Fed::Partial;
        }
        let lines = outline::read(text.iter().map(String::as_str));
        let moment = self.moment(&lines, &rows);
        if lines.is_empty() {
            let namespace = self.namespace.clone();
            if is_doubtful {
                self.namespace.clear();
            }
            let of_command = Described {
                namespace: &namespace,
                ..Described::default()
            };
            return self.events(rows, &of_command, moment, out);
        }
        let Some(kind) = object::kind(&lines) else {
            return Fed::Ignored("description of an object of another kind");
        };
        let described = Described::new(kind, &lines, &rows);
        let object = if kind == "Pod" {
            let known = pod::Known::new(&described.uid, &lines, &rows, moment);
            Some(pod::object(&lines, &known))
        } else {
            object::object(kind, &lines)
        };
        let before = out.len();
        let mut fed = Fed::Observed(0);
        if let Some(object) = object {
            match decode(&object, Stamp::exact(moment.0)) {
                Ok(o) => out.push(o),
                Err(why) => fed = why,
            }
        }
        let events = self.events(rows, &described, moment, out);
        match (fed, events) {
            (Fed::Observed(_), Fed::Observed(_) | Fed::Partial) => {
                Fed::Observed(out.len() - before)
            }
            (Fed::Observed(_), other) | (other, _) => other,
        }
    }

    /// Decodes rows of a table of pods; `scope`: the bounds of the list, if it lacks no pod of them.
    fn listed(&self, rows: &[pods::Row], scope: Option<Text>, out: &mut Vec<Observation>) -> Fed {
        let moment = self.moment(&[], &[]);
        let fed = decode_all(rows.iter().map(|row| row.object(moment)), moment, out);
        let names = scope.map(|scope| names(rows, scope, moment));
        let more = names.iter().len();
        out.extend(names);
        match fed {
            Fed::Observed(n) => Fed::Observed(n + more),
            other => other,
        }
    }

    /// Decodes rows, each about the object that it names, or about `described`.
    fn events(
        &mut self,
        rows: Vec<Row>,
        described: &Described<'_>,
        moment: Moment,
        out: &mut Vec<Observation>,
    ) -> Fed {
        let before = out.len();
        let mut fed = Fed::Observed(0);
        for (n, row) in rows.into_iter().enumerate() {
            let event = event(row, described, moment, n);
            match decode(&event, Stamp::exact(moment.0)) {
                Ok(o) => {
                    let seen =
                        matches!(&o.body, Body::Event(e) if !self.occurrences.is_news(e, o.stamp));
                    if !seen {
                        out.push(o);
                    }
                }
                Err(why) => fed = why,
            }
        }
        match fed {
            Fed::Observed(_) => Fed::Observed(out.len() - before),
            other => other,
        }
    }

    /// Returns when kubectl ran.
    fn moment(&self, lines: &[outline::Line<'_>], rows: &[Row]) -> Moment {
        // The kubelet takes a pod on as soon as it is bound: the Event is as old as the start.
        let start = outline::value(lines, "Start Time").and_then(Nanos::parse_rfc2822);
        let bound = rows.iter().find(|r| r.reason == "Scheduled");
        let bound = bound.and_then(|r| r.ages.last);
        let told = self.hint.not_after.or(self.hint.near);
        let by_start = start.zip(bound).map(|(start, age)| {
            let from = start.plus(age.seconds.saturating_mul(SECOND));
            // One second more, as the kubelet is a moment later than the scheduler.
            (from, from.plus((age.unit + 1).saturating_mul(SECOND)))
        });
        Moment(match (by_start, told) {
            (Some((from, to)), Some(told)) if (from..=to).contains(&told) => told,
            (Some((from, _)), _) => from,
            (None, Some(told)) => told,
            (None, None) => start.unwrap_or_default(),
        })
    }
}

impl LineDecoder for KubectlText {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let line = String::from_utf8_lossy(line);
        // A quotation in a ticket or a letter.
        let quoted = line.strip_prefix("> ");
        let text = quoted.unwrap_or(if &*line == ">" { "" } else { &*line });
        let text = text.trim_end();
        let after_blank = std::mem::replace(&mut self.after_blank, text.trim().is_empty());
        if text.trim().is_empty() {
            self.of_others = false;
            return if self.is_open() {
                Fed::Partial
            } else {
                Fed::Ignored("blank line")
            };
        }
        if text.starts_with(FENCE) {
            return match self.flush(out) {
                Fed::Partial => Fed::Ignored("code fence"),
                fed => fed,
            };
        }
        let top = outline::indent(text) == 0;
        let command = Command::of(text);
        let is_command = command.is_some();
        if let Some(command) = command
            && self.ends_at(&command, after_blank, text)
        {
            let fed = self.flush(out);
            self.namespace = command.namespace;
            self.whole = command.whole;
            return match fed {
                Fed::Partial => Fed::Ignored("command"),
                fed => fed,
            };
        }
        if after_blank && command::is_of_ticket(text) {
            let fed = self.flush(out);
            self.namespace.clear();
            self.whole = None;
            return match fed {
                Fed::Partial => Fed::Ignored("text of a ticket"),
                fed => fed,
            };
        }
        // What a command prints follows it at once.
        let whole = self.whole.take();
        // kubectl leaves a blank line between two descriptions. A message of several lines may look like the first
        // line of one.
        if is_name(text) && (top || !self.is_open()) && (after_blank || !self.is_open()) {
            let fed = self.flush(out);
            self.namespace.clear();
            self.keep(text);
            return fed;
        }
        if let Some(columns) = pods::Columns::of_titles(text) {
            let fed = self.flush(out);
            self.pods.begin(columns, &self.namespace, whole);
            return fed;
        }
        if let Some(table) = listed::Table::of_titles(text) {
            let fed = self.flush(out);
            self.listed = Some(table);
            return fed;
        }
        if let Some(columns) = Columns::of_titles(text) {
            // The Events of a description are indented; a list of its own is not.
            let fed = if self.lines.is_empty() || (top && self.columns.is_some()) {
                self.flush(out)
            } else {
                Fed::Partial
            };
            self.columns = Some(columns);
            return fed;
        }
        if let Some(taken) = self.row(text) {
            return match taken {
                Taken::Row => Fed::Partial,
                Taken::Nowhere => {
                    Fed::Ignored("object of a namespace that is not named (ask kubectl with -A)")
                }
                Taken::Unread if !after_blank => {
                    Fed::Malformed("row whose cells cannot be told apart")
                }
                Taken::Unread | Taken::No => {
                    self.pods.is_cut |= !after_blank && !is_titles(text);
                    let rows = self.flush(out);
                    match (rows, self.line(text.as_bytes(), out)) {
                        (Fed::Observed(n), Fed::Observed(more)) => Fed::Observed(n + more),
                        (Fed::Observed(n), _) if n > 0 => Fed::Observed(n),
                        (Fed::Malformed(why), _) => Fed::Malformed(why),
                        (_, next) => next,
                    }
                }
            };
        }
        if !self.is_open()
            && let Some(ignored) = self.other(text, whole, out)
        {
            return ignored;
        }
        if top && text.starts_with("Events:") && self.is_open() {
            self.columns = Some(Columns::of_describe());
            return Fed::Partial;
        }
        if let Some(columns) = &self.columns {
            if is_ruler(text) {
                return Fed::Partial;
            }
            self.bytes = self.bytes.saturating_add(text.len());
            if self.bytes > LONGEST {
                let _ = self.flush(out);
                return Fed::Malformed("description is too long");
            }
            if let Some(row) = columns.row(text) {
                self.rows.push(row);
                return Fed::Partial;
            }
            // The next line of a message.
            return match self.rows.last_mut() {
                Some(row) => {
                    self.is_doubtful |= after_blank || is_command;
                    row.message.push('\n');
                    row.message.push_str(text.trim());
                    Fed::Partial
                }
                // A container's last message said `Events:`.
                None if !self.lines.is_empty() => {
                    self.columns = None;
                    self.keep(text);
                    Fed::Partial
                }
                None => Fed::Malformed("not a row of Events"),
            };
        }
        if self.lines.is_empty() {
            return Fed::Malformed("neither JSON nor what kubectl prints");
        }
        self.keep(text);
        if self.bytes > LONGEST {
            let _ = self.flush(out);
            return Fed::Malformed("description is too long");
        }
        Fed::Partial
    }

    fn finish(&mut self, out: &mut Vec<Observation>) -> Fed {
        self.flush(out)
    }
}

impl KubectlText {
    fn is_open(&self) -> bool {
        let in_table = self.pods.is_open() || self.listed.is_some();
        in_table || !self.lines.is_empty() || self.columns.is_some()
    }

    /// Gives a line to the table that is being read, if there is one.
    fn row(&mut self, text: &str) -> Option<Taken> {
        let moment = self.moment(&[], &[]);
        match &mut self.listed {
            Some(table) => Some(table.line(text, &self.namespace, moment)),
            None => self.pods.is_open().then(|| self.pods.line(text)),
        }
    }

    /// True if what is being read has ended where this command stands. Arguments of containers and messages of several lines may
    /// hold commands too.
    fn ends_at(&self, command: &Command, after_blank: bool, text: &str) -> bool {
        let is_text = !self.lines.is_empty() || self.columns.is_some();
        let is_apart = after_blank || command.is_prompted;
        let first = self.lines.first().map(|first| outline::indent(first));
        !is_text || (is_apart && first.is_none_or(|first| outline::indent(text) <= first))
    }

    /// Takes a line between what is read: that there are no pods, or a line of a table of other objects. `None` for every other
    /// line, behind which the command before it says nothing any more.
    fn other(
        &mut self,
        text: &str,
        whole: Option<Text>,
        out: &mut Vec<Observation>,
    ) -> Option<Fed> {
        if let Some(scope) = whole.filter(|whole| command::is_none_found(text, whole)) {
            return Some(self.listed(&[], Some(scope), out));
        }
        self.of_others |= is_titles(text);
        if !self.of_others {
            self.namespace.clear();
            return None;
        }
        Some(Fed::Ignored("table of other objects"))
    }

    fn keep(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        self.lines.push(text.to_owned());
    }
}

/// What a description is about.
#[derive(Debug, Default)]
struct Described<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: String,
    /// Name and image of each container.
    containers: Vec<(&'a str, &'a str)>,
}

impl<'a> Described<'a> {
    fn new(kind: &'a str, lines: &[outline::Line<'a>], rows: &[Row]) -> Self {
        let mut out = Self {
            kind,
            namespace: outline::value(lines, "Namespace").unwrap_or_default(),
            name: outline::value(lines, "Name").unwrap_or_default(),
            ..Self::default()
        };
        if kind == "Pod" {
            out.uid = uid(&out, rows);
            for title in ["Init Containers", "Containers", "Ephemeral Containers"] {
                let all = outline::get(lines, title).into_iter();
                let all = all.flat_map(|l| &l.below).filter(|c| !c.key.is_empty());
                out.containers
                    .extend(all.map(|c| (c.key, c.value("Image").unwrap_or_default())));
            }
        }
        out
    }
}

/// Returns the names in a table that lacks no pod of its scope.
fn names(rows: &[pods::Row], scope: Text, moment: Moment) -> Observation {
    let stamp = Stamp::exact(moment.0);
    let mut o = note(WatchNote::NAMES, WatchKind::ListEnd, "", stamp);
    if let Body::Watch(n) = &mut o.body {
        n.scope = scope;
        let names: Vec<String> = rows.iter().map(pods::Row::key).collect();
        n.detail = names.join(" ").into();
    }
    o
}

/// Decodes the objects of a table that kubectl printed at `moment`.
fn decode_all(
    objects: impl Iterator<Item = Value>,
    moment: Moment,
    out: &mut Vec<Observation>,
) -> Fed {
    let before = out.len();
    let mut fed = Fed::Observed(0);
    for object in objects {
        match decode(&object, Stamp::exact(moment.0)) {
            Ok(o) => out.push(o),
            Err(why) => fed = why,
        }
    }
    match fed {
        Fed::Observed(_) => Fed::Observed(out.len() - before),
        other => other,
    }
}

fn decode(object: &Value, stamp: Stamp) -> Result<Observation, Fed> {
    let json = serde_json::to_vec(object).map_err(|_| Fed::Malformed("not an object"))?;
    decode_object(&json, "", WatchEvent::Listed, stamp)
}

/// `Name:  web-0`, which is the first line of each description.
fn is_name(text: &str) -> bool {
    let rest = text.trim_start().strip_prefix("Name:");
    rest.is_some_and(|r| r.starts_with([' ', '\t']) && !r.trim().is_empty())
}

/// The titles of a table of any objects.
fn is_titles(text: &str) -> bool {
    let is_title = |w: &str| {
        let of_title = |b: u8| b.is_ascii_uppercase() || b"-()".contains(&b);
        w.bytes().all(of_title)
    };
    text.starts_with("NAME") && text.split_whitespace().all(is_title)
}

/// `----     ------   ----`
fn is_ruler(text: &str) -> bool {
    text.chars().all(|c| c == '-' || c.is_whitespace())
}

#[cfg(test)]
mod tests;
