//! Reads a recording, row group by row group.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use seatrial_columnar::cells::guarded;
use seatrial_columnar::names::{part_of, was_cut_off};
use seatrial_columnar::recovery::recover;

use crate::about::About;
use crate::columns::{self, Bounds, Columns};
use crate::error::RecordingError;
use crate::{file_name, schema};

/// A recording that is read: all its files, one after the other.
pub struct RecordingReader {
    files: Vec<PathBuf>,
    about: About,
    requests: u64,
    bytes: u64,
    next_file: usize,
    open: Option<OpenFile>,
}

struct OpenFile {
    path: PathBuf,
    file: SerializedFileReader<File>,
    next_group: usize,
}

impl RecordingReader {
    /// Opens a recording and reads what it says of itself. One that was cut off is completed.
    ///
    /// # Errors
    ///
    /// When it cannot be opened or completed, is not a recording of this version, or lacks a file.
    pub fn open(path: &Path) -> Result<RecordingReader, RecordingError> {
        let mut reader = RecordingReader {
            files: Vec::new(),
            about: About::default(),
            requests: 0,
            bytes: 0,
            next_file: 0,
            open: None,
        };
        loop {
            let name = file_name(path, reader.files.len() as u32);
            complete(&name)?;
            let (file, about) = open_file(&name)?;
            let metadata = file.metadata().file_metadata();
            reader.requests += u64::try_from(metadata.num_rows()).unwrap_or(0);
            reader.bytes += std::fs::metadata(&name).map_or(0, |metadata| metadata.len());
            let number = reader.files.len() as u32;
            if about.file != number {
                let reason = format!(
                    "it is file {} of a recording; name the first one, without a number",
                    about.file
                );
                return Err(RecordingError::NotARecording { path: name, reason });
            }
            let first = &reader.about;
            if number > 0
                && (about.began_at_ns, &about.source) != (first.began_at_ns, &first.source)
            {
                return Err(RecordingError::damaged(&name, "it is a file of another recording"));
            }
            reader.files.push(name);
            let is_last = about.is_last;
            reader.about = about;
            if is_last {
                return Ok(reader);
            }
        }
    }

    /// What it says of itself.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How many requests its files say that they have.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Size of its files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many files it has.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the requests of the next row group, by arrival; None at the end. Requests of a later
    /// row group may have arrived before, if they lasted long.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged.
    pub fn next_columns(&mut self) -> Result<Option<Columns>, RecordingError> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.files.get(self.next_file) else { return Ok(None) };
                let (file, _) = open_file(path)?;
                self.open = Some(OpenFile { path: path.clone(), file, next_group: 0 });
                self.next_file += 1;
            }
            let bounds = Bounds {
                devices: self.about.devices.len(),
                processes: self.about.processes.len(),
                relations: self.about.relations.len(),
            };
            let Some(open) = &mut self.open else { return Ok(None) };
            if open.next_group >= open.file.num_row_groups() {
                self.open = None;
                continue;
            }
            let number = open.next_group;
            open.next_group += 1;
            let file = &open.file;
            let read = guarded(|| columns::read(file.get_row_group(number)?.as_ref(), bounds));
            return read.map(Some).map_err(|error| RecordingError::damaged(&open.path, error));
        }
    }
}

/// Completes a file that was cut off.
fn complete(path: &Path) -> Result<(), RecordingError> {
    if was_cut_off(path) {
        return recover(path).map_err(|error| RecordingError::of(path, error));
    }
    if !path.exists() && part_of(path).exists() {
        return Err(RecordingError::InUse { path: path.to_path_buf() });
    }
    Ok(())
}

/// Opens one file, and reads what it says of itself.
fn open_file(path: &Path) -> Result<(SerializedFileReader<File>, About), RecordingError> {
    let io = |source| RecordingError::Io { path: path.to_path_buf(), action: "opened", source };
    let not = |reason: String| RecordingError::NotARecording { path: path.to_path_buf(), reason };
    let opened = File::open(path).map_err(io)?;
    let file =
        guarded(|| SerializedFileReader::new(opened)).map_err(|error| not(error.to_string()))?;
    let metadata = file.metadata().file_metadata();
    let value = |key: &str| {
        let found = metadata.key_value_metadata()?.iter().find(|pair| pair.key == key)?;
        found.value.clone()
    };
    let version = value(schema::VERSION_KEY)
        .ok_or_else(|| not(format!("it is a Parquet file without {}", schema::VERSION_KEY)))?;
    if version != schema::VERSION {
        return Err(RecordingError::Version { path: path.to_path_buf(), found: version });
    }
    let expected = schema::schema().map_err(|error| RecordingError::damaged(path, error))?;
    if metadata.schema() != expected.as_ref() {
        let reason = "its columns are not those of its version";
        return Err(RecordingError::damaged(path, reason));
    }
    let missing = || RecordingError::damaged(path, format!("{} is missing", schema::ABOUT_KEY));
    let about = serde_json::from_str(&value(schema::ABOUT_KEY).ok_or_else(missing)?)
        .map_err(|error| RecordingError::damaged(path, error))?;
    Ok((file, about))
}
