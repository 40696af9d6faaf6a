//! INSERT: rows that are added, and the values that the server generates for them.

use sqlparser::ast::{
    ConflictTarget, Expr, Insert, OnConflict, OnConflictAction, OnInsert, Query, SetExpr,
    TableObject,
};

use super::analyzer::{StatementAnalyzer, is_limited};
use super::calls::is_draw;
use super::cast::Cast;
use super::change::ColumnAssignment;
use super::expression::position;
use super::lookup::{Name, folded};
use super::scope::{Column, Columns, Item, Scope};
use super::{ColumnId, Key, Operand, RowAspect, UseKind, ValueDraw, ValuePosition, ValueSource};
use crate::catalog::Generated;

/// Rows that are written to a table.
pub struct InsertedRows<'a> {
    /// The columns, by number.
    pub columns: Vec<usize>,
    /// Rows of VALUES.
    pub rows: Vec<&'a [Expr]>,
    /// The columns of a query instead.
    pub source: Option<Columns>,
    /// Whether existing rows may be used instead.
    pub may_conflict: bool,
}

impl StatementAnalyzer<'_, '_> {
    /// Reads an INSERT and returns the columns of RETURNING.
    pub fn insert(&mut self, insert: &Insert, outer: &Scope<'_>) -> Columns {
        let is_other = insert.or.is_some()
            || insert.overwrite
            || insert.replace_into
            || !insert.assignments.is_empty()
            || insert.partitioned.is_some();
        let TableObject::TableName(name) = &insert.table else { return self.nothing_known() };
        let Some(name) = Name::of(name).filter(|_| !is_other) else { return self.nothing_known() };
        let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
        let Some(table) = self.target(&name, true) else {
            let columns = self.columns_of_view(&name);
            self.rest_of_insert(insert, columns, outer);
            return Columns { is_open: true, ..Columns::default() };
        };
        let conflict = match &insert.on {
            Some(OnInsert::OnConflict(conflict)) => Some(conflict),
            Some(_) => return self.nothing_known(),
            None => None,
        };
        let draws = self.reading.draws.len();
        let names = insert.columns.iter().filter_map(Name::of).map(|name| name.name);
        let mut inserted = self.inserted(table, names, insert.source.as_deref(), outer);
        inserted.may_conflict = conflict.is_some();
        self.draw_columns(table, &inserted);
        let scope = self.scope_of_target(table, alias.unwrap_or(name.name), outer);
        self.insert_rows(table, &inserted, conflict, &scope);
        if conflict.is_some() {
            let key = self.key_in_the_way(table, &inserted, conflict, &scope);
            self.reading.row_key = key.and_then(|key| self.key(key));
        }
        let mut returned = self.projection(insert.returning.as_deref().unwrap_or(&[]), &scope);
        for column in &mut returned.columns {
            let of = column.of;
            let drawn = self.reading.draws[draws..]
                .iter()
                .position(|draw| draw.column.is_some() && draw.column == of);
            column.drawn = drawn.map(|at| draws + at);
            let own = column.last_value.and_then(|sequence| self.only_draw(draws, sequence));
            if own.is_some() {
                (column.drawn, column.last_value) = (own, None);
            }
        }
        returned
    }

    /// The draw whose value `currval` of a sequence, or `lastval`, returns: the only one of the
    /// statement, if it is of an INSERT of one row whose draws begin at `since`.
    fn only_draw(&self, since: usize, sequence: Option<usize>) -> Option<usize> {
        let is_of = |draw: &ValueDraw| match draw.source {
            ValueSource::Sequence(of) => sequence.is_none_or(|sequence| sequence == of),
            ValueSource::Random | ValueSource::Time => false,
        };
        let mut all = self.reading.draws.iter().enumerate().filter(|(_, draw)| is_of(draw));
        let (at, draw) = all.next()?;
        let is_only = all.next().is_none() && at >= since;
        (is_only && draw.column.is_some() && draw.count == Some(1)).then_some(at)
    }

    pub fn nothing_known(&mut self) -> Columns {
        self.mark_unknown();
        Columns { is_open: true, ..Columns::default() }
    }

    /// Reads the source of an INSERT whose table is unknown, and the values of columns
    /// of one into a view.
    fn rest_of_insert(&mut self, insert: &Insert, columns: Columns, outer: &Scope<'_>) {
        if let Some(source) = &insert.source {
            let source = self.query(source, outer);
            let names = insert.columns.iter().filter_map(Name::of).map(|name| name.name);
            let named = |name: String| columns.columns.iter().find(|column| column.name == name);
            let inserted: Vec<Option<&Column>> = match insert.columns.is_empty() {
                true => columns.columns.iter().map(Some).collect(),
                false => names.map(named).collect(),
            };
            for (column, values) in inserted.into_iter().zip(&source.columns) {
                column.into_iter().for_each(|column| self.same(column, values, UseKind::Written));
            }
        }
        let item = Item {
            alias: String::new(),
            columns,
            table: None,
            behind: Vec::new(),
            is_target: true,
        };
        let scope = Scope { items: vec![item], ..Scope::within(outer) };
        self.projection(insert.returning.as_deref().unwrap_or(&[]), &scope);
        if let Some(OnInsert::OnConflict(conflict)) = &insert.on {
            self.conflict_parts(conflict, &scope);
        }
    }

    fn scope_of_target<'o>(&self, table: usize, alias: String, outer: &'o Scope<'o>) -> Scope<'o> {
        let columns = self.columns_of(table);
        let item = Item { alias, columns, table: Some(table), behind: Vec::new(), is_target: true };
        Scope { items: vec![item], ..Scope::within(outer) }
    }

    /// Reads the written rows, and the values of columns in them.
    fn inserted<'a>(
        &mut self,
        table: usize,
        names: impl Iterator<Item = String>,
        source: Option<&'a Query>,
        outer: &Scope<'_>,
    ) -> InsertedRows<'a> {
        let all = self.lookup.table(table).map_or(&[][..], |table| &table.columns);
        let at = |name: &String| all.iter().position(|column| column.name == *name);
        let names: Vec<String> = names.collect();
        let is_named = !names.is_empty();
        let mut columns: Vec<usize> = names.iter().filter_map(at).collect();
        if columns.len() < names.len() {
            // The catalogue is of another state of the table.
            self.mark_unknown();
        }
        let mut inserted = InsertedRows {
            columns: Vec::new(),
            rows: Vec::new(),
            source: None,
            may_conflict: false,
        };
        let Some(source) = source else {
            // DEFAULT VALUES.
            inserted.rows.push(&[]);
            return inserted;
        };
        let width = match (&source.with, &*source.body) {
            (None, SetExpr::Values(values)) if !is_limited(source) => {
                inserted.rows = values.rows.iter().map(|row| row.content.as_slice()).collect();
                inserted.rows.first().map_or(0, |row| row.len())
            }
            _ => {
                let source = self.query(source, outer);
                let width = if source.is_open { all.len() } else { source.columns.len() };
                inserted.source = Some(source);
                width
            }
        };
        if !is_named {
            columns = (0..all.len().min(width)).collect();
        }
        inserted.columns = columns;
        self.written_values(table, &inserted, outer);
        inserted
    }

    pub fn written_values(&mut self, table: usize, inserted: &InsertedRows<'_>, outer: &Scope<'_>) {
        for row in &inserted.rows {
            for (&column, value) in inserted.columns.iter().zip(*row) {
                let draws = self.reading.draws.len();
                self.expr(value, outer);
                let of = self.lookup.column(table, column);
                let shown = self.shown(value, outer);
                self.record_all(of, &shown, UseKind::Written);
                if is_draw(value) && self.reading.draws.len() == draws + 1 {
                    self.draws_for(of, draws);
                }
            }
        }
        let Some(source) = &inserted.source else { return };
        for (&column, shown) in inserted.columns.iter().zip(&source.columns) {
            let of = self.lookup.column(table, column);
            self.record_all(of, shown, UseKind::Written);
            let draw = shown.drawn.and_then(|at| self.reading.draws.get_mut(at));
            // What another INSERT drew belongs to that one; this one gets it from the server.
            if let Some(draw) = draw.filter(|draw| draw.column.is_none()) {
                draw.column = Some(of);
                (draw.count, draw.each_of) = (source.rows, source.each_of);
            }
        }
    }

    /// Assigns a draw to a column; the same one in several rows has as many values.
    fn draws_for(&mut self, of: ColumnId, at: usize) {
        let draws = &mut self.reading.draws;
        draws[at].column = Some(of);
        let source = draws[at].source;
        let mut earlier = draws[..at].iter_mut();
        let lookup = earlier.find(|draw| draw.column == Some(of) && draw.source == source);
        if let Some(lookup) = lookup {
            lookup.count = lookup.count.map(|count| count + 1);
            draws.truncate(at);
        }
    }

    /// Records the values that the server generates for columns without a value.
    pub fn draw_columns(&mut self, table: usize, inserted: &InsertedRows<'_>) {
        let Some(columns) = self.lookup.table(table).map(|table| &table.columns) else { return };
        for (at, column) in columns.iter().enumerate() {
            if column.generated.is_none() && column.default_function.is_none() {
                continue;
            }
            let position = inserted.columns.iter().position(|&of| of == at);
            let count = match position {
                Some(position) => inserted.defaults(position),
                None => Some(inserted.count()),
            };
            let Some((count, each_of)) = count else { continue };
            if let Some(function) = column.default_function {
                self.follow(function);
            }
            let Some(generated) = column.generated else { continue };
            let source = match generated {
                Generated::Sequence(sequence) => {
                    self.sequence(sequence, true);
                    ValueSource::Sequence(sequence)
                }
                Generated::Random => ValueSource::Random,
                Generated::Time => ValueSource::Time,
            };
            let column = Some(self.lookup.column(table, at));
            let may_conflict = inserted.may_conflict;
            let draw = ValueDraw { source, column, count, each_of, may_conflict, returned: None };
            self.reading.draws.push(draw);
        }
    }

    /// Records the rows that an INSERT adds.
    fn insert_rows(
        &mut self,
        table: usize,
        inserted: &InsertedRows<'_>,
        conflict: Option<&OnConflict>,
        scope: &Scope<'_>,
    ) {
        let Some(conflict) = conflict else {
            let key = self.key_written(table, inserted, None);
            let aspect = self.only_written(table, inserted);
            return self.added(table, inserted, aspect, key);
        };
        let set = self.conflict_parts(conflict, scope);
        let target = conflict_columns(conflict, scope);
        let key = match target {
            Some(target) => self.key_written(table, inserted, Some(&target)),
            None => None,
        };
        self.added(table, inserted, RowAspect::All, key.clone());
        self.sets(table, RowAspect::All, key.as_ref(), &set);
    }

    /// The unique key of the written rows, or of the existing ones that conflict with them.
    fn key_in_the_way(
        &self,
        table: usize,
        inserted: &InsertedRows<'_>,
        conflict: Option<&OnConflict>,
        scope: &Scope<'_>,
    ) -> Option<Key> {
        let target = conflict.and_then(|conflict| conflict_columns(conflict, scope));
        let has_other = conflict.is_some_and(|one| one.conflict_target.is_some());
        match target {
            Some(target) => self.key_written(table, inserted, Some(&target)),
            None if has_other => None,
            None => self.key_written(table, inserted, None),
        }
    }

    /// Reads DO UPDATE, and returns the columns that are set.
    pub fn conflict_parts(
        &mut self,
        conflict: &OnConflict,
        scope: &Scope<'_>,
    ) -> Vec<ColumnAssignment> {
        let OnConflictAction::DoUpdate(update) = &conflict.action else { return Vec::new() };
        let mut excluded = scope.clone();
        if let Some(mut item) = scope.items.first().cloned() {
            item.alias = "excluded".to_owned();
            item.columns.is_open = false;
            item.table = None;
            excluded.items.push(item);
        }
        let set = self.assign(&update.assignments, &excluded);
        update.selection.iter().for_each(|one| self.expr(one, &excluded));
        set
    }

    /// The key whose values are all in the rows of VALUES; `target` if it has to be that one.
    pub fn key_written(
        &self,
        table: usize,
        inserted: &InsertedRows<'_>,
        target: Option<&[ColumnId]>,
    ) -> Option<Key> {
        let root = self.lookup.root(table);
        let is_target = |key: &Vec<ColumnId>| {
            target.is_none_or(|target| {
                key.len() == target.len() && key.iter().all(|of| target.contains(of))
            })
        };
        self.lookup.keys(root).filter(is_target).find_map(|columns| {
            let is_exact = columns.iter().all(|&of| self.lookup.is_exact(of));
            let rows = is_exact.then(|| self.rows_written(table, inserted, &columns)).flatten()?;
            Some(Key { columns, rows })
        })
    }

    /// The values of columns in the written rows.
    pub fn rows_written(
        &self,
        table: usize,
        inserted: &InsertedRows<'_>,
        columns: &[ColumnId],
    ) -> Option<Vec<Vec<Operand>>> {
        let at = |of: &ColumnId| {
            inserted.columns.iter().position(|&own| self.lookup.column(table, own) == *of)
        };
        let positions = columns.iter().map(at).collect::<Option<Vec<usize>>>()?;
        match &inserted.source {
            None => {
                let value = |row: &[Expr], (&at, &of): (&usize, &ColumnId)| {
                    let value = row.get(at)?;
                    let fits = Cast::of(value).fits(self.lookup.family(of));
                    position(value).filter(|_| fits).map(Operand::One)
                };
                let row = |row: &&[Expr]| {
                    positions.iter().zip(columns).map(|one| value(row, one)).collect()
                };
                inserted.rows.iter().map(row).collect()
            }
            Some(source) => {
                let count = usize::try_from(source.rows?).ok()?;
                let value = |(&at, &of): (&usize, &ColumnId), row: usize| {
                    let source = source.columns.get(at)?;
                    let fits = source.cast.fits(self.lookup.family(of));
                    (fits && source.values.len() == count).then(|| Operand::One(source.values[row]))
                };
                let row =
                    |row: usize| positions.iter().zip(columns).map(|one| value(one, row)).collect();
                (0..count).map(row).collect()
            }
        }
    }
}

/// The columns that ON CONFLICT names.
fn conflict_columns(conflict: &OnConflict, scope: &Scope<'_>) -> Option<Vec<ColumnId>> {
    let Some(ConflictTarget::Columns(names)) = &conflict.conflict_target else { return None };
    let found = names.iter().map(|name| scope.column(None, &folded(name))?.column.of);
    found.collect()
}

/// Rows whose values are unknown.
pub fn unseen<'a>(columns: Vec<usize>) -> InsertedRows<'a> {
    let source = Some(Columns { is_open: true, ..Columns::default() });
    InsertedRows { columns, rows: Vec::new(), source, may_conflict: false }
}

impl InsertedRows<'_> {
    /// The number of rows, or the array with one element for each.
    pub fn count(&self) -> (Option<u32>, Option<ValuePosition>) {
        match &self.source {
            Some(source) => (source.rows, source.each_of),
            None => (u32::try_from(self.rows.len()).ok(), None),
        }
    }

    /// The number of rows with DEFAULT in a column; None if there are none.
    fn defaults(&self, position: usize) -> Option<(Option<u32>, Option<ValuePosition>)> {
        let rows = self.rows.iter().filter(|row| row.get(position).is_some_and(is_default));
        let count = rows.count();
        (count > 0).then(|| (u32::try_from(count).ok(), None))
    }
}

/// Whether a value is DEFAULT.
pub fn is_default(value: &Expr) -> bool {
    match value {
        Expr::Identifier(name) => {
            name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default")
        }
        _ => false,
    }
}
