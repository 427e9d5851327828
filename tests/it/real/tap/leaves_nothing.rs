//! What a tap that was killed or that panicked leaves in the kernel, and which capabilities it holds while it runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use kflow_sources::tap::{InKernel, loaded};

use super::{Recorder, tapped};
use crate::proxy::rig::eventually;
use crate::real::cri::{Real, end_pod, id, start_pod, works};
use crate::real::life::{block_on, connect};

/// Returns the BPF objects that the kernel holds. The kernel frees maps a grace period after the programs that used
/// them, which this waits for.
fn settled() -> InKernel {
    eventually("what was tried is gone", || {
        let held = loaded();
        (held.programs.is_empty() == (held.maps == 0)).then_some(held)
    })
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn killing_it_leaves_nothing_behind_and_hurts_no_call() {
    let Some(real) = tapped() else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = settled();
    block_on(async {
        let mut raw = connect(&real.socket()).await;
        for n in 0..5 {
            let socket = real.socket();
            let path = folder.path().to_path_buf();
            let recorder =
                thread::spawn(move || Recorder::start(&socket, &path, &format!("{n}.kflow")));
            // The client goes on calling while programs are attached and detached.
            while !recorder.is_finished() {
                works(&mut raw, "ListContainers", &id("")).await;
            }
            let recorder = recorder.join().unwrap();
            let while_on = loaded();
            let more = |of: fn(&InKernel) -> usize| of(&while_on) > of(&before);
            assert!(
                more(|k| k.programs.len()) && more(|k| k.maps),
                "{while_on:?}"
            );
            for _ in 0..20 {
                works(&mut raw, "Version", &id("")).await;
            }
            recorder.kill();
            works(&mut raw, "Version", &id("")).await;
        }
        let pod = start_pod(&mut raw, "after-all").await;
        end_pod(&mut raw, &pod).await;
    });
    eventually("the kernel has dropped every program, map and link", || {
        (loaded() == before).then_some(())
    });
    assert!(!Path::new("/sys/fs/bpf/kflow").exists());
}

/// Set in the process whose tap panics. It is a process of its own because the tap ignores clients in its own process
/// and drops capabilities for all threads.
const PANICS: &str = "KFLOW_TEST_TAP_PANICS";

/// The decoder and the consumer of its observations run in one thread, so a panic in either unwinds the same stack.
#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn a_panic_in_its_thread_leaves_nothing_behind_and_hurts_no_call() {
    let real = Real::from_env();
    if std::env::var_os(PANICS).is_some() {
        return panics(&real);
    }
    if tapped().is_none() {
        return;
    }
    let name =
        "real::tap::leaves_nothing::a_panic_in_its_thread_leaves_nothing_behind_and_hurts_no_call";
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored", "--nocapture"])
        .env(PANICS, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let waits = thread::spawn(move || child.wait_with_output().unwrap());
    block_on(async {
        let mut raw = connect(&real.socket()).await;
        while !waits.is_finished() {
            works(&mut raw, "Version", &id("")).await;
        }
        let pod = start_pod(&mut raw, "after-a-panic").await;
        end_pod(&mut raw, &pod).await;
    });
    let done = waits.join().unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    assert!(said.contains("as a decoder that fails would"), "{said}");
}

/// Starts a tap that panics at the first call that it sees, and waits until the kernel has dropped everything of it
/// while this process goes on.
fn panics(real: &Real) {
    let before = settled();
    // Fewer than before is fine too: programs loaded by the probe may be freed only now.
    let is_left = |now: &InKernel| {
        let is_new = |p: &u32| !before.programs.contains(p);
        now.programs.iter().any(is_new) || now.maps > before.maps || now.links > before.links
    };
    let config = kflow_tap::Config {
        socket: real.socket(),
        ..kflow_tap::Config::default()
    };
    let (sees, seen) = channel();
    let (lets, let_go) = channel::<()>();
    let tap = kflow_tap::Tap::start(config, move |handed| {
        if handed.observations.is_empty() {
            return true;
        }
        sees.send(()).unwrap();
        let_go.recv().unwrap();
        panic!("as a decoder that fails would");
    })
    .unwrap();
    seen.recv_timeout(Duration::from_secs(60)).unwrap();
    // This thread asks, because the tap's thread has dropped the capability to ask.
    let on = loaded();
    assert!(is_left(&on), "it was on: {on:?}, {before:?}");
    lets.send(()).unwrap();
    eventually("the kernel has dropped every program, map and link", || {
        (!is_left(&loaded())).then_some(())
    });
    drop(tap);
}

/// Bits of `CapEff` (include/uapi/linux/capability.h).
const DAC_OVERRIDE: u64 = 1 << 1;
const DAC_READ_SEARCH: u64 = 1 << 2;
const FOWNER: u64 = 1 << 3;
const NET_BIND_SERVICE: u64 = 1 << 10;
const SYS_PTRACE: u64 = 1 << 19;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn what_root_may_do_is_given_up() {
    let Some(real) = tapped() else { return };
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(&real.socket(), folder.path(), "rights.kflow");
    let tasks = format!("/proc/{}/task", recorder.child.id());
    let mut threads = BTreeSet::new();
    for task in std::fs::read_dir(tasks).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let of = |key: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|l| l.strip_prefix(key)).unwrap();
            value.trim().to_owned()
        };
        let name = of("Name:");
        let tap = BPF | SYS_PTRACE | DAC_READ_SEARCH;
        let may = match name.as_str() {
            "kflow-tap" => tap,
            _ => tap | PERFMON | DAC_OVERRIDE | FOWNER | NET_BIND_SERVICE,
        };
        for set in ["CapEff:", "CapPrm:", "CapInh:"] {
            let held = u64::from_str_radix(&of(set), 16).unwrap();
            assert_eq!(held & !may, 0, "{name} {set} {held:x}");
        }
        threads.insert(name);
    }
    assert!(threads.contains("kflow-tap"), "{threads:?}");
    recorder.end();
}
