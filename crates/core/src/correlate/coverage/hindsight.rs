//! What a recording says only later of what it lacks at a moment: a loss is told when it has ended, and a watch that fell
//! silent is told as broken when its patience is over.

use kflow_model::gap::{Failure, Gap, WatchKind, WatchNote};
use kflow_model::{Body, Evidence, Nanos, Source, Text, stamp::SECOND};

use super::{BLINK, Coverage, Failing, Incomplete, Lost};

/// A watch without a word for longer than this was not followed: the apiserver sends a bookmark every minute
/// (`staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go`, `defaultBookmarkFrequency`).
const QUIET: i64 = 90 * SECOND;

/// A time of which something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Dark {
    /// The first moment.
    since: Nanos,
    /// Arrival of what says so: from then on the world knows it by itself.
    until: Nanos,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Lost(Lost),
    /// A watch, by kind and scope, and how it was said to have failed.
    Silent((Text, Text), Failing),
}

/// What a recording tells later of a moment that is asked about: losses, and watches that were silent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hindsight {
    dark: Vec<Dark>,
    /// Watches that are followed, and the newest note of each.
    followed: Vec<((Text, Text), Nanos)>,
    /// Newest arrival of a pod, and of an Event, from a list or watch.
    heard: [Option<Nanos>; 2],
}

impl Hindsight {
    /// Made of all observations of a recording, in order of arrival.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Evidence>) -> Self {
        let mut hindsight = Self::default();
        all.into_iter().for_each(|o| hindsight.observe(o));
        hindsight
    }

    /// Takes the next observation, in order of arrival.
    pub fn observe(&mut self, o: &Evidence) {
        let at = o.stamp.seen;
        match &o.body {
            Body::Pod(_) if o.source == Source::Kube => self.heard[0] = Some(at),
            Body::Event(_) if o.source == Source::Kube => self.heard[1] = Some(at),
            Body::Watch(n) => self.note(at, n),
            Body::ClockStep(_) => {
                // Moments before and after it are by two clocks.
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
            // Of a list that is not in the recording.
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
                        // What was heard last was so.
                        since: since.plus(BLINK),
                        until: at,
                        what: What::Silent(key, failing),
                    });
                }
            }
        }
    }

    /// True when no loss and no silent watch, recorded later, covers a moment.
    pub fn is_clear(&self, at: Nanos) -> bool {
        self.around(at).next().is_none()
    }

    /// Every time of which something is not known: from, until, and what is missing.
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
    /// Adds what is lacking at a moment and is told later.
    pub(crate) fn look_back(&mut self, hindsight: &Hindsight, at: Nanos) {
        for dark in hindsight.around(at) {
            match &dark.what {
                What::Lost(lost) => {
                    let mut lost = lost.clone();
                    if [Gap::SEGMENTS, Gap::UNRECORDED].contains(&lost.resource.as_str()) {
                        // At a moment of which nothing is there anything may be missing.
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
