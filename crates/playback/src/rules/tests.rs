//! Statements in both directions: what is refused, and what only looks like it.

use proptest::prelude::*;
use seatrial_pgwire::answer::{Answer, ServerError, TransactionStatus};
use seatrial_sqltext::lexer::class::Class;

use super::*;

/// A session that is played: what becomes of its statements one after the other.
struct RulesUnderTest {
    rules: Rules,
    objects: SessionObjects,
    certain: SessionObjects,
    number: u64,
}

impl RulesUnderTest {
    fn new(read_only: bool, allow: &[&str]) -> RulesUnderTest {
        let allow: Vec<String> = allow.iter().map(|&name| name.to_owned()).collect();
        let rules = Rules::new(read_only, &allow).unwrap();
        let (objects, certain) = (SessionObjects::default(), SessionObjects::default());
        RulesUnderTest { rules, objects, certain, number: 0 }
    }

    fn item(&mut self, transaction: u64, sql: &str) -> Item {
        self.number += 1;
        Item {
            number: self.number,
            sql: sql.as_bytes().to_vec(),
            transaction,
            class: Class::Unknown,
            statements: 1,
            ..Item::default()
        }
    }

    fn plays(&mut self, transaction: u64, sql: &str) -> Option<Skipped> {
        let item = self.item(transaction, sql);
        self.rules.rule(&item, &mut self.objects).skipped
    }

    /// Sends a statement, and applies its answer to what is certain.
    fn answered(&mut self, transaction: u64, sql: &str, status: TransactionStatus, fails: bool) {
        let item = self.item(transaction, sql);
        let ruling = self.rules.rule(&item, &mut self.objects);
        assert_eq!(ruling.skipped, None, "{sql}");
        let error = ServerError { sqlstate: *b"XX000", message: String::new() };
        let answer = Answer { error: fails.then_some(error), status, ..Answer::default() };
        self.certain.answered(&item, &ruling.changes, &answer);
    }

    fn after_error(&mut self, transaction: u64, sql: &str) -> Option<Skipped> {
        let item = self.item(transaction, sql);
        self.rules.rule_after_error(&item, &self.certain)
    }
}

fn rule(read_only: bool, sql: &str) -> Option<Skipped> {
    RulesUnderTest::new(read_only, &[]).plays(0, sql)
}

fn refused(operation: UnsafeOperation) -> Option<Skipped> {
    Some(Skipped::Refused(operation))
}

/// After an error a temporary object exists for certain if its statement succeeded, and its
/// transaction was committed or has had no error.
#[test]
fn after_an_error_what_succeeded_is_certain() {
    use TransactionStatus::{Active, Failed, Idle};

    let drop = refused(UnsafeOperation::Ddl);
    let mut played = RulesUnderTest::new(false, &[]);
    played.answered(0, "selec 1", Idle, true);
    played.answered(0, "create temp table t (a int)", Idle, false);
    played.answered(1, "begin", Active, false);
    played.answered(1, "create temp table u (a int)", Active, false);
    assert_eq!(played.after_error(1, "truncate t, u"), None);
    played.answered(1, "select 1 / 0", Failed, true);
    // The COMMIT of a transaction that failed rolls back.
    played.answered(1, "commit", Idle, false);
    assert_eq!(played.after_error(0, "truncate u"), drop);
    assert_eq!(played.after_error(0, "truncate t"), None);
    // A COMMIT was skipped: the server's transaction includes the next of the capture.
    played.answered(2, "begin", Active, false);
    played.answered(2, "create temp table v (a int)", Active, false);
    played.answered(3, "begin", Active, false);
    assert_eq!(played.after_error(3, "drop table v"), None);
    played.answered(3, "rollback", Idle, false);
    assert_eq!(played.after_error(0, "drop table v"), drop);
    // It may have failed after the DROP was committed.
    played.answered(0, "drop table t; commit; selec 1", Idle, true);
    assert_eq!(played.after_error(0, "drop table t"), drop);
}

#[test]
fn dangers_are_known() {
    use UnsafeOperation::{CopyProgram, Dblink, Ddl, Notify, Server, TerminateBackend};

    for (operation, sql) in [
        (CopyProgram, "COPY t FROM PROGRAM 'curl x'"),
        (CopyProgram, "copy (select 1) to program 'cat'"),
        (CopyProgram, "copy t (a, b) from '/etc/passwd' with (format csv)"),
        (CopyProgram, "copy t to e'\\x2fetc'"),
        (CopyProgram, "select 1; copy t to program 'cat'"),
        (Dblink, "select dblink_exec('drop table t')"),
        (Dblink, "select * from public . dblink ('a', 'b') as x(a int)"),
        (Dblink, "select \"dblink\"('a', 'b')"),
        (Dblink, "insert into t select * from DBLINK('a', 'b') as dblink(a int)"),
        (Dblink, "with x as (select dblink_connect('a')) select 1"),
        (Dblink, "prepare x as select dblink('a')"),
        (Dblink, "select query_to_xml('select dblink(''a'')', true, true, '')"),
        (TerminateBackend, "select pg_terminate_backend(pid) from pg_stat_activity"),
        (TerminateBackend, "do $$ begin perform pg_terminate_backend(1); end $$"),
        (TerminateBackend, "DO LANGUAGE plpgsql 'begin perform pg_cancel_backend(1); end'"),
        (TerminateBackend, "explain analyze select pg_cancel_backend(1)"),
        (TerminateBackend, "declare c cursor for select pg_cancel_backend(1)"),
        (Notify, "notify a, 'b'"),
        (Notify, "select pg_catalog.pg_notify('a', 'b')"),
        (Notify, "update t set a = 1 where pg_notify('a', 'b') is null"),
        (Ddl, "create table t (a int)"),
        (Ddl, "create unlogged table t (a int)"),
        (Ddl, "create unique index concurrently i on t (a)"),
        (Ddl, "create or replace function f() returns int as $$ select 1 $$ language sql"),
        (Ddl, "alter table only t add b int"),
        (Ddl, "drop table if exists t cascade"),
        (Ddl, "truncate t, s"),
        (Ddl, "grant select on t to joe"),
        (Ddl, "comment on table t is 'dblink'"),
        (Ddl, "select a, b into t from s"),
        (Ddl, "with x as (select 1 as a) select a into unlogged t from x"),
        (Ddl, "begin; drop table t; commit"),
        (Ddl, "do $$ begin if true then drop table t; end if; end $$"),
        (Ddl, "do $$ begin execute 'drop table ' || quote_ident('t'); end $$"),
        (Ddl, "do $a$ begin execute $b$ do $c$ begin drop table t; end $c$ $b$; end $a$"),
        (Ddl, "/* x */ drop /* y */ view v -- z"),
        (Dblink, "import foreign schema s from server x into y"),
        (Dblink, "create extension if not exists dblink"),
        (Server, "alter system set work_mem = '1GB'"),
        (Server, "select pg_reload_conf()"),
        (Server, "select lo_import('/etc/passwd')"),
        (Server, "select lo_export(1, '/etc/passwd')"),
        (Server, "select pg_read_file('x'), pg_ls_dir('.')"),
        (Server, "select pg_stat_reset()"),
        (Server, "load 'x'"),
        (Server, "do language plpython3u $$ import os $$"),
        (Server, "select U&\"dbl\\0069nk\"('a')"),
    ] {
        let others: Vec<&str> = UNSAFE_OPERATIONS
            .iter()
            .filter(|(other, _)| *other != operation)
            .map(|&(_, name)| name)
            .collect();
        let mut played = RulesUnderTest::new(false, &others);
        assert_eq!(played.plays(0, sql), refused(operation), "{sql}");
        let mut all = others;
        all.push(operation.name());
        assert_eq!(RulesUnderTest::new(false, &all).plays(0, sql), None, "{sql}");
    }
}

#[test]
fn harmless_lookalikes_are_sent() {
    for sql in [
        "insert into t values ('dblink(1)', 'select pg_terminate_backend(1)')",
        "insert into dblink (a, b) values (1, 2)",
        "insert into notify (pg_notify) values ($$drop table t$$)",
        "select dblink, pg_notify from pg_read_file",
        "select 'a' as dblink, t.pg_notify from t -- dblink('a')",
        "select * from f() as dblink(a int)",
        "select \"drop\", \"truncate\" from \"create table\" where \"notify\" = 1",
        "select 1 /* ; drop table t */",
        "explain select pg_terminate_backend(1)",
        "explain (analyze false, costs off) select pg_terminate_backend(1)",
        "copy t to stdout",
        "copy (select * from t where a = 'program') to stdout with (format csv)",
        "copy program from stdin",
        "update t set program = 'x'",
        "create temp table t (a int)",
        "create temporary sequence s",
        "create or replace temp view v as select 1",
        "create local temporary table if not exists t as select 1",
        "create table pg_temp.t (a int)",
        "select 1 as a into temp t",
        "select a into temporary table t from s",
        "lock table t in access exclusive mode",
        "vacuum full t",
        "listen a",
        "set session authorization joe",
        "set role joe",
        "begin isolation level serializable read write",
        "prepare x as delete from t",
        "do $$ begin insert into t values ('drop table t'); raise notice 'dblink(1)'; end $$",
        "do $$ declare r int; begin select 1 into r; end $$",
        "call f('pg_notify(1)')",
        "select nextval('s'), lo_create(0)",
        "select pg_sleep(1), pg_advisory_lock(2), pg_relation_size('t'), pg_stat_get_wal()",
        "with x as (delete from t returning *) insert into s select * from x",
        "savepoint drop_table",
        "",
        ";;",
        "nonsense (drop table t)",
    ] {
        assert_eq!(rule(false, sql), None, "{sql}");
    }
}

#[test]
fn statement_needs_all_of_its_operations_allowed() {
    let sql = "create extension postgres_fdw";
    assert_eq!(rule(false, sql), refused(UnsafeOperation::Dblink));
    assert_eq!(
        RulesUnderTest::new(false, &["dblink"]).plays(0, sql),
        refused(UnsafeOperation::Ddl)
    );
    assert_eq!(RulesUnderTest::new(false, &["dblink", "ddl"]).plays(0, sql), None);
    for sql in ["create role joe", "drop database d", "alter user joe password 'x'"] {
        assert_eq!(
            RulesUnderTest::new(false, &["ddl"]).plays(0, sql),
            refused(UnsafeOperation::Server),
            "{sql}"
        );
    }
    let hidden = "create function f() returns int as $$ select dblink('a') $$ language sql";
    assert_eq!(
        RulesUnderTest::new(false, &["ddl"]).plays(0, hidden),
        refused(UnsafeOperation::Dblink)
    );
    assert_eq!(Rules::new(false, &["dll".to_owned()]), Err(UnknownOperation("dll".to_owned())));
}

#[test]
fn writes_are_not_sent_in_read_only_mode() {
    for sql in [
        "insert into t values (1)",
        "UPDATE t SET a = 1",
        "delete from t",
        "merge into t using s on true when matched then delete",
        "with x as (delete from t returning *) select * from x",
        "with x as (select 1) update t set a = 1",
        "explain analyze delete from t",
        "explain (costs off, analyze) insert into t values (1)",
        "select * from t for update",
        "select * from t order by a limit 1 for no key update skip locked",
        "select * from t for key share of t nowait",
        "(select * from t for share)",
        "declare c cursor for select * from t for update",
        "create temp table t (a int)",
        "create temp view v as select 1",
        "select 1 as a into temp t",
        "prepare x as delete from t",
        "prepare x (int) as insert into t values ($1)",
        "copy t from stdin",
        "copy (delete from t returning *) to stdout",
        "select nextval('s')",
        "select pg_catalog.setval('s', 1)",
        "select lo_create(0), lowrite(1, 'x')",
        "vacuum t",
        "analyze",
        "refresh materialized view v",
        "lock table t",
        "lock t in share mode",
        "commit prepared 'x'",
        "rollback prepared 'x'",
        "do $$ begin delete from t; end $$",
        "do $$ begin if true then update t set a = 1; end if; end $$",
        "do $$ declare r t; begin for r in delete from t returning * loop end loop; end $$",
        "do $$ begin execute 'insert into t values (1)'; end $$",
        "select 1; delete from t",
        "begin; update t set a = 1; commit",
        "begin read write",
        "start transaction isolation level serializable, read write",
        "set transaction read write",
        "set session characteristics as transaction read write",
        "set default_transaction_read_only = off",
        "set session \"default_transaction_read_only\" to 'false'",
        "set local transaction_read_only to 0",
        "select set_config('default_transaction_read_only', 'off', false)",
    ] {
        assert_eq!(rule(true, sql), Some(Skipped::Writes), "{sql}");
    }
}

#[test]
fn reads_are_sent_in_read_only_mode() {
    for sql in [
        "select * from t where note = 'for update'",
        "select substring(a for 3) from \"update\"",
        "with x as (select 1) select * from x",
        "values (1)",
        "table t",
        "begin",
        "begin read only",
        "start transaction isolation level repeatable read, read only",
        "commit",
        "rollback to savepoint a",
        "savepoint a",
        "set search_path to a",
        "set transaction isolation level serializable",
        "set default_transaction_read_only = on",
        "reset all",
        "discard all",
        "set session authorization joe",
        "show default_transaction_read_only",
        "select set_config('work_mem', '1MB', false)",
        "explain delete from t",
        "explain verbose insert into t values (1)",
        "explain (analyze, buffers) select 1",
        "copy t to stdout",
        "copy (select 1) to stdout",
        "declare c cursor with hold for select 1",
        "fetch 10 from c",
        "prepare x as select 1",
        "execute x",
        "call f()",
        "do $$ begin perform 1; end $$",
        "lock t in access share mode",
        "listen a",
        "select pg_advisory_xact_lock(1)",
        "select lo_get(1)",
        "select t.insert, \"delete\" from t",
    ] {
        assert_eq!(rule(true, sql), None, "{sql}");
    }
}

#[test]
fn a_setting_may_be_a_parameter() {
    let mut played = RulesUnderTest::new(true, &[]);
    let mut item = played.item(0, "select set_config($1, $2, false)");
    item.parameters = ["default_transaction_READ_ONLY", "off"].map(|v| Some(v.into())).to_vec();
    assert_eq!(played.rules.rule(&item, &mut played.objects).skipped, Some(Skipped::Writes));
    item.parameters = ["work_mem", "1MB"].map(|value| Some(value.into())).to_vec();
    assert_eq!(played.rules.rule(&item, &mut played.objects).skipped, None);
}

#[test]
fn temporary_objects_may_be_changed() {
    let mut played = RulesUnderTest::new(false, &[]);
    for sql in [
        "create temp table t (a int)",
        "create index i on t (a)",
        "alter table t add b int",
        "truncate table only t",
        "drop table if exists t",
    ] {
        assert_eq!(played.plays(0, sql), None, "{sql}");
    }
    // It is gone: the next of that name is another.
    assert_eq!(played.plays(0, "drop table t"), refused(UnsafeOperation::Ddl));
    assert_eq!(played.plays(0, "create temp table T (a int)"), None);
    for sql in [
        "drop table public.t",
        "drop table t, s",
        "truncate s, t",
        "drop table \"T\"",
        "alter table t rename to s",
        "create index i on s (a)",
        "drop index i",
        "drop schema t",
    ] {
        assert_eq!(played.plays(0, sql), refused(UnsafeOperation::Ddl), "{sql}");
    }
    assert_eq!(played.plays(0, "drop table pg_temp.t"), None);
    played.plays(0, "select 1 as a into temp u");
    assert_eq!(played.plays(0, "discard temp"), None);
    assert_eq!(played.plays(0, "drop table u"), refused(UnsafeOperation::Ddl));
}

/// A name is a temporary table's only as long as that is certain: else another table would be
/// dropped.
#[test]
fn objects_that_may_no_longer_be_temporary_are_refused() {
    let drop = refused(UnsafeOperation::Ddl);
    let mut rolled_back = RulesUnderTest::new(false, &[]);
    rolled_back.plays(1, "begin");
    rolled_back.plays(1, "create temp table t (a int)");
    rolled_back.plays(1, "rollback");
    assert_eq!(rolled_back.plays(0, "drop table t"), drop);
    let mut until_end = RulesUnderTest::new(false, &[]);
    until_end.plays(1, "begin");
    until_end.plays(1, "create temp table t (a int) on commit drop");
    assert_eq!(until_end.plays(1, "truncate t"), None);
    until_end.plays(1, "commit");
    assert_eq!(until_end.plays(0, "truncate t"), drop);
    let mut failed = RulesUnderTest::new(false, &[]);
    failed.answered(0, "create temp table t (a int)", TransactionStatus::Idle, true);
    assert_eq!(failed.after_error(0, "drop table t"), drop);
    assert_eq!(failed.plays(0, "drop table t"), None);
    let mut perhaps = RulesUnderTest::new(false, &[]);
    perhaps.plays(0, "do $$ begin if false then create temp table t (a int); end if; end $$");
    assert_eq!(perhaps.plays(0, "drop table t"), drop);
    let mut kept = RulesUnderTest::new(false, &[]);
    kept.plays(1, "begin; create temp table t (a int)");
    kept.plays(1, "commit");
    assert_eq!(kept.plays(0, "drop table t"), None);
}

#[test]
fn statements_that_depend_on_skipped_ones_are_skipped() {
    let (writes, dependent) = (Some(Skipped::Writes), Some(Skipped::Dependent));
    let mut played = RulesUnderTest::new(true, &[]);
    for (transaction, sql, why) in [
        (1, "begin", None),
        (1, "declare c cursor for select * from t for update", writes),
        (1, "fetch next from c", dependent),
        (1, "select 1", None),
        (1, "delete from t where current of c", writes),
        (1, "close c", dependent),
        (1, "commit", None),
        (2, "begin", None),
        (2, "declare c cursor for select 1", None),
        (2, "fetch all in c", None),
        (2, "rollback", None),
        (0, "prepare p as delete from t", writes),
        (0, "execute p", dependent),
        (0, "explain execute p", dependent),
        (0, "deallocate p", dependent),
        (0, "prepare p as select 1", None),
        (0, "execute p", None),
        (0, "create temp table own (a int)", writes),
        (0, "select * from own", dependent),
        (0, "select t.own from t", None),
        (0, "drop table own", refused(UnsafeOperation::Ddl)),
        (0, "select currval('s')", dependent),
        (3, "begin read write", writes),
        (3, "select 1", dependent),
        (3, "commit", dependent),
        (4, "begin", None),
        (4, "select 1", None),
        (4, "commit", None),
    ] {
        assert_eq!(played.plays(transaction, sql), why, "{sql}");
    }
}

/// The quick look may only let pass what the thorough one does.
#[test]
fn quick_check_agrees_with_the_full_analysis() {
    for sql in [
        "select 1",
        "insert into \"t\" (\"a\") values ($1) returning \"id\"",
        "update t set a = 1 where b = 'x';",
        "begin",
        "set search_path to a",
    ] {
        assert!(is_plain(sql.as_bytes()), "{sql}");
    }
    for sql in [
        "select \"pg_notify\"('a')",
        "select U&\"a\\0062\"()",
        "select 1; select 2",
        "select 1 into t",
        "with x as (select 1) insert into t select 1",
        "do $$ $$",
        "select pg_sleep(1)",
        "explain select 1",
    ] {
        assert!(!is_plain(sql.as_bytes()), "{sql}");
    }
}

#[test]
fn nesting_of_commands_is_bounded() {
    let nested = "explain analyze ".repeat(100_000) + "select 1";
    assert_eq!(rule(false, &nested), refused(UnsafeOperation::Server));
    let mut text = "select 1".to_owned();
    for level in 0..40 {
        text = format!("do $l{level}$ begin execute $t{level}$ {text} $t{level}$; end $l{level}$");
    }
    assert_eq!(rule(false, &text), refused(UnsafeOperation::Server));
}

mod any_text {
    use super::*;

    proptest! {
        /// No text, however cut or malformed, ends in a panic; a plain one is never refused.
        #[test]
        fn is_judged(
            words in proptest::collection::vec(
                prop::sample::select(vec![
                    "create", "temp", "table", "drop", "do", "$$", "'", "(", ")", ",", ".", ";",
                    "explain", "analyze", "prepare", "as", "copy", "from", "program", "select",
                    "into", "t", "\"t\"", "dblink", "begin", "end", "set", "transaction", "read",
                    "write", "for", "update", "execute", "rollback", "to", "U&\"\\0\"", "on",
                    "index", "declare", "fetch", "close", "alter", "truncate", "discard", "all",
                ]),
                0..30,
            ),
            read_only: bool,
        ) {
            let sql = words.join(" ");
            let mut thorough = RulesUnderTest::new(read_only, &[]);
            let item = thorough.item(1, &sql);
            let why = thorough.rules.rule(&item, &mut thorough.objects).skipped;
            if is_plain(sql.as_bytes()) && !read_only {
                let objects = SessionObjects::default();
                let mut analysis = StatementAnalysis::new(&objects, &item);
                analysis.text(&item.sql);
                let found = analysis.finish();
                let nothing = (None, UnsafeOperations::default());
                prop_assert_eq!((why, found.operations), nothing, "{}", sql);
            }
            // A second time, with whatever it remembers.
            thorough.rules.rule(&item, &mut thorough.objects);
        }
    }
}

/// Texts with all that may matter in them, and with what looks like it.
fn text_with_words() -> impl Strategy<Value = String> {
    let words = [
        "pg_read_file",
        "PG_notify",
        "pg",
        "lo_export",
        "lo",
        "dblink",
        "dblin",
        "k",
        "ts_stat",
        "crosstab2",
        "connectby",
        "query_to_xml",
        "xpath_table",
        "into",
        "INTO",
        "int",
        "o",
        "a",
        "_",
        "x",
        "e5",
        "0x1",
        "7",
        "'",
        "\"",
        "U&\"",
        "&",
        "$1",
        "$a$",
        ";",
        "--",
        "/*",
        "*/",
        "\n",
        " ",
        " ",
        " ",
        "(",
        ")",
        ",",
        "=",
        "::",
        "é",
    ];
    let piece = proptest::sample::select(words.to_vec());
    let first = proptest::sample::select(PLAIN.to_vec());
    (first, proptest::collection::vec(piece, 0..12))
        .prop_map(|(first, pieces)| format!("{first:?}{}", pieces.concat()))
}

proptest! {
    /// The quick look lets nothing pass that the tokens would not.
    #[test]
    fn bare_texts_are_plain(text in text_with_words(), any in crate::sql_like::sql_like()) {
        prop_assert!(!is_bare(text.as_bytes()) || is_plain(text.as_bytes()), "{text}");
        prop_assert!(!is_bare(&any) || is_plain(&any));
    }
}

/// What drivers and pgbench send costs the quick look only.
#[test]
fn usual_statements_are_bare() {
    for sql in [
        "SELECT abalance FROM pgbench_accounts WHERE aid = 12;",
        "UPDATE pgbench_tellers SET tbalance = tbalance + -3 WHERE tid = 2",
        "INSERT INTO \"History\" (\"tid\", mtime) VALUES ($1, CURRENT_TIMESTAMP) RETURNING id",
        " BEGIN ; ",
        "end",
    ] {
        assert!(is_bare(sql.as_bytes()) && is_plain(sql.as_bytes()), "{sql}");
    }
    for sql in [
        "select 1; drop table t",
        "select * into t2 from t",
        "select PG_READ_FILE('x')",
        "select1",
        "endx",
        "vacuum",
        "",
    ] {
        assert!(!is_bare(sql.as_bytes()), "{sql}");
    }
}
