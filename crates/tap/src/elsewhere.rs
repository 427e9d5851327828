//! The tap where there is no eBPF: all of it says that Linux is missing.

use crate::needs::{Missing, missing};
use crate::{Config, Error, Handed, InKernel};

/// A tap that never runs.
#[derive(Debug)]
pub enum Tap {}

impl Tap {
    /// Fails: there is no eBPF here.
    pub fn start(_: Config, _: impl FnMut(Handed) -> bool + Send + 'static) -> Result<Self, Error> {
        Err(Error::Missing(missing_here()))
    }
}

/// Fails: there is no eBPF here.
pub fn probe() -> Result<(), Error> {
    Err(Error::Missing(missing_here()))
}

/// Returns nothing: no kernel but Linux has these programs.
pub fn loaded() -> InKernel {
    InKernel::default()
}

/// Returns nothing: only Linux has network namespaces.
pub fn network(_: &str) -> Option<u64> {
    None
}

/// Returns Linux: it is missing here.
pub fn missing_here() -> Vec<Missing> {
    vec![missing(
        "Linux",
        "on another machine, kflow sees a node's calls by its agent: kflow agent install",
    )]
}

/// Does nothing: only Linux has capabilities.
pub fn narrow() -> std::io::Result<()> {
    Ok(())
}
