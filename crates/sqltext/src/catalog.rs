//! The target's catalogue of tables, sequences, views and functions, as Python reads it
//! from the database that a trace is to be played to.
//!
//! Names are as in the catalogue: folded, without quotes. Objects are identified by their index in
//! these lists.

use serde::Deserialize;

/// The catalogue of a database, system schemas left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// Schemas in which a name without one is looked for, in order.
    pub search_path: Vec<String>,
    /// Tables, partitions and foreign tables.
    pub tables: Vec<Table>,
    /// Sequences.
    pub sequences: Vec<Sequence>,
    /// Keys that refer to others.
    pub foreign_keys: Vec<ForeignKey>,
    /// Views, plain and materialized.
    #[serde(default)]
    pub views: Vec<View>,
    /// Functions and procedures that are not part of the system.
    #[serde(default)]
    pub functions: Vec<Function>,
    /// The default isolation level of transactions; empty for READ COMMITTED.
    #[serde(default)]
    pub isolation: String,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns in order; those that were dropped are left out.
    pub columns: Vec<Column>,
    /// Keys of which no two rows have the same: column numbers; the primary key first.
    #[serde(default)]
    pub unique_keys: Vec<Vec<usize>>,
    /// The table of which it is a partition or a child: its index in the list.
    #[serde(default)]
    pub parent: Option<usize>,
    /// Functions that its triggers call: indexes in the list of functions.
    #[serde(default)]
    pub trigger_functions: Vec<usize>,
    /// Uniqueness other than that of its unique keys.
    #[serde(default)]
    pub other_uniqueness: Vec<Uniqueness>,
    /// Functions that represent its CHECK constraints, if these call any: indexes in the list.
    #[serde(default)]
    pub check_functions: Vec<usize>,
    /// Functions that represent its row security policies: indexes in the list.
    #[serde(default)]
    pub policy_functions: Vec<usize>,
}

/// A uniqueness that is not a key: a unique index on expressions, a partial one, EXCLUDE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uniqueness {
    /// Columns that it depends on, by number; none where it may be any.
    pub columns: Vec<usize>,
    /// Columns in which conflicting rows have the same values.
    pub equal: Vec<usize>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as `format_type` writes it, such as `bigint` or `uuid`.
    pub type_name: String,
    /// Where its default comes from.
    #[serde(default)]
    pub generated: Option<Generated>,
    /// Whether it has another default than NULL that is the same each time.
    #[serde(default)]
    pub has_default: bool,
    /// The function that represents its default, if the default does more than the other fields
    /// state: its index in the list.
    #[serde(default)]
    pub default_function: Option<usize>,
    /// Whether its collation is nondeterministic.
    #[serde(default)]
    pub is_nondeterministic: bool,
}

/// The generator of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Generated {
    /// The next value of a sequence: its index in the list. Serial and identity columns.
    Sequence(usize),
    /// A function that gives another value each time, such as `gen_random_uuid()`.
    Random,
    /// The time: `now()`, `CURRENT_TIMESTAMP`.
    Time,
}

/// A sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its increment.
    pub increment: i64,
    /// Values that a session takes at once.
    pub cache: i64,
    /// Whether it begins again at its end.
    #[serde(default)]
    pub cycles: bool,
    /// The value that it would give next; None where that may not be read.
    #[serde(default)]
    pub next_value: Option<i64>,
}

/// A key that refers to another table's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKey {
    /// The table that refers.
    pub table: usize,
    /// Its columns, by number.
    pub columns: Vec<usize>,
    /// The table that is referred to.
    pub parent: usize,
    /// Its columns, in the same order.
    pub parent_columns: Vec<usize>,
    /// Whether referring rows change with the referred ones: CASCADE, SET NULL or SET
    /// DEFAULT on an UPDATE or a DELETE.
    #[serde(default = "yes")]
    pub changes_children: bool,
    /// Whether it may be checked only when the transaction ends.
    #[serde(default)]
    pub is_deferrable: bool,
}

impl Catalog {
    /// Whether a sequence begins again at its end.
    pub fn cycles(&self, sequence: usize) -> bool {
        self.sequences.get(sequence).is_some_and(|sequence| sequence.cycles)
    }
}

fn yes() -> bool {
    true
}

/// A view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The query, as `pg_get_viewdef` writes it.
    pub definition: String,
    /// Functions that its triggers call: indexes in the list of functions.
    #[serde(default)]
    pub trigger_functions: Vec<usize>,
}

/// A function or procedure; or a rule, a default, a check, a policy in its form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Its schema.
    pub schema: String,
    /// Its name; several may have the same.
    pub name: String,
    /// Its language, such as `sql` or `plpgsql`.
    pub language: String,
    /// Its body; where that is in SQL's own syntax (`prosrc` is empty), as
    /// `pg_get_function_sqlbody` writes it. Empty if unknown.
    pub body: String,
}
