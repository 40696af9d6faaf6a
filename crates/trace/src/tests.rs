//! Tests of the trace: what goes in comes out, byte for byte, and it is small.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use seatrial_sqltext::lexer::fingerprint;
use serde_json::json;
use tempfile::TempDir;

use super::schema::{self, ROWS_MAX, TEXT_BYTES_MAX};
use super::*;
use crate::captured::{Protocol, Returned, Session, SessionId, Sink, Skip, Statement};
use crate::mask::Mask;
use crate::sql_like::sql_like;

/// A statement that owns what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Owned {
    pub session: u32,
    pub start_us: i64,
    pub duration_us: Option<u64>,
    pub reported_meanwhile: Option<u64>,
    pub protocol: Protocol,
    pub prepared: Vec<u8>,
    pub sql: Vec<u8>,
    pub parameters: Vec<Option<Vec<u8>>>,
    pub parameter_types: Option<Vec<u8>>,
    pub transaction: u64,
    pub rows: Option<u64>,
    pub tag: Option<Vec<u8>>,
    pub returned: Option<Returned>,
    pub error: Option<[u8; 5]>,
    pub skip: Option<Skip>,
}

impl Owned {
    /// A statement of 100 us.
    pub fn new(session: u32, start_us: i64, sql: &str) -> Owned {
        Owned {
            session,
            start_us,
            duration_us: Some(100),
            reported_meanwhile: None,
            protocol: Protocol::Simple,
            prepared: Vec::new(),
            sql: sql.as_bytes().to_vec(),
            parameters: Vec::new(),
            parameter_types: None,
            transaction: 0,
            rows: None,
            tag: None,
            returned: None,
            error: None,
            skip: None,
        }
    }

    pub fn lend(&self) -> Statement<'_> {
        Statement {
            session: SessionId(self.session),
            start_us: self.start_us,
            duration_us: self.duration_us,
            reported_meanwhile: self.reported_meanwhile,
            protocol: self.protocol,
            prepared: &self.prepared,
            sql: &self.sql,
            parameters: &self.parameters,
            parameter_types: self.parameter_types.as_deref(),
            transaction: self.transaction,
            rows: self.rows,
            tag: self.tag.as_deref(),
            returned: self.returned.as_ref(),
            error: self.error,
            skip: self.skip,
        }
    }

    fn of(statement: &Statement<'_>) -> Owned {
        Owned {
            session: statement.session.0,
            start_us: statement.start_us,
            duration_us: statement.duration_us,
            reported_meanwhile: statement.reported_meanwhile,
            protocol: statement.protocol,
            prepared: statement.prepared.to_vec(),
            sql: statement.sql.to_vec(),
            parameters: statement.parameters.to_vec(),
            parameter_types: statement.parameter_types.map(<[u8]>::to_vec),
            transaction: statement.transaction,
            rows: statement.rows,
            tag: statement.tag.map(<[u8]>::to_vec),
            returned: statement.returned.cloned(),
            error: statement.error,
            skip: statement.skip,
        }
    }
}

/// A session of a name.
pub fn session(name: &str) -> Session {
    Session {
        name: name.as_bytes().to_vec(),
        user: b"app".to_vec(),
        database: b"shop".to_vec(),
        ..Session::default()
    }
}

/// Writes a trace into a folder, with as many sessions as the statements have.
pub fn trace_of(folder: &TempDir, statements: &[Owned], mask: Option<Mask>) -> TraceReader {
    let path = folder.path().join("t.trace");
    let mut writer = TraceWriter::create(&path, mask).unwrap();
    let sessions = statements.iter().map(|statement| statement.session + 1).max().unwrap_or(0);
    (0..sessions).for_each(|id| writer.session(&session(&id.to_string())).unwrap());
    statements.iter().for_each(|statement| writer.statement(&statement.lend()).unwrap());
    writer.finish(&json!({})).unwrap();
    TraceReader::open(&path).unwrap()
}

fn statements_of(trace: &TraceReader) -> Vec<Owned> {
    let mut rows = trace.statements(Columns::All);
    let mut statements = Vec::new();
    while let Some(row) = rows.next_statement().unwrap() {
        let expected = fingerprint(row.statement.sql).0;
        assert_eq!(row.fingerprint, expected.hash);
        assert_eq!(row.text, expected.text.as_bytes());
        assert_eq!((row.class, row.statements), (expected.class, expected.statements));
        statements.push(Owned::of(&row.statement));
    }
    statements
}

fn any_returned() -> impl Strategy<Value = Returned> {
    (1usize..4, 0usize..4).prop_flat_map(|(width, height)| {
        let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9));
        let columns =
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5), width);
        let rows = proptest::collection::vec(proptest::collection::vec(value, width), height);
        (columns, rows).prop_map(|(columns, rows)| Returned { columns, rows })
    })
}

fn any_statement() -> impl Strategy<Value = Owned> {
    let skip = proptest::option::weighted(0.2, 0usize..6);
    let parameters = proptest::collection::vec(
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
        0..4,
    );
    let figures = (0u32..5, any::<i64>(), any::<Option<u64>>(), any::<u64>(), any::<Option<u64>>());
    let error = proptest::option::of(Just(*b"40P01"));
    let answer = (
        proptest::option::of("[A-Z]{0,9}"),
        proptest::option::of(any_returned()),
        proptest::option::of("[0-9 ]{0,9}"),
    );
    (figures, 0usize..3, "[a-z]{0,3}", sql_like(), parameters, answer, error, skip).prop_map(
        |(figures, protocol, prepared, sql, parameters, answer, error, skip)| Owned {
            session: figures.0,
            start_us: figures.1,
            duration_us: figures.2,
            protocol: schema::PROTOCOLS[protocol].0,
            prepared: prepared.into_bytes(),
            sql,
            parameters,
            transaction: figures.3,
            reported_meanwhile: figures.4,
            rows: figures.4,
            tag: answer.0.map(String::into_bytes),
            returned: answer.1,
            parameter_types: answer.2.map(String::into_bytes),
            error,
            skip: skip.map(|skip| schema::SKIPS[skip].0),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn statements_are_read_back(statements in proptest::collection::vec(any_statement(), 0..60)) {
        let folder = TempDir::new().unwrap();
        let trace = trace_of(&folder, &statements, None);
        prop_assert_eq!(&statements_of(&trace), &statements);
        let skipped = statements.iter().filter(|statement| statement.skip.is_some()).count() as u64;
        prop_assert_eq!(trace.counts().executable + skipped, statements.len() as u64);
        prop_assert_eq!(trace.counts().skipped.values().sum::<u64>(), skipped);
        let mut figures = trace.statements(Columns::Figures);
        for statement in &statements {
            let row = figures.next_statement().unwrap().unwrap();
            prop_assert_eq!(row.statement.start_us, statement.start_us);
            prop_assert!(row.statement.sql.is_empty() && row.statement.parameters.is_empty());
            prop_assert!(row.statement.returned.is_none());
        }
        prop_assert_eq!(figures.next_statement().unwrap(), None);
    }

    #[test]
    fn damaged_bytes_do_not_panic(at in 0usize..3_000, byte in any::<u8>(), cut in 0usize..3_000) {
        survives(at, byte, cut);
    }
}

#[test]
fn lengths_beyond_their_page_do_not_panic() {
    for byte in 0..=255 {
        survives(1_711, byte, 3_000);
    }
}

/// `tests/fixtures/version-N.hex` is a file that the Seatrial of version N wrote.
#[test]
fn traces_of_earlier_versions_are_read() {
    is_still_read(include_str!("tests/fixtures/version-1.hex"));
    is_still_read(include_str!("tests/fixtures/version-2.hex"));
    is_still_read(include_str!("tests/fixtures/version-3.hex"));
}

fn is_still_read(hex: &str) {
    let digits = hex.lines().collect::<String>();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old.trace");
    fs::write(&path, bytes).unwrap();
    let trace = TraceReader::open(&path).unwrap();
    let statements = statements_of(&trace);
    assert_eq!(statements[0].sql, b"INSERT INTO t VALUES ($1, 'x') RETURNING id");
    assert_eq!(statements[0].parameters, [Some(b"7".to_vec())]);
    assert_eq!(statements[1].sql, b"UPDATE t SET a = 'y' WHERE id = 4711");
    assert!(statements.iter().all(|read| read.tag.is_none() && read.returned.is_none()));
    assert!(statements.iter().all(|read| read.parameter_types.is_none()));
    let mut figures = trace.statements(Columns::Figures);
    assert_eq!(figures.next_statement().unwrap().unwrap().statement.duration_us, Some(1_000));
}

/// Reads a trace of which one byte is another, or whose end is missing, as far as it can be read.
fn survives(at: usize, byte: u8, cut: usize) {
    let folder = TempDir::new().unwrap();
    trace_of(&folder, &pgbench(5, 2), None);
    let path = folder.path().join("t.trace");
    let mut bytes = fs::read(&path).unwrap();
    if cut < bytes.len() / 4 {
        bytes.truncate(cut * 4);
    }
    if let Some(index) = bytes.get_mut(at) {
        *index = byte;
    }
    fs::write(&path, bytes).unwrap();
    if let Ok(trace) = TraceReader::open(&path) {
        let _ = trace.sessions();
        let mut rows = trace.statements(Columns::All);
        while let Ok(Some(_)) = rows.next_statement() {}
    }
}

/// What `pgbench` sends in its TPC-B transactions, session by session in turns.
pub fn pgbench(transactions: u64, sessions: u32) -> Vec<Owned> {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut statements = Vec::new();
    let mut now_us = 1_795_219_200_000_000;
    for number in 0..transactions {
        let (account, branch, teller) = (random(1_000_000) + 1, random(10) + 1, random(100) + 1);
        let delta = random(10_000) as i64 - 5_000;
        let texts = [
            "BEGIN;".to_owned(),
            format!(
                "UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {account};"
            ),
            format!("SELECT abalance FROM pgbench_accounts WHERE aid = {account};"),
            format!(
                "UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {teller};"
            ),
            format!(
                "UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {branch};"
            ),
            format!(
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({teller}, \
                 {branch}, {account}, {delta}, CURRENT_TIMESTAMP);"
            ),
            "END;".to_owned(),
        ];
        for text in &texts {
            now_us += 20 + random(100) as i64;
            statements.push(Owned {
                duration_us: Some(50 + random(2_000)),
                transaction: number / u64::from(sessions) + 1,
                ..Owned::new((number % u64::from(sessions)) as u32, now_us, text)
            });
        }
    }
    statements
}

/// The statement as a line of csvlog: what a trace is compared with.
fn csv_bytes(statement: &Owned) -> usize {
    let text = String::from_utf8_lossy(&statement.sql).replace('"', "\"\"");
    let line = format!(
        "2026-11-21 08:00:00.{:03} UTC,\"postgres\",\"postgres\",{},\"[local]\",6920f1c0.{:x},{},\
         \"UPDATE\",2026-11-21 08:00:00 UTC,{}/{},{},LOG,00000,\"duration: {:.3} ms  statement: \
         {text}\",,,,,,,,,\"pgbench\",\"client backend\",,0\n",
        statement.start_us / 1_000 % 1_000,
        statement.session + 4_000,
        statement.session,
        statement.transaction,
        statement.session,
        statement.transaction,
        statement.transaction,
        statement.duration_us.unwrap() as f64 / 1e3,
    );
    line.len()
}

#[test]
fn a_trace_of_pgbench_is_at_most_an_eighth_of_its_csv() {
    let folder = TempDir::new().unwrap();
    let statements = pgbench(5_000, 8);
    let trace = trace_of(&folder, &statements, None);
    assert_eq!(statements_of(&trace), statements);
    let bytes = fs::metadata(folder.path().join("t.trace")).unwrap().len() as usize;
    let csv = statements.iter().map(csv_bytes).sum::<usize>();
    assert!(bytes * 8 < csv, "{bytes} of {csv}");
    assert!(fs::read_dir(folder.path()).unwrap().count() == 1, "nothing else is left");
}

#[test]
fn many_row_groups_follow_each_other() {
    let folder = TempDir::new().unwrap();
    let by_rows: Vec<Owned> = (0..ROWS_MAX as i64 + 7)
        .map(|number| Owned::new(0, number, &format!("select {number}")))
        .collect();
    let trace = trace_of(&folder, &by_rows, None);
    assert!(statements_of(&trace) == by_rows);
    // Texts that each have a form of their own fill the dictionary, and the row groups.
    let wide = "x".repeat(64 << 10);
    let by_bytes: Vec<Owned> = (0..2 * TEXT_BYTES_MAX as i64 / (64 << 10))
        .map(|number| Owned::new(0, number, &format!("select a{number}{wide}")))
        .collect();
    let trace = trace_of(&folder, &by_bytes, None);
    assert!(statements_of(&trace) == by_bytes);
}

/// Writes several row groups of statements and sessions, and returns the file.
fn written_on(threads: usize) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    let mut writer = TraceWriter::create(&path, None).unwrap().on_threads(threads).unwrap();
    let wide = "x".repeat(60 << 10);
    for number in 0..40_000u32 {
        writer.session(&session(&number.to_string())).unwrap();
        let wide = if number % 50 == 0 { &wide[..] } else { "" };
        let sql = format!("select a{}, '{wide}', {number}", number % 7);
        writer.statement(&Owned::new(number, i64::from(number), &sql).lend()).unwrap();
    }
    writer.finish(&json!({})).unwrap();
    fs::read(&path).unwrap()
}

#[test]
fn any_number_of_threads_writes_the_same_bytes() {
    let alone = written_on(1);
    for threads in [2, 3, 9] {
        assert!(written_on(threads) == alone, "{threads} threads");
    }
}

#[test]
fn a_statement_of_16_mib_is_kept() {
    let folder = TempDir::new().unwrap();
    let rows: Vec<String> =
        (0..400_000).map(|id| format!("({id}, 'some text, {id}', NULL)")).collect();
    let sql = format!("INSERT INTO t VALUES {}", rows.join(","));
    let statements = [Owned::new(0, 1, &sql), Owned::new(0, 2, "select 1")];
    assert!(statements_of(&trace_of(&folder, &statements, None)) == statements);
}

#[test]
fn sessions_have_their_last_known_state() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    let mut writer = TraceWriter::create(&path, None).unwrap();
    // More than are delayed, so that the changes of early ones are rows of their own.
    for id in 0..40_000u32 {
        writer.session(&session(&id.to_string())).unwrap();
    }
    let changed = Session { application: b"psql".to_vec(), ..session("7") };
    writer.session_changed(SessionId(7), &changed).unwrap();
    let ended = Session { disconnected_us: Some(9), connected_us: Some(-3), ..changed };
    writer.session_changed(SessionId(7), &ended).unwrap();
    let counts = writer.finish(&json!({"format": "csv"})).unwrap();
    let trace = TraceReader::open(&path).unwrap();
    let sessions = trace.sessions().unwrap();
    assert_eq!((sessions.len(), counts.sessions), (40_000, 40_000));
    assert_eq!((&sessions[7], &sessions[8]), (&ended, &session("8")));
    assert_eq!(trace.origin(), &json!({"format": "csv"}));
    assert!(trace.statements(Columns::All).next_statement().unwrap().is_none());
}

#[test]
fn unfinished_file_is_not_a_trace() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    let mut writer = TraceWriter::create(&path, None).unwrap();
    let unknown = writer.statement(&Owned::new(0, 1, "select 1").lend());
    assert!(matches!(unknown, Err(TraceError::UnknownSession(0))));
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn other_files_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    fs::write(&path, "2026-11-21 08:00:00 UTC LOG: statement: select 1\n").unwrap();
    assert!(matches!(TraceReader::open(&path), Err(TraceError::NotATrace { .. })));
    trace_of(&folder, &pgbench(2, 1), None);
    let bytes = fs::read(&path).unwrap();
    let key = schema::VERSION_KEY.as_bytes();
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    let mut other = bytes.clone();
    let version = schema::VERSION.as_bytes()[0];
    let digit = other[at..].iter().position(|&byte| byte == version).unwrap();
    other[at + digit] = b'9';
    fs::write(&path, other).unwrap();
    let error = TraceReader::open(&path).map(|_| ()).unwrap_err();
    assert!(matches!(&error, TraceError::Version { found, .. } if found == "9"), "{error}");
    let missing = TraceReader::open(&folder.path().join("none")).map(|_| ()).unwrap_err();
    assert!(matches!(missing, TraceError::Io { action: "opened", .. }));
}

#[test]
fn masked_trace_is_marked_as_masked() {
    let folder = TempDir::new().unwrap();
    let secret = Owned {
        parameters: vec![Some(b"secret".to_vec()), None],
        ..Owned::new(0, 1, "select * from t where a = 'secret' and b = $1")
    };
    let trace = trace_of(&folder, std::slice::from_ref(&secret), Some(Mask::new()));
    assert!(trace.is_masked());
    let read = &statements_of(&trace)[0];
    let stand_in = read.parameters[0].clone().unwrap();
    let expected = format!(
        "select * from t where a = '{}' and b = $1",
        String::from_utf8(stand_in.clone()).unwrap()
    );
    assert_eq!((&read.sql, &read.parameters[1]), (&expected.into_bytes(), &None));
    assert!(stand_in.len() == 6 && stand_in != b"secret");
    let bytes = fs::read(folder.path().join("t.trace")).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    assert!(!trace_of(&folder, &[secret], None).is_masked());
}

#[test]
fn statements_that_the_server_did_not_understand_are_masked_as_a_whole() {
    let folder = TempDir::new().unwrap();
    let sql = "select * from t where a = 'O'Brien' and b = \"4711\"";
    let failed = |code: &[u8; 5]| Owned { error: Some(*code), ..Owned::new(0, 1, sql) };
    let statements = [b"42601", b"42703", b"?????", b"23505"].map(failed);
    let masked = statements_of(&trace_of(&folder, &statements, Some(Mask::new())));
    let has = |index: usize, part: &str| String::from_utf8_lossy(&masked[index].sql).contains(part);
    assert!((0..3).all(|index| !has(index, "Brien") && !has(index, "4711")));
    assert!(has(3, "Brien") && masked.iter().all(|one| one.sql.len() == sql.len()));
    // What a replacement fails with: so does its replay.
    let codes = |all: &[Owned]| all.iter().filter_map(|one| one.error).collect::<Vec<_>>();
    assert_eq!(codes(&masked), [*b"42601", *b"42601", *b"?????", *b"23505"]);
    let clear = statements_of(&trace_of(&folder, &statements, None));
    assert!(clear.iter().all(|one| one.sql == sql.as_bytes()));
    assert_eq!(codes(&clear), codes(&statements));
}

#[test]
fn names_that_the_server_never_looked_up_are_masked_if_they_may_be_data() {
    let folder = TempDir::new().unwrap();
    let quoted = "select * from users where id = 'x' and name = \"Alice Brien\"";
    let address = "select * from users where email = Alice.Brien@example.com";
    let plain = "select id from users";
    let failed = |sql, code: &[u8; 5]| Owned { error: Some(*code), ..Owned::new(0, 1, sql) };
    let doubtful = [b"25P02", b"42P01", b"3F000", b"0A000", b"22P02"];
    let statements: Vec<Owned> = doubtful
        .iter()
        .flat_map(|code| [quoted, address, plain].map(|sql| failed(sql, code)))
        .chain([failed(quoted, b"23505"), failed("select '\"a@b\"'", b"25P02")])
        .collect();
    let masked = statements_of(&trace_of(&folder, &statements, Some(Mask::new())));
    for (stored, original) in masked.iter().zip(&statements) {
        let [hidden, kept] = [Some(*b"42601"), original.error]
            .map(|code| stored.error == code && stored.sql.len() == original.sql.len());
        let has_name = stored.sql.windows(5).any(|part| part == b"Brien");
        let is_plain = original.sql.starts_with(b"select id") || original.sql.ends_with(b"'");
        match original.error == Some(*b"23505") || is_plain {
            true => assert!(kept && stored.sql.starts_with(b"select")),
            false => assert!(hidden && !has_name),
        }
    }
}

#[test]
fn statements_that_are_masked_as_a_whole_stay_utf8() {
    for (sql, begin, end) in [
        ("ä", "''", "''"),
        ("漢", "'_'", "'_'"),
        ("выбрать a", "'_", "'"),
        ("select 'да", "'", "_'"),
    ] {
        let mut masked = Vec::new();
        Mask::new().text(sql.as_bytes(), &mut masked);
        let masked = String::from_utf8(masked).unwrap();
        assert_eq!((masked.len(), masked[1..masked.len() - 1].contains('\'')), (sql.len(), false));
        assert!(masked.starts_with(begin) && masked.ends_with(end), "{masked}");
    }
}

#[test]
fn returned_values_are_masked_like_literals() {
    let folder = TempDir::new().unwrap();
    let returned = Returned {
        columns: vec![b"id".to_vec(), b"name".to_vec()],
        rows: vec![
            vec![Some(b"4711".to_vec()), Some(b"secret".to_vec())],
            vec![Some(b"4712".to_vec()), None],
        ],
    };
    let insert = Owned {
        tag: Some(b"INSERT".to_vec()),
        returned: Some(returned),
        ..Owned::new(0, 1, "INSERT INTO t VALUES ('secret') RETURNING id, name")
    };
    let by_literal = Owned::new(0, 2, "UPDATE t SET name = 'secret' WHERE id = 4711");
    let by_parameter = Owned {
        parameters: vec![Some(b"4712".to_vec())],
        ..Owned::new(0, 3, "DELETE FROM t WHERE id = $1")
    };
    let trace = trace_of(&folder, &[insert, by_literal, by_parameter], Some(Mask::new()));
    let read = statements_of(&trace);
    let masked = read[0].returned.as_ref().unwrap();
    assert_eq!(masked.columns, [b"id".to_vec(), b"name".to_vec()]);
    let text = |value: &Option<Vec<u8>>| String::from_utf8(value.clone().unwrap()).unwrap();
    let (first, name) = (text(&masked.rows[0][0]), text(&masked.rows[0][1]));
    let update = format!("UPDATE t SET name = '{name}' WHERE id = {first}");
    assert_eq!(String::from_utf8_lossy(&read[1].sql), update);
    assert_eq!(read[2].parameters[0], masked.rows[1][0]);
    assert!(masked.rows[1][1].is_none() && name != "secret");
}

#[test]
fn trace_is_private_to_its_owner() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // One that other users could read is closed when it is rewritten.
    let part = checkpoint::part_of(&path);
    fs::write(&part, "left there").unwrap();
    fs::set_permissions(&part, fs::Permissions::from_mode(0o644)).unwrap();
    let mut writer = TraceWriter::create(&path, None).unwrap();
    writer.session(&session("1")).unwrap();
    writer.checkpoint(&json!({})).unwrap();
    assert_eq!((mode(&part), mode(&checkpoint::end_of(&path))), (0o600, 0o600));
    writer.finish(&json!({})).unwrap();
    assert_eq!(mode(&path), 0o600);
    TraceReader::open(&path).unwrap();
}

/// Whatever ends a writer early: what was secured stays.
#[test]
fn checkpointed_data_is_not_removed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    let mut writer = TraceWriter::create(&path, None).unwrap();
    writer.session(&session("1")).unwrap();
    writer.statement(&Owned::new(0, 1, "select 1").lend()).unwrap();
    writer.checkpoint(&json!({})).unwrap();
    writer.statement(&Owned::new(0, 2, "select 2").lend()).unwrap();
    drop(writer);
    let error = TraceError::Io { path: path.clone(), action: "written", source: full() };
    let explained = error.explained();
    assert!(explained.next_step.contains("--recover"), "{explained:?}");
    assert!(matches!(TraceWriter::create(&path, None), Err(TraceError::CutOff { .. })));
    assert_eq!(checkpoint::recover(&path).unwrap().counts().statements, 1);
    let explained = error.explained();
    assert!(explained.cause.contains("no file was left behind"), "{explained:?}");
}

fn full() -> std::io::Error {
    std::io::Error::from_raw_os_error(28)
}

#[test]
fn trace_in_use_is_locked() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    let mut writer = TraceWriter::create(&path, None).unwrap();
    let again = || TraceWriter::create(&path, None).map(drop);
    assert!(matches!(again(), Err(TraceError::InUse { .. })));
    writer.session(&session("1")).unwrap();
    writer.checkpoint(&json!({})).unwrap();
    assert!(matches!(again(), Err(TraceError::InUse { .. })));
    let recovered = checkpoint::recover(&path).map(drop);
    assert!(matches!(recovered, Err(TraceError::InUse { .. })));
    writer.statement(&Owned::new(0, 1, "select 1").lend()).unwrap();
    assert_eq!(writer.finish(&json!({})).unwrap().statements, 1);
    TraceReader::open(&path).unwrap();
    // An end without its part is of nothing.
    fs::write(checkpoint::end_of(&path), "of old").unwrap();
    again().unwrap();
}
