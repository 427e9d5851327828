use super::*;

/// A manifest as kubeadm writes it (`cmd/kubeadm/app/phases/controlplane/manifests.go`), with the audit flags and
/// mounts of its guide. Fields that are not read are left out.
const KUBEADM: &str = r"apiVersion: v1
kind: Pod
metadata:
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-apiserver
    - --advertise-address=172.18.0.2
    - --audit-log-path=/var/log/kubernetes/audit/audit.log
    - --audit-policy-file=/etc/kubernetes/audit/policy.yaml
    image: registry.k8s.io/kube-apiserver:v1.36.0
    name: kube-apiserver
    volumeMounts:
    - mountPath: /etc/ssl/certs
      name: ca-certs
      readOnly: true
    - mountPath: /var/log
      name: outer
    - mountPath: /var/log/kubernetes/audit
      name: audit-logs
  hostNetwork: true
  volumes:
  - hostPath:
      path: /etc/ssl/certs
      type: DirectoryOrCreate
    name: ca-certs
  - hostPath: {path: /elsewhere}
    name: outer
  - hostPath:
      path: /srv/audit
      type: DirectoryOrCreate
    name: audit-logs
";

fn control_plane() -> Vec<String> {
    [
        "kube-system_etcd-cp1_00000000000000000000000000000000",
        "kube-system_kube-apiserver-cp1_5b4d1c9d1f0a44c5a6b31b6dfd6a0a11",
        "kube-system_kube-controller-manager-cp1_22ffa2bbb0c7ac1c0a9ef7b9a8d0a822",
        "kube-system_kube-scheduler-cp1_3f4d5e9d1f0a44c5a6b31b6dfd6a0a33",
        "kube-system_kube-proxy-x2v5k_0c5b2d1e-7d4e-4a0b-9f0a-5a1b2c3d4e5f",
        "shop_kube-apiserver-cp1_0c5b2d1e-7d4e-4a0b-9f0a-5a1b2c3d4e60",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn said<'a>(found: &'a Found, what: &str) -> Option<&'a Finding> {
    found.findings.iter().find(|f| f.what == what)
}

#[test]
fn a_control_plane_of_static_pods_is_found_with_its_audit_log() {
    let seen = Seen {
        pod_logs: Some(control_plane()),
        manifests: vec![
            ("etcd.yaml".into(), "kind: Pod".into()),
            ("broken.yaml".into(), "a: [".into()),
            ("kube-apiserver.yaml".into(), KUBEADM.into()),
        ],
        ..Seen::default()
    };
    let found = found(&seen);
    assert_eq!(
        found.control,
        [
            Component::Apiserver,
            Component::Scheduler,
            Component::ControllerManager
        ]
    );
    // Decided by the innermost mount.
    assert_eq!(found.audit_logs, [Path::new("/srv/audit/audit.log")]);
    let missing: Vec<&str> = (found.findings.iter())
        .filter(|f| !f.there)
        .map(|f| f.what.as_str())
        .collect();
    assert_eq!(missing, ["apiserver spans"]);
}

#[test]
fn a_worker_lacks_no_control_plane() {
    let seen = Seen {
        pod_logs: Some(vec![
            "shop_web-0_0c5b2d1e-7d4e-4a0b-9f0a-5a1b2c3d4e5f".into(),
        ]),
        ..Seen::default()
    };
    let found = found(&seen);
    assert!(found.control.is_empty() && found.audit_logs.is_empty());
    assert_eq!(
        said(&found, "control plane").unwrap().found,
        "not on this node"
    );
    assert_eq!(said(&found, "audit log"), None);
}

#[test]
fn an_audit_log_that_cannot_be_had_is_told_with_what_would_help() {
    let with = |text: &str| {
        let seen = Seen {
            pod_logs: Some(control_plane()),
            manifests: vec![("a".into(), text.to_owned())],
            ..Seen::default()
        };
        let found = found(&seen);
        assert!(found.audit_logs.is_empty(), "{found:?}");
        said(&found, "audit log").unwrap().clone()
    };
    let none = with(&KUBEADM.replace("--audit-log-path=", "--x="));
    assert!(none.todo.contains("--audit-log-path="), "{none:?}");
    let stdout = with(&KUBEADM.replace("/var/log/kubernetes/audit/audit.log", "-"));
    assert!(stdout.found.contains("standard output"), "{stdout:?}");
    let inside = with(&KUBEADM.replace("/var/log/kubernetes/audit/audit.log", "/tmp/a.log"));
    assert!(inside.found.contains("no folder of the node"), "{inside:?}");
    assert!(!inside.todo.is_empty());
}

#[test]
fn one_process_distributions_have_their_control_plane_in_one_log() {
    for (distribution, audit) in [
        (
            Distribution::K3s,
            "/var/lib/rancher/k3s/server/logs/audit.log",
        ),
        (
            Distribution::MicroShift,
            "/var/log/kube-apiserver/audit.log",
        ),
    ] {
        let mut seen = Seen {
            distribution,
            pod_logs: Some(Vec::new()),
            ..Seen::default()
        };
        let without = found(&seen);
        assert!(
            said(&without, "control plane")
                .unwrap()
                .found
                .contains("its log")
        );
        assert!(!said(&without, "audit log").unwrap().todo.is_empty());
        seen.files.push(audit.into());
        assert_eq!(found(&seen).audit_logs, [Path::new(audit)]);
    }
}

#[test]
fn talos_has_its_audit_log_where_no_static_pod_says_it() {
    let log = PathBuf::from("/var/log/audit/kube/kube-apiserver.log");
    let mut seen = Seen {
        distribution: Distribution::Talos,
        pod_logs: Some(control_plane()),
        files: vec![log.clone()],
        ..Seen::default()
    };
    assert_eq!(found(&seen).audit_logs, [log]);
    // A worker has no audit log, and lacks none.
    seen.files.clear();
    seen.pod_logs = Some(Vec::new());
    assert_eq!(said(&found(&seen), "audit log"), None);
}

#[test]
fn rke2_has_its_kubelet_and_runtime_logs_in_files() {
    let seen = Seen {
        distribution: Distribution::Rke2,
        pod_logs: Some(control_plane()),
        files: vec![
            "/var/lib/rancher/rke2/agent/logs/kubelet.log".into(),
            "/var/lib/rancher/rke2/agent/containerd/containerd.log".into(),
        ],
        ..Seen::default()
    };
    let found = found(&seen);
    assert_eq!(found.kubelet_log.as_ref(), seen.files.first());
    assert_eq!(
        found.logs,
        [(
            Component::Containerd,
            PathBuf::from("/var/lib/rancher/rke2/agent/containerd/containerd.log")
        )]
    );
    assert_eq!(found.control.len(), 3);
}

#[test]
fn where_the_kubelets_spans_go_is_read_in_its_configuration() {
    let with = |text: &str| {
        let seen = Seen {
            kubelet: Some(("/var/lib/kubelet/config.yaml".into(), text.to_owned())),
            ..Seen::default()
        };
        said(&found(&seen), "kubelet spans").unwrap().clone()
    };
    assert!(
        with("kind: KubeletConfiguration\n")
            .found
            .contains("sends none")
    );
    let elsewhere = with("tracing: {endpoint: \"10.0.0.1:4317\"}\n");
    assert!(!elsewhere.there && elsewhere.found.contains("10.0.0.1:4317"));
    // The line that the finding advises is accepted afterwards.
    let line = elsewhere.todo.split("restarted: ").nth(1).unwrap();
    let here = with(&format!("kind: KubeletConfiguration\n{line}\n"));
    assert!(here.there && here.todo.is_empty(), "{here:?}");
    assert!(
        with("tracing: [\n")
            .found
            .contains("config.yaml cannot be read")
    );
}

#[test]
fn where_a_containerds_spans_go_is_read_in_its_environment() {
    let with = |environment: &[&str]| {
        let seen = Seen {
            containerd: Some(environment.iter().map(|v| (*v).to_owned()).collect()),
            ..Seen::default()
        };
        said(&found(&seen), "runtime spans").unwrap().clone()
    };
    assert!(said(&found(&Seen::default()), "runtime spans").is_none());
    let none = with(&["PATH=/bin", "OTEL_EXPORTER_OTLP_ENDPOINT="]);
    assert!(!none.there && none.found.contains("sends none"), "{none:?}");
    let elsewhere = with(&["OTEL_EXPORTER_OTLP_ENDPOINT=http://u:t0ps3cret@10.0.0.1:4317"]);
    assert!(!elsewhere.there && !elsewhere.found.contains("t0ps3cret"));
    // The line that the finding advises is accepted afterwards.
    let line = none.todo.split("Environment=").nth(1).unwrap();
    let variables: Vec<&str> = line.split(' ').collect();
    let here = with(&variables);
    assert!(here.there && here.todo.is_empty(), "{here:?}");
    let other = with(&variables[..1]);
    assert!(!other.there && other.found.contains("gRPC"), "{other:?}");
}

#[test]
fn where_a_crios_spans_go_is_read_in_its_files_environment_and_flags() {
    const OFF: &str = "[crio.runtime]\nhooks_dir = []\n[crio.tracing]\nenable_tracing = false\n";
    const OTHER: &str = "[crio.tracing]\ntracing_endpoint = \"10.0.0.1:4317\"\n";
    let strings = |all: &[&str]| all.iter().map(|v| (*v).to_owned()).collect();
    let with = |files: &[&str], environment: &[&str], arguments: &[&str]| {
        let files = files
            .iter()
            .map(|t| ("/etc/crio/a.conf".into(), (*t).to_owned()));
        let seen = Seen {
            containerd: Some(Vec::new()),
            crio: Some(Crio {
                files: files.collect(),
                environment: strings(environment),
                arguments: strings(arguments),
            }),
            ..Seen::default()
        };
        said(&found(&seen), "runtime spans").unwrap().clone()
    };
    let none = with(&[OFF], &[], &["crio"]);
    assert!(!none.there && none.found == "CRI-O sends none", "{none:?}");
    // The line that the finding advises is accepted afterwards, in the last file.
    let line = none.todo.split("(no pod is): ").nth(1).unwrap();
    assert!(with(&[OFF, OTHER, line], &[], &["crio"]).there);
    // A flag overrides a variable, and a variable overrides a file.
    let own = "unix:///run/kflow/otlp.sock";
    let variable = format!("CONTAINER_TRACING_ENDPOINT={own}");
    for (environment, arguments, there) in [
        (
            &["CONTAINER_ENABLE_TRACING=true", &variable][..],
            &["crio"][..],
            true,
        ),
        (
            &["CONTAINER_ENABLE_TRACING=false", &variable],
            &["crio"],
            false,
        ),
        (
            &["CONTAINER_ENABLE_TRACING=false", &variable],
            &["crio", "--enable-tracing"],
            true,
        ),
        (
            &[&variable],
            &[
                "crio",
                "--enable-tracing",
                "--tracing-endpoint",
                "10.0.0.2:1",
            ],
            false,
        ),
        (
            &[],
            &[
                "crio",
                "-enable-tracing=true",
                &format!("--tracing-endpoint={own}"),
            ],
            true,
        ),
    ] {
        let it = with(&[OTHER], environment, arguments);
        assert_eq!(it.there, there, "{environment:?} {arguments:?}: {it:?}");
    }
    let default = with(&[], &[], &["crio", "--enable-tracing"]);
    assert!(default.found.contains("127.0.0.1:4317"), "{default:?}");
    assert!(
        with(&["a = ["], &[], &["crio"])
            .found
            .contains("a.conf cannot be read")
    );
}

#[test]
fn where_an_apiservers_spans_go_is_read_in_the_file_of_its_static_pod() {
    const FLAG: &str = "--tracing-config-file=/etc/kubernetes/tracing.yaml";
    let pod = |flag: &str| {
        let text = format!(
            "spec: {{containers: [{{name: kube-apiserver, command: [kube-apiserver, {flag}], volumeMounts: [{{name: c, mountPath: /etc/kubernetes}}]}}], volumes: [{{name: c, hostPath: {{path: /etc/kube}}}}]}}"
        );
        vec![("kube-apiserver.yaml".to_owned(), text)]
    };
    let with = |flag: &str, file: Option<&str>| {
        let seen = Seen {
            manifests: pod(flag),
            apiserver: file.map(|text| ("/etc/kube/tracing.yaml".into(), text.to_owned())),
            ..Seen::default()
        };
        said(&found(&seen), "apiserver spans").unwrap().clone()
    };
    assert_eq!(
        apiserver_tracing(&pod(FLAG)).unwrap(),
        std::path::Path::new("/etc/kube/tracing.yaml")
    );
    assert!(said(&found(&Seen::default()), "apiserver spans").is_none());
    let none = with("--v=2", None);
    assert!(!none.there && none.found.contains("sends none"), "{none:?}");
    assert!(with(FLAG, None).found.contains("cannot be read"));
    assert!(
        with(FLAG, Some("endpoint: ["))
            .found
            .contains("cannot be read")
    );
    let elsewhere = with(FLAG, Some("endpoint: 10.0.0.1:4317"));
    assert!(!elsewhere.there && elsewhere.found.contains("10.0.0.1:4317"));
    // The text that the finding advises is accepted afterwards.
    let file = none.todo.split("in FILE: ").nth(1).unwrap();
    let here = with(FLAG, Some(file));
    assert!(here.there && here.todo.is_empty(), "{here:?}");
}
