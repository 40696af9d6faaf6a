//! Real logs, logs made by hand and logs made by chance.

mod files;
mod fuzz;
mod joining;
mod matrix;
mod prefixes;
mod reading;
mod synthetic;

use std::convert::Infallible;
use std::path::PathBuf;

use seatrial_trace::captured::{Protocol, Session, SessionId, Skip, Statement};
use tempfile::TempDir;

use super::*;

/// A statement, as reported.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReportedStatement {
    session: u32,
    start_us: i64,
    duration_us: Option<u64>,
    reported_meanwhile: Option<u64>,
    protocol: Protocol,
    prepared: String,
    sql: Vec<u8>,
    parameters: Vec<Option<Vec<u8>>>,
    transaction: u64,
    error: Option<String>,
    skip: Option<Skip>,
}

impl ReportedStatement {
    fn sql(&self) -> String {
        String::from_utf8_lossy(&self.sql).into_owned()
    }
}

/// A sink that keeps everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RecordedSink {
    sessions: Vec<Session>,
    statements: Vec<ReportedStatement>,
}

impl Sink for RecordedSink {
    type Error = Infallible;

    fn session(&mut self, session: &Session) -> Result<(), Infallible> {
        self.sessions.push(session.clone());
        Ok(())
    }

    fn session_changed(&mut self, id: SessionId, session: &Session) -> Result<(), Infallible> {
        self.sessions[id.0 as usize] = session.clone();
        Ok(())
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), Infallible> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!((statement.session.0 as usize) < self.sessions.len());
        self.statements.push(ReportedStatement {
            session: statement.session.0,
            start_us: statement.start_us,
            duration_us: statement.duration_us,
            reported_meanwhile: statement.reported_meanwhile,
            protocol: statement.protocol,
            prepared: text(statement.prepared),
            sql: statement.sql.to_vec(),
            parameters: statement.parameters.to_vec(),
            transaction: statement.transaction,
            error: statement.error.map(|code| text(&code)),
            skip: statement.skip,
        });
        Ok(())
    }
}

/// Files in a folder of their own.
struct Logs {
    folder: TempDir,
    wanted: ReadOptions,
}

impl Logs {
    fn new(files: &[(&str, &[u8])]) -> Logs {
        let folder = TempDir::new().unwrap();
        let write = |(name, bytes): &(&str, &[u8])| -> PathBuf {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let paths = files.iter().map(write).collect();
        let wanted = ReadOptions { paths, format: None, prefix: None, workers: 1 };
        Logs { folder, wanted }
    }

    fn one(text: impl AsRef<[u8]>) -> Logs {
        Logs::new(&[("log", text.as_ref())])
    }

    fn prefix(mut self, prefix: &str) -> Logs {
        self.wanted.prefix = Some(prefix.to_owned());
        self
    }

    fn format(mut self, format: Format) -> Logs {
        self.wanted.format = Some(format);
        self
    }

    fn read(&self) -> (RecordedSink, Reading) {
        let mut kept = RecordedSink::default();
        let reading = read(&self.wanted, &mut kept).unwrap();
        (kept, reading)
    }

    /// Reads it in blocks of this size, with this number of workers.
    fn read_in(&self, block_bytes: usize, workers: usize) -> (RecordedSink, RecordCounts) {
        let mut kept = RecordedSink::default();
        let wanted = ReadOptions { workers, ..self.wanted.clone() };
        let reading = read_in_blocks(&wanted, block_bytes, &mut kept).unwrap();
        (kept, reading.counted)
    }

    fn error(&self) -> String {
        let error = read(&self.wanted, &mut RecordedSink::default()).unwrap_err();
        error.to_string().replace(&*self.folder.path().to_string_lossy(), "")
    }
}

/// Statements of a plain log with the usual prefix of Debian, with `%e`.
fn statements(log: &str) -> (Vec<ReportedStatement>, RecordCounts) {
    let (kept, reading) = Logs::one(log).prefix("%m [%p] %q%u@%d %e ").read();
    (kept.statements, reading.counted)
}
