//! Source `metrics`: `/metrics`, `/healthz`, `/readyz`, `/livez`, `/configz`, `/version` and the kubelet's `/pods`.
//!
//! [`decode`] reduces scrapes to the families in `families`; the live half makes the requests.

pub mod decode;

mod families;
#[cfg(feature = "live")]
pub mod live;
mod pods;
mod scrape;

pub use decode::Scrapes;
pub use scrape::Scrape;
