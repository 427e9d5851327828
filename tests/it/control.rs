//! The control plane in commands and the world: the kubelet's passes, requests, owners; and input that no component
//! should send.

use std::path::Path;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::flow::Map;
use kflow_model::span::{SpanKind, SpanRecord};
use kflow_model::stamp::{MILLI, SECOND};
use kflow_model::{Body, Nanos, Observation, Source, SpanId, Stamp, TraceId};
use kflow_sources::LineDecoder;
use kflow_sources::audit::decode::AuditLines;
use serde_json::Value;

fn session(name: &str) -> String {
    crate::recording(name).display().to_string()
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    crate::program::kflow(args).parts()
}

fn json(args: &[&str]) -> Vec<Value> {
    let (code, out, err) = run(args);
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn the_map_is_printed_whole_and_by_step() {
    let flows = json(&["flow", "-o", "json"]);
    let steps: usize = flows
        .iter()
        .map(|f| f["steps"].as_array().unwrap().len())
        .sum();
    assert_eq!(steps, Map::embedded().steps().len());
    let (_, text, _) = run(&["flow", "RunPodSandbox"]);
    assert!(text.contains("stage      sandbox"), "{text}");
    let (code, _, err) = run(&["flow", "noSuchFunction"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("kubelet-startup"), "{err}");
    let (_, _, err) = run(&["flow", "RunPodSanbox"]);
    assert!(err.contains("did you mean RunPodSandbox?"), "{err}");
    let (_, text, _) = run(&["flow", "syncPod"]);
    assert!(
        text.contains("g06") && text.contains("c09") && text.contains("syncPod ≤1.26"),
        "{text}"
    );
}

#[test]
fn both_starts_of_a_restarted_kubelet_are_told_apart() {
    let s = session("S7-restart-json");
    let passes = json(&["flow", "kubelet-startup", "--session", &s, "-o", "json"]);
    assert_eq!(passes.len(), 2);
    let begins: Vec<i64> = passes
        .iter()
        .map(|p| p["begin_ns"].as_i64().unwrap())
        .collect();
    // The kubelet was stopped after 16 s and started again 13 s later.
    assert_eq!((begins[1] - begins[0]) / SECOND, 29);
    for p in &passes {
        let steps: Vec<&str> = p["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["step"].as_str().unwrap())
            .collect();
        for wanted in ["a03", "a06", "a10", "a12", "a20", "a23", "a24", "a28"] {
            assert!(steps.contains(&wanted), "{wanted}: {steps:?}");
        }
    }
}

#[test]
fn a_users_map_adds_steps_and_what_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    std::fs::write(
        &file,
        "[step.b99]\nlabel = \"mine\"\nfunction = \"myPatch\"\nevidence = [{ log = \"SyncLoop ADD\" }]\n",
    )
    .unwrap();
    let file = file.display().to_string();
    let s = session("S1-basics");
    let rows = json(&[
        "flow",
        "myPatch",
        "s01/healthy",
        "--map",
        &file,
        "--session",
        &s,
        "-o",
        "json",
    ]);
    assert_eq!(rows[0]["steps"][0]["count"], 1);
    std::fs::write(&file, "[step.b99]\nlabel = 7\n").unwrap();
    let (code, _, err) = run(&["flow", "--map", &file]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("mine.toml") && err.contains("in line 2: `label = 7`"),
        "{err}"
    );
    std::fs::write(&file, "[step.b10]\nevidense = []\n").unwrap();
    let (_, _, err) = run(&["flow", "--map", &file]);
    assert!(
        err.contains("mine.toml") && err.contains("unknown field `evidense`"),
        "the file and the key: {err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn slow_requests_and_errors_are_found_and_explained() {
    let s = session("S7-restart-json");
    let slow = json(&["requests", "--slow", "4s", "--session", &s, "-o", "json"]);
    let names: Vec<&str> = slow.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["hook-slow", "hook-hangfail", "hook-hangignore"]);
    assert_eq!(
        (&slow[0]["code"], &slow[1]["code"]),
        (&201.into(), &500.into())
    );
    let id = slow[0]["audit_id"].as_str().unwrap();
    let (_, text, _) = run(&["requests", "--id", id, "--session", &s]);
    assert!(text.contains("validating-webhook 4.00s"), "{text}");
    let groups = json(&["requests", "--session", &s, "-o", "json"]);
    let patches = groups
        .iter()
        .find(|g| g["verb"] == "patch" && g["resource"] == "pods/status")
        .unwrap();
    assert!(patches["p50_ns"].as_i64() <= patches["p99_ns"].as_i64());
    let errors = json(&["requests", "--errors", "--session", &s, "-o", "json"]);
    assert!(!errors.is_empty() && errors.iter().all(|r| r["code"].as_u64() >= Some(400)));
}

#[test]
fn an_owner_without_pods_has_a_story() {
    let s = session("S7-restart-json");
    let world = {
        let loaded = kflow_model::session::load(Path::new(&s)).unwrap();
        let mut w = World::new();
        for o in &loaded.observations {
            w.observe(o);
        }
        w.refresh();
        w
    };
    // A webhook refuses each pod of this ReplicaSet.
    let refused = world
        .objects()
        .into_iter()
        .find(|o| {
            o.object.kind == "ReplicaSet"
                && o.evidence
                    .iter()
                    .any(|e| matches!(&e.body, Body::Event(v) if v.reason == "FailedCreate" && v.message.contains("denied")))
        })
        .unwrap();
    let name = format!("{}/rs/{}", refused.object.namespace, refused.object.name);
    let story = json(&["timeline", &name, "--session", &s, "-o", "json"]);
    assert_eq!(story[0]["pods"].as_array().unwrap().len(), 0);
    let told = story[0]["happenings"].as_array().unwrap();
    assert!(
        told.iter()
            .any(|h| h["bad"] == true && h["text"].as_str().unwrap().contains("denied"))
    );
    let burst = json(&[
        "timeline",
        "deploy/burst",
        "--session",
        &session("S5-burst"),
        "-o",
        "json",
    ]);
    assert_eq!(burst[0]["pods"].as_array().unwrap().len(), 40);
    assert_eq!(burst[0]["controls"].as_array().unwrap().len(), 1);
    // A pod is created once; what it is like has a moment of its own.
    for (at, like) in [("00:42:52", "at 00:42:52 "), ("end", "gone since 00:4")] {
        let args = [
            "timeline",
            "deploy/burst",
            "--session",
            &session("S5-burst"),
        ];
        let told = json(&[&args[..], &["--at", at, "-o", "json"]].concat());
        let all = told[0]["happenings"].as_array().unwrap().iter();
        let pods: Vec<&str> = all
            .filter(|h| h["kind"] == "Pod")
            .map(|h| h["text"].as_str().unwrap())
            .collect();
        assert!(!pods.is_empty());
        for text in pods {
            assert!(
                text.starts_with("created; ") && text.contains(like),
                "{text}"
            );
        }
    }
}

fn span(at: i64, id: u64, parent: Option<u64>, audit_id: &str) -> Arc<Observation> {
    Arc::new(Observation {
        stamp: Stamp::exact(Nanos(at)),
        source: Source::Otlp,
        body: Body::Span(Box::new(SpanRecord {
            service: "apiserver".into(),
            name: "POST /api/v1/namespaces/{:namespace}/pods".into(),
            kind: if audit_id.is_empty() {
                SpanKind::Internal
            } else {
                SpanKind::Server
            },
            trace: TraceId(1),
            span: SpanId(id),
            parent: parent.map(SpanId),
            end: Nanos(at + MILLI),
            attributes: if audit_id.is_empty() {
                kflow_model::Pairs::default()
            } else {
                vec![("audit-id".into(), audit_id.into())].into()
            },
            ..SpanRecord::default()
        })),
    })
}

#[test]
fn spans_without_parents_and_parents_that_never_come_do_no_harm() {
    let mut world = World::new();
    for n in 0..10_000 {
        world.observe(&span(SECOND + n, 100 + n as u64, Some(7), ""));
    }
    world.observe(&span(SECOND, 1, Some(9), "a1"));
    // A span that is its own parent, and two that are each other's.
    world.observe(&span(SECOND, 50, Some(50), ""));
    world.observe(&span(SECOND, 51, Some(52), ""));
    world.observe(&span(SECOND, 52, Some(51), ""));
    world.refresh();
    let request = world.requests().get("a1").unwrap();
    assert_eq!(
        request.steps().len(),
        1,
        "what hangs below nothing is not its step"
    );
    assert!(request.evidence.len() <= 256);
    assert!(
        world.requests().forgotten().1 > 9_000,
        "what found no room is counted"
    );
}

/// An audit record of a create, with this level, resource, name and body.
fn record(level: &str, resource: &str, name: &str, body: &str) -> String {
    format!(
        r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"{level}","auditID":"{level}-{resource}","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/s01/{resource}","verb":"create","user":{{"username":"u"}},"userAgent":"kubectl/v1","objectRef":{{"resource":"{resource}","namespace":"s01"{name},"apiVersion":"v1"}},"responseStatus":{{"code":201}}{body},"requestReceivedTimestamp":"2026-11-21T00:24:27.504775Z","stageTimestamp":"2026-11-21T00:24:27.512507Z"}}"#
    )
}

#[test]
fn audit_levels_differ_in_what_they_say_and_never_in_what_happened() {
    let pod = r#","responseObject":{"kind":"Pod","metadata":{"name":"web-x1","namespace":"s01","uid":"11111111-2222-4333-8444-555555555555"}}"#;
    for (level, name, body) in [
        ("Metadata", r#","name":"web-x1""#, ""),
        ("Request", r#","name":"web-x1""#, ""),
        ("RequestResponse", "", pod),
    ] {
        let mut out = Vec::new();
        AuditLines::new().line(record(level, "pods", name, body).as_bytes(), &mut out);
        let mut world = World::new();
        for o in out {
            world.observe(&Arc::new(o));
        }
        world.refresh();
        let r = world.requests().list()[0].clone();
        assert_eq!((r.code, r.object.name.as_str()), (201, "web-x1"), "{level}");
        assert_eq!(r.duration(world.now()), 7_732_000, "{level}");
    }
}

#[test]
fn no_body_of_a_secret_leaves_the_decoder() {
    const SECRET: &str = "aHVudGVyMi1odW50ZXIy";
    let object = format!(
        r#"{{"kind":"Secret","metadata":{{"name":"db","namespace":"s01","annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{SECRET}"}}}},"data":{{"password":"{SECRET}"}},"stringData":{{"p":"{SECRET}"}}}}"#
    );
    let body = format!(r#","requestObject":{object},"responseObject":{object}"#);
    let line = record("RequestResponse", "secrets", r#","name":"db""#, &body);
    assert!(line.contains(SECRET));
    let mut out = Vec::new();
    AuditLines::new().line(line.as_bytes(), &mut out);
    assert_eq!(out.len(), 1);
    assert!(!serde_json::to_string(&out).unwrap().contains(SECRET));
    // A cut line is no record, and does not harm the next line.
    for cut in [1, 50, line.len() / 2, line.len() - 1] {
        let mut decoder = AuditLines::new();
        let mut none = Vec::new();
        decoder.line(line.as_bytes().get(..cut).unwrap(), &mut none);
        assert!(none.is_empty(), "{cut}");
        decoder.line(line.as_bytes(), &mut none);
        assert_eq!(none.len(), 1, "{cut}");
    }
}

/// Secrets that no recording may hold: values of Secrets and ConfigMaps, environment variables, arguments of exec,
/// tokens, and annotations that hold whole manifests.
#[test]
fn a_session_that_was_written_holds_nothing_that_a_body_kept_secret() {
    let secret = |n: usize| format!("hunter{n}hunter{n}");
    let marks: Vec<String> = (0..9).map(secret).collect();
    let m = |n: usize| marks[n].as_str();
    let pod = format!(
        r#"{{"kind":"Pod","metadata":{{"name":"web-x1","namespace":"s01","uid":"11111111-2222-4333-8444-555555555555","annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}},"spec":{{"containers":[{{"name":"c","image":"i","env":[{{"name":"PASSWORD","value":"{}"}}],"command":["sh","-c","{}"]}}]}}}}"#,
        m(0),
        m(1),
        m(2)
    );
    let object = |kind: &str, value: &str| {
        format!(
            r#"{{"kind":"{kind}","metadata":{{"name":"db","namespace":"s01"}},"data":{{"password":"{value}"}},"stringData":{{"p":"{value}"}}}}"#
        )
    };
    let token = format!(
        r#"{{"kind":"TokenRequest","metadata":{{"name":"default"}},"spec":{{"boundObjectRef":{{"kind":"Pod","name":"web-x1","uid":"11111111-2222-4333-8444-555555555555"}}}},"status":{{"token":"{}"}}}}"#,
        m(5)
    );
    let mut lines = Vec::new();
    for level in ["Metadata", "Request", "RequestResponse"] {
        for (resource, body) in [
            ("pods", pod.clone()),
            ("secrets", object("Secret", m(3))),
            ("configmaps", object("ConfigMap", m(4))),
            ("serviceaccounts/token", token.clone()),
        ] {
            let bodies = match level {
                "Metadata" => String::new(),
                "Request" => format!(r#","requestObject":{body}"#),
                _ => format!(r#","requestObject":{body},"responseObject":{body}"#),
            };
            let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
            let name = format!(r#","name":"web-x1","subresource":"{sub}""#);
            lines.push(record(level, resource, &name, &bodies));
        }
    }
    // Secrets in the request's own record: arguments of an exec, a token in the query, a password in a user agent.
    lines.push(
        record("Metadata", "pods", r#","name":"web-x1","subresource":"exec""#, "")
            .replace(
                r#""requestURI":"/api/v1/namespaces/s01/pods""#,
                &format!(
                    r#""requestURI":"/api/v1/namespaces/s01/pods/web-x1/exec?command=login&command={}&token={}&container=c""#,
                    m(6),
                    m(7)
                ),
            ),
    );
    lines.push(
        record("Metadata", "pods", r#","name":"web-x1""#, "").replace(
            r#""responseStatus":{"code":201}"#,
            &format!(
                r#""responseStatus":{{"code":403,"message":"denied: Authorization: Bearer {}"}}"#,
                m(8)
            ),
        ),
    );
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    // The last line is cut in half.
    let mut text = lines.join("\n");
    let half = lines[3].len() / 2;
    text.push('\n');
    text.push_str(&lines[3][..half]);
    for mark in &marks {
        assert!(text.contains(mark.as_str()), "{mark}");
    }
    std::fs::write(&log, text).unwrap();
    let session = dir.path().join("out.kflow");
    let (log, session) = (log.display().to_string(), session.display().to_string());
    let (code, _, err) = run(&["import", "--audit", &log, "-O", &session]);
    assert_eq!(code, Some(0), "{err}");
    let written = std::fs::read_to_string(&session).unwrap();
    assert!(written.contains("web-x1") && written.contains("11111111-2222"));
    for mark in &marks {
        assert!(!written.contains(mark.as_str()), "{mark} is in the session");
    }
    // No command's output has the secrets either.
    for args in [
        vec!["requests", "--list", "-o", "json", "--session", &session],
        vec!["timeline", "-o", "json", "--session", &session],
    ] {
        let (_, out, _) = run(&args);
        assert!(marks.iter().all(|m| !out.contains(m.as_str())), "{args:?}");
    }
}

/// The apiserver's clock is three minutes ahead of the span exporter's: audit record and span are still one request,
/// shown once.
#[test]
fn clocks_that_differ_by_minutes_neither_part_nor_double_a_request() {
    let mut out = Vec::new();
    let line = record("Metadata", "pods", r#","name":"web-x1""#, "");
    AuditLines::new().line(line.as_bytes(), &mut out);
    let received = out[0].stamp.at;
    for apart in [-180 * SECOND, 0, 180 * SECOND] {
        let mut world = World::new();
        for o in &out {
            world.observe(&Arc::new(o.clone()));
        }
        world.observe(&span(received.0 + apart, 1, None, "Metadata-pods"));
        world.observe(&span(received.0 + apart + 1000, 2, Some(1), ""));
        world.refresh();
        let all = world.requests().list();
        assert_eq!(all.len(), 1, "{apart}");
        assert_eq!(
            all[0].duration(world.now()),
            7_732_000,
            "{apart}: as audit tells"
        );
        assert_eq!(all[0].steps().len(), 2, "{apart}");
        assert!(all[0].steps().iter().all(|s| s.own_ns >= 0), "{apart}");
    }
}

/// At level Metadata the audit record of a `generateName` create lacks the pod's name; the storage span has it.
#[test]
fn a_pod_whose_create_bears_no_name_is_found_by_the_key_under_which_it_was_stored() {
    use kflow_core::flow::Stage;
    use kflow_model::pod::PodSeen;
    let mut out = Vec::new();
    let line = record("Metadata", "pods", "", "");
    AuditLines::new().line(line.as_bytes(), &mut out);
    let audit = Arc::new(out.remove(0));
    let at = audit.stamp.at.0 - 7_732_000;
    let mut stored = Observation::clone(&span(at + MILLI, 2, Some(1), "Metadata-pods"));
    let Body::Span(s) = &mut stored.body else {
        panic!("a span")
    };
    s.kind = SpanKind::Internal;
    s.name = "Create etcd3".into();
    let key = ("key".into(), "/registry/pods/s01/web-7d4b9-x1abc".into());
    s.attributes = s.attributes.iter().cloned().chain([key]).collect();
    let stored = Arc::new(stored);
    let pod = Arc::new(Observation {
        stamp: Stamp::exact(Nanos(at + 9 * MILLI)),
        source: Source::Kube,
        body: Body::Pod(Box::new(PodSeen {
            uid: "11111111-2222-4333-8444-555555555555".into(),
            namespace: "s01".into(),
            name: "web-7d4b9-x1abc".into(),
            created: Nanos(at - at % SECOND),
            ..PodSeen::default()
        })),
    });
    let all = [audit, stored, pod];
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut world = World::new();
        for n in order {
            world.observe(&all[n]);
        }
        world.refresh();
        let pods = world.find("s01/web-7d4b9-x1abc");
        assert_eq!(pods.len(), 1, "{order:?}");
        let create = pods[0]
            .timeline
            .spans
            .iter()
            .find(|s| s.stage == Stage::Api && s.step == "Create")
            .unwrap();
        assert!(
            create.evidence.iter().any(|e| e.source == Source::Audit),
            "{order:?}"
        );
        assert_eq!(create.end.unwrap().at.0 - create.start.at.0, 7_732_000);
    }
}
