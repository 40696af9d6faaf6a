//! One line of the log:
//! `client_id transaction_no time script_no time_epoch time_us [schedule_lag] [retries]`.
//!
//! `time` is in us, or a word where the transaction was not completed: `skipped` (late by more
//! than `--latency-limit`), `failed`, or with `--failures-detailed` `serialization`, `deadlock`.

use super::spec::LogSpec;

/// Clients of one process; far more than any system has descriptors for.
const CLIENTS_MAX: u64 = 1 << 20;

/// Unix times that a measurement may bear: the years 2000 to 2100.
const EPOCH_S: std::ops::Range<u64> = 946_684_800..4_102_444_800;

/// No transaction lasts a year.
const TIME_US_MAX: u64 = 366 * 86_400 * 1_000_000;

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was completed.
    Completed {
        /// Time from the scheduled start where there is a schedule, else from the start.
        latency_us: u64,
        /// Time from the scheduled start to the start; 0 without a schedule.
        lag_us: u64,
    },
    /// It was so late that it was never started.
    Skipped,
    /// It was started and given up.
    Failed(FailureKind),
}

/// Why a transaction was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Unknown: the log is without details.
    Unreported,
    /// It could not be serialised.
    Serialization,
    /// It was the victim of a deadlock.
    Deadlock,
}

impl FailureKind {
    /// The word that pgbench uses.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Unreported => "failed",
            FailureKind::Serialization => "serialization",
            FailureKind::Deadlock => "deadlock",
        }
    }
}

/// One parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the client within its process.
    pub client: u32,
    /// Number of the script.
    pub script: u32,
    /// When the line was written: right after the transaction ended.
    pub end_unix_us: u64,
    /// Its outcome.
    pub ending: Ending,
    /// Number of retries.
    pub retries: u64,
}

impl Line {
    /// Intended start; the end if it was not completed, because the start is then unknown.
    pub fn start_unix_us(&self) -> u64 {
        match self.ending {
            Ending::Completed { latency_us, .. } => self.end_unix_us.saturating_sub(latency_us),
            Ending::Skipped | Ending::Failed(_) => self.end_unix_us,
        }
    }
}

/// Columns of a line that depend on how pgbench was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineFormat {
    has_lag: bool,
    has_retries: bool,
    columns: usize,
    scripts: u64,
}

impl LineFormat {
    /// The format of a sample's lines.
    pub fn of(spec: &LogSpec) -> LineFormat {
        LineFormat {
            has_lag: spec.has_lag,
            has_retries: spec.has_retries,
            columns: spec.columns(),
            scripts: spec.scripts.len() as u64,
        }
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    ///
    /// A phrase that names the error.
    #[inline]
    pub fn parse(&self, text: &[u8]) -> Result<Line, String> {
        self.read(text.strip_suffix(b"\r").unwrap_or(text)).ok_or_else(|| self.fault(text))
    }

    #[inline]
    fn read(&self, text: &[u8]) -> Option<Line> {
        let mut fields = Fields(text);
        let client = fields.number().filter(|&client| client < CLIENTS_MAX)?;
        fields.number()?;
        let time = fields.time()?;
        let script = fields.number().filter(|&script| script < self.scripts)?;
        let epoch_s = fields.number().filter(|epoch_s| EPOCH_S.contains(epoch_s))?;
        let part_us = fields.number().filter(|&part_us| part_us < 1_000_000)?;
        let lag_us = if self.has_lag { fields.number()? } else { 0 };
        let retries = if self.has_retries { fields.number()? } else { 0 };
        fields.is_at_end().then_some(())?;
        Some(Line {
            client: client as u32,
            script: script as u32,
            end_unix_us: epoch_s * 1_000_000 + part_us,
            ending: time.with_lag(lag_us)?,
            retries,
        })
    }

    /// Why a line could not be read.
    #[cold]
    fn fault(&self, text: &[u8]) -> String {
        let fields: Vec<&[u8]> = text.split(|&byte| byte == b' ').collect();
        if fields.len() != self.columns {
            return format!("{} columns, where this run's log has {}", fields.len(), self.columns);
        }
        let number = |column: usize| Fields(fields[column]).number();
        let not_a = |column: usize, expected: &str| {
            format!("{:?} in column {} is not a {expected}", lossy(fields[column]), column + 1)
        };
        let time = Fields(fields[2]).time();
        if time.is_none() {
            return not_a(2, "time in us, nor one of skipped, failed, serialization, deadlock");
        }
        if number(3).is_some_and(|script| script >= self.scripts) {
            return format!("script {}, where the run has {}", lossy(fields[3]), self.scripts);
        }
        if !number(4).is_some_and(|epoch_s| EPOCH_S.contains(&epoch_s)) {
            return not_a(4, "Unix time; logs with --aggregate-interval hold no transactions");
        }
        if self.has_lag && time.zip(number(6)).is_some_and(|(t, lag)| t.with_lag(lag).is_none()) {
            return "the schedule lag is longer than the whole transaction".to_owned();
        }
        let invalid = (0..fields.len()).find(|&column| column != 2 && number(column).is_none());
        invalid
            .map_or_else(|| "a number is out of range".to_owned(), |column| not_a(column, "number"))
    }
}

/// A text for a message.
pub fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// The column `time`, before the lag is known.
#[derive(Clone, Copy)]
enum TimeColumn {
    Us(u64),
    Skipped,
    Failed(FailureKind),
}

impl TimeColumn {
    /// `None` where the lag is longer than the time that holds it.
    #[inline]
    fn with_lag(self, lag_us: u64) -> Option<Ending> {
        match self {
            TimeColumn::Us(latency_us) if lag_us <= latency_us => {
                Some(Ending::Completed { latency_us, lag_us })
            }
            TimeColumn::Us(_) => None,
            TimeColumn::Skipped => Some(Ending::Skipped),
            TimeColumn::Failed(kind) => Some(Ending::Failed(kind)),
        }
    }
}

/// The remaining fields of a line, separated by single blanks.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// A whole number and the blank behind it.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut digits = 0;
        while let Some(digit) = self.0.get(digits).map(|byte| byte.wrapping_sub(b'0')) {
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            digits += 1;
        }
        // Nineteen digits never need more than 64 bits.
        if digits == 0 || digits > 19 {
            return None;
        }
        self.skip_field(digits)?;
        Some(value)
    }

    #[inline]
    fn time(&mut self) -> Option<TimeColumn> {
        if self.0.first().is_some_and(u8::is_ascii_digit) {
            return self.number().filter(|&us| us <= TIME_US_MAX).map(TimeColumn::Us);
        }
        let fields: [(&[u8], TimeColumn); 4] = [
            (b"skipped", TimeColumn::Skipped),
            (b"failed", TimeColumn::Failed(FailureKind::Unreported)),
            (b"serialization", TimeColumn::Failed(FailureKind::Serialization)),
            (b"deadlock", TimeColumn::Failed(FailureKind::Deadlock)),
        ];
        let (name, time) = fields.into_iter().find(|(name, _)| self.0.starts_with(name))?;
        self.skip_field(name.len())?;
        Some(time)
    }

    /// Skips a field and the blank behind it.
    #[inline]
    fn skip_field(&mut self, field_bytes: usize) -> Option<()> {
        let rest = &self.0[field_bytes..];
        self.0 = match rest.split_first() {
            None => rest,
            // A trailing blank would be an empty column.
            Some((b' ', [])) => return None,
            Some((b' ', rest)) => rest,
            Some(_) => return None,
        };
        Some(())
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}
