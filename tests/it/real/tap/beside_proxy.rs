//! Compares the calls that the tap reports with those that the proxy of the same run reports.

use kflow_cri::Decoder;
use kflow_model::{Body, Nanos, Observation};
use kflow_proxy::Proxy;

use super::{Recorder, Told, calls, gaps, is_test, tapped};
use crate::proxy::rig::{Rig, eventually, observations};
use crate::real::cri::{Real, call, end_pod, id, runtime, start_pod, works};
use crate::real::life::{block_on, connect};

/// The method that a client calls last.
const LAST: &str = "/last.Service/Method";

/// Returns the test's calls once the call of [`LAST`] is among them, and `None` before.
fn to_the_last(all: &[Observation]) -> Option<Vec<(Told, Nanos)>> {
    let all = calls(all, is_test);
    all.iter().any(|(c, _)| c.0 == LAST).then_some(all)
}

/// Starts a proxy in front of the runtime, with a ring that drops nothing.
fn proxied(real: &Real) -> (Rig, Proxy) {
    let mut rig = Rig::new();
    rig.config.upstream = real.socket();
    rig.config.ring_bytes = usize::MAX;
    let proxy = rig.start(Decoder::new());
    (rig, proxy)
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn the_tap_and_the_proxy_tell_the_same_of_one_run() {
    let Some(real) = tapped() else { return };
    let (rig, proxy) = proxied(&real);
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
        // Larger than one chunk, in both directions.
        let long = "x".repeat(700_000);
        works(&mut raw, "Version", &id(&long)).await;
        call(&mut raw, LAST, &id("")).await;
        raw
    });
    let of_proxy = eventually("the proxy's decoder is done", || {
        to_the_last(&observations(&proxy))
    });
    recorder.sees("the last call", to_the_last);
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
    // The tap's time is the beginning of the client's write, the proxy's is the end of its thread's read. The proxy is
    // therefore later by as long as that thread waited for a core, and earlier only by the difference
    // between the two clocks.
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

/// Asserts that both lists are equal, and names the first call that differs.
fn pretty(a: &[Told], b: &[Told]) {
    for (n, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a, b, "call {n}: tap, proxy");
    }
    assert_eq!(a.len(), b.len());
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn joined_in_the_middle_no_call_gets_a_wrong_name() {
    let Some(real) = tapped() else { return };
    let (rig, proxy) = proxied(&real);
    let listen = &rig.config.listen;
    let all = block_on(async {
        let mut raw = connect(listen).await;
        for _ in 0..30 {
            works(&mut raw, "ListContainers", &id("")).await;
        }
        let recorder = Recorder::start(listen, rig.dir.path(), "middle.kflow");
        recorder.sees("the connection", |all| {
            let mut opened = all.iter().map(|o| &o.body);
            opened
                .any(|b| matches!(b, Body::Conn(c) if c.open))
                .then_some(())
        });
        // Headers that differ with each call replace the whole dynamic table of HPACK.
        for n in 0..300 {
            let method = ["Version", "ListContainers", "ListPodSandbox", "Status"][n % 4];
            let timeout = format!("{}u", 29_000_000 + n * 7919);
            let request = prost::Message::encode_to_vec(&id(""));
            raw.call(&runtime(method), &request, &[("grpc-timeout", &timeout)])
                .await
                .unwrap();
        }
        let mut fresh = connect(listen).await;
        call(&mut fresh, LAST, &id("")).await;
        recorder.sees("the last call", to_the_last);
        recorder.end()
    });
    let of_tap = calls(&all, is_test);
    let of_proxy = eventually("the proxy's decoder is done", || {
        to_the_last(&observations(&proxy))
    });
    // One client made them, each after the answer to the one before, so both sources report them in one order and to
    // the same last call.
    assert_eq!(of_proxy.len(), 30 + 300 + 1);
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
