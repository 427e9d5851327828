mod runs;

use super::runs::RunEnd;
use super::signature::{EdgeKind, SignatureKind};
use super::*;
use kflow_model::{
    Body, Nanos, Observation, PodRef, Source, Stamp,
    audit::{AuditRecord, AuditStage},
    cri::{CallEnd, CallKey, CallOutcome, CallStart, Service},
    event::EventSeen,
    fs::{FsAction, FsChange, FsObject},
    log::{Component, LogLine, Severity},
    pod::{Condition, PodSeen},
    sample::{Sample, Value},
    span::SpanRecord,
};
use std::collections::BTreeSet;
use std::sync::Arc;

fn at(ns: i64, source: Source, body: Body) -> Arc<Observation> {
    Arc::new(Observation {
        stamp: Stamp::exact(Nanos(ns)),
        source,
        body,
    })
}

fn log(ns: i64, component: Component, message: &str) -> Arc<Observation> {
    line(ns, component, message, &[])
}

fn line(ns: i64, component: Component, message: &str, kv: &[(&str, &str)]) -> Arc<Observation> {
    at(
        ns,
        Source::Kubelet,
        Body::Log(Box::new(LogLine {
            component,
            severity: Severity::Info,
            location: "".into(),
            message: message.into(),
            pod: PodRef::by_name("s01", "healthy"),
            more_pods: kflow_model::Seldom::default(),
            container: "".into(),
            container_id: "".into(),
            error: "".into(),
            fields: kv.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            noted: kflow_model::log::Noted::default(),
        })),
    )
}

fn call(ns: i64, stream: u32, method: &str, filtered: bool) -> Arc<Observation> {
    at(
        ns,
        Source::Cri,
        Body::CallStart(Box::new(CallStart {
            timeout_ns: Some(1),
            filtered,
            ..CallStart::new(CallKey { conn: 1, stream }, Service::Runtime, method)
        })),
    )
}

fn ended(ns: i64, stream: u32, code: u32) -> Arc<Observation> {
    at(
        ns,
        Source::Cri,
        Body::CallEnd(Box::new(CallEnd {
            code: Some(code),
            ..CallEnd::new(CallKey { conn: 1, stream }, CallOutcome::Status)
        })),
    )
}

fn ids(o: &Observation) -> Vec<&'static str> {
    let map = Map::embedded();
    map.steps_of(o)
        .iter()
        .filter_map(|s| map.get(*s))
        .map(|s| s.id.as_str())
        .collect()
}

#[test]
fn the_embedded_map_is_whole() {
    let map = Map::parse(&[map::EMBEDDED]).unwrap();
    assert_eq!(map.flows().len(), 13);
    assert!(map.steps().len() >= 244, "{}", map.steps().len());
    for (i, s) in map.steps().iter().enumerate() {
        assert!(!s.label.is_empty() && !s.function.is_empty(), "{}", s.id);
        assert!(s.file.is_empty() == (s.function == "kubectl"), "{}", s.id);
        assert_eq!(map.step(&s.id).unwrap().0, StepId(i as u16));
        if let Some(p) = s.parent.and_then(|p| map.get(p)) {
            assert_ne!(p.id, s.id);
        }
        for c in &s.signatures {
            assert!(!c.to_string().is_empty());
        }
    }
    let whole = Map::embedded();
    assert_eq!(whole.steps(), map.steps());
}

#[test]
fn every_step_says_in_sentences_what_it_does_and_how_it_hangs() {
    let map = Map::embedded();
    let words = |s: &str| -> BTreeSet<String> {
        s.split(|c: char| !c.is_alphanumeric())
            .filter(|w| !w.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let mut told = BTreeSet::new();
    let mut wrong = Vec::new();
    for s in map.steps() {
        for (key, text) in [("does", &s.does), ("hangs", &s.hangs)] {
            let length = text.chars().count();
            if !(8..=240).contains(&length) || !text.ends_with('.') || text.contains("  ") {
                wrong.push(format!("{} {key}: one or two sentences: {text}", s.id));
            }
            // A description has to say more than the label, which its reader already knows.
            let more = words(text).difference(&words(&s.label)).count();
            if more < if key == "does" { 6 } else { 2 } {
                wrong.push(format!(
                    "{} {key}: says no more than its label: {text}",
                    s.id
                ));
            }
            // Every step that the text refers to exists.
            for id in words(text) {
                let mut c = id.chars();
                let is_id = c.next().is_some_and(|c| ('a'..='m').contains(&c))
                    && id.len() == 3
                    && c.all(|c| c.is_ascii_digit());
                if is_id && map.step(&id).is_none() {
                    wrong.push(format!("{} {key}: no step {id}", s.id));
                }
            }
        }
        if !told.insert(s.does.as_str()) {
            wrong.push(format!("{}: told of another step already", s.id));
        }
    }
    let mut order: Vec<u8> = map.told().iter().map(|(_, f)| f.order).collect();
    order.dedup();
    assert_eq!(order, (1..=13).collect::<Vec<u8>>());
    for f in map.flows() {
        if !f.about.ends_with('.') {
            wrong.push(format!("({}): {}", f.id, f.about));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn functions_lead_to_steps_and_old_names_do_too() {
    let map = Map::embedded();
    let of = |f: &str| map.step_by_function(f).map(|(_, s)| s.id.as_str());
    assert_eq!(of("canAdmitPod"), Some("c03"));
    assert_eq!(of("WaitForAttachAndMount"), Some("c22"));
    assert_eq!(of("RunPodSandbox"), Some("e10"));
    assert_eq!(of("PullImage"), Some("e17"));
    assert_eq!(of("StopContainer"), Some("h10"));
    assert_eq!(of("RemoveContainer"), Some("h20"));
    assert_eq!(of("SyncPod"), Some("c09"));
    assert_eq!(of("managePodLoop"), Some("c07"), "a name of 1.26");
    assert_eq!(of("noSuchFunction"), None);
}

#[test]
fn each_kind_of_evidence_lights_its_step() {
    assert_eq!(ids(&log(1, Component::Kubelet, "SyncPod enter")), ["c09"]);
    assert_eq!(ids(&log(1, Component::Apiserver, "SyncPod enter")), [""; 0]);
    assert_eq!(
        ids(&log(
            1,
            Component::Kubelet,
            "MountVolume.SetUp succeeded for volume \"cfg\" (UniqueName: \"kubernetes.io/configmap/x-cfg\") pod \"healthy\" (UID: \"4ac3c3e9\") "
        )),
        ["d07"]
    );
    assert_eq!(
        ids(&line(
            1,
            Component::Kubelet,
            "SyncLoop (probe)",
            &[("probe", "readiness"), ("status", "ready")]
        )),
        ["b15", "g04"]
    );
    assert_eq!(ids(&call(1, 1, "RunPodSandbox", false)), ["e10"]);
    assert_eq!(ids(&call(1, 1, "ListPodSandbox", true)), ["c27", "l10"]);
    assert_eq!(ids(&call(1, 1, "ListPodSandbox", false)), ["a27", "l09"]);
    let event = |reason: &str, message: &str, kind: &str, by: &str| {
        let mut e = EventSeen {
            reason: reason.into(),
            message: message.into(),
            component: by.into(),
            ..EventSeen::default()
        };
        e.object.kind = kind.into();
        at(1, Source::Kube, Body::Event(Box::new(e)))
    };
    assert_eq!(ids(&event("OutOfcpu", "", "Pod", "kubelet")), ["c04"]);
    assert_eq!(
        ids(&event("Starting", "Starting kubelet.", "Node", "kubelet")),
        ["a16"]
    );
    assert_eq!(
        ids(&event(
            "Pulled",
            "Successfully pulled image \"x\" in 1s",
            "Pod",
            "kubelet"
        )),
        ["e17"]
    );
    assert_eq!(
        ids(&event(
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"f1\": plugin type=\"bridge\" failed",
            "Pod",
            "kubelet"
        )),
        ["e10", "f04"]
    );
    let span = SpanRecord {
        service: "containerd".into(),
        name: "runtime.v1.RuntimeService/RunPodSandbox".into(),
        ..SpanRecord::default()
    };
    assert_eq!(
        ids(&at(1, Source::Otlp, Body::Span(Box::new(span)))),
        ["f01"]
    );
    let scrape = |code: u16, values: &[(&str, f64)]| {
        let sample = Sample {
            what: "kubelet-configz".into(),
            code,
            values: values
                .iter()
                .map(|(k, v)| ((*k).into(), Value(*v)))
                .collect(),
            ..Sample::default()
        };
        at(1, Source::Metrics, Body::Sample(Box::new(sample)))
    };
    assert_eq!(ids(&scrape(200, &[])), ["a04"]);
    assert_eq!(ids(&scrape(0, &[])), [""; 0], "no answer shows nothing");
    assert_eq!(
        ids(&scrape(
            200,
            &[(
                "kubelet_evictions{eviction_signal=\"memory.available\"}",
                0.0
            )]
        )),
        ["a04"],
        "nothing was evicted"
    );
    let mut pod = PodSeen::default();
    pod.status.reason = "OutOfcpu".into();
    pod.status.conditions = vec![Condition {
        kind: "PodScheduled".into(),
        status: "False".into(),
        reason: "Unschedulable".into(),
        ..Condition::default()
    }];
    assert_eq!(
        ids(&at(1, Source::Kube, Body::Pod(Box::new(pod)))),
        ["c05", "k13"]
    );
}

#[test]
fn a_users_file_replaces_extends_and_adds() {
    let map = Map::overlaid(
        r#"
        [step.c03]
        function = "kl.canAdmitPod"
        [step.c09]
        more = [{ log = "syncPod start", since = "9.9" }]
        [step.z01]
        flow = "sync-loop"
        label = "my own"
        function = "mine"
        stage = "admit"
        parent = "c09"
        evidence = [{ log = "SyncPod enter" }]
        "#,
    )
    .unwrap();
    assert_eq!(map.step("c03").unwrap().1.function, "kl.canAdmitPod");
    assert_eq!(map.step("c03").unwrap().1.label, "node admission");
    let o = log(1, Component::Kubelet, "syncPod start");
    assert_eq!(map.steps_of(&o).as_slice(), [map.step("c09").unwrap().0]);
    let both = map.steps_of(&log(1, Component::Kubelet, "SyncPod enter"));
    assert_eq!(both.len(), 2, "c09 and the user's");
    assert_eq!(map.step("z01").unwrap().1.stage, Some(Stage::Admit));
}

fn fact(map: &Map, message: &str) -> Option<Fact> {
    match &log(1, Component::Kubelet, message).body {
        Body::Log(line) => map.line(line).map(|l| l.fact()),
        _ => None,
    }
}

#[test]
fn a_line_of_another_version_says_the_same_fact() {
    let map = Map::embedded();
    assert_eq!(fact(map, "syncPod enter"), Some(Fact::SyncBegan));
    assert_eq!(fact(map, "SyncPod enter"), Some(Fact::SyncBegan));
    assert_eq!(fact(map, "of no step"), None);
    let own = "[step.b10]\nmore = [{ log = 'SyncLoop NEW', since = '1.40', fact = 'pod-added' }]";
    let map = Map::overlaid(own).unwrap();
    assert_eq!(fact(&map, "SyncLoop NEW"), Some(Fact::PodAdded));
    let o = log(1, Component::Kubelet, "SyncLoop NEW");
    assert_eq!(map.steps_of(&o).as_slice(), [map.step("b10").unwrap().0]);
}

#[test]
fn every_fact_has_evidence() {
    let said: Vec<Fact> = Map::embedded().readings.facts().collect();
    let without: Vec<_> = Fact::ALL.iter().filter(|f| !said.contains(f)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn a_wrong_file_is_refused_with_the_step_and_the_reason() {
    let cases = [
        ("[step.c09]\nlabl = 'x'", "labl"),
        ("[step.c09]\nstage = 'lunch'", "stage `lunch`"),
        ("[step.c09]\nparent = 'c99'", "step `c99`"),
        ("[step.c99]\nlabel = 'x'", "c99"),
        ("[step.c09]\nevidence = []", "none = "),
        (
            "[step.c09]\nevidence = [{ log = 'a', cri = 'b' }]",
            "exactly one",
        ),
        ("[step.c09]\nevidence = [{ log = 'a…' }]", "too short"),
        ("[step.c09]\nevidence = [{ fs = 'disk' }]", "pod_cgroup"),
        (
            "[step.c09]\nmore = [{ log = 'x', fact = 'lunch' }]",
            "lunch",
        ),
        (
            "[step.c09]\nmore = [{ cri = 'x', fact = 'sync-began' }]",
            "`fact` goes with",
        ),
        (
            "[step.c09]\nmore = [{ log = 'x', read = ['for {'] }]",
            "leaves a brace open",
        ),
        (
            "[step.q01]\nlabel='x'\nfunction='y'\nevidence=[{none='z'}]",
            "flow `q`",
        ),
    ];
    for (text, told) in cases {
        let e = Map::overlaid(text).unwrap_err().to_string();
        assert!(e.contains(told), "{text}: {e}");
    }
}

#[test]
fn a_step_is_described_with_its_evidence_and_its_older_names() {
    let map = Map::embedded();
    let id = map.step("c09").unwrap().0;
    let text = docs::describe(map, map.get(id).unwrap());
    assert!(text.contains("span syncPod of kubelet"), "{text}");
    assert!(text.contains("was        syncPod ≤1.26"), "{text}");
    assert!(
        text.contains("\ndoes       The heart of the kubelet"),
        "{text}"
    );
    assert!(text.contains("\nhangs      `SyncPod enter`"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

#[test]
fn edges_default_to_points() {
    let map = Map::embedded();
    let hit = map.hits(&log(1, Component::Kubelet, "SyncLoop ADD"))[0];
    assert_eq!(hit.edge, EdgeKind::Point);
}

#[test]
fn the_embedded_map_can_be_read() {
    assert!(Map::embedded().steps().len() > 100);
}
