//! Tables as Parquet.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader, SortingColumn};
use parquet::file::properties::WriterProperties;

use super::{TABLE_KEY, Table, TableError, VERSION, VERSION_KEY};

/// Rows per row group: an engine reads or skips such a group as a whole.
const GROUP: usize = 1 << 17;

/// Encodes rows of a table as a file. The same rows give the same bytes.
pub fn encode(table: Table, batches: &[RecordBatch]) -> Result<Vec<u8>, TableError> {
    let failed = |source| TableError::Write {
        table: table.name(),
        source,
    };
    let schema = table.schema();
    // Several batches, as of several nodes, are each sorted only by themselves.
    let time = match batches {
        [_] => schema.index_of(table.time()).ok(),
        _ => None,
    };
    let sorted = time.map(|n| SortingColumn {
        column_idx: n as i32,
        descending: false,
        nulls_first: false,
    });
    let level = ZstdLevel::try_new(3).map_err(failed)?;
    let meta = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP))
        .set_sorting_columns(sorted.map(|s| vec![s]))
        .set_created_by(format!("kflow {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![
            meta(VERSION_KEY, VERSION.to_string()),
            meta(TABLE_KEY, table.name().to_owned()),
        ]))
        .build();
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, schema, Some(properties)).map_err(failed)?;
    for batch in batches {
        writer.write(batch).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(out)
}

/// Reads a file of a table. `name` is used in errors.
pub fn decode(name: &str, bytes: Vec<u8>) -> Result<(Table, Vec<RecordBatch>), TableError> {
    let failed = |source| TableError::Read {
        name: name.to_owned(),
        source,
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes));
    let builder = builder.map_err(failed)?;
    let table = known(
        name,
        builder.metadata().file_metadata().key_value_metadata(),
    )?;
    let reader = builder.build().map_err(failed)?;
    let batches: Result<Vec<RecordBatch>, _> = reader.collect();
    let batches = batches.map_err(|e| failed(e.into()))?;
    // The batches' schema includes the file's metadata. Without it, rows of several files have the same schema.
    let bare = |b: RecordBatch| {
        let schema = Schema::new(b.schema().fields().clone());
        b.with_schema(Arc::new(schema))
            .map_err(|e| failed(e.into()))
    };
    let batches: Result<Vec<RecordBatch>, _> = batches.into_iter().map(bare).collect();
    Ok((table, batches?))
}

/// Returns the table named in the metadata, if this kflow can read it.
fn known(name: &str, meta: Option<&Vec<KeyValue>>) -> Result<Table, TableError> {
    let foreign = || TableError::Foreign {
        name: name.to_owned(),
    };
    let value = |key: &str| {
        let mut all = meta.into_iter().flatten();
        all.find(|kv| kv.key == key).and_then(|kv| kv.value.clone())
    };
    let version = value(VERSION_KEY).ok_or_else(foreign)?;
    if version.parse::<u32>().is_ok_and(|v| v > VERSION) {
        return Err(TableError::Newer {
            name: name.to_owned(),
            version,
        });
    }
    value(TABLE_KEY)
        .and_then(|t| Table::parse(&t))
        .ok_or_else(foreign)
}

/// Returns an error if a file is not of this table or cannot be read.
pub(crate) fn check(path: &std::path::Path, table: Table) -> Result<(), TableError> {
    let name = path.display().to_string();
    let read = |source: parquet::errors::ParquetError| TableError::Read {
        name: name.clone(),
        source,
    };
    let file = std::fs::File::open(path).map_err(|e| read(e.into()))?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file);
    let metadata = metadata.map_err(read)?;
    let is = known(&name, metadata.file_metadata().key_value_metadata())?;
    if is == table {
        return Ok(());
    }
    Err(TableError::Other {
        name,
        is: is.name(),
        table: table.name(),
    })
}
