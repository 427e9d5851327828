//! Fields as the API writes them: absent, null, whole-second times, owners, conditions.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

use kflow_model::{Nanos, ObjectRef, Text, pod::Condition};

/// A field that may be absent or null: both are its default.
#[derive(Clone, Debug, Default)]
pub(super) struct N<T>(pub(super) T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for N<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Option::<T>::deserialize(d).map(|v| Self(v.unwrap_or_default()))
    }
}

/// A time with its precision; a text that is not a time counts as absent, because one odd field must
/// not cost the object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Time(pub(super) Option<(Nanos, u32)>);

impl Time {
    pub(super) fn at(self) -> Option<Nanos> {
        self.0.map(|(t, _)| t)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = Option::<std::borrow::Cow<'de, str>>::deserialize(d)?;
        Ok(Self(s.and_then(|s| Nanos::parse_rfc3339(&s))))
    }
}

/// A port or quantity: number or text.
#[derive(Clone, Debug, Default)]
pub(super) struct Scalar(pub(super) Text);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Int(i64),
            Float(f64),
            Text(Text),
            Bool(bool),
        }
        Ok(Self(match Either::deserialize(d)? {
            Either::Int(n) => n.to_string().into(),
            Either::Float(n) => n.to_string().into(),
            Either::Text(t) => t,
            Either::Bool(b) => b.to_string().into(),
        }))
    }
}

/// `metadata`; of its annotations only those in [`Annotations`].
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: N<Text>,
    pub(super) namespace: N<Text>,
    pub(super) uid: N<Text>,
    pub(super) resource_version: N<Text>,
    pub(super) generation: N<u64>,
    pub(super) creation_timestamp: Time,
    pub(super) deletion_timestamp: Time,
    pub(super) deletion_grace_period_seconds: Option<i64>,
    pub(super) finalizers: N<Vec<Text>>,
    pub(super) labels: N<BTreeMap<Text, N<Text>>>,
    pub(super) annotations: N<Annotations>,
    pub(super) owner_references: N<Vec<Owner>>,
}

/// The annotations that are read at all; others never leave the parser.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Annotations {
    #[serde(rename = "kubernetes.io/config.mirror")]
    pub(super) mirror: N<Text>,
    /// Volcano's (volcano.sh/apis `pkg/apis/scheduling/v1beta1/labels.go`, `KubeGroupNameAnnotationKey`).
    #[serde(rename = "scheduling.k8s.io/group-name")]
    pub(super) group: N<Text>,
    /// In its place (`VolcanoGroupNameAnnotationKey`).
    #[serde(rename = "scheduling.volcano.sh/group-name")]
    pub(super) volcano_group: N<Text>,
    pub(super) starved_resource: N<Text>,
    pub(super) offending_containers: N<Text>,
    pub(super) offending_containers_usage: N<Text>,
    pub(super) offending_pod: N<Text>,
}

impl Meta {
    pub(super) fn version(&self) -> u64 {
        self.resource_version.0.parse().unwrap_or(0)
    }
    pub(super) fn created(&self) -> Nanos {
        self.creation_timestamp.at().unwrap_or_default()
    }
    pub(super) fn labels(&mut self) -> Vec<(Text, Text)> {
        pairs(std::mem::take(&mut self.labels.0))
    }
    /// Returns the owner that is the controller, else the first owner. The owner of a namespaced object lives in the
    /// object's namespace, or in none (a Node).
    pub(super) fn controller(&self) -> Option<ObjectRef> {
        let o = self
            .owner_references
            .0
            .iter()
            .find(|o| o.controller.0)
            .or_else(|| self.owner_references.0.first())?;
        let namespace = if o.kind.0 == "Node" {
            Text::default()
        } else {
            self.namespace.0.clone()
        };
        Some(ObjectRef {
            kind: o.kind.0.clone(),
            namespace,
            name: o.name.0.clone(),
            uid: o.uid.0.clone(),
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Owner {
    kind: N<Text>,
    name: N<Text>,
    uid: N<Text>,
    controller: N<bool>,
}

/// A condition as the API writes it.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawCondition {
    #[serde(rename = "type")]
    kind: N<Text>,
    status: N<Text>,
    reason: N<Text>,
    message: N<Text>,
    last_transition_time: Time,
}

pub(super) fn conditions(raw: Vec<RawCondition>) -> Vec<Condition> {
    let mut out: Vec<Condition> = raw
        .into_iter()
        .map(|c| Condition {
            kind: c.kind.0,
            status: c.status.0,
            reason: c.reason.0,
            message: cut(&c.message.0, MESSAGE),
            transition: c.last_transition_time.at(),
        })
        .collect();
    out.sort();
    out
}

/// Longest message of a condition, status or container that is kept, bytes.
pub(super) const MESSAGE: usize = 2048;

pub(super) use crate::logtext::shorten as cut;

pub(super) fn pairs<V: Into<PairValue>>(map: BTreeMap<Text, V>) -> Vec<(Text, Text)> {
    map.into_iter().map(|(k, v)| (k, v.into().0)).collect()
}

/// A value of a map, as text.
pub(super) struct PairValue(Text);
impl From<N<Text>> for PairValue {
    fn from(v: N<Text>) -> Self {
        Self(v.0)
    }
}
impl From<Scalar> for PairValue {
    fn from(v: Scalar) -> Self {
        Self(v.0)
    }
}
