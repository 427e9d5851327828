//! Where a recording opens: one of a moment with its pods, and how long everything waits; one of a live run where its first
//! lists have been read. And that a time of another day is told with its date.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kflow_engine::Pipeline;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_model::units::{DAY, HOUR};
use kflow_tui::banner;
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;

use super::jobs::opened;
use crate::program::command;

/// Rows of `kubectl get pods -A`, as they are pasted.
const ROWS: &str = "\
NAMESPACE   NAME    READY   STATUS             RESTARTS      AGE
shop        web-1   0/1     CrashLoopBackOff   5 (2m ago)    10m
shop        web-3   0/1     Pending            0             5m
shop        web-5   0/1     ImagePullBackOff   0             5m
";

fn imported(capture: &Path, to: &Path) -> PathBuf {
    let file = to.join("moment.kflow.zst");
    let made = command()
        .args(["import", "-q", "-O"])
        .args([&file, capture])
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(file.exists(), "{}: {said}", capture.display());
    file
}

#[test]
fn a_recording_of_one_moment_opens_with_its_pods_and_shows_how_long_they_wait() {
    let folder = tempfile::tempdir().expect("folder");
    let rows = folder.path().join("rows.txt");
    std::fs::write(&rows, ROWS).expect("written");
    let kubectl = crate::in_repository("fixtures/kubectl");
    let mut captures = vec![rows, crate::in_repository("fixtures/bundle")];
    captures.extend(
        ["image-missing", "cm-missing", "pvc-unbound"]
            .map(|name| kubectl.join(format!("s2-{name}-1.36.txt"))),
    );
    for capture in &captures {
        let what = capture.display();
        let folder = tempfile::tempdir().expect("folder");
        let session = imported(capture, folder.path());
        for size in [(80, 24), (200, 60)] {
            let mut p = opened(&session, size);
            let snap = p.snapshot();
            assert!(snap.is_of_one_moment(), "{what}: {:?}", snap.range);
            assert_eq!((p.model.focus, snap.now), (PaneId::Pods, snap.range.1));
            let shown = svg::plain(&p.frame());
            let pod = p.model.shared.view(&snap).expect("a pod is selected");
            let verdict = snap.verdicts.get(&pod.uid).expect("one that is not well");
            let sentence = verdict.sentence.split(' ').take(3).collect::<Vec<_>>();
            assert!(shown.contains(verdict.cause_id()), "{what}\n{shown}");
            assert!(shown.contains(&sentence.join(" ")), "{what}\n{shown}");
            p.press("2");
            let timeline = svg::plain(&p.frame());
            for unit in ["ns wide", "µs wide", "ms wide"] {
                assert!(!timeline.contains(unit), "{what}\n{timeline}");
            }
            p.press("0");
            let incidents = svg::plain(&p.frame());
            for label in ["500ns", "µs", "500ms"] {
                assert!(!incidents.contains(label), "{what}\n{incidents}");
            }
        }
    }
    // What was there at the only look began then or before.
    let folder = tempfile::tempdir().expect("folder");
    let session = imported(&captures[0], folder.path());
    let mut p = opened(&session, (130, 24));
    p.press("0");
    let incidents = svg::plain(&p.frame());
    let crash = incidents.lines().find(|l| l.contains("KF708"));
    assert!(crash.is_some_and(|l| l.contains('≤')), "{incidents}");
    assert!(incidents.contains("-4m00s"), "{incidents}");
}

#[test]
fn a_user_who_has_pressed_a_key_is_not_led_elsewhere() {
    let folder = tempfile::tempdir().expect("folder");
    let session = imported(&crate::in_repository("fixtures/bundle"), folder.path());
    let mut p = opened(&session, (80, 24));
    p.press("0");
    p.frame();
    assert_eq!(p.model.focus, PaneId::Incidents);
}

#[test]
fn a_replay_opens_where_it_is_known_what_there_is() {
    let sessions = crate::in_repository("fixtures/sessions");
    let mut all: Vec<PathBuf> = std::fs::read_dir(sessions)
        .expect("the fixtures")
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "zst"))
        .collect();
    all.push(crate::in_repository("fixtures/correlate/stops.kflow.zst"));
    assert!(all.len() > 10, "{all:?}");
    for path in all {
        let what = path.display();
        let mut p = opened(&path, (80, 24));
        let snap = p.snapshot();
        let told: Vec<String> = banner::reasons(&snap).into_iter().map(|r| r.said).collect();
        let list = |said: &String| said.contains("list of pods");
        assert!(!told.iter().any(list), "{what}: {told:?}");
        // Near the begin: nothing that the recording has to show is passed over.
        let passed = snap.now.since(snap.range.0);
        assert!(passed < 60_000_000_000, "{what}: {passed} ns");
    }
}

/// A session as of more than three days after its end.
fn days_later(name: &str) -> Snapshot {
    let path = crate::recording(name);
    let s = kflow_model::session::load(&path).expect("fixture");
    let (a, z) = s.range().expect("not empty");
    let mut pipeline = Pipeline::new();
    for o in &s.observations {
        pipeline.observe(Arc::clone(o));
    }
    let now = z.plus(3 * DAY + 7 * HOUR);
    Snapshot {
        overview: super::overview(name),
        ..pipeline.snapshot(now, Mode::paused(name), (a, now), Vec::new())
    }
}

#[test]
fn a_time_of_another_day_has_its_date_in_every_pane() {
    // Recorded on 2026-11-21 between 00:27 and 00:32, and shown at 07:31 of the 24th.
    let snap = days_later("S2-stuck-early");
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut dated = 0;
        for pane in PaneId::ALL {
            let mut m = model(size, "dark").expect("theme");
            let pod = snap.world.find("s02/image-missing").first().copied();
            m.shared.pod = pod.map(|p| p.uid.clone());
            m.shared.touched = true;
            m.show(pane);
            for keys in ["", "j j j"] {
                press(&mut m, &snap, keys);
                let shown = svg::plain(&frame(&mut m, &snap));
                // What a verdict says is the same in every form.
                let said = |line: &&str| {
                    !["last heard at", "3d07h ago"]
                        .iter()
                        .any(|s| line.contains(s))
                };
                for line in shown.lines().filter(said) {
                    for (at, _) in line.match_indices("00:2").chain(line.match_indices("00:3")) {
                        let before = line.get(..at).unwrap_or_default();
                        let clock = line.get(at + 5..at + 6) == Some(":");
                        let whole = !before.ends_with(|c: char| c.is_ascii_digit() || c == ':');
                        if clock && whole {
                            assert!(before.ends_with("11-21 "), "{pane:?} {size:?}: {line}");
                            dated += 1;
                        }
                    }
                }
            }
        }
        assert!(dated > 5, "{size:?}: {dated}");
    }
}
