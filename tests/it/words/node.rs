//! What the Node pane says about calls and pulls, at a hundred moments.

use super::{MOMENTS, SESSIONS, session};
use kflow_engine::Pipeline;
use kflow_engine::snapshot::Mode;
use kflow_tui::offscreen::{frame, model};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;

/// Returns the number before a word, as in `1 in progress`; 0 without one.
fn before(line: &str, word: &str) -> usize {
    line.split_once(word)
        .and_then(|(head, _)| head.split_whitespace().next_back()?.parse().ok())
        .unwrap_or(0)
}

#[test]
fn only_pulls_are_queued_and_a_pull_in_progress_is_an_operation_in_flight() {
    let mut waited = 0;
    for name in SESSIONS {
        let observations = session(name);
        let times = || observations.iter().map(|o| o.stamp.seen);
        let (from, to) = (times().min().expect("some"), times().max().expect("some"));
        let mut rest = observations.iter().peekable();
        let mut pipeline = Pipeline::new();
        for i in 1..=MOMENTS {
            let now = from.plus(to.since(from) / MOMENTS * i);
            while let Some(o) = rest.next_if(|o| o.stamp.seen <= now) {
                pipeline.observe(o.clone());
            }
            let mode = Mode::paused(name);
            let snap = pipeline.snapshot(now, mode, (from, to), Vec::new());
            let mut m = model((200, 60), "mono").expect("theme");
            m.show(PaneId::Node);
            let text = svg::plain(&frame(&mut m, &snap));
            let line = |word: &str| text.lines().find(|l| l.contains(word)).unwrap_or_default();
            let (operations, pulls) = (line("OPERATIONS IN FLIGHT"), line("IMAGE PULLS"));
            let going = before(pulls, " in progress");
            assert!(
                going == 0 || !operations.contains("none"),
                "{name} at {now}:\n{operations}\n{pulls}"
            );
            for row in text.lines().filter(|l| l.contains("  queued  ")) {
                let pod = snap
                    .world
                    .pods()
                    .iter()
                    .find(|p| row.contains(&p.key()))
                    .unwrap_or_else(|| panic!("{row}"));
                assert_eq!(pod.status, "ContainerCreating", "{name} at {now}: {row}");
                waited += 1;
            }
            assert!(
                before(pulls, " queued") == 0 || text.contains("  queued  "),
                "{pulls}"
            );
        }
    }
    assert!(waited > 0, "a pull waited in S6");
}
