//! Which steps evidence lights, and how edges pair up to runs.

use super::*;

fn request(ns: i64, stage: AuditStage) -> Arc<Observation> {
    at(
        ns,
        Source::Audit,
        Body::Audit(Box::new(AuditRecord {
            audit_id: "a".into(),
            stage,
            verb: "create".into(),
            resource: "pods/binding".into(),
            object: kflow_model::ObjectRef::default(),
            user: "system:kube-scheduler".into(),
            agent: "".into(),
            received: Nanos(10),
            code: 201,
            message: "".into(),
            query: "".into(),
            annotations: kflow_model::Pairs::default(),
            facts: kflow_model::Pairs::default(),
        })),
    )
}

fn one(evidence: &[Arc<Observation>], now: i64, step: &str) -> StepRuns {
    let map = Map::embedded();
    let id = map.step(step).unwrap().0;
    crate::flow::runs::lit(map, evidence, Nanos(now))
        .into_iter()
        .find(|l| l.step == id)
        .unwrap()
}

#[test]
fn a_call_its_span_and_its_log_lines_are_one_run() {
    let span = SpanRecord {
        service: "kubelet".into(),
        name: "runtime.v1.RuntimeService/RunPodSandbox".into(),
        end: Nanos(310),
        ..SpanRecord::default()
    };
    let evidence = [
        call(100, 1, "RunPodSandbox", false),
        at(99, Source::Otlp, Body::Span(Box::new(span))),
        ended(300, 1, 0),
    ];
    let l = one(&evidence, 1000, "e10");
    assert_eq!(l.count, 1);
    assert_eq!(l.runs.len(), 1);
    assert_eq!(
        l.runs[0].duration(Nanos(1000)),
        Some(200),
        "the call's edges"
    );
    assert_eq!(l.runs[0].how, RunEnd::Ok);
    let kinds: Vec<SignatureKind> = l.evidence.iter().map(|(k, _)| *k).collect();
    assert_eq!(kinds, [SignatureKind::Call, SignatureKind::Span]);
    assert_eq!(l.first.at, Nanos(99));
}

#[test]
fn what_came_after_now_is_not_known_and_an_open_run_ages() {
    let evidence = [
        call(100, 1, "RunPodSandbox", false),
        ended(300, 1, 2),
        call(400, 3, "RunPodSandbox", false),
    ];
    let early = one(&evidence, 250, "e10");
    assert_eq!(early.runs[0].how, RunEnd::InFlight);
    assert_eq!(early.runs[0].duration(Nanos(250)), Some(150));
    let late = one(&evidence, 500, "e10");
    assert_eq!((late.count, late.runs.len()), (2, 2));
    assert_eq!(late.runs[0].how, RunEnd::Failed);
    assert_eq!(
        (late.runs[1].attempt, late.runs[1].how),
        (1, RunEnd::InFlight)
    );
}

#[test]
fn enter_and_exit_lines_pair_up_whatever_the_order_of_arrival() {
    let mut evidence = vec![
        log(10, Component::Kubelet, "SyncPod enter"),
        log(30, Component::Kubelet, "SyncPod exit"),
        log(50, Component::Kubelet, "SyncPod enter"),
        log(70, Component::Kubelet, "SyncPod enter"),
        log(90, Component::Kubelet, "SyncPod exit"),
    ];
    let l = one(&evidence, 100, "c09");
    evidence.reverse();
    assert_eq!(l, one(&evidence, 100, "c09"));
    let how: Vec<RunEnd> = l.runs.iter().map(|r| r.how).collect();
    assert_eq!(how, [RunEnd::Ok, RunEnd::Unseen, RunEnd::Ok]);
    assert_eq!(l.runs[1].duration(Nanos(100)), None);
    assert_eq!(l.count, 3);
}

#[test]
fn volumes_are_paired_by_their_names_and_facets_are_not_summed() {
    let v = |ns, what: &str, name: &str| {
        log(
            ns,
            Component::Kubelet,
            &format!(
                "{what} for volume \"{name}\" (UniqueName: \"x/{name}\") pod \"healthy\" (UID: \"u\") "
            ),
        )
    };
    let evidence = [
        v(10, "operationExecutor.MountVolume started", "a"),
        v(20, "operationExecutor.MountVolume started", "b"),
        v(30, "MountVolume.SetUp succeeded", "b"),
        v(50, "MountVolume.SetUp succeeded", "a"),
    ];
    let l = one(&evidence, 100, "d07");
    let took: Vec<Option<i64>> = l.runs.iter().map(|r| r.duration(Nanos(100))).collect();
    assert_eq!((l.count, took), (2, vec![Some(40), Some(10)]));

    let evidence = [
        log(1, Component::Kubelet, "SyncLoop ADD"),
        log(2, Component::Kubelet, "SyncLoop DELETE"),
    ];
    assert_eq!(one(&evidence, 9, "b10").count, 2, "operations of their own");
}

#[test]
fn the_stages_of_a_request_are_one_run_from_its_arrival() {
    let evidence = [
        request(12, AuditStage::RequestReceived),
        request(40, AuditStage::ResponseComplete),
    ];
    let l = one(&evidence, 100, "k10");
    assert_eq!((l.count, l.runs.len()), (1, 1));
    assert_eq!(l.runs[0].duration(Nanos(100)), Some(30));
}

#[test]
fn a_state_that_lasts_lights_its_step_once() {
    let state = |ns: i64, ready: bool| {
        let mut p = PodSeen {
            uid: "u".into(),
            ..PodSeen::default()
        };
        p.status.conditions = vec![Condition {
            kind: "Ready".into(),
            status: if ready { "True" } else { "False" }.into(),
            ..Condition::default()
        }];
        p.resource_version = ns as u64;
        at(ns, Source::Kube, Body::Pod(Box::new(p)))
    };
    let evidence = [
        state(1, true),
        state(2, true),
        state(3, false),
        state(4, true),
    ];
    let l = one(&evidence, 10, "g07");
    assert_eq!(l.count, 2);
    assert_eq!((l.first.at, l.last.at), (Nanos(1), Nanos(4)));
}

#[test]
fn each_start_of_the_kubelet_is_a_pass_of_its_own() {
    let map = Map::embedded();
    let (flow, _) = map.flow("kubelet-startup").unwrap();
    let s = kflow_model::stamp::SECOND;
    let evidence = [
        log(s, Component::Kubelet, "SyncLoop ADD"),
        log(2 * s, Component::Kubelet, "Kubelet version"),
        log(2 * s + 5, Component::Kubelet, "Golang settings"),
        log(3 * s, Component::Kubelet, "Started kubelet"),
        log(60 * s, Component::Kubelet, "Kubelet version"),
    ];
    let passes = crate::flow::runs::passes(map, flow, &evidence);
    assert_eq!(
        passes.iter().map(Vec::len).collect::<Vec<_>>(),
        [3, 1],
        "what lies before the first start lights no step of the flow"
    );
}

/// Any runtime makes network namespaces; a log line is of one runtime.
#[test]
fn what_any_runtime_makes_is_a_step_of_the_runtime_at_work() {
    let netns = || {
        let change = FsChange {
            action: FsAction::Created,
            object: FsObject::NetNs { name: "a".into() },
        };
        at(5, Source::Fs, Body::Fs(Box::new(change)))
    };
    let line = |component, message| log(9, component, message);
    let crio = line(Component::Crio, "Running pod sandbox: shop/web-0/POD");
    let containerd = line(Component::Containerd, "begin cni setup");
    let map = Map::embedded();
    let of = |evidence: &[Arc<Observation>], runtime| -> Vec<&str> {
        crate::flow::runs::lit_on(map, evidence, Nanos(1000), runtime)
            .iter()
            .filter_map(|l| Some(map.get(l.step)?.id.as_str()))
            .collect()
    };
    assert_eq!(of(&[netns(), crio.clone()], None), ["m01", "m06"]);
    assert_eq!(of(&[netns(), containerd.clone()], None), ["f03", "f04"]);
    assert_eq!(of(&[netns()], None), ["f03"], "nothing tells which");
    assert_eq!(
        of(&[netns()], Some(Component::Crio)),
        ["m06"],
        "the node does"
    );
    let both = [netns(), crio, containerd];
    assert_eq!(
        of(&both, None),
        ["f03", "f04", "m01", "m06"],
        "a session of two nodes"
    );
}
