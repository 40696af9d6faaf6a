//! A split keeps every statement, every transaction whole, and every conflict's order.

mod timed;

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;

use proptest::prelude::*;
use seatrial_trace::captured::{Protocol, Session, SessionId, Sink, Statement};

use super::{STATEMENT_US, StreamSplitter, Streams};

#[derive(Debug, Clone, PartialEq, Eq)]
struct SentStatement {
    stream: u32,
    start: u64,
    transaction: u64,
    sql: String,
}

#[derive(Debug, Default)]
struct RecordedSink {
    sessions: Vec<Session>,
    sent: Vec<SentStatement>,
}

impl Sink for RecordedSink {
    type Error = Infallible;

    fn session(&mut self, session: &Session) -> Result<(), Infallible> {
        self.sessions.push(session.clone());
        Ok(())
    }

    fn session_changed(&mut self, _: SessionId, _: &Session) -> Result<(), Infallible> {
        Ok(())
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), Infallible> {
        self.sent.push(SentStatement {
            stream: statement.session.0,
            start: statement.start_us as u64 / STATEMENT_US,
            transaction: statement.transaction,
            sql: String::from_utf8_lossy(statement.sql).into_owned(),
        });
        Ok(())
    }
}

fn statement(sql: &str, transaction: u64) -> Statement<'_> {
    Statement {
        session: SessionId(0),
        start_us: 0,
        duration_us: None,
        parameter_types: None,
        reported_meanwhile: None,
        protocol: Protocol::Simple,
        prepared: b"",
        sql: sql.as_bytes(),
        parameters: &[],
        transaction,
        rows: None,
        tag: None,
        returned: None,
        error: None,
        skip: None,
    }
}

/// Splits statements with the number of each one's transaction, 0 for none.
fn split_numbered(statements: &[(&str, u64)], streams: usize) -> (RecordedSink, Streams) {
    let mut kept = RecordedSink::default();
    let mut split = StreamSplitter::new(&mut kept, streams, false);
    let session = Session { user: b"me".to_vec(), ..Session::default() };
    let Ok(()) = split.session(&session);
    for (sql, transaction) in statements {
        let Ok(()) = split.statement(&statement(sql, *transaction));
    }
    let Ok(report) = split.finish();
    (kept, report)
}

fn split(statements: &[&str], streams: usize) -> (RecordedSink, Streams) {
    let numbered: Vec<_> = statements.iter().map(|sql| (*sql, 0)).collect();
    split_numbered(&numbered, streams)
}

fn places(kept: &RecordedSink) -> Vec<(u32, u64)> {
    kept.sent.iter().map(|sent| (sent.stream, sent.start)).collect()
}

#[test]
fn statements_that_only_read_run_side_by_side() {
    let (kept, report) = split(&["SELECT * FROM a"; 8], 4);
    assert_eq!(report.streams, 4);
    assert_eq!(report.steps, Some(2));
    assert_eq!(places(&kept)[..5], [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)]);
    let names: Vec<_> = kept.sessions.iter().map(|each| each.name.clone()).collect();
    assert_eq!(names, [b"stream 1", b"stream 2", b"stream 3", b"stream 4"]);
    assert!(kept.sessions.iter().all(|each| each.user == b"me"));
}

#[test]
fn one_stream_is_the_file_itself() {
    let statements = ["UPDATE a SET x = 1", "SELECT 1", "DROP TABLE b", "COMMIT"];
    let (kept, report) = split(&statements, 1);
    assert_eq!(places(&kept), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    assert_eq!((report.streams, report.steps), (1, Some(4)));
}

#[test]
fn a_write_waits_for_reads_and_reads_wait_for_it() {
    let statements =
        ["SELECT 1 FROM a", "SELECT 2 FROM a", "UPDATE a SET x = 1", "SELECT 3 FROM a"];
    let (kept, _) = split(&statements, 4);
    let starts: Vec<_> = kept.sent.iter().map(|sent| sent.start).collect();
    assert_eq!(starts, [0, 0, 1, 2]);
}

#[test]
fn what_touches_other_tables_goes_on_with_it() {
    let statements =
        ["UPDATE a SET x = 1", "UPDATE b SET x = 1", "DELETE FROM a", "INSERT INTO b VALUES (1)"];
    let (kept, report) = split(&statements, 2);
    assert_eq!(report.steps, Some(2));
    let starts: Vec<_> = kept.sent.iter().map(|sent| sent.start).collect();
    assert_eq!(starts, [0, 0, 1, 1]);
}

#[test]
fn a_transaction_stays_whole_and_is_numbered_anew() {
    let block =
        |table: &'static str, number: u64| [("BEGIN", number), (table, number), ("COMMIT", number)];
    let both = [block("UPDATE a SET x = 1", 1), block("UPDATE b SET x = 1", 2)].concat();
    let (kept, report) = split_numbered(&both, 2);
    assert_eq!(report.transactions, 2);
    assert_eq!(report.steps, Some(3));
    for stream in [0, 1] {
        let own: Vec<_> = kept.sent.iter().filter(|sent| sent.stream == stream).collect();
        assert_eq!(own.len(), 3);
        assert!(own.iter().all(|sent| sent.transaction == 1));
    }
}

#[test]
fn a_transaction_waits_as_a_whole() {
    let statements =
        [("UPDATE a SET x = 1", 0), ("BEGIN", 1), ("SELECT 1", 1), ("DELETE FROM a", 1)];
    let (kept, _) = split_numbered(&statements, 2);
    let starts: Vec<_> = kept.sent.iter().map(|sent| sent.start).collect();
    assert_eq!(starts, [0, 1, 2, 3]);
}

#[test]
fn what_is_not_understood_runs_alone() {
    let statements =
        ["SELECT 1 FROM a", "SELECT 2 FROM b", "ALTER TABLE c ADD d int", "SELECT 3 FROM a"];
    let (kept, report) = split(&statements, 4);
    assert_eq!(report.alone, 1);
    let starts: Vec<_> = kept.sent.iter().map(|sent| sent.start).collect();
    assert_eq!(starts, [0, 0, 1, 2]);
}

#[test]
fn what_is_of_a_session_stays_in_the_first_stream() {
    let statements = [
        "SELECT 1",
        "CREATE TEMPORARY TABLE IF NOT EXISTS t AS SELECT 1",
        "SELECT 2",
        "SELECT * FROM t",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "SET work_mem = '1MB'",
        "SELECT pg_advisory_lock(1)",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
        "FETCH 1 FROM c",
    ];
    let (kept, report) = split(&statements, 3);
    let own: Vec<_> =
        kept.sent.iter().filter(|sent| sent.stream == 0).map(|s| &s.sql[..]).collect();
    let must: HashSet<_> =
        statements.iter().enumerate().filter(|(n, _)| ![0, 2].contains(n)).collect();
    for (_, sql) in must {
        assert!(own.contains(sql), "{sql}");
    }
    assert_eq!(report.pinned, 8);
}

#[test]
fn a_transaction_too_long_to_hold_conflicts_with_all() {
    let long = format!("SELECT '{}'", "x".repeat(super::BUFFERED_BYTES_MAX));
    let statements = [
        ("SELECT 1", 0),
        ("BEGIN", 1),
        (&long, 1),
        ("SELECT 2", 1),
        ("COMMIT", 1),
        ("SELECT 3", 0),
    ];
    let (kept, report) = split_numbered(&statements, 3);
    assert_eq!(kept.sent.len(), 6);
    assert_eq!((report.alone, report.transactions), (1, 3));
    let starts: Vec<_> = kept.sent.iter().map(|sent| sent.start).collect();
    assert_eq!(starts, [0, 1, 2, 3, 4, 5]);
}

/// Transactions of one to three statements over three tables, read or written.
fn transactions() -> impl Strategy<Value = Vec<Vec<String>>> {
    let one = (0..3_usize, any::<bool>()).prop_map(|(table, writes)| match writes {
        true => format!("UPDATE t{table} SET x = 1"),
        false => format!("SELECT x FROM t{table}"),
    });
    prop::collection::vec(prop::collection::vec(one, 1..4), 0..40)
}

proptest! {
    #[test]
    fn conflicts_never_overlap(transactions in transactions(), streams in 1_usize..6) {
        let numbered: Vec<(&str, u64)> = transactions
            .iter()
            .zip(1..)
            .flat_map(|(each, number)| each.iter().map(move |sql| (&sql[..], number)))
            .collect();
        let (kept, report) = split_numbered(&numbered, streams);
        prop_assert!(report.steps <= Some(numbered.len() as u64));
        let texts: Vec<_> = kept.sent.iter().map(|sent| &sent.sql[..]).collect();
        let given: Vec<_> = numbered.iter().map(|(sql, _)| *sql).collect();
        prop_assert_eq!(texts, given, "the order of the log is kept");
        check_times(&kept.sent, &transactions);
    }
}

/// Within a stream nothing overlaps; across streams no two that conflict do, in the log's order.
fn check_times(sent: &[SentStatement], transactions: &[Vec<String>]) {
    let mut free: BTreeMap<u32, u64> = BTreeMap::new();
    let mut spans = Vec::new();
    let mut rest = sent;
    for each in transactions {
        let (own, others) = rest.split_at(each.len());
        rest = others;
        assert!(own.iter().all(|one| one.stream == own[0].stream), "one stream");
        assert!(own.windows(2).all(|two| two[1].start == two[0].start + 1), "in a row");
        let end = own[own.len() - 1].start + 1;
        let freed = free.insert(own[0].stream, end).unwrap_or(0);
        assert!(freed <= own[0].start, "streams do one thing at a time");
        spans.push((own[0].start, end, each));
    }
    for (placement_for, (start, _, own)) in spans.iter().enumerate() {
        for (_, end, earlier) in &spans[..placement_for] {
            assert!(end <= start || !conflict(own, earlier), "{earlier:?} before {own:?}");
        }
    }
}

fn conflict(a: &[String], b: &[String]) -> bool {
    let table = |sql: &String| sql.split(' ').find(|word| word.starts_with('t')).map(str::to_owned);
    a.iter().any(|one| {
        b.iter().any(|other| {
            table(one) == table(other) && (one.starts_with("UPDATE") || other.starts_with("UPDATE"))
        })
    })
}
