//! The eBPF tap as a source: the tap's thread decodes, and hands over observations through a bounded channel.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::mpsc::channel;
use tracing::debug;

use crate::cri::Numbers;
use crate::live::{Backoff, Out, Stopped, gap};
use kflow_model::cri::{ConnChange, Sight};
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text, clock};
use kflow_tap::{Config, Tap};

pub use kflow_tap::{Error, InKernel, loaded, needs, network, probe};

/// Batches that may wait for the engine. When there are so many, the tap's thread waits, its ring fills, and what
/// finds no room in the ring is lost and reported.
const ROOM: usize = 64;
/// Shortest and longest pause between attempts to load the tap.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Follows what clients send to the runtime at this socket, until the receiver of observations is gone. When
/// `reconnect` is set, clients are made to reconnect ([`Config::reconnect`]).
pub async fn follow(socket: PathBuf, reconnect: Arc<AtomicBool>, mut out: Out) {
    let config = Config {
        socket,
        reconnect,
        ..Config::default()
    };
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    let mut seen = Seen::default();
    loop {
        let Err(why) = session(&config, &mut seen, &mut out, &mut backoff).await else {
            return;
        };
        out.off(why.as_str());
        if seen.broke_off(&why, &mut out).await.is_err() {
            return;
        }
        let pause = backoff.pause();
        debug!(parent: out.span(), why, ?pause, "loading again");
        out.pause(pause).await;
    }
}

/// What the tap has seen, so that open connections are reported as closed when the tap ends.
#[derive(Debug, Default)]
struct Seen {
    numbers: Numbers,
    /// Numbers of the open connections.
    open: BTreeSet<u32>,
    /// Time of the last observation, until the end of the tap that made it is reported.
    last: Option<Nanos>,
}

impl Seen {
    fn take(&mut self, o: &mut Observation) {
        self.numbers.number(o);
        self.last = Some(o.stamp.at);
        if let Body::Conn(c) = &o.body {
            if c.open {
                self.open.insert(c.conn);
            } else {
                self.open.remove(&c.conn);
            }
        }
    }

    /// Reports that the tap ended by itself: what happens until the next one runs is not seen.
    async fn broke_off(&mut self, why: &str, out: &mut Out) -> Result<(), Stopped> {
        let Some(since) = self.last.take() else {
            return Ok(());
        };
        let now = clock::now();
        for conn in std::mem::take(&mut self.open) {
            let change = ConnChange {
                conn,
                open: false,
                pid: 0,
                peer: Text::default(),
                why: why.into(),
                sight: Sight::default(),
            };
            let o = Observation {
                stamp: Stamp::exact(now),
                source: Source::Cri,
                body: Body::Conn(Box::new(change)),
            };
            out.send(o).await?;
        }
        self.numbers.again();
        out.send(gap(Source::Cri, since, now, 0, why)).await
    }
}

/// Loads the tap, and takes its observations. Returns `Ok` when the receiver of observations is gone; the error says
/// why the tap ended.
async fn session(
    config: &Config,
    seen: &mut Seen,
    out: &mut Out,
    backoff: &mut Backoff,
) -> Result<(), String> {
    let (to, mut from) = channel(ROOM);
    let config = config.clone();
    // The kernel verifies and attaches the programs, which takes some tenths of a second.
    let start = move || Tap::start(config, move |handed| to.blocking_send(handed).is_ok());
    let _running = match tokio::task::spawn_blocking(start).await {
        Ok(Ok(tap)) => tap,
        Ok(Err(e)) => return Err(e.to_string()),
        Err(_) => return Err("there is no thread to load the eBPF tap in".into()),
    };
    while let Some(handed) = from.recv().await {
        backoff.reset();
        out.on(handed.status);
        let now = clock::now();
        for mut o in handed.observations {
            seen.take(&mut o);
            o.stamp.seen = now;
            if out.send(o).await.is_err() {
                return Ok(());
            }
        }
    }
    Err("the eBPF tap's thread failed: please report it, with the log of --log".into())
}
