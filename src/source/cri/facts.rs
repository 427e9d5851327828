//! From messages to what kflow shows: whom a call is about, the fields worth reading, what exists.

use std::hash::Hasher as _;

use rustc_hash::FxHasher;

use super::headers::text;
use super::limits;
use super::messages::{
    Annotations, CheckpointContainerRequest, Condition, Container, ContainerEventResponse,
    ContainerIdRequest, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse,
    CreateContainerRequest, ExecRequest, ExecSyncRequest, ExecSyncResponse, FilesystemUsage,
    IdResponse, ImageFsInfoResponse, ImageRequest, ImageStatusResponse, ListContainerStatsRequest,
    ListContainersRequest, ListPodSandboxRequest, ListPodSandboxStatsRequest, Owner,
    PodSandboxStatusResponse, PortForwardRequest, PullImageRequest, Resources,
    RunPodSandboxRequest, RuntimeConfigResponse, Sandbox, SandboxConfig, SandboxIdRequest,
    SandboxMetadata, SandboxNetwork, SandboxStatus, StatusResponse, StopContainerRequest,
    UpdateContainerResourcesRequest, UpdatePodSandboxResourcesRequest, UpdateRuntimeConfigRequest,
    VerboseRequest, VersionRequest, VersionResponse,
};
use super::proto::{Malformed, Reader, Value, decode};
use crate::model::cri::{ContainerEventKind, InventoryItem, RuntimeState, Subject};
use crate::model::{Nanos, PodRef, Text};

/// What a message tells.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) subject: Subject,
    /// The request has a filter or an id.
    pub(super) filtered: bool,
    pub(super) fields: Vec<(Text, Text)>,
}

impl Facts {
    /// A field that is shown when it says something.
    fn text(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() && self.fields.len() < limits::FIELDS {
            self.fields.push((Text::const_new(name), cut(value)));
        }
    }
    /// A number that is shown when it is not protobuf's "not set".
    fn number(&mut self, name: &'static str, value: impl Into<i128>) {
        let value = value.into();
        if value != 0 {
            self.shown(name, value);
        }
    }
    fn shown(&mut self, name: &'static str, value: impl std::fmt::Display) {
        if self.fields.len() < limits::FIELDS {
            self.fields
                .push((Text::const_new(name), cut(&value.to_string())));
        }
    }
    fn flag(&mut self, name: &'static str, value: bool) {
        if value {
            self.text(name, "true");
        }
    }
    fn list(&mut self, name: &'static str, values: &[&str]) {
        self.text(name, &values.join(","));
    }
    fn annotations(&mut self, annotations: &Annotations<'_>) {
        for (key, value) in &annotations.entries {
            self.text(key, value);
        }
    }
    fn resources(&mut self, resources: Option<&Resources<'_>>) {
        let Some(r) = resources else { return };
        self.number("cpu_shares", r.cpu_shares);
        self.number("cpu_quota", r.cpu_quota);
        self.number("cpu_period", r.cpu_period);
        self.number("memory_limit_in_bytes", r.memory_limit);
        self.number("memory_swap_limit_in_bytes", r.memory_swap_limit);
        self.number("oom_score_adj", r.oom_score_adj);
        self.text("cpuset_cpus", r.cpuset_cpus);
        self.text("cpuset_mems", r.cpuset_mems);
    }
    fn sandbox_metadata(&mut self, m: &SandboxMetadata<'_>) {
        self.subject.pod = pod(m.uid, m.namespace, m.name);
        if !m.name.is_empty() {
            self.subject.attempt = Some(m.attempt);
        }
    }
    fn sandbox_config(&mut self, config: &SandboxConfig<'_>) {
        self.text("hostname", config.hostname);
        self.text("log_directory", config.log_directory);
        self.text("cgroup_parent", config.linux.cgroup_parent);
        self.list("dns_servers", &config.dns.servers.items);
        self.list("dns_searches", &config.dns.searches.items);
        for port in &config.ports.items {
            let protocol = match port.protocol {
                0 => "TCP",
                1 => "UDP",
                2 => "SCTP",
                _ => "?",
            };
            let (host, inner) = (port.host_port, port.container_port);
            if host != 0 {
                self.shown("host_port", format_args!("{host}:{inner}/{protocol}"));
            }
        }
        let namespaces = &config.linux.security.namespaces;
        for (name, mode) in [
            ("network", namespaces.network),
            ("pid", namespaces.pid),
            ("ipc", namespaces.ipc),
        ] {
            // POD, CONTAINER and TARGET are the usual ones.
            if mode == 2 {
                self.text(name, "host");
            }
        }
        self.flag("privileged", config.linux.security.privileged);
        self.resources(config.linux.resources.as_ref());
        self.annotations(&config.annotations);
    }
}

fn cut(value: &str) -> Text {
    if value.len() <= limits::TEXT {
        return Text::new(value);
    }
    text(value.as_bytes(), limits::TEXT)
}

fn pod(uid: &str, namespace: &str, name: &str) -> PodRef {
    PodRef {
        uid: cut(uid).into(),
        namespace: cut(namespace),
        name: cut(name),
    }
}

fn owner(labels: &Owner<'_>) -> PodRef {
    pod(
        labels.get("io.kubernetes.pod.uid"),
        labels.get("io.kubernetes.pod.namespace"),
        labels.get("io.kubernetes.pod.name"),
    )
}

// ---- Requests

type Decoded = Result<(), Malformed>;

pub(super) fn run_pod_sandbox(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: RunPodSandboxRequest<'_> = decode(bytes)?;
    facts.sandbox_metadata(&m.config.metadata);
    facts.text("runtime_handler", m.runtime_handler);
    facts.sandbox_config(&m.config);
    Ok(())
}

pub(super) fn sandbox_id(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: SandboxIdRequest<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    Ok(())
}

/// A status or statistics call about one sandbox.
pub(super) fn about_sandbox(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: SandboxIdRequest<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    facts.filtered = !m.id.is_empty();
    facts.flag("verbose", m.verbose);
    Ok(())
}

pub(super) fn port_forward(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: PortForwardRequest<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    for port in &m.ports.items {
        facts.shown("port", port);
    }
    Ok(())
}

pub(super) fn container_id(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ContainerIdRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    Ok(())
}

/// A status or statistics call about one container.
pub(super) fn about_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ContainerStatusRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.filtered = !m.id.is_empty();
    facts.flag("verbose", m.verbose);
    Ok(())
}

pub(super) fn create_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: CreateContainerRequest<'_> = decode(bytes)?;
    let config = &m.config;
    facts.sandbox_metadata(&m.sandbox.metadata);
    facts.subject.sandbox_id = cut(m.sandbox_id).into();
    facts.subject.container = cut(config.metadata.name);
    facts.subject.attempt = Some(config.metadata.attempt);
    facts.subject.image = cut(match config.image.user_specified_image {
        "" => config.image.image,
        image => image,
    });
    facts.text("image", config.image.image);
    facts.text("runtime_handler", config.image.runtime_handler);
    facts.text("command", config.command.word);
    facts.text("working_dir", config.working_dir);
    facts.text("log_path", config.log_path);
    for mount in &config.mounts.items {
        let (host, inner) = (mount.host_path, mount.container_path);
        let readonly = if mount.readonly { " (ro)" } else { "" };
        let propagation = match mount.propagation {
            1 => " (rslave)",
            2 => " (rshared)",
            _ => "",
        };
        facts.shown(
            "mount",
            format_args!("{host} → {inner}{readonly}{propagation}"),
        );
    }
    facts.number("mounts_not_shown", config.mounts.more as i128);
    let security = &config.linux.security;
    facts.flag("privileged", security.privileged);
    facts.flag("readonly_rootfs", security.readonly_rootfs);
    if let Some(user) = &security.run_as_user {
        facts.shown("run_as_user", user.value);
    }
    facts.text("run_as_username", security.run_as_username);
    facts.resources(config.linux.resources.as_ref());
    facts.text("cgroup_parent", m.sandbox.linux.cgroup_parent);
    facts.annotations(&config.annotations);
    Ok(())
}

pub(super) fn stop_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: StopContainerRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.shown("timeout", m.timeout);
    Ok(())
}

pub(super) fn exec_sync(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ExecSyncRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.text("command", m.command.word);
    facts.number("arguments_not_shown", m.command.count.saturating_sub(1));
    facts.number("timeout", m.timeout);
    Ok(())
}

pub(super) fn exec(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ExecRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.text("command", m.command.word);
    facts.number("arguments_not_shown", m.command.count.saturating_sub(1));
    facts.flag("tty", m.tty);
    facts.flag("stdin", m.stdin);
    Ok(())
}

/// What the filters of all list calls have in common.
fn filter(facts: &mut Facts, container: &str, sandbox: &str, labels: &Owner<'_>) {
    facts.subject.pod = owner(labels);
    facts.subject.container = cut(labels.get("io.kubernetes.container.name"));
    facts.subject.container_id = cut(container).into();
    facts.subject.sandbox_id = cut(sandbox).into();
}

/// A filter that has anything in it bounds the answer, even by a label or field that is not read.
fn has_filter(bytes: &[u8]) -> Result<bool, Malformed> {
    let mut fields = Reader::new(bytes);
    while let Some((number, value)) = fields.next()? {
        if number == 1 && !matches!(value, Value::Bytes([])) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn list_pod_sandbox(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ListPodSandboxRequest<'_> = decode(bytes)?;
    filter(facts, "", m.filter.id, &m.filter.labels);
    if let Some(state) = &m.filter.state {
        facts.text("state", sandbox_state(state.state).1);
    }
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(super) fn list_containers(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ListContainersRequest<'_> = decode(bytes)?;
    filter(facts, m.filter.id, m.filter.sandbox_id, &m.filter.labels);
    if let Some(state) = &m.filter.state {
        facts.text("state", container_state(state.state).1);
    }
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(super) fn list_container_stats(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ListContainerStatsRequest<'_> = decode(bytes)?;
    filter(facts, m.filter.id, m.filter.sandbox_id, &m.filter.labels);
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(super) fn list_pod_sandbox_stats(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ListPodSandboxStatsRequest<'_> = decode(bytes)?;
    filter(facts, "", m.filter.id, &m.filter.labels);
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(super) fn update_container_resources(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: UpdateContainerResourcesRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.resources(Some(&m.linux));
    Ok(())
}

pub(super) fn update_pod_sandbox_resources(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: UpdatePodSandboxResourcesRequest<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    facts.flag("overhead", m.overhead.is_some());
    facts.resources(m.resources.as_ref());
    Ok(())
}

pub(super) fn update_runtime_config(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: UpdateRuntimeConfigRequest<'_> = decode(bytes)?;
    facts.text("pod_cidr", m.config.network.pod_cidr);
    Ok(())
}

pub(super) fn verbose(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: VerboseRequest<'_> = decode(bytes)?;
    facts.flag("verbose", m.verbose);
    Ok(())
}

pub(super) fn version_request(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: VersionRequest<'_> = decode(bytes)?;
    facts.text("version", m.version);
    Ok(())
}

pub(super) fn checkpoint_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: CheckpointContainerRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.text("location", m.location);
    facts.number("timeout", m.timeout);
    Ok(())
}

pub(super) fn remove_image(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ImageRequest<'_> = decode(bytes)?;
    facts.subject.image = cut(m.image.image);
    Ok(())
}

pub(super) fn about_image(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ImageRequest<'_> = decode(bytes)?;
    facts.subject.image = cut(m.image.image);
    facts.filtered = !m.image.image.is_empty();
    facts.flag("verbose", m.verbose);
    Ok(())
}

/// ListImages wraps the image into a filter.
pub(super) fn list_images(bytes: &[u8], facts: &mut Facts) -> Decoded {
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(super) fn pull_image(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: PullImageRequest<'_> = decode(bytes)?;
    facts.sandbox_metadata(&m.sandbox.metadata);
    // The attempt belongs to the sandbox; a pull has none.
    facts.subject.attempt = None;
    facts.subject.image = cut(m.image.image);
    facts.text("runtime_handler", m.image.runtime_handler);
    if m.credentials.0 {
        facts.text("credentials", "given");
    }
    Ok(())
}

// ---- Answers

pub(super) fn version(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: VersionResponse<'_> = decode(bytes)?;
    facts.text("runtime_name", m.runtime_name);
    facts.text("runtime_version", m.runtime_version);
    facts.text("runtime_api_version", m.runtime_api_version);
    Ok(())
}

pub(super) fn new_sandbox(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: IdResponse<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    Ok(())
}

pub(super) fn new_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: IdResponse<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    Ok(())
}

pub(super) fn image_ref(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: IdResponse<'_> = decode(bytes)?;
    facts.text("image_ref", m.id);
    Ok(())
}

pub(super) fn exec_result(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ExecSyncResponse<'_> = decode(bytes)?;
    facts.shown("exit_code", m.exit_code);
    facts.shown("stdout_bytes", m.stdout.0);
    facts.shown("stderr_bytes", m.stderr.0);
    Ok(())
}

pub(super) fn runtime_status(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: StatusResponse<'_> = decode(bytes)?;
    for condition in &m.status.conditions.items {
        let Condition {
            kind,
            status,
            reason,
            message,
            ..
        } = condition;
        let mut value = status.to_string();
        if !reason.is_empty() {
            value = format!("{value} reason={reason}");
        }
        if !message.is_empty() {
            value = format!("{value} message={message}");
        }
        if facts.fields.len() < limits::FIELDS {
            facts.fields.push((cut(kind), cut(&value)));
        }
    }
    Ok(())
}

pub(super) fn image_status(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ImageStatusResponse<'_> = decode(bytes)?;
    let Some(image) = m.image else {
        facts.text("present", "false");
        return Ok(());
    };
    facts.text("present", "true");
    facts.text("id", image.id);
    facts.list("tags", &image.tags.items);
    facts.number("size", image.size);
    if let Some(uid) = &image.uid {
        facts.shown("uid", uid.value);
    }
    facts.text("username", image.username);
    Ok(())
}

pub(super) fn image_fs_info(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ImageFsInfoResponse<'_> = decode(bytes)?;
    let mut show = |name, usage: &FilesystemUsage<'_>| {
        facts.shown(
            name,
            format_args!(
                "{} used_bytes={} inodes_used={}",
                usage.fs.mountpoint, usage.used.value, usage.inodes.value
            ),
        );
    };
    m.images.items.iter().for_each(|u| show("images", u));
    m.containers
        .items
        .iter()
        .for_each(|u| show("containers", u));
    Ok(())
}

pub(super) fn runtime_config(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: RuntimeConfigResponse<'_> = decode(bytes)?;
    if let Some(linux) = m.linux {
        facts.text(
            "cgroup_driver",
            match linux.cgroup_driver {
                0 => "systemd",
                1 => "cgroupfs",
                _ => "?",
            },
        );
    }
    Ok(())
}

// ---- What exists

fn sandbox_state(state: i32) -> (RuntimeState, &'static str) {
    match state {
        0 => (RuntimeState::Ready, "READY"),
        1 => (RuntimeState::NotReady, "NOTREADY"),
        _ => (RuntimeState::Unknown, "?"),
    }
}

fn container_state(state: i32) -> (RuntimeState, &'static str) {
    match state {
        0 => (RuntimeState::Created, "CREATED"),
        1 => (RuntimeState::Running, "RUNNING"),
        2 => (RuntimeState::Exited, "EXITED"),
        _ => (RuntimeState::Unknown, "UNKNOWN"),
    }
}

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
pub(super) fn sandbox_status_answer(
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
pub(super) fn container_status_answer(
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
pub(super) fn fingerprint(sandboxes: bool, bytes: &[u8]) -> Result<u64, Malformed> {
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

pub(super) fn sandboxes(bytes: &[u8], out: &mut Vec<InventoryItem>) -> Result<usize, Malformed> {
    items(bytes, out, |b| {
        let m: Sandbox<'_> = decode(b)?;
        Ok(sandbox_item(m.id, &m.metadata, m.state, m.created_at))
    })
}

pub(super) fn containers(bytes: &[u8], out: &mut Vec<InventoryItem>) -> Result<usize, Malformed> {
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
pub(super) fn container_event(
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
