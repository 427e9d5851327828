//! Sends spans of the pods' episodes to a trace store once they are final, each span once. A store that refuses or
//! hangs holds up nothing; spans that it did not take are counted and reported.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use super::{Published, lock};
use crate::post::{Refused, Store, Taken};
use crate::snapshot::{SourceStatus, Status, own};
use kflow_export::otlp::{Findings, Outbox, requests};
use kflow_model::{Nanos, Source};

/// Time between two looks for spans that have become final.
const EVERY: Duration = Duration::from_secs(1);
/// Most requests that wait for the store. Chosen: the starts of some hundred pods, 10 MB.
const ROOM: usize = 32;
/// How long one request is retried. Chosen: a collector's restart passes by, and memory is bounded by [`ROOM`] anyway.
const LIMIT: Duration = Duration::from_secs(300);
/// How long the last requests may take when kflow ends.
const LAST: Duration = Duration::from_secs(5);

/// The state of sending.
#[derive(Clone, Debug, Default)]
struct Standing {
    /// Spans that the store took.
    sent: u64,
    /// Spans that are lost: the store did not take them.
    lost: u64,
    /// Spans that wait for the store.
    waiting: u64,
    /// Why the store did not take the last spans, until it takes others.
    trouble: Option<String>,
    /// Why spans were last lost.
    why: String,
    since: Option<Nanos>,
}

/// The state of sending, for those who show it.
#[derive(Clone, Debug)]
pub(super) struct Post {
    to: Arc<str>,
    standing: Arc<Mutex<Standing>>,
}

impl Post {
    pub(super) fn status(&self) -> SourceStatus {
        let s = lock(&self.standing).clone();
        let mut words = format!("{} spans sent to {}", s.sent, self.to);
        if s.lost > 0 {
            words.push_str(&format!("; {} lost: {}", s.lost, s.why));
        }
        let status = match &s.trouble {
            Some(why) => Status::Off(
                format!(
                    "{} takes no traces: {why}; {} spans wait, {words}",
                    self.to, s.waiting
                )
                .into(),
            ),
            None => Status::On(words.into()),
        };
        SourceStatus {
            lost: s.lost,
            count: s.sent,
            since: s.since,
            ..SourceStatus::new(Source::Kflow, own::TRACES, status)
        }
    }

    fn change(&self, with: impl FnOnce(&mut Standing)) {
        let mut s = lock(&self.standing);
        let before = s.trouble.is_some();
        with(&mut s);
        if s.trouble.is_some() != before {
            s.since = Some(kflow_model::clock::now());
        }
    }

    fn lose(&self, spans: u64, why: &str) {
        if spans > 0 {
            tracing::warn!(spans, why, "traces are lost");
            self.change(|s| {
                s.lost += spans;
                why.clone_into(&mut s.why);
            });
        }
    }

    fn ended(&self, spans: u64, how: Result<Taken, Refused>) {
        match how {
            Ok(Taken { rejected, why }) => {
                let rejected = rejected.min(spans);
                self.change(|s| {
                    s.waiting = s.waiting.saturating_sub(spans);
                    s.sent += spans - rejected;
                    s.trouble = None;
                });
                self.lose(rejected, &why);
            }
            Err(Refused { why, .. }) => {
                self.change(|s| {
                    s.waiting = s.waiting.saturating_sub(spans);
                    s.trouble = Some(why.clone());
                });
                self.lose(spans, &why);
            }
        }
    }
}

/// The thread that sends spans.
#[derive(Debug)]
pub(super) struct Traces {
    pub(super) post: Post,
    stop: Option<oneshot::Sender<()>>,
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Traces {
    /// Starts to look at the published snapshots. Episodes that were over before `begun` are not sent.
    pub(super) fn start(
        store: Arc<Store>,
        begun: Nanos,
        shared: Arc<Published>,
    ) -> std::io::Result<Self> {
        let post = Post {
            to: store.uri().to_string().into(),
            standing: Arc::default(),
        };
        let (stop, stopped) = oneshot::channel();
        let (ending, ended) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let told = post.clone();
        std::thread::Builder::new()
            .name("kflow-traces".into())
            .spawn(move || {
                let _ending: mpsc::Sender<()> = ending;
                runtime.block_on(run(&store, begun, &shared, &told, stopped));
                // Requests that are still on their way are not waited for.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            post,
            stop: Some(stop),
            ended: Mutex::new(ended),
        })
    }

    /// Sends what is left, within a time limit, once nothing new is published.
    pub(super) fn finish(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
            // Nothing is ever sent: the channel disconnects, or the time is over.
            let _closed = lock(&self.ended).recv_timeout(LAST + EVERY);
        }
    }
}

async fn run(
    store: &Store,
    begun: Nanos,
    shared: &Published,
    post: &Post,
    mut stopped: oneshot::Receiver<()>,
) {
    let (to, mut from) = tokio::sync::mpsc::channel::<(Bytes, u64)>(ROOM);
    let send = async {
        while let Some((body, spans)) = from.recv().await {
            let failed = |refused: &Refused, _| {
                tracing::debug!(why = refused.why, "traces wait");
                post.change(|s| s.trouble = Some(refused.why.clone()));
            };
            post.ended(spans, store.send(body, failed, LIMIT).await);
        }
    };
    let look = async {
        let mut outbox = Outbox::new(begun);
        let mut is_last = false;
        while !is_last {
            is_last = tokio::time::timeout(EVERY, &mut stopped).await.is_ok();
            for (body, spans) in new(&mut outbox, shared) {
                post.change(|s| s.waiting += spans);
                if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) =
                    to.try_send((body, spans))
                {
                    post.change(|s| s.waiting = s.waiting.saturating_sub(spans));
                    post.lose(spans, "the store is too slow: no room for more");
                }
            }
        }
        drop(to);
        tokio::time::sleep(LAST).await;
    };
    // Ends with the last request, or after [`LAST`].
    tokio::select! {
        () = send => {}
        () = look => {}
    }
    let left = lock(&post.standing).waiting;
    post.change(|s| s.waiting = 0);
    post.lose(left, "kflow ended before the store took them");
}

/// Returns what has become final since the last look, as requests with their number of spans.
fn new(outbox: &mut Outbox, shared: &Published) -> Vec<(Bytes, u64)> {
    let snap = Arc::clone(&lock(&shared.snapshot).1);
    let found = |pod: &kflow_core::correlate::PodView| Findings {
        incidents: &snap.overview.incidents,
        verdict: snap.verdicts.get(&pod.uid).map(AsRef::as_ref),
    };
    let made = outbox.take(snap.world.every_pod(), found, snap.now);
    requests(made).map(|(body, n)| (body.into(), n)).collect()
}
