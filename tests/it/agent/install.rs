//! Installing agents into a cluster and removing them: against an apiserver that stores objects, and a DaemonSet
//! controller that makes one node's pod.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use kflow_agent::install::{Did, Remains, install, only_files, rolled_out, uninstall};
use kflow_agent::manifest::Wanted;
use kflow_agent::nodes::{Agent, nodes};
use prost::bytes::Bytes;
use serde_json::{Value, json};
use tonic::codegen::http::{Method, Request, Response};

use super::block_on;
use crate::program::kflow;

/// Objects by their path, and the changes that were made, in order.
#[derive(Default)]
struct Cluster {
    objects: BTreeMap<String, Value>,
    did: Vec<String>,
    version: u64,
    /// The node's pod never gets ready.
    broken: bool,
    /// No controller looks at the DaemonSet.
    unseen: bool,
    /// Nodes beside the one that has a pod.
    more: u64,
}

/// Counts the changes of a DaemonSet's pod template (`DeprecatedTemplateGeneration`, staging/src/k8s.io/api/apps/v1/types.go).
const TEMPLATE: &str = "deprecated.daemonset.template.generation";
const NAMESPACE: &str = "/api/v1/namespaces/kflow";
const SET: &str = "/apis/apps/v1/namespaces/kflow/daemonsets/kflow-agent";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kflow-agent";
const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kflow-agent";

type Shared = Arc<Mutex<Cluster>>;

/// A client whose requests this cluster answers.
fn client(cluster: &Shared) -> kube::Client {
    let cluster = Arc::clone(cluster);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let cluster = Arc::clone(&cluster);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let path = head.uri.path().to_owned();
            let query = head.uri.query().unwrap_or_default();
            let (code, value) = cluster
                .lock()
                .unwrap()
                .answer(&head.method, &path, query, &body);
            let body = Full::new(Bytes::from(value.to_string()));
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

fn status(code: u16, message: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": if code == 404 { "NotFound" } else { "" }, "code": code}),
    )
}

impl Cluster {
    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &[u8]) -> (u16, Value) {
        if path.ends_with("/pods") {
            return (
                200,
                json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods()}),
            );
        }
        if path == "/api/v1/nodes" {
            // In two pages, as the apiserver answers where there are more than asked for.
            assert!(query.contains("limit="), "{query}");
            let (name, next) = if query.contains("continue=next") {
                ("node2", "")
            } else {
                ("node1", "next")
            };
            return (
                200,
                json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"continue": next},
                    "items": [{"metadata": {"name": name}}]}),
            );
        }
        match *method {
            Method::GET => match self.objects.get(path) {
                Some(o) => (200, o.clone()),
                None => status(404, "not found"),
            },
            Method::PATCH => {
                assert!(query.contains("fieldManager=kflow"), "{query}");
                self.put(path, serde_json::from_slice(body).unwrap())
            }
            Method::PUT => self.put(path, serde_json::from_slice(body).unwrap()),
            Method::DELETE => {
                self.did.push(format!("delete {path}"));
                match self.objects.remove(path) {
                    Some(o) => (200, o),
                    None => status(404, "not found"),
                }
            }
            _ => status(405, "no"),
        }
    }

    /// Stores an object as the apiserver does: an unchanged object keeps its resourceVersion; a changed spec
    /// has a new generation.
    fn put(&mut self, path: &str, mut new: Value) -> (u16, Value) {
        let old = self.objects.get(path).cloned();
        let meta = |o: &Option<Value>, key: &str| {
            let value = o.as_ref().and_then(|o| o["metadata"][key].as_u64());
            value.unwrap_or(0)
        };
        let mut generation = meta(&old, "generation");
        let bare = |mut o: Value| {
            for key in ["resourceVersion", "generation"] {
                o["metadata"].as_object_mut().unwrap().remove(key);
            }
            o.as_object_mut().unwrap().remove("status");
            if let Some(all) = o["metadata"].get_mut("annotations") {
                all.as_object_mut().unwrap().remove(TEMPLATE);
                if all == &json!({}) {
                    o["metadata"].as_object_mut().unwrap().remove("annotations");
                }
            }
            o
        };
        if old.clone().map(bare) == Some(bare(new.clone())) {
            return (200, old.unwrap());
        }
        if old.as_ref().is_none_or(|o| o["spec"] != new["spec"]) {
            generation += 1;
        }
        self.version += 1;
        new["metadata"]["resourceVersion"] = json!(self.version.to_string());
        new["metadata"]["generation"] = json!(generation);
        if new["kind"] == "DaemonSet" {
            // As the registry does (pkg/registry/apps/daemonset/strategy.go).
            let template = |o: &Value| o["spec"]["template"].clone();
            let same = old.as_ref().is_some_and(|o| template(o) == template(&new));
            let was = old.as_ref().and_then(|o| {
                o["metadata"]["annotations"][TEMPLATE]
                    .as_str()?
                    .parse::<u64>()
                    .ok()
            });
            let now = was.unwrap_or(0) + u64::from(!same);
            new["metadata"]["annotations"][TEMPLATE] = json!(now.to_string());
            let seen = if self.unseen { 0 } else { generation };
            new["status"] =
                json!({"observedGeneration": seen, "desiredNumberScheduled": 1 + self.more});
        }
        self.did.push(format!("put {path}"));
        self.objects.insert(path.to_owned(), new.clone());
        (200, new)
    }

    fn pods(&self) -> Vec<Value> {
        let set = self.objects.get(SET);
        set.iter()
            .map(|set| {
                let ready = if self.broken { "False" } else { "True" };
                let waits = json!([{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]);
                json!({
                    "metadata": {"name": "kflow-agent-x", "labels": {
                        "app.kubernetes.io/part-of": "kflow",
                        "pod-template-generation": set["metadata"]["annotations"][TEMPLATE],
                    }},
                    "spec": {"nodeName": "node1"},
                    "status": {
                        "phase": "Pending",
                        "conditions": [{"type": "Ready", "status": ready}],
                        "containerStatuses": if self.broken { waits } else { json!([]) },
                    },
                })
            })
            .collect()
    }
}

fn wanted(image: &str) -> Wanted {
    Wanted {
        namespace: "kflow".to_owned(),
        image: image.to_owned(),
        ..Wanted::default()
    }
}

/// What `install` reports of each object, as text; or the text of its error.
async fn installed(cluster: &Shared, image: &str, only_there: bool) -> Result<Vec<String>, String> {
    let mut told = Vec::new();
    let mut tell = |what: &str, did: &Did| told.push(format!("{} {what}", did.name()));
    install(&client(cluster), &wanted(image), only_there, &mut tell)
        .await
        .map_err(|e| e.to_string())?;
    Ok(told)
}

async fn uninstalled(cluster: &Shared) -> (Vec<String>, Remains) {
    let mut told = Vec::new();
    let mut tell = |what: &str, did: &Did| told.push(format!("{} {what}", did.name()));
    let remains = uninstall(&client(cluster), "kflow", Duration::ZERO, &mut tell).await;
    (told, remains.unwrap())
}

fn did(word: &str, told: &[String]) -> usize {
    told.iter().filter(|t| t.starts_with(word)).count()
}

#[test]
fn installing_twice_changes_nothing_and_another_image_only_the_daemon_set() {
    block_on(async {
        let cluster = Shared::default();
        let first = installed(&cluster, "kflow:1", false).await.unwrap();
        assert_eq!(did("created", &first), 6, "{first:?}");
        let again = installed(&cluster, "kflow:1", false).await.unwrap();
        assert_eq!(did("unchanged", &again), 6, "{again:?}");
        let other = installed(&cluster, "kflow:2", true).await.unwrap();
        assert_eq!(did("unchanged", &other), 5, "{other:?}");
        assert!(other.contains(&"changed DaemonSet kflow/kflow-agent".to_owned()));
        let client = client(&cluster);
        let look = || rolled_out(&client, "kflow", Duration::ZERO, |_| {});
        let state = look().await.unwrap();
        assert!(state.is_over() && state.ready == 1, "{state:?}");
        cluster.lock().unwrap().broken = true;
        let waiting = look().await.unwrap().waiting;
        let why = "ImagePullBackOff: no such image";
        assert_eq!(waiting, [("node1".to_owned(), why.to_owned())]);
    });
}

#[test]
fn what_is_not_kflows_is_neither_changed_nor_removed() {
    block_on(async {
        let cluster = Shared::default();
        let none = installed(&cluster, "kflow:1", true).await.unwrap_err();
        assert!(none.contains("kflow agent install"), "{none}");
        let put = |path: &str, value: Value| {
            let mut cluster = cluster.lock().unwrap();
            cluster.objects.insert(path.to_owned(), value);
        };
        put(ROLE, json!({"metadata": {"name": "kflow-agent"}}));
        let theirs = installed(&cluster, "kflow:1", false).await.unwrap_err();
        assert!(
            theirs.contains("ClusterRole kflow-agent exists and is not kflow's"),
            "{theirs}"
        );
        cluster.lock().unwrap().objects.clear();
        let labels = json!({"app.kubernetes.io/part-of": "kflow"});
        put(
            BINDING,
            json!({"metadata": {"name": "kflow-agent", "labels": labels}, "subjects": [{"namespace": "tools"}]}),
        );
        let elsewhere = installed(&cluster, "kflow:1", false).await.unwrap_err();
        assert!(elsewhere.contains("--agent-namespace tools"), "{elsewhere}");
        assert_eq!(cluster.lock().unwrap().did, [""; 0]);

        cluster.lock().unwrap().objects.clear();
        put(
            NAMESPACE,
            json!({"metadata": {"name": "kflow", "resourceVersion": "1"}}),
        );
        let told = installed(&cluster, "kflow:1", false).await.unwrap();
        assert_eq!(told[0], "left Namespace kflow");
        let (told, remains) = uninstalled(&cluster).await;
        assert!(
            told.contains(&"left Namespace kflow".to_owned()),
            "{told:?}"
        );
        assert_eq!(remains, Remains::default());
        let cluster = cluster.lock().unwrap();
        assert_eq!(cluster.objects.keys().collect::<Vec<_>>(), [NAMESPACE]);
    });
}

#[test]
fn a_change_of_the_update_strategy_alone_replaces_no_pod() {
    block_on(async {
        let cluster = Shared::default();
        installed(&cluster, "kflow:1", false).await.unwrap();
        let mut set = cluster.lock().unwrap().objects[SET].clone();
        set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!("50%");
        cluster.lock().unwrap().put(SET, set);
        let client = client(&cluster);
        let state = rolled_out(&client, "kflow", Duration::ZERO, |_| {}).await;
        let state = state.unwrap();
        assert!(state.is_over() && state.ready == 1, "{state:?}");
    });
}

#[test]
fn agents_whose_files_were_taken_away_are_installed_anew_and_not_upgraded() {
    block_on(async {
        let cluster = Shared::default();
        let tell = &mut |_: &str, _: &Did| {};
        installed(&cluster, "kflow:1", false).await.unwrap();
        only_files(&client(&cluster), "kflow", Duration::ZERO, tell)
            .await
            .unwrap();
        cluster.lock().unwrap().did.clear();
        let refused = installed(&cluster, "kflow:2", true).await.unwrap_err();
        assert!(refused.contains("kflow agent install"), "{refused}");
        assert_eq!(cluster.lock().unwrap().did, [""; 0]);
        installed(&cluster, "kflow:2", false).await.unwrap();
        // An init container that is applied over stays, and would clean at each start.
        let did = cluster.lock().unwrap().did.clone();
        assert_eq!(did, [format!("delete {SET}"), format!("put {SET}")]);
    });
}

#[test]
fn a_namespace_of_another_chart_is_no_release_of_kflow() {
    block_on(async {
        let cluster = Shared::default();
        let annotations = json!({"meta.helm.sh/release-name": "tools", "meta.helm.sh/release-namespace": "kflow"});
        let namespace = json!({"metadata": {"name": "kflow", "annotations": annotations}});
        let put = |cluster: &Shared| {
            let mut cluster = cluster.lock().unwrap();
            cluster
                .objects
                .insert(NAMESPACE.to_owned(), namespace.clone());
        };
        put(&cluster);
        let told = installed(&cluster, "kflow:1", false).await.unwrap();
        assert_eq!(did("created", &told), 5, "{told:?}");
    });
}

#[test]
fn files_are_left_where_no_pod_came_or_nobody_replaced_the_agents() {
    block_on(async {
        for (unseen, more, says) in [(true, 0, "every node"), (false, 2, "2 more nodes")] {
            let cluster = Shared::default();
            installed(&cluster, "kflow:1", false).await.unwrap();
            cluster.lock().unwrap().unseen = unseen;
            cluster.lock().unwrap().more = more;
            let (told, remains) = uninstalled(&cluster).await;
            assert!(told[0].starts_with("left files of"), "{told:?}");
            assert_eq!(remains.nodes.len(), 1, "{remains:?}");
            assert_eq!(remains.nodes[0].0, says);
        }
    });
}

#[test]
fn uninstalling_cleans_the_nodes_first_and_leaves_nothing() {
    block_on(async {
        let cluster = Shared::default();
        installed(&cluster, "kflow:1", false).await.unwrap();
        cluster.lock().unwrap().did.clear();
        let (told, remains) = uninstalled(&cluster).await;
        assert_eq!(remains, Remains::default());
        assert_eq!(told[0], "removed files of 1 of 1 nodes");
        assert_eq!(did("removed", &told), 7, "{told:?}");
        let did = std::mem::take(&mut cluster.lock().unwrap().did);
        assert_eq!(did[..2], [format!("put {SET}"), format!("delete {SET}")]);
        assert_eq!(did.last(), Some(&format!("delete {NAMESPACE}")));
        assert!(cluster.lock().unwrap().objects.is_empty());
        let (told, _) = uninstalled(&cluster).await;
        assert_eq!(self::did("not there", &told), 6, "{told:?}");
    });
}

#[test]
fn what_helm_made_is_helms_to_change_but_its_nodes_can_be_cleaned() {
    block_on(async {
        let cluster = Shared::default();
        let full = Wanted {
            pull_secret: Some("pull".to_owned()),
            node_selector: BTreeMap::from([("pool".to_owned(), "blue".to_owned())]),
            args: vec!["--no-api".to_owned()],
            ..wanted("kflow:1")
        };
        install(&client(&cluster), &full, false, &mut |_, _| {})
            .await
            .unwrap();
        // An upgrade changes only what its arguments give: here the image.
        installed(&cluster, "kflow:2", true).await.unwrap();
        let pod = |cluster: &Shared| {
            let cluster = cluster.lock().unwrap();
            cluster.objects[SET]["spec"]["template"]["spec"].clone()
        };
        let upgraded = pod(&cluster);
        assert_eq!(upgraded["containers"][0]["image"], "kflow:2");
        assert_eq!(upgraded["containers"][0]["command"][3], "--no-api");
        assert_eq!(upgraded["nodeSelector"]["pool"], "blue");

        for o in cluster.lock().unwrap().objects.values_mut() {
            o["metadata"]["annotations"] = json!({
                "meta.helm.sh/release-name": "tracer",
                "meta.helm.sh/release-namespace": "kflow",
            });
        }
        cluster.lock().unwrap().did.clear();
        for only_there in [false, true] {
            let refused = installed(&cluster, "kflow:3", only_there).await;
            let why = refused.unwrap_err();
            assert!(why.contains("helm upgrade tracer -n kflow"), "{why}");
        }
        let tell = &mut |_: &str, _: &Did| {};
        let refused = uninstall(&client(&cluster), "kflow", Duration::ZERO, tell).await;
        let why = refused.unwrap_err().to_string();
        assert!(why.contains("helm uninstall tracer -n kflow"), "{why}");
        assert_eq!(cluster.lock().unwrap().did, [""; 0]);

        let remains = only_files(&client(&cluster), "kflow", Duration::ZERO, tell).await;
        assert_eq!(remains.unwrap(), Remains::default());
        assert_eq!(cluster.lock().unwrap().did, [format!("put {SET}")]);
        let cleaning = pod(&cluster);
        assert_eq!(cleaning["initContainers"][0]["image"], "kflow:2");
        assert_eq!(cleaning["nodeSelector"], upgraded["nodeSelector"]);
        assert_eq!(cleaning["imagePullSecrets"][0]["name"], "pull");
        cluster.lock().unwrap().objects.clear();
        let remains = only_files(&client(&cluster), "kflow", Duration::ZERO, tell).await;
        assert_eq!(remains.unwrap(), Remains::default());
    });
}

#[test]
fn a_node_that_does_not_clean_up_is_named_and_the_objects_go_all_the_same() {
    block_on(async {
        let cluster = Shared::default();
        installed(&cluster, "kflow:1", false).await.unwrap();
        cluster.lock().unwrap().broken = true;
        let (told, remains) = uninstalled(&cluster).await;
        assert_eq!(told[0], "left files of 0 of 1 nodes");
        assert_eq!(remains.nodes[0].0, "node1");
        assert!(cluster.lock().unwrap().objects.is_empty());
    });
}

#[test]
fn each_node_is_told_with_its_agent_or_without() {
    block_on(async {
        let cluster = Shared::default();
        installed(&cluster, "kflow:1", false).await.unwrap();
        cluster.lock().unwrap().broken = true;
        let found = nodes(&client(&cluster), "kflow", None, Path::new("/no/such"))
            .await
            .unwrap();
        assert!(found.unlisted.is_none());
        let all = found.all;
        let names: Vec<_> = all.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names, ["node1", "node2"]);
        let Agent::Silent { pod, why } = &all[0].agent else {
            panic!("{all:?}");
        };
        assert_eq!(
            (pod.as_str(), why.as_str()),
            ("kflow-agent-x", "ImagePullBackOff: no such image")
        );
        assert!(matches!(all[1].agent, Agent::None));
    });
}

#[test]
fn a_dry_run_prints_what_is_applied_and_asks_no_cluster() {
    let args = [
        "agent",
        "install",
        "--image",
        "kflow:1",
        "--dry-run",
        "--kubeconfig",
        "/no/such",
    ];
    let said = kflow(args);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(
        said.out,
        kflow_agent::manifest::yaml(&wanted("kflow:1")).unwrap()
    );
    let all = [
        &args[..],
        &[
            "--node-selector",
            "example.com/pool=blue",
            "--env-secret",
            "store",
        ],
        &["--pull-secret", "pull", "--", "--store", "file:///s"],
    ];
    let said = kflow(all.concat());
    let mut full = wanted("kflow:1");
    full.node_selector
        .insert("example.com/pool".to_owned(), "blue".to_owned());
    full.env_secret = Some("store".to_owned());
    full.pull_secret = Some("pull".to_owned());
    full.args = vec!["--store".to_owned(), "file:///s".to_owned()];
    assert_eq!(said.out, kflow_agent::manifest::yaml(&full).unwrap());
    let wrong = kflow([&args[..], &["--", "--stor", "x"]].concat());
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(2), ""));
    assert!(wrong.err.contains("'--stor'"), "{}", wrong.err);
    let not = kflow([
        "agent",
        "install",
        "--image",
        "kflow:1",
        "--kubeconfig",
        "/no/such",
    ]);
    assert_eq!(not.code, Some(2));
    assert!(not.err.contains("/no/such"), "{}", not.err);
}
