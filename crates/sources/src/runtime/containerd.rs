//! What containerd offers on its own socket: its events, and which layers of which images it is fetching.
//!
//! `messages` are those of its API; [`events`] and [`Pulls`] turn its answers into observations, and
//! `live` sends the requests.

pub mod events;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "live")]
mod messages;
mod pulls;
#[cfg(test)]
mod tests;

pub use pulls::{Ingest, Manifest, ManifestError, Pulls};
