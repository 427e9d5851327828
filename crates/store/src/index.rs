//! Which pod was on which node when: an index beside the segments, so that a pod is found without reading them.
//!
//! An index object is JSON lines compressed by zstd: a head with the version, then one row per pod. Merging two
//! indexes takes all rows, and for a pod in both the union of their times. The result does not depend on the order or
//! the number of merges.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use kflow_model::scope::{is_uid_begin, pod_asked};
use kflow_model::{Body, Evidence, Nanos, Text};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use crate::layout::NO_NODE;

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;
/// zstd level: a merged hour of a thousand nodes is some megabytes of rows.
const LEVEL: i32 = 9;

#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(rename = "kflow_pods")]
    version: u32,
}

/// A pod in the segments of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// `metadata.uid`; empty if nothing in the segments told it.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub uid: Text,
    pub namespace: Text,
    pub name: Text,
    /// The node that the pod is bound to; empty if it is not bound.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub node: Text,
    /// The node whose segments contain the pod, or [`NO_NODE`].
    pub recorder: Text,
    /// Begin of the first segment that contains the pod, and end of the last, ns.
    pub begin: Nanos,
    pub end: Nanos,
}

/// Why an index object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("it is damaged: {0}")]
    Damaged(io::Error),
    #[error(
        "it has version {0} of the index of pods, and this kflow reads up to {VERSION}: use a newer kflow"
    )]
    Newer(u32),
}

/// The key of a row: recorder and UID; without a UID also namespace and name.
type Key = (Text, Text, Text, Text);

/// Rows of pods, one per pod and recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    rows: BTreeMap<Key, Row>,
    /// Damaged lines that were left out.
    pub damaged: u64,
}

impl Index {
    /// Returns the pods in the observations of a segment of `recorder` from `begin` to `end`.
    pub fn of<'a>(
        observations: impl IntoIterator<Item = &'a Evidence>,
        recorder: &str,
        (begin, end): (Nanos, Nanos),
    ) -> Self {
        let mut index = Self::default();
        index.tell(observations, recorder, (begin, end));
        index.told()
    }

    /// Adds the pods in some of the segment's observations; call [`told`](Self::told) after the last ones.
    pub(crate) fn tell<'a>(
        &mut self,
        observations: impl IntoIterator<Item = &'a Evidence>,
        recorder: &str,
        (begin, end): (Nanos, Nanos),
    ) {
        // Calls and log lines of a node are about pods on that node.
        let own = if recorder == NO_NODE { "" } else { recorder };
        for o in observations {
            let (pod, node) = match &o.body {
                Body::Pod(p) => ((&p.uid.0, &p.namespace, &p.name), p.spec.node.clone()),
                Body::CallStart(c) => (names(&c.subject.pod), Text::new(own)),
                Body::CallEnd(c) => (names(&c.subject.pod), Text::new(own)),
                Body::Log(l) => (names(&l.pod), Text::new(own)),
                // Of an old pod often only Events are left. They do not say which node the pod is on.
                Body::Event(e) if e.object.kind == "Pod" => (
                    (&e.object.uid, &e.object.namespace, &e.object.name),
                    Text::default(),
                ),
                _ => continue,
            };
            let (uid, namespace, name) = pod;
            if name.is_empty() {
                continue;
            }
            self.add(Row {
                uid: uid.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
                node,
                recorder: recorder.into(),
                begin,
                end,
            });
        }
    }

    /// Drops rows without a UID if another row has the pod's UID: a kubelet's log lines have none.
    #[must_use]
    pub(crate) fn told(mut self) -> Self {
        let of = |r: &Row| (r.recorder.clone(), r.namespace.clone(), r.name.clone());
        let with: BTreeSet<_> = self
            .rows
            .values()
            .filter(|r| !r.uid.is_empty())
            .map(of)
            .collect();
        self.rows
            .retain(|_, r| !r.uid.is_empty() || !with.contains(&of(r)));
        self
    }

    /// Adds a row, merging it with the pod's row if there is one.
    pub fn add(&mut self, row: Row) {
        // A pod is identified by its UID, or without one by its name.
        let (namespace, name) = if row.uid.is_empty() {
            (row.namespace.clone(), row.name.clone())
        } else {
            (Text::default(), Text::default())
        };
        let key = (row.recorder.clone(), row.uid.clone(), namespace, name);
        match self.rows.entry(key) {
            std::collections::btree_map::Entry::Vacant(v) => drop(v.insert(row)),
            std::collections::btree_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                // A pod is bound once and keeps its name. If rows differ nevertheless, `max` gives a result that no
                // order changes.
                known.node = known.node.clone().max(row.node);
                known.namespace = known.namespace.clone().max(row.namespace);
                known.name = known.name.clone().max(row.name);
                known.begin = known.begin.min(row.begin);
                known.end = known.end.max(row.end);
            }
        }
    }

    /// Adds all rows of another index.
    pub fn merge(&mut self, other: Self) {
        self.damaged += other.damaged;
        for row in other.rows.into_values() {
            self.add(row);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// The rows, sorted by recorder.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Returns a hash of the rows, and the object's bytes.
    pub fn encode(&self) -> io::Result<(u64, Vec<u8>)> {
        let mut text = Vec::new();
        serde_json::to_writer(&mut text, &Head { version: VERSION })?;
        for row in self.rows.values() {
            text.push(b'\n');
            serde_json::to_writer(&mut text, row)?;
        }
        text.push(b'\n');
        let hash = SipHasher13::new().hash(&text);
        Ok((hash, zstd::bulk::compress(&text, LEVEL)?))
    }

    /// Reads the bytes of an object.
    pub fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let text = zstd::stream::decode_all(bytes).map_err(IndexError::Damaged)?;
        let mut lines = text.split(|b| *b == b'\n');
        let head = lines.next().unwrap_or_default();
        let head: Head = serde_json::from_slice(head).map_err(|e| IndexError::Damaged(e.into()))?;
        if head.version > VERSION {
            return Err(IndexError::Newer(head.version));
        }
        let mut index = Self::default();
        for line in lines.filter(|l| !l.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(row) => index.add(row),
                Err(_) => index.damaged += 1,
            }
        }
        Ok(index)
    }
}

fn names(pod: &kflow_model::id::PodRef) -> (&Text, &Text, &Text) {
    (&pod.uid.0, &pod.namespace, &pod.name)
}

/// The pods that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    namespace: Option<String>,
    word: String,
    /// Matches all pods whose names begin with `word`: those of an owner, or with nothing all of a namespace.
    begins: bool,
}

impl Asked {
    /// Parses `namespace/name`, `name`, `pod/name`, a UID or the start of one. `namespace` applies to
    /// a name without one.
    pub fn pod(query: &str, namespace: Option<&str>) -> Self {
        let query = pod_asked(query);
        let (of, word) = match query.split_once('/') {
            Some((of, name)) => (Some(of), name),
            None => (namespace, query),
        };
        Self {
            namespace: of.map(str::to_owned),
            word: word.to_owned(),
            begins: false,
        }
    }

    /// Asks for the pods of an owner: their names begin with its name and a dash, as ReplicaSets, Jobs and other
    /// controllers name them.
    pub fn made_by(name: &str, namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            word: format!("{name}-"),
            begins: true,
        }
    }

    /// Asks for all pods of a namespace.
    pub fn within(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            word: String::new(),
            begins: true,
        }
    }

    /// True when the pods of an owner or of a namespace are asked for, not one pod.
    pub const fn is_of_several(&self) -> bool {
        self.begins
    }

    pub fn is(&self, row: &Row) -> bool {
        let of = self.namespace.as_deref();
        if of.is_some_and(|of| row.namespace != *of) {
            return false;
        }
        if self.begins {
            return row.name.starts_with(&self.word);
        }
        row.name == *self.word
            || row.uid == *self.word
            || (is_uid_begin(&self.word) && row.uid.starts_with(&self.word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(uid: &str, node: &str, recorder: &str, begin: i64, end: i64) -> Row {
        Row {
            uid: uid.into(),
            namespace: "shop".into(),
            name: format!("web-{uid}").into(),
            node: node.into(),
            recorder: recorder.into(),
            begin: Nanos(begin),
            end: Nanos(end),
        }
    }

    fn index(rows: &[Row]) -> Index {
        let mut index = Index::default();
        rows.iter().cloned().for_each(|r| index.add(r));
        index
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let one =
            (0..4_u8, 0..2_u8, 0..3_u8, 0..100_i64, 0..100_i64).prop_map(|(u, n, r, b, e)| {
                let node = if n == 0 {
                    String::new()
                } else {
                    format!("n{u}")
                };
                row(&format!("u{u}"), &node, &format!("n{r}"), b, b + e)
            });
        prop::collection::vec(one, 0..12)
    }

    proptest! {
        /// Two processes that compact at once, or an object that is sent again, change nothing.
        #[test]
        fn indexes_become_one_in_any_order_and_any_number_of_times(a in rows(), b in rows(), c in rows()) {
            let (a, b, c) = (index(&a), index(&b), index(&c));
            let join = |all: &[&Index]| all.iter().fold(Index::default(), |mut i, o| {
                i.merge((*o).clone());
                i
            });
            let whole = join(&[&a, &b, &c]);
            prop_assert_eq!(&join(&[&c, &a, &b, &a]), &whole);
            prop_assert_eq!(&join(&[&a, &join(&[&b, &c])]), &whole);
            let object = whole.encode().unwrap();
            prop_assert_eq!(&object, &join(&[&c, &b, &a]).encode().unwrap());
            prop_assert_eq!(&Index::decode(&object.1).unwrap(), &whole);
        }
    }

    #[test]
    fn a_pod_is_asked_for_by_every_name_that_it_has() {
        let uid = "0a1b2c3d-0000-4000-8000-000000000000";
        let mut r = row(uid, "n1", "n1", 0, 1);
        r.name = "web-6f-x".into();
        for (query, namespace, is) in [
            ("web-6f-x", None, true),
            ("shop/web-6f-x", None, true),
            ("pod/web-6f-x", Some("shop"), true),
            ("web-6f-x", Some("other"), false),
            ("other/web-6f-x", None, false),
            (uid, None, true),
            ("0a1b2c3d", None, true),
            ("0a1b2", None, false),
            ("web-6f", None, false),
        ] {
            assert_eq!(
                Asked::pod(query, namespace).is(&r),
                is,
                "{query} {namespace:?}"
            );
        }
        assert!(Asked::made_by("web", Some("shop")).is(&r));
        assert!(!Asked::made_by("we", None).is(&r));
        assert!(Asked::within("shop").is(&r));
        assert!(!Asked::within("web").is(&r));
    }

    #[test]
    fn what_is_damaged_is_counted_and_what_is_newer_is_refused() {
        let line = |text: &str| zstd::bulk::compress(text.as_bytes(), 1).unwrap();
        let good = serde_json::to_string(&row("u", "n", "n", 0, 1)).unwrap();
        let read = Index::decode(&line(&format!("{{\"kflow_pods\":1}}\n{good}\n{{x\n"))).unwrap();
        assert_eq!((read.len(), read.damaged), (1, 1));
        let newer = Index::decode(&line("{\"kflow_pods\":2}\n")).unwrap_err();
        assert!(newer.to_string().contains("newer kflow"), "{newer}");
        for bad in [b"".as_slice(), b"x", &line(""), &line("{}\n")] {
            assert!(matches!(Index::decode(bad), Err(IndexError::Damaged(_))));
        }
    }
}
