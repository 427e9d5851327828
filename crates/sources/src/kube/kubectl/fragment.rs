//! Events that stand alone in a text: a few rows of a table, one line of it, or only the message.
//!
//! Most of what people paste has no more than that. It often does not say of which object: then the message does, or the
//! command before it, or it is the only pod of the table before it that is not well. Where nothing does, the object has
//! the name of a placeholder, as in the synopsis of a command: [`NAMESPACE`]`/POD`. No object of Kubernetes can have
//! such a name (RFC 1123: lower case).

use super::super::super::{journal, klog};
use super::age::{Ages, age, word};
use super::pods::is_name;
use super::sentence::{is_ideograph, up_to_prose};
use super::table::{Columns, Row};
use kflow_model::Nanos;
use kflow_model::scope::is_uid;
use std::borrow::Cow;

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
/// Stands before a begin that counts at the begin of a line only.
const FRONT: char = '^';
/// Stands before all that a line of a log in JSON says; why is the member `error` of the line.
const WHOLE: char = '=';
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
    let row = logged(line)
        .or_else(|| of_columns(line))
        .or_else(|| unrun(line))
        .or_else(|| told(line));
    row.map(|mut row| {
        let whole = unclosed(&row.message).len();
        row.message.truncate(whole);
        row
    })
}

/// Returns a message without the quotation marks at its end that close what began before it.
fn unclosed(message: &str) -> &str {
    const SIGNS: [char; 3] = ['"', '\'', '`'];
    // An apostrophe has letters at both sides: `didn't`.
    let marks = |message: &str, sign: char| {
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let of_word = |at: usize| {
            let (before, rest) = message.split_at_checked(at).unwrap_or_default();
            is_letter(before.chars().next_back()) && is_letter(rest.chars().nth(1))
        };
        let all = message.match_indices(sign).map(|(at, _)| at);
        all.filter(|at| !of_word(*at)).count()
    };
    let mut message = message.trim_end();
    while let Some(sign) = message.chars().next_back().filter(|c| SIGNS.contains(c))
        && marks(message, sign) % 2 == 1
        && let Some(rest) = message.strip_suffix(sign)
    {
        message = rest.trim_end();
    }
    message
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
    let of_list = |of_all| {
        let wide = Columns::of_wide_list(of_all)
            .row(line)
            .filter(is_row_of_list);
        let wide = wide.filter(|row| !row.subobject.is_empty() || !row.component.is_empty());
        let wide = wide.map(Row::without_end);
        wide.or_else(|| Columns::of_list(of_all).row(line).filter(is_row_of_list))
    };
    let mut described = rests.clone().find_map(row(Columns::of_describe()));
    let of_kind = || Columns::of_kind().row(line).filter(is_row_of_kind);
    described = of_kind()
        .or(described)
        .or_else(|| of_list(false))
        .or_else(|| of_list(true))
        .or_else(|| of_old(line));
    described.or_else(|| rests.clone().find_map(row(Columns::without_age())))
}

/// True for a row that was cut before its message.
pub(super) fn is_begun(line: &str) -> bool {
    let all = [
        Columns::of_kind(),
        Columns::of_describe(),
        Columns::of_list(false),
        Columns::of_list(true),
    ];
    all.iter().any(|columns| columns.is_begun(line)) && front(line).is_none()
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
    // `api.ObjectReference` before 1.6.
    let printed = ["Event(v1.ObjectReference{", "Event(api.ObjectReference{"];
    if let Some((_, event)) = printed.iter().find_map(|begin| line.split_once(begin)) {
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
fn told(logged: &str) -> Option<Row> {
    let line = plain(logged);
    let known = MESSAGES.lines().filter(|l| !l.starts_with("# "));
    let (at, known) = known
        .filter_map(|known| {
            let known = Known::of(known)?;
            Some((begins(&line, known.begin)?, known))
        })
        .min_by_key(|(at, _)| *at)?;
    let (before, message) = line.split_at_checked(at)?;
    // The middle of a message of the scheduler (1.36: pkg/scheduler/framework/types.go, `FitError.Error`).
    if before.trim_end().ends_with("preemption:") {
        return None;
    }
    let of_member = match known.begin.strip_prefix(WHOLE) {
        Some(_) => Some(format!("{}{}", known.begin, why(logged)?)),
        None => member(logged, known.begin).map(plain),
    };
    let message = known.whole(
        of_member
            .as_deref()
            .unwrap_or_else(|| up_to_prose(before, message)),
    );
    let (first, _) = word(before);
    let of_tree = of_tree(before)
        .or_else(|| before_it(before))
        .filter(|_| OF_PODS.contains(&known.component));
    let (message, ages) = match of_tree {
        Some(_) => aged(message),
        None => (message, Ages::default()),
    };
    let of_karpenter = || pod_of_karpenter(logged).filter(|_| known.component == "karpenter");
    let of_kubelet = || pod_of_klog(logged).filter(|_| known.component == "kubelet");
    let (namespace, object) = of_tree
        .map(|object| ("", object))
        .or_else(of_karpenter)
        .or_else(of_kubelet)
        .unwrap_or_default();
    Some(Row {
        kind: if object.is_empty() { "" } else { "Pod" }.to_owned(),
        namespace: namespace.to_owned(),
        object: object.to_owned(),
        ages,
        warning: !NORMAL.contains(&known.reason),
        reason: known.reason.to_owned(),
        component: known.component.to_owned(),
        message: message.into_owned(),
        at: Nanos::parse_rfc3339(first).map(|(at, _)| at),
        ..Row::default()
    })
}

/// Returns a message that is the value of a member in JSON, or the error of a line of klog's, up to its end: the quotation marks in it
/// have a mark before them.
fn member<'a>(line: &'a str, begin: &str) -> Option<&'a str> {
    let begin = begin.trim_start_matches(FRONT);
    let at = line
        .find(&begin.replace('"', "\\\""))
        .or_else(|| line.find(begin));
    let (before, rest) = line.split_at_checked(at?)?;
    let is_value = before.ends_with(":\"") && rest.contains("\\\"") || before.ends_with(" err=\"");
    let mut ends = rest.match_indices('"').map(|(at, _)| at);
    let end = ends.find(|at| !rest.get(..*at).is_some_and(|r| r.ends_with('\\')));
    rest.get(..end?).filter(|_| is_value)
}

/// Returns the member `error` of a line in JSON, which may be cut.
fn why(line: &str) -> Option<String> {
    let (_, value) = line.split_once("\"error\":\"")?;
    let mut ends = value.match_indices('"').map(|(at, _)| at);
    let end = ends.find(|at| !value.get(..*at).is_some_and(|v| v.ends_with('\\')));
    Some(plain(value.get(..end.unwrap_or(value.len()))?))
}

/// Returns the pod that a line of Karpenter's log is about (sigs.k8s.io/karpenter, pkg/controllers/provisioning/scheduling/scheduler.go,
/// `Solve`): namespace and name. A member of the line has it since 0.19, with zap's console in an object behind the message; since 1.0 it is
/// an object.
fn pod_of_karpenter(line: &str) -> Option<(&str, &str)> {
    let (namespace, name) = match line.rsplit_once("\"Pod\":{") {
        Some((_, rest)) => {
            let (object, _) = rest.split_once('}')?;
            (string(object, "namespace")?, string(object, "name")?)
        }
        None => string(line, "pod")?.split_once('/')?,
    };
    (is_name(namespace) && is_name(name)).then_some((namespace, name))
}

/// Returns the pod of a line of klog's, of which the begin may be cut: namespace and name (`k8s.io/klog/v2`, `KObj`).
fn pod_of_klog(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("\" pod=\"")?;
    let (namespace, name) = rest.split_once('"')?.0.split_once('/')?;
    (is_name(namespace) && is_name(name)).then_some((namespace, name))
}

/// Returns the last string in JSON that is a member of this name.
fn string<'a>(json: &'a str, member: &str) -> Option<&'a str> {
    let (_, value) = json.rsplit_once(&format!("\"{member}\":"))?;
    let (text, _) = value.trim_start().strip_prefix('"')?.split_once('"')?;
    Some(text)
}

/// Those of which each message in [`MESSAGES`] is about a pod.
const OF_PODS: [&str; 2] = ["default-scheduler", "kubelet"];

/// Returns the object in a tree of objects and their Events (`kubectl lineage`): `├── Event/web-0.181d9e265085dc4b  -  FailedScheduling: `.
/// An Event is named after its object and the time, in hexadecimal digits (k8s.io/client-go/tools/record/event.go, `makeEvent`).
fn of_tree(before: &str) -> Option<&str> {
    let mut words = before.split_whitespace();
    let event = words.find_map(|w| w.strip_prefix("Event/"))?;
    let (object, time) = event.rsplit_once('.')?;
    let is_time = time.len() >= 14 && time.bytes().all(|b| b.is_ascii_hexdigit());
    (is_time && is_name(object)).then_some(object)
}

/// Returns the pod that stands right before a message: `FailedScheduling Pod/web-0: 0/2 nodes are available:`.
fn before_it(before: &str) -> Option<&str> {
    let word = before.split_whitespace().next_back()?.strip_suffix(':')?;
    let name = word.strip_prefix("Pod/").or(word.strip_prefix("pod/"))?;
    is_name(name).then_some(name)
}

/// Takes the age and the count off that stand behind a message in such a tree: `x. (x189)   21h`.
fn aged(message: Cow<'_, str>) -> (Cow<'_, str>, Ages) {
    let Some((front, last)) = message.rsplit_once("  ") else {
        return (message, Ages::default());
    };
    let Some(last) = age(last) else {
        return (message, Ages::default());
    };
    let front = front.trim_end();
    let counted = front.strip_suffix(')').and_then(|f| f.rsplit_once(" (x"));
    let counted = counted.and_then(|(front, count)| Some((front, count.parse().ok()?)));
    let (front, count) = counted.map_or((front, None), |(front, count)| (front, Some(count)));
    let ages = Ages {
        last: Some(last),
        first: None,
        count,
    };
    (Cow::Owned(front.to_owned()), ages)
}

/// A line of [`MESSAGES`].
struct Known<'a> {
    reason: &'a str,
    component: &'a str,
    begin: &'a str,
    /// With what the Event's message begins.
    of_event: Option<&'a str>,
}

impl<'a> Known<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let mut cells = line.split('\t');
        Some(Self {
            reason: cells.next()?,
            component: cells.next()?,
            begin: cells.next()?,
            of_event: cells.next(),
        })
    }

    /// Returns the Event's message.
    fn whole<'m>(&self, message: &'m str) -> Cow<'m, str> {
        let begin = self.begin.trim_start_matches(FRONT);
        match (self.of_event, message.strip_prefix(begin)) {
            // In a status and a log: `back-off 40s restarting failed container=web pod=web-0_shop(UID)`.
            (Some(of_event), Some(rest)) if begin.ends_with("container=") => Cow::Owned(format!(
                "{of_event}{}",
                rest.replacen(" pod=", " in pod ", 1)
            )),
            (Some(of_event), Some(rest)) => Cow::Owned(format!("{of_event}{rest}")),
            _ => Cow::Borrowed(message),
        }
    }
}

/// Puts the volume's name into a message of mount's that stands without the kubelet's words: that of the folder at which it is mounted,
/// else of what is mounted there, if the provisioner named it (`pvc-` and the UID of the claim).
pub(super) fn name_volume(message: &mut String) {
    const VOLUME: &str = "volume \"VOLUME\" : ";
    let Some((front, rest)) = message.split_once(VOLUME) else {
        return;
    };
    let of_pod = rest
        .split_once("/volumes/kubernetes.io~")
        .and_then(|(_, rest)| {
            let (_, rest) = rest.split_once('/')?;
            rest.split(['/', ' ', '"', ':']).next()
        });
    let of_claim = || {
        let all = rest.match_indices("pvc-");
        let mut all = all.filter_map(|(at, _)| rest.get(at..at + 40));
        all.find(|name| name.get(4..).is_some_and(is_uid))
    };
    let name = of_pod.or_else(of_claim).unwrap_or("VOLUME");
    let front = if rest.contains("/globalmount") {
        front.replace("SetUp", "MountDevice")
    } else {
        front.to_owned()
    };
    *message = format!("{front}volume \"{name}\" : {rest}");
}

/// Returns where a message of this begin begins in a line: at a word.
fn begins(line: &str, begin: &str) -> Option<usize> {
    if let Some(whole) = begin.strip_prefix(WHOLE) {
        return line.find(&format!("\":\"{whole}\"")).map(|at| at + 3);
    }
    if let Some(begin) = begin.strip_prefix(FRONT) {
        let at = line.find(begin)?;
        return is_front(line.get(..at)?).then_some(at);
    }
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

/// True for what may stand before the begin of a line: nothing but signs, the header of a log, or the word of whoever quotes an error.
fn is_front(before: &str) -> bool {
    const QUOTED: [&str; 4] = ["Error:", "error:", "Message:", "message:"];
    let rest = behind_header(before).trim();
    let rest = rest.trim_end_matches(['\'', '"']);
    QUOTED.contains(&rest) || !rest.contains(char::is_alphanumeric)
}

/// Returns a line without what the log of a container, a journal or klog puts before it.
pub(super) fn behind_header(line: &str) -> &str {
    let (first, rest) = word(line);
    let mut line = if Nanos::parse_rfc3339(first).is_some() {
        rest
    } else {
        line
    };
    if journal::writer(line.as_bytes()).is_some() {
        line = line.split_once("]: ").map_or(line, |(_, rest)| rest);
    }
    if klog::has_header(line.as_bytes()) {
        line = line.split_once("] ").map_or(line, |(_, rest)| rest);
    }
    line
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
            // holmesgpt: `kubectl lineage`, and a message within another text.
            (
                "    1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption",
                None,
            ),
            (
                "        ├── Event/user-profile-resources-659d4dd659-cq4kq.181d9e265085dc4b   -       FailedScheduling: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. (x189)   4m59s",
                Some(
                    "W FailedScheduling 299 default-scheduler|Pod/user-profile-resources-659d4dd659-cq4kq|0/1 nodes are available: 1 Ins",
                ),
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
}
