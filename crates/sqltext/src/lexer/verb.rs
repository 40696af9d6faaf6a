//! The words that statements begin with: the only list of them.

use super::class::Class;
use super::token::{Kind, Token};

/// The word that a statement begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is the word itself
pub enum Verb {
    Abort,
    Alter,
    Analyze,
    Begin,
    Call,
    Checkpoint,
    Close,
    Cluster,
    Comment,
    Commit,
    Copy,
    Create,
    Deallocate,
    Declare,
    Delete,
    Discard,
    Do,
    Drop,
    End,
    Execute,
    Explain,
    Fetch,
    Grant,
    Import,
    Insert,
    Listen,
    Load,
    Lock,
    Merge,
    Move,
    Notify,
    Prepare,
    Reassign,
    Refresh,
    Reindex,
    Release,
    Repack,
    Reset,
    Revoke,
    Rollback,
    Savepoint,
    Security,
    Select,
    Set,
    Show,
    Start,
    Table,
    Truncate,
    Unlisten,
    Update,
    Vacuum,
    Values,
    With,
}

/// All of them in the order of their letters, with the class of a statement where no further word
/// has a say in it.
const VERBS: [(&str, Verb, Class); 54] = [
    ("abort", Verb::Abort, Class::Transaction),
    ("alter", Verb::Alter, Class::Ddl),
    ("analyse", Verb::Analyze, Class::Maintenance),
    ("analyze", Verb::Analyze, Class::Maintenance),
    ("begin", Verb::Begin, Class::Transaction),
    ("call", Verb::Call, Class::Procedure),
    ("checkpoint", Verb::Checkpoint, Class::Maintenance),
    ("close", Verb::Close, Class::Cursor),
    ("cluster", Verb::Cluster, Class::Maintenance),
    ("comment", Verb::Comment, Class::Ddl),
    ("commit", Verb::Commit, Class::Transaction),
    ("copy", Verb::Copy, Class::Copy),
    ("create", Verb::Create, Class::Ddl),
    ("deallocate", Verb::Deallocate, Class::Prepared),
    ("declare", Verb::Declare, Class::Cursor),
    ("delete", Verb::Delete, Class::Delete),
    ("discard", Verb::Discard, Class::Utility),
    ("do", Verb::Do, Class::Procedure),
    ("drop", Verb::Drop, Class::Ddl),
    ("end", Verb::End, Class::Transaction),
    ("execute", Verb::Execute, Class::Prepared),
    ("explain", Verb::Explain, Class::Utility),
    ("fetch", Verb::Fetch, Class::Cursor),
    ("grant", Verb::Grant, Class::Ddl),
    ("import", Verb::Import, Class::Ddl),
    ("insert", Verb::Insert, Class::Insert),
    ("listen", Verb::Listen, Class::Utility),
    ("load", Verb::Load, Class::Utility),
    ("lock", Verb::Lock, Class::Utility),
    ("merge", Verb::Merge, Class::Merge),
    ("move", Verb::Move, Class::Cursor),
    ("notify", Verb::Notify, Class::Utility),
    ("prepare", Verb::Prepare, Class::Prepared),
    ("reassign", Verb::Reassign, Class::Ddl),
    ("refresh", Verb::Refresh, Class::Maintenance),
    ("reindex", Verb::Reindex, Class::Maintenance),
    ("release", Verb::Release, Class::Transaction),
    ("repack", Verb::Repack, Class::Maintenance),
    ("reset", Verb::Reset, Class::Utility),
    ("revoke", Verb::Revoke, Class::Ddl),
    ("rollback", Verb::Rollback, Class::Transaction),
    ("savepoint", Verb::Savepoint, Class::Transaction),
    ("security", Verb::Security, Class::Ddl),
    ("select", Verb::Select, Class::Select),
    ("set", Verb::Set, Class::Utility),
    ("show", Verb::Show, Class::Utility),
    ("start", Verb::Start, Class::Transaction),
    ("table", Verb::Table, Class::Select),
    ("truncate", Verb::Truncate, Class::Ddl),
    ("unlisten", Verb::Unlisten, Class::Utility),
    ("update", Verb::Update, Class::Update),
    ("vacuum", Verb::Vacuum, Class::Maintenance),
    ("values", Verb::Values, Class::Select),
    ("with", Verb::With, Class::Select),
];

/// The longest is CHECKPOINT.
const WORD_BYTES_MAX: usize = 10;

/// The words as numbers, in the same order: to compare these takes an instruction or two, and a
/// verb is looked up for each statement of a trace, more than once.
const KEYS: [u128; VERBS.len()] = {
    let mut keys = [0; VERBS.len()];
    let mut index = 0;
    while index < keys.len() {
        keys[index] = key(VERBS[index].0.as_bytes());
        index += 1;
    }
    keys
};

/// The bytes of a word as a number, the first ones weighing most.
const fn key(word: &[u8]) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    let mut at = 0;
    while at < word.len() {
        bytes[at] = word[at];
        at += 1;
    }
    u128::from_be_bytes(bytes)
}

impl Verb {
    /// The verb of a token; None where it is invalid, or in quotes.
    #[inline]
    pub fn of(token: &Token<'_>) -> Option<Verb> {
        if token.kind == Kind::Word { Verb::of_word(token.text) } else { None }
    }

    /// The verb of a word in whatever case.
    #[inline]
    pub fn of_word(word: &[u8]) -> Option<Verb> {
        find(word).map(|(verb, _)| verb)
    }
}

/// The class of a statement that begins with a token, as far as its first word shows.
pub(super) fn class_of(token: &Token<'_>) -> Option<Class> {
    let word = Some(token.text).filter(|_| token.kind == Kind::Word)?;
    find(word).map(|(_, class)| class)
}

fn find(word: &[u8]) -> Option<(Verb, Class)> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let lower = key(word).to_be_bytes().map(|byte| byte.to_ascii_lowercase());
    let (lookup, verb, class) = VERBS[KEYS.binary_search(&u128::from_be_bytes(lower)).ok()?];
    // A word that goes on with zero bytes has the same number.
    (lookup.len() == word.len()).then_some((verb, class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_found_in_whatever_case() {
        assert!(VERBS.is_sorted_by_key(|(word, ..)| *word));
        for (word, verb, _) in VERBS {
            assert_eq!(Verb::of_word(word.as_bytes()), Some(verb), "{word}");
            assert_eq!(Verb::of_word(word.to_uppercase().as_bytes()), Some(verb), "{word}");
        }
        for word in ["", "selects", "sel", "checkpoints", "returning", "as", "do\0", "checkpoint\0"]
        {
            assert_eq!(Verb::of_word(word.as_bytes()), None, "{word}");
        }
        let quoted = Token { kind: Kind::QuotedName, text: b"select" };
        assert_eq!(Verb::of(&quoted), None);
    }
}
