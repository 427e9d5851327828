//! What the Node pane says about recorded nodes.

use kflow_tui::model::Model;
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::pane::PaneId;

use super::panes::{open, shown};

#[test]
fn the_node_shows_its_conditions_loops_sources_and_pulls() {
    let (_, _, text) = open("S2-stuck-early", 450, "", "6");
    for wanted in [
        "Ready=True",
        "runtime relist",
        "sync (1 s)",
        "IMAGE PULLS  0 in progress, ",
        "queued",
        "s02/image-missing",
        "SYNC LOOP",
        "POD WORKERS",
        "PLEG",
        "GARBAGE, EVICTION",
        "eviction check",
        "lease",
        "RUNTIME OPERATIONS",
        "memory 23G",
        "SOURCE",
        "TROUBLE OF THE NODE",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn the_node_begins_with_what_is_wrong_and_enter_shows_why() {
    let mut seen = false;
    for permille in [400, 450, 500, 550, 600] {
        let (mut m, snap, text) = open("S4-runtime", permille, "", "6");
        let mut verdicts = snap.owner_verdicts.iter();
        let Some(v) = verdicts.find(|v| v.owner.as_ref().is_some_and(|o| o.kind == "Node")) else {
            continue;
        };
        seen = true;
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(at(v.cause_id()) < at("Ready="), "{text}");
        press(&mut m, &snap, "enter");
        let why = shown(&mut m, &snap);
        assert!(why.contains("EVIDENCE") && why.contains(&*v.title), "{why}");
    }
    assert!(
        seen,
        "the runtime of S4 stands still at one of these moments"
    );
}

/// Goes down from the top of a column to the row with this text, and returns the screen.
fn down_to(m: &mut Model, snap: &kflow_engine::Snapshot, column: &str, wanted: &str) -> String {
    press(m, snap, "home");
    press(m, snap, column);
    press(m, snap, "home");
    for _ in 0..200 {
        let text = shown(m, snap);
        if text.contains(&format!("▌{wanted}")) {
            return text;
        }
        press(m, snap, "j");
    }
    panic!("no row {wanted}: {}", shown(m, snap));
}

#[test]
fn every_row_of_the_node_leads_further() {
    for (session, permille) in [
        ("S4-runtime", 500),
        ("S6-slowpull", 300),
        ("S8-node", 750),
        ("S14-verbosity2", 500),
    ] {
        for column in ["left", "right"] {
            let (mut m, snap, _) = open(session, permille, "", "6");
            m.resize((200, 60), &snap);
            press(&mut m, &snap, column);
            press(&mut m, &snap, "home");
            let mut seen = Vec::new();
            loop {
                let text = shown(&mut m, &snap);
                let row = text.lines().find_map(|l| l.split_once('▌'));
                let row = row.expect("a selected row").1.to_owned();
                press(&mut m, &snap, "enter");
                let there = shown(&mut m, &snap);
                let folds = row.contains("KUBELET START-UP");
                assert!(
                    folds || m.focus != PaneId::Node,
                    "{session}: {row}: {there}"
                );
                for empty in ["No call", "No observation", "nothing here leads"] {
                    assert!(!there.contains(empty), "{session}: {row}: {there}");
                }
                press(&mut m, &snap, "6");
                let back = shown(&mut m, &snap);
                assert!(
                    back.contains(&format!("▌{}", row.chars().take(12).collect::<String>()))
                        || folds,
                    "{session}: {row}: {back}"
                );
                seen.push(row);
                let before = shown(&mut m, &snap);
                press(&mut m, &snap, "j");
                if shown(&mut m, &snap) == before {
                    break;
                }
            }
            assert!(seen.len() > 8, "{session} {column}: {seen:?}");
        }
    }
}

#[test]
fn conditions_of_a_node_have_a_past() {
    let (_, _, text) = open("S4-runtime", 750, "", "6");
    let lane = text.lines().find(|l| l.contains("not as it should be"));
    let lane = lane.expect("Ready was False");
    assert!(
        lane.trim_start().starts_with("Ready") && lane.contains('█') && lane.contains('▄'),
        "{lane}"
    );
    let (_, _, text) = open("S1-basics", 750, "", "6");
    assert!(!text.contains("not as it should be"), "{text}");
}

#[test]
fn pulls_are_lanes_with_their_queue() {
    let (mut m, snap, _) = open("S6-slowpull", 300, "", "6");
    m.resize((200, 60), &snap);
    let text = shown(&mut m, &snap);
    let lane = |what: &str| {
        let line = text
            .lines()
            .find(|l| l.contains(what) && l.contains("s24a/"));
        line.unwrap_or_else(|| panic!("{what}: {text}")).to_owned()
    };
    assert!(lane("pulling").contains("████"));
    let queued = lane("queued");
    assert!(
        queued.contains("▒▒") && queued.contains("behind s24a/slow"),
        "{queued}"
    );
    down_to(&mut m, &snap, "right", "  queued");
    press(&mut m, &snap, "enter");
    let why = shown(&mut m, &snap);
    assert!(why.contains("waits for s24a/slow PullImage"), "{why}");
    down_to(&mut m, &snap, "left", "waits for s24a/slow PullImage");
    press(&mut m, &snap, "enter");
    let pod = m.shared.view(&snap).map(|p| p.key());
    assert_eq!(pod.as_deref(), Some("s24a/slow"));
    press(&mut m, &snap, "esc");
    let pod = m.shared.view(&snap).map(|p| p.key());
    assert_eq!(pod.as_deref(), Some("s24a/queued"));
}

#[test]
fn the_kubelets_own_start_is_a_waterfall() {
    let (mut m, snap, _) = open("S7-restart-json", 900, "", "6");
    m.resize((200, 80), &snap);
    let text = down_to(&mut m, &snap, "right", "▸ KUBELET START-UP");
    assert!(!text.contains("NewContainerManager"), "folded: {text}");
    press(&mut m, &snap, "enter");
    let text = shown(&mut m, &snap);
    for wanted in [
        "KUBELET START-UP  the newest of 2 starts",
        "NewContainerManager",
        "ApplyOOMScoreAdj",
        "initializeRuntimeDependentModules",
        "syncLoop",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let slow = text.lines().find(|l| l.contains("ApplyOOMScoreAdj"));
    assert!(
        slow.is_some_and(|l| l.contains("201ms") && l.contains("▄▄")),
        "the step that takes longest has the longest bar: {text}"
    );
}

/// Names of pods that a controller made differ in their ends only, so a long one is cut in its middle.
#[test]
fn a_pull_of_a_pod_with_a_long_name_shows_the_ends_of_the_name() {
    let name = format!("image-missing-{}-x7k2p", "long".repeat(20));
    let snap = super::renamed("S2-stuck-early", 450, "image-missing", &name);
    for size in [(80, 24), (200, 60)] {
        let mut m = model(size, "dark").expect("theme");
        frame(&mut m, &snap);
        press(&mut m, &snap, "6");
        let text = shown(&mut m, &snap);
        let row = text.lines().find(|l| l.contains("s02/image-missing"));
        assert!(row.is_some_and(|r| r.contains("x7k2p c")), "{text}");
    }
}

#[test]
fn calls_and_requests_of_pods_with_long_names_show_the_ends_of_the_names() {
    let name = format!("burst-{}", "long".repeat(10));
    let snap = super::renamed("S5-burst", 600, "burst-69c5447696", &name);
    let mut m = model((80, 24), "dark").expect("theme");
    frame(&mut m, &snap);
    for (keys, word) in [("6", "StopContainer"), ("9 p a", "pods/status")] {
        press(&mut m, &snap, keys);
        let text = shown(&mut m, &snap);
        let rows: Vec<&str> = text.lines().filter(|l| l.contains(word)).collect();
        assert!(rows.len() > 2, "{text}");
        for row in rows {
            let row = row.trim_end_matches(['┃', '│', ' ']);
            assert!(row.contains('…') && !row.ends_with('…'), "{row}: {text}");
        }
    }
}
