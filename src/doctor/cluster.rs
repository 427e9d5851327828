//! Checks the apiserver and kflow's rights. A `SelfSubjectAccessReview` is a question: the apiserver stores nothing.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::{Body, Client};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use tonic::codegen::Bytes;
use tonic::codegen::http::{Request, StatusCode};

use super::{Check, Health};
use kflow_engine::live::{Config, KubeletLog, connect};
use kflow_model::scope::is_of_cluster;
use kflow_model::units::wait;
use kflow_sources::kube::live::{OBJECTS, Of, escape};
use kflow_sources::live::root;

/// Longest wait for an apiserver or a kubelet.
const PATIENCE: Duration = Duration::from_secs(5);

/// A right that kflow uses: verbs, group, resource, subresource, and its purpose.
type Want = (
    &'static [&'static str],
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Must be the same as in `deploy/rbac.yaml`.
const WANTED: [Want; 23] = {
    const ALL: &[&str] = &["get", "list", "watch"];
    const WATCH: &[&str] = &["list", "watch"];
    const STORAGE: &str = "storage.k8s.io";
    const GANGS: &str = "pods that are scheduled together";
    [
        (ALL, "", "pods", "", "pods"),
        (WATCH, "", "events", "", "events"),
        (WATCH, "", "nodes", "", "nodes"),
        (WATCH, "apps", "deployments", "", "owners of pods"),
        (WATCH, "apps", "replicasets", "", "owners of pods"),
        (WATCH, "apps", "daemonsets", "", "owners of pods"),
        (WATCH, "apps", "statefulsets", "", "owners of pods"),
        (WATCH, "batch", "jobs", "", "owners of pods"),
        (WATCH, "batch", "cronjobs", "", "owners of pods"),
        (WATCH, "", "persistentvolumeclaims", "", "claims"),
        (WATCH, "", "persistentvolumes", "", "volumes"),
        (WATCH, STORAGE, "storageclasses", "", "provisioners"),
        (WATCH, STORAGE, "volumeattachments", "", "nodes of volumes"),
        (WATCH, "", "namespaces", "", "namespaces that are deleted"),
        (
            WATCH,
            "policy",
            "poddisruptionbudgets",
            "",
            "budgets that hold a drain",
        ),
        (
            WATCH,
            "autoscaling",
            "horizontalpodautoscalers",
            "",
            "autoscalers of owners",
        ),
        (WATCH, "jobset.x-k8s.io", "jobsets", "", "JobSets"),
        (WATCH, "kueue.x-k8s.io", "workloads", "", "Kueue's queues"),
        (
            WATCH,
            "karpenter.sh",
            "nodeclaims",
            "",
            "Karpenter's new nodes",
        ),
        (WATCH, "scheduling.volcano.sh", "podgroups", "", GANGS),
        (WATCH, "scheduling.x-k8s.io", "podgroups", "", GANGS),
        (
            WATCH,
            "coordination.k8s.io",
            "leases",
            "",
            "when kubelets, scheduler and controllers were last heard",
        ),
        (
            &["get"],
            "",
            "nodes",
            "proxy",
            "the kubelet's log, pods, health and metrics by way of the apiserver",
        ),
    ]
};

/// `containerRuntimeEndpoint` of the running kubelet on the scope's node, by way of the apiserver. `None` without a
/// node in the scope, without the right (`get` on `nodes/proxy`), or when the kubelet's configuration has none.
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
    let (_, body) = answer(&client, request).await.ok()?;
    let configz: Configz = serde_json::from_slice(&body).ok()?;
    Some(configz.kubeletconfig.container_runtime_endpoint)
}

/// Status and body of a response that is complete within [`PATIENCE`]: a server may stall after the header.
async fn answer(client: &Client, request: Request<Body>) -> Result<(StatusCode, Bytes), String> {
    let whole = async {
        let response = client.send(request).await.map_err(|e| root(&e))?;
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), 1 << 20);
        let body = body.collect().await;
        let body = body.map_err(|e| format!("its answer broke off: {}", root(&*e)))?;
        Ok((status, body.to_bytes()))
    };
    timeout(PATIENCE, whole)
        .await
        .map_err(|_| format!("no answer in {}", wait(PATIENCE)))?
}

/// Checks the connection to the cluster, and each right.
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
                    .needed()
                    .todo("kflow doctor --kubeconfig FILE, or set KUBECONFIG"),
            ];
        }
    };
    let user = who(&client).await.unwrap_or_else(|| "USER".to_owned());
    let mut all = Vec::new();
    for (verbs, group, resource, sub, gives) in WANTED {
        // A kubelet that is queried directly needs no right at the apiserver.
        if sub == "proxy" && config.kubelet.is_some() && config.kubelet_log != KubeletLog::Remote {
            continue;
        }
        if is_of_addon(group) {
            match has(&client, group).await {
                Ok(Has::Yes) => {}
                Ok(Has::No) => continue,
                Ok(Has::Refused) => {
                    let found = format!("{resource}: may not get /apis/{group} ({gives})");
                    let check = Check::new("rights", Health::Off, found);
                    all.push(check.todo(format!(
                        "kubectl create clusterrolebinding kflow-discovery --clusterrole=system:discovery --user={user}"
                    )));
                    continue;
                }
                Err(e) => {
                    let found = format!("{server}: {e}");
                    return vec![Check::new("apiserver", Health::Off, found).needed()];
                }
            }
        }
        let mut missing = Vec::new();
        // A review that names a namespace asks for the rights in it, which do not reach what has none.
        let namespace = config.scope.as_ref().and_then(|s| s.namespace.as_deref());
        let namespace = namespace.filter(|_| !is_of_cluster(resource));
        for verb in verbs {
            match may(&client, verb, group, resource, sub, namespace).await {
                Ok(true) => {}
                Ok(false) => missing.push(*verb),
                Err(e) => {
                    let found = format!("{server}: {e}");
                    return vec![Check::new("apiserver", Health::Off, found).needed()];
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
            let check = Check::new(
                "rights",
                Health::Off,
                format!("{name}: may not {} ({gives})", missing.join(", ")),
            );
            let check = check.todo(grant(verbs, group, &name, &user));
            if resource == "pods" {
                check.needed()
            } else {
                check
            }
        });
    }
    all.insert(
        0,
        Check::new("apiserver", Health::Works, format!("{server} as {user}")),
    );
    all
}

/// True for a group of an add-on, which a cluster may not have.
fn is_of_addon(group: &str) -> bool {
    let of = |o: &Of| matches!(o, Of::AddOn(groups) if groups.contains(&group));
    OBJECTS.iter().any(|o| of(&o.of))
}

/// Whether a cluster has a group.
enum Has {
    Yes,
    No,
    /// The user may not ask.
    Refused,
}

async fn has(client: &Client, group: &str) -> Result<Has, String> {
    let request = Request::get(format!("/apis/{group}"))
        .body(Body::empty())
        .map_err(|e| e.to_string())?;
    match answer(client, request).await?.0 {
        StatusCode::OK => Ok(Has::Yes),
        StatusCode::NOT_FOUND => Ok(Has::No),
        StatusCode::FORBIDDEN => Ok(Has::Refused),
        status => Err(format!("it answers {status}")),
    }
}

/// The commands that grant a user a right.
fn grant(verbs: &[&str], group: &str, resource: &str, user: &str) -> String {
    let of = if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    };
    // Several add-ons may have a resource of one name.
    let role = if is_of_addon(group) { &of } else { resource };
    let role = format!("kflow-{}", role.replace('/', "-"));
    format!(
        "kubectl create clusterrole {role} --verb={} --resource={of}\nkubectl create clusterrolebinding {role} --clusterrole={role} --user={user}",
        verbs.join(",")
    )
}

/// The user name that the apiserver sees; `None` before Kubernetes 1.28, or on failure.
async fn who(client: &Client) -> Option<String> {
    #[derive(Deserialize)]
    struct Review {
        status: Status,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        user_info: User,
    }
    #[derive(Deserialize)]
    struct User {
        username: String,
    }
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
    });
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(Body::from(review.to_string().into_bytes()))
        .ok()?;
    let (_, body) = answer(client, request).await.ok()?;
    let review: Review = serde_json::from_slice(&body).ok()?;
    Some(review.status.user_info.username)
}

/// Checks the kubelet's own endpoints.
pub(super) async fn kubelet(config: &Config) -> Check {
    const WHAT: &str = "kubelet itself";
    let Some(address) = &config.kubelet else {
        let node = config.scope.as_ref().and_then(|s| s.node.as_ref());
        return if node.is_some() {
            Check::new(
                WHAT,
                Health::Works,
                "asked by way of the apiserver, see nodes/proxy",
            )
        } else {
            Check::new(WHAT, Health::Off, "no node is named")
                .todo("kflow tui --node NODE, or --kubelet https://HOST:10250")
        };
    };
    let asked = async {
        let client = kflow_engine::live::kubelet(config).await?;
        let request = Request::get("/healthz")
            .body(Body::empty())
            .map_err(|e| e.to_string())?;
        let response = timeout(PATIENCE, client.send(request))
            .await
            .map_err(|_| format!("no answer in {}", wait(PATIENCE)))?
            .map_err(|e| root(&e))?;
        Ok::<_, String>(response.status())
    };
    match asked.await {
        Ok(status) if status.is_success() => Check::new(WHAT, Health::Works, address.as_str()),
        Ok(status) => Check::new(WHAT, Health::Off, format!("{address} answers {status}")).todo(
            "kubectl create clusterrole kflow-kubelet-read --verb=get --resource=nodes/metrics,nodes/healthz,nodes/pods,nodes/configz, and bind it (deploy/rbac.yaml)",
        ),
        Err(e) => Check::new(WHAT, Health::Off, format!("{address}: {e}")).todo(
            "--kubelet https://HOST:10250 with the kubelet's own address, or http://HOST:10255 where readOnlyPort is on",
        ),
    }
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
    let (status, body) = answer(client, request).await?;
    let review: Review = serde_json::from_slice(&body).map_err(|_| {
        let strange = if status.is_success() {
            ", but not as a Kubernetes API does: a proxy or a login page may stand before it"
        } else {
            ""
        };
        format!("it answers {status}{strange}")
    })?;
    match review.status {
        Some(a) => Ok(a.allowed),
        None => Err(review
            .message
            .unwrap_or_else(|| format!("it answers {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The group and the resource of each right that `deploy/rbac.yaml` gives the role `kflow`.
    fn granted() -> BTreeSet<(String, String)> {
        let yaml = include_str!("../../deploy/rbac.yaml");
        let role = yaml.split("---\n").find(|part| {
            part.contains("kind: ClusterRole\n") && part.contains("\n  name: kflow\n")
        });
        let list = |line: &str| -> Vec<String> {
            let (_, list) = line.split_once('[').unwrap();
            let list = list.trim_end_matches(']').split(',');
            list.map(|x| x.trim().trim_matches('"').to_owned())
                .collect()
        };
        let mut all = BTreeSet::new();
        let mut groups = Vec::new();
        for line in role.unwrap().lines().map(str::trim) {
            if line.starts_with("- apiGroups:") {
                groups = list(line);
            } else if line.starts_with("resources:") {
                let each = groups.iter().flat_map(|g| {
                    let named = list(line).into_iter();
                    named.map(|r| (g.clone(), r))
                });
                all.extend(each);
            } else if line.starts_with("verbs:") {
                assert_eq!(line, "verbs: [get, list, watch]");
            }
        }
        all
    }

    #[test]
    fn the_rights_are_those_of_the_role_and_of_the_watches() {
        let own = WANTED.iter().filter(|(.., sub, _)| sub.is_empty());
        let wanted: BTreeSet<_> = own.map(|(_, g, r, ..)| (*g, *r)).collect();
        let role = granted();
        let given: BTreeSet<_> = role.iter().map(|(g, r)| (g.as_str(), r.as_str())).collect();
        assert_eq!(wanted, given);
        for o in &OBJECTS {
            let groups = match o.of {
                Of::Kubernetes("api/v1") => vec![""],
                Of::Kubernetes(api) => vec![api.split('/').nth(1).unwrap()],
                Of::AddOn(groups) => groups.to_vec(),
            };
            for group in groups {
                assert!(wanted.contains(&(group, o.resource)), "{}", o.resource);
            }
        }
        let objects = OBJECTS.iter().map(|o| o.resource);
        let watched: BTreeSet<_> = objects
            .chain(["pods", "events", "nodes", "leases"])
            .collect();
        assert_eq!(
            wanted.iter().map(|(_, r)| *r).collect::<BTreeSet<_>>(),
            watched
        );
    }
}
