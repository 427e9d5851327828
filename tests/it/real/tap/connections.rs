//! Clients, descriptors and runtimes that come and go, a stopped kflow, and what the tap reports of each.

use std::collections::BTreeSet;
use std::process::Command;

use kflow_export::otlp::wire::Span;
use kflow_model::cri::{CallOutcome, Sight};
use kflow_model::{Body, Nanos, Observation};
use rustix::process::Signal;

use super::{Recorder, Told, calls, gaps, is_test, tapped};
use crate::otlp::posting::{OK, Store};
use crate::proxy::rig::eventually;
use crate::real::cri::{end_pod, id, runtime, start_pod, works};
use crate::real::life::{answers, block_on, connect};

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn a_client_that_is_made_to_connect_anew_is_understood_from_its_first_call() {
    let Some(real) = tapped() else { return };
    let dir = tempfile::tempdir().unwrap();
    let socket = real.socket();
    let all = block_on(async {
        let mut raw = connect(&socket).await;
        works(&mut raw, "ListContainers", &id("")).await;
        let recorder = Recorder::start_with(&socket, dir.path(), "anew.kflow", &["--reconnect"]);
        let ours = recorder.sees("the connection in the middle", |all| {
            all.iter().find_map(|o| match &o.body {
                Body::Conn(c) if c.open && c.sight == Sight::Partial => Some(c.conn),
                _ => None,
            })
        });
        // A connection that was open before the tap shows where its frames begin after some calls;
        // each call is answered.
        for _ in 0..4 {
            works(&mut raw, "ListContainers", &id("")).await;
        }
        recorder.sees("its end", |all| {
            all.iter()
                .any(|o| matches!(&o.body, Body::Conn(c) if !c.open && c.conn == ours))
                .then_some(())
        });
        let gone = raw.call(&runtime("Version"), &[], &[]).await;
        assert!(gone.is_err(), "{gone:?}");
        let mut fresh = connect(&socket).await;
        works(&mut fresh, "ListPodSandbox", &id("")).await;
        recorder.sees("the first call of the new connection", |all| {
            let all = calls(all, is_test);
            all.iter()
                .any(|(c, _)| c.0 == "ListPodSandbox")
                .then_some(())
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

/// A Python client that duplicates its descriptor, and whose child goes on with the connection: three
/// calls on one connection.
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
    let Some(real) = tapped() else { return };
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(&real.socket(), folder.path(), "life.kflow");
    // A short-lived client in Go.
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
    // Connections of a client that are, or were, open. The tap may report an open connection again when it learns more.
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
        raw.call(&runtime("Version"), b"", &[]).await.ok();
        drop(raw);
        real.start();
        answers(&real).await;
    });
    recorder.sees(
        "the end of the runtime, and a call to the next one",
        |all| {
            // The connection closes whether the client first reads its end or has a write refused.
            let is_own = |peer: &str| peer != "python3" && peer != "ctr";
            let broken = all
                .iter()
                .any(|o| matches!(&o.body, Body::Conn(c) if !c.open && is_own(&c.peer)));
            let own = calls(all, is_own);
            (broken && own.len() > 1).then_some(())
        },
    );
    // The tap lost nothing; only the event stream of the killed runtime broke off.
    let mut told = gaps(&recorder.end());
    told.retain(|gap| !gap.starts_with("the runtime broke off its events"));
    assert_eq!(told, Vec::<String>::new());
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn what_finds_no_room_in_the_ring_of_a_stopped_kflow_is_told_and_the_client_feels_nothing() {
    let Some(real) = tapped() else { return };
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(&real.socket(), folder.path(), "full.kflow");
    let all = block_on(async {
        let mut raw = connect(&real.socket()).await;
        works(&mut raw, "Version", &id("")).await;
        recorder.sees("a call", |all| {
            (!calls(all, is_test).is_empty()).then_some(())
        });
        recorder.signal(Signal::STOP);
        // Twice the size of the tap's ring buffer.
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
        recorder.sees("calls after the loss, by name", |all| {
            let named = |(c, _): &&(Told, Nanos)| c.0 == "ListContainers" && c.5 == Some(0);
            (calls(all, is_test).iter().filter(named).count() >= 20).then_some(())
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
fn a_pod_that_is_gone_is_told_to_a_trace_store_and_each_span_once() {
    let Some(real) = tapped() else { return };
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
