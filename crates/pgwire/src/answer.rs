//! What a server said to a statement.

/// Where a session's transaction stands, as a server tells when it is ready again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Outside of any.
    #[default]
    Idle,
    /// Inside of one.
    Active,
    /// Inside of one that failed.
    Failed,
}

/// An error that ended a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The code.
    pub sqlstate: [u8; 5],
    /// The server's sentence.
    pub message: String,
}

/// What a server said to a statement, until it was ready for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What ended it; None for a success.
    pub error: Option<ServerError>,
    /// The last command tag, without its numbers, such as `INSERT` or `COMMIT`.
    pub tag: Tag,
    /// Rows that it returned or changed, over all commands of the text; None where no tag has any.
    pub rows: Option<u64>,
    /// Where the session's transaction stands now.
    pub status: TransactionStatus,
    /// Notices and warnings that came with it.
    pub notices: u32,
    /// Bytes that came back.
    pub received_bytes: u64,
    /// Values of rows, where they are to be kept: of each row those of the columns that were asked
    /// for, one after the other; None for NULL and for what was too long.
    pub kept: Vec<Option<Box<[u8]>>>,
}

/// A command tag without its numbers; longer ones are cut, none of PostgreSQL's is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    bytes: [u8; Tag::BYTES_MAX],
    length_bytes: u8,
}

impl Tag {
    /// `CREATE TEXT SEARCH CONFIGURATION` is the longest.
    const BYTES_MAX: usize = 32;

    /// The tag of a `CommandComplete` message, as far as its first number.
    pub fn of(told: &[u8]) -> Tag {
        let words = told.iter().position(u8::is_ascii_digit).unwrap_or(told.len());
        let words = told[..words].trim_ascii_end();
        let length = words.len().min(Tag::BYTES_MAX);
        let mut bytes = [0; Tag::BYTES_MAX];
        bytes[..length].copy_from_slice(&words[..length]);
        Tag { bytes, length_bytes: length as u8 }
    }

    /// The words of it; empty for none.
    pub fn words(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length_bytes)]
    }

    /// Whether a transaction ended well by it.
    pub fn commits(&self) -> bool {
        matches!(self.words(), b"COMMIT" | b"COMMIT PREPARED")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_its_words() {
        for (told, words) in [
            (&b"INSERT 0 1"[..], &b"INSERT"[..]),
            (b"SELECT 12", b"SELECT"),
            (b"CREATE TABLE AS", b"CREATE TABLE AS"),
            (b"COMMIT", b"COMMIT"),
            (b"", b""),
        ] {
            assert_eq!(Tag::of(told).words(), words);
        }
        assert!(Tag::of(b"COMMIT").commits());
        assert!(!Tag::of(b"ROLLBACK").commits());
    }
}
