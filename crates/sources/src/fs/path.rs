//! What a path stands for: cgroups of both drivers and both versions, the kubelet's pod directories, mounts.

use crate::logtext::{is_hex_id, is_uid};
use kflow_model::Text;
use kflow_model::fs::FsObject;

/// Returns what a path stands for; `None` when it says nothing about a pod.
///
/// Works on names alone, wherever the hierarchy is mounted and whatever stands above it: cgroup v1 controllers,
/// `/kubelet` of nested nodes, `--cgroup-root`, `--root-dir`.
pub fn classify_path(path: &str) -> Option<FsObject> {
    let mut parts = path.split('/').filter(|p| !p.is_empty());
    let mut in_kubepods = false;
    let mut qos = "guaranteed";
    let mut last = "";
    while let Some(part) = parts.next() {
        if let Some((uid, level)) = systemd_pod(part) {
            return in_cgroup(uid, level, parts);
        }
        match part {
            "burstable" | "besteffort" if in_kubepods => qos = part,
            _ if part.contains("kubepods") => in_kubepods = true,
            _ => {}
        }
        if in_kubepods {
            if let Some(uid) = part.strip_prefix("pod").filter(|u| is_uid(u)) {
                return in_cgroup(uid.into(), qos, parts);
            }
        } else if last == "pods" && is_uid(part) {
            return in_pod_dir(part, parts);
        }
        last = part;
    }
    None
}

/// Reads UID and QoS level from `kubepods-burstable-pod<uid with _ for ->.slice`, with any prefix.
fn systemd_pod(part: &str) -> Option<(Text, &'static str)> {
    let name = part.strip_suffix(".slice")?;
    let (above, uid) = name.rsplit_once("-pod")?;
    if !above.contains("kubepods") || uid.contains('-') {
        return None;
    }
    let uid = uid.replace('_', "-");
    let qos = if above.ends_with("-burstable") {
        "burstable"
    } else if above.ends_with("-besteffort") {
        "besteffort"
    } else {
        "guaranteed"
    };
    is_uid(&uid).then(|| (uid.into(), qos))
}

/// Classifies a path at or below a pod's cgroup. Cgroups that a container makes inside its own are left out.
fn in_cgroup<'a>(
    uid: Text,
    qos: &str,
    mut below: impl Iterator<Item = &'a str>,
) -> Option<FsObject> {
    let uid = uid.into();
    let Some(part) = below.next() else {
        return Some(FsObject::PodCgroup {
            uid,
            qos: qos.into(),
        });
    };
    if below.next().is_some() {
        return None;
    }
    // `<id>`, `cri-containerd-<id>.scope`, `crio-<id>[.scope]`, `docker-<id>.scope`; `crio-conmon-<id>.scope` holds
    // only the monitor, not the container.
    let name = part.strip_suffix(".scope").unwrap_or(part);
    if name.starts_with("crio-conmon-") {
        return None;
    }
    let id = name.rsplit('-').next()?;
    is_hex_id(id).then(|| FsObject::ContainerCgroup { uid, id: id.into() })
}

/// Classifies a path at or below `pods/<uid>`.
fn in_pod_dir<'a>(uid: &str, mut below: impl Iterator<Item = &'a str>) -> Option<FsObject> {
    let uid = uid.into();
    let Some(first) = below.next() else {
        return Some(FsObject::PodDir { uid });
    };
    if first != "volumes" {
        return Some(FsObject::PodFile {
            uid,
            inner: joined(Some(first), below),
        });
    }
    let Some(plugin) = below.next() else {
        return Some(FsObject::PodFile {
            uid,
            inner: Text::new("volumes"),
        });
    };
    Some(FsObject::Volume {
        uid,
        plugin: plugin.replace('~', "/").into(),
        volume: below.next().unwrap_or_default().into(),
        inner: joined(None, below),
    })
}

fn joined<'a>(first: Option<&'a str>, rest: impl Iterator<Item = &'a str>) -> Text {
    let mut t = Text::default();
    for part in first.into_iter().chain(rest) {
        if !t.is_empty() {
            t.push('/');
        }
        t.push_str(part);
    }
    t
}

/// One line of `mountinfo`, reduced to what kflow uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount point, unescaped.
    pub point: String,
    /// File system type.
    pub fstype: String,
}

/// Reads a line of `/proc/<pid>/mountinfo`; `None` when it is not one.
pub fn parse_mountinfo_line(line: &str) -> Option<Mount> {
    // id parent major:minor root POINT options [optional…] - FSTYPE source super-options
    let (front, back) = line.split_once(" - ")?;
    let point = front.split(' ').nth(4)?;
    let fstype = back.split(' ').next().filter(|f| !f.is_empty())?;
    point.starts_with('/').then(|| Mount {
        point: unescape(point),
        fstype: fstype.to_owned(),
    })
}

/// Undoes the kernel's escapes: it writes space, tab, line feed, backslash and `#` as `\040` and so on.
fn unescape(s: &str) -> String {
    let mut parts = s.split('\\');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part
            .get(..3)
            .and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match (byte, part.get(3..)) {
            (Some(b), Some(rest)) => {
                out.push(b);
                out.extend_from_slice(rest.as_bytes());
            }
            _ => {
                out.push(b'\\');
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns what a mount stands for: a volume of a pod, a runtime's shm or rootfs, a network namespace; else `None`.
pub fn classify_mount(mount: &Mount) -> Option<FsObject> {
    match classify_path(&mount.point) {
        Some(FsObject::Volume {
            uid,
            plugin,
            volume,
            inner,
        }) if !volume.is_empty() && (inner.is_empty() || inner == "mount") => {
            return Some(FsObject::VolumeMount {
                uid,
                plugin,
                volume,
                fstype: mount.fstype.as_str().into(),
            });
        }
        Some(object @ FsObject::PodFile { .. }) => return Some(object),
        Some(_) => return None,
        None => {}
    }
    let mut parts = mount.point.rsplit('/');
    let (last, id, above) = (parts.next()?, parts.next()?, parts.next()?);
    match (above, last) {
        // containerd: …/sandboxes/<id>/shm and …/k8s.io/<id>/rootfs
        ("sandboxes", "shm") | ("k8s.io", "rootfs") if is_hex_id(id) => {
            Some(FsObject::RuntimeMount {
                id: id.into(),
                what: last.into(),
            })
        }
        // CRI-O: …/overlay-containers/<id>/userdata/shm
        (owner, "shm")
            if id == "userdata"
                && is_hex_id(owner)
                && parts.next() == Some("overlay-containers") =>
        {
            Some(FsObject::RuntimeMount {
                id: owner.into(),
                what: last.into(),
            })
        }
        ("run", name) if id == "netns" && !name.is_empty() => {
            Some(FsObject::NetNs { name: name.into() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "4ac3c3e9-1ad8-496b-869a-7687fcb13acf";
    const SNAKE: &str = "4ac3c3e9_1ad8_496b_869a_7687fcb13acf";
    const STATIC: &str = "ff4d934cf370b424f4877ca51ef195c7";
    const ID: &str = "028f66a30f94b666bfca4bf2459fcbca807056e958aea0dd1f6b952252d5fefb";

    fn pod(uid: &str, qos: &str) -> Option<FsObject> {
        Some(FsObject::PodCgroup {
            uid: uid.into(),
            qos: qos.into(),
        })
    }
    fn container() -> Option<FsObject> {
        Some(FsObject::ContainerCgroup {
            uid: UID.into(),
            id: ID.into(),
        })
    }

    #[test]
    fn pod_cgroups_of_both_drivers_and_versions_are_known() {
        for (path, want) in [
            (
                format!("/sys/fs/cgroup/memory/kubepods/burstable/pod{UID}"),
                pod(UID, "burstable"),
            ),
            (
                format!("/sys/fs/cgroup/kubepods/besteffort/pod{UID}"),
                pod(UID, "besteffort"),
            ),
            (format!("/kubepods/pod{STATIC}"), pod(STATIC, "guaranteed")),
            (
                format!(
                    "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SNAKE}.slice"
                ),
                pod(UID, "burstable"),
            ),
            (
                format!("/sys/fs/cgroup/kubepods.slice/kubepods-pod{STATIC}.slice"),
                pod(STATIC, "guaranteed"),
            ),
            (
                format!(
                    "/sys/fs/cgroup/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{SNAKE}.slice"
                ),
                pod(UID, "besteffort"),
            ),
            (
                format!("/docker/{ID}/kubelet/kubepods/besteffort/pod{UID}"),
                pod(UID, "besteffort"),
            ),
            ("/sys/fs/cgroup/memory/kubepods/burstable".into(), None),
            ("/sys/fs/cgroup/kubepods.slice".into(), None),
            (format!("/sys/fs/cgroup/system.slice/pod{UID}"), None),
            ("/sys/fs/cgroup/kubepods/podbad".into(), None),
        ] {
            assert_eq!(classify_path(&path), want, "{path}");
        }
    }

    #[test]
    fn container_cgroups_of_every_runtime_are_known() {
        let cgroupfs = format!("/sys/fs/cgroup/memory/kubepods/burstable/pod{UID}");
        let systemd = format!("/sys/fs/cgroup/kubepods.slice/kubepods-pod{SNAKE}.slice");
        for (path, want) in [
            (format!("{cgroupfs}/{ID}"), container()),
            (format!("{cgroupfs}/crio-{ID}"), container()),
            (format!("{systemd}/cri-containerd-{ID}.scope"), container()),
            (format!("{systemd}/crio-{ID}.scope"), container()),
            (format!("{systemd}/docker-{ID}.scope"), container()),
            (format!("{systemd}/crio-conmon-{ID}.scope"), None),
            (
                format!("{systemd}/cri-containerd-{ID}.scope/init.scope"),
                None,
            ),
            (format!("{cgroupfs}/memory.events"), None),
        ] {
            assert_eq!(classify_path(&path), want, "{path}");
        }
    }

    #[test]
    fn paths_below_a_pod_directory_are_told_apart() {
        let volume = |plugin: &str, volume: &str, inner: &str| {
            Some(FsObject::Volume {
                uid: UID.into(),
                plugin: plugin.into(),
                volume: volume.into(),
                inner: inner.into(),
            })
        };
        let file = |inner: &str| {
            Some(FsObject::PodFile {
                uid: UID.into(),
                inner: inner.into(),
            })
        };
        for (below, want) in [
            ("", Some(FsObject::PodDir { uid: UID.into() })),
            ("/volumes", file("volumes")),
            (
                "/volumes/kubernetes.io~secret",
                volume("kubernetes.io/secret", "", ""),
            ),
            (
                "/volumes/kubernetes.io~projected/tok",
                volume("kubernetes.io/projected", "tok", ""),
            ),
            (
                "/volumes/kubernetes.io~configmap/cfg/..data",
                volume("kubernetes.io/configmap", "cfg", "..data"),
            ),
            ("/etc-hosts", file("etc-hosts")),
            ("/containers/web/1a2b3c", file("containers/web/1a2b3c")),
        ] {
            assert_eq!(
                classify_path(&format!("/var/lib/kubelet/pods/{UID}{below}")),
                want,
                "{below}"
            );
        }
        assert_eq!(classify_path("/var/lib/kubelet/pods"), None);
        assert_eq!(
            classify_path("/var/lib/kubelet/pods/not-a-uid/etc-hosts"),
            None
        );
    }

    #[test]
    fn mounts_are_read_from_real_lines() {
        let m = parse_mountinfo_line("43 42 0:39 / /var/lib/kubelet/pods/4ac3c3e9-1ad8-496b-869a-7687fcb13acf/volumes/kubernetes.io~projected/kube-api-access-7mkff rw,relatime shared:2 - tmpfs tmpfs rw,size=49152k,noswap").unwrap();
        assert_eq!(
            classify_mount(&m),
            Some(FsObject::VolumeMount {
                uid: UID.into(),
                plugin: "kubernetes.io/projected".into(),
                volume: "kube-api-access-7mkff".into(),
                fstype: "tmpfs".into()
            })
        );
        let runtime = |path: &str| {
            classify_mount(&parse_mountinfo_line(&format!(
                "1 2 0:3 / {path} rw - overlay overlay rw"
            ))?)
        };
        for (path, what) in [
            (
                format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/rootfs"),
                "rootfs",
            ),
            (
                format!("/run/containerd/io.containerd.grpc.v1.cri/sandboxes/{ID}/shm"),
                "shm",
            ),
            (
                format!("/run/k3s/containerd/io.containerd.grpc.v1.cri/sandboxes/{ID}/shm"),
                "shm",
            ),
            (
                format!("/var/lib/containers/storage/overlay-containers/{ID}/userdata/shm"),
                "shm",
            ),
        ] {
            assert_eq!(
                runtime(&path),
                Some(FsObject::RuntimeMount {
                    id: ID.into(),
                    what: what.into()
                }),
                "{path}"
            );
        }
        assert_eq!(
            runtime("/run/netns/cni-1"),
            Some(FsObject::NetNs {
                name: "cni-1".into()
            })
        );
        assert_eq!(
            runtime("/var/run/netns/cni-1"),
            Some(FsObject::NetNs {
                name: "cni-1".into()
            })
        );
        assert_eq!(runtime("/var/lib/kubelet"), None);
        assert_eq!(parse_mountinfo_line("not a mount"), None);
    }

    #[test]
    fn octal_escapes_in_mount_points_are_undone() {
        let m = parse_mountinfo_line(r"1 2 0:3 / /a\040b\134c\0 rw - ext4 /dev/vda rw").unwrap();
        assert_eq!(m.point, r"/a b\c\0");
    }

    proptest! {
        #[test]
        fn no_text_panics(s in ".{0,200}") {
            let _ = classify_path(&s);
            let _ = parse_mountinfo_line(&s).and_then(|m| classify_mount(&m));
        }
        #[test]
        fn paths_made_of_known_parts_do_not_panic(parts in prop::collection::vec(prop::sample::select(vec![
            "kubepods", "kubepods.slice", "burstable", "pods", UID, "volumes", "pod", "..", "-pod.slice", ID, "netns", "run", "shm",
        ]), 0..8)) {
            let path = format!("/{}", parts.join("/"));
            let _ = classify_path(&path);
            let _ = classify_mount(&Mount { point: path, fstype: String::new() });
        }
    }
}
