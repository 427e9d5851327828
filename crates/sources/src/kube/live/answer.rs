//! What an apiserver answers: pages of lists, heads of watch lines, bodies, and why a request came to nothing.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body as HttpBody;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::live::{Stopped, root};
use kflow_model::gap::Failure;

/// Largest body that is read, bytes.
const BODY_MAX: usize = 256 << 20;

/// Why a list or watch ended before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The resource version is too old.
    #[error("the resource version is too old (410)")]
    Gone,
    /// "Not now": how long to wait, and what was answered.
    #[error("{1}")]
    Wait(Duration, String),
    /// What failed, in words that name the resource only where it matters.
    #[error("{1}")]
    Failed(Failure, String),
}

impl Trouble {
    pub(super) const fn failure(&self) -> Failure {
        match self {
            Self::Stopped(_) => Failure::Other,
            Self::Gone => Failure::Expired,
            Self::Wait(..) => Failure::Throttled,
            Self::Failed(failure, _) => *failure,
        }
    }
    /// True when only an administrator can change it: asking again soon is of no use.
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
    /// Go writes a list of nothing as null.
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMeta {
    pub(super) resource_version: String,
    pub(super) r#continue: String,
}

/// What of a watch line decides how the watch goes on.
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
    /// No further piece came in time.
    Stalled,
    /// The connection broke, or the body is larger than any answer.
    Broken(String),
}

/// Reads a body of at most [`BODY_MAX`] bytes. Each piece of it may take as long as `patience`.
pub(super) async fn collect(mut body: HttpBody, patience: Duration) -> Result<Vec<u8>, Cut> {
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(patience, body.frame())
        .await
        .map_err(|_| Cut::Stalled)?
    {
        let frame = frame.map_err(|e| Cut::Broken(root(&e)))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > BODY_MAX {
                return Err(Cut::Broken(format!("more than {BODY_MAX} bytes")));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}
