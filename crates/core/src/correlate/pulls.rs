//! Progress of the runtime's image pulls.

use std::collections::BTreeMap;

use kflow_model::pull::PullSeen;
use kflow_model::{Body, Evidence, Text};

/// Number of observations kept of one image, the newest: two minutes of a pull that progresses all the time.
const KEPT: usize = 256;
/// Number of images kept: those observed last.
const IMAGES: usize = 256;

/// Pull observations by digest of the image's manifest, at most 256 each. Independent of the order of arrival as long
/// as there are no more than 256 images.
#[derive(Clone, Debug, Default)]
pub struct ImagePulls {
    /// Observations, sorted.
    by_manifest: BTreeMap<Text, Vec<Evidence>>,
}

impl ImagePulls {
    pub(crate) fn observe(&mut self, o: &Evidence) {
        let Body::Pull(p) = &o.body else { return };
        let known = self.by_manifest.entry(p.manifest.clone()).or_default();
        if let Err(place) = known.binary_search(o) {
            known.insert(place, o.clone());
        }
        if known.len() > KEPT {
            known.remove(0);
        }
        if self.by_manifest.len() > IMAGES {
            let newest = |known: &Vec<Evidence>| known.last().map(|o| o.stamp.at);
            let oldest = self.by_manifest.iter().min_by_key(|(_, k)| newest(k));
            if let Some(manifest) = oldest.map(|(manifest, _)| manifest.clone()) {
                self.by_manifest.remove(&manifest);
            }
        }
    }

    /// The newest observation of each image, sorted by digest.
    pub fn newest(&self) -> impl Iterator<Item = (&Evidence, &PullSeen)> {
        self.by_manifest.values().filter_map(|k| seen(k.last()?))
    }

    /// Observations of the pulls of one image, newest first.
    pub fn of(&self, manifest: &str) -> impl Iterator<Item = (&Evidence, &PullSeen)> {
        let known = self.by_manifest.get(manifest).into_iter().flatten();
        known.rev().filter_map(seen)
    }
}

fn seen(o: &Evidence) -> Option<(&Evidence, &PullSeen)> {
    match &o.body {
        Body::Pull(p) => Some((o, p)),
        _ => None,
    }
}
