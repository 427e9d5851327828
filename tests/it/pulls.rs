//! A pull's progress at moments of a recording of a real pull (`fixtures/causes/real/stall.kflow.zst`).

use std::path::Path;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::pulls::Progress;
use kflow_core::diagnose::{self, cause};
use kflow_engine::Pipeline;
use kflow_engine::snapshot::Mode;
use kflow_export::{calls, timeline};
use kflow_model::session;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos};
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::svg;

const IMAGE: &str = "127.0.0.1:37923/slow/app:1";

fn observations() -> Vec<Evidence> {
    let path = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/causes/real/stall.kflow.zst"
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

fn said(world: &World, now: Nanos) -> Option<String> {
    Some(Progress::of(world, IMAGE, Nanos(0), now)?.whole(now))
}

#[test]
fn a_pull_is_told_layer_by_layer_until_it_ends() {
    let all = observations();
    let begin = all.iter().find(|o| matches!(o.body, Body::Pull(_)));
    let begin = begin.expect("the pull was seen").stamp.at;
    let at = |seconds: i64| {
        let now = begin.plus(seconds * SECOND);
        said(&world(&all, now), now)
    };
    // One observation alone gives no rate.
    assert_eq!(
        at(0).as_deref(),
        Some("3.0Mi of 17Mi; 0 of 3 layers complete")
    );
    let seconds: Vec<String> = (1..22)
        .map(|s| format!("{s:>2}s  {}", at(s).unwrap_or_default()))
        .collect();
    insta::assert_snapshot!(seconds.join("\n"));
    // All is fetched and being unpacked; a later pull of the image would be another pull.
    let end = all.last().expect("it is not empty").stamp.seen;
    let whole = world(&all, end);
    assert_eq!(
        said(&whole, end).as_deref(),
        Some("all 17Mi fetched, unpacking")
    );
    assert!(Progress::of(&whole, IMAGE, end.plus(1), end.plus(2)).is_none());
    // An image of the same name in another registry is another image.
    assert!(Progress::of(&whole, "slow/app:1", Nanos(0), end).is_none());
}

#[test]
fn the_verdict_says_which_layer_stands_still_and_who_has_to_act() {
    let all = observations();
    let end = all.last().expect("it is not empty").stamp.seen;
    // Just before the registry resumed.
    let now = end.plus(-SECOND / 4);
    let world = world(&all, now);
    let pod = world.pods().first().expect("its sandbox was made");
    let verdict = diagnose::why(&world, pod, now).expect("it is not well");
    assert_eq!(verdict.cause, Some(cause::KF614));
    insta::assert_snapshot!(verdict.sentence);
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    let all = observations();
    let end = all.last().expect("it is not empty").stamp.seen;
    let now = end.plus(-SECOND);
    let told = said(&world(&all, now), now);
    assert!(told.is_some());
    assert_eq!(said(&world(all.iter().rev(), now), now), told);
    let twice: Vec<&Evidence> = all.iter().skip(7).chain(&all).collect();
    assert_eq!(said(&world(twice, now), now), told);
}

#[test]
fn a_source_that_fell_silent_does_not_make_a_pull_stand_still() {
    let all = observations();
    let pull = |o: &&Evidence| matches!(o.body, Body::Pull(_));
    let third = all
        .iter()
        .filter(pull)
        .nth(2)
        .expect("there are more")
        .stamp
        .at;
    let world = world(&all, third);
    assert!(said(&world, third.plus(10 * SECOND)).is_some());
    assert_eq!(said(&world, third.plus(60 * SECOND)), None);
}

#[test]
fn each_layer_is_told_in_every_pane_and_in_text() {
    let all = observations();
    let begin = all.iter().find(|o| matches!(o.body, Body::Pull(_)));
    let now = begin.expect("the pull was seen").stamp.at.plus(3 * SECOND);
    let mut pipeline = Pipeline::new();
    for o in all.iter().filter(|o| o.stamp.seen <= now) {
        pipeline.observe(Arc::clone(o));
    }
    let snap = pipeline.snapshot(now, Mode::paused("stall"), (now, now), Vec::new());
    let layers = [
        "1 of 3  4.0Mi of 5.7Mi, 1.0Mi/s",
        "2 of 3  2.0Mi of 5.7Mi, 341Ki/s",
        "3 of 3  4.0Mi of 5.7Mi, 1.0Mi/s",
    ];
    let told = |place: &str, text: &str| {
        // A pane of facts puts the layer's number into a column.
        let text = text.replace(" of 3          ", " of 3  ");
        for layer in layers {
            assert!(text.contains(layer), "{place}: {layer}: {text}");
        }
    };
    for (pane, keys) in [
        ("timeline", "2 d"),
        ("calls", "3 d"),
        ("why", "5"),
        ("node", "6"),
    ] {
        let mut m = model((200, 60), "dark").expect("theme");
        frame(&mut m, &snap);
        select(&mut m, &snap, "real/puller");
        press(&mut m, &snap, keys);
        told(pane, &svg::plain(&frame(&mut m, &snap)));
    }
    let mut out = Vec::new();
    let pods = snap.world.pods().to_vec();
    timeline::text(&mut out, &snap.world, &pods, now, false).expect("memory takes it");
    told("text", &String::from_utf8_lossy(&out));
    let mut out = Vec::new();
    let all = calls::Filter::default();
    calls::text(&mut out, &snap.world, &all, now, false, false).expect("memory takes it");
    let out = String::from_utf8_lossy(&out);
    let whole = "10Mi of 17Mi, 2.3Mi/s, 3s left; 0 of 3 layers complete";
    assert!(out.contains(whole), "{out}");
}

/// A first snapshot, as `kflow why` takes it on a node that nobody watched before: the runtime says since when it
/// fetches each layer.
#[test]
fn one_look_knows_the_rate_since_each_layer_began() {
    let all = observations();
    let pulls = all.iter().filter(|o| matches!(o.body, Body::Pull(_)));
    let sixth = pulls.skip(6).take(1);
    let now = sixth.clone().next().expect("there are more").stamp.at;
    let told = said(&world(sixth, now), now).expect("it is known");
    assert!(told.contains("/s, ") && told.contains(" left; "), "{told}");
}
