//! The statements of a text, and their effects on the transaction.

use crate::lexer::commands;
use crate::lexer::name::name;
use crate::lexer::nesting::Nesting;
use crate::lexer::token::{Kind, Token, Tokens};
use crate::lexer::verb::Verb;

/// Words by which a text is recognised as SQL. Others may begin other texts as well: `end`, `move`,
/// `load` ...
const BEGINNINGS: [Verb; 36] = [
    Verb::Select,
    Verb::Insert,
    Verb::Update,
    Verb::Delete,
    Verb::Merge,
    Verb::With,
    Verb::Begin,
    Verb::Start,
    Verb::Commit,
    Verb::Rollback,
    Verb::Savepoint,
    Verb::Set,
    Verb::Reset,
    Verb::Create,
    Verb::Alter,
    Verb::Drop,
    Verb::Truncate,
    Verb::Copy,
    Verb::Prepare,
    Verb::Execute,
    Verb::Vacuum,
    Verb::Analyze,
    Verb::Explain,
    Verb::Grant,
    Verb::Revoke,
    Verb::Call,
    Verb::Do,
    Verb::Values,
    Verb::Lock,
    Verb::Comment,
    Verb::Declare,
    Verb::Fetch,
    Verb::Close,
    Verb::Show,
    Verb::Table,
    Verb::Discard,
];

/// Whether there is anything but blanks, comments and semicolons.
pub fn is_something(sql: &[u8]) -> bool {
    commands(sql).any(|token| !token.is_sign(";"))
}

/// Whether a text begins with a word that a statement begins with, or a bracket.
pub fn begins_statement(sql: &[u8]) -> bool {
    let begins = |verb| BEGINNINGS.contains(&verb);
    commands(sql)
        .next()
        .is_some_and(|token| token.is_sign("(") || Verb::of(&token).is_some_and(begins))
}

/// The end of the first statement, behind its semicolon; None if it is not in the text.
pub fn statement_end(sql: &[u8]) -> Option<usize> {
    let mut nesting = Nesting::default();
    let mut tokens = Tokens::of(sql);
    while let Some(token) = tokens.next() {
        if nesting.passes_end(&token) {
            return Some(tokens.position());
        }
    }
    None
}

/// Whether a text has `$1` or the like, so that it needs parameters.
#[inline]
pub fn has_parameters(sql: &[u8]) -> bool {
    memchr::memchr(b'$', sql).is_some()
        && Tokens::of(sql).any(|token| token.kind == Kind::Parameter)
}

/// The effect of a statement on its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Nothing.
    None,
    /// It begins a block.
    Begin,
    /// It ends one, and with `AND CHAIN` begins the next.
    End {
        /// Whether it is rolled back.
        is_undone: bool,
        /// Whether another begins.
        is_chained: bool,
    },
    /// It rolls back to a savepoint.
    RollBackTo,
    /// It ends a transaction that was prepared, perhaps by another session.
    EndPrepared,
}

/// Whether a text has more than one statement.
#[inline]
fn has_many(sql: &[u8]) -> bool {
    let text = sql.trim_ascii_end();
    memchr::memchr(b';', text).is_some_and(|at| at + 1 < text.len())
}

/// Calls with each statement of a text.
#[inline]
pub fn for_each_statement(sql: &[u8], mut each: impl FnMut(&[u8])) {
    if !has_many(sql) {
        return each(sql);
    }
    let mut at = 0;
    while at < sql.len() {
        let length = statement_end(&sql[at..]).unwrap_or(sql.len() - at);
        each(&sql[at..at + length]);
        at += length;
    }
}

/// Returns the effect of a single statement on its transaction.
#[inline]
pub fn control(sql: &[u8]) -> Control {
    // The first byte decides for most statements.
    let first = sql.iter().find(|byte| !byte.is_ascii_whitespace());
    match first.map(u8::to_ascii_uppercase) {
        Some(b'B' | b'S' | b'C' | b'E' | b'R' | b'A' | b'P' | b'-' | b'/') => {
            control_of(commands(sql))
        }
        _ => Control::None,
    }
}

/// Returns the control of a statement that is taken apart into [`commands`].
pub fn control_of<'a>(tokens: impl Iterator<Item = Token<'a>>) -> Control {
    let mut words = tokens.take_while(|token| token.kind == Kind::Word);
    let Some(verb) = words.next().and_then(|first| Verb::of(&first)) else { return Control::None };
    let mut second_is = |word: &str| words.next().is_some_and(|second| second.is_word(word));
    match verb {
        Verb::Begin => return Control::Begin,
        Verb::Start if second_is("TRANSACTION") => return Control::Begin,
        Verb::Prepare if second_is("TRANSACTION") => {
            return Control::End { is_undone: false, is_chained: false };
        }
        Verb::Commit | Verb::End | Verb::Rollback | Verb::Abort => {}
        _ => return Control::None,
    }
    let (mut is_chained, mut is_no) = (false, false);
    for word in words {
        if word.is_word("TO") {
            return Control::RollBackTo;
        }
        if word.is_word("PREPARED") {
            return Control::EndPrepared;
        }
        is_no |= word.is_word("NO");
        is_chained |= word.is_word("CHAIN");
    }
    let is_undone = matches!(verb, Verb::Rollback | Verb::Abort);
    Control::End { is_undone, is_chained: is_chained && !is_no }
}

/// Whether a statement takes data from the client: `COPY ... FROM STDIN`.
#[inline]
pub fn is_copy_in(sql: &[u8]) -> bool {
    let first = sql.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'C' | b'c' | b'-' | b'/')) && is_copy_in_words(sql)
}

fn is_copy_in_words(sql: &[u8]) -> bool {
    let mut tokens = commands(sql);
    if !tokens.next().is_some_and(|token| token.is_word("COPY")) {
        return false;
    }
    let (mut brackets, mut was_from) = (0usize, false);
    for token in tokens {
        if was_from {
            return token.is_word("STDIN");
        }
        match token.text {
            b"(" => brackets += 1,
            b")" => brackets = brackets.saturating_sub(1),
            _ => was_from = brackets == 0 && token.is_word("FROM"),
        }
    }
    false
}

/// Returns the name in a DEALLOCATE; None for ALL and for any other statement.
pub fn deallocated(sql: &[u8]) -> Option<Vec<u8>> {
    deallocated_of(commands(sql))
}

/// Returns the [`deallocated`] name of a statement that is taken apart into [`commands`].
pub fn deallocated_of<'a>(mut tokens: impl Iterator<Item = Token<'a>>) -> Option<Vec<u8>> {
    tokens.next().filter(|first| first.is_word("deallocate"))?;
    let mut last = tokens.next()?;
    // PREPARE is a word that may be left out, and a name as well.
    if last.is_word("prepare") {
        last = tokens.next().filter(|next| !next.is_sign(";")).unwrap_or(last);
    }
    if last.is_word("all") { None } else { name(&last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(sql: &str) -> Vec<String> {
        let mut statements = Vec::new();
        for_each_statement(sql.as_bytes(), |statement| {
            statements.push(String::from_utf8(statement.to_vec()).unwrap());
        });
        statements
    }

    #[test]
    fn statements_end_at_semicolons_of_their_own() {
        let quoted = "select ';', $$;$$, $a$ $$; $a$, \";\", E'\\';' -- ;\n/* ; /* ; */ ; */;";
        assert_eq!(statements(&format!("{quoted} select 2")), [quoted, " select 2"]);
        let rule = "create rule r as on insert to t do (select 1; select 2);";
        assert_eq!(statements(&format!("{rule}commit")), [rule, "commit"]);
        let routine = "create function f() returns int begin atomic select case when true then 1 \
                       end; select 2; end;";
        assert_eq!(
            statements(&format!("{routine}begin;select 3; end;")),
            [routine, "begin;", "select 3;", " end;"]
        );
        assert_eq!(statement_end(b"select 'x;"), None);
    }

    #[test]
    fn what_a_statement_does_to_its_transaction_is_known() {
        let ends = |is_undone, is_chained| Control::End { is_undone, is_chained };
        for (sql, expected) in [
            ("begin", Control::Begin),
            ("/* c */ START transaction", Control::Begin),
            ("start", Control::None),
            ("end work", ends(false, false)),
            ("commit and chain", ends(false, true)),
            ("abort and no chain", ends(true, false)),
            ("rollback", ends(true, false)),
            ("prepare transaction 'x'", ends(false, false)),
            ("prepare q as select 1", Control::None),
            ("ROLLBACK WORK TO SAVEPOINT a", Control::RollBackTo),
            ("rollback prepared 'x'", Control::EndPrepared),
            ("savepoint a", Control::None),
            ("\"commit\"", Control::None),
        ] {
            assert_eq!(control(sql.as_bytes()), expected, "{sql}");
        }
    }

    #[test]
    fn copy_from_the_client_is_known() {
        for sql in [
            "copy t from stdin",
            "COPY t (a, b) FROM STDIN WITH (format csv);",
            "copy \"from\" from stdin",
        ] {
            assert!(is_copy_in(sql.as_bytes()), "{sql}");
        }
        for sql in [
            "copy t to stdout",
            "copy t from 'stdin'",
            "copy (select 1 from stdin) to stdout",
            "create table copy (a int)",
        ] {
            assert!(!is_copy_in(sql.as_bytes()), "{sql}");
        }
    }

    #[test]
    fn parameters_are_those_outside_of_quotes() {
        assert!(has_parameters(b"select $1"));
        assert!(!has_parameters(b"select '$1', $$ $1 $$ -- $1"));
    }

    #[test]
    fn the_name_of_a_deallocate_is_found() {
        for (sql, name) in [
            ("DEALLOCATE s_1", Some("s_1")),
            ("/* c */ deallocate PREPARE S_1;", Some("s_1")),
            ("DEALLOCATE \"S_1\"", Some("S_1")),
            ("DEALLOCATE \"a\"\"b\"", Some("a\"b")),
            ("DEALLOCATE prepare", Some("prepare")),
            ("DEALLOCATE prepare ;", Some("prepare")),
            ("DEALLOCATE U&\"S_1\"", Some("S_1")),
            ("DEALLOCATE ALL", None),
            ("DEALLOCATE PREPARE ALL", None),
            ("DEALLOCATE", None),
            ("EXECUTE s_1", None),
        ] {
            assert_eq!(deallocated(sql.as_bytes()).as_deref(), name.map(str::as_bytes), "{sql}");
        }
    }
}
