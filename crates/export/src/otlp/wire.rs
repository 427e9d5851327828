//! The part of OTLP's trace messages that kflow fills (`opentelemetry/proto/trace/v1/trace.proto`). One set of types
//! has both encodings: protobuf, and OTLP's JSON (ids in hex, 64-bit numbers as text, enums as numbers).
//!
//! The types of `opentelemetry-proto` (0.33) are not used: they depend on the SDK and an executor, twelve packages that
//! kflow does not need otherwise, and their JSON writes every field, such as `"parentSpanId": ""` for a root.

use prost::{Message, Oneof};
use serde::{Serialize, Serializer};

/// `ExportTraceServiceRequest`
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// The spans of one service and node.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// `InstrumentationScope`
#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "hex")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "hex")]
    pub span_id: Vec<u8>,
    /// Empty for a root.
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "hex", skip_serializing_if = "Vec::is_empty")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// ns since 1970.
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "text")]
    pub start_time_unix_nano: u64,
    /// ns since 1970.
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "text")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    #[prost(uint32, tag = "12")]
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_events_count: u32,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// `None` when the status is unset.
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// `Span.SpanKind`
pub mod kind {
    pub const INTERNAL: i32 = 1;
    pub const SERVER: i32 = 2;
    pub const CLIENT: i32 = 3;
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// ns since 1970.
    #[prost(fixed64, tag = "1")]
    #[serde(serialize_with = "text")]
    pub time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "hex")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "hex")]
    pub span_id: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub struct Status {
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[prost(int32, tag = "3")]
    pub code: i32,
}

impl Status {
    /// `STATUS_CODE_ERROR`
    pub const ERROR: i32 = 2;
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    #[serde(flatten)]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, Eq, Oneof, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Value {
    #[prost(string, tag = "1")]
    StringValue(String),
    #[prost(bool, tag = "2")]
    BoolValue(bool),
    #[prost(int64, tag = "3")]
    #[serde(serialize_with = "text")]
    IntValue(i64),
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::StringValue(s.to_owned())
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::BoolValue(b)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::IntValue(n)
    }
}

/// Makes an attribute.
pub fn attribute(key: &str, value: impl Into<Value>) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(value.into()),
        }),
    }
}

fn hex<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        for half in [b >> 4, b & 0xf] {
            digits.extend(char::from_digit(u32::from(half), 16));
        }
    }
    s.serialize_str(&digits)
}

fn text<S: Serializer>(n: &impl ToString, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&n.to_string())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}
