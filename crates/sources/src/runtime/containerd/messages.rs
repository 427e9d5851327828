//! The messages of containerd's services that kflow asks with, by hand: names, numbers and types are those of
//! `api/services/content/v1/content.proto` and `api/services/events/v1/events.proto` (1.6 to 2.x). They hold nothing of a blob but a manifest.

use std::collections::HashMap;

use super::events::Timestamp;

/// Path of `ListStatuses`: what is being written.
pub(super) const LIST_STATUSES: &str = "/containerd.services.content.v1.Content/ListStatuses";
/// Path of `List`: what is there, with labels.
pub(super) const LIST: &str = "/containerd.services.content.v1.Content/List";
/// Path of `Info`: whether one blob is there.
pub(super) const INFO: &str = "/containerd.services.content.v1.Content/Info";
/// Path of `Read`: the bytes of one blob.
pub(super) const READ: &str = "/containerd.services.content.v1.Content/Read";
/// Path of `Subscribe`: events as they happen.
pub(super) const SUBSCRIBE: &str = "/containerd.services.events.v1.Events/Subscribe";

/// Filters of what is listed or told; any that fits is enough.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Filters {
    #[prost(string, repeated, tag = "1")]
    pub(super) filters: Vec<String>,
}

/// Answer of `ListStatuses`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Statuses {
    #[prost(message, repeated, tag = "1")]
    pub(super) statuses: Vec<Status>,
}

/// A blob that is being written.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Status {
    #[prost(message, optional, tag = "1")]
    pub(super) started_at: Option<Timestamp>,
    #[prost(message, optional, tag = "2")]
    pub(super) updated_at: Option<Timestamp>,
    /// `layer-sha256:…`, `manifest-sha256:…`, `index-sha256:…`, `config-sha256:…` (`remotes/handlers.go`, MakeRefKey).
    #[prost(string, tag = "3")]
    pub(super) reference: String,
    #[prost(int64, tag = "4")]
    pub(super) offset: i64,
}

/// Some of what is there, one message of `List`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Infos {
    #[prost(message, repeated, tag = "1")]
    pub(super) info: Vec<Info>,
}

/// A blob that is there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Info {
    #[prost(string, tag = "1")]
    pub(super) digest: String,
    #[prost(message, optional, tag = "3")]
    pub(super) created_at: Option<Timestamp>,
    #[prost(map = "string, string", tag = "5")]
    pub(super) labels: HashMap<String, String>,
}

/// A question for one blob.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct InfoRequest {
    #[prost(string, tag = "1")]
    pub(super) digest: String,
}

/// Its answer, of which nothing is needed but that it comes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct InfoResponse {}

/// A question for the bytes of one blob.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ReadRequest {
    #[prost(string, tag = "1")]
    pub(super) digest: String,
    #[prost(int64, tag = "2")]
    pub(super) offset: i64,
    /// 0 is all of it.
    #[prost(int64, tag = "3")]
    pub(super) size: i64,
}

/// Some of them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ReadResponse {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) data: Vec<u8>,
}
