//! Captured sessions and statements.
//!
//! A reader converts any format into these and passes them to a [`Sink`] as it goes, so that a log
//! of any length is read in bounded memory. What it read is accounted for:
//!
//! ```text
//! records    = statements + joined + sessions + others + unreadable(by reason)
//! statements = executable + skipped(by reason)
//! ```
//!
//! Times are microseconds since 1970-01-01 00:00 UTC, which is what PostgreSQL logs at best.

use twox_hash::XxHash64;

/// The error code of a statement that failed with a code that the log does not show: a plain log
/// without `%e`.
pub const UNKNOWN_ERROR: [u8; 5] = *b"?????";

/// Number of a session, in the order in which sessions were first seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// A connection to the server, as far as the log shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    /// The log's own name for it: `%c`, else the process number; empty for a raw file of SQL.
    pub name: Vec<u8>,
    /// The user; empty if not in the log.
    pub user: Vec<u8>,
    /// The database; empty if not in the log.
    pub database: Vec<u8>,
    /// The `application_name`; empty if not in the log.
    pub application: Vec<u8>,
    /// When it was seen to connect; None where that is not in the log.
    pub connected_us: Option<i64>,
    /// When it was seen to disconnect; None where that is not in the log.
    pub disconnected_us: Option<i64>,
}

/// How a statement was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// As one message with the whole text (simple query).
    #[default]
    Simple = 0,
    /// Parsed, bound and executed (extended query).
    Extended = 1,
    /// A further fetch from a portal that an earlier execution left open.
    Fetch = 2,
}

/// Why a statement cannot be replayed, although it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Skip {
    /// Data of COPY FROM STDIN are not logged.
    CopyData = 0,
    /// Parameters were sent as bytes, and the log has none or truncated ones.
    BinaryParameters = 1,
    /// The log cut the statement or its parameters off (`log_parameter_max_length`, a torn end).
    CutOff = 2,
    /// A fetch from a portal whose execution is not in the log.
    UnknownPortal = 3,
    /// The function-call message, whose text is not in the log.
    FastPath = 4,
    /// Its client used another encoding than the database, and characters that differ in them.
    OtherEncoding = 5,
    /// The server rolled it back because a later statement of its pipeline without BEGIN failed;
    /// alone it would be committed.
    RolledBack = 6,
    /// It was never executed, for a reason that does not apply to a separate session.
    NeverRan = 7,
    /// Its text was sent before the capture began, or is in a gap.
    UnknownText = 8,
}

impl Skip {
    /// How many reasons there are.
    pub const COUNT: usize = Skip::UnknownText as usize + 1;
}

/// Rows that a statement returned, as text: what was written by `RETURNING`, or drawn from a
/// sequence. Only a capture on the wire has them.
///
/// They are bounded: where there are fewer than the statement's `rows`, those that follow were left
/// out. Of a query that makes no values, what cannot be an id is kept as a [`digest`], or not at
/// all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Returned {
    /// Names of the columns.
    pub columns: Vec<Vec<u8>>,
    /// Values in the order of the columns; None is NULL, or a binary value that cannot be
    /// converted.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

/// Replaces a value that only has to be distinguishable by `#` and its hash.
pub fn digest(value: &[u8]) -> Vec<u8> {
    format!("#{:016x}", XxHash64::oneshot(0, value)).into_bytes()
}

/// A digest of a value, or of what already is one.
pub fn digest_once(value: &[u8]) -> Vec<u8> {
    if value.starts_with(b"#") { value.to_vec() } else { digest(value) }
}

/// One statement of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Its session.
    pub session: SessionId,
    /// When it was sent: the record's time, less the duration where only durations are logged.
    pub start_us: i64,
    /// How long the server took; None if not in the log.
    pub duration_us: Option<u64>,
    /// How many statements were reported since its beginning was; None if no separate record marks
    /// its beginning.
    pub reported_meanwhile: Option<u64>,
    /// How it was sent.
    pub protocol: Protocol,
    /// Name of the prepared statement; empty for the unnamed one and for the simple protocol.
    pub prepared: &'a [u8],
    /// The text, as the client sent it.
    pub sql: &'a [u8],
    /// The parameters in order, as text; None is NULL.
    pub parameters: &'a [Option<Vec<u8>>],
    /// The types that the client declared: their numbers (`pg_type.oid`), separated by spaces, 0 if
    /// the server infers it; empty if it declared none. None if that is not known, as from a log.
    pub parameter_types: Option<&'a [u8]>,
    /// Which transaction of its session, from 1; 0 for a statement outside of any block.
    pub transaction: u64,
    /// Rows that it returned or changed; None if not in the log.
    pub rows: Option<u64>,
    /// The command tag without numbers, such as `INSERT` (the last of several in one text); None if
    /// not in the log, or nothing was done.
    pub tag: Option<&'a [u8]>,
    /// Server-generated values that it returned; None if not captured.
    pub returned: Option<&'a Returned>,
    /// The error code that it ended with; None for a success, as far as the log shows.
    pub error: Option<[u8; 5]>,
    /// Why it cannot be sent again; None where it can.
    pub skip: Option<Skip>,
}

/// Receives sessions and statements, in the order of the log.
pub trait Sink {
    /// Why it failed, such as a full disk.
    type Error;

    /// Takes in a session when it is first seen; its number is the count of those before.
    ///
    /// # Errors
    ///
    /// When it cannot be kept.
    fn session(&mut self, session: &Session) -> Result<(), Self::Error>;

    /// Takes in what became known of a session since: that it ended, or what it calls itself.
    ///
    /// # Errors
    ///
    /// When it cannot be kept.
    fn session_changed(&mut self, id: SessionId, session: &Session) -> Result<(), Self::Error>;

    /// Takes in a statement; those of one session come in the order in which they were sent.
    ///
    /// # Errors
    ///
    /// When it cannot be kept.
    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), Self::Error>;
}
