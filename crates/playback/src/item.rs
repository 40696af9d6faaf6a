//! A statement to be sent, and why it may be skipped.

use seatrial_sqltext::lexer::class::Class;
use seatrial_trace::captured::{Protocol, SessionId, Skip};

/// A statement of the trace, as separate data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Its position in the trace, from 0.
    pub number: u64,
    pub session: SessionId,
    /// When it was sent, in microseconds since 1970.
    pub start_us: i64,
    /// How long the server took; None if not in the log.
    pub duration_us: Option<u64>,
    pub protocol: Protocol,
    /// Name of the prepared statement; empty for the unnamed one.
    pub prepared: Vec<u8>,
    pub sql: Vec<u8>,
    /// The parameters in order, as text; None is NULL.
    pub parameters: Vec<Option<Vec<u8>>>,
    /// The types that the client declared for them, as the trace has them; None if unknown.
    pub parameter_types: Option<Vec<u8>>,
    /// Which transaction of its session, from 1; 0 outside of any block.
    pub transaction: u64,
    pub class: Class,
    pub fingerprint: u64,
    /// Statements in its text.
    pub statements: u32,
    /// Rows that it returned or changed; None if not in the log.
    pub rows: Option<u64>,
    /// The error code that it ended with; None for a success, as far as the log shows.
    pub error: Option<[u8; 5]>,
}

/// Why a statement of the trace is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skipped {
    /// The log lacks what is needed to send it.
    Unlogged(Skip),
    /// It writes, and the playback is read-only.
    Writes,
    /// It affects more than rows of its database, and was not allowed.
    Refused(UnsafeOperation),
    /// Its session is of a database that is not played.
    OtherDatabase,
    /// Its session is played or accounted for by another host.
    OtherHost,
    /// It was captured after the requested time.
    AfterUntil,
    /// An earlier statement of its transaction or portal was skipped.
    Dependent,
    /// Its session has lost its connection, or never had one.
    NoConnection,
}

impl Skipped {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Skipped::Unlogged(skip) => seatrial_trace::schema::skip_name(skip),
            Skipped::Writes => "writes",
            Skipped::Refused(operation) => operation.name(),
            Skipped::OtherDatabase => "other_database",
            Skipped::OtherHost => "other_host",
            Skipped::AfterUntil => "after_until",
            Skipped::Dependent => "dependent",
            Skipped::NoConnection => "no_connection",
        }
    }
}

/// Statements that are refused unless allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum UnsafeOperation {
    /// COPY to or from a program or a file on the server.
    CopyProgram = 0,
    /// A connection to another server: dblink, a foreign server.
    Dblink = 1,
    /// Ending other sessions: `pg_terminate_backend`, `pg_cancel_backend`.
    TerminateBackend = 2,
    /// NOTIFY and `pg_notify`, to which listeners react.
    Notify = 3,
    /// Changes of the catalogue: CREATE, ALTER, DROP, except for temporary tables; TRUNCATE.
    Ddl = 4,
    /// Changes of the server: ALTER SYSTEM, reloading, files and large objects.
    Server = 5,
}

/// All unsafe operations with their names, in the order of their numbers.
pub const UNSAFE_OPERATIONS: [(UnsafeOperation, &str); 6] = [
    (UnsafeOperation::CopyProgram, "copy_program"),
    (UnsafeOperation::Dblink, "dblink"),
    (UnsafeOperation::TerminateBackend, "terminate_backend"),
    (UnsafeOperation::Notify, "notify"),
    (UnsafeOperation::Ddl, "ddl"),
    (UnsafeOperation::Server, "server"),
];

impl UnsafeOperation {
    /// Its name in `--allow`.
    pub fn name(self) -> &'static str {
        UNSAFE_OPERATIONS[self as usize].1
    }
}
