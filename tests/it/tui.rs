//! The terminal on recorded and synthetic sessions: every pane at every size, driven by a script of keys.

mod abreast;
mod banner;
mod begin;
mod chosen;
mod claims;
mod find;
mod frames;
mod jobs;
mod leads;
mod lengths;
mod lists;
mod moment;
mod node;
mod nodes;
mod own;
mod panes;
mod pictures;
mod steady;
mod tour;
mod ways;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kflow_core::selection::Selection;
use kflow_engine::Pipeline;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_model::{Body, Nanos, Source, gap::Note};
use kflow_tui::action::{Action, KeyScope};
use kflow_tui::keys::{Key, Keymap};
use kflow_tui::model::Effect;
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;
use ratatui::buffer::Buffer;

use super::churn;
use super::incidents::overview;

const SIZES: [(u16, u16); 4] = [(60, 20), (80, 24), (120, 40), (200, 60)];

fn session(name: &str, permille: i64) -> Snapshot {
    selected(name, permille, Arc::default())
}

fn selected(name: &str, permille: i64, selection: Arc<Selection>) -> Snapshot {
    taken(
        name,
        |(a, z)| a.plus(z.since(a) / 1000 * permille),
        selection,
    )
}

/// A session as of a moment.
fn at(name: &str, now: Nanos) -> Snapshot {
    taken(name, |_| now, Arc::default())
}

fn taken(
    name: &str,
    moment: impl Fn((Nanos, Nanos)) -> Nanos,
    selection: Arc<Selection>,
) -> Snapshot {
    let path = crate::recording(name);
    let s = kflow_model::session::load(&path).expect("fixture");
    let (a, z) = s.range().expect("not empty");
    let now = moment((a, z));
    let mut pipeline = Pipeline::selecting(selection);
    for o in s.observations.iter().filter(|o| o.stamp.seen <= now) {
        pipeline.observe(Arc::clone(o));
    }
    let whole = pipeline.world().selection().is_all();
    let mode = Mode::paused(name);
    Snapshot {
        overview: if whole {
            overview(name)
        } else {
            Arc::default()
        },
        ..pipeline.snapshot(now, mode, (a, z), Vec::new())
    }
}

/// A session in which a pod has another name.
fn renamed(name: &str, permille: i64, pod: &str, to: &str) -> Snapshot {
    let path = crate::recording(name);
    let s = kflow_model::session::load(&path).expect("fixture");
    let (a, z) = s.range().expect("not empty");
    let now = a.plus(z.since(a) / 1000 * permille);
    let mut pipeline = Pipeline::new();
    for o in s.observations.iter().filter(|o| o.stamp.seen <= now) {
        let text = serde_json::to_string(&**o).expect("an observation");
        let text = text.replace(pod, to);
        pipeline.observe(Arc::new(
            serde_json::from_str(&text).expect("an observation"),
        ));
    }
    pipeline.snapshot(now, Mode::paused(name), (a, z), Vec::new())
}

pub(crate) fn empty() -> Snapshot {
    churn::snapshot(&mut Pipeline::new(), churn::BEGIN)
}

/// Panics when a cell holds a character that could harm a terminal or break its columns.
fn check(buf: &Buffer, what: &str) {
    for c in buf.content() {
        let hostile = c.symbol().chars().any(|c| {
            c.is_control()
                || ('\u{200b}'..='\u{200f}').contains(&c)
                || ('\u{202a}'..='\u{202e}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c)
        });
        assert!(!hostile, "{what}: {:?}", c.symbol());
    }
}

#[test]
fn every_pane_draws_at_every_size_in_every_theme_with_much_little_and_nothing() {
    let mut big = churn::pipeline(5000, 30_000);
    let now = churn::BEGIN.plus(40_000_000_000);
    for (name, snap) in [
        ("empty", empty()),
        ("stuck", session("S2-stuck-early", 450)),
        ("healthy", session("S1-basics", 600)),
        ("5000 pods", churn::snapshot(&mut big, now)),
    ] {
        for size in SIZES.into_iter().chain([(40, 10), (39, 9), (1, 1)]) {
            for theme in ["dark", "light", "mono"] {
                let mut m = model(size, theme).expect("theme");
                for pane in PaneId::ALL {
                    m.show(pane);
                    for layout in ["layout single", "layout split", "layout dashboard"] {
                        let c = kflow_tui::action::Command::parse(layout).expect("layout");
                        m.run(&c, &snap);
                        let a = frame(&mut m, &snap);
                        check(&a, name);
                        assert_eq!(
                            a,
                            frame(&mut m, &snap),
                            "drawing {name} {pane:?} twice differs"
                        );
                        if theme == "mono" {
                            let colours = a.content().iter().any(|c| {
                                c.style()
                                    .fg
                                    .is_some_and(|f| f != ratatui::style::Color::Reset)
                            });
                            assert!(!colours, "{name} {pane:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn no_pane_but_the_nodes_shows_what_is_outside_of_the_scope() {
    let scope = kflow_model::Scope {
        namespace: Some("s02".to_owned()),
        ..kflow_model::Scope::default()
    };
    let narrow = Arc::new(Selection::new(&scope).expect("a scope"));
    let pictures = |snap: &Snapshot| {
        let mut m = model((200, 60), "dark").expect("theme");
        let mut all = Vec::new();
        for pane in PaneId::ALL.into_iter().filter(|p| *p != PaneId::Node) {
            m.show(pane);
            for command in ["layout single", "log-scope", "requests-groups"] {
                let c = kflow_tui::action::Command::parse(command).expect("a command");
                m.run(&c, snap);
                all.push((pane, svg::plain(&frame(&mut m, snap))));
            }
        }
        all
    };
    // The first pod has no call, because its volume is missing.
    let names = ["s03/", "cm-missing", "s38/", "registry-down"];
    let others = |text: &str| names.iter().any(|n| text.contains(n));
    let all = pictures(&session("S2-stuck-early", 450));
    for pane in [PaneId::Pods, PaneId::Calls, PaneId::Log] {
        let shows = |(p, text): &(PaneId, String)| *p == pane && others(text);
        assert!(
            all.iter().any(shows),
            "{pane:?} shows nothing of others without a scope"
        );
    }
    let snap = selected("S2-stuck-early", 450, narrow);
    let mut own = 0;
    for (pane, text) in pictures(&snap) {
        assert!(!others(&text), "{pane:?}:\n{text}");
        own += usize::from(text.contains("image-missing"));
    }
    assert!(own > 4, "{own}");
}

#[test]
fn a_screen_that_is_too_small_says_what_it_needs() {
    let mut m = model((30, 8), "mono").expect("theme");
    let text = svg::plain(&frame(&mut m, &empty()));
    assert!(
        text.contains("kflow needs 40x10") && text.contains("this is 30x8"),
        "{text}"
    );
}

#[test]
fn every_key_of_the_map_does_something_in_its_pane() {
    let snap = session("S2-stuck-early", 450);
    let keys = Keymap::default();
    let mut idle = BTreeSet::new();
    for pane in PaneId::ALL {
        for a in Action::ALL {
            let here = a.scope() == KeyScope::Pane(pane)
                || matches!(a.scope(), KeyScope::Global | KeyScope::List);
            for k in keys.keys(*a).iter().filter(|_| here) {
                let mut m = model((120, 40), "dark").expect("theme");
                m.show(pane);
                frame(&mut m, &snap);
                select(&mut m, &snap, "s10/rc");
                frame(&mut m, &snap);
                // Start in the middle of the list, so that every direction has somewhere to go.
                press(&mut m, &snap, "g j");
                m.message = None;
                let before = frame(&mut m, &snap);
                assert_eq!(m.keys.action(pane, *k), Some(*a), "{k}");
                let effects = m.key(*k, &snap);
                let after = frame(&mut m, &snap);
                check(&after, a.name());
                if *a == Action::Quit {
                    assert_eq!(effects, [Effect::Quit]);
                }
                if effects.is_empty() && before == after {
                    idle.insert(format!("{} in {}", a.name(), pane.name()));
                }
                // Whatever the key opened closes again.
                press(&mut m, &snap, "esc esc esc");
                check(&frame(&mut m, &snap), a.name());
                assert!(m.overlays.is_empty(), "{} stays open", a.name());
            }
        }
    }
    let expected: BTreeSet<String> = IDLE.iter().map(|s| (*s).to_owned()).collect();
    assert_eq!(idle, expected);
}

/// Keys that have no effect in the state that the test prepares: the pane is already shown, there is no filter, no
/// detail beside the list, nothing below the row.
const IDLE: &[&str] = &[
    "back in Pods",
    "calls in Calls",
    "clear-filter in Calls",
    "clear-filter in Flow",
    "clear-filter in Incidents",
    "clear-filter in Log",
    "clear-filter in Node",
    "clear-filter in Pods",
    "clear-filter in Requests",
    "clear-filter in Sequence",
    "clear-filter in Timeline",
    "clear-filter in Why",
    "fit in Timeline",
    "flow in Flow",
    "incidents in Incidents",
    "left in Calls",
    "left in Flow",
    "left in Incidents",
    "left in Log",
    "left in Node",
    "left in Pods",
    "left in Requests",
    "left in Sequence",
    "left in Why",
    "log in Log",
    "node in Node",
    "pods in Pods",
    "requests in Requests",
    "requests-detail in Requests",
    "right in Calls",
    "right in Flow",
    "right in Log",
    "right in Node",
    "right in Sequence",
    "right in Why",
    "sequence in Sequence",
    "timeline in Timeline",
    "why in Why",
];

#[test]
fn a_walk_through_the_whole_application() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((120, 40), "dark").expect("theme");
    let text = |m: &mut kflow_tui::model::Model| svg::plain(&frame(m, &snap));
    assert!(text(&mut m).contains("cm-missing"));
    // Filter the list, open the timeline of the remaining pod, ask why, follow the evidence, and come back.
    press(&mut m, &snap, "/ cm-miss enter");
    let shown = text(&mut m);
    assert!(
        shown.contains("1 of ") && !shown.contains("pvc-unbound"),
        "{shown}"
    );
    press(&mut m, &snap, "enter");
    assert_eq!(m.focus, PaneId::Timeline);
    assert!(text(&mut m).contains("volumes"));
    press(&mut m, &snap, "w");
    assert!(text(&mut m).contains("EVIDENCE"));
    press(&mut m, &snap, "enter");
    assert!(
        matches!(m.focus, PaneId::Log | PaneId::Calls),
        "{:?}",
        m.focus
    );
    press(&mut m, &snap, "1 esc");
    assert!(text(&mut m).contains("pvc-unbound"));
    // The expression language, in two panes.
    press(&mut m, &snap, "/ status:Pending enter");
    assert!(!text(&mut m).contains("cm-missing "));
    press(&mut m, &snap, "esc 3 / !ok space method:Run* enter");
    let calls = text(&mut m);
    assert!(
        calls.contains("RunPodSandbox") && !calls.contains("ListContainers"),
        "{calls}"
    );
    // The palette runs commands that have no key, and reports unknown ones.
    press(&mut m, &snap, ": theme space light enter");
    assert_eq!(m.look.theme.name, "light");
    press(&mut m, &snap, ": zzz enter");
    assert!(text(&mut m).contains("no command"));
    let effects = press(&mut m, &snap, "@ 50% enter");
    assert!(
        matches!(effects.as_slice(), [Effect::Drive(_)]),
        "{effects:?}"
    );
    // Resizing keeps the selection.
    press(&mut m, &snap, "1");
    let before = m.shared.pod.clone();
    m.resize((60, 20), &snap);
    m.resize((200, 60), &snap);
    assert_eq!(m.shared.pod, before);
    assert_eq!(press(&mut m, &snap, "q"), [Effect::Quit]);
}

#[test]
fn hostile_names_and_messages_are_shown_harmlessly() {
    let mut pipeline = Pipeline::new();
    for (n, name) in [
        "a\u{1b}]52;c;ZXZpbA==\u{7}b",
        "\u{202e}gnp.exe",
        "世界世界世界世界世界世界世界世界",
        "z\u{200b}\u{200b}w",
        "line\nfeed\ttab",
    ]
    .into_iter()
    .enumerate()
    {
        let p = churn::pod(n, name, n % 2 == 0);
        pipeline.observe(churn::observation(
            n as i64,
            Source::Kube,
            Body::Pod(Box::new(p.clone())),
        ));
        let long = format!("\u{9b}31m{}", "x".repeat(10_000));
        pipeline.observe(churn::line(n as i64 + 10, &long, &p));
        let key = kflow_model::cri::CallKey {
            conn: 1,
            stream: n as u32 * 2 + 1,
        };
        for o in churn::call(n as i64 + 20, key, "Run\u{1b}[2JPodSandbox", &p, 2) {
            pipeline.observe(o);
        }
    }
    pipeline.observe(churn::observation(
        99,
        Source::Kflow,
        Body::Note(Box::new(Note {
            text: "\u{1b}c\u{2066}note".into(),
        })),
    ));
    let snap = churn::snapshot(&mut pipeline, churn::BEGIN.plus(1_000_000_000));
    for size in SIZES {
        let mut m = model(size, "dark").expect("theme");
        for pane in PaneId::ALL {
            m.show(pane);
            for keys in ["", "d", "a d", "}"] {
                press(&mut m, &snap, keys);
                check(&frame(&mut m, &snap), "hostile");
            }
        }
    }
}

#[test]
fn the_selection_stays_on_its_pod_when_the_list_is_sorted_and_grouped() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s10/rc");
    for keys in ["A", "r", "I", "S", "z", "z", "z", "z", "T", "d", "D", "d"] {
        press(&mut m, &snap, keys);
        let text = svg::plain(&frame(&mut m, &snap));
        let row = text
            .lines()
            .find(|l| l.starts_with('▌'))
            .unwrap_or_default();
        assert!(row.contains("rc"), "{keys}: {row}");
    }
}

#[test]
fn pictures_are_made_of_every_pane() {
    let names: BTreeSet<&str> = kflow_tui::offscreen::SHOTS.iter().map(|s| s.name).collect();
    for p in PaneId::ALL {
        assert!(names.contains(p.name().to_lowercase().as_str()), "{p:?}");
    }
    let snap = session("S1-basics", 600);
    for s in kflow_tui::offscreen::SHOTS {
        let svg = kflow_tui::offscreen::render(s, &snap).expect("theme");
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
            "{}",
            s.name
        );
    }
}

#[test]
fn a_replay_takes_what_the_keys_ask_for() {
    use kflow_core::query::Moment;
    use kflow_engine::replay::Player;
    use kflow_tui::backend::{Answer, Backend, Drive};
    use kflow_tui::replay::{Replay, is_error};

    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions/S2-stuck-early.kflow.zst");
    let mut r = Replay::new(Player::open(&path, Moment::Begin, Arc::default()).expect("fixture"));
    let now = kflow_model::clock::monotonic();
    while !r.player().overview().whole {
        r.snapshot(now);
        std::thread::yield_now();
    }
    let first = r.snapshot(now);
    assert!(
        Arc::ptr_eq(&first, &r.snapshot(now)),
        "nothing changed, so nothing is drawn again"
    );
    let error = |r: &mut Replay, forward| match r.drive(Drive::Error { pod: None, forward }, now) {
        Ok(Answer::Done(done)) => done,
        other => panic!("{other:?}"),
    };
    let done = error(&mut r, true);
    assert!(!done.said.is_empty() && done.pod.is_some(), "{done:?}");
    let s = r.snapshot(now);
    assert!(s.now > first.now);
    let newest = s.log.get(s.log.len() - 1).expect("an observation");
    assert!(is_error(newest), "{newest:?}");
    let here = s.log.len();
    r.drive(Drive::Step { forward: true }, now).expect("step");
    assert_eq!(r.snapshot(now).log.len(), here + 1);
    r.drive(Drive::Step { forward: false }, now).expect("step");
    assert_eq!(r.snapshot(now).log.len(), here);
    r.drive(Drive::Seek(s.range.0), now).expect("seek");
    assert_eq!(error(&mut r, false).said, "there is no error before this");
    assert!(r.drive(Drive::Record, now).is_err());
}

#[test]
fn a_note_is_there_at_once_and_its_file_is_written_apart() {
    use kflow_core::query::Moment;
    use kflow_engine::replay::Player;
    use kflow_model::session::Reader;
    use kflow_tui::backend::{Answer, Backend as _, Drive};
    use kflow_tui::replay::Replay;
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("s.kflow.zst");
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions/S2-stuck-early.kflow.zst");
    std::fs::copy(fixture, &path).expect("copied");
    let before = std::fs::metadata(&path).expect("there").len();
    let now = kflow_model::clock::monotonic();
    let bytes = std::fs::read(&path).expect("there");
    let embedded =
        Reader::new("demo", Box::new(std::io::Cursor::new(bytes)), before).expect("a session");
    for (player, saved) in [
        (
            Player::open(&path, Moment::Begin, Arc::default()).expect("opened"),
            true,
        ),
        (
            Player::new(embedded, "demo", Moment::Begin, Arc::default()),
            false,
        ),
    ] {
        let mut r = Replay::new(player);
        while r.player().report().is_none() {
            r.snapshot(now);
            std::thread::yield_now();
        }
        let (at, text) = (r.snapshot(now).range.0, "look here".to_owned());
        match r.drive(Drive::Note { at, text }, now) {
            Ok(Answer::Write(job)) if saved => {
                assert_eq!(std::fs::metadata(&path).expect("there").len(), before);
                assert_eq!(job.run().as_deref(), Ok("note saved"));
                assert!(std::fs::metadata(&path).expect("there").len() > before);
            }
            Ok(Answer::Done(done)) if !saved => {
                assert!(done.said.contains("until you quit"), "{done:?}");
            }
            other => panic!("{other:?}"),
        }
        let snap = r.snapshot(now);
        assert!(
            snap.log
                .iter()
                .any(|o| matches!(&o.body, Body::Note(n) if n.text == "look here"))
        );
    }
}

#[test]
fn an_unknown_key_says_where_help_is() {
    let mut m = model((80, 24), "dark").expect("theme");
    let snap = empty();
    m.key(Key::parse("f9").expect("key"), &snap);
    let text = svg::plain(&frame(&mut m, &snap));
    assert!(
        text.contains("f9 does nothing here; ? shows the keys"),
        "{text}"
    );
}
