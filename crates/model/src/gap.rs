//! What a session says about itself: losses, steps of the clock, the state of lists and watches, and notes of the user.

use serde::{Deserialize, Serialize};

use super::{Nanos, Source, Text};

/// A source lost something in the time `[since, stamp.at]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gap {
    /// The source that lost it.
    pub of: Source,
    /// Begin of the loss; equal to the stamp's `at` when the loss is a moment.
    pub since: Nanos,
    /// How many units (lines, chunks, observations) were lost; 0 when unknown.
    #[serde(default)]
    pub lost: u64,
    /// The CRI connection on which it was lost, 0 when none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conn: u32,
    /// The kind of API object that was lost, as a plural (`pods`); empty when the kind is not known or there are
    /// several; or [`Gap::SEGMENTS`], [`Gap::UNRECORDED`], [`Gap::CAPTURE`] or [`Gap::END`].
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub resource: Text,
    /// Cause for people to read: "queue full", "bad HPACK index 71", "log truncated".
    pub why: Text,
}

impl Gap {
    /// A value of [`Gap::resource`]: segments of the recording are lost, with observations of every kind. The state
    /// after the loss is known, because the segment that follows begins with everything that existed then.
    pub const SEGMENTS: &str = "segments";
    /// A value of [`Gap::resource`]: nothing was recorded in that time. The state known before is not valid after it
    /// until the objects are listed again, and what happened in it is not part of the recording.
    pub const UNRECORDED: &str = "unrecorded";
    /// A value of [`Gap::resource`]: a file that was imported has no end. What is missing may be of any kind and time.
    pub const CAPTURE: &str = "capture";
    /// A value of [`Gap::resource`]: no loss, but the moment up to which the sources on nodes and of the control plane
    /// were followed. That they say nothing afterwards means nothing.
    pub const END: &str = "end";

    /// True when something was lost; false for an [end](Gap::END).
    pub fn is_loss(&self) -> bool {
        self.resource != Self::END
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The wall clock of the recording machine moved against its monotonic clock: it was set, or the machine slept.
///
/// The stamp is by the clock after the step. Stamps of kflow, and of sources on the same machine, that arrived before
/// this observation are by the clock before the step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClockStep {
    /// By how many ns the clock moved; negative when it was set back.
    pub by: i64,
}

/// A list began or ended, or a watch broke. The world needs it to tell "deleted" from "not listed yet", and "no such
/// pod" from "the API could not be read".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WatchNote {
    /// `pods`, `events`, `nodes` or another plural resource; empty for the apiserver as a whole; or
    /// [`WatchNote::CALLS`] or [`WatchNote::NAMES`].
    pub resource: Text,
    /// What happened.
    pub kind: WatchKind,
    /// Selector or namespace that bounds the list, so that the end of a bounded list deletes nothing outside of it.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub scope: Text,
    /// Resource version; for `Broken` the text of the error; for [`NAMES`](Self::NAMES) the names.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub detail: Text,
    /// Kind of failure, set for `Broken` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl WatchNote {
    /// A value of [`WatchNote::resource`]: the CRI calls of a node, as its agent keeps them. Such a list begins when
    /// the connection to the agent is lost, and ends when everything that the agent saw meanwhile has arrived. In
    /// between, a call in flight may have ended long ago.
    pub const CALLS: &str = "calls";
    /// A value of [`WatchNote::resource`]: a table of `kubectl get pods`, or a list in a support bundle, has every pod of
    /// `scope`. A `ListEnd` without `ListBegin`; `detail` has the pods, `namespace/name`, separated by blanks. It says that they exist, not in what state.
    pub const NAMES: &str = "names of pods";
}

/// Why a list or watch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// No kubeconfig, no such context, or credentials that cannot be obtained.
    NoCluster,
    /// No connection: refused, no route, no such host.
    Unreachable,
    /// The server's certificate is not accepted: another authority's, expired, of another name.
    Untrusted,
    /// No response in time, or a response that stalled.
    TimedOut,
    /// HTTP 401: the credentials are not accepted.
    Unauthorized,
    /// HTTP 403: the user may not list or watch the resource.
    Forbidden,
    /// HTTP 404: the server does not serve the resource.
    NotFound,
    /// HTTP 410: the resource version is too old.
    Expired,
    /// HTTP 429, or 503 with `Retry-After`.
    Throttled,
    /// Another status of 400 and above.
    Refused,
    /// A response that is not the Kubernetes API's: a login page, a redirect, JSON that is not a list.
    NotKubernetes,
    /// A response that ended before it was complete.
    Interrupted,
    /// A failure that a later kflow defines.
    #[serde(other)]
    Other,
}

impl Failure {
    /// Returns the name that programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoCluster => "no-cluster",
            Self::Unreachable => "unreachable",
            Self::Untrusted => "untrusted",
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
    /// True when the same request would fail again at once: somebody has to change something first.
    pub const fn is_final(self) -> bool {
        match self {
            Self::NoCluster
            | Self::Unreachable
            | Self::Untrusted
            | Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::Refused
            | Self::NotKubernetes
            | Self::Other => true,
            Self::TimedOut | Self::Expired | Self::Throttled | Self::Interrupted => false,
        }
    }
}

/// Kinds of [`WatchNote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchKind {
    /// A list begins; its objects follow as `Listed`.
    ListBegin,
    /// The list is complete: an object in its scope that was known and was not listed is gone.
    ListEnd,
    /// The watch broke; it resumes, or lists again.
    Broken,
    /// A bookmark: the watch is alive, and everything up to the resource version in `detail` has arrived.
    Bookmark,
}

/// A note that a user made at a moment (`m` in the TUI). It is saved in the session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Note {
    /// The user's text.
    pub text: Text,
}
