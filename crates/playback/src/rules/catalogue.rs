//! Commands that change the catalogue, and whether they concern temporary objects only.

use seatrial_sqltext::lexer::name::{name, unquoted};
use seatrial_sqltext::lexer::phrase::{passed, qualified};
use seatrial_sqltext::lexer::token::{Kind, Token};

use super::session_objects::ObjectChange;
use super::statement::StatementAnalysis;
use crate::item::UnsafeOperation;

/// Kinds of temporary objects with names.
const TEMPORARY: [&str; 4] = ["table", "view", "sequence", "index"];

pub fn create(analysis: &mut StatementAnalysis<'_>, tokens: &[Token<'_>]) {
    analysis.found.writes = true;
    let modifiers = ["or", "replace", "global", "local", "recursive"];
    let mut index = passed(tokens, 1, &modifiers);
    let is_temporary = tokens.get(index).is_some_and(is_temp);
    index = passed(tokens, index + usize::from(is_temporary), &["recursive", "unique"]);
    let rest = tokens.get(index..).unwrap_or_default();
    let Some(kind) = rest.first() else { return analysis.ddl() };
    if kind.is_word("index") {
        return create_index(analysis, rest);
    }
    let (made, behind) = qualified(rest, passed(rest, 1, &["if", "not", "exists"]));
    let is_in_pg_temp = made.len() == 2 && made[0] == b"pg_temp";
    let is_own = kind.is_one_of(&TEMPORARY) && (is_temporary || is_in_pg_temp);
    if is_own {
        let until_end = rest[behind..].windows(3).any(|three| {
            three[0].is_word("on") && three[1].is_word("commit") && three[2].is_word("drop")
        });
        analysis
            .effect(made.into_iter().last().map(|name| ObjectChange::Makes { name, until_end }));
        return;
    }
    analysis.ddl();
    reach(analysis, rest);
    for token in rest.iter().filter(|token| token.kind == Kind::Text) {
        analysis.body(&unquoted(token.text));
    }
}

/// `CREATE INDEX name ON table`: as temporary as its table. The name is not recorded: it is dropped
/// with the table, and may then be reused.
fn create_index(analysis: &mut StatementAnalysis<'_>, tokens: &[Token<'_>]) {
    let Some(on) = tokens.iter().position(|token| token.is_word("on")) else {
        return analysis.ddl();
    };
    let (table, _) = qualified(tokens, passed(tokens, on + 1, &["only"]));
    if !is_own(analysis, &table) {
        analysis.ddl();
    }
}

pub fn alter(analysis: &mut StatementAnalysis<'_>, tokens: &[Token<'_>]) {
    let Some(kind) = tokens.get(1) else { return analysis.ddl() };
    if kind.is_word("system") {
        analysis.found.writes = true;
        return analysis.found.operations.add(UnsafeOperation::Server);
    }
    if kind.is_one_of(&TEMPORARY) {
        let (altered, behind) = qualified(tokens, passed(tokens, 2, &["if", "exists", "only"]));
        // Under another name or in another schema it would be taken for something else.
        let is_moved = tokens[behind..].iter().any(|token| token.is_one_of(&["rename", "schema"]));
        if is_own(analysis, &altered) && !is_moved {
            analysis.found.writes = true;
            return;
        }
    }
    analysis.ddl();
    reach(analysis, &tokens[1..]);
}

pub fn drop(analysis: &mut StatementAnalysis<'_>, tokens: &[Token<'_>]) {
    let kind = tokens.get(1);
    let at = passed(tokens, 2, &["concurrently", "if", "exists"]);
    if kind.is_some_and(|kind| kind.is_one_of(&TEMPORARY)) {
        return all_of(analysis, tokens, at, true);
    }
    analysis.ddl();
    reach(analysis, tokens.get(1..).unwrap_or_default());
}

pub fn truncate(analysis: &mut StatementAnalysis<'_>, tokens: &[Token<'_>]) {
    all_of(analysis, tokens, passed(tokens, 1, &["table"]), false);
}

/// `SELECT ... INTO [TEMPORARY | UNLOGGED] [TABLE] name`.
pub fn select_into(analysis: &mut StatementAnalysis<'_>, tokens: &[Token<'_>]) {
    let mut depth = 0i64;
    let into = tokens.iter().position(|token| {
        depth += i64::from(token.is_sign("(")) - i64::from(token.is_sign(")"));
        depth <= 0 && token.is_word("into")
    });
    let Some(into) = into else { return };
    analysis.found.writes = true;
    let index = passed(tokens, into + 1, &["local", "global"]);
    let is_temporary = tokens.get(index).is_some_and(is_temp);
    let (made, _) = qualified(tokens, passed(tokens, index, &["temp", "temporary", "table"]));
    let made = made.into_iter().last().filter(|_| is_temporary);
    match made {
        Some(name) => analysis.effect(Some(ObjectChange::Makes { name, until_end: false })),
        None => analysis.ddl(),
    }
}

/// Checks all names from a position on: allowed if each is temporary.
fn all_of(
    analysis: &mut StatementAnalysis<'_>,
    tokens: &[Token<'_>],
    mut index: usize,
    drops: bool,
) {
    analysis.found.writes = true;
    loop {
        let (named, behind) = qualified(tokens, passed(tokens, index, &["only"]));
        let is_own = is_own(analysis, &named);
        let is_last = !tokens.get(behind).is_some_and(|token| token.is_sign(","));
        if drops {
            analysis.effect(named.into_iter().last().map(ObjectChange::Drops));
        }
        if !is_own {
            analysis.ddl();
        }
        if is_last {
            return;
        }
        index = behind + 1;
    }
}

/// Whether a name, with its schema, is certainly that of a temporary object.
fn is_own(analysis: &StatementAnalysis<'_>, name: &[Vec<u8>]) -> bool {
    match name {
        [name] => analysis.objects.is_temporary(name, analysis.transaction),
        [schema, _] => schema == b"pg_temp",
        _ => false,
    }
}

/// Checks for objects outside of the database: other servers, and what all databases of a server
/// share.
fn reach(analysis: &mut StatementAnalysis<'_>, kind: &[Token<'_>]) {
    let is =
        |index: usize, words: &[&str]| kind.get(index).is_some_and(|token| token.is_one_of(words));
    let is_mapping = is(0, &["user"]) && is(1, &["mapping"]);
    let is_extension = is(0, &["extension"])
        && kind
            .iter()
            .filter_map(name)
            .any(|name| name.starts_with(b"dblink") || name.ends_with(b"_fdw"));
    if is_mapping || is_extension || is(0, &["server", "foreign", "subscription"]) {
        analysis.found.operations.add(UnsafeOperation::Dblink);
    } else if is(0, &["role", "user", "group", "database", "tablespace"]) {
        analysis.found.operations.add(UnsafeOperation::Server);
    }
}

fn is_temp(token: &Token<'_>) -> bool {
    token.is_one_of(&["temp", "temporary"])
}
