//! What names mean in a session: the search path, temporary tables and prepared statements; and the
//! statements that change it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Statement};

use super::command::{name_at, text_of};
use super::expression::place;
use super::known::{Name, Named};
use super::scope::Scope;
use super::text::{Piece, parse, significant};
use super::walk::Walk;
use super::{Access, Draw, Key, Only, Operand, Reading, Use, ValuePosition};
use crate::lexer::name::unquoted;
use crate::lexer::phrase::passed;
use crate::statements::{Control, control_of, deallocated_of};

/// Limit for the names of each kind; statements with further ones may touch anything.
const NAMES_MAX: usize = 1024;

/// The search path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Path {
    /// The catalogue's.
    #[default]
    Default,
    /// These schemas.
    Set(Arc<[String]>),
    /// Set to an unknown value.
    Unknown,
}

/// A change of [`SessionNames`] by a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamesChange {
    /// CREATE of a temporary table; true where it hides one of the catalogue.
    Makes(String, bool),
    /// DROP of a temporary table.
    Drops(String),
    /// PREPARE, of a statement that does this.
    Prepares(String, Arc<Reading>),
    /// EXECUTE, with the places of its values; None for any other, which are made of those that
    /// follow.
    Executes(String, Vec<Option<ValuePosition>>, Vec<ValuePosition>),
    /// DEALLOCATE; None for all.
    Deallocates(Option<String>),
    /// DISCARD ALL.
    Forgets,
    /// SET `search_path`; true for SET LOCAL.
    SetsPath(Path, bool),
    /// BEGIN.
    Begins,
    /// COMMIT.
    Commits,
    /// ROLLBACK.
    RollsBack,
}

/// What names mean in a captured session, according to its statements so far.
///
/// It answers what a statement touches, for the order and the ids of a playback. It assumes that
/// every statement succeeded: a temporary table counts as one even after a ROLLBACK, because a
/// statement that names it then fails and touches nothing. `SessionObjects` of crate playback looks
/// similar and answers the opposite question: which objects a *played* session certainly has, so
/// that a DROP cannot hit another table. There, only what is proved counts, by the text alone, and
/// a ROLLBACK removes it. The two err in opposite directions on purpose, so they are two.
#[derive(Clone, Debug, Default)]
pub struct SessionNames {
    path: Path,
    /// The path after the transaction: if it is committed, and if it is not.
    path_after: Option<(Path, Path)>,
    temporary: HashSet<String>,
    /// Temporary tables that hide others.
    hiding: HashSet<String>,
    prepared: HashMap<String, Arc<Reading>>,
}

impl SessionNames {
    /// The search path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all of these are names of temporary tables.
    pub fn are_temporary<'n>(&self, mut names: impl Iterator<Item = &'n String>) -> bool {
        names.all(|name| self.temporary.contains(name))
    }

    /// Whether a temporary table hides another one.
    pub fn hides(&self) -> bool {
        !self.hiding.is_empty()
    }

    /// Applies a change; returns the reading of the prepared statement that it executes, if any.
    pub fn apply(&mut self, effect: &NamesChange) -> Option<Reading> {
        match effect {
            NamesChange::Makes(name, hides) => {
                if *hides {
                    self.hiding.insert(name.clone());
                } else if self.temporary.len() < NAMES_MAX {
                    self.temporary.insert(name.clone());
                }
            }
            NamesChange::Drops(name) => {
                self.temporary.remove(name);
                self.hiding.remove(name);
            }
            NamesChange::Prepares(name, reading) => {
                if self.prepared.len() < NAMES_MAX {
                    self.prepared.insert(name.clone(), Arc::clone(reading));
                }
            }
            NamesChange::Executes(name, places, others) => {
                let mut found = executed(self.prepared.get(name)?, places);
                found.handed.extend(others);
                return Some(found);
            }
            NamesChange::Deallocates(Some(name)) => {
                self.prepared.remove(name);
            }
            NamesChange::Deallocates(None) => self.prepared.clear(),
            NamesChange::Forgets => *self = SessionNames::default(),
            NamesChange::SetsPath(path, is_local) => self.set_path(path.clone(), *is_local),
            NamesChange::Begins => self.path_after = Some((self.path.clone(), self.path.clone())),
            NamesChange::Commits => self.end(true),
            NamesChange::RollsBack => self.end(false),
        }
        None
    }

    fn set_path(&mut self, path: Path, is_local: bool) {
        match &mut self.path_after {
            Some((committed, _)) if !is_local => *committed = path.clone(),
            None if is_local => return,
            _ => {}
        }
        self.path = path;
    }

    fn end(&mut self, is_committed: bool) {
        if let Some((committed, undone)) = self.path_after.take() {
            self.path = if is_committed { committed } else { undone };
        }
    }
}

/// What a prepared statement does when it is executed with the values in these places.
fn executed(prepared: &Reading, places: &[Option<ValuePosition>]) -> Reading {
    let moved = |place: &ValuePosition| match place {
        ValuePosition::Parameter(at) => places.get(*at as usize).copied().flatten(),
        // It is in the text that was prepared.
        ValuePosition::Literal(_) => None,
    };
    let operand = |one: &Operand| moved(&one.place()).map(|place| one.at(place));
    let row = |row: &Vec<Operand>| row.iter().map(operand).collect::<Option<Vec<Operand>>>();
    let keys: Vec<Option<Key>> = prepared
        .keys
        .iter()
        .map(|key| {
            let rows = key.rows.iter().map(row).collect::<Option<Vec<_>>>()?;
            Some(Key { columns: key.columns.clone(), rows })
        })
        .collect();
    let mut reading = Reading::default();
    for access in &prepared.accesses {
        let known = access.key.and_then(|key| keys.get(usize::from(key))?.clone());
        let key = known.and_then(|key| {
            reading.keys.push(key);
            u16::try_from(reading.keys.len() - 1).ok()
        });
        let is_lost = access.key.is_some() && key.is_none() && access.only == Only::New;
        let only = if is_lost { Only::All } else { access.only };
        reading.accesses.push(Access { key, only, ..*access });
    }
    let moved_use = |one: &Use| Some(Use { place: moved(&one.place)?, ..*one });
    reading.uses = prepared.uses.iter().filter_map(moved_use).collect();
    reading.texts = prepared.texts.iter().filter_map(moved_use).collect();
    let parents = prepared.parents.iter();
    reading.parents = parents.filter_map(|&(of, at)| Some((of, moved(&at)?))).collect();
    let draws = prepared.draws.iter().cloned();
    reading.draws =
        draws.map(|draw| Draw { each_of: draw.each_of.as_ref().and_then(moved), ..draw }).collect();
    reading.last_values.clone_from(&prepared.last_values);
    reading.handed = prepared.handed.iter().filter_map(moved).collect();
    reading.volatile.clone_from(&prepared.volatile);
    reading.touches_anything = prepared.touches_anything;
    reading.is_by_names = prepared.is_by_names;
    reading.has_unknown_table = prepared.has_unknown_table;
    reading.sets.clone_from(&prepared.sets);
    reading
}

impl Walk<'_, '_> {
    /// CREATE: what is temporary is the session's own.
    pub fn created(&mut self, pieces: &[Piece<'_>], reported: &[Piece<'_>], scope: &Scope<'_>) {
        let is = |at: usize, words: &[&str]| {
            reported.get(at).is_some_and(|piece| piece.token.is_one_of(words))
        };
        let mut at = passed(reported, 1, &["or", "replace", "global", "local"]);
        if is(at, &["unique", "index"]) {
            return self.indexed(reported);
        }
        if !is(at, &["temp", "temporary"]) {
            return self.doubt();
        }
        at = passed(reported, at + 1, &["recursive"]);
        if !is(at, &["table", "view", "sequence"]) {
            return self.doubt();
        }
        let at = passed(reported, at + 1, &["if", "not", "exists"]);
        let Some((name, _)) = name_at(reported, at) else { return self.doubt() };
        self.makes(&name);
        if let Some(query) = pieces.iter().position(|piece| piece.token.is_word("as")) {
            self.statement(without_data(&pieces[query + 1..]), scope);
        }
    }

    /// A temporary table of a name is made.
    pub fn makes(&mut self, name: &Name) {
        let hides = self.known.everywhere(&name.name).next().is_some();
        self.effects.push(NamesChange::Makes(name.name.clone(), hides));
    }

    /// An index of a temporary table is the session's own.
    fn indexed(&mut self, reported: &[Piece<'_>]) {
        let on = reported.iter().position(|piece| piece.token.is_word("on"));
        let table = on.and_then(|on| name_at(reported, passed(reported, on + 1, &["only"])));
        match table {
            Some((name, _)) => self.is_own(&name),
            None => self.doubt(),
        }
    }

    /// Nothing is touched if a name is that of a temporary table.
    fn is_own(&mut self, name: &Name) {
        match self.relations(name).as_slice() {
            [Named::Own] => {}
            [Named::Unknown] => {
                self.unknown.insert(name.name.clone());
            }
            _ => self.doubt(),
        }
    }

    /// ALTER of a temporary table does not affect other sessions.
    pub fn altered(&mut self, reported: &[Piece<'_>]) {
        let is_renamed = reported.iter().any(|piece| piece.token.is_one_of(&["rename", "schema"]));
        let kind = reported.get(1).filter(|kind| kind.token.is_word("table") && !is_renamed);
        match kind.and_then(|_| name_at(reported, passed(reported, 2, &["if", "exists", "only"]))) {
            Some((name, _)) => self.is_own(&name),
            None => self.doubt(),
        }
        if reported.iter().any(|piece| piece.token.is_word("restart")) {
            let name = name_at(reported, passed(reported, 2, &["if", "exists", "only"]));
            self.begins_again(name.map(|(name, _)| name).as_ref());
        }
    }

    /// The sequence of a name begins again, or those of a table; any where that is not known.
    fn begins_again(&mut self, name: Option<&Name>) {
        match name.map(|name| self.relations(name)).as_deref() {
            Some([Named::Table(table)]) => self.restarts(*table),
            Some([Named::Sequence(sequence)]) => self.sets_on(Some(*sequence)),
            Some([Named::View(_) | Named::Own | Named::System]) => {}
            _ => self.sets_on(None),
        }
    }

    /// DROP of temporary tables does not affect other sessions.
    pub fn dropped(&mut self, reported: &[Piece<'_>]) {
        let kinds = ["table", "view", "sequence"];
        if !reported.get(1).is_some_and(|kind| kind.token.is_one_of(&kinds)) {
            return self.doubt();
        }
        let mut at = passed(reported, 2, &["if", "exists"]);
        while let Some((name, behind)) = name_at(reported, at) {
            self.is_own(&name);
            if let [Named::Table(_) | Named::Sequence(_)] = self.relations(&name).as_slice() {
                self.begins_again(Some(&name));
            }
            self.effects.push(NamesChange::Drops(name.name));
            if !reported.get(behind).is_some_and(|piece| piece.token.is_sign(",")) {
                return;
            }
            at = behind + 1;
        }
        self.doubt();
    }

    /// PREPARE: its effects come with EXECUTE; the values in its text are there already.
    pub fn prepared(&mut self, pieces: &[Piece<'_>], reported: &[Piece<'_>]) {
        let name = reported.get(1).and_then(|piece| text_of(&piece.token));
        let query = pieces.iter().position(|piece| piece.token.is_word("as"));
        let (Some(name), Some(query)) = (name, query) else { return self.doubt() };
        let mut walk = Walk::new(self.known, self.bodies, self.literals, self.path);
        walk.depth = self.depth;
        let columns = walk.statement(&pieces[query + 1..], &Scope::default());
        walk.finish(&columns);
        let Walk { mut reading, unknown, .. } = walk;
        reading.touches_anything |= !unknown.is_empty();
        self.reading.has_unknown_table |= reading.has_unknown_table;
        self.reading.is_by_names |= reading.is_by_names;
        let own = reading.uses.iter().filter(|one| matches!(one.place, ValuePosition::Literal(_)));
        self.reading.uses.extend(own);
        let own = reading.texts.iter().filter(|one| matches!(one.place, ValuePosition::Literal(_)));
        self.reading.texts.extend(own);
        self.effects.push(NamesChange::Prepares(name, Arc::new(reading)));
    }

    /// EXECUTE: which statement that is, the session knows.
    pub fn executed(&mut self, pieces: &[Piece<'_>], reported: &[Piece<'_>], scope: &Scope<'_>) {
        self.doubt();
        let name = reported.get(1).and_then(|piece| text_of(&piece.token));
        let Some(name) = name else { return };
        let (mut places, mut others) = (Vec::new(), Vec::new());
        if reported.get(2).is_some_and(|piece| piece.token.is_sign("(")) {
            let row = pieces.iter().position(|piece| piece.token.is_sign("("));
            let row = row.map_or(&[][..], |row| &pieces[row..]);
            let Some(values) = self.values_of(row) else { return };
            places = values.iter().map(place).collect();
            values.iter().for_each(|value| self.expr(value, scope));
            self.hand(values.iter());
            let made = values.iter().filter(|value| place(value).is_none());
            others = made.flat_map(|value| self.values_within(value)).collect();
        }
        self.effects.push(NamesChange::Executes(name, places, others));
    }

    /// The expressions between parentheses.
    fn values_of(&mut self, row: &[Piece<'_>]) -> Option<Vec<Expr>> {
        let Statement::Query(query) = parse("SELECT ROW", row, self.literals)? else {
            return None;
        };
        let Query { body, .. } = *query;
        let SetExpr::Select(select) = *body else { return None };
        let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice() else { return None };
        Some(super::expression::row(expr)?.into_iter().cloned().collect())
    }

    /// DEALLOCATE, DISCARD.
    pub fn forgotten(&mut self, reported: &[Piece<'_>]) {
        if reported[0].token.is_word("discard") {
            let is_all = reported[1..].iter().any(|piece| piece.token.is_word("all"));
            self.effects.extend(is_all.then_some(NamesChange::Forgets));
            return;
        }
        let name = deallocated_of(reported.iter().map(|piece| piece.token));
        let name = name.map(|name| String::from_utf8_lossy(&name).into_owned());
        self.effects.push(NamesChange::Deallocates(name));
    }

    /// SET and RESET.
    pub fn set(&mut self, reported: &[Piece<'_>]) {
        let is_reset = reported[0].token.is_word("reset");
        let is_local = reported.get(1).is_some_and(|piece| piece.token.is_word("local"));
        let at = passed(reported, 1, &["local", "session"]);
        let is_named =
            |words: &[&str]| reported.get(at).is_some_and(|piece| piece.token.is_one_of(words));
        if is_reset && is_named(&["search_path", "all"]) {
            return self.effects.push(NamesChange::SetsPath(Path::Default, false));
        }
        if !is_named(&["search_path", "schema"]) {
            return;
        }
        let values: Vec<Piece<'_>> =
            reported[at + 1..].iter().filter(|piece| !piece.token.is_sign(",")).copied().collect();
        let skipped =
            values.iter().take_while(|piece| piece.token.text == b"=" || piece.token.is_word("to"));
        let values = &values[skipped.count()..];
        let is_default = matches!(values, [one] if one.token.is_word("default"));
        let schema = |piece: &Piece<'_>| match piece.literal {
            Some(literal) => {
                let text = unquoted(self.literals.look(literal));
                Some(String::from_utf8_lossy(&text).into_owned())
            }
            None => text_of(&piece.token),
        };
        let path = values.iter().map(schema).collect::<Option<Vec<String>>>();
        let path = match path {
            _ if is_default => Path::Default,
            Some(path) => Path::Set(path.into()),
            None => Path::Unknown,
        };
        self.effects.push(NamesChange::SetsPath(path, is_local));
    }

    /// BEGIN, COMMIT, ROLLBACK and their like.
    pub fn bounded(&mut self, reported: &[Piece<'_>]) {
        match control_of(reported.iter().map(|piece| piece.token)) {
            Control::Begin => self.effects.push(NamesChange::Begins),
            Control::End { is_undone, is_chained } => {
                let ends = if is_undone { NamesChange::RollsBack } else { NamesChange::Commits };
                self.effects.push(ends);
                self.effects.extend(is_chained.then_some(NamesChange::Begins));
            }
            Control::EndPrepared => self.doubt(),
            Control::RollBackTo | Control::None => {}
        }
    }
}

/// Without the `WITH [NO] DATA` of CREATE TABLE AS.
fn without_data<'p, 'a>(pieces: &'p [Piece<'a>]) -> &'p [Piece<'a>] {
    let reported = significant(pieces);
    let is_last = reported.last().is_some_and(|piece| piece.token.is_word("data"));
    let with = pieces.iter().rposition(|piece| piece.token.is_word("with"));
    match with.filter(|_| is_last) {
        Some(with) => &pieces[..with],
        None => pieces,
    }
}
