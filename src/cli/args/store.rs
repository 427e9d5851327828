//! Arguments about stores.

use clap::{Args as ClapArgs, Subcommand, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

use super::RowsFormat;
use super::live::duration;
use kflow_model::units::parse_size;

/// What of a store is looked at, in the place of a recording: the same for every command that reads.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Store")]
pub struct StoreArgs {
    /// Read from a store what `kflow record --store` put there, in the place of a recording: file:///path, s3://bucket/prefix,
    /// gs://bucket/prefix, az://container/prefix. Of it what the node (--node) or the node of the pod recorded is fetched.
    /// Credentials come from the environment
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub store: Option<String>,
    /// Cluster [default: the only one of the store]
    #[arg(long, value_name = "NAME", requires = "store")]
    pub cluster: Option<String>,
    /// Fetch what was recorded from this moment on: RFC 3339, a date and time or a time of day (UTC), the time since the epoch, or before now (-26h) [default: 1h before --to or --at]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "store"
    )]
    pub from: Option<String>,
    /// Fetch what was recorded up to this moment [default: now, or 15m after --at]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "store"
    )]
    pub to: Option<String>,
    /// Say which segments are fetched, and how many bytes
    #[arg(long, short, requires = "store")]
    pub verbose: bool,
}

/// Recording into a store.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Store")]
pub struct KeepArgs {
    /// Record into a store, in the place of a file: file:///path, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix.
    /// Credentials come from the environment
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, conflicts_with_all = ["output_file", "max_size"])]
    pub store: Option<String>,
    /// Cluster, as the store is to call it [default: default]
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Folder for what waits to be sent [default: kflow/spool/CLUSTER/NODE in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub spool: Option<PathBuf>,
    /// Keep at most this much in it [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub spool_size: Option<u64>,
    /// Send a segment every so often, an hour at most [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub segment: Option<Duration>,
}

impl KeepArgs {
    /// The first given flag that applies only with `--store`; `None` when there is none. (clap waives `requires` when the
    /// file is given, which conflicts with a store.)
    pub fn flag(&self) -> Option<&'static str> {
        [
            ("--cluster", self.cluster.is_some()),
            ("--spool", self.spool.is_some()),
            ("--spool-size", self.spool_size.is_some()),
            ("--segment", self.segment.is_some()),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }
}

/// `kflow store`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Each of these can be done by several at once, and again.\n\
Examples:\n  \
kflow store add file:///var/lib/kflow/store night.kflow.zst --cluster prod\n  \
kflow store ls file:///var/lib/kflow/store\n  \
kflow store prune file:///var/lib/kflow/store --keep 14d\n  \
kflow store compact s3://bucket/prefix --cluster prod\n  \
kflow store tables file:///var/lib/kflow/store"
)]
pub struct StoreCommand {
    #[command(subcommand)]
    pub what: StoreAction,
}

/// What to do with a store.
#[derive(Debug, Subcommand)]
pub enum StoreAction {
    /// Put recordings into it, as if they had been recorded there
    Add(AddArgs),
    /// Say what it has of each node, and what is missing
    ///
    /// From when until when there is something, how many segments and bytes, and how many segments are missing between others.
    Ls(LsArgs),
    /// Remove what is older than --keep
    Prune(PruneArgs),
    /// Make few objects of the index, so that a pod is found faster
    ///
    /// Of each hour that is over one object for all nodes.
    #[command(
        after_help = "Examples:\n  kflow store compact file:///var/lib/kflow/store\n  kflow store compact s3://bucket/prefix --cluster prod"
    )]
    Compact(OfStore),
    /// Make tables, for kflow fleet and for other engines
    ///
    /// Parquet, of the segments of each hour that is over: see docs/tables.md.
    #[command(after_help = "Examples:\n  kflow store tables file:///var/lib/kflow/store")]
    Tables(OfStore),
}

/// Which store, and what of it.
#[derive(Debug, ClapArgs)]
pub struct OfStore {
    /// The store: file:///path, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub url: String,
    /// Cluster [default: all of the store]
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
}

/// `kflow store add`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Cut into segments of five minutes; a recording that is added again, or that has grown since, is there once.\n\
Examples:\n  \
kflow store add file:///var/lib/kflow/store night.kflow.zst\n  \
kflow store add s3://bucket/prefix night.kflow.zst --cluster prod --node node1"
)]
pub struct AddArgs {
    /// The store, which is made where it is a folder: file:///path, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub url: String,
    /// Recordings, made by `kflow record` or `kflow import`
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub file: Vec<PathBuf>,
    /// Cluster, as the store is to call it
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub cluster: String,
    /// Node that was recorded, of a recording that names none
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
}

/// `kflow store ls`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow store ls file:///var/lib/kflow/store\n  \
kflow store ls s3://bucket/prefix --cluster prod -o json")]
pub struct LsArgs {
    #[command(flatten)]
    pub of: OfStore,
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: RowsFormat,
}

/// `kflow store prune`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Examples:\n  kflow store prune file:///var/lib/kflow/store --keep 14d\n  kflow store prune file:///var/lib/kflow/store --keep 14d --dry-run"
)]
pub struct PruneArgs {
    #[command(flatten)]
    pub of: OfStore,
    /// Keep what ended within this time before now
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub keep: Duration,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}
