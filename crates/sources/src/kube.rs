//! Objects of the Kubernetes API from lists and watches: pods, Events, nodes and whatever else explains a pod.
//!
//! Owns the pure half, [`decode`]: the JSON of an object in, an observation out. The live watches
//! use the same functions. `kubectl` makes such objects of what kubectl prints for people.

pub mod decode;
mod kubectl;
#[cfg(feature = "live")]
pub mod live;
