//! The tables that a statement accesses, from its text only.
//!
//! Every name in a statement counts as read, columns and functions too: too many conflicts rather
//! than too few. Written tables are recognised by the syntax of the statements that change them.

use std::collections::HashSet;

use crate::lexer::name::name;
use crate::lexer::phrase::{passed, qualified};
use crate::lexer::significant;
use crate::lexer::token::{Kind, Token};
use crate::lexer::verb::Verb;

/// Statements that read, or write as [`written`] finds.
const UNDERSTOOD: [Verb; 12] = [
    Verb::Select,
    Verb::Insert,
    Verb::Update,
    Verb::Delete,
    Verb::Merge,
    Verb::With,
    Verb::Values,
    Verb::Table,
    Verb::Copy,
    Verb::Explain,
    Verb::Lock,
    Verb::Truncate,
];

/// Statements that access no table, or the rows of a cursor that was counted when it was declared.
const HARMLESS: [Verb; 13] = [
    Verb::Begin,
    Verb::Start,
    Verb::Commit,
    Verb::End,
    Verb::Rollback,
    Verb::Abort,
    Verb::Savepoint,
    Verb::Release,
    Verb::Show,
    Verb::Fetch,
    Verb::Move,
    Verb::Close,
    Verb::Notify,
];

/// Statements that create or change session state.
const OF_THE_SESSION: [Verb; 7] = [
    Verb::Set,
    Verb::Reset,
    Verb::Deallocate,
    Verb::Listen,
    Verb::Unlisten,
    Verb::Discard,
    Verb::Load,
];

/// Prefixes of functions that do so.
const FUNCTIONS_OF_THE_SESSION: [&str; 3] = ["pg_advisory_", "pg_try_advisory_", "set_config"];

/// Functions of sequences: drawing a number changes the next one.
const FUNCTIONS_OF_SEQUENCES: [&str; 2] = ["nextval", "setval"];

/// The tables that statements access together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableAccess {
    /// Names in them: tables that may be read, and all other names.
    pub reads: HashSet<Vec<u8>>,
    /// Tables that are written or locked.
    pub writes: HashSet<Vec<u8>>,
    /// One is not understood, so it may access anything.
    pub everything: bool,
    /// One creates or needs session state, so it must be in the first stream.
    pub is_pinned: bool,
}

impl TableAccess {
    /// Adds another statement of the same transaction.
    pub fn add(&mut self, other: TableAccess) {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.everything |= other.everything;
        self.is_pinned |= other.is_pinned;
    }
}

/// Names that exist in one session only, according to the log so far: temporary tables, prepared
/// statements, cursors that outlive their transaction. For a log without sessions, so it does not
/// know which session that is ([`crate::reading::SessionNames`] does).
#[derive(Debug, Default)]
pub struct SessionLocalNames {
    own: HashSet<Vec<u8>>,
}

impl SessionLocalNames {
    /// The accesses of a statement.
    pub fn of(&mut self, sql: &[u8]) -> TableAccess {
        let tokens = significant(sql);
        let mut table_access = table_access(&tokens);
        if table_access.is_pinned {
            self.own.extend(own_name(&tokens));
        }
        table_access.is_pinned |= table_access.reads.iter().any(|name| self.own.contains(name));
        table_access
    }
}

fn table_access(tokens: &[Token<'_>]) -> TableAccess {
    let mut table_access = TableAccess { reads: names(tokens), ..TableAccess::default() };
    if begins(tokens, &UNDERSTOOD) {
        table_access.writes = written(tokens);
        table_access.everything = makes_table(tokens);
    } else if begins(tokens, &[Verb::Declare, Verb::Create]) && is_own(tokens) {
        table_access.is_pinned = true;
    } else if begins(tokens, &[Verb::Declare]) || ends_with_transaction(tokens) {
        // What it declares or sets ends with the transaction that it is in.
    } else if begins(tokens, &OF_THE_SESSION) {
        table_access.is_pinned = true;
    } else if begins(tokens, &[Verb::Prepare, Verb::Execute]) {
        (table_access.is_pinned, table_access.everything) = (true, true);
    } else if !begins(tokens, &HARMLESS) || second(tokens, &["PREPARED"]) {
        table_access.everything = !table_access.reads.is_empty();
    }
    let calls = |functions: &[&str]| {
        let is_one =
            |name: &Vec<u8>| functions.iter().any(|call| name.starts_with(call.as_bytes()));
        table_access.reads.iter().any(is_one)
    };
    let (of_session, of_sequence) =
        (calls(&FUNCTIONS_OF_THE_SESSION), calls(&FUNCTIONS_OF_SEQUENCES));
    table_access.is_pinned |= of_session;
    if of_sequence {
        table_access.writes.extend(FUNCTIONS_OF_SEQUENCES.map(|name| name.as_bytes().to_vec()));
    }
    table_access
}

/// All names in a statement.
pub fn names(tokens: &[Token<'_>]) -> HashSet<Vec<u8>> {
    tokens.iter().filter_map(name).collect()
}

/// The tables that a statement changes or locks rows of.
pub fn written(tokens: &[Token<'_>]) -> HashSet<Vec<u8>> {
    if (0..tokens.len()).any(|index| locks_tables(tokens, index)) || locks_rows(tokens) {
        return names(tokens);
    }
    let mut tables = HashSet::new();
    for index in 0..tokens.len() {
        if changes_next(tokens, index) {
            tables.extend(name_at(tokens, index + 1));
        }
    }
    tables
}

/// Whether a LOCK or TRUNCATE begins at an index: it is the first word, or one of a body.
fn locks_tables(tokens: &[Token<'_>], index: usize) -> bool {
    const BEFORE: [&str; 5] = ["BEGIN", "THEN", "ELSE", "LOOP", "ATOMIC"];
    tokens[index].is_one_of(&["LOCK", "TRUNCATE"])
        && index.checked_sub(1).is_none_or(|before| {
            let before = tokens[before];
            before.is_sign(";") || before.is_one_of(&BEFORE) || before.text.ends_with(b">>")
        })
}

/// Whether the name of a changed table follows a word.
fn changes_next(tokens: &[Token<'_>], index: usize) -> bool {
    let before = |words: &[&str]| index > 0 && tokens[index - 1].is_one_of(words);
    let word = tokens[index];
    if word.is_one_of(&["UPDATE"]) {
        // FOR UPDATE and KEY UPDATE lock rows; ON CONFLICT DO UPDATE and a MERGE's THEN UPDATE
        // name no table again, as IF .. THEN UPDATE and the DO of a rule do.
        let names_none = tokens.get(index + 1).is_some_and(|next| next.is_word("set"));
        let is_other = before(&["FOR", "KEY"]) || before(&["DO", "THEN"]) && names_none;
        return !is_other;
    }
    (word.is_one_of(&["INTO"]) && before(&["INSERT", "MERGE"]))
        || (word.is_one_of(&["FROM"]) && before(&["DELETE"]))
        || (word.is_one_of(&["COPY"]) && index == 0)
}

/// `SELECT ... INTO name` makes a table.
fn makes_table(tokens: &[Token<'_>]) -> bool {
    let pairs = tokens.windows(2);
    begins(tokens, &[Verb::Select, Verb::With])
        && pairs
            .into_iter()
            .any(|two| two[1].is_one_of(&["INTO"]) && !two[0].is_one_of(&["INSERT", "MERGE"]))
}

/// `FOR UPDATE`, `FOR NO KEY UPDATE`, `FOR SHARE`, `FOR KEY SHARE`.
fn locks_rows(tokens: &[Token<'_>]) -> bool {
    let mut pairs = tokens.windows(2);
    pairs.any(|two| {
        two[0].is_one_of(&["FOR"]) && two[1].is_one_of(&["UPDATE", "NO", "SHARE", "KEY"])
    })
}

/// A temporary object, or a cursor WITH HOLD.
fn is_own(tokens: &[Token<'_>]) -> bool {
    if begins(tokens, &[Verb::Declare]) {
        return tokens
            .windows(2)
            .any(|two| two[0].is_one_of(&["WITH"]) && two[1].is_one_of(&["HOLD"]));
    }
    tokens.iter().skip(1).take(4).any(|token| token.is_one_of(&["TEMP", "TEMPORARY"]))
}

fn ends_with_transaction(tokens: &[Token<'_>]) -> bool {
    begins(tokens, &[Verb::Set]) && second(tokens, &["LOCAL", "TRANSACTION", "CONSTRAINTS"])
}

/// The name of the session state that a statement creates.
fn own_name(tokens: &[Token<'_>]) -> Option<Vec<u8>> {
    if begins(tokens, &[Verb::Prepare, Verb::Declare]) {
        return name_at(tokens, 1);
    }
    if !begins(tokens, &[Verb::Create]) {
        return None;
    }
    let kind = tokens.iter().position(|token| token.is_one_of(&["TABLE", "VIEW", "SEQUENCE"]))?;
    name_at(tokens, passed(tokens, kind + 1, &["if", "not", "exists"]))
}

/// The last part of the name at an index, behind ONLY.
fn name_at(tokens: &[Token<'_>], index: usize) -> Option<Vec<u8>> {
    qualified(tokens, passed(tokens, index, &["only"])).0.pop()
}

fn begins(tokens: &[Token<'_>], verbs: &[Verb]) -> bool {
    let first = tokens.iter().find(|token| token.kind == Kind::Word);
    first.and_then(Verb::of).is_some_and(|verb| verbs.contains(&verb))
}

fn second(tokens: &[Token<'_>], words: &[&str]) -> bool {
    tokens.get(1).is_some_and(|token| token.is_one_of(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_seen_wherever_sql_has_them() {
        let writes = |sql: &str| {
            let table_access = SessionLocalNames::default().of(sql.as_bytes());
            assert!(!table_access.everything, "{sql}");
            let mut found: Vec<_> = table_access
                .writes
                .iter()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect();
            found.sort();
            found
        };
        assert_eq!(writes("INSERT INTO a (x) SELECT x FROM b"), ["a"]);
        assert_eq!(
            writes("insert into Public.A values (1) on conflict do update set x = 2"),
            ["a"]
        );
        assert_eq!(writes("UPDATE ONLY \"Weird Name\" SET x = 1"), ["Weird Name"]);
        assert_eq!(
            writes("WITH x AS (DELETE FROM a RETURNING *) INSERT INTO s.b SELECT * FROM x"),
            ["a", "b"]
        );
        assert_eq!(
            writes("MERGE INTO a USING b ON true WHEN MATCHED THEN UPDATE SET x = 1"),
            ["a"]
        );
        assert_eq!(writes("COPY a (x, y) FROM STDIN"), ["a"]);
        assert_eq!(
            writes("/* UPDATE c */ SELECT 'DELETE FROM d', $$INSERT INTO e$$ FROM a -- UPDATE f"),
            [""; 0]
        );
        assert!(
            writes("SELECT * FROM a JOIN b USING (x) FOR NO KEY UPDATE").contains(&"b".to_owned())
        );
        assert!(writes("TRUNCATE a, b").contains(&"b".to_owned()));
        assert_eq!(writes("SELECT nextval('s')"), ["nextval", "setval"]);
        assert_eq!(writes("BEGIN"), [""; 0]);
        assert_eq!(writes("UPDATE \"a\"\"b\" SET n = 1"), ["a\"b"], "a quote within a name is one");
        assert_eq!(writes("UPDATE \"Ab\" SET n = 1"), ["Ab"]);
    }

    #[test]
    fn writes_are_seen_in_bodies_and_rules() {
        let writes = |body: &str| {
            let mut found: Vec<_> = written(&significant(body.as_bytes()))
                .into_iter()
                .map(|name| String::from_utf8_lossy(&name).into_owned())
                .collect();
            found.sort();
            found
        };
        assert_eq!(writes("BEGIN IF x THEN UPDATE a SET n = 1; END IF; END"), ["a"]);
        let rule = "CREATE RULE r AS ON UPDATE TO a DO UPDATE b SET n = 1";
        assert!(writes(rule).contains(&"b".to_owned()));
        assert!(writes("BEGIN SELECT 1; TRUNCATE a; END").contains(&"a".to_owned()));
        assert!(writes("BEGIN LOCK TABLE a; END").contains(&"a".to_owned()));
        assert_eq!(writes("SELECT lock, truncate FROM a"), [""; 0]);
    }

    #[test]
    fn what_may_touch_anything_is_known() {
        let of = |sql: &str| SessionLocalNames::default().of(sql.as_bytes());
        for sql in [
            "CREATE TABLE a (x int)",
            "CALL p()",
            "DO $$ $$",
            "SELECT 1 INTO a",
            "COMMIT PREPARED 'x'",
        ] {
            assert!(of(sql).everything, "{sql}");
        }
        for sql in
            ["", ";", "COMMIT", "SET LOCAL a = 1", "SAVEPOINT a", "FETCH 1 FROM c", "SET x = 1"]
        {
            assert!(!of(sql).everything, "{sql}");
        }
        assert!(of("SET x = 1").is_pinned && !of("SET LOCAL x = 1").is_pinned);
    }
}
