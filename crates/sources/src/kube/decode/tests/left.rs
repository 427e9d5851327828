//! Nothing that is read is lost without being counted.

use serde_json::{Value, json};

use super::super::object;
use super::*;
use crate::LineDecoder;

/// The parts of an object without which it cannot be told from another, or whether it was ever in the API.
const NEEDED: [&str; 9] = [
    "/metadata",
    "/metadata/creationTimestamp",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/resourceVersion",
    "/metadata/uid",
    "/spec",
    "/status",
    "/involvedObject",
];

/// Synthetic: what every object of the API has (k8s.io/apimachinery pkg/apis/meta/v1/types.go, `ObjectMeta`).
fn object_of(kind: &str, n: usize) -> Value {
    json!({
        "kind": kind, "apiVersion": "v1",
        "metadata": {
            "name": format!("web-{n}"), "namespace": "shop", "uid": format!("uid-{n}"), "resourceVersion": "7",
            "creationTimestamp": "2026-11-21T08:00:00Z",
        },
        "spec": {"replicas": 1},
        "status": {"phase": "Pending"},
        "reason": "Killing",
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": format!("web-{n}")},
    })
}

fn without(object: &Value, pointers: &[&str]) -> Value {
    let mut object = object.clone();
    for pointer in pointers {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        if let Some(Value::Object(parent)) = object.pointer_mut(parent) {
            parent.remove(key);
        }
    }
    object
}

/// How many objects became observations, and how many were counted as left out.
fn taken(text: &str) -> (usize, usize) {
    let mut decoder = KubeLines::new(TimeHint::default());
    let mut out = Vec::new();
    let mut fed: Vec<Fed> = text
        .lines()
        .map(|line| decoder.line(line.as_bytes(), &mut out))
        .collect();
    fed.push(decoder.finish(&mut out));
    let left = fed.into_iter().chain(decoder.left()).filter_map(Fed::left);
    (out.len(), left.count())
}

#[test]
fn an_object_that_lacks_what_is_needed_is_taken_or_counted() {
    let others = ["Pod", "Event", "Node", "Secret"];
    let kinds = object::TABLE.iter().map(|(kind, _)| *kind).chain(others);
    let pairs = NEEDED
        .iter()
        .flat_map(|a| NEEDED.iter().map(move |b| [*a, *b]));
    let lacks: Vec<[&str; 2]> = pairs.collect();
    for kind in kinds {
        let (first, last) = (object_of(kind, 1), object_of(kind, 3));
        for lack in &lacks {
            let odd = without(&object_of(kind, 2), lack);
            let all = [&first, &odd, &odd, &last];
            let bare = all.map(|o| without(o, &["/kind", "/apiVersion"]));
            for (objects, text) in [
                (1, odd.to_string()),
                (1, serde_json::to_string_pretty(&odd).unwrap()),
                (1, json!({"type": "ADDED", "object": odd}).to_string()),
                (4, all.map(Value::to_string).concat()),
                (4, all.map(Value::to_string).join("\n")),
                (
                    4,
                    json!({"kind": "List", "apiVersion": "v1", "items": all}).to_string(),
                ),
                (
                    4,
                    json!({"kind": format!("{kind}List"), "apiVersion": "v1", "items": bare})
                        .to_string(),
                ),
                (4, json!({"items": all}).to_string()),
                (4, json!(all).to_string()),
            ] {
                let (taken, left) = taken(&text);
                assert_eq!(
                    taken + left,
                    objects,
                    "{kind} without {lack:?}: {taken} taken, {left} left of {text}"
                );
            }
        }
        let whole = json!({"kind": "List", "items": [first, last]}).to_string();
        assert_eq!(taken(&whole), (2, 0), "{kind}");
    }
}

/// The row of a table that has no name, and one that is cut.
#[test]
fn a_row_that_cannot_be_read_is_counted() {
    for (rows, text) in [
        (
            3,
            "NAME   READY   STATUS    RESTARTS   AGE\nweb-0   1/1   Running   0   3m\nweb-1   0/1\nweb-2   1/1   Running   0   3m\n",
        ),
        (
            3,
            "LAST SEEN   TYPE      REASON      OBJECT      MESSAGE\n3m   Warning   BackOff   pod/web-0   Back-off\n3m   Warning\n2m   Warning   BackOff   pod/web-1   Back-off\n",
        ),
        (
            2,
            "NAME    STATUS   ROLES    AGE   VERSION\nnode1   Ready    <none>   5d    v1.27.3\nnode2   Ready\n",
        ),
    ] {
        let (taken, left) = taken(text);
        assert_eq!(taken + left, rows, "{taken} taken, {left} left of {text}");
    }
}
