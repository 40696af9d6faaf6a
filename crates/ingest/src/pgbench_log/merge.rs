//! Merges the lines of all files in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::LogError;
use super::file::LogFile;
use super::line::Line;
use super::spec::LogSpec;

/// A file and its next line.
#[derive(Debug)]
struct MergeSource {
    process: usize,
    file: LogFile,
    next_line: Line,
}

/// The lines of all files.
#[derive(Debug)]
pub struct Merge {
    /// Files with at least one line.
    sources: Vec<MergeSource>,
    /// (time of the next line, source): equal times go by the order of the files.
    by_time: BinaryHeap<Reverse<(u64, usize)>>,
    /// Files whose only line was cut off.
    truncated_empty_files: u64,
}

impl Merge {
    /// Opens all files of a sample.
    ///
    /// # Errors
    ///
    /// When one cannot be opened, or its first line makes no sense.
    pub fn open(spec: &LogSpec) -> Result<Merge, LogError> {
        let mut merge =
            Merge { sources: Vec::new(), by_time: BinaryHeap::new(), truncated_empty_files: 0 };
        for (process, paths) in spec.processes.iter().enumerate() {
            for path in paths {
                let mut file = LogFile::open(path, spec)?;
                let Some(next_line) = file.next_line()? else {
                    merge.truncated_empty_files += u64::from(file.is_truncated);
                    continue;
                };
                merge.by_time.push(Reverse((next_line.end_unix_us, merge.sources.len())));
                merge.sources.push(MergeSource { process, file, next_line });
            }
        }
        Ok(merge)
    }

    /// The earliest line that is left, with its process; `None` when all are read.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or a line makes no sense.
    #[inline]
    pub fn next_line(&mut self) -> Result<Option<(usize, Line)>, LogError> {
        let Some(mut earliest) = self.by_time.peek_mut() else { return Ok(None) };
        let Reverse((_, index)) = *earliest;
        let source = &mut self.sources[index];
        let line = source.next_line;
        match source.file.next_line()? {
            Some(next_line) => {
                source.next_line = next_line;
                *earliest = Reverse((next_line.end_unix_us, index));
            }
            None => {
                PeekMut::pop(earliest);
            }
        }
        Ok(Some((source.process, line)))
    }

    /// Lines that were cut off, and lines that were out of order, so far.
    pub fn damaged_lines(&self) -> (u64, u64) {
        let files = || self.sources.iter().map(|source| &source.file);
        let truncated = files().filter(|file| file.is_truncated).count() as u64;
        let disordered = files().map(|file| file.disordered_lines).sum();
        (truncated + self.truncated_empty_files, disordered)
    }
}
