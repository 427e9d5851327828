//! Follows the events that a runtime publishes: containerd's own events, and CRI's container events of other runtimes.
//!
//! Containerd is never asked for CRI's container events: 1.7 sends each of them to only one of its subscribers, so
//! that the kubelet would miss those that kflow gets (`pkg/cri/sbserver/container_events.go`), and 2.x waits for a
//! subscriber that does not read them (`internal/eventq/eventq.go`, publish), so that a kflow that is stopped would
//! block it. Containerd's own events have a queue for each subscriber
//! (`core/events/exchange/exchange.go`), and say more.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use tracing::debug;

use super::containerd::events::Envelope;
use super::containerd::live::subscribe;
use crate::cri;
use crate::live::{Backoff, Out, Stopped, gap, unix};
use kflow_model::cri::{ContainerEvent, ContainerEventKind};
use kflow_model::{Body, ContainerId, Nanos, Observation, Source, clock};

/// Shortest and longest pause between attempts to reach the runtime.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// A refusal comes at once, but an acceptance only with the first event: a stream that is silent for
/// this long is accepted.
const SILENT: Duration = Duration::from_secs(1);
/// Most containers that are asked about on one connection.
const TOGETHER: usize = 64;
/// Most containers that may wait to be asked about.
const ROOM: usize = 1024;

/// Status text for a runtime that answers Unimplemented.
const NONE: &str = "nothing: this runtime has no events, neither containerd's own nor CRI's";
/// Status text for a stream that ends without an error (CRI-O, `server/container_events.go`, GetContainerEvents).
const OFF: &str = "nothing: the runtime tells no container events; CRI-O does with enable_pod_events = true in its configuration";

/// Why a stream of events ended.
enum End {
    Stopped,
    /// The runtime will never send events, for this reason.
    Nothing(&'static str),
    Failed(String),
}

impl From<Stopped> for End {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

/// What is kept from one stream to the next.
struct Told {
    /// When the last stream ended that had been accepted.
    broken: Option<Nanos>,
    /// Events that could not be read.
    unread: u64,
    /// Containers whose pod was not asked for, because the runtime answered too slowly.
    unnamed: u64,
}

/// Follows the events of the runtime at a socket, through its restarts, until the receiver of observations is gone.
pub async fn follow(path: PathBuf, mut out: Out) {
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    let mut told = Told {
        broken: None,
        unread: 0,
        unnamed: 0,
    };
    loop {
        let mut is_on = false;
        let ended = session(&path, &mut told, &mut is_on, &mut out).await;
        let why = match ended {
            Ok(()) => "the runtime ended the stream of its events".to_owned(),
            Err(End::Stopped) => return,
            Err(End::Nothing(why)) => {
                out.on(why);
                return;
            }
            Err(End::Failed(why)) => why,
        };
        out.off(why.as_str());
        if is_on {
            backoff.reset();
            let now = clock::now();
            told.broken = Some(now);
            let lost = gap(Source::Runtime, now, now, 0, &why);
            if out.send(lost).await.is_err() {
                return;
            }
        }
        let pause = backoff.pause();
        debug!(parent: out.span(), why, ?pause, "connecting again");
        out.pause(pause).await;
    }
}

/// Returns in words whose events the runtime would send; the error says why it sends none.
pub async fn probe(path: &Path) -> Result<&'static str, String> {
    const CRI: &str = "container events of CRI";
    const OWN: &str = "containerd's own: containers, tasks, OOM kills, images, snapshots";
    let channel = unix::channel(path).await.map_err(|e| e.to_string())?;
    match timeout(SILENT, subscribe(channel)).await {
        Err(_) => return answers(path).await.map(|()| OWN),
        Ok(Ok(_)) => return Ok(OWN),
        Ok(Err(e)) if e.code() == Code::Unimplemented => {}
        Ok(Err(e)) => return Err(format!("{} ({:?})", e.message(), e.code())),
    }
    let stream = cri::live::Events::connect(path).await;
    let mut stream = stream.map_err(|e| e.to_string())?;
    match timeout(SILENT, stream.next()).await {
        Err(_) => answers(path).await.map(|()| CRI),
        Ok(cri::live::Came::Events(_)) => Ok(CRI),
        Ok(cri::live::Came::End { code: Some(0), .. }) => Err(OFF.to_owned()),
        Ok(cri::live::Came::End { code, .. }) if code == Some(Code::Unimplemented as u32) => {
            Err(NONE.to_owned())
        }
        Ok(cri::live::Came::End { why, .. }) => Err(why),
    }
}

async fn session(path: &Path, told: &mut Told, is_on: &mut bool, out: &mut Out) -> Result<(), End> {
    let channel = unix::channel(path).await;
    let channel = channel.map_err(|e| End::Failed(e.to_string()))?;
    let mut asked = std::pin::pin!(subscribe(channel));
    let stream = match timeout(SILENT, asked.as_mut()).await {
        Ok(answer) => answer,
        Err(_) => {
            answers(path).await.map_err(End::Failed)?;
            begun(path, told, is_on, out).await?;
            asked.await
        }
    };
    match stream {
        Ok(stream) => {
            if !*is_on {
                begun(path, told, is_on, out).await?;
            }
            containerd(path, stream, told, out).await
        }
        Err(e) if e.code() == Code::Unimplemented => of_cri(path, told, is_on, out).await,
        Err(e) => Err(failed(&e)),
    }
}

/// Tells a runtime that has no event to send from one that hangs: it answers at least which version it is.
async fn answers(path: &Path) -> Result<(), String> {
    let version = cri::live::version(path).await;
    version.map(|_| ()).map_err(|e| e.to_string())
}

fn failed(e: &Status) -> End {
    End::Failed(format!(
        "the runtime broke off its events: {} ({:?})",
        e.message(),
        e.code()
    ))
}

/// Reports that a new stream has begun. The stream does not deliver what happened since the last one: a gap is reported
/// for that, and what exists now is asked for.
async fn begun(path: &Path, told: &mut Told, is_on: &mut bool, out: &mut Out) -> Result<(), End> {
    *is_on = true;
    say(told, out);
    let Some(since) = told.broken.take() else {
        return Ok(());
    };
    let why = "the runtime was away, or its events were: what happened to containers meanwhile is known by lists only";
    out.send(gap(Source::Runtime, since, clock::now(), 0, why))
        .await?;
    match cri::live::inventory(path).await {
        Ok(mut lists) => out.send_all(&mut lists).await?,
        Err(e) => debug!(parent: out.span(), error = %e, "no lists after a break"),
    }
    Ok(())
}

fn say(told: &Told, out: &Out) {
    let mut detail = "events of containers, tasks, images and snapshots, as they happen".to_owned();
    if told.unread > 0 {
        detail.push_str(&format!("; {} could not be read", told.unread));
    }
    if told.unnamed > 0 {
        let n = told.unnamed;
        detail.push_str(&format!(
            "; of {n} containers it was not asked whose they are: it answers too slowly"
        ));
    }
    out.on(detail);
}

/// Takes containerd's events, and asks to which pods the containers belong that start.
async fn containerd(
    path: &Path,
    mut stream: Streaming<Envelope>,
    told: &mut Told,
    out: &mut Out,
) -> Result<(), End> {
    let (to, started) = channel(ROOM);
    let names = names(path, started, out.share());
    let events = async {
        while let Some(event) = stream.message().await.map_err(|e| failed(&e))? {
            match event.observe(clock::now()) {
                Ok(None) => {}
                Ok(Some(o)) => {
                    if begins(&o).is_some_and(|id| to.try_send(id.clone()).is_err()) {
                        told.unnamed += 1;
                        say(told, out);
                    }
                    out.send(o).await?;
                }
                Err(e) => {
                    told.unread += 1;
                    debug!(parent: out.span(), error = %e, "an event was left out");
                    say(told, out);
                }
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = events => ended,
        ended = names => ended,
    }
}

/// Returns the container that the observation says has started.
fn begins(o: &Observation) -> Option<&ContainerId> {
    match &o.body {
        Body::ContainerEvent(c) if c.kind == ContainerEventKind::Started => {
            Some(&c.subject.container_id)
        }
        _ => None,
    }
}

/// Asks for the pod, name and attempt of containers that start, which containerd's events do not have.
async fn names(path: &Path, mut started: Receiver<ContainerId>, mut out: Out) -> Result<(), End> {
    let mut ids = Vec::new();
    while started.recv_many(&mut ids, TOGETHER).await > 0 {
        match cri::live::identify(path, &ids).await {
            Ok(mut found) => out.send_all(&mut found).await?,
            // The stream of events ends too when the runtime is gone.
            Err(e) => debug!(parent: out.span(), error = %e, "containers without a name"),
        }
        ids.clear();
    }
    Ok(())
}

/// Takes CRI's container events.
async fn of_cri(path: &Path, told: &mut Told, is_on: &mut bool, out: &mut Out) -> Result<(), End> {
    let stream = cri::live::Events::connect(path).await;
    let mut stream = stream.map_err(|e| End::Failed(e.to_string()))?;
    loop {
        let next = timeout(SILENT, stream.next()).await;
        if !*is_on && !matches!(next, Ok(cri::live::Came::End { .. })) {
            answers(path).await.map_err(End::Failed)?;
            begun(path, told, is_on, out).await?;
        }
        let Ok(next) = next else { continue };
        match next {
            cri::live::Came::Events(events) => {
                for o in events {
                    out.send(of_runtime(o)).await?;
                }
            }
            cri::live::Came::End { code, .. } if code == Some(Code::Unimplemented as u32) => {
                return Err(End::Nothing(NONE));
            }
            cri::live::Came::End { code: Some(0), .. } if !*is_on => {
                return Err(End::Nothing(OFF));
            }
            cri::live::Came::End { why, .. } => return Err(End::Failed(why)),
        }
    }
}

/// Makes an observation of source `runtime`, with the key of no call.
fn of_runtime(mut o: Observation) -> Observation {
    o.source = Source::Runtime;
    if let Body::ContainerEvent(c) = &mut o.body {
        let ContainerEvent { key, .. } = &mut **c;
        *key = kflow_model::cri::CallKey::default();
    }
    o
}
