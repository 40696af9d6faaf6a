//! The words that statements begin with: the only list of them.

use super::class::Class;
use super::token::{Kind, Token};

/// Declares the verbs: variant, its words, and the class of a statement where no further word has a
/// say in it.
macro_rules! verbs {
    ($($verb:ident $($word:literal)+ $class:ident,)*) => {
        /// The word that a statement begins with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // each is the word itself
        pub enum Verb {
            $($verb,)*
        }

        const VERBS: &[(&str, Verb, Class)] = &[$($(($word, Verb::$verb, Class::$class),)+)*];
    };
}

// In the order of their letters, which the search needs.
verbs! {
    Abort "abort" Transaction,
    Alter "alter" Ddl,
    Analyze "analyse" "analyze" Maintenance,
    Begin "begin" Transaction,
    Call "call" Procedure,
    Checkpoint "checkpoint" Maintenance,
    Close "close" Cursor,
    Cluster "cluster" Maintenance,
    Comment "comment" Ddl,
    Commit "commit" Transaction,
    Copy "copy" Copy,
    Create "create" Ddl,
    Deallocate "deallocate" Prepared,
    Declare "declare" Cursor,
    Delete "delete" Delete,
    Discard "discard" Utility,
    Do "do" Procedure,
    Drop "drop" Ddl,
    End "end" Transaction,
    Execute "execute" Prepared,
    Explain "explain" Utility,
    Fetch "fetch" Cursor,
    Grant "grant" Ddl,
    Import "import" Ddl,
    Insert "insert" Insert,
    Listen "listen" Utility,
    Load "load" Utility,
    Lock "lock" Utility,
    Merge "merge" Merge,
    Move "move" Cursor,
    Notify "notify" Utility,
    Prepare "prepare" Prepared,
    Reassign "reassign" Ddl,
    Refresh "refresh" Maintenance,
    Reindex "reindex" Maintenance,
    Release "release" Transaction,
    Repack "repack" Maintenance,
    Reset "reset" Utility,
    Revoke "revoke" Ddl,
    Rollback "rollback" Transaction,
    Savepoint "savepoint" Transaction,
    Security "security" Ddl,
    Select "select" Select,
    Set "set" Utility,
    Show "show" Utility,
    Start "start" Transaction,
    Table "table" Select,
    Truncate "truncate" Ddl,
    Unlisten "unlisten" Utility,
    Update "update" Update,
    Vacuum "vacuum" Maintenance,
    Values "values" Select,
    With "with" Select,
}

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
        for &(word, verb, _) in VERBS {
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
