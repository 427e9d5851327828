//! The recorder: what it wrote is readable, whatever became of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use kflow_engine::record::{KEEP, Options, Recorder, numbered};
use kflow_model::fs::{FsAction, FsChange, FsObject};
use kflow_model::gap::Note;
use kflow_model::pod::PodSeen;
use kflow_model::session;
use kflow_model::{Body, Evidence, Nanos, Observation, PodUid, Source, Stamp, Text};

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
    // Text that does not compress away.
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
        (end.observations, end.lost, end.stopped.as_deref()),
        (5000, 0, Some("stopped"))
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
    // A recording of an earlier run has a number that this one would take.
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
}

/// The limit of a file's size stands for the disk's: both refuse a write in the middle.
#[test]
fn a_full_disk_ends_the_recording_where_it_is_readable_and_says_so() {
    let rig = crate::proxy::rig::Rig::new();
    let proxy = rig.start(kflow_cri::Decoder::new());
    let path = rig.path("run.kflow.zst");
    let child = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 40; exec \"$0\" record --no-api --proxy \"$1\" -o \"$2\"",
        ])
        .arg(env!("CARGO_BIN_EXE_kflow"))
        .arg(rig.path("obs.sock"))
        .arg(&path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    crate::proxy::rig::eventually("it records", || path.exists().then_some(()));
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
            pod: Some("ns/wanted".into()),
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

/// A proxy whose socket can be followed, so that `kflow record` has a source.
#[test]
fn a_recording_after_kill_9_is_readable_up_to_the_last_flush() {
    let rig = crate::proxy::rig::Rig::new();
    // The source is on while the runtime behind the proxy answers.
    let _runtime = rig.upstream();
    let proxy = rig.start(kflow_cri::Decoder::new());
    let path = rig.path("run.kflow.zst");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kflow"))
        .args(["record", "--no-api", "--proxy"])
        .arg(rig.path("obs.sock"))
        .arg("-o")
        .arg(&path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    said.find(|l| l.as_ref().unwrap().contains("cri proxy: on"))
        .unwrap()
        .unwrap();
    proxy.ring.push(
        &mut (0..100).map(|n| (*note(n)).clone()).collect(),
        kflow_model::clock::monotonic(),
    );
    crate::proxy::rig::eventually("a hundred observations are on disk", || {
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
    let rig = crate::proxy::rig::Rig::new();
    // The source is on while the runtime behind the proxy answers.
    let _runtime = rig.upstream();
    let proxy = rig.start(kflow_cri::Decoder::new());
    let path = rig.path("run.kflow.zst");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kflow"))
        .args(["record", "--no-api", "--proxy"])
        .arg(rig.path("obs.sock"))
        .arg("-o")
        .arg(&path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    said.find(|l| l.as_ref().unwrap().contains("cri proxy: on"))
        .unwrap()
        .unwrap();
    proxy.ring.push(
        &mut vec![(*note(7)).clone()],
        kflow_model::clock::monotonic(),
    );
    crate::proxy::rig::eventually("it has arrived", || {
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
