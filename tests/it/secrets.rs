//! No secret leaves kflow: canaries stand in every field that people put secrets in, pass every source in each of its
//! forms, and must not reach sessions, exports, screens, error messages or logs.
//!
//! The canaries are invented, but their carriers are real lines, records and bytes of the fixtures, with the canary in
//! the secret's place. A `mark` beside the canaries of a text proves that kflow read the carrier.

mod carriers;
mod live;
mod logs;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use kflow_convert::Capture;
use kflow_engine::import::{Input, Kind, Options, find};
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_engine::{Overview, Pipeline};
use kflow_model::session::{self, Writer};
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::svg;

use carriers::{FOLDER, LAB};

/// The canaries in use. A canary that is found is reported by the place where it was put.
#[derive(Default)]
struct Canaries {
    places: Vec<(String, String)>,
    marks: usize,
}

impl Canaries {
    /// Returns a new canary.
    fn put(&mut self, place: &str) -> String {
        let canary = format!("Kanarie{:04}q", self.places.len());
        self.places.push((canary.clone(), place.to_owned()));
        canary
    }

    /// Replaces each `{C}` with a canary of its own, and `{M}` with a mark.
    fn fill(&mut self, template: &str) -> String {
        let mut out = String::new();
        for (n, part) in template.split("{C}").enumerate() {
            if n > 0 {
                out.push_str(&self.put(template));
            }
            out.push_str(part);
        }
        if out.contains("{M}") {
            out = out.replace("{M}", &mark(self.marks));
            self.marks += 1;
        }
        out
    }

    /// Panics when `bytes` holds a canary.
    fn absent(&self, what: &str, bytes: &[u8]) {
        let found: Vec<&str> = self
            .places
            .iter()
            .filter(|(c, _)| memchr::memmem::find(bytes, c.as_bytes()).is_some())
            .map(|(_, place)| place.as_str())
            .collect();
        assert!(
            found.is_empty(),
            "{what} has {} canaries, of\n{}",
            found.len(),
            found.join("\n")
        );
    }

    /// Panics when `bytes` lacks one of these marks.
    fn read(&self, what: &str, bytes: &[u8], marks: std::ops::Range<usize>) {
        let missing: Vec<usize> = marks
            .filter(|n| memchr::memmem::find(bytes, mark(*n).as_bytes()).is_none())
            .collect();
        assert!(missing.is_empty(), "{what}: not read: {missing:?}");
    }
}

/// Returns the text that stands beside canaries in a text that kflow keeps.
fn mark(n: usize) -> String {
    format!("mark{n:04}q")
}

/// Returns the long flags of a command, from its help.
fn flags_of(command: &str) -> BTreeSet<String> {
    let help = kflow(Path::new("."), &[command, "--help"]).stdout;
    let help = String::from_utf8(help).unwrap();
    let flags: BTreeSet<String> = help
        .lines()
        .map(str::trim_start)
        .filter(|l| l.starts_with('-'))
        .filter_map(|l| l.split([' ', ',', '=']).find(|w| w.starts_with("--")))
        .map(str::to_owned)
        .collect();
    assert!(flags.len() > 10, "{help}");
    flags
}

fn kflow(dir: &Path, args: &[&str]) -> Output {
    let mut command = crate::program::command();
    command.args(args).current_dir(dir).output().unwrap()
}

fn write(dir: &Path, flag: &str, name: &str, content: &[u8]) {
    let mut path = dir.join(name);
    if flag == FOLDER {
        fs::create_dir(&path).unwrap();
        path.push("pods.json");
    }
    fs::write(path, content).unwrap();
}

/// Imports one capture; returns the session, uncompressed, and what the command printed.
fn import(dir: &Path, flag: &str, name: &str, content: &[u8]) -> Vec<u8> {
    write(dir, flag, name, content);
    let out = format!("{name}.kflow");
    if flag == LAB {
        converted(dir, &[name], &[], &out);
        return fs::read(dir.join(out)).unwrap();
    }
    let given = if flag == FOLDER {
        vec![name]
    } else {
        vec![flag, name]
    };
    let o = kflow(
        dir,
        &[&["import", "--year", "2026", "-O", &out], &given[..]].concat(),
    );
    assert!(
        o.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&o.stderr)
    );
    let mut all = fs::read(dir.join(&out)).unwrap();
    all.extend(o.stderr);
    all
}

#[test]
fn no_source_lets_a_secret_into_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = Canaries::default();
    for source in carriers::SOURCES {
        let from = c.marks;
        let content = (source.make)(&mut c);
        let session = import(dir.path(), source.flag, source.name, &content);
        c.absent(source.name, &session);
        c.read(source.name, &session, from..c.marks);
        assert!(
            memchr::memmem::find(&session, b"\"b\":{").is_some(),
            "{}: no observation",
            source.name
        );
    }
    assert!(c.places.len() > 150, "{} canaries", c.places.len());
}

/// Makes a session from files of the lab's recorder and files that `kflow import` reads.
fn converted(dir: &Path, lab: &[&str], inputs: &[Input], out: &str) {
    let lab: Vec<_> = lab
        .iter()
        .map(|name| (Capture::of_file(name).unwrap(), dir.join(name)))
        .collect();
    let options = Options {
        year: Some(2026),
        ..Options::default()
    };
    let (header, observations) = kflow_convert::session(&lab, inputs, &options).unwrap();
    let mut w = Writer::replace(&dir.join(out), 3, &header).unwrap();
    for o in &observations {
        w.write(o).unwrap();
    }
    w.finish().unwrap();
}

/// Makes a folder with one session from all sources.
fn session_of_all() -> (tempfile::TempDir, Canaries) {
    let dir = tempfile::tempdir().unwrap();
    let mut c = Canaries::default();
    let (mut lab, mut inputs) = (Vec::new(), Vec::new());
    for source in carriers::SOURCES {
        let content = (source.make)(&mut c);
        write(dir.path(), source.flag, source.name, &content);
        let path = dir.path().join(source.name);
        match Kind::ALL
            .iter()
            .find(|k| source.flag.strip_prefix("--") == Some(k.flag()))
        {
            Some(kind) => inputs.push(Input::new(*kind, &path)),
            None if source.flag == LAB => lab.push(source.name),
            None => inputs.extend(find(&[path], "", dir.path()).unwrap().inputs),
        }
    }
    converted(dir.path(), &lab, &inputs, "all.kflow.zst");
    (dir, c)
}

#[test]
fn every_kind_of_capture_carries_canaries() {
    for kind in Kind::ALL {
        let flag = format!("--{}", kind.flag());
        assert!(
            carriers::SOURCES.iter().any(|s| s.flag == flag),
            "no canary goes through {flag}"
        );
    }
}

#[test]
fn no_command_export_or_screen_shows_a_secret() {
    let (dir, c) = session_of_all();
    outputs(dir.path(), "all.kflow.zst", "canaries/carrier", &c);
}

/// Commands that print nothing from a session, or that are tested in another way.
const SILENT: [&str; 17] = [
    "agent",
    "fleet",
    "import",
    "proxy",
    "tui",
    "record",
    "doctor",
    "causes",
    "replay",
    "demo",
    "filter",
    "keys",
    "themes",
    "store",
    "config",
    "completions",
    "man",
];

/// Returns the formats of a command, from clap's error about an unknown one.
fn formats(command: &str) -> Vec<String> {
    let said = kflow(Path::new("."), &[command, "-s", "x", "-o", "?"]).stderr;
    let said = String::from_utf8(said).unwrap();
    let list = said
        .split_once("[possible values: ")
        .and_then(|(_, rest)| rest.split_once(']'));
    let Some((list, _)) = list else {
        panic!("{command}: {said}");
    };
    list.split(", ").map(str::to_owned).collect()
}

/// Runs every command that reads a session, in every format, and draws every screen; asserts that none shows a canary.
fn outputs(dir: &Path, session: &str, pod: &str, c: &Canaries) {
    let bytes = fs::read(dir.join(session)).unwrap();
    let plain = zstd::decode_all(&bytes[..]).unwrap_or(bytes);
    c.absent("the session", &plain);
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut add = |args: &[&str]| all.push(args.iter().map(|a| (*a).to_owned()).collect());
    for command in crate::program::commands() {
        if SILENT.contains(&command.as_str()) {
            continue;
        }
        let formats = formats(&command);
        assert!(formats.len() > 1, "{command}");
        for format in &formats {
            match command.as_str() {
                "export" => {
                    add(&["export", pod, "-o", format]);
                    if !["svg", "mermaid", "plantuml"].contains(&format.as_str()) {
                        add(&["export", "-o", format]);
                    }
                }
                "why" => {
                    add(&["why", "--all", "-o", format]);
                    add(&["why", "--ever", "-o", format]);
                    add(&["why", pod, "-o", format]);
                }
                "flow" => add(&["flow", pod, "-o", format]),
                other => add(&[other, "-o", format]),
            }
        }
    }
    for args in all {
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        args.extend(["-s", session]);
        let o = kflow(dir, &args);
        // A command reports unknown things on standard error alone, and in these formats no row is no line.
        let no_line = args.contains(&"jsonl") || args.contains(&"name");
        let may_be_empty = o.status.code() == Some(2) || no_line;
        assert!(
            !o.stdout.is_empty() || may_be_empty,
            "{args:?}: {}",
            String::from_utf8_lossy(&o.stderr)
        );
        c.absent(&format!("{args:?}"), &o.stdout);
        c.absent(&format!("{args:?}"), &o.stderr);
    }
    if cfg!(feature = "fleet") {
        fleet(dir, session, c);
    }
    screens(dir, session, c);
}

/// Checks the objects in a store, and the output of every command that reads a store.
#[test]
fn no_object_of_a_store_and_no_answer_from_one_has_a_secret() {
    let (dir, c) = session_of_all();
    let session = session::load(&dir.path().join("all.kflow.zst")).unwrap();
    let url = format!("file://{}/store", dir.path().display());
    let store = kflow_store::Store::open(&url, kflow_store::Use::Write).unwrap();
    crate::store::put(&store, &session, "node1", 3);
    let mut objects = 0;
    let mut all = Vec::new();
    let mut folders = vec![dir.path().join("store")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.display().to_string();
            c.absent("the name of an object", name.as_bytes());
            let plain = zstd::decode_all(&fs::read(&path).unwrap()[..]).unwrap();
            c.absent(&name, &plain);
            all.extend(plain);
            objects += 1;
        }
    }
    assert_eq!(objects, 6);
    c.read("the store", &all, 0..c.marks);
    let (begin, end) = session.range().unwrap();
    let (begin, end) = (begin.to_rfc3339(), end.to_rfc3339());
    let cache = dir.path().join("cache");
    for command in crate::program::commands() {
        if SILENT.contains(&command.as_str()) {
            continue;
        }
        let mut asked = crate::program::command();
        asked.arg(&command).args(["-o", "json", "-v"]);
        asked.args(match command.as_str() {
            "why" => &["--all"][..],
            "flow" => &["canaries/carrier"],
            _ => &[],
        });
        asked.args(["--store", &url, "--from", &begin, "--to", &end]);
        let o = asked.env("XDG_CACHE_HOME", &cache).output().unwrap();
        let said = String::from_utf8_lossy(&o.stderr);
        assert!(said.contains(" of node1: "), "{command}: {said}");
        assert!(!o.stdout.is_empty(), "{command}: {said}");
        c.absent(&format!("{command} --store"), &o.stdout);
        c.absent(&format!("{command} --store"), &o.stderr);
    }
}

/// Checks the answers of `kflow fleet`, and every column of every table.
fn fleet(dir: &Path, session: &str, c: &Canaries) {
    let mut all = vec![vec!["-o", "text"], vec!["-o", "json"]];
    let every = ["pods", "verdicts", "calls", "requests", "stages"];
    let every = every.map(|t| format!("SELECT * FROM {t}"));
    all.extend(every.iter().map(|sql| vec!["-o", "csv", "--sql", sql]));
    for more in all {
        let o = kflow(dir, &[&["fleet", session], &more[..]].concat());
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
        assert!(!o.stdout.is_empty());
        c.absent(&format!("fleet {more:?}"), &o.stdout);
        c.absent(&format!("fleet {more:?}"), &o.stderr);
    }
}

/// Checks the screens at the end of a session.
fn screens(dir: &Path, name: &str, c: &Canaries) {
    let s = session::load(&dir.join(name)).unwrap();
    let (begin, end) = s.range().unwrap();
    let mut pipeline = Pipeline::new();
    for o in &s.observations {
        pipeline.observe(Arc::clone(o));
    }
    let mode = Mode::paused(name);
    let overview = Overview::of(&s.observations, Arc::default(), None, (begin, end));
    let snap = Snapshot {
        overview: Arc::new(overview),
        ..pipeline.snapshot(end, mode, (begin, end), Vec::new())
    };
    screens_of(&snap, c);
}

/// Checks every pane, and each observation of the log in full.
fn screens_of(snap: &Snapshot, c: &Canaries) {
    let mut m = model((240, 70), "dark").unwrap();
    for pane in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"] {
        press(&mut m, snap, pane);
        for keys in ["end", "enter", "space d", "esc home"] {
            press(&mut m, snap, keys);
            let text = svg::plain(&frame(&mut m, snap));
            c.absent(&format!("pane {pane} after {keys}"), text.as_bytes());
        }
    }
}

#[test]
fn no_error_and_no_log_of_kflow_tells_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = Canaries::default();
    let garbage = c.fill("password={C} token: {C} https://u:{C}@host/\n");
    fs::write(dir.path().join("garbage"), &garbage).unwrap();
    fs::write(
        dir.path().join("bad.kflow"),
        format!("{{\"kflow\":1,\"sources\":\"{}\"}}\n", garbage.trim()),
    )
    .unwrap();
    fs::write(dir.path().join("kubeconfig"), format!("a: [{garbage}")).unwrap();
    let url = c.fill("https://u:{C}@127.0.0.1:1/?token={C}");
    let odd = c.fill("odd://u:{C}@host");
    let bucket = c.fill("s3://u:{C}@bucket/prefix");
    let query = c.fill("s3://bucket/prefix?X-Amz-Signature={C}");
    for args in [
        vec!["import", "--audit", "garbage", "-O", "x.kflow"],
        vec!["import", "--kubelet-log", "garbage", "-O", "x.kflow"],
        vec!["timeline", "-s", "garbage"],
        vec!["timeline", "-s", "bad.kflow"],
        vec!["why", "--all", "--kubeconfig", "kubeconfig", "--for", "1s"],
        vec!["why", "--all", "--no-api", "--kubelet", &url, "--for", "1s"],
        vec!["why", "--all", "--kubelet", &odd, "--for", "1s"],
        vec!["calls", "--store", &bucket],
        vec!["calls", "--store", &query],
        vec!["store", "ls", &odd],
        vec!["record", "--store", &bucket, "--no-api"],
        vec!["doctor", "--kubelet", &url, "--kubeconfig", "kubeconfig"],
    ] {
        let o = kflow(dir.path(), &args);
        let mut said = o.stdout.clone();
        said.extend(o.stderr);
        assert!(!said.is_empty(), "{args:?}");
        c.absent(&format!("{args:?}"), &said);
    }

    // A log file, and a recording made from it.
    let mut log = Vec::new();
    for line in logs::kubelet_text(&mut c).lines() {
        writeln!(log, "{line}").unwrap();
    }
    fs::write(dir.path().join("kubelet.log"), log).unwrap();
    let args = [
        "record",
        "--no-api",
        "--kubelet-log",
        "kubelet.log",
        "--kubelet",
        &url,
        "--for",
        "2s",
        "-O",
        "run.kflow",
    ];
    let o = kflow(dir.path(), &args);
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    c.absent("the log of a recording", &o.stderr);
    c.absent(
        "a recording",
        &fs::read(dir.path().join("run.kflow")).unwrap(),
    );
}
