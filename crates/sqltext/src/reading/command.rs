//! Single statements: queries are parsed, other commands are read word by word.

use sqlparser::ast::{Insert, Query, SetExpr, Statement, TableObject};

use super::analyzer::StatementAnalyzer;
use super::lookup::{Name, NamedObject};
use super::names;
use super::scope::{Columns, Scope};
use super::session::NamesChange;
use super::text::{FormToken, parse, significant};
use super::{Object, Operand, RowAspect, StatementEffects, ValueDraw};
use crate::lexer::name::unquoted;
use crate::lexer::phrase::{closing, passed, qualified};
use crate::lexer::token::Token;
use crate::lexer::verb::Verb;

/// Statements that access no table, or whose rows were counted when a cursor was declared.
const HARMLESS: [Verb; 12] = [
    Verb::Savepoint,
    Verb::Release,
    Verb::Show,
    Verb::Fetch,
    Verb::Move,
    Verb::Close,
    Verb::Notify,
    Verb::Listen,
    Verb::Unlisten,
    Verb::Analyze,
    Verb::Vacuum,
    Verb::Checkpoint,
];

/// Statements that begin and end a transaction.
const BOUNDS: [Verb; 6] =
    [Verb::Begin, Verb::Start, Verb::Commit, Verb::End, Verb::Rollback, Verb::Abort];

/// Limit for the depth of nested statements; deeper ones are not read.
const DEPTH_MAX: u32 = 8;

/// Statements that are parsed.
const QUERIES: [Verb; 7] =
    [Verb::Select, Verb::Insert, Verb::Update, Verb::Delete, Verb::Merge, Verb::With, Verb::Values];

impl StatementAnalyzer<'_, '_> {
    /// Reads a statement and returns the columns of its rows.
    pub fn statement(&mut self, tokens: &[FormToken<'_>], scope: &Scope<'_>) -> Columns {
        if self.depth == DEPTH_MAX {
            return self.nothing_known();
        }
        self.depth += 1;
        let columns = self.statement_here(tokens, scope);
        self.depth -= 1;
        columns
    }

    fn statement_here(&mut self, tokens: &[FormToken<'_>], scope: &Scope<'_>) -> Columns {
        let words = significant(tokens);
        let Some(first) = words.iter().find(|token| !token.is_sign("(")) else {
            return Columns::default();
        };
        let Some(verb) = Verb::of(&first.token) else {
            // The body of a function.
            if first.token.is_word("return") {
                return self.parsed(&instead(tokens, "return", b"select"), &words, scope);
            }
            self.mark_unknown();
            return Columns::default();
        };
        match verb {
            verb if QUERIES.contains(&verb) => return self.parsed(tokens, &words, scope),
            Verb::Table => {
                let tokens = instead(tokens, "table", b"select * from");
                return self.parsed(&tokens, &words, scope);
            }
            Verb::Explain => return self.explained(tokens, scope),
            Verb::Declare => {
                let query = behind(tokens, |token| token.is_word("for"));
                return query.map_or_else(Columns::default, |query| self.statement(query, scope));
            }
            Verb::Copy => self.copied(tokens, &words, scope),
            Verb::Lock => self.locked(&words),
            Verb::Truncate => self.truncated(&words),
            Verb::Call => return self.called(tokens, scope),
            Verb::Do => self.done(&words),
            Verb::Prepare if second(&words, "transaction") => {
                self.effects.push(NamesChange::Commits)
            }
            Verb::Prepare => self.prepared(tokens, &words),
            Verb::Execute => self.executed(tokens, &words, scope),
            Verb::Deallocate | Verb::Discard => self.forgotten(&words),
            Verb::Create => self.created(tokens, &words, scope),
            Verb::Alter => self.altered(&words),
            Verb::Drop => self.dropped(&words),
            Verb::Set | Verb::Reset => self.set(&words),
            verb if BOUNDS.contains(&verb) => self.bounded(&words),
            verb if HARMLESS.contains(&verb) => {}
            _ => self.mark_unknown(),
        }
        Columns::default()
    }

    /// Reads a query by the parser, or by the names in it if the parser does not support it.
    fn parsed(
        &mut self,
        tokens: &[FormToken<'_>],
        words: &[FormToken<'_>],
        scope: &Scope<'_>,
    ) -> Columns {
        let parsed = parse("", tokens, self.literals);
        // What is given is not taken then, of those columns that have a default of that kind.
        let is_overridden = words
            .windows(2)
            .any(|two| two[0].token.is_word("overriding") && two[1].token.is_word("user"));
        let Some(statement) = parsed.filter(|_| !is_overridden) else {
            self.by_names(words);
            return Columns { is_open: true, ..Columns::default() };
        };
        match statement {
            Statement::Query(query) => {
                let columns = self.query(&query, scope);
                if let SetExpr::Insert(Statement::Insert(insert)) = &*query.body {
                    self.may_return(insert);
                }
                columns
            }
            Statement::Insert(insert) => {
                let columns = self.insert(&insert, scope);
                self.may_return(&insert);
                self.needs_parents(&insert);
                let is_plain = insert.source.as_deref().is_none_or(|one| one.with.is_none());
                self.reading.draws_before_checks = is_plain && self.calls.is_empty();
                columns
            }
            Statement::Update(update) => self.update(&update, scope),
            Statement::Delete(delete) => self.delete(&delete, scope),
            Statement::Merge(merge) => self.merge(&merge, scope),
            _ => {
                self.by_names(words);
                Columns::default()
            }
        }
    }

    /// Rows of VALUES are added as written if nothing else can change them: then the
    /// rows that they refer to exist, or the statement fails.
    fn needs_parents(&mut self, insert: &Insert) {
        let Some(table) = self.table_of(insert) else { return };
        let is_plain =
            |source: &Query| source.with.is_none() && matches!(&*source.body, SetExpr::Values(_));
        let adds = insert.on.is_none() && insert.source.as_deref().is_some_and(is_plain);
        if !adds || !self.lookup.triggers(self.lookup.root(table)).is_empty() {
            return;
        }
        let StatementEffects { accesses, keys, parents, .. } = &mut self.reading;
        let checked = accesses.iter().filter(|access| access.aspect == RowAspect::Presence);
        for key in checked.filter_map(|access| keys.get(usize::from(access.key?))) {
            // Of a key of several columns nothing is checked where one of them is NULL.
            let [column] = key.columns[..] else { continue };
            parents.extend(key.rows.iter().filter_map(|row| match row[..] {
                [Operand::One(position)] => Some((column, position)),
                _ => None,
            }));
        }
    }

    /// The table of an INSERT; None for a view, and for a table that is not in the catalogue.
    fn table_of(&self, insert: &Insert) -> Option<usize> {
        let TableObject::TableName(name) = &insert.table else { return None };
        match Name::of(name).map(|name| self.relations(&name)).as_deref() {
            Some([NamedObject::Table(table)]) => Some(*table),
            _ => None,
        }
    }

    /// RETURNING may be added to an INSERT into a table, if all draws are for it.
    fn may_return(&mut self, insert: &Insert) {
        let Some(table) = self.table_of(insert) else { return };
        let root = self.lookup.root(table);
        let is_of_table =
            |draw: &ValueDraw| draw.column.is_some_and(|of| of.table == root || of.table == table);
        // A rule that does something else instead has to be made for RETURNING.
        self.reading.takes_returning = insert.returning.is_none()
            && !self.lookup.has_rule(root)
            && self.reading.draws.iter().all(is_of_table);
    }

    fn by_names(&mut self, words: &[FormToken<'_>]) {
        let tokens: Vec<Token<'_>> = words.iter().map(|token| token.token).collect();
        self.reading.is_by_names = true;
        names::read(self, &tokens);
        names::read_unknown(self, &tokens);
        for three in words.windows(3) {
            if three[0].token.is_one_of(&["nextval", "setval"]) && three[1].token.is_sign("(") {
                let sequence = three[2].literal.map(|literal| self.literals.look(literal));
                let sequence =
                    sequence.and_then(|text| self.lookup.sequence(&unquoted(text), self.path));
                names::draws_from(self, &three[0].token, sequence);
            }
        }
        if tokens.iter().any(|token| token.is_word("into"))
            && tokens.first().is_some_and(|token| token.is_one_of(&["select", "with"]))
        {
            self.mark_unknown();
        }
    }

    /// EXPLAIN runs its statement with ANALYZE only.
    fn explained(&mut self, tokens: &[FormToken<'_>], scope: &Scope<'_>) -> Columns {
        let begins = |token: &Token<'_>| {
            let verb = Verb::of(token);
            verb.is_some_and(|verb| QUERIES.contains(&verb) || verb == Verb::Execute)
        };
        let begin = tokens.iter().position(|token| begins(&token.token)).unwrap_or(tokens.len());
        let (options, statement) = tokens.split_at(begin);
        let words = significant(options);
        let at = words.iter().position(|token| token.is_one_of(&["analyze", "analyse"]));
        if at.is_some_and(|at| !self.is_off(words.get(at + 1))) {
            self.statement(statement, scope);
            // It returns its plan.
            self.reading.takes_returning = false;
        }
        Columns { is_open: true, ..Columns::default() }
    }

    /// Whether the value of an option turns it off.
    fn is_off(&mut self, value: Option<&FormToken<'_>>) -> bool {
        let Some(token) = value else { return false };
        let text = token.literal.map_or(token.text, |literal| self.literals.look(literal));
        let text = if text.starts_with(b"'") { unquoted(text) } else { text.to_vec() };
        [&b"off"[..], b"false", b"0"].iter().any(|off| text.eq_ignore_ascii_case(off))
    }

    /// COPY of a table or of a query.
    fn copied(&mut self, tokens: &[FormToken<'_>], words: &[FormToken<'_>], scope: &Scope<'_>) {
        if words.get(1).is_some_and(|token| token.is_sign("(")) {
            let open = tokens.iter().position(|token| token.is_sign("(")).unwrap_or(0);
            let close = closing(tokens, open);
            self.statement(&tokens[open + 1..close], scope);
            return;
        }
        let Some((name, behind)) = name_at(words, 1) else { return self.mark_unknown() };
        let is_from = words[behind..].iter().any(|token| token.is_word("from"));
        let is_program = words.iter().any(|token| token.is_word("program"));
        if is_program {
            self.mark_unknown();
        }
        if is_from {
            self.copied_from(&name, &words[behind..]);
        } else {
            self.whole(&name, scope, &[]);
        }
    }

    /// Rows that are written from data that no text has.
    fn copied_from(&mut self, name: &Name, rest: &[FormToken<'_>]) {
        let Some(table) = self.target(name, true) else { return };
        let all = self.lookup.table(table).map_or(&[][..], |table| &table.columns);
        let listed = rest.iter().take_while(|token| !token.is_word("from"));
        let names: Vec<String> = listed.filter_map(|token| text_of(&token.token)).collect();
        let at = |name: &String| all.iter().position(|column| column.name == *name);
        let columns = match names.as_slice() {
            [] => (0..all.len()).collect(),
            names => names.iter().filter_map(at).collect(),
        };
        self.added_unknown_rows(table, columns);
    }

    fn locked(&mut self, words: &[FormToken<'_>]) {
        let is_shared = words
            .windows(2)
            .any(|two| two[0].token.is_word("access") && two[1].token.is_word("share"));
        let mut at = passed(words, 1, &["table"]);
        while let Some((name, behind)) = name_at(words, passed(words, at, &["only"])) {
            for named in self.relations(&name) {
                match named {
                    NamedObject::Table(table) => {
                        self.access(table, !is_shared, RowAspect::All, None)
                    }
                    NamedObject::View(view) => self.change_view(view, false),
                    NamedObject::Sequence(_) | NamedObject::System | NamedObject::Temporary => {}
                    NamedObject::Unknown => {
                        self.unknown.insert(name.name.clone());
                    }
                }
            }
            if !words.get(behind).is_some_and(|token| token.is_sign(",")) {
                return;
            }
            at = behind + 1;
        }
        self.mark_unknown();
    }

    fn truncated(&mut self, words: &[FormToken<'_>]) {
        let mut at = passed(words, 1, &["table"]);
        let has = |word: &str| words.iter().any(|token| token.is_word(word));
        let (restarts, cascades) = (has("restart"), has("cascade"));
        while let Some((name, behind)) = name_at(words, passed(words, at, &["only"])) {
            // With CASCADE, those that refer are emptied; without, nothing may refer.
            if let Some(table) = self.target(&name, false) {
                let before = self.reading.accesses.len();
                self.changed(table, RowAspect::All, None, true);
                if restarts {
                    self.restarts(table);
                }
                if restarts && cascades {
                    self.restart_all(before);
                }
            }
            if !words.get(behind).is_some_and(|token| token.is_sign(",")) {
                return;
            }
            at = behind + 1;
        }
        self.mark_unknown();
    }

    /// The sequences of all tables that were accessed since restart.
    fn restart_all(&mut self, since: usize) {
        let accesses = self.reading.accesses[since..].to_vec();
        for access in accesses {
            if let Object::Table(table) = access.object {
                self.restarts(table);
            }
        }
    }

    /// `CALL name(...)` has the effects of the procedure; its arguments are read as those of a
    /// function.
    fn called(&mut self, tokens: &[FormToken<'_>], scope: &Scope<'_>) -> Columns {
        let tokens = instead(tokens, "call", b"select");
        let words = significant(&tokens);
        let called = name_at(&words, 1).map(|(name, _)| self.lookup.functions(&name));
        if called.is_none_or(|functions| functions.is_empty()) {
            self.mark_unknown();
        }
        self.parsed(&tokens, &words, scope)
    }

    /// DO runs another text.
    fn done(&mut self, words: &[FormToken<'_>]) {
        let language = words.iter().position(|token| token.is_word("language"));
        let language = language.and_then(|at| words.get(at + 1));
        let is_plpgsql = language.is_none_or(|token| {
            let text = token.literal.map(|literal| unquoted(self.literals.look(literal)));
            text.as_deref().unwrap_or(token.text).eq_ignore_ascii_case(b"plpgsql")
        });
        let bodies: Vec<u32> = words.iter().filter_map(|token| token.literal).collect();
        if !is_plpgsql || bodies.is_empty() {
            return self.mark_unknown();
        }
        self.reading.is_by_names = true;
        for literal in bodies {
            let body = unquoted(self.literals.look(literal));
            let (found, ()) = self.within(&body, |analyzer, _| names::read_body(analyzer, &body));
            self.run(&found);
        }
    }
}

/// Replaces the first word: `TABLE name` is `SELECT * FROM name`.
fn instead<'a>(tokens: &[FormToken<'a>], word: &str, words: &'a [u8]) -> Vec<FormToken<'a>> {
    let mut tokens = tokens.to_vec();
    if let Some(first) = tokens.iter_mut().find(|token| token.is_word(word)) {
        first.token.text = words;
    }
    tokens
}

/// The name of a token; None if it is not a name.
pub fn text_of(token: &Token<'_>) -> Option<String> {
    names::folded(token).map(|name| String::from_utf8_lossy(&name).into_owned())
}

/// The tokens behind the first one that matches.
fn behind<'p, 'a>(
    tokens: &'p [FormToken<'a>],
    is_such: impl Fn(&Token<'_>) -> bool,
) -> Option<&'p [FormToken<'a>]> {
    let at = tokens.iter().position(|token| is_such(&token.token))?;
    Some(&tokens[at + 1..])
}

fn second(words: &[FormToken<'_>], word: &str) -> bool {
    words.get(1).is_some_and(|token| token.is_word(word))
}

/// The name at an index, and the index behind it and a star.
pub fn name_at(words: &[FormToken<'_>], at: usize) -> Option<(Name, usize)> {
    let (parts, behind) = qualified(words, at);
    // Behind a point comes a further part.
    let next = words.get((at + 2 * parts.len()).checked_sub(1)?);
    let is_whole = !next.is_some_and(|token| token.is_sign("."));
    let parts = parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    Some((Name::of_parts(parts).filter(|_| is_whole)?, behind))
}
