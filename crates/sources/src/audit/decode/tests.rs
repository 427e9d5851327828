//! Real lines of recordings (`fixtures/audit`), and what may go wrong with them.

use super::*;
use proptest::prelude::*;

const LOG: &str = include_str!("../../../../../fixtures/audit/audit.jsonl");

fn feed(text: &str) -> (Vec<Observation>, Vec<Fed>) {
    let mut d = AuditLines::new();
    let mut out = Vec::new();
    let fed = text
        .lines()
        .map(|l| d.line(l.as_bytes(), &mut out))
        .collect();
    (out, fed)
}

fn records() -> Vec<AuditRecord> {
    feed(LOG)
        .0
        .into_iter()
        .filter_map(|o| match o.body {
            Body::Audit(a) => Some(*a),
            _ => None,
        })
        .collect()
}

fn find(verb: &str, resource: &str, user: &str) -> AuditRecord {
    records()
        .into_iter()
        .find(|a| {
            a.verb == verb
                && a.resource == resource
                && a.user.ends_with(user)
                && a.stage != AuditStage::RequestReceived
        })
        .unwrap()
}

#[test]
fn each_line_is_a_record_or_says_why_not() {
    let (out, fed) = feed(LOG);
    assert_eq!(out.len(), 12);
    let not: Vec<&Fed> = fed.iter().filter(|f| **f != Fed::Observed(1)).collect();
    assert_eq!(not, [&Fed::Ignored("health check")]);
    assert!(
        out.iter().all(|o| o.stamp.precision == 1000),
        "microseconds"
    );
}

#[test]
fn a_binding_names_pod_and_node_and_lasts_from_arrival_to_answer() {
    let (out, _) = feed(LOG);
    let stages: Vec<(AuditStage, i64)> = out
        .iter()
        .filter_map(|o| match &o.body {
            Body::Audit(a) if a.resource == "pods/binding" => {
                Some((a.stage, o.stamp.at.since(a.received)))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        stages,
        [
            (AuditStage::RequestReceived, 0),
            (AuditStage::ResponseComplete, 3_329_000)
        ]
    );
    let a = find("create", "pods/binding", "kube-scheduler");
    assert_eq!(a.object.uid, "4ac3c3e9-1ad8-496b-869a-7687fcb13acf");
    assert_eq!(a.fact("node"), Some("node1"));
    assert_eq!(
        (a.code, a.agent.as_str()),
        (201, "kube-scheduler/v1.36.2 scheduler")
    );
    assert_eq!(a.annotation("authorization.k8s.io/decision"), Some("allow"));
}

#[test]
fn a_pod_whose_name_the_server_picks_is_named_from_the_answer() {
    let a = find("create", "pods", "replicaset-controller");
    assert!(a.object.name.starts_with("burst-69c5447696-"));
    assert_eq!(a.object.uid.len(), 36);
    assert_eq!(a.fact("generateName"), Some("burst-69c5447696-"));
    assert_eq!(a.fact("ownerKind"), Some("ReplicaSet"));
    assert_eq!(a.fact("ownerName"), Some("burst-69c5447696"));
    assert_eq!(
        a.agent,
        "kube-controller-manager/v1.36.2 replicaset-controller"
    );
}

#[test]
fn a_status_patch_tells_what_it_changes() {
    let a = find("patch", "pods/status", "node1");
    assert_eq!(
        a.object.uid, "4ac3c3e9-1ad8-496b-869a-7687fcb13acf",
        "from the body"
    );
    assert_eq!(
        a.fact("condition.Initialized"),
        Some("False/ContainersNotInitialized")
    );
    assert_eq!(
        a.fact("condition.PodScheduled"),
        None,
        "only kept, not changed"
    );
    assert_eq!(a.fact("container.web"), Some("waiting/PodInitializing"));
    assert!(a.facts.is_sorted());
}

#[test]
fn the_kubelets_last_delete_has_no_grace_and_a_precondition() {
    let a = find("delete", "pods", "node1");
    assert_eq!(a.fact("gracePeriodSeconds"), Some("0"));
    assert_eq!(
        a.fact("preconditionUid"),
        Some("4ac3c3e9-1ad8-496b-869a-7687fcb13acf")
    );
    assert!(a.fact("deletionTimestamp").is_some());
}

#[test]
fn refusals_and_webhooks_are_told() {
    let refused: Vec<AuditRecord> = records().into_iter().filter(|a| a.code == 403).collect();
    assert!(
        refused[0].message.contains("denied the request"),
        "{}",
        refused[0].message
    );
    let hooked = records()
        .into_iter()
        .find_map(|a| {
            a.annotation("mutation.webhook.admission.k8s.io/round_0_index_0")
                .map(ToOwned::to_owned)
        })
        .unwrap();
    assert!(hooked.contains("hangfail.lab.kflow"));
}

#[test]
fn an_event_names_its_object_and_count() {
    let a = find("patch", "events", "node1");
    assert_eq!(
        a.fact("involvedUid"),
        Some("4ac3c3e9-1ad8-496b-869a-7687fcb13acf")
    );
    assert_eq!(
        (a.fact("reason"), a.fact("count")),
        (Some("Unhealthy"), Some("2"))
    );
}

#[test]
fn commands_bodies_and_credentials_are_left_behind() {
    let exec = records()
        .into_iter()
        .find(|a| a.resource == "pods/exec")
        .unwrap();
    assert_eq!(exec.query, "container=web&stderr=true&stdout=true");
    let secret = find("create", "secrets", "kubernetes-admin");
    assert_eq!(secret.facts, []);
    let all = serde_json::to_string(&feed(LOG).0).unwrap();
    for left in ["last-applied", "X509SHA256", "command", "trap", "JTI="] {
        assert!(LOG.contains(left), "{left}");
        assert!(!all.contains(left), "{left}");
    }
}

#[test]
fn a_secrets_body_is_not_read_at_any_level() {
    let line = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/n/secrets","verb":"create","user":{"username":"u"},"objectRef":{"resource":"secrets","namespace":"n"},"responseStatus":{"code":201},"responseObject":{"kind":"Secret","metadata":{"name":"s","generateName":"hunter2"},"data":{"p":"aHVudGVyMg=="}},"requestReceivedTimestamp":"2026-11-21T00:24:27.522647Z","stageTimestamp":"2026-11-21T00:24:27.525976Z"}"#;
    let (out, _) = feed(line);
    let Body::Audit(a) = &out[0].body else {
        panic!()
    };
    assert!(a.facts.is_empty() && a.object.name.is_empty());
}

#[test]
fn a_bound_token_names_the_pod_that_it_is_for() {
    let line = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/n/serviceaccounts/app/token","verb":"create","user":{"username":"system:node:node1"},"objectRef":{"resource":"serviceaccounts","namespace":"n","name":"app","subresource":"token"},"responseStatus":{"code":201},"requestObject":{"kind":"TokenRequest","spec":{"audiences":null,"expirationSeconds":3607,"boundObjectRef":{"kind":"Pod","name":"web","uid":"u1"}}},"responseObject":{"status":{"token":"eyJ"}},"requestReceivedTimestamp":"2026-11-21T00:24:27.522647Z","stageTimestamp":"2026-11-21T00:24:27.525976Z"}"#;
    let (out, _) = feed(line);
    let Body::Audit(a) = &out[0].body else {
        panic!()
    };
    assert_eq!(
        (a.fact("boundPodUid"), a.fact("boundPodName")),
        (Some("u1"), Some("web"))
    );
    assert!(!serde_json::to_string(&out).unwrap().contains("eyJ"));
}

#[test]
fn a_batch_of_the_webhook_keeps_its_arrival_and_its_good_records() {
    let items: Vec<&str> = LOG.lines().collect();
    let body = format!(
        r#"{{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{{}},"items":[{}]}}"#,
        items.join(",")
    );
    let mut out = Vec::new();
    let seen = Nanos(2_000_000_000_000_000_000);
    assert_eq!(
        decode_batch(body.as_bytes(), seen, &mut out),
        Fed::Observed(12)
    );
    assert!(out.iter().all(|o| o.stamp.seen == seen));
    let odd = body.replacen("\"items\":[", "\"items\":[{\"stage\":1},", 1);
    let mut out = Vec::new();
    assert_eq!(
        decode_batch(odd.as_bytes(), seen, &mut out),
        Fed::Malformed("not an audit record")
    );
    assert_eq!(out.len(), 12);
}

#[test]
fn half_a_line_and_other_json_are_malformed() {
    let line = LOG.lines().next().unwrap();
    for (text, why) in [
        (line.get(..900).unwrap(), "audit record is cut off"),
        ("{}", "not an audit record"),
        (
            r#"{"kind":"Event","apiVersion":"v1"}"#,
            "not an audit record",
        ),
        (
            "2026-11-21T00:24:27Z AUDIT: id=\"x\"",
            "not an audit record",
        ),
        (
            r#"{"apiVersion":"audit.k8s.io/v1","stage":"Nap"}"#,
            "audit record without a known stage",
        ),
        (
            r#"{"apiVersion":"audit.k8s.io/v1","stage":"Panic","objectRef":{"resource":"pods"}}"#,
            "audit record without stageTimestamp",
        ),
    ] {
        assert_eq!(feed(text).1, [Fed::Malformed(why)], "{text}");
    }
}

#[test]
fn agents_and_queries_are_cut_to_what_they_say() {
    assert_eq!(
        agent("kubelet/v1.36.2 (linux/amd64) kubernetes/98b3519"),
        "kubelet/v1.36.2"
    );
    assert_eq!(agent("Go-http-client/2.0"), "Go-http-client/2.0");
    assert_eq!(agent(""), "");
    assert_eq!(
        kept_query(
            "fieldSelector=metadata.name%3Dx&command=rm&command=-rf&watch=true&token=s&limit"
        ),
        "fieldSelector=metadata.name=x&watch=true&limit="
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_and_damaged_records_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        line in 0_usize..13,
        at in 0_usize..3000,
        flip in any::<u8>(),
    ) {
        let mut d = AuditLines::new();
        let mut out = Vec::new();
        d.line(&bytes, &mut out);
        let mut damaged = LOG.lines().nth(line).unwrap_or_default().as_bytes().to_vec();
        if let Some(b) = damaged.get_mut(at) {
            *b ^= flip;
        }
        d.line(&damaged, &mut out);
        decode_batch(&bytes, Nanos(0), &mut out);
    }

    #[test]
    fn any_query_and_agent_can_be_read(s in "\\PC{0,80}") {
        let _ = kept_query(&s);
        let _ = agent(&s);
    }
}

#[test]
fn a_batch_as_an_apiserver_posts_it_says_the_version_once() {
    // Body of one request of a kube-apiserver 1.36.
    let body = include_bytes!("../../../../../fixtures/audit/webhook-batch.json");
    let mut out = Vec::new();
    assert_eq!(decode_batch(body, Nanos(7), &mut out), Fed::Observed(2));
    let stages: Vec<_> = out
        .iter()
        .map(|o| match &o.body {
            Body::Audit(a) => (a.stage, a.verb.as_str(), a.resource.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        stages,
        [
            (AuditStage::RequestReceived, "update", "leases"),
            (AuditStage::ResponseComplete, "update", "leases"),
        ]
    );
}
