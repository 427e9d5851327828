//! What answers say, except for the sandboxes and containers that exist.

use super::{Decoded, Facts, cut};
use crate::limits;
use crate::messages::{
    Condition, ExecSyncResponse, FilesystemUsage, IdResponse, ImageFsInfoResponse,
    ImageStatusResponse, RuntimeConfigResponse, StatusResponse, VersionResponse,
};
use crate::proto::decode;

pub(crate) fn version(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: VersionResponse<'_> = decode(bytes)?;
    facts.text("runtime_name", m.runtime_name);
    facts.text("runtime_version", m.runtime_version);
    facts.text("runtime_api_version", m.runtime_api_version);
    Ok(())
}

pub(crate) fn new_sandbox(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: IdResponse<'_> = decode(bytes)?;
    facts.subject.sandbox_id = cut(m.id).into();
    Ok(())
}

pub(crate) fn new_container(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: IdResponse<'_> = decode(bytes)?;
    facts.subject.container_id = cut(m.id).into();
    Ok(())
}

pub(crate) fn image_ref(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: IdResponse<'_> = decode(bytes)?;
    facts.text("image_ref", m.id);
    Ok(())
}

pub(crate) fn exec_result(bytes: &[u8], facts: &mut Facts) -> Decoded {
    let m: ExecSyncResponse<'_> = decode(bytes)?;
    facts.shown("exit_code", m.exit_code);
    facts.shown("stdout_bytes", m.stdout.0);
    facts.shown("stderr_bytes", m.stderr.0);
    Ok(())
}

pub(crate) fn runtime_status(bytes: &[u8], facts: &mut Facts) -> Decoded {
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

pub(crate) fn image_status(bytes: &[u8], facts: &mut Facts) -> Decoded {
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

pub(crate) fn image_fs_info(bytes: &[u8], facts: &mut Facts) -> Decoded {
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

pub(crate) fn runtime_config(bytes: &[u8], facts: &mut Facts) -> Decoded {
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
