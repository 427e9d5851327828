//! Finds pods and containers in logs, however a log names them.

use aho_corasick::AhoCorasick;
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::LazyLock;

use kflow_model::{PodNames, PodRef};

/// Most pods that one line may name: `SyncLoop ADD` after a restart names every pod of the node (110 by default).
const PODS_MAX: usize = 1024;

/// Returns true for a UUID, or the 32 hex digits of a static pod's config hash.
pub(crate) fn is_uid(s: &str) -> bool {
    let b = s.as_bytes();
    match b.len() {
        32 => b.iter().all(u8::is_ascii_hexdigit),
        36 => b.iter().enumerate().all(|(i, c)| match i {
            8 | 13 | 18 | 23 => *c == b'-',
            _ => c.is_ascii_hexdigit(),
        }),
        _ => false,
    }
}

/// Returns true for a container or sandbox id: 64 hex digits in practice, at least 12 (docker's short form).
pub(crate) fn is_hex_id(s: &str) -> bool {
    (12..=64).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns a container id without what surrounds it: `containerd://x`, `{"Type":"containerd","ID":"x"}` and the older
/// `{containerd x}` and `{Type:containerd ID:x}` are all `x`. `None` when there is no id in it.
pub(crate) fn bare_id(value: &str) -> Option<&str> {
    let inner = match value.strip_prefix('&').unwrap_or(value).strip_prefix('{') {
        None => value,
        Some(s) => {
            let s = s.strip_suffix('}')?;
            match s.split_once("\"ID\":\"") {
                Some((_, id)) => id.split_once('"')?.0,
                None => s.rsplit([' ', ':']).next()?,
            }
        }
    };
    let id = inner.split_once("://").map_or(inner, |(_, id)| id);
    (!id.is_empty()
        && id.len() <= 128
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'))
    .then_some(id)
}

#[derive(Deserialize)]
struct ObjectName<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

impl ObjectName<'_> {
    fn pod(&self) -> Option<PodRef> {
        (!self.name.is_empty()).then(|| PodRef::by_name(&self.namespace, &self.name))
    }
}

/// Returns the pod in the value of `pod=`: `ns/name`, `name`, `name_ns(uid)`, a UID, or the JSON
/// object of JSON logging.
pub(crate) fn pod_value(v: &str) -> Option<PodRef> {
    if v.starts_with('{') {
        return serde_json::from_str::<ObjectName<'_>>(v).ok()?.pod();
    }
    if is_uid(v) {
        return Some(PodRef::by_uid(v));
    }
    if let Some((ns, name)) = v.split_once('/') {
        return (is_name(ns) && is_name(name)).then(|| PodRef::by_name(ns, name));
    }
    if let Some((names, uid)) = v.strip_suffix(')').and_then(|s| s.split_once('(')) {
        return underscored(names, uid);
    }
    if let Some((name, ns)) = v.split_once('_') {
        return (is_name(ns) && is_name(name)).then(|| PodRef::by_name(ns, name));
    }
    is_name(v).then(|| PodRef::by_name("", v))
}

/// Returns the pods in a list: `["ns/a","ns/b"]`, `[{"name":"a","namespace":"ns"}]`, the older `[ns/a ns/b]`, or
/// `null`.
pub(crate) fn pod_list(v: &str) -> Vec<PodRef> {
    if v.starts_with("[{") {
        return serde_json::from_str::<Vec<ObjectName<'_>>>(v)
            .unwrap_or_default()
            .iter()
            .take(PODS_MAX)
            .filter_map(ObjectName::pod)
            .collect();
    }
    v.trim_matches(['[', ']'])
        .split([',', ' '])
        .map(|p| p.trim_matches('"'))
        .filter(|p| !p.is_empty() && *p != "null")
        .take(PODS_MAX)
        .filter_map(pod_value)
        .collect()
}

/// Returns true for a Kubernetes object name: lower-case letters, digits, `-` and `.`.
fn is_name(s: &str) -> bool {
    !s.is_empty()
        && s.len() <= 253
        && s.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
}

/// Makes a pod of `name_ns` and a UID, which `format.Pod` prints as `name_ns(uid)`.
fn underscored(names: &str, uid: &str) -> Option<PodRef> {
    let (name, ns) = names.split_once('_')?;
    (is_name(name) && is_name(ns) && is_uid(uid)).then(|| {
        PodRef::from(PodNames {
            uid: uid.into(),
            namespace: ns.into(),
            name: name.into(),
        })
    })
}

/// The pods and the container that a free text names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    /// Pods, each once, in the order of the text.
    pub(crate) pods: Vec<PodRef>,
    /// The first container id with a scheme (`containerd://…`), or `Data:"…"` of an old PLEG event.
    pub(crate) container_id: Option<&'a str>,
}

impl Found<'_> {
    fn add(&mut self, p: PodRef) {
        if let Some(known) = self.pods.iter_mut().find(|k| same(k, &p)) {
            merge(known, &p);
        } else if self.pods.len() < PODS_MAX {
            self.pods.push(p);
        }
    }
}

/// Returns true when two references share a UID or a name, and nothing says that they are different pods.
fn same(a: &PodRef, b: &PodRef) -> bool {
    if !a.uid.is_empty() && !b.uid.is_empty() {
        return a.uid == b.uid;
    }
    !a.name.is_empty()
        && a.name == b.name
        && (a.namespace == b.namespace || a.namespace.is_empty() || b.namespace.is_empty())
}

fn merge(into: &mut PodRef, from: &PodRef) {
    if into.uid.is_empty() {
        into.uid.clone_from(&from.uid);
    }
    if into.name.is_empty() {
        into.name.clone_from(&from.name);
    }
    if into.namespace.is_empty() {
        into.namespace.clone_from(&from.namespace);
    }
}

/// Completes `pod` from the references in free text to the same pod. When `pod` is empty, it becomes the first of
/// them, and the others are returned.
pub(crate) fn fill(pod: &mut PodRef, found: Vec<PodRef>) -> Vec<PodRef> {
    let mut found = found.into_iter();
    if pod.is_empty() {
        if let Some(first) = found.next() {
            *pod = first;
        }
        return found.collect();
    }
    for f in found {
        if same(pod, &f) {
            merge(pod, &f);
        }
    }
    Vec::new()
}

static ANCHORS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(aho_corasick::MatchKind::LeftmostFirst)
        .build([
            "UniqueName: \"",
            "podName:",
            "pod ",
            "/pods/",
            "[v1/Pod,",
            "://",
            "Data:\"",
            "/pod",
            "-pod",
            "(",
        ])
        .ok()
});

/// Finds the pods and the container that free text names, in the forms that kubelet, controllers and apiserver use.
pub(crate) fn scan_prose(s: &str) -> Found<'_> {
    let mut found = Found::default();
    let Some(anchors) = ANCHORS.as_ref() else {
        return found;
    };
    for m in anchors.find_iter(s) {
        let (before, after) = (
            s.get(..m.start()).unwrap_or_default(),
            s.get(m.end()..).unwrap_or_default(),
        );
        match m.pattern().as_usize() {
            9 => {
                if let Some(p) = parenthesised(before, after) {
                    found.add(p);
                }
            }
            // A volume that is not attachable: `kubernetes.io/configmap/<uid>-<name>`.
            0 => {
                let unique = until(after, &['"']);
                let uid = unique.rsplit('/').next().and_then(|v| v.get(..36));
                if let Some(uid) = uid.filter(|u| is_uid(u)) {
                    found.add(PodRef::by_uid(uid));
                }
            }
            // A cgroup: `/kubepods/burstable/pod<uid>/<container id>`, `…-pod<uid>.slice/cri-containerd-<id>.scope`.
            7 | 8 => {
                let word = until(after, &['/', '.', ' ', '"']);
                let uid = word.replace('_', "-");
                if is_uid(&uid) {
                    found.add(PodRef::by_uid(uid));
                    let below = after.get(word.len()..).unwrap_or_default();
                    let below = below.strip_prefix(".slice").unwrap_or(below);
                    if let Some(name) = below.strip_prefix('/')
                        && let Some(id) = until(name, &['/', '.', ' ', '"']).rsplit('-').next()
                        && found.container_id.is_none()
                        && is_hex_id(id)
                    {
                        found.container_id = Some(id);
                    }
                }
            }
            1 => {
                let word = until(after, &[' ', '}']);
                if is_uid(word) {
                    found.add(PodRef::by_uid(word));
                }
            }
            2 => {
                let word = after.trim_start_matches(['"', '\'']);
                let word = until(word, &[' ', '"', '\'', ',', ':', ')', '(']);
                if (word.contains('/') || is_uid(word))
                    && let Some(p) = pod_value(word)
                {
                    found.add(p);
                } else if let Some((name, ns)) = dockers(after) {
                    found.add(PodRef::by_name(ns, name));
                }
            }
            3 => {
                let word = until(after, &['/', ' ', '"', '?', ',', ':', '\'']);
                if is_uid(word) {
                    found.add(PodRef::by_uid(word));
                } else if let Some((_, ns)) = before.rsplit_once("/namespaces/")
                    && is_name(ns)
                    && is_name(word)
                {
                    found.add(PodRef::by_name(ns, word));
                }
            }
            4 => {
                if let Some(p) = listed(after) {
                    found.add(p);
                }
            }
            _ => {
                let n = after.bytes().take_while(u8::is_ascii_hexdigit).count();
                let id = after.get(..n).unwrap_or_default();
                if found.container_id.is_none() && is_hex_id(id) {
                    found.container_id = Some(id);
                }
            }
        }
    }
    // `pod ns/name … /pods/<uid>/…`: one name and one UID in one sentence are one pod.
    if let [a, b] = found.pods.as_mut_slice()
        && (a.uid.is_empty() && b.name.is_empty() || a.name.is_empty() && b.uid.is_empty())
    {
        merge(a, b);
        found.pods.truncate(1);
    }
    found
}

fn until<'a>(s: &'a str, stops: &[char]) -> &'a str {
    s.find(stops).and_then(|n| s.get(..n)).unwrap_or(s)
}

/// Reads `"name_ns"`, as dockershim and its network plugins quote a pod without its UID (pkg/kubelet/dockershim/docker_sandbox.go, `getIP`).
fn dockers(after: &str) -> Option<(&str, &str)> {
    let (word, _) = after.strip_prefix('"')?.split_once('"')?;
    let (name, ns) = word.split_once('_')?;
    (is_name(name) && is_name(ns)).then_some((name, ns))
}

/// Reads `pod "name" (UID: "uid")` and `name_ns(uid)` from the text before and after the opening parenthesis.
fn parenthesised(before: &str, after: &str) -> Option<PodRef> {
    // Kubernetes 1.18 quotes the error (pkg/util/goroutinemap and pkg/volume/util/nestedpendingoperations): its quotation marks have marks.
    let quoted = ["UID: \"", "UID: \\\""];
    if let Some(uid) = quoted.iter().find_map(|begin| after.strip_prefix(begin)) {
        let uid = until(uid, &['"', '\\']);
        if !is_uid(uid) {
            return None;
        }
        let name = before
            .trim_end()
            .strip_suffix('"')
            .map(|b| b.strip_suffix('\\').unwrap_or(b))
            .and_then(|b| b.rsplit_once('"'))
            .filter(|(b, _)| b.strip_suffix('\\').unwrap_or(b).ends_with("pod "))
            .map_or("", |(_, name)| name);
        // Messages about unmounting print the UID in place of the name.
        let name = if is_name(name) && !is_uid(name) {
            name
        } else {
            ""
        };
        return Some(PodRef::from(PodNames {
            uid: uid.into(),
            name: name.into(),
            ..PodNames::default()
        }));
    }
    let uid = until(after, &[')']);
    if !is_uid(uid) {
        return None;
    }
    let names = before
        .rsplit(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')))
        .next()?;
    underscored(names, uid)
}

/// Reads `[v1/Pod, namespace: ns, name: n, uid: u]`, as the garbage collector prints it.
fn listed(after: &str) -> Option<PodRef> {
    let mut pod = PodRef::default();
    for part in until(after, &[']']).split(',') {
        match part.trim().split_once(": ") {
            Some(("namespace", v)) => pod.namespace = v.into(),
            Some(("name", v)) => pod.name = v.into(),
            Some(("uid", v)) if is_uid(v) => pod.uid = v.into(),
            _ => {}
        }
    }
    (!pod.is_empty()).then_some(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "4ac3c3e9-1ad8-496b-869a-7687fcb13acf";

    fn pod(uid: &str, ns: &str, name: &str) -> PodRef {
        PodRef::from(PodNames {
            uid: uid.into(),
            namespace: ns.into(),
            name: name.into(),
        })
    }

    #[test]
    fn every_form_of_a_pod_value_is_read() {
        for (text, want) in [
            ("s01/healthy", Some(pod("", "s01", "healthy"))),
            ("healthy", Some(pod("", "", "healthy"))),
            (UID, Some(pod(UID, "", ""))),
            (
                r#"{"name":"probed","namespace":"s27"}"#,
                Some(pod("", "s27", "probed")),
            ),
            (
                "static-web-node1_s17",
                Some(pod("", "s17", "static-web-node1")),
            ),
            (
                "crashing_s27(f9cc8b73-beb1-4564-811a-a1bb6e5e3057)",
                Some(pod(
                    "f9cc8b73-beb1-4564-811a-a1bb6e5e3057",
                    "s27",
                    "crashing",
                )),
            ),
            ("", None),
            ("a/b/c", None),
            ("null()", None),
        ] {
            assert_eq!(pod_value(text), want, "{text}");
        }
    }

    #[test]
    fn lists_of_pods_are_read_in_new_old_and_json_form() {
        let want = [pod("", "a", "x"), pod("", "b", "y")];
        for text in [
            r#"["a/x","b/y"]"#,
            "[a/x b/y]",
            r#"[{"name":"x","namespace":"a"},{"name":"y","namespace":"b"}]"#,
        ] {
            assert_eq!(pod_list(text), want, "{text}");
        }
        assert_eq!(pod_list("null"), []);
        assert_eq!(pod_list("[]"), []);
    }

    #[test]
    fn container_ids_lose_their_wrapping() {
        let id = "028f66a30f94b666bfca4bf2459fcbca807056e958aea0dd1f6b952252d5fefb";
        for text in [
            id.to_owned(),
            format!("containerd://{id}"),
            format!(r#"{{"Type":"containerd","ID":"{id}"}}"#),
            format!("{{containerd {id}}}"),
            format!("{{Type:docker ID:{id}}}"),
        ] {
            assert_eq!(bare_id(&text), Some(id), "{text}");
        }
        assert_eq!(bare_id(""), None);
        assert_eq!(bare_id("two words"), None);
    }

    #[test]
    fn prose_gives_up_its_pods() {
        for (text, want) in [
            (
                r#"MountVolume.SetUp succeeded for volume "cfg" (UniqueName: "kubernetes.io/configmap/4ac3c3e9-1ad8-496b-869a-7687fcb13acf-cfg") pod "healthy" (UID: "4ac3c3e9-1ad8-496b-869a-7687fcb13acf") "#,
                vec![pod(UID, "", "healthy")],
            ),
            // github.com/longhorn/longhorn/issues/1746
            (
                r#"Operation for "{volumeName:kubernetes.io/csi/driver.longhorn.io^pvc-den1vh podName: nodeName:}" failed. No retries permitted until 2020-08-30 12:44:47.750783453 +0000 UTC m=+4261.792536867 (durationBeforeRetry 2m2s). Error: "Volume not attached according to node status for volume \"den-longhorn-pv\" (UniqueName: \"kubernetes.io/csi/driver.longhorn.io^pvc-den1vh\") pod \"mongodb-replicaset-0\" (UID: \"f2567891-b015-4ca2-b89e-9728d3234fec\") ""#,
                vec![pod(
                    "f2567891-b015-4ca2-b89e-9728d3234fec",
                    "",
                    "mongodb-replicaset-0",
                )],
            ),
            (
                r#"UnmountVolume.TearDown succeeded for volume "kubernetes.io/empty-dir/4ac3c3e9-1ad8-496b-869a-7687fcb13acf-mem" pod "4ac3c3e9-1ad8-496b-869a-7687fcb13acf" (UID: "4ac3c3e9-1ad8-496b-869a-7687fcb13acf"). InnerVolumeSpecName "mem"."#,
                vec![pod(UID, "", "")],
            ),
            (
                r#"Operation for "{volumeName:kubernetes.io/configmap/x-v podName:4ac3c3e9-1ad8-496b-869a-7687fcb13acf nodeName:}" failed."#,
                vec![pod(UID, "", "")],
            ),
            (
                "back-off 10s restarting failed container=c pod=crash_s61(4ac3c3e9-1ad8-496b-869a-7687fcb13acf)",
                vec![pod(UID, "s61", "crash")],
            ),
            (
                r#"SyncLoop (ADD, "api"): "web_default(4ac3c3e9-1ad8-496b-869a-7687fcb13acf), b_kube-system(ff4d934cf370b424f4877ca51ef195c7)""#,
                vec![
                    pod(UID, "default", "web"),
                    pod("ff4d934cf370b424f4877ca51ef195c7", "kube-system", "b"),
                ],
            ),
            (
                "pod s01/healthy volume kube-api-access-76prz: performed write of new data to ts data directory: /var/lib/kubelet/pods/4ac3c3e9-1ad8-496b-869a-7687fcb13acf/volumes/kubernetes.io~projected/kube-api-access-76prz/..2026",
                vec![pod(UID, "s01", "healthy")],
            ),
            (
                "[v1/Pod, namespace: s36, name: job-dgs65, uid: 4ac3c3e9-1ad8-496b-869a-7687fcb13acf]",
                vec![pod(UID, "s36", "job-dgs65")],
            ),
            (
                "/api/v1/namespaces/s26/pods/web/log?follow=1",
                vec![pod("", "s26", "web")],
            ),
            (
                "node 'node1' cannot get unknown pod s37/resize",
                vec![pod("", "s37", "resize")],
            ),
            (
                r#"Volume detached for volume "tok" (UniqueName: "kubernetes.io/projected/4ac3c3e9-1ad8-496b-869a-7687fcb13acf-tok") on node "node1" DevicePath """#,
                vec![pod(UID, "", "")],
            ),
            ("waiting for pod sandbox (pause) changes", vec![]),
        ] {
            assert_eq!(scan_prose(text).pods, want, "{text}");
        }
    }

    #[test]
    fn a_cgroup_names_pod_and_container() {
        let id = "1e26726a70c20a00035c5de7f514c73bc60b58d9ffb7bccf2eb5b30b1bfb0117";
        for text in [
            format!(
                "Added event &{{/kubepods/burstable/pod{UID}/{id} 2026-11-21 00:31:48.9 +0000 UTC oom {{<nil> <nil>}}}}"
            ),
            format!(
                r#"Destroyed container: "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{id}.scope" (aliases: [])"#,
                UID.replace('-', "_")
            ),
        ] {
            let found = scan_prose(&text);
            assert_eq!(found.pods, [pod(UID, "", "")], "{text}");
            assert_eq!(found.container_id, Some(id), "{text}");
        }
    }

    #[test]
    fn a_named_pod_takes_the_uid_that_prose_adds_and_no_other() {
        let mut p = pod("", "s01", "healthy");
        let more = fill(
            &mut p,
            vec![
                pod("ff4d934cf370b424f4877ca51ef195c7", "", "other"),
                pod(UID, "", "healthy"),
            ],
        );
        assert_eq!((p, more), (pod(UID, "s01", "healthy"), vec![]));
    }
}
