//! Uniqueness other than that of the key that rows are bound to.
//!
//! Two statements that name different rows by the same key may conflict all the same: `DELETE ..
//! WHERE id = 5` and `INSERT .. (id, email) VALUES (9, 'a')`, where the deleted row had that
//! address. So a statement that puts in values of a unique column writes there, by these values if
//! they are known, and a statement that removes some reads there, by unknown values.
//!
//! Nothing is recorded where the accessed rows say as much: all of a table; or those of a key that
//! is a part of the unique columns, as other values of the part are other values.

use super::bounds::ROWS_MAX;
use super::calls::is_draw;
use super::change::Set;
use super::consequence::values_set;
use super::insert::{Written, is_default};
use super::known::Unique;
use super::walk::Walk;
use super::{ColumnOf, Key, Only};
use crate::catalog::Generated;

impl Walk<'_, '_> {
    /// Rows are new if the values of all their keys are known, so that none can be another's
    /// unnoticed.
    pub fn only_written(&self, table: usize, written: &Written<'_>) -> Only {
        let mut given = self.given_unique(table, written).into_iter().filter(|(_, one)| one.is_key);
        let are_reported = given.all(|(_, one)| self.key_taken(table, written, &one).is_some());
        if are_reported { Only::New } else { Only::All }
    }

    /// Rows are added that are bound to a key: what they have that no others may have.
    pub fn takes_written(
        &mut self,
        table: usize,
        written: &Written<'_>,
        only: Only,
        key: Option<&Key>,
    ) {
        if key.is_none() && only != Only::New {
            return;
        }
        let is_single = self.known.unique(self.known.root(table)).count() == 1;
        for (number, one) in self.given_unique(table, written) {
            let is_said = key.is_some_and(|key| match only {
                Only::New => {
                    is_single && is_part(key, &one) && key.columns.len() == one.equal.len()
                }
                _ => is_part(key, &one),
            });
            if !is_said {
                let taken = self.key_taken(table, written, &one);
                self.unique(number, true, taken);
            }
        }
    }

    /// Columns of rows are set that are bound to a key.
    pub fn takes_set(&mut self, root: usize, key: &Key, set: &[Set]) {
        let is_set = |of: &ColumnOf| set.iter().any(|one| one.column == *of);
        let is_added = |of: &ColumnOf| set.iter().any(|one| one.column == *of && one.is_added);
        for (number, one) in self.all_unique(root) {
            if !one.columns.iter().any(is_set) || is_part(key, &one) {
                continue;
            }
            let is_reported =
                !one.equal.is_empty() && one.equal.iter().all(|&of| self.known.is_exact(of));
            let row = is_reported.then(|| values_set(&one.equal, set)).flatten();
            let taken = row.map(|row| Key { columns: one.equal.clone(), rows: vec![row] });
            if taken.is_some() || one.columns.iter().all(is_added) {
                self.unique(number, false, None);
            }
            if !one.columns.iter().all(is_added) {
                self.unique(number, true, taken);
            }
        }
    }

    /// Rows are taken away that are bound to a key, or anything may become of them.
    pub fn frees(&mut self, root: usize, key: Option<&Key>) {
        let Some(key) = key else { return };
        for (number, one) in self.all_unique(root) {
            if !is_part(key, &one) {
                self.unique(number, false, None);
            }
        }
    }

    fn all_unique(&self, root: usize) -> Vec<(usize, Unique)> {
        self.known.unique(root).map(|(number, one)| (number, one.clone())).collect()
    }

    /// What keeps apart rows that are written, but for what the server makes another each time.
    fn given_unique(&self, table: usize, written: &Written<'_>) -> Vec<(usize, Unique)> {
        let is_given = |(_, one): &(usize, Unique)| {
            !one.equal.iter().any(|&of| self.is_made(table, written, of, one.is_key))
        };
        self.all_unique(self.known.root(table)).into_iter().filter(is_given).collect()
    }

    /// Whether all rows have a value in a column that the server made for them, or, where NULL is
    /// no value, NULL.
    fn is_made(&self, table: usize, written: &Written<'_>, of: ColumnOf, null_too: bool) -> bool {
        let columns = self.known.table(table).map_or(&[][..], |table| &table.columns);
        let at = (0..columns.len()).find(|&at| self.known.column(table, at) == of);
        let Some((at, column)) = at.and_then(|at| Some((at, columns.get(at)?))) else {
            // A column of another child of the same parent.
            return null_too;
        };
        let is_other = matches!(column.generated, Some(Generated::Sequence(_) | Generated::Random));
        let Some(place) = written.columns.iter().position(|&own| own == at) else {
            let is_null = column.generated.is_none()
                && !column.has_default
                && column.default_function.is_none();
            return is_other || null_too && is_null;
        };
        match &written.given {
            Some(given) => {
                let drawn = given.columns.get(place).and_then(|column| column.drawn);
                let draw = drawn.and_then(|drawn| self.reading.draws.get(drawn));
                draw.is_some_and(|draw| draw.column == Some(of))
            }
            None => written.rows.iter().all(|row| {
                row.get(place).is_some_and(|value| is_draw(value) || is_other && is_default(value))
            }),
        }
    }

    /// The values that rows which are written have where no two may have the same.
    fn key_taken(&self, table: usize, written: &Written<'_>, one: &Unique) -> Option<Key> {
        let is_reported =
            !one.equal.is_empty() && one.equal.iter().all(|&of| self.known.is_exact(of));
        let rows = is_reported.then(|| self.rows_written(table, written, &one.equal)).flatten()?;
        let key = Key { columns: one.equal.clone(), rows };
        Some(key).filter(|key| key.rows.len() <= ROWS_MAX)
    }
}

/// Whether rows of other values of a key are of other values there too.
fn is_part(key: &Key, one: &Unique) -> bool {
    one.is_key && key.columns.iter().all(|of| one.equal.contains(of))
}
