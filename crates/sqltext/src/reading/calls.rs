//! Calls of system functions, and of the database's own functions, which are followed.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    OrderByExpr, WindowType,
};

use super::analyzer::StatementAnalyzer;
use super::expression::{plain, position};
use super::lookup::Name;
use super::scope::Scope;
use super::session::{NamesChange, Path};
use super::{Access, Object, RowAspect, ValueDraw, ValuePosition, ValueSource, Volatile};
use crate::catalog::Generated;
use crate::lexer::name::unquoted;

/// Functions that return the time; those without parentheses as well.
pub const OF_TIME: [&str; 10] = [
    "now",
    "current_timestamp",
    "current_time",
    "current_date",
    "localtime",
    "localtimestamp",
    "clock_timestamp",
    "statement_timestamp",
    "transaction_timestamp",
    "timeofday",
];

/// Functions that return a different value each time.
const OF_CHANCE: [&str; 7] = [
    "random",
    "random_normal",
    "gen_random_bytes",
    "gen_salt",
    "pg_backend_pid",
    "pg_current_xact_id",
    "txid_current",
];

/// Functions whose values serve as keys.
const OF_KEYS: [&str; 6] = [
    "gen_random_uuid",
    "uuidv4",
    "uuidv7",
    "uuid_generate_v1",
    "uuid_generate_v1mc",
    "uuid_generate_v4",
];

/// Functions of the system that run a text, or read a table that a text names.
const RUNNING: [&str; 12] = [
    "query_to_xml",
    "query_to_xmlschema",
    "query_to_xml_and_xmlschema",
    "table_to_xml",
    "schema_to_xml",
    "database_to_xml",
    "cursor_to_xml",
    "ts_stat",
    "ts_rewrite",
    "crosstab",
    "connectby",
    "xpath_table",
];

/// Prefixes of functions that take or release advisory locks.
const OF_LOCKS: [&str; 2] = ["pg_advisory_", "pg_try_advisory_"];

impl StatementAnalyzer<'_, '_> {
    /// Reads a call.
    pub fn function(&mut self, function: &Function, scope: &Scope<'_>) {
        for arguments in [&function.parameters, &function.args] {
            match arguments {
                FunctionArguments::None => {}
                FunctionArguments::Subquery(query) => {
                    self.query(query, scope);
                }
                FunctionArguments::List(list) => {
                    self.all(list.args.iter().filter_map(argument), scope);
                    list.clauses.iter().for_each(|clause| self.clause(clause, scope));
                }
            }
        }
        let ordered: &[OrderByExpr] = &function.within_group;
        self.all(ordered.iter().map(|one| &one.expr), scope);
        self.all(function.filter.iter().map(|one| &**one), scope);
        if let Some(WindowType::WindowSpec(window)) = &function.over {
            self.window(window, scope);
        }
        let Some(name) = Name::of(&function.name) else { return self.mark_unknown() };
        if self.call(&name, arguments(function).next()) {
            self.record_values(arguments(function));
        }
    }

    fn clause(&mut self, clause: &FunctionArgumentClause, scope: &Scope<'_>) {
        use FunctionArgumentClause as Clause;
        match clause {
            Clause::Where(one) | Clause::Limit(one) => self.expr(one, scope),
            Clause::OrderBy(all) => self.all(all.iter().map(|one| &one.expr), scope),
            _ => {}
        }
    }

    /// Records the values in the arguments of a function, which does something unknown with
    /// them.
    pub fn record_values<'e>(&mut self, arguments: impl Iterator<Item = &'e Expr>) {
        for argument in arguments {
            for position in self.values_within(argument) {
                if !self.reading.passed_values.contains(&position) {
                    self.reading.passed_values.push(position);
                }
            }
        }
    }

    /// Records the effects of a function. True if it is one of the database, which may do anything
    /// with its arguments.
    pub fn call(&mut self, name: &Name, first: Option<&Expr>) -> bool {
        let functions = self.lookup.functions(name);
        functions.iter().for_each(|&function| self.follow(function));
        let is_interpreted = functions.iter().any(|&function| self.lookup.is_interpreted(function));
        if !is_interpreted {
            self.call_of_system(name.name.as_str(), first);
        }
        is_interpreted
    }

    fn call_of_system(&mut self, called: &str, first: Option<&Expr>) {
        match called {
            "nextval" => match self.sequence_of(first) {
                Some(sequence) => {
                    self.sequence(sequence, true);
                    self.draw(ValueSource::Sequence(sequence));
                }
                None => self.mark_unknown(),
            },
            "setval" => {
                let sequence = self.sequence_of(first);
                match sequence {
                    Some(sequence) => self.sequence(sequence, true),
                    None => self.mark_unknown(),
                }
                self.sequence_restarted(sequence);
            }
            "currval" | "lastval" | "pg_sequence_last_value" => self.volatile(Volatile::LastDrawn),
            _ if OF_TIME.contains(&called) => self.volatile(Volatile::Time),
            _ if OF_KEYS.contains(&called) => {
                self.volatile(Volatile::Random);
                self.draw(ValueSource::Random);
            }
            _ if OF_CHANCE.contains(&called) => self.volatile(Volatile::Random),
            "set_config" => self.sets_config(first),
            _ if runs_text(called) => self.mark_unknown(),
            _ if OF_LOCKS.iter().any(|begin| called.starts_with(begin)) => {
                let object = Object::Advisory;
                self.record(Access { object, writes: true, aspect: RowAspect::All, key: None });
            }
            _ => {}
        }
    }

    /// Records a generated value: one, unless the enclosing expression repeats it.
    fn draw(&mut self, source: ValueSource) {
        self.reading.draws.push(ValueDraw {
            source,
            column: None,
            count: Some(1),
            each_of: None,
            may_conflict: false,
            returned: None,
        });
    }

    /// A setting may be the search path.
    fn sets_config(&mut self, first: Option<&Expr>) {
        let is_other = match first.and_then(position) {
            Some(ValuePosition::Literal(literal)) => {
                !unquoted(self.literals.look(literal)).eq_ignore_ascii_case(b"search_path")
            }
            _ => false,
        };
        if !is_other {
            self.effects.push(NamesChange::SetsPath(Path::Unknown, false));
        }
    }

    /// The sequence whose last drawn value an expression returns; `Some(None)` for any sequence.
    pub fn last_value_of(&mut self, expr: &Expr) -> Option<Option<usize>> {
        let Expr::Function(function) = plain(expr) else { return None };
        match Name::of(&function.name)?.name.as_str() {
            "lastval" => Some(None),
            "currval" => self.sequence_of(arguments(function).next()).map(Some),
            _ => None,
        }
    }

    /// The sequence that a literal names, as the first argument of a function.
    fn sequence_of(&mut self, first: Option<&Expr>) -> Option<usize> {
        let first = first?;
        if let Expr::Function(function) = plain(first) {
            return self.sequence_of_column(function);
        }
        let name = self.text_of(first)?;
        self.lookup.sequence(&name, self.path)
    }

    /// The sequence that `pg_get_serial_sequence` returns for literals.
    fn sequence_of_column(&mut self, function: &Function) -> Option<usize> {
        let name = Name::of(&function.name)?;
        let mut all = arguments(function);
        let (table, column) = (all.next()?, all.next()?);
        if name.name != "pg_get_serial_sequence" {
            return None;
        }
        let (table, column) = (self.text_of(table)?, self.text_of(column)?);
        let table = self.lookup.table_of(&table, self.path)?;
        let is_it = |one: &&crate::catalog::Column| one.name.as_bytes() == column.as_slice();
        match self.lookup.table(table)?.columns.iter().find(is_it)?.generated {
            Some(Generated::Sequence(sequence)) => Some(sequence),
            _ => None,
        }
    }

    /// The content of a literal.
    fn text_of(&mut self, expr: &Expr) -> Option<Vec<u8>> {
        match position(expr)? {
            ValuePosition::Literal(literal) => Some(unquoted(self.literals.look(literal))),
            ValuePosition::Parameter(_) => None,
        }
    }
}

/// Whether an expression is a call that generates a value.
pub fn is_draw(expr: &Expr) -> bool {
    let Expr::Function(function) = plain(expr) else { return false };
    let name = Name::of(&function.name).map(|name| name.name).unwrap_or_default();
    name == "nextval" || OF_KEYS.contains(&name.as_str())
}

/// Whether a function of the system or of an extension runs a text, or keeps state outside of
/// tables.
pub fn runs_text(name: &str) -> bool {
    RUNNING.contains(&name) || ["dblink", "lo_"].iter().any(|begin| name.starts_with(begin))
}

pub fn argument(argument: &FunctionArg) -> Option<&Expr> {
    let (FunctionArg::Named { arg, .. }
    | FunctionArg::ExprNamed { arg, .. }
    | FunctionArg::Unnamed(arg)) = argument;
    match arg {
        FunctionArgExpr::Expr(expr) => Some(expr),
        _ => None,
    }
}

/// The arguments of a call.
pub fn arguments(function: &Function) -> impl Iterator<Item = &Expr> {
    let list = match &function.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(argument)
}
