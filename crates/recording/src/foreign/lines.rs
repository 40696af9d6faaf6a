//! Lines of a text file, one at a time, with their numbers.

use std::io::{self, BufRead, Read};

/// A longer line is of no trace.
pub const LINE_BYTES_MAX: usize = 4096;

/// Lines of a file.
pub struct Lines<'a> {
    input: &'a mut dyn BufRead,
    line: Vec<u8>,
    /// Number of the last line, from 1.
    pub number: u64,
}

impl<'a> Lines<'a> {
    /// Returns the lines of a file that is at its beginning.
    pub fn new(input: &'a mut dyn BufRead) -> Lines<'a> {
        Lines { input, line: Vec::new(), number: 0 }
    }

    /// Returns the next line that is not blank, without blanks around it, and its number; None at
    /// the end.
    ///
    /// A line longer than [`LINE_BYTES_MAX`] is an error of kind `InvalidData`.
    pub fn next_line(&mut self) -> io::Result<Option<(&[u8], u64)>> {
        loop {
            self.line.clear();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut *self.input).take(limit).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if read > LINE_BYTES_MAX {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        Ok(Some((self.line.trim_ascii(), self.number)))
    }
}
