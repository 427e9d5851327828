//! Which nodes exist: by complete lists of nodes, and by the watch after them.

use std::sync::Arc;

use super::NodeState;
use kflow_model::Evidence;
use kflow_model::{Body, Nanos, gap::WatchKind, pod::WatchEvent};

/// Number of notes of node lists that are kept: each list has one at its begin and one at its end.
const KEEP: usize = 64;

/// Prefix of the scope of a list of one node.
const NAMED: &str = "metadata.name=";

/// Whether a node exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence<'w> {
    /// The node was listed or seen, and not deleted since.
    Exists,
    /// The node was deleted, or a complete list of nodes does not contain it.
    Missing {
        /// The deletion, or the end of the list.
        evidence: &'w Evidence,
        /// The watch has broken since and delivered nothing afterwards: the node may have been created in between.
        stale: bool,
    },
    /// No complete list of nodes was seen.
    Unknown,
}

/// Begins and ends of complete lists of nodes, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeLists {
    notes: Arc<Vec<Evidence>>,
    broken: Option<Nanos>,
    heard: Option<Nanos>,
}

impl NodeLists {
    pub(crate) fn observe(&mut self, o: &Evidence) {
        let Body::Watch(n) = &o.body else { return };
        if n.resource != "nodes" {
            return;
        }
        match n.kind {
            WatchKind::Broken => self.broken = self.broken.max(Some(o.stamp.at)),
            WatchKind::Bookmark => self.heard = self.heard.max(Some(o.stamp.at)),
            // A list of one node says nothing about others, and a list by labels says nothing about any.
            WatchKind::ListBegin | WatchKind::ListEnd
                if n.scope.is_empty() || n.scope.starts_with(NAMED) =>
            {
                let at = self.notes.partition_point(|e| e < o);
                if self.notes.get(at) != Some(o) {
                    let notes = Arc::make_mut(&mut self.notes);
                    notes.insert(at, Arc::clone(o));
                    if notes.len() > KEEP {
                        notes.drain(..KEEP / 2);
                    }
                }
                self.heard = self.heard.max(Some(o.stamp.at));
            }
            WatchKind::ListBegin | WatchKind::ListEnd => {}
        }
    }

    /// Begin of the newest complete list that would contain the node, and the note of its end.
    fn newest(&self, name: &str) -> Option<(Nanos, &Evidence)> {
        let kind = |e: &Evidence| match &e.body {
            Body::Watch(n) if n.scope.strip_prefix(NAMED).is_none_or(|of| of == name) => {
                Some(n.kind)
            }
            _ => None,
        };
        let end = self
            .notes
            .iter()
            .rposition(|e| kind(e) == Some(WatchKind::ListEnd))?;
        let begin = self
            .notes
            .iter()
            .take(end)
            .rfind(|e| kind(e) == Some(WatchKind::ListBegin))?;
        Some((begin.stamp.at, self.notes.get(end)?))
    }

    pub(crate) fn presence<'w>(&'w self, name: &str, node: Option<&'w NodeState>) -> Presence<'w> {
        let list = self.newest(name);
        let seen = node.and_then(|n| {
            n.evidence.iter().rev().find_map(|o| match &o.body {
                Body::Node(n) => Some((o, n.event == WatchEvent::Deleted)),
                _ => None,
            })
        });
        let stale = self.broken > self.heard;
        match (seen, list) {
            (Some((evidence, true)), _) => Presence::Missing { evidence, stale },
            (Some((o, false)), Some((begin, evidence))) if o.stamp.at < begin => {
                Presence::Missing { evidence, stale }
            }
            (Some(_), _) => Presence::Exists,
            (None, Some((_, evidence))) => Presence::Missing { evidence, stale },
            (None, None) => Presence::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::{Observation, Source, Stamp, Text, gap::WatchNote, node::NodeSeen};

    fn at(s: i64, body: Body) -> Evidence {
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos::from_secs(s)),
            source: Source::Kube,
            body,
        })
    }
    fn note(s: i64, kind: WatchKind, scope: &str) -> Evidence {
        let note = WatchNote {
            resource: "nodes".into(),
            kind,
            scope: scope.into(),
            detail: Text::default(),
            failure: None,
        };
        at(s, Body::Watch(Box::new(note)))
    }
    fn node(s: i64, event: WatchEvent) -> NodeState {
        let seen = NodeSeen {
            event,
            name: "n1".into(),
            ..NodeSeen::default()
        };
        NodeState {
            name: "n1".into(),
            evidence: vec![at(s, Body::Node(Box::new(seen)))],
            ..NodeState::default()
        }
    }
    fn lists(notes: &[Evidence]) -> NodeLists {
        let mut lists = NodeLists::default();
        for n in notes {
            lists.observe(n);
        }
        lists
    }

    #[test]
    fn a_node_that_a_complete_list_lacks_does_not_exist() {
        use WatchKind::{Bookmark, Broken, ListBegin, ListEnd};
        let whole = [note(1, ListBegin, ""), note(3, ListEnd, "")];
        let missing = |l: &NodeLists, n: Option<&NodeState>| match l.presence("n1", n) {
            Presence::Missing { stale, .. } => Some(stale),
            Presence::Exists | Presence::Unknown => None,
        };
        let listed = lists(&whole);
        assert_eq!(missing(&listed, None), Some(false));
        assert_eq!(
            listed.presence("n1", Some(&node(2, WatchEvent::Listed))),
            Presence::Exists
        );
        // Seen before the list, and not in it.
        assert_eq!(
            missing(&listed, Some(&node(0, WatchEvent::Listed))),
            Some(false)
        );
        // Deleted after the list.
        assert_eq!(
            missing(&listed, Some(&node(9, WatchEvent::Deleted))),
            Some(false)
        );
        // A list of another node, a list that did not end, and no list at all say nothing about the node.
        let one = [
            note(1, ListBegin, "metadata.name=n2"),
            note(3, ListEnd, "metadata.name=n2"),
        ];
        for notes in [&one[..], &whole[..1], &[]] {
            assert_eq!(lists(notes).presence("n1", None), Presence::Unknown);
        }
        let one = lists(&one);
        assert!(matches!(one.presence("n2", None), Presence::Missing { .. }));
        // A broken watch may have missed the node's creation, until the watch delivers again.
        let mut broken = whole.to_vec();
        broken.push(note(5, Broken, ""));
        assert_eq!(missing(&lists(&broken), None), Some(true));
        broken.push(note(7, Bookmark, ""));
        assert_eq!(missing(&lists(&broken), None), Some(false));
    }
}
