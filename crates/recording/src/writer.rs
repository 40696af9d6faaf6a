//! Writes a recording: one file, or several of about one size.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::KeyValue;
use seatrial_columnar::{Durability, PieceWriter};

use crate::about::{About, Device, Lost};
use crate::columns;
use crate::error::RecordingError;
use crate::schema::{self, ROWS_MAX};
use crate::{Request, file_name};

/// The size of a finished recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingSummary {
    /// Requests in it.
    pub requests: u64,
    /// Size of its files.
    pub bytes: u64,
    /// How many files it has.
    pub files: u32,
}

/// Writes a recording.
#[derive(Debug)]
pub struct RecordingWriter {
    path: PathBuf,
    about: About,
    rotate_bytes: u64,
    file: PieceWriter,
    /// Requests of the row group that is not complete.
    rows: Vec<Request>,
    written: RecordingSummary,
    devices: HashMap<String, u32>,
    processes: HashMap<String, u32>,
    relations: HashMap<String, u32>,
}

impl RecordingWriter {
    /// Begins a recording. When a file has reached `rotate_bytes`, the next one is begun.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, another process writes one of its name, or one was cut off
    /// that can be recovered.
    pub fn create(
        path: &Path,
        about: About,
        rotate_bytes: u64,
    ) -> Result<RecordingWriter, RecordingError> {
        let seatrial_version = env!("CARGO_PKG_VERSION").to_owned();
        let about = About { seatrial_version, file: 0, is_last: true, is_complete: false, ..about };
        let index_by_name = |names: &mut dyn Iterator<Item = &String>| {
            names.cloned().zip(0..).collect::<HashMap<String, u32>>()
        };
        let mut writer = RecordingWriter {
            path: path.to_path_buf(),
            rotate_bytes,
            file: begun(path)?,
            rows: Vec::with_capacity(ROWS_MAX),
            written: RecordingSummary { requests: 0, bytes: 0, files: 1 },
            devices: index_by_name(&mut about.devices.iter().map(|device| &device.name)),
            processes: index_by_name(&mut about.processes.iter()),
            relations: index_by_name(&mut about.relations.iter()),
            about,
        };
        writer.secure()?;
        Ok(writer)
    }

    /// Returns the number of a device.
    pub fn device(&mut self, name: &str, size_bytes: Option<u64>) -> u32 {
        let device = |name| Device { name, size_bytes };
        number(&mut self.devices, &mut self.about.devices, name, device)
    }

    /// Returns the number of a process.
    pub fn process(&mut self, name: &str) -> u32 {
        number(&mut self.processes, &mut self.about.processes, name, |name| name)
    }

    /// Returns the number of a relation.
    pub fn relation(&mut self, name: &str) -> u32 {
        number(&mut self.relations, &mut self.about.relations, name, |name| name)
    }

    /// Adds a request.
    ///
    /// # Errors
    ///
    /// When the file cannot be written, or a number of the request stands for nothing.
    pub fn add(&mut self, request: Request) -> Result<(), RecordingError> {
        let about = &self.about;
        let is_named = |number: Option<u32>, names: &[String]| {
            number.is_none_or(|number| (number as usize) < names.len())
        };
        if request.device as usize >= about.devices.len()
            || !is_named(request.process, &about.processes)
            || !is_named(request.relation, &about.relations)
        {
            return Err(RecordingError::Request("a device, process or relation has no name"));
        }
        let numbers = [
            Some(request.arrived_ns),
            Some(request.offset_bytes),
            request.queue_ns,
            request.device_ns,
        ];
        if numbers.into_iter().flatten().any(|number| i64::try_from(number).is_err()) {
            return Err(RecordingError::Request("a time or an offset is beyond 2^63"));
        }
        self.rows.push(request);
        self.written.requests += 1;
        if self.rows.len() < ROWS_MAX {
            return Ok(());
        }
        self.write_rows()?;
        if self.file.written_bytes() >= self.rotate_bytes { self.rotate() } else { Ok(()) }
    }

    /// Makes sure that everything until now can be read even if this process dies.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn checkpoint(&mut self, length_ns: u64, lost: Lost) -> Result<(), RecordingError> {
        (self.about.length_ns, self.about.lost) = (length_ns, lost);
        let pending_bytes = self.secure()?;
        if self.file.written_bytes() + pending_bytes < self.rotate_bytes {
            return Ok(());
        }
        self.write_rows()?;
        self.rotate()
    }

    /// Completes the recording.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn finish(
        mut self,
        length_ns: u64,
        lost: Lost,
    ) -> Result<RecordingSummary, RecordingError> {
        (self.about.length_ns, self.about.lost) = (length_ns, lost);
        self.write_rows()?;
        let path = file_name(&self.path, self.about.file);
        self.about.is_complete = true;
        let about = self.about()?;
        self.written.bytes += self.file.written_bytes();
        self.file.finish(about).map_err(|error| RecordingError::of(&path, error))?;
        Ok(self.written)
    }

    /// Makes a checkpoint; returns the size of the row group that is not complete.
    fn secure(&mut self) -> Result<u64, RecordingError> {
        let about = self.about()?;
        self.rows.sort_by_key(|row| row.arrived_ns);
        let rows = &self.rows;
        let written = if rows.is_empty() {
            self.file.checkpoint(about).map(|()| 0)
        } else {
            self.file.checkpoint_with(about, |group| columns::write(group, rows))
        };
        written.map_err(|error| RecordingError::of(&file_name(&self.path, self.about.file), error))
    }

    fn write_rows(&mut self) -> Result<(), RecordingError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.rows.sort_by_key(|row| row.arrived_ns);
        let rows = &self.rows;
        self.file
            .write_group(|group| columns::write(group, rows))
            .map_err(|error| RecordingError::of(&file_name(&self.path, self.about.file), error))?;
        self.rows.clear();
        Ok(())
    }

    /// Begins the next file, and completes this one when that one can be recovered.
    fn rotate(&mut self) -> Result<(), RecordingError> {
        let path = file_name(&self.path, self.about.file);
        let next = begun(&file_name(&self.path, self.about.file + 1))?;
        let written = std::mem::replace(&mut self.file, next);
        self.about.is_last = false;
        self.about.is_complete = true;
        let about = self.about()?;
        self.about.is_last = true;
        self.about.is_complete = false;
        self.about.file += 1;
        self.secure()?;
        self.written.bytes += written.written_bytes();
        self.written.files += 1;
        written.finish(about).map_err(|error| RecordingError::of(&path, error))
    }

    fn about(&self) -> Result<Vec<KeyValue>, RecordingError> {
        Ok(vec![
            KeyValue::new(schema::VERSION_KEY.to_owned(), schema::VERSION.to_owned()),
            KeyValue::new(schema::ABOUT_KEY.to_owned(), serde_json::to_string(&self.about)?),
        ])
    }
}

fn begun(path: &Path) -> Result<PieceWriter, RecordingError> {
    let begun = || {
        let properties = Arc::new(schema::properties()?);
        PieceWriter::create(path, schema::schema()?, properties, Durability::Process)
    };
    begun().map_err(|error| RecordingError::of(path, error))
}

/// Returns the number of a name, which is appended to the list where it is new.
fn number<T>(
    index_by_name: &mut HashMap<String, u32>,
    list: &mut Vec<T>,
    name: &str,
    item: impl FnOnce(String) -> T,
) -> u32 {
    if let Some(&index) = index_by_name.get(name) {
        return index;
    }
    let index = list.len() as u32;
    list.push(item(name.to_owned()));
    index_by_name.insert(name.to_owned(), index);
    index
}
