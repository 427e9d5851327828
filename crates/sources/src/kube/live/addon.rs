//! Resources of add-ons: a cluster may not have them, and serves them in versions of their own.
//!
//! A cluster without an add-on has none of its objects. That is known and complete, and is told as an empty list.

use super::answer::{Trouble, collect};
use super::{Watching, escape};
use kflow_model::gap::{Failure, WatchKind};
use kflow_model::units::wait;
use serde::Deserialize;

/// Longest version that is believed: `v1alpha1`.
const VERSION_MAX: usize = 63;
/// Most versions of a group in which a resource is looked for. Chosen: Kubernetes' own groups have had three at once.
const VERSIONS_MAX: usize = 8;

/// What an apiserver says of a group (`/apis/GROUP`, `metav1.APIGroup`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    preferred_version: Version,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize, PartialEq, Eq)]
struct Version {
    version: String,
}

impl Version {
    /// True for what may stand in a path.
    fn is_valid(&self) -> bool {
        let v = &self.version;
        v.starts_with('v') && v.len() <= VERSION_MAX && v.bytes().all(|b| b.is_ascii_alphanumeric())
    }
}

impl Group {
    /// Returns the group's versions, the preferred one first; `None` when that one may not stand in a path.
    fn versions(mut self) -> Option<Vec<String>> {
        if !self.preferred_version.is_valid() {
            return None;
        }
        self.versions
            .retain(|v| v.is_valid() && *v != self.preferred_version);
        let all = std::iter::once(self.preferred_version).chain(self.versions);
        Some(all.map(|v| v.version).take(VERSIONS_MAX).collect())
    }
}

impl Watching {
    /// Lists a resource of an add-on in the first version that has it. The version is looked for before each list: an
    /// add-on may be installed, removed or brought up to date at any time.
    pub(super) async fn list_served(&mut self) -> Result<(), Trouble> {
        for group in self.watch.groups {
            let versions = match self.versions(group).await {
                Err(t) if t.failure() == Failure::NotFound => continue,
                result => result?,
            };
            // A group may have versions without the resource, or not have it at all.
            for version in versions {
                self.watch.api = format!("apis/{group}/{version}").into();
                match self.list().await {
                    Err(t) if t.failure() == Failure::NotFound => {}
                    result => {
                        self.absent &= result.is_err();
                        return result;
                    }
                }
            }
        }
        self.none().await
    }

    /// Returns what a failed watch means. An add-on's resource that is not served any more is looked for again.
    pub(super) fn or_looked_for(&self, t: Trouble) -> Trouble {
        if t.failure() == Failure::NotFound && !self.watch.groups.is_empty() {
            Trouble::Gone
        } else {
            t
        }
    }

    async fn versions(&self, group: &str) -> Result<Vec<String>, Trouble> {
        let path = format!("/apis/{}", escape(group));
        let response = self.get(&path, "get").await.map_err(|t| match t {
            Trouble::Failed(Failure::Forbidden, _) => Trouble::Failed(
                Failure::Forbidden,
                format!("forbidden: needs get on {path}"),
            ),
            t => t,
        })?;
        let body = collect(response.into_body(), self.pace.answer).await;
        let body = body.map_err(|cut| self.cut(cut, "group"))?;
        serde_json::from_slice::<Group>(&body)
            .ok()
            .and_then(Group::versions)
            .ok_or_else(|| self.no_apiserver("something that is no group of an API"))
    }

    /// Tells once that the cluster has none of the objects, and pauses.
    async fn none(&mut self) -> Result<(), Trouble> {
        if !self.absent || self.failing {
            self.tell(WatchKind::ListBegin, "", None).await?;
            self.tell(WatchKind::ListEnd, "", None).await?;
            self.absent = true;
            self.failing = false;
        }
        let groups = self.watch.groups.join(" or ");
        self.out.on(format!(
            "none: {groups} is not installed; looked for every {}",
            wait(self.pace.forbidden)
        ));
        self.out.pause(self.pace.forbidden).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
