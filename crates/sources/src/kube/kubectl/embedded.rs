//! Objects of the API within a text, in YAML or JSON: whole, cut, or only a part of one, as people paste the `status` of a pod.
//!
//! What is taken out of the text is what only such an object has. A manifest, the values of a chart and the status of a custom
//! resource stay in it.
//!
//! | module | holds |
//! |---|---|
//! | `json` | values of JSON, also cut ones |
//! | `shape` | what a value is, by its fields |
//! | `part` | objects that are put together of such values |

use std::ops::Range;

use serde_json::Value;

use super::command::{Command, Described};
use super::outline::indent;
use super::ticket;

mod json;
mod part;
mod shape;

use part::Parts;

/// Most times that a piece of YAML which cannot be read to its end is split, and the rest read by itself.
const SPLITS: usize = 8;

/// Keys at which YAML may begin that is read.
const KEYS: [&str; 28] = [
    "apiVersion",
    "conditions",
    "containerID",
    "containerStatuses",
    "count",
    "eventTime",
    "firstTimestamp",
    "hostIP",
    "image",
    "initContainerStatuses",
    "involvedObject",
    "items",
    "kind",
    "lastHeartbeatTime",
    "lastProbeTime",
    "lastState",
    "lastTimestamp",
    "lastTransitionTime",
    "message",
    "metadata",
    "name",
    "phase",
    "reason",
    "state",
    "status",
    "terminated",
    "type",
    "waiting",
];

/// A text, and the objects that were in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embedded {
    /// Everything else. A blank line stands for each piece that was taken out.
    pub text: String,
    /// The objects as the API would have written them, one a line.
    pub objects: Vec<u8>,
}

/// Why a document cannot be read: the line from which on it is no YAML, from 1, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread(pub Option<usize>);

/// Reads YAML.
type Yaml<'a> = &'a dyn Fn(&str) -> Result<Value, Unread>;

/// Takes the objects out of a text. `None` where there are none.
pub fn embedded(text: &str, yaml: Yaml<'_>) -> Option<Embedded> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let clean =
        |at: usize| -> Option<&str> { lines.get(at).map(|line| ticket::unquoted(line).trim_end()) };
    let mut out = Embedded::default();
    let mut found = part::Found::default();
    // The object that the command before prints.
    let mut printed: Option<Described> = None;
    // The pod of which the begin is missing.
    let mut cut: Option<Described> = None;
    let mut at = 0;
    while let Some(line) = clean(at) {
        let begin = at;
        let mut parts = Parts::new(printed.as_ref().or(cut.as_ref()), &mut found);
        // Pieces without anything between them are of one object.
        let mut others = Vec::new();
        while let Some(end) = piece(at, &clean, yaml, &mut parts) {
            if !parts.has_news() {
                others.push(at..end);
            }
            at = end;
        }
        let of_metadata = parts.cut.take();
        let of = |range: Range<usize>| lines.get(range).unwrap_or_default().concat();
        if at == begin {
            if !line.is_empty() && !ticket::is_fence(line) && !is_ellipsis(line) {
                printed = Command::of(line).and_then(|command| command.printed);
                let is_of_yaml = line.starts_with(' ') || key(line).is_some();
                cut.take_if(|_| !is_of_yaml);
            }
            at += 1;
            out.text.push_str(&of(begin..at));
        } else if parts.end() {
            for other in others {
                out.text.push_str(&of(other));
            }
            out.text.push('\n');
            (printed, cut) = (None, None);
        } else {
            out.text.push_str(&of(begin..at));
        }
        cut = of_metadata.or(cut);
    }
    out.objects = found.objects;
    (!out.objects.is_empty()).then_some(out)
}

/// Reads the values that begin at a line. Returns the line behind them; `None` where none begins.
fn piece<'a>(
    at: usize,
    clean: &dyn Fn(usize) -> Option<&'a str>,
    yaml: Yaml<'_>,
    parts: &mut Parts<'_>,
) -> Option<usize> {
    let line = clean(at)?;
    if let Some(column) = json::begins(line) {
        let piece = json::read(at, column, clean);
        for text in &piece.values {
            // A comma too many, a comment.
            let value = serde_json::from_str(text).ok().or_else(|| yaml(text).ok());
            if let Some(value) = value {
                parts.take(value);
            }
        }
        return Some(piece.end);
    }
    if is_ellipsis(line) && !parts.is_empty() {
        return Some(at + 1);
    }
    if !KEYS.contains(&key(line)?) {
        return None;
    }
    let end = yaml_end(at, clean);
    let lines: Vec<&str> = (at..end).filter_map(clean).collect();
    let mut rest = lines.as_slice();
    for _ in 0..SPLITS {
        let text = rest.join("\n");
        let why = match read(&text, yaml) {
            Ok(value) => {
                parts.take(value);
                break;
            }
            Err(Unread(line)) => line.unwrap_or(1),
        };
        let split = rest.split_at_checked(why.saturating_sub(1));
        let Some((before, behind)) = split.filter(|(before, _)| !before.is_empty()) else {
            break;
        };
        if let Ok(value) = read(&before.join("\n"), yaml) {
            parts.take(value);
        }
        rest = behind;
    }
    Some(end)
}

/// Reads YAML that may end within a text in quotation marks.
fn read(text: &str, yaml: Yaml<'_>) -> Result<Value, Unread> {
    yaml(text).or_else(|unread| {
        let is_open = |quote: char| text.matches(quote).count() % 2 == 1;
        let mut marks = ['\'', '"'].into_iter().filter(|quote| is_open(*quote));
        let closed = marks.find_map(|quote| yaml(&format!("{text}{quote}")).ok());
        closed.ok_or(unread)
    })
}

/// Returns the line behind the last one of the YAML that begins at a line: each is indented more, or another key or entry beside it.
fn yaml_end<'a>(begin: usize, clean: &dyn Fn(usize) -> Option<&'a str>) -> usize {
    let base = clean(begin).map_or(0, indent);
    let mut end = begin + 1;
    let mut at = end;
    while let Some(line) = clean(at) {
        at += 1;
        if line.is_empty() {
            continue;
        }
        let is_apart = at > end + 1;
        let depth = indent(line);
        let goes_on = depth > base || depth == base && !is_apart && key(line).is_some();
        if !goes_on || ticket::is_fence(line) {
            break;
        }
        end = at;
    }
    end
}

/// Returns the key of `  - key: value`.
fn key(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = text.strip_prefix("- ").map_or(text, str::trim_start);
    let (key, value) = text.split_once(':')?;
    let of_key = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    let is_key = !key.is_empty() && key.bytes().all(of_key);
    (is_key && (value.is_empty() || value.starts_with(' '))).then_some(key)
}

/// What people put where they left something out.
fn is_ellipsis(line: &str) -> bool {
    let text = line.trim();
    matches!(text, "…" | "<snip>" | "[...]" | "[…]")
        || text.len() > 2 && text.bytes().all(|b| b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIECES: [&str; 18] = [
        "status:\n",
        "  phase: Pending\n",
        "  qosClass: x\n",
        "conditions:\n- type: PodScheduled\n",
        "{\"phase\": \"Failed\", \"startTime\": null}\n",
        "{\"state\": {\"waiting\": {\"reason\": \"",
        "\"state\": {\"waiting\": {}}, \n",
        "[{\"type\": \"ContainersReady\", \"status\": false}",
        "}]",
        ",",
        "\\\"",
        "```\n",
        "...\n",
        "\n",
        "$ kubectl get pod web-0 -o yaml\n",
        "> ",
        "é",
        "  ",
    ];

    proptest! {
        #[test]
        fn any_text_is_taken_apart(of in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40), at in 0_usize..5) {
            let text = of.concat();
            let yaml = |text: &str| serde_json::from_str(text).map_err(|_| Unread(Some(at)));
            if let Some(embedded) = embedded(&text, &yaml) {
                let mut objects = embedded.objects.split(|b| *b == b'\n').filter(|o| !o.is_empty());
                prop_assert!(objects.all(|o| serde_json::from_slice::<Value>(o).is_ok_and(|o| o.get("kind").is_some())));
                let mut lines = embedded.text.lines().filter(|line| !line.is_empty());
                prop_assert!(lines.all(|line| text.contains(line)));
            }
        }
    }
}
