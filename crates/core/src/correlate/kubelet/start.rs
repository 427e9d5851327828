//! The kubelet's own measurement of a pod's start.

use kflow_model::{Nanos, Text, log::LogLine, units::parse_go_duration};

/// A log line `Observed pod startup duration`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservedStart {
    /// Time of the line.
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
    /// `observedRunningTime`: when the kubelet had recorded that it sent the status in which the pod runs. Only from
    /// then on does the kubelet check what its watch delivers. `None` where the field is unusable (in JSON the
    /// kubelet writes the time of the line).
    pub noted: Option<Nanos>,
    /// `watchObservedRunningTime`: when the kubelet next checked, and found the pod started; `None` likewise.
    pub watched: Option<Nanos>,
}

impl ObservedStart {
    /// Reads the fields of the line; `None` when they are missing.
    pub(crate) fn read(l: &LogLine, at: Nanos) -> Option<Self> {
        let ns = |key: &str| {
            let text = l.field(key)?;
            // `podStartSLOduration` is a bare number of seconds, the others are Go durations.
            parse_go_duration(text).or_else(|| Some((text.parse::<f64>().ok()? * 1e9) as i64))
        };
        // A time in the format of Go's `Time.String`; `None` when it is later than the line.
        let time = |key: &str| {
            let mut parts = l.field(key)?.splitn(4, ' ');
            let (date, time, zone) = (parts.next()?, parts.next()?, parts.next()?);
            let (hours, minutes) = zone.split_at_checked(3)?;
            let (t, _) = Nanos::parse_rfc3339(&format!("{date}T{time}{hours}:{minutes}"))?;
            (t <= at).then_some(t)
        };
        Some(Self {
            noted: time("observedRunningTime"),
            watched: time("watchObservedRunningTime"),
            at,
            pod: format!("{}/{}", l.pod.namespace, l.pod.name).into(),
            sli_ns: ns("podStartSLOduration")?,
            total_ns: ns("podStartE2EDuration")?,
            pulling_ns: ns("totalImagesPullingTime").unwrap_or(0),
            init_ns: ns("totalInitContainerRuntime").unwrap_or(0),
        })
    }
}
