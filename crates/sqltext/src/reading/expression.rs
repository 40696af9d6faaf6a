//! Values of columns in expressions, and functions.

use sqlparser::ast::{BinaryOperator, Expr, Query, Value, WindowSpec};

use super::analyzer::StatementAnalyzer;
use super::calls::{OF_TIME, arguments, is_draw};
use super::cast::Cast;
use super::lookup::{Name, folded};
use super::parts::{ExprContents, children, results, within};
use super::scope::{Column, Columns, ResolvedColumn, Scope};
use super::text::{of_number, of_string};
use super::{ColumnId, UseKind, ValuePosition, ValueUse, Volatile};

impl StatementAnalyzer<'_, '_> {
    /// Reads an expression: values of columns in it, and its other effects.
    pub fn expr(&mut self, expr: &Expr, scope: &Scope<'_>) {
        let draws = self.reading.draws.len();
        self.expr_here(expr, scope);
        if is_conditional(expr) {
            self.for_each_row(draws);
        }
    }

    fn expr_here(&mut self, expr: &Expr, scope: &Scope<'_>) {
        // Operators in a row are parsed into what is as deep as they are many, on the left.
        let mut expr = expr;
        while let Expr::BinaryOp { left, op, right } = expr {
            if let Some(kind) = how_compared(op) {
                self.all([&**right, left], scope);
                return self.compare(left, right, kind, scope);
            }
            self.expr(right, scope);
            expr = left;
        }
        match expr {
            Expr::Identifier(ident) if ident.quote_style.is_none() => {
                let name = ident.value.to_ascii_lowercase();
                if OF_TIME.contains(&name.as_str()) && scope.column(None, &name).is_none() {
                    self.volatile(Volatile::Time);
                }
            }
            Expr::InList { expr, list, .. } => {
                self.all([&**expr].into_iter().chain(list), scope);
                list.iter().for_each(|one| self.compare(expr, one, UseKind::Equal, scope));
            }
            Expr::InSubquery { expr, subquery, .. } => {
                self.expr(expr, scope);
                let columns = self.query(subquery, scope);
                self.compare_rows(expr, &columns, scope);
            }
            Expr::Between { expr, low, high, .. } => {
                self.all([&**expr, low, high], scope);
                self.compare(expr, low, UseKind::Bound, scope);
                self.compare(expr, high, UseKind::Bound, scope);
            }
            Expr::AnyOp { left, compare_op, right, .. }
            | Expr::AllOp { left, compare_op, right } => {
                self.any(left, compare_op, right, scope);
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.all([&**left, right], scope);
                self.compare(left, right, UseKind::Equal, scope);
            }
            Expr::Function(function) => self.function(function, scope),
            Expr::Subquery(query) | Expr::Exists { subquery: query, .. } => {
                let columns = self.query(query, scope);
                self.subqueries.insert(std::ptr::from_ref::<Query>(query).addr(), columns);
            }
            _ => self.parts(expr, scope),
        }
    }

    /// Reads several expressions.
    pub fn all<'e>(&mut self, all: impl IntoIterator<Item = &'e Expr>, scope: &Scope<'_>) {
        all.into_iter().for_each(|one| self.expr(one, scope));
    }

    /// Reads the parts of an expression that has no special rule.
    fn parts(&mut self, expr: &Expr, scope: &Scope<'_>) {
        match children(expr) {
            Some(parts) => self.all(parts, scope),
            None => self.mark_unknown(),
        }
        if let Expr::Case { operand: Some(operand), conditions, .. } = expr {
            for case in conditions {
                self.compare(operand, &case.condition, UseKind::Equal, scope);
            }
        }
    }

    /// The column that an expression shows unchanged, or the values that it has or may have. Its
    /// parts were read before.
    pub fn shown(&self, expr: &Expr, scope: &Scope<'_>) -> Column {
        let own = plain(expr);
        match results(expr).as_slice() {
            [one] if std::ptr::eq(*one, own) => self.shown_as_is(expr, scope),
            all => {
                let mut column = Column::default();
                for one in all {
                    let one = self.shown_as_is(one, scope);
                    column.maybe.extend(one.values.into_iter().chain(one.maybe));
                    column.inside.extend(one.inside.into_iter().chain(one.array));
                }
                column
            }
        }
    }

    fn shown_as_is(&self, expr: &Expr, scope: &Scope<'_>) -> Column {
        let cast = Cast::of(expr);
        if let Some(position) = position(expr) {
            return Column { values: vec![position], cast, ..Column::default() };
        }
        match plain(expr) {
            own @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {
                let mut column = column(own, scope).map(|found| found.column).unwrap_or_default();
                column.cast = column.cast.then(cast);
                column
            }
            Expr::Subquery(_) => {
                let shown = self.value_of(expr).cloned().unwrap_or_default();
                Column { name: String::new(), drawn: None, last_value: None, ..shown }
            }
            Expr::Function(function) => {
                let name = Name::of(&function.name).map(|name| name.name).unwrap_or_default();
                let unnested =
                    (name == "unnest").then(|| arguments(function)).and_then(|mut all| {
                        let first = all.next().filter(|_| all.next().is_none())?;
                        Some((position(first)?, Cast::of_elements(first).then(cast)))
                    });
                let (array, cast) = unnested.unzip();
                let inside = match array {
                    None if !is_draw(expr) => self.values_within(expr),
                    _ => Vec::new(),
                };
                Column { name, array, cast: cast.unwrap_or_default(), inside, ..Column::default() }
            }
            _ => Column { inside: self.values_within(expr), ..Column::default() },
        }
    }

    /// The columns of a subquery that was read.
    pub fn given_by(&self, expr: &Expr) -> Option<&Columns> {
        let Expr::Subquery(query) = plain(expr) else { return None };
        self.subqueries.get(&std::ptr::from_ref::<Query>(query).addr())
    }

    /// The first of them: the value of the subquery.
    fn value_of(&self, expr: &Expr) -> Option<&Column> {
        self.given_by(expr)?.columns.first()
    }

    /// The values in an expression that was read.
    pub fn values_within(&self, expr: &Expr) -> Vec<ValuePosition> {
        let ExprContents { mut values, subqueries, .. } = within(expr);
        for column in subqueries.into_iter().filter_map(|one| self.value_of(one)) {
            values.extend(column.values.iter().chain(&column.maybe).chain(&column.inside));
        }
        values
    }

    /// The columns that may be the value of an expression, and those that are part of it in another
    /// way.
    fn columns_of_sides(&self, expr: &Expr, scope: &Scope<'_>) -> (Vec<ColumnId>, Vec<ColumnId>) {
        let (mut direct, mut hidden) = (Vec::new(), Vec::new());
        let of = |expr: &Expr| column(expr, scope)?.column.of;
        for one in results(expr) {
            match one {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => direct.extend(of(one)),
                Expr::Subquery(_) => direct.extend(self.value_of(one).and_then(|column| column.of)),
                _ => hidden.extend(within(one).names.into_iter().filter_map(of)),
            }
        }
        (direct, hidden)
    }

    /// Records the values of columns in a comparison whose sides were read.
    fn compare(&mut self, left: &Expr, right: &Expr, kind: UseKind, scope: &Scope<'_>) {
        if let (Some(lefts), Some(rights)) = (row(left), row(right)) {
            for (left, right) in lefts.into_iter().zip(rights) {
                self.compare(left, right, kind, scope);
            }
            return;
        }
        for (one, other) in [(left, right), (right, left)] {
            if let (Some(_), Some(rows)) = (row(one), self.given_by(other).cloned()) {
                return self.compare_rows(one, &rows, scope);
            }
        }
        for (one, other) in [(left, right), (right, left)] {
            self.compare_with(one, |analyzer| analyzer.shown(other, scope), kind, scope);
        }
    }

    /// Records values as those of the columns of an expression.
    fn compare_with(
        &mut self,
        expr: &Expr,
        shown: impl FnOnce(&Self) -> Column,
        kind: UseKind,
        scope: &Scope<'_>,
    ) {
        let (direct, hidden) = self.columns_of_sides(expr, scope);
        let is_reported = |&of: &ColumnId| self.lookup.reports(of) || self.lookup.holds_texts(of);
        if direct.iter().chain(&hidden).any(is_reported) {
            let shown = shown(self);
            direct.into_iter().for_each(|of| self.record_all(of, &shown, kind));
            hidden.into_iter().for_each(|of| self.record_all(of, &shown, UseKind::Inside));
        }
    }

    /// Records the values of columns of an expression that is compared with rows.
    fn compare_rows(&mut self, expr: &Expr, rows: &Columns, scope: &Scope<'_>) {
        for (one, column_of_rows) in row_or_one(expr).into_iter().zip(&rows.columns) {
            self.compare_with(one, |_| column_of_rows.clone(), UseKind::Equal, scope);
            if column_of_rows.of.is_some() {
                let shown = self.shown(one, scope);
                self.same(column_of_rows, &shown, UseKind::Equal);
            }
        }
    }

    /// Records the values of one column as those of a column of a table.
    pub fn same(&mut self, table: &Column, values: &Column, kind: UseKind) {
        if let Some(of) = table.of {
            self.record_all(of, values, kind);
        }
    }

    /// Records all values of an expression as those of a column.
    pub fn record_all(&mut self, column: ColumnId, values: &Column, kind: UseKind) {
        for &position in values.values.iter().chain(&values.maybe) {
            self.record_use(ValueUse { column, position, kind });
        }
        if let Some(position) = values.array {
            self.record_use(ValueUse { column, position, kind: array_or(kind) });
        }
        for &position in &values.inside {
            self.record_use(ValueUse { column, position, kind: UseKind::Inside });
        }
    }

    /// `left = ANY (right)`.
    fn any(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr, scope: &Scope<'_>) {
        let right = plain(right);
        self.expr(left, scope);
        if let Expr::Subquery(query) = right {
            let columns = self.query(query, scope);
            return self.compare_rows(left, &columns, scope);
        }
        self.expr(right, scope);
        let kind = how_compared(op).unwrap_or(UseKind::Bound);
        if let Expr::Array(array) = right {
            return array.elem.iter().for_each(|one| self.compare(left, one, kind, scope));
        }
        let elements = |analyzer: &Self| match position(right) {
            Some(position) => Column { array: Some(position), ..Column::default() },
            None => Column { inside: analyzer.values_within(right), ..Column::default() },
        };
        self.compare_with(left, elements, kind, scope);
    }

    /// Records a use, if its column is one whose values are reported, or holds texts.
    pub fn record_use(&mut self, one: ValueUse) {
        if self.lookup.reports(one.column) {
            self.put_use(one);
        }
        if self.lookup.holds_texts(one.column) && self.reported_texts.insert(one) {
            self.reading.texts.push(one);
        }
    }

    fn put_use(&mut self, one: ValueUse) {
        if self.recorded_uses.insert(one) {
            self.reading.uses.push(one);
        }
    }

    /// Records a volatile function.
    pub fn volatile(&mut self, volatile: Volatile) {
        if !self.reading.volatile.contains(&volatile) {
            self.reading.volatile.push(volatile);
        }
    }

    /// Reads a window.
    pub fn window(&mut self, window: &WindowSpec, scope: &Scope<'_>) {
        self.all(&window.partition_by, scope);
        self.all(window.order_by.iter().map(|one| &one.expr), scope);
    }
}

/// Whether some parts of an expression are evaluated only for some rows.
fn is_conditional(expr: &Expr) -> bool {
    match expr {
        Expr::Case { .. } => true,
        Expr::BinaryOp { op, .. } => matches!(op, BinaryOperator::And | BinaryOperator::Or),
        Expr::Function(function) => {
            Name::of(&function.name).is_some_and(|name| name.name == "coalesce")
        }
        _ => false,
    }
}

/// How an operator compares a value; None if it is not a comparison.
fn how_compared(op: &BinaryOperator) -> Option<UseKind> {
    use BinaryOperator as Op;
    match op {
        Op::Eq | Op::NotEq => Some(UseKind::Equal),
        Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => Some(UseKind::Bound),
        // OPERATOR(pg_catalog.=)
        Op::PGCustomBinaryOperator(name) => match name.last()?.as_str() {
            "=" | "<>" => Some(UseKind::Equal),
            "<" | "<=" | ">" | ">=" => Some(UseKind::Bound),
            _ => None,
        },
        _ => None,
    }
}

fn array_or(kind: UseKind) -> UseKind {
    if matches!(kind, UseKind::Bound | UseKind::Inside) { kind } else { UseKind::Array }
}

/// An expression without parentheses and casts around it.
pub fn plain(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = expr {
        expr = inner;
    }
    expr
}

/// The position of the value that an expression is, apart from casts.
pub fn position(expr: &Expr) -> Option<ValuePosition> {
    let value = match plain(expr) {
        Expr::Value(value) => &value.value,
        Expr::TypedString(string) => &string.value.value,
        _ => return None,
    };
    match value {
        Value::Number(number, _) => of_number(number).map(ValuePosition::Literal),
        Value::SingleQuotedString(string) => of_string(string).map(ValuePosition::Literal),
        Value::Placeholder(name) => {
            let number: u32 = name.strip_prefix('$')?.parse().ok()?;
            number.checked_sub(1).map(ValuePosition::Parameter)
        }
        _ => None,
    }
}

/// The column that an expression names.
pub fn column(expr: &Expr, scope: &Scope<'_>) -> Option<ResolvedColumn> {
    match plain(expr) {
        Expr::Identifier(name) => scope.column(None, &folded(name)),
        Expr::CompoundIdentifier(parts) => {
            let [.., table, name] = parts.as_slice() else { return None };
            scope.column(Some(&folded(table)), &folded(name))
        }
        _ => None,
    }
}

/// The expressions of a row: `(a, b)`, `ROW(a, b)`.
pub fn row(expr: &Expr) -> Option<Vec<&Expr>> {
    match plain(expr) {
        Expr::Tuple(all) => Some(all.iter().collect()),
        Expr::Function(function) => {
            let name = Name::of(&function.name)?;
            (name.name == "row").then(|| arguments(function).collect())
        }
        _ => None,
    }
}

/// The expressions of a row, or the one that it is.
pub fn row_or_one(expr: &Expr) -> Vec<&Expr> {
    row(expr).unwrap_or_else(|| vec![expr])
}
