//! Takes in what a reader of logs finds, and writes it row group by row group.
//!
//! The file has another name until it is complete, so that what has a trace's name is one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::KeyValue;
use seatrial_columnar::{Durability, FileError, PieceWriter};
use seatrial_sqltext::lexer::form::Parts;
use serde::Serialize;

use super::rows::{self, StatementRows};
use super::schema::{self, ROWS_MAX, TEXT_BYTES_MAX};
use super::{Counts, TraceError};
use crate::captured::{Session, SessionId, Sink, Statement};
use crate::mask::{Keep, Mask};

/// Sessions that are delayed, so that most are written once although they change.
const SESSIONS_HELD_MAX: usize = 16 << 10;

/// Writes a trace.
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    file: PieceWriter,
    mask: Option<Mask>,
    /// What of each form is not masked, by the form's number.
    keeps: Vec<Keep>,
    counts: Counts,
    sessions: Vec<(u32, Session)>,
    /// Where in `sessions` a session is.
    places: HashMap<u32, usize>,
    rows: StatementRows,
    parts: Parts,
}

impl TraceWriter {
    /// Begins a trace. With a mask, literals and parameters are replaced as they come in.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, another process writes one of its name, or one was cut off
    /// that can be recovered.
    pub fn create(path: &Path, mask: Option<Mask>) -> Result<TraceWriter, TraceError> {
        let of = |error| TraceError::of(path, error);
        let schema = schema::schema(schema::VERSION).map_err(|error| of(error.into()))?;
        let properties = schema::properties().map_err(|error| of(error.into()))?;
        let file = PieceWriter::create(path, schema, Arc::new(properties), Durability::Power);
        Ok(TraceWriter {
            path: path.to_path_buf(),
            file: file.map_err(of)?,
            mask,
            keeps: Vec::new(),
            counts: Counts::default(),
            sessions: Vec::new(),
            places: HashMap::new(),
            rows: StatementRows::default(),
            parts: Parts::default(),
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
        let TraceWriter { path, file, counts, .. } = self;
        file.finish(about).map_err(|error| TraceError::of(&path, error))?;
        Ok(counts)
    }

    /// Makes sure that everything taken in so far can be made a trace even if this process dies:
    /// see [`crate::checkpoint::recover`].
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
        let checkpoint = self.file.checkpoint(about);
        self.of(checkpoint)
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

    /// The result of what was done to the file.
    fn of<T>(&self, result: Result<T, FileError>) -> Result<T, TraceError> {
        result.map_err(|error| TraceError::of(&self.path, error))
    }

    fn write_statements(&mut self) -> Result<(), TraceError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = &mut self.rows;
        let written = self.file.write_group(|group| rows.write(group));
        if !self.of(written)? {
            self.keeps.clear();
        }
        Ok(())
    }

    fn write_sessions(&mut self) -> Result<(), TraceError> {
        if self.sessions.is_empty() {
            return Ok(());
        }
        let sessions = &self.sessions;
        let written = self.file.write_group(|group| rows::write_sessions(group, sessions));
        self.of(written)?;
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
