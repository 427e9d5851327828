//! Reads the names of pods, nodes and other objects in a recording, fast enough for shell completion: lines of other
//! kinds are not parsed, and of these lines only the names are.

use std::collections::BTreeSet;
use std::path::Path;

use memchr::memmem::Finder;
use serde::Deserialize;

use super::{Reader, SessionError};

/// Names of everything that existed at any time of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Namespace and name of each pod.
    pub pods: BTreeSet<(String, String)>,
    pub nodes: BTreeSet<String>,
    /// Kind, namespace and name of each object.
    pub objects: BTreeSet<(String, String, String)>,
}

impl Names {
    /// Returns the namespaces of the pods and objects.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let of_pods = self.pods.iter().map(|(ns, _)| ns.as_str());
        let of_objects = self.objects.iter().map(|(_, ns, _)| ns.as_str());
        of_pods
            .chain(of_objects)
            .filter(|ns| !ns.is_empty())
            .collect()
    }

    /// Adds the names in a block of whole lines.
    fn take(&mut self, block: &[u8], finders: &[Finder<'_>]) {
        for finder in finders {
            let mut rest = block;
            while let Some(at) = finder.find(rest) {
                let (before, after) = rest.split_at_checked(at).unwrap_or((rest, &[]));
                let word = finder.needle().len();
                if !is_key_of_object(after.get(word..).unwrap_or_default()) {
                    rest = after.get(word..).unwrap_or_default();
                    continue;
                }
                let begin = memchr::memrchr(b'\n', before).map_or(0, |n| n + 1);
                let end = memchr::memchr(b'\n', after).map_or(rest.len(), |n| at + n);
                if let Some(Ok(line)) = rest.get(begin..end).map(serde_json::from_slice::<Line>) {
                    self.add(line.body);
                }
                rest = rest.get(end..).unwrap_or_default();
            }
        }
    }

    fn add(&mut self, body: Body) {
        if let Some(p) = body.pod {
            if !p.spec.node.is_empty() {
                self.nodes.insert(p.spec.node);
            }
            if let Some(o) = p.owner {
                self.objects.insert((o.kind, p.namespace.clone(), o.name));
            }
            self.pods.insert((p.namespace, p.name));
        }
        if let Some(n) = body.node {
            self.nodes.insert(n.name);
        }
        if let Some(Named { object: o }) = body.object {
            self.objects.insert((o.kind, o.namespace, o.name));
        }
    }
}

/// True when the text before `rest` is a key whose value is an object. In many log lines the same word is a value.
fn is_key_of_object(rest: &[u8]) -> bool {
    let mut signs = rest.iter().filter(|b| !b.is_ascii_whitespace());
    signs.next() == Some(&b':') && signs.next() == Some(&b'{')
}

/// Returns the names in a recording. It has to decompress and search the whole file.
pub fn names(path: &Path) -> Result<Names, SessionError> {
    let mut names = Names::default();
    let finders = ["\"pod\"", "\"node\"", "\"object\""].map(Finder::new);
    Reader::open(path)?.blocks(|block| names.take(block, &finders));
    Ok(names)
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "b")]
    body: Body,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    pod: Option<Pod>,
    node: Option<Node>,
    object: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    #[serde(rename = "ns")]
    namespace: String,
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "ow")]
    owner: Option<Object>,
    #[serde(rename = "sp")]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    node: String,
}

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "n")]
    name: String,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "o")]
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(rename = "k")]
    kind: String,
    #[serde(rename = "ns", default)]
    namespace: String,
    #[serde(rename = "n")]
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_objects_are_read_and_however_they_are_spaced() {
        let lines = [
            r#"{"kflow":1,"tool":"t","created":1,"node":"not-this"}"#,
            r#"{"t":1,"s":1,"src":"kube","b":{"pod":{"ev":"added","u":"u","ns":"shop","n":"web-0","ow":{"k":"ReplicaSet","n":"web"},"sp":{"node":"n1"}}}}"#,
            r#"{ "b": { "pod" : { "n": "web-1", "ns": "shop" } }, "src": "kube" }"#,
            r#"{"t":1,"s":1,"src":"kubelet","b":{"log":{"m":"x","f":[["pod","shop/ghost"],["node","ghost"]]}}}"#,
            r#"{"t":1,"s":1,"src":"kube","b":{"node":{"n":"n2"}}}"#,
            r#"{"t":1,"s":1,"src":"kube","b":{"object":{"o":{"k":"Job","ns":"batch","n":"j"}}}}"#,
            r#"{"t":1,"b":{"pod":{"n":"cut"#,
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.kflow");
        std::fs::write(&path, lines.join("\n")).unwrap();
        let found = names(&path).unwrap();
        let pod = |ns: &str, name: &str| (ns.to_owned(), name.to_owned());
        assert_eq!(
            found.pods,
            BTreeSet::from([pod("shop", "web-0"), pod("shop", "web-1")])
        );
        let nodes: Vec<&str> = found.nodes.iter().map(String::as_str).collect();
        assert_eq!(nodes, ["n1", "n2"]);
        let kinds: Vec<&str> = found.objects.iter().map(|o| o.0.as_str()).collect();
        assert_eq!(kinds, ["Job", "ReplicaSet"]);
        assert_eq!(found.namespaces(), BTreeSet::from(["batch", "shop"]));
        assert!(names(&dir.path().join("none")).is_err());
    }
}
