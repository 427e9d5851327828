//! Names of objects: from the recording that the command line names, else from the cluster.

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use clap::ArgMatches;
use kube::config::Kubeconfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tonic::codegen::http::Request;

use super::{left, path_of};
use kflow_engine::live::{Config, connect, context_namespace};
use kflow_model::Scope;
use kflow_model::session::{self, Names};
use kflow_sources::kube::live::escape;

/// The kind of names requested from a cluster; a recording provides all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Pods,
    Namespaces,
    Nodes,
}

/// The source of names, according to the command line.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    session: Option<PathBuf>,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    namespace: Option<String>,
    whole: bool,
    no_api: bool,
    /// Time limit.
    until: Instant,
}

impl Asked {
    pub(super) fn of(matches: &ArgMatches, until: Instant) -> Self {
        let empty = ArgMatches::default();
        let of_command = matches.subcommand().map_or(&empty, |(_, m)| m);
        let text = |id: &str| of_command.try_get_one::<String>(id).ok().flatten().cloned();
        let given = |id: &str| of_command.try_get_one::<bool>(id).ok().flatten() == Some(&true);
        let stdin = |p: &PathBuf| p.as_os_str() == "-";
        let mut asked = Self {
            session: path_of(of_command, "session"),
            kubeconfig: path_of(of_command, "kubeconfig"),
            context: text("context"),
            namespace: text("namespace").filter(|n| !n.is_empty()),
            whole: given("all_namespaces") || text("node").is_some(),
            no_api: given("no_api"),
            until,
        };
        // A recording on standard input cannot be read yet, and its names are not the cluster's.
        asked.no_api |= asked.session.as_ref().is_some_and(stdin);
        asked.session = asked.session.filter(|p| !stdin(p));
        // With `--store`, the names are of segments elsewhere, and not the cluster's of today.
        asked.no_api |= text("store").is_some() && matches.subcommand_name() != Some("record");
        if asked.session.is_none() && asked.namespace.is_none() && !asked.whole && !asked.no_api {
            let (path, context) = (asked.kubeconfig.clone(), asked.context.clone());
            let read = move || context_namespace(path.as_deref(), context.as_deref()).ok();
            asked.namespace = within(until, read).flatten().flatten();
        }
        asked
    }

    /// The namespace to which pods are restricted, if any.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns what `take` takes from the names; the default when they are not known in time.
    pub(super) fn names<T: Default>(&self, need: Need, take: impl FnOnce(&Names) -> T) -> T {
        let asked = self.clone();
        let found = within(self.until, move || asked.find(need)).flatten();
        found.as_ref().map(take).unwrap_or_default()
    }

    fn find(&self, need: Need) -> Option<Names> {
        match &self.session {
            Some(path) => session::names(path).ok(),
            None if self.no_api => None,
            None => self.of_cluster(need),
        }
    }

    fn of_cluster(&self, need: Need) -> Option<Names> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let config = Config {
            scope: Some(Scope::default()),
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..Config::nothing()
        };
        runtime.ok()?.block_on(async {
            let (client, _) = connect(&config).await.ok()?;
            let path = match (need, self.namespace.as_deref()) {
                (Need::Pods, Some(ns)) => format!("namespaces/{}/pods", escape(ns)),
                (Need::Pods, None) => "pods".to_owned(),
                (Need::Namespaces, _) => "namespaces".to_owned(),
                (Need::Nodes, _) => "nodes".to_owned(),
            };
            let all: List = get(&client, &format!("/api/v1/{path}")).await?;
            let mut names = Names::default();
            for Item { metadata: m } in all.items {
                match need {
                    Need::Pods => drop(names.pods.insert((m.namespace, m.name))),
                    Need::Nodes => drop(names.nodes.insert(m.name)),
                    Need::Namespaces => {
                        names.pods.insert((m.name, String::new()));
                    }
                }
            }
            Some(names)
        })
    }

    /// The contexts in the kubeconfig; `None` when it cannot be read in time.
    pub(super) fn contexts(&self) -> Option<Vec<String>> {
        let path = self.kubeconfig.clone();
        let config = within(self.until, move || kubeconfig(path.as_deref()))??;
        Some(config.contexts.into_iter().map(|c| c.name).collect())
    }
}

fn kubeconfig(path: Option<&Path>) -> Option<Kubeconfig> {
    match path {
        Some(path) => Kubeconfig::read_from(path).ok(),
        None => Kubeconfig::read().ok(),
    }
}

/// Lists metadata only, from the apiserver's watch cache (`resourceVersion=0`), so that many pods arrive in time.
async fn get<T: DeserializeOwned>(client: &kube::Client, path: &str) -> Option<T> {
    const NAMES: &str =
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
    let request = Request::get(format!("{path}?resourceVersion=0")).header("accept", NAMES);
    client.request(request.body(Vec::new()).ok()?).await.ok()
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
}

/// Runs `find` in a thread; `None` when it is not done by `until`.
fn within<T: Send + 'static>(
    until: Instant,
    find: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (found, is_found) = sync_channel(1);
    let thread = std::thread::Builder::new();
    thread.spawn(move || found.send(find()).ok()).ok()?;
    is_found.recv_timeout(left(until)).ok()
}
