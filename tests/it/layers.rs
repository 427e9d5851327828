//! The table of rooms in `src/lib.rs`, enforced: who may look where, and what pure code may not name.

use regex::Regex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Room, the rooms that it may look at.
const ROOMS: [(&str, &[&str]); 16] = [
    ("model", &[]),
    ("file", &[]),
    ("flow", &["model"]),
    ("timeline", &["model", "flow"]),
    ("correlate", &["model", "flow", "timeline"]),
    ("diagnose", &["model", "flow", "timeline", "correlate"]),
    (
        "query",
        &["model", "flow", "timeline", "correlate", "diagnose"],
    ),
    ("session", &["model", "timeline", "file"]),
    (
        "export",
        &[
            "model",
            "flow",
            "timeline",
            "correlate",
            "diagnose",
            "query",
        ],
    ),
    ("clock", &["model"]),
    // The live halves stamp what they get; the pure ones may not name the clock, see below.
    ("source", &["model", "flow", "clock"]),
    ("proxy", &["model", "source", "session", "clock"]),
    (
        "engine",
        &[
            "model",
            "flow",
            "timeline",
            "correlate",
            "diagnose",
            "query",
            "session",
            "source",
            "clock",
            "proxy",
            "export",
            "file",
        ],
    ),
    ("doctor", &["model", "source", "proxy", "engine"]),
    (
        "tui",
        &[
            "model",
            "flow",
            "timeline",
            "correlate",
            "diagnose",
            "query",
            "export",
            "engine",
            "clock",
            "file",
        ],
    ),
    (
        "cli",
        &[
            "model",
            "file",
            "flow",
            "timeline",
            "correlate",
            "diagnose",
            "query",
            "session",
            "source",
            "clock",
            "proxy",
            "export",
            "engine",
            "doctor",
            "tui",
        ],
    ),
];

/// Rooms that are pure throughout.
const PURE: [&str; 7] = [
    "model",
    "flow",
    "timeline",
    "correlate",
    "diagnose",
    "query",
    "export",
];

/// True for code that must not do I/O: pure rooms, and the pure half of `session` and `source` (where the other half
/// is called `live`, or reads and writes files).
fn is_pure(module: &[String]) -> bool {
    let room = module.first().map_or("", String::as_str);
    match room {
        "session" => !module
            .iter()
            .any(|m| matches!(m.as_str(), "reader" | "writer")),
        "source" => !module.iter().any(|m| EDGE_OF_SOURCES.contains(&m.as_str())),
        _ => PURE.contains(&room),
    }
}

/// Modules of `source` that do I/O, besides those called `live`: what receives over HTTP.
const EDGE_OF_SOURCES: [&str; 2] = ["live", "receive"];

/// What pure code may not name.
fn impure() -> Vec<(Regex, &'static str)> {
    [
        (r"(?:^|[^:\w])(?:tokio|hyper|tonic|ratatui|crossterm|clap|indicatif|rustix|inotify|k8s_openapi|zstd)::", "a crate that does I/O"),
        (r"\buse (?:tokio|kube|hyper|tonic|ratatui|crossterm|clap|indicatif|rustix|inotify|k8s_openapi|zstd)\b", "a crate that does I/O"),
        (r"(?:^|[^:\w])::kube::|\bkube::(?:Client|Api|Config|runtime|api|core)\b", "the Kubernetes client"),
        (r"\bstd::(?:fs|net|env|process|thread|os)\b", "the system"),
        (r"\bstd::\{[^}]*\b(?:fs|net|env|process|thread|os)\b", "the system"),
        (r"\b(?:SystemTime|Instant|Utc|Local)::now\b", "the clock"),
        (r"\bclock::", "the clock"),
        (r"\b(?:e?print(?:ln)?|dbg)!", "the terminal"),
    ]
    .into_iter()
    .map(|(re, what)| (Regex::new(re).unwrap(), what))
    .collect()
}

/// Source without comments and without what follows the first test module: tests may do as they like.
fn code_of(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("#[cfg(test)]") && !line.starts_with(' ') {
            break;
        }
        if trimmed.starts_with("//") {
            out.push('\n');
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Rooms that a file names: `crate::room`, `crate::{room, …}`, and `super::` chains that leave the room.
fn rooms_named(module: &[String], code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let paths = Regex::new(r"(crate::|(?:super::)+)(\{[^;]*|\w+)").unwrap();
    for c in paths.captures_iter(code) {
        let prefix = &c[1];
        let depth = if prefix == "crate::" {
            0
        } else {
            let up = prefix.matches("super::").count();
            module.len().saturating_sub(up)
        };
        if depth > 0 {
            // It stays inside the room.
            continue;
        }
        let rest = &c[2];
        if let Some(list) = rest.strip_prefix('{') {
            let mut level = 0;
            let mut word = String::new();
            let mut first = true;
            for ch in list.chars() {
                match ch {
                    '{' => level += 1,
                    '}' if level == 0 => break,
                    '}' => level -= 1,
                    ',' if level == 0 => first = true,
                    ':' if level == 0 => first = false,
                    _ => {}
                }
                if level == 0 && first && (ch.is_alphanumeric() || ch == '_') {
                    word.push(ch);
                } else if !word.is_empty() {
                    named.insert(std::mem::take(&mut word));
                }
            }
            if !word.is_empty() {
                named.insert(word);
            }
        } else {
            named.insert(rest.to_owned());
        }
    }
    named.retain(|n| ROOMS.iter().any(|(r, _)| r == n));
    named
}

/// What is wrong with one file, whose module path is given without `crate`.
fn violations(module: &[String], text: &str) -> Vec<String> {
    let code = code_of(text);
    let Some(room) = module.first() else {
        return Vec::new();
    };
    let path = module.join("::");
    let mut wrong = Vec::new();
    match ROOMS.iter().find(|(r, _)| r == room) {
        None => wrong.push(format!("{path}: the room {room} is not in the table")),
        Some((_, allowed)) => {
            for named in rooms_named(module, &code) {
                if &named != room && !allowed.contains(&named.as_str()) {
                    wrong.push(format!("{path} looks at {named}"));
                }
            }
        }
    }
    if is_pure(module) {
        for (re, what) in impure() {
            if let Some(m) = re.find(&code) {
                wrong.push(format!(
                    "{path} is pure and names {what}: {}",
                    m.as_str().trim()
                ));
            }
        }
    }
    wrong
}

fn sources() -> Vec<(Vec<String>, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for e in std::fs::read_dir(dir).unwrap() {
            let p = e.unwrap().path();
            if p.is_dir() {
                walk(&p, out);
            } else if p.extension().is_some_and(|e| e == "rs") {
                out.push(p);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&src, &mut files);
    files.sort();
    files
        .into_iter()
        .filter(|p| !p.ends_with("main.rs") && !p.ends_with("lib.rs"))
        .map(|p| {
            let module = p
                .strip_prefix(&src)
                .unwrap()
                .with_extension("")
                .iter()
                .map(|s| s.to_string_lossy().into_owned())
                .collect();
            (module, std::fs::read_to_string(&p).unwrap())
        })
        .collect()
}

#[test]
fn no_room_looks_where_it_may_not() {
    let wrong: Vec<String> = sources()
        .iter()
        .flat_map(|(module, text)| violations(module, text))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_module_hides_in_a_mod_rs() {
    let hidden: Vec<_> = sources()
        .into_iter()
        .filter(|(m, _)| m.last().is_some_and(|l| l == "mod"))
        .map(|(m, _)| m.join("/"))
        .collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

#[test]
fn the_table_has_no_circles() {
    for (n, (room, allowed)) in ROOMS.iter().enumerate() {
        for a in *allowed {
            let at = ROOMS.iter().position(|(r, _)| r == a).unwrap();
            assert!(at < n, "{room} looks at {a}, which comes after it");
        }
    }
}

#[test]
fn the_check_finds_what_it_looks_for() {
    let module = |s: &str| s.split("::").map(str::to_owned).collect::<Vec<_>>();
    for (m, text, want) in [
        ("correlate::world", "use crate::tui::keys;", "looks at tui"),
        (
            "correlate::world",
            "use crate::{model::Nanos, diagnose::Verdict};",
            "looks at diagnose",
        ),
        (
            "correlate::world",
            "use super::super::engine::Core;",
            "looks at engine",
        ),
        (
            "model::pod",
            "use crate::{\n    flow::Stage,\n};",
            "looks at flow",
        ),
        (
            "tui::pane",
            "fn f() { crate::source::kube::x() }",
            "looks at source",
        ),
        ("diagnose", "use std::fs::File;", "names the system"),
        (
            "diagnose",
            "use std::{collections::BTreeMap, env};",
            "names the system",
        ),
        (
            "export::html",
            "let t = std::time::Instant::now();",
            "names the clock",
        ),
        ("source::otlp::decode", "use tokio::sync::mpsc;", "does I/O"),
        (
            "session::format",
            "let f = zstd::bulk::compress(b, 3);",
            "does I/O",
        ),
        ("timeline", "println!(\"x\");", "names the terminal"),
        ("cellar", "", "not in the table"),
    ] {
        let found = violations(&module(m), text);
        assert!(
            found.iter().any(|f| f.contains(want)),
            "{m}: {text}: {found:?}"
        );
    }
    for (m, text) in [
        (
            "correlate::world",
            "use crate::model::Nanos;\nuse super::calls::Call;",
        ),
        (
            "correlate::world",
            "// use crate::tui;\n#[cfg(test)]\nmod tests { use crate::tui; }",
        ),
        (
            "source::kube::live",
            "use tokio::sync::mpsc; use kube::Client;",
        ),
        (
            "engine::import",
            "use crate::source::{kube, fs}; fn f() { std::fs::read(p); kube::decode::x() }",
        ),
        (
            "source::kube::decode",
            "use crate::source::kube::decode; super::super::kube::x();",
        ),
    ] {
        assert_eq!(
            violations(&module(m), text),
            Vec::<String>::new(),
            "{m}: {text}"
        );
    }
}
