//! A parser of each form reads the output of every command in it, and finds what the JSON output has.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixture;
use crate::program::kflow;

fn stuck() -> String {
    let path = fixture("sessions/S2-stuck-early.kflow.zst");
    path.display().to_string()
}

/// Commands that are run on a recording at half of its length, and their forms; `-` stands before a
/// form that is refused.
const ASKED: [(&[&str], &str); 14] = [
    (&["why", "--all"], "text json jsonl yaml csv name markdown"),
    (
        &["why", "s02/image-missing"],
        "text json jsonl yaml csv name markdown",
    ),
    (&["why", "--ever"], "text json jsonl yaml csv name markdown"),
    (&["timeline"], "text name json jsonl yaml csv"),
    (&["timeline", "--critical"], "text name json jsonl yaml csv"),
    (
        &["timeline", "deploy/quota"],
        "text name json jsonl yaml csv",
    ),
    (&["calls"], "text wide name json jsonl yaml csv"),
    (&["requests"], "text -wide -name json jsonl yaml csv"),
    (
        &["requests", "--list"],
        "text wide name json jsonl yaml csv",
    ),
    (&["flow"], "text json jsonl yaml"),
    (&["flow", "s02/image-missing"], "text json jsonl yaml"),
    (&["stats"], "text wide json jsonl yaml csv openmetrics"),
    (
        &["stats", "--by", "namespace"],
        "text wide json jsonl yaml csv openmetrics",
    ),
    (&["doctor", "--no-api"], "text json yaml"),
];

/// The forms of a command, as clap lists them.
fn forms_of(command: &str) -> BTreeSet<String> {
    let said = kflow(command.split(' ').chain(["-o", "?"])).err;
    let list = said.split_once("[possible values: ").unwrap().1;
    let list = list.split_once(']').unwrap().0;
    list.split(", ").map(str::to_owned).collect()
}

/// The table of `docs/commands.md` has every command that has forms, with all its forms.
#[test]
fn the_forms_that_are_documented_are_those_that_there_are() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let (_, rest) = docs.split_once("\n## Forms\n").unwrap();
    let (table, _) = rest.split_once("\n## ").unwrap();
    let words = |cell: &str| -> Vec<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        let words = quoted.filter(|w| !w.starts_with('-') && !w.contains(".md"));
        words.map(str::to_owned).collect()
    };
    let mut tried = BTreeSet::new();
    for row in table.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        for command in words(cells[1]) {
            let told: BTreeSet<String> = words(cells[2]).into_iter().collect();
            assert_eq!(told, forms_of(&command), "{command}");
            tried.insert(command);
        }
    }
    for (asked, _) in ASKED {
        assert!(tried.contains(asked[0]), "{asked:?}");
    }
    assert!(tried.contains("export"));
}

fn lines(text: &str) -> Vec<Value> {
    let rows = text.lines().map(|l| serde_json::from_str(l).unwrap());
    rows.collect()
}

#[test]
fn every_form_of_every_command_is_read_by_its_parser() {
    let session = stuck();
    let named = std::thread::scope(|scope| {
        let each = ASKED.map(|(asked, forms)| scope.spawn(|| read(&session, asked, forms)));
        each.into_iter()
            .flat_map(|one| one.join().unwrap())
            .collect::<BTreeSet<String>>()
    });
    assert!(named.len() > 20, "{named:?}");
    let named: Vec<String> = named.into_iter().collect();
    crate::unknown::each(&named, |name| is_taken(name, &session));
}

/// Parses the output in each form, and returns the names in it.
fn read(session: &str, asked: &[&str], forms: &str) -> Vec<String> {
    let mut named = Vec::new();
    let tried: BTreeSet<String> = forms.split(' ').map(|f| f.replace('-', "")).collect();
    assert_eq!(tried, forms_of(asked[0]), "{asked:?}");
    let reads = asked[0] != "doctor";
    let printed = |form: &str| {
        let of = ["-s", session, "--at", "50%"];
        let of = if reads { &of[..] } else { &[] };
        let said = kflow([asked, &["-o", form], of].concat());
        let verdict = i32::from(asked[0] == "why");
        assert_eq!(said.code, Some(verdict), "{asked:?} {form}: {}", said.err);
        assert!(!said.out.is_empty(), "{asked:?} {form}: {}", said.err);
        said.out
    };
    let json: Vec<Value> = serde_json::from_str(&printed("json")).unwrap();
    assert!(!json.is_empty(), "{asked:?}");
    for form in forms.split(' ') {
        let holds = |rows: &[Value]| assert!(rows == json, "{asked:?}: {form}");
        match form {
            "json" => {}
            "jsonl" => holds(&lines(&printed(form))),
            "yaml" => holds(&serde_saphyr::from_str::<Vec<Value>>(&printed(form)).unwrap()),
            "csv" => table(asked, &printed(form), &json),
            "name" => {
                let all: Vec<String> = printed(form).lines().map(str::to_owned).collect();
                let once: BTreeSet<&String> = all.iter().collect();
                assert_eq!(once.len(), all.len(), "{asked:?}");
                named.extend(all);
            }
            "markdown" => assert!(
                pulldown_cmark::Parser::new(&printed(form)).count() > 5,
                "{asked:?}"
            ),
            "text" => assert!(printed(form).lines().count() > 1, "{asked:?}"),
            "wide" => wide(asked, &printed("text"), &printed(form)),
            "openmetrics" => assert!(printed(form).ends_with("\n# EOF\n")),
            "-wide" | "-name" => {
                let said = kflow([asked, &["-o", &form[1..], "-s", session]].concat());
                assert_eq!(said.code, Some(2), "{asked:?}");
                assert!(said.err.contains("--list"), "{}", said.err);
            }
            other => panic!("no parser of {other}"),
        }
    }
    named
}

/// CSV has one record for each row; a column that JSON also has holds the same values.
fn table(asked: &[&str], text: &str, json: &[Value]) {
    let mut table = csv::Reader::from_reader(text.as_bytes());
    let head = table.headers().unwrap().clone();
    let records: Vec<_> = table.records().map(|r| r.unwrap()).collect();
    if asked.contains(&"deploy/quota") {
        let happened = |r: &Value| r["happenings"].as_array().unwrap().len();
        assert_eq!(records.len(), json.iter().map(happened).sum::<usize>());
        return;
    }
    assert_eq!(records.len(), json.len(), "{asked:?}");
    if asked[0] == "why" && !asked.contains(&"--ever") {
        let is_cell = |v: &Value| !v.is_array() && !v.is_object();
        let cells = json.iter().flat_map(|row| row.as_object().unwrap());
        let cells = cells
            .filter(|(_, v)| is_cell(v))
            .map(|(key, _)| key.as_str());
        // Lists and objects are null in some rows.
        let nested = ["in_flight", "behind", "recurrence"];
        let missing: BTreeSet<&str> = cells
            .filter(|key| !nested.contains(key) && !head.iter().any(|h| h == *key))
            .collect();
        assert!(missing.is_empty(), "{asked:?}: {missing:?}");
    }
    let mut compared = 0;
    for (record, row) in records.iter().zip(json) {
        for (key, cell) in head.iter().zip(record) {
            let same = match row.get(key) {
                Some(Value::Number(n)) => cell == n.to_string(),
                Some(Value::Null) => cell.is_empty(),
                Some(Value::Bool(b)) => cell == b.to_string(),
                Some(Value::String(s)) if s.is_ascii() => cell == s.replace(['\n', '\t'], " "),
                _ => continue,
            };
            assert!(same, "{asked:?}: {key} of {row}: {cell:?}");
            compared += 1;
        }
    }
    assert!(compared >= 8 * json.len(), "{asked:?}: {compared}");
}

/// A command accepts the name, and finds only that object.
fn is_taken(name: &str, session: &str) {
    let of = ["-s", session, "--at", "50%", "-o", "name"];
    let said = kflow([&["why", name], &of[..]].concat());
    // Exit code 0: the object is well or gone, and has no verdict.
    assert!(matches!(said.code, Some(0 | 1)), "{name}: {}", said.err);
    assert!(said.out.lines().all(|l| l == name), "{name}: {}", said.out);
    // A node has no timeline.
    if !name.starts_with("node/") {
        let said = kflow([&["timeline", "--past", name], &of[..]].concat());
        assert_eq!(said.code, Some(0), "{name}: {}", said.err);
        assert_eq!(said.out.trim_end(), name);
    }
}

/// The wide table has more columns than the text, and all of the text's.
fn wide(asked: &[&str], text: &str, wide: &str) {
    let head = |of: &str| -> Vec<String> {
        let head = of.lines().next().unwrap().split_whitespace();
        head.map(str::to_owned).collect()
    };
    let (few, many) = (head(text), head(wide));
    let missing: Vec<&String> = few.iter().filter(|c| !many.contains(c)).collect();
    assert!(missing.is_empty(), "{asked:?}: {missing:?}");
    assert!(many.len() > few.len(), "{asked:?}: {many:?}");
    assert_eq!(text.lines().count(), wide.lines().count(), "{asked:?}");
}

#[test]
fn a_name_is_as_kubectl_takes_it_in_the_namespace_that_is_asked_for() {
    let session = stuck();
    let of = ["-s", &session, "--at", "50%", "-o", "name"];
    for (asked, want) in [
        (&["why", "--all", "-n", "s02"][..], "pod/image-missing\n"),
        (&["why", "s02/image-missing"], "pod/s02/image-missing\n"),
        (&["timeline", "-n", "s02"], "pod/image-missing\n"),
        (&["timeline", "image-missing"], "pod/s02/image-missing\n"),
        (&["timeline", "deploy/quota"], "s29/deployment/quota\n"),
        (
            &["timeline", "deploy/quota", "-n", "s29"],
            "deployment/quota\n",
        ),
        (&["why", "deploy/quota", "-n", "s29"], "deployment/quota\n"),
    ] {
        let said = kflow([asked, &of].concat());
        assert_eq!(said.out, want, "{asked:?}: {}", said.err);
    }
}

/// A namespace may have the name of a kind, such as `job`: then the printed name says which is meant.
#[test]
fn a_pod_of_a_namespace_that_is_called_as_a_kind_has_a_name_too() {
    let dir = tempfile::tempdir().unwrap();
    let pod = serde_json::json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"namespace": "job", "name": "x", "uid": "abcdef00-0000-4000-8000-000000000000",
            "creationTimestamp": "2026-11-21T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Pending"}});
    let list = serde_json::json!({"kind": "List", "apiVersion": "v1", "items": [pod]});
    let (from, to) = (dir.path().join("pods.json"), dir.path().join("s.kflow"));
    std::fs::write(&from, list.to_string()).unwrap();
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    assert_eq!(
        kflow(["import", "-q", "--watch", from, "-O", to]).code,
        Some(0)
    );
    let said = kflow(["timeline", "pod/job/x", "-s", to, "-o", "name"]);
    assert_eq!(said.out, "pod/job/x\n", "{}", said.err);
    // The pod is found, but its object alone does not tell whether it still exists.
    let said = kflow(["why", "pod/job/x", "-s", to, "-o", "name"]);
    assert!(said.err.contains("how pod job/x is"), "{}", said.err);
}

#[test]
fn what_is_not_known_is_a_row_in_yaml_and_none_in_csv_and_names() {
    let said = kflow(["why", "--all", "-o", "yaml"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    let rows: Vec<Value> = serde_saphyr::from_str(&said.out).unwrap();
    assert_eq!(rows[0]["state"], "unknown", "{}", said.out);
    for form in ["csv", "name"] {
        let said = kflow(["why", "--all", "-o", form]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{form}");
        assert!(!said.err.is_empty(), "{form}");
    }
}
