//! The effects of a statement, from its text and the target's catalogue: which tables it reads
//! and writes, which values the server generates for it, and where in it the values of columns are.
//!
//! They are the same for all texts of one form (see [`crate::lexer::form`]) whose literals are of
//! the same kinds. These are parsed once by [`Reader`], and values are identified by their
//! position. Texts that the parser does not support are read by the names in them: too many
//! conflicts rather than too few.
//!
//! | part | rule |
//! |---|---|
//! | [`reader`] | from a text to its reading, once a form |
//! | `text` | the statements of a form, as the parser takes them |
//! | `lookup` | the catalogue by names; which columns and keys matter |
//! | `scope` | what a name means within a statement |
//! | `analyzer` | queries, from their tables to the columns that they give |
//! | `from` | tables, joins and other sources of rows |
//! | `expression` | values of columns in expressions |
//! | `parts` | the parts of an expression, and those that may be its value |
//! | `calls` | functions |
//! | `bounds` | keys that rows are bound to |
//! | `cast` | casts that preserve a value |
//! | `insert` | INSERT, and the values that the server generates for it |
//! | `change` | UPDATE, DELETE, MERGE |
//! | `unique` | uniqueness other than that of the keys that rows are bound to |
//! | `consequence` | foreign keys, triggers, views, functions: indirect effects of a statement |
//! | `command` | other statements: LOCK, COPY, cursors, prepared statements |
//! | [`session`] | name resolution in a session, and the statements that change it |
//! | `names` | texts that are not understood, by the names in them |

mod analyzer;
mod bounds;
mod calls;
mod cast;
mod change;
mod command;
mod consequence;
mod expression;
mod from;
mod insert;
mod lookup;
mod names;
mod parts;
pub mod reader;
mod scope;
pub mod session;
#[cfg(test)]
mod tests;
mod text;
mod unique;

pub use reader::{Reader, returning_at};
pub use session::SessionNames;

/// A table, a sequence, or another object on which statements conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A table, by its index in the catalogue. A partition counts as its root table.
    Table(usize),
    /// A sequence, by its index in the catalogue.
    Sequence(usize),
    /// A unique key or another uniqueness, by its number. A statement that adds values
    /// writes it, and one that removes values reads it.
    Unique(usize),
    /// Advisory locks, all of them.
    Advisory,
}

/// A column of a table, both by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId {
    /// The table's index in the catalogue.
    pub table: usize,
    /// The column's index in the table.
    pub column: usize,
}

/// The position of a value in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValuePosition {
    /// In the text: the index among its literals, in the order of
    /// [`crate::lexer::form::Parts::literals`], which include comments.
    Literal(u32),
    /// A parameter, from 0.
    Parameter(u32),
}

/// An access of a statement to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The object.
    pub object: Object,
    /// Whether it changes or locks rows of it, or draws from it; else it reads only.
    pub writes: bool,
    /// The aspect of the rows that it depends on.
    pub aspect: RowAspect,
    /// The key that its rows are bound to: an index in [`StatementEffects::keys`]; None for any
    /// rows.
    pub key: Option<u16>,
}

/// The aspect of the accessed rows that an access depends on.
///
/// `Presence` and `Values` do not conflict, nor do two of `New`, unless both are bound to the same
/// key and the same values of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowAspect {
    /// Everything, including which rows exist, and their keys.
    #[default]
    All,
    /// Their existence: the check of a foreign key. It reads.
    Presence,
    /// Their existence, perhaps only at the end of the transaction: a deferrable key.
    Later,
    /// Columns of no key: an UPDATE that sets no column of a key. It writes.
    Values,
    /// New rows: an INSERT. It writes.
    New,
}

/// The value that a column of a key is equal to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The value there.
    One(ValuePosition),
    /// An element of the array there.
    AnyOf(ValuePosition),
}

impl Operand {
    /// Its position.
    pub fn position(self) -> ValuePosition {
        let (Operand::One(position) | Operand::AnyOf(position)) = self;
        position
    }

    /// Returns the same operand at another position.
    pub fn at(self, position: ValuePosition) -> Operand {
        match self {
            Operand::One(_) => Operand::One(position),
            Operand::AnyOf(_) => Operand::AnyOf(position),
        }
    }
}

/// A key whose values the statement states: it accesses these rows and no others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The columns: a unique key of the table, or a foreign key.
    pub columns: Vec<ColumnId>,
    /// Their values, in the same order; several rows of values for `IN` and a list of VALUES.
    pub rows: Vec<Vec<Operand>>,
}

/// A value of a column that is written in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueUse {
    /// The column.
    pub column: ColumnId,
    /// Its position.
    pub position: ValuePosition,
    /// How it is used.
    pub kind: UseKind,
}

/// How a statement uses a value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UseKind {
    /// `column = value`, or one of a list of `IN`.
    Equal,
    /// `column = ANY (value)`, or `unnest(value)` for the column: the value is an array.
    Array,
    /// It is written to the column: a list of VALUES, SET.
    Written,
    /// It bounds the column: `<`, `>`, BETWEEN. It cannot be mapped.
    Bound,
    /// It is part of an expression that is compared with the column or written to it, or that
    /// contains the column; how it relates to the column is unknown. It cannot be mapped.
    Inside,
}

/// Values that the server generates for a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueDraw {
    /// Their source.
    pub source: ValueSource,
    /// Their column; None for a `nextval` whose value goes to the client only.
    pub column: Option<ColumnId>,
    /// How many: the rows of VALUES, 1 for a `nextval`; None where only the server knows: INSERT
    /// ... SELECT, what functions and triggers draw, `setval`.
    pub count: Option<u32>,
    /// One for each element of this array: `unnest($1)`; else None.
    pub each_of: Option<ValuePosition>,
    /// Some rows may already exist, although a value was drawn for each: ON CONFLICT.
    pub may_conflict: bool,
    /// The column of the result that returns the value; None if there is none.
    pub returned: Option<u32>,
}

/// The source of generated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueSource {
    /// A sequence of the catalogue.
    Sequence(usize),
    /// Random values, such as UUIDs.
    Random,
    /// The time.
    Time,
}

/// A volatile function in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volatile {
    /// `now()`, `CURRENT_TIMESTAMP` and the like.
    Time,
    /// `random()`, `gen_random_uuid()`.
    Random,
    /// `currval`, `lastval`: the last value that this session drew.
    LastDrawn,
}

/// A column of the result that returns the last value that the session drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastValue {
    /// The sequence: `currval('...')`; None for the last one: `lastval()`.
    pub sequence: Option<usize>,
    /// The column of the result.
    pub returned: u32,
}

/// A column of the result that shows a selected row: the one of a key, or the only
/// one that satisfies its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReturnedKey {
    /// The column.
    pub column: ColumnId,
    /// The column of the result.
    pub returned: u32,
    /// The unique key of the row, an index in [`StatementEffects::keys`]; None if other conditions
    /// select it.
    pub key: Option<u16>,
}

/// The effects of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementEffects {
    /// Accessed objects, including those of views and functions; each once for each key.
    pub accesses: Vec<Access>,
    /// It was not understood, or has unknown effects: it may access anything.
    pub accesses_anything: bool,
    /// Keys whose values it states.
    pub keys: Vec<Key>,
    /// Values of columns in it.
    pub uses: Vec<ValueUse>,
    /// Values of text columns in it that may contain ids.
    pub texts: Vec<ValueUse>,
    /// Values of columns that other tables' rows have when it succeeds: those that foreign keys of
    /// the rows that it adds refer to, checked as they are added.
    pub parents: Vec<(ColumnId, ValuePosition)>,
    /// Values that the server generates for it.
    pub draws: Vec<ValueDraw>,
    /// Columns of its result that return the last value that the session drew.
    pub last_values: Vec<LastValue>,
    /// Columns of its result that show selected rows.
    pub shows: Vec<ReturnedKey>,
    /// The unique key of the row that an INSERT ... ON CONFLICT writes or finds there.
    pub row_key: Option<u16>,
    /// Values that are passed to functions of the database or to prepared statements, which may do
    /// anything with them.
    pub passed_values: Vec<ValuePosition>,
    /// Sequences that it sets, so that they may repeat values: `setval`,
    /// RESTART; None for any of them.
    pub sets: Vec<Option<usize>>,
    /// Volatile functions in it.
    pub volatile: Vec<Volatile>,
    /// It is one INSERT without RETURNING, so one may be added (see [`returning_at`]).
    pub takes_returning: bool,
    /// It is one INSERT that calls none of the database's functions, nor do triggers: it draws all
    /// its values or none before a constraint can fail.
    pub draws_before_checks: bool,
    /// It was read by the names in it only, so no uses and no keys are known.
    pub is_by_names: bool,
    /// It names a table whose columns are unknown: not in the catalogue, or ambiguous.
    pub has_unknown_table: bool,
}

impl StatementEffects {
    /// Memory used.
    pub fn held_bytes(&self) -> usize {
        let of_key = |key: &Key| {
            let rows = key.rows.iter().map(|row| row.capacity() * size_of::<ValuePosition>());
            key.columns.capacity() * size_of::<ColumnId>()
                + key.rows.capacity() * size_of::<Vec<ValuePosition>>()
                + rows.sum::<usize>()
        };
        size_of::<StatementEffects>()
            + self.accesses.capacity() * size_of::<Access>()
            + self.keys.capacity() * size_of::<Key>()
            + self.keys.iter().map(of_key).sum::<usize>()
            + self.uses.capacity() * size_of::<ValueUse>()
            + self.texts.capacity() * size_of::<ValueUse>()
            + self.parents.capacity() * size_of::<(ColumnId, ValuePosition)>()
            + self.draws.capacity() * size_of::<ValueDraw>()
            + self.last_values.capacity() * size_of::<LastValue>()
            + self.shows.capacity() * size_of::<ReturnedKey>()
            + self.passed_values.capacity() * size_of::<ValuePosition>()
            + self.sets.capacity() * size_of::<Option<usize>>()
            + self.volatile.capacity()
    }
}
