//! The lines of all files in order of time: a merge of files that each are in that order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::LogError;
use super::file::LogFile;
use super::line::Line;
use super::spec::LogSpec;

/// A file and the line that is next in it.
#[derive(Debug)]
struct Source {
    process: usize,
    file: LogFile,
    head: Line,
}

/// The lines of all files.
#[derive(Debug)]
pub struct Merge {
    /// Those that have lines left, by their place in the heap's entries.
    sources: Vec<Source>,
    /// (time of the next line, source): equal times go by the order of the files.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Of files that have no lines at all.
    empty_but_truncated: u64,
}

impl Merge {
    /// Opens all files of a sample.
    ///
    /// # Errors
    ///
    /// When one cannot be opened, or its first line makes no sense.
    pub fn open(spec: &LogSpec) -> Result<Merge, LogError> {
        let mut merge =
            Merge { sources: Vec::new(), heads: BinaryHeap::new(), empty_but_truncated: 0 };
        for (process, paths) in spec.processes.iter().enumerate() {
            for path in paths {
                let mut file = LogFile::open(path, spec)?;
                let Some(head) = file.next_line()? else {
                    merge.empty_but_truncated += u64::from(file.is_truncated);
                    continue;
                };
                merge.heads.push(Reverse((head.end_unix_us, merge.sources.len())));
                merge.sources.push(Source { process, file, head });
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
        let Some(mut top) = self.heads.peek_mut() else { return Ok(None) };
        let Reverse((_, place)) = *top;
        let source = &mut self.sources[place];
        let line = source.head;
        match source.file.next_line()? {
            Some(head) => {
                source.head = head;
                *top = Reverse((head.end_unix_us, place));
            }
            None => {
                PeekMut::pop(top);
            }
        }
        Ok(Some((source.process, line)))
    }

    /// Lines that were cut off, and lines that were out of order, so far.
    pub fn oddities(&self) -> (u64, u64) {
        let files = || self.sources.iter().map(|source| &source.file);
        let truncated = files().filter(|file| file.is_truncated).count() as u64;
        let disordered = files().map(|file| file.disordered_lines).sum();
        (truncated + self.empty_but_truncated, disordered)
    }
}
