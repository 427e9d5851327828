//! The tour of `kflow demo --tour`: a start that succeeds and one that hangs, step by step. The text about a step
//! comes from the map; the panes show a recording, at the moment at which the step was observed.

use std::sync::Arc;
use std::time::Instant;

use super::backend::{Answer, Backend, Drive};
use super::layout::Slot;
use super::pane::PaneId;
use super::replay::Replay;
use super::shared::Shared;
use super::text::wrap;
use kflow_core::correlate::PodView;
use kflow_core::correlate::steps::steps;
use kflow_core::flow::map::{Map, Step, StepId};
use kflow_core::flow::runs::StepRuns;
use kflow_engine::Snapshot;
use kflow_engine::snapshot::Mode;
use kflow_model::{Evidence, Nanos};
use ratatui::layout::Rect;

/// A step where the tour stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Id of the step.
    pub step: &'static str,
    /// The stop is about the step's first observation that arrived after this moment.
    pub after: Nanos,
    /// When the step's observation arrived in the recording.
    pub at: Nanos,
}

/// A part of the tour: the start of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the recording.
    pub session: &'static str,
    /// The pod, as `namespace/name`.
    pub pod: &'static str,
    pub title: &'static str,
    /// Whether the pod hangs in the last step.
    pub hangs: bool,
    pub stops: &'static [Stop],
}

const fn stop(step: &'static str, at: i64) -> Stop {
    later(step, 0, at)
}

const fn later(step: &'static str, after: i64, at: i64) -> Stop {
    Stop {
        step,
        after: Nanos(after),
        at: Nanos(at),
    }
}

/// The parts of the tour. Their moments are those of the recordings; `tests/it/tui/tour.rs` compares them.
pub const PARTS: [Part; 2] = [
    Part {
        session: "S1-basics",
        pod: "s01/healthy",
        title: "a start that goes well",
        hangs: false,
        stops: &[
            stop("j04", 1_795_220_667_512_507_000),
            stop("k10", 1_795_220_667_522_647_000),
            stop("k12", 1_795_220_667_528_595_000),
            stop("b06", 1_795_220_667_531_727_000),
            stop("b10", 1_795_220_667_531_783_000),
            stop("c03", 1_795_220_667_531_824_000),
            stop("c06", 1_795_220_667_533_123_000),
            stop("c09", 1_795_220_667_533_256_000),
            stop("c19", 1_795_220_667_536_596_586),
            stop("c21", 1_795_220_667_542_416_861),
            stop("c22", 1_795_220_667_542_597_000),
            stop("g06", 1_795_220_667_546_403_000),
            stop("d01", 1_795_220_667_557_909_000),
            stop("d07", 1_795_220_667_663_395_000),
            stop("c25", 1_795_220_667_843_573_000),
            stop("e07", 1_795_220_667_843_660_000),
            stop("e10", 1_795_220_667_845_926_486),
            stop("f05", 1_795_220_667_982_255_241),
            stop("e12", 1_795_220_668_043_802_000),
            stop("e14", 1_795_220_668_043_968_000),
            stop("e15", 1_795_220_668_044_362_640),
            stop("e17", 1_795_220_668_046_343_722),
            stop("e18", 1_795_220_668_108_945_000),
            stop("e20", 1_795_220_668_117_786_206),
            stop("e22", 1_795_220_668_143_595_426),
            stop("l10", 1_795_220_668_227_370_202),
            stop("b12", 1_795_220_668_237_443_000),
            stop("f10", 1_795_220_670_227_446_357),
            stop("e23", 1_795_220_670_782_732_873),
            stop("g03", 1_795_220_670_934_337_683),
            later("b15", 1_795_220_670_934_337_683, 1_795_220_670_990_130_000),
            later("b16", 1_795_220_671_845_000_000, 1_795_220_671_846_089_000),
            later("g04", 1_795_220_672_702_000_000, 1_795_220_672_702_139_000),
            later("g06", 1_795_220_672_720_000_000, 1_795_220_672_727_057_000),
            later("g07", 1_795_220_672_728_000_000, 1_795_220_672_729_036_713),
        ],
    },
    Part {
        session: "S2-stuck-early",
        pod: "s03/cm-missing",
        title: "a start that hangs",
        hangs: true,
        stops: &[
            stop("j04", 1_795_220_866_291_059_000),
            stop("k10", 1_795_220_866_292_120_000),
            stop("b06", 1_795_220_866_296_226_000),
            stop("c03", 1_795_220_866_296_354_000),
            stop("c09", 1_795_220_866_298_419_000),
            stop("c22", 1_795_220_866_310_259_000),
            stop("d01", 1_795_220_866_363_216_000),
            stop("d07", 1_795_220_866_564_378_000),
            stop("d09", 1_795_220_866_566_300_000),
            stop("c22", 1_795_220_926_566_300_000),
        ],
    },
];

/// The panes that the tour shows.
pub const PANES: [PaneId; 3] = [PaneId::Flow, PaneId::Sequence, PaneId::Timeline];

/// Position in the tour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tour {
    part: usize,
    stop: usize,
    /// Whether the panes show the stop.
    arrived: bool,
}

impl Tour {
    /// Returns the tour at the same stop, which has to be shown again.
    #[must_use]
    pub const fn again(self) -> Self {
        Self {
            arrived: false,
            ..self
        }
    }
    /// Returns the current part and stop.
    pub fn here(&self) -> Option<(&'static Part, &'static Stop)> {
        let part = PARTS.get(self.part)?;
        Some((part, part.stops.get(self.stop)?))
    }
    /// Returns the numbers of the part and of the stop, such as `1/2` and `7/33`.
    pub fn place(&self) -> (String, String) {
        let stops = PARTS.get(self.part).map_or(0, |p| p.stops.len());
        (
            format!("{}/{}", self.part + 1, PARTS.len()),
            format!("{}/{stops}", self.stop + 1),
        )
    }
    /// Returns the current step of the map.
    pub fn step(&self) -> Option<(StepId, &'static Step)> {
        Map::active().step(self.here()?.1.step)
    }
    /// Returns true at the stop in which the pod hangs.
    pub fn is_stuck(&self) -> bool {
        (self.here()).is_some_and(|(p, _)| p.hangs && self.stop + 1 == p.stops.len())
    }
    /// Moves to the next or the previous stop; returns false at either end.
    pub fn go(&mut self, forward: bool) -> bool {
        let to = match (forward, self.stop.checked_sub(1)) {
            (true, _) if self.stop + 1 < PARTS.get(self.part).map_or(0, |p| p.stops.len()) => {
                Some((self.part, self.stop + 1))
            }
            (true, _) => Some((self.part + 1, 0)),
            (false, Some(before)) => Some((self.part, before)),
            (false, None) => (self.part.checked_sub(1))
                .and_then(|p| Some((p, PARTS.get(p)?.stops.len().checked_sub(1)?))),
        };
        let Some((part, stop)) = to.filter(|(p, _)| *p < PARTS.len()) else {
            return false;
        };
        (self.part, self.stop) = (part, stop);
        self.arrived = false;
        true
    }
    /// Returns the request that moves the replay to the stop.
    pub fn drive(&self) -> Option<Drive> {
        let (_, stop) = self.here()?;
        Some(Drive::Stop {
            part: self.part,
            at: stop.at,
        })
    }
    /// Selects what the stop is about in all panes, once, as soon as the replay has reached the stop.
    pub fn arrive(&mut self, snap: &Snapshot, shared: &mut Shared) {
        let Some((part, stop)) = self.here().filter(|_| !self.arrived) else {
            return;
        };
        let is_part = matches!(&snap.mode, Mode::Replay { name, .. } if name == part.session);
        let Some(pod) = snap
            .world
            .find(part.pod)
            .first()
            .filter(|_| is_part)
            .copied()
        else {
            return;
        };
        shared.seek_pod(pod.uid.clone());
        // The tree selects the step that the text is about at once, also while the replay plays up to it.
        let Some((id, _)) = self.step() else { return };
        shared.step = Some(id);
        if snap.now < stop.at {
            return;
        }
        self.arrived = true;
        if let Some(e) = self.shown(snap) {
            shared.cursor = Some(e.stamp.at);
            shared.evidence = Some(e);
        }
    }
    /// Returns the observation that the stop is about.
    pub fn shown(&self, snap: &Snapshot) -> Option<Evidence> {
        let (part, stop) = self.here()?;
        let pod = snap.world.find(part.pod).first().copied()?;
        let (id, _) = self.step()?;
        let lit = steps(Map::active(), &snap.world, pod);
        let l = lit.iter().find(|l| l.step == id)?;
        about(l, pod, stop)
    }
    /// Returns true while the replay plays up to the stop.
    pub const fn is_on_the_way(&self) -> bool {
        !self.arrived
    }
    /// Returns the rows that the text needs at this width: as many as the longest stop does, so that the panes do not
    /// change size.
    pub fn height(width: u16) -> u16 {
        let room = usize::from(width.saturating_sub(2));
        let stops = PARTS.iter().flat_map(|p| p.stops);
        let lines = stops
            .filter_map(|s| Map::active().step(s.step))
            .map(|(_, s)| {
                wrap(&s.does, room).len() + wrap(&format!("{HUNG}{}", s.hangs), room).len()
            });
        3 + lines.max().unwrap_or(0) as u16
    }
}

/// Precedes the sentence on the symptoms of a hanging step.
pub const HUNG: &str = "If it hung here: ";
/// Precedes the same sentence at the stop in which the pod hangs.
pub const HANGS: &str = "It hangs here: ";

/// Returns the observation of a step that arrived first, of those that arrived within the moments of a stop. Spans
/// arrive late, because they are sent when they have ended.
pub fn about(l: &StepRuns, pod: &PodView, stop: &Stop) -> Option<Evidence> {
    let map = Map::active();
    let first = l.evidence.iter().map(|(_, e)| e);
    let later = pod
        .evidence
        .iter()
        .filter(|e| stop.after > Nanos(0) && map.steps_of(e).contains(&l.step));
    let all = first.chain(later);
    let arrived = all.filter(|e| e.stamp.seen > stop.after && e.stamp.seen <= stop.at);
    arrived.min_by_key(|e| (e.stamp.seen, e.stamp.at)).cloned()
}

/// Returns the panes of the tour in the area above its text: all three if there is room, else the focused one.
pub fn slots(focus: PaneId, body: Rect) -> Vec<Slot> {
    let [flow, sequence, timeline] = PANES;
    if !PANES.contains(&focus) || body.width < 110 || body.height < 22 {
        return vec![Slot {
            pane: focus,
            area: body,
        }];
    }
    let left = (body.width * 2 / 5).max(60);
    let top = body.height / 2;
    let right =
        |y: u16, height: u16| Rect::new(body.x + left + 1, y, body.width - left - 1, height);
    vec![
        Slot {
            pane: flow,
            area: Rect {
                width: left,
                ..body
            },
        },
        Slot {
            pane: sequence,
            area: right(body.y, top),
        },
        Slot {
            pane: timeline,
            area: right(body.y + top, body.height - top),
        },
    ]
}

/// Longest time, in ns, for which the replay plays from one stop to the next.
const WAY: i64 = 1_200_000_000;

/// A backend that plays the recordings of the tour, one after the other, from stop to stop.
#[derive(Debug)]
pub struct Guide {
    here: (usize, Replay),
    away: Vec<(usize, Replay)>,
    /// The moment at which playing stops.
    until: Option<Nanos>,
}

impl Guide {
    /// Returns a guide over the recordings of [`PARTS`], in their order.
    pub fn new(first: Replay, others: impl IntoIterator<Item = Replay>) -> Self {
        Self {
            here: (0, first),
            away: (1..).zip(others).collect(),
            until: None,
        }
    }
    fn turn_to(&mut self, part: usize) {
        if let Some(other) = self.away.iter_mut().find(|(n, _)| *n == part) {
            self.here.1.player().set_playing(false);
            std::mem::swap(&mut self.here, other);
        }
    }
}

impl Backend for Guide {
    fn snapshot(&mut self, now: Instant) -> Arc<Snapshot> {
        let snap = self.here.1.snapshot(now);
        let player = self.here.1.player();
        let there =
            |at: &Nanos| player.report().is_some() && (player.cursor() >= *at || !player.playing());
        let Some(at) = self.until.filter(there) else {
            return snap;
        };
        player.set_playing(false);
        player.seek(at);
        self.until = None;
        self.here.1.snapshot(now)
    }
    fn drive(&mut self, request: Drive, now: Instant) -> Result<Answer, String> {
        let Drive::Stop { part, at } = request else {
            self.until = None;
            return self.here.1.drive(request, now);
        };
        // Who asks again for the stop that is on its way does not want to wait for it.
        let hurries = self.here.0 == part && self.until == Some(at);
        self.turn_to(part);
        let player = self.here.1.player();
        if hurries && player.report().is_some() {
            player.set_playing(false);
            player.seek(at);
            self.until = None;
            return Ok(Answer::Done(super::backend::Done::default()));
        }
        let way = at.since(player.cursor());
        // A recording that is still being read cannot be played; `snapshot` jumps to the stop when
        // the recording is complete.
        let plays = player.report().is_some() && way > 0;
        if plays {
            let permille = (way / (WAY / 1000)).saturating_add(1);
            player.set_speed(u32::try_from(permille).unwrap_or(u32::MAX));
        }
        player.set_playing(plays);
        self.until = Some(at);
        Ok(Answer::Done(super::backend::Done::default()))
    }
}
