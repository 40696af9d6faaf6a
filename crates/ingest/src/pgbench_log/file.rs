//! The lines of one file, in bounded memory.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::LogError;
use super::line::{Line, LineFormat, lossy};
use super::spec::LogSpec;

/// Read size, and the longest possible line. A line of pgbench has 100 bytes at most.
const BUFFER_BYTES: usize = 128 << 10;

/// A thread writes its lines as its transactions end. A wall clock that is set (PostgreSQL up to 13
/// reads it for each line) may put them into disorder by less than this; more of it means that the
/// file is not one thread's.
const DISORDER_US_MAX: u64 = 1_000_000;

/// Length of a malformed line in a message.
const SHOWN_BYTES_MAX: usize = 120;

/// The log of one thread.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    format: LineFormat,
    buffer: Vec<u8>,
    /// The part of the buffer that is not parsed yet.
    start: usize,
    end: usize,
    is_at_end: bool,
    lines: u64,
    last_us: u64,
    /// Whether the last line was cut off.
    pub is_truncated: bool,
    /// Lines with an earlier time than the one before them.
    pub disordered_lines: u64,
}

impl LogFile {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// When the system does not let it be opened.
    pub fn open(path: &Path, spec: &LogSpec) -> Result<LogFile, LogError> {
        let file =
            File::open(path).map_err(|source| LogError::Io { path: path.to_path_buf(), source })?;
        Ok(LogFile {
            path: path.to_path_buf(),
            file,
            format: LineFormat::of(spec),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            is_at_end: false,
            lines: 0,
            last_us: 0,
            is_truncated: false,
            disordered_lines: 0,
        })
    }

    /// The next line, its time never earlier than that of the one before; `None` at the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or the line makes no sense.
    #[inline]
    pub fn next_line(&mut self) -> Result<Option<Line>, LogError> {
        loop {
            let unparsed = &self.buffer[self.start..self.end];
            if let Some(length) = memchr::memchr(b'\n', unparsed) {
                let text = &unparsed[..length];
                self.lines += 1;
                let line = match self.format.parse(text) {
                    Ok(line) => line,
                    Err(reason) => return Err(self.fault(&lossy(text), reason)),
                };
                self.start += length + 1;
                return self.in_order(line).map(Some);
            }
            if self.is_at_end {
                self.is_truncated = !unparsed.is_empty();
                self.start = self.end;
                return Ok(None);
            }
            self.fill()?;
        }
    }

    #[inline]
    fn in_order(&mut self, mut line: Line) -> Result<Line, LogError> {
        if line.end_unix_us < self.last_us {
            let behind_us = self.last_us - line.end_unix_us;
            if behind_us > DISORDER_US_MAX {
                return Err(self.disorder(behind_us));
            }
            self.disordered_lines += 1;
            line.end_unix_us = self.last_us;
        }
        self.last_us = line.end_unix_us;
        Ok(line)
    }

    /// Moves the unparsed bytes to the front and reads more behind them.
    #[cold]
    fn fill(&mut self) -> Result<(), LogError> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            self.lines += 1;
            let beginning = lossy(&self.buffer[..SHOWN_BYTES_MAX]);
            return Err(self.fault(&beginning, format!("no line's end in {BUFFER_BYTES} bytes")));
        }
        let read = loop {
            match self.file.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let read = read.map_err(|source| LogError::Io { path: self.path.clone(), source })?;
        self.is_at_end = read == 0;
        self.end += read;
        Ok(())
    }

    #[cold]
    fn fault(&self, text: &str, reason: String) -> LogError {
        let text = text.chars().take(SHOWN_BYTES_MAX).collect();
        LogError::Line { path: self.path.clone(), line: self.lines, text, reason }
    }

    #[cold]
    fn disorder(&self, behind_us: u64) -> LogError {
        let before = self.buffer[..self.start].strip_suffix(b"\n").unwrap_or_default();
        let text = before.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let reason = format!(
            "it ended {:.3} s before the line above it; a file must be one thread's, as pgbench \
             wrote it: give the files of several threads one by one, not put together",
            behind_us as f64 / 1e6
        );
        self.fault(&lossy(text), reason)
    }
}
