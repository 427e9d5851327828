//! Arguments of `kflow agent`.

use clap::{Args as ClapArgs, Subcommand, ValueHint};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::RowsFormat;
use super::live::{Tap, duration};
use kflow_model::units::parse_size;

/// `kflow agent`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "`kflow tui --node NODE` finds an agent by itself (docs/agent.md).\n\
Examples:\n  \
kflow agent install --image registry.example/kflow:0.1.0\n  \
kflow agent status\n  \
kflow agent uninstall"
)]
pub struct AgentArgs {
    #[command(subcommand)]
    pub what: AgentCommand,
}

/// What an agent is asked to do.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// See, keep and serve what happens on this node, until it is stopped
    Run(Box<RunArgs>),
    /// Say what the agents see, what they lack, and what would add it
    Status(StatusArgs),
    /// Put an agent on every node of a cluster, and say what was done
    Install(InstallArgs),
    /// Put another version in the place of the agents of a cluster
    Upgrade(InstallArgs),
    /// Remove the agents, what they left on their nodes, and all that was made for them
    Uninstall(UninstallArgs),
    /// Remove what an agent leaves on its node: what uninstalling runs there
    #[command(hide = true)]
    Clean(CleanArgs),
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
    #[arg(long, conflicts_with_all = ["spool", "spool_size", "spool_age", "store"])]
    pub no_spool: bool,
    /// Send what is kept into a store too: file:///path, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix.
    /// Credentials come from the environment
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub store: Option<String>,
    /// Cluster, as the store is to call it
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        requires = "store"
    )]
    pub cluster: String,
    /// Send a segment every so often, an hour at most
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration, requires = "store")]
    pub segment: Duration,
    /// Remove from the store what any node of the cluster recorded longer ago than this [default: nothing]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "store")]
    pub store_keep: Option<Duration>,
    /// Serve metrics for Prometheus at http://ADDR/metrics, a loopback address [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    /// How CRI calls are seen
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto")]
    pub tap: Tap,
    /// Observation socket of kflow proxy
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub proxy: Option<PathBuf>,
    /// The runtime's socket [default: that of the kubelet]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub runtime: Option<PathBuf>,
    /// Kubelet log: a file, `journal`, `journal:UNIT`, `journal:UNIT@/var/log/journal` (the journal's files, without journalctl)
    /// or `off` [default: where this node has it]
    #[arg(long, value_name = "WHERE")]
    pub kubelet_log: Option<String>,
    /// Ask the kubelet itself for health and metrics [default: https://$HOST_IP:10250 in a pod that has HOST_IP]
    #[arg(long, value_name = "URL")]
    pub kubelet: Option<String>,
    /// Exit after so long without a subscriber
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub until_unwatched: Option<Duration>,
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

/// Which cluster, and where in it the agents are.
#[derive(Debug, ClapArgs)]
pub struct ClusterArgs {
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config, the pod's own account]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the agents
    #[arg(long, value_name = "NAMESPACE", default_value = kflow_sources::agent::NAMESPACE)]
    pub agent_namespace: String,
}

/// `kflow agent install` and `kflow agent upgrade`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Server-side apply, as field manager kflow: what the cluster has already is left as it is. \
A namespace that was there before stays as it was.\n\
Exits with 0 when every agent is ready, 2 when some are not in time or something was refused.\n\
Examples:\n  \
kflow agent install --image registry.example/kflow:0.1.0 --dry-run\n  \
kflow agent install --image registry.example/kflow:0.1.0\n  \
kflow agent install --image registry.example/kflow:0.1.0 -- --spool-size 200MiB"
)]
pub struct InstallArgs {
    /// Image whose /kflow is this program
    #[arg(long, value_name = "IMAGE")]
    pub image: String,
    /// Secret, in the agents' namespace, with which the nodes pull the image
    #[arg(long, value_name = "NAME")]
    pub pull_secret: Option<String>,
    /// Only on nodes with this label; more than one: with each of them [default: every node with Linux]
    #[arg(long, value_name = "LABEL=VALUE", value_parser = label)]
    pub node_selector: Vec<(String, String)>,
    /// Secret, in the agents' namespace, whose keys are the agents' environment: credentials for `--store`
    #[arg(long, value_name = "NAME")]
    pub env_secret: Option<String>,
    /// Arguments of `kflow agent run`
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<String>,
    /// Print what would be applied, with the reason for each right, and ask no cluster
    #[arg(long)]
    pub dry_run: bool,
    /// Wait this long until the agents are ready
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    pub wait: Duration,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| "name a label and its value: example.com/pool=blue".to_owned())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `kflow agent uninstall`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "First every agent is replaced by a pod that removes the agent's files from its node, then the objects go. \
A node that does not do so in time is named, and the objects go all the same.\n\
Exits with 0 when nothing is left, 2 when something may be.\n\
Examples:\n  \
kflow agent uninstall\n  \
kflow agent uninstall --only-files && kubectl delete -k deploy/agent"
)]
pub struct UninstallArgs {
    /// Remove what the agents left on their nodes, and no object: who made them, as Helm or kubectl, removes them
    #[arg(long)]
    pub only_files: bool,
    /// Wait this long for the nodes, and for each object
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    pub wait: Duration,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `kflow agent clean`
#[derive(Debug, ClapArgs)]
pub struct CleanArgs {
    /// Where the node's files are
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Then stay until it is stopped
    #[arg(long)]
    pub stay: bool,
}

/// `kflow agent status`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "On a node that has an agent it is asked by its socket; from elsewhere all agents of the cluster are, \
through the apiserver.\n\
Exits with 0 when every node has an agent that answers, else with 2.\n\
Examples:\n  \
kflow agent status\n  \
kflow agent status --node node1\n  \
kflow agent status -o yaml"
)]
pub struct StatusArgs {
    /// Socket of an agent on this machine [default: /run/kflow/agent.sock, if it is there and no cluster is named]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with_all = ["node", "kubeconfig", "context"])]
    pub socket: Option<PathBuf>,
    /// All that the agent of this node tells
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How to write it
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t)]
    pub output: RowsFormat,
}
