//! Sources of rows: tables, joins, functions, and their aliases.

use std::ops::Range;

use sqlparser::ast::{
    Expr, Join, JoinConstraint, JoinOperator, LockClause, TableAlias, TableFactor, TableWithJoins,
};

use super::analyzer::StatementAnalyzer;
use super::calls::argument;
use super::cast::Cast;
use super::expression::{plain, position};
use super::lookup::{Name, NamedObject, folded};
use super::scope::{Column, Columns, Item, Scope};
use super::{Access, RowAspect, UseKind};

/// The items of FROM, and their conditions.
#[derive(Default)]
pub struct From<'a> {
    /// Conditions of joins, and for which items they bind keys.
    conditions: Vec<(&'a Expr, Range<usize>)>,
}

impl<'a> From<'a> {
    /// The conditions of the joins, and for which items they bind keys.
    pub fn bounding(&self) -> impl Iterator<Item = (&'a Expr, Range<usize>)> {
        self.conditions.iter().cloned()
    }

    /// The conditions alone.
    pub fn conditions(&self) -> impl Iterator<Item = &'a Expr> {
        self.conditions.iter().map(|(condition, _)| *condition)
    }
}

impl StatementAnalyzer<'_, '_> {
    /// Reads FROM.
    pub fn from<'a>(
        &mut self,
        tables: &'a [TableWithJoins],
        scope: &mut Scope<'_>,
        from: &mut From<'a>,
    ) {
        for table in tables {
            let begin = scope.items.len();
            self.factor(&table.relation, scope, from);
            for join in &table.joins {
                self.join(join, begin, scope, from);
            }
        }
    }

    fn join<'a>(
        &mut self,
        join: &'a Join,
        begin: usize,
        scope: &mut Scope<'_>,
        from: &mut From<'a>,
    ) {
        use JoinOperator as By;
        let middle = scope.items.len();
        self.factor(&join.relation, scope, from);
        let (left, right) = (begin..middle, middle..scope.items.len());
        let (constraint, bound) = match &join.join_operator {
            By::Join(on) | By::Inner(on) | By::CrossJoin(on) => (on, begin..scope.items.len()),
            // Rows of the side that may be missing are those that fulfil it; of the other, all.
            By::Left(on) | By::LeftOuter(on) => (on, right),
            By::Right(on) | By::RightOuter(on) => (on, left),
            By::FullOuter(on) => (on, 0..0),
            _ => return self.mark_unknown(),
        };
        match constraint {
            JoinConstraint::On(on) => from.conditions.push((on, bound)),
            JoinConstraint::Using(names) => {
                let names: Vec<String> =
                    names.iter().filter_map(Name::of).map(|name| name.name).collect();
                self.joined_by(scope, (begin, middle), |name| names.contains(name));
            }
            JoinConstraint::Natural => self.joined_by(scope, (begin, middle), |_| true),
            JoinConstraint::None => {}
        }
    }

    /// Columns of the same name on both sides of a join have the same values.
    fn joined_by(
        &mut self,
        scope: &Scope<'_>,
        (begin, middle): (usize, usize),
        is_named: impl Fn(&String) -> bool,
    ) {
        let (left, right) = scope.items[begin..].split_at(middle - begin);
        let columns = |items: &[Item]| -> Vec<Column> {
            let all = items.iter().flat_map(|item| &item.columns.columns);
            all.filter(|column| is_named(&column.name)).cloned().collect()
        };
        let rights = columns(right);
        for left in columns(left) {
            for right in rights.iter().filter(|right| right.name == left.name) {
                self.same(&left, right, UseKind::Equal);
                self.same(right, &left, UseKind::Equal);
            }
        }
    }

    /// Reads a table factor.
    pub fn factor<'a>(
        &mut self,
        factor: &'a TableFactor,
        scope: &mut Scope<'_>,
        from: &mut From<'a>,
    ) {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                match Name::of(name) {
                    Some(name) => self.named_item(&name, alias.as_ref(), scope),
                    None => self.mark_unknown(),
                };
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let (columns, read) =
                    self.with_separate_accesses(|analyzer| analyzer.query(subquery, scope));
                push(scope, columns, alias.as_ref(), "");
                is_behind(scope, read);
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let begin = scope.items.len();
                self.from(std::slice::from_ref(table_with_joins), scope, from);
                if let Some(alias) = alias {
                    for item in &mut scope.items[begin..] {
                        item.alias = folded(&alias.name);
                    }
                }
            }
            _ => self.rows_of_function(factor, scope),
        }
    }

    /// Reads a named item of FROM.
    fn named_item(&mut self, name: &Name, alias: Option<&TableAlias>, scope: &mut Scope<'_>) {
        if let Some(columns) = name.schema.is_none().then(|| scope.named(&name.name)).flatten() {
            let columns = columns.clone();
            return push(scope, columns, alias, &name.name);
        }
        let found = self.relations(name);
        if let [NamedObject::Table(table)] = found.as_slice() {
            let columns = self.columns_of(*table);
            push(scope, columns, alias, &name.name);
            if let Some(item) = scope.items.last_mut() {
                item.table = Some(*table);
            }
            return;
        }
        let (columns, read) =
            self.with_separate_accesses(|analyzer| analyzer.read_all(name, &found));
        push(scope, columns, alias, &name.name);
        is_behind(scope, read);
    }

    /// Reads all candidates for a name that is not a single table.
    fn read_all(&mut self, name: &Name, found: &[NamedObject]) -> Columns {
        let open = Columns { is_open: true, ..Columns::default() };
        self.reading.has_unknown_table |= found.len() > 1;
        for named in found {
            match named {
                NamedObject::Table(table) => self.access(*table, false, RowAspect::All, None),
                NamedObject::View(view) => {
                    let columns = self.view(*view);
                    if found.len() == 1 {
                        return columns;
                    }
                }
                NamedObject::Sequence(sequence) => self.sequence(*sequence, false),
                NamedObject::System => {}
                NamedObject::Temporary => self.reading.has_unknown_table = true,
                NamedObject::Unknown => {
                    self.reading.has_unknown_table = true;
                    self.unknown.insert(name.name.clone());
                }
            }
        }
        open
    }

    /// A table that is read as a whole: `TABLE name`, COPY.
    pub fn whole(&mut self, name: &Name, scope: &Scope<'_>, locks: &[LockClause]) -> Columns {
        let mut own = Scope::within(scope);
        self.named_item(name, None, &mut own);
        self.read_items(&own, locks);
        own.items.pop().map(|item| item.columns).unwrap_or_default()
    }

    /// The columns of a table.
    pub fn columns_of(&self, table: usize) -> Columns {
        let columns = self.lookup.table(table).map_or(&[][..], |table| &table.columns);
        let columns = columns.iter().enumerate().map(|(at, column)| Column {
            name: column.name.clone(),
            of: Some(self.lookup.column(table, at)),
            ..Column::default()
        });
        Columns { columns: columns.collect(), ..Columns::default() }
    }

    /// The column of the elements of an array.
    fn elements(&self, expr: &Expr) -> Column {
        let (array, cast) = (position(expr), Cast::of_elements(expr));
        let mut column = Column { name: "unnest".to_owned(), array, cast, ..Column::default() };
        match plain(expr) {
            Expr::Array(list) => {
                for one in &list.elem {
                    match position(one) {
                        Some(at) => column.maybe.push(at),
                        None => column.inside.extend(self.values_within(one)),
                    }
                }
            }
            _ if array.is_none() => column.inside = self.values_within(expr),
            _ => {}
        }
        column
    }

    /// Reads the rows of a function, or of anything else that is not a table.
    pub fn rows_of_function(&mut self, factor: &TableFactor, scope: &mut Scope<'_>) {
        let mut columns = Columns { is_open: true, ..Columns::default() };
        match factor {
            TableFactor::Table { name, args: Some(list), alias, .. } => {
                let name = Name::of(name);
                self.all(list.args.iter().filter_map(argument), scope);
                let first = list.args.iter().find_map(argument);
                let Some(name) = name else { return self.mark_unknown() };
                if self.call(&name, first) {
                    self.record_values(list.args.iter().filter_map(argument));
                }
                push(scope, columns, alias.as_ref(), &name.name);
            }
            TableFactor::Function { name, args, alias, .. } => {
                self.all(args.iter().filter_map(argument), scope);
                let name = Name::of(name).unwrap_or(Name { schema: None, name: String::new() });
                if self.call(&name, args.iter().find_map(argument)) {
                    self.record_values(args.iter().filter_map(argument));
                }
                push(scope, columns, alias.as_ref(), &name.name);
            }
            TableFactor::UNNEST { alias, array_exprs, .. } => {
                self.all(array_exprs, scope);
                columns.columns = array_exprs.iter().map(|array| self.elements(array)).collect();
                columns.each_of = array_exprs.first().and_then(position);
                columns.is_open = false;
                if let ([one], Some(alias)) = (columns.columns.as_mut_slice(), alias) {
                    one.name = folded(&alias.name);
                }
                push(scope, columns, alias.as_ref(), "unnest");
            }
            TableFactor::TableFunction { expr, alias } => {
                self.expr(expr, scope);
                push(scope, columns, alias.as_ref(), "");
            }
            TableFactor::JsonTable { json_expr, alias, .. }
            | TableFactor::OpenJsonTable { json_expr, alias, .. } => {
                self.expr(json_expr, scope);
                push(scope, columns, alias.as_ref(), "");
            }
            _ => self.mark_unknown(),
        }
    }
}

/// Renames columns by an alias.
pub fn rename(columns: &mut Columns, alias: &TableAlias) {
    for (at, named) in alias.columns.iter().enumerate() {
        match columns.columns.get_mut(at) {
            Some(column) => column.name = folded(&named.name),
            None => columns.columns.push(Column { name: folded(&named.name), ..Column::default() }),
        }
    }
}

/// Adds an item to a scope.
pub fn push(scope: &mut Scope<'_>, mut columns: Columns, alias: Option<&TableAlias>, name: &str) {
    if let Some(alias) = alias {
        rename(&mut columns, alias);
    }
    let alias = alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
    scope.items.push(Item { alias, columns, table: None, behind: Vec::new(), is_target: false });
}

/// Sets the accesses of the last item of a scope.
fn is_behind(scope: &mut Scope<'_>, read: Vec<Access>) {
    if let Some(item) = scope.items.last_mut() {
        item.behind = read;
    }
}
