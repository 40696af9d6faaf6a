//! What a session has decides what its statements mean.

use super::rendered::rendered;
use super::{catalog, parts};
use crate::catalog::{Catalog, Table};
use crate::reading::{Object, Reader, SessionNames};

/// The reading of the last of some statements of one session.
fn last(statements: &[&str]) -> String {
    let mut reader = Reader::new(&catalog());
    let mut names = SessionNames::default();
    let mut last = String::new();
    for sql in statements {
        let reading = reader.read_in(&mut names, sql.as_bytes(), &parts(sql));
        last = rendered(sql, &reading);
    }
    last.replace("    ", "").replace('\n', "; ")
}

#[test]
fn what_is_temporary_touches_nobody() {
    assert_eq!(last(&["SELECT * FROM found"]), "anything; unknown table; ");
    let make =
        "CREATE TEMP TABLE IF NOT EXISTS found AS SELECT id FROM orders WHERE id = 5 WITH DATA";
    assert_eq!(last(&[make]), "read orders [orders.id: 5]; use orders.id = 5; ");
    assert_eq!(last(&[make, "SELECT * FROM found"]), "unknown table; ");
    assert_eq!(last(&[make, "CREATE INDEX ON found (id)"]), "");
    assert_eq!(last(&[make, "INSERT INTO found VALUES (1), (2)"]), "unknown table; ");
    let both = "DELETE FROM orders USING found WHERE orders.id = found.id";
    assert_eq!(last(&[make, both]), "write orders; write lines; unknown table; ");
    assert_eq!(last(&[make, "DROP TABLE found"]), "");
    let gone = "anything; unknown table; ";
    assert_eq!(last(&[make, "DROP TABLE found", "SELECT * FROM found"]), gone);
    assert_eq!(last(&[make, "DISCARD ALL", "SELECT * FROM found"]), gone);
    let into = "SELECT 1 AS a INTO TEMP found";
    assert_eq!(last(&[into, "SELECT * FROM found"]), "unknown table; ");
    let of_table = "write orders_id_seq; draw orders_id_seq x ?; set orders_id_seq; anything; ";
    assert_eq!(last(&["DROP TABLE orders"]), of_table);
}

#[test]
fn a_temporary_table_may_hide_another() {
    let make = "CREATE TEMPORARY TABLE orders (id int)";
    let select = "SELECT * FROM orders WHERE id = 5";
    assert_eq!(last(&[make, select]), "anything; unknown table; ");
    assert_eq!(last(&[make, "DROP TABLE pg_temp.orders", "COMMIT"]), "");
}

#[test]
fn what_is_executed_is_what_was_prepared() {
    let prepare = "PREPARE add (int, numeric) AS INSERT INTO orders (customer, total) \
                   VALUES ($1, $2) RETURNING id";
    assert_eq!(last(&[prepare]), "");
    let expected = "write orders_id_seq; add orders [orders.customer: 5]; \
                    check customers [customers.id: 5]; \
                    draw orders_id_seq for orders.id x 1 returned 0; use orders.customer := 5; \
                    parent customers.id = 5; ";
    assert_eq!(last(&[prepare, "EXECUTE add (5, 10.5)"]), expected);
    let unknown = "write orders_id_seq; write orders; check customers; \
                   draw orders_id_seq for orders.id x 1 returned 0; hand 2; hand 3; ";
    assert_eq!(last(&[prepare, "EXECUTE add (2 + 3, 10.5)"]), unknown);
    let nothing_known = "hand 5; hand 10.5; anything; ";
    assert_eq!(last(&["EXECUTE add (5, 10.5)"]), nothing_known);
    assert_eq!(last(&[prepare, "DEALLOCATE add", "EXECUTE add (5, 10.5)"]), nothing_known);
    let inlined = "PREPARE one AS SELECT * FROM orders WHERE id = 17";
    assert_eq!(last(&[inlined]), "use orders.id = 17; ");
    assert_eq!(last(&[inlined, "EXECUTE one"]), "read orders; ");
}

#[test]
fn names_are_looked_for_where_the_session_says() {
    let select = "SELECT * FROM orders WHERE id = 5";
    let of_shop = "read shop.orders [shop.orders.id: 5]; use shop.orders.id = 5; ";
    let of_public = "read orders [orders.id: 5]; use orders.id = 5; ";
    assert_eq!(last(&["SET search_path TO shop, public", select]), of_shop);
    assert_eq!(last(&["SET search_path = 'shop'", select]), of_shop);
    assert_eq!(last(&["SET SCHEMA 'shop'", select]), of_shop);
    assert_eq!(last(&["SET search_path = shop", "RESET search_path", select]), of_public);
    assert_eq!(last(&["BEGIN", "SET LOCAL search_path = shop", select]), of_shop);
    assert_eq!(last(&["BEGIN", "SET LOCAL search_path = shop", "COMMIT", select]), of_public);
    assert_eq!(last(&["BEGIN", "SET search_path = shop", "COMMIT", select]), of_shop);
    assert_eq!(last(&["BEGIN", "SET search_path = shop", "ROLLBACK", select]), of_public);
    let function = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END";
    let within = ["BEGIN", "SET LOCAL search_path = shop", function, select];
    assert_eq!(last(&within), of_shop, "the END of a body ends no transaction");
    let hidden = "SELECT set_config('search_path', $1, false)";
    let both = "read orders; read shop.orders; unknown table; ";
    assert_eq!(last(&[hidden, select]), both);
}

/// By the parser, and by the names in a text that the parser does not know.
#[test]
fn a_doubled_quote_within_a_name_is_one_wherever_the_name_is_read() {
    let table = Table { schema: "public".into(), name: "a\"b".into(), ..Table::default() };
    let catalog =
        Catalog { search_path: vec!["public".into()], tables: vec![table], ..Catalog::default() };
    let mut reader = Reader::new(&catalog);
    for sql in [
        "DELETE FROM \"a\"\"b\"",
        "LOCK TABLE \"a\"\"b\"",
        "DO $$ BEGIN UPDATE \"a\"\"b\" SET n = 1; END $$",
    ] {
        let reading = reader.read(sql.as_bytes(), &parts(sql));
        let writes =
            reading.accesses.iter().any(|one| one.writes && one.object == Object::Table(0));
        assert!(writes, "{sql}: {reading:?}");
    }
}
