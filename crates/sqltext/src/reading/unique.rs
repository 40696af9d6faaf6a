//! Uniqueness other than that of the key that rows are bound to.
//!
//! Two statements that state different rows by the same key may still conflict: `DELETE ..
//! WHERE id = 5` and `INSERT .. (id, email) VALUES (9, 'a')`, where the deleted row had that
//! address. So a statement that adds values of a unique column writes there, by these values if
//! they are known, and a statement that removes values reads there, by unknown values.
//!
//! Nothing is recorded if the accessed rows imply it: all of a table; or those of a key that
//! is a part of the unique columns.

use super::analyzer::StatementAnalyzer;
use super::bounds::ROWS_MAX;
use super::calls::is_draw;
use super::change::ColumnAssignment;
use super::consequence::values_set;
use super::insert::{InsertedRows, is_default};
use super::lookup::Unique;
use super::{ColumnId, Key, RowAspect};
use crate::catalog::Generated;

impl StatementAnalyzer<'_, '_> {
    /// Rows are new if the values of all their keys are known, so that none can be an existing
    /// one unnoticed.
    pub fn only_written(&self, table: usize, inserted: &InsertedRows<'_>) -> RowAspect {
        let mut keys = self.given_unique(table, inserted).into_iter().filter(|(_, one)| one.is_key);
        let are_reported = keys.all(|(_, one)| self.key_taken(table, inserted, &one).is_some());
        if are_reported { RowAspect::New } else { RowAspect::All }
    }

    /// Records the unique values of added rows that are bound to a key.
    pub fn takes_written(
        &mut self,
        table: usize,
        inserted: &InsertedRows<'_>,
        aspect: RowAspect,
        key: Option<&Key>,
    ) {
        if key.is_none() && aspect != RowAspect::New {
            return;
        }
        let is_single = self.lookup.unique(self.lookup.root(table)).count() == 1;
        for (number, one) in self.given_unique(table, inserted) {
            let is_said = key.is_some_and(|key| match aspect {
                RowAspect::New => {
                    is_single && is_part(key, &one) && key.columns.len() == one.equal.len()
                }
                _ => is_part(key, &one),
            });
            if !is_said {
                let taken = self.key_taken(table, inserted, &one);
                self.unique(number, true, taken);
            }
        }
    }

    /// Records the unique values of updated rows that are bound to a key.
    pub fn takes_set(&mut self, root: usize, key: &Key, set: &[ColumnAssignment]) {
        let is_set = |of: &ColumnId| set.iter().any(|one| one.column == *of);
        let is_added = |of: &ColumnId| set.iter().any(|one| one.column == *of && one.is_added);
        for (number, one) in self.all_unique(root) {
            if !one.columns.iter().any(is_set) || is_part(key, &one) {
                continue;
            }
            let is_exact =
                !one.equal.is_empty() && one.equal.iter().all(|&of| self.lookup.is_exact(of));
            let row = is_exact.then(|| values_set(&one.equal, set)).flatten();
            let taken = row.map(|row| Key { columns: one.equal.clone(), rows: vec![row] });
            if taken.is_some() || one.columns.iter().all(is_added) {
                self.unique(number, false, None);
            }
            if !one.columns.iter().all(is_added) {
                self.unique(number, true, taken);
            }
        }
    }

    /// Records the unique values of rows that are deleted or changed in an unknown way.
    pub fn frees(&mut self, root: usize, key: Option<&Key>) {
        let Some(key) = key else { return };
        for (number, one) in self.all_unique(root) {
            if !is_part(key, &one) {
                self.unique(number, false, None);
            }
        }
    }

    fn all_unique(&self, root: usize) -> Vec<(usize, Unique)> {
        self.lookup.unique(root).map(|(number, one)| (number, one.clone())).collect()
    }

    /// The uniquenesses of written rows, without those that the server generates.
    fn given_unique(&self, table: usize, inserted: &InsertedRows<'_>) -> Vec<(usize, Unique)> {
        let is_given = |(_, one): &(usize, Unique)| {
            !one.equal.iter().any(|&of| self.is_made(table, inserted, of, one.is_key))
        };
        self.all_unique(self.lookup.root(table)).into_iter().filter(is_given).collect()
    }

    /// Whether the server generates the values of a column for all rows, or, where NULL is
    /// not a value, whether they are NULL.
    fn is_made(
        &self,
        table: usize,
        inserted: &InsertedRows<'_>,
        of: ColumnId,
        null_too: bool,
    ) -> bool {
        let columns = self.lookup.table(table).map_or(&[][..], |table| &table.columns);
        let at = (0..columns.len()).find(|&at| self.lookup.column(table, at) == of);
        let Some((at, column)) = at.and_then(|at| Some((at, columns.get(at)?))) else {
            // A column of another child of the same parent.
            return null_too;
        };
        let is_other = matches!(column.generated, Some(Generated::Sequence(_) | Generated::Random));
        let Some(position) = inserted.columns.iter().position(|&own| own == at) else {
            let is_null = column.generated.is_none()
                && !column.has_default
                && column.default_function.is_none();
            return is_other || null_too && is_null;
        };
        match &inserted.source {
            Some(source) => {
                let drawn = source.columns.get(position).and_then(|column| column.drawn);
                let draw = drawn.and_then(|drawn| self.reading.draws.get(drawn));
                draw.is_some_and(|draw| draw.column == Some(of))
            }
            None => inserted.rows.iter().all(|row| {
                row.get(position)
                    .is_some_and(|value| is_draw(value) || is_other && is_default(value))
            }),
        }
    }

    /// The unique values of written rows.
    fn key_taken(&self, table: usize, inserted: &InsertedRows<'_>, one: &Unique) -> Option<Key> {
        let is_exact =
            !one.equal.is_empty() && one.equal.iter().all(|&of| self.lookup.is_exact(of));
        let rows = is_exact.then(|| self.rows_written(table, inserted, &one.equal)).flatten()?;
        let key = Key { columns: one.equal.clone(), rows };
        Some(key).filter(|key| key.rows.len() <= ROWS_MAX)
    }
}

/// Whether different values of a key imply different values there.
fn is_part(key: &Key, one: &Unique) -> bool {
    one.is_key && key.columns.iter().all(|of| one.equal.contains(of))
}
