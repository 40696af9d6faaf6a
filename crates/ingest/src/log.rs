//! Logs of a PostgreSQL server, read into sessions and statements.
//!
//! Read are the plain log with any `log_line_prefix`, csvlog and jsonlog, of PostgreSQL 14 to 18
//! and in the languages that it speaks, and a plain file of SQL. What is read goes to a
//! [`Sink`] at once: memory is bounded, whatever the length of the log. Every record is accounted
//! for (see [`seatrial_trace::captured`]).
//!
//! | part | rule |
//! |---|---|
//! | [`files`] | what each file is, in which order they come, what packs them |
//! | [`guess`] | which prefix a plain log was written with |
//! | [`blocks`] | one thread or several, with the same outcome |
//! | [`parts`] | several hosts, with the same outcome |
//! | [`prefix`], [`stderr`], [`csv`], [`json`], [`raw`] | how bytes fall into records |
//! | [`phrases`], [`message`], [`parameters`], [`stamp`] | what a record says |
//! | [`assemble`], [`session`] | from the records of a session to its statements |
//! | [`record_counts`] | where every record went |
//!
//! Another server's log needs another [`record::LogReader`], as MySQL's slow log would.

pub mod assemble;
pub mod blocks;
pub mod csv;
pub mod files;
pub mod guess;
pub mod json;
pub mod message;
pub mod parameters;
pub mod parts;
pub mod phrases;
pub mod prefix;
pub mod raw;
pub mod record;
pub mod record_counts;
pub mod session;
pub mod stamp;
pub mod stderr;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use seatrial_trace::captured::Sink;

use assemble::{Assembler, Span};
use blocks::{How, Met};
use files::{Known, LogFile};
use record_counts::{CountsError, RecordCounts};
use stamp::Zones;

/// What a worker reads at once.
const BLOCK_BYTES: usize = 512 << 10;

/// Workers beyond which the one that puts their blocks together would be behind.
const WORKERS_MAX: usize = 16;

/// A format of log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Lines with a prefix.
    Stderr,
    /// csvlog.
    Csv,
    /// jsonlog.
    Json,
    /// A plain file of SQL.
    Raw,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Stderr, Format::Csv, Format::Json, Format::Raw];

    /// Its name, as commands and documents write it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Stderr => "stderr",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Raw => "raw",
        }
    }
}

/// What is to be read, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Files in any order; `-` is standard input.
    pub paths: Vec<PathBuf>,
    /// What they are; None to see by their content.
    pub format: Option<Format>,
    /// The server's `log_line_prefix`; None to guess it. Given, the files are plain logs.
    pub prefix: Option<String>,
    /// Threads that read.
    pub workers: usize,
}

/// Where the sessions of statements come from if the log does not identify them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSource {
    /// All are of one session.
    Single,
    /// They are split by transactions and conflicts (see [`crate::streams`]).
    Conflicts,
    /// They are split by their times (see [`crate::streams::timed`]), and keep them.
    Times,
}

/// The result of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// What was read, in the order in which it was.
    pub files: Vec<LogFile>,
    /// Where every record went.
    pub counted: RecordCounts,
    /// Sessions reported to the sink.
    pub sessions: u32,
    /// From when to when; None without statements that have a time.
    pub span: Option<Span>,
    /// What a reader of the outcome should know: sentences.
    pub notes: Vec<String>,
}

/// Why logs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file cannot be opened or read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is nothing to read.
    #[error(
        "{} is empty; is this the server's current log? See SELECT pg_current_logfile()",
        path.display()
    )]
    Empty {
        /// The first file.
        path: PathBuf,
    },
    /// A file was named twice: its statements would be there twice.
    #[error("{} was given twice, so its statements would be there twice; give it once",
            path.display())]
    Twice {
        /// The file.
        path: PathBuf,
    },
    /// Files of several formats hold the same statements.
    #[error("{} is {} and {} is {}: a server that writes several formats writes every record in \
             each; give the files of one", path.display(), format.name(), other.display(),
            other_format.name())]
    Mixed {
        /// The first file.
        path: PathBuf,
        /// Its format.
        format: Format,
        /// One of another format.
        other: PathBuf,
        /// Its format.
        other_format: Format,
    },
    /// No format and no known prefix fits.
    #[error("{} is in no known format; it begins with {line:?}. If it is a plain log, \
             give the server's prefix (SHOW log_line_prefix) with --prefix; if it is a file of \
             SQL, use --format raw", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its first line, or the beginning of it.
        line: String,
    },
    /// The given prefix fits no line.
    #[error("no line of {} begins with the prefix {prefix:?}; the first is {line:?}. Compare it \
             with SHOW log_line_prefix: blanks count, including those at the end",
            path.display())]
    PrefixMismatch {
        /// The file.
        path: PathBuf,
        /// As given.
        prefix: String,
        /// Its first line, or the beginning of it.
        line: String,
    },
    /// The given format fits no line.
    #[error("{} has no record of the format {}; its first line is {line:?}. Omit the format \
             to have it detected from the content", path.display(), format.name())]
    FormatMismatch {
        /// The file.
        path: PathBuf,
        /// As given.
        format: Format,
        /// Its first line, or the beginning of it.
        line: String,
    },
    /// It is not read in parts.
    #[error("{} is not read in parts", path.display())]
    Whole {
        /// The file.
        path: PathBuf,
    },
    /// A file is shorter than it was when reading began.
    #[error("{} ends after {length_bytes} bytes; it was longer when reading began", path.display())]
    Shorter {
        /// The file.
        path: PathBuf,
        /// How long it is.
        length_bytes: u64,
    },
    /// Another host has another file or another version.
    #[error("{} is another file on this host, or its seatrial is another version", path.display())]
    Other {
        /// The file.
        path: PathBuf,
    },
    /// Parts do not follow each other: a defect of ours.
    #[error("parts of the log are missing or out of order")]
    OutOfOrder,
    /// The terms of the accounting do not sum up.
    #[error(transparent)]
    RecordCounts(#[from] CountsError),
}

/// Why reading ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<E> {
    /// The logs cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The sink gave up.
    #[error("what was read could not be kept")]
    Sink(E),
    /// What reads the parts gave up.
    #[error("the parts of the log ended early")]
    GivenUp,
}

/// Reads logs, and hands what they hold to a sink.
///
/// # Errors
///
/// When a file cannot be read or is of no known format, or the sink gave up.
pub fn read<S: Sink>(wanted: &Wanted, sink: &mut S) -> Result<Reading, ReadError<S::Error>> {
    read_in_blocks(wanted, BLOCK_BYTES, sink)
}

fn read_in_blocks<S: Sink>(
    wanted: &Wanted,
    block_bytes: usize,
    sink: &mut S,
) -> Result<Reading, ReadError<S::Error>> {
    let known = files::look(wanted)?;
    let how = How::Blocks { workers: wanted.workers.clamp(1, WORKERS_MAX), block_bytes };
    read_known(known, SessionSource::Single, how, sink)
}

/// Blocks that this number of threads reads.
pub fn on_threads(workers: usize) -> How<'static> {
    How::Blocks { workers: workers.clamp(1, WORKERS_MAX), block_bytes: BLOCK_BYTES }
}

/// Reads files that were looked at, and hands what they hold to a sink.
///
/// # Errors
///
/// As [`read`]; also when what reads the parts gave up.
pub fn read_known<S: Sink>(
    mut known: Vec<Known>,
    source: SessionSource,
    how: How<'_>,
    sink: &mut S,
) -> Result<Reading, ReadError<S::Error>> {
    let mut assembler = Assembler::new(sink);
    if source == SessionSource::Times {
        assembler.keep_starts();
    }
    let is_raw = known.first().is_some_and(|known| known.file.format == Format::Raw);
    let prefixes: Vec<_> = known.iter().filter_map(|known| known.prefix.clone()).collect();
    let met = match how {
        How::Blocks { block_bytes, .. } if is_raw => {
            for known in &mut known {
                raw::read(known, block_bytes, &mut assembler)?;
            }
            Met::default()
        }
        _ => blocks::read(&mut known, how, &mut assembler)?,
    };
    assembler.finish().map_err(ReadError::Sink)?;
    let mut notes =
        prefixes.first().map(|prefix| notes_of_prefix(prefix, source)).unwrap_or_default();
    notes.extend((is_raw && source == SessionSource::Single).then(note_of_sql));
    notes.extend(notes_of_zones(&met.zones));
    notes.extend(met.overlap.map(note_of_overlap));
    notes.extend(notes_of_sessions(assembler.forgotten));
    notes.extend(note_of_ends(assembler.ended_idle));
    let has_times = !is_raw && prefixes.iter().all(prefix::Prefix::has_time);
    let sessions = assembler.session_count();
    let span = assembler.span.filter(|_| has_times);
    let counted = assembler.counted;
    counted.check().map_err(LogError::RecordCounts)?;
    let files = known.into_iter().map(|Known { file, .. }| file).collect();
    Ok(Reading { files, counted, sessions, span, notes })
}

/// What a prefix lacks.
fn notes_of_prefix(prefix: &prefix::Prefix, source: SessionSource) -> Vec<String> {
    let mut notes = Vec::new();
    if !prefix.has_session() {
        let outcome = match source {
            SessionSource::Single => {
                "all statements are of one; --sessions N splits it into N streams"
            }
            SessionSource::Conflicts => "it was split by transactions and conflicts",
            SessionSource::Times => {
                "streams replace them, as many as were active at once; transactions are taken \
                 not to interleave but where their times or a second BEGIN show it"
            }
        };
        notes.push(format!(
            "The prefix identifies no sessions (it has neither %c nor %p): {outcome}."
        ));
    }
    if !prefix.has_time() {
        notes.push("The prefix has no time (%m, %t or %n), so none is known.".to_owned());
    }
    if !prefix.has_code() {
        notes.push(format!(
            "The prefix has no error codes (%e): a statement that failed has the code {}.",
            String::from_utf8_lossy(&assemble::UNKNOWN_ERROR)
        ));
    }
    notes
}

fn note_of_sql() -> String {
    "A file of SQL has neither sessions nor times, so all statements are of one; how many ran at \
     once cannot be measured, but --sessions N splits it into N streams."
        .to_owned()
}

fn notes_of_zones(zones: &Zones) -> Vec<String> {
    let mut notes = Vec::new();
    if !zones.unknown.is_empty() {
        let named = zones.unknown.join(", ");
        notes.push(format!("Times in the unknown time zone {named} were read as UTC."));
    }
    if !zones.ambiguous.is_empty() {
        let named = zones.ambiguous.join(", ");
        notes.push(format!(
            "Times in the time zone {named} were read as PostgreSQL does by default; the \
             abbreviation is ambiguous."
        ));
    }
    notes
}

fn note_of_overlap((before, after): (PathBuf, PathBuf)) -> String {
    format!(
        "{} begins before {} ends, so they are not parts of one log, but perhaps of two servers. \
         They were read one after the other; a session that is in both is taken for one.",
        after.display(),
        before.display()
    )
}

fn note_of_ends(ended_idle: u64) -> Option<String> {
    (ended_idle > 0).then(|| {
        format!(
            "Sessions that the server ended (57P01, 57P02) while they were idle: {ended_idle}. \
             Statements that were on their way were never run, and are in no log."
        )
    })
}

fn notes_of_sessions(forgotten: u64) -> Option<String> {
    (forgotten > 0).then(|| {
        format!(
            "{forgotten} sessions whose end is not in the log were taken to have ended when \
             thousands of others had begun (log_disconnections was off)."
        )
    })
}
