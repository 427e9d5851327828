//! Sources of the node that a run could not find when it started, because its kubelet or its runtime did not run: they are
//! looked for again and again, and followed once they are there.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};

use super::agent::Gives;
use super::sources;
use super::{Config, LogPlace};
use kflow_model::units::wait;
use kflow_model::{Nanos, Source, clock};
use kflow_sources::live::{Backoff, Board, Out, Stopped, gap};

/// Name of the search among the sources of the runtime.
pub const SEARCH: &str = "of this node";

/// Shortest and longest pause between two looks.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What the node has, of what was not found before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The runtime's socket.
    pub runtime: Option<PathBuf>,
    /// The runtime's socket, if the eBPF tap is to follow its clients.
    pub ebpf: Option<PathBuf>,
    /// The file that the kubelet writes its log to.
    pub kubelet_log: Option<PathBuf>,
    /// The kubelet's root folder.
    pub kubelet_root: Option<PathBuf>,
    /// What is not there yet; `None` ends the search.
    pub missing: Option<String>,
}

/// Looks for what a run did not find when it started. Blocks.
#[derive(Clone)]
pub struct Search(Arc<dyn Fn() -> Found + Send + Sync>);

impl Search {
    pub fn new(look: impl Fn() -> Found + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }
}

impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Search")
    }
}

/// Searches until nothing is missing, and starts each source when it is found. `proxy` is the source that follows a proxy,
/// which the eBPF tap replaces.
pub(super) async fn search(
    search: Search,
    config: Config,
    gives: Option<Gives>,
    board: Board,
    proxy: Option<(AbortHandle, Out)>,
) {
    let mut out = board.out(Source::Runtime, SEARCH);
    let mut running = Running {
        config,
        board,
        begun: clock::now(),
        started: Found::default(),
        proxy,
        tasks: JoinSet::new(),
    };
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    loop {
        if gives.as_ref().is_some_and(Gives::anything) {
            out.on("the agent gives it");
            out.pause(RETRY.1).await;
            continue;
        }
        let look = search.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || (look.0)()).await else {
            // A look that panics is not made again.
            out.off("it could not be looked for: please report it");
            break;
        };
        let missing = found.missing.clone();
        if running.start(found, &mut out).await.is_err() {
            return;
        }
        match missing {
            Some(why) => out.off(format!("{why}: looked for again")),
            None => {
                let after = clock::now().since(running.begun);
                let after = Duration::from_nanos(after.max(0).unsigned_abs());
                out.on(format!("found {} after the start", wait(after)));
                break;
            }
        }
        out.pause(backoff.pause()).await;
    }
    while running.tasks.join_next().await.is_some() {}
}

struct Running {
    config: Config,
    board: Board,
    /// When the search began: what happened between then and the start of a source was not seen.
    begun: Nanos,
    started: Found,
    proxy: Option<(AbortHandle, Out)>,
    tasks: JoinSet<()>,
}

impl Running {
    /// Starts what was found and does not run yet, and reports since when it was missing.
    async fn start(&mut self, found: Found, out: &mut Out) -> Result<(), Stopped> {
        let (board, tasks) = (&self.board, &mut self.tasks);
        let mut late = Vec::new();
        if let Some(path) = first(&mut self.started.runtime, found.runtime) {
            late.push(Source::Runtime);
            sources::spawn_runtime(path, board, tasks);
        }
        if let Some(path) = first(&mut self.started.ebpf, found.ebpf) {
            late.push(Source::Cri);
            if let Some((follows, out)) = self.proxy.take() {
                follows.abort();
                out.on("nothing: the eBPF tap follows the calls");
            }
            sources::spawn_tap(path, &self.config, board, tasks);
        }
        if let Some(path) = first(&mut self.started.kubelet_log, found.kubelet_log) {
            late.push(Source::Kubelet);
            sources::spawn_log(LogPlace::File(path), board, tasks);
        }
        if let Some(root) = first(&mut self.started.kubelet_root, found.kubelet_root) {
            late.push(Source::Fs);
            sources::spawn_files(&root, board, tasks);
        }
        let now = clock::now();
        for source in late {
            let why = "it was not there when kflow began, and is followed from now on";
            out.send(gap(source, self.begun, now, 0, why)).await?;
        }
        Ok(())
    }
}

/// Returns what was found if nothing was found before, and remembers it.
fn first(known: &mut Option<PathBuf>, found: Option<PathBuf>) -> Option<PathBuf> {
    match (&known, found) {
        (None, Some(path)) => {
            *known = Some(path.clone());
            Some(path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::SourceStatus;
    use kflow_model::Body;
    use std::sync::Mutex;

    /// Nobody waits longer for what takes a second.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn named<'s>(all: &'s [SourceStatus], name: &str) -> Option<&'s SourceStatus> {
        all.iter().find(|s| s.name == name)
    }

    /// Waits until the statuses are as `wanted` says.
    async fn until(board: &Board, wanted: impl Fn(&[SourceStatus]) -> bool) -> Vec<SourceStatus> {
        let end = clock::monotonic() + PATIENCE;
        loop {
            let all = board.statuses();
            if wanted(&all) {
                return all;
            }
            assert!(clock::monotonic() < end, "{all:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A runtime and a kubelet that start after kflow: first the one, then the other.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_not_there_at_the_start_is_looked_for_and_followed_once_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, log) = (
            folder.path().join("runtime.sock"),
            folder.path().join("kubelet.log"),
        );
        let there = Arc::new(Mutex::new(Found {
            missing: Some("no runtime's socket; no kubelet".into()),
            ..Found::default()
        }));
        let looks = Arc::clone(&there);
        let config = Config {
            search: Some(Search::new(move || looks.lock().unwrap().clone())),
            proxy: Some(folder.path().join("no-proxy.sock")),
            ..Config::nothing()
        };
        let (board, mut from) = Board::new(100);
        let mut tasks = JoinSet::new();
        sources::spawn(&config, &board, &mut tasks);
        let missing = |all: &[SourceStatus]| {
            named(all, SEARCH).is_some_and(|s| {
                s.detail() == "no runtime's socket; no kubelet: looked for again"
                    && s.next.is_some()
            })
        };
        let all = until(&board, missing).await;
        assert!(named(&all, "events").is_none(), "{all:?}");

        there.lock().unwrap().runtime = Some(socket.clone());
        let all = until(&board, |all| named(all, "inventory").is_some()).await;
        for name in ["image pulls", "events", "inventory"] {
            assert!(named(&all, name).is_some(), "{name}: {all:?}");
        }
        // It goes on for the rest, and starts nothing twice.
        std::fs::write(&log, "").unwrap();
        *there.lock().unwrap() = Found {
            runtime: Some(socket),
            kubelet_log: Some(log.clone()),
            ..Found::default()
        };
        let all = until(&board, |all| named(all, SEARCH).unwrap().is_on()).await;
        assert!(named(&all, SEARCH).unwrap().detail().starts_with("found "));
        let of_log = named(&all, &log.to_string_lossy());
        assert_eq!(of_log.map(|s| s.source), Some(Source::Kubelet), "{all:?}");
        let events = all.iter().filter(|s| s.name == "events");
        assert_eq!(events.count(), 1, "{all:?}");
        // The proxy is followed on: no tap has taken its place.
        assert!(named(&all, "proxy").is_some_and(SourceStatus::is_off));

        let mut gaps = Vec::new();
        while let Ok(o) = from.try_recv() {
            if let Body::Gap(g) = &o.body {
                assert!(g.since < o.stamp.at, "{g:?}");
                gaps.push(g.of);
            }
        }
        assert_eq!(gaps, [Source::Runtime, Source::Kubelet]);
    }

    /// Every source that a flag can name, while what it reads is not there: it says so, and asks again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_source_of_the_node_asks_again() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut config = Config {
            proxy: Some(at("proxy.sock")),
            runtime: Some(at("runtime.sock")),
            kubelet_log: crate::live::KubeletLog::At(LogPlace::File(at("kubelet.log"))),
            kubelet: Some("http://127.0.0.1:9".into()),
            kubelet_root: Some(at("kubelet")),
            ..Config::nothing()
        };
        config.control.scrape = true;
        config.control.audit_logs = vec![at("audit.log")];
        let (board, mut from) = Board::new(1000);
        let mut tasks = JoinSet::new();
        sources::spawn(&config, &board, &mut tasks);
        // How each is asked again: after a pause that its status tells, or by a look at the file each so often.
        let paused = ["proxy", "image pulls", "events", "inventory", "kubelet"];
        let files = ["kubelet.log", "audit.log"].map(at);
        let files = files.each_ref().map(|p| p.to_string_lossy());
        let tells = |all: &[SourceStatus]| {
            let off = |name: &str| named(all, name).filter(|s| s.is_off());
            paused
                .iter()
                .all(|n| off(n).is_some_and(|s| s.next.is_some()))
                && files.iter().all(|n| off(n).is_some())
                && named(all, "directories").is_some_and(|s| s.detail().contains("not "))
        };
        let all = until(&board, tells).await;
        let known: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
        let told = paused
            .iter()
            .copied()
            .chain(files.iter().map(AsRef::as_ref));
        let told: Vec<&str> = told.chain(["directories", "mounts"]).collect();
        let untold: Vec<_> = known.iter().filter(|n| !told.contains(n)).collect();
        assert_eq!(untold, Vec::<&&str>::new(), "in neither list");

        // What comes is followed. The socket accepts, and answers nothing: another text than that there is none.
        let _listening = std::os::unix::net::UnixListener::bind(at("runtime.sock")).unwrap();
        for name in ["kubelet.log", "audit.log"] {
            std::fs::write(at(name), "").unwrap();
        }
        let came = |all: &[SourceStatus]| {
            let gone = |s: &SourceStatus| s.detail().contains("No such file");
            let of = |n: &str| named(all, n).is_some_and(|s| !gone(s));
            files
                .iter()
                .all(|n| named(all, n).is_some_and(SourceStatus::is_on))
                && ["image pulls", "events", "inventory"].iter().all(|n| of(n))
        };
        until(&board, came).await;

        // A log that another file takes the place of is followed on.
        let line = "I1129 10:00:00.000000       1 kubelet.go:2600] \"SyncLoop ADD\" source=\"api\" pods=[\"shop/a\"]\n";
        std::fs::write(at("new.log"), line).unwrap();
        std::fs::rename(at("new.log"), at("kubelet.log")).unwrap();
        let of_log = async {
            while let Some(o) = from.recv().await {
                if matches!(&o.body, Body::Log(_)) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, of_log)
            .await
            .expect("a line of it");
    }
}
