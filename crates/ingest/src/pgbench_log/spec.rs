//! The specification of a reading, as Python passes it in JSON.

use std::path::PathBuf;

use serde::Deserialize;

use super::LogError;

/// Files of one sample; all are open at once.
const FILES_MAX: usize = 4_096;

/// Scripts of one pgbench: `MAX_SCRIPTS` in pgbench.c.
const SCRIPTS_MAX: usize = 128;

/// Longest slice and stall threshold.
const MS_MAX: u64 = 3_600_000;

/// The logs of one sample.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSpec {
    /// Paths by process: one file for each of its threads.
    pub processes: Vec<Vec<PathBuf>>,
    /// Operation name of script 0, of script 1 and so on; names may recur.
    pub scripts: Vec<String>,
    /// Whether lines have a column of schedule lag (`--rate`).
    #[serde(default)]
    pub has_lag: bool,
    /// Whether lines have a column of retries (`--max-tries`).
    #[serde(default)]
    pub has_retries: bool,
    /// The sample's start; by default the intended start of the earliest transaction.
    #[serde(default)]
    pub start_unix_ns: Option<u64>,
    /// The sample's length; by default until the last transaction ended.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// Length of a timeline slice.
    pub slice_ms: u64,
    /// The shortest time without completions that counts as a stall.
    pub stall_threshold_ms: u64,
}

impl LogSpec {
    /// Reads and checks a specification.
    ///
    /// # Errors
    ///
    /// When it is not JSON of this form, or its values make no sense.
    pub fn parse(json: &str) -> Result<LogSpec, LogError> {
        let spec: LogSpec =
            serde_json::from_str(json).map_err(|error| LogError::Spec(error.to_string()))?;
        match spec.fault() {
            None => Ok(spec),
            Some(fault) => Err(LogError::Spec(fault)),
        }
    }

    fn fault(&self) -> Option<String> {
        let files = self.processes.iter().map(Vec::len).sum::<usize>();
        if files == 0 || files > FILES_MAX {
            return Some(format!("{files} files, where 1 to {FILES_MAX} can be read"));
        }
        let scripts = self.scripts.len();
        if scripts == 0 || scripts > SCRIPTS_MAX {
            return Some(format!("{scripts} scripts, where pgbench has 1 to {SCRIPTS_MAX}"));
        }
        if self.scripts.iter().any(String::is_empty) {
            return Some("a script without an operation name".to_owned());
        }
        let lengths =
            [("slice_ms", self.slice_ms), ("stall_threshold_ms", self.stall_threshold_ms)];
        let invalid = lengths.iter().find(|(_, length_ms)| !(1..=MS_MAX).contains(length_ms));
        invalid.map(|(name, length_ms)| format!("{name} is {length_ms}, not 1 to {MS_MAX}"))
    }

    /// The operation names without repetition, in the order of their first script.
    pub fn kind_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in &self.scripts {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Kind of each script: its index in [`LogSpec::kind_names`].
    pub fn kinds_by_script(&self) -> Vec<usize> {
        let names = self.kind_names();
        let kind_index = |script: &String| names.iter().position(|name| name == script);
        self.scripts.iter().filter_map(kind_index).collect()
    }

    /// Columns of a line.
    pub fn columns(&self) -> usize {
        6 + usize::from(self.has_lag) + usize::from(self.has_retries)
    }
}
