//! What users come for, by keys alone, from the start of `kflow replay`: each takes at most a given number of keys.

use std::path::Path;
use std::sync::Arc;

use kflow_core::query::Moment;
use kflow_engine::replay::Player;
use kflow_tui::backend::Backend;
use kflow_tui::offscreen::played::Played;
use kflow_tui::offscreen::{keys, model};
use kflow_tui::pane::PaneId;
use kflow_tui::replay::Replay;
use kflow_tui::svg;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

/// Starts `kflow replay` of a session of the fixtures.
fn replay(session: &str, size: (u16, u16)) -> Played<Replay> {
    let file = format!("fixtures/sessions/{session}.kflow.zst");
    opened(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), size)
}

/// Starts `kflow replay` as the program does: where the first lists have been read, with the list of incidents in front. Returns once
/// all incidents are found.
pub(super) fn opened(path: &Path, size: (u16, u16)) -> Played<Replay> {
    let player = Player::open(path, Moment::Begin, Arc::default()).expect("session");
    let mut backend = Replay::new(player.once_listed());
    let now = kflow_model::clock::monotonic();
    while !backend.player().overview().whole {
        backend.snapshot(now);
        std::thread::yield_now();
    }
    let mut model = model(size, "dark").expect("theme");
    model.begin(PaneId::Incidents);
    let mut p = Played {
        model,
        backend,
        now,
    };
    p.frame();
    p
}

/// Returns the screen after these keys, and asserts that they are no more than `at_most`.
fn after(
    session: &str,
    size: (u16, u16),
    at_most: usize,
    pressed: &str,
) -> (Played<Replay>, String) {
    let n = keys(pressed).len();
    assert!(n <= at_most, "{n} keys");
    let mut p = replay(session, size);
    p.press(pressed);
    let text = svg::plain(&p.frame());
    (p, text)
}

fn selected(p: &mut Played<Replay>) -> String {
    let snap = p.snapshot();
    let view = p.model.shared.view(&snap);
    view.map(|v| v.key()).unwrap_or_default()
}

#[test]
fn which_pods_and_owners_were_stuck_and_the_worst_of_them() {
    for size in SIZES {
        let (_, text) = after("S2-stuck-early", size, 4, "");
        assert!(text.contains("Incidents 20"), "{text}");
        // The owner that cannot create pods is among the incidents.
        let (_, text) = after("S2-stuck-early", size, 4, "o j j enter");
        assert!(text.contains("Incidents 20 · by worst"), "{text}");
        assert!(text.contains("s29/deployment/quota"), "{text}");
    }
}

#[test]
fn incidents_are_found_by_words_of_their_subject_cause_or_sentence() {
    let mut p = replay("S2-stuck-early", SIZES[0]);
    let mut rows = |pressed: &str| {
        p.press(pressed);
        svg::plain(&p.frame())
    };
    let text = rows("/ quota enter");
    assert!(text.contains("Incidents 1 of 20"), "{text}");
    assert!(text.contains("s29/deployment/quota"), "{text}");
    // What is left out comes back.
    let text = rows("ctrl-x");
    assert!(text.contains("Incidents 20"), "{text}");
    let text = rows("/ kf101 space quo enter");
    assert!(text.contains("Incidents 1 of 20"), "{text}");
    rows("ctrl-x");
    let text = rows("/ nowhere enter");
    assert!(text.contains("No incident matches the filter."), "{text}");
}

#[test]
fn the_slowest_call_and_what_it_waited_for() {
    for size in SIZES {
        let (mut p, text) = after("S5-burst", size, 6, "end 3 o enter d");
        let snap = p.snapshot();
        let calls = || snap.world.calls().iter().filter(|c| !c.is_noise());
        let longest = calls().max_by_key(|c| c.duration(snap.now)).expect("calls");
        let row = text
            .lines()
            .find(|l| l.starts_with('▌'))
            .unwrap_or_default();
        // A small screen shows the detail without the list.
        assert!(
            size.0 < 110 || row.contains(longest.method.as_str()),
            "{text}"
        );
        let took = kflow_model::units::duration(longest.duration(snap.now));
        assert!(text.contains(&took), "{took}: {text}");
        let meanwhile = text.lines().find(|l| l.contains("meanwhile"));
        assert!(
            meanwhile.is_some_and(|l| l.contains("RunPodSandbox")),
            "{text}"
        );
    }
}

#[test]
fn which_pull_blocks_which() {
    for size in SIZES {
        let (mut p, text) = after("S6-slowpull", size, 5, "j enter");
        assert_eq!(selected(&mut p), "s24a/queued", "{text}");
        let (mut p, text) = after("S6-slowpull", size, 5, "j enter W");
        assert_eq!(selected(&mut p), "s24a/slow", "{text}");
        assert!(
            text.contains("s24a/slow PullImage"),
            "it says of what: {text}"
        );
    }
}

#[test]
fn two_starts_beside_each_other() {
    for size in SIZES {
        let (_, text) = after("S5-burst", size, 8, "end M j j M");
        for part in ["B - A", "whole", "sandbox", "B is "] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn what_happened_to_the_node() {
    for size in SIZES {
        let (_, text) = after("S4-runtime", size, 4, "");
        let rows = text.lines().filter(|l| l.contains("node/node1"));
        let runtime = rows.filter(|r| r.contains("KF302"));
        let about = runtime.filter(|r| r.contains("Container runtime")).count();
        assert!(about >= 2, "{text}");
    }
}

#[test]
fn the_longest_wait_of_a_start_in_words() {
    for size in SIZES {
        let (mut p, text) = after("S6-slowpull", size, 4, "j enter 2 p");
        assert_eq!(selected(&mut p), "s24a/queued");
        let row = text
            .lines()
            .find(|l| l.starts_with('▌'))
            .expect("a selected row");
        assert!(row.contains("queue of pulls"), "{text}");
        assert!(text.contains("waits for s24a/slow PullImage"), "{text}");
    }
}

#[test]
fn the_request_that_created_a_pod_and_its_admission() {
    for size in SIZES {
        let (mut p, text) = after("S2-stuck-early", size, 4, "j enter 9 a");
        let name = selected(&mut p);
        assert!(!name.is_empty(), "{text}");
        let row = text
            .lines()
            .find(|l| l.starts_with('▌'))
            .expect("a selected row");
        assert!(row.contains("create"), "{text}");
        let object: String = name.chars().take(12).collect();
        assert!(row.contains(&object), "{name}: {text}");
        let admission = text.lines().find(|l| l.contains("admission "));
        let told = admission.is_some_and(|l| l.contains("no webhook was called"));
        assert!(told, "{text}");
    }
}

/// A recording without an observation is read at once, and says what is not known of it.
#[test]
fn an_empty_recording_is_not_being_read_for_ever() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("empty.kflow");
    std::fs::write(&path, "{\"kflow\":1,\"created\":1795220700000000000}\n").expect("session");
    let mut p = opened(&path, (80, 24));
    let text = svg::plain(&p.frame());
    assert!(!text.contains("being read"), "{text}");
    assert!(text.contains("no list of pods"), "{text}");
    // No pane asks for a choice where there is nothing to choose.
    for key in ["2", "5", "7"] {
        p.press(key);
        let text = svg::plain(&p.frame());
        assert!(
            !text.contains("Choose one") && text.contains("is not known"),
            "{text}"
        );
    }
    p.press("6");
    let text = svg::plain(&p.frame());
    assert!(
        text.contains("No node has been seen.") && !text.contains("doctor"),
        "{text}"
    );
}
