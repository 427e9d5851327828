//! Source `metrics`: `/metrics`, `/healthz`, `/readyz`, `/livez`, `/configz`, `/version` and the kubelet's `/pods`.
//!
//! [`decode`] reduces scrapes to the families in `families` and reads recorded ones; the live half scrapes.

pub mod decode;

mod families;
#[cfg(feature = "live")]
pub mod live;
mod pods;
mod scrape;

pub use decode::{MetricsDecoder, Scrapes};
pub use scrape::Scrape;
