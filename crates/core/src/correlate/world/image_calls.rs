//! Calls about images that name no pod, filed by the [order](crate::correlate::image_calls) of the calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::World;
use super::pods::Slot;
use crate::correlate::Call;
use crate::correlate::image_calls::{Kind, Ordered, WINDOW_NS, pods_by_order};
use kflow_model::cri::{CONFIG_SEEN, CallKey, CallStart, Service};
use kflow_model::gap::Gap;
use kflow_model::{Body, Evidence, Nanos, PodUid, Source, Text};

/// Calls of the order that are kept at most, beside those of the last minutes that a refresh needs.
const MOST: usize = 4096;
/// Calls of the order that arrive at most before pods are looked for.
const UNSETTLED: usize = 16_384;

/// A call of the order.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: Nanos,
    key: CallKey,
    /// The pod that the order gave it.
    given: Option<Slot>,
}

/// The newest calls that sandboxes, images and containers are made by, and when calls were lost.
#[derive(Clone, Debug, Default)]
pub(super) struct ImageCalls {
    /// By start and key.
    places: Arc<Vec<Place>>,
    losses: Arc<BTreeSet<(Nanos, Nanos)>>,
    changed: bool,
}

impl ImageCalls {
    /// Takes a call that was filed.
    pub(super) fn observe_call(&mut self, start: Nanos, c: &CallStart) {
        if c.service == Service::Unknown {
            // It may be any, also one of these.
            Arc::make_mut(&mut self.losses).insert((start, start));
            self.changed = true;
        }
        if Kind::of(&c.method).is_none() {
            return;
        }
        let place = Place {
            start,
            key: c.key,
            given: None,
        };
        let at = self
            .places
            .partition_point(|p| (p.start, p.key) < (start, c.key));
        Arc::make_mut(&mut self.places).insert(at, place);
        self.changed = true;
    }
    pub(super) fn observe_gap(&mut self, gap: &Gap, at: Nanos) {
        if gap.is_loss() && gap.of == Source::Cri {
            Arc::make_mut(&mut self.losses).insert((gap.since.min(at), at));
            self.changed = true;
        }
    }
    fn find(&self, start: Nanos, key: CallKey) -> Option<usize> {
        let by = |p: &Place| (p.start, p.key).cmp(&(start, key));
        self.places.binary_search_by(by).ok()
    }
    /// Takes note that a call ended, or that its pod became known.
    pub(super) fn touch(&mut self, start: Nanos, key: CallKey) {
        self.changed = self.changed || self.find(start, key).is_some();
    }
    /// Forgets the pod that the order gave a call, and returns it.
    fn take(&mut self, start: Nanos, key: CallKey) -> Option<Slot> {
        let i = self.find(start, key)?;
        self.places.get(i)?.given?;
        Arc::make_mut(&mut self.places).get_mut(i)?.given.take()
    }
    pub(super) fn are_many(&self) -> bool {
        self.places.len() > UNSETTLED
    }
}

/// True when nothing in the request leads to its pod, so that order or trace does.
pub(super) fn names_no_pod(c: &CallStart) -> bool {
    let s = &c.subject;
    s.pod.uid.is_empty()
        && s.container_id.is_empty()
        && s.sandbox_id.is_empty()
        && c.fields.value(CONFIG_SEEN).is_none()
}

fn ordered(call: &Call, pod: Option<Slot>) -> Option<Ordered<'_>> {
    let Body::CallStart(start) = &call.started.body else {
        return None;
    };
    let answer = |key: &str| match &call.ended.as_ref()?.body {
        Body::CallEnd(e) => e.fields.value(key),
        _ => None,
    };
    let kind = Kind::of(&call.method)?;
    let missing = kind == Kind::Look && answer("present") == Some("false");
    Some(Ordered {
        key: call.key,
        start: call.start,
        end: call.end,
        in_vain: call.is_error() || missing,
        kind,
        pod,
        names_pod: !names_no_pod(start),
        image: call.image.as_str(),
        id: answer("id").unwrap_or_default(),
    })
}

impl World {
    /// Gives calls that name no pod to the pods that made them by the order of the calls, and takes back what newer
    /// evidence contradicts.
    pub(super) fn settle_image_calls(&mut self) {
        if !std::mem::take(&mut self.image_calls.changed) {
            return;
        }
        let places = Arc::clone(&self.image_calls.places);
        let known: Vec<(Place, Ordered<'_>)> = places
            .iter()
            .filter_map(|p| {
                let call = self.calls.get(p.start, p.key)?;
                let told = self.by_call.get(p.key)?.slot.filter(|_| p.given.is_none());
                Some((*p, ordered(call, told.map(|slot| self.merged(slot)))?))
            })
            .collect();
        if known.iter().all(|(_, s)| s.names_pod || s.pod.is_some()) {
            self.forget_image_calls();
            return;
        }
        let (places, calls): (Vec<Place>, Vec<Ordered<'_>>) = known.into_iter().unzip();
        let losses: Vec<(Nanos, Nanos)> = self.image_calls.losses.iter().copied().collect();
        let found = pods_by_order(&calls, &losses);
        let changes: Vec<(Place, Option<Slot>)> = (places.into_iter().zip(found))
            .filter(|(place, found)| place.given.map(|slot| self.merged(slot)) != *found)
            .collect();
        for (place, found) in changes {
            if let Some(old) = self.image_calls.take(place.start, place.key) {
                self.take_back(old, place.start, place.key);
            }
            if let Some(slot) = found {
                self.give(slot, place.start, place.key);
            }
        }
        self.forget_image_calls();
    }
    /// Drops the calls that are too old to stand beside a new one.
    fn forget_image_calls(&mut self) {
        let Some(newest) = self.image_calls.places.last().map(|p| p.start) else {
            return;
        };
        let from = newest.plus(-2 * WINDOW_NS);
        let many = self.image_calls.places.len().saturating_sub(MOST);
        let is_old = |(i, p): (usize, &Place)| {
            let call = self.calls.get(p.start, p.key);
            i < many || call.is_none_or(|c| c.end.is_some_and(|end| end < from))
        };
        let old: Vec<bool> = (self.image_calls.places.iter().enumerate())
            .map(is_old)
            .collect();
        if old.contains(&true) {
            let mut old = old.into_iter();
            Arc::make_mut(&mut self.image_calls.places).retain(|_| old.next() != Some(true));
        }
        if self
            .image_calls
            .losses
            .first()
            .is_some_and(|(_, at)| *at < from)
        {
            Arc::make_mut(&mut self.image_calls.losses).retain(|(_, at)| *at >= from);
        }
    }
    fn give(&mut self, slot: Slot, start: Nanos, key: CallKey) {
        let Some(call) = self.calls.get(start, key).cloned() else {
            return;
        };
        if let Some(i) = self.image_calls.find(start, key)
            && let Some(place) = Arc::make_mut(&mut self.image_calls.places).get_mut(i)
        {
            place.given = Some(slot);
        }
        self.put_call(slot, key, &call.started);
        if let Some(ended) = &call.ended {
            self.put(slot, ended);
        }
    }
    /// Removes a call from the pod that the order gave it to.
    fn take_back(&mut self, slot: Slot, start: Nanos, key: CallKey) {
        let slot = self.merged(slot);
        if let Some(at) = self.by_call.get_mut(key) {
            at.slot = None;
        }
        self.calls.change(start, key, |call| {
            call.pod_uid = PodUid::default();
            (call.namespace, call.pod) = (Text::default(), Text::default());
            call.pod_inferred = false;
        });
        let of_call = |o: &&Evidence| match &o.body {
            Body::CallStart(c) => c.key == key,
            Body::CallEnd(c) => c.key == key,
            _ => false,
        };
        if let Some(f) = self.files.get_mut(slot).map(Arc::make_mut) {
            f.evidence = (f.evidence.iter().filter(|o| !of_call(o)).cloned()).collect();
            f.unnamed.retain(|k| *k != key);
        }
        self.mark(slot);
    }
    /// Before a call is filed under the pod that an id or a trace tells.
    pub(super) fn prefer_told(&mut self, told: Slot, key: CallKey) {
        let Some(start) = self.by_call.get(key).map(|at| at.start) else {
            return;
        };
        if let Some(given) = self.image_calls.take(start, key)
            && self.merged(given) != self.merged(told)
        {
            self.take_back(given, start, key);
        }
        self.image_calls.touch(start, key);
    }
}
