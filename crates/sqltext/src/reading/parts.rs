//! The parts of an expression, and those that may be its value.

use sqlparser::ast::{AccessExpr, Expr, Function, Subscript};

use super::ValuePosition;
use super::calls::arguments;
use super::expression::{plain, position};
use super::lookup::Name;

/// Functions that return one of their arguments unchanged.
const CHOOSING: [&str; 4] = ["coalesce", "nullif", "greatest", "least"];

/// The operands of an expression; None for one without a rule. Subqueries and calls have
/// none.
pub fn children(expr: &Expr) -> Option<Vec<&Expr>> {
    use Expr as E;
    let found = match expr {
        E::Identifier(_) | E::CompoundIdentifier(_) | E::Value(_) | E::TypedString(_) => vec![],
        E::Wildcard(_) | E::QualifiedWildcard(..) => vec![],
        E::Nested(one)
        | E::IsFalse(one)
        | E::IsNotFalse(one)
        | E::IsTrue(one)
        | E::IsNotTrue(one)
        | E::IsNull(one)
        | E::IsNotNull(one)
        | E::IsUnknown(one)
        | E::IsNotUnknown(one)
        | E::UnaryOp { expr: one, .. }
        | E::Cast { expr: one, .. }
        | E::Collate { expr: one, .. }
        | E::Extract { expr: one, .. }
        | E::Ceil { expr: one, .. }
        | E::Floor { expr: one, .. }
        | E::Named { expr: one, .. }
        | E::Prefixed { value: one, .. }
        | E::IsJson { expr: one, .. }
        | E::IsNormalized { expr: one, .. }
        | E::JsonAccess { value: one, .. } => vec![&**one],
        E::AtTimeZone { timestamp: one, time_zone: other }
        | E::Position { expr: one, r#in: other }
        | E::InUnnest { expr: one, array_expr: other, .. } => vec![&**one, other],
        E::Like { expr, pattern, escape_char, .. }
        | E::ILike { expr, pattern, escape_char, .. }
        | E::SimilarTo { expr, pattern, escape_char, .. } => {
            [expr, pattern].into_iter().chain(escape_char).map(|one| &**one).collect()
        }
        E::Tuple(all) => all.iter().collect(),
        E::Array(array) => array.elem.iter().collect(),
        E::GroupingSets(sets) | E::Cube(sets) | E::Rollup(sets) => sets.iter().flatten().collect(),
        E::Interval(interval) => vec![&*interval.value],
        E::Case { operand, conditions, else_result, .. } => {
            let ends = operand.iter().chain(else_result).map(|one| &**one);
            ends.chain(conditions.iter().flat_map(|case| [&case.condition, &case.result])).collect()
        }
        _ => return rarer_children(expr),
    };
    Some(found)
}

fn rarer_children(expr: &Expr) -> Option<Vec<&Expr>> {
    use Expr as E;
    let found = match expr {
        E::Substring { expr, substring_from, substring_for, .. } => {
            let ends = substring_from.iter().chain(substring_for).map(|one| &**one);
            [&**expr].into_iter().chain(ends).collect()
        }
        E::Trim { trim_what, expr, trim_characters, .. } => {
            let what = trim_what.iter().map(|one| &**one);
            let characters = trim_characters.iter().flatten();
            [&**expr].into_iter().chain(what).chain(characters).collect()
        }
        E::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let last = overlay_for.iter().map(|one| &**one);
            [&**expr, overlay_what, overlay_from].into_iter().chain(last).collect()
        }
        E::CompoundFieldAccess { root, access_chain } => {
            [&**root].into_iter().chain(access_chain.iter().flat_map(subscripts)).collect()
        }
        _ => return None,
    };
    Some(found)
}

fn subscripts(access: &AccessExpr) -> Vec<&Expr> {
    match access {
        AccessExpr::Dot(_) => vec![],
        AccessExpr::Subscript(Subscript::Index { index }) => vec![index],
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
            lower_bound.iter().chain(upper_bound).chain(stride).collect()
        }
    }
}

/// The expressions that may be the value of this one: the results of a CASE, the arguments of
/// `coalesce`; otherwise itself.
pub fn results(expr: &Expr) -> Vec<&Expr> {
    let (mut found, mut open) = (Vec::new(), vec![expr]);
    while let Some(one) = open.pop() {
        match plain(one) {
            Expr::Case { conditions, else_result, .. } => {
                open.extend(else_result.iter().map(|one| &**one));
                open.extend(conditions.iter().rev().map(|case| &case.result));
            }
            Expr::Function(function) if is_choosing(function) => {
                let all: Vec<&Expr> = arguments(function).collect();
                open.extend(all.into_iter().rev());
            }
            other => found.push(other),
        }
    }
    found
}

fn is_choosing(function: &Function) -> bool {
    let name = Name::of(&function.name).map(|name| name.name).unwrap_or_default();
    CHOOSING.contains(&name.as_str()) && function.over.is_none()
}

/// The contents of an expression, without those of its subqueries.
#[derive(Default)]
pub struct ExprContents<'e> {
    /// Values.
    pub values: Vec<ValuePosition>,
    /// Names of columns.
    pub names: Vec<&'e Expr>,
    /// Subqueries.
    pub subqueries: Vec<&'e Expr>,
}

/// Collects the contents of an expression.
pub fn within(expr: &Expr) -> ExprContents<'_> {
    let (mut found, mut open) = (ExprContents::default(), vec![expr]);
    while let Some(one) = open.pop() {
        match plain(one) {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => found.names.push(one),
            Expr::Subquery(_) => found.subqueries.push(one),
            Expr::BinaryOp { left, right, .. }
            | Expr::AnyOp { left, right, .. }
            | Expr::AllOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => open.extend([&**right, left]),
            Expr::Between { expr, low, high, .. } => open.extend([&**high, low, expr]),
            Expr::InList { expr, list, .. } => open.extend(list.iter().rev().chain([&**expr])),
            Expr::Function(function) => {
                let all: Vec<&Expr> = arguments(function).collect();
                open.extend(all.into_iter().rev());
            }
            other => match position(other) {
                Some(position) => found.values.push(position),
                None => open.extend(children(other).unwrap_or_default().into_iter().rev()),
            },
        }
    }
    found
}
