//! What requests say.

use super::{Decoded, Facts, container_state, cut, owner, sandbox_state};
use crate::messages::{
    CheckpointContainerRequest, ContainerIdRequest, ContainerStatusRequest, CreateContainerRequest,
    ExecRequest, ExecSyncRequest, ImageRequest, ListContainerStatsRequest, ListContainersRequest,
    ListPodSandboxRequest, ListPodSandboxStatsRequest, Owner, PortForwardRequest, PullImageRequest,
    RunPodSandboxRequest, SandboxIdRequest, StopContainerRequest, UpdateContainerResourcesRequest,
    UpdatePodSandboxResourcesRequest, UpdateRuntimeConfigRequest, VerboseRequest, VersionRequest,
};
use crate::proto::{Malformed, Reader, Value, decode};
use kflow_model::cri::CONFIG_SEEN;

pub(crate) fn run_pod_sandbox(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: RunPodSandboxRequest<'_> = decode(bytes)?;
    facts.sandbox_metadata(&m.config.metadata);
    facts.text("runtime_handler", m.runtime_handler);
    facts.sandbox_config(&m.config);
    Ok(())
}

pub(crate) fn sandbox_id(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: SandboxIdRequest<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    Ok(())
}

/// Reads the request of a status or statistics call about one sandbox.
pub(crate) fn about_sandbox(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: SandboxIdRequest<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    facts.filtered = !m.id.is_empty();
    facts.flag("verbose", m.verbose);
    Ok(())
}

pub(crate) fn port_forward(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: PortForwardRequest<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    for port in &m.ports.items {
        facts.shown("port", port);
    }
    Ok(())
}

pub(crate) fn container_id(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ContainerIdRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    Ok(())
}

/// Reads the request of a status or statistics call about one container.
pub(crate) fn about_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ContainerStatusRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.filtered = !m.id.is_empty();
    facts.flag("verbose", m.verbose);
    Ok(())
}

pub(crate) fn create_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
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
    facts.text(CONFIG_SEEN, m.sandbox.annotations.get(CONFIG_SEEN));
    Ok(())
}

pub(crate) fn stop_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: StopContainerRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.shown("timeout", m.timeout);
    Ok(())
}

pub(crate) fn exec_sync(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ExecSyncRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.text("command", m.command.word);
    facts.number("arguments_not_shown", m.command.count.saturating_sub(1));
    facts.number("timeout", m.timeout);
    Ok(())
}

pub(crate) fn exec(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ExecRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.text("command", m.command.word);
    facts.number("arguments_not_shown", m.command.count.saturating_sub(1));
    facts.flag("tty", m.tty);
    facts.flag("stdin", m.stdin);
    Ok(())
}

/// Reads what the filters of all list calls have in common.
fn filter(facts: &mut Facts, container: &str, sandbox: &str, labels: &Owner<'_>) {
    facts.subject.pod = owner(labels);
    facts.subject.container = cut(labels.get("io.kubernetes.container.name"));
    facts.subject.container_id = cut(container).into();
    facts.subject.sandbox_id = cut(sandbox).into();
}

/// True when the request has a filter that is not empty: it bounds the answer, even by a label or field
/// that is not read.
fn has_filter(bytes: &[u8]) -> Result<bool, Malformed> {
    let mut fields = Reader::new(bytes);
    while let Some((number, value)) = fields.next()? {
        if number == 1 && !matches!(value, Value::Bytes([])) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn list_pod_sandbox(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ListPodSandboxRequest<'_> = decode(bytes)?;
    filter(facts, "", m.filter.id, &m.filter.labels);
    if let Some(state) = &m.filter.state {
        facts.text("state", sandbox_state(state.state).1);
    }
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(crate) fn list_containers(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ListContainersRequest<'_> = decode(bytes)?;
    filter(facts, m.filter.id, m.filter.sandbox_id, &m.filter.labels);
    if let Some(state) = &m.filter.state {
        facts.text("state", container_state(state.state).1);
    }
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(crate) fn list_container_stats(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ListContainerStatsRequest<'_> = decode(bytes)?;
    filter(facts, m.filter.id, m.filter.sandbox_id, &m.filter.labels);
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(crate) fn list_pod_sandbox_stats(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ListPodSandboxStatsRequest<'_> = decode(bytes)?;
    filter(facts, "", m.filter.id, &m.filter.labels);
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(crate) fn update_container_resources(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: UpdateContainerResourcesRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.resources(Some(&m.linux));
    Ok(())
}

pub(crate) fn update_pod_sandbox_resources(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: UpdatePodSandboxResourcesRequest<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    facts.flag("overhead", m.overhead.is_some());
    facts.resources(m.resources.as_ref());
    Ok(())
}

pub(crate) fn update_runtime_config(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: UpdateRuntimeConfigRequest<'_> = decode(bytes)?;
    facts.text("pod_cidr", m.config.network.pod_cidr);
    Ok(())
}

pub(crate) fn verbose(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: VerboseRequest<'_> = decode(bytes)?;
    facts.flag("verbose", m.verbose);
    Ok(())
}

pub(crate) fn version_request(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: VersionRequest<'_> = decode(bytes)?;
    facts.text("version", m.version);
    Ok(())
}

pub(crate) fn checkpoint_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: CheckpointContainerRequest<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    facts.text("location", m.location);
    facts.number("timeout", m.timeout);
    Ok(())
}

pub(crate) fn remove_image(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ImageRequest<'_> = decode(bytes)?;
    facts.subject.image = cut(m.image.image);
    Ok(())
}

pub(crate) fn about_image(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ImageRequest<'_> = decode(bytes)?;
    facts.subject.image = cut(m.image.image);
    facts.filtered = !m.image.image.is_empty();
    facts.flag("verbose", m.verbose);
    facts.text(CONFIG_SEEN, m.image.annotations.get(CONFIG_SEEN));
    Ok(())
}

/// Reads the request of ListImages, whose image is in a filter.
pub(crate) fn list_images(bytes: &[u8], facts: &mut Facts) -> Decoded {
    facts.filtered = has_filter(bytes)?;
    Ok(())
}

pub(crate) fn pull_image(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: PullImageRequest<'_> = decode(bytes)?;
    facts.sandbox_metadata(&m.sandbox.metadata);
    // The attempt belongs to the sandbox; a pull has none.
    facts.subject.attempt = None;
    facts.subject.image = cut(m.image.image);
    facts.text("runtime_handler", m.image.runtime_handler);
    facts.text(CONFIG_SEEN, m.image.annotations.get(CONFIG_SEEN));
    if m.credentials.0 {
        facts.text("credentials", "given");
    }
    Ok(())
}
