use super::*;
use crate::doctor::Sockets;
use kflow_engine::live::Config;

fn node(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// The check of the endpoint, with what the running kubelet's `/configz` says.
fn checked(root: &Path, live: Option<&str>, known: Known<'_>) -> Check {
    current(root, live).map_or_else(|check| check, |it| endpoint(root, it, known))
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
    let cases: [Case<'_>; 16] = [
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
            &[
                (
                    "etc/rancher/k3s/config.yaml.d/50-kflow.yaml",
                    "kubelet-arg+: [container-runtime-endpoint=unix:///run/kflow/cri.sock]\n",
                ),
                ("var/lib/rancher/k3s/server/x", ""),
            ],
            "/etc/rancher/k3s/config.yaml.d/50-kflow.yaml",
            "/run/kflow/cri.sock",
        ),
        (
            &[
                (
                    "etc/rancher/k3s/config.yaml",
                    "# kubelet-arg: [container-runtime-endpoint=/run/old.sock]\nkubelet-arg:\n  - v=4\n  - container-runtime-endpoint=unix:///run/first.sock\n  - \"container-runtime-endpoint=unix:///run/last.sock\" # the one that counts\ncontainer-runtime-endpoint: /run/own.sock\n",
                ),
                (
                    "etc/rancher/k3s/config.yaml.d/10.yaml",
                    "kubelet-arg+: v=2\n",
                ),
            ],
            "/etc/rancher/k3s/config.yaml",
            "/run/last.sock",
        ),
        (
            &[
                (
                    "etc/rancher/k3s/config.yaml",
                    "kubelet-arg: [container-runtime-endpoint=unix:///run/first.sock]\n",
                ),
                (
                    "etc/rancher/k3s/config.yaml.d/10.yaml",
                    "kubelet-arg: [v=2]\n",
                ),
            ],
            "the default of k3s",
            "/run/k3s/containerd/containerd.sock",
        ),
        (
            &[(
                "var/snap/microk8s/current/args/kubelet",
                "#--container-runtime-endpoint=/run/old.sock\n--container-runtime-endpoint=/run/first.sock\n--container-runtime-endpoint /run/last.sock\n",
            )],
            "/var/snap/microk8s/current/args/kubelet",
            "/run/last.sock",
        ),
        (
            &[(
                "var/snap/microk8s/current/args/kubelet",
                "--kubeconfig=x\n--container-runtime-endpoint=${SNAP_COMMON}/run/containerd.sock\n",
            )],
            "/var/snap/microk8s/current/args/kubelet",
            "/var/snap/microk8s/common/run/containerd.sock",
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

/// After what doctor says to do on k3s and RKE2, the runtime is still the distribution's.
#[test]
fn the_runtime_behind_the_proxy_is_the_distributions_own() {
    let kflow = "kubelet-arg+: [container-runtime-endpoint=unix:///run/kflow/cri.sock]\n";
    let own = "run/k3s/containerd/containerd.sock";
    let runtime = |files: &[(&str, &str)]| {
        let root = node(files);
        upstream(root.path())
            .unwrap()
            .endpoint
            .display()
            .to_string()
    };
    let k3s = "etc/rancher/k3s/config.yaml.d/50-kflow.yaml";
    let there = ("var/lib/rancher/k3s/server/x", "");
    let files = [there, (k3s, kflow), (own, "")];
    assert_eq!(runtime(&files), format!("/{own}"));
    let before = "kubelet-arg: [container-runtime-endpoint=unix:///run/before.sock]\n";
    let files = [
        there,
        (k3s, kflow),
        ("etc/rancher/k3s/config.yaml", before),
        ("run/before.sock", ""),
    ];
    assert_eq!(runtime(&files), "/run/before.sock");
}

#[test]
fn a_machine_without_a_kubelet_says_so() {
    let root = node(&[]);
    assert_eq!(find(root.path()), Err(Unknown::NoKubelet));
    assert_eq!(upstream(root.path()), Err(Unknown::NoKubelet));
    let check = checked(root.path(), None, Known::default());
    assert_eq!(
        (check.health, check.found.as_str()),
        (Health::Off, "no kubelet on this machine")
    );
}

#[test]
fn the_nodes_name_is_the_one_that_the_kubelet_was_given() {
    let name = |line: &str| {
        let root = node(&[("proc/42/comm", "kubelet\n"), ("proc/42/cmdline", line)]);
        node_name(root.path())
    };
    assert_eq!(
        name("kubelet\0--hostname-override=node1\0-v=2\0"),
        Some("node1".into())
    );
    assert_eq!(
        name("kubelet\0--hostname-override\0a\0--hostname-override=b\0"),
        Some("b".into())
    );
    for line in ["kubelet\0--hostname-override=\0", "kubelet\0-v=2\0", ""] {
        assert_eq!(name(line), None, "{line}");
    }
    assert_eq!(node_name(node(&[]).path()), None);
}

#[test]
fn what_the_running_kubelet_says_of_itself_counts() {
    let root = node(&[(
        "var/lib/kubelet/config.yaml",
        "containerRuntimeEndpoint: unix:///run/file.sock\n",
    )]);
    let known = Known {
        proxy: Some(Path::new("/run/tee.sock")),
        ..Known::default()
    };
    let said = |live| {
        let c = checked(root.path(), Some(live), known);
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
    let followed = Known {
        followed: Some(Path::new("/run/file.sock")),
        ..known
    };
    let c = checked(root.path(), Some("unix:///run/file.sock"), followed);
    assert_eq!((c.health, c.todo.as_str()), (Health::Works, ""));
    assert!(
        c.found.ends_with(": the eBPF tap follows it"),
        "{}",
        c.found
    );
    let elsewhere = checked(node(&[]).path(), Some("unix:///run/x.sock"), known);
    assert_eq!(elsewhere.found, "/run/x.sock by its /configz: not tapped");
}

#[test]
fn a_tapped_kubelet_needs_nothing_and_another_gets_the_exact_lines() {
    let tapped = node(&[(
        "var/lib/kubelet/config.yaml",
        "containerRuntimeEndpoint: unix:///run/kflow/cri.sock\n",
    )]);
    assert_eq!(checked(tapped.path(), None, Known::default()).todo, "");
    let direct = node(&[(
        "var/lib/kubelet/config.yaml",
        "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n",
    )]);
    let todo = checked(direct.path(), None, Known::default()).todo;
    assert!(
        todo.starts_with(
            "kflow proxy --listen /run/kflow/cri.sock --upstream /run/containerd/containerd.sock\n"
        ),
        "{todo}"
    );
    assert!(todo.contains("deploy/install.sh"));
}

/// The kubelet is set to a proxy that has ended: its socket may be left, and no proxy is to be put before that.
#[test]
fn a_proxy_on_whose_socket_nobody_accepts_is_told_with_how_to_bring_it_back_and_take_it_out() {
    const TAPPED: (&str, &str) = (
        "var/lib/kubelet/config.yaml",
        "containerRuntimeEndpoint: unix:///run/kflow/cri.sock\n",
    );
    const INSTALLED: [(&str, &str); 2] = [
        ("etc/systemd/system/kflow-proxy.service", ""),
        ("usr/local/lib/kflow/uninstall.sh", ""),
    ];
    let gone = Asked::Refused("Connection refused (os error 111)".to_owned());
    let silent = Asked::Silent("no answer".to_owned());
    let told = |files: &[(&str, &str)], asked: &Asked, proxy: Option<&str>| {
        let root = node(files);
        let known = Known {
            asked: Some(asked),
            proxy: proxy.map(Path::new),
            ..Known::default()
        };
        checked(root.path(), None, known)
    };
    let c = told(&[TAPPED, INSTALLED[0], INSTALLED[1]], &gone, None);
    assert_eq!(c.health, Health::Off);
    assert!(
        c.found.contains("kflow's proxy, and nobody accepts"),
        "{c:?}"
    );
    assert_eq!(
        c.todo,
        "systemctl restart kflow-proxy; journalctl -u kflow-proxy -n 20\nor take it out: /usr/local/lib/kflow/uninstall.sh"
    );
    // A proxy that was started by hand, before a runtime that is noted.
    let noted = (
        "etc/kflow/proxy.env",
        "KFLOW_UPSTREAM=/run/crio/crio.sock\n",
    );
    let crio = ("run/crio/crio.sock", "");
    let c = told(&[TAPPED, noted, crio], &gone, None);
    assert_eq!(
        c.todo,
        "kflow proxy --listen /run/kflow/cri.sock --upstream /run/crio/crio.sock\nor take it out: remove /run/kflow/cri.sock from /var/lib/kubelet/config.yaml, and systemctl restart kubelet"
    );
    // The proxy itself answers: it refuses because its runtime does.
    for asked in [&gone, &silent] {
        let c = told(&[TAPPED, noted, crio], asked, Some("/run/kflow/cri.sock"));
        assert_eq!(c.health, Health::Off);
        assert!(
            c.found
                .contains("kflow's proxy, and the runtime behind it does not answer"),
            "{c:?}"
        );
        assert_eq!(c.todo, "systemctl status crio");
    }
    let direct = (
        "var/lib/kubelet/config.yaml",
        "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n",
    );
    for asked in [&gone, &silent] {
        let c = told(&[direct], asked, None);
        assert_eq!(
            (c.health, c.todo.as_str()),
            (Health::Off, "systemctl status crio")
        );
    }
    assert_eq!(
        told(&[direct], &Asked::Denied, None).todo,
        "run as root: sudo kflow doctor"
    );
    let works = told(&[TAPPED], &Asked::Answers, None);
    assert_eq!((works.health, works.todo.as_str()), (Health::Works, ""));
}

#[test]
fn an_embedded_kubelet_gets_its_endpoint_by_an_argument_and_keeps_its_runtime() {
    for (files, service) in [
        (&["var/lib/rancher/k3s/server/x"], "k3s"),
        (&["var/lib/rancher/k3s/agent/x"], "k3s-agent"),
        (&["var/lib/rancher/rke2/server/x"], "rke2-server"),
        (&["var/lib/rancher/rke2/agent/x"], "rke2-agent"),
    ] {
        let root = node(&[(files[0], "")]);
        let todo = checked(root.path(), None, Known::default()).todo;
        let last = todo.lines().last().unwrap();
        assert_eq!(last, format!("systemctl restart {service}"));
        // The distribution's own setting of that name would disable its containerd.
        assert!(!todo.contains("'container-runtime-endpoint"), "{todo}");
        assert!(
            todo.contains("kubelet-arg+: [container-runtime-endpoint=unix:///run/kflow/cri.sock]"),
            "{todo}"
        );
        assert_eq!(unit(root.path()), service);
    }
    assert_eq!(unit(node(&[]).path()), "kubelet");
}

const SOCKETS: [&str; 3] = [
    "run/containerd/containerd.sock",
    "run/crio/crio.sock",
    "run/cri-dockerd.sock",
];

/// Runs `upstream` on a machine that has the sockets of three runtimes.
fn beside(files: &[(&str, &str)]) -> Result<String, String> {
    let all: Vec<(&str, &str)> = SOCKETS
        .map(|s| (s, ""))
        .iter()
        .chain(files)
        .copied()
        .collect();
    let root = node(&all);
    upstream(root.path())
        .map(|f| f.endpoint.display().to_string())
        .map_err(|e| {
            e.to_string()
                .replace(&root.path().display().to_string(), "")
        })
}

#[test]
fn the_upstream_is_the_kubelets_own_endpoint_whatever_other_runtimes_are_there() {
    const CRIO: &str = "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n";
    const NONE: &str = "kind: KubeletConfiguration\n";
    const TAPPED: &str = "containerRuntimeEndpoint: unix:///run/kflow/cri.sock\n";
    const UNIT: &str = "[Service]\nEnvironmentFile=-/etc/default/kubelet\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/c.yaml\" \\\n  \"OTHER=x\"\nExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_EXTRA_ARGS\n";
    let own = |cmdline: &'static str| [("proc/7/comm", "kubelet\n"), ("proc/7/cmdline", cmdline)];
    let with =
        |a: &[(&'static str, &'static str)], b: &[(&'static str, &'static str)]| [a, b].concat();
    let crio = Ok("/run/crio/crio.sock");
    let dockerd = Ok("/run/cri-dockerd.sock");
    let containerd = Ok("/run/containerd/containerd.sock");
    for (files, want) in [
        // kubeadm's places, in three generations.
        (vec![("var/lib/kubelet/config.yaml", CRIO)], crio),
        (
            vec![
                ("var/lib/kubelet/config.yaml", NONE),
                ("var/lib/kubelet/instance-config.yaml", CRIO),
            ],
            crio,
        ),
        (
            vec![
                ("var/lib/kubelet/config.yaml", NONE),
                (
                    "var/lib/kubelet/kubeadm-flags.env",
                    "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=x --container-runtime-endpoint=unix:///run/cri-dockerd.sock\"\n",
                ),
            ],
            dockerd,
        ),
        // Before 1.24 a kubelet had Docker built in.
        (
            own("kubelet\0--container-runtime=docker\0").to_vec(),
            Err("the kubelet uses Docker without a runtime's socket (dockershim, before Kubernetes 1.24: --container-runtime=docker of the running kubelet), so that no proxy can be put between"),
        ),
        (
            own("kubelet\0--config=/c.yaml\0--network-plugin=cni\0").iter().chain(&[("c.yaml", NONE)]).copied().collect(),
            Err("the kubelet uses Docker without a runtime's socket (dockershim, before Kubernetes 1.24: --network-plugin of the running kubelet), so that no proxy can be put between"),
        ),
        (
            vec![
                ("var/lib/kubelet/config.yaml", NONE),
                ("var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--network-plugin=cni\"\n"),
            ],
            Err("the kubelet uses Docker without a runtime's socket (dockershim, before Kubernetes 1.24: --network-plugin of /var/lib/kubelet/kubeadm-flags.env), so that no proxy can be put between"),
        ),
        (
            own("kubelet\0--container-runtime=remote\0--network-plugin=cni\0--container-runtime-endpoint=/run/crio/crio.sock\0").to_vec(),
            crio,
        ),
        // JSON on one line.
        (
            vec![(
                "var/lib/kubelet/config.yaml",
                "{\"kind\":\"KubeletConfiguration\",\"containerRuntimeEndpoint\":\"unix:///run/crio/crio.sock\"}",
            )],
            crio,
        ),
        // The running kubelet: the last flag; a drop-in before the file; the default.
        (
            own("kubelet\0--container-runtime-endpoint=unix:///run/x.sock\0--container-runtime-endpoint\0/run/cri-dockerd.sock\0").to_vec(),
            dockerd,
        ),
        (
            with(
                &own("kubelet\0--config=/c.yaml\0--config-dir=/d\0"),
                &[("c.yaml", NONE), ("d/sub/90.conf", CRIO), ("d/10.conf", NONE)],
            ),
            crio,
        ),
        (
            with(
                &own("kubelet\0--config=/c.yaml\0"),
                &[("c.yaml", NONE), ("var/lib/kubelet/config.yaml", CRIO)],
            ),
            containerd,
        ),
        // A kubelet that does not run: its unit, with and without flags from the environment.
        (
            vec![("usr/lib/systemd/system/kubelet.service", UNIT), ("c.yaml", CRIO)],
            crio,
        ),
        (
            vec![
                ("usr/lib/systemd/system/kubelet.service", UNIT),
                ("c.yaml", CRIO),
                (
                    "etc/default/kubelet",
                    "KUBELET_EXTRA_ARGS='--v=4 --container-runtime-endpoint=unix:///run/cri-dockerd.sock'\n",
                ),
            ],
            dockerd,
        ),
        (
            vec![
                ("usr/lib/systemd/system/kubelet.service", UNIT),
                ("c.yaml", NONE),
                (
                    "etc/systemd/system/kubelet.service.d/20.conf",
                    "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --container-runtime-endpoint=unix:///run/crio/crio.sock\n",
                ),
            ],
            crio,
        ),
        // A tapped kubelet: the endpoint that kflow's flag overrides.
        (
            with(
                &own("kubelet\0--config=/c.yaml\0--container-runtime-endpoint=unix:///run/kflow/cri.sock\0"),
                &[("c.yaml", CRIO)],
            ),
            crio,
        ),
        (
            with(
                &own("kubelet\0--config=/c.yaml\0"),
                &[
                    ("c.yaml", TAPPED),
                    ("etc/kflow/proxy.env", "# kflow\nKFLOW_UPSTREAM=/run/cri-dockerd.sock\n"),
                ],
            ),
            dockerd,
        ),
        // Unknown endpoints are refused.
        (vec![], Err("no kubelet on this machine")),
        (
            with(&own("kubelet\0--config=/c.yaml\0"), &[("c.yaml", TAPPED)]),
            Err("nothing says which runtime is behind it"),
        ),
        (own("kubelet\0--config=/gone.yaml\0").to_vec(), Err("cannot read /gone.yaml")),
        (
            with(&own("kubelet\0--config=/c.yaml\0"), &[("c.yaml", "a: [")]),
            Err("cannot read /c.yaml"),
        ),
        (
            with(&own("kubelet\0--config-dir=/gone\0"), &[]),
            Err("cannot read /gone"),
        ),
        (
            own("kubelet\0--container-runtime-endpoint=unix:///run/other.sock\0").to_vec(),
            Err("there is no such socket"),
        ),
        (
            own("kubelet\0--container-runtime-endpoint=tcp://10.0.0.1:1\0").to_vec(),
            Err("that is no Unix socket"),
        ),
        (
            with(
                &own("kubelet\0"),
                &[("proc/8/comm", "kubelet\n"), ("proc/8/cmdline", "kubelet\0")],
            ),
            Err("2 kubelets run on this machine"),
        ),
        // A kubelet of kind, on a machine whose process 1 is not readable; and a kubelet that has exited.
        (
            with(
                &own("kubelet\0--config=/c.yaml\0"),
                &[
                    ("c.yaml", CRIO),
                    ("proc/8/comm", "kubelet\n"),
                    ("proc/8/cmdline", "kubelet\0"),
                    ("proc/8/status", "Name:\tkubelet\nNSpid:\t8\t1\n"),
                    ("proc/9/comm", "kubelet\n"),
                    ("proc/9/status", "State:\tZ (zombie)\nNSpid:\t9\n"),
                ],
            ),
            crio,
        ),
    ] {
        match (beside(&files), want) {
            (Ok(found), Ok(want)) => assert_eq!(found, want, "{files:?}"),
            (Err(said), Err(want)) => assert!(said.contains(want), "{files:?}: {said}"),
            (found, want) => panic!("{files:?}: {found:?}, not {want:?}"),
        }
    }
}

#[test]
fn what_runs_is_asked_of_the_kubelets_runtime_and_of_no_other() {
    let root = node(&[
        (SOCKETS[0], ""),
        (SOCKETS[1], ""),
        (
            "var/lib/kubelet/config.yaml",
            "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n",
        ),
    ]);
    let socket = super::super::runtime_socket(root.path());
    assert_eq!(socket.as_deref(), Ok(Path::new("/run/crio/crio.sock")));
    // Without a kubelet, an only runtime is used; of two, neither.
    let both = super::super::runtime_socket(node(&[(SOCKETS[0], ""), (SOCKETS[1], "")]).path());
    assert!(both.unwrap_err().contains("which of these runtimes"));
    let none = super::super::runtime_socket(node(&[]).path());
    assert!(none.unwrap_err().contains("usual places"));
    let one = node(&[(SOCKETS[1], "")]);
    assert_eq!(
        super::super::runtime_socket(one.path()),
        Ok(one.path().join(SOCKETS[1]))
    );
}

#[test]
fn a_machine_whose_kubelet_is_stopped_may_be_any_node() {
    let state = ("var/lib/kubelet/pods/.keep", "");
    assert!(is_stopped(node(&[state]).path()));
    let runs = ("proc/42/comm", "kubelet\n");
    assert!(!is_stopped(node(&[state, runs]).path()));
    assert!(!is_stopped(node(&[]).path()));
}

/// containerd and CRI-O remove their sockets when they end.
#[test]
fn a_runtime_that_is_stopped_is_to_be_looked_at_and_not_named() {
    let todo = |files: &[(&str, &str)]| {
        let root = node(files);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let (config, mut sockets) = (Config::nothing(), Sockets::default());
        let checks =
            runtime
                .unwrap()
                .block_on(crate::doctor::runtimes(root.path(), &config, &mut sockets));
        let [check] = <[_; 1]>::try_from(checks).unwrap();
        (check.found, check.todo)
    };
    let config = |socket: &str| format!("containerRuntimeEndpoint: unix:///run/{socket}\n");
    for (socket, unit) in [
        ("containerd/containerd.sock", "containerd"),
        ("crio/crio.sock", "crio"),
        ("cri-dockerd.sock", "cri-docker"),
    ] {
        let (found, todo) = todo(&[("var/lib/kubelet/config.yaml", &config(socket))]);
        assert!(found.contains(socket), "{found}");
        assert_eq!(todo, format!("systemctl status {unit}"));
    }
    let (found, todo) = todo(&[]);
    assert!(found.starts_with("no runtime's socket"), "{found}");
    assert!(todo.contains("--runtime"), "{todo}");
}
