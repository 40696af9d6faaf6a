//! Whatever the text: nothing panics, and every reported place exists.

use proptest::prelude::*;

use super::{cases, catalog, parts};
use crate::lexer::form::Parts;
use crate::lexer::significant;
use crate::lexer::sql_like::sql_like;
use crate::lexer::token::Kind;
use crate::reading::{Reader, StatementEffects, ValuePosition};

/// Every place is one of the text's, and every key is one of the reading's.
fn check(sql: &[u8], parts: &Parts, reading: &StatementEffects) {
    let tokens = significant(sql);
    let exists = |position: &ValuePosition| match position {
        ValuePosition::Literal(at) => (*at as usize) < parts.literals().len(),
        ValuePosition::Parameter(at) => {
            let named = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u32>().ok();
            let numbers = tokens.iter().filter(|token| token.kind == Kind::Parameter);
            numbers.filter_map(|token| named(&token.text[1..])).any(|number| number == at + 1)
        }
    };
    for key in &reading.keys {
        assert!(key.rows.iter().all(|row| row.len() == key.columns.len()));
        assert!(key.rows.iter().flatten().all(|one| exists(&one.position())));
    }
    assert!(reading.uses.iter().all(|one| exists(&one.position)));
    assert!(reading.passed_values.iter().all(exists));
    assert!(reading.draws.iter().all(|draw| draw.each_of.as_ref().is_none_or(exists)));
    let keys = reading.accesses.iter().filter_map(|access| access.key);
    assert!(keys.into_iter().all(|key| usize::from(key) < reading.keys.len()));
}

fn read(sql: &[u8]) {
    let mut parts = Parts::default();
    parts.take_apart(sql);
    let reading = Reader::new(&catalog()).read(sql, &parts);
    check(sql, &parts, &reading);
}

/// Statements of which the tokens are left out, doubled or taken from another one.
fn mangled() -> impl Strategy<Value = Vec<u8>> {
    let all: Vec<String> =
        cases(include_str!("statements.txt")).into_iter().map(|(sql, _)| sql).collect();
    let other = all.clone();
    (proptest::sample::select(all), proptest::sample::select(other), any::<u64>()).prop_map(
        |(one, other, mut dice)| {
            let mut tokens: Vec<Vec<u8>> =
                significant(one.as_bytes()).iter().map(|token| token.text.to_vec()).collect();
            let others = significant(other.as_bytes());
            for _ in 0..3 {
                let at = (dice % tokens.len().max(1) as u64) as usize;
                match dice >> 60 {
                    0..4 if at < tokens.len() => drop(tokens.remove(at)),
                    4..8 if at < tokens.len() => tokens.insert(at, tokens[at].clone()),
                    8..12 if at < tokens.len() => tokens.truncate(at),
                    _ => {
                        let from = others.len() / 2;
                        tokens.splice(at..at, others[from..].iter().map(|one| one.text.to_vec()));
                    }
                }
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            }
            tokens.join(&b' ')
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_read(sql in sql_like()) {
        read(&sql);
    }

    #[test]
    fn statements_that_are_torn_are_read(sql in mangled()) {
        read(&sql);
    }

    #[test]
    fn function_bodies_and_views_of_any_text_are_read(body in sql_like(), torn in mangled()) {
        let mut catalog = catalog();
        catalog.views[0].definition = String::from_utf8_lossy(&torn).into_owned();
        for (at, text) in [(0, &body), (1, &torn), (2, &torn)] {
            catalog.functions[at].body = String::from_utf8_lossy(text).into_owned();
        }
        let sql = "SELECT add_order(id), pay(5) FROM unpaid WHERE id = 7 AND customer = $1";
        let reading = Reader::new(&catalog).read(sql.as_bytes(), &parts(sql));
        check(sql.as_bytes(), &parts(sql), &reading);
    }
}

#[test]
fn what_is_deep_or_long_is_read() {
    let texts = [
        format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("SELECT 1 FROM orders WHERE id = 1{}", " OR id = 1".repeat(50_000)),
        format!("SELECT 1{}", " + 1".repeat(50_000)),
        format!("SELECT {} 1", "- ".repeat(50_000)),
        format!("SELECT {} true", "NOT ".repeat(50_000)),
        format!("SELECT 1{}", "::int".repeat(50_000)),
        format!("SELECT a{} FROM orders", "[1]".repeat(50_000)),
        format!("SELECT a{} FROM orders", "(1)".repeat(50_000)),
        format!("SELECT a{} FROM orders", ".b(1)".repeat(50_000)),
        format!("SELECT a{} FROM orders", "[1]".repeat(999)),
        format!("SELECT 1 FROM orders WHERE id = 1{}", " OR id = 1".repeat(450)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(900)),
        format!("SELECT 1{}", "::int".repeat(900)),
        format!("SELECT x{} FROM orders", " IS NULL".repeat(900)),
        format!("SELECT {}1{}", "(1 + ".repeat(48), ")".repeat(48)),
        format!("SELECT {}1{}", "(SELECT ".repeat(16), ")".repeat(16)),
        format!("SELECT * FROM {}orders{}", "(SELECT * FROM ".repeat(16), ") x".repeat(16)),
        format!("SELECT {}1{}", "CASE WHEN f(".repeat(16), ") THEN 1 END".repeat(16)),
        format!("SELECT a{} FROM orders", ".b".repeat(50_000)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(20_000)),
        format!("SELECT {} 1 {}", "CASE WHEN true THEN ".repeat(9_000), "END ".repeat(9_000)),
        format!("SELECT 1 FROM orders{}", " JOIN orders ON true".repeat(5_000)),
        format!("SELECT * FROM {}orders{}", "(".repeat(9_000), ")".repeat(9_000)),
        format!("SELECT {}1{}", "(SELECT ".repeat(9_000), ")".repeat(9_000)),
        format!("SELECT {}1{}", "f(".repeat(9_000), ")".repeat(9_000)),
        format!("SELECT {}1{}", "ARRAY[".repeat(9_000), "]".repeat(9_000)),
        format!("EXPLAIN ANALYZE {} SELECT 1", "EXPLAIN ANALYZE ".repeat(50_000)),
        format!("{} SELECT 1", "PREPARE a AS ".repeat(50_000)),
        format!("{} SELECT 1", "DECLARE c CURSOR FOR ".repeat(50_000)),
        format!("COPY {}SELECT 1{}", "(COPY ".repeat(9_000), ")".repeat(9_000)),
        format!("SELECT x{} y FROM orders", " COLLATE \"C\"".repeat(9_000)),
        format!("SELECT x{} FROM orders", " IS NULL".repeat(9_000)),
        format!("SELECT x{} FROM orders", " AT TIME ZONE 'x'".repeat(9_000)),
        format!("SELECT {} x FROM orders", "interval ".repeat(9_000)),
        format!("SELECT {}1{} ", "CAST(".repeat(9_000), " AS int)".repeat(9_000)),
        format!("SELECT 1 AS {}", "x ".repeat(9_000)),
        format!("SELECT 1::{}int", "int array ".repeat(9_000)),
        format!("INSERT INTO orders (customer) VALUES {}(1)", "(1), ".repeat(20_000)),
        format!("SELECT 1 FROM orders WHERE id IN ({}1)", "1, ".repeat(50_000)),
        format!("SELECT {}1{}", "(".repeat(30), ")".repeat(30)),
        format!("SELECT {}1{}", "(".repeat(45), ")".repeat(44)),
        format!("SELECT * FROM {}orders{}", "(".repeat(30), ")".repeat(30)),
        format!("SELECT * FROM {}SELECT 1{}", "(".repeat(30), ")".repeat(30)),
        format!("SELECT * FROM {}orders{}", "(".repeat(30), " a)".repeat(30)),
        format!("SELECT {}1{}", "f(".repeat(30), ")".repeat(30)),
        format!("SELECT {}1{}", "f(a := ".repeat(30), ")".repeat(30)),
        format!("SELECT {}1{}", "CASE WHEN ".repeat(30), " THEN 1 END".repeat(30)),
        format!("SELECT {}1{}", "(SELECT ".repeat(30), ")".repeat(30)),
        format!("SELECT {}1{}", "interval (".repeat(30), ")".repeat(30)),
        format!("SELECT {}1{}", "a[".repeat(30), "]".repeat(30)),
        format!("SELECT {}1{}", "x = ANY (".repeat(30), ")".repeat(30)),
        format!("SELECT {}1{}", "x IN (".repeat(30), ")".repeat(30)),
        format!("SELECT {}1{}", "ROW(1, ".repeat(30), ")".repeat(30)),
        format!("SELECT {}1{}", "EXISTS (SELECT ".repeat(30), ")".repeat(30)),
        format!("{}SELECT 1{}", "WITH a AS (".repeat(30), ") SELECT 1".repeat(30)),
        format!("{}SELECT 1{}", "(".repeat(30), ")".repeat(30)),
        format!("WITH {} x AS (SELECT 1) SELECT 1", "a AS (SELECT 1), ".repeat(2_000)),
    ];
    for sql in texts {
        read(sql.as_bytes());
    }
}
