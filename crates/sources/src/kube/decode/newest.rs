//! The newest time in a document: the best estimate of when it was read, where that was not written down.

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

use kflow_model::{Nanos, stamp::SECOND};
use serde_json::Value;

/// Fields with a moment that has passed. Expiries are in the future and do not count; `deletionTimestamp` is the time of
/// the deletion with the grace period added to it.
const PAST: [&str; 18] = [
    "acquireTime",
    "completionTime",
    "creationTimestamp",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "eventTime",
    "finishedAt",
    "firstTimestamp",
    "lastHeartbeatTime",
    "lastObservedTime",
    "lastProbeTime",
    "lastScheduleTime",
    "lastTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "renewTime",
    "startTime",
    "startedAt",
];

/// Returns the newest time in those fields of an object or list that hold past moments, with its precision in ns.
/// `managedFields[].time` counts too: it has the times of writes that no condition shows.
pub fn newest_time(json: &[u8]) -> Option<(Nanos, u32)> {
    let mut newest = None;
    let mut de = serde_json::Deserializer::from_slice(json);
    Walk {
        newest: &mut newest,
        past: false,
    }
    .deserialize(&mut de)
    .ok()?;
    newest
}

struct Walk<'a> {
    newest: &'a mut Option<(Nanos, u32)>,
    past: bool,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, s: &str) -> Result<(), E> {
        if self.past
            && let Some(t) = Nanos::parse_rfc3339(s)
        {
            *self.newest = Some(self.newest.map_or(t, |n| n.max(t)));
        }
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq
            .next_element_seed(Walk {
                newest: self.newest,
                past: false,
            })?
            .is_some()
        {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut deletion, mut grace) = (None, None);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "fieldsV1" | "annotations" | "labels" => {
                    map.next_value::<IgnoredAny>()?;
                }
                "deletionTimestamp" => {
                    map.next_value_seed(Walk {
                        newest: &mut deletion,
                        past: true,
                    })?;
                }
                "deletionGracePeriodSeconds" => grace = map.next_value::<Value>()?.as_i64(),
                key => map.next_value_seed(Walk {
                    newest: self.newest,
                    past: key == "time" || PAST.binary_search(&key).is_ok(),
                })?,
            }
        }
        if let (Some((until, precision)), Some(grace)) = (deletion, grace) {
            let asked = until.plus(grace.saturating_mul(-SECOND));
            *self.newest = (*self.newest).max(Some((asked, precision)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_was_asked_for_its_grace_period_before_its_time() {
        let newest = |json: &str| newest_time(json.as_bytes()).map(|(at, _)| at);
        let time = |text: &str| Nanos::parse_rfc3339(text).map(|(at, _)| at);
        let deleted = r#"{"items": [{"metadata": {"creationTimestamp": "2026-11-21T08:00:00Z",
            "deletionTimestamp": "2026-11-21T09:30:30Z", "deletionGracePeriodSeconds": 30}}]}"#;
        assert_eq!(newest(deleted), time("2026-11-21T09:30:00Z"));
        let without = r#"{"metadata": {"creationTimestamp": "2026-11-21T08:00:00Z",
            "deletionTimestamp": "2026-11-21T09:30:30Z"}}"#;
        assert_eq!(newest(without), time("2026-11-21T08:00:00Z"));
    }
}
