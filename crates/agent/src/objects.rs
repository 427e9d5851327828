//! The objects of an installation in a cluster, one by one.

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
/// Who owns the fields that are applied.
pub(crate) const MANAGER: &str = "kflow";

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The apiserver refused, with its own sentence.
    #[error("cannot {verb} {what}: {why}")]
    Refused {
        verb: &'static str,
        what: String,
        why: String,
    },
    /// An object of this name belongs to somebody else.
    #[error(
        "{what} exists and is not kflow's (it has no label app.kubernetes.io/part-of: kflow): remove it, or label it so"
    )]
    NotOurs { what: String },
    /// Cluster-wide objects have one name.
    #[error(
        "the agents of this cluster are in namespace {namespace}: name it with --agent-namespace {namespace}, or uninstall them there first"
    )]
    Elsewhere { namespace: String },
    /// Helm keeps a list of what it made.
    #[error(
        "the agents of this cluster are those of Helm's release {release} in namespace {namespace}: helm upgrade {release} -n {namespace}, or helm uninstall {release} -n {namespace}"
    )]
    Helm { release: String, namespace: String },
    /// The agent on this machine, whose node has the same name, is no help; what is said of it.
    #[error("{0}; {1}")]
    Stranger(Box<Error>, String),
    /// There is nothing to upgrade.
    #[error("no agents in namespace {namespace}: kflow agent install --image IMAGE")]
    NotInstalled { namespace: String },
}

/// One object: what it is called, and what it is to be.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) name: String,
    namespace: Option<String>,
    resource: ApiResource,
    pub(crate) value: Value,
}

impl Object {
    /// Reads one document of a manifest.
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

    /// `DaemonSet kflow/kflow-agent`
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

    /// What the cluster has.
    pub(crate) async fn get(&self, client: &Client) -> Result<Option<DynamicObject>, Error> {
        self.ask("look at", self.api(client).get_opt(&self.name))
            .await
    }

    /// Applies it; everything in it is kflow's.
    pub(crate) async fn apply(&self, client: &Client) -> Result<DynamicObject, Error> {
        let params = PatchParams::apply(MANAGER).force();
        let api = self.api(client);
        let patch = Patch::Apply(&self.value);
        self.ask("apply", api.patch(&self.name, &params, &patch))
            .await
    }

    /// Makes it; an error where there is one of its name.
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

    /// Events about it.
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

    /// Puts an object in the place of what is there, if it is still what was looked at.
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

    /// Asks for its end, with what it owns. False when there is none.
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

/// All objects of a kind that a selector fits.
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
    let params = ListParams::default().labels(labels);
    let what = match namespace {
        Some(namespace) => format!("{} of namespace {namespace}", resource.plural),
        None => resource.plural.clone(),
    };
    let all = asked("list", what, api.list(&params)).await?;
    Ok(all.items)
}

/// True for an object that an installation of kflow made.
pub(crate) fn is_ours(object: &DynamicObject) -> bool {
    let labels = object.metadata.labels.as_ref();
    labels.and_then(|l| l.get(PART_OF)).map(String::as_str) == Some("kflow")
}
