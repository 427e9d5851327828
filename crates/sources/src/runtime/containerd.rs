//! What containerd tells everybody on its own socket: which layers of which images it fetches.
//!
//! `messages` are its API (`api/services/content/v1`), [`Pulls`] makes observations of what it answers, `live` asks.

#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "live")]
mod messages;
mod pulls;
#[cfg(test)]
mod tests;

pub use pulls::{Ingest, Manifest, ManifestError, Pulls};
