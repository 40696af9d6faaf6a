//! Reads a log and discards it, to measure the reading alone, for bench/read.py.
//!
//! ```text
//! read_log WORKERS FORMAT LOG [PREFIX]
//! ```

use std::convert::Infallible;
use std::env;
use std::error::Error;

use seatrial_ingest::log::{Format, ReadOptions, read};
use seatrial_trace::captured::{Session, SessionId, Sink, Statement};

/// A sink that counts, so that the compiler cannot omit the reading.
#[derive(Debug, Default)]
struct CountingSink {
    sessions: u64,
    statements: u64,
    bytes: u64,
}

impl Sink for CountingSink {
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
    let mut counter = CountingSink::default();
    read(&options, &mut counter)?;
    println!("{counter:?}");
    Ok(())
}
