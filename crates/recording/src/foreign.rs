//! Traces of other programs in: each format is a file, and [`Foreign`] finds out which one it is.
//!
//! A trace is read twice: requests count their arrival from the first one, which is not the first
//! line of every trace. What a format does not know is unknown in its requests, and [`Knows`] says
//! so; what is left out is counted by reason.

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
pub use format::{Format, Knows};

use crate::request::Request;
use passes::Passes;
use row::Row;

/// What a trace is.
#[derive(Debug, Clone, PartialEq)]
pub struct Intake {
    /// The format.
    pub format: Format,
    /// What it knows of its requests.
    pub knows: Knows,
    /// How many files it has.
    pub files: usize,
    /// How many requests it has.
    pub requests: u64,
    /// From the first arrival to the last, or to the last completion where that is known.
    pub length_ns: u64,
    /// Unix time of the first arrival, where the trace knows it.
    pub began_unix_ns: Option<u64>,
    /// Names of the devices, at the places that requests refer to.
    pub devices: Vec<String>,
    /// Names of the processes likewise.
    pub processes: Vec<String>,
    /// What was left out: reason and count.
    pub left_out: Vec<(String, u64)>,
}

/// A trace of another program, of which every record is known to fit its format.
pub struct Foreign {
    passes: Passes,
    first_ns: u64,
    /// What it is.
    pub intake: Intake,
}

impl Foreign {
    /// Reads a trace, of a format or of the one that its beginning fits.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is in no known format, has a record that does not fit it, or
    /// holds no request.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Foreign, ForeignError> {
        let mut passes = Passes::open(path, format)?;
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
                place: "the last request".to_string(),
                problem: "its time is centuries after the first one".to_string(),
                format,
            });
        }
        let left_out = passes.left_out.counts().iter();
        let intake = Intake {
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
        Ok(Foreign { passes, first_ns, intake })
    }

    /// Hands over the requests in the order of the file, until the taker has enough.
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
        Some(name) => Some(processes.place(name)?),
        None => None,
    };
    let changed = || "the file has changed while it was read".to_string();
    let arrived_ns = row.at_ns.checked_sub(first_ns).ok_or_else(changed)?;
    Ok(Request {
        arrived_ns,
        device: devices.place(row.device)?,
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

/// More names than that are of no trace: the field is another one.
const NAMES_MAX: usize = 1 << 20;

/// Names at places, each once.
#[derive(Debug, Default)]
struct Names {
    names: Vec<String>,
    places: HashMap<Vec<u8>, u32>,
    last: Option<(Vec<u8>, u32)>,
}

impl Names {
    fn place(&mut self, name: &[u8]) -> Result<u32, String> {
        if let Some((last, place)) = &self.last {
            if last == name {
                return Ok(*place);
            }
        }
        let place = match self.places.get(name) {
            Some(&place) => place,
            None if self.names.len() >= NAMES_MAX => {
                return Err(format!("more than {NAMES_MAX} devices or processes"));
            }
            None => {
                let place = u32::try_from(self.names.len()).map_err(|error| error.to_string())?;
                self.names.push(String::from_utf8_lossy(name).into_owned());
                self.places.insert(name.to_vec(), place);
                place
            }
        };
        self.last = Some((name.to_vec(), place));
        Ok(place)
    }
}
