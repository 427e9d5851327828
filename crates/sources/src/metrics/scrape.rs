//! What one endpoint answered at one time.

use kflow_model::Nanos;

/// One answer of one endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Scrape<'a> {
    /// When the answer was complete.
    pub at: Nanos,
    /// How long the request took, ns.
    pub took_ns: u64,
    /// `kubelet-metrics`, `kubelet-healthz`, `apiserver-readyz`, … The end of the name says what is in the body.
    pub what: &'a str,
    /// HTTP status, 0 when there was no answer.
    pub code: u16,
    /// Body, or the error when there was no answer.
    pub body: &'a str,
}
