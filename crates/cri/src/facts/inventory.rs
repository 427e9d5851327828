//! The sandboxes and containers that exist, and their events.

use std::hash::Hasher as _;

use rustc_hash::{FxHashMap, FxHasher};

use super::{Facts, container_state, cut, owner, pod, sandbox_state};
use crate::limits;
use crate::messages::{
    Container, ContainerEventResponse, ContainerStatus, ContainerStatusResponse,
    PodSandboxStatusResponse, Sandbox, SandboxMetadata, SandboxNetwork, SandboxStatus,
};
use crate::proto::{Malformed, Reader, Value, decode};
use kflow_model::cri::{
    CallKey, ContainerEvent, ContainerEventKind, InventoryItem, RuntimeState, Subject,
};
use kflow_model::{Nanos, Text};

fn ips(network: &SandboxNetwork<'_>) -> Vec<Text> {
    std::iter::once(network.ip)
        .chain(network.additional.items.iter().map(|p| p.ip))
        .filter(|ip| !ip.is_empty())
        .map(cut)
        .collect()
}

fn bare(subject: Subject, state: RuntimeState, created: i64) -> InventoryItem {
    InventoryItem {
        subject,
        state,
        created: Nanos(created),
        started: Nanos(0),
        finished: Nanos(0),
        exit_code: None,
        reason: Text::default(),
        ips: Vec::new(),
    }
}

fn sandbox_item(id: &str, m: &SandboxMetadata<'_>, state: i32, created: i64) -> InventoryItem {
    bare(
        Subject {
            pod: pod(m.uid, m.namespace, m.name),
            attempt: Some(m.attempt),
            sandbox_id: cut(id).into(),
            ..Subject::default()
        },
        sandbox_state(state).0,
        created,
    )
}

fn sandbox_status_item(status: &SandboxStatus<'_>) -> InventoryItem {
    InventoryItem {
        ips: ips(&status.network),
        ..sandbox_item(status.id, &status.metadata, status.state, status.created_at)
    }
}

fn container_status_item(status: &ContainerStatus<'_>, sandbox: &str) -> InventoryItem {
    let (state, _) = container_state(status.state);
    let exited = state == RuntimeState::Exited;
    InventoryItem {
        started: Nanos(status.started_at),
        finished: Nanos(status.finished_at),
        exit_code: exited.then_some(status.exit_code),
        reason: cut(status.reason),
        ..bare(
            Subject {
                pod: owner(&status.labels),
                attempt: Some(status.metadata.attempt),
                container: cut(status.metadata.name),
                sandbox_id: cut(sandbox).into(),
                container_id: cut(status.id).into(),
                image: cut(match status.image.user_specified_image {
                    "" => status.image.image,
                    image => image,
                }),
            },
            state,
            status.created_at,
        )
    }
}

/// Reads the answer of `PodSandboxStatus`: the sandbox, and its containers when the runtime lists them (evented PLEG).
pub(crate) fn sandbox_status_answer(
    bytes: &[u8],
    facts: &mut Facts,
) -> Result<(InventoryItem, Vec<InventoryItem>), Malformed> {
    let m: PodSandboxStatusResponse<'_> = decode(bytes)?;
    let item = sandbox_status_item(&m.status);
    facts.text("state", sandbox_state(m.status.state).1);
    facts.text("ips", &item.ips.join(","));
    facts.text("runtime_handler", m.status.runtime_handler);
    facts.subject = item.subject.clone();
    let containers = m
        .containers
        .items
        .iter()
        .map(|c| container_status_item(c, m.status.id))
        .collect();
    Ok((item, containers))
}

/// Reads the answer of `ContainerStatus`.
pub(crate) fn container_status_answer(
    bytes: &[u8],
    facts: &mut Facts,
) -> Result<InventoryItem, Malformed> {
    let m: ContainerStatusResponse<'_> = decode(bytes)?;
    let status = &m.status;
    let item = container_status_item(status, "");
    facts.text("state", container_state(status.state).1);
    if let Some(code) = item.exit_code {
        facts.shown("exit_code", code);
    }
    facts.text("reason", status.reason);
    facts.text("message", status.message);
    facts.number("created_at", status.created_at);
    facts.number("started_at", status.started_at);
    facts.number("finished_at", status.finished_at);
    facts.text("image_ref", status.image_ref);
    facts.text("log_path", status.log_path);
    facts.annotations(&status.annotations);
    facts.subject = item.subject.clone();
    Ok(item)
}

/// Fields of a listed sandbox that are read, as bits: id, metadata, state, creation.
const SANDBOX_FIELDS: u32 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;
/// Fields of a listed container that are read, as bits: id, sandbox, metadata, image, state, creation, labels.
const CONTAINER_FIELDS: u32 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8;

/// List items that were decoded, by a fingerprint of their content: when a list changes, most of its items have not.
#[derive(Debug, Default)]
pub(crate) struct Known {
    items: FxHashMap<u64, InventoryItem>,
    /// Fingerprints of the items of the list that [`Known::fingerprint`] read last.
    prints: Vec<u64>,
}

impl Known {
    /// Returns a number that stays the same while the fields of a list that are read stay the same. containerd lists
    /// in the order of a Go map, and Go writes the labels of each item in such an order too: neither order counts.
    pub(crate) fn fingerprint(&mut self, sandboxes: bool, bytes: &[u8]) -> Result<u64, Malformed> {
        self.prints.clear();
        let mut list = Reader::new(bytes);
        let mut sum = 0u64;
        while let Some((number, value)) = list.next()? {
            if let (1, Value::Bytes(item)) = (number, value) {
                let print = print_of(sandboxes, item)?;
                if self.prints.len() < limits::LIST_ITEMS {
                    self.prints.push(print);
                }
                sum = sum.wrapping_add(print);
            }
        }
        Ok(sum)
    }

    /// Appends the items of the answer that [`fingerprint`](Self::fingerprint) has just read, at most
    /// [`limits::LIST_ITEMS`]. Returns the number of all its items.
    pub(crate) fn read(
        &mut self,
        sandboxes: bool,
        bytes: &[u8],
        out: &mut Vec<InventoryItem>,
    ) -> Result<usize, Malformed> {
        if self.items.len() > 2 * self.prints.len() + 64 {
            self.items.clear();
        }
        out.reserve(self.prints.len());
        let mut prints = self.prints.iter();
        let mut list = Reader::new(bytes);
        let mut n = 0;
        while let Some((number, value)) = list.next()? {
            let (1, Value::Bytes(bytes)) = (number, value) else {
                continue;
            };
            n += 1;
            if out.len() >= limits::LIST_ITEMS {
                continue;
            }
            let print = prints.next();
            if let Some(known) = print.and_then(|p| self.items.get(p)) {
                out.push(known.clone());
                continue;
            }
            let item = if sandboxes {
                sandbox(bytes)
            } else {
                container(bytes)
            }?;
            if let Some(print) = print
                && self.items.len() < limits::KNOWN_ITEMS
            {
                self.items.insert(*print, item.clone());
            }
            out.push(item);
        }
        Ok(n)
    }
}

/// Returns the fingerprint of the fields of an item that are read.
fn print_of(sandboxes: bool, item: &[u8]) -> Result<u64, Malformed> {
    let read = if sandboxes {
        SANDBOX_FIELDS
    } else {
        CONTAINER_FIELDS
    };
    let mut fields = Reader::new(item);
    let mut of_item = u64::from(sandboxes);
    while let Some((number, value)) = fields.next()? {
        if number > 8 || read & 1 << number == 0 {
            continue;
        }
        let mut hasher = FxHasher::default();
        hasher.write_u32(number);
        match value {
            Value::Bytes(b) => hasher.write(b),
            Value::Varint(n) | Value::Fixed64(n) => hasher.write_u64(n),
            Value::Fixed32(n) => hasher.write_u32(n),
        }
        of_item = of_item.wrapping_add(hasher.finish());
    }
    // The sum is hashed once more, so that a field that moves from one item to another changes the list's fingerprint.
    let mut hasher = FxHasher::default();
    hasher.write_u64(of_item);
    Ok(hasher.finish())
}

fn sandbox(bytes: &[u8]) -> Result<InventoryItem, Malformed> {
    let m: Sandbox<'_> = decode(bytes)?;
    Ok(sandbox_item(m.id, &m.metadata, m.state, m.created_at))
}

fn container(bytes: &[u8]) -> Result<InventoryItem, Malformed> {
    let m: Container<'_> = decode(bytes)?;
    Ok(bare(
        Subject {
            pod: owner(&m.labels),
            attempt: Some(m.metadata.attempt),
            container: cut(m.metadata.name),
            sandbox_id: cut(m.sandbox_id).into(),
            container_id: cut(m.id).into(),
            image: cut(match m.image.user_specified_image {
                "" => m.image.image,
                image => image,
            }),
        },
        container_state(m.state).0,
        m.created_at,
    ))
}

/// Reads one message of `GetContainerEvents`: the event, and its time by the runtime's clock (0 when
/// the message has none).
pub(crate) fn container_event(bytes: &[u8]) -> Result<(ContainerEvent, Nanos), Malformed> {
    let m: ContainerEventResponse<'_> = decode(bytes)?;
    let kind = match m.kind {
        0 => ContainerEventKind::Created,
        1 => ContainerEventKind::Started,
        2 => ContainerEventKind::Stopped,
        3 => ContainerEventKind::Deleted,
        _ => return Err(Malformed),
    };
    let container = m.containers.items.iter().find(|c| c.id == m.container_id);
    let mut subject = Subject {
        pod: pod(
            m.sandbox.metadata.uid,
            m.sandbox.metadata.namespace,
            m.sandbox.metadata.name,
        ),
        sandbox_id: cut(m.sandbox.id).into(),
        container_id: cut(m.container_id).into(),
        ..Subject::default()
    };
    let mut happened = Nanos(m.created_at);
    let (mut exit_code, mut reason) = (None, Text::default());
    if let Some(c) = container {
        let item = container_status_item(c, "");
        subject.attempt = Some(c.metadata.attempt);
        subject.container = cut(c.metadata.name);
        subject.image = item.subject.image;
        if kind == ContainerEventKind::Stopped {
            (exit_code, reason) = (item.exit_code, item.reason);
            // The runtime creates the event later than the exit that it is about.
            if item.finished.0 > 0 {
                happened = item.finished;
            }
        }
    } else if m.container_id == m.sandbox.id && !m.sandbox.metadata.name.is_empty() {
        subject.attempt = Some(m.sandbox.metadata.attempt);
    }
    let event = ContainerEvent {
        key: CallKey::default(),
        kind,
        subject,
        exit_code,
        reason,
    };
    Ok((event, happened))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{int, len, map};

    fn listed(items: &[(&str, u64, &str)]) -> Vec<u8> {
        let item = |(id, state, name): &(&str, u64, &str)| {
            let fields = [
                len(1, id.as_bytes()),
                len(2, b"sandbox"),
                int(6, *state),
                map(8, "io.kubernetes.container.name", name),
                map(9, "io.kubernetes.container.restartCount", "0"),
            ];
            len(1, &fields.concat())
        };
        items.iter().flat_map(item).collect()
    }

    #[test]
    fn a_list_read_by_what_is_known_of_the_last_says_what_it_says_afresh() {
        let lists = [
            listed(&[("a", 0, "x"), ("b", 1, "y")]),
            listed(&[("b", 1, "y"), ("a", 1, "x"), ("c", 0, "z")]),
            listed(&[("c", 1, "z")]),
            listed(&[("a", 1, "x"), ("a", 1, "x")]),
        ];
        let mut known = Known::default();
        let mut prints = Vec::new();
        for list in lists {
            let read = |known: &mut Known| {
                let mut found = Vec::new();
                let print = known.fingerprint(false, &list).unwrap();
                let n = known.read(false, &list, &mut found).unwrap();
                (print, n, found)
            };
            let seen = read(&mut known);
            assert_eq!(seen, read(&mut Known::default()));
            assert_eq!(seen, read(&mut known), "again");
            prints.push(seen.0);
        }
        prints.dedup();
        assert_eq!(prints.len(), 4, "each list says something else");
    }
}
