//! The relay's bytes, closes, back-pressure and restarts.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use kflow_cri::{Decoder, Direction};
use kflow_model::Body;
use kflow_model::cri::Sight;
use kflow_proxy::Proxy;

use super::rig::{Rig, Tape, connect, eventually, half_close, noise, observations, rest, send};

#[test]
fn bytes_pass_both_ways_unchanged_and_the_tap_sees_the_same() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let tape = Tape::default();
    let proxy = rig.start(tape.clone());
    let (client, server) = rig.pair(&upstream);
    let (question, answer) = (noise(1, 3 << 20), noise(2, 5 << 20));
    thread::scope(|s| {
        s.spawn(|| (send(&client, &question, 3), half_close(&client)));
        s.spawn(|| (send(&server, &answer, 4), half_close(&server)));
        let got = s.spawn(|| rest(&server));
        assert!(rest(&client) == answer, "the answer differs");
        assert!(got.join().unwrap() == question, "the question differs");
    });
    drop((client, server));
    proxy.stop();
    let seen = tape.bytes(1, Direction::ClientToServer);
    assert!(seen[0] == b'#' && seen[1..] == question);
    assert!(tape.bytes(1, Direction::ServerToClient) == answer);
}

#[test]
fn a_server_may_answer_after_the_client_has_closed_its_half() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let _proxy = rig.start(Tape::default());
    let (client, mut server) = rig.pair(&upstream);
    half_close(&client);
    assert_eq!(rest(&server), b"");
    server.write_all(b"after all").unwrap();
    drop(server);
    assert_eq!(rest(&client), b"after all");
}

#[test]
fn a_client_may_go_on_sending_after_the_server_has_closed_its_half() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let _proxy = rig.start(Tape::default());
    let (mut client, server) = rig.pair(&upstream);
    half_close(&server);
    assert_eq!(rest(&client), b"");
    client.write_all(b"more").unwrap();
    half_close(&client);
    assert_eq!(rest(&server), b"more");
}

#[test]
fn a_client_that_closes_altogether_is_felt_by_a_server_that_only_writes() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let _proxy = rig.start(Tape::default());
    let (client, mut server) = rig.pair(&upstream);
    drop(client);
    let e = eventually("writing fails", || server.write_all(b"x").err());
    assert!(
        matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
        "{e}"
    );
}

#[test]
fn a_server_that_closes_altogether_is_felt_by_a_client_that_only_writes() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let _proxy = rig.start(Tape::default());
    let (mut client, server) = rig.pair(&upstream);
    drop(server);
    let e = eventually("writing fails", || client.write_all(b"x").err());
    assert!(
        matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
        "{e}"
    );
}

#[test]
fn a_client_that_half_closed_and_then_went_frees_a_server_that_says_nothing() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let proxy = rig.start(Tape::default());
    let (client, server) = rig.pair(&upstream);
    half_close(&client);
    assert_eq!(rest(&server), b"");
    drop(client);
    eventually("the connection ends", || {
        (kflow_proxy::Counters::get(&proxy.counters.connections) == 0).then_some(())
    });
}

#[test]
fn what_the_server_sent_before_it_closed_arrives() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let _proxy = rig.start(Tape::default());
    let (client, mut server) = rig.pair(&upstream);
    let answer = noise(5, 1 << 20);
    thread::scope(|s| {
        s.spawn(|| {
            server.write_all(&answer).unwrap();
            drop(server);
        });
        assert!(rest(&client) == answer);
    });
}

/// Writes without blocking until the stream accepts nothing for a while; returns the number of bytes written.
fn fill(stream: &mut UnixStream, from: &[u8]) -> usize {
    stream.set_nonblocking(true).unwrap();
    let (mut taken, mut refused) = (0, 0);
    while refused < 200 {
        match stream.write(&from[taken..]) {
            Ok(n) => (taken, refused) = (taken + n, 0),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                thread::park_timeout(std::time::Duration::from_millis(1));
            }
            Err(e) => panic!("{e}"),
        }
    }
    stream.set_nonblocking(false).unwrap();
    taken
}

#[test]
fn a_slow_reader_slows_the_writer_and_nothing_piles_up_between_them() {
    let all = noise(6, 8 << 20);
    for server_is_slow in [true, false] {
        let rig = Rig::new();
        let upstream = rig.upstream();
        let _proxy = rig.start(Tape::default());
        let (client, server) = rig.pair(&upstream);
        let (mut fast, slow) = if server_is_slow {
            (client, server)
        } else {
            (server, client)
        };
        let taken = fill(&mut fast, &all);
        assert!(
            taken < 1 << 20,
            "{taken} bytes were taken though nobody reads"
        );
        // The other direction still passes meanwhile.
        (&slow).write_all(b"hello").unwrap();
        let mut hello = [0; 5];
        fast.read_exact(&mut hello).unwrap();
        assert_eq!(&hello, b"hello");
        thread::scope(|s| {
            s.spawn(|| {
                fast.write_all(&all[taken..]).unwrap();
                half_close(&fast);
            });
            assert!(rest(&slow) == all);
        });
    }
}

#[test]
fn fifty_connections_do_not_mix() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let proxy = rig.start(Tape::default());
    // The upstream echoes each connection.
    let echo = thread::spawn(move || {
        let mut all = Vec::new();
        while let Ok((stream, _)) = upstream.accept() {
            let mut writer = stream.try_clone().unwrap();
            let mut reader = stream;
            let mut first = [0];
            if reader.read(&mut first).unwrap_or(0) == 0 {
                continue;
            }
            if first == *b"!" {
                break;
            }
            all.push(thread::spawn(move || {
                writer.write_all(&first).unwrap();
                std::io::copy(&mut reader, &mut writer).unwrap();
                half_close(&writer);
            }));
        }
        for t in all {
            t.join().unwrap();
        }
    });
    thread::scope(|s| {
        for n in 0..50 {
            let path = &rig.config.listen;
            s.spawn(move || {
                let client = connect(path);
                let data = [b"#".to_vec(), noise(n, 100_000)].concat();
                thread::scope(|s| {
                    s.spawn(|| (send(&client, &data, n), half_close(&client)));
                    assert!(rest(&client) == data, "connection {n} differs");
                });
            });
        }
    });
    assert_eq!(kflow_proxy::Counters::get(&proxy.counters.accepted), 50);
    UnixStream::connect(&rig.config.upstream)
        .unwrap()
        .write_all(b"!")
        .unwrap();
    echo.join().unwrap();
}

/// Returns the error of a client's connection attempt, or `None` when it connects.
fn refusal(rig: &Rig) -> Option<ErrorKind> {
    UnixStream::connect(&rig.config.listen)
        .err()
        .map(|e| e.kind())
}

#[test]
fn while_the_runtime_is_absent_clients_are_told_what_the_runtime_would_tell_them() {
    let rig = Rig::new();
    let _proxy = rig.start(Tape::default());
    eventually("told that there is no such file", || {
        (refusal(&rig)? == ErrorKind::NotFound).then_some(())
    });
    let upstream = rig.upstream();
    let (client, server) = rig.pair(&upstream);
    // The runtime is killed: its socket's path stays, its connections end.
    drop((upstream, server));
    assert_eq!(rest(&client), b"");
    eventually("refused", || {
        (refusal(&rig)? == ErrorKind::ConnectionRefused).then_some(())
    });
    // The runtime starts again.
    std::fs::remove_file(&rig.config.upstream).unwrap();
    let upstream = rig.upstream();
    let (mut client, mut server) = rig.pair(&upstream);
    client.write_all(b"again").unwrap();
    let mut got = [0; 5];
    server.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"again");
    let log = rig.log.lock().unwrap();
    assert_eq!(
        log.iter().filter(|l| l.contains("does not answer")).count(),
        2,
        "{log:?}"
    );
}

#[test]
fn stopping_closes_connections_and_removes_both_sockets_and_a_new_proxy_goes_on() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let proxy = rig.start(Tape::default());
    let (client, server) = rig.pair(&upstream);
    proxy.stop();
    assert_eq!((rest(&client), rest(&server)), (vec![], vec![]));
    assert!(!rig.config.listen.exists() && !rig.path("obs.sock").exists());
    let _proxy = rig.start(Tape::default());
    rig.pair(&upstream);
}

#[test]
fn two_proxies_never_share_a_path() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let proxy = rig.start(Tape::default());
    let second = Proxy::start(
        &rig.config,
        Box::new(Tape::default()),
        &(std::sync::Arc::new(|_: &str| ()) as _),
    );
    let text = second.unwrap_err().to_string();
    assert!(text.contains("another kflow serves"), "{text}");
    rig.pair(&upstream);
    drop(proxy);
}

#[test]
fn a_runtimes_own_socket_is_not_taken_over() {
    let rig = Rig::new();
    let live = UnixListener::bind(&rig.config.listen).unwrap();
    let taken = Proxy::start(
        &rig.config,
        Box::new(Tape::default()),
        &(std::sync::Arc::new(|_: &str| ()) as _),
    );
    assert!(taken.unwrap_err().to_string().contains("never taken over"));
    UnixStream::connect(&rig.config.listen).unwrap();
    drop(live);
}

#[test]
fn connections_are_observed_with_their_peer() {
    let rig = Rig::new();
    let upstream = rig.upstream();
    let proxy = rig.start(Decoder::new());
    drop(rig.pair(&upstream));
    let conns = eventually("opened and closed", || {
        let conns: Vec<_> = observations(&proxy)
            .into_iter()
            .filter_map(|o| match o.body {
                // Besides these the decoder reports that the bytes are not HTTP/2.
                Body::Conn(c) if c.sight == Sight::Whole => Some(c),
                _ => None,
            })
            .collect();
        (conns.len() == 2).then_some(conns)
    });
    assert_eq!(
        (conns[0].conn, conns[0].open, conns[0].pid),
        (1, true, std::process::id())
    );
    assert!(!conns[0].peer.is_empty());
    assert!(!conns[1].open && conns[1].why.ends_with("closed"));
}
