//! The kubelet's own measure of a pod's start.

use crate::model::{Nanos, Text, log::LogLine, stamp::parse_go_duration};

/// What the kubelet logged of a pod's start (`Observed pod startup duration`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservedStart {
    /// When it was logged.
    pub at: Nanos,
    /// `ns/name`.
    pub pod: Text,
    /// `podStartSLOduration`, ns.
    pub sli_ns: i64,
    /// `podStartE2EDuration`, ns.
    pub total_ns: i64,
    /// `totalImagesPullingTime`, ns.
    pub pulling_ns: i64,
    /// `totalInitContainerRuntime`, ns.
    pub init_ns: i64,
}

impl ObservedStart {
    /// Reads the line; `None` for any other.
    pub(crate) fn read(l: &LogLine, at: Nanos) -> Option<Self> {
        if l.message != "Observed pod startup duration" {
            return None;
        }
        let ns = |key: &str| {
            let text = l.field(key)?;
            // `podStartSLOduration` is a bare number of seconds, the others are Go durations.
            parse_go_duration(text).or_else(|| Some((text.parse::<f64>().ok()? * 1e9) as i64))
        };
        Some(Self {
            at,
            pod: format!("{}/{}", l.pod.namespace, l.pod.name).into(),
            sli_ns: ns("podStartSLOduration")?,
            total_ns: ns("podStartE2EDuration")?,
            pulling_ns: ns("totalImagesPullingTime").unwrap_or(0),
            init_ns: ns("totalInitContainerRuntime").unwrap_or(0),
        })
    }
}
