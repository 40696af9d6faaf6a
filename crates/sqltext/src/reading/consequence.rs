//! Indirect effects of a statement: foreign keys, triggers, views, functions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::analyzer::StatementAnalyzer;
use super::change::ColumnAssignment;
use super::insert::{InsertedRows, unseen};
use super::lookup::CatalogLookup;
use super::names;
use super::scope::{Columns, Scope};
use super::session::Path;
use super::text::{Literals, statements};
use super::{
    Access, ColumnId, Key, Object, Operand, RowAspect, StatementEffects, ValueDraw, ValueSource,
};
use crate::catalog::{ForeignKey, Function, Generated};
use crate::lexer::form::Parts;

/// The effects of views and functions, each read once.
#[derive(Debug, Default)]
pub struct BodyCache {
    views: Vec<BodyState>,
    functions: Vec<BodyState>,
}

/// The state of reading a body of a view or function.
#[derive(Clone, Debug, Default)]
enum BodyState {
    #[default]
    Unread,
    /// It is being read.
    InProgress,
    Read(Arc<BodyEffects>),
}

/// The effects of a body.
#[derive(Debug, Default)]
pub struct BodyEffects {
    /// Its own effects.
    reading: StatementEffects,
    /// The columns that it returns.
    columns: Columns,
    /// Functions that it calls. Their effects are stored separately, so that recursive functions
    /// are read once.
    calls: BTreeSet<usize>,
}

impl BodyCache {
    /// An empty cache for a catalogue.
    pub fn new(lookup: &CatalogLookup) -> BodyCache {
        BodyCache {
            views: vec![BodyState::Unread; lookup.catalog.views.len()],
            functions: vec![BodyState::Unread; lookup.catalog.functions.len()],
        }
    }
}

impl StatementAnalyzer<'_, '_> {
    /// Rows are added to a table.
    pub fn added(
        &mut self,
        table: usize,
        inserted: &InsertedRows<'_>,
        aspect: RowAspect,
        key: Option<Key>,
    ) {
        self.access(table, true, aspect, key.clone());
        self.takes_written(table, inserted, aspect, key.as_ref());
        let root = self.lookup.root(table);
        for foreign in self.foreign(self.lookup.referring(root)) {
            let columns = self.columns(foreign.table, &foreign.columns);
            let is_given = columns.iter().any(|of| {
                inserted.columns.iter().any(|&own| self.lookup.column(table, own) == *of)
            });
            if !is_given && !columns.iter().any(|&of| self.has_default(of)) {
                // A column that is left out is NULL, and refers to nothing.
                continue;
            }
            let rows = self.rows_written(table, inserted, &columns);
            self.checks(&foreign, rows);
        }
        self.fires(root);
    }

    /// Whether a column that is left out has another value than NULL.
    fn has_default(&self, of: ColumnId) -> bool {
        let column = self.lookup.table(of.table).and_then(|table| table.columns.get(of.column));
        column.is_some_and(|column| {
            column.has_default || column.generated.is_some() || column.default_function.is_some()
        })
    }

    /// Values of rows of a table are changed.
    pub fn updated(&mut self, table: usize, key: Option<Key>, set: &[ColumnAssignment]) {
        let root = self.lookup.root(table);
        let is_set = |of: &ColumnId| set.iter().any(|one| one.column == *of);
        let sets_key = {
            let mut keys = self.lookup.unique(root).filter(|(_, one)| one.is_key);
            keys.any(|(_, one)| one.columns.iter().any(is_set))
        };
        let referred = self.foreign(self.lookup.referred(root));
        let is_moved = |foreign: &ForeignKey| {
            self.columns(foreign.parent, &foreign.parent_columns).iter().any(is_set)
        };
        let is_moved = referred.iter().any(is_moved);
        let aspect = if sets_key || is_moved { RowAspect::All } else { RowAspect::Values };
        self.access(table, true, aspect, key.clone());
        self.sets(table, aspect, key.as_ref(), set);
        self.fires(root);
    }

    /// Records the effects of setting columns, other than the access to the old rows.
    pub fn sets(
        &mut self,
        table: usize,
        aspect: RowAspect,
        key: Option<&Key>,
        set: &[ColumnAssignment],
    ) {
        let root = self.lookup.root(table);
        let is_set = |of: &ColumnId| set.iter().any(|one| one.column == *of);
        let is_added = |of: &ColumnId| set.iter().any(|one| one.column == *of && one.is_added);
        if let Some(key) = key {
            self.access_moved(table, aspect, key, set);
            self.takes_set(root, key, set);
        }
        for foreign in self.foreign(self.lookup.referring(root)) {
            let columns = self.columns(foreign.table, &foreign.columns);
            if columns.iter().any(is_set) && !columns.iter().all(is_added) {
                let row = values_set(&columns, set);
                self.checks(&foreign, row.map(|row| vec![row]));
            }
        }
        for foreign in self.foreign(self.lookup.referred(root)) {
            if self.columns(foreign.parent, &foreign.parent_columns).iter().any(is_set) {
                self.reaches_children(&foreign, key, 0);
            }
        }
    }

    /// An UPDATE that sets the key of its rows accesses the rows of the new key too.
    fn access_moved(
        &mut self,
        table: usize,
        aspect: RowAspect,
        key: &Key,
        set: &[ColumnAssignment],
    ) {
        let of = |of: &ColumnId| set.iter().find(|one| one.column == *of);
        // What the rows that are added would have, those that are there have.
        let is_moved = |column: &ColumnId| of(column).is_some_and(|one| !one.is_added);
        if key.columns.iter().any(is_moved) {
            let after = values_set(&key.columns, set);
            let after = after.map(|row| Key { columns: key.columns.clone(), rows: vec![row] });
            self.access(table, true, aspect, after);
        }
    }

    /// Rows of a table are deleted, or changed in an unknown way.
    pub fn changed(&mut self, table: usize, aspect: RowAspect, key: Option<Key>, deletes: bool) {
        self.access(table, true, aspect, key.clone());
        let root = self.lookup.root(table);
        self.frees(root, key.as_ref());
        if deletes {
            for foreign in self.foreign(self.lookup.referred(root)) {
                self.reaches_children(&foreign, key.as_ref(), 0);
            }
        }
        self.fires(root);
    }

    /// The parent's rows have to exist.
    fn checks(&mut self, foreign: &ForeignKey, rows: Option<Vec<Vec<Operand>>>) {
        let columns = self.columns(foreign.parent, &foreign.parent_columns);
        let is_exact = columns.iter().all(|&of| self.lookup.is_exact(of));
        let key = rows.filter(|_| is_exact).map(|rows| Key { columns, rows });
        let aspect = if foreign.is_deferrable { RowAspect::Later } else { RowAspect::Presence };
        self.access(foreign.parent, false, aspect, key);
    }

    /// Rows that refer to a deleted row or a changed key are searched for, and changed with it.
    fn reaches_children(&mut self, foreign: &ForeignKey, key: Option<&Key>, depth: usize) {
        if depth > self.lookup.catalog.foreign_keys.len() {
            return;
        }
        let parents = self.columns(foreign.parent, &foreign.parent_columns);
        let columns = self.columns(foreign.table, &foreign.columns);
        let key = key.filter(|key| key.columns == parents);
        let key = key.map(|key| Key { columns, rows: key.rows.clone() });
        let before = self.reading.accesses.len();
        self.access(foreign.table, foreign.changes_children, RowAspect::All, key.clone());
        let is_new = self.reading.accesses.len() > before;
        if foreign.changes_children && is_new {
            let root = self.lookup.root(foreign.table);
            self.frees(root, key.as_ref());
            for further in self.foreign(self.lookup.referred(root)) {
                self.reaches_children(&further, key.as_ref(), depth + 1);
            }
            self.fires(root);
        }
    }

    fn foreign(&self, at: &[usize]) -> Vec<ForeignKey> {
        at.iter().filter_map(|&at| self.lookup.catalog.foreign_keys.get(at)).cloned().collect()
    }

    fn columns(&self, table: usize, columns: &[usize]) -> Vec<ColumnId> {
        columns.iter().map(|&column| self.lookup.column(table, column)).collect()
    }

    /// Records the effects of the triggers and CHECK constraints of a table.
    fn fires(&mut self, root: usize) {
        let functions = [self.lookup.triggers(root), self.lookup.checks(root)].concat();
        for function in functions {
            self.follow(function);
        }
    }

    /// Rows are added whose values are not in the statement: to these columns by number.
    pub fn added_unknown_rows(&mut self, table: usize, columns: Vec<usize>) {
        let inserted = unseen(columns);
        self.draw_columns(table, &inserted);
        self.added(table, &inserted, RowAspect::All, None);
    }

    /// A statement writes to a table in an unknown way.
    pub fn changed_unknown_rows(&mut self, table: usize) {
        let root = self.lookup.root(table);
        for foreign in self.foreign(self.lookup.referring(root)) {
            self.checks(&foreign, None);
        }
        self.changed(table, RowAspect::All, None, true);
    }

    /// The sequences of a table are drawn from, or set.
    pub fn draws_of_table(&mut self, table: usize) {
        let lookup = self.lookup;
        let columns = lookup.table(table).map_or(&[][..], |table| &table.columns);
        for column in columns {
            if let Some(Generated::Sequence(sequence)) = column.generated {
                self.sequence(sequence, true);
            }
            if let Some(function) = column.default_function {
                self.follow(function);
            }
        }
    }

    /// The sequences of a table restart.
    pub fn restarts(&mut self, table: usize) {
        self.draws_of_table(table);
        let columns = self.lookup.table(table).map_or(&[][..], |table| &table.columns);
        for column in columns {
            if let Some(Generated::Sequence(sequence)) = column.generated {
                self.sequence_restarted(Some(sequence));
            }
        }
    }

    /// Records that a sequence is set; None for any.
    pub fn sequence_restarted(&mut self, sequence: Option<usize>) {
        if !self.reading.sets.contains(&sequence) {
            self.reading.sets.push(sequence);
        }
    }

    /// A view is written to: its tables are. `adds` where rows may be added.
    pub fn change_view(&mut self, view: usize, adds: bool) {
        let (_, read) = self.with_separate_accesses(|analyzer| analyzer.view(view));
        for access in read {
            if let Object::Table(table) = access.object {
                self.changed_unknown_rows(table);
                if adds {
                    self.draws_of_table(table);
                }
            }
        }
        let triggers = self.lookup.catalog.views.get(view).map(|view| &view.trigger_functions);
        for function in triggers.cloned().unwrap_or_default() {
            self.follow(function);
        }
    }

    /// Records the accesses of a view, and returns its columns.
    pub fn view(&mut self, view: usize) -> Columns {
        let open = || Columns { is_open: true, ..Columns::default() };
        let lookup = self.lookup;
        let Some(definition) = lookup.catalog.views.get(view).map(|view| view.definition.as_str())
        else {
            return open();
        };
        match self.body_cache.views.get(view) {
            Some(BodyState::Read(found)) => {
                let found = Arc::clone(found);
                self.run(&found);
                return found.columns.clone();
            }
            Some(BodyState::Unread) => {}
            Some(BodyState::InProgress) | None => return open(),
        }
        self.body_cache.views[view] = BodyState::InProgress;
        let found = Arc::new(self.read_body(definition));
        self.body_cache.views[view] = BodyState::Read(Arc::clone(&found));
        self.run(&found);
        found.columns.clone()
    }

    /// Records the effects of a body.
    pub fn run(&mut self, found: &BodyEffects) {
        self.take_in(&found.reading);
        found.calls.iter().for_each(|&function| self.follow(function));
    }

    /// Records the effects of a called function, and of those that it calls, as far as their bodies
    /// are known.
    pub fn follow(&mut self, function: usize) {
        if !self.calls.insert(function) || self.is_body {
            return;
        }
        let mut open = vec![function];
        while let Some(function) = open.pop() {
            let Some(found) = self.function_body(function) else { continue };
            self.take_in(&found.reading);
            open.extend(found.calls.iter().filter(|&&called| self.calls.insert(called)));
        }
    }

    fn function_body(&mut self, function: usize) -> Option<Arc<BodyEffects>> {
        if let Some(BodyState::Read(found)) = self.body_cache.functions.get(function) {
            return Some(Arc::clone(found));
        }
        let lookup = self.lookup;
        let called = lookup.catalog.functions.get(function)?;
        // It does the same wherever it is called.
        let depth = std::mem::take(&mut self.depth);
        let found = Arc::new(self.read_function(called));
        self.depth = depth;
        self.body_cache.functions[function] = BodyState::Read(Arc::clone(&found));
        Some(found)
    }

    fn read_function(&mut self, function: &Function) -> BodyEffects {
        let has_body = !function.body.trim().is_empty();
        let opaque = |accesses_anything: bool| {
            let reading = StatementEffects { accesses_anything, ..StatementEffects::default() };
            BodyEffects { reading, ..BodyEffects::default() }
        };
        match function.language.as_str() {
            "sql" if has_body => self.read_body(without_atomic(&function.body)),
            // A rule of a table: what is behind DO is done in addition, or instead.
            "plpgsql" | "rule" if has_body => {
                let body = function.body.as_bytes();
                self.within(body, |analyzer, _| names::read_body(analyzer, body)).0
            }
            // What is compiled works on its arguments, but for what is known to run texts.
            "c" | "internal" => opaque(super::calls::runs_text(&function.name)),
            _ => opaque(true),
        }
    }

    /// Reads the statements of a body. Its values are none of the statement's.
    fn read_body(&mut self, sql: &str) -> BodyEffects {
        let (found, mut columns) = self.within(sql.as_bytes(), |analyzer, form| {
            let mut columns = Columns::default();
            for tokens in statements(form) {
                columns = analyzer.statement(&tokens, &Scope::default());
            }
            columns
        });
        for column in &mut columns.columns {
            (column.array, column.drawn, column.last_value) = (None, None, None);
            (column.maybe, column.inside) = (Vec::new(), Vec::new());
            column.values.clear();
        }
        (columns.rows, columns.each_of) = (None, None);
        BodyEffects { columns, ..found }
    }

    /// Reads another text, and returns the effects that apply to the caller.
    pub fn within<T>(
        &mut self,
        sql: &[u8],
        read: impl FnOnce(&mut StatementAnalyzer<'_, '_>, &[u8]) -> T,
    ) -> (BodyEffects, T) {
        let mut parts = Parts::default();
        parts.take_apart(sql);
        let mut literals = Literals::of(sql, &parts);
        let mut analyzer =
            StatementAnalyzer::new(self.lookup, self.body_cache, &mut literals, &Path::Default);
        (analyzer.depth, analyzer.is_body) = (self.depth, true);
        let result = read(&mut analyzer, parts.form());
        let StatementAnalyzer { mut reading, unknown, calls, .. } = analyzer;
        reading.accesses_anything |= !unknown.is_empty();
        let bare = reading.accesses.into_iter().map(|access| Access {
            // Which key they have, and so whether it is another's, is not known any more.
            aspect: if access.key.is_some() && access.aspect == RowAspect::New {
                RowAspect::All
            } else {
                access.aspect
            },
            key: None,
            ..access
        });
        let StatementEffects { accesses_anything, volatile, sets, .. } = reading;
        let accesses = bare.collect();
        let reading = StatementEffects {
            accesses,
            accesses_anything,
            volatile,
            sets,
            ..StatementEffects::default()
        };
        (BodyEffects { reading, columns: Columns::default(), calls }, result)
    }

    /// An unknown number of values may be drawn from a sequence.
    pub fn draws_unknown_number(&mut self, sequence: usize) {
        let draw = ValueDraw {
            source: ValueSource::Sequence(sequence),
            column: None,
            count: None,
            each_of: None,
            may_conflict: false,
            returned: None,
        };
        if !self.reading.draws.contains(&draw) {
            self.reading.draws.push(draw);
        }
    }

    /// Adds the effects of a body.
    pub fn take_in(&mut self, reading: &StatementEffects) {
        for &access in &reading.accesses {
            self.record(access);
            if let Object::Sequence(sequence) = access.object {
                if access.writes {
                    self.draws_unknown_number(sequence);
                }
            }
        }
        reading.volatile.iter().for_each(|&volatile| self.volatile(volatile));
        reading.sets.iter().for_each(|&sequence| self.sequence_restarted(sequence));
        self.reading.accesses_anything |= reading.accesses_anything;
    }
}

/// The values that all of these columns are set to; None if they are not in the statement.
pub fn values_set(columns: &[ColumnId], set: &[ColumnAssignment]) -> Option<Vec<Operand>> {
    let value = |of: &ColumnId| set.iter().find(|one| one.column == *of)?.value.map(Operand::One);
    columns.iter().map(value).collect()
}

/// The statements of a body in the form of the SQL standard, without BEGIN ATOMIC and END.
fn without_atomic(body: &str) -> &str {
    let begin = "BEGIN ATOMIC";
    let body = body.trim();
    let is_atomic = body.get(..begin.len()).is_some_and(|own| own.eq_ignore_ascii_case(begin));
    let inside = body.len().checked_sub("END".len()).filter(|_| is_atomic);
    inside.and_then(|end| body.get(begin.len()..end)).unwrap_or(body)
}
