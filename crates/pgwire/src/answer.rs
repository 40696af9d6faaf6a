//! A server's answer to a statement.

/// The transaction status of a session, as in `ReadyForQuery`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction is open.
    #[default]
    Idle,
    /// A transaction is open.
    Active,
    /// The open transaction has failed.
    Failed,
}

/// An error that ended a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The SQLSTATE.
    pub sqlstate: [u8; 5],
    /// The server's message.
    pub message: String,
}

/// A server's answer to a statement, up to `ReadyForQuery`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The error that ended it; None for a success.
    pub error: Option<ServerError>,
    /// The last command tag, without its numbers, such as `INSERT` or `COMMIT`.
    pub tag: Tag,
    /// Rows returned or changed, over all commands of the text; None if no tag has a number.
    pub rows: Option<u64>,
    /// The session's current transaction status.
    pub status: TransactionStatus,
    /// Values of rows, if they are to be kept: for each row those of the requested columns, in
    /// sequence; None for NULL and for values that are too long.
    pub kept: Vec<Option<Box<[u8]>>>,
}

/// A command tag without its numbers; longer ones than any of PostgreSQL's are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    bytes: [u8; Tag::BYTES_MAX],
    length_bytes: u8,
}

impl Tag {
    /// `CREATE TEXT SEARCH CONFIGURATION` is the longest.
    const BYTES_MAX: usize = 32;

    /// The tag of a `CommandComplete` message, as far as its first number.
    pub fn of(text: &[u8]) -> Tag {
        let words = text.iter().position(u8::is_ascii_digit).unwrap_or(text.len());
        let words = text[..words].trim_ascii_end();
        let length = words.len().min(Tag::BYTES_MAX);
        let mut bytes = [0; Tag::BYTES_MAX];
        bytes[..length].copy_from_slice(&words[..length]);
        Tag { bytes, length_bytes: length as u8 }
    }

    /// Its words; empty for none.
    pub fn words(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length_bytes)]
    }

    /// Whether it commits a transaction.
    pub fn commits(&self) -> bool {
        matches!(self.words(), b"COMMIT" | b"COMMIT PREPARED")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_its_words() {
        for (text, words) in [
            (&b"INSERT 0 1"[..], &b"INSERT"[..]),
            (b"SELECT 12", b"SELECT"),
            (b"CREATE TABLE AS", b"CREATE TABLE AS"),
            (b"COMMIT", b"COMMIT"),
            (b"", b""),
        ] {
            assert_eq!(Tag::of(text).words(), words);
        }
        assert!(Tag::of(b"COMMIT").commits());
        assert!(!Tag::of(b"ROLLBACK").commits());
    }
}
