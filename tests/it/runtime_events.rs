//! What kflow knows of a container from its runtime's events alone, at moments of a recording of a real containerd
//! (`fixtures/runtime/events.kflow.zst`, made by `tests/real/run.sh events`).

use std::path::Path;

use kflow_core::correlate::{PodView, World};
use kflow_core::diagnose::{self, cause};
use kflow_model::cri::{ContainerEventKind as Kind, OOM_KILLED};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, session};

fn observations() -> Vec<Evidence> {
    let path = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/runtime/events.kflow.zst"
    ));
    session::load(path).expect("it is a session").observations
}

fn world<'a>(all: impl IntoIterator<Item = &'a Evidence>, until: Nanos) -> World {
    let mut world = World::new();
    for o in all.into_iter().filter(|o| o.stamp.seen <= until) {
        world.observe(o);
    }
    world.refresh();
    world
}

/// Returns the first event of this kind with this exit code.
fn event(all: &[Evidence], kind: Kind, code: Option<i32>) -> &Evidence {
    let is = |o: &&Evidence| matches!(&o.body, Body::ContainerEvent(e) if e.kind == kind && e.exit_code == code);
    all.iter().find(is).expect("it is recorded")
}

fn pod<'w>(world: &'w World, name: &str) -> &'w PodView {
    let found = world.pods().iter().find(|p| p.name == name);
    found.expect("the pod is known")
}

#[test]
fn an_oom_kill_is_the_verdict_as_soon_as_the_runtime_tells_the_exit() {
    let all = observations();
    let oom = event(&all, Kind::Oom, None);
    let exit = event(&all, Kind::Stopped, Some(137));
    // Before the exit the OOM kill is a mark: the killed process need not be the container's main process.
    let before = world(&all, exit.stamp.seen.plus(-1));
    let marks = &pod(&before, "oom").timeline.marks;
    let mark = marks.iter().find(|m| m.text.starts_with("OOM kill"));
    assert_eq!(mark.map(|m| (m.at.at, m.bad)), Some((oom.stamp.at, true)));
    let after = world(&all, exit.stamp.seen);
    let killed = pod(&after, "oom");
    let run = killed.timeline.spans.iter().find(|s| s.is_run());
    let run = run.expect("it ran");
    assert_eq!(
        run.end.map(|e| (e.at, e.precision)),
        Some((exit.stamp.at, 1))
    );
    assert_eq!(
        (run.code.as_str(), run.message.as_str()),
        ("137", OOM_KILLED)
    );
    let now = exit.stamp.seen.plus(SECOND / 10);
    let verdict = diagnose::why(&after, killed, now).expect("it is not well");
    assert_eq!(verdict.cause, Some(cause::KF709), "{verdict:?}");
}

#[test]
fn an_exit_has_its_code_and_its_nanosecond_in_any_order() {
    let all = observations();
    let exit = event(&all, Kind::Stopped, Some(3));
    let until = all.last().expect("it is not empty").stamp.seen;
    let forth = world(&all, until);
    let back = world(all.iter().rev(), until);
    for world in [&forth, &back] {
        let view = pod(world, "exits-three");
        let run = view.timeline.spans.iter().find(|s| s.is_run());
        let run = run.expect("it ran");
        assert_eq!(run.code, "3");
        assert_eq!(run.end.map(|e| e.at), Some(exit.stamp.at));
    }
    let timeline = |w: &World| pod(w, "exits-three").timeline.clone();
    assert_eq!(timeline(&forth), timeline(&back));
}
