//! The object that is committed is made of the source beside it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect has failed"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn bpf(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf").join(name)
}

fn said(command: &mut Command) -> Option<String> {
    let out = command.output().ok()?;
    out.status
        .success()
        .then(|| String::from_utf8(out.stdout).unwrap())
}

/// What `build.sh` wrote down when it made the object: the compiler, and the checksum of the source.
fn noted() -> (String, String) {
    let note = fs::read_to_string(bpf("tap.bpf.txt")).unwrap();
    let (compiler, checksum) = note.split_once('\n').unwrap();
    (compiler.to_owned(), checksum.trim().to_owned())
}

#[test]
fn the_source_is_the_one_that_the_object_was_made_of() {
    let source = fs::File::open(bpf("tap.bpf.c")).unwrap();
    let now = said(Command::new("cksum").stdin(Stdio::from(source))).unwrap();
    assert_eq!(
        now.trim(),
        noted().1,
        "tap.bpf.c was changed: run crates/tap/bpf/build.sh"
    );
}

/// Names of programs and definitions of maps.
fn outline(object: &[u8]) -> (Vec<String>, BTreeMap<String, String>) {
    let object = aya_obj::Object::parse(object).unwrap();
    let mut programs: Vec<String> = object
        .programs
        .iter()
        .map(|(name, p)| format!("{name} {:?}", p.section))
        .collect();
    programs.sort();
    let maps = object.maps.iter();
    let maps = maps.map(|(name, m)| {
        let (kind, key, value) = (m.map_type(), m.key_size(), m.value_size());
        (
            name.clone(),
            format!("{kind} {key} {value} {}", m.max_entries()),
        )
    });
    (programs, maps.collect())
}

#[test]
fn a_compiler_makes_the_same_object_of_it() {
    let Some(compiler) = said(Command::new("clang").arg("--version")) else {
        eprintln!("LEFT OUT: no clang here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(bpf("build.sh"))
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(made.success());
    let now = fs::read(folder.path().join("tap.bpf.o")).unwrap();
    let committed = fs::read(bpf("tap.bpf.o")).unwrap();
    assert_eq!(outline(&now), outline(&committed));
    // Another version makes other instructions of the same source.
    if compiler.lines().next() == Some(noted().0.as_str()) {
        assert!(now == committed, "run crates/tap/bpf/build.sh");
    }
}

#[test]
fn every_program_is_attached_somewhere() {
    let (programs, maps) = outline(&fs::read(bpf("tap.bpf.o")).unwrap());
    assert_eq!(programs.len(), 31, "{programs:#?}");
    let names: Vec<&str> = maps.keys().map(String::as_str).collect();
    let known = [
        "cursors",
        "descriptors",
        "entered",
        "numbers",
        "paths",
        "processes",
        "ring",
        "streams",
    ];
    assert_eq!(names, known);
}
