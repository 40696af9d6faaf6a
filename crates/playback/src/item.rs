//! A statement on its way to a server, and why it may be skipped.

use seatrial_sqltext::lexer::class::Class;
use seatrial_trace::captured::{Protocol, SessionId, Skip};

/// A statement of the trace, on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Its place in the trace, from 0.
    pub number: u64,
    /// Its session.
    pub session: SessionId,
    /// When it was sent, in microseconds since 1970.
    pub start_us: i64,
    /// How long the server took; None if not in the log.
    pub duration_us: Option<u64>,
    /// How it was sent.
    pub protocol: Protocol,
    /// Name of the prepared statement; empty for the unnamed one.
    pub prepared: Vec<u8>,
    /// The text.
    pub sql: Vec<u8>,
    /// The parameters in order, as text; None is NULL.
    pub parameters: Vec<Option<Vec<u8>>>,
    /// Which transaction of its session, from 1; 0 outside of any block.
    pub transaction: u64,
    /// What kind of statement it is.
    pub class: Class,
    /// Hash of its fingerprint.
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
    /// The log does not hold what it takes.
    Unlogged(Skip),
    /// It writes, and the playback is read-only.
    Writes,
    /// It reaches beyond its database, or changes more than rows, and was not allowed.
    Refused(Danger),
    /// It is of a session of a database that is not played.
    OtherDatabase,
    /// It is of a session that another host plays or accounts for.
    OtherHost,
    /// It was captured after the requested time.
    AfterUntil,
    /// It is part of a transaction or a portal of which something before it was skipped.
    Dependent,
    /// Its session has lost its connection, or never had one.
    NoConnection,
}

impl Skipped {
    /// Its name: the word that a report has.
    pub fn name(self) -> &'static str {
        match self {
            Skipped::Unlogged(skip) => seatrial_trace::schema::skip_name(skip),
            Skipped::Writes => "writes",
            Skipped::Refused(danger) => danger.name(),
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
pub enum Danger {
    /// COPY to or from a program or a file of the server's machine.
    CopyProgram = 0,
    /// A connection to another server: dblink, a foreign server.
    Dblink = 1,
    /// The end of other sessions: `pg_terminate_backend`, `pg_cancel_backend`.
    TerminateBackend = 2,
    /// NOTIFY and `pg_notify`: who listens acts upon it.
    Notify = 3,
    /// What changes the catalogue: CREATE, ALTER, DROP, but for temporary tables; TRUNCATE.
    Ddl = 4,
    /// What changes the server: ALTER SYSTEM, reloading, files and large objects of its machine.
    Server = 5,
}

/// All dangers with their names, in the order of their numbers.
pub const DANGERS: [(Danger, &str); 6] = [
    (Danger::CopyProgram, "copy_program"),
    (Danger::Dblink, "dblink"),
    (Danger::TerminateBackend, "terminate_backend"),
    (Danger::Notify, "notify"),
    (Danger::Ddl, "ddl"),
    (Danger::Server, "server"),
];

impl Danger {
    /// Its name: what `--allow` takes.
    pub fn name(self) -> &'static str {
        DANGERS[self as usize].1
    }
}
