//! INSERT, UPDATE, DELETE and MERGE.

use sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Merge, MergeAction, MergeClause,
    MergeClauseKind, MergeInsertExpr, MergeInsertKind, MergeUpdateKind, OutputClause, SelectItem,
    TableFactor, Update, UpdateTableFromKind,
};

use super::analyzer::{StatementAnalyzer, bounds_of};
use super::bounds;
use super::cast::Cast;
use super::expression::{position, row_or_one};
use super::from::{From, push};
use super::insert::{InsertedRows, is_default};
use super::lookup::{Name, NamedObject, folded};
use super::scope::{Columns, Scope};
use super::{ColumnId, RowAspect, UseKind, ValuePosition};
use crate::catalog::Generated;

/// A column that is assigned.
#[derive(Clone, Copy, Debug)]
pub struct ColumnAssignment {
    /// The column.
    pub column: ColumnId,
    /// The position of its value, if that is in the statement.
    pub value: Option<ValuePosition>,
    /// It is the value of the row that could not be added: `excluded`.
    pub is_added: bool,
}

impl StatementAnalyzer<'_, '_> {
    /// Returns the table to be changed; None if it is unknown. Then all candidates for the name
    /// count as changed. `adds` where rows may be added.
    pub fn target(&mut self, name: &Name, adds: bool) -> Option<usize> {
        let found = self.relations(name);
        if let [NamedObject::Table(table)] = found.as_slice() {
            return Some(*table);
        }
        self.reading.has_unknown_table |= !matches!(found.as_slice(), [NamedObject::View(_)]);
        for named in found {
            match named {
                NamedObject::Table(table) => self.changed(table, RowAspect::All, None, true),
                NamedObject::View(view) => self.change_view(view, adds),
                NamedObject::Sequence(sequence) => self.sequence(sequence, true),
                NamedObject::System => self.mark_unknown(),
                NamedObject::Temporary => {}
                NamedObject::Unknown => {
                    self.unknown.insert(name.name.clone());
                }
            }
        }
        None
    }

    /// Reads an UPDATE and returns the columns of RETURNING.
    pub fn update(&mut self, update: &Update, outer: &Scope<'_>) -> Columns {
        let mut scope = Scope::within(outer);
        let mut from = From::default();
        let tables = std::slice::from_ref(&update.table);
        let table = self.take_target(&update.table.relation, &mut scope, false);
        if !update.table.joins.is_empty() {
            self.mark_unknown();
            self.from(tables, &mut scope, &mut from);
        }
        match &update.from {
            Some(UpdateTableFromKind::AfterSet(tables)) => {
                self.from(tables, &mut scope, &mut from);
            }
            Some(UpdateTableFromKind::BeforeSet(_)) => self.mark_unknown(),
            None => {}
        }
        scope.bounds = bounds_of(update.selection.as_ref(), &from, &scope, self.lookup);
        let scope = scope;
        let draws = self.reading.draws.len();
        let set = self.assign(&update.assignments, &scope);
        self.filters(&from, update.selection.as_ref(), &scope);
        self.for_each_row(draws);
        self.read_items(&scope, &[]);
        if let Some(table) = table {
            let root = self.lookup.root(table);
            let key = bounds::key(&scope.bounds, 0, root, self.lookup);
            self.updated(table, key, &set);
        }
        self.returned(update.returning.as_deref(), update.output.as_ref(), &scope)
    }

    /// Reads a DELETE and returns the columns of RETURNING.
    pub fn delete(&mut self, delete: &Delete, outer: &Scope<'_>) -> Columns {
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let [target] = tables.as_slice() else { return self.nothing_known() };
        let mut scope = Scope::within(outer);
        let mut from = From::default();
        let table = self.take_target(&target.relation, &mut scope, false);
        if !target.joins.is_empty() || !delete.tables.is_empty() {
            return self.nothing_known();
        }
        if let Some(using) = &delete.using {
            self.from(using, &mut scope, &mut from);
        }
        scope.bounds = bounds_of(delete.selection.as_ref(), &from, &scope, self.lookup);
        let scope = scope;
        let draws = self.reading.draws.len();
        self.filters(&from, delete.selection.as_ref(), &scope);
        self.for_each_row(draws);
        self.read_items(&scope, &[]);
        if let Some(table) = table {
            let root = self.lookup.root(table);
            let key = bounds::key(&scope.bounds, 0, root, self.lookup);
            self.changed(table, RowAspect::All, key, true);
        }
        self.returned(delete.returning.as_deref(), delete.output.as_ref(), &scope)
    }

    /// The values drawn since are drawn for some rows only, an unknown number of them.
    pub fn for_each_row(&mut self, since: usize) {
        for draw in &mut self.reading.draws[since..] {
            (draw.count, draw.each_of) = (None, None);
        }
    }

    fn filters(&mut self, from: &From<'_>, selection: Option<&Expr>, scope: &Scope<'_>) {
        let conditions: Vec<&Expr> = from.conditions().chain(selection).collect();
        conditions.into_iter().for_each(|one| self.expr(one, scope));
    }

    fn returned(
        &mut self,
        items: Option<&[SelectItem]>,
        output: Option<&OutputClause>,
        scope: &Scope<'_>,
    ) -> Columns {
        match output {
            Some(OutputClause::Returning { select_items, .. }) => {
                self.projection(select_items, scope)
            }
            Some(OutputClause::Output { .. }) => self.nothing_known(),
            None => self.projection(items.unwrap_or(&[]), scope),
        }
    }

    /// Adds the changed table as the first item.
    fn take_target(
        &mut self,
        factor: &TableFactor,
        scope: &mut Scope<'_>,
        adds: bool,
    ) -> Option<usize> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            self.mark_unknown();
            return None;
        };
        let Some(name) = Name::of(name) else {
            self.mark_unknown();
            return None;
        };
        let table = self.target(&name, adds);
        let columns = match table {
            Some(table) => self.columns_of(table),
            None => self.columns_of_view(&name),
        };
        push(scope, columns, alias.as_ref(), &name.name);
        if let Some(item) = scope.items.last_mut() {
            (item.table, item.is_target) = (table, true);
        }
        table
    }

    /// The columns of a changed view; none if the name is ambiguous.
    pub fn columns_of_view(&mut self, name: &Name) -> Columns {
        match self.relations(name).as_slice() {
            [NamedObject::View(view)] => self.view(*view),
            _ => Columns { is_open: true, ..Columns::default() },
        }
    }

    /// Reads assignments, and returns the columns with the positions of their values.
    pub fn assign(
        &mut self,
        assignments: &[Assignment],
        scope: &Scope<'_>,
    ) -> Vec<ColumnAssignment> {
        let mut set = Vec::new();
        for Assignment { target, value } in assignments {
            self.expr(value, scope);
            let names = match target {
                AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
                AssignmentTarget::Tuple(names) => names,
            };
            let values = if names.len() == 1 { vec![value] } else { row_or_one(value) };
            let source = self.given_by(value).filter(|_| values.len() != names.len()).cloned();
            for (at, name) in names.iter().enumerate() {
                let name = Name::of(name).map(|name| name.name).unwrap_or_default();
                let target = scope.items.first().and_then(|item| {
                    item.columns.columns.iter().find(|column| column.name == name)
                });
                let Some(of) = target.and_then(|column| column.of) else {
                    continue;
                };
                let value = values.get(at).copied().filter(|_| values.len() == names.len());
                let shown = match value {
                    Some(value) => Some(self.shown(value, scope)),
                    None => source.as_ref().and_then(|source| source.columns.get(at)).cloned(),
                };
                if value.is_some_and(is_default) {
                    self.draws_default(of);
                }
                let fits = |value: &&Expr| Cast::of(value).fits(self.lookup.family(of));
                let position = value.filter(fits).and_then(position);
                let is_added = value.is_some_and(|value| is_excluded(value, &name));
                if let Some(shown) = shown {
                    self.record_all(of, &shown, UseKind::Written);
                }
                set.push(ColumnAssignment { column: of, value: position, is_added });
            }
        }
        set
    }

    /// A column is set to its default, in an unknown number of rows.
    fn draws_default(&mut self, of: ColumnId) {
        let column = self.lookup.table(of.table).and_then(|table| table.columns.get(of.column));
        let Some(column) = column else { return };
        if let Some(Generated::Sequence(sequence)) = column.generated {
            self.sequence(sequence, true);
            self.draws_unknown_number(sequence);
        }
        if let Some(function) = column.default_function {
            self.follow(function);
        }
    }

    /// Reads a MERGE and returns the columns of RETURNING.
    pub fn merge(&mut self, merge: &Merge, outer: &Scope<'_>) -> Columns {
        let mut scope = Scope::within(outer);
        let mut from = From::default();
        let table = self.take_target(&merge.table, &mut scope, true);
        self.factor(&merge.source, &mut scope, &mut from);
        // All rows of the source are read, and looked for among those of the target.
        let on = std::iter::once((&*merge.on, 0..1));
        scope.bounds = bounds::of(on.chain(from.bounding()), &scope, self.lookup);
        let scope = scope;
        let draws = self.reading.draws.len();
        self.expr(&merge.on, &scope);
        self.read_items(&scope, &[]);
        let mut sets = Vec::new();
        for clause in &merge.clauses {
            clause.predicate.iter().for_each(|one| self.expr(one, &scope));
            match &clause.action {
                MergeAction::Insert(insert) => self.merge_insert(insert, table, &scope),
                MergeAction::Update(update) => match &update.kind {
                    MergeUpdateKind::Set(set) => sets.push(self.assign(set, &scope)),
                    MergeUpdateKind::Wildcard => self.mark_unknown(),
                },
                MergeAction::Delete { .. } | MergeAction::DoNothing { .. } => {}
            }
        }
        self.for_each_row(draws);
        if let Some(table) = table {
            let is_of_others =
                |clause: &MergeClause| clause.clause_kind == MergeClauseKind::NotMatchedBySource;
            let key = bounds::key(&scope.bounds, 0, self.lookup.root(table), self.lookup);
            let key = key.filter(|_| !merge.clauses.iter().any(is_of_others));
            self.changed(table, RowAspect::All, key.clone(), true);
            for set in sets {
                self.sets(table, RowAspect::All, key.as_ref(), &set);
            }
        }
        match &merge.output {
            Some(output) => self.returned(None, Some(output), &scope),
            None => Columns::default(),
        }
    }

    fn merge_insert(&mut self, insert: &MergeInsertExpr, table: Option<usize>, scope: &Scope<'_>) {
        let MergeInsertKind::Values(values) = &insert.kind else { return self.mark_unknown() };
        let rows = values.rows.iter().map(|row| row.content.as_slice()).collect::<Vec<_>>();
        let Some(table) = table else {
            rows.iter().flat_map(|row| *row).for_each(|one| self.expr(one, scope));
            self.reading.has_unknown_table = true;
            return;
        };
        let all = self.lookup.table(table).map_or(&[][..], |table| &table.columns);
        let at = |name: Name| all.iter().position(|column| column.name == name.name);
        let mut columns: Vec<usize> =
            insert.columns.iter().filter_map(Name::of).filter_map(at).collect();
        if insert.columns.is_empty() {
            columns = (0..all.len().min(rows.first().map_or(0, |row| row.len()))).collect();
        }
        let mut inserted = InsertedRows { columns, rows, source: None, may_conflict: true };
        self.written_values(table, &inserted, scope);
        // The number of rows without a match is unknown.
        inserted.source = Some(Columns { is_open: true, ..Columns::default() });
        self.draw_columns(table, &inserted);
        self.added(table, &inserted, RowAspect::All, None);
    }
}

/// Whether a value is that of the column in the row that could not be added.
fn is_excluded(value: &Expr, column: &str) -> bool {
    match value {
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [table, own] => folded(table) == "excluded" && folded(own) == column,
            _ => false,
        },
        _ => false,
    }
}
