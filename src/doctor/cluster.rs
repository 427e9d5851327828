//! What the apiserver would let kflow do. A `SelfSubjectAccessReview` is an answer, not an object: nothing is stored.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::{Body, Client};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use tonic::codegen::http::Request;

use super::{Check, Health};
use crate::engine::live::{Config, connect};
use crate::source::kube::live::{chain, escape};

/// How long an apiserver may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What kflow asks for: verbs, group, resource, subresource, and what it gives.
const WANTED: [(&[&str], &str, &str, &str, &str); 6] = [
    (&["list", "watch"], "", "pods", "", "pods"),
    (&["list", "watch"], "", "events", "", "events"),
    (&["list", "watch"], "", "nodes", "", "nodes"),
    (
        &["list", "watch"],
        "apps",
        "replicasets",
        "",
        "owners of pods",
    ),
    (
        &["list", "watch"],
        "",
        "persistentvolumeclaims",
        "",
        "claims",
    ),
    (
        &["get"],
        "",
        "nodes",
        "proxy",
        "the kubelet's log and endpoints from afar",
    ),
];

/// `containerRuntimeEndpoint` of the running kubelet of the scope's node, by way of the apiserver. `None` when there is
/// no node in the scope, no right (`get` on `nodes/proxy`), or the kubelet has none in its configuration.
pub(super) async fn live_endpoint(config: &Config) -> Option<String> {
    #[derive(Deserialize)]
    struct Configz {
        kubeletconfig: Endpoint,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Endpoint {
        #[serde(default)]
        container_runtime_endpoint: String,
    }
    let node = config.scope.as_ref()?.node.as_deref()?;
    let (client, _) = connect(config).await.ok()?;
    let path = format!("/api/v1/nodes/{}/proxy/configz", escape(node));
    let request = Request::get(path).body(Body::empty()).ok()?;
    let body = timeout(PATIENCE, async {
        let response = client.send(request).await.ok()?;
        let body = http_body_util::Limited::new(response.into_body(), 1 << 20);
        Some(body.collect().await.ok()?.to_bytes())
    })
    .await
    .ok()??;
    let configz: Configz = serde_json::from_slice(&body).ok()?;
    Some(configz.kubeletconfig.container_runtime_endpoint)
}

/// One check for reaching the cluster, and one for each right.
pub(super) async fn rights(config: &Config) -> Vec<Check> {
    if config.scope.is_none() {
        return vec![Check::new(
            "apiserver",
            Health::Off,
            "switched off by --no-api",
        )];
    }
    let (client, server) = match connect(config).await {
        Ok(c) => c,
        Err(e) => {
            return vec![
                Check::new("apiserver", Health::Off, e)
                    .todo("kflow doctor --kubeconfig FILE, or set KUBECONFIG"),
            ];
        }
    };
    let mut all = Vec::new();
    for (verbs, group, resource, sub, gives) in WANTED {
        let mut missing = Vec::new();
        for verb in verbs {
            let namespace = config.scope.as_ref().and_then(|s| s.namespace.as_deref());
            match may(&client, verb, group, resource, sub, namespace).await {
                Ok(true) => {}
                Ok(false) => missing.push(*verb),
                Err(e) => {
                    all.push(Check::new(
                        "apiserver",
                        Health::Off,
                        format!("{server}: {e}"),
                    ));
                    return all;
                }
            }
        }
        let name = if sub.is_empty() {
            resource.to_owned()
        } else {
            format!("{resource}/{sub}")
        };
        all.push(if missing.is_empty() {
            Check::new("rights", Health::Works, format!("{name}: {gives}"))
        } else {
            let verbs = missing.join(", ");
            Check::new("rights", Health::Off, format!("{name}: may not {verbs} ({gives})")).todo(
                format!(
                    "kubectl create clusterrole kflow-{resource} --verb={} --resource={name}, and bind it; or kubectl apply -f deploy/rbac.yaml",
                    missing.join(",")
                ),
            )
        });
    }
    all.insert(0, Check::new("apiserver", Health::Works, server));
    all
}

async fn may(
    client: &Client,
    verb: &str,
    group: &str,
    resource: &str,
    sub: &str,
    namespace: Option<&str>,
) -> Result<bool, String> {
    #[derive(Deserialize)]
    struct Review {
        status: Option<Answer>,
        message: Option<String>,
    }
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        allowed: bool,
    }
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": sub,
            "namespace": namespace.unwrap_or_default(),
        }},
    });
    let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header("content-type", "application/json")
        .body(Body::from(review.to_string().into_bytes()))
        .map_err(|e| e.to_string())?;
    let response = timeout(PATIENCE, client.send(request))
        .await
        .map_err(|_| format!("no answer in {} s", PATIENCE.as_secs()))?
        .map_err(|e| chain(&e))?;
    let status = response.status();
    let body = http_body_util::Limited::new(response.into_body(), 1 << 20)
        .collect()
        .await
        .map_err(|e| e.to_string())?
        .to_bytes();
    let review: Review =
        serde_json::from_slice(&body).map_err(|_| format!("it answers {status}"))?;
    match review.status {
        Some(a) => Ok(a.allowed),
        None => Err(review
            .message
            .unwrap_or_else(|| format!("it answers {status}"))),
    }
}
