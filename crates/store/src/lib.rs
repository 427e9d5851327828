//! Keeps observations: on a node's disk, and from there in object storage.
//!
//! | module | owns |
//! |---|---|
//! | [`spool`] | a ring on disk of segments, each a session by itself, bounded by bytes and by time |
//! | [`keeper`] | a spool with a thread of its own, for callers that must not wait for a disk |
//! | [`merge`] | joins segments to one stream of observations |
//! | [`name`] | times and segments as file names |
//! | [`layout`] | names of objects in a store |
//! | [`index`] | which pod was on which node when |
//! | [`object`] | a store by its URL: a folder, or object storage |
//! | [`upload`] | sends segments from a spool to a store |
//! | [`mod@add`] | adds a recording to a store |
//! | [`fetch`] | fetches the segments that an answer needs, as one session |
//! | [`cache`] | a cache of fetched segments |
//! | [`scratch`] | a temporary folder for what is made of segments |
//! | [`compact`] | merges small objects, and removes old ones |
//!
//! A process that has a stream of observations keeps the last day of them like this:
//!
//! ```no_run
//! use kflow_store::{Bounds, Keeper, Options};
//! # fn f(stream: Vec<kflow_model::Evidence>) -> Result<(), Box<dyn std::error::Error>> {
//! let keeper = Keeper::start("/var/lib/kflow/spool".into(), Options {
//!     node: "node1".into(),
//!     bounds: Bounds::default(),
//!     owed: false, // true where an uploader takes the segments
//! })?;
//! for o in &stream {
//!     keeper.take(o); // never waits; what finds no room is counted, and told in the spool
//! }
//! // The last half hour, while it is written on. Each batch is in order of arrival.
//! let now = kflow_model::clock::now();
//! keeper.ring().read(now.plus(-1_800_000_000_000), now, |batch| {
//!     for o in batch { /* send it to a viewer */ let _ = o; }
//!     true
//! })?;
//! keeper.stop();
//! # Ok(()) }
//! ```

pub mod add;
pub mod cache;
pub mod compact;
pub mod fetch;
pub mod index;
pub mod keeper;
pub mod layout;
pub mod merge;
pub mod name;
pub mod object;
pub mod scratch;
pub mod spool;
pub mod tidy;
pub mod upload;

#[cfg(test)]
mod tests;

pub use keeper::Keeper;
pub use layout::Cluster;
pub use merge::{Merge, Piece};
pub use object::{Store, Use};
pub use spool::{Bounds, Options, Ring, Segment, Spool, SpoolError, Status};
pub use tidy::Tidy;
pub use upload::Uploader;
