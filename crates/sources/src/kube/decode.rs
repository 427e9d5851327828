//! Turns JSON of the API into observations. Pure.
//!
//! Decides which fields of an object kflow reads. They are named in slim structs, so that the parser skips everything
//! else (environment values, commands, arguments, annotations, managed fields), and nothing of it can reach a session.
//!
//! | module | holds |
//! |---|---|
//! | [`lines`] | [`KubeLines`]: `kubectl get`, watch streams as a sequence of lines |
//! | `begin` | which kind the begin of a file is of |
//! | [`Renewals`] | which renewals of leases are passed on |
//! | `json` | fields that may be null, times, texts with a limit |
//! | `pod`, `event`, `node`, `object` | one kind each |

use serde::Deserialize;

use super::super::Fed;
use kflow_model::{
    Body, Observation, Source, Stamp, Text,
    gap::{WatchKind, WatchNote},
    pod::WatchEvent,
};

mod begin;
mod event;
mod json;
pub mod lines;
mod newest;
mod node;
mod object;
mod pod;
mod renewals;

pub use super::kubectl::{
    EARLIER, Embedded, Joined, MADE_UID, NAMESPACE, ROW_UID, Unread, begins_outputs, embedded,
    has_event, is_printed, is_undated, joined, outputs, printed_at, resembles_printed,
};
pub use begin::{first_kind, group_of};
pub use event::Occurrences;
pub use lines::{CUT_OFF, EMPTY_LIST, KubeLines, NO_JSON};
pub use newest::newest_time;
pub use renewals::Renewals;

/// Decodes one object. `kind` is the object's kind where its JSON does not name it (items of a `PodList`). `stamp` is
/// the arrival of the list or watch event, and becomes the observation's stamp, except for Events, which have a time
/// of their own (see [`EventSeen`](kflow_model::event::EventSeen)).
///
/// The error is [`Fed::Ignored`] for what kflow does not use, and [`Fed::Malformed`] for what is not such an object.
pub fn decode_object(
    json: &[u8],
    kind: &str,
    event: WatchEvent,
    stamp: Stamp,
) -> Result<Observation, Fed> {
    let told = if kind.is_empty() {
        serde_json::from_slice::<KindOnly>(json)
            .map_err(|_| Fed::Malformed("not a JSON object"))?
            .kind
            .0
    } else {
        kind.into()
    };
    let (stamp, body) = match told.as_str() {
        "Pod" => (stamp, Body::Pod(Box::new(pod::decode(json, event)?))),
        "Event" => {
            let (at, e) = event::decode(json, event, stamp)?;
            (at, Body::Event(Box::new(e)))
        }
        "Node" => (stamp, Body::Node(Box::new(node::decode(json, event)?))),
        "" => return Err(Fed::Malformed("object without kind")),
        other => (
            stamp,
            Body::Object(Box::new(object::decode(json, other, event)?)),
        ),
    };
    Ok(Observation {
        stamp,
        source: Source::Kube,
        body,
    })
}

/// Decodes one `{"type":…,"object":…}` of a watch. `resource` names the watch (`pods`), and is used for notes when
/// the object does not name its kind (errors).
pub fn decode_watch_event(json: &[u8], resource: &str, stamp: Stamp) -> Result<Observation, Fed> {
    let e: lines::WatchLine<'_> =
        serde_json::from_slice(json).map_err(|_| Fed::Malformed("not a watch event"))?;
    let Some(object) = e.object else {
        return Err(Fed::Malformed("watch event without object"));
    };
    decode_typed(&e.kind, object.get().as_bytes(), resource, stamp)
}

fn decode_typed(
    kind: &str,
    object: &[u8],
    resource: &str,
    stamp: Stamp,
) -> Result<Observation, Fed> {
    let event = match kind {
        "ADDED" => WatchEvent::Added,
        "MODIFIED" => WatchEvent::Modified,
        "DELETED" => WatchEvent::Deleted,
        "BOOKMARK" => {
            let o: KindOnly = serde_json::from_slice(object)
                .map_err(|_| Fed::Malformed("bookmark without object"))?;
            return Ok(note(
                &or_plural(resource, &o.kind.0),
                WatchKind::Bookmark,
                &o.metadata.0.resource_version.0,
                stamp,
            ));
        }
        "ERROR" => {
            let s: StatusOnly = serde_json::from_slice(object)
                .map_err(|_| Fed::Malformed("watch error without status"))?;
            let mut text = s.message.0;
            if let Some(code) = s.code {
                text.push_str(&format!(" ({code} {})", s.reason.0));
            }
            return Ok(note(resource, WatchKind::Broken, text.trim(), stamp));
        }
        _ => return Err(Fed::Malformed("unknown type of watch event")),
    };
    decode_object(object, "", event, stamp)
}

/// Returns a note of a watch as an observation.
pub fn note(resource: &str, kind: WatchKind, detail: &str, stamp: Stamp) -> Observation {
    Observation {
        stamp,
        source: Source::Kube,
        body: Body::Watch(Box::new(WatchNote {
            resource: resource.into(),
            kind,
            scope: Text::default(),
            detail: json::cut(detail, 1024),
            failure: None,
        })),
    }
}

fn or_plural(resource: &str, kind: &str) -> Text {
    if resource.is_empty() {
        plural(kind)
    } else {
        resource.into()
    }
}

/// Returns the plural resource of a kind, as in URLs: `networkpolicies` for `NetworkPolicy`.
pub fn plural(kind: &str) -> Text {
    let lower = kind.to_ascii_lowercase();
    let plural = if let Some(stem) = lower.strip_suffix('y') {
        format!("{stem}ies")
    } else if lower.ends_with('s') {
        format!("{lower}es")
    } else {
        format!("{lower}s")
    };
    plural.into()
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct KindOnly {
    kind: json::N<Text>,
    metadata: json::N<VersionOnly>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct VersionOnly {
    resource_version: json::N<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StatusOnly {
    message: json::N<Text>,
    reason: json::N<Text>,
    code: Option<i64>,
}

#[cfg(test)]
mod tests;
