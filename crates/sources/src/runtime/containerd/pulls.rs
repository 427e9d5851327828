//! Derives the progress of each pull from what containerd is writing. Pure: the caller asks containerd, and passes
//! the time.
//!
//! A layer that is being written does not say to which pull it belongs; the manifest that names the layer does.
//! Containerd labels the manifest with its repository (`containerd.io/distribution.source.HOST`) and with its layers
//! before it fetches them (`images/handlers.go`, SetChildrenMappedLabels).

use std::collections::{BTreeMap, BTreeSet};

use kflow_model::pull::{LayerSeen, PullSeen};
use kflow_model::stamp::{MILLI, SECOND};
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

/// An unchanged pull is observed again after this time, ns: a pull that is not observed again may be over.
const AGAIN_NS: i64 = 5 * SECOND;
/// A pull of which nothing is being written for this time is over, ns: between two layers there may be a pause.
const OVER_NS: i64 = 1500 * MILLI;
/// Most manifests that are remembered.
const MANIFESTS: usize = 1024;
/// Most layers of one manifest that are followed: Docker's limit is 127 (`layer/layer_store.go`, maxLayerDepth 125).
const LAYERS: usize = 256;

/// A layer that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// Digest of the blob, `sha256:…`.
    pub digest: Text,
    /// Bytes written so far.
    pub offset: u64,
    /// When writing began, by containerd's clock.
    pub started: Nanos,
    /// When bytes were last written, by the same clock.
    pub moved: Nanos,
}

/// The manifest of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The image's repositories: `docker.io/library/nginx`.
    pub repositories: Vec<Text>,
    /// When the manifest was fetched, by containerd's clock.
    pub created: Nanos,
    /// Digest and size in bytes of each layer, the base first.
    pub layers: Vec<(Text, u64)>,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The manifest is not JSON of the expected form.
    #[error("cannot read manifest {digest}: {source}")]
    Json {
        digest: String,
        source: serde_json::Error,
    },
    /// The manifest has no layers, or too many.
    #[error("manifest {digest} has {layers} layers: 1 to {LAYERS} are followed")]
    Layers {
        digest: String,
        /// Number of its layers.
        layers: usize,
    },
}

impl Manifest {
    /// Reads a manifest (`application/vnd.oci.image.manifest.v1+json`, or Docker's schema 2) and containerd's labels
    /// for it.
    pub fn read<'a>(
        digest: &str,
        json: &[u8],
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        created: Nanos,
    ) -> Result<Self, ManifestError> {
        #[derive(serde::Deserialize)]
        struct Layer {
            digest: String,
            size: u64,
        }
        #[derive(serde::Deserialize)]
        struct Json {
            #[serde(default)]
            layers: Vec<Layer>,
        }
        let read: Json = serde_json::from_slice(json).map_err(|source| ManifestError::Json {
            digest: digest.to_owned(),
            source,
        })?;
        if read.layers.is_empty() || read.layers.len() > LAYERS {
            return Err(ManifestError::Layers {
                digest: digest.to_owned(),
                layers: read.layers.len(),
            });
        }
        let sources = labels.filter_map(|(key, value)| {
            let host = key.strip_prefix("containerd.io/distribution.source.")?;
            Some((host, value))
        });
        let mut repositories: Vec<Text> = sources
            .flat_map(|(host, paths)| paths.split(',').map(move |p| format!("{host}/{p}").into()))
            .collect();
        // The labels have no order.
        repositories.sort();
        let layers = read.layers.into_iter();
        Ok(Self {
            repositories,
            created,
            layers: layers.map(|l| (l.digest.into(), l.size)).collect(),
        })
    }
}

/// A pull in progress.
#[derive(Clone, Debug)]
struct Active {
    seen: PullSeen,
    /// When one of the pull's layers was last being written.
    written: Nanos,
    /// The last observation of the pull, and when it was made.
    told: Option<(Nanos, PullSeen)>,
}

/// All pulls of one containerd.
#[derive(Clone, Debug, Default)]
pub struct Pulls {
    manifests: BTreeMap<Text, Manifest>,
    /// Digests of layers that no manifest names: they are no reason to ask for manifests again.
    unknown: BTreeSet<Text>,
    active: BTreeMap<Text, Active>,
}

impl Pulls {
    /// Returns true when a layer is being written that no known manifest names: the caller then asks for manifests,
    /// and calls [`learned`](Self::learned).
    pub fn wants_manifests(&self, ingests: &[Ingest]) -> bool {
        ingests
            .iter()
            .any(|i| !self.unknown.contains(&i.digest) && self.owner(&i.digest).is_none())
    }

    /// Returns true for a manifest that is remembered.
    pub fn knows(&self, digest: &str) -> bool {
        self.manifests.contains_key(digest)
    }

    /// Remembers a manifest, in place of the oldest one when there are too many.
    pub fn learn(&mut self, digest: Text, manifest: Manifest) {
        if self.manifests.len() >= MANIFESTS {
            // What is being pulled now was fetched last, so the oldest manifest can go.
            let oldest = self.manifests.iter().min_by_key(|(_, m)| m.created);
            if let Some(oldest) = oldest.map(|(digest, _)| digest.clone()) {
                self.manifests.remove(&oldest);
            }
        }
        self.manifests.insert(digest, manifest);
    }

    /// Notes that all existing manifests were learned: a layer that is being written now and is in none of them is
    /// not asked about again.
    pub fn learned(&mut self, ingests: &[Ingest]) {
        let of_none = ingests.iter().filter(|i| self.owner(&i.digest).is_none());
        self.unknown = of_none.map(|i| i.digest.clone()).collect();
    }

    /// Returns the layers of running pulls that may or may not exist already: the caller asks for each, and passes
    /// those that exist to [`take`](Self::take).
    pub fn wants_layers(&self, ingests: &[Ingest]) -> Vec<Text> {
        let mut of: BTreeSet<&Text> = self.active.keys().collect();
        of.extend(ingests.iter().filter_map(|i| self.owner(&i.digest)));
        let mut wanted = BTreeSet::new();
        for manifest in of {
            let known = self.active.get(manifest).map(|a| &a.seen.layers);
            let complete = |digest: &Text| {
                known.is_some_and(|l| l.iter().any(|l| l.digest == *digest && l.is_complete()))
            };
            let layers = self.manifests.get(manifest).into_iter();
            wanted.extend(
                layers
                    .flat_map(|m| &m.layers)
                    .map(|(digest, _)| digest)
                    .filter(|d| !complete(d) && !ingests.iter().any(|i| i.digest == **d))
                    .cloned(),
            );
        }
        wanted.into_iter().collect()
    }

    /// Returns the manifest for which a layer is fetched: of several, the one that was fetched last, because the
    /// layers of the others exist already or are being written for them, too.
    fn owner(&self, layer: &str) -> Option<&Text> {
        let names = |m: &Manifest| m.layers.iter().any(|(d, _)| d == layer);
        let of = self.manifests.iter().filter(|(_, m)| names(m));
        of.max_by_key(|(_, m)| m.created).map(|(digest, _)| digest)
    }

    /// Takes what containerd is writing at a moment, and which of [`wants_layers`](Self::wants_layers) exist.
    pub fn take(
        &mut self,
        at: Nanos,
        ingests: &[Ingest],
        there: &BTreeSet<Text>,
        out: &mut Vec<Observation>,
    ) {
        for ingest in ingests {
            let Some(owner) = self.owner(&ingest.digest).cloned() else {
                continue;
            };
            let Some(manifest) = self.manifests.get(&owner) else {
                continue;
            };
            let active = self.active.entry(owner.clone()).or_insert_with(|| Active {
                seen: begun(owner, manifest),
                written: at,
                told: None,
            });
            active.written = at;
        }
        for active in self.active.values_mut() {
            for layer in &mut active.seen.layers {
                if let Some(i) = ingests.iter().find(|i| i.digest == layer.digest) {
                    // A layer that is written whole but not committed is not complete yet.
                    layer.fetched = i.offset.min(layer.size.saturating_sub(1));
                    layer.started = i.started;
                    layer.moved = i.moved;
                } else if there.contains(&layer.digest) {
                    layer.fetched = layer.size;
                } else if !layer.is_complete() {
                    // What was written was discarded: the layer is fetched from its start again, if at all.
                    (layer.fetched, layer.started, layer.moved) = Default::default();
                }
            }
            let ended = active.seen.is_complete() || at.since(active.written) >= OVER_NS;
            active.seen.ended = ended && !ingests.iter().any(|i| active.seen.has(&i.digest));
        }
        for active in self.active.values_mut() {
            let told = active.told.as_ref();
            if told.is_some_and(|(t, p)| *p == active.seen && at.since(*t) < AGAIN_NS) {
                continue;
            }
            active.told = Some((at, active.seen.clone()));
            out.push(Observation {
                stamp: Stamp::exact(at),
                source: Source::Runtime,
                body: Body::Pull(Box::new(active.seen.clone())),
            });
        }
        self.active.retain(|_, a| !a.seen.ended);
        self.unknown
            .retain(|digest| ingests.iter().any(|i| i.digest == *digest));
    }

    /// Returns true while a pull is in progress.
    pub fn is_pulling(&self) -> bool {
        !self.active.is_empty()
    }
}

fn begun(digest: Text, manifest: &Manifest) -> PullSeen {
    let layer = |(digest, size): &(Text, u64)| LayerSeen {
        digest: digest.clone(),
        size: *size,
        fetched: 0,
        started: Nanos::default(),
        moved: Nanos::default(),
    };
    PullSeen {
        repositories: manifest.repositories.clone(),
        manifest: digest,
        layers: manifest.layers.iter().map(layer).collect(),
        ended: false,
    }
}
