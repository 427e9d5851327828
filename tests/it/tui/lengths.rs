//! A duration is the same wherever it is shown.

use std::path::Path;

use kflow_core::correlate::steps::steps;
use kflow_core::flow::map::Map;
use kflow_core::timeline::{Span, summary};
use kflow_model::units::duration;
use kflow_tui::offscreen::{frame, model, press};

use super::claims::{SCENES, shown};

#[test]
fn the_flow_shows_the_longest_run_of_a_step() {
    let map = Map::active();
    let mut compared = 0;
    for (scene, snap) in SCENES.iter() {
        for p in snap.world.pods().iter().filter(|p| !p.past).take(4) {
            let mut m = model((200, 200), "dark").expect("theme");
            frame(&mut m, snap);
            m.shared.pod = Some(p.uid.clone());
            press(&mut m, snap, "8");
            let text = shown(&mut m, snap);
            for l in steps(map, &snap.world, p) {
                let longest = l.runs.iter().filter_map(|r| r.duration(snap.now)).max();
                let (Some(longest), Some(step)) = (longest, map.get(l.step)) else {
                    continue;
                };
                let same = map
                    .steps()
                    .iter()
                    .filter(|s| s.function.contains(step.function.as_str()));
                let mut rows = text
                    .lines()
                    .filter(|r| r.split_whitespace().any(|w| w == step.function.as_str()));
                if same.count() != 1 {
                    continue;
                }
                if let (Some(row), None) = (rows.next(), rows.next()) {
                    compared += 1;
                    assert!(
                        row.contains(&duration(longest)),
                        "{scene} {}: {row}",
                        p.key()
                    );
                }
            }
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn a_length_of_time_is_written_the_same_in_every_pane_and_export() {
    // The calls of a session as exported text, and the same calls in the terminal.
    let mut compared = 0;
    for (scene, snap) in SCENES.iter() {
        let mut m = model((200, 60), "dark").expect("theme");
        frame(&mut m, snap);
        press(&mut m, snap, "3 f");
        let text = shown(&mut m, snap);
        let mut out = Vec::new();
        kflow_export::calls::text(
            &mut out,
            &snap.world,
            &kflow_export::calls::Filter::default(),
            snap.now,
            false,
            false,
        )
        .expect("text");
        let export = String::from_utf8(out).expect("UTF-8");
        for c in snap.world.calls().iter().filter(|c| c.end.is_some()) {
            let took = duration(c.duration(snap.now));
            let at = kflow_model::units::time_of_day(c.start, 1);
            let mut rows = export.lines().filter(|l| l.contains(&at)).peekable();
            if rows.peek().is_none() {
                continue;
            }
            // Two calls may begin in the same nanosecond.
            assert!(rows.any(|row| row.contains(&took)), "{scene}: {at} {took}");
            let short: String = at.chars().take(15).collect();
            if export.matches(&short).count() != 1 {
                continue;
            }
            let mut rows = text.lines().filter(|l| l.contains(&short)).peekable();
            if rows.peek().is_some() {
                compared += 1;
                assert!(
                    rows.any(|row| row.contains(&took)),
                    "{scene}: {at} {took}: {text}"
                );
            }
        }
    }
    assert!(compared > 50, "{compared}");
}

/// The bar of a folded stage is thin where the stage waited.
#[test]
fn a_folded_stage_is_solid_only_where_it_worked() {
    let mut compared = 0;
    for (scene, snap) in SCENES.iter() {
        for p in snap.world.pods().iter().filter(|p| !p.past) {
            let idle = |s: &&Span| {
                s.is_stage()
                    && summary::work_ns(&p.timeline, s, snap.now) * 10 < s.duration(snap.now)
            };
            if !p.timeline.spans.iter().any(|s| idle(&s)) {
                continue;
            }
            let mut m = model((200, 60), "mono").expect("theme");
            frame(&mut m, snap);
            m.shared.pod = Some(p.uid.clone());
            press(&mut m, snap, "2 O");
            let mut text = shown(&mut m, snap);
            if !text.contains('▸') {
                press(&mut m, snap, "O");
                text = shown(&mut m, snap);
            }
            for s in p.timeline.spans.iter().filter(idle) {
                let name = format!("▸ {} ", s.step);
                let Some(row) = text.lines().find(|l| l.contains(&name)) else {
                    continue;
                };
                let cells = |of: &[char]| row.chars().filter(|c| of.contains(c)).count();
                let (thin, solid) = (cells(&['▄']), cells(&['█', '▓']));
                // The bar lies inside the window, and is wide enough to distinguish work from waiting.
                let whole = |l: &str| {
                    let end = l
                        .chars()
                        .collect::<Vec<_>>()
                        .iter()
                        .rposition(|c| *c == '▄');
                    end.is_some_and(|at| at + 20 < l.chars().count())
                };
                if thin + solid < 20 || s.end.is_none() || !whole(row) {
                    continue;
                }
                compared += 1;
                assert!(solid * 2 < thin, "{scene} {}: {row}", p.key());
            }
        }
    }
    assert!(compared > 30, "{compared}");
}

/// No source file but `units.rs` writes a number beside a unit of time.
#[test]
fn no_other_place_writes_lengths_of_time() {
    let by_hand =
        regex::Regex::new(r#"\{[a-z_.:0-9]*\}( s| ms|ms|µs)\b[^|]*[",]"#).expect("pattern");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    let (mut files, mut found) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for f in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = f.path();
            let name = f.file_name().to_string_lossy().into_owned();
            if path.is_dir() && name == "benches" {
                // Benchmarks compare figures in one unit.
            } else if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && name != "units.rs"
                && name != "tests.rs"
            {
                files += 1;
                let text = std::fs::read_to_string(&path).expect("a file");
                let code = text.split("mod tests {").next().unwrap_or_default();
                for line in code.lines().filter(|l| by_hand.is_match(l)) {
                    found.push(format!("{}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    assert!(files > 200, "{files}");
    assert!(found.is_empty(), "{found:#?}");
}
