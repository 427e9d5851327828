//! Metrics and health from endpoints: `/metrics`, `/healthz`, `/readyz?verbose`, `/configz`.

use serde::{Deserialize, Serialize};

use super::Text;

/// Value of a metric. Compared by its bits, so that observations have a total order.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(pub f64);

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for Value {}
impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Value {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// One scrape of one endpoint, reduced to the metric families and lines that kflow shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sample {
    /// Which endpoint: `kubelet-metrics`, `kubelet-healthz`, `apiserver-readyz`, `kubelet-configz`, …
    #[serde(rename = "w")]
    pub what: Text,
    /// HTTP status of the response, 0 when there was none.
    #[serde(rename = "code")]
    pub code: u16,
    /// How long the scrape took, ns.
    #[serde(rename = "took", default)]
    pub took_ns: u64,
    /// Series (`name{label="v"}`, labels in the order of the exposition) with their values; for a histogram `_sum`,
    /// `_count` and the buckets.
    #[serde(rename = "x", default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(Text, Value)>,
    /// Lines of a health endpoint (`[+]poststarthook/… ok`), or settings (`key=value`) of configz.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Text>,
}
