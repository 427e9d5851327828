//! Where the terminal leads: from a start to what it waited for, to the pod that it waited for, or to another start
//! beside it.

use kflow_core::timeline::critical;
use kflow_engine::Snapshot;
use kflow_tui::model::Model;
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;

use super::session;

fn open(session_name: &str, permille: i64, pod: &str, size: (u16, u16)) -> (Model, Snapshot) {
    let snap = session(session_name, permille);
    let mut m = model(size, "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, pod);
    press(&mut m, &snap, "2");
    frame(&mut m, &snap);
    (m, snap)
}

fn screen(m: &mut Model, snap: &Snapshot) -> String {
    svg::plain(&frame(m, snap))
}

fn selected(m: &Model, snap: &Snapshot) -> String {
    m.shared.view(snap).map(|p| p.key()).unwrap_or_default()
}

#[test]
fn the_critical_path_says_first_what_took_longest_and_whom_it_waited_for() {
    for size in [(80, 24), (200, 60)] {
        let (mut m, snap) = open("S6-slowpull", 300, "s24a/queued", size);
        press(&mut m, &snap, "p");
        let text = screen(&mut m, &snap);
        for part in [
            "WAITED FOR",
            "queue of pulls [c]",
            "waits for s24a/slow PullImage",
            "SHARE",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        press(&mut m, &snap, "W");
        frame(&mut m, &snap);
        assert_eq!(selected(&m, &snap), "s24a/slow");
        press(&mut m, &snap, "esc");
        assert_eq!(selected(&m, &snap), "s24a/queued");
    }
}

#[test]
fn whom_a_pod_waits_for_is_reached_from_every_pane() {
    for pane in PaneId::ALL {
        let (mut m, snap) = open("S6-slowpull", 300, "s24a/queued", (120, 40));
        m.show(pane);
        frame(&mut m, &snap);
        press(&mut m, &snap, "W");
        frame(&mut m, &snap);
        assert_eq!(selected(&m, &snap), "s24a/slow", "{}", pane.name());
        press(&mut m, &snap, "esc");
        frame(&mut m, &snap);
        assert_eq!(selected(&m, &snap), "s24a/queued", "{}", pane.name());
        assert_eq!(m.focus, pane);
    }
    // A pod that waits for the runtime to answer the kubelet's periodic calls leads to that call.
    let (mut m, snap) = open("S4-runtime", 550, "s18a/new-pod", (120, 40));
    press(&mut m, &snap, "W");
    let text = screen(&mut m, &snap);
    assert_eq!(m.focus, PaneId::Calls);
    assert!(
        text.contains("Status") && text.contains("esc returns"),
        "{text}"
    );
    press(&mut m, &snap, "esc");
    assert_eq!(
        (m.focus, selected(&m, &snap).as_str()),
        (PaneId::Timeline, "s18a/new-pod")
    );
    // A pod that is being stopped waits for its own call.
    let (mut m, snap) = open("S3-crashes", 172, "s15b/ignores-term", (120, 40));
    press(&mut m, &snap, "W");
    let text = screen(&mut m, &snap);
    assert!(
        text.contains("s15b/ignores-term StopContainer") && text.contains("esc returns"),
        "{text}"
    );
    // With a pod that waits for no other pod the selection stays.
    let (mut m, snap) = open("S1-basics", 600, "s01/healthy", (120, 40));
    press(&mut m, &snap, "W");
    assert_eq!(selected(&m, &snap), "s01/healthy");
    assert!(screen(&mut m, &snap).contains("waits for no other pod"));
}

#[test]
fn the_rows_of_a_critical_path_go_to_the_next_longest_unfold_and_open_their_span() {
    let (mut m, snap) = open("S1-basics", 600, "s01/healthy", (120, 40));
    let pod = m.shared.view(&snap).expect("it is there");
    let path = critical::path(pod, snap.now).expect("it started");
    let longest = path
        .pieces
        .iter()
        .map(critical::Piece::ns)
        .max()
        .expect("pieces");
    press(&mut m, &snap, "p");
    let text = screen(&mut m, &snap);
    assert!(
        text.contains(&kflow_model::units::duration(longest)),
        "{text}"
    );
    let folded = text.matches("short pieces").count();
    assert!(folded > 0, "{text}");
    press(&mut m, &snap, "S");
    assert!(
        screen(&mut m, &snap).contains("longest 2 of"),
        "the next is told"
    );
    press(&mut m, &snap, "o");
    assert_eq!(screen(&mut m, &snap).matches("short pieces").count(), 0);
    press(&mut m, &snap, "enter");
    let text = screen(&mut m, &snap);
    assert!(
        text.contains("STAGE  STEP"),
        "enter leads to the span: {text}"
    );
}

#[test]
fn two_starts_stand_beside_each_other_and_their_differences_add_up() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let snap = session("S5-burst", 600);
        let mut m = model(size, "dark").expect("theme");
        frame(&mut m, &snap);
        press(&mut m, &snap, "1 M");
        let a = selected(&m, &snap);
        press(&mut m, &snap, "j j j M");
        let text = screen(&mut m, &snap);
        let b = selected(&m, &snap);
        assert_ne!(a, b);
        for part in ["B - A", "whole", "sandbox", a.as_str(), b.as_str()] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // The next pod, compared with the same first pod.
        press(&mut m, &snap, "}");
        let text = screen(&mut m, &snap);
        let c = selected(&m, &snap);
        assert!(c != b && text.contains(&a) && text.contains(&c), "{text}");
        press(&mut m, &snap, "esc");
        assert!(screen(&mut m, &snap).contains("STAGE  STEP"));
    }
}

#[test]
fn a_start_is_compared_with_the_median_of_its_owner() {
    let snap = session("S5-burst", 600);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    press(&mut m, &snap, "1 :");
    for c in "compare median".chars() {
        let key = if c == ' ' {
            "space".to_owned()
        } else {
            c.to_string()
        };
        press(&mut m, &snap, &key);
    }
    press(&mut m, &snap, "enter");
    let text = screen(&mut m, &snap);
    assert!(
        text.contains("B - A") && text.contains("A s19/burst-"),
        "{text}"
    );
}
