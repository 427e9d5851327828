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

    // Distributions that run the kubelet inside their own process.
    for (name, service) in [("k3s", "k3s"), ("rke2", "rke2-agent")] {
        let path = format!("etc/rancher/{name}/config.yaml");
        if root.join(format!("var/lib/rancher/{name}")).exists() || root.join(&path).exists() {
            let change = format!(
                "echo 'container-runtime-endpoint: unix:///run/kflow/cri.sock' > /etc/rancher/{name}/config.yaml.d/50-kflow.yaml\nsystemctl restart {service}"
            );
            let set = read(&path).and_then(|t| yaml_value(&t, "container-runtime-endpoint"));
            return Some(Found {
                place: if set.is_some() {
                    format!("/{path}")
                } else {
                    format!("the default of {name}")
                },
                endpoint: socket(
                    set.as_deref()
                        .unwrap_or("/run/k3s/containerd/containerd.sock"),
                ),
                change,
            });
        }
    }
    let microk8s = "var/snap/microk8s/current/args/kubelet";
    if let Some(text) = read(microk8s) {
        return Some(Found {
            place: format!("/{microk8s}"),
            endpoint: socket(
                flag(&text, "--container-runtime-endpoint")
                    .as_deref()
                    .unwrap_or("/var/snap/microk8s/common/run/containerd.sock"),
            ),
            change: "in /var/snap/microk8s/current/args/kubelet: --container-runtime-endpoint=unix:///run/kflow/cri.sock\nsnap restart microk8s.daemon-kubelite".into(),
        });
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

/// What decides where the kubelet's calls go, besides what is set on this machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    /// The runtime's own socket.
    pub(super) runtime: Option<&'a Path>,
    /// Where a proxy of kflow listens.
    pub(super) proxy: Option<&'a Path>,
    /// `containerRuntimeEndpoint` in the running kubelet's `/configz`.
    pub(super) live: Option<&'a str>,
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
    for entry in fs::read_dir(root.join("proc")).ok()?.flatten() {
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == "kubelet" {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            return Some(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    None
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
mod tests {
    use super::*;

    fn node(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn found(files: &[(&str, &str)]) -> (String, String) {
        let root = node(files);
        let f = find(root.path()).unwrap();
        (f.place, f.endpoint.display().to_string())
    }

    #[test]
    fn the_endpoint_is_found_where_each_distribution_sets_it() {
        const CONFIG: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\ncontainerRuntimeEndpoint: unix:///run/a.sock # here\nlogging:\n  containerRuntimeEndpoint: wrong\n";
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);
        let cases: [Case<'_>; 12] = [
            (
                &[("var/lib/kubelet/config.yaml", CONFIG)],
                "/var/lib/kubelet/config.yaml",
                "/run/a.sock",
            ),
            (
                &[
                    ("var/lib/kubelet/config.yaml", CONFIG),
                    (
                        "var/lib/kubelet/instance-config.yaml",
                        "containerRuntimeEndpoint: \"unix:///run/i.sock\"\n",
                    ),
                ],
                "/var/lib/kubelet/instance-config.yaml",
                "/run/i.sock",
            ),
            (
                &[
                    ("var/lib/kubelet/config.yaml", CONFIG),
                    (
                        "var/lib/kubelet/kubeadm-flags.env",
                        "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///var/run/crio/crio.sock --pod-infra-container-image=x\"\n",
                    ),
                ],
                "/var/lib/kubelet/kubeadm-flags.env, a flag",
                "/var/run/crio/crio.sock",
            ),
            (
                &[
                    ("var/lib/kubelet/config.yaml", CONFIG),
                    ("proc/42/comm", "kubelet\n"),
                    (
                        "proc/42/cmdline",
                        "/usr/bin/kubelet\0--config=/c\0--container-runtime-endpoint\0unix:///run/p.sock\0",
                    ),
                ],
                "a flag of the running kubelet",
                "/run/p.sock",
            ),
            (
                &[(
                    "var/lib/kubelet/config.yaml",
                    "kind: KubeletConfiguration\n",
                )],
                "the kubelet's default",
                "/run/containerd/containerd.sock",
            ),
            (
                &[
                    ("var/lib/kubelet/config.yaml", CONFIG),
                    (
                        "opt/node/kubelet.yaml",
                        "containerRuntimeEndpoint: unix:///run/o.sock\n",
                    ),
                    ("proc/42/comm", "kubelet\n"),
                    (
                        "proc/42/cmdline",
                        "/opt/kubelet\0--config=/opt/node/kubelet.yaml\0-v=4\0",
                    ),
                ],
                "/opt/node/kubelet.yaml, which the running kubelet was given",
                "/run/o.sock",
            ),
            (
                &[
                    ("c.yaml", "containerRuntimeEndpoint: unix:///run/c.sock\n"),
                    (
                        "d/10.conf",
                        "containerRuntimeEndpoint: unix:///run/10.sock\n",
                    ),
                    (
                        "d/20.conf",
                        "containerRuntimeEndpoint: unix:///run/20.sock\n",
                    ),
                    ("d/30.conf", "logging: {}\n"),
                    (
                        "d/readme",
                        "containerRuntimeEndpoint: unix:///run/no.sock\n",
                    ),
                    ("proc/42/comm", "kubelet\n"),
                    (
                        "proc/42/cmdline",
                        "kubelet\0--config\0/c.yaml\0--config-dir=/d\0",
                    ),
                ],
                "/d/20.conf, which the running kubelet was given",
                "/run/20.sock",
            ),
            (
                &[
                    ("var/lib/kubelet/config.yaml", CONFIG),
                    ("c.yaml", "kind: KubeletConfiguration\n"),
                    ("proc/42/comm", "kubelet\n"),
                    ("proc/42/cmdline", "kubelet\0--config\0/c.yaml\0"),
                ],
                "the kubelet's default: its configuration sets none",
                "/run/containerd/containerd.sock",
            ),
            (
                &[("var/lib/rancher/k3s/agent/x", "")],
                "the default of k3s",
                "/run/k3s/containerd/containerd.sock",
            ),
            (
                &[(
                    "etc/rancher/rke2/config.yaml",
                    "container-runtime-endpoint: /run/own.sock\n",
                )],
                "/etc/rancher/rke2/config.yaml",
                "/run/own.sock",
            ),
            (
                &[(
                    "var/snap/microk8s/current/args/kubelet",
                    "--kubeconfig=x\n--container-runtime-endpoint=${SNAP_COMMON}/run/containerd.sock\n",
                )],
                "/var/snap/microk8s/current/args/kubelet",
                "${SNAP_COMMON}/run/containerd.sock",
            ),
            (
                &[(
                    "etc/kubernetes/kubelet/config.json",
                    "{\n  \"kind\": \"KubeletConfiguration\",\n  \"containerRuntimeEndpoint\": \"unix:///run/eks.sock\",\n}",
                )],
                "/etc/kubernetes/kubelet/config.json",
                "/run/eks.sock",
            ),
        ];
        for (files, place, endpoint) in cases {
            assert_eq!(found(files), (place.to_owned(), endpoint.to_owned()));
        }
    }

    #[test]
    fn a_machine_without_a_kubelet_says_so() {
        let root = node(&[]);
        assert_eq!(find(root.path()), None);
        let check = endpoint(root.path(), Known::default());
        assert_eq!(
            (check.health, check.found.as_str()),
            (Health::Off, "no kubelet on this machine")
        );
    }

    #[test]
    fn what_the_running_kubelet_says_of_itself_counts() {
        let root = node(&[(
            "var/lib/kubelet/config.yaml",
            "containerRuntimeEndpoint: unix:///run/file.sock\n",
        )]);
        let known = |live| Known {
            proxy: Some(Path::new("/run/tee.sock")),
            live: Some(live),
            ..Known::default()
        };
        let said = |live| {
            let c = endpoint(root.path(), known(live));
            (c.health, c.found)
        };
        assert_eq!(
            said("unix:///run/file.sock"),
            (
                Health::Warning,
                "/run/file.sock from /var/lib/kubelet/config.yaml (its /configz says the same): not tapped"
                    .to_owned()
            )
        );
        assert_eq!(
            said("unix:///run/tee.sock"),
            (
                Health::Works,
                "/run/tee.sock by its /configz, which counts; /var/lib/kubelet/config.yaml says /run/file.sock: changed since it started?: kflow's proxy"
                    .to_owned()
            )
        );
        let elsewhere = endpoint(node(&[]).path(), known("unix:///run/x.sock"));
        assert_eq!(elsewhere.found, "/run/x.sock by its /configz: not tapped");
    }

    #[test]
    fn a_tapped_kubelet_needs_nothing_and_another_gets_the_exact_lines() {
        let tapped = node(&[(
            "var/lib/kubelet/config.yaml",
            "containerRuntimeEndpoint: unix:///run/kflow/cri.sock\n",
        )]);
        assert_eq!(endpoint(tapped.path(), Known::default()).todo, "");
        let direct = node(&[(
            "var/lib/kubelet/config.yaml",
            "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n",
        )]);
        let todo = endpoint(direct.path(), Known::default()).todo;
        assert!(todo.starts_with("kflow proxy --listen /run/kflow/cri.sock --upstream /run/containerd/containerd.sock\n"), "{todo}");
        assert!(todo.contains("deploy/install.sh"));
    }
}
