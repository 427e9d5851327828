//! What was seen of a pod, in order of time, and which of it tells something.

use std::ops::Deref;

use crate::flow;
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Evidence, Nanos};

/// The observations of a pod, sorted by time and without duplicates.
///
/// Most lines of a verbose log tell nothing. Which do is kept beside the observations, so that who looks for causes does not
/// touch the others: each touch waits for memory twice, for the observation and for its line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    all: Vec<Evidence>,
    /// Positions in `all` of what tells something.
    telling: Vec<u32>,
    /// Time of the newest observation of a source of the node.
    node_seen: Option<Nanos>,
    has_kubelet_log: bool,
    /// When lists were read that show the pod.
    listed: Vec<Nanos>,
}

impl Observed {
    /// Of a pod of which nothing was seen.
    pub(crate) const NONE: Self = Self {
        all: Vec::new(),
        telling: Vec::new(),
        node_seen: None,
        has_kubelet_log: false,
        listed: Vec::new(),
    };

    /// Takes observations that are sorted by time and without duplicates.
    pub(crate) fn new(all: Vec<Evidence>) -> Self {
        let mut s = Self::default();
        for (i, o) in (0u32..).zip(&all) {
            if o.source.is_node() {
                s.node_seen = Some(o.stamp.at);
            }
            let tells = match &o.body {
                Body::Log(l) => {
                    s.has_kubelet_log |= l.component == Component::Kubelet;
                    tells(l)
                }
                Body::Pod(p) if p.event == WatchEvent::Listed => {
                    s.listed.push(o.stamp.at);
                    true
                }
                _ => true,
            };
            if tells {
                s.telling.push(i);
            }
        }
        s.all = all;
        s
    }

    /// Returns the observations but lines of a log that are known to carry nothing.
    pub fn telling(&self) -> impl DoubleEndedIterator<Item = &Evidence> {
        let all = self.telling.iter();
        all.filter_map(|i| self.all.get(usize::try_from(*i).ok()?))
    }

    /// Returns the time of the newest observation of a source of the node.
    pub const fn node_seen(&self) -> Option<Nanos> {
        self.node_seen
    }

    /// True for the moment at which a list was read that shows the pod: what it shows may have been so for long.
    pub fn is_look(&self, at: Nanos) -> bool {
        self.listed.contains(&at)
    }

    /// True where lines of the kubelet's log are among the observations.
    pub const fn has_kubelet_log(&self) -> bool {
        self.has_kubelet_log
    }
}

impl Deref for Observed {
    type Target = [Evidence];
    fn deref(&self) -> &[Evidence] {
        &self.all
    }
}

/// False for a line that no signature of the map fits and that is no warning. The runtimes' lines are read otherwise.
fn tells(l: &LogLine) -> bool {
    l.severity >= Severity::Warning
        || matches!(l.component, Component::Containerd | Component::Crio)
        || flow::line(l).is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use kflow_model::{Observation, Source, Stamp};

    fn line(at: i64, severity: Severity, message: &str) -> Evidence {
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos(at)),
            source: Source::Kubelet,
            body: Body::Log(Box::new(LogLine::new(
                Component::Kubelet,
                severity,
                message,
            ))),
        })
    }

    #[test]
    fn lines_that_carry_nothing_are_among_all_and_not_among_what_tells() {
        let all = [
            line(1, Severity::Info, "SyncLoop ADD"),
            line(2, Severity::Info, "Nothing that any signature has"),
            line(3, Severity::Warning, "Nothing that any signature has"),
        ];
        let seen = Observed::new(all.to_vec());
        assert_eq!(seen.len(), 3);
        let telling: Vec<i64> = seen.telling().map(|o| o.stamp.at.0).collect();
        assert_eq!(telling, [1, 3]);
        assert_eq!(seen.node_seen(), Some(Nanos(3)));
        assert!(seen.has_kubelet_log());
    }
}
