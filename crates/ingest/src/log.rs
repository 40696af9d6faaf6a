//! Logs of a PostgreSQL server, read into sessions and statements.
//!
//! Formats: the plain log with any `log_line_prefix`, csvlog and jsonlog, of PostgreSQL 14 to 18 in
//! all its languages, and a plain file of SQL. Statements are passed to a [`Sink`] at once, so
//! memory is bounded, whatever the length of the log. Every record is accounted for (see
//! [`seatrial_trace::captured`]).
//!
//! | part | rule |
//! |---|---|
//! | [`files`] | format, order and compression of the files |
//! | [`guess`] | the prefix of a plain log |
//! | [`blocks`] | one thread or several, with the same result |
//! | [`parts`] | several hosts, with the same result |
//! | [`prefix`], [`stderr`], [`csv`], [`json`], [`raw`] | from bytes to records |
//! | [`phrases`], [`message`], [`parameters`], [`stamp`] | the content of a record |
//! | [`assemble`], [`session`] | from the records of a session to its statements |
//! | [`record_counts`] | accounting of the records |
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

use std::path::{Path, PathBuf};

use seatrial_trace::captured::Sink;

use assemble::{Assembler, Span};
use blocks::{BlockSource, ReadWarnings};
use files::{DetectedFile, LogFile};
use record_counts::{CountsError, RecordCounts};
use stamp::Zones;

/// Size of a block.
const BLOCK_BYTES: usize = 512 << 10;

/// Limit of workers; more would outrun the thread that joins their blocks.
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

/// The files of a log, and how to read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// Files in any order; `-` is standard input.
    pub paths: Vec<PathBuf>,
    /// Their format; None to detect it.
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
    /// The files, in the order of reading.
    pub files: Vec<LogFile>,
    /// Accounting of the records.
    pub counted: RecordCounts,
    /// Sessions reported to the sink.
    pub sessions: u32,
    /// The period; None without statements that have a time.
    pub span: Option<Span>,
    /// Notes for the user: sentences.
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
        /// The system's error.
        source: std::io::Error,
    },
    /// There is nothing to read.
    #[error("{} is empty", path.display())]
    Empty {
        /// The first file.
        path: PathBuf,
    },
    /// A file was named twice: its statements would be in the trace twice.
    #[error("{} was given twice", path.display())]
    Duplicate {
        /// The file.
        path: PathBuf,
    },
    /// Files of several formats hold the same statements.
    #[error("{} is of the format {}, {} of {}", path.display(), format.name(), other.display(),
            other_format.name())]
    MixedFormats {
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
    #[error("{} is in no known format; it begins with {line:?}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its first line, or the beginning of it.
        line: String,
    },
    /// The given prefix fits no line.
    #[error("No line of {} begins with the prefix {prefix:?}; the first is {line:?}",
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
    #[error("{} has no record of the format {}: {line:?}", path.display(), format.name())]
    FormatMismatch {
        /// The file.
        path: PathBuf,
        /// As given.
        format: Format,
        /// Its first line, or the beginning of it.
        line: String,
    },
    /// A file that cannot be read in parts.
    #[error("{} cannot be read in parts", path.display())]
    NotInParts {
        /// The file.
        path: PathBuf,
    },
    /// A file is shorter than it was when reading began.
    #[error("{} ends after {length_bytes} bytes, before its end", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length.
        length_bytes: u64,
    },
    /// Another host has another file or another version.
    #[error("{} differs on this host from the one that reading began with", path.display())]
    DifferentFile {
        /// The file.
        path: PathBuf,
    },
    /// Parts do not follow each other: a defect of Seatrial.
    #[error("parts of the log are missing or out of order")]
    OutOfOrder,
    /// The terms of the accounting do not sum up.
    #[error(transparent)]
    RecordCounts(#[from] CountsError),
}

impl LogError {
    /// Returns what turns the system's error about a file into one of these.
    pub(crate) fn io(path: &Path) -> impl Fn(std::io::Error) -> LogError {
        move |source| LogError::Io { path: path.to_path_buf(), source }
    }
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
    /// The process that reads the parts gave up.
    #[error("the parts of the log ended early")]
    PartsEnded,
}

/// Reads logs into a sink.
///
/// # Errors
///
/// When a file cannot be read or is of no known format, or the sink gave up.
pub fn read<S: Sink>(options: &ReadOptions, sink: &mut S) -> Result<Reading, ReadError<S::Error>> {
    read_in_blocks(options, BLOCK_BYTES, sink)
}

fn read_in_blocks<S: Sink>(
    options: &ReadOptions,
    block_bytes: usize,
    sink: &mut S,
) -> Result<Reading, ReadError<S::Error>> {
    let files = files::look(options)?;
    let blocks =
        BlockSource::Blocks { workers: options.workers.clamp(1, WORKERS_MAX), block_bytes };
    read_files(files, SessionSource::Single, blocks, sink)
}

/// Blocks that this number of threads reads.
pub fn on_threads(workers: usize) -> BlockSource<'static> {
    BlockSource::Blocks { workers: workers.clamp(1, WORKERS_MAX), block_bytes: BLOCK_BYTES }
}

/// Reads files of known formats into a sink.
///
/// # Errors
///
/// As [`read`]; also when the process that reads the parts gave up.
pub fn read_files<S: Sink>(
    mut files: Vec<DetectedFile>,
    source: SessionSource,
    blocks: BlockSource<'_>,
    sink: &mut S,
) -> Result<Reading, ReadError<S::Error>> {
    let mut assembler = Assembler::new(sink);
    if source == SessionSource::Times {
        assembler.keep_starts();
    }
    let is_raw = files.first().is_some_and(|file| file.file.format == Format::Raw);
    let prefixes: Vec<_> = files.iter().filter_map(|file| file.prefix.clone()).collect();
    let warnings = match blocks {
        BlockSource::Blocks { block_bytes, .. } if is_raw => {
            for file in &mut files {
                raw::read(file, block_bytes, &mut assembler)?;
            }
            ReadWarnings::default()
        }
        _ => blocks::read(&mut files, blocks, &mut assembler)?,
    };
    assembler.finish().map_err(ReadError::Sink)?;
    let is_one = assembler.session_count() <= 1;
    let first = prefixes.first();
    let mut notes = first.map(|prefix| notes_of_prefix(prefix, source, is_one)).unwrap_or_default();
    notes.extend((is_raw && source == SessionSource::Single).then(note_of_raw_sql));
    notes.extend(notes_of_zones(&warnings.zones));
    notes.extend(warnings.overlap.map(note_of_overlap));
    notes.extend(note_of_unended_sessions(assembler.forgotten));
    notes.extend(note_of_ended_sessions(assembler.ended_idle));
    let has_times = !is_raw && prefixes.iter().all(prefix::Prefix::has_time);
    let sessions = assembler.session_count();
    let span = assembler.span.filter(|_| has_times);
    let counted = assembler.counted;
    counted.check().map_err(LogError::RecordCounts)?;
    let files = files.into_iter().map(|DetectedFile { file, .. }| file).collect();
    Ok(Reading { files, counted, sessions, span, notes })
}

/// Notes about missing fields of a prefix.
fn notes_of_prefix(prefix: &prefix::Prefix, source: SessionSource, is_one: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !prefix.has_session() {
        let outcome = match source {
            SessionSource::Single if !is_one => {
                "a session ends where user or database change; --sessions N splits the log into N \
                 streams"
            }
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
            String::from_utf8_lossy(&seatrial_trace::captured::UNKNOWN_ERROR)
        ));
    }
    notes
}

fn note_of_raw_sql() -> String {
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

fn note_of_ended_sessions(ended_idle: u64) -> Option<String> {
    (ended_idle > 0).then(|| {
        format!(
            "Sessions that the server ended (57P01, 57P02) while they were idle: {ended_idle}. \
             Statements that were on their way were never run, and are in no log."
        )
    })
}

fn note_of_unended_sessions(forgotten: u64) -> Option<String> {
    (forgotten > 0).then(|| {
        format!(
            "{forgotten} sessions whose end is not in the log were taken to have ended when \
             thousands of others had begun (log_disconnections was off)."
        )
    })
}
