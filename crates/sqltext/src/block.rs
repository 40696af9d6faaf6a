//! Which transaction of its session a statement is in.
//!
//! Blocks are recognized by BEGIN, COMMIT and the like. The server's numbers (`%v`, else `%x`)
//! complete the texts: they show a block whose beginning or end is not in the log.

use super::statements::{Control, control, for_each_statement};

/// The block that a session is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    is_open: bool,
    /// Known from the server's numbers only: its beginning is not in the log, or it has none, like
    /// statements that a client sends in one message.
    is_implied: bool,
    /// Blocks of the session so far.
    count: u64,
    /// The server's number of this block; 0 while it is not known.
    server_number: u64,
    /// The server's number of the statement before, outside of any block.
    last_number: u64,
}

impl Block {
    /// Takes in a statement; returns the number of its block, 0 outside of any.
    ///
    /// `server_number` is that of its transaction, 0 if not in the log.
    #[inline]
    pub fn step(&mut self, sql: &[u8], server_number: u64, has_failed: bool) -> u64 {
        self.correct(server_number, sql);
        let was_open = self.is_open;
        let mut number = if was_open { self.count } else { 0 };
        for_each_statement(sql, |statement| match control(statement) {
            Control::None | Control::RollBackTo | Control::EndPrepared => {}
            Control::Begin => {
                // A BEGIN that failed, alone, has begun nothing.
                let is_refused = has_failed && statement.len() == sql.len();
                self.is_implied &= is_refused;
                if !(self.is_open || is_refused) {
                    self.open();
                    number = self.count;
                }
            }
            Control::End { is_chained, .. } => {
                if is_chained && self.is_open && !has_failed {
                    self.open();
                } else {
                    self.close();
                }
            }
        });
        if self.is_open && self.count == number && self.server_number == 0 {
            self.server_number = server_number;
        }
        self.last_number = if self.is_open { 0 } else { server_number };
        number
    }

    /// Notes that several statements without BEGIN were sent in one message: they are a
    /// transaction.
    pub fn imply(&mut self) {
        if !self.is_open {
            self.open();
            self.is_implied = true;
        }
    }

    /// Sets whether a block is open, where the server reports it.
    pub fn settle(&mut self, is_open: bool) {
        match (self.is_open, is_open) {
            (true, false) => self.close(),
            (false, true) => self.open(),
            _ => {}
        }
    }

    /// The number of the block that is open; 0 outside of any.
    pub fn number(&self) -> u64 {
        if self.is_open { self.count } else { 0 }
    }

    /// Whether a block is open.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the open block has no BEGIN: its statements were sent in one message.
    pub fn is_implied(&self) -> bool {
        self.is_open && self.is_implied
    }

    fn open(&mut self) {
        self.is_open = true;
        self.count += 1;
        self.is_implied = false;
        self.server_number = 0;
    }

    fn close(&mut self) {
        (self.is_open, self.server_number) = (false, 0);
    }

    /// A number other than the block's means that its end was not seen; the number of the previous
    /// statement, outside of any block, means that the beginning was not. A statement that was
    /// logged when it had ended has no number, nor has the one that ends a block.
    #[inline]
    fn correct(&mut self, server_number: u64, sql: &[u8]) {
        if server_number == 0 {
            let is_end = || matches!(control(sql), Control::End { .. });
            if self.is_open && self.is_implied && self.server_number != 0 && !is_end() {
                self.close();
            }
        } else if self.is_open {
            if self.server_number != 0 && self.server_number != server_number {
                self.close();
            }
        } else if self.last_number == server_number {
            self.open();
            self.is_implied = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of statements, each with the server's number of its transaction.
    fn numbers(statements: &[(&str, u64)]) -> Vec<u64> {
        let mut block = Block::default();
        let each = statements.iter();
        each.map(|(sql, number)| block.step(sql.as_bytes(), *number, false)).collect()
    }

    fn by_text(statements: &[&str]) -> Vec<u64> {
        numbers(&statements.iter().map(|&sql| (sql, 0)).collect::<Vec<_>>())
    }

    #[test]
    fn blocks_are_known_by_their_texts() {
        let texts = ["select 1", "begin;", "savepoint a", "rollback to a", "END", "select 2"];
        assert_eq!(by_text(&texts), [0, 1, 1, 1, 1, 0]);
        let texts = ["/* c */ start transaction read only", "prepare q as select 1", "abort"];
        assert_eq!(by_text(&texts), [1, 1, 1]);
        let texts = ["begin", "prepare transaction 'x'", "commit prepared 'x'", "begin", "commit"];
        assert_eq!(by_text(&texts), [1, 1, 0, 2, 2]);
        let texts = ["begin", "commit and chain", "rollback and no chain", "select 1"];
        assert_eq!(by_text(&texts), [1, 1, 2, 0]);
    }

    #[test]
    fn several_statements_in_one_text() {
        let texts = ["begin; insert into t values (';commit'); commit; ", "select 1"];
        assert_eq!(by_text(&texts), [1, 0]);
        assert_eq!(by_text(&["select 1; begin", "select 2", "commit; select 3"]), [1, 1, 1]);
    }

    #[test]
    fn the_servers_numbers_tell_of_what_is_not_in_the_log() {
        assert_eq!(numbers(&[("begin", 7), ("select 1", 7), ("select 2", 8)]), [1, 1, 0]);
        assert_eq!(numbers(&[("select 1", 7), ("select 2", 7), ("commit", 7)]), [0, 1, 1]);
        assert_eq!(numbers(&[("select 1", 0), ("select 2", 0)]), [0, 0]);
        let sent_in_one_go = [("select 1", 7), ("select 2", 7), ("select 3", 0), ("select 4", 8)];
        assert_eq!(numbers(&sent_in_one_go), [0, 1, 0, 0]);
        let logged_at_the_end = [("begin", 7), ("select 1", 7), ("commit", 0), ("select 2", 0)];
        assert_eq!(numbers(&logged_at_the_end), [1, 1, 1, 0]);
    }

    #[test]
    fn a_begin_that_failed_began_nothing() {
        let mut block = Block::default();
        assert_eq!(block.step(b"begin", 0, true), 0);
        assert_eq!(block.step(b"select 1", 0, false), 0);
    }
}
