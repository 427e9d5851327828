//! The banner above every pane, which says what kflow could not read.

use std::sync::Arc;

use kflow_engine::Pipeline;
use kflow_engine::snapshot::{Mode, Snapshot, SourceStatus, Status, own};
use kflow_model::gap::{Failure, Gap, WatchKind, WatchNote};
use kflow_model::{Body, Nanos, Observation, Source, Stamp};
use kflow_tui::banner::{Weight, reasons};
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;
use ratatui::buffer::Buffer;

use super::frames::in_every_theme;
use super::session;

fn at(now: Nanos, body: Body) -> Observation {
    Observation {
        stamp: Stamp::exact(now),
        source: Source::Kube,
        body,
    }
}

fn note(now: Nanos, resource: &str, kind: WatchKind, failure: Option<Failure>) -> Observation {
    let detail = match failure {
        Some(Failure::Unreachable) => {
            "cannot reach the apiserver at https://10.0.0.1:6443: Connection refused (os error 111)"
        }
        Some(Failure::Forbidden) => "needs list on nodes in the whole cluster",
        _ => "",
    };
    at(
        now,
        Body::Watch(Box::new(WatchNote {
            resource: resource.into(),
            kind,
            scope: "".into(),
            detail: detail.into(),
            failure,
        })),
    )
}

/// Returns a recorded run as a live one would look 20 s later, with more observations at its end.
fn live(more: &[Observation]) -> Snapshot {
    let snap = session("S1-basics", 250);
    let mut pipeline = Pipeline::new();
    for o in snap.log.iter() {
        pipeline.observe(Arc::clone(o));
    }
    for o in more {
        pipeline.observe(Arc::new(o.clone()));
    }
    let source = |source, name: &str, on: bool, detail: &str| SourceStatus {
        since: Some(snap.now),
        next: (!on).then(|| snap.now.plus(24_000_000_000)),
        ..SourceStatus::new(
            source,
            name,
            if on {
                Status::On(detail.into())
            } else {
                Status::Off(detail.into())
            },
        )
    };
    let away = !more.is_empty();
    let sources = vec![
        source(Source::Kube, "pods", !away, "away"),
        source(Source::Cri, "proxy", true, "containerd 2.1.9"),
    ];
    let mode = Mode::Live {
        scope: "all".into(),
        following: true,
        recording: "".into(),
    };
    let now = snap.now.plus(20_000_000_000);
    pipeline.snapshot(now, mode, snap.range, sources)
}

fn broken() -> Vec<Observation> {
    let now = session("S1-basics", 250).now;
    let away = Some(Failure::Unreachable);
    vec![
        note(now, "pods", WatchKind::Broken, away),
        note(now, "events", WatchKind::Broken, away),
        note(now, "nodes", WatchKind::Broken, Some(Failure::Forbidden)),
    ]
}

#[test]
fn every_pane_says_what_is_not_known_in_every_theme() {
    let snap = live(&broken());
    for size in [(80, 24), (200, 60)] {
        let mut out = String::new();
        for pane in PaneId::ALL {
            in_every_theme(&format!("{pane:?}"), size, &mut out, |m| {
                frame(m, &snap);
                select(m, &snap, "s01/healthy");
                m.show(pane);
                // Only the banner and the rows around it: tests of the panes cover the rest.
                let whole = frame(m, &snap);
                let rows = ratatui::layout::Rect::new(0, 0, size.0, 4);
                let mut head = Buffer::empty(rows);
                for y in 0..4 {
                    for x in 0..size.0 {
                        head[(x, y)] = whole[(x, y)].clone();
                    }
                }
                head
            });
        }
        insta::assert_snapshot!(format!("tui-banner-{}x{}", size.0, size.1), out);
    }
}

/// While a log is read from before, what its lines begin is shown as still going on.
#[test]
fn a_log_of_which_lines_of_the_past_still_come_is_told() {
    let session = session("S1-basics", 250);
    let mut pipeline = Pipeline::new();
    for o in session.log.iter() {
        pipeline.observe(Arc::clone(o));
    }
    let now = session.now;
    let log = |seen: i64| SourceStatus {
        read_to: Some(Stamp {
            at: now.plus(-600_000_000_000),
            seen: now.plus(-seen * 1_000_000_000),
            ..Stamp::exact(now)
        }),
        ..SourceStatus::new(Source::Kubelet, "journal", Status::On("following".into()))
    };
    let mode = || Mode::Live {
        scope: "all".into(),
        following: true,
        recording: "".into(),
    };
    let mut told = |seen: i64, mode: Mode| {
        let snap = pipeline.snapshot(now, mode, session.range, vec![log(seen)]);
        let all = reasons(&snap).into_iter();
        all.filter(|r| r.badge == "CATCHING UP")
            .map(|r| r.what)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        told(0, mode()),
        ["the log of kubelet is read up to 10m00s ago"]
    );
    assert!(told(5, mode()).is_empty());
    assert!(told(0, Mode::paused("a moment")).is_empty());
}

/// When kflow could read nothing, the Node pane shows no counts.
#[test]
fn what_could_not_be_seen_is_not_counted() {
    let mut pipeline = Pipeline::new();
    let notes = broken();
    let now = notes.first().expect("a note").stamp.at;
    for o in notes {
        pipeline.observe(Arc::new(o));
    }
    let tap = SourceStatus::new(Source::Cri, "proxy", Status::On("containerd 2.1.9".into()));
    for (sources, words) in [(Vec::new(), "not known"), (vec![tap], "none")] {
        let snap = pipeline.snapshot(now, Mode::paused("broken"), (now, now), sources);
        for size in [(80, 60), (200, 60)] {
            let mut m = model(size, "mono").expect("theme");
            m.show(PaneId::Node);
            let text = svg::plain(&frame(&mut m, &snap));
            let line = |word: &str| text.lines().find(|l| l.contains(word)).unwrap_or_default();
            assert!(line("OPERATIONS IN FLIGHT").contains(words), "{text}");
            let counted = line("IMAGE PULLS").contains("0 in progress");
            assert_eq!(counted, words == "none", "{text}");
        }
    }
}

#[test]
fn it_says_the_worst_with_since_when_and_the_next_try_and_how_many_more() {
    let snap = live(&broken());
    for (size, words) in [
        (
            (80, 24),
            &[
                "UNKNOWN",
                "apiserver unreachable for 20s, next try in 4s",
                "+1 more 6 tells all",
            ][..],
        ),
        (
            (200, 60),
            &[
                "next try in 4s: cannot reach the apiserver at https://10.0.0.1:6443: Connection refused (os error 111); does it run?",
                "+1 more",
            ],
        ),
    ] {
        let mut m = model(size, "dark").expect("theme");
        let text = svg::plain(&frame(&mut m, &snap));
        let banner = text.lines().nth(2).expect("the third row");
        for w in words {
            assert!(banner.contains(w), "{w}: {banner}");
        }
        // The Node pane shows both reasons in full.
        press(&mut m, &snap, "6");
        let text = svg::plain(&frame(&mut m, &snap));
        for w in [
            "Connection refused",
            "needs list and watch on nodes",
            "NOT KNOWN",
        ] {
            assert!(text.contains(w), "{w}: {text}");
        }
    }
}

#[test]
fn it_goes_when_the_source_works() {
    let mut all = broken();
    let now = session("S1-basics", 250).now.plus(1_000_000_000);
    for resource in ["pods", "events", "nodes"] {
        all.push(note(now, resource, WatchKind::Bookmark, None));
    }
    assert_eq!(reasons(&live(&all)), []);
    assert_eq!(reasons(&live(&[])), []);
}

#[test]
fn a_pod_of_which_nothing_bad_is_known_is_not_said_to_be_well() {
    let snap = live(&broken());
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s01/healthy");
    press(&mut m, &snap, "5");
    let text = svg::plain(&frame(&mut m, &snap));
    assert!(
        text.contains("It is not known how pod s01/healthy is (Running when it was last seen)"),
        "{text}"
    );
    let known = live(&[]);
    let text = svg::plain(&frame(&mut m, &known));
    assert!(text.contains("s01/healthy is well"), "{text}");
}

#[test]
fn a_loss_is_told_until_the_pods_are_listed_anew() {
    let now = session("S1-basics", 250).now;
    let gap = at(
        now,
        Body::Gap(Box::new(Gap {
            of: Source::Kflow,
            since: now,
            lost: 3,
            conn: 0,
            resource: kflow_model::Text::default(),
            why: "damaged lines of the recording were left out".into(),
        })),
    );
    let mut all = vec![gap];
    let mut replay = live(&all);
    replay.mode = session("S1-basics", 250).mode;
    let told = reasons(&replay);
    assert_eq!(
        (told[0].badge, told[0].weight),
        ("INCOMPLETE", Weight::Unknown)
    );
    assert!(told[0].said.contains("damaged lines"), "{told:?}");
    assert_eq!(told[0].brief, "look at another moment");
    for resource in ["pods", "events"] {
        for kind in [WatchKind::ListBegin, WatchKind::ListEnd] {
            all.push(note(now.plus(1), resource, kind, None));
        }
    }
    assert_eq!(reasons(&live(&all)), []);
}

/// kflow's own failures are shown above every pane too, before anything that it could not read.
#[test]
fn every_pane_says_when_the_picture_stands_still_and_when_nothing_is_recorded() {
    for (name, badge) in [
        (own::ENGINE, " STANDS STILL "),
        (own::RECORDING, " NOT RECORDING "),
        (own::MOMENT, " UNKNOWN "),
    ] {
        for more in [vec![], broken()] {
            let mut snap = live(&more);
            snap.sources.push(SourceStatus {
                since: Some(snap.now.plus(-7_000_000_000)),
                ..SourceStatus::new(
                    Source::Kflow,
                    name,
                    Status::Off("it panicked; start kflow again".into()),
                )
            });
            for pane in PaneId::ALL {
                for size in [(80, 24), (200, 60)] {
                    let mut m = model(size, "mono").expect("theme");
                    m.show(pane);
                    let text = svg::plain(&frame(&mut m, &snap));
                    let banner = text.lines().nth(2).expect("the third row");
                    assert!(banner.starts_with(badge), "{pane:?}: {text}");
                    assert!(banner.contains(" for 7s"), "{pane:?}: {banner}");
                }
            }
        }
    }
}

#[test]
fn a_source_that_nobody_named_is_no_reason_unless_it_worked() {
    let mut snap = live(&[]);
    let proxy = |s: &mut Snapshot, guessed, count| {
        let p = s
            .sources
            .iter_mut()
            .find(|s| s.source == Source::Cri)
            .expect("it");
        (p.guessed, p.count) = (guessed, count);
        p.status = Status::Off("no such file".into());
    };
    proxy(&mut snap, true, 0);
    assert_eq!(reasons(&snap), []);
    for (guessed, count) in [(false, 0), (true, 7)] {
        proxy(&mut snap, guessed, count);
        let told = reasons(&snap);
        assert_eq!((told.len(), told[0].weight), (1, Weight::Missing));
        assert!(told[0].what.contains("cri proxy"), "{told:?}");
    }
}
