//! The prepared statements of a connection.
//!
//! What a session has parsed is identified by its name, with a hash of its text and its declared
//! types: a trace may contain a million of them. At most [`NAMES_MAX`], the last used, are kept on
//! the server: logs do not show when a client closes one, and some clients never reuse a name.

use std::collections::HashMap;

use ahash::RandomState;
use seatrial_pgwire::answer::Tag;
use seatrial_pgwire::messages;
use seatrial_sqltext::lexer::class::Class;
use seatrial_sqltext::statements::deallocated;
use seatrial_trace::captured::Protocol;

use super::types;
use crate::item::Item;

/// Maximum number of names in a session; more than the caches of clients (pgjdbc 256, Rails 1,000).
pub const NAMES_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug)]
struct PreparedStatement {
    /// Hash of its text and types; None if the server's may be another, or missing.
    text: Option<u64>,
    used: u64,
}

/// The prepared statements of one connection, and how the statement in progress changes them.
#[derive(Debug)]
pub struct Prepared {
    statements: HashMap<Box<[u8]>, PreparedStatement, RandomState>,
    uses: u64,
    /// The name in progress; empty for none.
    name: Vec<u8>,
    /// Hash of its text, if it is being parsed.
    parsing: Option<u64>,
    /// The only name that a DEALLOCATE in progress releases.
    deallocated: Option<Vec<u8>>,
}

impl Default for Prepared {
    fn default() -> Prepared {
        // The same in every run: names and texts are not chosen to collide here.
        let hashes = RandomState::with_seeds(1, 2, 3, 4);
        Prepared {
            statements: HashMap::with_hasher(hashes),
            uses: 0,
            name: Vec::new(),
            parsing: None,
            deallocated: None,
        }
    }
}

impl Prepared {
    /// Records the statement in progress, and appends what has to precede its `Bind`.
    ///
    /// The unnamed statement is parsed each time, as clients do without a name (libpq, pgjdbc): a
    /// log does not show whether it was.
    pub fn send(&mut self, item: &Item, out: &mut Vec<u8>) {
        self.name.clear();
        self.parsing = None;
        self.deallocated = None;
        if item.class == Class::Prepared && item.statements == 1 {
            self.deallocated = deallocated(&item.sql);
        }
        if item.protocol != Protocol::Extended {
            return;
        }
        if item.prepared.is_empty() {
            return parse(item, out);
        }
        self.name.extend_from_slice(&item.prepared);
        self.uses += 1;
        let text = self.statements.hasher().hash_one((&item.sql, &item.parameter_types));
        match self.statements.get_mut(&*item.prepared) {
            Some(statement) if statement.text == Some(text) => {
                statement.used = self.uses;
                return;
            }
            Some(_) => self.close(&item.prepared, out),
            None => self.make_room(out),
        }
        parse(item, out);
        self.parsing = Some(text);
    }

    /// The server has parsed the statement in progress.
    pub fn parsed(&mut self) {
        if let Some(text) = self.parsing.take() {
            let statement = PreparedStatement { text: Some(text), used: self.uses };
            self.statements.insert(self.name.as_slice().into(), statement);
        }
    }

    /// A command was completed, which may release statements.
    #[inline]
    pub fn completed(&mut self, tag: &Tag) {
        match tag.words() {
            b"DEALLOCATE ALL" | b"DISCARD ALL" => self.statements.clear(),
            b"DEALLOCATE" => match self.deallocated.take() {
                Some(name) => drop(self.statements.remove(&*name)),
                // One of several statements: any name may be meant.
                None => self.statements.values_mut().for_each(|statement| statement.text = None),
            },
            _ => {}
        }
    }

    /// The statement in progress failed. If the server's text of its name is another than ours, or
    /// its result type has changed, it is closed and parsed again the next time.
    pub fn failed(&mut self, sqlstate: [u8; 5]) {
        if matches!(&sqlstate, b"26000" | b"42P05" | b"0A000") && !self.name.is_empty() {
            let statement = PreparedStatement { text: None, used: self.uses };
            self.statements.insert(self.name.as_slice().into(), statement);
        }
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.statements.len()
    }

    fn make_room(&mut self, out: &mut Vec<u8>) {
        if self.statements.len() < NAMES_MAX {
            return;
        }
        let oldest = self.statements.iter().min_by_key(|(_, statement)| statement.used);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.close(&name, out);
        }
    }

    fn close(&mut self, name: &[u8], out: &mut Vec<u8>) {
        self.statements.remove(name);
        messages::close_statement(out, name);
    }
}

fn parse(item: &Item, out: &mut Vec<u8>) {
    let types = match &item.parameter_types {
        Some(declared) => types::declared(declared),
        None => types::types(&item.sql, &item.parameters),
    };
    messages::parse(out, &item.prepared, &item.sql, &types);
}
