//! What names mean within a statement.

use super::bounds::Bound;
use super::cast::Cast;
use super::{Access, ColumnOf, ValuePosition};

/// A column of something that rows come from.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The column of a table that it shows as it is.
    pub of: Option<ColumnOf>,
    /// All values that it has, where these are in the statement: VALUES.
    pub values: Vec<ValuePosition>,
    /// What they were cast to.
    pub cast: Cast,
    /// Values that it may have, among others: results of a CASE, arguments of `coalesce`.
    pub maybe: Vec<ValuePosition>,
    /// Values that its own are made of in another way.
    pub inside: Vec<ValuePosition>,
    /// The array of which each element is a row: `unnest`.
    pub array: Option<ValuePosition>,
    /// The draw that its values come from: a place in [`super::Reading::draws`].
    pub drawn: Option<usize>,
    /// It returns what the session drew last, of a sequence or of any.
    pub last_value: Option<Option<usize>>,
}

/// Columns of a query, or of anything else that gives rows.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Those that are known.
    pub columns: Vec<Column>,
    /// There may be others.
    pub is_open: bool,
    /// How many rows of VALUES, where it is these.
    pub rows: Option<u32>,
    /// It is one row for each element of an array.
    pub each_of: Option<ValuePosition>,
    /// Rows are those that fulfil a condition on some column, and none is left out.
    pub are_picked: bool,
}

/// Something in FROM.
#[derive(Clone, Debug)]
pub struct Item {
    /// The name that columns have before them.
    pub alias: String,
    /// Its columns.
    pub columns: Columns,
    /// The table, where it is one: what is accessed, and whose keys may be bound.
    pub table: Option<usize>,
    /// What is read for it, where it is no table but a view or a query.
    pub behind: Vec<Access>,
    /// It is changed or locked by the statement itself, which accounts for it.
    pub is_target: bool,
}

/// What names mean at some place of a statement.
#[derive(Clone, Debug, Default)]
pub struct Scope<'o> {
    /// What is in FROM.
    pub items: Vec<Item>,
    /// What the rows of the items have to fulfil, as far as it binds columns.
    pub bounds: Vec<Bound>,
    /// What WITH names.
    pub named: Vec<(String, Columns)>,
    /// What is around it.
    pub outer: Option<&'o Scope<'o>>,
}

/// A column that was found by its name.
#[derive(Clone, Debug)]
pub struct ResolvedColumn {
    /// The item in FROM of this scope; None where it is of one around.
    pub item: Option<usize>,
    /// The column.
    pub column: Column,
}

impl<'o> Scope<'o> {
    /// A scope within another.
    pub fn within(outer: &'o Scope<'o>) -> Scope<'o> {
        Scope { outer: Some(outer), ..Scope::default() }
    }

    /// What WITH names so.
    pub fn named(&self, name: &str) -> Option<&Columns> {
        let own = self.named.iter().rev().find(|(known, _)| known == name);
        own.map(|(_, columns)| columns).or_else(|| self.outer?.named(name))
    }

    /// The values that a column of an item of a scope around is bound to.
    pub fn bound_around(&self, table: Option<&str>, name: &str) -> Option<&Bound> {
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
