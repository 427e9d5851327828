//! Which component has to act next, and when it was last heard: stories of the catalogue with a lease added, and
//! failures that follow from others. Synthetic: no recording has these controllers.

use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::cluster::Cluster;
use kflow_core::diagnose::{self, Catalogue, CauseId, Diagnoser, Verdict};
use kflow_model::gap::{Gap, WatchKind, WatchNote};
use kflow_model::node::NodeSeen;
use kflow_model::pod::{Condition, PodSeen, WatchEvent};
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp, stamp::SECOND};
use kflow_sources::kube::decode::decode_object;
use serde_json::json;

use super::scenario;
use crate::churn;
use crate::in_repository;

/// A renewal of a lease, as a watch shows it.
fn renewal(namespace: &str, name: &str, at: Nanos, lasts_s: i64) -> Evidence {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, "uid": "lease", "resourceVersion": "1"},
        "spec": {"holderIdentity": "node1_1", "leaseDurationSeconds": lasts_s, "renewTime": at.to_rfc3339()}});
    let read = decode_object(
        lease.to_string().as_bytes(),
        "",
        WatchEvent::Modified,
        Stamp::exact(at),
    );
    Arc::new(read.unwrap_or_else(|e| panic!("{e:?}: {lease}")))
}

/// The verdict on the story of a cause, with a text replaced where one is given, and with more observations.
fn told(
    cause: &str,
    words: Option<(&str, &str)>,
    more: impl Fn(Nanos) -> Vec<Evidence>,
) -> Verdict {
    let path = in_repository(format!("fixtures/causes/{cause}.json"));
    let s = scenario::Scenario::load(&path);
    let mut all = s.observations();
    if let Some((from, to)) = words {
        for o in &mut all {
            let text = serde_json::to_string(&**o).expect("JSON").replace(from, to);
            *o = Arc::new(serde_json::from_str(&text).expect("an observation"));
        }
    }
    all.extend(more(s.now()));
    let mut w = World::new();
    for o in &all {
        w.observe(o);
    }
    w.refresh();
    let found = diagnose::find(&w, &s.target);
    let v = found.first().and_then(|t| t.verdict(&w, s.now()));
    v.unwrap_or_else(|| panic!("{cause}: nothing is said"))
}

#[test]
fn a_wait_for_a_controller_says_when_it_was_last_heard() {
    let attach = Some((
        "rpc error: code = NotFound desc = Volume \\\"vol-1\\\" not found",
        "timed out waiting for external-attacher of ebs.csi.aws.com CSI driver to attach volume vol-1",
    ));
    let default = Some(("my-scheduler", "default-scheduler"));
    for (cause, words, lease) in [
        ("KF214", None, "ebs-csi-aws-com"),
        ("KF406", attach, "external-attacher-leader-ebs-csi-aws-com"),
        ("KF223", default, "kube-scheduler"),
        ("KF110", None, "kube-controller-manager"),
    ] {
        let heard = |lease: &'static str, ago: i64| {
            told(cause, words, move |now| {
                vec![renewal("kube-system", lease, now.plus(-ago * SECOND), 15)]
            })
        };
        let v = heard(lease, 52);
        assert_eq!(v.cause_id(), cause, "{}", v.sentence);
        assert!(v.sentence.contains("was last heard at"), "{}", v.sentence);
        assert!(v.sentence.contains("52s ago"), "{}", v.sentence);
        assert!(
            v.evidence
                .iter()
                .any(|p| p.at == v.since || p.evidence.is_some()),
            "{v:?}"
        );
        // The lease of another component does not count.
        let v = heard("cert-manager-controller", 1);
        assert!(!v.sentence.contains("last heard"), "{}", v.sentence);
    }
}

/// A scheduler that holds its lease and takes no pod lacks permissions, or one of its plugins holds the pod.
#[test]
fn a_scheduler_that_renews_its_lease_is_not_said_to_be_down() {
    let default = Some(("my-scheduler", "default-scheduler"));
    let v = told("KF223", default, |now| {
        vec![renewal(
            "kube-system",
            "kube-scheduler",
            now.plus(-2 * SECOND),
            15,
        )]
    });
    let sentence = &v.sentence;
    assert!(sentence.contains("default-scheduler runs"), "{sentence}");
    assert!(sentence.contains("2s ago (its lease)"), "{sentence}");
    assert!(!sentence.contains("not running"), "{sentence}");
}

#[test]
fn a_driver_whose_lease_ran_out_does_not_run() {
    let of = |ago: i64| {
        let lease = move |now: Nanos| {
            let at = now.plus(-ago * SECOND);
            vec![renewal("kube-system", "ebs-csi-aws-com", at, 15)]
        };
        told("KF214", None, lease).sentence
    };
    assert!(of(60).contains("it does not run"), "{}", of(60));
    assert!(!of(10).contains("it does not run"), "{}", of(10));
}

/// A gap of objects of a resource, at a time.
fn loss(resource: &str, at: Nanos) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(at),
        source: Source::Kube,
        body: Body::Gap(Box::new(Gap {
            of: Source::Kube,
            since: at,
            lost: 1,
            conn: 0,
            resource: resource.into(),
            why: "queue full".into(),
        })),
    })
}

#[test]
fn who_may_have_been_heard_in_what_was_lost_is_not_called_silent() {
    let of = |cause: &str, words, lease: &'static str, resource: &'static str| {
        told(cause, words, move |now| {
            vec![
                renewal("kube-system", lease, now.plus(-52 * SECOND), 15),
                loss(resource, now.plus(-10 * SECOND)),
            ]
        })
        .sentence
    };
    let default = Some(("my-scheduler", "default-scheduler"));
    for (cause, words, lease) in [
        ("KF214", None, "ebs-csi-aws-com"),
        ("KF223", default, "kube-scheduler"),
        ("KF110", None, "kube-controller-manager"),
    ] {
        let lost = of(cause, words, lease, "leases");
        assert!(lost.contains("what came later was lost in part"), "{lost}");
        assert!(!lost.contains("it does not run"), "{lost}");
        let another = of(cause, words, lease, "configmaps");
        assert!(!another.contains("lost"), "{another}");
    }
}

#[test]
fn a_claim_that_was_not_read_is_not_called_unbound() {
    let claim = |phase: &'static str| {
        move |now: Nanos| {
            let object = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": "ns", "uid": "claim", "resourceVersion": "1"},
                "spec": {}, "status": {"phase": phase}});
            let text = object.to_string();
            let stamp = Stamp::exact(now.plus(-20 * SECOND));
            let read = decode_object(text.as_bytes(), "", WatchEvent::Added, stamp);
            vec![Arc::new(read.unwrap_or_else(|e| panic!("{e:?}: {text}")))]
        }
    };
    let v = told("KF229", None, claim("Pending"));
    let waits = "waits for the volume of claim data";
    assert!(v.sentence.contains(waits), "{}", v.sentence);
    let v = told("KF229", None, claim("Bound"));
    assert!(!v.sentence.contains("claim"), "{}", v.sentence);
    let v = told("KF229", None, |_| Vec::new());
    assert!(!v.sentence.contains(waits), "{}", v.sentence);
    assert!(
        v.sentence.contains("claim data was not read"),
        "{}",
        v.sentence
    );
}

/// A pod in a namespace, ready or not.
fn pod(namespace: &str, name: &str, ready: bool, at: Nanos) -> Evidence {
    let mut p: PodSeen = churn::pod(7, name, true);
    p.namespace = namespace.into();
    p.name = name.into();
    p.created = at;
    p.status.conditions.push(Condition {
        kind: "Ready".into(),
        status: if ready { "True" } else { "False" }.into(),
        transition: Some(at),
        ..Condition::default()
    });
    if let Some(c) = p.status.containers.first_mut() {
        c.ready = ready;
    }
    Arc::new(Observation {
        stamp: Stamp::exact(at),
        source: Source::Kube,
        body: Body::Pod(Box::new(p)),
    })
}

#[test]
fn a_webhook_that_does_not_answer_is_followed_to_its_service_and_its_pods() {
    let v = told("KF105", None, |_| Vec::new());
    assert!(
        v.sentence
            .contains("its server is Service mesh-system/mesh"),
        "{}",
        v.sentence
    );
    assert!(
        !v.sentence.contains("namespace"),
        "nothing is known: {}",
        v.sentence
    );
    let command = &v.next.first().expect("something to do").command;
    assert_eq!(
        command,
        "kubectl -n mesh-system get endpointslices -l kubernetes.io/service-name=mesh"
    );
    let down = |ready| {
        move |now: Nanos| {
            vec![pod(
                "mesh-system",
                "mesh-5d9c",
                ready,
                now.plus(-50 * SECOND),
            )]
        }
    };
    let v = told("KF105", None, down(false));
    assert!(
        v.sentence
            .contains("not ready in its namespace: mesh-system/mesh-5d9c"),
        "{}",
        v.sentence
    );
    // A ready pod explains nothing, and whether it is the only one is not known.
    let v = told("KF105", None, down(true));
    assert!(!v.sentence.contains("namespace"), "{}", v.sentence);
    // A webhook that denies a request does answer.
    let v = told(
        "KF105",
        Some((
            "failed calling webhook \\\"inject.mesh.example\\\": failed to call webhook: Post \\\"https://mesh.mesh-system.svc:443/inject?timeout=10s\\\": context deadline exceeded",
            "admission webhook \\\"inject.mesh.example\\\" denied the request: no",
        )),
        down(false),
    );
    assert!(!v.sentence.contains("Service"), "{}", v.sentence);
}

#[test]
fn a_ready_pod_whose_node_was_deleted_is_told() {
    let at = |s: i64| churn::BEGIN.plus(s * SECOND);
    let node = |s: i64, event| {
        Arc::new(Observation {
            stamp: Stamp::exact(at(s)),
            source: Source::Kube,
            body: Body::Node(Box::new(NodeSeen {
                name: "n9".into(),
                event,
                ..NodeSeen::default()
            })),
        })
    };
    let mut ready = (*pod("web", "shop", true, at(1))).clone();
    if let Body::Pod(p) = &mut ready.body {
        p.spec.node = "n9".into();
    }
    let mut w = World::new();
    let mut diagnoser = Diagnoser::new();
    w.observe(&node(0, WatchEvent::Added));
    w.observe(&Arc::new(ready));
    w.refresh();
    let uid = w.pods()[0].uid.clone();
    let said = diagnoser.update(&w, at(400));
    assert!(!said.0.contains_key(&uid), "well: {:?}", said.0);
    w.observe(&node(401, WatchEvent::Deleted));
    w.refresh();
    let said = diagnoser.update(&w, at(402));
    let v = said.0.get(&uid).expect("its node is gone");
    assert_eq!((v.cause_id(), v.since), ("KF317", at(401)));
    assert!(
        v.sentence
            .contains("that it is Ready is the last that was heard of it"),
        "{}",
        v.sentence
    );
    assert_eq!(
        diagnose::why(&w, &w.pods()[0], at(402))
            .expect("the same")
            .cause,
        v.cause
    );
    let late = diagnose::why(&w, &w.pods()[0], at(600)).expect("the same");
    assert!(
        late.sentence.contains("kube-controller-manager"),
        "{}",
        late.sentence
    );
}

/// What a registry, containerd, CRI-O and dockerd say of an image that does not exist, and other
/// errors with "not found".
#[test]
fn an_image_that_does_not_exist_is_told_from_what_else_is_not_found() {
    let said = |text: &str| {
        let cause = Catalogue::get().best("ErrImagePull", text, |_| true)?.0;
        Some(cause.id)
    };
    for text in [
        r#"rpc error: code = NotFound desc = failed to pull and unpack image "127.0.0.1:5000/nope:1": failed to resolve image: 127.0.0.1:5000/nope:1: not found"#,
        r#"failed to pull and unpack image "reg.example/team/app:1": failed to resolve reference "reg.example/team/app:1": reg.example/team/app:1: not found"#,
        "initializing source docker://127.0.0.1:5000/nope:1: reading manifest 1 in 127.0.0.1:5000/nope: manifest unknown: manifest unknown",
        "Error response from daemon: manifest for reg.example/app:9 not found: manifest unknown: manifest unknown",
        "Error: image library/nope:9 not found",
        r#"repository "reg.example/nope" not found"#,
        "name unknown: repository name not known to registry",
    ] {
        assert_eq!(said(text), Some(CauseId::KF601), "{text}");
    }
    for text in [
        r#"error getting credentials - err: exec: "docker-credential-ecr-login": executable file not found in $PATH"#,
        "secret \"regcred\" not found",
        "failed to do request: Head \"https://reg.example/v2/\": host not found",
        "signature verification: certificate chain not found",
    ] {
        assert_ne!(said(text), Some(CauseId::KF601), "{text}");
    }
}

/// While an agent is away, and while it sends what it saw meanwhile, no call counts as in flight and
/// no kubelet as quiet.
#[test]
fn nobody_is_accused_by_what_is_on_its_way() {
    let path = in_repository("fixtures/sessions/S10-pleg.kflow.zst");
    let session = kflow_model::session::load(&path).expect("fixture");
    let mut w = World::new();
    let mut hangs = None;
    let hanging = |w: &World, now| !Cluster::gather(w, now).hanging.is_empty();
    for o in &session.observations {
        w.observe(o);
        let now = o.stamp.seen;
        if o.source == Source::Cri && hanging(&w, now) {
            hangs = Some(now);
            break;
        }
    }
    let now = hangs.expect("its runtime stands still");
    let mut note = |kind| {
        let note = WatchNote {
            resource: WatchNote::CALLS.into(),
            kind,
            scope: "".into(),
            detail: "".into(),
            failure: None,
        };
        w.observe(&Arc::new(Observation {
            stamp: Stamp::exact(now),
            source: Source::Kflow,
            body: Body::Watch(Box::new(note)),
        }));
        let later = now.plus(60 * SECOND);
        let quiet = Cluster::gather(&w, later).node_quiet;
        let quiet = later.since(quiet.expect("its kubelet was heard"));
        (hanging(&w, now), quiet > 50 * SECOND)
    };
    assert_eq!(note(WatchKind::ListBegin), (false, false));
    assert_eq!(note(WatchKind::ListBegin), (false, false));
    assert_eq!(note(WatchKind::ListEnd), (true, true));
}
