//! Recorded scrapes: `{"t":ns,"took_ns":n,"what":"kubelet-metrics","status":200,"body":"…"}` a line, with `error` in place
//! of `body` when there was no answer. `t` is when the recorder asked.

use serde::Deserialize;
use std::borrow::Cow;

use kflow_model::{Nanos, Observation};
use kflow_sources::metrics::{Scrape, Scrapes};
use kflow_sources::{Fed, LineDecoder};

/// Reads recorded scrapes.
#[derive(Debug, Default)]
pub(crate) struct ScrapeLines {
    scrapes: Scrapes,
}

#[derive(Deserialize)]
struct Line<'a> {
    t: i64,
    #[serde(default)]
    took_ns: u64,
    #[serde(borrow)]
    what: Cow<'a, str>,
    #[serde(default)]
    status: u16,
    #[serde(borrow, default)]
    body: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
}

impl LineDecoder for ScrapeLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let Ok(l) = serde_json::from_slice::<Line<'_>>(line) else {
            return Fed::Malformed("not a line of snapshots.jsonl");
        };
        let scrape = Scrape {
            at: Nanos(l.t).plus(i64::try_from(l.took_ns).unwrap_or(0)),
            took_ns: l.took_ns,
            what: &l.what,
            code: l.status,
            body: l.body.as_deref().or(l.error.as_deref()).unwrap_or_default(),
        };
        let before = out.len();
        match self.scrapes.take(scrape, out) {
            Ok(()) => Fed::Observed(out.len() - before),
            Err(reason) => Fed::Ignored(reason),
        }
    }
}
