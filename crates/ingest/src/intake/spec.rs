//! The specification of a reading, as Python passes it in JSON.

use std::path::PathBuf;
use std::thread;

use serde::Deserialize;

use super::IntakeError;
use crate::log::{Format, ReadOptions};

/// Files of one log at most; one is open at a time.
const LOGS_MAX: usize = 65_536;

/// Streams at most: a server takes no more sessions.
pub const SESSIONS_MAX: usize = 1_024;

/// Logs, and the trace that they become.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntakeSpec {
    /// Files in any order; `-` is standard input.
    pub logs: Vec<PathBuf>,
    /// The trace.
    pub output: PathBuf,
    /// `stderr`, `csv`, `json` or `raw`; by default detected from the content.
    #[serde(default)]
    pub format: Option<String>,
    /// The server's `log_line_prefix`; by default guessed.
    #[serde(default)]
    pub prefix: Option<String>,
    /// Streams that a log without sessions is split into, at most.
    #[serde(default)]
    pub sessions: Option<usize>,
    /// Whether literals and parameters are replaced.
    #[serde(default)]
    pub mask: bool,
    /// The server's own number for its data (`pg_controldata`), where it is known.
    #[serde(default)]
    pub system_identifier: Option<u64>,
    /// Threads that read; by default as many as there are processors.
    #[serde(default)]
    pub workers: Option<usize>,
    /// Whether the logs are read elsewhere, in parts (see [`crate::log::parts`]).
    #[serde(default)]
    pub in_parts: bool,
}

impl IntakeSpec {
    /// Reads and checks a specification.
    ///
    /// # Errors
    ///
    /// When it is not JSON of this form, or its values make no sense.
    pub fn parse(json: &str) -> Result<IntakeSpec, IntakeError> {
        let spec: IntakeSpec =
            serde_json::from_str(json).map_err(|error| IntakeError::Spec(error.to_string()))?;
        match spec.fault() {
            None => Ok(spec),
            Some(fault) => Err(IntakeError::Spec(fault)),
        }
    }

    fn fault(&self) -> Option<String> {
        let logs = self.logs.len();
        if logs == 0 || logs > LOGS_MAX {
            return Some(format!("{logs} files, where 1 to {LOGS_MAX} can be read"));
        }
        if let Some(name) = self.format.as_deref().filter(|name| format_named(name).is_none()) {
            return Some(format!("{name:?} is not a format"));
        }
        let streams = self.sessions.filter(|streams| !(1..=SESSIONS_MAX).contains(streams));
        streams.map(|streams| format!("{streams} streams, where 1 to {SESSIONS_MAX} can be made"))
    }

    /// Returns the options for the reader of logs.
    pub fn options(&self) -> ReadOptions {
        ReadOptions {
            paths: self.logs.clone(),
            format: self.format.as_deref().and_then(format_named),
            prefix: self.prefix.clone(),
            workers: self.workers.unwrap_or_else(|| {
                thread::available_parallelism().map_or(1, std::num::NonZero::get)
            }),
        }
    }
}

fn format_named(name: &str) -> Option<Format> {
    Format::ALL.into_iter().find(|format| format.name() == name)
}
