//! How the terminal behaves: what freezes, what is kept while the user types, and what it says about losses.

use kflow_engine::snapshot::{Mode, Snapshot, SourceStatus, Status, own};
use kflow_model::{Body, Nanos, Source};
use kflow_tui::backend::Drive;
use kflow_tui::model::{Effect, Model};
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::pane::PaneId;
use kflow_tui::run::Picture;
use kflow_tui::update::Mouse;
use kflow_tui::{describe, svg};

use super::{empty, session};
use crate::churn;

fn live(mut snap: Snapshot, following: bool) -> Snapshot {
    snap.mode = Mode::Live {
        scope: "node1".into(),
        following,
        recording: "".into(),
    };
    snap
}

fn screen(m: &mut Model, snap: &Snapshot) -> String {
    svg::plain(&frame(m, snap))
}

#[test]
fn who_scrolls_back_from_what_comes_lets_the_picture_stand_still() {
    let snap = live(session("S1-basics", 600), true);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s01/healthy");
    press(&mut m, &snap, "4");
    frame(&mut m, &snap);
    assert!(m.shared.cursor.is_none(), "the log follows");
    assert_eq!(press(&mut m, &snap, "k"), [Effect::Drive(Drive::Freeze)]);
    // The engine is frozen already: the terminal does not ask again.
    let frozen = live(session("S1-basics", 600), false);
    assert_eq!(press(&mut m, &frozen, "k k"), []);
    assert_eq!(
        press(&mut m, &frozen, "end"),
        [Effect::Drive(Drive::Follow)]
    );
    let text = screen(&mut m, &snap);
    assert!(
        text.contains("follows") && m.shared.cursor.is_none(),
        "{text}"
    );
    // The mouse wheel freezes too; a list that is not ordered by time does not.
    let wheel = m.mouse(Mouse::Wheel(10, 10, false), &snap);
    assert_eq!(wheel, [Effect::Drive(Drive::Freeze)]);
    m.shared.cursor = None;
    assert_eq!(press(&mut m, &snap, "1 j j"), []);
}

#[test]
fn clients_are_made_to_connect_anew_only_after_a_second_question() {
    let snap = live(session("S1-basics", 600), true);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    assert_eq!(press(&mut m, &snap, "6 K"), []);
    let text = screen(&mut m, &snap);
    assert!(
        text.contains("connect anew?") && text.contains("can fail"),
        "{text}"
    );
    // By default the menu leaves the clients connected.
    assert_eq!(press(&mut m, &snap, "enter"), []);
    assert_eq!(press(&mut m, &snap, "K esc K"), []);
    assert_eq!(
        press(&mut m, &snap, "j enter"),
        [Effect::Drive(Drive::Reconnect)]
    );
    // The key has no effect elsewhere.
    assert_eq!(press(&mut m, &snap, "1 K enter"), []);
}

#[test]
fn an_expression_that_is_being_typed_never_empties_the_list() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((120, 40), "dark").expect("theme");
    press(&mut m, &snap, "3 /");
    let mut seen = Vec::new();
    for c in "method:RunPodSandbox".chars() {
        press(&mut m, &snap, &c.to_string());
        let text = screen(&mut m, &snap);
        assert!(
            text.lines().nth(4).is_some_and(|l| l.contains(':')),
            "{c}: {text}"
        );
        seen.push(text);
    }
    let half = &seen["method:RunP".len() - 1];
    let calls = |t: &str, method: &str| {
        t.lines()
            .skip(3)
            .take(30)
            .filter(|l| l.contains(method))
            .count()
    };
    assert!(calls(half, "RunPodSandbox") > 0, "{half}");
    assert_eq!(calls(half, "StopPodSandbox"), 0, "{half}");
    let bottom = half.lines().last().unwrap_or_default();
    assert!(
        bottom.contains("/method:RunP") && bottom.contains(" match "),
        "{bottom}"
    );
    press(&mut m, &snap, "X");
    let wrong = screen(&mut m, &snap);
    assert!(
        wrong.contains("nothing matches yet: shown is method:RunPodSandbox*"),
        "{wrong}"
    );
    assert!(calls(&wrong, "RunPodSandbox") > 0);
    // After enter the expression filters, even when nothing is left.
    press(&mut m, &snap, "enter");
    let asked = screen(&mut m, &snap);
    assert!(asked.contains("No call is shown."), "{asked}");
}

#[test]
fn the_log_tells_an_observation_as_facts_and_raw_when_asked() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((160, 50), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s10/rc");
    press(&mut m, &snap, "4 / source:kubelet space pod:*rc enter d");
    let facts = screen(&mut m, &snap);
    assert!(!facts.contains("\"src\""), "{facts}");
    for label in ["from", "Kubelet ", "pod", "s10/rc"] {
        assert!(facts.contains(label), "{label}: {facts}");
    }
    press(&mut m, &snap, "r");
    let raw = screen(&mut m, &snap);
    assert!(raw.contains("\"src\": \"kubelet\""), "{raw}");
}

#[test]
fn the_facts_of_every_kind_of_observation_tell_what_its_line_tells() {
    let theme = kflow_tui::theme::Theme::default();
    let time = kflow_tui::time::TimeFormat::default();
    let mut kinds = std::collections::BTreeMap::new();
    for name in ["S2-stuck-early", "S7-restart-json", "S1-basics"] {
        for o in session(name, 1000).log.iter() {
            let facts = describe::details(o, &time, &theme).text();
            let (kind, must): (&str, Vec<String>) = match &o.body {
                Body::Pod(p) => ("pod", vec![p.uid.to_string(), p.status.phase.to_string()]),
                Body::Event(e) => ("event", vec![e.message.to_string(), e.reason.to_string()]),
                Body::Log(l) => ("log", vec![l.location.to_string(), l.message.to_string()]),
                Body::CallStart(c) => ("start", vec![c.method.to_string()]),
                Body::CallEnd(c) => ("end", vec![c.message.to_string()]),
                Body::Audit(a) => ("audit", vec![a.audit_id.to_string(), a.verb.to_string()]),
                Body::Span(s) => ("span", vec![s.name.to_string(), s.trace.to_string()]),
                Body::Node(n) => ("node", vec![n.kubelet_version.to_string()]),
                Body::Sample(s) => ("sample", vec![s.what.to_string()]),
                Body::Fs(_) => ("fs", vec![describe::line(o).0]),
                Body::Inventory(i) => (
                    "inventory",
                    i.items
                        .iter()
                        .map(|i| i.subject.pod.name.to_string())
                        .collect(),
                ),
                _ => ("other", vec![describe::line(o).0]),
            };
            for m in must {
                assert!(facts.contains(&m), "{kind}: {m:?} is not in {facts}");
            }
            *kinds.entry(kind).or_insert(0) += 1;
        }
    }
    assert_eq!(kinds.len(), 12, "{kinds:?}");
}

#[test]
fn a_session_that_could_not_be_read_whole_says_so_in_the_status_bar() {
    let mut snap = session("S1-basics", 600);
    let mut m = model((80, 24), "dark").expect("theme");
    assert!(!screen(&mut m, &snap).contains("INCOMPLETE"));
    snap.sources.push(SourceStatus {
        count: 7,
        ..SourceStatus::new(
            Source::Kflow,
            own::SESSION,
            Status::Off("the recording is cut".into()),
        )
    });
    assert!(screen(&mut m, &snap).contains(" INCOMPLETE "));
    press(&mut m, &snap, "6");
    m.resize((160, 50), &snap);
    assert!(screen(&mut m, &snap).contains("○ kflow session"));
}

#[test]
fn a_pod_that_was_gone_before_it_had_a_name_is_found_by_its_uid_only() {
    let mut pipeline = kflow_engine::Pipeline::new();
    let mut gone = churn::pod(7, "", true);
    gone.namespace = "".into();
    gone.event = kflow_model::pod::WatchEvent::Deleted;
    for p in [gone, churn::pod(8, "web", true)] {
        pipeline.observe(churn::observation(8, Source::Kube, Body::Pod(Box::new(p))));
    }
    let snap = churn::snapshot(&mut pipeline, churn::BEGIN.plus(9_000_000_000));
    let mut m = model((80, 24), "dark").expect("theme");
    let text = screen(&mut m, &snap);
    assert!(text.contains("Pods 1 ") && text.contains("web"), "{text}");
    assert!(!text.contains("00000007-0000"), "{text}");
    press(&mut m, &snap, "/ 00000007 enter");
    let text = screen(&mut m, &snap);
    assert!(text.contains("00000007-0000"), "{text}");
}

#[test]
fn the_end_of_a_grace_period_is_drawn_where_it_lies_ahead() {
    // Deleted 50 s after the beginning with a grace period of 20 s; this is 5 s later.
    let snap = session("S1-basics", 284);
    let mut m = model((160, 50), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s01/healthy");
    press(&mut m, &snap, "2");
    let text = screen(&mut m, &snap);
    let marks = text
        .lines()
        .find(|l| l.contains(" marks "))
        .expect("the lane of marks");
    assert!(marks.contains("due in 15s ◇"), "{text}");
    let terminate = text
        .lines()
        .find(|l| l.contains("▾ terminate") || l.contains("▸ terminate"))
        .expect("its row");
    assert!(
        terminate.contains("▶──") && terminate.contains("◇"),
        "{text}"
    );
    // After the deadline the pane still shows it, as past.
    let late = Snapshot {
        now: Nanos(snap.now.0 + 20_000_000_000),
        ..snap
    };
    let text = screen(&mut m, &late);
    assert!(text.contains("was due 4s ago"), "{text}");
}

#[test]
fn every_pane_says_what_an_empty_session_means() {
    let snap = empty();
    for pane in PaneId::ALL {
        let mut m = model((80, 24), "dark").expect("theme");
        m.show(pane);
        let text = screen(&mut m, &snap);
        let words = text
            .lines()
            .skip(3)
            .take(18)
            .flat_map(str::split_whitespace)
            .count();
        assert!(words >= 4, "{pane:?}: {text}");
    }
}

#[test]
fn a_pane_that_is_not_on_the_screen_is_saved_as_it_would_be_shown() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s10/rc");
    let before = frame(&mut m, &snap);
    let dir = tempfile::tempdir().expect("folder");
    for (pane, word) in [
        (PaneId::Calls, "RunPodSandbox"),
        (PaneId::Log, "kubelet"),
        (PaneId::Why, "KF"),
        (PaneId::Sequence, "kubernetes-admin"),
    ] {
        let name = Picture::of(&mut m, &snap, pane)
            .write(dir.path())
            .expect("saved");
        let text = std::fs::read_to_string(dir.path().join(format!("{name}.txt"))).expect("text");
        assert!(text.contains(word), "{pane:?}: {text}");
        let svg = std::fs::read_to_string(dir.path().join(format!("{name}.svg"))).expect("svg");
        assert!(svg.contains(word), "{pane:?}");
    }
    assert_eq!(frame(&mut m, &snap), before, "the screen is as it was");
}

#[test]
fn the_line_of_the_cursor_stands_alone_under_every_span_of_every_pod() {
    let snap = session("S2-stuck-early", 450);
    let mut seen = 0;
    for pod in snap.world.pods() {
        for keys in ["2", "2 d", "2 x l l x d", "2 4 k k 2 d"] {
            let mut m = model((80, 24), "dark").expect("theme");
            frame(&mut m, &snap);
            m.shared.pod = Some(pod.uid.clone());
            press(&mut m, &snap, keys);
            for _ in 0..8 {
                press(&mut m, &snap, "j");
                let text = screen(&mut m, &snap);
                let Some(line) = text.lines().find(|l| l.contains(" after creation")) else {
                    continue;
                };
                let (_, rest) = line.split_once(" after creation").expect("found");
                let rest = rest.trim_end();
                assert!(
                    rest.is_empty() || rest.starts_with("  "),
                    "{}: {line}",
                    pod.key()
                );
                assert!(line.trim_start().starts_with('┃'), "{line}");
                seen += 1;
            }
        }
    }
    assert!(seen > 500, "{seen}");
}
