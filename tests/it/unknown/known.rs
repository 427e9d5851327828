//! What can be read of an apiserver: a live look knows what an import of the same lists knows.

use super::api::{Act, Api};
use super::kflow;
use super::live::run;
use kflow_model::{clock, stamp::SECOND};
use serde_json::{Value, json};

/// A pod that waits on n1 for a volume for one node, which n2 has: what the lists of it have, by resource
/// (`storage.k8s.io/v1`, VolumeAttachment; the Event is the kubelet's, `pkg/kubelet/kubelet.go`, SyncPod).
fn lists() -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let ago = |s: i64| clock::now().plus(-s * SECOND).to_rfc3339_seconds();
    let (since, failed, before) = (ago(600), ago(60), ago(7200));
    let meta = |name: &str, namespace: Option<&str>, created: &str| {
        let mut meta = json!({"name": name, "uid": format!("uid-{name}"), "resourceVersion": "900", "creationTimestamp": created});
        if let Some(namespace) = namespace {
            meta["namespace"] = namespace.into();
        }
        meta
    };
    let ready =
        |status: &str| json!({"type": "Ready", "status": status, "lastTransitionTime": since});
    let node = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": meta(name, None, &before),
            "status": {"conditions": [ready("True")]},
        })
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": meta("db-0", Some("shop"), &since),
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "db", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
        "status": {
            "phase": "Pending", "startTime": since,
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
                {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": since},
                ready("False"),
            ],
            "containerStatuses": [{
                "name": "db", "image": "db:1", "imageID": "", "ready": false, "started": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating"}},
            }],
        },
    });
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": meta("db-0.1", Some("shop"), &failed), "type": "Warning",
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "db-0", "uid": "uid-db-0"},
        "reason": "FailedMount", "source": {"component": "kubelet", "host": "n1"}, "count": 4,
        "message": "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[]: context deadline exceeded",
        "firstTimestamp": failed, "lastTimestamp": failed,
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta("data", Some("shop"), &before),
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1", "storageClassName": "fast"},
        "status": {"phase": "Bound"},
    });
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": meta("csi-5e1f", None, &before),
        "spec": {"attacher": "csi.example", "nodeName": "n2", "source": {"persistentVolumeName": "pv-1"}},
        "status": {"attached": true},
    });
    vec![
        ("pods", "PodList", vec![pod]),
        ("nodes", "NodeList", vec![node("n1"), node("n2")]),
        ("events", "EventList", vec![event]),
        (
            "persistentvolumeclaims",
            "PersistentVolumeClaimList",
            vec![claim],
        ),
        (
            "volumeattachments",
            "VolumeAttachmentList",
            vec![attachment],
        ),
    ]
}

#[test]
fn a_live_look_knows_by_its_attachment_which_node_has_a_volume_as_an_import_does() {
    let lists = lists();
    let items: Vec<(&str, &'static str)> = lists
        .iter()
        .map(|(resource, _, items)| {
            let text = Value::from(items.clone()).to_string();
            // The server's answers live as long as the test.
            (*resource, &*text.leak())
        })
        .collect();
    let api = Api::start(move |a| {
        let its = items.iter().find(|(resource, _)| *resource == a.resource);
        its.map_or(Act::Serve, |(_, items)| Act::Items(items))
    });
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("of.kflow").display().to_string();
    let mut import = vec!["import".to_owned(), "-O".to_owned(), session.clone()];
    for (resource, kind, items) in &lists {
        let file = dir.path().join(format!("{resource}.json"));
        let list = json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "1000"}, "items": items});
        std::fs::write(&file, list.to_string()).unwrap();
        import.extend(["--watch".to_owned(), file.display().to_string()]);
    }
    let import: Vec<&str> = import.iter().map(String::as_str).collect();
    let imported = kflow(&import);
    assert_eq!(imported.code, Some(0), "{}{}", imported.out, imported.err);
    for said in [
        run(&api, &["why", "shop/db-0"], None),
        kflow(&["why", "shop/db-0", "-s", &session]),
    ] {
        let all = format!("{}{}", said.out, said.err);
        assert_eq!(said.code, Some(1), "{all}");
        for words in ["KF405", "pv-1", "attached to node n2"] {
            let out = crate::one_line(&said.out);
            assert!(out.contains(words), "{words}: {all}");
        }
    }
}
