//! The headers of a call that kflow reads, parsed once: a hit in the dynamic table costs no parsing.

use super::hpack::HeaderSet;
use super::limits;
use super::method::MethodRef;
use super::text::text;
use kflow_model::stamp::MILLI;
use kflow_model::{SpanId, Text, TraceId};

/// A header that kflow reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Path,
    Timeout,
    Traceparent,
    UserAgent,
    HttpStatus,
    GrpcStatus,
    GrpcMessage,
}

/// What is kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Path(MethodRef),
    Timeout(Option<i64>),
    Traceparent(Option<(TraceId, SpanId)>),
    UserAgent(Text),
    HttpStatus(u32),
    GrpcStatus(Option<u32>),
    GrpcMessage(Text),
}

/// The headers of gRPC.
pub(super) struct Grpc;

impl HeaderSet for Grpc {
    type Name = Name;
    type Field = Field;

    fn name(name: &[u8]) -> Option<Name> {
        Some(match name {
            b":path" => Name::Path,
            b"grpc-timeout" => Name::Timeout,
            b"traceparent" => Name::Traceparent,
            b"user-agent" => Name::UserAgent,
            b":status" => Name::HttpStatus,
            b"grpc-status" => Name::GrpcStatus,
            b"grpc-message" => Name::GrpcMessage,
            _ => return None,
        })
    }

    fn field(name: Name, value: &[u8]) -> Field {
        match name {
            Name::Path => Field::Path(MethodRef::parse(value)),
            Name::Timeout => Field::Timeout(timeout(value)),
            Name::Traceparent => Field::Traceparent(traceparent(value)),
            Name::UserAgent => Field::UserAgent(text(value, limits::TEXT)),
            Name::HttpStatus => Field::HttpStatus(number(value).unwrap_or(0)),
            Name::GrpcStatus => Field::GrpcStatus(number(value)),
            Name::GrpcMessage => Field::GrpcMessage(percent_decoded(value)),
        }
    }
}

/// The headers of one block.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) path: Option<MethodRef>,
    pub(super) timeout_ns: Option<i64>,
    pub(super) traceparent: Option<(TraceId, SpanId)>,
    pub(super) user_agent: Option<Text>,
    pub(super) http_status: Option<u32>,
    pub(super) grpc_status: Option<u32>,
    pub(super) grpc_message: Option<Text>,
}

impl Block {
    /// Takes one field; the user agent only when somebody asks for it.
    pub(super) fn take(&mut self, field: &Field, want_agent: bool) {
        match field {
            Field::Path(path) => self.path = Some(path.clone()),
            Field::Timeout(ns) => self.timeout_ns = *ns,
            Field::Traceparent(ids) => self.traceparent = *ids,
            Field::UserAgent(agent) if want_agent => self.user_agent = Some(agent.clone()),
            Field::UserAgent(_) => {}
            Field::HttpStatus(status) => self.http_status = Some(*status),
            Field::GrpcStatus(status) => self.grpc_status = *status,
            Field::GrpcMessage(message) => self.grpc_message = Some(message.clone()),
        }
    }
}

fn number(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// `grpc-timeout`: at most eight digits and a unit, in ns.
fn timeout(value: &[u8]) -> Option<i64> {
    let (&unit, digits) = value.split_last()?;
    if digits.len() > 8 {
        return None;
    }
    let n = i64::from(number(digits)?);
    let ns = match unit {
        b'H' => 3_600_000 * MILLI,
        b'M' => 60_000 * MILLI,
        b'S' => 1000 * MILLI,
        b'm' => MILLI,
        b'u' => 1000,
        b'n' => 1,
        _ => return None,
    };
    Some(n.saturating_mul(ns))
}

/// W3C `traceparent`: version, trace id, span id, flags. Later versions may append.
fn traceparent(value: &[u8]) -> Option<(TraceId, SpanId)> {
    let value = std::str::from_utf8(value).ok()?;
    let mut parts = value.split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    if version.len() != 2 || version == "ff" || trace.len() != 32 || span.len() != 16 {
        return None;
    }
    let ids = (TraceId::parse(trace)?, SpanId::parse(span)?);
    (ids.0.is_valid() && ids.1.is_valid()).then_some(ids)
}

/// `grpc-message` as the gRPC specification encodes it.
fn percent_decoded(value: &[u8]) -> Text {
    if !value.contains(&b'%') {
        return text(value, limits::GRPC_MESSAGE);
    }
    let mut out = Vec::with_capacity(value.len().min(limits::GRPC_MESSAGE));
    let mut rest = value;
    while let Some((&b, after)) = rest.split_first()
        && out.len() < limits::GRPC_MESSAGE
    {
        let coded = (b == b'%')
            .then(|| after.split_first_chunk::<2>())
            .flatten()
            .and_then(|(&[h, l], after)| Some((hex(h)? << 4 | hex(l)?, after)));
        // What is not valid is kept as it is, as the specification says.
        let (b, after) = coded.unwrap_or((b, after));
        out.push(b);
        rest = after;
    }
    text(&out, limits::GRPC_MESSAGE)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|d| d as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_nanoseconds_whatever_their_unit() {
        for (text, ns) in [
            ("120000m", Some(120_000_000_000)),
            ("1999876u", Some(1_999_876_000)),
            ("2H", Some(7_200_000_000_000)),
            ("3M", Some(180_000_000_000)),
            ("4S", Some(4_000_000_000)),
            ("5n", Some(5)),
            ("99999999H", Some(i64::MAX)),
            ("123456789m", None),
            ("5", None),
            ("m", None),
            ("-1m", None),
            ("", None),
        ] {
            assert_eq!(timeout(text.as_bytes()), ns, "{text}");
        }
    }

    #[test]
    fn a_traceparent_gives_trace_and_client_span() {
        let ids = Some((
            TraceId(0xa452_948e_9d58_6b2a_b67e_c42c_100a_f123),
            SpanId(0xe0e6_a799_a5fa_6710),
        ));
        for (text, want) in [
            (
                "00-a452948e9d586b2ab67ec42c100af123-e0e6a799a5fa6710-01",
                ids,
            ),
            (
                "cc-a452948e9d586b2ab67ec42c100af123-e0e6a799a5fa6710-01-new",
                ids,
            ),
            (
                "ff-a452948e9d586b2ab67ec42c100af123-e0e6a799a5fa6710-01",
                None,
            ),
            (
                "00-00000000000000000000000000000000-e0e6a799a5fa6710-01",
                None,
            ),
            (
                "00-a452948e9d586b2ab67ec42c100af123-0000000000000000-01",
                None,
            ),
            ("00-a452948e9d586b2ab67ec42c100af123", None),
            ("garbage", None),
        ] {
            assert_eq!(traceparent(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn a_message_is_percent_decoded_and_what_is_not_valid_stays() {
        for (coded, want) in [
            ("plain", "plain"),
            ("a%20b%0Ac%25", "a b\nc%"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%E2%82%AC", "€"),
        ] {
            assert_eq!(percent_decoded(coded.as_bytes()), want);
        }
        let long = "é".repeat(limits::GRPC_MESSAGE);
        assert_eq!(percent_decoded(long.as_bytes()).len(), limits::GRPC_MESSAGE);
    }
}
