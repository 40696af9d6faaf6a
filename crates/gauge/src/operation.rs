//! The kinds of request that a sample distinguishes.

/// What one request does. Each kind has its own histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Operation {
    /// Reads a block.
    Read = 0,
    /// Writes a block.
    Write = 1,
    /// Makes earlier writes durable: fsync or fdatasync.
    Sync = 2,
    /// Appends a block and makes it durable, timed as one: what a database's commit waits for.
    Commit = 3,
    /// Reads a block here and writes it there, timed as one.
    Copy = 4,
    /// Names, finds or removes a file or a folder: open, close, create, delete, stat, list.
    Metadata = 5,
}

impl Operation {
    /// All kinds, in the order of their index.
    pub const ALL: [Operation; 6] = [
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::Commit,
        Operation::Copy,
        Operation::Metadata,
    ];

    /// The word used in results, tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::Commit => "commit",
            Operation::Copy => "copy",
            Operation::Metadata => "metadata",
        }
    }

    /// Index in [`Operation::ALL`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether the request alters its target.
    pub fn writes(self) -> bool {
        !matches!(self, Operation::Read)
    }
}
