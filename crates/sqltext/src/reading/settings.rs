//! Statements about what a session has: temporary tables, prepared statements, the search path.

use std::sync::Arc;

use super::Place;
use super::command::{name_at, text_of};
use super::expression::place;
use super::known::{Name, Named};
use super::scope::Scope;
use super::session::{NamesChange, Path};
use super::text::{Piece, parse, significant};
use super::walk::Walk;
use crate::lexer::name::unquoted;
use crate::lexer::phrase::passed;
use crate::statements::{Control, control_of};
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Statement};

impl Walk<'_, '_> {
    /// CREATE: what is temporary is the session's own.
    pub fn created(&mut self, pieces: &[Piece<'_>], told: &[Piece<'_>], scope: &Scope<'_>) {
        let is = |at: usize, words: &[&str]| {
            told.get(at).is_some_and(|piece| piece.token.is_one_of(words))
        };
        let mut at = passed(told, 1, &["or", "replace", "global", "local"]);
        if is(at, &["unique", "index"]) {
            return self.indexed(told);
        }
        if !is(at, &["temp", "temporary"]) {
            return self.doubt();
        }
        at = passed(told, at + 1, &["recursive"]);
        if !is(at, &["table", "view", "sequence"]) {
            return self.doubt();
        }
        let at = passed(told, at + 1, &["if", "not", "exists"]);
        let Some((name, _)) = name_at(told, at) else { return self.doubt() };
        self.makes(&name);
        if let Some(query) = pieces.iter().position(|piece| piece.token.is_word("as")) {
            self.statement(without_data(&pieces[query + 1..]), scope);
        }
    }

    /// A temporary table of a name comes to be.
    pub fn makes(&mut self, name: &Name) {
        let hides = self.known.everywhere(&name.name).next().is_some();
        self.effects.push(NamesChange::Makes(name.name.clone(), hides));
    }

    /// An index of a temporary table is the session's own.
    fn indexed(&mut self, told: &[Piece<'_>]) {
        let on = told.iter().position(|piece| piece.token.is_word("on"));
        let table = on.and_then(|on| name_at(told, passed(told, on + 1, &["only"])));
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

    /// ALTER of a temporary table is nobody else's matter.
    pub fn altered(&mut self, told: &[Piece<'_>]) {
        let is_renamed = told.iter().any(|piece| piece.token.is_one_of(&["rename", "schema"]));
        let kind = told.get(1).filter(|kind| kind.token.is_word("table") && !is_renamed);
        match kind.and_then(|_| name_at(told, passed(told, 2, &["if", "exists", "only"]))) {
            Some((name, _)) => self.is_own(&name),
            None => self.doubt(),
        }
        if told.iter().any(|piece| piece.token.is_word("restart")) {
            let name = name_at(told, passed(told, 2, &["if", "exists", "only"]));
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

    /// DROP of temporary tables is nobody else's matter.
    pub fn dropped(&mut self, told: &[Piece<'_>]) {
        let kinds = ["table", "view", "sequence"];
        if !told.get(1).is_some_and(|kind| kind.token.is_one_of(&kinds)) {
            return self.doubt();
        }
        let mut at = passed(told, 2, &["if", "exists"]);
        while let Some((name, behind)) = name_at(told, at) {
            self.is_own(&name);
            if let [Named::Table(_) | Named::Sequence(_)] = self.relations(&name).as_slice() {
                self.begins_again(Some(&name));
            }
            self.effects.push(NamesChange::Drops(name.name));
            if !told.get(behind).is_some_and(|piece| piece.token.is_sign(",")) {
                return;
            }
            at = behind + 1;
        }
        self.doubt();
    }

    /// PREPARE: what it does comes with EXECUTE; the values that stand in it are there already.
    pub fn prepared(&mut self, pieces: &[Piece<'_>], told: &[Piece<'_>]) {
        let name = told.get(1).and_then(|piece| text_of(&piece.token));
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
        let own = reading.uses.iter().filter(|one| matches!(one.place, Place::Literal(_)));
        self.reading.uses.extend(own);
        let own = reading.texts.iter().filter(|one| matches!(one.place, Place::Literal(_)));
        self.reading.texts.extend(own);
        self.effects.push(NamesChange::Prepares(name, Arc::new(reading)));
    }

    /// EXECUTE: which statement that is, the session knows.
    pub fn executed(&mut self, pieces: &[Piece<'_>], told: &[Piece<'_>], scope: &Scope<'_>) {
        self.doubt();
        let name = told.get(1).and_then(|piece| text_of(&piece.token));
        let Some(name) = name else { return };
        let (mut places, mut others) = (Vec::new(), Vec::new());
        if told.get(2).is_some_and(|piece| piece.token.is_sign("(")) {
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
    pub fn forgotten(&mut self, told: &[Piece<'_>]) {
        let is = |word: &str| told[1..].iter().any(|piece| piece.token.is_word(word));
        if told[0].token.is_word("discard") {
            self.effects.extend(is("all").then_some(NamesChange::Forgets));
            return;
        }
        let name = told.last().and_then(|piece| text_of(&piece.token)).filter(|_| !is("all"));
        self.effects.push(NamesChange::Deallocates(name));
    }

    /// SET and RESET.
    pub fn set(&mut self, told: &[Piece<'_>]) {
        let is_reset = told[0].token.is_word("reset");
        let is_local = told.get(1).is_some_and(|piece| piece.token.is_word("local"));
        let at = passed(told, 1, &["local", "session"]);
        let is_named =
            |words: &[&str]| told.get(at).is_some_and(|piece| piece.token.is_one_of(words));
        if is_reset && is_named(&["search_path", "all"]) {
            return self.effects.push(NamesChange::SetsPath(Path::Default, false));
        }
        if !is_named(&["search_path", "schema"]) {
            return;
        }
        let values: Vec<Piece<'_>> =
            told[at + 1..].iter().filter(|piece| !piece.token.is_sign(",")).copied().collect();
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
    pub fn bounded(&mut self, told: &[Piece<'_>]) {
        match control_of(told.iter().map(|piece| piece.token)) {
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
    let told = significant(pieces);
    let is_last = told.last().is_some_and(|piece| piece.token.is_word("data"));
    let with = pieces.iter().rposition(|piece| piece.token.is_word("with"));
    match with.filter(|_| is_last) {
        Some(with) => &pieces[..with],
        None => pieces,
    }
}
