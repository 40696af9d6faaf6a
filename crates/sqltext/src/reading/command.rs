//! Single statements: queries are parsed, other commands are read word by word.

use sqlparser::ast::{Insert, Query, SetExpr, Statement, TableObject};

use super::known::{Name, Named};
use super::names;
use super::scope::{Columns, Scope};
use super::session::NamesChange;
use super::text::{Piece, parse, significant};
use super::walk::Walk;
use super::{Draw, Object, Only, Operand, Reading};
use crate::lexer::name::unquoted;
use crate::lexer::phrase::{closing, passed, qualified};
use crate::lexer::token::Token;
use crate::lexer::verb::Verb;

/// What touches no table, or what was counted when it was declared.
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

/// What begins and ends a transaction.
const BOUNDS: [Verb; 6] =
    [Verb::Begin, Verb::Start, Verb::Commit, Verb::End, Verb::Rollback, Verb::Abort];

/// Limit for the depth of statements in statements; deeper ones are not looked into.
const DEPTH_MAX: u32 = 8;

/// Statements that are parsed.
const QUERIES: [Verb; 7] =
    [Verb::Select, Verb::Insert, Verb::Update, Verb::Delete, Verb::Merge, Verb::With, Verb::Values];

impl Walk<'_, '_> {
    /// Reads a statement and returns the columns of its rows.
    pub fn statement(&mut self, pieces: &[Piece<'_>], scope: &Scope<'_>) -> Columns {
        if self.depth == DEPTH_MAX {
            return self.nothing_known();
        }
        self.depth += 1;
        let columns = self.statement_here(pieces, scope);
        self.depth -= 1;
        columns
    }

    fn statement_here(&mut self, pieces: &[Piece<'_>], scope: &Scope<'_>) -> Columns {
        let reported = significant(pieces);
        let Some(first) = reported.iter().find(|piece| !piece.token.is_sign("(")) else {
            return Columns::default();
        };
        let Some(verb) = Verb::of(&first.token) else {
            // The body of a function.
            if first.token.is_word("return") {
                return self.parsed(&instead(pieces, "return", b"select"), &reported, scope);
            }
            self.doubt();
            return Columns::default();
        };
        match verb {
            verb if QUERIES.contains(&verb) => return self.parsed(pieces, &reported, scope),
            Verb::Table => {
                let pieces = instead(pieces, "table", b"select * from");
                return self.parsed(&pieces, &reported, scope);
            }
            Verb::Explain => return self.explained(pieces, scope),
            Verb::Declare => {
                let query = behind(pieces, |token| token.is_word("for"));
                return query.map_or_else(Columns::default, |query| self.statement(query, scope));
            }
            Verb::Copy => self.copied(pieces, &reported, scope),
            Verb::Lock => self.locked(&reported),
            Verb::Truncate => self.truncated(&reported),
            Verb::Call => return self.called(pieces, scope),
            Verb::Do => self.done(&reported),
            Verb::Prepare if second(&reported, "transaction") => {
                self.effects.push(NamesChange::Commits)
            }
            Verb::Prepare => self.prepared(pieces, &reported),
            Verb::Execute => self.executed(pieces, &reported, scope),
            Verb::Deallocate | Verb::Discard => self.forgotten(&reported),
            Verb::Create => self.created(pieces, &reported, scope),
            Verb::Alter => self.altered(&reported),
            Verb::Drop => self.dropped(&reported),
            Verb::Set | Verb::Reset => self.set(&reported),
            verb if BOUNDS.contains(&verb) => self.bounded(&reported),
            verb if HARMLESS.contains(&verb) => {}
            _ => self.doubt(),
        }
        Columns::default()
    }

    /// A query by the parser; by the names in it where that does not know it.
    fn parsed(
        &mut self,
        pieces: &[Piece<'_>],
        reported: &[Piece<'_>],
        scope: &Scope<'_>,
    ) -> Columns {
        let parsed = parse("", pieces, self.literals);
        // What is given is not taken then, of those columns that have a default of that kind.
        let is_overridden = reported
            .windows(2)
            .any(|two| two[0].token.is_word("overriding") && two[1].token.is_word("user"));
        let Some(statement) = parsed.filter(|_| !is_overridden) else {
            self.by_names(reported);
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
                columns
            }
            Statement::Update(update) => self.update(&update, scope),
            Statement::Delete(delete) => self.delete(&delete, scope),
            Statement::Merge(merge) => self.merge(&merge, scope),
            _ => {
                self.by_names(reported);
                Columns::default()
            }
        }
    }

    /// Rows of VALUES are added as they are written where nothing else may become of them: then the
    /// rows that they refer to are there, or the statement fails.
    fn needs_parents(&mut self, insert: &Insert) {
        let Some(table) = self.table_of(insert) else { return };
        let is_plain =
            |source: &Query| source.with.is_none() && matches!(&*source.body, SetExpr::Values(_));
        let adds = insert.on.is_none() && insert.source.as_deref().is_some_and(is_plain);
        if !adds || !self.known.triggers(self.known.root(table)).is_empty() {
            return;
        }
        let Reading { accesses, keys, parents, .. } = &mut self.reading;
        let checked = accesses.iter().filter(|access| access.only == Only::Presence);
        for key in checked.filter_map(|access| keys.get(usize::from(access.key?))) {
            // Of a key of several columns nothing is checked where one of them is NULL.
            let [column] = key.columns[..] else { continue };
            parents.extend(key.rows.iter().filter_map(|row| match row[..] {
                [Operand::One(place)] => Some((column, place)),
                _ => None,
            }));
        }
    }

    /// The table that an INSERT adds to; None for a view, and for what is none of the catalogue.
    fn table_of(&self, insert: &Insert) -> Option<usize> {
        let TableObject::TableName(name) = &insert.table else { return None };
        match Name::of(name).map(|name| self.relations(&name)).as_deref() {
            Some([Named::Table(table)]) => Some(*table),
            _ => None,
        }
    }

    /// A RETURNING may be added to an INSERT into a table, if all that is drawn is for it.
    fn may_return(&mut self, insert: &Insert) {
        let Some(table) = self.table_of(insert) else { return };
        let root = self.known.root(table);
        let is_own =
            |draw: &Draw| draw.column.is_some_and(|of| of.table == root || of.table == table);
        // A rule that does something else instead has to be made for RETURNING.
        self.reading.takes_returning = insert.returning.is_none()
            && !self.known.has_rule(root)
            && self.reading.draws.iter().all(is_own);
    }

    fn by_names(&mut self, reported: &[Piece<'_>]) {
        let tokens: Vec<Token<'_>> = reported.iter().map(|piece| piece.token).collect();
        self.reading.is_by_names = true;
        names::read(self, &tokens);
        names::read_unknown(self, &tokens);
        for three in reported.windows(3) {
            if three[0].token.is_one_of(&["nextval", "setval"]) && three[1].token.is_sign("(") {
                let sequence = three[2].literal.map(|literal| self.literals.look(literal));
                let sequence =
                    sequence.and_then(|text| self.known.sequence(&unquoted(text), self.path));
                names::draws_from(self, &three[0].token, sequence);
            }
        }
        if tokens.iter().any(|token| token.is_word("into"))
            && tokens.first().is_some_and(|token| token.is_one_of(&["select", "with"]))
        {
            self.doubt();
        }
    }

    /// EXPLAIN runs what it explains with ANALYZE only.
    fn explained(&mut self, pieces: &[Piece<'_>], scope: &Scope<'_>) -> Columns {
        let begins = |token: &Token<'_>| {
            let verb = Verb::of(token);
            verb.is_some_and(|verb| QUERIES.contains(&verb) || verb == Verb::Execute)
        };
        let begin = pieces.iter().position(|piece| begins(&piece.token)).unwrap_or(pieces.len());
        let (options, statement) = pieces.split_at(begin);
        if options.iter().any(|piece| piece.token.is_one_of(&["analyze", "analyse"])) {
            self.statement(statement, scope);
        }
        Columns { is_open: true, ..Columns::default() }
    }

    /// COPY of a table or of a query.
    fn copied(&mut self, pieces: &[Piece<'_>], reported: &[Piece<'_>], scope: &Scope<'_>) {
        if reported.get(1).is_some_and(|piece| piece.token.is_sign("(")) {
            let open = pieces.iter().position(|piece| piece.token.is_sign("(")).unwrap_or(0);
            let close = closing(pieces, open);
            self.statement(&pieces[open + 1..close], scope);
            return;
        }
        let Some((name, behind)) = name_at(reported, 1) else { return self.doubt() };
        let is_from = reported[behind..].iter().any(|piece| piece.token.is_word("from"));
        let is_program = reported.iter().any(|piece| piece.token.is_word("program"));
        if is_program {
            self.doubt();
        }
        if is_from {
            self.copied_from(&name, &reported[behind..]);
        } else {
            self.whole(&name, scope, &[]);
        }
    }

    /// Rows that are written from data that no text has.
    fn copied_from(&mut self, name: &Name, rest: &[Piece<'_>]) {
        let Some(table) = self.target(name, true) else { return };
        let all = self.known.table(table).map_or(&[][..], |table| &table.columns);
        let listed = rest.iter().take_while(|piece| !piece.token.is_word("from"));
        let names: Vec<String> = listed.filter_map(|piece| text_of(&piece.token)).collect();
        let at = |name: &String| all.iter().position(|column| column.name == *name);
        let columns = match names.as_slice() {
            [] => (0..all.len()).collect(),
            names => names.iter().filter_map(at).collect(),
        };
        self.added_unseen(table, columns);
    }

    fn locked(&mut self, reported: &[Piece<'_>]) {
        let is_shared = reported
            .windows(2)
            .any(|two| two[0].token.is_word("access") && two[1].token.is_word("share"));
        let mut at = passed(reported, 1, &["table"]);
        while let Some((name, behind)) = name_at(reported, passed(reported, at, &["only"])) {
            for named in self.relations(&name) {
                match named {
                    Named::Table(table) => self.access(table, !is_shared, Only::All, None),
                    Named::View(view) => self.change_view(view, false),
                    Named::Sequence(_) | Named::System | Named::Own => {}
                    Named::Unknown => {
                        self.unknown.insert(name.name.clone());
                    }
                }
            }
            if !reported.get(behind).is_some_and(|piece| piece.token.is_sign(",")) {
                return;
            }
            at = behind + 1;
        }
        self.doubt();
    }

    fn truncated(&mut self, reported: &[Piece<'_>]) {
        let mut at = passed(reported, 1, &["table"]);
        let has = |word: &str| reported.iter().any(|piece| piece.token.is_word(word));
        let (restarts, cascades) = (has("restart"), has("cascade"));
        while let Some((name, behind)) = name_at(reported, passed(reported, at, &["only"])) {
            // With CASCADE, those that refer are emptied; without, nothing may refer.
            if let Some(table) = self.target(&name, false) {
                let before = self.reading.accesses.len();
                self.changed(table, Only::All, None, true);
                if restarts {
                    self.restarts(table);
                }
                if restarts && cascades {
                    self.restart_all(before);
                }
            }
            if !reported.get(behind).is_some_and(|piece| piece.token.is_sign(",")) {
                return;
            }
            at = behind + 1;
        }
        self.doubt();
    }

    /// The sequences of all tables begin again that were touched since.
    fn restart_all(&mut self, since: usize) {
        let touched = self.reading.accesses[since..].to_vec();
        for access in touched {
            if let Object::Table(table) = access.object {
                self.restarts(table);
            }
        }
    }

    /// `CALL name(...)` does what the procedure does; its arguments are as those of a function.
    fn called(&mut self, pieces: &[Piece<'_>], scope: &Scope<'_>) -> Columns {
        let pieces = instead(pieces, "call", b"select");
        let reported = significant(&pieces);
        let called = name_at(&reported, 1).map(|(name, _)| self.known.functions(&name));
        if called.is_none_or(|functions| functions.is_empty()) {
            self.doubt();
        }
        self.parsed(&pieces, &reported, scope)
    }

    /// DO runs another text.
    fn done(&mut self, reported: &[Piece<'_>]) {
        let language = reported.iter().position(|piece| piece.token.is_word("language"));
        let language = language.and_then(|at| reported.get(at + 1));
        let is_plpgsql = language.is_none_or(|piece| {
            let text = piece.literal.map(|literal| unquoted(self.literals.look(literal)));
            text.as_deref().unwrap_or(piece.token.text).eq_ignore_ascii_case(b"plpgsql")
        });
        let bodies: Vec<u32> = reported.iter().filter_map(|piece| piece.literal).collect();
        if !is_plpgsql || bodies.is_empty() {
            return self.doubt();
        }
        self.reading.is_by_names = true;
        for literal in bodies {
            let body = unquoted(self.literals.look(literal));
            let (found, ()) = self.within(&body, |walk, _| names::read_body(walk, &body));
            self.run(&found);
        }
    }
}

/// With other words in the place of the first: `TABLE name` is `SELECT * FROM name`.
fn instead<'a>(pieces: &[Piece<'a>], word: &str, words: &'a [u8]) -> Vec<Piece<'a>> {
    let mut pieces = pieces.to_vec();
    if let Some(first) = pieces.iter_mut().find(|piece| piece.token.is_word(word)) {
        first.token.text = words;
    }
    pieces
}

/// What a token names; None where it is no name.
pub fn text_of(token: &Token<'_>) -> Option<String> {
    names::folded(token).map(|name| String::from_utf8_lossy(&name).into_owned())
}

/// The pieces behind the first token of this kind.
fn behind<'p, 'a>(
    pieces: &'p [Piece<'a>],
    is_such: impl Fn(&Token<'_>) -> bool,
) -> Option<&'p [Piece<'a>]> {
    let at = pieces.iter().position(|piece| is_such(&piece.token))?;
    Some(&pieces[at + 1..])
}

fn second(reported: &[Piece<'_>], word: &str) -> bool {
    reported.get(1).is_some_and(|piece| piece.token.is_word(word))
}

/// The name at a place, and the place behind it and a star.
pub fn name_at(reported: &[Piece<'_>], at: usize) -> Option<(Name, usize)> {
    let (parts, behind) = qualified(reported, at);
    // Behind a point comes a further part.
    let next = reported.get((at + 2 * parts.len()).checked_sub(1)?);
    let is_whole = !next.is_some_and(|piece| piece.token.is_sign("."));
    let parts = parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    Some((Name::of_parts(parts).filter(|_| is_whole)?, behind))
}
