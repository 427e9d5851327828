//! The API's objects: pods, events, nodes and whatever a pod's story needs, from lists and watches.
//!
//! Owns the pure half, [`decode`]: JSON of an object in, an observation out. The live watches use the same functions.

pub mod decode;
#[cfg(feature = "live")]
pub mod live;
