//! Events that stand alone in a text: a few rows of a table, one line of it, or only the message.
//!
//! Most of what people paste has no more than that. It often does not say of which object: then the message does, or the
//! command before it, or it is the only pod of the table before it that is not well. Where nothing does, the object has
//! the name of a placeholder, as in the synopsis of a command: [`NAMESPACE`]`/POD`. No object of Kubernetes can have
//! such a name (RFC 1123: lower case).

use super::age::{age, word};
use super::command::Described;
use super::pods::is_name;
use super::table::{Columns, Row};
use super::whose;
use kflow_model::Nanos;
use rustc_hash::FxHashMap;

const CLAIM: &str = "PersistentVolumeClaim";

/// Stands for a namespace that nothing names.
pub const NAMESPACE: &str = "NAMESPACE";

/// Longest line in which a message is looked for, bytes.
const LONGEST: usize = 64 << 10;

/// Most places in a line at which a row may begin.
const MOST: usize = 4;

/// Reason, reporter and begin of messages.
const MESSAGES: &str = include_str!("messages.tsv");
/// Stands for two numbers in a begin.
const COUNTS: &str = "#/#";
/// Reasons of messages that are no warnings.
const NORMAL: [&str; 4] = [
    "Scheduled",
    "SuccessfulAttachVolume",
    "ExternalProvisioning",
    "WaitForFirstConsumer",
];

/// Reads a line outside of every table as an Event.
pub(super) fn row(line: &str) -> Option<Row> {
    if line.len() > LONGEST {
        return None;
    }
    let line = line.trim().trim_end_matches('`').trim_end();
    logged(line)
        .or_else(|| of_columns(line))
        .or_else(|| unrun(line))
        .or_else(|| told(line))
}

/// A row of a table whose titles are missing; text may stand before it.
fn of_columns(line: &str) -> Option<Row> {
    let begins = ["Warning", "Normal"]
        .into_iter()
        .flat_map(|word| line.match_indices(word).take(MOST));
    let rests = begins.filter_map(|(at, _)| {
        let (before, rest) = line.split_at_checked(at)?;
        (!before.ends_with(char::is_alphanumeric)).then_some(rest)
    });
    let row = |columns: Columns| move |rest: &str| columns.row(rest).filter(is_row);
    // `kubectl get events` names the object; an age, or a namespace and an age, stand before the type.
    let of_list = |of_all| Columns::of_list(of_all).row(line).filter(is_row_of_list);
    let mut described = rests.clone().find_map(row(Columns::of_describe()));
    let of_kind = || Columns::of_kind().row(line).filter(is_row_of_kind);
    described = of_kind()
        .or(described)
        .or_else(|| of_list(false))
        .or_else(|| of_list(true))
        .or_else(|| of_old(line));
    described.or_else(|| rests.clone().find_map(row(Columns::without_age())))
}

/// Reads a row that ends behind who reports it: its message was broken off into the next line.
pub(super) fn front(line: &str) -> Option<Row> {
    let row = Columns::of_describe().row(line.trim())?;
    let is_front = row.ages.last.is_some() && !row.component.is_empty() && row.message.is_empty();
    let begins = ["Warning", "Normal"].contains(&word(line).0);
    (is_front && begins).then_some(row)
}

/// True for a row that a table of `kubectl describe` may have: prose may begin with `Warning`.
fn is_row(row: &Row) -> bool {
    let is_reason = row.reason.starts_with(|c: char| c.is_ascii_uppercase());
    is_reason
        && !row.message.trim().is_empty()
        && (row.ages.last.is_some() || !row.component.is_empty())
}

/// A row as kubectl printed it before 1.14, with ages and a count at its begin.
fn of_old(line: &str) -> Option<Row> {
    // No other line begins with two ages and a number.
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    let is_old = |words: &[&str]| match words {
        [first, last, count, ..] => {
            [first, last].iter().all(|a| age(a).is_some()) && count.parse::<u32>().is_ok()
        }
        _ => false,
    };
    let described = || {
        let all = [true, false].map(Columns::of_old_describe).into_iter();
        all.filter_map(|columns| columns.row(line))
            .find(|row| is_row(row) && !row.component.is_empty())
    };
    let listed = |of_all| {
        let row = Columns::of_old_list(of_all).row(line);
        let is_kind = |kind: &str| {
            kind.starts_with(|c: char| c.is_ascii_uppercase())
                && kind.bytes().all(|b| b.is_ascii_alphabetic())
        };
        row.filter(|row| is_row_of_list(row) && is_kind(&row.kind))
    };
    if is_old(&words) {
        return listed(false).or_else(described);
    }
    let of_all = words.split_first().is_some_and(|(_, rest)| is_old(rest));
    of_all.then(|| listed(true)).flatten()
}

fn is_row_of_list(row: &Row) -> bool {
    is_row(row) && row.ages.last.is_some() && !row.kind.is_empty() && is_name(&row.object)
}

/// Kinds of which a row may be that has no name (kubectl 1.12 and 1.13).
const KINDS: [&str; 8] = [
    "Pod",
    "Node",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Deployment",
    "Job",
    "PersistentVolumeClaim",
];

fn is_row_of_kind(row: &Row) -> bool {
    is_row(row) && row.ages.last.is_some() && KINDS.contains(&row.kind.as_str())
}

/// True for a line of a log that has an Event of the component that wrote it.
pub fn has_event(line: &str) -> bool {
    logged(line).is_some()
}

/// An Event in the log of the component that made it (`k8s.io/client-go/tools/record/event.go`, `StartLogging` and
/// `StartStructuredLogging`).
fn logged(line: &str) -> Option<Row> {
    if let Some((_, event)) = line.split_once("Event(v1.ObjectReference{") {
        let (object, rest) = event.split_once("}): ")?;
        let parts: Vec<&str> = rest.splitn(5, '\'').collect();
        let [_, kind_of_event, _, reason, message] = parts[..] else {
            return None;
        };
        let field = |name: &str| object.split_once(name)?.1.split_once('"').map(|(v, _)| v);
        return Some(Row {
            kind: field("Kind:\"")?.to_owned(),
            namespace: field("Namespace:\"")?.to_owned(),
            object: field("Name:\"")?.to_owned(),
            warning: kind_of_event == "Warning",
            reason: reason.to_owned(),
            message: message.trim_start().to_owned(),
            ..Row::default()
        });
    }
    let field = |name: &str| {
        let (_, value) = line.split_once(&format!(" {name}=\""))?;
        let end = value
            .match_indices('"')
            .find(|(at, _)| !value.get(..*at).is_some_and(|v| v.ends_with('\\')))?;
        Some(plain(value.get(..end.0)?))
    };
    let object = field("object")?;
    let (namespace, name) = object.split_once('/').unwrap_or(("", &object));
    Some(Row {
        kind: field("kind")?,
        namespace: namespace.to_owned(),
        object: name.to_owned(),
        warning: field("type")? == "Warning",
        reason: field("reason")?,
        message: field("message")?,
        ..Row::default()
    })
}

/// Without the marks before quotation marks, as a log writes a text within one.
fn plain(text: &str) -> String {
    text.replace("\\\"", "\"")
}

/// Reason of a line of a container's log, which tells that its program could not be run.
pub(super) const CONTAINER_LOG: &str = "ContainerLog";

/// The line with which a container's log ends where its program cannot be run: runc's init since 1.1 (`exec /app: exec format error`),
/// and shells (`./app: cannot execute binary file: Exec format error`).
fn unrun(line: &str) -> Option<Row> {
    const ERRORS: [&str; 3] = [
        ": exec format error",
        ": no such file or directory",
        ": permission denied",
    ];
    let of_runc = || {
        let path = ERRORS.iter().find_map(|e| line.strip_suffix(e))?;
        let path = path.strip_prefix("exec ")?;
        (path.starts_with(['/', '.']) && !path.contains(' ')).then_some(())
    };
    let of_shell = || line.ends_with(": cannot execute binary file: Exec format error");
    (of_runc().is_some() || of_shell()).then(|| Row {
        warning: true,
        reason: CONTAINER_LOG.to_owned(),
        message: line.to_owned(),
        ..Row::default()
    })
}

/// Only the message, with any text before it.
fn told(line: &str) -> Option<Row> {
    let line = plain(line);
    let known = MESSAGES.lines().filter(|l| !l.starts_with("# "));
    let (at, reason, component) = known
        .filter_map(|known| {
            let (reason, rest) = known.split_once('\t')?;
            let (component, begin) = rest.split_once('\t')?;
            Some((begins(&line, begin)?, reason, component))
        })
        .min_by_key(|(at, ..)| *at)?;
    let (before, message) = line.split_at_checked(at)?;
    let message = up_to_prose(before, message);
    let (first, _) = word(before);
    Some(Row {
        warning: !NORMAL.contains(&reason),
        reason: reason.to_owned(),
        component: component.to_owned(),
        message: message.trim_end_matches(['`', '\'']).to_owned(),
        at: Nanos::parse_rfc3339(first).map(|(at, _)| at),
        ..Row::default()
    })
}

/// Returns where a message of this begin begins in a line: at a word.
fn begins(line: &str, begin: &str) -> Option<usize> {
    let at = match begin.strip_prefix(COUNTS) {
        None => line.find(begin)?,
        Some(rest) => {
            let (front, _) = line.split_at_checked(line.find(rest)?)?;
            let counts = front.trim_end_matches(|c: char| c.is_ascii_digit() || c == '/');
            let counts = front.get(counts.len()..)?;
            let (some, all) = counts.split_once('/')?;
            let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
            let before = front.strip_suffix(counts)?;
            // The member of a document, as of a PodGroup, says of which object it is.
            let is_free = !before.ends_with("\": \"")
                && before
                    .chars()
                    .next_back()
                    .is_none_or(|c| c.is_whitespace() || is_ideograph(c) || "(\"`".contains(c));
            (is_free && is_number(some) && is_number(all)).then_some(before.len())?
        }
    };
    let before = line.get(..at)?.chars().next_back();
    // Chinese and Japanese have no blanks between words.
    let is_word = |c: char| c.is_alphanumeric() && !is_ideograph(c);
    before.is_none_or(|c| !is_word(c)).then_some(at)
}

/// A sign of Chinese, Japanese or Korean, punctuation and signs of full width among them.
const fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}')
}

/// Signs that enclose a message in a sentence.
const ENCLOSED: [(char, char); 4] = [('\u{300c}', '\u{300d}'), ('(', ')'), ('`', '`'), ('"', '"')];
/// Words with which a sentence begins that is no part of a message.
const PROSE: [&str; 30] = [
    "We", "I", "I'm", "I've", "It", "It's", "They", "He", "She", "You", "My", "Our", "This",
    "That", "These", "There", "So", "But", "And", "Then", "Also", "Any", "Anyone", "How", "What",
    "Why", "Does", "After", "When", "As",
];

/// Returns a message without the sentence that goes on behind it. `before`: what stands before it in the line.
fn up_to_prose<'a>(before: &str, message: &'a str) -> &'a str {
    let mut message = message;
    let last = before.trim_end().chars().next_back();
    let signs = last.and_then(|last| ENCLOSED.iter().find(|(begin, _)| *begin == last));
    if let Some((begin, end)) = signs.filter(|_| !before.ends_with(' ')) {
        message = enclosed(message, *begin, *end);
    }
    if before.contains(is_ideograph) {
        message = message.split(is_ideograph).next().unwrap_or(message);
    }
    // A row and a log have only names and times before the message.
    let has_prose = before
        .split_whitespace()
        .filter(|w| w.bytes().all(|b| b.is_ascii_lowercase()));
    if has_prose.count() < 2 {
        return message;
    }
    let mut ends = message.match_indices(". ").filter(|(at, _)| {
        let (first, _) = word(message.get(at + 2..).unwrap_or_default());
        PROSE.contains(&first.trim_end_matches(','))
    });
    let end = ends.next().map_or(message.len(), |(at, _)| at);
    message.get(..end).unwrap_or(message)
}

/// Returns a text up to the sign that ends it; such pairs may be within it.
fn enclosed(text: &str, begin: char, end: char) -> &str {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let after = text.get(at + c.len_utf8()..).and_then(|t| t.chars().next());
        let opens = begin != end || before.is_whitespace() || "([{=:/".contains(before);
        if c == begin && opens && after.is_some_and(|c| !c.is_whitespace()) {
            depth += 1;
        } else if c == end && depth > 0 {
            depth -= 1;
        } else if c == end {
            return text.get(..at).unwrap_or(text);
        }
        before = c;
    }
    text
}

/// An object that a text names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Empty where nothing tells it.
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What the text before rows names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told<'a> {
    /// The object that the command before them describes.
    pub(super) described: Option<&'a Described>,
    /// The only pod that is not well.
    pub(super) pod: Option<&'a Named>,
    /// The pods that rows before them name.
    pub(super) named: Option<&'a Pods>,
    /// The pod whose logs the command before them prints.
    pub(super) logged: Option<&'a Named>,
}

/// Says of which object, and of which namespace, rows are that do not.
pub(super) fn attribute(rows: &mut [Row], namespace: &str, before: &Told<'_>) {
    let described = before.described;
    let of_command = |kind: &str| described.filter(|d| d.kind == kind).map(|d| &d.object);
    let claim = rows.iter().find_map(claim).or(of_command(CLAIM).cloned());
    let node = of_command("Node");
    let here = Pods::of(rows);
    // Which of several a row is about that names none, only its place below the binding of one tells.
    let mut pod = if here.by_name.is_empty() {
        of_command("Pod").or(before.pod).cloned()
    } else {
        here.one().cloned()
    };
    for row in rows.iter_mut() {
        let named = named(row).map(|named| whole(named, &here, before));
        if row.object.is_empty() {
            let kind = kind(row).to_owned();
            let kind = kind.as_str();
            if row.reason == "Scheduled" && named.is_some() {
                pod.clone_from(&named);
            }
            let of_log = before.logged.filter(|_| row.reason == CONTAINER_LOG);
            let by_namespace = namespace_of(&row.message).map(|namespace| {
                let one = here.one_of(namespace, before.named).cloned();
                one.unwrap_or_else(|| Named {
                    namespace: namespace.to_owned(),
                    name: "POD".to_owned(),
                })
            });
            let object = match kind {
                "Pod" => of_log
                    .or(named.as_ref())
                    .or(pod.as_ref())
                    .or(by_namespace.as_ref()),
                "Node" => node,
                CLAIM => claim.as_ref(),
                _ => None,
            };
            row.object = match (object, kind) {
                (None, "Node") if !row.host.is_empty() => row.host.clone(),
                (Some(object), _) => object.name.clone(),
                (None, kind) => maker(&row.message, kind),
            };
            if let Some(object) = object {
                object.namespace.clone_into(&mut row.namespace);
            }
            row.is_described = row.kind.is_empty();
            kind.clone_into(&mut row.kind);
        } else if let Some(named) =
            named.filter(|named| row.namespace.is_empty() && named.name == row.object)
        {
            row.namespace = named.namespace;
        }
        if row.namespace.is_empty() && !row.kind.eq_ignore_ascii_case("Node") {
            let told = namespace_of(&row.message).unwrap_or_default();
            let all = [namespace, told, NAMESPACE];
            let first = all.into_iter().find(|n| !n.is_empty());
            first.unwrap_or_default().clone_into(&mut row.namespace);
        }
    }
    whose::of_containers(rows);
}

/// Pods that messages name.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// `None` where pods of several namespaces have the name.
    by_name: FxHashMap<String, Option<Named>>,
    /// `None` where several pods are of the namespace.
    by_namespace: FxHashMap<String, Option<Named>>,
}

impl Pods {
    /// Those that rows without an object name.
    fn of(rows: &[Row]) -> Self {
        let mut out = Self::default();
        let rows = rows.iter();
        let rows = rows.filter(|row| row.object.is_empty() && kind(row) == "Pod");
        rows.filter_map(named).for_each(|pod| out.add(pod));
        out
    }

    fn add(&mut self, pod: Named) {
        let known = self.by_name.entry(pod.name.clone());
        let known = known.or_insert_with(|| Some(pod.clone()));
        let is_other = |k: &Named| k.namespace != pod.namespace;
        match known {
            Some(k) if k.namespace.is_empty() => k.namespace.clone_from(&pod.namespace),
            Some(k) if is_other(k) && !pod.namespace.is_empty() => *known = None,
            _ => {}
        }
        if !pod.namespace.is_empty() {
            let of_it = self.by_namespace.entry(pod.namespace.clone());
            let of_it = of_it.or_insert_with(|| Some(pod.clone()));
            if of_it.as_ref().is_some_and(|p| p.name != pod.name) {
                *of_it = None;
            }
        }
    }

    pub(super) fn extend(&mut self, rows: &[Row]) {
        let rows = rows
            .iter()
            .filter(|row| row.is_described && row.kind == "Pod");
        rows.filter_map(named).for_each(|pod| self.add(pod));
    }

    fn get(&self, name: &str) -> Option<&Named> {
        self.by_name.get(name)?.as_ref()
    }

    /// The only one.
    fn one(&self) -> Option<&Named> {
        let mut all = self.by_name.values();
        all.next().filter(|_| self.by_name.len() == 1)?.as_ref()
    }

    /// The only one of a namespace, here and in what stands before.
    fn one_of<'a>(&'a self, namespace: &str, before: Option<&'a Self>) -> Option<&'a Named> {
        match (
            self.by_namespace.get(namespace),
            before.and_then(|b| b.by_namespace.get(namespace)),
        ) {
            (Some(here), Some(there)) if here != there => None,
            (here, there) => here.or(there)?.as_ref(),
        }
    }
}

/// Adds the namespace that other text tells of a pod.
pub(super) fn whole(pod: Named, here: &Pods, before: &Told<'_>) -> Named {
    let described = before.described.filter(|d| d.kind == "Pod");
    let told = [described.map(|d| &d.object), before.pod, before.logged];
    let named = [
        here.get(&pod.name),
        before.named.and_then(|n| n.get(&pod.name)),
    ];
    let mut all = named.into_iter().chain(told).flatten();
    let other = all.find(|p| p.name == pod.name && !p.namespace.is_empty());
    match other {
        Some(other) if pod.namespace.is_empty() => other.clone(),
        _ => pod,
    }
}

/// Returns the kind of object that a row without one is about: by who reports it, or by its reason.
fn kind(row: &Row) -> &str {
    /// Reasons by which the kubelet reports about its node (1.36: `pkg/kubelet/events/event.go`).
    const OF_NODES: [&str; 8] = [
        "NodeNotReady",
        "NodeHasDiskPressure",
        "NodeHasInsufficientMemory",
        "FreeDiskSpaceFailed",
        "ImageGCFailed",
        "EvictionThresholdMet",
        "SystemOOM",
        "Rebooted",
    ];
    /// Reasons by which the controller of volumes and provisioners report about a claim (1.36:
    /// `pkg/controller/volume/events/event.go`, `pkg/controller/volume/persistentvolume/pv_controller.go`;
    /// kubernetes-sigs/sig-storage-lib-external-provisioner `controller/controller.go`).
    const OF_CLAIMS: [&str; 12] = [
        "ProvisioningFailed",
        "ProvisioningCleanupFailed",
        "ProvisioningSucceeded",
        "FailedBinding",
        "WaitForFirstConsumer",
        "WaitForPodScheduled",
        "ExternalProvisioning",
        "Provisioning",
        "VolumeMismatch",
        "ClaimLost",
        "ClaimMisbound",
        "ExternalExpanding",
    ];
    // `kubectl get events` of 1.12 and 1.13 has a column with the kind, and none with the name.
    if !row.kind.is_empty() {
        return &row.kind;
    }
    match (row.component.as_str(), row.reason.as_str()) {
        ("replicaset-controller", _) => "ReplicaSet",
        ("job-controller", _) => "Job",
        ("cronjob-controller", _) => "CronJob",
        ("daemonset-controller" | "daemon-set", _) => "DaemonSet",
        // Without `-controller` before 1.8.
        ("statefulset-controller" | "statefulset", _) => "StatefulSet",
        ("replication-controller", _) => "ReplicationController",
        ("deployment-controller", _) => "Deployment",
        (_, "FailedCreate") if row.message.contains(OF_STATEFUL_SET) => "StatefulSet",
        (_, "FailedCreate") => "ReplicaSet",
        (_, reason) if OF_CLAIMS.contains(&reason) => CLAIM,
        (_, reason) if OF_NODES.contains(&reason) => "Node",
        _ => "Pod",
    }
}

/// What stands before the name of the owner in the messages of its controller (1.36: pkg/controller/statefulset/stateful_pod_control.go,
/// `recordPodEvent`).
const OF_STATEFUL_SET: &str = " in StatefulSet ";

/// Returns the name of the owner that makes pods: it puts it and a dash before the rest of theirs (`pods "web-5d8f-" is forbidden`;
/// `k8s.io/apiserver/pkg/storage/names/generate.go`). A placeholder where the message names no pod.
fn maker(message: &str, kind: &str) -> String {
    let told = message.split_once(OF_STATEFUL_SET);
    let told = told
        .map(|(_, rest)| word(rest).0)
        .filter(|name| is_name(name));
    let pod = message
        .split_once("pods \"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let name = pod.and_then(|(pod, _)| pod.rsplit_once('-'));
    match told.or(name.map(|(name, _)| name)) {
        Some(name) if is_name(name) => name.to_owned(),
        _ => kind.to_ascii_uppercase(),
    }
}

/// Returns the claim that a provisioner says it makes a volume for (kubernetes-sigs/sig-storage-lib-external-provisioner
/// `controller/controller.go`, `provisionClaimOperation`).
fn claim(row: &Row) -> Option<Named> {
    let (_, rest) = row.message.split_once(" volume for claim \"")?;
    let (namespace, name) = rest.split_once('"')?.0.split_once('/')?;
    (kind(row) == CLAIM && is_name(namespace) && is_name(name)).then(|| Named {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// Returns the pod that a message names: the one that was bound (`… shop/web-0 to node1`), `pod "web-0_shop(UID)"`, `pod "web-0_shop"`;
/// without its namespace `for pod "web-0"` and `pod "web-0" (UID: …)`.
fn named(row: &Row) -> Option<Named> {
    let message = row.message.as_str();
    if row.reason == "Scheduled" {
        let (front, _) = message.split_once(" to ")?;
        let pod = front.rsplit(' ').next()?;
        let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
        return is_name(name).then(|| Named {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }
    // `Pod` in the messages of hooks up to 1.20.
    let lower = message.to_ascii_lowercase();
    let all = lower.match_indices("pod ").filter_map(|(at, front)| {
        let before = message.get(..at)?;
        let rest = message.get(at + front.len()..)?;
        let of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_quoted = rest.starts_with(['"', '\\']);
        let rest = rest.trim_start_matches(['"', '\\']);
        let end = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end)?;
        let after_quotes = after.trim_start_matches(['"', '\\']);
        let (name, namespace) = match word.split_once('_') {
            // Whoever asks in public may have replaced the UID.
            Some(both) if after.starts_with('(') || after_quotes.len() < after.len() => both,
            None if is_quoted
                && after_quotes.len() < after.len()
                && !after_quotes.starts_with('/')
                && (before.ends_with("for ") || after_quotes.starts_with(" (UID: ")) =>
            {
                (word, "")
            }
            _ => return None,
        };
        let is_one = is_name(name) && (namespace.is_empty() || is_name(namespace));
        is_one.then(|| Named {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    });
    // A message may name it twice.
    all.reduce(|first, other| {
        if first.namespace.is_empty() {
            other
        } else {
            first
        }
    })
}

/// Returns the namespace of what a pod needs, which is its own: `object "shop"/"db" not registered` (1.36:
/// pkg/kubelet/util/manager/cache_based_manager.go, `GetObject`).
fn namespace_of(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("object \"")?;
    let (namespace, rest) = rest.split_once('"')?;
    (rest.starts_with("/\"") && is_name(namespace)).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(line: &str) -> Option<String> {
        let r = row(line)?;
        let age = r.ages.last.map_or(-1, |a| a.seconds);
        let object = format!("{}/{}/{}", r.namespace, r.kind, r.object);
        let object = object.trim_matches('/');
        let kind = if r.warning { "W" } else { "N" };
        Some(format!(
            "{kind} {} {age} {}|{object}|{:.30}",
            r.reason, r.component, r.message
        ))
    }

    /// Lines of public reports, whose addresses are in `fixtures/reports.tsv`.
    #[test]
    fn a_line_alone_is_an_event() {
        for (line, want) in [
            (
                "  Warning  FailedAttachVolume  54s   attachdetach-controller  Multi-Attach error for volume \"pvc-b\" Volume is",
                Some(
                    "W FailedAttachVolume 54 attachdetach-controller||Multi-Attach error for volume ",
                ),
            ),
            (
                "It always reports `Warning  FailedCreate  12m (x21 over 46m)  daemonset-controller  Error creating: Timeout: x`",
                Some("W FailedCreate 720 daemonset-controller||Error creating: Timeout: x"),
            ),
            (
                "Warning FailedScheduling karpenter Failed to schedule pod, all available instance types exceed limits",
                Some("W FailedScheduling -1 karpenter||Failed to schedule pod, all av"),
            ),
            (
                "tekton-pipelines   25m   Warning   FailedCreate   replicaset/tekton-7887549bc5   Error creating: pods \"tekton-7\" is forbidden",
                Some(
                    "W FailedCreate 1500 |tekton-pipelines/replicaset/tekton-7887549bc5|Error creating: pods \"tekton-7",
                ),
            ),
            (
                "51s    Normal    SuccessfulCreate   replicaset/logikk-858947857b   Created pod: logikk-858947857b-g99ch",
                Some(
                    "N SuccessfulCreate 51 |replicaset/logikk-858947857b|Created pod: logikk-858947857b",
                ),
            ),
            (
                "2022-05-02T00:33:47.149327Z [Warning] 0/13 nodes are available: 2 node(s) were unschedulable.",
                Some("W FailedScheduling -1 default-scheduler||0/13 nodes are available: 2 no"),
            ),
            (
                "2022-05-02T00:33:59.912858Z [Normal] Successfully assigned a/b to ip-10-0-252-130",
                Some("N Scheduled -1 default-scheduler||Successfully assigned a/b to i"),
            ),
            (
                "I0330 04:09:57.883677       1 event.go:278] Event(v1.ObjectReference{Kind:\"DaemonSet\", Namespace:\"kube-system\", Name:\"kube-proxy\", UID:\"a0\"}): type: 'Warning' reason: 'FailedCreate' Error creating: pods \"kube-proxy-\" is forbidden",
                Some(
                    "W FailedCreate -1 |kube-system/DaemonSet/kube-proxy|Error creating: pods \"kube-pro",
                ),
            ),
            (
                "I0330 04:09:57.883677       1 event.go:389] \"Event occurred\" object=\"shop/web\" fieldPath=\"\" kind=\"ReplicaSet\" apiVersion=\"apps/v1\" type=\"Warning\" reason=\"FailedCreate\" message=\"Error creating: pods \\\"web-\\\" is forbidden\"",
                Some("W FailedCreate -1 |shop/ReplicaSet/web|Error creating: pods \"web-\" is"),
            ),
            // Prose, other tables, and what only resembles a message.
            ("Warning: this will delete everything", None),
            ("Warning  the disk is 12m old", None),
            ("Normal people use kubectl", None),
            ("The kubelet says MountVolumes are slow", None),
            ("1/2 nodes are available", None),
            (
                "Normal MountVolume.WaitForAttach succeeded for volume \"pvc-b\"",
                None,
            ),
            (
                "MountVolume.SetUp succeeded for volume \"pvc-b\" pod \"web-0\" (UID: \"a\")",
                None,
            ),
            ("some nodes are available: two", None),
            (
                "    message: '1/1 tasks in gang unschedulable: pod group is not ready'",
                None,
            ),
            (
                "    \"message\": \"1/1 tasks in gang unschedulable: pod group is not ready\",",
                None,
            ),
            ("NAME   READY   STATUS    RESTARTS   AGE", None),
            ("web-0  0/1     Pending   0          5m", None),
            ("", None),
        ] {
            assert_eq!(short(line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn the_object_is_what_the_text_says() {
        let of = |lines: &[&str], namespace: &str, pod: Option<&Named>| {
            let rows = lines.iter().filter_map(|l| row(l));
            let mut rows: Vec<Row> = rows.collect();
            let before = Told {
                pod,
                ..Told::default()
            };
            attribute(&mut rows, namespace, &before);
            let all = rows
                .iter()
                .map(|r| format!("{} {}/{}", r.kind, r.namespace, r.object));
            all.collect::<Vec<_>>().join(", ")
        };
        let pull =
            "Warning  Failed  8s (x4 over 93s)  kubelet, minikube  Failed to pull image \"x\": y";
        let bound = "Normal   Scheduled  36m  default-scheduler  Successfully assigned monitoring/autotune-zz78v to minikube";
        let web = Named {
            namespace: "shop".into(),
            name: "web-0".into(),
        };
        assert_eq!(of(&[pull], "", None), "Pod NAMESPACE/POD");
        assert_eq!(of(&[pull], "shop", None), "Pod shop/POD");
        assert_eq!(of(&[pull], "", Some(&web)), "Pod shop/web-0");
        let named = "Pod monitoring/autotune-zz78v, Pod monitoring/autotune-zz78v";
        assert_eq!(of(&[bound, pull], "", Some(&web)), named);
        for (line, want) in [
            (
                "Unable to mount volumes for pod \"gogs-2-91275_infra(3c2d0709-2204-11e6-843d-525400daa840)\": conf",
                "Pod infra/gogs-2-91275",
            ),
            (
                "Back-off restarting failed container web in pod web-0_shop(c3cc4508-dddb-4946-bb9c-13a558746751)",
                "Pod shop/web-0",
            ),
            (
                "Warning  FailedCreate  3m37s  job-controller  Error creating: pods \"trace-d9c-pktmb\" is forbidden: failed quota: q",
                "Job NAMESPACE/trace-d9c",
            ),
            (
                "Warning  FailedCreate  3m37s  replicaset-controller  Error creating: pods \"coredns-66bff467f8-\" is forbidden",
                "ReplicaSet NAMESPACE/coredns-66bff467f8",
            ),
            (
                "Warning  FailedCreate  12m  daemonset-controller  Error creating: Timeout: request did not complete",
                "DaemonSet NAMESPACE/DAEMONSET",
            ),
            (
                "Warning  ImageGCFailed  14m  kubelet, k3d-server  failed to garbage collect required amount of images.",
                "Node /k3d-server",
            ),
            (
                "Normal  FailedBinding  4m54s  persistentvolume-controller  no persistent volumes available for this claim",
                "PersistentVolumeClaim NAMESPACE/PERSISTENTVOLUMECLAIM",
            ),
        ] {
            assert_eq!(of(&[line], "", None), want, "{line}");
        }
    }
}
