//! What exists: sandboxes, containers, and their events.

use std::hash::Hasher as _;

use rustc_hash::FxHasher;

use super::{Facts, container_state, cut, owner, pod, sandbox_state};
use crate::model::cri::{ContainerEventKind, InventoryItem, RuntimeState, Subject};
use crate::model::{Nanos, Text};
use crate::source::cri::limits;
use crate::source::cri::messages::{
    Container, ContainerEventResponse, ContainerStatus, ContainerStatusResponse,
    PodSandboxStatusResponse, Sandbox, SandboxMetadata, SandboxNetwork, SandboxStatus,
};
use crate::source::cri::proto::{Malformed, Reader, Value, decode};

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

/// `PodSandboxStatus`: the sandbox, and its containers when the runtime tells (evented PLEG).
pub(in crate::source::cri) fn sandbox_status_answer(
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

/// `ContainerStatus`.
pub(in crate::source::cri) fn container_status_answer(
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

/// Items of a List or Stream answer: field 1, repeated. Gives how many there are, of which at most
/// [`limits::LIST_ITEMS`] are appended.
fn items(
    bytes: &[u8],
    out: &mut Vec<InventoryItem>,
    item: impl Fn(&[u8]) -> Result<InventoryItem, Malformed>,
) -> Result<usize, Malformed> {
    let mut fields = Reader::new(bytes);
    let mut n = 0;
    while let Some((number, value)) = fields.next()? {
        if let (1, Value::Bytes(b)) = (number, value) {
            n += 1;
            if out.len() < limits::LIST_ITEMS {
                out.push(item(b)?);
            }
        }
    }
    Ok(n)
}

/// Fields of a listed sandbox that are read: id, metadata, state, creation.
const SANDBOX_FIELDS: &[u32] = &[1, 2, 3, 4];
/// Fields of a listed container that are read: id, sandbox, metadata, image, state, creation, labels.
const CONTAINER_FIELDS: &[u32] = &[1, 2, 3, 4, 6, 7, 8];

/// A number that stays the same while a list says the same of what is read of it. containerd lists in the order of a
/// Go map, and Go writes the labels of each item in such an order too: neither order counts.
pub(in crate::source::cri) fn fingerprint(sandboxes: bool, bytes: &[u8]) -> Result<u64, Malformed> {
    let read = if sandboxes {
        SANDBOX_FIELDS
    } else {
        CONTAINER_FIELDS
    };
    let mut list = Reader::new(bytes);
    let mut sum = 0u64;
    while let Some((number, value)) = list.next()? {
        let (1, Value::Bytes(item)) = (number, value) else {
            continue;
        };
        let mut fields = Reader::new(item);
        let mut of_item = 0u64;
        while let Some((number, value)) = fields.next()? {
            if !read.contains(&number) {
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
        // Through the hash once more, so that fields cannot move from one item to another unseen.
        let mut hasher = FxHasher::default();
        hasher.write_u64(of_item);
        sum = sum.wrapping_add(hasher.finish());
    }
    Ok(sum)
}

pub(in crate::source::cri) fn sandboxes(
    bytes: &[u8],
    out: &mut Vec<InventoryItem>,
) -> Result<usize, Malformed> {
    items(bytes, out, |b| {
        let m: Sandbox<'_> = decode(b)?;
        Ok(sandbox_item(m.id, &m.metadata, m.state, m.created_at))
    })
}

pub(in crate::source::cri) fn containers(
    bytes: &[u8],
    out: &mut Vec<InventoryItem>,
) -> Result<usize, Malformed> {
    items(bytes, out, |b| {
        let m: Container<'_> = decode(b)?;
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
    })
}

/// One message of `GetContainerEvents`: kind, whom, and when by the runtime's clock (0 when not told).
pub(in crate::source::cri) fn container_event(
    bytes: &[u8],
) -> Result<(ContainerEventKind, Subject, Nanos), Malformed> {
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
    if let Some(c) = container {
        subject.attempt = Some(c.metadata.attempt);
        subject.container = cut(c.metadata.name);
        subject.image = container_status_item(c, "").subject.image;
    } else if m.container_id == m.sandbox.id && !m.sandbox.metadata.name.is_empty() {
        subject.attempt = Some(m.sandbox.metadata.attempt);
    }
    Ok((kind, subject, Nanos(m.created_at)))
}
