//! Keys that rows are bound to by conditions.

use std::ops::Range;

use sqlparser::ast::{BinaryOperator, Expr};

use super::cast::Cast;
use super::expression::{column, plain, position, row, row_or_one};
use super::lookup::{CatalogLookup, folded};
use super::scope::Scope;
use super::{ColumnId, Key, Operand};

/// Limit for the rows of values of a statement; with more, any rows may be accessed.
pub const ROWS_MAX: usize = 10_000;

/// A column of an item in FROM.
type ItemColumn = (usize, ColumnId);

/// Columns that have one of these rows of values; other rows of the item do not matter.
#[derive(Clone, Debug)]
pub struct KeyBound {
    columns: Vec<ItemColumn>,
    rows: Vec<Vec<Operand>>,
    /// The VALUES in FROM that the rows are of, one for one.
    values: Option<usize>,
}

impl KeyBound {
    /// Whether it binds this column, and no other.
    pub fn is_of(&self, item: usize, column: ColumnId) -> bool {
        self.columns == [(item, column)]
    }
}

/// Two equal columns, and the items that this applies to.
struct EqualColumns {
    one: ItemColumn,
    other: ItemColumn,
    items: Range<usize>,
}

/// The bounds of conditions, each with the items that it applies to.
pub fn of<'e>(
    conditions: impl Iterator<Item = (&'e Expr, Range<usize>)>,
    scope: &Scope<'_>,
    lookup: &CatalogLookup,
) -> Vec<KeyBound> {
    let (mut bounds, mut same) = (Vec::new(), Vec::new());
    for (condition, items) in conditions {
        for part in conjuncts(condition) {
            if let Some(bound) = bound(part, scope, lookup) {
                if bound.columns.iter().all(|(item, _)| items.contains(item)) {
                    bounds.push(bound);
                }
            } else if let Some((one, other)) = same_columns(part, scope) {
                same.push(EqualColumns { one, other, items: items.clone() });
            }
        }
    }
    spread(&mut bounds, &same);
    bounds
}

/// Extends the bounds of a column to those that are equal to it.
fn spread(bounds: &mut Vec<KeyBound>, same: &[EqualColumns]) {
    let mut at = 0;
    while let Some(bound) = bounds.get(at).cloned() {
        at += 1;
        let [of] = bound.columns.as_slice() else { continue };
        for EqualColumns { one, other, items } in same {
            for (from, to) in [(one, other), (other, one)] {
                let is_bound = bounds.iter().any(|bound| bound.columns == [*to]);
                if from == of && items.contains(&to.0) && !is_bound {
                    bounds.push(KeyBound { columns: vec![*to], ..bound.clone() });
                }
            }
        }
    }
}

/// The operands of AND.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    let (mut found, mut open) = (Vec::new(), vec![condition]);
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                open.extend([&**right, left])
            }
            Expr::Nested(inner) => open.push(inner),
            _ => found.push(expr),
        }
    }
    found
}

fn bound(condition: &Expr, scope: &Scope<'_>, lookup: &CatalogLookup) -> Option<KeyBound> {
    match condition {
        Expr::Nested(inner) => bound(inner, scope, lookup),
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right }
        | Expr::IsNotDistinctFrom(left, right) => {
            equal(left, right, scope, lookup).or_else(|| equal(right, left, scope, lookup))
        }
        Expr::InList { expr, list, negated: false } => listed(expr, list, scope, lookup),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            any_of(left, right, scope, lookup)
        }
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => either(condition, scope, lookup),
        _ => None,
    }
}

/// `a = 1 OR a = 2`: one of the values, where all alternatives bind the same columns.
fn either(condition: &Expr, scope: &Scope<'_>, lookup: &CatalogLookup) -> Option<KeyBound> {
    let mut open = vec![condition];
    let mut found: Option<KeyBound> = None;
    while let Some(expr) = open.pop() {
        if let Expr::BinaryOp { left, op: BinaryOperator::Or, right } = expr {
            open.extend([&**right, left]);
            continue;
        }
        let next = both(expr, scope, lookup)?;
        match &mut found {
            Some(found) if found.columns == next.columns => found.rows.extend(next.rows),
            Some(_) => return None,
            None => found = Some(next),
        }
    }
    found
}

/// The common bound of several conditions: `a = 1 AND b = 2`.
fn both(condition: &Expr, scope: &Scope<'_>, lookup: &CatalogLookup) -> Option<KeyBound> {
    let mut bounds: Vec<KeyBound> =
        conjuncts(condition).into_iter().filter_map(|part| bound(part, scope, lookup)).collect();
    bounds.sort_by(|one, other| one.columns.cmp(&other.columns));
    bounds.dedup_by(|one, other| one.columns == other.columns);
    bounds.into_iter().reduce(product).filter(|bound| bound.rows.len() <= ROWS_MAX)
}

/// All rows of one with all of the other.
fn product(one: KeyBound, other: KeyBound) -> KeyBound {
    let mut rows = Vec::new();
    let columns = [one.columns.as_slice(), &other.columns].concat();
    if one.values.is_some() && one.values == other.values && one.rows.len() == other.rows.len() {
        let pairs = one.rows.iter().zip(&other.rows);
        let rows = pairs.map(|(left, right)| [left.as_slice(), right].concat()).collect();
        return KeyBound { columns, rows, values: one.values };
    }
    if one.rows.len().saturating_mul(other.rows.len()) > ROWS_MAX {
        return one;
    }
    for left in &one.rows {
        rows.extend(other.rows.iter().map(|right| [left.as_slice(), right].concat()));
    }
    KeyBound { columns, rows, values: None }
}

/// `column = value`, `(column, column) = (value, value)`.
fn equal(left: &Expr, right: &Expr, scope: &Scope<'_>, lookup: &CatalogLookup) -> Option<KeyBound> {
    if let (Some(lefts), Some(rights)) = (row(left), row(right)) {
        let columns = lefts.iter().map(|one| of_item(one, scope)).collect::<Option<Vec<_>>>()?;
        let values = values_of(&columns, &rights, lookup)?;
        return Some(KeyBound { columns, rows: vec![values], values: None });
    }
    let of = of_item(left, scope)?;
    let columns = vec![of];
    if position(right).is_some() {
        let values = values_of(&columns, &[right], lookup)?;
        return Some(KeyBound { columns, rows: vec![values], values: None });
    }
    let found = column(right, scope)?;
    let cast = Cast::of(right);
    if found.item.is_none() {
        if cast != Cast::None {
            return None;
        }
        // Of a scope around, which is bound itself.
        let bound = match plain(right) {
            Expr::Identifier(name) => scope.bound_around(None, &folded(name)),
            Expr::CompoundIdentifier(parts) => {
                let [.., table, name] = parts.as_slice() else { return None };
                scope.bound_around(Some(&folded(table)), &folded(name))
            }
            _ => None,
        };
        return bound.map(|bound| KeyBound { columns, rows: bound.rows.clone(), values: None });
    }
    if !found.column.cast.then(cast).fits(lookup.family(of.1)) {
        return None;
    }
    let values = found.column.values.into_iter().map(Operand::One);
    let elements = found.column.array.map(Operand::AnyOf);
    let rows = values.chain(elements).map(|one| vec![one]).collect::<Vec<_>>();
    (!rows.is_empty()).then_some(KeyBound { columns, rows, values: found.item })
}

/// `column IN (value, value)`, `(column, column) IN ((value, value), (value, value))`.
fn listed(
    expr: &Expr,
    list: &[Expr],
    scope: &Scope<'_>,
    lookup: &CatalogLookup,
) -> Option<KeyBound> {
    let names = row_or_one(expr);
    let columns = names.into_iter().map(|one| of_item(one, scope)).collect::<Option<Vec<_>>>()?;
    let values = |one: &Expr| values_of(&columns, &row_or_one(one), lookup);
    let rows = list.iter().map(values).collect::<Option<Vec<_>>>()?;
    Some(KeyBound { columns, rows, values: None })
}

/// `column = ANY (array)`.
fn any_of(
    expr: &Expr,
    array: &Expr,
    scope: &Scope<'_>,
    lookup: &CatalogLookup,
) -> Option<KeyBound> {
    let of = of_item(expr, scope)?;
    if !Cast::of_elements(array).fits(lookup.family(of.1)) {
        return None;
    }
    match plain(array) {
        Expr::Array(array) => listed(expr, &array.elem, scope, lookup),
        _ => {
            let row = vec![Operand::AnyOf(position(array)?)];
            Some(KeyBound { columns: vec![of], rows: vec![row], values: None })
        }
    }
}

/// The values that columns are compared with, if the casts preserve them.
fn values_of(
    columns: &[ItemColumn],
    values: &[&Expr],
    lookup: &CatalogLookup,
) -> Option<Vec<Operand>> {
    let value = |(&(_, of), &value): (&ItemColumn, &&Expr)| {
        position(value).filter(|_| Cast::of(value).fits(lookup.family(of))).map(Operand::One)
    };
    (columns.len() == values.len())
        .then(|| columns.iter().zip(values).map(value).collect::<Option<Vec<Operand>>>())?
}

/// `column = column`.
fn same_columns(condition: &Expr, scope: &Scope<'_>) -> Option<(ItemColumn, ItemColumn)> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            Some((of_item(left, scope)?, of_item(right, scope)?))
        }
        _ => None,
    }
}

/// The column that an expression names, if it is of an item in FROM.
fn of_item(expr: &Expr, scope: &Scope<'_>) -> Option<ItemColumn> {
    // A cast column is another value: '05' and 5 differ as texts.
    let mut bare = expr;
    while let Expr::Nested(inner) = bare {
        bare = inner;
    }
    if matches!(bare, Expr::Cast { .. }) {
        return None;
    }
    let found = column(expr, scope)?;
    Some((found.item?, found.column.of?))
}

/// The key of a table that is bound for an item, unique keys before foreign ones.
pub fn key(bounds: &[KeyBound], item: usize, table: usize, lookup: &CatalogLookup) -> Option<Key> {
    if bounds.is_empty() {
        return None;
    }
    lookup.keys(table).find_map(|columns| {
        let is_exact = !columns.is_empty() && columns.iter().all(|&column| lookup.is_exact(column));
        let rows = is_exact.then(|| rows_of(bounds, item, &columns)).flatten()?;
        Some(Key { columns, rows })
    })
}

/// The rows of values that columns of an item are bound to.
fn rows_of(bounds: &[KeyBound], item: usize, columns: &[ColumnId]) -> Option<Vec<Vec<Operand>>> {
    let mut all: Option<KeyBound> = None;
    for &column in columns {
        let of = (item, column);
        if all.as_ref().is_some_and(|all| all.columns.contains(&of)) {
            continue;
        }
        let next = bounds.iter().find(|bound| bound.columns.contains(&of))?.clone();
        all = Some(match all {
            Some(all) => product(all, next),
            None => next,
        });
    }
    let all = all.filter(|all| all.rows.len() <= ROWS_MAX)?;
    let positions =
        columns.iter().map(|&column| all.columns.iter().position(|&of| of == (item, column)));
    let positions = positions.collect::<Option<Vec<usize>>>()?;
    let pick = |row: &Vec<Operand>| positions.iter().map(|&at| row[at]).collect();
    Some(all.rows.iter().map(pick).collect())
}
