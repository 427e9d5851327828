//! The tour of `kflow demo --tour`: a start that goes well and one that hangs, step by step. What it says of a step is the
//! map's; what it shows is a recording, at the moment in which the step was seen.

use std::sync::Arc;
use std::time::Instant;

use super::backend::{Answer, Backend, Drive};
use super::layout::Slot;
use super::pane::PaneId;
use super::replay::Replay;
use super::shared::Shared;
use super::text::wrap;
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
    /// When its observation had arrived, in the recording.
    pub at: Nanos,
}

/// The start of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the recording.
    pub session: &'static str,
    /// `ns/name`.
    pub pod: &'static str,
    pub title: &'static str,
    /// At its last step it stands still.
    pub hangs: bool,
    pub stops: &'static [Stop],
}

const fn stop(step: &'static str, at: i64) -> Stop {
    Stop {
        step,
        at: Nanos(at),
    }
}

/// Moments are those of the recordings: `tests/it/tui/tour.rs` compares them.
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
            stop("g04", 1_795_220_670_934_337_683),
            stop("b15", 1_795_220_670_934_337_683),
            stop("g07", 1_795_220_670_963_680_000),
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

/// The panes that move together.
pub const PANES: [PaneId; 3] = [PaneId::Flow, PaneId::Sequence, PaneId::Timeline];

/// Where the tour is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tour {
    part: usize,
    stop: usize,
    /// The panes show the stop.
    arrived: bool,
}

impl Tour {
    /// The part and the stop, both with their numbers.
    pub fn here(&self) -> Option<(&'static Part, &'static Stop)> {
        let part = PARTS.get(self.part)?;
        Some((part, part.stops.get(self.stop)?))
    }
    /// `1/2`, `7/33`.
    pub fn place(&self) -> (String, String) {
        let stops = PARTS.get(self.part).map_or(0, |p| p.stops.len());
        (
            format!("{}/{}", self.part + 1, PARTS.len()),
            format!("{}/{stops}", self.stop + 1),
        )
    }
    /// The step of the map, with its number.
    pub fn step(&self) -> Option<(StepId, &'static Step)> {
        Map::active().step(self.here()?.1.step)
    }
    /// It stands where the pod stands still.
    pub fn is_stuck(&self) -> bool {
        (self.here()).is_some_and(|(p, _)| p.hangs && self.stop + 1 == p.stops.len())
    }
    /// On or back by one stop; false at either end.
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
    /// What brings the picture to the stop.
    pub fn drive(&self) -> Option<Drive> {
        let (_, stop) = self.here()?;
        Some(Drive::Stop {
            part: self.part,
            at: stop.at,
        })
    }
    /// Has the panes select what the stop is about, once, as soon as it is there.
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
        if snap.now < stop.at {
            return;
        }
        self.arrived = true;
        let Some((id, _)) = self.step() else { return };
        shared.step = Some(id);
        if let Some(e) = self.shown(snap) {
            shared.cursor = Some(e.stamp.at);
            shared.evidence = Some(e);
        }
    }
    /// The observation that the stop is about.
    pub fn shown(&self, snap: &Snapshot) -> Option<Evidence> {
        let (part, stop) = self.here()?;
        let pod = snap.world.find(part.pod).first().copied()?;
        let (id, _) = self.step()?;
        let lit = steps(Map::active(), &snap.world, pod);
        let l = lit.iter().find(|l| l.step == id)?;
        about(l, stop.at)
    }
    /// Lines of what is said at a stop, at this width: as many at each, so that nothing moves.
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

/// What is said before the sentence on how a step hangs.
pub const HUNG: &str = "If it hung here: ";
/// The same where it does.
pub const HANGS: &str = "It hangs here: ";

/// The observation of a step that arrived first, of those that had by then. Spans come late: they are sent when they are over.
pub fn about(l: &StepRuns, at: Nanos) -> Option<Evidence> {
    let all = l.evidence.iter().map(|(_, e)| e);
    let arrived = all.filter(|e| e.stamp.seen <= at);
    arrived.min_by_key(|e| (e.stamp.seen, e.stamp.at)).cloned()
}

/// The panes of the tour in what is left above its lines: all three where there is room.
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

/// How long the way from one stop to the next is played at most, ns.
const WAY: i64 = 1_200_000_000;

/// Plays the recordings of the tour, one after the other, from stop to stop.
#[derive(Debug)]
pub struct Guide {
    here: (usize, Replay),
    away: Vec<(usize, Replay)>,
    /// The moment that it plays to.
    until: Option<Nanos>,
}

impl Guide {
    /// The recordings of [`PARTS`], in their order.
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
        self.turn_to(part);
        let player = self.here.1.player();
        let way = at.since(player.cursor());
        // What is not read yet cannot be played: it is gone to as soon as it is.
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
