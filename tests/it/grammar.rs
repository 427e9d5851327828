//! Flags mean the same in every command: `-o` is the form and `-O` the output file, pods are named in the same way, and
//! exit codes are those of `docs/commands.md`.

use crate::fixture;
use crate::program::{commands, kflow, kflow_in};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn session(name: &str) -> String {
    let path = format!("sessions/{name}.kflow.zst");
    fixture(&path).display().to_string()
}

/// The flags of a command as its help lists them: `-o, --output <FORM>`.
fn flags(command: &str) -> Vec<String> {
    let help = kflow([command, "--help"]).out;
    help.lines()
        .map(str::trim_start)
        .filter(|l| {
            l.starts_with('-') && l.trim_start_matches('-').starts_with(char::is_alphabetic)
        })
        .map(|l| l.split("  ").next().unwrap_or(l).to_owned())
        .collect()
}

/// Commands with an output file.
const WRITE: [&str; 4] = ["export", "fleet", "import", "record"];

#[test]
fn a_flag_is_the_same_word_in_every_command() {
    let all = commands();
    assert!(all.len() >= 19, "{all:?}");
    let mut forms = BTreeSet::new();
    for command in &all {
        let flags = flags(command);
        let has = |flag: &str| flags.iter().any(|f| f == flag);
        let begins = |begin: &str| flags.iter().any(|f| f.starts_with(begin));
        assert!(has("--color <WHEN>"), "{command}: {flags:?}");
        for (short, whole) in [
            ("-o,", "-o, --output <FORM>"),
            ("-O,", "-O, --output-file <FILE>"),
            ("-n,", "-n, --namespace <NAMESPACE>"),
            ("-A,", "-A, --all-namespaces"),
            ("-l,", "-l, --selector <SELECTOR>"),
            ("-s,", "-s, --session <FILE>"),
            ("--for", "--for <TIME>"),
            ("--at", "--at <TIME>"),
        ] {
            assert_eq!(begins(short), has(whole), "{command}: {flags:?}");
        }
        assert_eq!(
            has("-O, --output-file <FILE>"),
            WRITE.contains(&command.as_str()),
            "{command}"
        );
        if has("-o, --output <FORM>") {
            let said = kflow([command, "-o", "?"]).err;
            assert!(said.contains("[possible values: "), "{command}: {said}");
            forms.insert(command.as_str());
        }
        // Every command that looks at pods has kubectl's flags for that.
        let looks = has("-s, --session <FILE>")
            || ["record", "doctor", "replay"].contains(&command.as_str());
        assert_eq!(looks, has("-n, --namespace <NAMESPACE>"), "{command}");
        assert_eq!(looks, has("-A, --all-namespaces"), "{command}");
        assert_eq!(looks, has("-l, --selector <SELECTOR>"), "{command}");
    }
    let with_forms = [
        "calls", "causes", "doctor", "export", "fleet", "flow", "keys", "requests", "stats",
        "themes", "timeline", "why",
    ];
    assert_eq!(forms, BTreeSet::from(with_forms));
}

#[test]
fn a_form_is_never_taken_for_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let s = session("S13-crictl");
    let audit = fixture("audit/audit.jsonl").display().to_string();
    let export = ["export", "-s", &s];
    let import = ["import", "--audit", &audit];
    let record = ["record", "--no-api", "--for", "100ms"];
    for (command, more, words) in [
        (&export[..], &["-o", "htlm"][..], "'html'"),
        (&export, &["-o", "out.html"], "[possible values: "),
        (&export, &["-O", "out.html"], "--output <FORM>"),
        (&import, &["-o", "a"], "--output-file <FILE>"),
        (&import, &["-q"], "--output-file <FILE>"),
        (&record, &["-o", "a"], "'-o'"),
        (&record, &["-O", ""], "value is required"),
        (&record, &["-O", "-", "--max-size", "1MiB"], "has none"),
    ] {
        let args = [command, more].concat();
        let said = kflow_in(dir.path(), &args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
        let written = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(written, 0, "{args:?}");
    }
}

#[test]
fn a_pod_is_named_the_same_way_in_every_command() {
    let s = session("S1-basics");
    let whole = kflow(["timeline", "s01/healthy", "-o", "json", "-s", &s]).out;
    let pods: Vec<serde_json::Value> = serde_json::from_str(&whole).unwrap();
    let uid = pods[0]["uid"].as_str().unwrap();
    for command in [
        &["timeline"][..],
        &["why", "--at", "50%"],
        &["flow"],
        &["export", "-o", "text"],
        &["calls", "--pod"],
        &["requests", "--pod"],
    ] {
        let said = |pod: &str| {
            let args = if command.contains(&"--pod") {
                [command, &[pod, "-s", &s]].concat()
            } else {
                [command, &["-s", &s, "--", pod]].concat()
            };
            kflow(&args)
        };
        let want = said("s01/healthy");
        assert!(!want.out.is_empty(), "{command:?}: {}", want.err);
        let short: String = uid.chars().take(8).collect();
        for pod in ["healthy", "pod/healthy", "pods/s01/healthy", uid, &short] {
            let got = said(pod);
            assert_eq!(got.code, want.code, "{command:?} {pod}: {}", got.err);
            assert_eq!(got.out, want.out, "{command:?} {pod}");
        }
        let five: String = uid.chars().take(5).collect();
        for nobody in ["nobody", "pod/nobody", &five] {
            let got = said(nobody);
            assert_eq!(got.code, Some(3), "{command:?} {nobody}: {}", got.err);
            assert!(got.err.contains(&format!("no pod {nobody}")), "{}", got.err);
        }
    }
}

#[test]
fn the_begin_of_a_uid_is_the_pod_only_where_no_other_begins_so() {
    let dir = tempfile::tempdir().unwrap();
    // A pod's name has priority over the begin of a UID; a namespace's name is neither.
    let pods = [
        ("shop", "web-0", "abcdef00-0000-4000-8000-000000000000"),
        ("shop", "web-1", "abcdef11-0000-4000-8000-000000000000"),
        ("abcdef22", "web-2", "0123ab00-0000-4000-8000-000000000000"),
        ("shop", "0123ab", "9999ab00-0000-4000-8000-000000000000"),
    ];
    let items = pods.map(|(namespace, name, uid)| {
        serde_json::json!({
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"namespace": namespace, "name": name, "uid": uid, "creationTimestamp": "2026-11-21T00:00:00Z"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Pending"},
        })
    });
    let list = serde_json::json!({"kind": "List", "apiVersion": "v1", "items": items});
    fs::write(dir.path().join("pods.json"), list.to_string()).unwrap();
    let made = kflow_in(
        dir.path(),
        ["import", "--watch", "pods.json", "-O", "s.kflow"],
    );
    assert_eq!(made.code, Some(0), "{}", made.err);
    for (pod, code, want) in [
        ("abcdef0", 0, "shop/web-0 "),
        ("abcdef11-0000", 0, "shop/web-1 "),
        ("abcdef", 2, "the UIDs of 2 pods begin with abcdef"),
        ("pod/abcdef", 2, "the UIDs of 2 pods begin with pod/abcdef"),
        ("abcdef22", 2, "whether there is a pod abcdef22:"),
        ("0123ab", 0, "shop/0123ab "),
        ("0123ab0", 0, "abcdef22/web-2 "),
        ("9999a", 2, "whether there is a pod 9999a:"),
    ] {
        for command in [
            &["timeline", pod][..],
            &["why", pod],
            &["why", "--ever", pod],
            &["flow", pod],
            &["export", pod, "-o", "text"],
            &["calls", "--pod", pod],
            &["requests", "--pod", pod],
        ] {
            let said = kflow_in(dir.path(), [command, &["-s", "s.kflow"]].concat());
            if code == 2 {
                assert_eq!(said.code, Some(2), "{command:?}: {} {}", said.out, said.err);
                // Without an audit log, `requests` cannot answer at all.
                let unread = command[0] == "requests" && said.err.contains("requests");
                assert!(
                    unread || said.err.contains(want),
                    "{command:?}: {}",
                    said.err
                );
            } else if command[0] == "timeline" {
                assert_eq!(said.code, Some(0), "{command:?}: {}", said.err);
                assert!(said.out.starts_with(want), "{command:?}: {}", said.out);
            } else {
                assert!(
                    !said.err.contains("whether there is a pod"),
                    "{command:?}: {}",
                    said.err
                );
            }
        }
    }
}

#[test]
fn colours_are_as_they_are_asked_for() {
    let (s1, s2) = (session("S1-basics"), session("S2-stuck-early"));
    for args in [
        &["timeline", "-s", &s1][..],
        &["calls", "-s", &s1],
        &["requests", "-s", &s1],
        &["requests", "--list", "-s", &s1],
        &["stats", "-s", &s1],
        &["flow"],
        &["flow", "s01/healthy", "-s", &s1],
        &["timeline", "deploy/quota", "-s", &s2],
    ] {
        for (when, coloured) in [("always", true), ("never", false), ("auto", false)] {
            let said = kflow([args, &["--color", when]].concat());
            assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
            assert_eq!(said.out.contains('\u{1b}'), coloured, "{args:?} {when}");
        }
        let before = kflow([&["--color=always"], args].concat());
        assert!(before.out.contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn a_table_has_a_head() {
    let (s1, s2) = (session("S1-basics"), session("S2-stuck-early"));
    for (args, head) in [
        (&["calls", "-s", &s1][..], "START (UTC)"),
        (&["requests", "-s", &s1], "  COUNT"),
        (&["requests", "--list", "-s", &s1], "START (UTC)"),
        (&["stats", "-s", &s1], "MEASURE"),
        (&["why", "--ever", "-s", &s2], "BEGIN (UTC)"),
        (&["causes"], "ID"),
        (&["keys"], "WHERE"),
        (&["themes"], "THEME"),
        (&["themes", "--keys"], "KEY"),
    ] {
        let out = kflow(args).out;
        let first = out.lines().next().unwrap_or_default();
        assert!(first.starts_with(head), "{args:?}: {first}");
        // The head is printed once, and no column is cut off from its name.
        assert_eq!(out.matches(head).count(), 1, "{args:?}");
    }
    let rows = kflow(["requests", "--list", "-s", &s1]).out;
    let (head, row) = rows.split_once('\n').unwrap();
    let row = row.lines().next().unwrap();
    let code = head.find("CODE").unwrap();
    assert!(
        row[code..code + 4].trim().parse::<u16>().is_ok(),
        "{head}\n{row}"
    );
    let calls = kflow(["calls", "--method", "RunPodSandbox", "-s", &s1]).out;
    let (head, row) = calls.split_once('\n').unwrap();
    let method = head.find("METHOD").unwrap();
    assert!(row[method..].starts_with("RunPodSandbox"), "{head}\n{row}");
}

#[test]
fn an_answer_that_is_empty_says_why_in_every_form() {
    let s = session("S1-basics");
    let none = ["-l", "app=nope"];
    for (command, forms) in [
        (
            &["timeline"][..],
            &["text", "json", "jsonl", "yaml", "csv", "name"][..],
        ),
        (
            &["calls"],
            &["text", "wide", "name", "json", "jsonl", "yaml", "csv"],
        ),
        (&["requests"], &["text", "json", "jsonl", "csv"]),
        (
            &["requests", "--list"],
            &["text", "wide", "json", "jsonl", "csv"],
        ),
        (&["stats"], &["text", "json", "jsonl", "csv", "openmetrics"]),
        (&["flow"], &["text", "json", "jsonl", "yaml"]),
        (&["export"], &["json", "text", "html", "otlp", "perfetto"]),
        (
            &["why", "--ever"],
            &["text", "json", "jsonl", "yaml", "csv", "name", "markdown"],
        ),
        (&["why", "--all"], &["json", "jsonl", "yaml", "csv", "name"]),
    ] {
        for form in forms {
            let args = [command, &["-o", form, "-s", &s], &none].concat();
            let said = kflow(&args);
            assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
            let err = said.err.to_lowercase();
            assert!(err.contains("there are no "), "{args:?}: {err}");
        }
    }
    let well = kflow(["why", "--all", "--at", "50%", "-o", "json", "-s", &s]);
    assert_eq!(
        (well.code, well.out.as_str()),
        (Some(0), "[]\n"),
        "{}",
        well.err
    );
    assert!(well.err.contains("it is well"), "{}", well.err);
}

#[test]
fn a_slip_of_the_hand_is_answered_with_what_was_meant() {
    let s = session("S1-basics");
    for (args, code, meant) in [
        (
            &["calls", "--method", "RunPodSandbxo", "-s", &s][..],
            2,
            "did you mean RunPodSandbox?",
        ),
        (
            &["calls", "--filter", "metohd:x", "-s", &s],
            2,
            "did you mean method?",
        ),
        (
            &["stats", "--measure", "stage/imgae", "-s", &s],
            2,
            "did you mean stage/image?",
        ),
        (
            &["timeline", "s01/helathy", "-s", &s],
            3,
            "did you mean s01/healthy?",
        ),
        (
            &["why", "node/ndoe1", "-s", &s],
            3,
            "did you mean node/node1?",
        ),
        (
            &["flow", "RunPodSandbxo", "s01/healthy", "-s", &s],
            3,
            "did you mean RunPodSandbox?",
        ),
        (&["causes", "KF6O4b"], 3, "KF604b"),
        (&["themes", "--print", "drak"], 3, "did you mean dark?"),
        (&["export", "-o", "perfeto", "-s", &s], 2, "'perfetto'"),
        (&["timeline", "-o", "jsno", "-s", &s], 2, "'json'"),
        (&["timelien"], 2, "'timeline'"),
        (&["timeline", "--sesion", "x"], 2, "'--session'"),
        (&["calls", "--color", "alwyas", "-s", &s], 2, "'always'"),
    ] {
        let said = kflow(args);
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(meant), "{args:?}: {}", said.err);
    }
}

/// Runs every row of the table of exit codes in `docs/commands.md`.
#[test]
fn exit_codes_are_those_that_are_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_to_string(root.join("docs/commands.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = session("S2-stuck-early");
    let mut tried = BTreeSet::new();
    let mut codes = BTreeSet::new();
    for row in docs.lines().filter_map(|l| l.strip_prefix("| `kflow ")) {
        let (command, rest) = row.split_once("` | ").unwrap();
        let code = rest.split(' ').next().unwrap().parse().unwrap();
        // A build without the crate `fleet` ends with 2 and says so.
        let without = command.starts_with("fleet") && cfg!(not(feature = "fleet"));
        let code = if without { 2 } else { code };
        let out = dir
            .path()
            .join(format!("{}.kflow", tried.len()))
            .display()
            .to_string();
        let fixtures = root.display().to_string();
        let args: Vec<String> = command
            .split(' ')
            .map(|word| match word {
                "FILE" => file.clone(),
                "OUT" => out.clone(),
                path if path.starts_with("fixtures/") => format!("{fixtures}/{path}"),
                word => word.to_owned(),
            })
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = kflow_in(dir.path(), &args);
        assert_eq!(said.code, Some(code), "{command}: {}", said.err);
        assert!(code != 2 && code != 3 || !said.err.is_empty(), "{command}");
        if code != 0 {
            assert!(
                !Path::new(&out).exists() || args.contains(&"record"),
                "{command}"
            );
        }
        tried.insert(command.to_owned());
        codes.insert(code);
    }
    assert_eq!(codes, BTreeSet::from([0, 1, 2, 3]));
    for command in commands() {
        let begins = |row: &String| row.split(' ').next() == Some(&command);
        assert!(
            tried.iter().any(begins),
            "docs/commands.md has no row of {command}"
        );
    }
}
