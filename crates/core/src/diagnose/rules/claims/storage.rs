//! What a claim without a volume could have had: volumes that nearly fit, and the storage classes that there are.

use std::sync::Arc;

use crate::correlate::World;
use crate::diagnose::quantity::Quantity;
use crate::diagnose::standing::there;
use crate::diagnose::text::list;
use kflow_model::{Text, object::ObjectSeen};

/// `provisioner` of a StorageClass whose volumes are created by hand (k8s.io/component-helpers, storage/volume,
/// `NotSupportedProvisioner`).
const BY_HAND: &str = "kubernetes.io/no-provisioner";

/// The volumes that a claim may get, and the storage classes. Gathered once for all claims.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// PersistentVolumes that exist.
    volumes: Vec<Arc<ObjectSeen>>,
    classes: Vec<Arc<ObjectSeen>>,
}

impl Storage {
    pub(in crate::diagnose) fn of(world: &World) -> Self {
        let mut all = Self::default();
        for o in world.objects() {
            let Some(api) = o.api.as_ref().filter(|_| there(o).is_some()) else {
                continue;
            };
            match o.object.kind.as_str() {
                "PersistentVolume" => all.volumes.push(Arc::clone(api)),
                "StorageClass" => all.classes.push(Arc::clone(api)),
                _ => {}
            }
        }
        all
    }

    /// Says why a claim has none of the volumes of its class, or of another volume, if one thing alone keeps it from the claim.
    pub(super) fn nearly_fits(&self, claim: &ObjectSeen) -> Option<String> {
        self.of_its_class(claim, |_| None).or_else(|| {
            self.volumes
                .iter()
                .find_map(|v| match unfit(v, claim)?.as_slice() {
                    [why] => Some(format!("volume {} does not fit: {why}", v.object.name)),
                    _ => None,
                })
        })
    }

    /// Says what keeps the volumes of a claim's class from it. `place` says from where one that fits can be used.
    pub(super) fn of_its_class(
        &self,
        claim: &ObjectSeen,
        place: impl Fn(&ObjectSeen) -> Option<String>,
    ) -> Option<String> {
        let class = claim.fact("storageClass").filter(|c| !c.is_empty())?;
        let all: Vec<_> = self.of_class(class).map(|v| (v, unfit(v, claim))).collect();
        let free = all.iter().filter_map(|(v, why)| Some((v, why.as_ref()?)));
        let Some((volume, why)) = free.min_by_key(|(_, why)| why.len()) else {
            return match all.as_slice() {
                [] => None,
                [(v, _)] => Some(format!(
                    "the only volume of that class, {}, is for {}",
                    v.object.name,
                    claim_of(v)
                )),
                many => Some(format!(
                    "the {} volumes of that class are all for other claims",
                    many.len()
                )),
            };
        };
        let name = &volume.object.name;
        if why.is_empty() {
            let place = place(volume)?;
            return Some(format!("volume {name} of that class fits, and {place}"));
        }
        let why = list(why);
        Some(format!("volume {name} of that class does not fit: {why}"))
    }

    fn of_class<'s>(&'s self, class: &'s str) -> impl Iterator<Item = &'s Arc<ObjectSeen>> {
        let of_it = move |v: &&Arc<ObjectSeen>| v.fact("storageClass") == Some(class);
        self.volumes.iter().filter(of_it)
    }

    /// True for a class of which there are volumes.
    pub(super) fn has_volumes(&self, class: &str) -> bool {
        self.of_class(class).next().is_some()
    }

    /// Number of volumes.
    pub(super) fn known(&self) -> u64 {
        self.volumes.len() as u64
    }

    /// Returns a claim's class if somebody has to make its volumes by hand.
    pub(super) fn by_hand<'c>(&self, claim: &'c ObjectSeen) -> Option<&'c str> {
        let class = claim.fact("storageClass")?;
        let mut classes = self.classes.iter();
        let of_it = classes.find(|c| c.object.name == class)?;
        (of_it.fact("provisioner") == Some(BY_HAND)).then_some(class)
    }

    /// Says which storage classes there are.
    pub(super) fn classes(&self) -> Option<String> {
        let names: Vec<&Text> = self.classes.iter().map(|c| &c.object.name).collect();
        match names.as_slice() {
            [] => None,
            [only] => Some(format!("there is only {only}")),
            all => Some(format!("there are {}", list(all))),
        }
    }
}

/// Returns the claim that a volume is bound to, or kept for, in words.
fn claim_of(volume: &ObjectSeen) -> String {
    let fact = |key| volume.fact(key).unwrap_or_default();
    let (namespace, name) = (fact("claimNamespace"), fact("claimName"));
    format!("claim {name} of namespace {namespace}")
}

/// Returns what keeps a volume from this claim; `None` for a volume that is bound to another one, or kept for it.
fn unfit(volume: &ObjectSeen, claim: &ObjectSeen) -> Option<Vec<String>> {
    let fact = |o: &ObjectSeen, key| o.fact(key).unwrap_or_default().to_owned();
    let mut unfit = Vec::new();
    if let Some(name) = volume.fact("claimName") {
        let namespace = volume.fact("claimNamespace").unwrap_or_default();
        if (namespace, name) != (claim.object.namespace.as_str(), claim.object.name.as_str()) {
            return None;
        }
    }
    match volume.fact("phase") {
        Some("Bound") => return None,
        Some("Released") => unfit
            .push("it is Released, as its claimRef is of an earlier claim of this name".to_owned()),
        _ => {}
    }
    let (class, wanted) = (fact(volume, "storageClass"), fact(claim, "storageClass"));
    if class != wanted {
        unfit.push(match (class.as_str(), wanted.as_str()) {
            ("", _) => "it has no storage class".to_owned(),
            (class, "") => format!("its storage class is {class} and the claim names none"),
            (class, _) => format!("its storage class is {class}"),
        });
    }
    let (has, wanted) = (fact(volume, "accessModes"), fact(claim, "accessModes"));
    let offers = |mode: &str| has.split(',').any(|m| m == mode);
    // A description of a claim that is not bound has no modes.
    if !wanted.is_empty() && !wanted.split(',').all(offers) {
        unfit.push(format!("it is {has} and the claim wants {wanted}"));
    }
    let (has, wanted) = (fact(volume, "capacity"), fact(claim, "request"));
    let sizes = Quantity::parse(&has).zip(Quantity::parse(&wanted));
    if sizes.is_some_and(|(has, wanted)| has.0 < wanted.0) {
        unfit.push(format!("it has {has} and the claim wants {wanted}"));
    }
    let modes = volume.fact("volumeMode").zip(claim.fact("volumeMode"));
    if let Some((has, wanted)) = modes.filter(|(has, wanted)| has != wanted) {
        unfit.push(format!(
            "its volume mode is {has} and the claim wants {wanted}"
        ));
    }
    Some(unfit)
}
