//! A Kubernetes Event, from `v1` and from `events.k8s.io/v1`.

use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::super::super::Fed;
use super::json::{Meta, N, Time, cut};
use kflow_model::{
    Nanos, ObjectRef, Stamp, Text,
    event::{COMBINED, EventSeen},
    pod::WatchEvent,
    stamp::SECOND,
};

pub(super) fn decode(
    json: &[u8],
    watch: WatchEvent,
    arrival: Stamp,
) -> Result<(Stamp, EventSeen), Fed> {
    if watch == WatchEvent::Deleted {
        return Err(Fed::Ignored("event object expired"));
    }
    let raw: RawEvent = serde_json::from_slice(json)
        .map_err(|_| Fed::Malformed("not an event as the API writes it"))?;
    let meta = raw.metadata.0;
    let object = raw.involved_object.or(raw.regarding).unwrap_or_default();
    let (series_count, series_last) = raw.series.map_or((None, Time::default()), |s| {
        (Some(s.count.0), s.last_observed_time)
    });
    let told = series_count.or(raw.count).or(raw.deprecated_count);
    // The API accepts any int32 that a client sends.
    let count = u32::try_from(told.unwrap_or(1)).unwrap_or(1).max(1);
    let first_told = raw
        .event_time
        .0
        .or(raw.first_timestamp.0)
        .or(raw.deprecated_first_timestamp.0)
        .or(meta.creation_timestamp.0);
    let born = name_time(&meta.name.0, first_told);
    let last_told = series_last
        .0
        .or(raw.last_timestamp.0)
        .or(raw.deprecated_last_timestamp.0);
    let at = if count <= 1 {
        born.map(|t| (t, 1)).or(raw.event_time.0).or(last_told)
    } else {
        last_told.or(raw.event_time.0)
    }
    .or(first_told);
    let (at, precision) = at.unwrap_or((arrival.at, arrival.precision));

    let message = if raw.message.0.is_empty() {
        raw.note.0
    } else {
        raw.message.0
    };
    let plain = message.strip_prefix(COMBINED);
    let source = raw.source.or(raw.deprecated_source).unwrap_or_default();
    let a = meta.annotations.0;
    let mut annotations: Vec<(Text, Text)> = [
        ("offending_containers", a.offending_containers.0),
        ("offending_containers_usage", a.offending_containers_usage.0),
        ("offending_pod", a.offending_pod.0),
        ("starved_resource", a.starved_resource.0),
    ]
    .into_iter()
    .filter(|(_, v)| !v.is_empty())
    .map(|(k, v)| (k.into(), v))
    .collect();
    annotations.sort();
    let seen = EventSeen {
        container: container(&object.field_path.0).into(),
        object: object.into_model(),
        reason: raw.reason.0,
        message: cut(plain.unwrap_or(&message), 4096),
        warning: raw.kind.0 == "Warning",
        count,
        first: born.or(first_told.map(|(t, _)| t)),
        component: first_filled([
            raw.reporting_component.0,
            raw.reporting_controller.0,
            source.component.0,
        ]),
        host: host(&source.host.0, &raw.reporting_instance.0),
        name: meta.name.0,
        related: raw.related.map(RawRef::into_model),
        aggregated: plain.is_some(),
        listed: watch == WatchEvent::Listed,
        annotations,
    };
    if seen.reason.is_empty() && seen.object.name.is_empty() {
        // The API accepts such an Event from anybody who may create one, and it says nothing.
        return Err(Fed::Ignored("event without reason and object"));
    }
    Ok((Stamp::new(at, precision, arrival.seen), seen))
}

/// Returns the time of the first occurrence in nanoseconds: recorders name an Event `<object>.<hex of UnixNano>`. It
/// is trusted only when it agrees with the time that the object has (`told`), because any name may end in hex digits.
fn name_time(name: &str, told: Option<(Nanos, u32)>) -> Option<Nanos> {
    let (_, hex) = name.rsplit_once('.')?;
    let ns = i64::from_str_radix(hex, 16).ok()?;
    let (told, precision) = told?;
    let off = Nanos(ns).since(told);
    // One second more than the precision: the recorder reads the clock twice, around a second's edge.
    (-SECOND..=i64::from(precision) + SECOND)
        .contains(&off)
        .then_some(Nanos(ns))
}

/// `web` of `spec.containers{web}`.
fn container(field_path: &str) -> &str {
    field_path
        .strip_prefix("spec.")
        .and_then(|p| p.split_once('{'))
        .and_then(|(_, c)| c.strip_suffix('}'))
        .unwrap_or_default()
}

fn first_filled<const N: usize>(texts: [Text; N]) -> Text {
    texts
        .into_iter()
        .find(|t| !t.is_empty())
        .unwrap_or_default()
}

/// Returns the host: `told`, or the instance where that is a plain host name (kubelet), not `<component>-<host>`.
fn host(told: &Text, instance: &Text) -> Text {
    if told.is_empty() && !instance.contains("scheduler") {
        instance.clone()
    } else {
        told.clone()
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawEvent {
    metadata: N<Meta>,
    involved_object: Option<RawRef>,
    regarding: Option<RawRef>,
    related: Option<RawRef>,
    reason: N<Text>,
    message: N<Text>,
    note: N<Text>,
    #[serde(rename = "type")]
    kind: N<Text>,
    count: Option<i32>,
    deprecated_count: Option<i32>,
    first_timestamp: Time,
    deprecated_first_timestamp: Time,
    last_timestamp: Time,
    deprecated_last_timestamp: Time,
    event_time: Time,
    series: Option<Series>,
    source: Option<RawSource>,
    deprecated_source: Option<RawSource>,
    reporting_component: N<Text>,
    reporting_controller: N<Text>,
    reporting_instance: N<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Series {
    count: N<i32>,
    last_observed_time: Time,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawSource {
    component: N<Text>,
    host: N<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawRef {
    kind: N<Text>,
    namespace: N<Text>,
    name: N<Text>,
    uid: N<Text>,
    field_path: N<Text>,
}

impl RawRef {
    fn into_model(self) -> ObjectRef {
        ObjectRef {
            kind: self.kind.0,
            namespace: self.namespace.0,
            name: self.name.0,
            uid: self.uid.0,
        }
    }
}

/// Tells a new occurrence from an Event object that was only seen again (relist, a change of another field).
///
/// Bounded: when it holds more than 50,000 objects it forgets them all, which costs a few repeats after a relist.
#[derive(Clone, Debug, Default)]
pub struct Occurrences {
    counts: FxHashMap<(Text, Text), (u32, Nanos)>,
}

impl Occurrences {
    const MOST: usize = 50_000;

    /// Returns true when this occurrence was not seen before, and remembers it.
    pub fn is_news(&mut self, e: &EventSeen, stamp: Stamp) -> bool {
        // Somebody took the name out.
        if e.name.is_empty() {
            return true;
        }
        if self.counts.len() > Self::MOST {
            self.counts.clear();
        }
        let key = (e.object.namespace.clone(), e.name.clone());
        let now = (e.count, stamp.at);
        match self.counts.entry(key) {
            std::collections::hash_map::Entry::Vacant(v) => {
                v.insert(now);
                true
            }
            std::collections::hash_map::Entry::Occupied(mut o) => {
                // The newer recorder advances the time before the count reaches the API.
                let news = now.0 > o.get().0 || now.1.since(o.get().1) > SECOND;
                if news {
                    o.insert(now);
                }
                news
            }
        }
    }
}
