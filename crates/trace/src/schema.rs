//! Columns, encodings and the version.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

use crate::captured::{Protocol, Skip};

/// Version of what is described here.
pub const VERSION: &str = "4";

/// Versions that can be read. The first has no tags and no returned values, the second has no
/// `told_meanwhile`, the third has no `parameter_types`.
pub const VERSIONS: [&str; 4] = ["1", "2", "3", VERSION];

/// Metadata: the version.
pub const VERSION_KEY: &str = "seatrial.trace.version";

/// Metadata: `true` where literals and parameters are stand-ins.
pub const MASKED_KEY: &str = "seatrial.trace.masked";

/// Metadata: what the trace holds, as JSON (see [`super::Counts`]).
pub const COUNTS_KEY: &str = "seatrial.trace.counts";

/// Metadata: what it was read from and how that adds up, as JSON.
pub const ORIGIN_KEY: &str = "seatrial.trace.origin";

/// Rows of a row group at most.
pub const ROWS_MAX: usize = 128 << 10;

/// Text in a row group at most, and one statement more: it bounds the writer's memory.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// What a row group's dictionary of a column holds at most.
pub const DICTIONARY_BYTES_MAX: usize = 4 << 20;

/// Of the levels from 1 (fast) to 22 (small). Level 3 makes a trace of pgbench 3 % smaller.
const ZSTD_LEVEL: i32 = 1;

/// The columns. `form` has a byte 0 for a literal and a byte 1 for a comment; `literals` fill these
/// in order. `text` is the fingerprint's, `statements` how many the text holds. What a client or a
/// server wrote is bytes, in whatever encoding.
const MESSAGE: &str = "
message seatrial_trace {
  optional group session {
    required int32 id (INTEGER(32,false));
    required binary name;
    required binary user;
    required binary database;
    required binary application;
    optional int64 connected (TIMESTAMP(MICROS,true));
    optional int64 disconnected (TIMESTAMP(MICROS,true));
  }
  optional group statement {
    required int32 session (INTEGER(32,false));
    required int64 start (TIMESTAMP(MICROS,true));
    optional int64 duration_us (INTEGER(64,false));
    required binary protocol (STRING);
    required binary prepared;
    required int64 fingerprint (INTEGER(64,false));
    required binary text (STRING);
    required binary class (STRING);
    required int32 statements (INTEGER(32,false));
    required binary form;
    required group literals (LIST) { repeated group list { required binary element; } }
    required group parameters (LIST) { repeated group list { optional binary element; } }
    required int64 transaction (INTEGER(64,false));
    optional int64 rows (INTEGER(64,false));
    optional binary error (STRING);
    optional binary skip (STRING);
";

/// Columns that version 2 added. `returned_values` are row by row; a statement without
/// `returned_columns` returned nothing that was kept.
const SINCE_2: &str = "
    optional binary tag (STRING);
    required group returned_columns (LIST) { repeated group list { required binary element; } }
    required group returned_values (LIST) { repeated group list { optional binary element; } }
";

/// The column that version 3 added.
const SINCE_3: &str = "
    optional int64 told_meanwhile (INTEGER(64,false));
";

/// The column that version 4 added: numbers of types, separated by spaces.
const SINCE_4: &str = "
    optional binary parameter_types (STRING);
";

/// Columns by their position in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Column {
    SessionId,
    SessionName,
    SessionUser,
    SessionDatabase,
    SessionApplication,
    SessionConnected,
    SessionDisconnected,
    Session,
    Start,
    Duration,
    Protocol,
    Prepared,
    Fingerprint,
    Text,
    Class,
    Statements,
    Form,
    Literals,
    Parameters,
    Transaction,
    Rows,
    Error,
    Skip,
    Tag,
    ReturnedColumns,
    ReturnedValues,
    ReportedMeanwhile,
    ParameterTypes,
}

/// Columns of a session, which come first.
pub const SESSION_COLUMNS: usize = 7;

/// Columns of a statement, which come behind them.
pub const STATEMENT_COLUMNS: usize = 21;

/// Columns that grow or waver by little from row to row.
const DELTAS: [&str; 8] = [
    "session.id",
    "session.connected",
    "session.disconnected",
    "statement.start",
    "statement.duration_us",
    "statement.transaction",
    "statement.rows",
    "statement.told_meanwhile",
];

/// Columns of values that seldom recur.
const VALUES: [&str; 4] = [
    "session.name",
    "statement.literals.list.element",
    "statement.parameters.list.element",
    "statement.returned_values.list.element",
];

/// The schema of a version.
///
/// # Errors
///
/// Never, as a test shows; what is parsed is a constant.
pub fn schema(version: &str) -> Result<TypePtr, ParquetError> {
    let since_2 = if version == VERSIONS[0] { "" } else { SINCE_2 };
    let since_3 = if VERSIONS[..2].contains(&version) { "" } else { SINCE_3 };
    let since_4 = if version == VERSION { SINCE_4 } else { "" };
    parse_message_type(&format!("{MESSAGE}{since_2}{since_3}{since_4}}}}}")).map(TypePtr::new)
}

/// How the columns are written. Statistics would contain literals in clear, so only the columns
/// that identify the rows of a row group have them.
///
/// # Errors
///
/// Never, as a test shows; the level of compression is a constant.
pub fn properties() -> Result<WriterProperties, ParquetError> {
    let path =
        |name: &str| ColumnPath::from(name.split('.').map(str::to_owned).collect::<Vec<String>>());
    let mut properties = WriterProperties::builder()
        .set_created_by(created_by())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_dictionary_page_size_limit(DICTIONARY_BYTES_MAX)
        .set_max_row_group_row_count(Some(ROWS_MAX))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    let plainly = |properties: WriterPropertiesBuilder, name, encoding| {
        properties
            .set_column_dictionary_enabled(path(name), false)
            .set_column_encoding(path(name), encoding)
    };
    for name in DELTAS {
        properties = plainly(properties, name, Encoding::DELTA_BINARY_PACKED);
    }
    for name in VALUES {
        properties = plainly(properties, name, Encoding::DELTA_LENGTH_BYTE_ARRAY);
    }
    for name in ["session.id", "statement.start"] {
        properties = properties.set_column_statistics_enabled(path(name), EnabledStatistics::Chunk);
    }
    Ok(properties.build())
}

/// What wrote a file.
pub fn created_by() -> String {
    format!("seatrial {}", env!("CARGO_PKG_VERSION"))
}

/// Names of the protocols, in the order of their numbers.
pub const PROTOCOLS: [(Protocol, &str); 3] =
    [(Protocol::Simple, "simple"), (Protocol::Extended, "extended"), (Protocol::Fetch, "fetch")];

/// Names of the reasons to skip, in the order of their numbers.
pub const SKIPS: [(Skip, &str); Skip::COUNT] = [
    (Skip::CopyData, "copy_data"),
    (Skip::BinaryParameters, "binary_parameters"),
    (Skip::CutOff, "cut_off"),
    (Skip::UnknownPortal, "unknown_portal"),
    (Skip::FastPath, "fast_path"),
    (Skip::OtherEncoding, "other_encoding"),
    (Skip::RolledBack, "rolled_back"),
    (Skip::NeverRan, "never_ran"),
    (Skip::UnknownText, "unknown_text"),
];

/// A protocol's name.
pub fn protocol_name(protocol: Protocol) -> &'static str {
    PROTOCOLS[protocol as usize].1
}

/// A reason's name.
pub fn skip_name(skip: Skip) -> &'static str {
    SKIPS[skip as usize].1
}

/// What has this name.
pub fn named<T: Copy>(names: &[(T, &str)], name: &[u8]) -> Option<T> {
    names.iter().find(|(_, known)| known.as_bytes() == name).map(|&(value, _)| value)
}
