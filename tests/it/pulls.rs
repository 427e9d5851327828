//! A pull's progress at moments of a recording of a real pull (`fixtures/causes/real/stall.kflow.zst`).

use std::path::Path;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::pulls::Progress;
use kflow_core::diagnose::{self, Verdict, cause};
use kflow_engine::Pipeline;
use kflow_engine::snapshot::Mode;
use kflow_export::{calls, timeline};
use kflow_model::session;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, Observation, Source};
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

/// The recordings of one slow pull, of a pod that waits for it, and of two pods that were deleted while their pulls lasted
/// (`fixtures/pulls`): which sources are kept of each.
const TOLD_BY: [(&str, &str, &[Source]); 6] = [
    ("all sources", "node", &[]),
    ("no CRI calls", "node", &[Source::Cri]),
    ("no containerd", "node", &[Source::Runtime]),
    (
        "the kubelet's log and the API",
        "node",
        &[Source::Cri, Source::Runtime, Source::Fs],
    ),
    ("the API", "cluster", &[]),
    ("the API, one namespace", "namespace", &[]),
];

/// The pods, each with the moments at which it is looked at: seconds after the begin of the pull.
const PODS: [(&str, &[i64]); 3] = [
    ("pull-a/slow", &[20, 62, 100]),
    ("pull-b/queued", &[20, 100]),
    ("pull-b/deleted", &[45]),
];

/// When the kubelet said that it pulls the large image.
const BEGIN: Nanos = Nanos(1_795_962_881_276_000_000);

fn told_by(file: &str, left_out: &[Source], now: Nanos, pod: &str) -> Option<Verdict> {
    let path = format!(
        "{}/fixtures/pulls/{file}.kflow.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let all = session::load(Path::new(&path)).expect("it is a session");
    let kept = all.observations.iter();
    let world = world(kept.filter(|o| !left_out.contains(&o.source)), now);
    let pods = world.pods().iter();
    let pod = pods.clone().find(|p| p.key() == pod)?;
    diagnose::why(&world, pod, now)
}

#[test]
fn what_a_pull_waits_for_is_told_as_far_as_it_is_known() {
    let mut text = String::new();
    for (sources, file, left_out) in TOLD_BY {
        for (pod, moments) in PODS {
            for seconds in moments {
                let now = BEGIN.plus(seconds * SECOND);
                let said = told_by(file, left_out, now, pod).map(|v| {
                    let id = v.cause.map(|id| id.to_string()).unwrap_or_default();
                    format!("{id} {}", v.sentence)
                });
                let said = said.unwrap_or_else(|| "-".to_owned());
                text.push_str(&format!("{sources}, {pod}, {seconds} s: {said}\n"));
            }
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_pull_is_said_to_run_only_where_the_runtime_shows_it() {
    for (sources, file, left_out) in TOLD_BY {
        for (pod, moments) in PODS {
            for seconds in moments {
                let now = BEGIN.plus(seconds * SECOND);
                let case = format!("{sources}, {pod}, {seconds} s");
                let Some(v) = told_by(file, left_out, now, pod) else {
                    // Another namespace was not asked for.
                    assert_eq!((file, pod), ("namespace", "pull-a/slow"));
                    continue;
                };
                let said = format!("{case}: {}", v.sentence);
                // With more sources never less is told.
                assert!(!v.state.is_well() && v.cause.is_some(), "{said}");
                let sees = |source| file == "node" && !left_out.contains(&source);
                let runs = [
                    "been running",
                    "being pulled",
                    "been pulled",
                    "in flight",
                    " comes at ",
                ];
                if !sees(Source::Cri) && !sees(Source::Runtime) {
                    assert!(!runs.iter().any(|r| v.sentence.contains(r)), "{said}");
                }
                // What may come first and was not asked for.
                let asks = v.sentence.contains("(-A asks for them)");
                assert_eq!(asks, file == "namespace", "{said}");
                // The others wait for the pull that was announced before, and the sentence names it.
                let first = match (file, pod) {
                    (_, "pull-a/slow") | ("namespace", "pull-b/deleted") => None,
                    ("namespace", _) => Some("pull-b/deleted"),
                    _ => Some("pull-a/slow"),
                };
                let behind = v
                    .behind
                    .as_ref()
                    .map(|o| format!("{}/{}", o.namespace, o.name));
                assert_eq!(behind.as_deref(), first, "{said}");
                assert!(
                    first.is_none_or(|first| v.sentence.contains(first)),
                    "{said}"
                );
                // The image comes all the time, and by what the runtime shows it is known how fast.
                assert!(
                    !v.sentence.contains("still:") && !v.sentence.contains("stood"),
                    "{said}"
                );
                let known = sees(Source::Runtime) && *seconds > 20;
                assert_eq!(v.sentence.contains(" left"), known, "{said}");
                for next in &v.next {
                    assert!(
                        !next.command.contains("restart"),
                        "{said}: {}",
                        next.command
                    );
                    let itself = next.command.contains(&format!("why {pod}"));
                    assert!(!itself, "{said}: {}", next.command);
                }
            }
        }
    }
}

/// As [`one_look_knows_the_rate_since_each_layer_began`], of layers that are opened before their turn comes.
#[test]
fn one_look_takes_no_layer_that_waited_for_a_slow_one() {
    let path = format!(
        "{}/fixtures/pulls/node.kflow.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let all = session::load(Path::new(&path)).expect("it is a session");
    let pulls = all.observations.iter();
    let pulls = pulls.filter(|o| matches!(o.body, Body::Pull(_)));
    let newest: Vec<&Evidence> = pulls.collect();
    let last = newest.last().expect("there are some");
    let now = last.stamp.at.plus(SECOND);
    let image = "127.0.0.1:5042/pull/model:2";
    let said = |all: &[&Evidence]| {
        let world = world(all.iter().copied(), now);
        let p = Progress::of(&world, image, BEGIN, now).expect("it is known");
        let each: Vec<String> = p.each(now).map(|(.., text)| text).collect();
        format!("{}\n{}", p.text(), each.join("\n"))
    };
    let watched = said(&newest);
    assert!(
        watched.contains("Ki/s, ") && watched.contains(" left"),
        "{watched}"
    );
    // As one who has just come sees it: nothing tells when the layers came that are complete.
    let mut seen = Observation::clone(last);
    let Body::Pull(p) = &mut seen.body else {
        unreachable!("it was looked for");
    };
    for l in p.layers.iter_mut().filter(|l| l.is_complete()) {
        (l.started, l.moved) = (Nanos(0), Nanos(0));
    }
    let once = said(&[&Arc::new(seen)]);
    assert!(
        once.contains("11Mi of 13Mi; 4 of 5 layers complete"),
        "{once}"
    );
    assert!(!once.contains("/s"), "{once}");
}
