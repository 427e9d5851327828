//! The list of pods can be read while it changes.

use std::collections::BTreeMap;

use kflow_engine::Pipeline;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Source};
use kflow_tui::action::Command;
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::pane::{Pane, PaneId};

use super::panes::shown;
use super::{churn, renamed, session};

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

fn live(core: &mut Pipeline, seconds: i64) -> Snapshot {
    let now = churn::BEGIN.plus(seconds * 1_000_000_000);
    let mode = Mode::Live {
        scope: "".into(),
        following: true,
        recording: "".into(),
    };
    core.snapshot(now, mode, (churn::BEGIN, now), Vec::new())
}

#[test]
fn the_row_that_is_read_stays_where_it_is_when_the_order_changes() {
    let mut core = Pipeline::new();
    let tell = |core: &mut Pipeline, n: usize, event, ms| {
        let mut p = churn::pod(n, &format!("app-{n:02}"), true);
        p.event = event;
        p.resource_version = ms as u64;
        core.observe(churn::observation(ms, Source::Kube, Body::Pod(Box::new(p))));
    };
    for n in 0..60 {
        tell(&mut core, n, WatchEvent::Modified, 1 + n as i64);
    }
    let mut m = model((80, 24), "dark").expect("theme");
    let snap = live(&mut core, 2000);
    frame(&mut m, &snap);
    press(
        &mut m,
        &snap,
        "1 j j j j j j j j j j j j j j j j j j j j j j j j",
    );
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|l| l.contains(" app-"));
        // Below the list stands the selected pod.
        let names = rows.filter_map(|l| l.split_whitespace().find(|w| w.starts_with("app-")));
        names.map(str::to_owned).collect()
    };
    let cursor = |text: &str| text.lines().position(|l| l.starts_with('▌'));
    let before = shown(&mut m, &snap);
    let above = |m: &kflow_tui::model::Model| m.pane(PaneId::Pods).and_then(Pane::hidden);
    let (up, _) = above(&m).expect("a list");
    assert!(up > 4 && rows(&before).len() > 10, "{before}");
    // These are before the selected one, by namespace.
    for n in [0, 1, 10, 11] {
        tell(&mut core, n, WatchEvent::Deleted, 2_000_500);
    }
    // A second after the key, every row is where it was.
    let text = shown(&mut m, &live(&mut core, 2001));
    assert_eq!(rows(&text), rows(&before), "{text}");
    // Later those that are gone are last, and the cursor's row is the same, in the same place.
    let text = shown(&mut m, &live(&mut core, 2010));
    assert_eq!(above(&m).expect("a list").0, up - 4, "{text}");
    assert_eq!(cursor(&text), cursor(&before), "{text}");
    let of = |text: &str| {
        text.lines()
            .nth(cursor(text).expect("a cursor"))
            .map(str::to_owned)
    };
    let name = |text: &str| of(text).and_then(|l| l.split_whitespace().nth(2).map(str::to_owned));
    assert_eq!(name(&text), name(&before));
    let snap = live(&mut core, 2011);
    press(&mut m, &snap, "G");
    let text = shown(&mut m, &snap);
    assert_eq!(text.matches(" Gone ").count(), 4, "{text}");
}
