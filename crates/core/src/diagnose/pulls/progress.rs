//! How far a pull is, by what the runtime has fetched of each layer.

use super::image_of;
use crate::correlate::World;
use crate::diagnose::limits;
use crate::diagnose::text::span;
use crate::flow::Stage;
use crate::timeline::{Outcome, Span};
use kflow_model::cri::method;
use kflow_model::pull::{LayerSeen, PullSeen};
use kflow_model::stamp::SECOND;
use kflow_model::units::size;
use kflow_model::{Evidence, Nanos};

/// Time over which a rate is taken, ns.
const WINDOW_NS: i64 = 10 * SECOND;
/// The shortest time over which a rate is said, ns: pieces of 1 MiB make shorter ones jump.
const SHORTEST_NS: i64 = SECOND;
/// containerd writes what it fetches in pieces of so many bytes (`content/helpers.go`, bufPool and copyWithBuffer of 1.6, and
/// `core/content/helpers.go` of 2.x): between two of them nothing seems to move.
const PIECE: i128 = 1 << 20;
/// A pull is observed every 5 s at least while it lasts: one that was not for this long may be over, ns.
const FRESH_NS: i64 = 15 * SECOND;

/// How far a pull is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Bytes that were fetched.
    pub fetched: u64,
    /// Bytes of all layers, as the registry keeps them.
    pub size: u64,
    /// How many layers there are.
    pub layers: usize,
    /// How many of them are there.
    pub complete: usize,
    /// Bytes a second over the last ten seconds; `None` while that is not known.
    pub rate: Option<u64>,
    /// The layer of which nothing came for longest, where that is too long.
    pub still: Option<Still>,
    /// What shows it.
    pub evidence: Evidence,
}

/// A layer of which nothing comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Still {
    /// Which, from 1, the image's base first.
    pub layer: usize,
    /// Bytes that were fetched of it.
    pub fetched: u64,
    /// Its size, bytes.
    pub size: u64,
    /// When something of it was written last, or when fetching began.
    pub since: Nanos,
}

impl Progress {
    /// How far the pull of an image is that began at `since` and has not ended; `None` when the runtime does not show it, or
    /// shows more than one that it may be.
    pub fn of(world: &World, image: &str, since: Nanos, now: Nanos) -> Option<Self> {
        let pulls = world.image_pulls();
        let mut found = pulls.newest().filter(|(o, newest)| {
            let going = if newest.ended {
                // What is left of the pull is to unpack what was fetched.
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

    /// How far the pull is that a step of a timeline makes or waits for.
    pub fn of_step(world: &World, step: &Span, now: Nanos) -> Option<Self> {
        if step.stage != Stage::Image || step.outcome != Outcome::InFlight {
            return None;
        }
        let image = match step.step.as_str() {
            method::PULL_IMAGE => step.message.to_string(),
            "EnsureImageExists" => image_of(step.evidence.first()?)?,
            _ => return None,
        };
        Self::of(world, &image, step.start.at, now)
    }

    fn by<'a>(
        before: impl Iterator<Item = (&'a Evidence, &'a PullSeen)>,
        newest: &PullSeen,
        o: &Evidence,
        now: Nanos,
    ) -> Self {
        let fetched = newest.fetched();
        // What is not observed again has not changed: the last observation before the window says what was so at its begin.
        let begin = now.plus(-WINDOW_NS);
        let mut inside = true;
        let before = before.take_while(|(b, p)| {
            let take = inside && !p.ended;
            inside = b.stamp.at > begin;
            take
        });
        let rate = before.last().and_then(|(b, p)| {
            let ns = now.since(b.stamp.at.max(begin));
            let bytes = fetched.checked_sub(p.fetched())?;
            let rate = i128::from(bytes) * i128::from(SECOND) / i128::from(ns.max(1));
            u64::try_from(rate).ok().filter(|_| ns >= SHORTEST_NS)
        });
        let layers = (1..).zip(&newest.layers);
        let still = layers
            .filter(|(_, l)| l.is_fetching() && now.since(l.moved) >= patience(l))
            .min_by_key(|(_, l)| l.moved)
            .map(|(layer, l)| Still {
                layer,
                fetched: l.fetched,
                size: l.size,
                since: l.moved,
            });
        Self {
            fetched,
            size: newest.size(),
            layers: newest.layers.len(),
            complete: newest.layers.iter().filter(|l| l.is_complete()).count(),
            rate,
            still,
            evidence: o.clone(),
        }
    }

    /// All layers are there: what is left is to unpack them.
    pub const fn is_complete(&self) -> bool {
        self.complete == self.layers
    }

    /// Time until all is fetched at this rate, ns.
    pub fn left_ns(&self) -> Option<i64> {
        let left = i128::from(self.size.saturating_sub(self.fetched));
        let rate = i128::from(self.rate.filter(|r| *r > 0)?);
        i64::try_from(left * i128::from(SECOND) / rate).ok()
    }

    /// `412Mi of 980Mi, 12Mi/s, 47s left`
    pub fn brief(&self) -> String {
        if self.is_complete() {
            return format!("all {} fetched, unpacking", size(self.size));
        }
        let mut s = format!("{} of {}", size(self.fetched), size(self.size));
        if let Some(rate) = self.rate {
            s.push_str(&format!(", {}/s", size(rate)));
        }
        if let Some(left) = self.left_ns() {
            s.push_str(&format!(", {} left", span(left)));
        }
        s
    }

    /// The same with the layers.
    pub fn text(&self) -> String {
        let mut s = self.brief();
        if !self.is_complete() {
            s.push_str(&format!(
                "; {} of {} layers complete",
                self.complete, self.layers
            ));
        }
        s
    }
    /// The same with the layer that stands still, where panes have room.
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

/// How long nothing may come of a layer that comes as slowly as this one has so far, ns.
fn patience(l: &LayerSeen) -> i64 {
    if l.fetched == 0 {
        return limits::PULL_FIRST_PIECE.ns;
    }
    let took = i128::from(l.moved.since(l.started).max(0));
    let piece = took * PIECE / i128::from(l.fetched);
    let pieces = i64::try_from(3 * piece).unwrap_or(i64::MAX);
    pieces.max(limits::PULL_STILL.ns)
}
