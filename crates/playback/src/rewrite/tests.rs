//! Statements of a session, as they are sent where each id is another one than in the capture.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use seatrial_pgwire::answer::Answer;
use seatrial_sqltext::catalog::{Catalog, Function};
use seatrial_sqltext::lexer::class::classify;
use seatrial_sqltext::lexer::form::Parts;
use seatrial_sqltext::lexer::significant;
use seatrial_trace::Traced;
use seatrial_trace::captured::{Returned, Statement};

use super::binder::{Binder, IdCounts};
use super::id_slots::IdSlots;
use super::reported::Ids;
use crate::ids::plan::Plan;
use crate::item::Item;

const CATALOG: &str = r#"{"search_path": ["public"], "tables": [
    {"schema": "public", "name": "node", "unique_keys": [[0]], "columns": [
        {"name": "id", "type_name": "bigint", "generated": {"sequence": 0}},
        {"name": "parent_id", "type_name": "bigint"},
        {"name": "amount", "type_name": "bigint"}]},
    {"schema": "public", "name": "log", "columns": [
        {"name": "doc", "type_name": "jsonb"},
        {"name": "note", "type_name": "text"},
        {"name": "amount", "type_name": "bigint"}]},
    {"schema": "public", "name": "other", "unique_keys": [[0]], "columns": [
        {"name": "id", "type_name": "bigint", "generated": {"sequence": 1}}]}],
    "sequences": [
        {"schema": "public", "name": "node_id_seq", "increment": 1, "cache": 1, "next_value": 17},
        {"schema": "public", "name": "other_id_seq", "increment": 1, "cache": 1, "next_value": 5}],
    "foreign_keys": [{"table": 0, "columns": [1], "parent": 0, "parent_columns": [0]}],
    "views": [{"schema": "public", "name": "leaves",
        "definition": "SELECT id, parent_id FROM node WHERE amount > 3"}],
    "functions": []}"#;

/// What is captured of a statement: its text, its parameters, and the ids that came back.
type Captured<'a> = (&'a str, &'a [&'a str], &'a [i64]);

/// Draws the node 17, then the node 18.
const DRAWN: [Captured<'static>; 2] = [
    ("INSERT INTO node (amount) VALUES (1) RETURNING id", &[], &[17]),
    ("INSERT INTO node (amount) VALUES (2) RETURNING id", &[], &[18]),
];

fn catalog() -> Catalog {
    let mut catalog: Catalog = serde_json::from_str(CATALOG).unwrap();
    catalog.functions.push(Function {
        schema: "public".to_owned(),
        name: "cut".to_owned(),
        language: "plpgsql".to_owned(),
        body: "BEGIN DELETE FROM node WHERE id = n; END".to_owned(),
    });
    catalog
}

/// The statements sent where each id is greater by 1000, and the report.
fn played(captured: &[Captured<'_>]) -> (Vec<String>, Ids) {
    played_to(catalog(), captured)
}

fn played_to(catalog: Catalog, captured: &[Captured<'_>]) -> (Vec<String>, Ids) {
    let parameters: Vec<Vec<Option<Vec<u8>>>> = captured
        .iter()
        .map(|(_, all, _)| all.iter().map(|one| Some(one.as_bytes().to_vec())).collect())
        .collect();
    let returned: Vec<Returned> = captured
        .iter()
        .map(|(_, _, ids)| {
            let rows = ids.iter().map(|id| vec![Some(id.to_string().into_bytes())]);
            Returned { columns: vec![b"id".to_vec()], rows: rows.collect() }
        })
        .collect();
    let statements: Vec<Statement<'_>> = (0..captured.len())
        .map(|at| Statement {
            start_us: at as i64 * 1_000,
            duration_us: Some(10),
            sql: captured[at].0.as_bytes(),
            parameters: &parameters[at],
            returned: (!captured[at].2.is_empty()).then_some(&returned[at]),
            ..Statement::default()
        })
        .collect();
    let traced: Vec<Traced<'_>> = statements
        .iter()
        .map(|statement| Traced {
            statement: statement.clone(),
            fingerprint: fingerprint(statement.sql),
            text: statement.sql,
            class: classify(&significant(statement.sql)).0,
            statements: 1,
        })
        .collect();
    let plan = Arc::new(Plan::of_statements(&catalog, &traced));
    let counts = Arc::new(Mutex::new(IdCounts::default()));
    let names = vec!["a".to_owned()];
    let mut binder = Binder::new(Arc::clone(&plan), catalog.clone(), names, Arc::clone(&counts));
    let mut now = IdSlots::new(Arc::clone(&plan));
    let mut sent = Vec::new();
    for (number, statement) in (0..).zip(&statements) {
        let mut item = item(number, statement);
        let bindings = binder.bind(&mut item, true).unwrap_or_default();
        now.write(&mut item, &bindings);
        let ids = captured[number as usize].2.iter();
        let kept = ids.map(|id| Some((id + 1_000).to_string().into_bytes().into_boxed_slice()));
        let kept: Vec<_> = kept.collect();
        let rows = Some(kept.len() as u64);
        now.take(&bindings, &Answer { rows, kept, ..Answer::default() });
        let mut text = String::from_utf8(item.sql).unwrap();
        for parameter in item.parameters.into_iter().flatten() {
            text += &format!(" | {}", String::from_utf8(parameter).unwrap());
        }
        sent.push(text);
    }
    binder.finish();
    let counts = std::mem::take(&mut *seatrial_gauge::lock(&counts));
    (sent, Ids::of(&plan, &catalog, counts, &now.finish()))
}

fn fingerprint(sql: &[u8]) -> u64 {
    let mut parts = Parts::default();
    parts.take_apart(sql);
    twox_hash::XxHash64::oneshot(0, parts.form())
}

fn item(number: u64, statement: &Statement<'_>) -> Item {
    Item {
        number,
        session: statement.session,
        start_us: statement.start_us,
        duration_us: statement.duration_us,
        protocol: statement.protocol,
        sql: statement.sql.to_vec(),
        parameters: statement.parameters.to_vec(),
        class: classify(&significant(statement.sql)).0,
        fingerprint: fingerprint(statement.sql),
        statements: 1,
        ..Item::default()
    }
}

/// What is sent of the last statement, and what is left alone of it, by reason.
fn last(captured: &[Captured<'_>]) -> (String, Vec<(String, u64)>) {
    let all = [&DRAWN[..], captured].concat();
    let (mut sent, ids) = played(&all);
    let unresolved = ids.classes.iter().flat_map(|class| class.unresolved.clone());
    for class in &ids.classes {
        assert_eq!(class.rewritten, class.exact + class.proved + class.by_pattern);
    }
    (sent.pop().unwrap(), unresolved.chain(ids.not_followed).collect())
}

fn sent(sql: &str, parameters: &[&str]) -> (String, Vec<(String, u64)>) {
    last(&[(sql, parameters, &[])])
}

fn all_of(sql: &str, expected: &str) {
    assert_eq!(sent(sql, &[]), (expected.to_owned(), Vec::new()));
}

/// It is sent unchanged, and reported so often for this reason.
fn left(sql: &str, parameters: &[&str], reason: &str, count: u64) {
    let mut expected = sql.to_owned();
    parameters.iter().for_each(|one| expected += &format!(" | {one}"));
    assert_eq!(sent(sql, parameters), (expected, vec![(reason.to_owned(), count)]));
}

/// What one table leaves out of a sequence, another draws.
#[test]
fn shared_sequences_have_no_gaps_of_their_own() {
    let mut shared = catalog();
    shared.tables[2].columns[0].generated = shared.tables[0].columns[0].generated;
    let captured: [Captured<'_>; 5] = [
        DRAWN[0],
        ("INSERT INTO other DEFAULT VALUES RETURNING id", &[], &[18]),
        ("INSERT INTO node (amount) VALUES (2) RETURNING id", &[], &[20]),
        ("DELETE FROM node WHERE id IN ($1, $2)", &["17", "20"], &[]),
        ("DELETE FROM other WHERE id = $1", &["18"], &[]),
    ];
    let gaps = |captured: &[Captured<'_>]| {
        let (_, ids) = played_to(shared.clone(), captured);
        ids.classes.iter().map(|class| (class.drawn_now, class.gaps)).collect::<Vec<_>>()
    };
    assert_eq!(gaps(&captured), [(2, 1), (1, 0)]);
    // How many another statement drew is unknown.
    let more: Captured<'_> = ("INSERT INTO other SELECT FROM generate_series(1, 3)", &[], &[]);
    assert_eq!(gaps(&[&captured[..], &[more]].concat()), [(2, 0), (1, 0)]);
}

#[test]
fn value_of_several_columns_is_rewritten_once() {
    for sql in [
        "DELETE FROM node WHERE id = $1 OR parent_id = $1",
        "UPDATE node SET id = $1 WHERE id = $1",
        "SELECT 1 FROM node o, node l WHERE o.id = $1 AND l.parent_id = $1",
    ] {
        assert_eq!(sent(sql, &["17"]), (format!("{sql} | 1017"), Vec::new()));
    }
    let arrays = "SELECT 1 FROM node WHERE id = ANY($1) OR parent_id = ANY($1)";
    assert_eq!(sent(arrays, &["{17,18}"]), (format!("{arrays} | {{1017,1018}}"), Vec::new()));
    // What is not an id of one of the columns may not be written as that of the other.
    let two = "SELECT 1 FROM node, other WHERE node.id = $1 AND other.id = $1";
    let shared = ("shared".to_owned(), 1);
    assert_eq!(sent(two, &["17"]), (format!("{two} | 17"), vec![shared.clone(), shared]));
    // A bound alone is left unchanged; next to an id, it is that.
    let both = sent("SELECT 1 FROM node WHERE id = $1 OR id > $1", &["17"]);
    assert_eq!(both.1, [("bound".to_owned(), 1)]);
    // Outside of what was drawn it is no id.
    for bound in ["16", "19"] {
        assert_eq!(sent("SELECT 1 FROM node WHERE id < $1", &[bound]).1, []);
    }
}

#[test]
fn views_show_the_columns_of_their_tables() {
    all_of(
        "UPDATE leaves SET parent_id = 18 WHERE id = 17",
        "UPDATE leaves SET parent_id = 1018 WHERE id = 1017",
    );
    all_of(
        "INSERT INTO leaves (parent_id) VALUES (17)",
        "INSERT INTO leaves (parent_id) VALUES (1017)",
    );
    all_of(
        "UPDATE ONLY node SET amount = 18 WHERE id = 17",
        "UPDATE ONLY node SET amount = 18 WHERE id = 1017",
    );
    all_of("DELETE FROM ONLY node WHERE id = 17", "DELETE FROM ONLY node WHERE id = 1017");
}

#[test]
fn constant_expressions_are_values() {
    all_of(
        "UPDATE node SET parent_id = CASE WHEN (id = 17) THEN 18 ELSE '17' END::bigint",
        "UPDATE node SET parent_id = CASE WHEN (id = 1017) THEN 1018 ELSE '1017' END::bigint",
    );
    all_of(
        "SELECT 1 FROM node WHERE id = coalesce(17, 0)",
        "SELECT 1 FROM node WHERE id = coalesce(1017, 0)",
    );
    all_of(
        "SELECT 1 FROM node WHERE coalesce(parent_id, 0) = 17",
        "SELECT 1 FROM node WHERE coalesce(parent_id, 0) = 1017",
    );
    all_of("DELETE FROM node WHERE id = (SELECT 17)", "DELETE FROM node WHERE id = (SELECT 1017)");
    all_of(
        "UPDATE node SET (parent_id, amount) = (SELECT 17, 18) WHERE id = 18",
        "UPDATE node SET (parent_id, amount) = (SELECT 1017, 18) WHERE id = 1018",
    );
    all_of(
        "INSERT INTO node (parent_id) VALUES (coalesce(17, 0)), (18)",
        "INSERT INTO node (parent_id) VALUES (coalesce(1017, 0)), (1018)",
    );
    all_of(
        "SELECT 1 FROM node, (VALUES (17), (nullif(18, 0))) v(i) WHERE id = v.i",
        "SELECT 1 FROM node, (VALUES (1017), (nullif(1018, 0))) v(i) WHERE id = v.i",
    );
    all_of(
        "SELECT 1 FROM node WHERE id IN (SELECT 17 UNION SELECT 18)",
        "SELECT 1 FROM node WHERE id IN (SELECT 1017 UNION SELECT 1018)",
    );
}

#[test]
fn possible_ids_in_expressions_are_reported() {
    for sql in [
        "SELECT 1 FROM node WHERE id = 17 + 0",
        "SELECT 1 FROM node WHERE 0 + 17 = id",
        "SELECT 1 FROM node WHERE id + 0 = 17",
        "UPDATE node SET parent_id = abs(17)",
        "INSERT INTO node (parent_id) VALUES (17 + 0)",
        "SELECT 1 FROM node WHERE id = 0 + (SELECT 17)",
        "SELECT 1 FROM node WHERE id = ANY (string_to_array('5,17', ',')::bigint[])",
    ] {
        left(sql, &[], "expression", 1);
    }
    // What no draw gave is not an id.
    assert_eq!(sent("SELECT 1 FROM node WHERE id % 8 = 3", &[]).1, []);
    left("SELECT 1 FROM node WHERE id = ANY ('{{17,1}}')", &[], "spelling", 1);
}

#[test]
fn possible_ids_outside_columns_are_reported() {
    left("SELECT cut(17)", &[], "function", 1);
    left("SELECT cut(17 + 0), cut($1), cut('2024-01-17')", &["18"], "function", 2);
    left("SELECT * FROM cut('{\"node\": 17}')", &[], "function", 1);
    left("CALL cut(17)", &[], "function", 1);
    left("EXECUTE unknown (17, 3)", &[], "function", 1);
    left("DO $$ BEGIN DELETE FROM node WHERE id = 17; END $$", &[], "not_understood", 1);
    let temporary = [
        ("CREATE TEMP TABLE ids (id bigint)", &[][..], &[][..]),
        ("INSERT INTO ids VALUES (17), (3)", &[], &[]),
        ("DELETE FROM node USING ids WHERE node.id = ids.id", &[], &[]),
    ];
    let (sent, unknown) = last(&temporary);
    assert_eq!(sent, temporary[2].0);
    assert_eq!(unknown, [("unknown_table".to_owned(), 1)]);
    // Values that no draw gave are not reported, nor columns that have nothing to do with ids.
    assert_eq!(self::sent("SELECT cut(3)", &[]).1, []);
    assert_eq!(self::sent("SELECT 1 FROM node WHERE amount = 17", &[]).1, []);
    assert_eq!(self::sent("SELECT * FROM cut((SELECT id FROM node WHERE id = 17))", &[]).1, []);
}

#[test]
fn rows_of_several_draws_keep_their_order() {
    let reversed = "WITH n AS (INSERT INTO node (amount) VALUES (1), (2) RETURNING id) \
                    SELECT id FROM n ORDER BY id DESC";
    let (sent, unknown) =
        last(&[(reversed, &[], &[20, 19]), ("DELETE FROM node WHERE id = 19", &[], &[])]);
    assert_eq!(sent, "DELETE FROM node WHERE id = 19");
    assert_eq!(unknown.iter().map(|(_, count)| count).sum::<u64>(), 1, "{unknown:?}");
}

#[test]
fn ids_given_twice_by_a_sequence_are_unresolved() {
    let again = ("TRUNCATE node RESTART IDENTITY", &[][..], &[][..]);
    let insert = (DRAWN[0].0, &[][..], &[17][..]);
    let delete = ("DELETE FROM node WHERE id = 17", &[][..], &[][..]);
    let (sent, unknown) = last(&[again, insert, delete]);
    assert_eq!((sent.as_str(), unknown), (delete.0, vec![("given_again".to_owned(), 1)]));
    // What was not captured may be it as well.
    let silent = ("INSERT INTO node (amount) VALUES (3)", &[][..], &[][..]);
    let (_, unknown) = last(&[again, silent, delete]);
    assert_eq!(unknown, [("given_again".to_owned(), 1)]);
    // Of one that began again, all that is captured is known.
    let other = ("SELECT setval('node_id_seq', 100)", &[][..], &[][..]);
    let (sent, unknown) = last(&[other, delete]);
    assert_eq!((sent.as_str(), unknown), ("DELETE FROM node WHERE id = 1017", vec![]));
}

#[test]
fn ids_below_the_first_are_not_old_if_the_sequence_was_reset() {
    let set = "SELECT setval(pg_get_serial_sequence('public.node', 'id'), 3, false)";
    let (_, ids) = played(&[(set, &[], &[]), ("DELETE FROM node WHERE id = 3", &[], &[])]);
    assert_eq!(ids.classes[0].not_generated, 0);
    assert_eq!(ids.classes[0].unresolved["no_order"], 1);
}

/// This number of turns: each draws a node and mentions it. `texts` makes the statements that
/// mention an id in a turn.
fn turns(count: i64, texts: impl Fn(i64, i64) -> Vec<String>) -> (Vec<String>, Ids) {
    let ids: Vec<[i64; 1]> = (17..17 + count).map(|id| [id]).collect();
    let all: Vec<Vec<String>> = (0..).zip(&ids).map(|(turn, id)| texts(turn, id[0])).collect();
    let mut captured: Vec<Captured<'_>> = Vec::new();
    for (id, texts) in ids.iter().zip(&all) {
        captured.push(("INSERT INTO node (amount) VALUES (900) RETURNING id", &[], id));
        captured.extend(texts.iter().map(|text| (text.as_str(), &[][..], &[][..])));
    }
    let (sent, ids) = played(&captured);
    (sent.into_iter().filter(|text| !text.contains("RETURNING")).collect(), ids)
}

fn is_sent_as(texts: impl Fn(i64, i64) -> Vec<String>, expected: impl Fn(i64, i64) -> Vec<String>) {
    let (sent, ids) = turns(30, texts);
    let all: Vec<String> = (0..30).flat_map(|turn| expected(turn, turn + 17)).collect();
    assert_eq!(sent, all);
    assert_eq!((ids.not_followed, ids.doubtful_uses), (BTreeMap::new(), 0));
}

#[test]
fn ids_within_texts_are_rewritten() {
    let text = |turn: i64, id: i64, shown: i64| {
        let day = turn % 28 + 1;
        vec![
            format!(
                "INSERT INTO log (doc) VALUES ('{{\"node\": {{\"node_id\": {id}}}, \"n\": [1]}}')"
            ),
            format!("INSERT INTO log (note) VALUES ('node {id}: 2024-01-{day:02}, 17.50')"),
            format!("INSERT INTO log (doc) VALUES ('{{\"nodes\": [\"{id}\"], \"m\": \"it''s\"}}')"),
            format!("UPDATE log SET note = E'NODE-{shown:06}' WHERE amount = {id}"),
            format!("INSERT INTO log (amount, doc) VALUES (18, '{{\"{id}\": {{\"a\": true}}}}')"),
        ]
    };
    let expected = |turn: i64, id: i64| {
        let mut all = text(turn, id + 1_000, id + 1_000);
        all[3] = format!("UPDATE log SET note = E'NODE-{:06}' WHERE amount = {id}", id + 1_000);
        // A number alone names nothing: it goes with the ids as a counter of the client would.
        all[4] = text(turn, id, id)[4].clone();
        all
    };
    let (sent, ids) = turns(30, |turn, id| text(turn, id, id));
    assert_eq!(sent, (0..30).flat_map(|turn| expected(turn, turn + 17)).collect::<Vec<_>>());
    assert_eq!(ids.not_followed, BTreeMap::from([("text".to_owned(), 30)]));
    assert_eq!(ids.doubtful_uses, 30);
    let found = &ids.classes[0];
    assert_eq!((found.by_pattern, found.rewritten, found.exact), (120, 120, 0));
}

#[test]
fn id_compared_within_a_text_is_rewritten() {
    is_sent_as(
        |_, id| {
            vec![format!(
                "SELECT 1 FROM log WHERE doc @> '{{\"node_id\": {id}}}' AND note = 'node {id}'"
            )]
        },
        |_, id| {
            let id = id + 1_000;
            vec![format!(
                "SELECT 1 FROM log WHERE doc @> '{{\"node_id\": {id}}}' AND note = 'node {id}'"
            )]
        },
    );
}

#[test]
fn numbers_are_unchanged_and_possible_ids_reported() {
    // Of few cases nothing follows.
    let (sent, ids) =
        turns(5, |_, id| vec![format!("INSERT INTO log (note) VALUES ('node {id}')")]);
    assert_eq!(sent[4], "INSERT INTO log (note) VALUES ('node 21')");
    assert_eq!(ids.not_followed, BTreeMap::from([("text".to_owned(), 5)]));
    // A quantity is an id now and then.
    let quantity = |turn: i64, _| {
        let quantity = 17 + turn * 7 % 60;
        vec![format!("INSERT INTO log (doc) VALUES ('{{\"node\": {quantity}}}')")]
    };
    let (sent, ids) = turns(60, quantity);
    assert_eq!(sent, (0..60).flat_map(|turn| quantity(turn, 0)).collect::<Vec<_>>());
    assert!(ids.doubtful_uses > 0);
    // A price is mostly none, and a part of the program is the same each time.
    is_sent_as(
        |turn, _| {
            vec![format!("INSERT INTO log (note) VALUES ('costs {}')", 10 + turn * 997 % 5_000)]
        },
        |turn, _| {
            vec![format!("INSERT INTO log (note) VALUES ('costs {}')", 10 + turn * 997 % 5_000)]
        },
    );
    let program = |_, _| vec!["SELECT 1 FROM log WHERE note LIKE 'version 18%'".to_owned()];
    is_sent_as(program, program);
    // What its client had counted before is not an id, however equal.
    let ids: Vec<[i64; 1]> = (17..57).map(|id| [id]).collect();
    let texts: Vec<[String; 2]> = (17..57)
        .map(|id| {
            [
                format!("INSERT INTO node (amount) VALUES ({id}) RETURNING id"),
                format!("INSERT INTO log (note) VALUES ('amount {id}')"),
            ]
        })
        .collect();
    let captured: Vec<Captured<'_>> = texts
        .iter()
        .zip(&ids)
        .flat_map(|([draw, text], id)| [(&**draw, &[][..], &id[..]), (&**text, &[][..], &[][..])])
        .collect();
    let (sent, ids) = played(&captured);
    assert_eq!(sent[79], texts[39][1]);
    assert_eq!(ids.not_followed, BTreeMap::from([("text".to_owned(), 40)]));
}

#[test]
fn ids_in_parameters_are_rewritten() {
    let ids: Vec<[i64; 1]> = (17..47).map(|id| [id]).collect();
    let texts: Vec<[String; 2]> =
        (17..47).map(|id| [format!("{{\"node_id\": {id}}}"), format!("node {id}")]).collect();
    let parameters: Vec<[&str; 2]> = texts.iter().map(|[doc, note]| [&**doc, &**note]).collect();
    let mut captured: Vec<Captured<'_>> = Vec::new();
    for (id, parameters) in ids.iter().zip(&parameters) {
        captured.push((DRAWN[0].0, &[], id));
        captured.push(("INSERT INTO log (doc, note) VALUES ($1, $2)", parameters, &[]));
    }
    let (sent, ids) = played(&captured);
    assert!(sent[59].ends_with("| {\"node_id\": 1046} | node 1046"), "{}", sent[59]);
    assert_eq!((ids.classes[0].rewritten, ids.doubtful_uses), (60, 0));
}
