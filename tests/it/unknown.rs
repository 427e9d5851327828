//! Every reason for not knowing, with every command that reads: no command says "well" or "no such pod", none is
//! silent, and none takes longer than its time-out.

pub(crate) mod api;
mod complete;
mod hostile;
mod known;
mod live;
mod sessions;

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kflow_engine::Snapshot;
use kflow_tui::offscreen::{frame, model};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;
use serde_json::Value;

/// How much longer than its time-out a command may take: a busy machine starts and ends processes slowly.
const SLACK: Duration = Duration::from_secs(60);

/// Makes the calls in eight threads.
pub(crate) fn each<T: Sync>(all: &[T], call: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    call(one);
                }
            });
        }
    });
}

/// Texts that claim something, which no command may print about a pod that is not known.
const WELL: [&str; 5] = [
    "No pod has",
    "There are no",
    " well",
    "nothing is wrong",
    "Nothing has failed",
];

/// Returns the banner of every pane at two sizes. Asserts that each banner says that something is unknown, and that no
/// pane contains one of `claims`.
fn banners(way: &str, snap: &Snapshot, claims: &[&str]) -> Vec<(PaneId, String)> {
    let mut all = Vec::new();
    for pane in PaneId::ALL {
        for size in [(80, 24), (200, 60)] {
            let mut m = model(size, "dark").unwrap();
            m.show(pane);
            let text = svg::plain(&frame(&mut m, snap));
            let banner = text.lines().nth(2).unwrap_or_default();
            let badge = [" UNKNOWN ", " WAITING ", " INCOMPLETE "]
                .iter()
                .any(|b| banner.starts_with(b));
            assert!(badge, "{way}, {pane:?}: {text}");
            for claim in claims {
                assert!(!text.contains(claim), "{way}, {pane:?}: {claim}: {text}");
            }
            all.push((pane, banner.to_owned()));
        }
    }
    all
}

/// The result of a run of kflow that sees nothing of this machine's environment.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

/// The most memory that a run may write to, KiB. Servers that send without end would otherwise fill all of it.
const MEMORY: u32 = 512 << 10;

fn kflow(args: &[&str]) -> Said {
    let begun = kflow_model::clock::monotonic();
    let home = tempfile::tempdir().unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new("sh")
        .args(["-c", &format!("ulimit -d {MEMORY}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_kflow"))
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
    /// Asserts what holds for every answer of a command that does not know.
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
