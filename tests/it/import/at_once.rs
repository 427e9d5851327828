//! Captures that are given in the place of a session.

use super::{Desk, capture, run, text};
use crate::fixture;
use crate::program::command;
use std::fs::File;
use std::process::Output;

/// Answers of several kinds, each with its arguments.
const ASKED: [&[&str]; 4] = [
    &["why", "--all", "-o", "json"],
    &["timeline", "-o", "json"],
    &["calls", "-o", "json"],
    &["export", "-o", "perfetto"],
];

fn asked(args: &[&str], session: &str) -> Output {
    run(&[args, &["-s", session]].concat())
}

#[test]
fn captures_tell_what_the_session_tells_that_is_imported_from_them() {
    let desk = Desk::new();
    let pasted = std::fs::read(fixture("kubectl/s2-image-missing-1.36.txt")).unwrap();
    let written = "2026-11-27T00:38:00Z";
    let folder = desk.path("bundle");
    std::fs::create_dir(&folder).unwrap();
    for (name, kind) in [
        ("kubelet.log", "kubelet.log"),
        ("watch.jsonl", "watch.jsonl"),
    ] {
        std::fs::write(format!("{folder}/{name}"), capture(kind)).unwrap();
    }
    for path in [
        desk.file_of("paste.txt", pasted, written),
        desk.file(
            "kubelet.log.gz",
            super::archive::gz(&capture("kubelet.log")),
        ),
        folder,
    ] {
        let (session, _) = desk.import("imported.kflow", &[&path]);
        for args in ASKED {
            let (want, got) = (asked(args, &session), asked(args, &path));
            assert_eq!(text(&got.stdout), text(&want.stdout), "{path}: {args:?}");
            assert_eq!(got.status, want.status, "{path}: {args:?}");
        }
        let why = asked(&["timeline"], &path);
        assert!(!why.stdout.is_empty(), "{path}: {}", text(&why.stderr));
    }
}

#[test]
fn they_can_come_from_standard_input() {
    let path = fixture("kubectl/s2-image-missing-1.36.txt");
    let o = command()
        .args(["why", "--all", "-s", "-"])
        .stdin(File::open(&path).unwrap())
        .output()
        .unwrap();
    let said = text(&o.stdout);
    assert!(said.contains("KF6"), "{said}{}", text(&o.stderr));
}

#[test]
fn what_an_import_notes_is_said_with_the_answer() {
    let desk = Desk::new();
    let row = "NAME    READY   STATUS             RESTARTS   AGE\nweb-0   0/1     ImagePullBackOff   0          12m\n";
    let o = asked(&["why", "--all"], &desk.file("row.txt", row));
    let (out, err) = (text(&o.stdout), text(&o.stderr));
    assert!(out.contains("KF613"), "{out}{err}");
    assert!(
        err.contains("stand for names that the text does not tell"),
        "{err}"
    );
}

#[test]
fn what_is_neither_is_refused_with_both_reasons() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("empty")).unwrap();
    for (path, why) in [
        (desk.file("hello.txt", "hello\n"), "kubectl describe pod"),
        (
            desk.file("klog.txt", capture("kubelet.log")),
            "--kubelet-log",
        ),
        (desk.file("nothing.kflow", ""), "it is empty"),
        (desk.path("empty"), "it is a folder"),
    ] {
        for args in [&["why", "--all"][..], &["replay"]] {
            let all = match args {
                ["replay"] => vec!["replay", &path],
                _ => [args, &["-s", &path]].concat(),
            };
            let o = run(&all);
            let said = text(&o.stderr);
            assert_eq!(o.status.code(), Some(2), "{all:?}: {said}");
            assert!(o.stdout.is_empty(), "{all:?}");
            for words in ["is not a kflow session", why, "cannot be imported"] {
                assert!(said.contains(words), "{all:?}: {said}");
            }
        }
    }
}
