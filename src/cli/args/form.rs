//! The output formats (`-o`).

use clap::ValueEnum;
use clap::builder::PossibleValue;
use kflow_export::file::Kind;
use kflow_export::rows::Rows;
use std::sync::LazyLock;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: see docs/json.md.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How rows are written that no table takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RowsFormat {
    /// For people.
    #[default]
    Text,
    /// One array, a row a line: see docs/json.md.
    Json,
    /// A JSON object a line.
    Jsonl,
    /// The JSON as YAML.
    Yaml,
}

impl RowsFormat {
    /// The machine-readable form of rows; `None` for a form for people.
    pub const fn rows(self) -> Option<Rows> {
        match self {
            Self::Text => None,
            Self::Json => Some(Rows::Json),
            Self::Jsonl => Some(Rows::Jsonl),
            Self::Yaml => Some(Rows::Yaml),
        }
    }
}

/// How a table is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For people.
    #[default]
    Text,
    /// For people, with more columns.
    Wide,
    /// The pods that they are about, each once, for kubectl and for xargs: pod/NAME in the namespace that
    /// -n names, else pod/NAMESPACE/NAME.
    Name,
    /// One array, a row a line: see docs/json.md.
    Json,
    /// A JSON object a line.
    Jsonl,
    /// The JSON as YAML.
    Yaml,
    /// A head, and a line a row.
    Csv,
}

impl TableFormat {
    /// The machine-readable form of rows; `None` for a form for people.
    pub const fn rows(self) -> Option<Rows> {
        match self {
            Self::Text | Self::Wide | Self::Name => None,
            Self::Json => Some(Rows::Json),
            Self::Jsonl => Some(Rows::Jsonl),
            Self::Yaml => Some(Rows::Yaml),
            Self::Csv => Some(Rows::Csv),
        }
    }
    pub fn is_wide(self) -> bool {
        self == Self::Wide
    }
    pub fn is_name(self) -> bool {
        self == Self::Name
    }
}

/// How timelines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TimelineFormat {
    /// For people.
    #[default]
    Text,
    /// A name a line, for kubectl and for xargs: pod/NAME in the namespace that -n names, else pod/NAMESPACE/NAME.
    Name,
    /// One array, a row a line: see docs/json.md.
    Json,
    /// A JSON object a line.
    Jsonl,
    /// The JSON as YAML.
    Yaml,
    /// A head, and a line a row.
    Csv,
}

impl TimelineFormat {
    /// The machine-readable form of rows; `None` for a form for people.
    pub const fn rows(self) -> Option<Rows> {
        match self {
            Self::Text | Self::Name => None,
            Self::Json => Some(Rows::Json),
            Self::Jsonl => Some(Rows::Jsonl),
            Self::Yaml => Some(Rows::Yaml),
            Self::Csv => Some(Rows::Csv),
        }
    }
}

/// How `kflow why` writes its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WhyFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: see docs/json.md.
    Json,
    /// A JSON object a line.
    Jsonl,
    /// The JSON as YAML.
    Yaml,
    /// A head, and a line a row.
    Csv,
    /// A name a line, for kubectl and for xargs: pod/NAME in the namespace that -n names, else pod/NAMESPACE/NAME.
    Name,
    /// For a ticket or a chat.
    Markdown,
}

impl WhyFormat {
    /// True for a form that has a sentence even without verdicts.
    pub const fn is_for_people(self) -> bool {
        matches!(self, Self::Text | Self::Markdown)
    }
    /// The machine-readable form of rows; `None` for a form for people.
    pub const fn rows(self) -> Option<Rows> {
        match self {
            Self::Text | Self::Name | Self::Markdown => None,
            Self::Json => Some(Rows::Json),
            Self::Jsonl => Some(Rows::Jsonl),
            Self::Yaml => Some(Rows::Yaml),
            Self::Csv => Some(Rows::Csv),
        }
    }
}

/// Formats of `kflow export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A format that `kflow_export` writes.
    Timelines(Kind),
    /// A picture of one pod's timeline.
    Svg,
}

impl ValueEnum for ExportFormat {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<ExportFormat>> = LazyLock::new(|| {
            let timelines = Kind::ALL.map(ExportFormat::Timelines);
            timelines.into_iter().chain([ExportFormat::Svg]).collect()
        });
        &ALL
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Timelines(kind) => PossibleValue::new(kind.name()).help(kind.help()),
            Self::Svg => PossibleValue::new("svg").help("a picture of one pod's timeline"),
        })
    }
}
