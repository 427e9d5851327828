//! The program as a user runs it: arguments, output, exit codes.

mod streams;

use crate::fixture;
use crate::program::command;
use serde_json::Value;
use std::process::{Command, Output};

pub(crate) fn run(args: &[&str]) -> Output {
    command().args(args).output().unwrap()
}

fn s1() -> String {
    crate::recording("S1-basics").display().to_string()
}

fn json(args: &[&str]) -> Vec<Value> {
    let out = run(args);
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn timelines_have_the_documented_form() {
    let pods = json(&["timeline", "-o", "json", "--session", &s1()]);
    assert!(pods.len() >= 6);
    let stages: Vec<&str> = kflow_core::flow::Stage::ALL
        .iter()
        .map(|s| s.name())
        .collect();
    let mut spans = 0;
    for pod in &pods {
        for key in ["uid", "namespace", "name", "node", "phase", "status"] {
            assert!(pod[key].is_string(), "{key}: {pod}");
        }
        let all = pod["spans"].as_array().unwrap();
        for s in all {
            spans += 1;
            assert!(stages.contains(&s["stage"].as_str().unwrap()));
            assert!(
                ["ok", "error", "in-flight", "cancelled"].contains(&s["outcome"].as_str().unwrap())
            );
            assert!(
                ["measured", "inferred", "bounded"].contains(&s["certainty"].as_str().unwrap())
            );
            assert!(s["start_ns"].is_i64() && (s["end_ns"].is_i64() || s["end_ns"].is_null()));
            assert!(s["precision_ns"].as_u64().unwrap() >= 1);
            assert!(!s["sources"].as_array().unwrap().is_empty(), "{s}");
            if let Some(p) = s["parent"].as_u64() {
                assert!((p as usize) < all.len());
            }
            for key in ["step", "container", "code", "message"] {
                assert!(s[key].is_string(), "{key}: {s}");
            }
        }
        assert!(pod["marks"].is_array() && pod["gaps"].is_array());
    }
    assert!(spans > 50);
}

#[test]
fn a_pod_is_named_in_three_ways() {
    let by_key = json(&["timeline", "s01/healthy", "-o", "json", "-s", &s1()]);
    assert_eq!(by_key.len(), 1);
    let uid = by_key[0]["uid"].as_str().unwrap();
    assert_eq!(json(&["timeline", uid, "-o", "json", "-s", &s1()]), by_key);
    assert_eq!(
        json(&["timeline", "healthy", "-o", "json", "-s", &s1()]),
        by_key
    );
    let from_env = command()
        .args(["timeline", "healthy", "-o", "json"])
        .env("KFLOW_SESSION", s1())
        .output()
        .unwrap();
    assert_eq!(
        serde_json::from_slice::<Vec<Value>>(&from_env.stdout).unwrap(),
        by_key
    );
}

#[test]
fn pods_of_the_past_are_shown_when_they_are_asked_for() {
    // In this recording the apiserver still returned the Events of eleven earlier recordings.
    let s12 = fixture("sessions/S12-alpha-gates.kflow.zst")
        .display()
        .to_string();
    let keys = |args: &[&str]| {
        let mut all = vec!["timeline", "-o", "json", "-s", &s12];
        all.extend(args);
        let mut keys: Vec<String> = json(&all)
            .iter()
            .map(|p| format!("{}/{}", p["namespace"], p["name"]).replace('"', ""))
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&[]), ["s60/healthy", "s61/crash"]);
    assert!(keys(&["--past"]).len() > 100);
    assert_eq!(keys(&["s01/healthy"]), ["s01/healthy"], "named, it is told");
    assert_eq!(keys(&["healthy"]), ["s60/healthy"], "the one that is meant");
    assert!(keys(&["healthy", "--past"]).len() > 1);
    let said = String::from_utf8(run(&["timeline", "-s", &s12]).stderr).unwrap();
    assert!(said.contains("--past shows them"), "{said}");
}

#[test]
fn a_namespace_chooses_pods_of_a_session_too() {
    let all = json(&["timeline", "-o", "json", "-s", &s1()]);
    let one = json(&["timeline", "-n", "s36", "-o", "json", "-s", &s1()]);
    assert!(!one.is_empty() && one.len() < all.len());
    assert!(one.iter().all(|p| p["namespace"] == "s36"));
    let calls = json(&["calls", "-n", "s36", "-o", "json", "-s", &s1()]);
    assert!(!calls.is_empty());
    assert!(calls.iter().all(|c| c["namespace"] == "s36"));
    let elsewhere = run(&["timeline", "healthy", "-n", "s36", "-s", &s1()]);
    assert_eq!(elsewhere.status.code(), Some(3));
    let said = String::from_utf8(elsewhere.stderr).unwrap();
    assert!(said.contains("s01/healthy"), "{said}");
}

#[test]
fn without_arguments_it_says_where_to_begin() {
    let out = command().output().expect("kflow runs");
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    for begin in [
        "kflow demo",
        "kflow why --all",
        "kflow tui --node",
        "kflow doctor",
        "kflow help",
    ] {
        assert!(told.contains(begin), "{begin}: {told}");
    }
    // Each name is a command.
    let named = told
        .lines()
        .filter_map(|l| l.strip_prefix("  kflow ")?.split(' ').next());
    for command in named {
        let out = run(&[command, "--help"]);
        assert_eq!(out.status.code(), Some(0), "{command}");
    }
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    let code = |args: &[&str]| run(args).status.code();
    assert_eq!(code(&["timeline", "s01/healthy", "-s", &s1()]), Some(0));
    assert_eq!(code(&["timeline", "s01/helthy", "-s", &s1()]), Some(3));
    assert_eq!(code(&["calls", "--pod", "nobody", "-s", &s1()]), Some(3));
    assert_eq!(code(&["timeline", "-s", "/no/such/file"]), Some(2));
    assert_eq!(code(&["timeline", "--no-api"]), Some(2));
    assert_eq!(code(&["why", "--all", "--watch", "-s", &s1()]), Some(2));
    assert_eq!(code(&["why", "--all", "--node", "n", "-s", &s1()]), Some(2));
    assert_eq!(
        code(&["timeline", "-s", &s1(), "--at", "yesterday"]),
        Some(2)
    );
    assert_eq!(code(&["calls", "--slower-than", "5", "-s", &s1()]), Some(2));
    assert_eq!(code(&["nonsense"]), Some(2));
    assert_eq!(code(&["--help"]), Some(0));
}

/// Returns what a command printed, without line breaks of text, and its exit code.
fn told(args: &[&str]) -> (String, Option<i32>) {
    let out = run(args);
    let said = [out.stdout, out.stderr].concat();
    let said = String::from_utf8_lossy(&said).replace("\\\n", " ");
    (crate::one_line(&said), out.status.code())
}

#[test]
fn a_hint_is_as_of_the_moment_that_was_asked_about() {
    let s2 = crate::recording("S2-stuck-early").display().to_string();
    for (args, file, hint) in [
        (
            &["why", "default/smoke", "--at", "50%"][..],
            &s2,
            "kflow why --ever default/smoke -s FILE --at 50%",
        ),
        (
            &["why", "default/smoke"],
            &s2,
            "kflow why --ever default/smoke -s FILE",
        ),
        (
            &["requests", "--id", "nothing", "--at", "50%"],
            &s2,
            "kflow requests --list -s FILE --at 50%",
        ),
        (
            &["why", "--all", "--at", "99.9%"],
            &s2,
            "kflow why --ever -s FILE --at 99.9%",
        ),
    ] {
        let (said, _) = told(&[args, &["-s", file]].concat());
        let hint = hint.replace("FILE", file);
        assert!(said.contains(&hint), "{args:?}: {said}");
    }
    // An earlier moment is one at which there were pods, whatever moment was named.
    let (said, _) = told(&["why", "--all", "--at", "99.9%", "-s", &s2]);
    let hint = said.split("As of an earlier moment: kflow ").nth(1);
    let hint = hint.unwrap_or_default();
    let args: Vec<&str> = hint.split(' ').take(6).collect();
    let (said, _) = told(&args);
    let there = said.starts_with("There is") || said.starts_with("There are");
    assert!(there && !said.contains("no pods"), "{args:?}: {said}");
}

#[test]
fn what_cannot_be_read_is_said_with_what_to_do_next() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let newer = file("newer.kflow", "{\"kflow\":99,\"tool\":\"9.0.0\"}\n");
    let notes = file("notes.txt", "hello\n");
    let empty = file("empty.kflow", "");
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.display().to_string();
    for (args, words) in [
        (vec!["timeline", "-s", &newer], "9.0.0"),
        (vec!["timeline", "-s", &notes], "not a kflow session"),
        (vec!["timeline", "-s", &empty], "empty"),
        (vec!["timeline", "-s", &folder], "not a kflow session"),
        (vec!["timeline", "-s", "/no/such/file"], "/no/such/file"),
        (vec!["timeline", "--no-api"], "nothing to ask"),
        (vec!["why", "x"], "kflow doctor"),
    ] {
        let out = run(&args);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
        assert!(out.stdout.is_empty());
    }
}

#[test]
fn a_name_that_nobody_has_is_answered_with_those_a_slip_away() {
    for args in [
        ["timeline", "s01/helthy", "-s", &s1()],
        ["why", "s01/helthy", "-s", &s1()],
    ] {
        let out = run(&args);
        assert_eq!(out.status.code(), Some(3));
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            told.contains("did you mean") && told.contains("s01/healthy"),
            "{told}"
        );
    }
}

/// The answer to each form of a name, as kubectl takes and prints them, is that to the form that the manual has.
#[test]
fn a_name_is_taken_in_the_forms_that_kubectl_has() {
    let s2 = crate::recording("S2-stuck-early").display().to_string();
    let why = |query: &[&str]| {
        let args = [&["why"], query, &["-s", &s2, "--at", "50%"]].concat();
        let out = run(&args);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        (out.status.code(), text)
    };
    for (wanted, others) in [
        (
            "deploy/quota",
            &[
                &["deployments.apps/quota"][..],
                &["deployment/s29/quota"],
                &["s29/deploy/quota"],
                &["deploy", "quota"],
                &["Deployment", "quota"],
                &["deploy", "s29/quota"],
                &["quota"],
                &["s29/quota"],
            ][..],
        ),
        ("s02/image-missing", &[&["pod", "image-missing"]]),
        ("node/node1", &[&["no/node1"], &["node1"]]),
        ("ns/s02", &[&["s02"], &["namespace", "s02"]]),
    ] {
        let (code, text) = why(&[wanted]);
        assert!(code < Some(2) && !text.is_empty(), "{wanted}: {text}");
        for other in others {
            assert_eq!(why(other), (code, text.clone()), "{other:?}");
        }
    }
    // Two names are not one, and of another kind than a pod nothing has the name of a pod that is asked for as one.
    assert_eq!(why(&["image-missing", "cm-missing"]).0, Some(2));
    assert_eq!(why(&["pod/quota"]).0, Some(3));
}

/// A command that there is not: the one that was meant, by a slip or by its name in another program.
#[test]
fn a_command_that_there_is_not_is_answered_with_the_one_that_was_meant() {
    for (word, wanted) in [
        ("wy", "similar subcommand exists: 'why'"),
        ("replai", "similar subcommand exists: 'replay'"),
        ("describe", "there is 'kflow why': Say why a pod is stuck"),
        ("get", "there is 'kflow tui': "),
    ] {
        let out = run(&[word, "pod", "web"]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{word}");
        assert!(told.contains(wanted), "{word}: {told}");
    }
    assert!(!String::from_utf8_lossy(&run(&["qqq"]).stderr).contains("tip"));
}

#[cfg(unix)]
#[test]
fn as_a_plugin_of_kubectl_it_goes_by_that_name() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("kubectl-kflow");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kflow"), &plugin).unwrap();
    let out = Command::new(&plugin)
        .args(["why", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(help.contains("Usage: kubectl kflow why"), "{help}");
}

#[test]
fn as_of_a_time_nothing_later_is_known() {
    let begin = json(&["timeline", "-o", "json", "-s", &s1(), "--at", "+1s"]);
    let end = json(&["timeline", "-o", "json", "-s", &s1()]);
    assert!(begin.len() < end.len());
    // s01/healthy was created at 00:24:27 and deleted at 00:25:08.
    let at = |t: &str| {
        json(&[
            "timeline",
            "s01/healthy",
            "-o",
            "json",
            "-s",
            &s1(),
            "--at",
            t,
        ])
    };
    let running = at("2026-11-21T00:24:45Z");
    assert_eq!(running[0]["status"], "Running");
    assert_eq!(at("1795220685000000000"), running);
    let starting = at("2026-11-21T00:24:28Z");
    assert!(
        starting[0]["spans"]
            .as_array()
            .unwrap()
            .iter()
            .any(|s| s["outcome"] == "in-flight"
                && s["end_ns"].is_null()
                && s["step"] == "RunPodSandbox"),
        "{starting:?}"
    );
}

#[test]
fn calls_have_the_documented_form_and_filters() {
    let all = json(&["calls", "-o", "json", "-s", &s1()]);
    let keys = [
        "start_ns",
        "end_ns",
        "conn",
        "stream",
        "service",
        "method",
        "code",
        "message",
        "pod_uid",
        "namespace",
        "pod",
        "container",
        "sandbox_id",
        "container_id",
        "image",
        "request_bytes",
        "response_bytes",
        "traceparent",
    ];
    for call in &all {
        for key in keys {
            assert!(call.get(key).is_some(), "{key}: {call}");
        }
    }
    assert!(all.is_sorted_by_key(|c| c["start_ns"].as_i64()));
    let some = |args: &[&str]| {
        let mut a = vec!["calls", "-o", "json", "-s"];
        let path = s1();
        a.push(&path);
        a.extend(args);
        json(&a)
    };
    let sandboxes = some(&["--method", "runpodsandbox"]);
    assert!(!sandboxes.is_empty());
    assert!(sandboxes.iter().all(|c| c["method"] == "RunPodSandbox"));
    let both = some(&["--method", "RunPodSandbox,PullImage"]);
    assert!(both.len() > sandboxes.len());
    let healthy = some(&["--pod", "s01/healthy", "--method", "CreateContainer"]);
    assert_eq!(healthy.len(), 3, "setup, web, worker");
    let errors = some(&["--errors"]);
    assert!(!errors.is_empty() && errors.iter().all(|c| c["code"] != "OK"));
    let slow = some(&["--slower-than", "1s"]);
    assert!(!slow.is_empty() && slow.len() < all.len());
    let quiet = some(&["--no-noise"]);
    assert!(quiet.len() < all.len());
    assert!(
        !quiet
            .iter()
            .any(|c| c["method"] == "Version" && c["code"] == "OK")
    );
}

#[test]
fn a_filter_that_leaves_nothing_is_told() {
    let s = s1();
    let calls = |more: &[&str]| run(&[&["calls", "-s", s.as_str()], more].concat());
    // A misspelt method is an error, and not a call that was never made.
    for (slip, said) in [
        (["--method", "RunPodSandbx"], "did you mean RunPodSandbox?"),
        (
            ["--filter", "method:RunPodSandbx"],
            "did you mean RunPodSandbox?",
        ),
        (["--filter", "method:nothing-like-it"], "the CRI has "),
        (["--filter", "kind:cal"], "did you mean call"),
        (["--filter", "stage:image"], "a call has no stage"),
    ] {
        let out = calls(&slip);
        assert_eq!(out.status.code(), Some(2), "{slip:?}");
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(error.contains(said), "{slip:?}: {error}");
    }
    for nothing in [
        ["--slower-than", "9h"],
        ["--method", "CheckpointContainer"],
        ["--filter", "method:CheckpointContainer"],
        ["--filter", "method:nothing*"],
    ] {
        let out = calls(&nothing);
        assert_eq!(out.status.code(), Some(0), "{nothing:?}");
        assert!(out.stdout.is_empty(), "{nothing:?}");
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(error.contains("no match among "), "{nothing:?}: {error}");
    }
    let requests = run(&["requests", "-s", s.as_str(), "--slow", "9h"]);
    let error = String::from_utf8_lossy(&requests.stderr);
    assert!(error.contains("no match among "), "{error}");
}

#[test]
fn text_has_no_escape_codes_when_it_is_not_for_a_terminal() {
    for args in [["timeline", "-s"], ["calls", "-s"]] {
        let path = s1();
        let out = run(&[args[0], args[1], &path]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.lines().count() > 20);
        assert!(!text.contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn manual_pages_are_made_from_the_arguments() {
    let man = String::from_utf8(run(&["man"]).stdout).unwrap();
    assert!(man.contains(".TH kflow"));
    let dir = tempfile::tempdir().unwrap();
    run(&["man", dir.path().to_str().unwrap()]);
    assert!(dir.path().join("kflow-import.1").exists());
}

#[test]
fn why_says_with_its_exit_code_whether_there_is_a_verdict() {
    let s2 = fixture("sessions/S2-stuck-early.kflow.zst")
        .display()
        .to_string();
    // s02/image-missing is in its image back-off at that time; later it is deleted.
    let at = "2026-11-21T00:28:30Z";
    let out = run(&[
        "why",
        "s02/image-missing",
        "-o",
        "json",
        "-s",
        &s2,
        "--at",
        at,
    ]);
    assert_eq!(out.status.code(), Some(1));
    let verdicts: Vec<Value> = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(verdicts[0]["cause"], "KF601");
    assert_eq!(verdicts[0]["stage"], "image");
    let text = run(&["why", "image-missing", "-n", "s02", "-s", &s2, "--at", at]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("127.0.0.1:5000/nope:1"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");

    // An owner that cannot create any pod.
    let owner = run(&["why", "deploy/quota", "-n", "s29", "-s", &s2, "--at", at]);
    assert_eq!(
        owner.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&owner.stderr)
    );

    let all = run(&["why", "--all", "-o", "json", "-s", &s2, "--at", at]);
    assert_eq!(all.status.code(), Some(1));
    let all: Vec<Value> = serde_json::from_slice(&all.stdout).unwrap();
    assert!(all.len() > 10, "{}", all.len());

    let well = run(&[
        "why",
        "s01/healthy",
        "-s",
        &s1(),
        "--at",
        "2026-11-21T00:24:45Z",
    ]);
    assert_eq!(well.status.code(), Some(0));
    assert_eq!(
        run(&["why", "s01/nobody", "-s", &s1()]).status.code(),
        Some(3)
    );
    let at = ["--at", "50%", "-s", &s2];
    let [named, alone] = [&["why", "--all"][..], &["why"]].map(|a| run(&[a, &at].concat()));
    assert_eq!(alone.status.code(), Some(1));
    assert_eq!(alone.stdout, named.stdout);
}

#[test]
fn the_catalogue_is_printed_whole_and_by_id() {
    let list = String::from_utf8(run(&["causes"]).stdout).unwrap();
    assert!(list.lines().count() > 100);
    let one = String::from_utf8(run(&["causes", "kf601"]).stdout).unwrap();
    assert!(one.starts_with("KF601"), "{one}");
    assert_eq!(run(&["causes", "KF000"]).status.code(), Some(3));
}

#[test]
fn the_verdict_on_a_pod_says_whom_its_pull_holds_up() {
    let s6 = fixture("sessions/S6-slowpull.kflow.zst");
    let s6 = s6.display().to_string();
    let at = ["--at", "00:44:27", "--session", &s6];
    let why = |args: &[&str]| {
        let o = run(&[args, &at].concat());
        let said = String::from_utf8_lossy(&o.stdout);
        crate::one_line(&said)
    };
    let slow = why(&["why", "s24a/slow"]);
    assert!(slow.starts_with("s24a/slow slow in image"), "{slow}");
    assert!(slow.contains("holds up s24a/queued"), "{slow}");
    assert!(!slow.contains("s24b"), "nobody else's trouble: {slow}");
    let ticket = why(&["why", "s24a/slow", "-o", "markdown"]);
    assert!(ticket.contains("- holds up s24a/queued"), "{ticket}");
    let held = |pod: &str| {
        let o = run(&[&["why", pod, "-o", "json"], &at[..]].concat());
        let all: Value = serde_json::from_slice(&o.stdout).unwrap();
        let held = all[0]["holds_up"].as_array().unwrap().clone();
        let name = |o: &Value| format!("{} {}", o["kind"], o["name"]);
        held.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(held("s24a/slow"), [r#""Pod" "queued""#]);
    assert!(held("s24a/queued").is_empty());
    // Who is held up holds up nobody.
    let queued = why(&["why", "s24a/queued"]);
    assert!(!queued.contains("holds up"), "{queued}");
}

/// A new pseudo terminal of 80 columns and 24 lines: the side of its window, and that of the programs in it.
#[cfg(target_os = "linux")]
fn pseudo_terminal() -> (std::fs::File, std::fs::File) {
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    // A program that had the window too would keep it open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let window = openpt(flags).unwrap();
    grantpt(&window).unwrap();
    unlockpt(&window).unwrap();
    let size = rustix::termios::Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&window, size).unwrap();
    let path = ptsname(&window, Vec::new()).unwrap();
    // It is not to become the terminal that signals to the tests when it is closed.
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let programs = rustix::fs::open(path, flags, Mode::empty()).unwrap();
    (window.into(), programs.into())
}

/// The connection breaks, or the window is closed: neither the screen nor standard error can be written to any more.
#[cfg(target_os = "linux")]
#[test]
fn a_window_that_is_closed_ends_the_terminal_without_a_crash() {
    use std::io::Read;
    let (mut window, screen) = pseudo_terminal();
    let side = || std::process::Stdio::from(screen.try_clone().unwrap());
    let mut shown = command()
        .args(["replay", &s1()])
        .env("TERM", "xterm-256color")
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn()
        .unwrap();
    drop(screen);
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("REPLAY") {
        let mut part = [0; 4096];
        let n = window.read(&mut part).unwrap();
        seen.extend(&part[..n]);
    }
    drop(window);
    let ended = shown.wait().unwrap();
    assert!(matches!(ended.code(), Some(0..=2)), "{ended:?}");
}

/// The walk through all moments takes long in a long recording: a terminal shows how far it is.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_how_far_the_walk_is() {
    use std::io::Read;
    let (mut terminal, screen) = pseudo_terminal();
    let mut asked = command()
        .args(["why", "--ever", "-s", &s1(), "-o", "name"])
        .env("TERM", "xterm")
        .stdout(std::process::Stdio::null())
        .stderr(screen)
        .spawn()
        .unwrap();
    let mut shown = Vec::new();
    // When the program has ended, nobody has the terminal open, which is an error.
    terminal.read_to_end(&mut shown).ok();
    assert!(asked.wait().unwrap().code().is_some());
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("looking at each moment"), "{shown}");
    let piped = run(&["why", "--ever", "-s", &s1()]);
    assert!(piped.stderr.is_empty(), "{piped:?}");
}

#[test]
fn a_word_is_explained_whether_or_not_there_is_a_recording() {
    for args in [&["flow", "taint"][..], &["flow", "taints", "-s", &s1()]] {
        let out = run(args);
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.starts_with("taint  A mark on a node"), "{out:?}");
        assert_eq!(out.status.code(), Some(0), "{args:?}");
        assert!(out.stderr.is_empty(), "{out:?}");
    }
    let named = command()
        .args(["flow", "bounded"])
        .env("KFLOW_SESSION", s1())
        .output()
        .unwrap();
    assert!(named.stdout.starts_with(b"within bounds  "), "{named:?}");
    // A step has this name too.
    let both = run(&["flow", "relist"]).stdout;
    let both = String::from_utf8_lossy(&both);
    assert!(
        both.starts_with("relist  ") && both.contains("  l09  "),
        "{both}"
    );
    let near = run(&["flow", "tant"]);
    let near = String::from_utf8_lossy(&near.stderr);
    assert!(near.contains("did you mean taint?"), "{near}");
}
