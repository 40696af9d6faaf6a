//! Columns, encodings and the version.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

/// Version of what is described here.
pub const VERSION: &str = "1";

/// Metadata: the version.
pub const VERSION_KEY: &str = "seatrial.recording.version";

/// Metadata: what the recording says of itself, as JSON (see [`crate::about::About`]).
pub const ABOUT_KEY: &str = "seatrial.recording.about";

/// Rows of a row group at most.
pub const ROWS_MAX: usize = 64 << 10;

/// Of the levels from 1 (fast) to 22 (small).
const ZSTD_LEVEL: i32 = 3;

/// The columns. Numbers of operations are those of [`crate::Operation`]; `device`, `process` and
/// `relation` are indexes in the lists of the metadata.
const MESSAGE: &str = "
message seatrial_recording {
  required int64 arrived_ns (INTEGER(64,false));
  required int32 device (INTEGER(32,false));
  required int32 operation (INTEGER(8,false));
  optional boolean is_sync;
  required boolean failed;
  required int64 offset_bytes (INTEGER(64,false));
  required int32 length_bytes (INTEGER(32,false));
  optional int64 queue_ns (INTEGER(64,false));
  optional int64 device_ns (INTEGER(64,false));
  optional int32 process (INTEGER(32,false));
  optional int32 relation (INTEGER(32,false));
}
";

/// Columns by their index in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Column {
    Arrived,
    Device,
    Operation,
    IsSync,
    Failed,
    Offset,
    Length,
    Queue,
    DeviceTime,
    Process,
    Relation,
}

/// The schema.
///
/// # Errors
///
/// Never, as a test shows; what is parsed is a constant.
pub fn schema() -> Result<TypePtr, ParquetError> {
    parse_message_type(MESSAGE).map(TypePtr::new)
}

/// How the columns are written: those of few values by a dictionary.
///
/// # Errors
///
/// Never, as a test shows; the level of compression is a constant.
pub fn properties() -> Result<WriterProperties, ParquetError> {
    let properties = WriterProperties::builder()
        .set_created_by(format!("seatrial {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_max_row_group_row_count(Some(ROWS_MAX))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    let plainly = |properties: WriterPropertiesBuilder, name: &str, encoding| {
        properties
            .set_column_dictionary_enabled(ColumnPath::from(name), false)
            .set_column_encoding(ColumnPath::from(name), encoding)
    };
    let properties = plainly(properties, "arrived_ns", Encoding::DELTA_BINARY_PACKED);
    let properties = plainly(properties, "offset_bytes", Encoding::BYTE_STREAM_SPLIT);
    let properties = plainly(properties, "queue_ns", Encoding::BYTE_STREAM_SPLIT);
    Ok(plainly(properties, "device_ns", Encoding::BYTE_STREAM_SPLIT).build())
}
