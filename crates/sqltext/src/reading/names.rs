//! Texts that are not understood, by the names in them: each may be a table that is read.

use std::collections::BTreeSet;

use super::RowAspect;
use super::analyzer::StatementAnalyzer;
use super::lookup::NamedObject;
use crate::lexer::significant;
use crate::lexer::token::{Kind, Token};
use crate::table_access::{names, written};

pub use crate::lexer::name::name as folded;
use crate::lexer::name::unquoted;

/// Words in PL/pgSQL before a dynamic statement.
const RUNS_TEXT: [&str; 2] = ["execute", "copy"];

/// Words before the name of a table.
const BEFORE_TABLE: [&str; 5] = ["from", "join", "into", "update", "table"];

/// Reads the body of a function in another language that contains SQL.
pub fn read_body(analyzer: &mut StatementAnalyzer<'_, '_>, body: &[u8]) {
    let tokens = significant(body);
    if tokens.iter().any(|token| token.is_one_of(&RUNS_TEXT)) {
        analyzer.mark_unknown();
    }
    read(analyzer, &tokens);
    draws(analyzer, &tokens);
}

/// Reads a statement.
pub fn read(analyzer: &mut StatementAnalyzer<'_, '_>, tokens: &[Token<'_>]) {
    let lookup = analyzer.lookup;
    let written = written(tokens);
    // TRUNCATE with RESTART IDENTITY sets sequences.
    let adds = tokens.iter().any(|token| token.is_one_of(&["into", "copy", "restart"]));
    let restarts = tokens.iter().any(|token| token.is_word("restart"));
    // In an order of their own, so that a text has one reading.
    for name in names(tokens).into_iter().collect::<BTreeSet<_>>() {
        let is_written = written.contains(&name);
        let name = String::from_utf8_lossy(&name);
        for named in lookup.everywhere(&name) {
            match named {
                NamedObject::Table(table) if is_written => {
                    analyzer.changed_unknown_rows(*table);
                    if adds {
                        analyzer.draws_of_table(*table);
                    }
                    if restarts {
                        analyzer.restarts(*table);
                    }
                }
                NamedObject::Table(table) => analyzer.access(*table, false, RowAspect::All, None),
                NamedObject::View(view) if is_written => analyzer.change_view(*view, adds),
                NamedObject::View(view) => {
                    analyzer.view(*view);
                }
                NamedObject::Sequence(sequence) => analyzer.sequence(*sequence, is_written),
                NamedObject::System | NamedObject::Temporary | NamedObject::Unknown => {}
            }
        }
    }
    calls(analyzer, tokens);
}

/// Tables that are named but unknown, in a statement that is not understood.
pub fn read_unknown(analyzer: &mut StatementAnalyzer<'_, '_>, tokens: &[Token<'_>]) {
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
        let is_schema = analyzer.lookup.is_schema(&name) || name.starts_with("pg_");
        if !is_schema && analyzer.lookup.everywhere(&name).next().is_none() {
            analyzer.unknown.insert(name);
        }
    }
}

/// Functions: names before a parenthesis.
fn calls(analyzer: &mut StatementAnalyzer<'_, '_>, tokens: &[Token<'_>]) {
    let called = tokens.windows(2).filter(|two| two[1].is_sign("("));
    for name in called.filter_map(|two| folded(&two[0])) {
        let name =
            super::lookup::Name { schema: None, name: String::from_utf8_lossy(&name).into_owned() };
        if !matches!(name.name.as_str(), "nextval" | "setval") {
            analyzer.call(&name, None);
        }
    }
}

/// Sequences that are drawn from, in a text that has its literals.
fn draws(analyzer: &mut StatementAnalyzer<'_, '_>, tokens: &[Token<'_>]) {
    for three in tokens.windows(3) {
        if !three[0].is_one_of(&["nextval", "setval"]) || !three[1].is_sign("(") {
            continue;
        }
        let is_text = three[2].kind == Kind::Text;
        let text = is_text.then(|| unquoted(three[2].text));
        let sequence = text.and_then(|text| analyzer.lookup.sequence(&text, analyzer.path));
        draws_from(analyzer, &three[0], sequence);
    }
}

/// A call of `nextval` or `setval` for a sequence, if that is known.
pub fn draws_from(
    analyzer: &mut StatementAnalyzer<'_, '_>,
    call: &Token<'_>,
    sequence: Option<usize>,
) {
    match sequence {
        Some(sequence) => analyzer.sequence(sequence, true),
        None => analyzer.mark_unknown(),
    }
    if call.is_word("setval") {
        analyzer.sequence_restarted(sequence);
    }
}
