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
//! | `line` | what a line begins, ends or goes on with |
//! | `held` | lines that later ones tell what they are |
//! | `ticket` | prompts, headings, code blocks and quotations around it |
//! | `outputs` | a map of commands and what they printed |
//! | `outline` | keys, values, and what is indented below them |
//! | `table` | rows of Events, of every release |
//! | `events` | these rows as objects of the API |
//! | `piece` | descriptions whose begin is missing |
//! | `embedded` | objects of the API in YAML or JSON, and parts of them |
//! | `fragment` | rows and messages of Events that stand alone |
//! | `sentence` | where a message ends within a sentence |
//! | `attribute` | of which object and container Events are |
//! | `gone` | pods that are gone by what stands below |
//! | `age` | `28s (x9 over 6m40s)` |
//! | `passed`, `printed` | how much time passed between what a text shows, and the text read as of those moments |
//! | `command` | `$ kubectl get pods -n shop` |
//! | `pods` | rows of pods, of every release |
//! | `waiting` | sentences that say that a pod waits |
//! | `listed` | rows of nodes and of claims |
//! | `crictl` | rows of `crictl ps` and `crictl pods`, which people print beside it |
//! | `wrapped` | lines that a terminal or a mail program cut |
//! | `pod`, `object` | a description as an object of the API |

use rustc_hash::FxHashSet;
use serde_json::Value;

use super::super::{Fed, LineDecoder, TimeHint};
use super::decode::{Occurrences, decode_object, note};
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::{Body, Nanos, Observation, PodUid, Stamp, Text, pod::WatchEvent, stamp::SECOND};

mod age;
mod attribute;
mod command;
mod crictl;
mod embedded;
mod events;
mod fragment;
mod gone;
mod held;
mod line;
mod listed;
mod object;
mod outline;
mod outputs;
mod passed;
mod piece;
mod pod;
mod pods;
mod printed;
mod sentence;
mod table;
mod ticket;
mod waiting;
mod wrapped;

use attribute::Named;
pub use embedded::{Embedded, Unread, embedded};
use events::{event, uid};
pub use events::{is_printed, is_undated};
pub use fragment::{NAMESPACE, has_event};
pub use gone::EARLIER;
use held::Held;
pub use outputs::{begins_outputs, outputs};
use passed::Passed;
pub use pods::ROW_UID;
pub(super) use printed::Printed;
use table::{Columns, Row};
pub use ticket::resembles_printed;
use waiting::Waiting;
pub use wrapped::{Joined, joined};

/// Begin of the UIDs that are made here, of namespace and name.
pub const MADE_UID: &str = PodUid::DESCRIBED;
/// A kubelet reports the conditions of its node at least this often (1.36: pkg/kubelet/apis/config/v1beta1/defaults.go,
/// `NodeStatusReportFrequency` 5 min); twice that, ns.
const HEARTBEAT: i64 = 600 * SECOND;
/// Why a line is left out that is nothing that is read.
const UNKNOWN: &str = "neither JSON nor what kubectl prints";
/// Reason of an Event with which an owner's controller reports that it cannot create a pod.
const FAILED_CREATE: &str = "FailedCreate";
const CUT: Fed = Fed::Malformed("row that was cut");
/// Longest description that is taken, bytes.
const LONGEST: usize = 16 << 20;

/// Decodes lines that kubectl printed. See the [module](self).
#[derive(Debug, Default)]
struct KubectlText {
    hint: TimeHint,
    /// The description that is being read: its lines, without those of its Events. A container's last message is one of them,
    /// whatever lines it has.
    lines: Vec<String>,
    bytes: usize,
    /// Number of columns by which the first line of what is being read is indented.
    base: usize,
    /// True if that line stood in a quotation.
    is_quoted: bool,
    /// True if the last line does.
    in_quotation: bool,
    /// What is being read, if its begin is missing.
    piece: Option<piece::Begun>,
    /// Number of these so far.
    pieces: usize,
    /// The indent of the last line `State: Terminated`, while lines below it are read.
    state: Option<usize>,
    /// Lines that later ones tell what they are.
    held: Option<Held>,
    /// The table of Events that is being read.
    columns: Option<Columns>,
    /// The rows of that table.
    rows: Vec<Row>,
    /// Number of columns by which these are indented.
    rows_indent: usize,
    /// True if other text began behind these rows. It may be a part of a message: then more rows follow.
    has_ended: bool,
    /// The namespace of the command that printed a list of Events.
    of_list: String,
    /// True if the message of the last row has lines that may be no part of it.
    is_doubtful: bool,
    /// Length of the last row's message up to its first blank line, bytes. What follows is a part of it only if more rows do.
    until_blank: Option<usize>,
    /// The table of pods that is being read.
    pods: pods::Table,
    /// The table of nodes or claims that is being read.
    listed: Option<listed::Table>,
    /// The table of the runtime that is being read.
    runtime: Option<crictl::Table>,
    /// If these rows have no titles, or are only messages: the first word of the line at which they begin.
    alone: Option<String>,
    /// True in a code block.
    in_block: bool,
    /// True in a table of other objects.
    of_others: bool,
    /// True after a blank line and at the begin.
    after_blank: bool,
    /// The namespace of the command that printed this.
    namespace: String,
    /// The object that the command before this describes.
    described: Option<command::Described>,
    /// True if the line before is a command that lists claims.
    lists_claims: bool,
    /// The pod whose logs the command before this prints.
    logged: Option<Named>,
    /// The pods of the last table that are not well.
    sick: Vec<Named>,
    /// The rows of that table.
    table: Vec<pods::Row>,
    /// The pods that messages of Events name.
    named: attribute::Pods,
    /// Names of the pods that tables and descriptions show.
    shown: FxHashSet<String>,
    /// The numbers that tell rows of Events apart.
    numbers: events::Numbers,
    /// The bounds of the list of pods, if the line before is a command that prints every pod of them.
    whole: Option<Text>,
    occurrences: Occurrences,
    /// True when there are no more lines.
    is_end: bool,
    /// True once something was read as of the moment that the caller told.
    is_dated: bool,
    /// The latest moment at which the newest output was printed, as far as one tells that.
    latest: Option<Nanos>,
    /// When the command ended of which the output is being read, where the text tells it.
    ran: Option<Nanos>,
    /// The time that passed since the first output.
    passed: Passed,
    /// The time that passes until the last output, s. The caller's moment is that of the last one.
    lasts: i64,
    /// What kubectl answered about pods that are gone.
    answers: Vec<gone::Given>,
    /// What was left out beside what the results of lines say.
    left: Vec<Fed>,
}

/// Returns the latest moment at which the newest description of a pod in a text can have been printed; `None` where none
/// tells it.
pub fn printed_at(text: &str) -> Option<Nanos> {
    let mut decoder = KubectlText::new(TimeHint::default());
    let mut out = Vec::new();
    for line in text.lines() {
        decoder.line(line.as_bytes(), &mut out);
    }
    decoder.finish(&mut out);
    decoder.latest
}

/// When kubectl ran.
#[derive(Clone, Copy, Debug)]
struct Moment(Nanos);

impl Moment {
    /// Returns the time that an age counts back to, as the API writes it.
    fn ago(self, text: &str) -> Option<String> {
        age::age(text.trim()).map(|a| self.before(a).to_rfc3339_seconds())
    }
    /// Nothing in a text is more exact than a second: what is finer is of the time at which its file was written.
    fn stamp(self) -> Stamp {
        let at = Nanos::from_secs(self.0.0.div_euclid(SECOND));
        Stamp::new(at, SECOND as u32, self.0)
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
    fn new(hint: TimeHint) -> Self {
        Self {
            hint,
            after_blank: true,
            ..Self::default()
        }
    }

    /// The same for a text that shows how much time passed while it was printed, s.
    fn over(hint: TimeHint, lasts: i64) -> Self {
        Self {
            lasts,
            ..Self::new(hint)
        }
    }

    /// Returns how much time passed between the first and the last output so far, s.
    const fn lasts(&self) -> i64 {
        self.passed.seconds()
    }

    /// Decodes what was collected, if anything.
    fn flush(&mut self, out: &mut Vec<Observation>) -> Fed {
        let fed = self.decoded(out);
        self.is_dated |= matches!(fed, Fed::Observed(_));
        fed
    }

    fn decoded(&mut self, out: &mut Vec<Observation>) -> Fed {
        let mut text = std::mem::take(&mut self.lines);
        let mut rows = std::mem::take(&mut self.rows);
        if let (Some(until), Some(last)) = (self.until_blank.take(), rows.last_mut()) {
            last.message.truncate(until);
        }
        if self.is_end && is_cut(&rows) {
            rows.pop();
            self.left.push(CUT);
        }
        if self.alone.is_some() {
            let cut = rows.extract_if(.., |row| row.message.is_empty());
            self.left.extend(cut.map(|_| CUT));
        }
        let (pods, scope) = self.pods.end();
        let is_doubtful = std::mem::take(&mut self.is_doubtful);
        let of_list = std::mem::take(&mut self.of_list);
        self.columns = None;
        self.state = None;
        self.has_ended = false;
        let is_alone = self.alone.take().is_some();
        self.of_others = false;
        self.bytes = 0;
        if let Some(table) = self.runtime.take() {
            let moment = self.moment(&[], &[]);
            let told = table.end(moment);
            let fed = Fed::Observed(usize::from(told.is_some()));
            out.extend(told);
            return fed;
        }
        if let Some(table) = self.listed.take() {
            let objects = table.end();
            self.passed
                .show(objects.iter().map(listed::shown).collect());
            let moment = self.moment(&[], &[]);
            return self.decode_all(objects.into_iter(), moment, out);
        }
        if !pods.is_empty() || scope.is_some() {
            return self.listed(&pods, scope, out);
        }
        if text.is_empty() && rows.is_empty() {
            return Fed::Partial;
        }
        let is_piece = match self.piece.take() {
            Some(piece::Begun::Container(_)) => {
                let of = self.pod().map(|pod| pod.name.as_str());
                let row = of.and_then(|name| pods::row_of(&self.table, name));
                piece::Piece::complete(&mut text, row)
            }
            Some(piece::Begun::Status) => piece::is_of_pod(&text),
            None => {
                piece::indented(&mut text);
                piece::complete_cut(&mut text, &self.table);
                self.name_namespace(&mut text);
                true
            }
        };
        if !is_piece {
            return Fed::Malformed(UNKNOWN);
        }
        let lines = outline::read(text.iter().map(String::as_str));
        self.date(&mut rows);
        self.passed.happened(&self.of_events(&lines), &rows);
        let moment = self.moment(&lines, &rows);
        if lines.is_empty() {
            if is_doubtful {
                self.namespace.clear();
            }
            return self.events_alone(rows, &of_list, is_alone, moment, out);
        }
        let Some(kind) = object::kind(&lines) else {
            // The middle of a pod's description was left out: its Events still tell of what they are.
            if object::is_of_pod(&lines, &rows) {
                for row in &mut rows {
                    row.is_described = true;
                }
                let described = Described::new("Pod", &lines, &rows);
                return self.events(rows, &described, moment, out);
            }
            // An owner whose description was left out but for its Events: its controller names the pods that it cannot create.
            rows.retain(|row| row.reason == FAILED_CREATE);
            if !rows.is_empty() {
                return self.events_alone(rows, "", true, moment, out);
            }
            return Fed::Ignored("description of an object of another kind");
        };
        let moment = object::heard(kind, &lines)
            .filter(|heard| moment.0.since(*heard) > HEARTBEAT || *heard > moment.0)
            .map_or(moment, Moment);
        let described = Described::new(kind, &lines, &rows);
        let object = if kind == "Pod" {
            self.shown.insert(described.name.to_owned());
            let known = pod::Known::new(&described.uid, &lines, &rows, moment);
            Some(pod::object(&lines, &known))
        } else {
            object::object(kind, &lines)
        };
        let before = out.len();
        self.decode_all(object.into_iter(), moment, out);
        self.events(rows, &described, moment, out);
        Fed::Observed(out.len() - before)
    }

    /// Says of the description of a pod which namespace the pod is in where it does not: before Kubernetes 1.1 kubectl did not print it.
    fn name_namespace(&self, lines: &mut Vec<String>) {
        let has = |key: &str| lines.iter().any(|line| line.trim_start().starts_with(key));
        let name = lines
            .first()
            .filter(|line| line.trim_start().starts_with("Name:"));
        if let Some(name) = name
            && !has("Namespace:")
            && piece::is_of_pod(lines)
        {
            let indent = outline::indent(name);
            let of_command = self.described.as_ref().filter(|d| d.kind == "Pod");
            let namespace = of_command.map_or("", |d| d.object.namespace.as_str());
            let known = Some(namespace).filter(|n| !n.is_empty());
            lines.insert(
                1,
                format!("{:indent$}Namespace:  {}", "", known.unwrap_or(NAMESPACE)),
            );
        }
    }

    /// Decodes rows of Events without the description of their object. `is_chosen`: somebody chose these rows, so they ask about their
    /// objects, however old the Events are.
    fn events_alone(
        &mut self,
        mut rows: Vec<Row>,
        of_list: &str,
        is_chosen: bool,
        moment: Moment,
        out: &mut Vec<Observation>,
    ) -> Fed {
        let of_command = Described {
            namespace: of_list,
            ..Described::default()
        };
        let told = attribute::Told {
            described: self.described.as_ref(),
            pod: self.one(),
            named: Some(&self.named),
            logged: self.logged.as_ref(),
        };
        attribute::attribute(&mut rows, of_list, &told);
        self.named.extend(&rows);
        for row in rows.iter_mut().filter(|_| is_chosen) {
            fragment::name_volume(&mut row.message);
            row.is_described = true;
        }
        self.events(rows, &of_command, moment, out)
    }

    /// Returns the object of which these are the Events: that of a description, or that of the command before them.
    fn of_events(&self, lines: &[outline::Line<'_>]) -> Named {
        let of = |key| outline::value(lines, key).map(str::to_owned);
        match (of("Name"), &self.described) {
            (Some(name), _) => Named {
                namespace: of("Namespace").unwrap_or_default(),
                name,
            },
            (None, Some(described)) => described.object.clone(),
            (None, None) => Named::default(),
        }
    }

    /// Returns the only pod of the last table that is not well.
    fn one(&self) -> Option<&Named> {
        match self.sick.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Returns the pod that the text before names, if it names one.
    fn pod(&self) -> Option<&Named> {
        let described = self.described.as_ref().filter(|d| d.kind == "Pod");
        described.map(|d| &d.object).or_else(|| self.one())
    }

    /// Takes a sentence that says that a pod waits. A table and a description say more.
    fn waits(&mut self, mut waiting: Waiting, out: &mut Vec<Observation>) -> Fed {
        if self.shown.contains(&waiting.pod.name) {
            return Fed::Ignored("sentence about a pod that is shown");
        }
        let before = attribute::Told {
            described: self.described.as_ref(),
            pod: None,
            named: Some(&self.named),
            logged: self.logged.as_ref(),
        };
        waiting.pod = attribute::whole(waiting.pod, &attribute::Pods::default(), &before);
        let all = [&waiting.pod.namespace, &self.namespace];
        let namespace = all.into_iter().find(|n| !n.is_empty());
        waiting.pod.namespace = namespace.map_or_else(|| NAMESPACE.to_owned(), String::clone);
        self.sick = vec![waiting.pod.clone()];
        let moment = self.moment(&[], &[]);
        self.decode_all(std::iter::once(waiting.object(moment)), moment, out)
    }

    /// Decodes rows of a table of pods; `scope`: the bounds of the list, if it lacks no pod of them.
    fn listed(
        &mut self,
        rows: &[pods::Row],
        scope: Option<Text>,
        out: &mut Vec<Observation>,
    ) -> Fed {
        self.sick = rows.iter().filter_map(pods::Row::sick).collect();
        self.shown.extend(rows.iter().map(|row| row.name.clone()));
        self.table = rows.to_vec();
        let before = out.len();
        for output in pods::outputs(rows) {
            self.passed
                .show(output.iter().map(pods::Row::shown).collect());
            let moment = self.moment(&[], &[]);
            let objects = output.iter().map(|row| row.object(moment));
            self.decode_all(objects, moment, out);
        }
        let moment = self.moment(&[], &[]);
        out.extend(scope.map(|scope| names(rows, scope, moment)));
        Fed::Observed(out.len() - before)
    }

    /// Decodes rows, each about the object that it names, or about `described`.
    fn events(
        &mut self,
        mut rows: Vec<Row>,
        described: &Described<'_>,
        moment: Moment,
        out: &mut Vec<Observation>,
    ) -> Fed {
        events::put_in_order(&mut rows);
        events::put_hosts(&mut rows, described);
        let before = out.len();
        self.numbers.begin();
        for row in rows {
            let n = self.numbers.of(&row, described);
            let event = event(row, described, moment, n);
            match decode(&event, moment.stamp()) {
                Ok(o) => {
                    let seen =
                        matches!(&o.body, Body::Event(e) if !self.occurrences.is_news(e, o.stamp));
                    if seen {
                        self.left.push(Fed::Ignored("event seen before"));
                    } else {
                        out.push(o);
                    }
                }
                Err(why) => self.left.push(why),
            }
        }
        Fed::Observed(out.len() - before)
    }

    /// Decodes objects as of the `moment` at which kubectl printed them.
    fn decode_all(
        &mut self,
        objects: impl Iterator<Item = Value>,
        moment: Moment,
        out: &mut Vec<Observation>,
    ) -> Fed {
        let before = out.len();
        for object in objects {
            match decode(&object, moment.stamp()) {
                Ok(o) => out.push(o),
                Err(why) => self.left.push(why),
            }
        }
        Fed::Observed(out.len() - before)
    }

    /// Makes ages of times that stand before rows. The newest of them is the moment of all that follows, if nothing was read before.
    fn date(&mut self, rows: &mut [Row]) {
        let Some(newest) = rows.iter().filter_map(|row| row.at).max() else {
            return;
        };
        if !self.is_dated {
            self.hint.not_after = Some(newest.plus(self.until_last()));
        }
        for row in rows {
            let ago = row.at.map(|at| newest.since(at).div_euclid(SECOND));
            row.ages.last = ago.map(age::Age::of_seconds).or(row.ages.last);
        }
    }

    /// Returns how long before the last output this one was printed, ns.
    fn until_last(&self) -> i64 {
        let seconds = self.lasts.saturating_sub(self.passed.seconds());
        seconds.max(0).saturating_mul(SECOND)
    }

    /// Returns when kubectl ran.
    fn moment(&mut self, lines: &[outline::Line<'_>], rows: &[Row]) -> Moment {
        if let Some(ran) = self.ran {
            self.latest = self.latest.max(Some(ran));
            return Moment(ran);
        }
        // The kubelet takes a pod on as soon as it is bound: the Event is as old as the start.
        let start = outline::value(lines, "Start Time").and_then(Nanos::parse_rfc2822);
        let bound = rows.iter().find(|r| r.reason == "Scheduled");
        let bound = bound.and_then(|r| r.ages.last);
        let told = self.hint.not_after.or(self.hint.near);
        let told = told.map(|told| told.plus(-self.until_last()));
        let since = |start: Nanos, age: age::Age| {
            let from = start.plus(age.seconds.saturating_mul(SECOND));
            // One second more, as the kubelet is a moment later than the scheduler.
            (from, from.plus((age.unit + 1).saturating_mul(SECOND)))
        };
        let by_start = start.zip(bound).map(|(start, age)| since(start, age));
        // A pod is made before it starts, so that its age in the table before is no less than that.
        let name = outline::value(lines, "Name");
        let row = name.and_then(|name| pods::row_of(&self.table, name));
        let by_age = start.zip(row.and_then(pods::Row::age));
        // An age of a day may be nearly two days: no more is told of the pod than it has lived for sure.
        let by_age = by_age
            .map(|(start, age)| since(start, age))
            .filter(|(_, to)| told.is_none_or(|told| *to < told))
            .map(|(from, _)| (from, from));
        // Events tell more of when it was than the end of a container does.
        let of_end = || while_it_waits(lines).filter(|_| rows.is_empty());
        let by_start = by_start.or(by_age).or_else(of_end);
        self.latest = self.latest.max(by_start.map(|(_, to)| to));
        let at = match (by_start, told) {
            (Some((from, to)), Some(told)) if (from..=to).contains(&told) => told,
            (Some((from, _)), _) => from,
            (None, Some(told)) => told,
            (None, None) => start.unwrap_or_default(),
        };
        // Ages are rounded, and the cluster's clock may be ahead of the one that told the moment.
        Moment(newest(lines).map_or(at, |newest| newest.max(at)))
    }
}

/// Returns the newest of the times that a description gives of what has happened: it was printed no earlier.
fn newest(lines: &[outline::Line<'_>]) -> Option<Nanos> {
    const HAPPENED: [&str; 8] = [
        "AcquireTime",
        "Completed At",
        "CreationTimestamp",
        "Finished",
        "Last Schedule Time",
        "RenewTime",
        "Start Time",
        "Started",
    ];
    let of = |line: &outline::Line<'_>| {
        let own = HAPPENED.contains(&line.key).then_some(line.value);
        own.and_then(Nanos::parse_rfc2822).max(newest(&line.below))
    };
    lines.iter().filter_map(of).max()
}

/// Returns from when until when a description can have been printed of which a container waits in CrashLoopBackOff: the kubelet does not
/// wait for longer than five minutes (pkg/kubelet/kubelet.go, `MaxCrashLoopBackOff`), and then starts it.
fn while_it_waits(lines: &[outline::Line<'_>]) -> Option<(Nanos, Nanos)> {
    const LONGEST_WAIT: i64 = 300 * SECOND;
    let ended = |c: &outline::Line<'_>| {
        let waits = c.get("State").and_then(|s| s.value("Reason")) == Some("CrashLoopBackOff");
        let last = c.get("Last State").filter(|_| waits)?;
        last.value("Finished").and_then(Nanos::parse_rfc2822)
    };
    let all = outline::get(lines, "Containers")?;
    let from = all.below.iter().filter_map(ended).max()?;
    Some((from, from.plus(LONGEST_WAIT)))
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

/// True where the last row ends within its message: one above it has more of the same.
fn is_cut(rows: &[Row]) -> bool {
    let Some((last, before)) = rows.split_last() else {
        return false;
    };
    let mut before = before.iter();
    !last.message.is_empty()
        && before.any(|row| {
            let more = row.message.strip_prefix(last.message.as_str());
            row.reason == last.reason && more.is_some_and(|more| !more.is_empty())
        })
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

fn decode(object: &Value, stamp: Stamp) -> Result<Observation, Fed> {
    let json = serde_json::to_vec(object).map_err(|_| Fed::Malformed("not an object"))?;
    decode_object(&json, "", WatchEvent::Listed, stamp)
}

#[cfg(test)]
mod tests;
