//! The rules of `deny.toml` for dependencies, checked against what cargo resolves: for machines without cargo-deny.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The packages of a Linux build. Those of packages that are not built by default may not have been fetched yet.
fn packages() -> Vec<Value> {
    let of = |more: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .args(more)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap()
    };
    let fetched = Some(of(&["--offline"])).filter(|out| out.status.success());
    let out = fetched.unwrap_or_else(|| of(&[]));
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let v: Value = serde_json::from_slice(&out.stdout).unwrap();
    v["packages"].as_array().unwrap().clone()
}

/// The names of the packages that a package is built of, itself first, without dependencies of its tests.
fn tree(package: &str, more: &[&str]) -> Vec<String> {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--package", package, "--edges", "normal"])
        .args([
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--locked",
            "--offline",
        ])
        .args(more)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).unwrap();
    let names = text.lines().filter_map(|l| l.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_proxy_is_built_of_what_its_page_says_and_links_no_client_terminal_or_tls() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/proxy.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, listed) = page.split_once("```text\nkflow-proxy\n").unwrap();
    let (listed, _) = listed.split_once("```").unwrap();
    let listed: Vec<&str> = listed
        .lines()
        .filter_map(|l| l.split_once(' ')?.1.split(' ').next())
        .collect();
    assert_eq!(tree("kflow-proxy", &["--depth", "1"])[1..], listed);
    let all = tree("kflow-proxy", &[]);
    assert!(all.len() > 20, "{all:?}");
    let strange = [
        "kube",
        "k8s-",
        "ratatui",
        "crossterm",
        "rustls",
        "openssl",
        "native-tls",
        "aya",
    ];
    let found: Vec<&String> = all
        .iter()
        .filter(|name| strange.iter().any(|s| name.starts_with(s)))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

fn rules() -> toml::Table {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml");
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

fn texts(v: &toml::Value) -> BTreeSet<String> {
    let all = v.as_array().unwrap().iter();
    all.map(|t| t.as_str().unwrap().to_owned()).collect()
}

/// True when the allowed licences satisfy an SPDX expression. Old manifests write `/` for OR.
fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&tokens, &mut at, allowed);
    assert_eq!(at, tokens.len(), "all of {expression} is understood");
    met
}

fn any(tokens: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = all(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(tokens, at, allowed);
    }
    met
}

fn all(tokens: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = one(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(tokens, at, allowed);
    }
    met
}

fn one(tokens: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    if tokens[*at] == "(" {
        *at += 1;
        let met = any(tokens, at, allowed);
        assert_eq!(tokens[*at], ")");
        *at += 1;
        return met;
    }
    let mut name = tokens[*at].to_owned();
    *at += 1;
    if tokens.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", tokens[*at + 1]);
        *at += 2;
    }
    allowed(&name)
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let rules = rules();
    let allow = texts(&rules["licenses"]["allow"]);
    let exceptions: Vec<(String, BTreeSet<String>)> = rules["licenses"]["exceptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["name"].as_str().unwrap().to_owned(), texts(&e["allow"])))
        .collect();
    let packages = packages();
    assert!(packages.len() > 100);
    for p in packages {
        let name = p["name"].as_str().unwrap();
        let licence = p["license"].as_str().unwrap_or("none");
        let more = exceptions.iter().find(|(n, _)| n == name);
        let allowed =
            |l: &str| allow.contains(l) || more.is_some_and(|(_, extra)| extra.contains(l));
        assert!(satisfied(licence, &allowed), "{name}: {licence}");
    }
}

#[test]
fn nothing_banned_and_nothing_from_elsewhere_comes_in() {
    let rules = rules();
    let banned: Vec<&str> = rules["bans"]["deny"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["name"].as_str().unwrap())
        .collect();
    assert!(!banned.is_empty());
    for p in packages() {
        let name = p["name"].as_str().unwrap();
        assert!(!banned.contains(&name), "{name} is banned");
        let member = p["source"].is_null()
            && p["manifest_path"]
                .as_str()
                .unwrap()
                .starts_with(env!("CARGO_MANIFEST_DIR"));
        if !member {
            let source = p["source"].as_str().unwrap_or("a path");
            assert!(
                source.starts_with("registry+"),
                "{name} comes from {source}"
            );
        }
    }
}

/// Dependencies that no source file names: kube only builds when a version of k8s-openapi's API is chosen.
const UNNAMED: [(&str, &str); 1] = [("kflow-sources", "k8s-openapi")];

/// The identifiers in the Rust files below a folder, except in comment lines. Folders with a
/// manifest are other packages.
fn identifiers(folder: &Path, out: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.join("Cargo.toml").exists() && !path.ends_with("target") {
                identifiers(&path, out);
            }
        } else if path.extension() == Some("rs".as_ref()) {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            let words = code.flat_map(|l| l.split(|c: char| !c.is_alphanumeric() && c != '_'));
            out.extend(words.map(str::to_owned));
        }
    }
}

#[test]
fn every_dependency_is_used_by_the_package_that_names_it() {
    let (mut unused, mut looked_at) = (Vec::new(), 0);
    for p in packages().iter().filter(|p| p["source"].is_null()) {
        let name = p["name"].as_str().unwrap();
        let manifest = Path::new(p["manifest_path"].as_str().unwrap());
        let mut used = BTreeSet::new();
        for folder in ["src", "tests", "benches", "examples"] {
            let folder = manifest.with_file_name(folder);
            if folder.exists() {
                identifiers(&folder, &mut used);
            }
        }
        for d in p["dependencies"].as_array().unwrap() {
            let of = d["name"].as_str().unwrap();
            looked_at += 1;
            if !used.contains(&of.replace('-', "_")) && !UNNAMED.contains(&(name, of)) {
                unused.push(format!("{name}: {of}"));
            }
        }
    }
    assert!(looked_at > 100, "{looked_at}");
    assert!(unused.is_empty(), "take out of Cargo.toml: {unused:#?}");
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    let allowed = |l: &str| matches!(l, "MIT" | "ISC" | "Apache-2.0 WITH LLVM-exception");
    for (e, want) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("Unlicense/MIT", true),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("MIT OR Apache-2.0 AND GPL-3.0", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
    ] {
        assert_eq!(satisfied(e, &allowed), want, "{e}");
    }
}
