//! kflow destroys no file of the user's: an output file is complete or absent, and no input file is ever overwritten.

use crate::{fixture, program};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use kflow_model::gap::Note;
use kflow_model::session::format::Bound;
use kflow_model::session::{self, Header, SessionError, Writer};
use kflow_model::{Body, Nanos, Observation, Source, Stamp};

fn kflow(dir: &Path, args: &[&str]) -> Output {
    let mut command = program::command();
    command.args(args).current_dir(dir).output().unwrap()
}

/// Everything in a folder: names, contents, modes. A link has the content of the file that it leads to.
fn state(dir: &Path) -> Vec<(String, Vec<u8>, u32)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| {
            let path = e.unwrap().path();
            let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(&path).unwrap_or_default(), mode)
        })
        .collect();
    all.sort();
    all
}

/// A folder with a session, a capture, hard and symbolic links to both, and outputs of earlier commands.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::copy(fixture("sessions/S13-crictl.kflow.zst"), at("s.kflow.zst")).unwrap();
    fs::copy(fixture("captures/kubelet.log.zst"), at("kubelet.log.zst")).unwrap();
    for (name, file) in [("s", "s.kflow.zst"), ("log", "kubelet.log.zst")] {
        fs::hard_link(at(file), at(&format!("hard-{name}"))).unwrap();
        symlink(at(file), at(&format!("soft-{name}"))).unwrap();
    }
    fs::write(at("old.html"), "an older page").unwrap();
    let imported = "{\"kflow\":1,\"sources\":[{\"source\":\"kubelet\"}]}\n";
    fs::write(at("old.kflow"), imported).unwrap();
    fs::write(at("run.kflow"), "{\"kflow\":1}\n").unwrap();
    fs::set_permissions(at("old.html"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    dir
}

#[test]
fn a_command_that_fails_changes_nothing() {
    let dir = folder();
    let before = state(dir.path());
    let s = "s.kflow.zst";
    let log = "kubelet.log.zst";
    let export = |out| vec!["export", "-s", s, "-o", "html", "-O", out];
    let import = |out| vec!["import", "-q", "--kubelet-log", log, "-O", out];
    let same = "is the same file as the input";
    for (args, code, words) in [
        (export(s), 2, same),
        (export("hard-s"), 2, same),
        (export("soft-s"), 2, same),
        (export("./s.kflow.zst"), 2, same),
        (
            vec!["export", "-s", "soft-s", "-o", "json", "-O", "hard-s"],
            2,
            same,
        ),
        (import(log), 2, "no kflow session"),
        (import("hard-log"), 2, "no kflow session"),
        (
            vec!["import", "-q", ".", "-O", "soft-log"],
            2,
            "no kflow session",
        ),
        (export("old.kflow"), 2, "an export does not replace one"),
        (export("dangling"), 2, "does not exist: name that file"),
        (export("."), 2, "it is a folder"),
        (export("no/such/page.html"), 2, "no/such/page.html"),
        (
            vec!["export", "-s", s, "-o", "svg", "-O", "old.html"],
            2,
            "a picture is of one pod",
        ),
        (
            vec!["export", "-s", s, "-o", "svg", "-O", "new.svg"],
            2,
            "a picture is of one pod",
        ),
        (
            vec![
                "export",
                "nowhere/body",
                "-s",
                s,
                "-o",
                "html",
                "-O",
                "old.html",
            ],
            2,
            "nothing that was read is of namespace no",
        ),
        (
            vec!["export", "-s", "old.html", "-o", "html", "-O", "new.html"],
            2,
            "not a kflow session",
        ),
        (
            vec!["import", "-q", "--audit", "old.html", "-O", "old.kflow"],
            2,
            "old.html",
        ),
        (import("old.html"), 2, "no kflow session"),
        (import("run.kflow"), 2, "is a recording"),
        (
            vec!["record", "--no-api", "--kubelet-log", log, "-O", s],
            2,
            "never overwrites one",
        ),
        (
            vec!["record", "--no-api", "--kubelet-log", log, "-O", "dangling"],
            2,
            "never overwrites one",
        ),
    ] {
        let out = kflow(dir.path(), &args);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
        assert!(state(dir.path()) == before, "{args:?} changed something");
    }
}

#[test]
fn what_is_written_is_whole_private_and_alone() {
    let dir = folder();
    let s = "s.kflow.zst";
    for (args, name, begins) in [
        (
            vec!["export", "-s", s, "-o", "html", "-O", "old.html"],
            "old.html",
            "<!",
        ),
        (
            vec!["export", "-s", s, "-o", "json", "-O", "new.json"],
            "new.json",
            "[",
        ),
        (
            vec![
                "import",
                "-q",
                "--kubelet-log",
                "kubelet.log.zst",
                "-O",
                "old.kflow",
            ],
            "old.kflow",
            "{\"kflow\":1,",
        ),
    ] {
        let others = |dir: &Path| {
            let mut all = state(dir);
            all.retain(|(n, _, _)| n != name);
            all
        };
        let before = others(dir.path());
        let out = kflow(dir.path(), &args);
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let path = dir.path().join(name);
        assert!(fs::read(&path).unwrap().starts_with(begins.as_bytes()));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        assert!(
            others(dir.path()) == before,
            "{args:?} changed something else"
        );
    }
}

/// A limit on the size of files (`ulimit -f`) stands in for a full disk.
#[test]
fn a_disk_that_is_full_leaves_the_older_file() {
    let dir = folder();
    let before = state(dir.path());
    for args in [
        "export -s s.kflow.zst -o json -O old.html",
        "import -q --kubelet-log kubelet.log.zst -O old.kflow",
    ] {
        let out = Command::new("sh")
            .args([
                "-c",
                &format!("trap '' XFSZ; ulimit -f 8; exec \"$0\" {args}"),
            ])
            .arg(env!("CARGO_BIN_EXE_kflow"))
            .current_dir(dir.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args}: {told}");
        assert!(told.contains("cannot write"), "{args}: {told}");
        assert!(state(dir.path()) == before, "{args} changed something");
    }
}

fn note(n: i64) -> Observation {
    Observation {
        stamp: Stamp::exact(Nanos(n)),
        source: Source::Kflow,
        body: Body::Note(Box::new(Note {
            text: format!("note {n}").into(),
        })),
    }
}

#[test]
fn a_note_is_not_written_into_what_is_being_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.kflow");
    let mut w = Writer::record(&path, &Header::new(Nanos(1))).unwrap();
    w.write(&note(1)).unwrap();
    w.flush().unwrap();
    // A flush may have written half a line. Without the lock `append` would take the file for a cut session.
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"t\":2,")
        .unwrap();
    let e = session::append(&path, &[note(9)]).unwrap_err();
    assert!(matches!(e, SessionError::Busy { .. }), "{e}");
    assert_eq!(state(dir.path()).len(), 1);
    w.finish().unwrap();
    session::append(&path, &[note(9)]).unwrap();
    assert_eq!(session::load(&path).unwrap().report.cut, None);
}

#[test]
fn what_a_note_into_a_cut_session_would_lose_is_kept_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.kflow");
    let cut = "{\"kflow\":1}\n{\"t\":1,\"s\":1,\"src\":\"kflow\",\"b\":{\"hologram\":{\"x\":1}}}\n{\"t\":2,\"s\":2,\"src\":\"kf";
    fs::write(&path, cut).unwrap();
    session::append(&path, &[note(9)]).unwrap();
    let kept = dir.path().join("run.kflow.cut");
    assert_eq!(fs::read_to_string(kept).unwrap(), cut);
    assert_eq!(session::load(&path).unwrap().report.cut, None);
    assert_eq!(state(dir.path()).len(), 2);
}

#[test]
fn a_note_into_a_cut_session_leaves_apart_what_was_carried_over_from_before_it() {
    let dir = tempfile::tempdir().unwrap();
    for packed in [false, true] {
        let path = dir
            .path()
            .join(if packed { "run.kflow.zst" } else { "run.kflow" });
        let mut w = Writer::record(&path, &Header::new(Nanos(1))).unwrap();
        for n in 1..=3 {
            w.write(&note(n)).unwrap();
        }
        w.bound(Bound::From, Nanos(4));
        for n in 4..=5 {
            w.write(&note(n)).unwrap();
        }
        w.finish().unwrap();
        let whole = fs::read(&path).unwrap();
        let end = if packed {
            &[0x28, 0xb5][..]
        } else {
            b"{\"t\":6,"
        };
        fs::write(&path, [&whole, end].concat()).unwrap();
        session::append(&path, &[note(9)]).unwrap();
        let report = session::load(&path).unwrap().report;
        assert_eq!(
            (report.from, report.carried),
            (Some(Nanos(4)), 3),
            "{packed}"
        );
        assert_eq!(report.cut, None);
    }
}
