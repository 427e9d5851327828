//! Arguments of `kflow fleet`.

use clap::{Args as ClapArgs, ValueEnum, ValueHint};
use kflow_export::rows::Rows;
use std::path::PathBuf;
use std::time::Duration;

use super::Range;
use super::live::duration;
use super::store::StoreArgs;

/// How `kflow fleet` writes its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// For people.
    #[default]
    Text,
    /// One array, a row a line: see docs/json.md.
    Json,
    /// A JSON object a line.
    Jsonl,
    /// The JSON as YAML.
    Yaml,
    /// A head, and a line a row; of one question.
    Csv,
    /// A page with plots, which can be sent to somebody.
    Html,
    /// No answer, but the tables that are asked, for other engines: see docs/tables.md. -O names a folder.
    Parquet,
}

impl FleetFormat {
    /// The machine-readable form of rows; `None` for a form for people.
    pub const fn rows(self) -> Option<Rows> {
        match self {
            Self::Text | Self::Html | Self::Parquet => None,
            Self::Json => Some(Rows::Json),
            Self::Jsonl => Some(Rows::Jsonl),
            Self::Yaml => Some(Rows::Yaml),
            Self::Csv => Some(Rows::Csv),
        }
    }
}

/// A standing question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetQuestion {
    /// Which causes, how often, and for how long.
    Causes,
    /// How many starts were within --target.
    Starts,
    /// How long starts, stages and CRI calls took.
    Lengths,
    /// Which nodes had the most late starts, incidents and failed calls.
    Nodes,
    /// Which images failed to be pulled, or took longest.
    Images,
}

/// By what rows are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetBy {
    Cluster,
    Node,
    Namespace,
    Image,
    /// The kubelet's version.
    Kubelet,
    /// The container runtime's version.
    Runtime,
    /// The hour of UTC in which it began.
    Hour,
}

/// `kflow fleet`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Tables and their columns: docs/tables.md. --sql asks them (pods, verdicts, calls, requests, and stages: a row a pod and \
stage); p50(x), p90(x), p95(x), p99(x) are lengths that were measured.\n\
Examples:\n  \
kflow fleet night.kflow.zst\n  \
kflow fleet before.kflow.zst after.kflow.zst --question lengths --by kubelet\n  \
kflow fleet night.kflow.zst --compare ..50% 50%..\n  \
kflow fleet night.kflow.zst --sql 'SELECT method, p95(length_ns) FROM calls GROUP BY 1'\n  \
kflow fleet --store file:///var/lib/kflow/store --from -24h --question causes --by node\n  \
kflow fleet night.kflow.zst -o parquet -O tables"
)]
pub struct FleetArgs {
    /// Recordings, made by `kflow record` or `kflow import`
    #[arg(value_name = "FILE", required_unless_present = "store", conflicts_with = "store", value_hint = ValueHint::FilePath)]
    pub file: Vec<PathBuf>,
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: FleetFormat,
    /// File to write, with -o parquet a folder [default, or -: standard output]
    #[arg(short = 'O', long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub output_file: Option<PathBuf>,
    /// Only these (several: repeat, or separate with commas) [default: all, each without groups]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "sql")]
    pub question: Vec<FleetQuestion>,
    /// A row for each cluster, node, namespace, image, version of the kubelet or of the runtime, or hour: of those that have it
    #[arg(long, value_enum, conflicts_with = "sql")]
    pub by: Option<FleetBy>,
    /// A start is to take no longer, as the kubelet's SLI measures it: without pulls and init containers
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub target: Duration,
    /// Only what began in this time, as -1h..-30m or 00:40..00:50
    #[arg(long, value_name = "FROM..TO", value_parser = Range::parse, allow_hyphen_values = true, conflicts_with = "compare")]
    pub range: Option<Range>,
    /// Two such times beside each other
    #[arg(long, num_args = 2, value_names = ["FROM..TO", "FROM..TO"], value_parser = Range::parse, allow_hyphen_values = true, conflicts_with = "sql")]
    pub compare: Vec<Range>,
    /// Ask this, in the place of a question
    #[arg(long, value_name = "SQL")]
    pub sql: Option<String>,
    /// In the place of recordings: the tables of a store.
    #[command(flatten)]
    pub store: StoreArgs,
}
