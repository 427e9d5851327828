//! The progress of an image pull: how much of each layer the runtime has fetched.

use serde::{Deserialize, Serialize};

use super::{Nanos, Text};

/// One state of a pull in the runtime's content store. It is sent when it changes, and every few seconds
/// while it does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PullSeen {
    /// Repositories from which the image is fetched, as `docker.io/library/nginx`: host without port, no tag.
    #[serde(rename = "repos")]
    pub repositories: Vec<Text>,
    /// Digest of the image's manifest, `sha256:…`.
    #[serde(rename = "mf")]
    pub manifest: Text,
    /// Layers in the order of the manifest: the layer of the base image first.
    pub layers: Vec<LayerSeen>,
    /// No layer is being fetched any more: all are complete, or the pull was aborted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// A layer of an image that is being pulled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LayerSeen {
    /// Digest of the blob, `sha256:…`.
    #[serde(rename = "d")]
    pub digest: Text,
    /// Size of the blob according to the manifest, bytes.
    #[serde(rename = "n")]
    pub size: u64,
    /// How much of the blob was fetched, bytes. A runtime writes in pieces (containerd: 1 MiB), so this grows in steps.
    #[serde(rename = "got", default)]
    pub fetched: u64,
    /// When fetching began, by the runtime's clock; 0 when it has not begun, or was over when the layer was first seen.
    #[serde(rename = "st", default)]
    pub started: Nanos,
    /// When bytes of the blob were last written, by the runtime's clock; 0 in the same cases as `started`.
    #[serde(rename = "up", default)]
    pub moved: Nanos,
}

impl LayerSeen {
    /// True when the whole blob was fetched.
    pub const fn is_complete(&self) -> bool {
        self.fetched >= self.size
    }
    /// True when fetching has begun and is not complete.
    pub const fn is_fetching(&self) -> bool {
        self.started.0 > 0 && !self.is_complete()
    }
}

impl PullSeen {
    /// Returns the size of all layers, bytes.
    pub fn size(&self) -> u64 {
        self.layers.iter().fold(0, |n, l| n.saturating_add(l.size))
    }
    /// Returns how much of all layers was fetched, bytes.
    pub fn fetched(&self) -> u64 {
        let got = |l: &LayerSeen| l.fetched.min(l.size);
        self.layers.iter().fold(0, |n, l| n.saturating_add(got(l)))
    }
    /// True when all layers are complete.
    pub fn is_complete(&self) -> bool {
        self.layers.iter().all(LayerSeen::is_complete)
    }
    /// True when the blob `digest` is one of the layers.
    pub fn has(&self, digest: &str) -> bool {
        self.layers.iter().any(|l| l.digest == digest)
    }
    /// True when one of the repositories is that of the image reference `image`, however it is written.
    pub fn is_of(&self, image: &str) -> bool {
        let wanted = repository(image);
        self.repositories.iter().any(|r| repository(r) == wanted)
    }
}

/// Returns the repository of an image reference without tag, digest and port, and without the default registry and
/// path: `docker.io/library/nginx:1` and `nginx` are both `nginx`.
fn repository(image: &str) -> String {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let (host, path) = match image.split_once('/') {
        // The rule of `distribution/reference`, splitDockerDomain: a host has a dot or a colon, or is localhost.
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
            let host = host.split_once(':').map_or(host, |(name, _)| name);
            (host, path)
        }
        _ => ("docker.io", image),
    };
    let path = path.split_once(':').map_or(path, |(name, _)| name);
    match host {
        "docker.io" | "index.docker.io" | "registry-1.docker.io" => {
            path.strip_prefix("library/").unwrap_or(path).to_owned()
        }
        host => format!("{host}/{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_the_same_however_its_image_is_spelt() {
        for (image, is) in [
            ("nginx", "nginx"),
            ("nginx:1.27", "nginx"),
            ("docker.io/library/nginx", "nginx"),
            ("docker.io/library/nginx:1@sha256:abc", "nginx"),
            ("grafana/loki:3", "grafana/loki"),
            ("ghcr.io/a/b/c:v1", "ghcr.io/a/b/c"),
            ("127.0.0.1:5000/slow/app:1", "127.0.0.1/slow/app"),
            ("localhost/x@sha256:1", "localhost/x"),
            ("", ""),
            (":", ""),
            ("a/b:c/d", "a/b"),
        ] {
            assert_eq!(repository(image), is, "{image}");
        }
        let pull = PullSeen {
            repositories: vec!["127.0.0.1/slow/app".into()],
            manifest: "sha256:1".into(),
            layers: Vec::new(),
            ended: false,
        };
        assert!(pull.is_of("127.0.0.1:43751/slow/app:1"));
        assert!(!pull.is_of("slow/app"));
    }
}
