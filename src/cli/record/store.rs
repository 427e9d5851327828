//! `kflow record --store`: records into a spool on the local disk, and uploads from there to a store.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::super::args::live::RecordArgs;
use super::super::live::{config, hostname, search, stderr_log, wait};
use super::super::{ERROR, pods, store, traces};
use super::{Made, Told, missing};
use kflow_engine::live::{Config, Live};
use kflow_model::Text;
use kflow_model::units::{counted, size};
use kflow_serve::Log;
use kflow_store::layout::NO_NODE;
use kflow_store::{Bounds, Cluster, Keeper, Options, Uploader};

/// Longest time for uploading the last segments when kflow ends. The others wait in the spool.
const LAST: Duration = Duration::from_secs(30);

pub(super) fn record(args: &RecordArgs, url: &str) -> anyhow::Result<u8> {
    let log = stderr_log();
    let keep = &args.keep;
    let to = store::for_writing(url)?;
    let name = keep.cluster.as_deref().unwrap_or("default");
    let cluster = Cluster::new(to.root(), name)?;
    let bounds = Bounds::default();
    let bounds = Bounds {
        bytes: keep.spool_size.unwrap_or(bounds.bytes),
        segment_age: keep.segment.unwrap_or(bounds.segment_age),
        ..bounds
    };
    let mut config = Config {
        traces: traces::store(&args.traces)?,
        ..config(&args.live, args.pod.as_deref())?
    };
    search(&mut config, &args.live);
    let scope = config.scope.clone();
    let named = &args.live.scope.node;
    let node: Text = match named {
        Some(node) => node.as_str().into(),
        None if args.live.local => hostname().into(),
        None => Text::default(),
    };
    let spool = match &keep.spool {
        Some(spool) => spool.clone(),
        None => spool_of(name, &node)?,
    };
    let options = Options {
        node,
        bounds,
        owed: true,
    };
    let keeper = Arc::new(Keeper::start(spool.clone(), options)?);
    let uploader =
        Uploader::start(keeper.ring(), to, cluster, None).context("cannot send segments")?;
    let mut live = Live::start(config)?;
    live.keep(Arc::clone(&keeper), args.pod.as_deref());
    let shown = spool.display().to_string();
    log(&format!(
        "recording into {url}, cluster {name}, by way of {shown}"
    ));
    let mut told = Told::default();
    let mut ways = Ways::default();
    let why = wait(args.for_time, || {
        told.tell(&live.snapshot(), &log);
        ways.tell(&keeper, &uploader, &log);
        live.check().is_ok()
    })?;
    let running = live.check();
    live.stop();
    traces::conclude(&live);
    let last = live.snapshot();
    told.tell(&last, &log);
    // The world's thread holds the keeper too.
    drop(live);
    let ring = keeper.ring();
    let closed = Arc::into_inner(keeper).is_some_and(Keeper::stop);
    let sent = uploader.stop(LAST);
    running?;
    if !closed {
        bail!(
            "the spool {shown} was not closed: its disk does not answer, and what was seen last may be missing"
        );
    }
    let status = ring.status();
    let lost = status.lost;
    log(&format!(
        "{why}: {}, {lost} lost; {} sent ({}), {} wait",
        counted(status.taken, "observation"),
        counted(sent.sent, "segment"),
        size(sent.bytes),
        status.waiting
    ));
    let made = Made {
        path: PathBuf::from(url),
        lost,
    };
    let whole = pods::whole(missing(&last, scope.as_ref(), &made).as_ref());
    if status.dropped.0 > 0 {
        let (segments, observations) = status.dropped;
        log(&format!(
            "{} with {} had to go unsent: the spool was full ({})",
            counted(segments, "segment"),
            counted(observations, "observation"),
            size(bounds.bytes)
        ));
    }
    if status.waiting > 0 {
        let why = sent
            .failing
            .unwrap_or_else(|| "there was no time".to_owned());
        log(&format!(
            "not in the store yet: {}: {why}. What waits in {shown} is sent by the next `kflow record --store` with that spool",
            counted(status.waiting as u64, "segment")
        ));
        return Ok(ERROR);
    }
    if status.dropped.0 > 0 {
        return Ok(ERROR);
    }
    Ok(whole)
}

/// The default folder of the spool for a cluster and node.
fn spool_of(cluster: &str, node: &str) -> anyhow::Result<PathBuf> {
    let state = store::folder("XDG_STATE_HOME", ".local/state")
        .context("name a folder for what waits to be sent with --spool")?;
    let node = if node.is_empty() { NO_NODE } else { node };
    let above = state.join("spool").join(cluster);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&above);
    made.with_context(|| format!("cannot make {}", above.display()))?;
    Ok(above.join(node))
}

/// The last reported states of the spool's disk and of the store.
#[derive(Default)]
struct Ways {
    disk: Option<String>,
    store: Option<String>,
    dropped: u64,
    unsendable: u64,
}

impl Ways {
    fn tell(&mut self, keeper: &Keeper, uploader: &Uploader, log: &Log) {
        let (disk, store) = (keeper.ring().status(), uploader.status());
        if disk.failing != self.disk {
            match &disk.failing {
                Some(why) => log(&format!("the spool is not written: {why}")),
                None => log("the spool is written again"),
            }
            self.disk = disk.failing;
        }
        if store.failing.is_some() != self.store.is_some() {
            match &store.failing {
                Some(why) => log(&format!("segments wait to be sent: {why}")),
                None => log("segments are sent again"),
            }
            self.store = store.failing;
        }
        if disk.dropped.0 > self.dropped {
            log(&format!(
                "the spool is full: {} so far had to go unsent",
                counted(disk.dropped.0, "segment")
            ));
            self.dropped = disk.dropped.0;
        }
        if store.unsendable > self.unsendable {
            log(&format!(
                "what cannot be read or named stays in the spool: {}",
                counted(store.unsendable, "segment")
            ));
            self.unsendable = store.unsendable;
        }
    }
}
