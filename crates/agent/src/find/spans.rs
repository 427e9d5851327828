//! Where the kubelet, the apiserver and the runtime send their spans, and what would send them to the agent.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use kflow_sources::agent::SPANS;

use super::{Finding, Seen, apiserver};

/// [`Finding::what`] of the finding about the kubelet's spans.
pub const KUBELET_SPANS: &str = "kubelet spans";
/// [`Finding::what`] of the finding about the container runtime's spans.
const RUNTIME_SPANS: &str = "runtime spans";

/// What decides where a CRI-O sends its spans. Each field overrides those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crio {
    /// Configuration files in the order in which CRI-O reads them, with their texts. A later
    /// file overrides earlier ones.
    pub files: Vec<(PathBuf, String)>,
    /// Those [`CRIO_VARIABLES`] that are in its environment: `NAME=VALUE`.
    pub environment: Vec<String>,
    pub arguments: Vec<String>,
}

/// Variables that tell CRI-O where its configuration is and where to send its spans (`internal/criocli/criocli.go`).
pub const CRIO_VARIABLES: [&str; 4] = [
    "CONTAINER_CONFIG",
    "CONTAINER_CONFIG_DIR",
    "CONTAINER_ENABLE_TRACING",
    "CONTAINER_TRACING_ENDPOINT",
];

impl Crio {
    /// Returns the last value of a flag, else that of its variable. CRI-O takes `-x V`, `--x V` and `--x=V` alike, and
    /// a flag without a value as `true`.
    fn given(&self, names: &[&str], variable: &str) -> Option<&str> {
        let flag = self.arguments.iter().enumerate().rev();
        let flag = flag.filter_map(|(at, a)| {
            let a = a.strip_prefix("--").or_else(|| a.strip_prefix('-'))?;
            let (name, value) = a.split_once('=').map_or((a, None), |(n, v)| (n, Some(v)));
            let next = || self.arguments.get(at + 1).filter(|n| !n.starts_with('-'));
            names.contains(&name).then(|| {
                value
                    .or_else(|| next().map(String::as_str))
                    .unwrap_or("true")
            })
        });
        let mut variables = self.environment.iter().filter_map(|v| v.split_once('='));
        flag.into_iter().next().or_else(|| {
            variables
                .find(|(n, v)| *n == variable && !v.is_empty())
                .map(|(_, v)| v)
        })
    }
    /// Returns the configuration file that CRI-O reads first (`pkg/config/config_unix.go`, `CrioConfigPath`).
    pub fn file(&self) -> &Path {
        let given = self.given(&["config", "c"], "CONTAINER_CONFIG");
        Path::new(given.unwrap_or("/etc/crio/crio.conf"))
    }
    /// Returns the folder of the configuration files that CRI-O reads after [`file`](Self::file).
    pub fn folder(&self) -> &Path {
        let given = self.given(&["config-dir", "d"], "CONTAINER_CONFIG_DIR");
        Path::new(given.unwrap_or("/etc/crio/crio.conf.d"))
    }
}

/// Returns the findings about the spans of the kubelet, the apiserver and the runtime.
pub(super) fn found(seen: &Seen) -> impl Iterator<Item = Finding> {
    let spans = [
        kubelet_spans(seen),
        apiserver_spans(seen),
        crio_spans(seen).or_else(|| containerd_spans(seen)),
    ];
    spans.into_iter().flatten()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Configuration {
    tracing: Option<Tracing>,
}
#[derive(Default, Deserialize)]
#[serde(default)]
struct Tracing {
    endpoint: Option<String>,
}

impl Tracing {
    /// Returns the endpoint when it is the agent's; the error says where the spans are sent otherwise.
    fn sent_to(self, own: &str) -> Result<String, String> {
        let endpoint = self.endpoint.unwrap_or_else(|| "localhost:4317".to_owned());
        if endpoint == own {
            Ok(endpoint)
        } else {
            Err(format!("sent to {endpoint}, not to the agent"))
        }
    }
}

/// Returns the finding about a component's spans. `sent` is the agent's endpoint, or where the spans go instead; `todo`
/// is the configuration that would send them to the agent.
fn spans(what: &'static str, sent: Result<String, String>, todo: String) -> Finding {
    match sent {
        Ok(endpoint) => Finding::there(what, format!("sent to the agent, {endpoint}")),
        Err(said) => Finding::missing(what, said, todo),
    }
}

/// Returns the finding about the kubelet's spans; `None` when its configuration was not read.
///
/// Kubernetes accepts a unix socket as endpoint: `component-base/tracing/api/v1/config.go` (`validateEndpoint`).
fn kubelet_spans(seen: &Seen) -> Option<Finding> {
    let (path, text) = seen.kubelet.as_ref()?;
    let own = format!("unix://{SPANS}");
    let read: Result<Configuration, _> = serde_saphyr::from_str(text);
    let sent = match read.map(|c| c.tracing) {
        Err(e) => Err(format!("{} cannot be read: {e}", path.display())),
        Ok(None) => Err("the kubelet sends none".to_owned()),
        Ok(Some(t)) => t.sent_to(&own),
    };
    let todo = format!(
        "in {}, and the kubelet restarted: tracing: {{endpoint: \"{own}\", samplingRatePerMillion: 1000000}}",
        path.display()
    );
    Some(spans(KUBELET_SPANS, sent, todo))
}

/// Returns the finding about the spans of an apiserver in a static pod. Its `TracingConfiguration` accepts the same
/// endpoints as the kubelet's.
fn apiserver_spans(seen: &Seen) -> Option<Finding> {
    let mut manifests = seen.manifests.iter();
    let server = manifests.find_map(|(_, text)| apiserver(text))?;
    let own = format!("unix://{SPANS}");
    let sent = match (&server.tracing, &seen.apiserver) {
        (None, _) => Err("the apiserver sends none".to_owned()),
        (Some(file), None) => Err(format!(
            "{file} of the apiserver's container cannot be read"
        )),
        (Some(_), Some((path, text))) => match serde_saphyr::from_str::<Tracing>(text) {
            Err(e) => Err(format!("{} cannot be read: {e}", path.display())),
            Ok(t) => t.sent_to(&own),
        },
    };
    let todo = format!(
        "in its static pod, with mounts of the file and of /run/kflow: --tracing-config-file=FILE; in FILE: {{apiVersion: apiserver.config.k8s.io/v1beta1, kind: TracingConfiguration, endpoint: \"{own}\", samplingRatePerMillion: 10000}}"
    );
    Some(spans("apiserver spans", sent, todo))
}

/// Returns the finding about the spans of a containerd 2, which are configured by its
/// environment (`docs/tracing.md` of containerd).
///
/// OpenTelemetry's exporter joins host and path of the endpoint, a URL, to gRPC's target (`otlptracegrpc`,
/// `internal/otlpconfig/envconfig.go`). So with the host `unix:` the target is the path of a socket. Tried with
/// containerd 2.1.9.
fn containerd_spans(seen: &Seen) -> Option<Finding> {
    let environment = seen.containerd.as_ref()?;
    let value = |name: &str| {
        let mut all = environment.iter().filter_map(|v| v.split_once('='));
        all.find(|(n, v)| *n == name && !v.is_empty())
            .map(|(_, v)| v)
    };
    let of_traces = |name: &str| {
        value(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
            .or_else(|| value(&format!("OTEL_EXPORTER_OTLP_{name}")))
    };
    let own = format!("http://unix:{SPANS}");
    let sent = match of_traces("ENDPOINT") {
        Some(endpoint) if endpoint == own && of_traces("PROTOCOL") == Some("grpc") => {
            Ok(endpoint.to_owned())
        }
        Some(endpoint) if endpoint == own => {
            Err("not sent by gRPC, which the socket takes".to_owned())
        }
        // The endpoint is not repeated, because it may hold a password.
        Some(_) => Err("sent elsewhere, not to the agent".to_owned()),
        None => Err("containerd sends none".to_owned()),
    };
    let todo = format!(
        "in the unit of a containerd 2, and it restarted (no pod is): Environment=OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={own} OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_SERVICE_NAME=containerd"
    );
    Some(spans(RUNTIME_SPANS, sent, todo))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CrioFile {
    crio: CrioTable,
}
#[derive(Default, Deserialize)]
#[serde(default)]
struct CrioTable {
    tracing: CrioTracing,
}
#[derive(Default, Deserialize)]
#[serde(default)]
struct CrioTracing {
    enable_tracing: Option<bool>,
    tracing_endpoint: Option<String>,
}

/// Returns the finding about the spans of a CRI-O, which are configured by its files, its environment or its flags
/// (`internal/criocli/criocli.go`, `mergeTracingConfig`). Its exporter accepts the same endpoints as the kubelet's
/// (`internal/opentelemetry/tracing_config.go`).
fn crio_spans(seen: &Seen) -> Option<Finding> {
    let crio = seen.crio.as_ref()?;
    let own = format!("unix://{SPANS}");
    // What a file that cannot be parsed configures is not known; CRI-O would not start with it.
    let mut broken = None;
    let mut set = CrioTracing::default();
    for (path, text) in &crio.files {
        match toml::from_str::<CrioFile>(text) {
            Ok(file) => {
                let read = file.crio.tracing;
                set.enable_tracing = read.enable_tracing.or(set.enable_tracing);
                set.tracing_endpoint = read.tracing_endpoint.or(set.tracing_endpoint);
            }
            Err(e) => {
                broken = Some(format!(
                    "{} cannot be read: {}",
                    path.display(),
                    e.message()
                ));
            }
        }
    }
    let given = crio.given(&["enable-tracing"], "CONTAINER_ENABLE_TRACING");
    let on = given.map(|v| matches!(v, "1" | "t" | "T" | "true" | "TRUE" | "True"));
    let endpoint = crio.given(&["tracing-endpoint"], "CONTAINER_TRACING_ENDPOINT");
    let endpoint = endpoint.map(str::to_owned).or(set.tracing_endpoint);
    let sent = match broken {
        Some(why) => Err(why),
        None if !on.or(set.enable_tracing).unwrap_or(false) => Err("CRI-O sends none".to_owned()),
        None => Tracing {
            endpoint: Some(endpoint.unwrap_or_else(|| "127.0.0.1:4317".to_owned())),
        }
        .sent_to(&own),
    };
    let todo = format!(
        "in {}/99-kflow.conf, and CRI-O restarted (no pod is): crio.tracing = {{enable_tracing = true, tracing_endpoint = \"{own}\", tracing_sampling_rate_per_million = 1000000}}",
        crio.folder().display()
    );
    Some(spans(RUNTIME_SPANS, sent, todo))
}
