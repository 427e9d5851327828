//! Runs sources, owns the one world, tees to the recorder, publishes snapshots.

pub mod snapshot;

pub use snapshot::{ObservationLog, Snapshot};
