//! The summary of `kflow import`, and that the same captures give the same session.

use std::path::Path;

use crate::cli::run;
use crate::fixture;

#[test]
fn importing_twice_gives_the_same_bytes_and_a_summary() {
    let dir = tempfile::tempdir().unwrap();
    let import = |name: &str, extra: &[&str]| {
        let path = dir.path().join(name);
        let captures = fixture("captures").display().to_string();
        let mut args = vec!["import", &captures, "-O", path.to_str().unwrap()];
        args.extend(extra);
        let out = run(&args);
        let err = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(0), "{err}");
        (std::fs::read(&path).unwrap(), err)
    };
    let (a, summary) = import("a.kflow.zst", &[]);
    let (b, quiet) = import("b.kflow.zst", &["--quiet"]);
    assert!(a == b);
    assert_eq!(quiet, "");
    for word in [
        "kubelet.log.zst",
        "watch.jsonl.zst",
        "observations",
        "left out",
        "command line flag",
    ] {
        assert!(summary.contains(word), "{word}: {summary}");
    }
    let (plain, _) = import("c.kflow", &[]);
    assert!(plain.starts_with(b"{\"kflow\":1,"));
    assert!(zstd::decode_all(&a[..]).unwrap() == plain);
}

#[test]
fn imports_that_cannot_work_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("o.kflow").display().to_string();
    let empty = dir.path().display().to_string();
    for (args, word) in [
        (vec!["import", "-O", &out], "nothing to import"),
        (
            vec!["import", "-O", &out, &empty],
            "no capture that kflow knows",
        ),
        (
            vec!["import", "-O", &out, "--audit", "/no/such"],
            "/no/such",
        ),
        (
            vec!["import", "-O", &out, "--audit", "-", "--watch", "-"],
            "only one",
        ),
        (
            vec!["import", "-O", "/no/such/dir/o.kflow", "--audit", "-"],
            "/no/such/dir",
        ),
    ] {
        let o = run(&args);
        let err = String::from_utf8(o.stderr).unwrap();
        assert_eq!(o.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(word), "{args:?}: {err}");
    }
    assert!(!Path::new(&out).exists());
}
