//! Requests to the apiserver about single objects of an installation.

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::client::Client;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use tokio::time::timeout;

use kflow_model::units::wait;
use kflow_sources::live::root;

use crate::manifest::PART_OF;

/// How long the apiserver may take for one request.
const ANSWER: Duration = Duration::from_secs(10);
/// Most objects of a list that are asked for at once, as kubectl does (`--chunk-size`).
const PAGE: u32 = 500;
/// Field manager of the fields that kflow applies.
pub(crate) const MANAGER: &str = "kflow";

/// Why a request was not made, or failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request failed; `why` is the apiserver's own message when there is one.
    #[error("cannot {verb} {what}: {why}")]
    Refused {
        verb: &'static str,
        what: String,
        why: String,
    },
    /// An object of this name exists that is not kflow's.
    #[error(
        "{what} exists and is not kflow's (it has no label app.kubernetes.io/part-of: kflow): remove it, or label it so"
    )]
    NotOurs { what: String },
    /// The agents are in another namespace. Cluster-wide objects have one name, so there is one installation at most.
    #[error(
        "the agents of this cluster are in namespace {namespace}: name it with --agent-namespace {namespace}, or uninstall them there first"
    )]
    Elsewhere { namespace: String },
    /// A Helm release manages the objects; Helm keeps a list of them.
    #[error(
        "the agents of this cluster are those of Helm's release {release} in namespace {namespace}: helm upgrade {release} -n {namespace}, or helm uninstall {release} -n {namespace}"
    )]
    Helm { release: String, namespace: String },
    /// The request failed, and the agent on this machine is not asked instead, because its node, of the same name, is in
    /// another cluster; the text is about that agent.
    #[error("{0}; {1}")]
    Stranger(Box<Error>, String),
    /// The agents' pods were replaced by those that remove their files, with the arguments and secrets of before.
    #[error(
        "the agents in namespace {namespace} were taken away by kflow agent uninstall --only-files, and nothing says how they ran: kflow agent install --image IMAGE"
    )]
    Cleaned { namespace: String },
    /// An object was deleted to be created anew.
    #[error("{what} was asked to go, and is still there: kubectl describe says why")]
    Stays { what: String },
    /// There is no installation to upgrade.
    #[error("no agents in namespace {namespace}: kflow agent install --image IMAGE")]
    NotInstalled { namespace: String },
}

/// An object of an installation: its identity, and its wanted state.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) name: String,
    namespace: Option<String>,
    resource: ApiResource,
    pub(crate) value: Value,
}

impl Object {
    /// Reads one document of a manifest; `None` when it has no apiVersion, kind or name.
    pub(crate) fn of(value: Value) -> Option<Self> {
        let text = |path: &str| Some(value.pointer(path)?.as_str()?.to_owned());
        let (api, kind) = (text("/apiVersion")?, text("/kind")?);
        let (group, version) = api.split_once('/').unwrap_or(("", &api));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        Some(Self {
            name: text("/metadata/name")?,
            namespace: text("/metadata/namespace"),
            kind,
            resource,
            value,
        })
    }

    /// Returns kind, namespace and name for people: `DaemonSet kflow/kflow-agent`.
    pub(crate) fn what(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// Returns the object as the cluster has it; `None` when it does not exist.
    pub(crate) async fn get(&self, client: &Client) -> Result<Option<DynamicObject>, Error> {
        self.ask("look at", self.api(client).get_opt(&self.name))
            .await
    }

    /// Applies the object server-side; kflow becomes the owner of every field in it.
    pub(crate) async fn apply(&self, client: &Client) -> Result<DynamicObject, Error> {
        let params = PatchParams::apply(MANAGER).force();
        let api = self.api(client);
        let patch = Patch::Apply(&self.value);
        self.ask("apply", api.patch(&self.name, &params, &patch))
            .await
    }

    /// Creates the object; an error when an object of its name exists.
    pub(crate) async fn create(&self, client: &Client) -> Result<(), Error> {
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api = self.api(client);
        let made = async {
            let object = serde_json::from_value(self.value.clone());
            let object: DynamicObject = object.map_err(kube::Error::SerdeError)?;
            api.create(&params, &object).await
        };
        self.ask("create", made).await?;
        Ok(())
    }

    /// Returns the Events about the object.
    pub(crate) async fn events(&self, client: &Client) -> Result<Vec<DynamicObject>, Error> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Event"));
        let namespace = self.namespace.as_deref().unwrap_or("default");
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let of = format!(
            "involvedObject.kind={},involvedObject.name={}",
            self.kind, self.name
        );
        let params = ListParams::default().fields(&of);
        let all = self.ask("list events of", api.list(&params)).await?;
        Ok(all.items)
    }

    /// Replaces the object by `with`; an error when the object has changed since `with` was read.
    pub(crate) async fn replace(
        &self,
        client: &Client,
        with: &DynamicObject,
    ) -> Result<DynamicObject, Error> {
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api = self.api(client);
        self.ask("change", api.replace(&self.name, &params, with))
            .await
    }

    /// Deletes the object and what it owns. Returns false when it does not exist.
    pub(crate) async fn delete(&self, client: &Client) -> Result<bool, Error> {
        let api = self.api(client);
        let params = DeleteParams::foreground();
        let deleted = async {
            match api.delete(&self.name, &params).await {
                Err(kube::Error::Api(s)) if s.code == 404 => Ok(false),
                other => other.map(|_| true),
            }
        };
        self.ask("delete", deleted).await
    }

    async fn ask<T>(
        &self,
        verb: &'static str,
        answer: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        asked(verb, self.what(), answer).await
    }
}

async fn asked<T>(
    verb: &'static str,
    what: String,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    let why = match timeout(ANSWER, answer).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(kube::Error::Api(status))) => status.message.clone(),
        Ok(Err(e)) => root(&e),
        Err(_) => format!("no answer for {}", wait(ANSWER)),
    };
    Err(Error::Refused { verb, what, why })
}

/// Returns all objects of a kind that a label selector matches.
pub(crate) async fn list(
    client: &Client,
    (group, version, kind): (&str, &str, &str),
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<DynamicObject>, Error> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let what = match namespace {
        Some(namespace) => format!("{} of namespace {namespace}", resource.plural),
        None => resource.plural.clone(),
    };
    // Page by page: each has its own time, so a large cluster needs no faster apiserver.
    let mut params = ListParams::default().labels(labels).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = asked("list", what.clone(), api.list(&params)).await?;
        all.extend(page.items);
        let next = page.metadata.continue_.filter(|next| !next.is_empty());
        // The same token again would never end.
        if next.is_none() || next == params.continue_token {
            return Ok(all);
        }
        params.continue_token = next;
    }
}

/// True for an object that an installation of kflow made.
pub(crate) fn is_ours(object: &DynamicObject) -> bool {
    let labels = object.metadata.labels.as_ref();
    labels.and_then(|l| l.get(PART_OF)).map(String::as_str) == Some("kflow")
}
