//! What was seen of a pod, in order of time, and which of it tells something.

use std::hint::black_box;
use std::ops::Deref;

use crate::flow;
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Evidence, Nanos, Observation};

/// The observations of a pod, sorted by time and without duplicates.
///
/// Most lines of a verbose log tell nothing of what keeps a pod. Which do is kept beside the observations, so that who looks for causes does not
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

    /// Calls `read` with what [`Self::telling`] returns, in order. Of many pods this is faster: the processor waits for several
    /// observations at once.
    pub fn each_telling<'a>(&'a self, mut read: impl FnMut(&'a Evidence)) {
        for ahead in self.telling.chunks(AHEAD) {
            let ahead = || {
                let all = ahead.iter();
                all.filter_map(|i| self.all.get(usize::try_from(*i).ok()?))
            };
            black_box(ahead().map(|o| glance(o)).fold(0, u32::wrapping_add));
            ahead().for_each(&mut read);
        }
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

/// Number of observations that are waited for at once: what of them is read stays in the nearest caches.
const AHEAD: usize = 64;

/// Reads something of an observation that whoever reads it will need. No two of these reads depend on each other.
fn glance(o: &Observation) -> u32 {
    match &o.body {
        Body::Log(l) => l.noted.get().map_or(0, u32::from) + u32::from(l.container.is_empty()),
        Body::Event(e) => e.count,
        _ => 0,
    }
}

/// False for a line that no signature of the map fits, or that is said at each turn of the kubelet's loops, and that is no
/// warning. The runtimes' lines are read otherwise.
fn tells(l: &LogLine) -> bool {
    // A line with a container's name may be the only one that tells whose its id is.
    let says = |said: flow::Line<'_>| {
        !said.fact().is_routine() || !l.container.is_empty() || said.failure().is_some()
    };
    l.severity >= Severity::Warning
        || matches!(l.component, Component::Containerd | Component::Crio)
        || flow::line(l).is_some_and(says)
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
            line(4, Severity::Info, "SyncLoop RECONCILE"),
            line(5, Severity::Warning, "SyncLoop RECONCILE"),
        ];
        let seen = Observed::new(all.to_vec());
        assert_eq!(seen.len(), 5);
        let time = |o: &Evidence| o.stamp.at.0;
        assert_eq!(seen.telling().map(time).collect::<Vec<_>>(), [1, 3, 5]);
        let mut read = Vec::new();
        seen.each_telling(|o| read.push(time(o)));
        assert_eq!(read, [1, 3, 5]);
        assert_eq!(seen.node_seen(), Some(Nanos(5)));
        assert!(seen.has_kubelet_log());
    }
}
