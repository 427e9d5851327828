//! Losses, steps of the clock, watch notes and user notes: what a session says about itself.

use serde::{Deserialize, Serialize};

use super::{Nanos, Source, Text};

/// Something was lost, and how much is known of it. The loss lies in `[since, stamp.at]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gap {
    /// Which source lost it.
    pub of: Source,
    /// Begin of the loss; equal to the stamp when it is a moment.
    pub since: Nanos,
    /// How many units (lines, chunks, observations) were lost; 0 when unknown.
    #[serde(default)]
    pub lost: u64,
    /// CRI connection of which it was lost, 0 when none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conn: u32,
    /// Kind of API object of which it was lost, as a plural (`pods`); empty when that is not known, or of several;
    /// or [`Gap::SEGMENTS`] or [`Gap::UNRECORDED`].
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub resource: Text,
    /// Why, for people: "queue full", "bad HPACK index 71", "log truncated".
    pub why: Text,
}

impl Gap {
    /// In the place of a kind: parts of what was recorded, of everything. How things stand is known after them: what follows
    /// begins with all that stood.
    pub const SEGMENTS: &str = "segments";
    /// In the place of a kind: nobody recorded in that time. What was known before is not known after it until it is listed
    /// anew, and what happened in it is no part of what was recorded.
    pub const UNRECORDED: &str = "unrecorded";
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The wall clock of the machine that records moved against its monotonic clock: it was set, or the machine slept.
///
/// The stamp is by the clock after the step. Stamps of kflow and of sources on the same machine that arrived before this
/// observation are by the clock before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClockStep {
    /// By how much, ns; negative when the clock was set back.
    pub by: i64,
}

/// A list began or ended, or a watch broke: the world needs it to tell "deleted" from "not listed yet", and "there is no
/// such pod" from "the API could not be read".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WatchNote {
    /// `pods`, `events`, `nodes`, or another plural resource; empty for the apiserver as a whole; or [`WatchNote::CALLS`].
    pub resource: Text,
    /// What happened.
    pub kind: WatchKind,
    /// Selector or namespace that bounds the list, so that a bounded relist deletes nothing outside of it.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub scope: Text,
    /// Resource version, or the error's text for `Broken`.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub detail: Text,
    /// Kind of failure, for `Broken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl WatchNote {
    /// In the place of a kind: the calls of a node, as its agent keeps them. From the begin to the end of such a list, which is from
    /// when the agent is lost until all that it saw meanwhile is here, a call in flight may have ended long ago.
    pub const CALLS: &str = "calls";
}

/// Why a list or watch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// No kubeconfig, no such context, or credentials that cannot be made.
    NoCluster,
    /// No connection: refused, no route, no such host, no trust in the certificate.
    Unreachable,
    /// No answer in time, or an answer that stalled.
    TimedOut,
    /// HTTP 401: the credentials are not accepted.
    Unauthorized,
    /// HTTP 403: no right to list or watch it.
    Forbidden,
    /// HTTP 404: the server does not serve the resource.
    NotFound,
    /// 410: the resource version is too old.
    Expired,
    /// 429, or 503 with `Retry-After`.
    Throttled,
    /// Another status of 400 and above.
    Refused,
    /// An answer that is not the Kubernetes API's: a login page, a redirect, other JSON than a list.
    NotKubernetes,
    /// An answer that ended before it was whole.
    Interrupted,
    /// Of a later kflow.
    #[serde(other)]
    Other,
}

impl Failure {
    /// The word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoCluster => "no-cluster",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed-out",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::Expired => "expired",
            Self::Throttled => "throttled",
            Self::Refused => "refused",
            Self::NotKubernetes => "not-kubernetes",
            Self::Interrupted => "interrupted",
            Self::Other => "other",
        }
    }
    /// True when asking again at once gives the same answer: somebody has to change something first.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Throttled | Self::Expired)
    }
}

/// Kinds of [`WatchNote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchKind {
    /// A list begins; its objects follow as `Listed`.
    ListBegin,
    /// The list is complete: what was known, is in scope and was not listed is gone.
    ListEnd,
    /// The watch broke; it will resume or relist.
    Broken,
    /// A bookmark: the watch is alive and complete up to `detail`.
    Bookmark,
}

/// A note that a user made at a time (`m` in the TUI). Saved into the session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Note {
    /// The user's text.
    pub text: Text,
}
