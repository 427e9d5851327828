//! The progress of a pull, by what the runtime has fetched of each layer.

use super::image_of;
use crate::correlate::{Call, PodView, World};
use crate::diagnose::limits;
use crate::diagnose::text::span;
use crate::flow::Stage;
use crate::timeline::{Outcome, Span};
use kflow_model::cri::method;
use kflow_model::pull::{LayerSeen, PullSeen};
use kflow_model::stamp::SECOND;
use kflow_model::units::size;
use kflow_model::{Evidence, Nanos};

/// Time over which a rate is computed, ns.
const WINDOW_NS: i64 = 10 * SECOND;
/// The shortest time over which a rate is reported, ns: pieces of 1 MiB make the rate jump over shorter ones.
const SHORTEST_NS: i64 = SECOND;
/// Pieces of a pull come at least this close to one another where [`WINDOW_NS`] holds enough of them for a rate, ns.
const FAST_NS: i64 = WINDOW_NS / 4;
/// So many layers of an image containerd fetches at a time (docs/cri/config.md, `max_concurrent_downloads`).
const AT_ONCE: usize = 3;
/// The rate of a slower pull is computed over the time of so many pieces of its slowest layer.
const STEPS: i64 = 8;
/// containerd writes what it fetches in pieces of this many bytes (`content/helpers.go`, bufPool and copyWithBuffer of
/// 1.6, and `core/content/helpers.go` of 2.x): between two pieces nothing seems to come.
pub const PIECE: u64 = 1 << 20;
/// A pull is observed at least every 5 s while it lasts: a pull that was not observed for this long, ns, may be over.
const FRESH_NS: i64 = 15 * SECOND;

/// The progress of one pull.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Bytes that were fetched.
    pub fetched: u64,
    /// Bytes of all layers as the registry stores them, usually compressed.
    pub size: u64,
    /// The layers, the image's base first.
    pub layers: Vec<Layer>,
    /// Bytes a second: over the last ten seconds; of a slow pull over its last pieces, or since fetching of its layers
    /// began, as for a pull that has been observed for less than a second. `None` while nothing has come.
    pub rate: Option<u64>,
    /// The layer that has stood still for longest; `None` while no layer stands still.
    pub still: Option<Still>,
    /// The newest observation of the pull.
    pub evidence: Evidence,
}

/// The progress of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Bytes of the layer that were fetched.
    pub fetched: u64,
    /// Its size, bytes.
    pub size: u64,
    /// How fetching the layer goes.
    pub fate: Fate,
}

/// How fetching a layer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing of it has come, and other layers come: containerd fetches three of an image at a time
    /// (`max_concurrent_downloads`), and since 2.1 opens the others before their turn.
    Waits,
    /// The layer is being fetched, at this many bytes a second; the rate is computed as [`Progress::rate`].
    Comes(Option<u64>),
    /// Nothing of the layer has come since this moment, and nothing of any other for as long as one has to wait.
    Still(Nanos),
    /// All of the layer is fetched.
    Complete,
}

/// A layer that stands still: nothing of it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Still {
    /// Number of the layer, from 1; the image's base is the first.
    pub layer: usize,
    /// Bytes that were fetched of it.
    pub fetched: u64,
    /// Its size, bytes.
    pub size: u64,
    /// When a part of the layer was written last, or when fetching began.
    pub since: Nanos,
}

/// How the layers of a pull come, all together.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// When fetching began.
    begun: Nanos,
    /// Bytes of the layers that were there before, or whose begin is not known.
    had: u64,
    /// The average since fetching began tells the rate: what came in unknown time is little beside the rest. A layer that
    /// waited for its turn looks slow where the layers before it were complete when they were first seen.
    is_average_known: bool,
    /// When the last bytes came, of whichever layer.
    moved: Nanos,
    /// How long a piece of the slowest layer takes, ns; `None` while no piece has come.
    pace: Option<i64>,
    /// Nothing comes of any layer. While others come, nothing follows from one that does not: it may wait for its
    /// turn, or for the line that all share.
    stands_still: bool,
    /// Something came of a layer that is not complete.
    some_come: bool,
}

impl Flow {
    fn of(newest: &PullSeen, o: &Evidence, before: &[(Nanos, &PullSeen)], now: Nanos) -> Self {
        let begun = newest.layers.iter().filter(|l| l.started.0 > 0);
        let moved = begun.clone().map(|l| l.moved).max().unwrap_or(o.stamp.at);
        // The runtime does not say when the last piece of a complete layer came: the first observation that shows it does.
        let same = before
            .iter()
            .take_while(|(_, p)| p.fetched() == newest.fetched());
        let oldest = same.clone().last().map_or(o.stamp.at, |(at, _)| *at);
        let changed = (same.count() < before.len()).then_some(oldest);
        let moved = changed.map_or(moved, |at| moved.max(at));
        let pace = |l: &LayerSeen| pieces(l.fetched, l.moved.since(l.started), 1);
        // A layer of which some came has its turn; one of which nothing came may wait for it as long as another comes.
        let comes = |l: &&LayerSeen| l.is_fetching() && l.fetched > 0;
        let coming = newest.layers.iter().filter(comes);
        let last = coming.clone().map(|l| l.moved).max();
        let most = match last {
            Some(_) => coming.map(patience).max(),
            None => begun.clone().map(patience).max(),
        };
        let quiet = now.since(last.unwrap_or(moved));
        let came = |n: u64, l: &LayerSeen| n.saturating_add(l.fetched.min(l.size));
        let came = begun.clone().fold(0, came);
        let had = newest.fetched().saturating_sub(came);
        let begin = begun.clone().map(|l| l.started).min().unwrap_or(moved);
        let is_whole = before
            .last()
            .is_some_and(|(at, _)| at.since(begin) < FAST_NS);
        Self {
            begun: begin,
            had,
            is_average_known: is_whole || had <= came || newest.layers.len() <= AT_ONCE,
            moved,
            pace: begun.filter(|l| l.fetched > 0).map(pace).max(),
            stands_still: most.is_some_and(|most| quiet >= most),
            some_come: last.is_some(),
        }
    }

    /// The rate of a slow pull, bytes a second. Its pieces come seconds apart, several at once: it is computed from one
    /// piece to another.
    fn rate(
        self,
        fetched: u64,
        before: &[(Nanos, &PullSeen)],
        pace: i64,
        now: Nanos,
    ) -> Option<u64> {
        // Nothing has to come before the next piece is due.
        let late = now.since(self.moved) > pace;
        let end = if late { now } else { self.moved };
        let window = self.moved.plus(pace.saturating_mul(-STEPS));
        // The newest change before the window.
        let mut older = before.iter().zip(before.iter().skip(1));
        let change = older.find(|((at, p), (_, was))| *at <= window && p.fetched() > was.fetched());
        let average = self.is_average_known.then_some((self.begun, self.had));
        let (begin, had) = change.map(|((at, p), _)| (*at, p.fetched())).or(average)?;
        per_second(fetched.checked_sub(had)?, end.since(begin))
    }
}

impl Progress {
    /// Returns the progress of the pull of an image that began at `since` and has not ended; `None` when the runtime
    /// does not show the pull, or shows several that it may be.
    pub fn of(world: &World, image: &str, since: Nanos, now: Nanos) -> Option<Self> {
        let pulls = world.image_pulls();
        let mut found = pulls.newest().filter(|(o, newest)| {
            let going = if newest.ended {
                // Everything is fetched, and the pull goes on with unpacking.
                newest.is_complete() && o.stamp.at >= since
            } else {
                now.since(o.stamp.at) < FRESH_NS
            };
            going && newest.is_of(image)
        });
        let (o, newest) = found.next()?;
        if found.next().is_some() {
            return None;
        }
        let before = pulls.of(&newest.manifest).skip(1);
        Some(Self::by(before, newest, o, now))
    }

    /// Returns the progress of the pull that a step of a timeline makes or waits for.
    pub fn of_step(world: &World, step: &Span, now: Nanos) -> Option<Self> {
        let (image, since) = pulled(step)?;
        Self::of(world, &image, since, now)
    }

    /// Returns the progress of a PullImage in flight.
    pub fn of_call(world: &World, call: &Call, now: Nanos) -> Option<Self> {
        let pulls = call.method == method::PULL_IMAGE && call.end.is_none();
        pulls.then(|| Self::of(world, &call.image, call.start, now))?
    }

    /// Returns the progress of each pull that a pod makes or waits for, with its image.
    pub fn of_pod(world: &World, pod: &PodView, now: Nanos) -> Vec<(String, Self)> {
        let mut all: Vec<(String, Self)> = Vec::new();
        // An image can occur several times: in EnsureImageExists and in PullImage within it, and for two containers.
        for (image, since) in pod.timeline.spans.iter().filter_map(pulled) {
            if !all.iter().any(|(known, _)| *known == image)
                && let Some(p) = Self::of(world, &image, since, now)
            {
                all.push((image, p));
            }
        }
        all
    }

    fn by<'a>(
        before: impl Iterator<Item = (&'a Evidence, &'a PullSeen)>,
        newest: &PullSeen,
        o: &Evidence,
        now: Nanos,
    ) -> Self {
        let fetched = newest.fetched();
        let before: Vec<(Nanos, &PullSeen)> = before
            .take_while(|(_, p)| !p.ended)
            .map(|(b, p)| (b.stamp.at, p))
            .collect();
        let flow = Flow::of(newest, o, &before, now);
        // A pull that is not observed again has not changed: the last observation before the window holds its begin.
        let begin = now.plus(-WINDOW_NS);
        let older = before.iter().position(|(at, _)| *at <= begin);
        let first = older.map_or(before.last(), |n| before.get(n));
        // For a pull whose observation has just begun: the average since fetching of each layer began, which the
        // runtime reports.
        let average = |l: &LayerSeen| per_second(l.fetched, now.since(l.started));
        let averages = || {
            let fetching = newest.layers.iter().filter(|l| l.is_fetching());
            let all: Option<Vec<u64>> = fetching.map(average).collect();
            all.filter(|all| !all.is_empty())
                .map(|all| all.iter().sum())
        };
        let recent = || {
            let (at, p) = first?;
            let bytes = fetched.checked_sub(p.fetched())?;
            per_second(bytes, now.since((*at).max(begin)))
        };
        let rate = match flow.pace {
            _ if flow.stands_still => Some(0),
            None => None,
            Some(pace) if pace > FAST_NS => flow.rate(fetched, &before, pace, now),
            Some(_) => recent().or_else(averages),
        };
        // A layer that waited for its turn came faster than since it was opened.
        let later = |l: &LayerSeen| l.is_complete() && l.started.0 > 0;
        let in_turn = flow.is_average_known && !newest.layers.iter().any(later);
        let layer = |(i, l): (usize, &LayerSeen)| {
            let recent = first.filter(|_| flow.pace.is_some_and(|pace| pace <= FAST_NS));
            let recent = recent.and_then(|(at, p)| {
                let was = p.layers.get(i)?.fetched;
                let since = (*at).max(begin).max(l.started);
                per_second(l.fetched.checked_sub(was)?, now.since(since))
            });
            Layer {
                fetched: l.fetched.min(l.size),
                size: l.size,
                fate: if l.is_complete() {
                    Fate::Complete
                } else if !l.is_fetching()
                    || (l.fetched == 0 && (flow.some_come || !flow.stands_still))
                {
                    Fate::Waits
                } else if flow.stands_still {
                    // A layer may have been opened long before its turn.
                    Fate::Still(if l.fetched == 0 { flow.moved } else { l.moved })
                } else {
                    Fate::Comes(recent.or_else(|| average(l).filter(|_| in_turn)))
                },
            }
        };
        let layers: Vec<Layer> = newest.layers.iter().enumerate().map(layer).collect();
        let still = (1..).zip(&layers).filter_map(|(layer, l)| match l.fate {
            Fate::Still(since) => Some(Still {
                layer,
                fetched: l.fetched,
                size: l.size,
                since,
            }),
            _ => None,
        });
        Self {
            fetched,
            size: newest.size(),
            rate,
            still: still.min_by_key(|s| s.since),
            layers,
            evidence: o.clone(),
        }
    }

    /// Number of layers that are fetched.
    pub fn complete(&self) -> usize {
        let there = |l: &&Layer| l.fate == Fate::Complete;
        self.layers.iter().filter(there).count()
    }

    /// True when all layers are fetched, and only unpacking is left.
    pub fn is_complete(&self) -> bool {
        self.complete() == self.layers.len()
    }

    /// The layers that are being fetched, each with its number (`2 of 7`) and its progress in words.
    pub fn fetching(&self, now: Nanos) -> impl Iterator<Item = (&Layer, String, String)> {
        let all = self.each(now);
        all.filter(|(l, ..)| matches!(l.fate, Fate::Comes(_) | Fate::Still(_)))
    }

    /// All layers, each with its number (`2 of 7`) and its progress in words.
    pub fn each(&self, now: Nanos) -> impl Iterator<Item = (&Layer, String, String)> {
        (1..)
            .zip(&self.layers)
            .map(move |(n, l)| (l, format!("{n} of {}", self.layers.len()), l.text(now)))
    }

    /// Time until all is fetched at the present rate, ns; `None` when nothing comes.
    pub fn left_ns(&self) -> Option<i64> {
        left_ns(self.fetched, self.size, self.rate)
    }

    /// `412Mi of 980Mi, 12Mi/s, 47s left`
    pub fn brief(&self) -> String {
        if self.is_complete() {
            return format!("all {} fetched, unpacking", size(self.size));
        }
        came(self.fetched, self.size, self.rate)
    }

    /// As [`Self::brief`], with the number of complete layers.
    pub fn text(&self) -> String {
        let mut s = self.brief();
        if !self.is_complete() {
            s.push_str(&format!(
                "; {} of {} layers complete",
                self.complete(),
                self.layers.len()
            ));
        }
        s
    }
    /// As [`Self::text`], with the layer that stands still, where panes have room.
    pub fn whole(&self, now: Nanos) -> String {
        let mut s = self.text();
        if let Some(still) = self.still {
            s.push_str(&format!(
                "; layer {} has stood still for {} at {} of {}",
                still.layer,
                span(now.since(still.since)),
                size(still.fetched),
                size(still.size),
            ));
        }
        s
    }
}

/// Returns the image that a step in flight pulls or waits for, and since when.
fn pulled(step: &Span) -> Option<(String, Nanos)> {
    if step.stage != Stage::Image || step.outcome != Outcome::InFlight {
        return None;
    }
    let image = match step.step.as_str() {
        method::PULL_IMAGE => step.message.to_string(),
        "EnsureImageExists" => image_of(step.evidence.first()?)?,
        _ => return None,
    };
    Some((image, step.start.at))
}

impl Layer {
    /// `18Mi of 60Mi, 1.2Mi/s, 35s left`, `3.0Mi of 60Mi, nothing more for 20s`, `60Mi, not begun`, `60Mi, complete`
    pub fn text(&self, now: Nanos) -> String {
        match self.fate {
            Fate::Waits => format!("{}, not begun", size(self.size)),
            Fate::Comes(rate) => came(self.fetched, self.size, rate),
            Fate::Still(since) => format!(
                "{}, nothing more for {}",
                came(self.fetched, self.size, None),
                span(now.since(since))
            ),
            Fate::Complete => format!("{}, complete", size(self.size)),
        }
    }
}

/// `412Mi of 980Mi, 12Mi/s, 47s left`
fn came(fetched: u64, of: u64, rate: Option<u64>) -> String {
    let mut s = format!("{} of {}", size(fetched), size(of));
    if let Some(rate) = rate {
        s.push_str(&format!(", {}/s", size(rate)));
    }
    if let Some(left) = left_ns(fetched, of, rate) {
        s.push_str(&format!(", {} left", span(left)));
    }
    s
}

/// Time until all is fetched at a rate, ns; `None` when the rate is not known or 0.
fn left_ns(fetched: u64, of: u64, rate: Option<u64>) -> Option<i64> {
    let left = i128::from(of.saturating_sub(fetched));
    let rate = i128::from(rate.filter(|r| *r > 0)?);
    i64::try_from(left * i128::from(SECOND) / rate).ok()
}

/// Bytes a second; `None` when the time is shorter than [`SHORTEST_NS`].
fn per_second(bytes: u64, ns: i64) -> Option<u64> {
    let rate = i128::from(bytes) * i128::from(SECOND) / i128::from(ns.max(1));
    u64::try_from(rate).ok().filter(|_| ns >= SHORTEST_NS)
}

/// Returns how long nothing may come of a layer before its pull counts as standing still, ns: longer for a layer that
/// has come slowly so far.
fn patience(l: &LayerSeen) -> i64 {
    if l.fetched == 0 {
        return limits::PULL_FIRST_PIECE.ns;
    }
    pieces(l.fetched, l.moved.since(l.started), 3).max(limits::PULL_STILL.ns)
}

/// Returns how long `n` pieces take when `bytes` came in `took` ns; all of that time when nothing came.
fn pieces(bytes: u64, took: i64, n: i128) -> i64 {
    let took = i128::from(took.max(0));
    let all = n * took * i128::from(PIECE) / i128::from(bytes).max(1);
    i64::try_from(all).unwrap_or(i64::MAX)
}
