//! Source `klog`: the logs of kubelet, kube-apiserver, kube-scheduler and kube-controller-manager.
//!
//! [`decode`] reads lines: klog text (structured and older unstructured), JSON logging, and both of them inside
//! journald output or container log files, told apart line by line.

pub mod decode;
#[cfg(feature = "live")]
pub mod live;
pub mod pods;

mod header;
mod json;
mod record;
#[cfg(test)]
mod tests;
mod unit;
mod year;

pub use decode::{KlogDecoder, has_header};
pub use unit::ended_unit;
pub use year::full_date;
