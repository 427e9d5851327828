//! Starting the sources of a run, and reaching the apiserver and the kubelet.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use tokio::task::JoinSet;
use tonic::codegen::http::Uri;
use tonic::codegen::http::header::{HeaderValue, USER_AGENT};

use super::agent::{self, Gives};
use super::agents;
use super::kubeconfig::{Found, found};
use super::later;
use super::{Config, KubeletLog, LogPlace};
use crate::snapshot::own;
use kflow_model::clock;
use kflow_model::gap::{Failure, WatchKind};
use kflow_model::log::Component;
use kflow_model::{Body, Observation, Source, Stamp};
use kflow_sources::klog::KlogDecoder;
use kflow_sources::klog::live::{self as log, remote};
use kflow_sources::kube::decode::note;
use kflow_sources::kube::live as watch;
use kflow_sources::live::offload::Offload;
use kflow_sources::live::{Backoff, Board, Out};
use kflow_sources::runtime::{containerd, events};
use kflow_sources::{LineDecoder, TimeHint, cri, metrics, proxy, tap};

fn kubelet_decoder() -> Box<dyn LineDecoder> {
    let hint = TimeHint {
        not_after: Some(clock::now()),
        grows: true,
        ..TimeHint::default()
    };
    Box::new(KlogDecoder::new(Component::Kubelet, hint))
}

pub(super) fn spawn(config: &Config, board: &Board, tasks: &mut JoinSet<()>) {
    let gives = agent::spawn(config, board, tasks);
    let earlier = config.agent.as_ref().and_then(|a| a.earlier.clone());
    let Some(earlier) = earlier else {
        return spawn_others(config, gives.as_ref(), board, tasks);
    };
    // What the agent stored earlier has to arrive before everything else.
    let (config, board) = (config.clone(), board.clone());
    tasks.spawn(async move {
        agent::past(&earlier).await;
        let mut others = JoinSet::new();
        spawn_others(&config, gives.as_ref(), &board, &mut others);
        while others.join_next().await.is_some() {}
    });
}

/// Follows the node's cgroups, folders of pods and mounts.
#[cfg(target_os = "linux")]
pub(super) fn spawn_files(kubelet: &std::path::Path, board: &Board, tasks: &mut JoinSet<()>) {
    use kflow_sources::fs::{Roots, live};

    let roots = Roots::of_this_node(kubelet);
    let mountinfo = roots.mountinfo.clone();
    let out = board.out(Source::Fs, "directories");
    tasks.spawn(live::directories(roots, out));
    tasks.spawn(live::mounts(mountinfo, board.out(Source::Fs, "mounts")));
}

/// Only a Linux node has them.
#[cfg(not(target_os = "linux"))]
pub(super) fn spawn_files(_: &std::path::Path, _: &Board, _: &mut JoinSet<()>) {}

/// Asks a runtime what exists, and follows its pulls and events.
pub(super) fn spawn_runtime(path: PathBuf, board: &Board, tasks: &mut JoinSet<()>) {
    let out = board.out(Source::Runtime, "image pulls");
    tasks.spawn(containerd::live::pulls(path.clone(), out));
    let out = board.out(Source::Runtime, "events");
    tasks.spawn(events::follow(path.clone(), out));
    tasks.spawn(inventory(path, board.out(Source::Runtime, "inventory")));
}

/// Follows the calls of a runtime's clients by the eBPF tap.
pub(super) fn spawn_tap(path: PathBuf, config: &Config, board: &Board, tasks: &mut JoinSet<()>) {
    let out = board.out(Source::Cri, "tap");
    tasks.spawn(tap::follow(path, Arc::clone(&config.reconnect), out));
}

/// Follows a kubelet's log.
pub(super) fn spawn_log(place: LogPlace, board: &Board, tasks: &mut JoinSet<()>) {
    place.spawn(Source::Kubelet, Box::new(kubelet_decoder), board, tasks);
}

fn spawn_others(config: &Config, gives: Option<&Gives>, board: &Board, tasks: &mut JoinSet<()>) {
    let follows = config.proxy.clone().map(|path| {
        let out = board.out(Source::Cri, "proxy");
        let its = out.share();
        let follows = tasks.spawn(proxy::follow(path, config.untapped.clone(), its));
        (follows, out)
    });
    if let Some(path) = config.ebpf.clone() {
        spawn_tap(path, config, board, tasks);
    }
    if let Some(path) = config.runtime.clone() {
        spawn_runtime(path, board, tasks);
    }
    if let Some(search) = config.search.clone() {
        let (config, gives, board) = (config.clone(), gives.cloned(), board.clone());
        tasks.spawn(later::search(search, config, gives, board, follows));
    }
    if let Some(root) = &config.kubelet_root {
        spawn_files(root, board, tasks);
    }
    match config.kubelet_log.clone() {
        KubeletLog::Off | KubeletLog::Remote => {}
        KubeletLog::At(place) => spawn_log(place, board, tasks),
        KubeletLog::Stdin => {
            let out = board.out(Source::Kubelet, "stdin");
            tasks.spawn(async move {
                let stdin = tokio::io::stdin();
                log::stream("stdin", stdin, Source::Kubelet, kubelet_decoder(), out).await;
            });
        }
    }
    config.control.spawn(board, tasks);
    if config.kubelet.is_some() && config.control.scrape {
        let out = board.out(Source::Metrics, own::KUBELET);
        let config = config.clone();
        tasks.spawn(async move {
            match kubelet(&config).await {
                Ok(client) => {
                    metrics::live::scrape(client, metrics::live::kubelet(), out).await;
                }
                Err(why) => out.off(why),
            }
        });
    }
    if let Some(scope) = config.scope.clone() {
        let config = config.clone();
        let board = board.clone();
        let gives = gives.cloned();
        let connecting = board.out(Source::Kube, own::KUBECONFIG);
        tasks.spawn(async move {
            tokio::time::sleep(config.api_spread.mul_f64(fastrand::f64())).await;
            let Some(server) = connected(&config, connecting).await else {
                return;
            };
            let client = server.client.clone();
            let mut watches = JoinSet::new();
            if config.of_node_only {
                watch::start_node(&server, &scope, config.pace, &board, &mut watches);
            } else {
                watch::start(&server, &scope, config.pace, &board, &mut watches);
            }
            if let Some(look) = config.agents.clone() {
                watches.spawn(agents::look(client.clone(), look));
            }
            // A kubelet that is asked directly is not asked through the apiserver too.
            let node = scope.node.as_deref().filter(|_| config.kubelet.is_none());
            config
                .control
                .spawn_scrapes(&client, node, gives.as_ref(), &board, &mut watches);
            if config.kubelet_log == KubeletLog::Remote
                && let Some(node) = scope.node.clone()
            {
                let out = board.out(Source::Kubelet, "remote log");
                let log = move |out| {
                    let decoder = Box::new(kubelet_decoder);
                    let kubelet = remote::Kubelet::new(client.clone(), &node);
                    remote::remote(kubelet, Source::Kubelet, decoder, remote::ASK, out)
                };
                match gives {
                    None => watches.spawn(log(out)),
                    Some(gives) => watches.spawn(gives.unless(|g| g.kubelet_log, out, log)),
                };
            }
            while watches.join_next().await.is_some() {}
        });
    }
}

/// How long reading a kubeconfig may take before the status says that it has not been read.
const SILENT: Duration = Duration::from_millis(250);

/// Returns a client for the apiserver as soon as the kubeconfig gives one. `None` when the engine has stopped.
async fn connected(config: &Config, mut out: Out) -> Option<watch::Server> {
    let mut backoff = Backoff::new(config.pace.backoff.0, config.pace.backoff.1);
    let mut reach = Offload::default();
    let mut failed = false;
    loop {
        let mut asked = pin!(aside(&mut reach, config, apiserver(config.clone())));
        let answer = match tokio::time::timeout(SILENT, asked.as_mut()).await {
            Ok(answer) => answer,
            Err(_) => {
                let text = format!(
                    "{} has not been read: it, a file that it names, or its plugin has not answered",
                    match &config.kubeconfig {
                        Some(path) => format!("kubeconfig {}", path.display()),
                        None => "the kubeconfig".to_owned(),
                    }
                );
                failed = true;
                let o = whole(WatchKind::Broken, &text, Some(Failure::TimedOut));
                out.send(o).await.ok()?;
                asked.await
            }
        };
        let (kind, text) = match answer {
            Ok(server) => {
                let address = server.address.clone();
                if server.anonymous.is_empty() {
                    out.on(address.as_str());
                } else {
                    out.on(format!(
                        "{address}, without credentials: {}",
                        server.anonymous
                    ));
                }
                if failed {
                    let o = whole(WatchKind::Bookmark, &address, None);
                    out.send(o).await.ok()?;
                }
                let address = address.trim_end_matches('/').into();
                return Some(watch::Server { address, ..server });
            }
            Err(e) => (e.failure, e.why),
        };
        out.off(text.as_str());
        failed = true;
        let o = whole(WatchKind::Broken, &text, Some(kind));
        out.send(o).await.ok()?;
        out.pause(backoff.pause()).await;
    }
}

/// A note about the apiserver as a whole, and not about one resource.
fn whole(kind: WatchKind, detail: &str, failure: Option<Failure>) -> Observation {
    let mut o = note("", kind, detail, Stamp::exact(clock::now()));
    if let Body::Watch(n) = &mut o.body {
        n.failure = failure;
    }
    o
}

/// Reads the kubeconfig, the files that it names and its plugin's output off the thread that carries the sources.
async fn aside<T: Send + 'static, E: From<String> + Send + 'static>(
    reach: &mut Offload<Result<T, E>>,
    config: &Config,
    question: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E> {
    reach
        .ask(config.pace.answer, question)
        .await
        .unwrap_or_else(|e| {
            let why = format!(
                "cannot read the kubeconfig, a file that it names or what its plugin says: {e}"
            );
            Err(why.into())
        })
}

/// Returns a client for the kubeconfig's apiserver, and the apiserver's address.
pub async fn connect(config: &Config) -> Result<(kube::Client, String), String> {
    let found = aside(&mut Offload::default(), config, apiserver(config.clone())).await;
    let server = found.map_err(|e| e.why)?;
    Ok((server.client, server.address.to_string()))
}

async fn apiserver(config: Config) -> Result<watch::Server, watch::NoClient> {
    let Found { config, anonymous } = credentials(&config).await?;
    let address = config.cluster_url.to_string().into();
    Ok(watch::Server {
        client: watch::client(config)?,
        address,
        anonymous: anonymous.into(),
    })
}

/// Returns a client for the kubelet at the address that the configuration names.
///
/// Over https it is asked with the kubeconfig's credentials, and it must present a certificate of the cluster's
/// authority, or its self-signed one, which is in its folder `pki` and readable for root.
pub async fn kubelet(config: &Config) -> Result<kube::Client, String> {
    aside(&mut Offload::default(), config, own_address(config.clone())).await
}

async fn own_address(config: Config) -> Result<kube::Client, String> {
    let address = config.kubelet.as_deref().unwrap_or_default();
    let url: Uri = address
        .parse()
        .map_err(|e| format!("--kubelet {address}: {e}"))?;
    let client = match url.scheme_str() {
        // The read-only port authenticates nobody, and must not be given credentials.
        Some("http") => kube::Config::new(url),
        Some("https") => {
            let mut found = credentials(&config).await?.config;
            // A setting that trusts any certificate of the apiserver says nothing of the kubelet, which gets the token.
            found.accept_invalid_certs = false;
            let here = matches!(url.host(), Some("127.0.0.1" | "localhost" | "[::1]"));
            if here && let Some(node) = config.scope.as_ref().and_then(|s| s.node.clone()) {
                found.tls_server_name = Some(node);
            }
            if let Some(root) = &config.kubelet_root {
                #[expect(clippy::disallowed_methods, reason = "in a thread of its own: `aside`")]
                let own = std::fs::read_to_string(root.join("pki/kubelet.crt")).unwrap_or_default();
                found
                    .root_cert
                    .get_or_insert_default()
                    .extend(certificates(&own));
            }
            found.cluster_url = url;
            found
        }
        _ => return Err(format!("--kubelet {address}: neither http:// nor https://")),
    };
    watch::client(client).map_err(|e| e.why)
}

/// The certificates of a PEM file, as DER.
fn certificates(pem: &str) -> Vec<Vec<u8>> {
    pem.split("-----BEGIN CERTIFICATE-----")
        .skip(1)
        .filter_map(|c| c.split("-----END").next())
        .filter_map(|c| {
            let text: String = c.split_whitespace().collect();
            base64::engine::general_purpose::STANDARD.decode(text).ok()
        })
        .collect()
}

/// Returns the credentials of the kubeconfig, or of the pod's own account.
async fn credentials(config: &Config) -> Result<Found, String> {
    let mut credentials = found(config).await?;
    let found = &mut credentials.config;
    found.headers.push((
        USER_AGENT,
        HeaderValue::from_static(concat!("kflow/", env!("CARGO_PKG_VERSION"))),
    ));
    // The watches retry by themselves, and say what they wait for.
    found.default_retry = false;
    Ok(credentials)
}

/// Asks a runtime what exists until it has answered once.
async fn inventory(path: PathBuf, mut out: Out) {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    loop {
        match cri::live::inventory(&path).await {
            Ok(mut lists) => {
                out.on("asked once for what exists");
                // The receiver is gone when the engine stops: so does this task.
                out.send_all(&mut lists).await.ok();
                return;
            }
            Err(e) => out.off(format!("{}: {e}", path.display())),
        }
        out.pause(backoff.pause()).await;
    }
}
