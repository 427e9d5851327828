//! A file that the recorder wrote stays readable, whatever ended the recorder.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked, Unknown};
use kflow_core::diagnose::why;
use kflow_engine::record::{Ended, KEEP, Options, Recorder, numbered};
use kflow_engine::world_at;
use kflow_model::fs::{FsAction, FsChange, FsObject};
use kflow_model::gap::{Failure, Gap, Note, WatchKind, WatchNote};
use kflow_model::log::Component;
use kflow_model::pod::PodSeen;
use kflow_model::session::{self, Header, Session, Writer};
use kflow_model::{Body, Evidence, Nanos, Observation, PodUid, Source, Stamp, Text};
use kflow_proxy::Proxy;

use crate::proxy::rig::{Rig, eventually};

fn options(path: &Path) -> Options {
    Options {
        path: path.to_owned(),
        max_size: None,
        pod: None,
        node: "node1".into(),
    }
}

fn observation(n: i64, body: Body) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(Nanos(n)),
        source: Source::Kflow,
        body,
    })
}

fn note(n: i64) -> Evidence {
    // Text that hardly compresses.
    let text = format!(
        "{n} {:x}{:x}",
        n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed()),
        n.wrapping_mul(0x1234_5678_9ABC_DEF1)
    );
    observation(
        n,
        Body::Note(Box::new(Note {
            text: Text::from(text),
        })),
    )
}

fn pod(n: i64, name: &str) -> Evidence {
    let seen = PodSeen {
        uid: PodUid::from(format!("uid-of-{name}")),
        namespace: "ns".into(),
        name: name.into(),
        ..PodSeen::default()
    };
    observation(n, Body::Pod(Box::new(seen)))
}

#[test]
fn a_recording_holds_what_it_was_given_in_that_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.kflow.zst");
    let r = Recorder::start(options(&path), std::sync::Arc::default()).unwrap();
    let given: Vec<Evidence> = (0..5000).map(note).collect();
    r.take_history(given[..2000].iter().cloned().collect());
    for o in &given[2000..] {
        r.take(o);
    }
    let end = r.stop();
    assert_eq!(
        (end.observations, end.lost, end.ended),
        (5000, 0, Some(Ended::Closed))
    );
    let read = session::load(&path).unwrap();
    assert_eq!(read.header.node, "node1");
    assert_eq!(read.observations, given);
    assert!(
        Recorder::start(options(&path), std::sync::Arc::default()).is_err(),
        "a recording is never overwritten"
    );
}

#[test]
fn a_recording_that_rotates_keeps_the_last_files_and_each_knows_what_exists() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.kflow.zst");
    // An earlier run left a file with a number that this run would use.
    fs::write(numbered(&path, 2), "an earlier run's").unwrap();
    let r = Recorder::start(
        Options {
            max_size: Some(20_000),
            ..options(&path)
        },
        std::sync::Arc::default(),
    )
    .unwrap();
    r.take(&pod(1, "early"));
    let all: Vec<Evidence> = (2..20_000).map(note).collect();
    r.take_history(all.into_iter().collect());
    let end = r.stop();
    assert!(end.observations >= 19_999, "{end:?}");
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, KEEP + 1);
    assert!(!numbered(&path, 1).exists());
    assert_eq!(
        fs::read_to_string(numbered(&path, 2)).unwrap(),
        "an earlier run's"
    );
    let last = session::load(&path).unwrap();
    assert_eq!(
        last.observations[0],
        pod(1, "early"),
        "a pod of long ago is known to the last file"
    );
    assert!(fs::metadata(&path).unwrap().len() < 60_000);
    // What is left is what the files hold, each of which begins with what exists.
    let of_run = fs::read_dir(dir.path()).unwrap().flatten();
    let left: usize = of_run
        .filter_map(|f| session::load(&f.path()).ok())
        .map(|s| s.observations.len())
        .sum();
    assert!(end.removed > 0);
    assert_eq!(end.observations - end.removed, left as u64);
}

/// Records `given` and then many observations without content into rotating files; returns the last file.
fn rotated(given: &[Evidence]) -> (tempfile::TempDir, PathBuf, Session) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.kflow.zst");
    let wanted = Options {
        max_size: Some(200_000),
        ..options(&path)
    };
    let r = Recorder::start(wanted, Arc::default()).unwrap();
    let last = given.last().unwrap().stamp.seen.0;
    let filler = (0..30_000).map(|n| note(last + n));
    r.take_history(given.iter().cloned().chain(filler).collect());
    r.stop();
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert!(files > 2, "it has not rotated twice");
    let read = session::load(&path).unwrap();
    (dir, path, read)
}

fn recorded_upto(name: &str, permille: i64) -> Vec<Evidence> {
    let path = crate::recording(name);
    let s = session::load(&path).unwrap();
    let (begin, end) = s.range().unwrap();
    let now = begin.plus(end.since(begin) / 1000 * permille);
    s.observations[..s.arrived_by(now)].to_vec()
}

fn why_all(session: &Session) -> Option<Unknown> {
    let at = session.range().unwrap().1;
    unknown::every(Asked {
        world: &world_at(session, at, Arc::default()),
        at,
        scope: None,
        recorded: Some(at),
    })
}

#[test]
fn a_later_file_of_a_rotation_knows_the_lists_of_an_earlier_one() {
    let mut given = recorded_upto("S1-basics", 250);
    let (_dir, path, last) = rotated(&given);
    assert_eq!(why_all(&last), None);
    let program = |at: &[&str]| {
        let mut c = crate::program::command();
        c.args(["why", "s01/healthy", "-s"]).arg(&path).args(at);
        let said = c.output().unwrap();
        let err = String::from_utf8(said.stderr).unwrap();
        (said.status.code(), err)
    };
    let (code, err) = program(&[]);
    assert_eq!(code, Some(0), "{err}");
    // The last file does not hold what happened before it began, only the pod's state at its beginning.
    let before = given.last().unwrap().stamp.seen.to_rfc3339();
    let (code, err) = program(&["--at", &before]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("before what was recorded"), "{err}");
    // The later file repeats a loss of the earlier one.
    let at = given.last().unwrap().stamp.seen;
    let gap = Gap {
        of: Source::Kube,
        since: at,
        lost: 3,
        conn: 0,
        resource: Text::default(),
        why: "no room".into(),
    };
    given.push(observation(at.0, Body::Gap(Box::new(gap))));
    let (_dir, _, last) = rotated(&given);
    assert_eq!(
        why_all(&last).map(|u| u.reason),
        Some(unknown::Reason::Lost)
    );
    given.pop();
    // A failure that continues is repeated too, with the time when it began.
    for n in 0..3 {
        let broken = WatchNote {
            resource: "pods".into(),
            kind: WatchKind::Broken,
            scope: Text::default(),
            detail: "connection refused".into(),
            failure: Some(Failure::Unreachable),
        };
        let at = at.plus(n * 60_000_000_000);
        given.push(observation(at.0, Body::Watch(Box::new(broken))));
    }
    let (_dir, _, last) = rotated(&given);
    let away = unknown::Reason::Failed(Failure::Unreachable);
    assert_eq!(why_all(&last).map(|u| u.reason), Some(away));
    let world = world_at(&last, last.range().unwrap().1, Arc::default());
    let failing = world.coverage().watches().find_map(|(_, _, w)| w.failing());
    assert_eq!(failing.map(|f| f.since), Some(at));
}

#[test]
fn a_pod_that_is_stuck_is_not_well_in_a_later_file_of_a_rotation() {
    let given = recorded_upto("S2-stuck-early", 450);
    let whole: World = {
        let mut w = World::new();
        for o in &given {
            w.observe(o);
        }
        w.refresh();
        w
    };
    let (_dir, _, last) = rotated(&given);
    let now = given.last().unwrap().stamp.seen;
    let world = world_at(&last, last.range().unwrap().1, Arc::default());
    let mut stuck = 0;
    for p in whole.pods().iter().filter(|p| p.gone.is_none() && !p.past) {
        let bad = |w: &World, p, now| why(w, p, now).is_some_and(|v| !v.state.is_well());
        if bad(&whole, p, now) {
            stuck += 1;
            let same = world.pod(&p.uid).expect("it is known");
            assert!(bad(&world, same, now.plus(1)), "{}", p.key());
        }
    }
    assert!(stuck > 5, "{stuck}");
}

#[test]
fn a_recording_knows_until_when_it_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.kflow.zst");
    let r = Recorder::start(options(&path), Arc::default()).unwrap();
    let begun = kflow_model::clock::now();
    r.take(&note(begun.0));
    r.stop();
    let read = session::load(&path).unwrap();
    let until = read.report.until.unwrap();
    assert!(until >= begun);
    assert_eq!(read.range(), Some((begun, until)));
    assert_eq!(read.report.sentence(), "");
}

/// A limit on the file size stands for a full disk: both refuse a write in the middle.
#[test]
fn a_full_disk_ends_the_recording_where_it_is_readable_and_says_so() {
    let rig = crate::proxy::rig::Rig::new();
    let proxy = rig.start(kflow_cri::Decoder::new());
    let path = rig.path("run.kflow.zst");
    let child = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 40; exec \"$0\" record --no-api --proxy \"$1\" -O \"$2\"",
        ])
        .arg(env!("CARGO_BIN_EXE_kflow"))
        .arg(rig.path("obs.sock"))
        .arg(&path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("it records", || path.exists().then_some(()));
    for batch in 0..20 {
        proxy.ring.push(
            &mut (0..1000)
                .map(|n| (*note(batch * 1000 + n)).clone())
                .collect(),
            kflow_model::clock::monotonic(),
        );
    }
    let end = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&end.stderr);
    assert_eq!(end.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the recording stopped by itself: cannot write session"),
        "{said}"
    );
    let read = session::load(&path).unwrap();
    assert!(
        !read.observations.is_empty() && read.observations.len() < 20_000,
        "{}",
        read.observations.len()
    );
}

#[test]
fn only_one_pod_and_what_is_about_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.kflow");
    let r = Recorder::start(
        Options {
            pod: Some("pod/ns/wanted".into()),
            ..options(&path)
        },
        std::sync::Arc::default(),
    )
    .unwrap();
    let dir_of = |n, uid: &str| {
        let object = FsObject::PodDir {
            uid: PodUid::from(uid),
        };
        observation(
            n,
            Body::Fs(Box::new(FsChange {
                action: FsAction::Created,
                object,
            })),
        )
    };
    let given = [
        pod(1, "wanted"),
        pod(2, "other"),
        dir_of(3, "uid-of-wanted"),
        dir_of(4, "uid-of-other"),
        note(5),
    ];
    for o in &given {
        r.take(o);
    }
    r.stop();
    let read = session::load(&path).unwrap();
    let expected = [&given[0], &given[2], &given[4]].map(Arc::clone);
    assert_eq!(read.observations, expected);
}

/// Starts a proxy in front of a runtime that answers, so that the source is on.
fn tapped() -> (Rig, UnixListener, Proxy) {
    let rig = Rig::new();
    let runtime = rig.upstream();
    let proxy = rig.start(kflow_cri::Decoder::new());
    (rig, runtime, proxy)
}

/// Starts `kflow record` on a proxy; returns the process and the lines that it prints from then on.
fn recording(
    proxy: &Path,
    to: &Path,
) -> (Child, impl Iterator<Item = std::io::Result<String>> + use<>) {
    let mut child = crate::program::command()
        .args(["record", "--no-api", "--proxy"])
        .arg(proxy)
        .arg("-O")
        .arg(to)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    said.find(|l| l.as_ref().unwrap().contains("cri proxy: on"))
        .unwrap()
        .unwrap();
    (child, said)
}

#[test]
fn a_recording_after_kill_9_is_readable_up_to_the_last_flush() {
    let (rig, _runtime, proxy) = tapped();
    let path = rig.path("run.kflow.zst");
    let (mut child, _said) = recording(&rig.path("obs.sock"), &path);
    proxy.ring.push(
        &mut (0..100).map(|n| (*note(n)).clone()).collect(),
        kflow_model::clock::monotonic(),
    );
    eventually("a hundred observations are on disk", || {
        let read = session::load(&path).ok()?;
        (read.observations.len() >= 100).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let read = session::load(&path).unwrap();
    assert_eq!(read.observations.len(), 100);
}

#[test]
fn sigterm_closes_a_recording_orderly() {
    let (rig, _runtime, proxy) = tapped();
    let path = rig.path("run.kflow.zst");
    let (mut child, said) = recording(&rig.path("obs.sock"), &path);
    proxy.ring.push(
        &mut vec![(*note(7)).clone()],
        kflow_model::clock::monotonic(),
    );
    eventually("it has arrived", || {
        (session::load(&path).ok()?.observations.len() == 1).then_some(())
    });
    assert!(
        Command::new("kill")
            .arg(child.id().to_string())
            .status()
            .unwrap()
            .success()
    );
    assert!(child.wait().unwrap().success());
    let last = said.map(Result::unwrap).last().unwrap();
    assert!(last.contains("terminated: 1 observations"), "{last}");
    assert_eq!(session::load(&path).unwrap().report.cut, None);
}

/// Returns the call observations of a recording, in two halves.
fn recorded_calls() -> (Vec<Observation>, Vec<Observation>) {
    let all = session::load(&crate::fixture("sessions/S1-basics.kflow.zst")).unwrap();
    let of_cri = all.observations.iter().filter(|o| o.source == Source::Cri);
    let mut all: Vec<Observation> = of_cri.map(|o| (**o).clone()).collect();
    let rest = all.split_off(all.len() / 2);
    (all, rest)
}

#[test]
fn calls_are_followed_as_they_end_each_once() {
    let (rig, _runtime, proxy) = tapped();
    let (mut first, mut second) = recorded_calls();
    let (early, now) = (first.len(), kflow_model::clock::monotonic);
    let mut child = crate::program::command()
        .args(["calls", "--follow", "-o", "jsonl", "--no-api", "--proxy"])
        .arg(rig.path("obs.sock"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    proxy.ring.push(&mut first, now());
    // The first line is printed before the second half of the calls begins.
    let mut told = vec![lines.next().unwrap().unwrap()];
    proxy.ring.push(&mut second, now());
    let path = rig.path("whole.kflow");
    let (before, after) = recorded_calls();
    assert_eq!(before.len(), early);
    let header = Header::new(before[0].stamp.at);
    let mut w = Writer::record(&path, &header).unwrap();
    before
        .iter()
        .chain(&after)
        .for_each(|o| w.write(o).unwrap());
    w.finish().unwrap();
    let whole = crate::program::command()
        .args(["calls", "-o", "jsonl", "-s"])
        .arg(&path)
        .output()
        .unwrap();
    let ids = |text: &str| {
        let v: serde_json::Value = serde_json::from_str(text).unwrap();
        (
            v["conn"].as_u64(),
            v["stream"].as_u64(),
            v["end_ns"].as_i64(),
        )
    };
    let want: std::collections::BTreeSet<_> = String::from_utf8(whole.stdout)
        .unwrap()
        .lines()
        .map(ids)
        .collect();
    let ended = want.iter().filter(|(.., end)| end.is_some()).count();
    while told.len() < ended {
        told.push(lines.next().unwrap().unwrap());
    }
    let kill = Command::new("kill").arg(child.id().to_string()).status();
    assert!(kill.unwrap().success());
    told.extend(lines.map(Result::unwrap));
    child.wait().unwrap();
    let got: std::collections::BTreeSet<_> = told.iter().map(|l| ids(l)).collect();
    assert_eq!(got.len(), told.len(), "a call was told twice");
    assert!(
        ended > 100 && got == want,
        "{} of {}",
        got.len(),
        want.len()
    );
}

#[test]
fn a_recording_goes_through_a_pipe_and_is_read_back() {
    let (rig, _runtime, proxy) = tapped();
    let (mut all, mut rest) = recorded_calls();
    all.append(&mut rest);
    proxy.ring.push(&mut all, kflow_model::clock::monotonic());
    let mut writes = crate::program::command()
        .args(["record", "--no-api", "--for", "2s", "-O", "-", "--proxy"])
        .arg(rig.path("obs.sock"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let reads = crate::program::command()
        .args(["calls", "-o", "json", "-s", "-"])
        .stdin(writes.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(writes.wait().unwrap().success());
    let calls: Vec<serde_json::Value> = serde_json::from_slice(&reads.stdout).unwrap();
    assert!(
        calls.len() > 100,
        "{}",
        String::from_utf8_lossy(&reads.stderr)
    );
}

/// A line of the recording S15, as journalctl prints it.
#[test]
fn the_log_of_crio_is_followed_in_its_units_journal() {
    let dir = tempfile::tempdir().unwrap();
    let line = "time=\"2026-11-21T22:28:33.685319001Z\" level=info msg=\"Running pod sandbox: sd01/healthy/POD\" id=5ced55d1-a1ee-42b8-8dae-fd21529ec517 name=/runtime.v1.RuntimeService/RunPodSandbox";
    let entry = serde_json::json!({
        "__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "1795300113685401", "_SYSTEMD_UNIT": "crio.service",
        "SYSLOG_IDENTIFIER": "crio", "PRIORITY": "6", "_HOSTNAME": "node1", "MESSAGE": line,
    });
    let entries = dir.path().join("entries");
    fs::write(&entries, format!("{entry}\n")).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *\"--unit $UNIT\"*) cat '{}';; esac\nexec sleep 60\n",
        entries.display()
    );
    let program = dir.path().join("journalctl");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    for (asked, unit) in [
        ("journal", "crio"),
        ("journal:cri-o.service", "cri-o.service"),
    ] {
        let out = dir.path().join(format!("{unit}.kflow"));
        let wrote = crate::program::command()
            .args([
                "record",
                "--no-api",
                "--for",
                "2s",
                "--crio-log",
                asked,
                "-O",
            ])
            .arg(&out)
            .env("PATH", &path)
            .env("UNIT", unit)
            .output()
            .unwrap();
        assert!(wrote.status.success(), "{wrote:?}");
        let session = session::load(&out).unwrap();
        let logged = session.observations.iter().find_map(|o| match &o.body {
            Body::Log(l) if l.component == Component::Crio => Some((o, l)),
            _ => None,
        });
        let (o, l) = logged.expect("the line");
        assert_eq!(o.source, Source::Runtime);
        assert_eq!(
            (l.pod.namespace.as_str(), l.pod.name.as_str()),
            ("sd01", "healthy")
        );
        assert_eq!(o.stamp.at, Nanos(1_795_300_113_685_319_001));
    }
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let s1 = crate::fixture("sessions/S1-basics.kflow.zst");
    let s1 = s1.to_str().unwrap();
    for (args, words) in [
        (&["-s", s1][..], "leave out --session"),
        (&["--no-api", "-o", "json"], "one array"),
        (&["--no-api"], "nothing to ask"),
    ] {
        let out = crate::program::command()
            .args(["calls", "--follow"])
            .args(args)
            .env_remove("KFLOW_SESSION")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
