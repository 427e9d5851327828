//! A volume of a pod: its name, and the one key that says what it is.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

use super::{N, Text, VolumeSpec};

/// A volume: `name` and one other key, which is its kind.
pub(super) struct RawVolume(pub(super) VolumeSpec);

impl<'de> Deserialize<'de> for RawVolume {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = RawVolume;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a volume")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawVolume, A::Error> {
                let mut out = VolumeSpec::default();
                while let Some(key) = map.next_key::<Text>()? {
                    if key == "name" {
                        out.name = map.next_value::<N<Text>>()?.0;
                    } else if let Some(source) = map.next_value::<Option<VolumeSource>>()? {
                        out.optional = source.optional.0;
                        out.refers = source.refers(&key);
                        out.kind = key;
                    }
                }
                Ok(RawVolume(out))
            }
        }
        d.deserialize_map(V)
    }
}

/// The fields of all kinds of volumes that say what they refer to.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSource {
    name: N<Text>,
    secret_name: N<Text>,
    claim_name: N<Text>,
    path: N<Text>,
    server: N<Text>,
    driver: N<Text>,
    reference: N<Text>,
    optional: N<bool>,
    sources: N<Vec<BTreeMap<Text, Option<ProjectedSource>>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ProjectedSource {
    name: N<Text>,
}

impl VolumeSource {
    fn refers(&self, kind: &str) -> Text {
        match kind {
            "configMap" => self.name.0.clone(),
            "secret" => self.secret_name.0.clone(),
            "persistentVolumeClaim" => self.claim_name.0.clone(),
            "hostPath" => self.path.0.clone(),
            "csi" | "flexVolume" => self.driver.0.clone(),
            "image" => self.reference.0.clone(),
            "nfs" => format!("{}:{}", self.server.0, self.path.0).into(),
            "projected" => self
                .sources
                .0
                .iter()
                .flatten()
                .map(|(kind, source)| {
                    let name = source.as_ref().map_or("", |s| s.name.0.as_str());
                    if name.is_empty() {
                        kind.to_string()
                    } else {
                        format!("{kind}/{name}")
                    }
                })
                .collect::<Vec<_>>()
                .join(",")
                .into(),
            _ => Text::default(),
        }
    }
}
