//! The prepared statements of a connection.
//!
//! What a session has parsed is known by its name, with a hash of its text: a trace may hold a
//! million of them. At most [`NAMES_MAX`] are kept on the server, those that were used last: logs
//! do not tell when a client closes one, and some clients never use a name twice.

use std::collections::HashMap;

use ahash::RandomState;
use seatrial_pgwire::answer::Tag;
use seatrial_pgwire::messages;
use seatrial_sqltext::lexer::class::Class;
use seatrial_sqltext::statements::deallocated;
use seatrial_trace::captured::Protocol;

use super::types;
use crate::item::Item;

/// Names that a session keeps; more than the caches of clients hold (pgjdbc 256, Rails 1,000).
pub const NAMES_MAX: usize = 1_024;

/// A prepared statement.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Hash of its text; None where the server's may be another, or none.
    text: Option<u64>,
    used: u64,
}

/// The prepared statements of one connection, and what the statement on its way does to them.
#[derive(Debug)]
pub struct Prepared {
    known: HashMap<Box<[u8]>, Known, RandomState>,
    uses: u64,
    /// The name that is on its way; empty for none.
    name: Vec<u8>,
    /// Hash of its text, where it is being parsed.
    parsing: Option<u64>,
    /// The only name that a DEALLOCATE on its way forgets.
    deallocated: Option<Vec<u8>>,
}

impl Default for Prepared {
    fn default() -> Prepared {
        // The same in every run: nobody chooses names and texts so that they collide here.
        let hashes = RandomState::with_seeds(1, 2, 3, 4);
        Prepared {
            known: HashMap::with_hasher(hashes),
            uses: 0,
            name: Vec::new(),
            parsing: None,
            deallocated: None,
        }
    }
}

impl Prepared {
    /// Notes what is on its way, and appends what has to come before its `Bind`.
    ///
    /// The statement without a name is parsed each time, as clients do that have no name for it
    /// (libpq, pgjdbc): a log does not tell whether it was.
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
        let text = self.known.hasher().hash_one(item.sql.as_slice());
        match self.known.get_mut(&*item.prepared) {
            Some(known) if known.text == Some(text) => {
                known.used = self.uses;
                return;
            }
            Some(_) => self.close(&item.prepared, out),
            None => self.make_room(out),
        }
        parse(item, out);
        self.parsing = Some(text);
    }

    /// The server has parsed what is on its way.
    pub fn parsed(&mut self) {
        if let Some(text) = self.parsing.take() {
            let known = Known { text: Some(text), used: self.uses };
            self.known.insert(self.name.as_slice().into(), known);
        }
    }

    /// A command was completed, by which statements may be forgotten.
    #[inline]
    pub fn completed(&mut self, tag: &Tag) {
        match tag.words() {
            b"DEALLOCATE ALL" | b"DISCARD ALL" => self.known.clear(),
            b"DEALLOCATE" => match self.deallocated.take() {
                Some(name) => drop(self.known.remove(&*name)),
                // One of several statements: any name may be meant.
                None => self.known.values_mut().for_each(|known| known.text = None),
            },
            _ => {}
        }
    }

    /// The statement on its way failed. Where the server's idea of its name is another than ours,
    /// or its result has changed its type, it is closed and parsed again the next time.
    pub fn failed(&mut self, sqlstate: [u8; 5]) {
        if matches!(&sqlstate, b"26000" | b"42P05" | b"0A000") && !self.name.is_empty() {
            let known = Known { text: None, used: self.uses };
            self.known.insert(self.name.as_slice().into(), known);
        }
    }

    /// Names that are kept.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.known.len()
    }

    fn make_room(&mut self, out: &mut Vec<u8>) {
        if self.known.len() < NAMES_MAX {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, known)| known.used);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.close(&name, out);
        }
    }

    fn close(&mut self, name: &[u8], out: &mut Vec<u8>) {
        self.known.remove(name);
        messages::close_statement(out, name);
    }
}

fn parse(item: &Item, out: &mut Vec<u8>) {
    let types = types::types(&item.sql, &item.parameters);
    messages::parse(out, &item.prepared, &item.sql, &types);
}
