//! Which columns hold the same ids.
//!
//! A generated column and all columns that refer to it by a foreign key are one class: a value of
//! one of them is a value of all, and of no other column, even if the numbers are equal.

use std::collections::{HashMap, HashSet};

use seatrial_sqltext::catalog::{Catalog, Generated};
use seatrial_sqltext::reading::{ColumnId, ValueSource};

use super::values::Kind;

/// Columns that have the same ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdClass {
    /// What generates them: a sequence, or chance.
    pub source: ValueSource,
    pub kind: Kind,
    /// The column that they are generated for.
    pub column: ColumnId,
    /// Its name, as `schema.table.column`.
    pub name: String,
    /// The sequence's name, or `random`.
    pub source_name: String,
    /// Columns that refer to it, likewise.
    pub referring: Vec<String>,
}

/// All classes of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdClasses {
    /// By number.
    pub all: Vec<IdClass>,
    of_column: HashMap<ColumnId, u32>,
    of_time: HashSet<ColumnId>,
}

impl IdClasses {
    /// The classes of a catalogue.
    pub fn of(catalog: &Catalog) -> IdClasses {
        let mut classes = IdClasses::default();
        for (table, definition) in catalog.tables.iter().enumerate() {
            for (column, about) in definition.columns.iter().enumerate() {
                let at = root(catalog, ColumnId { table, column });
                let source = match about.generated {
                    Some(Generated::Sequence(sequence)) => Some(ValueSource::Sequence(sequence)),
                    Some(Generated::Random) => Some(ValueSource::Random),
                    Some(Generated::Time) => {
                        classes.of_time.insert(at);
                        None
                    }
                    None => named_sequence(catalog, at).map(ValueSource::Sequence),
                };
                // A column that refers to another table's ids is of that one's class, unless it
                // makes its own values as well; then it is unknown which of them a value is.
                if let (Some(source), None) = (source, classes.of_column(at)) {
                    classes.add(catalog, at, source);
                }
            }
        }
        classes.follow_foreign_keys(catalog);
        classes
    }

    /// The class of a column; None if its values are not generated.
    pub fn of_column(&self, column: ColumnId) -> Option<u32> {
        self.of_column.get(&column).copied()
    }

    /// Whether a column is filled with the time.
    pub fn is_of_time(&self, column: ColumnId) -> bool {
        self.of_time.contains(&column)
    }

    /// Classes whose ids a sequence makes.
    pub fn of_sequence(&self, sequence: usize) -> impl Iterator<Item = u32> {
        let is_it = move |class: &IdClass| class.source == ValueSource::Sequence(sequence);
        (0u32..).zip(&self.all).filter(move |(_, class)| is_it(class)).map(|(index, _)| index)
    }

    fn add(&mut self, catalog: &Catalog, at: ColumnId, source: ValueSource) {
        let type_name = &catalog.tables[at.table].columns[at.column].type_name;
        let (kind, source_name) = match source {
            ValueSource::Sequence(index) => {
                let sequence = &catalog.sequences[index];
                (Kind::Number, format!("{}.{}", sequence.schema, sequence.name))
            }
            _ if type_name == "uuid" => (Kind::Uuid, "random".to_owned()),
            _ => (Kind::Text, "random".to_owned()),
        };
        self.of_column.insert(at, self.all.len() as u32);
        self.all.push(IdClass {
            source,
            kind,
            column: at,
            name: full_name(catalog, at),
            source_name,
            referring: Vec::new(),
        });
    }

    /// Adds columns that refer to those of a class, until there are no more.
    fn follow_foreign_keys(&mut self, catalog: &Catalog) {
        loop {
            let before = self.of_column.len();
            for key in &catalog.foreign_keys {
                for (&column, &parent) in key.columns.iter().zip(&key.parent_columns) {
                    let parent = root(catalog, ColumnId { table: key.parent, column: parent });
                    let at = root(catalog, ColumnId { table: key.table, column });
                    let Some(class) = self.of_column(parent) else { continue };
                    if self.of_column(at).is_none() {
                        self.of_column.insert(at, class);
                        self.all[class as usize].referring.push(full_name(catalog, at));
                    }
                }
            }
            if self.of_column.len() == before {
                return;
            }
        }
    }
}

/// The sequence that a client draws a column's values from, where only its name shows that:
/// object-relational mappers call `nextval` and write the value. The column is a key by itself, and
/// refers to nothing.
fn named_sequence(catalog: &Catalog, at: ColumnId) -> Option<usize> {
    let table = &catalog.tables[at.table];
    let column = &table.columns[at.column];
    let is_number = matches!(&*column.type_name, "smallint" | "integer" | "bigint");
    let is_key = table.unique_keys.first().is_some_and(|key| key[..] == [at.column]);
    let refers = catalog
        .foreign_keys
        .iter()
        .any(|key| key.table == at.table && key.columns.contains(&at.column));
    if !is_number || !is_key || refers {
        return None;
    }
    let names = [
        format!("{}_{}_seq", table.name, column.name),
        format!("{}_seq", table.name),
        format!("seq_{}", table.name),
        format!("{}_sequence", table.name),
        "hibernate_sequence".to_owned(),
    ];
    names.iter().find_map(|name| {
        let is_it = |sequence: &seatrial_sqltext::catalog::Sequence| {
            sequence.schema == table.schema && sequence.name == *name
        };
        catalog.sequences.iter().position(is_it)
    })
}

/// The column of the partitioned or parent table, as [`seatrial_sqltext::reading`] reports columns;
/// the column itself if its table is neither partition nor child.
fn root(catalog: &Catalog, at: ColumnId) -> ColumnId {
    let mut table = at.table;
    // A catalogue that goes round in circles is not a catalogue; it is left after a turn.
    for _ in 0..catalog.tables.len() {
        let Some(parent) = catalog.tables[table].parent else { break };
        table = parent;
    }
    let name = &catalog.tables[at.table].columns[at.column].name;
    let column = catalog.tables[table].columns.iter().position(|column| column.name == *name);
    column.map_or(at, |column| ColumnId { table, column })
}

/// A column's name, with its table's and schema's.
pub fn full_name(catalog: &Catalog, at: ColumnId) -> String {
    let table = &catalog.tables[at.table];
    format!("{}.{}.{}", table.schema, table.name, table.columns[at.column].name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOG: &str = r#"{"search_path": ["public"], "tables": [
        {"schema": "public", "name": "orders", "unique_keys": [[0]], "columns": [
            {"name": "id", "type_name": "bigint", "generated": {"sequence": 0}},
            {"name": "amount", "type_name": "integer"}]},
        {"schema": "public", "name": "lines", "columns": [
            {"name": "order_id", "type_name": "bigint"},
            {"name": "place", "type_name": "integer"}]},
        {"schema": "public", "name": "returns", "columns": [
            {"name": "line_order", "type_name": "bigint"},
            {"name": "token", "type_name": "uuid", "generated": "random"},
            {"name": "at", "type_name": "date", "generated": "time"}]},
        {"schema": "public", "name": "users", "unique_keys": [[0]], "columns": [
            {"name": "id", "type_name": "bigint"}]}],
        "sequences": [
            {"schema": "public", "name": "orders_id_seq", "increment": 1, "cache": 1},
            {"schema": "public", "name": "users_seq", "increment": 1, "cache": 1}],
        "foreign_keys": [
            {"table": 2, "columns": [0], "parent": 1, "parent_columns": [0]},
            {"table": 1, "columns": [0], "parent": 0, "parent_columns": [0]}]}"#;

    #[test]
    fn a_class_is_a_generated_column_and_all_that_refer_to_it() {
        let catalog: Catalog = serde_json::from_str(CATALOG).unwrap();
        let classes = IdClasses::of(&catalog);
        let names: Vec<&str> = classes.all.iter().map(|class| &*class.name).collect();
        assert_eq!(names, ["public.orders.id", "public.returns.token", "public.users.id"]);
        let orders = &classes.all[0];
        assert_eq!(orders.referring, ["public.lines.order_id", "public.returns.line_order"]);
        assert_eq!((orders.kind, &*orders.source_name), (Kind::Number, "public.orders_id_seq"));
        assert_eq!(classes.of_column(ColumnId { table: 2, column: 0 }), Some(0));
        assert_eq!(classes.of_column(ColumnId { table: 0, column: 1 }), None);
        assert_eq!(classes.of_column(ColumnId { table: 2, column: 2 }), None);
        assert_eq!(classes.of_sequence(1).collect::<Vec<_>>(), [2]);
    }
}
