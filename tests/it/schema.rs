//! The JSON output of every command fits its schema in `docs/schema`, which names every key.

use std::collections::BTreeMap;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use crate::program;
use crate::store::Rig;

fn kflow(args: &[&str], form: &str) -> (String, String) {
    let said = program::kflow([args, &["-o", form]].concat());
    (said.out, said.err)
}

fn recording(name: &str) -> String {
    crate::recording(name).display().to_string()
}

/// Schemas of output that needs an agent: other tests check these.
const ELSEWHERE: [&str; 1] = ["agent"];

/// Asserts that rows fit a schema that allows no other keys.
pub(crate) fn fits(name: &str, rows: &Value) {
    let all = All::read();
    let (_, narrow) = all.by_name[name];
    if let Err(e) = all.schemas.validate(rows, narrow) {
        panic!("{name}: {e}: {rows}");
    }
    assert!(rows.as_array().is_some_and(|r| !r.is_empty()), "{rows}");
}

/// The schemas by name, each as it is published for readers, and in a strict form in which an unknown key is an error.
struct All {
    schemas: Schemas,
    by_name: BTreeMap<String, (SchemaIndex, SchemaIndex)>,
}

/// Makes a schema strict: it forbids keys that it does not name.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(all) => {
            all.values_mut().for_each(strict);
            let is_object =
                |t: &Value| t == "object" || t.as_array().is_some_and(|t| t[0] == "object");
            if all.get("type").is_some_and(is_object) {
                all.insert("additionalProperties".into(), false.into());
            }
        }
        Value::Array(all) => all.iter_mut().for_each(strict),
        _ => {}
    }
}

impl All {
    fn read() -> Self {
        let mut all = Self {
            schemas: Schemas::new(),
            by_name: BTreeMap::new(),
        };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schema");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let schema: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(schema["$id"], format!("urn:kflow:{name}:1"));
            let mut narrow = schema.clone();
            strict(&mut narrow);
            narrow["$id"] = format!("urn:kflow:{name}:strict").into();
            let mut compiled = [("1", schema), ("strict", narrow)].map(|(version, schema)| {
                let mut compiler = Compiler::new();
                let id = format!("urn:kflow:{name}:{version}");
                compiler.add_resource(&id, schema).unwrap();
                compiler.compile(&id, &mut all.schemas).unwrap()
            });
            compiled.reverse();
            all.by_name.insert(name, (compiled[1], compiled[0]));
        }
        all
    }

    /// Asserts that a command's answer fits its schema, and returns the answer's number of rows.
    fn hold(&self, name: &str, args: &[&str]) -> usize {
        let (whole, said) = kflow(args, "json");
        let value: Value =
            serde_json::from_str(&whole).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"));
        let (_, narrow) = self.by_name[name];
        if let Err(e) = self.schemas.validate(&value, narrow) {
            panic!("{args:?}: {e}");
        }
        let rows = value.as_array().unwrap();
        if name != "doctor" {
            let (lines, _) = kflow(args, "jsonl");
            let lines: Vec<Value> = lines
                .lines()
                .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{args:?}: {e}")))
                .collect();
            assert_eq!(&lines, rows, "{args:?}: JSON lines are the same rows");
        }
        rows.len()
    }
}

#[test]
fn what_is_written_as_json_fits_its_schema() {
    let all = All::read();
    let mut rows: BTreeMap<&str, usize> = all.by_name.keys().map(|n| (n.as_str(), 0)).collect();
    let mut hold = |name: &'static str, args: &[&str]| {
        *rows.get_mut(name).expect(name) += all.hold(name, args);
    };
    for (name, at) in [
        ("S1-basics", "100%"),
        ("S2-stuck-early", "50%"),
        ("S3-crashes", "60%"),
        ("S4-runtime", "50%"),
        ("S11-control-plane", "70%"),
    ] {
        let s = recording(name);
        let of = ["-s", s.as_str(), "--at", at];
        for (schema, command) in [
            ("timeline", &["timeline", "--past"][..]),
            ("critical", &["timeline", "--critical"]),
            ("calls", &["calls"]),
            ("requests", &["requests"]),
            ("request", &["requests", "--list"]),
            ("flow", &["flow", "--all"]),
            ("stats", &["stats", "--by", "namespace"]),
            ("why", &["why", "--all"]),
            ("incidents", &["why", "--ever"]),
        ] {
            hold(schema, &[command, &of].concat());
        }
    }
    let (before, after) = (recording("S1-basics"), recording("S5-burst"));
    if cfg!(feature = "fleet") {
        hold("fleet", &["fleet", &before, &after]);
        hold("fleet", &["fleet", &before, "--by", "node"]);
        let halves = ["--compare", "..50%", "50%.."];
        hold("fleet", &[&["fleet", after.as_str()], &halves[..]].concat());
    }
    hold("compare", &["stats", "--compare", &before, &after]);
    hold("owner", &["timeline", "s19/deploy/burst", "-s", &after]);
    hold("flow-map", &["flow"]);
    hold("doctor", &["doctor", "--no-api"]);
    hold("causes", &["causes"]);
    hold("causes", &["causes", "KF601"]);
    hold("keys", &["keys"]);
    hold("themes", &["themes"]);
    hold("themes", &["themes", "--keys"]);
    hold("store", &["store", "ls", &Rig::new().url()]);
    for (name, n) in rows {
        // `fleet` exists only with its Cargo feature.
        let is_left_out = name == "fleet" && cfg!(not(feature = "fleet"));
        let is_held = n > 0 || is_left_out || ELSEWHERE.contains(&name);
        assert!(is_held, "nothing was held against {name}");
    }
}

#[test]
fn what_is_not_known_fits_the_schema_of_what_was_asked_for() {
    let all = All::read();
    for (name, command) in [
        ("why", &["why", "--all"][..]),
        ("timeline", &["timeline"]),
        ("calls", &["calls"]),
        ("requests", &["requests"]),
        ("stats", &["stats"]),
    ] {
        let (text, _) = kflow(command, "json");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value[0]["state"], "unknown", "{command:?}: {text}");
        assert_eq!(all.hold(name, command), 1);
    }
}

#[test]
fn a_schema_says_no() {
    let all = All::read();
    let (text, _) = kflow(
        &[
            "why",
            "--all",
            "--at",
            "50%",
            "-s",
            &recording("S2-stuck-early"),
        ],
        "json",
    );
    let good: Value = serde_json::from_str(&text).unwrap();
    let (wide, narrow) = all.by_name["why"];
    let fits = |v: &Value, index| all.schemas.validate(v, index).is_ok();
    assert!(fits(&good, wide) && fits(&good, narrow) && good[0].is_object());
    let changed = |change: fn(&mut Value)| {
        let mut v = good.clone();
        change(&mut v[0]);
        v
    };
    for bad in [
        changed(|v| v["since_ns"] = "soon".into()),
        changed(|v| v["state"] = "odd".into()),
        changed(|v| v["cause"] = "601".into()),
        changed(|v| drop(v.as_object_mut().unwrap().remove("sentence"))),
        changed(|v| v["evidence"][0]["source"] = "rumour".into()),
    ] {
        assert!(!fits(&bad, wide), "{}", bad[0]);
    }
    // Later versions may add keys: the published schema accepts them, the strict form of this test does not.
    let more = changed(|v| v["evidence"][0]["colour"] = "red".into());
    assert!(fits(&more, wide) && !fits(&more, narrow));
}

/// Ids of causes are a number with an optional letter, which marks a cause that was split in two.
#[test]
fn every_cause_fits_what_the_schemas_say_of_causes() {
    let mut patterns = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schema")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for (at, _) in text.match_indices("\"^KF") {
            let pattern = text[at + 1..].split('"').next().unwrap();
            let pattern = regex::Regex::new(pattern).unwrap();
            for cause in kflow_core::diagnose::Catalogue::get().iter() {
                assert!(
                    pattern.is_match(cause.id.as_str()),
                    "{pattern}: {}",
                    cause.id.as_str()
                );
            }
            patterns += 1;
        }
    }
    assert!(patterns >= 3, "{patterns}");
}
