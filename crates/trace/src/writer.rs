//! Writes sessions and statements row group by row group.
//!
//! The file has a temporary name until it is complete, so that a file with a trace's name is
//! complete.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::KeyValue;
use seatrial_columnar::{Durability, FileError, Group, PieceWriter};
use serde::Serialize;

use super::schema;
use super::{Counts, TraceError};
use crate::batch::Extent;
use crate::captured::{Session, SessionId, Sink, Statement};
use crate::groups::GroupBuilders;
use crate::mask::Mask;

/// Sessions that are delayed, so that most are written once although they change.
const SESSIONS_BUFFERED_MAX: usize = 16 << 10;

/// Writes a trace.
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    file: PieceWriter,
    is_masked: bool,
    counts: Counts,
    sessions: Vec<(u32, Session)>,
    /// Where in `sessions` a session is.
    indexes: HashMap<u32, usize>,
    /// The present row group's.
    extent: Extent,
    builders: GroupBuilders,
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
            is_masked: mask.is_some(),
            counts: Counts::default(),
            sessions: Vec::new(),
            indexes: HashMap::new(),
            extent: Extent::default(),
            builders: GroupBuilders::new(mask).map_err(of)?,
        })
    }

    /// Lets threads make the row groups, with the same outcome; one or none is this one.
    ///
    /// # Errors
    ///
    /// When the system starts none.
    pub fn on_threads(mut self, threads: usize) -> Result<TraceWriter, TraceError> {
        let started = self.builders.start(threads);
        self.of(started)?;
        Ok(self)
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
        self.write_all()?;
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
        if self.extent.is_empty() && self.sessions.is_empty() {
            return Ok(());
        }
        let about = self.about(origin)?;
        self.write_all()?;
        let checkpoint = self.file.checkpoint(about);
        self.of(checkpoint)
    }

    fn about(&self, origin: &impl Serialize) -> Result<Vec<KeyValue>, TraceError> {
        let about = [
            (schema::VERSION_KEY, schema::VERSION.to_owned()),
            (schema::MASKED_KEY, self.is_masked.to_string()),
            (schema::COUNTS_KEY, serde_json::to_string(&self.counts)?),
            (schema::ORIGIN_KEY, serde_json::to_string(origin)?),
        ];
        Ok(about.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect())
    }

    /// The result of what was done to the file.
    fn of<T>(&self, result: Result<T, FileError>) -> Result<T, TraceError> {
        result.map_err(|error| TraceError::of(&self.path, error))
    }

    fn write_all(&mut self) -> Result<(), TraceError> {
        self.write_statements()?;
        self.write_sessions()?;
        loop {
            let built = self.builders.take();
            let Some(group) = self.of(built)? else { return Ok(()) };
            self.write(Ok(Some(group)))?;
        }
    }

    fn write_statements(&mut self) -> Result<(), TraceError> {
        if self.extent.is_empty() {
            return Ok(());
        }
        self.extent = Extent::default();
        let built = self.builders.end();
        self.write(built)
    }

    fn write_sessions(&mut self) -> Result<(), TraceError> {
        if self.sessions.is_empty() {
            return Ok(());
        }
        self.indexes.clear();
        let built = self.builders.sessions(&self.sessions);
        self.sessions.clear();
        self.write(built)
    }

    fn write(&mut self, built: Result<Option<Group>, FileError>) -> Result<(), TraceError> {
        let Some(group) = self.of(built)? else { return Ok(()) };
        let appended = self.file.append(&group);
        self.of(appended)
    }

    fn hold(&mut self, id: u32, session: &Session) -> Result<(), TraceError> {
        if let Some(&index) = self.indexes.get(&id) {
            self.sessions[index].1.clone_from(session);
            return Ok(());
        }
        self.indexes.insert(id, self.sessions.len());
        self.sessions.push((id, session.clone()));
        if self.sessions.len() >= SESSIONS_BUFFERED_MAX { self.write_sessions() } else { Ok(()) }
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
        let extent = Extent::of(statement);
        let pushed = self.builders.push(statement, extent);
        self.of(pushed)?;
        self.extent = self.extent.plus(extent);
        if self.extent.fills_row_group() { self.write_statements() } else { Ok(()) }
    }
}
