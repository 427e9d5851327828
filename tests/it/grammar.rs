//! Flags mean the same in every command: `-o` is the form and `-O` the output file, pods are named in the same way, and
//! exit codes are those of `docs/commands.md`.

use crate::fixture;
use crate::program::{commands, kflow, kflow_in};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn session(name: &str) -> String {
    crate::recording(name).display().to_string()
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
    // A pod's name has priority over the begin of a UID, and both over the name of a namespace.
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
        ("abcdef22", 0, "abcdef22/web-2 "),
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
    let moving = "nothing has taken too long so far; on their way: 1 Running and not ready yet";
    assert!(well.err.contains(moving), "{}", well.err);
}

#[test]
fn a_slip_of_the_hand_is_answered_with_what_was_meant() {
    let s = session("S1-basics");
    let s2 = session("S2-stuck-early");
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
        (
            &["calls", "--filter", "ns:so1", "-s", &s],
            0,
            "did you mean s01",
        ),
        (
            &["calls", "--filter", "code:NotFuond", "-s", &s],
            0,
            "no call has code:NotFuond: did you mean NotFound?",
        ),
        (
            &["calls", "--filter", "pod:s01/helathy", "-s", &s],
            0,
            "did you mean s01/healthy?",
        ),
        (
            &["calls", "--filter", "kind:event", "-s", &s],
            0,
            "no call has kind:event, but call",
        ),
        (
            &["calls", "--filter", "hanging", "-s", &s],
            0,
            "inflight is what has not ended",
        ),
        (
            &["stats", "--filter", "ns:so1", "-s", &s],
            0,
            "no pod has ns:so1: did you mean s01",
        ),
        (&["why", "so1/healthy", "-s", &s], 2, "did you mean s01"),
        (
            &["why", "depoly/x", "-s", &s],
            2,
            "did you mean deploy/NAME?",
        ),
        (
            &["why", "services/x", "-s", &s],
            2,
            "services is a kind that has no pods",
        ),
        (
            &["why", "deploy/quotta", "-s", &s2],
            2,
            "did you mean deploy/quota?",
        ),
        (&["why", "", "-s", &s], 2, "a value is required"),
        (&["why", "-"], 2, "to read what is piped: -s -"),
        (
            &["timeline", "shop/web-0", "-"],
            2,
            "to read what is piped: -s -",
        ),
        (
            &["record", "-O", "x", "--pod", ""],
            2,
            "a value is required",
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

#[test]
fn a_filter_takes_what_flags_take() {
    let s = session("S1-basics");
    let lines = |filter: &[&str]| {
        let said = kflow([&["calls", "-s", &s, "-o", "jsonl"], filter].concat());
        assert_eq!(said.code, Some(0), "{filter:?}: {}", said.err);
        said.out
    };
    let all = lines(&[]);
    let row: serde_json::Value = all
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .find(|r: &serde_json::Value| r["pod"] == "healthy")
        .unwrap();
    let uid = row["pod_uid"].as_str().unwrap();
    let of_pod = lines(&["--pod", uid]);
    assert!(!of_pod.is_empty() && of_pod != all);
    assert_eq!(lines(&["--filter", &format!("pod:{uid}")]), of_pod);
    // An expression may begin with a dash.
    let bad = lines(&["--filter", "-ok"]);
    assert!(!bad.is_empty());
    assert_eq!(bad, lines(&["--filter", "!ok"]));
    assert_eq!(
        lines(&["--filter", "in-flight"]),
        lines(&["--filter", "inflight"])
    );
}

#[test]
fn a_part_of_the_time_has_what_lasted_in_it() {
    let s = session("S4-runtime");
    let rows = |args: &[&str]| -> Vec<serde_json::Value> {
        let said = kflow([args, &["-s", &s, "-o", "json"]].concat());
        serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", said.err))
    };
    let (from, to) = ("2026-11-21 00:36:30", "2026-11-21T00:38:00Z");
    let bounds = [from, to].map(|t| {
        let t = t.replace(' ', "T").trim_end_matches('Z').to_owned() + "Z";
        kflow_model::Nanos::parse_rfc3339(&t).unwrap().0.0
    });
    let range = format!("{from}..{to}");
    for (args, begin, end) in [
        (&["calls"][..], "start_ns", "end_ns"),
        (&["requests", "--list"], "received_ns", "ended_ns"),
        (&["why", "--ever"], "begin_ns", "end_ns"),
    ] {
        let mut all = rows(args);
        let number = all.len();
        all.retain(|r| {
            r[begin].as_i64().unwrap() < bounds[1]
                && r[end].as_i64().is_none_or(|end| end >= bounds[0])
        });
        let some = rows(&[args, &["--range", &range]].concat());
        assert!(!some.is_empty() && some.len() < number, "{args:?}");
        assert_eq!(some, all, "{args:?}");
    }
    for (range, said) in [
        ("22:39..22:38", "is empty"),
        (
            "2027-01-01 00:00:00..2027-01-02 00:00:00",
            "after what was recorded",
        ),
        (
            "2025-01-01 00:00:00..2025-01-02 00:00:00",
            "before what was recorded",
        ),
    ] {
        for command in [
            &["stats"][..],
            &["calls"],
            &["requests"],
            &["why", "--ever"],
        ] {
            let of = kflow([command, &["--range", range, "-s", &s]].concat());
            assert_eq!(of.code, Some(2), "{command:?} {range}");
            assert!(of.err.contains(said), "{command:?} {range}: {}", of.err);
        }
    }
}

#[test]
fn where_no_pod_is_left_it_says_how_to_ask_about_those_that_were() {
    let s = session("S2-stuck-early");
    for args in [&["why", "--all", "-s", &s][..], &["why", "-s", &s]] {
        let said = kflow(args);
        assert_eq!(said.code, Some(0));
        let ask = format!("kflow why --ever -s {s}");
        assert!(said.out.contains(&ask), "{}", said.out);
    }
    let gone = kflow(["why", "s02/image-missing", "-s", &s, "-o", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&gone.out).unwrap();
    let next = rows[0]["next"][0]["command"].as_str().unwrap();
    assert_eq!(next, format!("kflow why --ever s02/image-missing -s {s}"));
    let lives = kflow(["timeline", "s02/image-missing", "-s", &s, "-o", "json"]);
    let lives: serde_json::Value = serde_json::from_str(&lives.out).unwrap();
    assert_eq!(rows[0]["since_ns"], lives[0]["gone_ns"]);
    // Commands that look at the recording name it.
    let waits = kflow([
        "why",
        "s18a/new-pod",
        "--at",
        "00:39:00",
        "-s",
        &session("S4-runtime"),
    ]);
    assert!(
        waits.out.contains("kflow timeline s18a/new-pod -s "),
        "{}",
        waits.out
    );
    // A verdict on a pod does not say that it holds up itself.
    assert!(!waits.out.contains("holds up"), "{}", waits.out);
}

#[test]
fn a_text_for_a_ticket_says_of_when_and_of_what_it_is() {
    let s = session("S4-runtime");
    let of = |args: &[&str]| kflow([args, &["-s", &s, "-o", "markdown"]].concat()).out;
    let one = of(&["why", "s18a/new-pod", "--at", "00:39:00"]);
    let last = one.lines().last().unwrap();
    assert!(
        last.starts_with("As of 2026-11-21 00:39:00 UTC, of S4"),
        "{one}"
    );
    let ever = of(&["why", "--ever"]);
    let last = ever.lines().last().unwrap();
    assert!(last.starts_with("From 2026-11-21 00:"), "{ever}");
}

#[test]
fn a_step_is_found_by_its_label_and_a_failure_is_its_end() {
    let s = session("S4-runtime");
    let named = |what: &str| kflow(["flow", what, "s09b/cni-hangs", "-s", &s]).out;
    assert_eq!(named("F04"), named("f04"));
    assert_eq!(named("cni add"), named("f04"));
    let row = named("containerd");
    let row = row.lines().find(|l| l.contains(" f04 ")).unwrap();
    assert!(row.contains(" ≤45.0s "), "{row}");
    // A slip is answered from the map, where nothing is named to look at.
    let slip = kflow(["flow", "RunPodSandbxo"]);
    assert_eq!(slip.code, Some(3));
    assert!(
        slip.err.contains("did you mean RunPodSandbox?"),
        "{}",
        slip.err
    );
    assert!(!slip.err.contains("kubeconfig"), "{}", slip.err);
}

/// S1 with all its times 25 minutes earlier, so that it lasts from one day to the next.
fn over_midnight(dir: &Path) -> String {
    let packed = fs::read(session("S1-basics")).unwrap();
    let text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
    let times = regex::Regex::new("1795[0-9]{15}").unwrap();
    let earlier = times.replace_all(&text, |at: &regex::Captures<'_>| {
        (at[0].parse::<i64>().unwrap() - 1_500_000_000_000).to_string()
    });
    let path = dir.join("night.kflow");
    fs::write(&path, earlier.as_bytes()).unwrap();
    path.display().to_string()
}

#[test]
fn a_table_of_several_days_has_their_dates() {
    let dir = tempfile::tempdir().unwrap();
    let (s1, night) = (session("S1-basics"), over_midnight(dir.path()));
    for command in [
        &["calls"][..],
        &["requests", "--list"],
        &["timeline", "s01/healthy"],
    ] {
        let dates = |s: &str| {
            let out = kflow([command, &["-s", s]].concat()).out;
            let dated = |day: &str| out.lines().any(|l| l.trim_start().starts_with(day));
            ["2026-11-20 23:", "2026-11-21 00:"].map(dated)
        };
        assert_eq!(dates(&s1), [false, false], "{command:?}");
        assert_eq!(dates(&night), [true, true], "{command:?}");
    }
}

#[test]
fn calls_and_incidents_name_their_node() {
    let s = session("S4-runtime");
    let rows = |args: &[&str]| -> Vec<serde_json::Value> {
        let said = kflow([args, &["-s", &s, "-o", "json"]].concat());
        serde_json::from_str(&said.out).unwrap()
    };
    let calls = rows(&["calls"]);
    let about_none = calls.iter().filter(|c| c["pod_uid"] == "").count();
    assert!(about_none > 100);
    for c in &calls {
        assert_eq!(c["node"], "node1");
        let end = c["end_ns"].as_i64();
        let length = end.map(|end| end - c["start_ns"].as_i64().unwrap());
        assert_eq!(c["length_ns"].as_i64(), length);
    }
    let wide = kflow(["calls", "-o", "wide", "-s", &s]).out;
    assert!(wide.lines().next().unwrap().contains(" NODE "), "{wide}");
    for i in rows(&["why", "--ever"]) {
        // A claim whose pod is gone is on no node.
        let is_claim = i["subject"]["object"] == "PersistentVolumeClaim";
        let nodes = if is_claim { &[][..] } else { &["node1"] };
        assert_eq!(i["nodes"], serde_json::json!(nodes), "{i}");
    }
    let csv = kflow(["why", "--ever", "-o", "csv", "-s", &s]).out;
    let mut columns = csv.lines().next().unwrap().split(',');
    assert!(columns.any(|c| c == "nodes"), "{csv}");
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
