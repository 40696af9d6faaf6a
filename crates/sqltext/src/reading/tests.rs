//! Tests of the reading of statements.

mod corpora;
mod fuzz;
mod rendered;
mod sessions;

use super::*;
use crate::catalog::Catalog;
use crate::lexer::form::Parts;

/// A shop's catalogue: serial, identity, uuid and composite keys, partitions, triggers.
fn catalog() -> Catalog {
    serde_json::from_str(include_str!("tests/catalog.json")).unwrap()
}

fn parts(sql: &str) -> Parts {
    let mut parts = Parts::default();
    parts.take_apart(sql.as_bytes());
    parts
}

/// Each statement of a file, with the expected reading in the lines below, which are indented.
fn cases(file: &str) -> Vec<(String, String)> {
    let blocks = file.split("\n\n").map(|block| {
        let is_reported = |line: &&str| line.starts_with("    ");
        let (rendered, sql): (Vec<&str>, Vec<&str>) = block.lines().partition(is_reported);
        let rendered = rendered.iter().map(|line| format!("{}\n", line.trim_end())).collect();
        (sql.join("\n").trim().to_owned(), rendered)
    });
    blocks.filter(|(sql, _)| !sql.is_empty()).collect()
}

/// A column that is left out refers to a row of the parent, if it has a default.
#[test]
fn foreign_keys_of_defaults_are_checked() {
    let sql = "INSERT INTO orders (total) VALUES (5)";
    let checks = |has_default: bool| {
        let mut catalog = catalog();
        catalog.tables[1].columns[1].has_default = has_default;
        let reading = Reader::new(&catalog).read(sql.as_bytes(), &parts(sql));
        let is_of_parent = |access: &&Access| access.object == Object::Table(0);
        reading.accesses.iter().filter(is_of_parent).copied().collect::<Vec<Access>>()
    };
    let checked =
        Access { object: Object::Table(0), writes: false, aspect: RowAspect::Presence, key: None };
    assert_eq!((checks(true), checks(false)), (vec![checked], vec![]));
}

#[test]
fn statements_are_read_as_a_person_reads_them() {
    let cases = cases(include_str!("tests/statements.txt"));
    assert!(cases.len() > 100);
    let mut reader = Reader::new(&catalog());
    let mut others = String::new();
    for (sql, expected) in cases {
        let rendered = rendered::rendered(&sql, &reader.read(sql.as_bytes(), &parts(&sql)));
        if rendered != expected {
            others += &format!("{sql}\n{rendered}\n");
        }
    }
    assert!(others.is_empty(), "read otherwise:\n\n{others}");
}
