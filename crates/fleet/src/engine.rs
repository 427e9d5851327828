//! SQL queries over tables, with DataFusion.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::compute::cast;
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::Value;

use crate::ranks;
use crate::tables::{OF_STAGE, Table, TableError, check, stage_columns};
use kflow_core::flow::Stage;
use kflow_model::Nanos;

/// Most rows of an answer, which is held in memory.
pub const MOST: usize = 1_000_000;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("cannot read {}: {source}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is no file of tables", path.display())]
    Path { path: PathBuf },
    #[error("cannot {op} {what}: {source}")]
    Engine {
        op: &'static str,
        what: String,
        source: Box<DataFusionError>,
    },
    #[error("the answer has more than {MOST} rows: ask for fewer (LIMIT, GROUP BY)")]
    Much,
    #[error(
        "an answer in SQL has the column {column}, which cannot be told: {source}; cast it to text"
    )]
    Column {
        column: String,
        source: Box<serde_arrow::Error>,
    },
}

fn engine(op: &'static str, what: &str) -> impl FnOnce(DataFusionError) -> AskError {
    move |source| AskError::Engine {
        op,
        what: what.to_owned(),
        source: Box::new(source),
    }
}

/// The tables to query.
#[derive(Debug, Default)]
pub struct Tables {
    /// Tables in memory.
    pub batches: BTreeMap<Table, Vec<RecordBatch>>,
    /// Tables in files.
    pub files: BTreeMap<Table, Vec<PathBuf>>,
}

/// An answer: column names and rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

/// Tables that are ready for queries.
pub struct Engine {
    context: SessionContext,
}

impl Engine {
    /// Prepares these tables. With `range`, only rows whose time is at or after the first moment and before the
    /// second are visible. `cores`: how many partitions of a table are worked on at once.
    pub async fn new(
        tables: &Tables,
        range: Option<(Nanos, Nanos)>,
        cores: usize,
    ) -> Result<Self, AskError> {
        let config = SessionConfig::new()
            .with_target_partitions(cores.max(1))
            .with_information_schema(true);
        let context = SessionContext::new_with_config(config);
        for function in ranks::functions() {
            context.register_udaf(function);
        }
        let this = Self { context };
        for table in Table::ALL {
            this.register(tables, table, range).await?;
        }
        this.view("stages", &stages()).await?;
        Ok(this)
    }

    async fn register(
        &self,
        tables: &Tables,
        table: Table,
        range: Option<(Nanos, Nanos)>,
    ) -> Result<(), AskError> {
        let failed = || engine("open the table", table.name());
        let files = tables.files.get(&table).map_or(&[][..], Vec::as_slice);
        let batches = tables.batches.get(&table).cloned().unwrap_or_default();
        let mut parts = Vec::new();
        if !files.is_empty() {
            let mut urls = Vec::new();
            for path in files {
                check(path, table)?;
                let url = url::Url::from_file_path(path)
                    .map_err(|()| AskError::Path { path: path.clone() })?;
                urls.push(ListingTableUrl::try_new(url, None).map_err(failed())?);
            }
            let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
                .with_target_partitions(self.context.copied_config().target_partitions())
                .with_collect_stat(true);
            let config = ListingTableConfig::new_with_multi_paths(urls)
                .with_listing_options(options)
                .with_schema(of_files(&table.schema()));
            let files = ListingTable::try_new(config).map_err(failed())?;
            parts.push(("files", Arc::new(files) as Arc<_>));
        }
        if !batches.is_empty() || parts.is_empty() {
            let memory = MemTable::try_new(table.schema(), vec![batches]).map_err(failed())?;
            parts.push(("memory", Arc::new(memory) as Arc<_>));
        }
        let mut all = Vec::new();
        for (kind, part) in parts {
            let name = format!("{}_{kind}", table.name());
            self.context
                .register_table(name.as_str(), part)
                .map_err(failed())?;
            all.push(format!("SELECT * FROM {name}"));
        }
        let mut sql = all.join(" UNION ALL ");
        if let Some((from, to)) = range {
            let time = table.time();
            sql = format!(
                "SELECT * FROM ({sql}) WHERE {time} >= {} AND {time} < {}",
                from.0, to.0
            );
        }
        self.view(table.name(), &sql).await
    }

    async fn view(&self, name: &str, sql: &str) -> Result<(), AskError> {
        let frame = self.context.sql(sql).await;
        let frame = frame.map_err(engine("make the view", name))?;
        self.context
            .register_table(name, frame.into_view())
            .map(drop)
            .map_err(engine("make the view", name))
    }

    /// Answers a query. Queries that would write anything are refused.
    pub async fn ask(&self, sql: &str) -> Result<Rows, AskError> {
        let options = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let failed = || engine("answer", sql);
        let frame = self.context.sql_with_options(sql, options).await;
        let frame = frame.map_err(failed())?;
        let schema: SchemaRef = Arc::new(frame.schema().as_arrow().clone());
        let frame = frame.limit(0, Some(MOST + 1)).map_err(failed())?;
        let batches = frame.collect().await.map_err(failed())?;
        let mut rows: Vec<Vec<Value>> = Vec::new();
        for batch in &batches {
            if rows.len() + batch.num_rows() > MOST {
                return Err(AskError::Much);
            }
            let mut some = vec![Vec::with_capacity(batch.num_columns()); batch.num_rows()];
            for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
                for (row, value) in some.iter_mut().zip(values(field, array)?) {
                    row.push(value);
                }
            }
            rows.append(&mut some);
        }
        Ok(Rows {
            columns: schema.fields().iter().map(|f| f.name().clone()).collect(),
            rows,
        })
    }
}

#[derive(serde::Deserialize)]
struct Cell {
    v: Value,
}

/// Returns the values of a column as JSON. Times, days and decimals become text.
fn values(field: &Field, array: &ArrayRef) -> Result<Vec<Value>, AskError> {
    let has_form = |ty: &DataType| {
        ty.is_integer()
            || ty.is_floating()
            || ty.is_string()
            || matches!(ty, DataType::Boolean | DataType::Null | DataType::List(_))
    };
    let mut array = Arc::clone(array);
    if !has_form(array.data_type()) {
        let text = cast(&array, &DataType::Utf8);
        array = text.map_err(|e| engine("tell the column", field.name())(e.into()))?;
    }
    let one = Arc::new(Field::new("v", array.data_type().clone(), true));
    let cells: Vec<Cell> =
        serde_arrow::from_arrow(&[one], &[array]).map_err(|source| AskError::Column {
            column: field.name().clone(),
            source: Box::new(source),
        })?;
    Ok(cells.into_iter().map(|c| c.v).collect())
}

/// Returns the schema with which files are read: text in the type that is fastest in DataFusion, and lists with
/// nullable items, as other programs write them.
fn of_files(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| {
        let read = match f.data_type() {
            DataType::Utf8 => DataType::Utf8View,
            DataType::List(item) => {
                DataType::List(Arc::new(item.as_ref().clone().with_nullable(true)))
            }
            other => other.clone(),
        };
        Arc::new(f.as_ref().clone().with_data_type(read))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// SQL for the view of stages: one row per pod and stage that was seen.
fn stages() -> String {
    let of = |(stage, names): (Stage, &Vec<String>)| {
        let own = names.iter().zip(OF_STAGE);
        let own: Vec<String> = own.map(|(n, (to, ..))| format!("{n} AS {to}")).collect();
        format!(
            "SELECT cluster, node, kubelet_version, runtime_version, uid, namespace, name, owner, images, zero_ns, \
             '{}' AS stage, {} FROM pods WHERE {}_begin_ns IS NOT NULL",
            stage.name(),
            own.join(", "),
            stage.name(),
        )
    };
    let all: Vec<String> = Stage::ALL
        .into_iter()
        .zip(stage_columns())
        .map(of)
        .collect();
    all.join(" UNION ALL ")
}
