//! What a file of a bundle is: by its path, and by its first bytes. Neither is enough alone: many programs write klog
//! and logrus, and many files have the name of a component in theirs.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read};

use super::super::kind::watched;
use super::super::{Kind, recognise, yaml};
use kflow_sources::journal::{self, Writer};
use kflow_sources::klog;
use kflow_sources::kube::decode::{first_kind, group_of, plural};

/// Bytes in which a document says that it is one of the API.
const ENVELOPE: usize = 4_096;

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A capture of that kind.
    Capture(Kind),
    /// A journal that is printed in a short form, of one unit or of all: [`Survey`] tells.
    Journal,
    /// Nothing that kflow reads. The reason is there when its path promised a capture.
    Other(Option<String>),
}

/// Returns true if a file of this path is worth opening.
pub(super) fn plausible(path: &str) -> bool {
    const OTHERS: [&str; 15] = [
        "html", "svg", "png", "crt", "pem", "key", "sh", "conf", "toml", "dot", "md", "go",
        "proto", "pprof", "heap",
    ];
    let name = Kind::plain_name(path.rsplit('/').next().unwrap_or(path));
    let ext = name.rsplit_once('.').map(|(_, ext)| ext);
    !ext.is_some_and(|ext| OTHERS.iter().any(|other| ext.eq_ignore_ascii_case(other)))
}

/// Returns what a file is. `begin` is the begin of its uncompressed content.
pub(super) fn of(path: &str, begin: &[u8]) -> Content {
    let promised = Kind::of_path(path);
    if begin.trim_ascii().is_empty() {
        return promised.map_or(Content::Other(Some("empty".to_owned())), Content::Capture);
    }
    if printed_by_kubectl(begin) && recognise::fits(Kind::Watch, begin) > 0 {
        return Content::Capture(Kind::Watch);
    }
    if is_journal(begin) {
        return Content::Journal;
    }
    let begin = behind_text(begin).unwrap_or(begin);
    match promised {
        None => named_by_itself(begin).map_or(Content::Other(None), Content::Capture),
        Some(kind) if fits(kind, begin) => Content::Capture(kind),
        Some(kind) => Content::Other(Some(format!("not {}", kind.noun()))),
    }
}

/// Most lines of a text before an object.
const LINES: usize = 20;

/// Returns what stands behind the text before an object of the API in JSON: a comment, or the command that printed it. `None` where there
/// is no such text, or something that is read in it.
pub(super) fn behind_text(begin: &[u8]) -> Option<&[u8]> {
    let text = begin.trim_ascii_start();
    if text.starts_with(b"{") || yaml::is(text) {
        return None;
    }
    let mut at = 0;
    for line in begin.split_inclusive(|b| *b == b'\n').take(LINES) {
        let (before, rest) = begin.split_at_checked(at)?;
        if line.starts_with(b"{") && of_the_api(rest) {
            return (!recognise::has_printed(before)).then_some(rest);
        }
        if line.starts_with(b"```") || klog::has_header(line) || journal::writer(line).is_some() {
            return None;
        }
        at += line.len();
    }
    None
}

/// As [`of`] for a file that nothing promises to be a capture: of objects of the API only those count whose kind is read.
fn named_by_itself(begin: &[u8]) -> Option<Kind> {
    let text = begin.trim_ascii_start();
    // Audit logs and spans are JSON. A bundle may have ten thousand objects in YAML.
    if yaml::is(text) {
        return (of_the_api(begin) && names_known_kind(begin)).then_some(Kind::Watch);
    }
    let is_document = text.starts_with(b"{") || text.starts_with(b"[");
    let kind = is_document.then(|| of_itself(begin)).flatten();
    kind.filter(|kind| *kind != Kind::Watch || is_of_known_kind(begin))
}

/// Returns the kind of what names itself in each document.
pub(super) fn of_itself(begin: &[u8]) -> Option<Kind> {
    let kinds = [Kind::Audit, Kind::Otlp];
    let told = |kind: &Kind| recognise::fits(*kind, begin) > 0;
    (kinds.into_iter().find(told)).or_else(|| of_the_api(begin).then_some(Kind::Watch))
}

fn fits(kind: Kind, begin: &[u8]) -> bool {
    match kind {
        // The first document may be longer than what is seen of it.
        Kind::Watch => of_the_api(begin),
        _ => recognise::fits(kind, begin) > 0,
    }
}

/// True for the begin of objects of the API, of lists of them, and of watches.
pub(super) fn of_the_api(begin: &[u8]) -> bool {
    let text = begin.trim_ascii_start();
    let front = text.get(..ENVELOPE).unwrap_or(text);
    let has = |what: &[u8]| memchr::memmem::find(front, what).is_some();
    match text.first() {
        Some(b'{') => {
            // What was decoded with the API's own types and encoded again has lost its kind, and begins with its metadata.
            let inside = text.get(1..).unwrap_or_default().trim_ascii_start();
            has(b"\"apiVersion\"") || has(b"\"items\"") || inside.starts_with(b"\"metadata\"")
        }
        // Objects without the list around them.
        Some(b'[') => {
            let inside = text.get(1..).unwrap_or_default().trim_ascii_start();
            let first = inside.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
            first.is_some_and(|f| f.starts_with(b"\"metadata\"") || has(b"\"apiVersion\""))
        }
        _ => yaml::is(text) && (has(b"apiVersion:") || has(b"items:")),
    }
}

/// True for objects of the API of which the first is of a kind that is read. A bundle has many of other kinds.
fn is_of_known_kind(begin: &[u8]) -> bool {
    match first_kind(begin) {
        Some(first) => is_read(&first.kind, &first.group),
        None => names_known_kind(begin),
    }
}

/// The same for YAML, and for JSON whose end is not seen, by the first `kind` and `apiVersion` in its begin.
fn names_known_kind(begin: &[u8]) -> bool {
    if yaml::is(begin) {
        return names_known_kind_in_yaml(&String::from_utf8_lossy(begin));
    }
    let front = begin.get(..ENVELOPE).unwrap_or(begin);
    let front = String::from_utf8_lossy(front);
    let values = |key: &'static str| {
        let value = |rest: &str| {
            let rest = rest.trim_start_matches([':', ' ', '"']);
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        front.split(key).skip(1).map(value)
    };
    let kind = values("\"kind\"").find(|kind| kind != "List");
    let kind = kind.unwrap_or_default();
    let version = values("\"apiVersion\"").next().unwrap_or_default();
    is_read(
        kind.strip_suffix("List").unwrap_or(&kind),
        group_of(&version),
    )
}

/// Fields that only a Pod, an Event and a Node have, as they stand in items of a list in YAML.
const OF_ITEMS: [&str; 3] = ["    containers:", "  involvedObject:", "    nodeInfo:"];

fn names_known_kind_in_yaml(text: &str) -> bool {
    let text = text.trim_start();
    let value = |of_item: bool, key: &str| {
        let mut values = text
            .lines()
            .filter_map(|line| match (of_item, line.get(..2)) {
                (true, Some("- " | "  ")) => line.get(2..)?.strip_prefix(key),
                (true, _) => None,
                (false, _) => line.strip_prefix(key),
            });
        values.next().unwrap_or_default().trim()
    };
    let is_list = text.starts_with("- ") || text.lines().any(|line| line.starts_with("items:"));
    let kind = value(is_list, "kind:");
    if !kind.is_empty() {
        return is_read(kind, group_of(value(is_list, "apiVersion:")));
    }
    // Items without their kind: it stands behind them, perhaps beyond what is seen.
    match value(false, "kind:").strip_suffix("List") {
        Some("") | None => is_list && text.lines().any(|line| OF_ITEMS.contains(&line)),
        Some(kind) => is_read(kind, group_of(value(false, "apiVersion:"))),
    }
}

/// True for a kind of Kubernetes itself that is read. Other APIs have kinds of the same names, such as OpenShift's Node.
fn is_read(kind: &str, group: &str) -> bool {
    watched(&plural(kind)) && (!group.contains('.') || group.ends_with(".k8s.io"))
}

/// True for what begins like a description, or a table of Events, pods, or crictl's of containers and pods.
fn printed_by_kubectl(begin: &[u8]) -> bool {
    const FRONTS: [&[u8]; 5] = [b"Name:", b"LAST SEEN", b"NAME", b"CONTAINER", b"POD ID"];
    let text = begin.trim_ascii_start();
    // `minikube logs` of 2020 to 2022 put a star before it.
    let text = text.strip_prefix(b"* ").unwrap_or(text);
    FRONTS.iter().any(|front| text.starts_with(front))
}

/// True if most of the first lines that say who wrote them are in a short form of journalctl.
fn is_journal(begin: &[u8]) -> bool {
    let lines = begin.split(|b| *b == b'\n').take(60);
    let (mut of_journal, mut others) = (0, 0);
    for line in lines {
        // Markers, and lines that continue an entry.
        if line.is_empty() || line.starts_with(b"-- ") || line.starts_with(b" ") {
            continue;
        }
        match journal::writer(line) {
            Some(_) => of_journal += 1,
            None => others += 1,
        }
    }
    of_journal > others
}

/// True for what `systemctl status` prints of a unit: its state, and the last lines of its journal (systemd: src/systemctl/systemctl-show.c,
/// `print_status_info`).
pub(super) fn is_of_systemctl(begin: &[u8]) -> bool {
    let mut lines = begin
        .split(|b| *b == b'\n')
        .take(12)
        .map(<[u8]>::trim_ascii);
    lines.any(|line| line.starts_with(b"Loaded: "))
        && lines.any(|line| line.starts_with(b"Active: "))
}

/// Who wrote into a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// The names of the hosts; more than one where journals were merged.
    pub(super) hosts: BTreeSet<String>,
    /// The kinds of logs in it.
    pub(super) kinds: BTreeSet<Kind>,
    /// True if other programs wrote into it too: a journal of all units, `/var/log/messages`.
    pub(super) of_all: bool,
}

/// Most hosts that are told apart: nothing merges more nodes.
const HOSTS: usize = 1_000;
/// Longest piece of a line that is read at once, bytes: only its begin says who wrote it.
const PIECE: u64 = 1 << 16;
/// Longest name of a host, bytes.
const NAME: usize = 253;

impl Survey {
    /// Reads a whole journal.
    pub(super) fn new(mut journal: impl BufRead) -> io::Result<Self> {
        let mut told = Self::default();
        let mut line = Vec::new();
        let mut last = (String::new(), String::new());
        // What other programs of other hosts wrote is of no use.
        let mut of_components = BTreeSet::new();
        loop {
            line.clear();
            if (&mut journal).take(PIECE).read_until(b'\n', &mut line)? == 0 {
                if !of_components.is_empty() {
                    told.hosts = of_components;
                }
                return Ok(told);
            }
            let Some(Writer { host, ident }) = journal::writer(&line) else {
                continue;
            };
            if (last.0.as_str(), last.1.as_str()) == (host, ident) {
                continue;
            }
            last = (host.to_owned(), ident.to_owned());
            if !host.is_empty() && host.len() <= NAME && told.hosts.len() < HOSTS {
                told.hosts.insert(host.to_owned());
            }
            match Kind::of_writer(ident) {
                Some(kind) => {
                    told.kinds.insert(kind);
                    of_components.extend(told.hosts.get(host).cloned());
                }
                // The manager tells of the unit's start in the unit's own journal.
                None => told.of_all |= !matches!(ident, "systemd" | "init" | "sh" | "bash"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins of files of public bundles: a Cilium sysdump (items without their kind), must-gathers, an archive of Insights.
    #[test]
    fn a_document_is_known_by_its_first_object() {
        for (begin, known) in [
            ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n", true),
            (
                "---\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n",
                true,
            ),
            (
                "apiVersion: v1\nitems:\n- metadata:\n    ownerReferences:\n    - kind: ReplicaSet\n  spec:\n    containers:\n    - args:\n",
                true,
            ),
            (
                "apiVersion: v1\nitems:\n- count: 1\n  eventTime: null\n  involvedObject:\n    kind: Node\n",
                true,
            ),
            (
                "apiVersion: v1\nitems:\n- metadata:\n    name: a\nkind: NodeList\n",
                true,
            ),
            (
                "apiVersion: v1\nitems:\n- metadata:\n    name: a\nkind: EndpointsList\n",
                false,
            ),
            (
                "---\napiVersion: discovery.k8s.io/v1\nitems:\n- addressType: IPv4\n  apiVersion: discovery.k8s.io/v1\n  endpoints:\n  - targetRef:\n      kind: Pod\n",
                false,
            ),
            ("apiVersion: config.openshift.io/v1\nkind: Node\n", false),
            (
                "apiVersion: v1\ndata:\n  pod.yaml: |\n    kind: Pod\nkind: ConfigMap\n",
                false,
            ),
            (
                r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","spec":{"#,
                true,
            ),
            (
                r#"{"metadata":{"ownerReferences":[{"kind":"Node"}]},"data":{}}"#,
                false,
            ),
        ] {
            let is_known = named_by_itself(begin.as_bytes()) == Some(Kind::Watch);
            assert_eq!(is_known, known, "{begin}");
        }
    }
}
