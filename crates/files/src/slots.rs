//! A thread's open files, and memory for what it reads and writes.

use std::fs::File;
use std::sync::Arc;

/// Memory is aligned for O_DIRECT.
pub const ALIGN_BYTES: usize = 4096;

/// A slot for an open file.
#[derive(Debug, Default)]
pub struct FileSlot {
    /// The file, while it is open.
    pub file: Option<Arc<File>>,
    /// Set and number of the file that was opened here last.
    pub entry: Option<(usize, u32)>,
    /// Where the next sequential transfer begins.
    pub position_bytes: u64,
}

/// Aligned memory of fixed size.
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    size_bytes: usize,
}

impl AlignedBuffer {
    /// So many bytes of zeros.
    pub fn of(size_bytes: usize) -> AlignedBuffer {
        let bytes = vec![0u8; size_bytes + ALIGN_BYTES];
        let start = bytes.as_ptr().align_offset(ALIGN_BYTES).min(ALIGN_BYTES);
        AlignedBuffer { bytes, start, size_bytes }
    }

    /// All of it.
    pub fn all(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.size_bytes]
    }

    /// All of it, to be written.
    pub fn all_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.size_bytes]
    }

    /// At least so many bytes; what it held may be gone.
    pub fn at_least(&mut self, size_bytes: usize) -> &mut [u8] {
        if self.size_bytes < size_bytes {
            *self = AlignedBuffer::of(size_bytes.next_multiple_of(ALIGN_BYTES));
        }
        &mut self.bytes[self.start..self.start + size_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_grows() {
        let mut memory = AlignedBuffer::of(10);
        assert_eq!(memory.all().len(), 10);
        assert_eq!(memory.at_least(100_000).as_ptr() as usize % ALIGN_BYTES, 0);
        assert_eq!(memory.all_mut().len(), 102_400);
    }
}
