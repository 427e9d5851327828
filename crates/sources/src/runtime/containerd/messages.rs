//! The messages of containerd's services that kflow uses, written by hand: names, numbers and types are those of
//! `api/services/content/v1/content.proto` and `api/services/events/v1/events.proto` (1.6 to 2.x). Of blobs, only
//! manifests are read.

use std::collections::HashMap;

use super::events::Timestamp;

/// Path of `ListStatuses`: the blobs that are being written.
pub(super) const LIST_STATUSES: &str = "/containerd.services.content.v1.Content/ListStatuses";
/// Path of `List`: the blobs that exist, with their labels.
pub(super) const LIST: &str = "/containerd.services.content.v1.Content/List";
/// Path of `Info`: whether one blob exists.
pub(super) const INFO: &str = "/containerd.services.content.v1.Content/Info";
/// Path of `Read`: the bytes of one blob.
pub(super) const READ: &str = "/containerd.services.content.v1.Content/Read";
/// Path of `Subscribe`: events as they happen.
pub(super) const SUBSCRIBE: &str = "/containerd.services.events.v1.Events/Subscribe";

/// Filters of a list or of events; an item passes that matches any of them.
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

/// One message of the answer of `List`, with some of the blobs that exist.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Infos {
    #[prost(message, repeated, tag = "1")]
    pub(super) info: Vec<Info>,
}

/// A blob that exists.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Info {
    #[prost(string, tag = "1")]
    pub(super) digest: String,
    #[prost(message, optional, tag = "3")]
    pub(super) created_at: Option<Timestamp>,
    #[prost(map = "string, string", tag = "5")]
    pub(super) labels: HashMap<String, String>,
}

/// Request of `Info`, for one blob.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct InfoRequest {
    #[prost(string, tag = "1")]
    pub(super) digest: String,
}

/// Answer of `Info`, of which only the arrival matters.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct InfoResponse {}

/// Request of `Read`, for the bytes of one blob.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ReadRequest {
    #[prost(string, tag = "1")]
    pub(super) digest: String,
    #[prost(int64, tag = "2")]
    pub(super) offset: i64,
    /// 0 stands for all bytes.
    #[prost(int64, tag = "3")]
    pub(super) size: i64,
}

/// One message of the answer of `Read`, with some of the bytes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ReadResponse {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) data: Vec<u8>,
}
