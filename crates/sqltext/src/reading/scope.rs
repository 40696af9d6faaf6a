//! Name resolution within a statement.

use super::bounds::KeyBound;
use super::cast::Cast;
use super::{Access, ColumnId, ValuePosition};

/// A column of a source of rows.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The column of a table that it shows unchanged.
    pub of: Option<ColumnId>,
    /// All its values, if they are in the statement: VALUES.
    pub values: Vec<ValuePosition>,
    /// Their casts.
    pub cast: Cast,
    /// Values that it may have, among others: results of a CASE, arguments of `coalesce`.
    pub maybe: Vec<ValuePosition>,
    /// Values that are parts of its own.
    pub inside: Vec<ValuePosition>,
    /// The array of which each element is a row: `unnest`.
    pub array: Option<ValuePosition>,
    /// The draw that its values come from: an index in [`super::StatementEffects::draws`].
    pub drawn: Option<usize>,
    /// It returns the last value that the session drew, from a sequence or from any.
    pub last_value: Option<Option<usize>>,
}

/// Columns of a source of rows.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The known columns.
    pub columns: Vec<Column>,
    /// There may be others.
    pub is_open: bool,
    /// The number of rows of VALUES.
    pub rows: Option<u32>,
    /// It is one row for each element of an array.
    pub each_of: Option<ValuePosition>,
    /// Rows are all those that satisfy a condition.
    pub are_picked: bool,
}

/// An item of FROM.
#[derive(Clone, Debug)]
pub struct Item {
    /// The qualifier of its columns.
    pub alias: String,
    /// Its columns.
    pub columns: Columns,
    /// The table, if it is one.
    pub table: Option<usize>,
    /// The accesses of a view or a query.
    pub behind: Vec<Access>,
    /// The statement itself changes or locks it, and records that.
    pub is_target: bool,
}

/// The names that are visible in a part of a statement.
#[derive(Clone, Debug, Default)]
pub struct Scope<'o> {
    /// The items of FROM.
    pub items: Vec<Item>,
    /// The conditions that bind columns of the items.
    pub bounds: Vec<KeyBound>,
    /// The queries of WITH.
    pub named: Vec<(String, Columns)>,
    /// The enclosing scope.
    pub outer: Option<&'o Scope<'o>>,
}

/// A column that was found by its name.
#[derive(Clone, Debug)]
pub struct ResolvedColumn {
    /// The item of FROM in this scope; None if it is of an enclosing one.
    pub item: Option<usize>,
    /// The column.
    pub column: Column,
}

impl<'o> Scope<'o> {
    /// A scope within another.
    pub fn within(outer: &'o Scope<'o>) -> Scope<'o> {
        Scope { outer: Some(outer), ..Scope::default() }
    }

    /// The query of WITH with this name.
    pub fn named(&self, name: &str) -> Option<&Columns> {
        let own = self.named.iter().rev().find(|(lookup, _)| lookup == name);
        own.map(|(_, columns)| columns).or_else(|| self.outer?.named(name))
    }

    /// The values that a column of an enclosing scope is bound to.
    pub fn bound_around(&self, table: Option<&str>, name: &str) -> Option<&KeyBound> {
        let outer = self.outer?;
        let ResolvedColumn { item, column } = outer.column(table, name)?;
        match (item, column.of) {
            (Some(item), Some(of)) => outer.bounds.iter().find(|bound| bound.is_of(item, of)),
            (None, Some(_)) => outer.bound_around(table, name),
            (_, None) => None,
        }
    }

    /// The column of a name, with or without that of its table before it. None where it is not
    /// known or could be several.
    pub fn column(&self, table: Option<&str>, name: &str) -> Option<ResolvedColumn> {
        let is_item = |item: &Item| table.is_none_or(|table| item.alias == table);
        let mut is_open = false;
        // Of several, as USING and NATURAL allow, all are the same, and the first will do.
        for (at, item) in self.items.iter().enumerate().filter(|(_, item)| is_item(item)) {
            let column = item.columns.columns.iter().find(|column| column.name == name);
            if let Some(column) = column {
                return Some(ResolvedColumn { item: Some(at), column: column.clone() });
            }
            is_open |= item.columns.is_open;
        }
        if is_open {
            return None;
        }
        let outer = self.outer?.column(table, name)?;
        Some(ResolvedColumn { item: None, ..outer })
    }
}
