//! Ids of the causes, one for each entry of `catalogue.toml`: `build.rs` makes them, so that a rule can name no other.

include!(concat!(env!("OUT_DIR"), "/cause_id.rs"));

// In rules: `cause::KF601`.
pub use CauseId::*;

impl std::fmt::Display for CauseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
