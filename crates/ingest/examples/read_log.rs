//! Reads a log and keeps nothing of it: how fast reading is by itself, for bench/read.py.
//!
//! ```text
//! read_log WORKERS FORMAT LOG [PREFIX]
//! ```

use std::convert::Infallible;
use std::env;
use std::error::Error;

use seatrial_ingest::log::{Format, ReadOptions, read};
use seatrial_trace::captured::{Session, SessionId, Sink, Statement};

/// Counts, so that nothing of the reading can be left out.
#[derive(Debug, Default)]
struct Counted {
    sessions: u64,
    statements: u64,
    bytes: u64,
}

impl Sink for Counted {
    type Error = Infallible;

    fn session(&mut self, _: &Session) -> Result<(), Infallible> {
        self.sessions += 1;
        Ok(())
    }

    fn session_changed(&mut self, _: SessionId, _: &Session) -> Result<(), Infallible> {
        Ok(())
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), Infallible> {
        self.statements += 1;
        let values = statement.parameters.iter().flatten();
        self.bytes += (statement.sql.len() + values.map(Vec::len).sum::<usize>()) as u64;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [workers, format, log, prefix @ ..] = arguments.as_slice() else {
        return Err("read_log WORKERS FORMAT LOG [PREFIX]".into());
    };
    let formats = [Format::Stderr, Format::Csv, Format::Json, Format::Raw];
    let options = ReadOptions {
        paths: vec![log.into()],
        format: formats.into_iter().find(|known| known.name() == format),
        prefix: prefix.first().cloned(),
        workers: workers.parse()?,
    };
    let mut counted = Counted::default();
    read(&options, &mut counted)?;
    println!("{counted:?}");
    Ok(())
}
