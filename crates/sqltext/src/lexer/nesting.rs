//! Where a statement ends: the only place that distinguishes its semicolon from those within it.
//!
//! It follows psql (`psqlscan.l`): a semicolon counts outside of quotes, comments and parentheses
//! (rules hold statements in them), and of the body of a function in SQL's own syntax: BEGIN ATOMIC
//! ... END, in which CASE has an END too.

use super::token::{Kind, Token};

/// The open parentheses and blocks at a position of a text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nesting {
    parentheses: u32,
    blocks: u32,
    was_begin: bool,
}

impl Nesting {
    /// Passes the next token; whether it is the semicolon that ends its statement.
    #[inline]
    pub fn passes_end(&mut self, token: &Token<'_>) -> bool {
        let was_begin = std::mem::take(&mut self.was_begin);
        match token.kind {
            Kind::Space | Kind::Comment | Kind::CommentGap | Kind::Hint => {
                self.was_begin = was_begin;
            }
            Kind::Sign => match token.text {
                b"(" => self.parentheses += 1,
                b")" => self.parentheses = self.parentheses.saturating_sub(1),
                b";" => return self.parentheses == 0 && self.blocks == 0,
                _ => {}
            },
            Kind::Word if self.blocks > 0 && token.is_word("end") => self.blocks -= 1,
            Kind::Word if self.blocks > 0 && token.is_word("case") => self.blocks += 1,
            Kind::Word if was_begin && token.is_word("atomic") => self.blocks += 1,
            Kind::Word => self.was_begin = token.is_word("begin"),
            _ => {}
        }
        false
    }
}
