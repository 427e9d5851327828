//! OTLP over gRPC: one message each way, then a status. Does not use tonic's client, which panics on a status whose
//! details are not base64 (0.14, `Status::from_header_map`): a store may send anything.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use percent_encoding::percent_decode_str;
use prost::Message;

use super::{LONGEST_ASKED, Refused, Status, Taken, said, taken};

/// The registered port of OTLP over gRPC.
pub(super) const PORT: u16 = 4317;
/// The method's path (`opentelemetry/proto/collector/trace/v1/trace_service.proto`).
pub(super) const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Bytes before each message: a flag and a length.
const PREFIX: usize = 5;

/// Metadata whose name ends in `-bin` may have padding or not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns a message with its prefix, not compressed. `None` for one longer than 4 GiB.
pub(super) fn framed(message: &[u8]) -> Option<Bytes> {
    let length = u32::try_from(message.len()).ok()?;
    let mut all = Vec::with_capacity(PREFIX + message.len());
    all.push(0);
    all.extend(length.to_be_bytes());
    all.extend(message);
    Some(all.into())
}

/// Interprets an answer with its trailers. Which codes may be retried is from the specification ("OTLP/gRPC Response").
pub(super) fn judge(headers: &HeaderMap, body: &[u8]) -> Result<Taken, Refused> {
    let text = |name: &'static str| headers.get(name).and_then(|v| v.to_str().ok());
    let code = text("grpc-status").and_then(|v| v.trim().parse::<u32>().ok());
    let Some(code) = code else {
        return Err(Refused {
            why: "what it answered is no gRPC".to_owned(),
            again: None,
        });
    };
    if code == 0 {
        return Ok(taken(body.get(PREFIX..).unwrap_or_default()));
    }
    let details = text("grpc-status-details-bin").and_then(|v| BASE64.decode(v).ok());
    let status = details.and_then(|d| Status::decode(d.as_slice()).ok());
    let asked = status.as_ref().and_then(wait);
    let words = text("grpc-message").map_or_else(
        || status.map(|s| s.message).unwrap_or_default().into_bytes(),
        |v| percent_decode_str(v).collect(),
    );
    let words = said(&words);
    let more = if words.is_empty() {
        String::new()
    } else {
        format!(": {words}")
    };
    let again = match code {
        // Cancelled, DeadlineExceeded, Aborted, OutOfRange, Unavailable, DataLoss.
        1 | 4 | 10 | 11 | 14 | 15 => Some(asked.unwrap_or_default()),
        // ResourceExhausted: only when the store says when it recovers.
        8 => asked,
        _ => None,
    };
    Err(Refused {
        why: format!("it answered {}{more}", kflow_model::cri::code_name(code)),
        again,
    })
}

/// Returns the pause that a store asks for, if any.
fn wait(status: &Status) -> Option<Duration> {
    let is_retry = |url: &str| url.rsplit('/').next() == Some("google.rpc.RetryInfo");
    let info = status.details.iter().find(|d| is_retry(&d.type_url))?;
    let delay = RetryInfo::decode(info.value.as_slice()).ok()?.delay?;
    let seconds = u64::try_from(delay.seconds).unwrap_or_default();
    let nanos = u32::try_from(delay.nanos).unwrap_or_default();
    let asked = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into()));
    Some(asked.min(LONGEST_ASKED))
}

/// `google.rpc.RetryInfo`
#[derive(Clone, PartialEq, Eq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

/// `google.protobuf.Duration`
#[derive(Clone, PartialEq, Eq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::post::{Answer, Detail, Partial};
    use hyper::header::{HeaderName, HeaderValue};

    fn judged(headers: &[(&'static str, &str)], body: &[u8]) -> Result<Taken, Refused> {
        let each = headers.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).expect("a value");
            (HeaderName::from_static(name), value)
        });
        judge(&each.collect(), body)
    }

    #[test]
    fn what_a_status_means_is_what_the_protocol_says() {
        assert_eq!(judged(&[("grpc-status", "0")], b""), Ok(Taken::default()));
        let partial = Answer {
            partial: Some(Partial {
                rejected: 3,
                message: "old".to_owned(),
            }),
        };
        let body = framed(&partial.encode_to_vec()).expect("short");
        let taken = judged(&[("grpc-status", "0")], &body).expect("taken");
        assert_eq!((taken.rejected, taken.why.as_str()), (3, "old"));
        for (code, again) in [
            (1, true),
            (2, false),
            (3, false),
            (4, true),
            (7, false),
            (8, false),
            (10, true),
            (11, true),
            (12, false),
            (13, false),
            (14, true),
            (15, true),
            (16, false),
            (99, false),
        ] {
            let told = judged(&[("grpc-status", &code.to_string())], b"").expect_err("refused");
            assert_eq!(told.again.is_some(), again, "{code}");
        }
        let told = judged(
            &[("grpc-status", "16"), ("grpc-message", "no%20token%1b[31m")],
            b"",
        );
        assert_eq!(
            told.expect_err("refused").why,
            "it answered Unauthenticated: no token [31m"
        );
        for no in [&[][..], &[("grpc-status", "")], &[("grpc-status", "-1")]] {
            assert_eq!(judged(no, b"").expect_err("refused").again, None);
        }
    }

    #[test]
    fn a_store_says_how_long_it_wants_to_be_left_alone() {
        let details = |seconds: i64, nanos: i32| {
            let info = RetryInfo {
                delay: Some(Delay { seconds, nanos }),
            };
            let status = Status {
                message: "full".to_owned(),
                details: vec![Detail {
                    type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
                    value: info.encode_to_vec(),
                }],
            };
            BASE64.encode(status.encode_to_vec())
        };
        let asked = |code: &str, details: &str| {
            let headers = [("grpc-status", code), ("grpc-status-details-bin", details)];
            judged(&headers, b"").expect_err("refused")
        };
        let told = asked("8", &details(2, 500_000_000));
        assert_eq!(told.again, Some(Duration::from_millis(2500)));
        assert_eq!(told.why, "it answered ResourceExhausted: full");
        let unpadded = details(7, 0);
        let told = asked("14", unpadded.trim_end_matches('='));
        assert_eq!(told.again, Some(Duration::from_secs(7)));
        // A day is shortened; a negative time, and what is not base64, count as no time given.
        assert_eq!(asked("14", &details(86_400, 0)).again, Some(LONGEST_ASKED));
        assert_eq!(
            asked("14", &details(i64::MIN, -1)).again,
            Some(Duration::ZERO)
        );
        assert_eq!(asked("14", "!!").again, Some(Duration::ZERO));
        assert_eq!(asked("8", "!!").again, None);
    }
}
