//! A command's streams: a session from standard input, a reader that closes the pipe, and a disk that is full.

use std::process::Stdio;

use super::s1;
use crate::fixture;

/// Every command that answers on standard output.
fn answers() -> Vec<Vec<String>> {
    let session = |name: &str| fixture(name).display().to_string();
    let calm = session("sessions/S13-crictl.kflow.zst");
    let stuck = session("sessions/S2-stuck-early.kflow.zst");
    let of_session = [
        "timeline",
        "timeline -o json",
        "timeline no-such-pod",
        "calls",
        "calls -o json",
        "why --all -n no-such-namespace -o json",
        "flow s18c/new-pod",
        "flow -o json",
        "requests",
        "requests -o json",
        "stats",
        "stats -o openmetrics",
        "export -o json",
        "export -o html",
        "export -o otlp",
    ];
    let of_nothing = [
        "flow",
        "flow --map-source",
        "causes",
        "causes KF505",
        "keys",
        "themes",
        "themes --keys",
        "config",
        "config --print-default",
        "completions bash",
        "man",
        "doctor -o json",
    ];
    let of_stuck_pods = ["why --all --at 50%", "why --all --at 50% -o json"];
    let split = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    of_session
        .iter()
        .map(|line| (line, &calm))
        .chain(of_stuck_pods.iter().map(|line| (line, &stuck)))
        .map(|(line, session)| [split(line), vec!["-s".to_owned(), session.clone()]].concat())
        .chain(of_nothing.iter().map(|line| split(line)))
        .collect()
}

#[test]
fn a_reader_that_has_enough_changes_no_answer() {
    for args in answers() {
        let whole = crate::program::command().args(&args).output().unwrap();
        let mut child = crate::program::command()
            .args(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let cut = child.wait_with_output().unwrap();
        assert_eq!(cut.status, whole.status, "{args:?}");
        assert_eq!(
            String::from_utf8_lossy(&cut.stderr),
            String::from_utf8_lossy(&whole.stderr),
            "{args:?}"
        );
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error_that_says_so() {
    for args in answers() {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let whole = crate::program::command().args(&args).output().unwrap();
        let out = crate::program::command()
            .args(&args)
            .stdout(full)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        if whole.stdout.is_empty() {
            assert_eq!(out.status, whole.status, "{args:?}: {said}");
            continue;
        }
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(
            said.contains("cannot write to standard output: "),
            "{args:?}: {said}"
        );
    }
}

/// Standard error may be closed or full (a restarted journal, `2>&1 | head`, a full disk): the answer still comes.
#[test]
fn notices_that_cannot_be_written_change_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("out.kflow").display().to_string();
    let audit = fixture("audit/audit.jsonl").display().to_string();
    for args in [
        &["why", "no/such", "-s", &s1()][..],
        &["why", "--all", "-s", &s1(), "--at", "+0s"],
        &["timeline", "-n", "s09", "-s", &s1(), "--at", "+2s"],
        &["requests", "-s", &s1(), "--at", "50%"],
        &["timeline", "-s", "/nowhere"],
        &["causes", "KF000"],
        &["import", "--audit", &audit, "-O", &session],
    ] {
        let whole = crate::program::command().args(args).output().unwrap();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let (reader, gone) = std::io::pipe().unwrap();
        drop(reader);
        for stderr in [Stdio::from(full.unwrap()), Stdio::from(gone)] {
            let mut command = crate::program::command();
            let out = command.args(args).env("KFLOW_LOG", "debug").stderr(stderr);
            let out = out.output().unwrap();
            assert_eq!(out.status, whole.status, "{args:?}");
            assert_eq!(out.stdout, whole.stdout, "{args:?}");
        }
    }
}

#[test]
fn a_session_can_come_from_standard_input() {
    let out = crate::program::command()
        .args(["timeline", "healthy", "-s", "-"])
        .stdin(std::fs::File::open(s1()).unwrap())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert!(
        String::from_utf8(out.stdout)
            .unwrap()
            .starts_with("s01/healthy")
    );
}
