//! The catalogue by names, and which of its columns and keys matter.

use std::collections::{HashMap, HashSet};

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::ColumnId;
use super::cast::Family;
use super::session::Path;
use crate::catalog::{Catalog, Generated, Table};

/// Prefixes of the names of scalar types; values of any
/// other type may contain other values.
const SCALARS: [&str; 18] = [
    "smallint", "integer", "bigint", "numeric", "real", "double", "boolean", "date", "time",
    "interval", "uuid", "bytea", "money", "bit", "inet", "cidr", "macaddr", "oid",
];

fn is_scalar(type_name: &str) -> bool {
    !type_name.ends_with("[]") && SCALARS.iter().any(|scalar| type_name.starts_with(scalar))
}

/// The object that a table name refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedObject {
    /// A table.
    Table(usize),
    /// A view.
    View(usize),
    /// A sequence, which can be read as a table.
    Sequence(usize),
    /// A system object.
    System,
    /// A temporary object.
    Temporary,
    /// Not in the catalogue.
    Unknown,
}

/// A name with its schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The schema; None if the search path determines it.
    pub schema: Option<String>,
    /// The name itself.
    pub name: String,
}

/// A uniqueness of the rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    /// Columns that it depends on.
    pub columns: Vec<ColumnId>,
    /// Columns in which conflicting rows have the same values.
    pub equal: Vec<ColumnId>,
    /// It is a key: rows conflict if they have the same values, none of them NULL.
    pub is_key: bool,
}

/// The catalogue with its indexes.
#[derive(Debug)]
pub struct CatalogLookup {
    /// The catalogue.
    pub catalog: Catalog,
    relations: HashMap<String, Vec<(String, NamedObject)>>,
    functions: HashMap<String, Vec<usize>>,
    /// Columns whose values are reported as uses.
    reported: HashSet<ColumnId>,
    /// Columns whose values are texts or composite.
    texts: HashSet<ColumnId>,
    /// Foreign keys by the table that refers, partitions counting as their parent.
    referring: HashMap<usize, Vec<usize>>,
    /// Foreign keys by the table that is referred to.
    referred: HashMap<usize, Vec<usize>>,
    /// Functions that the triggers of a table and of its partitions call.
    triggers: HashMap<usize, Vec<usize>>,
    /// By table, its CHECK constraints and its row security policies.
    checks: HashMap<usize, Vec<usize>>,
    policies: HashMap<usize, Vec<usize>>,
    /// All uniquenesses, and the numbers of those of each table (a root).
    unique: Vec<Unique>,
    unique_of: HashMap<usize, Vec<usize>>,
}

impl CatalogLookup {
    /// Prepares a catalogue for look-ups.
    pub fn new(catalog: Catalog) -> CatalogLookup {
        let mut lookup = CatalogLookup {
            relations: HashMap::new(),
            functions: HashMap::new(),
            reported: HashSet::new(),
            texts: HashSet::new(),
            referring: HashMap::new(),
            referred: HashMap::new(),
            triggers: HashMap::new(),
            checks: HashMap::new(),
            policies: HashMap::new(),
            unique: Vec::new(),
            unique_of: HashMap::new(),
            catalog,
        };
        lookup.index_names();
        lookup.index_foreign_keys();
        lookup.index_unique();
        lookup.select_id_columns();
        lookup
    }

    fn index_names(&mut self) {
        let catalog = &self.catalog;
        let tables = catalog.tables.iter().enumerate();
        let tables = tables.map(|(at, table)| (&table.name, &table.schema, NamedObject::Table(at)));
        let views = catalog.views.iter().enumerate();
        let views = views.map(|(at, view)| (&view.name, &view.schema, NamedObject::View(at)));
        let sequences = catalog.sequences.iter().enumerate();
        let sequences =
            sequences.map(|(at, one)| (&one.name, &one.schema, NamedObject::Sequence(at)));
        for (name, schema, named) in tables.chain(views).chain(sequences) {
            self.relations.entry(name.clone()).or_default().push((schema.clone(), named));
        }
        for (at, function) in catalog.functions.iter().enumerate() {
            self.functions.entry(function.name.clone()).or_default().push(at);
        }
    }

    fn index_foreign_keys(&mut self) {
        for (at, key) in self.catalog.foreign_keys.iter().enumerate() {
            self.referring.entry(self.root(key.table)).or_default().push(at);
            self.referred.entry(self.root(key.parent)).or_default().push(at);
        }
        for (at, table) in self.catalog.tables.iter().enumerate() {
            let root = self.root(at);
            self.triggers.entry(root).or_default().extend(&table.trigger_functions);
            self.checks.entry(root).or_default().extend(&table.check_functions);
            self.policies.entry(root).or_default().extend(&table.policy_functions);
        }
        for by_table in [&mut self.triggers, &mut self.checks, &mut self.policies] {
            for functions in by_table.values_mut() {
                functions.sort_unstable();
                functions.dedup();
            }
        }
    }

    /// Collects the uniquenesses; that of a partition counts for its whole root table.
    fn index_unique(&mut self) {
        for (at, table) in self.catalog.tables.iter().enumerate() {
            let of = |numbers: &[usize]| {
                let mut columns: Vec<ColumnId> =
                    numbers.iter().map(|&column| self.column(at, column)).collect();
                columns.sort_unstable();
                columns
            };
            let every: Vec<usize> = (0..table.columns.len()).collect();
            let keys = table.unique_keys.iter().filter(|key| !key.is_empty());
            let keys = keys.map(|key| Unique { columns: of(key), equal: of(key), is_key: true });
            let others = table.other_uniqueness.iter().map(|other| {
                let on = if other.columns.is_empty() { &every } else { &other.columns };
                Unique { columns: of(on), equal: of(&other.equal), is_key: false }
            });
            let all: Vec<Unique> = keys.chain(others).collect();
            let own = self.unique_of.entry(self.root(at)).or_default();
            for one in all {
                if !own.iter().any(|&lookup| self.unique[lookup] == one) {
                    own.push(self.unique.len());
                    self.unique.push(one);
                }
            }
        }
    }

    /// Selects the columns whose values are reported: generated columns, those of keys, and all
    /// that refer to them.
    fn select_id_columns(&mut self) {
        for (at, table) in self.catalog.tables.iter().enumerate() {
            for column in 0..table.columns.len() {
                let generated = table.columns[column].generated;
                let is_generated =
                    matches!(generated, Some(Generated::Sequence(_) | Generated::Random));
                if !is_scalar(&table.columns[column].type_name) {
                    self.texts.insert(self.column(at, column));
                }
                if is_generated || table.unique_keys.iter().flatten().any(|&of| of == column) {
                    self.reported.insert(self.column(at, column));
                }
            }
        }
        for key in &self.catalog.foreign_keys {
            let own = key.columns.iter().map(|&column| (key.table, column));
            let parents = key.parent_columns.iter().map(|&column| (key.parent, column));
            for (table, column) in own.chain(parents) {
                self.reported.insert(self.column(table, column));
            }
        }
    }

    /// The root of a partition or child; the table itself if its parent is invalid.
    pub fn root(&self, table: usize) -> usize {
        let tables = &self.catalog.tables;
        let mut root = table;
        // A catalogue that goes round in circles is not a catalogue; it is left after a turn.
        for _ in 0..tables.len() {
            let Some(parent) = tables.get(root).and_then(|table| table.parent) else { break };
            root = parent;
        }
        root
    }

    /// The column in the root of its table, if that has it.
    pub fn column(&self, table: usize, column: usize) -> ColumnId {
        let root = self.root(table);
        if root != table {
            let name = self.table(table).and_then(|table| table.columns.get(column));
            let in_root = name.and_then(|own| {
                let columns = &self.table(root)?.columns;
                columns.iter().position(|column| column.name == own.name)
            });
            if let Some(column) = in_root {
                return ColumnId { table: root, column };
            }
        }
        ColumnId { table, column }
    }

    /// A table by its index.
    pub fn table(&self, table: usize) -> Option<&Table> {
        self.catalog.tables.get(table)
    }

    /// Whether values of a column are reported as uses.
    pub fn reports(&self, column: ColumnId) -> bool {
        self.reported.contains(&column)
    }

    /// Whether values of a column are texts that may contain others.
    pub fn holds_texts(&self, column: ColumnId) -> bool {
        self.texts.contains(&column)
    }

    /// Foreign keys of a table (a root).
    pub fn referring(&self, table: usize) -> &[usize] {
        self.referring.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Foreign keys that refer to a table (a root).
    pub fn referred(&self, table: usize) -> &[usize] {
        self.referred.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Functions that the triggers of a table (a root) and of its partitions call.
    pub fn triggers(&self, table: usize) -> &[usize] {
        self.triggers.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Functions that represent the CHECK constraints of a table (a root).
    pub fn checks(&self, table: usize) -> &[usize] {
        self.checks.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Functions that represent the row security policies of a table (a root).
    pub fn policies(&self, table: usize) -> &[usize] {
        self.policies.get(&table).map_or(&[], Vec::as_slice)
    }

    /// The uniquenesses of a table (a root), each with its number.
    pub fn unique(&self, table: usize) -> impl Iterator<Item = (usize, &Unique)> {
        let own = self.unique_of.get(&table).map_or(&[][..], Vec::as_slice);
        own.iter().filter_map(|&number| Some((number, self.unique.get(number)?)))
    }

    /// The unique keys of a table (a root): columns of it.
    pub fn unique_keys(&self, table: usize) -> impl Iterator<Item = Vec<ColumnId>> {
        let unique = self.table(table).map_or(&[][..], |table| &table.unique_keys);
        unique.iter().map(move |key| key.iter().map(|&at| self.column(table, at)).collect())
    }

    /// The keys of a table (a root), unique ones first: columns of it.
    pub fn keys(&self, table: usize) -> impl Iterator<Item = Vec<ColumnId>> {
        let foreign = self.referring(table).iter();
        let foreign = foreign.filter_map(|&at| self.catalog.foreign_keys.get(at));
        let foreign = foreign.map(|key| (key.table, &key.columns));
        let foreign = foreign.map(move |(table, key)| {
            key.iter().map(|&column| self.column(table, column)).collect()
        });
        self.unique_keys(table).chain(foreign)
    }

    /// The type family of a column whose equal values are always written alike, as
    /// numbers or letter by letter.
    pub fn family(&self, of: ColumnId) -> Option<Family> {
        let column = self.table(of.table)?.columns.get(of.column)?;
        Family::of(&column.type_name).filter(|_| !column.is_nondeterministic)
    }

    /// Whether equal values of a column are always written alike.
    pub fn is_exact(&self, column: ColumnId) -> bool {
        self.family(column).is_some()
    }

    /// The object that a table name refers to: by its schema, by the search path, or wherever it
    /// exists. Several if that is ambiguous.
    pub fn relations(&self, name: &Name, path: &Path) -> Vec<NamedObject> {
        let all = self.relations.get(&name.name).map_or(&[][..], Vec::as_slice);
        let found: Vec<NamedObject> = match &name.schema {
            Some(schema) => {
                let of_schema = all.iter().filter(|(of, _)| of == schema);
                of_schema.map(|(_, named)| named.clone()).collect()
            }
            None => {
                let path = match path {
                    Path::Default => self.catalog.search_path.as_slice(),
                    Path::Schemas(schemas) => schemas,
                    Path::Unknown => &[],
                };
                let of = |schema| all.iter().find(|(of, _)| of == schema);
                match path.iter().find_map(of) {
                    Some((_, named)) => vec![named.clone()],
                    None => all.iter().map(|(_, named)| named.clone()).collect(),
                }
            }
        };
        if !found.is_empty() {
            return found;
        }
        let of_system = |schema: &str| schema == "information_schema" || schema.starts_with("pg_");
        if name.schema.as_deref() == Some("pg_temp") {
            return vec![NamedObject::Temporary];
        }
        let is_system = match &name.schema {
            Some(schema) => of_system(schema),
            None => of_system(&name.name),
        };
        vec![if is_system { NamedObject::System } else { NamedObject::Unknown }]
    }

    /// Whether there is a schema of a name.
    pub fn is_schema(&self, name: &str) -> bool {
        let mut schemas = self.relations.values().flatten().map(|(schema, _)| schema);
        name == "information_schema" || schemas.any(|schema| schema == name)
    }

    /// All relations of a name, in any schema.
    pub fn everywhere(&self, name: &str) -> impl Iterator<Item = &NamedObject> {
        self.relations.get(name).into_iter().flatten().map(|(_, named)| named)
    }

    /// Functions of a name, without those of the system.
    pub fn functions(&self, name: &Name) -> Vec<usize> {
        let all = self.functions.get(&name.name).map_or(&[][..], Vec::as_slice);
        let is_of = |at: &usize| match &name.schema {
            Some(schema) => self.catalog.functions.get(*at).is_some_and(|f| f.schema == *schema),
            None => true,
        };
        all.iter().copied().filter(is_of).collect()
    }

    /// Whether a table (a root) or a partition of it has a rewrite rule, which may do something
    /// else instead.
    pub fn has_rule(&self, table: usize) -> bool {
        let mut functions = self.triggers(table).iter();
        functions.any(|&at| self.catalog.functions.get(at).is_some_and(|f| f.language == "rule"))
    }

    /// Whether a function has a body that may do anything; a compiled one uses only its
    /// arguments.
    pub fn is_interpreted(&self, function: usize) -> bool {
        let function = self.catalog.functions.get(function);
        function.is_some_and(|one| !matches!(one.language.as_str(), "c" | "internal"))
    }

    /// The table that a text in quotes names.
    pub fn table_of(&self, text: &[u8], path: &Path) -> Option<usize> {
        match self.named_by(text, path)?.as_slice() {
            [NamedObject::Table(at)] => Some(*at),
            _ => None,
        }
    }

    /// The sequence that a text in quotes names, as `nextval` takes it.
    pub fn sequence(&self, text: &[u8], path: &Path) -> Option<usize> {
        match self.named_by(text, path)?.as_slice() {
            [NamedObject::Sequence(at)] => Some(*at),
            _ => None,
        }
    }

    fn named_by(&self, text: &[u8], path: &Path) -> Option<Vec<NamedObject>> {
        let tokens = crate::lexer::significant(text);
        let names: Vec<String> = tokens
            .iter()
            .filter_map(super::names::folded)
            .map(|name| String::from_utf8_lossy(&name).into_owned())
            .collect();
        Some(self.relations(&Name::of_parts(names)?, path))
    }
}

impl Name {
    /// The name of its parts; a database before them is left out.
    pub fn of_parts(mut parts: Vec<String>) -> Option<Name> {
        let name = parts.pop()?;
        Some(Name { schema: parts.pop(), name })
    }

    /// A name of the parser.
    pub fn of(name: &ObjectName) -> Option<Name> {
        let part = |part: &ObjectNamePart| match part {
            ObjectNamePart::Identifier(ident) => Some(folded(ident)),
            ObjectNamePart::Function(_) => None,
        };
        Name::of_parts(name.0.iter().map(part).collect::<Option<Vec<String>>>()?)
    }
}

/// A name as PostgreSQL folds it.
pub fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}
