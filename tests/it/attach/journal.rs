//! The journal through a stand-in for `journalctl`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use kflow_model::session;
use kflow_model::{Body, Source};

use crate::proxy::rig::eventually;

/// Each run prints one record and appends its arguments to `$ASKED`. The first run then exits, as journalctl does after
/// a rotation.
const JOURNALCTL: &str = r#"#!/bin/sh
echo "$@" >>"$ASKED"
n=$(wc -l <"$ASKED")
printf '{"__REALTIME_TIMESTAMP":"179522550900000%s","_SYSTEMD_UNIT":"kubelet.service","MESSAGE":"I1121 01:05:09.00000%s    4242 kubelet.go:2538] \\"SyncLoop ADD\\" source=\\"api\\" pods=[\\"default/web-%s\\"]"}\n' "$n" "$n" "$n"
[ "$n" = 1 ] && exit 1
exec sleep 1000
"#;

#[test]
fn the_journal_is_followed_taken_up_again_and_closed_orderly() {
    let dir = tempfile::tempdir().unwrap();
    let tool = dir.path().join("journalctl");
    fs::write(&tool, JOURNALCTL).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let (asked, session) = (dir.path().join("asked"), dir.path().join("run.kflow"));
    let mut child = crate::program::command()
        .args(["record", "--no-api", "--kubelet-log", "journal", "-O"])
        .arg(&session)
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin", dir.path().to_string_lossy()),
        )
        .env("ASKED", &asked)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pods = || {
        let read = session::load(&session).ok()?;
        let logs = read.observations.iter().filter_map(|o| match &o.body {
            Body::Log(l) if o.source == Source::Kubelet => Some(l.pod.name.to_string()),
            _ => None,
        });
        Some((logs.collect::<Vec<_>>(), read))
    };
    eventually("both runs of journalctl are recorded", || {
        let (pods, _) = pods()?;
        (pods == ["web-1", "web-2"]).then_some(())
    });
    Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(child.wait().unwrap().success());
    let said: Vec<String> = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .collect();
    assert!(!said.iter().any(|l| l.contains("panicked")), "{said:?}");
    assert!(said.last().unwrap().starts_with("kflow: interrupted: "));

    let asked = fs::read_to_string(&asked).unwrap();
    let [first, second] = asked.lines().collect::<Vec<_>>()[..] else {
        panic!("run twice: {asked}")
    };
    assert!(first.contains("--unit kubelet --lines "), "{first}");
    // From the second of the last entry that was read.
    assert!(
        second.contains("--unit kubelet --since @1795225509"),
        "{second}"
    );
    let (_, read) = pods().unwrap();
    let gaps = read.observations.iter().filter(
        |o| matches!(&o.body, Body::Gap(g) if g.of == Source::Kubelet && g.why.contains("journalctl ended")),
    );
    assert_eq!(gaps.count(), 1);
}
