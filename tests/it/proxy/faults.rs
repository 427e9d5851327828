//! The relay never depends on the decoder or on a subscriber.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use kflow_cri::{Direction, Lost};
use kflow_model::cri::{CallEnd, CallKey, CallOutcome, CallStart, ConnChange, Service, Sight};
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};
use kflow_proxy::tap::Decode;
use kflow_proxy::{Counters, Proxy};

use super::rig::{Rig, eventually, gaps, half_close, noise, rest, send};

/// A decoder that obeys each chunk's text: for example, it panics at `panic`.
#[derive(Clone, Default)]
struct Puppet {
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Puppet {
    fn stop(&self) {
        *self.gate.0.lock().unwrap() = true;
    }
    fn go(&self) {
        *self.gate.0.lock().unwrap() = false;
        self.gate.1.notify_all();
    }
}

impl Decode for Puppet {
    fn open(&mut self, _: u32, _: Nanos, _: u32, _: &str, _: &mut Vec<Observation>) {}
    fn feed(
        &mut self,
        conn: u32,
        _: Direction,
        at: Nanos,
        bytes: &[u8],
        out: &mut Vec<Observation>,
    ) {
        let key = CallKey { conn, stream: 1 };
        let body = match bytes {
            b"panic" => panic!("as asked"),
            b"garbage" => Body::Conn(Box::new(ConnChange {
                conn,
                open: true,
                pid: 0,
                peer: Text::default(),
                sight: Sight::Blind,
                why: Text::from("nonsense"),
            })),
            b"start" => Body::CallStart(Box::new(CallStart::new(
                key,
                Service::Runtime,
                "RunPodSandbox",
            ))),
            b"end" => Body::CallEnd(Box::new(CallEnd {
                code: Some(0),
                ..CallEnd::new(key, CallOutcome::Status)
            })),
            _ => {
                let mut stopped = self.gate.0.lock().unwrap();
                while *stopped {
                    stopped = self.gate.1.wait(stopped).unwrap();
                }
                return;
            }
        };
        out.push(Observation {
            stamp: Stamp::exact(at),
            source: Source::Cri,
            body,
        });
    }
    fn lose(
        &mut self,
        conn: u32,
        _: Option<Direction>,
        at: Nanos,
        lost: Lost,
        why: &str,
        out: &mut Vec<Observation>,
    ) {
        out.push(Observation {
            stamp: Stamp::exact(at),
            source: Source::Cri,
            body: Body::Gap(Box::new(Gap {
                of: Source::Cri,
                since: at,
                lost: lost.chunks,
                conn,
                resource: kflow_model::Text::default(),
                why: Text::from(why),
            })),
        });
    }
    fn advance(&mut self, _: Nanos, _: &mut Vec<Observation>) {}
    fn restart(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>) {
        self.lose(conn, None, at, Lost::default(), why, out);
    }
    fn close(&mut self, _: u32, _: Nanos, _: &str, _: &mut Vec<Observation>) {}
}

/// Returns the connection of each call start in the proxy's ring.
fn starts(proxy: &Proxy) -> Vec<u32> {
    let all = super::rig::observations(proxy);
    let starts = all.iter().filter_map(|o| match &o.body {
        Body::CallStart(c) => Some(c.key.conn),
        _ => None,
    });
    starts.collect()
}

fn pass(mut from: &UnixStream, mut to: &UnixStream, bytes: &[u8]) {
    from.write_all(bytes).unwrap();
    let mut got = vec![0; bytes.len()];
    to.read_exact(&mut got).unwrap();
    assert_eq!(got, bytes);
}

#[test]
fn a_panicking_decoder_begins_again_and_costs_nobody_a_byte() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let proxy = rig.start(Puppet::default());
    let (a, a_server) = rig.pair(&upstream);
    let (b, b_server) = rig.pair(&upstream);
    for nth in 1..=8 {
        pass(&a, &a_server, b"panic");
        eventually("the panic", || {
            (Counters::get(&proxy.counters.panics) == nth).then_some(())
        });
        // What is sent after the panic is decoded again, up to the eighth panic.
        pass(&a, &a_server, b"start");
        eventually("the call after it", || {
            let starts = starts(&proxy).iter().filter(|c| **c == 1).count();
            (starts as u64 == nth.min(7)).then_some(())
        });
    }
    pass(&b, &b_server, b"start");
    let bytes = noise(1, 1 << 20);
    thread::scope(|s| {
        s.spawn(|| (send(&a, &bytes, 2), half_close(&a)));
        assert!(rest(&a_server) == bytes);
    });
    drop((a, a_server));
    let gaps = eventually("the gaps", || Some(gaps(&proxy)).filter(|g| g.len() == 9));
    for gap in &gaps[..8] {
        assert_eq!((gap.0, gap.2.as_str()), (1, "the decoder panicked"));
    }
    assert!(
        gaps[8].0 == 1 && gaps[8].1 > 1 && gaps[8].2.contains("not decoded"),
        "{gaps:?}"
    );
    assert_eq!(starts(&proxy), [1, 1, 1, 1, 1, 1, 1, 2]);
    assert!(
        rig.log
            .lock()
            .unwrap()
            .iter()
            .any(|l| l.contains("the decoder panicked on connection 1"))
    );
}

#[test]
fn a_connection_that_the_decoder_gave_up_goes_on() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let proxy = rig.start(Puppet::default());
    let (client, server) = rig.pair(&upstream);
    pass(&client, &server, b"garbage");
    eventually("it is given up", || {
        (Counters::get(&proxy.counters.partial) == 1).then_some(())
    });
    pass(&client, &server, &noise(3, 100_000));
    drop((client, server));
    let gaps = eventually("the gap", || Some(gaps(&proxy)).filter(|g| g.len() == 1));
    assert!(gaps[0].2.contains("not decoded"), "{gaps:?}");
    assert_eq!(Counters::get(&proxy.counters.partial), 0, "it is closed");
}

#[test]
fn fifty_connections_and_a_stopped_decoder_take_bounded_memory_and_lose_no_byte() {
    const LIMIT: usize = 1 << 20;
    let mut rig = Rig::new();
    rig.config.tap_bytes = LIMIT;
    let upstream = rig.upstream();
    let puppet = Puppet::default();
    puppet.stop();
    let proxy = rig.start(puppet.clone());
    let pairs: Vec<_> = (0..50).map(|_| rig.pair(&upstream)).collect();
    let bytes = noise(4, 256 << 10);
    thread::scope(|s| {
        for (client, server) in &pairs {
            s.spawn(|| (send(client, &bytes, 5), half_close(client)));
            s.spawn(|| assert!(rest(server) == bytes));
        }
    });
    // The queue holds two small items for each connection besides the chunks.
    let most = (LIMIT + 50 * 2 * 96) as u64;
    let queued = Counters::get(&proxy.counters.queued_bytes);
    assert!(queued <= most, "{queued} bytes wait for the decoder");
    let lost = Counters::get(&proxy.counters.lost_chunks);
    assert!(lost > 0);
    puppet.go();
    drop(pairs);
    let told = eventually("every connection says how much it missed", || {
        let counted: u64 = gaps(&proxy).iter().map(|g| g.1).sum();
        (counted == Counters::get(&proxy.counters.lost_chunks)).then_some(counted)
    });
    assert!(told >= lost);
    assert_eq!(Counters::get(&proxy.counters.queued_bytes), 0);
}

#[test]
fn stopping_waits_for_calls_in_flight_and_not_for_idle_connections() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let proxy = rig.start(Puppet::default());
    let (busy, busy_server) = rig.pair(&upstream);
    let (idle, _idle_server) = rig.pair(&upstream);
    pass(&busy, &busy_server, b"start");
    eventually("the call is seen", || {
        super::rig::observations(&proxy)
            .iter()
            .any(|o| matches!(o.body, Body::CallStart(_)))
            .then_some(())
    });
    thread::scope(|s| {
        let stopping = s.spawn(|| proxy.stop());
        assert_eq!(rest(&idle), b"", "the idle connection is closed");
        assert!(
            UnixStream::connect(&rig.config.listen).is_err(),
            "nobody new is let in"
        );
        assert!(!stopping.is_finished());
        pass(&busy_server, &busy, b"end");
        assert_eq!(rest(&busy), b"", "and then the busy one");
        stopping.join().unwrap();
    });
}
