//! Lists of pods, calls and log lines: order, groups, folding and filters.

use std::collections::BTreeSet;

use kflow_model::units::duration;
use kflow_tui::action::Command;
use kflow_tui::describe;
use kflow_tui::offscreen::{frame, model, press};

use super::panes::{open, shown};
use super::session;

#[test]
fn pods_are_sorted_by_every_column_and_grouped_in_every_way() {
    let (mut m, snap, _) = open("S2-stuck-early", 450, "s10/rc", "1");
    m.resize((160, 120), &snap);
    let mut orders = BTreeSet::new();
    for column in [
        "trouble",
        "name",
        "namespace",
        "age",
        "status",
        "restarts",
        "in",
        "ready",
        "node",
        "why",
    ] {
        let c = Command::parse(&format!("sort {column}")).expect("sort");
        m.run(&c, &snap);
        let up = shown(&mut m, &snap);
        press(&mut m, &snap, "r");
        assert_ne!(up, shown(&mut m, &snap), "{column} backwards");
        press(&mut m, &snap, "r");
        orders.insert(up);
    }
    assert!(orders.len() >= 8, "{} different orders", orders.len());
    for (group, head) in [
        ("namespace", "s36"),
        ("node", "not scheduled"),
        ("owner", "without owner"),
        ("cause", "KF601 Image does not exist"),
    ] {
        let c = Command::parse(&format!("group {group}")).expect("group");
        m.run(&c, &snap);
        let text = shown(&mut m, &snap);
        assert!(
            text.contains(head) && text.contains(&format!("by {group}")),
            "{text}"
        );
    }
}

#[test]
fn pods_are_grouped_by_the_cause_that_theirs_follows_from() {
    // The second pod's pull waits for that of the first.
    let (mut m, snap, _) = open("S6-slowpull", 300, "s24a/slow", "1");
    m.resize((160, 40), &snap);
    let causes: Vec<&str> = snap.verdicts.values().map(|v| v.cause_id()).collect();
    assert!(causes.contains(&"KF609") && causes.contains(&"KF610"));
    m.run(&Command::parse("group cause").expect("group"), &snap);
    let text = shown(&mut m, &snap);
    let line = |part: &str| text.lines().position(|l| l.contains(part));
    let (Some(root), Some(behind)) = (line("▾ KF609 Image pull"), line("queued")) else {
        panic!("{text}");
    };
    assert!(root < behind && line("▾ KF610").is_none(), "{text}");
}

#[test]
fn repeats_of_a_line_are_one_row_of_the_log_that_can_be_unfolded() {
    let (mut m, snap, text) = open("S2-stuck-early", 600, "s03/cm-missing", "4");
    let pod = m.shared.view(&snap).expect("it is there").clone();
    // The kubelet logs ten times a second that it begins to mount; another line in between begins a new row.
    assert!(text.contains("×584 every 100ms"), "{text}");
    let seen = pod
        .evidence
        .iter()
        .filter(|e| e.source != kflow_model::Source::Metrics)
        .count();
    let told = kflow_tui::text::count(seen);
    assert!(
        text.contains(&told) && text.contains(" rows"),
        "{told}: {text}"
    );
    press(&mut m, &snap, "o");
    let text = shown(&mut m, &snap);
    assert!(
        !text.contains("every 100ms") && !text.contains(" rows"),
        "{text}"
    );
    press(&mut m, &snap, "o");
    // A jump from another pane finds its line among folded repeats: here the first line of the row with the most.
    let repeated = |e: &&kflow_model::Evidence| {
        describe::line(e)
            .0
            .starts_with("Starting operationExecutor.MountVolume")
    };
    let first = pod.evidence.iter().find(repeated).expect("a repeated line");
    m.shared.evidence = Some(first.clone());
    let text = shown(&mut m, &snap);
    let row = text
        .lines()
        .find(|l| l.starts_with('▌'))
        .expect("a selected row");
    assert!(
        row.contains("Starting operationExecutor.MountVolume"),
        "{text}"
    );
}

#[test]
fn calls_are_sorted_by_every_column_both_ways() {
    let snap = session("S1-basics", 900);
    let mut m = model((200, 60), "dark").expect("theme");
    frame(&mut m, &snap);
    press(&mut m, &snap, "3");
    let mut seen = BTreeSet::new();
    for sort in ["time", "start", "method", "pod", "code", "size"] {
        for reverse in [false, true] {
            press(&mut m, &snap, &format!(": calls-sort space {sort} enter"));
            if reverse {
                press(&mut m, &snap, "r");
            }
            let text = shown(&mut m, &snap);
            let rows: Vec<&str> = text.lines().skip(4).take(40).collect();
            assert!(seen.insert(rows.join("\n")), "{sort} {reverse}: {text}");
            assert!(
                sort == "start" || text.contains(&format!("by {sort}")),
                "{text}"
            );
        }
    }
    // Durations fall from the longest, whichever chunk a call is stored in.
    press(&mut m, &snap, ": calls-sort space time enter");
    let text = shown(&mut m, &snap);
    let mut all: Vec<i64> = (snap.world.calls().iter())
        .filter(|c| !c.is_noise() || c.is_error() || c.end.is_none())
        .map(|c| c.duration(snap.now))
        .collect();
    all.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let first: Vec<String> = all.iter().take(5).map(|ns| duration(*ns)).collect();
    let rows: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("00:2"))
        .skip(1)
        .collect();
    for (row, length) in rows.iter().zip(&first) {
        assert!(row.contains(length.as_str()), "{length}: {text}");
    }
}

#[test]
fn a_fuzzy_filter_selects_what_fits_best() {
    let (mut m, snap, _) = open("S2-stuck-early", 450, "s10/rc", "1");
    press(&mut m, &snap, "/ imgnever enter");
    let text = shown(&mut m, &snap);
    let selected = text.lines().find(|l| l.starts_with('▌'));
    assert!(
        selected.is_some_and(|l| l.contains("image-never")),
        "{text}"
    );
    // The pod stays selected when everything is shown again.
    press(&mut m, &snap, "esc");
    let text = shown(&mut m, &snap);
    let selected = text.lines().find(|l| l.starts_with('▌'));
    assert!(
        selected.is_some_and(|l| l.contains("image-never")),
        "{text}"
    );
}
