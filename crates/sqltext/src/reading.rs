//! What a statement does, according to its text and the target's catalogue: which tables it reads
//! and writes, which values the server makes for it, and where in it the values of columns are.
//!
//! It is the same for all texts of one form (see [`crate::lexer::form`]) in which the literals are
//! of the same kinds: such are parsed once, and values are identified by their place. [`Reader`]
//! does it. Texts that the parser does not know are read by the names in them: too many conflicts
//! rather than too few.
//!
//! | part | rule |
//! |---|---|
//! | [`reader`] | from a text to its reading, once a form |
//! | `text` | the statements of a form, as the parser takes them |
//! | `known` | the catalogue by names; which columns and keys matter |
//! | `scope` | what a name means within a statement |
//! | `walk` | queries, from their tables to the columns that they give |
//! | `from` | tables, joins, and what else rows come from |
//! | `expression` | values of columns in expressions |
//! | `parts` | the parts of an expression, and those that may be its value |
//! | `calls` | functions |
//! | `bounds` | keys that rows are bound to |
//! | `cast` | casts that leave a value what it is |
//! | `insert` | INSERT, and the values that the server makes for it |
//! | `change` | UPDATE, DELETE, MERGE |
//! | `unique` | uniqueness other than that of the keys that rows are bound to |
//! | `consequence` | foreign keys, triggers, views, functions: indirect effects of a statement |
//! | `command` | what is no query: LOCK, COPY, cursors, prepared statements |
//! | [`session`] | what names mean in a session, and the statements that change it |
//! | `names` | a text that is not understood, by the names in it |

mod bounds;
mod calls;
mod cast;
mod change;
mod command;
mod consequence;
mod expression;
mod from;
mod insert;
mod known;
mod names;
mod parts;
pub mod reader;
mod scope;
pub mod session;
#[cfg(test)]
mod tests;
mod text;
mod unique;
mod walk;

pub use reader::{Reader, returning_at};
pub use session::SessionNames;

/// A table, a sequence, or what else statements meet at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A table, by its place in the catalogue. A partition counts as the table that it is part of.
    Table(usize),
    /// A sequence, by its place in the catalogue.
    Sequence(usize),
    /// What keeps rows apart, a unique key or the like, by its number: who puts values there that
    /// no other row may have writes it, and who takes some away reads it.
    Unique(usize),
    /// Advisory locks, all of them.
    Advisory,
}

/// A column of a table, both by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnOf {
    /// The table's place in the catalogue.
    pub table: usize,
    /// The column's place in the table.
    pub column: usize,
}

/// The place of a value in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValuePosition {
    /// In the text: the place among its literals, in the order of
    /// [`crate::lexer::form::Parts::literals`], where comments have places too.
    Literal(u32),
    /// A parameter, from 0.
    Parameter(u32),
}

/// What a statement does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The object.
    pub object: Object,
    /// Whether it changes or locks rows of it, or draws from it; else it reads only.
    pub writes: bool,
    /// What of the rows matters.
    pub only: Only,
    /// The key that its rows are bound to: a place in [`Reading::keys`]; None for any rows.
    pub key: Option<u16>,
}

/// What of the rows that it touches matters to an access.
///
/// `Presence` and `Values` do not conflict, nor do two of `New`, unless both are bound to the same
/// key and the same values of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Only {
    /// All of them: also which there are, and their keys.
    #[default]
    All,
    /// Whether they are there: the check of a foreign key. It reads.
    Presence,
    /// Whether they are there, perhaps not before the transaction ends: a key that can be deferred.
    Later,
    /// What is of no key: an UPDATE that sets no column of a key. It writes.
    Values,
    /// They are new: an INSERT. It writes.
    New,
}

/// What a column of a key is equal to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The value there.
    One(ValuePosition),
    /// An element of the array there.
    AnyOf(ValuePosition),
}

impl Operand {
    /// Its place.
    pub fn place(self) -> ValuePosition {
        let (Operand::One(place) | Operand::AnyOf(place)) = self;
        place
    }

    /// Returns the same operand at another place.
    pub fn at(self, place: ValuePosition) -> Operand {
        match self {
            Operand::One(_) => Operand::One(place),
            Operand::AnyOf(_) => Operand::AnyOf(place),
        }
    }
}

/// A key whose values the statement names: rows are these, and no others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The columns: a unique key of the table, or a foreign key.
    pub columns: Vec<ColumnOf>,
    /// Their values, in the same order; several rows of values for `IN` and a list of VALUES.
    pub rows: Vec<Vec<Operand>>,
}

/// A value of a column that is written in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    /// Whose value it is.
    pub column: ColumnOf,
    /// Its place.
    pub place: ValuePosition,
    /// How it is used there.
    pub how: How,
}

/// How a statement uses a value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// `column = value`, or one of a list of `IN`.
    Equal,
    /// `column = ANY (value)`, or `unnest(value)` for the column: the value is an array.
    Array,
    /// It is written to the column: a list of VALUES, SET.
    Written,
    /// It bounds the column: `<`, `>`, BETWEEN. It cannot be mapped.
    Bound,
    /// It is somewhere in an expression that is compared with the column or written to it, or that
    /// contains the column; how it relates to the column is unknown. It cannot be mapped.
    Inside,
}

/// Values that the server makes for a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Where they come from.
    pub source: Source,
    /// The column that they are for; None for a `nextval` whose value goes to the client alone.
    pub column: Option<ColumnOf>,
    /// How many: the rows of VALUES, 1 for a `nextval`; None where only the server knows: INSERT
    /// ... SELECT, what functions and triggers draw, `setval`.
    pub count: Option<u32>,
    /// One for each element of this array: `unnest($1)`. None where that is not how many.
    pub each_of: Option<ValuePosition>,
    /// Rows may be another's or be missing though a value was drawn for each: ON CONFLICT.
    pub may_conflict: bool,
    /// Where among the columns of the result the value comes back; None where it does not.
    pub returned: Option<u32>,
}

/// Where generated values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A sequence of the catalogue.
    Sequence(usize),
    /// Random values, such as UUIDs.
    Random,
    /// The time.
    Time,
}

/// A function that returns a different value each time, in the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volatile {
    /// `now()`, `CURRENT_TIMESTAMP` and the like.
    Time,
    /// `random()`, `gen_random_uuid()`.
    Random,
    /// `currval`, `lastval`: what this session drew last; the same statement returns it again.
    LastDrawn,
}

/// A column of the result that returns what the session drew last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastValue {
    /// Of which sequence: `currval('...')`; None for the one that it drew from last: `lastval()`.
    pub sequence: Option<usize>,
    /// Where among the columns of the result.
    pub returned: u32,
}

/// A column of the result that shows a row which the statement picks: the one of a key, or the only
/// one that its conditions leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReturnedKey {
    /// The column.
    pub column: ColumnOf,
    /// Where among the columns of the result.
    pub returned: u32,
    /// The unique key that the row has, a place in [`Reading::keys`]; None where other conditions
    /// pick it.
    pub key: Option<u16>,
}

/// What a statement does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Objects that it touches, views and functions followed; each once for each key.
    pub accesses: Vec<Access>,
    /// It was not understood, or has unknown effects: it may touch anything.
    pub touches_anything: bool,
    /// Keys whose values it names.
    pub keys: Vec<Key>,
    /// Values of columns in it.
    pub uses: Vec<Use>,
    /// Values of text columns in it that may contain ids.
    pub texts: Vec<Use>,
    /// Values of columns that other tables' rows have when it succeeds: those that foreign keys of
    /// the rows that it adds refer to, checked as they are added.
    pub parents: Vec<(ColumnOf, ValuePosition)>,
    /// Values that the server makes for it.
    pub draws: Vec<Draw>,
    /// Columns of its result that return what the session drew last.
    pub last_values: Vec<LastValue>,
    /// What it shows of rows that it picks.
    pub shows: Vec<ReturnedKey>,
    /// The unique key of the row that an INSERT ... ON CONFLICT writes or finds there.
    pub row_key: Option<u16>,
    /// Values that are handed to functions of the database or to prepared statements, which may do
    /// anything with them.
    pub handed: Vec<ValuePosition>,
    /// Sequences that it makes go on elsewhere, so that they may give values again: `setval`,
    /// RESTART; None for any of them.
    pub sets: Vec<Option<usize>>,
    /// Functions in it that return a different value each time.
    pub volatile: Vec<Volatile>,
    /// It is one INSERT without RETURNING, so that one may be added (see [`returning_at`]).
    pub takes_returning: bool,
    /// It was read by the names in it alone, so no uses and no keys are known.
    pub is_by_names: bool,
    /// It names a table whose columns are not known: none of the catalogue, or one of several.
    pub has_unknown_table: bool,
}

impl Reading {
    /// Memory that it takes.
    pub fn held_bytes(&self) -> usize {
        let of_key = |key: &Key| {
            let rows = key.rows.iter().map(|row| row.capacity() * size_of::<ValuePosition>());
            key.columns.capacity() * size_of::<ColumnOf>()
                + key.rows.capacity() * size_of::<Vec<ValuePosition>>()
                + rows.sum::<usize>()
        };
        size_of::<Reading>()
            + self.accesses.capacity() * size_of::<Access>()
            + self.keys.capacity() * size_of::<Key>()
            + self.keys.iter().map(of_key).sum::<usize>()
            + self.uses.capacity() * size_of::<Use>()
            + self.texts.capacity() * size_of::<Use>()
            + self.parents.capacity() * size_of::<(ColumnOf, ValuePosition)>()
            + self.draws.capacity() * size_of::<Draw>()
            + self.last_values.capacity() * size_of::<LastValue>()
            + self.shows.capacity() * size_of::<ReturnedKey>()
            + self.handed.capacity() * size_of::<ValuePosition>()
            + self.sets.capacity() * size_of::<Option<usize>>()
            + self.volatile.capacity()
    }
}
