//! Arguments of `kflow stats`.

use clap::{Args as ClapArgs, ValueEnum, ValueHint};
use std::path::{Path, PathBuf};

use super::{Input, Range, of_pods};
use kflow_core::query::Query;
use kflow_core::stats::GroupBy;
use kflow_export::rows::Rows;

/// How sums are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// For people.
    #[default]
    Text,
    /// For people, with more columns.
    Wide,
    /// One array, a row a line; lengths in ns: see docs/json.md.
    Json,
    /// A JSON object a line.
    Jsonl,
    /// The JSON as YAML.
    Yaml,
    /// A head, and a line a row.
    Csv,
    /// For Prometheus and what reads its format; lengths in seconds.
    Openmetrics,
}

impl StatsFormat {
    /// The machine-readable form of rows; `None` for a form for people.
    pub const fn rows(self) -> Option<Rows> {
        match self {
            Self::Text | Self::Wide | Self::Openmetrics => None,
            Self::Json => Some(Rows::Json),
            Self::Jsonl => Some(Rows::Jsonl),
            Self::Yaml => Some(Rows::Yaml),
            Self::Csv => Some(Rows::Csv),
        }
    }
    pub fn is_wide(self) -> bool {
        self == Self::Wide
    }
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    Node,
    Namespace,
    /// The topmost owner that is known.
    Owner,
    Image,
}

impl From<By> for GroupBy {
    fn from(by: By) -> Self {
        match by {
            By::Node => Self::Node,
            By::Namespace => Self::Namespace,
            By::Owner => Self::Owner,
            By::Image => Self::Image,
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub enum Side {
    Time(Range),
    Recording(PathBuf),
}

impl Side {
    fn parse(text: &str) -> Result<Self, String> {
        match Range::parse(text) {
            Ok(range) => Ok(Self::Time(range)),
            // A range with a typing error is not reported as a missing file.
            Err(why) if text.contains("..") && !text.contains('/') && !Path::new(text).exists() => {
                Err(why)
            }
            Err(_) => Ok(Self::Recording(text.into())),
        }
    }
}

/// `kflow stats`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Measures are start and start-sli (the kubelet's podStartE2EDuration and podStartSLODuration), ready, \
condition/TYPE, stage/NAME and call/METHOD; docs/stats.md says from when to when each is, and how other tools measure.\n\
Examples:\n  \
kflow stats -s night.kflow.zst --by node --measure start\n  \
kflow stats --compare before.kflow.zst after.kflow.zst\n  \
kflow stats -s night.kflow.zst --compare ..50% 50%..\n  \
kflow stats -s night.kflow.zst --filter 'owner:web' --against 'owner:web-old'"
)]
pub struct StatsArgs {
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: StatsFormat,
    /// A row for each node, namespace, owner or image
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Only these measures: start, stage, stage/image, call/RunPodSandbox (several: repeat, or separate with commas)
    #[arg(long, value_name = "MEASURE", value_delimiter = ',')]
    pub measure: Vec<String>,
    /// Only pods that an expression holds for, and their calls: 'owner:web age<1h'; `kflow filter` prints the language
    #[arg(long, value_name = "EXPR", value_parser = of_pods, allow_hyphen_values = true)]
    pub filter: Option<Query>,
    /// Compare with these pods of the same input
    #[arg(long, value_name = "EXPR", value_parser = of_pods, allow_hyphen_values = true)]
    pub against: Option<Query>,
    /// Only pods created and calls begun in this time, as -1h..-30m or 00:40..00:50
    #[arg(long, value_name = "FROM..TO", value_parser = Range::parse, allow_hyphen_values = true, conflicts_with = "compare")]
    pub range: Option<Range>,
    /// Compare two recordings, or two times as --range has them: what got slower from the first to the second
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], value_parser = Side::parse, allow_hyphen_values = true, value_hint = ValueHint::FilePath, conflicts_with = "against")]
    pub compare: Vec<Side>,
    /// Input.
    #[command(flatten)]
    pub input: Input,
}
