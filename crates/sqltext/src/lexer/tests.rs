//! Tests of the lexer: nothing is lost, and what belongs together falls together.

use proptest::prelude::*;

use super::class::Class;
use super::form::{Filling, Parts};
use super::sql_like::sql_like;
use super::token::{Kind, Tokens};
use super::*;

/// A text's fingerprint, written out.
fn normal(sql: &str) -> String {
    fingerprint(sql.as_bytes()).0.text
}

/// A text's literals, comments too.
fn literals(sql: &str) -> Vec<String> {
    let literals = fingerprint(sql.as_bytes()).1;
    literals.into_iter().map(|literal| String::from_utf8_lossy(literal).into_owned()).collect()
}

fn kinds(sql: &str) -> Vec<(Kind, &str)> {
    significant(sql.as_bytes())
        .into_iter()
        .map(|token| (token.kind, std::str::from_utf8(token.text).unwrap()))
        .collect()
}

/// Puts a text together; None where there are not as many literals as gaps.
fn put_together<'a>(form: &[u8], literals: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut sql = Vec::new();
    let mut filling = Filling::of(&mut sql, form);
    let has_gaps = literals.into_iter().all(|literal| filling.fill(literal));
    (filling.end() && has_gaps).then_some(sql)
}

proptest! {
    #[test]
    fn tokens_are_the_text_again(sql in sql_like()) {
        let pieces: Vec<&[u8]> = Tokens::of(&sql).map(|token| token.text).collect();
        prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
        prop_assert_eq!(pieces.concat(), sql);
    }

    #[test]
    fn what_is_taken_apart_is_put_together(sql in sql_like()) {
        let mut parts = Parts::default();
        parts.take_apart(&sql);
        let literals: Vec<&[u8]> = parts.literals().map(|range| &sql[range]).collect();
        prop_assert_eq!(put_together(parts.form(), literals.iter().copied()), Some(sql.clone()));
        let too_many = literals.iter().copied().chain([&b"1"[..]]);
        prop_assert_eq!(put_together(parts.form(), too_many), None);
    }

    #[test]
    fn any_bytes_are_survived(sql in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut parts = Parts::default();
        parts.take_apart(&sql);
        let literals: Vec<&[u8]> = parts.literals().map(|range| &sql[range]).collect();
        prop_assert_eq!(put_together(parts.form(), literals), Some(sql.clone()));
        Fingerprint::of_form(parts.form());
    }

    /// No gap is within another token.
    #[test]
    fn gaps_are_tokens_of_their_own(sql in sql_like()) {
        let mut parts = Parts::default();
        parts.take_apart(&sql);
        let is_gap = |token: &Token<'_>| matches!(token.kind, Kind::Gap | Kind::CommentGap);
        let gaps = Tokens::of(parts.form()).filter(is_gap).count();
        prop_assert_eq!(gaps, parts.literals().len());
    }

    #[test]
    fn blanks_comments_and_case_do_not_matter(
        tokens in proptest::collection::vec(
            prop_oneof![
                Just("select"), Just("a"), Just("from"), Just("t1"), Just("("), Just(")"),
                Just(","), Just("="), Just("1"), Just("'x'"), Just("$1"), Just("in"),
                Just("\"Q\""), Just("-"), Just("values"), Just("."), Just("null"), Just("::"),
            ], 0..20),
        blanks in proptest::collection::vec(
            prop_oneof![Just(" "), Just("  \t"), Just(" /* c */ "), Just(" -- c\n ")], 20),
    ) {
        let plain = tokens.join(" ");
        let mut other = String::new();
        for (token, blank) in tokens.iter().zip(&blanks) {
            let is_verbatim = token.starts_with('"') || token.starts_with('\'');
            other += &if is_verbatim { (*token).to_owned() } else { token.to_uppercase() };
            // A comment between a minus and its number leaves the minus alone, as PostgreSQL does
            // not; the fingerprint then has it.
            other += if *token == "-" { " " } else { blank };
        }
        prop_assert_eq!(normal(&plain), normal(&other));
    }

    #[test]
    fn a_list_has_one_fingerprint_whatever_its_length(
        first in proptest::collection::vec(-50i64..50, 1..30),
        second in proptest::collection::vec("[a-z]{0,3}", 1..30),
    ) {
        let numbers: Vec<String> = first.iter().map(i64::to_string).collect();
        let words: Vec<String> = second.iter().map(|word| format!("'{word}'")).collect();
        for (head, separator, tail) in [
            ("select 1 from t where a in (", ", ", ") and b = 5"),
            ("select 1 from t where a = any(array[", ",", "]) and b = 5"),
            ("insert into t (a) values (", "), (", ") on conflict do nothing"),
        ] {
            let numbers = format!("{head}{}{tail}", numbers.join(separator));
            let words = format!("{head}{}{tail}", words.join(separator));
            prop_assert_eq!(normal(&numbers), normal(&words));
        }
    }
}

#[test]
fn strings_of_all_kinds_are_one_token() {
    for text in [
        "''",
        "'it''s'",
        "E'it\\'s'",
        "e'\\\\'",
        "U&'d\\0061t'",
        "B'101'",
        "x'1F'",
        "N'n'",
        "$$a'b$$",
        "$tag$ $$ $other$ $tag$",
        "'a'\n  'b'",
        "'a' \r\n 'b'\n'c'",
        "'open",
        "$x$open",
        "E'open\\'",
    ] {
        assert_eq!(kinds(text), [(Kind::Text, text)], "{text}");
    }
    assert_eq!(kinds("'a' 'b'").len(), 2, "a string is continued on a further line only");
    assert_eq!(kinds("'a\\' 'b'").len(), 2, "a backslash is not an escape without E");
}

#[test]
fn numbers_are_one_token() {
    for text in ["0", "42", "1_000", "3.5", ".5", "4.", "1e10", "1.5E-3", "0x1F", "0b11", "0o17"] {
        assert_eq!(kinds(text), [(Kind::Number, text)], "{text}");
    }
    let slice = [(Kind::Number, "1"), (Kind::Sign, ".."), (Kind::Number, "10")];
    assert_eq!(kinds("1..10"), slice);
    assert_eq!(kinds("1e"), [(Kind::Number, "1"), (Kind::Word, "e")]);
}

#[test]
fn operators_end_where_postgresql_ends_them() {
    let texts = |sql: &'static str| kinds(sql).iter().map(|kind| kind.1).collect::<Vec<_>>();
    assert_eq!(texts("a=-1"), ["a", "=", "-", "1"]);
    assert_eq!(texts("a @- b"), ["a", "@-", "b"]);
    assert_eq!(texts("a->>'k'"), ["a", "->>", "'k'"]);
    assert_eq!(texts("a+--c\nb"), ["a", "+", "b"]);
    assert_eq!(texts("a*/* c */b"), ["a", "*", "b"]);
    assert_eq!(texts("a?|b::int[]"), ["a", "?|", "b", "::", "int", "[", "]"]);
}

#[test]
fn comments_nest_and_hints_stay() {
    assert_eq!(kinds("/* a /* b */ c */ d -- e"), [(Kind::Word, "d")]);
    assert_eq!(kinds("/*+ SeqScan(t) */ d")[0], (Kind::Hint, "/*+ SeqScan(t) */"));
    assert_eq!(kinds("/* open"), []);
    let traced = "select 1 /*traceparent='00-ab'*/";
    assert_eq!(literals(traced), ["1", "/*traceparent='00-ab'*/"]);
    assert_eq!(normal(traced), "select $1");
    assert_ne!(normal("/*+ SeqScan(t) */ select 1"), normal("select 1"));
}

#[test]
fn literals_are_those_of_pg_stat_statements() {
    let tpcb = "UPDATE pgbench_accounts SET abalance = abalance + -1234 WHERE aid = 77;";
    assert_eq!(literals(tpcb), ["-1234", "77"]);
    let expected = "update pgbench_accounts set abalance = abalance + $1 where aid = $2";
    assert_eq!(normal(tpcb), expected);
    assert_eq!(normal(&tpcb.replace("-1234", "$1").replace("77", "$2")), expected);
    assert_eq!(literals("select a - 5, a -5, (-5), -5, 3 - -5"), ["5", "5", "-5", "-5", "3", "-5"]);
    assert_eq!(literals("select a from t where b is not null and c = NULL"), ["NULL"]);
    assert_eq!(literals("select x is true, y = true, u&'a!0' uescape '!'"), ["true", "u&'a!0'"]);
    assert_eq!(literals("select t.null, date '2024-02-29'"), ["'2024-02-29'"]);
}

#[test]
fn texts_read_as_a_person_writes_them() {
    let cases = [
        (
            "SELECT  count( * ) FROM T WHERE a IN (1,2)",
            "select count(*) from t where a in ($1 /*, ... */)",
        ),
        (
            "insert into t(a,\"B\") values(1,'x'),(2,NULL),(3,default) returning id",
            "insert into t(a, \"B\") values ($1, $2) /*, ... */ returning id",
        ),
        (
            "insert into t values (1, now()), (2, now()), (f(3), 4)",
            "insert into t values ($1, now()) /*, ... */, (f($2), $3) /*, ... */",
        ),
        (
            "select * from t where (a,b) in ((1,2),(3,4))",
            "select * from t where (a, b) in (($1, $2) /*, ... */)",
        ),
        (
            "select * from t where a in (select b from u where c in ($2,$3) and d = $1)",
            "select * from t where a in (select b from u where c in ($1 /*, ... */) and d = $2)",
        ),
        ("select $2, $1, $2", "select $1, $2, $1"),
        ("select a[1:2], '{1}'::int[] ;;", "select a[$1:$2], $3::int[]"),
        ("select a in (b, 1), c in (d)", "select a in (b, $1), c in (d)"),
        ("select E'\\'' || x; commit", "select $1 || x; commit"),
        ("values (1", "values ($1"),
        (";", ""),
    ];
    for (sql, expected) in cases {
        assert_eq!(normal(sql), expected, "{sql}");
    }
}

#[test]
fn a_fingerprint_never_changes() {
    let (fingerprint, _) = fingerprint(b"SELECT abalance FROM pgbench_accounts WHERE aid = 1;");
    assert_eq!(fingerprint.hash, 13_705_949_026_762_212_202);
}

#[test]
fn other_encodings_are_kept() {
    let latin1 = b"select 'caf\xe9' as caf\xe9";
    let (fingerprint, literals) = fingerprint(latin1);
    assert_eq!(literals, [&b"'caf\xe9'"[..]]);
    assert_eq!(fingerprint.text, "select $1 as caf\u{fffd}");
}

#[test]
fn classes_are_distinguished() {
    let cases = [
        ("SELECT 1", Class::Select),
        ("((select 1) union (select 2))", Class::Select),
        ("with a as (select 1) select * from a", Class::Select),
        ("with a as (select 1) update t set b = 1", Class::Update),
        ("with a as (delete from t returning *) select * from a", Class::Delete),
        ("with a as materialized (select 1) insert into t select * from a", Class::Insert),
        ("merge into t using u on true when matched then delete", Class::Merge),
        ("copy t from stdin", Class::Copy),
        ("BEGIN;", Class::Transaction),
        ("prepare transaction 'a'", Class::Transaction),
        ("set transaction read only", Class::Transaction),
        ("prepare a as select 1", Class::Prepared),
        ("fetch 10 from c", Class::Cursor),
        ("do $$ begin end $$", Class::Procedure),
        ("/* c */ create table t (a int)", Class::Ddl),
        ("vacuum analyze t", Class::Maintenance),
        ("set search_path to a", Class::Utility),
        ("/*+ hint */ select 1", Class::Select),
        (" -- nothing", Class::Empty),
        (";;", Class::Empty),
        ("frobnicate", Class::Unknown),
    ];
    for (sql, expected) in cases {
        assert_eq!(fingerprint(sql.as_bytes()).0.class, expected, "{sql}");
        assert_eq!(Class::of_name(expected.name().as_bytes()), Some(expected));
    }
}

#[test]
fn statements_are_counted() {
    let atomic = "create function f() returns int begin atomic select case when a then 1 end; \
                  select 2; end; select 3";
    let cases = [
        ("", 0),
        (" ; ;", 0),
        ("select 1", 1),
        ("select 1;", 1),
        ("begin; select ';'; commit", 3),
        ("create rule r as on insert to t do (delete from u; delete from v)", 1),
        (atomic, 2),
        ("begin; end", 2),
        ("select 1 -- ; \n; -- c", 1),
    ];
    for (sql, expected) in cases {
        assert_eq!(fingerprint(sql.as_bytes()).0.statements, expected, "{sql}");
    }
    assert_eq!(fingerprint(b"begin; delete from t").0.class, Class::Transaction);
}
