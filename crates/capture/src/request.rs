//! What a client asks of the server, message by message.

use std::cell::RefCell;
use std::rc::Rc;

use seatrial_pgwire::messages;
use seatrial_sqltext::lexer;
use seatrial_sqltext::lexer::token::Kind;
use seatrial_trace::captured::Skip;

use super::stream::Message;

/// Functions of sequences, whose results are kept.
const OF_SEQUENCES: [&str; 4] = ["nextval", "currval", "lastval", "setval"];

/// What a text is given that is longer than can be read.
const SHOWN_BYTES: usize = 8 << 10;

/// What is asked, and when it was sent.
#[derive(Debug)]
pub struct Request {
    /// When it was passed on, in microseconds since 1970.
    pub sent_us: i64,
    /// What is asked.
    pub asked: Asked,
}

/// What is asked.
#[derive(Debug)]
pub enum Asked {
    /// The whole text as one message.
    Query(Text),
    /// A text is prepared under a name.
    Parse(Rc<Prepared>),
    /// Parameters are given to a prepared text, which makes a portal.
    Bind(Rc<Bound>),
    /// What a prepared statement of this name takes and returns.
    DescribeStatement(Vec<u8>),
    /// What a portal of this name returns.
    DescribePortal(Vec<u8>),
    /// A portal of this name is executed.
    Execute(Vec<u8>),
    /// A prepared statement of this name is let go.
    CloseStatement(Vec<u8>),
    /// A portal of this name is let go.
    ClosePortal(Vec<u8>),
    /// A function is called by its number.
    Call(u32),
    /// The data of a COPY are at their end.
    CopyEnd,
    /// The exchange ends.
    Sync,
}

/// Which rows of a statement are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// None of them.
    Nothing,
    /// The numbers and UUIDs of a few: what a client asks for by a condition may be ids. Of
    /// several, digests of the other values tell one row from another.
    FewRows,
    /// All: what the server made.
    All,
}

/// A statement's text, and what has to be known of it at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text, or its beginning where it is longer than can be read.
    pub sql: Vec<u8>,
    /// Whether it is only a beginning.
    pub is_cut: bool,
    /// Which of the rows that it returns are kept.
    pub keeps: Keeps,
    /// Whether it may begin or end a transaction.
    pub may_control: bool,
}

/// A prepared statement.
#[derive(Debug)]
pub struct Prepared {
    /// Its name; empty for the one without.
    pub name: Vec<u8>,
    /// Its text.
    pub text: Text,
    /// Types of its parameters, as far as they are known; 0 where they are not.
    pub types: RefCell<Vec<u32>>,
    /// What it returns, where rows of it are kept and the client has asked.
    pub columns: RefCell<Vec<Column>>,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: Vec<u8>,
    /// Number of its type.
    pub type_oid: u32,
}

/// Parameters, as they were sent.
#[derive(Debug)]
pub struct Bound {
    /// Name of the portal; empty for the one without.
    pub portal: Vec<u8>,
    /// Name of the prepared statement.
    pub prepared: Vec<u8>,
    /// What follows the names in the message: formats, values, formats of the result.
    body: Vec<u8>,
    is_cut: bool,
}

impl Text {
    /// A text that was sent with what follows it in a message; `is_cut` where its end is missing.
    fn of(sql: &[u8], is_cut: bool) -> Text {
        let sql = if is_cut { &sql[..sql.len().min(SHOWN_BYTES)] } else { sql };
        Text {
            sql: sql.to_vec(),
            is_cut,
            keeps: if is_cut { Keeps::Nothing } else { keeps(sql) },
            may_control: may_control(sql),
        }
    }
}

impl Asked {
    /// What a message asks; None where it asks nothing that is answered.
    pub fn of(message: Message<'_>) -> Option<Asked> {
        let Message { kind, body, body_bytes } = message;
        let is_cut = body.len() < body_bytes;
        let (name, rest) = messages::text(body);
        let of_portal =
            || body.get(1..).map_or_else(|| named(b""), |rest| named(messages::text(rest).0));
        Some(match (kind, body.first()) {
            (b'Q', _) => Asked::Query(Text::of(name, is_cut)),
            (b'P', _) => Asked::Parse(Rc::new(Prepared::of(name, rest, is_cut))),
            (b'B', _) => {
                let (prepared, rest) = messages::text(rest);
                let (portal, prepared) = (named(name), named(prepared));
                Asked::Bind(Rc::new(Bound { portal, prepared, body: rest.to_vec(), is_cut }))
            }
            (b'E', _) => Asked::Execute(named(name)),
            (b'D', Some(b'S')) => Asked::DescribeStatement(of_portal()),
            (b'D', _) => Asked::DescribePortal(of_portal()),
            (b'C', Some(b'S')) => Asked::CloseStatement(of_portal()),
            (b'C', _) => Asked::ClosePortal(of_portal()),
            (b'F', _) => Asked::Call(messages::number(body).unwrap_or(0) as u32),
            (b'c' | b'f', _) => Asked::CopyEnd,
            (b'S', _) => Asked::Sync,
            _ => return None,
        })
    }

    /// Whether a statement comes of it.
    pub fn is_statement(&self) -> bool {
        matches!(self, Asked::Query(_) | Asked::Execute(_) | Asked::Call(_))
    }
}

impl Prepared {
    fn of(name: &[u8], rest: &[u8], is_cut: bool) -> Prepared {
        let (sql, rest) = messages::text(rest);
        let told = rest.get(2..).unwrap_or(&[]).chunks_exact(4);
        let types = told.map(|told| messages::number(told).unwrap_or(0) as u32).collect();
        Prepared {
            name: named(name),
            text: Text::of(sql, is_cut),
            types: RefCell::new(types),
            columns: RefCell::default(),
        }
    }
}

/// A name with memory of its own, even if it is empty, as most are. Without it, a comparison of two
/// names is a masked load at an address where nothing is: the processor takes a hundred times as
/// long for that, and it was a third of a capture's time.
pub fn named(name: &[u8]) -> Vec<u8> {
    let mut own = Vec::with_capacity(name.len().max(1));
    own.extend_from_slice(name);
    own
}

/// What a `ParameterDescription` tells.
pub fn types(body: &[u8]) -> Vec<u32> {
    let told = body.get(2..).unwrap_or(&[]).chunks_exact(4);
    told.map(|told| messages::number(told).unwrap_or(0) as u32).collect()
}

/// What a `RowDescription` tells.
pub fn columns(body: &[u8]) -> Vec<Column> {
    let mut rest = body.get(2..).unwrap_or(&[]);
    let mut columns = Vec::new();
    while !rest.is_empty() {
        let (name, fields) = messages::text(rest);
        // Table, number of the column, type, size of the type, modifier, format.
        let Some((fields, behind)) = fields.split_at_checked(18) else { break };
        let type_oid = messages::number(&fields[6..]).unwrap_or(0) as u32;
        columns.push(Column { name: name.to_vec(), type_oid });
        rest = behind;
    }
    columns
}

/// A parameter as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    /// Its bytes; None is NULL.
    pub value: Option<&'a [u8]>,
    /// Whether it is in the form of its type rather than in text.
    pub is_binary: bool,
}

impl Bound {
    /// The parameters in order; what could not be read ends them.
    ///
    /// # Errors
    ///
    /// The reason for which they are not all there.
    pub fn parameters<'a>(&'a self, mut take: impl FnMut(Sent<'a>)) -> Result<(), Skip> {
        self.read(&mut take).filter(|_| !self.is_cut).map(|_| ()).ok_or(Skip::CutOff)
    }

    /// Whether a column of the result comes in the form of its type rather than in text.
    pub fn returns_binary(&self, column: usize) -> bool {
        let Some(mut rest) = self.read(&mut |_| {}) else { return false };
        let Some(count) = word(&mut rest) else { return false };
        format_of(rest, usize::from(count), column)
    }

    /// Hands out the values; returns what follows them.
    fn read<'a>(&'a self, take: &mut impl FnMut(Sent<'a>)) -> Option<&'a [u8]> {
        let mut rest = &self.body[..];
        let formats = usize::from(word(&mut rest)?);
        let (told, mut rest) = rest.split_at_checked(formats * 2)?;
        let count = usize::from(word(&mut rest)?);
        for place in 0..count {
            let length = messages::number(rest)?;
            rest = &rest[4..];
            let value = match usize::try_from(length) {
                Err(_) => None,
                Ok(length) => {
                    let (value, behind) = rest.split_at_checked(length)?;
                    rest = behind;
                    Some(value)
                }
            };
            take(Sent { value, is_binary: format_of(told, formats, place) });
        }
        Some(rest)
    }
}

/// A format of many: none is text, one is for all.
fn format_of(formats: &[u8], count: usize, place: usize) -> bool {
    let place = if count == 1 { 0 } else { place };
    place < count && formats.get(place * 2..place * 2 + 2) == Some(&[0, 1])
}

fn word(rest: &mut &[u8]) -> Option<u16> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u16::from_be_bytes(*bytes))
}

/// Which rows are kept: those of RETURNING, what functions of sequences give, and the only one of
/// a query with a condition.
fn keeps(sql: &[u8]) -> Keeps {
    if makes_rows(sql) {
        return Keeps::All;
    }
    let text = sql.trim_ascii_start();
    let is_query = [&b"select"[..], b"with"]
        .iter()
        .any(|word| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word)));
    if is_query && may_hold(sql, b'w', b"", b"here") { Keeps::FewRows } else { Keeps::Nothing }
}

/// Whether a text may give back what the server makes for it.
fn makes_rows(sql: &[u8]) -> bool {
    if !(may_hold(sql, b'u', b"ret", b"rning") || may_hold(sql, b'v', b"", b"al")) {
        return false;
    }
    let tokens = lexer::significant(sql);
    tokens.iter().enumerate().any(|(place, token)| {
        let is_call = || tokens.get(place + 1).is_some_and(|next| next.is_sign("("));
        token.is_word("returning")
            || (token.kind == Kind::Word && token.is_one_of(&OF_SEQUENCES) && is_call())
    })
}

/// Whether a letter stands somewhere between these, in whatever case: quicker than to look at
/// words, and most texts have none.
fn may_hold(sql: &[u8], letter: u8, before: &[u8], behind: &[u8]) -> bool {
    memchr::memchr2_iter(letter, letter.to_ascii_uppercase(), sql).any(|at| {
        let begins = at.checked_sub(before.len()).map(|begin| &sql[begin..at]);
        let ends = sql.get(at + 1..at + 1 + behind.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(before))
            && ends.is_some_and(|ends| ends.eq_ignore_ascii_case(behind))
    })
}

/// Whether a text may begin or end a transaction: by its first word, or as it has several.
fn may_control(sql: &[u8]) -> bool {
    let text = sql.trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text);
    let letters = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let words: [&[u8]; 7] =
        [b"begin", b"start", b"commit", b"end", b"rollback", b"abort", b"prepare"];
    letters == 0
        || words.iter().any(|word| text[..letters].eq_ignore_ascii_case(word))
        || memchr::memchr(b';', text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Message<'_> {
        Message { kind, body, body_bytes: body.len() }
    }

    #[test]
    fn rows_are_kept_of_what_the_server_makes() {
        for sql in [
            "INSERT INTO t VALUES (1) RETURNING id",
            "with a as (delete from t returning *) select * from a",
            "select nextval('s')",
            "SELECT LASTVAL ( )",
            "select pg_catalog.setval('s', 1)",
        ] {
            assert_eq!(keeps(sql.as_bytes()), Keeps::All, "{sql}");
        }
        for sql in [
            "select 1",
            "select 'returning'",
            "select 1 -- returning\n",
            "select nextval from t",
            "update t set interval = 1",
        ] {
            assert_eq!(keeps(sql.as_bytes()), Keeps::Nothing, "{sql}");
        }
        for sql in [" SELECT id FROM t\nWHERE key = 1", "with a as (select 1) select 2 where true"]
        {
            assert_eq!(keeps(sql.as_bytes()), Keeps::FewRows, "{sql}");
        }
    }

    #[test]
    fn what_may_control_a_transaction_is_looked_at() {
        for sql in
            ["BEGIN", " commit;", "/* c */ end", "select 1; commit", "prepare transaction 'x'"]
        {
            assert!(may_control(sql.as_bytes()), "{sql}");
        }
        for sql in ["select 1;", "update t set a = 1", "ended"] {
            assert!(!may_control(sql.as_bytes()), "{sql}");
        }
    }

    #[test]
    fn parameters_are_read_as_they_were_sent() {
        // Portal "p" of "s": formats text and binary; values '7', NULL, 4 bytes; results in binary.
        let body =
            b"p\0s\0\0\x03\0\0\0\0\0\x01\0\x03\0\0\0\x017\xff\xff\xff\xff\0\0\0\x04\0\0\0\x05\
            \0\x01\0\x01";
        let Some(Asked::Bind(bound)) = Asked::of(message(b'B', body)) else { panic!() };
        assert_eq!((&bound.portal[..], &bound.prepared[..]), (&b"p"[..], &b"s"[..]));
        let mut sent = Vec::new();
        bound.parameters(|each| sent.push((each.value, each.is_binary))).unwrap();
        let five = Some(&[0, 0, 0, 5][..]);
        assert_eq!(sent, [(Some(&b"7"[..]), false), (None, false), (five, true)]);
        assert!(bound.returns_binary(0) && bound.returns_binary(5));
        for end in 4..body.len() - 4 {
            let Some(Asked::Bind(cut)) = Asked::of(message(b'B', &body[..end])) else { panic!() };
            assert_eq!(cut.parameters(|_| {}), Err(Skip::CutOff), "{end}");
        }
    }

    #[test]
    fn a_prepared_statement_has_its_types() {
        let body = b"s\0select $1\0\0\x02\0\0\0\x17\0\0\0\0";
        let Some(Asked::Parse(prepared)) = Asked::of(message(b'P', body)) else { panic!() };
        assert_eq!(*prepared.types.borrow(), [23, 0]);
        assert_eq!((&prepared.name[..], &prepared.text.sql[..]), (&b"s"[..], &b"select $1"[..]));
        let body = b"\0\x01id\0\0\0\0\x01\0\x02\0\0\0\x14\0\x08\xff\xff\xff\xff\0\0";
        let column = Column { name: b"id".to_vec(), type_oid: 20 };
        assert_eq!(columns(body), [column]);
    }

    #[test]
    fn a_text_that_is_too_long_is_a_beginning() {
        let long = Message { kind: b'Q', body: b"insert into t values (1", body_bytes: 99 };
        let Some(Asked::Query(text)) = Asked::of(long) else { panic!() };
        assert!(text.is_cut && text.sql.starts_with(b"insert"));
    }
}
