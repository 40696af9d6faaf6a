//! Records of a session, put together to statements.

use super::*;

/// A plain log: each line is (ms after noon, process, what it says).
fn log(lines: &[(u32, u32, &str)]) -> String {
    let line = |&(ms, pid, kind): &(u32, u32, &str)| {
        let (s, ms) = (ms / 1_000, ms % 1_000);
        format!("2026-11-21 12:00:{s:02}.{ms:03} UTC [{pid}] u@d 00000 {kind}\n")
    };
    lines.iter().map(line).collect()
}

const NOON_US: i64 = 1_795_262_400_000_000;

/// Session, start in us after noon, duration in us, and text of a statement.
type ReportedStatement = (u32, i64, Option<u64>, String);

fn rows_of(lines: &[(u32, u32, &str)]) -> (Vec<ReportedStatement>, RecordCounts) {
    let (statements, counted) = statements(&log(lines));
    let rows = statements
        .iter()
        .map(|one| (one.session, one.start_us - NOON_US, one.duration_us, one.sql()));
    (rows.collect(), counted)
}

#[test]
fn parse_bind_and_execution_are_one() {
    let (rows, counted) = rows_of(&[
        (10, 7, "LOG:  duration: 1.000 ms  parse P_1: select $1"),
        (12, 7, "LOG:  duration: 0.500 ms  bind P_1: select $1"),
        (12, 7, "DETAIL:  parameters: $1 = '1'"),
        (14, 7, "LOG:  duration: 2.000 ms  execute P_1: select $1"),
        (14, 7, "DETAIL:  parameters: $1 = '1'"),
        // The second time it is only bound and executed.
        (30, 7, "LOG:  duration: 0.500 ms  bind P_1: select $1"),
        (30, 7, "DETAIL:  parameters: $1 = '2'"),
        (31, 7, "LOG:  duration: 0.400 ms  execute P_1: select $1"),
        (31, 7, "DETAIL:  parameters: $1 = '2'"),
    ]);
    let text = || "select $1".to_owned();
    assert_eq!(rows, [(0, 9_000, Some(3_500), text()), (0, 29_500, Some(900), text())]);
    assert_eq!((counted.records, counted.statements, counted.joined), (5, 2, 3));
}

#[test]
fn what_was_prepared_long_before_does_not_count_as_its_time() {
    let (rows, counted) = rows_of(&[
        (10, 7, "LOG:  duration: 1.000 ms  parse P_1: select 1"),
        (900, 7, "LOG:  duration: 0.500 ms  bind P_1: select 1"),
        (901, 7, "LOG:  duration: 0.500 ms  execute P_1: select 1"),
    ]);
    assert_eq!(rows, [(0, 899_500, Some(1_000), "select 1".to_owned())]);
    assert_eq!(counted.joined, 2);
}

/// Of each statement, how many were reported since its beginning was.
fn reported_meanwhile(lines: &[(u32, u32, &str)]) -> Vec<(u32, Option<u64>)> {
    let statements = statements(&log(lines)).0;
    statements.iter().map(|one| (one.session, one.reported_meanwhile)).collect()
}

#[test]
fn what_was_reported_between_a_beginning_and_an_end_is_counted() {
    let both = [
        (0, 7, "LOG:  statement: insert 1"),
        (0, 8, "LOG:  statement: insert 2"),
        (1, 8, "LOG:  duration: 1.000 ms"),
        (2, 8, "LOG:  statement: insert 3"),
        (3, 9, "LOG:  execute P_1: insert 4"),
        (3, 7, "LOG:  duration: 3.000 ms"),
        (4, 8, "ERROR:  no"),
        (4, 8, "STATEMENT:  insert 3"),
        (5, 9, "LOG:  duration: 2.000 ms"),
    ];
    // Sessions in the order in which they are reported: 8, 7, 9.
    let expected = [(0, Some(0)), (1, Some(1)), (0, Some(1)), (2, Some(2))];
    assert_eq!(reported_meanwhile(&both), expected);
    // Without ends each is reported with the next one of its session, or when the log ends.
    let begun: Vec<_> =
        both.iter().copied().filter(|(.., kind)| !kind.contains("duration")).collect();
    let expected = [(0, Some(0)), (0, Some(0)), (1, Some(2)), (2, Some(2))];
    assert_eq!(reported_meanwhile(&begun), expected);
    let ended = [(1, 7, "LOG:  duration: 1.000 ms  statement: insert 1")];
    assert_eq!(reported_meanwhile(&ended), [(0, None)]);
}

#[test]
fn a_duration_alone_is_that_of_the_statement_before() {
    let (rows, counted) = rows_of(&[
        (0, 7, "LOG:  statement: select 1"),
        (1, 8, "LOG:  statement: select 2"),
        (5, 7, "LOG:  duration: 4.900 ms"),
        (6, 7, "LOG:  statement: select 3"),
        (7, 8, "LOG:  duration: 5.000 ms"),
    ]);
    // Each when it is known, so the last is that of which no duration came.
    assert_eq!(
        rows,
        [
            (0, 0, Some(4_900), "select 1".to_owned()),
            (1, 1_000, Some(5_000), "select 2".to_owned()),
            (0, 6_000, None, "select 3".to_owned()),
        ]
    );
    assert_eq!((counted.statements, counted.joined, counted.others), (3, 2, 0));
}

#[test]
fn durations_of_what_was_not_logged_count_for_no_other_statement() {
    // `log_statement = mod` with `log_duration`: a SELECT with three durations and no other record.
    let (rows, counted) = rows_of(&[
        (10, 7, "LOG:  duration: 3.000 ms"),
        (11, 7, "LOG:  duration: 0.500 ms"),
        (13, 7, "LOG:  duration: 2.000 ms"),
        (14, 7, "LOG:  duration: 0.100 ms"),
        (14, 7, "LOG:  duration: 0.100 ms"),
        (15, 7, "LOG:  execute <unnamed>: insert into t values ($1)"),
        (15, 7, "DETAIL:  parameters: $1 = '1'"),
        (16, 7, "LOG:  duration: 0.900 ms"),
    ]);
    assert_eq!(rows, [(0, 15_000, Some(900), "insert into t values ($1)".to_owned())]);
    assert_eq!((counted.joined, counted.others), (1, 5));
}

#[test]
fn what_a_function_says_is_no_statement() {
    let context = "CONTEXT:  PL/pgSQL function f() line 1 at RAISE";
    let (rows, counted) = rows_of(&[
        (0, 7, "LOG:  statement: select f()"),
        (1, 7, "LOG:  statement: drop table t"),
        (1, 7, context),
        (1, 7, "STATEMENT:  select f()"),
        (2, 7, "LOG:  duration: 99.000 ms  statement: drop table t"),
        (2, 7, context),
        (3, 7, "LOG:  duration: 99.000 ms"),
        (3, 7, "STATEMENT:  select f()"),
        (4, 7, "LOG:  duration: 4.000 ms"),
    ]);
    assert_eq!(rows, [(0, 0, Some(4_000), "select f()".to_owned())]);
    assert_eq!((counted.statements, counted.joined, counted.others), (1, 1, 3));
}

#[test]
fn names_may_have_what_ends_them() {
    let (statements, _) = statements(&log(&[
        (0, 7, "LOG:  execute by id: all/C: 1: select 1"),
        (1, 7, "LOG:  execute S_1: select 'a: select'"),
        (2, 7, "LOG:  execute S_1: unheard of: words"),
    ]));
    let texts: Vec<_> = statements.iter().map(|one| (one.prepared.as_str(), one.sql())).collect();
    assert_eq!(
        texts,
        [
            ("by id: all", "select 1".to_owned()),
            ("S_1", "select 'a: select'".to_owned()),
            ("S_1", "unheard of: words".to_owned()),
        ]
    );
}

#[test]
fn durations_of_nothing_are_others() {
    let (rows, counted) = rows_of(&[
        (5, 7, "LOG:  duration: 4.900 ms"),
        (6, 7, "LOG:  duration: 0.900 ms"),
        (7, 7, "LOG:  statement: select 1"),
        (8, 8, "LOG:  duration: 0.900 ms"),
    ]);
    assert_eq!(rows.len(), 1);
    assert_eq!((counted.records, counted.statements, counted.joined, counted.others), (4, 1, 0, 3));
}

#[test]
fn errors_belong_to_the_statement_that_they_name() {
    let (statements, counted) = statements(&log(&[
        (0, 7, "LOG:  statement: select 1"),
        (1, 7, "LOG:  statement: select 1/0"),
        (2, 7, "ERROR:  division by zero"),
        (2, 7, "STATEMENT:  select 1/0"),
        (3, 7, "ERROR:  syntax error"),
        (3, 7, "STATEMENT:  selct 1"),
        (4, 7, "ERROR:  no statement is reported"),
        (5, 7, "FATAL:  terminating connection due to administrator command"),
        (6, 9, "ERROR:  of no session that is known"),
    ]));
    let texts: Vec<_> = statements.iter().map(|one| (one.sql(), one.error.clone())).collect();
    // With %e the code would be known; in these lines it is that of a success.
    let unknown = Some("?????".to_owned());
    assert_eq!(
        texts,
        [
            ("select 1".to_owned(), None),
            ("select 1/0".to_owned(), unknown.clone()),
            ("selct 1".to_owned(), unknown),
        ]
    );
    assert_eq!((counted.statements, counted.joined, counted.others), (3, 1, 3));
}

#[test]
fn sessions_that_the_server_ended_between_statements_are_noted() {
    let is_noted = |code: &str, statement: &str| {
        let line =
            |code: &str, kind: &str| format!("2026-11-21 12:00:00.000 UTC [7] u@d {code} {kind}\n");
        let log = line("00000", "LOG:  statement: select 1")
            + &line(code, "FATAL:  terminating connection due to administrator command")
            + &(if statement.is_empty() { String::new() } else { line(code, statement) });
        let (_, reading) = Logs::one(&log).prefix("%m [%p] %q%u@%d %e ").read();
        reading.notes.iter().any(|note| note.contains("the server ended"))
    };
    assert!(is_noted("57P01", ""));
    // The statement that it ran is in the log, or the session ended by itself.
    assert!(!is_noted("57P01", "STATEMENT:  select 1"));
    assert!(!is_noted("08006", ""));
}

#[test]
fn an_error_in_an_execution_has_the_parameters_of_its_bind() {
    let (statements, _) = statements(&log(&[
        (0, 7, "LOG:  duration: 0.100 ms  bind S_1: select 1 / $1"),
        (0, 7, "DETAIL:  parameters: $1 = '0'"),
        (1, 7, "ERROR:  division by zero"),
        (1, 7, "STATEMENT:  select 1 / $1"),
        // The parameters of this one are in CONTEXT only.
        (2, 7, "ERROR:  division by zero"),
        (2, 7, "CONTEXT:  unnamed portal with parameters: $1 = '00'"),
        (2, 7, "STATEMENT:  select 2 / $1"),
    ]));
    let bound: Vec<_> = statements
        .iter()
        .map(|one| (one.prepared.as_str(), one.parameters[0].clone().unwrap(), one.skip))
        .collect();
    assert_eq!(bound, [("S_1", b"0".to_vec(), None), ("", b"00".to_vec(), None)]);
}

#[test]
fn verbose_logs_hold_the_codes() {
    let (statements, counted) = statements(&log(&[
        (0, 7, "LOG:  00000: statement: select 1/0"),
        (0, 7, "LOCATION:  exec_simple_query, postgres.c:1035"),
        (1, 7, "ERROR:  22012: division by zero"),
        (1, 7, "LOCATION:  int4div, int.c:869"),
        (1, 7, "STATEMENT:  select 1/0"),
    ]));
    assert_eq!(
        (statements[0].sql(), statements[0].error.as_deref()),
        ("select 1/0".to_owned(), Some("22012"))
    );
    assert_eq!(counted.joined, 1);
}

#[test]
fn a_process_number_that_is_used_again_is_another_session() {
    let (statements, _) = statements(&log(&[
        (0, 7, "LOG:  statement: select 1"),
        (1, 7, "LOG:  connection received: host=[local]"),
        (2, 7, "LOG:  connection authorized: user=u database=d"),
        (3, 7, "LOG:  statement: select 2"),
        (4, 7, "LOG:  disconnection: session time: 0:00:00.003 user=u database=d host=[local]"),
        (5, 7, "LOG:  statement: select 3"),
    ]));
    assert_eq!(statements.iter().map(|one| one.session).collect::<Vec<_>>(), [0, 1, 2]);

    let line = |user: &str, number: u32| {
        format!("2026-11-21 12:00:00.000 UTC [7] {user}@d {number} LOG:  statement: select 1\n")
    };
    let lines = [line("u", 5), line("u", 6), line("v", 7), line("v", 2), line("v", 3)];
    let (kept, _) = Logs::one(lines.concat()).prefix("%m [%p] %u@%d %l ").read();
    let sessions: Vec<u32> = kept.statements.iter().map(|one| one.session).collect();
    assert_eq!(sessions, [0, 0, 1, 2, 2]);
}

#[test]
fn a_connection_record_names_user_and_database() {
    let text = "2026-11-21 12:00:00.000 UTC [7] LOG:  connection received: host=10.0.0.1 port=5\n\
                2026-11-21 12:00:00.500 UTC [7] LOG:  connection authorized: user=bob \
                database=shop application_name=my app SSL enabled (protocol=TLSv1.3, bits=256)\n\
                2026-11-21 12:00:01.000 UTC [7] LOG:  disconnection: session time: 0:00:01.000 \
                user=bob database=shop host=10.0.0.1 port=5\n";
    let (kept, reading) = Logs::one(text).prefix("%m [%p] ").read();
    assert_eq!(
        kept.sessions,
        [Session {
            name: b"7".to_vec(),
            user: b"bob".to_vec(),
            database: b"shop".to_vec(),
            application: b"my app".to_vec(),
            connected_us: Some(NOON_US),
            disconnected_us: Some(NOON_US + 1_000_000),
        }]
    );
    assert_eq!((reading.counted.sessions, reading.sessions, reading.span), (3, 1, None));
}

#[test]
fn what_cannot_be_sent_again_is_reported() {
    let (statements, counted) = statements(&log(&[
        (0, 7, "LOG:  execute fetch from S_1/C_1: select 1"),
        (1, 7, "LOG:  execute S_1/C_1: select 1"),
        (2, 7, "LOG:  execute fetch from S_1/C_1: select 1"),
        (3, 7, "LOG:  execute <unnamed>: select $1"),
        (4, 7, "LOG:  execute <unnamed>: select $1"),
        (4, 7, "DETAIL:  Parameters: $1 = 'abc...'"),
        (5, 7, "LOG:  statement: begin; copy t from stdin; commit"),
        (6, 7, "LOG:  fastpath function call: \"lo_open\" (OID 952)"),
        (7, 7, "LOG:  statement: select 'whole'"),
    ]));
    let skips: Vec<_> = statements.iter().map(|one| one.skip).collect();
    assert_eq!(
        skips,
        [
            Some(Skip::UnknownPortal),
            None,
            None,
            Some(Skip::BinaryParameters),
            Some(Skip::CutOff),
            Some(Skip::CopyData),
            Some(Skip::FastPath),
            None,
        ]
    );
    assert_eq!((counted.executable, counted.skipped), (3, [1, 1, 1, 1, 1, 0, 0, 0, 0]));
}

#[test]
fn background_processes_send_no_statements() {
    let csv = "2026-11-21 12:00:00.000 UTC,\"u\",\"d\",7,,6b01e826.7,1,\"SELECT\",\
               2026-11-21 12:00:00 UTC,3/1,0,ERROR,22012,\"division by zero\",,,,,\
               \"parallel worker\",\"select 1/0\",,,\"psql\",\"parallel worker\",6,0\n";
    let (kept, reading) = Logs::one(csv).read();
    assert_eq!((kept.statements.len(), reading.counted.others), (0, 1));
}

/// A sink that only counts sessions.
#[derive(Default)]
struct SessionCounter(u32);

impl Sink for SessionCounter {
    type Error = &'static str;

    fn session(&mut self, _: &Session) -> Result<(), &'static str> {
        self.0 += 1;
        Ok(())
    }

    fn session_changed(&mut self, _: SessionId, _: &Session) -> Result<(), &'static str> {
        Ok(())
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), &'static str> {
        if statement.sql == b"stop" { Err("full") } else { Ok(()) }
    }
}

#[test]
fn sessions_that_never_end_are_forgotten_in_time() {
    let line = |pid: u32| format!("[{pid}] LOG:  statement: select 1\n");
    let log: String = (0..40_000).map(line).collect();
    let logs = Logs::one(log).prefix("[%p] ");
    let mut counting = SessionCounter::default();
    let reading = read(&logs.wanted, &mut counting).unwrap();
    assert_eq!(
        (counting.0, reading.sessions, reading.counted.statements),
        (40_000, 40_000, 40_000)
    );
    assert!(reading.notes.iter().any(|note| note.contains("taken to have ended")));
}

#[test]
fn a_sink_that_gives_up_ends_the_reading() {
    let log = format!("[7] LOG:  statement: stop\n{}", "[7] LOG:  statement: x\n".repeat(50_000));
    for workers in [1, 3] {
        let mut logs = Logs::one(&log).prefix("[%p] ");
        logs.wanted.workers = workers;
        let error =
            read_in_blocks(&logs.wanted, 1_000, &mut SessionCounter::default()).unwrap_err();
        assert!(matches!(error, ReadError::Sink("full")));
    }
}
