//! Arguments of commands with live sources.

use clap::{Args as ClapArgs, ValueEnum, ValueHint};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::name;
use kflow_model::log::Component;
use kflow_model::units::{UnitError, parse_duration, parse_size};

/// `kflow proxy`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "The proxy copies bytes and never changes them. Point the kubelet's containerRuntimeEndpoint at --listen; \
`kflow doctor` says where this node takes it from. It keeps running when no one looks on.\n\
Examples:\n  \
kflow proxy --upstream /run/containerd/containerd.sock\n  \
kflow proxy --listen /run/kflow/cri.sock --upstream /run/crio/crio.sock"
)]
pub struct ProxyArgs {
    /// Socket for the kubelet (0600, in a folder of mode 0700)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, default_value = "/run/kflow/cri.sock")]
    pub listen: PathBuf,
    /// The runtime's own socket
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub upstream: PathBuf,
    /// Socket on which observations are served (proto/kflow.proto)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, default_value = "/run/kflow/observations.sock")]
    pub serve: PathBuf,
    /// Serve no observations, only copy bytes
    #[arg(long, conflicts_with = "serve")]
    pub no_serve: bool,
    /// Keep at most this much for late subscribers
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_size)]
    pub ring_size: u64,
    /// Keep at most this long for late subscribers
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub ring_age: Duration,
    /// When stopped, wait this long for calls in flight
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub drain: Duration,
}

/// Which pods are looked at: the same for every command, live and with a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, ClapArgs)]
#[command(next_help_heading = "Scope")]
pub struct ScopeArgs {
    /// Pods of this node, and those that have no node yet
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Pods of this namespace [default: that of the kubeconfig's context, if it names one and --node is not given]
    #[arg(
        long,
        short,
        value_name = "NAMESPACE",
        conflicts_with = "all_namespaces"
    )]
    pub namespace: Option<String>,
    /// Pods of all namespaces
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// Label selector for pods, as in kubectl
    #[arg(long, short = 'l', value_name = "SELECTOR", default_value = "")]
    pub selector: String,
    /// Field selector for pods, as in kubectl
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub field_selector: String,
}

/// How CRI calls are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tap {
    /// A running proxy's stream, else eBPF where that works, else not at all
    Auto,
    /// By programs in this machine's kernel: nothing restarted, nothing in the way (needs root)
    Ebpf,
    /// By the stream of kflow proxy
    Proxy,
    /// Not at all
    Off,
}

/// Which cluster, and what of this machine: the same for every live command.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Live")]
pub struct LiveArgs {
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config, the pod's own account]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Ask no apiserver
    #[arg(long)]
    pub no_api: bool,
    /// This machine is the node: use its own sources [default: when NODE is its name, or its kubelet's]
    #[arg(long)]
    pub local: bool,
    /// How CRI calls are seen [default: auto with --proxy, or when this machine is the node]
    #[arg(long, value_name = "HOW", value_enum)]
    pub tap: Option<Tap>,
    /// Make clients of the runtime connect anew that the eBPF tap joined in the middle, each at a moment without open calls, so
    /// that every call has its name at once. A call that began before kflow came can fail by it; the kubelet tries it again
    #[arg(long)]
    pub reconnect: bool,
    /// Observation socket of kflow proxy
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub proxy: Option<PathBuf>,
    /// The runtime's socket: asked once for what exists, and what `--tap ebpf` follows
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub runtime: Option<PathBuf>,
    /// Kubelet log: a file, - for standard input, `journal` or `journal:UNIT`, `journal:UNIT@/var/log/journal` (the journal's
    /// files, without journalctl), `remote` (by way of the apiserver), or `off`
    #[arg(long, value_name = "WHERE")]
    pub kubelet_log: Option<String>,
    /// Ask the kubelet itself for pods, health and metrics: https://HOST:10250, with the kubeconfig's credentials, or
    /// http://HOST:10255 where readOnlyPort is on [default: by way of the apiserver]
    #[arg(long, value_name = "URL")]
    pub kubelet: Option<String>,
    /// The kubelet's root folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "/var/lib/kubelet")]
    pub kubelet_root: PathBuf,
    /// Look for no agent of kflow on the node
    #[arg(long)]
    pub no_agent: bool,
    /// Run an agent of this image on the node for as long as this command: a Job, which is deleted at the end and ends by itself
    /// where that cannot be. Needs --node
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["local", "no_agent", "no_api"])]
    pub debug_pod: Option<String>,
    /// The agent that was started for it.
    #[arg(skip)]
    pub debugged: Option<Debugged>,
    /// The root folder of the node, for an agent that has another one.
    #[arg(skip)]
    pub root: Option<PathBuf>,
    /// Namespace of the agents [default: kflow; of --debug-pod that of the kubeconfig's context]
    #[arg(long, value_name = "NAMESPACE")]
    pub agent_namespace: Option<String>,
    /// Keep pods that are gone for so long; a row of each stays [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub keep_gone: Option<Duration>,
    /// Keep so many pods that are gone, the newest [default: 5000]
    #[arg(long, value_name = "NUMBER")]
    pub keep_gone_pods: Option<usize>,
    /// Which pods are watched.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// Control plane.
    #[command(flatten)]
    pub control: ControlArgs,
}

/// The agent of `--debug-pod`, which runs for one command.
#[derive(Clone, Debug)]
pub struct Debugged {
    pub namespace: String,
    /// Label selector of the agent's pod.
    pub labels: String,
}

impl LiveArgs {
    /// Namespace of the installed agents.
    pub fn agents(&self) -> &str {
        let named = self.agent_namespace.as_deref();
        named.unwrap_or(kflow_sources::agent::NAMESPACE)
    }

    /// The first given flag that applies only to live sources; `None` when there is none.
    pub fn live_flag(&self) -> Option<&'static str> {
        [
            ("--context", self.context.is_some()),
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--no-api", self.no_api),
            ("--local", self.local),
            ("--tap", self.tap.is_some()),
            ("--reconnect", self.reconnect),
            ("--proxy", self.proxy.is_some()),
            ("--runtime", self.runtime.is_some()),
            ("--kubelet-log", self.kubelet_log.is_some()),
            ("--kubelet", self.kubelet.is_some()),
            ("--no-agent", self.no_agent),
            ("--debug-pod", self.debug_pod.is_some()),
            ("--agent-namespace", self.agent_namespace.is_some()),
            ("--keep-gone", self.keep_gone.is_some()),
            ("--keep-gone-pods", self.keep_gone_pods.is_some()),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
        .or_else(|| self.control.flag())
    }
}

/// Receivers, and logs of the control plane.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Control plane")]
pub struct ControlArgs {
    /// Receive OpenTelemetry spans, by gRPC and HTTP [default: 127.0.0.1:4317 and :4318]
    #[arg(long, value_name = "ADDR", num_args = 0.., default_missing_values = ["127.0.0.1:4317", "127.0.0.1:4318"])]
    pub otlp: Vec<SocketAddr>,
    /// Receive the audit webhook's batches [default: 127.0.0.1:4319]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:4319")]
    pub audit_webhook: Option<SocketAddr>,
    /// Let receivers listen on addresses that other machines can reach
    #[arg(long)]
    pub listen_anywhere: bool,
    /// Follow an audit log
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub audit_log: Vec<PathBuf>,
    /// Follow the log of kube-apiserver
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub apiserver_log: Vec<PathBuf>,
    /// Follow the log of kube-scheduler
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub scheduler_log: Vec<PathBuf>,
    /// Follow the log of kube-controller-manager
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub controller_manager_log: Vec<PathBuf>,
    /// Follow the log of containerd: a file, `journal`, `journal:UNIT`, or `journal:UNIT@/var/log/journal`
    #[arg(long, value_name = "WHERE", value_hint = ValueHint::FilePath)]
    pub containerd_log: Vec<PathBuf>,
    /// Follow the log of CRI-O: a file, `journal`, `journal:UNIT`, or `journal:UNIT@/var/log/journal`
    #[arg(long, value_name = "WHERE", value_hint = ValueHint::FilePath)]
    pub crio_log: Vec<PathBuf>,
    /// Ask neither apiserver nor kubelet for health and metrics
    #[arg(long)]
    pub no_scrape: bool,
    /// The folder of pods' logs and the components that write there, as an agent finds them.
    #[arg(skip)]
    pub pod_logs: Option<(PathBuf, Vec<Component>)>,
}

impl ControlArgs {
    /// The first given flag; `None` when there is none.
    fn flag(&self) -> Option<&'static str> {
        [
            ("--otlp", !self.otlp.is_empty()),
            ("--audit-webhook", self.audit_webhook.is_some()),
            ("--listen-anywhere", self.listen_anywhere),
            ("--audit-log", !self.audit_log.is_empty()),
            ("--apiserver-log", !self.apiserver_log.is_empty()),
            ("--scheduler-log", !self.scheduler_log.is_empty()),
            (
                "--controller-manager-log",
                !self.controller_manager_log.is_empty(),
            ),
            ("--containerd-log", !self.containerd_log.is_empty()),
            ("--crio-log", !self.crio_log.is_empty()),
            ("--no-scrape", self.no_scrape),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }
}

/// `kflow tui`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow tui --node node1\n  \
kflow tui --node node1 --since -30m\n  \
kflow tui -n shop -l app=web\n  \
kflow tui --session incident.kflow.zst --at -5m")]
pub struct TuiArgs {
    /// Play a recording instead of what runs: a session, or what `kflow import` reads (- is standard input)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub session: Option<PathBuf>,
    /// With --session or --store: begin at this moment
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// What the agent of the node kept since then comes first
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "session"
    )]
    pub since: Option<String>,
    /// Serve metrics of what runs for Prometheus at http://ADDR/metrics, a loopback address [default: nowhere]
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["session", "store"])]
    pub metrics: Option<SocketAddr>,
    /// Theme: a name, or a file
    #[arg(long, value_name = "THEME")]
    pub theme: Option<String>,
    /// Folder for recordings that are begun with R
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub record_dir: PathBuf,
    /// Where traces go.
    #[command(flatten)]
    pub traces: TracesArgs,
    /// In the place of a recording: what of a store.
    #[command(flatten)]
    pub store: super::store::StoreArgs,
    /// What to watch.
    #[command(flatten)]
    pub live: LiveArgs,
}

/// Where traces go.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct TracesArgs {
    /// Send traces to a trace store by OTLP, over HTTP (http://127.0.0.1:4318) or gRPC (http://127.0.0.1:4317). Without a URL to
    /// that of OTEL_EXPORTER_OTLP_ENDPOINT; headers come from OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, num_args = 0..=1, default_missing_value = "")]
    pub otlp_to: Option<String>,
}

/// `kflow record`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow record --node node1 -O incident.kflow.zst\n  \
kflow record --pod shop/web-0 --for 10m -O web-0.kflow.zst\n  \
kflow record --pod deploy/web -n shop --for 10m -O web.kflow.zst\n  \
kflow record --node node1 --store file:///var/lib/kflow/store --cluster prod")]
pub struct RecordArgs {
    /// Write the session here: out.kflow, or out.kflow.zst for a compressed one
    #[arg(short = 'O', long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "store")]
    pub output_file: Option<PathBuf>,
    /// Look for so long [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub for_time: Option<Duration>,
    /// What the agent of the node kept since then comes first
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Begin a new file at this size; the last 5 are kept
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_size: Option<u64>,
    /// Only these pods, and what is about no pod.
    #[arg(help = concat!("Only what is about a pod, or about none: ", named!()), long, value_name = "POD", value_parser = name)]
    pub pod: Option<String>,
    /// Where traces go.
    #[command(flatten)]
    pub traces: TracesArgs,
    /// Into a store.
    #[command(flatten)]
    pub keep: super::store::KeepArgs,
    /// What to watch.
    #[command(flatten)]
    pub live: LiveArgs,
}

/// `kflow doctor`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow doctor\n  \
kflow doctor --no-api -o yaml\n  \
kflow doctor --node node1 --kubelet-log remote")]
pub struct DoctorArgs {
    /// How to write it
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t)]
    pub output: super::Format,
    /// Print only the socket of the runtime that this node's kubelet uses
    #[arg(long)]
    pub upstream: bool,
    /// Look at a copy of the machine's files
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub root: PathBuf,
    /// The cluster to ask.
    #[command(flatten)]
    pub live: LiveArgs,
}

/// `90s`, `10m`, `1h30m`.
pub(in crate::cli) fn duration(s: &str) -> Result<Duration, UnitError> {
    Ok(Duration::from_nanos(parse_duration(s)?.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_write_them() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        for bad in ["", "90", "s", "1y", "1h30", "-1s", "99999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
