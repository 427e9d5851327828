//! Every way of not knowing, times every command that reads: none of them says "well" or "no such pod", none is silent,
//! and none takes longer than it was given.

pub(crate) mod api;
mod live;
mod sessions;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// How long a command may take beside the time that it is given: a busy machine starts and ends programs slowly.
const SLACK: Duration = Duration::from_secs(60);

/// Calls each in threads, a few at a time.
fn each<T: Sync>(all: &[T], call: impl Fn(&T) + Sync) {
    for some in all.chunks(4) {
        std::thread::scope(|scope| {
            for one in some {
                scope.spawn(|| call(one));
            }
        });
    }
}

/// A run of the program, with nothing of this machine's in its environment.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn kflow(args: &[&str]) -> Said {
    let begun = kflow_model::clock::monotonic();
    let home = tempfile::tempdir().unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_kflow"))
        .args(args)
        .env_remove("KUBECONFIG")
        .env_remove("KFLOW_SESSION")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let took = begun.elapsed();
    assert!(took < SLACK, "{args:?} took {took:?}");
    Said {
        code: status.code(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

impl Said {
    /// What holds of every answer of who does not know.
    fn is_unknown(&self, case: &str) {
        let Self { code, out, err } = self;
        let all = format!("{case}: {code:?}\n{out}\n{err}");
        assert_eq!(*code, Some(2), "{all}");
        assert!(!err.trim().is_empty(), "silent: {all}");
        for claim in [
            " well",
            "no pod",
            "no such pod",
            "There are no",
            "there are no",
        ] {
            assert!(
                !out.contains(claim) && !err.contains(claim),
                "{claim}: {all}"
            );
        }
        if case.contains("json") {
            let rows: Vec<Value> =
                serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {all}"));
            assert!(!rows.is_empty(), "{all}");
            if rows[0]["state"] == "unknown" {
                for key in ["what", "reason", "why", "help", "sentence"] {
                    assert!(!rows[0][key].as_str().unwrap().is_empty(), "{all}");
                }
            }
        }
    }
}
