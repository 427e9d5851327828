//! The messages and fields of `perfetto.protos` that kflow writes. Their numbers are part of that
//! format and never change.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) sequence: u32,
    #[prost(message, optional, tag = "6")]
    pub(super) clocks: Option<ClockSnapshot>,
    #[prost(message, optional, tag = "11")]
    pub(super) event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub(super) track: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) primary: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent: Option<u64>,
    /// Makes the track a counter.
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<Counter>,
    /// `EXPLICIT`: children are ordered by `sibling_rank`.
    #[prost(uint32, optional, tag = "11")]
    pub(super) child_ordering: Option<u32>,
    #[prost(int32, optional, tag = "12")]
    pub(super) sibling_rank: Option<i32>,
}

/// `CounterDescriptor`
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Counter {
    #[prost(uint32, tag = "3")]
    pub(super) unit: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) annotations: Vec<Annotation>,
    /// 1 begin, 2 end, 3 instant, 4 counter.
    #[prost(uint32, tag = "9")]
    pub(super) kind: u32,
    #[prost(uint64, tag = "11")]
    pub(super) track: u64,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub(super) value: Option<i64>,
    /// Ids of arrows that begin here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flows: Vec<u64>,
    /// Ids of arrows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) flows_end: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Annotation {
    #[prost(int64, optional, tag = "4")]
    pub(super) int: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub(super) text: Option<String>,
    #[prost(string, tag = "10")]
    pub(super) name: String,
}

pub(super) const BEGIN: u32 = 1;

pub(super) const END: u32 = 2;

pub(super) const INSTANT: u32 = 3;

pub(super) const COUNTER: u32 = 4;

pub(super) const UNIT_COUNT: u32 = 2;

pub(super) const REALTIME: u32 = 1;

pub(super) const BOOTTIME: u32 = 6;

pub(super) const EXPLICIT: u32 = 3;

pub(super) const SEQUENCE: u32 = 1;

pub(super) const STATE_CLEARED: u32 = 1;

pub(super) fn text(name: &str, value: &str) -> Annotation {
    Annotation {
        name: name.to_owned(),
        text: Some(value.to_owned()),
        int: None,
    }
}

pub(super) fn number(name: &str, value: i64) -> Annotation {
    Annotation {
        name: name.to_owned(),
        text: None,
        int: Some(value),
    }
}
