use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::{Pace, Watch, run, watches};
use crate::live::silent::answers;
use crate::live::{Board, SourceStatus};
use kflow_model::gap::WatchKind;
use kflow_model::{Body, Observation, Scope, Source};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tonic::codegen::http::Response;

const KUEUE: &str = "/apis/kueue.x-k8s.io";
const VOLCANO: &str = "/apis/scheduling.volcano.sh";
const PLUGINS: &str = "/apis/scheduling.x-k8s.io";

/// A run against an apiserver that answers by a function of the URI and of the number of requests before.
struct Run {
    board: Board,
    from: Receiver<Observation>,
    asked: Arc<Mutex<Vec<String>>>,
    watching: JoinHandle<()>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Run {
    fn new(resource: &str, answer: impl Fn(&str, usize) -> (u16, String) + Send + 'static) -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&asked);
        let client = answers(move |request| {
            let uri = request.uri().to_string();
            let mut all = all.lock().unwrap();
            let (code, body) = answer(&uri, all.len());
            all.push(uri);
            Response::builder().status(code).body(body).unwrap()
        });
        let (board, from) = Board::new(64);
        let ms = Duration::from_millis;
        let pace = Pace {
            backoff: (ms(1), ms(2)),
            forbidden: ms(5),
            ..Pace::default()
        };
        let out = board.out(Source::Kube, resource);
        let watching = tokio::spawn(run(client, watch_of(resource), pace, out));
        Self {
            board,
            from,
            asked,
            watching,
        }
    }
    /// The next observation: begins and ends of lists, failures, and names of objects.
    async fn told(&mut self) -> String {
        let next = tokio::time::timeout(Duration::from_secs(30), self.from.recv());
        match next.await.unwrap().unwrap().body {
            Body::Watch(n) if n.kind == WatchKind::Broken => {
                format!("{:?}: {}", n.failure.unwrap(), n.detail)
            }
            Body::Watch(n) => format!("{:?} {}", n.kind, n.detail),
            Body::Object(o) => o.object.name.to_string(),
            other => panic!("{other:?}"),
        }
    }
    /// Tells what comes up to this, without what a watch says that ends at once.
    async fn told_until(&mut self, last: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let next = self.told().await;
            let ends = next == last;
            if !next.starts_with("Interrupted") && !next.starts_with("Bookmark") {
                all.push(next);
            }
            if ends {
                return all;
            }
        }
    }
    async fn asked(&self, times: usize) -> Vec<String> {
        loop {
            let asked = self.asked.lock().unwrap().clone();
            if asked.len() >= times {
                return asked;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    fn status(&self) -> SourceStatus {
        self.board.statuses().remove(0)
    }
}

fn watch_of(resource: &str) -> Watch {
    let mut all = watches(&Scope::default()).into_iter();
    all.find(|(name, _)| *name == resource).unwrap().1
}

/// What an apiserver says of a group: its preferred version, and the others.
fn group(preferred: &str, others: &[&str]) -> (u16, String) {
    let version = |v: &str| serde_json::json!({"groupVersion": format!("g/{v}"), "version": v});
    let all = std::iter::once(&preferred)
        .chain(others)
        .map(|v| version(v));
    let group = serde_json::json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": "g",
        "versions": all.collect::<Vec<_>>(), "preferredVersion": version(preferred),
    });
    (200, group.to_string())
}

fn list(kind: &str, names: &[&str]) -> (u16, String) {
    let items = names.iter().map(|name| {
        serde_json::json!({"metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "2"}})
    });
    let list = serde_json::json!({
        "kind": format!("{kind}List"), "metadata": {"resourceVersion": "7"}, "items": items.collect::<Vec<_>>(),
    });
    (200, list.to_string())
}

fn not_found() -> (u16, String) {
    (404, String::new())
}

fn empty() -> (u16, String) {
    (200, String::new())
}

const NONE: [&str; 2] = ["ListBegin ", "ListEnd "];

#[tokio::test]
async fn a_cluster_without_an_add_on_has_none_of_its_objects_until_it_is_installed() {
    const INSTALLED: usize = 4;
    let mut run = Run::new("workloads", |uri, before| match uri {
        _ if before < INSTALLED => not_found(),
        KUEUE => group("v1beta1", &[]),
        uri if uri.contains("watch=1") => empty(),
        uri if uri.starts_with("/apis/kueue.x-k8s.io/v1beta1/workloads?") => {
            list("Workload", &["job-a"])
        }
        _ => not_found(),
    });
    // Told once, however often it is asked.
    assert_eq!(run.told_until("ListEnd ").await, NONE);
    let asked = run.asked(2).await;
    assert!(asked.iter().all(|uri| uri == KUEUE), "{asked:?}");
    let status = run.status();
    assert!(status.is_on(), "{status:?}");
    assert!(
        status
            .detail()
            .starts_with("none: kueue.x-k8s.io is not installed"),
        "{status:?}"
    );
    let all = run.told_until("ListEnd 7").await;
    assert_eq!(all, ["ListBegin ", "job-a", "ListEnd 7"]);
    let asked = run.asked(INSTALLED + 3).await;
    assert!(
        asked[INSTALLED + 2].starts_with("/apis/kueue.x-k8s.io/v1beta1/workloads?watch=1"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn an_add_on_is_watched_in_a_version_and_a_group_that_have_the_resource() {
    let mut run = Run::new("workloads", |uri, _| match uri {
        KUEUE => group("v1", &["v1alpha1", "v1beta1"]),
        uri if uri.contains("watch=1") => empty(),
        uri if uri.contains("/v1beta1/workloads?") => list("Workload", &["job-a"]),
        _ => not_found(),
    });
    let all = run.told_until("ListEnd 7").await;
    assert_eq!(all, ["ListBegin ", "job-a", "ListEnd 7"]);
    // A group of that name without the resource.
    let mut run = Run::new("podgroups", |uri, _| match uri {
        VOLCANO => group("v1beta1", &[]),
        PLUGINS => group("v1alpha1", &[]),
        uri if uri.contains("watch=1") => empty(),
        uri if uri.contains("scheduling.x-k8s.io/v1alpha1/podgroups?") => {
            list("PodGroup", &["gang"])
        }
        _ => not_found(),
    });
    let all = run.told_until("ListEnd 7").await;
    assert_eq!(all, ["ListBegin ", "gang", "ListEnd 7"]);
    // No group has it.
    let mut run = Run::new("podgroups", |uri, _| match uri {
        VOLCANO | PLUGINS => group("v1", &[]),
        _ => not_found(),
    });
    assert_eq!(run.told_until("ListEnd ").await, NONE);
    assert!(
        run.status()
            .detail()
            .contains("scheduling.volcano.sh or scheduling.x-k8s.io")
    );
}

#[tokio::test]
async fn an_add_on_that_is_removed_leaves_an_empty_list_and_one_that_is_renewed_is_found_again() {
    for renewed in [false, true] {
        let mut run = Run::new("workloads", move |uri, before| match (uri, before) {
            (KUEUE, 0) => group("v1beta1", &[]),
            (KUEUE, _) if renewed => group("v1beta2", &[]),
            (uri, 1) if uri.contains("/v1beta1/workloads?") => list("Workload", &["job-a"]),
            (uri, _) if uri.contains("watch=1") => not_found(),
            (uri, _) if uri.contains("/v1beta2/workloads?") => list("Workload", &["job-b"]),
            _ => not_found(),
        });
        let all = run.told_until("ListEnd 7").await;
        assert_eq!(all, ["ListBegin ", "job-a", "ListEnd 7"]);
        assert!(
            run.told().await.starts_with("Expired"),
            "renewed: {renewed}"
        );
        if renewed {
            let all = run.told_until("ListEnd 7").await;
            assert_eq!(all, ["ListBegin ", "job-b", "ListEnd 7"]);
        } else {
            assert_eq!(run.told_until("ListEnd ").await, NONE);
            assert!(run.status().is_on());
        }
    }
}

#[tokio::test]
async fn who_may_not_ask_for_an_add_on_is_told_so_until_it_is_known() {
    let mut run = Run::new("nodeclaims", |_, before| match before {
        0 => (403, String::new()),
        1 => (500, String::new()),
        _ => not_found(),
    });
    let needs = "Forbidden: forbidden: needs get on /apis/karpenter.sh";
    assert_eq!(run.told().await, needs);
    assert!(run.told().await.starts_with("Refused: "));
    assert_eq!(run.told_until("ListEnd ").await, NONE);
    let mut run = Run::new("nodeclaims", |uri, _| match uri {
        "/apis/karpenter.sh" => group("v1", &[]),
        _ => (403, String::new()),
    });
    let needs = "Forbidden: forbidden: needs list on nodeclaims in the whole cluster";
    assert_eq!(run.told().await, needs);
    assert!(run.status().is_off());
    // What failed after the add-on was known to be absent is over once that is known again.
    let mut run = Run::new("nodeclaims", |_, before| match before {
        1 => (403, String::new()),
        _ => not_found(),
    });
    assert_eq!(run.told_until("ListEnd ").await, NONE);
    assert!(run.told().await.starts_with("Forbidden"));
    assert_eq!(run.told_until("ListEnd ").await, NONE);
}

#[tokio::test]
async fn what_is_no_group_is_not_believed() {
    let long = format!("v{}", "1".repeat(63));
    for body in [
        "<html>".to_owned(),
        "{}".to_owned(),
        group("", &[]).1,
        group("../../api/v1/secrets", &[]).1,
        group("v1/namespaces", &[]).1,
        group("v1?x=", &["v1"]).1,
        group("1", &[]).1,
        group(&long, &[]).1,
    ] {
        let text = body.clone();
        let mut run = Run::new("workloads", move |_, _| (200, text.clone()));
        let told = run.told().await;
        assert!(
            told.starts_with("NotKubernetes: ")
                && told.ends_with("something that is no group of an API"),
            "{body}: {told}"
        );
        let asked = run.asked(2).await;
        assert!(asked.iter().all(|uri| uri == KUEUE), "{asked:?}");
    }
    // Of versions without an end a few are tried.
    let many: Vec<String> = (2..100).map(|n| format!("v{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let versions = group("v1", &many);
    let mut run = Run::new("workloads", move |uri, _| match uri {
        KUEUE => versions.clone(),
        _ => not_found(),
    });
    assert_eq!(run.told_until("ListEnd ").await, NONE);
    let asked = run.asked(2).await;
    let next = asked.iter().skip(1).position(|uri| uri == KUEUE);
    assert!(
        next.unwrap_or(asked.len() - 1) <= super::VERSIONS_MAX,
        "{asked:?}"
    );
}
