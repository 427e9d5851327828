//! Where a replay opens: at the end of the recording's first lists. Before that, no pane has anything to show.

use std::collections::BTreeMap;

use kflow_core::diagnose::unknown::is_needed;
use kflow_model::gap::WatchKind;
use kflow_model::pod::WatchEvent;
use kflow_model::stamp::SECOND;
use kflow_model::units::MINUTE;
use kflow_model::{Body, Nanos, Observation, Text};

/// Lists that begin this long after the end of the first list of pods, ns, were asked for together with it. Chosen: a run
/// asks for all kinds at once.
const TOGETHER: i64 = 2 * SECOND;
/// How long after its begin a recording may know what there is, ns, to be opened there. Chosen: an apiserver that comes
/// back later is something to see.
const SOON: i64 = MINUTE;

/// A list: when it began, and when it had been read.
#[derive(Clone, Copy, Debug)]
struct List {
    begin: Nanos,
    end: Option<Nanos>,
}

/// The first lists of a recording. Observations come in order of arrival.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    begin: Option<Nanos>,
    newest: Option<Nanos>,
    /// By kind and bounds: the first list.
    first: BTreeMap<(Text, Text), List>,
    /// The last pod of the first list that came as kubectl writes it, without a begin and an end.
    plain: Option<Nanos>,
}

impl Lists {
    pub(super) fn observe(&mut self, o: &Observation) {
        let seen = o.stamp.seen;
        self.begin.get_or_insert(seen);
        self.newest = self.newest.max(Some(seen));
        match &o.body {
            Body::Watch(n) if is_needed(&n.resource) || n.resource == "nodes" => {
                let key = (n.resource.clone(), n.scope.clone());
                match n.kind {
                    WatchKind::ListBegin => {
                        let list = List {
                            begin: seen,
                            end: None,
                        };
                        self.first.entry(key).or_insert(list);
                    }
                    WatchKind::ListEnd => {
                        if let Some(list) = self.first.get_mut(&key) {
                            list.end.get_or_insert(seen);
                        }
                    }
                    WatchKind::Broken | WatchKind::Bookmark => {}
                }
            }
            Body::Pod(p) if p.event == WatchEvent::Listed => {
                let same = |last: Nanos| seen.since(last) < SOON;
                if self.plain.is_none_or(same) {
                    self.plain = Some(seen);
                }
            }
            _ => {}
        }
    }

    /// Returns the moment to open the recording at; `Err` as long as the rest of it may tell another one, `Ok(None)` where
    /// no moment is better than its begin. `whole`: there is no rest.
    pub(super) fn opening(&self, whole: bool) -> Result<Option<Nanos>, ()> {
        let (Some(begin), Some(newest)) = (self.begin, self.newest) else {
            return if whole { Ok(None) } else { Err(()) };
        };
        // All that there is was seen at one moment.
        if whole && newest.since(begin) < SECOND {
            return Ok(Some(newest));
        }
        let of_pods = self.first.iter().filter(|((kind, _), _)| kind == "pods");
        let Some(first) = of_pods.clone().filter_map(|(_, l)| l.end).min() else {
            let watched = of_pods.count() > 0;
            return match (whole, watched) {
                (true, true) => Ok(None),
                (true, false) => Ok(self.plain),
                (false, _) => Err(()),
            };
        };
        if first.since(begin) > SOON {
            return Ok(None);
        }
        let with_it = || {
            let all = self.first.values();
            all.filter(|l| l.begin <= first.plus(TOGETHER))
        };
        let late = newest > first.plus(SOON);
        let all_told = newest > first.plus(TOGETHER) && with_it().all(|l| l.end.is_some());
        if !whole && !late && !all_told {
            return Err(());
        }
        // A list that fails, or takes very long, is not waited for.
        let ends = with_it().filter_map(|l| l.end);
        Ok(ends.filter(|end| *end <= first.plus(SOON)).max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::gap::WatchNote;
    use kflow_model::pod::PodSeen;
    use kflow_model::{Source, Stamp};

    fn seen(at: i64, body: Body) -> Observation {
        Observation {
            stamp: Stamp::exact(Nanos(at * SECOND)),
            source: Source::Kube,
            body,
        }
    }
    fn note(at: i64, resource: &str, kind: WatchKind) -> Observation {
        let note = WatchNote {
            resource: resource.into(),
            kind,
            scope: Text::default(),
            detail: Text::default(),
            failure: None,
        };
        seen(at, Body::Watch(Box::new(note)))
    }
    fn pod(at: i64) -> Observation {
        seen(at, Body::Pod(Box::default()))
    }
    fn other(at: i64) -> Observation {
        let pod = PodSeen {
            event: WatchEvent::Modified,
            ..PodSeen::default()
        };
        seen(at, Body::Pod(Box::new(pod)))
    }
    /// The opening of a whole recording, in seconds.
    fn opening(all: &[Observation]) -> Option<i64> {
        let mut lists = Lists::default();
        for o in all {
            lists.observe(o);
        }
        let at = lists.opening(true).expect("nothing is to come");
        at.map(|at| at.0 / SECOND)
    }

    #[test]
    fn a_replay_opens_when_the_lists_that_it_begins_with_have_been_read() {
        use WatchKind::{Broken, ListBegin, ListEnd};
        let live = [
            other(100),
            note(101, "pods", ListBegin),
            note(101, "events", ListBegin),
            note(102, "pods", ListEnd),
            note(103, "jobs", ListBegin),
            note(104, "events", ListEnd),
            note(105, "jobs", ListEnd),
            // Of another time.
            note(110, "pods", ListBegin),
            note(111, "pods", ListEnd),
            note(112, "nodes", ListBegin),
            note(113, "nodes", ListEnd),
        ];
        assert_eq!(opening(&live), Some(105));
        // Leases are no answer to anything.
        let lists = [
            other(100),
            note(101, "leases", ListBegin),
            note(101, "pods", ListBegin),
            note(102, "pods", ListEnd),
            note(103, "leases", ListEnd),
            note(109, "events", Broken),
        ];
        assert_eq!(opening(&lists), Some(102));
        let never = [
            other(100),
            note(101, "pods", ListBegin),
            note(102, "pods", Broken),
            other(140),
        ];
        assert_eq!(opening(&never), None);
        let late = [
            other(100),
            note(101, "pods", ListBegin),
            note(300, "pods", ListEnd),
            other(340),
        ];
        assert_eq!(opening(&late), None);
        assert_eq!(opening(&[other(100), other(200)]), None);
    }

    #[test]
    fn a_bundle_opens_when_its_list_was_read_and_what_is_of_one_moment_at_its_end() {
        assert_eq!(opening(&[other(100), pod(9_000), pod(9_001)]), Some(9_001));
        assert_eq!(opening(&[pod(100), other(100)]), Some(100));
    }

    #[test]
    fn while_a_list_may_still_end_the_opening_is_open() {
        let mut lists = Lists::default();
        lists.observe(&note(100, "pods", WatchKind::ListBegin));
        lists.observe(&note(101, "pods", WatchKind::ListEnd));
        lists.observe(&note(101, "events", WatchKind::ListBegin));
        assert_eq!(lists.opening(false), Err(()));
        lists.observe(&other(110));
        assert_eq!(lists.opening(false), Err(()), "Events may come");
        lists.observe(&note(111, "events", WatchKind::ListEnd));
        assert_eq!(lists.opening(false), Ok(Some(Nanos(111 * SECOND))));
    }
}
