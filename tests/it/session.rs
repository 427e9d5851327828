//! Sessions: what is written can be read, a truncated file loses little, and a player shows the same as a new world.

use crate::fixture;
use kflow_core::query::Moment;
use kflow_engine::Player;
use kflow_engine::import::{self, Input, Kind, Options};
use kflow_model::gap::Note;
use kflow_model::session::{self, Header, SessionError, VERSION, Writer};
use kflow_model::{Body, Evidence, Nanos, Observation, PodUid, Source, Stamp};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

fn note(n: i64) -> Observation {
    Observation {
        stamp: Stamp::exact(Nanos(n)),
        source: Source::Kflow,
        body: Body::Note(Box::new(Note {
            text: format!("note {n}").into(),
        })),
    }
}

/// Writes a session of five flushes with four notes each.
fn small(path: &Path) -> Vec<Observation> {
    let mut w = Writer::record(path, &Header::new(Nanos(1))).unwrap();
    let notes: Vec<_> = (0..20).map(note).collect();
    for (n, o) in notes.iter().enumerate() {
        w.write(o).unwrap();
        if n % 4 == 3 {
            w.flush().unwrap();
        }
    }
    w.finish().unwrap();
    notes
}

fn plain(s: &session::Session) -> Vec<Observation> {
    s.observations.iter().map(|o| (**o).clone()).collect()
}

#[test]
fn what_is_written_is_read_plain_and_compressed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.kflow", "a.kflow.zst"] {
        let path = dir.path().join(name);
        let notes = small(&path);
        let s = session::load(&path).unwrap();
        assert_eq!(plain(&s), notes);
        assert_eq!(s.report.sentence(), "");
        assert_eq!(s.report.compressed, name.ends_with("zst"));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_recording_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kflow");
    small(&path);
    let e = Writer::record(&path, &Header::new(Nanos(1))).unwrap_err();
    assert!(e.to_string().contains("never overwrites"), "{e}");
}

#[test]
fn an_import_appears_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kflow.zst");
    let mut w = Writer::replace(&path, 3, &Header::new(Nanos(1))).unwrap();
    w.write(&note(1)).unwrap();
    assert!(!path.exists());
    w.finish().unwrap();
    assert_eq!(session::load(&path).unwrap().observations.len(), 1);
}

#[test]
fn cut_at_any_byte_a_session_is_readable_up_to_the_last_flush() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.kflow", "a.kflow.zst"] {
        let path = dir.path().join(name);
        let notes = small(&path);
        let bytes = std::fs::read(&path).unwrap();
        let cut = dir.path().join("cut");
        let mut readable = 0;
        for n in 0..bytes.len() {
            std::fs::write(&cut, &bytes[..n]).unwrap();
            let s = match session::load(&cut) {
                Ok(s) => s,
                // The file ends within its header, so nothing can be read.
                Err(SessionError::NotASession { .. }) => {
                    assert_eq!(readable, 0, "{name} cut at {n}");
                    continue;
                }
                Err(e) => panic!("{name} cut at {n}: {e}"),
            };
            let mut got = plain(&s);
            if s.report.cut.is_some() {
                // The reader reports the truncation by an observation at the end.
                let last = got.pop().unwrap();
                assert!(matches!(last.body, Body::Gap(_)), "{name} cut at {n}");
            }
            assert_eq!(got, notes[..got.len()], "{name} cut at {n}");
            assert!(got.len() >= readable, "{name} cut at {n}");
            readable = got.len();
        }
        assert!(
            readable >= 16,
            "the last flush but one is whole: {readable}"
        );
    }
}

#[test]
fn a_frame_that_was_flushed_is_there_whatever_follows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kflow.zst");
    small(&path);
    let mut f = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    f.write_all(b"garbage after the last frame").unwrap();
    let s = session::load(&path).unwrap();
    assert_eq!(s.report.observations, 20);
    assert!(s.report.cut.is_some());
}

#[test]
fn a_newer_session_is_refused_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.kflow");
    let newer = VERSION + 1;
    std::fs::write(&path, format!("{{\"kflow\":{newer},\"tool\":\"7.1.0\"}}\n")).unwrap();
    let e = session::load(&path).unwrap_err().to_string();
    assert!(e.contains(&format!("session format {newer}")), "{e}");
    assert!(e.contains("written by kflow 7.1.0"), "{e}");
}

#[test]
fn what_is_no_session_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("empty", &b""[..]),
        ("log", b"I1121 00:24:19.333696    3731 flags.go:64] FLAG\n"),
        ("json", b"{\"kind\":\"PodList\"}\n"),
        ("binary", b"\x28\xb5\x2f\xfd\xff\xff\xff"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        let e = session::load(&path).unwrap_err().to_string();
        assert!(e.contains("not a kflow session"), "{name}: {e}");
        assert!(e.contains("kflow import"), "{name}: {e}");
    }
    let e = session::load(dir.path()).unwrap_err().to_string();
    assert!(e.contains("kflow import"), "{e}");
}

#[test]
fn lines_of_a_later_kflow_are_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("later.kflow");
    let text = concat!(
        "{\"kflow\":1,\"later\":{\"a\":1}}\n",
        "{\"t\":1,\"s\":1,\"src\":\"kflow\",\"b\":{\"note\":{\"text\":\"x\"}}}\n",
        "{\"t\":2,\"s\":2,\"src\":\"cri\",\"b\":{\"hologram\":{}}}\n",
        "{\"t\":2,\"s\":2,\"src\":\"ebpf\",\"b\":{\"note\":{\"text\":\"y\"}}}\n",
        "{\"t\":2,\"s\":2,\"sr\n",
        "{\"t\":3,\"s\":3,\"src\":\"kflow\",\"b\":{\"note\":{\"text\":\"z\"}}}",
    );
    std::fs::write(&path, text).unwrap();
    let s = session::load(&path).unwrap();
    let gap = |o: &Evidence| matches!(&o.body, Body::Gap(g) if g.lost == 1);
    let told: Vec<bool> = s.observations.iter().map(gap).collect();
    assert_eq!(
        told,
        [false, true, false],
        "a gap stands for the damaged line, and a whole last line needs no line feed"
    );
    assert_eq!(s.report.unknown.values().sum::<u64>(), 2);
    assert_eq!(s.report.malformed, 1);
    let sentence = s.report.sentence();
    assert!(
        sentence.contains("hologram") && sentence.contains("ebpf"),
        "{sentence}"
    );
}

#[test]
fn notes_are_appended_to_whole_and_to_cut_sessions() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.kflow", "a.kflow.zst"] {
        for cut in [0, 7] {
            let path = dir.path().join(format!("{cut}{name}"));
            small(&path);
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
            session::append(&path, &[note(5)]).unwrap();
            let s = session::load(&path).unwrap();
            let fives = s.observations.iter().filter(|o| o.stamp.seen == Nanos(5));
            assert_eq!(fives.count(), 2, "{name} cut by {cut}");
            assert!(s.observations.is_sorted_by_key(|o| o.stamp.seen));
            assert_eq!(s.report.cut, None, "written anew, it is whole");
        }
    }
}

#[test]
fn a_secret_in_an_observation_is_not_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kflow");
    let mut w = Writer::record(&path, &Header::new(Nanos(1))).unwrap();
    let mut o = note(1);
    o.body = Body::Note(Box::new(Note {
        text: "login with password=hunter2, which failed".into(),
    }));
    w.write(&o).unwrap();
    assert_eq!(w.redacted(), 1);
    w.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(
        text.contains("login with password=<redacted>, which failed"),
        "{text}"
    );
}

fn captures() -> Vec<Input> {
    import::find(&[fixture("captures")], "", &std::env::temp_dir())
        .unwrap()
        .inputs
}

#[test]
fn replay_equals_import_byte_for_byte() {
    let inputs = captures();
    assert!(inputs.len() >= 7, "{inputs:?}");
    let imported = import::run(&inputs, &Options::default(), &Arc::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kflow.zst");
    let mut w = Writer::replace(&path, 3, &imported.header).unwrap();
    for o in &imported.observations {
        w.write(o).unwrap();
    }
    w.finish().unwrap();
    let replayed = session::load(&path).unwrap();
    assert_eq!(replayed.header, imported.header);
    for (a, b) in plain(&replayed).iter().zip(&imported.observations) {
        assert_eq!(a, b);
    }
    assert!(plain(&replayed) == imported.observations);

    // Both also give the same exported text.
    let json = |observations: Vec<Observation>| {
        let mut world = kflow_core::correlate::World::new();
        for o in observations {
            world.observe(&Arc::new(o));
        }
        world.refresh();
        let mut out = Vec::new();
        kflow_export::timeline::rows(&mut out, world.pods(), kflow_export::rows::Rows::Json)
            .unwrap();
        out
    };
    let a = json(imported.observations);
    assert!(a.len() > 10_000, "there is something to compare");
    assert!(a == json(plain(&replayed)));
}

#[test]
fn observations_that_are_written_together_are_those_written_one_by_one() {
    let imported = import::run(&captures(), &Options::default(), &Arc::default()).unwrap();
    let secret = Observation {
        body: Body::Note(Box::new(Note {
            text: "password=hunter2".into(),
        })),
        ..note(1)
    };
    let all: Vec<Observation> = (0..20)
        .flat_map(|_| imported.observations.iter().chain([&secret]).cloned())
        .collect();
    assert!(all.len() > 40_000, "several threads have several turns");
    let dir = tempfile::tempdir().unwrap();
    let written = |name: &str, together: bool| {
        let path = dir.path().join(name);
        let mut w = Writer::replace(&path, 3, &imported.header).unwrap();
        if together {
            w.write_all(&all[..7]).unwrap();
            w.write(&all[7]).unwrap();
            w.write_all(&all[8..]).unwrap();
            w.write_all(&[]).unwrap();
        } else {
            for o in &all {
                w.write(o).unwrap();
            }
        }
        let counts = (w.observations(), w.redacted());
        let bytes = w.finish().unwrap();
        let file = std::fs::read(&path).unwrap();
        assert_eq!(bytes, file.len() as u64);
        (counts, file)
    };
    let plain = written("one.kflow", false);
    assert_eq!(plain.0, (all.len() as u64, 20));
    assert!(plain == written("together.kflow", true));
    let (counts, packed) = written("together.kflow.zst", true);
    assert!((counts, zstd::decode_all(&*packed).unwrap()) == plain);
}

#[test]
fn the_order_of_inputs_does_not_matter() {
    let mut inputs = captures();
    let a = import::run(&inputs, &Options::default(), &Arc::default()).unwrap();
    inputs.reverse();
    let b = import::run(&inputs, &Options::default(), &Arc::default()).unwrap();
    assert_eq!(a.header, b.header);
    assert!(a.observations == b.observations);
    assert!(a.observations.is_sorted_by_key(|o| o.stamp.seen));
}

#[test]
fn every_line_of_every_input_is_accounted_for() {
    let imported = import::run(&captures(), &Options::default(), &Arc::default()).unwrap();
    for s in &imported.summaries {
        assert!(s.lines > 0, "{:?}", s.input);
        assert!(s.observations > 0, "{:?}", s.input);
        assert_eq!(
            s.malformed.values().sum::<u64>(),
            0,
            "{:?}: {:?}",
            s.input,
            s.malformed
        );
        assert_eq!(s.cut, None);
    }
    assert_eq!(imported.header.node, "node1");
}

#[test]
fn a_cut_capture_is_read_as_far_as_it_goes_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(fixture("captures/kubelet.log.zst")).unwrap();
    let path = dir.path().join("kubelet.log.zst");
    std::fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let input = Input::new(Kind::Kubelet, &path);
    let imported = import::run(&[input], &Options::default(), &Arc::default()).unwrap();
    let summary = &imported.summaries[0];
    assert!(summary.cut.is_some());
    assert!(matches!(
        imported.observations.last().map(|o| &o.body),
        Some(Body::Gap(_))
    ));
}

#[test]
fn the_year_of_log_lines_comes_from_other_inputs_or_the_user() {
    let find = |kind| captures().into_iter().find(|i| i.kind == kind).unwrap();
    let year = |inputs: &[Input], options: &Options| {
        let i = import::run(inputs, options, &Arc::default()).unwrap();
        let o = i
            .observations
            .into_iter()
            .find(|o| o.source == Source::Kubelet)
            .unwrap();
        o.stamp.at.to_rfc3339()[..4].to_owned()
    };
    let with = |y| Options {
        year: Some(y),
        ..Options::default()
    };
    let logs = [find(Kind::Kubelet)];
    assert_eq!(year(&logs, &with(2019)), "2019");
    let both = [find(Kind::Kubelet), find(Kind::Audit)];
    assert_eq!(year(&both, &Options::default()), "2026");
}

/// Opens a player and waits until it has loaded the whole session.
fn player(path: &Path, start: Moment) -> Player {
    let mut p = Player::open(path, start, std::sync::Arc::default()).unwrap();
    while p.report().is_none() {
        p.tick(kflow_model::clock::monotonic());
        std::thread::yield_now();
    }
    p
}

fn state(world: &kflow_core::correlate::World) -> String {
    let mut out = Vec::new();
    kflow_export::timeline::rows(&mut out, world.pods(), kflow_export::rows::Rows::Json).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn wherever_a_player_is_put_it_shows_what_a_fresh_world_shows() {
    let path = fixture("sessions/S1-basics.kflow.zst");
    let session = session::load(&path).unwrap();
    let (begin, end) = session.range().unwrap();
    let mut p = player(&path, Moment::Begin);
    assert_eq!(p.len(), session.observations.len());
    assert_eq!(p.cursor(), begin);
    let at = |p: &mut Player, permille: i64| {
        let t = begin.plus((end - begin) / 1000 * permille);
        p.seek(t);
        let shown = p.snapshot();
        let fresh = kflow_engine::world_at(&session, t, std::sync::Arc::default());
        assert_eq!(shown.now, t);
        assert_eq!(state(&shown.world), state(&fresh), "at {permille} of 1000");
        let upto = session
            .observations
            .iter()
            .filter(|o| o.stamp.seen <= t)
            .count();
        assert_eq!(shown.log.len(), upto);
        assert!(shown.log.iter().eq(session.observations.iter().take(upto)));
    };
    // Seeks forward, back over checkpoints, and to both ends.
    for permille in [300, 310, 900, 320, 50, 999, 700, 0] {
        at(&mut p, permille);
    }
    p.seek_end();
    assert_eq!(
        state(&p.snapshot().world),
        state(&kflow_engine::world_at(
            &session,
            end,
            std::sync::Arc::default()
        ))
    );
}

#[test]
fn a_player_moves_by_the_time_that_it_is_told() {
    let path = fixture("sessions/S1-basics.kflow.zst");
    let mut p = player(&path, Moment::Begin);
    let (begin, end) = p.range();
    let origin = kflow_model::clock::monotonic();
    let at = |ns| origin + std::time::Duration::from_nanos(ns);
    p.set_playing(true);
    p.tick(at(1_000));
    assert_eq!(p.cursor(), begin, "the first tick only sets the clock");
    p.tick(at(1_000 + 2_000_000_000));
    assert_eq!(p.cursor(), begin.plus(2_000_000_000));
    p.set_speed(10_000);
    p.tick(at(1_000 + 3_000_000_000));
    assert_eq!(p.cursor(), begin.plus(12_000_000_000));
    p.set_playing(false);
    p.tick(at(9_000_000_000));
    assert_eq!(p.cursor(), begin.plus(12_000_000_000));
    assert!(
        !p.tick(at(9_100_000_000)),
        "nothing changes while it is paused"
    );
    let shown = p.snapshot();
    assert!(
        Arc::ptr_eq(&shown, &p.snapshot()),
        "the same picture is not made twice"
    );
    p.set_speed(0);
    p.set_playing(true);
    let mut ticks = 0;
    while p.playing() {
        p.tick(at(10_000_000_000));
        ticks += 1;
        assert!(ticks < 100);
    }
    assert_eq!((p.cursor(), p.position()), (end, p.len()));
    p.set_playing(true);
    assert_eq!(p.cursor(), begin, "playing at the end begins anew");
}

#[test]
fn a_player_steps_by_observation_and_by_change_of_a_pod() {
    let path = fixture("sessions/S1-basics.kflow.zst");
    let mut p = player(&path, Moment::Begin);
    p.seek(p.range().0);
    let here = p.position();
    p.step(3);
    assert_eq!(p.position(), here + 3);
    p.step(-2);
    assert_eq!(p.position(), here + 1);
    p.step(-1_000_000);
    assert_eq!(p.position(), 1);

    // The statuses that kubectl would have shown, in order.
    p.seek(p.range().0);
    let healthy = |p: &mut Player| {
        let s = p.snapshot();
        s.world
            .find("s01/healthy")
            .first()
            .map(|p| (p.uid.clone(), p.status.clone()))
    };
    let mut uid: Option<PodUid> = None;
    let mut seen: Vec<String> = Vec::new();
    let mut stops = Vec::new();
    while p.step_pod(uid.as_ref(), true) {
        if let Some((u, status)) = healthy(&mut p) {
            uid = Some(u);
            stops.push(p.position());
            if seen.last().is_none_or(|s| s != status.as_str()) {
                seen.push(status.to_string());
            }
        }
    }
    for status in ["Init:0/1", "Running", "Terminating"] {
        assert!(
            seen.iter().any(|s| s == status),
            "{status} is among {seen:?}"
        );
    }
    // Stepping back stops at the same moments.
    let mut back = vec![*stops.last().unwrap()];
    while back.len() < stops.len() && p.step_pod(uid.as_ref(), false) {
        back.push(p.position());
    }
    back.reverse();
    assert_eq!(back, stops);
}

#[test]
fn a_note_is_seen_at_its_time_and_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.kflow.zst");
    std::fs::copy(fixture("sessions/S13-crictl.kflow.zst"), &path).unwrap();
    let mut p = player(&path, Moment::Begin);
    let (begin, end) = p.range();
    let middle = begin.plus((end - begin) / 2);
    p.seek(middle);
    let before = p.position();
    p.note("look here").expect("a file").save().unwrap();
    assert_eq!(p.position(), before + 1);
    p.seek_end();
    let live = state(&p.snapshot().world);

    let mut again = player(&path, Moment::At(middle));
    assert_eq!(again.cursor(), middle);
    let log = again.snapshot().log.clone();
    assert!(
        log.iter()
            .any(|o| matches!(&o.body, Body::Note(n) if n.text == "look here"))
    );
    again.seek_end();
    assert_eq!(state(&again.snapshot().world), live);
}
