//! Arguments of `kflow agent`.

use clap::{Args as ClapArgs, Subcommand, ValueHint};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::Format;
use super::live::{Tap, duration};
use kflow_model::units::parse_size;

/// `kflow agent`
#[derive(Debug, ClapArgs)]
pub struct AgentArgs {
    #[command(subcommand)]
    pub what: AgentCommand,
}

/// What an agent is asked to do.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// See, keep and serve what happens on this node, until it is stopped
    Run(Box<RunArgs>),
    /// Say what an agent sees, what it lacks, and what would add it
    Status(StatusArgs),
    /// Print what runs an agent on every node, for kubectl apply
    Manifest(ManifestArgs),
}

/// `kflow agent run`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "It finds what the node has by itself: the kubelet, its runtime, their logs, and on a node of the control plane \
the logs of apiserver, scheduler and controller-manager and the audit log. `kflow agent status` says what it found.\n\
Examples:\n  \
kflow agent run\n  \
kflow agent run --node node1 --no-api --spool-size 200MiB"
)]
pub struct RunArgs {
    /// Name of this node [default: that of its kubelet, or of this machine]
    #[arg(long, value_name = "NODE", env = "NODE_NAME", hide_env_values = true)]
    pub node: Option<String>,
    /// Socket on which observations are served (0600, in a folder of mode 0700; proto/kflow.proto)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, default_value = kflow_sources::agent::SOCKET)]
    pub serve: PathBuf,
    /// Loopback address of the same service, for who comes by a port-forward [default: 127.0.0.1:9777 in a network namespace
    /// of its own, else none: other processes of the node could connect to it]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Folder in which the last hours are kept
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "/var/lib/kflow/spool")]
    pub spool: PathBuf,
    /// Keep at most this much there
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pub spool_size: u64,
    /// Keep at most this long there
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    pub spool_age: Duration,
    /// Keep nothing on disk
    #[arg(long, conflicts_with_all = ["spool", "spool_size", "spool_age"])]
    pub no_spool: bool,
    /// How CRI calls are seen
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto")]
    pub tap: Tap,
    /// Observation socket of kflow proxy
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub proxy: Option<PathBuf>,
    /// The runtime's socket [default: that of the kubelet]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub runtime: Option<PathBuf>,
    /// Kubelet log: a file, `journal`, `journal:UNIT` or `off` [default: where this node has it]
    #[arg(long, value_name = "WHERE")]
    pub kubelet_log: Option<String>,
    /// Ask the kubelet itself for health and metrics [default: https://$HOST_IP:10250 in a pod that has HOST_IP]
    #[arg(long, value_name = "URL")]
    pub kubelet: Option<String>,
    /// Ask no apiserver: else the pods of this node and the node itself are watched
    #[arg(long)]
    pub no_api: bool,
    /// Kubeconfig [default: the pod's own account, $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Look for logs and configuration below this folder
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}

/// `kflow agent manifest`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow agent manifest --image registry.example/kflow:0.1.0")]
pub struct ManifestArgs {
    /// Image whose /kflow is this program
    #[arg(long, value_name = "IMAGE")]
    pub image: String,
    /// Namespace of the agents
    #[arg(long, value_name = "NAMESPACE", default_value = kflow_sources::agent::NAMESPACE)]
    pub agent_namespace: String,
}

/// `kflow agent status`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow agent status\n  \
kflow agent status -o yaml")]
pub struct StatusArgs {
    /// Socket of an agent on this machine
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, default_value = kflow_sources::agent::SOCKET)]
    pub socket: PathBuf,
    /// How to write it
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t)]
    pub output: Format,
}
