//! From what containerd is writing to how far each pull is. Pure: the caller asks containerd, and gives the time.
//!
//! Who pulls is not said by a layer that is being written; the manifest that names it is: containerd labels it with its
//! repository (`containerd.io/distribution.source.HOST`) and with its layers before it fetches them
//! (`images/handlers.go`, SetChildrenMappedLabels).

use std::collections::{BTreeMap, BTreeSet};

use kflow_model::pull::{LayerSeen, PullSeen};
use kflow_model::stamp::{MILLI, SECOND};
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

/// A pull that stands still is observed again after this long, ns: what is not said again may be over.
const AGAIN_NS: i64 = 5 * SECOND;
/// A pull of which nothing is being written for this long is over, ns: between two layers nothing may be.
const OVER_NS: i64 = 1500 * MILLI;
/// Manifests that are remembered.
const MANIFESTS: usize = 1024;
/// Layers of one manifest that are followed: Docker's limit is 127 (`layer/layer_store.go`, maxLayerDepth 125).
const LAYERS: usize = 256;

/// A layer that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// Digest of the blob, `sha256:…`.
    pub digest: Text,
    /// Bytes that were written.
    pub offset: u64,
    /// When writing began, by containerd's clock.
    pub started: Nanos,
    /// When something was written last, by the same clock.
    pub moved: Nanos,
}

/// What an image consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its repositories, `docker.io/library/nginx`.
    pub repositories: Vec<Text>,
    /// When it was fetched, by containerd's clock.
    pub created: Nanos,
    /// Digest and size in bytes of each layer, the base first.
    pub layers: Vec<(Text, u64)>,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is not JSON of the form that it has to have.
    #[error("cannot read manifest {digest}: {source}")]
    Json {
        digest: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It has no layers, or too many.
    #[error("manifest {digest} has {layers} layers: 1 to {LAYERS} are followed")]
    Layers {
        digest: String,
        /// How many it has.
        layers: usize,
    },
}

impl Manifest {
    /// Reads a manifest (`application/vnd.oci.image.manifest.v1+json`, or Docker's schema 2) and containerd's labels of it.
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
        // Labels come in no order.
        repositories.sort();
        let layers = read.layers.into_iter();
        Ok(Self {
            repositories,
            created,
            layers: layers.map(|l| (l.digest.into(), l.size)).collect(),
        })
    }
}

/// A pull that goes on.
#[derive(Clone, Debug)]
struct Active {
    seen: PullSeen,
    /// Last time that one of its layers was being written.
    written: Nanos,
    /// Last observation.
    told: Option<(Nanos, PullSeen)>,
}

/// All pulls of a containerd.
#[derive(Clone, Debug, Default)]
pub struct Pulls {
    manifests: BTreeMap<Text, Manifest>,
    /// Digests of layers that no manifest names: not asked for again.
    unknown: BTreeSet<Text>,
    active: BTreeMap<Text, Active>,
}

impl Pulls {
    /// True when a layer is being written that no known manifest names: ask for manifests, then say so by
    /// [`learned`](Self::learned).
    pub fn wants_manifests(&self, ingests: &[Ingest]) -> bool {
        ingests
            .iter()
            .any(|i| !self.unknown.contains(&i.digest) && self.owner(&i.digest).is_none())
    }

    /// True for a manifest that was learned.
    pub fn knows(&self, digest: &str) -> bool {
        self.manifests.contains_key(digest)
    }

    /// Takes a manifest.
    pub fn learn(&mut self, digest: Text, manifest: Manifest) {
        if self.manifests.len() >= MANIFESTS {
            // What is pulled now was fetched last.
            let oldest = self.manifests.iter().min_by_key(|(_, m)| m.created);
            if let Some(oldest) = oldest.map(|(digest, _)| digest.clone()) {
                self.manifests.remove(&oldest);
            }
        }
        self.manifests.insert(digest, manifest);
    }

    /// All manifests that there are were learned: what is written now and in none of them is not asked for again.
    pub fn learned(&mut self, ingests: &[Ingest]) {
        let of_none = ingests.iter().filter(|i| self.owner(&i.digest).is_none());
        self.unknown = of_none.map(|i| i.digest.clone()).collect();
    }

    /// Layers of running pulls of which it is not known whether they are there: ask for each, and say which are by
    /// [`take`](Self::take).
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

    /// The manifest that a layer is fetched for: of several the one that was fetched last, as the others' layers are there
    /// or are being written for them too.
    fn owner(&self, layer: &str) -> Option<&Text> {
        let names = |m: &Manifest| m.layers.iter().any(|(d, _)| d == layer);
        let of = self.manifests.iter().filter(|(_, m)| names(m));
        of.max_by_key(|(_, m)| m.created).map(|(digest, _)| digest)
    }

    /// Takes what containerd is writing at a moment, and which of [`wants_layers`](Self::wants_layers) are there.
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
                    // Written whole and not committed yet: complete when it is.
                    layer.fetched = i.offset.min(layer.size.saturating_sub(1));
                    layer.started = i.started;
                    layer.moved = i.moved;
                } else if there.contains(&layer.digest) {
                    layer.fetched = layer.size;
                } else if !layer.is_complete() {
                    // What was written was thrown away: it begins anew, if at all.
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

    /// True while a pull goes on.
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
