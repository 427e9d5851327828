//! The list of pods can be read while it changes.

use std::collections::BTreeMap;

use kflow_engine::snapshot::Snapshot;
use kflow_tui::action::Command;
use kflow_tui::offscreen::{frame, model, press};

use super::panes::shown;
use super::{renamed, session};

#[test]
fn the_columns_of_the_list_do_not_come_and_go_with_what_its_pods_do() {
    let mut compared = 0;
    for name in ["S2-stuck-early", "S3-crashes", "S4-runtime"] {
        let snaps: Vec<Snapshot> = (1..=20).map(|n| session(name, n * 50)).collect();
        for size in [
            (80, 24),
            (90, 30),
            (100, 30),
            (110, 40),
            (120, 40),
            (200, 60),
        ] {
            let mut m = model(size, "dark").expect("theme");
            let single = Command::parse("layout single").expect("layout");
            m.run(&single, &snaps[0]);
            press(&mut m, &snaps[0], "1");
            // The longest name decides, too; it changes only as pods come and go.
            let mut heads: BTreeMap<usize, Vec<Vec<String>>> = BTreeMap::new();
            for snap in &snaps {
                let text = shown(&mut m, snap);
                let Some(head) = text.lines().find(|l| l.contains(" STATUS ")) else {
                    continue;
                };
                let words = head.replace("NAMESPACE", "NS");
                let words = words.split_whitespace().map(str::to_owned).collect();
                let names = snap.world.pods().iter().filter(|p| !p.past);
                let longest = names.map(|p| p.name.len().max(16)).max();
                heads.entry(longest.unwrap_or(0)).or_default().push(words);
                compared += 1;
            }
            for (longest, mut heads) in heads {
                heads.dedup();
                // Once, when a status is long for the first time.
                assert!(heads.len() <= 2, "{name} {size:?}, {longest}: {heads:?}");
                let fewer = heads.windows(2).all(|w| w[1].len() < w[0].len());
                assert!(fewer, "{name} {size:?}, {longest}: {heads:?}");
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn a_name_is_whole_wherever_the_row_has_room() {
    let long = "payment-processor-5b5d599d9-bnsrq";
    let snap = renamed("S2-stuck-early", 450, "image-missing", long);
    for (size, layout) in [
        ((100, 30), "single"),
        ((120, 40), "single"),
        ((200, 60), "single"),
        ((200, 60), "split"),
        ((200, 60), "dashboard"),
    ] {
        let mut m = model(size, "dark").expect("theme");
        let layout = Command::parse(&format!("layout {layout}")).expect("layout");
        m.run(&layout, &snap);
        press(&mut m, &snap, "1");
        let text = shown(&mut m, &snap);
        assert!(text.contains(&format!(" {long} ")), "{size:?}: {text}");
    }
}
