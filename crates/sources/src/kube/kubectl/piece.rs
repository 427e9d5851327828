//! A description of which the begin is missing: what people paste is often no more than the lines of one container.
//!
//! It is read as a whole one, whose names are those that the text before it tells, else placeholders.

use super::age::age;
use super::attribute::Named;
use super::fragment::NAMESPACE;
use super::outline::indent;
use super::pods::{Row, WAITS, is_name, row_of};

/// Stands for a container that nothing names.
pub(super) const CONTAINER: &str = "CONTAINER";
/// Number of columns by which kubectl indents the fields of a container.
const DEPTH: usize = 4;

/// Number of lines that [`Piece::head`] makes, and of those of them that are about the pod.
const HEAD: usize = 5;
const HEAD_OF_POD: usize = 3;

/// Fields of a container (k8s.io/kubectl/pkg/describe/describe.go, `describeContainers`).
const FIELDS: [&str; 22] = [
    "Container ID:",
    "Image:",
    "Image ID:",
    "Port:",
    "Ports:",
    "Host Port:",
    "Host Ports:",
    "SeccompProfile:",
    "Command:",
    "Args:",
    "State:",
    "Last State:",
    "Ready:",
    "Restart Count:",
    "Limits:",
    "Requests:",
    "Liveness:",
    "Readiness:",
    "Startup:",
    "Environment Variables from:",
    "Environment:",
    "Mounts:",
];
/// With which of these the lines of a container begin.
const FIRST: [&str; 2] = ["Container ID:", "Image:"];
/// What stands below these, also where a text has lost its indent.
const BELOW: [&str; 9] = [
    "Reason:",
    "Message:",
    "Exit Code:",
    "Signal:",
    "Started:",
    "Finished:",
    "cpu:",
    "memory:",
    "ephemeral-storage:",
];
/// What follows the containers in a description.
const BEHIND: [&str; 7] = [
    "Init Containers:",
    "Containers:",
    "Conditions:",
    "Volumes:",
    "QoS Class:",
    "Node-Selectors:",
    "Tolerations:",
];

/// Where the lines of such a description stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Number of columns by which the fields of a container are indented.
    base: usize,
    /// The same of what follows the containers, once that has begun.
    behind: Option<usize>,
    /// Number of fields so far. The second one tells whether the first has lost the blanks before it.
    fields: usize,
}

/// What the first line of a description that is there is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begun {
    /// A container.
    Container(Piece),
    /// The status of an object that is being deleted: of a pod, a claim, a volume or a namespace.
    Status,
}

/// True for `Status:  Terminating (lasts 8d)`.
pub(super) fn is_terminating(line: &str) -> bool {
    let value = line.trim().strip_prefix("Status:").map(str::trim_start);
    let lasts = value.and_then(|v| v.strip_prefix("Terminating (lasts ")?.strip_suffix(')'));
    lasts.is_some_and(|lasts| age(lasts).is_some())
}

/// True for the lines of a description of which one is of pods alone.
pub(super) fn is_of_pod(lines: &[String]) -> bool {
    const OF_PODS: [&str; 5] = [
        "Termination Grace Period:",
        "Containers:",
        "QoS Class:",
        "Node-Selectors:",
        "ContainersReady ",
    ];
    lines.iter().any(|line| is_any(line.trim(), &OF_PODS))
}

/// True for a line that only the description of a container has.
pub(super) fn begins(line: &str) -> bool {
    let text = line.trim();
    let value = |key: &str| text.strip_prefix(key).map(str::trim);
    let of_state = value("State:").or_else(|| value("Last State:"));
    let is_id = value("Container ID:").is_some_and(|id| id.contains("://"));
    is_id || matches!(of_state, Some("Waiting" | "Running" | "Terminated"))
}

fn is_any(text: &str, keys: &[&str]) -> bool {
    keys.iter().any(|key| text.starts_with(key))
}

impl Piece {
    pub(super) fn new(line: &str) -> Self {
        Self {
            base: indent(line),
            behind: None,
            fields: 0,
        }
    }

    /// The lines that are missing, down to the container's name. `count`: how many such pieces there are in the text so far. Where
    /// nothing names their pods, each is of one of its own: they may show the same one before and after a change.
    pub(super) fn head(pod: Option<&Named>, count: usize) -> Vec<String> {
        let mut head = Self::head_of_pod(pod, count);
        head.extend(["Containers:".to_owned(), format!("  {CONTAINER}:")]);
        head
    }

    /// The same, down to the status of the pod.
    pub(super) fn head_of_pod(pod: Option<&Named>, count: usize) -> Vec<String> {
        let namespace = pod.map_or("", |p| p.namespace.as_str());
        let namespace = if namespace.is_empty() {
            NAMESPACE
        } else {
            namespace
        };
        let name = match (pod, count) {
            (Some(pod), _) => pod.name.clone(),
            (None, ..=1) => "POD".to_owned(),
            (None, more) => format!("POD-{more}"),
        };
        vec![
            format!("Name:  {name}"),
            format!("Namespace:  {namespace}"),
            "Node:".to_owned(),
        ]
    }

    /// True for a line that is no part of it.
    pub(super) fn ends(&self, line: &str) -> bool {
        let (depth, text) = (indent(line), line.trim());
        let is_part = match depth.cmp(&self.base) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => is_any(text, &FIELDS) || is_any(text, &BELOW),
            std::cmp::Ordering::Less => false,
        };
        let is_behind = self.behind.is_some_and(|behind| depth > behind);
        !is_part && !is_behind && !is_any(text, &BEHIND) && container(line, self.base).is_none()
    }

    /// Returns a line at the place that it has in a whole description.
    pub(super) fn line(&mut self, line: &str) -> String {
        let (depth, text) = (indent(line), line.trim_start());
        if is_any(text, &FIELDS) {
            self.fields += 1;
            // Whoever copied it began behind the blanks of the first line.
            if self.fields == 2 && depth > self.base {
                self.base = depth;
            }
        }
        if is_any(text, &BEHIND) && depth <= self.base {
            self.behind = Some(depth);
            return text.to_owned();
        }
        if let Some(name) = container(line, self.base) {
            return format!("  {name}:");
        }
        if let Some(behind) = self.behind.filter(|behind| depth > *behind) {
            return format!("{}{text}", " ".repeat(depth - behind));
        }
        let below = usize::from(depth == self.base && is_any(text, &BELOW));
        let depth = DEPTH + 2 * below + depth.saturating_sub(self.base);
        format!("{}{text}", " ".repeat(depth))
    }

    /// Completes the lines of one container to a pod: with a phase that fits the container's state, and with the restarts and the
    /// waiting reason of `row`, the pod's row in a table, if the pod has no other container. Returns false for lines of
    /// something else.
    pub(super) fn complete(lines: &mut Vec<String>, row: Option<&Row>) -> bool {
        let has = |key: &str, value: &str| {
            lines.iter().any(|line| {
                let rest = line.trim().strip_prefix(key);
                rest.is_some_and(|rest| rest.trim() == value)
            })
        };
        let told = |keys: &[&str]| lines.iter().filter(|l| is_any(l.trim(), keys)).count();
        let is_one = told(&["State:", "Last State:"]) > 0
            && told(&[
                "Reason:",
                "Exit Code:",
                "Started:",
                "Ready:",
                "Restart Count:",
            ]) > 0;
        let is_silent = |key: &str| told(&[key]) == 0;
        let mut of_row = Vec::new();
        if let Some(row) = row.filter(|row| row.is_of_one()) {
            if is_silent("State:") && WAITS.contains(&row.status.as_str()) {
                of_row.push("State:  Waiting".to_owned());
                of_row.push(format!("  Reason:  {}", row.status));
            }
            if is_silent("Restart Count:") {
                of_row.push(format!("Restart Count:  {}", row.restarts));
            }
        }
        let has_run = has("State:", "Running")
            || has("State:", "Terminated")
            || has("Last State:", "Terminated")
            || has("Reason:", "CrashLoopBackOff");
        // The kubelet says so of the containers of a pod that has ended (pkg/kubelet/status/status_manager.go, `TerminatePod`).
        let has_ended = has(
            "Message:",
            "The container could not be located when the pod was terminated",
        );
        let phase = match (has_ended, has_run) {
            (true, _) => "Failed",
            (false, true) => "Running",
            (false, false) => "Pending",
        };
        // A container that is ready runs.
        if is_silent("State:")
            && !of_row.iter().any(|line| line.starts_with("State:"))
            && has("Ready:", "True")
        {
            of_row.push("State:  Running".to_owned());
        }
        // What stands before the pod's containers are its init containers.
        let mut titles = lines.iter_mut().filter(|line| *line == "Containers:");
        if let (Some(of_head), Some(_)) = (titles.next(), titles.next()) {
            "Init Containers:".clone_into(of_head);
        }
        let at = lines.len().min(HEAD);
        let of_row = of_row
            .iter()
            .map(|line| format!("{}{line}", " ".repeat(DEPTH)));
        lines.splice(at..at, of_row);
        lines.insert(lines.len().min(HEAD_OF_POD), format!("Status:  {phase}"));
        // Before a pod has a node, its containers have no state.
        if !lines.iter().any(|line| line.starts_with("Conditions:")) {
            lines.extend(["Conditions:", "  PodScheduled  True"].map(str::to_owned));
        }
        is_one
    }
}

/// Puts the blanks back before the lines of a description that has lost all of them, as on a page of HTML.
pub(super) fn indented(lines: &mut [String]) {
    let is_flush = |line: &String| !line.starts_with([' ', '\t']);
    let is_title = |line: &str| line.ends_with("ontainers:") && is_any(line, &BEHIND);
    if !lines.iter().any(|line| is_title(line)) || !lines.iter().all(is_flush) {
        return;
    }
    let mut title = "";
    for at in 0..lines.len() {
        let text = lines.get(at).map_or("", |line| line.trim_end()).to_owned();
        let next = lines.get(at + 1).map_or("", String::as_str);
        let begun = BEHIND.iter().copied().find(|of| text.starts_with(*of));
        if let Some(of) = begun {
            title = of;
            continue;
        }
        let is_name = text.strip_suffix(':').is_some_and(is_name);
        let depth = match title {
            "" => 0,
            "Containers:" | "Init Containers:" if is_name && is_any(next, &FIRST) => 2,
            "Containers:" | "Init Containers:" if is_any(&text, &FIELDS) => DEPTH,
            "Containers:" | "Init Containers:" => DEPTH + 2,
            "Volumes:" if !is_name || !next.starts_with("Type:") => 4,
            "Conditions:" | "Volumes:" => 2,
            _ => 0,
        };
        if let Some(line) = lines.get_mut(at) {
            *line = format!("{:depth$}{text}", "");
        }
    }
}

/// Says of a description that is cut within its only container, before the state of that, what the pod's row in the table before it
/// says: why it waits.
pub(super) fn complete_cut(lines: &mut Vec<String>, table: &[Row]) {
    let has = |key: &str| lines.iter().any(|line| line.trim_start().starts_with(key));
    let name = lines.iter().find_map(|line| line.strip_prefix("Name:"));
    let row = name.and_then(|name| row_of(table, name.trim()));
    let Some(row) = row.filter(|row| row.is_of_one() && WAITS.contains(&row.status.as_str()))
    else {
        return;
    };
    let is_cut = ["State:", "Conditions:", "Events:"]
        .into_iter()
        .all(|key| !has(key));
    if has("Containers:") && !has("Init Containers:") && is_cut {
        let status = &row.status;
        lines.extend([
            "    State:  Waiting".to_owned(),
            format!("      Reason:  {status}"),
        ]);
    }
}

/// Returns the name of the next container, which stands above its fields.
fn container(line: &str, base: usize) -> Option<&str> {
    let name = line.trim().strip_suffix(':')?;
    (indent(line) < base && indent(line) > 0 && is_name(name)).then_some(name)
}
