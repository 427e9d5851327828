//! What a claim without a volume could have had: volumes that nearly fit, and the storage classes that there are.

use std::sync::Arc;

use crate::correlate::World;
use crate::diagnose::quantity::Quantity;
use crate::diagnose::text::list;
use kflow_model::{Text, object::ObjectSeen};

/// The volumes that a claim may get, and the storage classes. Gathered once for all claims.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// PersistentVolumes that are not bound.
    volumes: Vec<Arc<ObjectSeen>>,
    /// Names of the StorageClasses.
    classes: Vec<Text>,
}

impl Storage {
    pub(in crate::diagnose) fn of(world: &World) -> Self {
        let mut all = Self::default();
        for o in world.objects() {
            let Some(api) = &o.api else { continue };
            match o.object.kind.as_str() {
                "PersistentVolume" if api.fact("phase") != Some("Bound") => {
                    all.volumes.push(Arc::clone(api));
                }
                "StorageClass" => all.classes.push(o.object.name.clone()),
                _ => {}
            }
        }
        all
    }

    /// Says why a volume is not for this claim, if one thing alone keeps it from that.
    pub(super) fn nearly_fits(&self, claim: &ObjectSeen) -> Option<String> {
        self.volumes
            .iter()
            .find_map(|v| match unfit(v, claim)?.as_slice() {
                [why] => Some(format!("volume {} does not fit: {why}", v.object.name)),
                _ => None,
            })
    }

    /// Says which storage classes there are.
    pub(super) fn classes(&self) -> Option<String> {
        match self.classes.as_slice() {
            [] => None,
            [only] => Some(format!("there is only {only}")),
            all => Some(format!("there are {}", list(all))),
        }
    }
}

/// Returns what keeps a volume from this claim; `None` for a volume that is kept for another one.
fn unfit(volume: &ObjectSeen, claim: &ObjectSeen) -> Option<Vec<String>> {
    let fact = |o: &ObjectSeen, key| o.fact(key).unwrap_or_default().to_owned();
    let mut unfit = Vec::new();
    if let Some(name) = volume.fact("claimName") {
        let namespace = volume.fact("claimNamespace").unwrap_or_default();
        if (namespace, name) != (claim.object.namespace.as_str(), claim.object.name.as_str()) {
            return None;
        }
    }
    if volume.fact("phase") == Some("Released") {
        unfit
            .push("it is Released, as its claimRef is of an earlier claim of this name".to_owned());
    }
    let class = fact(volume, "storageClass");
    if class != fact(claim, "storageClass") {
        unfit.push(match class.as_str() {
            "" => "it has no storage class".to_owned(),
            class => format!("its storage class is {class}"),
        });
    }
    let (has, wanted) = (fact(volume, "accessModes"), fact(claim, "accessModes"));
    let offers = |mode: &str| has.split(',').any(|m| m == mode);
    // A description of a claim that is not bound has no modes.
    if !wanted.is_empty() && !wanted.split(',').all(offers) {
        unfit.push(format!("it is {has} and the claim wants {wanted}"));
    }
    let (has, wanted) = (fact(volume, "capacity"), fact(claim, "request"));
    if Quantity::parse(&has).map(|q| q.0) < Quantity::parse(&wanted).map(|q| q.0) {
        unfit.push(format!("it has {has} and the claim wants {wanted}"));
    }
    Some(unfit)
}
