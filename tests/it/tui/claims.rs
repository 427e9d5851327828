//! What a pane says about itself is true, in every recorded session, at several moments and sizes.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use kflow_core::correlate::{PodView, StageState};
use kflow_core::diagnose::State;
use kflow_core::sequence::Diagram;
use kflow_core::timeline::Outcome;
use kflow_engine::Pipeline;
use kflow_engine::import::{self, Options};
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_model::Source;
use kflow_model::session::{Report, Session};
use kflow_tui::layout::Layout;
use kflow_tui::model::{Effect, Model};
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;

use super::{SIZES, empty};

/// Moments of a session, in thousandths of its length.
const MOMENTS: [i64; 3] = [250, 500, 900];

/// Every session at each of [`MOMENTS`].
pub(super) static SCENES: LazyLock<Vec<(String, Snapshot)>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("fixtures")
        .filter_map(|f| {
            Some(
                f.ok()?
                    .file_name()
                    .to_str()?
                    .strip_suffix(".kflow.zst")?
                    .to_owned(),
            )
        })
        .collect();
    names.sort();
    assert!(names.len() > 10, "{names:?}");
    let recorded = names.iter().flat_map(|n| {
        let session = kflow_model::session::load(&crate::recording(n)).expect("fixture");
        scenes(n, &session, &MOMENTS)
    });
    recorded.collect()
});

/// Objects and Events of a cluster where pods have ended.
fn exercises() -> Vec<(String, Snapshot)> {
    let file = crate::fixture("kube/exercises.json");
    let found = import::find(&[file], "", &std::env::temp_dir()).expect("fixture");
    let imported = import::run(&found.inputs, &Options::default(), &Arc::default());
    let imported = imported.expect("fixture");
    let session = Session {
        header: imported.header,
        observations: imported.observations.into_iter().map(Into::into).collect(),
        report: Report::default(),
    };
    scenes("exercises", &session, &[1000])
}

fn scenes(name: &str, session: &Session, permilles: &[i64]) -> Vec<(String, Snapshot)> {
    let (begin, end) = session.range().expect("not empty");
    let mut pipeline = Pipeline::new();
    let mut rest = session.observations.iter().peekable();
    permilles
        .iter()
        .map(|permille| {
            let now = begin.plus(end.since(begin) / 1000 * permille);
            while let Some(o) = rest.next_if(|o| o.stamp.seen <= now) {
                pipeline.observe(Arc::clone(o));
            }
            let mode = Mode::paused(name);
            let snap = pipeline.snapshot(now, mode, (begin, end), Vec::new());
            (format!("{name} at {permille}"), snap)
        })
        .collect()
}

pub(super) fn shown(m: &mut Model, snap: &Snapshot) -> String {
    svg::plain(&frame(m, snap))
}

/// Runs a check on each scene at each size, after these keys, with the text of the screen.
fn everywhere(keys: &str, check: impl FnMut(&mut Model, &Snapshot, &str, &str)) {
    in_scenes(&SCENES, keys, check);
}

fn in_scenes(
    scenes: &[(String, Snapshot)],
    keys: &str,
    mut check: impl FnMut(&mut Model, &Snapshot, &str, &str),
) {
    for (scene, snap) in scenes {
        for size in SIZES {
            let mut m = model(size, "dark").expect("theme");
            frame(&mut m, snap);
            press(&mut m, snap, keys);
            m.message = None;
            let text = shown(&mut m, snap);
            let what = format!("{scene}, {}x{}", size.0, size.1);
            check(&mut m, snap, &text, &what);
        }
    }
}

fn number(text: &str) -> usize {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no number: {text:?}"))
}

#[test]
fn a_list_that_is_cut_says_how_many_more_there_are() {
    let mut cut = 0;
    for pane in ["1", "2", "3", "4", "7", "8", "9"] {
        everywhere(pane, |m, _, text, what| {
            let hidden = m
                .pane(m.focus)
                .and_then(kflow_tui::pane::Pane::hidden)
                .expect("a list");
            let rule = text.lines().nth(2).unwrap_or_default();
            match hidden {
                (0, 0) => assert!(!rule.contains(" more "), "{what}: {rule}"),
                (above, below) => {
                    cut += 1;
                    let last = rule.rsplit(['↑', '↓']).next().unwrap_or_default();
                    let most = if below > 0 { below } else { above };
                    assert!(rule.ends_with(" more ─"), "{what}: {rule}");
                    assert_eq!(number(last), most, "{what}: {rule}");
                }
            }
        });
    }
    assert!(cut > 50, "{cut}");
}

#[test]
fn the_node_lists_as_many_operations_as_it_counts() {
    let mut counted = 0;
    for (scene, snap) in SCENES.iter() {
        let mut m = model((200, 200), "dark").expect("theme");
        frame(&mut m, snap);
        press(&mut m, snap, "6");
        let text = shown(&mut m, snap);
        // In the right column as many rows follow the heading as it counts, or fewer and a line with the
        // number of the others.
        let column: Vec<&str> = text
            .lines()
            .filter_map(|l| l.rsplit_once('│').map(|(_, right)| right.trim_end()))
            .collect();
        let Some(at) = column
            .iter()
            .position(|l| l.contains("OPERATIONS IN FLIGHT"))
        else {
            continue;
        };
        let says = column[at]
            .rsplit("FLIGHT")
            .next()
            .unwrap_or_default()
            .trim();
        // `1, an image pull`: image pulls have a heading of their own below.
        let pulls = says.split_once(", ").map_or(0, |(_, pulls)| {
            if pulls.starts_with("an ") {
                1
            } else {
                number(pulls)
            }
        });
        let says = says.split(", ").next().unwrap_or_default();
        let says = if says == "none" {
            0
        } else {
            number(says) - pulls
        };
        let rows = column
            .iter()
            .skip(at + 1)
            .take_while(|l| !l.trim().is_empty());
        let listed: usize = rows
            .map(|l| if l.ends_with(" more") { number(l) } else { 1 })
            .sum();
        assert_eq!(says, listed, "{scene}: {text}");
        counted += says;
    }
    assert!(counted > 20, "{counted}");
}

#[test]
fn every_owner_that_cannot_create_pods_has_a_row_at_the_top() {
    let mut owners = 0;
    everywhere("1 g", |m, snap, text, what| {
        for (n, v) in snap.owner_verdicts.iter().enumerate() {
            owners += 1;
            let row = text.lines().nth(4 + n).unwrap_or_default();
            let owner = v.owner.as_ref().expect("an owner");
            let name = kflow_core::diagnose::finding::owner_arg(owner);
            let begin: String = name.chars().take(6).collect();
            assert!(
                row.contains(v.cause_id()) && row.contains(&begin),
                "{what}: {row}"
            );
        }
        if let Some(v) = snap.owner_verdicts.first() {
            press(m, snap, "enter");
            assert_eq!(m.focus, PaneId::Why, "{what}");
            let why = shown(m, snap);
            assert!(
                why.contains(v.cause_id()) && why.contains("EVIDENCE"),
                "{what}: {why}"
            );
            m.show(PaneId::Log);
            let log = shown(m, snap);
            let owner = v.owner.as_ref().expect("an owner");
            let seen = kflow_export::owner::evidence(&snap.world, owner);
            let title = format!("{} · ", kflow_tui::pane::named(owner));
            assert!(log.contains(&title), "{what}: {title}: {log}");
            let newest = seen.iter().rev().find(|o| o.source != Source::Metrics);
            let newest = newest.expect("something but numbers");
            let says = kflow_tui::describe::line(newest).0;
            let begin: String = says.chars().take(24).collect();
            assert!(log.contains(begin.trim_end()), "{what}: {says}: {log}");
        }
    });
    assert!(
        owners > 0,
        "no session has an owner that cannot create pods"
    );
}

/// Owners whose pods do not exist stand above the pods, and leave room for them. The owners are copies of a recorded one.
#[test]
fn many_owners_leave_the_first_pods_on_the_screen() {
    for size in [(80, 24), (200, 60)] {
        let (mut m, mut snap, _) = super::panes::open("S2-stuck-early", 450, "s10/rc", "1");
        m.size = size;
        let one = Arc::clone(snap.owner_verdicts.first().expect("the owner of s29"));
        let copies = (0..40).map(|n| {
            let mut v = (*one).clone();
            let owner = v.owner.as_mut().expect("an owner");
            owner.name = format!("copy-{n:02}").into();
            Arc::new(v)
        });
        snap.owner_verdicts = Arc::new(copies.collect());
        snap.version += 1;
        let text = shown(&mut m, &snap);
        let rows = text.lines().filter(|l| l.contains("copy-")).count();
        assert!((2..=11).contains(&rows), "{text}");
        let more = format!("{} more owners", 40 - rows);
        assert!(text.contains(&more), "{more}: {text}");
        assert!(text.contains("cm-missing"), "{text}");
        press(&mut m, &snap, "O g");
        let text = shown(&mut m, &snap);
        assert!(!text.contains("more owners"), "{text}");
        assert!(
            text.lines().filter(|l| l.contains("copy-")).count() > rows,
            "{text}"
        );
        press(&mut m, &snap, "O");
        // One that is asked for by name is found among all.
        press(&mut m, &snap, "/ copy-39 enter");
        let text = shown(&mut m, &snap);
        assert!(text.contains("copy-39"), "{text}");
    }
}

/// Whether only old Events mention the pod, or it has no name and either is gone or reached no stage.
fn is_past(p: &PodView) -> bool {
    let nothing = || p.stages.iter().all(|s| *s == StageState::NotReached);
    p.past || (p.name.is_empty() && (p.gone.is_some() || nothing()))
}

#[test]
fn pods_that_are_not_shown_are_counted() {
    let mut hidden = 0;
    for keys in ["1", "1 d", "1 D", "1 d D"] {
        everywhere(keys, |_, snap, text, what| {
            let rule = text.lines().nth(2).unwrap_or_default();
            // `─ Pods 17 of 19 · 18 not well · 2 hidden · 4 past hidden ─`
            let title = rule.trim_matches(['─', ' ']).trim_start_matches("Pods ");
            // A title that is too long is truncated at its end.
            if title.contains('…') {
                return;
            }
            let parts: Vec<&str> = title.split(['·', '─']).collect();
            let (shown, of) = parts[0].split_once(" of ").unwrap_or((parts[0], parts[0]));
            let of_kind = |what: &str| {
                let mut counts = parts.iter().filter_map(|p| p.trim().strip_suffix(what));
                counts.find(|n| !n.contains(' ')).map_or(0, number)
            };
            let (past, others) = (of_kind(" past hidden"), of_kind(" hidden"));
            assert_eq!(number(shown) + others, number(of), "{what}: {rule}");
            assert_eq!(number(of) + past, snap.world.pods().len(), "{what}: {rule}");
            let pods = snap.world.pods().iter();
            assert_eq!(past, pods.filter(|p| is_past(p)).count(), "{what}: {rule}");
            hidden += past;
        });
    }
    assert!(hidden > 0);
}

/// `node1  kubelet v1.36.2  containerd://2.1.9  9 of 110 pods`: a pod that has ended takes no place.
#[test]
fn the_pods_of_a_node_are_those_that_take_a_place() {
    let mut ended = 0;
    let check = |_: &mut Model, snap: &Snapshot, text: &str, what: &str| {
        let Some(line) = text.lines().find(|l| l.contains(" of 110 pods")) else {
            return;
        };
        let front = line.split(" of 110 pods").next().unwrap_or_default();
        let told = number(front.rsplit(' ').next().unwrap_or_default());
        let pods = snap.world.pods().iter();
        let all = pods.filter(|p| p.gone.is_none() && p.node == "node1");
        let (over, others): (Vec<_>, Vec<_>) = all.partition(|p| p.phase.is_over());
        assert_eq!(told, others.len(), "{what}: {line}");
        ended += over.len();
    };
    in_scenes(&exercises(), "6", check);
    assert!(ended > 0, "no scene has a pod that has ended");
}

#[test]
fn the_list_of_pods_keeps_what_one_looks_for_at_every_size() {
    everywhere("1", |m, snap, text, what| {
        let head = text.lines().nth(3).unwrap_or_default();
        if snap.world.pods().is_empty() || !text.contains("STATUS") {
            return;
        }
        for wanted in [
            &["NS ", "NAMESPACE"] as &[_],
            &["NAME"],
            &["STATUS"],
            &["WHY"],
        ] {
            assert!(wanted.iter().any(|w| head.contains(w)), "{what}: {head}");
        }
        let (above, _) = m
            .pane(PaneId::Pods)
            .and_then(kflow_tui::pane::Pane::hidden)
            .unwrap_or_default();
        assert_eq!(above, 0);
        // A pod with a verdict shows the verdict's cause, and every pod its status; where there is room,
        // also the whole title.
        let rows: Vec<&str> = text
            .lines()
            .skip(4)
            .take(usize::from(m.size.1) - 10)
            .collect();
        for p in snap.world.pods().iter().filter(|p| p.gone.is_none()) {
            let Some(row) = rows.iter().find(|r| r.contains(&format!(" {} ", p.name))) else {
                continue;
            };
            let verdict = snap.verdicts.get(&p.uid);
            if let Some(v) = verdict {
                assert!(row.contains(v.cause_id()), "{what}: {row}");
            }
            assert!(row.contains(p.status.as_str()), "{what}: {row}");
            if let Some(v) = verdict.filter(|_| m.size.0 >= 200) {
                let said = row.contains(v.title.as_str())
                    || row.contains(v.sentence.as_str())
                    // For a pod that has recovered the list says since when.
                    || (v.state == State::Recovered && row.contains("recovered"));
                assert!(said, "{what}: {row}");
            }
        }
    });
}

#[test]
fn every_arrow_of_a_sequence_has_its_head_and_the_story_its_end() {
    let (mut arrows, mut ends, mut waits) = (0, 0, 0);
    for (scene, snap) in SCENES.iter() {
        for p in snap
            .world
            .pods()
            .iter()
            .filter(|p| p.gone.is_none() && !p.past)
            .take(8)
        {
            let mut copied = None;
            for size in SIZES {
                let mut m = model(size, "dark").expect("theme");
                frame(&mut m, snap);
                m.shared.pod = Some(p.uid.clone());
                press(&mut m, snap, "7");
                let text = shown(&mut m, snap);
                let below = if size.1 >= 16 { 4 } else { 0 };
                let rows = text.lines().skip(5).take(usize::from(size.1) - 7 - below);
                for row in rows {
                    let shaft = ["──", "┄┄"].iter().any(|s| row.contains(s));
                    if shaft {
                        arrows += 1;
                        assert!(
                            row.contains(['▶', '◀', '▷']),
                            "{scene} {} {size:?}: {row}",
                            p.key()
                        );
                    }
                }
                copied = m
                    .pane(PaneId::Sequence)
                    .and_then(|s| s.copy(snap, &m.shared));
            }
            let copied = copied.unwrap_or_default();
            if !copied.contains("->>") && !copied.contains("-)") && !copied.contains("-x") {
                continue;
            }
            let what = format!("{scene} {}: {copied}", p.key());
            let spans = || p.timeline.spans.iter();
            if spans().any(|s| {
                s.is_stage()
                    && s.step == "ready"
                    && s.outcome == Outcome::Ok
                    && !s.evidence.is_empty()
            }) {
                ends += 1;
                assert!(copied.contains("status: Ready"), "{what}");
            }
            if let Some((stage, _)) = p.current {
                waits += 1;
                // Either a call in flight, or the stage that waits.
                let wait = format!("waits in {}", stage.name());
                let flies = copied.contains(", in flight for ");
                assert!(flies || copied.contains(&wait), "{what}");
            }
            let patches = p
                .evidence
                .iter()
                .filter(|e| match &e.body {
                    kflow_model::Body::Audit(a) => {
                        a.stage == kflow_model::audit::AuditStage::ResponseComplete
                            && a.resource.starts_with("pods")
                            && a.verb == "patch"
                    }
                    _ => false,
                })
                .count();
            let requests = copied.lines().filter(|l| l.contains("->>apiserver: "));
            assert_eq!(
                requests.filter(|l| l.contains(" patch pod")).count(),
                patches,
                "{what}"
            );
        }
    }
    assert!(
        arrows > 500 && ends > 10 && waits > 10,
        "{arrows} {ends} {waits}"
    );
}

#[test]
fn the_rows_of_a_sequence_are_in_order_of_time() {
    let mut waits = 0;
    for (scene, snap) in SCENES.iter() {
        for p in snap.world.pods().iter().filter(|p| p.gone.is_none()) {
            for fold in [true, false] {
                let d = Diagram::of(p, &snap.world, fold);
                let times: Vec<_> = d.rows.iter().map(|r| r.at).collect();
                assert!(times.is_sorted(), "{scene} {}: {times:?}", p.key());
                let before = d.rows.iter().rev().skip(1).filter_map(|r| d.message(r));
                waits += before.filter(|m| m.is_wait()).count();
            }
        }
    }
    assert!(waits > 10, "{waits} waits have something after them");
}

/// Returns a length in ns: `680ms`, `2.70s`, `1m43s`, `3h02m`.
fn length(text: &str) -> f64 {
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_alphabetic()).unwrap_or(rest.len());
        let (number, unit) = rest.split_at(digits);
        let letters = unit
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(unit.len());
        let (unit, others) = unit.split_at(letters);
        sum += number.parse::<f64>().expect(text)
            * match unit {
                "d" => 86_400e9,
                "h" => 3600e9,
                "m" => 60e9,
                "s" => 1e9,
                "ms" => 1e6,
                "µs" => 1e3,
                "ns" => 1.0,
                _ => panic!("{text}"),
            };
        rest = others;
    }
    sum
}

#[test]
fn a_timeline_opens_on_what_the_verdict_tells_of_and_f_leads_to_the_start() {
    let (mut told, mut starts) = (0, 0);
    for (scene, snap) in SCENES.iter() {
        for p in snap.world.pods().iter().filter(|p| p.gone.is_none()) {
            let verdict = snap.verdicts.get(&p.uid);
            let Some(v) = verdict.filter(|v| !v.state.is_well()) else {
                continue;
            };
            // The timeline of a pod that has ended, or is being deleted, ends with that.
            if p.deletion_requested.is_some() || p.current.is_none() {
                continue;
            }
            let since = v.recurrence.map_or(v.since, |r| r.first.min(v.since));
            let mut m = model((120, 40), "dark").expect("theme");
            frame(&mut m, snap);
            m.shared.pod = Some(p.uid.clone());
            press(&mut m, snap, "2");
            let wide = |text: &str| {
                let title = text.lines().nth(2).unwrap_or_default();
                let (before, _) = title.split_once(" wide")?;
                Some(length(before.rsplit(' ').next()?))
            };
            let text = shown(&mut m, snap);
            let Some(all) = wide(&text) else {
                continue;
            };
            // Three digits of the length are shown.
            let seen = snap.now.since(since) as f64;
            assert!(all * 1.01 >= seen, "{scene} {}: {text}", p.key());
            told += 1;
            press(&mut m, snap, "f");
            let text = shown(&mut m, snap);
            if text.contains(" wide, the start") {
                starts += 1;
                assert!(wide(&text).is_some_and(|w| w < all / 3.0), "{text}");
            }
        }
    }
    assert!(told > 50 && starts > 2, "{told} {starts}");
}

#[test]
fn enter_on_an_empty_or_a_strange_command_never_leaves() {
    let snap = empty();
    for pane in PaneId::ALL {
        for typed in [
            ": enter",
            ": x enter",
            ": i t enter",
            ": t enter",
            ": down enter",
        ] {
            let mut m = model((80, 24), "dark").expect("theme");
            m.show(pane);
            frame(&mut m, &snap);
            let effects = press(&mut m, &snap, typed);
            let chosen = typed.contains("down");
            assert!(
                chosen || !effects.contains(&Effect::Quit),
                "{typed} in {pane:?}"
            );
        }
        let mut m = model((80, 24), "dark").expect("theme");
        m.show(pane);
        frame(&mut m, &snap);
        assert!(press(&mut m, &snap, ": q u i enter").contains(&Effect::Quit));
    }
}

#[test]
fn a_layout_that_is_named_is_the_one_that_is_shown() {
    let snap = &SCENES[0].1;
    for size in SIZES
        .into_iter()
        .chain([(40, 10), (119, 60), (139, 17), (300, 20)])
    {
        let mut m = model(size, "dark").expect("theme");
        frame(&mut m, snap);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let before = m.slots(snap);
            press(&mut m, snap, "v");
            let said = m.message.clone().map(|(t, _)| t).unwrap_or_default();
            let slots = m.slots(snap);
            if said.starts_with("no other layout fits") {
                assert_eq!(before, slots, "{size:?}: {said}");
                continue;
            }
            assert_ne!(before, slots, "{size:?}: {said}");
            let name = said.strip_prefix("layout: ").unwrap_or_default().to_owned();
            let panes = match Layout::parse(&name) {
                Some(Layout::Single) => 1,
                Some(Layout::Split) => 2,
                Some(Layout::Dashboard) => 4,
                None => panic!("{size:?}: {said}"),
            };
            assert_eq!(slots.len(), panes, "{size:?}: {said}");
            seen.push(name);
        }
        // A layout that has no room can still be asked for by name: the terminal then says that it has no room.
        for name in ["split", "dashboard"] {
            press(&mut m, snap, &format!(": layout space {name} enter"));
            let said = m.message.clone().map(|(t, _)| t).unwrap_or_default();
            let panes = m.slots(snap).len();
            let whole = (name == "split" && panes == 2) || (name == "dashboard" && panes == 4);
            assert_eq!(said.contains("needs"), !whole, "{size:?}: {said}");
        }
    }
}

#[test]
fn percentiles_and_the_filter_count_the_calls_that_the_title_counts() {
    let mut errors = 0;
    for keys in ["3", "3 E", "3 f", "3 f E"] {
        for (scene, snap) in SCENES.iter() {
            let mut m = model((200, 60), "dark").expect("theme");
            frame(&mut m, snap);
            press(&mut m, snap, keys);
            let title = |text: &str| {
                let rule = text.lines().nth(2).unwrap_or_default();
                number(rule.split(" of ").next().unwrap_or_default())
            };
            let listed = title(&shown(&mut m, snap));
            let matches = m
                .pane(PaneId::Calls)
                .and_then(kflow_tui::pane::Pane::matches);
            assert_eq!(matches, Some(listed), "{scene} {keys}");
            press(&mut m, snap, "p");
            let text = shown(&mut m, snap);
            let mut counted = 0;
            for row in text
                .lines()
                .skip(4)
                .take_while(|l| !l.starts_with(' ') || l.len() > 4)
            {
                let cells: Vec<&str> = row.split_whitespace().collect();
                let known = |c: &&str| c.chars().all(|c| c.is_ascii_digit());
                let start = cells.iter().position(|c| c.starts_with(char::is_uppercase));
                let Some(start) = start else { break };
                let numbers: Vec<&str> = cells[start + 1..]
                    .iter()
                    .copied()
                    .take_while(known)
                    .collect();
                // COUNT, then ERR and FLY where there are any; COUNT has a thousands separator.
                counted += numbers.first().map_or(0, |c| number(c));
                errors += usize::from(keys.ends_with('E') && numbers.len() > 1);
            }
            let small = snap.world.calls().iter().count() < 900;
            let flying = snap.world.calls().in_flight().count();
            if small && flying == 0 {
                assert_eq!(counted, listed, "{scene} {keys}: {text}");
            }
        }
    }
    assert!(errors > 0);
}

#[test]
fn saving_every_pane_names_every_pane() {
    let snap = empty();
    let mut m = model((80, 24), "dark").expect("theme");
    frame(&mut m, &snap);
    let effects = press(&mut m, &snap, ": save space all enter");
    assert_eq!(effects, [Effect::Save(PaneId::ALL.to_vec())]);
    let effects = press(&mut m, &snap, "e j enter");
    assert_eq!(effects, [Effect::Save(PaneId::ALL.to_vec())]);
}
