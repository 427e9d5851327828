//! Where this node's kubelet takes its runtime endpoint from, and how to change that without touching vendor files.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Check, Health};

/// A place where the endpoint is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file, or the running process.
    pub place: String,
    /// What is set there, without `unix://`.
    pub endpoint: PathBuf,
    /// What to do to change it.
    pub change: String,
}

/// The kubelet's default since 1.27.
const DEFAULT: &str = "/run/containerd/containerd.sock";

/// Looks in the order in which the kubelet lets one setting win over another: flags of the running process, of the
/// distribution's files, drop-in configuration, configuration file. `None` when there is no kubelet here at all.
pub fn find(root: &Path) -> Option<Found> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();

    if let Some(found) = embedded(root) {
        return Some(found);
    }
    let flags = "var/lib/kubelet/kubeadm-flags.env";
    let drop_in = "deploy/install.sh (a systemd drop-in with --container-runtime-endpoint=unix:///run/kflow/cri.sock)";
    let running = process_flags(root);
    if let Some(endpoint) = running
        .as_deref()
        .and_then(|t| flag(t, "--container-runtime-endpoint"))
    {
        let from_kubeadm = read(flags).is_some_and(|t| t.contains("--container-runtime-endpoint"));
        return Some(Found {
            place: if from_kubeadm {
                format!("/{flags}, a flag")
            } else {
                "a flag of the running kubelet".into()
            },
            endpoint: socket(&endpoint),
            change: drop_in.into(),
        });
    }
    if let Some(endpoint) = read(flags).and_then(|t| flag(&t, "--container-runtime-endpoint")) {
        return Some(Found {
            place: format!("/{flags}, a flag"),
            endpoint: socket(&endpoint),
            change: drop_in.into(),
        });
    }
    // A running kubelet says which files it was given; else the distributions' places.
    if let Some(args) = &running {
        // Drop-ins win over the file, the last by name over those before it.
        let mut given: Vec<PathBuf> = flag(args, "--config-dir")
            .and_then(|dir| fs::read_dir(below(root, &dir)).ok())
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|e| e == "conf"))
            .collect();
        given.sort();
        given.reverse();
        given.extend(flag(args, "--config").map(|file| below(root, &file)));
        for path in &given {
            let set = fs::read_to_string(path)
                .ok()
                .and_then(|t| yaml_value(&t, "containerRuntimeEndpoint"));
            if let Some(endpoint) = set {
                let shown = path.strip_prefix(root).unwrap_or(path).display();
                return Some(Found {
                    place: format!("/{shown}, which the running kubelet was given"),
                    endpoint: socket(&endpoint),
                    change: drop_in.into(),
                });
            }
        }
        if !given.is_empty() {
            return Some(Found {
                place: "the kubelet's default: its configuration sets none".into(),
                endpoint: socket(DEFAULT),
                change: drop_in.into(),
            });
        }
    }
    for path in [
        "var/lib/kubelet/instance-config.yaml",
        "var/lib/kubelet/config.yaml",
        "etc/kubernetes/kubelet/config.json",
        "etc/kubernetes/kubelet/kubelet-config.json",
    ] {
        if let Some(endpoint) = read(path).and_then(|t| yaml_value(&t, "containerRuntimeEndpoint"))
        {
            return Some(Found {
                place: format!("/{path}"),
                endpoint: socket(&endpoint),
                change: drop_in.into(),
            });
        }
    }
    let here = running.is_some() || root.join("var/lib/kubelet/config.yaml").exists();
    here.then(|| Found {
        place: "the kubelet's default".into(),
        endpoint: socket(DEFAULT),
        change: drop_in.into(),
    })
}

/// Distributions that run the kubelet inside their own process.
fn embedded(root: &Path) -> Option<Found> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    for name in ["k3s", "rke2"] {
        let path = format!("etc/rancher/{name}/config.yaml");
        if !root.join(format!("var/lib/rancher/{name}")).exists() && !root.join(&path).exists() {
            continue;
        }
        // Its own setting `container-runtime-endpoint` would switch its containerd off; an argument for the kubelet
        // wins over the one that it makes itself.
        let dir = format!("/etc/rancher/{name}/config.yaml.d");
        let change = format!(
            "mkdir -p {dir}; echo 'kubelet-arg+: [container-runtime-endpoint=unix:///run/kflow/cri.sock]' > {dir}/50-kflow.yaml\nsystemctl restart {}",
            unit(root)
        );
        let mut files: Vec<PathBuf> = fs::read_dir(below(root, &dir))
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        files.sort();
        files.reverse();
        files.push(root.join(&path));
        let set = files.iter().find_map(|f| {
            let text = fs::read_to_string(f).ok()?;
            let value = flag(&text, "container-runtime-endpoint")
                .or_else(|| yaml_value(&text, "container-runtime-endpoint"))?;
            Some((
                format!("/{}", f.strip_prefix(root).unwrap_or(f).display()),
                value,
            ))
        });
        let (place, endpoint) = set.unwrap_or_else(|| {
            let own = "/run/k3s/containerd/containerd.sock";
            (format!("the default of {name}"), own.to_owned())
        });
        return Some(Found {
            place,
            endpoint: socket(endpoint.trim_end_matches([']', ','])),
            change,
        });
    }
    let microk8s = "var/snap/microk8s/current/args/kubelet";
    let set = flag(&read(microk8s)?, "--container-runtime-endpoint")
        .unwrap_or_else(|| "${SNAP_COMMON}/run/containerd.sock".into());
    Some(Found {
        place: format!("/{microk8s}"),
        // The shell that starts it knows these.
        endpoint: socket(
            &set.replace("${SNAP_COMMON}", "/var/snap/microk8s/common")
                .replace("${SNAP_DATA}", "/var/snap/microk8s/current"),
        ),
        change: format!(
            "in /{microk8s}: --container-runtime-endpoint=unix:///run/kflow/cri.sock\nsnap restart microk8s.daemon-kubelite"
        ),
    })
}

/// The systemd unit whose journal has the kubelet's log.
pub fn unit(root: &Path) -> &'static str {
    let there = |path: &str| root.join(path).exists();
    let units = [
        ("var/lib/rancher/k3s/server", "k3s"),
        ("var/lib/rancher/k3s", "k3s-agent"),
        ("var/lib/rancher/rke2/server", "rke2-server"),
        ("var/lib/rancher/rke2", "rke2-agent"),
        (
            "var/snap/microk8s/current/args/kubelet",
            "snap.microk8s.daemon-kubelite",
        ),
        ("var/lib/k0s/kubelet", "k0sworker"),
    ];
    let found = units.iter().find(|(path, _)| there(path));
    found.map_or("kubelet", |(_, unit)| unit)
}

/// The file that a running kubelet writes its log to, when it does not write to the journal.
pub(super) fn log_file(root: &Path) -> Option<PathBuf> {
    let fd = process(root)?.join("fd/2");
    let to = fs::read_link(fd).ok()?;
    // A pipe or a socket has no path; /dev/null has no log.
    fs::metadata(&to).is_ok_and(|m| m.is_file()).then_some(to)
}

/// What decides where the kubelet's calls go, besides what is set on this machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    /// The runtime's own socket.
    pub(super) runtime: Option<&'a Path>,
    /// Where a proxy of kflow listens.
    pub(super) proxy: Option<&'a Path>,
    /// `containerRuntimeEndpoint` in the running kubelet's `/configz`.
    pub(super) live: Option<&'a str>,
    /// This user may not ask whether there is a proxy.
    pub(super) hidden: bool,
}

/// The finding as a check. What the running kubelet itself says counts for more than any file.
pub(super) fn endpoint(root: &Path, known: Known<'_>) -> Check {
    let set = find(root);
    let live = known.live.filter(|l| !l.is_empty()).map(socket);
    let (found, text) = match (live, set) {
        (None, None) => {
            return Check::new(
                "kubelet endpoint",
                Health::Off,
                "no kubelet on this machine",
            );
        }
        (None, Some(set)) => {
            let text = format!("{} from {}", set.endpoint.display(), set.place);
            (set, text)
        }
        (Some(live), Some(set)) => {
            let text = if live == set.endpoint {
                format!(
                    "{} from {} (its /configz says the same)",
                    live.display(),
                    set.place
                )
            } else {
                format!(
                    "{} by its /configz, which counts; {} says {}: changed since it started?",
                    live.display(),
                    set.place,
                    set.endpoint.display()
                )
            };
            let found = Found {
                endpoint: live,
                ..set
            };
            (found, text)
        }
        (Some(live), None) => {
            let text = format!("{} by its /configz", live.display());
            let found = Found {
                place: "its /configz".into(),
                endpoint: live,
                change: "change containerRuntimeEndpoint on that node".into(),
            };
            (found, text)
        }
    };
    if found.endpoint.starts_with("/run/kflow") || known.proxy == Some(found.endpoint.as_path()) {
        return Check::new(
            "kubelet endpoint",
            Health::Works,
            format!("{text}: kflow's proxy"),
        );
    }
    if known.hidden {
        return Check::new(
            "kubelet endpoint",
            Health::Warning,
            format!("{text}: whether that is a proxy of kflow's, only root can ask"),
        )
        .todo(super::AS_ROOT);
    }
    let check = Check::new(
        "kubelet endpoint",
        Health::Warning,
        format!("{text}: not tapped"),
    );
    let upstream = known.runtime.unwrap_or(&found.endpoint);
    check.todo(format!(
        "kflow proxy --listen /run/kflow/cri.sock --upstream {}\n{}",
        upstream.display(),
        found.change
    ))
}

/// An absolute path of the node, in the root that is looked at.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn socket(endpoint: &str) -> PathBuf {
    PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint))
}

/// The arguments of a running kubelet, separated by spaces.
fn process_flags(root: &Path) -> Option<String> {
    let line = fs::read(process(root)?.join("cmdline")).ok()?;
    Some(String::from_utf8_lossy(&line).replace('\0', " "))
}

/// The folder in `/proc` of a running kubelet.
fn process(root: &Path) -> Option<PathBuf> {
    fs::read_dir(root.join("proc"))
        .ok()?
        .flatten()
        .map(|e| e.path())
        .find(|p| fs::read_to_string(p.join("comm")).is_ok_and(|c| c.trim_end() == "kubelet"))
}

/// Value of `--name=value` or `--name value` in a command line, an environment file or a list of arguments.
fn flag(text: &str, name: &str) -> Option<String> {
    let mut words = text.split(|c: char| c.is_whitespace() || c == '"' || c == '\'');
    while let Some(word) = words.next() {
        // `KUBELET_KUBEADM_ARGS=` may stand before the first.
        let Some((_, after)) = word.split_once(name) else {
            continue;
        };
        match after.strip_prefix('=') {
            Some(value) if !value.is_empty() => return Some(value.to_owned()),
            None if after.is_empty() => return words.find(|w| !w.is_empty()).map(str::to_owned),
            _ => {}
        }
    }
    None
}

/// Value of a top-level key of a YAML mapping or of a JSON object: no more is needed of either.
fn yaml_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.trim_end().trim_end_matches(',');
        // Top level: not indented in YAML; in JSON the key is quoted.
        let line = if line.starts_with(' ') {
            line.trim_start().strip_prefix('"').map(|l| (l, true))
        } else {
            Some((line.trim_start_matches(['"', '{', ' ']), false))
        };
        let (line, quoted) = line?;
        let rest = line.strip_prefix(key)?;
        let rest = if quoted {
            rest.strip_prefix('"')?
        } else {
            rest.strip_prefix('"').unwrap_or(rest)
        };
        let value = rest.trim_start().strip_prefix(':')?;
        let value = value.split(" #").next().unwrap_or_default().trim();
        let value = value.trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests;
