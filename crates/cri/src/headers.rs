//! The headers of a call that kflow reads. A value is parsed once: a reference to the dynamic table costs no parsing.

use super::hpack::{HeaderSet, Old};
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

/// The parsed value of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Path(MethodRef),
    Timeout(Option<i64>),
    Traceparent(Option<(TraceId, SpanId)>),
    UserAgent(Text),
    HttpStatus(u32),
    GrpcStatus(Option<u32>),
    GrpcMessage(Text),
    /// A value whose header's name is not known, by its form.
    Like(Like),
    /// Neither the header's name nor its value is known; its entry in the table may be.
    Unknown(Option<Old>),
}

/// The form of a value whose header's name is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Like {
    /// Digits and a unit, which is the form of `grpc-timeout`; in ns.
    Timeout(i64),
    /// `traceparent`.
    Traceparent((TraceId, SpanId)),
    /// A gRPC status code, which is a `grpc-status` when it is in trailers.
    Status(u32),
    /// Anything else.
    Text(Text),
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

    fn unnamed(value: &[u8]) -> (Field, bool) {
        let (like, told) = if let Some(ids) = traceparent(value) {
            (Like::Traceparent(ids), true)
        } else if let Some(ns) = timeout(value) {
            (Like::Timeout(ns), true)
        } else if let Some(code) = number(value).filter(|code| *code <= 16 && value.len() <= 2) {
            (Like::Status(code), false)
        } else {
            (Like::Text(percent_decoded(value)), false)
        };
        (Field::Like(like), told)
    }

    fn unknown(old: Option<Old>) -> Field {
        Field::Unknown(old)
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
    /// A value with the form of a status, under a name that is not known.
    like_status: Option<u32>,
    /// The last text under a name that is not known.
    like_message: Option<Text>,
    /// Some headers of the block, or their names, are not known.
    pub(super) partial: bool,
    /// The entries of the block's third and fourth header, when they are not known: one of them is the path.
    old: [Option<Old>; 2],
}

/// Finds out whether a client writes the path as its third header. After `:method` and `:scheme`, grpc-go writes
/// `:path` and `:authority` (`http2Client.createHeaderFields`), as gRPC's C core does; others write these two in the
/// other order. Of the two, only the path differs between calls.
#[derive(Debug, Default)]
pub(super) struct PathOrder {
    last: Option<[Old; 2]>,
    third: bool,
}

impl PathOrder {
    /// Returns the table entry that holds a request's path, when the path is not known.
    pub(super) fn entry(&mut self, headers: &Block) -> Option<Old> {
        let [path, authority] = headers.old;
        if let (Some(path), Some(authority)) = (path, authority)
            && let Some([other, same]) = self.last.replace([path, authority])
        {
            self.third |= other != path && same == authority;
        }
        path.filter(|_| self.third)
    }
}

/// The status of an answer, as far as its trailers show it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// `None` when it is not known.
    pub(super) code: Option<u32>,
    pub(super) message: Text,
    /// The code was not read but concluded.
    pub(super) inferred: bool,
}

impl Block {
    /// The headers of a request that was sent before the join, or lost: all fields are unknown.
    pub(super) fn unseen() -> Self {
        Self {
            partial: true,
            ..Self::default()
        }
    }

    /// Takes one field; the user agent only with `want_agent`.
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
            Field::Like(Like::Timeout(ns)) => self.timeout_ns = self.timeout_ns.or(Some(*ns)),
            Field::Like(Like::Traceparent(ids)) => {
                self.traceparent = self.traceparent.or(Some(*ids));
            }
            Field::Like(Like::Status(code)) => {
                self.partial = true;
                self.like_status = self.like_status.or(Some(*code));
            }
            Field::Like(Like::Text(text)) => {
                self.partial = true;
                self.like_message = Some(text.clone());
            }
            Field::Unknown(old) => {
                self.partial = true;
                if let Some(old) = old {
                    let place = (old.nth as usize).checked_sub(2);
                    if let Some(place) = place.and_then(|nth| self.old.get_mut(nth)) {
                        *place = Some(*old);
                    }
                }
            }
        }
    }

    /// Returns the method of a request.
    pub(super) fn method(&mut self) -> MethodRef {
        match self.path.take() {
            Some(method) => method,
            None if self.partial => MethodRef::Unknown,
            None => MethodRef::Other(Text::default()),
        }
    }

    /// Returns the status in the trailers of an answer; `None` when they certainly have none. `answered` says that
    /// exactly one message came before them.
    ///
    /// A server writes an error as `grpc-status` and `grpc-message` (grpc-go, `http2Server.writeStatus`), and after a
    /// unary answer's only message grpc-go writes OK (`Server.processUnaryRPC`).
    pub(super) fn status(self, answered: bool) -> Option<Status> {
        let said = self.grpc_message.unwrap_or_default();
        if let Some(code) = self.grpc_status {
            // A text without a space may be `grpc-status-details-bin`, and no message.
            let like = self.like_message.filter(|t| code != 0 && t.contains(' '));
            let message = if said.is_empty() {
                like.unwrap_or_default()
            } else {
                said
            };
            return Some(Status {
                code: Some(code),
                message,
                inferred: false,
            });
        }
        if !self.partial {
            return None;
        }
        let is_error =
            !said.is_empty() || self.like_message.as_ref().is_some_and(|t| !t.is_empty());
        let message = if said.is_empty() {
            let like = self.like_message.filter(|t| t.contains(' '));
            like.unwrap_or_default()
        } else {
            said
        };
        let code = match self.like_status {
            Some(0) if is_error => None,
            Some(code) => Some(code),
            // An error with a message sends both headers as literals, unless they equal those of an earlier error.
            None => (answered && !is_error).then_some(0),
        };
        Some(Status {
            code,
            message,
            inferred: code.is_some(),
        })
    }
}

fn number(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Parses a `grpc-timeout` (at most eight digits and a unit), to ns.
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

/// Parses a W3C `traceparent`: version, trace id, span id, flags. Later versions may append fields.
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

/// Decodes a `grpc-message`, which the gRPC specification percent-encodes.
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
        // Invalid encodings are kept unchanged, as the specification says.
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
    fn a_status_is_read_or_concluded_or_not_known() {
        use Field::{GrpcMessage, GrpcStatus};
        #[expect(non_upper_case_globals, reason = "as the field is called")]
        const Unknown: Field = Field::Unknown(None);
        let like = |value: &str| Grpc::unnamed(value.as_bytes()).0;
        let text = |t: &str| GrpcMessage(t.into());
        // Fields of the last headers, whether one message came before them, and code, message, "inferred".
        for (fields, answered, want) in [
            (vec![], true, None),
            (vec![GrpcStatus(Some(5))], false, Some((Some(5), "", false))),
            (
                vec![GrpcStatus(Some(0)), Unknown],
                true,
                Some((Some(0), "", false)),
            ),
            // grpc-go's OK after an answer, when both were sent before.
            (vec![Unknown, Unknown], true, Some((Some(0), "", true))),
            // An error that was sent before and an OK of a stream cannot be told apart.
            (vec![Unknown, Unknown], false, Some((None, "", false))),
            (
                vec![like("5"), like("no such container")],
                false,
                Some((Some(5), "no such container", true)),
            ),
            (
                vec![Unknown, like("no such container")],
                true,
                Some((None, "no such container", false)),
            ),
            (
                vec![Unknown, text("gone")],
                true,
                Some((None, "gone", false)),
            ),
            (
                vec![GrpcStatus(Some(2)), like("it broke")],
                false,
                Some((Some(2), "it broke", false)),
            ),
            // `grpc-status-details-bin` is no message.
            (
                vec![Unknown, Unknown, like("CAISBGdvbmU")],
                true,
                Some((None, "", false)),
            ),
            (vec![like("0"), Unknown], true, Some((Some(0), "", true))),
            (
                vec![like("0"), like("not OK then")],
                true,
                Some((None, "not OK then", false)),
            ),
        ] {
            let mut block = Block::default();
            for field in &fields {
                block.take(field, false);
            }
            let got = block.status(answered);
            let got = got
                .as_ref()
                .map(|s| (s.code, s.message.as_str(), s.inferred));
            assert_eq!(got, want, "{fields:?}");
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
