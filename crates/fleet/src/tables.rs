//! Rows made of sessions, in tables that any query engine reads: Parquet. The columns are in `docs/tables.md`.
//!
//! A row has what is known of its subject at the end of the session, the same as `kflow stats`, `calls`, `requests`
//! and `why --ever` report. Times and durations are whole ns, as in their JSON, because not every engine has times of
//! that precision.

mod file;
mod rows;
mod seen;
mod versions;

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use kflow_core::flow::Stage;

pub(crate) use file::check;
pub use file::{decode, encode};
pub use rows::{Made, begin_of, of_session};
#[cfg(test)]
pub(crate) use rows::{Of, make};
pub use seen::Seen;

/// Version of all tables. It rises when a column is removed or changes its meaning; columns may be added without it.
pub const VERSION: u32 = 1;
/// Key of the version in a file's metadata.
pub const VERSION_KEY: &str = "kflow.tables.version";
/// Key of the table's name in a file's metadata.
pub const TABLE_KEY: &str = "kflow.table";

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("cannot make rows of the table {table}: {source}")]
    Rows {
        table: &'static str,
        source: Box<serde_arrow::Error>,
    },
    #[error("cannot write a file of the table {table}: {source}")]
    Write {
        table: &'static str,
        source: parquet::errors::ParquetError,
    },
    #[error("{name} is no Parquet file that can be read: {source}")]
    Read {
        name: String,
        source: parquet::errors::ParquetError,
    },
    #[error("{name} is no table of kflow's: its metadata has no {VERSION_KEY}")]
    Foreign { name: String },
    #[error("{name} has the table {is}, and lies among those of {table}")]
    Other {
        name: String,
        is: &'static str,
        table: &'static str,
    },
    #[error(
        "{name} has version {version} of kflow's tables, and this kflow knows {VERSION}: read it with a newer kflow"
    )]
    Newer { name: String, version: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// One row per pod.
    Pods,
    /// One row per incident: a cause, its subject, and its begin and end.
    Verdicts,
    /// One row per CRI call.
    Calls,
    /// One row per request to the apiserver.
    Requests,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A time or a duration in ns, or a count.
    Int,
    Bool,
    Text,
    Texts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    /// The value may be null if it is not known or has not happened. (Unknown text is empty, not null.)
    pub null: bool,
}

const fn int(name: &str) -> (&str, Type, bool) {
    (name, Type::Int, false)
}
const fn maybe(name: &str) -> (&str, Type, bool) {
    (name, Type::Int, true)
}
const fn text(name: &str) -> (&str, Type, bool) {
    (name, Type::Text, false)
}
const fn maybe_text(name: &str) -> (&str, Type, bool) {
    (name, Type::Text, true)
}
const fn flag(name: &str) -> (&str, Type, bool) {
    (name, Type::Bool, false)
}

type Columns = &'static [(&'static str, Type, bool)];

/// Columns of every table: where it happened.
const PLACE: Columns = &[text("cluster"), text("node")];
/// Versions on that node.
const VERSIONS: Columns = &[text("kubelet_version"), text("runtime_version")];

const PODS: Columns = &[
    text("uid"),
    text("namespace"),
    text("name"),
    text("owner"),
    ("images", Type::Texts, false),
    text("phase"),
    text("status"),
    int("known_ns"),
    int("containers"),
    int("restarts"),
    int("created_ns"),
    maybe("create_requested_ns"),
    int("zero_ns"),
    maybe("became_ready_ns"),
    maybe("deletion_requested_ns"),
    maybe("gone_ns"),
    maybe("start_total_ns"),
    maybe("start_sli_ns"),
    flag("start_open"),
    maybe("ready_total_ns"),
    flag("ready_open"),
];

/// Columns of each stage; the stage's name is their prefix.
pub(crate) const OF_STAGE: Columns = &[
    maybe("begin_ns"),
    maybe("ns"),
    maybe("precision_ns"),
    maybe_text("certainty"),
    maybe("attempts"),
    maybe_text("outcome"),
];

/// The columns of `kflow why --ever -o csv`.
const VERDICTS: Columns = &[
    int("begin_ns"),
    maybe("end_ns"),
    int("length_ns"),
    int("within_ns"),
    text("subject_kind"),
    text("object"),
    text("namespace"),
    text("name"),
    text("uid"),
    maybe_text("cause"),
    text("title"),
    text("stage"),
    maybe_text("container"),
    text("state"),
    text("sentence"),
    int("pods"),
];

/// The columns of `kflow calls -o json`, and some that are derived from them.
const CALLS: Columns = &[
    int("start_ns"),
    maybe("end_ns"),
    maybe("length_ns"),
    flag("failed"),
    int("conn"),
    int("stream"),
    text("service"),
    text("method"),
    maybe_text("outcome"),
    text("code"),
    flag("code_inferred"),
    text("message"),
    text("pod_uid"),
    flag("pod_inferred"),
    text("namespace"),
    text("pod"),
    text("container"),
    maybe("attempt"),
    text("sandbox_id"),
    text("container_id"),
    text("image"),
    maybe("deadline_ns"),
    flag("partial"),
    int("request_bytes"),
    int("response_bytes"),
    maybe_text("traceparent"),
];

/// The columns of `kflow requests --list -o csv`, and whether the request failed.
const REQUESTS: Columns = &[
    text("audit_id"),
    int("received_ns"),
    int("precision_ns"),
    maybe("ended_ns"),
    int("duration_ns"),
    flag("failed"),
    text("verb"),
    text("resource"),
    text("namespace"),
    text("name"),
    text("user"),
    text("client"),
    int("code"),
    text("message"),
    text("decision"),
    text("query"),
];

impl Table {
    pub const ALL: [Self; 4] = [Self::Pods, Self::Verdicts, Self::Calls, Self::Requests];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Verdicts => "verdicts",
            Self::Calls => "calls",
            Self::Requests => "requests",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// The column with the time to which a row belongs, by which rows are sorted.
    pub const fn time(self) -> &'static str {
        match self {
            Self::Pods => "zero_ns",
            Self::Verdicts => "begin_ns",
            Self::Calls => "start_ns",
            Self::Requests => "received_ns",
        }
    }

    /// Its columns, in the order of the table.
    pub fn columns(self) -> Vec<Column> {
        let column = |(name, ty, null): &(&str, Type, bool)| Column {
            name: (*name).to_owned(),
            ty: *ty,
            null: *null,
        };
        let mut all: Vec<Column> = PLACE.iter().map(column).collect();
        let own = match self {
            Self::Pods => PODS,
            Self::Verdicts => VERDICTS,
            Self::Calls => CALLS,
            Self::Requests => REQUESTS,
        };
        if self == Self::Requests {
            // Requests have no column `node`: their objects are on none.
            all.truncate(1);
        } else {
            all.extend(VERSIONS.iter().map(column));
        }
        all.extend(own.iter().map(column));
        if self == Self::Pods {
            for names in stage_columns() {
                let of_it = OF_STAGE.iter().zip(names);
                all.extend(of_it.map(|((_, ty, null), name)| Column {
                    name: name.clone(),
                    ty: *ty,
                    null: *null,
                }));
            }
        }
        all
    }

    /// The table's Arrow schema.
    pub fn schema(self) -> SchemaRef {
        let fields: Vec<FieldRef> = self.columns().iter().map(field).collect();
        Arc::new(Schema::new(fields))
    }
}

fn field(c: &Column) -> FieldRef {
    let ty = match c.ty {
        Type::Int => DataType::Int64,
        Type::Bool => DataType::Boolean,
        Type::Text => DataType::Utf8,
        Type::Texts => DataType::List(Arc::new(Field::new("item", DataType::Utf8, false))),
    };
    Arc::new(Field::new(&c.name, ty, c.null))
}

/// The names of the columns of each stage: `image_begin_ns` and so on.
pub(crate) fn stage_columns() -> &'static [Vec<String>] {
    static NAMES: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
        let of = |stage: &Stage| {
            let each = OF_STAGE.iter();
            each.map(|(name, ..)| format!("{}_{name}", stage.name()))
                .collect()
        };
        Stage::ALL.iter().map(of).collect()
    });
    &NAMES
}

#[cfg(test)]
mod tests;
