//! States of the sources, and the complete lists of pods.

use std::sync::Arc;

use super::SourceState;
use crate::correlate::context::ListWindow;
use kflow_model::cri::Service;
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::{Body, Evidence, Nanos, Source, Text};

/// Number of list notes that are kept regardless of their age.
const LISTS: usize = 64;
/// Number of gaps kept per source, and of clock steps.
const GAPS: usize = 256;

/// States by index in [`Source::ALL`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    states: [SourceState; Source::ALL.len()],
    /// The newest clock steps of the recording machine, by time.
    steps: Vec<Evidence>,
    /// Until when the sources of a recording were followed, by the newest [`Gap::END`](kflow_model::gap::Gap::END).
    end: Option<Nanos>,
}

impl Sources {
    /// Takes an observation; `own` tells that it is of a call that kflow itself made, which is no sign of a kubelet.
    pub(crate) fn observe(&mut self, o: &Evidence, own: bool) {
        if let Some(s) = self.states.get_mut(o.source as usize) {
            s.count += 1;
            s.first = Some(s.first.map_or(o.stamp.seen, |f| f.min(o.stamp.seen)));
            s.last = s.last.max(Some(o.stamp.seen));
            let calls =
                matches!(&o.body, Body::CallStart(c) if c.service != Service::Other && !own);
            if calls {
                s.called = s.called.max(Some(o.stamp.seen));
            }
            if calls || o.source == Source::Kubelet && matches!(&o.body, Body::Log(_)) {
                s.spoke = s.spoke.max(Some(o.stamp.at.min(o.stamp.seen)));
            }
            s.tapped |= matches!(
                o.body,
                Body::Conn(_) | Body::CallStart(_) | Body::CallEnd(_)
            );
        }
        if let Body::ClockStep(_) = &o.body {
            // Arrivals by the clock before a backward step would be in the future.
            for s in &mut self.states {
                s.last = s.last.map(|l| l.min(o.stamp.seen));
                s.called = s.called.map(|c| c.min(o.stamp.seen));
                s.spoke = s.spoke.map(|c| c.min(o.stamp.seen));
            }
            let at = self.steps.partition_point(|e| e < o);
            if self.steps.get(at) != Some(o) {
                self.steps.insert(at, Arc::clone(o));
            }
            if self.steps.len() > GAPS {
                self.steps.remove(0);
            }
        }
        if let Body::Gap(g) = &o.body
            && !g.is_loss()
        {
            self.end = self.end.max(Some(o.stamp.seen));
        } else if let Body::Gap(g) = &o.body
            && let Some(s) = self.states.get_mut(g.of as usize)
        {
            let at = s.gaps.partition_point(|e| e < o);
            if s.gaps.get(at) == Some(o) {
                return;
            }
            s.lost += g.lost;
            s.gaps.insert(at, Arc::clone(o));
            if s.gaps.len() > GAPS {
                s.gaps.remove(0);
            }
        }
    }
    pub(crate) fn get(&self, source: Source) -> &SourceState {
        static NONE: SourceState = SourceState {
            count: 0,
            first: None,
            last: None,
            lost: 0,
            gaps: Vec::new(),
            called: None,
            spoke: None,
            tapped: false,
        };
        self.states.get(source as usize).unwrap_or(&NONE)
    }
    /// Until when the sources on nodes and of the control plane were followed; `None` while they are.
    pub(crate) fn end(&self) -> Option<Nanos> {
        let followed = Source::ALL.into_iter();
        let followed = followed.filter(|s| !matches!(s, Source::Kube | Source::Kflow));
        let last = followed.filter_map(|s| self.get(s).last).max();
        self.end.filter(|end| last.is_none_or(|last| last <= *end))
    }
    pub(crate) fn steps(&self) -> &[Evidence] {
        &self.steps
    }
    /// Intervals in which the tap saw nothing: from, until.
    pub(crate) fn blind(&self) -> Vec<(Nanos, Nanos)> {
        self.get(Source::Cri)
            .gaps
            .iter()
            .filter_map(|o| match &o.body {
                Body::Gap(g) => Some((g.since.min(o.stamp.at), o.stamp.at)),
                _ => None,
            })
            .collect()
    }
    /// Arrival of the first observation of the sources on nodes; `None` when they have none.
    pub(crate) fn nodes_from(&self) -> Option<Nanos> {
        self.first(&[Source::Cri, Source::Kubelet, Source::Fs])
    }
    /// The same; when the sources on nodes have no observation, of any source.
    pub(crate) fn began(&self) -> Option<Nanos> {
        self.nodes_from().or_else(|| self.first(&Source::ALL))
    }
    fn first(&self, sources: &[Source]) -> Option<Nanos> {
        sources.iter().filter_map(|s| self.get(*s).first).min()
    }
    /// Bit set of the sources that produced an observation, by index.
    pub(crate) fn present(&self) -> u16 {
        self.states
            .iter()
            .enumerate()
            .filter(|(_, s)| s.count > 0)
            .fold(0, |bits, (i, _)| bits | 1 << i)
    }
}

/// Notes of begins and ends of lists of pods, sorted, and the lists made of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    notes: Vec<Evidence>,
    windows: Arc<Vec<ListWindow>>,
}

impl Lists {
    /// Takes a note; returns true when the complete lists changed.
    pub(crate) fn observe(&mut self, o: &Evidence) -> bool {
        let Body::Watch(n) = &o.body else {
            return false;
        };
        let of_pods = n.resource == "pods" || n.resource == WatchNote::NAMES;
        if !of_pods || !matches!(n.kind, WatchKind::ListBegin | WatchKind::ListEnd) {
            return false;
        }
        let at = self.notes.partition_point(|e| e < o);
        if self.notes.get(at) == Some(o) {
            return false;
        }
        self.notes.insert(at, Arc::clone(o));
        let mut windows = Vec::new();
        let mut open: Vec<(&Text, Nanos)> = Vec::new();
        for e in &self.notes {
            let Body::Watch(n) = &e.body else { continue };
            match n.kind {
                WatchKind::ListBegin => {
                    open.retain(|(s, _)| *s != n.scope);
                    open.push((&n.scope, e.stamp.at));
                }
                WatchKind::ListEnd if n.resource == WatchNote::NAMES => {
                    windows.extend(ListWindow::of_names(e, n));
                }
                WatchKind::ListEnd => {
                    if let Some(i) = open.iter().position(|(s, _)| *s == n.scope) {
                        let (scope, begin) = open.swap_remove(i);
                        windows.push(ListWindow {
                            begin,
                            end: e.stamp.at,
                            scope: scope.clone(),
                            names: None,
                            proof: Arc::clone(e),
                        });
                    }
                }
                WatchKind::Broken | WatchKind::Bookmark => {}
            }
        }
        let changed = *self.windows != windows;
        self.windows = Arc::new(windows);
        changed
    }
    /// Forgets lists from before `limit`, except the newest [`LISTS`] notes.
    pub(crate) fn forget_before(&mut self, limit: Nanos) {
        let most = self.notes.len().saturating_sub(LISTS);
        let old = self.notes.partition_point(|o| o.stamp.at < limit).min(most);
        self.notes.drain(..old);
        if old > 0 {
            let begin = self.notes.first().map_or(limit, |o| o.stamp.at);
            Arc::make_mut(&mut self.windows).retain(|w| w.begin >= begin);
        }
    }
    pub(crate) fn windows(&self) -> &Arc<Vec<ListWindow>> {
        &self.windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::cri::{CallKey, CallStart};
    use kflow_model::{Observation, Stamp};

    fn call(service: Service, method: &str, at: i64) -> Evidence {
        let start = CallStart::new(CallKey { conn: 1, stream: 1 }, service, method);
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos::from_secs(at)),
            source: Source::Cri,
            body: Body::CallStart(Box::new(start)),
        })
    }

    /// kflow lists what the runtime has, and reads by services of containerd's own how pulls come. Neither shows that a kubelet lives.
    #[test]
    fn only_calls_of_cri_are_a_kubelets() {
        let mut sources = Sources::default();
        sources.observe(&call(Service::Runtime, "ListPodSandbox", 1), false);
        sources.observe(&call(Service::Runtime, "ListPodSandbox", 8), true);
        let own = "/containerd.services.content.v1.Content/ListStatuses";
        sources.observe(&call(Service::Other, own, 9), false);
        let state = sources.get(Source::Cri);
        assert_eq!(state.called, Some(Nanos::from_secs(1)));
        assert_eq!(state.last, Some(Nanos::from_secs(9)));
        assert_eq!(state.spoke, Some(Nanos::from_secs(1)));
    }
}
