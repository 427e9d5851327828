//! Responses of an apiserver: pages of lists, heads of watch lines, bodies, and why a request failed.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Body as _;
use kube::client::Body as HttpBody;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::live::{Stopped, root};
use kflow_model::gap::Failure;
use kflow_model::units::wait;

/// Largest body that is read, bytes. All kinds are listed at the same time, so this bounds the memory of a run.
pub(super) const BODY_MAX: usize = 32 << 20;
/// Slowest rate at which a body may arrive after its first [`Pace::answer`](super::Pace::answer), bytes a second.
const SLOWEST: usize = 1024;

/// Longest pause that kflow grants an apiserver that asks for one. Chosen: about ten times the longest that an
/// apiserver itself asks for, 32 s (`staging/src/k8s.io/apiserver/pkg/util/flowcontrol/dropped_requests_tracker.go`,
/// `maxRetryAfter`), since a gateway before it may ask for more; a server that asks for an hour would
/// leave a pod unwatched.
const LATER_MAX: Duration = Duration::from_secs(300);

/// Why a list or watch ended before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The resource version is too old.
    #[error("the resource version is too old (410)")]
    Gone,
    /// "Not now": how long to wait, and the response in words.
    #[error("{1}")]
    Wait(Duration, String),
    /// The kind of failure, and words that name the resource only where it matters.
    #[error("{1}")]
    Failed(Failure, String),
}

impl Trouble {
    /// Makes the error for "not now" (`Retry-After`): kflow waits as long as it is told, and [`LATER_MAX`] at most.
    pub(super) fn later(told: Duration, mut what: String) -> Self {
        if told > LATER_MAX {
            what.push_str(&format!(" and wants to be left alone for {}", wait(told)));
        }
        Self::Wait(told.min(LATER_MAX), what)
    }
    pub(super) const fn failure(&self) -> Failure {
        match self {
            Self::Stopped(_) => Failure::Other,
            Self::Gone => Failure::Expired,
            Self::Wait(..) => Failure::Throttled,
            Self::Failed(failure, _) => *failure,
        }
    }
    /// Returns true when only an administrator can change the cause: asking again soon is of no use.
    pub(super) const fn is_denied(&self) -> bool {
        matches!(
            self.failure(),
            Failure::Forbidden | Failure::Unauthorized | Failure::NotFound | Failure::NotKubernetes
        )
    }
}

#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(borrow, default)]
    pub(super) kind: std::borrow::Cow<'a, str>,
    #[serde(default)]
    pub(super) metadata: PageMeta,
    /// Go writes an empty list as null.
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMeta {
    pub(super) resource_version: String,
    pub(super) r#continue: String,
}

/// The part of a watch line that decides how the watch goes on.
#[derive(Deserialize)]
pub(super) struct Head {
    pub(super) r#type: String,
    pub(super) object: HeadObject,
}

#[derive(Deserialize)]
pub(super) struct HeadObject {
    #[serde(default)]
    pub(super) metadata: HeadMeta,
    pub(super) code: Option<u16>,
    pub(super) details: Option<HeadDetails>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HeadMeta {
    pub(super) resource_version: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeadDetails {
    pub(super) retry_after_seconds: Option<u64>,
}

/// Why a body was not read to its end.
pub(super) enum Cut {
    /// No further piece came in time, or the body comes more slowly than [`SLOWEST`].
    Stalled,
    /// The connection broke.
    Broken(String),
    /// The body is larger than [`BODY_MAX`].
    TooLarge,
}

/// Reads a body of at most [`BODY_MAX`] bytes. Each piece may take as long as `patience`, and the whole body as long
/// as `patience` plus the time that its bytes need at [`SLOWEST`].
pub(super) async fn collect(mut body: HttpBody, patience: Duration) -> Result<Vec<u8>, Cut> {
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(Cut::TooLarge);
    }
    let mut bytes = Vec::new();
    let begun = Instant::now();
    loop {
        let slowest = Duration::from_secs((bytes.len() / SLOWEST) as u64);
        let end = (Instant::now() + patience).min(begun + patience + slowest);
        let frame = timeout_at(end, body.frame())
            .await
            .map_err(|_| Cut::Stalled)?;
        let Some(frame) = frame else {
            return Ok(bytes);
        };
        if let Ok(data) = frame.map_err(|e| Cut::Broken(root(&e)))?.into_data() {
            if bytes.len() + data.len() > BODY_MAX {
                return Err(Cut::TooLarge);
            }
            bytes.extend_from_slice(&data);
        }
    }
}
