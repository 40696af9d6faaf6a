//! Guesses the `log_line_prefix` of a plain log from its first lines.
//!
//! Candidates are the prefixes in use: PostgreSQL's own and Debian's, those that pgBadger's and
//! pgreplay's manuals require, and those of the clouds. The one that fits most lines is taken, of
//! several the first.

use super::message::Label;
use super::prefix::{Prefix, session_id, virtual_transaction};
use super::record::{Origin, Span};
use super::stamp::Zones;

/// Lines that are examined.
const LINES_MAX: usize = 400;

/// Beginnings of prefixes.
const HEADS: [&str; 8] = [
    "%m [%p] ",
    "%m [%p]: ",
    "%m [%p]: [%l-1] ",
    "%m [%p]: [%l] ",
    "%m [%p-%l] ",
    "%m %p ",
    "%m ",
    "",
];

/// Their continuations: nothing first, then the longer before the shorter, which would fit too.
const TAILS: [&str; 27] = [
    "",
    "%q%u@%d/%a %c %l %v %x %e ",
    "%q%u@%d %a %c %v %x %e ",
    "%q%u@%d %c %v %x ",
    "%q%u@%d %c ",
    "%c %v %x %e %q%u@%d %a ",
    "%c %q%u@%d ",
    "[%c] %q%u@%d ",
    "%c ",
    "[%c] ",
    "user=%u,db=%d,app=%a,client=%h ",
    "%quser=%u,db=%d,app=%a,client=%h ",
    "db=%d,user=%u,app=%a,client=%h ",
    "%qdb=%d,user=%u,app=%a,client=%h ",
    "user=%u,db=%d,client=%h ",
    "user=%u,db=%d,app=%a ",
    "%q[user=%u,db=%d,app=%a] ",
    "user=%u,db=%d ",
    "%quser=%u,db=%d ",
    "db=%d,user=%u ",
    "%q[%u@%d] ",
    "%q%u@%d/%a ",
    "%q%u@%d %a ",
    "%q%u@%d ",
    "%q%u@%d/%a %e ",
    "%q%u@%d %a %e ",
    "%q%u@%d %e ",
];

/// Prefixes that are not made of these.
const OTHERS: [&str; 14] = [
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a", // RDS since PostgreSQL 16
    "%m:%r:%u@%d:[%p]:",                       // RDS
    "%m-%c-",                                  // Azure
    "[%p][%b][%v][%x] %q[user=%u,db=%d,app=%a] ", // Crunchy
    "%m|%u|%d|%c|",                            // pgreplay
    "%m|%u|%d|%p|",
    "%m [%p] [%u@%d] ",
    "%m %u@%d [%p] ",
    "%m %u %d %p ",
    "%m %u %d [%p] ",
    "< %m >",
    "<%m> ",
    "%n [%p] ",
    "[%m] [%p] ",
];

/// The prefix that fits most lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixGuess {
    /// The prefix.
    pub prefix: Prefix,
    /// Lines that it fits.
    pub fitting: usize,
    /// Lines that were examined.
    pub lines: usize,
}

/// Guesses the prefix of a log that begins with these bytes; None if none fits more than half of
/// it.
pub fn guess(bytes: &[u8]) -> Option<PrefixGuess> {
    let lines = lines(bytes);
    let made = HEADS.iter().flat_map(|head| TAILS.iter().map(move |tail| format!("{head}{tail}")));
    let all = made.chain(OTHERS.iter().map(|&other| other.to_owned()));
    let mut best: Option<PrefixGuess> = None;
    for text in all {
        let prefix = Prefix::new(&text);
        let fitting = lines.iter().filter(|&&line| fits(&prefix, bytes, line)).count();
        if fitting > best.as_ref().map_or(0, |best| best.fitting) {
            best = Some(PrefixGuess { prefix, fitting, lines: lines.len() });
            if fitting == lines.len() {
                break;
            }
        }
    }
    let best = best.filter(|best| best.fitting * 2 > best.lines)?;
    Some(with_seconds(best, bytes, &lines))
}

/// The first lines that do not continue the line before them.
fn lines(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', bytes)
        .chain((bytes.last() != Some(&b'\n')).then_some(bytes.len()));
    let lines = ends.map(|end| (std::mem::replace(&mut start, end + 1), end));
    let begins = |&(start, end): &(usize, usize)| {
        !matches!(&bytes[start..end], b"" | b"\r") && bytes[start] != b'\t'
    };
    lines.filter(begins).take(LINES_MAX).collect()
}

/// Whether a prefix fits a line, with plausible names.
fn fits(prefix: &Prefix, bytes: &[u8], line: (usize, usize)) -> bool {
    let mut origin = Origin::default();
    let line_label = prefix.read(bytes, line, &mut Zones::default(), &mut origin);
    let is_label = matches!(
        line_label.map(|line_label| line_label.label),
        Some(Label::Record(_) | Label::Section(_))
    );
    let is_plain = |name: Span| {
        !name.of(bytes).iter().any(|byte| matches!(byte, b' ' | b',' | b'=' | b'|' | b'[' | b']'))
    };
    let has_fields = |name: Span| name.of(bytes).split(|&byte| byte == b' ').any(is_field);
    is_label
        && is_plain(origin.user)
        && is_plain(origin.database)
        && !has_fields(origin.application)
}

/// Whether a word looks like the output of `%c` or `%v`, or of `%e` where nothing failed.
fn is_field(word: &[u8]) -> bool {
    let is_session = session_id(word).is_some_and(|(.., length)| length == word.len());
    is_session
        || word == b"00000"
        || (!word.is_empty() && virtual_transaction(word).1 == word.len())
}

/// `%t` instead of `%m` where stamps have no fractions: both are read alike.
fn with_seconds(best: PrefixGuess, bytes: &[u8], lines: &[(usize, usize)]) -> PrefixGuess {
    let text = best.prefix.text();
    let Some(at) = text.find("%m") else { return best };
    let has_fraction = lines.iter().any(|&(start, _)| bytes.get(start + at + 19) == Some(&b'.'));
    if has_fraction {
        return best;
    }
    PrefixGuess { prefix: Prefix::new(&text.replace("%m", "%t")), ..best }
}
