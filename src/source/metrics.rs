//! Source `metrics`: `/metrics`, `/healthz`, `/readyz`, `/livez`, `/configz` and `/version`.
//!
//! [`decode`] reduces scrapes to the families in `families` and reads recorded ones; the live half scrapes.

pub mod decode;

mod families;
#[cfg(feature = "live")]
pub mod live;

pub use decode::{MetricsDecoder, Scrape, Scrapes};
