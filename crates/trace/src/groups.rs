//! Row groups, built by one thread or several, with the same result.
//!
//! The content of a row group is known before its rows are built (see [`Batch::is_full`]), and a
//! row group depends on nothing outside of it. Each thread gets every N-th, and they are returned
//! in order.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::schema::types::TypePtr;
use seatrial_columnar::{FileError, Group};
use seatrial_sqltext::lexer::form::Parts;

use crate::batch::Batch;
use crate::captured::{Session, Statement};
use crate::mask::{self, LiteralTreatments, Mask};
use crate::rows::{self, StatementRows};
use crate::schema;

/// Maximum threads: with more, the thread that fills them would be the bottleneck. Each buffers a
/// row group.
const THREADS_MAX: usize = 4;

/// The content of a row group.
#[derive(Debug)]
pub enum Content {
    Statements(Batch),
    /// Sessions, with their numbers.
    Sessions(Vec<(u32, Session)>),
}

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

    fn make(&mut self, content: &Content) -> Result<Group, FileError> {
        let (schema, properties) = (self.schema.clone(), self.properties.clone());
        match content {
            Content::Sessions(sessions) => {
                let built =
                    Group::write(schema, properties, |group| rows::write_sessions(group, sessions));
                Ok(built?.0)
            }
            Content::Statements(batch) => {
                batch.for_each(|statement| self.push(statement));
                let rows = &mut self.rows;
                let (group, keeps_forms) =
                    Group::write(schema, properties, |group| rows.write(group))?;
                if !keeps_forms {
                    self.form_treatments.clear();
                }
                Ok(group)
            }
        }
    }

    fn push(&mut self, statement: &Statement<'_>) {
        let sql = statement.sql;
        let is_opaque = self.mask.is_some() && mask::hides_text(sql, statement.error);
        if is_opaque {
            self.parts.take_whole(sql);
        } else {
            self.parts.take_apart(sql);
        }
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

/// Builds row groups, in the calling thread or in others.
#[derive(Debug)]
pub struct GroupBuilders {
    own: GroupBuilder,
    threads: Vec<(SyncSender<Content>, Receiver<BuiltGroup>)>,
    /// Row groups passed to threads, and those returned.
    handed: usize,
    taken: usize,
}

impl GroupBuilders {
    /// One that makes row groups here.
    ///
    /// # Errors
    ///
    /// Never, as a test shows; what is parsed is a constant.
    pub fn new(mask: Option<Mask>) -> Result<GroupBuilders, FileError> {
        Ok(GroupBuilders {
            own: GroupBuilder::new(mask)?,
            threads: Vec::new(),
            handed: 0,
            taken: 0,
        })
    }

    /// Starts threads, if there is use for them.
    ///
    /// # Errors
    ///
    /// When the system starts none.
    pub fn start(&mut self, threads: usize) -> Result<(), FileError> {
        let threads = if threads > 1 { threads.min(THREADS_MAX) } else { 0 };
        for _ in 0..threads {
            let mut builder = GroupBuilder::new(self.own.mask.clone())?;
            // A rendezvous and one that waits to be taken: each thread holds two at most.
            let (hand, contents) = sync_channel::<Content>(0);
            let (done, built) = sync_channel(1);
            let work = move || {
                for content in contents {
                    if done.send(builder.make(&content)).is_err() {
                        break;
                    }
                }
            };
            let started = thread::Builder::new().name("rows".into()).spawn(work);
            started.map_err(|source| FileError::Io { action: "written", source })?;
            self.threads.push((hand, built));
        }
        Ok(())
    }

    /// Makes a row group; returns the oldest that is not yet taken, once the threads have their
    /// hands full.
    ///
    /// # Errors
    ///
    /// When its columns are not those of the schema, or its thread is gone.
    pub fn make(&mut self, content: Content) -> Result<Option<Group>, FileError> {
        if self.threads.is_empty() {
            return self.own.make(&content).map(Some);
        }
        let oldest =
            if self.handed - self.taken == self.threads.len() { self.take()? } else { None };
        let (hand, _) = &self.threads[self.handed % self.threads.len()];
        hand.send(content).map_err(|_| gone())?;
        self.handed += 1;
        Ok(oldest)
    }

    /// Returns the oldest row group that is not yet taken; None once all are.
    ///
    /// # Errors
    ///
    /// As [`GroupBuilders::make`].
    pub fn take(&mut self) -> Result<Option<Group>, FileError> {
        if self.taken == self.handed {
            return Ok(None);
        }
        let (_, built) = &self.threads[self.taken % self.threads.len()];
        let group = built.recv().map_err(|_| gone())??;
        self.taken += 1;
        Ok(Some(group))
    }
}

fn gone() -> FileError {
    ParquetError::General("a thread that makes row groups has ended".to_owned()).into()
}
