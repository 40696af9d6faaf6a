//! Accounting of all records and statements.

use std::path::PathBuf;

use seatrial_trace::captured::Skip;
use serde::{Deserialize, Serialize};

use super::record::Fault;

/// Number of reasons.
pub const REASONS: usize = 7;

/// Examples of each reason that are kept.
const EXAMPLES_MAX: usize = 3;

/// Bytes of an example that are kept.
const TEXT_BYTES_MAX: usize = 200;

/// Why something could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Reason {
    /// A log begins inside of a record.
    BeginsInside = 0,
    /// A line does not begin as `log_line_prefix` says, or is none of PostgreSQL's.
    NoPrefix = 1,
    /// A DETAIL, STATEMENT or the like that belongs to no record before it.
    Stray = 2,
    /// Columns or keys are not those of the format.
    Malformed = 3,
    /// A record ends before its end, as where a disk was full or a file was cut.
    Torn = 4,
    /// A record is longer than can be held.
    TooLong = 5,
    /// A command of psql, not of SQL, in a plain file.
    PsqlCommand = 6,
}

impl Reason {
    /// All reasons, in the order of their number.
    pub const ALL: [Reason; REASONS] = [
        Reason::BeginsInside,
        Reason::NoPrefix,
        Reason::Stray,
        Reason::Malformed,
        Reason::Torn,
        Reason::TooLong,
        Reason::PsqlCommand,
    ];

    /// Its name, as documents write it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::BeginsInside => "begins_inside",
            Reason::NoPrefix => "no_prefix",
            Reason::Stray => "stray",
            Reason::Malformed => "malformed",
            Reason::Torn => "torn",
            Reason::TooLong => "too_long",
            Reason::PsqlCommand => "psql_command",
        }
    }
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Why.
    pub reason: Reason,
    /// The file.
    pub file: PathBuf,
    /// Where in the file, unpacked.
    pub offset_bytes: u64,
    /// Its line in the file, from 1.
    pub line: u64,
    /// The text there, or its beginning.
    pub text: Vec<u8>,
}

/// The position of a block of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockStart {
    /// The file.
    pub file: PathBuf,
    /// Offset in the file, unpacked.
    pub offset_bytes: u64,
    /// Lines of the file before it.
    pub lines: u64,
}

/// The terms of the accounting (see [`seatrial_trace::captured`]), each counted where it occurs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// Records, among them what could not be read.
    pub records: u64,
    /// Statements, each once.
    pub statements: u64,
    /// Further records of a statement: its parse and bind, its duration, its error.
    pub joined: u64,
    /// Records of connections that come and go.
    pub sessions: u64,
    /// Records of anything else.
    pub others: u64,
    /// What could not be read, by [`Reason`].
    pub unreadable: [u64; REASONS],
    /// Statements that can be sent again.
    pub executable: u64,
    /// Statements that cannot, by [`Skip`].
    pub skipped: [u64; Skip::COUNT],
    /// The first of what could not be read, a few of each reason.
    pub examples: Vec<Example>,
}

/// The terms do not sum up: a defect of this code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the accounting of the log does not sum up: {0}; please report this defect")]
pub struct CountsError(String);

impl RecordCounts {
    /// Counts an unreadable item of bytes that begin at this position.
    pub fn unreadable(&mut self, fault: &Fault, bytes: &[u8], place: &BlockStart) {
        self.records += 1;
        self.unreadable[fault.reason as usize] += 1;
        let kept = self.examples.iter().filter(|example| example.reason == fault.reason);
        if kept.count() < EXAMPLES_MAX {
            let text = fault.text.of(bytes);
            self.examples.push(Example {
                reason: fault.reason,
                file: place.file.clone(),
                offset_bytes: place.offset_bytes + fault.offset_bytes as u64,
                line: place.lines + fault.line as u64 + 1,
                text: text[..text.len().min(TEXT_BYTES_MAX)].to_vec(),
            });
        }
    }

    /// Counts a statement that was passed on.
    #[inline]
    pub fn statement(&mut self, skip: Option<Skip>) {
        self.statements += 1;
        match skip {
            None => self.executable += 1,
            Some(skip) => self.skipped[skip as usize] += 1,
        }
    }

    /// Checks that both equations hold.
    ///
    /// # Errors
    ///
    /// When they do not, which is a defect of this code.
    pub fn check(&self) -> Result<(), CountsError> {
        let unreadable: u64 = self.unreadable.iter().sum();
        let sum = self.statements + self.joined + self.sessions + self.others + unreadable;
        if sum != self.records {
            return Err(CountsError(format!("{} records, {sum} reported", self.records)));
        }
        let sum = self.executable + self.skipped.iter().sum::<u64>();
        if sum != self.statements {
            return Err(CountsError(format!("{} statements, {sum} reported", self.statements)));
        }
        Ok(())
    }
}
