//! Name resolution in a session: the search path, temporary tables and prepared statements; and the
//! statements that change it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Statement};

use super::analyzer::StatementAnalyzer;
use super::command::{name_at, text_of};
use super::expression::position;
use super::lookup::{Name, NamedObject};
use super::scope::Scope;
use super::text::{FormToken, parse, significant};
use super::{
    Access, Key, Operand, RowAspect, StatementEffects, ValueDraw, ValuePosition, ValueUse,
};
use crate::lexer::name::unquoted;
use crate::lexer::phrase::passed;
use crate::statements::{Control, control_of, deallocated_of};

/// Limit for the names of each kind; statements with further ones may access anything.
const NAMES_MAX: usize = 1024;

/// The search path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Path {
    /// The catalogue's.
    #[default]
    Default,
    /// These schemas.
    Schemas(Arc<[String]>),
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
    /// PREPARE, of a statement with these effects.
    Prepares(String, Arc<StatementEffects>),
    /// EXECUTE, with the positions of its values; None for a computed one, whose parts
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

/// The names in a captured session, according to its statements so far.
///
/// It determines what a statement accesses, for the order and the ids of a playback. It assumes
/// that every statement succeeded: a temporary table counts as one even after a ROLLBACK, because a
/// statement that names it then fails and accesses nothing. `SessionObjects` of crate playback
/// looks similar and answers the opposite question: which objects a *played* session certainly has,
/// so that a DROP cannot hit another table. There, only what is proved counts, by the text alone,
/// and a ROLLBACK removes it. The two err in opposite directions on purpose, so they are two.
#[derive(Clone, Debug, Default)]
pub struct SessionNames {
    path: Path,
    /// The path after the transaction: if it is committed, and if it is not.
    path_after: Option<(Path, Path)>,
    temporary: HashSet<String>,
    /// Temporary tables that hide others.
    hiding: HashSet<String>,
    prepared: HashMap<String, Arc<StatementEffects>>,
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
    pub fn apply(&mut self, effect: &NamesChange) -> Option<StatementEffects> {
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
            NamesChange::Executes(name, positions, others) => {
                let mut found = executed(self.prepared.get(name)?, positions);
                found.passed_values.extend(others);
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

/// The effects of a prepared statement that is executed with values at these positions.
fn executed(prepared: &StatementEffects, positions: &[Option<ValuePosition>]) -> StatementEffects {
    let moved = |position: &ValuePosition| match position {
        ValuePosition::Parameter(at) => positions.get(*at as usize).copied().flatten(),
        // It is in the text that was prepared.
        ValuePosition::Literal(_) => None,
    };
    let operand = |one: &Operand| moved(&one.position()).map(|position| one.at(position));
    let row = |row: &Vec<Operand>| row.iter().map(operand).collect::<Option<Vec<Operand>>>();
    let keys: Vec<Option<Key>> = prepared
        .keys
        .iter()
        .map(|key| {
            let rows = key.rows.iter().map(row).collect::<Option<Vec<_>>>()?;
            Some(Key { columns: key.columns.clone(), rows })
        })
        .collect();
    let mut reading = StatementEffects::default();
    for access in &prepared.accesses {
        let lookup = access.key.and_then(|key| keys.get(usize::from(key))?.clone());
        let key = lookup.and_then(|key| {
            reading.keys.push(key);
            u16::try_from(reading.keys.len() - 1).ok()
        });
        let is_lost = access.key.is_some() && key.is_none() && access.aspect == RowAspect::New;
        let aspect = if is_lost { RowAspect::All } else { access.aspect };
        reading.accesses.push(Access { key, aspect, ..*access });
    }
    let moved_use = |one: &ValueUse| Some(ValueUse { position: moved(&one.position)?, ..*one });
    reading.uses = prepared.uses.iter().filter_map(moved_use).collect();
    reading.texts = prepared.texts.iter().filter_map(moved_use).collect();
    let parents = prepared.parents.iter();
    reading.parents = parents.filter_map(|&(of, at)| Some((of, moved(&at)?))).collect();
    let draws = prepared.draws.iter().cloned();
    reading.draws = draws
        .map(|draw| ValueDraw { each_of: draw.each_of.as_ref().and_then(moved), ..draw })
        .collect();
    reading.last_values.clone_from(&prepared.last_values);
    reading.passed_values = prepared.passed_values.iter().filter_map(moved).collect();
    reading.volatile.clone_from(&prepared.volatile);
    reading.accesses_anything = prepared.accesses_anything;
    reading.is_by_names = prepared.is_by_names;
    reading.has_unknown_table = prepared.has_unknown_table;
    reading.sets.clone_from(&prepared.sets);
    reading
}

impl StatementAnalyzer<'_, '_> {
    /// CREATE; temporary objects belong to the session.
    pub fn created(
        &mut self,
        tokens: &[FormToken<'_>],
        words: &[FormToken<'_>],
        scope: &Scope<'_>,
    ) {
        let is = |at: usize, any: &[&str]| words.get(at).is_some_and(|token| token.is_one_of(any));
        let mut at = passed(words, 1, &["or", "replace", "global", "local"]);
        if is(at, &["unique", "index"]) {
            return self.indexed(words);
        }
        if !is(at, &["temp", "temporary"]) {
            return self.mark_unknown();
        }
        at = passed(words, at + 1, &["recursive"]);
        if !is(at, &["table", "view", "sequence"]) {
            return self.mark_unknown();
        }
        let at = passed(words, at + 1, &["if", "not", "exists"]);
        let Some((name, _)) = name_at(words, at) else { return self.mark_unknown() };
        self.makes(&name);
        if let Some(query) = tokens.iter().position(|token| token.is_word("as")) {
            self.statement(without_data(&tokens[query + 1..]), scope);
        }
    }

    /// Notes a new temporary table.
    pub fn makes(&mut self, name: &Name) {
        let hides = self.lookup.everywhere(&name.name).next().is_some();
        self.effects.push(NamesChange::Makes(name.name.clone(), hides));
    }

    /// An index of a temporary table belongs to the session.
    fn indexed(&mut self, words: &[FormToken<'_>]) {
        let on = words.iter().position(|token| token.is_word("on"));
        let table = on.and_then(|on| name_at(words, passed(words, on + 1, &["only"])));
        match table {
            Some((name, _)) => self.note_temporary(&name),
            None => self.mark_unknown(),
        }
    }

    /// Accesses nothing if a name is that of a temporary table.
    fn note_temporary(&mut self, name: &Name) {
        match self.relations(name).as_slice() {
            [NamedObject::Temporary] => {}
            [NamedObject::Unknown] => {
                self.unknown.insert(name.name.clone());
            }
            _ => self.mark_unknown(),
        }
    }

    /// ALTER of a temporary table does not affect other sessions.
    pub fn altered(&mut self, words: &[FormToken<'_>]) {
        let is_renamed = words.iter().any(|token| token.is_one_of(&["rename", "schema"]));
        let kind = words.get(1).filter(|kind| kind.token.is_word("table") && !is_renamed);
        match kind.and_then(|_| name_at(words, passed(words, 2, &["if", "exists", "only"]))) {
            Some((name, _)) => self.note_temporary(&name),
            None => self.mark_unknown(),
        }
        if words.iter().any(|token| token.is_word("restart")) {
            let name = name_at(words, passed(words, 2, &["if", "exists", "only"]));
            self.begins_again(name.map(|(name, _)| name).as_ref());
        }
    }

    /// Restarts the sequence of a name, or those of a table; any if it is unknown.
    fn begins_again(&mut self, name: Option<&Name>) {
        match name.map(|name| self.relations(name)).as_deref() {
            Some([NamedObject::Table(table)]) => self.restarts(*table),
            Some([NamedObject::Sequence(sequence)]) => self.sequence_restarted(Some(*sequence)),
            Some([NamedObject::View(_) | NamedObject::Temporary | NamedObject::System]) => {}
            _ => self.sequence_restarted(None),
        }
    }

    /// DROP of temporary tables does not affect other sessions.
    pub fn dropped(&mut self, words: &[FormToken<'_>]) {
        let kinds = ["table", "view", "sequence"];
        if !words.get(1).is_some_and(|kind| kind.token.is_one_of(&kinds)) {
            return self.mark_unknown();
        }
        let mut at = passed(words, 2, &["if", "exists"]);
        while let Some((name, behind)) = name_at(words, at) {
            self.note_temporary(&name);
            if let [NamedObject::Table(_) | NamedObject::Sequence(_)] =
                self.relations(&name).as_slice()
            {
                self.begins_again(Some(&name));
            }
            self.effects.push(NamesChange::Drops(name.name));
            if !words.get(behind).is_some_and(|token| token.is_sign(",")) {
                return;
            }
            at = behind + 1;
        }
        self.mark_unknown();
    }

    /// PREPARE: its effects come with EXECUTE; the values in its text are there already.
    pub fn prepared(&mut self, tokens: &[FormToken<'_>], words: &[FormToken<'_>]) {
        let name = words.get(1).and_then(|token| text_of(&token.token));
        let query = tokens.iter().position(|token| token.is_word("as"));
        let (Some(name), Some(query)) = (name, query) else { return self.mark_unknown() };
        let mut analyzer =
            StatementAnalyzer::new(self.lookup, self.body_cache, self.literals, self.path);
        analyzer.depth = self.depth;
        let columns = analyzer.statement(&tokens[query + 1..], &Scope::default());
        analyzer.finish(&columns);
        let StatementAnalyzer { mut reading, unknown, .. } = analyzer;
        reading.accesses_anything |= !unknown.is_empty();
        self.reading.has_unknown_table |= reading.has_unknown_table;
        self.reading.is_by_names |= reading.is_by_names;
        let own =
            reading.uses.iter().filter(|one| matches!(one.position, ValuePosition::Literal(_)));
        self.reading.uses.extend(own);
        let own =
            reading.texts.iter().filter(|one| matches!(one.position, ValuePosition::Literal(_)));
        self.reading.texts.extend(own);
        self.effects.push(NamesChange::Prepares(name, Arc::new(reading)));
    }

    /// EXECUTE; the session knows the statement.
    pub fn executed(
        &mut self,
        tokens: &[FormToken<'_>],
        words: &[FormToken<'_>],
        scope: &Scope<'_>,
    ) {
        self.mark_unknown();
        let name = words.get(1).and_then(|token| text_of(&token.token));
        let Some(name) = name else { return };
        let (mut positions, mut others) = (Vec::new(), Vec::new());
        if words.get(2).is_some_and(|token| token.is_sign("(")) {
            let row = tokens.iter().position(|token| token.is_sign("("));
            let row = row.map_or(&[][..], |row| &tokens[row..]);
            let Some(values) = self.values_of(row) else { return };
            positions = values.iter().map(position).collect();
            values.iter().for_each(|value| self.expr(value, scope));
            self.record_values(values.iter());
            let made = values.iter().filter(|value| position(value).is_none());
            others = made.flat_map(|value| self.values_within(value)).collect();
        }
        self.effects.push(NamesChange::Executes(name, positions, others));
    }

    /// The expressions between parentheses.
    fn values_of(&mut self, row: &[FormToken<'_>]) -> Option<Vec<Expr>> {
        let Statement::Query(query) = parse("SELECT ROW", row, self.literals)? else {
            return None;
        };
        let Query { body, .. } = *query;
        let SetExpr::Select(select) = *body else { return None };
        let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice() else { return None };
        Some(super::expression::row(expr)?.into_iter().cloned().collect())
    }

    /// DEALLOCATE, DISCARD.
    pub fn forgotten(&mut self, words: &[FormToken<'_>]) {
        if words[0].token.is_word("discard") {
            let is_all = words[1..].iter().any(|token| token.is_word("all"));
            self.effects.extend(is_all.then_some(NamesChange::Forgets));
            return;
        }
        let name = deallocated_of(words.iter().map(|token| token.token));
        let name = name.map(|name| String::from_utf8_lossy(&name).into_owned());
        self.effects.push(NamesChange::Deallocates(name));
    }

    /// SET and RESET.
    pub fn set(&mut self, words: &[FormToken<'_>]) {
        let is_reset = words[0].token.is_word("reset");
        let is_local = words.get(1).is_some_and(|token| token.is_word("local"));
        let at = passed(words, 1, &["local", "session"]);
        let is_named = |any: &[&str]| words.get(at).is_some_and(|token| token.is_one_of(any));
        if is_reset && is_named(&["search_path", "all"]) {
            return self.effects.push(NamesChange::SetsPath(Path::Default, false));
        }
        if !is_named(&["search_path", "schema"]) {
            return;
        }
        let values: Vec<FormToken<'_>> =
            words[at + 1..].iter().filter(|token| !token.is_sign(",")).copied().collect();
        let skipped = values.iter().take_while(|token| token.text == b"=" || token.is_word("to"));
        let values = &values[skipped.count()..];
        let is_default = matches!(values, [one] if one.token.is_word("default"));
        let schema = |token: &FormToken<'_>| match token.literal {
            Some(literal) => {
                let text = unquoted(self.literals.look(literal));
                Some(String::from_utf8_lossy(&text).into_owned())
            }
            None => text_of(&token.token),
        };
        let path = values.iter().map(schema).collect::<Option<Vec<String>>>();
        let path = match path {
            _ if is_default => Path::Default,
            Some(path) => Path::Schemas(path.into()),
            None => Path::Unknown,
        };
        self.effects.push(NamesChange::SetsPath(path, is_local));
    }

    /// BEGIN, COMMIT, ROLLBACK and their like.
    pub fn bounded(&mut self, words: &[FormToken<'_>]) {
        match control_of(words.iter().map(|token| token.token)) {
            Control::Begin => self.effects.push(NamesChange::Begins),
            Control::End { is_undone, is_chained } => {
                let ends = if is_undone { NamesChange::RollsBack } else { NamesChange::Commits };
                self.effects.push(ends);
                self.effects.extend(is_chained.then_some(NamesChange::Begins));
            }
            Control::EndPrepared => self.mark_unknown(),
            Control::RollBackTo | Control::None => {}
        }
    }
}

/// Without the `WITH [NO] DATA` of CREATE TABLE AS.
fn without_data<'p, 'a>(tokens: &'p [FormToken<'a>]) -> &'p [FormToken<'a>] {
    let words = significant(tokens);
    let is_last = words.last().is_some_and(|token| token.is_word("data"));
    let with = tokens.iter().rposition(|token| token.is_word("with"));
    match with.filter(|_| is_last) {
        Some(with) => &tokens[..with],
        None => tokens,
    }
}
