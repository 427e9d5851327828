//! What containerd tells everybody on its own socket: its events, and which layers of which images it fetches.
//!
//! `messages` are its API; [`events`] and [`Pulls`] make observations of what it answers, `live` asks.

pub mod events;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "live")]
mod messages;
mod pulls;
#[cfg(test)]
mod tests;

pub use pulls::{Ingest, Manifest, ManifestError, Pulls};
