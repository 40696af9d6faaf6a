//! Row groups, built by one thread or several, with the same result.
//!
//! Where a row group ends is known before its rows are built (see
//! [`crate::batch::Extent::fills_row_group`]), and a row group depends on nothing outside of it.
//! Each thread gets the batches of every N-th row group of statements; all are returned in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::schema::types::TypePtr;
use seatrial_columnar::{FileError, Group};
use seatrial_sqltext::lexer::form::Parts;

use crate::batch::{Batch, Extent};
use crate::captured::{Session, Statement, UNKNOWN_ERROR};
use crate::mask::{self, LiteralTreatments, Mask};
use crate::rows::{self, StatementRows};
use crate::schema;

/// Maximum threads: with more, the thread that fills them would be the bottleneck. Each buffers up
/// to two row groups.
const THREADS_MAX: usize = 4;

/// Builds row groups.
#[derive(Debug)]
struct GroupBuilder {
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    mask: Option<Mask>,
    /// By the form's number: the treatments of its literals.
    form_treatments: Vec<LiteralTreatments>,
    rows: StatementRows,
    parts: Parts,
}

impl GroupBuilder {
    fn new(mask: Option<Mask>) -> Result<GroupBuilder, FileError> {
        Ok(GroupBuilder {
            schema: schema::schema(schema::VERSION)?,
            properties: Arc::new(schema::properties()?),
            mask,
            form_treatments: Vec::new(),
            rows: StatementRows::default(),
            parts: Parts::default(),
        })
    }

    /// The row group of all statements since the last one.
    fn statements(&mut self) -> BuiltGroup {
        let (schema, properties) = (self.schema.clone(), self.properties.clone());
        let rows = &mut self.rows;
        let (group, keeps_forms) = Group::write(schema, properties, |group| rows.write(group))?;
        if !keeps_forms {
            self.form_treatments.clear();
        }
        Ok(group)
    }

    /// The row group of sessions, with their numbers.
    fn sessions(&self, sessions: &[(u32, Session)]) -> BuiltGroup {
        let (schema, properties) = (self.schema.clone(), self.properties.clone());
        Ok(Group::write(schema, properties, |group| rows::write_sessions(group, sessions))?.0)
    }

    fn push(&mut self, statement: &Statement<'_>) {
        let sql = statement.sql;
        self.parts.take_apart(sql);
        let hides_text = |code| mask::hides_text(self.parts.form(), code);
        let is_opaque =
            self.mask.is_some() && sql.len() >= 2 && statement.error.is_some_and(hides_text);
        if is_opaque {
            self.parts.take_whole(sql);
        }
        // Whatever was not understood of it, its replacement is a syntax error, and these come
        // first in a failed transaction too.
        let is_known = is_opaque && statement.error != Some(UNKNOWN_ERROR);
        let error = if is_known { Some(*b"42601") } else { statement.error };
        let statement = &Statement { error, ..*statement };
        let (form, is_new) = self.rows.form(self.parts.form());
        let literals = self.parts.literals();
        if let Some(mask) = &self.mask {
            if is_new {
                self.form_treatments.push(LiteralTreatments::of_form(self.parts.form()));
            }
            let treatments = &self.form_treatments[form.index()];
            self.rows.push(
                statement,
                form,
                literals.enumerate(),
                |(index, range), bytes| match is_opaque {
                    true => mask.text(&sql[range], bytes),
                    false => mask.literal(&sql[range], treatments.treatment(index), bytes),
                },
                |parameter, bytes| mask.parameter(parameter, bytes),
            );
        } else {
            let append = |text: &[u8], bytes: &mut Vec<u8>| bytes.extend_from_slice(text);
            let literal = |range, bytes: &mut Vec<u8>| append(&sql[range], bytes);
            self.rows.push(statement, form, literals, literal, append);
        }
    }
}

type BuiltGroup = Result<Group, FileError>;

/// A row group that is not yet returned.
#[derive(Debug)]
enum Pending {
    Built(Group),
    /// The thread of this index builds it.
    InThread(usize),
}

/// What a thread does next.
#[derive(Debug)]
enum Work {
    Append(Batch),
    /// All statements of the row group are appended.
    Build,
}

#[derive(Debug)]
struct BuilderThread {
    works: Sender<Work>,
    emptied: Receiver<Batch>,
    built: Receiver<BuiltGroup>,
}

impl BuilderThread {
    fn start(mut builder: GroupBuilder) -> std::io::Result<BuilderThread> {
        let (works, incoming) = channel();
        let (empty, emptied) = channel();
        let (done, built) = channel();
        let work = move || {
            for work in incoming {
                let is_wanted = match work {
                    Work::Append(mut batch) => {
                        batch.for_each(|statement| builder.push(statement));
                        batch.clear();
                        empty.send(batch).is_ok()
                    }
                    Work::Build => done.send(builder.statements()).is_ok(),
                };
                if !is_wanted {
                    break;
                }
            }
        };
        thread::Builder::new().name("rows".into()).spawn(work)?;
        Ok(BuilderThread { works, emptied, built })
    }
}

/// Builds row groups, in the calling thread or in others.
#[derive(Debug)]
pub struct GroupBuilders {
    own: GroupBuilder,
    threads: Vec<BuilderThread>,
    /// The last statements, which no thread has yet.
    batch: Batch,
    /// The thread of the present row group.
    present: usize,
    /// Oldest first; as many as threads at most.
    pending: VecDeque<Pending>,
}

impl GroupBuilders {
    /// One that builds row groups here.
    ///
    /// # Errors
    ///
    /// Never, as a test shows; what is parsed is a constant.
    pub fn new(mask: Option<Mask>) -> Result<GroupBuilders, FileError> {
        let own = GroupBuilder::new(mask)?;
        let (threads, batch, pending) = (Vec::new(), Batch::default(), VecDeque::new());
        Ok(GroupBuilders { own, threads, batch, present: 0, pending })
    }

    /// Starts threads, if there is use for them.
    ///
    /// # Errors
    ///
    /// When the system starts none.
    pub fn start(&mut self, threads: usize) -> Result<(), FileError> {
        let threads = if threads > 1 { threads.min(THREADS_MAX) } else { 0 };
        for _ in 0..threads {
            let started = BuilderThread::start(GroupBuilder::new(self.own.mask.clone())?);
            self.threads
                .push(started.map_err(|source| FileError::Io { action: "written", source })?);
        }
        Ok(())
    }

    /// Appends a statement to the present row group.
    ///
    /// # Errors
    ///
    /// When the thread is gone.
    pub fn push(&mut self, statement: &Statement<'_>, extent: Extent) -> Result<(), FileError> {
        if self.threads.is_empty() {
            self.own.push(statement);
            return Ok(());
        }
        self.batch.push(statement, extent);
        if self.batch.is_full() { self.pass_batch() } else { Ok(()) }
    }

    /// Passes the last statements to the present thread.
    fn pass_batch(&mut self) -> Result<(), FileError> {
        let thread = &self.threads[self.present];
        let emptied = thread.emptied.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, emptied);
        thread.works.send(Work::Append(batch)).map_err(|_| gone())
    }

    /// Ends the present row group; returns the oldest that is not yet returned, once the threads
    /// have their hands full.
    ///
    /// # Errors
    ///
    /// When its columns are not those of the schema, or its thread is gone.
    pub fn end(&mut self) -> Result<Option<Group>, FileError> {
        if self.threads.is_empty() {
            return self.own.statements().map(Some);
        }
        self.pass_batch()?;
        let thread = self.present;
        self.threads[thread].works.send(Work::Build).map_err(|_| gone())?;
        self.present = (thread + 1) % self.threads.len();
        self.queue(Pending::InThread(thread))
    }

    /// Builds a row group of sessions, with their numbers, before the present one; returns what
    /// [`GroupBuilders::end`] does.
    ///
    /// # Errors
    ///
    /// As [`GroupBuilders::end`].
    pub fn sessions(&mut self, sessions: &[(u32, Session)]) -> Result<Option<Group>, FileError> {
        let group = self.own.sessions(sessions)?;
        if self.threads.is_empty() { Ok(Some(group)) } else { self.queue(Pending::Built(group)) }
    }

    fn queue(&mut self, newest: Pending) -> Result<Option<Group>, FileError> {
        let is_full = self.pending.len() == self.threads.len();
        let oldest = if is_full { self.take()? } else { None };
        self.pending.push_back(newest);
        Ok(oldest)
    }

    /// Returns the oldest row group that is not yet returned; None once all are.
    ///
    /// # Errors
    ///
    /// As [`GroupBuilders::end`].
    pub fn take(&mut self) -> Result<Option<Group>, FileError> {
        match self.pending.pop_front() {
            None => Ok(None),
            Some(Pending::Built(group)) => Ok(Some(group)),
            Some(Pending::InThread(thread)) => {
                self.threads[thread].built.recv().map_err(|_| gone())?.map(Some)
            }
        }
    }
}

fn gone() -> FileError {
    ParquetError::General("a thread that builds row groups has ended".to_owned()).into()
}
