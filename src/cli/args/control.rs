//! Arguments of `kflow flow` and `kflow requests`.

use clap::{Args as ClapArgs, ValueHint};
use std::path::PathBuf;

use super::{Input, Range, RowsFormat, TableFormat, name};

/// `kflow flow`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Alone, or with a flow or step, it prints the map: every function that Kubernetes and the runtime run for a \
pod, and what shows it. With a pod, a session or something to look at it prints what each step did: `kflow flow POD` one pod's \
steps, `kflow flow deploy/web` those of its pods, one after another, `kflow flow kubelet-startup --session FILE` every start of the kubelet.\n\
Examples:\n  \
kflow flow\n  \
kflow flow RunPodSandbox\n  \
kflow flow shop/web-0 -s incident.kflow.zst\n  \
kflow flow runtime-sync deploy/web -n shop -s night.kflow.zst\n  \
kflow flow kubelet-startup --all -s incident.kflow.zst -o json"
)]
pub struct FlowArgs {
    /// A flow (letter or name), a step (id, function or words of its label), a word of their sentences, or a pod
    #[arg(value_name = "FLOW|STEP|POD", value_parser = name)]
    pub what: Option<String>,
    /// Only what these pods did.
    #[arg(help = concat!("Only what a pod did: ", named!()), value_parser = name)]
    pub pod: Option<String>,
    /// Lay this file over the map [default: flow.toml beside the configuration, if there is one]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub map: Option<PathBuf>,
    /// Print the map's file, whose head says how it is written
    #[arg(long)]
    pub map_source: bool,
    /// With a pod or a session: also the steps that were not seen
    #[arg(long)]
    pub all: bool,
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: RowsFormat,
    /// Input.
    #[command(flatten)]
    pub input: Input,
}

/// `kflow requests`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Prints the requests to the apiserver grouped by client, verb and resource; with a filter or --list the \
requests themselves; with --id the waterfall of one: filters, admission with each webhook, store, etcd.\n\
Examples:\n  \
kflow requests -s incident.kflow.zst\n  \
kflow requests --pod shop/web-0 -s incident.kflow.zst -o wide\n  \
kflow requests --pod deploy/web -n shop -s night.kflow.zst\n  \
kflow requests --slow 500ms -s incident.kflow.zst -o yaml"
)]
pub struct RequestsArgs {
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: TableFormat,
    /// The requests themselves, oldest first
    #[arg(long)]
    pub list: bool,
    /// One request, by its audit id (or how that begins)
    #[arg(long, value_name = "AUDIT-ID", conflicts_with_all = ["list", "slow", "errors", "pod"])]
    pub id: Option<String>,
    /// Only requests that took, or take, longer (watches and streams apart): 500ms, 2s
    #[arg(long, value_name = "DURATION", value_parser = kflow_model::units::parse_duration)]
    pub slow: Option<i64>,
    /// Only requests that failed
    #[arg(long)]
    pub errors: bool,
    /// Only requests that lasted at some moment of this time, as -1h..-30m or 00:40..00:50
    #[arg(long, value_name = "FROM..TO", value_parser = Range::parse, allow_hyphen_values = true, conflicts_with = "id")]
    pub range: Option<Range>,
    /// Only requests about these pods.
    #[arg(help = concat!("Only requests for a pod, its subresources and Events about it: ", named!()), long, value_name = "POD", value_parser = name)]
    pub pod: Option<String>,
    /// Input.
    #[command(flatten)]
    pub input: Input,
}
