//! A text that is not understood, by the names in it: each may be a table that it reads.

use std::collections::BTreeSet;

use super::Only;
use super::known::Named;
use super::walk::Walk;
use crate::lexer::significant;
use crate::lexer::token::{Kind, Token};
use crate::table_access::{names, written};

pub use crate::lexer::name::name as folded;
use crate::lexer::name::unquoted;

/// Words in PL/pgSQL after which a text is run that is made at the time.
const RUNS_TEXT: [&str; 2] = ["execute", "copy"];

/// Words behind which a table is named.
const BEFORE_TABLE: [&str; 5] = ["from", "join", "into", "update", "table"];

/// Reads the body of a function that is no SQL as a whole, but has SQL in it.
pub fn read_body(walk: &mut Walk<'_, '_>, body: &[u8]) {
    let tokens = significant(body);
    if tokens.iter().any(|token| token.is_one_of(&RUNS_TEXT)) {
        walk.doubt();
    }
    read(walk, &tokens);
    draws(walk, &tokens);
}

/// Reads a statement.
pub fn read(walk: &mut Walk<'_, '_>, tokens: &[Token<'_>]) {
    let known = walk.known;
    let written = written(tokens);
    // TRUNCATE with RESTART IDENTITY sets sequences.
    let adds = tokens.iter().any(|token| token.is_one_of(&["into", "copy", "restart"]));
    let restarts = tokens.iter().any(|token| token.is_word("restart"));
    // In an order of their own, so that a text has one reading.
    for name in names(tokens).into_iter().collect::<BTreeSet<_>>() {
        let is_written = written.contains(&name);
        let name = String::from_utf8_lossy(&name);
        for named in known.everywhere(&name) {
            match named {
                Named::Table(table) if is_written => {
                    walk.changed_somehow(*table);
                    if adds {
                        walk.draws_somehow(*table);
                    }
                    if restarts {
                        walk.restarts(*table);
                    }
                }
                Named::Table(table) => walk.access(*table, false, Only::All, None),
                Named::View(view) if is_written => walk.change_view(*view, adds),
                Named::View(view) => {
                    walk.view(*view);
                }
                Named::Sequence(sequence) => walk.sequence(*sequence, is_written),
                Named::System | Named::Own | Named::Unknown => {}
            }
        }
    }
    calls(walk, tokens);
}

/// Tables that are named but unknown, in a statement that is not understood.
pub fn read_unknown(walk: &mut Walk<'_, '_>, tokens: &[Token<'_>]) {
    let named = tokens.windows(3).filter_map(|three| {
        let is_named = three[1].is_word("as") && three[2].is_sign("(");
        folded(&three[0]).filter(|_| is_named)
    });
    let named: BTreeSet<Vec<u8>> = named.collect();
    let is_silent = |token: &Token<'_>| token.is_one_of(&["only", "lateral", "if", "exists"]);
    let tokens: Vec<Token<'_>> = tokens.iter().filter(|token| !is_silent(token)).copied().collect();
    for two in tokens.windows(2).filter(|two| two[0].is_one_of(&BEFORE_TABLE)) {
        let Some(name) = folded(&two[1]).filter(|name| !named.contains(name)) else { continue };
        let name = String::from_utf8_lossy(&name).into_owned();
        let is_schema = walk.known.is_schema(&name) || name.starts_with("pg_");
        if !is_schema && walk.known.everywhere(&name).next().is_none() {
            walk.unknown.insert(name);
        }
    }
}

/// Functions: names with a parenthesis behind them.
fn calls(walk: &mut Walk<'_, '_>, tokens: &[Token<'_>]) {
    let called = tokens.windows(2).filter(|two| two[1].is_sign("("));
    for name in called.filter_map(|two| folded(&two[0])) {
        let name =
            super::known::Name { schema: None, name: String::from_utf8_lossy(&name).into_owned() };
        if !matches!(name.name.as_str(), "nextval" | "setval") {
            walk.call(&name, None);
        }
    }
}

/// Sequences that are drawn from, in a text that has its literals.
fn draws(walk: &mut Walk<'_, '_>, tokens: &[Token<'_>]) {
    for three in tokens.windows(3) {
        if !three[0].is_one_of(&["nextval", "setval"]) || !three[1].is_sign("(") {
            continue;
        }
        let is_text = three[2].kind == Kind::Text;
        let text = is_text.then(|| unquoted(three[2].text));
        let sequence = text.and_then(|text| walk.known.sequence(&text, walk.path));
        draws_from(walk, &three[0], sequence);
    }
}

/// A call of `nextval` or `setval` for a sequence, if that is known.
pub fn draws_from(walk: &mut Walk<'_, '_>, call: &Token<'_>, sequence: Option<usize>) {
    match sequence {
        Some(sequence) => walk.sequence(sequence, true),
        None => walk.doubt(),
    }
    if call.is_word("setval") {
        walk.sets_on(sequence);
    }
}
