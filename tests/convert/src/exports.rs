//! Recorded OTLP exports: `{"t":ns,"b64":"<ExportTraceServiceRequest>"}` a line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::borrow::Cow;

use kflow_model::{Nanos, Observation};
use kflow_sources::otlp::decode_request;
use kflow_sources::{Fed, LineDecoder};

/// Reads recorded exports; it has no state.
#[derive(Debug, Default)]
pub(crate) struct RecordedExports;

#[derive(Deserialize)]
struct Line<'a> {
    t: i64,
    #[serde(borrow)]
    b64: Cow<'a, str>,
}

impl LineDecoder for RecordedExports {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
            return Fed::Malformed("not a line of otlp.jsonl");
        };
        let Ok(bytes) = STANDARD.decode(line.b64.as_bytes()) else {
            return Fed::Malformed("bad base64");
        };
        match decode_request(&bytes, Nanos(line.t)) {
            Ok(spans) => {
                out.extend_from_slice(&spans);
                Fed::Observed(spans.len())
            }
            Err(_) => Fed::Malformed("protobuf that is no trace export"),
        }
    }
}
