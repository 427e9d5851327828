//! `kflow import` as a user runs it: every form of its inputs, and the messages about files that are no such input.

mod archive;
mod asked;
mod at_once;
mod bundle;
mod claims;
mod collected;
mod contradicted;
mod described;
mod documented;
mod embedded;
mod exercises;
mod files;
mod fragments;
mod healthy;
mod journal;
mod kubectl;
mod lengths;
mod listed;
mod moment;
mod nodes;
mod overtaken;
mod pasted;
mod pieces;
mod progress;
mod replicas;
mod statuses;
mod summary;
mod tables;
mod worded;

use crate::fixture;
use crate::program::command;
use std::io::Read;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime};

/// A raw capture of `fixtures/captures`, unpacked.
fn capture(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(fixture("captures").join(format!("{name}.zst"))).unwrap();
    zstd::decode_all(&bytes[..]).unwrap()
}

fn run(args: &[&str]) -> Output {
    command().args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder for captures and sessions.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes a file as of a time.
    fn file_of(&self, name: &str, content: impl AsRef<[u8]>, written: &str) -> String {
        let path = self.file(name, content);
        let (at, _) = kflow_model::Nanos::parse_rfc3339(written).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(at.0 as u64);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(at).unwrap();
        path
    }

    /// Imports into a session of this name; returns the session's path and the text on standard error.
    fn import(&self, name: &str, args: &[&str]) -> (String, String) {
        let out = self.path(name);
        let mut all = vec!["import", "-O", &out];
        all.extend(args);
        let o = run(&all);
        assert_eq!(o.status.code(), Some(0), "{args:?}: {}", text(&o.stderr));
        (out, text(&o.stderr))
    }

    /// Imports inputs that must be refused; returns the text on standard error.
    fn refused(&self, args: &[&str]) -> String {
        let out = self.path("refused.kflow");
        let mut all = vec!["import", "-O", &out];
        all.extend(args);
        let o = run(&all);
        let said = text(&o.stderr);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {said}");
        assert!(!Path::new(&out).exists(), "{args:?}: {said}");
        assert!(!Path::new(&format!("{out}.part")).exists());
        said
    }

    /// The timelines of a session of which a part could not be read, and the message about that part.
    fn partial(session: &str) -> (String, String) {
        let o = run(&["timeline", "-o", "json", "-s", session]);
        assert_eq!(o.status.code(), Some(2), "{}", text(&o.stderr));
        (text(&o.stdout), text(&o.stderr))
    }

    /// The timelines of a session, as JSON text.
    fn timelines(session: &str) -> String {
        let o = run(&["timeline", "-o", "json", "-s", session]);
        assert_eq!(o.status.code(), Some(0), "{}", text(&o.stderr));
        text(&o.stdout)
    }
}

fn unpacked(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}
