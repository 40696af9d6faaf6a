//! Takes in what a reader of logs finds, and writes it row group by row group.
//!
//! The file has another name until it is complete, so that what has a trace's name is one.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::BufWriter;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use seatrial_sqltext::lexer::form::Parts;
use serde::Serialize;

use super::checkpoint;
use super::rows::{self, StatementRows};
use super::schema::{self, ROWS_MAX, TEXT_BYTES_MAX};
use super::{Counts, TraceError};
use crate::captured::{Session, SessionId, Sink, Statement};
use crate::mask::{Keep, Mask};

/// Who may read a trace: its owner.
pub(super) const OWNERS: u32 = 0o600;

/// Sessions that are delayed, so that most are written once although they change.
const SESSIONS_HELD_MAX: usize = 16 << 10;

/// Writes a trace.
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    part: PathBuf,
    file: Option<SerializedFileWriter<BufWriter<File>>>,
    mask: Option<Mask>,
    /// What of each form is not masked, by the form's number.
    keeps: Vec<Keep>,
    counts: Counts,
    sessions: Vec<(u32, Session)>,
    /// Where in `sessions` a session is.
    places: HashMap<u32, usize>,
    rows: StatementRows,
    parts: Parts,
    /// Whether the part has become the trace.
    is_whole: bool,
    /// Whether what was secured of it can be recovered.
    has_end: bool,
}

impl TraceWriter {
    /// Begins a trace. With a mask, literals and parameters are replaced as they come in.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, another process writes one of its name, or one was cut off
    /// that can be recovered.
    pub fn create(path: &Path, mask: Option<Mask>) -> Result<TraceWriter, TraceError> {
        let part = checkpoint::part_of(path);
        let io = |source| TraceError::Io { path: path.to_path_buf(), action: "made", source };
        let was_cut_off = checkpoint::was_cut_off(path);
        let file = make(&part).map_err(io)?;
        if !is_own(&file, &part) {
            return Err(TraceError::InUse { path: path.to_path_buf() });
        }
        if was_cut_off {
            return Err(TraceError::CutOff { path: path.to_path_buf() });
        }
        file.set_len(0).map_err(io)?;
        let file = BufWriter::new(file);
        let begun = schema::schema(schema::VERSION).and_then(|schema| {
            SerializedFileWriter::new(file, schema, Arc::new(schema::properties()?))
        });
        Ok(TraceWriter {
            path: path.to_path_buf(),
            part,
            file: Some(begun.map_err(|error| TraceError::writing(path, error))?),
            mask,
            keeps: Vec::new(),
            counts: Counts::default(),
            sessions: Vec::new(),
            places: HashMap::new(),
            rows: StatementRows::default(),
            parts: Parts::default(),
            is_whole: false,
            has_end: false,
        })
    }

    /// What was taken in so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Completes the trace; `origin` is what it was read from and how that adds up.
    ///
    /// # Errors
    ///
    /// When the file cannot be written, or the origin is no JSON.
    pub fn finish(mut self, origin: &impl Serialize) -> Result<Counts, TraceError> {
        let about = self.about(origin)?;
        self.write_statements()?;
        self.write_sessions()?;
        let Some(mut file) = self.file.take() else { return Ok(self.counts.clone()) };
        about.into_iter().for_each(|each| file.append_key_value_metadata(each));
        let written = file.into_inner().map_err(|error| TraceError::writing(&self.path, error))?;
        written
            .into_inner()
            .map_err(|error| error.into_error())
            .and_then(|file| file.sync_all())
            .and_then(|()| std::fs::rename(&self.part, &self.path))
            .map_err(|source| self.io("written", source))?;
        self.is_whole = true;
        if self.has_end {
            checkpoint::remove_end(&self.path);
        }
        Ok(self.counts.clone())
    }

    /// Makes sure that everything taken in so far can be made a trace even if this process dies:
    /// see [`checkpoint::recover`].
    ///
    /// # Errors
    ///
    /// When the file cannot be written, or the origin is no JSON.
    pub fn checkpoint(&mut self, origin: &impl Serialize) -> Result<(), TraceError> {
        if self.rows.is_empty() && self.sessions.is_empty() {
            return Ok(());
        }
        let about = self.about(origin)?;
        self.write_statements()?;
        self.write_sessions()?;
        let Some(file) = self.file.as_mut() else { return Ok(()) };
        let path = &self.path;
        let end = checkpoint::end_bytes(file.flushed_row_groups(), about)
            .map_err(|error| TraceError::writing(path, error))?;
        file.flush()
            .and_then(|()| file.inner().get_ref().sync_data())
            .and_then(|()| checkpoint::write_end(path, file.bytes_written() as u64, &end))
            .map_err(|source| self.io("written", source))?;
        self.has_end = true;
        Ok(())
    }

    fn about(&self, origin: &impl Serialize) -> Result<Vec<KeyValue>, TraceError> {
        let about = [
            (schema::VERSION_KEY, schema::VERSION.to_owned()),
            (schema::MASKED_KEY, self.mask.is_some().to_string()),
            (schema::COUNTS_KEY, serde_json::to_string(&self.counts)?),
            (schema::ORIGIN_KEY, serde_json::to_string(origin)?),
        ];
        Ok(about.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect())
    }

    fn io(&self, action: &'static str, source: std::io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), action, source }
    }

    fn write_statements(&mut self) -> Result<(), TraceError> {
        let Some(file) = self.file.as_mut().filter(|_| !self.rows.is_empty()) else {
            return Ok(());
        };
        let rows = &mut self.rows;
        let keeps_forms = file
            .next_row_group()
            .and_then(|mut group| rows.write(&mut group).and_then(|kept| close(group, kept)))
            .map_err(|error| TraceError::writing(&self.path, error))?;
        if !keeps_forms {
            self.keeps.clear();
        }
        Ok(())
    }

    fn write_sessions(&mut self) -> Result<(), TraceError> {
        let Some(file) = self.file.as_mut().filter(|_| !self.sessions.is_empty()) else {
            return Ok(());
        };
        file.next_row_group()
            .and_then(|mut group| {
                rows::write_sessions(&mut group, &self.sessions).and_then(|()| close(group, ()))
            })
            .map_err(|error| TraceError::writing(&self.path, error))?;
        self.sessions.clear();
        self.places.clear();
        Ok(())
    }

    fn hold(&mut self, id: u32, session: &Session) -> Result<(), TraceError> {
        if let Some(&place) = self.places.get(&id) {
            self.sessions[place].1.clone_from(session);
            return Ok(());
        }
        self.places.insert(id, self.sessions.len());
        self.sessions.push((id, session.clone()));
        if self.sessions.len() >= SESSIONS_HELD_MAX { self.write_sessions() } else { Ok(()) }
    }

    fn count(&mut self, statement: &Statement<'_>) {
        self.counts.statements += 1;
        match statement.skip {
            None => self.counts.executable += 1,
            Some(skip) => {
                let name = schema::skip_name(skip);
                if let Some(count) = self.counts.skipped.get_mut(name) {
                    *count += 1;
                } else {
                    self.counts.skipped.insert(name.to_owned(), 1);
                }
            }
        }
    }
}

fn close<T>(
    group: parquet::file::writer::SerializedRowGroupWriter<'_, BufWriter<File>>,
    value: T,
) -> Result<T, ParquetError> {
    group.close().map(|_| value)
}

impl Sink for TraceWriter {
    type Error = TraceError;

    fn session(&mut self, session: &Session) -> Result<(), TraceError> {
        let id = self.counts.sessions as u32;
        self.counts.sessions += 1;
        self.hold(id, session)
    }

    fn session_changed(&mut self, id: SessionId, session: &Session) -> Result<(), TraceError> {
        if u64::from(id.0) >= self.counts.sessions {
            return Err(TraceError::UnknownSession(id.0));
        }
        self.hold(id.0, session)
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), TraceError> {
        if u64::from(statement.session.0) >= self.counts.sessions {
            return Err(TraceError::UnknownSession(statement.session.0));
        }
        self.count(statement);
        let sql = statement.sql;
        self.parts.take_apart(sql);
        let (form, is_new) = self.rows.form(self.parts.form());
        let literals = self.parts.literals();
        if let Some(mask) = &self.mask {
            if is_new {
                self.keeps.push(Keep::of_form(self.parts.form()));
            }
            let keep = &self.keeps[form.index()];
            self.rows.push(
                statement,
                form,
                literals.enumerate(),
                |(index, range), bytes| mask.literal(&sql[range], keep.way(index), bytes),
                |parameter, bytes| mask.parameter(parameter, bytes),
            );
        } else {
            let append = |text: &[u8], bytes: &mut Vec<u8>| bytes.extend_from_slice(text);
            let literal = |range, bytes: &mut Vec<u8>| append(&sql[range], bytes);
            self.rows.push(statement, form, literals, literal, append);
        }
        if self.rows.len() >= ROWS_MAX || self.rows.text_bytes() >= TEXT_BYTES_MAX {
            self.write_statements()?;
        }
        Ok(())
    }
}

impl Drop for TraceWriter {
    /// What is not complete is no trace. What was secured of it stays, for
    /// [`checkpoint::recover`].
    fn drop(&mut self) {
        if !(self.is_whole || self.has_end) {
            // If it cannot be removed, nobody is left to report that to.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Makes the file of a trace, or opens the existing one; only its owner may read it, as it holds
/// what clients sent.
fn make(part: &Path) -> std::io::Result<File> {
    let mut wanted = OpenOptions::new();
    let file = wanted.write(true).create(true).truncate(false).mode(OWNERS).open(part)?;
    file.set_permissions(Permissions::from_mode(OWNERS))?;
    Ok(file)
}

/// Takes a file for this process alone; false where another one writes it, or has just completed
/// it.
pub(super) fn is_own(file: &File, path: &Path) -> bool {
    let locked = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    if locked == Err(rustix::io::Errno::WOULDBLOCK) {
        return false;
    }
    // A file system that knows no locks must do without.
    let number = |about: std::fs::Metadata| (about.dev(), about.ino());
    let (own, named) = (file.metadata().map(number), path.metadata().map(number));
    matches!((own, named), (Ok(own), Ok(named)) if own == named)
}
