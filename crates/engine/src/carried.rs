//! What a stretch of a log needs of the time before it.

use std::collections::BTreeMap;

use kflow_model::gap::WatchKind;
use kflow_model::pod::WatchEvent::Deleted;
use kflow_model::{Body, Evidence, Text};

/// The newest state of what exists, the newest complete lists, and the beginnings of what has not ended: what the later
/// files of a rotated recording, a recording that is begun late and a picture of the past begin with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    newest: BTreeMap<Carry, Evidence>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carry {
    Node(Text),
    Object(Text, Text, Text),
    Pod(Text),
    /// Resource, scope; whether it is the end of a list.
    List(Text, Text, bool),
    /// A list or watch that fails, until it works again.
    Failing(Text, Text),
    Conn(u32),
    Call(u32, u32),
    Inventory(bool),
}

impl Carried {
    /// Takes an observation that the stretch does not hold, in order of arrival.
    pub(crate) fn take(&mut self, o: Evidence) {
        let (key, ended) = match &o.body {
            Body::Pod(p) => (Carry::Pod(p.uid.0.clone()), p.event == Deleted),
            Body::Node(n) => (Carry::Node(n.name.clone()), n.event == Deleted),
            Body::Object(b) => (
                Carry::Object(
                    b.object.kind.clone(),
                    b.object.namespace.clone(),
                    b.object.name.clone(),
                ),
                b.event == Deleted,
            ),
            Body::Watch(n) => {
                let failing = Carry::Failing(n.resource.clone(), n.scope.clone());
                match n.kind {
                    WatchKind::Broken => (failing, false),
                    WatchKind::Bookmark => (failing, true),
                    WatchKind::ListBegin | WatchKind::ListEnd => {
                        let end = n.kind == WatchKind::ListEnd;
                        if end {
                            self.newest.remove(&failing);
                        }
                        (Carry::List(n.resource.clone(), n.scope.clone(), end), false)
                    }
                }
            }
            Body::Conn(c) if !c.open => {
                self.newest
                    .retain(|k, _| !matches!(k, Carry::Call(conn, _) if *conn == c.conn));
                (Carry::Conn(c.conn), true)
            }
            Body::Conn(c) => (Carry::Conn(c.conn), false),
            Body::CallStart(c) => (Carry::Call(c.key.conn, c.key.stream), false),
            Body::CallEnd(c) => (Carry::Call(c.key.conn, c.key.stream), true),
            Body::Inventory(i) if i.complete => (Carry::Inventory(i.sandboxes), false),
            _ => return,
        };
        if ended {
            self.newest.remove(&key);
        } else {
            self.newest.insert(key, o);
        }
    }

    /// In order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Evidence> {
        let mut all: Vec<&Evidence> = self.newest.values().collect();
        all.sort_by_key(|o| o.stamp.seen);
        all.into_iter()
    }

    /// How much it is.
    pub(crate) fn len(&self) -> usize {
        self.newest.len()
    }
}
