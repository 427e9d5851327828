//! Recorded lists and watches: `{"t":ns,"stream":"pods","kind":"LIST|WATCH|RESTART","line":…}` a line, where `line` is
//! what the apiserver sent, or why the recorder's watch broke.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

use kflow_model::gap::WatchKind;
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Nanos, Observation, Stamp};
use kflow_sources::kube::decode::{Occurrences, decode_object, decode_watch_event, note};
use kflow_sources::{Fed, LineDecoder};

/// Reads recorded lists and watches.
#[derive(Debug, Default)]
pub(crate) struct RecordedWatch {
    occurrences: Occurrences,
}

#[derive(Deserialize)]
struct Line<'a> {
    t: i64,
    #[serde(borrow)]
    stream: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    line: &'a RawValue,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

impl RecordedWatch {
    fn take(&mut self, read: Result<Observation, Fed>, out: &mut Vec<Observation>) -> Fed {
        match read {
            Ok(o) => {
                if let Body::Event(e) = &o.body
                    && !self.occurrences.is_news(e, o.stamp)
                {
                    return Fed::Ignored("event seen before");
                }
                out.push(o);
                Fed::Observed(1)
            }
            Err(fed) => fed,
        }
    }

    fn list(
        &mut self,
        stream: &str,
        list: &List<'_>,
        stamp: Stamp,
        out: &mut Vec<Observation>,
    ) -> Fed {
        let version = &list.metadata.resource_version;
        let kind = list.kind.trim_end_matches("List");
        let mut fed = Fed::Observed(0);
        out.push(note(stream, WatchKind::ListBegin, version, stamp));
        for item in list.items.iter().flatten() {
            let read = decode_object(item.get().as_bytes(), kind, WatchEvent::Listed, stamp);
            if let Fed::Malformed(why) = self.take(read, out) {
                fed = Fed::Malformed(why);
            }
        }
        out.push(note(stream, WatchKind::ListEnd, version, stamp));
        fed
    }
}

impl LineDecoder for RecordedWatch {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
            return Fed::Malformed("not a line of watch.jsonl");
        };
        let (stamp, json) = (Stamp::exact(Nanos(line.t)), line.line.get());
        match &*line.kind {
            "LIST" => match serde_json::from_str(json) {
                Ok(list) => self.list(&line.stream, &list, stamp, out),
                Err(_) => Fed::Malformed("LIST without a list"),
            },
            "WATCH" => {
                let read = decode_watch_event(json.as_bytes(), &line.stream, stamp);
                self.take(read, out)
            }
            "RESTART" => {
                let why: Option<String> = serde_json::from_str(json).unwrap_or_default();
                let why = why.unwrap_or_default();
                out.push(note(&line.stream, WatchKind::Broken, &why, stamp));
                Fed::Observed(1)
            }
            _ => Fed::Malformed("unknown kind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_begin_and_an_end_and_a_watch_that_broke_says_so() {
        let mut lines = RecordedWatch::default();
        let mut out = Vec::new();
        for line in [
            r#"{"t":1,"stream":"pods","kind":"LIST","line":{"kind":"PodList","metadata":{"resourceVersion":"511"},"items":[]}}"#,
            r#"{"t":2,"stream":"pods","kind":"RESTART","line":"connection lost"}"#,
            r#"{"t":3,"stream":"pods","kind":"RESTART","line":null}"#,
        ] {
            assert!(matches!(
                lines.line(line.as_bytes(), &mut out),
                Fed::Observed(_)
            ));
        }
        let notes: Vec<_> = out
            .iter()
            .map(|o| match &o.body {
                Body::Watch(n) => (o.stamp.seen.0, n.kind, n.detail.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            notes,
            [
                (1, WatchKind::ListBegin, "511"),
                (1, WatchKind::ListEnd, "511"),
                (2, WatchKind::Broken, "connection lost"),
                (3, WatchKind::Broken, ""),
            ]
        );
    }
}
