//! The tour of `kflow demo --tour`: its stops exist in the recordings, and each stop shows and says what it is about.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kflow_core::correlate::steps::steps;
use kflow_core::flow::map::Map;
use kflow_core::query::Moment;
use kflow_engine::Pipeline;
use kflow_engine::replay::Player;
use kflow_model::session::Reader;
use kflow_model::stamp::SECOND;
use kflow_model::{Evidence, Nanos};
use kflow_tui::backend::Backend as _;
use kflow_tui::model::{Effect, Model};
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::pane::PaneId;
use kflow_tui::replay::Replay;
use kflow_tui::svg;
use kflow_tui::tour::{Guide, PARTS, Part, Stop, about};

/// How long after its observation the stop at a stuck pod lies, in ns.
const LONG: i64 = 60 * SECOND;

fn path(part: &Part) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join(format!("fixtures/sessions/{}.kflow.zst", part.session))
}

#[test]
fn its_moments_are_those_at_which_the_steps_were_seen() {
    let mut wrong = Vec::new();
    for part in PARTS {
        let s = kflow_model::session::load(&path(&part)).expect("fixture");
        let mut whole = Pipeline::new();
        for o in &s.observations {
            whole.observe(Arc::clone(o));
        }
        whole.refresh();
        let all = whole.world();
        let lit = steps(Map::embedded(), all, all.find(part.pod)[0]);
        let mut last = None;
        let mut pipeline = Pipeline::new();
        let mut observations = s.observations.iter().peekable();
        let mut now = part.stops[0].at.plus(-SECOND);
        while let Some(o) = observations.next_if(|o| o.stamp.seen <= now) {
            pipeline.observe(Arc::clone(o));
        }
        for (n, stop) in part.stops.iter().enumerate() {
            let (id, _) = Map::embedded().step(stop.step).expect("a step");
            let first = lit.iter().find(|l| l.step == id).expect("it was seen");
            let pod = all.find(part.pod)[0];
            let open = Stop {
                at: Nanos(i64::MAX),
                ..*stop
            };
            let first = about(first, pod, &open).expect("an observation");
            if last
                .as_ref()
                .is_some_and(|l: &Evidence| l.stamp.seen >= first.stamp.seen)
            {
                let stuck = part.hangs && n + 1 == part.stops.len();
                assert!(
                    stuck,
                    "{} shows nothing newer than the stop before",
                    stop.step
                );
            }
            last = Some(Arc::clone(&first));
            // From the previous stop on, find the first moment at which the stop's observation has arrived, its pod is
            // known and its step is lit.
            loop {
                pipeline.refresh();
                let is_lit = |p: &kflow_core::correlate::world::Pod| {
                    let lit = steps(Map::embedded(), pipeline.world(), p);
                    let upto = Stop { at: now, ..*stop };
                    lit.iter()
                        .any(|l| l.step == id && about(l, p, &upto).is_some())
                };
                let arrived = first.stamp.seen <= now;
                if arrived && pipeline.world().find(part.pod).into_iter().any(is_lit) {
                    break;
                }
                let o = observations.next().expect("the step is lit");
                now = o.stamp.seen;
                pipeline.observe(Arc::clone(o));
                while let Some(o) = observations.next_if(|o| o.stamp.seen <= now) {
                    pipeline.observe(Arc::clone(o));
                }
            }
            let stuck = part.hangs && n + 1 == part.stops.len();
            let at = now.plus(if stuck { LONG } else { 0 });
            if at != stop.at {
                wrong.push(format!("stop(\"{}\", {}),", stop.step, at.0));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The tour, with a clock that the test advances.
struct Walk {
    guide: Guide,
    model: Model,
    now: Instant,
}

impl Walk {
    fn new(size: (u16, u16)) -> Self {
        let player = |part: &Part| {
            let begin = Moment::At(part.stops[0].at);
            let reader = Reader::open(&path(part)).expect("fixture");
            let mut r = Replay::new(Player::new(reader, part.session, begin, Arc::default()));
            while r.player().report().is_none() || !r.player().overview().whole {
                r.snapshot(kflow_model::clock::monotonic());
                std::thread::yield_now();
            }
            r
        };
        let [well, stuck] = &PARTS;
        let mut walk = Self {
            guide: Guide::new(player(well), [player(stuck)]),
            model: model(size, "dark").expect("theme"),
            now: kflow_model::clock::monotonic(),
        };
        let drive = walk.model.begin_tour().expect("a stop");
        walk.guide.drive(drive, walk.now).expect("driven");
        walk.wait();
        walk
    }
    /// Advances the clock until nothing moves any more; returns how long that took.
    fn wait(&mut self) -> Duration {
        let begin = self.now;
        loop {
            let snap = self.guide.snapshot(self.now);
            self.model.sync(&snap);
            if !playing(&snap) {
                return self.now - begin;
            }
            self.now += Duration::from_millis(50);
            assert!(
                self.now - begin < Duration::from_secs(9),
                "it does not arrive"
            );
        }
    }
    fn press(&mut self, keys: &str) -> Duration {
        self.press_only(keys);
        self.wait()
    }
    /// Presses keys and lets no time pass.
    fn press_only(&mut self, keys: &str) {
        let snap = self.guide.snapshot(self.now);
        for e in press(&mut self.model, &snap, keys) {
            if let Effect::Drive(d) = e {
                self.guide.drive(d, self.now).expect("driven");
            }
        }
        let snap = self.guide.snapshot(self.now);
        self.model.sync(&snap);
    }
    fn text(&mut self) -> String {
        let snap = self.guide.snapshot(self.now);
        svg::plain(&frame(&mut self.model, &snap))
    }
}

fn playing(snap: &kflow_engine::Snapshot) -> bool {
    matches!(
        snap.mode,
        kflow_engine::snapshot::Mode::Replay { playing: true, .. }
    )
}

#[test]
fn each_stop_says_what_its_step_does_and_shows_it() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut walk = Walk::new(size);
        for (p, part) in PARTS.iter().enumerate() {
            for (n, stop) in part.stops.iter().enumerate() {
                let (_, step) = Map::embedded().step(stop.step).expect("a step");
                let what = format!("{} of {} at {size:?}", stop.step, part.pod);
                let text = walk.text();
                let said = crate::one_line(&text);
                for wanted in [&step.does, &step.hangs, &step.label] {
                    assert!(said.contains(wanted.as_str()), "{what}: {wanted}\n{text}");
                }
                let place = format!("Tour {}/2: {}, {}/", p + 1, part.title, n + 1);
                assert!(text.contains(&place), "{what}\n{text}");
                let stuck = part.hangs && n + 1 == part.stops.len();
                assert_eq!(text.contains("It hangs here: "), stuck, "{what}\n{text}");
                let cause = "configmap not-there, which does not exist in namespace s03.";
                assert_eq!(said.contains(cause), stuck, "{what}\n{text}");
                let snap = walk.guide.snapshot(walk.now);
                assert_eq!(snap.now, stop.at, "{what}");
                let view = walk.model.shared.view(&snap).expect("the pod");
                assert_eq!(view.key(), part.pod, "{what}");
                // The selected row of the flow is the stop's step.
                let name = step.also.first().filter(|_| step.id == "a28");
                let name = name.unwrap_or(&step.function);
                let selected = text
                    .lines()
                    .find(|l| l.starts_with('▌'))
                    .unwrap_or_default();
                let visible: String = name.chars().take(8).collect();
                assert!(selected.contains(&visible), "{what}: {selected}\n{text}");
                // Moving to the next stop never takes long.
                let took = walk.press("space");
                assert!(took < Duration::from_secs(2), "{what}: {took:?}");
            }
        }
        assert!(walk.model.tour.is_none());
        assert!(walk.text().contains("that was the tour"));
    }
}

/// Two presses at once show one step and not two: the first begins to play up to it, the second goes there.
#[test]
fn who_is_in_a_hurry_sees_each_step_with_its_text() {
    let mut walk = Walk::new((120, 40));
    let stops = PARTS[0].stops;
    for stop in &stops[1..5] {
        let (_, step) = Map::embedded().step(stop.step).expect("a step");
        walk.press_only("space");
        let text = walk.text();
        assert!(
            crate::one_line(&text).contains(step.does.as_str()),
            "{text}"
        );
        assert!(text.contains("The panes play up to this step"), "{text}");
        walk.press_only("space");
        let text = walk.text();
        assert!(
            crate::one_line(&text).contains(step.does.as_str()),
            "{text}"
        );
        assert_eq!(walk.guide.snapshot(walk.now).now, stop.at);
        assert!(!text.contains("The panes play up"), "{text}");
    }
}

#[test]
fn the_start_that_goes_well_ends_with_a_pod_that_is_ready() {
    let part = &PARTS[0];
    let last = part.stops.last().expect("a stop");
    let s = kflow_model::session::load(&path(part)).expect("fixture");
    let mut pipeline = Pipeline::new();
    for o in s.observations.iter().filter(|o| o.stamp.seen <= last.at) {
        pipeline.observe(Arc::clone(o));
    }
    pipeline.refresh();
    let pod = pipeline.world().find(part.pod)[0];
    assert_eq!(pod.ready, (2, 2));
}

#[test]
fn a_text_without_room_ends_as_one_that_is_cut() {
    let mut walk = Walk::new((80, 12));
    for stop in &PARTS[0].stops[..6] {
        let (_, step) = Map::embedded().step(stop.step).expect("a step");
        let text = walk.text();
        let said = crate::one_line(&text);
        assert!(
            said.contains(step.hangs.as_str()) || said.contains(" …"),
            "{text}"
        );
        walk.press("space");
    }
}

#[test]
fn its_panes_move_together_and_escape_leaves_it_where_it_is() {
    let mut walk = Walk::new((200, 60));
    let e10 = PARTS[0]
        .stops
        .iter()
        .position(|s| s.step == "e10")
        .expect("a stop");
    for _ in 0..e10 {
        walk.press("space");
    }
    let text = walk.text();
    for pane in [
        "─ Flow s01/healthy",
        "─ Sequence s01/healthy",
        "─ Timeline s01/healthy",
    ] {
        assert!(text.contains(pane), "{pane}: {text}");
    }
    // Each pane has selected the call.
    let selected = |text: &str| text.matches("▌").count();
    assert!(selected(&text) >= 3, "{text}");
    let sequence: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("▶") && l.contains("▌"))
        .collect();
    assert!(
        sequence.iter().any(|l| l.contains("RunPodSandbox")),
        "{sequence:?}\n{text}"
    );
    insta::assert_snapshot!("tour-200x60", text);
    walk.model.resize((80, 24), &walk.guide.snapshot(walk.now));
    insta::assert_snapshot!("tour-80x24", walk.text());
    walk.model.resize((60, 20), &walk.guide.snapshot(walk.now));
    let narrow = walk.text();
    for wanted in ["Tour 1/2, 17/35", "space on", ", back", "esc leave"] {
        assert!(narrow.contains(wanted), "{wanted}: {narrow}");
    }
    walk.model.resize((80, 24), &walk.guide.snapshot(walk.now));
    // Back, and on again with the keys for steps.
    walk.press(",");
    assert!(walk.text().contains("e07  step 4: sandbox start"));
    walk.press(".");
    assert!(walk.text().contains("e10  RunPodSandbox"));
    walk.press("tab");
    assert_eq!(walk.model.focus, PaneId::Sequence);
    walk.press("v");
    assert!(walk.text().contains("a layout of its own"));
    let at = walk.guide.snapshot(walk.now).now;
    walk.press("esc");
    assert!(walk.model.tour.is_none());
    assert_eq!(walk.guide.snapshot(walk.now).now, at);
    let text = walk.text();
    assert!(
        !text.contains("Tour ") && text.contains("here you are on your own"),
        "{text}"
    );
    // What plays now plays at normal speed.
    assert!(text.contains("1×"), "{text}");
    // The way back leads to where the tour was left.
    walk.press(": tour enter");
    assert!(walk.text().contains("e10  RunPodSandbox"));
    walk.press("?");
    assert!(
        walk.text()
            .contains("leave the tour; :tour goes back to it")
    );
    walk.press("esc");
    // From the last stop of the second part.
    let mut walk = Walk::new((120, 40));
    walk.press(",");
    assert!(walk.text().contains("this is where the tour begins"));
    let all: usize = PARTS.iter().map(|p| p.stops.len()).sum();
    for _ in 1..all {
        walk.press("space");
    }
    insta::assert_snapshot!("tour-hangs-120x40", walk.text());
}
