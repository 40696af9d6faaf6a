//! Logs become a whole trace or none, and an error states its cause and what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seatrial_gauge::user_error::ErrorClass;
use seatrial_trace::captured::Session;
use seatrial_trace::{Columns, TraceReader};
use tempfile::TempDir;

use super::origin::IntakeResult;
use super::spec::IntakeSpec;
use super::{Intake, IntakeError, Progress, take_in};

const CSV: &str = "\
2026-11-21 12:00:00.100 UTC,\"me\",\"db\",7,\"[local]\",6b01e664.7,1,\"SELECT\",\
2026-11-21 12:00:00 UTC,3/2,0,LOG,00000,\"statement: SELECT 'secret'\",,,,,,,,,\"app\",\
\"client backend\",,0
2026-11-21 12:00:00.200 UTC,\"me\",\"db\",7,\"[local]\",6b01e664.7,2,\"COPY\",\
2026-11-21 12:00:00 UTC,3/3,0,LOG,00000,\"statement: COPY t FROM STDIN\",,,,,,,,,\"app\",\
\"client backend\",,0
2026-11-21 12:00:00.300 UTC,\"me\",\"db\",7,torn secret
";

const SQL: &str = "BEGIN; UPDATE a SET x = 1; COMMIT; SELECT 1 FROM b; SELECT 2 FROM a;";

struct TestDir(TempDir);

impl TestDir {
    fn new() -> TestDir {
        TestDir(TempDir::new().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn spec(&self, log: &Path) -> IntakeSpec {
        let output = self.0.path().join("a.trace");
        let json = serde_json::json!({"logs": [log], "output": output});
        IntakeSpec::parse(&json.to_string()).unwrap()
    }

    /// Files that are there, but for the logs.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("trace")).collect()
    }
}

fn read(spec: &IntakeSpec) -> Result<IntakeResult, IntakeError> {
    take_in(spec, None, &Progress::default())
}

fn sqls(path: &Path) -> Vec<String> {
    let trace = TraceReader::open(path).unwrap();
    let mut statements = trace.statements(Columns::All);
    let mut found = Vec::new();
    while let Some(traced) = statements.next_statement().unwrap() {
        found.push(String::from_utf8_lossy(traced.statement.sql).into_owned());
    }
    found
}

#[test]
fn a_trace_of_a_log_reports_what_is_missing_in_it() {
    let dir = TestDir::new();
    let spec = dir.spec(&dir.file("a.csv", CSV));
    let taken = read(&spec).unwrap();
    assert_eq!(taken.trace_bytes, fs::metadata(&spec.output).unwrap().len());
    assert_eq!(dir.left(), ["a.trace"]);
    assert_eq!(sqls(&spec.output), ["SELECT 'secret'", "COPY t FROM STDIN"]);
    let accounting = &taken.origin.accounting;
    assert_eq!((accounting.records, accounting.statements, accounting.executable), (3, 2, 1));
    assert_eq!(accounting.skipped["copy_data"], 1);
    assert_eq!(accounting.unreadable.values().sum::<u64>(), 1);
    assert!(taken.origin.unreadable[0].text.contains("torn secret"));
    assert_eq!(taken.origin.started_at, Some(1_795_262_400.1));
    let kept = TraceReader::open(&spec.output).unwrap();
    assert_eq!(kept.origin(), &serde_json::to_value(&taken.origin).unwrap());
    assert!(!kept.is_masked());
}

#[test]
fn the_servers_own_number_stays_with_the_trace() {
    let dir = TestDir::new();
    let plain = dir.spec(&dir.file("a.csv", CSV));
    let number = 7_575_757_575_757_575_757;
    for system_identifier in [Some(number), None] {
        let spec = IntakeSpec { system_identifier, ..plain.clone() };
        read(&spec).unwrap();
        let kept = TraceReader::open(&spec.output).unwrap();
        assert_eq!(kept.origin()["system_identifier"].as_u64(), system_identifier);
    }
}

#[test]
fn nothing_of_a_masked_log_is_in_its_trace() {
    let dir = TestDir::new();
    let spec = IntakeSpec { mask: true, ..dir.spec(&dir.file("a.csv", CSV)) };
    let taken = read(&spec).unwrap();
    assert!(taken.origin.is_masked);
    assert!(taken.origin.unreadable.iter().all(|one| one.text.is_empty()));
    assert!(!sqls(&spec.output).concat().contains("secret"));
    let bytes = fs::read(&spec.output).unwrap();
    assert!(!bytes.windows(6).any(|six| six == b"secret"));
}

#[test]
fn a_file_of_sql_is_one_session_or_as_many_streams_as_are_requested() {
    let dir = TestDir::new();
    let spec = dir.spec(&dir.file("a.sql", SQL));
    let taken = read(&spec).unwrap();
    assert_eq!((taken.origin.session_count, taken.origin.started_at), (1, None));
    assert!(taken.origin.notes[0].contains("--sessions N splits it"), "{:?}", taken.origin.notes);
    let split = IntakeSpec { sessions: Some(3), ..spec };
    let taken = read(&split).unwrap();
    let streams = taken.origin.split.unwrap();
    assert_eq!((streams.streams, streams.transactions, streams.steps), (2, 3, Some(4)));
    assert_eq!(taken.origin.session_count, 3);
    let sessions: Vec<Session> = TraceReader::open(&split.output).unwrap().sessions().unwrap();
    assert_eq!(sessions[2].name, b"stream 3");
    assert_eq!(sqls(&split.output).len(), 5);
}

/// A plain log of statements without sessions: time in ms, duration in ms, text.
fn plain(statements: &[(u32, Option<u32>, &str)]) -> String {
    let line = |(at_ms, took_ms, sql): &(u32, Option<u32>, &str)| {
        let took = took_ms.map_or(String::new(), |took_ms| format!("duration: {took_ms}.000 ms  "));
        format!("2026-11-21 12:00:00.{at_ms:03} UTC LOG:  {took}statement: {sql}\n")
    };
    statements.iter().map(line).collect()
}

#[test]
fn of_a_log_without_sessions_the_concurrency_is_measured() {
    let dir = TestDir::new();
    let log = [
        (100, Some(50), "SELECT 1"),
        (120, Some(90), "SELECT 2"),
        (130, Some(10), "SELECT 3"),
        (900, Some(5), "SELECT 4"),
    ];
    let spec = dir.spec(&dir.file("a.log", plain(&log)));
    let taken = read(&spec).unwrap().origin;
    let split = taken.split.unwrap();
    assert!(split.is_measured && split.steps.is_none());
    assert_eq!((split.streams, split.crowded, taken.session_count), (2, 0, 2));
    assert!(taken.notes[0].contains("as many as were active at once"), "{:?}", taken.notes);
    let one = read(&IntakeSpec { sessions: Some(1), ..spec.clone() }).unwrap().origin;
    let split = one.split.unwrap();
    assert_eq!((split.streams, split.crowded), (1, 1));
    assert_eq!(sqls(&spec.output).len(), 4);
}

#[test]
fn without_durations_it_is_one_session_or_split_by_conflicts() {
    let dir = TestDir::new();
    let log = [
        (100, None, "UPDATE a SET x = 1"),
        (100, None, "SELECT 1 FROM a"),
        (105, None, "SELECT 2 FROM b"),
    ];
    let spec = dir.spec(&dir.file("a.log", plain(&log)));
    let whole = read(&spec).unwrap().origin;
    assert_eq!((whole.session_count, whole.split.is_none()), (1, true));
    assert!(whole.notes[0].contains("--sessions N splits it"), "{:?}", whole.notes);
    let parted = read(&IntakeSpec { sessions: Some(2), ..spec.clone() }).unwrap().origin;
    let split = parted.split.unwrap();
    assert_eq!((split.streams, split.transactions, split.is_measured), (2, 3, false));
    let trace = TraceReader::open(&spec.output).unwrap();
    let mut statements = trace.statements(Columns::All);
    let mut starts_us = Vec::new();
    while let Some(traced) = statements.next_statement().unwrap() {
        starts_us.push(traced.statement.start_us % 1_000_000);
    }
    assert_eq!(starts_us, [100_000, 100_001, 105_000]);
}

#[test]
fn who_stops_it_leaves_nothing() {
    let dir = TestDir::new();
    let spec = dir.spec(&dir.file("a.csv", CSV));
    let progress = Progress::default();
    progress.stop();
    assert!(matches!(take_in(&spec, None, &progress), Err(IntakeError::Stopped)));
    assert!(dir.left().is_empty());
    // Stopped when the last record was read already.
    let empty = dir.spec(&dir.file("b.csv", CSV.lines().last().unwrap()));
    assert!(matches!(
        take_in(&empty, None, &progress),
        Err(IntakeError::Log(_) | IntakeError::Stopped)
    ));
    assert!(dir.left().is_empty());
}

#[test]
fn a_failure_leaves_an_older_trace_as_it_is() {
    let dir = TestDir::new();
    let spec = dir.spec(&dir.file("a.csv", CSV));
    read(&spec).unwrap();
    let before = fs::read(&spec.output).unwrap();
    let bad = dir.spec(&dir.file("b.csv", "no log at all\n"));
    assert!(matches!(read(&bad), Err(IntakeError::Log(_))));
    assert_eq!(fs::read(&spec.output).unwrap(), before);
    assert_eq!(dir.left(), ["a.trace"]);
}

#[test]
fn it_reads_in_a_thread_of_its_own() {
    let dir = TestDir::new();
    let intake = Intake::start(dir.spec(&dir.file("a.csv", CSV))).unwrap();
    assert!(intake.wait(Duration::from_secs(60)));
    assert_eq!(intake.statements(), 2);
    assert!(intake.take_result().unwrap().is_ok());
    assert!(intake.take_result().is_none(), "a result is taken once");
}

fn seen(error: &IntakeError) -> (ErrorClass, String) {
    let explained = error.explained();
    assert!(!explained.cause.is_empty() && !explained.next_step.is_empty());
    (explained.class, format!("{}. {}. {}.", explained.seen, explained.cause, explained.next_step))
}

/// Returns the error for a file's content and a changed specification.
fn refusal(content: &[u8], change: impl Fn(IntakeSpec) -> IntakeSpec) -> String {
    let dir = TestDir::new();
    let error = read(&change(dir.spec(&dir.file("a.log", content)))).unwrap_err();
    assert!(dir.left().is_empty());
    let (fault, message) = seen(&error);
    assert_eq!(fault, ErrorClass::Usage, "{message}");
    message
}

#[test]
fn what_is_no_log_is_refused_with_the_next_step() {
    let same = |spec| spec;
    assert!(refusal(b"", same).contains("pg_current_logfile"));
    assert!(refusal(b"some poem\nof two lines\n", same).contains("begins with \"some poem\""));
    assert!(refusal(b"\x7fELF\0\0\x01\xff\xfe", same).contains("it is not text"));
    assert!(refusal(b"PAR1\x15\0", same).contains("seatrial sql show"));
    assert!(refusal(b"\x1f\x8b\x08\0\0\0\0\0\0\x03garbage", same).contains("damaged or cut off"));
    let prefix = |spec| IntakeSpec { prefix: Some("%t [%p]: ".into()), ..spec };
    let log = b"2026-11-21 12:00:00.100 UTC [7] me@db LOG:  statement: SELECT 1\n";
    let message = refusal(log, prefix);
    assert!(message.contains("the first is \"2026-11-21"), "{message}");
    assert!(message.contains("--prefix '%m [%p] %q%u@%d '"), "{message}");
    let json = |spec| IntakeSpec { format: Some("json".into()), ..spec };
    assert!(refusal(CSV.as_bytes(), json).contains("no record of the format json"));
    let split = |spec| IntakeSpec { sessions: Some(2), ..spec };
    assert!(refusal(CSV.as_bytes(), split).contains("identifies its sessions"));
}

#[test]
fn what_cannot_be_reached_is_reported_by_its_kind() {
    let dir = TestDir::new();
    let missing = dir.0.path().join("none.log");
    let (_, message) = seen(&read(&dir.spec(&missing)).unwrap_err());
    assert!(message.contains("There is no such file"));
    let (_, message) = seen(&read(&dir.spec(dir.0.path())).unwrap_err());
    assert!(message.contains("It is a directory"));
    let spec = dir.spec(&dir.file("a.csv", CSV));
    let nowhere = IntakeSpec { output: dir.0.path().join("no/a.trace"), ..spec.clone() };
    let (fault, message) = seen(&read(&nowhere).unwrap_err());
    assert!(fault == ErrorClass::Usage && message.contains("cannot be made"), "{message}");
    let twice = IntakeSpec { logs: [spec.logs.clone(), spec.logs.clone()].concat(), ..spec };
    let (_, message) = seen(&read(&twice).unwrap_err());
    assert!(message.contains("given twice"));
}

#[test]
fn a_full_disk_is_reported_as_such() {
    let error = seatrial_trace::TraceError::Io {
        path: "a.trace".into(),
        action: "written",
        source: std::io::Error::other("External: No space left on device (os error 28)"),
    };
    let (fault, message) = seen(&IntakeError::Trace(error));
    assert_eq!(fault, ErrorClass::Space);
    assert!(message.contains("Free disk space"));
}

#[test]
fn specifications_that_make_no_sense_are_refused() {
    let faulty = [
        r#"{"logs": [], "output": "a"}"#,
        r#"{"logs": ["a"], "output": "b", "format": "xml"}"#,
        r#"{"logs": ["a"], "output": "b", "sessions": 0}"#,
        r#"{"logs": ["a"], "output": "b", "colour": 1}"#,
        "{}",
    ];
    for json in faulty {
        assert!(matches!(IntakeSpec::parse(json), Err(IntakeError::Spec(_))), "{json}");
    }
}
