//! The few CRI messages that a pod's lifecycle needs, and the runtime that `run.sh` started.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

use prost::Message;

use crate::proxy::h2::{Answer, Raw};
use crate::proxy::rig::eventually;

macro_rules! message {
    ($name:ident { $($(#[$attr:meta])* $field:ident: $kind:ty),* $(,)? }) => {
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $name { $($(#[$attr])* pub(super) $field: $kind),* }
    };
}

message!(SandboxMetadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(uint32, tag = "4")]
    attempt: u32,
});
message!(NamespaceOption {
    #[prost(int32, tag = "1")]
    network: i32,
});
message!(SecurityContext {
    #[prost(message, tag = "1")] namespace_options: Option<NamespaceOption>,
});
message!(LinuxSandbox {
    #[prost(string, tag = "1")] cgroup_parent: String,
    #[prost(message, tag = "2")] security_context: Option<SecurityContext>,
});
message!(SandboxConfig {
    #[prost(message, tag = "1")] metadata: Option<SandboxMetadata>,
    #[prost(string, tag = "3")] log_directory: String,
    #[prost(map = "string, string", tag = "6")] labels: HashMap<String, String>,
    #[prost(message, tag = "8")] linux: Option<LinuxSandbox>,
    // A field that no CRI version has: the proxy must pass it on unchanged, and the runtime must ignore it.
    #[prost(string, tag = "19999")] unknown: String,
});
message!(RunPodSandbox {
    #[prost(message, tag = "1")] config: Option<SandboxConfig>,
});
message!(Id {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(int64, tag = "2")]
    timeout: i64,
});
message!(ContainerMetadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, tag = "2")]
    attempt: u32,
});
message!(Image {
    #[prost(string, tag = "1")]
    image: String,
});
message!(KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
});
message!(Resources {
    #[prost(int64, tag = "4")]
    memory_limit: i64,
});
message!(LinuxContainer {
    #[prost(message, tag = "1")] resources: Option<Resources>,
});
message!(ContainerConfig {
    #[prost(message, tag = "1")] metadata: Option<ContainerMetadata>,
    #[prost(message, tag = "2")] image: Option<Image>,
    #[prost(string, repeated, tag = "4")] args: Vec<String>,
    #[prost(message, repeated, tag = "6")] envs: Vec<KeyValue>,
    #[prost(map = "string, string", tag = "9")] labels: HashMap<String, String>,
    #[prost(string, tag = "11")] log_path: String,
    #[prost(message, tag = "15")] linux: Option<LinuxContainer>,
});
message!(CreateContainer {
    #[prost(string, tag = "1")] sandbox: String,
    #[prost(message, tag = "2")] config: Option<ContainerConfig>,
    #[prost(message, tag = "3")] sandbox_config: Option<SandboxConfig>,
});
message!(ImageRequest {
    #[prost(message, tag = "1")] image: Option<Image>,
});

pub(super) const IMAGE: &str = "kflow.test/tiny:1";
/// An environment value that must never be observed.
pub(super) const SECRET: &str = "hunter2-never-to-be-seen";

pub(super) fn runtime(method: &str) -> String {
    format!("/runtime.v1.RuntimeService/{method}")
}

/// The folder that `run.sh` prepared.
pub(super) struct Real {
    pub(super) dir: PathBuf,
}

impl Real {
    pub(super) fn from_env() -> Self {
        let dir = std::env::var_os("KFLOW_REAL").expect("started by tests/real/run.sh");
        Self { dir: dir.into() }
    }
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("run/containerd.sock")
    }
    /// Kills containerd.
    pub(super) fn stop(&self) {
        // The script fails when containerd is not running, which is the wanted state.
        Command::new(self.dir.join("stop")).status().unwrap();
        eventually("containerd is gone", || {
            std::os::unix::net::UnixStream::connect(self.socket())
                .is_err()
                .then_some(())
        });
    }
    /// Starts containerd again.
    pub(super) fn start(&self) {
        assert!(
            Command::new(self.dir.join("start"))
                .status()
                .unwrap()
                .success()
        );
    }
}

pub(super) fn sandbox_config(name: &str) -> SandboxConfig {
    let uid = format!(
        "{:08x}-0000-4000-8000-000000000000",
        name.bytes()
            .fold(7_u32, |h, b| h.wrapping_mul(31) + u32::from(b))
    );
    let labels = [
        ("io.kubernetes.pod.name", name),
        ("io.kubernetes.pod.namespace", "real"),
        ("io.kubernetes.pod.uid", &uid),
    ];
    SandboxConfig {
        metadata: Some(SandboxMetadata {
            name: name.into(),
            uid: uid.clone(),
            namespace: "real".into(),
            attempt: 0,
        }),
        log_directory: String::new(),
        labels: labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        linux: Some(LinuxSandbox {
            // Not below kubepods: a kubelet on this machine would end pods there that it does not know.
            cgroup_parent: format!("/kflow-test/pod{uid}"),
            // The node's network needs no CNI.
            security_context: Some(SecurityContext {
                namespace_options: Some(NamespaceOption { network: 2 }),
            }),
        }),
        unknown: "passes".into(),
    }
}

/// Makes a call and asserts that it succeeds; returns the answer's first field when that is a string.
pub(super) async fn works(raw: &mut Raw, method: &str, request: &impl Message) -> String {
    let answer = call(raw, method, request).await;
    assert_eq!(
        answer.trailer("grpc-status"),
        Some("0"),
        "{method}: {answer:?}"
    );
    Id::decode(answer.message())
        .map(|i| i.id)
        .unwrap_or_default()
}

pub(super) async fn call(raw: &mut Raw, method: &str, request: &impl Message) -> Answer {
    let path = if method.starts_with('/') {
        method.to_owned()
    } else {
        runtime(method)
    };
    raw.call(&path, &request.encode_to_vec(), &[("grpc-timeout", "30S")])
        .await
        .unwrap()
}

pub(super) fn id(id: &str) -> Id {
    Id {
        id: id.into(),
        timeout: 0,
    }
}

/// A running pod of one container.
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) sandbox: String,
    pub(super) container: String,
}

/// Errors of runc on a loaded machine, with and without a proxy in front of containerd: runc's own first process was
/// late. A kubelet retries after them.
const RUNC_WAS_LATE: [&str; 2] = ["final child's PID from pipe", "context deadline exceeded"];
/// How many attempts the tests' kubelet makes.
const ATTEMPTS: u32 = 5;

/// Makes a call that starts a process; returns `None` when the call failed with an error of [`RUNC_WAS_LATE`].
async fn starts(raw: &mut Raw, method: &str, request: &impl Message) -> Option<String> {
    let answer = call(raw, method, request).await;
    if answer.trailer("grpc-status") == Some("0") {
        let id = Id::decode(answer.message()).map(|i| i.id);
        return Some(id.unwrap_or_default());
    }
    let why = answer.trailer("grpc-message").unwrap_or_default();
    assert!(
        RUNC_WAS_LATE.iter().any(|m| why.contains(m)),
        "{method}: {answer:?}"
    );
    None
}

/// Starts a pod, from RunPodSandbox to StartContainer.
pub(super) async fn start_pod(raw: &mut Raw, name: &str) -> Pod {
    start_pod_of(raw, name, &[], None).await
}

/// Like [`start_pod`], with arguments for the container's program and a memory limit in bytes.
pub(super) async fn start_pod_of(
    raw: &mut Raw,
    name: &str,
    args: &[&str],
    memory: Option<i64>,
) -> Pod {
    let mut config = sandbox_config(name);
    let mut attempt = 0;
    let sandbox = loop {
        config.metadata.as_mut().expect("it has").attempt = attempt;
        let request = RunPodSandbox {
            config: Some(config.clone()),
        };
        if let Some(id) = starts(raw, "RunPodSandbox", &request).await {
            break id;
        }
        attempt += 1;
        assert!(attempt < ATTEMPTS, "no sandbox in {attempt} attempts");
    };
    let image = Some(Image {
        image: IMAGE.into(),
    });
    works(
        raw,
        "/runtime.v1.ImageService/ImageStatus",
        &ImageRequest {
            image: image.clone(),
        },
    )
    .await;
    let mut labels = config.labels.clone();
    labels.insert("io.kubernetes.container.name".into(), "c".into());
    let mut attempt = 0;
    let container = loop {
        let container = CreateContainer {
            sandbox: sandbox.clone(),
            config: Some(ContainerConfig {
                metadata: Some(ContainerMetadata {
                    name: "c".into(),
                    attempt,
                }),
                image: image.clone(),
                args: args.iter().map(|a| (*a).to_owned()).collect(),
                envs: vec![KeyValue {
                    key: "PASSWORD".into(),
                    value: SECRET.into(),
                }],
                labels: labels.clone(),
                log_path: String::new(),
                linux: memory.map(|memory_limit| LinuxContainer {
                    resources: Some(Resources { memory_limit }),
                }),
            }),
            sandbox_config: Some(config.clone()),
        };
        let container = works(raw, "CreateContainer", &container).await;
        if starts(raw, "StartContainer", &id(&container))
            .await
            .is_some()
        {
            break container;
        }
        works(raw, "RemoveContainer", &id(&container)).await;
        attempt += 1;
        assert!(attempt < ATTEMPTS, "no container in {attempt} attempts");
    };
    Pod {
        name: name.into(),
        sandbox,
        container,
    }
}

/// Ends a pod, from StopContainer to RemovePodSandbox.
pub(super) async fn end_pod(raw: &mut Raw, pod: &Pod) {
    works(
        raw,
        "StopContainer",
        &Id {
            id: pod.container.clone(),
            timeout: 10,
        },
    )
    .await;
    works(raw, "StopPodSandbox", &id(&pod.sandbox)).await;
    works(raw, "RemoveContainer", &id(&pod.container)).await;
    works(raw, "RemovePodSandbox", &id(&pod.sandbox)).await;
}
