//! Reads traces of other programs. Each format is a file; [`ForeignTrace`] detects it.
//!
//! A trace is read twice: requests count their arrival from the first one, which is not the first
//! line of every trace. [`KnownFields`] lists the fields that a format has; records that are left
//! out are counted by reason.

mod alibaba;
mod arc;
mod blktrace;
mod bytes;
mod error;
mod fields;
mod fio_iolog;
mod format;
mod input;
mod left_out;
mod lines;
mod msr;
mod oracle_general;
mod passes;
mod row;
mod spc;
mod tencent;
mod vscsi;
mod vscsi_text;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

pub use error::ForeignError;
pub use format::{Format, KnownFields};

use crate::request::Request;
use passes::TracePasses;
use row::Row;

/// The properties of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceInfo {
    /// The format.
    pub format: Format,
    /// The fields of its requests that it has.
    pub knows: KnownFields,
    /// Number of files.
    pub files: usize,
    /// Number of requests.
    pub requests: u64,
    /// From the first arrival to the last, or to the last completion where that is known.
    pub length_ns: u64,
    /// Unix time of the first arrival, if the trace has it.
    pub began_unix_ns: Option<u64>,
    /// Names of the devices, by the index that requests have.
    pub devices: Vec<String>,
    /// Names of the processes likewise.
    pub processes: Vec<String>,
    /// Records left out: reason and count.
    pub left_out: Vec<(String, u64)>,
}

/// A trace of another program, whose records all fit its format.
pub struct ForeignTrace {
    passes: TracePasses,
    first_ns: u64,
    /// Its properties.
    pub info: TraceInfo,
}

impl ForeignTrace {
    /// Reads a trace, of a format or of the one that its beginning fits.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is in no known format, has a record that does not fit it, or
    /// holds no request.
    pub fn open(path: &Path, format: Option<Format>) -> Result<ForeignTrace, ForeignError> {
        let mut passes = TracePasses::open(path, format)?;
        let format = passes.format;
        let mut span: Option<(u64, u64)> = None;
        let (mut devices, mut processes) = (Names::default(), Names::default());
        let mut requests = 0;
        passes.run(&mut |row| {
            let end_ns = row.at_ns + row.queue_ns.unwrap_or(0) + row.device_ns.unwrap_or(0);
            let (first, last) = span.unwrap_or((row.at_ns, end_ns));
            span = Some((first.min(row.at_ns), last.max(end_ns)));
            requests += 1;
            request_of(&row, 0, &mut devices, &mut processes).map(|_| ())
        })?;
        let empty = || ForeignError::Empty { path: path.into(), format };
        let (first_ns, last_ns) = span.ok_or_else(empty)?;
        if i64::try_from(last_ns - first_ns).is_err() {
            return Err(ForeignError::Record {
                path: path.into(),
                position: "the last request".to_string(),
                problem: "its time is centuries after the first one".to_string(),
                format,
            });
        }
        let left_out = passes.left_out.counts().iter();
        let info = TraceInfo {
            format,
            knows: passes.knows(),
            files: passes.files(),
            requests,
            length_ns: last_ns - first_ns,
            began_unix_ns: passes.unix_ns(first_ns),
            devices: devices.names,
            processes: processes.names,
            left_out: left_out.map(|&(reason, count)| (reason.to_string(), count)).collect(),
        };
        Ok(ForeignTrace { passes, first_ns, info })
    }

    /// Passes the requests to `taker` in the order of the file, until it breaks.
    ///
    /// # Errors
    ///
    /// If the file has changed, or cannot be read any longer.
    pub fn requests(
        &mut self,
        taker: &mut dyn FnMut(Request) -> ControlFlow<()>,
    ) -> Result<(), ForeignError> {
        let (mut devices, mut processes) = (Names::default(), Names::default());
        let first_ns = self.first_ns;
        let mut has_enough = false;
        self.passes.run(&mut |row| {
            if !has_enough {
                let request = request_of(&row, first_ns, &mut devices, &mut processes)?;
                has_enough = taker(request).is_break();
            }
            Ok(())
        })
    }
}

fn request_of(
    row: &Row<'_>,
    first_ns: u64,
    devices: &mut Names,
    processes: &mut Names,
) -> Result<Request, String> {
    let process = match row.process {
        Some(name) => Some(processes.index_of(name)?),
        None => None,
    };
    let changed = || "the file has changed while it was read".to_string();
    let arrived_ns = row.at_ns.checked_sub(first_ns).ok_or_else(changed)?;
    Ok(Request {
        arrived_ns,
        device: devices.index_of(row.device)?,
        operation: row.operation,
        is_sync: row.is_sync,
        has_failed: row.failed,
        offset_bytes: row.offset_bytes,
        length_bytes: u32::try_from(row.length_bytes).map_err(|error| error.to_string())?,
        queue_ns: row.queue_ns,
        device_ns: row.device_ns,
        process,
        relation: None,
    })
}

/// Limit of names; a trace with more is of another format.
const NAMES_MAX: usize = 1 << 20;

/// Distinct names and their indexes.
#[derive(Debug, Default)]
struct Names {
    names: Vec<String>,
    indexes: HashMap<Vec<u8>, u32>,
    last: Option<(Vec<u8>, u32)>,
}

impl Names {
    fn index_of(&mut self, name: &[u8]) -> Result<u32, String> {
        if let Some((last, index)) = &self.last {
            if last == name {
                return Ok(*index);
            }
        }
        let index = match self.indexes.get(name) {
            Some(&index) => index,
            None if self.names.len() >= NAMES_MAX => {
                return Err(format!("more than {NAMES_MAX} devices or processes"));
            }
            None => {
                let index = u32::try_from(self.names.len()).map_err(|error| error.to_string())?;
                self.names.push(String::from_utf8_lossy(name).into_owned());
                self.indexes.insert(name.to_vec(), index);
                index
            }
        };
        self.last = Some((name.to_vec(), index));
        Ok(index)
    }
}
