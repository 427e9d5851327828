//! What a recording states only afterwards about data that is missing at a moment: a loss is recorded when it has
//! ended, and a watch that became silent is recorded as broken after its time-out.

use kflow_model::gap::{Failure, Gap, WatchKind, WatchNote};
use kflow_model::{Body, Evidence, Nanos, Source, Text, stamp::SECOND};

use super::{BLINK, Coverage, Failing, Incomplete, Lost};

/// A watch that delivers nothing for longer than this (ns) was interrupted: the apiserver sends a bookmark every
/// minute (`staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go`, `defaultBookmarkFrequency`).
const QUIET: i64 = 90 * SECOND;

/// An interval in which some data is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Dark {
    /// The first moment.
    since: Nanos,
    /// Arrival of the observation that states it: from then on the world knows the loss without hindsight.
    until: Nanos,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Lost(Lost),
    /// A watch, by resource and scope, and the failure that was recorded for it.
    Silent((Text, Text), Failing),
}

/// What a recording states later about a moment: losses, and watches that were silent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hindsight {
    dark: Vec<Dark>,
    /// Watches that are running, and the arrival of the newest note of each.
    followed: Vec<((Text, Text), Nanos)>,
    /// Newest arrival of a pod, and of an Event, from a list or watch.
    heard: [Option<Nanos>; 2],
}

impl Hindsight {
    /// Built from all observations of a recording, in order of arrival.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Evidence>) -> Self {
        let mut hindsight = Self::default();
        all.into_iter().for_each(|o| hindsight.observe(o));
        hindsight
    }

    /// Applies the next observation, in order of arrival.
    pub fn observe(&mut self, o: &Evidence) {
        let at = o.stamp.seen;
        match &o.body {
            Body::Pod(_) if o.source == Source::Kube => self.heard[0] = Some(at),
            Body::Event(_) if o.source == Source::Kube => self.heard[1] = Some(at),
            Body::Watch(n) => self.note(at, n),
            Body::ClockStep(_) => {
                // Times before and after the step are not comparable.
                self.heard = [None; 2];
                self.followed.iter_mut().for_each(|(_, t)| *t = at);
            }
            Body::Gap(g) => {
                if let Some(lost) = Lost::of(g, at).filter(|l| l.since < at) {
                    self.dark.push(Dark {
                        since: lost.since,
                        until: at,
                        what: What::Lost(lost),
                    });
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, at: Nanos, n: &WatchNote) {
        let key = (n.resource.clone(), n.scope.clone());
        let place = self.followed.iter().position(|(k, _)| *k == key);
        match (n.kind, place) {
            (WatchKind::ListBegin, _) => {}
            (WatchKind::ListEnd | WatchKind::Bookmark, Some(i)) => {
                if let Some((_, newest)) = self.followed.get_mut(i) {
                    *newest = at;
                }
            }
            (WatchKind::ListEnd, None) => self.followed.push((key, at)),
            // The recording does not contain this watch's list.
            (WatchKind::Bookmark | WatchKind::Broken, None) => {}
            (WatchKind::Broken, Some(i)) => {
                let (key, noted) = self.followed.swap_remove(i);
                let heard = match key.0.as_str() {
                    "pods" => self.heard[0],
                    "events" => self.heard[1],
                    _ => None,
                };
                let since = heard.map_or(noted, |h| h.max(noted));
                let failure = n.failure.unwrap_or(Failure::Other);
                let quiet = at.since(since);
                if quiet > QUIET || (failure == Failure::TimedOut && quiet > BLINK) {
                    let failing = Failing {
                        since,
                        last: at,
                        failure,
                        detail: n.detail.clone(),
                    };
                    self.dark.push(Dark {
                        // Data was complete until the newest arrival.
                        since: since.plus(BLINK),
                        until: at,
                        what: What::Silent(key, failing),
                    });
                }
            }
        }
    }

    /// True when the moment lies in no interval of missing data.
    pub fn is_clear(&self, at: Nanos) -> bool {
        self.around(at).next().is_none()
    }

    /// All intervals of missing data: from, until, and what is missing.
    pub fn dark(&self) -> impl Iterator<Item = (Nanos, Nanos, Incomplete)> {
        self.dark.iter().map(|d| {
            let why = match &d.what {
                What::Lost(lost) => Incomplete::Lost(lost.clone()),
                What::Silent(_, failing) => Incomplete::Failing(failing.clone()),
            };
            (d.since, d.until, why)
        })
    }

    fn around(&self, at: Nanos) -> impl Iterator<Item = &Dark> {
        self.dark
            .iter()
            .filter(move |d| d.since <= at && at < d.until)
    }
}

impl Coverage {
    /// Adds the data that is missing at a moment and was recorded as missing only later.
    pub(crate) fn look_back(&mut self, hindsight: &Hindsight, at: Nanos) {
        for dark in hindsight.around(at) {
            match &dark.what {
                What::Lost(lost) => {
                    let mut lost = lost.clone();
                    if [Gap::SEGMENTS, Gap::UNRECORDED].contains(&lost.resource.as_str()) {
                        // At a moment without any recorded data, objects of every kind may be missing.
                        lost.resource = Text::default();
                    }
                    self.lose(lost);
                }
                What::Silent(key, failing) => {
                    let watched = self.watches.entry(key.clone()).or_default();
                    watched.failing.get_or_insert_with(|| failing.clone());
                }
            }
        }
    }
}
