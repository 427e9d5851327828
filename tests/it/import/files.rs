//! Input files in any state: split, compressed, cut, empty, of another kind; and the places to which a
//! session may be written.

use super::{Desk, capture, fixture, run, text, unpacked};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::process::Stdio;

#[test]
fn a_log_that_rotated_is_one_log_whatever_order_its_files_come_in() {
    let desk = Desk::new();
    let log = capture("kubelet.log");
    let whole = desk.file("whole.log", &log);
    let (want, _) = desk.import("whole.kflow", &["--kubelet-log", &whole]);
    // The pieces are cut inside a line, as by a truncating copy; two are compressed, and one is not.
    let cut = |n: usize| log.len() * n / 3 + 11;
    let old = {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&log[..cut(1)]).unwrap();
        desk.file("kubelet.log.2.gz", gz.finish().unwrap())
    };
    let middle = desk.file(
        "kubelet.log.1.zst",
        zstd::bulk::compress(&log[cut(1)..cut(2)], 3).unwrap(),
    );
    let new = desk.file("kubelet.log", &log[cut(2)..]);
    let mut sessions = Vec::new();
    for (n, order) in [
        [&old, &middle, &new],
        [&new, &middle, &old],
        [&middle, &new, &old],
    ]
    .into_iter()
    .enumerate()
    {
        let args: Vec<&str> = order.iter().flat_map(|f| ["--kubelet-log", f]).collect();
        let (session, said) = desk.import(&format!("{n}.kflow"), &args);
        assert_eq!(said.lines().count(), 5, "a row a file: {said}");
        sessions.push(unpacked(&session));
    }
    assert!(sessions[0] == sessions[1] && sessions[1] == sessions[2]);
    // Two lines were cut in half; no other observation differs.
    let observations = |session: &[u8]| text(session).lines().count();
    let (all, pieces) = (observations(&unpacked(&want)), observations(&sessions[0]));
    assert!(all - pieces <= 2, "{all} and {pieces}");
}

#[test]
fn the_year_turns_between_the_files_of_a_log() {
    let desk = Desk::new();
    let old = desk.file(
        "kubelet.log.1",
        "I1231 23:59:58.000000    1 kubelet.go:2724] \"SyncLoop ADD\" source=\"api\" pods=[\"a/b\"]\n",
    );
    let new = desk.file(
        "kubelet.log",
        "I0101 00:00:02.000000    1 kubelet.go:2724] \"SyncLoop ADD\" source=\"api\" pods=[\"a/c\"]\n",
    );
    let range = |args: &[&str]| {
        let (session, said) = desk.import("y.kflow", args);
        let log = text(&unpacked(&session));
        assert_eq!(log.lines().count(), 3, "{log}");
        let last = said.lines().last().unwrap().to_owned();
        assert!(
            last.contains(", 4.00s from") || last.contains(", 4s from"),
            "{last}"
        );
        last
    };
    // `--year` is the year of the oldest line, whatever the order of the files.
    for order in [[&old, &new], [&new, &old]] {
        let said = range(&[
            "--kubelet-log",
            order[0],
            "--kubelet-log",
            order[1],
            "--year",
            "2024",
        ]);
        assert!(said.contains("from 2024-12-31T23:59:58"), "{said}");
    }
    // Without `--year` another capture tells the year, on either side of New Year.
    for t in ["2025-12-31T23:59:50Z", "2026-01-01T00:00:10Z"] {
        let node = desk.file(
            "node.json",
            format!(
                r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"n","creationTimestamp":"{t}"}}}}"#
            ),
        );
        let (session, said) = desk.import(
            "z.kflow",
            &[
                "--kubelet-log",
                &new,
                "--watch",
                &node,
                "--kubelet-log",
                &old,
            ],
        );
        let log = text(&unpacked(&session));
        assert!(log.contains("\"t\":1767225598000000000"), "{said}{log}");
        assert!(log.contains("\"t\":1767225602000000000"), "{said}{log}");
    }
}

#[test]
fn a_file_given_to_the_wrong_flag_is_told_what_it_is() {
    let desk = Desk::new();
    let of = |name: &str| {
        fixture("captures")
            .join(format!("{name}.zst"))
            .display()
            .to_string()
    };
    let session = fixture("sessions/S13-crictl.kflow.zst")
        .display()
        .to_string();
    for (flag, file, word) in [
        ("--kubelet-log", of("audit.jsonl"), "given with --audit"),
        (
            "--kubelet-log",
            of("containerd.log"),
            "given with --containerd-log",
        ),
        ("--audit", of("kubelet.log"), "--kubelet-log"),
        ("--audit", of("watch.jsonl"), "given with --watch"),
        (
            "--watch",
            fixture("lab/fs.jsonl.zst").display().to_string(),
            "nor anything else",
        ),
        (
            "--watch",
            fixture("lab/watch.jsonl.zst").display().to_string(),
            "nor anything else",
        ),
        (
            "--otlp",
            fixture("otlp/exports.jsonl").display().to_string(),
            "nor anything else",
        ),
        ("--watch", of("audit.jsonl"), "given with --audit"),
        ("--otlp", of("audit.jsonl"), "given with --audit"),
        ("--containerd-log", of("kubelet.log"), "--kubelet-log"),
        ("--watch", session, "kflow replay"),
        (
            "--audit",
            desk.file("junk", [7_u8; 5000]),
            "nor anything else",
        ),
    ] {
        let said = desk.refused(&[flag, &file]);
        assert!(said.contains(word), "{flag} {file}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        // The file is refused even beside a good capture.
        let said = desk.refused(&[flag, &file, "--scheduler-log", &of("scheduler.log")]);
        assert!(said.contains(word), "{flag} {file}: {said}");
    }
}

#[test]
fn captures_without_an_observation_make_no_session() {
    let desk = Desk::new();
    let empty = desk.file("empty", "");
    let said = desk.refused(&["--kubelet-log", &empty, "--watch", "/dev/null"]);
    assert!(said.contains("it is empty"), "{said}");
    assert!(said.contains("no session was written"), "{said}");
    // A capture that has observations makes a session, and the empty one is reported.
    let log = fixture("captures/scheduler.log.zst").display().to_string();
    let (_, said) = desk.import("a.kflow", &["--watch", &empty, "--scheduler-log", &log]);
    assert!(said.contains("it is empty"), "{said}");
}

#[test]
fn folders_and_files_are_told_apart() {
    let desk = Desk::new();
    let captures = fixture("captures").display().to_string();
    let file = fixture("captures/audit.jsonl.zst").display().to_string();
    let said = desk.refused(&["--audit", &captures]);
    assert!(said.contains("give it without a flag"), "{said}");
    let (a, _) = desk.import("a.kflow", &["--audit", &file]);
    let (b, _) = desk.import("b.kflow", &[&file]);
    assert_eq!(unpacked(&a), unpacked(&b));
}

#[test]
fn what_is_no_file_is_never_opened_and_always_named() {
    let desk = Desk::new();
    for bundle in ["", "bundle/"] {
        let folder = desk.dir.path().join(format!("captures-{}", bundle.len()));
        let inner = folder.join(bundle);
        std::fs::create_dir_all(&inner).unwrap();
        let list = inner.join("pods.json");
        std::fs::write(&list, r#"{"apiVersion":"v1","kind":"PodList","items":[]}"#).unwrap();
        std::fs::copy(
            fixture("captures/watch.jsonl.zst"),
            folder.join("nodes.jsonl.zst"),
        )
        .unwrap();
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, inner.join(name)).unwrap();
        };
        // Each of these would be read without end, or lead in a circle.
        link("/dev/zero", "kubelet.log");
        link("..", "loop");
        link("/no/such/file", "audit.log");
        let _socket = std::os::unix::net::UnixListener::bind(inner.join("watch.json")).unwrap();
        let (_, said) = desk.import("a.kflow", &[&folder.display().to_string()]);
        for (name, why) in [
            ("kubelet.log", "a link to what is no regular file"),
            ("loop", "a link to a folder"),
            ("audit.log", "a link to nothing"),
            ("watch.json", "no regular file"),
        ] {
            assert!(said.contains(&format!("{bundle}{name} ({why})")), "{said}");
        }
    }
}

#[test]
fn a_session_can_go_to_standard_output_and_captures_come_from_standard_input() {
    let log = capture("kubelet.log");
    let mut import = crate::program::command()
        .args(["import", "--kubelet-log", "-", "-O", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = import.stdin.take().unwrap();
    let feed = std::thread::spawn(move || stdin.write_all(&log));
    let out = import.wait_with_output().unwrap();
    feed.join().unwrap().unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert!(text(&out.stderr).contains("observations"));
    assert!(out.stdout.starts_with(b"{\"kflow\":1,"));
    let desk = Desk::new();
    let path = desk.file("piped.kflow", &out.stdout);
    assert!(Desk::timelines(&path).contains("steady"));
}

#[test]
fn a_session_is_put_in_the_place_of_a_session_and_of_nothing_else() {
    let desk = Desk::new();
    let log = fixture("captures/scheduler.log.zst").display().to_string();
    let (session, _) = desk.import("a.kflow", &["--scheduler-log", &log]);
    let first = unpacked(&session);
    desk.import("a.kflow", &["--scheduler-log", &log]);
    assert!(first == unpacked(&session));
    // The output file is the capture itself, by mistake.
    let precious = desk.file("kubelet.log", capture("kubelet.log"));
    let o = run(&["import", "--kubelet-log", &precious, "-O", &precious]);
    assert_eq!(o.status.code(), Some(2));
    assert!(
        text(&o.stderr).contains("is not replaced"),
        "{}",
        text(&o.stderr)
    );
    assert!(unpacked(&precious) == capture("kubelet.log"));
    let folder = desk.dir.path().display().to_string();
    let o = run(&["import", "--scheduler-log", &log, "-O", &folder]);
    assert_eq!(o.status.code(), Some(2));
    assert!(
        text(&o.stderr).contains("it is a folder"),
        "{}",
        text(&o.stderr)
    );
    // A link stays a link: the session is written to the file behind it.
    let link = desk.path("link.kflow");
    std::os::unix::fs::symlink(&session, &link).unwrap();
    desk.import("link.kflow", &["--scheduler-log", &log]);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let log = fixture("captures/kubelet.log.zst").display().to_string();
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let o = run(&["import", "--kubelet-log", &log, "-O", "/dev/full"]);
    assert_eq!(o.status.code(), Some(2), "{}", text(&o.stderr));
    assert!(
        text(&o.stderr).contains("No space left"),
        "{}",
        text(&o.stderr)
    );
    let kind = std::fs::metadata("/dev/full").unwrap().file_type();
    assert!(kind.is_char_device(), "the device is still one");
}
