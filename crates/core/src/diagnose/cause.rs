//! Ids of the causes. `build.rs` generates one for each entry of `catalogue.toml`, so that a rule cannot name a cause
//! that does not exist.

include!(concat!(env!("OUT_DIR"), "/cause_id.rs"));

// So that rules can write `cause::KF601`.
pub use CauseId::*;

impl std::fmt::Display for CauseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
