//! Texts are data: no source file holds a component's sentence, and what rules name for kflow's own sentences is said by one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::in_repository;
use kflow_core::diagnose::Catalogue;
use kflow_model::cri::method;
use regex::Regex;

/// The files that hold components' texts.
const DATA: [&str; 2] = [
    include_str!("../../crates/core/src/flow/map.toml"),
    include_str!("../../crates/core/src/diagnose/signals.toml"),
];

/// The messages by which an Event is known without its reason: reason, reporter, begin, and with what the Event's begins if with more.
const MESSAGES: &str = include_str!("../../crates/sources/src/kube/kubectl/messages.tsv");

/// Returns the rows of [`MESSAGES`].
fn messages() -> impl Iterator<Item = [&'static str; 3]> {
    let rows = MESSAGES.lines().filter(|l| !l.starts_with("# "));
    rows.map(|l| {
        let cells: Vec<&str> = l.split('\t').take(3).collect();
        cells.try_into().unwrap_or_else(|_| panic!("{l}"))
    })
}

/// Keys of those files whose values are texts of components.
const TEXTS: [&str; 25] = [
    "log",
    "message",
    "contains",
    "span",
    "pod",
    "read",
    "text",
    "action",
    "told",
    "image",
    "cause_after",
    "unanswered",
    "timed_out",
    "starting",
    "runtime_down",
    "available",
    "preemption",
    "nothing",
    "ending",
    "list",
    "next",
    "refused",
    "other",
    "awaits",
    "continued",
];

/// Texts that still stand in source files: file, literal. Add nothing to this list.
const LEFT: &[(&str, &str)] = &[
    // The decoder of the kubelet's log, below the map, drops these lines of cAdvisor unless they name a pod.
    ("crates/sources/src/klog/decode.rs", "Start housekeeping"),
    // kflow's own name for a kind of work.
    ("crates/core/src/correlate/kubelet/work.rs", "probe failed"),
];

/// Collects the texts of components from a value and everything below it.
fn texts(value: &toml::Value, told: bool, out: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(t) => {
            for (k, v) in t {
                texts(v, told || TEXTS.contains(&k.as_str()), out);
            }
        }
        toml::Value::Array(a) => a.iter().for_each(|v| texts(v, told, out)),
        toml::Value::String(s) if told => {
            // The text around placeholders counts when it has at least three words.
            let pieces = s
                .split(['{', '}'])
                .step_by(2)
                .map(|p| p.trim_matches('…').trim());
            out.extend(
                pieces
                    .filter(|p| !s.contains('{') || words(p) > 2)
                    .map(str::to_owned),
            );
        }
        _ => {}
    }
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Returns the sentences of components: those of the map, and every message of the recorded kubelets.
fn sentences() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for data in DATA {
        texts(
            &data.parse::<toml::Table>().unwrap().into(),
            false,
            &mut all,
        );
    }
    let recorded = include_str!("../../fixtures/klog/messages.tsv");
    all.extend(
        recorded
            .lines()
            .filter_map(|l| Some(l.split("] \"").nth(1)?.split('"').next()?.to_owned())),
    );
    all.retain(|s| words(s) > 1 || s.contains('/') && !s.starts_with('/'));
    all
}

/// Returns the first sentence that a literal spells out: whole, or at least two words of its beginning or
/// three of its middle.
fn spelt<'s>(literal: &str, sentences: &'s BTreeSet<String>) -> Option<&'s String> {
    let (literal, n) = (literal.trim(), words(literal));
    if n < 2 {
        return sentences.get(literal);
    }
    sentences.iter().find(|s| {
        (s.contains(' ') && literal.contains(s.as_str()))
            || s.starts_with(literal)
            || (n > 2 && s.contains(literal))
    })
}

/// Returns the string literals of a file, without those in comments and in its test module.
fn literals(source: &str) -> Vec<String> {
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(test)]\npub(super) mod "];
    let code = tests
        .iter()
        .fold(source, |code, begin| code.split(begin).next().unwrap());
    let mut out = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, tail) = rest.split_at(at);
        if let Some(comment) = tail.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, r)| r);
        } else if let Some(after) = tail.strip_prefix("'\"'") {
            rest = after;
        } else if !tail.starts_with('"') {
            rest = tail.get(1..).unwrap();
        } else if before.ends_with(['r', '#']) && before.trim_end_matches('#').ends_with('r') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let close = format!("\"{}", "#".repeat(hashes));
            let (text, after) = tail.get(1..).unwrap().split_once(close.as_str()).unwrap();
            out.push(text.to_owned());
            rest = after;
        } else {
            let mut text = String::new();
            let mut chars = tail.char_indices().skip(1);
            rest = loop {
                match chars.next() {
                    Some((_, '\\')) => text.extend(chars.next().map(|(_, c)| c)),
                    Some((i, '"')) => break tail.get(i + 1..).unwrap(),
                    Some((_, c)) => text.push(c),
                    None => break "",
                }
            };
            out.push(text);
        }
    }
    out
}

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !matches!(name, "tests" | "benches" | "target" | "examples") {
            sources(&path, out);
        } else if path.extension() == Some("rs".as_ref()) && name != "tests.rs" {
            out.push(path);
        }
    }
}

/// Returns the literals of the product's source files for which `is` returns true, with their files.
fn found(is: impl Fn(&str) -> bool) -> BTreeSet<(String, String)> {
    let mut files = Vec::new();
    sources(&in_repository("src"), &mut files);
    sources(&in_repository("crates"), &mut files);
    let mut found = BTreeSet::new();
    for path in files {
        let source = std::fs::read_to_string(&path).unwrap();
        let name = path
            .strip_prefix(in_repository(""))
            .unwrap()
            .to_string_lossy();
        let all = literals(&source).into_iter().filter(|l| is(l));
        found.extend(all.map(|l| (name.clone().into_owned(), l)));
    }
    found
}

/// A message that nothing makes use of would only hide what stands before and behind it.
#[test]
fn what_an_event_is_known_by_is_of_a_reason_that_is_read() {
    let map = DATA[0].parse::<toml::Table>().unwrap();
    let mut events = BTreeSet::new();
    reasons(&map.into(), &mut events);
    for [reason, reporter, begin] in messages() {
        let of_claim = format!("@claim/{reason}");
        let mut under = [reason, of_claim.as_str()].into_iter();
        let caught = under.any(|r| Catalogue::get().under(r).next().is_some());
        assert!(caught || events.contains(reason), "{reason}: {begin}");
        assert!(
            reporter
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'-'),
            "{reporter}"
        );
        assert!(words(begin) > 1 || begin.ends_with('.'), "{begin}");
    }
}

/// Collects the reasons of Events that the map has as evidence.
fn reasons(value: &toml::Value, out: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(t) => {
            out.extend(t.get("event").and_then(|e| e.as_str()).map(str::to_owned));
            t.values().for_each(|v| reasons(v, out));
        }
        toml::Value::Array(a) => a.iter().for_each(|v| reasons(v, out)),
        _ => {}
    }
}

#[test]
fn no_method_of_the_cri_is_spelt_in_the_sources() {
    let mut found = found(|literal| {
        // A method name of one word, such as Status, is also a name of other things.
        let words = literal.chars().filter(char::is_ascii_uppercase).count();
        words > 1 && method::ALL.contains(&literal)
    });
    found.retain(|(file, _)| file != "crates/model/src/cri/method.rs");
    assert!(found.is_empty(), "write `method::…`: {found:#?}");
}

#[test]
fn no_sentence_of_a_component_stands_in_the_sources() {
    let sentences = sentences();
    assert!(sentences.len() > 400, "{}", sentences.len());
    let found = found(|literal| spelt(literal, &sentences).is_some());
    let left: BTreeSet<(String, String)> = LEFT
        .iter()
        .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
        .collect();
    let new: Vec<_> = found.difference(&left).collect();
    assert!(
        new.is_empty(),
        "write these as evidence in map.toml or signals.toml, and use their facts:\n{new:#?}"
    );
    let gone: Vec<_> = left.difference(&found).collect();
    assert!(gone.is_empty(), "take these from the list: {gone:#?}");
}

/// A name that is set and not said leaves out the part of a sentence, or the step, that it was set for.
#[test]
fn what_a_rule_names_is_said_or_read() {
    let mut files = Vec::new();
    sources(&in_repository("crates/core/src/diagnose"), &mut files);
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    let rules: String = files.iter().map(read).collect();
    let causes = read(&in_repository("crates/core/src/diagnose/catalogue.toml"));
    let sets = r#"(?:\.name|\.varying|names\s*\.(?:set|vary))\(\s*"(\w+)"\s*,"#;
    let sets = Regex::new(sets).unwrap();
    let names: BTreeSet<&str> = (sets.captures_iter(&rules))
        .map(|c| c.get(1).unwrap().as_str())
        .collect();
    assert!(names.len() > 150, "{}", names.len());
    let is_used = |name: &str| {
        let said = format!("{{{name}}}");
        causes.contains(&said)
            || rules.contains(&said)
            || rules.contains(&format!("get(\"{name}\")"))
    };
    let idle: Vec<_> = names.into_iter().filter(|name| !is_used(name)).collect();
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn literals_are_found_beside_comments_and_in_raw_strings() {
    let source = "// \"no\"\nf(\"a \\\"b\", r#\"c \"d\"#, '\"', b\"e\"); /* x */ g(\"h/i\")\n#[cfg(test)]\nmod tests { \"j\" }";
    assert_eq!(literals(source), ["a \"b", "c \"d", "e", "h/i"]);
}

/// The correlator says what was seen, the diagnosis what that means.
#[test]
fn what_the_diagnosis_is_made_of_does_not_use_it() {
    let core = in_repository("crates/core/src");
    let mut files = Vec::new();
    for room in ["flow", "timeline", "correlate"] {
        files.push(core.join(format!("{room}.rs")));
        sources(&core.join(room), &mut files);
    }
    assert!(files.len() > 30);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
        let uses = |l: &str| {
            l.contains("diagnose::") || l.contains("diagnose}") || l.contains("diagnose,")
        };
        let found = code.clone().find(|l| uses(l));
        assert!(found.is_none(), "{}: {found:?}", file.display());
    }
}
