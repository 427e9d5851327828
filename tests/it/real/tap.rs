//! The eBPF tap on a real containerd, as a process of its own: against the proxy of the same run, attached in the middle,
//! killed, and with clients and a runtime that come and go.
//!
//! The clients are the test itself (an HTTP/2 client of its own), `ctr` (grpc-go, as the kubelet's), and Python.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kflow_cri::Decoder;
use kflow_export::otlp::wire::Span;
use kflow_model::cri::{CallEnd, CallOutcome, CallStart, Sight};
use kflow_model::{Body, Nanos, Observation, session};
use kflow_sources::tap::{InKernel, loaded, probe};

use rustix::process::{Pid, Signal, kill_process};

use super::cri::{Real, call, end_pod, id, start_pod, works};
use super::life::{block_on, connect};
use crate::otlp::posting::{OK, Store};
use crate::proxy::rig::{Rig, eventually, observations};

/// True when the kernel takes the tap's programs. Where it does not, that is said, and nothing of this is tried.
#[expect(clippy::print_stderr, reason = "what was not tried is said")]
fn is_possible() -> bool {
    match probe() {
        Ok(()) => true,
        Err(e) => {
            eprintln!("LEFT OUT, NOT TRIED: {e}");
            false
        }
    }
}

/// What the kernel holds. Maps of programs that were tried go a grace period after them: that is waited for.
fn settled() -> InKernel {
    eventually("what was tried is gone", || {
        let held = loaded();
        (held.programs.is_empty() == (held.maps == 0)).then_some(held)
    })
}

/// `kflow record --tap ebpf`
struct Recorder {
    child: Child,
    said: Arc<Mutex<String>>,
    file: PathBuf,
}

impl Recorder {
    /// Starts it and waits until the programs are attached.
    fn start(socket: &Path, folder: &Path, name: &str) -> Self {
        Self::start_with(socket, folder, name, &[])
    }
    fn start_with(socket: &Path, folder: &Path, name: &str, more: &[&str]) -> Self {
        let file = folder.join(name);
        let mut child = Command::new(env!("CARGO_BIN_EXE_kflow"))
            .args(["record", "--no-api", "--tap", "ebpf", "--runtime"])
            .arg(socket)
            .arg("-O")
            .arg(&file)
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&said);
        let stderr = child.stderr.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                into.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let recorder = Self { child, said, file };
        eventually("the tap is on", || {
            recorder.says("cri tap: on").then_some(())
        });
        recorder
    }
    /// Has it stand still, or go on.
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
    fn says(&self, what: &str) -> bool {
        self.said.lock().unwrap().contains(what)
    }
    /// What is in the file so far.
    fn seen(&self) -> Vec<Observation> {
        // Before its first line is written there is nothing to read.
        let read = session::load(&self.file).map(|s| s.observations);
        let all = read.unwrap_or_default();
        all.iter().map(|o| Observation::clone(o)).collect()
    }
    /// Waits until it has seen something.
    fn sees<T>(&self, what: &str, is: impl Fn(&[Observation]) -> Option<T>) -> T {
        eventually(what, || is(&self.seen()))
    }
    fn end(mut self) -> Vec<Observation> {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
        self.seen()
    }
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A call as both taps should tell it: method, pod, container, sizes, code; and when it began.
type Told = (String, String, String, u64, u64, Option<u32>);

/// Calls that ended, of connections that `counts` says yes to (by their client's name), in the order of their begin.
fn calls(all: &[Observation], counts: impl Fn(&str) -> bool) -> Vec<(Told, Nanos)> {
    let skipped: Vec<u32> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::Conn(c) if c.open && !counts(&c.peer) => Some(c.conn),
            _ => None,
        })
        .collect();
    let ends: Vec<&CallEnd> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::CallEnd(e) => Some(&**e),
            _ => None,
        })
        .collect();
    let told = |start: &CallStart, end: &CallEnd| {
        let subject = &end.subject;
        (
            start.method.to_string(),
            format!("{}/{}", subject.pod.namespace, subject.pod.name),
            subject.container.to_string(),
            end.request_bytes,
            end.response_bytes,
            end.code,
        )
    };
    let mut calls: Vec<(Told, Nanos)> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::CallStart(s) if !skipped.contains(&s.key.conn) => {
                let end = ends.iter().find(|e| e.key == s.key)?;
                Some((told(s, end), o.stamp.at))
            }
            _ => None,
        })
        .collect();
    calls.sort_by_key(|(_, at)| *at);
    calls
}

fn gaps(all: &[Observation]) -> Vec<String> {
    let gaps = all.iter().filter_map(|o| match &o.body {
        Body::Gap(g) => Some(g.why.to_string()),
        _ => None,
    });
    gaps.collect()
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn the_tap_and_the_proxy_tell_the_same_of_one_run() {
    if !is_possible() {
        return;
    }
    let real = Real::from_env();
    let mut rig = Rig::new();
    rig.config.upstream = real.socket();
    rig.config.ring_bytes = usize::MAX;
    let proxy = rig.start(Decoder::new());
    let recorder = Recorder::start(&rig.config.listen, rig.dir.path(), "tap.kflow");
    let done = block_on(async {
        let mut raw = connect(&rig.config.listen).await;
        for n in 0..3 {
            let pod = start_pod(&mut raw, &format!("same-{n}")).await;
            for _ in 0..20 {
                works(&mut raw, "ListContainers", &id("")).await;
                call(&mut raw, "ContainerStatus", &id("nobody")).await;
                call(&mut raw, "/no.such.Service/Method", &id("")).await;
            }
            end_pod(&mut raw, &pod).await;
        }
        // More than one piece, in both directions.
        let long = "x".repeat(700_000);
        works(&mut raw, "Version", &id(&long)).await;
        call(&mut raw, "/last.Service/Method", &id("")).await;
        raw
    });
    let is_test = |peer: &str| peer != "kflow";
    let of_proxy = eventually("the proxy's decoder is done", || {
        let all = calls(&observations(&proxy), is_test);
        let is_last = |(c, _): &(Told, Nanos)| c.0 == "/last.Service/Method";
        all.iter().any(is_last).then_some(all)
    });
    recorder.sees("the last call", |all| {
        let all = calls(all, is_test);
        let is_last = |(c, _): &(Told, Nanos)| c.0 == "/last.Service/Method";
        all.iter().any(is_last).then_some(())
    });
    drop(done);
    let all = recorder.end();
    assert_eq!(gaps(&all), Vec::<String>::new());
    let of_tap = calls(&all, is_test);
    let without_time =
        |all: &[(Told, Nanos)]| all.iter().map(|(c, _)| c.clone()).collect::<Vec<_>>();
    assert!(of_tap.len() > 200, "{}", of_tap.len());
    pretty(&without_time(&of_tap), &without_time(&of_proxy));
    let mut apart: Vec<i64> = of_tap
        .iter()
        .zip(&of_proxy)
        .map(|((_, a), (_, b))| b.since(*a))
        .collect();
    apart.sort_unstable();
    // The tap's time is of the begin of the write, the proxy's of when its thread had read it: the proxy is later by what
    // that thread waited for a core, and is earlier only by what the two clocks are apart.
    let early = -apart.first().unwrap() / 1_000;
    for a in &mut apart {
        *a = a.abs();
    }
    apart.sort_unstable();
    let share = |n: usize| apart[apart.len() * n / 100] / 1_000;
    eprintln!(
        "{} calls; starts apart: p50 {} µs, p90 {} µs, p99 {} µs, most {} µs; the proxy is at most {early} µs earlier",
        apart.len(),
        share(50),
        share(90),
        share(99),
        apart.last().unwrap() / 1_000
    );
    assert!(early < 1_000, "no start of the tap is a millisecond late");
    // The proxy's thread may wait for a core before it reads what the client wrote.
    assert!(
        share(90) < 1_000,
        "nine of ten starts are within a millisecond"
    );
}

/// Compares, and says where they differ.
fn pretty(a: &[Told], b: &[Told]) {
    for (n, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a, b, "call {n}: tap, proxy");
    }
    assert_eq!(a.len(), b.len());
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn a_pod_that_is_gone_is_told_to_a_trace_store_and_each_span_once() {
    if !is_possible() {
        return;
    }
    let real = Real::from_env();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::answering(&[OK]);
    let to = ["--otlp-to", &store.url()];
    let recorder = Recorder::start_with(&real.socket(), folder.path(), "sent.kflow", &to);
    block_on(async {
        let mut raw = connect(&real.socket()).await;
        let pod = start_pod(&mut raw, "sent").await;
        end_pod(&mut raw, &pod).await;
    });
    let told = |call: &str| {
        let named = |s: &Span| s.name.ends_with(call) && s.status.is_none();
        store.spans().iter().filter(|s| named(s)).count()
    };
    eventually("the end of the pod is told", || {
        (told("/RemovePodSandbox") > 0).then_some(())
    });
    recorder.end();
    for call in [
        "/RunPodSandbox",
        "/CreateContainer",
        "/StartContainer",
        "/StopPodSandbox",
    ] {
        assert_eq!(told(call), 1, "{call}: {:#?}", store.spans());
    }
    let spans = store.spans();
    let roots = spans.iter().filter(|s| s.parent_span_id.is_empty());
    let mut roots: Vec<_> = roots.map(|s| s.name.as_str()).collect();
    roots.sort_unstable();
    assert_eq!(roots, ["pod start", "pod termination"]);
    let ids: BTreeSet<_> = spans.iter().map(|s| &s.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "one was sent twice");
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn killing_it_leaves_nothing_behind_and_hurts_no_call() {
    if !is_possible() {
        return;
    }
    let real = Real::from_env();
    let folder = tempfile::tempdir().unwrap();
    let before = settled();
    block_on(async {
        let mut raw = connect(&real.socket()).await;
        for n in 0..5 {
            let socket = real.socket();
            let path = folder.path().to_path_buf();
            let recorder =
                thread::spawn(move || Recorder::start(&socket, &path, &format!("{n}.kflow")));
            // The client goes on while programs come and go.
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

/// Set for the process in which a tap panics: the tap follows no client in its own process, and gives up rights for all threads.
const PANICS: &str = "KFLOW_TEST_TAP_PANICS";

/// The decoder and whoever takes what it gives run in one thread: whichever of the two panics, the same is unwound.
#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn a_panic_in_its_thread_leaves_nothing_behind_and_hurts_no_call() {
    let real = Real::from_env();
    if std::env::var_os(PANICS).is_some() {
        return panics(&real);
    }
    if !is_possible() {
        return;
    }
    let name = "real::tap::a_panic_in_its_thread_leaves_nothing_behind_and_hurts_no_call";
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

/// Starts a tap that panics at the first call that it sees, and waits until the kernel has dropped everything of it, in a
/// process that goes on.
fn panics(real: &Real) {
    let before = settled();
    // Less is well too: programs that were tried may go only now.
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
    // Asked by this thread: that of the tap has given up the right to ask.
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
    if !is_possible() {
        return;
    }
    let real = Real::from_env();
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

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn what_finds_no_room_in_the_ring_of_a_stopped_kflow_is_told_and_the_client_feels_nothing() {
    if !is_possible() {
        return;
    }
    let real = Real::from_env();
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(&real.socket(), folder.path(), "full.kflow");
    let is_test = |peer: &str| peer != "kflow";
    let all = block_on(async {
        let mut raw = connect(&real.socket()).await;
        works(&mut raw, "Version", &id("")).await;
        tokio::task::block_in_place(|| {
            recorder.sees("a call", |all| {
                (!calls(all, is_test).is_empty()).then_some(())
            });
        });
        recorder.signal(Signal::STOP);
        // Twice what the ring holds.
        let long = "x".repeat(700_000);
        for _ in 0..24 {
            works(&mut raw, "Version", &id(&long)).await;
        }
        recorder.signal(Signal::CONT);
        let mut after = 0;
        while gaps(&recorder.seen()).is_empty() {
            works(&mut raw, "ListPodSandbox", &id("")).await;
            after += 1;
            assert!(after < 10_000, "a loss is told within a second");
        }
        for _ in 0..20 {
            works(&mut raw, "ListContainers", &id("")).await;
        }
        tokio::task::block_in_place(|| {
            recorder.sees("calls after the loss, by name", |all| {
                let named = |(c, _): &&(Told, Nanos)| c.0 == "ListContainers" && c.5 == Some(0);
                (calls(all, is_test).iter().filter(named).count() >= 20).then_some(())
            });
        });
        recorder.end()
    });
    let told = gaps(&all);
    assert!(
        told.iter()
            .all(|g| g.starts_with("no room in the tap's ring")),
        "{told:?}"
    );
    let made = ["Version", "ListPodSandbox", "ListContainers", "?"];
    for (call, _) in calls(&all, is_test) {
        assert!(
            made.contains(&call.0.as_str()),
            "no such call was made: {call:?}"
        );
    }
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn joined_in_the_middle_no_call_gets_a_wrong_name() {
    if !is_possible() {
        return;
    }
    let real = Real::from_env();
    let mut rig = Rig::new();
    rig.config.upstream = real.socket();
    rig.config.ring_bytes = usize::MAX;
    let proxy = rig.start(Decoder::new());
    let listen = rig.config.listen.clone();
    let all = block_on(async {
        let mut raw = connect(&listen).await;
        for _ in 0..30 {
            works(&mut raw, "ListContainers", &id("")).await;
        }
        let folder = rig.dir.path().to_path_buf();
        let socket = listen.clone();
        let recorder =
            tokio::task::block_in_place(|| Recorder::start(&socket, &folder, "middle.kflow"));
        tokio::task::block_in_place(|| {
            recorder.sees("the connection", |all| {
                let mut opened = all.iter().map(|o| &o.body);
                opened
                    .any(|b| matches!(b, Body::Conn(c) if c.open))
                    .then_some(())
            });
        });
        // What a client says anew with each call turns the table of headers over.
        for n in 0..300 {
            let method = ["Version", "ListContainers", "ListPodSandbox", "Status"][n % 4];
            let timeout = format!("{}u", 29_000_000 + n * 7919);
            let request = prost::Message::encode_to_vec(&id(""));
            raw.call(
                &super::cri::runtime(method),
                &request,
                &[("grpc-timeout", &timeout)],
            )
            .await
            .unwrap();
        }
        let mut fresh = connect(&listen).await;
        works(&mut fresh, "Version", &id("")).await;
        tokio::task::block_in_place(|| {
            recorder.sees("the fresh connection's call", |all| {
                let all = calls(all, |peer| peer != "kflow");
                all.iter().any(|(c, _)| c.0 == "Version").then_some(())
            });
        });
        recorder.end()
    });
    let of_tap = calls(&all, |peer| peer != "kflow");
    // One client made them, each after the answer to the one before: both tell them in one order, to the same end.
    let of_proxy = eventually("the proxy's decoder is done", || {
        let all = calls(&observations(&proxy), |peer| peer != "kflow");
        (all.len() == 30 + 300 + 1).then_some(all)
    });
    let unseen = of_proxy.len() - of_tap.len();
    let mut named = 0;
    for (n, ((tap, _), (proxy, _))) in of_tap.iter().zip(&of_proxy[unseen..]).enumerate() {
        if !tap.0.is_empty() && tap.0 != "?" {
            named += 1;
            assert_eq!(tap.0, proxy.0, "the tap's call {n}");
        }
    }
    eprintln!(
        "named by the tap: {named} of {} that it saw; the proxy saw {}",
        of_tap.len(),
        of_proxy.len()
    );
    assert!(named >= 1);
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn a_client_that_is_made_to_connect_anew_is_understood_from_its_first_call() {
    if !is_possible() {
        return;
    }
    let real = Real::from_env();
    let dir = tempfile::tempdir().unwrap();
    let socket = real.socket();
    let all = block_on(async {
        let mut raw = connect(&socket).await;
        works(&mut raw, "ListContainers", &id("")).await;
        let recorder = tokio::task::block_in_place(|| {
            Recorder::start_with(&socket, dir.path(), "anew.kflow", &["--reconnect"])
        });
        let ours = tokio::task::block_in_place(|| {
            recorder.sees("the connection in the middle", |all| {
                all.iter().find_map(|o| match &o.body {
                    Body::Conn(c) if c.open && c.sight == Sight::Partial => Some(c.conn),
                    _ => None,
                })
            })
        });
        // Where frames begin is known after some calls; each of them is answered.
        for _ in 0..4 {
            works(&mut raw, "ListContainers", &id("")).await;
        }
        tokio::task::block_in_place(|| {
            recorder.sees("its end", |all| {
                all.iter()
                    .any(|o| matches!(&o.body, Body::Conn(c) if !c.open && c.conn == ours))
                    .then_some(())
            });
        });
        let gone = raw.call(&super::cri::runtime("Version"), &[], &[]).await;
        assert!(gone.is_err(), "{gone:?}");
        let mut fresh = connect(&socket).await;
        works(&mut fresh, "ListPodSandbox", &id("")).await;
        tokio::task::block_in_place(|| {
            recorder.sees("the first call of the new connection", |all| {
                let all = calls(all, |peer| peer != "kflow");
                all.iter()
                    .any(|(c, _)| c.0 == "ListPodSandbox")
                    .then_some(())
            });
        });
        recorder.end()
    });
    let none_failed = all.iter().all(
        |o| !matches!(&o.body, Body::CallEnd(e) if e.outcome == CallOutcome::ConnectionClosed),
    );
    assert!(
        none_failed,
        "a call was open when its connection was shut down"
    );
}

/// A client that uses a second descriptor, and a child that goes on with it: three calls on one connection.
const FORKS: &str = r"
import os, socket, struct, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
def frame(kind, flags, stream, data): return struct.pack('>I', len(data))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + data
def text(b): return bytes([len(b)]) + b
def header(name, value): return b'\x00' + text(name) + text(value)
def request(stream):
    path = b'/runtime.v1.RuntimeService/Version'
    block = b'\x83\x86' + header(b':path', path) + header(b':authority', b'localhost') + header(b'content-type', b'application/grpc') + header(b'te', b'trailers')
    return frame(1, 4, stream, block) + frame(0, 1, stream, b'\0\0\0\0\0')
def answer(fd):
    while b'grpc-status' not in (d := os.read(fd, 65536)) and d: pass
fd = s.detach()
os.write(fd, b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b'') + request(1)); time.sleep(0.3); os.read(fd, 65536)
second = os.dup(fd); os.close(fd)
os.writev(second, [request(3)]); time.sleep(0.3); os.read(second, 65536)
child = os.fork()
if child == 0:
    time.sleep(2.5)
    os.write(second, request(5)); time.sleep(0.3); os.read(second, 65536)
    os._exit(0)
os.close(second)
os.waitpid(child, 0)
";

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn clients_and_descriptors_that_come_and_go_are_followed() {
    if !is_possible() {
        return;
    }
    let real = Real::from_env();
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(&real.socket(), folder.path(), "life.kflow");
    // A client in Go, for a moment.
    let ctr = || {
        let out = Command::new("ctr")
            .arg("-a")
            .arg(real.socket())
            .arg("version")
            .output();
        assert!(out.unwrap().status.success());
    };
    ctr();
    let forks = Command::new("python3")
        .args(["-c", FORKS])
        .arg(real.socket())
        .status();
    assert!(forks.unwrap().success());
    // Those that are open, or were. What is known of one can be told again while it is open.
    let connections = |all: &[Observation], peer: &str, open: bool| {
        let of_peer = all.iter().filter_map(|o| match &o.body {
            Body::Conn(c) if c.peer == peer && c.open == open => Some(c.conn),
            _ => None,
        });
        of_peer.collect::<BTreeSet<_>>()
    };
    let all = recorder.sees("the last of python's descriptors is closed", |all| {
        (connections(all, "python3", false).len() == 1).then(|| all.to_vec())
    });
    let told: Vec<_> = all
        .iter()
        .filter(|o| matches!(o.body, Body::Conn(_) | Body::Gap(_)))
        .collect();
    for peer in ["ctr", "python3"] {
        let opened = connections(&all, peer, true);
        assert_eq!(opened.len(), 1, "{peer}: {told:?}");
        assert_eq!(opened, connections(&all, peer, false), "{peer}: {told:?}");
    }
    let of_python = calls(&all, |peer| peer == "python3");
    let versions = of_python
        .iter()
        .filter(|(c, _)| c.0 == "Version" && c.5 == Some(0));
    assert_eq!(versions.count(), 3, "{of_python:?}");
    // The runtime is killed, and another one listens at the same path.
    block_on(async {
        let mut raw = connect(&real.socket()).await;
        works(&mut raw, "Version", &id("")).await;
        tokio::task::block_in_place(|| real.stop());
        raw.call(&super::cri::runtime("Version"), b"", &[])
            .await
            .ok();
        drop(raw);
        real.start();
        let mut raw = connect(&real.socket()).await;
        while call(&mut raw, "Version", &id(""))
            .await
            .trailer("grpc-status")
            != Some("0")
        {
            raw = connect(&real.socket()).await;
        }
    });
    recorder.sees(
        "the end of the runtime, and a call to the next one",
        |all| {
            // Whether the client reads the end or is refused a write first, its connection closes.
            let is_own = |peer: &str| peer != "python3" && peer != "ctr";
            let broken = all
                .iter()
                .any(|o| matches!(&o.body, Body::Conn(c) if !c.open && is_own(&c.peer)));
            let own = calls(all, is_own);
            (broken && own.len() > 1).then_some(())
        },
    );
    // The tap lost nothing; what the killed runtime told of itself did break off.
    let mut told = gaps(&recorder.end());
    told.retain(|gap| !gap.starts_with("the runtime broke off its events"));
    assert_eq!(told, Vec::<String>::new());
}
