//! Row groups, made of statements and sessions by one thread or several, with the same outcome.
//!
//! What a row group holds is known before its rows are made (see [`Batch::is_full`]), and a row
//! group depends on nothing outside of it. Each thread gets every N-th, and they are taken back in
//! their order.

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
use crate::mask::{Keep, Mask};
use crate::rows::{self, StatementRows};
use crate::schema;

/// Threads beyond which the one that hands them statements would be behind. Each holds a row group.
const THREADS_MAX: usize = 4;

/// What a row group is made of.
#[derive(Debug)]
pub enum Content {
    /// Statements.
    Statements(Batch),
    /// Sessions, with their numbers.
    Sessions(Vec<(u32, Session)>),
}

/// Makes row groups.
#[derive(Debug)]
struct Maker {
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    mask: Option<Mask>,
    /// What of each form is not masked, by the form's number.
    keeps: Vec<Keep>,
    rows: StatementRows,
    parts: Parts,
}

impl Maker {
    fn new(mask: Option<Mask>) -> Result<Maker, FileError> {
        Ok(Maker {
            schema: schema::schema(schema::VERSION)?,
            properties: Arc::new(schema::properties()?),
            mask,
            keeps: Vec::new(),
            rows: StatementRows::default(),
            parts: Parts::default(),
        })
    }

    fn make(&mut self, content: &Content) -> Result<Group, FileError> {
        let (schema, properties) = (self.schema.clone(), self.properties.clone());
        match content {
            Content::Sessions(sessions) => {
                let made =
                    Group::write(schema, properties, |group| rows::write_sessions(group, sessions));
                Ok(made?.0)
            }
            Content::Statements(batch) => {
                batch.for_each(|statement| self.push(statement));
                let rows = &mut self.rows;
                let (group, keeps_forms) =
                    Group::write(schema, properties, |group| rows.write(group))?;
                if !keeps_forms {
                    self.keeps.clear();
                }
                Ok(group)
            }
        }
    }

    fn push(&mut self, statement: &Statement<'_>) {
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
                |(index, range), bytes| mask.literal(&sql[range], keep.treatment(index), bytes),
                |parameter, bytes| mask.parameter(parameter, bytes),
            );
        } else {
            let append = |text: &[u8], bytes: &mut Vec<u8>| bytes.extend_from_slice(text);
            let literal = |range, bytes: &mut Vec<u8>| append(&sql[range], bytes);
            self.rows.push(statement, form, literals, literal, append);
        }
    }
}

type Made = Result<Group, FileError>;

/// Makes row groups, here or in threads.
#[derive(Debug)]
pub struct Makers {
    own: Maker,
    threads: Vec<(SyncSender<Content>, Receiver<Made>)>,
    /// Row groups handed to threads, and those taken back.
    handed: usize,
    taken: usize,
}

impl Makers {
    /// One that makes row groups here.
    ///
    /// # Errors
    ///
    /// Never, as a test shows; what is parsed is a constant.
    pub fn new(mask: Option<Mask>) -> Result<Makers, FileError> {
        Ok(Makers { own: Maker::new(mask)?, threads: Vec::new(), handed: 0, taken: 0 })
    }

    /// Starts threads, if there is use for them.
    ///
    /// # Errors
    ///
    /// When the system starts none.
    pub fn start(&mut self, threads: usize) -> Result<(), FileError> {
        let threads = if threads > 1 { threads.min(THREADS_MAX) } else { 0 };
        for _ in 0..threads {
            let mut maker = Maker::new(self.own.mask.clone())?;
            // A rendezvous and one that waits to be taken: each thread holds two at most.
            let (hand, contents) = sync_channel::<Content>(0);
            let (done, made) = sync_channel(1);
            let work = move || {
                for content in contents {
                    if done.send(maker.make(&content)).is_err() {
                        break;
                    }
                }
            };
            let started = thread::Builder::new().name("rows".into()).spawn(work);
            started.map_err(|source| FileError::Io { action: "written", source })?;
            self.threads.push((hand, made));
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
    /// As [`Makers::make`].
    pub fn take(&mut self) -> Result<Option<Group>, FileError> {
        if self.taken == self.handed {
            return Ok(None);
        }
        let (_, made) = &self.threads[self.taken % self.threads.len()];
        let group = made.recv().map_err(|_| gone())??;
        self.taken += 1;
        Ok(Some(group))
    }
}

fn gone() -> FileError {
    ParquetError::General("a thread that makes row groups has ended".to_owned()).into()
}
