//! Statements of real applications, and what PostgreSQL itself locks for them.
//!
//! Django 5.2 and SQLAlchemy 2.1 sent theirs to a server; those of `mixed.json` are pgbench's,
//! TPC-C's, sysbench's, and such as Rails, Hibernate and Spring Batch send. Which tables each reads
//! and writes is what the server had locked behind a PREPARE of it (`pg_locks`).

use std::collections::BTreeSet;

use serde::Deserialize;

use super::parts;
use crate::catalog::Catalog;
use crate::reading::{Object, Reader, RowAspect, SessionNames, StatementEffects};

#[derive(Deserialize)]
struct Corpus {
    catalog: Catalog,
    statements: Vec<Locked>,
}

/// A statement and the tables that the server locks for it; none for what cannot be prepared.
#[derive(Deserialize)]
struct Locked {
    sql: String,
    reads: Option<BTreeSet<String>>,
    #[serde(default)]
    writes: BTreeSet<String>,
}

/// The tables that a statement names: those that it writes, or else.
fn tables(catalog: &Catalog, reading: &StatementEffects, written: bool) -> BTreeSet<String> {
    let named = |object| match object {
        Object::Table(table) => Some(catalog.tables[table].name.clone()),
        Object::Sequence(_) | Object::Unique(_) | Object::Advisory => None,
    };
    let all = reading.accesses.iter().filter(|access| access.aspect != RowAspect::Presence);
    all.filter(|access| access.writes == written)
        .filter_map(|access| named(access.object))
        .collect()
}

fn agree(file: &str) {
    let Corpus { catalog, statements } = serde_json::from_str(file).unwrap();
    let mut reader = Reader::new(&catalog);
    let mut names = SessionNames::default();
    for Locked { sql, reads, writes } in statements {
        let reading = reader.read_in(&mut names, sql.as_bytes(), &parts(&sql));
        assert!(!reading.is_by_names && !reading.accesses_anything, "{sql}");
        let Some(reads) = reads else { continue };
        let written = tables(&catalog, &reading, true);
        let read: BTreeSet<String> =
            tables(&catalog, &reading, false).difference(&written).cloned().collect();
        assert_eq!(read, reads, "{sql}");
        // What a DELETE does to the tables that refer is not part of its plan.
        let deletes = ["DELETE", "MERGE"].iter().any(|word| sql.to_uppercase().contains(word));
        assert!(written == writes || deletes && written.is_superset(&writes), "{sql}");
    }
}

#[test]
fn what_django_sends_is_read_as_the_server_reads_it() {
    agree(include_str!("corpora/django.json"));
}

#[test]
fn what_sqlalchemy_sends_is_read_as_the_server_reads_it() {
    agree(include_str!("corpora/sqlalchemy.json"));
}

#[test]
fn what_others_send_is_read_as_the_server_reads_it() {
    agree(include_str!("corpora/mixed.json"));
}

/// Statements of the logs that the readers of logs are tried on.
#[test]
fn the_logs_of_other_tests_are_understood() {
    let mut reader = Reader::new(&Catalog::default());
    let mut count = 0;
    for log in [
        include_str!("../../../../ingest/src/log/tests/fixtures/15-both.json"),
        include_str!("../../../../ingest/src/log/tests/fixtures/18-both.json"),
    ] {
        let mut names = SessionNames::default();
        for record in log.lines() {
            let record: serde_json::Value = serde_json::from_str(record).unwrap();
            let message = record["message"].as_str().unwrap_or_default();
            let Some((begin, sql)) = message.split_once(": ") else { continue };
            if begin == "statement" || begin.starts_with("execute ") {
                let reading = reader.read_in(&mut names, sql.as_bytes(), &parts(sql));
                assert!(!reading.is_by_names, "{sql}");
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count}");
}
