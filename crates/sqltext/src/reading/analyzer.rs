//! Queries, from the tables that they read to their columns.

use std::collections::{BTreeSet, HashMap, HashSet};

use sqlparser::ast::{
    Cte, Distinct, Expr, GroupByExpr, Ident, LimitClause, LockClause, NamedWindowExpr, OrderBy,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator,
    SetQuantifier, Statement, Values, With,
};

use super::bounds::{self, KeyBound};
use super::calls::{OF_TIME, is_draw};
use super::cast::Cast;
use super::consequence::BodyCache;
use super::expression::{plain, position};
use super::from::{From, rename};
use super::lookup::{CatalogLookup, Name, NamedObject, folded};
use super::scope::{Column, Columns, Scope};
use super::session::{NamesChange, Path};
use super::text::Literals;
use super::{
    Access, ColumnId, Key, LastValue, Object, Operand, ReturnedKey, RowAspect, StatementEffects,
    ValuePosition, ValueSource, ValueUse,
};

/// Analyzes a statement.
pub struct StatementAnalyzer<'w, 'l> {
    /// The catalogue.
    pub lookup: &'w CatalogLookup,
    /// The effects of views and functions.
    pub body_cache: &'w mut BodyCache,
    /// The literals of the text.
    pub literals: &'w mut Literals<'l>,
    /// The effects found so far.
    pub reading: StatementEffects,
    /// The uses among it.
    pub recorded_uses: HashSet<ValueUse>,
    /// The values of texts among it.
    pub reported_texts: HashSet<ValueUse>,
    /// The depth of nested statements.
    pub depth: u32,
    /// The columns of the subqueries that were read, by their addresses.
    pub subqueries: HashMap<usize, Columns>,
    /// Names of tables that the catalogue does not have.
    pub unknown: BTreeSet<String>,
    /// The changes of the session's names.
    pub effects: Vec<NamesChange>,
    /// The search path.
    pub path: &'w Path,
    /// It is a body: calls in it are reported, and read by the caller.
    pub is_body: bool,
    /// Functions that it calls.
    pub calls: BTreeSet<usize>,
}

impl<'w, 'l> StatementAnalyzer<'w, 'l> {
    /// Begins to read a text with these literals.
    pub fn new(
        lookup: &'w CatalogLookup,
        body_cache: &'w mut BodyCache,
        literals: &'w mut Literals<'l>,
        path: &'w Path,
    ) -> StatementAnalyzer<'w, 'l> {
        let (reading, recorded_uses, reported_texts) = Default::default();
        let (subqueries, unknown, effects, calls) = Default::default();
        let (depth, is_body) = (0, false);
        StatementAnalyzer {
            lookup,
            body_cache,
            literals,
            reading,
            recorded_uses,
            reported_texts,
            depth,
            subqueries,
            unknown,
            effects,
            path,
            is_body,
            calls,
        }
    }

    /// The objects that a table name may refer to.
    pub fn relations(&self, name: &Name) -> Vec<NamedObject> {
        self.lookup.relations(name, self.path)
    }
}

impl StatementAnalyzer<'_, '_> {
    /// Reads a query and returns its columns.
    pub fn query(&mut self, query: &Query, outer: &Scope<'_>) -> Columns {
        let mut scope = Scope::within(outer);
        let begin = self.reading.draws.len();
        if let Some(with) = &query.with {
            self.with(with, &mut scope);
        }
        let own = self.reading.draws.len();
        let mut columns = self.set_expr(&query.body, &scope, query.order_by.as_ref(), &query.locks);
        self.limits(query, &scope);
        if query.order_by.is_some() {
            self.lose_order(&mut columns);
        }
        if is_limited(query) {
            // No value is drawn for a row that it leaves out, but by an INSERT in WITH.
            for (at, draw) in self.reading.draws.iter_mut().enumerate().skip(begin) {
                if at >= own || draw.column.is_none() {
                    draw.count = draw.count.filter(|_| at >= own && columns.rows == Some(1));
                    draw.each_of = None;
                }
            }
            (columns.rows, columns.each_of) = (None, None);
            columns.are_picked = false;
        }
        let is_other = query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty();
        if is_other {
            self.mark_unknown();
        }
        columns
    }

    /// Ends a statement that returns rows with these columns: finds those that return drawn
    /// values, and which draws are otherwise unknown.
    pub fn finish(&mut self, columns: &Columns) {
        for (at, column) in columns.columns.iter().enumerate() {
            let draw = column.drawn.and_then(|draw| self.reading.draws.get_mut(draw));
            let at = u32::try_from(at).ok();
            if let Some(draw) = draw {
                draw.returned = draw.returned.or(at);
            }
            let last = column.last_value.zip(at);
            self.reading
                .last_values
                .extend(last.map(|(sequence, returned)| LastValue { sequence, returned }));
        }
        let shown = columns.columns.iter().enumerate();
        let shown: Vec<ReturnedKey> =
            shown.filter_map(|(at, column)| self.shown_row(columns, at, column.of?)).collect();
        self.reading.shows.extend(shown);
        for access in self.reading.accesses.clone() {
            let Object::Sequence(sequence) = access.object else { continue };
            let source = ValueSource::Sequence(sequence);
            let is_reported = self.reading.draws.iter().any(|draw| draw.source == source);
            if access.writes && !is_reported {
                self.draws_unknown_number(sequence);
            }
        }
    }

    /// The selected row of a table that a column of the result shows.
    fn shown_row(&self, columns: &Columns, at: usize, of: ColumnId) -> Option<ReturnedKey> {
        let reading = &self.reading;
        let mut draws = reading.draws.iter().filter(|draw| draw.column == Some(of));
        if draws.any(|draw| !draw.may_conflict) {
            return None;
        }
        let is_of_rows = |access: &&Access| {
            access.object == Object::Table(of.table)
                && !matches!(access.aspect, RowAspect::Presence | RowAspect::Later)
        };
        let mut bound = reading.accesses.iter().filter(is_of_rows).map(|access| access.key);
        let first = bound.next()?;
        let is_one = bound.all(|other| other == first);
        let key = reading.row_key.or(first.filter(|_| is_one));
        let key = key.filter(|&key| self.is_of_one_row(of.table, &reading.keys[usize::from(key)]));
        let is_picked = columns.are_picked && is_one && reading.draws.is_empty();
        let returned = u32::try_from(at).ok()?;
        (key.is_some() || is_picked).then_some(ReturnedKey { column: of, returned, key })
    }

    /// Whether a key is a unique one of a table, with the values of one row.
    fn is_of_one_row(&self, table: usize, key: &Key) -> bool {
        let [row] = key.rows.as_slice() else { return false };
        row.iter().all(|operand| matches!(operand, Operand::One(_)))
            && self.lookup.unique_keys(table).any(|unique| unique == key.columns)
    }

    /// Marks the effects as unknown: the statement may access anything.
    pub fn mark_unknown(&mut self) {
        self.reading.accesses_anything = true;
    }

    /// Reads the queries of WITH.
    pub fn with(&mut self, with: &With, scope: &mut Scope<'_>) {
        for Cte { alias, query, .. } in &with.cte_tables {
            let name = folded(&alias.name);
            if with.recursive {
                let open = Columns { is_open: true, ..Columns::default() };
                scope.named.push((name.clone(), open));
            }
            let mut columns = self.query(query, scope);
            rename(&mut columns, alias);
            scope.named.push((name, columns));
        }
    }

    fn limits(&mut self, query: &Query, scope: &Scope<'_>) {
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
                let offset = offset.iter().map(|offset| &offset.value);
                limit.iter().chain(offset).chain(limit_by).for_each(|one| self.expr(one, scope));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                [offset, limit].into_iter().for_each(|one| self.expr(one, scope));
            }
            None => {}
        }
        if let Some(quantity) = query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref()) {
            self.expr(quantity, scope);
        }
    }

    fn set_expr(
        &mut self,
        body: &SetExpr,
        scope: &Scope<'_>,
        order: Option<&OrderBy>,
        locks: &[LockClause],
    ) -> Columns {
        match body {
            SetExpr::Select(select) => self.select(select, scope, order, locks),
            SetExpr::Query(query) => {
                if !locks.is_empty() {
                    self.mark_unknown();
                }
                self.query(query, scope)
            }
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let left = self.set_expr(left, scope, None, &[]);
                let right = self.set_expr(right, scope, None, &[]);
                self.order(order, scope);
                let mut columns = union(left, right);
                // Only UNION ALL leaves no row out.
                if (*op, *set_quantifier) != (SetOperator::Union, SetQuantifier::All) {
                    columns.rows = None;
                }
                columns
            }
            SetExpr::Values(values) => self.values(values, scope),
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement)
            | SetExpr::Merge(statement) => self.change(statement, scope),
            SetExpr::Table(table) => {
                let parts = [&table.schema_name, &table.table_name];
                let parts = parts.into_iter().flatten().map(|part| part.to_ascii_lowercase());
                let name = Name::of_parts(parts.collect());
                name.map_or_else(Columns::default, |name| self.whole(&name, scope, locks))
            }
        }
    }

    /// A statement that changes rows, within a query.
    fn change(&mut self, statement: &Statement, scope: &Scope<'_>) -> Columns {
        match statement {
            Statement::Insert(insert) => self.insert(insert, scope),
            Statement::Update(update) => self.update(update, scope),
            Statement::Delete(delete) => self.delete(delete, scope),
            Statement::Merge(merge) => self.merge(merge, scope),
            _ => {
                self.mark_unknown();
                Columns { is_open: true, ..Columns::default() }
            }
        }
    }

    fn order(&mut self, order: Option<&OrderBy>, scope: &Scope<'_>) {
        if let Some(OrderBy { kind: OrderByKind::Expressions(all), .. }) = order {
            all.iter().for_each(|one| self.expr(&one.expr, scope));
        }
    }

    /// Rows of VALUES: each column has the values written in it.
    pub fn values(&mut self, values: &Values, scope: &Scope<'_>) -> Columns {
        let width = values.rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
        values.rows.iter().flat_map(|row| &row.content).for_each(|one| self.expr(one, scope));
        let mut columns = vec![Column::default(); width];
        for (at, column) in columns.iter_mut().enumerate() {
            column.name = format!("column{}", at + 1);
            let positions = values.rows.iter().map(|row| position(row.content.get(at)?));
            let casts = values.rows.iter().filter_map(|row| row.content.get(at)).map(Cast::of);
            column.cast = casts.reduce(Cast::or).unwrap_or_default();
            if let Some(positions) = positions.collect::<Option<Vec<_>>>() {
                column.values = positions;
                continue;
            }
            for value in values.rows.iter().filter_map(|row| row.content.get(at)) {
                let shown = self.shown(value, scope);
                column.maybe.extend(shown.values.into_iter().chain(shown.maybe));
                column.inside.extend(shown.inside.into_iter().chain(shown.array));
            }
        }
        let rows = u32::try_from(values.rows.len()).ok();
        Columns { columns, rows, ..Columns::default() }
    }

    fn select(
        &mut self,
        select: &Select,
        outer: &Scope<'_>,
        order: Option<&OrderBy>,
        locks: &[LockClause],
    ) -> Columns {
        let mut scope = Scope::within(outer);
        let mut from = From::default();
        self.from(&select.from, &mut scope, &mut from);
        scope.bounds = bounds_of(select.selection.as_ref(), &from, &scope, self.lookup);
        let scope = scope;
        let draws = self.reading.draws.len();
        self.order(order, &scope);
        self.clauses(select, &scope);
        from.conditions().for_each(|condition| self.expr(condition, &scope));
        let mut columns = self.projection(&select.projection, &scope);
        (columns.rows, columns.each_of) = count_of(select, &scope, &columns);
        // A call is made for each row, but where only some of them need it.
        for draw in &mut self.reading.draws[draws..] {
            if draw.count == Some(1) {
                (draw.count, draw.each_of) = (columns.rows, columns.each_of);
            } else if columns.rows != Some(1) {
                (draw.count, draw.each_of) = (None, None);
            }
        }
        if scope.items.len() > 1 || is_of_other_rows(select) {
            self.lose_order(&mut columns);
        }
        self.read_items(&scope, locks);
        // SKIP LOCKED and NOWAIT take what is free at the moment.
        let takes_any = locks.iter().any(|lock| lock.nonblock.is_some());
        columns.are_picked = !scope.bounds.is_empty() && !takes_any && select.distinct.is_none();
        columns
    }

    /// The rows are other ones, or in another order: which of several
    /// draws belongs to which row is unknown.
    fn lose_order(&self, columns: &mut Columns) {
        for column in &mut columns.columns {
            let is_one =
                |&at: &usize| self.reading.draws.get(at).is_some_and(|d| d.count == Some(1));
            column.drawn = column.drawn.filter(is_one);
            column.last_value = None;
        }
    }

    /// Reads the other clauses of a SELECT than its columns and tables.
    fn clauses(&mut self, select: &Select, scope: &Scope<'_>) {
        if let Some(Distinct::On(on)) = &select.distinct {
            on.iter().for_each(|one| self.expr(one, scope));
        }
        let filters = select.selection.iter().chain(&select.having).chain(&select.qualify);
        filters.for_each(|one| self.expr(one, scope));
        match &select.group_by {
            GroupByExpr::Expressions(all, _) => all.iter().for_each(|one| self.expr(one, scope)),
            GroupByExpr::All(_) => {}
        }
        for window in &select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &window.1 {
                self.window(window, scope);
            }
        }
        if let Some(into) = &select.into {
            let name = into.targets.first().filter(|_| into.temporary).and_then(name_of);
            match name {
                Some(name) => self.makes(&name),
                None => self.mark_unknown(),
            }
        }
        let is_other = select.prewhere.is_some()
            || !select.connect_by.is_empty()
            || !select.lateral_views.is_empty();
        if is_other {
            self.mark_unknown();
        }
    }

    /// The columns of a SELECT or of RETURNING.
    pub fn projection(&mut self, items: &[SelectItem], scope: &Scope<'_>) -> Columns {
        let mut columns = Columns::default();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    columns.columns.push(self.output_column(expr, None, scope));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    columns.columns.push(self.output_column(expr, Some(alias), scope));
                }
                SelectItem::Wildcard(_) => {
                    for item in &scope.items {
                        take_all(&mut columns, &item.columns);
                    }
                    columns.is_open |= scope.items.is_empty();
                }
                SelectItem::QualifiedWildcard(kind, _) => match kind {
                    SelectItemQualifiedWildcardKind::ObjectName(name) => {
                        let name = Name::of(name).map(|name| name.name).unwrap_or_default();
                        let item = scope.items.iter().find(|item| item.alias == name);
                        match item {
                            Some(item) => take_all(&mut columns, &item.columns),
                            None => columns.is_open = true,
                        }
                    }
                    SelectItemQualifiedWildcardKind::Expr(expr) => {
                        self.expr(expr, scope);
                        columns.is_open = true;
                    }
                },
                SelectItem::ExprWithAliases { .. } => self.mark_unknown(),
            }
        }
        columns
    }

    /// The column of an expression.
    fn output_column(&mut self, expr: &Expr, alias: Option<&Ident>, scope: &Scope<'_>) -> Column {
        let draws = self.reading.draws.len();
        self.expr(expr, scope);
        let mut column = self.shown(expr, scope);
        if is_draw(expr) && self.reading.draws.len() == draws + 1 {
            column.drawn = Some(draws);
        }
        column.last_value = self.last_value_of(expr);
        if let Some(alias) = alias {
            column.name = folded(alias);
        }
        column
    }

    /// Accounts for the tables in FROM that are read.
    pub fn read_items(&mut self, scope: &Scope<'_>, locks: &[LockClause]) {
        for (at, item) in scope.items.iter().enumerate().filter(|(_, item)| !item.is_target) {
            let is_locked = locks.iter().any(|lock| {
                let of = lock.of.as_ref().and_then(Name::of);
                of.is_none_or(|of| of.name == item.alias)
            });
            let Some(table) = item.table else {
                // Of a view or a query, the rows that it is made of are locked.
                let read = item.behind.iter().filter(|_| is_locked);
                for access in read.filter(|access| matches!(access.object, Object::Table(_))) {
                    self.record(Access { writes: true, aspect: RowAspect::All, ..*access });
                }
                continue;
            };
            let key = bounds::key(&scope.bounds, at, self.lookup.root(table), self.lookup);
            // FOR UPDATE keeps out the check of a foreign key too.
            self.access(table, is_locked, RowAspect::All, key);
        }
    }

    /// Records an access to rows of a table, and the effects of its policies.
    pub fn access(&mut self, table: usize, writes: bool, aspect: RowAspect, key: Option<Key>) {
        let key = key.and_then(|key| self.key(key));
        let root = self.lookup.root(table);
        self.record(Access { object: Object::Table(root), writes, aspect, key });
        if !matches!(aspect, RowAspect::Presence | RowAspect::Later) {
            for function in self.lookup.policies(root).to_vec() {
                self.follow(function);
            }
        }
    }

    /// Records an access to a uniqueness.
    pub fn unique(&mut self, number: usize, writes: bool, key: Option<Key>) {
        let key = key.and_then(|key| self.key(key));
        self.record(Access { object: Object::Unique(number), writes, aspect: RowAspect::All, key });
    }

    /// Reads something, and returns its accesses separately.
    pub fn with_separate_accesses<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> T,
    ) -> (T, Vec<Access>) {
        let before = std::mem::take(&mut self.reading.accesses);
        let found = read(self);
        let own = std::mem::replace(&mut self.reading.accesses, before);
        own.iter().for_each(|&access| self.record(access));
        (found, own)
    }

    /// Records that a sequence is read or drawn from.
    pub fn sequence(&mut self, sequence: usize, writes: bool) {
        let object = Object::Sequence(sequence);
        self.record(Access { object, writes, aspect: RowAspect::All, key: None });
    }

    /// Records an access, once.
    pub fn record(&mut self, access: Access) {
        if !self.reading.accesses.contains(&access) {
            self.reading.accesses.push(access);
        }
    }

    pub fn key(&mut self, key: Key) -> Option<u16> {
        let lookup = self.reading.keys.iter().position(|lookup| *lookup == key);
        let at = lookup.unwrap_or_else(|| {
            self.reading.keys.push(key);
            self.reading.keys.len() - 1
        });
        u16::try_from(at).ok()
    }
}

/// The name that an expression is.
fn name_of(expr: &Expr) -> Option<Name> {
    match expr {
        Expr::Identifier(name) => Name::of_parts(vec![folded(name)]),
        Expr::CompoundIdentifier(parts) => Name::of_parts(parts.iter().map(folded).collect()),
        _ => None,
    }
}

/// Keys that the conditions of a statement bind.
pub fn bounds_of(
    selection: Option<&Expr>,
    from: &From<'_>,
    scope: &Scope<'_>,
    lookup: &CatalogLookup,
) -> Vec<KeyBound> {
    let everything = 0..scope.items.len();
    let selection = selection.map(|selection| (selection, everything));
    let conditions = selection.into_iter().chain(from.bounding());
    bounds::of(conditions, scope, lookup)
}

/// Whether a query leaves out rows by their number.
pub fn is_limited(query: &Query) -> bool {
    query.limit_clause.is_some() || query.fetch.is_some()
}

/// How many rows a SELECT returns, if the statement says so.
fn count_of(
    select: &Select,
    scope: &Scope<'_>,
    columns: &Columns,
) -> (Option<u32>, Option<ValuePosition>) {
    match scope.items.as_slice() {
        _ if is_reduced(select) => (None, None),
        [] => match columns.columns.iter().find_map(|column| column.array) {
            Some(array) => (None, Some(array)),
            None => (Some(1), None),
        },
        [item] => (item.columns.rows, item.columns.each_of),
        _ => (None, None),
    }
}

/// Whether rows may be other ones than those of the item in FROM.
fn is_reduced(select: &Select) -> bool {
    is_filtered(select) || select.projection.iter().any(has_aggregate)
}

/// Whether rows may be other ones than those of the item in FROM, or in another order, but not
/// because one is made of several.
fn is_of_other_rows(select: &Select) -> bool {
    let is_window = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            matches!(plain(expr), Expr::Function(function) if function.over.is_some())
        }
        _ => false,
    };
    is_filtered(select) || select.projection.iter().any(is_window)
}

fn is_filtered(select: &Select) -> bool {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(all, _) => !all.is_empty(),
        GroupByExpr::All(_) => true,
    };
    is_grouped || select.selection.is_some() || select.having.is_some() || select.distinct.is_some()
}

/// Whether a column may be made of several rows, or of none: a call of what is not known to give
/// one for each.
fn has_aggregate(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return false;
    };
    match plain(expr) {
        Expr::Function(function) => {
            let name = Name::of(&function.name).map(|name| name.name).unwrap_or_default();
            !is_draw(expr) && name != "unnest" && !OF_TIME.contains(&name.as_str())
        }
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => false,
        other => position(other).is_none(),
    }
}

fn take_all(columns: &mut Columns, from: &Columns) {
    columns.columns.extend(from.columns.iter().cloned());
    columns.is_open |= from.is_open;
}

fn union(mut left: Columns, right: Columns) -> Columns {
    for (at, column) in left.columns.iter_mut().enumerate() {
        let other = right.columns.get(at);
        if other.and_then(|other| other.of) != column.of {
            column.of = None;
        }
        column.inside.extend(column.array.take());
        (column.drawn, column.last_value) = (None, None);
        column.cast = column.cast.or(other.map(|other| other.cast).unwrap_or_default());
        match other {
            Some(other) if !other.values.is_empty() && !column.values.is_empty() => {
                column.values.extend(&other.values);
            }
            Some(other) => {
                column.maybe.append(&mut column.values);
                column.maybe.extend(&other.values);
            }
            None => {}
        }
        if let Some(other) = other {
            column.maybe.extend(&other.maybe);
            column.inside.extend(other.inside.iter().chain(&other.array));
        }
    }
    Columns {
        rows: left.rows.zip(right.rows).map(|(a, b)| a + b),
        each_of: None,
        are_picked: false,
        ..left
    }
}
