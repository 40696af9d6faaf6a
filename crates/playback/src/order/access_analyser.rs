//! Finds what a statement accesses: its text is parsed once per form, and the values of its keys
//! are read at their positions.
//!
//! A value is known where its type has one spelling, or one that can be brought into one: whole
//! numbers, UUIDs, texts. A key with any other value counts as any rows.
//!
//! A transaction with one snapshot (REPEATABLE READ, SERIALIZABLE) reads, as far as the order goes,
//! everything with its first statement.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use seatrial_sqltext::catalog::Catalog;
use seatrial_sqltext::lexer::form::Parts;
use seatrial_sqltext::reading::{
    self, Access, ColumnId, Key, Operand, Reader, RowAspect, SessionNames, StatementEffects,
    ValuePosition,
};
use twox_hash::XxHash64;

use super::object_access::{AccessMode, AccessSet, Columns, Object, ObjectAccess};
use super::snapshots::Snapshots;
use crate::ids::plan::value_text;
use crate::ids::values::{Id, Kind, elements};
use crate::item::Item;

/// Forms whose accesses are cached.
const FORMS_MAX: usize = 8_192;

/// Maximum number of separate rows of a key.
const ROWS_MAX: usize = 256;

/// The accesses of all statements of a form.
#[derive(Debug, Default)]
struct AccessPlan {
    accesses: Vec<PlannedAccess>,
    accesses_anything: bool,
}

/// An access of a form to an object.
#[derive(Debug)]
struct PlannedAccess {
    object_access: ObjectAccess,
    key: Option<KeyValues>,
    /// The end of the transaction accesses it too, although it does not change.
    is_at_end: bool,
}

/// The values of a key that rows are restricted to.
#[derive(Debug)]
struct KeyValues {
    kinds: Vec<Kind>,
    rows: Vec<Vec<Operand>>,
}

/// The state of a session that affects the meaning of its statements.
#[derive(Clone, Debug, Default)]
struct Session {
    names: SessionNames,
    snapshots: Snapshots,
}

/// Determines what statements access.
#[derive(Debug)]
pub struct AccessAnalyser {
    catalog: Catalog,
    reader: Reader,
    parts: Parts,
    /// By the reading's address; the reading is kept with it.
    plans: HashMap<usize, (Arc<StatementEffects>, AccessPlan)>,
    columns: HashMap<(usize, Vec<usize>), Columns>,
    sessions: Vec<Session>,
}

impl AccessAnalyser {
    /// Returns an analyser for `sessions` sessions of a database with this catalogue.
    pub fn new(catalog: &Catalog, sessions: usize) -> AccessAnalyser {
        let snapshots = Snapshots::of(&catalog.isolation);
        let session = Session { snapshots, ..Session::default() };
        AccessAnalyser {
            catalog: catalog.clone(),
            reader: Reader::new(catalog),
            parts: Parts::default(),
            plans: HashMap::new(),
            columns: HashMap::new(),
            sessions: vec![session; sessions],
        }
    }

    /// Determines the accesses of a statement.
    pub fn object_access(&mut self, item: &Item, access_set: &mut AccessSet) {
        access_set.known.clear();
        access_set.at_end.clear();
        let snapshots = &mut self.sessions[item.session.0 as usize].snapshots;
        access_set.anything = snapshots.takes(item).then_some(AccessMode::Read);
        self.parts.take_apart(&item.sql);
        let names = &mut self.sessions[item.session.0 as usize].names;
        let reading = self.reader.read_in(names, &item.sql, &self.parts);
        let address = Arc::as_ptr(&reading).addr();
        if !self.plans.contains_key(&address) {
            if self.plans.len() >= FORMS_MAX {
                self.plans.clear();
            }
            let plan = self.plan(&reading);
            self.plans.insert(address, (reading, plan));
        }
        let Some((_, plan)) = self.plans.get(&address) else { return };
        if plan.accesses_anything {
            access_set.anything = Some(AccessMode::Write);
        }
        for PlannedAccess { object_access, key, is_at_end } in &plan.accesses {
            let begin = access_set.known.len();
            match key {
                Some(key) => self.keyed(item, object_access, key, access_set),
                None => access_set.known.push(*object_access),
            }
            if *is_at_end {
                access_set.at_end.extend_from_slice(&access_set.known[begin..]);
            }
        }
        access_set.known.sort_unstable();
        access_set.known.dedup();
    }

    fn keyed(
        &self,
        item: &Item,
        object_access: &ObjectAccess,
        key: &KeyValues,
        access_set: &mut AccessSet,
    ) {
        let begin = access_set.known.len();
        for row in &key.rows {
            let rows = self.rows(item, row, &key.kinds);
            let of_rows = rows.iter().flatten();
            access_set.known.extend(
                of_rows.map(|hash| ObjectAccess { value: hash.finish(), ..*object_access }),
            );
            if rows.is_none() || access_set.known.len() - begin > ROWS_MAX {
                access_set.known.truncate(begin);
                access_set
                    .known
                    .push(ObjectAccess::whole(object_access.object, object_access.mode));
                return;
            }
        }
    }

    /// The hash of each row of values that columns may have; None if one is unknown. It is unknown
    /// for an empty array, too.
    fn rows(&self, item: &Item, row: &[Operand], kinds: &[Kind]) -> Option<Vec<XxHash64>> {
        let mut rows = vec![XxHash64::with_seed(0)];
        for (&operand, &kind) in row.iter().zip(kinds) {
            let value = self.value(item, operand.position(), kind)?;
            match operand {
                Operand::One(_) => {
                    let id = Id::read(kind, value)?;
                    rows.iter_mut().for_each(|hash| id.hash(hash));
                }
                Operand::AnyOf(_) => rows = with_each(&rows, &ids_of(kind, value)?)?,
            }
        }
        Some(rows)
    }

    /// The text of a value; None if the database may convert it to another one.
    fn value<'a>(&self, item: &'a Item, position: ValuePosition, kind: Kind) -> Option<&'a [u8]> {
        let written = value_text(position, &item.sql, &self.parts, &item.parameters)?;
        // A number is another text than it is written: 05 is '5'.
        let is_made = kind == Kind::Text && written.is_literal && !written.text.starts_with(b"'");
        written.plain().filter(|_| !is_made)
    }

    fn plan(&mut self, reading: &StatementEffects) -> AccessPlan {
        let planned = |access: &Access| {
            let (object, mode) = (object(access.object), AccessMode::of(access));
            let key = access.key.and_then(|key| reading.keys.get(usize::from(key)));
            let is_freed = matches!(access.object, reading::Object::Unique(_)) && !access.writes;
            let is_at_end = is_freed || access.aspect == RowAspect::Later;
            let known = key.and_then(|key| self.known_key(key));
            let (object_access, key) = match known {
                Some((columns, is_unique, keyed)) => {
                    (ObjectAccess { object, mode, columns, is_unique, value: 0 }, Some(keyed))
                }
                None => (ObjectAccess::whole(object, mode), None),
            };
            PlannedAccess { object_access, key, is_at_end }
        };
        let accesses = reading.accesses.iter().map(planned).collect();
        AccessPlan { accesses, accesses_anything: reading.accesses_anything }
    }

    /// A key's columns by number, whether it is unique, and the positions of its values; None if
    /// its values have several notations.
    fn known_key(&mut self, key: &Key) -> Option<(Columns, bool, KeyValues)> {
        if key.rows.is_empty() || key.rows.len() > ROWS_MAX {
            return None;
        }
        let table = key.columns.first()?.table;
        let mut order: Vec<usize> = (0..key.columns.len()).collect();
        order.sort_unstable_by_key(|&at| key.columns[at].column);
        let numbers: Vec<usize> = order.iter().map(|&at| key.columns[at].column).collect();
        let kinds = order.iter().map(|&at| self.kind(key.columns[at])).collect::<Option<_>>()?;
        let sorted = |row: &Vec<Operand>| order.iter().map(|&at| row.get(at).copied()).collect();
        let rows = key.rows.iter().map(sorted).collect::<Option<_>>()?;
        let mut unique = self.catalog.tables.get(table)?.unique_keys.iter();
        let is_unique = unique.any(|columns| {
            columns.len() == numbers.len() && columns.iter().all(|one| numbers.contains(one))
        });
        let next = Columns::try_from(self.columns.len() + 1).ok()?;
        let columns = *self.columns.entry((table, numbers)).or_insert(next);
        Some((columns, is_unique, KeyValues { kinds, rows }))
    }

    /// How the values of a column are compared.
    fn kind(&self, of: ColumnId) -> Option<Kind> {
        let column = self.catalog.tables.get(of.table)?.columns.get(of.column)?;
        if column.is_nondeterministic || column.type_name.ends_with("[]") {
            return None;
        }
        match column.type_name.as_str() {
            "smallint" | "integer" | "bigint" | "oid" | "numeric" => Some(Kind::Number),
            "uuid" => Some(Kind::Uuid),
            "text" | "character varying" => Some(Kind::Text),
            name if name.starts_with("character varying(") => Some(Kind::Text),
            name if name.starts_with("numeric(") => Some(Kind::Number),
            _ => None,
        }
    }
}

/// The elements of an array, in the column's notation.
fn ids_of(kind: Kind, array: &[u8]) -> Option<Vec<Id>> {
    let ranges = elements(array).filter(|ranges| (1..=ROWS_MAX).contains(&ranges.len()))?;
    ranges.into_iter().map(|at| Id::read(kind, array.get(at)?)).collect()
}

/// All combinations of rows and further values.
fn with_each(rows: &[XxHash64], ids: &[Id]) -> Option<Vec<XxHash64>> {
    let with = |(row, id): (&XxHash64, &Id)| {
        let mut row = row.clone();
        id.hash(&mut row);
        row
    };
    let pairs = || rows.iter().flat_map(|row| ids.iter().map(move |id| (row, id)));
    (rows.len().checked_mul(ids.len())? <= ROWS_MAX).then(|| pairs().map(with).collect())
}

fn object(of: reading::Object) -> Object {
    match of {
        reading::Object::Table(index) => Object::table(index),
        reading::Object::Sequence(index) => Object::sequence(index),
        reading::Object::Unique(number) => Object::unique(number),
        reading::Object::Advisory => Object::ADVISORY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatrial_sqltext::lexer::class::Class;

    fn catalog() -> Catalog {
        let table = |name: &str, columns: &str, unique_keys: &str| {
            format!(
                r#"{{"schema": "public", "name": "{name}", "columns": [{columns}],
                    "unique_keys": {unique_keys}}}"#
            )
        };
        let column = |name: &str, type_name: &str| {
            format!(r#"{{"name": "{name}", "type_name": "{type_name}"}}"#)
        };
        let stock = [column("id", "integer"), column("code", "text"), column("n", "integer")];
        let mixed = [column("at", "timestamp with time zone"), column("n", "integer")];
        let tables = [
            table("stock", &stock.join(","), "[[0], [1]]"),
            table("mixed", &mixed.join(","), "[[0]]"),
            table("log", &column("n", "integer"), "[]"),
        ];
        let json = format!(
            r#"{{"search_path": ["public"], "tables": [{}], "sequences": [], "foreign_keys": []}}"#,
            tables.join(",")
        );
        serde_json::from_str(&json).unwrap()
    }

    fn item(class: Class, transaction: u64, sql: &str, parameters: &[&str]) -> Item {
        Item {
            sql: sql.as_bytes().to_vec(),
            parameters: parameters.iter().map(|text| Some(text.as_bytes().to_vec())).collect(),
            transaction,
            class,
            statements: 1,
            ..Item::default()
        }
    }

    fn accessed(access_analyser: &mut AccessAnalyser, item: &Item) -> AccessSet {
        let mut access_set = AccessSet::default();
        access_analyser.object_access(item, &mut access_set);
        access_set
    }

    fn of(sql: &str, parameters: &[&str]) -> AccessSet {
        let mut access_analyser = AccessAnalyser::new(&catalog(), 1);
        // The columns have the same numbers each time.
        for known in ["SELECT n FROM stock WHERE id = 1", "SELECT n FROM stock WHERE code = 'a'"] {
            accessed(&mut access_analyser, &item(Class::Select, 0, known, &[]));
        }
        accessed(&mut access_analyser, &item(Class::Update, 0, sql, parameters))
    }

    #[test]
    fn equal_values_in_different_spellings_are_equal() {
        let written = of("UPDATE stock SET n = n + 1 WHERE id = 7", &[]);
        assert_eq!(written.known.len(), 1);
        let object_access = written.known[0];
        assert_eq!(
            (object_access.object, object_access.mode),
            (Object::table(0), AccessMode::Values)
        );
        assert!(object_access.is_unique && object_access.columns > 0);
        for (sql, parameters) in [
            ("UPDATE stock SET n = 2 WHERE id = '7'", &[][..]),
            ("UPDATE stock SET n = $2 WHERE id = $1", &["7", "2"]),
            ("UPDATE stock SET n = $2 WHERE id = $1", &["07", "2"]),
        ] {
            assert_eq!(of(sql, parameters), written, "{sql}");
        }
        let locked = of("SELECT n FROM stock WHERE id = 7 FOR UPDATE", &[]).known[0];
        assert_eq!(locked, ObjectAccess { mode: AccessMode::Write, ..object_access });
        assert!(!written.conflict(&of("UPDATE stock SET n = 2 WHERE id = 8", &[])));
        assert!(written.conflict(&of("UPDATE stock SET n = 2 WHERE code = 'a'", &[])));
        assert!(written.conflict(&of("SELECT sum(n) FROM stock", &[])));
    }

    #[test]
    fn value_with_several_spellings_matches_any_row() {
        for sql in [
            "UPDATE mixed SET n = 1 WHERE at = '2020-01-01'",
            "UPDATE mixed SET n = 1 WHERE n = 5",
            "UPDATE stock SET n = 1 WHERE id = NULL",
            "UPDATE stock SET n = 1 WHERE code = E'a\\n'",
        ] {
            let access_set = of(sql, &[]);
            assert!(
                access_set.known.iter().all(|object_access| object_access.columns == 0),
                "{sql}: {access_set:?}"
            );
            assert!(
                !access_set.known.is_empty() && access_set.anything.is_none(),
                "{sql}: {access_set:?}"
            );
        }
    }

    #[test]
    fn rows_of_an_in_list_are_separate() {
        let access_set = of("DELETE FROM stock WHERE id IN (1, 2, 3)", &[]);
        assert_eq!(
            access_set.known.iter().filter(|object_access| object_access.columns > 0).count(),
            3
        );
        assert!(!access_set.conflict(&of("UPDATE stock SET n = 2 WHERE id = 4", &[])));
        assert!(access_set.conflict(&of("UPDATE stock SET n = 2 WHERE id = 2", &[])));
        let [one, other] = ["1", "2"].map(|n| of(&format!("INSERT INTO log VALUES ({n})"), &[]));
        assert!(!one.conflict(&other));
    }

    #[test]
    fn elements_of_an_array_are_rows() {
        let listed = of("DELETE FROM stock WHERE id IN (1, 2, 3)", &[]);
        for (sql, parameters) in [
            ("DELETE FROM stock WHERE id = ANY($1)", &["{1,2,3}"][..]),
            ("DELETE FROM stock WHERE id = ANY($1::int[])", &["{3, 02,\"1\"}"]),
            ("DELETE FROM stock WHERE id = ANY('{1,2,3}')", &[]),
            ("DELETE FROM stock WHERE id = ANY(ARRAY[1,2,3]::bigint[])", &[]),
            ("DELETE FROM stock s USING unnest($1::int[]) u (id) WHERE s.id = u.id", &["{1,2,3}"]),
        ] {
            assert_eq!(of(sql, parameters), listed, "{sql}");
        }
        let codes = of("UPDATE stock SET n = 1 WHERE code = ANY($1)", &["{a,\"b c\"}"]);
        assert!(codes.conflict(&of("UPDATE stock SET n = 2 WHERE code = 'b c'", &[])));
        assert!(!codes.conflict(&of("UPDATE stock SET n = 2 WHERE code = 'b'", &[])));
    }

    #[test]
    fn array_with_unknown_elements_matches_any_row() {
        let many = format!("{{{}}}", (0..300).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
        for (sql, array) in [
            ("UPDATE stock SET n = 1 WHERE id = ANY($1)", "{}"),
            ("UPDATE stock SET n = 1 WHERE id = ANY($1)", "{1,NULL}"),
            ("UPDATE stock SET n = 1 WHERE id = ANY($1)", "{{1},{2}}"),
            ("UPDATE stock SET n = 1 WHERE id = ANY($1)", "[0:1]={1,2}"),
            ("UPDATE stock SET n = 1 WHERE id = ANY($1)", &many),
            ("UPDATE stock SET n = 1 WHERE id <> ANY($1)", "{1,2}"),
            ("UPDATE stock SET n = 1 WHERE id = ALL($1)", "{1,2}"),
            ("UPDATE stock SET n = 1 WHERE code = ANY($1::varchar(2)[])", "{abc}"),
            ("UPDATE stock SET n = 1 WHERE code = ANY(ARRAY['abc']::varchar(2)[])", ""),
            (
                "DELETE FROM stock s USING (SELECT unnest($1)::varchar(2) c) u WHERE s.code = u.c",
                "{abc}",
            ),
            (
                "DELETE FROM stock s USING unnest($1::varchar(2)[]) u (c) WHERE s.code = u.c",
                "{abc}",
            ),
        ] {
            let access_set = of(sql, &[array]);
            let is_stock = |object_access: &&ObjectAccess| object_access.object == Object::table(0);
            let mut known = access_set.known.iter().filter(is_stock);
            assert!(known.all(|object_access| object_access.columns == 0), "{sql}: {access_set:?}");
            assert!(
                access_set.known.iter().any(|object_access| is_stock(&object_access)),
                "{sql}: {access_set:?}"
            );
        }
    }

    #[test]
    fn rows_with_different_ids_may_conflict_on_another_key() {
        let delete = of("DELETE FROM stock WHERE id = 5", &[]);
        assert!(
            !delete.at_end.is_empty()
                && !delete.conflict(&of("DELETE FROM stock WHERE id = 6", &[]))
        );
        let insert =
            |id, code| of(&format!("INSERT INTO stock (id, code) VALUES ({id}, '{code}')"), &[]);
        // The row that goes may have had that code.
        assert!(delete.conflict(&insert(9, "a")));
        assert!(!insert(8, "b").conflict(&insert(9, "a")));
        assert!(
            insert(8, "a").conflict(&insert(9, "a")) && insert(9, "b").conflict(&insert(9, "a"))
        );
        let update =
            |id, code| of(&format!("UPDATE stock SET code = '{code}' WHERE id = {id}"), &[]);
        assert!(
            update(1, "a").conflict(&update(2, "b")) && update(1, "a").conflict(&insert(9, "b"))
        );
        assert!(!update(1, "a").conflict(&of("UPDATE stock SET n = 1 WHERE id = 2", &[])));
    }

    #[test]
    fn number_compared_with_a_text_column_matches_any_row() {
        let access_set = of("UPDATE stock SET n = 1 WHERE code = 05", &[]);
        assert!(
            access_set.known.iter().all(|object_access| object_access.columns == 0),
            "{access_set:?}"
        );
    }

    #[test]
    fn first_statement_of_a_snapshot_transaction_reads_everything() {
        let mut access_analyser = AccessAnalyser::new(&catalog(), 1);
        let begin = item(Class::Transaction, 1, "BEGIN ISOLATION LEVEL REPEATABLE READ", &[]);
        assert_eq!(accessed(&mut access_analyser, &begin).anything, None);
        let select = |transaction| item(Class::Select, transaction, "SELECT n FROM log", &[]);
        assert_eq!(accessed(&mut access_analyser, &select(1)).anything, Some(AccessMode::Read));
        assert_eq!(accessed(&mut access_analyser, &select(1)).anything, None);
        assert_eq!(accessed(&mut access_analyser, &select(2)).anything, None);
        let set = "SET default_transaction_isolation = 'serializable'";
        assert_eq!(
            accessed(&mut access_analyser, &item(Class::Utility, 0, set, &[])).anything,
            None
        );
        assert_eq!(accessed(&mut access_analyser, &select(0)).anything, None);
        assert_eq!(accessed(&mut access_analyser, &select(3)).anything, Some(AccessMode::Read));
    }

    #[test]
    fn isolation_level_may_be_the_database_default() {
        let isolation = "repeatable read".to_owned();
        let mut access_analyser = AccessAnalyser::new(&Catalog { isolation, ..catalog() }, 1);
        let mut takes = |transaction, before: &str| {
            let class = Class::Transaction;
            accessed(&mut access_analyser, &item(class, transaction, before, &[]));
            let select = item(Class::Select, transaction, "SELECT n FROM log", &[]);
            accessed(&mut access_analyser, &select).anything == Some(AccessMode::Read)
        };
        assert!(takes(1, "BEGIN"));
        assert!(!takes(2, "BEGIN ISOLATION LEVEL READ COMMITTED"));
        assert!(takes(3, "START TRANSACTION ISOLATION LEVEL\n  REPEATABLE  /* so */  READ"));
        assert!(takes(4, "BEGIN"));
        assert!(!takes(0, "SET default_transaction_isolation TO 'read committed'"));
        assert!(!takes(5, "BEGIN"));
        assert!(!takes(0, "RESET ALL"));
        assert!(takes(6, "BEGIN"));
        assert!(!takes(0, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"));
        assert!(takes(7, "BEGIN"));
    }

    #[test]
    fn unknown_table_may_access_anything() {
        assert_eq!(of("UPDATE nowhere SET n = 1", &[]).anything, Some(AccessMode::Write));
    }
}
